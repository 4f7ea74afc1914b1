"""Linear readings: what several sources tell about the shares of one attribute's values, put together.

A mean, a histogram, the share below a threshold and the outputs of a window are all linear in the shares f of the
values of an attribute: what a source tells is y = R f + noise, with rows R that are known and a covariance S that is
known. Sources are independent of each other, since their reports come from different draws. Generalised least squares
then gives, of all unbiased linear estimates of any a f that can be told, the one with the smallest variance (Gauss,
Markov, Aitken):

    f^ = J^-1 sum_r R_r' S_r^-1 y_r,      J = sum_r R_r' S_r^-1 R_r,      Var(a f^) = a J^-1 a'.

So no source makes an estimate worse, and all that is read off one f^ agrees: a mean is that of the histogram beside it.

**Covariances are estimated**, too: of shares they depend on the shares. Those of few reports are as wrong as these, and
in the same direction: a cell that nobody was seen in looks as if that were certain, and by its weight all sources
would be pulled to it. So weights are taken with variances that are drawn towards their mean over a source, which hardly
depends on the shares, as if `_EVEN` more reports had told so. The covariance of what comes out is that of these
weights, sum_r w_r S_r w_r', whether they are the best ones or not.

**Errors of one source** may be known one by one only. They are weighed as if they were independent, and the variance of
what comes out is as if all of them helped each other: the most that any correlation could do.

**What cannot be told** is left alone. The readings span some directions of f and say nothing of the others; the sums
above are taken in an orthonormal basis of what they span, where J can be inverted. A mean and a share below a threshold
without a histogram are then two numbers with nothing between them.

**Slack.** Of a number in cells, a mean over the middles of cells is not quite the mean: a source may be off by a known
`slack`. It is carried through as a bound on the bias: a f^ is off by at most sum_r |weights_r| slack_r.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dither.estimation.simplex import onto_simplex

Floats = NDArray[np.float64]

_RANK = 1e-9  # relative to the largest: directions below are rounding errors
_EXACT = 1e-6  # of the variance of what is known best: the sum of all shares is known
_EVEN = 1000  # reports: chosen, not fitted; `python benchmarks/questions.py` shows the intervals that it is for
_RIDGE = 1e-3  # of the mean variance: shares that add up to one have a direction without any, which an estimated
# covariance misses by a little; without a ridge a sum that is nearly theirs would count as known exactly


class LinearReading(NamedTuple):
    """`value` = `rows` @ shares, with errors of this covariance, from so many reports; off by `slack` at most.

    `loose` is the part of the variances of which it is not known how errors go together, if there is one.
    """

    rows: Floats
    value: Floats
    covariance: Floats
    reports: int
    slack: float = 0.0
    loose: Floats | None = None

    def spread(self, weights: Floats) -> Floats:
        """The covariance of sums with these weights; what is loose counts as if all errors helped each other."""
        if self.loose is None:
            return weights @ self.covariance @ weights.T
        known = weights @ (self.covariance - np.diag(self.loose)) @ weights.T
        apart = (weights * self.loose) @ weights.T
        stated, most = np.sqrt(np.diagonal(apart)), np.abs(weights) @ np.sqrt(self.loose)
        more = np.divide(most, stated, out=np.ones_like(most), where=stated > 0)
        return known + apart * np.outer(more, more)

    @property
    def weighing(self) -> Floats:
        """The covariance that its weight is taken by: drawn towards an even one, and with a ridge."""
        even = np.eye(len(self.value)) * float(np.mean(np.diagonal(self.covariance)))
        return (self.reports * self.covariance + _EVEN * even) / (self.reports + _EVEN) + _RIDGE * even

    @classmethod
    def one_by_one(
        cls, rows: Floats, value: Floats, variance: Floats, reports: int, slack: float = 0.0
    ) -> "LinearReading":
        """Of numbers of which it is not known how their errors go together."""
        return cls(rows, value, np.diag(variance), reports, slack, None if len(value) == 1 else variance)

    @classmethod
    def of_estimate(cls, rows: Floats, estimate: "Numbers", slack: float = 0.0) -> "LinearReading":
        """The numbers of an estimate as a reading."""
        value, stderr, known = np.ravel(estimate.value), np.ravel(estimate.stderr), estimate.covariance
        if known is None:
            return cls.one_by_one(rows, value, stderr**2, estimate.n, slack)
        return cls(rows, value, known.dense(), estimate.n, slack)


class Numbers(Protocol):
    """Numbers with standard errors, and perhaps with how their errors go together."""

    @property
    def value(self) -> Floats: ...
    @property
    def stderr(self) -> Floats: ...
    @property
    def n(self) -> int: ...
    @property
    def covariance(self) -> "Dense | None": ...


class Dense(Protocol):
    """A covariance."""

    def dense(self) -> Floats:
        """The matrix."""
        ...


class Combined(NamedTuple):
    """What was read off all sources together."""

    value: Floats
    covariance: Floats
    bias: Floats  # of each number, at most
    weights: tuple[Floats, ...]  # for each source: by how much each number moves with each of its values


@dataclass(frozen=True, eq=False)
class CombinedReadings:
    """All that some independent sources tell about the shares of an attribute's values.

    >>> mean = LinearReading(np.array([[-1.0, 0.0, 1.0]]), np.array([0.2]), np.array([[1e-4]]), 1000)
    >>> shares = LinearReading.one_by_one(np.eye(3), np.array([0.2, 0.5, 0.3]), np.full(3, 1e-4), 1000)
    >>> both = CombinedReadings((mean, shares))
    >>> [both.of(rows).value.round(4).tolist() for rows in (mean.rows, shares.rows)]
    [[0.1667], [0.1667, 0.5, 0.3333]]
    """

    sources: tuple[LinearReading, ...]

    @cached_property
    def _basis(self) -> Floats:
        """An orthonormal basis of the directions that the sources tell of, a row each."""
        rows = np.concatenate([source.rows for source in self.sources])
        lengths = np.linalg.norm(rows, axis=1)
        _, sizes, directions = np.linalg.svd(rows / np.where(lengths > 0, lengths, 1.0)[:, None], full_matrices=False)
        return directions[sizes > _RANK * sizes.max(initial=0.0)]

    @cached_property
    def _precisions(self) -> tuple[Floats, ...]:
        """For each source R' S^-1, in the basis."""
        found = []
        for source in self.sources:
            told = source.rows @ self._basis.T
            found.append(np.linalg.solve(source.weighing, told).T)
        return tuple(found)

    @cached_property
    def _spread(self) -> Floats:
        """What the covariance of the estimate would be with the covariances of the weights, in the basis."""
        told = (source.rows @ self._basis.T for source in self.sources)
        precision = sum(each @ own for each, own in zip(self._precisions, told, strict=True))
        return np.linalg.inv(np.asarray(precision, dtype=np.float64)).astype(np.float64, copy=False)

    @cached_property
    def _found(self) -> Floats:
        """What is told of the shares, in the basis."""
        told = (each @ source.value for each, source in zip(self._precisions, self.sources, strict=True))
        return self._spread @ sum(told, np.zeros(len(self._basis)))

    @cached_property
    def population(self) -> Floats | None:
        """The shares as those of a population, if all can be told: none is negative, and they add up to one."""
        return onto_simplex(self._found @ self._basis) if len(self._basis) == self._basis.shape[1] else None

    def tells(self, rows: Floats) -> bool:
        """Whether these combinations of shares can be told."""
        rest = rows - rows @ self._basis.T @ self._basis
        return bool(np.abs(rest).max(initial=0.0) <= 1e-6 * max(1.0, float(np.abs(rows).max(initial=0.0))))

    def of(self, rows: Floats) -> Combined:
        """The best unbiased estimate of these combinations of shares."""
        wanted = rows @ self._basis.T
        weights = tuple(wanted @ self._spread @ each for each in self._precisions)
        slacks = (np.abs(own).sum(axis=1) * source.slack for own, source in zip(weights, self.sources, strict=True))
        spreads = (source.spread(own) for own, source in zip(weights, self.sources, strict=True))
        bias, covariance = sum(slacks, np.zeros(len(rows))), sum(spreads, np.zeros((len(rows),) * 2))
        return Combined(wanted @ self._found, covariance, bias, weights)


def combined(sources: Sequence[LinearReading]) -> CombinedReadings:
    """What these sources tell together, and that shares add up to one."""
    least = min(float(np.diagonal(source.covariance).max()) for source in sources)
    values = sources[0].rows.shape[1]
    whole = LinearReading(np.ones((1, values)), np.ones(1), np.full((1, 1), _EXACT * least), 0)
    return CombinedReadings((*sources, whole))
