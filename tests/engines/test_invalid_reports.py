"""One bad row does not stop a collection, and one simulated row does not void its guarantee: in every engine's way."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import dither
from dither.core.reports import REASONS
from dither.engines import Local, add_to_tally
from dither.engines.local import incoming
from dither.engines.report_rows import PLAN, REPORT, TAG, codes, nothing, pack_rows, tally_rows
from dither.errors import DitherError, EmptyError, InvalidReportError, ParameterError, ReportError, TallyError
from dither.planning import PlanTally, merged_tallies
from engines.cases import made, reports, rows, table, written

CHOSEN = made("mixed")
USERS = 300
TAGS = codes(CHOSEN).tags.tolist()
LENGTHS = [part.mechanism.dtype.itemsize for part in CHOSEN.parts]
REAL = rows("mixed", USERS, None)
RIGHT = tally_rows(CHOSEN, REAL)


def strangers() -> list[tuple[int | None, bytes | None, str]]:
    """Rows that strangers send, and why each of them is none."""
    simulated = rows("mixed", 20, 3)
    played = next(zip(simulated[TAG].to_pylist(), simulated[REPORT].to_pylist(), strict=True))
    found: list[tuple[int | None, bytes | None, str]] = [(*played, "simulated")]
    for place, length in enumerate(LENGTHS):
        found += [
            (None, bytes(length), "malformed"),
            (TAGS[2 * place], None, "malformed"),
            (TAGS[2 * place] + 1, bytes(length), "another plan"),
            (TAGS[2 * place], bytes(length + 1), "wrong length"),
            (TAGS[2 * place], b"", "wrong length"),
            (TAGS[2 * place], b"\xff" * length, "out of range"),
        ]
    return found


def among(*more: tuple[int | None, bytes | None, str], seed: int = 5) -> pa.Table:
    """The real rows with others among them."""
    tags = [*REAL[TAG].to_pylist(), *(row[0] for row in more)]
    held = [*REAL[REPORT].to_pylist(), *(row[1] for row in more)]
    whole = pa.table({TAG: pa.array(tags, pa.int64()), REPORT: pa.array(held, pa.binary())})
    return whole.take(np.random.default_rng(seed).permutation(len(whole)))


def streamed(rows: pa.Table) -> Any:
    target = io.BytesIO()
    with pa.ipc.new_stream(target, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=40)
    return incoming(io.BytesIO(target.getvalue()))


def in_arrow(rows: pa.Table, folder: Path) -> Path:
    with pa.ipc.new_file(folder / "x.arrow", rows.schema) as writer:
        writer.write_table(rows, max_chunksize=40)
    return folder / "x.arrow"


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "a table": lambda given, _: given,
    "batches": lambda given, _: iter(given.to_batches(max_chunksize=7)),
    "a stream": lambda given, _: streamed(given),
    "Parquet": lambda given, folder: written(folder / "x.parquet", given, 40),
    "Arrow": in_arrow,
    "large": lambda given, _: given.set_column(1, REPORT, given[REPORT].cast(pa.large_binary())),
    "views": lambda given, _: given.set_column(1, REPORT, given[REPORT].cast(pa.binary_view())),
}


@pytest.mark.parametrize("source", SOURCES)
def test_the_others_are_tallied_and_the_reasons_counted(source: str, tmp_path: Path) -> None:
    wrong = strangers()
    given = among(*wrong)
    found = Local().tally(CHOSEN, SOURCES[source](given, tmp_path), invalid_reports="drop")
    assert found == RIGHT
    assert found.to_bytes() != RIGHT.to_bytes()  # what was left out is in the file
    assert found.dropped == {reason: sum(row[2] == reason for row in wrong) for reason in REASONS}
    assert (found.reports, found.rows) == (RIGHT.reports, len(given))
    assert list(found.dropped) == list(REASONS)
    assert CHOSEN.estimate(found).guarantee == CHOSEN.guarantee
    with pytest.raises(InvalidReportError, match="invalid_reports="):
        Local().tally(CHOSEN, SOURCES[source](given, tmp_path))


@pytest.mark.parametrize("row", strangers(), ids=lambda row: str(row[2]) if isinstance(row, tuple) else None)
def test_one_of_each(row: tuple[Any, Any, str], tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", among(row), 50)
    with pytest.raises(InvalidReportError):
        Local().tally(CHOSEN, path)
    found = Local().tally(CHOSEN, path, invalid_reports="drop")
    assert (found, found.dropped) == (RIGHT, {row[2]: 1})


def test_without_invalid_reports_the_bytes_are_what_they_were(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", REAL, 50)
    for how in ("error", "drop"):
        assert Local().tally(CHOSEN, path, invalid_reports=how).to_bytes() == RIGHT.to_bytes()
    assert b"dropped" not in RIGHT.to_bytes()


def test_nothing_but_invalid_reports(tmp_path: Path) -> None:
    more = [row for row in strangers() if row[2] != "simulated"]
    given = pa.table({TAG: pa.array([row[0] for row in more]), REPORT: pa.array([row[1] for row in more], pa.binary())})
    found = Local().tally(CHOSEN, written(tmp_path / "x.parquet", given), invalid_reports="drop")
    assert (found, found.rows) == (nothing(CHOSEN), len(more))
    with pytest.raises(EmptyError):
        CHOSEN.estimate(found)


def test_words_that_have_no_meaning() -> None:
    for tally in (
        lambda: Local().tally(CHOSEN, pa.table(REAL), invalid_reports="ignore"),
        lambda: CHOSEN.tally(reports("mixed", 5), invalid_reports="ignore"),
        lambda: CHOSEN.parts[0].mechanism.tally(np.empty(0, CHOSEN.parts[0].mechanism.dtype), invalid_reports="no"),
        lambda: merged_tallies([RIGHT], invalid_reports="ignore"),
    ):
        with pytest.raises(ParameterError, match="invalid_reports must be one of error, drop"):
            tally()


def test_a_file_of_another_plan(tmp_path: Path) -> None:
    # Its metadata stop a tally; with "drop" each row speaks for itself, so that no such file stops a collection.
    other, fine = rows("one question", 40, None), written(tmp_path / "fine.parquet", REAL)
    path = written(tmp_path / "x.parquet", pa.table(other).replace_schema_metadata({PLAN: b"a" * 64}))
    with pytest.raises(InvalidReportError, match="has reports of plan aaaaaaaaaaaa"):
        Local().tally(CHOSEN, [fine, path])
    found = Local().tally(CHOSEN, [fine, path], invalid_reports="drop")
    assert (found, found.dropped) == (RIGHT, {"another plan": 40})


def test_what_cannot_be_read_is_refused_either_way(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", REAL)
    path.write_bytes(path.read_bytes()[:-20])
    offsets, data = np.array([0, 5, 2, 9], dtype=np.int32), bytes(20)
    column = pa.Array.from_buffers(pa.binary(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    torn = pa.record_batch([pa.array([1, 2, 3], pa.int64()), column], names=[TAG, REPORT])
    for source in (path, torn, pa.table({TAG: ["a"], REPORT: [b""]}), pa.table({TAG: [1], REPORT: ["a"]})):
        with pytest.raises(ReportError):
            Local().tally(CHOSEN, source, invalid_reports="drop")


def test_reports_in_memory() -> None:
    fine = CHOSEN.randomize(table(CHOSEN, USERS))
    part = CHOSEN.parts[0]
    forged = np.concatenate([np.asarray(fine[part.name]), np.asarray(fine[part.name])[:3]])
    forged.view(np.uint8).reshape(len(forged), -1)[[0, 1, -1]] = 255
    given = {**fine, part.name: forged}
    with pytest.raises(InvalidReportError, match="report 0 has a field out of range"):
        CHOSEN.tally(given)
    found = CHOSEN.tally(given, invalid_reports="drop")
    assert found.dropped == {"out of range": 3}
    assert found.parts[part.name] == part.mechanism.tally(forged[part.mechanism.valid(forged)])


def test_out_of_range_over_many_chunks_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DITHER_THREADS", "3")
    monkeypatch.setattr("dither.core.mechanism._CHUNK_BYTES", 1 << 10)
    mechanism = dither.GRR(k=5, epsilon=1.0)
    given = np.random.default_rng(2).integers(0, 7, 90_000).astype(np.uint8).astype(mechanism.dtype)
    found = mechanism.tally(given, invalid_reports="drop")
    kept = given[mechanism.valid(given)]
    assert (found.n, found) == (len(kept), mechanism.tally(kept))


# What is simulated ---------------------------------------------------------------------------------------------------


def test_one_simulated_row_neither_voids_the_guarantee_nor_stops_a_collection(tmp_path: Path) -> None:
    one = pack_rows(CHOSEN, CHOSEN.randomize(table(CHOSEN, 1), seed=1))
    for order in ((REAL, one), (one, REAL)):  # in a file of its own, which comes first or last
        for place, batch in enumerate(order):
            written(tmp_path / f"{place}.parquet", batch)
        with pytest.raises(InvalidReportError, match="some of these 301 reports are simulated"):
            Local().tally(CHOSEN, tmp_path)
        found = Local().tally(CHOSEN, tmp_path, invalid_reports="drop")
        assert (found, found.dropped, found.simulated) == (RIGHT, {"simulated": 1}, False)
        allowed = Local().tally(CHOSEN, tmp_path, allow_simulated=True)
        assert (allowed.reports, allowed.simulated, allowed.dropped) == (301, True, {})
        assert CHOSEN.estimate(allowed).guarantee.simulated


def test_a_collection_that_is_simulated_as_a_whole_needs_no_word(tmp_path: Path) -> None:
    whole = rows("mixed", USERS)
    path = written(tmp_path / "x.parquet", whole, 50)
    for how in ("error", "drop"):
        found = Local().tally(CHOSEN, path, invalid_reports=how)
        assert found.simulated
        assert found.to_bytes() == CHOSEN.tally(reports("mixed", USERS)).to_bytes()


def test_parts_of_different_kinds_in_memory() -> None:
    real, seeded = CHOSEN.randomize(table(CHOSEN, USERS)), CHOSEN.randomize(table(CHOSEN, USERS), seed=1)
    name = CHOSEN.parts[1].name
    both = {**real, name: seeded[name]}
    with pytest.raises(InvalidReportError, match="are simulated"):
        CHOSEN.tally(both)
    found = CHOSEN.tally(both, invalid_reports="drop")
    assert found.dropped == {"simulated": len(seeded[name])}
    assert (found.simulated, found.parts[name].n) == (False, 0)
    assert all(found.parts[part] == CHOSEN.tally(real).parts[part] for part in found.parts if part != name)
    assert CHOSEN.tally(both, allow_simulated=True).simulated


def test_merging_keeps_the_two_apart_in_any_order() -> None:
    seeded = CHOSEN.tally(reports("mixed", 40))
    for order in ([RIGHT, seeded, RIGHT], [seeded, RIGHT, RIGHT], [RIGHT, RIGHT, seeded]):
        with pytest.raises(InvalidReportError, match="some of these 640 reports"):
            merged_tallies(order)
        with pytest.raises(InvalidReportError, match="some of these"):
            sum(order)  # type: ignore[call-overload]
        found = merged_tallies(order, invalid_reports="drop")
        assert found.to_bytes() == replace(RIGHT + RIGHT, dropped={"simulated": 40}).to_bytes()
        assert merged_tallies(order, allow_simulated=True).reports == 640
    assert merged_tallies([nothing(CHOSEN), seeded]).to_bytes() == seeded.to_bytes()
    with pytest.raises(EmptyError):
        merged_tallies([])
    with pytest.raises(TallyError, match="different plans"):
        merged_tallies([RIGHT, made("one question").tally(reports("one question", 5))], invalid_reports="drop")


def test_a_tally_of_no_reports_that_says_it_is_simulated_voids_nothing() -> None:
    # No honest server writes it: the mark alone would spread over the sum.
    marked = {name: replace(part, simulated=True) for name, part in nothing(CHOSEN).parts.items()}
    forged = PlanTally.from_bytes(replace(nothing(CHOSEN), parts=marked).to_bytes())
    for order in ((RIGHT, forged), (forged, RIGHT)):
        with pytest.raises(InvalidReportError):
            sum(order)  # type: ignore[call-overload]
        with pytest.raises(InvalidReportError):
            merged_tallies(order)
        assert merged_tallies(order, invalid_reports="drop").to_bytes() == RIGHT.to_bytes()


# A stored tally ------------------------------------------------------------------------------------------------------


def test_a_stored_tally_that_strangers_began(tmp_path: Path) -> None:
    # On the first day there is one report, and it is simulated. On the second the collection must go on.
    first = written(tmp_path / "first.parquet", pack_rows(CHOSEN, CHOSEN.randomize(table(CHOSEN, 1), seed=1)))
    second, target = written(tmp_path / "second.parquet", among(*strangers()), 50), tmp_path / "all.tally"
    assert add_to_tally(target, CHOSEN, first, invalid_reports="drop").tally.simulated
    before = target.read_bytes()
    with pytest.raises(InvalidReportError):
        add_to_tally(target, CHOSEN, second)
    assert target.read_bytes() == before
    found = add_to_tally(target, CHOSEN, second, invalid_reports="drop")
    assert (found.tally, found.reports, found.dropped["simulated"]) == (RIGHT, USERS, 2)
    assert found.tally.unlisted == 0
    again = add_to_tally(target, CHOSEN, [first, second], invalid_reports="drop")
    assert (again.added, again.reports, again.dropped) == ((), 0, {})
    assert PlanTally.from_bytes(target.read_bytes()).dropped == found.tally.dropped
    third = written(tmp_path / "third.parquet", rows("mixed", 7, None))
    assert add_to_tally(target, CHOSEN, third).dropped == {}


def test_counts_of_what_was_left_out_are_stored_and_added() -> None:
    one = replace(RIGHT, dropped={"malformed": 2, "simulated": 1})
    other = replace(RIGHT, dropped={"out of range": 5, "simulated": 1}, files={"ab" * 32: 300})
    for tally in (one, other, one + other):
        again = PlanTally.from_bytes(tally.to_bytes())
        assert (again.dropped, again.files, again) == (tally.dropped, tally.files, tally)
    assert (one + other).dropped == {"malformed": 2, "out of range": 5, "simulated": 2}
    assert (one + other).rows == 609
    assert repr(one + other).endswith("; 9 left out)")
    assert "left out" not in repr(RIGHT)
    with pytest.raises(TallyError, match="too large"):
        one.plus(replace(one, dropped={"simulated": (1 << 63) - 1}))


@pytest.mark.parametrize(
    "dropped",
    [{}, {"simulated": 0}, {"simulated": -1}, {"strange": 1}, {"simulated": 1, "malformed": 1}, {"simulated": 1.0}],
)
def test_damaged_counts_of_what_was_left_out(dropped: dict[str, Any]) -> None:
    import hashlib

    body = msgspec.msgpack.encode({**msgspec.msgpack.decode(RIGHT.to_bytes()[:-32]), "dropped": dropped})
    with pytest.raises(TallyError):
        PlanTally.from_bytes(body + hashlib.sha256(body).digest())


def test_what_was_left_out_is_told_in_words_without_values() -> None:
    found = CHOSEN.estimate(replace(RIGHT, dropped={"malformed": 1, "simulated": 2000}))
    assert found.dropped == {"malformed": 1, "simulated": 2000}
    assert found.explain().endswith("2,001 reports were left out: 1 malformed, 2,000 simulated.")
    assert "left out" not in CHOSEN.estimate(RIGHT).explain()
    secret = b"\xff" * LENGTHS[0]
    for row in ((TAGS[0], secret), (TAGS[0], secret * 2), (7, secret)):
        with pytest.raises(DitherError) as caught:
            Local().tally(CHOSEN, pa.table({TAG: [row[0]], REPORT: [row[1]]}))
        assert "xff" not in str(caught.value)
