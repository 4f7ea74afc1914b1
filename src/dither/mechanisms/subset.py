"""Subset selection: report a set of `size` categories that holds the true one more often than chance.

The outputs are the C(k, size) subsets of a fixed size; the input favours the C(k-1, size-1) that hold it. These
numbers are huge, but only their ratio size : k - size matters for the side: inside with weight size * A against (k
- size) * B. Then the rest of the subset is uniform: size - 1, or size, of the k - 1 other categories.

The others are drawn by Floyd's algorithm (Bentley and Floyd 1987): for j = n - m, ..., n - 1 take a uniform t of 0,
..., j, or j itself if t was taken before. By induction the set before the last step is a uniform (m - 1)-subset of 0,
..., n - 2. The last step leads to a set with n - 1 from one of these, by m values of t (n - 1, and those taken), and to
a set without it from m of these, by one t each: in m equally likely ways to every m-subset of 0, ..., n - 1.

A t is made of half a word: the whole part of x (j + 1) / 2^h for x of h bits. The 2^h mod (j + 1) smallest remainders
are rejected, which leaves to every t the same number of x. A row with a rejected x is drawn again, whatever its value
and its side. Where the subset has more than half of the categories, what it leaves out is drawn instead: a subset
that holds the value where the report does not. The loop is compiled where it draws many reports, see `kernels`.

Support: p = size A / (size A + (k - size) B), and another category v is in the set with q = p (size - 1)/(k - 1) +
(1 - p) size/(k - 1). The sum of the variances over all categories is the same for every population, and smallest at
one of the two sizes beside k / (e^epsilon + 1), which are both tried. No report with the same epsilon has a smaller
sum: see `docs/categorical.md` for the argument (after Ye and Barg 2018).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.contributions import Bounded, exactly
from dither.core.draw import ELEMENT, Placed, Rows, Tape, Words, rejection_sampled, sides
from dither.core.estimate import Estimate
from dither.core.honest_sums import Sums
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.mechanisms.frequency import Frequencies, PairSupport, Supported
from dither.mechanisms.packing import as_bytes, bits_dtype, counted_bits, packed_bits, padding_is_clear

MOST_CATEGORIES = 1 << 16


@dataclass(frozen=True)
class SubsetSelection(Mechanism[Estimate]):
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
    statistics = ("frequency", "total")
    examples = ({"k": 5, "epsilon": 1.0, "size": 2}, {"k": 4, "epsilon": 0.2}, {"k": 3, "epsilon": 2.0})

    @property
    def evaluations(self) -> int:
        """The categories that are in, or those that are left out if they are fewer."""
        return self._drawn

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """The subset of the best size, if the server can afford it: to make one of many categories takes long."""
        for parameters in super().candidates(workload):
            if parameters["k"] / (math.exp(min(workload.epsilon, 50.0)) + 1) <= workload.most_evaluations + 1:
                yield parameters

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 2, MOST_CATEGORIES))
        size = self._best_size() if self.size is None else self.size
        self._freeze(size=checked_count("size", size, 1, self.k - 1))

    def _best_size(self) -> int:
        ratio = math.exp(min(self.epsilon, 50.0))
        about = int(self.k / (ratio + 1))
        sizes = (size for size in (about, about + 1) if 1 <= size < self.k)
        return min(sizes, key=lambda size: (size * ratio + self.k - size) ** 2 / (size * (self.k - size)))

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
        q = Fraction(size - 1, others) * p + Fraction(size, others) * (1 - p)
        two = others * max(others - 1, 1)  # ways to choose two other categories, in order
        neither = Fraction((size - 1) * (size - 2), two) * p + Fraction(size * (size - 1), two) * (1 - p)
        pairs = PairSupport(Fraction(size - 1, others) * p, neither)
        return Frequencies(self.k, p, q, pairs=pairs, supported=Supported(size, size))

    def along(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Frequencies | None:
        return self.reading.along(shape, axes)

    def report_worth(self) -> Worths:
        return self.reading.worths()

    def honest_sums(self, tally: Tally) -> Sums:
        return self.reading.honest_sums(tally)

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
        return packed_bits(bits, self.k)

    @property
    def _drawn(self) -> int:
        """How many categories are drawn: those that are in, or those that are left out if they are fewer."""
        return min(self._size, self.k - self._size)

    @property
    def row_words(self) -> int:
        return 1 + -(-self._drawn // 2)

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        inside = sides(self.law, tape, rows)
        if self._drawn == self._size:
            as_bytes(reports)[:] = self._subset_with(inside, values, tape, rows)
        else:  # what is left out holds the value where the subset does not
            bits = as_bytes(reports)
            bits[:] = ~self._subset_with(~inside, values, tape, rows)
            if self.k % 8:
                bits[:, -1] &= np.uint8((1 << self.k % 8) - 1)

    def _subset_with(self, held: NDArray[np.bool_], values: NDArray, tape: Tape, rows: Rows) -> NDArray[np.uint8]:
        """For each row a uniform subset, packed, among those that hold its value, or among those that do not."""
        if self.k - 1 > 1 << tape.bits // 2:  # all would be rejected, for ever
            raise ParameterError("half a word of this tape is too short for the number of a category")

        def place(words: Words, pending: Rows) -> Placed:
            return kernels.subsets(words, tape.bits // 2, values[pending], held[pending], self.k, self._drawn)

        return rejection_sampled(place, tape, rows, -(-self._drawn // 2), ELEMENT)

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        sizes = np.bitwise_count(as_bytes(reports)).sum(axis=1, dtype=np.int64)
        return padding_is_clear(reports, self.k) & (sizes == self.size)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return counted_bits(reports, self.k)

    @cached_property
    def contributions(self) -> Bounded:
        return exactly(self._size, self.k)
