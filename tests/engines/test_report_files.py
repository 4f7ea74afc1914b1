"""Files of reports: found, told apart, cut into pieces; damage is an error that names the file, and never a count."""

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from dither import Plan
from dither.engines import report_files as pieces_module
from dither.engines.local import Local, incoming
from dither.engines.report_files import places_of, report_files
from dither.engines.report_rows import FILE, PLAN, REPORT, TAG, nothing, rows_schema, tally_rows
from dither.errors import DitherError, ParameterError, ReportError
from dither.planning.plan_tally import PlanTally
from engines.cases import Records, made, names_in, reports, rows, table, written
from marks import wide

USERS = 400
CHOSEN, COLUMNS = made("mixed"), made("columns")
RIGHT = CHOSEN.tally(reports("mixed", USERS)).to_bytes()


def ours(path: Path, group: int = 100, batch: Any = None) -> Path:
    """A file as dither writes it, in small groups."""
    found = pa.table(rows("mixed", USERS) if batch is None else batch).replace_schema_metadata(
        rows_schema(CHOSEN).metadata
    )
    if path.suffix.lower() in (".parquet", ".pq"):
        return written(path, found, group, compression="zstd", use_dictionary=[TAG], write_page_checksum=True)
    with pa.ipc.new_file(str(path), found.schema) as writer:
        writer.write_table(found, max_chunksize=group)
    return path


def tally(source: Any) -> bytes:
    return Local().tally(CHOSEN, source).to_bytes()


# Pieces ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".parquet", ".pq", ".PARQUET", ".arrow", ".feather", ".ipc", ".Arrow"])
@pytest.mark.parametrize("group", [1 << 20, 100, 7])
def test_any_groups_give_the_same_tally(tmp_path, ending, group):
    path = ours(tmp_path / f"reports{ending}", group)
    (file,) = report_files(path, CHOSEN)
    assert file.rows == USERS
    assert [piece.number for piece in file.pieces] == list(range(-(-USERS // group)))
    assert sum(batch.num_rows for piece in file.pieces for batch in piece.batches()) == USERS
    assert all(piece.bytes > 0 for piece in file.pieces)
    assert file.plan == CHOSEN.fingerprint
    assert len(file.identity) == 32
    assert tally(path) == RIGHT


def test_a_piece_is_decoded_in_batches(tmp_path, monkeypatch):
    for ending in (".parquet", ".arrow"):
        path = ours(tmp_path / f"reports{ending}", 400)
        (piece,) = report_files(path, CHOSEN)[0].pieces
        monkeypatch.setattr(pieces_module, "_BATCH", 64)
        assert [batch.num_rows for batch in piece.batches()] == [64] * 6 + [16]
        assert tally(path) == RIGHT
        monkeypatch.undo()
    monkeypatch.setattr(pieces_module, "_MOST_BYTES", 100)  # a batch has at least a row, however wide
    (piece,) = report_files(tmp_path / "reports.parquet", CHOSEN)[0].pieces
    heights = [batch.num_rows for batch in piece.batches()]
    assert max(heights) == max(1, 100 * USERS // piece.bytes)
    assert sum(heights) == USERS


def test_empty_files_and_empty_groups(tmp_path):
    for ending in (".parquet", ".arrow"):
        path = ours(tmp_path / f"empty{ending}", batch=rows("mixed", USERS).slice(0, 0))
        assert report_files(path, CHOSEN)[0].rows == 0
        assert tally(path) == nothing(CHOSEN).to_bytes()
    some = pa.table(rows("mixed", USERS)).replace_schema_metadata(rows_schema(CHOSEN).metadata)
    holes = tmp_path / "holes.parquet"
    with pq.ParquetWriter(holes, some.schema) as writer:
        for part in (some.slice(0, 0), some.slice(0, 150), some.slice(0, 0), some.slice(150), some.slice(0, 0)):
            writer.write_table(part)
    arrow = tmp_path / "holes.arrow"
    with pa.ipc.new_file(str(arrow), some.schema) as writer:
        for part in (some.slice(0, 0), some.slice(0, 150), some.slice(0, 0), some.slice(150), some.slice(0, 0)):
            for batch in part.to_batches() or [pa.RecordBatch.from_pylist([], schema=some.schema)]:
                writer.write_batch(batch)
    for path in (holes, arrow):
        assert [piece.rows for piece in report_files(path, CHOSEN)[0].pieces] == [150, 250]
        assert tally(path) == RIGHT


def test_reports_of_no_rows_at_all_are_a_file(tmp_path):
    Local().randomize(CHOSEN, Records(table(CHOSEN, 0), []), tmp_path / "none.parquet")
    assert tally(tmp_path / "none.parquet") == nothing(CHOSEN).to_bytes()


def test_columns_in_another_order_and_more_of_them(tmp_path):
    batch = rows("mixed", USERS)
    more = pa.table({"when": pa.array(range(USERS)), REPORT: batch[REPORT], TAG: batch[TAG]})
    assert tally(written(tmp_path / "more.parquet", more, 90)) == RIGHT
    pa.ipc.new_file(str(tmp_path / "more.arrow"), more.schema).close()
    with pa.ipc.new_file(str(tmp_path / "more.arrow"), more.schema) as writer:
        writer.write_table(more)
    assert tally(tmp_path / "more.arrow") == RIGHT


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_arrow_files(tmp_path, compression):
    path = tmp_path / "reports.feather"
    some = pa.table(rows("mixed", USERS))
    with pa.ipc.new_file(str(path), some.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(some, max_chunksize=90)
    assert tally(path) == RIGHT


# Found -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def parts(tmp_path) -> Path:
    """A folder with the reports in four files, and what other tools leave in a folder."""
    folder = tmp_path / "reports"
    (folder / "day=1" / "_temporary").mkdir(parents=True)
    (folder / "empty").mkdir()
    batch = rows("mixed", USERS)
    ours(folder / "a.parquet", batch=batch.slice(0, 100))
    ours(folder / "b [1].PARQUET", batch=batch.slice(100, 100))
    ours(folder / "c.arrow", batch=batch.slice(200, 100))
    ours(folder / "day=1" / "d.parquet", batch=batch.slice(300))
    for junk in ("_SUCCESS", ".hidden.parquet", "_metadata.parquet", "notes.txt", ".a.parquet.12ab34cd.part"):
        (folder / junk).write_bytes(b"no reports")
    (folder / "day=1" / "_temporary" / "e.parquet").write_bytes(b"no reports")
    return folder


def names_of(source: Any) -> list[str]:
    """The files that are meant, by their names."""
    return [place.name for place in places_of(source)]


def test_a_folder_means_all_its_files(parts):
    names = [os.path.relpath(path, parts) for path in names_of(parts)]
    assert names == ["a.parquet", "b [1].PARQUET", "c.arrow", os.path.join("day=1", "d.parquet")]
    assert tally(parts) == tally(str(parts)) == tally([parts]) == RIGHT


def test_patterns_lists_and_mixtures_of_them(parts):
    source = [parts / "a.parquet", str(parts / "*.PARQUET"), f"{parts}/c.*", parts / "day=1"]
    assert tally(source) == tally(tuple(source)) == RIGHT
    assert tally(f"{parts}/**/[a-d]*.[paP]*") == RIGHT
    assert names_of(f"{parts}/?.parquet") == [str(parts / "a.parquet")]


def test_a_name_with_the_signs_of_a_pattern(parts):
    assert names_of(parts / "b [1].PARQUET") == [str(parts / "b [1].PARQUET")]
    ours(parts / "day=1" / "x*?.parquet", batch=rows("mixed", USERS).slice(0, 10))
    assert names_of(parts / "day=1" / "x*?.parquet") == [str(parts / "day=1" / "x*?.parquet")]


@pytest.mark.parametrize("name", ["ä ö.parquet", "a'b\"c.arrow", "new\nline.parquet", "%20#?.parquet", "x:y.arrow"])
def test_odd_names(tmp_path, name):
    assert tally(ours(tmp_path / name)) == RIGHT


def test_a_name_that_is_no_text(tmp_path):
    os.rename(os.fsencode(ours(tmp_path / "fine.parquet")), os.path.join(os.fsencode(tmp_path), b"\xff.parquet"))
    with pytest.raises(ReportError, match=r"cannot be read: its name is not text; rename it"):  # Arrow cannot have it
        tally(tmp_path)


def test_a_relative_path(parts, monkeypatch):
    monkeypatch.chdir(parts)
    assert names_of("a.parquet") == ["a.parquet"]
    assert tally(["a.parquet", "b*", "c.arrow", Path("day=1")]) == RIGHT
    assert tally(".") == RIGHT


@pytest.mark.parametrize(
    "source", [[], (), None, 5, b"x.parquet", [None], [b"x"], {"a.parquet": 1}, [["a.parquet"]], object()]
)
def test_what_is_no_path(source):
    with pytest.raises(ParameterError, match="name at least one file of reports"):
        Local().tally(CHOSEN, source)


def test_raw_records_by_mistake_are_not_quoted():
    secret = pa.record_batch({"age": [987654321]})
    with pytest.raises(ParameterError) as caught:
        Local().tally(CHOSEN, [secret])
    assert "987654321" not in str(caught.value)


def test_what_is_not_there(tmp_path):
    for source in (tmp_path / "none.parquet", tmp_path / "none" / "x.arrow", tmp_path / "gone.pq"):
        with pytest.raises(ReportError, match="cannot be read: there is no such file") as caught:
            tally(source)
        assert str(source) in str(caught.value)
    with pytest.raises(ParameterError, match="no file matches"):
        tally(f"{tmp_path}/*.parquet")
    with pytest.raises(ParameterError, match="has no files of reports"):
        tally(tmp_path)
    for name in ("x.csv", "x", "x.parquet.gz", "*.csv"):
        (tmp_path / name).write_text("age\n41\n")
        with pytest.raises(ParameterError, match="has an unknown ending"):
            tally(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_file_that_may_not_be_read(tmp_path):
    for ending in (".parquet", ".arrow"):
        path = ours(tmp_path / f"x{ending}")
        path.chmod(0)
        with pytest.raises(ReportError, match="may not be read by this user"):
            tally(path)


# Copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_file_named_twice(tmp_path, ending):
    path = ours(tmp_path / f"x{ending}")
    (tmp_path / "folder").mkdir()
    link, hard = tmp_path / "folder" / f"link{ending}", tmp_path / "folder" / f"hard{ending}"
    link.symlink_to(path)
    os.link(path, hard)
    for again in (path, str(path), tmp_path / "folder" / ".." / path.name, link, hard):
        with pytest.raises(ReportError, match="is named twice: its reports would be counted twice"):
            tally([path, again])
    with pytest.raises(ReportError, match="is named twice"):
        tally([tmp_path / f"*{ending}", path])
    assert tally(link) == RIGHT


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_copy(tmp_path, ending):
    path = ours(tmp_path / f"x{ending}")
    shutil.copy(path, tmp_path / f"y{ending}")
    with pytest.raises(ReportError, match=r"y\..* is a copy of .*x\..*counted twice"):
        tally(tmp_path)


def test_a_copy_in_another_format(tmp_path):
    path = ours(tmp_path / "x.parquet")
    some = pq.read_table(path)
    with pa.ipc.new_file(str(tmp_path / "y.arrow"), some.schema) as writer:
        writer.write_table(some)
    with pytest.raises(ReportError, match="is a copy of"):
        tally(tmp_path)
    pq.write_table(some.slice(0, 100), tmp_path / "x.parquet")
    with pytest.raises(ReportError, match=r"or was cut from the same file.*without the metadata dither.file"):
        tally(tmp_path)


def test_a_copy_of_a_file_without_a_number(tmp_path):
    few = written(tmp_path / "few.parquet", rows("mixed", 20))
    shutil.copy2(few, tmp_path / "as few.parquet")
    assert tally(tmp_path) != tally(few)  # both are counted: so few may be equal by chance
    os.link(few, tmp_path / "linked.parquet")
    with pytest.raises(ReportError, match="is named twice"):
        tally([few, tmp_path / "linked.parquet"])
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    one = written(tmp_path / "x.parquet", rows("mixed", 100))
    shutil.copy2(one, tmp_path / "y.parquet")
    with pytest.raises(ReportError, match="is a copy of"):
        tally(tmp_path)
    os.remove(tmp_path / "y.parquet")
    (tmp_path / "y.parquet").symlink_to(one)
    with pytest.raises(ReportError, match="is named twice"):
        tally([one, tmp_path / "y.parquet"])


def test_files_of_one_size_are_not_copies(tmp_path):
    # Without compression the length of a file says nothing about what is in it.
    batch = rows("one question", USERS)
    chosen = made("one question")
    for number in range(4):
        some = pa.table(batch.slice(100 * number, 100))
        written(tmp_path / f"{number}.parquet", some, compression="none", use_dictionary=False, write_statistics=False)
    assert len({file.stat().st_size for file in tmp_path.iterdir()}) == 1
    assert Local().tally(chosen, tmp_path) == tally_rows(chosen, batch)


def test_the_identity_of_a_file_without_a_number_changes_with_it(tmp_path):
    path = written(tmp_path / "x.parquet", rows("mixed", USERS))
    (first,) = report_files(path, CHOSEN)
    assert not first.numbered
    assert report_files(path, CHOSEN)[0].identity == first.identity
    written(path, rows("mixed", USERS).slice(1))
    assert report_files(path, CHOSEN)[0].identity != first.identity


# Other plans, other tables -----------------------------------------------------------------------------------------


def test_a_file_of_another_plan(tmp_path):
    path = ours(tmp_path / "x.parquet")
    with pytest.raises(ReportError, match=f"has reports of plan {CHOSEN.fingerprint[:12]}, not of plan") as caught:
        Local().tally(made("ranges"), path)
    assert str(path) in str(caught.value)


def test_rows_of_another_plan_in_a_file_without_metadata(tmp_path):
    together = pa.concat_batches([rows("mixed", 50), rows("ranges", 50)])
    path = written(tmp_path / "x.parquet", together, 100)
    with pytest.raises(ReportError, match=r"x\.parquet, piece 0: row 50 belongs to another plan"):
        tally(path)


def test_metadata_that_somebody_else_wrote(tmp_path):
    some = pa.table(rows("mixed", USERS))
    for number, facts in enumerate(
        [{FILE: b""}, {PLAN: b"", FILE: b"\xff\xfe"}, {FILE: b"../../x"}, {b"pandas": b"{}"}]
    ):
        path = written(tmp_path / f"{number}.parquet", some.replace_schema_metadata(facts))
        assert tally(path) == RIGHT
    path = written(tmp_path / "x.parquet", some.replace_schema_metadata({PLAN: b"\x1b[31mred\n\xff"}))
    with pytest.raises(ReportError, match="has reports of plan") as caught:
        tally(path)
    assert str(caught.value).isprintable()


def test_raw_records_are_refused_with_a_hint(tmp_path):
    raw = pa.table({"age": [41, 17], "job": ["nurse", "secret"]})
    written(tmp_path / "x.parquet", raw)
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), raw.schema) as writer:
        writer.write_table(raw)
    for path in (tmp_path / "x.parquet", tmp_path / "x.arrow"):
        with pytest.raises(ReportError, match=r"is no file of reports.*Raw records are randomized first") as caught:
            tally(path)
        assert "secret" not in str(caught.value)
    with pytest.raises(ReportError, match="there must be one column tag"):
        Local().tally(CHOSEN, raw)


def test_columns_of_other_types(tmp_path):
    for number, other in enumerate(
        ({TAG: ["secret"], REPORT: [b"x"]}, {TAG: [1], REPORT: ["secret"]}, {TAG: [1.5], REPORT: [b""]})
    ):
        path = written(tmp_path / f"{number}.parquet", pa.table(other))
        with pytest.raises(ReportError, match=rf"{number}\.parquet, piece 0: these are no reports") as caught:
            tally(path)
        assert "secret" not in str(caught.value)


def test_an_arrow_stream_is_not_an_arrow_file(tmp_path):
    some = pa.table(rows("mixed", USERS))
    with pa.ipc.new_stream(str(tmp_path / "x.arrow"), some.schema) as writer:
        writer.write_table(some)
    with pytest.raises(ReportError, match=r"is an Arrow stream.*tally the stream from an open file"):
        tally(tmp_path / "x.arrow")


# Rewritten by others -----------------------------------------------------------------------------------------------


def test_files_that_duckdb_wrote(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = ours(tmp_path / "x.parquet")
    duckdb.sql(f"copy (select * from '{path}' order by hash(report)) to '{tmp_path / 'y.parquet'}'")
    assert not report_files(tmp_path / "y.parquet", CHOSEN)[0].numbered
    assert tally(tmp_path / "y.parquet") == RIGHT


def test_files_that_polars_wrote(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(ours(tmp_path / "x.parquet"))
    frame.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "y.parquet", row_group_size=64)
    frame.write_ipc(tmp_path / "y.arrow")
    frame.write_ipc(tmp_path / "z.arrow", compression="zstd")
    for name in ("y.parquet", "y.arrow", "z.arrow"):
        assert tally(tmp_path / name) == RIGHT
    assert Local().tally(CHOSEN, frame).to_bytes() == RIGHT


@pytest.mark.parametrize("version", ["1.0", "2.4", "2.6"])
@pytest.mark.parametrize(
    "options",
    [{"compression": "none"}, {"compression": "snappy", "data_page_version": "2.0"}, {"use_dictionary": False}],
)
def test_any_kind_of_parquet(tmp_path, version, options):
    assert tally(written(tmp_path / "x.parquet", rows("mixed", USERS), 123, version=version, **options)) == RIGHT


# Damage ------------------------------------------------------------------------------------------------------------


def changed(path: Path, versions: Iterator[bytes], chosen: Plan = CHOSEN) -> Iterator[str]:
    """What becomes of the tally of each version: the same, another, or refused. What has no ending is a stream."""

    def counted() -> PlanTally:
        if path.suffix:
            return Local().tally(chosen, path)
        with path.open("rb") as stream:
            return Local().tally(chosen, incoming(stream))

    right = counted()
    for data in versions:
        path.write_bytes(data)
        try:
            found = counted()
        except DitherError as error:
            assert not path.suffix or path.name in str(error)  # noqa: PT017
            assert str(error).isprintable()  # noqa: PT017
            yield "refused"
        else:
            yield "same" if found == right else "another"


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_file_that_was_cut_short_is_never_counted(tmp_path, ending):
    path = ours(tmp_path / f"x{ending}")
    data = path.read_bytes()
    cuts = [*range(0, len(data), 23), *range(len(data) - 30, len(data))]
    assert set(changed(path, (data[:cut] for cut in cuts))) == {"refused"}
    path.write_bytes(data)
    assert tally(path) == RIGHT


def flipped(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    for _ in range(count):
        damaged, place = bytearray(data), rng.randrange(len(data))
        kind = rng.random()
        if kind < 0.6:
            damaged[place] ^= 1 << rng.randrange(8)
        elif kind < 0.8:
            damaged[place] = rng.choice([0, 255, 127, 128])
        else:
            damaged[place : place + 4] = rng.choice(
                [b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\0\0\0\0"]
            )
        yield bytes(damaged)


def moved(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Some bytes are gone, doubled, moved, or taken from elsewhere."""
    rng = random.Random(seed)
    for _ in range(count):
        first, second = sorted(rng.sample(range(len(data)), 2))
        size = min(rng.choice([1, 8, 64, 512]), second - first)
        piece, kind = data[first : first + size], rng.randrange(4)
        if kind == 0:
            yield data[:first] + data[first + size :]
        elif kind == 1:
            yield data[:first] + piece + data[first:]
        elif kind == 2:
            yield data[:second] + piece + data[second + size :]
        else:
            yield data[:first] + data[first + size : second] + piece + data[second:]


@pytest.mark.parametrize("count", [80, wide(1500)])
@pytest.mark.parametrize("ending", [".parquet", ".arrow", wide(".feather"), "stream"])
def test_damage_is_found_in_files_that_dither_wrote(tmp_path, ending, count):
    # Of 2,254 files that were changed in some bytes, 11 of .arrow gave other counts before batches had checksums.
    chosen, path = COLUMNS, tmp_path / f"x{ending}"
    with path.open("wb") if ending == "stream" else nullcontext(path) as target:
        Local().randomize(chosen, Records(table(chosen, USERS), [150]), target, seed=1)
    data = path.read_bytes()
    found = list(changed(path, (each for damage in (flipped, moved) for each in damage(data, count, 2)), chosen))
    assert "another" not in found
    assert found.count("refused") > count  # the others changed a byte to itself, or one that nobody reads


@pytest.mark.parametrize("place", [TAG, REPORT])
def test_every_byte_of_the_rows_of_an_arrow_file_is_checked(tmp_path, place):
    path = tmp_path / "x.arrow"
    Local().randomize(COLUMNS, Records(table(COLUMNS, 20), [10]), path, seed=1)
    with pa.memory_map(str(path)) as file:
        held = pa.ipc.open_file(file).get_batch(1)[place].buffers()[-1].to_pybytes()
    data = path.read_bytes()
    start = data.index(held)
    places = (start + number for number in range(len(held.rstrip(b"\0"))))
    versions = (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in places)
    assert set(changed(path, versions, COLUMNS)) == {"refused"}


@pytest.mark.parametrize("kept", [[0, 1], [0, 2], [1, 0, 2], [0, 0, 1, 2], [2], [0, 1, 2, 2], []])
def test_batches_that_are_lost_doubled_or_moved(tmp_path, kept):
    path = tmp_path / "x.arrow"
    Local().randomize(COLUMNS, Records(table(COLUMNS, 60), [30]), path, seed=1)
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        batches = [reader.get_batch_with_custom_metadata(number) for number in range(reader.num_record_batches)]
        assert [batch.num_rows for batch, _ in batches] == [30, 30, 0]
        with pa.ipc.new_file(str(tmp_path / "y.arrow"), reader.schema) as writer:
            for number in kept:
                writer.write_batch(batches[number].batch, custom_metadata=batches[number].custom_metadata)
    if not kept:  # written by others, or of nobody: nothing shows that anything was there
        assert Local().tally(COLUMNS, tmp_path / "y.arrow") == nothing(COLUMNS)
        return
    with pytest.raises(ReportError, match="damaged"):
        Local().tally(COLUMNS, tmp_path / "y.arrow")


def test_an_arrow_file_that_lists_none_of_its_batches(tmp_path):
    path = tmp_path / "x.arrow"
    Local().randomize(COLUMNS, table(COLUMNS, 60), path, seed=1)
    data = bytearray(path.read_bytes())
    footer = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    listed = [at for at in range(footer, len(data) - 10) if data[at : at + 4] == b"\x02\0\0\0"]  # of one and the end
    found = set(changed(path, (bytes(data[:at]) + bytes(4) + bytes(data[at + 4 :]) for at in listed), COLUMNS))
    assert "another" not in found
    assert "refused" in found


def test_rows_that_other_tools_wrote_anew_have_no_checksums(tmp_path):
    path = tmp_path / "x.arrow"
    Local().randomize(CHOSEN, table(CHOSEN, 60), path, seed=1)
    right = tally(path)
    with pa.memory_map(str(path)) as file:
        feather.write_feather(pa.ipc.open_file(file).read_all(), str(tmp_path / "y.feather"), chunksize=7)
    assert tally(tmp_path / "y.feather") == right


@pytest.mark.wide
@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_damage_never_gives_another_kind_of_error(tmp_path, ending):
    # Without checksums a changed report is a report. What must not happen is a crash.
    path = tmp_path / f"x{ending}"
    if ending == ".parquet":
        written(path, rows("mixed", USERS), 100)
    else:
        ours(path)
    found = list(changed(path, flipped(path.read_bytes(), 300, 2)))
    assert found.count("refused") > 100


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b"PAR1" * 10,
        b"ARROW1\0\0",
        b"ARROW1\0\0" * 9,
        b"\xff\xff\xff\xff",
        b"\0" * 1000,
        b"age,job\n41,secret\n",
    ],
)
def test_what_is_no_such_file_at_all(tmp_path, data):
    for ending in (".parquet", ".arrow"):
        (tmp_path / f"x{ending}").write_bytes(data)
        with pytest.raises(ReportError, match=r"cannot be read: it is damaged|is an Arrow stream") as caught:
            tally(tmp_path / f"x{ending}")
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_file_that_changes_after_it_was_looked_at(tmp_path):
    path = ours(tmp_path / "x.parquet")
    (file,) = report_files(path, CHOSEN)
    ours(path, batch=rows("mixed", USERS).slice(0, 390))
    with pytest.raises(ReportError, match="cannot be read: it is damaged"):
        list(file.pieces[-1].batches())
    path.unlink()
    with pytest.raises(ReportError, match="there is no such file"):
        list(file.pieces[0].batches())


def test_a_folder_is_left_as_it_was(parts):
    before = names_in(parts)
    tally(parts)
    assert names_in(parts) == before


def test_a_report_that_a_file_stores_once_is_not_written_out_without_end(tmp_path, monkeypatch):
    """A few kilobytes of Parquet, with the same megabyte in every row, were as much memory as there are rows."""
    tag = rows("mixed", USERS)[TAG][0].as_py()
    foreign = pa.table({TAG: [tag] * 2000, REPORT: pa.array([b"x" * 4096] * 2000, pa.binary())})
    place = written(tmp_path / "long.parquet", foreign, 2000, use_dictionary=True)
    monkeypatch.setattr(pieces_module, "_MOST_BYTES", 1 << 16)
    (piece,) = report_files(place, CHOSEN)[0].pieces
    assert piece.bytes < 1 << 16
    found = list(piece.batches())
    assert max(batch.num_rows for batch in found) == 16
    assert sum(batch.num_rows for batch in found) == 2000
    assert Local().tally(CHOSEN, place, invalid_reports="drop").dropped == {"wrong length": 2000}


def test_honest_reports_that_are_stored_once_are_counted_as_they_are(tmp_path):
    place = written(tmp_path / "once.parquet", pa.table(rows("mixed", USERS)), 100, use_dictionary=True)
    assert "RLE_DICTIONARY" in pq.read_metadata(place).row_group(0).column(1).encodings
    assert tally(place) == RIGHT
