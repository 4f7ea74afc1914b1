"""The raw batches of a campaign as files of reports: for engines that are larger than one collector.

A collector counts what it takes in, and scrubs it. Where its batches are kept for some time (`keep_reports`), they can
be written out as Parquet files with the columns `tag` and `report` (docs/formats.md), which `dither tally` reads, and
Spark, and any query engine. The tally of all files is the collector's own, to the bit, if no batch was scrubbed before
it was written.

**Nothing twice.** A file is made of whole raw groups, and its metadata say which: so the folder itself knows what it
has. A later run adds the groups that are not there yet, one that was killed goes on, and none is written twice. Numbers
of groups mean something in one store only: a folder with files of another store is refused, since its numbers would
pass for those of this one. A file's number, by which copies are known (`engines.report_files`), comes from the store
and its groups, so that the same groups in two folders are refused by a tally of both.

**Whole files.** A file has its name when all of it is on the disk, or in the object store.

**What is not written.** Reports that the collector rejected; who sent what and when; which batch a report was in. Rows
lie part by part. Rounds have a folder each, since a file does not say its round.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dither.collect.store import Campaign, RawGroup, Store
from dither.core.atomic_write import locked, write_errors
from dither.core.reports import Reports
from dither.engines.local import parquet_writer
from dither.engines.paths import FilePlace, FolderPlace
from dither.engines.report_files import damage_explained
from dither.engines.report_rows import FILE, pack_rows, rows_schema
from dither.errors import ParameterError, ReportError, require
from dither.planning.plans import Plan
from dither.wire import BatchFormat, CheckedBatch

GROUPS = b"dither.groups"
PARQUET = ".parquet"

_FILE_BYTES = 64 << 20  # of batches that become one file; those of one group stay together
_FILE_GROUPS = 20_000
_LOCK = ".export.lock"


class GroupsFormat(msgspec.Struct, forbid_unknown_fields=True):
    """What a file's metadata say about where its reports are from."""

    store: str  # the identity of the campaign in its store
    ranges: list[tuple[int, int]]  # numbers of raw groups, from the first to the last
    batches: int


@dataclass(frozen=True)
class Exported:
    """What a run has written, and what it found."""

    folder: str
    files: tuple[str, ...] = ()
    reports: int = 0
    batches: int = 0
    rejected: int = 0  # reports of these batches that the collector had rejected
    batches_before: int = 0  # that were in the folder already
    missing: int = 0  # batches that were acknowledged, and were scrubbed before they were written


def export_reports(
    store: Store, campaign: Campaign, folder: str, *, progress: Callable[[int], object] | None = None
) -> Exported:
    """Write the raw batches of a campaign that are not there yet to `folder`, a path or an address.

    They go to a folder inside of it that is called by the first twelve letters of the plan's hash, and those of a plan
    with rounds to one for each round.
    """
    require("pyarrow.parquet", "fast")
    plan = Plan.from_json(campaign.document.decode("utf-8"))
    place = FolderPlace.at(folder).inside(campaign.plan[:12])
    if not store.raw_groups(campaign.number) and not place.there():  # no empty folder, which looks like an export
        return Exported(place.name, missing=store.counted(campaign.number).batches)
    with _alone(place):
        return _Export(store, campaign, plan, place, progress).run()


class _Export:
    """One run: what is known of the folder, and what was written."""

    def __init__(
        self,
        store: Store,
        campaign: Campaign,
        plan: Plan,
        place: FolderPlace,
        progress: Callable[[int], object] | None,
    ) -> None:
        self.store, self.campaign, self.plan, self.place, self.progress = store, campaign, plan, place, progress
        self.format, self.identity = BatchFormat(plan), store.identity(campaign.number)
        self.known = {number: self._written(number) for number in range(plan.schedule.rounds)}
        self.files: list[str] = []
        self.reports = self.batches = self.rejected = 0

    def run(self) -> Exported:
        before = sum(facts.batches for _, files in self.known.values() for facts in files)
        acknowledged = self.store.counted(self.campaign.number).batches  # before: more may arrive meanwhile
        left = self.store.raw_groups(self.campaign.number)
        if not self.plan.schedule.repeats:  # a group of a plan with rounds may be in several folders: it is looked at
            left = [group for group in left if group.number not in self.known[0][0]]
        for groups in _cut(left):
            self._write(groups)
        missing = max(0, acknowledged - before - self.batches)
        return Exported(self.place.name, tuple(self.files), self.reports, self.batches, self.rejected, before, missing)

    def _round(self, number: int) -> FolderPlace:
        return self.place.inside(f"round-{number:04d}") if self.plan.schedule.repeats else self.place

    def _written(self, number: int) -> tuple[set[int], list[GroupsFormat]]:
        """The groups that the folder of a round has already."""
        facts = [_facts(file) for file in self._round(number).files((PARQUET,))]
        if any(each.store != self.identity for each in facts):
            raise ParameterError(
                f"{self.place.name} has reports from another store, so which of these are there already cannot be "
                "told: export each store to a folder of its own"
            )
        return {one for each in facts for first, last in each.ranges for one in range(first, last + 1)}, facts

    def _write(self, groups: Sequence[RawGroup]) -> None:
        """Some groups as a file, or one for each round."""
        rounds: dict[int, list[tuple[int, CheckedBatch]]] = {}
        for group in groups:
            for body in self.store.bodies(group.number):  # none, if it was scrubbed a moment ago
                batch = self.format.check(body)
                if group.number not in self.known[batch.round][0]:
                    rounds.setdefault(batch.round, []).append((group.number, batch))
        for number, found in sorted(rounds.items()):
            numbers = sorted({group for group, _ in found})
            facts = GroupsFormat(self.identity, list(_ranges(numbers)), len(found))
            named = hashlib.sha256(msgspec.json.encode([facts.store, number, facts.ranges])).hexdigest()[:32]
            layout = rows_schema(self.plan, {FILE: named.encode(), GROUPS: msgspec.json.encode(facts)})
            rows = pack_rows(self.plan, self._reports([batch for _, batch in found]))
            folder, name = self._round(number), f"reports-{numbers[0]:012d}-{numbers[-1]:012d}{PARQUET}"
            with folder.new_file(name) as target, parquet_writer(target, layout) as write:
                for start in range(0, rows.num_rows, 1 << 18):
                    write(rows.slice(start, 1 << 18))
            self.files.append(f"{folder.name}/{name}")
            self.reports += rows.num_rows
            self.batches += len(found)
            self.rejected += sum(sum(batch.rejected.values()) for _, batch in found)
            if self.progress is not None:
                self.progress(rows.num_rows)

    def _reports(self, batches: Sequence[CheckedBatch]) -> dict[str, Reports]:
        """What was accepted of batches, by the part."""
        found: dict[str, Reports] = {}
        for part in self.plan.parts:
            own: list[Any] = [batch.rows[part.name] for batch in batches if part.name in batch.rows]
            joined = np.concatenate(own) if own else np.empty(0, dtype=part.mechanism.dtype)
            found[part.name] = Reports.wrap(joined, self.plan.tag(part))
        return found


def _cut(groups: Iterable[RawGroup]) -> Iterator[list[RawGroup]]:
    """Groups that become a file together."""
    held: list[RawGroup] = []
    size = 0
    for group in groups:
        if held and (size + group.size > _FILE_BYTES or len(held) >= _FILE_GROUPS):
            yield held
            held, size = [], 0
        held.append(group)
        size += group.size
    if held:
        yield held


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as ranges.

    >>> list(_ranges([1, 2, 3, 7, 9, 10]))
    [(1, 3), (7, 7), (9, 10)]
    """
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last


def _facts(file: FilePlace) -> GroupsFormat:
    """Which groups a file of the folder has."""
    parquet = require("pyarrow.parquet", "fast")
    (schema,) = damage_explained(file.name, (parquet.read_schema(each.parquet()) for each in (file,)))
    try:
        return msgspec.json.decode((schema.metadata or {})[GROUPS], type=GroupsFormat)
    except (KeyError, msgspec.DecodeError):  # a ValidationError is one too
        pass
    raise ReportError(f"{file.name} was not written by an export of batches: export to a folder of its own")


@contextmanager
def _alone(place: FolderPlace) -> Iterator[None]:
    """Two runs at once would write the same groups; elsewhere than on this machine nobody can tell."""
    if place.filesystem is not None:
        yield
        return
    with write_errors(place.name):
        os.makedirs(place.path, exist_ok=True)
        number = os.open(Path(place.path) / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if locked(number) is False:
            raise ParameterError(f"another export writes to {place.name}: wait until it is done")
        yield
    finally:
        os.close(number)
