"""The loops in NumPy, in blocks that stay in the cache. The compiled twins must give the same integers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dither.core.hashing import buckets

_BLOCK = 1 << 17


def hash_support(seeds: NDArray[np.uint64], values: NDArray, k: int, g: int) -> NDArray[np.int64]:
    """See `kernels.hash_support`."""
    return _summed(seeds, k, g, lambda hashed, rows: (hashed == values[rows, None]).sum(axis=0, dtype=np.int64))


def hash_sums(seeds: NDArray[np.uint64], values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """See `kernels.hash_sums`."""
    return _summed(seeds, k, 2, lambda hashed, rows: values[rows] @ (2 * hashed.astype(np.int64) - 1))


def _summed(
    seeds: NDArray[np.uint64], k: int, g: int, work: Callable[[NDArray[np.uint64], slice], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """For each of k categories the sum of `work` over reports, which is given buckets (reports by categories)."""
    total = np.zeros(k, dtype=np.int64)
    width = min(k, 4096)
    height = max(1, _BLOCK // width)
    for first in range(0, k, width):
        categories = np.arange(first, min(first + width, k), dtype=np.uint32)
        for at in range(0, len(seeds), height):
            rows = slice(at, at + height)
            total[first : first + width] += work(buckets(seeds[rows, None], categories, g), rows)
    return total


def bit_counts(packed: NDArray[np.uint8], k: int) -> NDArray[np.int64]:
    """See `kernels.bit_counts`."""
    counts = np.zeros(k, dtype=np.int64)
    height = max(1, _BLOCK // packed.shape[1])
    for at in range(0, len(packed), height):
        bits = np.unpackbits(packed[at : at + height], axis=1, count=k, bitorder="little")
        counts += bits.sum(axis=0, dtype=np.int64)
    return counts


def subsets(
    words: NDArray[np.uint64], half: int, values: NDArray, held: NDArray[np.bool_], k: int, size: int
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """See `kernels.subsets`."""
    packed = np.empty((len(words), -(-k // 8)), dtype=np.uint8)
    accepted = np.empty(len(words), dtype=bool)
    height = max(1, _BLOCK // k)
    for at in range(0, len(words), height):
        rows = slice(at, at + height)
        draws, accepted[rows] = _uniform(words[rows], half, k - size, size)
        chosen = _floyd(draws, k, held[rows])
        own = np.arange(len(chosen)), values[rows]
        chosen[:, -1] = chosen[own]  # of these two, one is not among the numbers: nothing is lost
        chosen[own] = held[rows]
        packed[rows] = np.packbits(chosen, axis=1, bitorder="little")
    return packed, accepted


def _uniform(words: NDArray[np.uint64], half: int, low: int, size: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Numbers below low, low + 1, ... from the halves of the words, and which rows are accepted."""
    last, shift, bounds = np.uint64((1 << half) - 1), np.uint64(half), np.arange(low, low + size, dtype=np.uint64)
    scaled = np.empty((len(words), size), dtype=np.uint64)
    scaled[:, ::2] = words[:, : -(-size // 2)] & last
    scaled[:, 1::2] = words[:, : size // 2] >> shift & last
    scaled *= bounds
    accepted = np.all(scaled & last >= np.uint64(1 << half) % bounds, axis=1)
    scaled >>= shift
    return scaled.astype(np.intp), accepted


def _floyd(draws: NDArray[np.intp], k: int, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of k - 1 numbers (and one column more) the draws choose; where `held`, the first draw does not count.

    All draws at once. After a draw its number is taken, whichever way. So a number was taken before if an earlier draw
    has it, or if it is what an earlier draw took instead: a chain back through the draws, which is followed until
    nothing changes.
    """
    rows, size = draws.shape
    first, order, row = k - 1 - size, np.arange(size), np.arange(rows)[:, None]
    draws[held, 0] = k - 1  # nobody else's number
    moved = _repeated(draws, k)
    source = draws - first  # the draw that may have taken this number instead of its own
    open_ = np.flatnonzero((source >= 0) & (source < order) & ~moved)
    source += size * row
    flat, source = moved.reshape(-1), source.reshape(-1)[open_]
    while (found := flat[source]).any():
        flat[open_[found]] = True
        open_, source = open_[~found], source[~found]
    chosen = np.zeros((rows, k), dtype=bool)
    numbers = np.where(moved, first + order, draws)
    numbers += k * row
    chosen.reshape(-1)[numbers] = True
    return chosen


def _repeated(draws: NDArray[np.intp], k: int) -> NDArray[np.bool_]:
    """Which draws have the number of an earlier draw of their row: sorted by number and place, they come later."""
    rows, size = draws.shape
    shift = size.bit_length()
    keys = draws.astype(np.min_scalar_type(k << shift))
    keys <<= shift
    keys |= np.arange(size, dtype=keys.dtype)
    keys.sort(axis=1)
    same = np.zeros(keys.shape, dtype=bool)
    same[:, 1:] = keys[:, 1:] >> shift == keys[:, :-1] >> shift
    later = np.flatnonzero(same)
    place = (keys.reshape(-1)[later] & keys.dtype.type((1 << shift) - 1)).astype(np.intp)
    repeated = np.zeros(rows * size, dtype=bool)
    repeated[later - later % size + place] = True
    return repeated.reshape(rows, size)
