"""How measured numbers are compared and told.

A difference counts where it is beyond three standard errors. Standard errors of few repetitions are not well known, so
three are widened by Student's law to what is as rare: 6.6 for two numbers of three repetitions each, 3.5 for ten. A
number that was measured once has no standard error, and decides nothing. `pooled` takes the relative noise of a line
from all its settings together, which is better known than that of one; where one has more of its own, that counts.
"""

import math
from collections.abc import Sequence

from scipy.special import stdtrit

from dither.reproduce.measured import Coordinate, Measured, Row

SURE = 3.0
_RARE = 0.99865  # what a normal law has below three standard deviations


def spread(*rows: Row) -> float:
    """The standard error of a sum or difference; NaN where one was measured once."""
    return math.sqrt(sum(row.stderr**2 for row in rows))


def width(*rows: Row) -> float:
    """How many standard errors count as three; of several numbers the freedom is Welch's."""
    parts = [(row.stderr**2, row.repetitions - 1) for row in rows]
    total = sum(square for square, _ in parts)
    if not total > 0:
        return SURE
    freedom = total**2 / sum(square**2 / free for square, free in parts)
    return float(stdtrit(freedom, _RARE))


def pooled(found: Measured, *by: str) -> Measured:
    """The same numbers with at least the relative noise of all that have the same coordinates `by`.

    What was measured several times lends its noise to what was measured once. The repetitions become those that the
    noise was seen in, so that `width` knows how well it is known.
    """
    groups: dict[tuple[Coordinate, ...], list[Row]] = {}
    for row in found.rows:
        groups.setdefault(tuple(row.where[name] for name in by), []).append(row)
    steadied: dict[int, Row] = {}
    for rows in groups.values():
        seen = [row for row in rows if row.stderr > 0]
        freedom = sum(row.repetitions - 1 for row in seen)
        if freedom:
            square = sum((row.repetitions - 1) * row.repetitions * (row.stderr / row.value) ** 2 for row in seen)
            noise = math.sqrt(square / freedom)  # of one repetition, as a share of the value
            for row in rows:
                common = noise * row.value / math.sqrt(row.repetitions)
                own = row.stderr if row.stderr > common else common
                steadied[id(row)] = row._replace(stderr=own, repetitions=freedom + 1)
    return Measured(tuple(steadied.get(id(row), row) for row in found.rows), found.notes)


def surely_below(one: Row, other: Row) -> bool:
    """Whether the first is smaller, beyond the noise."""
    return one.value + width(one, other) * spread(one, other) < other.value


def some(cases: Sequence[str], most: int = 3) -> str:
    """The first few of these, behind a colon; nothing if there are none."""
    if not cases:
        return ""
    return f": {'; '.join(cases[:most])}{' ...' if len(cases) > most else ''}"
