"""Batches of the wire format: how many reports a second are unpacked and checked, packed, and sent one by one.

    python benchmarks/wire.py                    some twenty seconds
    python benchmarks/wire.py --quick            a smoke test

**check** is `BatchFormat(plan).check(data)` of a batch of 10,000 honest reports: the frame, and every field of every
report. Beside it, in turns, stands what any reader has to do at least: a copy of the same bytes (`bytearray(data)`),
and one look at each of them (`np.max`). A ratio is the time of the check over that of the copy, or of the look. Copies
of some tens of kilobytes stay in the cache of a core, at 10 GB/s and more: the ratio says how much more than that is
done, not how slow it is. Times are of the processor, medians over rounds in which all take turns. That of the check by
the clock stands beside it, which also counts what other programs do on the same cores.

**bad** is the same batch with one report in a hundred out of range, which then has to be left out. **one** is the check
of a batch with a single report, **pack** that of writing 10,000, and **rows** the older way from an Arrow table
(`engines.report_rows.unpack_rows`, which does not look at fields).

Plans: that of twelve attributes that `benchmarks/files.py` has; numbers, keys and categories with wide reports; a
thousand attributes of one kind; and 200 public groups, with ten parts each.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import click
import numpy as np
from rich.console import Console

from dither import Categorical, KeyValue, Numeric, Ordinal, Plan, Public, Schema, plan
from dither.display.table import TextTable
from dither.engines.report_rows import pack_rows, unpack_rows
from dither.errors import DitherWarning
from dither.wire import BatchFormat, read_frame
from filejobs import twelve_attributes
from measure import Machine, in_turns

REPORTS = 10_000
TARGET = 5e6  # reports a second
CALLS = 20  # of each contestant in a round


def plans() -> dict[str, tuple[Plan, Mapping[str, Any]]]:
    """Plans, each with records that give at least `REPORTS` reports."""
    some = np.random.default_rng(1)
    labels = [f"label {i}" for i in range(1000)]
    mixed = Schema(
        {
            "age": Ordinal(0, 99),
            "income": Numeric(0, 200_000),
            "city": Categorical(labels),
            "films": KeyValue(keys=512, size=8),
        }
    )
    many = Schema({f"x{i}": Numeric(0, 1) for i in range(1000)})
    groups = Schema(
        {"country": Public([f"c{i}" for i in range(200)]), **{f"x{i}": Categorical(labels[:4]) for i in range(10)}}
    )
    columns: dict[str, Any] = {
        "age": some.integers(0, 100, REPORTS),
        "income": some.uniform(0, 200_000, REPORTS),
        "city": some.choice(labels, REPORTS),
        "films": [{int(key): 0.5} for key in some.integers(0, 512, REPORTS)],
        "country": some.choice([f"c{i}" for i in range(200)], REPORTS),
    }
    twelve = twelve_attributes()
    return {
        "twelve attributes": (plan(twelve, 1.0, users=100_000), {name: _column(twelve[name], some) for name in twelve}),
        "numbers, keys, labels": (plan(mixed, 1.0, users=100_000), {name: columns[name] for name in mixed}),
        "1,000 numbers": (
            plan(many, 1.0, users=10_000_000),
            {name: some.uniform(0, 1, REPORTS) for name in many},
        ),
        "200 groups": (
            plan(groups, 1.0, users=10_000_000),
            {"country": columns["country"], **{f"x{i}": some.choice(labels[:4], REPORTS) for i in range(10)}},
        ),
    }


def _column(attribute: Any, some: np.random.Generator) -> Any:
    if isinstance(attribute, Categorical):
        return some.choice(attribute.labels, REPORTS)
    if isinstance(attribute, Ordinal):
        return some.integers(int(attribute.low), int(attribute.high) + 1, REPORTS)
    return some.uniform(attribute.low, attribute.high, REPORTS)


def spoilt(data: bytes) -> bytes:
    """The same batch with every hundredth report made of bytes with all bits set."""
    frame, out = read_frame(data), bytearray(data)
    offset = frame.rows
    for _, width, count in frame.sections:
        for row in range(0, count, 100):
            out[offset + row * width : offset + (row + 1) * width] = b"\xff" * width
        offset += width * count
    return bytes(out)


def of_the_processor(contestants: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of the processor that each takes, when all of them run once a round."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            start = time.process_time()
            work()
            times[name].append(time.process_time() - start)
    return {name: median(taken) for name, taken in times.items()}


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test.")
def main(quick: bool) -> None:
    """Print the tables."""
    console = Console(soft_wrap=True)
    console.print(str(Machine.here(("numpy", "pyarrow"))))
    rounds = 3 if quick else 31
    rows: dict[str, list[Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DitherWarning)
        cases = plans()
    for name, (made, records) in cases.items():
        wire = BatchFormat(made)
        reports = made.randomize(records)
        data, one = wire.pack(reports), wire.pack(made.report({key: column[0] for key, column in records.items()}))
        bad, table = spoilt(data), pack_rows(made, reports)
        count = wire.check(data).reports
        bytes_of = np.frombuffer(data, np.uint8)

        def often(work: Any) -> Any:
            return lambda: [work() for _ in range(CALLS)]

        contestants = {
            "check": often(lambda w=wire, d=data: w.check(d)),
            "copy": often(lambda d=data: bytearray(d)),
            "look": often(lambda b=bytes_of: b.max()),
            "bad": often(lambda w=wire, d=bad: w.check(d)),
            "one": often(lambda w=wire, d=one: w.check(d)),
            "pack": often(lambda w=wire, r=reports: w.pack(r)),
            "rows": often(lambda m=made, t=table: unpack_rows(m, t)),
        }
        taken, clock = of_the_processor(contestants, rounds), in_turns({"check": contestants["check"]}, rounds)
        each = {key: value / CALLS for key, value in taken.items()}
        speed = count / each["check"]
        for column, value in {
            "plan": name,
            "parts": len(made.parts),
            "bytes a report": f"{len(data) / count:.1f}",
            "one report, bytes": len(one),
            "check, M reports/s": f"{speed / 1e6:.1f}",
            "target": f">= {TARGET / 1e6:g}: {'met' if speed >= TARGET else 'missed'}",
            "clock, M/s": f"{count * CALLS / clock['check'] / 1e6:.1f}",
            "x copy": f"{each['check'] / each['copy']:.1f}",
            "x look": f"{each['check'] / each['look']:.1f}",
            "bad, M/s": f"{count / each['bad'] / 1e6:.1f}",
            "one, us": f"{each['one'] * 1e6:.0f}",
            "pack, M/s": f"{count / each['pack'] / 1e6:.1f}",
            "rows, M/s": f"{count / each['rows'] / 1e6:.1f}",
        }.items():
            rows.setdefault(column, []).append(value)
    console.print(str(TextTable(rows)))


if __name__ == "__main__":
    main()
