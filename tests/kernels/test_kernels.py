"""The compiled loops and the NumPy loops give the same integers, and a plain count agrees with both.

Shapes are chosen where loops go wrong: no rows, one row, around eight rows (the adder takes eight at once), around 255
(where eight bit planes are full), a number of bits that is not a multiple of eight or of 64, and more categories than
fit into a block. What runs without Numba runs in processes of its own, because the choice is made once.
"""

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from math import comb
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dither
from dither import kernels
from dither.core.randomness import Stream
from dither.kernels import hashing, with_numpy
from dither.kernels.hashing import buckets, mixed

with_numba = pytest.importorskip("dither.kernels.with_numba")

both = pytest.mark.parametrize("loops", [with_numba, with_numpy], ids=["numba", "numpy"])
ROWS = [0, 1, 7, 8, 9, 15, 16, 17, 247, 248, 249, 255, 256, 257, 511, 1000]
WIDTHS = [1, 2, 7, 8, 9, 63, 64, 65, 100, 127, 128, 129, 1000]


# Bits ---------------------------------------------------------------------------------------------------------------


def random_bits(rows: int, k: int) -> NDArray[np.uint8]:
    """Packed rows; the bits beyond k are random too, and must not be counted."""
    width = -(-k // 8)
    return Stream.seeded(1, "bits").words(0, slice(0, rows), -(-width // 8)).view(np.uint8)[:, :width]


def plain_bit_counts(packed: NDArray[np.uint8], k: int) -> list[int]:
    return [int((packed[:, v // 8] >> np.uint8(v % 8) & np.uint8(1)).sum(dtype=np.int64)) for v in range(k)]


def counts_bits(function: Callable[[NDArray[np.uint8], int], NDArray[np.int64]]) -> bool:
    """Whether the function counts right on random, empty and full rows of every shape."""
    for rows in ROWS:
        for k in WIDTHS:
            packed = random_bits(rows, k)
            full = np.full_like(packed, 255)
            found = function(packed, k)
            if found.shape != (k,) or found.dtype != np.int64 or found.tolist() != plain_bit_counts(packed, k):
                return False
            if function(full, k).tolist() != [rows] * k or function(full ^ full, k).any():
                return False
    return True


@both
def test_bits_are_counted(loops: ModuleType):
    assert counts_bits(loops.bit_counts)


@pytest.mark.parametrize(
    "mutant",
    [
        lambda packed, k: with_numpy.bit_counts(packed, k) % 256,  # a bit plane too few
        lambda packed, k: with_numpy.bit_counts(packed[: len(packed) // 8 * 8], k),  # the last rows forgotten
        lambda packed, k: with_numpy.bit_counts(packed, 8 * packed.shape[1]),  # the padding counted
        lambda packed, k: with_numpy.bit_counts(packed, k).astype(np.int32),
        lambda packed, k: np.unpackbits(packed, axis=1, count=k).sum(axis=0, dtype=np.int64),  # highest bit first
    ],
)
def test_bits_counted_wrong_are_noticed(mutant):
    assert not counts_bits(mutant)


@both
def test_bits_in_any_memory(loops: ModuleType):
    packed = random_bits(300, 100)
    expected = plain_bit_counts(packed, 100)
    spaced = np.zeros((600, 26), dtype=np.uint8)
    spaced[::2, ::2] = packed
    fixed = packed.copy()
    fixed.flags.writeable = False
    for memory in (spaced[::2, ::2], np.asfortranarray(packed), fixed, packed[::-1]):
        assert loops.bit_counts(memory, 100).tolist() == expected
    assert not fixed.flags.writeable


@both
def test_bits_of_many_rows(loops: ModuleType):
    # Past one block of the NumPy loop, and many fillings of the bit planes.
    packed = random_bits(20_001, 70)
    assert loops.bit_counts(packed, 70).tolist() == plain_bit_counts(packed, 70)


# Hashes -------------------------------------------------------------------------------------------------------------


def hashed(rows: int, g: int, dtype: str = "u2") -> tuple[NDArray[np.uint64], NDArray]:
    words = Stream.seeded(2, "reports").words(0, slice(0, rows), 2)
    return words[:, 0], (words[:, 1] % np.uint64(g)).astype(dtype)


def plain_support(seeds: NDArray[np.uint64], values: NDArray, k: int, g: int) -> list[int]:
    return [int((buckets(seeds, np.full(1, v), g) == values).sum()) for v in range(k)]


SHAPES = [
    (rows, k, g) for rows in (0, 1, 7, 8, 9, 255, 256, 257, 1000) for k in (1, 2, 7, 8, 9, 63, 65) for g in (2, 4)
]
SHAPES += [(257, 33, g) for g in range(2, 301)]
SHAPES += [(50, 10, g) for g in (1023, 4099, 65535, 65536)]


def counts_support(function: Callable[..., NDArray[np.int64]]) -> bool:
    """Whether the function counts the supporting reports right for every shape."""
    for rows, k, g in SHAPES:
        seeds, values = hashed(rows, g)
        found = function(seeds, values, k, g)
        if found.shape != (k,) or found.dtype != np.int64 or found.tolist() != plain_support(seeds, values, k, g):
            return False
    return True


@both
def test_support_is_counted(loops: ModuleType):
    assert counts_support(loops.hash_support)


@pytest.mark.parametrize(
    "mutant",
    [
        lambda seeds, values, k, g: with_numpy.hash_support(seeds, values, k, g + 1),
        lambda seeds, values, k, g: with_numpy.hash_support(seeds[:-1], values[:-1], k, g),
        lambda seeds, values, k, g: np.roll(with_numpy.hash_support(seeds, values, k, g), 1),
        lambda seeds, values, k, g: with_numpy.hash_support(seeds & np.uint64((1 << 32) - 1), values, k, g),
    ],
)
def test_support_counted_wrong_is_noticed(mutant):
    assert not counts_support(mutant)


@pytest.mark.parametrize(("rows", "k", "g"), [(9, 4095, 3), (9, 4096, 3), (9, 4097, 4), (40, 9001, 5), (300, 8192, 2)])
def test_more_categories_than_a_block(rows, k, g):
    seeds, values = hashed(rows, g)
    found = with_numba.hash_support(seeds, values, k, g)
    assert found.tolist() == with_numpy.hash_support(seeds, values, k, g).tolist()
    sample = [0, 1, 4094, 4095, 4096, 8191, 8192, k - 1]
    assert [found[v] for v in sample if v < k] == [
        int((buckets(seeds, np.full(1, v), g) == values).sum()) for v in sample if v < k
    ]


@both
@pytest.mark.parametrize("dtype", ["u1", "u2", "u8", "i8", ">u4"])
def test_reports_in_any_memory(loops: ModuleType, dtype):
    seeds, values = hashed(101, 5)
    expected = plain_support(seeds, values, 20, 5)
    reports = np.zeros(202, dtype=[("seed", np.uint64), ("value", dtype)])  # unaligned, with gaps, read-only
    reports["seed"][::2], reports["value"][::2] = seeds, values
    reports.flags.writeable = False
    assert loops.hash_support(reports["seed"][::2], reports["value"][::2], 20, 5).tolist() == expected


# Sums ---------------------------------------------------------------------------------------------------------------


def signed(rows: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Reports whose values have both signs, and sizes that only 64 bits can add up."""
    words = Stream.seeded(3, "sums").words(0, slice(0, rows), 2)
    return words[:, 0], (words[:, 1] >> np.uint64(20)).astype(np.int64) - (1 << 43)


def plain_sums(seeds: NDArray[np.uint64], values: NDArray, k: int) -> list[int]:
    """In Python's integers, one report and one category at a time; bucket 1 of 2 is the sign +."""
    found = [0] * k
    for seed, value in zip(seeds, values.tolist(), strict=True):
        for v, bucket in enumerate(buckets(seed[None], np.arange(k), 2).tolist()):
            found[v] += value if bucket else -value
    return found


def adds_up(function: Callable[..., NDArray[np.int64]]) -> bool:
    """Whether the function adds up right for every shape."""
    for rows in (0, 1, 7, 8, 9, 255, 257):
        for k in (1, 2, 7, 8, 9, 65):
            seeds, values = signed(rows)
            for each in (values, np.ones_like(values), values * 0):
                found = function(seeds, each, k)
                if (found.shape, found.dtype) != ((k,), np.int64) or found.tolist() != plain_sums(seeds, each, k):
                    return False
    return True


@both
def test_sums_are_added_up(loops: ModuleType):
    assert adds_up(loops.hash_sums)


@pytest.mark.parametrize(
    "mutant",
    [
        lambda seeds, values, k: -with_numpy.hash_sums(seeds, values, k),  # the other bucket is +
        lambda seeds, values, k: with_numpy.hash_sums(seeds, np.abs(values), k),
        lambda seeds, values, k: with_numpy.hash_sums(seeds, values.astype(np.int32).astype(np.int64), k),
        lambda seeds, values, k: with_numpy.hash_sums(seeds[:-1], values[:-1], k),
        lambda seeds, values, k: np.roll(with_numpy.hash_sums(seeds, values, k), 1),
        lambda seeds, values, k: with_numpy.hash_sums(seeds >> np.uint64(32), values, k),
        lambda seeds, values, k: (with_numpy.hash_sums(seeds, values, k) + values.sum()) // 2,  # 0 for -1
    ],
)
def test_sums_added_up_wrong_are_noticed(mutant):
    assert not adds_up(mutant)


@pytest.mark.parametrize(("rows", "k"), [(9, 4095), (9, 4096), (9, 4097), (40, 9001), (300, 8192)])
def test_sums_of_more_categories_than_a_block(rows, k):
    seeds, values = signed(rows)
    found = with_numba.hash_sums(seeds, values, k)
    assert found.tolist() == with_numpy.hash_sums(seeds, values, k).tolist()
    for v in (0, 1, 4094, 4095, 4096, 8191, 8192, k - 1):
        if v < k:
            signs = 2 * buckets(seeds, np.full(1, v), 2).astype(np.int64) - 1
            assert found[v] == (signs * values).sum()


@both
@pytest.mark.parametrize("dtype", ["i1", "i2", "i8", ">i4"])
def test_values_in_any_memory(loops: ModuleType, dtype):
    seeds, values = signed(101)
    values = (values % 255 - 127).astype(dtype)
    reports = np.zeros(202, dtype=[("seed", np.uint64), ("value", dtype)])  # unaligned, with gaps, read-only
    reports["seed"][::2], reports["value"][::2] = seeds, values
    reports.flags.writeable = False
    assert loops.hash_sums(reports["seed"][::2], reports["value"][::2], 20).tolist() == plain_sums(seeds, values, 20)


# Subsets ------------------------------------------------------------------------------------------------------------


def plain_subsets(words, half, values, held, k, size) -> tuple[list[set[int]], list[bool]]:
    """Floyd's algorithm in Python's integers and sets, row by row; the last category is numbered as the value."""
    found, accepted = [], []
    for own, value, holds in zip(words.tolist(), values.tolist(), held.tolist(), strict=True):
        halves = [word >> side & (1 << half) - 1 for word in own for side in (0, half)][:size]
        fine, taken = True, set()
        for i, x in enumerate(halves):
            j = k - 1 - size + i
            t, rest = divmod(x * (j + 1), 1 << half)
            fine &= rest >= (1 << half) % (j + 1)
            if i or not holds:
                taken.add(j if t in taken else t)
        found.append({k - 1 if t == value else t for t in taken} | ({value} if holds else set()))
        accepted.append(fine)
    return found, accepted


def members(packed: NDArray[np.uint8]) -> list[set[int]]:
    """Bit v is bit v % 8 of byte v // 8; the padding is looked at as well."""
    return [
        {8 * at + bit for at, byte in enumerate(row) for bit in range(8) if byte >> bit & 1} for row in packed.tolist()
    ]


def same_subsets(function: Callable, *arguments) -> bool:
    packed, accepted = function(*arguments)
    rows, k = len(arguments[0]), arguments[4]
    shaped = (packed.shape, packed.dtype, accepted.shape, accepted.dtype) == (
        (rows, -(-k // 8)),
        np.uint8,
        (rows,),
        bool,
    )
    return shaped and (members(packed), accepted.tolist()) == plain_subsets(*arguments)


def subset_arguments(rows: int, half: int, k: int, size: int, seed: int = 1) -> tuple:
    words = Stream.seeded(seed, "subsets").words(0, slice(0, rows), -(-size // 2) + 1)
    words, more = words[:, 1:] & np.uint64((1 << 2 * half) - 1), words[:, 0]
    return words, half, (more % np.uint64(k)).astype(np.int64), more >> np.uint64(63) == 1, k, size


SUBSET_SHAPES = [
    (rows, 32, k, size) for rows in (0, 1, 40) for k in (2, 3, 8, 9, 64, 65) for size in {1, k // 2, k - 1}
]
SUBSET_SHAPES += [(300, 4, 16, 5), (300, 4, 17, 16), (300, 5, 20, 3), (7, 32, 1000, 269), (2, 32, 1 << 16, 1 << 15)]
SUBSET_SHAPES += [(4000, 32, 100, 27), (3000, 8, 129, 64)]  # past one block of the NumPy loop


@both
def test_subsets_are_those_of_floyd(loops: ModuleType):
    assert all(same_subsets(loops.subsets, *subset_arguments(*shape)) for shape in SUBSET_SHAPES)


@given(st.data())
def test_compiled_subsets_are_the_same(data):
    half = data.draw(st.integers(1, 32), "half")
    k = data.draw(st.integers(2, min(1 + (1 << half), 300)), "k")
    size = data.draw(st.integers(1, k - 1), "size")
    arguments = subset_arguments(data.draw(st.integers(0, 20)), half, k, size, data.draw(st.integers(0, 1000), "seed"))
    assert same_subsets(with_numba.subsets, *arguments)
    assert same_subsets(with_numpy.subsets, *arguments)


# (half, k, size) for which all words can be run through. With bounds of 2^half nothing is rejected.
ENUMERATED = [
    (2, 2, 1),
    (1, 3, 2),
    (2, 3, 1),
    (2, 4, 3),
    (2, 5, 3),
    (2, 5, 4),
    (3, 4, 2),
    (3, 6, 2),
    (3, 9, 2),
    (4, 9, 1),
]
ENUMERATED += [(4, 10, 2), (3, 5, 3), (3, 8, 4)]


def uniform_subsets(function: Callable) -> bool:
    """Over all accepted words every subset that holds the value (or every other) comes out equally often."""
    for half, k, size in ENUMERATED:
        width = -(-size // 2)
        tapes = np.arange(1 << 2 * half * width, dtype=np.uint64)
        words = tapes[:, None] >> np.arange(width, dtype=np.uint64) * np.uint64(2 * half) & np.uint64(
            (1 << 2 * half) - 1
        )
        for value in (0, k // 2, k - 1):
            for holds in (False, True):
                same = np.full(len(words), value), np.full(len(words), holds)
                packed, accepted = function(words, half, *same, k, size)
                counts: dict[frozenset[int], int] = {}
                for row, count in zip(*np.unique(packed[accepted], axis=0, return_counts=True), strict=True):
                    counts[frozenset(*members(row[None]))] = int(count)
                right = {frozenset(s) for s in combinations(range(k), size) if (value in s) == holds}
                assert len(right) == comb(k - 1, size - holds)
                if set(counts) != right or len(set(counts.values())) != 1:
                    return False
    return True


@both
def test_every_subset_is_equally_likely(loops: ModuleType):
    assert uniform_subsets(loops.subsets)


def mutated(loops: ModuleType, right: str = "", wrong: str = "") -> Callable:
    """`subsets` of a module whose source was changed; what would be compiled runs in Python."""
    source = inspect.getsource(loops)
    assert source.count(right) == 1 or not right
    source = source.replace(right, wrong) if right else source
    source = source.replace("from numba import njit", "njit = lambda *given, **options: given[0] if given else njit")
    namespace: dict = {"__name__": "mutant"}
    exec(compile(source, "mutant", "exec"), namespace)  # noqa: S102

    def subsets(*arguments):
        with np.errstate(over="ignore"):  # scalars warn where arrays and compiled code do not
            return namespace["subsets"](*arguments)

    return subsets


def noticed(function: Callable) -> bool:
    """Whether a mutant is not uniform, or does not even run."""
    try:
        return not uniform_subsets(function)
    except (ArithmeticError, IndexError, RuntimeWarning):
        return True


@both
def test_source_that_was_not_changed_passes(loops: ModuleType):
    assert uniform_subsets(mutated(loops))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("np.uint64(first + i + 1)", "np.uint64(first + i)"),  # t below j
        ("others - tails.size", "others - tails.size - 1"),  # j one lower
        ("(np.uint64(first + i) - number)", "np.uint64(0)"),  # taken twice, and no other instead
        ("np.uint64(first + i) - number", "np.uint64(first) - number"),
        ("scaled & last >= tails[i]", "True"),  # biased: no rejection
        ("scaled & last >= tails[i]", "scaled & last > tails[i]"),  # one too many
        ("fine &= ", "fine = "),  # the last draw decides
        ("np.arange(k - size, k, ", "np.arange(k - size + 1, k + 1, "),  # tails of other bounds
        ("word >> shift if i & 1 else word", "word"),  # one half for two draws
        ("if i < start", "if i < 0"),  # one too many where the value is held
        ("np.int64(held[row])", "1"),
        ("taken[others] |= taken[value]", "pass"),  # the last category never comes up
        ("taken[value] = held[row]", "taken[value] |= held[row]"),
        ("eights[byte] = 0", "pass"),  # the next row begins with what is left
        ("0x0102040810204080", "0x8040201008040201"),  # highest bit first
    ],
)
def test_compiled_subsets_drawn_wrong_are_noticed(right, wrong):
    assert noticed(mutated(with_numba, right, wrong))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("half, k - size, size)", "half, k - size - 1, size)"),  # t below j
        ("first, order, row = k - 1 - size,", "first, order, row = k - 2 - size,"),  # j one lower
        ("np.where(moved, first + order, draws)", "draws.copy()"),  # taken twice, and no other instead
        ("np.where(moved, first + order, draws)", "np.where(moved, first, draws)"),
        ("scaled & last >= ", "scaled >= "),  # biased: no rejection
        ("scaled & last >= ", "scaled & last > "),
        ("np.all(scaled", "np.any(scaled"),
        ("words[:, : size // 2] >> shift & last", "words[:, : size // 2] & last"),  # one half for two draws
        ("draws[held, 0] = k - 1", "pass"),  # one too many where the value is held
        ("(source >= 0) & (source < order) & ~moved", "(source > size)"),  # what was taken instead is forgotten
        ("source < order", "source <= order - 2"),
        ("        flat[open_[found]] = True\n", "        flat[open_[found]] = True\n        break\n"),  # no chains
        ("    moved = _repeated(draws, k)", "    moved = draws > k"),
        ("chosen[:, -1] = chosen[own]", "chosen[:, -1] = False"),  # the last category never comes up
        ("chosen[own] = held[rows]", "chosen[own] |= held[rows]"),
        ('packed[rows] = np.packbits(chosen, axis=1, bitorder="little")', "packed[rows] = np.packbits(chosen, axis=1)"),
    ],
)
def test_subsets_drawn_wrong_are_noticed(right, wrong):
    assert noticed(mutated(with_numpy, right, wrong))


@pytest.mark.wide
@both
@pytest.mark.parametrize("dtype", ["u1", "i4", "u8", ">i8"])
def test_subsets_from_any_memory(loops: ModuleType, dtype):
    words, half, values, held, k, size = subset_arguments(50, 32, 30, 9)
    expected = members(loops.subsets(words, half, values, held, k, size)[0])
    spaced = np.repeat(words, 2, axis=0)[::2]
    spaced.flags.writeable = False
    values = np.repeat(values.astype(dtype), 2)[::2]
    assert members(loops.subsets(spaced, half, values, np.repeat(held, 2)[::2], k, size)[0]) == expected


# Which loops run ----------------------------------------------------------------------------------------------------

TALLY = """
import hashlib, sys
import numpy as np
import dither
from dither import kernels
{before}
values = np.arange(5000) % 37
tallies = b""
for mechanism in (dither.LocalHash(37, 1.0), dither.Unary(37, 1.0), dither.SubsetSelection(37, 1.0)):
    reports = mechanism.randomize(values, seed=3)
    tallies += np.asarray(reports).tobytes() + mechanism.tally(reports).to_bytes()
print(kernels.compiled(), hashlib.sha256(tallies).hexdigest(), "numba" in sys.modules)
"""


def tallied(before: str = "", **environment: str) -> list[str]:
    environment = {name: text for name, text in os.environ.items() if name != "DITHER_NUMBA"} | environment
    script = [sys.executable, "-c", TALLY.format(before=before)]
    return subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture(scope="module")
def with_compiled_loops() -> list[str]:
    return tallied()


def test_numba_is_used_where_it_is_installed(with_compiled_loops):
    assert with_compiled_loops[0] == "True"


@pytest.mark.wide
def test_numba_can_be_turned_off(with_compiled_loops):
    assert tallied(DITHER_NUMBA="0") == ["False", with_compiled_loops[1], "False"]
    assert tallied(DITHER_NUMBA="1") == with_compiled_loops


def test_without_numba_the_tally_is_the_same(with_compiled_loops):
    compiled, digest, _ = tallied("sys.modules['numba'] = None")
    assert (compiled, digest) == ("False", with_compiled_loops[1])


LARGE = """
import sys
import numpy as np
import dither
mechanism, values = dither.SubsetSelection(100, 1.0, size={size}), np.arange(30_000) % 100
few = np.asarray(mechanism.randomize(values[:100], seed=3))
before = "numba" in sys.modules
many = np.asarray(mechanism.randomize(values, seed=3))
print(before, "numba" in sys.modules, (few == many[:100]).all(), mechanism.valid(many).all())
"""


@pytest.mark.wide
@pytest.mark.parametrize("size", [27, 73])
def test_many_subsets_are_compiled_and_few_are_not(size):
    script = [sys.executable, "-c", LARGE.format(size=size)]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "True"]


UNUSABLE = """
def njit(*arguments, **options):
    raise RuntimeError("cannot cache function: no locator available")
sys.modules["numba"] = type(sys)("numba")
sys.modules["numba"].njit = njit
"""


def test_a_numba_that_cannot_be_used_does_not_stop_a_tally(with_compiled_loops):
    # In a container whose packages are read-only and whose user has no home, numba finds no place for its cache.
    compiled, digest, _ = tallied(UNUSABLE)
    assert (compiled, digest) == ("False", with_compiled_loops[1])


STALE = """
import numpy as np
from dither.kernels import with_numba, with_numpy
seeds, values = np.arange(1000, dtype=np.uint64) * np.uint64(0x123456789ABCDEF), np.arange(1000) % 4
print(np.array_equal(with_numba.hash_support(seeds, values, 10, 4), with_numpy.hash_support(seeds, values, 10, 4)))
"""


@pytest.mark.wide
def test_a_changed_hash_is_compiled_again(tmp_path):
    copy = tmp_path / "dither"
    shutil.copytree(Path(dither.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    def agree() -> str:
        script = [sys.executable, "-c", STALE]
        return subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    first = agree()
    hashing = copy / "kernels" / "hashing.py"
    source = hashing.read_text()
    hashing.write_text(source.replace("0xED5AD4BB", "0xED5AD4BD"))
    assert source != hashing.read_text()
    assert (first, agree()) == ("True", "True")


def test_the_room_hands_on_what_it_is_given():
    seeds, values = hashed(20, 4)
    assert kernels.hash_support(seeds, values, 6, 4).tolist() == plain_support(seeds, values, 6, 4)
    assert kernels.hash_sums(*signed(20), 6).tolist() == plain_sums(*signed(20), 6)
    assert kernels.bit_counts(random_bits(20, 9), 9).tolist() == plain_bit_counts(random_bits(20, 9), 9)
    assert same_subsets(kernels.subsets, *subset_arguments(20, 32, 9, 4))


# Codebooks ----------------------------------------------------------------------------------------------------------
# Vectors are whole numbers. The plain codebook is written out in Python's integers, from the hash alone.

TABLE = np.array([float((place * 37 + 11) % 4001 - 2000) or 1.0 for place in range(1 << 16)])
ROTATED = [(1, 1), (1, 4), (3, 4), (5, 8), (16, 16), (17, 32), (40, 64)]
DRAWN = [(1, 2), (2, 4), (3, 16), (7, 32)]


def hash_of(seed: int, item: int) -> int:
    """32 bits, of one item."""
    spread = np.array([item], dtype=np.uint32) * hashing.SPREAD
    return int(np.asarray(mixed(spread, *hashing.halves(np.array([seed], dtype=np.uint64))))[0])


def plain_rotation(seed: int, size: int) -> tuple[NDArray[np.object_], list[int]]:
    """The rows of H S3 H S2 H S1 as whole numbers, and the nudges of the entries."""
    hashed_ = [hash_of(seed, j) for j in range(size)]
    hadamard = np.array([[(-1) ** (i & j).bit_count() for j in range(size)] for i in range(size)], dtype=object)
    matrix = np.eye(size, dtype=object)
    for turn in range(3):
        signs = np.diag(np.array([1 - 2 * (bits >> (31 - turn) & 1) for bits in hashed_], dtype=object))
        matrix = hadamard.dot(signs.dot(matrix))
    return matrix, [2 * (bits >> 21 & 255) - 255 for bits in hashed_]


def plain_drawn(seed: int, d: int, size: int, length: int) -> NDArray[np.object_]:
    """Rows of entries from the table, brought to the length with correctly rounded floats."""
    rows = []
    for i in range(size):
        own = [TABLE[hash_of(seed, i * d + j) >> 16] for j in range(d)]
        scale = length / sum(entry * entry for entry in own) ** 0.5
        rows.append([int(np.rint(entry * scale)) for entry in own])
    return np.array(rows, dtype=object)


def plain_order(rows: NDArray[np.object_], vector: list[int], favoured: int) -> list[int]:
    """All codewords by position: favoured ones by row, the opposites of all rows, the rows that are left."""
    size = len(rows)
    products = [sum(a * b for a, b in zip(row, vector, strict=True)) for row in rows]
    own = [i if product >= 0 else i + size for i, product in enumerate(products)]
    best = set(sorted(range(size), key=lambda i: (-abs(products[i]), i))[:favoured])
    return [
        *(own[i] for i in range(size) if i in best),
        *((own[i] + size) % (2 * size) for i in range(size)),
        *(own[i] for i in range(size) if i not in best),
    ]


def vectors_of(rows: int, d: int) -> NDArray[np.float64]:
    """Random ones, and some with a single entry, or none: products are equal then."""
    found = np.rint(np.random.default_rng(d).standard_normal((rows, d)) * 1e6)
    found[::3] = 0.0
    found[::6, 0] = 1 << 24
    return found


def chooses_rotated(function: Callable[..., NDArray[np.int64]]) -> bool:
    """Whether every position has its codeword, on codebooks of all sizes."""
    for d, size in ROTATED:
        for seed, vector in zip((0, 7, 1 << 63), vectors_of(3, d), strict=True):
            matrix, nudges = plain_rotation(seed, size)
            nudged = [int(entry) + nudge for entry, nudge in zip(vector, nudges, strict=False)]
            for favoured in {1, max(1, size // 3), size}:
                places = np.arange(2 * size)
                found = function(
                    np.tile(vector, (2 * size, 1)), np.full(2 * size, seed, np.uint64), places, size, favoured
                )
                if found.tolist() != plain_order(matrix[:, :d], nudged, favoured):
                    return False
    return True


def chooses_drawn(function: Callable[..., NDArray[np.int64]]) -> bool:
    for d, size in DRAWN:
        for seed, vector in zip((0, 7, 1 << 63), vectors_of(3, d), strict=True):
            rows = plain_drawn(seed, d, size, 999)
            for favoured in {1, max(1, size // 3), size}:
                many = np.tile(vector, (2 * size, 1)), np.full(2 * size, seed, np.uint64), np.arange(2 * size)
                if function(*many, size, favoured, TABLE, 999).tolist() != plain_order(rows, list(vector), favoured):
                    return False
    return True


@pytest.mark.wide
@both
def test_codewords_are_chosen(loops: ModuleType):
    assert chooses_rotated(loops.rotated_choice)
    assert chooses_drawn(loops.drawn_choice)


@pytest.mark.parametrize(
    "mutant",
    [
        lambda v, s, p, size, w: with_numpy.rotated_choice(-v, s, p, size, w),  # the worst instead of the best
        lambda v, s, p, size, w: with_numpy.rotated_choice(v, s, p, size, max(1, w - 1)),
        lambda v, s, p, size, w: with_numpy.rotated_choice(v, s >> np.uint64(1), p, size, w),
        lambda v, s, p, size, w: with_numpy.rotated_choice(v, s, p, size, w) % size,  # opposites forgotten
        lambda v, s, p, size, w: with_numpy.rotated_choice(v, s, np.minimum(p + 1, 2 * size - 1), size, w),
    ],
)
def test_codewords_chosen_wrong_are_noticed(mutant):
    assert not chooses_rotated(mutant)


@both
def test_codewords_are_added_up(loops: ModuleType):
    seeds = np.array([0, 7, 7, 1 << 63, 12345], dtype=np.uint64)
    for d, size in ROTATED:
        codewords = np.array([0, size - 1, size, 2 * size - 1, size // 2])
        rows = [
            plain_rotation(int(s), size)[0][c % size, :d] * (1 - 2 * (c >= size))
            for s, c in zip(seeds, codewords, strict=True)
        ]
        for shift in (0, 3):
            found = loops.rotated_sums(seeds, codewords, d, size, shift)
            assert found[0].tolist() == sum(rows).tolist()  # type: ignore[union-attr]
            assert found[1].tolist() == [sum(row[j] ** 2 >> shift for row in rows) for j in range(d)]
    for d, size in DRAWN:
        codewords = np.array([0, size - 1, size, 2 * size - 1, size // 2])
        rows = [
            plain_drawn(int(s), d, size, 999)[c % size] * (1 - 2 * (c >= size))
            for s, c in zip(seeds, codewords, strict=True)
        ]
        found = loops.drawn_sums(seeds, codewords, d, size, TABLE, 999)
        assert found[0].tolist() == sum(rows).tolist()  # type: ignore[union-attr]
        assert found[1].tolist() == [sum(row[j] ** 2 for row in rows) for j in range(d)]
    none = np.zeros(0, dtype=np.int64)
    assert not loops.rotated_sums(seeds[:0], none, 3, 4, 0).any()
    assert not loops.drawn_sums(seeds[:0], none, 3, 4, TABLE, 9).any()


@pytest.mark.parametrize(("d", "size"), [(650, 1024), (64, 256), (3000, 4096), (100, 128)])
def test_large_codebooks_agree_to_the_bit(d, size):
    vectors, seeds = vectors_of(13, d), Stream.seeded(9, "codebooks").words(0, slice(0, 13))[:, 0]
    for favoured in (1, size // 7, size):
        places = np.arange(13) * (size // 7)
        found = with_numba.rotated_choice(vectors, seeds, places, size, favoured)
        assert found.tolist() == with_numpy.rotated_choice(vectors, seeds, places, size, favoured).tolist()
    sums = [loops.rotated_sums(seeds, found, d, size, 2) for loops in (with_numba, with_numpy)]
    assert (sums[0] == sums[1]).all()
    favours = with_numpy.rotated_favours(vectors, seeds, found, size, size)
    assert favours.tolist() == (places < size).tolist()


@pytest.mark.wide
def test_compiled_codebooks_wait_for_enough_work():
    script = """
import sys, numpy as np, dither
m = dither.UnitVector(d=650, epsilon=1.0)
m.randomize(np.full((40, 650), 0.01), seed=1)
assert "numba" not in sys.modules
from dither import kernels
kernels._MUCH = 1
m.randomize(np.full((4, 650), 0.01), seed=1)
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
