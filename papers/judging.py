"""What judges of claims share: numbers as text, and differences beyond noise."""

import math
from collections.abc import Iterable

from dither.reproduce.measured import Coordinate, Measured

BEYOND_NOISE = 3.0  # standard errors


def told(values: Iterable[float]) -> str:
    """Numbers in a row, with three digits."""
    return ", ".join(f"{value:.3g}" for value in values)


def beyond(found: Measured, by: str, one: str, other: str, **where: Coordinate) -> float:
    """By how many standard errors one number is above another; infinite where neither has noise."""
    first, second = (found.row(**{by: name}, **where) for name in (one, other))
    noise = math.hypot(*(0.0 if math.isnan(row.stderr) else row.stderr for row in (first, second)))
    apart = first.value - second.value
    return apart / noise if noise else math.copysign(math.inf, apart) if apart else 0.0
