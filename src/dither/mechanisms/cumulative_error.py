"""What cumulative shares of a square wave will cost: an error that is known before anything is collected.

Their estimate is a smooth density (`mechanisms.cumulative_reading`), no average of reports. How far off it is depends
on the users: little where they are spread smoothly, more where many are at one value, which a window cannot tell from
some who are close to it. No bound holds for all users (everybody exactly at a threshold is half misplaced by any
smooth curve, however many report), so the prediction is for *named* ones. It is **the error of the hardest of eight
shapes**: a bell, two bells, beta(5, 2), an exponential, 40% at the lowest value, 30% at one value, a step, and half of
all users at every twentieth of the range. Smooth data come out several times better.

The tables are simulated, once and for all: for each budget and number of reports the root of the mean square over
thresholds and 20 collections, of the hardest shape,

    python benchmarks/ordered.py --fit

for numbers anywhere between 32 equal cells, and for whole numbers from 0 to 99. Fewer whole numbers are easier; by then
cells that are added up are the better choice. Between entries the logarithm of the error is linear in those of epsilon
and reports. Beyond them:

- *small epsilon*: a report tells in proportion to epsilon, so n reports at epsilon are as good as n (epsilon / e)^2 at
  the least e of the table (simulated at 1/16: within 3%).
- *large epsilon, many reports*: the error is taken not to fall any more. What is left of it is what smoothing does to
  heaps and spikes, and cells are better there.
- *few reports*: it grows with one over the square root of their number, to that of a half for every share.

**How good it is.** Repeating the simulation moves the hardest error by up to 12%. Predicted over realised error is .93
or more for the eight shapes and from .84 to 9 for thirteen other populations, six real ones among them, and where the
planner takes a square wave by this number its error was below that of cells each time (`python benchmarks/ordered.py`;
docs/decisions/0029-ordered-numbers.md). With tables half as large the planner would take it half as often again, with
tables twice as large a third as often (`python benchmarks/constants.py mechanisms.cumulative_error.ANYWHERE`).
"""

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
REPORTS = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
ANYWHERE = np.array(
    [
        [0.1825, 0.0850, 0.0393, 0.0202, 0.0142, 0.0114],
        [0.1166, 0.0480, 0.0213, 0.0106, 0.0078, 0.0069],
        [0.0696, 0.0274, 0.0108, 0.0090, 0.0072, 0.0075],
        [0.0358, 0.0142, 0.0106, 0.0069, 0.0068, 0.0068],
        [0.0135, 0.0093, 0.0073, 0.0071, 0.0072, 0.0072],
    ]
)
AT_PLACES = np.array(
    [
        [0.1923, 0.0806, 0.0383, 0.0218, 0.0153, 0.0136],
        [0.1244, 0.0539, 0.0225, 0.0103, 0.0043, 0.0016],
        [0.0706, 0.0282, 0.0110, 0.0075, 0.0022, 0.0008],
        [0.0324, 0.0138, 0.0099, 0.0024, 0.0009, 0.0004],
        [0.0140, 0.0070, 0.0020, 0.0010, 0.0005, 0.0001],
    ]
)
_CONSTANT = 0.5  # of a half for every share, where all users are at one end


def hardest_error(epsilon: float, reports: float, *, places: bool = False) -> float:
    """The error of a share below a threshold, over thresholds, for the hardest shape; with known `places`, or without.

    >>> round(hardest_error(1.0, 100_000), 4), round(hardest_error(0.5, 100_000), 4)
    (0.0108, 0.0213)
    >>> hardest_error(0.125, 400_000) == hardest_error(0.25, 100_000)  # a report tells in proportion to epsilon
    True
    """
    return interpolated(AT_PLACES if places else ANYWHERE, EPSILONS, REPORTS, epsilon, reports)


def interpolated(
    table: NDArray[np.float64], epsilons: Sequence[float], numbers: Sequence[float], epsilon: float, reports: float
) -> float:
    """An entry of a table of errors, by budgets and numbers of reports; beyond it as said above."""
    told = reports * min(1.0, epsilon / epsilons[0]) ** 2
    few = math.sqrt(max(1.0, numbers[0] / told))
    row, up = _between(epsilons, epsilon)
    column, along = _between(numbers, told)
    logarithms = np.log(table[row : row + 2, column : column + 2]).tolist()
    below, above = ((1 - along) * first + along * last for first, last in logarithms)
    return min(few * math.exp((1 - up) * below + up * above), _CONSTANT)


def _between(grid: Sequence[float], spot: float) -> tuple[int, float]:
    """The entry below a spot, and which part of the way to the next it is; at the ends it stops."""
    place = min(max(bisect_right(grid, spot) - 1, 0), len(grid) - 2)
    part = math.log(spot / grid[place]) / math.log(grid[place + 1] / grid[place])
    return place, min(max(part, 0.0), 1.0)
