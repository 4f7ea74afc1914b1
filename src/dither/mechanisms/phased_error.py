"""What shares will cost that are told in two phases: errors that are known before anything is collected.

As of one phase (`mechanisms.cumulative_error`) the estimate is a smooth density, and how far off it is depends on the
users; so it is **the error of the hardest of some shapes** that is stated: the eight of one phase and, of numbers, a
heavy tail (lognormal, sigma 2, most of it within a hundredth of the domain). Of numbers it is for shares below the cuts
that the first phase tells, and for the bins between them, which are close to each other where many are: where a spike
is there are many cuts beside it, and that is what is hardest. Of whole numbers, which have a share each, it is for 100.

Beside it stands what the same thresholds would cost if all users had reported in one phase: for a heavy tail .14 and
more, however many there are, since no number of reports makes a window narrower.

The tables are simulated, once and for all, with a quarter of the users in the first phase: roots of mean squares over
thresholds, or bins, and three collections, of the hardest shape,

    python benchmarks/phases.py --fit

An entry is the least of those with no more reports and no larger budget, which make nothing worse; so a simulation that
came out larger counts as the one before it. Between entries the logarithm of the error is linear in those of epsilon
and reports; beyond them as in one phase.
Repeating the simulation moves an entry by up to 25%: it is the largest of nine, of three collections each.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dither.mechanisms.cumulative_error import interpolated

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
REPORTS = (1e3, 1e4, 1e5, 1e6, 1e7)
BELOW = np.array(
    [
        [0.2375, 0.1228, 0.0483, 0.0208, 0.0141],
        [0.1485, 0.0540, 0.0269, 0.0178, 0.0080],
        [0.0926, 0.0336, 0.0262, 0.0084, 0.0059],
        [0.0439, 0.0215, 0.0140, 0.0080, 0.0067],
        [0.0242, 0.0146, 0.0056, 0.0056, 0.0045],
    ]
)
BINS = np.array(
    [
        [0.0939, 0.0601, 0.0490, 0.0291, 0.0215],
        [0.0924, 0.0506, 0.0347, 0.0241, 0.0109],
        [0.0854, 0.0415, 0.0335, 0.0113, 0.0082],
        [0.0562, 0.0282, 0.0184, 0.0111, 0.0095],
        [0.0273, 0.0206, 0.0078, 0.0078, 0.0060],
    ]
)
BELOW_IN_ONE = np.array(
    [
        [0.2938, 0.2033, 0.1817, 0.1673, 0.1476],
        [0.2225, 0.1658, 0.1527, 0.1527, 0.1473],
        [0.2107, 0.1423, 0.1423, 0.1423, 0.1423],
        [0.1853, 0.1423, 0.1423, 0.1423, 0.1423],
        [0.1853, 0.1423, 0.1423, 0.1423, 0.1423],
    ]
)
BINS_IN_ONE = np.array(
    [
        [0.1167, 0.0778, 0.0668, 0.0668, 0.0668],
        [0.1070, 0.0747, 0.0668, 0.0668, 0.0668],
        [0.1070, 0.0678, 0.0668, 0.0668, 0.0668],
        [0.1070, 0.0678, 0.0668, 0.0668, 0.0668],
        [0.1070, 0.0678, 0.0668, 0.0668, 0.0668],
    ]
)
PLACES = 100  # whole numbers that the tables below are for
BELOW_PLACES = np.array(
    [
        [0.2111, 0.0762, 0.0310, 0.0158, 0.0086],
        [0.1392, 0.0385, 0.0165, 0.0103, 0.0035],
        [0.0585, 0.0232, 0.0119, 0.0049, 0.0018],
        [0.0279, 0.0107, 0.0060, 0.0022, 0.0008],
        [0.0136, 0.0047, 0.0018, 0.0006, 0.0002],
    ]
)
BINS_PLACES = np.array(
    [
        [0.0394, 0.0286, 0.0245, 0.0138, 0.0115],
        [0.0416, 0.0249, 0.0138, 0.0138, 0.0043],
        [0.0296, 0.0172, 0.0138, 0.0058, 0.0025],
        [0.0163, 0.0140, 0.0062, 0.0027, 0.0011],
        [0.0086, 0.0042, 0.0018, 0.0008, 0.0003],
    ]
)


def error_below(epsilon: float, reports: float, *, places: bool = False, one: bool = False) -> float:
    """The error of a share below a threshold, over thresholds, for the hardest shape; all in `one` phase, if wanted.

    >>> round(error_below(1.0, 100_000), 4), round(error_below(1.0, 100_000, one=True), 4)
    (0.0262, 0.1423)
    """
    if one:
        return _error(BELOW_IN_ONE, epsilon, reports)
    return _error(BELOW_PLACES if places else BELOW, epsilon, reports)


def error_of_bin(epsilon: float, reports: float, bins: int, *, places: bool = False, one: bool = False) -> float:
    """The same of the share of a bin; where whole numbers have a share each, of one of them.

    Fewer whole numbers have larger shares: their errors grow at most with the root of that, and are at most those of
    two shares below thresholds.
    """
    if not places:
        return _error(BINS_IN_ONE if one else BINS, epsilon, reports)
    wider = _error(BINS_PLACES, epsilon, reports) * math.sqrt(max(1.0, PLACES / bins))
    return min(wider, math.sqrt(2) * error_below(epsilon, reports, places=True))


def _error(table: NDArray[np.float64], epsilon: float, reports: float) -> float:
    return interpolated(table, EPSILONS, REPORTS, epsilon, reports)
