"""Streams of Arrow batches that must have their end.

A stream ends with a mark of eight bytes, but Arrow takes any end between two batches for the end: half a stream, of a
program that failed or a pipe that broke, would pass for all of it. So the mark is looked for here; and nothing may be
behind it, since what is there, such as a second stream, would be left out in silence.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from dither.errors import require

if TYPE_CHECKING:
    import pyarrow

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class Watched:
    """A binary file whose last bytes that were read are known."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._last = file, b""

    def read(self, size: int = -1) -> bytes:
        """The next bytes, as of any file."""
        data = self._file.read(size)
        self._last = (self._last + data[-len(_END) :])[-len(_END) :]
        return data

    @property
    def ended(self) -> bool:
        """Whether the mark of the end was read."""
        return self._last == _END


def whole_stream(
    file: BinaryIO,
    refuse: Callable[[str], Exception],
    read: "Callable[[pyarrow.RecordBatchStreamReader], Iterable[pyarrow.RecordBatch]]" = iter,
) -> tuple["pyarrow.Schema", Iterator["pyarrow.RecordBatch"]]:
    """The schema of an Arrow stream and its batches; at the end, `refuse` is asked for an error if it is not whole.

    `read` is how batches are read, which may refuse some.

    >>> import io, pyarrow
    >>> data, batch = io.BytesIO(), pyarrow.record_batch({"age": [31, 32]})
    >>> with pyarrow.ipc.new_stream(data, batch.schema) as writer:
    ...     writer.write_batch(batch)
    >>> schema, batches = whole_stream(io.BytesIO(data.getvalue()), ValueError)
    >>> schema.names, [each.num_rows for each in batches]
    (['age'], [2])
    >>> _, batches = whole_stream(io.BytesIO(data.getvalue()[:-8]), ValueError)
    >>> [each.num_rows for each in batches]
    Traceback (most recent call last):
    ValueError: was cut short
    """
    watched = Watched(file)
    reader = require("pyarrow", "fast").ipc.open_stream(watched)

    def batches() -> Iterator["pyarrow.RecordBatch"]:
        yield from read(reader)
        if not watched.ended:
            raise refuse("was cut short")
        if watched.read(1):
            while watched.read(1 << 20):  # whoever writes it shall not fail too
                pass
            raise refuse("has more behind its end")

    return reader.schema, batches()
