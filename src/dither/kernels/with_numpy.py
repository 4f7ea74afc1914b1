"""The loops in NumPy, in blocks that stay in the cache. The compiled twins must give the same integers."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dither.kernels.hashing import SPREAD, buckets, halves, mixed
from dither.kernels.word_hashing import word_buckets

if TYPE_CHECKING:
    from dither.kernels.finite_field import FiniteField
    from dither.kernels.projective_space import ProjectiveSpace

_BLOCK = 1 << 17
_FACTOR = 32  # a Hadamard matrix is a product of ones of this size


def hash_support(seeds: NDArray[np.uint64], values: NDArray, k: int, g: int) -> NDArray[np.int64]:
    """See `kernels.hash_support`."""
    return _summed(seeds, k, g, lambda hashed, rows: (hashed == values[rows, None]).sum(axis=0, dtype=np.int64))


def hash_sums(seeds: NDArray[np.uint64], values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """See `kernels.hash_sums`."""
    return _summed(seeds, k, 2, lambda hashed, rows: values[rows] @ (2 * hashed.astype(np.int64) - 1))


def bucket_sums(
    states: NDArray[np.uint64], seeds: NDArray[np.uint64], tables: NDArray[np.float64]
) -> NDArray[np.float64]:
    """See `kernels.bucket_sums`."""
    total = np.zeros(len(states))
    for seed, table in zip(seeds, tables, strict=True):
        total += table[word_buckets(seed, states, table.size).astype(np.intp)]
    return total


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


# Projective spaces --------------------------------------------------------------------------------------------------


def hyperplane_points(space: "ProjectiveSpace", hyperplanes: NDArray, positions: NDArray) -> NDArray[np.int64]:
    """See `kernels.hyperplane_points`, and the essay of `kernels.projective_space` for the letters."""
    field, q, starts, powers = space.field, space.q, space.starts, space.powers
    length = np.searchsorted(starts, hyperplanes, side="right") - 1
    x, unit = hyperplanes.astype(np.int64) - starts[length], powers[space.t - 1 - length]
    place = positions.astype(np.int64)
    inside = place < space.on_hyperplane
    steps, low = np.divmod(place - space.on_hyperplane, unit)
    point, digit = np.divmod(steps - 1, q - 1)  # what stands above, and the digit less the one of the hyperplane
    point, digit = np.where(inside, place, point), np.where(inside, 0, np.where(steps > 0, digit + 1, 1))
    digits = np.searchsorted(starts, point, side="right") - 1
    number = np.where(inside | (steps > 0), point - starts[digits] + powers[digits], 0)
    high = np.where(inside, number // unit, number)
    low = np.where(inside, number % unit, low)
    product = np.zeros(len(place), dtype=np.int64)
    for power in powers[: space.t - 1]:
        product = field.plus(product, field.times(x // power % q, high // power % q))
    found = (high * q + field.plus(digit, field.negatives[product])) * unit + low
    digits = np.searchsorted(powers, found, side="right") - 1
    return found - powers[digits] + starts[digits]


def line_sums(field: "FiniteField", blocks: NDArray) -> NDArray:
    """See `kernels.line_sums`."""
    *many, q, _ = blocks.shape
    elements, flat = np.arange(q), blocks.reshape(*many, q * q)
    sums = np.empty((q, *many, q), dtype=blocks.dtype)
    for x in range(q):
        line = elements[:, None] * q + field.plus(elements, field.times(np.full(q, x), elements)[:, None])
        sums[x] = flat[..., line].sum(axis=-2)
    return sums


# Codebooks ----------------------------------------------------------------------------------------------------------
# Sums of whole numbers below 2^53 have no rounding, in whatever order: floats may hold them, and BLAS may add them. Of
# 2^20 rows they are multiples of four below 2^55 (`mechanisms.codebooks`).


def rotated_choice(
    vectors: NDArray[np.float64], seeds: NDArray[np.uint64], positions: NDArray[np.int64], size: int, favoured: int
) -> NDArray[np.int64]:
    """See `kernels.rotated_choice`."""
    found = np.empty(len(positions), dtype=np.int64)
    for rows in _blocks(len(positions), size):
        found[rows] = _chosen(_rotated_products(vectors[rows], seeds[rows], size), positions[rows], favoured)
    return found


def rotated_favours(
    vectors: NDArray[np.float64], seeds: NDArray[np.uint64], codewords: NDArray[np.int64], size: int, favoured: int
) -> NDArray[np.bool_]:
    """See `kernels.rotated_favours`."""
    found = np.empty(len(codewords), dtype=bool)
    for rows in _blocks(len(codewords), size):
        found[rows] = _favours(_rotated_products(vectors[rows], seeds[rows], size), codewords[rows], favoured)
    return found


def _rotated_products(vectors: NDArray[np.float64], seeds: NDArray[np.uint64], size: int) -> NDArray[np.float64]:
    d, bits = vectors.shape[1], _hashed(seeds, size)
    x = np.zeros((len(bits), size))
    np.add(vectors, _nudges(bits[:, :d]), out=x[:, :d])
    for turn in range(3):
        x *= _signs(bits, turn)
        x = _mixed_up(x)
    return x


def rotated_sums(
    seeds: NDArray[np.uint64], codewords: NDArray[np.int64], d: int, size: int, shift: int
) -> NDArray[np.int64]:
    """See `kernels.rotated_sums`."""
    sums = np.zeros((2, d), dtype=np.int64)
    columns = np.arange(size)
    for rows in _blocks(len(seeds), size):
        bits = _hashed(seeds[rows], size)
        x = (1.0 - 2.0 * (np.bitwise_count(codewords[rows, None] & (size - 1) & columns) & 1)) * _signs(bits, 2)
        x = _mixed_up(x) * _signs(bits, 1)
        x = _mixed_up(x)[:, :d] * _signs(bits[:, :d], 0)
        x[codewords[rows] >= size] *= -1.0
        _add_up(sums, x, shift)
    return sums


def _hashed(seeds: NDArray[np.uint64], size: int) -> NDArray[np.uint32]:
    """For each seed a row of hashes: a bit of each for the sign of every turn, and eight for a nudge."""
    low, high = halves(seeds[:, None])
    return np.asarray(mixed(np.arange(size, dtype=np.uint32) * SPREAD, low, high))


def _signs(bits: NDArray[np.uint32], turn: int) -> NDArray[np.float64]:
    return 1.0 - 2.0 * ((bits >> np.uint32(31 - turn)) & np.uint32(1)).astype(np.float64)


def _nudges(bits: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Odd numbers from -255 to 255."""
    return 2.0 * ((bits >> np.uint32(21)) & np.uint32(255)).astype(np.float64) - 255.0


def _mixed_up(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Walsh-Hadamard transform of each row: by a matrix for every five bits of the place."""
    rows, size = x.shape
    inner = size
    while inner > 1:
        factor = min(_FACTOR, inner)
        inner //= factor
        matrix = _hadamard(factor)
        # Many small products instead of a large one, which BLAS would cut up for threads of its own.
        x = x.reshape(rows, -1, factor) @ matrix if inner == 1 else matrix @ x.reshape(-1, factor, inner)
    return x.reshape(rows, size)


def _hadamard(size: int) -> NDArray[np.float64]:
    places = np.arange(size)
    return 1.0 - 2.0 * (np.bitwise_count(places[:, None] & places) & 1).astype(np.float64)


def drawn_choice(
    vectors: NDArray[np.float64],
    seeds: NDArray[np.uint64],
    positions: NDArray[np.int64],
    size: int,
    favoured: int,
    table: NDArray[np.floating],
    length: int,
) -> NDArray[np.int64]:
    """See `kernels.drawn_choice`."""
    found = np.empty(len(positions), dtype=np.int64)
    for rows in _blocks(len(positions), size * vectors.shape[1]):
        x = _drawn_products(vectors[rows], seeds[rows], size, table, length)
        found[rows] = _chosen(x, positions[rows], favoured)
    return found


def drawn_favours(
    vectors: NDArray[np.float64],
    seeds: NDArray[np.uint64],
    codewords: NDArray[np.int64],
    size: int,
    favoured: int,
    table: NDArray[np.floating],
    length: int,
) -> NDArray[np.bool_]:
    """See `kernels.drawn_favours`."""
    found = np.empty(len(codewords), dtype=bool)
    for rows in _blocks(len(codewords), size * vectors.shape[1]):
        x = _drawn_products(vectors[rows], seeds[rows], size, table, length)
        found[rows] = _favours(x, codewords[rows], favoured)
    return found


def _drawn_products(
    vectors: NDArray[np.float64], seeds: NDArray[np.uint64], size: int, table: NDArray[np.floating], length: int
) -> NDArray[np.float64]:
    book = _drawn(seeds[:, None], np.arange(size), vectors.shape[1], table, length)
    return np.matmul(book, vectors[:, :, None])[:, :, 0]


def drawn_sums(
    seeds: NDArray[np.uint64], codewords: NDArray[np.int64], d: int, size: int, table: NDArray[np.floating], length: int
) -> NDArray[np.int64]:
    """See `kernels.drawn_sums`."""
    sums = np.zeros((2, d), dtype=np.int64)
    for rows in _blocks(len(seeds), d):
        x = _drawn(seeds[rows], codewords[rows] & (size - 1), d, table, length)
        x[codewords[rows] >= size] *= -1.0
        _add_up(sums, x, 0)
    return sums


def _drawn(
    seeds: NDArray[np.uint64], rows: NDArray[np.int64], d: int, table: NDArray[np.floating], length: int
) -> NDArray[np.float64]:
    """These rows of codebooks, in a last axis of d entries; only operations whose rounding is the same everywhere."""
    low, high = halves(seeds[..., None])
    items = (rows[..., None] * d + np.arange(d)).astype(np.uint32)
    x = table[mixed(items * SPREAD, low, high) >> np.uint32(16)].astype(np.float64)
    x *= (length / np.sqrt(np.square(x).sum(axis=-1)))[..., None]  # whole numbers: the sum is exact
    return np.rint(x, out=x)


def _marked(x: NDArray[np.float64], favoured: int) -> NDArray[np.bool_]:
    """In each row the entries of largest magnitude, so many; of equal ones the first."""
    magnitude = np.abs(x)
    place = x.shape[1] - favoured
    edge = np.partition(magnitude, place, axis=1)[:, [place]]
    marked = magnitude > edge
    tied = magnitude == edge
    return marked | (tied & (np.cumsum(tied, axis=1) <= favoured - marked.sum(axis=1, keepdims=True)))


def _chosen(x: NDArray[np.float64], positions: NDArray[np.int64], favoured: int) -> NDArray[np.int64]:
    """The codeword at each position, from the products of the vector with the rows of its codebook."""
    size = x.shape[1]
    inside = positions < favoured
    opposite = ~inside & (positions < favoured + size)
    number = np.where(inside, positions, positions - favoured - size) + 1
    nth = np.cumsum(_marked(x, favoured) == inside[:, None], axis=1) == number[:, None]
    row = np.where(opposite, positions - favoured, np.argmax(nth, axis=1))
    return row + size * ((x[np.arange(len(x)), row] < 0) ^ opposite)


def _favours(x: NDArray[np.float64], codewords: NDArray[np.int64], favoured: int) -> NDArray[np.bool_]:
    """Whether a codeword is among the favoured, from the same products."""
    size, here = x.shape[1], np.arange(len(x))
    row = codewords & (size - 1)
    return _marked(x, favoured)[here, row] & ((x[here, row] < 0) == (codewords >= size))


def _blocks(rows: int, width: int) -> list[slice]:
    height = max(1, _BLOCK // width)
    return [slice(at, min(at + height, rows)) for at in range(0, rows, height)]


def _add_up(sums: NDArray[np.int64], x: NDArray[np.float64], shift: int) -> None:
    whole = x.astype(np.int64)
    sums[0] += whole.sum(axis=0)
    sums[1] += (whole * whole >> shift).sum(axis=0)
