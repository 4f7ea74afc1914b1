"""The benchmark: dither against its peers, alone on ten million users, and the errors of its estimates.

    make bench                                   the whole, a quarter of an hour
    python benchmarks/run.py --quick             a smoke test
    python benchmarks/run.py --write             also rewrites the results in benchmarks/README.md

A figure is worth little without the machine and the minute it was taken in. So peers and dither are
measured in the same run, in turns, and ratios are printed; the targets beside the figures say what dither sets out to
reach on two cores. A missed target is printed, not raised: speed on a shared machine is no test.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import alone
import distribution
import error
import peers
import projective
import race
from dither.display.table import TextTable
from figures import README, Row, Target, keep, markdown, markdown_table, short, table, verdict
from measure import Machine
from race import COHORTS, DELTA, EPSILON, K

PACKAGES = ("numpy", "numba", "pure-ldp", "multi-freq-ldpy", "opendp", "diffprivlib")
WIDTH = 140  # of the table, where the output is no terminal

HASHES = Target(1.5e9)
GRR_CLIENT = Target(20e6)
UNARY_BYTES = Target(125, at_least=False)
MEMORY = Target(200, at_least=False)
FLAT = Target(4, of_ratio=True, at_least=False)  # n * k would be a hundred times
FEW, MANY = 100, 10_000
VALUES = Target(10e6)
STEADY = Target(2, of_ratio=True, at_least=False)  # memory that grew with the users would be ten times

Step = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How many users take part in a race, and how many when dither runs alone, with a value or a record each."""

    race: int
    alone: int
    records: int


FULL, QUICK = Size(10**5, 10**7, 10**6), Size(10**4, 10**6, 2 * 10**5)


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test: few users, so that fixed costs blur the figures.")
@click.option("--write", is_flag=True, help="Rewrite the results in benchmarks/README.md.")
def main(quick: bool, write: bool) -> None:
    """Measure, print, and with --write keep."""
    if quick and write:
        raise click.UsageError("a smoke test is not worth keeping: use --write without --quick")
    if absent := peers.missing():
        raise click.ClickException(f"{', '.join(absent)} missing: run `make bench`, or pip install -e '.[fast,bench]'")
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    machine = Machine.here(PACKAGES)
    size = QUICK if quick else FULL
    with _progress(console, steps=_steps(size)) as step:
        rows, starts = measured(size, step)
        step("distribution of a number")
        shapes = distribution.measured(quick)
        step("error of the mean of records")
        errors = error.measured(quick)
    console.print(str(machine), highlight=False)
    console.print(f"k = {K:,} categories, epsilon = {EPSILON:g}; clients draw secure randomness")
    for line in starts:
        console.print(line, highlight=False)
    console.print(table(rows))
    console.print(verdict(rows), highlight=False)
    for title, found in (("Distribution", shapes), ("Error at equal epsilon", errors)):
        console.print(f"\n{title}: {found.title}", highlight=False)
        console.print(found.table())
    console.print(shapes.verdict(), highlight=False)
    if quick:
        console.print("A smoke test: the targets are meant for the whole run.")
    if write:
        keep("results", _section(machine, starts, rows))
        keep("distribution", _told(shapes.title, shapes.table(), shapes.verdict()))
        keep("error", _told(errors.title, errors.table()))
        console.print(f"Results written to {README.parent.name}/{README.name}")


def measured(size: Size, step: Step) -> tuple[list[Row], list[str]]:
    """All the figures, and what starting took."""
    step("starting compiled loops")
    first, later = alone.run_starts()
    races = race.contests()
    theirs = 0.0
    rows: list[Row] = []
    for contest in races:
        step(f"{contest.name}: warming up")
        theirs += race.warm_up(contest)
        step(f"{contest.name}: clients")
        rows.append(race.client_row(contest, size.race))
        step(f"{contest.name}: servers")
        rows.append(race.server_row(contest, size.race))
    for contest in race.noises():
        step(f"{contest.name}: clients")
        race.warm_up(contest)
        rows.append(race.client_row(contest, size.race))
    figures: dict[tuple[str, int], alone.Figures] = {}
    for name, mechanism, parameters in _jobs():
        step(f"{name}, k = {parameters['k']:,}: alone")
        figures[name, parameters["k"]] = alone.run_collect(mechanism, size.alone, **parameters)
    for name, k in figures:
        if k == K:
            rows += _alone_rows(name, figures[name, k])
    for name, parameters in _numeric_jobs():
        step(f"{name}: alone")
        rows += _alone_rows(name, alone.run_collect(name, size.alone, **parameters))
    for job in _record_jobs(size.records):
        step(f"{job.name}, {job.users[-1]:,} users")
        rows += _record_rows(job)
    for name in dict.fromkeys(name for name, k in figures if k == MANY):
        rows += _flat_rows(name, {k: figures[name, k] for k in (FEW, K, MANY)})
    for k, epsilon in projective.settings():
        step(f"{projective.NAME}, k = {k:,}")
        rows += projective.rows(k, epsilon, size.records)
    starts = [
        f"JIT start-up of dither, not in the table: {first:.1f} s to import Numba and build the loops "
        f"once, {later:.1f} s to import it and load them in every later process",
        f"JIT start-up of the peers, not in the table: {theirs:.1f} s to compile, in every process",
    ]
    if absent := peers.missing_noise():
        starts.append(f"Not installed here, and not in the race of additive noise: {', '.join(absent)}")
    return rows, starts


def _jobs() -> list[tuple[str, str, dict]]:
    """(name, mechanism, parameters) of everything that runs alone."""
    shared = f"LocalHash, {COHORTS} cohorts"
    jobs: list[tuple[str, str, dict]] = [
        ("LocalHash", "LocalHash", {"k": K}),
        (shared, "LocalHash", {"k": K, "cohorts": COHORTS}),
        ("Unary", "Unary", {"k": K}),
        ("GRR", "GRR", {"k": K}),
        ("Hadamard", "Hadamard", {"k": K}),
    ]
    for k in (FEW, MANY):
        jobs += [(shared, "LocalHash", {"k": k, "cohorts": COHORTS}), ("Hadamard", "Hadamard", {"k": k})]
    return [(name, mechanism, {**parameters, "epsilon": EPSILON}) for name, mechanism, parameters in jobs]


def _numeric_jobs() -> list[tuple[str, dict]]:
    """(mechanism, parameters) of the numeric mechanisms that run alone."""
    jobs = [(name, {"epsilon": EPSILON}) for name in ("Duchi", "Piecewise", "SquareWave", "Hybrid", "Laplace")]
    return [*jobs, ("Gaussian", {"epsilon": EPSILON, "delta": DELTA})]


@dataclass(frozen=True)
class Job:
    """Records through a mechanism, in chunks; for more than one number of users, memory is compared."""

    name: str
    mechanism: str
    parameters: dict
    users: tuple[int, ...]
    invalid: str = "error"


def _record_jobs(users: int) -> list[Job]:
    """Records: 10 of 1,000 numbers, and the ways to report 85."""
    sampled = {"base": "Piecewise", "d": 1000, "m": 10}
    few, both = (users // 10,), (users // 10, users)
    jobs = [
        Job("Sampled(Piecewise), m=10, d=1000", "Sampled", sampled, both),
        Job("Sampled(Piecewise), m=10, d=1000, clip", "Sampled", sampled, both, "clip"),
        Job("SampledDuchi, d=85", "SampledDuchi", {"d": 85, "delta": DELTA}, (users,)),
        Job("Hypercube, d=85", "Hypercube", {"d": 85, "delta": DELTA}, few),
        Job("Hypercube, d=1000", "Hypercube", {"d": 1000, "delta": DELTA}, few),
        Job("Gaussian, d=85", "Gaussian", {"d": 85, "delta": DELTA}, few),
    ]
    return [replace(job, parameters={**job.parameters, "epsilon": EPSILON}) for job in jobs]


def _alone_rows(name: str, found: alone.Figures) -> list[Row]:
    n = found.users
    rows = [
        Row(name, "randomize, users/s", n, n / found.randomize, target=GRR_CLIENT if name == "GRR" else None),
        Row(name, "tally, users/s", n, n / found.tally),
    ]
    if name == "LocalHash":
        rows.append(Row(name, "tally, hashes/s", n, n * K / found.tally, target=HASHES))
    rows.append(Row(name, "report, bytes", n, found.report_bytes, target=UNARY_BYTES if name == "Unary" else None))
    rows.append(Row(name, "tally memory, MB", n, found.tally_memory / 1e6, target=MEMORY))
    return rows


def _flat_rows(name: str, found: dict[int, alone.Figures]) -> list[Row]:
    """Time against the number of categories; the ratio is to the fewest."""
    rows = []
    for k, figures in found.items():
        target, versus = (None, None) if k == FEW else (FLAT, found[FEW].tally)
        rows.append(Row(name, f"tally, s, k={short(k)}", figures.users, figures.tally, versus=versus, target=target))
    for k, figures in found.items():
        rows.append(Row(name, f"first estimate, s, k={short(k)}", figures.users, figures.first_estimate))
    return rows


def _record_rows(job: Job) -> list[Row]:
    """Speed for the most users; memory for every number of them, and its ratio to that of the fewest."""
    found = [alone.run_chunks(job.mechanism, users, job.invalid, **job.parameters) for users in job.users]
    last, name = found[-1], job.name
    n, values = last.users, last.users * last.values
    rows = [
        Row(name, "randomize, users/s", n, n / last.randomize),
        Row(name, "tally, users/s", n, n / last.tally),
        Row(name, "report, bytes", n, last.report_bytes),
    ]
    if last.values > 1:
        target = VALUES if job.mechanism == "Sampled" else None
        rows.insert(1, Row(name, "randomize, values/s", n, values / last.randomize, target=target))
        rows.insert(3, Row(name, "tally, values/s", n, values / last.tally))
    for each in found:
        target, versus = (None, None) if each is found[0] else (STEADY, found[0].memory / 1e6)
        rows.append(Row(name, "memory, MB", each.users, each.memory / 1e6, versus=versus, target=target))
    return rows


def _steps(size: Size) -> int:
    """How many steps the bar has."""
    alone_jobs = len(_jobs()) + len(_numeric_jobs()) + len(_record_jobs(size.records))
    return 1 + 3 * len(race.contests()) + len(race.noises()) + alone_jobs + len(projective.settings()) + 2


@contextmanager
def _progress(console: Console, steps: int) -> Iterator[Step]:
    """A bar on the terminal; `step` names what begins now."""
    columns = TextColumn("{task.description:<36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=steps)
        begun = False

        def step(name: str) -> None:
            nonlocal begun
            bar.update(task, description=name, advance=1 if begun else 0)
            begun = True

        yield step


def _section(machine: Machine, starts: list[str], rows: list[Row]) -> str:
    """The generated part of the README."""
    facts = [f"Measured on {date.today().isoformat()} by `python benchmarks/run.py --write`.", f"Machine: {machine}."]
    facts.append(f"k = {K:,}, epsilon = {EPSILON:g}; G, M and k are 10^9, 10^6 and 10^3.")
    notes = "\n".join(f"- {line.rstrip('.')}." for line in (*facts, *starts))
    return f"{notes}\n\n{markdown(rows)}\n\n{verdict(rows)}"


def _told(title: str, found: TextTable, *lines: str) -> str:
    """A generated part with a table of its own."""
    first = f"- Measured on {date.today().isoformat()} by `python benchmarks/run.py --write`.\n- {title}."
    return "\n\n".join((first, markdown_table(found), *lines))


if __name__ == "__main__":
    main()
