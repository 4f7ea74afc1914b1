"""The tally of a plan: a tally for each of its parts, and the hash of the plan that they belong to.

Its bytes end with a digest of the others: a count that a disk or a wire has changed would be a wrong estimate with a
small error bar, and nothing else would tell. A digest is no secret: against somebody who changes a tally on purpose
there are seals (`core.seals`), and what n reports can add up to (`core.contributions`), which a plan knows.

A tally may know the files that its reports came from, each by a digest (`engines.report_files` says of what) with the
number of its reports. Then a file that is counted already is found out, and whoever adds tallies up cannot count one
twice. Reports from elsewhere, such as a stream or an older tally, are *unlisted*: of those it cannot be known.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from dither.core.seals import sealed, unsealed
from dither.core.tally import MOST_REPORTS, Tally, unpacked
from dither.errors import TallyError

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

    def __post_init__(self) -> None:
        for name, part in self.parts.items():
            if part.n == 0 and part.counts.any():  # whatever the mechanism is
                raise TallyError(f"{name}: no reports add up to this tally: there are counts, and no reports")
        if any(reports > MOST_REPORTS for reports in self.files.values()):
            raise TallyError("this tally lists a file with more reports than any tally counts: tally the reports again")

    def __add__(self, other: "PlanTally") -> "PlanTally":
        if not isinstance(other, PlanTally):
            return NotImplemented
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
        parts = {name: part + other.parts[name] for name, part in self.parts.items()}
        return PlanTally(self.plan, parts, {**self.files, **other.files})

    def __radd__(self, other: Any) -> "PlanTally":
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self._sums() == other._sums() if isinstance(other, PlanTally) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def unlisted(self) -> int:
        """How many reports came from no file that is listed."""
        return sum(part.n for part in self.parts.values()) - sum(self.files.values())

    def to_bytes(self, *, key: bytes | None = None) -> bytes:
        """The same bytes for the same tally, on every machine; sealed, if there is a key. They name the plan."""
        body = msgspec.msgpack.encode(self._sums())
        if self.files:
            listed = [(bytes.fromhex(digest), self.files[digest]) for digest in sorted(self.files)]
            body = msgspec.msgpack.encode({**self._sums(), "format": _LISTED_FORMAT, "files": listed})
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
        tally = cls(stored.plan, {name: Tally.from_bytes(part) for name, part in stored.parts.items()}, files)
        if tally.unlisted < 0 or tally.to_bytes() != whole:
            raise TallyError("these bytes are a damaged tally: they are not what a tally writes")
        return tally

    def __repr__(self) -> str:
        return f"PlanTally({', '.join(f'{name}: {part.n:,}' for name, part in self.parts.items())})"


FileDigest = Annotated[bytes, msgspec.Meta(min_length=_DIGEST, max_length=_DIGEST)]
FileReports = Annotated[int, msgspec.Meta(ge=1)]


class PlanTallyFormat(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    plan: str
    parts: Annotated[dict[str, bytes], msgspec.Meta(min_length=1)]


class ListedTallyFormat(PlanTallyFormat, forbid_unknown_fields=True):
    files: Annotated[list[tuple[FileDigest, FileReports]], msgspec.Meta(min_length=1)]
