"""Batches of reports in bytes, and what a collector does with them: check every field, say which are fine, add up.

All numbers are little-endian and unsigned.

    0   4  magic, "DTHW"
    4   2  version of the format, 1
    6   2  flags: bit 0 if the reports were simulated from a seed; all others are 0
    8  32  hash of the plan
    40  4  round, from 0; 0 in a plan without rounds
    44  4  number of sections
    48  4  number of reports in all sections
    52     for each section 12 bytes: number of the part in the plan, width of a report, number of reports
           then the reports of all sections, in the same order

**One way to write it.** Sections rise by part, and within a part by width; none is empty. A client writes one section
for each part that it answers, all of the width that the part has. Others can be read too, so that a report with the
wrong width, or about a part that there is not, is rejected alone: but at most `STRANGE_SECTIONS` more than the plan has
parts, so that a batch cannot make a collector look at many sections for few reports.

**What is checked when.** First the frame: magic, version, plan, flags, round, and that sections, widths and counts add
up to exactly the bytes that are there. Nothing is allocated by a number that was not compared with the size of the
batch. Then the fields, a section at a time: neighbouring parts with the same mechanism in one step, so that a plan of a
thousand attributes does not take a thousand steps. The reports themselves are never copied; `rows` are windows on the
bytes of the batch.

**Groups, rounds, phases.** A plan with groups has parts of its own for each, so the part names the group. A plan with
rounds has one hash for all of them, so a batch says its round, and holds reports of no other; whoever adds up keeps
the tallies of rounds apart. A plan of a later phase is another plan, with a hash of its own.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.reports import ANOTHER_PLAN, OUT_OF_RANGE, REASONS, SIMULATED, WRONG_LENGTH, Reports
from dither.errors import InvalidReportError, ParameterError, ReportError, WireError
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.tally_sums import merged_tallies
from dither.wire.report_bytes import own_reports, report_bytes, reports_of_bytes

if TYPE_CHECKING:
    from dither.core.mechanism import Mechanism

CONTENT_TYPE = "application/vnd.dither.reports"
MAGIC, VERSION = b"DTHW", 1
MOST_BYTES = 1 << 24
MOST_REPORTS = 1 << 20
STRANGE_SECTIONS = 16

MALFORMED, UNKNOWN_VERSION, ANOTHER_ROUND = "malformed", "unknown version", "another round"
TRUNCATED, TRAILING_BYTES, TOO_LARGE = "truncated", "trailing bytes", "too large"
BATCH_REASONS = (MALFORMED, UNKNOWN_VERSION, ANOTHER_PLAN, ANOTHER_ROUND, TRUNCATED, TRAILING_BYTES, TOO_LARGE)

_START = struct.Struct("<4sHH32s")
_COUNTS = struct.Struct("<III")
_SECTION = struct.Struct("<III")
HEAD = _START.size + _COUNTS.size
_FLAGS = 0, 1
_CODES = {reason: np.uint8(1 + place) for place, reason in enumerate(REASONS)}
_FEWER = "send the reports in several batches"


@dataclass(frozen=True, eq=False)
class CheckedBatch:
    """A batch whose frame is sound: the reports that are fine, and for each report a verdict."""

    plan: str
    round: int
    simulated: bool
    rows: Mapping[str, NDArray[Any]]  # of each part that has some: the reports that are accepted, for its mechanism
    verdicts: NDArray[np.uint8]  # in the order of the batch: 0 if accepted, else 1 + the place of the reason in REASONS

    @property
    def reports(self) -> int:
        """How many reports there are, whatever their verdict."""
        return len(self.verdicts)

    @cached_property
    def accepted(self) -> int:
        """How many of them are fine."""
        return sum(map(len, self.rows.values()))

    @cached_property
    def rejected(self) -> dict[str, int]:
        """How many of them are not, by the reason."""
        if self.accepted == self.reports:
            return {}
        counts = np.bincount(self.verdicts, minlength=1 + len(REASONS))[1:].tolist()
        return {reason: count for reason, count in zip(REASONS, counts, strict=True) if count}

    def reason(self, place: int) -> str | None:
        """Why the report at this place of the batch was rejected; None if it was not."""
        code = int(self.verdicts[place])
        return REASONS[code - 1] if code else None


class _Section:
    """Reports of one part and width: where they are, and what can be said of all of them."""

    __slots__ = ("count", "offset", "part", "place", "reason")

    def __init__(self, part: int, count: int, place: int, offset: int, reason: str) -> None:
        self.part, self.count, self.place, self.offset, self.reason = part, count, place, offset, reason


class BatchFormat:
    """The batches of one plan. Make it once: what does not depend on a batch is worked out here.

    >>> import dither
    >>> plan = dither.plan(dither.Schema({"age": dither.Ordinal(0, 3)}), epsilon=2.0, users=10_000)
    >>> wire = BatchFormat(plan)
    >>> data = wire.pack(plan.randomize({"age": [0, 1, 1, 2, 3]}))
    >>> len(data), data[:4], data[-5:] <= bytes([3] * 5)
    (69, b'DTHW', True)
    >>> batch = wire.check(data[:-1] + bytes([200]))
    >>> batch.reports, batch.accepted, batch.rejected, batch.reason(4)
    (5, 4, {'out of range': 1}, 'out of range')
    >>> wire.tally([batch])
    PlanTally(distribution(age): 4; 1 left out)
    """

    def __init__(self, plan: Plan) -> None:
        if not isinstance(plan, Plan):
            raise ParameterError("batches are of a plan, as dither.plan makes it or Plan.read reads it")
        self.plan = plan
        self._hash = bytes.fromhex(plan.fingerprint)
        self._starts = tuple(_START.pack(MAGIC, VERSION, flag, self._hash) for flag in _FLAGS)
        self.names = tuple(part.name for part in plan.parts)
        self._mechanisms: tuple[Mechanism, ...] = tuple(part.mechanism for part in plan.parts)
        self._widths = tuple(mechanism.dtype.itemsize for mechanism in self._mechanisms)
        kinds: dict[str, int] = {}
        self._kinds = tuple(kinds.setdefault(each.fingerprint, len(kinds)) for each in self._mechanisms)

    def __repr__(self) -> str:
        return f"BatchFormat(plan {self.plan.fingerprint[:12]}, {len(self.names)} parts)"

    @cached_property
    def _tags(self) -> tuple[str, ...]:
        return tuple(map(self.plan.tag, self.plan.parts))

    # Writing -------------------------------------------------------------------------------------------------------

    def pack(self, reports: Mapping[str, Reports], *, period: str | int | None = None) -> bytes:
        """The batch with these reports of the plan. Of a plan with rounds, `period` says which they are of."""
        number, simulated = self._round(period), False
        heads, blocks = bytearray(), []
        counted = 0
        for part, own in enumerate(self._own(reports)):
            if len(own):
                heads += _SECTION.pack(part, self._widths[part], len(own))
                blocks.append(report_bytes(self._mechanisms[part], own))
                counted += len(own)
                if blocks[1:] and own.simulated != simulated:
                    raise ReportError(
                        "some of these reports are simulated from a seed, and others are not: pack them apart"
                    )
                simulated = own.simulated
        if counted > MOST_REPORTS:
            raise WireError(TOO_LARGE, f"a batch has at most {MOST_REPORTS:,} reports: {_FEWER}")
        data = b"".join((self._starts[simulated], _COUNTS.pack(number, len(blocks), counted), heads, *blocks))
        if len(data) > MOST_BYTES:
            raise WireError(TOO_LARGE, f"a batch has at most {MOST_BYTES:,} bytes: {_FEWER}")
        return data

    def pack_batches(
        self, reports: Mapping[str, Reports], most: int = 10_000, *, period: str | int | None = None
    ) -> Iterator[bytes]:
        """Batches of at most so many reports, and of at most `MOST_BYTES`, that hold all of these together."""
        most = checked_count("most", most, 1, MOST_REPORTS)
        pending, room = dict[int, Reports](), most
        bytes_left = space = MOST_BYTES - HEAD - _SECTION.size * len(self.names)
        for part, own in enumerate(self._own(reports)):
            width, done = self._widths[part], 0
            if width > space:
                raise WireError(TOO_LARGE, f"a report about {self.names[part]} is larger than any batch")
            while done < len(own):
                taken = min(room, bytes_left // width, len(own) - done)
                if taken:
                    pending[part] = own[done : done + taken]
                    done, room, bytes_left = done + taken, room - taken, bytes_left - taken * width
                if not room or bytes_left < width:
                    yield self._packed(pending, period)
                    pending, room, bytes_left = {}, most, space
        if pending:
            yield self._packed(pending, period)

    def _packed(self, some: Mapping[int, Reports], period: str | int | None) -> bytes:
        nothing = (np.empty(0, each.dtype) for each in self._mechanisms)
        empty = {name: Reports.wrap(rows, tag) for name, tag, rows in zip(self.names, self._tags, nothing, strict=True)}
        return self.pack({**empty, **{self.names[part]: own for part, own in some.items()}}, period=period)

    def _own(self, reports: Mapping[str, Reports]) -> Iterator[Reports]:
        for name, tag, mechanism in zip(self.names, self._tags, self._mechanisms, strict=True):
            yield own_reports(reports, name, tag, mechanism)

    def _round(self, period: str | int | None) -> int:
        schedule = self.plan.schedule
        if not schedule.repeats:
            if period is not None:
                raise ParameterError("this plan has one round: leave period out")
            return 0
        if period is None:
            raise ParameterError(f"this plan has rounds: say which it is, period=...; {schedule.periods_in_words()}")
        return schedule.number_of(period)

    # Reading -------------------------------------------------------------------------------------------------------

    def check(self, data: Any, *, allow_simulated: bool = False, most_bytes: int = MOST_BYTES) -> CheckedBatch:
        """Look at every field of every report. A batch that cannot be read as a whole raises `WireError`.

        Simulated reports are rejected, unless they are allowed, as in a trial.
        """
        number, simulated, sections = self._sections(data, most_bytes)
        verdicts = np.zeros(sum(section.count for section in sections), dtype=np.uint8)
        rows: dict[str, NDArray[Any]] = {}
        fine: list[_Section] = []
        for section in sections:
            reason = section.reason or (SIMULATED if simulated and not allow_simulated else "")
            if reason:
                verdicts[section.place : section.place + section.count] = _CODES[reason]
            else:
                fine.append(section)
        for run in self._runs(fine):
            first, total = run[0], sum(section.count for section in run)
            mechanism = self._mechanisms[first.part]
            reports = reports_of_bytes(mechanism, data, total, first.offset)
            valid = mechanism.valid(reports)
            sound = bool(valid.all())
            if not sound:
                verdicts[first.place : first.place + total][~valid] = _CODES[OUT_OF_RANGE]
            for section in run:
                window = slice(section.place - first.place, section.place - first.place + section.count)
                rows[self.names[section.part]] = reports[window] if sound else reports[window][valid[window]]
        return CheckedBatch(self.plan.fingerprint, number, simulated, rows, verdicts)

    def unpack(self, data: Any, *, period: str | int | None = None) -> dict[str, Reports]:
        """The inverse of `pack`: refuses a batch of another round, and any report that is invalid."""
        batch = self.check(data, allow_simulated=True)
        if batch.round != self._round(period):
            raise WireError(ANOTHER_ROUND, "this batch is of another round than the one that was named")
        if batch.rejected:
            place = int((batch.verdicts > 0).argmax())
            raise InvalidReportError(
                f"report {place} of this batch is invalid ({batch.reason(place)}), so no honest client sent it; "
                "BatchFormat(plan).check tells which others are fine"
            )
        return {
            name: Reports.wrap(batch.rows[name].copy(), tag, batch.simulated)
            if name in batch.rows
            else Reports.wrap(np.empty(0, dtype=mechanism.dtype), tag)
            for name, tag, mechanism in zip(self.names, self._tags, self._mechanisms, strict=True)
        }

    def tally(self, batches: Iterable[CheckedBatch], *, allow_simulated: bool = False) -> PlanTally:
        """The sums over what is accepted of batches of one round; `dropped` says what was not, and why."""
        kinds: dict[bool, dict[str, list[NDArray[Any]]]] = {}
        dropped, rounds = dict.fromkeys(REASONS, 0), set[int]()
        for batch in batches:
            if batch.plan != self.plan.fingerprint:
                raise ReportError("these batches are of different plans; tally each on its own")
            rounds.add(batch.round)
            found = kinds.setdefault(batch.simulated and batch.accepted > 0, {})
            for name, rows in batch.rows.items():
                found.setdefault(name, []).append(rows)
            for reason, count in batch.rejected.items():
                dropped[reason] += count
        if len(rounds) > 1:
            raise ReportError("these batches are of different rounds; tally each round on its own")
        tallies = [self._tally(found, simulated) for simulated, found in kinds.items()] or [self._tally({}, False)]
        tally = merged_tallies(tallies, allow_simulated=allow_simulated)
        return replace(tally, dropped={reason: count for reason, count in dropped.items() if count})

    def _tally(self, found: Mapping[str, list[NDArray[Any]]], simulated: bool) -> PlanTally:
        rows = {
            name: np.concatenate(found[name]) if name in found else np.empty(0, dtype=mechanism.dtype)
            for name, mechanism in zip(self.names, self._mechanisms, strict=True)
        }
        marked = {
            name: Reports.wrap(rows[name], tag, simulated) for name, tag in zip(self.names, self._tags, strict=True)
        }
        return self.plan.tally(marked if simulated else rows)

    def _sections(self, data: Any, most_bytes: int) -> tuple[int, bool, list[_Section]]:
        """The frame of a batch: round, whether it is simulated, and where the reports of each part are."""
        size = len(data)
        if size > most_bytes:
            raise WireError(TOO_LARGE, f"this batch has more than {most_bytes:,} bytes: {_FEWER}")
        simulated = self._start(data, size)
        number, sections, reports = _COUNTS.unpack_from(data, _START.size)
        if number >= self.plan.schedule.rounds:
            raise WireError(ANOTHER_ROUND, "this batch is of a round that the plan does not have")
        if reports > MOST_REPORTS:
            raise WireError(TOO_LARGE, f"this batch has more than {MOST_REPORTS:,} reports: {_FEWER}")
        if sections > len(self.names) + STRANGE_SECTIONS:
            raise WireError(MALFORMED, "this batch has many more sections than its plan has parts")
        offset, place = HEAD + _SECTION.size * sections, 0
        if offset > size:
            raise _truncated()
        found, before = [], (-1, 0)
        for part, width, count in _SECTION.iter_unpack(memoryview(data)[HEAD:offset]):
            if not (width and count) or (part, width) <= before:
                raise WireError(MALFORMED, "the sections of this batch are empty, or not in order")
            before = part, width
            reason = ANOTHER_PLAN if part >= len(self.names) else WRONG_LENGTH if width != self._widths[part] else ""
            found.append(_Section(part, count, place, offset, reason))
            place += count
            offset += width * count
        if place != reports:
            raise WireError(MALFORMED, "the sections of this batch do not have as many reports as it says")
        if offset > size:
            raise _truncated()
        if offset < size:
            raise WireError(TRAILING_BYTES, "this batch goes on behind its last report")
        return number, simulated, found

    def _start(self, data: Any, size: int) -> bool:
        """Whether the reports are simulated; refuses all that is no batch of this plan in this version."""
        start = bytes(data[: _START.size])
        if size >= HEAD and start in self._starts:
            return start == self._starts[1]
        if start[:4] != MAGIC[: max(size, 1)]:
            raise WireError(MALFORMED, "these bytes are no batch of reports: plan.pack(reports) makes one")
        if size >= 6 and start[4:6] != VERSION.to_bytes(2, "little"):
            raise WireError(
                UNKNOWN_VERSION, f"this batch is not of version {VERSION} of the format, the only one known here"
            )
        if size < HEAD:
            raise _truncated()
        if start[8:] != self._hash:
            raise WireError(ANOTHER_PLAN, "this batch was made for another plan: it is read with the plan of that hash")
        raise WireError(MALFORMED, "this batch has flags that version 1 of the format does not know")

    def _runs(self, sections: list[_Section]) -> Iterator[list[_Section]]:
        """Sections that lie behind each other and have the same mechanism, together."""
        run: list[_Section] = []
        for section in sections:
            if run:
                last = run[-1]
                adjacent = last.place + last.count == section.place
                if not adjacent or self._kinds[last.part] != self._kinds[section.part]:
                    yield run
                    run = []
            run.append(section)
        if run:
            yield run


def _truncated() -> WireError:
    return WireError(TRUNCATED, "this batch ends before the reports that it announces: send it whole")


def packed(plan: Plan, reports: Mapping[str, Reports], period: str | int | None) -> bytes:
    """What `plan.pack` does."""
    return BatchFormat(plan).pack(reports, period=period)


def unpacked(plan: Plan, data: Any, period: str | int | None) -> dict[str, Reports]:
    """What `plan.unpack` does."""
    return BatchFormat(plan).unpack(data, period=period)
