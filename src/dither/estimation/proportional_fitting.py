"""Iterative proportional fitting, or raking: a table whose sums along each axis are given ones.

Each axis in turn is scaled to its sums, again and again (Deming and Stephan 1940). Among all tables with these sums the
result is the nearest to the one that it started from, in relative entropy: what the cells tell beyond the sums, the
odds ratios, stays as it was.
"""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUNDS = 200
_CLOSE = 1e-12
_MIXED = 1e-6  # of a table in which axes are independent: it has something wherever the sums have


def raked(table: Floats, sums: Sequence[Floats]) -> Floats:
    """The nearest table to one without negative cells whose sums along each axis are these, all with the same total.

    >>> raked(np.array([[0.3, 0.2], [0.1, 0.4]]), [np.array([0.5, 0.5]), np.array([0.5, 0.5])]).round(3).tolist()
    [[0.355, 0.145], [0.145, 0.355]]
    """
    total = float(sums[0].sum())
    apart = reduce(np.multiply.outer, sums) / total ** (len(sums) - 1)
    fitted = (1 - _MIXED) * table * (total / max(float(table.sum()), math.ulp(0.0))) + _MIXED * apart
    for _ in range(_ROUNDS):
        farthest = 0.0
        for axis, wanted in enumerate(sums):
            others = tuple(other for other in range(table.ndim) if other != axis)
            now = fitted.sum(axis=others, keepdims=True)
            goal = np.expand_dims(wanted, others)
            farthest = max(farthest, float(np.abs(now - goal).max()))
            fitted = fitted * np.divide(goal, now, out=np.zeros_like(now), where=now > 0)
        if farthest < _CLOSE * total:
            break
    return fitted
