"""Collectors for tests: real ones, in processes of their own, on a free port of this machine."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import dither
from dither.planning import Plan
from dither.wire import CONTENT_TYPE, BatchFormat
from interrupts import hears_interrupts

TOO_LONG = 60.0
JOBS = ("nurse", "driver", "teacher", "other")


@lru_cache
def small_plan() -> Plan:
    """Three questions, of which a user answers one."""
    schema = dither.Schema(
        {"age": dither.Ordinal(0, 9), "job": dither.Categorical(list(JOBS)), "income": dither.Numeric(0, 200_000)}
    )
    return dither.plan(schema, epsilon=2.0, users=10_000)


@lru_cache
def other_plan() -> Plan:
    """One question, of one byte a report."""
    return dither.plan(dither.Schema({"job": dither.Categorical(list(JOBS))}), epsilon=1.0, users=10_000)


@lru_cache
def ranges_plan() -> Plan:
    """A plan that answers conditions."""
    schema = dither.Schema({"age": dither.Ordinal(0, 15), "size": dither.Ordinal(0, 15)})
    return dither.plan(schema, epsilon=2.0, users=10_000, ask=["ranges(age, size)"])


def records(count: int) -> dict[str, list[Any]]:
    """Made-up users of the small plan."""
    return {
        "age": [i % 10 for i in range(count)],
        "job": [JOBS[i % 4] for i in range(count)],
        "income": [float(i % 200_000) for i in range(count)],
    }


def batches(plan: Plan, count: int, most: int) -> list[bytes]:
    """Reports of so many users in batches."""
    table = {name: column for name, column in records(count).items() if name in plan.attributes}
    return list(BatchFormat(plan).pack_batches(plan.randomize(table), most))


class Served:
    """A collector or a shuffler in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.port = process, int(address.rpartition(":")[2])

    def kill(self) -> None:
        """As a power failure would, for this process."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(TOO_LONG)
        ended(self)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code, and what it said."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=TOO_LONG)
        return self.process.returncode, errors

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """A request on a connection of its own: status, headers, body."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TOO_LONG)
        try:
            link.request(method, path, body, headers or {})
            answer = link.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, told, answer.read()
        finally:
            link.close()

    def json(self, method: str, path: str, *arguments: Any, **more: Any) -> tuple[int, Any]:
        """The same, for answers in JSON."""
        status, _, body = self.request(method, path, *arguments, **more)
        return status, json.loads(body)

    def send(self, plan: Plan, body: bytes, key: str | None, **headers: str) -> tuple[int, Any]:
        """A batch."""
        lines = {"content-type": CONTENT_TYPE, **({} if key is None else {"idempotency-key": key})}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.json("POST", f"/v1/plans/{plan.fingerprint}/reports", body, lines)


def launched(*arguments: str, **more: Any) -> Served:
    """A service of the command `dither` that is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dither", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **{"preexec_fn": hears_interrupts, **more},
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address:
        _, errors = process.communicate(timeout=TOO_LONG)
        raise AssertionError(errors)
    served = Served(process, address)
    waited_for(lambda: served.request("GET", "/v1/health")[0] == 200)
    return served


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


def started(store: Path, *plans: Plan, options: tuple[str, ...] = (), **more: Any) -> Served:
    """A collector that is ready."""
    files = []
    for plan in plans:
        file = store.with_name(f"{plan.fingerprint[:12]}.json")
        plan.save(file)
        files.append(str(file))
    place = more.pop("place", str(store))
    return launched("serve", *files, "--store", place, "--port", "0", "--least-reports", "1", *options, **more)


@contextmanager
def serving(store: Path, *plans: Plan, options: tuple[str, ...] = (), **more: Any):
    """A collector that is stopped at the end."""
    served = started(store, *plans, options=options, **more)
    try:
        yield served
    finally:
        ended(served)


def waited_for(happened: Any) -> None:
    """Wait until something is true."""
    end = time.monotonic() + TOO_LONG
    while time.monotonic() < end:
        with suppress(OSError, http.client.HTTPException):
            if happened():
                return
        time.sleep(0.02)
    raise AssertionError("it did not happen")
