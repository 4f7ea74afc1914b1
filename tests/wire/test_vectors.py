"""The stored test vectors: not stale, found by the library, and by a second reader that shares no code with it."""

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest

from dither import Mechanism, Plan
from dither.errors import WireError
from dither.wire import BATCH_REASONS, BatchFormat, batches, frames
from wire.vectors import PLANS, STORED, VECTORS, vectors


def stored(name: str) -> dict[str, Any]:
    return json.loads((VECTORS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", PLANS)
def test_vectors_are_not_stale(name):
    assert (VECTORS / f"{name}.json").read_text() == vectors(name), "run: python tests/wire/vectors.py"


def test_the_vectors_have_every_reason():
    found = [stored(name) for name in PLANS]
    assert {each["reason"] for file in found for each in file["refused"]} == set(BATCH_REASONS)
    verdicts = {verdict for file in found for batch in file["batches"] for verdict in batch["verdicts"]}
    assert verdicts == {"accepted", "another plan", "wrong length", "out of range", "simulated"}
    assert any(len(file["parts"]) > len({part["width"] for part in file["parts"]}) > 1 for file in found)


@pytest.mark.parametrize("name", PLANS)
def test_the_library_finds_what_stands_there(name):
    run_vectors(stored(name))


def run_vectors(file: dict[str, Any]) -> None:
    """Every batch is read as its vector says."""
    wire = BatchFormat(Plan.read(VECTORS / file["plan"]))
    for vector in file["batches"]:
        data = bytes.fromhex(vector["bytes"])
        batch = wire.check(data)
        assert (batch.round, batch.simulated) == (vector["round"], vector["simulated"])
        assert [batch.reason(place) or "accepted" for place in range(batch.reports)] == vector["verdicts"]
        assert wire.from_json(json.dumps(vector["json"])) == data
        assert json.loads(wire.to_json(data)) == vector["json"]
    for vector in file["refused"]:
        with pytest.raises(WireError) as caught:
            wire.check(bytes.fromhex(vector["bytes"]))
        assert caught.value.reason == vector["reason"], vector["name"]


# Mutants -----------------------------------------------------------------------------------------------------------


def _everything(rows: Any) -> Any:
    return np.ones(len(rows), dtype=bool)


MUTANTS = {
    "fields are not looked at": (Mechanism, "valid", lambda self, rows: _everything(rows)),
    "another reason is told": (batches, "OUT_OF_RANGE", "wrong length"),
    "big-endian sections": (frames, "_SECTION", struct.Struct(">III")),
    "width and part exchanged": (frames, "_section", lambda each: frames.FrameSection(each[1], each[0], each[2])),
    "any version is read": (frames, "VERSION", 2),
    "simulated reports are counted": (frames, "_SIMULATED", 2),
    "short batches are told as long ones": (frames, "_truncated", lambda: WireError("trailing bytes", "")),
    "more reports in a batch": (frames, "MOST_REPORTS", 1 << 32),
    "another plan is not told apart": (frames, "ANOTHER_PLAN", "malformed"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_do_not_pass(mutant, monkeypatch):
    monkeypatch.setattr(*MUTANTS[mutant])

    def passed(name: str) -> bool:
        try:
            run_vectors(stored(name))
        except (AssertionError, WireError, pytest.fail.Exception):
            return False
        return True

    assert not all(map(passed, PLANS))


# A second reader ------------------------------------------------------------------------------------------------------


def read(data: bytes, hashed: str, parts: int, rounds: int) -> tuple[int, bool, list[tuple[int, list[bytes]]]] | str:
    """Round, whether simulated, and the reports by part; or the reason why not. Written from docs/wire-format.md."""
    if len(data) > 2**24:
        return "too large"
    if len(data) < 4 or data[:4] != b"DTHW":
        return "truncated" if data and b"DTHW".startswith(data) else "malformed"
    if len(data) >= 6 and data[4:6] != b"\1\0":
        return "unknown version"
    if len(data) < 52:
        return "truncated"
    flags, plan, number, sections, reports = struct.unpack("<H32sIII", data[6:52])
    if plan.hex() != hashed:
        return "another plan"
    if flags > 1:
        return "malformed"
    if reports > 2**20:
        return "too large"
    if sections > reports or sections > parts + 16:
        return "malformed"
    if len(data) < 52 + 12 * sections:
        return "truncated"
    table = [struct.unpack("<III", data[52 + 12 * i : 64 + 12 * i]) for i in range(sections)]
    keys = [(part, width) for part, width, _ in table]
    if keys != sorted(set(keys)) or any(0 in (width, count) for _, width, count in table):
        return "malformed"
    if sum(count for _, _, count in table) != reports:
        return "malformed"
    end = 52 + 12 * sections + sum(width * count for _, width, count in table)
    if end != len(data):
        return "truncated" if end > len(data) else "trailing bytes"
    if number >= rounds:
        return "another round"
    found, offset = [], 52 + 12 * sections
    for part, width, count in table:
        found.append((part, [data[offset + width * i : offset + width * (i + 1)] for i in range(count)]))
        offset += width * count
    return number, flags == 1, found


def field_values(row: bytes, fields: list[Any]) -> list[Any]:
    """The fields of a report, one after another, little-endian."""
    found, offset = [], 0
    for _, kind, *shape in fields:
        size, count = int(kind[2:]), shape[0][0] if shape else 1
        numbers = [row[offset + size * i : offset + size * (i + 1)] for i in range(count)]
        values = [
            each.hex()
            if kind[1] == "V"
            else value
            if (value := int.from_bytes(each, "little")) <= 2**53
            else str(value)
            for each in numbers
        ]
        found.append(values if shape else values[0])
        offset += size * count
    assert offset == len(row)
    return found


@pytest.mark.parametrize("name", PLANS)
def test_another_reader_finds_the_same(name):
    file = stored(name)
    about = file["hash"], len(file["parts"]), file["rounds"]
    for vector in file["refused"]:
        assert read(bytes.fromhex(vector["bytes"]), *about) == vector["reason"], vector["name"]
    for vector in file["batches"]:
        found = read(bytes.fromhex(vector["bytes"]), *about)
        assert not isinstance(found, str)
        number, simulated, sections = found
        assert (number, simulated) == (vector["round"], vector["simulated"])
        assert [(part, [row.hex() for row in rows]) for part, rows in sections] == [
            (section["part"], section["reports"]) for section in vector["sections"]
        ]
        as_json = [
            (each["part"], [base64.b64decode(row) for row in each["reports"]]) for each in vector["json"]["sections"]
        ]
        assert as_json == sections
        for section in vector["sections"]:
            if "fields" in section:
                part = file["parts"][section["part"]]
                rows = [bytes.fromhex(row) for row in section["reports"]]
                assert {len(row) for row in rows} == {part["width"]}
                assert [field_values(row, part["fields"]) for row in rows] == section["fields"]


def test_there_is_a_file_for_each_plan_and_no_other():
    assert sorted(file.name for file in VECTORS.iterdir()) == sorted(f"{name}.json" for name in PLANS)
    assert all((STORED / f"plan-{name}.json").exists() for name in PLANS)
