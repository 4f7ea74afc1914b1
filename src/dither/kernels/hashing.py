"""The public hash family: 2^64 functions from categories to g buckets.

A local-hash report carries its own hash function, so the server evaluates a hash for every report and every
category: it must be fast, and it must behave like independent uniform values. Two-wise independent families are not
enough (with several hashed items the false-collision rate of 003 comes out wrong, docs/papers.md), so this is a
mixing hash: the category, spread by an odd multiplier, is added to one half of the 64-bit seed and goes through
three rounds of xor-shift and multiply on 32-bit words, with the other half of the seed injected after the first.
The 32-bit result is cut into g buckets of equal size (to within one part in 2^32/g). Thirty-two-bit steps, because
sixteen of them fit into one vector instruction.

The hash carries no privacy: it is public, and certificates hold for the worst function of the family. What it
carries is the estimator's q = 1/g; `tests/kernels/test_hashing.py` tests uniformity and independence of up to four
items.

`mixed` is written so that NumPy runs it on arrays and Numba compiles the same lines.
"""

import numpy as np
from numpy.typing import NDArray

SPREAD = np.uint32(0x9E3779B9)  # odd, so distinct categories stay distinct
_FIRST, _SECOND, _THIRD = np.uint32(0xED5AD4BB), np.uint32(0xAC4C1B51), np.uint32(0x31848BAB)
_17, _11, _15, _14 = np.uint32(17), np.uint32(11), np.uint32(15), np.uint32(14)

MOST_CATEGORIES = 1 << 32


def mixed(spread, low, high):
    """32 mixed bits of a spread category under the two halves of a seed (all `uint32`)."""
    x = np.uint32(spread + low)
    x = x ^ (x >> _17)
    x = np.uint32(x * _FIRST)
    x = x ^ (x >> _11) ^ high
    x = np.uint32(x * _SECOND)
    x = x ^ (x >> _15)
    x = np.uint32(x * _THIRD)
    return x ^ (x >> _14)


def buckets(seeds: NDArray[np.uint64], categories: NDArray, g: int) -> NDArray[np.uint64]:
    """The bucket of each category under the hash function with that seed; the two arrays broadcast."""
    low, high = halves(seeds)
    scrambled = mixed(categories.astype(np.uint32) * SPREAD, low, high)
    return np.right_shift(scrambled.astype(np.uint64) * np.uint64(g), np.uint64(32))


def halves(seeds: NDArray[np.uint64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Low and high 32 bits of the seeds."""
    return seeds.astype(np.uint32), (seeds >> np.uint64(32)).astype(np.uint32)


def edges(g: int) -> NDArray[np.uint64]:
    """Bucket y holds the mixed values from edges[y] up to, not including, edges[y + 1]."""
    steps = np.arange(g + 1, dtype=np.uint64) << np.uint64(32)
    return (steps + np.uint64(g - 1)) // np.uint64(g)


def public_seeds(count: int) -> NDArray[np.uint64]:
    """The seeds of numbered hash functions (cohorts), the same for everybody.

    >>> len(set(public_seeds(1000).tolist()))
    1000
    """
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
