"""What strangers may put into report files and streams of rows: mutated rows, mutated bytes, mutated records.

`case(seed)` makes one input. `check(case)` sends it through the engine, and raises an AssertionError, or whatever got
out, if something is wrong:

- nothing but an error of dither gets out;
- **rows**: a second reading of the rows, one by one in plain Python, says which are fine and what is wrong with each of
  the others. With `invalid_reports="drop"` the tally must be that of the rows that are fine, and `dropped` that of the
  others; with `"error"` it must be refused exactly if there are others. However the rows come: as a table, a file, a
  stream, a query over CSV or JSON lines, in whatever pieces and of whatever Arrow type;
- **bytes** of a file or stream are changed, cut or repeated: an error, or as many rows as before, each of them counted
  or left out. Parquet, as dither writes it, has checksums: there the tally must be the right one;
- **records**, as CSV, with bytes changed: an error, or reports of as many records as the reader finds.

`run(count)` checks many, and that memory does not grow with them.
"""

import csv
import gc
import io
import json
import resource
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dither
from dither.core.reports import ANOTHER_PLAN, MALFORMED, OUT_OF_RANGE, REASONS, SIMULATED, WRONG_LENGTH, Reports
from dither.engines.duckdb_queries import query_source
from dither.engines.local import Local, incoming
from dither.engines.records import open_records
from dither.engines.report_rows import codes, pack_rows
from dither.errors import DitherError, InvalidReportError
from dither.planning import Part, PlanTally

ROWS = 24
MOST_GROWTH = 1 << 29  # bytes that the largest memory of this process may grow by, whatever a file claims
Row = tuple[Any, bytes | None]  # a tag and a report

_SCHEMAS = (
    {"age": dither.Ordinal(0, 99), "job": dither.Categorical(["nurse", "driver", "other"])},
    {"income": dither.Numeric(0, 1), "films": dither.KeyValue(keys=12, size=2), "age": dither.Ordinal(0, 5)},
    {"city": dither.Categorical([f"city {number}" for number in range(200)])},
)
_RECORDS = 0  # which of these is asked for records, too


@dataclass(frozen=True)
class Case:
    """One input: of which plan, what was done to it, in which form it is sent."""

    seed: int
    plan: int
    kind: str  # rows, bytes or records
    form: str
    rows: tuple[Row, ...] = ()
    data: bytes = b""


# Inputs --------------------------------------------------------------------------------------------------------------


@lru_cache
def plan_of(number: int) -> dither.Plan:
    """One of the plans."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dither.plan(dither.Schema(_SCHEMAS[number]), 3.0, users=1000)


@lru_cache
def _sent(number: int) -> tuple[Row, ...]:
    """Honest rows. They come from a seed, so that a case is the same in every run, and do not say so."""
    plan, rng = plan_of(number), np.random.default_rng(number)
    values = {
        "age": rng.integers(0, 6, ROWS),
        "job": [["nurse", "driver", "other"][each] for each in rng.integers(0, 3, ROWS)],
        "income": rng.random(ROWS),
        "films": [{int(each): 1.0} for each in rng.integers(0, 12, ROWS)],
        "city": [f"city {each}" for each in rng.integers(0, 200, ROWS)],
    }
    made = plan.randomize({name: values[name] for name in plan.attributes}, seed=number)
    unmarked = {name: Reports.wrap(np.asarray(reports), reports.maker) for name, reports in made.items()}
    rows = pack_rows(plan, unmarked)
    return tuple(zip(rows["tag"].to_pylist(), rows["report"].to_pylist(), strict=True))


def _mutated_row(row: Row, tags: list[int], rng: np.random.Generator) -> Row:
    """A row as somebody may send it who means no good."""
    (tag, report), data = row, np.frombuffer(row[1] or b"", np.uint8)
    changed = data.copy()
    changed[rng.integers(len(data))] = rng.integers(256)
    ways: list[Callable[[], Row]] = [
        lambda: (None, report),
        lambda: (tag, None),
        lambda: (int(rng.integers(-(1 << 63), 1 << 63)), report),
        lambda: (tag ^ (1 << int(rng.integers(63))), report),
        lambda: (tag, bytes(data[: rng.integers(len(data))])),
        lambda: (tag, bytes(data) + rng.bytes(int(rng.integers(1, 9)))),
        lambda: (tag, b"\xff" * len(data)),
        lambda: (tag, changed.tobytes()),
        lambda: (tag, rng.bytes(len(data))),
        lambda: (tags[int(rng.integers(len(tags)))], report),  # another question, or simulated
        lambda: (tags[tags.index(tag) | 1], report),  # simulated
    ]
    return ways[rng.integers(len(ways))]()


_FORMS = ("batch", "large", "view", "table", "sliced", "parquet", "arrow", "stream", "csv", "json")
_FILES = ("parquet", "arrow", "stream")


def case(seed: int) -> Case:
    """An input, the same for the same seed."""
    rng = np.random.default_rng(seed)
    number, kind = int(rng.integers(len(_SCHEMAS))), str(rng.choice(["rows", "bytes", "records"], p=[0.6, 0.3, 0.1]))
    rows = list(_sent(number))
    if kind == "records":
        return Case(seed, _RECORDS, kind, "csv", data=_mutated_bytes(_records(), rng))
    if kind == "bytes":
        form = str(rng.choice(_FILES))
        return Case(seed, number, kind, form, tuple(rows), _mutated_bytes(_written(number, form), rng))
    weights = [10.0 if form not in ("csv", "json") else 1.0 for form in _FORMS]
    form = str(rng.choice(_FORMS, p=np.array(weights) / sum(weights)))
    rows = [rows[place] for place in rng.permutation(ROWS)]
    tags = codes(plan_of(number)).tags.tolist()
    for place in rng.choice(ROWS, int(rng.choice([0, 1, 2, 5, ROWS])), replace=False):
        rows[place] = _mutated_row(rows[place], tags, rng)
    return Case(seed, number, kind, form, tuple(rows))


def cases(seed: int, count: int) -> Iterator[Case]:
    """Many inputs."""
    return (case(each) for each in range(seed, seed + count))


def _mutated_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed, cut out, put in or repeated."""
    found = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        start = int(rng.integers(len(found)))
        stop = min(len(found), start + int(rng.integers(1, 17)))
        match int(rng.integers(5)):
            case 0:
                found[start] ^= 1 << int(rng.integers(8))
            case 1:
                found[start:stop] = rng.bytes(stop - start)
            case 2:
                del found[start:stop]
            case 3:
                found[start:start] = found[start:stop]
            case _:
                found = found[: start + 1]
    return bytes(found)


@lru_cache
def _records() -> bytes:
    rng = np.random.default_rng(1)
    lines = [f"{rng.integers(100)},{rng.choice(['nurse', 'driver', 'other'])}" for _ in range(ROWS)]
    return "\n".join(["age,job", *lines, ""]).encode()


@lru_cache
def _written(number: int, form: str) -> bytes:
    """A file of reports as dither writes it, in two pieces."""
    table = _table(_sent(number), pa.binary())
    target = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, target, row_group_size=ROWS // 2, write_page_checksum=True, write_statistics=False)
    else:
        opened = pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream
        with opened(target, table.schema) as writer:
            writer.write_table(table, max_chunksize=ROWS // 2)
    return target.getvalue()


def _table(rows: tuple[Row, ...], kind: pa.DataType) -> pa.Table:
    return pa.table(
        {
            "tag": pa.array([tag for tag, _ in rows], pa.int64()),
            "report": pa.array([report for _, report in rows], pa.binary()).cast(kind),
        }
    )


# Checks --------------------------------------------------------------------------------------------------------------


def check(found: Case) -> None:
    """Send a case through the engine; whatever is wrong is raised."""
    {"rows": _check_rows, "bytes": _check_bytes, "records": _check_records}[found.kind](found)


def _check_rows(found: Case) -> None:
    plan, (right, dropped) = plan_of(found.plan), _read_one_by_one(found)
    with tempfile.TemporaryDirectory() as folder:
        tally = Local().tally(plan, _source(found, Path(folder)), invalid_reports="drop")
        assert tally.rows == len(found.rows), "a row was lost, or counted twice"
        assert tally == right, "the tally is not that of the rows that are fine"
        assert tally.dropped == dropped, "rows were left out for other reasons"
        try:
            strict = Local().tally(plan, _source(found, Path(folder)))
        except InvalidReportError:
            assert dropped, "rows were refused that are fine"
        else:
            assert not dropped, "a row was taken that is not fine"
            assert strict == right


def _read_one_by_one(found: Case) -> tuple[PlanTally, dict[str, int]]:
    """What the tally must be, and what must be left out: by another way than the engine goes."""
    plan = plan_of(found.plan)
    known = codes(plan).tags.tolist()
    kept: dict[bool, dict[str, list[bytes]]] = {kind: {part.name: [] for part in plan.parts} for kind in (False, True)}
    wrong: Counter[str] = Counter()
    for tag, report in found.rows:
        if tag is None or report is None:
            wrong[MALFORMED] += 1
        elif tag not in known:
            wrong[ANOTHER_PLAN] += 1
        else:
            part = plan.parts[known.index(tag) // 2]
            if len(report) != part.mechanism.dtype.itemsize:
                wrong[WRONG_LENGTH] += 1
            elif not part.mechanism.valid(_reports(part, [report])).all():
                wrong[OUT_OF_RANGE] += 1
            else:
                kept[known.index(tag) % 2 == 1][part.name].append(report)
    simulated = any(kept[True].values()) and not any(kept[False].values())  # all that is left
    if not simulated:
        wrong[SIMULATED] += sum(map(len, kept[True].values()))
    arrays = {
        part.name: Reports.wrap(_reports(part, kept[simulated][part.name]), plan.tag(part), simulated)
        for part in plan.parts
    }
    return plan.tally(arrays), {reason: wrong[reason] for reason in REASONS if wrong[reason]}


def _reports(part: Part, held: list[bytes]) -> np.ndarray:
    dtype = part.mechanism.dtype
    return np.frombuffer(b"".join(held), dtype.newbyteorder("<")).astype(dtype)


def _source(found: Case, folder: Path) -> Any:
    """The rows in the form of the case."""
    kinds = {"large": pa.large_binary(), "view": pa.binary_view()}
    table = _table(found.rows, kinds.get(found.form, pa.binary()))
    match found.form:
        case "sliced":
            return iter(table.to_batches(max_chunksize=5))
        case "parquet":
            pq.write_table(table, folder / "x.parquet", row_group_size=7)
            return folder / "x.parquet"
        case "arrow":
            with pa.ipc.new_file(folder / "x.arrow", table.schema) as writer:
                writer.write_table(table, max_chunksize=9)
            return folder / "x.arrow"
        case "stream":
            target = io.BytesIO()
            with pa.ipc.new_stream(target, table.schema) as writer:
                writer.write_table(table, max_chunksize=9)
            return incoming(io.BytesIO(target.getvalue()))
        case "csv" | "json":
            return _queried(found, folder)
        case _:
            return table


def _queried(found: Case, folder: Path) -> Any:
    """Rows in text, as other tools would keep them, through a query."""
    rows = [(tag, None if report is None else report.hex()) for tag, report in found.rows]
    path = folder / f"x.{found.form}"
    with path.open("w", newline="") as file:
        if found.form == "csv":
            cells = [["NULL" if each is None else each for each in row] for row in rows]
            csv.writer(file).writerows([("tag", "report"), *cells])
            read = f"read_csv('{path}', header=true, nullstr='NULL', columns={{'tag': 'BIGINT', 'report': 'VARCHAR'}})"
        else:
            file.writelines(json.dumps({"tag": tag, "report": report}) + "\n" for tag, report in rows)
            read = f"read_json('{path}', format='newline_delimited', columns={{tag: 'BIGINT', report: 'VARCHAR'}})"
    source = query_source(f"select tag, unhex(report) as report from {read}")
    return source.batches(source.columns.names)


def _check_bytes(found: Case) -> None:
    plan, right = plan_of(found.plan), _read_one_by_one(found)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.{found.form}"
        path.write_bytes(found.data)
        for invalid_reports in ("error", "drop"):
            try:
                source = incoming(io.BytesIO(found.data)) if found.form == "stream" else path
                tally = Local().tally(plan, source, invalid_reports=invalid_reports)
            except DitherError:
                continue
            assert tally.reports <= tally.rows <= 4 * ROWS, "rows came from nowhere"
            assert invalid_reports == "drop" or not tally.dropped
            if found.form == "parquet":
                assert tally == right, "checksums did not tell that a file was changed"


def _check_records(found: Case) -> None:
    plan = plan_of(found.plan)
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "x.csv", Path(folder) / "reports.parquet"
        path.write_bytes(found.data)
        try:
            users = Local().randomize(plan, path, target, seed=1, invalid="substitute")
            read = sum(batch.num_rows for batch in open_records(path, plan.attributes).batches())
        except DitherError:
            return
        assert users == read
        assert Local().tally(plan, target).reports == users * plan.questions_per_user


def run(count: int, seed: int = 0) -> None:
    """Check many cases. Memory that a case takes is given back, and no file makes it take very much."""
    held = largest = 0
    for number, each in enumerate(cases(seed, count)):
        try:
            check(each)
        except BaseException as error:
            error.add_note(f"case {each.seed}: {each.kind} as {each.form}")
            raise
        if number == 0:  # by now all that is imported and kept is there
            gc.collect()
            held, largest = pa.total_allocated_bytes(), _largest()
    gc.collect()
    assert pa.total_allocated_bytes() <= held + (1 << 20), "memory of Arrow was not given back"
    assert _largest() - largest <= MOST_GROWTH, "a case took very much memory"


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    import sys

    run(*map(int, sys.argv[1:]))
