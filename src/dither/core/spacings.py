"""Where the values of an attribute are expected: hints that are public, as its ends are.

Range queries are answered from cells. Equal cells are right for values that are spread evenly; incomes crowd at the low
end of theirs, and people who are asked for a number tell a round one. Who knows that beforehand, from what everybody
knows and never from the data, says so in the schema. A hint moves cells, and nothing else: what a device reports is as
private as before, and a wrong hint costs accuracy only.

- `LogSpacing`: cells are equal in the logarithm. Where values begin at 0, they are as near to it as 1/1000 of the
  highest: cells are equal in log(1 + 1000 v / high).
- `CutSpacing`: as many cells between two cuts as between any other two. Cuts at public quartiles make the four parts
  alike.
- `Lattice`: nearly all users hold a multiple of a number. A cell is one of these, and holds what is nearest to it; an
  answer counts a cell if its multiple lies inside the query, and never a part of it.

The first two are a *place* from 0 to 1 for each value, in which cells are equal.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DECADES = 1000.0  # of the highest value, if the lowest is 0: what is below is spaced nearly evenly
_DIGITS = 12  # of an end of a cell: numbers that people write have no more


@dataclass(frozen=True)
class LogSpacing:
    """Equal cells of the logarithm of numbers from `low` to `high`, none below 0.

    >>> LogSpacing(1.0, 10_000.0).values(np.array([0, 0.25, 0.5, 1])).round(6).tolist()
    [1.0, 10.0, 100.0, 10000.0]
    """

    low: float
    high: float

    @cached_property
    def _unit(self) -> float:
        return self.low or self.high / _DECADES

    def cells(self, wanted: int) -> int:
        """As many as are wanted."""
        return wanted

    def places(self, values: Floats) -> Floats:
        """From 0 to 1."""
        return np.log1p((values - self.low) / self._unit) / math.log1p((self.high - self.low) / self._unit)

    def values(self, places: Floats) -> Floats:
        """The inverse."""
        return self.low + self._unit * np.expm1(places * math.log1p((self.high - self.low) / self._unit))


@dataclass(frozen=True)
class CutSpacing:
    """As many equal cells between two neighbouring cuts, the ends among them, as between any other two.

    >>> CutSpacing(0.0, 100.0, (10.0, 20.0, 40.0)).places(np.array([0, 10, 15, 40, 100])).tolist()
    [0.0, 0.25, 0.375, 0.75, 1.0]
    """

    low: float
    high: float
    cuts: tuple[float, ...]

    @cached_property
    def _knots(self) -> Floats:
        return np.array([self.low, *self.cuts, self.high])

    @cached_property
    def _shares(self) -> Floats:
        return np.arange(len(self._knots)) / (len(self._knots) - 1)

    def cells(self, wanted: int) -> int:
        """About as many as are wanted, so that every cut is the end of one."""
        parts = len(self.cuts) + 1
        return parts * max(1, wanted // parts)

    def places(self, values: Floats) -> Floats:
        """From 0 to 1."""
        return np.interp(values, self._knots, self._shares)

    def values(self, places: Floats) -> Floats:
        """The inverse."""
        return np.interp(places, self._shares, self._knots)


@dataclass(frozen=True)
class Lattice:
    """The multiples of `step` from `low` to `high`.

    >>> Lattice(18.0, 99.0, 5.0).nearest(np.array([18, 27, 28, 99])).tolist()
    [0, 1, 2, 15]
    """

    low: float
    high: float
    step: float

    @cached_property
    def points(self) -> Floats:
        """The multiples, without the digits that are only rounding."""
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        points = np.arange(first, last + 1, dtype=np.float64) * self.step
        digits = _DIGITS - 1 - math.floor(math.log10(self.step))
        return np.clip(np.round(points, digits), self.low, self.high).astype(np.float64)

    def cells(self, wanted: int) -> int:
        """One for each multiple, however many are wanted."""
        return len(self.points)

    def nearest(self, values: Floats) -> NDArray[np.int64]:
        """The numbers of the nearest multiples; of two, the higher."""
        places = np.floor((values - self.points[0]) / self.step + 0.5)
        return np.clip(places, 0, len(self.points) - 1).astype(np.int64)

    def below(self, edges: Floats) -> NDArray[np.int64]:
        """How many multiples lie below each."""
        return np.searchsorted(self.points, edges)


Spacing = LogSpacing | CutSpacing | Lattice


def shortened(value: float) -> float:
    """The end of a cell, without the digits that are only rounding."""
    return float(f"{value:.{_DIGITS}g}")
