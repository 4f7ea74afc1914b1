"""Hypercube: all d signs of a record at once, as one corner of the cube (002 Mechanism-1, with a sound delta).

A record of d numbers in [-1, 1] is rounded to a corner v of {-1, +1}^d, each coordinate without bias. The report is a
corner y, and v favours the half-space T+(v) = {y : y.v > 0} of

    C_d = 2^(d-1)                      corners if d is odd,
    C_d = 2^(d-1) - C(d, d/2) / 2      if d is even, since corners with y.v = 0 are on neither side of v.

T-(v) are all the others, ties included. This is the two-level law with C_d of 2^d outputs: weight A for each favoured
one and B for each other; the draw of the side compares as many words as C_d has.

**Delta.** Opposite corners favour disjoint sets, so |T+(v) \\ T+(-v)| = C_d, and the law keeps (epsilon, delta) if
and only if C_d (A - e^epsilon B) <= delta W. The paper asks for A/W <= e^epsilon B/W + delta for each corner by
itself (002 eq. 5 and 22), which allows C_d times as much: with the alpha of its eq. 24 the delta that is delivered
is C_d delta. Here each corner gets delta / C_d, in the sampler and in the scale alike. `papers/002` keeps the
printed form.

**Sampling.** The side first (`draw.sides`), then a uniform corner of it, in O(d). Only where y and v agree matters,
so a row draws d bits, one for each agreement. If d is odd, bits on the wrong side are negated: a bijection between
the sides, and nothing is rejected. If d is even, the sides differ in size. For T+ a tie is drawn again, and the
rest is negated where needed. For T- a corner of T+ is drawn again: negated, it would count twice against a tie.

**Reading.** The signs of a coordinate have the mean E[y_j | v] = kappa v_j. The sum of y.v over T+ is d C(d-1,
floor(d/2)), and that over T- is its negative, so

    kappa = (A - B) C(d-1, floor(d/2)) / W.

The score +-1/kappa is unbiased, with variance 1/kappa^2 - x_j^2. For d = 1 this is `Duchi`. For large d, 1/kappa^2 is
about (pi/2) d ((E + 1)/(E - 1))^2 with E = e^epsilon: pi/2 times the variance of one sampled sign out of d.

**Parts.** However large epsilon is, this stays at about (pi/2) d: one corner holds no more. So a report may hold
`parts` corners, with epsilon/parts and delta/parts each, and the score is the mean of theirs. Every part rounds the
record by itself, so that given the record parts are independent, and the variance is (1/kappa^2 - x_j^2) / parts. For
many dimensions it is least where sinh(e) = 2e, at e = 2.18 for each part: two parts from epsilon 3.1, four at 8.
Ratios multiply, and opposite corners attain the product; the delta of the whole is worked out, and is below the sum.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import comb, exp, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.composite_channels import Repeated
from dither.core.contributions import Bounded
from dither.core.domains import RECORDS, Records, UnitInterval
from dither.core.draw import ELEMENT, Placed, Rows, Tape, Words, rejection_sampled, sides, slots_of
from dither.core.estimate import MEAN, Estimate
from dither.core.exact import share_below
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import HonestSums, Sums
from dither.core.lattice import rounded_signs
from dither.core.mechanism import Mechanism, Moments
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.mechanisms.packing import as_bytes, bits_dtype, counted_bits, packed_bits, padding_is_clear

MOST_DIMENSIONS = 1 << 12
MOST_PARTS = 64
_MOST_LISTED = 12  # signs of a report, if all reports are written out


@dataclass(frozen=True, eq=False)
class Signs:
    """The reading of d means from d signs whose mean is `kappa` times that of the rounded value.

    A sign has no magnitude, so the reports do not tell the mean square of the values. The squared mean stands in
    for it, which makes the error bar too wide, never too narrow; it is the squared estimate, less what noise adds
    to that. The error bar then covers a random choice of users as well: over values and noise together, the
    variance of a score is 1/kappa^2 - mean^2. Of the mean of several signs of a user it is that, divided by their
    number; how users differ is averaged less, and where few are asked the widest spread of values is allowed for.
    """

    d: int
    kappa: Fraction
    number: int = 1  # of signs for each dimension in a report

    @property
    def domain(self) -> Records:
        """Rows of d numbers from -1 to 1."""
        return Records(self.d, (UnitInterval(),))

    @property
    def scale(self) -> float:
        """The score of a positive sign: 1/kappa, the B of the paper."""
        return float(1 / self.kappa)

    @cached_property
    def _excess(self) -> float:
        """1/kappa^2 - 1, the least variance: subtracted before it is rounded, since kappa may be close to 1."""
        return float(1 / self.kappa**2 - 1)

    def worst_variance(self, share: float = 1.0) -> float:
        """That of a population with mean 0: of zeros; of ends where few are asked, and have several signs each."""
        return (self._excess + 1.0) / self.number + self._chosen(share)

    def _chosen(self, share: float) -> float:
        """What a squared value adds to the variance where a share of the users is asked, less what it takes off."""
        return max(0.0, 1.0 - share - 1.0 / self.number)

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimate:
        """The d means with their standard errors, which cover a random choice of the `among` users too."""
        signs = tally.n * self.number
        value = (2 * tally.counts - signs) / signs * self.scale
        squared = np.clip(value**2 - self.worst_variance() / tally.n, 0.0, 1.0)
        chosen = self._chosen(tally.n / (among or tally.n))
        variance = (self._excess + (1.0 - squared)) / self.number + chosen * (1.0 - squared)
        note = (
            "Each sign is calibrated to be unbiased; one report of a dimension has a standard deviation of about "
            f"{variance.mean() ** 0.5:.3g}."
        )
        stderr = np.sqrt(variance / tally.n)
        return Estimate(value, stderr, tally.n, guarantee, "mean", source=source, notes=(note,), bounds=MEAN)

    def moments(self, x: Any) -> Moments:
        """Of the score of each dimension, for each record: a sign has two values, s = 1/kappa and -s, and mean x/s."""
        table = np.asarray(self.domain.check(x), dtype=np.float64)
        variance = self._excess + (1.0 - table) * (1.0 + table)
        if self.number == 1:
            return Moments(np.zeros(table.shape), variance, variance * (self.scale**2 + table**2) / self.scale)
        third, up = np.zeros(table.shape), (1.0 + table / self.scale) / 2
        for ups in range(self.number + 1):
            chance = comb(self.number, ups) * up**ups * (1.0 - up) ** (self.number - ups)
            third += chance * np.abs((2 * ups / self.number - 1) * self.scale - table) ** 3
        return Moments(np.zeros(table.shape), variance / self.number, third)


@dataclass(frozen=True)
class Hypercube(Mechanism[Estimate]):
    """d numbers, by one randomized corner of the cube (002 Mechanism-1), or by several.

    A report is d bits for each of its `parts`, and every user reports on every dimension. `parts=None` takes the
    number of corners that has the least variance: one, up to epsilon of about 3.

    >>> mechanism = Hypercube(d=85, epsilon=1.0, delta=1e-6)
    >>> print(mechanism.guarantee)
    epsilon 1, delta 1e-6 (exact)
    >>> round(mechanism.reading.scale, 2)
    24.93
    >>> one, best = (Hypercube(d=85, epsilon=8.0, parts=parts) for parts in (1, None))
    >>> best.parts, round(one.reading.worst_variance()), round(best.reading.worst_variance())
    (4, 133, 57)
    """

    d: int
    epsilon: float
    delta: float = 0.0
    parts: int | None = 1
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "records"
    shows_favoured = True
    takes = RECORDS
    statistics = ("mean",)
    for_vectors = True
    vector_options = {"parts": None}  # the number that has the least variance
    examples = (
        {"d": 3, "epsilon": 1.0},
        {"d": 4, "epsilon": 1.0, "delta": 1e-3},
        {"d": 1, "epsilon": 2.0, "delta": 1e-3},
        {"d": 2, "epsilon": 0.5},
        {"d": 3, "epsilon": 1.5, "delta": 0.1},
        {"d": 1, "epsilon": 3.0, "parts": 3},
        {"d": 2, "epsilon": 2.0, "delta": 1e-3, "parts": 2},
    )

    def _validate(self) -> None:
        self._freeze(d=checked_count("d", self.d, 1, MOST_DIMENSIONS))
        parts = best_corners(self.d, self.epsilon, self.delta) if self.parts is None else self.parts
        self._freeze(parts=checked_count("parts", parts, 1, MOST_PARTS))

    def to_dict(self) -> dict[str, Any]:
        """As of every mechanism; a single part goes without saying, as in what was stored before there were parts."""
        stored = super().to_dict()
        if self.number == 1:
            del stored["parts"]
        return stored

    @property
    def number(self) -> int:
        """How many corners a report has."""
        return self.parts or 1

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them: of one part of a report."""
        size = half_space(self.d)
        return TwoLevel.fit(
            share_below(self.epsilon, self.number),
            share_below(self.delta, self.number),
            favoured=size,
            outputs=1 << self.d,
            apart=size,
            inputs=1 << self.d,
            members=self._favoured,
            weights=self.weights,
        )

    def _favoured(self, corner: int) -> list[int]:
        """The corners on the same side; bit j of a corner's number is set where its coordinate j is +1."""
        return [y for y in range(1 << self.d) if 2 * (corner ^ y).bit_count() < self.d]

    @cached_property
    def reading(self) -> Signs:
        law = self.law
        kappa = Fraction((law.high - law.low) * comb(self.d - 1, self.d // 2), law.total)
        return Signs(self.d, kappa, self.number)

    def report_worth(self) -> Worths:
        """1/kappa for every dimension, where all parts show the same corner."""
        return (Worth.of_mean(1 / self.reading.kappa, items=self.d, at_once=self.d),)

    def honest_sums(self, tally: Tally) -> Sums:
        """How many signs of a dimension are plus: with (1 - kappa)/2 to (1 + kappa)/2 each."""
        kappa, signs = float(self.reading.kappa), tally.n * self.number
        return (HonestSums.of("positive signs", tally.counts, signs, (1 - kappa) / 2, (1 + kappa) / 2),)

    @cached_property
    def dtype(self) -> np.dtype:
        return bits_dtype(self.d * self.number)

    def channel(self) -> TwoLevel | Repeated:
        return self.law if self.number == 1 else Repeated((self.law,) * self.number, self.number)

    def inputs(self) -> NDArray:
        """The corners if they are few; otherwise some of them."""
        return self.reading.domain.points(1 << self.d if self.d <= _MOST_LISTED else 16)

    def outputs(self) -> NDArray:
        signs = self.d * self.number
        if signs > _MOST_LISTED:
            raise ParameterError(
                f"2^{signs} reports are too many to list; ask for at most {_MOST_LISTED} dimensions, or use channel()"
            )
        # The last corner varies fastest, as in the channel; the first stands first in the report.
        places = np.arange(signs).reshape(self.number, self.d)[::-1].ravel()
        return packed_bits(np.arange(1 << signs)[:, None] >> places & 1, signs)

    def favours(self, x: NDArray, reports: NDArray, part: int = 0) -> NDArray[np.bool_]:
        """For each report whether the corner x favours its corner, or that of another part: public, but for x."""
        bits = np.unpackbits(as_bytes(reports), axis=1, bitorder="little", count=self.d * self.number)
        own = bits[:, part * self.d : (part + 1) * self.d] == (np.reshape(x, (1, self.d)) > 0)
        return 2 * own.sum(axis=1) > self.d

    @property
    def row_words(self) -> int:
        return self.d * self.number

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        if self.number > 1:
            tape, rows = tape.slots("part", self.number), slots_of(rows, self.number)
            values = np.repeat(values, self.number, axis=0)
        agreements = self._agreements(sides(self.law, tape, rows), tape, rows)
        differs = ~_bits(agreements, tape.bits, self.d)
        signs = rounded_signs(values, tape, rows) ^ differs
        as_bytes(reports)[:] = np.packbits(signs.reshape(len(reports), -1), axis=1, bitorder="little")

    def _agreements(self, inside: NDArray[np.bool_], tape: Tape, rows: Rows) -> Words:
        """For each row d uniform bits among those with more than d/2 ones if `inside`, with at most d/2 if not."""
        whole = _full_words(self.d, tape.bits)

        def place(words: Words, pending: Rows) -> Placed:
            chosen, wanted = words & whole, inside[pending]
            excess = 2 * np.bitwise_count(chosen).sum(axis=1, dtype=np.int64) - self.d
            right = (excess > 0) == wanted
            # Sides of equal size are mirror images. Of unequal ones only T+, the smaller, can be filled from the
            # other.
            movable = ~right if self.d % 2 else wanted & (excess < 0)
            chosen[movable] ^= whole
            return chosen, right | movable

        return rejection_sampled(place, tape, rows, whole.size, ELEMENT)

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        return padding_is_clear(reports, self.d * self.number)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return counted_bits(reports, self.d * self.number).reshape(self.number, self.d).sum(axis=0)

    @cached_property
    def contributions(self) -> Bounded:
        return Bounded((self.d,), 0, self.number)


def half_space(d: int) -> int:
    """C_d: how many corners y have y.v > 0, for any corner v (002 eq. 7).

    >>> [half_space(d) for d in range(1, 9)]
    [1, 1, 4, 5, 16, 22, 64, 93]
    """
    ties = 0 if d % 2 else comb(d, d // 2)
    return ((1 << d) - ties) // 2


def best_corners(d: int, epsilon: float, delta: float = 0.0) -> int:
    """How many corners a report has, for the least variance.

    With E the ratio of the two weights and f the share of favoured corners, kappa goes with (E - 1)/(f E + 1 - f).

    >>> [best_corners(100, epsilon) for epsilon in (1.0, 2.0, 4.0, 8.0)]
    [1, 1, 2, 4]
    """
    favoured = float(Fraction(half_space(d), 1 << d))
    found, least = 1, inf
    for parts in range(1, MOST_PARTS + 1):
        loss = delta / parts
        slope = (exp(min(epsilon / parts, 100.0)) + loss * (1 / favoured - 1)) / (1 - loss)
        variance = ((favoured * slope + 1 - favoured) / (slope - 1)) ** 2 / parts
        if variance < least:
            found, least = parts, variance
    return found


def _full_words(d: int, bits: int) -> Words:
    """d ones, in words of `bits` bits."""
    last = d - (-(-d // bits) - 1) * bits
    words = np.full(-(-d // bits), (1 << bits) - 1, dtype=np.uint64)
    words[-1] = (1 << last) - 1
    return words


def _bits(words: Words, bits: int, d: int) -> NDArray[np.bool_]:
    """The first d bits of each row of words, lowest first."""
    flat = np.unpackbits(np.ascontiguousarray(words, dtype="<u8").view(np.uint8), axis=1, bitorder="little")
    used = flat.reshape(len(words), words.shape[1], 64)[:, :, :bits]
    return used.reshape(len(words), -1)[:, :d].astype(bool)
