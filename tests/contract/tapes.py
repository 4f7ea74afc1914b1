"""Tapes that run through every possibility, so that the production sampler can be counted instead of sampled.

`EveryTape(bits, lanes)` has one row for every combination of short words on the listed lanes; row r reads its words off
the binary digits of r, the first lane from the lowest ones. A row that is rejected on a lane is handed other
words until it is settled, and noted. The law of the sampler is the law given acceptance, lane by lane: what a
later lane rejects is drawn again without touching the earlier ones. `odds` therefore gives every row that was never
rejected an exact probability, the product over lanes of one over the number of words that are accepted there, given
the words before.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dither.core.draw import Rows, Words
from dither.randomness import Stream


class EveryTape:
    """All tapes of short words: `lanes` maps each lane to the number of words a row reads from it."""

    def __init__(self, bits: int, lanes: dict[int, int]) -> None:
        self.bits = bits
        self.lanes = dict(sorted(lanes.items()))
        self.rows = 1 << bits * sum(lanes.values())
        self._rejected = {lane: np.zeros(self.rows, dtype=bool) for lane in lanes}

    def words(self, lane: int, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        """The digits of the row's number, or other words once these were rejected."""
        numbers = np.arange(self.rows, dtype=np.uint64)[rows]
        if attempt:
            self._rejected[lane][rows] = True
            return _later_words(lane, len(numbers), width, attempt, self.bits)
        first, _ = self._digits(lane)
        shifts = np.arange(first, first + width, dtype=np.uint64) * np.uint64(self.bits)
        return numbers[:, None] >> shifts & np.uint64((1 << self.bits) - 1)

    def odds(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The rows that were never rejected, and one over the probability of each."""
        rows = np.arange(self.rows)
        kept, inverse = np.ones(self.rows, dtype=bool), np.ones(self.rows, dtype=np.int64)
        for lane, rejected in self._rejected.items():
            first, last = self._digits(lane)
            before, through = 1 << self.bits * first, 1 << self.bits * last
            choices = np.flatnonzero(~rejected[:through])
            accepted = np.bincount(choices % before, minlength=before)
            inverse *= accepted[rows % before]
            kept &= ~rejected
        return rows[kept], inverse[kept]

    def _digits(self, lane: int) -> tuple[int, int]:
        """The first digit of a lane in a row's number, and the first beyond."""
        first = sum(width for other, width in self.lanes.items() if other < lane)
        return first, first + self.lanes[lane]


class ProbeTape:
    """Notes which lanes a sampler reads, and how many words of each; the words count up, so that both sides occur."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.lanes: dict[int, int] = {}

    def words(self, lane: int, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        """Different words for each row, and a note."""
        self.lanes[lane] = width
        numbers = np.arange(1 << self.bits, dtype=np.uint64)[rows]
        if attempt:
            return _later_words(lane, len(numbers), width, attempt, self.bits)
        return np.arange(width, dtype=np.uint64) + numbers[:, None] & np.uint64((1 << self.bits) - 1)


def _later_words(lane: int, rows: int, width: int, attempt: int, bits: int) -> Words:
    """Arbitrary words for a later attempt: sooner or later they are accepted."""
    words = Stream.seeded(1, "later attempts").words(lane, slice(0, rows), width, attempt)
    return words & np.uint64((1 << bits) - 1)


def lanes_read(sample: Callable[[int, ProbeTape], object], bits: int) -> dict[int, int]:
    """The lanes that `sample(rows, tape)` reads."""
    probe = ProbeTape(bits)
    sample(1 << bits, probe)
    return probe.lanes
