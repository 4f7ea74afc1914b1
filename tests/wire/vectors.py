"""Test vectors of the wire format: batches in hexadecimal digits, with what any reader of them must find.

    python tests/wire/vectors.py

writes `tests/stored/wire/*.json`, one file for each of some stored plans; `test_vectors.py` says if they are stale, and
runs them. A file has

- `plan`: the file of the plan, beside the folder; `hash`, its hash; `rounds`, how many it has
- `parts`: for each its name, the width of a report in bytes, and its fields as (name, type, shape)
- `batches`: sound ones: `bytes`; the same as `json`; round, whether it is simulated, and its sections with the bytes of
  each report, and its fields as numbers (packed bits as hexadecimal digits); and the `verdict` on each report, in order
- `refused`: batches that cannot be read as a whole, each with the `reason`
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from dither import Plan, Reports
from dither.wire import BatchFormat, read_frame

STORED = Path(__file__).parents[1] / "stored"
VECTORS = STORED / "wire"
PLANS = ("first", "mixed", "rich", "ranges", "regions", "rounds-kept")
USERS = 12
HASH, ROUND, SECTIONS, REPORTS, TABLE = 8, 40, 44, 48, 52  # where they stand in a batch


def number(value: int) -> bytes:
    """Four bytes."""
    return value.to_bytes(4, "little")


def replaced(data: bytes, offset: int, piece: bytes) -> bytes:
    """A batch with other bytes at a place."""
    return data[:offset] + piece + data[offset + len(piece) :]


def drawn(plan: Plan) -> dict[str, Reports]:
    """Reports of some records, the same each time, marked as if they were not from a seed."""
    rng = np.random.default_rng(29)
    records: dict[str, Any] = {}
    for name, attribute in plan.attributes.items():
        values = [attribute.substitute] if attribute.substitute is not None else list(getattr(attribute, "labels", ()))
        records[name] = [values[int(rng.integers(len(values)))] for _ in range(USERS)]
    reports = (
        plan.randomize_rounds([records], seed=29)[0] if plan.schedule.repeats else plan.randomize(records, seed=29)
    )
    return {part.name: Reports.wrap(np.asarray(reports[part.name]), plan.tag(part)) for part in plan.parts}


def sound(plan: Plan) -> dict[str, bytes]:
    """Batches that can be read, some with reports that are none."""
    wire, reports = BatchFormat(plan), drawn(plan)
    period = plan.schedule.periods[0] if plan.schedule.repeats else None
    whole = wire.pack(reports, period=period)
    found = {"no reports": wire.pack({name: own[:0] for name, own in reports.items()}, period=period)}
    first = next(name for name, own in reports.items() if len(own))
    one = {name: own[: int(name == first)] for name, own in reports.items()}
    found["one report"] = single = wire.pack(one, period=period)
    found["several reports"] = whole
    found["simulated"] = replaced(whole, 6, b"\1\0")
    if plan.schedule.repeats:
        found["the last round"] = wire.pack(reports, period=plan.schedule.periods[-1])
    found["no such part"] = replaced(single, TABLE, number(len(plan.parts)))
    found["wrong length"] = replaced(single, TABLE + 4, number(read_frame(single).sections[0].width + 1)) + b"\0"
    frame = read_frame(whole)
    found["all bits set"] = whole[: frame.rows] + b"\xff" * (len(whole) - frame.rows)
    return found


def refused(plan: Plan) -> dict[str, bytes]:
    """Batches that cannot be read as a whole."""
    whole = sound(plan)["several reports"]
    table = read_frame(whole).sections[0]
    return {
        "nothing": b"",
        "another magic": replaced(whole, 0, b"dthw"),
        "version 2": replaced(whole, 4, b"\2\0"),
        "an unknown flag": replaced(whole, 6, b"\2\0"),
        "another hash": replaced(whole, HASH, bytes([whole[HASH] ^ 1])),
        "a round that there is not": replaced(whole, ROUND, number(plan.schedule.rounds)),
        "fewer sections than there are": replaced(whole, SECTIONS, number(0)),
        "more sections than fit": replaced(whole, SECTIONS, number(0xFFFFFFFF)),
        "one report more than there are": replaced(whole, REPORTS, number(USERS * plan.questions_per_user + 1)),
        "more reports than a batch may have": replaced(whole, REPORTS, number((1 << 20) + 1)),
        "a section of width 0": replaced(whole, TABLE + 4, number(0)),
        "a section without reports": replaced(whole, TABLE + 8, number(0)),
        "a section of the largest width": replaced(whole, TABLE + 4, number(0xFFFFFFFF)),
        "the same section twice": replaced(
            sound(plan)["one report"], SECTIONS, number(2) + number(2) + (number(table.part) + number(1) * 2) * 2
        ),
        "a part of the head": whole[:51],
        "without the last byte": whole[:-1],
        "a byte too many": whole + b"\0",
    }


def plain(value: Any) -> Any:
    """A field as JSON has it: whole numbers beyond 2^53 as texts, since many readers would round them."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value) if value > 1 << 53 else value


def described(wire: BatchFormat, name: str, data: bytes) -> dict[str, Any]:
    """A batch, and what must be found in it."""
    frame, batch = wire.frame(data), wire.check(data)
    sections, offset = [], frame.rows
    for section in frame.sections:
        rows = data[offset : offset + section.size]
        each = [rows[at : at + section.width] for at in range(0, len(rows), section.width)]
        about: dict[str, Any] = {"part": section.part, "width": section.width, "reports": [row.hex() for row in each]}
        part = wire.plan.parts[section.part] if section.part < len(wire.names) else None
        if part is not None and section.width == part.mechanism.dtype.itemsize:
            dtype = part.mechanism.dtype.newbyteorder("<")
            about["fields"] = [
                [plain(np.frombuffer(row, dtype)[field][0].tolist()) for field in dtype.names or ()] for row in each
            ]
        sections.append(about)
        offset += section.size
    return {
        "name": name,
        "bytes": data.hex(),
        "json": json.loads(wire.to_json(data)),
        "round": frame.round,
        "simulated": frame.simulated,
        "sections": sections,
        "verdicts": [batch.reason(place) or "accepted" for place in range(batch.reports)],
    }


def vectors(name: str) -> str:
    """The file of a plan."""
    file = STORED / f"plan-{name}.json"
    wire = BatchFormat(Plan.read(file))
    found = {
        "format": "dither wire vectors 1",
        "plan": f"../{file.name}",
        "hash": wire.plan.fingerprint,
        "rounds": wire.plan.schedule.rounds,
        "parts": [
            {"name": part.name, "width": part.mechanism.dtype.itemsize, "fields": part.mechanism.dtype.descr}
            for part in wire.plan.parts
        ],
        "batches": [described(wire, each, data) for each, data in sound(wire.plan).items()],
        "refused": [
            {"name": each, "bytes": data.hex(), "reason": reason_of(wire, data)}
            for each, data in refused(wire.plan).items()
        ],
    }
    return json.dumps(found, indent=1) + "\n"


def reason_of(wire: BatchFormat, data: bytes) -> str:
    """Why a batch is refused."""
    from dither.errors import WireError

    try:
        wire.check(data)
    except WireError as error:
        return error.reason
    raise AssertionError("this batch is sound")


if __name__ == "__main__":
    VECTORS.mkdir(exist_ok=True)
    for plan_name in PLANS:
        (VECTORS / f"{plan_name}.json").write_text(vectors(plan_name))
