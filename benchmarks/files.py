"""From files to answers: how fast, in how much memory, on Spark, and against other libraries.

    python benchmarks/files.py                   the whole, some five minutes
    python benchmarks/files.py --quick           a smoke test
    python benchmarks/files.py --write           also rewrites its section in benchmarks/README.md

A plan for 12 attributes (four numbers, three ordinal, five categorical, of 4 to 1,000 values) asks each user one
question; a report is a row of a Parquet file. Four things are measured, each in a process of its own on two cores:

- **Growth.** From 10^5 to 10^8 reports: time from the files to the estimates, which should grow as n does, and memory,
  which should not grow. The files were just written, so they come from the page cache: no disk is measured. Starting
  (imports, compiled loops) is stated apart.
- **Spark** with two cores on this machine against the local engine, in turns. Starting Java, and a first job, which
  starts Python workers, are stated apart.
- **Peers** from the same file of raw records to the same histogram. dither writes its reports to a file and reads them
  again; the peers keep theirs in memory. Only mechanisms of about the same accuracy take part: plain randomized
  response is faster, but has nine times their variance at this k and epsilon.
- **Randomizing**, since somebody has to: records to a Parquet file of reports.

More than ten million reports would take minutes to make. Larger sizes repeat ten million in several files.
"""

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

import peers
from dither import Plan, plan
from dither.display.table import TextTable
from dither.engines.local import Local
from dither.errors import BudgetWarning
from figures import README, Peers, Row, Target, keep, markdown, markdown_table, short, table, verdict
from filejobs import (
    CORES,
    Made,
    Raced,
    Sparked,
    Streamed,
    copied,
    run_local,
    run_race,
    run_spark,
    twelve_attributes,
    write_records,
)
from measure import Machine

PACKAGES = ("numpy", "numba", "pyarrow", "pyspark", "pure-ldp", "multi-freq-ldpy")
WIDTH = 140  # of the table, where the output is no terminal

EPSILON = 1.0
K = 100
MADE = 10**7
LARGE = 10**6  # from here on, fixed costs should not matter
SPARK = 10**7
WARM = 20_000

SPEED = Target(5e6)
STEADY = Target(1.2, of_ratio=True, at_least=False)
LINEAR = Target(1.1, at_least=False)
SLOWER = Target(3, of_ratio=True, at_least=False)
PEERS = Target(100, of_ratio=True)

Step = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How many reports the local engine gets, and how many users are in the race against the peers."""

    sizes: tuple[int, ...]
    race: int
    few: int


FULL, QUICK = Size((10**5, 10**6, 10**7, 10**8), 10**6, 20_000), Size((10**5, 10**6), 10**5, 2_000)


@dataclass(frozen=True)
class Reports:
    """Reports of a plan on disk: the plan, a folder of them, and a small file to warm up with."""

    users: int
    plan: Path
    folder: Path
    warm: Path
    rate: float  # records a second, made, randomized and written

    @property
    def bytes(self) -> int:
        """How large the files are."""
        return sum(file.stat().st_size for file in self.folder.iterdir())


@dataclass(frozen=True)
class Part:
    """A part of the results: what was found, in words, and a table of it."""

    title: str
    notes: Sequence[str]
    found: TextTable
    rows: Sequence[Row]


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--sizes", help="Numbers of reports, as in 1e5,1e6,1e7,1e8.")
@click.option("--folder", type=click.Path(file_okay=False, exists=True, path_type=Path), help="Where files are made.")
@click.option("--no-spark", is_flag=True, help="Leave out Spark.")
@click.option("--no-peers", is_flag=True, help="Leave out the other libraries.")
@click.option("--quick", is_flag=True, help="A smoke test: few reports, so that fixed costs blur the figures.")
@click.option("--write", is_flag=True, help="Rewrite the section in benchmarks/README.md.")
def main(sizes: str | None, folder: Path | None, no_spark: bool, no_peers: bool, quick: bool, write: bool) -> None:
    """Measure, print, and with --write keep."""
    if write and (quick or sizes or no_spark or no_peers):
        raise click.UsageError("a part of it is not worth keeping: use --write without other options")
    if not no_peers and (absent := peers.missing()):
        raise click.ClickException(f"{', '.join(absent)} missing: pip install -e '.[fast,bench]', or --no-peers")
    if not no_spark and find_spec("pyspark") is None:
        raise click.ClickException("pyspark missing: pip install -e '.[fast,spark]', or --no-spark")
    size = QUICK if quick else FULL
    counts = _counts(sizes) if sizes else size.sizes
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    machine = Machine.here(PACKAGES)
    parts: list[Part] = []
    with tempfile.TemporaryDirectory(prefix="dither-", dir=folder) as name, _told(console) as step:
        place = Path(name)
        reports = [_reports(place, users, step) for users in counts]
        parts.append(growth(reports, step))
        if not no_spark:
            parts.append(sparked(_largest(reports), step))
        if not no_peers:
            parts.append(raced(place, size, step))
    rows = [row for part in parts for row in part.rows]
    console.print(str(machine), highlight=False)
    for part in parts:
        console.print(f"\n{part.title}", highlight=False, style="bold")
        for note in part.notes:
            console.print(f"- {note}", highlight=False)
        console.print(part.found)
    console.print(table(rows))
    console.print(verdict(rows), highlight=False)
    if quick:
        console.print("A smoke test: the targets are meant for the whole run.")
    if write:
        keep("files", _section(machine, parts, rows))
        console.print(f"Results written to {README.parent.name}/{README.name}")


def _counts(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(float(each)) for each in text.split(",")}))
    except (ValueError, OverflowError):
        raise click.UsageError("--sizes takes numbers, as in 1e5,1e6") from None
    if found[0] < 1 or any(users > MADE and users % MADE for users in found):
        raise click.UsageError(f"--sizes takes numbers up to {short(MADE)}, and multiples of that")
    return found


# Growth --------------------------------------------------------------------------------------------------------


def _reports(place: Path, users: int, step: Step) -> Reports:
    """The default plan for so many users, and their reports in files."""
    step(f"{short(users)} reports: making")
    folder, made = place / str(users), min(users, MADE)
    folder.mkdir()
    best = _planned(users)
    stored, warm = place / f"{users}.json", place / f"{users}-warm.parquet"
    stored.write_text(best.to_json())
    Local().randomize(best, Made(best.schema, WARM), warm)
    begin = time.perf_counter()
    first = folder / "0.parquet"
    Local().randomize(best, Made(best.schema, made), first)
    rate = made / (time.perf_counter() - begin)
    for number in range(1, users // made):
        step(f"{short(users)} reports: file {number + 1} of {users // made}")
        copied(best, first, folder / f"{number}.parquet")
    return Reports(users, stored, folder, warm, rate)


def _planned(users: int) -> Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # 10^5 users are few for a thousand categories
        return plan(twelve_attributes(), EPSILON, users=users)


def growth(reports: Sequence[Reports], step: Step) -> Part:
    """Time and memory against the number of reports."""
    step("starting with nothing compiled")
    least = reports[0]
    with tempfile.TemporaryDirectory() as empty:
        cold = run_local(least.plan, least.warm, least.warm, WARM, NUMBA_CACHE_DIR=empty)
    found = []
    for each in reports:
        step(f"{short(each.users)} reports: local engine")
        found.append(run_local(each.plan, each.folder, each.warm, each.users))
    notes = [
        f"Not in the seconds: {np.median([each.start for each in found]):.2f} s to import, "
        f"{np.median([each.compiled for each in found]):.2f} s in the first tally of a process to load Numba and the "
        f"compiled loops, {cold.compiled:.1f} s to build them once",
        _repeated(reports),
        f"A report takes {reports[-1].bytes / reports[-1].users:.1f} bytes on disk. Files come from the page cache",
        *_fits(found),
    ]
    rows = [*_growth_rows(found), _randomize_row(reports)]
    return Part("From Parquet reports to estimates, local engine, 12 attributes", notes, _growth_table(found), rows)


def _repeated(reports: Sequence[Reports]) -> str:
    largest = reports[-1].users
    if largest <= MADE:
        return "All reports were really randomized"
    return (
        f"{MADE:,} reports were really randomized; {short(largest)} are these {largest // MADE} times, in as many files"
    )


def _growth_table(found: Sequence[Streamed]) -> TextTable:
    earlier = [None, *found[:-1]]

    def ratios(of: Callable[[Streamed], float]) -> list[str]:
        return ["" if less is None else f"{of(more) / of(less):.3g}" for less, more in zip(earlier, found, strict=True)]

    return TextTable(
        {
            "reports": [short(each.users) for each in found],
            "seconds": [f"{each.seconds:.3g}" for each in found],
            "reports/s": [short(each.users / each.seconds) for each in found],
            "ratio": ratios(lambda each: each.seconds),
            "core seconds": [f"{each.processor:.3g}" for each in found],
            "peak memory, MB": [f"{each.peak / 1e6:.0f}" for each in found],
            "ratio of memory": ratios(lambda each: each.peak),
            "its own, MB": [f"{each.own / 1e6:.0f}" for each in found],
            "before, MB": [f"{each.before / 1e6:.0f}" for each in found],
            "mapped, MB": [f"{each.mapped / 1e6:.0f}" for each in found],
        }
    )


def _fits(found: Sequence[Streamed]) -> Iterator[str]:
    """Time against n: the slope on two logarithmic scales, and a line with the weights of relative errors."""
    large = _large(found)
    if len(large) > 1:
        yield f"Slope of log time against log n, from {short(large[0].users)} on: {_slope(large):.3f} (linear is 1)"
    if len(found) > 2:
        n, taken = _arrays(found)
        per, fixed = np.polyfit(n, taken, 1, w=1 / taken)
        off = np.abs((fixed + per * n) / taken - 1).max()
        yield f"Line: seconds = {fixed:.3g} + {per * 1e9:.3g} x 10^-9 n, at most {off:.0%} off"


def _growth_rows(found: Sequence[Streamed]) -> Iterator[Row]:
    large = _large(found)
    for each in large:
        yield Row(
            "local engine", f"reports/s, n = {short(each.users)}", each.users, each.users / each.seconds, target=SPEED
        )
    for each in large[1:]:
        first = large[0].peak / 1e6
        name = f"peak memory, MB, n = {short(each.users)}"
        yield Row("local engine", name, each.users, each.peak / 1e6, versus=first, target=STEADY)
    if len(large) > 1:
        yield Row("local engine", "slope of log time", large[-1].users, _slope(large), target=LINEAR)


def _randomize_row(reports: Sequence[Reports]) -> Row:
    largest = _largest(reports)
    return Row("local engine", "randomize, records/s", largest.users, largest.rate)


def _large(found: Sequence[Streamed]) -> list[Streamed]:
    return [each for each in found if each.users >= LARGE]


def _arrays(found: Sequence[Streamed]) -> tuple[Any, Any]:
    return np.array([float(each.users) for each in found]), np.array([each.seconds for each in found])


def _slope(found: Sequence[Streamed]) -> float:
    n, taken = _arrays(found)
    return float(np.polyfit(np.log(n), np.log(taken), 1)[0])


def _largest(reports: Sequence[Reports]) -> Reports:
    """The largest that Spark is measured on, and that was randomized as a whole."""
    return max((each for each in reports if each.users <= SPARK), key=lambda each: each.users, default=reports[0])


# Spark ---------------------------------------------------------------------------------------------------------


def sparked(reports: Reports, step: Step) -> Part:
    """Spark against the local engine."""
    step(f"{short(reports.users)} reports: Spark")
    found = run_spark(reports.plan, reports.folder, reports.warm, reports.users)
    notes = [
        f"Not in the seconds: {found.session:.1f} s to start Java and a session, {found.first:.1f} s for a first job",
        f"The tallies of both engines are {'the same to the bit' if found.same else 'NOT THE SAME'}",
    ]
    rows = [
        Row(f"Spark, {name}", "tally, s", found.users, taken, versus=found.local, target=SLOWER)
        for name, taken in (("paths", found.paths), ("data frame", found.frame))
    ]
    title = f"The tally of {short(found.users)} reports by Spark, local[{CORES}], and by the local engine, in turns"
    return Part(title, notes, _spark_table(found), rows)


def _spark_table(found: Sparked) -> TextTable:
    times = {"local engine": found.local, "Spark, from paths": found.paths, "Spark, from a data frame": found.frame}
    return TextTable(
        {
            "engine": list(times),
            "seconds": [f"{taken:.3g}" for taken in times.values()],
            "reports/s": [short(found.users / taken) for taken in times.values()],
            "time, ratio to local": [f"{taken / found.local:.3g}" for taken in times.values()],
        }
    )


# Peers ---------------------------------------------------------------------------------------------------------


def raced(place: Path, size: Size, step: Step) -> Part:
    """Raw records in a Parquet file to a histogram, by every library."""
    step(f"histogram of {short(size.race)} records: peers")
    folder = place / "race"
    folder.mkdir()
    write_records(folder / "records.parquet", K, size.race)
    own, *others = run_race(folder, K, EPSILON, size.race, size.few)
    rows = []
    for name, of in _SIDES.items():
        best = max(others, key=of)
        peer = Peers(f"{best.library} {best.mechanism}", of(best), best.users)
        rows.append(Row(f"histogram, {own.mechanism}", f"{name}, users/s", own.users, of(own), peer, target=PEERS))
    notes = [
        "Server is reports to histogram; end to end is raw records in a file to histogram, reports in a file between "
        "(dither) or in memory (peers)",
        f"dither is measured on {short(size.race)} users, with the mechanism that its planner chooses; the peers on "
        f"the first {short(size.few)} of the same file",
        "Ratios are dither over this peer. The verdict below takes the fastest peer of each side",
    ]
    return Part(f"A histogram of {K} categories, epsilon = {EPSILON:g}", notes, _race_table(own, others), rows)


_SIDES: dict[str, Callable[[Raced], float]] = {
    "server": lambda each: each.users / each.server,
    "end to end": lambda each: each.users / each.whole,
}


def _race_table(own: Raced, others: Sequence[Raced]) -> TextTable:
    every = [own, *others]
    columns = {
        "library": [each.library for each in every],
        "mechanism": [each.mechanism for each in every],
        "users": [short(each.users) for each in every],
    }
    for name, of in _SIDES.items():
        columns[f"{name}, users/s"] = [short(of(each)) for each in every]
        columns[f"ratio, {name}"] = ["", *(short(of(own) / of(each)) for each in others)]
    return TextTable(columns)


# What is told --------------------------------------------------------------------------------------------------


@contextmanager
def _told(console: Console) -> Iterator[Step]:
    """A line that says what begins now, while it lasts; where nobody looks, one after the other on standard error."""
    if not console.is_terminal:
        yield lambda text: print(text, file=sys.stderr, flush=True)
        return
    with console.status("") as status:
        yield status.update


def _section(machine: Machine, parts: Sequence[Part], rows: Sequence[Row]) -> str:
    """The generated part of the README."""
    facts = f"- Measured on {date.today().isoformat()} by `python benchmarks/files.py --write`.\n- Machine: {machine}."
    blocks = [facts]
    for part in parts:
        notes = "\n".join(f"- {note}." for note in part.notes)
        blocks += [f"{part.title}:", notes, markdown_table(part.found)]
    return "\n\n".join((*blocks, "Targets:", markdown(rows), verdict(rows)))


if __name__ == "__main__":
    main()
