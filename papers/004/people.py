"""Users, queries and true answers of 004's experiments.

**Data.** Normal and Laplace as the paper says: unit variances and one covariance between every two attributes (.8),
Laplace being the normal numbers times the square root of an exponential one for each user; cut into c equal cells of
[-6, 6] (the range is not printed; it is that of the file which the authors published). The real sets cannot be had
offline, and others stand in for them: rows of tables that packages carry, drawn with replacement, each attribute
clipped at round public bounds. Bfive, times spent on questions, is a lognormal with a covariance of .1.

**Queries.** lambda attributes at random, each restricted to a range of the share omega of its values. In the authors'
code ranges begin and end at sixteenths of the domain (`round`), which are edges of all cells that HDG chooses for an
attribute with 16 cells or more. The same lengths that begin anywhere are `any`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dither.ranges.axes import Axes
from dither.ranges.queries import Queries
from dither.reproduce.datasets import DataSet

from ..datasets import CENSUS, CPS, FLIGHTS

Records = NDArray[np.unsignedinteger]
Floats = NDArray[np.floating]
Query = Mapping[int, tuple[int, int]]

SYNTHETIC = ("Bfive", "Normal", "Laplace")
LIMIT = 6.0
COVARIANCE = {"Normal": 0.8, "Laplace": 0.8, "Bfive": 0.1}
UNITS = 16
ROUND, ANY = "round", "any"

# Columns and the bounds at which they are clipped; the first d of them are used.
_CPS = (
    ("age_head", 0, 86), ("e00200", 0, 200_000), ("XTOT", 0, 8), ("e19200", 0, 16_000), ("age_spouse", 0, 86),
    ("e18500", 0, 4_000), ("e18400", 0, 8_000), ("e02400", 0, 40_000), ("nu18", 0, 8), ("e00300", 0, 2_000),
)  # fmt: skip
_CENSUS = (
    ("c0", 0, 91), ("c39", 0, 53), ("c3", 0, 47), ("c2", 0, 52), ("c30", 0, 7),
    ("c24", 0, 5_000), ("c18", 0, 1_000), ("c5", 0, 2_000), ("c16", 0, 10_000), ("c17", 0, 2_500),
)  # fmt: skip
_FLIGHTS = (
    ("sched_dep_time", 0, 2400), ("dep_delay", -30, 130), ("arr_delay", -60, 132), ("air_time", 0, 400),
    ("distance", 0, 3200), ("arr_time", 0, 2400), ("month", 1, 13), ("day", 1, 32), ("flight", 0, 6400),
    ("minute", 0, 60),
)  # fmt: skip
STAND_INS: Mapping[str, tuple[DataSet, tuple[tuple[str, int, int], ...]]] = {
    "Ipums": (CPS, _CPS),
    "Acs": (CENSUS, _CENSUS),
    "Loan": (FLIGHTS, _FLIGHTS),
}


def numbers(kind: str, random: np.random.Generator, n: int, d: int, covariance: float) -> Floats:
    """n users with d numbers each, of unit variance and equal covariances."""
    shared = random.standard_normal((n, 1), dtype=np.float32) * np.float32(math.sqrt(covariance))
    z = random.standard_normal((n, d), dtype=np.float32) * np.float32(math.sqrt(1 - covariance)) + shared
    if kind == "Laplace":
        return z * np.sqrt(random.standard_exponential((n, 1), dtype=np.float32))
    return np.exp(np.float32(0.9) * z) if kind == "Bfive" else z


def cut(values: Floats, low: Floats | float, high: Floats | float, c: int) -> Records:
    """Numbers from low to high as values 0, 1, ... of equal width."""
    places = (np.clip(values, low, high) - low) * (c / (np.asarray(high, dtype=values.dtype) - low))
    return np.minimum(places.astype(np.uint16), c - 1).astype(np.min_scalar_type(c - 1))


@dataclass(frozen=True, eq=False)
class People:
    """Users with d attributes of c values each."""

    records: Records
    c: int
    _inside: dict[tuple[int, int, int], NDArray[np.uint8]] = field(default_factory=dict)

    @classmethod
    def drawn(
        cls, kind: str, n: int, d: int, c: int, random: np.random.Generator, covariance: float | None = None
    ) -> "People":
        """n users of these data."""
        if kind in STAND_INS:
            data, columns = STAND_INS[kind]
            table = np.stack([data.columns()[name].astype(np.float32) for name, _, _ in columns[:d]], axis=1)
            table = table[~np.isnan(table).any(axis=1)]
            low, high = (np.array([column[end] for column in columns[:d]], dtype=np.float32) for end in (1, 2))
            return cls(cut(table, low, high, c)[random.integers(0, len(table), n)], c)
        shared = COVARIANCE[kind] if covariance is None else covariance
        low = 0.0 if kind == "Bfive" else -LIMIT
        return cls(cut(numbers(kind, random, n, d, shared), low, LIMIT, c), c)

    @property
    def d(self) -> int:
        """How many attributes."""
        return self.records.shape[1]

    @property
    def n(self) -> int:
        """How many users."""
        return len(self.records)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return (self.c,) * self.d

    def truth(self, asked: Sequence[Query]) -> Floats:
        """The share of users inside each query, by a bit for each user and range."""
        found = np.empty(len(asked))
        for number, query in enumerate(asked):
            inside: NDArray[np.uint8] | None = None
            for j, (low, high) in query.items():
                bits = self._bits(j, low, high)
                inside = bits if inside is None else inside & bits
            found[number] = 1.0 if inside is None else int(np.bitwise_count(inside).sum(dtype=np.int64)) / self.n
        return found

    def _bits(self, j: int, low: int, high: int) -> NDArray[np.uint8]:
        key = j, low, high
        if key not in self._inside:
            if len(self._inside) * self.n > 4_000_000_000:  # half a gigabyte
                self._inside.clear()
            column = np.ascontiguousarray(self.records[:, j])
            self._inside[key] = np.packbits((column >= low) & (column <= high))
        return self._inside[key]

    def histogram(self, j: int, k: int) -> Floats:
        """The shares of all pairs of values."""
        flat = self.records[:, j].astype(np.int64) * self.c + self.records[:, k]
        return np.bincount(flat, minlength=self.c**2).reshape(self.c, self.c) / self.n


def length(c: int, omega: float) -> int:
    """How many values a range has: whole sixteenths of the domain, rounded down as the authors do.

    >>> [length(64, omega) / 64 for omega in (0.1, 0.5, 0.9)]
    [0.0625, 0.5, 0.875]
    """
    return c // UNITS * max(1, int(UNITS * omega))


def queries(people: People, count: int, many: int, omega: float, ends: str, random: np.random.Generator) -> list[Query]:
    """Many random queries about `count` attributes."""
    size, step = length(people.c, omega), people.c // UNITS if ends == ROUND else 1
    attributes = np.sort(np.argsort(random.random((many, people.d)), axis=1)[:, :count], axis=1)
    lows = step * random.integers(0, (people.c - size) // step + 1, (many, count))
    return [
        {int(j): (int(low), int(low) + size - 1) for j, low in zip(*row, strict=True)}
        for row in zip(attributes, lows, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Asked:
    """Some queries and their true answers."""

    queries: Queries
    truth: Floats

    @classmethod
    def of(cls, people: People, asked: Sequence[Query]) -> "Asked":
        """With the true answers."""
        return cls(Queries.of(Axes.of_shape(people.shape), asked), people.truth(asked))

    @classmethod
    def drawn(
        cls, people: People, count: int, many: int, omega: float, ends: str, random: np.random.Generator
    ) -> "Asked":
        """Random queries."""
        return cls.of(people, queries(people, count, many, omega, ends, random))

    def error(self, answers: Floats) -> float:
        """The mean absolute error."""
        return float(np.abs(answers - self.truth).mean())


def with_count(
    people: People, count: int, many: int, omega: float, random: np.random.Generator, *, zero: bool
) -> list[Query]:
    """Round queries that nobody is inside of, or that somebody is; fewer than asked for where they are rare."""

    def found() -> Iterator[Query]:
        for _ in range(40):
            some = queries(people, count, many, omega, ROUND, random)
            truth = people.truth(some)
            yield from (query for query, share in zip(some, truth, strict=True) if (share == 0) == zero)

    return [query for query, _ in zip(found(), range(many), strict=False)]
