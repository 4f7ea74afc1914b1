"""Privacy losses: the one engine that all accounts of many releases go through.

What an output y tells between two worlds with laws P and P' is its privacy loss ln(P(y)/P'(y)). Losses of independent
releases add up, and the delta of their sum at epsilon is E[(1 - e^(epsilon - loss))_+] under P. For that the two
worlds must be the worst at every epsilon at once (a *dominating pair*); where a pair comes from is not told here.

**On a grid, never too good.** A loss is a mass at each multiple of a step, and a mass at infinity. What is put there
has its dots connected (`connected_dots`, `PrivacyLoss.on`; Doroshenko et al. 2022): the outputs whose loss lies in a
cell [l, l+h] have masses F under P and S under P'. They are replaced by two outputs with losses l and l + h that have
the same masses in sum: the upper one gets (F - S e^l) / (1 - e^-h) of F. Whoever sees which of the two it is can draw
the original output: its ratio S/F lies between theirs, so it is a mixture. The new pair is therefore at least as easy
to tell apart, at every epsilon and in every composition. Above the grid, the last output gets S e^l, and the rest
counts as an infinite loss. Rounding errors of the masses are added to the upper outputs. Losses rounded up by h would
lose h/2 in each of 10,000 releases, where the dots lose h^2 / 4 of variance.

**Adding up.** The law of a sum is the convolution of the laws.

- Laws of a few losses on a lattice of their own (`times`), also where several meet on a common grid (`+`), are
  convolved as sums of products of positive numbers, which are good to 1e-12.
- Others go through a Fourier transform, to the power of the number of releases. It errs by parts of the whole, which
  says little about a tail of 1e-10. So a law is tilted first (`tilted_times`), to weights e^(t l) / M with M = E
  e^(t l), and t such that the tilted sum has its mean about epsilon (`tilt_for`). Then

      delta(epsilon) = M^n e^(-t epsilon) E_tilted[e^(-t (L - epsilon)) (1 - e^(epsilon - L)); L > epsilon],

  an expectation of something between 0 and 1 under a law that lies right there: absolute errors of it are relative
  errors of delta. Without a tilt (t = 0, M = 1) it is the formula above: there is one type, and one `delta`.

What the transform may miss, and what lies outside its window (it comes back in at the other end), are bounded, by
Parseval and by Chernoff, and added (`missed`).

**Backwards.** A delta falls in epsilon, whatever it was computed from; `least_epsilon` finds where it is small enough.
Errors are on the safe side: the epsilon that comes back was tried.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

_UNIT = 2.0**-52  # of the last place
MOST_CELLS = 1 << 18  # of a window: more would take seconds, and hardly bring epsilon down
_FEW = 64  # masses that are laid over a law faster than a transform takes
_SLACK = 5.0  # how far a Chernoff bound may be above the best one, in logarithms of delta
_OUTSIDE = 1e-10  # of the tilted law, outside the window, on either side
_FAR = 40.0  # tilted losses so far above epsilon weigh e^-40 of those right there

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class PrivacyLoss:
    """The law of a privacy loss under P: its mass at start * step, (start + 1) * step, ..., and at infinity.

    A tilted one holds, at the loss l, e^(tilt * l - log_scale) times the mass. Up to `missed` of what it holds may not
    be shown, at any losses; and all losses may be larger by `doubt`, since the edges of cells are floats.
    """

    step: float
    start: int
    mass: Numbers
    infinite: float = 0.0
    doubt: float = 0.0
    tilt: float = 0.0
    log_scale: float = 0.0
    missed: float = 0.0

    @property
    def losses(self) -> Numbers:
        """The finite losses, in ascending order."""
        return self.step * (self.start + np.arange(self.mass.size, dtype=np.float64))

    @cached_property
    def total(self) -> float:
        """All that it shows: 1 but for what is infinite, and for rounding."""
        return float(self.mass.sum())

    # What it promises --------------------------------------------------------------------------------------------

    def delta(self, epsilon: float) -> float:
        """The smallest delta at this epsilon, rounded up."""
        first = min(max(0, math.floor(epsilon / self.step) - self.start), self.mass.size)
        last, beyond = self.mass.size, 0.0
        if self.tilt:  # what is far above weighs next to nothing
            last = min(last, first + math.ceil(_FAR / (self.tilt * self.step)) + 1)
            beyond = max(2.0, self.total + self.missed) * math.exp(-_FAR)
        above = self.step * (float(self.start + first) + np.arange(last - first)) - epsilon
        np.maximum(above, 0.0, out=above)
        weight = -np.expm1(-above)
        if self.tilt:
            weight *= np.exp(-self.tilt * above)
        gained = _inner(self.mass[first:last], weight) + self.missed + beyond
        exponent = self.log_scale + (self.tilt + 1) * self.doubt - self.tilt * epsilon
        if exponent and gained:
            gained = math.exp(min(exponent + math.log(gained), 1.0))
        return self.infinite + gained

    def epsilon(self, delta: float, close: float = 1e-9) -> float:
        """The smallest epsilon at this delta, within `close`, relatively; infinite if there is none."""
        highest = max(0.0, self.step * (self.start + self.mass.size - 1))
        if self.tilt:  # it never reaches 0, but falls for ever
            highest = max(self.step * (self.start + self.mass.size), self.step)
        if self.infinite >= delta or (not self.tilt and self.delta(highest) > delta):
            return math.inf
        return least_epsilon(self.delta, delta, highest, close)

    # Adding up ---------------------------------------------------------------------------------------------------

    def times(self, number: int) -> "PrivacyLoss":
        """So many releases of a kind with a few losses, on the same lattice, in positive numbers only."""
        mass = reduce(np.convolve, _powers(self.mass, number))
        return PrivacyLoss(self.step, number * self.start, mass, _any_of(self.infinite, number), number * self.doubt)

    def tilted(self, tilt: float) -> "PrivacyLoss":
        """The same law, tilted."""
        scale = cumulant(self.losses, self.mass, tilt)
        mass = tilted_mass(self.losses, self.mass, tilt, scale)
        return PrivacyLoss(self.step, self.start, mass, self.infinite, self.doubt, tilt, scale)

    def tilted_times(self, number: int, tilt: float, cells: int = MOST_CELLS) -> "PrivacyLoss | None":
        """So many releases, tilted, in a window that holds all but a part of 2e-10; None if it has more cells."""
        losses = self.losses
        scale = cumulant(losses, self.mass, tilt)
        tilted = tilted_mass(losses, self.mass, tilt, scale)
        low, high = _window(losses, tilted, number)
        start = math.floor(low / self.step)
        size = 1 << max(10, math.ceil(high / self.step - start + 1).bit_length())
        if size > cells:
            return None
        places = (self.start + np.arange(losses.size)) % size
        mass, lost = _power(np.bincount(places, weights=tilted, minlength=size).astype(np.float64), number)
        # Place j of the transform is the loss that leaves the rest j; the window begins at `start`.
        mass = np.roll(mass, -(start % size))
        infinite, missed = _any_of(self.infinite, number), 2 * _OUTSIDE + lost
        return PrivacyLoss(self.step, start, mass, infinite, number * self.doubt, tilt, number * scale, missed)

    def on(self, step: float) -> "PrivacyLoss":
        """On another grid, the dots connected: where P has a mass, P' has e^-loss of it."""
        losses = self.losses
        place = np.floor(losses / step).astype(np.int64)
        down = step * place - losses  # from a loss to the dot below; the one above is a step further
        upper = np.clip(np.expm1(down) / math.expm1(-step), 0.0, 1.0)
        mass = np.zeros(int(place[-1] - place[0]) + 2)
        np.add.at(mass, place - place[0], (1 - upper) * self.mass * np.exp(self.tilt * down))
        np.add.at(mass, place - place[0] + 1, upper * self.mass * np.exp(self.tilt * (down + step)))
        doubt = self.doubt + 4 * _UNIT * float(np.abs(losses).max())  # by rounding, a loss may lie beside its cell
        missed = self.missed * math.exp(self.tilt * step)
        return PrivacyLoss(step, int(place[0]), mass, self.infinite, doubt, self.tilt, self.log_scale, missed)

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        """Both, on a common grid and with one tilt.

        The shorter is laid over the longer, in positive numbers only; with a tilt, long ones go through a transform.
        """
        few, many = sorted((self, other), key=lambda each: int(np.count_nonzero(each.mass)))
        places, lost = np.flatnonzero(few.mass), 0.0
        if self.tilt and places.size > _FEW:
            mass, lost = _product(few.mass, many.mass)
        else:
            mass = np.zeros(few.mass.size + many.mass.size - 1)
            for place in places:
                mass[place : place + many.mass.size] += few.mass[place] * many.mass
        return PrivacyLoss(
            self.step,
            few.start + many.start,
            mass,
            1 - (1 - few.infinite) * (1 - many.infinite),
            few.doubt + many.doubt,
            self.tilt,
            few.log_scale + many.log_scale,
            few.missed * (many.total + many.missed) + many.missed * few.total + lost,
        )


def halfway(low: float, high: float, _below: float, _above: float) -> float:
    """The middle: where a delta costs little, the plainest search."""
    return (low + high) / 2


def along_the_logarithm(low: float, high: float, below: float, above: float) -> float:
    """Along a straight line in the logarithm of delta, a little towards the middle: for a delta that costs much."""
    if low == 0:
        return high / 8
    if not (math.isfinite(below) and math.isfinite(above)):
        return math.sqrt(low * high)
    share = below / (below - above)
    share = min(max(share, 0.02), 0.98)
    guess = low + share * (high - low)
    # Step past the root on the shorter side, so that both ends close in.
    return guess + 0.05 * (high - guess) if share < 0.5 else guess - 0.05 * (guess - low)


def least_epsilon(
    curve: Callable[[float], float],
    delta: float,
    high: float,
    close: float,
    guess: Callable[[float, float, float, float], float] = halfway,
) -> float:
    """An epsilon at which a falling delta is small enough, within `close` of the least, relatively.

    `high` is a first guess. It is doubled until it is enough, so the curve must fall below delta somewhere. `guess`
    says where to look next, between two ends and what ln(curve / delta) is there, where it is known. Noise, and so the
    bytes of a seeded training, follow from epsilons that are found here: the order of guesses is part of the answer.

    >>> round(least_epsilon(lambda epsilon: math.exp(-epsilon), math.exp(-3.0), 1.0, 1e-12), 9)
    3.0
    """
    if curve(0.0) <= delta:
        return 0.0
    while curve(high) > delta:
        high *= 2
    low, below, above = 0.0, math.inf, -math.inf
    while high - low > close * high:
        middle = guess(low, high, below, above)
        value = curve(middle)
        level = math.log(value / delta) if value > 0 else -math.inf
        if value <= delta:
            high, above = middle, min(level, 0.0)
        else:
            low, below = middle, max(level, 0.0)
    return high


def connected_dots(
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


# Tilts -------------------------------------------------------------------------------------------------------------


def cumulant(losses: Numbers, mass: Numbers, tilt: float) -> float:
    """ln E e^(tilt * loss), over the finite losses."""
    with np.errstate(divide="ignore"):
        exponent = tilt * losses + np.log(mass)
    top = float(exponent.max())
    return top + math.log(float(np.exp(exponent - top).sum()))


def tilted_mass(losses: Numbers, mass: Numbers, tilt: float, scale: float) -> Numbers:
    """The tilted law. The mass is in the exponent: there may be none where e^(tilt * loss) is beyond all floats."""
    with np.errstate(divide="ignore", under="ignore"):
        return np.exp(tilt * losses - scale + np.log(mass))


def tilt_for(laws: Sequence[tuple[Numbers, Numbers, int]], delta: float) -> tuple[float, float]:
    """A tilt for all of these at this delta, and about how large epsilon is; a law is losses, masses, and how many.

    The tilt with the least Chernoff bound on epsilon has the tilted sum right at epsilon. Of those that are about as
    good the smallest is taken: with heavy tails the best one has one foot in losses far above, and a wide window.
    """
    tilts = np.geomspace(1e-3, 1e4, 100)
    sums = [sum(number * cumulant(losses, mass, tilt) for losses, mass, number in laws) for tilt in tilts]
    cumulants = np.array(sums) - math.log(delta)
    about = max(float((cumulants / tilts).min()), 1e-3)
    return float(tilts[np.argmax(cumulants - tilts * about <= _SLACK)]), about


def tilted_variance(losses: Numbers, mass: Numbers, tilt: float) -> float:
    """The variance of the tilted loss."""
    weight = tilted_mass(losses, mass, tilt, cumulant(losses, mass, tilt))
    mean = _inner(weight, losses)
    return _inner(weight, (losses - mean) ** 2)


def _window(losses: Numbers, tilted: Numbers, number: int) -> tuple[float, float]:
    """An interval with all but 1e-10 of the tilted sum below, and as much above, by Chernoff's bound."""
    mean = _inner(tilted, losses)
    deviation = math.sqrt(max(_inner(tilted, (losses - mean) ** 2), 1e-300) * number)
    cuts = np.arange(0, losses.size, -(-losses.size // 2048))
    rough = losses[cuts], np.add.reduceat(tilted, cuts)  # to choose the slope; the bound itself takes all
    ends = []
    for sign in (-1.0, 1.0):
        slopes = np.geomspace(1e-3, 10.0, 40) / deviation
        best = slopes[np.argmin([_side(sign * rough[0], rough[1], number, slope) for slope in slopes])]
        ends.append(sign * _side(sign * losses, tilted, number, float(best)))
    return ends[0], ends[1]


def _side(losses: Numbers, tilted: Numbers, number: int, slope: float) -> float:
    """Where the tail of the sum is below 1e-10, by one slope of Chernoff's bound."""
    return (number * cumulant(losses, tilted, slope) - math.log(_OUTSIDE)) / slope


# Powers ------------------------------------------------------------------------------------------------------------


def _any_of(infinite: float, number: int) -> float:
    """The probability that one of so many losses is infinite, rounded up."""
    return 1.0 if infinite >= 1 else min(1.0, -math.expm1(number * math.log1p(-infinite)) * (1 + 1e-12))


def _powers(mass: Numbers, number: int) -> list[Numbers]:
    """The factors of a power, by repeated squaring."""
    factors, square = [], mass
    while number:
        if number & 1:
            factors.append(square)
        number >>= 1
        if number:
            square = np.convolve(square, square)
    return factors


def _power(mass: Numbers, number: int) -> tuple[Numbers, float]:
    """The cyclic convolution of so many equal laws, and a bound on what rounding loses of any part of it.

    A transform of n numbers errs, in the Euclidean norm, by u log2(n) times its result, u a few units of the last
    place (Higham 2002, theorem 24.2); to the power it errs `number` times as much. By Parseval the masses err by that
    times the norm of `mass`, and a sum of up to n of them by sqrt(n) more.
    """
    size = mass.size
    spectrum = np.fft.rfft(mass)
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):  # a 0 has no logarithm, and stays 0
        found = np.fft.irfft(np.exp(number * np.log(spectrum)), size)
    unit = 16 * _UNIT * math.log2(size)
    return np.maximum(found, 0.0), unit * number * math.sqrt(size) * math.sqrt(_inner(mass, mass))


def _product(one: Numbers, other: Numbers) -> tuple[Numbers, float]:
    """The convolution of two laws by transform, and a bound on what rounding loses of any part of it, as above."""
    size = one.size + other.size - 1
    padded = 1 << (size - 1).bit_length()
    found = np.fft.irfft(np.fft.rfft(one, padded) * np.fft.rfft(other, padded), padded)[:size]
    norms = sum(
        math.sqrt(_inner(law, law)) * max(1.0, float(by.sum())) for law, by in ((one, other), (other, one))
    )  # a spectrum is nowhere above the sum of its law
    return np.maximum(found, 0.0), 16 * _UNIT * math.log2(padded) * math.sqrt(padded) * norms


def _inner(one: Numbers, other: Numbers) -> float:
    """The inner product without BLAS, which would start threads for it and wait for them on a busy machine."""
    return float(np.einsum("i,i->", one, other))
