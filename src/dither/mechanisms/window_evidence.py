"""What the tally of a window mechanism (piecewise, square wave) tells about where the values are.

In units of the lattice a value x lies in [0, J]. It is rounded to a lattice point at random and sends one of M
outputs. Rounding keeps the mean of whatever is a line between lattice points, and clip(Y - i, 0, w) is, so at every
whole number Y

    P(output < Y | x) = b Y + (a - b) clip(Y - x, 0, w):

the window of the papers on the continuum, rounded down. Its average over values that are spread evenly from one place
to another is a quadratic, so P(y | cell) has a closed form. Outputs are read in groups of neighbours, far narrower
than what can be seen.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dither.estimation.output_counts import OutputCounts

if TYPE_CHECKING:
    from dither.mechanisms.window import Window

Floats = NDArray[np.float64]
_TINY = 1e-300


def window_evidence(window: "Window", counts: NDArray[np.int64], low: Floats, high: Floats, most: int) -> OutputCounts:
    """Counts of outputs, in at most `most` groups, as evidence about cells.

    The values of cell k are spread evenly from low_k to high_k, in shares of the domain; where the two are the same
    they are all at one place.
    """
    limits = output_groups(window.law.outputs, most)
    law = probabilities(window, limits, window.steps * low, window.steps * high)
    return OutputCounts(np.add.reduceat(counts, limits[:-1]).astype(np.float64), law)


def output_groups(outputs: int, most: int) -> NDArray[np.int64]:
    """The limits of at most `most` groups of consecutive outputs, as equal as can be.

    >>> output_groups(5, 8).tolist(), output_groups(10, 4).tolist()
    ([0, 1, 2, 3, 4, 5], [0, 2, 5, 7, 10])
    """
    return np.unique(np.linspace(0, outputs, most + 1).astype(np.int64))


def probabilities(window: "Window", limits: NDArray[np.int64], low: Floats, high: Floats) -> Floats:
    """P(limits[g] <= output < limits[g + 1] | cell), a row a group; cells reach from low to high on the lattice."""
    least = (1 - window.law.inside) / (window.law.outputs - window.width)
    extra = window.law.inside / window.width - least

    def mean_above(ends: NDArray[np.int64]) -> Floats:
        """For each end (row) and cell the average of max(end - x, 0) over the cell. Nothing cancels."""
        width = high - low
        into = np.clip(ends[:, None] - low, 0.0, width)
        return into**2 / np.maximum(2 * width, _TINY) + np.maximum(ends[:, None] - high, 0.0)

    inside = np.diff(mean_above(limits) - mean_above(limits - window.width), axis=0)
    return float(least) * np.diff(limits)[:, None] + float(extra) * np.maximum(inside, 0.0)
