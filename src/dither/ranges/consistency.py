"""Grids that agree: no cell below zero, and the same marginals wherever two grids hold the same attribute.

Every attribute is held by several grids, each filled by other users, so their sums over the same interval differ by
noise. Section 4.2 of 004 removes that in two steps, which are taken in turns.

- **Norm-Sub**: the same taken off every cell of a grid, and what becomes negative set to zero, so that the rest adds up
  to one. This is the Euclidean projection onto the distributions (`estimation.simplex`).
- **Consistency**: for each attribute, the sums over common intervals are replaced by their average, weighted by inverse
  variance, and each grid spreads its change evenly over the cells of the sum.

**Cuts that differ.** Two grids can be compared only where both have a cut. The *common intervals* of an attribute are
the finest intervals whose ends are cuts of **all** grids that hold it; for nested grids, as in 004, those of the
coarsest grid. Grids that share no cut but the ends of the domain agree when their totals do, and nothing is averaged.

**Why one pass is enough, in any order.** Let all tables have the same total T. The step of attribute a adds to the
cells of grid G, along a, an amount e_J in every cell of interval J, the same whatever the cell's place along the other
attributes. If G has C_J cells along a in J, all of them together change G's total by the number of places along the
others times sum_J C_J e_J. So if the new sums P_J of the intervals still add up to T, then sum_J C_J e_J = 0, and for
every cell along another attribute b the change of its marginal, which is a multiple of sum_J C_J e_J, is zero as well.
A step therefore sees, and leaves, all marginals of the other attributes as they were: the steps commute, one pass is
enough, and they may as well be computed from the same tables, as `consistent` does. The argument needs two things.

1. *Equal totals.* Otherwise sum_J P_J is the total of an average, not of G. Unequal totals are made equal first, by
   the same amount in every cell of a grid; for groups of unequal size the tables of an unbiased oracle need it.
2. *Averages that add up to T.* With the same weights for every interval they do by themselves. With unequal cuts, or
   in 004 with a granularity that does not divide the domain, the weights theta_iJ differ from interval to interval, and
   sum_J sum_i theta_iJ P_iJ is not T although each sum_J P_iJ is. What is missing is shared out in proportion to the
   variance of each average, 1 / sum_i 1/V_iJ, which is the least-squares answer given T.

**What it is.** The changes of different attributes and of the total are orthogonal (sum_J C_J e_J = 0 again), so the
result is, given the total, the *weighted least-squares* fit: of all tables with that total whose marginals agree on the
common intervals, the nearest in units of the noise. It is a projection, and never moves away from the truth in these
units. Norm-Sub is the projection in the same units, since cells of one grid have equal variance. So no turn moves away
from the truth, and taking turns converges to tables that have both properties.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.errors import ParameterError
from dither.estimation.simplex import onto_simplex

if TYPE_CHECKING:
    from dither.ranges.grid import Grid

Table = NDArray[np.float64]


def consistent(
    grids: Sequence["Grid"], tables: Sequence[Table], variances: Sequence[float], total: float | None = None
) -> list[Table]:
    """The tables with marginals that agree; `variances` are those of one cell of each grid.

    Where all tables have the same total it stays. Where they do not they get one: `total`, if it is known, or the
    average of theirs.

    >>> from types import SimpleNamespace as Cuts
    >>> line, square = Cuts(attributes=(0,), cuts=((0, 2, 4),)), Cuts(attributes=(0, 1), cuts=((0, 2, 4), (0, 2, 4)))
    >>> first, second = consistent([line, square], [np.array([0.6, 0.4]), np.full((2, 2), 0.25)], [1.0, 1.0])
    >>> first.round(4).tolist(), second.round(4).tolist()  # the sum of two cells has twice the variance of one
    ([0.5667, 0.4333], [[0.2833, 0.2833], [0.2167, 0.2167]])
    """
    tables, noise = _checked(grids, tables, variances)
    return _agree(_common(grids), tables, noise, None if total is None else checked_real("total", total))


def inconsistency(grids: Sequence["Grid"], tables: Sequence[Table]) -> float:
    """The largest difference between what two grids say about the same interval of an attribute, or about the total.

    >>> from types import SimpleNamespace as Cuts
    >>> line = Cuts(attributes=(0,), cuts=((0, 2, 4),))
    >>> round(inconsistency([line, line], [np.array([0.6, 0.4]), np.array([0.7, 0.3])]), 6)
    0.1
    """
    tables, _ = _checked(grids, tables, [1.0] * len(grids))
    return _left(_common(grids), tables)


@dataclass(frozen=True, eq=False)
class Processed:
    """Tables without negative cells, each adding up to one, and how far they are from agreeing."""

    tables: list[Table]
    inconsistency: float
    rounds: int


def processed(
    grids: Sequence["Grid"],
    tables: Sequence[Table],
    variances: Sequence[float],
    rounds: int = 20,
    tolerance: float = 1e-6,
) -> Processed:
    """Consistency and Norm-Sub in turns, ending with Norm-Sub, since what follows needs cells that are not negative.

    Ends after `rounds`, or when all sums agree within `tolerance`. Tables that have been through `onto_simplex` before
    make it begin with that step, as 004 tells it.

    >>> from types import SimpleNamespace as Cuts
    >>> line, square = Cuts(attributes=(0,), cuts=((0, 2, 4),)), Cuts(attributes=(0, 1), cuts=((0, 2, 4), (0, 2, 4)))
    >>> found = processed([line, square], [np.array([1.1, -0.1]), np.full((2, 2), 0.25)], [1.0, 1.0])
    >>> found.tables[0].round(4).tolist(), found.inconsistency < 1e-6
    ([0.9, 0.1], True)
    """
    rounds = checked_count("rounds", rounds, least=0)
    if not (tolerance := checked_real("tolerance", tolerance)) >= 0:
        raise ParameterError("tolerance is the largest difference that may remain: 0 or more, for example 1e-6")
    found, noise = _checked(grids, tables, variances)
    shared = _common(grids)
    for number in range(1, rounds + 1):
        found = [onto_simplex(table) for table in _agree(shared, found, noise, 1.0)]
        left = _left(shared, found)
        if left <= tolerance or number == rounds:
            return Processed(found, left, number)
    found = [onto_simplex(table) for table in found]
    return Processed(found, _left(shared, found), 0)


# Common intervals ------------------------------------------------------------------------------------------------


class _Held(NamedTuple):
    """One attribute in one grid."""

    grid: int
    axis: int
    starts: NDArray[np.intp]  # the first cell along the axis of each common interval
    cells: NDArray[np.int64]  # how many cells along the axis each has


def _common(grids: Sequence["Grid"]) -> list[list[_Held]]:
    """For each attribute that several grids hold, where its common intervals are in each of them."""
    places: dict[int, list[tuple[int, int]]] = {}
    for number, grid in enumerate(grids):
        for axis, attribute in enumerate(grid.attributes):
            places.setdefault(attribute, []).append((number, axis))
    shared = []
    for attribute, held in places.items():
        cuts = [np.asarray(grids[number].cuts[axis]) for number, axis in held]
        if len({int(each[-1]) for each in cuts}) > 1:
            raise ParameterError(f"the grids that hold attribute {attribute} differ in the size of its domain")
        common = reduce(np.intersect1d, cuts)
        if len(held) > 1 and len(common) > 2:  # otherwise only the totals can be compared
            shared.append([_held(place, each, common) for place, each in zip(held, cuts, strict=True)])
    return shared


def _held(place: tuple[int, int], cuts: NDArray[np.int64], common: NDArray[np.int64]) -> _Held:
    ends = np.searchsorted(cuts, common)
    return _Held(*place, starts=ends[:-1], cells=np.diff(ends))


def _sums(held: _Held, tables: Sequence[Table]) -> Table:
    """What a grid says about each common interval."""
    table = tables[held.grid]
    others = tuple(axis for axis in range(table.ndim) if axis != held.axis)
    return np.add.reduceat(table.sum(axis=others), held.starts)


# Steps -----------------------------------------------------------------------------------------------------------


def _agree(
    shared: list[list[_Held]], tables: Sequence[Table], noise: NDArray[np.float64], total: float | None
) -> list[Table]:
    sums, sizes = np.array([table.sum() for table in tables]), np.array([table.size for table in tables])
    if total is None:
        total = float(np.average(sums, weights=1 / (sizes * noise)))
    found = [table + (total - each) / table.size for table, each in zip(tables, sums, strict=True)]
    # No step changes what another one sees, so all are computed before any is added: the order cannot matter.
    changes = [_step(held, found, noise, total) for held in shared]
    for held, amounts in zip(shared, changes, strict=True):
        for one, amount in zip(held, amounts, strict=True):
            along = np.repeat(amount, one.cells)
            found[one.grid] += along.reshape([-1 if axis == one.axis else 1 for axis in range(found[one.grid].ndim)])
    return found


def _step(held: list[_Held], tables: Sequence[Table], noise: NDArray[np.float64], total: float) -> list[Table]:
    """For each grid that holds one attribute, what is added to every cell of each common interval."""
    sums = np.array([_sums(one, tables) for one in held])
    cells = np.array([one.cells * (tables[one.grid].size // tables[one.grid].shape[one.axis]) for one in held])
    weights = 1 / (cells * noise[[one.grid for one in held], None])
    spread = 1 / weights.sum(axis=0)  # the variance of each average
    average = (weights * sums).sum(axis=0) * spread
    average += spread / spread.sum() * (total - average.sum())
    return list((average - sums) / cells)


def _left(shared: list[list[_Held]], tables: Sequence[Table]) -> float:
    spans = [np.ptp([_sums(one, tables) for one in held], axis=0).max() for held in shared]
    return float(max([np.ptp([table.sum() for table in tables]), *spans]))


def _checked(
    grids: Sequence["Grid"], tables: Sequence[Table], variances: Sequence[float]
) -> tuple[list[Table], NDArray[np.float64]]:
    if not grids or not len(grids) == len(tables) == len(variances):
        raise ParameterError("give one table and one variance for each grid, and at least one grid")
    found = [np.asarray(table, dtype=np.float64) for table in tables]
    noise = np.asarray(variances, dtype=np.float64)
    for number, (grid, table) in enumerate(zip(grids, found, strict=True)):
        if table.shape != tuple(len(cuts) - 1 for cuts in grid.cuts):
            raise ParameterError(f"table {number} must have one entry for each cell of its grid")
        if not np.isfinite(table).all():
            raise ParameterError(f"table {number} has entries that are not finite; leave out grids without reports")
    if noise.shape != (len(grids),) or not (np.isfinite(noise) & (noise > 0)).all():
        raise ParameterError("the variance of a cell must be finite and above 0; leave out grids without reports")
    return found, noise
