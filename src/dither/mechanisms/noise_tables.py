"""Tables of noise: the integers of Laplace and Gaussian noise for an (epsilon, delta), and what d of them promise.

`laplace_law` and `gaussian_law` make the table of one number; how they choose lattice, reach and digits is told in
`mechanisms.additive`. `one_hot_law` is that of an entry of which two change at once. In d dimensions the integers of a
coordinate stand for an ideal Gaussian (`gaussian_scale`, `unstretched_table`), `table_deviation` measures how closely,
and `gaussian_bound` says what the whole record promises: the channel `Cloud`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache

from dither.core.additive_channel import AdditiveChannel, noise_shape, noise_table
from dither.core.channel import Blanket, Channel
from dither.core.composite_channels import Independent
from dither.core.exact import exp_below
from dither.core.privacy_losses import divergence_of
from dither.errors import ParameterError

MOST_EPSILON = 20.0
_MOST_BUILT = 1 << 17
_LAPLACE_SCALE, _LAPLACE_REACH = 10, 24  # the scale in steps, at least; the reach in scales
_BEND = Decimal(2) ** -54
_GAUSSIAN_SCALE, _GAUSSIAN_REACH = 25, 7  # the standard deviation in steps, at least; the reach in these
_ONE_HOT_SCALE = 12  # fewer, since entries are at the ends, and nothing is rounded to the lattice
_AIM = 1 - Decimal(2) ** -31  # where in delta the calibration aims: half of 1e-9 below the declared one
_MISS = Decimal("4e-10")  # and how far beside it may end
_DEVIATION = Fraction(1, 2**40)
FINE = 1 << 64  # the variance of noise in d dimensions is a multiple of 1 / this
_NEGLIGIBLE = Decimal("1e-20")


def _words(bits: float) -> int:
    """Whole words for this many bits, and never less than two."""
    return 64 * max(2, math.ceil(bits / 64))


def _stretch(room: float) -> int:
    """The largest power of two that is at most `room`, and at least one."""
    return 1 << max(0, math.floor(math.log2(room)))


def laplace_law(epsilon: float) -> AdditiveChannel:
    """The Laplace table for a budget: certified within 1e-9 below it, up to an epsilon of 20."""
    epsilon = min(epsilon, MOST_EPSILON)
    steps = math.ceil(_LAPLACE_SCALE * epsilon)
    stretch = _stretch(1 / (_LAPLACE_SCALE * epsilon))
    with localcontext(Context(prec=80)):
        ratio = (Decimal(epsilon) * (1 - Decimal(2) ** -36)).exp()
        # On a stretched lattice tanh(epsilon / 2) is H times smaller than at the lattice points themselves.
        tangent = stretch * (ratio - 1) / (ratio + 1)
        slope = ((1 + tangent) / (1 - tangent)).ln() / steps
        reach = math.ceil(_LAPLACE_REACH / slope)
        size = reach + steps
        bits = _words(57 + math.log2(2 / slope) + size * float(slope) / math.log(2))
        return AdditiveChannel(noise_table(slope, _BEND, size, bits), steps, reach, stretch)


def analytic_sigma(epsilon: float, delta: float, sensitivity: float = 2.0) -> float:
    """The standard deviation of continuous Gaussian noise with this guarantee (002 eq. 4), in floating point.

    >>> round(analytic_sigma(1.0, 1e-6) ** 2, 2)
    71.39
    """

    def loss(sigma: float) -> float:
        half, drop = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
        return (math.erfc((drop - half) / 2**0.5) - math.exp(epsilon) * math.erfc((drop + half) / 2**0.5)) / 2

    low, high = sensitivity * 1e-3, sensitivity
    while loss(high) > delta:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) > delta else (low, middle)
    return high


def gaussian_law(epsilon: float, delta: float) -> AdditiveChannel:
    """The Gaussian table for a budget: its delta certified within 1e-9 below the declared one, up to epsilon = 20."""
    return _fitted(epsilon, delta, 2.0, _GAUSSIAN_SCALE, AdditiveChannel.gain)


@lru_cache(maxsize=256)  # a planner asks for every number of categories, and it is the same for all
def one_hot_law(epsilon: float, delta: float) -> AdditiveChannel:
    """The same of one entry of a vector with a single 1 among -1s: two inputs differ in two entries, both ways.

    So the loss of an input is that of two independent entries, which has the sensitivity 2 sqrt(2). A table is its own
    mirror image: which way an entry goes makes no difference.
    """

    def gain(law: AdditiveChannel, ratio: Fraction) -> Fraction:
        return divergence_of(law.pairs(), law.pairs(), ratio)

    return _fitted(epsilon, delta, 2 * 2**0.5, _ONE_HOT_SCALE, gain)


Gain = Callable[[AdditiveChannel, Fraction], Fraction]


def _fitted(epsilon: float, delta: float, sensitivity: float, least: int, gain: Gain) -> AdditiveChannel:
    """The table whose `gain` at e^epsilon is the delta; its noise has at `least` so many steps."""
    epsilon = min(epsilon, MOST_EPSILON)
    sigma = analytic_sigma(epsilon, delta, sensitivity)
    law, found = _calibrated_table(epsilon, delta, sigma, least, gain)
    for _ in range(8):  # once was enough, unless delta is so small that the clamp, not the tail, decides
        if abs(found / sigma - 1) < 0.01:
            break
        sigma = found
        law, found = _calibrated_table(epsilon, delta, sigma, least, gain)
    return law


def _calibrated_table(
    epsilon: float, delta: float, sigma: float, least: int, gain: Gain
) -> tuple[AdditiveChannel, float]:
    """On the lattice for about this sigma, the table whose exact delta is the declared one; and its sigma."""
    steps = math.ceil(2 * least / sigma)
    stretch = _stretch(sigma / (2 * least))
    ratio, scale = exp_below(epsilon), sigma * steps / (2 * stretch)
    reach = math.ceil(_GAUSSIAN_REACH * scale)
    size = reach + steps
    # Bits for the smallest weight, which must stay log-concave, and for delta, beside which roundings must be small.
    smallest = 48 + math.log2(3 * scale) + (size / scale) ** 2 / 2 / math.log(2)
    finest = 40 + math.log2(size) + (epsilon - math.log(delta)) / math.log(2)
    bits = _words(max(smallest, finest))

    def law(curvature: Decimal) -> AdditiveChannel:
        return AdditiveChannel(noise_table(Decimal(0), curvature, size, bits), steps, reach, stretch)

    start = 1 / (2 * Decimal(scale) ** 2)
    # The gain goes on below zero where the clamp makes the table purely private: nothing flat to get lost on.
    curvature = _solve(lambda curvature: gain(law(curvature), ratio), start, Fraction(delta))
    return law(curvature), float(1 / (2 * curvature)) ** 0.5 * 2 * stretch / steps


def _solve(loss: Callable[[Decimal], Fraction], start: Decimal, delta: Fraction) -> Decimal:
    """Where a growing `loss` is between 1e-10 and 1e-9 below delta (relative): false position, Illinois variant."""
    with localcontext(Context(prec=60)):

        def excess(at: Decimal) -> Decimal:
            relative = loss(at) / delta
            return Decimal(relative.numerator) / relative.denominator - _AIM

        low, high = start * Decimal("0.99"), start * Decimal("1.01")
        below, above = excess(low), excess(high)
        while below > 0:
            low, below = low * Decimal("0.8"), excess(low * Decimal("0.8"))
        while above < 0:
            high, above = high * Decimal("1.25"), excess(high * Decimal("1.25"))
        moved = 0  # the side that moved last: if it moves again, the other is given half its weight
        for _ in range(200):
            middle = (low * above - high * below) / (above - below)
            found = excess(middle)
            if abs(found) < _MISS:
                return middle
            if found > 0:
                high, above, below = middle, found, below / 2 if moved > 0 else below
            else:
                low, below, above = middle, found, above / 2 if moved < 0 else above
            moved = 1 if found > 0 else -1
    raise ParameterError("no table keeps this delta closely; choose a larger delta, or Laplace, which needs none")


def gaussian_bound(s2: Fraction, steps: int, d: int, ratio: Fraction, deviation: Fraction = _DEVIATION) -> Fraction:
    """An upper bound on delta for d coordinates, each clamped Gaussian noise of variance s2 over J `steps`.

    It holds for the epsilon with e^epsilon = `ratio`.

    `deviation` bounds how far the integer table of a coordinate is from the ideal law (see `table_deviation`).

    *Worst pair.* Let (P, Q) be the laws with all coordinates at 0 and all at J. They are the worst pair
    (`core.additive_channel`).

    *Table and clamp.* Every probability of a clamped table is within a factor 1 +- c (c = `deviation`) of the clamped
    ideal law N_Z(0, s2), the integers weighted by exp(-o^2 / 2 s2); so a product of d is within (1 +- c)^d, and

        H_r(P, Q) <= (1 + c)^d H_r'(ideal, clamped) <= (1 + c)^d H_r'(ideal),    r' = r ((1 - c) / (1 + c))^d,

    the second step because clamping is post-processing.

    *To one dimension.* The likelihood ratio of the ideal pair is exp((d J^2 - 2 J Y) / 2 s2): it depends on the sum Y
    of the outputs alone, and it is that of N_Z(0, d s2) against N_Z(d J, d s2). With g(Y) = max(0, 1 - r' / ratio(Y))
    the divergence is E g(Y) for a sum Y of d independent N_Z(0, s2).

    *The sum.* Add a coordinate to N_Z(0, k s2): completing the square, the weight of Y is exp(-Y^2 / 2 (k+1) s2)
    times

        sum_o exp(-(o - t)^2 / 2 c) = sqrt(2 pi c) (1 + 2 sum_{m>=1} exp(-2 pi^2 c m^2) cos(2 pi m t)),

    c = c_k = k s2 / (k+1), by Poisson's formula: a constant up to 1 + theta(c_k), where theta(c) is the last sum,
    doubled and without its cosines. A coordinate is normalised by at least sqrt(2 pi s2). The constants multiply to
    those of the continuum, hence

        P(sum = Y) <= prod_{k<d} (1 + theta(c_k)) exp(-Y^2 / 2 d s2) / sqrt(2 pi d s2),

    and all theta(c_k) <= theta(s2 / 2): 10^-1000 for the tables here.

    *Arithmetic.* 60 digits; the recurrences below lose fewer than 20 of them, and the missing pi (`math.pi` is below
    pi), the end of the tail and 1e-40 of the mass are added.
    """
    if deviation >= 1:  # then 1 - c bounds nothing, and its even powers would be positive
        return Fraction(1)
    with localcontext(Context(prec=60)):
        variance, spread = Decimal(s2.numerator) / s2.denominator, Decimal(deviation.numerator) / deviation.denominator
        least = Decimal(1) * ratio.numerator / ratio.denominator
        least *= ((1 - spread) / (1 + spread)) ** d * (1 - _NEGLIGIBLE**2)
        wide, pi = d * variance, Decimal(math.pi)
        # Two above the last Y with a gain: the gains go down from there, and what is below zero does not count.
        y = int((d * steps * steps - 2 * variance * least.ln()) / (2 * steps)) + 2
        mass = (Decimal(-y * y) / (2 * wide)).exp() / (2 * pi * wide).sqrt()
        fall, bend = (Decimal(2 * y - 1) / (2 * wide)).exp(), (-1 / wide).exp()
        other = least * (Decimal(2 * steps * y - d * steps * steps) / (2 * variance)).exp()
        drop = (-steps / variance).exp()
        gained, seen = Decimal(0), Decimal(0)
        while fall >= 1 or mass >= (1 - fall) * gained * _NEGLIGIBLE:
            gained += max(Decimal(0), mass * (1 - other))
            seen += mass
            mass, fall, other = mass * fall, fall * bend, other * drop
        gained += mass / (1 - fall) + seen * _NEGLIGIBLE**2
        period = (-(pi**2) * variance).exp()  # exp(-2 pi^2 c) at c = s2 / 2, a little above
        theta = 2 * period / (1 - period**3)
        bound = gained * ((d - 1) * theta).exp() * (1 + spread) ** d * (1 + _NEGLIGIBLE**2)
        return min(Fraction(1), Fraction(bound))


def gaussian_scale(epsilon: float, delta: float, d: int) -> tuple[Fraction, int]:
    """(s2, J): the variance of a coordinate's noise in squared steps, and the steps, for d coordinates in [-1, 1].

    `gaussian_bound` at the result is within 1e-9 below delta. The lattice is not stretched: mixtures of two lattice
    points in every coordinate have no such bound.
    """
    epsilon = min(epsilon, MOST_EPSILON)
    sigma = analytic_sigma(epsilon, delta, 2 * d**0.5)
    steps = math.ceil(2 * _GAUSSIAN_SCALE / sigma)

    def variance(curvature: Decimal) -> Fraction:
        return Fraction(round((1 / (2 * curvature)) * FINE), FINE)

    if _GAUSSIAN_REACH * sigma * steps / 2 > _MOST_BUILT:
        raise ParameterError(
            "noise this wide in d dimensions needs a table of over 2^17 weights; take a larger epsilon or delta, or "
            'report fewer dimensions with Sampled("Gaussian", ...)'
        )
    start = 1 / (2 * Decimal(sigma * steps / 2) ** 2)
    found = _solve(lambda at: gaussian_bound(variance(at), steps, d, exp_below(epsilon)), start, Fraction(delta))
    return variance(found), steps


def unstretched_table(s2: Fraction, steps: int) -> AdditiveChannel:
    """The table of N_Z(0, s2), with the smallest weight so large that its rounding is below the deviation allowed."""
    scale = math.sqrt(s2)
    reach = math.ceil(_GAUSSIAN_REACH * scale)
    size = reach + steps
    bits = _words(48 + math.log2(3 * scale) + (size / scale) ** 2 / 2 / math.log(2))
    with localcontext(Context(prec=60 + bits // 3)):
        curvature = Decimal(s2.denominator) / (2 * Decimal(s2.numerator))
    return AdditiveChannel(noise_table(Decimal(0), curvature, size, bits), steps, reach)


def table_deviation(table: tuple[int, ...], s2: Fraction) -> Fraction:
    """The largest relative distance of a table's probabilities, the tail included, from those of N_Z(0, s2)."""
    total = 2 * sum(table) - table[0]
    bits = total.bit_length()
    with localcontext(Context(prec=40 + bits * 2 // 5)):
        curvature = Decimal(s2.denominator) / (2 * Decimal(s2.numerator))
        ideal = noise_shape(Decimal(0), curvature, len(table) - 1, bits + 50)
        worst = max(abs(weight / (total * exact) - 1) for weight, exact in zip(table, ideal, strict=True))
        return Fraction(worst) + Fraction(1, 1 << bits)  # more than the digits carried can miss


@dataclass(frozen=True)
class Cloud(Channel):
    """d coordinates with the same Gaussian table each: independent, with a tighter divergence than composition has."""

    table: AdditiveChannel
    d: int
    s2: Fraction

    @cached_property
    def _coordinates(self) -> Independent:
        return Independent.all_of([self.table] * self.d)

    @property
    def shape(self) -> tuple[int, int]:
        return self._coordinates.shape

    @property
    def exact(self) -> bool:
        return False

    @property
    def epsilon(self) -> float:
        return self._coordinates.epsilon

    def ratio(self) -> Fraction | float:
        return self._coordinates.ratio()

    @cached_property
    def _deviation(self) -> Fraction:
        return table_deviation(self.table.weights, self.s2)

    def divergence(self, ratio: Fraction) -> Fraction:
        return gaussian_bound(self.s2, self.table.steps, self.d, ratio, self._deviation)

    def blanket(self) -> Blanket:
        return self._coordinates.blanket()

    def row(self, x: int) -> list[Fraction]:
        return self._coordinates.row(x)
