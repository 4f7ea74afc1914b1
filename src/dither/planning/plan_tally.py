"""The tally of a plan: a tally for each of its parts, and the hash of the plan that they belong to.

Its bytes end with a digest of the others: a count that a disk or a wire has changed would be a wrong estimate with a
small error bar, and nothing else would tell. A digest is no secret: against somebody who changes a tally on purpose
there are seals (`core.seals`), and what n reports can add up to (`core.contributions`), which a plan knows.

A tally may know the files that its reports came from, each by a digest (`engines.report_files` says of what) with the
number of its reports. Then a file that is counted already is found out, and whoever adds tallies up cannot count one
twice. Reports from elsewhere, such as a stream or an older tally, are *unlisted*: of those it cannot be known.

Reports that were left out because they are invalid are in no count. How many there were is kept beside the counts, by
the reason (`core.reports`), for whoever reads the results.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from dither.core.reports import REASONS
from dither.core.seals import sealed, unsealed
from dither.core.tally import MOST_REPORTS, Tally, unpacked
from dither.errors import InvalidReportError, TallyError

_TALLY_FORMAT = "dither plan tally 2"
_LISTED_FORMAT = "dither plan tally 3"
_DIGEST = 32  # bytes
_HEAD = 32  # bytes in which the format is named


@dataclass(frozen=True, eq=False)
class PlanTally:
    """A tally for each question; `a + b` merges. Tallies with the same sums are equal, whatever files they list."""

    plan: str
    parts: dict[str, Tally]
    files: Mapping[str, int] = field(default_factory=dict)  # by their digests, in hexadecimal: how many reports
    dropped: Mapping[str, int] = field(default_factory=dict)  # by the reason: how many reports were left out

    def __post_init__(self) -> None:
        for name, part in self.parts.items():
            if part.n == 0 and part.counts.any():  # whatever the mechanism is
                raise TallyError(f"{name}: no reports add up to this tally: there are counts, and no reports")
        if any(reports > MOST_REPORTS for reports in self.files.values()):
            raise TallyError("this tally lists a file with more reports than any tally counts: tally the reports again")

    def __add__(self, other: "PlanTally") -> "PlanTally":
        return self.plus(other) if isinstance(other, PlanTally) else NotImplemented

    def plus(self, other: "PlanTally", *, allow_simulated: bool = False) -> "PlanTally":
        """The sum. Simulated reports would void the guarantee of the others: they are added if that is allowed."""
        self.refuse_unlike(other)
        if not allow_simulated and self.simulated != other.simulated and (other if self.simulated else self).reports:
            raise mixed_kinds(self.reports, other.reports)
        parts = {name: part + other.parts[name] for name, part in self.parts.items()}
        return PlanTally(self.plan, parts, {**self.files, **other.files}, _by_reason(self.dropped, other.dropped))

    def refuse_unlike(self, other: "PlanTally") -> None:
        """Refuse a tally that has no sum with this one: of another plan, or with files that this one counts too."""
        if self.plan != other.plan:
            raise TallyError("these tallies belong to different plans; estimate each on its own")
        if set(self.parts) != set(other.parts):
            raise TallyError("these tallies are of different questions, so one of them is damaged")
        twice = len(self.files.keys() & other.files.keys())
        if twice:
            raise TallyError(
                f"both of these tallies count {twice} file{'s' * (twice > 1)} of reports: it would be counted twice. "
                "Leave one of them out, and tally the other files again"
            )

    def __radd__(self, other: Any) -> "PlanTally":
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self._sums() == other._sums() if isinstance(other, PlanTally) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def simulated(self) -> bool:
        """Whether any of its reports came from a seed: then it has no guarantee."""
        return any(part.simulated for part in self.parts.values())

    @property
    def reports(self) -> int:
        """How many reports are counted."""
        return sum(part.n for part in self.parts.values())

    @property
    def rows(self) -> int:
        """How many reports were looked at: those that are counted, and those that were left out."""
        return self.reports + sum(self.dropped.values())

    @property
    def unlisted(self) -> int:
        """How many reports came from no file that is listed, whether they are counted or were left out."""
        return self.rows - sum(self.files.values())

    def without(self, names: Iterable[str]) -> "PlanTally":
        """The same without the counts of some of its parts."""
        parts = {name: self.parts[name] for name in names}
        empty = {name: Tally(part.mechanism, 0, np.zeros_like(part.counts)) for name, part in parts.items()}
        return replace(self, parts={**self.parts, **empty})

    def left_out(self, reason: str) -> "PlanTally":
        """The same with all of its reports left out: it counts none, and knows how many they were."""
        return replace(self.without(self.parts), dropped=_by_reason(self.dropped, {reason: self.reports}))

    @property
    def digest(self) -> str:
        """A hash of its sums, whatever files they came from: a plan of a later phase names its first tally by it."""
        return hashlib.sha256(msgspec.msgpack.encode(self._sums())).hexdigest()

    def to_bytes(self, *, key: bytes | None = None) -> bytes:
        """The same bytes for the same tally, on every machine; sealed, if there is a key. They name the plan."""
        stored = self._sums()
        if self.files:
            listed = [(bytes.fromhex(digest), self.files[digest]) for digest in sorted(self.files)]
            stored |= {"format": _LISTED_FORMAT, "files": listed}
        if self.dropped:
            stored |= {"dropped": _by_reason(self.dropped)}
        body = msgspec.msgpack.encode(stored)
        data = body + hashlib.sha256(body).digest()
        return data if key is None else sealed(data, key)

    def _sums(self) -> dict[str, Any]:
        parts = {name: part.to_bytes() for name, part in self.parts.items()}
        return {"format": _TALLY_FORMAT, "plan": self.plan, "parts": parts}

    @classmethod
    def from_bytes(cls, data: bytes, *, key: bytes | None = None) -> "PlanTally":
        """The inverse of `to_bytes`; refuses anything that is not exactly the tally of a plan.

        With a key only what is sealed with it; without one a seal is not looked at. What the tally claims is checked
        where its plan is known: `plan.check_tally`, and all that reads or merges with a plan.
        """
        data = unsealed(data, key)
        whole = bytes(data) if isinstance(data, bytes | bytearray | memoryview) else b""
        body, digest = whole[:-_DIGEST], whole[-_DIGEST:]
        files: dict[str, int] = {}
        if _LISTED_FORMAT.encode() in body[:_HEAD]:
            stored = unpacked(body, _LISTED_FORMAT, ListedTallyFormat, "the tally of a plan")
            files = {each.hex(): reports for each, reports in stored.files}
        else:
            stored = unpacked(body, _TALLY_FORMAT, PlanTallyFormat, "the tally of a plan")
        if hashlib.sha256(body).digest() != digest:
            raise TallyError("these bytes are a damaged tally: they are not what was written. Tally the reports again")
        parts = {name: Tally.from_bytes(part) for name, part in stored.parts.items()}
        tally = cls(stored.plan, parts, files, {str(reason): count for reason, count in stored.dropped.items()})
        if tally.unlisted < 0 or tally.to_bytes() != whole:
            raise TallyError("these bytes are a damaged tally: they are not what a tally writes")
        return tally

    def __repr__(self) -> str:
        left_out = f"; {sum(self.dropped.values()):,} left out" if self.dropped else ""
        return f"PlanTally({', '.join(f'{name}: {part.n:,}' for name, part in self.parts.items())}{left_out})"


def mixed_kinds(one: int, other: int) -> InvalidReportError:
    """The refusal of so many reports that are simulated with so many others that are not."""
    return InvalidReportError(
        f"some of these {one + other:,} reports are simulated from a seed, and others are not: the simulated ones "
        'would void the guarantee of all. invalid_reports="drop" leaves them out; allow_simulated=True counts them, '
        "and promises nothing"
    )


def _by_reason(*dropped: Mapping[str, int]) -> dict[str, int]:
    """The sum of what was left out, by reasons in their order, without those that did not occur."""
    counts = {reason: sum(each.get(reason, 0) for each in dropped) for reason in REASONS}
    if max(counts.values()) >= 1 << 63:
        raise TallyError("these tallies are too large to add: a count would not fit 64 bits")
    return {reason: count for reason, count in counts.items() if count}


FileDigest = Annotated[bytes, msgspec.Meta(min_length=_DIGEST, max_length=_DIGEST)]
FileReports = Annotated[int, msgspec.Meta(ge=1)]
Reason = Literal["malformed", "another plan", "wrong length", "out of range", "simulated"]


class PlanTallyFormat(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    plan: str
    parts: Annotated[dict[str, bytes], msgspec.Meta(min_length=1)]
    dropped: dict[Reason, FileReports] = {}


class ListedTallyFormat(PlanTallyFormat, forbid_unknown_fields=True, kw_only=True):
    files: Annotated[list[tuple[FileDigest, FileReports]], msgspec.Meta(min_length=1)]
