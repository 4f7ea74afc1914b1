"""Every kind of source gives the same batches, streams, or is refused by its own name with the way out.

The libraries are the real ones. Those that are not installed are stood in for by a module with a class of their name:
what is tested is the refusal, which looks at nothing else.
"""

import os
import sqlite3
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.engines import Local, paths
from dither.engines.records import open_records
from dither.engines.report_rows import pack_rows
from dither.errors import DitherError, DomainError, ParameterError, ReportError
from dither.planning import table_streams
from dither.planning.infer import infer
from dither.planning.table_streams import KINDS, ROWS, is_table, table_stream
from marks import wide

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
ds: Any = pytest.importorskip("pyarrow.dataset")
fs: Any = pytest.importorskip("pyarrow.fs")
duckdb: Any = pytest.importorskip("duckdb")
pl: Any = pytest.importorskip("polars")
pd: Any = pytest.importorskip("pandas")

SECRET = "Zaphod4711"  # noqa: S105
PEOPLE = Schema({"age": Ordinal(0, 99), "income": Numeric(0, 1000), "job": Categorical(["nurse", "driver", "other"])})
ATTRIBUTES = dict(PEOPLE)
TABLE = pa.table(
    {
        "id": range(1000),
        "job": [("nurse", "driver", "other")[row % 3] for row in range(1000)],
        "age": [row % 100 for row in range(1000)],
        "income": [float(row) for row in range(1000)],
    }
)


class OnlyStream:
    """Something of a library that nobody has heard of, with the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


SOURCES: dict[str, Callable[[], Any]] = {
    "Arrow table": lambda: TABLE,
    "Arrow batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "Arrow reader": lambda: TABLE.to_reader(max_chunksize=7),
    "dataset": lambda: ds.dataset(TABLE),
    "filtered dataset": lambda: ds.dataset(TABLE).filter(ds.field("id") >= 0),
    "scanner": lambda: ds.dataset(TABLE).scanner(),
    "anything that streams": OnlyStream,
    "pandas": lambda: TABLE.to_pandas(),
    "Polars": lambda: pl.from_arrow(TABLE),
    "lazy frame": lambda: pl.from_arrow(TABLE).lazy().filter(pl.col("id") >= 0),
    "relation": lambda: duckdb.connect().from_arrow(TABLE).filter("id >= 0"),
    "columns": lambda: TABLE.to_pydict(),
    "records": lambda: TABLE.to_pylist(),
}
ONCE = {"Arrow reader", "scanner", "anything that streams"}


def rows_of(found: Any) -> list[dict[str, Any]]:
    return [row for batch in found.batches() for row in batch.to_pylist()]


def refusal(call: Callable[[], Any], kind: type = DitherError) -> str:
    """The words of a refusal, which has no secret anywhere in its chain."""
    with pytest.raises(kind) as caught:
        call()
    error: Any = caught.value
    while error is not None:
        assert SECRET not in f"{error} {error!r} {error.args}"
        error = error.__cause__ or error.__context__
    return str(caught.value)


EXPECTED = rows_of(open_records(TABLE, ATTRIBUTES))


@pytest.fixture(scope="module")
def plan() -> dither.Plan:
    return dither.plan(PEOPLE, epsilon=2.0, users=1_000_000)


# What is taken -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_table_gives_the_same_records(name):
    found = open_records(SOURCES[name](), ATTRIBUTES)
    assert rows_of(found) == EXPECTED
    assert found.ignored == ("id",)
    assert found.rows in (1000, None)


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_read_once_says_so_and_the_rest_can_be_read_again(name):
    found = open_records(SOURCES[name](), ATTRIBUTES)
    rows_of(found)
    if name in ONCE:
        assert "can be read only once" in refusal(lambda: rows_of(found))
    else:
        assert rows_of(found) == EXPECTED


@pytest.mark.parametrize("name", SOURCES)
def test_plans_randomize_every_kind_of_table_alike(plan, name):
    right = plan.randomize(TABLE, seed=1)
    found = plan.randomize(SOURCES[name](), seed=1)
    assert {part: some.tobytes() for part, some in found.items()} == {
        part: some.tobytes() for part, some in right.items()
    }


@pytest.mark.parametrize("name", SOURCES)
def test_engines_randomize_and_tally_every_kind_of_table_alike(plan, name, tmp_path):
    path = tmp_path / "reports.parquet"
    assert Local().randomize(plan, open_records(SOURCES[name](), ATTRIBUTES), path, seed=1) == 1000
    assert Local().tally(plan, path) == plan.tally(plan.randomize(TABLE, seed=1))
    assert Local().randomize(plan, SOURCES[name](), path, seed=1) == 1000  # which opens it by itself
    assert Local().tally(plan, path) == plan.tally(plan.randomize(TABLE, seed=1))


def test_spark_takes_files_and_refuses_tables_of_this_process(plan):
    spark = pytest.importorskip("dither.engines.spark")
    text = refusal(lambda: spark._chunks(None, plan, pl.from_arrow(TABLE).lazy(), False), ParameterError)
    assert text.startswith("workers of Spark read files, and the Polars LazyFrame is none: save these records")


REPORTS: dict[str, Callable[[Any], Any]] = {
    "table": lambda rows: pa.Table.from_batches([rows]),
    "dataset": ds.dataset,
    "Polars": lambda rows: pl.from_arrow(pa.Table.from_batches([rows])),
    "lazy frame": lambda rows: pl.from_arrow(pa.Table.from_batches([rows])).lazy(),
    "relation": lambda rows: duckdb.connect().from_arrow(pa.Table.from_batches([rows])),
    "pandas": lambda rows: rows.to_pandas(),
    "batches": lambda rows: iter([rows]),
}


@pytest.mark.parametrize("name", REPORTS)
def test_reports_are_tallied_from_every_kind_of_table(plan, name):
    reports = plan.randomize(TABLE, seed=1)
    assert Local().tally(plan, REPORTS[name](pack_rows(plan, reports))) == plan.tally(reports)


def test_a_table_without_reports_is_refused(plan):
    assert "no reports" in refusal(lambda: Local().tally(plan, pl.from_arrow(TABLE).lazy()), ReportError)


@pytest.mark.parametrize("name", SOURCES)
def test_schemas_are_inferred_from_every_kind_of_table(name):
    assert infer(SOURCES[name]()).schema == infer(TABLE).schema


def test_a_dataset_of_partitions(tmp_path):
    for job in ("nurse", "driver"):
        folder = tmp_path / f"job={job}"
        folder.mkdir()
        pq.write_table(TABLE.select(["age", "income"]).slice(0, 10), folder / "part.parquet", row_group_size=3)
    found = rows_of(open_records(ds.dataset(tmp_path, partitioning="hive"), ATTRIBUTES))
    assert [row["job"] for row in found] == ["driver"] * 10 + ["nurse"] * 10
    assert [row["age"] for row in found] == [*range(10), *range(10)]


def test_keys_and_values_in_dictionaries():
    films = {"films": KeyValue(["Alien", "Heat"], size=2, low=0, high=5)}
    records = [{"films": {"Heat": 4, "Alien": 1.5}}, {"films": {}}, {}, {"films": {"Heat": None}}]
    right = [[("Heat", 4.0), ("Alien", 1.5)], [], [], []]
    assert [row["films"] for row in rows_of(open_records(records, films))] == right
    columns = {"films": [record.get("films") for record in records]}
    assert [row["films"] for row in rows_of(open_records(columns, films))] == right
    numbered = {"films": KeyValue(4, size=2)}
    assert rows_of(open_records([{"films": {3: 1.0}}], numbered)) == [{"films": [(3, 1.0)]}]


def test_one_record_is_one_user():
    assert rows_of(open_records({"age": 31, "income": 5, "job": "nurse"}, ATTRIBUTES)) == [
        {"age": 31.0, "income": 5.0, "job": "nurse"}
    ]


def test_records_need_not_have_the_same_keys():
    found = rows_of(open_records([{"age": 1}, {"job": "nurse", "income": 7.5}], ATTRIBUTES))
    assert found == [
        {"age": 1.0, "income": 500.0, "job": "other"},
        {"age": 49.0, "income": 7.5, "job": "nurse"},
    ]


# What is refused -----------------------------------------------------------------------------------------------------


def stand_in(module: str, name: str) -> Any:
    """A value of a class of that name, in a module of that name."""
    made = types.ModuleType(module)
    setattr(made, name, type(name, (), {"__arrow_c_stream__": None}))
    return made


REFUSED = [
    ("pyspark.sql", "DataFrame", "a Spark DataFrame belongs to a Spark session", "dither.engines.Spark()"),
    ("dask.dataframe", "DataFrame", "a Dask DataFrame is computed", ".to_parquet(folder)"),
    ("ibis.expr.types", "Table", "an Ibis table would be held in memory", ".to_pyarrow_batches()"),
    ("sqlalchemy", "Engine", "an SQLAlchemy engine holds many tables", "result of a query"),
]


@pytest.mark.parametrize(("module", "name", "what", "instead"), REFUSED)
def test_handles_of_other_engines_are_refused_by_their_name(monkeypatch, plan, module, name, what, instead):
    made = stand_in(module, name)
    monkeypatch.setitem(sys.modules, module, made)
    value = getattr(made, name)()
    takers = (
        lambda: open_records(value, ATTRIBUTES),
        lambda: plan.randomize(value),
        lambda: Local().tally(plan, value),
        lambda: infer(value),
    )
    for taker in takers:
        text = refusal(taker, ParameterError)
        assert text.startswith(what)
        assert instead in text


def test_connections_series_and_iterators_are_refused_by_their_name(plan):
    for value, what in (
        (duckdb.connect(), "a DuckDB connection holds many tables"),
        (sqlite3.connect(":memory:"), "an SQLite connection holds many tables"),
        (pl.Series([1]), "a Polars Series is one column"),
        (pd.Series([1]), "a pandas Series is one column"),
        ((record for record in [{"age": SECRET}]), "an iterator, such as a generator, is gone"),
        (iter([{"age": SECRET}]), "an iterator, such as a generator, is gone"),
    ):
        assert refusal(lambda value=value: open_records(value, ATTRIBUTES)).startswith(what)
        assert refusal(lambda value=value: plan.randomize(value)).startswith(what)


@pytest.mark.parametrize(
    "value", [[SECRET], [{"age": 1}, SECRET], {"age": [1, SECRET]}, [{"age": 1}, {"age": SECRET}], 5, object(), b"age"]
)
def test_what_is_no_table_is_refused_without_quoting_it(value):
    refusal(lambda: open_records(value, ATTRIBUTES), ParameterError)


LAZY: dict[str, Callable[[], Any]] = {
    "lazy frame": lambda: pl.LazyFrame({"age": ["1", SECRET]}).with_columns(pl.col("age").cast(pl.Int64)),
    "relation": lambda: duckdb.connect().sql(f"select cast(x as int) as age from (values ('1'), ('{SECRET}')) t(x)"),
}


@pytest.mark.parametrize("name", LAZY)
def test_what_fails_while_it_runs_quotes_no_value(name, plan):
    age = {"age": PEOPLE["age"]}
    assert "failed while it was read" in refusal(lambda: rows_of(open_records(LAZY[name](), age)))
    asked = dither.plan(Schema(age), epsilon=1.0, users=1_000_000)
    assert "failed while it was read" in refusal(lambda: asked.randomize(LAZY[name]()))


def test_columns_that_are_missing_or_there_twice(plan):
    lazy = pl.from_arrow(TABLE).lazy().drop("age")
    assert refusal(lambda: plan.randomize(lazy), DomainError) == (
        "the Polars LazyFrame has no column for attribute age"
    )
    assert "the Polars LazyFrame has no column for attribute age" in refusal(lambda: open_records(lazy, ATTRIBUTES))
    twice = duckdb.connect().sql("select 1 as age, 2 as age, 3.0 as income, 'nurse' as job")
    assert "several columns for attribute age" in refusal(lambda: plan.randomize(twice), DomainError)
    assert "several columns for attribute age" in refusal(lambda: open_records(twice, ATTRIBUTES), DomainError)


def test_a_library_that_is_not_there_is_not_imported():
    script = """
        import sys, dither
        plan = dither.plan(dither.Schema({"age": dither.Ordinal(0, 3)}), epsilon=2.0, users=10**6)
        plan.randomize({"age": [0, 1]})
        assert not {"pyarrow", "polars", "duckdb", "pandas", "pyspark"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def test_without_its_kind_a_lazy_frame_is_no_table(monkeypatch):
    # The list of kinds is what decides, and nothing beside it.
    kinds = tuple(kind for kind in KINDS if kind.name != "LazyFrame")
    monkeypatch.setattr(table_streams, "KINDS", kinds)
    assert not is_table(pl.LazyFrame({"age": [1]}))
    with pytest.raises(ParameterError, match="records come from a file"):
        table_stream(pl.LazyFrame({"age": [1]}))


# DuckDB databases ----------------------------------------------------------------------------------------------------


def database(path: Path, *tables: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        connection.register("people", TABLE)
        for name in tables:
            connection.execute(f"create table {name} as select * from people")
    return path


def test_a_database_file_with_one_table(tmp_path):
    path = database(tmp_path / "people.duckdb", "somebody")
    found = open_records(path, ATTRIBUTES)
    assert (rows_of(found), found.rows, found.files) == (EXPECTED, 1000, (str(path),))
    assert rows_of(open_records(path, ATTRIBUTES, table="somebody")) == EXPECTED


def test_a_database_file_with_several_tables(tmp_path):
    path = database(tmp_path / "people.duckdb", "people2", '"odd "" name"')
    with duckdb.connect(str(path)) as connection:
        connection.execute("create schema old; create view old.young as select * from people2 where age < 30")
    assert 'has the tables odd " name, people2, old.young: name the one' in refusal(
        lambda: open_records(path, ATTRIBUTES)
    )
    assert "has no table of that name: it has the tables" in refusal(lambda: open_records(path, ATTRIBUTES, table="x"))
    assert rows_of(open_records(path, ATTRIBUTES, table='odd " name')) == EXPECTED
    young = [row for row in EXPECTED if row["age"] < 30]
    assert rows_of(open_records(path, ATTRIBUTES, table="old.young")) == young


def test_databases_that_cannot_be_read(tmp_path):
    (tmp_path / "no.duckdb").write_bytes(SECRET.encode() * 1000)
    assert "is no DuckDB database" in refusal(lambda: open_records(tmp_path / "no.duckdb", ATTRIBUTES))
    empty = database(tmp_path / "empty.duckdb")
    assert "has no tables" in refusal(lambda: open_records(empty, ATTRIBUTES))
    pq.write_table(TABLE, tmp_path / "people.parquet")
    text = refusal(lambda: open_records(tmp_path / "people.parquet", ATTRIBUTES, table="people"))
    assert "a table is named for DuckDB databases (.duckdb, .ddb)" in text
    path = database(tmp_path / "busy.duckdb", "people2")
    with duckdb.connect(str(path)):
        assert "is open in this process already" in refusal(lambda: open_records(path, ATTRIBUTES))


def test_a_database_that_another_process_writes(tmp_path):
    path = database(tmp_path / "busy.duckdb", "people2")
    script = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        assert "open for writing in another process" in refusal(lambda: open_records(path, ATTRIBUTES))
        other.communicate("")


# Addresses -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def bucket(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder that is behind s3://, through the very code that would ask pyarrow for the real one."""
    root = tmp_path / "remote"
    (root / "bucket").mkdir(parents=True)
    there = fs.SubTreeFileSystem(str(root), fs.LocalFileSystem())

    class Known:
        @staticmethod
        def from_uri(address: str) -> tuple[Any, str]:
            scheme, _, path = address.partition("://")
            if scheme == "abfs":  # whose paths are no part of their addresses
                return there, "bucket" + path.removeprefix("bucket@account").rstrip("/")
            if scheme != "s3":
                return fs.FileSystem.from_uri(address)
            return there, path.partition("?")[0].rpartition("@")[2].rstrip("/")

    monkeypatch.setattr(paths, "_known_filesystems", lambda: Known)
    paths._filesystem.cache_clear()
    yield root / "bucket"
    paths._filesystem.cache_clear()


def written(folder: Path) -> None:
    """The people in files of every format, and what is not meant."""
    folder.mkdir(exist_ok=True)
    pq.write_table(TABLE.slice(0, 400), folder / "a.parquet")
    (folder / "day=2").mkdir()
    pq.write_table(TABLE.slice(400), folder / "day=2" / "b.parquet")
    pq.write_table(TABLE, folder / "_hidden.parquet")
    with pa.ipc.new_file(folder / "people.arrow", TABLE.schema) as file:
        file.write_table(TABLE)
    with pa.ipc.new_stream(folder / "people.ipc", TABLE.schema) as file:
        file.write_table(TABLE)
    TABLE.to_pandas().to_csv(folder / "people.csv", index=False)
    TABLE.to_pandas().to_csv(folder / "people.csv.gz", index=False)


@pytest.mark.parametrize(
    "name", ["people.arrow", "people.ipc", "people.csv", "people.csv.gz", "", "**/[ab].parquet", "?region=here"]
)
def test_files_behind_an_address(bucket, name):
    written(bucket)
    found = open_records(f"s3://bucket/{name}", ATTRIBUTES)
    assert rows_of(found) == rows_of(found) == EXPECTED
    assert found.files == ()


def test_one_file_and_a_pattern_behind_an_address(bucket):
    written(bucket)
    assert rows_of(open_records("s3://bucket/a.parquet", ATTRIBUTES)) == EXPECTED[:400]
    assert rows_of(open_records("s3://bucket/day=*/*.parquet", ATTRIBUTES)) == EXPECTED[400:]
    assert [source.name for source in open_records("s3://bucket", ATTRIBUTES).sources] == [
        "s3://bucket/a.parquet",
        "s3://bucket/day=2/b.parquet",
    ]


@pytest.mark.parametrize("name", ["abfs://bucket@account", "abfs://bucket@account/**/[ab].parquet"])
def test_files_are_shown_by_their_addresses(bucket, name):
    written(bucket)
    found = open_records(name, ATTRIBUTES)
    assert rows_of(found) == EXPECTED
    assert [source.name for source in found.sources] == [
        "abfs://bucket@account/a.parquet",
        "abfs://bucket@account/day=2/b.parquet",
    ]


def test_a_filesystem_that_is_given(tmp_path):
    written(tmp_path / "box")
    there = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    assert rows_of(open_records("box", ATTRIBUTES, filesystem=there)) == EXPECTED
    assert rows_of(open_records("box/day=*/b.parquet", ATTRIBUTES, filesystem=there)) == EXPECTED[400:]
    assert "no such file" in refusal(lambda: open_records("box/none.parquet", ATTRIBUTES, filesystem=there))


def test_a_filesystem_of_fsspec():
    memory = pytest.importorskip("fsspec").filesystem("memory")
    with memory.open("/box/people.parquet", "wb") as file:
        pq.write_table(TABLE, file)
    there = fs.PyFileSystem(fs.FSSpecHandler(memory))
    assert rows_of(open_records("/box/people.parquet", ATTRIBUTES, filesystem=there)) == EXPECTED
    assert rows_of(open_records("/box/*.parquet", ATTRIBUTES, filesystem=there)) == EXPECTED
    text = refusal(lambda: open_records("/box/people.parquet", ATTRIBUTES, filesystem=memory), ParameterError)
    assert "PyFileSystem(FSSpecHandler(filesystem))" in text


def test_what_belongs_to_a_path_is_refused_beside_a_table():
    for options in ({"table": "people"}, {"filesystem": fs.LocalFileSystem()}):
        assert "is named for a path" in refusal(lambda options=options: open_records(TABLE, ATTRIBUTES, **options))
        assert "is named for a path" in refusal(
            lambda options=options: open_records(None, ATTRIBUTES, sql="select 1 as age", **options)
        )


@pytest.mark.parametrize("name", ["relation", "lazy frame", "dataset"])
def test_reading_may_stop_early(name):
    # What is left of a query must not keep its connection busy, or a thread alive.
    connection, long = duckdb.connect(), pa.table({"age": [row % 100 for row in range(3 * ROWS)]})
    source = {
        "relation": lambda: connection.from_arrow(long),
        "lazy frame": lambda: pl.from_arrow(long).lazy(),
        "dataset": lambda: ds.dataset(long),
    }[name]()
    batches = open_records(source, {"age": PEOPLE["age"]}).batches()
    assert next(batches).num_rows == ROWS
    batches.close()  # type: ignore[attr-defined]
    assert connection.sql("select 1").fetchall() == [(1,)]


def test_this_machine_by_its_address(tmp_path):
    written(tmp_path / "box")
    found = open_records(f"file://{tmp_path}/box/people.arrow", ATTRIBUTES)
    assert (rows_of(found), found.files) == (EXPECTED, (f"{tmp_path}/box/people.arrow",))
    assert rows_of(open_records(f"file://{tmp_path}/box/day=*/b.parquet", ATTRIBUTES)) == EXPECTED[400:]


def test_addresses_that_lead_nowhere(bucket):
    written(bucket)
    for address, words in (
        ("s3://bucket/none.parquet", "s3://bucket/none.parquet cannot be read: no such file or directory"),
        ("s3://bucket/x*.parquet", "no file matches s3://bucket/x*.parquet"),
        ("s3://bucket/day=3", "no such file or directory"),
        ("s3a://bucket/a.parquet", "is no address that pyarrow knows; it may be s3:// that is meant"),
        ("https://host/a.parquet", "is no address that pyarrow knows: download the file, and name it"),
        ("foo://host/a.parquet", "is no address that pyarrow knows, as those of s3, gs, abfs, hdfs and file are"),
    ):
        assert words in refusal(lambda address=address: open_records(address, ATTRIBUTES), ParameterError)


def test_a_build_without_the_filesystem_and_a_network_that_is_down(monkeypatch):
    class Broken:
        error: Exception = pa.ArrowNotImplementedError(SECRET)

        @classmethod
        def from_uri(cls, address: str) -> None:
            raise cls.error

    monkeypatch.setattr(paths, "_known_filesystems", lambda: Broken)
    paths._filesystem.cache_clear()
    text = refusal(lambda: open_records("s3://bucket/a.parquet", ATTRIBUTES))
    assert text.startswith("s3://bucket/a.parquet is on s3, which this build of pyarrow was made without")
    Broken.error = OSError(SECRET)
    assert "cannot be reached" in refusal(lambda: open_records("s3://bucket/a.parquet", ATTRIBUTES))
    assert "needs Java and libhdfs" in refusal(lambda: open_records("hdfs://host/a.parquet", ATTRIBUTES))
    paths._filesystem.cache_clear()


def test_keys_in_an_address_are_not_shown(bucket):
    written(bucket)
    address = f"s3://someone:{SECRET}@bucket"
    found = open_records(f"{address}/a.parquet?key={SECRET}", ATTRIBUTES)
    assert rows_of(found) == EXPECTED[:400]
    assert SECRET not in f"{found!r} {found.sources}"
    assert "no such file" in refusal(lambda: open_records(f"{address}/none.parquet", ATTRIBUTES))
    assert "no file matches" in refusal(lambda: open_records(f"{address}/x*.parquet", ATTRIBUTES))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_reports_behind_an_address_are_tallied(bucket, plan, ending):
    for number in range(3):
        some = open_records(TABLE.slice(number * 300, 300), ATTRIBUTES)
        Local().randomize(plan, some, bucket / f"{number}.{ending}")
    right = Local().tally(plan, bucket)
    assert Local().tally(plan, "s3://bucket") == right
    assert Local().tally(plan, [f"s3://bucket/[01].{ending}", f"s3://a:b@bucket/2.{ending}"]) == right
    with pytest.raises(ReportError, match="is named twice"):
        Local().tally(plan, [f"s3://bucket/1.{ending}", f"s3://bucket/1.{ending}"])
    with pytest.raises(ReportError, match="is a copy of"):
        Local().tally(plan, [f"s3://bucket/1.{ending}", bucket / f"1.{ending}"])


# Memory --------------------------------------------------------------------------------------------------------------

MEMORY = """
import sys
from dither import Numeric
from dither.engines.records import open_records

kind, path = sys.argv[1:]
if kind == "lazy frame":
    import polars
    source = polars.scan_parquet(path).with_columns(polars.col("x") * 1.0)
elif kind == "dataset":
    import pyarrow.dataset
    source = pyarrow.dataset.dataset(path)
elif kind == "relation":
    import duckdb
    connection = duckdb.connect(config={"threads": 2})
    connection.execute("set enable_progress_bar = false")  # which goes to standard output
    source = connection.sql(f"select * from '{path}'")
elif kind == "held":
    import pyarrow.parquet
    source = pyarrow.parquet.read_table(path)
records = open_records(source, {"x": Numeric(0, 1), "y": Numeric(0, 1)})
print(sum(batch.num_rows for batch in records.batches()))
status = open("/proc/self/status").read()  # ru_maxrss of a child starts where its parent was
print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


def peak(kind: str, path: Path) -> tuple[int, int]:
    """How many rows were read in a process of its own, and its largest memory, in MiB."""
    command = [sys.executable, "-c", MEMORY, kind, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "POLARS_MAX_THREADS": "2"})
    assert done.returncode == 0, done.stderr
    rows, memory = map(int, done.stdout.split())
    return rows, memory


@pytest.fixture(scope="module")
def long_files(tmp_path_factory) -> dict[int, Path]:
    """Files of two and of 24 million records, 32 and 384 MB."""
    numpy = pytest.importorskip("numpy")
    folder, some = tmp_path_factory.mktemp("long"), numpy.random.default_rng(1).random((2, 250_000))
    found = {}
    for millions in (2, 24):
        found[millions] = folder / f"{millions}.parquet"
        with pq.ParquetWriter(found[millions], pa.schema({"x": pa.float64(), "y": pa.float64()})) as writer:
            for _ in range(4 * millions):
                writer.write_table(pa.table({"x": some[0], "y": some[1]}))
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is told in other units elsewhere")
@pytest.mark.parametrize("kind", [wide("lazy frame"), wide("dataset"), wide("relation"), wide("held")])
def test_memory_does_not_grow_with_a_stream(kind, long_files):
    rows, small = peak(kind, long_files[2])
    assert rows == 2_000_000
    rows, large = peak(kind, long_files[24])
    assert rows == 24_000_000
    grown = large - small  # of 352 MB more
    assert (grown < 120) if kind != "held" else (grown > 250), (small, large)  # the last shows that it would be seen


def test_batches_are_of_one_height_whatever_the_kind():
    long = pa.table({"age": [row % 100 for row in range(2 * ROWS + 5)]})
    age = {"age": PEOPLE["age"]}
    for source in (ds.dataset(long), pl.from_arrow(long).lazy(), duckdb.connect().from_arrow(long), long.to_reader(7)):
        assert [batch.num_rows for batch in open_records(source, age).batches()] == [ROWS, ROWS, 5]
