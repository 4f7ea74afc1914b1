"""002 Mechanism-1 exactly as printed: its delta is pointwise, and what it delivers is C_d times as much.

The paper asks for P(y | x) <= e^epsilon P(y | x') + delta corner by corner (eq. 5, and eq. 22 for this mechanism).
Summed over the C_d corners that one input favours and its opposite does not, that is (epsilon, C_d delta).
`hypercube` and `remark_1` choose their integers by the printed condition, and return channels that know how many
corners tell two inputs apart, so that `divergence` measures the truth. `printed_scale` is the B of eq. 8.

Not for collecting data: `dither.Hypercube` is the sound form.
"""

import math
from dataclasses import replace
from fractions import Fraction

from dither.core.channel import TwoLevel
from dither.mechanisms.hypercube import half_space


def hypercube(d: int, epsilon: float, delta: float) -> TwoLevel:
    """The channel with the alpha of eq. 24; it needs C_d delta < 1. Bit j of a corner's number is its sign j.

    >>> channel = hypercube(3, 1.0, 1e-3)
    >>> round(channel.profile(1.0) / 1e-3, 6)  # C_3 = 4 times what was declared
    4.0
    """
    return _pointwise(d, epsilon, delta, half_space(d), ties=False)


def remark_1(d: int, epsilon: float, delta: float) -> TwoLevel:
    """The variant of Remark 1, where corners with y.v = 0 are favoured too: the alpha of eq. 31.

    Opposite corners share the ties, so the number of corners that tell them apart is C_d as before.
    """
    return _pointwise(d, epsilon, delta, (1 << d) - half_space(d), ties=True)


def _pointwise(d: int, epsilon: float, delta: float, favoured: int, ties: bool) -> TwoLevel:
    def members(corner: int) -> list[int]:
        most = d // 2 if ties else (d - 1) // 2  # disagreeing signs
        return [y for y in range(1 << d) if (corner ^ y).bit_count() <= most]

    # One corner apart is what eq. 22 assumes; the certificate must count them all.
    chosen = TwoLevel.fit(epsilon, delta, favoured=favoured, outputs=1 << d, apart=1, inputs=1 << d, members=members)
    return replace(chosen, apart=half_space(d))


def printed_alpha(d: int, epsilon: float, delta: float) -> float:
    """Eq. 24: the probability of the favoured side."""
    grown, size = math.exp(epsilon), half_space(d)
    if d % 2:
        return (grown + size * delta) / (grown + 1)
    return (grown * size + delta * size * (2**d - size)) / ((grown - 1) * size + 2**d)


def printed_scale(d: int, epsilon: float, delta: float) -> float:
    """Eq. 8: B, by which the paper multiplies a sign. Remark 1 does not say that it has to change."""
    grown = math.exp(epsilon)
    return (2**d + half_space(d) * (grown - 1)) / (math.comb(d - 1, d // 2) * (grown + 2**d * delta - 1))


def true_scale(d: int, channel: TwoLevel) -> Fraction:
    """What makes a sign unbiased under a channel: one over the mean agreement of a coordinate. Ties add 0."""
    return Fraction(channel.total, (channel.high - channel.low) * math.comb(d - 1, d // 2))
