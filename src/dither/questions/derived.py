"""Questions that no report is about: worked out from the results of others.

Nobody asks a device for a variance. It rests on two means, that of a number and that of its square, which devices are
asked for, and so do a median, a total or a correlation rest on something that reports tell. A derived question says

- what it `rests_on`: questions that reports answer; a plan asks them, once, whoever rests on them;
- its result, from theirs (`derive`), after all reports have entered these;
- how its error follows from theirs (`sensitivities`): the squared slope of the function by each of them, at what is
  known or believed about users. By it a plan shares users out, and predicts (`predict`).

**Functions of single numbers** (`FunctionOf`) have all of that from the function: slopes by differences, the standard
error from them, and an interval that follows the function as far as the truth may be (`core.confidence`,
`ProfileIntervals`).

**Whom for.** Slopes depend on the users: the larger a mean, the more its error matters to a variance. Where a prior
says nothing, numbers are believed to be spread evenly from a quarter of their domain to its end: neither centred nor at
an end. What is predicted is then no bound, and `remark` says so.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dither.core.confidence import ProfileIntervals
from dither.core.estimate import Bounds, Estimate
from dither.core.mechanism import Domain
from dither.questions.means import MeanOf
from dither.questions.question import CollectedUsers, Expected, Floats, Question, R, Whole
from dither.utility.population import Population

_STEP = 1e-5  # of a mechanism's one, for slopes
_FLAT = 0.1  # of the largest slope: what any number counts at least, when users are shared out
_TWO_OF_THREE = 0.3173  # the chance to be more than one standard error away

Users = Mapping[Question, Population]


@dataclass(frozen=True)
class Derived(Question[R]):
    """A question that is worked out from others."""

    has_prior: ClassVar[bool] = False
    reported: ClassVar[bool] = False

    @cached_property
    def domain(self) -> Domain:
        """No mechanism takes it: that of what it rests on."""
        return self.rests_on[0].domain

    @abstractmethod
    def derive(self, found: Mapping[Question, Any], collected: CollectedUsers) -> R:
        """Its result, from the results of what it rests on, all in their own units."""

    @abstractmethod
    def sensitivities(self, users: Users) -> dict[Question, float]:
        """By how much its MSE / scale^2 grows with that of each question that it rests on."""

    @abstractmethod
    def predict(self, expected: Mapping[Question, Expected], users: Users) -> float:
        """Its standard error, in its own units."""

    def limit(self, weight: float) -> None:
        """None is known."""

    @property
    def unasked(self) -> float:
        return 1.0

    def refine(self, estimate: R, apply: Any, auto: bool) -> R:
        """What it rests on is refined already."""
        return estimate

    def sums(self, column: Any) -> Whole | None:
        return None


@dataclass(frozen=True)
class FunctionOf(Derived[Estimate]):
    """One number that is a function of the single numbers that it rests on, in units of mechanisms."""

    averages: ClassVar[bool] = True
    group: ClassVar[str] = "means"

    @abstractmethod
    def function(self, values: Floats) -> Floats:
        """Its value, of the values of what it rests on along the last axis; NaN where there is none.

        It goes on beyond its `ends`, where noise may lead: cut off there it would be flat, and its interval would not
        find the way back.
        """

    @property
    def shape(self) -> tuple[()]:
        return ()

    @property
    def origin(self) -> float:
        """Its values are distances."""
        return 0.0

    @property
    def ends(self) -> tuple[float, float]:
        return 0.0, self.unit

    @property
    def remark(self) -> str:
        """What must be known about its predicted error."""
        return (
            "predicted is the error for users like those of the prior or, without one, for numbers spread evenly from "
            "a quarter of the domain to its end, with the errors of the means for the worst users."
        )

    def believed(self, users: Users) -> Floats:
        """The values of what it rests on, of users like these; or of those whom slopes are for."""
        return np.array([_believed(each, users.get(each)) for each in self.rests_on])

    @property
    @abstractmethod
    def rests_on(self) -> tuple[MeanOf, ...]: ...

    def _slopes(self, values: Floats) -> Floats:
        steps = _STEP * np.eye(values.size)
        return (self._at(values + steps) - self._at(values - steps)) / (2 * _STEP)

    def sensitivities(self, users: Users) -> dict[Question, float]:
        """Where a function is flat in one number it is not so nearby: nobody asked about it would be too few."""
        squares = self._slopes(self.believed(users)) ** 2
        squares = np.maximum(squares, _FLAT**2 * squares.max())
        return {each: float(square) for each, square in zip(self.rests_on, squares, strict=True)}

    def predict(self, expected: Mapping[Question, Expected], users: Users) -> float:
        errors = np.array([expected[each].error for each in self.rests_on])
        return self.unit * math.sqrt(float((self._slopes(self.believed(users)) ** 2) @ errors**2))

    def derive(self, found: Mapping[Question, Estimate], collected: CollectedUsers) -> Estimate:
        results, before = ([some[each] for each in self.rests_on] for some in (found, collected.apart))
        now, own = (self._in_ones([float(result.value) for result in some]) for some in (results, before))
        errors = np.array([float(one.stderr) / each.unit for each, one in zip(self.rests_on, before, strict=True)])
        if not all(result.n for result in results):
            return self._nothing(collected)
        low, high = (end / self.unit for end in self.ends)
        value = float(np.clip(self._at(now), low, high))
        inside = np.full(len(results), -1.0), np.full(len(results), 1.0)
        rule = ProfileIntervals(self._at, own, errors, low, high, inside)
        wide = replace(rule, low=2 * low - high, high=2 * high - low)
        reach = float(np.subtract(*wide.ends(_TWO_OF_THREE)[::-1])[0]) / 2  # which a function that bends has, too
        stderr = min(reach, (high - low) / 2)
        made = Estimate(
            np.asarray(value),
            np.asarray(stderr if math.isfinite(value) else math.inf),
            sum(one.n for one in results),
            collected.guarantee,
            source=" and ".join(dict.fromkeys(one.source for one in results)),
            notes=(self.how, *([] if math.isfinite(value) else [self.not_known])),
            bounds=Bounds(low, high),
            rule=rule,
        )
        return self.decode(made)

    def _at(self, values: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.function(values)

    def _in_ones(self, values: Sequence[float]) -> Floats:
        """Results of what it rests on, in units of mechanisms."""
        return np.array([(value - each.origin) / each.unit for each, value in zip(self.rests_on, values, strict=True)])

    def _nothing(self, collected: CollectedUsers) -> Estimate:
        unknown = self.unknown(collected.guarantee, "")
        assert unknown is not None
        return self.decode(replace(unknown, bounds=Bounds(*(end / self.unit for end in self.ends))))

    @property
    def how(self) -> str:
        """How it was worked out."""
        return f"Worked out from {' and '.join(map(str, self.rests_on))}."

    @property
    def not_known(self) -> str:
        """Why it has no value."""
        return "It cannot be known from so few reports: the noise is larger than what it is worked out from."

    # What is true, in a trial ------------------------------------------------------------------------------------

    def sums_of(self, columns: Mapping[str, Any]) -> Whole:
        """Of all that it rests on, below each other."""
        return np.concatenate([np.asarray(each.sums_of(columns)) for each in self.rests_on])

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        each_of = np.split(sums, len(self.rests_on))
        told = [float(each.truths(own, users)[str(each)][0]) for each, own in zip(self.rests_on, each_of, strict=True)]
        return {str(self): self.origin + self.unit * np.atleast_1d(self._at(self._in_ones(told)))}


def _believed(question: MeanOf, users: Population | None) -> float:
    """The mean of what a mechanism would be given."""
    return question.believed if users is None else float(users.weights @ users.values)
