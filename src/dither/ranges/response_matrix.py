"""Two attributes at full resolution: a coarse grid over both, sharpened by what is known of each alone.

The coarse 2-D grid says how much lies in each block of cells, the fine 1-D grids how each attribute is distributed
within. Algorithm 1 of 004 fits a *response matrix* to all three by weighted update: every cell of every grid in turn,
the entries it covers are scaled so that they add up to it (papers/004/response_matrix.py).

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

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError

Floats = NDArray[np.float64]
Cuts = Sequence[int] | NDArray[np.integer]


def spread(frequencies: Floats, cuts: Cuts) -> Floats:
    """The frequencies of cells, shared out evenly among the values of each.

    >>> spread(np.array([0.6, 0.4]), (0, 3, 5)).round(3).tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """
    widths = np.diff(checked_cuts(cuts))
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


def _over(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros(below.shape), where=below != 0)


def _sums(entries: Floats, starts: NDArray[np.intp]) -> Floats:
    return np.add.reduceat(entries, starts, axis=-1)


def _blocks(entries: Floats, cuts: Cuts) -> NDArray[np.intp]:
    """Where each block starts."""
    found = checked_cuts(cuts)
    if np.shape(entries) != (found[-1],):
        raise ParameterError("the cuts of the table must end with the number of entries of the marginal")
    return found[:-1]


def checked_cuts(cuts: Cuts) -> NDArray[np.int64]:
    """Where cells begin, and the end, if they ascend from 0."""
    whole = np.asarray(cuts)
    found = whole.astype(np.int64) if whole.dtype.kind in "iu" else np.empty(0, dtype=np.int64)
    if found.ndim != 1 or found.size < 2 or found[0] != 0 or (np.diff(found) <= 0).any():
        raise ParameterError("cuts are whole numbers that ascend from 0 to the size of the domain, such as (0, 2, 4)")
    return found
