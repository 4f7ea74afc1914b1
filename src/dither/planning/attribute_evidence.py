"""Every report counts: all that reports tell about an attribute enters every estimate about it.

A plan may ask for the mean of an age, its distribution, the share above 65, and ranges of age and income. Each of these
is answered by other users, and all of them tell about the shares of ages. So the results of an attribute are put
together by generalised least squares (`estimation.linear_readings`) before anything else is done to them: every
question keeps its unbiased estimate, with an error that is at most that of its own reports, and what is said about the
attribute agrees, since all is read off one set of shares.

- **Sources** are the results of questions about one attribute (`Question.rows`), the margins of tables, and what ranges
  tell about each of their attributes (`Question.tells`).
- **Tables** are put together in the same way, with what is told about each of their axes.
- **Ranges** are no list of numbers: what others tell about their attributes goes into their marginals, as evidence
  beside their own reports (`ranges.collection`, `RangeReading.beside`).

A source never counts twice in one estimate: ranges are given what others measured themselves, not what was put together
from the ranges.

**Who was asked.** Estimates are of all N users, and parts that ask different users miss different ones. Let each
part k tell y_k from n_k users who were drawn at random, nobody for two parts. The errors of drawing have the variances
S_k^2 (1/n_k - 1/N) and the covariances -S_kl / N, so that of any sum with weights w_k is

    sum w_k^2 S_k^2 / n_k  -  Var(sum w_k y_k) / N,

where the last is the variance over users of what the sum is about. The first is what independent samples of users
without end would have. It is what readings state (`among`), and what weights are chosen by: the second is the same
whatever the weights, as every unbiased sum is about the same. It is taken off at the end, where the shares tell it.
Where every user answers m of q parts, all of this holds for a part of 1/N that is (q - m) / (m (q - 1)) of it
(`WhoWasAsked`): nothing where all answer everything.

**Numbers** are in fine cells, and of a mean over the middles of cells it is known how far it may be off: that is part
of the interval (`Estimate.bias`). Attributes with very many values are left as they are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.covariance import Covariance
from dither.core.decoding import MOST_WHOLE
from dither.core.estimate import Estimate
from dither.estimation.linear_readings import CombinedReadings, LinearReading, combined
from dither.questions.question import Question

Floats = NDArray[np.float64]

MOST_VALUES = 1024  # of an attribute, or cells of a table: the work grows with the third power
_LEFT = 0.01  # of a variance, at least, when what is known of all users is taken off: both are estimates
_SEEN = 1e-3  # the least part of a number that is told: what is below is rounding


class EvidenceSource(NamedTuple):
    """What a question tells about the shares of an attribute's values."""

    question: Question
    reading: LinearReading


Sources = Mapping[str, Sequence[EvidenceSource]]


class WhoWasAsked(NamedTuple):
    """How parts share users: of how many there are, and whether anybody answers two of them."""

    users: int
    parts: int
    answered: int  # by each user

    @property
    def apart(self) -> float:
        """How different the users of two parts are: 1 where nobody answers both, 0 where all do."""
        more = self.parts - 1
        return (self.parts - self.answered) / (self.answered * more) if more else 0.0

    @property
    def among(self) -> int:
        """As if so many might have been asked, and parts had nothing to do with each other."""
        return MOST_WHOLE if self.apart == 1 else min(round(self.users / (1 - self.apart)), MOST_WHOLE)

    @property
    def known(self) -> float:
        """By how much of the variance over users a sum is known better than that."""
        return self.apart / self.users


def sources_of(told: Iterable[tuple[Question, str, LinearReading]]) -> dict[str, list[EvidenceSource]]:
    """What is told about each attribute, by its name."""
    found: dict[str, list[EvidenceSource]] = {}
    for question, name, reading in told:
        known = np.isfinite(reading.covariance).all() and (np.diagonal(reading.covariance) > 0).all()
        if reading.reports and known:
            found.setdefault(name, []).append(EvidenceSource(question, reading))
    return found


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that reports tell about attributes, by their names.

    `alone` are the estimates from a question's own reports, with errors as in independent samples of users without end.
    """

    sources: Sources
    alone: Mapping[Question, Any]

    @cached_property
    def _together(self) -> dict[str, "_Together"]:
        return {name: _Together.of(own) for name, own in self.sources.items()}

    def put_together(self, found: Mapping[Question, Any], known: float = 0.0) -> dict[Question, Any]:
        """These estimates, each from all that is told about its attribute, or table."""
        better: dict[Question, Any] = {}
        for question, estimate in found.items():
            if question.about in self._together:
                better[question] = question.from_all(estimate, self._together[question.about].better(question, known))
            elif len(question.names) > 1:
                lifted = _lifted(question, self.alone.get(question), self.sources)
                if len(lifted) > 1:
                    better[question] = _Together.of(lifted).better(question, known)(np.eye(question.size), estimate)
        return {**found, **better}


class _Together(NamedTuple):
    """All sources about an attribute, and what they tell together."""

    sources: Sequence[EvidenceSource]
    every: CombinedReadings

    @classmethod
    def of(cls, sources: Sequence[EvidenceSource]) -> "_Together":
        return cls(sources, combined([source.reading for source in sources]))

    def better(self, question: Question, known: float) -> Callable[[Floats, Estimate], Estimate]:
        """How numbers of a question are read off all of them."""
        return lambda rows, estimate: self._read(question, rows, estimate, known)

    def _read(self, question: Question, rows: Floats, estimate: Estimate, known: float) -> Estimate:
        alone = len(self.sources) == 1 and estimate.n
        if alone or not self.every.tells(rows):
            return estimate
        told = self.every.of(rows)
        parts = list(zip(self.sources, told.weights, strict=False))  # the last weights are those of the sum of shares
        used = [source for source, weights in parts if _matters(source.reading, weights, rows)]
        if self._told_alone(question, estimate, used):
            return estimate
        covariance = self._of_all_users(told.covariance, rows, estimate, known)
        stderr = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        bias = told.bias
        if question.slack:  # it is of the numbers themselves, of which others know the cells only
            own = sum((weights.sum(axis=1) for source, weights in parts if source.reading.slack), np.zeros(len(rows)))
            bias = np.abs(1 - own) * question.slack
        reports: dict[str, int] = {}
        for source in used:
            reports[str(source.question)] = reports.get(str(source.question), 0) + source.reading.reports
        listed = ", ".join(f"{count:,} about {name}" for name, count in reports.items())
        shape = np.shape(estimate.value)
        return replace(
            estimate,
            value=told.value.reshape(shape),
            stderr=stderr.reshape(shape),
            n=sum(reports.values()),
            notes=(*estimate.notes, f"From all reports that tell about it: {listed}."),
            correlation=_correlation(covariance, stderr),
            variance=_scaled(estimate, stderr),
            bias=bias.reshape(shape) if bias.any() else None,
        )

    def _of_all_users(self, drawn: Floats, rows: Floats, estimate: Estimate, known: float) -> Floats:
        """The covariance for all users; where their spread cannot be told, a number is known as well as by its own."""
        shares = self.every.population
        if shares is not None:
            held = rows @ shares
            left = drawn - known * ((rows * shares) @ rows.T - np.outer(held, held))
            return left + np.diag(np.maximum(_LEFT * np.diagonal(drawn) - np.diagonal(left), 0.0))
        own = np.ravel(estimate.stderr) if estimate.n else np.full(len(rows), np.inf)
        smaller = np.minimum(1.0, own / np.sqrt(np.diagonal(drawn))) if known else np.ones(len(rows))
        return drawn * np.outer(smaller, smaller)

    def _told_alone(self, question: Question, estimate: Estimate, used: Sequence[EvidenceSource]) -> bool:
        """Whether an estimate has all of this already: its own reports, or those of the table that it was read off."""
        if any(source.question == question for source in self.sources):
            return all(source.question == question for source in used)
        from_one = len({source.question for source in used}) == 1
        return from_one and sum(source.reading.reports for source in used) == estimate.n


def _matters(reading: LinearReading, weights: Floats, rows: Floats) -> bool:
    """Whether a source enters these numbers by more than rounding."""
    return bool(np.abs(weights @ reading.rows).max(initial=0.0) > _SEEN * np.abs(rows).max())


def _lifted(question: Question, estimate: Any, sources: Sources) -> list[EvidenceSource]:
    """What is told about the cells of a table: by its own reports, and by others about each of its axes."""
    sizes = question.axis_values
    if not sizes or estimate is None or not estimate.n or prod(sizes) > MOST_VALUES:
        return []
    found = [EvidenceSource(question, LinearReading.of_estimate(np.eye(question.size), estimate))]
    for axis, name in enumerate(question.names):
        before, after = prod(sizes[:axis]), prod(sizes[axis + 1 :])
        for source in sources.get(name, ()):
            if source.question != question and source.reading.rows.shape[1] == sizes[axis]:
                rows = np.stack([np.tile(np.repeat(row, after), before) for row in source.reading.rows])
                found.append(EvidenceSource(source.question, source.reading._replace(rows=rows)))
    return found


def _correlation(covariance: Floats, stderr: Floats) -> Covariance | None:
    """How errors go together, in units of standard errors; of a single number there is nothing to tell."""
    if stderr.size == 1:
        return None
    unit = np.where(stderr > 0, 1 / np.where(stderr > 0, stderr, 1.0), 0.0)
    return Covariance(np.zeros(stderr.size), np.eye(stderr.size), covariance * np.outer(unit, unit))


def _scaled(estimate: Estimate, stderr: Floats) -> Any:
    """The variance of an item by its truth, smaller by as much as the items' own are on average."""
    before = float(np.mean(np.square(estimate.stderr)))
    known = estimate.variance is not None and before > 0
    return estimate.variance * (float(np.mean(stderr**2)) / before) if known else None  # type: ignore[operator]
