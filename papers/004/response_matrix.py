"""Algorithm 1 of 004: a response matrix by weighted update, and the closed form that it converges to.

Every cell of every grid in turn, the entries it covers are scaled so that they add up to it. Cells of one grid do not
overlap, so the updates of one grid are one scaling of rows, of columns, or of blocks. `dither.ranges.response_matrix`
has the algebra: of grids that agree the first round is the last, and answers need no matrix at all.

    python papers/004/response_matrix.py    both, for a small table
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.errors import ParameterError
from dither.ranges.response_matrix import block_ratio, checked_cuts

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
    changes: tuple[float, ...] = ()  # the sum of all changes in each round

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
    cuts = [checked_cuts(each) for each in (row_cuts, column_cuts, *table_cuts)]
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
    converged, changes = False, []
    while len(changes) < most and not converged:
        before = matrix
        for targets, down, across in parts:
            matrix = matrix * across.spread(down.spread(_ratio(targets, across.sums(down.sums(matrix, 0), 1)), 0), 1)
        changes.append(float(np.abs(matrix - before).sum()))
        converged = changes[-1] < tolerance
    return Response(matrix, *pieces, len(changes), converged, tuple(changes))


def closed_form(row: Floats, column: Floats, table: Floats, row_cuts: Cuts, column_cuts: Cuts) -> Floats:
    """The response matrix of consistent grids, in one step; `dither.ranges.model.Pairwise` answers without it.

    >>> sides = np.array([0.1, 0.4, 0.3, 0.2])
    >>> matrix = closed_form(sides, sides, np.array([[0.4, 0.1], [0.1, 0.4]]), (0, 2, 4), (0, 2, 4))
    >>> matrix[0].round(3).tolist(), matrix.sum(axis=1).round(3).tolist()
    ([0.016, 0.064, 0.012, 0.008], [0.1, 0.4, 0.3, 0.2])
    """
    ratio = block_ratio(row, column, table, row_cuts, column_cuts)
    return np.outer(row, column) * np.repeat(np.repeat(ratio, np.diff(row_cuts), axis=0), np.diff(column_cuts), axis=1)


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


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros(below.shape), where=below != 0)


if __name__ == "__main__":
    blocks, sides = np.array([[0.4, 0.1], [0.1, 0.4]]), np.array([0.1, 0.4, 0.3, 0.2])
    fitted = response_matrix(sides, sides, blocks, range(5), range(5), ((0, 2, 4), (0, 2, 4)))
    print(f"Algorithm 1, after {fitted.iterations} rounds:\n{fitted.matrix.round(3)}")
    print(f"in closed form:\n{closed_form(sides, sides, blocks, (0, 2, 4), (0, 2, 4)).round(3)}")
