"""A stored tally to which a new day's files are added, each once.

A tally is a sum, so the files of a new day need not be tallied together with those of all the days before. What a sum
does not show is which reports are in it, and a file that is counted twice is a mistake that no later check would find.
So the stored tally lists the files that it counts by their digests (`ReportFile.digest`), and a file that is listed is
left out: the same files may be given again and again, as after a run of which nobody knows how far it came, or as a
folder that grows. The order does not matter, and the result is the tally of all the files at once, to the bit.

The sum and its list are replaced together, in one step, when all the new files are counted. A run that fails or is
killed before leaves the stored tally as it was, and the next one adds the same files. Where the system has locks, two
runs at a time cannot add to one tally: the second is refused.

Reports that came from no file, or are in a tally that was stored without its list, cannot be recognised: `unlisted`
says how many there are.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dither.core.atomic_write import locked, write_bytes
from dither.core.seals import is_sealed
from dither.engines.local import Local, Progress
from dither.engines.report_files import ReportFile, report_files
from dither.engines.report_rows import nothing
from dither.errors import DitherError, TallyError
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.tally_sums import merged_tallies


@dataclass(frozen=True)
class Addition:
    """What was added to a stored tally."""

    tally: PlanTally  # as it is stored now
    added: tuple[str, ...]  # files
    counted_before: tuple[str, ...]  # files that were in it already, and were left out
    reports: int  # that were added
    unlisted: int  # reports that were in it before, from no file that it lists: the new files may be among theirs
    dropped: Mapping[str, int] = field(default_factory=dict)  # by the reason: how many were left out this time


def listed_tally(tally: PlanTally, files: Iterable[ReportFile]) -> PlanTally:
    """The tally of some files, with the list of them."""
    return replace(tally, files={file.digest: file.rows for file in files if file.rows})


def add_to_tally(
    path: str | Path,
    plan: Plan,
    source: Any,
    *,
    invalid_reports: str = "error",
    allow_simulated: bool = False,
    progress: Progress | None = None,
    key: bytes | None = None,
) -> Addition:
    """Add files of reports to the tally that is stored at `path`, each once; without a file there, it is begun.

    `source` is a path, a pattern, a folder, an address, or a list of these. Files that the tally lists are left out.
    Invalid reports, and simulated ones beside others, are refused or left out as by `Local().tally`: with
    `invalid_reports="drop"` a stored tally that is simulated is left out, once there are reports that are not.
    With a `key` the stored tally must be sealed with it, and is again; what is sealed is not added to without its key.

    >>> import tempfile, dither
    >>> from dither.engines import Local
    >>> plan = dither.plan(dither.Schema({"age": dither.Ordinal(0, 3)}), epsilon=2.0, users=10_000)
    >>> folder = Path(tempfile.mkdtemp())
    >>> for day, ages in {"monday": [0, 1, 1], "tuesday": [3, 3]}.items():
    ...     _ = Local().randomize(plan, {"age": ages}, folder / f"{day}.parquet")
    >>> add_to_tally(folder / "all.tally", plan, folder / "monday.parquet").reports
    3
    >>> found = add_to_tally(folder / "all.tally", plan, folder)  # with monday again
    >>> found.reports, len(found.counted_before), found.tally.unlisted
    (2, 1, 0)
    """
    place, files = Path(path), report_files(source, plan, invalid_reports=invalid_reports)

    def tallied_files(some: list[ReportFile], *stored: PlanTally) -> PlanTally:
        """The tally of some files, and of what is stored."""
        found = Local().tally(
            plan, some, invalid_reports=invalid_reports, allow_simulated=allow_simulated, progress=progress
        )
        both = [*stored, listed_tally(found, some)]
        return merged_tallies(both, invalid_reports=invalid_reports, allow_simulated=allow_simulated)

    if not place.exists():
        total = tallied_files(files)
        if place.exists():
            raise _busy(place)
        write_bytes(place, total.to_bytes(key=key))
        return Addition(total, tuple(file.path for file in files), (), total.reports, 0, total.dropped)
    with _alone(place):
        stored = _stored(place, plan, key)
        new = [file for file in files if file.digest not in stored.files]
        total = stored
        if new:
            total = tallied_files(new, stored)
            write_bytes(place, total.to_bytes(key=key))
    before = tuple(file.path for file in files if file.digest in stored.files)
    kept = 0 if stored.simulated and not total.simulated else stored.reports
    dropped = {reason: count - stored.dropped.get(reason, 0) for reason, count in total.dropped.items()}
    dropped = {reason: count for reason, count in dropped.items() if count}
    return Addition(total, tuple(file.path for file in new), before, total.reports - kept, stored.unlisted, dropped)


def _stored(place: Path, plan: Plan, key: bytes | None) -> PlanTally:
    try:
        data = place.read_bytes()
        if key is None and is_sealed(data):
            raise TallyError("it is sealed, and would not be any more: give the key that it is sealed with")
        stored = nothing(plan) + PlanTally.from_bytes(data, key=key)
        plan.check_tally(stored)
        return stored
    except DitherError as error:
        reason = str(error)
    except OSError as error:
        reason = f"it cannot be read: {os.strerror(error.errno or 0).lower()}"
    raise TallyError(f"{place}: {reason}. Nothing was added")


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Nobody else adds to a file meanwhile, where the system has locks: of two sums the first would be lost."""
    with place.open("rb") as file:
        # A run that ended a moment ago may have replaced it.
        if locked(file.fileno()) is False or not os.path.samestat(os.fstat(file.fileno()), os.stat(place)):
            raise _busy(place)
        yield


def _busy(place: Path) -> TallyError:
    return TallyError(f"{place}: another run adds to it at this moment. Nothing was added; wait for it, and run again")
