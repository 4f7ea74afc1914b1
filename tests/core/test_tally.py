"""Tallies add like integers, to the bit, and bytes that are not exactly a tally are refused.

Merging is associative and commutative for any counts of any shape; that reports may be cut anyhow is tested with the
contract of the mechanisms. Bytes come from other machines and may be damaged or forged: whatever they are, decoding
them ends in a tally or in a `TallyError`, never in another exception.
"""

import copy
import pickle
from functools import reduce
from operator import add
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dither.core.tally import Tally
from dither.errors import DitherError, TallyError

steady = settings(derandomize=True, deadline=None)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)


@st.composite
def tallies(draw, count: int = 1, most: int = 2**40) -> list[Tally]:
    """Several tallies of one mechanism."""
    shape = draw(shapes)
    counts = hnp.arrays(np.int64, shape, elements=st.integers(0, most))
    return [Tally("abc", draw(st.integers(0, most)), draw(counts), draw(st.booleans())) for _ in range(count)]


# Merging ------------------------------------------------------------------------------------------------------------


@steady
@given(tallies(3))
def test_merging_is_associative_and_commutative_to_the_bit(parts):
    a, b, c = parts
    merged = ((a + b) + c).to_bytes()
    assert (a + (b + c)).to_bytes() == merged
    assert (c + a + b).to_bytes() == merged
    assert (b + c + a).to_bytes() == merged


@steady
@given(tallies(4))
def test_merging_adds_everything(parts):
    whole = sum(parts)
    assert isinstance(whole, Tally)
    assert whole.n == sum(part.n for part in parts)
    assert np.array_equal(whole.counts, reduce(add, [part.counts for part in parts]))
    assert whole.simulated == any(part.simulated for part in parts)
    assert whole == reduce(add, parts)


def test_sum_of_one_and_of_none():
    tally = Tally("abc", 3, np.array([1, 2]))
    assert sum([tally]) == tally
    assert sum([]) == 0


def test_merging_leaves_the_parts_alone():
    a, b = Tally("abc", 3, np.array([1, 2])), Tally("abc", 4, np.array([3, 1]), simulated=True)
    merged = a
    merged += b
    assert merged.counts.tolist() == [4, 3]
    assert (a.counts.tolist(), a.n, a.simulated) == ([1, 2], 3, False)
    assert (b.counts.tolist(), b.n, b.simulated) == ([3, 1], 4, True)


@pytest.mark.parametrize(
    "other",
    [
        Tally("abd", 1, np.array([1, 2])),
        Tally("", 1, np.array([1, 2])),
        Tally("abc", 1, np.array([1, 2, 3])),
        Tally("abc", 1, np.array([[1, 2]])),
        Tally("abc", 1, np.array([[1], [2]])),
        Tally("abc", 1, np.array(1)),
    ],
)
def test_tallies_of_different_mechanisms_do_not_merge(other):
    tally = Tally("abc", 3, np.array([1, 2]))
    for one, two in ((tally, other), (other, tally)):
        with pytest.raises(TallyError, match="different mechanisms"):
            add(one, two)
        with pytest.raises(TallyError):
            sum([one, two])


@pytest.mark.parametrize("other", [1, 0.5, "abc", None, [1, 2]])
def test_only_tallies_are_added(other):
    tally = Tally("abc", 3, np.array([1, 2]))
    with pytest.raises(TypeError):
        add(tally, other)
    with pytest.raises(TypeError):
        add(other, tally)


def test_a_sum_that_does_not_fit_is_refused():
    with pytest.raises(DitherError):
        add(Tally("abc", 1, np.array([2**63 - 1])), Tally("abc", 1, np.array([1])))


# Values -------------------------------------------------------------------------------------------------------------


def test_counts_cannot_be_changed():
    source = np.array([1, 2])
    tally = Tally("abc", 3, source)
    source[0] = 9
    assert tally.counts.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        tally.counts[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        (tally + tally).counts[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        Tally.from_bytes(tally.to_bytes()).counts[0] = 5
    with pytest.raises(AttributeError):
        tally.n = 5  # type: ignore[misc]


def test_counts_cannot_be_changed_after_a_copy_either():
    tally = Tally("abc", 3, np.array([1, 2]))
    for again in (pickle.loads(pickle.dumps(tally)), copy.deepcopy(tally)):
        assert again == tally
        assert not again.counts.flags.writeable


@pytest.mark.parametrize("dtype", ["i8", ">i8", "u1", "i2", "u4"])
def test_counts_are_64_bit_integers_in_one_order(dtype):
    wide = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for memory in (wide, wide.copy(order="F"), np.repeat(wide, 2, axis=2)[:, :, ::2]):
        tally = Tally("abc", 3, memory)  # type: ignore[arg-type]
        assert tally.counts.dtype == np.int64
        assert tally.counts.flags.c_contiguous
        assert tally.to_bytes() == Tally("abc", 3, np.arange(24).reshape(2, 3, 4)).to_bytes()


def test_equality():
    tally = Tally("abc", 3, np.array([1, 2]))
    assert tally == Tally("abc", 3, np.array([1, 2]))
    assert tally != Tally("abd", 3, np.array([1, 2]))
    assert tally != Tally("abc", 4, np.array([1, 2]))
    assert tally != Tally("abc", 3, np.array([1, 3]))
    assert tally != Tally("abc", 3, np.array([[1, 2]]))
    assert tally != Tally("abc", 3, np.array([1, 2]), simulated=True)
    assert tally != 3
    assert tally != "abc"
    with pytest.raises(TypeError):
        hash(tally)


def test_repr_is_short():
    tally = Tally("0123456789abcdef" * 4, 12345, np.zeros((7, 3), dtype=np.int64))
    assert repr(tally) == "Tally(n=12,345, counts of shape (7, 3), mechanism 0123456789ab)"


# Bytes --------------------------------------------------------------------------------------------------------------


@steady
@given(tallies(most=2**62))
def test_bytes_round_trip(parts):
    (tally,) = parts
    back = Tally.from_bytes(tally.to_bytes())
    assert (back.mechanism, back.n, back.simulated) == (tally.mechanism, tally.n, tally.simulated)
    assert back.counts.dtype == np.int64
    assert back.counts.shape == tally.counts.shape
    assert np.array_equal(back.counts, tally.counts)
    assert back == tally
    assert Tally.from_bytes(memoryview(bytearray(tally.to_bytes()))) == tally  # type: ignore[arg-type]


def test_bytes_never_change():
    # Tallies are stored: what one version wrote, the next must read.
    stored = (
        "86a6666f726d6174ae6469746865722074616c6c792031a96d656368616e69736da3616263a16e03a973696d756c61746564c2"
        "a5736861706592 0201a6636f756e7473c410 0100000000000000 0002000000000000"
    ).replace(" ", "")
    tally = Tally("abc", 3, np.array([[1], [512]]))
    assert tally.to_bytes().hex() == stored
    assert Tally.from_bytes(bytes.fromhex(stored)) == tally


GOOD: dict[str, Any] = msgspec.msgpack.decode(Tally("abc", 3, np.array([[1, 2, 0]])).to_bytes())


def changed(**parts: Any) -> bytes:
    return msgspec.msgpack.encode({**GOOD, **parts})


def without(name: str) -> bytes:
    return msgspec.msgpack.encode({key: part for key, part in GOOD.items() if key != name})


def test_the_unchanged_bytes_are_fine():
    assert Tally.from_bytes(changed()) == Tally("abc", 3, np.array([[1, 2, 0]]))


DAMAGED = {
    "nothing": b"",
    "text": b"counts",
    "zeros": bytes(100),
    "JSON": msgspec.json.encode({"format": "dither tally 1"}),
    "a list": msgspec.msgpack.encode(list(GOOD.values())),
    "another format": changed(format="dither tally 2"),
    "no format": without("format"),
    "no n": without("n"),
    "no mechanism": without("mechanism"),
    "no shape": without("shape"),
    "no counts": without("counts"),
    "no simulated": without("simulated"),
    "one field more": changed(more=1),
    "negative n": changed(n=-1),
    "fractional n": changed(n=2.5),
    "n as text": changed(n="3"),
    "n as a truth": changed(n=True),
    "simulated as a number": changed(simulated=1),
    "mechanism as a number": changed(mechanism=5),
    "counts as text": changed(counts="x" * 24),
    "counts as a list": changed(counts=[1, 2, 0]),
    "counts too short": changed(counts=bytes(16)),
    "counts too long": changed(counts=bytes(32)),
    "counts cut": changed(counts=bytes(23)),
    "no shape at all": changed(shape=[]),
    "shape too small": changed(shape=[2]),
    "shape too large": changed(shape=[2, 2]),
    "negative shape": changed(shape=[-1, -3]),
    "half negative shape": changed(shape=[-3]),
    "empty and negative shape": changed(shape=[0, -1], counts=b""),
    "fractional shape": changed(shape=[1.5, 2]),
    "shape as a number": changed(shape=3),
    "twice": changed() + changed(),
    "one byte more": changed() + b"\0",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged_bytes_are_refused(data):
    with pytest.raises(TallyError):
        Tally.from_bytes(data)


UNFORESEEN = {
    "too many dimensions": changed(shape=[1] * 65, counts=bytes(8)),
    "an empty shape too large for NumPy": changed(shape=[0, 2**63], counts=b""),
    "an empty product too large for NumPy": changed(shape=[0, 2**62, 8], counts=b""),
    "text that is not UTF-8": changed().replace(b"abc", b"\xff\xff\xff"),
}


@pytest.mark.parametrize("data", UNFORESEEN.values(), ids=UNFORESEEN)
def test_bytes_forged_with_care_are_refused(data):
    # TallyError is a ValueError too, so `raises` alone would not tell the two apart.
    try:
        Tally.from_bytes(data)
    except TallyError:
        return
    raise AssertionError("read as a tally")


def test_truncated_bytes_are_refused():
    data = changed()
    for length in range(len(data)):
        with pytest.raises(TallyError):
            Tally.from_bytes(data[:length])


def refused(data: bytes) -> bool:
    """Whether bytes are refused; otherwise they are read as a tally."""
    try:
        Tally.from_bytes(data)
    except TallyError:
        return True
    return False


def test_flipped_bits_are_refused_or_give_another_tally():
    # There is no checksum: a flipped bit inside a name or a number gives another tally. In the frame it is refused.
    data = changed()
    numbers = {data.index(b"abc") + i for i in range(3)} | {data.index(b"\xa1n") + 2, data.index(b"simulated") + 9}
    numbers |= set(range(len(data) - 24, len(data)))
    for at in range(len(data)):
        for bit in range(8):
            flipped = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            assert refused(flipped) or (at in numbers and Tally.from_bytes(flipped) != Tally.from_bytes(data))


@steady
@given(st.binary(max_size=200))
def test_noise_is_refused(data):
    assert refused(data)


@pytest.mark.parametrize("counts", [[0.5, 0.5, 0.0], [np.nan, 1.0, 0.0], ["1", "0", "0"], "abc", [1 + 0j, 0, 0], None])
def test_a_count_that_is_no_whole_number_is_refused(counts):
    """Half a report was rounded down to none."""
    with pytest.raises(TallyError, match="a count is a whole number"):
        Tally("abc", 1, counts)


@pytest.mark.parametrize("n", [1.7, "1", None, float("nan"), True])
def test_a_number_of_reports_that_is_none_is_refused(n):
    with pytest.raises(TallyError, match="a tally counts from 0"):
        Tally("abc", n, np.array([1, 0, 0]))
