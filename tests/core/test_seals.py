"""Seals: who has the key can tell; nobody else can make one; what is not sealed has the bytes that it always had."""

import hmac
import os
import stat

import msgspec
import numpy as np
import pytest

import dither
from dither import Tally
from dither.core.seals import is_sealed, read_key, sealed, unsealed, write_key
from dither.errors import ParameterError, TallyError, WriteError
from dither.planning import PlanTally

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
PLAN = dither.plan(dither.Schema({"job": dither.Categorical(["nurse", "driver", "other"])}), 1.0, users=100_000)
TALLIES = [
    Tally("abc", 3, np.array([1, 2])),
    PLAN.tally(PLAN.randomize({"job": ["nurse"] * 30}, seed=1)),
]
each = pytest.mark.parametrize("tally", TALLIES, ids=["of a mechanism", "of a plan"])


@each
def test_there_and_back(tally):
    data = tally.to_bytes(key=KEY)
    assert type(tally).from_bytes(data, key=KEY) == tally
    assert type(tally).from_bytes(data) == tally  # a seal hides nothing
    assert is_sealed(data)
    assert not is_sealed(tally.to_bytes())
    assert data == tally.to_bytes(key=bytearray(KEY))


@each
def test_by_hand(tally):
    """The format, as docs/formats.md has it."""
    stored = msgspec.msgpack.decode(tally.to_bytes(key=KEY))
    assert list(stored) == ["format", "seal", "tally"]
    assert stored["format"] == "dither sealed tally 1"
    assert stored["tally"] == tally.to_bytes()
    assert stored["seal"] == hmac.digest(KEY, b"dither sealed tally 1\0" + tally.to_bytes(), "sha256")


@each
def test_unsealed_and_foreign_tallies_are_refused_where_there_is_a_key(tally):
    read = type(tally).from_bytes
    with pytest.raises(TallyError, match="no seal, so nobody knows who counted it: have it sealed"):
        read(tally.to_bytes(), key=KEY)
    with pytest.raises(TallyError, match="sealed with another key, or changed"):
        read(tally.to_bytes(key=OTHER), key=KEY)


@each
def test_no_byte_can_be_changed(tally):
    data = tally.to_bytes(key=KEY)
    for place in range(len(data)):
        forged = bytearray(data)
        forged[place] ^= 1
        with pytest.raises(TallyError):
            type(tally).from_bytes(bytes(forged), key=KEY)
    for cut in (data[:-1], data + b"\0", data[: len(data) // 2]):
        with pytest.raises(TallyError):
            type(tally).from_bytes(cut, key=KEY)
        with pytest.raises(TallyError):
            type(tally).from_bytes(cut)


def test_a_seal_of_one_kind_is_none_of_another():
    one, plan = (tally.to_bytes(key=KEY) for tally in TALLIES)
    with pytest.raises(TallyError):
        Tally.from_bytes(plan, key=KEY)
    with pytest.raises(TallyError):
        PlanTally.from_bytes(one, key=KEY)
    with pytest.raises(TallyError):  # not a seal of a seal either
        PlanTally.from_bytes(sealed(plan, KEY), key=KEY)


@pytest.mark.parametrize("key", [b"", b"short", KEY[:31], "x" * 32, 7, object()])
def test_a_key_that_is_none(key):
    for call in (lambda: TALLIES[0].to_bytes(key=key), lambda: unsealed(TALLIES[0].to_bytes(key=KEY), key)):
        with pytest.raises(ParameterError, match="32 random bytes or more: dither key FILE writes") as caught:
            call()
        assert "short" not in str(caught.value)


def test_key_files(tmp_path):
    place = tmp_path / "tallies.key"
    write_key(place)
    assert len(read_key(place)) == 32
    if os.name == "posix":
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
    before = place.read_bytes()
    with pytest.raises(WriteError, match="there already, and is not replaced"):
        write_key(place)
    assert place.read_bytes() == before
    write_key(tmp_path / "other.key")
    assert (tmp_path / "other.key").read_bytes() != before
    with pytest.raises(WriteError, match="no such file or directory"):
        write_key(tmp_path / "nowhere" / "key")
    with pytest.raises(ParameterError, match=r"cannot be read: no such file.*dither key FILE"):
        read_key(tmp_path / "nowhere")
    (tmp_path / "short").write_bytes(b"secret words")
    with pytest.raises(ParameterError, match="32 random bytes or more") as caught:
        read_key(tmp_path / "short")
    assert "secret" not in str(caught.value)
    (tmp_path / "long").write_bytes(bytes(1 << 17))
    with pytest.raises(ParameterError, match="no key file"):
        read_key(tmp_path / "long")
