"""What a device has to send, on its disk until the collector has it: an SQLite file.

**The same bytes.** A batch is written here before it is first sent, with the idempotency key that it is sent with, and
is never made anew. So a retry after a lost answer, a crash or a week without a network carries the same bytes under the
same key, and the collector counts it once.

**Once for each round.** A device sends one batch for a round of a plan. Its row stays when the batch has been
delivered, without its bytes: whoever asks again does not send another, which would count this device twice.

**If this file is lost.** The idempotency key of a round is made from the ledger's secret, and the ledger repeats its
report: the same bytes under the same key, which the collector knows. A message for a shuffler cannot be made anew,
since sealing draws fresh bits. So it is noted here that one will be made, before the ledger makes the report (`begin`):
a ledger that has one while nothing is noted has outlived its outbox, and `Client` sends nothing.

**Waits for the disk.** Every change is a transaction that ends when it is on the disk (`synchronous=EXTRA`). What was
delivered is overwritten (`secure_delete`).

Each look into the file is a connection of its own, so that threads, processes and forks need not know of each other.
Two that send at the same time send the same bytes.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dither.core.atomic_write import write_errors
from dither.core.randomness import token
from dither.errors import ParameterError, WriteError

FILE = "outbox.db"
APPLICATION, VERSION = int.from_bytes(b"dthO"), 1
_KEY_BYTES = 16
_SCHEMA = (
    "CREATE TABLE batches (number INTEGER PRIMARY KEY, plan TEXT NOT NULL, round INTEGER, key TEXT NOT NULL UNIQUE, "
    "body BLOB, refusal TEXT)",
    "CREATE UNIQUE INDEX rounds ON batches (plan, round) WHERE round IS NOT NULL",
    "CREATE INDEX waiting ON batches (number) WHERE body IS NOT NULL AND refusal IS NULL",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
_SETTINGS = ("synchronous=EXTRA", "fullfsync=ON", "secure_delete=ON", "cell_size_check=ON", "trusted_schema=OFF")
_NEXT = (
    "SELECT number, plan, key, body FROM batches WHERE body IS NOT NULL AND refusal IS NULL AND number > ? "
    "ORDER BY number LIMIT 1"
)


class Waiting(NamedTuple):
    """A batch to be sent."""

    number: int
    plan: str
    key: str
    body: bytes


class Outbox:
    """The batches of a device, in a folder that only its owner reads."""

    def __init__(self, folder: Path, timeout: float = 30.0) -> None:
        self.path, self._timeout = folder / FILE, timeout
        with write_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with self._transaction() as run:
            ((application,),), ((version,),) = run("PRAGMA application_id").fetchall(), run("PRAGMA user_version")
            if application == 0 and not run("SELECT 1 FROM sqlite_master").fetchall():
                for statement in _SCHEMA:
                    run(statement)
                run(f"PRAGMA application_id={APPLICATION}")
                run(f"PRAGMA user_version={VERSION}")
            elif (application, version) != (APPLICATION, VERSION):
                raise ParameterError(f"{self.path} is no outbox of this version of dither; choose another folder")

    def add(self, plan: str, body: bytes, number: int, key: str) -> None:
        """Keep the batch of a round of a plan under its idempotency key, unless there is one already."""
        with self._transaction() as run:
            _insert(run, plan, body, number, key)

    def add_all(self, plan: str, bodies: Iterable[bytes]) -> int:
        """Keep batches that are of no single device, all or none; how many there are."""
        with self._transaction() as run:
            return sum(_insert(run, plan, body, None, token(_KEY_BYTES)) for body in bodies)

    def has(self, plan: str, number: int) -> bool:
        """Whether there is, or was, a batch for a round of a plan."""
        with self._transaction() as run:
            return bool(run("SELECT 1 FROM batches WHERE plan = ? AND round = ?", (plan, number)).fetchall())

    def begin(self, plan: str, number: int) -> None:
        """Note that a batch for a round of a plan will be made."""
        self.remember(_begun(plan, number), "")

    def has_begun(self, plan: str, number: int) -> bool:
        """Whether that was noted."""
        return self.fact(_begun(plan, number)) is not None

    def next(self, after: int = -1) -> Waiting | None:
        """The first batch that is not delivered, behind one with this number."""
        with self._transaction() as run:
            row = run(_NEXT, (after,)).fetchone()
        return None if row is None else Waiting(*row)

    def delivered(self, number: int) -> None:
        """Forget the bytes of a batch; and all of it, if it is of no device."""
        with self._transaction() as run:
            run("UPDATE batches SET body = NULL WHERE number = ?", (number,))
            run("DELETE FROM batches WHERE number = ? AND round IS NULL", (number,))

    def refused(self, number: int, reason: str) -> None:
        """Keep why the collector will never take a batch. Its bytes stay, and are not sent again."""
        with self._transaction() as run:
            run("UPDATE batches SET refusal = ? WHERE number = ?", (reason, number))

    @property
    def waiting(self) -> int:
        """How many batches are still to be sent."""
        with self._transaction() as run:
            return run("SELECT count(*) FROM batches WHERE body IS NOT NULL AND refusal IS NULL").fetchone()[0]

    @property
    def refusals(self) -> dict[str, int]:
        """How many batches the collector will never take, by what it said."""
        with self._transaction() as run:
            return dict(
                run("SELECT refusal, count(*) FROM batches WHERE refusal IS NOT NULL GROUP BY refusal").fetchall()
            )

    def fact(self, name: str) -> str | None:
        """Something that was remembered."""
        with self._transaction() as run:
            found = run("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None

    def remember(self, name: str, value: str) -> None:
        """Remember something."""
        with self._transaction() as run:
            run("REPLACE INTO facts VALUES (?, ?)", (name, value))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator:
        """What runs statements. All of them are on the disk at the end, or none."""
        reason = ""
        try:
            address = f"{self.path.absolute().as_uri()}?mode=rw"  # which never makes a file
            with contextlib.closing(
                sqlite3.connect(address, uri=True, timeout=self._timeout, isolation_level=None)
            ) as connection:
                for setting in _SETTINGS:
                    connection.execute(f"PRAGMA {setting}")
                connection.execute("BEGIN IMMEDIATE")
                yield connection.execute
                connection.execute("COMMIT")
        except sqlite3.Error as error:  # which might quote what is stored
            reason = type(error).__name__
        if reason:
            raise WriteError(
                f"the outbox {self.path} cannot be read and written ({reason}): it is damaged, in use, or there is no "
                "space. Nothing was sent from it; what it holds stays"
            )


def _begun(plan: str, number: int) -> str:
    return f"begun {number} of {plan}"


def _insert(run, plan: str, body: bytes, number: int | None, key: str) -> int:
    row = (plan, number, key, body)
    return run("INSERT OR IGNORE INTO batches (plan, round, key, body) VALUES (?, ?, ?, ?)", row).rowcount
