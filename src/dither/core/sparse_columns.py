"""The forms that sparse vectors come in, brought to one: the stored entries of all rows, one row after the other.

A dense table (0 means absent), a SciPy CSR matrix, an Arrow column of maps, structured rows, or a list with a vector
for each user: a dictionary, pairs (key, value), a dense row, or a single row of one of the forms before. Keys are
numbers, or names that are given numbers here. Whether keys and values are as they should be is for the domain to say
(`core.sparse_domain`); here is refused, or left out with `mend`, only what is no vector at all, a key that is no name
or has no value, and what is under a mask. (In a dense table what is under a mask is absent.)

**No value gets out.** Conversions that fail or warn quote what they were given, or tell of it: all of them are caught.
That an array has the wrong type is said also with `mend`, since the type is the program's choice and no user's.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float, is_list
from dither.core.columns import LabelCodes, floats_of, is_arrow, is_map, is_text, joined_pieces
from dither.core.domains import array_kind, as_list, is_data_frame, unmasked
from dither.errors import DomainError, RowError

EMPTY = -1  # in structured rows: no key
UNKNOWN, _NO_TEXT = -2, -3  # a key that there is not, and one that is no name either
MOST_KEYS = 1 << 30
_ADVICE = (
    "give a dense table (n, d), a SciPy CSR matrix, an Arrow map column, or a list with a dictionary {key: value} or a "
    "list of pairs (key, value) for each user"
)
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
    column = [column] if isinstance(column, Mapping) else column  # of one user
    with np.errstate(all="ignore"):
        found = _entries(column, d, mend, names)
    if len(found.ends) != _users(column):  # a report would depend on the values of others
        raise DomainError("there must be exactly one vector for each user")
    return found


def _users(column: Any) -> int:
    if _is_structured(column):
        return np.size(column)  # a row may stand alone
    return column.shape[0] if _is_matrix(column) else len(column)


def _entries(column: Any, d: int, mend: bool, names: Sequence[str] | None) -> Entries:
    if _is_structured(column):
        return _of_rows(column, mend)
    if is_data_frame(column):
        raise DomainError("this is a data frame: if it has a column for each key, give its .to_numpy()")
    if _is_matrix(column):
        return _of_csr(column.tocsr(), d)
    if is_arrow(column):
        column = joined_pieces(column)
        if is_map(column):
            return _of_maps(column, mend, names)
    kind = array_kind(column)
    if kind in _PLAIN and column.ndim == 2:
        return _of_table(np.asarray(np.ma.filled(column, 0)), d)
    if kind == "O" and column.ndim in (1, 2):
        column = (unmasked(column) if column.ndim == 1 else np.ma.filled(column, 0)).tolist()
    elif kind == "-":
        column = as_list(column)
    if is_list(column):
        return _of_list(column, d, mend, names)
    raise DomainError(f"these are not sparse vectors: {_ADVICE}")


def _is_structured(column: Any) -> bool:
    return array_kind(column) == "V" and column.dtype.names == ("key", "value")


def _is_matrix(column: Any) -> bool:
    """Whether this is a sparse matrix of SciPy, which has no length, without importing it to ask."""
    return hasattr(column, "tocsr")


def refuse_first(rows: NDArray, wrong: NDArray[np.bool_], rule: str) -> None:
    """Refuse the first row where something is wrong."""
    if wrong.any():
        raise RowError(int(rows[wrong].min()), rule)


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


def _of_maps(column: Any, mend: bool, names: Sequence[str] | None) -> Entries:
    """An Arrow column of maps, without a loop over rows."""
    if column.null_count:
        if not mend:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise RowError(row, "a map is missing; an empty one stands for a user without keys")
        column = column.fill_null([])
    offsets = np.asarray(column.offsets, dtype=np.int64)
    first, last = offsets[0], offsets[-1]
    keys, items = (part.slice(first, last - first) for part in (column.keys, column.items))
    entries = Entries(offsets[1:] - first, _keys_of(keys, names), floats_of(items))
    if not mend:
        _refuse_keys_without_values(entries, items.is_null().to_numpy(zero_copy_only=False))
        _refuse_other_keys(entries, names)
    return entries


def _keys_of(keys: Any, names: Sequence[str] | None) -> NDArray[np.int64]:
    if names is None:
        return _whole(floats_of(keys))
    if not is_text(keys):
        return np.full(len(keys), _NO_TEXT, dtype=np.int64)
    return np.maximum(LabelCodes(names).of(keys), UNKNOWN)


def _of_rows(rows: NDArray | np.void, mend: bool) -> Entries:
    given = np.atleast_1d(np.asarray(np.ma.getdata(rows)))
    keys, values = given["key"], given["value"]
    if given.ndim != 1 or keys.ndim != 2 or keys.shape != values.shape:
        raise DomainError("structured rows are an array with one row for each user, of as many values as keys")
    if keys.dtype.kind not in "iu" or values.dtype.kind not in _PLAIN:
        raise DomainError("structured rows need keys of an integer type, and values of a type of real numbers")
    present = keys != EMPTY
    mask: Any = np.ma.getmask(rows)
    if mask is not np.ma.nomask:
        mask = np.atleast_1d(mask)
        hidden = mask["key"] | (mask["value"] & present)
        if not mend:
            rule = f"a key or its value is masked; the key {EMPTY} stands for no key"
            refuse_first(np.arange(len(given)), hidden.any(axis=1), rule)
        present &= ~hidden
    ends = np.cumsum(present.sum(axis=1, dtype=np.int64))
    return Entries(ends, keys[present].astype(np.int64), values[present].astype(np.float64))


def _of_list(vectors: Sequence[Any], d: int, mend: bool, names: Sequence[str] | None) -> Entries:
    """One vector for each user; what is none is left empty with `mend`."""
    found = [_pairs(vector, d, mend) for vector in vectors]
    if not mend:
        wrong = np.array([vector is None for vector in found], dtype=bool)
        refuse_first(np.arange(len(found)), wrong, f"this is not a sparse vector: {_ADVICE}")
    pairs = [pair for vector in found for pair in vector or ()]
    ends = np.cumsum([len(vector or ()) for vector in found], dtype=np.int64)
    keys, items = [key for key, _ in pairs], [value for _, value in pairs]
    if names is None:
        return _gathered(ends, _whole(_numbers(keys)), items, mend)
    number = {name: place for place, name in enumerate(names)}
    entries = _gathered(ends, np.array([_named(key, number) for key in keys], dtype=np.int64), items, mend)
    if not mend:
        _refuse_other_keys(entries, names)
    return entries


def entries_of_one(vector: Any, d: int, least: int, number: Mapping[str, int] | None = None) -> list[tuple[int, float]]:
    """The entries of the vector of one user, as `entries_of` mends it; `number` has the numbers of the names.

    What is no vector has none. Fewer than `least` are filled up with keys that there are not: a device takes as long
    for a user with few keys, and for one of whom nothing is known.
    """
    pairs = _pairs({} if vector is None else vector, d, mend=True) or []
    pairs += [(None, None)] * (least - len(pairs))
    if number is None:
        return [(_whole_number(_number(key)), _number(value)) for key, value in pairs]
    return [(_named(key, number), _number(value)) for key, value in pairs]


def _gathered(ends: NDArray[np.int64], keys: NDArray[np.int64], items: list[Any], mend: bool) -> Entries:
    """Entries with values one by one, all of which are there."""
    entries = Entries(ends, keys, _numbers(items))
    if not mend:
        _refuse_keys_without_values(entries, np.array([item is None for item in items], dtype=bool))
    return entries


def _refuse_keys_without_values(entries: Entries, missing: NDArray[np.bool_]) -> None:
    refuse_first(entries.rows, missing, "a key has no value; leave such keys out, or write 0 in a dense row")


def _refuse_other_keys(entries: Entries, names: Sequence[str] | None) -> None:
    if names is not None:
        refuse_first(entries.rows, entries.keys == _NO_TEXT, "a key is not a text; these keys have names")


class _Column(int):
    """The number of a column, which is not a key that somebody wrote."""


def _named(key: Any, number: Mapping[str, int]) -> int:
    """The number of a key. A dense row has those of its columns; names are texts, so the two cannot be mixed up."""
    if type(key) is _Column:
        return int(key)
    try:
        return number.get(key, UNKNOWN) if isinstance(key, str) else _NO_TEXT
    except Exception:  # as below
        return UNKNOWN


def _pairs(vector: Any, d: int, mend: bool) -> list[tuple[Any, Any]] | None:
    """The keys of one user and their values; None if it is not a vector."""
    try:
        return _taken(vector, d, mend)
    except Exception:  # that looking at something goes wrong is a fact about its user
        return None


def _taken(vector: Any, d: int, mend: bool) -> list[tuple[Any, Any]] | None:
    if isinstance(vector, Mapping):
        return [(key, value) for key, value in vector.items()]
    kind = array_kind(vector)
    if _is_structured(vector) or _is_matrix(vector) or (kind != "-" and vector.ndim == 2):
        one = entries_of(vector, d, mend=mend)
        return list(zip(map(_Column, one.keys), one.values, strict=True)) if len(one.ends) == 1 else None
    if kind != "-":
        vector = np.ma.filled(vector, 0)
    elif not is_list(vector):
        return None
    if all(isinstance(entry, list | tuple) and len(entry) == 2 for entry in vector):  # as Arrow or JSON writes a map
        return [(key, value) for key, value in vector]
    if len(vector) != d or any(isinstance(entry, list | tuple | dict | np.ndarray) for entry in vector):
        return None
    return [(_Column(key), value) for key, value in enumerate(vector) if value != 0]


def _numbers(items: list[Any]) -> NDArray[np.float64]:
    """Floats; what is no number is NaN."""
    return np.array([_number(item) for item in items], dtype=np.float64)


def _number(item: Any) -> float:
    try:
        return as_float(item)
    except Exception:  # as above
        return math.nan


def _whole(keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers; anything else becomes a key that there is not."""
    fine = np.isfinite(keys) & (np.abs(keys) < MOST_KEYS)
    fine[fine] &= keys[fine] % 1 == 0
    return np.where(fine, np.where(fine, keys, 0), UNKNOWN).astype(np.int64)


def _whole_number(key: float) -> int:
    """`_whole`, of one key."""
    return int(key) if abs(key) < MOST_KEYS and key % 1 == 0 else UNKNOWN  # NaN compares false
