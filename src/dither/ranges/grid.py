"""Grids: some attributes, each cut into cells of neighbouring values.

A grid is what one user is asked about (004 section 4.1). It names its attributes, and for each where the cells begin:
cuts 0, ..., c for an attribute of c values, so that cell i holds the values from cuts[i] up to, not including,
cuts[i + 1]. Its cells are numbered row by row, the last attribute fastest. One type serves all methods: a 1-D grid, a
pair, the full domain of a pair (every value a cell), a level of a hierarchy over any number of attributes, cells of
unequal width.

Cells need not be equal: 100 values in 16 cells are 12 cells of 6 values and 4 of 7. Cut i stands at floor(i c / g), in
whole numbers, so that the same three numbers give the same cuts everywhere and forever.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from sys import maxsize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_list, is_whole
from dither.errors import ParameterError

MOST_VALUES = 1 << 20  # of one attribute
MOST_CELLS = 1 << 20  # of one grid


@dataclass(frozen=True)
class Grid:
    """Cells over some attributes.

    >>> grid = Grid.equal((0, 2), sizes=(10, 4, 7), granularities=(2, 3))
    >>> grid.cuts
    ((0, 5, 10), (0, 2, 4, 7))
    >>> grid.shape, grid.size
    ((2, 3), 6)
    >>> grid.cells(np.array([[0, 3, 6], [9, 0, 2]]))
    array([2, 4])
    """

    attributes: tuple[int, ...]
    cuts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        attributes = tuple(checked_count("an attribute of a grid", each, 0) for each in _listed(self.attributes))
        if not attributes or any(a >= b for a, b in pairwise(attributes)):
            raise ParameterError("a grid needs attributes in ascending order, each once, for example (0, 2)")
        cuts = tuple(checked_cuts(each) for each in _listed(self.cuts))
        if len(cuts) != len(attributes):
            raise ParameterError("a grid needs cuts for each of its attributes, for example ((0, 5, 10), (0, 2, 4))")
        if prod(len(each) - 1 for each in cuts) > MOST_CELLS:
            raise ParameterError(f"a grid has at most {MOST_CELLS:,} cells: take fewer along each attribute")
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "cuts", cuts)

    @classmethod
    def equal(cls, attributes: Sequence[int], sizes: Sequence[int], granularities: Sequence[int]) -> "Grid":
        """Cells as equal as whole numbers allow. `sizes` are the domain sizes of all attributes of a record."""
        if len(attributes) != len(granularities):
            raise ParameterError("a grid needs one granularity for each of its attributes")
        pairs = zip(attributes, granularities, strict=True)
        return cls(tuple(attributes), tuple(equal_cuts(sizes[attribute], cells) for attribute, cells in pairs))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each attribute."""
        return tuple(len(each) - 1 for each in self.cuts)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each attribute."""
        return tuple(each[-1] for each in self.cuts)

    @property
    def size(self) -> int:
        """The number of cells."""
        return prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart the numbers of neighbouring cells along each attribute are."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def partition(self, axis: int) -> NDArray[np.int64]:
        """For each value of the attribute on this axis, its cell along the axis.

        >>> Grid.equal((1,), sizes=(3, 5), granularities=(2,)).partition(0)
        array([0, 0, 1, 1, 1])
        """
        return self._partitions[axis]

    def widths(self, axis: int) -> NDArray[np.int64]:
        """How many values each cell along the axis holds."""
        return np.diff(np.array(self.cuts[axis], dtype=np.int64))

    def cells(self, records: NDArray[np.integer]) -> NDArray[np.int64]:
        """The number of each record's cell. The records are rows of values of all attributes, inside their domains."""
        found = np.zeros(len(records), dtype=np.int64)
        for axis, (attribute, stride) in enumerate(zip(self.attributes, self.strides, strict=True)):
            found += self._partitions[axis].take(records[:, attribute]) * stride
        return found

    @cached_property
    def _partitions(self) -> tuple[NDArray[np.int64], ...]:
        tables = [np.repeat(np.arange(len(each) - 1, dtype=np.int64), np.diff(each)) for each in self.cuts]
        for table in tables:
            table.flags.writeable = False
        return tuple(tables)


def equal_cuts(size: int, cells: int) -> tuple[int, ...]:
    """Where the cells begin, and the end: widths differ by at most one.

    >>> equal_cuts(10, 4)
    (0, 2, 5, 7, 10)
    """
    size = checked_count("the size of an attribute", size, 1, MOST_VALUES)
    cells = checked_count("a granularity", cells, 1)
    if cells > size:
        raise ParameterError(f"an attribute of {size} values has at most {size} cells")
    return tuple(i * size // cells for i in range(cells + 1))


def checked_shape(shape: Any) -> tuple[int, ...]:
    """The domain sizes of the attributes of a record."""
    sizes = _listed(shape)
    if not sizes:
        raise ParameterError("shape must list how many values each attribute has, for example shape=(64, 64, 10)")
    if any(is_whole(size) and size == 1 for size in sizes):
        attribute = sizes.index(1)
        raise ParameterError(
            f"attribute {attribute} has a single value, which everybody knows: leave it out of the records"
        )
    return tuple(checked_count("the size of an attribute", size, 2, MOST_VALUES) for size in sizes)


def checked_cuts(cuts: Sequence[int]) -> tuple[int, ...]:
    """Where cells begin, and the end, if they ascend from 0."""
    listed = tuple(checked_count("a cut", each, 0, MOST_VALUES) for each in _listed(cuts))
    if len(listed) < 2 or listed[0] != 0 or any(a >= b for a, b in pairwise(listed)):
        raise ParameterError("cuts ascend from 0 to the size of the attribute, for example (0, 5, 10)")
    return listed


def _listed(given: Any) -> tuple[Any, ...]:
    return listed_entries(f"a list of whole numbers is needed, not {type(given).__name__}", given)


def listed_entries(rule: str, given: Any) -> tuple[Any, ...]:
    """The entries of a list, a tuple or an array, however many; `rule` says so in an error."""
    return checked_list(rule, given.tolist() if isinstance(given, np.ndarray) else given, 0, maxsize)
