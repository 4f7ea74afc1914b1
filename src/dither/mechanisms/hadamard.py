"""Hadamard response: one code of log2 K bits, decoded for all categories by one fast transform.

Category v owns row v + 1 of the K x K Hadamard matrix H[r, j] = (-1)^popcount(r & j), with K the smallest power of
two above k (row 0 is constant and carries nothing). The input favours the K/2 codes j where its row is +1.

Support: a report supports v if its code lies in v's half. Two rows are orthogonal, so any other value is supported
with probability exactly 1/2, and p = A / (A + B). All the support counts come from the histogram of codes by a fast
Walsh-Hadamard transform: C_v = (n + sum_j H[v+1, j] N_j) / 2, in O(n + K log K) altogether, whatever n times k is.

The i-th code of a half is i with a zero inserted at the lowest bit of r, and that bit then set so that the parity
is right.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.draw import Rows, Tape, Words, positions
from dither.core.estimate import Estimate
from dither.core.honest_sums import HonestSums, Sums
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.mechanisms.frequency import Frequencies

MOST_CATEGORIES = (1 << 26) - 1
_ONE = np.uint64(1)


@dataclass(frozen=True)
class Hadamard(Mechanism[Estimate]):
    """One code, decoded by a fast transform.

    Tiny reports, and a server cost that does not depend on n times k.

    >>> Hadamard(k=1000, epsilon=1.0).codes
    1024
    """

    k: int
    epsilon: float
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "categorical"
    examples = ({"k": 3, "epsilon": 1.0}, {"k": 7, "epsilon": 0.5}, {"k": 5, "epsilon": 3.0})

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 2, MOST_CATEGORIES))

    @property
    def codes(self) -> int:
        """K, the number of codes: the smallest power of two above k."""
        return 1 << self.k.bit_length()

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(
            self.epsilon,
            favoured=self.codes // 2,
            outputs=self.codes,
            apart=self.codes // 4,
            inputs=self.k,
            members=lambda x: [j for j in range(self.codes) if ((x + 1) & j).bit_count() % 2 == 0],
            weights=self.weights,
        )

    @cached_property
    def reading(self) -> Frequencies:
        half = Fraction(1, 2)
        return Frequencies(self.k, self.law.inside, half, supports=self._supports, supported_by=self._supported_by)

    def report_worth(self) -> Worths:
        return self.reading.worths(at_once=self.k)  # code 0 is in the half of every category

    def honest_sums(self, tally: Tally) -> Sums:
        """Support counts, and how often each code comes: code 0, in the half of every category, always as often."""
        rows = np.zeros(self.codes, dtype=np.int64)
        rows[1 : self.k + 1] = 1
        within = (self.k + walsh_hadamard(rows)) // 2  # how many categories favour each code
        high, low = (Fraction(weight, self.law.total) for weight in (self.law.high, self.law.low))
        least, most = np.where(within == self.k, float(high), float(low)), np.where(within, float(high), float(low))
        codes = HonestSums.of("reports of a code", tally.counts, tally.n, least, most)
        return *self.reading.honest_sums(tally), codes

    def _supports(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return (counts.sum() + walsh_hadamard(counts)[1 : self.k + 1]) // 2

    def _supported_by(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each code the weights of the categories in whose half it is."""
        rows = np.zeros(self.codes)
        rows[1 : self.k + 1] = weights
        return (weights.sum() + walsh_hadamard(rows)) / 2

    def channel(self) -> TwoLevel:
        return self.law

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        position = positions(self.law, tape, rows)
        half = np.uint64(self.codes // 2)
        outside = position >= half
        reports["value"] = code_at(
            values.astype(np.uint64) + _ONE, np.where(outside, position - half, position), outside
        )


def code_at(row: Words, index: Words, odd: NDArray[np.bool_]) -> Words:
    """The index-th code whose overlap with `row` has even (or odd) parity."""
    pivot = row & (~row + _ONE)  # lowest set bit
    low = index & (pivot - _ONE)
    code = ((index ^ low) << _ONE) | low
    wrong = (np.bitwise_count(code & row) & 1).astype(bool) ^ odd
    return np.where(wrong, code | pivot, code)


def walsh_hadamard(counts: NDArray[Any]) -> NDArray[Any]:
    """sum_j (-1)^popcount(r & j) counts[j] for every r, in K log2 K additions; of a table, row by row.

    >>> walsh_hadamard(np.array([1, 2, 3, 4])).tolist()
    [10, -2, -4, 0]
    """
    spectrum = np.array(counts, order="C")  # a copy
    step = 1
    while step < spectrum.shape[-1]:
        pairs = spectrum.reshape(-1, 2, step)
        pairs[:, 0], pairs[:, 1] = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        step *= 2
    return spectrum
