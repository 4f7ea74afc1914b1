"""CSV: a line of names, then a row for each user, in UTF-8; packed by gzip or not.

Every cell is read as text, and only those of the columns that are asked for; what they mean is for `columns` to say.
An empty cell is null, a pair of quotes is an empty text. Cells in quotes may hold commas and line breaks.

Arrow's reader takes a quote that is never closed for a long cell, which swallows all rows behind it without a word. So
a row of marks is put behind the file: if it is not the last row that comes out, a quote was left open.

In a file with one column an empty line is a row without a value. In any other, empty lines are passed over.
"""

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from dither.engines.paths import FilePlace
from dither.engines.record_sources import Source, Start, streamed
from dither.errors import DomainError, ParameterError, require
from dither.planning.table_streams import Batches, ReadColumns

if TYPE_CHECKING:
    import pyarrow

FORM = "CSV file"
GZIP = b"\x1f\x8b"

_BLOCK = 1 << 21  # bytes that are parsed at once, of which Arrow reads some 32 ahead; no row is longer
_MARK = "dither: end of records"
_UNEVEN = re.compile(r"CSV parse error: Row #(\d+): Expected \d+ columns")  # from 1; what follows is the row


def csv_file(place: FilePlace, title: str) -> Source:
    """A file of CSV."""

    def opened() -> AbstractContextManager[Any]:  # a file
        with place.open() as file:
            packed = file.read(len(GZIP)) == GZIP
        return _unpacked(place) if packed else place.open()

    return streamed(place.name, title, FORM, opened, csv_start(title), text=True)


@contextmanager
def _unpacked(place: FilePlace) -> Iterator[gzip.GzipFile]:
    with place.open() as file, gzip.GzipFile(fileobj=file) as content:
        yield content


def csv_start(title: str) -> Start:
    """How to read what is left of an open file."""
    arrow = require("pyarrow", "fast")

    def start(file: Any) -> tuple["pyarrow.Schema", ReadColumns]:
        header = _header(file)
        columns = arrow.schema([(name, arrow.string()) for name in header])
        return columns, lambda names: _rows(file, title, header, names)

    return start


def _header(file: Any) -> list[str]:
    """The names in the first line that is not empty; the file is left behind it."""
    lines = iter(lambda: file.readline(_BLOCK), b"")
    texts = (line.decode("utf-8" if place else "utf-8-sig") for place, line in enumerate(lines))
    return next(filter(None, csv.reader(texts, strict=True)), [])


def _rows(file: Any, title: str, header: list[str], names: Sequence[str]) -> Batches:
    """The rows behind the line of names, without the row of marks."""
    held = None
    for batch in _attentive(title, lambda: _reader(file, header, names)):
        if held is not None:
            yield held
        held = batch.rename_columns(list(names))
    if held is None or set(held.slice(held.num_rows - 1).to_pylist()[0].values()) != {_MARK}:
        raise ParameterError(f"{title} is no {FORM}, or a damaged one: a quote is never closed")
    yield held.slice(0, held.num_rows - 1)


def _attentive(title: str, opened: Callable[[], Batches]) -> Batches:
    """Batches; where a row has too few cells or too many, it is named."""
    arrow = require("pyarrow", "fast")
    try:
        yield from (batch for batch in opened() if batch.num_rows)
        return
    except arrow.ArrowInvalid as error:  # Arrow would also call back, but complains aloud of rows that are not UTF-8
        uneven = _UNEVEN.match(str(error))
        if not uneven:
            raise
    raise DomainError(f"{title}, row {int(uneven[1]) - 1}: there must be one value for each column")


def _reader(file: Any, header: list[str], names: Sequence[str]) -> Batches:
    arrow, reader = require("pyarrow", "fast"), require("pyarrow.csv", "fast")
    wanted = [str(header.index(name)) for name in names]

    return reader.open_csv(
        io.BufferedReader(_Marked(file, len(header)), 1 << 20),
        reader.ReadOptions(  # threads would lose the number of a row
            column_names=[str(place) for place in range(len(header))], block_size=_BLOCK, use_threads=False
        ),
        reader.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(header) > 1),
        reader.ConvertOptions(
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, arrow.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


class _Marked(io.RawIOBase):
    """A file with a row of marks behind it."""

    def __init__(self, file: Any, width: int) -> None:
        self._file, self._last = file, b"\n"
        self._marks = ",".join([_MARK] * width).encode()
        self._rest: bytes | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer)) if self._rest is None else b""
        if data:
            self._last = data[-1:]
        else:
            if self._rest is None:
                self._rest = (b"" if self._last in b"\r\n" else b"\n") + self._marks
            data, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)
