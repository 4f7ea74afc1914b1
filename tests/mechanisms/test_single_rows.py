"""A report that is drawn alone is the report that is drawn among others, to the bit, for every mechanism.

A device draws one row, a table many, and both run the same sampler. What is done differently for a single row (no
chunks, no empty turns, a cipher that stays) must not show. So the same words of the same tape are given to both: words
of 64 bits, short words of which many are rejected, and every tape of short words.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest

from dither.core import mechanism as core_mechanism
from dither.core.draw import Rows, Words
from dither.core.mechanism import Mechanism
from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.mechanisms import key_sampling
from dither.testing.examples import examples, label, many
from dither.testing.short_tapes import lanes
from dither.testing.tapes import EveryTape

ROWS = 80  # more than are drawn without chunks
MOST_BITS = 12  # of all words of a tape
LONG = {"BallGaussian", "Gaussian", "Hybrid", "PCKV_UE", "Sampled"}  # some of which have no short weights
MANY = {
    "BallGaussian",
    "Collision",
    "CountMeanSketch",
    "LHIO",
    "OneHotGaussian",
    "PCKV_UE",
    "Succinct",
}  # which have too many tapes
MECHANISMS = [pytest.param(each, id=label(each)) for each in examples()]


@dataclass(frozen=True)
class ShortWords:
    """The last few bits of the words of a stream: each row owns its words, and many of them are rejected."""

    stream: Stream
    bits: int

    def words(self, lane: int, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        """See `draw.Tape`."""
        return self.stream.words(lane, rows, width, attempt) & np.uint64((1 << self.bits) - 1)

    def slots(self, label: str, number: int) -> "ShortWords":
        """See `draw.Tape`."""
        return ShortWords(self.stream.slots(label, number), self.bits)


def some_values(mechanism: Mechanism) -> Any:
    """Values of all kinds, in turn."""
    spread = mechanism.reading.domain.spread()
    return spread[np.arange(ROWS) * 7 % len(spread)]


def check_alone_as_among_others(mechanism: Mechanism, tape: Any) -> None:
    values = some_values(mechanism)
    together = mechanism.drawn(values, tape)
    for row in range(0, ROWS, 16):
        alone = mechanism.drawn(values[row : row + 1], tape, np.array([row]))
        assert alone.tobytes() == together[row : row + 1].tobytes()
    assert mechanism.drawn(values[:1], tape).tobytes() == together[:1].tobytes()
    assert not len(mechanism.drawn(values[:0], tape))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_on_a_random_tape(mechanism):
    check_alone_as_among_others(mechanism, Stream.seeded(5, mechanism.fingerprint))


def rejecting(mechanism: Mechanism) -> Iterator[tuple[Mechanism, int]]:
    """The mechanism with short weights, and their length, where it has any."""
    for bits in (6, 8, 10, 12, 16, 24):
        short = mechanism.shortened(1 << bits)
        if short is not None:
            yield short, bits


def test_where_words_are_rejected():
    """Of every mechanism that has short weights: all kinds but a few."""
    found = [next(rejecting(mechanism), None) for mechanism in examples()]
    for short, bits in filter(None, found):
        check_alone_as_among_others(short, ShortWords(Stream.seeded(6), bits))
    left_out = {type(each).__name__ for each, short in zip(examples(), found, strict=True) if short is None}
    assert left_out <= LONG, left_out


def enumerated(mechanism: Mechanism) -> Iterator[tuple[Mechanism, EveryTape]]:
    """The mechanism with short weights, and all tapes of words of their length, where these are few enough."""
    for bits in range(8, 1, -1):
        short = mechanism.shortened(1 << bits)
        with suppress(ParameterError):  # half a word is too short for some
            if short is not None and sum((read := lanes(short, bits)).values()) * bits <= MOST_BITS:
                yield short, EveryTape(bits, read)


def test_on_every_tape():
    """Of every mechanism whose tapes are few enough: some of each kind but a few."""
    found = [pair for mechanism in examples() for pair in islice(enumerated(mechanism), 1)]
    for short, tape in found:
        values = many(short.reading.domain.spread()[-1], tape.rows)
        together = short.drawn(values, tape)
        kept, _ = tape.odds()  # what is rejected gets other words on this kind of tape, in an order of their own
        for row in kept[:: max(1, len(kept) // 12)]:
            alone = short.drawn(values[:1], tape, np.array([row]))
            assert alone.tobytes() == together[row : row + 1].tobytes(), short
    kinds, done = ({type(each).__name__ for each in some} for some in (examples(), [short for short, _ in found]))
    assert kinds - done <= MANY


def test_a_mutant_that_draws_row_zero_for_all(monkeypatch):
    real = core_mechanism.Mechanism.drawn

    def drawn(self, values, tape, rows=None):
        return real(self, values, tape, None if rows is None or len(rows) == 1 else rows)

    monkeypatch.setattr(core_mechanism.Mechanism, "drawn", drawn)
    with pytest.raises(AssertionError):
        check_alone_as_among_others(examples()[0], Stream.seeded(5))


KEYED = [each for each in examples() if each.takes == "sparse"]


@dataclass
class Notes:
    """A tape that notes what is read of it."""

    tape: Stream
    read: list[tuple[int, int, int]]

    bits = 64

    def words(self, lane: int, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        """See `draw.Tape`."""
        self.read.append((lane, width, attempt))
        return self.tape.words(lane, rows, width, attempt)

    def slots(self, label: str, number: int) -> "Notes":
        """See `draw.Tape`."""
        return Notes(self.tape.slots(label, number), self.read)


def words_read(mechanism: Mechanism, values: Any) -> tuple[tuple[int, int, int], ...]:
    notes = Notes(Stream.seeded(8), [])
    mechanism.drawn(values, notes)
    return tuple(notes.read)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_device_reads_as_many_words_whatever_its_value(mechanism):
    values = mechanism.reading.domain.spread()
    step = max(1, len(values) // 8)
    assert len({words_read(mechanism, values[row : row + 1]) for row in range(0, len(values), step)}) == 1


@pytest.mark.parametrize("mechanism", KEYED, ids=label)
def test_a_device_reads_as_many_words_whatever_keys_it_has(mechanism):
    domain: Any = mechanism.reading.domain
    vectors = [{}, {0: 1.0}, {domain.d - 1: -0.25}, dict.fromkeys(range(domain.d), 0.5)]
    assert len({words_read(mechanism, np.array([domain.row(vector)])) for vector in vectors}) == 1


def test_a_mutant_that_draws_only_where_there_are_too_many_keys(monkeypatch):
    real = key_sampling._sampled

    def sampled(s, values, tape, rows):
        most = int((values["key"] >= 0).sum())
        narrow = np.zeros(1, dtype=[("key", np.int32, (max(s, most),)), ("value", float, (max(s, most),))])
        for name in ("key", "value"):
            narrow[name] = values[name][:, : max(s, most)]
        return real(s, narrow, tape, rows)

    monkeypatch.setattr(key_sampling, "_sampled", sampled)
    mechanism = next(each for each in KEYED if type(each).__name__ == "Collision")
    with pytest.raises(AssertionError):
        test_a_device_reads_as_many_words_whatever_keys_it_has(mechanism)
