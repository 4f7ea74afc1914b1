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
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
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
from dither.estimation.simplex import onto_simplex

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


@dataclass(frozen=True)
class Frequencies:
    """The reading of k categories; `supports` turns a tally's counts into support counts where they differ.

    `pairs` is known where the same holds for every two categories. Where it does not and counts are those of outputs,
    `supported_by` adds up weights of categories for each output, over those that it supports.
    """

    k: int
    p: Fraction
    q: Fraction
    supports: Callable[[Counts], Counts] | None = field(default=None, compare=False)
    pairs: PairSupport | None = None
    supported_by: Callable[[Shares], Shares] | None = field(default=None, compare=False)

    @property
    def domain(self) -> Categories:
        """The numbers of the categories."""
        return Categories(self.k)

    def value(self, tally: Tally) -> Shares:
        """Unbiased frequencies."""
        counts = self.supports(tally.counts) if self.supports else tally.counts
        return (counts / tally.n - float(self.q)) / float(self.p - self.q)

    def variance(self, frequency: Shares | float) -> Shares:
        """The variance that one report contributes, averaged over users of whom this share holds the category."""
        own, other = (float(r * (1 - r) / (self.p - self.q) ** 2) for r in (self.p, self.q))
        share = np.clip(frequency, 0.0, 1.0)
        return share * own + (1 - share) * other

    def covariance(self, shares: Shares, unasked: float = 0.0) -> Covariance | None:
        """What one report contributes to the covariance of all categories, of users with these shares.

        `unasked` is the share of the users who might have been asked and were not.
        """
        if self.pairs is None:
            return None
        p, q, gap = self.p, self.q, (self.p - self.q) ** 2
        base = (self.pairs.other - q * q) / gap
        more = (self.pairs.own - p * q) / gap - base
        core = np.array([[float(base), float(more)], [float(more), -unasked]])
        diagonal = self.variance(shares) - float(base) - 2 * float(more) * shares + unasked * shares
        return Covariance(diagonal, np.stack([np.ones(self.k), shares], axis=1), core)

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
        return float(self.variance(1.0) + (self.k - 1) * self.variance(0.0))

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
        variance = self.variance(value) / tally.n

        def together(shares: Shares, unasked: float) -> Covariance | CountedCovariance | None:
            known = self.covariance(shares, unasked)
            return self._of_outputs(tally, value, unasked) if known is None else known

        made = frequency_estimate(value, variance, tally.n, guarantee, source, among, note, together)
        none, all_, unasked = float(self.variance(0.0)), float(self.variance(1.0)), 1 - tally.n / (among or tally.n)
        return replace(made, variance=Polynomial([none, all_ - none + unasked, -unasked]) / tally.n)

    def worths(self, at_once: int | None) -> Worths:
        """What a report is worth to a category that it supports, and to one that it does not."""
        gap = self.p - self.q
        return (Worth("frequency", -self.q / gap, (1 - self.q) / gap, items=self.k, at_once=at_once),)

    def honest_sums(self, tally: Tally) -> Sums:
        """How many reports support each category: with q to p each, whatever users hold."""
        counts = self.supports(tally.counts) if self.supports else tally.counts
        return (HonestSums.of("reports that support a category", counts, tally.n, float(self.q), float(self.p)),)

    def moments(self, x: Any) -> Moments:
        """For each input (rows) the moments of its calibrated report about each category (columns)."""
        own = self.domain.check(x)[:, None] == np.arange(self.k)
        gap = abs(self.p - self.q)
        variance = [float(r * (1 - r) / gap**2) for r in (self.p, self.q)]
        third = [float(r * (1 - r) * (r**2 + (1 - r) ** 2) / gap**3) for r in (self.p, self.q)]
        return Moments(np.zeros(own.shape), np.where(own, *variance), np.where(own, *third))


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
