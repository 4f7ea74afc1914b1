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
