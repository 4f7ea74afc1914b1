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

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from dither.collect.sqlite_store import HOUR, packed_bodies, repeated, unpacked_bodies
from dither.collect.store import (
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
from dither.core.randomness import secret
from dither.errors import require
from dither.planning.plan_tally import PlanTally

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
)

_INSERT = """INSERT INTO batch (campaign, key, digest, accepted, rejected)
    SELECT * FROM unnest(%s::integer[], %s::bytea[], %s::bytea[], %s::bigint[], %s::text[])
    ON CONFLICT DO NOTHING RETURNING campaign, key"""
_CAMPAIGN = "SELECT number, plan, document, state, closes, keep FROM campaign"
_STILL = "NOT counted AND campaign = %s AND number = ANY(%s)"
_ALIVE = """SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


class PostgresStore:
    """A store in a database: `PostgresStore("postgresql://host/database")`."""

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

    def __enter__(self) -> "PostgresStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
                yield connection

    def _read(self, text: str, *arguments: Any) -> list[tuple]:
        with self._reading, self._told("reading"):
            return self._connected("reading").execute(text, arguments or None).fetchall()

    def _prepare(self) -> None:
        if self._read("SHOW fsync") != [("on",)]:
            raise StoreError("this PostgreSQL has fsync off, and would lose what it acknowledged: turn it on")
        with self._transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS + 1, 0))  # one collector makes the tables
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
            connection.execute("INSERT INTO dither_store VALUES (%s)", (VERSION,))

    # Campaigns -------------------------------------------------------------------------------------------------

    def campaigns(self) -> list[Campaign]:
        """All campaigns, in the order in which they were added."""
        return [Campaign(*row) for row in self._read(f"{_CAMPAIGN} ORDER BY number")]

    def add_campaign(self, plan: str, document: bytes) -> Campaign:
        """A campaign for a plan, open; the one that is there, if there is one."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO campaign (plan, document, state) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (plan, document, OPEN),
            )
            return Campaign(*connection.execute(f"{_CAMPAIGN} WHERE plan = %s", (plan,)).fetchone())

    def change_campaign(self, number: int, *, state: str | None = None, closes: int | None = None) -> None:
        """Open or close a campaign, or set when it expires."""
        with self._transaction() as connection:
            if state is not None:
                connection.execute("UPDATE campaign SET state = %s WHERE number = %s", (state, number))
            if closes is not None:
                connection.execute("UPDATE campaign SET closes = %s WHERE number = %s", (closes, number))

    def keep_reports(self, number: int, hours: int) -> None:
        """For how long raw batches stay after they were counted."""
        with self._transaction() as connection:
            connection.execute("UPDATE campaign SET keep = %s WHERE number = %s", (hours, number))

    def delete_campaign(self, number: int) -> None:
        """Remove all that is stored of a campaign. Its pages are cleared by the next VACUUM, its log by PostgreSQL."""
        with self._transaction() as connection:
            connection.execute("SELECT 1 FROM campaign WHERE number = %s FOR UPDATE", (number,))
            for table in ("raw", "batch", "tally", "token", "query", "crowd"):
                connection.execute(f"DELETE FROM {table} WHERE campaign = %s", (number,))  # noqa: S608 - names from here
            connection.execute("DELETE FROM campaign WHERE number = %s", (number,))

    # Batches ---------------------------------------------------------------------------------------------------

    def commit(self, submissions: Sequence[Submission]) -> tuple[list[Outcome], dict[int, int]]:
        """Store batches, in one transaction. When it returns, they are on the disk."""
        ordered = sorted(submissions, key=lambda each: (each.campaign, each.key))  # of equal keys the first stays first
        rejected = [json.dumps(dict(each.rejected)) if each.rejected else None for each in ordered]
        columns = [[each[place] for each in ordered] for place in (0, 1, 2, 4)]
        with self._transaction() as connection:
            campaigns = {each.campaign for each in submissions}
            there = "SELECT number FROM campaign WHERE number = ANY(%s) FOR KEY SHARE"  # nobody deletes it meanwhile
            if len(connection.execute(there, (list(campaigns),)).fetchall()) < len(campaigns):
                raise StoreError("a campaign was deleted from the store, so nothing was stored for it")
            inserted = connection.execute(_INSERT, (*columns, rejected)).fetchall()
            new = {(campaign, bytes(key)) for campaign, key in inserted}
            known = self._known(connection, [each for each in ordered if (each.campaign, each.key) not in new])
            outcomes: list[Outcome] = []
            bodies: dict[int, list[bytes]] = {}
            seen: dict[tuple[int, bytes], Submission] = {}
            for each in submissions:
                place = each.campaign, each.key
                first = seen.get(place)
                if place in known:
                    outcomes.append(repeated(each, *known[place]))
                elif first is not None:
                    outcomes.append(repeated(each, first.digest, first.accepted, first.rejected))
                else:
                    seen[place] = each
                    bodies.setdefault(each.campaign, []).append(each.body)
                    outcomes.append(Outcome(NEW, each.accepted, each.rejected))
            hour, groups = int(time.time() // HOUR), {}
            for campaign, some in bodies.items():
                row = (campaign, hour, len(some), self._collector, packed_bodies(some))
                groups[campaign] = connection.execute(
                    """INSERT INTO raw (campaign, hour, batches, collector, bodies)
                    VALUES (%s, %s, %s, %s, %s) RETURNING number""",
                    row,
                ).fetchone()[0]
        return outcomes, groups

    def _known(self, connection: Any, submissions: Sequence[Submission]) -> dict[tuple[int, bytes], tuple]:
        """What is stored under the keys that others inserted before."""
        if not submissions:
            return {}
        text = """SELECT campaign, key, digest, accepted, rejected FROM batch
            JOIN unnest(%s::integer[], %s::bytea[]) AS asked (asked_campaign, asked_key)
            ON campaign = asked_campaign AND key = asked_key"""
        asked = [each.campaign for each in submissions], [each.key for each in submissions]
        rows = connection.execute(text, asked).fetchall()
        return {(row[0], bytes(row[1])): (bytes(row[2]), row[3], row[4]) for row in rows}

    def note_crowd(self, campaign: int, key: bytes, users: int) -> None:
        """Note of how many users a shuffled batch is, once."""
        with self._transaction() as connection:
            connection.execute("INSERT INTO crowd VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (campaign, key, users))

    def crowds(self, campaign: int) -> Crowds:
        """The shuffled batches of a campaign."""
        found = "SELECT count(*), coalesce(sum(users), 0), coalesce(min(users), 0) FROM crowd WHERE campaign = %s"
        batches, users, smallest = self._read(found, campaign)[0]
        return Crowds(int(batches), int(users), int(smallest))

    def waiting(self) -> list[RawGroup]:
        """Raw groups that wait to be counted: this collector's, and those of collectors that are gone."""
        text = f"""SELECT number, campaign, length(bodies) FROM raw WHERE NOT counted
            AND (collector = %s OR collector NOT IN ({_ALIVE})) ORDER BY number"""  # noqa: S608 - a constant
        return [RawGroup(*row) for row in self._read(text, self._collector, LOCKS)]

    def bodies(self, number: int) -> list[bytes]:
        """The batches of a raw group; none if it is not there any more."""
        rows = self._read("SELECT bodies FROM raw WHERE number = %s", number)
        return [body for row in rows for body in unpacked_bodies(bytes(row[0]))]

    def raw_groups(self, campaign: int) -> list[RawGroup]:
        """All raw groups of a campaign that are there, whether they wait or are kept after they were counted."""
        text = "SELECT number, campaign, length(bodies) FROM raw WHERE campaign = %s ORDER BY number"
        return [RawGroup(*row) for row in self._read(text, campaign)]

    def identity(self, campaign: int) -> str:
        """A random name of a campaign in this store, the same for good."""
        rows = self._read("SELECT identity FROM campaign WHERE number = %s", campaign)
        if not rows:
            raise StoreError("this campaign was deleted from the store")
        return rows[0][0].hex

    def fold(self, campaign: int, groups: Sequence[int], added: Mapping[int, PlanTally]) -> bool:
        """Add raw groups to the tallies of their campaign, and scrub them unless they are kept."""
        with self._transaction() as connection:
            own = "SELECT keep FROM campaign WHERE number = %s FOR NO KEY UPDATE"  # who counts is alone
            keep = connection.execute(own, (campaign,)).fetchone()
            found = f"SELECT count(*), sum(batches) FROM raw WHERE {_STILL}"  # noqa: S608 - a constant
            there, batches = connection.execute(found, (campaign, list(groups))).fetchone()
            if keep is None or there < len(groups):
                return False
            change = "UPDATE raw SET counted = TRUE" if keep[0] else "DELETE FROM raw"
            connection.execute(f"{change} WHERE {_STILL}", (campaign, list(groups)))
            connection.execute("UPDATE campaign SET batches = batches + %s WHERE number = %s", (batches, campaign))
            for number, tally in added.items():
                before = "SELECT counts FROM tally WHERE campaign = %s AND round = %s"
                row = connection.execute(before, (campaign, number)).fetchone()
                total = tally if row is None else PlanTally.from_bytes(bytes(row[0])) + tally
                connection.execute(
                    """INSERT INTO tally VALUES (%s, %s, %s)
                    ON CONFLICT (campaign, round) DO UPDATE SET counts = EXCLUDED.counts""",
                    (campaign, number, total.to_bytes()),
                )
        return True

    def counted(self, campaign: int) -> Counted:
        """The tallies of a campaign, and how many batches wait."""
        with self._reading, self._told("reading"):
            connection = self._connected("reading")
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # all of it of one moment
                row = connection.execute("SELECT batches FROM campaign WHERE number = %s", (campaign,)).fetchone()
                tallies = connection.execute(
                    "SELECT round, counts FROM tally WHERE campaign = %s ORDER BY round", (campaign,)
                ).fetchall()
                waiting = connection.execute(
                    "SELECT coalesce(sum(batches), 0) FROM raw WHERE NOT counted AND campaign = %s", (campaign,)
                ).fetchone()[0]
        if row is None:
            raise StoreError("this campaign was deleted from the store")
        found = {number: PlanTally.from_bytes(bytes(counts)) for number, counts in tallies}
        return Counted(found, int(waiting), int(row[0]) + int(waiting))

    def scrub(self, now: float) -> int:
        """Remove raw batches that were counted and whose time is over."""
        with self._transaction() as connection:
            return connection.execute(
                """DELETE FROM raw USING campaign WHERE campaign.number = raw.campaign AND counted
                AND raw.hour + campaign.keep <= %s""",
                (int(now // HOUR),),
            ).rowcount

    def checkpoint(self, least: int = 0) -> None:
        """PostgreSQL looks after its own log."""

    # Tokens and queries ----------------------------------------------------------------------------------------

    def add_token(self, token: Token) -> None:
        """A token that is known from now on."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO token VALUES (%s, %s, %s, %s) ON CONFLICT (digest) DO NOTHING",
                (token.digest, token.role, token.campaign, token.expires),
            )

    def tokens(self) -> list[Token]:
        """All tokens that are known."""
        rows = self._read("SELECT digest, role, campaign, expires FROM token")
        return [Token(bytes(digest), *rest) for digest, *rest in rows]

    def log_query(self, time: int, campaign: int, kind: str, detail: str, token: bytes | None) -> None:
        """Note what an analyst asked, and by which token."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO query (time, campaign, kind, detail, token) VALUES (%s, %s, %s, %s, %s)",
                (time, campaign, kind, detail.replace("\0", "?"), token),
            )

    def queries(self, campaign: int | None = None) -> list[tuple[int, int, str, str, bytes | None]]:
        """The log of analysts' queries."""
        rows = self._read("SELECT time, campaign, kind, detail, token FROM query ORDER BY number")
        found = [(row[0], row[1], row[2], row[3], None if row[4] is None else bytes(row[4])) for row in rows]
        return [row for row in found if campaign is None or row[1] == campaign]

    def backup(self, path: str) -> None:
        """PostgreSQL has tools of its own."""
        raise StoreError("a store in PostgreSQL is copied by PostgreSQL's own tools: pg_dump, or a base backup")
