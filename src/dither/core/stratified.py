"""Estimates of strata put together: the mean of all users is the mean of their groups, by the sizes of these.

Strata have different users, so that their errors are independent. For strata with estimates y_s, standard errors e_s
and weights w_s which add up to 1,

    y = sum w_s y_s        with the variance        sum w_s^2 e_s^2,

and covariances of several items likewise. This is unbiased for the mean over all users with w_s for the share of users
in s, whatever made them belong to s.

**A stratum that was not heard of** (nobody was drawn for the question) has a mean somewhere in the domain. It enters
with the middle of it, and half of its width times its weight is a `bias` by which intervals are wider. So an interval
holds whatever these users are like, and a stratum of a few users does not make the whole unknown.

**Rules.** Where the intervals of a stratum follow a rule of their own (`core.confidence`), those of the sum are made of
those of the strata, each at its part of the level (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dither.core.confidence import IntervalRule, beyond
from dither.core.counted_covariance import CountedCovariance
from dither.core.covariance import Covariance
from dither.core.estimate import Estimate

Floats = NDArray[np.float64]

MOST_DENSE = 1024  # items whose covariance is written down, where it is known from counts only


@dataclass(frozen=True, eq=False)
class CombinedRule(IntervalRule):
    """Intervals of a weighted sum, made of those of its terms: each misses with its part of the probability."""

    terms: tuple[Estimate, ...]
    weights: tuple[float, ...]
    places: NDArray[np.intp]

    def ends(self, miss: float) -> tuple[Floats, Floats]:
        low = high = np.zeros(len(self.places))
        for weight, term in zip(self.weights, self.terms, strict=True):
            one, other = (weight * np.ravel(end)[self.places] for end in term.interval(1 - miss / len(self.terms)))
            low, high = low + np.minimum(one, other), high + np.maximum(one, other)
        return low, high

    def of(self, places: NDArray[np.intp]) -> "CombinedRule":
        return replace(self, places=self.places[places])


def stratified_estimate(terms: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """The sum of estimates of different users, each times its weight; the weights add up to 1.

    >>> from dither.core.estimate import MEAN
    >>> from dither.core.guarantee import Guarantee
    >>> young = Estimate(np.array(0.5), np.array(0.03), 900, Guarantee(1.0), bounds=MEAN)
    >>> old = Estimate(np.array(0.0), np.array(0.04), 900, Guarantee(1.0), bounds=MEAN)
    >>> found = stratified_estimate([young, old], [0.8, 0.2])
    >>> float(found.value), round(float(found.stderr), 4), found.n
    (0.4, 0.0253, 1800)
    """
    heard = [(term, weight) for term, weight in zip(terms, weights, strict=True) if weight and term.n]
    if not heard:
        return terms[0]
    known, shares = tuple(term for term, _ in heard), tuple(weight for _, weight in heard)
    first, unheard = known[0], max(0.0, sum(weights) - sum(shares))
    shape, size = np.shape(first.value), np.size(first.value)
    value = sum((weight * np.asarray(term.value) for term, weight in heard), np.zeros(shape))
    variance = sum((weight**2 * np.asarray(term.stderr) ** 2 for term, weight in heard), np.zeros(shape))
    ruled = any(term.rule is not None for term in known)
    bias = np.zeros(shape)
    if not ruled:  # a rule reckons with the bias of its terms
        bias = sum((w * term.bias for term, w in heard if term.bias is not None), bias)
    if unheard:
        low, high = (-np.inf, np.inf) if first.bounds is None else first.bounds[:2]
        bounded = np.isfinite(low) and np.isfinite(high)
        value = value + unheard * (low + high) / 2 if bounded else np.full(shape, np.nan)
        variance = variance if bounded else np.full(shape, np.inf)
        bias = bias + (unheard * (high - low) / 2 if bounded else 0.0)
    stderr = np.sqrt(variance)
    sources = dict.fromkeys(term.source for term in known)
    return first.with_numbers(
        np.asarray(value),
        stderr,
        n=sum(term.n for term in known),
        source="; ".join(filter(None, sources)),
        notes=tuple(dict.fromkeys(note for term in known for note in term.notes)),
        correlation=_correlation(known, shares, stderr) if size > 1 else None,
        rule=CombinedRule(known, shares, np.arange(size)) if ruled else None,
        bias=bias if np.any(bias) else None,
    )


def _correlation(terms: Sequence[Estimate], weights: Sequence[float], stderr: Floats) -> Covariance | None:
    """How the errors of the items go together, where that is known of all strata."""
    each = [_low_rank(term.covariance) for term in terms]
    known = [covariance for covariance in each if covariance is not None]
    if len(known) < len(terms) or not np.isfinite(stderr).all():
        return None
    diagonal = sum(weight**2 * one.diagonal for one, weight in zip(known, weights, strict=True))
    ranks = np.cumsum([0, *(one.core.shape[0] for one in known)])
    core = np.zeros((ranks[-1], ranks[-1]))
    for one, weight, first, end in zip(known, weights, ranks[:-1], ranks[1:], strict=True):
        core[first:end, first:end] = weight**2 * one.core
    return Covariance(np.asarray(diagonal), np.concatenate([one.factor for one in known], axis=1), core).correlation


def _low_rank(covariance: Covariance | CountedCovariance | None) -> Covariance | None:
    """A covariance as a diagonal and a little; one that is known from counts, if it is small enough to write down."""
    if not isinstance(covariance, CountedCovariance):
        return covariance
    if covariance.size > MOST_DENSE:
        return None
    return Covariance(np.zeros(covariance.size), np.eye(covariance.size), covariance.dense())


def differs_by_more_than_noise(terms: Sequence[Estimate], false_alarm: float = 1e-3) -> bool:
    """Whether estimates of different users cannot well be of the same numbers: each pair, item by item (Bonferroni)."""
    heard = [term for term in terms if term.n]
    pairs = [(one, other) for place, one in enumerate(heard) for other in heard[:place]]
    if not pairs:
        return False
    reach = beyond(false_alarm / (2 * len(pairs) * max(1, np.size(heard[0].value))))
    return any(
        bool(np.any(np.abs(one.value - other.value) > reach * np.hypot(one.stderr, other.stderr)))
        for one, other in pairs
    )
