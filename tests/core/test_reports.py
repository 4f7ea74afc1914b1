"""Reports remember who made them and from what: through slices, joins, copies, pickles, Arrow and Parquet.

The flag `simulated` is what keeps a simulation from being published with a guarantee, so it must not fall off on the
way, and where parts with and without it are joined, the whole has it. The cells themselves come back to the bit.
"""

import copy
import pickle
from collections import deque
from collections.abc import Callable

import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import parquet

import dither
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.errors import ReportError

DTYPES = [
    [("value", "u1")],
    [("value", "u2")],
    [("code", "u4")],
    [("seed", "u8"), ("value", "u1")],  # nine bytes: unaligned
    [("cohort", "u2"), ("value", "u4")],
    [("bits", "V1")],
    [("bits", "V13")],
    [("seed", "u8"), ("bits", "V3"), ("value", "u2")],
]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: "+".join(kind for _, kind in dtype))
either = pytest.mark.parametrize("simulated", [True, False])


def some(dtype: list, rows: int = 50, simulated: bool = True, mechanism: str = "abc") -> Reports:
    """Reports with random cells."""
    width = np.dtype(dtype).itemsize
    words = Stream.seeded(5, "cells").words(0, slice(0, rows), -(-width // 8))
    cells = np.ascontiguousarray(words.view(np.uint8)[:, :width])
    return Reports.wrap(cells.view(np.dtype(dtype))[:, 0], mechanism, simulated)


def same(found: object, expected: np.ndarray) -> bool:
    """Whether these are reports with the same facts and the same cells of the same type."""
    return (
        isinstance(found, Reports)
        and isinstance(expected, Reports)
        and (found.maker, found.simulated) == (expected.maker, expected.simulated)
        and found.dtype == expected.dtype
        and found.shape == expected.shape
        and found.tobytes() == expected.tobytes()
    )


def test_the_comparison_can_fail():
    reports = some(DTYPES[3])
    assert same(some(DTYPES[3]), reports)
    assert not same(np.asarray(reports), reports)
    assert not same(some(DTYPES[3], simulated=False), reports)
    assert not same(some(DTYPES[3], mechanism="b"), reports)
    assert not same(some(DTYPES[3])[::-1], reports)
    assert not same(some(DTYPES[0]), reports)
    assert not same(reports[:-1], reports)


def test_wrapping_shares_memory_and_marks_only_the_view():
    rows = np.zeros(3, dtype=DTYPES[0])
    first, second = Reports.wrap(rows, "a", True), Reports.wrap(rows)
    rows["value"][0] = 7
    assert first["value"][0] == second["value"][0] == 7
    assert (first.maker, first.simulated, second.maker, second.simulated) == ("a", True, "", False)


def test_randomize_marks_its_reports():
    mechanism = dither.GRR(4, 1.0)
    seeded, secure = mechanism.randomize([0, 1], seed=1), mechanism.randomize([0, 1])
    assert (seeded.maker, seeded.simulated) == (mechanism.fingerprint, True)
    assert (secure.maker, secure.simulated) == (mechanism.fingerprint, False)


# Slices, copies, joins ----------------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[Reports], object]] = {
    "slice": lambda reports: reports[3:40:3],
    "backwards": lambda reports: reports[::-1],
    "mask": lambda reports: reports[np.arange(50) % 3 == 0],
    "index": lambda reports: reports[[5, 5, 1]],
    "none": lambda reports: reports[:0],
    "copy": lambda reports: reports.copy(),
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "view": lambda reports: reports.view(),
    "reshape": lambda reports: reports.reshape(5, 10)[2],
    "take": lambda reports: np.take(reports, [1, 2]),
    "sort": lambda reports: np.sort(reports[["value"]]),
    "flip": np.flip,
    "roll": lambda reports: np.roll(reports, 3),
    "repeat": lambda reports: np.repeat(reports, 2),
    "split": lambda reports: np.array_split(reports, 7)[3],
    "delete": lambda reports: np.delete(reports, 0),
    "atleast_1d": np.atleast_1d,
    "field": lambda reports: reports["value"],
}


@either
@pytest.mark.parametrize("change", VIEWS.values(), ids=VIEWS)
def test_facts_survive(change, simulated):
    found = change(some(DTYPES[3], simulated=simulated))
    assert isinstance(found, Reports)
    assert (found.maker, found.simulated) == ("abc", simulated)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@every_dtype
def test_pickle(dtype, protocol):
    for reports in (some(dtype), some(dtype, simulated=False), some(dtype)[::-2], some(dtype, rows=0)):
        assert same(pickle.loads(pickle.dumps(reports, protocol)), reports)


JOINS: dict[str, Callable[[list], object]] = {
    "concatenate": np.concatenate,
    "hstack": np.hstack,
    "append": lambda parts: np.append(parts[0], np.append(parts[1], parts[2])),
    "of a tuple": lambda parts: np.concatenate(tuple(parts)),
    "r_": lambda parts: np.r_[tuple(parts)],
    "stack": lambda parts: np.stack(parts).reshape(-1),
}


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
@pytest.mark.parametrize("which", [(), (0,), (1,), (2,), (0, 1, 2)])
def test_one_simulated_part_marks_the_whole(join, which):
    parts = [some(DTYPES[3], simulated=i in which) for i in range(3)]
    found = join(parts)
    assert isinstance(found, Reports)
    assert found.tobytes() == b"".join(part.tobytes() for part in parts)
    assert (found.maker, found.simulated) == ("abc", bool(which))


def test_joined_with_a_plain_array():
    reports = some(DTYPES[3])
    for parts in ([reports, np.asarray(reports)], [np.asarray(reports), reports]):
        found = np.concatenate(parts)
        assert isinstance(found, Reports)
        assert (found.maker, found.simulated) == ("abc", True)


def test_a_join_does_not_turn_a_simulation_into_a_promise():
    mechanism = dither.GRR(4, 1.0)
    joined = np.concatenate([mechanism.randomize([0, 1], seed=1), mechanism.randomize([2, 3])])
    assert mechanism.estimate(mechanism.tally(joined)).guarantee.simulated


def test_parts_in_any_sequence():
    assert same(np.concatenate(deque([some(DTYPES[3])])), some(DTYPES[3]))  # type: ignore[call-overload]


SMALL = dither.GRR(4, 1.0)
OTHERS = {
    "another epsilon": dither.GRR(4, 2.0),
    "another field type": dither.GRR(1000, 1.0),
    "other fields": dither.LocalHash(4, 1.0),
}


@pytest.mark.parametrize("name", ["another epsilon", "another field type"])
def test_reports_of_different_mechanisms_are_not_joined(name):
    for parts in (
        [SMALL.randomize([0]), OTHERS[name].randomize([0])],
        [OTHERS[name].randomize([0]), SMALL.randomize([0])],
    ):
        with pytest.raises(ReportError, match="different mechanisms"):
            np.concatenate(parts)
        with pytest.raises(ReportError, match="different mechanisms"):
            np.append(*parts)


def test_reports_with_different_fields_are_not_joined():
    with pytest.raises(ReportError, match="different mechanisms"):
        np.concatenate([SMALL.randomize([0]), OTHERS["other fields"].randomize([0])])


def test_one_simulated_report_is_still_simulated():
    reports = SMALL.randomize([0, 1], seed=1)
    assert SMALL.tally(reports[:1]).simulated
    assert SMALL.tally(reports[0]).simulated


# Arrow and Parquet --------------------------------------------------------------------------------------------------


@either
@every_dtype
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_arrow(dtype, simulated, rows):
    reports = some(dtype, rows, simulated)
    table = reports.to_arrow()
    assert table.num_rows == rows
    assert table.column_names == [name for name, _ in dtype]
    assert same(Reports.from_arrow(table), reports)


def test_arrow_columns_hold_the_cells():
    reports = some(DTYPES[7], rows=20)
    table = reports.to_arrow()
    assert [str(kind) for kind in table.schema.types] == ["uint64", "fixed_size_binary[3]", "uint16"]
    assert table["seed"].to_pylist() == reports["seed"].tolist()
    assert table["bits"].to_pylist() == [cell.tobytes() for cell in reports["bits"]]
    assert table.schema.metadata == {b"dither.mechanism": b"abc", b"dither.simulated": b"1"}


@every_dtype
def test_arrow_from_any_memory(dtype):
    reports = some(dtype)
    reports.flags.writeable = False
    for part in (reports[::2], reports[::-1], reports[7:8], reports):
        assert isinstance(part, Reports)
        assert same(Reports.from_arrow(part.to_arrow()), part)


@every_dtype
def test_arrow_sliced_and_in_chunks(dtype):
    reports = some(dtype)
    table = reports.to_arrow()
    assert same(Reports.from_arrow(table.slice(7, 11)), reports[7:18])
    assert same(Reports.from_arrow(table.slice(50)), reports[:0])
    parts = arrow.concat_tables([table.slice(3, 9), table.slice(12, 0), table.slice(30), table.slice(0, 1)])
    order = [*range(3, 12), *range(30, 50), 0]
    assert same(Reports.from_arrow(parts), reports[order])
    nothing = arrow.Table.from_batches([], schema=table.schema)
    assert same(Reports.from_arrow(nothing), reports[:0])


@either
@every_dtype
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_parquet(dtype, simulated, rows, tmp_path):
    reports = some(dtype, rows, simulated)
    parquet.write_table(reports.to_arrow(), tmp_path / "reports.parquet")
    assert same(Reports.from_arrow(parquet.read_table(tmp_path / "reports.parquet")), reports)


@pytest.mark.parametrize("options", [{"compression": "zstd"}, {"compression": "none"}, {"use_dictionary": False}])
@every_dtype
def test_parquet_in_row_groups(dtype, options, tmp_path):
    reports, path = some(dtype), tmp_path / "reports.parquet"
    parquet.write_table(reports.to_arrow(), path, row_group_size=8, **options)
    with parquet.ParquetFile(path) as file:
        assert file.num_row_groups == 7
        assert same(Reports.from_arrow(file.read()), reports)
        groups = [Reports.from_arrow(file.read_row_group(i)) for i in range(7)]
    for i, group in enumerate(groups):
        assert same(group, reports[8 * i : 8 * i + 8])


def test_a_mechanism_tallies_what_came_back_from_disk(tmp_path):
    for mechanism in (dither.GRR(300, 1.0), dither.Unary(13, 1.0), dither.LocalHash(9, 1.0), dither.Hadamard(9, 1.0)):
        reports = mechanism.randomize(np.arange(500) % 9, seed=2)
        parquet.write_table(reports.to_arrow(), tmp_path / "reports.parquet", row_group_size=64)
        back = Reports.from_arrow(parquet.read_table(tmp_path / "reports.parquet"))
        assert mechanism.tally(back) == mechanism.tally(reports)
        assert mechanism.tally(back).simulated


def marked(table: arrow.Table, **facts: str) -> arrow.Table:
    return table.replace_schema_metadata({f"dither.{name}".encode(): fact.encode() for name, fact in facts.items()})


def test_foreign_tables_are_refused():
    table = arrow.table({"value": arrow.array([1, 2], arrow.uint8())})
    for foreign in (table, table.replace_schema_metadata({b"pandas": b"{}"}), marked(table, simulated="0")):
        with pytest.raises(ReportError, match="not written by dither"):
            Reports.from_arrow(foreign)


def test_a_table_that_does_not_say_counts_as_simulated():
    table = arrow.table({"value": arrow.array([1, 2], arrow.uint8())})
    assert Reports.from_arrow(marked(table, mechanism="a")).simulated
    assert Reports.from_arrow(marked(table, mechanism="a", simulated="no")).simulated
    assert not Reports.from_arrow(marked(table, mechanism="a", simulated="0")).simulated


@pytest.mark.parametrize(
    "column",
    [
        arrow.array([1, None], arrow.uint8()),
        arrow.array([b"ab", None], arrow.binary(2)),
        arrow.chunked_array([[1, 2], [None]], arrow.uint64()),
    ],
    ids=["integers", "bits", "chunks"],
)
def test_missing_fields_are_refused(column):
    with pytest.raises(ReportError, match="no missing fields"):
        Reports.from_arrow(marked(arrow.table({"value": column}), mechanism="a", simulated="0"))


@pytest.mark.parametrize(
    "kind",
    [
        arrow.int64(),
        arrow.float64(),
        arrow.string(),
        arrow.binary(),
        arrow.bool_(),
        arrow.list_(arrow.uint8()),
        arrow.dictionary(arrow.int8(), arrow.uint8()),
        arrow.timestamp("s"),
    ],
    ids=str,
)
def test_fields_of_another_type_are_refused(kind):
    table = arrow.Table.from_batches([], schema=arrow.schema([("value", kind)]))
    with pytest.raises(ReportError, match="no field of Arrow type"):
        Reports.from_arrow(marked(table, mechanism="a", simulated="0"))
