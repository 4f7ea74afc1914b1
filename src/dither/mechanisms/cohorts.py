"""Frequencies from shared hash functions, with error bars that own up to the collisions.

C numbered hash functions are shared by all users; a report names its cohort c, drawn uniformly, and a bucket y.
With hash functions of their own, the accidental collisions of two categories average out over users. Shared ones
collide the same way again and again: the plain reading f_v = (C_v / n - 1/g) / (p - 1/g) then has mean (K f)_v with

    K[v, u] = (share of cohorts where v and u collide - 1/g) * g / (g - 1),     K[v, v] = 1,

so one frequent category u shifts every other by K[v, u] f_u, which no number of users repairs. Two honest readings:

- **solved**: K is public, so K^-1 times the plain reading is unbiased. Its variance per report is the second
  moment of the decoded report, estimated by its mean over the reports, less f_v (what a noiseless report would have).
  Needs a regular K, so C (g - 1) >= k, and pays for it when C (g - 1) is not much larger than k.
- **widened**: the plain reading, with the variance of the collisions over the choice of hash functions added:
  sum over u != v of f_u^2 / ((g - 1) C). On average over categories the intervals cover; for one category the
  shift is fixed for as long as the cohorts are.

The reading with the smaller average variance is taken; `explain()` says which.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.domain import Categories
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.core.hashing import buckets, public_seeds
from dither.core.mechanism import Moments
from dither.core.tally import Tally
from dither.mechanisms.frequency import Frequencies

_MOST_WORK = 10**11  # cohorts * g * k^2 multiplications, a few seconds; beyond, collisions are only added to the error
_BLOCK = 1 << 22


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

    def _blocks(self):
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

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str) -> Estimate:
        """Frequencies with standard errors, by the better of the two readings."""
        value = self.plain.value(tally)
        variance = self._widened(value, tally.n)
        note = (
            f"{self.cohorts:,} shared hash functions: the standard errors include the accidental collisions of "
            "categories, on average over categories."
        )
        solved = self._solved(value, tally)
        if solved is not None and solved[1].mean() < variance.mean():
            value, variance = solved
            note = (
                f"{self.cohorts:,} shared hash functions: the collisions of categories are known and were solved for."
            )
        return Estimate(value, np.sqrt(variance), tally.n, guarantee, "frequency", source=source, notes=(note,))

    def _widened(self, value: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        noise = self.plain.variance(value) / n
        spread = 1 / ((self.g - 1) * self.cohorts)
        # The squares of the estimates hold noise and collisions themselves: on average their sum is
        # sum(f^2) (1 + (k - 1) spread) + sum(noise).
        power = max(((value**2).sum() - noise.sum()) / (1 + (self.k - 1) * spread), 0.0)
        own = np.clip(value**2 - noise - power * spread, 0.0, power)
        return noise + (power - own) * spread

    def _solved(self, value: NDArray[np.float64], tally: Tally) -> tuple[NDArray, NDArray] | None:
        if self._inverse is None:
            return None
        exact = self._inverse @ value
        # The decoded report is a row of K^-1 times plain scores (1{hash = y} - 1/g) / (p - 1/g). Its mean square
        # over the reports, a block of cohorts at a time: `sums` holds, for each cohort and bucket, the row's sum
        # over that bucket.
        centre = self._inverse.sum(axis=1, keepdims=True) / self.g
        square = np.zeros(self.k)
        for rows, bucket in self._blocks():
            sums = self._inverse @ _one_hot(bucket, self.g)
            square += (sums - centre) ** 2 @ tally.counts[rows].ravel()
        gap = float(self.p - Fraction(1, self.g))
        share = np.clip(exact, 0.0, 1.0)
        return exact, np.maximum(square / gap**2 / tally.n - share, 0.0) / tally.n

    @cached_property
    def _inverse(self) -> NDArray[np.float64] | None:
        """K^-1, or None where K is singular or too large."""
        if self.cohorts * (self.g - 1) < self.k or self.cohorts * self.g * self.k**2 > _MOST_WORK:
            return None
        together = np.zeros((self.k, self.k))
        for _, bucket in self._blocks():
            cells = _one_hot(bucket, self.g)
            together += cells @ cells.T
        matrix = (together / self.cohorts - 1 / self.g) * self.g / (self.g - 1)
        return np.linalg.inv(matrix).astype(np.float64) if np.linalg.cond(matrix) < 1e8 else None

    def moments(self, x: Any) -> Moments:
        """Of the plain report, averaged over hash functions."""
        return self.plain.moments(x)


def _one_hot(bucket: NDArray[np.intp], g: int) -> NDArray[np.float64]:
    """For each category (rows) and each cohort and bucket (columns), whether the cohort sends it there."""
    cohorts, k = bucket.shape
    cells = np.zeros((k, cohorts * g))
    cells[np.arange(k), bucket + g * np.arange(cohorts)[:, None]] = 1.0
    return cells
