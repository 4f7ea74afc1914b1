"""BallGaussian: the mean of vectors of length at most 1, by Gaussian noise on integer vectors.

What "the Gaussian mechanism" means for gradients and updates that are clipped by their length. (`Gaussian(d=...)`
bounds every entry by itself; two of its records may be 2 sqrt(d) apart, where two vectors of a ball are never more than
2.)

A vector is scaled to length at most r and every coordinate rounded to a whole number beside it, without bias. The
result v is used only if its squares add up to K^2 at most, checked in integers; r is a little below K, such that this
fails with probability e^-39 at worst, and then coordinates are rounded towards zero instead. Integer noise round(N(0,
s^2)) is added to each of them: the report is v + noise, d whole numbers, and its score (v + noise) / r is unbiased.

**Certificate.** Integer vectors of length at most K are at most 2 K apart. Integer noise is the continuous Gaussian
mechanism, and then rounding (`core.rounded_gaussian`), so with D = 2 K / s its delta at epsilon is at most (Balle and
Wang 2018)

    Phi(D/2 - epsilon/D) - e^epsilon Phi(-D/2 - epsilon/D),

to which the table of the noise adds (1 + e^epsilon) d tau. Both are worked out in rationals and rounded up; s is chosen
for a sum within 1e-9 below the declared delta. Beyond epsilon = 20 the noise is that of 20, and the certificate says
so. The vector before the noise is a mixture over integer vectors, covered
by joint convexity.

**Fineness.** r is below K by 4.5 and d / 8 K: of the variance that costs 0.5% at K = 2,048, and more only where the
noise is so wide that a table for it must have a smaller K. Rounding adds at most 1/4 to a variance of s^2, which is in
the ten thousands.

What goes wrong: noise for the ball on a vector that was only clipped by entries; rounding that lengthens a vector after
its length was checked; sensitivity K, which would be that of leaving a report out instead of changing it.
"""

import math
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.ball_domain import Ball
from dither.core.channel import Blanket, Channel
from dither.core.checks import checked_count
from dither.core.contributions import Bounded
from dither.core.domains import BALL
from dither.core.draw import Rows, Tape, slots_of
from dither.core.estimate import MEAN, Estimate
from dither.core.exact import exp_below
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import HonestSums, Sums
from dither.core.lattice import rounded
from dither.core.mechanism import Mechanism, Moments
from dither.core.rounded_gaussian import MOST_SCALE, RoundedGaussian, normal_below
from dither.core.structure import POINTS
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.mechanisms.noise_tables import MOST_EPSILON, analytic_sigma

MOST_DIMENSIONS = 1 << 20  # squares of integers below 2^19 add up to 2^58 then: far from 2^63
LEAST_DELTA = 1e-20
_LEAST_RADIUS, _MOST_RADIUS = 16, 1 << 19
_FINE = 1 << 40  # the scale of the noise is a multiple of one over this
_FAR = Fraction(1, 10**43)  # what `normal_below` may miss
_AIM, _MISS = 1 - 5e-10, 4e-10  # where in delta the calibration aims, and how far beside it may end


@dataclass(frozen=True)
class Sphere(Channel):
    """Integer vectors of length at most `radius`, with rounded Gaussian noise in each of d coordinates."""

    d: int
    radius: int
    scale: Fraction

    @cached_property
    def table(self) -> RoundedGaussian:
        """The noise of one coordinate."""
        return RoundedGaussian(self.scale)

    @property
    def most(self) -> int:
        """The largest entry of a report; the smallest is its negative."""
        return self.radius + self.table.reach

    @property
    def shape(self) -> tuple[int, int]:
        return min(2 * self.d, 256), (2 * self.most + 1) ** self.d

    @property
    def exact(self) -> bool:
        return False

    def ratio(self) -> float:
        return math.inf  # a noise of finite reach tells vectors apart, with a probability that delta covers

    def divergence(self, ratio: Fraction) -> Fraction:
        ratio = min(ratio, exp_below(MOST_EPSILON))  # delta falls with epsilon: beyond, this one is still a bound
        return min(Fraction(1), gaussian_divergence(Fraction(2 * self.radius) / self.scale, ratio) + self.cost(ratio))

    def cost(self, ratio: Fraction) -> Fraction:
        """What the table adds to delta."""
        return (1 + ratio) * self.d * self.table.deviation

    def blanket(self) -> Blanket:
        return Blanket(Fraction(0))

    def row(self, x: int) -> list[Fraction]:
        raise ParameterError("the reports of a Gaussian in a ball are too many to list; use profile()")


def gaussian_divergence(apart: Fraction, ratio: Fraction) -> Fraction:
    """The delta of continuous Gaussian noise at e^epsilon = `ratio`, for inputs so many standard deviations apart.

    It is rounded up.

    >>> round(float(gaussian_divergence(Fraction(1), exp_below(1.0))), 6)
    0.126937
    """
    context = Context(prec=60)
    epsilon = Fraction(context.subtract(Decimal(ratio.numerator).ln(context), Decimal(ratio.denominator).ln(context)))
    drop = max(Fraction(0), epsilon - Fraction(1, 10**50)) / apart
    return (
        max(Fraction(0), normal_below(apart / 2 - drop) - ratio * normal_below(-apart / 2 - drop)) + (1 + ratio) * _FAR
    )


@dataclass(frozen=True, eq=False)
class BallMean:
    """The reading of a mean vector from sums of reports."""

    d: int
    length: int  # r: that of a vector of length 1 on the lattice
    offset: int  # what is added to every entry of a report, so that none is negative
    noise: float  # variance, in squared lattice steps

    @property
    def domain(self) -> Ball:
        """Vectors of d numbers, of length at most 1."""
        return Ball(self.d)

    @property
    def variance(self) -> float:
        """Of a coordinate of one score, at most."""
        return (self.noise + 0.25) / self.length**2

    @property
    def error(self) -> float:
        """E |score - v|^2 of one report, at most."""
        return self.d * self.variance

    def worst_variance(self, share: float = 1.0) -> float:
        """The same for all values; of a share of the users, the values of those who are asked vary as well."""
        return self.variance + (1.0 - share) / self.d

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimate:
        """The mean vector with a standard error for each coordinate, which covers a choice of the `among` users too."""
        value = (tally.counts - float(tally.n * self.offset)) / (tally.n * self.length)  # 64 bits may be too few
        unasked = 0.0 if among is None else 1 - tally.n / among
        others = unasked * (1.0 - np.clip(value**2, 0.0, 1.0))  # the mean square of a coordinate is not known
        stderr = np.sqrt((self.variance + others) / tally.n)
        note = (
            f"Gaussian noise with a standard deviation of {self.variance**0.5:.3g} in each coordinate of a report; the "
            f"squared error of a whole vector from one report is {self.error:.3g}."
        )
        return Estimate(value, stderr, tally.n, guarantee, "mean", source=source, notes=(note,), bounds=MEAN)

    def moments(self, x: Any) -> Moments:
        """Of the score of each coordinate, for each vector; the third is that of a Gaussian."""
        table = np.asarray(self.domain.check(x), dtype=np.float64)
        share = table * self.length % 1.0
        variance = (self.noise + share * (1 - share)) / self.length**2
        return Moments(np.zeros(table.shape), variance, math.sqrt(8 / math.pi) * variance**1.5)


@dataclass(frozen=True)
class BallGaussian(Mechanism[Estimate]):
    """d numbers whose squares add up to at most 1, by Gaussian noise: for gradients and updates clipped by length.

    >>> mechanism = BallGaussian(d=100, epsilon=1.0, delta=1e-6)
    >>> print(mechanism.guarantee)
    epsilon 1, delta 1e-6 (bound)
    >>> round(mechanism.reading.variance, 1)  # that of the continuum is 71.4
    71.7
    """

    d: int
    epsilon: float
    delta: float = 1e-6
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)  # K, and s in units of 2^-40

    family = "vectors"
    structure = POINTS
    takes = BALL
    statistics = ("mean",)
    needs_delta = True
    for_vectors = True
    composition = "gaussian"
    weight_count = 2
    examples = (
        {"d": 2, "epsilon": 1.0, "delta": 1e-3},
        {"d": 3, "epsilon": 4.0, "delta": 1e-2},
        {"d": 6, "epsilon": 2.0, "delta": 1e-3},
    )

    def _validate(self) -> None:
        self._freeze(d=checked_count("d", self.d, 1, MOST_DIMENSIONS))
        if self.delta == 0:
            raise ParameterError("Gaussian noise needs a delta above 0, for example delta=1e-6; UnitVector needs none")
        if self.delta < LEAST_DELTA:
            raise ParameterError("delta is below what a table of noise can resolve (1e-20); UnitVector needs none")

    def _fit(self) -> tuple[int, ...]:
        sigma = analytic_sigma(min(self.epsilon, MOST_EPSILON), self.delta)  # for two vectors of length 1
        radius = _radius(self.d, sigma)
        # The cost of the table hardly depends on the scale, and is next to nothing.
        cost = Sphere(self.d, radius, Fraction(sigma * radius)).cost(exp_below(min(self.epsilon, MOST_EPSILON)))
        return radius, round(_calibrated(self.epsilon, Fraction(self.delta) - cost, sigma) * radius * _FINE)

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        checked = super()._checked_weights(weights)
        checked_count("the radius", checked[0], 4, _MOST_RADIUS)
        return checked

    @cached_property
    def law(self) -> Sphere:
        """The lattice and its noise, as the sampler and the certificate read them."""
        assert self.weights is not None
        radius, scale = self.weights
        return Sphere(self.d, radius, Fraction(scale, _FINE))

    def channel(self) -> Sphere:
        return self.law

    @cached_property
    def guarantee(self) -> Guarantee:
        return Guarantee.of(self.law, min(self.epsilon, MOST_EPSILON), self.delta)

    @cached_property
    def reading(self) -> BallMean:
        law = self.law
        return BallMean(self.d, _length(self.d, law.radius), law.most, law.table.variance)

    def report_worth(self) -> Worths:
        """The farthest noise, in every coordinate at once: the whole vector is sqrt(d) times as long as that."""
        reading = self.reading
        return (Worth.of_mean(Fraction(reading.offset, reading.length), items=self.d, at_once=self.d),)

    def honest_sums(self, tally: Tally) -> Sums:
        """The sum of each coordinate, in units of the largest entry."""
        most, length = 2 * self.reading.offset, self.reading.length
        ends = (self.reading.offset - length) / most, (self.reading.offset + length) / most
        return (HonestSums.of("the sum of a coordinate", tally.counts / most, tally.n, *ends),)

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype([("value", np.min_scalar_type(2 * self.law.most + 1), (self.d,))])

    def outputs(self) -> NDArray:
        raise ParameterError("the reports of a Gaussian in a ball are too many to list")

    @property
    def row_words(self) -> int:
        return 2 * self.d

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        slots = tape.slots("coordinate", self.d)
        numbers = slots_of(rows, self.d)
        points = self._points(values, slots, numbers)
        points += self.law.table.draw(slots, numbers).reshape(points.shape)
        points += self.law.most
        reports["value"] = points

    def _points(self, values: NDArray, slots: Tape, numbers: Rows) -> NDArray[np.int64]:
        """Each vector as an integer vector whose squares add up to K^2 at most.

        Entries that were never checked are clipped, or zero if they are not finite. So all integers are below 2^19, and
        sums of their squares far from where they would wrap around.
        """
        length, most = self.reading.length, self.law.radius**2
        inside = np.clip(values.astype(np.float64, copy=False), -1.0, 1.0)
        np.copyto(inside, 0.0, where=~np.isfinite(values))
        points = rounded(inside.reshape(-1), 2 * length, slots, numbers).astype(np.int64).reshape(values.shape)
        points -= length
        long = np.flatnonzero(np.einsum("ij,ij->i", points, points) > most)
        if long.size:
            points[long] = np.trunc(inside[long] * length)
            points[np.einsum("ij,ij->i", points, points) > most] = 0  # only a vector that was never checked
        return points

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        return np.all(reports["value"] <= 2 * self.law.most, axis=1)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return reports["value"].sum(axis=0, dtype=np.int64)

    @cached_property
    def contributions(self) -> Bounded:
        return Bounded((self.d,), 0, 2 * self.law.most)


def _length(d: int, radius: int) -> int:
    """r: so that rounding a vector of length r makes it longer than `radius` with probability e^-39 at worst.

    With errors e_j of mean 0 in an interval of length 1, the square of the length grows by 2 v.e + |e|^2. By Hoeffding
    2 v.e exceeds 9 r with probability e^-40, and |e|^2 exceeds its mean, at most d/4, by 5 sqrt(d) with e^-50.
    """
    room = radius**2 - d / 4 - 5 * math.sqrt(d)
    return max(1, math.floor(math.sqrt(max(0.0, room) + 20.25) - 4.5))


def _radius(d: int, sigma: float) -> int:
    """K: fine enough that rounding costs little, as far as a table of the noise can have it."""
    wanted = 1 << max(11, math.ceil(math.log2(32 * math.sqrt(d))))
    while wanted > _LEAST_RADIUS and wanted * sigma > MOST_SCALE / 2:
        wanted //= 2
    if _length(d, wanted) ** 2 < wanted**2 / 4 or wanted * sigma > 0.99 * MOST_SCALE:
        raise ParameterError(
            "noise this wide in d dimensions needs a table of more than a million weights; take a larger epsilon or "
            "delta, or UnitVector, which needs no delta"
        )
    return wanted


def _calibrated(epsilon: float, delta: Fraction, start: float) -> Fraction:
    """The standard deviation for vectors of length 1 whose delta is within 1e-9 below the one given."""
    ratio, low, high = exp_below(min(epsilon, MOST_EPSILON)), start * 0.999, start * 1.001

    def excess(sigma: float) -> float:
        return float(gaussian_divergence(2 / Fraction(sigma), ratio) / delta) - _AIM

    above, below = excess(low), excess(high)
    for _ in range(100):
        middle = low + (high - low) * above / (above - below)
        found = excess(middle)
        if abs(found) < _MISS:
            return Fraction(middle)
        low, high, above, below = (
            (middle, high, found, below) if abs(below) < abs(above) else (low, middle, above, found)
        )
    raise ParameterError("no noise keeps this delta closely; choose a larger delta, or UnitVector, which needs none")
