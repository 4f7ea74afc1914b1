"""Inner loops: compiled with Numba where it is installed, in NumPy otherwise, with the same integers.

Most are of the server, which counts reports. Of sampling there is only what has no fast vector form, the insertion
into a set (`subsets`); everything else has a single implementation, in `core.draw`, so that what is certified and
enumerated is what runs. A client that only randomizes stays free of Numba, which is imported when the first
tally, or the first large number of subsets, needs it. `DITHER_NUMBA=0` in the environment turns the compiled loops
off.
"""

import os
import sys
from functools import lru_cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

_MANY = 1 << 15  # draws of subsets: fewer are no reason to import Numba


def hash_support(seeds: NDArray[np.uint64], values: NDArray, k: int, g: int) -> NDArray[np.int64]:
    """For each of k categories, how many reports (seed, value) have a hash that sends it to their value."""
    return _loops().hash_support(seeds, values, k, g)


def hash_sums(seeds: NDArray[np.uint64], values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """For each of k categories, the sum of the values of the reports (seed, value), with the sign of its hash."""
    return _loops().hash_sums(seeds, values, k)


def bit_counts(packed: NDArray[np.uint8], k: int) -> NDArray[np.int64]:
    """For each of the first k bits, how many rows of packed bytes (lowest bit first) have it set."""
    return _loops().bit_counts(packed, k)


def subsets(
    words: NDArray[np.uint64], half: int, values: NDArray, held: NDArray[np.bool_], k: int, size: int
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """For each row a uniform subset of k categories, packed (lowest bit first), and whether its words are accepted.

    It has the given size, and holds the value of its row, or does not, as `held` says. Others are numbered as the
    categories, but the last one has the number of the value. Floyd's algorithm draws them: draw i is uniform below
    k - size + i, and takes k - 1 - size + i instead if its number was taken. A draw is `half` bits of a word, the lower
    half first; where the value is held, one draw fewer is needed, and the first is not used.
    """
    if values.size * size < _MANY and "dither.kernels.with_numba" not in sys.modules:
        from dither.kernels import with_numpy as loops
    else:
        loops = _loops()
    return loops.subsets(words, half, values, held, k, size)


def compiled() -> bool:
    """Whether the compiled loops are in use."""
    return _loops().__name__.endswith("with_numba")


@lru_cache(maxsize=1)
def _loops() -> ModuleType:
    if os.environ.get("DITHER_NUMBA") != "0":
        try:
            from dither.kernels import with_numba as loops

            return loops
        except (ImportError, RuntimeError):  # not installed, or nowhere to keep its compiled code
            pass
    from dither.kernels import with_numpy as loops

    return loops
