"""From support counts to frequencies: the reading that all categorical mechanisms share.

Whatever a report looks like, it *supports* some categories: the one it names, the bits it sets, the values its hash
sends to its bucket. A report supports its own value with probability p and any other with probability q. So the
count C_v of supporting reports among n, of which a share f_v holds v, has mean n (q + f_v (p - q)), and

    estimate   f_v = (C_v / n - q) / (p - q)
    variance   [f_v p (1 - p) + (1 - f_v) q (1 - q)] / (n (p - q)^2)        (002 eq. 43, exact for every f_v)

The standard error uses the estimate, cut to [0, 1], in place of f_v. p and q are rationals of the sampler's integers.
Where only a random share of the users was asked, f_v (1 - f_v) (1 - share) is added for each report.

**Categories together.** Let a report support two categories at once with probability a if its user holds one of them,
and b if neither. Given the values, the counts of u and v then have, for each report and averaged over users,

    covariance   (f_u + f_v) (a - p q) + (1 - f_u - f_v) (b - q^2)

which is c_0 + c_1 (f_u + f_v): of rank two beside the diagonal (`core.covariance`). For bits and hash values that are
independent a = p q and b = q^2, and there is no covariance; a report of one category has a = b = 0. Who was not asked
adds -f_u f_v (1 - share). The shares put in are the nearest distribution to the estimate, so that no sum of categories
gets a negative variance; the standard errors stay those of above.

**Groups of categories.** Where the categories are the cells of a contingency table, an axis of it cuts them into groups
of c cells each, and a report supports S of the c cells of a group. Its first two moments follow from the same four
probabilities, for a user inside the group and for one outside:

    E[S | inside] = p + (c-1) q                           E[S | outside] = c q
    E[S^2 | inside] = p + (c-1) (q + 2 a + (c-2) b)       E[S^2 | outside] = c (q + (c-1) b)

and so do the products of the counts of two groups: c a + c (c-1) b for a user in one of them, and c^2 b for others. So
the sum of the cells of a group is an estimate like that of a category, with the same gap p - q, and all of the above
holds for it with these moments: exactly, for every population. `along` is that reading; c = 1 is that of categories.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from dither.core.counted_covariance import CountedCovariance
from dither.core.covariance import Covariance
from dither.core.domains import Categories
from dither.core.estimate import SHARES, Estimate
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import HonestSums, Sums
from dither.core.mechanism import Moments
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.estimation.simplex import onto_simplex

_KEPT = 1 << 10

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]


class PairSupport(NamedTuple):
    """How likely a report supports two categories at once."""

    own: Fraction  # if its user holds one of them
    other: Fraction  # if its user holds neither

    @classmethod
    def independent(cls, p: Fraction, q: Fraction) -> "PairSupport":
        """Of reports that support every category on its own account."""
        return cls(p * q, q * q)


class Supported(NamedTuple):
    """How many categories a valid report supports: any `fewest` to `most` of them.

    Where it is not `free`, perhaps not any: a hash function has to be found that joins them.
    """

    fewest: int
    most: int
    free: bool = True


class _GroupCounts(NamedTuple):
    """Of the cells of a group that a report supports: mean and variance for a user inside it, and for one outside."""

    inside: Fraction
    outside: Fraction
    inside_variance: Fraction
    outside_variance: Fraction


@lru_cache(_KEPT)
def _group_counts(p: Fraction, q: Fraction, pairs: PairSupport | None, c: int) -> _GroupCounts:
    """The moments of the cells of a group of c that a report supports; axes of one length have the same."""
    inside, outside = p + (c - 1) * q, c * q
    if c == 1:
        return _GroupCounts(inside, outside, p * (1 - p), q * (1 - q))
    if pairs is None:
        raise ParameterError("groups are read where it is known how a report supports two categories at once")
    more = 2 * pairs.own + (c - 2) * pairs.other
    inside_variance = inside + (c - 1) * more - inside**2
    return _GroupCounts(inside, outside, inside_variance, outside + c * (c - 1) * pairs.other - outside**2)


@lru_cache(_KEPT)
def _group_variances(p: Fraction, q: Fraction, pairs: PairSupport | None, c: int) -> tuple[float, float]:
    """Of what a report adds to the share of a group of c, for a user inside and for one outside."""
    counted = _group_counts(p, q, pairs, c)
    return float(counted.inside_variance / (p - q) ** 2), float(counted.outside_variance / (p - q) ** 2)


@dataclass(frozen=True)
class Frequencies:
    """The reading of k categories; `supports` turns a tally's counts into support counts where they differ.

    `pairs` is known where the same holds for every two categories, and `supported` where valid reports are told by how
    many of them they support. Where pairs differ and counts are those of outputs, `supported_by` adds up weights of
    categories for each output, over those that it supports. Of groups, k is their number, and each has so many `cells`,
    of which the rest speaks.
    """

    k: int
    p: Fraction
    q: Fraction
    supports: Callable[[Counts], Counts] | None = field(default=None, compare=False)
    pairs: PairSupport | None = None
    supported_by: Callable[[Shares], Shares] | None = field(default=None, compare=False)
    supported: Supported | None = None
    cells: int = 1

    @property
    def domain(self) -> Categories:
        """The numbers of the categories, or of the groups."""
        return Categories(self.k)

    def along(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> "Frequencies | None":
        """The reading of some axes of a table whose cells are the categories, in the order of `numpy.ravel`.

        None where it is not known how a report supports two categories at once.
        """
        if math.prod(shape) != self.k or not axes or len(set(axes)) < len(axes):
            raise ParameterError(f"a table of {self.k} cells needs a shape of so many, and axes of it, each once")
        if self.pairs is None:
            return None
        own, kept = self.supports, math.prod(shape[axis] for axis in axes)

        def summed(counts: Counts) -> Counts:
            return _summed(own(counts) if own else counts, shape, axes)

        return replace(self, k=kept, cells=self.cells * (self.k // kept), supports=summed)

    @cached_property
    def _counted(self) -> _GroupCounts:
        return _group_counts(self.p, self.q, self.pairs, self.cells)

    @cached_property
    def _variances(self) -> tuple[float, float]:
        """Of one report, for a user inside and for one outside."""
        return _group_variances(self.p, self.q, self.pairs, self.cells)

    def value(self, tally: Tally) -> Shares:
        """Unbiased frequencies."""
        counts = self.supports(tally.counts) if self.supports else tally.counts
        return (counts / tally.n - float(self._counted.outside)) / float(self.p - self.q)

    def variance(self, frequency: Shares | float) -> Shares:
        """The variance that one report contributes, averaged over users of whom this share holds the category."""
        own, other = self._variances
        share = np.clip(frequency, 0.0, 1.0)
        return share * own + (1 - share) * other

    def covariance(self, shares: Shares, unasked: float = 0.0) -> Covariance | None:
        """What one report contributes to the covariance of all categories, of users with these shares.

        `unasked` is the share of the users who might have been asked and were not.
        """
        if self.pairs is None:
            return None
        c, gap, (inside, outside, *_) = self.cells, (self.p - self.q) ** 2, self._counted
        base = (c * c * self.pairs.other - outside * outside) / gap
        more = (c * self.pairs.own + c * (c - 1) * self.pairs.other - inside * outside) / gap - base
        core = np.array([[float(base), float(more)], [float(more), -unasked]])
        diagonal = self.variance(shares) - float(base) - 2 * float(more) * shares + unasked * shares
        return Covariance(diagonal, np.stack([np.ones(self.k), shares], axis=1), core)

    def covariance_of_sums(self, rows: Shares, shares: Shares, unasked: float = 0.0) -> Shares | None:
        """The matrix of what one report contributes to some sums of categories, one a row, of users with these shares.

        None where it is known neither of two categories what supports both, nor of an output what it supports. Outputs
        come as often as such users would send them: an output has one chance for those whose category it supports, and
        another for all others.
        """
        if self.pairs is not None or self.supported_by is None:
            known = self.covariance(shares, unasked)
            return None if known is None else rows @ known.dense() @ rows.T
        p, q = float(self.p), float(self.q)
        supporting = float(self.supported_by(np.eye(1, self.k)[0]).sum())  # outputs, of each category
        supported = self.supported_by(shares)
        high, low = p / supporting, (1 - p) / (supported.size - supporting)
        outputs = low + (high - low) * supported
        of_one = CountedCovariance(
            self.supported_by, p, q, outputs, shares, unasked, np.ones(self.k), np.arange(self.k)
        )
        return of_one.of_sums(rows)

    def _of_outputs(self, tally: Tally, value: Shares, unasked: float) -> CountedCovariance | None:
        """The covariance of one report, from how often each output came."""
        if self.supported_by is None:
            return None
        p, q, outputs = float(self.p), float(self.q), tally.counts / tally.n
        every = np.arange(self.k)
        return CountedCovariance(self.supported_by, p, q, outputs, value, unasked, np.ones(self.k), every)

    @property
    def total_variance(self) -> float:
        """The variances that one report contributes to all categories, summed: the same for every population."""
        own, other = self._variances
        return own + (self.k - 1) * other

    def worst_variance(self, share: float = 1.0) -> float:
        """The largest variance of one report, averaged over categories, where this share of the users is asked."""
        return (self.total_variance + (1 - share) * (1 - 1 / self.k)) / self.k

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimate:
        """Frequencies of all categories with standard errors; of the `among` users who might have been asked."""
        value = self.value(tally)
        note = (
            f"A report supports its own value with probability {float(self.p):.6g} and any other with "
            f"{float(self.q):.6g}; the estimate undoes this and is unbiased."
        )
        if self.cells > 1:
            note = f"{note.replace('its own value', 'its own cell')} A share is the sum of {self.cells:,} cells."
        variance = self.variance(value) / tally.n

        def together(shares: Shares, unasked: float) -> Covariance | CountedCovariance | None:
            known = self.covariance(shares, unasked)
            return self._of_outputs(tally, value, unasked) if known is None else known

        made = frequency_estimate(value, variance, tally.n, guarantee, source, among, note, together)
        none, all_, unasked = float(self.variance(0.0)), float(self.variance(1.0)), 1 - tally.n / (among or tally.n)
        return replace(made, variance=Polynomial([none, all_ - none + unasked, -unasked]) / tally.n)

    def worths(self, at_once: int | None = None) -> Worths:
        """What a report is worth to a category that it supports, and to one that it does not; to a group, likewise.

        `at_once` is how many categories a report can support, where `supported` does not tell.
        """
        gap, c, known = self.p - self.q, self.cells, self.supported
        fewest, most = (0, 1) if known is None else (max(0, known.fewest - (self.k - 1) * c), min(c, known.most))
        if known is not None:
            at_once = max(1, known.most // c) if known.free else None
        least, greatest = ((count - c * self.q) / gap for count in (fewest, most))
        exact = c == 1 or (known is not None and known.free)
        return (Worth("frequency", least, greatest, items=self.k, at_once=at_once, exact=exact),)

    def honest_sums(self, tally: Tally) -> Sums:
        """How many reports support each category: with q to p each, whatever users hold. Of groups, by the cell."""
        counts = self.supports(tally.counts) if self.supports else tally.counts
        low, high = float(self.q), float(self._counted.inside / self.cells)
        return (HonestSums.of("reports that support a category", counts / self.cells, tally.n, low, high),)

    def moments(self, x: Any) -> Moments:
        """For each input (rows) the moments of its calibrated report about each category (columns).

        Of groups, where a report may support several cells, the third moment is a bound: it is at most the variance
        times the largest deviation.
        """
        own = self.domain.check(x)[:, None] == np.arange(self.k)
        gap, (inside, outside, *variances) = abs(self.p - self.q), self._counted
        most = 1 if self.cells == 1 else min(self.cells, self.supported.most if self.supported else self.cells)
        if most == 1:
            third = [r * (1 - r) * (r**2 + (1 - r) ** 2) for r in (inside, outside)]
        else:
            means = inside, outside
            third = [v * max(mean, most - mean) for v, mean in zip(variances, means, strict=True)]
        second, cubed = ([float(each / gap**power) for each in some] for power, some in ((2, variances), (3, third)))
        return Moments(np.zeros(own.shape), np.where(own, *second), np.where(own, *cubed))


def _summed(counts: Counts, shape: tuple[int, ...], axes: tuple[int, ...]) -> Counts:
    """Counts of the cells of a table, summed over all axes but these, which come in this order."""
    others = tuple(axis for axis in range(len(shape)) if axis not in axes)
    summed = counts.reshape(shape).sum(axis=others)
    return np.ravel(summed.transpose(np.argsort(np.argsort(axes))))


def frequency_estimate(
    value: Shares,
    variance: Shares,
    n: int,
    guarantee: Guarantee,
    source: str,
    among: int | None,
    note: str,
    covariance: Callable[[Shares, float], Covariance | CountedCovariance | None] | None = None,
) -> Estimate:
    """What every reading of frequencies ends in: to the variance of the reports comes that of who was not asked.

    The n users who reported were drawn at random `among` all. `covariance(shares, unasked)` is that of one report, in a
    population with these shares of which this part was not asked.
    """
    unasked, share = 0.0 if among is None else 1 - n / among, np.clip(value, 0.0, 1.0)
    together = None if covariance is None else covariance(onto_simplex(value), unasked)
    return Estimate(
        value,
        np.sqrt(variance + unasked * share * (1 - share) / n),
        n,
        guarantee,
        "frequency",
        source=source,
        notes=(note,),
        bounds=SHARES,
        correlation=None if together is None else together.correlation,
    )
