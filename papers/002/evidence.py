"""How measured numbers are compared and told: a difference counts beyond three standard errors."""

import math
from collections.abc import Sequence

from dither.reproduce.measured import Row

SURE = 3.0


def spread(*rows: Row) -> float:
    """The standard error of a difference; what was measured once has none."""
    return math.hypot(*(0.0 if math.isnan(row.stderr) else row.stderr for row in rows))


def surely_below(one: Row, other: Row) -> bool:
    """Whether the first is smaller, beyond the noise."""
    return one.value + SURE * spread(one, other) < other.value


def some(cases: Sequence[str], most: int = 3) -> str:
    """The first few of these, behind a colon; nothing if there are none."""
    if not cases:
        return ""
    return f": {'; '.join(cases[:most])}{' ...' if len(cases) > most else ''}"
