"""Records with weights that stand for everybody: the joint distribution that a model of pairs means.

A `Pairwise` model knows the marginals, the tables of pairs, and a normal copula that is near to both. What it says
about whole records is the distribution *nearest to the copula* (in relative entropy) that has these tables: the
copula's density times a factor for each cell of each pair and each margin. So

1. **propose**: records of the copula, and every eighth of independent attributes, so that no cell of any table goes
   without; their weights are the density of the copula over that of the mixture they were drawn from, and not less
   than some hundredths;
2. **rake**: one table after the other, the weights of the records in each cell are scaled to what the model has there
   (iterative proportional fitting), in rounds, until none of them changes much.

Answers about three attributes and more are sums of such weights (`model`), and synthetic records are drawn by them
(`synthetic_records`). Tables that contradict each other (noise does that) have no such distribution; the rounds then
end at a compromise, and margins, which come last, hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.estimation.normal_copula import at_scores, evenly, scored
from dither.ranges.model import Margin, Pairwise, common_cuts, sums

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Cuts = NDArray[np.int64]

_FIRST = 1 << 17  # records, for most of the rounds
_INDEPENDENT = 8  # one proposal in so many
_FEW_CELLS, _MOST_CELLS = 16, 64  # along an attribute, in a pair
_MARGIN_CELLS = 1024
_ROUNDS, _LAST_ROUNDS = 20, 4
_LARGEST = 1e3  # factor of a cell: tables that contradict each other would drive some to infinity
_LEAST_WEIGHT = 0.03  # of a proposal, so that factors need not be larger
_SETTLED = 1e-3  # sum of all changes in the worst of the tables


def weighted_records(model: Pairwise, count: int) -> tuple[list[Codes], Floats]:
    """So many records of the model, evenly spread rather than random, a column an attribute; and their weights.

    >>> from dither.ranges.fit import uniform
    >>> columns, weights = weighted_records(uniform((4, 8)), 4096)
    >>> [round(float(weights @ column), 2) for column in columns]
    [1.5, 3.5]
    """
    columns, weights = proposed(model, evenly(len(model.margins), count))
    return columns, raked(columns, weights, tables_of(model))


def proposed(model: Pairwise, uniform: Floats) -> tuple[list[Codes], Floats]:
    """The records at these points of the cube, before they are raked: a column for each attribute, and weights."""
    root: Any = np.linalg.cholesky(model.correlation)
    inverse, logarithm = np.linalg.inv(root), float(np.log(np.diag(root)).sum())
    scores = scored(uniform, root)
    alone = scores[::_INDEPENDENT]
    alone[:] = alone @ inverse.T
    density = np.exp(0.5 * ((scores**2).sum(axis=1) - ((scores @ inverse.T) ** 2).sum(axis=1)) - logarithm)
    weights = np.maximum(density / (density * (1 - 1 / _INDEPENDENT) + 1 / _INDEPENDENT), _LEAST_WEIGHT)
    found = at_scores(scores, [margin.value for margin in model.margins])
    return [np.ascontiguousarray(column, dtype=np.int32) for column in found.T], weights


# Raking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RakedTable:
    """What the records of some cells are to weigh, and by which factor they were scaled."""

    attributes: tuple[int, ...]
    places: tuple[Codes, ...]  # value -> what its cell adds to the number of the cell
    wanted: Floats
    factors: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", np.ones_like(self.wanted))

    def cells(self, columns: Sequence[Codes], rows: slice) -> NDArray[np.intp]:
        """The number of the cell of each record."""
        found = self.places[0].take(columns[self.attributes[0]][rows])
        if len(self.places) > 1:
            found += self.places[1].take(columns[self.attributes[1]][rows])
        return found.astype(np.intp)

    def scale(self, columns: Sequence[Codes], weights: Floats) -> float:
        """Scale the weights of the first records to this table, in place; and how far they were from it."""
        cells = self.cells(columns, slice(0, len(weights)))
        mass = np.bincount(cells, weights, minlength=len(self.wanted))
        factor = np.divide(self.wanted, mass, out=np.ones_like(mass), where=mass > 0)
        held = np.clip(self.factors * factor, 1 / _LARGEST, _LARGEST)
        weights *= (held / self.factors).take(cells)
        self.factors[:] = held
        return float(np.abs(self.wanted - mass).sum())


def raked(columns: Sequence[Codes], weights: Floats, tables: "Sequence[RakedTable]") -> Floats:
    """Weights that add up to one, scaled to the tables."""
    for table in tables:
        table.factors[:] = 1.0
    first = weights[:_FIRST] / weights[:_FIRST].sum()
    _rounds(columns, first, tables, _ROUNDS)
    if len(weights) == len(first):
        return first / first.sum()
    logarithm = np.log(weights)
    for table in tables:
        logarithm += np.log(table.factors).take(table.cells(columns, slice(0, len(weights))))
    whole = np.exp(logarithm - logarithm.max())
    whole /= whole.sum()
    _rounds(columns, whole, tables, _LAST_ROUNDS)
    return whole / whole.sum()


def _rounds(columns: Sequence[Codes], weights: Floats, tables: "Sequence[RakedTable]", most: int) -> None:
    for _ in range(most):
        changes = [table.scale(columns, weights) for table in tables]
        if max(changes) < _SETTLED:
            return


# What the model has in each cell ---------------------------------------------------------------------------------


def tables_of(model: Pairwise) -> list[RakedTable]:
    """All pairs, and then all margins."""
    pairs = [_pair_table(model, j, k) for j, k in combinations(range(len(model.margins)), 2)]
    return pairs + [_margin_table(j, margin) for j, margin in enumerate(model.margins)]


def _margin_table(j: int, margin: Margin) -> RakedTable:
    cuts = _even(margin.value, _MARGIN_CELLS)
    return RakedTable((j,), (_places(cuts, 1),), sums(margin.value, cuts))


def _pair_table(model: Pairwise, j: int, k: int) -> RakedTable:
    left, right = model.margins[j].value, model.margins[k].value
    pair = model.pairs.get((j, k))
    if pair is None:
        cuts = _even(left, _FEW_CELLS), _even(right, _FEW_CELLS)
        wanted = np.outer(sums(left, cuts[0]), sums(right, cuts[1]))
    else:
        cuts = _raked_cells(left, pair.grid[0]), _raked_cells(right, pair.grid[1])
        wanted = pair.ratio
        for shares, blocks, own in ((left, pair.cuts[0], cuts[0]), (right, pair.cuts[1], cuts[1])):
            wanted = (_parts(shares, blocks, own) @ wanted).T  # rows first, then columns
    across = wanted.shape[1]
    return RakedTable((j, k), (_places(cuts[0], across), _places(cuts[1], 1)), wanted.ravel())


def _parts(shares: Floats, blocks: Cuts, cells: Cuts) -> Floats:
    """The mass that each cell (row) has in each block (column)."""
    pieces = common_cuts([blocks, cells])
    found = np.zeros((len(cells) - 1, len(blocks) - 1))
    row, column = (np.searchsorted(cuts, pieces[:-1], side="right") - 1 for cuts in (cells, blocks))
    found[row, column] = sums(shares, pieces)
    return found


def _places(cuts: Cuts, stride: int) -> Codes:
    return np.repeat(np.arange(len(cuts) - 1, dtype=np.int32) * np.int32(stride), np.diff(cuts))


def _raked_cells(shares: Floats, grid: Cuts) -> Cuts:
    """The cells of the grid: together with some of about equal mass if they are few, and not all if they are many."""
    cells = len(grid) - 1
    if cells > _MOST_CELLS:
        below = np.concatenate([[0.0], np.cumsum(shares)])[grid]
        places = np.searchsorted(below, np.linspace(0, below[-1], _MOST_CELLS + 1)[1:-1])
        return np.unique(np.concatenate([[0], grid[places], grid[-1:]]))
    return grid if cells >= _FEW_CELLS else common_cuts([grid, _even(shares, _FEW_CELLS)])


def _even(shares: Floats, cells: int) -> Cuts:
    """Cuts into at most so many cells of about equal mass; one for each value if there are no more."""
    if len(shares) <= cells:
        return np.arange(len(shares) + 1)
    below = np.concatenate([[0.0], np.cumsum(shares)])
    places = np.searchsorted(below, np.linspace(0, below[-1], cells + 1)[1:-1])
    return np.unique(np.concatenate([[0], places, [len(shares)]]))
