"""Shufflers for tests: real ones, in processes of their own, beside a real collector."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from collect.collectors import Served, ended, launched
from dither.collect.sealed_reports import CONTENT_TYPE, SealedReportFormat
from dither.collect.sealing_keys import KeyFolder, SealingKey, new_key
from dither.collect.shuffler_store import ShufflerFigures, read_figures
from dither.planning import Plan


def with_key(store: Path) -> SealingKey:
    """A new key of the collector with this store."""
    return KeyFolder(store / "keys").add(new_key())


def messages_of(plan: Plan, key: SealingKey, count: int) -> list[bytes]:
    """Sealed reports of so many users, each with one."""
    form = SealedReportFormat(plan)
    return [message for _ in range(count) for message in form.seal(plan.report({}), key.public)]


def shuffler_started(folder: Path, collector: Served, batch: int, port: int = 0, *options: str) -> Served:
    """A shuffler that is ready, at the port if one is given."""
    given = ["--to", f"http://127.0.0.1:{collector.port}", "--batch", str(batch), "--store", str(folder)]
    return launched("shuffle", *given, "--port", str(port), *options)


@contextmanager
def shuffling(folder: Path, collector: Served, batch: int, *options: str) -> Iterator[Served]:
    """A shuffler that is stopped at the end."""
    served = shuffler_started(folder, collector, batch, 0, *options)
    try:
        yield served
    finally:
        ended(served)


def handed_in(shuffler: Served, plan: Plan, body: bytes, **headers: str) -> tuple[int, Any]:
    """Sealed reports to a shuffler."""
    lines = {"content-type": CONTENT_TYPE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return shuffler.json("POST", f"/v1/plans/{plan.fingerprint}/sealed", body, lines)


def figures_of(folder: Path, plan: Plan) -> ShufflerFigures:
    """The counts of a shuffler."""
    return read_figures(folder)[plan.fingerprint]


def estimate_of(collector: Served, store: Path, plan: Plan) -> dict[str, Any]:
    """What an analyst reads."""
    headers = {"authorization": f"Bearer {(store / 'analyst.token').read_text().strip()}"}
    status, _, body = collector.request("GET", f"/v1/plans/{plan.fingerprint}/estimate", None, headers)
    assert status == 200
    return json.loads(body)
