"""What cumulative shares of a square wave cost: an error that is known before anything is collected."""

import math
import numpy as np

EPSILONS = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
REPORTS = np.array([1e3, 1e4, 1e5, 1e6, 1e7, 1e8])


def hardest_error(epsilon: float, reports: float, *, places: bool = False) -> float:
    return 0.01
