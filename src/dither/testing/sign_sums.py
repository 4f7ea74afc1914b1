"""Sums of signs, by their definition: every item has a sign, given by a hash function, and a user sends
the sum of the signs of its items. Dummies fill up to s keys, and to an odd number, so that no sum is zero.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from dither.core.structure import NOISY_SUM, SUM_SIGN
from dither.kernels.hashing import buckets
from dither.testing.rounding import rounded_number

SUMMED = (NOISY_SUM, SUM_SIGN)


def hashed_sign(seed: int) -> Callable[[int], int]:
    """The sign that a hash function gives to an item."""
    return partial(_hashed_sign, seed)


@cache
def _hashed_sign(seed: int, item: int) -> int:
    return 2 * int(buckets(np.array([seed], dtype=np.uint64), np.array([item]), 2)[0]) - 1


def total_of(mechanism: Any, signs: Mapping[int, int], sign: Callable[[int], int]) -> int:
    """The sum for a user, padded to s keys and to an odd number of them."""
    d, s = mechanism.d, mechanism.s
    padded = {**signs, **{d + slot: 1 for slot in range(len(signs), s | 1)}}
    if mechanism.goal == "frequency":
        return sum(sign(2 * key + (own > 0)) for key, own in padded.items())
    return sum((own if mechanism.goal == "mean" else 1) * sign(key) for key, own in padded.items())


def total_law(mechanism: Any, total: int, bits: int = 64) -> list[Fraction]:
    """P(reported value) for a sum; what lies between lattice points is rounded with words of so many bits."""
    high, low, *_ = mechanism.weights
    if mechanism.structure == SUM_SIGN:
        return [Fraction(high if (total > 0) == bool(value) else low, high + low) for value in range(2)]
    law = mechanism.noise.law
    clipped = max(-1.0, min(1.0, total / mechanism.eta))
    points = rounded_number(clipped / law.stretch, law.steps, bits)
    rows = [[share * weight / law.total for weight in law.shifted(point)] for point, share in points.items()]
    return [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]
