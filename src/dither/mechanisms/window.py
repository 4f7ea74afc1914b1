"""Piecewise, square wave and Duchi: one mechanism on a lattice, with three choices of its window.

The input is rounded to one of J + 1 lattice points i (without bias, see `core.lattice`). There are M = J + w
outputs, and the input favours the window y = i, ..., i + w - 1: weight A inside, B outside, the two-level law with
w of M. With a = A/W and b = B/W the mean of the output is affine in the input,

    E[y | i] = (a - b) (w i + w (w - 1)/2) + b M (M - 1)/2,

so the score z_y = -1 + 2 (y - E[y | 0]) / ((a - b) w J) has mean x: every width has an unbiased mean.

- **Piecewise** takes J/w = e^(epsilon/2) (Wang et al. 2019; 000 eq. 4 with the printed error corrected).
- **Square wave** takes J/w = 1/(2 b*), b* = (epsilon E - E + 1) / (2 E (E - 1 - epsilon)), E = e^epsilon, which
  maximises the information about the input's place (Li et al. 2020). The formula cancels for a small epsilon and is
  evaluated with 60 digits.
- **Duchi** is the smallest lattice of all, J = w = 1: two inputs, two outputs, the rounded sign (002 Algorithm 2, with
  delta).

In the papers the lattice is a continuum. `fine_enough` takes the coarsest one, by doubling w, whose exact variance is
within 0.05% of the continuum's at the ends, the middle and between lattice points; J stops at 2^20, which is enough
up to an epsilon of about 16 for piecewise and 9 for square wave.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.cumulative_estimate import Thresholds
from dither.core.domains import NUMBERS
from dither.core.draw import Rows, Tape, positions
from dither.core.estimate import Estimate
from dither.core.honest_sums import HonestSums, Sums, tails
from dither.core.lattice import MOST_STEPS, rounded
from dither.core.mechanism import Mechanism, Moments
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.core.worth import Worth, Worths
from dither.mechanisms.cumulative_reading import CumulativeReading
from dither.mechanisms.distribution import Distribution, DistributionReading
from dither.mechanisms.mean import Mean

_CLOSE = 5e-4
_MOST_COUNTED = 1 << 10


@dataclass(frozen=True)
class Window:
    """The window law on a lattice: what piecewise and square wave have in common."""

    law: TwoLevel
    steps: int

    @classmethod
    def fit(
        cls, epsilon: float, delta: float, width: int, steps: int, weights: tuple[int, ...] | None = None
    ) -> "Window":
        """The largest A/B that keeps (epsilon, delta), for a window of `width` outputs on `steps` steps."""
        law = TwoLevel.fit(
            epsilon,
            delta,
            favoured=width,
            outputs=steps + width,
            apart=min(width, steps),
            inputs=steps + 1,
            members=lambda i: range(i, i + width),
            weights=weights,
        )
        return cls(law, steps)

    @property
    def width(self) -> int:
        """w, the number of favoured outputs."""
        return self.law.favoured

    @property
    def slope(self) -> float:
        """How much the mean output rises from one input to the next: (a - b) w."""
        return float(self.law.inside - self.law.favoured * _low(self.law))

    @property
    def start(self) -> float:
        """The mean output of the lowest input."""
        outputs, low = self.law.outputs, _low(self.law)
        return float((self.law.inside - self.width * low) * (self.width - 1) / 2 + low * outputs * (outputs - 1) / 2)

    def affine(self, naive: bool) -> tuple[float, float]:
        """Score = first + y * step: calibrated, or as the papers' naive mean reads the output, a place on the line."""
        if naive:
            return -1 - (self.width - 1) / self.steps, 2 / self.steps
        step = 2 / (self.slope * self.steps)
        return -1 - self.start * step, step

    def fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        """One report for each value: the window starts at the rounded input, and wraps to the outputs outside it."""
        shifted = rounded(values, self.steps, tape, rows)
        shifted += positions(self.law, tape, rows)
        # Where nothing is to be wrapped the difference is below zero, that is, huge.
        reports["value"] = np.minimum(shifted, shifted - np.uint64(self.law.outputs))

    def reading(self, naive: bool = False) -> Mean:
        """The mean, calibrated or naive."""
        first, step = self.affine(naive)
        scores = first + step * np.arange(self.law.outputs, dtype=np.float64)
        # E[score^2 | x] = zero + growth x^2 at lattice points: two of them tell both. A sign has no magnitude.
        x = np.array([-1 + 2 * (self.steps // 2) / self.steps, 1.0])
        at = self.moments(x, naive)
        mean = x + at.bias
        square = at.variance + mean**2
        growth = 0.0 if self.steps == 1 else float((square[1] - square[0]) / (1 - x[0] ** 2))
        moments = lambda values: self.moments(values, naive)  # noqa: E731
        rounding = 0.0 if self.steps == 1 else 1 / self.steps**2  # a sign has it in its squares already
        return Mean(scores, float(square[1]) - growth, growth, float(mean[1]), moments, rounding)

    def worths(self) -> Worths:
        """The scores of the lowest and the highest output: z_0 and z_(M-1), as rationals."""
        law, low = self.law, _low(self.law)
        start = (law.inside - self.width * low) * (self.width - 1) / 2 + low * law.outputs * (law.outputs - 1) / 2
        step = 2 / ((law.inside - self.width * low) * self.steps)
        return (Worth.of_mean(-1 + (law.outputs - 1 - start) * step, -1 - start * step),)

    def honest_sums(self, counts: NDArray[np.int64]) -> Sums:
        """How many outputs are high, which grows with the input; and how often each comes, where they are few."""
        law, low = self.law, float(_low(self.law))
        high = float(law.inside) / self.width
        place = np.arange(law.outputs)
        ends = (np.where((place >= first) & (place < first + self.width), high, low) for first in (0, self.steps))
        found = tails("high outputs", counts, ends)
        if law.outputs > _MOST_COUNTED:
            return found
        always = (place >= self.steps) & (place < self.width)  # in every window
        n = counts.sum()
        return *found, HonestSums.of("reports of an output", counts, n, np.where(always, high, low), high)

    def moments(self, x: NDArray[np.float64], naive: bool = False) -> Moments:
        """Exact moments of one score, by sums of powers in closed form; between two lattice points their mixture."""
        first, step = self.affine(naive)
        place = (x + 1) / 2 * self.steps
        lower = np.minimum(np.floor(place), self.steps - 1)
        upper_share = place - lower
        centre = self.start + self.slope * place  # the mean output, where the score has its mean
        low = float(_low(self.law))
        extra = float(self.law.inside) / self.width - low

        def central(power: int) -> NDArray[np.float64]:
            everywhere = _distances(0.0, float(self.law.outputs), centre, power)
            window = (1 - upper_share) * _distances(lower, float(self.width), centre, power)
            window += upper_share * _distances(lower + 1, float(self.width), centre, power)
            return low * everywhere + extra * window

        bias = first + step * centre - x if naive else np.zeros_like(x)
        return Moments(bias, step**2 * central(2), step**3 * central(3))


def _low(law: TwoLevel):
    """b = B/W, exactly."""
    return (1 - law.inside) / (law.outputs - law.favoured)


def _distances(first: Any, count: float, centre: NDArray[np.float64], power: int) -> NDArray[np.float64]:
    """The sum of |y - centre|^power over y = first, ..., first + count - 1. All terms are positive: nothing cancels."""
    below = np.clip(np.ceil(centre - first), 0.0, count)
    nearest_below = centre - (first + below - 1)
    nearest_above = first + below - centre
    return _powers(nearest_below, below, power) + _powers(nearest_above, count - below, power)


def _powers(start: NDArray[np.float64], count: Any, power: int) -> NDArray[np.float64]:
    """The sum of (start + j)^power over j = 0, ..., count - 1."""
    ones, squares = count * (count - 1) / 2, (count - 1) * count * (2 * count - 1) / 6
    if power == 2:
        return count * start**2 + 2 * start * ones + squares
    return count * start**3 + 3 * start**2 * ones + 3 * start * squares + ones**2


def continuous_variance(epsilon: float, share: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The variance of the unbiased estimate without a lattice, for a window of `share` = w/J of the input's range."""
    gain, half = np.expm1(min(epsilon, 50.0)), share / 2
    low = 1 / (1 + share * (gain + 1))
    v = (x + 1) / 2
    slope = share * low * gain
    mean = low * (1 + share) / 2 + slope * v
    square = low * ((1 + half) ** 3 + half**3) / 3 + low * gain * ((v + half) ** 3 - (v - half) ** 3) / 3
    return 4 * (square - mean**2) / slope**2


@lru_cache(maxsize=256)
def fine_enough(epsilon: float, share: float) -> tuple[int, int]:
    """(w, J): the coarsest lattice whose variance is that of the continuum, to 0.05%."""
    width = 4
    while True:
        width *= 2
        steps = max(1, round(width / share))
        if steps > MOST_STEPS:
            return max(1, round(MOST_STEPS * share)), MOST_STEPS
        x = np.array([-1.0, -0.5, 0.0, 1.0])
        x = np.append(x, x[:3] + 1 / steps)  # between lattice points, where rounding adds most
        discrete = Window.fit(epsilon, 0.0, width, steps).moments(x).variance
        if np.max(np.abs(discrete / continuous_variance(epsilon, share, x) - 1)) < _CLOSE:
            return width, steps


def piecewise_share(epsilon: float) -> float:
    """w/J of the piecewise mechanism."""
    return float(np.exp(-min(epsilon, 100.0) / 2))


def square_wave_share(epsilon: float) -> float:
    """w/J = 2 b* of the square wave.

    >>> round(square_wave_share(1e-8) / 2, 9)  # 1/2 - epsilon/3 + ...
    0.499999997
    """
    with localcontext() as context:
        context.prec = 60
        e = Decimal(min(epsilon, 100.0))
        ratio = e.exp()
        return float((e * ratio - ratio + 1) / (ratio * (ratio - 1 - e)))


@dataclass(frozen=True)
class WindowMechanism(Mechanism[Estimate]):
    """What piecewise and square wave share: everything but the width of the window."""

    epsilon: float
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)  # A, B, w, J

    family = "numeric"
    takes = NUMBERS
    statistics = ("mean",)
    weight_count = 4
    lattice: ClassVar[Callable[[float], tuple[int, int]]]
    shares_note: ClassVar[str] = ""  # what a report is worth beside the mean

    def _validate(self) -> None:
        pass

    def _fit(self) -> tuple[int, ...]:
        width, steps = type(self).lattice(self.epsilon)
        law = Window.fit(self.epsilon, self.delta, width, steps).law
        return law.high, law.low, width, steps

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        high, low, width, steps = super()._checked_weights(weights)
        checked_count("the lattice", steps, 1, MOST_STEPS)
        checked_count("the window", width, 1, MOST_STEPS)
        return high, low, width, steps

    @cached_property
    def window(self) -> Window:
        """The lattice, the window and its integers."""
        assert self.weights is not None
        high, low, width, steps = self.weights
        return Window.fit(self.epsilon, self.delta, width, steps, (high, low))

    @cached_property
    def reading(self) -> Mean:
        return self.window.reading()

    def report_worth(self) -> Worths:
        return tuple(worth._replace(note=self.shares_note) for worth in self.window.worths())

    def report_worth_by(self, estimator: str) -> Worths | None:
        """To the mean alone, which is an average over reports under every reading."""
        return self.window.worths() if estimator == "calibrated" else super().report_worth_by(estimator)

    def honest_sums(self, tally: Tally) -> Sums:
        return self.window.honest_sums(tally.counts)

    def channel(self) -> TwoLevel:
        return self.window.law

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        self.window.fill(reports, values, tape, rows)

    @property
    def row_words(self) -> int:
        return 2

    @cached_property
    def naive(self) -> Mean:
        """The reading that takes outputs as they are: that of 000 and 001. Piecewise is calibrated by construction."""
        return self.reading

    def distribution(self, tally: Tally, bins: int = 64, *, smooth: bool = True) -> Distribution:
        """The share of users in each of `bins` equal bins of [-1, 1]: see `dither.mechanisms.distribution`.

        With `smooth` it is as smooth as the reports allow, and has standard errors; without, it is that of maximum
        likelihood (EM), for a few bins.

        >>> mechanism = SquareWave(epsilon=1.0)
        >>> tally = mechanism.tally(mechanism.randomize(np.linspace(0.0, 0.5, 100_000), seed=1))
        >>> found = mechanism.distribution(tally, bins=4)
        >>> found.labels[found.value.argmax()]
        '0.00 to 0.50'
        """
        return self.estimate(tally, DistributionReading(self.window, bins, smooth))


@dataclass(frozen=True)
class Piecewise(WindowMechanism):
    """A number, by a window of favoured outputs.

    The usual choice for a mean at epsilon 1 and above.

    >>> mechanism = Piecewise(epsilon=1.0)
    >>> round(float(mechanism.moments([0.0]).variance[0]), 2)
    3.68
    """

    for_vectors = True
    examples = ({"epsilon": 1.0}, {"epsilon": 0.1}, {"epsilon": 4.0})
    lattice = staticmethod(lambda epsilon: fine_enough(epsilon, piecewise_share(epsilon)))


@dataclass(frozen=True)
class SquareWave(WindowMechanism):
    """A number, by a wide window: for distributions.

    >>> SquareWave(epsilon=1.0).guarantee.epsilon
    1.0
    """

    statistics = ("mean", "distribution")
    shares_note = (
        "A distribution is fitted to the shares of the outputs, and is no average of reports: one report moves these "
        "shares by 1/n, and what the fit makes of it has no bound here."
    )
    examples = ({"epsilon": 1.0}, {"epsilon": 0.1}, {"epsilon": 3.0})
    lattice = staticmethod(lambda epsilon: fine_enough(epsilon, square_wave_share(epsilon)))

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """For what is read off a distribution; of a mean it is the worse one."""
        if "mean" not in workload.statistics:
            yield from super().candidates(workload)

    def cumulative_reading(self, thresholds: Thresholds) -> CumulativeReading:
        return CumulativeReading(self.window, self.epsilon, thresholds)

    @cached_property
    def naive(self) -> Mean:
        """The reading that takes outputs as places on the line, as in 000 and 001: biased towards the middle."""
        return self.window.reading(naive=True)


@dataclass(frozen=True)
class Duchi(WindowMechanism):
    """A number, by one randomized sign.

    One bit a report; the best mean of all at a small epsilon.

    >>> round(float(Duchi(epsilon=1.0).moments([0.0]).variance[0]), 4)
    4.6827
    """

    delta: float = 0.0

    examples = ({"epsilon": 1.0}, {"epsilon": 0.1}, {"epsilon": 2.0, "delta": 1e-3})
    lattice = staticmethod(lambda epsilon: (1, 1))
