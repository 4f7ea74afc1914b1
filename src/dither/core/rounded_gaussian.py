"""The rounded Gaussian: integer noise that carries the whole theory of the continuous one.

The noise is o = round(N(0, s^2)), a whole number with

    P(o) = Phi((o + 1/2) / s) - Phi((o - 1/2) / s).

For a whole number k, k + round(N) = round(k + N): adding the noise to k is the *continuous* Gaussian mechanism on k,
and then rounding. So whatever holds for continuous Gaussian noise on integer vectors, in any dimension, under sampling
and composition, holds for this one by post-processing, with nothing lost. Noise with weights exp(-o^2 / 2 s^2) (the
"discrete Gaussian", `mechanisms.additive`) has no such tie to the continuum, and needs proofs of its own.

**The table.** The law is sampled from integers: the edge above offset k is C_k = Phi((k + 1/2) / s) in units of
2^-bits, right to one unit, for |k| < R, and what lies beyond +-R counts as +-R. Each entry is off by two units at most,
hence the table is within

    tau = (2 R + 3) 2^-bits + 2 Phi(-(R - 1/2) / s)

of the law in total variation, for every event (`deviation`, in exact arithmetic). With 128 bits and R = 13 s that is
5e-33 for s = 65,536. **What n draws cost**: couple them one by one. A mechanism that draws n times, however it reacts
to what it saw, is within n tau of the ideal one on every input, so an ideal (epsilon, delta) becomes

    P'(A) <= P(A) + n tau <= e^epsilon Q(A) + delta + n tau <= e^epsilon Q'(A) + delta + (1 + e^epsilon) n tau.

**Its digits.** From an edge x the next ones, x + j/s, come from Taylor's series, whose terms are Hermite polynomials;
since |He_n(x)| phi(x) <= sqrt(n!) (Cramer), what is left out after N terms at a distance t is below t^(N+1) /
sqrt(N!). A polynomial at consecutive places is a running sum of running sums, so an edge costs N additions of integers.
Each block of edges starts from an all-positive series of its own.

**Drawing** is as in `draw.entries`: a word decides, and in one word out of about 2^44 of them it ties with the leading
digits of an edge, and the remaining digits are compared. The guide is as fine as the table, since s may be large.

What goes wrong: noise drawn in floats gives inputs away by its last bits, and has no digits in the tail (Mironov 2012);
a table of 64 bits would cost 1e-14 for each draw, which is too much for a million coordinates and 10,000 steps.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, reduce
from itertools import accumulate, chain, pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from dither.core.draw import DRAW, ELEMENT, Rows, Tape, Words, below, count_of, exact_entries, part_of, some_of
from dither.errors import ParameterError

MOST_SCALE = 1 << 17
REACH = 13  # in standard deviations, and one step more
BITS = 128
_PI = (  # 200 digits
    "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679821480865"
    "1328230664709384460955058223172535940812848111745028410270193852110555964462294895493038196"
)
_BLOCK = 512
# A block of edges spans one over `close` standard deviations at most, and takes `terms`: what is left out is below
# close^-(terms + 1) / sqrt(terms!), that is 2^-156 for both. Few terms are faster where edges are many.
_SERIES = ((8, 32), (64, 20))
_FRACTION = 512  # binary digits of the arithmetic: a term of degree 32 magnifies its rounding by at most 512^32 = 2^288
_FINEST_GUIDE = 20
_CHUNK = 1 << 15


@dataclass(frozen=True)
class RoundedGaussian:
    """Whole numbers distributed as the nearest to a Gaussian with standard deviation `scale`.

    >>> noise = RoundedGaussian(Fraction(1))
    >>> [round(float(noise.probability(o)), 4) for o in range(4)]  # Phi(1/2) - Phi(-1/2), ...
    [0.3829, 0.2417, 0.0606, 0.006]
    >>> float(noise.deviation) < 1e-36
    True
    """

    scale: Fraction
    bits: int = BITS

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", Fraction(self.scale))
        if not Fraction(1, 4) <= self.scale <= MOST_SCALE:
            raise ParameterError(f"a table of Gaussian noise has a scale from 0.25 to {MOST_SCALE} lattice steps")
        if not 2 <= self.bits <= BITS:
            raise ParameterError(f"a table of Gaussian noise has from 2 to {BITS} bits")

    @cached_property
    def reach(self) -> int:
        """R: the largest offset, which stands for all beyond it."""
        return math.ceil(REACH * self.scale) + 1

    @cached_property
    def _upper(self) -> list[int]:
        """C_0, C_1, ..., C_(R-1)."""
        half = 1 << _FRACTION - self.bits - 1
        return [(edge + half) >> _FRACTION - self.bits for edge in _edges(self.scale, self.reach)]

    @cached_property
    def cumulative(self) -> tuple[int, ...]:
        """The weight of all offsets up to k, for k = -R, ..., R; the total is 2^bits."""
        total = 1 << self.bits
        return *(total - edge for edge in reversed(self._upper)), *self._upper, total

    def probability(self, offset: int) -> Fraction:
        """The probability of an offset, as it is drawn."""
        place = offset + self.reach
        if not 0 <= place < len(self.cumulative):
            return Fraction(0)
        return Fraction(self.cumulative[place] - (self.cumulative[place - 1] if place else 0), 1 << self.bits)

    @cached_property
    def deviation(self) -> Fraction:
        """tau: an upper bound on the total variation distance of the table from the law it stands for."""
        beyond = 1 - normal_below((self.reach - Fraction(1, 2)) / self.scale)
        return min(
            Fraction(1), Fraction(2 * self.reach + 3, 1 << self.bits) + 2 * beyond
        )  # two units more for its digits

    @cached_property
    def variance(self) -> float:
        """Of the table: that of the Gaussian and 1/12 for rounding, up to 4 s^2 exp(-2 pi^2 s^2): nothing from 2 on.

        Below, E o^2 is the sum of (2 k + 1) P(|o| > k) over k = 0, 1, ...
        """
        if self.scale >= 2 and self.bits == BITS:
            return float(self.scale**2 + Fraction(1, 12))
        total = 1 << self.bits
        return float(Fraction(2 * sum((2 * k + 1) * (total - edge) for k, edge in enumerate(self._upper)), total))

    def draw(self, tape: Tape, rows: Rows) -> NDArray[np.int64]:
        """One offset for each row."""
        drawn = np.empty(count_of(rows), dtype=np.int64)
        for at in range(0, drawn.size, _CHUNK):
            part = slice(at, min(at + _CHUNK, drawn.size))
            self._fill(drawn[part], tape, part_of(rows, part))
        return drawn

    def prepare(self, bits: int) -> None:
        """Make the tables for words of this many bits now, before threads that would each make their own."""
        self._guide(bits)

    def _fill(self, drawn: NDArray[np.int64], tape: Tape, rows: Rows) -> None:
        guide, leading, shift = self._guide(tape.bits)
        words = tape.words(DRAW, rows)[:, 0]
        place = guide[(words >> np.uint64(shift)).view(np.int64)]
        crowded = np.flatnonzero(place < 0)
        place[crowded] = np.searchsorted(leading, words[crowded])
        edge = leading[place]
        np.add(place, edge < words, out=drawn)
        tied = np.flatnonzero(edge == words)
        if tied.size:
            within = below(1 << self.bits, tape, some_of(rows, tied), lane=ELEMENT)
            drawn[tied] = exact_entries(self.cumulative, tape.bits, words[tied].tolist(), within.tolist())
        drawn -= self.reach

    def _guide(self, bits: int) -> tuple[NDArray[np.int32], Words, int]:
        """For words of this many bits: where to look for the edge of a word, and the leading digits of all edges."""
        known = self.__dict__.setdefault("_guides", {})
        if bits not in known:
            known[bits] = self._made_guide(bits)
        return known[bits]

    def _made_guide(self, bits: int) -> tuple[NDArray[np.int32], Words, int]:
        most = (1 << bits) - 1  # the total is beyond all words; it is put at the last, where a tie is settled exactly
        total = 1 << self.bits
        edges = chain((total - edge for edge in reversed(self._upper)), self._upper, [total])
        leading = np.array([min((edge << bits) >> self.bits, most) for edge in edges], dtype=np.uint64)
        shift = max(0, bits - min(_FINEST_GUIDE, 4 + leading.size.bit_length()))
        first = np.arange(1 << bits - shift, dtype=np.uint64) << np.uint64(shift)
        before = np.searchsorted(leading, first)
        through = np.searchsorted(leading, first + np.uint64((1 << shift) - 1), side="right")
        # With at most one edge in a cell, one comparison tells; with more (they are rare), all are searched.
        return np.where(through - before <= 1, before, -1).astype(np.int32), leading, shift


def normal_below(x: Fraction) -> Fraction:
    """Phi(x), right to 2^-300; beyond +-14 it is 0 or 1, right to 1e-43.

    >>> round(float(normal_below(Fraction(-2))), 6), normal_below(Fraction(0))
    (0.02275, Fraction(1, 2))
    """
    if abs(x) > 14:
        return Fraction(int(x > 0))
    place = Fraction(round(abs(x) * (1 << _FRACTION)), 1 << _FRACTION)  # fewer digits, which are enough
    found = Fraction(_phi(place, _density(place)), 1 << _FRACTION)
    return found if x >= 0 else 1 - found


# Digits ------------------------------------------------------------------------------------------------------------


def _edges(scale: Fraction, count: int) -> Iterator[int]:
    """Phi((k + 1/2) / scale) for k = 0, ..., count - 1, in units of 2^-_FRACTION, right to far below 2^-140."""
    step = (scale.denominator << _FRACTION) // scale.numerator
    close, terms = next(pair for pair in _SERIES if scale <= _BLOCK * pair[0] or pair == _SERIES[-1])
    length = max(1, min(_BLOCK, int(scale / close)))
    for k in range(0, count, length):
        yield from _consecutive((2 * k + 1) / (2 * scale), step, min(length, count - k), terms)


def _consecutive(x: Fraction, step: int, count: int, terms: int) -> list[int]:
    """Phi at x, x + step, ...: a polynomial, by running sums from the differences of its first values."""
    density = _density(x)
    start = _phi(x, density)
    if count == 1:
        return [start]
    coefficients = [start, *_taylor(x, density, step, terms)]
    first = [_value(coefficients, j) for j in range(terms + 1)]
    differences = []
    while first:
        differences.append(first[0])
        first = [after - before for before, after in pairwise(first)]
    values = list(repeat(differences.pop(), count))
    while differences:
        values = list(accumulate(chain([differences.pop()], values[:-1])))
    return values


def _value(coefficients: list[int], j: int) -> int:
    """The polynomial at j."""
    return reduce(lambda total, term: total * j + term, reversed(coefficients), 0)


def _density(x: Fraction) -> int:
    """phi(x) in fixed point."""
    with localcontext(Context(prec=_FRACTION * 31 // 100 + 20)):
        square = Decimal(x.numerator**2) / Decimal(x.denominator**2)
        return int((-square / 2).exp() / (2 * Decimal(_PI)).sqrt() * (1 << _FRACTION))


def _phi(x: Fraction, density: int) -> int:
    """Phi(x) = 1/2 + phi(x) (x + x^3 / 3 + x^5 / (3 5) + ...): for x > 0 all terms are positive."""
    square = (x.numerator**2 << _FRACTION) // x.denominator**2
    term = total = (x.numerator << _FRACTION) // x.denominator
    odd = 3
    while term:
        term = (term * square >> _FRACTION) // odd
        total, odd = total + term, odd + 2
    return (1 << _FRACTION - 1) + (density * total >> _FRACTION)


def _taylor(x: Fraction, density: int, step: int, terms: int) -> list[int]:
    """The coefficients of Phi(x + j step) - Phi(x) in j, j^2, ..."""
    place = (x.numerator << _FRACTION) // x.denominator
    # He_(n+1) = x He_n - n He_(n-1), and the (n+1)-st derivative of Phi is (-1)^n He_n phi.
    found, hermite, before, power = [], density, 0, step
    for n in range(terms):
        found.append((-1) ** n * (hermite * power >> _FRACTION))
        hermite, before = (place * hermite >> _FRACTION) - n * before, hermite
        power = (power * step >> _FRACTION) // (n + 2)
    return found
