"""Frequencies from shared hash functions, with error bars that own up to the collisions.

C numbered hash functions are shared by all users; a report names its cohort c, drawn uniformly, and tells of the g
buckets of its function as a frequency oracle does of g categories: it supports the user's bucket with probability p and
any other with q. With randomized response that is `LocalHash`, with unary encoding the count-mean sketch, with Hadamard
response its Hadamard form (`mechanisms.sketches`). A report supports the categories in the buckets that it supports:
one's own with p, and any other, which is in the same bucket one time in g, with q' = q + (p - q) / g.

With hash functions of their own, the accidental collisions of two categories average out over users. Shared ones
collide the same way again and again: the plain reading f_v = (C_v / n - q') / (p - q') then has mean (K f)_v with

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

**Some items.** The table answers for any item, also of a domain that is too large to read whole: `of_items`. What is
not asked for collides, too. How much there is of it, the sum of f_u^2 over all u, is read off the table itself: the
shares of a function's buckets have squares that sum to sum f^2 + (1 - sum f^2) / g, on average over functions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dither.core.domains import Categories
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import MOST_COUNTED, Moments
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.estimation.simplex import onto_simplex
from dither.kernels.hashing import MOST_CATEGORIES, buckets, public_seeds
from dither.mechanisms.frequency import Frequencies, Supported, frequency_estimate

_MOST_WORK = 10**11  # multiplications for the whole matrix, a few seconds; beyond, it is only solved in part
_MOST_FREQUENT = 256
_WORST_CONDITION = 1e10  # in the 1-norm, which is about k times that of a well-behaved matrix
_PRICE = 1.1  # of the variance, for error bars that hold for every single category
_STANDS_OUT = 4.0  # standard errors
_BLOCK = 1 << 22
_FEW_BUCKETS = 64  # up to which collisions are counted by a product of dense matrices
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


@dataclass(frozen=True, eq=False)
class CohortFrequencies:
    """The reading of k categories from a table of C cohorts by g buckets.

    `oracle` is how reports of one cohort tell of its buckets: p and q, how two are supported at once, and how a tally's
    counts become the support counts of cohorts (rows) and buckets (columns). `items` are the numbers of the categories
    where these are not 0 to k - 1 but some of more.
    """

    k: int
    cohorts: int
    oracle: Frequencies
    items: NDArray[np.uint32] | None = None

    @property
    def domain(self) -> Categories:
        """The numbers of the categories."""
        return Categories(self.k)

    @property
    def g(self) -> int:
        """The number of buckets."""
        return self.oracle.k

    @cached_property
    def plain(self) -> Frequencies:
        """The reading that would be right if hash functions were not shared."""
        p, q = self.oracle.p, self.oracle.q
        return Frequencies(self.k, p, q + (p - q) / self.g, supports=self._supports)

    def of_items(self, items: ArrayLike) -> "CohortFrequencies":
        """The reading of these items alone, by their numbers: `mechanism.estimate(tally, reading.of_items([7, 90]))`.

        It takes no more work where they are some of billions.
        """
        numbers = np.asarray(items)
        if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
            raise ParameterError("items must be a list of whole numbers, at least one")
        if numbers.min() < 0 or numbers.max() >= (self.k if self.items is None else MOST_CATEGORIES):
            raise ParameterError(f"items must be numbers of categories: from 0 to {self.k - 1:,}")
        if len(np.unique(numbers)) < len(numbers):
            raise ParameterError("items must be different ones: name each once")
        return replace(self, k=len(numbers), items=numbers.astype(np.uint32))

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
        if self.k > MOST_COUNTED:
            raise ParameterError(
                f"an estimate of 2^{self.k.bit_length() - 1} numbers does not fit; read some of them, with "
                "mechanism.estimate(tally, mechanism.reading.of_items([...]))"
            )
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
        supported = self.oracle.supported or Supported(0, self.g, free=False)
        (plain,) = self.plain.worths(at_once=self.k if supported.most == self.g else None)
        note = "Where the shifts by frequent categories are taken off, a report moves others by a part of what it moves"
        if self.cohorts * self.g * self.k**2 > _MOST_LISTED or self._inverse is None:
            return (plain._replace(exact=False, note=f"{note} these; that is not in the figures. {_TIPPED}"),)
        ends = [_ends(weights, offset, supported) for weights, offset, _ in self._decoding()]
        least, most = (Fraction(float(end)) for end in (min(low for low, _ in ends), max(high for _, high in ends)))
        wider = plain._replace(least=min(least * _OUTWARD, plain.least), most=max(most * _OUTWARD, plain.most))
        return (
            wider._replace(exact=False, note=f"The larger one of the plain reading and of the solved one. {_TIPPED}"),
        )

    @cached_property
    def _decoded_moments(self) -> Moments:
        """For each category (rows), about each category (columns).

        Of reports that support more than one bucket the third moment is a bound: it is at most the variance times the
        largest deviation.
        """
        own = np.eye(self.k, dtype=bool)  # the mean of a decoded report: 1 for its own category
        variance = np.maximum(self._squares(np.eye(self.k)) - own, 0.0)
        third, third_own, most = np.zeros_like(variance), np.zeros_like(variance), np.zeros(self.k)
        p, q = float(self.oracle.p), float(self.oracle.q)
        for weights, offset, cells in self._decoding():
            most = np.maximum(most, (np.abs(weights).sum(axis=2) + np.abs(offset)).max(axis=1))
            if self._one_bucket:
                reports = (q + (p - q) * cells.reshape(self.k, -1)) / self.cohorts
                decoded = (weights + offset[:, :, None]).reshape(self.k, -1)
                third += reports @ (np.abs(decoded) ** 3).T
                third_own += reports @ (np.abs(decoded - 1) ** 3).T
        third = np.where(own, third_own, third) if self._one_bucket else variance * (most + 1)
        return Moments(np.zeros_like(variance), variance, third)

    @property
    def _one_bucket(self) -> bool:
        """Whether a report supports a single bucket: then there are as many reports as buckets."""
        return self.oracle.supported == Supported(1, 1)

    # Partly solved ---------------------------------------------------------------------------------------------

    @property
    def _collision_variance(self) -> float:
        return collision_variance(self.g, self.cohorts)

    def _partly_solved(self, tally: Tally) -> tuple[Shares, Shares]:
        plain = self.plain.value(tally)
        value, variance = plain, self._with_collisions(plain, np.zeros(0, dtype=np.intp), tally)
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
            variance = self._with_collisions(value, frequent, tally)
            spread = variance[frequent].copy()
            variance += shifts**2 @ spread
            variance[frequent] = inverse**2 @ spread
        return value, variance

    def _with_collisions(self, value: Shares, solved: NDArray[np.intp], tally: Tally) -> Shares:
        """The noise of the reports, and the collisions with the categories that were not solved for."""
        noise = self.plain.variance(value) / tally.n
        rest = np.ones(self.k, dtype=bool)
        rest[solved] = False
        if self.items is None:
            # The squares of the estimates hold noise and collisions themselves: on average their sum over the rest is
            # sum(f^2) (1 + (number - 1) * collision variance) + sum(noise). And sum(f^2) cannot exceed one.
            number = max(int(rest.sum()), 1)
            squares = ((value**2 - noise)[rest]).sum() / (1 + (number - 1) * self._collision_variance)
        else:
            squares = self._sum_of_squares(tally) - (value**2 - noise)[~rest].sum()
        return noise + np.clip(squares, 0.0, 1.0) * self._collision_variance

    def _sum_of_squares(self, tally: Tally) -> float:
        """The sum of f^2 over all items, asked for or not, from the squares of the shares of buckets.

        A cell of the table is supported by a report with r / C, where r = q + share (p - q), and a share is read off it
        with the variance (r / C) (1 - r / C) C^2 / (n (p - q)^2).
        """
        n, q, gap = tally.n, float(self.oracle.q), float(self.oracle.p - self.oracle.q)
        supported = self._table(tally.counts) / n
        shares = (supported * self.cohorts - q) / gap
        noise = supported * (1 - supported) * (self.cohorts / gap) ** 2 / n
        together = (shares**2 - noise).sum() / self.cohorts
        return float((together - 1 / self.g) * self.g / (self.g - 1))

    def _collisions(self, categories: NDArray[np.intp]) -> NDArray[np.float64]:
        """The columns of K for these categories."""
        together = np.zeros((self.k, categories.size))
        for _, bucket in self._blocks():
            if self.g <= _FEW_BUCKETS:
                together += _one_hot(bucket, self.g) @ _one_hot(bucket[:, categories], self.g).T
            else:
                for row in bucket:
                    together[_pairs(row, row[categories], self.g)] += 1
        return (together / self.cohorts - 1 / self.g) * self.g / (self.g - 1)

    # Solved ----------------------------------------------------------------------------------------------------

    def _solved(self, tally: Tally) -> tuple[Shares, Shares] | None:
        if self._inverse is None:
            return None
        value = self._inverse @ (self.plain.value(tally) + 1)
        # The mean square under the reports that the nearest distribution would produce, less the square of its mean.
        likely = onto_simplex(value)
        return value, np.maximum(self._squares(likely[None])[0] - likely, 0.0) / tally.n

    def _decoding(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
        """What a report decodes to for each category, some cohorts at a time: an offset, and a weight for each bucket.

        A report decodes to M^-1 (z + 1), with z_v = (1 if v's bucket is supported - q') / (p - q'). So that is linear
        in the buckets that it supports. Weights have the axes category, cohort, bucket; and so have the cells, which
        are 1 where the bucket is the category's. Buckets that hold no category have no weight: they may be left out.
        """
        inverse: Any = self._inverse
        row_sums = inverse.sum(axis=1, keepdims=True)
        gap = float(self.plain.p - self.plain.q)
        offset = row_sums * (1 - float(self.plain.q) / gap)
        width = self.g if self._one_bucket else min(self.g, self.k)
        for _, hashed in self._blocks(width):
            bucket = hashed
            if self.g > width:
                bucket = np.stack([np.unique(row, return_inverse=True)[1] for row in hashed])
            cells = _one_hot(bucket, width)
            shape = self.k, len(bucket), -1
            yield (inverse @ cells / gap).reshape(shape), offset, cells.reshape(shape)

    def _squares(self, populations: Shares) -> Shares:
        """The mean squares of a decoded report for each category (columns), in populations with these shares (rows).

        With weights d_y, of which d_0 is the one of the user's bucket, S_1 their sum and S_2 that of their squares, the
        sum over supported buckets has the mean q S_1 + (p - q) d_0 and, with a and b for two buckets at once, the mean
        square p d_0^2 + q (S_2 - d_0^2) + 2 a d_0 (S_1 - d_0) + b ((S_1 - d_0)^2 - S_2 + d_0^2).
        """
        p, q = float(self.oracle.p), float(self.oracle.q)
        assert self.oracle.pairs is not None
        a, b = map(float, self.oracle.pairs)
        total = np.zeros((len(populations), self.k))
        for weights, offset, cells in self._decoding():
            number, flat = weights.shape[1], (self.k, -1)
            held = populations @ cells.reshape(flat)  # the shares of the buckets
            one, two = weights.sum(axis=2), (weights**2).sum(axis=2)
            own, own_squared = (held @ part.reshape(flat).T for part in (weights, weights**2))
            own_by_sum = held @ (weights * one[:, :, None]).reshape(flat).T
            mean = q * one.sum(axis=1) + (p - q) * own
            square = (q - b) * two.sum(axis=1) + b * (one**2).sum(axis=1)
            square = square + (p - q - 2 * a + 2 * b) * own_squared + 2 * (a - b) * own_by_sum
            total += number * offset[:, 0] ** 2 + 2 * offset[:, 0] * mean + square
        return total / self.cohorts

    @cached_property
    def _inverse(self) -> NDArray[np.float64] | None:
        """M^-1, or None where M is singular or too large, or where the shares need not sum to one."""
        if self.items is not None:
            return None
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

    def _blocks(self, width: int | None = None) -> Iterator[tuple[slice, NDArray[np.intp]]]:
        """Cohorts a few at a time: their numbers, and the bucket of every category under each.

        So few that an array of categories, cohorts and `width` buckets is small.
        """
        seeds = public_seeds(self.cohorts)
        height = max(1, _BLOCK // (self.k * (width or min(self.g, _FEW_BUCKETS))))
        categories = np.arange(self.k, dtype=np.uint32) if self.items is None else self.items
        for at in range(0, self.cohorts, height):
            rows = slice(at, min(at + height, self.cohorts))
            yield rows, buckets(seeds[rows, None], categories, self.g).astype(np.intp)

    def _table(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many reports of each cohort (rows) support each of its buckets (columns)."""
        return self.oracle.supports(counts) if self.oracle.supports else counts

    def _supports(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        table, total = self._table(counts), np.zeros(self.k, dtype=np.int64)
        for rows, bucket in self._blocks():
            total += np.take_along_axis(table[rows], bucket, axis=1).sum(axis=0)
        return total


def _ends(weights: NDArray[np.float64], offset: NDArray[np.float64], supported: Supported) -> tuple[float, float]:
    """The least and the most that reports with these weights decode to; bounds, if they do not support any buckets."""
    if supported == Supported(1, 1):
        low, high = weights.min(axis=2), weights.max(axis=2)
    else:
        low, high = (np.minimum(weights, 0.0).sum(axis=2), np.maximum(weights, 0.0).sum(axis=2))
    return float((low + offset).min()), float((high + offset).max())


def _pairs(bucket: NDArray[np.intp], others: NDArray[np.intp], g: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which categories and which of the others have the same bucket, each pair once: few, of many buckets.

    >>> [part.tolist() for part in _pairs(np.array([5, 0, 5]), np.array([5, 5, 1]), 8)]
    [[0, 0, 2, 2], [0, 1, 0, 1]]
    """
    number = np.bincount(others, minlength=g)
    first, found = np.cumsum(number) - number, number[bucket]
    category = np.repeat(np.arange(bucket.size), found)
    within = np.arange(category.size) - np.repeat(np.cumsum(found) - found, found)
    return category, np.argsort(others, kind="stable")[first[bucket[category]] + within]


def _one_hot(bucket: NDArray[np.intp], g: int) -> NDArray[np.float64]:
    """For each category (rows) and each cohort and bucket (columns), whether the cohort sends it there."""
    cohorts, k = bucket.shape
    cells = np.zeros((k, cohorts * g))
    cells[np.arange(k), bucket + g * np.arange(cohorts)[:, None]] = 1.0
    return cells
