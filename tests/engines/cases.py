"""Plans with every kind of report, tables for them, and their reports as rows."""

import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dither import Categorical, KeyValue, Numeric, Ordinal, Plan, Schema, plan
from dither.engines.report_rows import pack_rows

JOBS = ["nurse", "driver", "teacher", "other"]
CITIES = [f"city {i}" for i in range(3000)]
MIXED = Schema(
    {
        "age": Ordinal(0, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(JOBS),
        "city": Categorical(CITIES),
        "films": KeyValue(keys=64, size=4),
    }
)
NUMBERS = Schema({f"x{i}": Numeric(-1, 1) for i in range(6)})
CUBE = Schema({name: Ordinal(0, 63) for name in "abc"})

# What a plan may choose: few and many labels, wide and narrow reports, one and several a user, pairs, keys, ranges.
CHOICES: dict[str, tuple[Schema, float, Any]] = {
    "mixed, small budget": (MIXED, 0.2, None),
    "mixed": (MIXED, 1.0, None),
    "mixed, middle budget": (MIXED, 4.0, None),
    "mixed, large budget": (MIXED, 12.0, None),
    "all from everybody": (MIXED, 40.0, None),
    "pairs of numbers": (NUMBERS, 6.0, None),
    "two numbers a user": (NUMBERS, 3.0, None),
    "ranges": (CUBE, 1.0, ["ranges(a, b, c)", "mean(a)"]),
    "columns": (MIXED, 1.0, ["age", "income", "job", "city"]),  # which a table of Arrow can have
    "one question": (MIXED, 1.0, ["mean(income)"]),
}


@lru_cache
def made(name: str, users: int = 10_000) -> Plan:
    """One of the plans above."""
    schema, epsilon, ask = CHOICES[name]
    at_the_ends = {each: [-1.0, 1.0] for each in schema} if schema is NUMBERS else None  # where pairs are better
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plan(schema, epsilon, users=users, ask=ask, prior=at_the_ends)


def table(chosen: Plan, users: int, seed: int = 7) -> dict[str, Any]:
    """Records for a plan."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "age": rng.integers(0, 100, users),
        "income": rng.uniform(0, 200_000, users),
        "job": np.array(JOBS)[rng.integers(0, 4, users)],
        "city": np.array(CITIES)[rng.integers(0, 3000, users)],
        "films": [{int(rng.integers(64)): float(rng.integers(-1, 2))} for _ in range(users)],
        **{f"x{i}": rng.uniform(-1, 1, users) for i in range(6)},
        **{name: rng.integers(0, 64, users) for name in "abc"},
    }
    return {name: columns[name] for name in chosen.attributes}


@lru_cache
def reports(name: str, users: int, seed: int | None = 1) -> Mapping[str, Any]:
    """The reports of a plan."""
    return made(name).randomize(table(made(name), users), seed=seed)


@lru_cache
def rows(name: str, users: int, seed: int | None = 1) -> pa.RecordBatch:
    """The same as rows."""
    return pack_rows(made(name), reports(name, users, seed))


class Records:
    """Records in batches of given heights, as `engines.records` gives them."""

    def __init__(self, columns: Mapping[str, Any], heights: list[int]) -> None:
        self.table = pa.table(dict(columns))
        self.heights = heights
        self.rows = self.table.num_rows
        self.ignored: tuple[str, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records, cut."""
        whole, start = self.table.combine_chunks(), 0
        for height in [*self.heights, self.rows]:
            batch = whole.slice(start, height)
            yield from batch.to_batches()
            start += batch.num_rows


def written(path: Path, batch: pa.RecordBatch | pa.Table, group: int = 1 << 20, **options: Any) -> Path:
    """A file of rows as other tools would write it: without dither's metadata, unless the rows have them."""
    pq.write_table(
        pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch, path, row_group_size=group, **options
    )
    return path


def names_in(folder: Path) -> list[str]:
    """All files of a folder, hidden ones too."""
    return sorted(file.name for file in folder.iterdir())
