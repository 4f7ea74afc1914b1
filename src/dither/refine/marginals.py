"""What other items tell about an item, so that its interval may be shorter (`core.confidence`).

Items are dealt into five folds, and what is expected of the items of a fold is learned from the four others. It never
sees the item itself, which is all that an interval needs to hold.

- `from_others`: items without an order. What an item is expected to be is what the others are: a kernel estimate of
  their distribution, each of them blurred to the noise of the item, and further where it has no others nearby.
- `from_neighbours`: shares of values with an order. They are smoothed without the fold, and a share is expected where
  its neighbours say, as far as they know.

A tenth is spread over the domain: something unlike all the others is never out of the question.
"""

import math
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from dither.core.confidence import LearnedIntervals, Marginals, grouped
from dither.core.estimate import Bounds
from dither.estimation.density import STRENGTHS, NoisySums, smoothed
from dither.refine.inputs import Numbers

FOLDS = 5
LEAST = 8  # fewer items have nothing to learn from
_FLAT = 0.1  # spread over the domain
_ALIKE = 0.2  # standard errors that are within such a factor are one for learning
_BLUR = 0.4  # of a standard error, beyond the noise: the width of the kernel
_ALONE = 4.0  # standard errors: an item that has no others nearby tells so little of where it is
_FINE = 8  # points in a standard error
_MOST = 1 << 15  # points of a table


def folds(items: int) -> NDArray[np.intp]:
    """The fold of each item."""
    return np.arange(items) % FOLDS


def from_others(y: Numbers, sigma: Numbers, bounds: Bounds, variance: Polynomial | None = None) -> LearnedIntervals:
    """Intervals of items without an order."""
    fold = folds(y.size)
    size = np.rint(np.log(sigma / np.median(sigma)) / _ALIKE).astype(np.intp)
    kinds, which = np.unique(FOLDS * size + fold, return_inverse=True)
    scale = np.exp(np.bincount(which, weights=np.log(sigma)) / np.bincount(which))
    tables = [
        _blurred(y[fold != own], sigma[fold != own], float(each), bounds)
        for own, each in zip(kinds % FOLDS, scale, strict=True)
    ]
    grids, cdfs = zip(*tables, strict=True)
    return LearnedIntervals(y, sigma, bounds.low, bounds.high, which, Marginals(grids, cdfs, scale), variance)


def _blurred(others: Numbers, sigma: Numbers, scale: float, bounds: Bounds) -> tuple[Numbers, Numbers]:
    """The distribution of an item with the standard error `scale` if it is like the others, as a table."""
    others = np.clip(others, bounds.low - 8 * scale, bounds.high + 8 * scale)
    first, last = others.min() - 4 * scale, others.max() + 4 * scale
    count = int(min(_MOST, math.ceil((last - first) / scale * _FINE)))
    step = (last - first) / count
    grid = first + step * np.arange(count + 1)
    place = (others - first) / step
    cell = place.astype(np.intp)
    part = place - cell
    alone = np.minimum(_third_nearest(others), _ALONE * scale)
    width = np.sqrt(np.maximum(scale**2 - sigma**2, 0.0) + (_BLUR * scale) ** 2 + alone**2) / step
    kind = np.rint(5 * np.log(np.maximum(width, 2.0))).astype(np.intp)
    inside = (grid >= bounds.low) & (grid <= bounds.high)
    inside[min(int(np.searchsorted(grid, bounds.low)), count)] = True  # a domain may be narrower than a step
    density = _FLAT * inside / inside.sum()
    for each, some in grouped(kind):
        here = np.bincount(cell[some], weights=1 - part[some], minlength=count + 1)
        here[1:] += np.bincount(cell[some], weights=part[some], minlength=count)[:count]
        spread = math.exp(each / 5)
        half = math.ceil(4 * spread)
        kernel = np.exp(-0.5 * (np.arange(-half, half + 1) / spread) ** 2)
        spread_out = np.convolve(here, kernel / kernel.sum())[half : half + count + 1]  # kernels may outgrow the table
        density += (1 - _FLAT) / others.size * spread_out
    return grid, np.cumsum(density)


def _third_nearest(numbers: Numbers) -> Numbers:
    """How far from each number the third nearest of the others is: one by itself tells little of its neighbourhood.

    >>> _third_nearest(np.array([0.0, 5.0, 1.0, 2.0, 9.0])).tolist()
    [5.0, 4.0, 4.0, 3.0, 8.0]
    """
    order = np.argsort(numbers, kind="stable")
    ranked = np.concatenate([np.full(3, -np.inf), numbers[order], np.full(3, np.inf)])
    places = np.arange(numbers.size) + 3
    spans = [
        np.maximum(ranked[places] - ranked[places - left], ranked[places + 3 - left] - ranked[places])
        for left in range(4)
    ]
    found = np.empty_like(numbers)
    found[order] = np.min(spans, axis=0)
    return found


def from_neighbours(y: Numbers, sigma: Numbers, bounds: Bounds, variance: Polynomial | None = None) -> LearnedIntervals:
    """Intervals of the shares of values with an order."""
    fold = folds(y.size)
    centre, spread, last = np.empty_like(y), np.empty_like(y), np.empty_like(y)
    for own in range(FOLDS):
        left = fold == own
        told = smoothed(y.size, None, [_contrasts(y, sigma, np.flatnonzero(~left))], strengths=STRENGTHS[::2])
        centre[left] = told.value[left]
        spread[left] = np.sqrt(np.maximum(np.diagonal(told.covariance)[left], 0.0) + sigma[left] ** 2)
        last[left] = min(bounds.high, float((y + 4 * sigma)[~left].max()))
    steps, normal = _standard_normal()
    grids, cdfs = [], []
    for middle, scale, end in zip(centre, spread, last, strict=True):
        own = middle + scale * steps
        grid = np.union1d(own, [bounds.low, end])
        flat = np.clip((grid - bounds.low) / (end - bounds.low), 0.0, 1.0)
        grids.append(grid)
        cdfs.append((1 - _FLAT) * np.interp(grid, own, normal, left=0.0, right=1.0) + _FLAT * flat)
    which = np.arange(y.size)
    marginals = Marginals(tuple(grids), tuple(cdfs), sigma)
    return LearnedIntervals(y, sigma, bounds.low, bounds.high, which, marginals, variance)


def _contrasts(y: Numbers, sigma: Numbers, seen: NDArray[np.intp]) -> NoisySums:
    """The shares that were seen, up to what they add up to.

    Where all shares add up to one, with `GRR`, the sum of those that were seen tells the noise of those that were not:
    an item would see itself. Differences do not tell it. So what is kept of y / sigma is its part at right angles to
    the direction in which all y move together (Householder's reflection).
    """
    together = 1 / sigma[seen]
    together /= np.linalg.norm(together)
    mirror = together.copy()
    mirror[0] += 1.0
    apart = (np.eye(seen.size) - np.outer(mirror, mirror) / mirror[0])[1:]
    rows = np.zeros((seen.size - 1, y.size))
    rows[:, seen] = apart / sigma[seen]
    return NoisySums(rows, apart @ (y[seen] / sigma[seen]), np.ones(seen.size - 1))


@cache
def _standard_normal() -> tuple[Numbers, Numbers]:
    """Steps, and the distribution at them."""
    steps = np.linspace(-6.0, 6.0, 121)
    return steps, np.array([NormalDist().cdf(step) for step in steps])
