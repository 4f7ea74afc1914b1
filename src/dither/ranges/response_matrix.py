"""Two attributes at full resolution: a coarse grid over both, sharpened by what is known of each alone.

The coarse 2-D grid says how much lies in each block of cells, the fine 1-D grids how each attribute is distributed
within. Algorithm 1 of 004 fits a *response matrix* to all three by weighted update: every cell of every grid in turn,
the entries it covers are scaled so that they add up to it. Cells of one grid do not overlap, so the updates of one grid
are one scaling of rows, of columns, or of blocks.

**Closed form.** Let every fine cell lie in one block. The first three updates of Algorithm 1 give, from any start of
rank one,

    M_ij = r_i * c_j * F_IJ / (R_I * C_J),

where r and c are the fine marginals, I and J the blocks of i and j, F the coarse table, and R_I, C_J the sums of r and
c over a block. Its sums over blocks are F. If the grids are consistent (sum_J F_IJ = R_I, sum_I F_IJ = C_J) its rows
add up to r_i / R_I * sum_J F_IJ = r_i, and its columns to c_j: all three grids are met, and no later update changes
anything. Nothing needs to be iterated, and the matrix need not be built: the answer of a query that weighs the rows
with u and the columns with v is

    sum_IJ (sum_{i in I} u_i r_i) * F_IJ / (R_I C_J) * (sum_{j in J} v_j c_j),

for all queries at once (`model.Pairwise`): the cost depends on the number of blocks, not on the square of the domain.

If the grids are not consistent, Algorithm 1 converges to a cycle, and the closed form is its first round: exact on the
blocks, nearly so on the marginals. Where a block has mass but one of its marginals has none (R_I = 0 < F_IJ), neither
has a place to put it, and it is lost; `processed` leaves little of that.

Cuts are those of a `Grid`: the first value of each cell, and last the size of the domain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.errors import ParameterError

Floats = NDArray[np.float64]
Cuts = Sequence[int] | NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Response:
    """A response matrix over pieces: intervals that no grid cuts, in which it is even."""

    matrix: Floats
    row_cuts: NDArray[np.int64]
    column_cuts: NDArray[np.int64]
    iterations: int
    converged: bool

    def full(self) -> Floats:
        """One entry for each pair of values."""
        rows, columns = np.diff(self.row_cuts), np.diff(self.column_cuts)
        each = self.matrix / np.outer(rows, columns)
        return np.repeat(np.repeat(each, rows, axis=0), columns, axis=1)


def response_matrix(
    row: Floats,
    column: Floats,
    table: Floats,
    row_cuts: Cuts,
    column_cuts: Cuts,
    table_cuts: tuple[Cuts, Cuts],
    tolerance: float = 1e-7,
    most: int = 100,
) -> Response:
    """Algorithm 1: the even matrix, scaled to the grids of the rows, the columns and the blocks in turn.

    Any cuts will do; the matrix has one row and column for each piece between neighbouring cuts of the grids, since
    within a piece all entries stay equal. It ends when the sum of all changes in one round is below `tolerance`, which
    should be below one in the number of users, or after `most` rounds.

    >>> blocks = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> sides = np.array([0.1, 0.4, 0.3, 0.2])
    >>> found = response_matrix(sides, sides, blocks, range(5), range(5), ((0, 2, 4), (0, 2, 4)))
    >>> found.matrix[0].round(3).tolist(), found.iterations, found.converged
    ([0.016, 0.064, 0.012, 0.008], 2, True)
    """
    row, column, table = (np.asarray(each, dtype=np.float64) for each in (row, column, table))
    cuts = [_checked_cuts(each) for each in (row_cuts, column_cuts, *table_cuts)]
    wanted = [len(each) - 1 for each in cuts]
    if row.shape != (wanted[0],) or column.shape != (wanted[1],) or table.shape != (wanted[2], wanted[3]):
        raise ParameterError("row, column and table must have one entry for each cell between their cuts")
    if cuts[0][-1] != cuts[2][-1] or cuts[1][-1] != cuts[3][-1]:
        raise ParameterError("the grids differ in the size of a domain: their cuts must end alike")
    tolerance, most = checked_real("tolerance", tolerance), checked_count("most", most, least=1)
    pieces = np.union1d(cuts[0], cuts[2]), np.union1d(cuts[1], cuts[3])
    whole = [np.array([0, each[-1]]) for each in pieces]
    parts = [
        (row[:, None], _Parts.of(pieces[0], cuts[0]), _Parts.of(pieces[1], whole[1])),
        (column[None, :], _Parts.of(pieces[0], whole[0]), _Parts.of(pieces[1], cuts[1])),
        (table, _Parts.of(pieces[0], cuts[2]), _Parts.of(pieces[1], cuts[3])),
    ]
    matrix = np.outer(np.diff(pieces[0]), np.diff(pieces[1])) / float(pieces[0][-1] * pieces[1][-1])
    rounds, converged = 0, False
    while rounds < most and not converged:
        before = matrix
        for targets, down, across in parts:
            matrix = matrix * across.spread(down.spread(_over(targets, across.sums(down.sums(matrix, 0), 1)), 0), 1)
        rounds += 1
        converged = bool(np.abs(matrix - before).sum() < tolerance)
    return Response(matrix, *pieces, rounds, converged)


def spread(frequencies: Floats, cuts: Cuts) -> Floats:
    """The frequencies of cells, shared out evenly among the values of each.

    >>> spread(np.array([0.6, 0.4]), (0, 3, 5)).round(3).tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """
    widths = np.diff(_checked_cuts(cuts))
    return np.repeat(np.asarray(frequencies, dtype=np.float64) / widths, widths)


def block_ratio(row: Floats, column: Floats, table: Floats, row_cuts: Cuts, column_cuts: Cuts) -> Floats:
    """How much more lies in each block than if the attributes were independent: F_IJ / (R_I * C_J); 0 for 0 / 0.

    `row` and `column` are marginals at any resolution; the cuts are those of the table, in their entries.

    >>> block_ratio(np.full(4, 0.25), np.full(4, 0.25), np.array([[0.4, 0.1], [0.1, 0.4]]), (0, 2, 4), (0, 2, 4))
    array([[1.6, 0.4],
           [0.4, 1.6]])
    """
    down, across = _blocks(row, row_cuts), _blocks(column, column_cuts)
    if np.shape(table) != (len(down), len(across)):
        raise ParameterError("the table must have one entry for each block between the cuts")
    return _over(np.asarray(table, dtype=np.float64), np.outer(_sums(row, down), _sums(column, across)))


def closed_form(row: Floats, column: Floats, table: Floats, row_cuts: Cuts, column_cuts: Cuts) -> Floats:
    """The response matrix of consistent grids, in one step; for answers alone, `model.Pairwise` does without it.

    >>> sides = np.array([0.1, 0.4, 0.3, 0.2])
    >>> matrix = closed_form(sides, sides, np.array([[0.4, 0.1], [0.1, 0.4]]), (0, 2, 4), (0, 2, 4))
    >>> matrix[0].round(3).tolist(), matrix.sum(axis=1).round(3).tolist()
    ([0.016, 0.064, 0.012, 0.008], [0.1, 0.4, 0.3, 0.2])
    """
    ratio = block_ratio(row, column, table, row_cuts, column_cuts)
    return np.outer(row, column) * np.repeat(np.repeat(ratio, np.diff(row_cuts), axis=0), np.diff(column_cuts), axis=1)


# Blocks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Parts:
    """Consecutive pieces that belong to one cell."""

    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, pieces: NDArray[np.int64], cuts: NDArray[np.int64]) -> "_Parts":
        ends = np.searchsorted(pieces, cuts)
        return cls(ends[:-1], np.diff(ends))

    def sums(self, matrix: Floats, axis: int) -> Floats:
        return np.add.reduceat(matrix, self.starts, axis=axis)

    def spread(self, matrix: Floats, axis: int) -> Floats:
        return np.repeat(matrix, self.sizes, axis=axis)


def _over(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros(below.shape), where=below != 0)


def _sums(entries: Floats, starts: NDArray[np.intp]) -> Floats:
    return np.add.reduceat(entries, starts, axis=-1)


def _blocks(entries: Floats, cuts: Cuts) -> NDArray[np.intp]:
    """Where each block starts."""
    found = _checked_cuts(cuts)
    if np.shape(entries) != (found[-1],):
        raise ParameterError("the cuts of the table must end with the number of entries of the marginal")
    return found[:-1]


def _checked_cuts(cuts: Cuts) -> NDArray[np.int64]:
    whole = np.asarray(cuts)
    found = whole.astype(np.int64) if whole.dtype.kind in "iu" else np.empty(0, dtype=np.int64)
    if found.ndim != 1 or found.size < 2 or found[0] != 0 or (np.diff(found) <= 0).any():
        raise ParameterError("cuts are whole numbers that ascend from 0 to the size of the domain, such as (0, 2, 4)")
    return found
