"""Frequencies from shared hash functions, with error bars that own up to the collisions.

C numbered hash functions are shared by all users; a report names its cohort c, drawn uniformly, and a bucket y.
With hash functions of their own, the accidental collisions of two categories average out over users. Shared ones
collide the same way again and again: the plain reading f_v = (C_v / n - 1/g) / (p - 1/g) then has mean (K f)_v with

    K[v, u] = (share of cohorts where v and u collide - 1/g) * g / (g - 1),     K[v, v] = 1,

so one frequent category u shifts every other by K[v, u] f_u, which no number of users repairs. Two honest readings:

- **solved**: K is public, and frequencies sum to one, so M = K + 11' gives the unbiased reading M^-1 (plain + 1) where
  M is regular, which needs C (g - 1) + 1 >= k. It pays with variance when C (g - 1) is not much larger than k. The
  variance is the exact one of the decoded report, at the distribution that is nearest to the estimate.
- **partly solved**: only for the categories that stand out of the noise; their shifts are taken off the others. The
  collisions of the rest stay as noise: over the choice of hash functions they have variance sum of
  f_u^2 / ((g - 1) C), which is added. On average over categories these intervals cover; for one category the shift is
  fixed for as long as the cohorts are.

The solved reading is taken unless its average variance is more than a tenth above the other's; `explain()` says which.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import Categories
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Moments
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.estimation.simplex import onto_simplex
from dither.kernels.hashing import buckets, public_seeds
from dither.mechanisms.frequency import Frequencies, frequency_estimate

_MOST_WORK = 10**11  # multiplications for the whole matrix, a few seconds; beyond, it is only solved in part
_MOST_FREQUENT = 256
_WORST_CONDITION = 1e10  # in the 1-norm, which is about k times that of a well-behaved matrix
_PRICE = 1.1  # of the variance, for error bars that hold for every single category
_STANDS_OUT = 4.0  # standard errors
_BLOCK = 1 << 22
_MOST_LISTED = 10**8  # multiplications, a tenth of a second
_OUTWARD = Fraction(10**9 + 1, 10**9)
_TIPPED = (
    "Which reading is taken depends on the reports: one that tips the scale moves an estimate by what lies between the "
    "readings, beyond these figures."
)

Shares = NDArray[np.float64]


def collision_variance(g: int, cohorts: int) -> float:
    """The variance of K[v, u] over the choice of hash functions: by which one that everybody holds shifts another."""
    return 1 / ((g - 1) * cohorts)


@dataclass(frozen=True)
class CohortFrequencies:
    """The reading of k categories from a table of C cohorts by g buckets."""

    k: int
    g: int
    cohorts: int
    p: Fraction

    @property
    def domain(self) -> Categories:
        """The numbers of the categories."""
        return Categories(self.k)

    @property
    def plain(self) -> Frequencies:
        """The reading that would be right if hash functions were not shared."""
        return Frequencies(self.k, self.p, Fraction(1, self.g), supports=self._supports)

    def worst_variance(self, share: float = 1.0) -> float:
        """The largest variance of one report, averaged over categories, where this share of the users is asked."""
        if self._inverse is None:
            return self.plain.worst_variance(share)
        worst = float(self._decoded_moments.variance.mean(axis=1).max())
        return worst + (1 - share) * (1 - 1 / self.k) / self.k

    def covariance(self, shares: Shares, unasked: float = 0.0) -> None:
        """It is not known: categories that collide under a function go together."""

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimate:
        """Frequencies with standard errors, by the better of the two readings."""
        (value, variance), solved = self._partly_solved(tally), self._solved(tally)
        note = (
            f"{self.cohorts:,} shared hash functions: the shifts by frequent categories were taken off; the other "
            "collisions are part of the standard errors, which hold on average over categories."
        )
        if solved is not None and solved[1].mean() < _PRICE * variance.mean():
            value, variance = solved
            note = (
                f"{self.cohorts:,} shared hash functions: the collisions of categories are known and were solved for."
            )
        return frequency_estimate(value, variance, tally.n, guarantee, source, among, note)

    def moments(self, x: Any) -> Moments:
        """Of the solved reading; where it cannot be solved, of the plain report, averaged over hash functions.

        The latter leaves out the shifts by categories that collide, since these do not shrink with more reports.
        """
        if self._inverse is None:
            return self.plain.moments(x)
        own, all_ = self.domain.check(x), self._decoded_moments
        return Moments(all_.bias[own], all_.variance[own], all_.third[own])

    def worths(self) -> Worths:
        """What a report is worth, at most, in the plain reading and, where it is known, in the solved one.

        The latter is that of floating-point numbers, rounded outwards.
        """
        (plain,) = self.plain.worths(at_once=None)
        note = "Where the shifts by frequent categories are taken off, a report moves others by a part of what it moves"
        if self.cohorts * self.g * self.k**2 > _MOST_LISTED or self._inverse is None:
            return (plain._replace(exact=False, note=f"{note} these; that is not in the figures. {_TIPPED}"),)
        ends = [(decoded.min(), decoded.max()) for decoded, _ in self._decoded(np.full(self.k, 1 / self.k))]
        least, most = (Fraction(float(end)) for end in (min(low for low, _ in ends), max(high for _, high in ends)))
        wider = plain._replace(least=min(least * _OUTWARD, plain.least), most=max(most * _OUTWARD, plain.most))
        return (
            wider._replace(exact=False, note=f"The larger one of the plain reading and of the solved one. {_TIPPED}"),
        )

    @cached_property
    def _decoded_moments(self) -> Moments:
        """For each category (rows), about each category (columns)."""
        square, third, third_own = (np.zeros((self.k, self.k)) for _ in range(3))
        for decoded, reports in self._decoded(np.eye(self.k)):
            square += reports @ (decoded**2).T
            third += reports @ (np.abs(decoded) ** 3).T
            third_own += reports @ (np.abs(decoded - 1) ** 3).T
        own = np.eye(self.k, dtype=bool)  # the mean of a decoded report: 1 for its own category
        return Moments(np.zeros_like(square), np.maximum(square - own, 0.0), np.where(own, third_own, third))

    # Partly solved ---------------------------------------------------------------------------------------------

    @property
    def _collision_variance(self) -> float:
        return collision_variance(self.g, self.cohorts)

    def _partly_solved(self, tally: Tally) -> tuple[Shares, Shares]:
        plain = self.plain.value(tally)
        value, variance = plain, self._with_collisions(plain, np.zeros(0, dtype=np.intp), tally.n)
        most = min(_MOST_FREQUENT, (self.g - 1) * self.cohorts // 4) if self.cohorts > 4 else 0
        for _ in range(3):  # taking off the largest shifts uncovers further categories
            frequent = np.flatnonzero(value > _STANDS_OUT * np.sqrt(variance))
            frequent = frequent[np.argsort(-value[frequent], kind="stable")][:most]
            if frequent.size == 0:
                break
            shifts = self._collisions(frequent)
            inverse = np.linalg.pinv(shifts[frequent])
            solved = inverse @ plain[frequent]
            value = plain - shifts @ solved
            value[frequent] = solved
            variance = self._with_collisions(value, frequent, tally.n)
            spread = variance[frequent].copy()
            variance += shifts**2 @ spread
            variance[frequent] = inverse**2 @ spread
        return value, variance

    def _with_collisions(self, value: Shares, solved: NDArray[np.intp], n: int) -> Shares:
        """The noise of the reports, and the collisions with the categories that were not solved for."""
        noise = self.plain.variance(value) / n
        rest = np.ones(self.k, dtype=bool)
        rest[solved] = False
        # The squares of the estimates hold noise and collisions themselves: on average their sum over the rest is
        # sum(f^2) (1 + (number - 1) * collision variance) + sum(noise). And sum(f^2) cannot exceed one.
        number = max(int(rest.sum()), 1)
        squares = ((value**2 - noise)[rest]).sum() / (1 + (number - 1) * self._collision_variance)
        return noise + np.clip(squares, 0.0, 1.0) * self._collision_variance

    def _collisions(self, categories: NDArray[np.intp]) -> NDArray[np.float64]:
        """The columns of K for these categories."""
        together = np.zeros((self.k, categories.size))
        for _, bucket in self._blocks():
            together += _one_hot(bucket, self.g) @ _one_hot(bucket[:, categories], self.g).T
        return (together / self.cohorts - 1 / self.g) * self.g / (self.g - 1)

    # Solved ----------------------------------------------------------------------------------------------------

    def _solved(self, tally: Tally) -> tuple[Shares, Shares] | None:
        if self._inverse is None:
            return None
        value = self._inverse @ (self.plain.value(tally) + 1)
        # The mean square under the reports that the nearest distribution would produce, less the square of its mean.
        likely = onto_simplex(value)
        square = sum(decoded**2 @ reports for decoded, reports in self._decoded(likely))
        return value, np.maximum(square - likely, 0.0) / tally.n

    def _decoded(self, population: Shares) -> Iterator[tuple[NDArray[np.float64], Shares]]:
        """What reports decode to for each category (rows), and how likely each report is, some cohorts at a time.

        A report (c, y) decodes to M^-1 (z + 1) with z_v = (1{v in bucket y} - 1/g) / (p - 1/g).
        """
        inverse: Any = self._inverse
        row_sums = inverse.sum(axis=1, keepdims=True)
        gap, low = float(self.p - Fraction(1, self.g)), float((1 - self.p) / (self.g - 1))
        for _, bucket in self._blocks():
            cells = _one_hot(bucket, self.g)
            decoded = (inverse @ cells - row_sums / self.g) / gap + row_sums
            yield decoded, (low + (float(self.p) - low) * (population @ cells)) / self.cohorts

    @cached_property
    def _inverse(self) -> NDArray[np.float64] | None:
        """M^-1, or None where M is singular or too large."""
        if self.cohorts * (self.g - 1) + 1 < self.k or self.cohorts * self.g * self.k**2 > _MOST_WORK:
            return None
        matrix = self._collisions(np.arange(self.k)) + 1
        try:
            inverse = np.linalg.inv(matrix).astype(np.float64)
        except np.linalg.LinAlgError:
            return None
        condition = np.linalg.norm(matrix, 1) * np.linalg.norm(inverse, 1)
        return inverse if condition < _WORST_CONDITION else None

    # Hash tables -----------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[tuple[slice, NDArray[np.intp]]]:
        """Cohorts a few at a time: their numbers, and the bucket of every category under each."""
        seeds = public_seeds(self.cohorts)
        height = max(1, _BLOCK // (self.k * self.g))
        categories = np.arange(self.k, dtype=np.uint32)
        for at in range(0, self.cohorts, height):
            rows = slice(at, min(at + height, self.cohorts))
            yield rows, buckets(seeds[rows, None], categories, self.g).astype(np.intp)

    def _supports(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.zeros(self.k, dtype=np.int64)
        for rows, bucket in self._blocks():
            total += np.take_along_axis(counts[rows], bucket, axis=1).sum(axis=0)
        return total


def _one_hot(bucket: NDArray[np.intp], g: int) -> NDArray[np.float64]:
    """For each category (rows) and each cohort and bucket (columns), whether the cohort sends it there."""
    cohorts, k = bucket.shape
    cells = np.zeros((k, cohorts * g))
    cells[np.arange(k), bucket + g * np.arange(cohorts)[:, None]] = 1.0
    return cells
