"""Seals: a tally that says who counted it.

Anybody can write down a tally. Where several servers count and one adds up, they share a key, and a tally is *sealed*
with it: HMAC-SHA-256 over its bytes stands beside them. Whoever has the key sees that the tally was sealed by somebody
who has it, and that nothing has changed since. A seal hides nothing: sealed bytes are read without a key as well, and
then nobody knows who counted. It does not keep an old tally from being handed in again; the list of its files does.

    {"format": "dither sealed tally 1", "seal": 32 bytes, "tally": the bytes of the tally}

The tally's own bytes are those that it has without a seal. They name their own format, so a seal of one kind of tally
is none of another.
"""

import hmac
import os
from pathlib import Path
from typing import Annotated, Any

import msgspec

from dither.core.decoding import decoded
from dither.core.randomness import secret
from dither.errors import ParameterError, TallyError, WriteError

LEAST_KEY = 32  # bytes
_MOST_KEY = 1 << 16

_FORMAT = "dither sealed tally 1"
_HEAD = 40  # bytes in which the format is named
_SEAL = 32  # bytes


class SealedFormat(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    seal: Annotated[bytes, msgspec.Meta(min_length=_SEAL, max_length=_SEAL)]
    tally: bytes


def write_key(path: str | Path) -> None:
    """Write a new key to a file that only its owner can read; one that is there is never replaced.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "tallies.key"
    >>> write_key(place)
    >>> len(place.read_bytes()), oct(place.stat().st_mode & 0o777)
    (32, '0o600')
    """
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise WriteError(
            f"{path} is there already, and is not replaced: what it has sealed could not be told from what others wrote"
        ) from None
    except OSError as error:
        raise WriteError(f"cannot write {path}: {os.strerror(error.errno or 0).lower()}") from None
    with os.fdopen(number, "wb") as file:
        file.write(secret(LEAST_KEY))


def read_key(path: str | Path) -> bytes:
    """The key in a file: all its bytes, as they are."""
    try:
        with open(path, "rb") as file:
            key = file.read(_MOST_KEY + 1)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise ParameterError(f"the key file {path} cannot be read: {reason}; dither key FILE writes one") from None
    if len(key) > _MOST_KEY:
        raise ParameterError(f"{path} is no key file: it has more than {_MOST_KEY:,} bytes; dither key FILE writes one")
    return checked_key(key)


def checked_key(key: Any) -> bytes:
    """A key that is long enough; its bytes are in no message."""
    if len(_view(key)) < LEAST_KEY:
        raise ParameterError(
            f"a key to seal tallies with is {LEAST_KEY} random bytes or more: dither key FILE writes a file of them"
        )
    return bytes(key)


def seal_of(data: bytes, key: bytes) -> bytes:
    """The seal of these bytes, which name what they are."""
    return hmac.digest(key, _FORMAT.encode() + b"\0" + data, "sha256")


def sealed(data: bytes, key: bytes) -> bytes:
    """These bytes with a seal."""
    return msgspec.msgpack.encode({"format": _FORMAT, "seal": seal_of(data, checked_key(key)), "tally": data})


def is_sealed(data: Any) -> bool:
    """Whether these bytes have a seal, right or wrong."""
    return _FORMAT.encode() in bytes(_view(data)[:_HEAD])


def unsealed(data: Any, key: bytes | None = None) -> bytes:
    """The bytes under a seal, which must be one of this key; without a key any bytes, whoever they are from."""
    if key is not None:
        checked_key(key)
    if not is_sealed(data):
        if key is not None:
            raise TallyError(
                "this tally has no seal, so nobody knows who counted it: have it sealed where it is counted (dither "
                "tally --key FILE), or leave it out"
            )
        return data
    what = "these bytes are a damaged seal"
    try:
        stored = decoded(msgspec.msgpack.decode(data, type=dict), SealedFormat, what, TallyError)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        stored = None
    if stored is None or msgspec.msgpack.encode(msgspec.structs.asdict(stored)) != bytes(data):
        raise TallyError(f"{what}: they are not what a sealed tally is")
    if key is not None and not hmac.compare_digest(stored.seal, seal_of(stored.tally, bytes(key))):
        raise TallyError(
            "this tally was sealed with another key, or changed after it was sealed: leave it out, or use the key of "
            "those who counted it"
        )
    return stored.tally


def _view(data: Any) -> memoryview:
    """The bytes of what has bytes; none of anything else."""
    try:
        return memoryview(data).cast("B")
    except (TypeError, ValueError):
        return memoryview(b"")
