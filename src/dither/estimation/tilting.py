"""The distribution nearest to another one that has given means: exponential tilting.

Of all shares p with rows @ p = values the one with the smallest Kullback-Leibler distance from q is
p_i = q_i exp(sum_r l_r rows_ri) / z (Csiszar 1975). The multipliers l maximise a concave function, and Newton's method
finds them: its slope is values - rows @ p, its curvature the covariance of the rows under p.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEPS, _CLOSE = 60, 1e-12
_LONGEST = 4.0  # of an exponent, in a step
_FLAT = 1e-12  # of the curvature, where rows hardly differ


def tilted(shares: Floats, rows: Floats, values: Floats) -> Floats | None:
    """The shares with these means that are nearest to the given ones; None if there are none, or they are too far.

    >>> tilted(np.full(3, 1 / 3), np.array([[0.0, 1.0, 2.0]]), np.array([1.2])).round(3).tolist()
    [0.238, 0.323, 0.438]
    """
    multipliers, found = np.zeros(len(rows)), shares
    for _ in range(_STEPS):
        means = rows @ found
        missing = values - means
        if np.abs(missing).max(initial=0.0) <= _CLOSE:
            return found
        curvature = (rows * found) @ rows.T - np.outer(means, means)
        step = np.linalg.lstsq(curvature + _FLAT * np.eye(len(rows)), missing, rcond=None)[0]
        step *= min(1.0, _LONGEST / max(float(np.abs(step @ rows).max()), 1e-300))
        multipliers += step
        exponents = multipliers @ rows
        found = shares * np.exp(exponents - exponents.max())
        found = found / found.sum()
    return found if np.abs(values - rows @ found).max() <= 1e-6 else None
