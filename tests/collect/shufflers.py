"""Shufflers for tests: real ones, in processes of their own, beside a real collector."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from collect.collectors import TOO_LONG, Served
from dither.collect.sealed_reports import CONTENT_TYPE, SealedFormat
from dither.collect.sealing_keys import KeyFolder, SealingKey, new_key
from dither.collect.shuffler_store import Figures, read_figures
from dither.planning import Plan
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
