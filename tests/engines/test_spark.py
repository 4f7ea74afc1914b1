"""Spark, for real: the same tallies and the same simulated reports as on one machine, however the rows are cut."""

import json
import os
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dither.engines import spark
from dither.engines import spark_session as sessions
from dither.engines import spark_tasks as tasks
from dither.engines.local import Local
from dither.engines.records import open_records
from dither.engines.report_rows import codes, nothing, pack_rows, rows_schema
from dither.engines.spark import Spark
from dither.errors import (
    DitherError,
    DomainError,
    InvalidReportError,
    MissingExtraError,
    ParameterError,
    ReportError,
    RowError,
    WriteError,
)
from engines.cases import made, names_in, rows, table, written
from marks import wide

if find_spec("pyspark") is None:
    pytest.skip("Spark is not tested: pip install 'dither[spark]'", allow_module_level=True)
try:
    sessions.check_java()
except MissingExtraError as missing:
    pytest.skip(f"Spark is not tested, since there is no Java 17: {missing}", allow_module_level=True)

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

USERS = 700
PLAN = made("mixed")
OTHER = made("one question")
CONNECT = ("grpc", "grpc_status", "google.rpc", "zstandard")
SECRET = 987_654_321.0  # a value that no message may quote


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """Two cores; a task may fail once."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,2]").config("spark.sql.shuffle.partitions", "4")
    for name, value in sessions._SETTINGS.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def engine(session: Any) -> Spark:
    return Spark(session)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of reports, cut into nine pieces."""
    place = tmp_path_factory.mktemp("reports")
    whole = pa.table(rows("mixed", USERS, seed=None))
    for number, (start, size) in enumerate([(0, 300), (300, 250), (550, 150)]):
        part = whole.slice(start, size).cast(rows_schema(PLAN))
        written(place / f"{number}.parquet", part, group=90)
    return place


@pytest.fixture(scope="module")
def people() -> pa.Table:
    """Records of a table with one more column, and a null here and there."""
    columns = table(PLAN, USERS)
    columns["films"] = pa.array([list(each.items()) for each in columns["films"]], pa.map_(pa.int64(), pa.float64()))
    found = pa.table({"id": list(range(USERS)), **columns})
    for name in PLAN.attributes:
        missing = pa.array([row % 17 == len(name) for row in range(USERS)])
        place = found.column_names.index(name)
        column = found[name].combine_chunks()
        values = [None if gone else value for gone, value in zip(missing.to_pylist(), column.to_pylist(), strict=True)]
        found = found.set_column(place, name, pa.array(values, column.type))
    return found


def simulated(path: Path, given: Any) -> list[tuple[int, bytes]]:
    """The rows that the local engine writes, sorted."""
    Local().randomize(PLAN, open_records(given, PLAN.attributes), path, seed=5)
    return held(path)


def held(path: Path) -> list[tuple[int, bytes]]:
    found = pq.read_table(path)
    assert found.column_names == ["tag", "report"]
    return sorted(zip(found["tag"].to_pylist(), found["report"].to_pylist(), strict=True))


def refused(kind: type[DitherError], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert str(SECRET)[:9] not in str(caught.value)
    return str(caught.value)


# Tallies -------------------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("fan_in", [2, wide(16)])
def test_files_are_tallied_as_on_one_machine(
    engine: Spark, folder: Path, monkeypatch: pytest.MonkeyPatch, fan_in: int
) -> None:
    monkeypatch.setattr(spark, "FAN_IN", fan_in)
    done: list[int] = []
    files = [folder / "0.parquet", str(folder / "[12].parquet")]
    assert engine.tally(PLAN, files, progress=done.append) == Local().tally(PLAN, folder)
    assert sum(done) == USERS


@pytest.mark.wide
@pytest.mark.parametrize("partitions", [wide(1), 3, wide(7)])
def test_a_data_frame_is_tallied_as_files_are_for_any_partitions(
    engine: Spark, session: Any, folder: Path, partitions: int
) -> None:
    frame = session.read.parquet(str(folder)).repartition(partitions)
    assert engine.tally(PLAN, frame) == Local().tally(PLAN, folder)


@pytest.mark.wide
def test_partitions_may_be_empty(engine: Spark, session: Any, folder: Path) -> None:
    frame = session.read.parquet(str(folder)).repartition(5, "tag").limit(3).repartition(5)
    some = frame.toArrow()
    assert engine.tally(PLAN, frame) == Local().tally(PLAN, some)
    assert sum(part.n for part in engine.tally(PLAN, frame).parts.values()) == 3


@pytest.mark.wide
def test_no_rows_at_all_give_the_tally_of_nothing(engine: Spark, session: Any, folder: Path, tmp_path: Path) -> None:
    none = rows("mixed", 10).slice(0, 0)
    assert engine.tally(PLAN, session.read.parquet(str(folder)).where("false")) == nothing(PLAN)
    assert engine.tally(PLAN, written(tmp_path / "none.parquet", none)) == nothing(PLAN)


@pytest.mark.wide
def test_paths_with_a_scheme_are_read_by_spark(engine: Spark, folder: Path, tmp_path: Path) -> None:
    assert engine.tally(PLAN, folder.as_uri()) == Local().tally(PLAN, folder)
    refused(ParameterError, lambda: engine.tally(PLAN, [folder.as_uri(), str(folder)]))


@pytest.mark.wide
def test_an_arrow_table_is_tallied_here(engine: Spark) -> None:
    some = pa.table(rows("mixed", 20))
    assert engine.tally(PLAN, some) == Local().tally(PLAN, some)


@pytest.mark.wide
def test_what_was_simulated_stays_so(engine: Spark, session: Any, tmp_path: Path) -> None:
    real, played = rows("mixed", 30, seed=None), rows("mixed", 1)
    path = written(tmp_path / "both.parquet", pa.Table.from_batches([real, played]), group=10)
    for source in (path, session.read.parquet(str(path))):
        with pytest.raises(InvalidReportError, match="some of these 31 reports are simulated"):
            engine.tally(PLAN, source)
        assert engine.tally(PLAN, source, allow_simulated=True).simulated
        found = engine.tally(PLAN, source, invalid_reports="drop")
        assert (found.dropped, found) == ({"simulated": 1}, Local().tally(PLAN, real))
    alone = written(tmp_path / "real.parquet", real)
    assert not any(part.simulated for part in engine.tally(PLAN, alone).parts.values())


@pytest.mark.wide
def test_files_of_another_plan_are_refused(engine: Spark, folder: Path, tmp_path: Path) -> None:
    text = refused(InvalidReportError, lambda: engine.tally(OTHER, folder))
    assert text == refused(InvalidReportError, lambda: Local().tally(OTHER, folder))


@pytest.mark.wide
def test_rows_of_another_plan_are_refused_in_the_worker(engine: Spark, session: Any, tmp_path: Path) -> None:
    mixed = pa.Table.from_batches([rows("mixed", 200), rows("one question", 1)])
    path = written(tmp_path / "mixed.parquet", mixed, group=150)
    text = refused(InvalidReportError, lambda: engine.tally(PLAN, path))
    assert text == refused(InvalidReportError, lambda: Local().tally(PLAN, path))
    assert "another plan" in text
    assert "mixed.parquet, piece 1" in text
    assert "another plan" in refused(InvalidReportError, lambda: engine.tally(PLAN, session.read.parquet(str(path))))


@pytest.mark.wide
def test_a_refusal_goes_through_the_tree(
    engine: Spark, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "FAN_IN", 2)
    monkeypatch.chdir(tmp_path)
    written(Path("mixed.parquet"), rows("one question", 1))
    text = refused(InvalidReportError, lambda: engine.tally(PLAN, ["mixed.parquet", folder]))
    assert text.startswith("mixed.parquet, piece 0: ")  # as it was named


@pytest.mark.wide
def test_damaged_files_are_refused(engine: Spark, folder: Path, tmp_path: Path) -> None:
    data = (folder / "0.parquet").read_bytes()
    cut, spoilt = tmp_path / "cut.parquet", tmp_path / "spoilt.parquet"
    cut.write_bytes(data[: len(data) // 2])
    spoilt.write_bytes(data[:4] + bytes(400) + data[404:])  # its foot is whole: a worker finds it
    for path in (cut, spoilt):
        text = refused(ReportError, lambda path=path: engine.tally(PLAN, [path, folder / "1.parquet"]))
        assert text == refused(ReportError, lambda path=path: Local().tally(PLAN, [path, folder / "1.parquet"]))
        assert path.name in text
        assert "damaged" in text


@pytest.mark.wide
@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (["tag"], "one column report"),
        (["tag", "report", "tag"], "one column tag"),
        (["cast(tag as string) as tag", "report"], "whole numbers"),
        (["tag", "hex(report) as report"], "bytes"),
        (["tag", "if(crc32(report) % 2 = 0, null, report) as report"], "missing"),
        (["if(crc32(report) % 2 = 0, null, tag) as tag", "report"], "missing"),
    ],
)
def test_data_frames_that_hold_no_reports_are_refused(
    engine: Spark, session: Any, folder: Path, columns: list[str], named: str
) -> None:
    frame = session.read.parquet(str(folder)).selectExpr(*columns)
    kind = InvalidReportError if named == "missing" else ReportError
    assert named in refused(kind, lambda: engine.tally(PLAN, frame))


# Reports -------------------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("partitions", [wide(1), 3, wide(7)])
def test_simulated_reports_of_a_data_frame_are_those_of_one_machine(
    engine: Spark, session: Any, people: pa.Table, tmp_path: Path, partitions: int
) -> None:
    frame = session.createDataFrame(people).where("id % 5 > 0")
    frame = frame.repartitionByRange(partitions, "id").sortWithinPartitions("id")
    done: list[int] = []
    users = engine.randomize(PLAN, frame, tmp_path / "reports", seed=5, progress=done.append)
    ordered = frame.toArrow()
    assert users == ordered.num_rows == sum(done)
    assert held(tmp_path / "reports") == simulated(tmp_path / "local.parquet", ordered)
    assert Local().tally(PLAN, tmp_path / "reports") == Local().tally(PLAN, tmp_path / "local.parquet")


@pytest.mark.wide
def test_simulated_reports_with_empty_partitions(engine: Spark, session: Any, people: pa.Table, tmp_path: Path) -> None:
    some = people.slice(0, 3)
    frame = session.createDataFrame(some).repartitionByRange(6, "id").sortWithinPartitions("id")
    assert engine.randomize(PLAN, frame, tmp_path / "reports", seed=5) == 3
    assert held(tmp_path / "reports") == simulated(tmp_path / "local.parquet", some)


@pytest.mark.wide
def test_simulated_reports_of_files_are_those_of_one_machine(
    engine: Spark, people: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people").mkdir()
    pq.write_table(people.slice(0, 400), "people/a.parquet", row_group_size=70)
    pq.write_table(people.slice(400), "people/b.parquet")
    expected = simulated(tmp_path / "local.parquet", people)
    given = [("people", "folder"), (["people/a.parquet", Path("people/b.parquet")], "list")]
    for source, name in [*given, (open_records("people", PLAN.attributes), "opened")]:
        assert engine.randomize(PLAN, source, name, seed=5) == USERS
        assert held(Path(name)) == expected


@pytest.mark.wide
def test_simulated_reports_of_text_are_those_of_one_machine(engine: Spark, tmp_path: Path) -> None:
    plan = made("pairs of numbers")
    whole = pa.table(table(plan, 90))
    for number, (start, size) in enumerate([(0, 40), (40, 50)]):
        pyarrow.csv.write_csv(whole.slice(start, size), tmp_path / f"{number}.csv")
    opened = open_records(str(tmp_path / "*.csv"), plan.attributes)
    assert opened.rows is None
    assert engine.randomize(plan, opened, tmp_path / "reports", seed=5) == 90
    Local().randomize(plan, opened, tmp_path / "local.parquet", seed=5)
    assert held(tmp_path / "reports") == held(tmp_path / "local.parquet")
    assert len(held(tmp_path / "reports")) == 180  # two of each


@pytest.mark.wide
def test_real_reports_are_drawn_anew_in_every_task(engine: Spark, session: Any, tmp_path: Path) -> None:
    """Workers are forks of one process, and their noise must not be."""
    plan = made("one question")
    alike = session.createDataFrame(pa.table({"income": [5.0] * 400})).repartition(4)
    seen = []
    for name in ("one", "two"):
        assert engine.randomize(plan, alike, tmp_path / name) == 400
        files = sorted((tmp_path / name).glob("*.parquet"))
        seen += [tuple(pq.read_table(file)["report"].to_pylist()) for file in files]
        tally = engine.tally(plan, tmp_path / name)
        assert tally == Local().tally(plan, tmp_path / name)
        assert not any(part.simulated for part in tally.parts.values())
    assert len(seen) == 8
    heads = [reports[:50] for reports in seen]
    assert len(set(heads)) == len(heads)


@pytest.mark.wide
def test_a_folder_has_reports_and_nothing_else(engine: Spark, session: Any, people: pa.Table, tmp_path: Path) -> None:
    engine.randomize(PLAN, session.createDataFrame(people).repartition(2), tmp_path / "reports")
    parts = [name for name in names_in(tmp_path / "reports") if not name.startswith((".", "_"))]
    assert len(parts) == 2
    assert [name for name in names_in(tmp_path / "reports") if name.startswith("_")] == ["_SUCCESS"]
    for part in parts:
        fields = pq.read_schema(tmp_path / "reports" / part)
        assert [(field.name, str(field.type)) for field in fields] == [("tag", "int64"), ("report", "binary")]


@pytest.mark.wide
def test_no_records_give_no_reports(engine: Spark, session: Any, people: pa.Table, tmp_path: Path) -> None:
    for seed in (None, 5):
        none = session.createDataFrame(people).where("false")
        assert engine.randomize(PLAN, none, tmp_path / f"reports {seed}", seed=seed) == 0
        assert engine.tally(PLAN, tmp_path / f"reports {seed}") == nothing(PLAN)
    pq.write_table(people.slice(0, 0), tmp_path / "none.parquet")
    assert engine.randomize(PLAN, tmp_path / "none.parquet", tmp_path / "reports") == 0


def flaky(batches: Iterator[pa.RecordBatch], marks: str, always: bool = False) -> Iterator[pa.RecordBatch]:
    """Rows of a task that is lost at its end, the first time."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    yield from batches
    Path(marks, f"{context.partitionId()}-{context.attemptNumber()}").touch()
    if context.attemptNumber() == 0 or always:
        raise RuntimeError("lost")


@pytest.mark.wide
def test_of_a_task_that_is_tried_again_one_attempt_is_seen(
    engine: Spark, session: Any, people: pa.Table, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    frame = session.createDataFrame(people).repartition(2)
    frame = frame.mapInArrow(partial(_sent(flaky), marks=str(marks)), frame.schema)
    assert engine.randomize(PLAN, frame, tmp_path / "reports") == USERS
    assert names_in(marks) == ["0-0", "0-1", "1-0", "1-1"]
    assert len(held(tmp_path / "reports")) == USERS
    assert len([name for name in names_in(tmp_path / "reports") if name.endswith(".parquet")]) == 2


@pytest.mark.wide
def test_nothing_is_left_of_a_run_that_fails(engine: Spark, session: Any, people: pa.Table, tmp_path: Path) -> None:
    frame = session.createDataFrame(people).repartition(2)
    frame = frame.mapInArrow(partial(_sent(flaky), marks=str(tmp_path), always=True), frame.schema)
    with pytest.raises(Exception, match="lost"):
        engine.randomize(PLAN, frame, tmp_path / "reports")
    assert not (tmp_path / "reports").exists()


def disturbed(batches: Iterator[pa.RecordBatch], marks: str) -> Iterator[pa.RecordBatch]:
    """Of each partition the rows, and some that are no reports; the first attempt is lost after it gave them."""
    from pyspark import TaskContext

    task: Any = TaskContext.get()
    mark = Path(marks, f"{task.partitionId()}-{task.attemptNumber()}")
    mark.touch()
    yield from batches
    yield pa.record_batch(
        [pa.array([None, 7, 7], pa.int64()), pa.array([b"", b"x", b"xy"], pa.binary())], names=["tag", "report"]
    )
    if task.attemptNumber() == 0:
        raise RuntimeError("lost")


@pytest.mark.wide
def test_what_is_left_out_is_counted_once_though_tasks_are_tried_again(
    engine: Spark, session: Any, folder: Path, tmp_path: Path
) -> None:
    frame = session.read.parquet(str(folder)).repartition(2)
    frame = frame.mapInArrow(partial(_sent(disturbed), marks=str(tmp_path)), "tag bigint, report binary")
    found = engine.tally(PLAN, frame, invalid_reports="drop")
    assert names_in(tmp_path) == ["0-0", "0-1", "1-0", "1-1"]  # each partition was tried twice
    assert found.dropped == {"malformed": 2, "another plan": 4}
    assert found == Local().tally(PLAN, folder)


@pytest.mark.wide
def test_bad_rows_of_files_are_refused_or_left_out_as_on_one_machine(
    engine: Spark, session: Any, folder: Path, tmp_path: Path
) -> None:
    more = [*rows("mixed", USERS, seed=None).to_pylist(), {"tag": None, "report": b""}, {"tag": 7, "report": b""}]
    own = codes(PLAN).tags.tolist()
    for place, part in enumerate(PLAN.parts):
        length = part.mechanism.dtype.itemsize
        more += [{"tag": own[2 * place], "report": b"\xff" * size} for size in (length, length + 1)]
    more += rows("mixed", 3).to_pylist()  # simulated
    kinds = pa.schema([("tag", pa.int64()), ("report", pa.binary())])
    path = written(tmp_path / "x.parquet", pa.Table.from_pylist(more, kinds), group=20)
    local = Local().tally(PLAN, path, invalid_reports="drop")
    count = len(PLAN.parts)
    assert local.dropped == {
        "malformed": 1,
        "another plan": 1,
        "wrong length": count,
        "out of range": count,
        "simulated": 3,
    }
    for source in (path, session.read.parquet(str(path)), session.read.parquet(str(path)).repartition(40)):
        found = engine.tally(PLAN, source, invalid_reports="drop")
        assert found.to_bytes() == local.to_bytes()
        with pytest.raises(InvalidReportError, match="invalid_reports="):
            engine.tally(PLAN, source)
    refused(ParameterError, lambda: engine.tally(PLAN, path, invalid_reports="ignore"))


KILLED = """
import sys, time
from pathlib import Path
from dither import Plan
from dither.engines.spark import Spark
from dither.engines.spark_session import current
def slow(batches):
    import time
    for batch in batches:
        yield batch
        time.sleep(600)
frame = current().read.parquet(sys.argv[2]).repartition(1)
frame = frame.mapInArrow(slow, frame.schema)
Spark().randomize(Plan.read(sys.argv[1]), frame, sys.argv[3])
"""


@pytest.mark.wide
def test_nothing_of_a_killed_run_stays_beside_the_next(engine: Spark, people: pa.Table, tmp_path: Path) -> None:
    PLAN.save(tmp_path / "plan.json")
    pq.write_table(people, tmp_path / "people.parquet")
    folder = tmp_path / "out"
    folder.mkdir()
    given = [str(each) for each in (tmp_path / "plan.json", tmp_path / "people.parquet", folder / "reports")]
    running = subprocess.Popen([sys.executable, "-c", KILLED, *given], stderr=subprocess.DEVNULL)
    for _ in range(1200):
        if list(folder.rglob("*.parquet")):
            break
        assert running.poll() is None
        time.sleep(0.1)
    running.kill()
    running.wait()
    (left,) = folder.iterdir()
    assert left.name.startswith(".reports.")
    assert left.stat().st_mode & 0o777 == 0o700  # so that nobody else reads what is in it
    assert engine.randomize(PLAN, tmp_path / "people.parquet", folder / "reports") == USERS
    assert names_in(folder) == ["reports"]


def shrinking(batches: Iterator[pa.RecordBatch], marks: str) -> Iterator[pa.RecordBatch]:
    """Fewer rows when they are read again."""
    for batch in batches:
        yield batch.slice(1) if Path(marks, "read").exists() else batch
    Path(marks, "read").touch()


@pytest.mark.wide
def test_a_simulation_needs_the_same_rows_twice(engine: Spark, session: Any, people: pa.Table, tmp_path: Path) -> None:
    frame = session.createDataFrame(people).repartition(1)
    frame = frame.mapInArrow(partial(_sent(shrinking), marks=str(tmp_path)), frame.schema)
    assert "other rows" in refused(ParameterError, lambda: engine.randomize(PLAN, frame, tmp_path / "reports", seed=5))
    assert not (tmp_path / "reports").exists()


def _sent(function: Any) -> Any:
    """A function that workers get by value: they cannot import this module."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return function


# Bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_an_output_that_is_there_is_refused(engine: Spark, session: Any, people: pa.Table, tmp_path: Path) -> None:
    frame = session.createDataFrame(people.slice(0, 5))
    place = tmp_path / "reports"
    engine.randomize(PLAN, frame, place)
    before = names_in(place)
    for path in (place, place.as_uri()):
        text = refused(WriteError, lambda path=path: engine.randomize(PLAN, frame, path))
        assert "there already" in text
        assert names_in(place) == before
    assert "folder" in refused(ParameterError, lambda: engine.randomize(PLAN, frame, "-"))


@pytest.mark.wide
def test_missing_columns_and_wrong_types_are_refused_before_a_row_is_read(
    engine: Spark, session: Any, people: pa.Table, tmp_path: Path
) -> None:
    frame = session.createDataFrame(people)
    wrong = {
        "no column for attribute age": frame.drop("age"),
        "rename": frame.withColumnRenamed("age", "Age"),
        "several columns": frame.select("*", "age"),
        "income is numeric": frame.withColumn("income", frame["income"].cast("string")),
    }
    for named, given in wrong.items():
        text = refused(DomainError, lambda given=given: engine.randomize(PLAN, given, tmp_path / "reports"))
        assert named in text
    assert names_in(tmp_path) == []


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["frame", wide("file")])
def test_values_outside_of_the_domain_are_refused_as_on_one_machine(
    engine: Spark, session: Any, people: pa.Table, tmp_path: Path, kind: str
) -> None:
    place = people.column_names.index("income")
    values = people["income"].to_pylist()
    values[200] = SECRET
    bad = people.set_column(place, "income", pa.array(values))
    pq.write_table(bad, tmp_path / "bad.parquet", row_group_size=150)
    given = session.createDataFrame(bad).repartition(1).sort("id") if kind == "frame" else tmp_path / "bad.parquet"
    local = open_records(bad, PLAN.attributes)
    text = refused(DomainError, lambda: engine.randomize(PLAN, given, tmp_path / "reports"))
    assert text == refused(RowError, lambda: Local().randomize(PLAN, local, tmp_path / "local.parquet"))
    assert "row 200" in text
    assert names_in(tmp_path) == ["bad.parquet"]
    assert engine.randomize(PLAN, given, tmp_path / "reports", invalid="substitute") == USERS


@pytest.mark.wide
def test_damaged_records_are_refused_and_not_quoted(engine: Spark, people: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(people.drop_columns("id"), path, compression="none")
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * 400 + data[404:])
    text = refused(ParameterError, lambda: engine.randomize(PLAN, path, tmp_path / "reports"))
    assert "people.parquet" in text
    assert "damaged" in text
    assert names_in(tmp_path) == ["people.parquet"]


@pytest.mark.wide
def test_records_that_are_in_no_file_are_refused(engine: Spark, people: pa.Table, tmp_path: Path) -> None:
    opened = open_records(people, PLAN.attributes)
    assert "the local engine" in refused(ParameterError, lambda: engine.randomize(PLAN, opened, tmp_path / "reports"))


def test_an_unexpected_error_of_a_worker_is_not_quoted() -> None:
    def work(batches: Any) -> Iterator[Any]:
        yield from batches
        raise ValueError(f"cannot convert {SECRET}")

    with pytest.raises(tasks.RefusedError) as caught:
        list(tasks._only_refusals(work, []))
    assert caught.value.__context__ is None
    found = tasks.refusal(f"java.lang.Exception: {caught.value}\n at org.apache.spark")
    assert type(found) is DitherError
    assert "ValueError" in str(found)
    assert str(SECRET) not in str(found)


@pytest.mark.wide
def test_workers_without_dither_are_explained() -> None:
    with pytest.raises(MissingExtraError, match="workers"), spark._explained():
        raise RuntimeError("...\nModuleNotFoundError: No module named 'dither'\n...")
    with pytest.raises(RuntimeError, match="lost"), spark._explained():
        raise RuntimeError("lost")


def test_errors_are_rebuilt_by_their_kind_and_nothing_else_is_made() -> None:
    assert type(tasks.error_of("ReportError", "text")) is ReportError
    assert type(tasks.error_of("require", "text")) is DitherError
    assert type(tasks.error_of("DitherWarning", "text")) is DitherError


# Sessions ------------------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_the_active_session_is_taken_and_stays(session: Any, folder: Path) -> None:
    assert sessions.current() is session
    assert Spark().tally(PLAN, folder) == Local().tally(PLAN, folder)
    assert session.range(3).count() == 3


@pytest.mark.wide
def test_shares_are_balanced(session: Any) -> None:
    chunks = [tasks.Chunk("", "", None, number, size) for number, size in enumerate([9, 1, 1, 1, 8, 7, 2, 3, 4, 100])]
    shares = spark._dealt(chunks, session)
    assert sorted(chunk for share in shares for chunk in share) == sorted(chunks)
    assert len(shares) == 8
    assert max(sum(chunk.bytes for chunk in share) for share in shares) == 100
    assert sorted(sum(chunk.bytes for chunk in share) for share in shares)[-2] == 9
    assert spark._cores(session) == 2


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_active", lambda _: None)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)


@pytest.mark.wide
@pytest.mark.usefixtures("no_session")
def test_without_java_it_is_said_how_to_get_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    text = refused(MissingExtraError, lambda: Spark().tally(PLAN, folder))
    for said in ("Java 17", "apt install openjdk-17-jre-headless", "brew install openjdk@17", "JAVA_HOME", "local"):
        assert said in text
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"JAVA_HOME ({tmp_path})" in refused(MissingExtraError, lambda: Spark().tally(PLAN, folder))
    assert Local().tally(PLAN, folder).parts


@pytest.mark.wide
@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ('java version "1.8.0_202"', "is Java 8"),
        ('openjdk version "21" 2023-09-19', None),
        ("something else", None),
        (None, "there is none"),
    ],
)
def test_a_java_that_is_too_old_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | None, problem: str | None
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n" if told is None else f"#!/bin/sh\necho '{told}' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if problem is None:
        sessions.check_java()
    else:
        assert problem in refused(MissingExtraError, sessions.check_java)


CONNECTED = """
    import json, sys
    from pathlib import Path
    from dither import Plan
    from dither.errors import DitherError
    from dither.engines import spark
    from dither.engines import spark_session as sessions
    from dither.engines.spark import Spark

    plan, other, people, reports, output = (Path(name) for name in sys.argv[1:])
    plan, other = Plan.from_json(plan.read_text()), Plan.from_json(other.read_text())
    session = sessions.current()
    spark.FAN_IN = 2
    frame = session.read.parquet(str(people)).repartition(2)
    refusals = []
    for call in (
        lambda: Spark().tally(other, session.read.parquet(str(reports))),
        lambda: Spark().randomize(plan, frame.drop("age"), output),
        lambda: Spark().randomize(plan, frame.selectExpr("* except (age)", "1000 as age"), output),
        lambda: Spark().randomize(plan, people, reports),
    ):
        try:
            call()
        except DitherError as error:
            refusals.append([type(error).__name__, str(error)])
    facts = {
        "kind": type(session).__module__,
        "files": Spark().tally(plan, reports).to_bytes().hex(),
        "frame": Spark(session).tally(plan, session.read.parquet(str(reports))).to_bytes().hex(),
        "users": Spark().randomize(plan, people, output, seed=5),
        "frame users": Spark().randomize(plan, frame, str(output) + " 2", seed=5),
        "refusals": refusals,
    }
    print(json.dumps(facts))
    session.stop()
"""


@pytest.mark.wide
@pytest.mark.skipif(
    not all(find_spec(name.partition(".")[0]) for name in CONNECT),
    reason="Spark Connect is not tested: pip install 'pyspark[connect]'",
)
def test_all_of_it_works_through_spark_connect(folder: Path, people: pa.Table, tmp_path: Path) -> None:
    """In a process of its own: one that has a classic session can have no other."""
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    (tmp_path / "other.json").write_text(OTHER.to_json())
    pq.write_table(people, tmp_path / "people.parquet", row_group_size=300)
    script = tmp_path / "connected.py"
    script.write_text(textwrap.dedent(CONNECTED))
    paths = [tmp_path / "plan.json", tmp_path / "other.json", tmp_path / "people.parquet", folder, tmp_path / "reports"]
    ours = {"SPARK_REMOTE": "local[2]", "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable}  # any free port
    theirs = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    run = subprocess.run(
        [sys.executable, str(script), *map(str, paths)],
        capture_output=True,
        text=True,
        env={**theirs, **ours},
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    facts = json.loads(run.stdout.splitlines()[-1])
    expected = Local().tally(PLAN, folder).to_bytes().hex()
    assert "connect" in facts["kind"]
    assert facts["files"] == facts["frame"] == expected
    assert facts["users"] == facts["frame users"] == USERS
    assert held(tmp_path / "reports") == simulated(tmp_path / "local.parquet", people)
    assert [kind for kind, _ in facts["refusals"]] == ["InvalidReportError", "DomainError", "DomainError", "WriteError"]
    assert "another plan" in facts["refusals"][0][1]
    assert "age" in facts["refusals"][2][1]


@pytest.mark.wide
def test_rows_of_later_batches_keep_their_numbers(monkeypatch):
    # In this process: what a worker does with records of several batches. Others have 2^17 rows.
    monkeypatch.setattr("dither.engines.record_sources.ROWS", 100)
    chosen = made("columns")
    columns = table(chosen, USERS)
    given = open_records(pa.table(columns), chosen.attributes)
    found = [batch for _, batch in tasks._reports(chosen, given, 5, "error", 40)]
    expected = pa.Table.from_batches([pack_rows(chosen, chosen.randomize(columns, seed=5, first=40))])
    cut = pa.Table.from_batches(found)
    assert len(found) > 1
    assert sorted(zip(*cut.to_pydict().values(), strict=True)) == sorted(
        zip(*expected.to_pydict().values(), strict=True)
    )
