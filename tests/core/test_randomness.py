"""The one source of random bits: what it is, where each word lies, and who can repeat it.

The keystream is compared with the vectors that NIST printed for AES-256 in counter mode and, block by block, with plain
AES. Everything else that is promised about a stream (rows own their words, chunks do not matter, a forked process
does not repeat its parent, a seed can be repeated) is an equality or an inequality between words, so nothing here
needs statistics but one check of the plumbing. Uniformity below a bound is counted over all short words.
"""

import ast
import copy
import pickle
import struct
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

import dither
from dither.core.draw import Rows, Words, below
from dither.core.randomness import Stream
from dither.errors import ParameterError

KEY = bytes(range(32))
PIECE = 1 << 20
SOURCE = Path(dither.__file__).parent


def expected_word(key: bytes, lane: int, attempt: int, position: int) -> int:
    """Word number `position` of a lane and attempt, from one call of plain AES."""
    cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305
    block = cipher.encryptor().update(struct.pack(">IIQ", lane, attempt, position // 2))
    return struct.unpack("<QQ", block)[position % 2]


# The keystream ------------------------------------------------------------------------------------------------------


def test_the_keystream_is_the_one_that_nist_printed():
    # SP 800-38A, F.5.5: the initial counter block f0 f1 ... ff reads as a lane, an attempt and a position.
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    printed = (
        "0bdf7df1591716335e9a8b15c860c502"
        "5a6e699d536119065433863c8f657b94"
        "1bc12c9c01610d5d0d8bd6a3378eca62"
        "2956e1c8693536b1bee99c73a31576b6"
    )
    first = 0xF8F9FAFBFCFDFEFF
    words = Stream(key, simulated=True).words(0xF0F1F2F3, slice(first, first + 4), 2, attempt=0xF4F5F6F7)
    assert words.astype("<u8").tobytes().hex() == printed


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("lane", "attempt", "first"), [(0, 0, 0), (1, 0, 5), (0, 1, 5), ((1 << 16) + 9, 3, 2**40 + 1)])
def test_a_word_is_a_function_of_lane_attempt_and_position(lane, attempt, first, width):
    words = Stream(KEY, simulated=True).words(lane, slice(first, first + 5), width, attempt)
    assert words.shape == (5, width)
    assert words.dtype == np.uint64
    for (row, column), word in np.ndenumerate(words):
        assert int(word) == expected_word(KEY, lane, attempt, (first + row) * width + column)


@settings(derandomize=True, deadline=None)
@given(
    width=st.integers(1, 5),
    first=st.integers(0, 50),
    edges=st.lists(st.integers(0, 60), min_size=1, max_size=5),
)
def test_rows_do_not_depend_on_the_cut(width, first, edges):
    stream = Stream.seeded(11)
    whole = stream.words(2, slice(0, 200), width)
    cuts = [first, *(first + edge for edge in sorted(edges))]
    for start, stop in pairwise(cuts):
        assert np.array_equal(stream.words(2, slice(start, stop), width), whole[start:stop])


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, ">i8"])
def test_rows_by_index_are_the_rows_by_slice(width, dtype):
    stream = Stream.seeded(12)
    whole = stream.words(1, slice(0, 1000), width, attempt=2)
    for rows in ([0], [999], [5, 6, 7], [998, 3, 3, 500, 3], list(range(999, -1, -3)), []):
        index = np.array(rows, dtype=dtype)
        found = stream.words(1, index, width, attempt=2)
        assert found.shape == (len(rows), width)
        assert np.array_equal(found, whole[index.astype(np.int64)])


@pytest.mark.parametrize("width", [1, 3])
def test_scattered_rows_are_read_one_by_one(width):
    # So far apart that reading everything between them would take more than a gigabyte.
    stream, rows = Stream.seeded(13), np.array([1 << 30, 4, (1 << 30) + 1, 77])
    alone = [stream.words(0, slice(int(row), int(row) + 1), width)[0] for row in rows]
    assert np.array_equal(stream.words(0, rows, width), alone)


def test_a_run_longer_than_one_piece_of_the_cipher():
    rows = 3 * PIECE // 8 + 11
    words = Stream(KEY, simulated=True).words(0, slice(1, 1 + rows))
    for row in (0, PIECE // 8 - 2, PIECE // 8 - 1, PIECE // 8, 2 * PIECE // 8, rows - 1):
        assert int(words[row, 0]) == expected_word(KEY, 0, 0, 1 + row)


@pytest.mark.parametrize(("first", "rows", "width"), [(0, 4, 2), (0, 3, 2), (1, 3, 2), (1, 4, 1), (3, 5, 3), (0, 0, 1)])
def test_a_buffer_changes_where_the_words_lie_and_nothing_else(first, rows, width):
    stream, part = Stream.seeded(14), slice(first, first + rows)
    fresh = stream.words(0, part, width)
    full = 0xFFFFFFFFFFFFFFFF
    buffers = [
        np.full((rows, width), full, dtype=np.uint64),
        np.full((rows + 1, width), full, dtype=np.uint64),  # too large
        np.full((2 * rows, width), full, dtype=np.uint64)[::2],  # not contiguous
        np.full((width, rows), full, dtype=np.uint64).T,
        np.full((rows, width), full, dtype=">u8"),
        np.full((rows, width), -1, dtype=np.int64),
        np.full((rows, width), np.inf, dtype=np.float64),
    ]
    for buffer in buffers:
        found = stream.words(0, part, width, out=buffer)
        assert found.dtype == np.uint64
        assert np.array_equal(found, fresh)


def test_a_buffer_that_fits_is_used():
    stream, buffer = Stream.seeded(14), np.empty((60, 2), dtype=np.uint64)
    assert np.shares_memory(stream.words(0, slice(0, 60), 2, out=buffer), buffer)


def test_no_rows_are_no_words():
    stream = Stream.seeded(15)
    for first in (0, 1, 7):
        assert stream.words(0, slice(first, first), 3).shape == (0, 3)
        assert stream.below(10, 0, first=first).shape == (0,)
        assert stream.below(10**30, 0, first=first).shape == (0,)


def test_lanes_and_attempts_do_not_overlap():
    stream = Stream.seeded(16)
    tables = [stream.words(lane, slice(0, 500), 2, attempt) for lane in (0, 1, 2, 1 << 16) for attempt in range(4)]
    assert len(set(np.concatenate(tables).ravel().tolist())) == 16 * 1000


# Plumbing: all 64 bits of a word are there, in all columns. Chi-square on 256 cells, false alarm 1e-9 for each of the
# eight bytes of a word.


def uneven_bytes(words: Words) -> bool:
    counts = [np.bincount(column, minlength=256) for column in words.astype("<u8").view(np.uint8).reshape(-1, 8).T]
    expected = words.size / 256
    return any(((count - expected) ** 2).sum() / expected > chi2.isf(1e-9, 255) for count in counts)


def test_every_byte_of_a_word_is_even():
    words = Stream.seeded(17).words(0, slice(0, 1 << 18))
    assert not uneven_bytes(words)
    assert uneven_bytes(words | np.uint64(1 << 63))
    assert uneven_bytes(words % np.uint64(2**64 - 2**60))
    assert uneven_bytes(words.astype(np.uint32).astype(np.uint64))


# Keys ---------------------------------------------------------------------------------------------------------------


def start(stream: Stream) -> bytes:
    return stream.words(0, slice(0, 4)).tobytes()


def test_secure_streams_differ():
    streams = [Stream.secure() for _ in range(50)]
    assert len({start(stream) for stream in streams}) == 50
    assert not any(stream.simulated for stream in streams)


def test_seeded_streams_repeat():
    assert start(Stream.seeded(7, "a")) == start(Stream.seeded(7, "a"))
    assert start(Stream.seeded(int(np.int64(7)), "a")) == start(Stream.seeded(np.uint8(7), "a"))  # type: ignore[arg-type]
    assert Stream.seeded(7).simulated


def test_seeds_and_labels_are_framed():
    lists = [
        (1,),
        (-1,),
        (12,),
        (2**200,),
        (1, ""),
        (1, "", ""),
        (1, "2"),
        (1, "ab", "c"),
        (1, "a", "bc"),
        (1, "abc"),
        (1, "c", "ab"),
        (1, "a\0bc"),
        (1, "é"),
        (1, "e\u0301"),
    ]
    assert len({start(Stream.seeded(*parts)) for parts in lists}) == len(lists)


@pytest.mark.parametrize("parent", [Stream.seeded(1), Stream.secure()], ids=repr)
def test_spawned_streams(parent: Stream):
    lists = [(), ("",), ("a",), ("b",), ("ab", "c"), ("a", "bc"), ("a", "b")]
    streams = [parent, *(parent.spawn(*labels) for labels in lists), parent.spawn("a").spawn("b")]
    assert len({start(stream) for stream in streams}) == len(streams)
    assert start(parent.spawn("a")) == start(parent.spawn("a"))
    assert all(stream.simulated == parent.simulated for stream in streams)
    assert start(Stream.seeded(1).spawn("a")) != start(Stream.seeded(2).spawn("a"))


@pytest.mark.parametrize("seed", [True, np.True_, 1.0, np.float64(1), "1", b"1", None, 1j, [1]])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ParameterError, match="seed must be a whole number"):
        Stream.seeded(seed)


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(31), bytes(33)])
def test_a_key_has_32_bytes(key):
    with pytest.raises(ParameterError):
        Stream(key, simulated=False)


@pytest.mark.parametrize("stream", [Stream.seeded(1), Stream.secure()], ids=repr)
def test_a_key_does_not_get_out_by_accident(stream: Stream):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ParameterError):
            pickle.dumps(stream, protocol)
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(ParameterError):
            duplicate(stream)
    assert repr(stream) == str(stream) == ("Stream(simulated)" if stream.simulated else "Stream(secure)")


FORKED = """
import os, sys
from dither.core.randomness import Stream

class Careless(Stream):
    def _live_key(self):
        return self._key

def start(stream):
    return stream.words(0, slice(0, 4)).tobytes()

def forked(stream):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        spawned = start(stream.spawn("worker"))  # first, when nothing has woken the stream up yet
        os.write(writing, start(stream) + start(stream) + spawned)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    assert len(found) == 96
    return found[:32], found[32:64], found[64:]

def report(name, stream):
    before, spawned = start(stream), start(stream.spawn("worker"))
    one, other = forked(stream), forked(stream)
    print(
        name,
        one[0] == one[1],        # within the child the stream goes on as one stream
        one[0] == before,        # a child repeats its parent
        one[0] == other[0],      # two children repeat each other
        one[2] == spawned,       # a child's workers repeat the parent's
        start(stream) == before, # the parent is not disturbed
    )

report("secure", Stream.secure())
report("spawned", Stream.secure().spawn("a"))
report("seeded", Stream.seeded(1))
report("careless", Careless(os.urandom(32), simulated=False))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system has no fork")
def test_a_forked_process_does_not_repeat_its_parent():
    script = [sys.executable, "-W", "ignore", "-c", FORKED]
    lines = subprocess.run(script, capture_output=True, text=True, check=True).stdout.splitlines()
    assert dict(line.split(" ", 1) for line in lines) == {
        "secure": "True False False False True",
        "spawned": "True False False False True",
        "seeded": "True True True True True",
        "careless": "True True True True True",  # what the check looks like when it fails
    }


@pytest.mark.parametrize("rows", [1, 2, 3, 31, 32, 33, 63, 64, 65, 66])
@pytest.mark.parametrize("first", [0, 1, 7])
def test_few_words_are_those_of_many(rows, first):
    """Few blocks come from a cipher that stays, many from one in counter mode: the same words on both sides."""
    stream, buffer = Stream(KEY, simulated=True), np.empty((rows, 1), dtype=np.uint64)
    for _ in range(2):  # the first time it is set up
        words = stream.words(5, slice(first, first + rows), 1, 2)
        assert words[:, 0].tolist() == [expected_word(KEY, 5, 2, first + row) for row in range(rows)]
        assert stream.words(5, slice(first, first + rows), 1, 2, out=buffer).tolist() == words.tolist()
        assert stream.words(5, np.arange(first, first + rows), 1, 2).tolist() == words.tolist()
        words[:] = 0  # whoever asked may write on them


def test_threads_that_share_a_stream():
    """A cipher in use by one thread is not used by another: it would refuse, or worse."""
    stream = Stream.seeded(4)
    expected = [stream.words(row % 5, slice(row, row + 3), 2).tobytes() for row in range(500)]

    def read(_: int) -> list[bytes]:
        return [stream.words(row % 5, slice(row, row + 3), 2).tobytes() for row in range(500)]

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(read, range(16)))


def test_two_readers_at_once_have_a_cipher_each(monkeypatch):
    """Also where threads are switched in the middle of it."""
    stream, ciphers = Stream.seeded(4), []
    stream.words(0, slice(0, 1))
    [first] = stream._block_ciphers

    class Slow:
        def update(self, counters: bytes) -> bytes:
            ciphers.extend(stream._block_ciphers)  # what another thread would find meanwhile
            stream.words(1, slice(0, 1))
            return first.update(counters)

    monkeypatch.setattr(stream, "_block_ciphers", [Slow()])
    assert stream.words(0, slice(0, 1))[0, 0] == Stream.seeded(4).words(0, slice(0, 1))[0, 0]
    assert ciphers == []
    assert len(stream._block_ciphers) == 2


# Uniform integers ---------------------------------------------------------------------------------------------------


class Bytes:
    """One row for each 8-bit word; a rejected row is noted and then handed a zero."""

    bits = 8

    def __init__(self) -> None:
        self.rejected: set[int] = set()

    def words(self, lane: int, rows: Rows, width: int = 1, attempt: int = 0, out: Words | None = None) -> Words:
        numbers = np.arange(256, dtype=np.uint64)[rows]
        if attempt:
            self.rejected |= set(numbers.tolist())
        return (numbers * np.uint64(attempt == 0))[:, None]

    def slots(self, label: str, number: int) -> "Bytes":
        raise NotImplementedError


def careless_below(bound: int, tape: Bytes, rows: slice, *, lane: int) -> NDArray[np.uint64]:
    """The mistake that rejection is there for."""
    return tape.words(lane, rows)[:, 0] % np.uint64(bound)


def uniform(sampler, bound: int) -> bool:
    """Whether, over all 8-bit words that are accepted, every number below the bound comes equally often."""
    tape = Bytes()
    drawn = sampler(bound, tape, slice(0, 256), lane=0).tolist()
    counts = Counter(drawn[word] for word in range(256) if word not in tape.rejected)
    return set(counts) == set(range(bound)) and len(set(counts.values())) == 1


def test_uniform_below_every_bound_by_enumeration():
    assert all(uniform(below, bound) for bound in range(1, 257))
    assert [bound for bound in range(1, 257) if uniform(careless_below, bound)] == [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_as_few_words_are_rejected_as_can_be():
    for bound in range(1, 257):
        tape = Bytes()
        below(bound, tape, slice(0, 256), lane=0)
        assert len(tape.rejected) == 256 % bound


def reference_below(stream: Stream, bound: int, row: int, lane: int) -> int:
    """The same number in Python integers: the words of a row, most significant first, in one attempt after another."""
    width = max(1, -(-(bound - 1).bit_length() // 64))
    for attempt in range(1000):
        number = int.from_bytes(
            stream.words(lane, slice(row, row + 1), width, attempt)[0].astype(">u8").tobytes(), "big"
        )
        if number < (1 << 64 * width) // bound * bound:
            return number % bound
    raise AssertionError("a thousand rejections")


@pytest.mark.parametrize(
    "bound",
    [
        1,
        2,
        6,
        1000,
        2**32,
        2**63,
        2**63 + 1,
        2**64 - 1,
        2**64,
        2**64 + 1,
        10**30,
        2**127 + 1,
        2**128,
        2**128 + 1,
        3**300,
    ],
    ids=lambda bound: f"{bound.bit_length()} bits",
)
def test_big_bounds_against_python_integers(bound: int):
    stream = Stream.seeded(18)
    drawn = stream.below(bound, 40, lane=3, first=9)
    assert drawn.tolist() == [reference_below(stream, bound, row, 3) for row in range(9, 49)]
    assert drawn.dtype == (np.uint64 if bound <= 1 << 64 else object)
    assert all(type(number) is int for number in drawn.tolist())


def test_rejected_rows_are_drawn_again_without_touching_the_others():
    # About half of the words are rejected at these bounds, so many rows take several attempts.
    for bound in (2**63 + 1, 2**127 + 1):
        stream = Stream.seeded(19)
        whole = stream.below(bound, 300).tolist()
        assert [stream.below(bound, 1, first=row)[0] for row in range(300)] == whole


@pytest.mark.parametrize("bound", [0, -1, -(2**70)])
def test_a_bound_is_at_least_one(bound):
    with pytest.raises(ParameterError, match="at least 1"):
        Stream.seeded(1).below(bound, 3)


def test_a_bound_may_be_a_numpy_integer():
    assert Stream.seeded(1).below(np.int64(6), 100).tolist() == Stream.seeded(1).below(6, 100).tolist()  # type: ignore[arg-type]


# No floats, and no other source -------------------------------------------------------------------------------------

FLOATS = {"float", "float16", "float32", "float64", "double", "true_divide", "divide", "truediv"}


def floats_in(source: str) -> list[str]:
    """Everything in the source that could bring a float about: literals, true division, names of float types."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            found.append(f"{node.lineno}: literal {node.value}")
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            found.append(f"{node.lineno}: true division")
        elif (isinstance(node, ast.Name) and node.id in FLOATS) or (
            isinstance(node, ast.Attribute) and node.attr in FLOATS
        ):
            found.append(f"{node.lineno}: a float type")
    return found


@pytest.mark.parametrize("module", ["core/randomness.py", "core/draw.py"])
def test_no_float_takes_part_in_sampling(module):
    assert floats_in((SOURCE / module).read_text()) == []


@pytest.mark.parametrize(
    "mutant", ["x = 0.5", "x = a / b", "x /= 2", "x = float(a)", "x = a.astype(float)", "x = np.float64(a)", "x = 1j"]
)
def test_a_float_would_be_found(mutant):
    assert floats_in(f"def draw(a, b):\n    {mutant}\n")


def sources_in(source: str) -> list[str]:
    """Every use of a random number generator."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.split(".")[0] in ("random", "secrets", "uuid")]
        elif isinstance(node, ast.ImportFrom):
            names = {name.name for name in node.names}
            if node.module in ("random", "secrets", "uuid", "numpy.random") or names & {"random", "urandom"}:
                found.append(f"from {node.module}")
        elif isinstance(node, ast.Attribute) and node.attr in ("random", "urandom", "getrandom", "default_rng"):
            found.append(node.attr)
    return found


def test_no_other_module_makes_randomness():
    found = {path.relative_to(SOURCE).as_posix(): sources_in(path.read_text()) for path in SOURCE.rglob("*.py")}
    assert len(found) > 20
    assert {module for module, uses in found.items() if uses} == {"core/randomness.py"}


@pytest.mark.parametrize(
    "mutant",
    [
        "import random",
        "import secrets",
        "from os import urandom",
        "x = os.urandom(8)",
        "x = np.random.rand()",
        "from numpy.random import default_rng",
        "from numpy import random",
        "import numpy.random as r; r.default_rng()",
    ],
)
def test_another_source_would_be_found(mutant):
    assert sources_in(mutant)


def test_secure_keys_are_whole_keys_of_the_operating_system(monkeypatch):
    asked = []

    def urandom(count: int) -> bytes:
        asked.append(count)
        return bytes(range(count))

    monkeypatch.setattr("dither.core.randomness.os.urandom", urandom)
    assert Stream.secure()._key == bytes(range(32))
    assert asked == [32]
