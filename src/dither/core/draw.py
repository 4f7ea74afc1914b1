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
Rows = slice | NDArray[np.integer]

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


def some_of(rows: Rows, chosen: NDArray[np.integer]) -> Rows:
    """The numbers of the rows at these places."""
    return rows.start + chosen if isinstance(rows, slice) else rows[chosen]


def part_of(rows: Rows, part: slice) -> Rows:
    """The numbers of the rows from one place to another: still a slice, if these are one."""
    return slice(rows.start + part.start, rows.start + part.stop) if isinstance(rows, slice) else rows[part]


def positions(
    law: TwoLevel, tape: Tape, rows: Rows, favoured: Words | None = None, opposed: Words | None = None
) -> Words:
    """For each row one output of the law, numbered with the favoured ones first: below `law.favoured` means inside.

    `favoured` gives each row its own number of favoured outputs, at most `law.favoured`, under the *same* total: a
    total that shrank with it would cost privacy. What the missing ones leave over falls on the row's other
    outputs evenly, so outside the favoured set a second draw is needed. `opposed` outputs, numbered next, have the
    low weight each and no share in that.
    """
    scale = (1 << tape.bits) // law.total
    if scale == 0:
        return _side_then_element(law, tape, rows, favoured)
    high, low = np.uint64(law.high * scale), np.uint64(law.low * scale)
    last = np.uint64(law.total * scale - 1)
    inside = np.uint64(law.favoured) if favoured is None else favoured

    def place(words: Words, pending: Rows) -> tuple[Words, NDArray[np.bool_]]:
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


def _side_then_element(law: TwoLevel, tape: Tape, rows: Rows, favoured: Words | None) -> Words:
    """`positions` for a law too fine for one word."""
    if favoured is not None:
        raise ParameterError("rows with their own number of favoured outputs need a law that fits one word")
    inside = sides(law, tape, rows)
    counts = np.where(inside, np.uint64(law.favoured), np.uint64(law.outputs - law.favoured))
    element = below(counts, tape, rows, lane=ELEMENT)
    return np.where(inside, element, element + np.uint64(law.favoured))


def sides(law: TwoLevel, tape: Tape, rows: Rows) -> NDArray[np.bool_]:
    """For each row, whether the draw falls inside the favoured set. Counts and weights may be of any size."""
    share = gcd(law.favoured, law.outputs - law.favoured)
    inside = law.favoured // share * law.high
    total = law.total // share
    width = -(-(total - 1).bit_length() // tape.bits)
    scale = (1 << width * tape.bits) // total
    edge = _digits(inside * scale, width, tape.bits)
    end = _digits(total * scale - 1, width, tape.bits)

    def place(words: Words, _) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return _less(words, edge), ~_less(end, words)

    return rejection_sampled(place, tape, rows, width, DRAW)


def below(bound: int | Words, tape: Tape, rows: Rows, *, lane: int, width: int = 1) -> NDArray:
    """For each row an exact uniform integer in [0, bound).

    The bound is one integer of any size (beyond the word, the result holds Python integers), or an array with a
    bound for each row, or, with `width` > 1, an array with a bound for each (row, word) or a single row of bounds
    for all rows; then the words of a row are accepted or rejected together.
    """
    if isinstance(bound, np.ndarray):
        bounds = bound.reshape(-1, 1) if bound.ndim == 1 else bound
    else:
        bound = index(bound)
        if bound < 1:
            raise ParameterError("a uniform integer needs a bound of at least 1")
        if bound > 1 << tape.bits:
            return _big_below(bound, tape, rows, lane)
        if bound == 1 << 64:  # does not fit its own words; every word is accepted
            return tape.words(lane, rows)[:, 0]
        bounds = np.full((1, 1), bound, dtype=np.uint64)
    top = np.uint64((1 << tape.bits) - 1)

    def place(words: Words, pending: Rows) -> tuple[Words, NDArray[np.bool_]]:
        limits = bounds if len(bounds) == 1 else bounds[pending]
        tail = (top % limits + np.uint64(1)) % limits  # 2^bits mod bound: the words past the last full round
        return _remainders(words, limits), np.all(words <= top - tail, axis=1)

    drawn = rejection_sampled(place, tape, rows, width, lane)
    return drawn[:, 0] if width == 1 else drawn


def _remainders(words: Words, limits: Words) -> Words:
    """words % limits. One divisor for a whole column is several times as fast as a row of divisors."""
    if len(limits) != 1:
        return words % limits
    rest = np.empty_like(words)
    for column, limit in enumerate(limits[0]):
        quotient = words[:, column] // limit
        quotient *= limit
        np.subtract(words[:, column], quotient, out=rest[:, column])
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

    def place(words: Words, _) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
        numbers = np.zeros(len(words), dtype=object)
        for column in words.T:
            numbers = numbers * (1 << tape.bits) + column.astype(object)
        return numbers % bound, np.asarray(numbers < limit, dtype=bool)

    return rejection_sampled(place, tape, rows, width, lane)


def _digits(number: int, width: int, bits: int) -> Words:
    """A number as words of `bits` bits, most significant first."""
    mask = (1 << bits) - 1
    return np.array([[number >> bits * (width - 1 - i) & mask for i in range(width)]], dtype=np.uint64)


def _less(left: Words, right: Words) -> NDArray[np.bool_]:
    """Row by row, whether the number with digits `left` is below the one with digits `right`."""
    verdict = np.zeros(max(len(left), len(right)), dtype=bool)
    for a, b in zip(left.T[::-1], right.T[::-1], strict=True):
        verdict = (a < b) | ((a == b) & verdict)
    return verdict
