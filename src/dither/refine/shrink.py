"""Shrinkage: many items learn from each other how far to trust each of them.

Each item is y_j = theta_j + noise with a known standard error sigma_j, and theta_j lies in a known range. Where
sigma is large beside how much the theta differ, y_j says more about the noise than about theta_j, and the other items
say more about theta_j than y_j does. This is the classical problem of many normal means.

**Empirical Bayes.** Suppose the theta were drawn from some prior G on the range. Then the best estimate is the
posterior mean E[theta | y], its error the posterior standard deviation, and G can be learned from all the y. What goes
wrong is learning too much: a prior with many spikes fits the noise. So five priors of different ambition are fitted,
and averaged by an honest measure of what each is worth here:

- **range**: uniform on the range, nothing learned. What `clip` wants to be.
- **ends**: the same, with piles of items at either end of the range, narrow or trailing off: counters that nobody
  turned, pixels that are dark in nearly all pictures.
- **bell**: one normal, with a centre and a width (a positive-part James-Stein towards the common mean).
- **peak**: one centre, and a mixture of widths from sigma/8 to the whole range: a cluster with stragglers. Few far
  from many, heavy tails, one point. The narrowest width has a few items to begin with, so a cluster is believed in
  until the items say otherwise. The centre is learned; zero has no privilege.
- **clusters**: a mixture of narrow normals anywhere: the nonparametric maximum likelihood estimate of G.

All are mixtures of normals cut to the range, fitted by EM with some items added beforehand, and have closed posteriors
(`posterior`).

**An honest measure.** For an item whose y_j had no part in fitting the prior, Stein's formula gives an unbiased
estimate of the squared error of its posterior mean m_j, without knowing theta:

    (m_j - y_j)^2 + 2 Var(theta | y_j) - sigma_j^2.

The priors are fitted five times, each time without a fifth of the items, and the formula is averaged over the items
that were left out. Priors are weighed by exp(-risk / (4 sigma^2)) times a penalty for ambition, summed over items: the
weights of Leung and Barron (2006), for which the average is never much worse than the best. Standard errors are
those of the averaged posterior: spread within each prior, and between them, and what a learned centre may be off by.

With fewer than `LEAST` items there is nothing to learn from, and only the range is used.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dither.core.estimate import Bounds, Estimate
from dither.errors import require
from dither.refine.inputs import Numbers, bounds_of, refined_estimate, values_and_errors
from dither.refine.marginals import FOLDS, LEAST, folds, from_others

_TEMPERATURE = 4.0  # for which Leung and Barron prove it; half has 1.2% less error, twice 1.3% more, as below
_CLUSTERED = 4.0  # items that the narrowest width of a peak has to begin with; half or twice: .6% of error, as below
_BINNED = 4000  # more items than these are counted in bins for fitting
_MOST_CLUSTERS = 400
_ROUNDS = 40
_BLOCK = 1 << 21
_NARROW, _TAIL, _FAR = 0.5, 10.0, 1e100  # in standard deviations: ends so close, or so far out, need more care
# Log weights to begin with. Chosen on the shapes of `python benchmarks/refine.py`: half or twice of all changes the
# mean squared error by .2%; at twice the worst cell is 3% above doing nothing, where it is 1% below (`python
# benchmarks/constants.py refine.shrink.AMBITION`).
AMBITION = {"range": -1.7, "ends": -1.7, "bell": 0.0, "peak": 0.0, "clusters": -4.0}


@dataclass(frozen=True, eq=False)
class Prior:
    """A mixture of normals cut to a range; a component with an infinite width is uniform.

    `doubt` is the variance of a centre that was learned.
    """

    centres: Numbers
    widths: Numbers
    shares: Numbers
    bounds: Bounds
    doubt: float = 0.0

    def posterior(self, y: Numbers, sigma: Numbers) -> tuple[Numbers, Numbers]:
        """Mean and variance given each y."""
        mean, variance = np.empty_like(y), np.empty_like(y)
        step = max(1, _BLOCK // self.centres.size)
        for at in range(0, y.size, step):
            here = slice(at, at + step)
            log, means, variances = components(y[here], sigma[here], self.centres, self.widths, self.bounds)
            share = _likely(log) * self.shares
            share /= share.sum(axis=1, keepdims=True)
            mean[here] = (share * means).sum(axis=1)
            variance[here] = (share * (variances + (means - mean[here, None]) ** 2)).sum(axis=1)
        return mean, variance


def components(
    y: Numbers, sigma: Numbers, centres: Numbers, widths: Numbers, bounds: Bounds
) -> tuple[Numbers, Numbers, Numbers]:
    """For each y (rows) and component (columns): log likelihood, and mean and variance of theta.

    A normal prior N(c, w^2) and a normal likelihood make a normal posterior with variance v = 1/(1/sigma^2 + 1/w^2) and
    mean v (y/sigma^2 + c/w^2); cut to the range, its mass there is what the likelihood loses or gains.
    """
    y, sigma = y[:, None], sigma[:, None]
    flat = np.isinf(widths)
    finite = np.where(flat, 1.0, widths)
    variance = np.where(flat, sigma**2, 1 / (1 / sigma**2 + 1 / finite**2))
    mean = np.where(flat, y, variance * (y / sigma**2 + centres / finite**2))
    spread = np.sqrt(variance)
    inside, tilt, narrowed = cut_normal((bounds.low - mean) / spread, (bounds.high - mean) / spread)
    total = sigma**2 + finite**2
    free = -((y - centres) ** 2) / (2 * total) - np.log(2 * np.pi * total) / 2
    kept, _, _ = cut_normal((bounds.low - centres) / finite, (bounds.high - centres) / finite)
    log = inside + np.where(flat, -math.log(bounds.high - bounds.low), free - kept)
    return log, np.clip(mean + spread * tilt, bounds.low, bounds.high), variance * narrowed


def cut_normal(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Of a standard normal between two ends: the log of its mass there, and its mean and variance.

    The closed formulas subtract numbers that are nearly equal where the range is narrow beside the noise, or far out in
    a tail. There the density is close to an exponential, and is integrated over what matters of it.
    """
    special = require("scipy.special", "fast")
    low, high = np.maximum(low, -_FAR), np.minimum(high, _FAR)
    flip = low > 0
    upper, lower = special.log_ndtr(np.where(flip, -low, high)), special.log_ndtr(np.where(flip, -high, low))
    log = upper + np.log1p(-np.exp(np.minimum(lower - upper, -1e-12)))
    at_low, at_high = (np.exp(np.minimum(-(end**2) / 2 - log, 50.0)) / math.sqrt(2 * math.pi) for end in (low, high))
    mean = at_low - at_high
    variance = 1 + low * at_low - high * at_high - mean**2
    hard = (high - low < _NARROW) | (np.maximum(low, -high) > _TAIL)
    if hard.any():
        log[hard], mean[hard], variance[hard] = _integrated(low[hard], high[hard])
    return log, mean, variance


def _integrated(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The same by quadrature from the end that is nearer to 0, t = 0 there: exp(-end t - t^2/2)."""
    flip = np.abs(high) < np.abs(low)
    end = np.where(flip, -high, low)
    length = np.minimum(high - low, 40 / np.maximum(end, 1.0))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    mass, first, second = (np.zeros_like(end) for _ in range(3))
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        step = node * length
        share = weight * np.exp(-step * (end + step / 2))
        mass, first, second = mass + share, first + node * share, second + node**2 * share
    first, second = first / mass, second / mass
    log = np.log(mass * length) - end**2 / 2 - math.log(2 * math.pi) / 2
    mean = end + length * first
    return log, np.where(flip, -mean, mean), length**2 * (second - first**2)


def _likely(log: Numbers) -> Numbers:
    """Likelihoods, in units of the largest of each row."""
    return np.exp(log - log.max(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class NoisyItems:
    """What priors are fitted to: values and standard errors, how many items have them, and which fifth they are in."""

    y: Numbers
    sigma: Numbers
    count: Numbers
    fold: NDArray[np.intp]
    bounds: Bounds

    @classmethod
    def of(cls, y: Numbers, sigma: Numbers, bounds: Bounds) -> "NoisyItems":
        """The items; if they are very many, those that are closer than a fifth of a standard error are one."""
        fold = folds(y.size)
        if y.size <= _BINNED:
            return cls(y, sigma, np.ones(y.size), fold, bounds)
        scale = np.median(sigma)
        size = np.round(np.log(sigma / scale) * 10)  # standard errors to 5%
        places = np.stack([np.round(5 * (y - bounds.low) / (scale * np.exp(size / 10))), size, fold], axis=1)
        kinds, which, count = np.unique(places, axis=0, return_inverse=True, return_counts=True)
        which = which.reshape(-1)
        mean = np.bincount(which, weights=y) / count
        spread = np.sqrt(np.bincount(which, weights=sigma**2) / count)
        return cls(mean, spread, count.astype(np.float64), kinds[:, 2].astype(np.intp), bounds)

    def some(self, chosen: NDArray[np.bool_]) -> "NoisyItems":
        """Those of them."""
        return NoisyItems(self.y[chosen], self.sigma[chosen], self.count[chosen], self.fold[chosen], self.bounds)

    @cached_property
    def scale(self) -> float:
        """A typical standard error."""
        return _middle(self.sigma, self.count)

    @cached_property
    def ladder(self) -> Numbers:
        """Widths from an eighth of a typical standard error to half of the range, each twice the one before."""
        steps = self.scale * np.exp2(np.arange(-3.0, 60.0))
        return steps[steps < self.width / 2]

    @property
    def width(self) -> float:
        """Of the range."""
        return self.bounds.high - self.bounds.low


# The five priors -------------------------------------------------------------------------------------------------


def _range(items: NoisyItems) -> Prior:
    return Prior(np.zeros(1), np.full(1, np.inf), np.ones(1), items.bounds)


def _ends(items: NoisyItems) -> Prior:
    """Uniform on the range, and piles at either end that are narrow or trail off."""
    ladder = items.ladder
    centres = np.concatenate([[0.0], np.full(ladder.size, items.bounds.low), np.full(ladder.size, items.bounds.high)])
    widths = np.concatenate([[np.inf], ladder, ladder])
    added = np.concatenate([[1.0], np.full(2 * ladder.size, 0.05 / max(ladder.size, 1))])
    log, _, _ = components(items.y, items.sigma, centres, widths, items.bounds)
    shares = _fitted(_likely(log), items.count, added, np.full(centres.size, 1 / centres.size), rounds=_ROUNDS)
    return Prior(centres, widths, shares, items.bounds)


def _bell(items: NoisyItems) -> Prior:
    """Centre and width by maximum likelihood, iterated with the precision of each item."""
    y, noise, count = items.y, items.sigma**2, items.count
    centre, width = float(np.average(y, weights=count / noise)), 0.0
    number = count.sum()
    precision = count / noise
    for _ in range(30):
        precision = count / (noise + width)
        centre = float((precision * y).sum() / precision.sum())
        gain = (y - centre) ** 2 * number / max(number - 1, 1.0) - noise
        weight = precision**2 / count
        width = max(0.0, float((weight * gain).sum() / weight.sum()))
    inside = float(np.clip(centre, items.bounds.low, items.bounds.high))
    width = max(math.sqrt(width), items.scale / 8)
    return Prior(np.array([inside]), np.array([width]), np.ones(1), items.bounds, _doubt(precision, items))


def _peak(items: NoisyItems) -> Prior | None:
    """One centre and a mixture of widths, the last of them the whole range; None where items are too few to object."""
    if items.count.sum() < 2 * _CLUSTERED:
        return None
    widths = np.append(items.ladder, np.inf)
    added = np.full(widths.size, 1 / widths.size)
    added[0] += _CLUSTERED
    shares = np.full(widths.size, 1 / widths.size)
    centre = float(np.clip(_middle(items.y, items.count), items.bounds.low, items.bounds.high))
    narrow = np.where(np.isinf(widths), 0.0, 1.0)
    doubt = 0.0
    for _ in range(8):
        log, _, _ = components(items.y, items.sigma, np.full(widths.size, centre), widths, items.bounds)
        likely = _likely(log)
        shares = _fitted(likely, items.count, added, shares, rounds=10)
        held = likely * shares
        held *= items.count[:, None] / held.sum(axis=1, keepdims=True)
        precision = held * narrow / (items.sigma[:, None] ** 2 + np.where(np.isinf(widths), 1.0, widths) ** 2)
        if precision.sum() > 0:
            moved = float((precision * items.y[:, None]).sum() / precision.sum())
            centre = float(np.clip(moved, items.bounds.low, items.bounds.high))
            doubt = _doubt(precision, items)
    return Prior(np.full(widths.size, centre), widths, shares, items.bounds, doubt)


def _doubt(precision: Numbers, items: NoisyItems) -> float:
    """The variance of a centre that is an average, at most that of one anywhere in the range."""
    return min(1 / float(precision.sum()), items.width**2 / 12)


def _clusters(items: NoisyItems) -> Prior | None:
    """Narrow normals wherever there are items, and the range; None where they would be too many."""
    step = items.scale / 2
    inside = np.clip(items.y, items.bounds.low, items.bounds.high)
    centres = items.bounds.low + np.unique(np.round((inside - items.bounds.low) / step)) * step
    if centres.size > _MOST_CLUSTERS:
        return None
    widths = np.append(np.full(centres.size, step), np.inf)
    added = np.append(np.full(centres.size, 0.5 / centres.size), 0.5)
    centres = np.append(centres, 0.0)
    log, _, _ = components(items.y, items.sigma, centres, widths, items.bounds)
    shares = _fitted(_likely(log), items.count, added, added / added.sum(), rounds=_ROUNDS)
    return Prior(centres, widths, shares, items.bounds)


PRIORS: dict[str, Callable[[NoisyItems], Prior | None]] = {
    "range": _range,
    "ends": _ends,
    "bell": _bell,
    "peak": _peak,
    "clusters": _clusters,
}


def _fitted(likely: Numbers, count: Numbers, added: Numbers, shares: Numbers, *, rounds: int) -> Numbers:
    """The shares of components by EM, where `added` items of each component are there beforehand."""
    for _ in range(rounds):
        shares = shares * ((count / (likely @ shares)) @ likely) + added
        shares /= shares.sum()
    return shares


def _middle(numbers: Numbers, count: Numbers) -> float:
    """The median of numbers that so many items have."""
    order = np.argsort(numbers, kind="stable")
    below = np.cumsum(count[order])
    return float(numbers[order][np.searchsorted(below, below[-1] / 2)])


# The average -----------------------------------------------------------------------------------------------------


def _risk(fit: Callable[[NoisyItems], Prior | None], items: NoisyItems) -> float | None:
    """Stein's estimate of the squared error, in units of sigma^2, summed over items that had no part in the fit."""
    total = 0.0
    for fold in range(FOLDS):
        left = items.fold == fold
        prior = fit(items.some(~left))
        if prior is None:
            return None
        out = items.some(left)
        mean, variance = prior.posterior(out.y, out.sigma)
        total += float((out.count * (((mean - out.y) ** 2 + 2 * variance) / out.sigma**2 - 1)).sum())
    return total


def shrink(estimate: Estimate) -> Estimate:
    """The items of an estimate, each drawn towards what the others say, as far as its noise warrants.

    >>> import numpy as np
    >>> from dither import Sampled
    >>> mechanism = Sampled("Piecewise", d=50, m=50, epsilon=2.0)
    >>> truth = np.repeat([-0.3, 0.1], 25)
    >>> found = mechanism.estimate(mechanism.tally(mechanism.randomize(np.tile(truth, (2000, 1)), seed=1)))
    >>> better = found.refine("shrink")
    >>> bool(np.mean((better.value - truth) ** 2) < 0.2 * np.mean((found.value - truth) ** 2))
    True
    """
    y, sigma = values_and_errors(estimate, fresh=True)
    items = NoisyItems.of(y, sigma, _span(bounds_of(estimate), y, sigma))
    fits = PRIORS if y.size >= LEAST else {"range": _range}
    priors = {name: prior for name, fit in fits.items() if (prior := fit(items)) is not None}
    weights = _weights(items, list(priors)) if y.size >= LEAST else {"range": 1.0}
    near = np.clip(y, items.bounds.low, items.bounds.high)  # moments about this, so that nothing cancels far from 0
    moved, second = np.zeros(y.size), np.zeros(y.size)
    for name, weight in weights.items():
        mean, variance = priors[name].posterior(y, sigma)
        trust = np.minimum(variance / sigma**2, 1.0)  # the slope of the mean in y; the rest is owed to the centre
        variance += (1 - trust) ** 2 * np.minimum(priors[name].doubt, sigma**2)
        moved += weight * (mean - near)
        second += weight * (variance + (mean - near) ** 2)
    error = np.sqrt(np.maximum(second - moved**2, (1e-6 * np.minimum(sigma, items.width)) ** 2))
    rule = from_others(y, sigma, items.bounds, estimate.variance) if y.size >= LEAST else None
    return refined_estimate(estimate, near + moved, error, _words(y, sigma, error, weights), rule=rule)


def _span(bounds: Bounds | None, y: Numbers, sigma: Numbers) -> Bounds:
    """The range, with an end that is missing or infinite put where no item is."""
    low, high = (-math.inf, math.inf) if bounds is None else bounds[:2]
    if math.isinf(low):
        low = min(float((y - 4 * sigma).min()), high - 4 * float(sigma.max()))
    if math.isinf(high):
        high = max(float((y + 4 * sigma).max()), low + 4 * float(sigma.max()))
    return Bounds(low, high)


def _weights(items: NoisyItems, names: Iterable[str]) -> dict[str, float]:
    """What each prior is worth."""
    risks = {name: _risk(PRIORS[name], items) for name in names}
    score = {name: AMBITION[name] - risk / _TEMPERATURE for name, risk in risks.items() if risk is not None}
    best = max(score.values())
    worth = {name: math.exp(each - best) for name, each in score.items()}
    kept = {name: each for name, each in worth.items() if each > 1e-4 * sum(worth.values())}
    return {name: each / sum(kept.values()) for name, each in kept.items()}


def _words(y: Numbers, sigma: Numbers, error: Numbers, weights: dict[str, float]) -> str:
    if y.size < LEAST:
        return f"Shrink: {y.size} item{'s' * (y.size > 1)} cannot learn from others, so only the range was used."
    gain = float(np.sqrt(np.mean(error**2) / np.mean(sigma**2)))
    parts = ", ".join(f"{name} {weight:.0%}" for name, weight in sorted(weights.items(), key=lambda pair: -pair[1]))
    return (
        f"Shrink: the {y.size:,} items were drawn towards what the others say ({parts}); standard errors are "
        f"{gain:.2f} times those before."
    )
