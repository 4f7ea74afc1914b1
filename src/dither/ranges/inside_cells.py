"""What a pair may do inside the cells of its grids, where nobody looks.

A grid tells how many users are in each cell. Inside of a cell the model takes them to be spread as the copula has it,
scaled to the cells. Three ways to be wrong about it show in no margin and in no cell, and answers that cut cells move
with them:

1. **The correlation.** It is known up to its standard error, and inside cells it is believed in part (`trusted`). Where
   nearly all users are in one or two cells, a wide range of correlations has the same cells.
2. **Bends** (`bends`). What a tilt is worth is not known beforehand (standard deviation `_BENT`), and what the grids
   tell of it is a normal reading of one number, as they tell of a correlation. Where cells are cut at quantiles little
   is left of it; where four cells hold everybody, all of it.

Both are tables on the blocks of a pair, as ratios to independence, each times an independent number of variance one.
Their sums over every cell of the grid are nothing: what cells leave open is stated by `interaction`.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dither.ranges.bends import polynomials
from dither.ranges.interaction import Seen

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

# The standard deviation of a tilt before any grid tells of it, in error bars. Calibrated on populations that no
# benchmark judges by (`python benchmarks/constants.py ranges.inside_cells._BENT`).
_BENT = 0.5
_DEGREES = tuple(both for both in product((1, 2), repeat=2) if both != (1, 1))  # the correlation is the first
_TINY = 1e-12


def bends(seen: Seen, table: Floats, cells: tuple[Places, Places]) -> Floats:
    """Tilts of a table on blocks, as far as the grids leave them open, without what they do to whole cells.

    `cells` say where among the blocks the grids of the pair are cut.
    """
    ranks = [polynomials(table.sum(axis=1 - axis)) for axis in (0, 1)]
    mass = _spread(_summed(table, cells), cells)
    found = []
    for first, second in _DEGREES:
        tilt = np.outer(ranks[0][first - 1], ranks[1][second - 1])
        moved = _summed(table * (tilt - float((table * tilt).sum())), cells)
        held = _spread(_summed(table * tilt, cells), cells)
        inside = table * (tilt - np.divide(held, mass, out=np.zeros_like(mass), where=mass > _TINY))
        found.append(inside / np.sqrt(1 / _BENT**2 + seen.precision(moved, moved)))
    return np.array(found)


def _summed(table: Floats, cells: Sequence[Places]) -> Floats:
    """Over cells."""
    return np.add.reduceat(np.add.reduceat(table, cells[0][:-1], axis=0), cells[1][:-1], axis=1)


def _spread(summed: Floats, cells: Sequence[Places]) -> Floats:
    """The number of a cell at each of its blocks."""
    return np.repeat(np.repeat(summed, np.diff(cells[0]), axis=0), np.diff(cells[1]), axis=1)
