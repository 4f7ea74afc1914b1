"""The forms that sparse vectors come in, brought to one: the stored entries of all rows, one row after the other.

A dense table (0 means absent), a SciPy CSR matrix, an Arrow column of maps, structured rows, or a list with a vector
for each user: a dictionary, pairs (key, value), or a dense row. Keys are numbers, or names that are given numbers here.
Whether keys and values are as they should be is for the domain to say (`core.sparse`); here is refused, or left empty
with `mend`, only what is no vector at all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float
from dither.core.domain import _unmasked
from dither.core.errors import DomainError

EMPTY = -1  # in structured rows: no key
UNKNOWN = -2  # a key that there is not
MOST_KEYS = 1 << 30
_ADVICE = "give a dense table (n, d), a SciPy CSR matrix, a list of dictionaries {key: value} or an Arrow map column"
_PLAIN = "iufb"  # kinds of arrays that hold numbers


class Entries(NamedTuple):
    """The stored entries of all rows."""

    ends: NDArray[np.int64]  # of each row, behind its last entry
    keys: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many entries each row has."""
        return np.diff(self.ends, prepend=0)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.ends)), self.counts)


def entries_of(column: Any, d: int, *, mend: bool, names: Sequence[str] | None = None) -> Entries:
    """The entries of vectors over d keys, which may have names."""
    if _is_structured(column):
        return _of_rows(np.atleast_1d(column))
    if hasattr(column, "tocsr"):
        return _of_csr(column.tocsr(), d)
    if hasattr(column, "combine_chunks") and hasattr(column, "num_chunks"):  # Arrow
        column = column.combine_chunks()
    if hasattr(column, "offsets") and hasattr(column, "keys") and hasattr(column, "items"):
        return _of_maps(column, mend) if names is None else _of_list(column.to_pylist(), d, mend, names)
    if isinstance(column, Mapping):
        column = [column]
    if isinstance(column, np.ndarray) and column.dtype.kind in _PLAIN and column.ndim == 2:
        return _of_table(np.ma.filled(column, 0), d)
    if isinstance(column, np.ndarray) and column.dtype.kind == "O" and column.ndim == 1:
        column = _unmasked(column).tolist()
    elif hasattr(column, "tolist") and not isinstance(column, np.ndarray):  # a pandas column
        column = column.tolist()
    if isinstance(column, Sequence) and not isinstance(column, str | bytes):
        return _of_list(column, d, mend, names)
    raise DomainError(f"these are not sparse vectors: {_ADVICE}")


def _is_structured(column: Any) -> bool:
    return isinstance(column, np.ndarray | np.void) and column.dtype.names == ("key", "value")


def refuse_first(rows: NDArray, wrong: NDArray[np.bool_], rule: str) -> None:
    """Refuse the first row where something is wrong."""
    if wrong.any():
        raise DomainError(f"row {int(rows[wrong].min())}: {rule}")


def _of_table(table: NDArray, d: int) -> Entries:
    if table.shape[1] != d:
        raise DomainError(f"a dense table needs one column for each of the {d} keys")
    rows, keys = np.nonzero(table)
    ends = np.cumsum(np.bincount(rows, minlength=len(table)))
    return Entries(ends, keys.astype(np.int64), table[rows, keys].astype(np.float64))


def _of_csr(matrix: Any, d: int) -> Entries:
    if len(matrix.shape) != 2 or matrix.shape[1] != d or matrix.dtype.kind not in _PLAIN:
        raise DomainError(f"a sparse matrix needs one column of real numbers for each of the {d} keys")
    return Entries(
        np.asarray(matrix.indptr[1:], dtype=np.int64),
        np.asarray(matrix.indices, dtype=np.int64),
        np.asarray(matrix.data, dtype=np.float64),
    )


def _of_maps(column: Any, mend: bool) -> Entries:
    if column.null_count:
        if not mend:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise DomainError(f"row {row}: a map is missing; an empty one stands for a user without keys")
        column = column.fill_null([])
    offsets = np.asarray(column.offsets, dtype=np.int64)
    keys, items = (_numbers(part.to_pylist()) for part in (column.keys, column.items))
    first, last = offsets[0], offsets[-1]
    return Entries(offsets[1:] - first, _whole(keys[first:last]), items[first:last])


def _of_rows(rows: NDArray) -> Entries:
    present = rows["key"] != EMPTY
    ends = np.cumsum(present.sum(axis=1, dtype=np.int64))
    return Entries(ends, rows["key"][present].astype(np.int64), rows["value"][present].astype(np.float64))


def _of_list(vectors: Sequence[Any], d: int, mend: bool, names: Sequence[str] | None) -> Entries:
    """One vector for each user; what is none is left empty with `mend`."""
    found = [_pairs(vector, d) for vector in vectors]
    if not mend and None in found:
        raise DomainError(f"row {found.index(None)}: this is not a sparse vector: {_ADVICE}")
    pairs = [pair for vector in found for pair in vector or ()]
    ends = np.cumsum([len(vector or ()) for vector in found], dtype=np.int64)
    values = _numbers([value for _, value in pairs])
    if names is None:
        return Entries(ends, _whole(_numbers([key for key, _ in pairs])), values)
    number = {name: place for place, name in enumerate(names)}
    # A dense row has the numbers of its columns already; names are texts, so the two cannot be mixed up.
    keys = [number.get(key, UNKNOWN) if isinstance(key, str) else _column(key) for key, _ in pairs]
    return Entries(ends, np.array(keys, dtype=np.int64), values)


class _Column(int):
    """The number of a column, which is not a key that somebody wrote."""


def _column(key: Any) -> int:
    return int(key) if isinstance(key, _Column) else UNKNOWN


def _pairs(vector: Any, d: int) -> list[tuple[Any, Any]] | None:
    """The keys of one user and their values; None if it is not a vector."""
    if isinstance(vector, Mapping):
        return list(vector.items())
    if not isinstance(vector, list | tuple | np.ndarray):
        return None
    if all(isinstance(entry, tuple) and len(entry) == 2 for entry in vector):  # as Arrow writes a map
        return list(vector)
    if len(vector) != d or any(isinstance(entry, list | tuple | dict | np.ndarray) for entry in vector):
        return None
    return [(_Column(key), value) for key, value in enumerate(vector) if value != 0]


def _numbers(items: list[Any]) -> NDArray[np.float64]:
    """Floats; what is no number is NaN."""
    return np.array([as_float(item) for item in items], dtype=np.float64)


def _whole(keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers; anything else becomes a key that there is not."""
    fine = np.isfinite(keys) & (np.abs(keys) < MOST_KEYS)
    fine[fine] &= keys[fine] % 1 == 0
    return np.where(fine, np.where(fine, keys, 0), UNKNOWN).astype(np.int64)
