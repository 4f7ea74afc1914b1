"""A plan's reports as rows of a table, one row a report: on disk, on the wire, and in a data frame.

A row has two columns. `tag` says what the report answers: 63 bits of a hash of the plan, of the part of it that was
drawn, and of whether the report is simulated. `report` has its bytes, packed and little-endian; how many there are is
fixed by the part. The same bytes are sent over a network, in batches (`dither.wire`); `rows_of_batch` and
`batches_of_rows` convert.

So rows need nothing beside them. Files may be cut, joined, copied by other tools or read by a query engine, which all
drop metadata: a row of another plan is recognised wherever it turns up, and what was simulated stays so. The tag of a
row is no secret: which question a user answers is drawn without looking at the record. A table with a column for each
question would be mostly empty, and wide where there are many attributes; here a row costs the bytes of its report, and
the tag, which takes few values, compresses to a few bits.

The hash of the plan stands in the metadata too, to explain a refusal, and so does a random number that tells a copy of
a file from another file.

Rows keep the order of the records, part by part: whoever reads them may find out which reports one user sent. The
plan's guarantee is about all of them together, so it holds. What shuffling would add to it needs a shuffler.

Rows may come from anywhere. Arrow trusts lengths and offsets that it is given, so they are checked here before memory
is read by them. A row that is no report of the plan is refused, or left out and counted by the reason; rows whose
lengths contradict what they hold are damaged as a whole, and always refused. Rows that are simulated are tallied apart
from the others (`planning.tally_sums`).
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.randomness import token
from dither.core.reports import ANOTHER_PLAN, MALFORMED, WRONG_LENGTH, Reports, drops
from dither.errors import InvalidReportError, ReportError, require
from dither.planning.plan_tally import PlanTally, mixed_kinds
from dither.planning.plans import Part, Plan
from dither.planning.tally_sums import merged_tallies
from dither.wire.batches import BatchFormat
from dither.wire.report_bytes import own_reports, portable_dtype, report_bytes

if TYPE_CHECKING:
    import pyarrow

TAG, REPORT = "tag", "report"
PLAN, FILE = b"dither.plan", b"dither.file"

_MOST_BITS = 20
_MOST_BYTES = 1 << 31  # of the reports of a batch
_FOREIGN = (
    "belongs to another plan, or to no question of this one, so nothing was tallied: reports are read with the plan "
    'that they were made with. invalid_reports="drop" leaves such rows out'
)
_UNSOUND = "these rows are damaged: their lengths do not fit what they hold, so nothing was tallied"


class Codes(NamedTuple):
    """How tags are looked up: `places` by the lowest bits of a tag, `tags` to compare all of it.

    Place 2 i is part i of the plan, and place 2 i + 1 the same, simulated. Where there are so many that their lowest
    bits are not different, the mask is zero, and `places` is the order in which the tags rise.
    """

    tags: NDArray[np.int64]
    places: NDArray[np.int32]
    mask: np.int64

    def find(self, tags: NDArray[np.int64]) -> NDArray[np.int32]:
        """The place of each tag; -1 for one that is not of this plan."""
        if self.mask:
            found = self.places[tags & self.mask]
        else:
            after = np.searchsorted(self.tags, tags, sorter=self.places)
            found = self.places[np.minimum(after, len(self.tags) - 1)]
        return np.where(self.tags[found] == tags, found, np.int32(-1))


def rows_schema(plan: Plan, facts: Mapping[bytes, bytes] | None = None) -> "pyarrow.Schema":
    """The Arrow schema of a new file with reports of this plan; `facts` go to its metadata."""
    arrow = require("pyarrow", "fast")
    facts = {PLAN: plan.fingerprint.encode(), FILE: token(16).encode(), **(facts or {})}
    fields = [arrow.field(TAG, arrow.int64(), nullable=False), arrow.field(REPORT, arrow.binary(), nullable=False)]
    return arrow.schema(fields, metadata=facts)


def pack_rows(plan: Plan, reports: Mapping[str, Reports]) -> "pyarrow.RecordBatch":
    """The reports of a plan as an Arrow record batch, part by part."""
    arrow = require("pyarrow", "fast")
    known = codes(plan).tags
    tags, lengths, data = [], [], []
    for place, part in enumerate(plan.parts):
        some = own_reports(reports, part.name, plan.tag(part), part.mechanism)
        tags.append(np.full(len(some), known[2 * place + bool(some.simulated)]))
        lengths.append(np.full(len(some), part.mechanism.dtype.itemsize, dtype=np.int32))
        data.append(report_bytes(part.mechanism, some))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths), dtype=np.int64)])
    if offsets[-1] >= _MOST_BYTES:
        raise ReportError("these are more bytes of reports than one batch holds: randomize fewer rows at a time")
    buffers = [None, arrow.py_buffer(offsets.astype(np.int32)), arrow.py_buffer(b"".join(data))]
    column = arrow.Array.from_buffers(arrow.binary(), len(offsets) - 1, buffers)
    fields = arrow.schema([arrow.field(TAG, arrow.int64(), False), arrow.field(REPORT, arrow.binary(), False)])
    return arrow.record_batch([arrow.array(np.concatenate(tags)), column], schema=fields)


def unpack_rows(plan: Plan, batch: "pyarrow.RecordBatch") -> dict[str, Reports]:
    """The inverse of `pack_rows`, for rows in any order; refuses whatever is no report of this plan."""
    kinds = _unpacked(plan, batch)
    if len(kinds) > 1:
        raise mixed_kinds(*(sum(map(len, kind.values())) for kind in kinds))
    return kinds[0]


def rows_of_batch(plan: Plan, data: bytes, *, period: str | int | None = None) -> "pyarrow.RecordBatch":
    """What was sent as a batch (`dither.wire`), as rows for a file. A file does not say its round: its name has to."""
    return pack_rows(plan, plan.unpack(data, period=period))


def batches_of_rows(
    plan: Plan, rows: "pyarrow.RecordBatch", most: int = 10_000, *, period: str | int | None = None
) -> Iterator[bytes]:
    """Rows of a file as batches of at most so many reports, as a client sends them. Nothing is lost either way."""
    return BatchFormat(plan).pack_batches(unpack_rows(plan, rows), most, period=period)


def tally_rows(
    plan: Plan, batch: "pyarrow.RecordBatch", *, invalid_reports: str = "error", allow_simulated: bool = False
) -> PlanTally:
    """The sums over these rows. Any cut of the rows gives, merged with `+`, the same tally to the bit."""
    found = tallies_of_rows(plan, batch, invalid_reports)
    return merged_tallies(found, invalid_reports=invalid_reports, allow_simulated=allow_simulated)


def tallies_of_rows(plan: Plan, batch: "pyarrow.RecordBatch", invalid_reports: str) -> list[PlanTally]:
    """The sums over the rows that are not simulated, and over those that are; one of them, if there is one kind."""
    drop, dropped = drops(invalid_reports), {}
    try:
        kinds = _unpacked(plan, batch)
    except InvalidReportError:
        if not drop:
            raise
        kinds = None
    if kinds is None:  # only now: rows that are fine cost nothing
        batch, dropped = _sifted(plan, batch)
        kinds = _unpacked(plan, batch)
    first, *rest = (plan.tally(reports, invalid_reports=invalid_reports) for reports in kinds)
    return [replace(first, dropped={**dropped, **first.dropped}), *rest] if dropped else [first, *rest]


def _unpacked(plan: Plan, batch: "pyarrow.RecordBatch") -> list[dict[str, Reports]]:
    """The reports of each kind that there is, by the part: those that are not simulated, then those that are."""
    tags, offsets, data = _columns(batch)
    known = codes(plan)
    places = known.find(tags)
    foreign = places < 0
    if foreign.any():
        raise InvalidReportError(f"row {int(foreign.argmax())} {_FOREIGN}")
    order = _order(places, len(known.tags))
    ends = np.searchsorted(places if order is None else places[order], np.arange(len(known.tags) + 1))
    counts = np.diff(ends)
    kinds = [kind for kind in (0, 1) if counts[kind::2].any()] or [0]
    return [
        {
            part.name: _gathered(plan, part, bool(kind), slice(*ends[place : place + 2]), order, offsets, data)
            for place, part in zip(range(kind, 2 * len(plan.parts), 2), plan.parts, strict=True)
        }
        for kind in kinds
    ]


def _sifted(plan: Plan, batch: "pyarrow.RecordBatch") -> tuple["pyarrow.RecordBatch", dict[str, int]]:
    """The rows that are reports of the plan, as far as tags and lengths tell; and how many others, by the reason."""
    arrow = require("pyarrow", "fast")
    _refuse_unsound(arrow, batch[TAG], batch[REPORT], full=True)  # Arrow is going to follow all offsets
    plain = [batch[TAG], _one_by_one(arrow, batch[REPORT])]
    there = np.asarray(plain[0].is_valid()) & np.asarray(plain[1].is_valid())
    whole = arrow.record_batch(plain, names=[TAG, REPORT]).filter(arrow.array(there))
    tags, offsets, _ = _columns(whole)
    places = codes(plan).find(tags)
    lengths = np.array([part.mechanism.dtype.itemsize for part in plan.parts])
    foreign = places < 0
    fitting = ~foreign & (np.diff(offsets) == lengths[places >> 1])
    counts = {
        MALFORMED: len(there) - len(tags),
        ANOTHER_PLAN: int(foreign.sum()),
        WRONG_LENGTH: int((~foreign & ~fitting).sum()),
    }
    return whole.filter(arrow.array(fitting)), {reason: count for reason, count in counts.items() if count}


def rows_digest(batch: "pyarrow.RecordBatch", about: bytes) -> str:
    """The SHA-256 of what rows hold, whatever their buffers look like, and of words about them."""
    tags, starts, data = _columns(batch)
    state = hashlib.sha256(b"dither rows %d %s\n" % (len(tags), about))
    for part in (tags.astype("<i8", copy=False), np.diff(starts).astype("<i8"), data[starts[0] : starts[-1]]):
        state.update(np.ascontiguousarray(part).data)
    return state.hexdigest()


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
    return Codes(tags, np.argsort(tags).astype(np.int32), np.int64(0))


def codes(plan: Plan) -> Codes:
    """The tags of the parts of a plan."""
    return _codes(tuple(part.name for part in plan.parts), plan.fingerprint)


def _tag(fingerprint: str, name: str, kind: str) -> int:
    digest = hashlib.sha256(f"{fingerprint} {name}{kind}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def has_columns(found: "pyarrow.Schema") -> bool:
    """Whether an Arrow schema has the two columns of rows, each once."""
    try:
        names = found.names
    except UnicodeDecodeError:  # Arrow looks at what a name holds only now
        return False
    return [names.count(name) for name in (TAG, REPORT)] == [1, 1]


def _columns(batch: "pyarrow.RecordBatch") -> tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.uint8]]:
    """Tags, where each report begins and the last ends, and the bytes of all of them."""
    arrow = require("pyarrow", "fast")
    if not has_columns(batch.schema):
        raise ReportError(f"these are no reports: there must be one column {TAG} and one column {REPORT}")
    tags, column = batch[TAG], batch[REPORT]
    kinds = arrow.types
    if not kinds.is_integer(tags.type):
        raise ReportError(f"these are no reports: the column {TAG} must hold whole numbers, not {tags.type}")
    plain = kinds.is_binary(column.type) or kinds.is_large_binary(column.type)
    if not (plain or kinds.is_binary_view(column.type) or kinds.is_fixed_size_binary(column.type)):
        raise ReportError(f"these are no reports: the column {REPORT} must hold bytes, not {column.type}")
    _refuse_unsound(arrow, tags, column, full=not plain)
    if tags.null_count or column.null_count:
        raise InvalidReportError(
            "a report is missing in a row: these rows were changed, or are of several plans. "
            'invalid_reports="drop" leaves such rows out'
        )
    if not len(column):  # without rows there need not be offsets
        return np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    if not plain:
        column = _one_by_one(arrow, column)
    width = np.int64 if kinds.is_large_binary(column.type) else np.int32
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, dtype=width, count=len(column) + 1, offset=column.offset * np.dtype(width).itemsize)
    held = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(0, dtype=np.uint8)
    if starts.min() < 0 or starts.max() > len(held):  # so that no difference of two overflows either
        raise ReportError(_UNSOUND)
    return tags.to_numpy().astype(np.int64, copy=False), starts, held


def _refuse_unsound(arrow: Any, tags: "pyarrow.Array", column: "pyarrow.Array", full: bool) -> None:
    """Refuse columns whose buffers are shorter than they claim; `full` where Arrow will read what they point to."""
    sound = len(tags) == len(column)
    try:
        tags.validate()
        column.validate(full=full)
    except arrow.ArrowException:
        sound = False
    if not sound:
        raise ReportError(_UNSOUND)


def _one_by_one(arrow: Any, column: "pyarrow.Array") -> "pyarrow.Array":
    """The reports behind each other. Views may all show the same bytes, of which there would be any number."""
    if arrow.types.is_binary_view(column.type):
        lengths = np.frombuffer(column.buffers()[1], dtype="<i4").reshape(-1, 4)[:, 0]  # of the 16 bytes of a view
        if lengths[column.offset :][: len(column)].sum(dtype=np.int64) >= _MOST_BYTES:
            raise ReportError("these are more bytes of reports than one batch holds, so nothing was tallied")
    return column.cast(arrow.large_binary())


def _order(places: NDArray[np.int32], count: int) -> NDArray[np.intp] | None:
    """The rows part by part; None if they are so already, as `pack_rows` leaves them."""
    if (places[1:] >= places[:-1]).all():
        return None
    return np.argsort(places.astype(np.min_scalar_type(count)), kind="stable")


def _gathered(
    plan: Plan,
    part: Part,
    simulated: bool,
    rows: slice,
    order: NDArray[np.intp] | None,
    offsets: NDArray[np.integer],
    data: NDArray[np.uint8],
) -> Reports:
    """The reports of one part and kind."""
    starts = offsets[:-1][rows] if order is None else offsets[order[rows]]
    stops = offsets[1:][rows] if order is None else offsets[order[rows] + 1]
    stored = portable_dtype(part.mechanism)
    if ((stops - starts) != stored.itemsize).any():
        raise InvalidReportError(
            f"a report about {part.name} has the wrong length, so no honest client sent it. "
            'invalid_reports="drop" leaves such rows out'
        )
    if len(starts):  # a window on every byte: one step copies each report from wherever it begins
        windows = np.ndarray((len(data) - stored.itemsize + 1,), stored, data, strides=(1,))
        found = windows[starts].astype(part.mechanism.dtype, copy=False)
    else:
        found = np.empty(0, dtype=part.mechanism.dtype)
    return Reports.wrap(found, plan.tag(part), simulated and len(found) > 0)
