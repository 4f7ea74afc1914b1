"""Gaussian noise on random batches: what many noisy sums over Poisson samples promise together.

In every step each record joins the batch with probability `rate` (its own coin), the vectors of the batch, none longer
than 1, are summed, and Gaussian noise with standard deviation `multiplier` is added to every coordinate. Neighbours
differ by one record that is there or not (add or remove one).

**The worst pair** (Zhu, Dong and Wang 2022; the Gaussian is the same in all directions, so one dimension is enough):

    P = (1 - q) N(0, s^2) + q N(1, s^2)   against   Q = N(0, s^2),       q the rate, s the multiplier,

where (P, Q) is the worst when a record goes and (Q, P) when one comes. On all grids tried the first was the worse one,
but that is no proof: both are worked out, and the larger epsilon counts. The loss ln P(x)/Q(x) = ln(1 - q + q e^((2x -
1) / 2 s^2)) grows in x.

**On a grid, never too good** (connect the dots: Doroshenko et al. 2022). The outputs whose loss lies in a cell [l, l+h]
have masses F under the first law and S under the second. They are replaced by two outputs with losses l and l + h that
have the same masses in sum: the upper one gets (F - S e^l) / (1 - e^-h) of F. Whoever sees which of the two it is can
draw the original output: its ratio S/F lies between theirs, so it is a mixture. The new pair is therefore at least as
easy to tell apart, at every epsilon and in every composition. Above the grid, the last output gets S e^l, and the rest
counts as an infinite loss. Rounding errors of the masses are added to the upper outputs.

**Many steps.** Losses add up, so their laws are convolved: a Fourier transform, to the power of `steps`. Its errors are
parts of the whole, and say little about a tail of 1e-10. So the law is tilted first, to weights e^(t l) / M with M = E
e^(t l), and t such that the tilted sum has its mean about epsilon. Then

    delta(epsilon) = M^steps e^(-t epsilon) E_tilted[e^(-t (L - epsilon)) (1 - e^(epsilon - L)); L > epsilon],

an expectation of something between 0 and 1 under a law that lies right there: absolute errors of it are relative errors
of delta. What the transform may miss, and what lies outside its window (it comes back in at the other end), are
bounded, by Parseval and by Chernoff, and added.

**Ends of the range.** N(1, s^2) becomes P if it is replaced by N(0, s^2) with probability 1 - q, and N(0, s^2) stays Q.
So the Gaussian of all steps without sampling is always a bound; it counts where it is the smaller one, or where no grid
holds the sum of the losses. And steps whose total variations add up to delta promise epsilon 0.

What goes wrong: losses rounded up by h lose h/2 in each of 10,000 steps, where the dots lose h^2 / 4 of variance; Renyi
accounting is 5 to 60% above.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_delta, checked_epsilon, checked_real
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError, require

MOST_STEPS = 10_000_000
LEAST_MULTIPLIER, MOST_MULTIPLIER = 0.05, 1e6
LEAST_DELTA = 1e-200  # below, masses would leave the range of floats
_CLOSE = 1e-4  # the least multiplier is found to this, relative
_FINENESS = 16  # cells in a standard deviation of the tilted loss of one step
_LOOSENESS = 2e-3  # eight times what the dots may add to epsilon, in parts of it
_CELLS, _WINDOW = 1 << 18, 1 << 18  # at most: more would take seconds, and hardly bring epsilon down
_COARSER = 8  # times the grid may be made four times as coarse, to fit into the window
_SLACK = 5.0  # how far a Chernoff bound may be above the best one, in logarithms of delta
_OUTSIDE = 1e-10  # of the tilted law, outside the window
_FAR = 40.0  # tilted losses so far above epsilon weigh e^-40 of those right there
_BEYOND = 1e-7  # of delta, beyond the end of the grid
_ROUNDING = 2.0**-48  # relative: a bound on the error of a normal tail, with room to spare

Numbers = NDArray[np.float64]


def subsampled_gaussian(multiplier: float, rate: float, steps: int, delta: float) -> Guarantee:
    """What `steps` noisy sums over Poisson samples promise: the least epsilon for this delta, rounded up.

    `multiplier` is the standard deviation of the noise in units of the longest vector; neighbours differ by one record
    that is there or not.

    >>> print(subsampled_gaussian(1.0, rate=0.01, steps=1000, delta=1e-5).established)
    bound
    >>> round(subsampled_gaussian(1.0, rate=0.01, steps=1000, delta=1e-5).epsilon, 2)
    1.83
    >>> print(subsampled_gaussian(20.0, rate=1.0, steps=100, delta=1e-5))  # all take part: as one step with 2.0
    epsilon 1.99309141, delta 1e-5 (bound)
    """
    multiplier = checked_real("multiplier", multiplier)
    if not LEAST_MULTIPLIER <= multiplier <= MOST_MULTIPLIER:
        raise ParameterError(f"the noise multiplier must be from {LEAST_MULTIPLIER:g} to {MOST_MULTIPLIER:g}")
    rate, steps, delta = _checked(rate, steps, delta)
    return Guarantee(_epsilon(multiplier, rate, steps, delta), delta, "bound")


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
class _Law:
    """A loss on the grid: the mass at (start + i) * step for i = 0, 1, ..., and of an infinite one.

    The outputs of a cell may have a loss outside it by `doubt`, since its edges are floats.
    """

    step: float
    start: int
    mass: Numbers
    infinite: float
    doubt: float

    @property
    def losses(self) -> Numbers:
        return self.step * (self.start + np.arange(self.mass.size, dtype=np.float64))


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
        tilt, about = _tilt(losses, mass, self.steps, self.delta)
        # Dots add up to h^2 / 4 of variance a step: little beside that of the tilted loss, and little in its moment.
        fine = math.sqrt(_spread(losses, mass, tilt)) / _FINENESS
        moment = math.sqrt(_LOOSENESS * about / ((1 + tilt) * self.steps))
        step, floor = min(fine, moment, about / 1024), self._floor(losses, mass, tilt)
        for _ in range(_COARSER):
            law = self._law(removed, step, floor)
            if law.infinite >= self.delta:
                break
            if found := _composed(law, self.steps, tilt):
                return found.epsilon(self.delta)
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
        last = int(np.searchsorted(grown, _cumulant(losses, mass, tilt) + math.log(1e-6 / self.steps)))
        return float(losses[order][max(last - 1, 0)])

    def _law(self, removed: bool, step: float, floor: float) -> _Law:
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
            return _Law(step, start, *_dots(step, start, mixed, alone), doubt)
        turned = (alone[0][::-1], alone[1][::-1]), (mixed[0][::-1], mixed[1][::-1])
        return _Law(step, -stop, *_dots(step, -stop, *turned), doubt)

    def _mixed(self, alone: Numbers, moved: Numbers) -> Numbers:
        return (1 - self.rate) * alone + self.rate * moved


def _dots(
    step: float, start: int, first: tuple[Numbers, Numbers], second: tuple[Numbers, Numbers]
) -> tuple[Numbers, float]:
    """Cells on a grid from start * step upwards, and all below and all above: each becomes its two edges.

    Given are the masses of all cells under the two laws, and how much each mass may be wrong. The masses of the edges
    under the first law come back, and that of infinity.
    """
    (mass, doubt), (other, unsure) = first, second
    low = np.exp(np.minimum(step * (start + np.arange(mass.size - 1)), 700.0))
    most = mass + doubt
    upper = mass[1:] - other[1:] * low + doubt[1:] + unsure[1:] * low
    upper[:-1] /= -math.expm1(-step)  # of the last cell, the upper edge is infinite
    upper = np.clip(upper, 0.0, most[1:])
    found = most[1:] - upper
    found[0] += most[0]
    found[1:] += upper[:-1]
    return found, float(upper[-1])


def _normal_masses(edges: Numbers) -> tuple[Numbers, Numbers]:
    """The mass of a standard normal between edges, from the nearer tail; and how much it may be wrong."""
    normal = require("scipy.special", "fast").ndtr
    below, above = normal(edges), normal(-edges)
    right = edges[:-1] > 0
    mass = np.where(right, above[:-1] - above[1:], below[1:] - below[:-1])
    return np.maximum(mass, 0.0), _ROUNDING * np.where(right, above[:-1], below[1:])


# Many steps --------------------------------------------------------------------------------------------------------


def _inner(one: Numbers, other: Numbers) -> float:
    """The inner product without BLAS, which would start threads for it and wait for them on a busy machine."""
    return float(np.einsum("i,i->", one, other))


def _cumulant(losses: Numbers, mass: Numbers, tilt: float) -> float:
    """ln E e^(tilt * loss), over the finite losses."""
    with np.errstate(divide="ignore"):
        exponent = tilt * losses + np.log(mass)
    top = float(exponent.max())
    return top + math.log(float(np.exp(exponent - top).sum()))


def _tilted(losses: Numbers, mass: Numbers, tilt: float, cumulant: float) -> Numbers:
    """The tilted law. The mass is in the exponent: there may be none where e^(tilt * loss) is beyond all floats."""
    with np.errstate(divide="ignore", under="ignore"):
        return np.exp(tilt * losses - cumulant + np.log(mass))


def _tilt(losses: Numbers, mass: Numbers, steps: int, delta: float) -> tuple[float, float]:
    """A tilt for this delta, and about how large epsilon is.

    The tilt with the least Chernoff bound on epsilon has the tilted sum right at epsilon. Of those that are about as
    good the smallest is taken: with heavy tails the best one has one foot in losses far above, and a wide window.
    """
    tilts = np.geomspace(1e-3, 1e4, 100)
    cumulants = steps * np.array([_cumulant(losses, mass, tilt) for tilt in tilts]) - math.log(delta)
    about = max(float((cumulants / tilts).min()), 1e-3)
    return float(tilts[np.argmax(cumulants - tilts * about <= _SLACK)]), about


def _spread(losses: Numbers, mass: Numbers, tilt: float) -> float:
    """The variance of the tilted loss."""
    weight = _tilted(losses, mass, tilt, _cumulant(losses, mass, tilt))
    mean = _inner(weight, losses)
    return _inner(weight, (losses - mean) ** 2)


@dataclass(frozen=True)
class _Sum:
    """The sum of the losses of all steps, tilted: masses at (start + i) * step, times e^(log_scale - tilt * loss)."""

    step: float
    start: int
    mass: Numbers
    tilt: float
    log_scale: float
    missed: float  # of the tilted law
    infinite: float

    def delta(self, epsilon: float) -> float:
        """The delta at this epsilon, rounded up."""
        first = min(max(0, math.floor(epsilon / self.step) - self.start), self.mass.size)
        last = min(
            self.mass.size, first + math.ceil(_FAR / (self.tilt * self.step)) + 1
        )  # the rest weighs next to nothing
        above = self.step * (float(self.start + first) + np.arange(max(0, last - first))) - epsilon
        weight = np.exp(-self.tilt * np.maximum(above, 0.0)) * -np.expm1(-np.maximum(above, 0.0))
        gained = _inner(self.mass[first:last], weight) + self.missed + 2 * math.exp(-_FAR)
        return self.infinite + math.exp(min(self.log_scale - self.tilt * epsilon + math.log(gained), 1.0))

    def epsilon(self, delta: float) -> float:
        """The least epsilon at this delta."""
        if self.infinite >= delta:
            return math.inf
        low, high = 0.0, max(self.step * (self.start + self.mass.size), self.step)
        if self.delta(low) <= delta:
            return 0.0
        while self.delta(high) > delta:
            high *= 2
        while high - low > 1e-7 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high


def _composed(law: _Law, steps: int, tilt: float) -> _Sum | None:
    """The losses of all steps together; None if the grid is too fine for their window."""
    losses = law.losses
    cumulant = _cumulant(losses, law.mass, tilt)
    tilted = _tilted(losses, law.mass, tilt, cumulant)
    low, high = _window(losses, tilted, steps)
    start = math.floor(low / law.step)
    size = 1 << max(10, math.ceil(high / law.step - start + 1).bit_length())
    if size > _WINDOW:
        return None
    folded: Numbers = np.bincount((law.start + np.arange(losses.size)) % size, weights=tilted, minlength=size).astype(
        float
    )
    mass, lost = _power(folded, steps)
    # Place j of the transform is the loss that leaves the rest j; the window begins at `start`.
    mass = np.roll(mass, -(start % size))
    scale = steps * (cumulant + (tilt + 1) * law.doubt)
    infinite = 1.0 if law.infinite >= 1 else min(1.0, -math.expm1(steps * math.log1p(-law.infinite)) * (1 + 1e-9))
    return _Sum(law.step, start, mass, tilt, scale, 2 * _OUTSIDE + lost, infinite)


def _window(losses: Numbers, tilted: Numbers, steps: int) -> tuple[float, float]:
    """An interval with all but 1e-10 of the tilted sum below, and as much above, by Chernoff's bound."""
    mean = _inner(tilted, losses)
    deviation = math.sqrt(max(_inner(tilted, (losses - mean) ** 2), 1e-300) * steps)
    cuts = np.arange(0, losses.size, -(-losses.size // 2048))
    rough = losses[cuts], np.add.reduceat(tilted, cuts)  # to choose the slope; the bound itself takes all
    ends = []
    for sign in (-1.0, 1.0):
        slopes = np.geomspace(1e-3, 10.0, 40) / deviation
        best = slopes[np.argmin([_side(sign * rough[0], rough[1], steps, slope) for slope in slopes])]
        ends.append(sign * _side(sign * losses, tilted, steps, float(best)))
    return ends[0], ends[1]


def _side(losses: Numbers, tilted: Numbers, steps: int, slope: float) -> float:
    """Where the tail of the sum is below 1e-10, by one slope of Chernoff's bound."""
    return (steps * _cumulant(losses, tilted, slope) - math.log(_OUTSIDE)) / slope


def _power(mass: Numbers, steps: int) -> tuple[Numbers, float]:
    """The cyclic convolution of so many equal laws, and a bound on what rounding loses of any part of it.

    A transform of n numbers errs, in the Euclidean norm, by u log2(n) times its result, u a few units of the last
    place (Higham 2002, theorem 24.2); to the power it errs `steps` times as much. By Parseval the masses err by that
    times the norm of `mass`, and a sum of up to n of them by sqrt(n) more.
    """
    size = mass.size
    spectrum = np.fft.rfft(mass)
    with np.errstate(under="ignore", divide="ignore"):
        found = np.fft.irfft(np.exp(steps * np.log(spectrum)), size)
    unit = 16 * np.finfo(np.float64).eps * math.log2(size)
    lost = unit * steps * math.sqrt(size) * math.sqrt(_inner(mass, mass))
    return np.maximum(found, 0.0), lost


# Without sampling --------------------------------------------------------------------------------------------------


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """The delta of one Gaussian with sensitivity 1 (Balle and Wang 2018), rounded up.

    >>> round(gaussian_delta(1.0, 1.0), 4)
    0.1269
    """
    tail = require("scipy.special", "fast").log_ndtr
    near, far = float(tail(0.5 / sigma - epsilon * sigma)), float(tail(-0.5 / sigma - epsilon * sigma)) + epsilon
    # Both logarithms are good to 1e-15 relative to their size, and their difference may be small.
    doubt = 8e-16 * (1 + abs(near) + abs(far) + epsilon)
    return math.exp(near) * min(1.0, -math.expm1(min(far - near, 0.0)) + doubt)


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """The least epsilon of one Gaussian with sensitivity 1 at this delta, rounded up.

    >>> round(gaussian_epsilon(2.0, 1e-5), 3)
    1.993
    """
    low, high = 0.0, 1.0
    if gaussian_delta(sigma, low) <= delta:
        return 0.0
    while gaussian_delta(sigma, high) > delta:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(sigma, middle) > delta else (low, middle)
    return high
