"""What a shuffler has on disk: messages that wait, and batches on their way. It holds ciphertexts and nothing else.

One SQLite database with a write-ahead log and `synchronous=FULL`: what has returned is on the disk.

- `waiting`: messages by the crowd they are mixed with (`sealed_reports.Head.mixed_with`) and a hash of their bytes. The
  table is *sorted by the hash*, so the order in which they came is not in it; there is no time, no address and no row
  number.
- `seen`: the hashes of all messages of a campaign that were ever taken. A retry has the same bytes, so it is known.
- `outgoing`: batches that are mixed and have their idempotency key. What is here has left `waiting` in the same
  transaction, and stays until the collector has acknowledged it. So a batch is forwarded with the same bytes and under
  the same key however often the process dies, and the collector counts it once.
- `campaign`: what the collector said of a plan, and how much was forwarded and dropped.

**A batch is never smaller** than the minimum. When enough messages of a crowd wait, *all* that wait are taken, up to
what one request can hold, since more hide each other better. They are put into a random order by the bits of the
operating system. What is left waits, and is dropped and counted when the campaign closes.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from dither.collect.sealed_reports import Head
from dither.collect.store import StoreError, StoreFullError
from dither.core.atomic_write import locked
from dither.core.randomness import Stream, token
from dither.wire.frames import MOST_BYTES

APPLICATION, VERSION = 0x64697368, 1  # "dish"
DATABASE, LOCK = "shuffler.db", "shuffler.lock"

_TABLES = (
    """CREATE TABLE campaign (
        plan TEXT PRIMARY KEY, document TEXT NOT NULL, forwarded INTEGER NOT NULL DEFAULT 0,
        batches INTEGER NOT NULL DEFAULT 0, taken INTEGER NOT NULL DEFAULT 0, dropped TEXT NOT NULL DEFAULT '{}'
    ) STRICT, WITHOUT ROWID""",
    "CREATE TABLE seen (plan TEXT NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (plan, digest)) STRICT, WITHOUT ROWID",
    """CREATE TABLE waiting (
        plan TEXT NOT NULL, crowd BLOB NOT NULL, digest BLOB NOT NULL, message BLOB NOT NULL,
        PRIMARY KEY (plan, crowd, digest)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE outgoing (
        key TEXT PRIMARY KEY, plan TEXT NOT NULL, users INTEGER NOT NULL, body BLOB NOT NULL
    ) STRICT, WITHOUT ROWID""",
)
_PATIENCE = 10.0
_MOST_LOG = 4000  # pages of the write-ahead log, after which it is copied into the database


class Outgoing(NamedTuple):
    """A mixed batch on its way to the collector."""

    key: str
    plan: str
    users: int
    body: bytes


@dataclass(frozen=True)
class PlanFacts:
    """What the collector says of a plan (`sealed_batches.SealedBatches.keys_document`)."""

    plan: str
    state: str
    size: int
    batch: int | None
    rounds: int
    crowds: int
    keys: frozenset[bytes]

    @classmethod
    def of(cls, document: str) -> "PlanFacts":
        """Read them; `ValueError`, `KeyError` or `TypeError` if they are none."""
        found = json.loads(document)
        batch = found["batch"]
        return cls(
            str(found["plan"]),
            str(found["state"]),
            int(found["size"]),
            None if batch is None else int(batch),
            int(found["rounds"]),
            int(found["crowds"]),
            frozenset(bytes.fromhex(key["id"]) for key in found["keys"]),
        )


class ShufflerFigures(NamedTuple):
    """How many messages of a plan were taken, wait, are on their way, were forwarded, and were dropped, by the reason.

    `taken` is the sum of the others, at every moment.
    """

    taken: int
    waiting: int
    on_their_way: int
    forwarded: int
    batches: int
    dropped: dict[str, int]


class ShufflerStore:
    """The messages and batches of a shuffler, in a folder that it holds alone. Every method is for any thread."""

    def __init__(self, folder: str | os.PathLike[str], least: int = 2) -> None:
        self.folder, self.least, self._lock = Path(folder), least, RLock()
        self._guard: int | None = None
        with self._told():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._guard = os.open(self.folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        if locked(self._guard) is False:
            self._let_go()
            raise StoreError(f"another shuffler uses the store {self.folder}: stop it, or name another folder")
        try:
            with self._told():
                self._database = self._connected()
        except BaseException:
            self._let_go()
            raise

    def __enter__(self) -> "ShufflerStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        with self._lock:
            self._database.close()
            self._let_go()

    def _let_go(self) -> None:
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None

    def _connected(self) -> sqlite3.Connection:
        place = self.folder / DATABASE
        if not place.exists():
            os.close(os.open(place, os.O_CREAT | os.O_RDWR, 0o600))
        database = sqlite3.connect(place, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        settings = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", f"wal_autocheckpoint={_MOST_LOG}")
        for setting in settings:
            database.execute(f"PRAGMA {setting}")
        application, version = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if (application, version) == (0, 0) and not database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[
            0
        ]:
            database.execute("BEGIN IMMEDIATE")
            for statement in _TABLES:
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {APPLICATION}")
            database.execute(f"PRAGMA user_version = {VERSION}")
            database.execute("COMMIT")
        elif (application, version) != (APPLICATION, VERSION):
            database.close()
            raise StoreError(f"{place} is no store of a shuffler, or of a newer version of dither: name another folder")
        return database

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, on the disk at the end."""
        with self._lock, self._told():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    if self._database.in_transaction:
                        self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the database and of the disk as those of the store, without what they quote."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "") or type(error).__name__
            kind = StoreFullError if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")) else StoreError
            failure = kind(f"the store {self.folder} cannot be used ({name})")
        except StoreError:
            raise
        except OSError as error:
            failure = StoreError(f"the store {self.folder} cannot be used: {os.strerror(error.errno or 0).lower()}")
        else:
            return
        raise failure

    # Plans ---------------------------------------------------------------------------------------------------------

    def plans(self) -> dict[str, PlanFacts]:
        """What the collector said of each plan, when it was last asked."""
        with self._lock, self._told():
            rows = self._database.execute("SELECT plan, document FROM campaign").fetchall()
        return {plan: PlanFacts.of(document) for plan, document in rows}

    def note_plan(self, plan: str, document: str) -> PlanFacts:
        """What the collector says of a plan now. Keys stay known: a retry may be sealed to one that has expired."""
        found, now = "SELECT document FROM campaign WHERE plan = ?", json.loads(document)
        change = "INSERT INTO campaign (plan, document) VALUES (?, ?) ON CONFLICT (plan) DO UPDATE SET document = ?"
        with self._transaction() as database:
            row = database.execute(found, (plan,)).fetchone()
            known = PlanFacts.of(document).keys | (frozenset() if row is None else PlanFacts.of(row[0]).keys)
            merged = json.dumps({**now, "keys": [{"id": key.hex()} for key in sorted(known)]})
            database.execute(change, (plan, merged, merged))
        return PlanFacts.of(merged)

    # Messages in ---------------------------------------------------------------------------------------------------

    def take(self, plans: Sequence[tuple[PlanFacts, Sequence[tuple[Head, bytes]]]]) -> list[int]:
        """Keep the messages of several requests, in one transaction; for each request how many are new.

        Crowds that are large enough become batches in the same transaction.
        """
        fresh, crowds = list[int](), dict[tuple[str, bytes], PlanFacts]()
        with self._transaction() as database:
            for facts, messages in plans:
                new = 0
                for head, message in messages:
                    digest = sha256(message).digest()[:16]
                    seen = database.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (facts.plan, digest))
                    if not seen.rowcount:
                        continue
                    new += head.users
                    if head.many:  # a crowd of its own
                        self._send(database, facts.plan, head.users, message)
                        continue
                    row = (facts.plan, head.mixed_with, digest, message)
                    database.execute("INSERT INTO waiting VALUES (?, ?, ?, ?)", row)
                    crowds[facts.plan, head.mixed_with] = facts
                database.execute("UPDATE campaign SET taken = taken + ? WHERE plan = ?", (new, facts.plan))
                fresh.append(new)
            for (_, crowd), facts in crowds.items():
                self._mix(database, facts, crowd)
        return fresh

    def smallest(self, facts: PlanFacts) -> int:
        """How many users a batch of a plan has at least: what was asked for here, and what the plan counts on."""
        return max(self.least, facts.batch or 0)

    def most(self, facts: PlanFacts) -> int:
        """How many messages of a plan one request to the collector can hold."""
        return MOST_BYTES // facts.size

    def _mix(self, database: sqlite3.Connection, facts: PlanFacts, crowd: bytes) -> None:
        """Make batches of a crowd, as long as enough messages wait."""
        most = self.most(facts)
        where = "FROM waiting WHERE plan = ? AND crowd = ?"
        while True:
            (count,) = database.execute(f"SELECT count(*) {where}", (facts.plan, crowd)).fetchone()
            if count < self.smallest(facts) or most < self.smallest(facts):
                return
            rows = database.execute(f"SELECT digest, message {where}", (facts.plan, crowd)).fetchall()
            chosen = [rows[place] for place in Stream.secure().order(count)[:most].tolist()]
            self._send(database, facts.plan, len(chosen), b"".join(message for _, message in chosen))
            gone = ((facts.plan, crowd, digest) for digest, _ in chosen)
            database.executemany("DELETE FROM waiting WHERE plan = ? AND crowd = ? AND digest = ?", gone)

    @staticmethod
    def _send(database: sqlite3.Connection, plan: str, users: int, body: bytes) -> None:
        database.execute("INSERT INTO outgoing VALUES (?, ?, ?, ?)", (token(16), plan, users, body))

    # Batches out ---------------------------------------------------------------------------------------------------

    def outgoing(self) -> list[tuple[str, str]]:
        """The keys and plans of the batches that are on their way; keys are random, and so is their order."""
        with self._lock, self._told():
            return self._database.execute("SELECT key, plan FROM outgoing").fetchall()

    def batch(self, key: str) -> Outgoing | None:
        """One of them."""
        with self._lock, self._told():
            row = self._database.execute("SELECT key, plan, users, body FROM outgoing WHERE key = ?", (key,)).fetchone()
        return None if row is None else Outgoing(*row)

    def forwarded(self, batch: Outgoing) -> None:
        """The collector has acknowledged a batch."""
        with self._transaction() as database:
            if database.execute("DELETE FROM outgoing WHERE key = ?", (batch.key,)).rowcount:
                change = "UPDATE campaign SET forwarded = forwarded + ?, batches = batches + 1 WHERE plan = ?"
                database.execute(change, (batch.users, batch.plan))
        self._cut_log()

    def _cut_log(self) -> None:
        """Copy the write-ahead log into the database and cut it: it held messages in the order in which they came."""
        with self._lock, self._told():
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def refused(self, batch: Outgoing, reason: str) -> None:
        """The collector will never take a batch: it is dropped, and counted."""
        with self._transaction() as database:
            if database.execute("DELETE FROM outgoing WHERE key = ?", (batch.key,)).rowcount:
                _drop(database, batch.plan, reason, batch.users)

    def close_plan(self, plan: str) -> int:
        """Drop what waits of a campaign that is closed, and count it; how many."""
        with self._transaction() as database:
            count = database.execute("DELETE FROM waiting WHERE plan = ?", (plan,)).rowcount
            if count:
                _drop(database, plan, "campaign closed", count)
        return count

    def figures(self) -> dict[str, ShufflerFigures]:
        """Counts of each plan."""
        with self._lock, self._told():
            return _figures(self._database)


def read_figures(folder: str | os.PathLike[str]) -> dict[str, ShufflerFigures]:
    """The counts in a store that a shuffler may be using."""
    place, found = Path(folder) / DATABASE, None
    if place.exists():
        with suppress(sqlite3.Error):
            database = sqlite3.connect(f"{place.absolute().as_uri()}?mode=ro", timeout=_PATIENCE, uri=True)
            try:
                found = _figures(database)
            finally:
                database.close()
    if found is None:
        raise StoreError(f"there is no store of a shuffler in {folder}")
    return found


def _figures(database: sqlite3.Connection) -> dict[str, ShufflerFigures]:
    sums = """SELECT plan, taken, (SELECT count(*) FROM waiting WHERE waiting.plan = campaign.plan),
        (SELECT coalesce(sum(users), 0) FROM outgoing WHERE outgoing.plan = campaign.plan), forwarded, batches,
        dropped FROM campaign"""
    rows = database.execute(sums).fetchall()
    return {row[0]: ShufflerFigures(row[1], row[2], row[3], row[4], row[5], json.loads(row[6])) for row in rows}


def _drop(database: sqlite3.Connection, plan: str, reason: str, count: int) -> None:
    (stored,) = database.execute("SELECT dropped FROM campaign WHERE plan = ?", (plan,)).fetchone()
    dropped = json.loads(stored)
    dropped[reason] = dropped.get(reason, 0) + count
    database.execute("UPDATE campaign SET dropped = ? WHERE plan = ?", (json.dumps(dropped), plan))
