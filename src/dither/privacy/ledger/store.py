"""The ledger's file: an SQLite database that is read as a whole, trusted as a whole, or refused as a whole.

**Before anything is sent, it is on the disk.** A transaction holds the charge and the report together, and a report is
handed out when the transaction has been committed. A process that dies at any point has either stored both, and then
the next one sends the same report, or neither, and then nothing was sent. `synchronous=EXTRA` also waits for the
directory: with less, a power cut could bring the journal back, and undo a commit whose report is on its way.

**One at a time.** Every look into the file is one `BEGIN EXCLUSIVE`, with a connection of its own: processes and
threads wait for each other, and nothing survives a fork. Why not `IMMEDIATE`? There the last lock is taken at the
commit, so a reader in the way would fail only those devices whose value has changed. Here it fails all alike.

**Alike for all.** Every answer is a commit, also that of an unchanged value, which writes the same report again and a
new count. Waiting for the disk takes most of the time, and would tell how often a value changes.

**Made whole.** A new ledger is written under another name and linked to its own. So an empty file is never a ledger
that is just being made, but one that was cut off: SQLite would take it for a new database, and forget what was spent.

**Sealed.** SQLite notices a broken structure, but not a flipped bit in a number. A keyed digest of the whole content is
stored with it and compared each time. It is against accidents; whoever can write the file can write a seal.
"""

import contextlib
import hashlib
import hmac
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dither.core.randomness import Stream
from dither.errors import DitherError, LedgerError, ParameterError

APPLICATION = int.from_bytes(b"dthr")
VERSION = 1
_SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE plans (plan TEXT PRIMARY KEY, kind TEXT, rounds INTEGER, epsilon REAL, delta REAL) WITHOUT ROWID",
    "CREATE TABLE charges (plan TEXT, round INTEGER, epsilon REAL, delta REAL, PRIMARY KEY (plan, round)) "
    "WITHOUT ROWID",
    "CREATE TABLE answers (plan TEXT, part TEXT, round INTEGER, made_for BLOB, report BLOB, PRIMARY KEY (plan, part)) "
    "WITHOUT ROWID",
)
_CONTENT = (
    "SELECT name, sql FROM sqlite_master ORDER BY name",
    "SELECT name, value FROM facts WHERE name <> 'seal' ORDER BY name",
    "SELECT plan, kind, rounds, epsilon, delta FROM plans ORDER BY plan",
    "SELECT plan, round, epsilon, delta FROM charges ORDER BY plan, round",
    "SELECT plan, part, round, made_for, report FROM answers ORDER BY plan, part",
)
_SETTINGS = ("synchronous=EXTRA", "fullfsync=ON", "secure_delete=ON", "cell_size_check=ON", "trusted_schema=OFF")
_PAGE = 512  # the smallest that SQLite has
_LEFT_OVERS = ("-journal", "-wal")
STORING = (sqlite3.Error, OSError)  # what can go wrong while writing
_RECOVER = (
    "Nothing was sent, and the file was left as it is. What this device has spent is no longer known. Put an intact "
    "copy in its place only if no report was sent since it was made. Otherwise take the budget as spent, and ask this "
    "device no more. Moving the file away (with {path}-journal, if there is one) starts a ledger that has forgotten "
    "everything: what was spent before comes on top of its budget."
)


class Reserved(NamedTuple):
    """What was set aside for a plan: so many rounds at (epsilon, delta) each."""

    kind: str
    rounds: int
    epsilon: float
    delta: float


class Answer(NamedTuple):
    """The last report to a question: its round, a digest of what it was made for, and its bytes."""

    round: int
    made_for: bytes
    report: bytes


class Book:
    """What a ledger holds, within one transaction. Only `write` changes it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        _, facts, plans, charges, answers = content = _content(connection)
        self.facts: dict[str, Any] = dict(facts)
        self.key: bytes = self.facts["key"]
        ((seal,),) = connection.execute("SELECT value FROM facts WHERE name = 'seal'")
        if len(self.key) != 32 or not hmac.compare_digest(seal, _sealed(self.key, content)):
            raise ValueError("the seal does not match")
        self.reserved = {plan: Reserved(*rest) for plan, *rest in plans}
        self.charges: list[tuple[str, int, float, float]] = charges
        self.answers: dict[str, dict[str, Answer]] = {}
        for plan, part, *rest in answers:
            self.answers.setdefault(plan, {})[part] = Answer(*rest)

    def write(self, plan: str, reserved: Reserved, answers: Mapping[str, Answer]) -> None:
        """Keep a reservation, reports, and charges for rounds that are new, all or none. Returns when they are kept."""
        execute = self._connection.execute
        execute("INSERT OR IGNORE INTO plans VALUES (?, ?, ?, ?, ?)", (plan, *reserved))
        for number in range(self.paid(plan), max((answer.round for answer in answers.values()), default=0)):
            one = (plan, number + 1, reserved.epsilon, reserved.delta)
            execute("INSERT INTO charges VALUES (?, ?, ?, ?)", one)  # the table refuses to hold a round twice
        for part, answer in answers.items():
            execute("REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", (plan, part, *answer))
        execute("UPDATE facts SET value = value + 1 WHERE name = 'writes'")
        execute("REPLACE INTO facts VALUES ('seal', ?)", (_sealed(self.key, _content(self._connection)),))
        execute("COMMIT")

    def paid(self, plan: str) -> int:
        """How many rounds of a plan are charged."""
        return sum(1 for charged, *_ in self.charges if charged == plan)


def create(path: Path, epsilon: float, delta: float) -> None:
    """A new ledger; if another process makes one at the same time, one of the two."""
    if not path.parent.is_dir():
        raise LedgerError(f"there is no directory {path.parent} for the ledger; make it first")
    for end in _LEFT_OVERS:
        if os.path.lexists(f"{path}{end}"):  # SQLite would play it back into the new file
            raise LedgerError(
                f"the ledger {path} is gone, but {path}{end} is there: put the ledger back, or move this file away "
                "too, which starts a ledger that has forgotten what was spent"
            )
    reason, workshop = "", None
    try:
        workshop = tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent)
        made = Path(workshop) / "new"
        os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _write_new(made, epsilon, delta)
        with contextlib.suppress(FileExistsError):
            os.link(made, path)
        _sync_directory(path.parent)
    except (OSError, sqlite3.Error) as error:
        reason = type(error).__name__
    finally:
        if workshop:
            shutil.rmtree(workshop, ignore_errors=True)
    if reason:
        raise LedgerError(
            f"no ledger can be made at {path} ({reason}): its directory must be writable, with space left, and on a "
            "file system that has hard links"
        )


def _write_new(path: Path, epsilon: float, delta: float) -> None:
    with contextlib.closing(_connect(path, 1.0)) as connection:
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("BEGIN EXCLUSIVE")
        for statement in _SCHEMA:
            connection.execute(statement)
        key = Stream.secure().words(0, slice(0, 1), 4).tobytes()
        facts = [("key", key), ("epsilon", epsilon), ("delta", delta), ("writes", 0)]
        connection.executemany("INSERT INTO facts VALUES (?, ?)", facts)
        connection.execute("INSERT INTO facts VALUES ('seal', ?)", (_sealed(key, _content(connection)),))
        connection.execute("COMMIT")


def _sync_directory(directory: Path) -> None:
    """Wait until the new name is on the disk, where a directory can be opened for that."""
    if hasattr(os, "O_DIRECTORY"):
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


@contextlib.contextmanager
def opened_book(path: Path, timeout: float) -> Iterator[Book]:
    """The content of the ledger, with nobody else in it. What is not committed at the end did not happen."""
    book, reason, connection = None, "", None
    try:
        if not path.is_file():
            raise LedgerError(f"there is no ledger at {path}: it was moved or deleted, or this is not a file")
        if path.stat().st_size < _PAGE:
            raise ValueError("SQLite takes so short a file for a new database")
        connection = _connect(path, timeout)
        connection.execute("BEGIN EXCLUSIVE")
        book = _read(connection, path)
    except DitherError as error:
        reason = str(error)
    except Exception as error:  # a damaged file may surprise SQLite, and us, in many ways
        reason = reason_of(error, path, timeout)
    try:
        if book is None:  # not raised from within the handler: what SQLite says might quote the file
            raise LedgerError(reason)
        yield book
    finally:
        if connection is not None:
            connection.close()


def _read(connection: sqlite3.Connection, path: Path) -> Book:
    ((application,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    if application != APPLICATION:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'facts'").fetchall():
            raise ValueError("the mark is damaged")
        raise LedgerError(f"{path} is a database, but no ledger. The file was left as it is; choose another path")
    if version > VERSION:
        raise LedgerError(f"the ledger {path} was written by a newer version of dither; upgrade to use it")
    ((sound,),) = connection.execute("PRAGMA quick_check(1)")
    if version != VERSION or sound != "ok":
        raise ValueError("the file is not sound")
    # Can it be written? Known now, it fails for all; known later, only for those whose value has changed.
    connection.execute(f"PRAGMA user_version={VERSION}")
    return Book(connection)


def reason_of(error: Exception, path: Path, timeout: float) -> str:
    """What went wrong and what to do, without the words of the original, which might quote what is stored."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another process has held the ledger {path} for {timeout:g} seconds; nothing was sent, ask again"
    if code == sqlite3.SQLITE_FULL:
        return f"there is no space to write the ledger {path}; nothing was sent. Make space, and ask again"
    unreadable = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR)
    if code in unreadable or isinstance(error, OSError):
        return (
            f"the ledger {path} cannot be read and written; nothing was sent. A device that could not store its report "
            "would spend twice: let this process write the file and its directory, and ask again"
        )
    return f"the ledger {path} is damaged. " + _RECOVER.format(path=path)


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    """A connection that never makes a file, and leaves transactions to us."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    for setting in _SETTINGS:
        connection.execute(f"PRAGMA {setting}")
    return connection


def _content(connection: sqlite3.Connection) -> list[Any]:
    """All that is stored, and the form it is stored in."""
    return [connection.execute(query).fetchall() for query in _CONTENT]


def _sealed(key: bytes, content: list[Any]) -> bytes:
    return keyed(key, "seal", json.dumps(content, default=bytes.hex).encode())


def keyed(key: bytes, *parts: str | bytes) -> bytes:
    """A keyed digest; each part is framed by its length, so no two lists collide."""
    state = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little") + raw)
    return state.digest()


def checked_path(path: Any) -> Path:
    """An absolute path: a device may change its working directory."""
    if isinstance(path, str | os.PathLike) and str(path) and "\0" not in str(path):
        return Path(path).absolute()
    raise ParameterError('a ledger is a file: give its path, as in Ledger("ledger.db", epsilon=4.0)')
