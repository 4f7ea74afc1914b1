"""A scale on which users are spread evenly, and cuts where they are: what a second phase asks by.

The square wave sees as far as its window is wide, wherever users are. If most of them have values close together, they
look the same to it. What a first phase told about the distribution of an attribute is public, so later users may report
the *estimated quantile* of their value: on that scale users are spread about evenly, and a window tells them apart
wherever they are.

**Scale.** Cuts 0, ..., c of the attribute and levels 0, ..., 2^20, as many: the estimated share of users below each
cut. Between two cuts values are spread evenly over the levels. All of it is whole numbers, so every device has the same
place for a value, and it is the middle of one of 2^20 equal parts of the line, which a float holds exactly. The
estimate may be wrong, so a tenth of the scale is shared out evenly among the values: nobody is without a place.

**Cuts.** A grid of pairs has its cells between quantiles: halves first, then halves of these. A cut is moved from the
quantile where there is a gap nearby, since what lies close on both sides of a cut is told apart without need.

A wrong scale or a wrong cut costs accuracy. It never costs privacy: which value goes to which place is public and the
same for all, and the report is that of an ordinary square wave or oracle about a function of the value.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from sys import maxsize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_list
from dither.errors import ParameterError
from dither.ranges.grid import checked_cuts, listed_entries

Floats = NDArray[np.float64]

PLACES = 1 << 20
# Of the scale, shared out evenly. At half and twice of it errors are 6 and 4% larger, known to some percent as other
# reports are collected (`python benchmarks/constants.py ranges.quantile_places._EVEN`).
_EVEN = 0.1
# How far a cut is drawn into a gap. At half and twice of it errors are .3% smaller and 2% larger, known to some
# percent, too (`python benchmarks/constants.py ranges.quantile_places._GAP`).
_GAP = 0.1
_FEW = 16  # values that are not smoothed to find gaps
_DENSEST = 1.5  # density at a cut, over the mean one: more is as bad


@dataclass(frozen=True)
class QuantilePlaces:
    """The place of every value of an attribute among `PLACES`.

    >>> scale = QuantilePlaces.of_shares(np.array([0.7, 0.1, 0.1, 0.1]), np.arange(5))
    >>> (scale.places / PLACES).round(3).tolist()
    [0.327, 0.712, 0.828, 0.943]
    """

    cuts: tuple[int, ...]
    levels: tuple[int, ...]

    def __post_init__(self) -> None:
        cuts = checked_cuts(self.cuts)
        rule = f"levels ascend from 0 to {PLACES:,}, one for each cut"
        given = checked_list(rule, listed_entries(rule, self.levels), len(cuts), maxsize)
        levels = tuple(checked_count("a level", each, 0, PLACES) for each in given)
        if (
            len(levels) != len(cuts)
            or levels[0] != 0
            or levels[-1] != PLACES
            or any(a > b for a, b in pairwise(levels))
        ):
            raise ParameterError(rule)
        object.__setattr__(self, "cuts", cuts)
        object.__setattr__(self, "levels", levels)

    @classmethod
    def of_shares(cls, shares: Floats, cuts: NDArray[np.int64]) -> "QuantilePlaces":
        """From the estimated shares of the cells between the cuts."""
        believed = np.maximum(shares, 0.0) / max(float(np.maximum(shares, 0.0).sum()), 1e-300)
        mixed = (1 - _EVEN) * believed + _EVEN * np.diff(cuts) / cuts[-1]
        levels = np.rint(np.concatenate([[0.0], np.cumsum(mixed)]) / mixed.sum() * PLACES).astype(np.int64)
        return cls(tuple(cuts.tolist()), tuple(levels.tolist()))

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.cuts[-1]

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """For each value the part of the line it is put in the middle of."""
        cuts, levels = np.array(self.cuts, dtype=np.int64), np.array(self.levels, dtype=np.int64)
        widths = np.diff(cuts)
        before = 2 * (np.arange(self.size) - np.repeat(cuts[:-1], widths)) + 1  # half values, from the cut below
        whole = np.repeat(2 * widths, widths)
        low, high = np.repeat(levels[:-1], widths), np.repeat(levels[1:], widths)
        found = np.minimum((low * (whole - before) + high * before) // whole, PLACES - 1)
        found.flags.writeable = False
        return found

    def stored(self) -> tuple[Any, ...]:
        """As plain whole numbers."""
        return self.cuts, self.levels

    @classmethod
    def read(cls, stored: Any) -> "QuantilePlaces":
        """The inverse of `stored`."""
        return cls(*checked_list("the scale of a group must be its cuts and its levels", stored, 2))


def quantile_cuts(shares: Floats, cells: int) -> tuple[int, ...]:
    """Where an attribute is cut into at most so many cells (a power of two) of about equal shares, in gaps if possible.

    >>> quantile_cuts(np.full(8, 1 / 8), 4), quantile_cuts(np.array([0.6, 0.1, 0.1, 0.1, 0.1, 0.0]), 4)
    ((0, 2, 4, 6, 8), (0, 1, 3, 6))
    """
    below = np.concatenate([[0.0], np.cumsum(shares)])
    density = np.convolve(np.pad(shares, 1, mode="edge"), [0.25, 0.5, 0.25], "valid") if len(shares) > _FEW else shares
    cuts = [0, len(shares)]
    for _ in range(cells.bit_length() - 1):
        cuts = sorted({*cuts, *(_halved(below, density, low, high) for low, high in pairwise(cuts))})
    return tuple(cuts)


def _halved(below: Floats, density: Floats, low: int, high: int) -> int:
    """The best cut between two others: it divides the users in halves, and few of them are beside it."""
    if high - low < 2:
        return low
    inner, total = np.arange(low + 1, high), float(below[high] - below[low])
    if total <= 0:
        return (low + high) // 2
    part = (below[inner] - below[low]) / total
    own = density[low:high]
    beside = np.minimum(density[inner - 1], density[inner]) / max(
        float(own @ own) / max(float(own.sum()), 1e-300), 1e-300
    )
    return int(inner[np.argmax(4 * part * (1 - part) - _GAP * np.minimum(beside, _DENSEST))])
