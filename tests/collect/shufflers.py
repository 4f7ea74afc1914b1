"""Shufflers for tests: real ones, in processes of their own, beside a real collector."""

import http.client
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from collect.collectors import TOO_LONG, Served, other_plan, started
from dither.collect import SqliteStore
from dither.collect.sealed_reports import CONTENT_TYPE, SealedFormat
from dither.collect.sealing_keys import KeyFolder, SealingKey, new_key
from dither.collect.shuffler_store import DATABASE, Figures, read_figures
from dither.planning import Plan, PlanTally
from interrupts import hears_interrupts


def with_key(store: Path) -> SealingKey:
    """A new key of the collector with this store."""
    return KeyFolder(store / "keys").add(new_key())


def messages_of(plan: Plan, key: SealingKey, count: int) -> list[bytes]:
    """Sealed reports of so many users, each with one."""
    form = SealedFormat(plan)
    return [message for _ in range(count) for message in form.seal(plan.report({}), key.public)]


def shuffler_started(folder: Path, collector: Served, batch: int, port: int = 0, *options: str) -> Served:
    """A shuffler that is ready, at the port if one is given."""
    command = [sys.executable, "-m", "dither", "shuffle", "--to", f"http://127.0.0.1:{collector.port}"]
    process = subprocess.Popen(
        [*command, "--batch", str(batch), "--store", str(folder), "--port", str(port), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=hears_interrupts,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address:
        _, errors = process.communicate(timeout=TOO_LONG)
        raise AssertionError(errors)
    served = Served(process, address)
    waited_for(lambda: served.request("GET", "/v1/health")[0] == 200)
    return served


@contextmanager
def shuffling(folder: Path, collector: Served, batch: int, *options: str) -> Iterator[Served]:
    """A shuffler that is stopped at the end."""
    served = shuffler_started(folder, collector, batch, 0, *options)
    try:
        yield served
    finally:
        ended(served)


def ended(served: Served) -> None:
    """Stop a process, if it runs."""
    if served.process.poll() is None:
        served.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            served.process.communicate(timeout=TOO_LONG)
        if served.process.poll() is None:
            served.process.kill()
    for stream in (served.process.stdout, served.process.stderr):
        if stream is not None:
            stream.close()


def waited_for(happened: Any) -> None:
    """Wait until something is true."""
    end = time.monotonic() + TOO_LONG
    while time.monotonic() < end:
        with suppress(OSError, http.client.HTTPException):
            if happened():
                return
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def handed_in(shuffler: Served, plan: Plan, body: bytes, **headers: str) -> tuple[int, Any]:
    """Sealed reports to a shuffler."""
    lines = {"content-type": CONTENT_TYPE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return shuffler.json("POST", f"/v1/plans/{plan.fingerprint}/sealed", body, lines)


def figures_of(folder: Path, plan: Plan) -> Figures:
    """The counts of a shuffler."""
    return read_figures(folder)[plan.fingerprint]


def estimate_of(collector: Served, store: Path, plan: Plan) -> dict[str, Any]:
    """What an analyst reads."""
    headers = {"authorization": f"Bearer {(store / 'analyst.token').read_text().strip()}"}
    status, _, body = collector.request("GET", f"/v1/plans/{plan.fingerprint}/estimate", None, headers)
    assert status == 200
    return json.loads(body)


# Killed under load ---------------------------------------------------------------------------------------------------


class Devices:
    """Threads that send sealed reports, the same bytes until they are acknowledged."""

    def __init__(self, plan: Plan, key: SealingKey, port: int, threads: int = 4) -> None:
        self.plan, self.key, self.port = plan, key, port
        self.acknowledged: list[bytes] = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(threads)]

    def __enter__(self) -> "Devices":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(TOO_LONG)

    def _run(self, number: int) -> None:
        draw, size = random.Random(number), SealedFormat(self.plan).size
        while not self.stopping.is_set():
            body = b"".join(messages_of(self.plan, self.key, draw.choice([1, 1, 7])))
            while not self._acknowledged(body):
                time.sleep(0.02)
            self.acknowledged += [body[at : at + size] for at in range(0, len(body), size)]

    def _acknowledged(self, body: bytes) -> bool:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TOO_LONG)
        path = f"/v1/plans/{self.plan.fingerprint}/sealed"
        with closing(link), suppress(OSError, http.client.HTTPException):
            link.request("POST", path, body, {"content-type": CONTENT_TYPE})
            return link.getresponse().status == 200
        return False


def killed(place: Path, kills: int, seed: int, *, batch: int = 25, collector_too: bool = True) -> str:
    """Kill a shuffler, and a collector every third time, while devices send; what is found then, in words.

    The tally of what was acknowledged is, to the bit, that of the collector and of what waits at the shuffler.
    """
    plan, store, folder = other_plan(), place / "store", place / "shuffler"
    key, chance = with_key(store), random.Random(seed)
    collector = started(store, plan)
    shuffler = shuffler_started(folder, collector, batch)
    ports = collector.port, shuffler.port
    try:
        with Devices(plan, key, ports[1]) as devices:
            for number in range(kills):
                time.sleep(chance.uniform(0.05, 0.6))
                if number % 3 == 2 and collector_too:
                    collector.kill()
                    ended(collector)
                    collector = started(store, options=("--port", str(ports[0])))
                else:
                    shuffler.kill()
                    ended(shuffler)
                    shuffler = shuffler_started(folder, collector, batch, ports[1])
        assert not any(thread.is_alive() for thread in devices.threads)
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
    form, opener = SealedFormat(plan), key.opener()

    def tallied(messages: list[bytes]) -> PlanTally:
        return form.wire.tally([form.wire.check(form.opened(message, opener)) for message in messages])

    assert len(devices.acknowledged) == left.taken == left.forwarded + left.waiting
    assert len(waiting) == left.waiting < batch <= crowds["smallest_batch"]
    assert (counted + tallied(waiting)).to_bytes() == tallied(devices.acknowledged).to_bytes()
    return f"{kills} kills: {left.taken} acknowledged = {counted.reports} counted + {left.waiting} waiting"
