"""Batches of reports in bytes, and what a collector does with them: check every field, say which are fine, add up.

`wire.frames` has the frame, and `wire.report_bytes` the bytes of one report.

**What is checked when.** First the frame; then the fields, a section at a time: neighbouring parts with the same
mechanism in one step, so that a plan of a thousand attributes does not take a thousand. The reports are not copied:
`rows` are windows on the bytes of the batch, unless some of a section are rejected.

**Groups, rounds, phases.** A plan with groups has parts of its own for each, so the part names the group. A plan with
rounds has one hash for all of them, so a batch says its round, and holds reports of no other; whoever adds up keeps
the tallies of rounds apart. A plan of a later phase is another plan, with a hash of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.mechanism import Mechanism
from dither.core.reports import ANOTHER_PLAN, OUT_OF_RANGE, REASONS, SIMULATED, WRONG_LENGTH, Reports
from dither.errors import InvalidReportError, ParameterError, ReportError, WireError
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.tally_sums import merged_tallies
from dither.wire.frames import (
    ANOTHER_ROUND,
    HEAD_BYTES,
    MALFORMED,
    MOST_BYTES,
    MOST_REPORTS,
    SECTION_BYTES,
    TOO_LARGE,
    Frame,
    FrameSection,
    frame_bytes,
    read_frame,
)
from dither.wire.json_batches import bytes_of_json, json_of_frame
from dither.wire.report_bytes import own_reports, report_bytes, reports_of_bytes

CONTENT_TYPE = "application/vnd.dither.reports"
_CODES = {reason: np.uint8(1 + place) for place, reason in enumerate(REASONS)}


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


class _Run(NamedTuple):
    """Sections that lie behind each other and have the same mechanism: their reports are checked in one step."""

    first: int  # the place of their first report in the batch
    offset: int  # where its bytes are
    parts: list[int]
    ends: list[int]  # for each part the place behind its last report


class BatchFormat:
    """The batches of one plan. Make it once: what does not depend on a batch is worked out here.

    >>> import dither
    >>> plan = dither.plan(dither.Schema({"age": dither.Ordinal(0, 3)}), epsilon=2.0, users=10_000)
    >>> wire = BatchFormat(plan)
    >>> data = wire.pack(plan.randomize({"age": [0, 1, 1, 2, 3]}))
    >>> len(data), data[:4], max(data[-5:]) <= 3
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
        self.names = tuple(part.name for part in plan.parts)
        self._hash = bytes.fromhex(plan.fingerprint)
        self._mechanisms: tuple[Mechanism, ...] = tuple(part.mechanism for part in plan.parts)
        self._widths = tuple(mechanism.dtype.itemsize for mechanism in self._mechanisms)

    def __repr__(self) -> str:
        return f"BatchFormat(plan {self.plan.fingerprint[:12]}, {len(self.names)} parts)"

    @cached_property
    def _tags(self) -> tuple[str, ...]:
        return tuple(map(self.plan.tag, self.plan.parts))

    @cached_property
    def _kinds(self) -> tuple[int, ...]:
        """For each part a number that those with an equal mechanism share."""
        kinds: dict[str, int] = {}
        return tuple(kinds.setdefault(each.fingerprint, len(kinds)) for each in self._mechanisms)

    # Writing -------------------------------------------------------------------------------------------------------

    def pack(self, reports: Mapping[str, Any], *, period: str | int | None = None) -> bytes:
        """The batch with these reports of the plan. Of a plan with rounds, `period` says which they are of."""
        return self._packed({part: own for part, own in enumerate(self._own(reports)) if len(own)}, self._round(period))

    def pack_batches(
        self, reports: Mapping[str, Any], most: int = 10_000, *, period: str | int | None = None
    ) -> Iterator[bytes]:
        """Batches of at most so many reports, and of at most `MOST_BYTES`, that hold all of these together."""
        room = most = checked_count("most", most, 1, MOST_REPORTS)
        space = whole = MOST_BYTES - HEAD_BYTES - SECTION_BYTES * len(self.names)
        pending, number = dict[int, Reports](), self._round(period)
        for part, own in enumerate(self._own(reports)):
            width, done = self._widths[part], 0
            if len(own) and width > whole:
                raise WireError(TOO_LARGE, f"a report about {self.names[part]} is larger than a batch may be")
            while done < len(own):
                taken = min(room, space // width, len(own) - done)
                if taken:
                    piece: Any = own[done : done + taken]  # a slice, so Reports
                    pending[part] = piece
                    done, room, space = done + taken, room - taken, space - taken * width
                if not room or space < width:
                    yield self._packed(pending, number)
                    pending, room, space = {}, most, whole
        if pending:
            yield self._packed(pending, number)

    def _packed(self, some: Mapping[int, Reports], number: int) -> bytes:
        """The batch with reports of some parts, in the order of the plan."""
        kinds = {own.simulated for own in some.values()}
        if len(kinds) > 1:
            raise ReportError("some of these reports are simulated from a seed, and others are not: pack them apart")
        sections = tuple(FrameSection(part, self._widths[part], len(own)) for part, own in some.items())
        frame = Frame(self._hash, number, kinds == {True}, sections)
        return frame_bytes(frame, (report_bytes(self._mechanisms[part], own) for part, own in some.items()))

    def _own(self, reports: Mapping[str, Any]) -> Iterator[Reports]:
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

    def frame(self, data: Any, *, most_bytes: int = MOST_BYTES) -> Frame:
        """What a batch of this plan says about its reports; these are not looked at. Else it raises `WireError`."""
        try:
            frame = read_frame(data, self._hash, len(self.names), most_bytes=most_bytes)
        except (TypeError, BufferError, KeyError):  # of a mapping, which Python 3.12 asks for a slice as for any key
            frame = None
        if frame is None:
            raise WireError(MALFORMED, "a batch is bytes: plan.pack(reports) makes them")
        if frame.round >= self.plan.schedule.rounds:
            raise WireError(ANOTHER_ROUND, "this batch is of a round that the plan does not have")
        return frame

    def check(self, data: Any, *, allow_simulated: bool = False, most_bytes: int = MOST_BYTES) -> CheckedBatch:
        """Look at every field of every report. A batch that cannot be read as a whole raises `WireError`.

        Simulated reports are rejected, unless they are allowed, as in a trial.
        """
        frame = self.frame(data, most_bytes=most_bytes)
        refused = SIMULATED if frame.simulated and not allow_simulated else ""
        names, widths, kinds = self.names, self._widths, self._kinds
        verdicts = np.zeros(frame.reports, dtype=np.uint8)
        runs, kind, place, offset = list[_Run](), -1, 0, frame.rows
        parts, ends = list[int](), list[int]()
        for part, width, count in frame.sections:
            reason = ANOTHER_PLAN if part >= len(names) else WRONG_LENGTH if width != widths[part] else refused
            if reason:
                verdicts[place : place + count] = _CODES[reason]
                kind = -1
            else:
                if kinds[part] != kind:
                    kind = kinds[part]
                    runs.append(_Run(place, offset, parts := [], ends := []))
                parts.append(part)
                ends.append(place + count)
            place, offset = place + count, offset + width * count
        rows: dict[str, NDArray[Any]] = {}
        for first, start, parts, ends in runs:
            mechanism = self._mechanisms[parts[0]]
            reports = reports_of_bytes(mechanism, data, ends[-1] - first, start)
            valid = mechanism.valid(reports)
            stops = [end - first for end in ends]
            if not valid.all():
                verdicts[first : ends[-1]][~valid] = _CODES[OUT_OF_RANGE]
                reports, stops = reports[valid], np.cumsum(valid)[np.array(stops) - 1].tolist()
            begin = 0
            for part, end in zip(parts, stops, strict=True):
                rows[names[part]] = reports[begin:end]
                begin = end
        return CheckedBatch(self.plan.fingerprint, frame.round, frame.simulated, rows, verdicts)

    def unpack(self, data: Any, *, period: str | int | None = None) -> dict[str, Reports]:
        """The inverse of `pack`: refuses a batch of another round, and any report that is invalid."""
        number = self._round(period)
        batch = self.check(data, allow_simulated=True)
        if batch.round != number:
            raise WireError(ANOTHER_ROUND, "this batch is of another round than the one that was named")
        if batch.rejected:
            place = int((batch.verdicts > 0).argmax())
            raise InvalidReportError(
                f"report {place} of this batch is invalid ({batch.reason(place)}), so no honest client sent it; "
                "dither.wire.BatchFormat(plan).check(data) tells which of the others are fine"
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
        dropped: dict[str, int] = dict.fromkeys(REASONS, 0)
        rounds = set[int]()
        for batch in batches:
            if batch.plan != self.plan.fingerprint:
                raise ReportError("these batches are of another plan: tally them with that one")
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
        return self.plan.tally(
            {
                name: Reports.wrap(
                    np.concatenate(found[name]) if name in found else np.empty(0, dtype=mechanism.dtype), tag, simulated
                )
                for name, tag, mechanism in zip(self.names, self._tags, self._mechanisms, strict=True)
            }
        )

    # As JSON -------------------------------------------------------------------------------------------------------

    def to_json(self, data: Any) -> str:
        """The same batch as JSON; the reports are not looked at."""
        return json_of_frame(self.frame(data), data)

    def from_json(self, text: bytes | str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """The batch that a JSON text describes, in bytes: check them, or unpack them."""
        numbers = {name: place for place, name in enumerate(self.names)}
        return bytes_of_json(text, self.plan.fingerprint, numbers, most_bytes)
