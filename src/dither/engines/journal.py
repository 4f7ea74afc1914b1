"""What a tally has counted already, kept where a run that is stopped can go on.

The journal is one small file: the pieces that are counted, and their tally. Both are replaced in one step, so that
after a crash at any moment they fit each other, and the next run goes on with the pieces that are left: nothing is
lost but the last seconds, and nothing is counted twice.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dither.core.errors import TallyError
from dither.core.writing import write_bytes
from dither.engines.pieces import Piece, ReportFile
from dither.engines.rows import nothing
from dither.planning.plans import Plan
from dither.planning.tallies import PlanTally

_FORMAT = "dither journal 1"
_PAUSE = 2.0  # seconds between two writes


@dataclass
class Journal:
    """The pieces of a tally that are counted, and their sum."""

    path: Path | None  # where it is written down, if anywhere
    plan: str
    total: PlanTally
    counted: dict[str, set[int]] = field(default_factory=dict)  # numbers of pieces, by the identity of their file
    _saved: float = field(default_factory=time.monotonic)

    @classmethod
    def at(cls, path: str | Path | None, plan: Plan) -> "Journal":
        """The journal of an interrupted run, or a new one."""
        place = None if path is None else Path(path)
        if place is None or not place.exists():
            return cls(place, plan.fingerprint, nothing(plan))
        stored = None
        with suppress(msgspec.MsgspecError, OSError, UnicodeDecodeError):
            stored = msgspec.msgpack.decode(place.read_bytes(), type=_Stored)
        if stored is None or stored.format != _FORMAT:
            raise TallyError(f"{place} is no journal of a tally; remove it, or pass --restart to begin anew")
        if stored.plan != plan.fingerprint:
            raise TallyError(
                f"{place} is the journal of an interrupted tally for plan {stored.plan[:12]}, not for plan "
                f"{plan.fingerprint[:12]}; choose another output, or pass --restart to forget it"
            )
        counted = {file: set(numbers) for file, numbers in stored.counted.items()}
        return cls(place, stored.plan, PlanTally.from_bytes(stored.tally), counted)

    def left(self, files: Iterable[ReportFile]) -> list[Piece]:
        """The pieces that are not counted yet."""
        given = list(files)
        gone = len(set(self.counted) - {file.identity for file in given})
        if gone:
            raise TallyError(
                f"the interrupted run has counted {gone} file{'s' * (gone > 1)} of those that are not named now; name "
                "the same files again, or pass --restart to begin anew"
            )
        return [
            piece for file in given for piece in file.pieces if piece.number not in self.counted.get(file.identity, ())
        ]

    def add(self, piece: Piece, tally: PlanTally) -> None:
        """Another piece is counted; now and then this is written down."""
        self.total += tally
        self.counted.setdefault(piece.file, set()).add(piece.number)
        if time.monotonic() - self._saved > _PAUSE:
            self.save()

    def save(self) -> None:
        """Write down what is counted."""
        if self.path is None or not self.counted:
            return
        counted = {file: sorted(numbers) for file, numbers in self.counted.items()}
        write_bytes(self.path, msgspec.msgpack.encode(_Stored(_FORMAT, self.plan, counted, self.total.to_bytes())))
        self._saved = time.monotonic()


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    plan: str
    counted: dict[str, list[int]]
    tally: bytes
