"""The nearest distribution to a vector: Euclidean projection onto the probability simplex."""

import numpy as np
from numpy.typing import NDArray


def onto_simplex(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution closest to `vector`: one number is taken off all entries, and what falls below zero is cut.

    >>> onto_simplex(np.array([0.7, 0.5, -0.2])).round(3).tolist()
    [0.6, 0.4, 0.0]
    """
    falling = np.sort(vector)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, vector.size + 1)
    kept = np.flatnonzero(falling > excess)[-1]  # the first entry always qualifies
    return np.maximum(vector - excess[kept], 0.0)
