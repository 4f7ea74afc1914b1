"""What a pair may do inside the cells of its grids, where nobody looks.

A grid tells how many users are in each cell. Inside of a cell the model takes them to be spread as the copula has it,
scaled to the cells. Three ways to be wrong about it show in no margin and in no cell, and answers that cut cells move
with them:

1. **The correlation.** It is known up to its standard error, and inside cells it is believed in part (`trusted`). Where
   nearly all users are in one or two cells, a wide range of correlations has the same cells.
2. **Bends.** A pair may be tilted by a product of polynomials of the ranks of both attributes, of degree 1 or 2 each:
   one follows the square of the other (a banana), or both are far from their middles together (a ring, a cross). What
   the tilt is worth is not known beforehand (standard deviation `_BENT`), and what the grids tell of it is a normal
   reading of one number, as they tell of a correlation. Where cells are cut at quantiles little is left of it; where
   four cells hold everybody, all of it.

Both are tables on the blocks of a pair, as ratios to independence, each times an independent number of variance one.
Their sums over every cell of the grid are nothing: what cells leave open is stated by `interaction`.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dither.ranges.interaction import Seen, interaction_of, with_margins

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

# The standard deviation of a tilt before any grid tells of it. Calibrated on populations that no benchmark judges by
# (`python benchmarks/constants.py ranges.inside_cells._BENT`).
_BENT = 0.5
_DEGREES = tuple(both for both in product((1, 2), repeat=2) if both != (1, 1))  # the correlation is the first
_ALIKE = 0.1  # how likely it is beforehand that all pairs are bent alike
_LEAST = 1e-2  # of what is in a cell stays there
_TINY = 1e-12


def bends(seen: Seen, table: Floats, cells: tuple[Places, Places]) -> Floats:
    """Tilts of a table on blocks, as far as the grids leave them open, without what they do to whole cells.

    `cells` say where among the blocks the grids of the pair are cut.
    """
    ranks = [_polynomials(table.sum(axis=1 - axis)) for axis in (0, 1)]
    mass = _spread(_summed(table, cells), cells)
    found = []
    for first, second in _DEGREES:
        tilt = np.outer(ranks[0][first - 1], ranks[1][second - 1])
        moved = _summed(table * (tilt - float((table * tilt).sum())), cells)
        told = sum(float((interaction_of(grid.summed(moved)) ** 2).sum()) / grid.variance for grid in seen.answered)
        held = _spread(_summed(table * tilt, cells), cells)
        inside = table * (tilt - np.divide(held, mass, out=np.zeros_like(mass), where=mass > _TINY))
        found.append(inside / np.sqrt(1 / _BENT**2 + told))
    return np.array(found)


def _polynomials(shares: Floats) -> tuple[Floats, Floats]:
    """A line and a parabola over the ranks of values with these shares, of mean 0 and variance 1, and uncorrelated.

    >>> line, parabola = _polynomials(np.full(3, 1 / 3))
    >>> line.round(3).tolist(), parabola.round(3).tolist()
    ([-1.225, 0.0, 1.225], [0.707, -1.414, 0.707])
    """
    rank = np.cumsum(shares) - shares / 2
    found: list[Floats] = []
    for degree in (1, 2):
        values = rank**degree
        values = values - float(shares @ values)
        for other in found:
            values = values - float(shares @ (values * other)) * other
        size = float(shares @ values**2)
        found.append(values / np.sqrt(size) if size > _TINY else np.zeros_like(values))
    return found[0], found[1]


def _summed(table: Floats, cells: Sequence[Places]) -> Floats:
    """Over cells."""
    return np.add.reduceat(np.add.reduceat(table, cells[0][:-1], axis=0), cells[1][:-1], axis=1)


def _spread(summed: Floats, cells: Sequence[Places]) -> Floats:
    """The number of a cell at each of its blocks."""
    return np.repeat(np.repeat(summed, np.diff(cells[0]), axis=0), np.diff(cells[1]), axis=1)


def bent_alike(pairs: Sequence[Seen], bases: Sequence[Floats], slopes: Sequence[Floats]) -> list[Floats]:
    """Tables of all pairs on the cells of their grids, tilted by one number that they have in common.

    It says how far users who are far from the middle of one attribute are far from the middles of the others. What a
    correlation would do as well (`slopes`) is none of it.
    """
    told, pull, tilts = 1 / _BENT**2, 0.0, []
    for pair, base, slope in zip(pairs, bases, slopes, strict=True):
        tilt = np.outer(_polynomials(pair.rows)[1], _polynomials(pair.columns)[1])
        moved = base * (tilt - float((base * tilt).sum()))
        alike = pair.together(moved, slope) / max(pair.together(slope, slope), _TINY)
        tilts.append(moved - alike * slope if pair.ordered else np.zeros_like(base))
        told += pair.together(tilts[-1], tilts[-1])
        pull += pair.seen_of(tilts[-1]) - pair.together(tilts[-1], base)
    none = (1 / _ALIKE - 1) * _BENT * np.sqrt(told) * np.exp(-(pull**2) / told / 2)  # odds of no tilt
    common = pull / told / (1 + none)
    return [
        with_margins(np.maximum(base + common * tilt, _LEAST * base), pair.rows, pair.columns)
        for pair, base, tilt in zip(pairs, bases, tilts, strict=True)
    ]
