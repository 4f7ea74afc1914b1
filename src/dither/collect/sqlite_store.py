"""A store in one SQLite database, for one collector: no server beside it, and a folder to back up.

**Durable.** The database has a write-ahead log (WAL) with `synchronous=FULL`: a transaction has returned when its
frames are on the disk. A batch is acknowledged after that, and never before.

**One writer.** All that writes takes one lock of this process, so nobody polls for a lock of the database. The folder
has a lock file that the system lets go with the process, so two collectors cannot count the same batches. Commands
that close a campaign or make a token write to the same database beside it, and wait for their turn.

**The log is kept short.** SQLite would copy the log into the database in the middle of a commit. Here `checkpoint`
does, from the thread that counts: most of it beside the commits, and the rest under the lock. Then the log is cut to
nothing, and what it held of scrubbed batches is gone with it; `secure_delete` overwrites what was deleted in the
database itself.

**Full disk.** A write that fails is rolled back, and nothing of the group is acknowledged. What is stored stays
readable.

**Versions.** `application_id` says that this is a store, `user_version` which tables it has. An older one is migrated,
one step after the other in one transaction; a newer one is refused.
"""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from dither.collect.store import (
    CONFLICT,
    DUPLICATE,
    NEW,
    OPEN,
    VERSION,
    Campaign,
    Counted,
    Crowds,
    Outcome,
    RawGroup,
    StoreError,
    StoreFullError,
    Submission,
    Token,
)
from dither.core.atomic_write import locked
from dither.planning.plan_tally import PlanTally

APPLICATION = 0x64697468  # "dith"
DATABASE, LOCK = "collector.db", "collector.lock"
HOUR = 3600

_MOST_LOG = 8 << 20  # bytes of the write-ahead log, before it is copied into the database
_PATIENCE = 10.0  # seconds in which another process may hold the database

# One list of statements for each version: a new store runs all of them, an older one those that it lacks.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE campaign (
            number INTEGER PRIMARY KEY, plan TEXT NOT NULL UNIQUE, document BLOB NOT NULL, state TEXT NOT NULL,
            closes INTEGER, keep INTEGER NOT NULL DEFAULT 0, batches INTEGER NOT NULL DEFAULT 0,
            identity BLOB NOT NULL DEFAULT (randomblob(16))
        ) STRICT""",
        """CREATE TABLE tally (
            campaign INTEGER NOT NULL, round INTEGER NOT NULL, counts BLOB NOT NULL, PRIMARY KEY (campaign, round)
        ) STRICT""",
        """CREATE TABLE batch (
            campaign INTEGER NOT NULL, key BLOB NOT NULL, digest BLOB NOT NULL, accepted INTEGER NOT NULL,
            rejected TEXT, PRIMARY KEY (campaign, key)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE raw (
            number INTEGER PRIMARY KEY AUTOINCREMENT, campaign INTEGER NOT NULL, hour INTEGER NOT NULL,
            batches INTEGER NOT NULL, counted INTEGER NOT NULL DEFAULT 0, bodies BLOB NOT NULL
        ) STRICT""",
        "CREATE INDEX raw_state ON raw (counted, number)",
        """CREATE TABLE token (
            digest BLOB PRIMARY KEY, role TEXT NOT NULL, campaign INTEGER, expires INTEGER
        ) STRICT""",
        """CREATE TABLE query (
            time INTEGER NOT NULL, campaign INTEGER NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL, token BLOB
        ) STRICT""",
        """CREATE TABLE crowd (
            campaign INTEGER NOT NULL, key BLOB NOT NULL, users INTEGER NOT NULL, PRIMARY KEY (campaign, key)
        ) STRICT, WITHOUT ROWID""",
    ),
)

_ROW = "(?, ?, ?, ?, ?)"
_INSERT = "INSERT OR IGNORE INTO batch (campaign, key, digest, accepted, rejected) VALUES " + _ROW  # noqa: S608
_MOST_ROWS = 512  # of one statement
_FIND = "SELECT digest, accepted, rejected FROM batch WHERE campaign = ? AND key = ?"
_COUNTS = "SELECT round, counts FROM tally WHERE campaign = ?"
_WAITING = "SELECT coalesce(sum(batches), 0) FROM raw WHERE counted = 0 AND campaign = ?"
_CAMPAIGN = "SELECT number, plan, document, state, closes, keep FROM campaign"


class SqliteStore:
    """A store in a folder.

    >>> import tempfile
    >>> with SqliteStore(tempfile.mkdtemp()) as store:
    ...     store.campaigns()
    []
    """

    def __init__(self, folder: str | os.PathLike[str], *, collects: bool = False) -> None:
        """Open the store in a folder, or make one. `collects`: as the one collector that writes batches to it."""
        self.folder = Path(folder)
        self._writing, self._reading = threading.RLock(), threading.Lock()
        self._guard: int | None = None
        with _told(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if collects:
            self._guard = self._alone()
        try:
            with _told(self.folder):
                self._writer = self._connected()
                self._prepare()
                self._reader = self._connected()
        except BaseException:
            self._let_go()
            raise

    def __enter__(self) -> "SqliteStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store; its log is copied into the database first."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()
            self._let_go()

    def _let_go(self) -> None:
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None

    def _alone(self) -> int:
        """Hold the folder as its only collector."""
        with _told(self.folder):
            number = os.open(self.folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        if locked(number) is False:
            os.close(number)
            raise StoreError(f"another collector uses the store {self.folder}: stop it, or name another folder")
        return number

    def _connected(self) -> sqlite3.Connection:
        place = self.folder / DATABASE
        if not place.exists():
            os.close(os.open(place, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(place, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "wal_autocheckpoint=0"):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def _prepare(self) -> None:
        """Make the tables, or bring those of an older version to this one."""
        application, version, tables = (
            self._writer.execute(text).fetchone()[0]
            for text in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
        )
        if application != APPLICATION and (application or version or tables):
            raise StoreError(f"{self.folder / DATABASE} is no store of a collector: name another folder")
        if version > VERSION:
            raise StoreError(f"the store {self.folder} was written by a newer version of dither; upgrade to use it")
        if version == VERSION:
            return
        with self._transaction() as connection:
            for statements in MIGRATIONS[version:VERSION]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, on the disk at the end."""
        with self._writing, _told(self.folder):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # the failure that is told is the first one
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                raise

    def _read(self, text: str, *arguments: Any) -> list[tuple]:
        with self._reading, _told(self.folder):
            return self._reader.execute(text, arguments).fetchall()

    # Campaigns -------------------------------------------------------------------------------------------------

    def campaigns(self) -> list[Campaign]:
        """All campaigns, in the order in which they were added."""
        return [Campaign(*row) for row in self._read(f"{_CAMPAIGN} ORDER BY number")]

    def add_campaign(self, plan: str, document: bytes) -> Campaign:
        """A campaign for a plan, open; the one that is there, if there is one."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO campaign (plan, document, state) VALUES (?, ?, ?)", (plan, document, OPEN)
            )
            return Campaign(*connection.execute(f"{_CAMPAIGN} WHERE plan = ?", (plan,)).fetchone())

    def change_campaign(self, number: int, *, state: str | None = None, closes: int | None = None) -> None:
        """Open or close a campaign, or set when it expires."""
        with self._transaction() as connection:
            if state is not None:
                connection.execute("UPDATE campaign SET state = ? WHERE number = ?", (state, number))
            if closes is not None:
                connection.execute("UPDATE campaign SET closes = ? WHERE number = ?", (closes, number))

    def keep_reports(self, number: int, hours: int) -> None:
        """For how long raw batches stay after they were counted."""
        with self._transaction() as connection:
            connection.execute("UPDATE campaign SET keep = ? WHERE number = ?", (hours, number))

    def delete_campaign(self, number: int) -> None:
        """Remove all that is stored of a campaign, from the disk and from the write-ahead log."""
        with self._transaction() as connection:
            for table in ("raw", "batch", "tally", "token", "query", "crowd"):
                connection.execute(f"DELETE FROM {table} WHERE campaign = ?", (number,))  # noqa: S608 - names from here
            connection.execute("DELETE FROM campaign WHERE number = ?", (number,))
        self.checkpoint(least=0)

    # Batches ---------------------------------------------------------------------------------------------------

    def commit(self, submissions: Sequence[Submission]) -> tuple[list[Outcome], dict[int, int]]:
        """Store batches, in one transaction. When it returns, they are on the disk."""
        outcomes = self._all_new(submissions)
        if outcomes is not None:
            return outcomes
        return self._some_known(submissions)

    def _all_new(self, submissions: Sequence[Submission]) -> tuple[list[Outcome], dict[int, int]] | None:
        """The usual case, in few statements; None, and nothing is stored, if a key is known."""
        with self._transaction() as connection:
            _refuse_deleted(connection, submissions)
            if _inserted(connection, submissions) < len(submissions):
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")  # for the end of this block
                return None
            groups = _inserted_groups(connection, submissions)
        return [Outcome(NEW, each.accepted, each.rejected) for each in submissions], groups

    def _some_known(self, submissions: Sequence[Submission]) -> tuple[list[Outcome], dict[int, int]]:
        """The same one by one: a key may be known, or be there twice in the group."""
        outcomes: list[Outcome] = []
        new: list[Submission] = []
        with self._transaction() as connection:
            _refuse_deleted(connection, submissions)
            for each in submissions:
                known = connection.execute(_FIND, (each.campaign, each.key)).fetchone()
                if known is None:
                    connection.execute(_INSERT, _stored(each))
                    new.append(each)
                    outcomes.append(Outcome(NEW, each.accepted, each.rejected))
                else:
                    outcomes.append(repeated(each, *known))
            groups = _inserted_groups(connection, new)
        return outcomes, groups

    def note_crowd(self, campaign: int, key: bytes, users: int) -> None:
        """Note of how many users a shuffled batch is, once."""
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO crowd VALUES (?, ?, ?)", (campaign, key, users))

    def crowds(self, campaign: int) -> Crowds:
        """The shuffled batches of a campaign."""
        found = "SELECT count(*), coalesce(sum(users), 0), coalesce(min(users), 0) FROM crowd WHERE campaign = ?"
        return Crowds(*self._read(found, campaign)[0])

    def waiting(self) -> list[RawGroup]:
        """Raw groups that wait to be counted, the oldest first; all are this collector's."""
        rows = self._read("SELECT number, campaign, length(bodies) FROM raw WHERE counted = 0 ORDER BY number")
        return [RawGroup(*row) for row in rows]

    def bodies(self, number: int) -> list[bytes]:
        """The batches of a raw group; none if it is not there any more."""
        rows = self._read("SELECT bodies FROM raw WHERE number = ?", number)
        return [body for row in rows for body in unpacked_bodies(row[0])]

    def raw_groups(self, campaign: int) -> list[RawGroup]:
        """All raw groups of a campaign that are there, whether they wait or are kept after they were counted."""
        text = "SELECT number, campaign, length(bodies) FROM raw WHERE campaign = ? ORDER BY number"
        rows = self._read(text, campaign)
        return [RawGroup(*row) for row in rows]

    def identity(self, campaign: int) -> str:
        """A random name of a campaign in this store, the same for good."""
        rows = self._read("SELECT identity FROM campaign WHERE number = ?", campaign)
        if not rows:
            raise StoreError("this campaign was deleted from the store")
        return rows[0][0].hex()

    def fold(self, campaign: int, groups: Sequence[int], added: Mapping[int, PlanTally]) -> bool:
        """Add raw groups to the tallies of their campaign, and scrub them unless they are kept."""
        still = f"counted = 0 AND campaign = ? AND number IN ({','.join('?' * len(groups))})"
        with self._transaction() as connection:
            keep = connection.execute("SELECT keep FROM campaign WHERE number = ?", (campaign,)).fetchone()
            found = f"SELECT count(*), sum(batches) FROM raw WHERE {still}"  # noqa: S608 - names from here
            there, batches = connection.execute(found, (campaign, *groups)).fetchone()
            if keep is None or there < len(groups):
                return False
            change = "UPDATE raw SET counted = 1" if keep[0] else "DELETE FROM raw"
            connection.execute(f"{change} WHERE {still}", (campaign, *groups))
            connection.execute("UPDATE campaign SET batches = batches + ? WHERE number = ?", (batches, campaign))
            for number, tally in added.items():
                place = (campaign, number)
                row = connection.execute(f"{_COUNTS} AND round = ?", place).fetchone()
                total = tally if row is None else PlanTally.from_bytes(row[1]) + tally
                connection.execute("INSERT OR REPLACE INTO tally VALUES (?, ?, ?)", (*place, total.to_bytes()))
        return True

    def counted(self, campaign: int) -> Counted:
        """The tallies of a campaign, and how many batches wait."""
        with self._reading, _told(self.folder):
            self._reader.execute("BEGIN")  # all of it of one moment
            try:
                batches = self._reader.execute("SELECT batches FROM campaign WHERE number = ?", (campaign,)).fetchone()
                tallies = self._reader.execute(f"{_COUNTS} ORDER BY round", (campaign,)).fetchall()
                waiting = self._reader.execute(_WAITING, (campaign,)).fetchone()
            finally:
                self._reader.execute("COMMIT")
        if batches is None:
            raise StoreError("this campaign was deleted from the store")
        return Counted(
            {number: PlanTally.from_bytes(counts) for number, counts in tallies}, waiting[0], batches[0] + waiting[0]
        )

    def scrub(self, now: float) -> int:
        """Remove raw batches that were counted and whose time is over, and what the log holds of them."""
        late = """SELECT raw.number FROM raw JOIN campaign ON campaign.number = raw.campaign
                  WHERE counted = 1 AND raw.hour + campaign.keep <= ?"""
        hour = int(now // HOUR)
        if not self._read(f"{late} LIMIT 1", hour):
            return 0
        with self._transaction() as connection:
            removed = connection.execute(f"DELETE FROM raw WHERE number IN ({late})", (hour,)).rowcount  # noqa: S608
        self.checkpoint(least=0)
        return removed

    def checkpoint(self, least: int = _MOST_LOG) -> None:
        """Copy a log of so many bytes or more into the database, and cut it to nothing."""
        log = self.folder / f"{DATABASE}-wal"
        if not log.exists() or log.stat().st_size <= least:
            return
        with self._reading, _told(self.folder):
            self._reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # most of it, beside the commits
        with self._writing, self._reading, _told(self.folder):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # Tokens and queries ----------------------------------------------------------------------------------------

    def add_token(self, token: Token) -> None:
        """A token that is known from now on."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO token (digest, role, campaign, expires) VALUES (?, ?, ?, ?)",
                (token.digest, token.role, token.campaign, token.expires),
            )

    def tokens(self) -> list[Token]:
        """All tokens that are known."""
        return [Token(*row) for row in self._read("SELECT digest, role, campaign, expires FROM token")]

    def log_query(self, time: int, campaign: int, kind: str, detail: str, token: bytes | None) -> None:
        """Note what an analyst asked, and by which token."""
        with self._transaction() as connection:
            connection.execute("INSERT INTO query VALUES (?, ?, ?, ?, ?)", (time, campaign, kind, detail, token))

    def queries(self, campaign: int | None = None) -> list[tuple[int, int, str, str, bytes | None]]:
        """The log of analysts' queries."""
        rows = self._read("SELECT time, campaign, kind, detail, token FROM query ORDER BY rowid")
        return [(row[0], row[1], row[2], row[3], row[4]) for row in rows if campaign is None or row[1] == campaign]

    def backup(self, path: str) -> None:
        """A copy of the whole database, while it is used."""
        with self._reading, _told(self.folder), sqlite3.connect(path) as target:
            self._reader.backup(target)
        target.close()


def _refuse_deleted(connection: sqlite3.Connection, submissions: Sequence[Submission]) -> None:
    """Nothing is stored for a campaign that was deleted a moment ago."""
    known = {row[0] for row in connection.execute("SELECT number FROM campaign")}
    if not {each.campaign for each in submissions} <= known:
        raise StoreError("a campaign was deleted from the store, so nothing was stored for it")


def _inserted(connection: sqlite3.Connection, submissions: Sequence[Submission]) -> int:
    """Insert the rows of batches whose keys are new; how many those are.

    Python's sqlite3 lets go of the interpreter for every row of `executemany`, and gets it back when the threads that
    answer requests can spare it. So many rows are one statement; of few lengths, which are prepared once.
    """
    inserted = first = 0
    while first < len(submissions):
        count = min(_MOST_ROWS, 1 << ((len(submissions) - first).bit_length() - 1))
        values = [value for each in submissions[first : first + count] for value in _stored(each)]
        inserted += connection.execute(f"{_INSERT}{f', {_ROW}' * (count - 1)}", values).rowcount
        first += count
    return inserted


def _inserted_groups(connection: sqlite3.Connection, new: Sequence[Submission]) -> dict[int, int]:
    """The numbers of the raw groups of new batches, by the campaign."""
    bodies: dict[int, list[bytes]] = {}
    for each in new:
        bodies.setdefault(each.campaign, []).append(each.body)
    numbers = {}
    for campaign, some in bodies.items():
        row = (campaign, int(time.time() // HOUR), len(some), packed_bodies(some))
        made = connection.execute("INSERT INTO raw (campaign, hour, batches, bodies) VALUES (?, ?, ?, ?)", row)
        numbers[campaign] = int(made.lastrowid or 0)
    return numbers


def _stored(submission: Submission) -> tuple[int, bytes, bytes, int, str | None]:
    rejected = json.dumps(dict(submission.rejected)) if submission.rejected else None
    return submission.campaign, submission.key, submission.digest, submission.accepted, rejected


def repeated(submission: Submission, digest: bytes, accepted: int, rejected: str | Mapping | None) -> Outcome:
    """The outcome of a batch whose key is known, with what was answered at first."""
    if digest != submission.digest:
        return Outcome(CONFLICT, 0, {})
    return Outcome(DUPLICATE, accepted, json.loads(rejected) if isinstance(rejected, str) else rejected or {})


def packed_bodies(bodies: Sequence[bytes]) -> bytes:
    """The bodies of a raw group in one row."""
    return msgspec.msgpack.encode(bodies)


def unpacked_bodies(data: bytes) -> list[bytes]:
    """The inverse."""
    return msgspec.msgpack.decode(data, type=list[bytes])


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Errors of the database and of the disk as those of the store, without what they quote."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):  # a file limit is reported as the second
            failure: StoreError = StoreFullError(
                f"the store {folder} cannot be written: the disk is full or failing ({name})"
            )
        else:
            failure = StoreError(f"the store {folder} cannot be used ({name})")
        raise failure from None
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        reason = os.strerror(error.errno or 0).lower()
        raise StoreError(f"the store {folder} cannot be used: {reason}") from None
