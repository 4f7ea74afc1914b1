"""003 as printed: shuffle bounds that enumeration refutes, and SUCCINCT as it was published.

**Shuffling.** Theorem 1 (quoted from others) and Theorem 5 bound the divergence of n shuffled reports by that of two
pairs of counts, P_alpha and Q_alpha: each of the others adds one to the first count with probability alpha, to the
second with alpha; the user adds one to the first with E alpha, to the second with alpha, or the other way round. The
paper takes alpha = s (E - 1) / Omega for Collision and (E - 1) / (E + 1) for any randomizer. Its proofs need s / Omega
and 1 / (E + 1); with the printed ones E alpha + alpha may exceed 1, and no counts exist. Either way the truth can be
above: messages that are not counted tell something, too (`tests/privacy/test_enumeration.py`, claim 14). What really is
guaranteed is `dither.privacy.bounds(Collision(...), n, delta)["own"]`.

The two pairs of counts are those of a randomizer with three outputs whose other users all have one law, so their
divergence is evaluated as any other (`privacy.shuffle_divergence`), in milliseconds; and in fractions for few users.

**SUCCINCT** adds the signs that a hash function gives to the user's items, clips at eta = sqrt(2 s ln(n / beta)), adds
Laplace noise of scale 2 eta / epsilon, and averages without correcting for what was clipped. The constant and beta are
not given: sqrt 2 and beta = .05 are taken, and eta is at most s, which no sum exceeds. What it gives: epsilon in real
arithmetic (the sensitivity of the clipped sum is 2 eta), nothing with floating-point noise; and `kept(s, eta)` times
the mean, where that factor is 1 if eta >= s.

Not for collecting data: `dither.Succinct` has integer noise and divides by the exact factor.
"""

import math
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.core.blanket_law import BlanketLaw
from dither.kernels.hashing import buckets
from dither.privacy.accounting.privacy_loss import along_the_logarithm, least_epsilon
from dither.privacy.shuffle_divergence import delta_above

BETA = 0.05
_CLOSE = 1e-7
_STEPS = 1 << 20  # of a noisy sum between two whole numbers, for the simulation's integer kernel


# Shuffling -----------------------------------------------------------------------------------------------------------


def theorem_5_alpha(s: int, ratio: Any, t: int) -> Any:
    """As it is printed."""
    return s * (ratio - 1) / (s * ratio + t - s)


def theorem_1_alpha(ratio: Any) -> Any:
    """As it is printed for any randomizer."""
    return (ratio - 1) / (ratio + 1)


def mixture_alpha(s: int, ratio: Any, t: int) -> Any:
    """What the proof of Theorem 5 needs."""
    return s / (s * ratio + t - s)


def exists(ratio: Any, alpha: Any) -> bool:
    """Whether alpha leaves all probabilities of the counts within 0 and 1."""
    return alpha >= 0 and 2 * alpha <= 1 and (ratio + 1) * alpha <= 1


def counts_law(ratio: float, alpha: float) -> BlanketLaw:
    """P_alpha and Q_alpha over the law of one of the others: three atoms."""
    rest = 1 - 2 * alpha
    outside = (1 - (ratio + 1) * alpha) / rest if rest > 0 else 0.0
    atoms = [(alpha, ratio, 1.0), (alpha, 1.0, ratio), (rest, outside, outside)]
    return BlanketLaw(*np.array([atom for atom in atoms if atom[0] > 0]).T)


def counts_delta(ratio: float, alpha: float, epsilon: float, n: int) -> float:
    """D(P_alpha || Q_alpha) at e^epsilon, within a millionth of its epsilon."""
    return delta_above(counts_law(ratio, alpha), epsilon, n)


def counts_epsilon(ratio: float, alpha: float, n: int, delta: float) -> float | None:
    """What the refuted bounds claim: the epsilon at which the divergence of the counts is delta."""
    if not exists(ratio, alpha):
        return None
    law = counts_law(ratio, alpha)

    def curve(epsilon: float) -> float:
        return delta_above(law, epsilon, n)

    return least_epsilon(curve, delta, math.log(ratio), _CLOSE, along_the_logarithm)


def exact_counts_delta(ratio: Fraction, alpha: Fraction, n: int, r: Fraction) -> Fraction:
    """The same for few users, as a fraction."""
    law: dict[tuple[int, int], list[Fraction]] = {}
    for counted in range(n):
        chance = comb(n - 1, counted) * (2 * alpha) ** counted * (1 - 2 * alpha) ** (n - 1 - counted)
        for first in range(counted + 1):
            here = chance * Fraction(comb(counted, first), 2**counted)
            for own, other, share in ((1, 0, ratio * alpha), (0, 1, alpha), (0, 0, 1 - alpha - ratio * alpha)):
                law.setdefault((first + own, counted - first + other), [Fraction(0)] * 2)[0] += here * share
                law.setdefault((first + other, counted - first + own), [Fraction(0)] * 2)[1] += here * share
    return sum((max(Fraction(0), one - r * another) for one, another in law.values()), Fraction(0))


# SUCCINCT ------------------------------------------------------------------------------------------------------------


def printed_eta(s: int, n: int) -> float:
    """sqrt(2 s ln(n / beta)), whatever s is."""
    return math.sqrt(2 * s * math.log(n / BETA))


def eta_of(s: int, n: int) -> float:
    """Where sums are clipped: a sum of s signs is at most s."""
    return min(float(s), printed_eta(s, n))


def kept(s: int, eta: float) -> float:
    """The factor of the mean that the average estimates: E[h clip(h + the s - 1 other signs)], exactly."""
    others = s - 1
    clipped = (comb(others, up) * max(-eta, min(eta, 1 + 2 * up - others)) for up in range(others + 1))
    return float(sum(clipped)) / 2**others


def variance(s: int, eta: float, epsilon: float) -> float:
    """Of one report times a sign of a key that the user lacks: that of the noise, and that of the clipped sum."""
    sums = (comb(s, up) * max(-eta, min(eta, 2 * up - s)) ** 2 for up in range(s + 1))
    return 2 * (2 * eta / epsilon) ** 2 + float(sum(sums)) / 2**s


def succinct_mean(rows: NDArray, d: int, epsilon: float, seed: int) -> NDArray[np.float64]:
    """Means of keys, estimated as published from users with exactly s keys; a simulation with floating-point noise."""
    n, s = rows["key"].shape
    random = np.random.default_rng(seed)
    seeds = random.integers(0, 1 << 64, n, dtype=np.uint64)
    eta = eta_of(s, n)
    up = buckets(seeds[:, None], rows["key"].astype(np.int64), 2).astype(np.float64)
    total = ((2 * up - 1) * rows["value"]).sum(axis=1)
    noisy = np.clip(total, -eta, eta) + random.laplace(scale=2 * eta / epsilon, size=n)
    summed = kernels.hash_sums(seeds, np.rint(noisy * _STEPS).astype(np.int64), d)
    return summed.reshape(d) / (_STEPS * n)
