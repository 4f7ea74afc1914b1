"""The inner loops of the server: compiled with Numba where it is installed, in NumPy otherwise, with the same integers.

Only tallies are here. Sampling has a single implementation, in `core.draw`, so that what is certified and
enumerated is what runs; it also keeps a client that only randomizes free of Numba, which is imported when the first
tally needs it. `DITHER_NUMBA=0` in the environment turns the compiled loops off.
"""

import os
from functools import lru_cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray


def hash_support(seeds: NDArray[np.uint64], values: NDArray, k: int, g: int) -> NDArray[np.int64]:
    """For each of k categories, how many reports (seed, value) have a hash that sends it to their value."""
    return _loops().hash_support(seeds, values, k, g)


def hash_sums(seeds: NDArray[np.uint64], values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """For each of k categories, the sum of the values of the reports (seed, value), with the sign of its hash."""
    return _loops().hash_sums(seeds, values, k)


def bit_counts(packed: NDArray[np.uint8], k: int) -> NDArray[np.int64]:
    """For each of the first k bits, how many rows of packed bytes (lowest bit first) have it set."""
    return _loops().bit_counts(packed, k)


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
