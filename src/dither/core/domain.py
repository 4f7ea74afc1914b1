"""What a value may be, and the refusal of everything else without ever quoting it."""

import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.errors import DomainError, ParameterError


@dataclass(frozen=True)
class Categories:
    """The whole numbers 0, ..., k - 1."""

    k: int

    def check(self, values: Any, invalid: int | str = "error") -> NDArray[np.integer]:
        """The values as a one-dimensional integer array inside the domain.

        `invalid="error"` refuses a value outside. A category number puts that category in place of anything that is
        not a category, silently: on a device, that something was wrong is itself a fact about its user. (A float
        that is a whole number then counts as that number, since one missing value turns a column of integers into
        floats.)

        >>> Categories(3).check([0, 2, 9, None, "x", 1.0], invalid=2)
        array([0, 2, 2, 2, 2, 1])
        """
        if invalid == "error":
            return self._inside(_array(values))
        if isinstance(invalid, str):
            raise ParameterError('invalid must be "error" or the number of a category to use instead')
        substitute = checked_count("invalid", invalid, 0, self.k - 1)
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
            return np.array([self._category(item, substitute) for item in _items(values)], dtype=np.int64)
        array = _array(values)
        return np.where((array >= 0) & (array < self.k), array, substitute)

    def points(self, count: int) -> NDArray[np.int64]:
        """The first `count` categories."""
        return np.arange(count)

    def _inside(self, array: NDArray) -> NDArray[np.integer]:
        if array.dtype.kind not in "iu":
            raise DomainError(
                f"values must have an integer dtype, not {_KINDS.get(array.dtype.kind, 'another')}; "
                "encode categories as 0 .. k-1 first"
            )
        outside = (array < 0) | (array >= self.k)
        if outside.any():
            raise DomainError(
                f"row {int(outside.argmax())}: the value is not a category number from 0 to {self.k - 1}; "
                "pass invalid=<a category> to put that category in place of such values"
            )
        return array

    def _category(self, item: Any, substitute: int) -> int:
        whole = isinstance(item, numbers.Integral) and not isinstance(item, bool)
        whole = whole or (isinstance(item, float | np.floating) and float(item).is_integer())
        number = int(item) if whole else -1
        return number if 0 <= number < self.k else substitute


_KINDS = {"f": "floating point", "U": "text", "S": "bytes", "b": "boolean", "O": "Python objects", "M": "dates"}
_SHAPE = "values must be one-dimensional: one value for each user"


def _array(values: Any) -> NDArray:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        array = None  # the message of the conversion may quote a value: leave its handler before raising
    if array is not None and array.ndim == 0:
        array = array.reshape(1)
    if array is None or array.ndim != 1:
        raise DomainError(_SHAPE)
    return array if array.size else array.astype(np.int64)


def _items(values: Any) -> list[Any]:
    """The values one by one, as they are: an array of one type for all would turn numbers beside a text into texts."""
    items = values.tolist() if hasattr(values, "tolist") else values
    items = list(items) if isinstance(items, Iterable) and not isinstance(items, str | bytes) else [items]
    if any(isinstance(item, list | tuple | np.ndarray) for item in items):
        raise DomainError(_SHAPE)
    return items


@dataclass(frozen=True)
class Interval:
    """Real numbers from -1 to 1."""

    def check(self, values: Any, invalid: str = "error") -> NDArray[np.float64]:
        """The values as floats inside the domain.

        `invalid="clip"` moves what lies outside to the nearer end, and what is no number (NaN, a text) to 0.

        >>> Interval().check([0.5, 7.0, float("nan"), "x"], invalid="clip").tolist()
        [0.5, 1.0, 0.0, 0.0]
        """
        if invalid == "clip":
            numbers_only = [_number(item) for item in _items(values)] if not _is_float(values) else values
            array = np.asarray(numbers_only, dtype=np.float64)
            return np.clip(np.nan_to_num(array, nan=0.0), -1.0, 1.0)
        if invalid != "error":
            raise ParameterError('invalid must be "error" or "clip"')
        array = _array(values)
        if array.dtype.kind not in "iuf":
            raise DomainError(f"values must be numbers, not {_KINDS.get(array.dtype.kind, 'another type')}")
        outside = ~((array >= -1) & (array <= 1))  # NaN compares false, and is outside
        if outside.any():
            raise DomainError(
                f"row {int(outside.argmax())}: the value is not a number from -1 to 1; scale the attribute first, "
                'or pass invalid="clip"'
            )
        return array.astype(np.float64)

    def points(self, count: int) -> NDArray[np.float64]:
        """`count` equally spaced values, from -1 to 1."""
        return np.linspace(-1.0, 1.0, count)


def _is_float(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind in "iuf" and values.ndim == 1


def _number(item: Any) -> float:
    real = isinstance(item, numbers.Real) and not isinstance(item, bool)
    return float(item) if real else float("nan")
