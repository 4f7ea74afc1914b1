"""A plan's reports as rows of a table, one row a report: on disk, on the wire, and in a data frame.

A row has two columns. `tag` says what the report answers: 63 bits of a hash of the plan, of the part of it that was
drawn, and of whether the report is simulated. `report` has its bytes, packed and little-endian; how many there are is
fixed by the part.

So rows need nothing beside them. Files may be cut, joined, copied by other tools or read by a query engine, which all
drop metadata: a row of another plan is recognised wherever it turns up, and what was simulated stays so. The tag of a
row is no secret: which question a user answers is drawn without looking at the record. A table with a column for each
question would be mostly empty, and wide where there are many attributes; here a row costs the bytes of its report, and
the tag, which takes few values, compresses to a few bits.

The hash of the plan stands in the metadata too, to explain a refusal, and so does a random number that tells a copy of
a file from another file.
"""

import hashlib
import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.errors import ReportError, require
from dither.core.reports import Reports
from dither.planning.plans import Part, Plan
from dither.planning.tallies import PlanTally

TAG, REPORT = "tag", "report"
PLAN, FILE = b"dither.plan", b"dither.file"

_MOST_BITS = 24
_FOREIGN = (
    "belongs to another plan, or to no question of this one, so nothing was tallied: reports are read with the plan "
    "that they were made with"
)


class Codes(NamedTuple):
    """How tags are looked up: `places` by the lowest bits of a tag, `tags` to compare all of it.

    Place 2 i is part i of the plan, and place 2 i + 1 the same, simulated.
    """

    tags: NDArray[np.int64]
    places: NDArray[np.int32]
    mask: np.int64


def schema(plan: Plan) -> Any:
    """The Arrow schema of a new file with reports of this plan."""
    arrow = require("pyarrow", "fast")
    facts = {PLAN: plan.fingerprint.encode(), FILE: secrets.token_hex(16).encode()}
    fields = [arrow.field(TAG, arrow.int64(), nullable=False), arrow.field(REPORT, arrow.binary(), nullable=False)]
    return arrow.schema(fields, metadata=facts)


def packed(plan: Plan, reports: Mapping[str, Reports]) -> Any:
    """The reports of a plan as an Arrow record batch, part by part."""
    arrow = require("pyarrow", "fast")
    known = codes(plan).tags
    tags, lengths, data = [], [], []
    for place, part in enumerate(plan.parts):
        some = reports[part.name]
        tags.append(np.full(len(some), known[2 * place + bool(some.simulated)]))
        lengths.append(np.full(len(some), part.mechanism.dtype.itemsize, dtype=np.int32))
        data.append(np.ascontiguousarray(np.asarray(some).astype(_portable(part), copy=False)).tobytes())
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths), dtype=np.int64)])
    if offsets[-1] >= 1 << 31:
        raise ReportError("these are more bytes of reports than one batch holds: randomize fewer rows at a time")
    buffers = [None, arrow.py_buffer(offsets.astype(np.int32)), arrow.py_buffer(b"".join(data))]
    column = arrow.Array.from_buffers(arrow.binary(), len(offsets) - 1, buffers)
    fields = arrow.schema([arrow.field(TAG, arrow.int64(), False), arrow.field(REPORT, arrow.binary(), False)])
    return arrow.record_batch([arrow.array(np.concatenate(tags)), column], schema=fields)


def unpacked(plan: Plan, batch: Any) -> dict[str, Reports]:
    """The inverse of `packed`, for rows in any order; refuses whatever is no report of this plan."""
    tags, offsets, data = _columns(batch)
    known = codes(plan)
    places = known.places[tags & known.mask]
    foreign = (places < 0) | (known.tags[places] != tags)
    if foreign.any():
        raise ReportError(f"row {int(foreign.argmax())} {_FOREIGN}")
    order = _order(places, len(known.tags))
    ends = np.searchsorted(places if order is None else places[order], np.arange(len(known.tags) + 1))
    return {
        part.name: _gathered(plan, part, slice(ends[2 * i], ends[2 * i + 1]), slice(ends[2 * i + 1], ends[2 * i + 2]),
                             order, offsets, data)
        for i, part in enumerate(plan.parts)
    }  # fmt: skip


def tally_rows(plan: Plan, batch: Any) -> PlanTally:
    """The sums over these rows. Any cut of the rows gives, merged with `+`, the same tally to the bit."""
    return plan.tally(unpacked(plan, batch))


def nothing(plan: Plan) -> PlanTally:
    """The tally of no reports."""
    return plan.tally({part.name: np.empty(0, dtype=part.mechanism.dtype) for part in plan.parts})


@lru_cache(maxsize=8)
def _codes(names: tuple[str, ...], fingerprint: str) -> Codes:
    tags = np.array([_tag(fingerprint, name, kind) for name in names for kind in ("", " simulated")], dtype=np.int64)
    for bits in range(4, _MOST_BITS):
        mask = np.int64((1 << bits) - 1)
        if len(set((tags & mask).tolist())) == len(tags):
            places = np.full(1 << bits, -1, dtype=np.int32)
            places[tags & mask] = np.arange(len(tags))
            return Codes(tags, places, mask)
    raise ReportError("this plan has too many questions for its reports to be told apart")


def codes(plan: Plan) -> Codes:
    """The tags of the parts of a plan."""
    return _codes(tuple(part.name for part in plan.parts), plan.fingerprint)


def _tag(fingerprint: str, name: str, kind: str) -> int:
    digest = hashlib.sha256(f"{fingerprint} {name}{kind}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _portable(part: Part) -> np.dtype:
    """The fields of a report in the byte order of the file."""
    return part.mechanism.dtype.newbyteorder("<")


def _columns(batch: Any) -> tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.uint8]]:
    """Tags, where each report begins and the last ends, and the bytes of all of them."""
    arrow = require("pyarrow", "fast")
    if not {TAG, REPORT} <= set(batch.schema.names):
        raise ReportError(f"these are no reports: there must be a column {TAG} and a column {REPORT}")
    tags, column = batch[TAG], batch[REPORT]
    kinds = arrow.types
    if not kinds.is_integer(tags.type):
        raise ReportError(f"these are no reports: the column {TAG} must hold whole numbers, not {tags.type}")
    if kinds.is_fixed_size_binary(column.type) or str(column.type) == "binary_view":
        column = column.cast(arrow.binary())
    if not (kinds.is_binary(column.type) or kinds.is_large_binary(column.type)):
        raise ReportError(f"these are no reports: the column {REPORT} must hold bytes, not {column.type}")
    if tags.null_count or column.null_count:
        raise ReportError("a report is missing in a row: these rows were changed, or are of several plans")
    width = np.int64 if kinds.is_large_binary(column.type) else np.int32
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, dtype=width, count=len(column) + 1, offset=column.offset * np.dtype(width).itemsize)
    held = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(0, dtype=np.uint8)
    return tags.to_numpy().astype(np.int64, copy=False), starts, held


def _order(places: NDArray[np.int32], count: int) -> NDArray[np.intp] | None:
    """The rows part by part; None if they are so already, as `packed` leaves them."""
    if (places[1:] >= places[:-1]).all():
        return None
    return np.argsort(places.astype(np.min_scalar_type(count)), kind="stable")


def _gathered(
    plan: Plan,
    part: Part,
    real: slice,
    simulated: slice,
    order: NDArray[np.intp] | None,
    offsets: NDArray[np.integer],
    data: NDArray[np.uint8],
) -> Reports:
    """The reports of one part: both kinds, simulated if any of them is."""
    rows = slice(real.start, simulated.stop)
    starts = offsets[:-1][rows] if order is None else offsets[order[rows]]
    stops = offsets[1:][rows] if order is None else offsets[order[rows] + 1]
    stored = _portable(part)
    if ((stops - starts) != stored.itemsize).any():
        raise ReportError(f"a report about {part.name} has the wrong length, so no honest client sent it")
    if len(starts):  # a window on every byte: one step copies each report from wherever it begins
        windows = np.ndarray((len(data) - stored.itemsize + 1,), stored, data, strides=(1,))
        found = windows[starts].astype(part.mechanism.dtype, copy=False)
    else:
        found = np.empty(0, dtype=part.mechanism.dtype)
    return Reports.wrap(found, plan.tag(part), simulated.stop > simulated.start)
