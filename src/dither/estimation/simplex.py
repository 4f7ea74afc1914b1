"""The nearest distribution to a vector: Euclidean projection onto the probability simplex, or a simplex with a cap."""

import numpy as np
from numpy.typing import NDArray


def onto_simplex(vector: NDArray[np.float64], total: float = 1.0, cap: float | None = None) -> NDArray[np.float64]:
    """The nearest vector without negative entries that adds up to `total`, none above `cap`.

    One number is taken off all entries; what falls below zero is cut, and what lies above the cap.

    >>> onto_simplex(np.array([0.7, 0.5, -0.2])).round(3).tolist()
    [0.6, 0.4, 0.0]
    >>> onto_simplex(np.array([1.7, 0.5, 0.2]), total=1.5, cap=1.0).round(3).tolist()
    [1.0, 0.4, 0.1]
    """
    if cap is None or cap >= total:
        falling = np.sort(vector)[::-1]
        excess = (np.cumsum(falling) - total) / np.arange(1, vector.size + 1)
        kept = np.flatnonzero(falling > excess)[-1]  # the first entry always qualifies
        return np.maximum(vector - excess[kept], 0.0)
    if cap * vector.size <= total:
        return np.full(vector.shape, cap)
    # What remains falls with what is taken off, in straight pieces between these points: find the piece, then the spot.
    edges = np.sort(np.concatenate([vector, vector - cap]))
    low, high = 0, edges.size - 1  # at the first edge all entries are at the cap, at the last all are at zero
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _left(vector, edges[middle], cap) >= total else (low, middle)
    above, below = _left(vector, edges[low], cap), _left(vector, edges[high], cap)
    share = (above - total) / (above - below) if above > below else 0.0
    return np.clip(vector - (edges[low] + share * (edges[high] - edges[low])), 0.0, cap)


def _left(vector: NDArray[np.float64], amount: float, cap: float) -> float:
    return float(np.clip(vector - amount, 0.0, cap).sum())
