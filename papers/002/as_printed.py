"""002 exactly as printed, where that promises or estimates something else than it says. Not for collecting data.

**Mechanism-1.** The paper asks for P(y | x) <= e^epsilon P(y | x') + delta corner by corner (eq. 5, and eq. 22 for this
mechanism). Summed over the C_d corners that one input favours and its opposite does not, that is (epsilon, C_d delta).
`hypercube` and `remark_1` choose their integers by the printed condition, and return channels that know how many
corners tell two inputs apart, so that `divergence` measures the truth. `mechanism_1` is the same law as a mechanism
that draws reports: `dither.Hypercube` with the delta that is delivered. `printed_scale` is the B of eq. 8.

**Opt-GM.** The paper gives the sensitivity 2 to a record of d numbers in [-1, 1]; two of them are 2 sqrt(d) apart.
`gaussian_sigma` is its Theorem 1, and `gaussian_delta` what noise of some size really gives.

**Algorithm 4** is that of Duchi et al.: `corners` are the rows of such channels, and `corner_epsilon` what they give.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from dither import Hypercube
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


def mechanism_1(d: int, epsilon: float, delta: float) -> Hypercube:
    """Mechanism-1 with the alpha of eq. 24, ready to draw reports; its guarantee says what it gives.

    >>> print(mechanism_1(5, 1.0, 1e-6).guarantee)  # 16 times what was declared
    epsilon 1, delta 1.6e-5 (exact)
    """
    return Hypercube(d, epsilon, half_space(d) * delta)


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


def printed_dimensions(d: int, epsilon: float) -> int:
    """Eq. 36: how many dimensions Mechanism-2 asks for.

    >>> [printed_dimensions(15, epsilon) for epsilon in (1.0, 4.0, 10.0)]
    [1, 1, 4]
    """
    return max(1, min(d, int(epsilon / 2.17)))


def sampled_variance(d: int, k: int, epsilon: float, delta: float) -> float:
    """Eq. 37 at 0: of Mechanism-2 with k dimensions."""
    grown = math.exp(epsilon / k)
    return d / k * ((grown + 1) / (grown + 2 * delta / k - 1)) ** 2


def sampled_delta(d: int, k: int, epsilon: float, delta: float) -> float:
    """What Mechanism-2 gives at epsilon, with epsilon/k and delta/k each: over all pairs of corners, by enumeration.

    A report names its k dimensions. Of b dimensions in which two corners differ, r are among them with hypergeometric
    odds, and then r signs tell them apart.
    """
    grown = math.exp(epsilon / k)
    true = (grown + delta / k) / (grown + 1)  # eq. 30: the odds of the rounded sign
    by_signs = [
        sum(
            math.comb(r, up)
            * max(0.0, true**up * (1 - true) ** (r - up) - math.exp(epsilon) * true ** (r - up) * (1 - true) ** up)
            for up in range(r + 1)
        )
        for r in range(k + 1)
    ]
    return max(
        sum(
            math.comb(b, r) * math.comb(d - b, k - r) / math.comb(d, k) * by_signs[r]
            for r in range(max(0, k + b - d), min(b, k) + 1)
        )
        for b in range(1, d + 1)
    )


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 2.0) -> float:
    """Theorem 1: the least standard deviation for (epsilon, delta), with factors that neither vanish nor cancel.

    >>> round(gaussian_sigma(1.0, 1e-6) ** 2, 1)
    71.4
    """

    def excess(xi: float) -> float:
        gain = erfcx(xi) - erfcx(math.sqrt(xi * xi + epsilon))
        return math.log(gain) - xi * xi - math.log(2 * delta)

    xi = brentq(excess, -5.0, 20.0, xtol=1e-14)
    return (xi + math.sqrt(xi * xi + epsilon)) * sensitivity / (epsilon * math.sqrt(2))  # pyright: ignore[reportOperatorIssue]


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float) -> float:
    """What noise of this size gives where two inputs are so far apart.

    >>> round(gaussian_delta(1.0, gaussian_sigma(1.0, 1e-6), 2 * math.sqrt(5)), 4)  # five numbers, 1e-6 declared
    0.0097
    """
    half, tilt = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    return float(ndtr(half - tilt) - math.exp(epsilon) * ndtr(-half - tilt))


def corners(d: int, favoured: float, ties: bool = False) -> NDArray[np.float64]:
    """The channel of corners whose favoured side, with or without ties, has this probability: a row for each input."""
    disagree = np.bitwise_count(np.arange(1 << d)[:, None] ^ np.arange(1 << d)).astype(int)
    inside = 2 * disagree <= d if ties else 2 * disagree < d
    size = int(inside[0].sum())
    return np.where(inside, favoured / size, (1 - favoured) / ((1 << d) - size))


def corner_epsilon(channel: NDArray[np.float64]) -> float:
    """The pure epsilon of a channel."""
    return float(np.log(channel.max(axis=0) / channel.min(axis=0)).max())


def corner_scale(channel: NDArray[np.float64]) -> float:
    """What makes the first sign unbiased: one over its mean, for the corner of ones."""
    signs = np.where(np.arange(len(channel)) & 1, 1.0, -1.0)
    return float(1 / (channel[-1] @ signs))
