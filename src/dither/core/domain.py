"""What a value may be, and the refusal of everything else without ever quoting it."""

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

        `invalid="error"` refuses a value outside; a category number puts that category in its place, silently,
        since on a device even the fact that something was wrong is a fact about the user.

        >>> Categories(3).check([0, 2, 9], invalid=2)
        array([0, 2, 2])
        """
        array = _array(values)
        outside = (array < 0) | (array >= self.k) if array.size else np.zeros(0, dtype=bool)
        if invalid == "error":
            if outside.any():
                row = int(outside.argmax())
                raise DomainError(
                    f"row {row}: the value is not a category number from 0 to {self.k - 1}; "
                    "pass invalid=<a category> to put that category in place of such values"
                )
            return array
        if isinstance(invalid, str):
            raise ParameterError('invalid must be "error" or the number of a category to use instead')
        return np.where(outside, checked_count("invalid", invalid, 0, self.k - 1), array)


def _array(values: Any) -> NDArray[np.integer]:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        array = None  # the message of the conversion may quote a value: leave its handler before raising
    if array is not None and array.ndim == 0:
        array = array.reshape(1)
    if array is None or array.ndim != 1:
        raise DomainError("values must be one-dimensional: one category number for each user")
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DomainError(
            f"values must have an integer dtype, not {array.dtype.name}; encode categories as 0 .. k-1 first"
        )
    return array
