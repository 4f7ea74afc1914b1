"""The users of 000 and of chapter 4 of 001: rows of numbers in [-1, 1], block by block, and what a law needs of them.

| set | users, columns | made how |
| --- | --- | --- |
| Gaussian | 100,000 x 100 | normal, sd 1/16, mean 0.9 in a tenth of the columns, else 0, clipped to [-1, 1] |
| Poisson | 150,000 x 300 | rates uniform in 1..99; each column scaled from its least and largest value |
| Uniform | 120,000 x 500 | uniform in [-1, 1]: all means are next to 0 |
| Factors | 150,000 x 750 | stands in for COV-19: 20 common factors and noise, scaled as Poisson |
| MNIST | 150,000 x 750 | for COV-19, too: the 750 pixels of largest variance, pictures drawn with replacement |
| Census, CPS, Pixels, Flights | as they are | real ones: numbers scaled from least to largest, categories one-hot |

"Normalised into [-1, 1]" is read as clipping for Gaussian, where scaling would move every mean to 0. The data of a set
are the same in all repetitions: only reports are drawn anew.
"""

import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.reproduce.datasets import DataSet

from .datasets import CENSUS, CPS, FLIGHTS, MNIST

Rows = NDArray[np.float32]
Numbers = NDArray[np.float64]

BLOCK = 10_000
SHAPES = {
    "Gaussian": (100_000, 100),
    "Poisson": (150_000, 300),
    "Uniform": (120_000, 500),
    "Factors": (150_000, 750),
    "MNIST": (150_000, 750),
}
NEEDS: dict[str, DataSet] = {"MNIST": MNIST, "Census": CENSUS, "CPS": CPS, "Pixels": MNIST, "Flights": FLIGHTS}
REAL = ("Census", "CPS", "Pixels", "Flights")
_FACTORS = 20
_NUMERIC = 60  # different values; a column of fewer is a category of the census
_SCALED = ("Poisson", "Factors")  # from the least and the largest value of each column


class Columns(NamedTuple):
    """What the law of a deviation needs of each column: mean and mean square, and how many users there are."""

    mean: Numbers
    square: Numbers
    n: int

    @property
    def d(self) -> int:
        """How many columns."""
        return len(self.mean)

    @property
    def variance(self) -> Numbers:
        """Of the users' values."""
        return np.maximum(self.square - self.mean**2, 0.0)

    def some(self, chosen: NDArray[np.intp]) -> "Columns":
        """These columns; one may come more than once."""
        return Columns(self.mean[chosen], self.square[chosen], self.n)


def needed(name: str) -> tuple[DataSet, ...]:
    """The real data that a set is made of."""
    return (NEEDS[name],) if name in NEEDS else ()


def users_of(name: str, share: float) -> int:
    """A share of the users of a set."""
    return max(200, round(share * SHAPES[name][0]))


def dimensions(name: str, d: int) -> NDArray[np.intp]:
    """d columns of a set in a random order; where it has fewer, random ones are repeated (000 section VI-D)."""
    width = SHAPES[name][1]
    rng = _generator(name, 2)
    order = rng.permutation(width)
    return order[:d] if d <= width else np.append(order, rng.integers(0, width, d - width))


@lru_cache(maxsize=16)
def columns(name: str, n: int) -> Columns:
    """Means and mean squares of all columns of a set with n users (of a real one: all its users, whatever n is)."""
    if name in REAL:
        table = _table(name)
        means = [float(np.mean(column, dtype=np.float64)) for column in table]
        squares = [float(np.mean(np.square(column, dtype=np.float64))) for column in table]
        return Columns(np.array(means), np.array(squares), len(table[0]))
    total, squares, seen = 0.0, 0.0, 0
    for block in blocks(name, n):
        total = total + block.sum(axis=0, dtype=np.float64)
        squares = squares + np.square(block).sum(axis=0, dtype=np.float64)
        seen += len(block)
    return Columns(np.asarray(total) / seen, np.asarray(squares) / seen, seen)


def blocks(name: str, n: int) -> Iterator[Rows]:
    """The rows of n users; of a real set, of as many that are drawn without replacement."""
    if name in REAL:
        table = _table(name)
        chosen = _generator(name, 3).choice(len(table[0]), min(n, len(table[0])), replace=False)
        for first in range(0, len(chosen), BLOCK):
            here = chosen[first : first + BLOCK]
            yield np.column_stack([column[here] for column in table]).astype(np.float32)
        return
    low, high = _ends(name, n) if name in _SCALED else (np.float32(-1), np.float32(1))
    for block in _drawn(name, n):
        yield np.clip(2 * (block - low) / (high - low) - 1, -1, 1)


@lru_cache(maxsize=8)
def _ends(name: str, n: int) -> tuple[Rows, Rows]:
    ends = [(block.min(axis=0), block.max(axis=0)) for block in _drawn(name, n)]
    low, high = (np.stack(each) for each in zip(*ends, strict=True))
    return low.min(axis=0), high.max(axis=0)


def _drawn(name: str, n: int) -> Iterator[Rows]:
    """As they are drawn, before they are scaled; blocks have generators of their own, so that they can be repeated."""
    width, fixed = SHAPES[name][1], _generator(name, 0)
    means = np.where(np.arange(width) < width // 10, 0.9, 0.0).astype(np.float32)
    rates = fixed.integers(1, 100, width)
    loads = fixed.standard_normal((_FACTORS, width), dtype=np.float32)
    for first in range(0, n, BLOCK):
        rng, many = _generator(name, 1, first), min(BLOCK, n - first)
        if name == "Gaussian":
            noise = rng.standard_normal((many, width), dtype=np.float32)
            yield (means + noise / 16).astype(np.float32)
        elif name == "Poisson":
            yield rng.poisson(rates, (many, width)).astype(np.float32)
        elif name == "Uniform":
            yield np.float32(2) * rng.random((many, width), dtype=np.float32) - np.float32(1)
        elif name == "Factors":
            common = rng.standard_normal((many, _FACTORS), dtype=np.float32) @ loads
            yield common + rng.standard_normal((many, width), dtype=np.float32)
        else:
            pictures = _pictures()
            yield pictures[rng.integers(0, len(pictures), many)].astype(np.float32) / 127.5 - 1


def _generator(name: str, *which: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), *which])


@lru_cache(maxsize=1)
def _pictures() -> NDArray[np.uint8]:
    """The 750 pixels with the largest variance, of all pictures."""
    found = MNIST.columns()
    whole = np.concatenate([found["train"], found["test"]])
    spread = np.array([np.var(whole[:, place], dtype=np.float64) for place in range(whole.shape[1])])
    return np.ascontiguousarray(whole[:, np.sort(np.argsort(-spread, kind="stable")[: SHAPES["MNIST"][1]])])


@lru_cache(maxsize=1)
def _table(name: str) -> list[NDArray]:
    """The columns of a real set, scaled to [-1, 1]."""
    found = NEEDS[name].columns()
    if name == "Pixels":
        return [column.astype(np.float32) / 127.5 - 1 for column in found["train"].T]
    if name == "Census":
        return [scaled for column in found.values() for scaled in _numbers_or_one_hot(np.asarray(column))]
    numeric = [np.asarray(column, dtype=np.float32) for column in found.values() if column.dtype.kind in "iuf"]
    known = ~np.isnan(np.stack(numeric)).any(axis=0)
    return [scaled for column in numeric for scaled in _scaled(column[known])]


def _numbers_or_one_hot(column: NDArray) -> Iterator[NDArray]:
    kinds, place = np.unique(column, return_inverse=True)
    if column.dtype.kind in "iuf" and len(kinds) > _NUMERIC:
        yield from _scaled(column.astype(np.float32))
    elif len(kinds) > 1:
        yield from (np.where(place == kind, 1, -1).astype(np.int8) for kind in range(len(kinds)))


def _scaled(column: Rows) -> Iterator[Rows]:
    """From the least to the largest value; nothing, if that is one value."""
    low, high = column.min(), column.max()
    if high > low:
        yield np.clip(2 * (column - low) / (high - low) - 1, -1, 1)
