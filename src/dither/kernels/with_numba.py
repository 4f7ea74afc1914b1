"""The loops in Numba. Only `kernels` imports this module, and only when a tally or a large simulation needs it.

Every loop releases the interpreter lock and runs on one thread; `core.parallel` gives each thread its share of the
rows.
"""

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dither.kernels import hashing, word_hashing

if TYPE_CHECKING:
    from dither.kernels.finite_field import FiniteField
    from dither.kernels.projective_space import ProjectiveSpace

_mixed = njit(hashing.mixed, inline="always")
_bucket_of = njit(word_hashing.bucket_of, inline="always")
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


# Not cached on disk: Numba would not notice that `kernels.hashing`, another file, has changed.
@njit(nogil=True)
def _hash_support(low, high, start, width, spread, counts):
    for first in range(0, spread.size, _ITEMS):
        items = spread[first : first + _ITEMS]
        block = counts[first : first + _ITEMS]
        for i in range(low.size):
            a, b, edge, reach = low[i], high[i], start[i], width[i]
            for v in range(items.size):
                block[v] += np.uint32(np.uint32(_mixed(items[v], a, b) - edge) < reach)


def bucket_sums(
    states: NDArray[np.uint64], seeds: NDArray[np.uint64], tables: NDArray[np.float64]
) -> NDArray[np.float64]:
    """See `kernels.bucket_sums`."""
    total = np.zeros(len(states))
    _bucket_sums(states, seeds, np.ascontiguousarray(tables), np.uint64(tables.shape[1]), total)
    return total


@njit(nogil=True)
def _bucket_sums(states, seeds, tables, buckets, total):
    for i in range(seeds.size):
        seed, table = seeds[i], tables[i]
        for v in range(states.size):
            total[v] += table[np.intp(_bucket_of(states[v] ^ seed, buckets))]


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


# Projective spaces --------------------------------------------------------------------------------------------------


def hyperplane_points(space: "ProjectiveSpace", hyperplanes: NDArray, positions: NDArray) -> NDArray[np.int64]:
    """See `kernels.hyperplane_points`. Numbers of points fit 32 bits, which are divided faster than 64."""
    found = np.empty(len(positions), dtype=np.int64)
    powers, starts = space.powers[:-1].astype(np.uint32), space.starts.astype(np.uint32)
    negatives, q = space.field.negatives.astype(np.uint32), np.uint32(space.q)
    sums, _ = space.field.tabled
    _hyperplane_points(hyperplanes, positions, q, powers, starts, space.digit_products, sums, negatives, found)
    return found


@njit(nogil=True, cache=True)
def _hyperplane_points(hyperplanes, positions, q, powers, starts, products, sums, negatives, found):
    t, tabled = powers.size, products.shape[0] > 0
    group = np.uint32(products.shape[0]) if tabled else q
    inside, others = starts[t - 1], np.uint32(q - 1)
    for row in range(found.size):
        hyperplane, place = np.uint32(hyperplanes[row]), np.uint32(positions[row])
        length = t - 1
        while starts[length] > hyperplane:
            length -= 1
        x, r = np.uint32(hyperplane - starts[length]), t - 1 - length
        unit, digit, low = powers[r], np.uint32(0), np.uint32(0)
        if place < inside:
            number = _point(place, t - 2, powers, starts)
            high = number
            if r:
                high = np.uint32(number // unit)
                low = np.uint32(number - high * unit)
        else:
            steps = np.uint32(place - inside)
            if r:
                low = steps
                steps = np.uint32(steps // unit)
                low = np.uint32(low - steps * unit)
            high, digit = np.uint32(0), np.uint32(1)
            if steps:
                above = np.uint32(np.uint32(steps - 1) // others)
                high, digit = _point(above, t - 1, powers, starts), np.uint32(steps - above * others)
        product, rest = np.uint32(0), high
        while x and rest:
            next_x, next_rest = np.uint32(x // group), np.uint32(rest // group)
            x, rest = np.uint32(x - next_x * group), np.uint32(rest - next_rest * group)
            product = np.uint32(sums[product, products[x, rest]] if tabled else (product + x * rest) % q)
            x, rest = next_x, next_rest
        digit = np.uint32(sums[digit, negatives[product]] if tabled else (digit + negatives[product]) % q)
        number = np.uint32((high * q + digit) * unit + low)
        digits = t - 1
        while powers[digits] > number:
            digits -= 1
        found[row] = np.uint32(number - powers[digits] + starts[digits])


@njit(inline="always")
def _point(place, most, powers, starts):
    """The number of the point at this place, of at most so many digits after the first."""
    digits = most
    while starts[digits] > place:
        digits -= 1
    return np.uint32(place - starts[digits] + powers[digits])


def line_sums(field: "FiniteField", blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """See `kernels.line_sums`."""
    *many, q, _ = blocks.shape
    sums = np.empty((q, *many, q), dtype=np.int64)
    _line_sums(np.ascontiguousarray(blocks), *field.tabled, sums)
    return sums


@njit(nogil=True, cache=True)
def _line_sums(blocks, plus, times, sums):
    q, tabled = blocks.shape[-1], plus.shape[0] > 0
    for i in range(blocks.shape[0]):
        for j in range(blocks.shape[1]):
            block = blocks[i, j]
            for x in range(q):
                line = sums[x, i, j]
                line[:] = block[0]
                shift = 0
                for d in range(1, q):
                    row = block[d]
                    if tabled:
                        places = plus[times[x, d]]
                        for s in range(q):
                            line[s] += row[places[s]]
                    else:  # modulo q: the row, turned
                        shift = shift + x - q if shift + x >= q else shift + x
                        for s in range(q - shift):
                            line[s] += row[s + shift]
                        for s in range(q - shift, q):
                            line[s] += row[s + shift - q]


# Codebooks ----------------------------------------------------------------------------------------------------------


def rotated_choice(
    vectors: NDArray[np.float64], seeds: NDArray[np.uint64], positions: NDArray[np.int64], size: int, favoured: int
) -> NDArray[np.int64]:
    """See `kernels.rotated_choice`."""
    low, high = hashing.halves(seeds)
    found = np.empty(len(vectors), dtype=np.int64)
    spread = np.arange(size, dtype=np.uint32) * hashing.SPREAD
    _rotated_choice(np.ascontiguousarray(vectors), low, high, positions, favoured, spread, found)
    return found


@njit(nogil=True)
def _rotated_choice(vectors, low, high, positions, favoured, spread, found):
    size, d = spread.size, vectors.shape[1]
    x, bits, scratch = np.empty(size), np.empty(size, dtype=np.uint32), np.empty(size)
    for row in range(found.size):
        _hash_bits(spread, low[row], high[row], bits)
        for j in range(d):
            x[j] = (vectors[row, j] + _nudge(bits[j])) * _sign(bits[j], 31)
        x[d:] = 0.0
        _mix_up(x)
        for j in range(size):
            x[j] *= _sign(bits[j], 30)
        _mix_up(x)
        for j in range(size):
            x[j] *= _sign(bits[j], 29)
        _mix_up(x)
        found[row] = _choose(x, positions[row], favoured, scratch)


def rotated_sums(
    seeds: NDArray[np.uint64], codewords: NDArray[np.int64], d: int, size: int, shift: int
) -> NDArray[np.int64]:
    """See `kernels.rotated_sums`."""
    low, high = hashing.halves(seeds)
    sums = np.zeros((2, d), dtype=np.int64)
    _rotated_sums(low, high, codewords, np.arange(size, dtype=np.uint32) * hashing.SPREAD, shift, sums)
    return sums


@njit(nogil=True)
def _rotated_sums(low, high, codewords, spread, shift, sums):
    size = spread.size
    x, bits = np.empty(size), np.empty(size, dtype=np.uint32)
    for row in range(codewords.size):
        _hash_bits(spread, low[row], high[row], bits)
        # A row of the Hadamard matrix: its sign is the parity of the bits that two places share.
        x[0] = -1.0 if codewords[row] >= size else 1.0
        width = 1
        while width < size:
            turn = -1.0 if codewords[row] & width else 1.0
            for j in range(width):
                x[width + j] = turn * x[j]
            width *= 2
        for j in range(size):
            x[j] *= _sign(bits[j], 29)
        _mix_up(x)
        for j in range(size):
            x[j] *= _sign(bits[j], 30)
        _mix_up(x)
        for j in range(sums.shape[1]):
            entry = np.int64(x[j] * _sign(bits[j], 31))
            sums[0, j] += entry
            sums[1, j] += entry * entry >> shift


@njit(inline="always")
def _sign(bits, place):
    return 1.0 - 2.0 * np.float64((bits >> np.uint32(place)) & np.uint32(1))


@njit(inline="always")
def _nudge(bits):
    return 2.0 * np.float64((bits >> np.uint32(21)) & np.uint32(255)) - 255.0


@njit(nogil=True)
def _hash_bits(spread, low, high, bits):
    for j in range(spread.size):
        bits[j] = _mixed(spread[j], low, high)


@njit(nogil=True)
def _mix_up(x):
    """The Walsh-Hadamard transform in place: eight neighbours at a time in registers, then wider and wider pairs."""
    size = x.size
    if size < 8:
        half = 1
    else:
        for i in range(0, size, 8):
            a0, a1, a2, a3 = x[i] + x[i + 1], x[i] - x[i + 1], x[i + 2] + x[i + 3], x[i + 2] - x[i + 3]
            a4, a5, a6, a7 = x[i + 4] + x[i + 5], x[i + 4] - x[i + 5], x[i + 6] + x[i + 7], x[i + 6] - x[i + 7]
            b0, b1, b2, b3 = a0 + a2, a1 + a3, a0 - a2, a1 - a3
            b4, b5, b6, b7 = a4 + a6, a5 + a7, a4 - a6, a5 - a7
            x[i], x[i + 1], x[i + 2], x[i + 3] = b0 + b4, b1 + b5, b2 + b6, b3 + b7
            x[i + 4], x[i + 5], x[i + 6], x[i + 7] = b0 - b4, b1 - b5, b2 - b6, b3 - b7
        half = 8
    while 2 * half < size:  # two widths in one pass over memory
        for i in range(0, size, 4 * half):
            for j in range(i, i + half):
                a, b, c, e = x[j], x[j + half], x[j + 2 * half], x[j + 3 * half]
                p, q, r, s = a + b, a - b, c + e, c - e
                x[j], x[j + half], x[j + 2 * half], x[j + 3 * half] = p + r, q + s, p - r, q - s
        half *= 4
    if half < size:
        for j in range(half):
            a, b = x[j], x[j + half]
            x[j], x[j + half] = a + b, a - b


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
    low, high = hashing.halves(seeds)
    found = np.empty(len(vectors), dtype=np.int64)
    _drawn_choice(np.ascontiguousarray(vectors), low, high, positions, size, favoured, table, length, found)
    return found


@njit(nogil=True)
def _drawn_choice(vectors, low, high, positions, size, favoured, table, length, found):
    d = vectors.shape[1]
    x, scratch, entries = np.empty(size), np.empty(size), np.empty(d)
    for row in range(found.size):
        for i in range(size):
            _draw(low[row], high[row], i * d, table, length, entries)
            product = 0.0
            for j in range(d):
                product += entries[j] * vectors[row, j]
            x[i] = product
        found[row] = _choose(x, positions[row], favoured, scratch)


def drawn_sums(
    seeds: NDArray[np.uint64], codewords: NDArray[np.int64], d: int, size: int, table: NDArray[np.floating], length: int
) -> NDArray[np.int64]:
    """See `kernels.drawn_sums`."""
    low, high = hashing.halves(seeds)
    sums = np.zeros((2, d), dtype=np.int64)
    _drawn_sums(low, high, codewords, size, table, length, sums)
    return sums


@njit(nogil=True)
def _drawn_sums(low, high, codewords, size, table, length, sums):
    d = sums.shape[1]
    entries = np.empty(d)
    for row in range(codewords.size):
        turn = 1 if codewords[row] < size else -1
        _draw(low[row], high[row], (codewords[row] & (size - 1)) * d, table, length, entries)
        for j in range(d):
            entry = np.int64(entries[j])
            sums[0, j] += turn * entry
            sums[1, j] += entry * entry


@njit(inline="always")
def _draw(low, high, first, table, length, entries):
    """One row of a codebook, brought to the length; the sum of squares of whole numbers is exact."""
    total = 0.0
    for j in range(entries.size):
        bits = _mixed(np.uint32(np.uint32(first + j) * hashing.SPREAD), low, high)
        entries[j] = np.float64(table[bits >> np.uint32(16)])
        total += entries[j] * entries[j]
    scale = length / np.sqrt(total)
    for j in range(entries.size):
        entries[j] = np.rint(entries[j] * scale)


@njit(nogil=True)
def _choose(x, place, favoured, scratch):
    """The codeword at this position: see `kernels.rotated_choice`."""
    size = x.size
    if favoured <= place < favoured + size:
        row = place - favoured
        return row if x[row] < 0 else row + size
    for i in range(size):
        scratch[i] = abs(x[i])
    edge = _largest(scratch, favoured)
    ties = favoured
    for i in range(size):
        ties -= abs(x[i]) > edge
    inside = place < favoured
    number = place if inside else place - favoured - size
    for i in range(size):
        magnitude = abs(x[i])
        marked = magnitude > edge
        if magnitude == edge and ties > 0:
            ties -= 1
            marked = True
        if marked == inside:
            if number == 0:
                return i + size if x[i] < 0 else i
            number -= 1
    return -1  # cannot happen


@njit(nogil=True)
def _largest(x, number):
    """The entry with this number in descending order; the array is left in another order (Hoare's selection)."""
    first, last, wanted = 0, x.size - 1, number - 1
    while first < last:
        pivot = x[(first + last) >> 1]
        i, j = first, last
        while i <= j:
            while x[i] > pivot:
                i += 1
            while x[j] < pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if wanted <= j:
            last = j
        elif wanted >= i:
            first = i
        else:
            break
    return x[wanted]
