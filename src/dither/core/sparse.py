"""Sparse vectors: a few of many keys, each with a number from -1 to 1. The domain of key-value mechanisms.

Whatever holds the vectors (a dense table, a SciPy CSR matrix, a list of dictionaries, an Arrow column of maps), they
become one array with a row for each user: `key` and `value`, as wide as the user with the most keys, but at least s;
empty places have the key -1. In a dense table 0 means absent; in the other forms every stored key is present, also with
the value 0.

**Bad vectors.** `invalid="error"` refuses a key outside 0 .. d-1, a key that stands twice, a value outside [-1, 1], and
more than s keys unless the mechanism samples them down, with the row and the rule, never the key or the value.
`invalid="substitute"`, for collection, leaves out unknown keys and what is no number, keeps the first of equal keys,
moves values to the nearer end, and samples down; what is no vector at all is one without keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.errors import DomainError, ParameterError

EMPTY = -1
MOST_KEYS = 1 << 30
MOST_LISTED = 1 << 16
RULES = ("error", "substitute")
_ADVICE = "give a dense table (n, d), a SciPy CSR matrix, a list of dictionaries {key: value} or an Arrow map column"


class Entries(NamedTuple):
    """The stored entries of all rows, one row after the other."""

    ends: NDArray[np.int64]  # of each row, behind its last entry
    keys: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def rows(self) -> NDArray[np.intp]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))


@dataclass(frozen=True)
class Sparse:
    """Vectors over d keys of which about s are present; with `sample`, users may have more."""

    d: int
    s: int
    sample: bool = False

    def check(self, values: Any, invalid: Any = "error") -> NDArray:
        """The vectors as one array, or an error that does not quote them."""
        if invalid not in RULES:
            raise ParameterError(f"invalid must be one of {', '.join(RULES)}")
        mend = invalid == "substitute"
        if isinstance(values, np.ndarray | np.void) and values.dtype.names == ("key", "value"):
            entries = _of_rows(np.atleast_1d(values))
        else:
            entries = _entries(values, self.d, mend)
        return self._rows(self._mended(entries) if mend else self._refused(entries))

    def _refused(self, entries: Entries) -> Entries:
        """The entries, if all are as they should be."""
        rows, keys, values = entries.rows, entries.keys, entries.values
        _first(rows, (keys < 0) | (keys >= self.d), f"a key is not a whole number from 0 to {self.d - 1}")
        _first(rows, ~((values >= -1) & (values <= 1)), "a value is not a number from -1 to 1")
        order = np.lexsort((keys, rows))
        twice = (np.diff(rows[order]) == 0) & (np.diff(keys[order]) == 0)
        _first(rows[order][1:], twice, "a key stands twice")
        counts = np.diff(entries.ends, prepend=0)
        if not self.sample:
            rule = f"there are more than {self.s} keys; sample=True takes {self.s} of them at random"
            _first(np.arange(len(counts)), counts > self.s, rule)
        return entries

    def _mended(self, entries: Entries) -> Entries:
        """The entries that can be used, in their order."""
        known = (entries.keys >= 0) & (entries.keys < self.d) & ~np.isnan(entries.values)
        rows, keys, values = entries.rows[known], entries.keys[known], entries.values[known]
        order = np.lexsort((np.arange(len(keys)), keys, rows))
        kept = np.ones(len(keys), dtype=bool)
        kept[order[1:]] = (np.diff(rows[order]) != 0) | (np.diff(keys[order]) != 0)
        counts = np.bincount(rows[kept], minlength=len(entries.ends))
        return Entries(np.cumsum(counts), keys[kept], np.clip(values[kept], -1.0, 1.0))

    def _rows(self, entries: Entries) -> NDArray:
        counts = np.diff(entries.ends, prepend=0)
        made = np.empty(len(counts), dtype=row_dtype(max(self.s, int(counts.max(initial=0)))))
        made["key"], made["value"] = EMPTY, 0.0
        rows = entries.rows
        place = np.arange(len(rows)) - (entries.ends - counts)[rows]
        made["key"][rows, place], made["value"][rows, place] = entries.keys, entries.values
        return made

    # What stands for all of them ---------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many vectors of signs there are with at most s keys."""
        return sum(comb(self.d, count) * 2**count for count in range(self.s + 1))

    def vector(self, number: int) -> dict[int, int]:
        """The vector of signs with this number: fewer keys first."""
        count = 0
        while number >= comb(self.d, count) * 2**count:
            number -= comb(self.d, count) * 2**count
            count += 1
        chosen, signs = divmod(number, 2**count)
        keys = next(each for place, each in enumerate(combinations(range(self.d), count)) if place == chosen)
        return {key: 2 * (signs >> bit & 1) - 1 for bit, key in enumerate(keys)}

    def points(self, count: int) -> NDArray:
        """`count` vectors of signs."""
        if count > MOST_LISTED:
            raise ParameterError("there are too many sparse vectors to list")
        step = max(1, self.size // count) if self.size < 1 << 20 else 1
        return self.check([self.vector(i * step % self.size) for i in range(count)])

    def spread(self) -> NDArray:
        """Vectors with no, one and s keys, of both signs, and one whose values are 0, the hardest for the noise.

        None has more than s keys: what sampling down costs beside the noise takes the users' vectors to tell.
        """
        most = list(range(min(self.s, self.d)))
        kinds = [{}, {0: 1}, {0: -1}, dict.fromkeys(most, 1), dict.fromkeys(most, -1), dict.fromkeys(most, 0.0)]
        return self.check(kinds)


def row_dtype(width: int) -> np.dtype:
    """A user's keys and values, `width` of them."""
    return np.dtype([("key", np.int32, (width,)), ("value", np.float64, (width,))])


def signs_of(d: int, s: int) -> list[dict[int, int]]:
    """All vectors of signs with at most s of d keys, in the order of `Sparse.vector`."""
    return [
        {key: signs[bit] for bit, key in enumerate(keys)}
        for count in range(s + 1)
        for keys in combinations(range(d), count)
        for signs in (tuple(reversed(each)) for each in product((-1, 1), repeat=count))
    ]


# Forms -----------------------------------------------------------------------------------------------------------


def _entries(values: Any, d: int, mend: bool) -> Entries:
    if hasattr(values, "tocsr"):
        return _of_csr(values.tocsr(), d)
    if hasattr(values, "combine_chunks"):  # Arrow
        values = values.combine_chunks()
    if hasattr(values, "offsets") and hasattr(values, "keys") and hasattr(values, "items"):
        return _of_maps(values, mend)
    if isinstance(values, Mapping):
        values = [values]
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb" and values.ndim == 2:
        return _of_table(values, d)
    if isinstance(values, np.ndarray) and values.dtype.kind == "O" and values.ndim == 1:
        values = values.tolist()
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        if all(isinstance(vector, Mapping) for vector in values):
            return _of_dictionaries(values)
        widths = {len(vector) if isinstance(vector, Sequence) else -1 for vector in values}
        if len(widths) == 1 and widths != {-1}:
            return _of_table(_numbers([item for vector in values for item in vector]).reshape(len(values), -1), d)
        if mend:
            return _of_dictionaries([vector if isinstance(vector, Mapping) else {} for vector in values])
    raise DomainError(f"these are not sparse vectors: {_ADVICE}")


def _of_table(table: NDArray, d: int) -> Entries:
    if table.shape[1] != d:
        raise DomainError(f"a dense table needs one column for each of the {d} keys")
    rows, keys = np.nonzero(table)
    ends = np.cumsum(np.bincount(rows, minlength=len(table)))
    return Entries(ends, keys.astype(np.int64), table[rows, keys].astype(np.float64))


def _of_csr(matrix: Any, d: int) -> Entries:
    if len(matrix.shape) != 2 or matrix.shape[1] != d or matrix.dtype.kind not in "iufb":
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


def _of_dictionaries(vectors: Sequence[Mapping[Any, Any]]) -> Entries:
    ends = np.cumsum(np.array([len(vector) for vector in vectors], dtype=np.int64))
    keys = _numbers([key for vector in vectors for key in vector])
    return Entries(ends, _whole(keys), _numbers([value for vector in vectors for value in vector.values()]))


def _of_rows(rows: NDArray) -> Entries:
    present = rows["key"] != EMPTY
    ends = np.cumsum(present.sum(axis=1, dtype=np.int64))
    return Entries(ends, rows["key"][present].astype(np.int64), rows["value"][present].astype(np.float64))


def _numbers(items: list[Any]) -> NDArray[np.float64]:
    """Floats; what is no number is NaN."""
    return np.array([_number(item) for item in items], dtype=np.float64)


def _number(item: Any) -> float:
    if not isinstance(item, int | float | np.integer | np.floating) or isinstance(item, bool):
        return np.nan
    if isinstance(item, int) and abs(item) > 1 << 64:
        return np.inf if item > 0 else -np.inf  # may be beyond all floats
    return float(item)


def _whole(keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers; anything else becomes a key that there is not."""
    fine = np.isfinite(keys) & (np.abs(keys) < MOST_KEYS)
    fine[fine] &= keys[fine] % 1 == 0
    return np.where(fine, np.where(fine, keys, 0), -2).astype(np.int64)


def _first(rows: NDArray, wrong: NDArray[np.bool_], rule: str) -> None:
    """Refuse the first row where something is wrong."""
    if wrong.any():
        raise DomainError(f"row {int(rows[wrong].min())}: {rule}")
