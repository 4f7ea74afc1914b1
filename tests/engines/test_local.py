"""The local engine: the same bits for any cut, in memory that does not grow; no half of a file, whatever happens."""

import gc
import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.engines import engine
from dither.engines import local as local_module
from dither.engines.local import Local, incoming
from dither.engines.report_files import report_files
from dither.engines.report_rows import PLAN, REPORT, TAG, codes, nothing, pack_rows, tally_rows, unpack_rows
from dither.errors import DitherError, DomainError, ParameterError, ReportError, WriteError
from engines.cases import CHOICES, Records, made, names_in, reports, rows, table, written
from interrupts import hears_interrupts

USERS = 400
CHOSEN = made("columns")
RECORDS = table(CHOSEN, USERS)
RIGHT = CHOSEN.tally(CHOSEN.randomize(RECORDS, seed=1)).to_bytes()


def randomized(output: Any, heights: list[int] | None = None, **options: Any) -> int:
    return Local().randomize(CHOSEN, Records(RECORDS, heights or []), output, **{"seed": 1, **options})


def sequences(found: pa.Table) -> dict[int, list[bytes]]:
    """The reports of each tag, in order."""
    tags, held = found[TAG].to_numpy(), np.array(found[REPORT].to_pylist(), dtype=object)
    return {int(tag): held[tags == tag].tolist() for tag in np.unique(tags)}


# Any cut -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHOICES)
def test_any_partitioning_gives_identical_bytes(tmp_path, name, monkeypatch):
    chosen, batch = made(name), rows(name, USERS)
    right = chosen.tally(reports(name, USERS)).to_bytes()
    rng = np.random.default_rng(2)
    mixed = batch.take(pa.array(rng.permutation(batch.num_rows)))
    for number, count in enumerate((1, 2, 5)):
        folder = tmp_path / str(number)
        folder.mkdir()
        edges = [0, *sorted(rng.integers(0, batch.num_rows, count - 1).tolist()), batch.num_rows]
        for place, (a, b) in enumerate(pairwise(edges)):
            written(folder / f"{place}.parquet", mixed.slice(a, b - a), int(rng.integers(1, 200)))
        for workers in ("1", "2", "5"):
            monkeypatch.setenv("DITHER_THREADS", workers)
            assert Local().tally(chosen, folder).to_bytes() == right
            assert Local().tally(chosen, pa.Table.from_batches([mixed.slice(7), mixed.slice(0, 7)])).to_bytes() == right


def test_tables_batches_and_readers(tmp_path):
    batch = pack_rows(CHOSEN, CHOSEN.randomize(RECORDS, seed=1))
    whole = pa.Table.from_batches([batch.slice(0, 3), batch.slice(3, 0), batch.slice(3)])
    written(tmp_path / "x.parquet", whole)
    sources = [
        batch,
        whole,
        whole.to_reader(),
        whole.to_reader(max_chunksize=9),
        pa.RecordBatchReader.from_batches(batch.schema, iter([batch])),
        pq.ParquetFile(tmp_path / "x.parquet").read(),
        whole.combine_chunks(),
    ]
    for source in sources:
        assert Local().tally(CHOSEN, source).to_bytes() == RIGHT


def test_a_stream_must_have_its_end():
    buffer = io.BytesIO()
    randomized(buffer, [50])
    data = buffer.getvalue()
    assert Local().tally(CHOSEN, incoming(io.BytesIO(data))).to_bytes() == RIGHT
    for spoilt, reason in ((data[:-8], "was cut short"), (data[:-9], "cut short"), (data * 2, "more behind its end")):
        with pytest.raises(ReportError, match=reason):
            Local().tally(CHOSEN, incoming(io.BytesIO(spoilt)))
    with pytest.raises(ReportError, match="no Arrow stream of reports"):
        incoming(io.BytesIO(b"nonsense"))


def test_data_frames_of_other_libraries():
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    batch = pack_rows(CHOSEN, CHOSEN.randomize(RECORDS, seed=1))
    frame = polars.from_arrow(pa.table(batch))
    found = pa.table(batch)
    assert Local().tally(CHOSEN, frame).to_bytes() == RIGHT
    assert Local().tally(CHOSEN, duckdb.sql("select * from found").to_arrow_reader()).to_bytes() == RIGHT
    assert found.num_rows == USERS


def test_progress_is_told(tmp_path):
    path, told = tmp_path / "x.parquet", []
    assert randomized(path, [150, 0, 50], progress=told.append) == USERS
    assert told == [150, 50, 200]
    told.clear()
    Local().tally(CHOSEN, path, progress=told.append)
    assert sum(told) == USERS
    told.clear()
    Local().tally(CHOSEN, pq.read_table(path).to_reader(max_chunksize=100), progress=told.append)
    assert told == [100] * 4


def test_the_engine_by_its_name():
    assert isinstance(engine("local"), Local)
    with pytest.raises(ParameterError, match="no engine has this name"):
        engine("secret")


# There and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.parquet", "x.pq", "X.PARQUET", "x.arrow", "x.feather", "x.ipc", "x.ARROW"])
@pytest.mark.parametrize("heights", [[], [1, 2, 3], [399], [0, 0, 100]])
def test_files_there_and_back(tmp_path, name, heights):
    path = tmp_path / name
    assert randomized(path, heights) == USERS
    assert Local().tally(CHOSEN, path).to_bytes() == RIGHT
    assert names_in(tmp_path) == [name]
    (file,) = report_files(path, CHOSEN)
    assert file.numbered
    assert file.plan == CHOSEN.fingerprint
    assert file.rows == USERS * CHOSEN.questions_per_user


def test_a_stream_there_and_back():
    stream = io.BytesIO()
    randomized(stream, [100, 200])
    stream.seek(0)
    reader = pa.ipc.open_stream(stream)
    assert reader.schema.metadata[PLAN].decode() == CHOSEN.fingerprint
    assert Local().tally(CHOSEN, reader).to_bytes() == RIGHT


def test_standard_output_there_and_back(monkeypatch):
    stream = io.BytesIO()
    outer = io.TextIOWrapper(stream)
    monkeypatch.setattr(sys, "stdout", outer)
    randomized("-")
    monkeypatch.undo()
    outer.flush()
    assert Local().tally(CHOSEN, pa.ipc.open_stream(stream.getvalue())).to_bytes() == RIGHT


def test_several_reports_a_user(tmp_path):
    chosen = made("pairs of numbers")
    assert chosen.questions_per_user > 1
    records = table(chosen, 100)
    path = tmp_path / "x.parquet"
    assert Local().randomize(chosen, Records(records, [30]), path, seed=5) == 100
    assert report_files(path, chosen)[0].rows == 100 * chosen.questions_per_user
    assert Local().tally(chosen, path) == chosen.tally(chosen.randomize(records, seed=5))


def test_without_a_seed_reports_are_not_simulated_and_differ(tmp_path):
    for name in ("a.parquet", "b.parquet"):
        randomized(tmp_path / name, seed=None)
    one, other = (pq.read_table(tmp_path / name) for name in ("a.parquet", "b.parquet"))
    assert sequences(one) != sequences(other)
    assert not any(part.simulated for part in Local().tally(CHOSEN, tmp_path).parts.values())
    randomized(tmp_path / "c.parquet")
    assert all(part.simulated for part in Local().tally(CHOSEN, tmp_path, allow_simulated=True).parts.values())
    assert all(part.simulated for part in Local().tally(CHOSEN, tmp_path / "c.parquet").parts.values())


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    st.lists(st.integers(0, USERS), max_size=5), st.integers(0, 2**40), st.sampled_from(["columns", "pairs of numbers"])
)
def test_a_simulation_does_not_depend_on_the_cut(heights, seed, name):
    chosen = made(name)
    records = table(chosen, USERS)
    streams = []
    for cut in ([], heights):
        stream = io.BytesIO()
        Local().randomize(chosen, Records(records, cut), stream, seed=seed)
        streams.append(pa.ipc.open_stream(stream.getvalue()).read_all())
    one, other = map(sequences, streams)
    assert one == other
    direct = chosen.randomize(records, seed=seed)
    assert one == sequences(pa.table(pack_rows(chosen, direct)))


def test_batches_are_cut_where_their_reports_are_many_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(local_module, "_GROUP_BYTES", 300)
    heights: list[int] = []
    real = local_module.pack_rows

    def seen(plan: Any, found: Any) -> Any:
        batch = real(plan, found)
        heights.append(batch.num_rows)
        return batch

    monkeypatch.setattr(local_module, "pack_rows", seen)
    path = tmp_path / "x.parquet"
    assert randomized(path, [100]) == USERS
    widest = max(part.mechanism.dtype.itemsize for part in CHOSEN.parts)
    assert max(heights) == 300 // widest
    assert sum(heights) == USERS
    assert Local().tally(CHOSEN, path).to_bytes() == RIGHT


def test_batches_are_collected_into_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(local_module, "_GROUP", 100)
    randomized(tmp_path / "x.parquet", [30] * 20)
    (file,) = report_files(tmp_path / "x.parquet", CHOSEN)
    assert [piece.rows for piece in file.pieces] == [120, 120, 120, 40]


# Bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["x.csv", "x", "", "x.parquet.gz", "parquet"])
def test_an_unknown_ending(tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=r"endings .parquet, .arrow, .feather, .ipc, or with"):
        randomized(output)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("output", ["x.parquet", "x.arrow"])
def test_a_value_that_does_not_fit_names_its_row_and_not_itself(tmp_path, output):
    bad = {**RECORDS, "income": RECORDS["income"].copy()}
    bad["income"][317] = 987_654_321
    with pytest.raises(DomainError, match=r"attribute income, row 317: .*invalid=.substitute") as caught:
        Local().randomize(CHOSEN, Records(bad, [100, 100]), tmp_path / output)
    assert "987654321" not in str(caught.value).replace(",", "").replace("_", "")
    assert caught.value.__cause__ is None
    assert names_in(tmp_path) == []
    assert Local().randomize(CHOSEN, Records(bad, [100, 100]), tmp_path / output, invalid="substitute") == USERS


class Broken(Records):
    """Records whose source fails in the middle."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(RECORDS, [100])
        self.error = error

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield next(super().batches())
        raise self.error


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), DomainError("x"), MemoryError()])
@pytest.mark.parametrize("output", ["x.parquet", "x.arrow"])
def test_an_error_in_the_middle_leaves_no_file(tmp_path, output, error):
    with pytest.raises(type(error)):
        Local().randomize(CHOSEN, Broken(error), tmp_path / output)
    assert names_in(tmp_path) == []
    (tmp_path / output).write_bytes(b"old")
    with pytest.raises(type(error)):
        Local().randomize(CHOSEN, Broken(error), tmp_path / output)
    assert names_in(tmp_path) == [output]
    assert (tmp_path / output).read_bytes() == b"old"


def test_an_error_in_the_middle_of_a_stream_writes_no_end():
    stream = io.BytesIO()
    with pytest.raises(ValueError, match="x"):
        Local().randomize(CHOSEN, Broken(ValueError("x")), stream)
    gc.collect()
    end = b"\xff\xff\xff\xff\0\0\0\0"
    assert not stream.getvalue().endswith(end)
    whole = io.BytesIO()
    randomized(whole)
    assert whole.getvalue().endswith(end)


def test_a_stream_that_was_cut_short():
    stream = io.BytesIO()
    randomized(stream, [100, 100, 100])
    data = stream.getvalue()
    outcomes = set()
    for cut in range(700, len(data) - 8, 97):
        try:
            reader = pa.ipc.open_stream(data[:cut])
        except pa.ArrowInvalid:
            continue
        try:
            outcomes.add(Local().tally(CHOSEN, reader).to_bytes() == RIGHT)
        except ReportError as error:
            outcomes.add(str(error).partition(":")[0])
    assert "the stream of reports cannot be read" in outcomes
    assert True not in outcomes


class Full(io.BytesIO):
    """A pipe to a disk that is full."""

    def write(self, data: Any) -> int:
        raise OSError(28, "No space left on device")


class Gone(io.BytesIO):
    """A pipe that nobody reads from."""

    def write(self, data: Any) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_stream_that_cannot_be_written():
    with pytest.raises(WriteError, match="cannot write the stream of reports: no space left on device"):
        randomized(Full())
    with pytest.raises(BrokenPipeError):
        randomized(Gone())


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(WriteError, match="no such file or directory"):
        randomized(tmp_path / "missing" / "x.parquet")


@pytest.mark.parametrize("workers", ["1", "3"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("x")])
def test_an_interruption_of_a_tally(tmp_path, monkeypatch, workers, error):
    monkeypatch.setenv("DITHER_THREADS", workers)
    written(tmp_path / "x.parquet", pack_rows(CHOSEN, CHOSEN.randomize(RECORDS, seed=1)), 20)

    def stop(done: int) -> None:
        raise error

    with pytest.raises(type(error)):
        Local().tally(CHOSEN, tmp_path, progress=stop)
    assert Local().tally(CHOSEN, tmp_path).to_bytes() == RIGHT


@pytest.mark.parametrize("workers", ["1", "3"])
def test_an_error_of_one_piece_is_the_error_of_all(tmp_path, monkeypatch, workers):
    # Also one that is no dither error: nothing hangs, and nothing is swallowed.
    monkeypatch.setenv("DITHER_THREADS", workers)
    written(tmp_path / "x.parquet", pack_rows(CHOSEN, CHOSEN.randomize(RECORDS, seed=1)), 20)
    before = threading.active_count()
    real, count = local_module.tallies_of_rows, [0]

    def fail(*given: Any) -> Any:
        count[0] += 1
        if count[0] == 7:
            raise RuntimeError("seven")
        return real(*given)

    monkeypatch.setattr(local_module, "tallies_of_rows", fail)
    with pytest.raises(RuntimeError, match="seven"):
        Local().tally(CHOSEN, tmp_path)
    assert threading.active_count() <= before + int(workers)


def test_the_error_of_a_piece_names_it_once(tmp_path):
    batch = pack_rows(CHOSEN, CHOSEN.randomize(RECORDS, seed=1))
    short = pa.array([b"" if row == 250 else data for row, data in enumerate(batch[REPORT].to_pylist())])
    path = written(tmp_path / "x.parquet", pa.table({TAG: batch[TAG], REPORT: short}), 100)
    with pytest.raises(ReportError, match=r"x\.parquet, piece 2: a report about .* has the wrong length") as caught:
        Local().tally(CHOSEN, path)
    assert str(caught.value).count("x.parquet") == 1
    assert caught.value.__cause__ is None


# The whole machine -------------------------------------------------------------------------------------------------


START = """
import os, resource, signal, sys
from pathlib import Path
import numpy as np, pyarrow as pa
from dither import Plan
from dither.errors import DitherError
from dither.engines.local import Local

class Records:
    rows, ignored = None, ()
    def batches(self):
        rng = np.random.default_rng(1)
        for _ in range(int(sys.argv[3])):
            jobs = np.array(["nurse", "driver", "teacher", "other"])[rng.integers(0, 4, 10_000)]
            cities = np.array([f"city {i}" for i in range(3000)])[rng.integers(0, 3000, 10_000)]
            yield pa.record_batch({
                "age": rng.integers(0, 100, 10_000), "income": rng.uniform(0, 200_000, 10_000),
                "job": jobs, "city": cities})

plan = Plan.from_json(Path(sys.argv[1]).read_text())
"""


def run(script: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START + textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "DITHER_THREADS": "2"})


@pytest.fixture
def stored(tmp_path) -> Path:
    folder = tmp_path / "plan"
    folder.mkdir()
    (folder / "plan.json").write_text(CHOSEN.to_json())
    return folder / "plan.json"


@pytest.mark.wide
@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="the system has no limit for files")
def test_a_full_disk_leaves_nothing(tmp_path, stored):
    script = """
    sys.dont_write_bytecode = True  # half a file would be left of what is compiled from here on
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for name, limit in (("x.parquet", 50_000), ("x.parquet", 100), ("x.arrow", 50_000), ("x.arrow", 100)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            Local().randomize(plan, Records(), Path(sys.argv[2]) / name)
        except DitherError as error:
            print(type(error).__name__, error)
        print(sorted(os.listdir(sys.argv[2])))
    """
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "x.arrow").write_bytes(b"old")
    done = run(script, stored, folder, 3)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1::2] == ["['x.arrow']"] * 4
    for line, name in zip(lines[::2], ("x.parquet", "x.parquet", "x.arrow", "x.arrow"), strict=True):
        assert line == f"WriteError cannot write {folder / name}: file too large. No part of it was left behind"
    assert (folder / "x.arrow").read_bytes() == b"old"


@pytest.mark.wide
def test_ctrl_c_leaves_nothing(tmp_path, stored):
    script = """
    def told(rows):
        print("going", flush=True)
    Local().randomize(plan, Records(), Path(sys.argv[2]) / "x.parquet", progress=told)
    """
    folder = tmp_path / "out"
    folder.mkdir()
    command = [sys.executable, "-c", START + textwrap.dedent(script), str(stored), str(folder), "100000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=hears_interrupts)
    assert process.stdout is not None
    assert process.stdout.readline() == b"going\n"
    process.send_signal(signal.SIGINT)
    _, problem = process.communicate()
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in problem
    assert names_in(folder) == []


def repeated(path: Path, groups: int, ending: str) -> Path:
    """A file of many equal row groups."""
    some = pa.table(rows("columns", 4000))
    group = pa.concat_tables([some] * 25).combine_chunks()  # 100,000 rows
    if ending == ".parquet":
        with pq.ParquetWriter(path, group.schema, compression="none") as writer:
            for _ in range(groups):
                writer.write_table(group)
    else:
        with pa.ipc.new_file(str(path), group.schema) as writer:
            for _ in range(groups):
                writer.write_table(group)
    return path


@pytest.mark.wide
def test_memory_does_not_grow_with_the_reports(tmp_path, stored):
    # One process each, because the most that was ever used is what the system tells.
    script = """
    total = Local().tally(plan, sys.argv[2])
    print(sum(part.n for part in total.parts.values()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    most = {}
    for groups in (10, 80):
        path = repeated(tmp_path / f"{groups}.parquet", groups, ".parquet")
        done = run(script, stored, path)
        assert done.returncode == 0, done.stderr
        count, most[groups] = map(int, done.stdout.split())
        assert count == 100_000 * groups
    assert most[80] < 1.2 * most[10]


def test_a_large_tally_is_the_sum_of_its_groups(tmp_path):
    path = repeated(tmp_path / "x.arrow", 3, ".arrow")
    one = tally_rows(CHOSEN, rows("columns", 4000))
    assert Local().tally(CHOSEN, path) == sum([one] * 75, nothing(CHOSEN))


def test_unpacked_is_what_was_randomized(tmp_path):
    randomized(tmp_path / "x.arrow", [100])
    batch = pa.ipc.open_file(str(tmp_path / "x.arrow")).get_batch(0)
    direct = CHOSEN.randomize({name: column[:100] for name, column in RECORDS.items()}, seed=1)
    for part in CHOSEN.parts:
        assert np.asarray(unpack_rows(CHOSEN, batch)[part.name]).tobytes() == np.asarray(direct[part.name]).tobytes()
    assert set(batch[TAG].to_pylist()) <= set(codes(CHOSEN).tags[1::2].tolist())


def test_refusals_are_dither_errors():
    for source in (pa.table({"a": [1]}), pa.record_batch({"a": [1]}), [], None, 3):
        with pytest.raises(DitherError):
            Local().tally(CHOSEN, source)
