"""The three range queries of `dither demo`: how far they are off, and how often their 95% intervals hold.

    python benchmarks/demonstration.py                 24 collections in one phase, as the demonstration asks
    python benchmarks/demonstration.py --phases 2      in two phases, a quarter of the flights drawn at random first
    python benchmarks/demonstration.py --collections 8 --epsilon 4

The plan is that of the demonstration, with all of its questions, and so are the flights. A collection is simulated from
its number. It takes two to four seconds of one core.
"""

import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

import dither
from dither.cli import demonstration
from dither.cli.example_data import PRIVATE, PUBLIC, write_example
from dither.display.progress import progress
from dither.display.table import TextTable
from dither.engines.records import open_records
from dither.errors import require
from dither.planning import Plan

LEVEL = 0.95


def planned(folder: Path, epsilon: float, users: int, phases: int) -> Plan:
    """The plan of the demonstration: its schema is guessed from what is public, and edited as there."""
    sample = require("pyarrow.parquet", "fast").read_table(folder / PUBLIC)
    guessed = dither.infer(sample).to_toml().splitlines()
    edited = [demonstration._EDITED if line == demonstration._GUESSED else line for line in guessed]
    path = folder / "schema.toml"
    path.write_text("\n".join(edited) + "\n", encoding="utf-8")
    ask = [*demonstration.ASK, demonstration.RANGES]
    return dither.plan(dither.Schema.read(str(path)), epsilon, users=users, ask=ask, phases=phases)


def collected(plan: Plan, table: Any, number: int) -> Any:
    """The result about ranges, of all flights in one collection."""
    if plan.phases is None:
        return plan.estimate(plan.tally(plan.randomize(table, seed=number, invalid="substitute"))).ranges()
    early = np.zeros(table.num_rows, dtype=bool)
    early[np.random.default_rng(number).permutation(table.num_rows)[: plan.users]] = True
    heard = plan.tally(plan.randomize(table.filter(early), seed=number, invalid="substitute"))
    second = plan.next(heard)
    told = second.tally(second.randomize(table.filter(~early), seed=number, invalid="substitute"))
    return second.estimate(told, earlier=[heard]).ranges()


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--collections", default=24, show_default=True)
@click.option("--epsilon", default=2.0, show_default=True)
@click.option("--phases", default=1, show_default=True, type=click.IntRange(1, 2))
def main(collections: int, epsilon: float, phases: int) -> None:
    """Collect, and set the answers beside the truth."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_example(folder)
        parquet = require("pyarrow.parquet", "fast")
        users = sum(parquet.read_metadata(path).num_rows for path in paths[1:])
        plan = planned(folder, epsilon, users, phases)
        records = str(folder / PRIVATE)
        source = open_records(records, plan.attributes)
        table = require("pyarrow", "fast").Table.from_batches(source.batches(), source.schema)
        truth = np.array(demonstration._shares(plan, records))
    off, held, stated = (np.zeros((collections, len(truth))) for _ in range(3))
    with progress("Collecting", collections, unit="collections") as advance:
        for number in range(collections):
            found = collected(plan, table, number)
            for place, condition in enumerate(demonstration.QUERIES):
                answer = found.where(condition)
                low, high = answer.interval(LEVEL)
                off[number, place] = float(answer.value) - truth[place]
                held[number, place] = low <= truth[place] <= high
                stated[number, place] = float(answer.stderr)
            advance(1)
    shown = {
        "condition": list(demonstration.QUERIES),
        "truth": [f"{share:.4f}" for share in truth],
        "error": [f"{each:.4f}" for each in np.sqrt((off**2).mean(axis=0))],
        "of which bias": [f"{each:+.4f}" for each in off.mean(axis=0)],
        "stated": [f"{each:.4f}" for each in stated.mean(axis=0)],
        "intervals that hold": [f"{each:.0f} of {collections}" for each in held.sum(axis=0)],
    }
    click.echo(TextTable(shown))


if __name__ == "__main__":
    main()
