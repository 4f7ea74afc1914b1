"""One group of users: what they are asked, and what came back.

`UserGroup` is a grid, the oracle that reports its cells, and how often the group is drawn; in a later phase the square
wave of an attribute may be that of its estimated quantile (`quantile_places`). It is stored with a mechanism as plain
whole numbers and recipes. `Collected` is what the reports of such a group say, before anything is
done to it. `Readable` is what a method can put together of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_list, is_whole
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.errors import ParameterError
from dither.mechanisms.spec import normal_spec
from dither.ranges.grid import Grid, equal_cuts, listed_entries
from dither.ranges.quantile_places import PLACES, QuantilePlaces

Shares = NDArray[np.float64]

MOST_SHARES = 1 << 20
WAVE = "SquareWave"


@dataclass(frozen=True)
class UserGroup:
    """One group of users: what they are asked, how, and how often compared with the others.

    >>> asked = UserGroup(Grid.equal((0, 1), (64, 64), (4, 4)), "LocalHash(k=16)")
    >>> asked.stored()
    ((0, 1), (4, 4), 'LocalHash(k=16)', 1)
    >>> UserGroup.read(asked.stored(), shape=(64, 64)) == asked
    True
    """

    grid: Grid
    recipe: str
    share: int = 1
    scale: QuantilePlaces | None = None  # on which the square wave reports; None for the values themselves

    def __post_init__(self) -> None:
        if self.scale is not None and (self.recipe != WAVE or self.grid.sizes != (self.scale.size,)):
            raise ParameterError(f"a scale is one for the values of an attribute that is asked by {WAVE}")

    @property
    def inputs(self) -> int:
        """How many different inputs the oracle of the group is made for: cells, or places on a scale."""
        return self.grid.size if self.scale is None else PLACES

    def table(self, axis: int) -> NDArray[np.int64]:
        """What each value along an axis adds to the input of the oracle."""
        return self.grid.partition(axis) * self.grid.strides[axis] if self.scale is None else self.scale.places

    @property
    def middles(self) -> Shares:
        """Of the square wave, where each value lies on a line from 0 to 1."""
        return (self.table(0) + 0.5) / self.inputs

    def stored(self) -> tuple[Any, ...]:
        """Attributes, cuts, recipe and share, and a scale if there is one; equal cells are stored by their number."""
        cuts = tuple(len(each) - 1 if each == equal_cuts(each[-1], len(each) - 1) else each for each in self.grid.cuts)
        scale = () if self.scale is None else (self.scale.stored(),)
        return self.grid.attributes, cuts, self.recipe, self.share, *scale

    @classmethod
    def read(cls, stored: Any, shape: Sequence[int]) -> "UserGroup":
        """The inverse of `stored`, for records of these domain sizes; refuses what does not fit them."""
        rule = "asked must list attributes, cuts, recipe and share of each group, or be left out"
        given, cuts, text, share, *scale = checked_list(rule, stored, 4, 5)
        named = listed_entries(rule, given)
        attributes = tuple(checked_count("an attribute", each, 0, len(shape) - 1) for each in named)
        cuts = checked_list("asked must have cuts for each attribute of a group", cuts, len(attributes))
        sizes = [shape[each] for each in attributes]
        listed = [equal_cuts(size, each) if is_whole(each) else each for size, each in zip(sizes, cuts, strict=True)]
        grid = Grid(attributes, tuple(listed))
        if grid.sizes != tuple(sizes):
            raise ParameterError("the cuts of a group must end at the size of their attribute")
        own = QuantilePlaces.read(scale[0]) if scale else None
        return cls(grid, normal_spec(text), checked_count("a share", share, 1, MOST_SHARES), own)


@dataclass(frozen=True)
class Readable:
    """What a method puts together: one grid for an attribute and one for a pair, with every attribute in some."""

    waves: bool = False  # whether it reads the square wave of an attribute
    cells: bool = True  # and frequencies of cells; those of the values of a nominal attribute it reads anyway

    def check(self, method: str, groups: Sequence[UserGroup], attributes: int, nominal: Sequence[int] = ()) -> None:
        """Refuse groups that could not be put together in the end, before anybody reports."""
        asked = [each.grid.attributes for each in groups]
        for number, each in enumerate(groups):
            wave = each.recipe == WAVE
            labels = each.grid.attributes in [(j,) for j in nominal]
            if not (self.waves if wave else self.cells or labels):
                needed = "a frequency oracle such as GRR or LocalHash" if wave else WAVE
                raise ParameterError(
                    f"{method} cannot read group {number}, which is asked by {each.recipe}: it needs {needed}; leave "
                    "asked out to have the groups chosen"
                )
            if len(each.grid.attributes) > 2 or each.grid.attributes in asked[:number]:
                raise ParameterError(
                    f"{method} reads one grid for an attribute and one for a pair, and group {number} is another: "
                    "leave it out, or leave asked out to have the groups chosen"
                )
        silent = sorted(set(range(attributes)).difference(*asked))
        if silent:
            raise ParameterError(
                f"{method} asks nobody about attribute {silent[0]}: add a group for it, leave it out of the records, "
                "or leave asked out to have the groups chosen"
            )


@dataclass(frozen=True, eq=False)
class Collected:
    """What came back about one grid.

    `value` holds unbiased frequencies in the shape of the grid, and `variance` is that of a rare cell: the oracle's
    exact noise variance over the number of reports. Where nobody answered, frequencies are equal and their variance
    is infinite. An oracle for numbers (the square wave) has no frequencies: `value` is None and `variance` NaN, and
    what it has is in its `tally`.
    """

    grid: Grid
    value: NDArray[np.float64] | None
    variance: float
    n: int
    tally: Tally
    mechanism: Mechanism
    users: int | None = None  # among whom these were drawn; None if they are all there are
    held: float = 0.0  # how much more the variance of a cell is that everybody is in
    middles: Shares | None = None  # of the square wave, where each value lies on a line from 0 to 1

    def variance_of(self, share: Shares | float, cells: Shares | float = 1) -> Shares:
        """The variance of a sum over cells that has this share: noise, and the chance of who was asked."""
        held = np.clip(share, 0.0, 1.0)
        drawn = 1 / self.n - 1 / self.users if self.n and self.users else 0.0
        return np.maximum(self.variance * cells + held * self.held, 0.0) + held * (1 - held) * drawn

    @property
    def spread(self) -> float:
        """The variance of a cell, on the average over cells."""
        if self.value is None or not self.n:
            return self.variance
        return float(np.mean(self.variance_of(self.value)))
