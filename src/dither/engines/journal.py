"""What a tally has counted already, kept where a run that is stopped can go on.

The journal is one small file: the pieces that are counted, and their tally. Both are replaced in one step, in memory
and on the disk, so that after a crash or a stop at any moment they fit each other, and the next run goes on with the
pieces that are left: nothing is lost but the last seconds, and nothing is counted twice. Two runs at the same time on
one journal do the work twice, but each counts on its own: the file is always of one of them.

Until the run has ended its sums are nobody else's business: only the owner may read a journal (mode 0600).

A journal is believed only if it is exactly what was written, as a hash tells. With a key the hash is a seal
(`core.seals`) of all of it: who could write a list of pieces beside a tally that was sealed elsewhere would have it
sealed again, as if these pieces had been counted. A file that has other pieces now than
when some of them were counted is refused.
"""

import hashlib
import hmac
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from dither.core.atomic_write import write_bytes
from dither.core.reports import drops
from dither.core.seals import checked_key, seal_of
from dither.engines.report_files import Piece, ReportFile
from dither.engines.report_rows import nothing
from dither.errors import TallyError
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.tally_sums import sums_apart

_FORMAT = "dither journal 1"
_PAUSE = 2.0  # seconds between two writes
_DIGEST = 32  # bytes
_ANEW = "remove the journal to begin anew"


class JournalError(TallyError):
    """A journal that a tally cannot go on from: it is damaged, of another plan, or its files have changed."""


@dataclass
class Journal:
    """The pieces of a tally that are counted, and their sum."""

    path: Path | None  # where it is written down, if anywhere
    plan: str
    # The sums, what is simulated apart, and of how many pieces: one value, since Ctrl-C may come between two steps.
    _state: tuple[tuple[PlanTally, ...], int]
    _pieces: list["_Counted"] = field(default_factory=list)
    _saved: float = field(default_factory=time.monotonic)
    key: bytes | None = field(default=None, repr=False)

    @classmethod
    def at(
        cls, path: str | Path | None, plan: Plan, *, invalid_reports: str = "drop", key: bytes | None = None
    ) -> "Journal":
        """The journal of an interrupted run, or a new one; sealed, if there is a key.

        With `invalid_reports="error"`, one that has left out reports is refused.
        """
        place, drop = None if path is None else Path(path), drops(invalid_reports)
        if place is None or not place.exists():
            return cls(place, plan.fingerprint, ((nothing(plan),), 0), key=key)
        stored = _read(place, key)
        if stored is None or stored.format != _FORMAT:
            sealed = "" if key is None else ", or was not sealed with this key"
            raise JournalError(f"{place} is no journal of a tally, or is damaged{sealed}; {_ANEW}")
        if stored.plan != plan.fingerprint:
            raise JournalError(
                f"{place} is the journal of an interrupted tally for plan {stored.plan[:12]}, not for plan "
                f"{plan.fingerprint[:12]}; choose another output, or {_ANEW}"
            )
        pieces = stored.counted
        sums = [PlanTally.from_bytes(each) for each in (stored.tally, stored.simulated) if each]
        for each in sums:
            plan.check_tally(each)
        total = sums_apart([nothing(plan), *sums])
        if sum(tally.rows for tally in total) != sum(piece.rows for piece in pieces):
            raise JournalError(f"{place} is damaged: its tally is not of the pieces that it names; {_ANEW}")
        if not drop and any(tally.dropped for tally in total):
            raise JournalError(
                "the interrupted run has left out invalid reports, and now they are to be refused: "
                f'go on with invalid_reports="drop"; or {_ANEW}'
            )
        return cls(place, stored.plan, (total, len(pieces)), pieces, key=key)

    @property
    def tallies(self) -> tuple[PlanTally, ...]:
        """The sums over what is counted: of the reports that are not simulated, and of those that are."""
        return self._state[0]

    @property
    def rows(self) -> int:
        """How many rows are done."""
        return sum(tally.rows for tally in self.tallies)

    @property
    def counted(self) -> dict[str, set[int]]:
        """The numbers of the pieces that are counted, by the identity of their file."""
        found: dict[str, set[int]] = {}
        for piece in self._pieces[: self._state[1]]:
            found.setdefault(piece.file, set()).add(piece.number)
        return found

    def left(self, files: Iterable[ReportFile]) -> list[Piece]:
        """The pieces that are not counted yet."""
        given = list(files)
        counted = self._pieces[: self._state[1]]
        gone = len({piece.file for piece in counted} - {file.identity for file in given})
        if gone:
            raise JournalError(
                f"the interrupted run has counted {gone} file{'s' * (gone > 1)} of those that are not named now, or "
                f"were written anew; name the same files again; or {_ANEW}"
            )
        pieces = {_counted(piece): piece for file in given for piece in file.pieces}
        for done in counted:
            if pieces.pop(done, None) is None:
                path = next(file.path for file in given if file.identity == done.file)
                raise JournalError(f"{path} was written anew since the interrupted run has counted some of it; {_ANEW}")
        return list(pieces.values())

    def add(self, piece: Piece, *tallies: PlanTally) -> None:
        """Another piece is counted; now and then this is written down."""
        total, count = self._state
        self._pieces[count:] = [_counted(piece)]
        self._state = sums_apart([*total, *tallies]), count + 1
        if time.monotonic() - self._saved > _PAUSE:
            self.save()

    def save(self) -> None:
        """Write down what is counted."""
        total, count = self._state
        if self.path is None or not count:
            return
        tallies = (tally.to_bytes() for tally in total)
        data = msgspec.msgpack.encode(JournalFormat(_FORMAT, self.plan, self._pieces[:count], *tallies))
        write_bytes(self.path, _digest(data, self.key) + data, private=True)
        self._saved = time.monotonic()


class _Counted(NamedTuple):
    """A piece, wherever its file is now."""

    file: str
    number: int
    rows: int
    bytes: int


def _counted(piece: Piece) -> _Counted:
    return _Counted(piece.file, piece.number, piece.rows, piece.bytes)


class JournalFormat(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    format: str
    plan: str
    counted: list[_Counted]
    tally: bytes
    simulated: bytes = b""


def _digest(data: bytes, key: bytes | None) -> bytes:
    return hashlib.sha256(data).digest() if key is None else seal_of(data, checked_key(key))


def _read(place: Path, key: bytes | None) -> JournalFormat | None:
    """What is stored there, if it is what was written."""
    with suppress(msgspec.MsgspecError, OSError, UnicodeDecodeError):
        data = place.read_bytes()
        if hmac.compare_digest(_digest(data[_DIGEST:], key), data[:_DIGEST]):
            return msgspec.msgpack.decode(data[_DIGEST:], type=JournalFormat)
    return None
