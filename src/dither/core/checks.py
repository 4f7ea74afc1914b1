"""What a parameter may be: one small function a rule, so that every mechanism refuses in the same words."""

import math
import numbers

from dither.core.errors import ParameterError

SMALLEST_EPSILON = 1e-12


def checked_epsilon(epsilon: float) -> float:
    """A finite, positive privacy budget, as a float."""
    if epsilon is None:
        raise ParameterError("epsilon is missing: the privacy budget, for example epsilon=1.0")
    number = _real("epsilon", epsilon)
    if not math.isfinite(number) or number <= 0:
        raise ParameterError("epsilon must be a finite number above 0, for example epsilon=1.0")
    if number < SMALLEST_EPSILON:
        raise ParameterError(
            f"epsilon must be at least {SMALLEST_EPSILON:g}: below, no crowd is large enough to learn from"
        )
    return number


def checked_delta(delta: float) -> float:
    """A failure probability in [0, 1), as a float."""
    number = _real("delta", delta)
    if not 0 <= number < 1:
        raise ParameterError("delta must be at least 0 and below 1, for example delta=1e-6")
    return number


def checked_count(name: str, count: int, least: int, most: int | None = None) -> int:
    """A whole number in [least, most], as an int."""
    if isinstance(count, bool) or not isinstance(count, numbers.Integral):
        raise ParameterError(f"{name} must be a whole number, not {type(count).__name__}")
    number = int(count)
    if number < least:
        raise ParameterError(f"{name} must be at least {least}")
    if most is not None and number > most:
        raise ParameterError(f"{name} must be at most {most}")
    return number


def _real(name: str, number: float) -> float:
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        raise ParameterError(f"{name} must be a number, not {type(number).__name__}")
    return float(number)
