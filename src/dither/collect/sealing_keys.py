"""The keys that reports are sealed to: made here, kept in a folder, published by the collector.

A key has a state, as in the data model of Janus (an aggregator of the Distributed Aggregation Protocol):

- `pending`: it opens, and is not published yet. Where several collectors share a campaign, each gets the key first;
- `active`: it opens, and devices are told to seal to it;
- `expired`: it is not published any more. It still opens for some time (`opens_until`), since messages that were sealed
  to it may wait at a shuffler or on a device that is offline. After that it is erased, and what comes is rejected.

So keys are changed without losing a report: make a new one, expire the old one with a grace.

**The private half** is in a file that only its owner can read (mode 0600, in a folder of mode 0700). It is never
printed, never in a `repr`, and cannot be pickled. A copy of it and of all messages is all reports, still randomized,
and still without a name: what a key protects is the *link* between a device and its report.
"""

import base64
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from dither.collect.sealed_reports import KEY_BYTES, key_id
from dither.core.atomic_write import write_bytes
from dither.core.randomness import secret
from dither.errors import DitherError, ParameterError

PENDING, ACTIVE, EXPIRED = "pending", "active", "expired"
STATES = (PENDING, ACTIVE, EXPIRED)
GRACE_HOURS = 7 * 24
FOLDER = "keys"  # in the folder of a store

_FORMAT, _ENDING = "dither sealing key 1", ".key"


class KeyFileError(DitherError, OSError):
    """A key that cannot be read or written."""


class KeyFormat(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    state: str
    public: str  # in Base64
    private: str | None = None  # None once it was erased
    opens_until: int | None = None  # of an expired one, in seconds since 1970


@dataclass(frozen=True, repr=False, eq=False)
class SealingKey:
    """A pair of keys, and what it is good for."""

    public: bytes
    state: str
    private: bytes | None
    opens_until: int | None = None

    @property
    def name(self) -> str:
        """Its id in hexadecimal digits."""
        return key_id(self.public).hex()

    def __repr__(self) -> str:
        return f"SealingKey({self.name}, {self.state})"

    def __reduce__(self):
        raise ParameterError("a key that opens reports is not pickled: read it where it is used, from its folder")

    def opens(self, now: float) -> bool:
        """Whether messages to it are opened at this time."""
        return self.private is not None and (self.opens_until is None or now < self.opens_until)

    def opener(self) -> Any:
        """The private half, as `cryptography` takes it."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        if self.private is None:
            raise ParameterError(f"the private half of key {self.name} was erased")
        return X25519PrivateKey.from_private_bytes(self.private)

    def published(self) -> dict[str, str]:
        """What everybody may know of it."""
        return {"id": self.name, "state": self.state, "public": base64.b64encode(self.public).decode()}


def new_key(state: str = ACTIVE) -> SealingKey:
    """A key from the random bits of the operating system.

    >>> new_key().state
    'active'
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = secret(KEY_BYTES)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    return SealingKey(public, state, private)


class KeyFolder:
    """The keys of a collector: a file for each.

    >>> import tempfile
    >>> folder = KeyFolder(tempfile.mkdtemp())
    >>> made = folder.add(new_key())
    >>> [key.state for key in folder.stored()], folder.active().name == made.name
    (['active'], True)
    >>> folder.expire(made.name, hours=0).state
    'expired'
    >>> folder.active() is None, folder.stored()[0].private is None
    (True, True)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def stored(self) -> list[SealingKey]:
        """All keys, by their names."""
        try:
            paths = sorted(self.folder.glob(f"*{_ENDING}"))
        except OSError as error:
            raise self._failure("read", error) from None
        return [self._read(path) for path in paths]

    def active(self) -> SealingKey | None:
        """The key that devices seal to; the first by its name, if there are several."""
        return next((key for key in self.stored() if key.state == ACTIVE), None)

    def add(self, key: SealingKey) -> SealingKey:
        """Keep a key."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._failure("write to", error) from None
        stored = KeyFormat(
            _FORMAT,
            key.state,
            base64.b64encode(key.public).decode(),
            None if key.private is None else base64.b64encode(key.private).decode(),
            key.opens_until,
        )
        write_bytes(self._path(key.name), msgspec.json.encode(stored), private=True)
        return key

    def activate(self, name: str) -> SealingKey:
        """Publish a pending key."""
        key = self._named(name)
        if key.state == EXPIRED:
            raise ParameterError("an expired key does not become active again: make a new one with dither keys new")
        return self.add(replace(key, state=ACTIVE))

    def expire(self, name: str, hours: float = GRACE_HOURS) -> SealingKey:
        """Publish a key no more, and open messages to it for so many hours."""
        key, now = self._named(name), time.time()
        until = int(now + 3600 * hours)
        if key.opens_until is not None:
            until = min(until, key.opens_until)
        return self.add(replace(key, state=EXPIRED, opens_until=until, private=key.private if until > now else None))

    def erase_expired(self, now: float) -> list[SealingKey]:
        """Erase the private halves whose time is over; those keys."""
        done = [key for key in self.stored() if key.private is not None and not key.opens(now)]
        return [self.add(replace(key, private=None)) for key in done]

    def _named(self, name: str) -> SealingKey:
        found = [key for key in self.stored() if name and key.name.startswith(name.lower())]
        if len(found) != 1:
            raise ParameterError(f"{len(found)} keys in {self.folder} begin so: dither keys list has all of them")
        return found[0]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_ENDING}"

    def _read(self, path: Path) -> SealingKey:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise self._failure("read", error) from None
        key = None
        try:
            found = msgspec.json.decode(data, type=KeyFormat)
            private = None if found.private is None else base64.b64decode(found.private, validate=True)
            key = SealingKey(base64.b64decode(found.public, validate=True), found.state, private, found.opens_until)
            sound = found.format == _FORMAT and found.state in STATES and path.stem == key.name
            sound = sound and {len(each) for each in (key.public, key.private) if each is not None} == {KEY_BYTES}
        except (msgspec.MsgspecError, ValueError):  # what they say may quote a key
            sound = False
        if key is None or not sound:
            raise KeyFileError(f"{path} is no key that dither keys made: remove it, or restore it from a backup")
        return key

    def _failure(self, act: str, error: OSError) -> KeyFileError:
        return KeyFileError(f"cannot {act} the folder of keys {self.folder}: {os.strerror(error.errno or 0).lower()}")


def key_folder(store: str) -> str | None:
    """Where the keys of a store are, if it is a folder."""
    return None if "://" in store else str(Path(store) / FOLDER)


class OpeningKeys:
    """The keys of a folder as a collector uses them: read again at most once a second."""

    def __init__(self, folder: KeyFolder, lasts: float = 1.0) -> None:
        self.folder, self._lasts, self._read = folder, lasts, -lasts
        self._keys: dict[bytes, SealingKey] = {}
        self._openers: dict[bytes, Any] = {}

    def refreshed(self) -> dict[bytes, SealingKey]:
        """All keys by their ids."""
        now = time.monotonic()
        if now - self._read >= self._lasts:
            self.folder.erase_expired(time.time())
            self._keys = {key_id(key.public): key for key in self.folder.stored()}
            self._openers = {name: key.opener() for name, key in self._keys.items() if key.opens(time.time())}
            self._read = now
        return self._keys

    def opener(self, name: bytes, now: float) -> Any:
        """The private half of a key that opens at this time, or None."""
        key = self._keys.get(name)
        return self._openers.get(name) if key is not None and key.opens(now) else None

    def published(self) -> Iterator[dict[str, str]]:
        """What devices are told."""
        return (key.published() for key in self.refreshed().values() if key.state == ACTIVE)
