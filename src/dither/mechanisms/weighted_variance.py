"""The variance of several numbers that do not matter alike: of categories, or of keys.

With weights w_v, the weighted mean of the squared errors of one report is

    sum over v of  w_v (noise_v + unasked f_v (1 - f_v)) / sum of w_v,

where a share f_v of the users holds v, and `unasked` is the share of the users who were not asked. Noise depends on who
holds what: a report about v has one variance if its user holds v, and another if not. So the sum is linear in the
shares, plus a concave part, and the **worst users** are found exactly (`estimation.concave_shares`):

- **Categories.** Shares add up to one. With p and q as in `frequency`, D = own - other is what a holder of v adds to
  the variance of v, and w_v D what she adds to the sum. Where everybody is asked, the worst users all hold the
  category with the largest weight if D > 0, the one with the smallest if D < 0. With equal weights it does not matter
  who holds what, and this is `worst_variance`.
- **Keys.** Users hold at most s keys, so any shares from 0 to 1 that add up to at most s are those of some users. A
  holder adds what `KeyValues.worst_variance` says.

A reading that is none of ours is read through its moments, input by input.
"""

from functools import singledispatch
from typing import Any

import numpy as np

from dither.core.cell_weights import CellWeights, Floats
from dither.core.mechanism import Reading
from dither.estimation.concave_shares import largest_sum
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.keyvalue import KeyValues

_BLOCK = 1 << 22  # moments that are looked at together


@singledispatch
def worst_weighted_variance(reading: Reading[Any], weights: CellWeights, share: float = 1.0) -> float:
    """The largest weighted mean of the variances of one report, where this share of the users is asked.

    >>> from dither import GRR
    >>> reading, even = GRR(k=4, epsilon=1.0).reading, CellWeights(4, {})
    >>> bool(np.isclose(worst_weighted_variance(reading, even, 0.5), reading.worst_variance(0.5)))
    True
    """
    each = weights.each()
    worst = largest_sum(_noise(reading, each), (1 - share) * each, np.ones(len(each)), 1.0, exactly=True)
    return worst / weights.total


@worst_weighted_variance.register
def _(reading: Frequencies, weights: CellWeights, share: float = 1.0) -> float:
    values, counts = weights.levels
    own, other = (float(reading.variance(held)) for held in (1.0, 0.0))
    worst = largest_sum(values * (own - other), (1 - share) * values, counts, 1.0, exactly=True)
    return other + worst / weights.total


@worst_weighted_variance.register
def _(reading: KeyValues, weights: CellWeights, share: float = 1.0) -> float:
    values, counts = weights.levels
    absent, more, unasked = reading.worst_parts(share)
    held = largest_sum(values * more, unasked * values, counts, float(reading.domain.s), exactly=False)
    return (absent + held / weights.total) / reading.law.asked


def weighted_variance(reading: Reading[Any], weights: CellWeights, shares: Floats, share: float = 1.0) -> float:
    """The same of users of whom these shares hold the categories."""
    each = weights.each()
    noise = float(shares @ _noise(reading, each))
    return (noise + (1 - share) * float(each @ (shares * (1 - shares)))) / weights.total


@singledispatch
def _noise(reading: Reading[Any], each: Floats) -> Floats:
    """For a holder of each category the weighted sum of the squared errors of her report."""
    found = np.empty(len(each))
    height = max(1, _BLOCK // len(each))
    for start in range(0, len(each), height):
        rows = np.arange(start, min(start + height, len(each)))
        moments = reading.moments(rows)
        found[rows] = (moments.variance + moments.bias**2) @ each
    return found


@_noise.register
def _(reading: Frequencies, each: Floats) -> Floats:
    own, other = (float(reading.variance(held)) for held in (1.0, 0.0))
    return other * each.sum() + (own - other) * each
