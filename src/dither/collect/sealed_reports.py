"""Sealed reports: what a device hands to a shuffler, which carries it and cannot read it.

A device encrypts its reports to the public key of the collector by HPKE (RFC 9180, base mode): X25519, HKDF-SHA256,
AES-128-GCM, from `cryptography`. HPKE calls the two acts *seal* and *open*. (A sealed *tally*, `core.seals`, is
something else: it is signed, and hides nothing.)

**A message.** All numbers are little-endian and unsigned.

    0   4  magic, "DTHS"
    4   2  version of the format, 1
    6   2  flags: bit 0 if this one message holds the reports of many users; all others are 0
    8   8  id of the key: the first bytes of SHA-256 of the public key
    16  4  round of the plan, from 0; 0 in a plan without rounds
    20  4  crowd, from 0
    24  4  users: 1, or how many the message holds the reports of
    28 32  encapsulated key
    60     ciphertext, with a tag of 16 bytes at its end

`info` of HPKE is the text "dither sealed reports", the 28 bytes of the head and the 32 of the plan's hash. So whoever
changes the head, or hands a message in for another plan, has a message that does not open.

**What is in it** is a batch in the wire format (`dither.wire`), behind its length in 4 bytes and before zeros that fill
it up to the largest that the plan can have. So all messages of a plan have one size, and their length does not tell
which question was answered. Only the message of many users has the size that it needs.

**Crowds.** Who hides whom: reports that a shuffler may mix, since the collector cannot tell them apart but by their
randomized content. A round is public, and so is a group of the plan: whoever is alone in hers is alone. So round and
crowd stand in the head, and the shuffler mixes what agrees in both, and in the key. It learns nothing by that: rounds
follow the calendar, and groups are of attributes that are public.

- Where a user answers *one* question, it is a part of what is randomized: users hide each other whatever they answer.
  The crowd is the whole plan, or the group, and the shuffler does not learn the question.
- Where a user answers *every* question, each report is a message of its own, and a crowd is all reports about one
  question, which everybody sends: n users hide each other in every part (`planning.shuffled_plans`).
- Where she answers several of many, they stay together in one message, and the crowd is as with one question.

The keys are in `sealing_keys`, and what a collector does with a batch of messages is in `sealed_batches`.
"""

import base64
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from dither.core.randomness import Stream
from dither.core.reports import SIMULATED, Reports
from dither.errors import CollectorError, MissingExtraError, ParameterError, ReportError, WireError
from dither.planning.plans import Plan
from dither.wire import BatchFormat
from dither.wire.frames import HEAD_BYTES as FRAME_BYTES
from dither.wire.frames import (
    MALFORMED,
    MOST_BYTES,
    SECTION_BYTES,
    TOO_LARGE,
    TRUNCATED,
    UNKNOWN_VERSION,
    Frame,
    FrameSection,
    frame_bytes,
)

CONTENT_TYPE = "application/vnd.dither.sealed-reports"
SUITE = {"kem": "DHKEM(X25519, HKDF-SHA256)", "kdf": "HKDF-SHA256", "aead": "AES-128-GCM"}

# Why a message is not counted, beside the words of `dither.wire`.
UNKNOWN_KEY, EXPIRED_KEY, NOT_OPENED, MISLABELLED = "unknown key", "expired key", "not opened", "mislabelled"

MAGIC, VERSION = b"DTHS", 1
LABEL = b"dither sealed reports"
KEY_ID_BYTES, KEY_BYTES = 8, 32
_HEAD = struct.Struct("<4sHH8sIII")
_LENGTH = struct.Struct("<I")
HEAD_BYTES = _HEAD.size
ENCAPSULATED_BYTES, TAG_BYTES = 32, 16
LEAST_BYTES = HEAD_BYTES + ENCAPSULATED_BYTES + TAG_BYTES
_MANY = 1


class Head(NamedTuple):
    """What stands before the ciphertext, for the shuffler to read."""

    key: bytes
    round: int = 0
    crowd: int = 0
    users: int = 1
    many: bool = False

    def to_bytes(self) -> bytes:
        """The first bytes of a message."""
        return _HEAD.pack(MAGIC, VERSION, _MANY * self.many, self.key, self.round, self.crowd, self.users)

    @property
    def mixed_with(self) -> bytes:
        """The same for all messages that may be in one batch: the key, the round and the crowd."""
        return self.key + _LENGTH.pack(self.round) + _LENGTH.pack(self.crowd)


def read_head(message: Any) -> Head:
    """The head of a message. Whatever is none raises `WireError`.

    >>> read_head(Head(b"abcdefgh", 1, 2).to_bytes() + bytes(48)).crowd
    2
    """
    if bytes(message[:4]) != MAGIC:
        raise WireError(MALFORMED, "these bytes are no sealed report: dither.collect.Client makes them")
    if len(message) < LEAST_BYTES:
        raise WireError(TRUNCATED, "this sealed report is not whole")
    _, version, flags, key, number, crowd, users = _HEAD.unpack_from(message)
    if version != VERSION:
        raise WireError(UNKNOWN_VERSION, f"this sealed report is not of version {VERSION}, the only one known here")
    if flags not in (0, _MANY) or users < 1 or (not flags and users != 1):
        raise WireError(MALFORMED, "the head of this sealed report contradicts itself")
    return Head(key, number, crowd, users, flags == _MANY)


def split_messages(body: Any, size: int) -> list[bytes]:
    """The messages of a request or a batch: of one size one after another, or a single one of many users."""
    if len(body) > MOST_BYTES:
        raise WireError(TOO_LARGE, f"more than {MOST_BYTES:,} bytes at a time: send fewer sealed reports")
    if read_head(body).many:
        return [bytes(body)]
    if len(body) % size:
        raise WireError(TRUNCATED, "these are not whole sealed reports of this plan, which have one size")
    return [bytes(body[at : at + size]) for at in range(0, len(body), size)]


def key_id(public: bytes) -> bytes:
    """What a key is called in messages."""
    return sha256(public).digest()[:KEY_ID_BYTES]


def public_key_of(document: Any) -> bytes:
    """The key to seal to, from what a collector says about its keys (`GET /v1/plans/{hash}/keys`)."""
    rows = document.get("keys") if isinstance(document, dict) else None
    for row in rows if isinstance(rows, list) else ():
        told = row if isinstance(row, dict) else {}
        try:
            key = base64.b64decode(str(told.get("public")), validate=True)
        except ValueError:
            continue
        if len(key) == KEY_BYTES and key_id(key).hex() == told.get("id"):
            return key
    raise CollectorError("the collector has no key that reports could be sealed to; nothing was reported")


def sealing_info(head: bytes, plan: bytes) -> bytes:
    """What a ciphertext is bound to."""
    return LABEL + head + plan


@cache
def hpke_suite() -> Any:
    """HPKE as `cryptography` has it, from version 50 on."""
    try:
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    except ImportError:
        suite = None
    else:
        suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    if suite is None:
        raise MissingExtraError("sealed reports need cryptography 50 or newer: pip install 'dither[seal]'")
    return suite


@dataclass(frozen=True)
class CrowdOfPlan:
    """Reports of a plan that hide each other: the numbers of their parts, and how many reports a user sends of them."""

    parts: frozenset[int]
    reports: int


def crowds_of(plan: Plan) -> tuple[CrowdOfPlan, ...]:
    """The crowds of a plan, in the order of their numbers.

    >>> import dither
    >>> plan = dither.plan(dither.Schema({"age": dither.Ordinal(0, 3)}), epsilon=2.0, users=10_000)
    >>> crowds_of(plan)
    (CrowdOfPlan(parts=frozenset({0}), reports=1),)
    """
    crowds, first = list[CrowdOfPlan](), 0
    for asked in [group.asked for group in plan.groups] or [plan]:
        own = range(first, first + len(asked.parts))
        if 1 < asked.questions_per_user == len(own):
            crowds.extend(CrowdOfPlan(frozenset({part}), 1) for part in own)
        else:
            crowds.append(CrowdOfPlan(frozenset(own), asked.questions_per_user))
        first = own.stop
    return tuple(crowds)


class SealedReportFormat:
    """The sealed reports of one plan. Make it once for each plan."""

    def __init__(self, plan: Plan) -> None:
        self.wire, self.crowds = BatchFormat(plan), crowds_of(plan)
        self.plan_hash = bytes.fromhex(plan.fingerprint)
        widths = [part.mechanism.dtype.itemsize for part in plan.parts]
        largest = 0
        for crowd in self.crowds:
            own = sorted((widths[part] for part in crowd.parts), reverse=True)[: crowd.reports]
            largest = max(largest, sum(own) + SECTION_BYTES * len(own))
        self.padded = _LENGTH.size + FRAME_BYTES + largest
        self.size = LEAST_BYTES + self.padded

    # Sealing -------------------------------------------------------------------------------------------------------

    def seal(
        self, reports: Mapping[str, Reports], public_key: bytes, *, period: str | int | None = None
    ) -> list[bytes]:
        """The messages of one user: `reports` are what `plan.report` or a ledger gave. All have the same size."""
        drawn = [place for place, name in enumerate(self.wire.names) if len(reports[name])]
        found = list[bytes]()
        for number, crowd in enumerate(self.crowds):
            own = [place for place in drawn if place in crowd.parts]
            if not own:
                continue
            if len(own) != crowd.reports or any(len(reports[self.wire.names[place]]) != 1 for place in own):
                raise ReportError("seal the reports of one user at a time: what plan.report(record) gave")
            batch = self._batch(reports, set(own), period)
            padded = (_LENGTH.pack(len(batch)) + batch).ljust(self.padded, b"\0")
            found.append(self.sealed(Head(key_id(public_key), self._round(batch), number), padded, public_key))
        return found

    def seal_many(
        self, reports: Mapping[str, Reports], public_key: bytes, *, period: str | int | None = None
    ) -> list[bytes]:
        """The messages of a server that reports for many users of its own: one for each crowd.

        The reports are put into a random order first. One message costs as much as that of one user; but its users are
        hidden among each other alone, since the collector sees that they came together.
        """
        found = list[bytes]()
        for number, crowd in enumerate(self.crowds):
            batch = self._batch(reports, set(crowd.parts), period)
            count = sum(section.reports for section in self.wire.frame(batch).sections)
            if not count:
                continue
            if count % crowd.reports:
                raise ReportError("some of these users have sent fewer reports than the plan asks for")
            head = Head(key_id(public_key), self._round(batch), number, count // crowd.reports, many=True)
            found.append(self.sealed(head, _LENGTH.pack(len(batch)) + batch, public_key))
        return found

    def _batch(self, reports: Mapping[str, Reports], parts: set[int], period: str | int | None) -> bytes:
        """The wire batch of some parts, the reports of each in a random order."""
        mixed = {}
        for place, name in enumerate(self.wire.names):
            own: Any = reports[name]
            mixed[name] = own[Stream.secure().order(len(own))] if place in parts else own[:0]
        batch = self.wire.pack(mixed, period=period)
        if self.wire.frame(batch).simulated:
            raise ReportError("these reports are simulated from a seed, and protect nobody: they are not sealed")
        return batch

    def _round(self, batch: bytes) -> int:
        return self.wire.frame(batch).round

    def sealed(self, head: Head, plaintext: bytes, public_key: bytes) -> bytes:
        """One message, with whatever is in it."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        if len(public_key) != KEY_BYTES:
            raise ParameterError(f"the public key of a collector has {KEY_BYTES} bytes")
        first = head.to_bytes()
        key = X25519PublicKey.from_public_bytes(public_key)
        sealed = first + hpke_suite().encrypt(plaintext, key, sealing_info(first, self.plan_hash))
        if len(sealed) > MOST_BYTES:
            raise WireError(TOO_LARGE, f"a message has at most {MOST_BYTES:,} bytes: seal the reports of fewer users")
        return sealed

    # Opening -------------------------------------------------------------------------------------------------------

    def opened(self, message: bytes, private_key: Any) -> bytes:
        """The wire batch in a message, which agrees with its head. Else `WireError`.

        A `WireError` of its own kind says that it does not open: it was made for another plan or key, or was changed.
        """
        head = read_head(message)
        try:
            plain = hpke_suite().decrypt(
                message[HEAD_BYTES:], private_key, sealing_info(message[:HEAD_BYTES], self.plan_hash)
            )
        except Exception:  # of a library: whatever it says, the message does not open
            plain = None
        if plain is None:
            raise WireError(NOT_OPENED, "this message does not open: it is for another plan, or was changed")
        if len(plain) < _LENGTH.size:
            raise WireError(MALFORMED, "there is no batch in this message")
        end = _LENGTH.size + _LENGTH.unpack_from(plain)[0]
        if end > len(plain) or plain.count(0, end) != len(plain) - end:
            raise WireError(MALFORMED, "what is in this message does not end where it says")
        batch = plain[_LENGTH.size : end]
        self._agree(head, batch)
        return batch

    def _agree(self, head: Head, batch: bytes) -> None:
        frame = self.wire.frame(batch)
        if frame.simulated:
            raise WireError(SIMULATED, "these reports were simulated from a seed, and protect nobody")
        crowd = self.crowds[head.crowd] if head.crowd < len(self.crowds) else None
        strange = crowd is None or any(section.part not in crowd.parts for section in frame.sections)
        if strange or frame.round != head.round:
            raise WireError(MISLABELLED, "the head of this message names another round or crowd than its reports")
        if sum(section.reports for section in frame.sections) != head.users * (crowd.reports if crowd else 0):
            raise WireError(MISLABELLED, "the head of this message names another number of users than its reports")
        if not head.many and len(frame.sections) != sum(section.reports for section in frame.sections):
            raise WireError(MISLABELLED, "this message answers one question twice")


def merged(batches: Sequence[bytes], wire: BatchFormat) -> bytes:
    """Batches of one round as one: reports of one part and width behind each other, in the order of the batches."""
    blocks: dict[tuple[int, int], list[bytes]] = {}
    number = 0
    for batch in batches:
        frame = wire.frame(batch)
        number, offset = frame.round, frame.rows
        for section in frame.sections:
            blocks.setdefault((section.part, section.width), []).append(batch[offset : offset + section.size])
            offset += section.size
    ordered = [(part, width, b"".join(rows)) for (part, width), rows in sorted(blocks.items())]
    sections = tuple(FrameSection(part, width, len(rows) // width) for part, width, rows in ordered)
    frame = Frame(bytes.fromhex(wire.plan.fingerprint), number, False, sections)
    return frame_bytes(frame, [rows for _, _, rows in ordered])
