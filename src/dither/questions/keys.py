"""Statistics of keys that users hold some of, with a value each: who holds which, and what it is worth to them.

- `presence(films)`: the share of users who hold a key;
- `mean(films)`: the mean over all users, where a key that a user does not hold counts as the middle of its values.

One report answers both. It answers more, for which no error can be predicted, since it is not known how many hold a
key; so they are not asked for, and come with these two:

- `conditional_mean(films)`: the mean of a key among those who hold it;
- `frequency(films)`: the shares of users who hold a key with the lower and with the upper end of its values.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from dither.core.cell_weights import CellWeights
from dither.core.confidence import RatioIntervals
from dither.core.estimate import Estimate
from dither.core.sparse_domain import Sparse
from dither.core.worth import Worth, Worths
from dither.display.significant_digits import plain_number
from dither.errors import ParameterError
from dither.questions.question import Floats, Question, Whole, from_steps, steps
from dither.schema import Attribute, Schema
from dither.utility.limits import Parameters, sparse
from dither.utility.population import Population

_BLOCK = 1 << 22  # numbers of a table of moments in memory at once


@dataclass(frozen=True)
class KeyQuestion(Question[Estimate]):
    """A number for each key."""

    group: ClassVar[str] = "keys"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind == "keyvalue"

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        asked = super().read(schema, inside)
        if asked is not None and cls.derived:
            raise ParameterError(
                f"{asked} comes with presence({asked.name}) and mean({asked.name}), and has an error only when it is "
                f"known how many hold a key: ask for these"
            )
        return asked

    @cached_property
    def domain(self) -> Sparse:
        return self.attribute.domain

    def encode_value(self, value: Any) -> np.void:
        return self.attribute.encode_value(value)

    @cached_property
    def kind(self) -> tuple[Hashable, str]:
        return self.domain, self.statistic

    @property
    def together(self) -> str:
        return self.name

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.attribute.d,)

    @property
    def labels(self) -> tuple[str, ...] | None:
        return self.attribute.labels

    @property
    def held(self) -> float:
        """The largest share of the keys that a user can hold."""
        return self.attribute.size / self.attribute.d

    @property
    def useless(self) -> float:
        """The squares of the keys that users hold s of add up to at most s."""
        return self.unit * self.held**0.5 / 1.96

    @property
    def unasked(self) -> float:
        """Of the centre: the squares of the means add up to at most s."""
        return self.held

    def limit(self, weight: float) -> tuple[Parameters, ...]:
        return sparse(self.domain.d, self.domain.s, self.statistic, weight)

    def weighted_limit(self, weight: float, cells: CellWeights) -> tuple[Parameters, ...]:
        return sparse(self.domain.d, self.domain.s, self.statistic, weight, cells)

    def select(self, own: Mapping[str, Estimate], place: int, count: int) -> Estimate:
        return own[self.statistic]

    def worth(self, worths: Worths, place: int, count: int) -> Worth | None:
        return next((worth for worth in worths if worth.question == self.statistic), None)

    @property
    def beside(self) -> tuple[Question, ...]:
        return tuple(each(self.name, self.attribute) for each in (ConditionalMeanOf, FrequencyOf))

    def answered_by(self, own: Mapping[str, Estimate]) -> bool:
        return self.statistic in own

    def refine(self, estimate: Estimate, apply: Callable[[Estimate], Estimate], auto: bool) -> Estimate:
        """What comes with the others stays as it is: of how many users it is, is not known of every key."""
        return estimate if self.derived else apply(estimate)

    def sums(self, column: Any) -> Whole:
        encoded = self.encode(column, "substitute")
        held = encoded["key"] >= 0
        keys = encoded["key"][held]
        count = np.bincount(keys, minlength=self.attribute.d)
        return np.stack([count, *steps(encoded["value"][held], keys, self.attribute.d)])

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        total, number = from_steps(sums), self.attribute
        with np.errstate(invalid="ignore"):  # nobody holds a key
            among = number.centre + number.half_width * (total / sums[0])
        own = number.centre + self.unit * (total / users) if self.averages else sums[0] / users
        return {str(self): own, str(ConditionalMeanOf(self.name, number)): among}


class PresenceOf(KeyQuestion):
    """The share of users who hold a key."""

    statistic: ClassVar[str] = "presence"
    needs: ClassVar[str] = "presence"
    title: ClassVar[str] = "who has which"

    @property
    def sought(self) -> str:
        return f"for each thing of {self.name}, the share of people who have it"

    @property
    def unasked(self) -> float:
        """With h = s/d, h for each, but at most 1/2, costs h (1 - h)."""
        return (1 - min(self.held, 0.5)) * min(self.held, 0.5)

    def follows_from(self, other: Question) -> bool:
        """The mean of keys tells apart all that their presence does."""
        return other == KeyMeanOf(self.name, self.attribute)


class KeyMeanOf(KeyQuestion):
    """The mean of a key over all users."""

    statistic: ClassVar[str] = "mean"
    needs: ClassVar[str] = "mean"
    averages: ClassVar[bool] = True
    title: ClassVar[str] = "mean over all users"

    @property
    def sought(self) -> str:
        middle = plain_number(self.attribute.centre)
        return (
            f"for each thing of {self.name}, the mean of its number over all people (not to have it counts as {middle})"
        )

    @property
    def caption(self) -> str:
        return f"Who does not have a key counts as {plain_number(self.attribute.centre)}, the middle."


class ConditionalMeanOf(KeyQuestion):
    """The mean of a key among those who hold it."""

    derived: ClassVar[bool] = True
    statistic: ClassVar[str] = "conditional_mean"
    averages: ClassVar[bool] = True
    title: ClassVar[str] = "mean among those who have it"

    @property
    def sought(self) -> str:
        return f"for each thing of {self.name}, the mean of its number among those who have it"

    def stratified(self, terms: Sequence[Estimate], weights: Sequence[float]) -> Estimate | None:
        """No mean of ratios: the ratio of what all hold to how many hold it."""
        known = [(term, weight) for term, weight in zip(terms, weights, strict=True) if weight and term.n]
        shape, n = np.shape(terms[0].value), sum(term.n for term, _ in known)
        notes = tuple(dict.fromkeys(note for term, _ in known for note in term.notes))
        source = "; ".join(dict.fromkeys(term.source for term, _ in known))
        if len(known) < sum(weight > 0 for weight in weights):  # of some it is not known how many hold what
            return terms[0].with_numbers(
                np.full(shape, np.nan), np.full(shape, np.inf), n=n, source=source, notes=notes
            )
        rule = RatioIntervals(*(np.zeros(shape) for _ in range(5)))
        for term, weight in known:
            own: Any = term.rule  # such a ratio has its rule from the mechanism
            rule = rule.plus(own, weight)
        return terms[0].with_numbers(*rule.point(), n=n, source=source, notes=notes, rule=rule)


class FrequencyOf(KeyQuestion):
    """The shares of users who hold a key with the lower end of its values, and with the upper one."""

    derived: ClassVar[bool] = True
    statistic: ClassVar[str] = "frequency"

    @property
    def sought(self) -> str:
        return f"for each thing of {self.name}, the shares of people who have it at the lower and at the upper end"

    @property
    def shape(self) -> tuple[int, int]:
        return self.attribute.d, 2

    @property
    def labels(self) -> tuple[str, ...] | None:
        names, ends = self.attribute.labels, (self.attribute.low, self.attribute.high)
        return names and tuple(f"{name} at {end:g}" for name in names for end in ends)


def variances_of_keys(reading: Any, users: Population, share: float) -> Floats:
    """For each key the variance of one report, for these users, where a random share of them is asked.

    The moments of a vector are a table of its own, so it is some vectors at a time.
    """
    d = reading.domain.d
    noise, mean, square = np.zeros(d), np.zeros(d), np.zeros(d)
    step = max(1, _BLOCK // d)
    for start in range(0, len(users.values), step):
        some, weights = users.values[start : start + step], users.weights[start : start + step]
        found, truth = reading.moments(some), reading.truth(some)
        noise += weights @ (found.variance + found.bias**2)
        mean += weights @ truth
        square += weights @ truth**2
    return noise + (1 - share) * np.maximum(square - mean**2, 0.0)
