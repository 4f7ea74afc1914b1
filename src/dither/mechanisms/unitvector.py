"""UnitVector: the mean of vectors of length at most 1, by one favoured direction out of M (PrivUnit on integers).

A gradient, an update, an embedding: what matters of it is its direction, and its length has a public bound. PrivUnit
(Bhowmick et al. 2018) answers with a random point of the sphere, more likely from the cap around the vector; it has the
least error of all unbiased randomizers of unit vectors under pure epsilon-LDP (Asi, Feldman and Talwar 2022). But a cap
of a continuous sphere is drawn with floats, and its guarantee is a statement about real numbers.

Here the sphere is M codewords of whole numbers that a public seed defines (`mechanisms.codebooks`; the seed is drawn
for each report and sent with it). A vector favours the w codewords with which it has the largest inner product: this is
the two-level law, with weight A for each favoured one, B for each other, and

    W = w A + (M - w) B.

The certificate is that of integers, for every seed. Products only decide *which* w are favoured, never a weight.

**Reading.** Averaged over seeds the w best codewords y_1, ..., y_w point along v, and all codewords together nowhere:

    E[y] = kappa v,   kappa = (A - B)/W * E[sum of the w largest products],    score = y / kappa.

Its error is E|score - v|^2 = E|y|^2 / kappa^2 - 1. M and w are chosen to make it least. PrivUnit has M without end:
with a cap of share f and mean product m(f), kappa = (E - 1) f m(f) / (1 + f (E - 1)), E = e^epsilon. In d = 650
dimensions M = 2048 is within 0.1% of PrivUnit's error at epsilon 1 and within 1.6% at epsilon 8.

**Short vectors.** A vector of length r < 1 takes its direction with probability (1 + r)/2 and the opposite otherwise,
by an exact coin. The mean is right; the error is that of length 1 plus 1 - r^2. (Zero tosses a fair coin on the first
axis.)

**Parts.** One report of M codewords carries log2(M) bits at best, and beyond epsilon = 10 or so M would have to grow
with e^epsilon. So epsilon is split: a report has `parts` independent codewords, each from a codebook of its own (seeds
from that of the report), with epsilon/parts each, and the score is their mean. The number with the least error is
taken. PrivUnit's error falls like d/(2 epsilon), so that a split costs little: at d = 650 and epsilon 20 a third.

**Errors.** Second moments of a codeword are `along` in the direction of v and `across` in any other. A coordinate's
variance follows if its share in the directions of the users is known; it is not, and may matter (along/across is 8 at
epsilon 8). So the tally adds up the squares of entries, too, and the standard error is the measured one, kept between
what `across` and `along` allow.
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.ball_domain import Ball
from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.composite_channels import Independent, PublicMixture
from dither.core.contributions import Bounded, vector_sums
from dither.core.domains import BALL
from dither.core.draw import TAG, Rows, Tape, positions, slots_of, some_of
from dither.core.estimate import MEAN, Estimate
from dither.core.exact import log_above, share_below
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import HonestSums, Sums
from dither.core.lattice import rounded_signs
from dither.core.mechanism import Mechanism, Moments
from dither.core.structure import CODEBOOK
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.mechanisms.codebooks import Codebook, Products, best, codebook, seeds_of_parts, whole_vectors

MOST_DIMENSIONS = 1 << 20  # beyond, products of whole numbers would be rounded (`mechanisms.codebooks`)
MOST_PARTS = 64
_MOST_INPUTS = 1 << 8
_BLOCK = 1 << 20  # numbers of vectors that are rounded at a time
_OUTWARD = Fraction(10**6 + 1, 10**6)


@dataclass(frozen=True, eq=False)
class Directions:
    """The reading of a mean vector from sums of codewords."""

    d: int
    book: Codebook
    products: Products
    number: int  # of codewords in a report

    @property
    def domain(self) -> Ball:
        """Vectors of d numbers, of length at most 1."""
        return Ball(self.d)

    @property
    def scale(self) -> float:
        """What an entry of a codeword counts: 1/kappa, in the whole numbers of the codebook."""
        return 1 / (self.products.kappa * self.book.length)

    @property
    def error(self) -> float:
        """E |score - v|^2 of one report, for a vector of length 1."""
        return self.products.error / self.number

    def worst_variance(self, share: float = 1.0) -> float:
        """That of short vectors; of a share of the users also that of vectors that cancel, of whom some are asked."""
        squared = self.products.squared / self.products.kappa**2
        return (squared + (self.number - 1) * (1.0 - share)) / (self.number * self.d)

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimate:
        """The mean vector with a standard error for each coordinate, which covers a choice of the `among` users too."""
        sums, squares = tally.counts
        number = tally.n * self.number
        value = sums / number * self.scale
        rounded = 0.5 if self.book.shift else 0.0  # what was cut off each square, on average
        square = (squares / number + rounded) * 2.0**self.book.shift * self.scale**2
        ends = np.sort([self.products.along, self.products.across]) / self.products.kappa**2
        square = np.clip(square, *ends)
        mean_square = np.clip(value**2 - square / number, 0.0, 1.0)
        least = min(ends[0], ends[1] - 1.0) if self.products.along > self.products.across else ends[0]
        stderr = np.sqrt(np.maximum(square - mean_square, max(least, 0.0)) / number)
        note = (
            f"Each report has {self.number} of {2 * self.book.size:,} public directions, calibrated to be unbiased; "
            f"the squared error of a whole vector from one report is {self.error:.3g}."
        )
        return Estimate(value, stderr, tally.n, guarantee, "mean", source=source, notes=(note,), bounds=MEAN)

    def moments(self, x: Any) -> Moments:
        """Of the score of each coordinate, for each vector; `third` is a bound, from the second and fourth moment."""
        table = self.domain.check(x)
        lengths = np.linalg.norm(table, axis=1, keepdims=True)
        place = np.divide(table, lengths, out=np.zeros_like(table), where=lengths > 0)
        place[lengths[:, 0] == 0, 0] = 1.0  # where a vector of no length is sent
        square, power = self.products.central(place, table)
        power = (power + 3 * (self.number - 1) * square**2) / self.number**3
        square = square / self.number
        return Moments(np.zeros(table.shape), square, np.sqrt(square * power))


@dataclass(frozen=True)
class UnitVector(Mechanism[Estimate]):
    """d numbers whose squares add up to at most 1, by favoured directions out of M public ones (PrivUnit).

    The sound way to send the direction of a gradient under pure epsilon-LDP. `parts=None` takes the number of
    directions in a report that has the least error: one, up to epsilon of about 10.

    >>> mechanism = UnitVector(d=650, epsilon=4.0)
    >>> print(mechanism.guarantee)
    epsilon 4 (exact)
    >>> round(mechanism.reading.error, 1), mechanism.law.outputs, mechanism.law.favoured
    (282.7, 2048, 133)
    """

    d: int
    epsilon: float
    parts: int | None = None
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "vectors"
    shows_favoured = True
    structure = CODEBOOK
    takes = BALL
    statistics = ("mean",)
    for_vectors = True
    weight_count = 4
    examples = (
        {"d": 2, "epsilon": 1.0},
        {"d": 3, "epsilon": 2.0, "parts": 2},
        {"d": 64, "epsilon": 2.0},
    )

    def _validate(self) -> None:
        self._freeze(d=checked_count("d", self.d, 2, MOST_DIMENSIONS))
        parts = best_codewords(self.d, self.epsilon) if self.parts is None else self.parts
        self._freeze(parts=checked_count("parts", parts, 1, MOST_PARTS))

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """A few codewords, of which two are favoured, and weights that reject some words."""
        rotated = self.book.rotated
        size = 1 << (self.d - 1).bit_length() if rotated else 4
        for rows in (size, size // 2):
            favoured = max(1, min(2, rows // 2))
            if rows < self.d and rotated:
                continue
            for high in range(7, 1, -1):
                total = favoured * high + 2 * rows - favoured
                if total <= limit and limit % total:
                    weights = (high, 1, favoured, 2 * rows)
                    return replace(self, epsilon=self.number * log_above(Fraction(high)), weights=weights)
        return None

    def _fit(self) -> tuple[int, ...]:
        return self.law.high, self.law.low, self.law.favoured, self.law.outputs

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        checked = super()._checked_weights(weights)
        size, odd = divmod(checked[3], 2)
        if odd or size & (size - 1) or not 1 <= checked[2] <= size or size > 1 << 20:
            raise ParameterError("the last weights must be w and M: M a power of two, and w at most half of it")
        if not self.d <= codebook(self.d, size).dimensions:
            raise ParameterError("there must be at least 2 d codewords")
        return checked

    @property
    def number(self) -> int:
        """How many codewords a report has."""
        return self.parts or 1

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, for one part of a report."""
        share = share_below(self.epsilon, self.number)
        if self.weights is None:
            favoured, size, _ = best(self.d, share)
            outputs, weights = 2 * size, None
        else:
            *weights, favoured, outputs = self.weights
        return TwoLevel.fit(
            share,
            favoured=favoured,
            outputs=outputs,
            apart=favoured,  # opposite vectors favour opposite codewords
            inputs=outputs,
            members=lambda x: [(x + i) % outputs for i in range(favoured)],
            weights=weights,
        )

    @cached_property
    def book(self) -> Codebook:
        """Where a codeword comes from."""
        return codebook(self.d, self.law.outputs // 2)

    @cached_property
    def reading(self) -> Directions:
        law = self.law
        high, low = (float(Fraction(weight, law.total)) for weight in (law.high, law.low))
        return Directions(self.d, self.book, Products.of(self.book, law.favoured, high, low), self.number)

    def report_worth(self) -> Worths:
        """A bound: no entry of a codeword is longer than the codeword.

        kappa is an integral, known as a floating-point number: what is made of it is rounded outwards.
        """
        most = Fraction(self.book.longest * self.reading.scale) * _OUTWARD
        return (Worth.of_mean(most, items=self.d, at_once=None, exact=False),)

    def honest_sums(self, tally: Tally) -> Sums:
        """The sum of each coordinate, in units of twice the longest entry, counted from the least."""
        longest, words = self.book.longest, tally.n * self.number
        mean = self.reading.products.kappa * self.book.length / (2 * longest)
        seen = tally.counts[0] / (2 * longest) + words / 2
        return (HonestSums.of("the sum of a coordinate", seen, words, 0.5 - mean, 0.5 + mean),)

    @cached_property
    def dtype(self) -> np.dtype:
        value = np.min_scalar_type(self.law.outputs - 1)
        return np.dtype([("seed", np.uint64), ("value", value) if self.number == 1 else ("value", value, self.number)])

    def channel(self) -> PublicMixture:
        component = self.law if self.number == 1 else Independent.all_of((self.law,) * self.number)
        return PublicMixture(component, 1 << 64, min(2 * self.d, _MOST_INPUTS), self._given)

    def _given(self, x: int, tag: int) -> list[Fraction]:
        """P(codewords | vector number x, seed), the codeword of the last part varying fastest."""
        vector, _ = whole_vectors(self.inputs()[[x]])
        given = [Fraction(1)]
        for favoured in self.favoured(vector, tag):
            weights = [self.law.low] * self.law.outputs
            for codeword in favoured:
                weights[codeword] = self.law.high
            given = [before * Fraction(weight, self.law.total) for before in given for weight in weights]
        return given

    def favours(self, x: NDArray, reports: NDArray, part: int = 0) -> NDArray[np.bool_]:
        """For each report whether the vector x favours its codeword, or that of another part: public, but for x."""
        values = reports["value"].reshape(len(reports), -1)[:, part]
        vectors = np.broadcast_to(whole_vectors(np.reshape(x, (1, self.d)))[0], (len(values), self.d))
        seeds = seeds_of_parts(reports["seed"], self.number).reshape(len(reports), -1)[:, part]
        return self.book.favours(vectors, seeds, values, self.law.favoured)

    def favoured(self, vector: NDArray[np.float64], seed: int) -> list[list[int]]:
        """The codewords that a vector (a row of whole numbers) favours under a seed, part by part."""
        count = self.law.favoured
        places, rows = np.arange(count, dtype=np.uint64), np.repeat(vector, count, axis=0)
        seeds = seeds_of_parts(np.array([seed], dtype=np.uint64), self.number)
        return [self.book.choose(rows, np.full(count, own), places, count).tolist() for own in seeds]

    def outputs(self) -> NDArray:
        raise ParameterError("there are 2^64 seeds: too many reports to list")

    @property
    def row_words(self) -> int:
        return self.d

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        parts = self.number
        reports["seed"] = tape.words(TAG, rows)[:, 0]
        slots, numbers = (tape, rows) if parts == 1 else (tape.slots("part", parts), slots_of(rows, parts))
        places = positions(self.law, slots, numbers)
        seeds = seeds_of_parts(reports["seed"], parts)
        found = np.empty(len(places), dtype=np.int64)
        height = max(1, _BLOCK // (self.d * parts))
        for at in range(0, len(values), height):
            here = slice(at * parts, (at + height) * parts)
            vectors, lengths = whole_vectors(values[at : at + height])
            plus = rounded_signs(np.repeat(lengths, parts)[:, None], slots, some_of(numbers, here))
            vectors = np.repeat(vectors, parts, axis=0) * np.where(plus, 1.0, -1.0)
            found[here] = self.book.choose(vectors, seeds[here], places[here], self.law.favoured)
        reports["value"] = found if parts == 1 else found.reshape(-1, parts)

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        fine = reports["value"] < self.law.outputs
        return fine if self.number == 1 else np.all(fine, axis=1)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return self.book.sums(seeds_of_parts(reports["seed"], self.number), reports["value"].reshape(-1))

    @cached_property
    def contributions(self) -> Bounded:
        return vector_sums(self.d, math.ceil(self.book.length), self.book.squares, self.number, self.book.shift)


def best_codewords(d: int, epsilon: float) -> int:
    """How many codewords a report has, for the least error.

    >>> best_codewords(650, 8.0), best_codewords(650, 30.0)
    (1, 3)
    """
    found, least = 1, float("inf")
    for parts in range(1, MOST_PARTS + 1):
        error = best(d, epsilon / parts)[2] / parts
        if error >= least:
            break
        found, least = parts, error
    return found
