"""Subset selection: report a set of `size` categories that holds the true one more often than chance.

The outputs are the C(k, size) subsets of a fixed size; the input favours the C(k-1, size-1) that hold it. These
numbers are huge, but only their ratio size : k - size matters for the side: inside with weight size * A against (k
- size) * B. Then the rest of the subset is uniform: size - 1, or size, of the k - 1 other categories.

A uniform m-subset of others is the m smallest of independent uniform keys, one for each (half a word). If the edge
is a tie, the row is drawn again: ties do not care about names, so the accepted subset is exactly uniform.

Support: p = size A / (size A + (k - size) B), and another category v is in the set with q = p (size - 1)/(k - 1) +
(1 - p) size/(k - 1). The sum of the variances over all categories is the same for every population, and smallest at
one of the two sizes beside k / (e^epsilon + 1), which are both tried. No report with the same epsilon has a smaller
sum: see `docs/categorical.md` for the argument (after Ye and Barg 2018).
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
from dither.core.draw import ELEMENT, Rows, Tape, Words, sides, some_of
from dither.core.mechanism import Mechanism
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.packing import as_bytes, bit_counts, bits_dtype, packed, padding_is_clear

MOST_CATEGORIES = 1 << 16


@dataclass(frozen=True)
class SubsetSelection(Mechanism):
    """A random subset that favours the value.

    The smallest total variance that epsilon allows; `size=None` takes the best size.

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
        return replace(self, size=size).reading.total_variance

    def _fit(self) -> tuple[int, ...]:
        return self.law.high, self.law.low

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        k, size = self.k, self._size
        return TwoLevel.fit(
            self.epsilon,
            favoured=math.comb(k - 1, size - 1),
            outputs=math.comb(k, size),
            apart=math.comb(k - 2, size - 1),
            inputs=k,
            members=lambda x: [i for i, subset in enumerate(self._subsets()) if x in subset],
            weights=self.weights,
        )

    @property
    def _size(self) -> int:
        assert self.size is not None
        return self.size

    def _subsets(self) -> list[tuple[int, ...]]:
        return list(combinations(range(self.k), self._size))

    @cached_property
    def reading(self) -> Frequencies:
        p, size, others = self.law.inside, self._size, self.k - 1
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
        return 2 * self.k

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        inside = sides(self.law, tape, rows)
        chosen = self._others(values, np.where(inside, self._size - 1, self._size), tape, rows)
        chosen[np.arange(len(values)), values] = inside
        as_bytes(reports)[:] = np.packbits(chosen, axis=1, bitorder="little")

    def _others(self, values: NDArray, sizes: NDArray, tape: Tape, rows: Rows) -> NDArray[np.bool_]:
        """For each row a uniform set of the given size, among the categories other than its value."""
        width = -(-self.k // 2)
        chosen, settled = self._smallest(tape.words(ELEMENT, rows, width), values, sizes, tape.bits // 2)
        attempt = 0
        while not settled.all():
            attempt += 1
            again = np.flatnonzero(~settled)
            words = tape.words(ELEMENT, some_of(rows, again), width, attempt)
            chosen[again], settled[again] = self._smallest(words, values[again], sizes[again], tape.bits // 2)
        return chosen

    def _smallest(self, words: Words, values: NDArray, sizes: NDArray, half: int) -> tuple[NDArray, NDArray]:
        """Which categories have the smallest keys, and whether their number came out right. A word holds two keys."""
        top = np.uint64((1 << half) - 1)
        keys = np.empty((*words.shape, 2), dtype=np.uint32)
        keys[:, :, 0], keys[:, :, 1] = words & top, words >> np.uint64(half) & top
        keys = keys.reshape(len(words), -1)[:, : self.k]
        own = np.arange(len(values)), values
        keys[own] = top  # never among the smallest, unless at a tie
        chosen = np.zeros(keys.shape, dtype=bool)
        for size in np.unique(sizes[sizes > 0]):
            here = np.flatnonzero(sizes == size)
            edge = np.partition(keys[here], size - 1, axis=1)[:, size - 1 : size]
            chosen[here] = keys[here] <= edge
        return chosen, (chosen.sum(axis=1) == sizes) & ~chosen[own]

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        sizes = np.bitwise_count(as_bytes(reports)).sum(axis=1, dtype=np.int64)
        return padding_is_clear(reports, self.k) & (sizes == self.size)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return bit_counts(reports, self.k)
