"""Several reports of one user: what they promise together.

- **In sequence** (`compose`): several reports about the same values, of different mechanisms or of one over time.
  Likelihood ratios multiply, so epsilons and deltas add. With a delta to spare the truth is better: a report rarely
  shows its worst, and the sum of many losses concentrates.
- **In parallel** (`parallel`): every user answers one of several questions, drawn without looking: the worst of them.

**Losses.** What a report y tells between two inputs is its privacy loss ln(P(y)/P'(y)). Losses of independent reports
add up, and the delta of their sum at epsilon is E[(1 - e^(epsilon - loss))_+] under P. For that the worst two inputs
must be the worst at every epsilon at once (a *dominating pair*). These are:

- of a two-level channel, the inputs furthest apart: loss ln E, 0 or -ln E (`core.channel.Contrast`, and
  `privacy.shuffle_divergence` for why they dominate);
- of additive noise, the two ends of the lattice (`core.additive_channel`);
- of anything with (epsilon, delta): with probability delta an infinite loss, else that of binary randomized response
  (Kairouz, Oh and Viswanath 2015).

Reports that are alike are added up exactly, on the lattice of their own losses. Different kinds meet on a common grid,
where every loss is rounded up. All masses are sums of products of positive numbers, good to 1e-12; only the powers of
noise tables go through a Fourier transform, whose error is added to delta.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.additive_channel import AdditiveChannel
from dither.core.channel import Channel
from dither.core.checks import checked_count, checked_delta
from dither.core.exact import float_above, log_above
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError

MOST_REPORTS = 1 << 13
MOST_TABLES = 1 << 8
_GRID = 1 << 17
_MARGIN = 1e-9

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Losses:
    """A privacy loss: the probability under P of start * step, (start + 1) * step, ..., and that of an infinite one."""

    step: float
    start: int
    mass: Numbers
    infinite: float = 0.0

    def delta(self, epsilon: float) -> float:
        """The smallest delta at this epsilon."""
        loss = self.step * (self.start + np.arange(self.mass.size))
        return self.infinite + float(self.mass @ -np.expm1(np.minimum(epsilon - loss, 0.0)))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at this delta; infinite if there is none."""
        if self.infinite >= delta:
            return math.inf
        low, high = 0.0, max(0.0, self.step * (self.start + self.mass.size - 1))
        if self.delta(low) <= delta:
            return 0.0
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high

    def times(self, number: int) -> "Losses":
        """As many reports of this kind, on the same lattice."""
        infinite = -math.expm1(number * math.log1p(-self.infinite)) if self.infinite < 1 else 1.0
        if self.mass.size <= 3:
            mass = reduce(np.convolve, _powers(self.mass, number))
        else:
            mass, lost = _by_transform(self.mass, number)
            infinite += lost
        return Losses(self.step, number * self.start, mass, min(1.0, infinite * (1 + 1e-12)))

    def on(self, step: float) -> "Losses":
        """On a finer grid, with every loss rounded up."""
        place = np.ceil(self.step * (self.start + np.arange(self.mass.size)) / step + 1e-9).astype(np.int64)
        mass = np.zeros(int(place[-1] - place[0]) + 1)
        np.add.at(mass, place - place[0], self.mass)
        return Losses(step, int(place[0]), mass, self.infinite)

    def __add__(self, other: "Losses") -> "Losses":
        """Both, on a common grid: the shorter is laid over the longer, so that only positive numbers are added."""
        few, many = sorted((self, other), key=lambda each: int(np.count_nonzero(each.mass)))
        mass = np.zeros(few.mass.size + many.mass.size - 1)
        for place in np.flatnonzero(few.mass):
            mass[place : place + many.mass.size] += few.mass[place] * many.mass
        infinite = 1 - (1 - few.infinite) * (1 - many.infinite)
        return Losses(self.step, few.start + many.start, mass, infinite)

    # Kinds -------------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, part: Any) -> "Losses":
        """The loss of a mechanism's worst two inputs, or of a guarantee alone."""
        if isinstance(part, Guarantee):
            return cls._promised(part.epsilon, part.delta)
        channel: Channel = part.lifetime_channel()
        contrast = channel.contrast()
        if contrast is not None and channel.exact:
            high, low = float(contrast.spread * contrast.ratio), float(contrast.spread)
            return cls(log_above(contrast.ratio), -1, np.array([low, max(0.0, 1 - high - low), high]))
        if isinstance(channel, AdditiveChannel):
            return cls._between(channel.row(0), channel.row(channel.shape[0] - 1))
        return cls._promised(part.guarantee.epsilon, part.guarantee.delta)

    @classmethod
    def _promised(cls, epsilon: float, delta: float) -> "Losses":
        high = (1 - delta) / (1 + math.exp(-epsilon))
        return cls(epsilon, -1, np.array([1 - delta - high, 0.0, high]), delta)

    @classmethod
    def _between(cls, one: Sequence[Any], other: Sequence[Any]) -> "Losses":
        pairs = [(float(a), math.log(a / b) if a and b else math.inf) for a, b in zip(one, other, strict=True)]
        finite = [(mass, loss) for mass, loss in pairs if math.isfinite(loss)]
        step = max(abs(loss) for _, loss in finite) / 4096
        place = np.array([math.ceil(loss / step + 1e-9) for _, loss in finite])
        mass = np.zeros(int(place.max() - place.min()) + 1)
        np.add.at(mass, place - place.min(), [mass for mass, _ in finite])
        return cls(step, int(place.min()), mass, sum(mass for mass, loss in pairs if not math.isfinite(loss)))


def compose(parts: Iterable[Any], delta: float = 0.0) -> Guarantee:
    """What several reports of one user promise together.

    A part is a mechanism, a guarantee, or a pair (part, times). With a `delta`, the smallest epsilon for it is found.

    >>> from dither import GRR
    >>> print(compose([(GRR(k=4, epsilon=0.125), 80)]))
    epsilon 10 (exact)
    >>> round(compose([(GRR(k=4, epsilon=0.125), 80)], delta=1e-6).epsilon, 3)
    3.752
    """
    counted = _counted(parts)
    delta = checked_delta(delta)
    basic = _basic(counted)
    if delta == 0:
        return basic
    promised = [(Losses.of(_guarantee(part)), times) for part, times in counted]
    own = [(Losses.of(part) if _affordable(part, times) else of_promise, times)
           for (part, times), (of_promise, _) in zip(counted, promised, strict=True)]  # fmt: skip
    # The transform of a noise table may lose more than a small delta: then the guarantee alone is better.
    found = min(_together(kinds).epsilon(delta / (1 + _MARGIN)) for kinds in (own, promised)) * (1 + 1e-9)
    if basic.delta <= delta and basic.epsilon <= found:
        return basic
    if not math.isfinite(found):
        raise ParameterError(
            f"together the parts have a delta of {basic.delta:.3g}, which is more than {delta:g}: ask for a larger one"
        )
    return Guarantee(found, delta, "bound")


def _affordable(part: Any, times: int) -> bool:
    """Whether the losses of a part can be added up: those of noise tables go through a large transform."""
    return (
        isinstance(part, Guarantee) or not isinstance(part.lifetime_channel(), AdditiveChannel) or times <= MOST_TABLES
    )


def parallel(parts: Iterable[Any]) -> Guarantee:
    """What a user promises who answers one of several questions, drawn without looking at the values.

    >>> print(parallel([Guarantee(1.0), Guarantee(0.5, 1e-6)]))
    epsilon 1, delta 1e-6 (exact)
    """
    each = [_guarantee(part) for part, _ in _counted(parts)]
    kinds = {guarantee.established for guarantee in each}
    established = "simulated" if "simulated" in kinds else "bound" if "bound" in kinds else "exact"
    return Guarantee(
        max(guarantee.epsilon for guarantee in each), max(guarantee.delta for guarantee in each), established
    )


def _counted(parts: Iterable[Any]) -> list[tuple[Any, int]]:
    """Each different part, and how often it is there."""
    number: Counter[Any] = Counter()
    kept: dict[Any, Any] = {}
    for part in parts:
        what, times = part if isinstance(part, tuple) else (part, 1)
        if not isinstance(what, Guarantee) and not hasattr(what, "channel"):
            raise ParameterError("a part is a mechanism, a guarantee, or a pair of one of these and a number")
        key = what if isinstance(what, Guarantee) else what.fingerprint
        kept[key] = what
        number[key] = checked_count("times", number[key] + checked_count("times", times, 1), 1, MOST_REPORTS)
    if not kept:
        raise ParameterError("compose at least one report")
    return [(kept[key], times) for key, times in number.items()]


def _guarantee(part: Any) -> Guarantee:
    return part if isinstance(part, Guarantee) else part.guarantee


def _basic(counted: Sequence[tuple[Any, int]]) -> Guarantee:
    """Epsilons and deltas add up. Without deltas that is attained: the reports that are worst for one input each."""
    each = [(_guarantee(part), times) for part, times in counted]
    if any(guarantee.simulated for guarantee, _ in each):
        return next(guarantee for guarantee, _ in each if guarantee.simulated)
    epsilon = sum((Fraction(guarantee.epsilon) * times for guarantee, times in each), Fraction(0))
    delta = sum((Fraction(guarantee.delta) * times for guarantee, times in each), Fraction(0))
    same = len(each) == 1 and each[0][0].established == "exact" and not delta
    if len(each) == 1 and each[0][1] == 1:
        return each[0][0]
    return Guarantee(float_above(epsilon), min(1.0, float_above(delta)), "exact" if same else "bound")


def _together(kinds: Sequence[tuple[Losses, int]]) -> Losses:
    sums = [losses.times(number) for losses, number in kinds]
    if len(sums) == 1:
        return sums[0]
    width = sum(each.step * (each.mass.size - 1) for each in sums)
    step = _power_above(width / _GRID)
    return reduce(Losses.__add__, [each.on(step) for each in sums])


def _power_above(width: float) -> float:
    """A power of two just above, so that multiples of it are exact."""
    return 2.0 ** math.ceil(math.log2(width)) if width > 0 else 1.0


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


def _by_transform(mass: Numbers, number: int) -> tuple[Numbers, float]:
    """A power by Fourier transform, and a bound on what rounding may have lost."""
    size = number * (mass.size - 1) + 1
    padded = 1 << (size - 1).bit_length()
    found = np.fft.irfft(np.fft.rfft(mass, padded) ** number, padded)[:size]
    noise = 16 * number * padded.bit_length() * np.finfo(np.float64).eps
    return np.maximum(found, 0.0), float(noise * math.sqrt(size))
