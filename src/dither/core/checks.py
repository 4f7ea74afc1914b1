"""What a parameter may be: one small function a rule, so that every mechanism refuses in the same words."""

import math
import numbers
from collections.abc import Sequence
from typing import Any, TypeGuard

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
    number = whole_number(count)
    if number is None:
        raise ParameterError(f"{name} must be a whole number, not {type(count).__name__}")
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


def checked_choice(name: str, given: Any, allowed: Sequence[str]) -> str:
    """One of several words, as it stands in the list of them.

    >>> checked_choice("missing", "error", ("substitute", "error"))
    'error'
    """
    word = as_text(given)
    if word not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(allowed)}")
    return word


def checked_list(rule: str, given: Any, least: int, most: int | None = None) -> tuple[Any, ...]:
    """The entries of a list or a tuple, from `least` to `most` of them, or just `least`; `rule` says so in an error."""
    if not is_list(given) or not least <= len(given) <= (least if most is None else most):
        raise ParameterError(rule)
    return tuple(given)


def checked_real(name: str, number: float) -> float:
    """Any real number as a float; infinite if it is beyond all floats."""
    if not is_real(number):
        raise ParameterError(f"{name} must be a number, not {type(number).__name__}")
    return as_float(number)


def real_array(given: Any) -> NDArray[np.float64] | None:
    """Real numbers as floats, in the shape they were given; None if they are not, since each caller has its own words.

    The message of a conversion may quote a value, so none is kept. Texts are not read as numbers, and what is under a
    mask is not read at all.
    """
    try:
        array = np.asarray(given)
        if array.dtype.kind == "O" and all(map(is_real, array.flat)):
            array = array.astype(np.float64)
    except Exception:  # as may come of any type of one's own
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" and not np.ma.is_masked(given) else None


def is_real(number: Any) -> bool:
    """Whether this is a real number, of whatever type; True and False are none."""
    real, truth = _is(number, numbers.Real), _is(number, bool)  # both, so that a device takes as long for all values
    return real and not truth


def is_whole(number: Any) -> TypeGuard[int]:
    """Whether this is a whole number of a type that holds no others; True and False are none."""
    return _is(number, numbers.Integral) and is_real(number)


def whole_number(number: Any) -> int | None:
    """A whole number of any type as an int; None for what is none, or cannot say which."""
    try:
        return int(number) if is_whole(number) else None
    except Exception:
        return None


def is_string(given: Any) -> bool:
    """Whether this is a text or bytes: a sequence to Python, but one value."""
    return _is(given, str | bytes | bytearray | memoryview)


def as_text(given: Any) -> str:
    """A text of whatever type as it is written, an empty one for what is none."""
    return str.__str__(given) if _is(given, str) else ""


def is_list(given: Any) -> TypeGuard[Sequence[Any]]:
    """Whether this is a list, a tuple, or another sequence of values."""
    return _is(given, Sequence) and not is_string(given)


def _is(given: Any, kinds: Any) -> bool:
    """`isinstance`, for anything: a class of one's own may refuse to say what it is, and is none of these then."""
    try:
        return isinstance(given, kinds)
    except Exception:
        return False


def as_float(item: Any) -> float:
    """Any real number as a float, infinite if it is beyond all floats; NaN for what is no number, or cannot say which.

    >>> as_float(3), as_float(-(10**400)), as_float("3")
    (3.0, -inf, nan)
    """
    try:
        try:
            return float(item) if is_real(item) else math.nan
        except OverflowError:
            return math.inf if item > 0 else -math.inf
    except Exception:  # of a type of one's own: that looking at something goes wrong is a fact about its user
        return math.nan
