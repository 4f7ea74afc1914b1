"""The users of section 8: each has s of d keys, uniformly without replacement, and a sign for each."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.sparse_domain import Sparse, row_dtype

Numbers = NDArray[np.float64]


class Users(NamedTuple):
    """Vectors as mechanisms take them, and the share of the users who have each item (rows: keys; columns: -, +)."""

    rows: NDArray
    frequency: Numbers

    @property
    def mean(self) -> Numbers:
        """Of each key: the share of + less that of -."""
        return self.frequency[:, 1] - self.frequency[:, 0]

    @classmethod
    def drawn(cls, d: int, s: int, n: int, seed: int) -> "Users":
        """New users; the vectors are checked here, once for all mechanisms."""
        random = np.random.default_rng(seed)
        keys = subsets(random, d, s, n)
        return cls.of(d, keys, random.integers(0, 2, (n, s), dtype=np.int8))

    @classmethod
    def of(cls, d: int, keys: NDArray, plus: NDArray) -> "Users":
        """Users with these keys, of which these are +; a row each."""
        n, s = keys.shape
        rows = np.empty(n, dtype=row_dtype(s))
        rows["key"], rows["value"] = keys, 2.0 * plus - 1
        counts = np.bincount((2 * rows["key"] + plus).reshape(-1), minlength=2 * d)
        return cls(Sparse(d, s).check(rows), counts.reshape(d, 2) / n)


def subsets(random: np.random.Generator, d: int, s: int, count: int) -> NDArray[np.int16]:
    """In each row a uniform set of s numbers below d: Floyd's algorithm, for all rows at once."""
    found = np.empty((s, count), dtype=np.int16)
    for place, last in enumerate(range(d - s, d)):
        candidate = random.integers(0, last, count, dtype=np.int16, endpoint=True)
        found[place] = np.where((found[:place] == candidate).any(axis=0), last, candidate)
    return found.T
