"""One report at a time: how long `plan.report(record)` takes, and whether that depends on the record.

    python benchmarks/single_report.py                    against the vectorised path, about a minute
    python benchmarks/single_report.py --against SRC      also against the `src` folder of another commit, in turns
    python benchmarks/single_report.py --even             how long it takes for one value and for another
    python benchmarks/single_report.py --quick            a smoke test, with any of the others

The plan is that of the demonstration: nine questions about flights in six parts, of which a flight answers one. Records
are flights of February, as dictionaries.

**How fast.** Contestants are processes of their own that wait to be told: in each round every one of them makes some
reports, so that a slow minute slows all alike, and the median over the rounds counts. All have made hundreds of reports
before the clock runs: the first one sets up what all others share. Beside the clock stands the time of the processor,
which on a busy machine says more. The vectorised path is `plan.randomize` of a table, divided by its rows.

**How even.** Of each part a plan is made that asks nothing else, since which part was drawn is public and no fact
about a value. Of one attribute the record then has a value of this or that kind, in a random order, and the others
stay as they are. Times of one kind are compared with those of the usual value by ranks: the *chance* is that of a
report about this kind to take longer than one about the usual value, 50% where nothing is to be told, with the number
of standard errors (of the test of Mann and Whitney) that it is away. Beside it the difference of the medians.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from rich.console import Console

from dither import Plan
from dither.core.randomness import Stream
from dither.display.table import TextTable
from measure import Machine, seconds

USERS = 309_000
BATCH = 10  # reports of a contestant in a round
TABLE = 20_000  # rows of the vectorised path

_LONG = "X" * 100_000  # a text remembers its hash, so each report is about a new one
# What a value may be like, beside the usual one of a flight.
NUMBERS = {"lowest": -1e9, "highest": 1e9, "missing": None, "a text": "late", "beyond floats": 10**400}
LABELS = {"last label": "LGA", "unknown": "XXX", "missing": None, "a number": 7, "long text": _LONG}


@click.command()
@click.option("--against", type=click.Path(exists=True, file_okay=False), help="The src folder of another commit.")
@click.option("--even", is_flag=True, help="Compare the times for different values instead.")
@click.option("--count", default=2000, show_default=True, help="Reports about each kind of value, with --even.")
@click.option("--quick", is_flag=True, help="A smoke test.")
@click.option("--worker", nargs=2, hidden=True)
def main(against: str | None, even: bool, count: int, quick: bool, worker: tuple[str, str] | None) -> None:
    """Measure single reports, and print tables."""
    if worker is not None:
        _serve(*worker)
        return
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        plan, records = _demonstration(Path(folder))
        console.print(str(Machine.here(("numpy", "cryptography"))), soft_wrap=True)
        if even:
            console.print(_evenness(Plan.read(plan), json.loads(records.read_text())[0], 200 if quick else count))
        else:
            console.print(_speed(plan, records, against, 4 if quick else 200))
            console.print(_parts(Plan.read(plan), json.loads(records.read_text()), 20 if quick else 400))


def _demonstration(folder: Path) -> tuple[Path, Path]:
    """The plan of the demonstration and some flights, in files."""
    import pyarrow.parquet

    from dither.cli import demonstration, main
    from dither.cli.example_data import write_example

    paths = write_example(folder / "flights", most=TABLE)
    guess, schema, plan, records = (
        folder / name for name in ("guess.toml", "schema.toml", "plan.json", "flights.json")
    )
    _quietly(main, ["infer", str(paths[0]), "-o", str(guess)])
    lines = guess.read_text(encoding="utf-8").splitlines()
    edited = [demonstration._EDITED if line == demonstration._GUESSED else line for line in lines]
    schema.write_text("\n".join(edited) + "\n", encoding="utf-8")
    asked = [word for question in (*demonstration.ASK, demonstration.RANGES) for word in ("--ask", question)]
    _quietly(main, ["plan", str(schema), "--epsilon", "2", "--users", str(USERS), *asked, "-o", str(plan)])
    flights = pyarrow.parquet.read_table(paths[1]).to_pylist(maps_as_pydicts="strict")
    records.write_text(json.dumps([{name: _held(value) for name, value in flight.items()} for flight in flights]))
    return plan, records


def _quietly(command: Any, arguments: list[str]) -> None:
    from click.testing import CliRunner

    result = CliRunner().invoke(command, arguments)
    if result.exit_code:
        raise click.ClickException(result.output)


def _held(value: Any) -> Any:
    """A struct that stands for a dictionary has null for the keys that there are not."""
    return {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else value


# How fast -----------------------------------------------------------------------------------------------------------


def _serve(plan: str, records: str) -> None:
    """A contestant: makes as many reports as it is told, and says how long it took."""
    made, flights = Plan.read(plan), json.loads(Path(records).read_text())
    place = 0
    for line in sys.stdin:
        count = int(line)
        some = [flights[(place + each) % len(flights)] for each in range(count)]
        place += count
        start = time.thread_time()
        wall = seconds(lambda some=some: [made.report(record) for record in some])
        print(wall, time.thread_time() - start, flush=True)


def _contestant(stack: ExitStack, source: Path, *files: Path) -> Callable[[int], tuple[float, float]]:
    """Seconds for so many reports, by the clock and of the processor, in a process that imports dither from there."""
    command = [sys.executable, __file__, "--worker", *map(str, files)]
    paths = os.pathsep.join([str(source.resolve()), str(Path(__file__).parent.resolve())])
    process = stack.enter_context(
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    assert process.stdin is not None
    assert process.stdout is not None
    given, told = process.stdin, process.stdout

    def take(count: int) -> tuple[float, float]:
        given.write(f"{count}\n")
        given.flush()
        wall, processor = map(float, told.readline().split())
        return wall, processor

    take(200)
    return take


def _speed(plan: Path, records: Path, against: str | None, rounds: int) -> TextTable:
    """Microseconds a report, of each way to make one."""
    import dither

    made, flights = Plan.read(plan), json.loads(records.read_text())
    table = {name: [flight[name] for flight in flights] for name in made.attributes}

    def vectorised(_: int) -> tuple[float, float]:
        start = time.process_time()
        wall = seconds(lambda: made.randomize(table, invalid="substitute"))
        return BATCH * wall / len(flights), BATCH * (time.process_time() - start) / len(flights)

    with ExitStack() as stack:
        ways = {"plan.report": _contestant(stack, Path(dither.__file__).parents[1], plan, records)}
        if against is not None:
            ways["plan.report, the other commit"] = _contestant(stack, Path(against), plan, records)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, take in ways.items():
                times[name].append(take(BATCH))
    times["plan.randomize, a row"] = [vectorised(BATCH) for _ in range(max(3, rounds // 20))]
    medians = {name: [1e6 * median(each) / BATCH for each in zip(*taken, strict=True)] for name, taken in times.items()}
    own = medians["plan.report"]
    return TextTable(
        {
            "way": list(medians),
            "microseconds": [round(wall, 1) for wall, _ in medians.values()],
            "ratio": [f"{wall / own[0]:.3g}" for wall, _ in medians.values()],
            "of the processor": [round(processor, 1) for _, processor in medians.values()],
            "its ratio": [f"{processor / own[1]:.3g}" for _, processor in medians.values()],
        }
    )


def _alone(plan: Plan, place: int) -> Plan:
    """A plan that asks one of the parts, of everybody."""
    return replace(plan, parts=(plan.parts[place],), questions_per_user=1)


def _parts(plan: Plan, flights: list[dict[str, Any]], rounds: int) -> TextTable:
    """Microseconds of a report that answers this or that part, and of a row of a table that does."""
    alone = [_alone(plan, place) for place in range(len(plan.parts))]
    table = {name: [flight[name] for flight in flights] for name in plan.attributes}
    single: list[list[float]] = [[] for _ in alone]
    for turn in range(rounds):
        for each, times in zip(alone, single, strict=True):
            some = [flights[(BATCH * turn + number) % len(flights)] for number in range(BATCH)]
            times.append(seconds(lambda each=each, some=some: [each.report(record) for record in some]) / BATCH)
    together = [seconds(lambda each=each: each.randomize(table, invalid="substitute")) for each in alone]
    return TextTable(
        {
            "part": [part.name for part in plan.parts],
            "mechanism": [type(part.mechanism).__name__ for part in plan.parts],
            "drawn": [f"{share:.0%}" for share in plan.shares],
            "plan.report": [round(1e6 * median(times), 1) for times in single],
            "a row": [round(1e6 * taken / len(flights), 2) for taken in together],
        }
    )


# How even -----------------------------------------------------------------------------------------------------------


def _kinds(plan: Plan, place: int, flight: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """For each attribute of a part the values of this or that kind."""
    found: dict[str, dict[str, Any]] = {}
    for column in plan.parts[place].columns:
        attribute, usual = plan.schema[column.name], {"usual": flight[column.name]}
        if attribute.kind == "keyvalue":
            names = list(attribute.labels or ())[:5]
            found[column.name] = usual | {
                "no key": {},
                "lowest": {names[0]: -1e9},
                "unknown key": {"XXX": 1.0},
                "no number": {names[0]: "late"},
                "missing": None,
                "two keys": dict.fromkeys(names[:2], 1.0),
                "five keys": dict.fromkeys(names, 1.0),
            }
        else:
            found[column.name] = usual | (LABELS if attribute.kind == "categorical" else NUMBERS)
    return found


def _evenness(plan: Plan, flight: dict[str, Any], count: int) -> TextTable:
    """For each kind of value how its times differ from those of the usual value."""
    rows: list[tuple[Any, ...]] = []
    for place, part in enumerate(plan.parts):
        alone = _alone(plan, place)
        for name, kinds in _kinds(plan, place, flight).items():
            times = _interleaved(alone, [{**flight, name: value} for value in kinds.values()], count)
            for kind, taken in zip(kinds, times, strict=True):
                chance, away = _by_ranks(taken, times[0])
                rows.append(
                    (
                        type(part.mechanism).__name__,
                        name,
                        kind,
                        round(float(np.median(taken)), 1),
                        round(float(np.median(taken) - np.median(times[0])), 1),
                        f"{chance:.1%}",
                        round(away, 1),
                    )
                )
    titles = ("mechanism", "attribute", "value", "median, us", "more, us", "chance", "standard errors")
    return TextTable({title: list(column) for title, column in zip(titles, zip(*rows, strict=True), strict=True)})


def _interleaved(plan: Plan, records: list[dict[str, Any]], count: int) -> list[np.ndarray]:
    """Microseconds of so many reports about each record, in a random order."""
    for _ in range(50):
        for record in records:
            plan.report(record)
    order = Stream.seeded(1, "order").order(count * len(records)) % len(records)
    taken = np.empty(len(order))
    for turn, number in enumerate(order.tolist()):
        fresh = _LONG[1:] + "X"  # for all kinds: it takes room in the cache
        record = {name: fresh if value is _LONG else value for name, value in records[number].items()}
        start = time.perf_counter_ns()
        plan.report(record)
        taken[turn] = (time.perf_counter_ns() - start) / 1e3
    return [taken[order == number] for number in range(len(records))]


def _by_ranks(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The chance that a time of the one is above one of the other, and its distance from a half in standard errors."""
    below, through = (np.searchsorted(np.sort(other), one, side=side) for side in ("left", "right"))
    chance = float((below + through).mean()) / (2 * len(other))
    return chance, (chance - 0.5) / np.sqrt((len(one) + len(other) + 1) / (12 * len(one) * len(other)))


if __name__ == "__main__":
    main()
