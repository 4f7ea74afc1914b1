"""Gaussian noise on random batches: what many noisy sums over Poisson samples promise together.

In every step each record joins the batch with probability `rate` (its own coin), the vectors of the batch, none longer
than 1, are summed, and Gaussian noise with standard deviation `multiplier` is added to every coordinate. Neighbours
differ by one record that is there or not (add or remove one).

**The worst pair** (Zhu, Dong and Wang 2022; the Gaussian is the same in all directions, so one dimension is enough):

    P = (1 - q) N(0, s^2) + q N(1, s^2)   against   Q = N(0, s^2),       q the rate, s the multiplier,

where (P, Q) is the worst when a record goes and (Q, P) when one comes. On all grids tried the first was the worse one,
but that is no proof: both are worked out, and the larger epsilon counts. The loss ln P(x)/Q(x) = ln(1 - q + q e^((2x -
1) / 2 s^2)) grows in x.

**On a grid** the dots are connected, and the law of many steps is that of a tilted sum: both are told in
`privacy_loss`, with what is added for errors.

**Ends of the range.** N(1, s^2) becomes P if it is replaced by N(0, s^2) with probability 1 - q, and N(0, s^2) stays Q.
So the Gaussian of all steps without sampling is always a bound; it counts where it is the smaller one, or where no grid
holds the sum of the losses. And steps whose total variations add up to delta promise epsilon 0.

What goes wrong: Renyi accounting is 5 to 60% above.
"""

import math
from dataclasses import dataclass

import numpy as np

from dither.core.checks import checked_count, checked_delta, checked_epsilon, checked_real
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError, require
from dither.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dither.privacy.accounting.privacy_loss import (
    Numbers,
    PrivacyLoss,
    connected_dots,
    cumulant,
    tilt_for,
    tilted_variance,
)

MOST_STEPS = 10_000_000
LEAST_MULTIPLIER, MOST_MULTIPLIER = 0.05, 1e6
LEAST_DELTA = 1e-200  # below, masses would leave the range of floats
_NEAR = 1e-7  # how near the least epsilon the one that is found is, relatively
_CLOSE = 1e-4  # the least multiplier is found to this, relative
_FINENESS = 16  # cells in a standard deviation of the tilted loss of one step
_LOOSENESS = 2e-3  # eight times what the dots may add to epsilon, in parts of it
_CELLS = 1 << 18  # at most: more would take seconds, and hardly bring epsilon down
_COARSER = 8  # times the grid may be made four times as coarse, to fit into the window
_BEYOND = 1e-7  # of delta, beyond the end of the grid
_ROUNDING = 2.0**-48  # relative: a bound on the error of a normal tail, with room to spare


def subsampled_gaussian(multiplier: float, rate: float, steps: int, delta: float) -> Guarantee:
    """What `steps` noisy sums over Poisson samples promise: the least epsilon for this delta, rounded up.

    `multiplier` is the standard deviation of the noise in units of the longest vector; neighbours differ by one record
    that is there or not.

    >>> print(subsampled_gaussian(1.0, rate=0.01, steps=1000, delta=1e-5).established)
    bound
    >>> round(subsampled_gaussian(1.0, rate=0.01, steps=1000, delta=1e-5).epsilon, 2)
    1.83
    >>> print(subsampled_gaussian(20.0, rate=1.0, steps=100, delta=1e-5))  # all take part: as one step with 2.0
    epsilon 1.99309141, delta 1e-5 (bound) for adding or removing a record, with a trusted server
    """
    multiplier = checked_real("multiplier", multiplier)
    if not LEAST_MULTIPLIER <= multiplier <= MOST_MULTIPLIER:
        raise ParameterError(f"the noise multiplier must be from {LEAST_MULTIPLIER:g} to {MOST_MULTIPLIER:g}")
    rate, steps, delta = _checked(rate, steps, delta)
    epsilon = _epsilon(multiplier, rate, steps, delta)
    return Guarantee(epsilon, delta, "bound", model="central", neighbours="add-remove")


def noise_multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The least noise multiplier whose `subsampled_gaussian` keeps (epsilon, delta); within 1e-4 of the least.

    >>> sigma = noise_multiplier(1.0, 1e-5, rate=0.01, steps=1000)
    >>> subsampled_gaussian(sigma, rate=0.01, steps=1000, delta=1e-5).epsilon <= 1.0
    True
    """
    epsilon = checked_epsilon(epsilon)
    rate, steps, delta = _checked(rate, steps, delta)
    goal, cost = math.log(epsilon), _Cost(rate, steps, delta)
    low, high = _bracket(goal, cost, _start(epsilon, rate, steps, delta))
    aim, turn = 1 + _CLOSE / 2.5, 0
    while high / low > 1 + _CLOSE:
        # Between two points log epsilon is almost straight in log sigma. Aim a little beside the crossing, on the side
        # that was not moved last, so that both ends close in on it. Every third guess is the middle, for where epsilon
        # falls to 0 it is not straight at all.
        share, turn = (cost(low) - goal) / (cost(low) - cost(high)), turn + 1
        guess = low * (high / low) ** share * aim
        if turn % 3 == 0 or not low * (1 + _CLOSE / 8) < guess < high / (1 + _CLOSE / 8):
            guess = math.sqrt(low * high)
        if cost(guess) > goal:
            low, aim = guess, 1 + _CLOSE / 2.5
        else:
            high, aim = guess, 1 - _CLOSE / 2.5
    return high


def _start(epsilon: float, rate: float, steps: int, delta: float) -> float:
    """About the least multiplier, by the central limit: q sqrt(T (e^(1/s^2) - 1)) is one over that of one Gaussian."""
    low, high = LEAST_MULTIPLIER, MOST_MULTIPLIER
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        alone = 1 / (rate * math.sqrt(steps * math.expm1(1 / middle**2)))
        low, high = (middle, high) if gaussian_delta(alone, epsilon) > delta else (low, middle)
    return high


class _Cost:
    """The log of epsilon by the multiplier, each worked out once."""

    def __init__(self, rate: float, steps: int, delta: float) -> None:
        self._given, self._known = (rate, steps, delta), {}

    def __call__(self, multiplier: float) -> float:
        if multiplier not in self._known:
            self._known[multiplier] = math.log(max(_epsilon(multiplier, *self._given), 1e-300))
        return self._known[multiplier]


def _bracket(goal: float, cost: _Cost, start: float) -> tuple[float, float]:
    """A multiplier that costs more than the goal, and one that does not; the least there is twice, if it is enough."""
    low = high = start
    stride = 1.1  # more from time to time: the start may be far off
    while cost(high) > goal:
        if high == MOST_MULTIPLIER:
            raise ParameterError("no noise is large enough for this epsilon; ask for a larger one, or for fewer steps")
        low, high, stride = high, min(high * stride, MOST_MULTIPLIER), min(stride**2, 4.0)
    while cost(low) <= goal:
        if low == LEAST_MULTIPLIER:
            return low, low
        low, high, stride = max(low / stride, LEAST_MULTIPLIER), low, min(stride**2, 4.0)
    return low, high


def _checked(rate: float, steps: int, delta: float) -> tuple[float, int, float]:
    rate = checked_real("rate", rate)
    if not 0 < rate <= 1:
        raise ParameterError("the sampling rate must be above 0 and at most 1: batch size by number of records")
    delta = checked_delta(delta)
    if delta == 0:
        raise ParameterError("Gaussian noise needs a delta above 0, for example delta=1e-5")
    if delta < LEAST_DELTA:
        raise ParameterError(f"delta is below what can be resolved; take {LEAST_DELTA:g} or more, for example 1e-5")
    return rate, checked_count("steps", steps, 1, MOST_STEPS), delta


def _epsilon(multiplier: float, rate: float, steps: int, delta: float) -> float:
    alone = gaussian_epsilon(multiplier / math.sqrt(steps), delta)
    if rate == 1.0 or alone == 0.0:
        return alone
    if -math.expm1(steps * math.log1p(-rate)) * (1 + 1e-12) <= delta:  # a record is never drawn at all, but with delta
        return 0.0
    if steps * rate * math.erf(1 / (multiplier * math.sqrt(8))) * (1 + 1e-12) <= delta:  # total variation
        return 0.0
    pair = _Pair(multiplier, rate, steps, delta)
    return min(alone, max(pair.epsilon(removed) for removed in (True, False)))


# One step ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """The worst pair of one step, and how many steps there are."""

    multiplier: float
    rate: float
    steps: int
    delta: float

    def epsilon(self, removed: bool) -> float:
        """The least epsilon in one direction; infinity where no grid holds the losses."""
        losses, mass = self._pilot(removed)
        tilt, about = tilt_for([(losses, mass, self.steps)], self.delta)
        # Dots add up to h^2 / 4 of variance a step: little beside that of the tilted loss, and little in its moment.
        fine = math.sqrt(tilted_variance(losses, mass, tilt)) / _FINENESS
        moment = math.sqrt(_LOOSENESS * about / ((1 + tilt) * self.steps))
        step, floor = min(fine, moment, about / 1024), self._floor(losses, mass, tilt)
        for _ in range(_COARSER):
            law = self._law(removed, step, floor)
            if law.infinite >= self.delta:
                break
            if together := law.tilted_times(self.steps, tilt):
                return together.epsilon(self.delta, _NEAR)
            step = 4 * law.step  # the window is too wide for so fine a grid
        return math.inf

    def loss(self, x: Numbers) -> Numbers:
        """ln P(x)/Q(x)."""
        ratio = (2 * x - 1) / (2 * self.multiplier**2)
        return np.where(  # beyond 500, e^ratio dwarfs the rest
            ratio > 500, ratio + math.log(self.rate), np.log1p(self.rate * np.expm1(np.minimum(ratio, 500)))
        )

    def place(self, loss: Numbers) -> Numbers:
        """The x with this loss; minus infinity where there is none."""
        excess: Numbers = np.expm1(np.minimum(loss, 500)) / self.rate + 1  # e^((2x - 1) / 2 s^2)
        with np.errstate(divide="ignore"):
            ratio = np.where(loss > 500, loss - math.log(self.rate), np.log(np.maximum(excess, 0.0)))
        return self.multiplier**2 * ratio + 0.5

    @property
    def end(self) -> float:
        """An x beyond which both laws have next to nothing, beside delta and the number of steps."""
        far = math.sqrt(2 * (math.log(2 * self.steps) - math.log(self.delta) - math.log(_BEYOND)))
        return 1 + self.multiplier * far

    def _pilot(self, removed: bool) -> tuple[Numbers, Numbers]:
        """Losses and masses by quadrature: good for finding the tilt and the fineness, and for nothing else."""
        edges = np.linspace(1 - self.end, self.end, 4097)
        x = (edges[1:] + edges[:-1]) / 2
        alone, moved = (_normal_masses((edges - at) / self.multiplier)[0] for at in (0.0, 1.0))
        return (self.loss(x), self._mixed(alone, moved)) if removed else (-self.loss(x), alone)

    def _floor(self, losses: Numbers, mass: Numbers, tilt: float) -> float:
        """A loss so low that, with all that is below moved up to it, the tilted law of all steps hardly changes."""
        order = np.argsort(losses)
        grown = np.log(np.maximum(np.cumsum(mass[order]), 1e-300)) + tilt * losses[order]
        last = int(np.searchsorted(grown, cumulant(losses, mass, tilt) + math.log(1e-6 / self.steps)))
        return float(losses[order][max(last - 1, 0)])

    def _law(self, removed: bool, step: float, floor: float) -> PrivacyLoss:
        """The loss of one step on a grid from `floor` on: of P against Q, or of Q against P."""
        lowest, highest = self.loss(np.array([1 - self.end, self.end])).tolist()
        lowest, highest = (max(lowest, floor), highest) if removed else (lowest, min(highest, -floor))
        # A unit of the last place of x moves the loss by that of x / s^2.
        doubt = 1e-15 * (1 + abs(lowest) + abs(highest) - math.log(self.rate) + 1 / self.multiplier**2)
        step = max(step, (highest - lowest) / _CELLS, 1024 * doubt)
        start, stop = math.floor(lowest / step) - 1, math.ceil(highest / step) + 1
        # Cell 0 is all below the grid, the last one all above; the loss falls in x when a record is added.
        grid: Numbers = step * np.arange(start, stop + 1, dtype=np.float64)
        edges = np.concatenate([[-np.inf], self.place(grid), [np.inf]])
        alone, moved = (_normal_masses((edges - at) / self.multiplier) for at in (0.0, 1.0))
        mixed = self._mixed(alone[0], moved[0]), self._mixed(alone[1], moved[1])
        if removed:
            return PrivacyLoss(step, start, *connected_dots(step, start, mixed, alone), doubt)
        turned = (alone[0][::-1], alone[1][::-1]), (mixed[0][::-1], mixed[1][::-1])
        return PrivacyLoss(step, -stop, *connected_dots(step, -stop, *turned), doubt)

    def _mixed(self, alone: Numbers, moved: Numbers) -> Numbers:
        return (1 - self.rate) * alone + self.rate * moved


def _normal_masses(edges: Numbers) -> tuple[Numbers, Numbers]:
    """The mass of a standard normal between edges, from the nearer tail; and how much it may be wrong."""
    normal = require("scipy.special", "fast").ndtr
    below, above = normal(edges), normal(-edges)
    right = edges[:-1] > 0
    mass = np.where(right, above[:-1] - above[1:], below[1:] - below[:-1])
    return np.maximum(mass, 0.0), _ROUNDING * np.where(right, above[:-1], below[1:])
