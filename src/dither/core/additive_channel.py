"""Additive noise on a lattice, clamped: one table of integers, shifted to the input.

The input is a lattice point i = 0, ..., J. A noise offset o = -R, ..., R is drawn with integer weight v[|o|], and the
report is y = i + o, clamped to [-T, J + T]. With R = T + J every offset at or beyond R ends at a clamp whatever the
input is, so v[R] holds the whole tail of the noise. All inputs share the total W, and clamping is post-processing.

**The one condition.** For inputs i < j the likelihood ratio P(y|i) / P(y|j) must not increase in y, over all outputs
and both clamped ends (monotone likelihood ratio, MLR). It is checked when the channel is made, exactly: for neighbours
i, i + 1 (ratios of others are products of theirs) it reads, with S(k) the weight of all offsets o >= k,

    v[o]^2 >= v[o-1] v[o+1]                        between two inner outputs, and
    S(T+i) v[T+i] >= S(T+i+1) v[T+i-1]             between the clamped end and the output beside it.

**What follows.** Let i < j. By Neyman and Pearson the set that attains the divergence of (P_i, P_j) at a ratio r is a
threshold A = {y <= k}. MLR orders the inputs stochastically, so P_0(A) >= P_i(A) and P_J(A) <= P_j(A), and

    H_r(P_i, P_j) = P_i(A) - r P_j(A) <= P_0(A) - r P_J(A) <= H_r(P_0, P_J)        for every r >= 0.

For i > j the thresholds lie above, and the reflection y -> J - y turns (P_J, P_0) into (P_0, P_J). Hence the two ends
are the worst pair at every r at once. By Blackwell's theorem one and the same post-processing turns (P_0, P_J) into
(P_i, P_j); applied coordinate by coordinate, it shows that in a product of such channels all coordinates at 0 against
all at J is the worst pair, too. Inputs between lattice points are mixtures, covered by joint convexity.

**Stretch.** For a small epsilon the noise is so wide that even one step, J = 1, would need millions of weights. Then
the lattice is made wider than the domain: its two points stand at -H and H, and x in [-1, 1] is rounded to one of them
without bias. The rows of the channel are the inputs -1 and 1, which are mixtures of both points with shares (H + 1) :
(H - 1) and the reverse. They inherit MLR, and all of the above. (H is a power of two, so that x/H is exact.)

**In a crowd** (`core.blanket_law`). The least of all inputs is beta = min(P_0, P_J), since v falls away from 0. With
u = P_i/beta and y' the reflection of y, u >= 1 and u(y) + u(y') <= s(y), the largest such sum over i. A pair of numbers
with this sum is spread by (s - 1, 1): so in each pair of outputs one is at level s - 1 with some chance, and all else
at 1. What u has above 1 adds up to 1 - beta's mass, for every input; convex functions are largest where it all goes to
the highest levels first. So does v, and apart is worse than together: v takes the other output of each pair. For one
step the two ends are the only pair there is, and their law is exact.

What goes wrong: a table that is log-concave inside but whose lump is too heavy has its worst ratio in the middle; a
rounded geometric table is log-concave only up to its last digit. Both are refused here, not repaired.
"""

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dither.core.blanket_law import BlanketLaw
from dither.core.channel import Blanket, Channel
from dither.errors import ParameterError

MOST_STRETCH = 1 << 40


@dataclass(frozen=True)
class AdditiveChannel(Channel):
    """The channel of clamped additive noise: weights v[0], ..., v[R], `steps` J, `reach` T and `stretch` H.

    >>> channel = AdditiveChannel((4, 2, 1), steps=1, reach=1)
    >>> [str(p) for p in channel.row(0)]
    ['3/10', '2/5', '1/5', '1/10']
    >>> channel.ratio()
    Fraction(3, 1)
    """

    weights: tuple[int, ...]
    steps: int
    reach: int
    stretch: int = 1

    def __post_init__(self) -> None:
        if self.steps < 1 or self.reach < 1 or len(self.weights) != self.steps + self.reach + 1:
            raise ParameterError("a shifted table needs steps >= 1, reach >= 1 and steps + reach + 1 weights")
        if not 1 <= self.stretch <= MOST_STRETCH or self.stretch & (self.stretch - 1):
            raise ParameterError("the stretch of a lattice is a power of two, at most 2^40")
        if self.stretch > 1 and self.steps > 1:
            raise ParameterError("only a lattice of one step is stretched")
        if min(self.weights) < 1 or not (self._concave_inside() and self._concave_at_the_ends()):
            raise ParameterError(
                "these weights are not log-concave, ends included, so the ends would not be the worst pair of inputs; "
                "leave them out to have them chosen"
            )

    def _concave_inside(self) -> bool:
        v = self.weights
        return all(v[o] * v[o] >= v[abs(o - 1)] * v[o + 1] for o in range(len(v) - 2))

    def _concave_at_the_ends(self) -> bool:
        v = self.weights
        return all(
            self.tail(k) * v[k] >= self.tail(k + 1) * v[k - 1] for k in range(self.reach, self.reach + self.steps)
        )

    @cached_property
    def cumulative(self) -> tuple[int, ...]:
        """The weight of all offsets up to k, for k = -R, ..., R: what `draw.entries` samples."""
        return tuple(accumulate(self.weights[:0:-1] + self.weights))

    @property
    def total(self) -> int:
        """W: the sum of all weights, the same for every input."""
        return self.cumulative[-1]

    def tail(self, k: int) -> int:
        """S(k): the weight of all offsets o >= k, by symmetry that of all o <= -k."""
        return self.cumulative[len(self.weights) - 1 - k]

    @property
    def shape(self) -> tuple[int, int]:
        return self.steps + 1, self.steps + 2 * self.reach + 1

    def _ends(self, at_lowest: int, at_highest: int) -> tuple[int, int]:
        """The same event at inputs -1 and 1, in units of 1/(2 H W), from its weights at the two ends of the lattice."""
        more, less = self.stretch + 1, self.stretch - 1
        return more * at_lowest + less * at_highest, less * at_lowest + more * at_highest

    def pairs(self) -> list[tuple[int, int]]:
        """The weights of every output at inputs -1 and 1, in units of 1/(2 H W)."""
        return list(map(self._ends, self.shifted(0), self.shifted(self.steps)))

    def ratio(self) -> Fraction:
        # By MLR the largest ratio is that of the lowest output.
        return Fraction(*self._ends(self.tail(self.reach), self.tail(self.reach + self.steps)))

    def divergence(self, ratio: Fraction) -> Fraction:
        return max(self.gain(ratio), Fraction(0), 1 - ratio)  # a threshold, or the empty or the full event

    def gain(self, ratio: Fraction) -> Fraction:
        """The largest P(y <= k | -1) - ratio * P(y <= k | 1) over thresholds k; below zero at a ratio never reached."""
        gains = []
        for k in range(-self.reach, self.reach + self.steps):
            lowest, highest = self._ends(self.tail(-k), self.tail(self.steps - k))
            gains.append(ratio.denominator * lowest - ratio.numerator * highest)
        return Fraction(max(gains), 2 * self.stretch * self.total * ratio.denominator)

    def blanket(self) -> Blanket:
        # v falls away from 0, so what an output has at input i rises and then falls in i: it is least at an end.
        law = tuple(map(min, self.row(0), self.row(self.steps)))
        return Blanket(sum(law, Fraction(0)), law)

    def blanket_law(self) -> BlanketLaw:
        lowest, highest = self.row(0), self.row(self.shape[0] - 1)
        if self.steps == 1:  # all inputs are averages of the two ends
            return BlanketLaw.between(lowest, highest, list(map(min, lowest, highest)))
        return self._above_all_pairs(np.array(list(map(float, map(min, lowest, highest)))))

    def _above_all_pairs(self, under: NDArray[np.float64]) -> BlanketLaw:
        """A law above those of all pairs of inputs (see the essay), from what lies under all of them."""
        likelihoods = np.array([[weight / self.total for weight in self.shifted(i)] for i in range(self.steps + 1)])
        half = -(-under.size // 2)
        # An output in the middle is its own reflection: two outputs with half of it each.
        mass = under[:half] * np.where(2 * np.arange(half) == under.size - 1, 0.5, 1.0)
        level = (likelihoods + likelihoods[:, ::-1])[:, :half].max(axis=0) / under[:half] - 1
        order = np.argsort(-level)
        mass, level = mass[order], level[order]
        excess = np.cumsum(mass * (level - 1))
        budget = 1 - float(under.sum())
        used = np.clip((budget - np.concatenate([[0.0], excess[:-1]])) / (mass * (level - 1)), 0.0, 1.0)
        high = mass * used
        none, one = np.array([under.sum() - 2 * high.sum()]), np.ones_like(level)
        found = BlanketLaw(
            np.concatenate([high, high, none]),
            np.concatenate([level, one, [1.0]]),
            np.concatenate([one, level, [1.0]]),
        )
        return found.without_empty()

    def dominating_rows(self) -> tuple[list[Fraction], list[Fraction]]:
        return self.row(0), self.row(self.shape[0] - 1)  # the two ends, by MLR

    def row(self, x: int) -> list[Fraction]:
        if self.stretch == 1:
            return [Fraction(weight, self.total) for weight in self.shifted(x)]
        return [Fraction(pair[x], 2 * self.stretch * self.total) for pair in self.pairs()]

    def shifted(self, i: int) -> list[int]:
        """The weight of every output at lattice point i."""
        inner = (self.weights[abs(y - i)] for y in range(1 - self.reach, self.reach + self.steps))
        return [self.tail(self.reach + i), *inner, self.tail(self.reach + self.steps - i)]


def noise_shape(slope: Decimal, curvature: Decimal, size: int, bits: int) -> list[Decimal]:
    """exp(-slope o - curvature o^2) for o = 0, ..., size, scaled to a symmetric law; the last entry is the whole tail.

    Consecutive ratios are themselves a geometric sequence, so an entry takes two multiplications. They carry digits for
    `bits` bits and 20 decimals more; the tail is followed until it is far below the last bit.
    """
    with localcontext(Context(prec=20 + bits * 2 // 5)):
        weight, ratio = Decimal(1), (-slope - curvature).exp()
        bend, gone = (-2 * curvature).exp(), Decimal(2) ** -(bits + 20)
        shape = []
        while len(shape) <= size or weight > gone:
            shape.append(weight)
            weight *= ratio
            ratio *= bend
        shape[size:] = [sum(shape[size:], Decimal(0))]
        whole = 2 * sum(shape, Decimal(0)) - 1
        return [entry / whole for entry in shape]


def noise_table(slope: Decimal, curvature: Decimal, size: int, bits: int) -> tuple[int, ...]:
    """`noise_shape` in integers with total 2^bits: each entry the nearest, and v[0] takes what rounding leaves over.

    >>> noise_table(Decimal(1), Decimal(0), size=3, bits=8)
    (118, 44, 16, 9)
    """
    with localcontext(Context(prec=20 + bits * 2 // 5)):
        shape = noise_shape(slope, curvature, size, bits)
        table = [int((entry * (1 << bits)).to_integral_value()) for entry in shape[1:]]
    return (1 << bits) - 2 * sum(table), *table
