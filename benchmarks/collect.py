"""The collector against the least that a service could do, in one run: ratios, latencies, and exact counts.

    python benchmarks/collect.py             rates and latencies (two minutes)
    python benchmarks/collect.py --kills 200 kill -9 under load: what was acknowledged is counted, exactly
    python benchmarks/collect.py --shuffler-kills 200 the same of a shuffler
    python benchmarks/collect.py --postgres-kills 200 of PostgreSQL, and of one of two collectors on it
    python benchmarks/collect.py --bodies 1000000 malformed bodies: no 5xx, no memory, no state
    python benchmarks/collect.py --stream 100000000 so many reports in batches: memory stays flat
    python benchmarks/collect.py --starts 10 how long it takes until it is ready

Two endpoints are raced: one that reads a request and answers, and nothing else (`empty`), and one that appends the
bytes to a file and calls `fdatasync` before it answers (`append`). Both are plain ASGI on the same uvicorn. All three
servers run one after the other with the same client, several times over, and the median of the ratios is told. The
client is another process, with so many requests in flight as it says.
"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dither
from dither.collect import SqliteStore
from dither.planning import Plan
from dither.wire import CONTENT_TYPE, BatchFormat

HERE = Path(__file__).resolve()
TOO_LONG = 60.0


def example_plan() -> Plan:
    """A plan with three questions, as a small collection has."""
    schema = dither.Schema(
        {
            "age": dither.Ordinal(0, 99),
            "job": dither.Categorical(["nurse", "driver", "teacher", "other"]),
            "income": dither.Numeric(0, 200_000),
        }
    )
    return dither.plan(schema, epsilon=1.0, users=100_000)


def records(count: int) -> dict[str, Any]:
    """Made-up users."""
    draw = np.random.default_rng(1)
    jobs = np.array(["nurse", "driver", "teacher", "other"])
    return {
        "age": draw.integers(0, 100, count),
        "job": jobs[draw.integers(0, 4, count)],
        "income": draw.integers(0, 200_000, count).astype(float),
    }


# Servers -----------------------------------------------------------------------------------------------------------


async def _read(receive: Any) -> bytes:
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _answer(send: Any) -> None:
    body = b'{"accepted":1,"rejected":{},"duplicate":false}'
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def bare(kind: str, folder: str) -> Any:
    """The endpoint that does nothing, or appends to a file."""
    file = os.open(Path(folder) / "appended", os.O_CREAT | os.O_WRONLY | os.O_APPEND) if kind == "append" else -1

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
            return
        body = await _read(receive)
        if file >= 0:
            os.write(file, body)
            os.fdatasync(file)
        await _answer(send)

    return application


def serve_bare(kind: str, folder: str, port: int) -> None:
    """Run such an endpoint until the process is told to stop."""
    import uvicorn

    uvicorn.run(bare(kind, folder), port=port, log_config=None, access_log=False, backlog=2048)


@contextlib.contextmanager
def server(kind: str, folder: Path, port: int, plan: Path) -> Iterator[subprocess.Popen]:
    """One of the three servers, ready."""
    if kind == "collector":
        command = [sys.executable, "-m", "dither", "serve", str(plan), "--store", str(folder / "store")]
        command += ["--port", str(port), "--least-reports", "1"]
    else:
        command = [sys.executable, str(HERE), "--bare", kind, str(folder), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await_port(port)
        yield process
    finally:
        process.terminate()
        process.wait(TOO_LONG)


def _await_port(port: int) -> None:
    import socket

    end = time.monotonic() + TOO_LONG
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as link:
            link.sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            if link.recv(12):
                return
        time.sleep(0.02)
    raise SystemExit("a server did not start")


# The client --------------------------------------------------------------------------------------------------------


class Link(asyncio.Protocol):
    """One connection that sends request after request, and notes how long each took."""

    def __init__(self, load: "Load") -> None:
        self.load, self.sent, self.buffer = load, 0.0, b""
        self.key = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.ask()

    def ask(self) -> None:
        request = self.load.next_request()
        if request is None:
            self.transport.close()
            return
        self.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        start = self.buffer.lower().find(b"content-length: ") + 16
        length = int(self.buffer[start : self.buffer.find(b"\r\n", start)])
        if len(self.buffer) < head + 4 + length:
            return
        self.load.note(self.buffer[9:12], time.perf_counter() - self.sent)
        self.buffer = b""
        if self.load.pause:
            asyncio.get_running_loop().call_later(self.load.pause * random.random() * 2, self.ask)
        else:
            self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self.load.lost()


class Load:
    """Requests from so many connections for so many seconds."""

    def __init__(self, plan: str, bodies: list[bytes], links: int, seconds: float, pause: float = 0.0) -> None:
        self.plan, self.bodies, self.links, self.seconds, self.pause = plan, bodies, links, seconds, pause
        self.taken: list[float] = []
        self.cost = 0.0  # of a request, in seconds of the server's CPU
        self.statuses: dict[bytes, int] = {}
        self.count, self.name = 0, os.urandom(8).hex()
        self.heads = [
            f"POST /v1/plans/{plan}/reports HTTP/1.1\r\nhost: localhost\r\ncontent-type: {CONTENT_TYPE}\r\n"
            f"content-length: {len(body)}\r\nidempotency-key: {self.name}-".encode()
            for body in bodies
        ]

    def next_request(self) -> bytes | None:
        if time.perf_counter() > self.end:
            return None
        self.count += 1
        place = self.count % len(self.bodies)
        return b"%b%d\r\n\r\n%b" % (self.heads[place], self.count, self.bodies[place])

    def note(self, status: bytes, seconds: float) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.taken.append(seconds)

    def lost(self) -> None:
        self.open -= 1
        if not self.open:
            self.done.set()

    async def run(self, port: int) -> "Load":
        self.done, self.open = asyncio.Event(), self.links
        self.started = time.perf_counter()
        self.end = self.started + self.seconds
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.create_connection(lambda: Link(self), "127.0.0.1", port) for _ in range(self.links))
        )
        await self.done.wait()
        self.elapsed = time.perf_counter() - self.started
        return self

    @property
    def rate(self) -> float:
        return len(self.taken) / self.elapsed

    def quantile(self, q: float) -> float:
        return float(np.quantile(self.taken, q))


def loaded(port: int, *arguments: Any) -> Load:
    """What a load came to."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.run(Load(*arguments).run(port))
    return asyncio.run(Load(*arguments).run(port))


# What is measured --------------------------------------------------------------------------------------------------


def rates(place: Path, seconds: float, repeats: int) -> None:
    """Rates and latencies, each beside those of the endpoint that it is compared with."""
    plan = example_plan()
    file = place / "plan.json"
    plan.save(file)
    wire = BatchFormat(plan)
    singles = list(wire.pack_batches(plan.randomize(records(500)), 1))
    tens = list(wire.pack_batches(plan.randomize(records(100_000)), 10_000))
    print(f"a batch of 10,000 reports has {len(tens[0]):,} bytes; one of a single report has {len(singles[0])}")
    races = ("single reports", "empty", singles, 256), ("batches of 10,000", "append", tens, 16)
    for name, peer, bodies, links in races:
        found: dict[str, list[Load]] = {peer: [], "collector": []}
        for turn in range(repeats):
            for kind in (peer, "collector"):
                folder = Path(tempfile.mkdtemp(dir=place))
                port = 18000 + random.randrange(2000)
                with server(kind, folder, port, file) as process:
                    loaded(port, plan.fingerprint, bodies, links, min(3.0, seconds))  # what is loaded at first
                    before = cpu_seconds(process.pid)
                    load = loaded(port, plan.fingerprint, bodies, links, seconds)
                    load.cost = (cpu_seconds(process.pid) - before) / len(load.taken)
                shutil.rmtree(folder)
                assert set(load.statuses) == {b"200"}, load.statuses
                found[kind].append(load)
                middle, late = (load.quantile(share) * 1e3 for share in (0.5, 0.99))
                print(f"  {name}, {links} in flight, {kind}, turn {turn + 1}: {load.rate:,.0f} requests/s, "
                      f"p50 {middle:.1f} ms, p99 {late:.1f} ms, "
                      f"{load.cost * 1e6:.0f} us of CPU each", flush=True)  # fmt: skip
        pairs = list(zip(found["collector"], found[peer], strict=True))
        ratios = [mine.rate / theirs.rate for mine, theirs in pairs]
        costs = [mine.cost / theirs.cost for mine, theirs in pairs]
        print(f"{name}, {links} in flight: {statistics.median(ratios):.2f} of {peer} "
              f"(from {min(ratios):.2f} to {max(ratios):.2f}), "
              f"at {statistics.median(costs):.2f} times its CPU", flush=True)  # fmt: skip
        if name == "single reports":
            half = statistics.median(load.rate for load in found["collector"]) / 2
            latencies(place, plan, file, singles, links, half, seconds)


def latencies(
    place: Path, plan: Plan, file: Path, bodies: list[bytes], links: int, rate: float, seconds: float
) -> None:
    """The 99th percentile at a rate that is given."""
    found = {}
    for kind in ("empty", "collector"):
        folder = Path(tempfile.mkdtemp(dir=place))
        port = 18000 + random.randrange(2000)
        with server(kind, folder, port, file):
            pause = links / rate
            load = loaded(port, plan.fingerprint, bodies, links, seconds, pause)
        shutil.rmtree(folder)
        found[kind] = load.quantile(0.99)
        print(f"  {kind} at {load.rate:,.0f} requests/s: p50 {load.quantile(0.5) * 1e3:.1f} ms, "
              f"p99 {found[kind] * 1e3:.1f} ms", flush=True)  # fmt: skip
    print(f"p99 at half of that load: {found['collector'] / found['empty']:.1f} times that of empty")


def cpu_seconds(process: int) -> float:
    """What a process has used of all cores, in programs and in the kernel."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss(process: int) -> int:
    """The memory that a process has, in bytes."""
    line = next(each for each in Path(f"/proc/{process}/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def state(store: Path) -> tuple[int, int]:
    """Batches that were ever stored, and reports that are counted, when none waits."""
    end = time.monotonic() + TOO_LONG
    with SqliteStore(store) as found:
        number = found.campaigns()[0].number
        while (counted := found.counted(number)).waiting and time.monotonic() < end:
            time.sleep(0.1)
    return counted.batches, sum(tally.reports for tally in counted.tallies.values())


def crashes() -> Any:
    """What the tests do, here more often."""
    # There, a folder has the name of this file.
    sys.path[:] = [str(HERE.parents[1] / "tests"), *(each for each in sys.path if Path(each) != HERE.parent)]
    return import_module("collect.crashes"), import_module("collect.collectors")


def kills(place: Path, count: int) -> None:
    """Kill the collector under load, again and again, and compare what was acknowledged with what is counted."""
    found, collectors = crashes()
    plan = collectors.small_plan()
    sources = collectors.batches(plan, 40, 5)
    sent, tally, stored = found.killed(place / "store", plan, sources, count, seed=int(time.time()))
    print(f"{count} kills under load of 6 clients: {found.compare(plan, sent, tally, stored)}: equal")


def shuffler_kills(place: Path, count: int) -> None:
    """Kill the shuffler while devices send: what was acknowledged is counted or waits, to the bit of the tally."""
    print(crashes()[0].killed_shuffler(place, count, int(time.time()), collector_too=False), flush=True)


def postgres_kills(place: Path, count: int) -> None:
    """Kill PostgreSQL, and then one of two collectors on it, under load."""
    found, collectors = crashes()
    plan = collectors.small_plan()
    sources = collectors.batches(plan, 40, 5)
    database = import_module("collect.postgres").Postgres()
    try:
        for kind in ("database", "collector"):
            database.empty()
            told = found.killed_on_postgres(database, place, plan, sources, count, kind, seed=int(time.time()))
            print(f"{count} kills of a {kind} under load of 6 clients: {found.compare(plan, *told)}: equal", flush=True)
    finally:
        database.remove()


def mutated(draw: random.Random, sources: list[bytes]) -> bytes:
    """A body that is no good batch: damaged, cut, joined, or rubbish."""
    body = bytearray(draw.choice(sources))
    kind = draw.randrange(5)
    if kind == 0:
        body[draw.randrange(52)] ^= 1 << draw.randrange(8)  # in the frame
    elif kind == 1:
        del body[draw.randrange(len(body)) :]
    elif kind == 2:
        body += draw.randbytes(1 + draw.randrange(50))
    elif kind == 3:
        body = bytearray(draw.randbytes(draw.randrange(300)))
    else:
        body[44:52] = draw.randbytes(8)  # how many sections and reports there are
    return bytes(body)


class Told(NamedTuple):
    """What a long load left: answers by status, batches and reports in the store before and after, and memory."""

    sent: int
    statuses: dict[str, int]
    before: tuple[int, int]
    after: tuple[int, int]
    sizes: list[int]

    @property
    def growth(self) -> float:
        """Of the memory, from a tenth of the requests on, when all that is used was used once, to its largest."""
        return max(self.sizes) / self.sizes[min(1, len(self.sizes) - 1)] - 1

    def memory(self) -> str:
        """In words."""
        first, warm = self.sizes[0] / 1e6, self.sizes[min(1, len(self.sizes) - 1)] / 1e6
        most = max(self.sizes) / 1e6
        return (
            f"RSS {first:.1f} MB after the first requests, {warm:.1f} after a tenth of them, then at most {most:.1f} "
            f"({self.growth:+.1%}; {most / first - 1:+.1%} of the first)"
        )


def long_load(place: Path, plan: Plan, sources: list[bytes], wanted: list[bytes], count: int, links: int) -> Told:
    """Send so many requests to a collector, after some good ones, in turns after which its memory is measured."""
    file, statuses, sizes, sent = place / "plan.json", Counter[str](), list[int](), 0
    plan.save(file)
    port = 17000 + random.randrange(900)
    with server("collector", place, port, file) as process:
        loaded(port, plan.fingerprint, sources, links, 3.0 if count > 10_000 else 0.5)
        before, turn = state(place / "store"), max(0.5, min(10.0, count / 40_000))
        while sent < count:
            load = loaded(port, plan.fingerprint, wanted, links, turn)
            sent += len(load.taken)
            statuses.update({status.decode(): many for status, many in load.statuses.items()})
            if sent >= count / 10 or not sizes:
                sizes.append(rss(process.pid))
    return Told(sent, dict(sorted(statuses.items())), before, state(place / "store"), sizes)


def malformed_bodies(place: Path, count: int) -> Told:
    """Malformed bodies."""
    plan, draw = example_plan(), random.Random(1)
    wire = BatchFormat(plan)
    sources, wrong = list(wire.pack_batches(plan.randomize(records(100)), 10)), list[bytes]()
    while len(wrong) < 20_000:
        body = mutated(draw, sources)
        try:
            wire.check(body)
        except dither.errors.WireError:
            wrong.append(body)
    return long_load(place, plan, sources, wrong, count, 64)


def bodies(place: Path, count: int) -> None:
    """Malformed bodies: no 5xx, no growth of memory, no change of state."""
    told = malformed_bodies(place, count)
    print(f"{told.sent:,} malformed bodies, 64 in flight: {told.statuses}; state {told.before} before, {told.after} "
          f"after; {told.memory()}")  # fmt: skip


def streamed(place: Path, count: int) -> Told:
    """So many reports in batches of 10,000."""
    plan = example_plan()
    sources = list(BatchFormat(plan).pack_batches(plan.randomize(records(200_000)), 10_000))
    return long_load(place, plan, sources, sources, count // 10_000, 8)


def stream(place: Path, count: int) -> None:
    """So many reports in batches of 10,000: memory, and whether all of them are counted."""
    started = time.monotonic()
    told = streamed(place, count)
    elapsed, counted = time.monotonic() - started, told.after[1] - told.before[1]
    size = sum(each.stat().st_size for each in (place / "store").iterdir())
    print(f"{10_000 * told.sent:,} reports in batches of 10,000, 8 in flight, in {elapsed:.0f} s: {counted:,} counted; "
          f"{told.memory()}; the store has {size / 1e6:.1f} MB")  # fmt: skip


def starts(place: Path, count: int) -> None:
    """How long a collector takes from the command to the first answer, with an empty store."""
    example_plan().save(place / "plan.json")
    taken = list[float]()
    for _ in range(count):
        began = time.perf_counter()
        with server("collector", Path(tempfile.mkdtemp(dir=place)), 17000 + random.randrange(900), place / "plan.json"):
            taken.append(time.perf_counter() - began)
    print(f"{count} starts: ready after {statistics.median(taken):.2f} s (from {min(taken):.2f} to {max(taken):.2f})")


def main() -> None:
    """What was asked for on the command line."""
    if sys.argv[1:2] == ["--bare"]:
        serve_bare(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--place", default=tempfile.gettempdir(), help="a folder on the disk that is measured")
    parser.add_argument("--kills", type=int, help="kill -9 so many times under load")
    parser.add_argument("--shuffler-kills", type=int, help="kill -9 a shuffler so many times under load")
    parser.add_argument("--postgres-kills", type=int, help="kill -9 PostgreSQL, and a collector on it, so many times")
    parser.add_argument("--starts", type=int, help="start a collector so many times")
    parser.add_argument("--bodies", type=int, help="send so many malformed bodies")
    parser.add_argument("--stream", type=int, help="send so many reports")
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(dir=given.place))
    try:
        asked = [
            (kills, given.kills),
            (shuffler_kills, given.shuffler_kills),
            (postgres_kills, given.postgres_kills),
            (bodies, given.bodies),
            (stream, given.stream),
            (starts, given.starts),
        ]
        for measure, count in asked:
            if count:
                measure(place, count)
        if not any(count for _, count in asked):
            rates(place, given.seconds, given.repeats)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
