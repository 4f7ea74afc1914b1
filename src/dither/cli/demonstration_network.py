"""The part of the demonstration that goes over a network: a collector, and a shuffler in front of it, on this machine.

Both are processes of their own, started by the commands that anybody would type, on free ports that only this machine
can reach. The reports that are sent are those of a file that is there already, to the byte: a flight reports once, and
another draw of its noise would tell more about it than was promised. So what the collector has counted can be compared
with the tally of that file, and is the same to the bit.

A collector refuses simulated reports, so a demonstration from a seed has no such part.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from dither.core.reports import Reports
from dither.display.significant_digits import number
from dither.display.table import TextTable
from dither.errors import CollectorError, MissingExtraError, require
from dither.page.export import to_dict
from dither.planning import Plan
from dither.planning.plan_tally import PlanTally

STORE, SHUFFLER, OUTBOX = "collector", "shuffler", "outbox"
TALLY = "network.tally"
NEEDS = ("uvicorn", "starlette", "httptools")

_SEALED = 1000  # reports that go through the shuffler, or a quarter of all
_PATIENCE = 60.0  # seconds for a program to start, to count or to end
_SHOWN = {"mean(dep_delay)": 1, "mean(air_time)": 1, "histogram(carrier)": 3}  # questions, and how many numbers of each


def missing() -> str | None:
    """What to install for this part, if it is not there."""
    if all(find_spec(name) for name in NEEDS):
        return None
    return "A collector over HTTP needs more than this installation has: pip install 'dither[serve]'"


def over_network(show: Any, made: Plan, part: str, stack: ExitStack) -> str:
    """Send the reports of a file to a collector, and set what it says beside the local tally; the collector's address.

    Programs end with the stack.
    """
    for folder in (STORE, SHUFFLER, OUTBOX, f"{OUTBOX}-sealed"):
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier demonstration
    directly, sealed = _reports(made, f"{part}.parquet")
    hidden = sum(map(len, sealed.values()))
    can_seal = _can_seal()
    if can_seal:
        show.dither(f"keys new --store {STORE}")
    with show.working():
        collector = stack.enter_context(program("serve", "plan.json", "--store", STORE, "--port", "0"))
    show.command(f"dither serve plan.json --store {STORE} --port 0 &    # {collector}")
    shuffler = None
    if can_seal:
        least = ("--batch", str(hidden), "--store", SHUFFLER, "--port", "0")
        with show.working():
            shuffler = stack.enter_context(program("shuffle", "--to", collector, *least))
        show.command(f"dither shuffle --to {collector} {' '.join(least)} &    # {shuffler}")
    with show.working():
        sent = _send(made, collector, directly, OUTBOX) + _send(made, collector, sealed, f"{OUTBOX}-sealed", shuffler)
        found = _asked(made, collector, sent)
        counted = PlanTally.from_bytes(Path(f"{part}.tally").read_bytes())
        local = to_dict(made, made.estimate(counted, refine=None))
    sealed_away = f", {hidden:,} of them sealed through the shuffler, which sees ciphertexts only" if shuffler else ""
    show.note(
        f"{sent:,} reports of {part}.parquet went to the collector{sealed_away}. It says, and the local tally says:"
    )
    show.table(_beside(found, local))
    if "shuffled" in found:
        trust = found["shuffled"]["trust"]
        show.note(f"{trust[:1].upper()}{trust[1:]}. Here both run on one machine, which is for a demonstration only.")
    return collector


def compare(show: Any, made: Plan, part: str) -> None:
    """Whether the collector has counted what the file has; when it has ended, or while it runs."""
    show.dither(f"campaign tally {made.fingerprint[:12]} --store {STORE} -o {TALLY}")
    ours, theirs = (PlanTally.from_bytes(Path(name).read_bytes()) for name in (f"{part}.tally", TALLY))
    same = "is the same to the bit as" if ours == theirs else "is NOT the same as"
    show.note(f"The collector's tally of {theirs.reports:,} reports {same} {part}.tally.")


@contextmanager
def program(*arguments: str) -> Iterator[str]:
    """A `dither` command in a process of its own, from when it is ready until the end of the block; its address."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-m", "dither", *arguments], stdout=subprocess.PIPE, stderr=said, text=True
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                process.wait(_PATIENCE)
                raise CollectorError(f"dither {arguments[0]} did not start: {_last_line(said)}")
            _wait_until_well(address)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _last_line(said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _wait_until_well(address: str) -> None:
    """The port is open before the service is."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"{address}/v1/health", timeout=_PATIENCE):  # noqa: S310 - on this machine
                return
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.02)


def _can_seal() -> bool:
    from dither.collect.sealed_reports import hpke_suite

    try:
        hpke_suite()
    except MissingExtraError:
        return False
    return True


def _reports(made: Plan, file: str) -> tuple[Mapping[str, Reports], Mapping[str, Reports]]:
    """The reports of a file, in two parts: those that are sent as they are, and those that are sealed."""
    from dither.engines.report_rows import unpack_rows

    table = require("pyarrow.parquet", "demo").read_table(file)
    hidden = min(_SEALED, table.num_rows // 4)
    step = max(1, table.num_rows // max(1, hidden))  # rows lie part by part: some of each
    chosen = [place % step == 0 and place // step < hidden for place in range(table.num_rows)]
    (directly, sealed) = (
        table.filter(require("pyarrow", "demo").array([taken is kind for taken in chosen])) for kind in (False, True)
    )
    return tuple(unpack_rows(made, part.combine_chunks().to_batches()[0]) for part in (directly, sealed))  # type: ignore[return-value]


def _send(made: Plan, collector: str, reports: Mapping[str, Reports], outbox: str, shuffler: str | None = None) -> int:
    """Send reports; how many are on their way to be counted."""
    from dither.collect.client import Client

    found = Client(collector, outbox, plan=made, shuffler=shuffler, patience=_PATIENCE).send_reports(reports)
    if not found.complete:
        raise CollectorError(f"the collector did not take all reports ({found.trouble})")
    return sum(map(len, reports.values()))


def _asked(made: Plan, collector: str, reports: int) -> dict[str, Any]:
    """The live estimates, when all reports are counted, which lags behind storing."""
    from dither.collect.server import TOKEN_FILE, open_store

    store, end = open_store(STORE), time.monotonic() + _PATIENCE
    try:
        (campaign,) = store.campaigns()
        while sum(tally.reports for tally in store.counted(campaign.number).tallies.values()) < reports:
            if time.monotonic() > end:
                raise CollectorError("the collector has not counted all reports within a minute")
            time.sleep(0.1)
    finally:
        store.close()
    token = (Path(STORE) / TOKEN_FILE).read_text(encoding="utf-8").strip()
    request = urllib.request.Request(  # noqa: S310 - on this machine
        f"{collector}/v1/plans/{made.fingerprint}/estimate", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310 - on this machine
        return json.load(answer)


def _beside(found: dict[str, Any], local: dict[str, Any]) -> TextTable:
    """A few numbers of the collector, and the same from the local tally."""
    asked = [(question, place) for question, most in _SHOWN.items() for place in range(most)]
    numbers = [[each["questions"][question]["numbers"][place] for each in (found, local)] for question, place in asked]
    return TextTable(
        {
            "question": [question for question, _ in asked],
            "of": [theirs["of"] for theirs, _ in numbers],
            "from the collector": [number(theirs["value"], theirs["stderr"]) for theirs, _ in numbers],
            "from the local tally": [number(ours["value"], ours["stderr"]) for _, ours in numbers],
        }
    )
