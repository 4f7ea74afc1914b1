"""Reports of k bits, packed: bit v is bit v % 8 (lowest first) of byte v // 8; the last byte is padded with zeros.

**Coins.** With a probability q that is a multiple of 2^-b, a coin needs b random bits, and 64 coins are settled at once
by b words: reading q's binary digits from the most significant, a coin whose word bit is below the digit comes up one,
above it zero, and equal stays open (and is zero at the end, as u = q is not below q).
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.core.draw import COINS, Rows, Tape, Words, count_of

MOST_BITS = 1 << 24


def bits_dtype(k: int) -> np.dtype:
    """The dtype of a report that holds k packed bits."""
    return np.dtype([("bits", f"V{-(-k // 8)}")])


def as_bytes(reports: NDArray[Any]) -> NDArray[np.uint8]:
    """The packed bytes of the reports, one row a report; a view where memory allows it."""
    packed = np.ascontiguousarray(reports["bits"])
    return packed.view(np.uint8).reshape(len(packed), packed.dtype.itemsize)


def padding_is_clear(reports: NDArray, k: int) -> NDArray[np.bool_]:
    """Which reports have no bit set beyond the first k."""
    if k % 8 == 0:
        return np.ones(len(reports), dtype=bool)
    return as_bytes(reports)[:, -1] >> np.uint8(k % 8) == 0


def counted_bits(reports: NDArray, k: int) -> NDArray[np.int64]:
    """How many reports have each bit set."""
    return kernels.bit_counts(as_bytes(reports), k)


def packed_bits(bits: NDArray, k: int) -> NDArray:
    """Reports from rows of k zeros and ones."""
    reports = np.empty(len(bits), dtype=bits_dtype(k))
    as_bytes(reports)[:] = np.packbits(np.asarray(bits, dtype=np.uint8), axis=1, bitorder="little")
    return reports


def digits(q: Fraction) -> list[int]:
    """The binary digits of a multiple of some 2^-b below 1, most significant first."""
    bits = q.denominator.bit_length() - 1
    return [q.numerator >> bits - 1 - place & 1 for place in range(bits)]


def coins(q: Fraction, k: int, tape: Tape, rows: Rows, first: int = COINS) -> NDArray[np.uint8]:
    """For each row k independent coins with probability q, packed; they read the lanes from `first` on."""
    groups = -(-k // tape.bits)
    ones = np.zeros((count_of(rows), groups), dtype=np.uint64)
    open_, buffer = ~ones, np.empty_like(ones)
    for lane, digit in enumerate(digits(q), start=first):
        word = tape.words(lane, rows, groups, out=buffer)
        zeros = np.invert(word, out=word)
        if digit:  # a zero bit is below the digit: these coins come up one
            zeros &= open_
            ones |= zeros
            open_ ^= zeros
        else:  # a one bit is above the digit: these coins come up zero
            open_ &= zeros
    return _joined(ones, tape.bits, k)


def _joined(words: Words, bits: int, k: int) -> NDArray[np.uint8]:
    """The first k bits of words that hold `bits` each, as packed bytes with a clear padding."""
    if bits != 64:  # short words, in tests
        loose = words[:, :, None] >> np.arange(bits, dtype=np.uint64) & np.uint64(1)
        return as_bytes(packed_bits(loose.reshape(len(words), -1)[:, :k], k))
    if k % 64:
        words[:, -1] &= np.uint64((1 << k % 64) - 1)
    return words.astype("<u8", copy=False).view(np.uint8)[:, : -(-k // 8)]
