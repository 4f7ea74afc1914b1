"""A place with raw records: the columns that it has, known before a row is read, and how some of them are read.

**No value gets out.** Errors of readers quote what they read: a row, a cell, a line of names that was a record. So
none of them is shown, kept as a cause, or chained: `attempted` says instead which place it is, and what to do.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dither.errors import ParameterError, require
from dither.planning.table_streams import ROWS, Batches, ReadColumns, explained

if TYPE_CHECKING:
    import pyarrow

# From an open file: its columns, and how to read what is behind.
Start = Callable[[Any], tuple["pyarrow.Schema", ReadColumns]]
Opened = Callable[[], AbstractContextManager[Any]]  # an open file
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Source:
    """One place with records."""

    name: str
    title: str  # the name with what it is, for the start of a message
    form: str
    columns: "pyarrow.Schema"
    read: ReadColumns
    rows: int | None = None
    text: bool = False  # numbers and keys are written as text

    def batches(self, names: Sequence[str]) -> Batches:
        """Record batches with these columns; what goes wrong is said without quoting anything."""
        found = self.read(names)

        def step() -> "pyarrow.RecordBatch | None":
            batch = next(found, None)
            if batch is not None:
                batch = batch.select(list(names))
                batch.validate(full=True)  # offsets of a damaged file may point anywhere, and text may be none
            return batch

        while (batch := attempted(step, self.title, self.form)) is not None:
            yield batch


def attempted(call: Callable[[], T], title: str, form: str) -> T:
    """What a call returns; if it fails, an error without its text, which may quote what was read."""

    def reason(error: Exception) -> str:  # each format has its own, and Arrow has one for all that may be wrong
        if isinstance(error, OSError):
            return f"cannot be read: {os.strerror(error.errno) if error.errno else 'it is damaged, or was cut short'}"
        if isinstance(error, UnicodeError) or "UTF8" in str(error):
            return "has text that is not UTF-8: write it again as UTF-8"
        return f"is no {form}, or a damaged one"

    return explained(title, call, reason)


def streamed(name: str, title: str, form: str, opened: Opened, start: Start, text: bool = False) -> Source:
    """A file that is read from its start to its end, again each time."""

    def facts() -> "pyarrow.Schema":
        with opened() as file:
            return start(file)[0]

    def read(names: Sequence[str]) -> Batches:
        with opened() as file:
            yield from start(file)[1](names)

    return Source(name, title, form, attempted(facts, title, form), read, text=text)


def once(read: ReadColumns, title: str) -> ReadColumns:
    """A way to read that is gone when it was used."""
    left = [read]

    def take(names: Sequence[str]) -> Batches:
        if not left:
            raise ParameterError(f"{title} can be read only once: save the records in a file to read them again")
        return left.pop()(names)

    return take


def even(batches: Iterable["pyarrow.RecordBatch"]) -> Batches:
    """Batches of `ROWS` rows, and what is left at the end."""
    arrow = require("pyarrow", "fast")
    held: list[pyarrow.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= ROWS:
            table = arrow.Table.from_batches(held)
            yield _joined(table.slice(0, ROWS))
            held, count = table.slice(ROWS).to_batches(), count - ROWS
    if count:
        yield _joined(arrow.Table.from_batches(held))


def _joined(table: "pyarrow.Table") -> "pyarrow.RecordBatch":
    return table.combine_chunks().to_batches()[0]
