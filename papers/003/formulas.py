"""The formulas of 003: printed numbers of buckets, hash conflicts, and the variances of Lemma 3 and Theorem 4.

E is e^epsilon and Omega = s E + t - s throughout. Everything is about one user with exactly s keys. Arguments may be
fractions, and then so are the results.
"""

import math
from fractions import Fraction
from typing import Any, NamedTuple


def collision_buckets(s: int, epsilon: float) -> int:
    """t of Collision, as the caption of Fig. 2 has it; section 5 says "around"."""
    return math.floor(s * math.exp(epsilon) + 2 * s - 1)


def coco_buckets(s: int, epsilon: float, goal: str = "mean") -> int:
    """t of CoCo by Theorem 7, made even (upwards): buckets come in pairs, at least s + 1 of them."""
    ratio = math.exp(epsilon)
    t = math.ceil(ratio * s + s + 2) if goal == "mean" else math.ceil(ratio * s + 5 * s)
    return max(t + t % 2, 2 * s + 2)


def overwritten(s: int, t: int) -> Fraction:
    """Eq. 7, closed: how likely a key of CoCo is overwritten by another one of the user's."""
    return 1 - Fraction(t**s - (t - 2) ** s, 2 * t ** (s - 1) * s)


def overwritten_sum(s: int, t: int) -> Fraction:
    """The same as a sum over how many of the others fall on its pair: with i of them it counts once in i + 1."""
    pair = Fraction(2, t)
    return sum(
        (math.comb(s - 1, i) * pair**i * (1 - pair) ** (s - 1 - i) * Fraction(i, i + 1) for i in range(s)),
        Fraction(0),
    )


class Rates(NamedTuple):
    """How likely a report hits the item that a user has, its opposite, and one of a key that the user lacks."""

    true: Any
    opposite: Any
    false: Any


def coco_rates(s: int, ratio: Any, t: int) -> Rates:
    """P_t, P_o and P_f of section 7, with the right (E + 1) / (2 Omega) for a key that is overwritten."""
    omega, lost = s * ratio + t - s, overwritten(s, t)
    lost = lost if isinstance(ratio, Fraction) else float(lost)
    shared = lost * (ratio + 1) / (2 * omega)
    return Rates(shared + (1 - lost) * ratio / omega, shared + (1 - lost) / omega, 1 / (t * (ratio / ratio)))


def collision_rates(s: int, ratio: Any, t: int) -> Rates:
    """P_t and P_f of section 5; the opposite item is as any other."""
    false = 1 / (t * (ratio / ratio))
    return Rates(ratio / (s * ratio + t - s), false, false)


class Errors(NamedTuple):
    """Expected squared errors of one report, summed: over keys for mean and presence, over items for frequencies."""

    mean: Any
    presence: Any

    @property
    def item(self) -> Any:
        """Items are half the sum and half the difference of the two: their squares add up to half of both squares."""
        return (self.mean + self.presence) / 2


def coco_errors(d: int, s: int, ratio: Any, t: int) -> Errors:
    """Lemma 3: eq. 9 (Minus) and eq. 8 (Plus)."""
    true, opposite, false = coco_rates(s, ratio, t)
    both, apart, none = true + opposite, true - opposite, 2 * false
    mean = (s * (both - apart**2) + (d - s) * none) / apart**2
    return Errors(mean, (s * both * (1 - both) + (d - s) * none * (1 - none)) / (both - none) ** 2)


def collision_errors(d: int, s: int, ratio: Any, t: int) -> Errors:
    """The variance in the proof of Theorem 4 without its leading 2: the same for means, presence and items."""
    true, _, false = collision_rates(s, ratio, t)
    item = (s * true * (1 - true) + (2 * d - s) * false * (1 - false)) / (true - false) ** 2
    return Errors(item, item)
