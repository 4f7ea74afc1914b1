"""Records from files of Parquet, Arrow, CSV and DuckDB, from standard input, and from tables of other libraries.

A file is never in memory as a whole, and columns that are not asked for are not decoded. One thing must be in memory:
Parquet on standard input, because it is read from its end.

Standard input is told apart by its first bytes. A file of Arrow is a stream between a head and a foot, and standard
input is read as that stream; the foot must follow, or the file was cut short. A stream without a head must have the
mark of its end.
"""

import gzip
import io
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dither.engines.arrow_streams import whole_stream
from dither.engines.csv_files import FORM as CSV
from dither.engines.csv_files import GZIP, csv_file, csv_start
from dither.engines.duckdb_queries import DATABASE, DATABASE_ENDINGS, database_source
from dither.engines.paths import FilePlace, files_of
from dither.engines.record_sources import Source, Start, attempted, once, streamed
from dither.errors import ParameterError, require
from dither.planning.table_streams import ROWS, Batches, ReadColumns, sliced, table_stream

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile

PARQUET_ENDINGS = (".parquet", ".pq")
ENDINGS = (".csv", *PARQUET_ENDINGS, ".arrow", ".feather", ".ipc", ".csv.gz", *DATABASE_ENDINGS)
STANDARD = "-"
PARQUET, ARROW = "Parquet file", "Arrow file"

_BUFFER = 1 << 20  # bytes that are read at once, of each column of Parquet
_PARQUET, _ARROW, _FEATHER, _STREAM = b"PAR1", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"
_HEAD = 8  # bytes before the stream in a file of Arrow


def file_sources(path: str, table: str | None = None, filesystem: Any = None) -> list[Source]:
    """The files that a path, a pattern, a folder of Parquet or an address means, opened as far as their columns.

    `table` is one of a DuckDB database, and `filesystem`, of pyarrow, where the path is.
    """
    found = [_file(each, table) for each in files_of(path, PARQUET_ENDINGS, "records", filesystem)]
    if table is not None and not any(source.form == DATABASE for source in found):
        raise ParameterError(
            f"a table is named for DuckDB databases ({', '.join(DATABASE_ENDINGS)}), and {path} is none"
        )
    return found


def _file(place: FilePlace, table: str | None) -> Source:
    title, lower = f"the records file {place.name}", place.name.lower()
    if not lower.endswith(ENDINGS):
        raise ParameterError(f"{title} has an unknown ending: there are {', '.join(ENDINGS)}")
    attempted(lambda: place.open().close(), title, "file")
    if lower.endswith(DATABASE_ENDINGS):
        return database_source(place, title, table)
    if lower.endswith(PARQUET_ENDINGS):
        return _parquet(place.name, title, place.parquet)
    return (_arrow_file if lower.endswith((".arrow", ".feather", ".ipc")) else csv_file)(place, title)


def _parquet(name: str, title: str, place: Callable[[], Any]) -> Source:
    parquet = require("pyarrow.parquet", "fast")

    def opened() -> "ParquetFile":
        return parquet.ParquetFile(place(), buffer_size=_BUFFER, pre_buffer=False)

    def facts() -> tuple["pyarrow.Schema", int]:
        with opened() as file:
            return file.schema_arrow, file.metadata.num_rows

    def read(names: Sequence[str]) -> Batches:
        with opened() as file:
            yield from file.iter_batches(ROWS, columns=list(names))

    schema, rows = attempted(facts, title, PARQUET)
    return Source(name, title, PARQUET, schema, read, rows)


def _arrow_file(place: FilePlace, title: str) -> Source:
    with place.open() as file:
        magic = file.read(_HEAD)
    if magic.startswith(_FEATHER):
        raise _old_feather(title)
    if not magic.startswith(_ARROW):
        return streamed(place.name, title, ARROW, place.open, _arrow_start())
    arrow = require("pyarrow", "fast")

    def facts() -> tuple["pyarrow.Schema", int | None]:
        with place.mapped() as file:
            columns = arrow.ipc.open_file(file).schema
        if len(set(columns.names)) < len(columns.names):  # which a dataset does not take
            return columns, None
        dataset = require("pyarrow.dataset", "fast").dataset(place.path, format="ipc", filesystem=place.filesystem)
        return columns, dataset.count_rows()

    def read(names: Sequence[str]) -> Batches:
        wanted = arrow.ipc.IpcReadOptions(included_fields=[schema.get_field_index(each) for each in names])
        with place.mapped() as file:
            reader = arrow.ipc.open_file(file, options=wanted)
            yield from sliced(reader.get_batch(number) for number in range(reader.num_record_batches))

    schema, rows = attempted(facts, title, ARROW)
    return Source(place.name, title, ARROW, schema, read, rows)


def _arrow_start(foot: bytes = b"") -> Start:
    """How to read a stream of Arrow batches, which must have its end; or that in a file, which ends with `foot`."""
    arrow = require("pyarrow", "fast")

    def start(file: Any) -> tuple["pyarrow.Schema", ReadColumns]:
        if not foot:
            schema, batches = whole_stream(file, ValueError)
            return schema, lambda names: sliced(batches)
        reader = arrow.ipc.open_stream(file)

        def read(names: Sequence[str]) -> Batches:
            yield from sliced(reader)
            if not file.read().endswith(foot):
                raise ValueError("it was cut short")

        return reader.schema, read

    return start


def _old_feather(title: str) -> ParameterError:
    return ParameterError(f"{title} is in version 1 of Feather, which is out of use: write it again, as Parquet")


def standard_source() -> Source:
    """Standard input, told apart by its first bytes."""
    stream, title = getattr(sys.stdin, "buffer", None), "standard input"
    if stream is None:
        raise ParameterError("standard input is closed: name a file of records")
    head = attempted(lambda: _first(stream, _HEAD), title, "file")
    if head.startswith(_FEATHER):
        raise _old_feather(title)
    file: Any = io.BufferedReader(_Joined(head, stream), _BUFFER)
    if head.startswith(_PARQUET):
        data = attempted(file.read, title, PARQUET)
        whole = _parquet(title, title, lambda: io.BytesIO(data))
        return Source(title, title, PARQUET, whole.columns, once(whole.read, title), whole.rows)
    if head.startswith(_ARROW):
        file.read(_HEAD)
    is_arrow = head.startswith((_ARROW, _STREAM))
    file = gzip.GzipFile(fileobj=file) if head.startswith(GZIP) else file
    start = _arrow_start(_ARROW if head.startswith(_ARROW) else b"") if is_arrow else csv_start(title)
    form = ARROW if is_arrow else CSV
    columns, read = attempted(lambda: start(file), title, form)
    return Source(title, title, form, columns, once(read, title), text=not is_arrow)


def _first(stream: Any, count: int) -> bytes:
    """The first bytes; fewer only where there are no more."""
    head = b""
    while len(head) < count and (more := stream.read(count - len(head))):
        head += more
    return head


class _Joined(io.RawIOBase):
    """Bytes that were read already, and what is behind them."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head, self._stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        data = data or self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def table_source(table: Any) -> Source:
    """A table that another library holds, in memory or as a stream."""
    found = table_stream(table)
    read = once(found.batches, found.title) if found.once else found.batches
    return Source(found.title, found.title, "Arrow table", found.columns, read, found.rows)
