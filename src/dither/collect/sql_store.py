"""A store in an SQL database: all that SQLite and PostgreSQL do in the same words.

A statement is written once, with `?` where an argument goes, in SQL that both understand (`ON CONFLICT`, `TRUE`, lists
of `VALUES`). What differs is said by the two that derive from this: how to connect, what a transaction is, their
tables, and in PostgreSQL, where several collectors write, which rows are locked (`HELD`, `ALONE`).

**One statement for many rows.** Rows of batches are looked up and inserted by the hundred. Python's sqlite3 lets go of
the interpreter at every row of `executemany`, and gets it back when the threads that answer requests can spare it;
PostgreSQL would take a round trip for each. Statements come in few lengths, so that they are prepared once.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from dither.collect.store import (
    CONFLICT,
    DUPLICATE,
    MINUTES,
    NEW,
    OPEN,
    REVOKED,
    Arrival,
    Campaign,
    Counted,
    Crowds,
    Outcome,
    RawGroup,
    StoreError,
    Submission,
    Token,
    arrived,
)
from dither.planning.plan_tally import PlanTally

HOUR, MINUTE = 3600, 60

_MOST_ROWS = 512  # of one statement
_CAMPAIGN = "SELECT number, plan, document, state, closes, keep FROM campaign"
_INSERT = "INSERT INTO batch (campaign, key, digest, accepted, rejected) VALUES"
_FIND = """SELECT campaign, key, digest, accepted, rejected FROM (VALUES {}) AS asked CROSS JOIN batch
    WHERE campaign = column1 AND key = column2"""  # in this order: SQLite would look at every row otherwise
_ARRIVED = """INSERT INTO arrival (campaign, minute, outcome, reports) VALUES (?, ?, ?, ?)
    ON CONFLICT (campaign, minute, outcome) DO UPDATE SET reports = arrival.reports + excluded.reports"""
_WAITING = "SELECT coalesce(sum(batches), 0) FROM raw WHERE counted = FALSE AND campaign = ?"
_TABLES = ("raw", "batch", "tally", "token", "query", "crowd", "arrival")  # with rows of campaigns

Place = tuple[int, bytes]  # of a batch: its campaign, and the hash of its key


class SqlStore(ABC):
    """The store of `store.Store`; who derives from it says where it is."""

    HELD = ALONE = ""  # what a statement adds, so that nobody deletes its rows; so that nobody else counts
    ORDER = "number"  # in which queries came

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """What executes statements: all or nothing, on the disk at the end."""

    @abstractmethod
    def _moment(self) -> AbstractContextManager[Any]:
        """What executes queries, all of one moment."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the store."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, text: str, *arguments: Any) -> list[tuple]:
        with self._moment() as connection:
            return connection.execute(text, arguments).fetchall()

    def _write(self, text: str, *arguments: Any) -> int:
        """Execute one statement; how many rows it changed."""
        with self._transaction() as connection:
            return connection.execute(text, arguments).rowcount

    # Campaigns -------------------------------------------------------------------------------------------------

    def campaigns(self) -> list[Campaign]:
        """All campaigns, in the order in which they were added."""
        return [Campaign(*row) for row in self._read(f"{_CAMPAIGN} ORDER BY number")]

    def add_campaign(self, plan: str, document: bytes) -> Campaign:
        """A campaign for a plan, open; the one that is there, if there is one."""
        insert = "INSERT INTO campaign (plan, document, state) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        with self._transaction() as connection:
            connection.execute(insert, (plan, document, OPEN))
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
        self._write("UPDATE campaign SET keep = ? WHERE number = ?", hours, number)

    def delete_campaign(self, number: int) -> None:
        """Remove all that is stored of a campaign."""
        with self._transaction() as connection:
            # First the campaign: that waits for those who store something for it, and nobody begins to.
            connection.execute("DELETE FROM campaign WHERE number = ?", (number,))
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table} WHERE campaign = ?", (number,))  # noqa: S608 - names from here

    def identity(self, campaign: int) -> str:
        """A random name of a campaign in this store, the same for good."""
        rows = self._read("SELECT identity FROM campaign WHERE number = ?", campaign)
        if not rows:
            raise StoreError("this campaign was deleted from the store")
        return _hexadecimal(rows[0][0])

    # Batches ---------------------------------------------------------------------------------------------------

    def commit(self, submissions: Sequence[Submission]) -> tuple[list[Outcome], dict[int, int]]:
        """Store batches, in one transaction. When it returns, they are on the disk."""
        first = dict[Place, Submission]()
        for each in submissions:
            first.setdefault((each.campaign, each.key), each)
        with self._transaction() as connection:
            self._hold(connection, {each.campaign for each in submissions})
            known = self._known(connection, first)
            fresh = [place for place in first if place not in known] if known else list(first)
            known |= self._known(connection, self._insert(connection, [first[place] for place in fresh]))
            new = [each for place, each in first.items() if place not in known] if known else list(first.values())
            groups = self._inserted_groups(connection, new)
            self._note_arrivals(connection, int(time.time() // MINUTE), arrived(new))
        if len(new) == len(submissions):
            return [Outcome(NEW, each.accepted, each.rejected) for each in submissions], groups
        return _outcomes(submissions, known), groups

    def _hold(self, connection: Any, campaigns: set[int]) -> None:
        """Nothing is stored for a campaign that was deleted a moment ago, and nobody deletes it now."""
        there = f"SELECT number FROM campaign WHERE number IN ({_marks(len(campaigns))}){self.HELD}"  # noqa: S608
        if len(connection.execute(there, tuple(campaigns)).fetchall()) < len(campaigns):
            raise StoreError("a campaign was deleted from the store, so nothing was stored for it")

    @staticmethod
    def _known(connection: Any, places: Iterable[Place]) -> dict[Place, tuple[bytes, int, str | None]]:
        """What is stored under keys, of those that are."""
        found = {}
        for some in chunks(list(places)):
            values = [value for place in some for value in place]
            rows = connection.execute(_FIND.format(_rows(len(some), 2)), values).fetchall()
            found |= {(row[0], bytes(row[1])): (bytes(row[2]), row[3], row[4]) for row in rows}
        return found

    def _insert(self, connection: Any, new: Sequence[Submission]) -> list[Place]:
        """Insert the rows of batches; the places where another collector has inserted one a moment ago."""
        for some in chunks(new):
            connection.execute(*inserting(some))
        return []

    def _inserted_groups(self, connection: Any, new: Sequence[Submission]) -> dict[int, int]:
        """The numbers of the raw groups of new batches, by the campaign."""
        bodies: dict[int, list[bytes]] = {}
        for each in new:
            bodies.setdefault(each.campaign, []).append(each.body)
        hour = int(time.time() // HOUR)
        return {
            campaign: self._insert_group(connection, campaign, hour, len(some), packed_bodies(some))
            for campaign, some in bodies.items()
        }

    def _insert_group(self, connection: Any, campaign: int, hour: int, batches: int, bodies: bytes) -> int:
        text = "INSERT INTO raw (campaign, hour, batches, bodies) VALUES (?, ?, ?, ?) RETURNING number"
        return connection.execute(text, (campaign, hour, batches, bodies)).fetchall()[0][0]

    @staticmethod
    def _note_arrivals(connection: Any, minute: int, counts: Mapping[tuple[int, str], int]) -> None:
        """Last of a transaction, and in one order: other collectors wait for these rows."""
        for (campaign, outcome), reports in counts.items():
            connection.execute(_ARRIVED, (campaign, minute, outcome, reports))

    def arrivals(self, campaign: int) -> list[Arrival]:
        """How many reports of a campaign came when, by what became of them, in the order of time."""
        text = "SELECT minute, outcome, reports FROM arrival WHERE campaign = ? ORDER BY minute, outcome"
        return [Arrival(*row) for row in self._read(text, campaign)]

    def note_crowd(self, campaign: int, key: bytes, users: int) -> None:
        """Note of how many users a shuffled batch is, once."""
        self._write("INSERT INTO crowd VALUES (?, ?, ?) ON CONFLICT DO NOTHING", campaign, key, users)

    def crowds(self, campaign: int) -> Crowds:
        """The shuffled batches of a campaign."""
        found = "SELECT count(*), coalesce(sum(users), 0), coalesce(min(users), 0) FROM crowd WHERE campaign = ?"
        return Crowds(*map(int, self._read(found, campaign)[0]))

    def waiting(self) -> list[RawGroup]:
        """Raw groups that wait to be counted, the oldest first; all are this collector's."""
        rows = self._read("SELECT number, campaign, length(bodies) FROM raw WHERE counted = FALSE ORDER BY number")
        return [RawGroup(*row) for row in rows]

    def waiting_batches(self, campaign: int) -> int:
        """How many batches of a campaign wait to be counted, by whomever."""
        return int(self._read(_WAITING, campaign)[0][0])

    def bodies(self, number: int) -> list[bytes]:
        """The batches of a raw group; none if it is not there any more."""
        rows = self._read("SELECT bodies FROM raw WHERE number = ?", number)
        return [body for row in rows for body in unpacked_bodies(row[0])]

    def raw_groups(self, campaign: int) -> list[RawGroup]:
        """All raw groups of a campaign that are there, whether they wait or are kept after they were counted."""
        text = "SELECT number, campaign, length(bodies) FROM raw WHERE campaign = ? ORDER BY number"
        return [RawGroup(*row) for row in self._read(text, campaign)]

    def fold(self, campaign: int, groups: Sequence[int], added: Mapping[int, PlanTally]) -> bool:
        """Add raw groups to the tallies of their campaign, and scrub them unless they are kept."""
        still = f"WHERE counted = FALSE AND campaign = ? AND number IN ({_marks(len(groups))})"
        with self._transaction() as connection:
            own = f"SELECT keep FROM campaign WHERE number = ?{self.ALONE}"  # noqa: S608 - a constant
            keep = connection.execute(own, (campaign,)).fetchone()
            found = f"SELECT count(*), sum(batches) FROM raw {still}"  # noqa: S608 - names from here
            there, batches = connection.execute(found, (campaign, *groups)).fetchone()
            if keep is None or there < len(groups):
                return False
            change = "UPDATE raw SET counted = TRUE" if keep[0] else "DELETE FROM raw"
            connection.execute(f"{change} {still}", (campaign, *groups))
            connection.execute("UPDATE campaign SET batches = batches + ? WHERE number = ?", (batches, campaign))
            for number, tally in added.items():
                before = "SELECT counts FROM tally WHERE campaign = ? AND round = ?"
                row = connection.execute(before, (campaign, number)).fetchone()
                total = tally if row is None else PlanTally.from_bytes(bytes(row[0])) + tally
                connection.execute(
                    """INSERT INTO tally VALUES (?, ?, ?)
                    ON CONFLICT (campaign, round) DO UPDATE SET counts = excluded.counts""",
                    (campaign, number, total.to_bytes()),
                )
        return True

    def counted(self, campaign: int) -> Counted:
        """The tallies of a campaign, and how many batches wait."""
        with self._moment() as connection:
            row = connection.execute("SELECT batches FROM campaign WHERE number = ?", (campaign,)).fetchone()
            tallies = connection.execute(
                "SELECT round, counts FROM tally WHERE campaign = ? ORDER BY round", (campaign,)
            ).fetchall()
            waiting = int(connection.execute(_WAITING, (campaign,)).fetchone()[0])
        if row is None:
            raise StoreError("this campaign was deleted from the store")
        found = {number: PlanTally.from_bytes(bytes(counts)) for number, counts in tallies}
        return Counted(found, waiting, int(row[0]) + waiting)

    def scrub(self, now: float) -> int:
        """Remove raw batches that were counted and whose time is over; add the minutes of early arrivals up."""
        self._add_minutes_up((int(now // MINUTE) - MINUTES) // 60 * 60)
        late = """SELECT raw.number FROM raw JOIN campaign ON campaign.number = raw.campaign
                  WHERE counted = TRUE AND raw.hour + campaign.keep <= ?"""
        hour = int(now // HOUR)
        if not self._read(f"{late} LIMIT 1", hour):
            return 0
        return self._write(f"DELETE FROM raw WHERE number IN ({late})", hour)  # noqa: S608 - names from here

    def _add_minutes_up(self, end: int) -> None:
        """Arrivals before a minute become one number an hour."""
        early = "FROM arrival WHERE minute < ? AND minute <> minute / 60 * 60"
        if not self._read(f"SELECT 1 {early} LIMIT 1", end):
            return
        with self._transaction() as connection:  # of two collectors that do this, the second finds nothing to delete
            removed = f"DELETE {early} RETURNING campaign, minute, outcome, reports"
            for campaign, minute, outcome, reports in connection.execute(removed, (end,)).fetchall():
                self._note_arrivals(connection, minute // 60 * 60, {(campaign, outcome): reports})

    # Tokens and queries ----------------------------------------------------------------------------------------

    def add_token(self, token: Token) -> None:
        """A token that is known from now on; one that is known stays what it is."""
        insert = "INSERT INTO token (digest, role, campaign, expires) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        self._write(insert, token.digest, token.role, token.campaign, token.expires)

    def tokens(self) -> list[Token]:
        """All tokens that are known."""
        rows = self._read("SELECT digest, role, campaign, expires FROM token")
        return [Token(bytes(digest), *rest) for digest, *rest in rows]

    def revoke_token(self, digest: bytes) -> None:
        """A token opens nothing any more. It stays known: a campaign that asks for tokens goes on asking."""
        self._write("UPDATE token SET expires = ? WHERE digest = ?", REVOKED, digest)

    def log_query(self, time: int, campaign: int, kind: str, detail: str, token: bytes | None) -> None:
        """Note what an analyst asked, and by which token."""
        insert = "INSERT INTO query (time, campaign, kind, detail, token) VALUES (?, ?, ?, ?, ?)"
        self._write(insert, time, campaign, kind, detail.replace("\0", "?"), token)

    def queries(self, campaign: int | None = None) -> list[tuple[int, int, str, str, bytes | None]]:
        """The log of analysts' queries."""
        text = f"SELECT time, campaign, kind, detail, token FROM query ORDER BY {self.ORDER}"  # noqa: S608 - a constant
        rows = self._read(text)
        found = [(row[0], row[1], row[2], row[3], None if row[4] is None else bytes(row[4])) for row in rows]
        return [row for row in found if campaign is None or row[1] == campaign]


def _outcomes(submissions: Sequence[Submission], known: Mapping[Place, tuple]) -> list[Outcome]:
    """What became of each batch, of which some were known, or are there twice."""
    outcomes, seen = list[Outcome](), dict[Place, tuple]()
    for each in submissions:
        place = each.campaign, each.key
        before = known.get(place) or seen.get(place)
        if before is not None:
            outcomes.append(_repeated(each, *before))
        else:
            seen[place] = each.digest, each.accepted, each.rejected
            outcomes.append(Outcome(NEW, each.accepted, each.rejected))
    return outcomes


def _repeated(submission: Submission, digest: bytes, accepted: int, rejected: str | Mapping | None) -> Outcome:
    """The outcome of a batch whose key is known, with what was answered at first."""
    if digest != submission.digest:
        return Outcome(CONFLICT, 0, {})
    return Outcome(DUPLICATE, accepted, json.loads(rejected) if isinstance(rejected, str) else rejected or {})


def inserting(submissions: Sequence[Submission]) -> tuple[str, list[Any]]:
    """The statement that inserts rows of batches, and its arguments."""
    values = list[Any]()
    for campaign, key, digest, _, accepted, rejected in submissions:
        values += (campaign, key, digest, accepted, json.dumps(dict(rejected)) if rejected else None)
    return f"{_INSERT} {_rows(len(submissions), 5)} ON CONFLICT DO NOTHING", values


def chunks(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """All rows, in pieces of few different lengths: powers of two."""
    first = 0
    while first < len(rows):
        count = min(_MOST_ROWS, 1 << ((len(rows) - first).bit_length() - 1))
        yield rows[first : first + count]
        first += count


def _marks(count: int) -> str:
    return ",".join("?" * count)


def _rows(count: int, columns: int) -> str:
    return ",".join([f"({_marks(columns)})"] * count)


def _hexadecimal(identity: Any) -> str:
    """The bytes of SQLite, or the UUID of PostgreSQL."""
    return identity.hex() if isinstance(identity, bytes) else identity.hex


def packed_bodies(bodies: Sequence[bytes]) -> bytes:
    """The bodies of a raw group in one row."""
    return msgspec.msgpack.encode(bodies)


def unpacked_bodies(data: bytes) -> list[bytes]:
    """The inverse."""
    return msgspec.msgpack.decode(data, type=list[bytes])
