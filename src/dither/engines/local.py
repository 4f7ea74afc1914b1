"""The local engine: pieces of files stream through the kernels, on all cores, in memory that does not grow with them.

Each thread decodes a piece and tallies it; only a few pieces are in memory at once. Tallies are integers, so the order
in which threads finish does not matter. A file that comes as one piece is tallied by all threads together instead.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dither.core.atomic_write import atomic_path, write_errors
from dither.core.parallel import as_they_come
from dither.core.reports import Reports
from dither.engines.arrow_checksums import checked_stream, with_checksums
from dither.engines.arrow_streams import whole_stream
from dither.engines.journal import Journal
from dither.engines.records import open_records
from dither.engines.report_files import ARROW, PARQUET, Piece, ReportFile, damage_explained, report_files
from dither.engines.report_rows import REPORT, TAG, has_columns, nothing, pack_rows, rows_schema, tallies_of_rows
from dither.errors import DitherError, ParameterError, ReportError, require
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.table_streams import ITERATOR, is_table, table_kind, table_stream
from dither.planning.tally_sums import merged_tallies, sums_apart

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

Progress = Callable[[int], object]

_GROUP = 1 << 18  # rows of a row group: a piece of a later tally
_GROUP_BYTES = 1 << 27
STANDARD = "-"  # standard input or output


@dataclass(frozen=True)
class Local:
    """Tallies and randomizes on this machine."""

    def tally(
        self,
        plan: Plan,
        source: Any,
        *,
        invalid_reports: str = "error",
        allow_simulated: bool = False,
        progress: Progress | None = None,
        journal: str | Path | None = None,
        key: bytes | None = None,
    ) -> PlanTally:
        """The sums over all reports of a source: files, a table (see `planning.table_streams`), or batches.

        A row that is no report of the plan is refused, and so are simulated reports among others that are not;
        `invalid_reports="drop"` leaves both out, and counts them by reason (`dropped` of the tally). What cannot be
        read, such as a damaged file, is refused either way. With `allow_simulated` all are counted, and nothing is
        promised (`planning.tally_sums`).

        With `journal`, a path, a run that was stopped goes on where it was. Remove that file when the tally is safe.
        With `key`, what is written there is sealed, as the tally will be.
        """
        if is_table(source):
            found = self._tally_batches(plan, _batches(source), invalid_reports, progress)
        else:
            files = report_files(source, plan, invalid_reports=invalid_reports)
            counted = Journal.at(journal, plan, invalid_reports=invalid_reports, key=key)
            found = self._tally_files(plan, files, invalid_reports, progress, counted)
        return merged_tallies(found, invalid_reports=invalid_reports, allow_simulated=allow_simulated)

    def _tally_files(
        self,
        plan: Plan,
        files: Sequence[ReportFile],
        invalid_reports: str,
        progress: Progress | None,
        counted: Journal,
    ) -> Sequence[PlanTally]:
        left = counted.left(files)
        advance(progress, sum(file.rows for file in files) - sum(piece.rows for piece in left))
        try:
            for piece, tallies in as_they_come(lambda piece: tallied(plan, piece, invalid_reports), left):
                counted.add(piece, *tallies)
                advance(progress, piece.rows)
        finally:
            counted.save()
        return counted.tallies

    def _tally_batches(
        self,
        plan: Plan,
        batches: Iterable["pyarrow.RecordBatch"],
        invalid_reports: str,
        progress: Progress | None,
    ) -> Sequence[PlanTally]:
        total = (nothing(plan),)
        with closing(damage_explained("the stream of reports", batches)) as rows:  # a query must not stay open
            for batch in rows:
                total = sums_apart([*total, *tallies_of_rows(plan, batch, invalid_reports)])
                advance(progress, batch.num_rows)
        return total

    def randomize(
        self,
        plan: Plan,
        records: Any,
        output: Any,
        *,
        seed: int | None = None,
        invalid: str = "error",
        progress: Progress | None = None,
    ) -> int:
        """Write one report, or as many as the plan asks for, for each record; the number of records.

        `records` is a source that `engines.records` opens, or what it has opened. The file is Parquet or Arrow by its
        ending; `"-"` and open binary files get an Arrow stream. A simulation, with `seed`, does not depend on how the
        records are cut into batches.
        """
        users, opened = 0, records
        if isinstance(records, str | os.PathLike | Mapping | Sequence) or is_table(records):
            opened = open_records(records, plan.attributes)
        with _writer(plan, output) as write, closing(low(plan, opened.batches())) as batches:
            for batch in batches:
                write(pack_rows(plan, randomized(plan, batch, seed, invalid, users)))
                users += batch.num_rows
                advance(progress, batch.num_rows)
        return users


def tallied(plan: Plan, piece: Piece, invalid_reports: str = "error") -> tuple[PlanTally, ...]:
    """The sums over a piece, simulated rows apart; whatever is wrong with it, the error names its file."""
    try:
        found = (tally for batch in piece.batches() for tally in tallies_of_rows(plan, batch, invalid_reports))
        return sums_apart(chain([nothing(plan)], found))
    except DitherError as error:
        if piece.path in str(error):
            raise
        kind, reason = type(error), str(error)
    raise kind(f"{piece.path}, piece {piece.number}: {reason}")


def low(plan: Plan, batches: Iterable["pyarrow.RecordBatch"]) -> Generator["pyarrow.RecordBatch"]:
    """The batches, cut where their reports would be more bytes than one batch should hold."""
    widest = sorted(part.mechanism.dtype.itemsize for part in plan.parts)[-plan.questions_per_user :]
    height = max(1, min(_GROUP, _GROUP_BYTES // max(1, sum(widest))))
    for batch in batches:
        yield from (batch.slice(start, height) for start in range(0, batch.num_rows, height))


def randomized(
    plan: Plan, batch: "pyarrow.RecordBatch", seed: int | None, invalid: str, first: int
) -> dict[str, Reports]:
    """The reports of a batch whose first row has this number."""
    return plan.randomize(batch, seed=seed, invalid=invalid, first=first)


@contextmanager
def _writer(plan: Plan, output: Any) -> Iterator[Callable[["pyarrow.RecordBatch"], object]]:
    arrow, layout = require("pyarrow", "fast"), rows_schema(plan)
    with ExitStack() as stack:
        if hasattr(output, "write") or output == STANDARD:
            stack.enter_context(write_errors("the stream of reports"))
            writer = arrow.ipc.new_stream(sys.stdout.buffer if output == STANDARD else output, layout)
            with with_checksums(writer, layout) as write:
                yield write
            writer.close()  # only now: after an error, no end is written, as if all were there
            return
        name = str(output).lower()
        if name.endswith(PARQUET):
            path = stack.enter_context(atomic_path(output))
            yield stack.enter_context(parquet_writer(path, layout))
        elif name.endswith(ARROW):
            path = stack.enter_context(atomic_path(output))
            writer = stack.enter_context(arrow.ipc.new_file(str(path), layout))
            yield stack.enter_context(with_checksums(writer, layout))
        else:
            raise ParameterError(
                f"reports are written to a file with one of the endings {', '.join((PARQUET[0], *ARROW))}, "
                'or with "-" to standard output'
            )


@contextmanager
def parquet_writer(where: Any, layout: "pyarrow.Schema") -> Iterator[Callable[["pyarrow.RecordBatch"], object]]:
    """A function that adds rows to a new Parquet file of reports, at a path or in an open file."""
    parquet = require("pyarrow.parquet", "fast")
    with (
        parquet.ParquetWriter(
            where,
            layout,
            compression="zstd",
            use_dictionary=[TAG],
            write_statistics=False,
            write_page_checksum=True,  # costs nothing that can be measured
        ) as writer,
        _grouped(writer) as write,
    ):
        yield write


@contextmanager
def _grouped(writer: "ParquetWriter") -> Iterator[Callable[["pyarrow.RecordBatch"], object]]:
    """Batches are collected into row groups: a group for each batch would be many small pieces."""
    arrow = require("pyarrow", "fast")
    held: list[pyarrow.RecordBatch] = []

    def flush() -> None:
        if held:
            table = arrow.Table.from_batches(held)
            writer.write_table(table, row_group_size=table.num_rows)
            held.clear()

    def write(batch: "pyarrow.RecordBatch") -> None:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _GROUP or sum(each.nbytes for each in held) >= _GROUP_BYTES:
            flush()

    yield write
    flush()


def incoming(file: BinaryIO) -> "pyarrow.RecordBatchReader":
    """A reader of the rows of reports in an Arrow stream from an open binary file; one without its end is refused."""
    arrow = require("pyarrow", "fast")
    try:
        layout, batches = whole_stream(file, _not_whole, checked_stream)
        return arrow.RecordBatchReader.from_batches(layout, batches)
    except (arrow.ArrowException, OSError, UnicodeDecodeError):
        pass
    raise ReportError("this is no Arrow stream of reports: randomize records into one first")


def _not_whole(reason: str) -> ReportError:
    return ReportError(
        f"the stream of reports {reason}; nothing was tallied. Whatever writes it may have failed: see what it says, "
        "and run both again"
    )


def _batches(source: Any) -> Iterable["pyarrow.RecordBatch"]:
    """The rows of reports in a table; what comes one after another, and is no reader, are batches already."""
    if table_kind(source) is ITERATOR:
        return source
    stream = table_stream(source)
    if not has_columns(stream.columns):
        raise ReportError(f"these are no reports: there must be one column {TAG} and one column {REPORT}")
    return stream.read([TAG, REPORT])


def advance(progress: Progress | None, rows: int) -> None:
    """Tell that some rows are done, if somebody listens."""
    if progress is not None and rows:
        progress(rows)
