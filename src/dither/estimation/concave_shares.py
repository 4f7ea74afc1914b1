"""The largest value of a sum of concave parabolas over shares that add up to something.

    maximise   sum over v of  linear_v f_v + curve_v f_v (1 - f_v)      with  0 <= f_v <= 1  and  sum f_v = total

(or at most `total`), where no curve is negative. Each user who holds v adds a noise of her own, and who was asked among
all adds f (1 - f): this is the worst population for weighted shares. The sum is separable, so by Lagrange's multiplier
every share is (linear_v + curve_v - price) / (2 curve_v), cut to [0, 1], at the one price at which they add up. What is
returned is the dual function at that price,

    price * total + sum over v of  max over f of  (linear_v - price) f + curve_v f (1 - f).

It is never below the maximum, whatever the price, and equal to it at the right one, also where straight parts tie.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def largest_sum(linear: Floats, curve: Floats, counts: Floats, total: float, *, exactly: bool) -> float:
    """The maximum, where entry v stands for `counts_v` equal ones; `exactly=False` lets shares add up to less.

    >>> entries = np.array([1.0, 5.0]), np.array([0.0, 0.0]), np.array([3.0, 1.0])
    >>> largest_sum(*entries, 1.0, exactly=True), largest_sum(*entries, 2.0, exactly=False)
    (5.0, 6.0)
    """
    if not exactly and _held(linear, curve, 0.0) @ counts <= total:
        return float(_most(linear, curve, 0.0) @ counts)
    edges = np.unique(np.concatenate([linear - curve, linear + curve]))
    low, high = 0, edges.size - 1  # below the first edge all shares are one, and above the last all are nothing
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _held(linear, curve, edges[middle]) @ counts >= total else (low, middle)
    above, below = (float(_held(linear, curve, edges[end]) @ counts) for end in (low, high))
    part = min(max((above - total) / (above - below), 0.0), 1.0) if above > below else 0.0
    prices = [edges[low], edges[low] + part * (edges[high] - edges[low]), edges[high]]
    return min(float(price * total + _most(linear, curve, price) @ counts) for price in prices)


def _held(linear: Floats, curve: Floats, price: float) -> Floats:
    """The share of each at a price; of a straight one that is worth just as much, all of it."""
    gain = linear + curve - price
    straight = np.where(linear >= price, 1.0, 0.0)
    return np.clip(np.divide(gain, 2 * curve, out=straight, where=curve > 0), 0.0, 1.0)


def _most(linear: Floats, curve: Floats, price: float) -> Floats:
    """What each adds at its best share."""
    held = _held(linear, curve, price)
    return (linear - price) * held + curve * held * (1 - held)
