"""The nearest distribution to an array: Euclidean projection onto the probability simplex, or a simplex with a cap.

Without a cap this is Norm-Sub (004 section 4.2; Wang et al. 2020): the same is taken off every entry, and what becomes
negative is set to zero, so that the rest adds up to the total.
"""

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError


def onto_simplex(values: NDArray[np.float64], total: float = 1.0, cap: float | None = None) -> NDArray[np.float64]:
    """The nearest values without negative entries that add up to `total`, none above `cap`, in the shape they came in.

    One number is taken off all entries; what falls below zero is cut, and what lies above the cap.

    >>> onto_simplex(np.array([0.7, 0.5, -0.2])).round(3).tolist()
    [0.6, 0.4, 0.0]
    >>> onto_simplex(np.array([1.7, 0.5, 0.2]), total=1.5, cap=1.0).round(3).tolist()
    [1.0, 0.4, 0.1]
    """
    if not 0 < total < np.inf:
        raise ParameterError("total is what all entries add up to: a finite number above 0, for example 1.0")
    if cap is None or cap >= total:
        falling = np.sort(values, axis=None)[::-1]
        excess = (np.cumsum(falling) - total) / np.arange(1, values.size + 1)
        kept = max(np.count_nonzero(falling > excess), 1)  # the first entry always qualifies, but for rounding
        return np.maximum(values - excess[kept - 1], 0.0)
    if cap * values.size <= total:
        return np.full(values.shape, cap)
    # What remains falls with what is taken off, in straight pieces between these points: find the piece, then the spot.
    edges = np.sort(np.concatenate([values, values - cap], axis=None))
    low, high = 0, edges.size - 1  # at the first edge all entries are at the cap, at the last all are at zero
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _left(values, edges[middle], cap) >= total else (low, middle)
    above, below = _left(values, edges[low], cap), _left(values, edges[high], cap)
    share = (above - total) / (above - below) if above > below else 0.0
    return np.clip(values - (edges[low] + share * (edges[high] - edges[low])), 0.0, cap)


def _left(values: NDArray[np.float64], amount: float, cap: float) -> float:
    return float(np.clip(values - amount, 0.0, cap).sum())
