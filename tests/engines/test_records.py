"""Records from files, queries and tables: the same batches from every format, and refusals that quote nothing.

Bad input carries a secret mark, and each refusal is searched for it: its text, its arguments, and all that is chained.
"""

import gzip
import io
import json
import math
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dither import Categorical, KeyValue, Numeric, Ordinal, Schema, plan
from dither.engines import arrow_columns as columns
from dither.engines import csv_files as delimited
from dither.engines import duckdb_queries as queries
from dither.engines import record_readers as readers
from dither.engines.duckdb_queries import may_read
from dither.engines.record_sources import ROWS
from dither.engines.records import open_records
from dither.errors import DitherError, DomainError, ParameterError
from marks import wide

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
pc: Any = pytest.importorskip("pyarrow.csv")
feather: Any = pytest.importorskip("pyarrow.feather")
duckdb: Any = pytest.importorskip("duckdb")

SECRET = "Zaphod4711"  # noqa: S105
PEOPLE = Schema(
    {
        "age": Ordinal(0, 99),
        "income": Numeric(0, 1000, missing=250),
        "job": Categorical(["nurse", "driver", "other", "7", "true"]),
        "films": KeyValue(["Alien", "Heat"], size=2, low=0, high=5),
    }
)
PLAIN = {name: attribute for name, attribute in PEOPLE.items() if name != "films"}
AGE = {"age": PEOPLE["age"]}
INCOME = {"income": PEOPLE["income"]}
JOB = {"job": PEOPLE["job"]}
FILMS = {"films": PEOPLE["films"]}


def table(count: int = 5) -> Any:
    """People with all that may be missing, and a column that nobody asks for."""
    films = [[("Heat", 4.0), ("Alien", 1.5)], [], None, [("Alien", 2.0)], [("Heat", None)]]
    return pa.table(
        {
            "id": list(range(count)),
            "job": [["nurse", None, "driver", "other", "nurse"][row % 5] for row in range(count)],
            "age": pa.array([[31, 99, None, 0, 50][row % 5] for row in range(count)], pa.int32()),
            "income": [[10.5, math.nan, 1000.0, None, 0.0][row % 5] for row in range(count)],
            "films": pa.array([films[row % 5] for row in range(count)], pa.map_(pa.string(), pa.float64())),
        }
    )


EXPECTED = [
    {"age": 31.0, "income": 10.5, "job": "nurse", "films": [("Heat", 4.0), ("Alien", 1.5)]},
    {"age": 99.0, "income": 250.0, "job": "other", "films": []},
    {"age": 49.0, "income": 1000.0, "job": "driver", "films": []},
    {"age": 0.0, "income": 250.0, "job": "other", "films": [("Alien", 2.0)]},
    {"age": 50.0, "income": 0.0, "job": "nurse", "films": []},
]


def csv_text(given: Any) -> str:
    """A table as CSV, with keys and values as JSON."""
    lines = [",".join(given.column_names)]
    for row in given.to_pylist():
        cells = {name: "" if value is None else str(value) for name, value in row.items()}
        if row.get("films") is not None:
            cells["films"] = '"' + json.dumps(dict(row["films"])).replace('"', '""') + '"'
        lines.append(",".join(cells.values()))
    return "\n".join(lines) + "\n"


def written(folder: Path, form: str, given: Any) -> Any:
    """A source of a table, in one of the forms."""
    path = folder / f"people.{form.partition('-')[0]}"
    if form in ("csv", "csv.gz"):
        data = csv_text(given).encode()
        path.write_bytes(gzip.compress(data) if form == "csv.gz" else data)
    elif form.startswith("parquet"):
        pq.write_table(given, path, row_group_size=2)
    elif form == "feather":
        feather.write_feather(given, path)
    elif form == "arrow":
        with pa.ipc.new_file(path, given.schema) as file:
            file.write_table(given, max_chunksize=2)
    elif form == "ipc":
        with pa.ipc.new_stream(path, given.schema) as file:
            file.write_table(given, max_chunksize=2)
    elif form == "folder":
        folder = folder / "spark.parquet"
        (folder / "part=1" / "_temporary").mkdir(parents=True)
        pq.write_table(given.slice(0, 2), folder / "part-0000.snappy.parquet")
        pq.write_table(given.slice(2), folder / "part=1" / "part-0001.snappy.parquet")
        pq.write_table(given, folder / "part=1" / "_temporary" / "part-0002.parquet")
        for name in ("_SUCCESS", ".part-0000.snappy.parquet.crc", "notes.txt", ".hidden.parquet", "_metadata.parquet"):
            (folder / name).write_bytes(b"")
        return folder
    elif form == "pattern":
        pq.write_table(given.slice(0, 3), folder / "a1.parquet")
        feather.write_feather(given.slice(3), folder / "a2.feather")
        return str(folder / "a*")
    elif form == "table":
        return given
    elif form == "reader":
        return given.to_reader(max_chunksize=2)
    return path


FORMS = ["csv", "csv.gz", "parquet", "feather", "arrow", "ipc", "folder", "pattern", "table", "reader"]
TWICE = [form for form in FORMS if form != "reader"]


def rows_of(found: Any) -> list[dict[str, Any]]:
    return [row for batch in found.batches() for row in batch.to_pylist()]


def refusal(call: Any, kind: type = DitherError) -> str:
    """The words of a refusal, which has no secret anywhere."""
    with pytest.raises(kind) as caught:
        call()
    error: Any = caught.value
    seen = []
    while error is not None:
        seen.append(f"{error} {error!r} {error.args}")
        error = error.__cause__ or error.__context__
    assert len(seen) == 1, "nothing is chained"
    assert SECRET not in "".join(seen)
    return str(caught.value)


def read_all(source: Any, attributes: Any, **options: Any) -> list[dict[str, Any]]:
    return rows_of(open_records(source, attributes, **options))


class Piped:
    """Standard input that holds bytes, and gives a few at a time."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BufferedReader(Few(data), 3)


class Few(io.RawIOBase):
    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(memoryview(buffer)[:3])


# Every format ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_every_format_gives_the_same_batches(tmp_path, form):
    found = open_records(written(tmp_path, form, table()), PEOPLE)
    (batch,) = found.batches()
    assert batch.to_pylist() == EXPECTED
    assert batch.schema == found.schema
    assert batch.schema.types == [pa.float64(), pa.float64(), pa.string(), pa.map_(pa.string(), pa.float64())]
    assert found.ignored == ("id",)
    assert found.rows == (None if form in ("csv", "csv.gz", "ipc", "reader") else 5)


@pytest.mark.parametrize("form", TWICE)
def test_files_can_be_read_twice(tmp_path, form):
    found = open_records(written(tmp_path, form, table()), PEOPLE)
    assert rows_of(found) == rows_of(found) == EXPECTED


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "arrow", "ipc"])
def test_standard_input_is_told_apart_by_its_first_bytes(tmp_path, monkeypatch, form):
    data = written(tmp_path, form, table()).read_bytes()
    monkeypatch.setattr(sys, "stdin", Piped(data))
    found = open_records("-", PEOPLE)
    assert found.name == "standard input"
    assert found.rows == (5 if form == "parquet" else None)
    assert rows_of(found) == EXPECTED
    assert "standard input can be read only once" in refusal(lambda: rows_of(found), ParameterError)


def test_a_reader_is_read_once():
    found = open_records(table().to_reader(), PEOPLE)
    assert rows_of(found) == EXPECTED
    assert "can be read only once" in refusal(lambda: rows_of(found), ParameterError)


def test_a_query_gives_the_same_batches(tmp_path):
    path = written(tmp_path, "parquet", table())
    found = open_records(None, PEOPLE, sql="select * from 'FILE' order by id".replace("FILE", str(path)))
    assert rows_of(found) == rows_of(found) == EXPECTED
    assert (found.name, found.rows, found.ignored) == ("the query", None, ("id",))


def test_data_frames_and_batches():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    plain = table().drop_columns(["films"])
    for frame in (plain.to_pandas(), polars.DataFrame(plain), plain.combine_chunks().to_batches()[0]):
        assert read_all(frame, PLAIN) == [{name: row[name] for name in PLAIN} for row in EXPECTED]
    mixed = pandas.DataFrame({"age": [1, SECRET]})
    assert "values of one type each" in refusal(lambda: open_records(mixed, AGE), ParameterError)


def test_plans_take_the_batches_of_every_format_alike(tmp_path):
    made = plan(PEOPLE, epsilon=2.0, users=10_000)
    whole = open_records(table(1000), PEOPLE)
    (batch,) = whole.batches()
    expected = made.randomize(batch, seed=3)
    for form in ("csv", "parquet", "arrow"):
        (batch,) = open_records(written(tmp_path, form, table(1000)), PEOPLE).batches()
        found = made.randomize(batch, seed=3)
        assert all((found[name] == expected[name]).all() for name in expected)


def test_names_and_what_is_shown(tmp_path):
    path = written(tmp_path, "parquet", pa.table({"age": [1], "job": [SECRET], SECRET: [2]}))
    found = open_records(path, {**AGE, **JOB})
    assert found.name == str(path)
    assert repr(found) == f"Records of {path}: 1 rows of age, job"
    assert SECRET not in "".join(map(repr, found.sources[0].columns.names[:2]))


# Batches and memory ----------------------------------------------------------------------------------------------


def test_a_large_row_group_streams_in_batches(tmp_path):
    count = 10**6
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"age": np.arange(count) % 100, "unasked": np.arange(count)}), path, row_group_size=count)
    assert pq.ParquetFile(path).num_row_groups == 1
    found = open_records(path, AGE)
    sizes = []
    for number, batch in enumerate(found.batches()):
        values = batch.column("age").to_numpy()
        assert (values == (np.arange(len(values)) + number * ROWS) % 100).all()  # in order
        sizes.append(len(values))
    assert sizes == [ROWS] * 7 + [count - 7 * ROWS]
    assert found.rows == count


@pytest.mark.wide
@pytest.mark.parametrize("form", ["csv", "parquet", "ipc", "table", "query"])
def test_batches_are_even_whatever_the_source(tmp_path, form):
    count = ROWS + 1000
    given = pa.table({"age": np.arange(count) % 100})
    source, sql = None, "select (i % 100)::int as age from range(COUNT) t(i)".replace("COUNT", str(count))
    if form == "csv":
        source = tmp_path / "people.csv"
        pc.write_csv(given, source)
    elif form != "query":
        source = written(tmp_path, form, given) if form != "parquet" else tmp_path / "p.parquet"
        if form == "parquet":
            pq.write_table(given, source, row_group_size=1000)
    found = open_records(source, AGE, sql=None if source is not None else sql)
    first, second = found.batches()
    assert (first.num_rows, second.num_rows) == (ROWS, 1000)
    assert (first.column(0).to_numpy() == np.arange(ROWS) % 100).all()
    assert (second.column(0).to_numpy() == np.arange(ROWS, count) % 100).all()


def test_many_small_files_are_joined(tmp_path):
    for number in range(30):
        pq.write_table(pa.table({"age": [number, number]}), tmp_path / f"part-{number:02}.parquet")
    (batch,) = open_records(tmp_path, AGE).batches()
    assert batch.column(0).to_pylist() == [float(number) for number in range(30) for _ in "ab"]


def most_memory(path: Path, attributes: Any) -> int:
    """The most bytes that Arrow holds while records are read."""
    before = pa.total_allocated_bytes()
    return max(pa.total_allocated_bytes() - before for _ in open_records(path, attributes).batches())


@pytest.mark.wide
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(delimited, "_BLOCK", 1 << 18)
    most = []
    for count in (4 * ROWS, 16 * ROWS):
        path = tmp_path / f"big{count}.{ending}"
        given = pa.table({"age": np.arange(count) % 100, "income": np.random.default_rng(1).random(count)})
        if ending == "csv":
            pc.write_csv(given, path)
        elif ending == "parquet":
            pq.write_table(given, path, row_group_size=count, use_dictionary=False)
        else:
            feather.write_feather(given, path, compression="lz4")
        del given
        most.append(most_memory(path, {**AGE, **INCOME}))
    assert most[1] < 1.5 * most[0]  # for four times the rows


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "csv.gz"])
def test_reading_may_stop_early(tmp_path, ending):
    given = pa.table({"age": np.arange(4 * ROWS) % 100})
    path = tmp_path / f"big.{ending}"
    if ending.startswith("csv"):
        pc.write_csv(given, path)
        path.write_bytes(gzip.compress(path.read_bytes(), 1) if ending == "csv.gz" else path.read_bytes())
    else:
        (pq.write_table if ending == "parquet" else feather.write_feather)(given, path)
    found: Any = open_records(path, AGE).batches()
    assert next(found).num_rows == ROWS
    found.close()
    path.unlink()


@pytest.mark.wide
def test_a_csv_file_is_not_held_by_python(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK", 1 << 18)
    path = tmp_path / "big.csv"
    path.write_bytes(b"age\n" + b"12\n" * (1 << 23))
    tracemalloc.start()
    try:
        assert sum(batch.num_rows for batch in open_records(path, AGE).batches()) == 1 << 23
        assert tracemalloc.get_traced_memory()[1] < 1 << 24  # of 24 MiB
    finally:
        tracemalloc.stop()


def test_columns_that_are_not_asked_for_are_not_decoded(tmp_path, monkeypatch):
    asked = []
    real = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda self, *a, **k: asked.append(k["columns"]) or real(self, *a, **k)
    )
    read_all(written(tmp_path, "parquet", table()), {**AGE, **JOB})
    assert asked == [["age", "job"]]
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"age,name\n31,\xff\xfe\n")
    assert read_all(bad, AGE) == [{"age": 31.0}]


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "ipc", "feather", "table"])
def test_no_rows_are_fine(tmp_path, form):
    found = open_records(written(tmp_path, form, table().slice(0, 0)), PEOPLE)
    assert list(found.batches()) == []
    assert found.schema.names == list(PEOPLE)


# Types -----------------------------------------------------------------------------------------------------------

DECIMALS = [pa.decimal128(30, 2), pa.decimal256(50, 2)]
NUMBERS = [pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), *DECIMALS]


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
@pytest.mark.parametrize("attributes", [AGE, INCOME], ids=["ordinal", "numeric"])
def test_numbers_of_all_types(kind, attributes):
    (name,) = attributes
    given = pa.table({name: pa.array([3, None, 90]).cast(kind)})
    substitute = {"age": 49.0, "income": 250.0}[name]
    assert [row[name] for row in read_all(given, attributes)] == [3.0, substitute, 90.0]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["nurse", None], pa.string(), ["nurse", "other"]),
        (["nurse", None], pa.large_string(), ["nurse", "other"]),
        (["nurse", None], pa.string_view(), ["nurse", "other"]),
        (["nurse", None, "driver"], pa.dictionary(pa.int8(), pa.string()), ["nurse", "other", "driver"]),
        ([7, None, -8], pa.int16(), ["7", "other", "-8"]),
        ([True, False, None], pa.bool_(), ["true", "false", "other"]),
        ([None, None], pa.null(), ["other", "other"]),
    ],
    ids=str,
)
def test_labels_of_all_types(values, kind, expected):
    assert [row["job"] for row in read_all(pa.table({"job": pa.array(values, kind)}), JOB)] == expected


def test_a_null_may_have_a_label_of_its_own(tmp_path):
    attributes = {"job": Categorical(["nurse", "unknown", "other"], missing="unknown")}
    given = pa.table({"job": ["nurse", None, "astronaut"]})
    assert [row["job"] for row in read_all(given, attributes)] == ["nurse", "unknown", "astronaut"]
    assert from_csv(tmp_path, "job,x\nnurse,1\n,2\nastronaut,3\n", attributes) == read_all(given, attributes)


STRUCT = pa.struct([("Heat", pa.int32()), ("Alien", pa.float64())])
PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int64())]))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[("Heat", 4), ("Alien", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        ([[("Heat", 4), ("Alien", 1)], [("Heat", None)], None], pa.map_(pa.string(), pa.decimal128(9, 1))),
        ([[("Heat", 4), ("Alien", 1)], [("Heat", math.nan)], None], pa.map_(pa.large_string(), pa.float32())),
        ([[{"key": "Heat", "value": 4}, {"key": "Alien", "value": 1}], [{"key": None, "value": 1}, None], None], PAIRS),
        ([{"Heat": 4, "Alien": 1.0}, {"Heat": None, "Alien": math.nan}, None], STRUCT),
    ],
    ids=lambda case: str(case) if isinstance(case, pa.DataType) else "",
)
@pytest.mark.parametrize("start", [0, 1])
def test_keys_and_values_of_all_types(values, kind, start):
    given = pa.table({"films": pa.array([*values, values[0]], kind)}).slice(start)
    full = [("Heat", 4.0), ("Alien", 1.0)]
    assert [row["films"] for row in read_all(given, FILMS)] == [full, [], [], full][start:]


def test_what_a_null_hides_is_not_read():
    entries = pa.array([("Heat", 4.0), ("Alien", 1.0)], pa.struct([("key", pa.string()), ("value", pa.float64())]))
    hidden = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), entries, mask=pa.array([True, False]))
    assert [row["films"] for row in read_all(pa.table({"films": hidden}), FILMS)] == [[], [("Alien", 1.0)]]


def test_structs_in_several_steps(monkeypatch):
    monkeypatch.setattr(columns, "_CELLS", 4)
    given = pa.table({"films": pa.array([{"Heat": row, "Alien": None} for row in range(5)], STRUCT)})
    assert [row["films"] for row in read_all(given, FILMS)] == [[("Heat", float(row))] for row in range(5)]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[(3, 1.0)], [(9, 2.0), (-1, 1.0)]], pa.map_(pa.int8(), pa.float64())),
        ([[(3, 1.0)], [(9, 2.0), (1 << 63, 1.0)]], pa.map_(pa.uint64(), pa.float64())),
        ([[("3", 1.0)], [(" 9", 2.0), ("x", 1.0)]], pa.map_(pa.string(), pa.float64())),
        ([{"3": 1.0, "9": None}, {"3": None, "9": 2.0}], pa.struct([("3", pa.float64()), ("9", pa.float64())])),
    ],
    ids=str,
)
def test_keys_that_are_numbers(values, kind):
    found = read_all(pa.table({"k": pa.array(values, kind)}), {"k": KeyValue(keys=20, size=2)})
    assert found[0]["k"] == [(3, 1.0)]
    assert found[1]["k"][0] == (9, 2.0)
    assert all(key < 0 for key, _ in found[1]["k"][1:])  # no key, and refused as one


def test_a_name_that_is_a_number_may_be_a_label_of_a_key():
    given = pa.table({"k": pa.array([[(1, 0.5)]], pa.map_(pa.int64(), pa.float64()))})
    assert read_all(given, {"k": KeyValue(keys=["1", "2"], size=1)}) == [{"k": [("1", 0.5)]}]


WRONG_TYPES = {
    "ordinal text": (
        AGE,
        [SECRET],
        pa.string(),
        "attribute age is ordinal, but its column in FILE holds text (string)",
    ),
    "ordinal bool": (AGE, [True], pa.bool_(), "holds true and false (bool); it takes numbers"),
    "ordinal date": (AGE, [1], pa.date32(), "holds dates (date32[day]); it takes numbers, which a query (SQL)"),
    "numeric text": (INCOME, [SECRET], pa.string(), "attribute income is numeric, but its column in FILE holds text"),
    "numeric bool": (INCOME, [True], pa.bool_(), "holds true and false"),
    "numeric time": (INCOME, [1], pa.timestamp("us"), "holds points in time (timestamp[us])"),
    "numeric categories": (INCOME, [SECRET], pa.dictionary(pa.int8(), pa.string()), "holds categories (dictionary)"),
    "categorical float": (
        JOB,
        [1.5],
        pa.float64(),
        "attribute job is categorical, but its column in FILE holds numbers",
    ),
    "categorical bytes": (JOB, [b"x"], pa.binary(), "holds binary; it takes text, whole numbers, or true and false"),
    "keyvalue text": (FILMS, ['{"Heat": 1}'], pa.string(), "attribute films is keyvalue, but its column in FILE holds"),
    "keyvalue list": (FILMS, [[1.0]], pa.list_(pa.float64()), "holds list; it takes maps from keys to numbers"),
    "keyvalue texts": (FILMS, [[("Heat", SECRET)]], pa.map_(pa.string(), pa.string()), "holds maps (map)"),
    "keyvalue struct": (FILMS, [{"Heat": SECRET}], pa.struct([("Heat", pa.string())]), "holds structs (struct)"),
}


@pytest.mark.parametrize("case", WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_wrong_types_are_refused_before_a_row_is_read(tmp_path, case):
    attributes, values, kind, reason = case
    (name,) = attributes
    path = written(tmp_path, "parquet", pa.table({name: pa.array(values, kind)}))
    assert reason.replace("FILE", str(path)) in refusal(lambda: open_records(path, attributes), DomainError)


def test_structs_without_numbers_for_names_hold_no_numbered_keys():
    given = pa.table({"k": pa.array([{"Heat": 1.0}])})
    assert "holds structs" in refusal(lambda: open_records(given, {"k": KeyValue(keys=20, size=2)}), DomainError)


def test_every_file_of_a_folder_is_checked_at_once(tmp_path):
    pq.write_table(pa.table({"age": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"age": [SECRET]}), tmp_path / "b.parquet")
    assert "b.parquet holds text" in refusal(lambda: open_records(tmp_path, AGE), DomainError)


# Columns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "ipc", "table"])
def test_missing_and_double_columns(tmp_path, form):
    source = written(tmp_path, form, pa.table({"Age": [1], "income": [2.0], "jobs": ["nurse"]}))
    reason = refusal(lambda: open_records(source, {**AGE, **INCOME}), DomainError)
    assert reason.endswith("has no column for attribute age; if column Age is meant, rename it")
    reason = refusal(lambda: open_records(source, {**JOB, **INCOME}), DomainError)
    assert reason.endswith("has no column for attribute job; if column jobs is meant, rename it")
    reason = refusal(lambda: open_records(source, {"wealth": PEOPLE["age"], **INCOME}), DomainError)
    assert "has no column for attribute wealth" in reason
    assert "meant" not in reason
    double = pa.table([pa.array([1]), pa.array([2])], names=["age", "age"])
    source = written(tmp_path, form, double) if form not in ("csv", "ipc") else tmp_path / "double.csv"
    if form in ("csv", "ipc"):
        source.write_text("age,age\n1,2\n", encoding="utf-8")
    assert "several columns for attribute age" in refusal(lambda: open_records(source, AGE), DomainError)


def test_a_first_record_is_not_quoted_as_names(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(f"31,{SECRET},nurses\n", encoding="utf-8")
    near = {"nurse": PEOPLE["age"]}
    reason = refusal(lambda: open_records(path, near), DomainError)
    assert reason.endswith("no column for attribute nurse: the first line must hold the names of the columns")


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_cells_are_separated_by_commas(tmp_path, separator):
    path = tmp_path / "people.csv"
    path.write_text(f"age{separator}job\n31{separator}{SECRET}\n", encoding="utf-8")
    assert refusal(lambda: open_records(path, AGE)).endswith("for attribute age: cells must be separated by commas")


# CSV -------------------------------------------------------------------------------------------------------------


def from_csv(folder: Path, data: bytes | str, attributes: Any) -> list[dict[str, Any]]:
    path = folder / "people.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_all(path, attributes)


def test_csv_cells(tmp_path):
    lines = ["\ufeffjob,age,note", '"nurse", 31 ,"a, b\nc"', "driver,,", '"","",', " nurse,+5,x", "", 'o"o,1e1,"',
             '"""x""",nan,y']  # fmt: skip
    text = "\r\n".join(lines).replace('"\r\n"""x', '""\r\n"""x') + "\r\n"
    found = from_csv(tmp_path, text, {**JOB, **AGE})
    jobs = ["nurse", "driver", "", " nurse", 'o"o', '"x"']
    assert [row["job"] for row in found] == jobs
    assert [row["age"] for row in found] == [31.0, 49.0, 49.0, 5.0, 10.0, 49.0]


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
def test_the_last_line_may_lack_its_end(tmp_path, end):
    found = from_csv(tmp_path, "age,job\n1,nurse\n2,driver" + end, {**JOB, **AGE})
    assert [row["age"] for row in found] == [1.0, 2.0]


def test_an_empty_line_of_one_column_is_a_user(tmp_path):
    assert [row["age"] for row in from_csv(tmp_path, "age\n1\n\n3\n", AGE)] == [1.0, 49.0, 3.0]
    assert [row["age"] for row in from_csv(tmp_path, 'age\n1\n""\n3', AGE)] == [1.0, 49.0, 3.0]
    assert [row["age"] for row in from_csv(tmp_path, "age,job\n1,x\n\n3,y\n", AGE)] == [1.0, 3.0]


def test_names_may_be_quoted_and_come_after_empty_lines(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(b'\n\r\n"first\nline","age",age2\n1,2,3\n')
    found = open_records(path, AGE)
    assert rows_of(found) == [{"age": 2.0}]
    assert found.ignored == ("first\nline", "age2")


def test_wrong_cells_are_wrong_and_not_missing(tmp_path):
    text = f"age,income,job\n31,1,nurse\n,,\n{SECRET},7,nurse\n40,{SECRET},\n1_0,0x10,x\n"
    found = from_csv(tmp_path, text, PLAIN)
    ages, incomes = ([row[name] for row in found] for name in ("age", "income"))
    np.testing.assert_equal(ages, [31, 49, math.nan, 40, math.nan])
    np.testing.assert_equal(incomes, [1, 250, 7, math.nan, math.nan])


def test_plans_refuse_wrong_cells_and_replace_them(tmp_path):
    schema = Schema({**AGE, **FILMS})
    made = plan(schema, epsilon=2.0, users=1000, ask=["distribution(age)", "presence(films)"])
    path = tmp_path / "people.csv"
    for cell, reason in [(f"{SECRET},", "attribute age, row 2"), (f'5,"{SECRET}"', "attribute films, row 2"),
                         (f'5,"{{""Heat"": ""{SECRET}""}}"', "attribute films, row 2"),
                         (f'5,"{{""{SECRET}"": 1}}"', "attribute films, row 2"), ("5,[]", "attribute films, row 2"),
                         ('5,"{""Heat"": 1, ""Heat"": 2}"', "attribute films, row 2")]:  # fmt: skip
        path.write_text(f'age,films\n1,{{}}\n,\n{cell}\n3,"{{""Heat"": null}}"\n', encoding="utf-8")
        (batch,) = open_records(path, made.attributes).batches()
        assert reason in refusal(lambda batch=batch: made.randomize(batch), DomainError)
        assert max(map(len, made.randomize(batch, invalid="substitute").values())) <= 4
        assert len(batch) == 4


@pytest.mark.parametrize(
    ("cell", "vector"),
    [
        ("", []),
        ('" "', []),
        ("null", []),
        ("{}", []),
        ('"{""Heat"": 5, ""Alien"": null}"', [("Heat", 5.0)]),
        ('"{""Heat"": NaN}"', []),
        ('"{""Heat"": Infinity}"', [("Heat", math.inf)]),
        ("[]", None),
        ("7", None),
        ("{", None),
        ('"{""\\ud800"": 1}"', None),
        ('"' + "[" * 5000 + '"', None),
    ],
    ids=lambda case: str(case)[:30],
)
def test_keys_as_json(tmp_path, cell, vector):
    assert from_csv(tmp_path, f"films,x\n{cell},1\n", FILMS) == [{"films": vector}]


def test_numbered_keys_as_json(tmp_path):
    films = {"films": KeyValue(keys=5, size=2)}
    assert from_csv(tmp_path, 'films\n"{""3"": 0.5, ""x"": 1}"\n', films) == [{"films": [(3, 0.5), (-2, 1.0)]}]


UNEVEN = {
    "short": (f"age,job\n1,nurse\n\n2,{SECRET}\n{SECRET}\n3,x\n", "row 2: there must be one value for each column"),
    "long": (f"age,job\n1,nurse\n2,{SECRET},x\n", "row 1: there must be one value for each column"),
    "first": (f"age,job\n{SECRET}\n", "row 0: there must be one value for each column"),
    "late": ("age,job\n1,nurse\n" + "2,x\n" * 300_000 + f"{SECRET}\n", "row 300001: there must be one value"),
    "behind breaks": (f'age,job\n1,"a\nb\nc"\n{SECRET}\n', "row 1: there must be one value for each column"),
}


@pytest.mark.parametrize("case", UNEVEN.values(), ids=UNEVEN)
def test_uneven_rows_are_refused_by_their_number(tmp_path, monkeypatch, case):
    monkeypatch.setattr(delimited, "_BLOCK", 1 << 16)
    text, reason = case
    assert reason in refusal(lambda: from_csv(tmp_path, text, AGE), DomainError)


DAMAGED = {
    "open quote": f'age,job\n1,nurse\n2,"{SECRET}\n3,driver\n',
    "open quote at the end": f'age,job\n1,"{SECRET}',
    "open quote and a mark": 'age,job\n1,"dither: end of records',
    "a row without end": "age,job\n1," + SECRET * 20_000 + "\n",
    "open name": f'age,"{SECRET}\n1,2\n',
    "binary": b"\x00\x01\x02" + SECRET.encode(),
}


@pytest.mark.parametrize("case", DAMAGED.values(), ids=DAMAGED)
def test_damaged_csv_is_refused(tmp_path, monkeypatch, case):
    monkeypatch.setattr(delimited, "_BLOCK", 1 << 16)
    reason = refusal(lambda: from_csv(tmp_path, case, {**AGE, **JOB}))
    assert "people.csv is no CSV file, or a damaged one" in reason or "no column for attribute age" in reason


@pytest.mark.parametrize("data", [f"age,job\n1,{SECRET}\u00e9\n".encode("latin-1"), "age,job\n1,x\n".encode("utf-16")])
def test_text_that_is_not_utf8_is_refused(tmp_path, data):
    reason = refusal(lambda: from_csv(tmp_path, data, JOB), ParameterError)
    assert "people.csv has text that is not UTF-8: write it again as UTF-8" in reason


def test_numbers_do_not_depend_on_their_neighbours():
    """Of each text the number is the same, beside a text that is none, and alone."""
    texts = ["1", "+1", "-.5", "5.", "1e3", "1E-3", "nan", "-NaN", "nan(x_1)", "inf", "-Infinity", "1e999", "1e-999",
             "+inf", "infinit", "0x1", "1_0", "1,5", "e5", ".", "+", "--1", "\u0661", "1 2", "nan()", "1d"]  # fmt: skip
    for text in texts:
        alone = columns._read_numbers(pa.array([text]), 7.0)
        beside = columns._read_numbers(pa.array([text, "no number"]), 7.0)
        np.testing.assert_equal(alone.to_pylist()[0], beside.to_pylist()[0], err_msg=text)


@pytest.mark.wide
@given(st.text(alphabet="0123456789+-.eEnaifty() _xX", max_size=8))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_alike_alone_and_beside_others(text):
    alone = columns._read_numbers(pa.array([text]), 7.0)
    beside = columns._read_numbers(pa.array([text, "no number"]), 7.0)
    np.testing.assert_equal(alone.to_pylist()[0], beside.to_pylist()[0])


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)


@pytest.mark.wide
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(1 << 53), 1 << 53),
            st.none() | st.floats(allow_nan=True, allow_infinity=True),
            st.none() | WORDS,
            st.none() | st.dictionaries(WORDS, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        ),
        max_size=20,
    )
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_csv_and_parquet_say_the_same(tmp_path, rows):
    names = ["age", "income", "job", "films"]
    types = [pa.int64(), pa.float64(), pa.string(), pa.map_(pa.string(), pa.float64())]
    values = [[row[place] if place < 3 or row[place] is None else list(row[place].items()) for row in rows]
              for place in range(4)]  # fmt: skip
    pq.write_table(pa.table([pa.array(*pair) for pair in zip(values, types, strict=True)], names=names),
                   tmp_path / "people.parquet")  # fmt: skip
    texts = [[None if value is None else value if place == 2 else json.dumps(dict(value)) if place == 3 else str(value)
              for value in column] for place, column in enumerate(values)]  # fmt: skip
    pc.write_csv(pa.table([pa.array(column, pa.string()) for column in texts], names=names), tmp_path / "people.csv")
    found = [list(open_records(tmp_path / f"people.{ending}", PEOPLE).batches()) for ending in ("csv", "parquet")]
    first, second = [[batch.to_pylist() for batch in batches] for batches in found]
    np.testing.assert_equal(first, second)


# Queries ---------------------------------------------------------------------------------------------------------


def people_csv(folder: Path) -> Path:
    path = folder / "people.csv"
    path.write_text(f"age,job\n31,{SECRET}\n40,nurse\n", encoding="utf-8")
    return path


def test_queries_derive_what_is_asked_for(tmp_path):
    path = people_csv(tmp_path)
    sql = "select age + 1 as age, 'nurse' as job, map {'Heat': age / 10} as films from 'FILE' order by age"
    found = read_all(None, {**AGE, **JOB, **FILMS}, sql=sql.replace("FILE", str(path)))
    assert found[0] == {"age": 32.0, "job": "nurse", "films": [("Heat", 3.1)]}
    large = "select (i % 5)::hugeint as age, (i % 2 = 0) as job from range(3) t(i);"
    assert read_all(None, {**AGE, **JOB}, sql=large) == [
        {"age": 0.0, "job": "true"}, {"age": 1.0, "job": "false"}, {"age": 2.0, "job": "true"},
    ]  # fmt: skip


TOLD = {
    "parser": ("selec 1", 'cannot be run: Parser Error: syntax error at or near "selec"'),
    "table": ("select age from people", "cannot be run: Catalog Error: Table with name people does not exist!"),
    "column": ("select ages as age from 'FILE'", 'Referenced column "ages" not found in FROM clause!'),
    "function": ("select foo(age) as age from 'FILE'", "Scalar Function with name foo does not exist!"),
    "file": ("select age from 'nope.parquet'", 'No files found that match the pattern "nope.parquet"'),
}


@pytest.mark.parametrize("case", TOLD.values(), ids=TOLD)
def test_what_is_wrong_with_a_query_is_told(tmp_path, case):
    sql, reason = case
    sql = sql.replace("FILE", str(people_csv(tmp_path)))
    assert reason in refusal(lambda: open_records(None, AGE, sql=sql), ParameterError)


FAILING = {
    "cast": "select job::int as age from 'FILE'",
    "date": "select job::date as job from 'FILE'",
    "enum": "select job::enum('nurse') as job from 'FILE'",
    "error": "select error(job) as age from 'FILE'",
    "strptime": "select strptime(job, '%Y') as job from 'FILE'",
    "part": "select date_part(job, now()) as age from 'FILE'",
    "columns": "select * from read_csv('FILE', columns={'age': 'int', 'job': 'int'})",
    "lateral": "select t.* from 'FILE' s, read_text(s.job) t",
    "damaged": "select * from read_parquet('FILE')",
    "no names": "select ages as age from 'BARE'",
    "network": "select * from 'https://localhost:1/people.parquet'",
    "subquery": "select * from query((select job from 'FILE' limit 1))",
    "json": "select json_extract(job, '$.x') as job from 'FILE'",
    "unicode": "select decode('\\xFF\\xFE'::blob) as job",
}


@pytest.mark.parametrize("sql", FAILING.values(), ids=FAILING)
def test_a_query_that_fails_quotes_no_value(tmp_path, sql):
    bare = tmp_path / "bare.csv"
    bare.write_text(f"{SECRET},{SECRET}b\nx,y\n", encoding="utf-8")
    sql = sql.replace("FILE", str(people_csv(tmp_path))).replace("BARE", str(bare))
    attributes = AGE if " age" in sql else JOB
    reason = refusal(lambda: read_all(None, attributes, sql=sql))
    assert "the query" in reason


def test_each_guard_of_what_is_told_holds_alone():
    told = queries._told(duckdb.BinderException(f'no column "age" here\n{SECRET}'), "select AGE", False)
    assert told == 'cannot be run: no column "age" here'
    for error, running in (
        (duckdb.BinderException(f'no column "{SECRET}"'), False),
        (duckdb.BinderException(f"no column '{SECRET}'"), False),
        (duckdb.BinderException(SECRET), True),
        (duckdb.ConversionException(SECRET), False),
    ):
        assert SECRET not in queries._told(error, "select age", running)


def test_only_a_select_is_run(tmp_path):
    target = tmp_path / "out.csv"
    for sql in (f"copy (select 1 as age) to '{target}'", "create table t as select 1 as age", "select 1; select 2",
                "install httpfs", "set threads = 1", "attach 'x.db'", "-- nothing"):  # fmt: skip
        reason = refusal(lambda sql=sql: open_records(None, AGE, sql=sql), ParameterError)
        assert "the query must be one select" in reason
    assert not target.exists()
    assert "sql is a query" in refusal(lambda: open_records(None, AGE, sql=" "), ParameterError)
    assert "sql is a query" in refusal(lambda: open_records(None, AGE, sql=7), ParameterError)  # type: ignore[arg-type]


def test_variables_of_the_program_are_no_tables():
    people = pa.table({"age": [1]})
    assert people.num_rows
    assert "people does not exist" in refusal(
        lambda: open_records(None, AGE, sql="select age from people"), ParameterError
    )


def test_queries_have_the_same_rules_for_columns():
    assert "the query has no column for attribute age" in refusal(lambda: open_records(None, AGE, sql="select 1 as x"))
    assert "several columns" in refusal(lambda: open_records(None, AGE, sql="select 1 as age, 2 as age"))
    assert "its column in the query holds text" in refusal(lambda: open_records(None, AGE, sql="select 'x' as age"))


# Places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "ipc", "csv", "csv.gz"])
def test_a_file_that_is_not_there(tmp_path, ending):
    path = tmp_path / f"nope.{ending}"
    assert refusal(lambda: open_records(path, AGE), ParameterError).endswith(
        f"the records file {path} cannot be read: No such file or directory"
    )


def test_places_that_hold_no_records(tmp_path):
    assert "has an unknown ending: there are .csv, .parquet" in refusal(lambda: open_records("people.doc", AGE))
    (tmp_path / "people.csv").write_text("age\n1\n", encoding="utf-8")
    assert "has no files of records: .parquet" in refusal(lambda: open_records(tmp_path, AGE))
    assert "no file matches" in refusal(lambda: open_records(tmp_path / "*.parquet", AGE))
    assert "from a source or from a query" in refusal(lambda: open_records(None, AGE))
    assert "from a source or from a query" in refusal(lambda: open_records("people.csv", AGE, sql="select 1 as age"))
    assert "records come from a file" in refusal(lambda: open_records(object(), AGE))
    assert "list of dictionaries" in refusal(lambda: open_records([SECRET], AGE))
    assert "at least one attribute" in refusal(lambda: open_records("people.csv", {}))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = written(tmp_path, "parquet", table())
    path.chmod(0)
    assert refusal(lambda: open_records(path, AGE)).endswith("cannot be read: Permission denied")


def test_errors_of_the_system_are_told(tmp_path, monkeypatch):
    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, SECRET, SECRET)

    monkeypatch.setattr("builtins.open", denied)
    assert refusal(lambda: open_records("people.parquet", AGE)).endswith("cannot be read: Permission denied")


def test_a_name_with_brackets_is_no_pattern(tmp_path):
    path = tmp_path / "people[1].csv"
    path.write_text("age\n1\n", encoding="utf-8")
    assert read_all(path, AGE) == [{"age": 1.0}]


@pytest.mark.parametrize("ending", ["feather", "arrow", "-"])
def test_the_first_feather_is_refused(tmp_path, monkeypatch, ending):
    path = tmp_path / f"old.{ending}"
    path.write_bytes(b"FEA1" + SECRET.encode() + b"FEA1")
    monkeypatch.setattr(sys, "stdin", Piped(path.read_bytes()))
    source = "-" if ending == "-" else path
    assert "version 1 of Feather, which is out of use" in refusal(lambda: open_records(source, AGE), ParameterError)


def secrets(count: int) -> Any:
    return pa.table({"job": [SECRET] * count, "age": list(range(count))})


@pytest.mark.parametrize("form", ["parquet", "feather", "arrow", "ipc", "csv.gz"])
@pytest.mark.parametrize("share", [0.0, wide(0.1), 0.5, wide(0.9), 0.999])
@pytest.mark.parametrize("piped", [False, True])
def test_files_that_were_cut_short(tmp_path, monkeypatch, form, share, piped):
    path = written(tmp_path, form, secrets(5000) if form != "csv.gz" else table(5000).drop_columns(["films"]))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    monkeypatch.setattr(sys, "stdin", Piped(path.read_bytes()))
    reason = refusal(lambda: read_all("-" if piped else path, {**AGE, **JOB}))
    place = "standard input" if piped else path.name
    assert place in reason
    assert "damaged" in reason or ("no column" in reason and share == 0.0)


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_stream_that_ends_between_two_batches_was_cut_short(tmp_path, monkeypatch, piped, batches):
    buffer, ends = io.BytesIO(), []
    with pa.ipc.new_stream(buffer, secrets(3).schema) as writer:
        for _ in range(3):
            ends.append(buffer.tell())
            writer.write_table(secrets(3))
    path = tmp_path / "people.arrow"
    for data in (buffer.getvalue()[: ends[batches] or 8], buffer.getvalue()[:-8], buffer.getvalue() * 2):
        path.write_bytes(data)
        monkeypatch.setattr(sys, "stdin", Piped(data))
        reason = refusal(lambda: read_all("-" if piped else path, {**AGE, **JOB}), ParameterError)
        assert reason.endswith("is no Arrow file, or a damaged one") or "cut short" in reason
    path.write_bytes(buffer.getvalue())
    assert len(read_all(path, AGE)) == 9


def test_the_files_that_are_read_are_known(tmp_path):
    for name in "ab":
        pq.write_table(secrets(3), tmp_path / f"{name}.parquet")
    files = tuple(str(tmp_path / f"{name}.parquet") for name in "ab")
    assert open_records(tmp_path, AGE).files == open_records(tmp_path / "*.parquet", AGE).files == files
    assert open_records(secrets(3), AGE).files == ()


def test_whether_a_query_may_read_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not may_read("select * from 'a.parquet'", "a.parquet")
    for name in "ab":
        pq.write_table(secrets(3), f"{name}.parquet")
    assert may_read("select * from 'A.parquet'", str(tmp_path / "a.parquet"))
    assert may_read("select * from '*.parquet'", "a.parquet")
    assert not may_read("select * from 'b.parquet'", "a.parquet")


@pytest.mark.parametrize("form", ["parquet", "feather", "arrow", "ipc", "csv.gz", "csv"])
def test_damage_anywhere_is_refused_or_harmless(tmp_path, form):
    path = written(tmp_path, form, secrets(200) if not form.startswith("csv") else table(200).drop_columns(["films"]))
    data = bytearray(path.read_bytes())
    generator = np.random.default_rng(5)
    for _ in range(150):
        spoilt = bytearray(data)
        for place in generator.integers(0, len(data), 3):
            spoilt[place] = generator.integers(0, 256)
        path.write_bytes(bytes(spoilt))
        error = failure(lambda: read_all(path, {**AGE, **JOB}))
        if error is not None:
            assert SECRET not in f"{error} {error!r}"
            assert (error.__cause__, error.__context__) == (None, None)


def failure(call: Any) -> DitherError | None:
    try:
        call()
    except DitherError as error:
        return error
    return None


def test_text_in_a_file_that_is_not_utf8_is_refused(tmp_path):
    text = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe"))
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"job": text}), path)
    assert "has text that is not UTF-8" in refusal(lambda: read_all(path, JOB), ParameterError)


def test_no_memory_is_told(tmp_path, monkeypatch):
    def full(*_: Any, **__: Any) -> Any:
        raise MemoryError(SECRET)

    path = written(tmp_path, "parquet", table())
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", full)
    assert refusal(lambda: read_all(path, AGE)).endswith("needs more memory than there is")


def test_standard_input_that_is_closed_or_empty(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in refusal(lambda: open_records("-", AGE), ParameterError)
    monkeypatch.setattr(sys, "stdin", Piped(b""))
    assert "standard input has no column for attribute age" in refusal(lambda: open_records("-", AGE), DomainError)
    monkeypatch.setattr(sys, "stdin", Piped(b"age\n7\n"))
    assert read_all("-", AGE) == [{"age": 7.0}]


def test_endings_are_found_whatever_their_case(tmp_path):
    path = tmp_path / "PEOPLE.CSV"
    path.write_text("age\n1\n", encoding="utf-8")
    assert read_all(path, AGE) == [{"age": 1.0}]
    assert readers.ENDINGS[0] == ".csv"
