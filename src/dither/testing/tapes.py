"""Tapes that run through every possibility, so that the production sampler can be counted instead of sampled.

`EveryTape(bits, lanes)` has one row for every combination of short words on the listed lanes; row r reads its words off
the binary digits of r, the first lane from the lowest ones. A row that is rejected on a lane is handed other
words until it is settled, and noted. The law of the sampler is the law given acceptance, lane by lane: what a
later lane rejects is drawn again without touching the earlier ones. `odds` therefore gives every row that was never
rejected an exact probability, the product over lanes of one over the number of words that are accepted there, given
the words before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.draw import Rows, Words, count_of, some_of
from dither.core.randomness import Stream


class EveryTape:
    """All tapes of short words: `lanes` maps each lane to the number of words a row reads from it.

    The lanes of a slotted tape are tuples (label, lane); a row reads the words of all its slots from one lane.
    """

    def __init__(self, bits: int, lanes: dict[Any, int]) -> None:
        self.bits = bits
        self.lanes = dict(sorted(lanes.items(), key=lambda item: _order(item[0])))
        self.rows = 1 << bits * sum(lanes.values())
        self._rejected = {lane: np.zeros(self.rows, dtype=bool) for lane in lanes}

    def slots(self, label: str, number: int) -> "Slots":
        """See `draw.Tape`."""
        return Slots(self, (label,), number)

    def words(self, lane: Any, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
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
            if not rejected.any():
                inverse *= through // before
                continue
            digits = rows & (before - 1)  # what was read before this lane
            inverse *= np.bincount(digits[:through][~rejected[:through]], minlength=before)[digits]
            kept &= ~rejected
        return rows[kept], inverse[kept]

    def _digits(self, lane: Any) -> tuple[int, int]:
        """The first digit of a lane in a row's number, and the first beyond."""
        first = sum(width for other, width in self.lanes.items() if _order(other) < _order(lane))
        return first, first + self.lanes[lane]


class SomeWordsTape(EveryTape):
    """As `EveryTape`, for `varied` words only: lane to the columns of its words that run through everything.

    Lanes stand in the order in which what is accepted on one depends on others before. The other words of a lane are
    all `filler`. The law is the whole one if it does not depend on these words: run it with two fillers, and compare.
    """

    def __init__(self, bits: int, varied: dict[Any, tuple[int, ...]], filler: int) -> None:
        super().__init__(bits, {lane: len(columns) for lane, columns in varied.items()})
        self.lanes = {lane: len(columns) for lane, columns in varied.items()}
        self.varied, self.filler = varied, np.uint64(filler)

    def words(self, lane: Any, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        """The digits of the row's number in the varied words, the filler in all others."""
        columns = [column for column in self.varied.get(lane, ()) if column < width]
        if attempt and not columns:
            raise AssertionError("a word that was not varied was rejected")
        if attempt:
            return super().words(lane, rows, width, attempt)
        found = np.full((len(np.arange(self.rows)[rows]), width), self.filler)
        if columns:
            found[:, columns] = super().words(lane, rows, len(columns))
        return found

    def _digits(self, lane: Any) -> tuple[int, int]:
        first = sum(list(self.lanes.values())[: list(self.lanes).index(lane)])
        return first, first + self.lanes[lane]


class ProbeTape:
    """Notes which lanes a sampler reads, and how many words of each; the words count up, so that both sides occur."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.lanes: dict[Any, int] = {}
        self.twice: set[Any] = set()  # lanes of which some row read the same words for two purposes
        self._read: dict[Any, set[int]] = {}

    def slots(self, label: str, number: int) -> "Slots":
        """See `draw.Tape`."""
        return Slots(self, (label,), number)

    def words(self, lane: Any, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        """Different words for each row, and a note."""
        self.lanes[lane] = max(width, self.lanes.get(lane, 0))
        numbers = np.arange(1 << self.bits, dtype=np.uint64)[rows]
        own = {int(number) for number in numbers} if not attempt else set()
        if own & self._read.setdefault(lane, set()):
            self.twice.add(lane)
        self._read[lane] |= own
        if attempt:
            return _later_words(lane, len(numbers), width, attempt, self.bits)
        return np.arange(width, dtype=np.uint64) + numbers[:, None] & np.uint64((1 << self.bits) - 1)


@dataclass(frozen=True)
class Slots:
    """A tape with `number` rows for each row of another: slot s of row i reads its share of the words of row i."""

    tape: Any
    labels: tuple[str, ...]
    number: int

    @property
    def bits(self) -> int:
        """As long as the other's."""
        return self.tape.bits

    def slots(self, label: str, number: int) -> "Slots":
        """Slots in slots are slots of the first tape."""
        return Slots(self.tape, (*self.labels, label), self.number * number)

    def words(self, lane: int, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        """Whole rows are read, and the slots that were not asked for are left."""
        numbers = np.asarray(some_of(rows, np.arange(count_of(rows))))
        whole, place = np.unique(numbers // self.number, return_inverse=True)
        words = self.tape.words((*self.labels, lane), whole, width * self.number, attempt)
        return words.reshape(len(whole), self.number, width)[place, numbers % self.number]


def _order(lane: Any) -> tuple[int, Any]:
    """Lanes of the row itself come before those of its slots: what a slot reads may depend on them."""
    return (len(lane), lane) if isinstance(lane, tuple) else (0, (lane,))


def _later_words(lane: Any, rows: int, width: int, attempt: int, bits: int) -> Words:
    """Arbitrary words for a later attempt: sooner or later they are accepted."""
    words = Stream.seeded(1, "later attempts").words(sum(map(ord, str(lane))), slice(0, rows), width, attempt)
    return words & np.uint64((1 << bits) - 1)


def lanes_read(sample: Callable[[int, ProbeTape], object], bits: int) -> dict[Any, int]:
    """The lanes that `sample(rows, tape)` reads."""
    return probed(sample, bits).lanes


def probed(sample: Callable[[int, ProbeTape], object], bits: int) -> ProbeTape:
    """What `sample(rows, tape)` reads."""
    probe = ProbeTape(bits)
    sample(1 << bits, probe)
    return probe
