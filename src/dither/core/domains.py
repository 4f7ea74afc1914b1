"""What a value may be, and the refusal of everything else without ever quoting it.

A record of d dimensions is a row of a table. `Records` looks at a table of floats in place: it is never copied,
since a mechanism reads only the few dimensions that it sampled.

A domain says what it is: its `kind`, one of those named here or any other text; the `parameters` by which a mechanism
for it is made; and, where its values are vectors of numbers, how many `coordinates` they have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float, checked_count, is_list, is_string, is_whole
from dither.core.parallel import each_chunk
from dither.errors import DomainError, ParameterError, RowError

T = TypeVar("T")

CATEGORIES = "categories"
NUMBERS = "numbers"  # from -1 to 1
RECORDS = "records"  # of numbers and categories
WHOLE_NUMBERS = "whole numbers"  # records of them, for range queries
SPARSE = "sparse"  # a few of d keys, each with a number
BALL = "ball"  # vectors of length at most 1
WORDS = "words"  # of up to so many codes
GROUPS = "groups"  # a number, and the group that its user chose
KINDS: dict[str, tuple[str, ...]] = {  # and the parameters by which a mechanism is made for a domain of that kind
    CATEGORIES: ("k",),
    NUMBERS: (),
    RECORDS: ("d",),
    WHOLE_NUMBERS: ("shape",),
    SPARSE: ("d", "s"),
    BALL: ("d",),
    GROUPS: ("groups",),
    WORDS: ("symbols", "longest"),
}

_SPREAD = 401  # numbers that stand for all of an interval
_NO_NUMBER = {
    "rule": "the value is not a number from -1 to 1",
    "advice": "scale the attribute first",
    "substitute": 'pass invalid="clip"',
}


@dataclass(frozen=True)
class Categories:
    """The whole numbers 0, ..., k - 1."""

    k: int

    kind: ClassVar[str] = CATEGORIES

    @property
    def coordinates(self) -> None:
        """None: a category is no vector of numbers."""

    @property
    def parameters(self) -> dict[str, Any]:
        """By which a mechanism for these categories is made."""
        return {"k": self.k}

    def check(self, values: Any, invalid: int | str = "error") -> NDArray[np.integer]:
        """The values as a one-dimensional integer array inside the domain.

        `invalid="error"` refuses a value outside. A category number puts that category in place of anything that is
        not a category, silently: on a device, that something was wrong is itself a fact about its user. (A float
        that is a whole number then counts as that number, since one missing value turns a column of integers into
        floats.)

        >>> Categories(3).check([0, 2, 9, None, "x", 1.0], invalid=2)
        array([0, 2, 2, 2, 2, 1])
        """
        values = unmasked(values)
        if not is_whole(invalid):
            if not is_string(invalid) or invalid != "error":
                raise ParameterError('invalid must be "error" or the number of a category to use instead')
            return self._inside(_array(values))
        substitute = checked_count("invalid", invalid, 0, self.k - 1)
        if array_kind(values) not in "iu":
            return np.array([self._category(item, substitute) for item in _items(values)], dtype=np.int64)
        array = _array(values)
        return np.where((array >= 0) & (array < self.k), array, substitute)

    def points(self, count: int) -> NDArray[np.int64]:
        """The first `count` categories."""
        return np.arange(count)

    def spread(self) -> NDArray[np.int64]:
        """All categories."""
        return np.arange(self.k)

    def _inside(self, array: NDArray) -> NDArray[np.integer]:
        if array.dtype.kind not in "iu":
            raise DomainError(
                f"values must have an integer dtype, not {DTYPE_NAMES.get(array.dtype.kind, 'another')}; "
                "encode categories as 0 .. k-1 first"
            )
        outside = (array < 0) | (array >= self.k)
        if outside.any():
            raise RowError(
                int(outside.argmax()),
                f"the value is not a category number from 0 to {self.k - 1}",
                substitute="pass invalid=<a category> to put that category in place of such values",
            )
        return array

    def _category(self, item: Any, substitute: int) -> int:
        number = as_float(item)
        number = int(number) if number.is_integer() else -1
        return number if 0 <= number < self.k else substitute


DTYPE_NAMES = {"f": "floating point", "U": "text", "S": "bytes", "b": "boolean", "O": "Python objects", "M": "dates"}
_SHAPE = "values must be one-dimensional: one value for each user"


def _array(values: Any) -> NDArray:
    try:
        array = np.asarray(values)
    except Exception:  # as may come of any type of one's own
        array = None  # the message of the conversion may quote a value: leave its handler before raising
    if array is not None and array.ndim == 0:
        array = array.reshape(1)
    if array is None or array.ndim != 1:
        raise DomainError(_SHAPE)
    return array if array.size else array.astype(np.int64)


def array_kind(values: Any) -> str:
    """NumPy's letter for what an array or a record holds, such as f for floats; - for what is neither."""
    return values.dtype.kind if issubclass(type(values), np.ndarray | np.void) else "-"


def as_list(values: Any) -> Any:  # a list, or whatever came
    """An array, a pandas column or an Arrow one as a list; anything else as it is."""
    return values.tolist() if hasattr(values, "tolist") else values


def unmasked(values: T) -> T | NDArray:
    """Masked entries as None, which no domain holds: what is under a mask is not to be read."""
    if issubclass(type(values), np.ma.MaskedArray):
        masked: Any = values
        hidden = np.ma.getmaskarray(masked)
        if not hidden.any():
            return masked.data
        shown = masked.data.astype(object)
        shown[hidden] = None
        return shown
    return values


def _items(values: Any) -> list[Any]:
    """The values one by one, as they are: an array of one type for all would turn numbers beside a text into texts."""
    items = as_list(values)
    items = list(items) if np.iterable(items) and not is_string(items) else [items]
    if any(isinstance(item, list | tuple | np.ndarray) for item in items):
        raise DomainError(_SHAPE)
    return items


@dataclass(frozen=True)
class UnitInterval:
    """Real numbers from -1 to 1."""

    kind: ClassVar[str] = NUMBERS

    @property
    def coordinates(self) -> int:
        """One."""
        return 1

    @property
    def parameters(self) -> dict[str, Any]:
        """By which a mechanism for numbers is made: none, since all have the same ends."""
        return {}

    def check(self, values: Any, invalid: str = "error") -> NDArray[np.float64]:
        """The values as floats inside the domain.

        `invalid="clip"` moves what lies outside to the nearer end, and what is no number (NaN, a text) to 0.

        >>> UnitInterval().check([0.5, 7.0, float("nan"), "x"], invalid="clip").tolist()
        [0.5, 1.0, 0.0, 0.0]
        """
        values = unmasked(values)
        if invalid == "clip":
            plain = array_kind(values) in "iuf" and values.ndim == 1
            array = np.asarray(values if plain else [as_float(item) for item in _items(values)], dtype=np.float64)
            return np.clip(np.nan_to_num(array, nan=0.0), -1.0, 1.0)
        if invalid != "error":
            raise ParameterError('invalid must be "error" or "clip"')
        array = _array(values)
        if array.dtype.kind not in "iuf":
            raise DomainError(f"values must be numbers, not {DTYPE_NAMES.get(array.dtype.kind, 'another type')}")
        outside = ~((array >= -1) & (array <= 1))  # NaN compares false, and is outside
        if outside.any():
            raise RowError(int(outside.argmax()), **_NO_NUMBER)
        return array.astype(np.float64)

    def points(self, count: int) -> NDArray[np.float64]:
        """`count` equally spaced values, from -1 to 1."""
        return np.linspace(-1.0, 1.0, count)

    def spread(self) -> NDArray[np.float64]:
        """Ends, centre, and many values between."""
        return self.points(_SPREAD)


@dataclass(frozen=True)
class Records:
    """Rows of d values, each in a domain of its own. `domains` has one entry for each dimension, or one for all."""

    d: int
    domains: tuple[Categories | UnitInterval, ...]

    kind: ClassVar[str] = RECORDS
    dimension: ClassVar[str] = "dimension"  # what a column is called in errors

    @property
    def parameters(self) -> dict[str, Any]:
        """By which a mechanism for such records is made."""
        return {"d": self.d}

    @property
    def coordinates(self) -> int | None:
        """d, if every dimension is a number."""
        return self.d if self.numeric else None

    def of(self, dimension: int) -> Categories | UnitInterval:
        """The domain of one dimension."""
        return self.domains[dimension % len(self.domains)]

    @property
    def numeric(self) -> bool:
        """Whether every dimension is a number from -1 to 1."""
        return all(domain.kind == NUMBERS for domain in self.domains)

    def check(self, values: Any, invalid: Any = "error") -> NDArray:
        """The records as a table with d columns: an array of rows, a mapping of columns, or a data frame.

        `invalid` is `"error"`, `"clip"` if all dimensions are numbers, or a list with an entry for each dimension.
        A table of floats whose dimensions are all numbers is not copied; with `"clip"` it is not even looked at
        here, since what is read from it is clipped then.
        """
        if array_kind(invalid) != "-":  # which does not compare as one
            raise ParameterError(f"invalid must be a rule, or a list with one for each of the {self.d} dimensions")
        values = unmasked(values)
        columns = named_columns(values)
        if columns is not None:
            if len(columns) != self.d:
                raise DomainError(f"records must have {self.d} columns")
            rules = self._rules(invalid)
            checked = [self._column(j, column, rules[j]) for j, column in enumerate(columns)]
            if len({len(column) for column in checked}) != 1:
                raise DomainError("the columns of a table must have the same length")
            return np.column_stack(checked)
        table = as_table(values, self.d, objects=invalid != "error" and array_kind(values) == "-")
        if self.numeric and table.dtype.kind == "f" and invalid in ("error", "clip"):
            if invalid == "error":
                _inside_everywhere(table)
            return table
        rules = self._rules(invalid)
        checked = [self._column(j, table[:, j], rules[j]) for j in range(self.d)]
        return np.column_stack(checked) if len(table) else np.zeros((0, self.d))

    def points(self, count: int) -> NDArray:
        """`count` records that stand for all: the corners of the cube come first."""
        columns = [self.of(j).points(2) for j in range(self.d)]
        numbers_ = np.arange(count)
        return np.column_stack([column[numbers_ >> (j % 60) & 1] for j, column in enumerate(columns)]).astype(float)

    def spread(self) -> NDArray:
        """Records on the diagonal: each dimension has all of its values, in turn."""
        columns = [self.of(j).spread() for j in range(self.d)]
        height = max(len(column) for column in columns)
        return np.column_stack([np.resize(column, height) for column in columns]).astype(float)

    def _rules(self, invalid: Any) -> list[Any]:
        if is_list(invalid):
            if len(invalid) != self.d:
                raise ParameterError(f"invalid must have one entry for each of the {self.d} dimensions")
            return list(invalid)
        if invalid == "error" or self.numeric:
            return [invalid] * self.d
        raise ParameterError(
            'records of numbers and categories need a list for invalid: "clip" for each number and a category for each '
            f"of the others, {self.d} entries"
        )

    def _column(self, j: int, column: Any, invalid: Any) -> NDArray:
        domain = self.of(j)
        if invalid == "error" and domain.kind == CATEGORIES:
            column = _whole(column)
        try:
            return domain.check(column, invalid)
        except RowError as error:
            wrong = self._placed(error, j)
        except DomainError as error:  # never quotes a value
            wrong = DomainError(f"{self.dimension} {j}: {error}")
        raise wrong

    def _placed(self, error: RowError, j: int) -> DomainError:
        """An error in one column, which says in which."""
        return error.but(column=f"{self.dimension} {j}")


def as_table(values: Any, d: int, *, objects: bool) -> NDArray:
    """One row for each user and d columns; with `objects`, numbers beside a text stay numbers."""
    try:
        table = np.asarray(values, dtype=object if objects else None)
    except Exception:  # as may come of any type of one's own
        table = None  # the message of the conversion may quote a value: leave its handler before raising
    if table is not None and table.size == 0 and table.ndim <= 2:
        return np.zeros((0, d))
    if table is not None and table.ndim == 1 and len(table) == d:
        table = table[None, :]  # one record
    if table is None or table.ndim != 2 or table.shape[1] != d:
        raise DomainError(f"values must be a table with one row for each user and {d} columns")
    return table


def named_columns(values: Any) -> list[Any] | None:
    """The columns of a mapping, a structured array or a data frame; None if it is a plain table."""
    if isinstance(values, Mapping):
        return list(values.values())
    if array_kind(values) == "V" and values.dtype.names:
        rows = np.atleast_1d(np.asarray(values))
        return [rows[name] for name in values.dtype.names]
    return [values.iloc[:, j].to_numpy() for j in range(values.shape[1])] if is_data_frame(values) else None


def is_data_frame(values: Any) -> bool:
    """Whether this is a data frame, without importing pandas to ask."""
    return hasattr(values, "iloc") and values.ndim == 2


def _whole(column: Any) -> Any:
    """Floats that are whole numbers as integers: in a table with numbers, categories are floats too."""
    try:
        array = np.asarray(column)
    except (ValueError, TypeError, OverflowError):
        return column
    if array.dtype.kind == "f" and array.ndim == 1:
        array = array.astype(np.float64)
        whole = np.isfinite(array) & (np.abs(array) < 2.0**53)
        whole &= np.where(whole, array, 0.5) == np.rint(np.where(whole, array, 0.5))
        return np.where(whole, array, -1).astype(np.int64)  # no category is -1
    return column


def _inside_everywhere(table: NDArray[np.floating]) -> None:
    """Refuse a table of floats with an entry outside [-1, 1], without making anything as large as it."""

    def look(rows: slice) -> None:
        part = table[rows]
        # The least and the greatest of numbers with a NaN among them is NaN, which compares false.
        if not (part.min() >= -1 and part.max() <= 1):
            outside = ~((part >= -1) & (part <= 1))
            row, dimension = divmod(int(outside.argmax()), part.shape[1])
            raise RowError(rows.start + row, column=f"dimension {dimension}", **_NO_NUMBER)

    each_chunk(look, len(table), max(1, (1 << 17) // max(table.shape[1], 1)))
