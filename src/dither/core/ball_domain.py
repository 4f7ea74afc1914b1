"""Vectors of Euclidean length at most 1: clipped gradients and updates, embeddings, directions.

`Records` bounds every entry of a row by itself; a `Ball` bounds the length of the whole row, so what one user can
move is a direction of length 1 however many entries it has. A table of floats that already lies inside is not copied:
lengths are taken chunk by chunk, and only a table with a row that has to change becomes a new one.

Lengths are floats, and a row that was divided by its own length may come out a few units of the last place above 1.
Rows up to `TOLERANCE` too long are therefore accepted and scaled down. No guarantee hangs on it: a mechanism on the
ball is private for any input whatever, and the bound only says which inputs its estimate is right for.

`shortened_to` is the one way here to cut a row to a length, for the ball as for clipped updates of any size. Squares of
entries overflow long before the entries do, and vanish where they are tiny: a row is divided by its largest entry
first, so that whatever is finite keeps its direction. Nothing is said about it: a warning that only some values cause
tells something about them.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float, is_list
from dither.core.domains import BALL, DTYPE_NAMES, as_table, named_columns, unmasked
from dither.core.parallel import each_chunk
from dither.errors import DomainError, ParameterError, RowError

TOLERANCE = 1e-9
_CHUNK = 1 << 17  # numbers


@dataclass(frozen=True)
class Ball:
    """Rows of d numbers whose squares add up to at most 1."""

    d: int

    kind: ClassVar[str] = BALL

    @property
    def parameters(self) -> dict[str, Any]:
        """By which a mechanism for such vectors is made."""
        return {"d": self.d}

    @property
    def coordinates(self) -> int:
        """d."""
        return self.d

    def check(self, values: Any, invalid: str = "error") -> NDArray[np.float64]:
        """The vectors as a table of floats with d columns and no row longer than 1.

        `invalid="error"` refuses a row that is longer or has an entry that is no finite number. `"clip"` scales longer
        rows to length 1, and a row with anything that is not a finite number becomes zero, silently: on a device,
        that something was wrong is itself a fact about its user.

        >>> Ball(2).check([[3.0, 4.0], [0.1, 0.2], [float("nan"), 0.5]], invalid="clip").tolist()
        [[0.6, 0.8], [0.1, 0.2], [0.0, 0.0]]
        """
        if invalid not in ("error", "clip"):
            raise ParameterError('invalid must be "error" or "clip"')
        table = self._table(unmasked(values), lenient=invalid == "clip")
        lengths = _lengths(table, 1.0)
        if invalid == "error":
            outside = ~(lengths <= 1 + TOLERANCE)  # NaN compares false, and is outside
            if outside.any():
                raise RowError(
                    int(outside.argmax()),
                    f"the values are not {self.d} numbers whose squares add up to at most 1",
                    advice="divide by a public bound on the length first",
                    substitute='pass invalid="clip"',
                )
        return _shortened(table, lengths, 1.0)

    def points(self, count: int) -> NDArray[np.float64]:
        """`count` vectors of length 1 that stand for all: the axes and their opposites, then others in between."""
        numbers = np.arange(count)
        rows = np.zeros((count, self.d))
        rows[numbers, numbers // 2 % self.d] = 1 - 2.0 * (numbers % 2)
        later = numbers >= 2 * self.d
        rows[later] += np.cos(np.outer(numbers[later], np.arange(1, self.d + 1)))  # any directions, always the same
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def spread(self) -> NDArray[np.float64]:
        """Zero, an axis at several lengths, two entries, all entries alike, signs in turn, entries that fall off."""
        rows = np.zeros((10, self.d))
        rows[1:5, 0] = 0.25, 0.5, -0.75, 1.0
        rows[5, : min(2, self.d)] = 1.0
        rows[6] = 1.0
        rows[7] = 1.0 - 2.0 * (np.arange(self.d) % 2)
        rows[8] = 1.0 / np.arange(1, self.d + 1)
        rows[9] = 0.5 / np.sqrt(self.d)
        rows[5:9] /= np.linalg.norm(rows[5:9], axis=1, keepdims=True)
        return rows

    def _table(self, values: Any, lenient: bool) -> NDArray[np.float64]:
        columns = named_columns(values)
        if columns is not None:
            values = _stacked(columns)
        table = as_table(values, self.d, objects=lenient and is_list(values))
        if table.dtype.kind in "iuf":
            with np.errstate(all="ignore"):  # wider floats may have no place in these
                return table.astype(np.float64, copy=False)
        if not lenient and table.dtype.kind != "O":
            raise DomainError(f"values must be numbers, not {DTYPE_NAMES.get(table.dtype.kind, 'another type')}")
        return np.array([as_float(item) for item in table.ravel()], dtype=np.float64).reshape(table.shape)


def _stacked(columns: list[Any]) -> NDArray:
    """Columns side by side, as they are."""
    if len({len(column) for column in columns}) != 1:
        raise DomainError("the columns of a table must have the same length")
    kinds = {np.asarray(column).dtype.kind for column in columns}
    return np.column_stack([np.asarray(column, dtype=None if kinds <= set("iuf") else object) for column in columns])


def shortened_to(rows: NDArray[np.float64], norm: float) -> NDArray[np.float64]:
    """Rows longer than `norm` scaled to it, and rows with anything that is not finite as zeros.

    A table with no such row is given back as it is.

    >>> shortened_to(np.array([[3.0, 4.0], [0.3, 0.4], [1e308, 1e308], [np.nan, 1.0]]), 1.0).round(3).tolist()
    [[0.6, 0.8], [0.3, 0.4], [0.707, 0.707], [0.0, 0.0]]
    """
    rows = np.asarray(rows, dtype=np.float64)
    return _shortened(rows, _lengths(rows, norm), norm)


def _lengths(table: NDArray[np.float64], norm: float) -> NDArray[np.float64]:
    """The length of every row in units of `norm`; NaN where an entry is not finite, infinite beyond all floats."""
    found = np.empty(len(table))

    def measure(rows: slice) -> None:
        part = table[rows]
        with np.errstate(all="ignore"):  # of its own: threads do not share it
            peak = np.abs(part).max(axis=1, initial=0.0)
            scale = np.where(peak <= norm, norm, peak)  # entries far below the norm may vanish: they do not matter
            # An infinity by an infinity is NaN, as is all that is divided by one.
            found[rows] = np.sqrt(np.square(part / scale[:, None]).sum(axis=1)) * (scale / norm)

    each_chunk(measure, len(table), max(1, _CHUNK // max(1, table.shape[1])))
    return found


def _shortened(table: NDArray[np.float64], lengths: NDArray[np.float64], norm: float) -> NDArray[np.float64]:
    """Rows longer than 1 times `norm` at that length, rows without one as zero; the same table if there are none."""
    change = np.flatnonzero(~(lengths <= 1))
    if not change.size:
        return table
    table = table.copy()
    lost = np.isnan(lengths[change])
    table[change[lost]] = 0.0
    long = change[~lost]
    with np.errstate(all="ignore"):
        part = table[long] / np.abs(table[long]).max(axis=1, keepdims=True)
        table[long] = part / np.sqrt(np.square(part).sum(axis=1, keepdims=True)) * norm
    return table
