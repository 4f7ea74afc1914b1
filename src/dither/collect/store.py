"""The store of a collector: what is on disk, and what that promises.

**The unit is the batch.** A client sends a batch of reports with an *idempotency key* of its own making, and sends the
same bytes under the same key again until it hears an answer. The store keeps the key for good, so a batch is counted
once however often it arrives; the same key with other bytes is a conflict. A row a batch is 20 times as fast as a row a
report, and is all that a retry needs.

**What is kept of a batch.** Until it is counted, its bytes. After that, a hash of the key, a digest of the bytes, and
how many of its reports were accepted, for the answer to a retry. The digest is keyed with the idempotency key, which is
not stored: a batch of one report about four categories has four possible digests, and a plain hash that stays would be
the report that was scrubbed.

**Commit groups.** Batches that arrive together are committed in one transaction (`commit`), and answered when it is on
the disk. Their bytes are one row, a *raw group*.

**Counting** happens by raw groups too, and later: `fold` adds the counts of some of them to the tally of their
campaign and marks or removes the groups, in one transaction. So a group is either waiting or in the tally, whenever
the power fails. Tallies are integers: the result is `plan.tally` of all reports, to the bit, in whatever order.

**Arrivals** are counts of reports by the minute and by what became of them, written with the batch that they came in.
They hold no address, no key and nothing of a report. After a day the minutes of an hour are added up: who reported
alone in a minute is then one of those who did in an hour.

This file is the protocol; `sqlite_store` is for one collector, `postgres_store` for several on one database; what both
do in the same words is in `sql_store`.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from dither.errors import DitherError
from dither.planning.plan_tally import PlanTally

VERSION = 2  # of the tables

OPEN, CLOSED = "open", "closed"
NEW, DUPLICATE, CONFLICT = "new", "duplicate", "conflict"
CLIENT, ANALYST, SHUFFLER = "client", "analyst", "shuffler"
REVOKED = 0  # the time at which a token expires that was revoked

ACCEPTED = "accepted"  # what became of a report that is counted; otherwise it is the reason why it is not
MINUTES = 24 * 60  # for how long arrivals are kept by the minute

_KEY_BYTES = 16


class StoreError(DitherError, OSError):
    """A store that cannot be opened, read or written; nothing was acknowledged."""


class StoreFullError(StoreError):
    """There is no room for what was sent; nothing was acknowledged."""


class Submission(NamedTuple):
    """A checked batch, ready to be committed."""

    campaign: int
    key: bytes  # a hash of the idempotency key
    digest: bytes  # of the bytes, keyed with the idempotency key
    body: bytes
    accepted: int
    rejected: Mapping[str, int]  # by the reason


class Outcome(NamedTuple):
    """What became of a batch; of a duplicate, what was answered at first."""

    status: Literal["new", "duplicate", "conflict"]
    accepted: int
    rejected: Mapping[str, int]


class RawGroup(NamedTuple):
    """Batches of one campaign that were committed together, and wait to be counted."""

    number: int
    campaign: int
    size: int  # in bytes


@dataclass(frozen=True)
class Campaign:
    """A plan that is collected for."""

    number: int
    plan: str  # its hash
    document: bytes  # plan.json, as it was given
    state: str
    closes: int | None = None  # when it expires, in seconds since 1970
    keep: int = 0  # for how many hours raw batches stay after they were counted

    def is_open(self, now: float) -> bool:
        """Whether reports are taken at this time."""
        return self.state == OPEN and (self.closes is None or now < self.closes)


@dataclass(frozen=True)
class Token:
    """What somebody may do, by the hash of a secret that they have."""

    digest: bytes
    role: str
    campaign: int | None  # of all, if None
    expires: int | None


@dataclass(frozen=True)
class Counted:
    """The tallies of a campaign as they are stored, and what they do not count yet."""

    tallies: Mapping[int, PlanTally]  # by the round, from 0; of those that there are reports of
    waiting: int  # batches that are acknowledged and wait to be counted
    batches: int = field(default=0)  # that were ever acknowledged


class Arrival(NamedTuple):
    """How many reports came in a minute, and what became of them; after a day, in the hour that begins with it."""

    minute: int  # since 1970
    outcome: str  # ACCEPTED, or why they were rejected
    reports: int


class Crowds(NamedTuple):
    """The batches that a shuffler forwarded: how many, of how many users, and how many the smallest has."""

    batches: int = 0
    users: int = 0
    smallest: int = 0


class Store(Protocol):
    """Batches, tallies, campaigns, tokens and the log of queries. Every method may be called from any thread."""

    def campaigns(self) -> list[Campaign]:
        """All campaigns, in the order in which they were added."""
        ...

    def add_campaign(self, plan: str, document: bytes) -> Campaign:
        """A campaign for a plan, open; the one that is there, if there is one."""
        ...

    def change_campaign(self, number: int, *, state: str | None = None, closes: int | None = None) -> None:
        """Open or close a campaign, or set when it expires."""
        ...

    def keep_reports(self, number: int, hours: int) -> None:
        """For how long raw batches stay after they were counted."""
        ...

    def delete_campaign(self, number: int) -> None:
        """Remove all that is stored of a campaign, from the disk and from the write-ahead log."""
        ...

    def commit(self, submissions: Sequence[Submission]) -> tuple[list[Outcome], dict[int, int]]:
        """Store batches, in one transaction. When it returns, they are on the disk.

        The outcome of each, and for each campaign with a new batch the number of its raw group, which holds the new
        ones in their order.
        """
        ...

    def note_crowd(self, campaign: int, key: bytes, users: int) -> None:
        """Note, before it is committed, of how many users a shuffled batch is; under the hash of its key, once."""
        ...

    def crowds(self, campaign: int) -> Crowds:
        """The shuffled batches of a campaign."""
        ...

    def arrivals(self, campaign: int) -> list[Arrival]:
        """How many reports of a campaign came when, by what became of them, in the order of time."""
        ...

    def waiting(self) -> list[RawGroup]:
        """Raw groups that wait to be counted, the oldest first: this collector's, and those of dead ones."""
        ...

    def waiting_batches(self, campaign: int) -> int:
        """How many batches of a campaign are acknowledged and wait to be counted, by whomever."""
        ...

    def bodies(self, number: int) -> list[bytes]:
        """The batches of a raw group; none if it is not there any more."""
        ...

    def raw_groups(self, campaign: int) -> list[RawGroup]:
        """All raw groups of a campaign that are there, whether they wait or are kept after they were counted."""
        ...

    def identity(self, campaign: int) -> str:
        """A random name of a campaign in this store, the same for good: numbers of groups mean something beside it."""
        ...

    def fold(self, campaign: int, groups: Sequence[int], added: Mapping[int, PlanTally]) -> bool:
        """Add the tallies of raw groups, one for each round, to those of their campaign; scrub them unless kept.

        False, and nothing is done, if some of the groups do not wait any more: another collector has counted them, or
        the campaign was deleted.
        """
        ...

    def counted(self, campaign: int) -> Counted:
        """The tallies of a campaign, and how many batches wait."""
        ...

    def scrub(self, now: float) -> int:
        """Remove raw batches that were counted and whose time is over, and what the log holds of them; how many.

        Arrivals of more than a day ago become those of an hour.
        """
        ...

    def checkpoint(self) -> None:
        """Keep what the store writes beside its tables short, if there is such a thing."""
        ...

    def add_token(self, token: Token) -> None:
        """A token that is known from now on; one that is known stays what it is, revoked or not."""
        ...

    def tokens(self) -> list[Token]:
        """All tokens that are known."""
        ...

    def revoke_token(self, digest: bytes) -> None:
        """A token opens nothing any more; it stays known, so that a campaign that asks for tokens goes on asking."""
        ...

    def log_query(self, time: int, campaign: int, kind: str, detail: str, token: bytes | None) -> None:
        """Note what an analyst asked, and by which token."""
        ...

    def queries(self, campaign: int | None = None) -> list[tuple[int, int, str, str, bytes | None]]:
        """The log of analysts' queries: time, campaign, kind, detail, and the digest of the token."""
        ...

    def backup(self, path: str) -> None:
        """A copy of the whole store, while it is used."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


def key_hash(plan: str, key: bytes) -> bytes:
    """What is stored of an idempotency key.

    >>> key_hash("abc", b"a4f1").hex()
    '6b0c19a0a88b37cd1d4b28d3a0332177'
    """
    return hashlib.sha256(plan.encode() + b" " + key).digest()[:_KEY_BYTES]


def body_digest(key: bytes, body: bytes) -> bytes:
    """What is stored of the bytes of a batch, and says nothing about them to those who do not have the key."""
    return hmac.digest(key, body, "sha256")


def arrived(new: Sequence[Submission]) -> dict[tuple[int, str], int]:
    """How many reports of each campaign new batches bring, by what became of them; in an order that is always the same.

    >>> arrived([Submission(1, b"", b"", b"", 5, {}), Submission(1, b"", b"", b"", 2, {"malformed": 1})])
    {(1, 'accepted'): 7, (1, 'malformed'): 1}
    """
    counts: Counter[tuple[int, str]] = Counter()
    for each in new:
        counts[each.campaign, ACCEPTED] += each.accepted
        for reason, reports in each.rejected.items():
            counts[each.campaign, reason] += reports
    return {place: counts[place] for place in sorted(counts) if counts[place]}
