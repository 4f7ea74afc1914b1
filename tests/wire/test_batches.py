"""Batches come back as they were, a bad report is rejected alone, and whatever is no batch is refused with a reason."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dither
from dither import Categorical, Numeric, Ordinal, Plan, Public, Reports, Schema, plan, registry
from dither.core.reports import REASONS
from dither.errors import InvalidReportError, ParameterError, ReportError, WireError
from dither.wire import BATCH_REASONS, MOST_BYTES, MOST_REPORTS, BatchFormat, read_frame
from dither.wire.report_bytes import portable_dtype, report_bytes, reports_of_bytes
from engines.cases import CHOICES, made, reports, table

USERS = 300
STORED = Path(__file__).parents[1] / "stored"
SECRET = "987654321"  # noqa: S105


def same(one: Mapping[str, Reports], other: Mapping[str, Reports]) -> bool:
    facts = [
        {name: (own.maker, np.asarray(own).tobytes(), own.dtype) for name, own in each.items()} for each in (one, other)
    ]
    return facts[0] == facts[1] and list(one) == list(other)


def real(name: str, users: int = USERS) -> Mapping[str, Reports]:
    return reports(name, users, None)


# There and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, None])
@pytest.mark.parametrize("name", CHOICES)
def test_reports_come_back_as_they_were(name, seed):
    chosen, given_reports = made(name), reports(name, USERS, seed)
    data = chosen.pack(given_reports)
    found = chosen.unpack(data)
    assert same(found, given_reports)
    assert [own.simulated for own in found.values()] == [seed is not None and len(own) > 0 for own in found.values()]
    assert chosen.pack(found) == data
    for own in found.values():
        assert own.flags.writeable
    frame = read_frame(data)
    assert (frame.plan.hex(), frame.round, frame.simulated) == (chosen.fingerprint, 0, seed is not None)


@pytest.mark.parametrize("name", CHOICES)
def test_the_tally_is_the_plan_s_to_the_bit(name):
    chosen, given_reports = made(name), real(name)
    wire = BatchFormat(chosen)
    batches = [wire.check(data) for data in wire.pack_batches(given_reports, 7)]
    assert {batch.reports for batch in batches[:-1]} <= {7}
    assert sum(batch.accepted for batch in batches) == USERS * chosen.questions_per_user
    assert wire.tally(batches).to_bytes() == chosen.tally(given_reports).to_bytes()
    assert wire.tally([wire.check(wire.pack(given_reports))]).to_bytes() == chosen.tally(given_reports).to_bytes()


@pytest.mark.parametrize("name", registry)
def test_the_bytes_of_every_mechanism_s_reports(name):
    """Without gaps, whatever the byte order of the machine is."""
    for example in registry[name].examples:
        mechanism = registry[name](**example)
        dtype = mechanism.dtype
        fields = [dtype.fields[each] for each in dtype.names]  # type: ignore[index]
        assert [field[1] for field in fields] == [
            sum(field[0].itemsize for field in fields[:i]) for i in range(len(fields))
        ]
        assert dtype.itemsize == sum(field[0].itemsize for field in fields) > 0
        assert all(field[0].base.kind in "uV" for field in fields)
        rows = np.asarray(mechanism.randomize(mechanism.inputs()[:4], seed=3))
        data = report_bytes(mechanism, rows)
        assert reports_of_bytes(mechanism, data, len(rows)).tobytes() == rows.tobytes()
        there: Any = SimpleNamespace(dtype=dtype.newbyteorder(">"))
        assert portable_dtype(there) == portable_dtype(mechanism)
        assert report_bytes(there, rows.astype(there.dtype)) == data
        assert (reports_of_bytes(there, data, len(rows)).astype(dtype) == rows).all()


def test_one_report_is_small():
    chosen = made("mixed")
    sizes = [len(chosen.pack(chosen.report({}))) for _ in range(20)]
    widths = [part.mechanism.dtype.itemsize for part in chosen.parts]
    assert {size - 64 for size in sizes} <= set(widths)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.sampled_from(sorted(CHOICES)), st.integers(1, 1000))
def test_any_cut_into_batches_holds_all_reports_in_order(name, most):
    chosen, given_reports = made(name), real(name)
    cut = [chosen.unpack(data) for data in BatchFormat(chosen).pack_batches(given_reports, most)]
    assert all(sum(map(len, each.values())) <= most for each in cut)
    joined: dict[str, Any] = {part.name: np.concatenate([each[part.name] for each in cut]) for part in chosen.parts}
    assert same(joined, given_reports)


def test_batches_are_cut_by_their_bytes_too(monkeypatch):
    chosen, given_reports = made("mixed"), real("mixed")
    for module in ("batches", "frames"):
        monkeypatch.setattr(f"dither.wire.{module}.MOST_BYTES", 700)
    cut = list(BatchFormat(chosen).pack_batches(given_reports))
    assert max(map(len, cut)) <= 700 < len(cut) * 700
    assert sum(sum(map(len, chosen.unpack(data).values())) for data in cut) == USERS
    with pytest.raises(WireError, match="at most 700 bytes"):
        chosen.pack(given_reports)
    monkeypatch.setattr("dither.wire.batches.MOST_BYTES", 120)
    with pytest.raises(WireError, match="is larger than a batch may be"):
        list(BatchFormat(chosen).pack_batches(given_reports))


def test_no_reports():
    chosen = made("mixed")
    nothing: Any = {name: own[:0] for name, own in real("mixed").items()}
    data = chosen.pack(nothing)
    assert len(data) == 52
    assert same(chosen.unpack(data), nothing)
    wire = BatchFormat(chosen)
    assert list(wire.pack_batches(nothing)) == []
    assert wire.tally([]) == wire.tally([wire.check(data)]) == chosen.tally(nothing)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(kind):
    chosen = made("mixed")
    data = chosen.pack(real("mixed"))
    assert same(chosen.unpack(kind(data)), real("mixed"))
    assert BatchFormat(chosen).to_json(kind(data)) == BatchFormat(chosen).to_json(data)


def test_rows_are_windows_on_the_batch():
    chosen = made("mixed")
    data = chosen.pack(real("mixed"))
    batch = BatchFormat(chosen).check(data)
    whole = np.frombuffer(data, np.uint8)
    assert all(np.shares_memory(whole, rows) for rows in batch.rows.values())


def test_files_and_batches_hold_the_same():
    from dither.engines.report_rows import batches_of_rows, pack_rows, rows_of_batch

    for name in CHOICES:
        for seed in (1, None):
            chosen, given_reports = made(name), reports(name, USERS, seed)
            rows = pack_rows(chosen, given_reports)
            assert rows_of_batch(chosen, chosen.pack(given_reports)).equals(rows)
            (whole,) = batches_of_rows(chosen, rows, MOST_REPORTS)
            assert whole == chosen.pack(given_reports)
            cut = [rows_of_batch(chosen, data) for data in batches_of_rows(chosen, rows, 11)]
            assert sorted(row.as_py() for each in cut for row in each["report"]) == sorted(
                row.as_py() for row in rows["report"]
            )


# Groups and rounds -------------------------------------------------------------------------------------------------


def test_a_part_names_the_group():
    schema = Schema({"country": Public(["DE", "FR"]), "age": Ordinal(0, 9)})
    chosen = plan(schema, 1.0, users=10_000)
    data = chosen.pack(chosen.report({"country": "FR", "age": 3}))
    (section,) = read_frame(data).sections
    assert chosen.parts[section.part].group == "country=FR"
    assert list(BatchFormat(chosen).check(data).rows) == [chosen.parts[section.part].name]


def test_neighbouring_parts_with_one_mechanism_are_checked_together_and_kept_apart():
    schema = Schema({f"x{i}": Numeric(0, 1) for i in range(6)})
    chosen = plan(schema, 1.0, users=10_000)
    assert len({part.mechanism.fingerprint for part in chosen.parts}) < len(chosen.parts)
    given_reports = chosen.randomize({name: np.linspace(0, 1, 60) for name in schema})
    data = bytearray(chosen.pack(given_reports))
    wire, frame = BatchFormat(chosen), read_frame(data)
    assert same(
        {name: Reports.wrap(rows) for name, rows in wire.check(data).rows.items()},
        {name: Reports.wrap(np.asarray(own)) for name, own in given_reports.items() if len(own)},
    )
    bad = frame.sections[0].reports  # the first report of the second section
    data[frame.rows + bad * frame.sections[0].width] = 255
    batch = wire.check(data)
    assert batch.rejected == {"out of range": 1}
    assert batch.reason(bad) == "out of range"
    counts = [len(rows) for rows in batch.rows.values()]
    assert counts == [section.reports - (place == 1) for place, section in enumerate(frame.sections)]


def test_a_batch_says_its_round():
    weekly = plan(Schema({"mood": Categorical(["good", "bad"])}), 2.0, users=1000, rounds=["W47", "W48"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weeks = weekly.randomize_rounds([{"mood": ["good", "bad"] * 20}] * 2, seed=1)
    data = [weekly.pack(week, period=period) for week, period in zip(weeks, ("W47", "W48"), strict=True)]
    wire = BatchFormat(weekly)
    batches = [wire.check(each, allow_simulated=True) for each in data]
    assert [batch.round for batch in batches] == [0, 1]
    assert same(weekly.unpack(data[1], period="W48"), weeks[1])
    with pytest.raises(WireError, match="another round than") as caught:
        weekly.unpack(data[1], period="W47")
    assert caught.value.reason == "another round"
    with pytest.raises(ParameterError, match="say which it is"):
        weekly.pack(weeks[0])
    with pytest.raises(ParameterError, match="say which it is"):
        weekly.unpack(data[0])
    with pytest.raises(ParameterError, match="no such period"):
        weekly.pack(weeks[0], period="W49")
    with pytest.raises(ReportError, match="different rounds"):
        wire.tally(batches)
    assert wire.tally(batches[:1]) == weekly.tally(weeks[0])
    with pytest.raises(ParameterError, match="one round"):
        made("mixed").pack(real("mixed"), period="W47")


# Verdicts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHOICES)
def test_verdicts_are_the_mechanism_s_own(name):
    """Random bytes for reports: each gets the verdict that its mechanism has on it alone."""
    chosen = made(name)
    wire, data = BatchFormat(chosen), chosen.pack(real(name))
    frame = read_frame(data)
    noise = np.random.default_rng(5).integers(0, 256, len(data) - frame.rows, dtype=np.uint8).tobytes()
    batch = wire.check(data[: frame.rows] + noise)
    offset, place, total = 0, 0, 0
    for part, width, count in frame.sections:
        mechanism = chosen.parts[part].mechanism
        rows = np.frombuffer(noise[offset : offset + width * count], mechanism.dtype)
        fine = np.concatenate([mechanism.valid(rows[i : i + 1]) for i in range(count)])
        assert (batch.verdicts[place : place + count] == np.where(fine, 0, 1 + REASONS.index("out of range"))).all()
        assert (batch.rows[chosen.parts[part].name] == rows[fine]).all()
        offset, place, total = offset + width * count, place + count, total + int(fine.sum())
    assert batch.accepted == total
    assert sum(batch.rejected.values()) == batch.reports - total
    tally = wire.tally([batch])
    assert (tally.reports, sum(tally.dropped.values())) == (total, batch.reports - total)


def test_simulated_reports_are_rejected_unless_allowed():
    chosen = made("mixed")
    wire = BatchFormat(chosen)
    data = chosen.pack(reports("mixed", USERS, 1))
    batch = wire.check(data)
    assert (batch.accepted, batch.rejected, batch.rows) == (0, {"simulated": USERS}, {})
    tally = wire.tally([batch, wire.check(chosen.pack(real("mixed")))])
    assert tally == chosen.tally(real("mixed"))
    assert (tally.simulated, tally.dropped) == (False, {"simulated": USERS})
    allowed = wire.check(data, allow_simulated=True)
    assert wire.tally([allowed]).to_bytes() == chosen.tally(reports("mixed", USERS, 1)).to_bytes()
    with pytest.raises(InvalidReportError, match="simulated from a seed"):
        wire.tally([allowed, wire.check(chosen.pack(real("mixed")))])
    names = list(real("mixed"))
    mixed = {**reports("mixed", USERS, 1), names[0]: real("mixed")[names[0]]}
    with pytest.raises(ReportError, match="pack them apart"):
        chosen.pack(mixed)


def test_one_bad_report_is_named_by_its_place():
    chosen = made("one question")
    data = bytearray(chosen.pack(real("one question")))
    data[-1] = 255
    with pytest.raises(InvalidReportError, match=rf"report {USERS - 1} of this batch is invalid \(out of range\)"):
        chosen.unpack(data)


def test_strange_sections_are_rejected_alone():
    chosen = made("one question")
    width = chosen.parts[0].mechanism.dtype.itemsize
    data = chosen.pack(real("one question"))
    heads = b"".join(
        number.to_bytes(4, "little")
        for section in ((0, width, USERS), (0, width + 1, 2), (1, 5, 3), (2**32 - 1, 1, 1))
        for number in section
    )
    counts = (4).to_bytes(4, "little") + (USERS + 6).to_bytes(4, "little")
    batch = BatchFormat(chosen).check(data[:44] + counts + heads + data[64:] + bytes(2 * width + 2 + 15 + 1))
    assert batch.accepted == USERS
    assert batch.rejected == {"another plan": 4, "wrong length": 2}
    assert [batch.reason(USERS + i) for i in range(6)] == ["wrong length"] * 2 + ["another plan"] * 4


def test_sections_beyond_the_plan_s_parts_are_few():
    chosen = made("one question")
    start = chosen.pack(real("one question"))[:44]

    def strange(count: int) -> bytes:
        heads = b"".join(np.array([1 + i, 1, 1], "<u4").tobytes() for i in range(count))
        return start + count.to_bytes(4, "little") * 2 + heads + bytes(count)

    assert BatchFormat(chosen).check(strange(17)).rejected == {"another plan": 17}
    with pytest.raises(WireError, match="many more than its plan has parts"):
        BatchFormat(chosen).check(strange(18))


# Refused ------------------------------------------------------------------------------------------------------------


def test_every_cut_of_a_batch_is_refused():
    chosen = made("mixed")
    wire, data = BatchFormat(chosen), chosen.pack(chosen.report({}))
    for length in range(len(data)):
        with pytest.raises(WireError) as caught:
            wire.check(data[:length])
        assert caught.value.reason == ("truncated" if length else "malformed")
        assert caught.value.__cause__ is None
    with pytest.raises(WireError) as caught:
        wire.check(data + b"\0")
    assert caught.value.reason == "trailing bytes"


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.data())
def test_a_changed_byte_of_the_frame_is_noticed_or_harmless(data):
    """Whatever is changed: a reason, or verdicts on as many reports as there are, of which none is accepted twice."""
    chosen = made("mixed")
    whole = bytearray(chosen.pack(real("mixed", 20)))
    place = data.draw(st.integers(0, read_frame(whole).rows - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    reason, batch = "", None
    try:
        batch = BatchFormat(chosen).check(whole)
    except WireError as error:
        reason = error.reason
    if batch is None:
        assert reason in BATCH_REASONS
        return
    assert batch.reports == 20 == batch.accepted + sum(batch.rejected.values())


def test_another_plan():
    chosen, other = made("mixed"), made("one question")
    with pytest.raises(WireError, match="another plan") as caught:
        other.unpack(chosen.pack(real("mixed")))
    assert caught.value.reason == "another plan"
    with pytest.raises(ReportError, match="not reports of this plan"):
        other.pack(real("mixed"))
    batch = BatchFormat(chosen).check(chosen.pack(real("mixed")))
    with pytest.raises(ReportError, match="another plan"):
        BatchFormat(other).tally([batch])


@pytest.mark.parametrize("wrong", [None, 5, "text", ["a"], object(), np.zeros(3), {"a": 1}])
def test_what_is_no_bytes(wrong):
    chosen = made("mixed")
    with pytest.raises(WireError) as caught:
        chosen.unpack(wrong)
    assert caught.value.reason == "malformed"
    with pytest.raises(ReportError, match="not reports of this plan"):
        chosen.pack(wrong)


def test_limits():
    chosen = made("one question")
    wire = BatchFormat(chosen)
    data = chosen.pack(real("one question"))
    with pytest.raises(WireError, match="more than 100 bytes") as caught:
        wire.check(data, most_bytes=100)
    assert caught.value.reason == "too large"
    assert wire.check(data, most_bytes=len(data)).accepted == USERS
    with pytest.raises(WireError) as caught:
        wire.check(bytes(MOST_BYTES + 1))
    assert caught.value.reason == "too large"
    (part,) = chosen.parts
    many = Reports.wrap(np.zeros(MOST_REPORTS + 1, part.mechanism.dtype), chosen.tag(part))
    with pytest.raises(WireError, match="at most 1,048,576 reports"):
        wire.pack({part.name: many})
    assert len(list(wire.pack_batches({part.name: many}, MOST_REPORTS))) == 2


def test_a_format_is_of_a_plan():
    wrong: Any = made("mixed").to_dict()
    with pytest.raises(ParameterError, match="batches are of a plan"):
        BatchFormat(wrong)


def test_a_plan_that_was_read_packs_the_same():
    chosen = made("mixed")
    again = Plan.from_json(chosen.to_json())
    assert same(again.unpack(chosen.pack(real("mixed"))), real("mixed"))
    assert replace(again, users=5).fingerprint != again.fingerprint
    with pytest.raises(WireError, match="another plan"):
        replace(again, users=5).unpack(chosen.pack(real("mixed")))


# JSON ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHOICES)
def test_json_and_bytes_are_the_same_batch(name):
    chosen = made(name)
    wire = BatchFormat(chosen)
    for seed in (None, 1):
        data = wire.pack(reports(name, USERS, seed))
        text = wire.to_json(data)
        assert wire.from_json(text) == wire.from_json(text.encode()) == data


def by_hand(chosen: Plan, *sections: Any, **others: Any) -> Any:
    import json

    fields = {"format": "dither reports 1", "plan": chosen.fingerprint, "sections": list(sections), **others}
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def test_json_by_hand():
    chosen = plan(Schema({"job": Categorical(["nurse", "driver", "other"])}), 1.0, users=1000)
    wire = BatchFormat(chosen)
    text = by_hand(
        chosen,
        {"part": "histogram(job)", "reports": [[2], "AA=="]},
        {"part": "histogram(work)", "reports": [[1]]},
        {"part": 0, "reports": [[1], [7], [1, 2], []][:3]},
    )
    batch = wire.check(wire.from_json(text))
    assert batch.rows["histogram(job)"]["value"].tolist() == [2, 0, 1]
    assert batch.rejected == {"another plan": 1, "wrong length": 1, "out of range": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "malformed"),
        ("[]", "malformed"),
        ("{}", "malformed"),
        (b"\xff\xfe", "malformed"),
        ("[" * 100_000, "malformed"),
        ({"sections": None}, "malformed"),
        ({"sections": [{"part": 0}]}, "malformed"),
        ({"sections": [{"part": -1, "reports": []}]}, "malformed"),
        ({"sections": [{"part": 1.5, "reports": []}]}, "malformed"),
        ({"sections": [{"part": 2**32, "reports": []}]}, "malformed"),
        ({"sections": [{"part": 0, "reports": [[256]]}]}, "malformed"),
        ({"sections": [{"part": 0, "reports": [[]]}]}, "malformed"),
        ({"sections": [{"part": 0, "reports": ["A"]}]}, "malformed"),
        ({"sections": [{"part": 0, "reports": ["äää"]}]}, "malformed"),
        ({"sections": [{"part": 0, "reports": [SECRET]}]}, "malformed"),
        ({"more": 1}, "malformed"),
        ({"round": -1}, "malformed"),
        ({"plan": None}, "malformed"),
        ({"plan": "abc"}, "another plan"),
        ({"format": "dither reports 2"}, "unknown version"),
        ({"round": 1}, "another round"),
    ],
)
def test_json_that_is_no_batch(text, reason):
    chosen = made("one question")
    given_text = by_hand(chosen, **text) if isinstance(text, dict) else text
    wire = BatchFormat(chosen)
    with pytest.raises(WireError) as caught:
        wire.check(wire.from_json(given_text))
    assert caught.value.reason == reason
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_json_has_the_limits_of_bytes(monkeypatch):
    chosen = made("one question")
    wire = BatchFormat(chosen)
    with pytest.raises(WireError) as caught:
        wire.from_json(" " * 101, most_bytes=100)
    assert caught.value.reason == "too large"
    monkeypatch.setattr("dither.wire.json_batches.MOST_REPORTS", 3)
    with pytest.raises(WireError) as caught:
        wire.from_json(by_hand(chosen, *[{"part": 0, "reports": [[0]] * 2}] * 2))
    assert caught.value.reason == "too large"


def test_public_names():
    assert dither.wire.BatchFormat is BatchFormat
    assert set(dir(dither.wire)) >= {"BATCH_REASONS", "BatchFormat", "CheckedBatch", "MOST_BYTES", "read_frame"}
    assert table(made("one question"), 1)
