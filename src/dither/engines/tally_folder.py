"""A folder with one tally for each batch of a stream: what is written twice counts once.

A stream is cut into batches that have numbers. A batch may be computed twice: whoever computes it can be killed after
its tally was written, and before anybody noted that it is done. Adding it to a total would count it twice then, and to
note it first would lose it. So nothing is added up: the tally of batch 7 is the file `batch-000000000007.tally`, which
appears whole or not at all, and a second one takes the place of the first. The total is the sum of all files.

**Compaction.** A stream of a batch a minute has half a million files after a year. When batch 1,000 is there, Spark has
noted all before it as done, and computes none of them again. So those are added up into `sum-000000000999.tally`, which
takes their place from the moment at which it appears: a file of a batch that it counts is not looked at any more, and
is removed. Whoever dies in between leaves such files, and the next compaction removes them.

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
_NAME = re.compile(r"(batch|sum)-([0-9]{12,})\.tally")
_TRIES = 5  # to read files while another process adds them up
_ABOUT = "stream.json"

COMPACTED = 1000  # batches after which they are added up


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
        if number and number % COMPACTED == 0:
            self.compact(number)

    def compact(self, before: int) -> None:
        """Add up the tallies of all batches before one: of those that nobody computes again."""
        files = {number: name for number, name in self._files()[0].items() if number < before}
        if len(_counted(files)) < before:  # one is missing, which `total` tells
            return
        tallies = list(self._read(files))
        if len({tally.simulated for tally in tallies}) > 1:  # which may not be mixed
            return
        total = merged_tallies(tallies, invalid_reports="drop", allow_simulated=True)
        self._write(f"sum-{before - 1:012d}{_TALLY}", total.to_bytes())
        for name in self._files()[1]:
            self._place.remove(name)

    def batches(self) -> list[int]:
        """The numbers of the batches that are here, also of those that were added up."""
        return _counted(self._files()[0])

    def total(self, plan: Plan, *, invalid_reports: str = "error", allow_simulated: bool = False) -> PlanTally:
        """The sum over all batches."""
        for left in reversed(range(_TRIES)):
            try:
                tallies = plan.checked_tallies([nothing(plan), *self._read(self._whole())])
            except FileNotFoundError:  # another process has added them up meanwhile
                if not left:
                    raise
                continue
            return merged_tallies(tallies, invalid_reports=invalid_reports, allow_simulated=allow_simulated)
        raise AssertionError

    def _whole(self) -> dict[int, str]:
        """The files that count, of which none is missing."""
        files, _ = self._files()
        batches = _counted(files)
        missing = sorted(set(range(max(batches, default=-1) + 1)) - set(batches))
        if missing:
            raise TallyError(
                f"{self._place.name} has no tally of batch {missing[0]}, and has later ones: a file was removed. Put "
                "it back; without it the sum would be short"
            )
        return files

    def _files(self) -> tuple[dict[int, str], list[str]]:
        """The files that count by their last batch, and those whose batches the longest sum counts."""
        names = [file.path.rpartition("/")[2] for file in self._place.files((_TALLY,))]
        named = {name: (match[1], int(match[2])) for name in names if (match := _NAME.fullmatch(name))}
        longest = max((number for kind, number in named.values() if kind == "sum"), default=-1)
        counting = {number: name for name, (kind, number) in named.items() if number > longest}
        if longest >= 0:
            counting[longest] = f"sum-{longest:012d}{_TALLY}"
        return counting, sorted(named.keys() - counting.values())

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


def _counted(files: dict[int, str]) -> list[int]:
    """The numbers of all batches that are counted in files."""
    summed = max((number for number, name in files.items() if name.startswith("sum-")), default=0)
    return [*range(summed), *sorted(files)]
