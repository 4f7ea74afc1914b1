"""Inner loops: compiled with Numba where it is installed, in NumPy otherwise, with the same integers.

Most are of the server, which counts reports. Of sampling there is only what has no fast vector form: the insertion
into a set (`subsets`), and the search for a codeword (`rotated_choice`, `drawn_choice`), which comes after the draw.
Everything else has a single implementation, in `core.draw`, so that what is certified and enumerated is what runs. A
client that only randomizes stays free of Numba, which is imported when the first tally, or the first large number of
subsets or codewords, needs it. `DITHER_NUMBA=0` in the environment turns the compiled loops off.
"""

import os
import sys
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dither.kernels.finite_field import FiniteField
    from dither.kernels.projective_space import ProjectiveSpace

_MANY = 1 << 15  # draws of subsets, or of points: fewer are no reason to import Numba
_MUCH = 1 << 24  # entries of codebooks, over all calls: likewise


def hash_support(seeds: NDArray[np.uint64], values: NDArray, k: int, g: int) -> NDArray[np.int64]:
    """For each of k categories, how many reports (seed, value) have a hash that sends it to their value."""
    return _loops().hash_support(seeds, values, k, g)


def hash_sums(seeds: NDArray[np.uint64], values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """For each of k categories, the sum of the values of the reports (seed, value), with the sign of its hash."""
    return _loops().hash_sums(seeds, values, k)


def bucket_sums(
    states: NDArray[np.uint64], seeds: NDArray[np.uint64], tables: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For each fingerprint the sum of what tables, one for each seed, hold at its bucket (`kernels.word_hashing`)."""
    return (_loops() if states.size * seeds.size >= _MANY else _loaded()).bucket_sums(states, seeds, tables)


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
    return (_loops() if values.size * size >= _MANY else _loaded()).subsets(words, half, values, held, k, size)


# Projective spaces (`kernels.projective_space`).


def hyperplane_points(space: "ProjectiveSpace", hyperplanes: NDArray, positions: NDArray) -> NDArray[np.int64]:
    """For each row the point at this position, where those of its hyperplane come first and the others follow."""
    return (_loops() if len(positions) >= _MANY else _loaded()).hyperplane_points(space, hyperplanes, positions)


def line_sums(field: "FiniteField", blocks: NDArray) -> NDArray:
    """Sums along the lines of q by q blocks: of the numbers at d and s + x d, over all d, for every x and s.

    Blocks come in two axes, and sums have four: x, the two, and s. Whole numbers have a compiled loop.
    """
    from dither.kernels import with_numpy

    return (_loops() if blocks.dtype == np.int64 else with_numpy).line_sums(field, blocks)


# Codebooks (`mechanisms.codebooks`). Codeword i below `size` is row i of a matrix that the seed defines, and size + i
# is its opposite. A vector favours the `favoured` of them with the largest products, at most one of a row and its
# opposite; of equal products those of earlier rows come first, and zero counts as positive. All numbers are whole.


def rotated_choice(
    vectors: NDArray[np.float64], seeds: NDArray[np.uint64], positions: NDArray[np.uint64], size: int, favoured: int
) -> NDArray[np.int64]:
    """For each row its codeword of a rotated codebook: the one at this position, favoured ones first.

    Next come, row by row, the opposites of what each row has above zero, then the rows that are not favoured. Numbers
    up to 255 are added to a vector's entries, or products of a vector with few different entries would often be equal.
    """
    loops = _loops_for(size * len(vectors))
    return loops.rotated_choice(vectors, seeds, positions.astype(np.int64), size, favoured)


def rotated_favours(
    vectors: NDArray[np.float64], seeds: NDArray[np.uint64], codewords: NDArray[np.integer], size: int, favoured: int
) -> NDArray[np.bool_]:
    """For each row whether its vector favours its codeword. Only audits ask: it has no compiled form."""
    from dither.kernels import with_numpy

    return with_numpy.rotated_favours(vectors, seeds, codewords.astype(np.int64), size, favoured)


def rotated_sums(
    seeds: NDArray[np.uint64], codewords: NDArray[np.integer], d: int, size: int, shift: int
) -> NDArray[np.int64]:
    """Sums over codewords of a rotated codebook: of the entries, and of their squares without the last `shift` bits."""
    return _loops_for(size * len(seeds)).rotated_sums(seeds, codewords.astype(np.int64), d, size, shift)


def drawn_choice(
    vectors: NDArray[np.float64],
    seeds: NDArray[np.uint64],
    positions: NDArray[np.uint64],
    size: int,
    favoured: int,
    table: NDArray[np.floating],
    length: int,
) -> NDArray[np.int64]:
    """As `rotated_choice`, for a codebook whose entries are drawn from a table and rows brought to a length."""
    loops = _loops_for(size * vectors.size)
    return loops.drawn_choice(vectors, seeds, positions.astype(np.int64), size, favoured, table, length)


def drawn_favours(
    vectors: NDArray[np.float64],
    seeds: NDArray[np.uint64],
    codewords: NDArray[np.integer],
    size: int,
    favoured: int,
    table: NDArray[np.floating],
    length: int,
) -> NDArray[np.bool_]:
    """As `rotated_favours`, for a codebook whose entries are drawn."""
    from dither.kernels import with_numpy

    return with_numpy.drawn_favours(vectors, seeds, codewords.astype(np.int64), size, favoured, table, length)


def drawn_sums(
    seeds: NDArray[np.uint64],
    codewords: NDArray[np.integer],
    d: int,
    size: int,
    table: NDArray[np.floating],
    length: int,
) -> NDArray[np.int64]:
    """As `rotated_sums`, for a codebook whose entries are drawn; no bits are left out."""
    return _loops_for(d * len(seeds)).drawn_sums(seeds, codewords.astype(np.int64), d, size, table, length)


def compiled() -> bool:
    """Whether the compiled loops are in use."""
    return _loops().__name__.endswith("with_numba")


_worked = 0  # entries of codebooks, so far


def _loops_for(work: int) -> ModuleType:
    """The compiled loops, if they are loaded or once there was so much work that loading them would have paid."""
    global _worked
    _worked += work
    return _loops() if _worked >= _MUCH else _loaded()


def _loaded() -> ModuleType:
    """The compiled loops if they are loaded already."""
    if "dither.kernels.with_numba" in sys.modules:
        return _loops()
    from dither.kernels import with_numpy

    return with_numpy


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
