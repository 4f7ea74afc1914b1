"""What a value may be, and the refusal of everything else without ever quoting it."""

import numbers
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

        `invalid="error"` refuses a value outside; a category number puts that category in place of anything that is
        not a whole number inside, silently: on a device, that something was wrong is itself a fact about its user.

        >>> Categories(3).check([0, 2, 9], invalid=2)
        array([0, 2, 2])
        >>> Categories(3).check([0, None, "x"], invalid=1)
        array([0, 1, 1])
        """
        array = _array(values)
        if invalid == "error":
            if array.dtype.kind not in "iu":
                raise DomainError(
                    f"values must have an integer dtype, not {_KINDS.get(array.dtype.kind, 'another')}; "
                    "encode categories as 0 .. k-1 first"
                )
            outside = (array < 0) | (array >= self.k)
            if outside.any():
                row = int(outside.argmax())
                raise DomainError(
                    f"row {row}: the value is not a category number from 0 to {self.k - 1}; "
                    "pass invalid=<a category> to put that category in place of such values"
                )
            return array
        if isinstance(invalid, str):
            raise ParameterError('invalid must be "error" or the number of a category to use instead')
        substitute = checked_count("invalid", invalid, 0, self.k - 1)
        if array.dtype.kind not in "iu":
            whole = [isinstance(value, numbers.Integral) and not isinstance(value, bool) for value in array.tolist()]
            array = np.where(whole, array, -1).astype(object)
        return np.where((array >= 0) & (array < self.k), array, substitute).astype(np.int64)


_KINDS = {"f": "floating point", "U": "text", "S": "bytes", "b": "boolean", "O": "Python objects", "M": "dates"}


def _array(values: Any) -> NDArray:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        array = None  # the message of the conversion may quote a value: leave its handler before raising
    if array is not None and array.ndim == 0:
        array = array.reshape(1)
    if array is None or array.ndim != 1:
        raise DomainError("values must be one-dimensional: one category number for each user")
    return array if array.size else array.astype(np.int64)
