"""Reports as rows: they come back as they were, in any order, from any Arrow type; nothing else is taken for them."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import Categorical, Plan, Schema, plan
from dither.engines import report_rows as rows_module
from dither.engines.report_rows import (
    FILE,
    PLAN,
    REPORT,
    TAG,
    codes,
    nothing,
    pack_rows,
    rows_schema,
    tally_rows,
    unpack_rows,
)
from dither.errors import DitherError, InvalidReportError, ReportError
from dither.wire.report_bytes import report_bytes
from engines.cases import CHOICES, MIXED, made, reports, rows, table

USERS = 400
STORED = Path(__file__).parents[1] / "stored" / "plan-first.json"
GOLDEN = [
    9057111972444715757,
    6907583291816759649,
    6263833925073140899,
    3618768390895765149,
    7867927406346545373,
    4835582892718817205,
]
SECRET = 987_654_321_987_654_321  # a value that no message may quote


def same(one: Any, other: Any) -> bool:
    return one.dtype == other.dtype and np.asarray(one).tobytes() == np.asarray(other).tobytes()


def rebuilt(batch: pa.RecordBatch, tag: Any = None, report: Any = None) -> pa.RecordBatch:
    """The rows with another column."""
    columns = [batch[TAG] if tag is None else tag, batch[REPORT] if report is None else report]
    return pa.record_batch(columns, names=[TAG, REPORT])


def shuffled(batch: pa.RecordBatch, seed: int = 3) -> pa.RecordBatch:
    return batch.take(pa.array(np.random.default_rng(seed).permutation(batch.num_rows)))


# There and back ----------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_the_cases_have_every_kind_of_report():
    kinds = {type(part.mechanism).__name__ for name in CHOICES for part in made(name).parts}
    assert {"Duchi", "Piecewise", "GRR", "SubsetSelection", "Hadamard", "Hypercube", "Collision", "PCKV_AGRR"} <= kinds
    assert {made(name).questions_per_user for name in CHOICES} >= {1, 2, 4}
    assert any(part.table is not None for part in made("all from everybody").parts)
    assert any("ranges" in part.name for part in made("ranges").parts)
    assert len({part.weight for part in made("mixed").parts}) > 1


@pytest.mark.parametrize("seed", [1, None])
@pytest.mark.parametrize("name", CHOICES)
def test_reports_come_back_as_they_were(name, seed):
    chosen, given_reports = made(name), reports(name, USERS, seed)
    batch = pack_rows(chosen, given_reports)
    assert batch.num_rows == USERS * chosen.questions_per_user
    assert batch.schema.equals(rows_schema(chosen).remove_metadata())
    batch.validate(full=True)
    found = unpack_rows(chosen, batch)
    assert list(found) == [part.name for part in chosen.parts]
    for part in chosen.parts:
        one, other = given_reports[part.name], found[part.name]
        assert same(one, other)
        assert other.maker == chosen.tag(part)
        assert other.simulated == (seed is not None and len(one) > 0)
    assert pack_rows(chosen, found).equals(batch)


@pytest.mark.parametrize("name", CHOICES)
def test_the_tally_is_the_plan_s_to_the_bit(name):
    chosen = made(name)
    expected = chosen.tally(reports(name, USERS)).to_bytes()
    batch = rows(name, USERS)
    assert tally_rows(chosen, batch).to_bytes() == expected
    assert tally_rows(chosen, shuffled(batch)).to_bytes() == expected
    backwards = batch.take(pa.array(np.arange(batch.num_rows)[::-1]))
    assert tally_rows(chosen, backwards).to_bytes() == expected


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.sampled_from(sorted(CHOICES)), st.integers(-1, 1 << 30), st.lists(st.integers(0, USERS), max_size=6))
def test_any_order_and_any_cut_gives_the_same(name, order, cuts):
    chosen, batch = made(name), rows(name, USERS)
    mixed = batch if order < 0 else shuffled(batch, order)
    edges = [0, *sorted(min(cut, batch.num_rows) for cut in cuts), batch.num_rows]
    parts = [mixed.slice(a, b - a) for a, b in pairwise(edges)]
    total = sum((tally_rows(chosen, part) for part in parts), nothing(chosen))
    assert total.to_bytes() == chosen.tally(reports(name, USERS)).to_bytes()


def test_rows_of_one_part_keep_their_order():
    chosen, batch = made("mixed"), rows("mixed", USERS)
    even, odd = pa.array(np.arange(0, USERS, 2)), pa.array(np.arange(1, USERS, 2))
    woven = pa.concat_batches([batch.take(even), batch.take(odd)])
    for part in chosen.parts:
        ours = np.asarray(unpack_rows(chosen, batch)[part.name])
        first = int((np.asarray(batch[TAG]) == codes(chosen).tags[2 * chosen.parts.index(part) + 1]).argmax())
        numbers = np.arange(first, first + len(ours))
        expected = np.concatenate([ours[numbers % 2 == 0], ours[numbers % 2 == 1]])
        assert same(unpack_rows(chosen, woven)[part.name], expected)


KINDS = {
    "large binary": pa.large_binary(),
    "binary view": pa.binary_view(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["mixed", "all from everybody", "ranges"])
def test_other_types_of_bytes(name, kind):
    chosen = made(name)
    for batch in (rows(name, USERS), shuffled(rows(name, USERS))):
        other = rebuilt(batch, report=batch[REPORT].cast(KINDS[kind]))
        expected = chosen.tally(reports(name, USERS))
        assert tally_rows(chosen, other) == expected
        assert tally_rows(chosen, other.slice(3, 5)) == tally_rows(chosen, batch.slice(3, 5))
        cut = tally_rows(chosen, other.slice(0, 7)) + tally_rows(chosen, other.slice(7))
        assert cut == expected


def test_bytes_of_one_width():
    chosen, batch = made("pairs of numbers"), rows("pairs of numbers", USERS)
    other = rebuilt(batch, report=batch[REPORT].cast(pa.binary(1)))
    assert tally_rows(chosen, other) == chosen.tally(reports("pairs of numbers", USERS))
    assert tally_rows(chosen, other.slice(5, 9)) == tally_rows(chosen, batch.slice(5, 9))
    with pytest.raises(ReportError, match="wrong length"):
        tally_rows(chosen, rebuilt(batch, report=pa.array([b"xy"] * batch.num_rows, pa.binary(2))))


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_other_types_of_tags(kind):
    chosen, batch = made("mixed"), rows("mixed", USERS)
    other = rebuilt(batch, tag=batch[TAG].cast(kind))
    assert tally_rows(chosen, other) == chosen.tally(reports("mixed", USERS))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)])
def test_no_rows(kind):
    chosen = made("mixed")
    empty = pa.record_batch([pa.array([], pa.int64()), pa.array([], kind)], names=[TAG, REPORT])
    assert tally_rows(chosen, empty) == nothing(chosen)
    assert not any(part.simulated or part.n for part in nothing(chosen).parts.values())
    if kind == pa.binary():  # a buffer for no offsets is allowed, too
        without_offsets = pa.Array.from_buffers(kind, 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
        assert tally_rows(chosen, rebuilt(empty, report=without_offsets)) == nothing(chosen)


def test_one_row():
    chosen, batch = made("mixed"), rows("mixed", USERS)
    for row in (0, 17, USERS - 1):
        assert sum(part.n for part in tally_rows(chosen, batch.slice(row, 1)).parts.values()) == 1


def test_more_columns_are_not_looked_at():
    chosen, batch = made("mixed"), rows("mixed", USERS)
    more = pa.record_batch(
        [pa.array(["a"] * USERS), batch[REPORT], pa.nulls(USERS), batch[TAG]], names=["note", REPORT, "empty", TAG]
    )
    assert tally_rows(chosen, more) == tally_rows(chosen, batch)


def test_one_simulated_report_among_real_ones():
    chosen = made("one question")
    real = pack_rows(chosen, chosen.randomize(table(chosen, 50)))
    one = pack_rows(chosen, chosen.randomize(table(chosen, 1), seed=1))
    (name,) = (part.name for part in chosen.parts)
    assert len(one) == 1
    both = pa.Table.from_batches([real, one]).combine_chunks().to_batches()[0]
    for verb in (tally_rows, unpack_rows):
        with pytest.raises(InvalidReportError, match="some of these 51 reports are simulated"):
            verb(chosen, both)
    found = tally_rows(chosen, both, invalid_reports="drop")
    assert (found.reports, found.dropped) == (50, {"simulated": 1})
    assert found == tally_rows(chosen, real)
    assert chosen.estimate(found)[name].guarantee == chosen.guarantee
    allowed = tally_rows(chosen, both, allow_simulated=True)
    assert (allowed.reports, allowed.dropped) == (51, {})
    assert chosen.estimate(allowed)[name].guarantee.simulated


def test_simulated_and_secure_reports_in_one_batch():
    chosen = made("mixed")
    real, seeded = rows("mixed", 50, None), rows("mixed", 50, 1)
    both = shuffled(pa.concat_batches([real, seeded]))
    total = tally_rows(chosen, both, allow_simulated=True)
    split = tally_rows(chosen, real).plus(tally_rows(chosen, seeded), allow_simulated=True)
    assert total.to_bytes() == split.to_bytes()
    for part in chosen.parts:
        assert total.parts[part.name].simulated == (len(reports("mixed", 50, 1)[part.name]) > 0)
        assert not tally_rows(chosen, real).parts[part.name].simulated
    with pytest.raises(InvalidReportError, match="allow_simulated"):
        sum([tally_rows(chosen, real), tally_rows(chosen, seeded)])  # type: ignore[call-overload]


# Tags --------------------------------------------------------------------------------------------------------------


def test_the_tags_of_a_stored_plan_never_change():
    stored = Plan.from_json(STORED.read_text())
    assert [part.name for part in stored.parts] == ["mean(a) and mean(b)", "histogram(job)", "distribution(age)"]
    assert codes(stored).tags.tolist() == GOLDEN


def test_tags_differ_between_plans_and_parts_and_simulations():
    tags = [codes(made(name)).tags for name in CHOICES]
    together = np.concatenate(tags)
    assert len(set(together.tolist())) == sum(2 * len(made(name).parts) for name in CHOICES)
    assert (together > 0).all()


def test_equal_plans_have_equal_tags():
    again = Plan.from_json(made("mixed").to_json())
    assert (codes(again).tags == codes(made("mixed")).tags).all()
    assert tally_rows(again, rows("mixed", USERS)) == made("mixed").tally(reports("mixed", USERS))


@pytest.mark.parametrize("count", [1, 2, 10, 700])
@pytest.mark.parametrize("bits", [4, 20])
def test_tags_are_found_however_many_there_are(monkeypatch, count, bits):
    monkeypatch.setattr(rows_module, "_MOST_BITS", bits)  # 4 leaves no mask: tags are searched for
    found = rows_module._codes.__wrapped__(tuple(f"mean(x{i})" for i in range(count)), f"plan {bits}")
    assert bool(found.mask) == (bits == 20 and found.mask > 0)
    rng = np.random.default_rng(5)
    places = rng.integers(0, 2 * count, 5000)
    assert (found.find(found.tags[places]) == places).all()
    for odd in (found.tags + 1, found.tags ^ (1 << 62), ~found.tags, np.array([0, -1, 2**63 - 1, -(2**63)])):
        strange = odd[~np.isin(odd, found.tags)]
        assert (found.find(strange) == -1).all()
    assert found.find(np.empty(0, dtype=np.int64)).shape == (0,)


@pytest.mark.wide
def test_a_plan_with_very_many_questions():
    wide = plan(Schema({f"x{i}": Categorical(["a", "b"]) for i in range(700)}), 1.0, users=100_000)
    rng = np.random.default_rng(1)
    records = {f"x{i}": np.array(["a", "b"])[rng.integers(0, 2, 20_000)] for i in range(700)}
    sent = wide.randomize(records, seed=1)
    assert tally_rows(wide, shuffled(pack_rows(wide, sent))) == wide.tally(sent)


# The file's facts --------------------------------------------------------------------------------------------------


def test_the_schema_names_the_plan_and_a_new_number_each_time():
    one, other = rows_schema(made("mixed")), rows_schema(made("mixed"))
    assert one.metadata[PLAN].decode() == made("mixed").fingerprint
    assert one.metadata[FILE] != other.metadata[FILE]
    assert len(one.metadata[FILE]) == 32
    assert not one.field(TAG).nullable
    assert not one.field(REPORT).nullable


def test_bytes_are_little_endian():
    chosen = made("mixed")
    part = next(part for part in chosen.parts if part.name == "histogram(city)")  # of one number in two bytes
    sent = np.asarray(reports("mixed", USERS)[part.name])
    assert sent.dtype.names == ("value",)
    assert sent.dtype.itemsize == 2
    batch = rows("mixed", USERS)
    own = np.asarray(batch[TAG]) == codes(chosen).tags[2 * chosen.parts.index(part) + 1]
    stored = batch.filter(pa.array(own))[REPORT].to_pylist()
    assert stored == [int(value).to_bytes(2, "little") for value in sent["value"]]


@pytest.mark.parametrize("name", CHOICES)
def test_a_big_endian_machine_writes_and_reads_the_same_bytes(name):
    # On such a machine the fields of reports are big-endian in memory; here they are made so.
    chosen, batch = made(name), rows(name, USERS)
    tags, offsets, data = rows_module._columns(batch)
    places = codes(chosen).find(tags)
    for number, part in enumerate(chosen.parts):
        there: Any = SimpleNamespace(
            name=part.name, mechanism=SimpleNamespace(dtype=part.mechanism.dtype.newbyteorder(">"))
        )
        own = slice(*np.searchsorted(places, [2 * number, 2 * number + 2]))
        found = rows_module._gathered(chosen, there, True, own, None, offsets, data)
        assert found.dtype == there.mechanism.dtype
        assert same(np.asarray(found).astype(part.mechanism.dtype), np.asarray(reports(name, USERS)[part.name]))
        assert report_bytes(there.mechanism, found) == b"".join(batch[REPORT][own.start : own.stop].to_pylist())


# Refused -----------------------------------------------------------------------------------------------------------


def refused(chosen: Plan, batch: Any, match: str) -> str:
    with pytest.raises(ReportError, match=match) as caught:
        tally_rows(chosen, batch)
    text = str(caught.value)
    assert str(SECRET) not in text
    assert "secret" not in text
    assert caught.value.__cause__ is None
    return text


@pytest.mark.parametrize("row", [0, 1, 200, USERS - 1])
def test_a_foreign_tag_is_refused(row):
    chosen, batch = made("mixed"), rows("mixed", USERS)
    tags = np.asarray(batch[TAG]).copy()
    for other in (0, -1, SECRET, tags[row] + 1, tags[row] ^ (1 << 62), -tags[row], codes(made("ranges")).tags[0]):
        changed = tags.copy()
        changed[row] = other
        refused(chosen, rebuilt(batch, tag=pa.array(changed)), f"row {row} belongs to another plan")


def test_rows_of_another_plan_are_refused():
    refused(made("mixed, small budget"), rows("mixed", USERS), "row 0 belongs to another plan")
    together = pa.concat_batches([rows("mixed", USERS), rows("mixed, small budget", USERS)])
    refused(made("mixed"), together, f"row {USERS} belongs to another plan")


@pytest.mark.parametrize(
    "change", [lambda data: data + b"\0", lambda data: data[:-1], lambda data: b"", lambda data: 2 * data]
)
def test_a_report_of_the_wrong_length_is_refused(change: Callable[[bytes], bytes]):
    chosen, batch = made("mixed"), rows("mixed", USERS)
    for row in (0, 199, USERS - 1):
        held = batch[REPORT].to_pylist()
        held[row] = change(held[row])
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
            refused(chosen, rebuilt(batch, report=pa.array(held, kind)), r"a report about .* has the wrong length")


def test_two_reports_with_a_moved_edge_are_refused():
    chosen, batch = made("mixed"), rows("mixed", USERS)
    held = batch[REPORT].to_pylist()
    held[0], held[1] = held[0] + held[1][:1], held[1][1:]
    refused(chosen, rebuilt(batch, report=pa.array(held, pa.binary())), "wrong length")


def test_missing_reports_are_refused():
    chosen, batch = made("mixed"), rows("mixed", USERS)
    for row in (0, 100, USERS - 1):
        mask = np.arange(USERS) == row
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
            held = pa.array(
                [None if gone else report for gone, report in zip(mask, batch[REPORT].to_pylist(), strict=True)], kind
            )
            refused(chosen, rebuilt(batch, report=held), "a report is missing in a row")
        refused(chosen, rebuilt(batch, tag=pa.array(np.asarray(batch[TAG]), mask=mask)), "a report is missing in a row")


@pytest.mark.parametrize(
    ("column", "values", "match"),
    [
        (TAG, pa.array([0.5]), "whole numbers, not double"),
        (TAG, pa.array(["secret"]), "whole numbers, not string"),
        (TAG, pa.array([True]), "whole numbers, not bool"),
        (TAG, pa.array([None]), "whole numbers, not null"),
        (TAG, pa.array([SECRET]).dictionary_encode(), "whole numbers, not dictionary"),
        (REPORT, pa.array(["secret"]), "must hold bytes, not string"),
        (REPORT, pa.array([SECRET]), "must hold bytes, not int64"),
        (REPORT, pa.array([[1]]), "must hold bytes, not list"),
        (REPORT, pa.array([{"secret": 1}], pa.struct({"x": pa.int8()})), "must hold bytes, not struct"),
        (REPORT, pa.array([None]), "must hold bytes, not null"),
        (REPORT, pa.array([b"secret"]).dictionary_encode(), "must hold bytes, not dictionary"),
    ],
)
def test_columns_of_other_types_are_refused(column, values, match):
    batch = rows("mixed", USERS).slice(0, 1)
    other = {TAG: batch[TAG], REPORT: batch[REPORT], column: values}
    refused(made("mixed"), pa.record_batch(list(other.values()), names=list(other)), match)


@pytest.mark.parametrize("names", [[TAG, "other"], ["other", REPORT], ["Tag", "Report"], [TAG, TAG], [REPORT, REPORT]])
def test_missing_and_repeated_columns_are_refused(names):
    batch = rows("mixed", USERS)
    columns = [batch[REPORT] if name == REPORT else batch[TAG] for name in names]
    refused(made("mixed"), pa.record_batch(columns, names=names), "there must be one column tag and one column report")


def test_a_name_that_is_no_text_is_refused():
    # Arrow takes any bytes for a name, and looks at them when they are asked for.
    batch, stream = rows("mixed", 20), pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    data = stream.getvalue().to_pybytes()
    place = data.index(b"report")
    changed = data[:place] + b"\xf2" + data[place + 1 :]
    refused(made("mixed"), pa.ipc.open_stream(changed).read_next_batch(), "one column report")


def test_two_columns_of_one_name_are_refused():
    batch = rows("mixed", USERS)
    twice = pa.record_batch([batch[TAG], batch[REPORT], batch[REPORT]], names=[TAG, REPORT, REPORT])
    refused(made("mixed"), twice, "one column report")


def test_a_report_out_of_range_is_refused():
    chosen, batch = made("mixed, large budget"), rows("mixed, large budget", USERS)
    part = next(part for part in chosen.parts if part.name == "histogram(job)")  # of four labels, in one byte
    tag = codes(chosen).tags[2 * chosen.parts.index(part)]
    odd = pa.record_batch([pa.array([tag]), pa.array([b"\xff"], pa.binary())], names=[TAG, REPORT])
    refused(chosen, pa.concat_batches([rebuilt(batch), odd]), "out of range")


def with_offsets(tag: int, offsets: list[int], kind: Any) -> pa.RecordBatch:
    """Reports of one byte whose offsets were changed after Arrow has looked at them."""
    held = np.arange(len(offsets), dtype=np.int64 if kind == pa.large_binary() else np.int32)
    column = pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(held), pa.py_buffer(bytes(3))])
    batch = pa.record_batch([pa.array([tag] * len(column)), column], names=[TAG, REPORT])
    held[:] = offsets
    return batch


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize(
    "offsets",
    [
        [-1, 0, 1],
        [-2, -1, 0],
        [0, 1, 2**31 - 1],
        [2**31 - 2, 2**31 - 1, -(2**31)],  # differences that wrap to one
        [10, 11, 12],
        [1, 0, 1],
        [0, 5, 1],
        [0, 3, 4],
    ],
)
def test_offsets_that_point_anywhere_are_refused(kind, offsets):
    # Arrow trusts them: a file from outside must not make this process read memory that is not its own.
    chosen = made("mixed")
    narrow = next(part for part in chosen.parts if part.mechanism.dtype.itemsize == 1)
    tag = codes(chosen).tags[2 * chosen.parts.index(narrow)]
    tally_rows(chosen, with_offsets(tag, [1, 2, 3], kind))
    batch = with_offsets(tag, offsets, kind)
    with pytest.raises(ReportError, match=r"damaged|wrong length"):
        tally_rows(chosen, batch)


def test_offsets_are_looked_at_here_too(monkeypatch):
    # Arrow looks at the first and the last; between them there could be a way round.
    monkeypatch.setattr(rows_module, "_refuse_unsound", lambda *columns, **options: None)
    tag = codes(made("mixed")).tags[2]
    for offsets in ([-1, 0, 1], [2**31 - 2, 2**31 - 1, -(2**31)], [2, 3, 4], [9, 10, 11]):
        with pytest.raises(ReportError, match="damaged"):
            tally_rows(made("mixed"), with_offsets(tag, offsets, pa.binary()))


def test_views_that_point_anywhere_are_refused():
    chosen = made("mixed")
    wide = next(part for part in chosen.parts if part.mechanism.dtype.itemsize == 13)
    tag = codes(chosen).tags[2 * chosen.parts.index(wide)]
    view = np.array([(13, 0, 0, 10_000_000)], dtype="<i4,<i4,<i4,<i4")  # length, prefix, buffer, offset
    column = pa.Array.from_buffers(pa.binary_view(), 1, [None, pa.py_buffer(view.tobytes()), pa.py_buffer(bytes(13))])
    with pytest.raises(ReportError, match="damaged"):
        tally_rows(chosen, pa.record_batch([pa.array([tag]), column], names=[TAG, REPORT]))


# What may be packed ------------------------------------------------------------------------------------------------


def test_reports_of_another_plan_get_no_tag():
    # Both plans have the same parts; only the number of users is another.
    mine, other = made("pairs of numbers"), made("pairs of numbers", 10_001)
    assert [(part.name, part.mechanism.dtype) for part in mine.parts] == [
        (part.name, part.mechanism.dtype) for part in other.parts
    ]
    with pytest.raises(ReportError, match="not reports of this plan"):
        pack_rows(other, reports("pairs of numbers", USERS))


def test_what_is_no_reports_is_not_packed():
    chosen = made("mixed")
    fine = dict(reports("mixed", 20))
    name = chosen.parts[0].name
    bad: list[Any] = [
        {},
        {**fine, name: None},
        {**fine, name: np.asarray(fine[name])},  # nobody knows where it is from, or whether it is simulated
        {**fine, name: fine[name].view(f"V{fine[name].dtype.itemsize}")},
        {**fine, name: fine[name].reshape(1, -1)},
        [SECRET],
        None,
    ]
    for each in bad:
        with pytest.raises(ReportError, match="not reports of this plan"):
            pack_rows(chosen, each)


def test_what_one_device_sends_is_packed():
    chosen = made("mixed")
    total = nothing(chosen)
    for record in ({"age": 41}, {}, None):
        batch = pack_rows(chosen, chosen.report(record))
        assert batch.num_rows == 1
        total += tally_rows(chosen, batch)
    assert sum(part.n for part in total.parts.values()) == 3


def test_too_many_bytes_for_one_batch(monkeypatch):
    # 2^31 bytes would be needed; a stand-in for the sum shows that it is looked at.
    chosen = made("mixed")
    real = np.cumsum

    def large(lengths: Any, dtype: Any = None) -> Any:
        return real(lengths, dtype=dtype) + (1 << 31)

    monkeypatch.setattr(rows_module.np, "cumsum", large)
    with pytest.raises(ReportError, match="more bytes of reports than one batch holds"):
        pack_rows(chosen, reports("mixed", 20))


def test_errors_are_dither_errors_for_any_table():
    rng = np.random.default_rng(9)
    kinds = [pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.string(), pa.binary(), pa.large_binary(), pa.bool_()]
    for _ in range(300):
        names = [[TAG, REPORT, "x"][i] for i in rng.integers(0, 3, rng.integers(0, 4))]
        columns = [pa.array([None, None] if rng.random() < 0.2 else [1, 0]).cast(pa.int64()) for _ in names]
        columns = [
            pa.array([b"1", b"2"], kind) if kind in (pa.binary(), pa.large_binary()) else column.cast(kind)
            for column in columns
            for kind in [kinds[rng.integers(len(kinds))]]
        ]
        batch = pa.record_batch(columns, names=names)
        with pytest.raises(DitherError):
            tally_rows(made("mixed"), batch)


def test_the_mixed_table_is_what_it_says():
    assert set(table(made("mixed"), 3)) == set(MIXED)


def test_views_of_the_same_bytes_are_not_written_out_without_end(monkeypatch):
    """A file of a few megabytes, each row a view of the same megabyte, was as much memory as there are rows."""
    views = np.zeros((1000, 4), dtype="<i4")
    views[:, 0] = 4096
    shown = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(bytes(4096))]
    column = pa.Array.from_buffers(pa.binary_view(), 1000, shown)
    tags = pa.array(np.full(1000, codes(made("mixed")).tags[0]))
    batch = pa.record_batch([tags, column], names=[TAG, REPORT])
    monkeypatch.setattr(rows_module, "_MOST_BYTES", 1000 * 4096)
    for invalid in ("error", "drop"):
        with pytest.raises(ReportError, match="more bytes of reports than one batch holds"):
            tally_rows(made("mixed"), batch, invalid_reports=invalid)
        assert tally_rows(made("mixed"), batch.slice(1), invalid_reports="drop").dropped == {"wrong length": 999}
