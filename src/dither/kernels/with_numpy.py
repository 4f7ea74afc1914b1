"""The loops in NumPy, in blocks that stay in the cache. The compiled twins must give the same integers."""

import numpy as np
from numpy.typing import NDArray

from dither.core.hashing import buckets

_BLOCK = 1 << 17


def hash_support(seeds: NDArray[np.uint64], values: NDArray, k: int, g: int) -> NDArray[np.int64]:
    """See `kernels.hash_support`."""
    counts = np.zeros(k, dtype=np.int64)
    width = min(k, 4096)
    height = max(1, _BLOCK // width)
    for first in range(0, k, width):
        categories = np.arange(first, min(first + width, k), dtype=np.uint32)
        for at in range(0, len(seeds), height):
            rows = slice(at, at + height)
            hits = buckets(seeds[rows, None], categories, g) == values[rows, None]
            counts[first : first + width] += hits.sum(axis=0, dtype=np.int64)
    return counts


def hash_sums(seeds: NDArray[np.uint64], values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """See `kernels.hash_sums`."""
    sums = np.zeros(k, dtype=np.int64)
    width = min(k, 4096)
    height = max(1, _BLOCK // width)
    for first in range(0, k, width):
        categories = np.arange(first, min(first + width, k), dtype=np.uint32)
        for at in range(0, len(seeds), height):
            rows = slice(at, at + height)
            signs = 2 * buckets(seeds[rows, None], categories, 2).astype(np.int64) - 1
            sums[first : first + width] += values[rows] @ signs
    return sums


def bit_counts(packed: NDArray[np.uint8], k: int) -> NDArray[np.int64]:
    """See `kernels.bit_counts`."""
    counts = np.zeros(k, dtype=np.int64)
    height = max(1, _BLOCK // packed.shape[1])
    for at in range(0, len(packed), height):
        bits = np.unpackbits(packed[at : at + height], axis=1, count=k, bitorder="little")
        counts += bits.sum(axis=0, dtype=np.int64)
    return counts
