"""The local engine: pieces of files stream through the kernels, on all cores, in memory that does not grow with them.

Each thread decodes a piece and tallies it; only a few pieces are in memory at once. Tallies are integers, so the order
in which threads finish does not matter. A file that comes as one piece is tallied by all threads together instead.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from dither.core.errors import DitherError, DomainError, ParameterError, require
from dither.core.parallel import as_they_come
from dither.core.writing import whole
from dither.engines.journal import Journal
from dither.engines.pieces import ARROW, PARQUET, Piece, report_files
from dither.engines.rows import TAG, nothing, packed, schema, tally_rows
from dither.planning.plans import Plan
from dither.planning.tallies import PlanTally

Progress = Callable[[int], object]

_GROUP = 1 << 20  # rows of a row group: a piece of a later tally
_GROUP_BYTES = 1 << 27
STANDARD = "-"  # standard input or output


@dataclass(frozen=True)
class Local:
    """Tallies and randomizes on this machine."""

    def tally(
        self, plan: Plan, source: Any, *, progress: Progress | None = None, journal: str | Path | None = None
    ) -> PlanTally:
        """The sums over all reports of a source: files, an Arrow table or reader of rows.

        With `journal`, a path, a run that was stopped goes on where it was. Remove that file when the tally is safe.
        """
        if _is_arrow(source):
            return self._tally_batches(plan, _batches(source), progress)
        files, counted = report_files(source, plan), Journal.at(journal, plan)
        left = counted.left(files)
        _advance(progress, sum(file.rows for file in files) - sum(piece.rows for piece in left))
        try:
            for piece, tally in as_they_come(lambda piece: _tallied(plan, piece), left):
                counted.add(piece, tally)
                _advance(progress, piece.rows)
        finally:
            counted.save()
        return counted.total

    def _tally_batches(self, plan: Plan, batches: Iterable[Any], progress: Progress | None) -> PlanTally:
        total = nothing(plan)
        for batch in batches:
            total += tally_rows(plan, batch)
            _advance(progress, batch.num_rows)
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

        `records` is what `engines.records` opens. The file is Parquet or Arrow by its ending; `"-"` and open binary
        files get an Arrow stream. A simulation, with `seed`, does not depend on how the records are cut into batches.
        """
        users = 0
        with _writer(plan, output) as write:
            for batch in records.batches():
                write(packed(plan, _randomized(plan, batch, seed, invalid, users)))
                users += batch.num_rows
                _advance(progress, batch.num_rows)
        return users


def _tallied(plan: Plan, piece: Piece) -> PlanTally:
    try:
        return reduce(add, (tally_rows(plan, batch) for batch in piece.batches()), nothing(plan))
    except DitherError as error:
        if piece.path in str(error):
            raise
        kind, reason = type(error), str(error)
    raise kind(f"{piece.path}, piece {piece.number}: {reason}")


def _randomized(plan: Plan, batch: Any, seed: int | None, invalid: str, first: int) -> Any:
    try:
        return plan.randomize(batch, seed=seed, invalid=invalid, first=first)
    except DomainError as error:
        hint = (
            ""
            if "substitute" in str(error)
            else '; --invalid substitute (invalid="substitute") puts the plan\'s substitute there'
        )
        reason = f"{error}{hint}"
    raise DomainError(reason)


@contextmanager
def _writer(plan: Plan, output: Any) -> Iterator[Callable[[Any], object]]:
    arrow, layout = require("pyarrow", "fast"), schema(plan)
    with ExitStack() as stack:
        if hasattr(output, "write"):
            writer = stack.enter_context(arrow.ipc.new_stream(output, layout))
        elif str(output).lower().endswith(PARQUET):
            parquet = require("pyarrow.parquet", "fast")
            path = stack.enter_context(whole(output))
            writer = stack.enter_context(
                parquet.ParquetWriter(path, layout, compression="zstd", use_dictionary=[TAG], write_statistics=False)
            )
            yield stack.enter_context(_grouped(writer))
            return
        elif str(output).lower().endswith(ARROW):
            path = stack.enter_context(whole(output))
            writer = stack.enter_context(arrow.ipc.new_file(str(path), layout))
        else:
            raise ParameterError(
                f"reports are written to a file with one of the endings {', '.join((PARQUET[0], *ARROW))}, "
                'or with "-" to standard output'
            )
        yield writer.write_batch


@contextmanager
def _grouped(writer: Any) -> Iterator[Callable[[Any], object]]:
    """Batches are collected into row groups: a group for each batch would be many small pieces."""
    arrow = require("pyarrow", "fast")
    held: list[Any] = []

    def flush() -> None:
        if held:
            table = arrow.Table.from_batches(held)
            writer.write_table(table, row_group_size=table.num_rows)
            held.clear()

    def write(batch: Any) -> None:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _GROUP or sum(each.nbytes for each in held) >= _GROUP_BYTES:
            flush()

    yield write
    flush()


def _is_arrow(source: Any) -> bool:
    return hasattr(source, "schema") or hasattr(source, "read_next_batch")


def _batches(source: Any) -> Iterable[Any]:
    if hasattr(source, "read_next_batch"):
        return source
    return source.to_batches() if hasattr(source, "to_batches") else [source]


def _advance(progress: Progress | None, rows: int) -> None:
    if progress is not None and rows:
        progress(rows)
