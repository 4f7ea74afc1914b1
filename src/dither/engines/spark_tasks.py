"""What runs in the workers of Spark.

A task is a small frozen value that is called with the rows of a partition. It holds the plan as text, which a worker
loads once in its life, because loading certifies it again. Tasks are sent by name: workers need this package too.

**Refusals are answers.** An error in a worker is tried again by Spark, three times, and reaches the user inside of a
Java stack trace. So a tally that is refused comes back as a row, as tallies do. Reports go into files, where there is
no place for such a row: there the error carries marks, by which the driver finds what was said.

**What is left out is part of the answer.** A tally says how many rows it left out, by the reason. Of a task that is
tried again, or run twice, Spark takes one answer, so these are counted once, as the others are; accumulators are not.

**No value gets out.** Errors of readers and of Arrow quote what they read, and Spark writes errors into logs. So where
raw records are handled, nothing but refusals of dither gets out, and their texts hold no value.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from dither import errors
from dither.engines.local import low, randomized, tallied
from dither.engines.record_readers import PARQUET
from dither.engines.record_sources import ROWS, Source, attempted
from dither.engines.records import RecordStream, open_records
from dither.engines.report_files import Piece
from dither.engines.report_rows import pack_rows, tallies_of_rows
from dither.errors import DitherError, ParameterError, require
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.tally_sums import sums_apart

ANSWER = "tally binary, kind string, reason string"  # a tally, or why there is none
ROWS_OF = "partition int, rows bigint"

_MARKED = re.compile(r"\[dither (\w+)\](.*?)\[/dither\]", re.DOTALL)
_REPORT_BYTES = 1 << 26  # of rows that are tallied at once
_STREAM = "sql.streaming.queryId"  # a property of all jobs of a stream
_CHANGED = (
    "the DataFrame gave other rows when it was read again, so that its rows have no numbers: a simulation needs them. "
    "Write it to files first, and randomize those"
)


class RefusedError(Exception):
    """A refusal of dither on its way through Spark, which keeps nothing of an error but its text."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"[dither {kind}]{reason}[/dither]")


def refusal(text: str) -> DitherError | None:
    """The error of a worker in what Spark says about it."""
    found = _MARKED.search(text)
    return None if found is None else error_of(found[1], found[2])


def error_of(kind: str, reason: str) -> DitherError:
    """An error of dither by the name of its kind; of one about a row, only its text came through."""
    known = errors.DomainError if kind == errors.RowError.__name__ else getattr(errors, kind, DitherError)
    return (known if isinstance(known, type) and issubclass(known, DitherError) else DitherError)(reason)


# Tallies ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TallyPieces:
    """Tallies pieces of files, which the worker reads by itself: a row of the partition is the number of a share."""

    plan: str
    shares: tuple[tuple[Piece, ...], ...]
    invalid_reports: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The tallies of the shares of a partition, as rows."""
        plan = _loaded(self.plan)
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        pieces = (piece for number in numbers for piece in self.shares[number])
        yield from _answer(tally for piece in pieces for tally in tallied(plan, piece, self.invalid_reports))


@dataclass(frozen=True)
class TallyRows:
    """Tallies the rows of a DataFrame of reports."""

    plan: str
    invalid_reports: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The tallies of the rows of a partition, as rows; none if there are none."""
        plan, groups = _loaded(self.plan), _gathered(batches)
        yield from _answer(tally for batch in groups for tally in tallies_of_rows(plan, batch, self.invalid_reports))


def stream_identity(batches: Iterable[Any]) -> Iterator[Any]:
    """The identity of the stream that this task belongs to, as a row; none outside of a stream."""
    arrow = require("pyarrow", "fast")
    rows = sum(batch.num_rows for batch in batches)
    context = require("pyspark", "spark").TaskContext.get()
    found = None if context is None else context.getLocalProperty(_STREAM)
    yield arrow.RecordBatch.from_arrays([arrow.array([found] * rows, arrow.string())], names=["stream"])


def merge(batches: Iterable[Any]) -> Iterator[Any]:
    """The sums of the tallies of a partition, as rows; or one of the refusals, if there are any."""
    yield from _answer(tallies(batches))


def tallies(batches: Iterable[Any]) -> Iterator[PlanTally]:
    """The tallies in rows of answers; refusals are raised."""
    for batch in batches:
        for row in batch.to_pylist():
            if row["kind"] is not None:
                raise error_of(row["kind"], row["reason"])
            yield PlanTally.from_bytes(row["tally"])


def _answer(found: Iterator[PlanTally]) -> Iterator[Any]:
    """The sum as a row, and another row for what is simulated; no row for no tallies, or the refusal as a row."""
    arrow = require("pyarrow", "fast")
    try:
        rows = [(tally.to_bytes(), None, None) for tally in sums_apart(found)]
    except DitherError as error:
        rows = [(None, type(error).__name__, str(error))]
    kinds = (arrow.binary(), arrow.string(), arrow.string())
    for row in rows:
        columns = [arrow.array([value], kind) for value, kind in zip(row, kinds, strict=True)]
        yield arrow.RecordBatch.from_arrays(columns, names=["tally", "kind", "reason"])


def _gathered(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches that are worth a call: Spark's have ten thousand rows, unless its settings say otherwise."""
    arrow = require("pyarrow", "fast")
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= ROWS or sum(each.nbytes for each in held) >= _REPORT_BYTES:
            yield from arrow.Table.from_batches(held).combine_chunks().to_batches()
            held.clear()
    if any(each.num_rows for each in held):
        yield from arrow.Table.from_batches(held).combine_chunks().to_batches()


# Reports ---------------------------------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """Some rows of a file of records: a row group of Parquet, or all of the file."""

    path: str
    title: str
    group: int | None
    first: int  # the number of its first row
    bytes: int


@dataclass(frozen=True)
class RandomizeChunks:
    """Reports of records in files, which the worker reads by itself: a row of a partition is the number of a share."""

    plan: str
    shares: tuple[tuple[Chunk, ...], ...]
    seed: int | None
    invalid: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The reports of the shares of a partition."""
        yield from _only_refusals(self._reports, batches)

    def _reports(self, batches: Iterable[Any]) -> Iterator[Any]:
        plan = _loaded(self.plan)
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        for chunk in (chunk for number in numbers for chunk in self.shares[number]):
            for _, reports in _reports(plan, _chunk(plan, chunk), self.seed, self.invalid, chunk.first):
                yield reports


@dataclass(frozen=True)
class RandomizeRows:
    """Reports of the rows of a DataFrame. For a simulation `rows` are the numbers of rows of all partitions."""

    plan: str
    seed: int | None
    invalid: str
    rows: tuple[int, ...] = ()

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The reports of the rows of a partition."""
        yield from _only_refusals(self._reports, batches)

    def _reports(self, batches: Iterable[Any]) -> Iterator[Any]:
        plan, place, done = _loaded(self.plan), _partition(), 0
        for users, reports in _reports(plan, _frame(plan, batches), self.seed, self.invalid, sum(self.rows[:place])):
            yield reports
            done += users
        if self.seed is not None and done != sum(self.rows[place : place + 1]):
            raise ParameterError(_CHANGED)


@dataclass(frozen=True)
class CountChunks:
    """How many records there are in files that do not know it, as CSV: a row of the partition is a file's number."""

    plan: str
    chunks: tuple[Chunk, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """A row for each file."""
        yield from _only_refusals(self._rows, batches)

    def _rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        plan = _loaded(self.plan)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            yield _count(number, _chunk(plan, self.chunks[number]).batches())


def count_rows(batches: Iterable[Any]) -> Iterator[Any]:
    """How many rows a partition has, as a row."""
    yield _count(_partition(), batches)


def _count(place: int, batches: Iterable[Any]) -> Any:
    arrow = require("pyarrow", "fast")
    rows = sum(batch.num_rows for batch in batches)
    columns = [arrow.array([place], arrow.int32()), arrow.array([rows], arrow.int64())]
    return arrow.RecordBatch.from_arrays(columns, names=["partition", "rows"])


def _reports(
    plan: Plan, given: RecordStream | None, seed: int | None, invalid: str, first: int
) -> Iterator[tuple[int, Any]]:
    """For each batch of records how many there are, and their reports."""
    for batch in low(plan, () if given is None else given.batches()):
        yield batch.num_rows, pack_rows(plan, randomized(plan, batch, seed, invalid, first))
        first += batch.num_rows


def _frame(plan: Plan, batches: Iterable[Any]) -> RecordStream | None:
    """The rows of a partition as records; None if there are none."""
    arrow, rows = require("pyarrow", "fast"), iter(batches)
    first = next(rows, None)
    if first is None:
        return None
    return open_records(arrow.RecordBatchReader.from_batches(first.schema, chain([first], rows)), plan.attributes)


def _chunk(plan: Plan, chunk: Chunk) -> RecordStream:
    if chunk.group is None:
        return open_records(chunk.path, plan.attributes)
    parquet = require("pyarrow.parquet", "fast")
    file = attempted(lambda: parquet.ParquetFile(chunk.path, memory_map=True), chunk.title, PARQUET)

    def read(names: Any) -> Iterator[Any]:
        with file:
            yield from file.iter_batches(ROWS, row_groups=[chunk.group], columns=list(names), use_threads=False)

    source = Source(chunk.path, chunk.title, PARQUET, file.schema_arrow, read)
    return RecordStream(chunk.path, None, (), plan.attributes, (source,))


def _only_refusals(work: Callable[[Iterable[Any]], Iterator[Any]], batches: Iterable[Any]) -> Iterator[Any]:
    """What the work yields; of its errors nothing but the refusals of dither, without what was behind them."""
    try:
        yield from work(batches)
        return
    except DitherError as error:
        kind, reason = type(error).__name__, str(error)
    except Exception as error:
        kind, reason = "DitherError", (
            f"randomizing failed in a worker of Spark, by an unexpected {type(error).__name__}. Its text is not shown, "
            "since it may quote a record; the local engine may say more"
        )  # fmt: skip
    raise RefusedError(kind, reason)


# The worker ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _loaded(plan: str) -> Plan:
    context = require("pyspark", "spark").TaskContext.get()
    cores = 1 if context is None else context.cpus()
    os.environ.setdefault("DITHER_THREADS", str(cores))  # the other cores have workers of their own
    return Plan.from_json(plan)


def _partition() -> int:
    return require("pyspark", "spark").TaskContext.get().partitionId()
