"""What a parameter may be: one small function a rule, so that every mechanism refuses in the same words."""

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError

SMALLEST_EPSILON = 1e-12


def checked_epsilon(epsilon: float) -> float:
    """A finite, positive privacy budget, as a float."""
    if epsilon is None:
        raise ParameterError("epsilon is missing: the privacy budget, for example epsilon=1.0")
    number = checked_real("epsilon", epsilon)
    if not math.isfinite(number) or number <= 0:
        raise ParameterError("epsilon must be a finite number above 0, for example epsilon=1.0")
    if number < SMALLEST_EPSILON:
        raise ParameterError(
            f"epsilon must be at least {SMALLEST_EPSILON:g}: below, no crowd is large enough to learn from"
        )
    return number


def checked_delta(delta: float) -> float:
    """A failure probability in [0, 1), as a float."""
    number = checked_real("delta", delta)
    if not 0 <= number < 1:
        raise ParameterError("delta must be at least 0 and below 1, for example delta=1e-6")
    return number


def checked_count(name: str, count: int, least: int, most: int | None = None) -> int:
    """A whole number in [least, most], as an int."""
    if not is_whole(count):
        raise ParameterError(f"{name} must be a whole number, not {type(count).__name__}")
    number = int(count)
    if number < least:
        raise ParameterError(f"{name} must be at least {least}")
    if most is not None and number > most:
        raise ParameterError(f"{name} must be at most {most}")
    return number


def checked_confidence(confidence: float) -> float:
    """A probability that is neither 0 nor 1, as a float."""
    number = checked_real("confidence", confidence)
    if not 0 < number < 1:
        raise ParameterError("confidence must lie between 0 and 1, for example 0.95")
    return number


def checked_list(rule: str, given: Any, least: int, most: int | None = None) -> tuple[Any, ...]:
    """The entries of a list or a tuple, from `least` to `most` of them, or just `least`; `rule` says so in an error."""
    if not isinstance(given, tuple | list) or not least <= len(given) <= (least if most is None else most):
        raise ParameterError(rule)
    return tuple(given)


def checked_real(name: str, number: float) -> float:
    """Any real number as a float; infinite if it is beyond all floats."""
    if not is_real(number):
        raise ParameterError(f"{name} must be a number, not {type(number).__name__}")
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def real_array(given: Any) -> NDArray[np.float64] | None:
    """Real numbers as floats, in the shape they were given; None if they are not, since each caller has its own words.

    The message of a conversion may quote a value, so none is kept. Texts are not read as numbers, and what is under a
    mask is not read at all.
    """
    try:
        array = np.asarray(given)
        if array.dtype.kind == "O" and all(map(is_real, array.flat)):
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" and not np.ma.is_masked(given) else None


def is_real(number: Any) -> bool:
    """Whether this is a real number, of whatever type; True and False are none."""
    return isinstance(number, numbers.Real) and not isinstance(number, bool)


def is_whole(number: Any) -> bool:
    """Whether this is a whole number, of whatever type; True and False are none."""
    return isinstance(number, numbers.Integral) and not isinstance(number, bool)


def as_float(item: Any) -> float:
    """Any real number as a float, infinite if it is beyond all floats; NaN for what is no number."""
    if not is_real(item):
        return math.nan
    return checked_real("", item)
