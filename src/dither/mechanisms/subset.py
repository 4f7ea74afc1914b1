"""Subset selection: report a set of `size` categories that holds the true one more often than chance.

The outputs are the C(k, size) subsets of a fixed size; the input favours the C(k-1, size-1) that hold it. These
numbers are huge, but only their ratio size : k - size matters for the side: inside with weight size * A against (k
- size) * B. Then the rest of the subset is uniform: size - 1, or size, of the k - 1 other categories.

A uniform m-subset of others is the m smallest of independent uniform words, one for each. If the edge is a tie, the
row is drawn again: ties do not care about names, so the accepted subset is exactly uniform.

Support: p = size A / (size A + (k - size) B), and another category v is in the set with
q = p (size - 1)/(k - 1) + (1 - p) size/(k - 1). The size that minimises the variance lies beside k / (e^epsilon + 1)
(Ye and Barg 2018); both neighbours are tried. No mechanism over k categories has a smaller variance than this one.
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.draw import ELEMENT, Tape, sides
from dither.core.mechanism import Mechanism
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.packing import as_bytes, bit_counts, bits_dtype, packed, padding_is_clear

MOST_CATEGORIES = 1 << 16


@dataclass(frozen=True)
class SubsetSelection(Mechanism):
    """A random subset that favours the value.

    The smallest variance there is; `size=None` takes the best size.

    >>> SubsetSelection(k=100, epsilon=1.0).size
    27
    """

    k: int
    epsilon: float
    size: int | None = None
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "categorical"
    examples = ({"k": 5, "epsilon": 1.0, "size": 2}, {"k": 4, "epsilon": 0.2}, {"k": 3, "epsilon": 2.0})

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 2, MOST_CATEGORIES))
        size = self._best_size() if self.size is None else self.size
        self._freeze(size=checked_count("size", size, 1, self.k - 1))

    def _best_size(self) -> int:
        about = int(self.k / (math.exp(min(self.epsilon, 50.0)) + 1))
        return min((size for size in (about, about + 1) if 1 <= size < self.k), key=self._cost)

    def _cost(self, size: int) -> float:
        return float(replace(self, size=size).reading.variance(0.0))

    def _fit(self) -> tuple[int, ...]:
        return self.law.high, self.law.low

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        k, size = self.k, self.size or 1
        return TwoLevel.fit(
            self.epsilon,
            favoured=math.comb(k - 1, size - 1),
            outputs=math.comb(k, size),
            apart=math.comb(k - 2, size - 1),
            inputs=k,
            members=lambda x: [i for i, subset in enumerate(self._subsets()) if x in subset],
            weights=self.weights,
        )

    def _subsets(self) -> list[tuple[int, ...]]:
        return list(combinations(range(self.k), self.size or 1))

    @cached_property
    def reading(self) -> Frequencies:
        p, size, others = self.law.inside, self.size or 1, self.k - 1
        return Frequencies(self.k, p, Fraction(size - 1, others) * p + Fraction(size, others) * (1 - p))

    @cached_property
    def dtype(self) -> np.dtype:
        return bits_dtype(self.k)

    def channel(self) -> TwoLevel:
        return self.law

    def outputs(self) -> NDArray:
        subsets = self._subsets()
        bits = np.zeros((len(subsets), self.k), dtype=np.uint8)
        for row, subset in zip(bits, subsets, strict=True):
            row[list(subset)] = 1
        return packed(bits, self.k)

    @property
    def row_words(self) -> int:
        return self.k

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: slice) -> None:
        inside = sides(self.law, tape, rows)
        chosen = np.empty((len(values), self.k), dtype=bool)
        for side in (True, False):
            here = np.flatnonzero(inside == side)
            if here.size:
                chosen[here] = self._others(values[here], (self.size or 1) - side, tape, rows.start + here)
        chosen[np.arange(len(values)), values] = inside
        as_bytes(reports)[:] = np.packbits(chosen, axis=1, bitorder="little")

    def _others(self, values: NDArray, size: int, tape: Tape, rows: NDArray) -> NDArray[np.bool_]:
        """For each row a uniform set of `size` categories other than its value."""
        chosen = np.zeros((len(rows), self.k), dtype=bool)
        open_ = np.arange(len(rows) if size else 0)
        attempt = 0
        while open_.size:
            words = tape.words(ELEMENT, rows[open_], self.k, attempt).copy()
            own = np.arange(len(open_)), values[open_]
            words[own] = np.uint64((1 << tape.bits) - 1)  # never among the smallest, unless at a tie
            edge = np.partition(words, size - 1, axis=1)[:, size - 1 : size]
            below = words <= edge
            settled = (below.sum(axis=1) == size) & ~below[own]
            chosen[open_[settled]] = below[settled]
            open_, attempt = open_[~settled], attempt + 1
        return chosen

    def valid(self, reports: NDArray) -> NDArray[np.bool_]:
        sizes = np.bitwise_count(as_bytes(reports)).sum(axis=1, dtype=np.int64)
        return padding_is_clear(reports, self.k) & (sizes == self.size)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return bit_counts(reports, self.k)
