"""Pairs that bend: tilts by products of polynomials of the ranks of both attributes.

A normal copula knows pairs that rise or fall together. A pair may also be tilted by a product of a line or a parabola
of the ranks of both attributes: one follows the square of the other (a banana), or both are far from their middles
together (a cross) or never (a ring). What lies inside cells of it is in the error bars (`inside_cells`).

**Alike.** One pair's grid has too much noise to tell of its bend at a small epsilon; all grids together have not.
Whether users who are far from the middle of one attribute are far from the middles of the others is one number, which
stays the same when an attribute is turned around, so that all pairs may have it in common. It is taken to be there with
a probability of `_ALIKE`, then with a normal prior, and every pair begins with what is expected of it then. What a
correlation would do as well is none of it: without this a correlation of .99 that noise has shrunk looked bent, and
errors of such pairs were 1.4 times as large.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dither.ranges.interaction import Seen, with_margins

Floats = NDArray[np.float64]

# The standard deviation of a tilt that all pairs have in common, and how likely there is one, beforehand
# (`python benchmarks/constants.py ranges.bends._BENT ranges.bends._ALIKE`).
_BENT, _ALIKE = 0.5, 0.1
_LEAST = 1e-2  # of what is in a cell stays there
_TINY = 1e-12


def bent_alike(pairs: Sequence[Seen], bases: Sequence[Floats], slopes: Sequence[Floats]) -> list[Floats]:
    """Tables of all pairs on the cells of their grids, tilted by one number that they have in common.

    `slopes` is how the tables move with their correlations.
    """
    told, pull, tilts = 1 / _BENT**2, 0.0, []
    for pair, base, slope in zip(pairs, bases, slopes, strict=True):
        tilt = _tilt(pair, base, slope) if pair.ordered else np.zeros_like(base)
        told += pair.precision(tilt, tilt)
        pull += pair.pull(tilt, base)
        tilts.append(tilt)
    none = (1 / _ALIKE - 1) * _BENT * np.sqrt(told) * np.exp(-(pull**2) / told / 2)  # the odds of it
    common = pull / told / (1 + none)
    return [
        with_margins(np.maximum(base + common * tilt, _LEAST * base), pair.rows, pair.columns)
        for pair, base, tilt in zip(pairs, bases, tilts, strict=True)
    ]


def _tilt(pair: Seen, base: Floats, slope: Floats) -> Floats:
    """What a tilt by both parabolas does to the cells, without what a correlation would do."""
    both = np.outer(polynomials(pair.rows)[1], polynomials(pair.columns)[1])
    moved = base * (both - float((base * both).sum()))
    return moved - pair.precision(moved, slope) / max(pair.precision(slope, slope), _TINY) * slope


def polynomials(shares: Floats) -> tuple[Floats, Floats]:
    """A line and a parabola over the ranks of values with these shares, of mean 0 and variance 1, and uncorrelated.

    >>> line, parabola = polynomials(np.full(3, 1 / 3))
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
