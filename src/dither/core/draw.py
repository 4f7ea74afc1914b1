"""The one exact sampler: a draw inside or outside the favoured set, from words, by rejection.

A `TwoLevel` law with integer weights is sampled by one uniform integer u below its total W. Numbering the favoured
outputs first, u < w*A falls on favoured output u // A, and any other u on output w + (u - w*A) // B. That is the
whole sampler; a mechanism only has to say which outputs its input favours. `positions` does this. Where there are
too many outputs to number (subsets of a thousand categories, corners of a cube), `sides` draws only the side, by
the ratio of the two side weights, and the mechanism draws a uniform element of that side with `below`.

A tape gives words of `bits` random bits, 64 in production. Weights are first multiplied by the largest
integer that keeps W within the words at hand, and a u at or above W is rejected. Totals too large for one word
are compared word by word, most significant first. The word size is a property of the tape,
so the tests run this very code over every tape of short words and count.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from math import gcd
from operator import index
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import TwoLevel
from dither.errors import ParameterError

Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Rows = slice | NDArray[np.integer]
Placed = tuple[NDArray, Flags]  # what became of the words of some rows, and which rows are settled

# Lanes: what a word of a row is for. One number a purpose keeps draws of one row independent. Binary digit i of a
# row's coins is on lane COINS + i, so that one digit of many rows lies together in memory.
DRAW, TAG, ELEMENT = range(3)
COINS = 1 << 16

_GUIDE_BITS = 12


class Tape(Protocol):
    """Where words come from: `core.randomness.Stream`, or a test that enumerates all of them."""

    @property
    def bits(self) -> int:
        """Random bits in a word."""
        ...

    def words(self, lane: int, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        """`width` words for each row; `out` may be used for them."""
        ...

    def slots(self, label: str, number: int) -> "Tape":
        """An independent tape with `number` rows for each row of this one: row i * number + s is slot s of row i."""
        ...


def count_of(rows: Rows) -> int:
    """How many rows these are."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def some_of(rows: Rows, chosen: Rows) -> Rows:
    """The numbers of the rows at these places."""
    if not isinstance(rows, slice):
        return rows[chosen]
    if not isinstance(chosen, slice):
        return rows.start + chosen
    part = range(rows.start, rows.stop)[chosen]
    return slice(part.start, part.stop)


def slots_of(rows: Rows, number: int) -> Rows:
    """The numbers of the slots of these rows, on a tape with so many for each (`Tape.slots`)."""
    if isinstance(rows, slice):
        return slice(rows.start * number, rows.stop * number)
    return (rows[:, None] * number + np.arange(number)).reshape(-1)


def positions(
    law: TwoLevel, tape: Tape, rows: Rows, favoured: Words | None = None, opposed: Words | None = None
) -> Words:
    """For each row one output of the law, numbered with the favoured ones first: below `law.favoured` means inside.

    `favoured` gives each row its own number of favoured outputs, at most `law.favoured`, under the *same* total: a
    total that shrank with it would cost privacy. What the missing ones leave over falls on the row's other
    outputs evenly, so outside the favoured set a second draw is needed. `opposed` outputs, numbered next, have the
    low weight each and no share in that.
    """
    weights = _one_word_weights(law.high, law.low, law.favoured, law.outputs, tape.bits)
    if weights is None:
        return _side_then_element(law, tape, rows, favoured)
    high, low, last = weights
    inside = np.uint64(law.favoured) if favoured is None else favoured

    def place(words: Words, pending: Rows) -> Placed:
        u = words[:, 0]
        within = inside if favoured is None else favoured[pending]
        edge = within * high
        first = u // high if law.favoured > 1 else np.uint64(0)
        if favoured is not None and opposed is not None:
            against = opposed[pending]
            second = np.minimum((u - edge) // low, against)
            return np.where(u < edge, first, within + second), u <= last
        if favoured is not None:
            return np.where(u < edge, first, within), u <= last
        drawn = u - edge  # in place from here: on many rows, memory is the cost
        drawn //= low
        drawn += within
        np.copyto(drawn, first, where=u < edge)
        return drawn, u <= last

    drawn = rejection_sampled(place, tape, rows, 1, DRAW)
    if favoured is None:
        return drawn
    spoken = favoured if opposed is None else favoured + opposed
    other = below(np.uint64(law.outputs) - spoken, tape, rows, lane=ELEMENT)
    return np.where(drawn < spoken, drawn, spoken + other)


@lru_cache(maxsize=64)
def _one_word_weights(
    high: int, low: int, favoured: int, outputs: int, bits: int
) -> tuple[np.uint64, np.uint64, np.uint64] | None:
    """Of a favoured output and of another, scaled to one word; and the last number below their total, if it fits."""
    total = favoured * high + (outputs - favoured) * low
    scale = (1 << bits) // total
    return (np.uint64(high * scale), np.uint64(low * scale), np.uint64(total * scale - 1)) if scale else None


def _side_then_element(law: TwoLevel, tape: Tape, rows: Rows, favoured: Words | None) -> Words:
    """`positions` for a law too fine for one word."""
    if favoured is not None:
        raise ParameterError("rows with their own number of favoured outputs need a law that fits one word")
    inside = sides(law, tape, rows)
    counts = np.where(inside, np.uint64(law.favoured), np.uint64(law.outputs - law.favoured))
    element = below(counts, tape, rows, lane=ELEMENT)
    return np.where(inside, element, element + np.uint64(law.favoured))


def sides(law: TwoLevel, tape: Tape, rows: Rows) -> Flags:
    """For each row, whether the draw falls inside the favoured set. Counts and weights may be of any size."""
    edge, end = _side_edges(law.high, law.low, law.favoured, law.outputs, tape.bits)

    def place(words: Words, _) -> Placed:
        return _less(words, edge), ~_less(end, words)

    return rejection_sampled(place, tape, rows, edge.shape[1], DRAW)


@lru_cache(maxsize=64)
def _side_edges(high: int, low: int, favoured: int, outputs: int, bits: int) -> tuple[Words, Words]:
    """The first number outside of the favoured set, and the last that is not rejected, as words of one row."""
    share = gcd(favoured, outputs - favoured)
    inside, outside = favoured // share * high, (outputs - favoured) // share * low
    total = inside + outside
    width = -(-(total - 1).bit_length() // bits)
    scale = (1 << width * bits) // total
    return _digits(inside * scale, width, bits), _digits(total * scale - 1, width, bits)


def below(bound: int | Words, tape: Tape, rows: Rows, *, lane: int, width: int = 1) -> NDArray:
    """For each row an exact uniform integer in [0, bound).

    The bound is one integer of any size (beyond the word, the result holds Python integers), or an array with a
    bound for each row, or, with `width` > 1, an array with a bound for each (row, word) or a single row of bounds
    for all rows; then the words of a row are accepted or rejected together.
    """
    if not isinstance(bound, np.ndarray):
        return _below_one_bound(index(bound), tape, rows, lane)
    bounds = bound.reshape(-1, 1) if bound.ndim == 1 else bound
    top, one = np.uint64((1 << tape.bits) - 1), np.uint64(1)

    def place(words: Words, pending: Rows) -> Placed:
        limits = bounds if len(bounds) == 1 else bounds[pending]
        last = top - (top % limits + one) % limits  # 2^bits mod bound: the words past the last full round
        accepted: Flags = words <= last
        return _remainders(words, limits), accepted[:, 0] if width == 1 else np.asarray(accepted.all(axis=1))

    drawn = rejection_sampled(place, tape, rows, width, lane)
    return drawn[:, 0] if width == 1 else drawn


def _below_one_bound(bound: int, tape: Tape, rows: Rows, lane: int) -> NDArray:
    """`below`, with one bound for all rows."""
    if bound < 1:
        raise ParameterError("a uniform integer needs a bound of at least 1")
    if bound > 1 << tape.bits:
        return _big_below(bound, tape, rows, lane)
    if bound == 1 << 64:  # does not fit its own words; every word is accepted
        return tape.words(lane, rows)[:, 0]
    limit, last = np.uint64(bound), np.uint64((1 << tape.bits) // bound * bound - 1)  # before the last full round ends

    def place(words: Words, _) -> Placed:
        u = words[:, 0]
        return _remainder(u, limit), u <= last

    return rejection_sampled(place, tape, rows, 1, lane)


def _remainder(words: Words, limit: np.uint64) -> Words:
    """words % limit. By a division and a product it is several times as fast."""
    quotient = words // limit
    quotient *= limit
    return np.subtract(words, quotient, out=quotient)


def _remainders(words: Words, limits: Words) -> Words:
    """words % limits. One divisor for a whole column is several times as fast as a row of divisors."""
    if len(limits) != 1:
        return words % limits
    rest = np.empty_like(words)
    for column, limit in enumerate(limits[0]):
        rest[:, column] = _remainder(words[:, column], limit)
    return rest


def entries(cumulative: tuple[int, ...], tape: Tape, rows: Rows) -> NDArray[np.int32]:
    """For each row an exact draw from a table of integer weights of any size, given as their running sums.

    The first word u of a row places it in cell u of the unit interval cut into 2^bits; entry i covers the part from
    cumulative[i-1] to cumulative[i] of the total. A cell that no edge cuts belongs to one entry. In a cell that is
    cut, the same row draws an exact uniform integer v below the total, and u + v/total is compared with the edges
    in integers: the entry's probability is then weight/total exactly. In production one row in about 2^54 needs it.

    A small guide over the leading bits of u answers for nearly all rows with a single look-up.
    """
    guide, shift, leading = _guide(cumulative, tape.bits)
    words = tape.words(DRAW, rows)[:, 0]
    drawn = guide[(words >> np.uint64(shift)).view(np.int64)]
    near = np.flatnonzero(drawn < 0)
    if not near.size:
        return drawn
    drawn[near] = np.searchsorted(leading, words[near])
    tied = near[leading[drawn[near]] == words[near]]
    if tied.size:
        within = below(cumulative[-1], tape, some_of(rows, tied), lane=ELEMENT)
        drawn[tied] = exact_entries(cumulative, tape.bits, words[tied].tolist(), within.tolist())
    return drawn


def exact_entries(cumulative: tuple[int, ...], bits: int, cells: list[int], within: list[int]) -> list[int]:
    """How many edges lie at or below u + v/total, for each cell u and place v in it: all in integers."""
    edges, total = [edge << bits for edge in cumulative], cumulative[-1]
    return [bisect_right(edges, u * total + v) for u, v in zip(cells, within, strict=True)]


@lru_cache(maxsize=64)
def _guide(cumulative: tuple[int, ...], bits: int) -> tuple[NDArray[np.int32], int, Words]:
    """What the leading bits of a word tell: the entry, or -1 where an edge is near; and the cell of every edge.

    The last edge is the total, beyond all words; it is put at the last word, where a tie is settled exactly.
    """
    total = cumulative[-1]
    leading = np.array([min((edge << bits) // total, (1 << bits) - 1) for edge in cumulative], dtype=np.uint64)
    shift = max(0, bits - _GUIDE_BITS)
    first = np.arange(1 << bits - shift, dtype=np.uint64) << np.uint64(shift)
    before = np.searchsorted(leading, first, side="left")
    through = np.searchsorted(leading, first + np.uint64((1 << shift) - 1), side="right")
    return np.where(before == through, before, -1).astype(np.int32), shift, leading


def rejection_sampled(place: Callable, tape: Tape, rows: Rows, width: int, lane: int) -> NDArray:
    """Rejection sampling: what `place` makes of each row's words; where it rejects them, of those of later attempts."""
    words = tape.words(lane, rows, width)
    result, accepted = place(words, slice(None))
    attempt = 0
    while not accepted.all():
        attempt += 1
        pending = np.flatnonzero(~accepted)
        again, settled = place(tape.words(lane, some_of(rows, pending), width, attempt), pending)
        result[pending[settled]] = again[settled]
        accepted[pending[settled]] = True
    return result


def _big_below(bound: int, tape: Tape, rows: Rows, lane: int) -> NDArray[np.object_]:
    width = -(-(bound - 1).bit_length() // tape.bits)
    limit = (1 << width * tape.bits) // bound * bound

    def place(words: Words, _) -> Placed:
        numbers = np.zeros(len(words), dtype=object)
        for column in words.T:
            numbers = numbers * (1 << tape.bits) + column.astype(object)
        return numbers % bound, np.asarray(numbers < limit, dtype=bool)

    return rejection_sampled(place, tape, rows, width, lane)


def _digits(number: int, width: int, bits: int) -> Words:
    """A number as words of `bits` bits, most significant first."""
    mask = (1 << bits) - 1
    return np.array([[number >> bits * (width - 1 - i) & mask for i in range(width)]], dtype=np.uint64)


def _less(left: Words, right: Words) -> Flags:
    """Row by row, whether the number with digits `left` is below the one with digits `right`."""
    verdict = left[:, -1] < right[:, -1]
    for a, b in zip(left.T[-2::-1], right.T[-2::-1], strict=True):
        verdict = (a < b) | ((a == b) & verdict)
    return verdict
