"""Codebooks of directions that a public seed defines, and what the best of them have in common with a vector.

A codebook has `size` rows of d whole numbers, and its codewords are the rows and their opposites. A vector favours the
w codewords with the largest inner product. What a mechanism has to know beforehand is how large these products are on
average, over all seeds. For directions that are spread evenly over a sphere this has an exact answer, which is the
same for every vector.

**Rotated** (d >= 64). The rows are those of a random rotation of n = `size` dimensions, a power of two, cut to their
first d columns. It is three turns of random signs and a Walsh-Hadamard transform H,

    R = H S3 H S2 H S1 / n^(3/2),     S1, S2, S3: signs from the hash of the seed,

so all products of a vector are R (v, 0, ..., 0) and cost 3 n log2 n additions instead of n d multiplications, and a
single row (what the server needs) two transforms. Without the division everything is whole numbers. Cutting columns off
costs nothing but a length that varies a little (by 1/sqrt(2 d)): the codewords live in d dimensions, not in n.

**Drawn** (d < 64, where that variation would cost more than a few per cent). Entries are normal quantiles, 16 bits
from the hash, and each row is brought to the same length. All rows are independent, and n = d.

**How good is it?** For the estimate to have no bias the sum of the favoured codewords has to point along v on average.
For evenly spread directions it does. `Drawn` is one such family, to within its 16 bits. Of `Rotated` it was measured
(as `benchmarks/unitvector.py bias` does, with more seeds), by the exact conditional mean given the seed, on the vectors
that three turns mix worst: one entry, two, three, all alike, patterns of the transform itself. At n = 256, with w = 33
to 179 and 30,000 seeds, the length of the mean is right to 3 parts in 10,000 and its direction to 6. With w of 1 and 7
nothing is seen, but standard errors across are 1.9 and 0.8 parts in 1,000.
(The fourth moment of a product differs from that of a random direction by 8/n^2 after three turns.) What does leave a
bias, about 0.8/n, are *ties*: a vector with three entries 4 : 2 : 1 has many equal products, and rows of low number are
not a random choice among them. So a nudge of a few millionths, from the hash too, is added to every entry before.

**Exact.** A vector is brought to length 2^24 and rounded to whole numbers (`whole_vectors`). Then every product is a
whole number below 2^53, any order of additions gives the same, and which codewords are favoured is decided without
rounding, by every implementation alike. No product is longer than the vector with its nudges, 1.02 * 2^24, times
n^(3/2): below 2^53 up to n = 2^19. At n = 2^20 it may reach 2^54.1, and floats hold it all the same, since it is a
multiple of four: a transform of whole numbers has entries that are all odd or all even; of such numbers, entries that
are all even and all the same modulo 4; so that of the last one sums of two have been multiples of four from its first
additions on, where they are still short, and multiples of four are exact up to 2^55.

**Products.** Let N = `size`. The product of a vector of length 1 with a row of a rotation is one coordinate of a random
point of the sphere: g / |g| for n normal numbers g, whose length is independent of its direction. So the w largest
of N products have as much as those of N normal numbers, divided by a moment of |g|. `Drawn` has N independent
coordinates. In both cases, with q(x) the chance that a magnitude exceeds x, and Q ~ Beta(w, N - w) the q of the largest
that is left out,

    E[sum of the w largest magnitudes^p] = N E[ integral over magnitudes above x(Q) of x^p ].
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.core.contributions import rounded_squares
from dither.kernels.hashing import public_seeds

FIRST_ROTATED = 64  # dimensions: below, rows are drawn
LENGTH = 1 << 24  # of a vector, in whole numbers
_LEAST_ROTATED, _MOST_ROTATED = 1 << 8, 1 << 17
_LEAST_DRAWN, _MOST_DRAWN = 1 << 5, 1 << 11
_STEPS = 1 << 13  # of integrals
_REACH = 12.0  # standard deviations
_ACCURACY = 1e-6  # no error is known better
_NEAR = 1.01  # a codebook is large enough if a larger one is not this much better

Floats = NDArray[np.float64]
Seeds = NDArray[np.uint64]


@dataclass(frozen=True)
class Codebook(ABC):
    """`size` rows of d whole numbers, a power of two of them, and their opposites."""

    d: int
    size: int

    rotated: ClassVar[bool] = False  # whether rows are those of a rotation, at right angles to each other

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """n: a row is the first d coordinates of a random point on the unit sphere of n dimensions."""

    @property
    @abstractmethod
    def length(self) -> float:
        """What a length of 1 is in the whole numbers of a row."""

    @property
    def longest(self) -> float:
        """No row is longer, in whole numbers: rounding an entry adds at most a half."""
        return self.length + math.sqrt(self.d) / 2

    @property
    def shift(self) -> int:
        """How many bits of a squared entry are left out of the sum of squares."""
        return 0

    @property
    @abstractmethod
    def squares(self) -> tuple[int, int]:
        """Between which numbers all that one codeword adds to the sum of squares lies."""

    @abstractmethod
    def choose(self, vectors: Floats, seeds: Seeds, positions: NDArray, favoured: int) -> NDArray[np.int64]:
        """For each vector (of whole numbers) the codeword at this position, favoured ones first."""

    @abstractmethod
    def favours(self, vectors: Floats, seeds: Seeds, codewords: NDArray, favoured: int) -> NDArray[np.bool_]:
        """For each vector whether it favours this codeword."""

    @abstractmethod
    def sums(self, seeds: Seeds, codewords: NDArray) -> NDArray[np.int64]:
        """The sum of these codewords, and of the squares of their entries."""

    @abstractmethod
    def tops(self, favoured: int) -> Floats:
        """E[sum of t^p over the favoured codewords], p = 1, ..., 4, for the products t of a vector of length 1."""

    def row(self, seed: int, codeword: int) -> NDArray[np.int64]:
        """One codeword."""
        return self.sums(np.array([seed], dtype=np.uint64), np.array([codeword]))[0]


@dataclass(frozen=True)
class Rotated(Codebook):
    """Rows of a random rotation, cut to d columns.

    >>> book = Rotated(d=650, size=1024)
    >>> row = book.row(seed=7, codeword=3)
    >>> bool(abs((row @ row) / book.length**2 * 1024 / 650 - 1) < 0.1)
    True
    """

    rotated = True

    @property
    def dimensions(self) -> int:
        return self.size

    @property
    def length(self) -> float:
        return self.size**1.5

    @property
    def shift(self) -> int:
        return max(0, 2 * (self.size.bit_length() - 1) - 24)

    @property
    def squares(self) -> tuple[int, int]:
        whole = self.size**3 >> self.shift  # of all columns, of which some are cut off
        return whole if self.d == self.size and not self.shift else 0, whole

    def choose(self, vectors: Floats, seeds: Seeds, positions: NDArray, favoured: int) -> NDArray[np.int64]:
        return kernels.rotated_choice(vectors, seeds, positions, self.size, favoured)

    def favours(self, vectors: Floats, seeds: Seeds, codewords: NDArray, favoured: int) -> NDArray[np.bool_]:
        return kernels.rotated_favours(vectors, seeds, codewords, self.size, favoured)

    def sums(self, seeds: Seeds, codewords: NDArray) -> NDArray[np.int64]:
        return kernels.rotated_sums(seeds, codewords, self.d, self.size, self.shift)

    def tops(self, favoured: int) -> Floats:
        n = self.size
        mean = math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))  # E|g|
        return _largest(0, n, favoured) / np.array([mean, n, (n + 1) * mean, n * (n + 2)])


@dataclass(frozen=True)
class Drawn(Codebook):
    """Independent rows, all of the same length."""

    @property
    def dimensions(self) -> int:
        return self.d

    @property
    def length(self) -> float:
        return float(_ROW_LENGTH)

    @property
    def squares(self) -> tuple[int, int]:
        return rounded_squares(self.d, _ROW_LENGTH)

    def choose(self, vectors: Floats, seeds: Seeds, positions: NDArray, favoured: int) -> NDArray[np.int64]:
        return kernels.drawn_choice(vectors, seeds, positions, self.size, favoured, _quantiles(), _ROW_LENGTH)

    def favours(self, vectors: Floats, seeds: Seeds, codewords: NDArray, favoured: int) -> NDArray[np.bool_]:
        return kernels.drawn_favours(vectors, seeds, codewords, self.size, favoured, _quantiles(), _ROW_LENGTH)

    def sums(self, seeds: Seeds, codewords: NDArray) -> NDArray[np.int64]:
        return kernels.drawn_sums(seeds, codewords, self.d, self.size, _quantiles(), _ROW_LENGTH)

    def tops(self, favoured: int) -> Floats:
        return _largest(self.d, self.size, favoured)


_ROW_LENGTH = 1 << 14


def codebook(d: int, size: int) -> Codebook:
    """The codebook for so many dimensions."""
    return Drawn(d, size) if d < FIRST_ROTATED else Rotated(d, size)


def sizes(d: int) -> list[int]:
    """How many rows there may be, fewest first."""
    if d < FIRST_ROTATED:
        return [1 << bits for bits in range(_LEAST_DRAWN.bit_length() - 1, _MOST_DRAWN.bit_length())]
    least = max(_LEAST_ROTATED, 1 << (d - 1).bit_length())
    return [size for size in (least, 2 * least, 4 * least) if size <= _MOST_ROTATED or size == least]


def whole_vectors(vectors: Floats) -> tuple[Floats, Floats]:
    """Directions as whole numbers of length 2^24, and how long the vectors are (at most 1). Zero gets the first axis.

    Entries that are not finite count as zero: whatever comes in, a direction goes out that favours w codewords.

    >>> whole_vectors(np.array([[0.3, 0.4], [0.0, 0.0]]))[0].tolist()
    [[10066330.0, 13421773.0], [16777216.0, 0.0]]
    """
    peak = np.abs(vectors).max(axis=1)
    if not np.isfinite(peak).all():
        vectors = np.where(np.isfinite(vectors), vectors, 0.0)
        peak = np.abs(vectors).max(axis=1)
    nothing = peak == 0
    scaled = vectors / np.where(nothing, 1.0, peak)[:, None]  # squares of the smallest floats would vanish
    scaled[nothing, 0] = 1.0
    lengths = np.sqrt(np.square(scaled).sum(axis=1))
    scaled *= (LENGTH / lengths)[:, None]
    return np.rint(scaled, out=scaled), np.minimum(np.minimum(peak, 1.0) * lengths, 1.0)


def seeds_of_parts(seeds: Seeds, parts: int) -> Seeds:
    """The seeds of the codebooks of several parts, one after the other for each report."""
    return seeds if parts == 1 else _scrambled(seeds[:, None] + public_seeds(parts)).reshape(-1)


def _scrambled(x: Seeds) -> Seeds:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


# What is known of the products --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Products:
    """Moments of the product t of a vector of length 1 with the codeword that is reported: E[t^p], p = 1, ..., 4.

    t is in units of a row's length. The codeword has n - 1 further coordinates, spread evenly, of squared length
    1 - t^2 in all; d - 1 of them are seen.
    """

    d: int
    dimensions: int
    moments: tuple[float, float, float, float]

    @classmethod
    def of(cls, book: Codebook, favoured: int, high: float, low: float) -> "Products":
        """Of a codebook with `favoured` codewords of probability `high` each, and `low` for the others."""
        n, tops = book.dimensions, book.tops(favoured)
        every = 2.0 * book.size * np.array([0.0, 1.0 / n, 0.0, 3.0 / (n * (n + 2))])  # over all codewords
        return cls(book.d, n, tuple(((high - low) * tops + low * every).tolist()))

    @property
    def kappa(self) -> float:
        """E[t]: a codeword is this much of the vector, on average."""
        return self.moments[0]

    @property
    def along(self) -> float:
        """The second moment of a codeword along the vector."""
        return self.moments[1]

    @property
    def across(self) -> float:
        """The second moment of a codeword in any one direction across."""
        return (1 - self.moments[1]) / (self.dimensions - 1)

    @property
    def squared(self) -> float:
        """The mean squared length of a codeword, as far as it is seen."""
        return self.along + (self.d - 1) * self.across

    @property
    def error(self) -> float:
        """E |codeword / kappa - v|^2 for a vector v of length 1."""
        return max(self.squared / self.kappa**2 - 1, _ACCURACY)

    def central(self, place: Floats, mean: Floats) -> tuple[Floats, Floats]:
        """Second and fourth moment about its mean (`mean`, in units of kappa) of an entry of the codeword / kappa.

        `place` is the entry of the vector's direction. The entry is t place + z, with z across.
        """
        first, second, third, fourth = self.moments
        n, near = self.dimensions, place**2
        far = np.maximum(0.0, 1 - near)
        between = (second - fourth) / (n - 1)  # E[t^2 z^2]
        square = second * near + self.across * far
        cube = place * (third * near + 3 * far * (first - third) / (n - 1))
        power = fourth * near**2 + 6 * near * far * between
        power += 3 * far**2 * (1 - 2 * second + fourth) / max(1, (n - 1) * (n + 1))
        square, cube, power = square / first**2, cube / first**3, power / first**4
        # The mean of a shorter vector is that of a coin between the direction and its opposite: the cube turns with it.
        turn = np.divide(mean, place, out=np.zeros_like(mean), where=place != 0)
        return np.maximum(square - mean**2, 0.0), power - 4 * mean * turn * cube + 6 * mean**2 * square - 3 * mean**4


def best(d: int, epsilon: float) -> tuple[int, int, float]:
    """How many favoured codewords of how many rows have the least error, and that error.

    A smaller codebook is taken if no larger one is better by more than a hundredth.

    >>> best(650, 1.0)[:2]
    (708, 1024)
    """
    ratio = math.exp(min(epsilon, 40.0))
    found = [(*_best_favoured(codebook(d, size), ratio), size) for size in sizes(d)]
    least = min(error for error, _, _ in found)
    error, favoured, size = next(each for each in found if each[0] <= _NEAR * least)
    return favoured, size, error


def _best_favoured(book: Codebook, ratio: float) -> tuple[float, int]:
    """The number of favoured codewords with the least error: there is one valley."""

    def cost(favoured: int) -> float:
        low = 1 / (favoured * ratio + 2 * book.size - favoured)
        return Products.of(book, favoured, ratio * low, low).error

    first, last = 1, book.size
    while last - first > 2:
        middle = math.isqrt(first * last) if last > 4 * first else (first + last) // 2
        middle = min(max(middle, first + 1), last - 2)
        first, last = (first, middle + 1) if cost(middle) <= cost(middle + 1) else (middle, last)
    return min((cost(favoured), favoured) for favoured in range(first, last + 1))


@lru_cache(maxsize=4096)
def _largest_of(sphere: int, size: int, favoured: int) -> tuple[float, ...]:
    mass, above = _integrals(sphere)
    if favoured == size:
        return tuple(float(size * each[-1]) for each in above[1:])
    chance = np.clip(above[0], 1e-300, 1 - 1e-16)
    log = (favoured - 1) * np.log(chance) + (size - favoured - 1) * np.log1p(-chance)
    edge = np.exp(log - log.max()) * mass  # where the largest that is left out lies
    edge /= edge.sum()
    return tuple(float(size * (each @ edge)) for each in above[1:])


def _largest(sphere: int, size: int, favoured: int) -> Floats:
    """E[sum of the largest magnitudes^p], p = 1, ..., 4, of normal numbers (0), or of coordinates on a sphere."""
    return np.array(_largest_of(sphere, size, favoured))


@lru_cache(maxsize=64)
def _integrals(sphere: int) -> tuple[Floats, list[Floats]]:
    """Along magnitudes x from the largest down: the mass of each cell, and the integrals of x^0, ..., x^4 so far."""
    middles = (np.arange(_STEPS) + 0.5) / _STEPS
    if sphere:  # x = cos(angle), angles from 0 to a right one, and fine where they are small
        angle = middles**3 * math.pi / 2
        x, mass = np.cos(angle), np.sin(angle) ** (sphere - 2) * middles**2
    else:
        x = _REACH * (1 - middles)
        mass = np.exp(-0.5 * x * x)
    mass /= mass.sum()
    parts = [x**power * mass for power in range(5)]
    return mass, [np.cumsum(part) - part / 2 for part in parts]


@lru_cache(maxsize=1)
def _quantiles() -> NDArray[np.float32]:
    """2^16 normal quantiles in steps of 2^-15: whole numbers, the same on every machine, and none of them zero.

    All are below 2^24, so that the smaller floats hold them: half the table stays in a nearer cache.
    """
    upper = [round(32768 * NormalDist().inv_cdf(0.5 + (place + 0.5) / 65536)) for place in range(32768)]
    return np.array([-number for number in reversed(upper)] + upper, dtype=np.float32)
