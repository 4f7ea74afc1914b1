"""Intervals that keep their word for every item: tests of each possible truth, turned around.

An item is y = theta + noise, with a known standard error s. For each truth theta that there could be, decide beforehand
which y it is to be believed with,

    A(theta) = [theta - s z(a (1 - w)),  theta + s z(a w)],

where a standard normal exceeds z(t) with probability t. Whatever `w(theta)` is, y falls outside with probability
a w + a (1 - w) = a. So the truths that y is believed with, {theta: y in A(theta)}, hold the true one with probability
1 - a. That is so *for this item*, wherever it lies, and not on average over items, as long as w was chosen without
looking at y. What w decides is how long the interval is.

**Nothing known** (`plain_ends`): w = 1/2, and the interval is y -+ s z(a/2). A domain that ends at `low` costs nothing:
a truth that does not exist need not be believed, so the interval is cut there. Within half a standard error of an end
the miss is put wholly on the other side: no y beyond the end speaks against a truth *at* the end. So the interval is
never empty, however far y has strayed.

**Learned from others** (`LearnedIntervals`): suppose that other items tell what y will be, with the distribution M, its
*marginal*. The expected length of the interval is

    E |{theta: y in A(theta)}| = integral of M(A(theta)) d theta,

so at each theta the w is best that puts the least of M into A(theta) (Pratt 1961; Yu and Hoff 2018 call these FAB
intervals). If M is wrong the interval is longer, and holds all the same. So M may be learned from the *other* items by
any means: it is the rest of the items in folds, and never saw the item that it is used for. `w` stays within `CAP` and
1 - `CAP`, except near an end of the domain, so that an item that the others did not expect pays little: at 95% an
interval is at most 1.33 of the plain one, where the plain one is 1.

**What can be won.** At a single truth no interval with this property is shorter in expectation than .850 of the plain
one at 95%, .945 where 94 hold at once and .959 for 1,000 (Pratt's bound, `shortest`), the domain apart.

**Ratios** (`RatioIntervals`): a mean among those who hold a key is m / p, both estimated. For a truth theta the
difference m - theta p has the mean 0 and a known variance, however small p is; the truths for which it is within z
standard errors of 0 are Fieller's set (1954). Where p hardly stands out of its noise the set is all of the domain,
and that is then what is known.

**Functions of several** (`ProfileIntervals`): what a function is at all truths that may be.

**Between grid points.** w is chosen on a lattice of theta; between its points both z are interpolated. As the tail of
the normal is convex beyond its middle, the miss of interpolated ends is at most the interpolated miss, a. Where the
ends of A are not monotone, the hull of all believed truths is taken, which only adds to it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]

CAP = 0.1  # the least share of the miss in either tail, away from the ends of the domain
STANDS_OUT = 3.0  # standard errors of what is divided by, from which on a ratio is shown
_AT_END = 0.5  # standard errors from an end of the domain within which all of the miss is on the other side
_FINE = 8  # points of the lattice in a standard error
_OUTWARD = 8  # steps to the farthest truth that an item may be believed with
_CLIMBS = 24  # steps uphill: each of them is exact for a function that hardly bends
_STEP = 1e-4  # of a standard error, for slopes
_SAME = 0.01  # standard errors that are within such a factor are taken for the largest of them


def beyond(chance: float) -> float:
    """What a standard normal exceeds with this probability."""
    return math.inf if chance <= 0 else -NormalDist().inv_cdf(chance)


def shortest(miss: float) -> float:
    """Pratt's bound: the least expected length at one truth of an interval that holds at every truth, beside y -+ z s.

    >>> [round(shortest(miss), 3) for miss in (0.05, 0.05 / 94, 0.05 / 1000)]
    [0.85, 0.945, 0.959]
    """
    one = beyond(miss)
    return ((1 - miss) * one + math.exp(-one * one / 2) / math.sqrt(2 * math.pi)) / beyond(miss / 2)


def plain_ends(y: Floats, sigma: Floats, low: float, high: float, miss: float) -> Ends:
    """The interval of each item by itself, inside the domain; all of the domain where nothing was heard of an item.

    >>> y, sigma = np.array([0.5, 0.01, -0.2, np.nan]), np.array([0.05, 0.05, 0.05, np.inf])
    >>> [end.round(3).tolist() for end in plain_ends(y, sigma, 0.0, 1.0, 0.05)]
    [[0.402, 0.0, 0.0, 0.0], [0.598, 0.108, 0.025, 1.0]]
    """
    heard = ~(np.isnan(y) | np.isinf(sigma))
    value, error = np.where(heard, y, 0.0), np.where(heard, sigma, 0.0)
    two, one = beyond(miss / 2) * error, beyond(miss) * error
    near = np.minimum(_AT_END * error, (high - low) / 2)
    below = np.maximum(value - two, np.minimum(value - one, low + near))
    above = np.minimum(value + two, np.maximum(value + one, high - near))
    below = np.clip(np.minimum(below, high - near), low, high)
    above = np.clip(np.maximum(above, low + near), low, high)
    return np.where(heard, below, low), np.where(heard, above, high)


class IntervalRule(Protocol):
    """How the intervals of items are found, where not from their values and standard errors alone."""

    def ends(self, miss: float) -> Ends:
        """The lower and the upper end of each item, which each miss with this probability."""
        ...

    def of(self, places: NDArray[np.intp]) -> "IntervalRule":
        """The rule for some of the items."""
        ...


@dataclass(frozen=True, eq=False)
class InUnits(IntervalRule):
    """A rule in other units: centre + unit times what it says."""

    rule: IntervalRule
    centre: float
    unit: float

    def ends(self, miss: float) -> Ends:
        low, high = self.rule.ends(miss)
        return self.centre + self.unit * low, self.centre + self.unit * high

    def of(self, places: NDArray[np.intp]) -> "InUnits":
        return replace(self, rule=self.rule.of(places))


@dataclass(frozen=True, eq=False)
class Marginals:
    """What others expect of items: distributions of y, each as a table, for the items that it is meant for.

    `cdf[m]` at `grid[m]` is the m-th, of an item with the standard error `scale[m]`.
    """

    grid: tuple[Floats, ...]
    cdf: tuple[Floats, ...]
    scale: Floats


@dataclass(frozen=True, eq=False)
class LearnedIntervals(IntervalRule):
    """Intervals of items `y` in a domain, each with the marginal `which`, which did not see it.

    `variance` is that of an item by its truth, where this is known. The standard error of an item comes from its own y:
    from few reports an item that came out small has a small one, too. So a truth is judged by the larger of the two.
    """

    y: Floats
    sigma: Floats
    low: float
    high: float
    which: NDArray[np.intp]
    marginals: Marginals
    variance: Polynomial | None = None

    def of(self, places: NDArray[np.intp]) -> "LearnedIntervals":
        """Those of some of the items."""
        return replace(self, y=self.y[places], sigma=self.sigma[places], which=self.which[places])

    def ends(self, miss: float) -> Ends:
        spent = _Spent.of(miss)
        low, high = np.empty_like(self.y), np.empty_like(self.y)
        for marginal, items in grouped(self.which):
            theta = self._lattice(items, float(self.marginals.scale[marginal]), spent)
            ways = spent.chosen(self, marginal, theta)
            known = self._by_truth(theta)
            for _, some in grouped(np.rint(np.log(self.sigma[items]) / _SAME).astype(np.intp)):
                own = items[some]
                sigma = np.maximum(self.sigma[own].max(), known)
                above = np.maximum.accumulate(theta + sigma * spent.above[ways])
                below = np.minimum.accumulate((theta - sigma * spent.below[ways])[::-1])
                low[own] = np.interp(self.y[own], above, theta)
                high[own] = -np.interp(-self.y[own], -below, -theta[::-1])
        return low, high

    def _lattice(self, items: NDArray[np.intp], scale: float, spent: "_Spent") -> Floats:
        """All truths, in steps of a part of a standard error, that one of these items may be believed with.

        The farther truths may have larger standard errors, which reach farther still: this ends, as they grow slower.
        """
        step, sigma = scale / _FINE, self.sigma[items]
        for _ in range(_OUTWARD if self.variance is not None else 0):
            ends = (self.y[items] + side * spent.farthest * sigma for side in (-1, 1))
            sigma = np.maximum(sigma, np.max([self._by_truth(end) for end in ends], axis=0))
        reach = math.ceil(_FINE * (spent.farthest * float(sigma.max()) / scale + 0.1))
        inside = np.clip(self.y[items], self.low, self.high)
        near = np.unique(np.rint((inside - self.low) / step))
        number = np.unique(near[:, None] + np.arange(-reach, reach + 1))
        return np.unique(np.clip(self.low + number * step, self.low, self.high)).astype(np.float64)

    def _by_truth(self, theta: Floats) -> Floats:
        """The standard error that items with these truths have; 0 where this is not known."""
        inside = np.clip(theta, self.low, self.high)
        return np.zeros_like(theta) if self.variance is None else np.sqrt(np.maximum(self.variance(inside), 0.0))


def grouped(kinds: NDArray[np.intp]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each kind, with the places where it stands."""
    order = np.argsort(kinds, kind="stable")
    found, first = np.unique(kinds[order], return_index=True)
    for kind, places in zip(found, np.split(order, first[1:]), strict=True):
        yield int(kind), places


@dataclass(frozen=True, eq=False)
class _Spent:
    """The ways to spend the miss on both tails: `above` and `below` are how far A(theta) reaches, in standard errors.

    The last two are for the ends of the domain: everything below is believed, or everything above.
    """

    above: Floats
    below: Floats
    one_sided: float
    farthest: float  # of the ways away from the ends

    @classmethod
    def of(cls, miss: float) -> "_Spent":
        half = np.geomspace(CAP, 0.5, 7)
        shares = np.concatenate([half, 1 - half[-2::-1]])
        above, below = (np.array([beyond(miss * share) for share in each]) for each in (shares, 1 - shares))
        one = beyond(miss)
        return cls(np.append(above, [one, np.inf]), np.append(below, [np.inf, one]), one, float(above.max()))

    def chosen(self, intervals: LearnedIntervals, marginal: int, theta: Floats) -> NDArray[np.intp]:
        """For each truth the way that puts the least of the marginal between the ends."""
        tables, low, high = intervals.marginals, intervals.low, intervals.high
        grid, cdf, sigma = tables.grid[marginal], tables.cdf[marginal], float(tables.scale[marginal])
        upper = np.interp(theta[:, None] + sigma * self.above, grid, cdf, left=0.0, right=1.0)
        lower = np.interp(theta[:, None] - sigma * self.below, grid, cdf, left=0.0, right=1.0)
        mass = upper - lower
        for way, far, other in ((-2, theta - low, high - theta), (-1, high - theta, theta - low)):
            mass[far >= self.one_sided * sigma, way] = np.inf
            mass[(far <= _AT_END * sigma) & (far < other), way] = -np.inf
        return mass.argmin(axis=1)


@dataclass(frozen=True, eq=False)
class RatioIntervals(IntervalRule):
    """Intervals of `top` / `bottom`, whose errors have these variances and covariance, for ratios from -1 to 1.

    >>> many_and_few, noise = np.array([0.2, 0.01]), np.full(2, 1e-4)
    >>> held = RatioIntervals(many_and_few / 2, many_and_few, noise, noise, np.zeros(2))
    >>> [end.round(2).tolist() for end in held.ends(0.05)]
    [[0.39, -1.0], [0.62, 1.0]]
    """

    top: Floats
    bottom: Floats
    top_variance: Floats
    bottom_variance: Floats
    covariance: Floats

    def of(self, places: NDArray[np.intp]) -> "RatioIntervals":
        names = ("top", "bottom", "top_variance", "bottom_variance", "covariance")
        return replace(self, **{name: getattr(self, name)[places] for name in names})

    def point(self) -> Ends:
        """The ratio with its standard error; unknown where the bottom does not stand out of its noise.

        Nearer to it the error of a ratio is not what the delta method says, and nearly everybody would be shown whom
        chance has helped.
        """
        top, bottom = (np.where(np.isnan(each), np.inf, each) for each in (self.top_variance, self.bottom_variance))
        seen = self.bottom > STANDS_OUT * np.sqrt(bottom)
        base = np.where(seen, self.bottom, 1.0)
        ratio = np.clip(self.top / base, -1.0, 1.0)
        with np.errstate(invalid="ignore"):  # where it is not seen
            spread = np.maximum(top + ratio**2 * bottom - 2 * ratio * self.covariance, 0.0)
            return np.where(seen, ratio, np.nan), np.where(seen, np.sqrt(spread) / base, np.inf)

    def plus(self, other: "RatioIntervals", weight: float) -> "RatioIntervals":
        """Of the ratio of sums, to which another's independent ones are added with this weight."""
        return RatioIntervals(
            self.top + weight * other.top,
            self.bottom + weight * other.bottom,
            self.top_variance + weight**2 * other.top_variance,
            self.bottom_variance + weight**2 * other.bottom_variance,
            self.covariance + weight**2 * other.covariance,
        )

    def ends(self, miss: float) -> Ends:
        """Where a t^2 - 2 b t + c <= 0: between its roots if a > 0, else outside of them or everywhere."""
        z = beyond(miss / 2) ** 2
        a = self.bottom**2 - z * self.bottom_variance
        b = self.top * self.bottom - z * self.covariance
        root = b**2 - a * (self.top**2 - z * self.top_variance)
        with np.errstate(invalid="ignore", divide="ignore"):
            one, other = ((b + sign * np.sqrt(root)) / a for sign in (-1.0, 1.0))
        first, second = np.minimum(one, other), np.maximum(one, other)
        low = np.where(a > 0, first, np.where(first < -1, second, -1.0))
        high = np.where(a > 0, second, np.where(second > 1, first, 1.0))
        told = (root > 0) & (a != 0) & (low < 1) & (high > -1) & (low < high)
        return np.where(told, np.maximum(low, -1.0), -1.0), np.where(told, np.minimum(high, 1.0), 1.0)


@dataclass(frozen=True, eq=False)
class ProfileIntervals(IntervalRule):
    """The interval of one function of several numbers, each estimated with a normal error of its own.

    It holds the values that the function has at truths which are not farther than z from what was estimated, in
    standard errors and all numbers together: {f(theta): sum of ((y - theta) / s)^2 <= z^2}, the profile likelihood
    interval. For a linear function it is the usual one. A function that bends is followed as far as the truths may be,
    so that a variance has no negative end, and a correlation of numbers that may not vary at all can be anything: where
    the function is not a number at some truth that may be, the interval is the whole domain.

    >>> product = ProfileIntervals(lambda both: both[..., 0] * both[..., 1], np.array([2.0, 3.0]), np.full(2, 0.1))
    >>> [round(float(end[0]), 2) for end in product.ends(0.05)]
    [5.31, 6.72]
    """

    function: Callable[[Floats], Floats]  # of numbers along the last axis
    y: Floats
    sigma: Floats
    low: float = -math.inf
    high: float = math.inf
    inside: Ends | None = None  # where the truth of each number can be

    def of(self, places: NDArray[np.intp]) -> "ProfileIntervals":
        return self

    def ends(self, miss: float) -> Ends:
        reach = beyond(miss / 2)
        found = [self._farthest(sign, reach) for sign in (-1.0, 1.0)]
        if not np.isfinite(found).all():
            return np.array([self.low]), np.array([self.high])
        low, high = (np.clip(np.array([end]), self.low, self.high) for end in found)
        return low, high

    def _farthest(self, sign: float, reach: float) -> float:
        """The least or the largest value of the function at these truths: uphill on the sphere, from several places."""
        count = self.y.size
        starts = np.concatenate([np.eye(count), -np.eye(count), sign * self._slope(self.y[None]), np.zeros((1, count))])
        best, place = -math.inf, starts
        for _ in range(_CLIMBS):
            truths = self._within(self.y + reach * self.sigma * place)
            heights = sign * self.function(truths)
            if not np.isfinite(heights).all():
                return math.nan
            best = max(best, float(heights.max()))
            uphill = sign * self._slope(truths)
            length = np.linalg.norm(uphill, axis=1, keepdims=True)
            place = np.divide(uphill, length, out=place.copy(), where=length > 0)
        return sign * best

    def _within(self, truths: Floats) -> Floats:
        return truths if self.inside is None else np.clip(truths, *self.inside)

    def _slope(self, truths: Floats) -> Floats:
        """By how much the function changes with a standard error of each number."""
        steps = _STEP * np.diag(self.sigma)
        apart = [self.function(truths[:, None] + side * steps) for side in (1, -1)]
        with np.errstate(invalid="ignore"):
            slope = (apart[0] - apart[1]) / (2 * _STEP)
        return np.where(np.isfinite(slope), slope, 0.0)
