"""A store in a PostgreSQL database, for several collectors behind a load balancer.

The tables and promises are those of `sqlite_store`. What is different comes from there being several collectors:

**Keys.** Two of them may get the same batch at the same moment, when a client was not answered by the first and
retries at the second. The primary key of `batch` decides: the second insert waits for the first transaction to end, and
then finds its row. Keys are inserted in one order, so that two groups with keys in common do not wait for each other
for ever.

**Counting.** Each collector counts what it committed. Who adds groups to a tally takes the row of the campaign first,
and adds all of the groups or, if somebody else has counted some of them, none. So it does not matter for the result who
counts.

**Collectors that died.** A collector holds an advisory lock with its own number for as long as its session lives.
Groups that were committed under a number that nobody holds any more are taken over by whoever looks first.

**Durable** as far as the server is: `synchronous_commit` is on in every session, and a server with `fsync` off is
refused. A connection that breaks is made again at the next use. A commit whose answer was lost is not acknowledged, and
its clients find out by sending the same again.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from dither.collect.sql_store import Place, SqlStore, chunks, inserting
from dither.collect.store import VERSION, RawGroup, StoreError, StoreFullError, Submission
from dither.core.randomness import secret
from dither.errors import require

LOCKS = 0x64697468  # the class of this program's advisory locks: "dith"

_PATIENCE = 10  # seconds for a connection
_FULL = ("53100", "53200", "58030")  # codes of SQL: disk full, out of memory, I/O error

# One list of statements for each version, as in `sqlite_store`.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE campaign (
            number INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, plan TEXT NOT NULL UNIQUE, document BYTEA NOT NULL,
            state TEXT NOT NULL, closes BIGINT, keep INTEGER NOT NULL DEFAULT 0, batches BIGINT NOT NULL DEFAULT 0,
            identity UUID NOT NULL DEFAULT gen_random_uuid()
        )""",
        """CREATE TABLE tally (
            campaign INTEGER NOT NULL, round INTEGER NOT NULL, counts BYTEA NOT NULL, PRIMARY KEY (campaign, round)
        )""",
        """CREATE TABLE batch (
            campaign INTEGER NOT NULL, key BYTEA NOT NULL, digest BYTEA NOT NULL, accepted BIGINT NOT NULL,
            rejected TEXT, PRIMARY KEY (campaign, key)
        )""",
        """CREATE TABLE raw (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, campaign INTEGER NOT NULL, hour INTEGER NOT NULL,
            batches INTEGER NOT NULL, counted BOOLEAN NOT NULL DEFAULT FALSE, collector INTEGER NOT NULL,
            bodies BYTEA NOT NULL
        )""",
        "CREATE INDEX raw_waiting ON raw (number) WHERE NOT counted",
        "CREATE TABLE token (digest BYTEA PRIMARY KEY, role TEXT NOT NULL, campaign INTEGER, expires BIGINT)",
        """CREATE TABLE query (
            number BIGINT GENERATED ALWAYS AS IDENTITY, time BIGINT NOT NULL, campaign INTEGER NOT NULL,
            kind TEXT NOT NULL, detail TEXT NOT NULL, token BYTEA
        )""",
        """CREATE TABLE crowd (
            campaign INTEGER NOT NULL, key BYTEA NOT NULL, users BIGINT NOT NULL, PRIMARY KEY (campaign, key)
        )""",
    ),
    (
        """CREATE TABLE arrival (
            campaign INTEGER NOT NULL, minute INTEGER NOT NULL, outcome TEXT NOT NULL, reports BIGINT NOT NULL,
            PRIMARY KEY (campaign, minute, outcome)
        )""",
    ),
)

_ALIVE = """SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = ?
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


class PostgresStore(SqlStore):
    """A store in a database: `PostgresStore("postgresql://host/database")`."""

    HELD, ALONE = " FOR KEY SHARE", " FOR NO KEY UPDATE"

    def __init__(self, address: str) -> None:
        self._psycopg = require("psycopg", "postgres")
        self._address = address
        self._collector = int.from_bytes(secret(4), "little") >> 1
        self._writing, self._reading = threading.RLock(), threading.RLock()
        self._connections: dict[str, Any] = {}
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the database."""
        with self._writing, self._reading:
            for name in list(self._connections):
                self._disconnect(name)

    # Connections -----------------------------------------------------------------------------------------------

    def _connected(self, name: str) -> Any:
        """The connection for writing or for reading, which is made again if it broke."""
        known = self._connections.get(name)
        if known is not None and not known.closed:
            return known
        made = self._psycopg.connect(self._address, autocommit=True, connect_timeout=_PATIENCE)
        self._connections[name] = made
        made.execute("SET synchronous_commit = on")
        if name == "writing":
            made.execute("SELECT pg_advisory_lock(%s, %s)", (LOCKS, self._collector))
        return made

    def _disconnect(self, name: str) -> None:
        with suppress(self._psycopg.Error):
            connection = self._connections.pop(name, None)
            if connection is not None:
                connection.close()

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Errors of the database as those of the store, without what they quote; a connection that broke is left."""
        try:
            yield
        except self._psycopg.Error as error:
            code = getattr(error, "sqlstate", None) or ""
            if isinstance(error, self._psycopg.OperationalError):
                self._disconnect(name)
            kind = f"{type(error).__name__} {code}".strip()
            if code in _FULL:
                raise StoreFullError(f"the database cannot be written: there is no room ({kind})") from None
            raise StoreError(f"the database of the store cannot be used ({kind})") from None

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """All or nothing, on the disk at the end."""
        with self._writing, self._told("writing"):
            connection = self._connected("writing")
            with connection.transaction():
                yield _Statements(connection)

    @contextmanager
    def _moment(self) -> Iterator[Any]:
        """Queries, all of one moment."""
        with self._reading, self._told("reading"):
            connection = self._connected("reading")
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                yield _Statements(connection)

    def _prepare(self) -> None:
        if self._read("SHOW fsync") != [("on",)]:
            raise StoreError("this PostgreSQL has fsync off, and would lose what it acknowledged: turn it on")
        with self._transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (LOCKS + 1, 0))  # one collector makes the tables
            connection.execute("CREATE TABLE IF NOT EXISTS dither_store (version INTEGER NOT NULL)")
            found = connection.execute("SELECT version FROM dither_store").fetchone()
            version = found[0] if found else 0
            if version > VERSION:
                raise StoreError("this store was written by a newer version of dither; upgrade to use it")
            if version == VERSION:
                return
            for statements in MIGRATIONS[version:VERSION]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute("DELETE FROM dither_store")
            connection.execute("INSERT INTO dither_store VALUES (?)", (VERSION,))

    # Several collectors ----------------------------------------------------------------------------------------

    def _insert(self, connection: Any, new: Sequence[Submission]) -> list[Place]:
        """Insert the rows of batches; the places where another collector has inserted one a moment ago."""
        missed = dict.fromkeys(sorted((each.campaign, each.key) for each in new))
        for some in chunks(sorted(new, key=lambda each: (each.campaign, each.key))):
            text, values = inserting(some)
            for campaign, key in connection.execute(f"{text} RETURNING campaign, key", values).fetchall():
                del missed[campaign, bytes(key)]
        return list(missed)

    def _insert_group(self, connection: Any, campaign: int, hour: int, batches: int, bodies: bytes) -> int:
        text = "INSERT INTO raw (campaign, hour, batches, collector, bodies) VALUES (?, ?, ?, ?, ?) RETURNING number"
        return connection.execute(text, (campaign, hour, batches, self._collector, bodies)).fetchall()[0][0]

    def waiting(self) -> list[RawGroup]:
        """Raw groups that wait to be counted: this collector's, and those of collectors that are gone."""
        text = f"""SELECT number, campaign, length(bodies) FROM raw WHERE NOT counted
            AND (collector = ? OR collector NOT IN ({_ALIVE})) ORDER BY number"""  # noqa: S608 - a constant
        return [RawGroup(*row) for row in self._read(text, self._collector, LOCKS)]

    def checkpoint(self, least: int = 0) -> None:
        """PostgreSQL looks after its own log."""

    def backup(self, path: str) -> None:
        """PostgreSQL has tools of its own."""
        raise StoreError("a store in PostgreSQL is copied by PostgreSQL's own tools: pg_dump, or a base backup")


class _Statements:
    """A connection that takes statements as they are written here."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, text: str, arguments: Sequence[Any] = ()) -> Any:
        return self._connection.execute(text.replace("?", "%s"), arguments or None)
