"""The tally of a plan: a tally for each of its parts, and the hash of the plan that they belong to.

Its bytes end with a digest of the others: a count that a disk or a wire has changed would be a wrong estimate with a
small error bar, and nothing else would tell.
"""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from dither.core.tally import Tally, unpacked
from dither.errors import TallyError

_TALLY_FORMAT = "dither plan tally 2"
_DIGEST = 32  # bytes


@dataclass(frozen=True, eq=False)
class PlanTally:
    """A tally for each question; `a + b` merges."""

    plan: str
    parts: dict[str, Tally]

    def __add__(self, other: "PlanTally") -> "PlanTally":
        if not isinstance(other, PlanTally):
            return NotImplemented
        if self.plan != other.plan:
            raise TallyError("these tallies belong to different plans; estimate each on its own")
        if set(self.parts) != set(other.parts):
            raise TallyError("these tallies are of different questions, so one of them is damaged")
        return PlanTally(self.plan, {name: part + other.parts[name] for name, part in self.parts.items()})

    def __radd__(self, other: Any) -> "PlanTally":
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self.to_bytes() == other.to_bytes() if isinstance(other, PlanTally) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def to_bytes(self) -> bytes:
        """The same bytes for the same tally, on every machine. The plan's hash is in them."""
        parts = {name: part.to_bytes() for name, part in self.parts.items()}
        body = msgspec.msgpack.encode({"format": _TALLY_FORMAT, "plan": self.plan, "parts": parts})
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> "PlanTally":
        """The inverse of `to_bytes`; refuses anything that is not exactly the tally of a plan."""
        whole = bytes(data) if isinstance(data, bytes | bytearray | memoryview) else b""
        body, digest = whole[:-_DIGEST], whole[-_DIGEST:]
        stored = unpacked(body, _TALLY_FORMAT, PlanTallyFormat, "the tally of a plan")
        if hashlib.sha256(body).digest() != digest:
            raise TallyError("these bytes are a damaged tally: they are not what was written. Tally the reports again")
        tally = cls(stored.plan, {name: Tally.from_bytes(part) for name, part in stored.parts.items()})
        if tally.to_bytes() != whole:
            raise TallyError("these bytes are a damaged tally: they are not what a tally writes")
        return tally

    def __repr__(self) -> str:
        return f"PlanTally({', '.join(f'{name}: {part.n:,}' for name, part in self.parts.items())})"


class PlanTallyFormat(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    plan: str
    parts: Annotated[dict[str, bytes], msgspec.Meta(min_length=1)]
