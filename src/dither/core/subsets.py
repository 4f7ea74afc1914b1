"""Which m of d dimensions a user reports: an exact uniform subset, drawn without looking at the data.

Floyd's algorithm needs m draws: draw s is uniform below d - m + 1 + s, and if its number was taken already, the new
number d - m + s is taken instead. Every subset comes out equally often. Rows are handled together, so the test for
"taken already" is m (m - 1) / 2 vector comparisons; where m is more than half of d, the dimensions that are left
out are drawn instead. The result is sorted: the order of a report's dimensions says nothing.
"""

import numpy as np
from numpy.typing import NDArray

from dither.core.draw import TAG, Rows, Tape, below


def random_subsets(d: int, m: int, tape: Tape, rows: Rows) -> NDArray[np.unsignedinteger]:
    """For each row m of the numbers 0, ..., d - 1 in ascending order."""
    if 2 * m > d:
        return _complement(_drawn(d, d - m, tape, rows), d)
    return np.sort(_drawn(d, m, tape, rows), axis=1)


def _drawn(d: int, m: int, tape: Tape, rows: Rows) -> NDArray[np.unsignedinteger]:
    bounds = np.arange(d - m + 1, d + 1, dtype=np.uint64)[None, :]
    draws = below(bounds, tape, rows, lane=TAG, width=m).reshape(-1, m)
    # One draw of all rows lies together in memory, in the smallest type that holds it: comparisons are the cost.
    taken = np.ascontiguousarray(draws.T, dtype=np.min_scalar_type(d - 1))
    for s in range(1, m):
        again = (taken[:s] == taken[s]).any(axis=0)
        taken[s, again] = d - m + s
    return np.ascontiguousarray(taken.T)


def _complement(left_out: NDArray[np.unsignedinteger], d: int) -> NDArray[np.unsignedinteger]:
    kept = np.ones((len(left_out), d), dtype=bool)
    np.put_along_axis(kept, left_out.astype(np.intp), False, axis=1)
    return np.nonzero(kept)[1].reshape(len(left_out), d - left_out.shape[1]).astype(np.min_scalar_type(d - 1))
