"""Laplace and Gaussian: additive noise on a lattice, drawn from a table of integers.

The input is rounded to one of J + 1 lattice points (without bias, see `core.lattice`), a noise offset is drawn from an
integer table, and the sum is clamped far outside the domain: the channel is `core.additive_channel.AdditiveChannel`,
and the output y reads as the number H (-1 + 2 y / J). There is no float in the draw; noise drawn in floats gives inputs
away by its last bits.

- **Laplace**: v[o] = c q^o, q = e^(-epsilon / J). A geometric table is the border of log-concavity, where one rounded
  digit decides, so it is bent by e^(-eta o^2) with eta = 2^-54: more than rounding can undo, and far too little to be
  seen in the noise (epsilon gives way by a factor 1 - 2^-36; the certificate may miss 1e-9).
- **Gaussian**: v[o] = c e^(-o^2 / 2 s^2). The start is the analytic calibration (Balle and Wang 2018; 002 eq. 4) with
  the diameter 2 of the domain as sensitivity; then s is moved until the exact delta of the *table*, clamped ends
  included, lies within 1e-9 below the declared one.

The lattice is the coarsest on which the worst-case variance, rounding included, is within 0.05% of the continuum's: 8 /
epsilon^2 and sigma^2. Rounding adds at most a quarter of a squared step, which asks for a noise of about 14 (Laplace)
or 25 steps (Gaussian; the discrete Laplace is itself a little narrower than its continuum). A wide noise stretches the
lattice instead (see `core.additive_channel`; the variance may then be 0.1% below the continuum's): a table has a few
hundred weights. Clamping starts 24 scales (Laplace) or 7 standard deviations (Gaussian) outside the domain and biases
by about 1e-11 of a standard deviation at most. For a delta far below the mass clamped there, 1e-12, the clamped
Gaussian is all but purely private, and needs less noise than the continuum.

**A robust reading.** Laplace noise beyond the domain tells on which side it is and nothing more, since its tail has no
memory. `Laplace.robust` counts all such outputs alike (`Additive.saturated`).

What goes wrong: above epsilon = 20 the noise stops shrinking, because the table would need ever more bits; the
certificate states what is delivered. In d dimensions the sensitivity is 2 sqrt(d), not the printed 2 (002; see
`gaussian_bound`).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.additive_channel import AdditiveChannel
from dither.core.channel import Channel
from dither.core.checks import checked_count, checked_list
from dither.core.domains import NUMBERS
from dither.core.draw import Rows, Tape, entries
from dither.core.estimate import Estimate
from dither.core.honest_sums import Sums, tails
from dither.core.lattice import MOST_STEPS, ROUNDING, rounded
from dither.core.mechanism import Mechanism, Moments, Reading
from dither.core.short_weights import FEW_NOISES, short_noise
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.mechanisms.mean import Mean
from dither.mechanisms.multi_attribute import MultiAttribute
from dither.mechanisms.noise_tables import FINE, Cloud, gaussian_law, gaussian_scale, laplace_law, unstretched_table

LEAST_DELTA = 2.0**-100
_MOST_WEIGHTS = 1 << 20
_MOST_WEIGHT = 1 << 1024
MOST_DIMENSIONS = 1 << 12


@dataclass(frozen=True)
class Additive:
    """Clamped additive noise as a numeric protocol: how values become outputs, and outputs scores."""

    law: AdditiveChannel

    @property
    def step(self) -> float:
        """The distance of two lattice points."""
        return 2 * self.law.stretch / self.law.steps

    def fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows, lane: int = ROUNDING) -> None:
        """One report for each value, whose rounding reads this lane."""
        law = self.law
        point = rounded(values / law.stretch, law.steps, tape, rows, lane).astype(np.int64)
        # Entry e is the offset e - R, and outputs are numbered from -T: i + e - R + T = i + e - J.
        point += entries(law.cumulative, tape, rows)
        point -= law.steps
        reports["value"] = np.clip(point, 0, law.shape[1] - 1, out=point)

    def reading(self) -> Mean:
        """The mean: the output is read as a place on the line."""
        scores = self.step * (np.arange(self.law.shape[1], dtype=np.float64) - self.law.reach) - self.law.stretch
        # E[score^2 | x] = zero + growth x^2 at lattice points: two of them tell both. Two points carry no magnitude.
        steps = self.law.steps
        x = np.array([-1 + 2 * (steps // 2) / steps, 1.0])
        at = self.moments(x)
        mean = x + at.bias
        square = at.variance + mean**2
        growth = 0.0 if steps == 1 else float((square[1] - square[0]) / (1 - x[0] ** 2))
        rounding = 0.0 if steps == 1 else self.step**2 / 4  # two points: it is in the squares already
        return Mean(scores, float(square[1]) - growth, growth, float(mean[1]), self.moments, rounding)

    def saturated(self) -> Mean:
        """The mean, where all outputs beyond an end of the lattice count alike: right for Laplace noise.

        How far noise goes beyond the end, given that it does, has nothing to do with the input: an exponential tail has
        no memory. So the mean of that stands for all of them: no bias, less variance (Rao and Blackwell), and a report
        from far out is worth no more than one that is just outside.
        """
        law, size = self.law, self.law.shape[1]
        over = sum(o * law.weights[o] for o in range(1, law.reach)) + law.reach * law.tail(law.reach)
        over = over / law.tail(1)  # how many steps an output beyond the end is away from it
        place = np.arange(size, dtype=np.float64) - law.reach
        place = np.where(place < 0, -over, np.where(place > law.steps, law.steps + over, place))
        scores = self.step * place - law.stretch
        table = np.array([[weight / law.total for weight in law.shifted(i)] for i in range(law.steps + 1)])

        def moments(x: NDArray[np.float64]) -> Moments:
            at = (x / law.stretch + 1) / 2 * law.steps
            lower = np.minimum(at.astype(np.int64), law.steps - 1)
            chance = table[lower] + (at - lower)[:, None] * (table[lower + 1] - table[lower])
            mean = chance @ scores
            away = np.abs(scores - mean[:, None])
            return Moments(mean - x, (chance * away**2).sum(axis=1), (chance * away**3).sum(axis=1))

        square, squares = table @ scores**2, (self.step * np.arange(law.steps + 1) - law.stretch) ** 2
        if law.steps == 1:  # two points carry no magnitude
            return Mean(scores, float(square.max()), 0.0, 1.0, moments)
        # The largest variance stands for all: they differ little, and the error bar is too wide, never too narrow.
        return Mean(scores, float((square - squares).max()), 1.0, 1.0, moments, self.step**2 / 4)

    def worths(self) -> Worths:
        """The places of the lowest and the highest output on the line: those of the farthest noise."""
        law = self.law
        step = Fraction(2 * law.stretch, law.steps)
        least = -step * law.reach - law.stretch
        return (Worth.of_mean(least + step * (law.shape[1] - 1), least),)

    def moments(self, x: NDArray[np.float64]) -> Moments:
        """Exact moments of one score; between two lattice points their mixture."""
        place = (x / self.law.stretch + 1) / 2 * self.law.steps
        lower = np.minimum(place.astype(np.int64), self.law.steps - 1)
        share = place - lower
        bias = (1 - share) * self._drift[lower] + share * self._drift[lower + 1]
        mean = share + bias  # of the output, counted from the lower lattice point

        def central(power: int) -> NDArray[np.float64]:
            return (1 - share) * self._distance(lower, mean, power) + share * self._distance(lower + 1, mean - 1, power)

        return Moments(self.step * bias, self.step**2 * central(2), self.step**3 * central(3))

    @cached_property
    def _drift(self) -> NDArray[np.float64]:
        """E[y | i] - i. The mean of min(o, B) above 0 is S(1) + ... + S(B), so one side minus the other remains."""
        law, sums = self.law, [0]
        for k in range(1, len(law.weights)):
            sums.append(sums[-1] + law.tail(k))
        span = law.reach + law.steps
        return np.array([(sums[span - i] - sums[law.reach + i]) / law.total for i in range(law.steps + 1)])

    @cached_property
    def _powers(self) -> NDArray[np.float64]:
        """Row j, column n: the sum of P(o) o^j over o = 1, ..., n; and in row 4, P(o >= n)."""
        law = self.law
        size = len(law.weights)
        law_of = np.array([weight / law.total for weight in law.weights])
        law_of[0] = 0.0
        powers = np.arange(size, dtype=np.float64) ** np.arange(4)[:, None]
        tails = np.array([law.tail(k) / law.total for k in range(size)])
        return np.vstack([np.cumsum(law_of * powers, axis=1), tails])

    def _distance(self, i: NDArray[np.int64], centre: NDArray[np.float64], power: int) -> NDArray[np.float64]:
        """E|y - i - centre|^power at lattice point i, for |centre| <= 1. All large terms are positive."""
        below, above = self.law.reach + i, self.law.reach + self.law.steps - i
        tails = self._powers[4]
        clamped = tails[below] * (below + centre) ** power + tails[above] * (above - centre) ** power
        middle = self.law.weights[0] / self.law.total * np.abs(centre) ** power
        return clamped + middle + self._one_side(below - 1, centre, power) + self._one_side(above - 1, -centre, power)

    def _one_side(self, last: NDArray[np.int64], shift: NDArray[np.float64], power: int) -> NDArray[np.float64]:
        """The sum of P(o) (o + shift)^power over o = 1, ..., last."""
        parts = (math.comb(power, j) * shift ** (power - j) * self._powers[j, last] for j in range(power + 1))
        return sum(parts, np.zeros_like(shift))


@dataclass(frozen=True)
class _AdditiveMechanism(Mechanism[Estimate]):
    """What Laplace and Gaussian share: everything but the shape of the noise."""

    epsilon: float
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)  # v[0], ..., v[R], J, T, H

    family = "numeric"
    takes = NUMBERS
    statistics = ("mean",)
    planned = False  # others have less variance at every epsilon

    def _validate(self) -> None:
        pass

    @abstractmethod
    def _law(self) -> AdditiveChannel:
        """The table for the parameters."""

    def _fit(self) -> tuple[int, ...]:
        law = self._law()
        return *law.weights, law.steps, law.reach, law.stretch

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """With a table of few noises."""
        return short_noise(self, FEW_NOISES)

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        rule = "weights must be the table of the noise and its steps, reach and stretch, or left out"
        listed = checked_list(rule, weights, 6, _MOST_WEIGHTS)
        checked = tuple(checked_count("a weight", weight, 1, _MOST_WEIGHT) for weight in listed)
        checked_count("the lattice", checked[-3], 1, MOST_STEPS)
        return checked

    @cached_property
    def noise(self) -> Additive:
        """The lattice and the table of the noise."""
        assert self.weights is not None
        *table, steps, reach, stretch = self.weights
        return Additive(AdditiveChannel(tuple(table), steps, reach, stretch))

    @cached_property
    def reading(self) -> Reading:
        return self.noise.reading()

    def report_worth(self) -> Worths | None:
        return self.noise.worths()

    def honest_sums(self, tally: Tally) -> Sums:
        """How many outputs are high, which grows with the input: far out, next to none."""
        law = self.noise.law
        ends = (np.array([weight / law.total for weight in law.shifted(end)]) for end in (0, law.steps))
        return tails("high outputs", tally.counts, ends)

    def channel(self) -> Channel:
        return self.noise.law

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        self.noise.fill(reports, values, tape, rows)

    @property
    def row_words(self) -> int:
        return 2


@dataclass(frozen=True)
class Laplace(_AdditiveMechanism):
    """A number, by discrete Laplace noise: the classic, and the yardstick for the others.

    >>> round(float(Laplace(epsilon=1.0).moments([0.0]).variance[0]), 2)
    7.99
    """

    examples = ({"epsilon": 1.0}, {"epsilon": 0.01}, {"epsilon": 4.0})

    @cached_property
    def robust(self) -> Mean:
        """The reading that counts all outputs beyond the domain alike: less variance, and lies that are worth less."""
        return self.noise.saturated()

    def _law(self) -> AdditiveChannel:
        return laplace_law(self.epsilon)


@dataclass(frozen=True)
class Gaussian(_AdditiveMechanism):
    """A number, or a record of d numbers, by discrete Gaussian noise, with a delta.

    All d coordinates are reported, each with noise for the sensitivity 2 sqrt(d) of the whole record.

    >>> round(float(Gaussian(epsilon=1.0, delta=1e-6).moments([0.0]).variance[0]), 1)
    71.4
    >>> print(Gaussian(epsilon=1.0, delta=1e-6, d=5).guarantee)
    epsilon 1, delta 1e-6 (bound)
    """

    delta: float = 0.0
    d: int = 1

    needs_delta = True
    for_vectors = True
    composition = "delta"
    examples = (
        {"epsilon": 1.0, "delta": 1e-6},
        {"epsilon": 0.05, "delta": 1e-6},
        {"epsilon": 4.0, "delta": 1e-3},
        {"epsilon": 2.0, "delta": 1e-3, "d": 3},
    )

    def _validate(self) -> None:
        self._freeze(d=checked_count("d", self.d, 1, MOST_DIMENSIONS))
        if self.delta == 0:
            raise ParameterError(
                "Gaussian noise needs a delta above 0, for example delta=1e-6; Laplace, Duchi and Piecewise need none"
            )
        if self.delta < LEAST_DELTA:
            raise ParameterError(
                "delta is below what a table can resolve (2^-100); Laplace, Duchi and Piecewise need no delta at all"
            )

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """With a table of few noises, for one number; the coordinates of a record have too many."""
        return super().shortened(limit, rejecting) if self.d == 1 else None

    @property
    def components(self) -> tuple[Mechanism[Any], ...]:
        """The coordinates of a record."""
        return self.layout.parts if self.layout else ()

    def _law(self) -> AdditiveChannel:
        return gaussian_law(self.epsilon, self.delta)

    def _fit(self) -> tuple[int, ...]:
        if self.d == 1:
            return super()._fit()
        s2, steps = gaussian_scale(self.epsilon, self.delta, self.d)
        law = unstretched_table(s2, steps)
        return *law.weights, law.steps, law.reach, law.stretch, int(s2 * FINE)

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        checked = super()._checked_weights(weights)
        if self.d > 1:
            self._table(checked)
        return checked

    def _table(self, weights: tuple[int, ...]) -> tuple[AdditiveChannel, Fraction]:
        """The table of one coordinate, and the variance of the ideal law that it stands for."""
        if len(weights) < 7 or weights[-2] != 1:
            raise ParameterError("in several dimensions the weights end with steps, reach, 1 and the variance")
        *table, steps, reach, stretch, fine = weights
        law, s2 = AdditiveChannel(tuple(table), steps, reach, stretch), Fraction(fine, FINE)
        own = Fraction(2 * sum(o * o * weight for o, weight in enumerate(table)), law.total)
        if not own / 2 <= s2 <= 2 * own:
            raise ParameterError("the table does not have the variance that stands beside it")
        return law, s2

    @cached_property
    def noise(self) -> Additive:
        assert self.weights is not None
        *table, steps, reach, stretch = self.weights if self.d == 1 else self.weights[:-1]
        return Additive(AdditiveChannel(tuple(table), steps, reach, stretch))

    @cached_property
    def layout(self) -> MultiAttribute | None:
        """The d coordinates; each alone keeps the guarantee of the whole."""
        if self.d == 1:
            return None
        assert self.weights is not None
        coordinate = Gaussian(self.epsilon, weights=self.weights[:-1], delta=self.delta)
        return MultiAttribute((coordinate,), np.zeros(self.d, dtype=np.intp), self.d)

    @cached_property
    def reading(self) -> Reading[Estimate]:
        return self.layout or self.noise.reading()

    @property
    def dimensions(self) -> tuple[tuple[Reading[Any], float], ...]:
        return self.layout.dimensions if self.layout else ()

    def report_worth(self) -> Worths | None:
        return self.layout.worths() if self.layout else super().report_worth()

    def honest_sums(self, tally: Tally) -> Sums:
        return self.layout.honest_sums(tally) if self.layout else super().honest_sums(tally)

    def inputs(self) -> NDArray:
        return self.layout.inputs() if self.layout else super().inputs()

    def channel(self) -> Channel:
        if self.d == 1:
            return self.noise.law
        assert self.weights is not None
        return self._cloud

    @cached_property
    def _cloud(self) -> Cloud:
        assert self.weights is not None
        table, s2 = self._table(self.weights)
        return Cloud(table, self.d, s2)

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        (self.layout or self.noise).fill(reports, values, tape, rows)

    @property
    def row_words(self) -> int:
        return 2 * self.d
