"""Unary encoding: one bit a category, each randomized on its own.

The value x becomes the word with a single one at x. The bit at x is reported as one with probability p, every other
bit with probability q < p. Two inputs differ in two bits, and the worst word has a one for x and a zero for x', so

    e^epsilon = p (1 - q) / (q (1 - p)),      delta = p (1 - q) - e^epsilon q (1 - p)        (002 eq. 48, sound and
    tight)

Three choices of q (002 section 5, Wang et al. 2017): *optimal* q = 1/(e^epsilon + 1), the variance optimum for rare
categories (OUE); *symmetric* p + q = 1 (SPRR, basic RAPPOR); or any other with `q=`.

**Short coins.** k coins a user are the cost here. So q is rounded to a multiple of 2^-b with b about 12 (optimal)
or 24 (the others) at epsilon 1 and some more above, and p, of which there is one coin a user, takes up the rounding
in a 64-bit word: epsilon stays what it was to 1e-9. Many such coins are tossed at once (`packing.coins`). The
rounding costs less than 1e-6 of the variance.
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.blanket_law import Contrast
from dither.core.channel import Table, TwoLevel
from dither.core.checks import checked_count
from dither.core.composite_channels import Product
from dither.core.contributions import Bounded
from dither.core.draw import Rows, Tape, positions
from dither.core.estimate import Estimate
from dither.core.exact import exp_below, log_above
from dither.core.honest_sums import HonestSums, Sums
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.mechanisms.frequency import Frequencies, PairSupport, Supported
from dither.mechanisms.packing import (
    MOST_BITS,
    as_bytes,
    bits_dtype,
    coins,
    counted_bits,
    packed_bits,
    padding_is_clear,
)

KINDS = ("optimal", "symmetric")


@dataclass(frozen=True)
class Unary(Mechanism[Estimate]):
    """One randomized bit a category.

    `kind="optimal"` (OUE) or `"symmetric"` (SPRR), or any `q`.

    >>> Unary(k=100, epsilon=1.0).dtype.itemsize   # bytes a report
    13
    """

    k: int
    epsilon: float
    delta: float = 0.0
    kind: str = "optimal"
    q: float | None = None
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "categorical"
    statistics = ("frequency", "total")
    weight_count = 4
    examples = (
        {"k": 3, "epsilon": 1.0},
        {"k": 4, "epsilon": 0.5, "kind": "symmetric"},
        {"k": 3, "epsilon": 2.0, "delta": 1e-3, "kind": "symmetric"},
        {"k": 3, "epsilon": 1.0, "q": 0.1},
    )

    @property
    def evaluations(self) -> int:
        """A bit for each category."""
        return self.k

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 2, MOST_BITS))
        if self.kind not in KINDS:
            raise ParameterError(f"kind must be one of {', '.join(KINDS)}")
        if self.q is not None and not (isinstance(self.q, float) and 0 < self.q < 1):
            raise ParameterError("q must be a float between 0 and 1, or left out")

    def _fit(self) -> tuple[int, ...]:
        """(A, B, Q, 2^b): p = A / (A + B), q = Q / 2^b."""
        ratio, delta = exp_below(self.epsilon), Fraction(self.delta)
        wanted, extra = self._wanted_q(float(min(ratio, 1 << 60)), self.delta)
        bits = math.ceil(-math.log2(wanted)) + extra
        short = min(max(1, round(Fraction(wanted) * (1 << bits))), (1 << bits) - 1)
        q = Fraction(short, 1 << bits)
        # 002 eq. 49, rounded down: the largest p with p (1 - q) <= r q (1 - p) + delta.
        high = int((1 << 64) * (q * ratio + delta) / (1 - q + q * ratio))
        high = min(high, (1 << 64) - 1)
        if Fraction(high, 1 << 64) <= q:
            raise ParameterError("epsilon is too small for these parameters: no report would carry information")
        return high, (1 << 64) - high, q.numerator, q.denominator

    def shortened(self, limit: int, rejecting: bool = True) -> Self:
        """Coins in eighths, and the largest budget that these can keep below one and a half times the ratio."""

        def ratio(weights: tuple[int, ...]) -> Fraction:
            return Fraction(weights[0] * (8 - weights[2]), weights[2] * weights[1])

        most = exp_below(self.epsilon) * Fraction(3, 2)
        choices = [(a, 8 - a, b, 8) for a in range(1, 8) for b in range(1, a, 2)]
        weights = max((choice for choice in choices if ratio(choice) <= most), key=ratio)
        return replace(self, epsilon=float(log_above(ratio(weights))), delta=0.0, weights=weights)

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        high, low, short, whole = super()._checked_weights(weights)
        if whole & (whole - 1) or not short < whole:  # the coins read q digit by digit
            raise ParameterError("the fourth weight must be a power of two above the third: they are q's binary digits")
        if high * whole < short * (high + low):
            raise ParameterError("these weights show a true bit less often than a false one: p must be above q")
        return high, low, short, whole

    def _wanted_q(self, ratio: float, delta: float) -> tuple[float, int]:
        """q before rounding, and how many more binary digits than its size to keep."""
        if self.q is not None:
            return self.q, 22
        if self.kind == "symmetric":  # 002 eq. 51, with (sqrt(y) - 1) / (ratio - 1) written without cancellation
            return (1 - delta) / (math.sqrt(ratio * (1 - delta) + delta) + 1), 22
        return 1 / (ratio + 1), 10

    @cached_property
    def law(self) -> TwoLevel:
        """The coin at the true category: p = high / (high + low)."""
        return TwoLevel(self._integers[0], self._integers[1], favoured=1, outputs=2)

    @property
    def _integers(self) -> tuple[int, ...]:
        assert self.weights is not None
        return self.weights

    @cached_property
    def reading(self) -> Frequencies:
        p, q = self.law.inside, Fraction(self._integers[2], self._integers[3])
        return Frequencies(self.k, p, q, pairs=PairSupport.independent(p, q), supported=Supported(0, self.k))

    def along(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Frequencies | None:
        return self.reading.along(shape, axes)

    def report_worth(self) -> Worths:
        return self.reading.worths()

    def honest_sums(self, tally: Tally) -> Sums:
        """Support counts, and the ones of all words together, of which there are as many whatever users hold."""
        reading = self.reading
        ones = float(reading.p + (self.k - 1) * reading.q) / self.k
        total = HonestSums.of("ones in all words", tally.counts.sum(), tally.n * self.k, ones, ones)
        return *reading.honest_sums(tally), total

    @cached_property
    def dtype(self) -> np.dtype:
        return bits_dtype(self.k)

    def channel(self) -> Product:
        p, q = self.reading.p, self.reading.q
        bit = Table.of([(1 - r, r) for r in (q, p)])
        return Product(
            bit,
            coordinates=self.k,
            inputs=self.k,
            encode=lambda x: [int(v == x) for v in range(self.k)],
            differing=(((1, 0), (0, 1)),),
            common=lambda: self._common(p, q),
            hidden=self._hidden(p, q),
            one_hot=(1, 0),
        )

    def _hidden(self, p: Fraction, q: Fraction) -> Contrast:
        # Under the all-q law, times (1-p)/(1-q), a word is E times as likely for x if its bit at x is one.
        under = (1 - p) / (1 - q)
        return Contrast(p * (1 - q) / (q * (1 - p)), q * (1 - q) * under, q * q * under, (1 - q) ** 2 * under)

    def _common(self, p: Fraction, q: Fraction) -> Fraction:
        # P(word|x) is the all-q law times p/q if the word has a one at x, (1-p)/(1-q) if not. The least over x is
        # the latter, unless the word is all ones.
        ones = q**self.k
        return (1 - p) / (1 - q) * (1 - ones) + p / q * ones

    def outputs(self) -> NDArray:
        words = np.arange(1 << self.k)[:, None] >> np.arange(self.k)[::-1] & 1  # the last coordinate varies fastest
        return packed_bits(words, self.k)

    @property
    def row_words(self) -> int:
        return 4 * -(-self.k // 64)  # the words of one digit, and the arrays that hold what is settled and open

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        target, index, bit = as_bytes(reports), values // 8, np.uint8(1) << (values % 8).astype(np.uint8)
        target[:] = coins(self.reading.q, self.k, tape, rows)
        row = np.arange(len(values))
        own = positions(self.law, tape, rows) == 0
        target[row, index] = np.where(own, target[row, index] | bit, target[row, index] & ~bit)

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        return padding_is_clear(reports, self.k)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return counted_bits(reports, self.k)

    @cached_property
    def contributions(self) -> Bounded:
        return Bounded((self.k,))
