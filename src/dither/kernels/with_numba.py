"""The loops in Numba. Only `kernels` imports this module, and only when a tally or a large simulation needs it.

Every loop releases the interpreter lock and runs on one thread; `core.parallel` gives each thread its share of the
rows.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dither.core import hashing

_mixed = njit(hashing.mixed, inline="always")
_ITEMS = 4096  # categories at a time: their counters stay in the first-level cache
_PLANES = 8
_GATHER = np.uint64(0x0102040810204080)


def hash_support(seeds: NDArray[np.uint64], values: NDArray, k: int, g: int) -> NDArray[np.int64]:
    """See `kernels.hash_support`. A hash is in bucket y if it lies in [edges[y], edges[y+1]): no division needed."""
    low, high = hashing.halves(seeds)
    edges = hashing.edges(g)
    start, width = edges[:-1].astype(np.uint32), np.diff(edges).astype(np.uint32)
    index = values.astype(np.intp)
    counts = np.zeros(k, dtype=np.uint32)
    _hash_support(low, high, start[index], width[index], np.arange(k, dtype=np.uint32) * hashing.SPREAD, counts)
    return counts.astype(np.int64)


# Not cached on disk: Numba would not notice that `core.hashing`, another file, has changed.
@njit(nogil=True)
def _hash_support(low, high, start, width, spread, counts):
    for first in range(0, spread.size, _ITEMS):
        items = spread[first : first + _ITEMS]
        block = counts[first : first + _ITEMS]
        for i in range(low.size):
            a, b, edge, reach = low[i], high[i], start[i], width[i]
            for v in range(items.size):
                block[v] += np.uint32(np.uint32(_mixed(items[v], a, b) - edge) < reach)


def hash_sums(seeds: NDArray[np.uint64], values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """See `kernels.hash_sums`. The bucket of two is the top bit of the hash, and -1 where it is clear."""
    low, high = hashing.halves(seeds)
    sums = np.zeros(k, dtype=np.int64)
    _hash_sums(low, high, values.astype(np.int64), np.arange(k, dtype=np.uint32) * hashing.SPREAD, sums)
    return sums


@njit(nogil=True)
def _hash_sums(low, high, values, spread, sums):
    for first in range(0, spread.size, _ITEMS):
        items = spread[first : first + _ITEMS]
        block = sums[first : first + _ITEMS]
        for i in range(low.size):
            a, b, value = low[i], high[i], values[i]
            for v in range(items.size):
                up = np.int64(_mixed(items[v], a, b) >> np.uint32(31))
                block[v] += (up + up - 1) * value


def bit_counts(packed: NDArray[np.uint8], k: int) -> NDArray[np.int64]:
    """See `kernels.bit_counts`. Eight bit planes hold a counter up to 255 for every bit; they are emptied when full."""
    rows, width = packed.shape
    words = -(-width // 8)
    padded = np.zeros((rows, 8 * words), dtype=np.uint8)
    padded[:, :width] = packed
    counts = np.zeros(64 * words, dtype=np.int64)
    _bit_counts(padded.view("<u8").astype(np.uint64, copy=False), counts)
    return counts[:k]


@njit(inline="always")
def _add(a, b, c):
    """Sum and carry of three one-bit numbers, 64 at a time."""
    half = a ^ b
    return half ^ c, (a & b) | (half & c)


@njit(nogil=True, cache=True)
def _bit_counts(words, counts):
    rows, width = words.shape
    planes = np.zeros((_PLANES, width), dtype=np.uint64)
    held = 0
    row = 0
    while row < rows:
        if row + 8 <= rows:
            # Eight rows at once: seven adders bring them down to one carry into the plane of eights.
            for j in range(width):
                one, a = _add(planes[0, j], words[row, j], words[row + 1, j])
                one, b = _add(one, words[row + 2, j], words[row + 3, j])
                two, c = _add(planes[1, j], a, b)
                one, a = _add(one, words[row + 4, j], words[row + 5, j])
                one, b = _add(one, words[row + 6, j], words[row + 7, j])
                two, d = _add(two, a, b)
                four, carry = _add(planes[2, j], c, d)
                planes[0, j], planes[1, j], planes[2, j] = one, two, four
                for plane in range(3, _PLANES):
                    above = planes[plane, j] & carry
                    planes[plane, j] ^= carry
                    carry = above
            row += 8
            held += 8
        else:
            for j in range(width):
                carry = words[row, j]
                for plane in range(_PLANES):
                    above = planes[plane, j] & carry
                    planes[plane, j] ^= carry
                    carry = above
            row += 1
            held += 1
        if held > 255 - 8 or row == rows:
            for plane in range(_PLANES):
                for j in range(width):
                    word = planes[plane, j]
                    planes[plane, j] = 0
                    for bit in range(64):
                        counts[64 * j + bit] += np.int64((word >> np.uint64(bit)) & np.uint64(1)) << plane
            held = 0


def subsets(
    words: NDArray[np.uint64], half: int, values: NDArray, held: NDArray[np.bool_], k: int, size: int
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """See `kernels.subsets`. Floyd's algorithm as it is written, with a byte for each category that is taken."""
    packed = np.empty((len(words), -(-k // 8)), dtype=np.uint8)
    accepted = np.empty(len(words), dtype=np.bool_)
    tails = np.uint64(1 << half) % np.arange(k - size, k, dtype=np.uint64)
    _subsets(np.ascontiguousarray(words), half, values.astype(np.int64), held, tails, k - 1, packed, accepted)
    return packed, accepted


@njit(nogil=True, cache=True)
def _subsets(words, half, values, held, tails, others, packed, accepted):
    size, first = tails.size, others - tails.size
    last, shift = np.uint64((1 << half) - 1), np.uint64(half)
    eights = np.zeros(packed.shape[1], dtype=np.uint64)
    taken = eights.view(np.uint8)
    for row in range(values.size):
        fine, start = True, np.int64(held[row])
        for i in range(size):
            word = words[row, i >> 1]
            scaled = (word >> shift if i & 1 else word) & last
            scaled *= np.uint64(first + i + 1)
            fine &= scaled & last >= tails[i]
            if i < start:
                continue
            number = scaled >> shift
            number += taken[number] * (np.uint64(first + i) - number)  # no branch: it could not be predicted
            taken[number] = 1
        value = values[row]
        taken[others] |= taken[value]
        taken[value] = held[row]
        for byte in range(eights.size):
            # Eight bytes of 0 or 1, the first lowest (as on all machines of Numba), come to lie side by side on top.
            packed[row, byte] = eights[byte] * _GATHER >> np.uint64(56)
            eights[byte] = 0
        accepted[row] = fine
