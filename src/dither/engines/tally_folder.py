"""A folder with one tally for each batch of a stream: what is written twice counts once.

A stream is cut into batches that have numbers. A batch may be computed twice: whoever computes it can be killed after
its tally was written, and before anybody noted that it is done. Adding it to a total would count it twice then, and to
note it first would lose it. So nothing is added up: the tally of batch 7 is the file `batch-000000000007.tally`, which
appears whole or not at all, and a second one takes the place of the first. The total is the sum of all files.

Numbers begin at zero and have no gaps, which `total` checks: a file that somebody has removed is missed, and not left
out in silence. `stream.json` says which plan and which stream they are of. Numbers of another stream, or of the same
one after its checkpoint was removed, begin at zero again, and would take the place of tallies that have nothing to do
with them; they are refused.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from dither.engines.paths import FolderPlace
from dither.engines.report_rows import nothing
from dither.errors import DitherError, ParameterError, TallyError
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.tally_sums import merged_tallies

_TALLY = ".tally"
_NAME = re.compile(r"batch-([0-9]{12,})\.tally")
_ABOUT = "stream.json"


class StreamFormat(msgspec.Struct, forbid_unknown_fields=True):
    """What stands in `stream.json`."""

    plan: str
    stream: str


@dataclass(frozen=True)
class TallyFolder:
    """Tallies of the batches of one stream, in a folder or at an address as `s3://bucket/tallies`.

    >>> import dither, tempfile
    >>> plan = dither.plan(dither.Schema({"age": dither.Ordinal(0, 3)}), epsilon=2.0, users=10_000)
    >>> folder = TallyFolder(tempfile.mkdtemp())
    >>> tally = plan.tally(plan.randomize({"age": [0, 1, 1, 2, 3]}))
    >>> for number in (0, 1, 1):  # the second batch was computed again
    ...     folder.put(number, tally)
    >>> folder.total(plan).reports
    10
    """

    path: str

    @property
    def _place(self) -> FolderPlace:
        return FolderPlace.at(self.path)

    def claim(self, plan: str, stream: str) -> None:
        """Say that this folder is for a plan, by its hash, and a stream; refuse if it is for another one."""
        found = self._about()
        if found is None:
            if self.batches():
                raise ParameterError(f"{self._place.name} has tallies and no {_ABOUT}: name another folder")
            self._write(_ABOUT, msgspec.json.encode(StreamFormat(plan, stream)))
        elif found.plan != plan:
            raise ParameterError(
                f"{self._place.name} has tallies of plan {found.plan[:12]}, not of plan {plan[:12]}: name another one"
            )
        elif found.stream != stream:
            raise ParameterError(
                f"{self._place.name} has tallies of another stream, or of this one before its checkpoint was removed: "
                "its batches are numbered anew, and would take the place of others. Go on with the old checkpoint, or "
                "name another folder for this stream and add up the totals of both"
            )

    def put(self, number: int, tally: PlanTally) -> None:
        """The tally of a batch; it takes the place of an earlier one of the same batch."""
        self._write(f"batch-{number:012d}{_TALLY}", tally.to_bytes())

    def batches(self) -> list[int]:
        """The numbers of the batches that are here."""
        return sorted(self._files())

    def total(self, plan: Plan, *, invalid_reports: str = "error", allow_simulated: bool = False) -> PlanTally:
        """The sum over all batches."""
        files = self._files()
        missing = sorted(set(range(max(files, default=-1) + 1)) - set(files))
        if missing:
            raise TallyError(
                f"{self._place.name} has no tally of batch {missing[0]}, and has later ones: a file was removed. Put "
                "it back; without it the sum would be short"
            )
        tallies = plan.checked_tallies([nothing(plan), *self._read(files)])
        return merged_tallies(tallies, invalid_reports=invalid_reports, allow_simulated=allow_simulated)

    def _files(self) -> dict[int, str]:
        names = [file.path.rpartition("/")[2] for file in self._place.files((_TALLY,))]
        return {int(named[1]): name for name in names if (named := _NAME.fullmatch(name))}

    def _read(self, files: dict[int, str]) -> Iterator[PlanTally]:
        place = self._place
        for number in sorted(files):
            try:
                yield PlanTally.from_bytes(place.file(files[number]).read())
                continue
            except DitherError as error:
                reason = str(error)
            raise TallyError(f"{place.name}/{files[number]}: {reason}")

    def _about(self) -> StreamFormat | None:
        place = self._place
        if not place.files((_ABOUT,)):
            return None
        try:
            return msgspec.json.decode(place.file(_ABOUT).read(), type=StreamFormat)
        except msgspec.DecodeError:
            pass
        raise ParameterError(f"{place.name}/{_ABOUT} is damaged: put it back, or name another folder")

    def _write(self, name: str, data: bytes) -> None:
        with self._place.new_file(name) as target:
            if isinstance(target, str):
                with open(target, "wb") as file:
                    file.write(data)
            else:
                target.write(data)
