"""Errors of the sweep beside each other: ratios with standard errors, and averages over cells.

Errors are means of logarithms, so a ratio of two mechanisms is e to a difference. Its standard error takes the two as
independent; they share their users, so that it is rather less. A difference counts beyond three standard errors.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dither.reproduce.measured import Coordinate, Measured

from .sweep import EPSILONS, SIZES, SPARSITIES

BEYOND = 3.0


class Ratio(NamedTuple):
    """A ratio of errors, as a logarithm, with its standard error."""

    log: float
    error: float

    @property
    def value(self) -> float:
        """The ratio."""
        return math.exp(self.log)

    def __str__(self) -> str:
        return f"{self.value:.3g} +- {self.value * self.error:.2g}"


class Reduction(NamedTuple):
    """An average of 1 - ratio over cells, with its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, ratios: Iterable[Ratio]) -> "Reduction":
        """Cells have noise of their own."""
        listed = list(ratios)
        value = sum(1 - each.value for each in listed) / len(listed)
        return cls(value, math.sqrt(sum((each.value * each.error) ** 2 for each in listed)) / len(listed))

    def __str__(self) -> str:
        return f"{self.value:.1%} +- {100 * self.error:.1g}%"


def ratio(found: Measured, one: dict[str, Coordinate], other: dict[str, Coordinate]) -> Ratio:
    """Of the errors at two places."""
    a, b = found.row(**one), found.row(**other)
    return Ratio(a.value - b.value, math.hypot(a.stderr, b.stderr))


def cells(sizes: Sequence[tuple[int, int]] = SIZES) -> list[dict[str, Coordinate]]:
    """All (n, d, s, epsilon) of some figures."""
    return [{"n": n, "d": d, "s": s, "epsilon": e} for n, d in sizes for s in SPARSITIES for e in EPSILONS]


def against(found: Measured, one: str, other: str, metric: str, cell: dict[str, Coordinate]) -> Ratio:
    """One mechanism's error to another's."""
    place = {**cell, "metric": metric}
    return ratio(found, {**place, "line": one}, {**place, "line": other})


def against_sizes(
    found: Measured, line: str, metric: str, one: tuple[int, int], other: tuple[int, int], s: int, epsilon: float
) -> Ratio:
    """The error of one mechanism with (n, d) to that with another."""
    place: dict[str, Coordinate] = {"s": s, "epsilon": epsilon, "line": line, "metric": metric}
    return ratio(found, {**place, "n": one[0], "d": one[1]}, {**place, "n": other[0], "d": other[1]})


def best(found: Measured, lines: Sequence[str], metric: str, cell: dict[str, Coordinate]) -> str:
    """Who has the smallest error."""
    return min(lines, key=lambda line: found.value(**cell, metric=metric, line=line))
