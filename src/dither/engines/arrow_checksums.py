"""Checksums in Arrow files and streams of reports, which Arrow itself does not have.

A bit that flips on a disk, or a copy that goes wrong, may turn a report into another valid one: nothing but a checksum
notices. Parquet has them in its pages. Here every record batch carries one in its metadata (`dither.checksum`), over
the rows that it holds and its place in the file. Behind the last stands an empty batch, which also tells how many rows
there are (`dither.rows`): so a batch that is lost, doubled or moved is noticed too. A batch is in memory when it is
checked, and no more than that.

Other tools drop the metadata of batches when they write rows anew, and older versions wrote none: a file without any is
read as it is. One with some must have all.

It is no signature. Whoever changes a file on purpose also computes the checksums.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dither.engines.report_rows import FILE, rows_digest
from dither.errors import require

if TYPE_CHECKING:
    import pyarrow

_CHECKSUM, _ROWS = b"dither.checksum", b"dither.rows"
_MAGIC = 8  # bytes before the stream that an Arrow file begins with

Told = Mapping[bytes, bytes] | None  # the metadata of a batch


@contextmanager
def with_checksums(writer: Any, layout: "pyarrow.Schema") -> Iterator[Callable[["pyarrow.RecordBatch"], object]]:
    """How to write batches with an Arrow writer; at the end, unless an error comes before, the empty one is added."""
    number = rows = 0

    def write(batch: "pyarrow.RecordBatch") -> None:
        nonlocal number, rows
        writer.write_batch(batch, custom_metadata={_CHECKSUM: _checksum(layout, batch, number)})
        number, rows = number + 1, rows + batch.num_rows

    yield write
    empty, total = require("pyarrow", "fast").RecordBatch.from_pylist([], layout), str(rows).encode()
    writer.write_batch(empty, custom_metadata={_CHECKSUM: _checksum(layout, empty, number, total), _ROWS: total})


def check_batch(layout: "pyarrow.Schema", batch: "pyarrow.RecordBatch", told: Told, number: int) -> None:
    """Refuse a batch that is not the one that was written at this place; one without a checksum may be any."""
    facts = dict(told or {})
    if _CHECKSUM in facts and facts[_CHECKSUM] != _checksum(layout, batch, number, facts.get(_ROWS, b"")):
        raise ValueError("a batch is not the one that was written")


def checked_stream(reader: "pyarrow.RecordBatchStreamReader") -> Iterator["pyarrow.RecordBatch"]:
    """The batches of a stream, if they are those that were written."""
    seen = _Seen()
    for number, (batch, told) in enumerate(reader.iter_batches_with_custom_metadata()):
        seen.add(batch.num_rows, told)
        check_batch(reader.schema, batch, told, number)
        yield batch
    seen.check()


def checked_sizes(reader: "pyarrow.RecordBatchFileReader", file: "pyarrow.NativeFile") -> list[tuple[int, int]]:
    """Of each batch of a file its rows and bytes, if the file has all that were written; `check_batch` looks inside."""
    seen, sizes = _Seen(), []
    for number in range(reader.num_record_batches):
        batch, told = reader.get_batch_with_custom_metadata(number)
        seen.add(batch.num_rows, told)
        sizes.append((batch.num_rows, batch.get_total_buffer_size()))  # not `nbytes`, which follows unchecked offsets
    seen.check()
    if not sizes and _has_batches(file):
        raise ValueError("a file lists none of its batches")
    return sizes


@dataclass
class _Seen:
    """What the batches of a file or a stream say, one after another."""

    batches: int = 0
    checksums: int = 0
    rows: int = 0
    end: int | None = None  # as many rows as the last batch says there are

    def add(self, rows: int, told: Told) -> None:
        """Another batch."""
        if self.end is not None:
            raise ValueError("there are batches behind the last one")
        facts = dict(told or {})
        self.batches, self.checksums, self.rows = (
            self.batches + 1,
            self.checksums + (_CHECKSUM in facts),
            self.rows + rows,
        )
        self.end = int(facts[_ROWS]) if _ROWS in facts else None

    def check(self) -> None:
        """Refuse some with checksums and some without, and some without their end."""
        known = (0, None) if self.end is None else (self.batches, self.rows)
        if (self.checksums, self.end) != known:
            raise ValueError("a batch is missing, or its checksum is")


def _checksum(layout: "pyarrow.Schema", batch: "pyarrow.RecordBatch", number: int, rows: bytes = b"") -> bytes:
    identity = (layout.metadata or {}).get(FILE, b"")
    return rows_digest(batch, b" ".join((identity, str(number).encode(), rows))).encode()


def _has_batches(file: "pyarrow.NativeFile") -> bool:
    """Whether there are batches in an Arrow file, whatever the list at its end says."""
    file.seek(_MAGIC)
    return next(iter(require("pyarrow", "fast").ipc.open_stream(file)), None) is not None
