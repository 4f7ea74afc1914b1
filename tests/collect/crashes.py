"""Loads that do not give up, and services that are killed under them: all that was acknowledged is counted, once.

Senders are threads. Whatever happens to a request (the connection breaks, nobody answers, 503), they send the same
bytes again, as the protocol asks of them. Some clients give up on purpose, when they were not answered: those batches
may be counted or not, and never twice.

`python benchmarks/collect.py` does the same, more often.
"""

import http.client
import random
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from collect.collectors import TOO_LONG, Served, ended, other_plan, started, waited_for
from collect.postgres import Postgres
from collect.shufflers import estimate_of, figures_of, messages_of, shuffler_started, with_key
from dither.collect import SqliteStore
from dither.collect.sealed_reports import CONTENT_TYPE as SEALED
from dither.collect.sealed_reports import SealedReportFormat
from dither.collect.sealing_keys import SealingKey
from dither.collect.shuffler_store import DATABASE
from dither.collect.store import Counted
from dither.planning import Plan, PlanTally
from dither.wire import CONTENT_TYPE, BatchFormat


class Senders(ABC):
    """Threads that send until they are told to stop."""

    def __init__(self, threads: int, seed: int) -> None:
        self.stopping = threading.Event()
        runs = [(number, random.Random(seed * 1000 + number)) for number in range(threads)]
        self.threads = [threading.Thread(target=self._run, args=run) for run in runs]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(TOO_LONG)
        assert not any(thread.is_alive() for thread in self.threads)

    def _run(self, number: int, draw: random.Random) -> None:
        for count in range(1_000_000):
            if self.stopping.is_set():
                return
            self.send(draw, f"{number}-{count}")

    @abstractmethod
    def send(self, draw: random.Random, key: str) -> None:
        """Send something new."""


def answered(port: int, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """What came back, status and body; 0 if nothing did."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with closing(link), suppress(OSError, http.client.HTTPException):
        link.request("POST", path, body, headers)
        answer = link.getresponse()
        return answer.status, answer.read()
    return 0, b""


@dataclass
class Sent:
    """What clients know at the end."""

    acknowledged: dict[str, bytes] = field(default_factory=dict)  # by the key
    unanswered: dict[str, bytes] = field(default_factory=dict)
    repeated: int = 0  # requests that were answered as duplicates
    retries: int = 0


class Clients(Senders):
    """Clients that send batches to collectors."""

    def __init__(
        self, plan: Plan, sources: Sequence[bytes], ports: Callable[[], Sequence[int]], threads: int, seed: int
    ) -> None:
        super().__init__(threads, seed)
        self.path, self.sources, self.ports, self.sent = f"/v1/plans/{plan.fingerprint}/reports", sources, ports, Sent()

    def send(self, draw: random.Random, key: str) -> None:
        body, patient = draw.choice(self.sources), draw.random() < 0.9
        headers, end = {"content-type": CONTENT_TYPE, "idempotency-key": key}, time.monotonic() + TOO_LONG
        while time.monotonic() < end:
            status, text = answered(draw.choice(self.ports()), self.path, body, headers)
            assert status in (0, 200, 429, 503), text
            if status == 200:
                self.sent.repeated += b'"duplicate":true' in text
                self.sent.acknowledged[key] = body
                return
            if not patient:
                self.sent.unanswered[key] = body
                return
            self.sent.retries += 1
            time.sleep(0.02)
        raise AssertionError("a batch could not be sent")


class Devices(Senders):
    """Devices that send sealed reports to a shuffler."""

    def __init__(self, plan: Plan, key: SealingKey, port: int, threads: int, seed: int) -> None:
        super().__init__(threads, seed)
        self.plan, self.key, self.port, self.acknowledged = plan, key, port, list[bytes]()
        self.size = SealedReportFormat(plan).size

    def send(self, draw: random.Random, key: str) -> None:
        body, path = b"".join(messages_of(self.plan, self.key, draw.choice([1, 1, 7]))), self.plan.fingerprint
        while answered(self.port, f"/v1/plans/{path}/sealed", body, {"content-type": SEALED})[0] != 200:
            time.sleep(0.02)
        self.acknowledged += [body[at : at + self.size] for at in range(0, len(body), self.size)]


# What is killed ------------------------------------------------------------------------------------------------------


def killed(
    store: Path, plan: Plan, sources: Sequence[bytes], kills: int, *, seed: int, longest: float = 0.5
) -> tuple[Sent, PlanTally, int]:
    """Kill a collector so many times under load: what was sent, the tally at the end, and how many batches it has."""
    draw, served = random.Random(seed), started(store, plan)
    port = served.port
    with Clients(plan, sources, lambda: [port], 6, seed) as clients:
        for _ in range(kills):
            time.sleep(draw.random() * longest)
            served.kill()
            served = started(store, options=("--port", str(port)))
        time.sleep(0.2)
    code, errors = served.stop()
    ended(served)
    assert code == 0, errors
    with SqliteStore(store) as found:
        counted = found.counted(found.campaigns()[0].number)
    return clients.sent, *_whole(counted)


def killed_on_postgres(
    server: Postgres, place: Path, plan: Plan, sources: Sequence[bytes], kills: int, kind: str, *, seed: int
) -> tuple[Sent, PlanTally, int]:
    """The same of two collectors on one database: one of them, or the database, is killed again and again."""
    from dither.collect.postgres_store import PostgresStore

    def collector(name: str, *plans: Plan, port: int = 0) -> Served:
        options = ("--port", str(port))
        return started(place / name, *plans, place=server.address, cwd=place, options=options)

    draw, first, second = random.Random(seed), collector("one", plan), collector("two", plan)
    ports = [first.port, second.port]
    with Clients(plan, sources, lambda: ports, 6, seed) as clients:
        for _ in range(kills):
            time.sleep(draw.uniform(0.1, 0.6))
            if kind == "database":
                server.kill()
                server.start()
            else:
                first.kill()
                first = collector("one", port=ports[0])
        time.sleep(0.5)
    first.kill()  # what it has stored and not counted is for the other one
    with PostgresStore(server.address) as store:
        number = store.campaigns()[0].number
        waited_for(lambda: not store.counted(number).waiting)
        counted = store.counted(number)
    code, errors = second.stop()
    ended(second)
    assert code == 0, errors
    return clients.sent, *_whole(counted)


def _whole(counted: Counted) -> tuple[PlanTally, int]:
    assert counted.waiting == 0
    return counted.tallies[0], counted.batches


def killed_shuffler(place: Path, kills: int, seed: int, *, batch: int = 25, collector_too: bool = True) -> str:
    """Kill a shuffler, and a collector every third time, while devices send; what is found then, in words.

    The tally of what was acknowledged is, to the bit, that of the collector and of what waits at the shuffler.
    """
    plan, store, folder = other_plan(), place / "store", place / "shuffler"
    key, draw = with_key(store), random.Random(seed)
    collector = started(store, plan)
    shuffler = shuffler_started(folder, collector, batch)
    ports = collector.port, shuffler.port
    try:
        with Devices(plan, key, ports[1], 4, seed) as devices:
            for number in range(kills):
                time.sleep(draw.uniform(0.05, 0.6))
                if number % 3 == 2 and collector_too:
                    collector.kill()
                    collector = started(store, options=("--port", str(ports[0])))
                else:
                    shuffler.kill()
                    shuffler = shuffler_started(folder, collector, batch, ports[1])
        waited_for(lambda: figures_of(folder, plan).on_their_way == 0)
        crowds = estimate_of(collector, store, plan)["shuffled"]
    finally:
        for served in (shuffler, collector):
            ended(served)
    left = figures_of(folder, plan)
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        waiting = [row[0] for row in database.execute("SELECT message FROM waiting")]
    with SqliteStore(store) as opened:
        (counted,) = opened.counted(1).tallies.values()
    form, opener = SealedReportFormat(plan), key.opener()

    def tallied(messages: Sequence[Any]) -> PlanTally:
        return form.wire.tally([form.wire.check(form.opened(message, opener)) for message in messages])

    assert len(devices.acknowledged) == left.taken == left.forwarded + left.waiting
    assert len(waiting) == left.waiting < batch <= crowds["smallest_batch"]
    assert (counted + tallied(waiting)).to_bytes() == tallied(devices.acknowledged).to_bytes()
    return f"{kills} kills: {left.taken} acknowledged = {counted.reports} counted + {left.waiting} waiting"


def compare(plan: Plan, sent: Sent, tally: PlanTally, batches: int) -> str:
    """Refuse a tally that lacks something acknowledged, or has something twice; what was counted, in words."""
    form = BatchFormat(plan)
    sure = form.tally(map(form.check, sent.acknowledged.values()))
    perhaps = form.tally(map(form.check, sent.unanswered.values()))
    assert sure.reports <= tally.reports <= sure.reports + perhaps.reports
    assert len(sent.acknowledged) <= batches <= len(sent.acknowledged) + len(sent.unanswered)
    if batches == len(sent.acknowledged):
        assert tally.to_bytes() == sure.to_bytes()
    return (
        f"{len(sent.acknowledged):,} batches acknowledged with {sure.reports:,} reports; {batches:,} batches and "
        f"{tally.reports:,} reports counted; {len(sent.unanswered)} batches without an answer, of which "
        f"{batches - len(sent.acknowledged)} had been stored; {sent.retries:,} retries, {sent.repeated:,} repeats"
    )
