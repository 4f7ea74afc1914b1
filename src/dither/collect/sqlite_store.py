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

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dither.collect.sql_store import SqlStore
from dither.collect.store import VERSION, StoreError, StoreFullError
from dither.core.atomic_write import locked

APPLICATION = 0x64697468  # "dith"
DATABASE, LOCK = "collector.db", "collector.lock"

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
    (
        """CREATE TABLE arrival (
            campaign INTEGER NOT NULL, minute INTEGER NOT NULL, outcome TEXT NOT NULL, reports INTEGER NOT NULL,
            PRIMARY KEY (campaign, minute, outcome)
        ) STRICT, WITHOUT ROWID""",
    ),
)


class SqliteStore(SqlStore):
    """A store in a folder.

    >>> import tempfile
    >>> with SqliteStore(tempfile.mkdtemp()) as store:
    ...     store.campaigns()
    []
    """

    ORDER = "rowid"

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

    @contextmanager
    def _moment(self) -> Iterator[sqlite3.Connection]:
        """Queries, all of one moment."""
        with self._reading, _told(self.folder):
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                self._reader.execute("COMMIT")

    def delete_campaign(self, number: int) -> None:
        """Remove all that is stored of a campaign, from the disk and from the write-ahead log."""
        super().delete_campaign(number)
        self.checkpoint(least=0)

    def scrub(self, now: float) -> int:
        """Remove raw batches that were counted and whose time is over, and what the log holds of them."""
        removed = super().scrub(now)
        if removed:
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

    def backup(self, path: str) -> None:
        """A copy of the whole database, while it is used."""
        with self._reading, _told(self.folder), sqlite3.connect(path) as target:
            self._reader.backup(target)
        target.close()


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
