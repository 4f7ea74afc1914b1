"""Hybrid: piecewise or a sign, by a public coin, with the smallest worst-case variance of the two and their mixtures.

Piecewise is worst for users at the ends (E[z^2 | x] = r0 + r2 x^2 with r2 > 1), the sign mechanism for users in the
middle (r2 = 0). A coin that is thrown without looking at the value, and shown in the report, mixes them; both
scores have mean x, so the variance is r0 + (r2 - 1) x^2 with r0 and r2 averaged (Wang et al. 2019). Its largest
value over x is

    r0 + max(0, r2 - 1),

which is piecewise linear in the share of piecewise: the best share is 0, 1, or where r2 = 1 and the variance does
not depend on x at all, e^(-epsilon/2) short of 1. Below an epsilon of about 0.61 it is 0: signs only. The share is
rounded to a multiple of 2^-32, so the coin is one exact comparison.

The coin is public and does not see the value, so the guarantee is that of the worse of the two, given the coin.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_list
from dither.core.composite_channels import Announced, PublicMixture
from dither.core.contributions import Bounded, one_of
from dither.core.domains import NUMBERS
from dither.core.draw import TAG, Rows, Tape, below, some_of
from dither.core.estimate import Estimate
from dither.core.honest_sums import HonestSums, Sums, parted
from dither.core.lattice import MOST_STEPS
from dither.core.mechanism import Mechanism, Moments
from dither.core.structure import BRANCHES
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.mechanisms.mean import Mean
from dither.mechanisms.window import Window, fine_enough, piecewise_share

_COIN = 1 << 32


@dataclass(frozen=True)
class Hybrid(Mechanism[Estimate]):
    """A number, by a window or by a sign as a public coin says.

    The smallest worst-case variance of the simple mechanisms at every epsilon.

    >>> hybrid = Hybrid(epsilon=1.0)
    >>> hybrid.moments([-1.0, 0.0, 1.0]).variance.round(3)
    array([4.289, 4.289, 4.289])
    """

    epsilon: float
    # A and B of the sign; A, B, w and J of the window; the share of piecewise in 2^-32.
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "numeric"
    structure = BRANCHES
    takes = NUMBERS
    statistics = ("mean",)
    for_vectors = True
    weight_count = 7
    examples = ({"epsilon": 1.0}, {"epsilon": 0.3}, {"epsilon": 4.0})

    def _validate(self) -> None:
        pass

    def _fit(self) -> tuple[int, ...]:
        sign = Window.fit(self.epsilon, 0.0, 1, 1)
        window = Window.fit(self.epsilon, 0.0, *fine_enough(self.epsilon, piecewise_share(self.epsilon)))
        share = _best_share(sign.reading(), window.reading())
        laws = (sign.law.high, sign.law.low, window.law.high, window.law.low, window.width, window.steps)
        return *laws, round(share * _COIN)

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """A coin of three eighths, and laws that three bits can tell: a row has the words of both branches."""
        assert self.weights is not None
        sign, share = ((5, 2), 3 << 29) if self.weights[-1] else ((4, 3), 0)
        return replace(self, weights=(*sign, 3, 2, 1, 2, share)) if limit == 8 else None

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        rule = f"weights must be {self.weight_count} whole numbers, or left out"
        *laws, share = checked_list(rule, weights, self.weight_count)
        share = checked_count("the share of piecewise", share, 0, _COIN)
        laws = tuple(checked_count("a weight", weight, 1) for weight in laws)
        checked_count("the lattice", laws[-1], 1, MOST_STEPS)
        checked_count("the window", laws[-2], 1, MOST_STEPS)
        if laws[0] <= laws[1] or laws[2] <= laws[3]:  # of one branch the other would tell, and it has no score
            raise ParameterError("these weights treat all outputs of a branch alike: its reports would tell nothing")
        return *laws, share

    @cached_property
    def branches(self) -> tuple[tuple[Fraction, Window], ...]:
        """Sign and window with their shares; what has no share is left out."""
        assert self.weights is not None
        *laws, share = self.weights
        part = Fraction(share, _COIN)
        sign = Window.fit(self.epsilon, 0.0, 1, 1, (laws[0], laws[1]))
        window = Window.fit(self.epsilon, 0.0, laws[4], laws[5], (laws[2], laws[3]))
        return tuple((odds, each) for odds, each in ((1 - part, sign), (part, window)) if odds)

    @property
    def share(self) -> float:
        """How often piecewise is used."""
        return sum((float(odds) for odds, window in self.branches if window.steps > 1), 0.0)

    @cached_property
    def reading(self) -> Mean:
        readings = [(float(odds), window.reading()) for odds, window in self.branches]
        return Mean(
            np.concatenate([reading.scores for _, reading in readings]),
            sum(odds * reading.square_at_zero for odds, reading in readings),
            sum(odds * reading.square_growth for odds, reading in readings),
            1.0,
            self._moments,
        )

    def _moments(self, x: NDArray[np.float64]) -> Moments:
        parts = [(float(odds), window.moments(x)) for odds, window in self.branches]
        variance, third = (sum(odds * getattr(part, name) for odds, part in parts) for name in ("variance", "third"))
        return Moments(np.zeros_like(x), np.asarray(variance), np.asarray(third))

    def report_worth(self) -> Worths:
        """A liar takes the branch that reaches farther."""
        branches = [worth for _, window in self.branches for worth in window.worths()]
        return (Worth.of_mean(max(each.most for each in branches), min(each.least for each in branches)),)

    def honest_sums(self, tally: Tally) -> Sums:
        """How the public coin fell, which no value moves, and the sums of each branch."""
        counts = np.split(tally.counts, np.cumsum([window.law.outputs for _, window in self.branches])[:-1])
        odds, fallen = [float(odds) for odds, _ in self.branches], [own.sum() for own in counts]
        found = [HonestSums.of("reports of a branch", fallen, tally.n, odds, odds)]
        for number, ((_, window), own) in enumerate(zip(self.branches, counts, strict=True)):
            found += parted(f"branch {number}", window.honest_sums(own))
        return tuple(found)

    def channel(self) -> PublicMixture:
        steps = max(window.steps for _, window in self.branches)

        def given(x: int, tag: int) -> list[Fraction]:
            # On the finer lattice the coarser one's inputs are mixtures of two.
            law = self.branches[tag][1].law
            lower, rest = divmod(x * (law.shape[0] - 1), steps)
            upper = law.row(min(lower + 1, law.shape[0] - 1))
            return [a + (b - a) * Fraction(rest, steps) for a, b in zip(law.row(lower), upper, strict=True)]

        laws = [window.law for _, window in self.branches]
        return PublicMixture(
            Announced(tuple(laws)),  # which is worse depends on the ratio
            len(laws),
            steps + 1,
            given,
            outputs=sum(law.outputs for law in laws),
            odds=tuple(odds for odds, _ in self.branches),
        )

    @cached_property
    def dtype(self) -> np.dtype:
        largest = max(window.law.outputs for _, window in self.branches)
        return np.dtype([("branch", np.uint8), ("value", np.min_scalar_type(largest - 1))])

    def outputs(self) -> NDArray:
        sizes = [window.law.outputs for _, window in self.branches]
        reports = np.empty(sum(sizes), dtype=self.dtype)
        reports["branch"] = np.repeat(np.arange(len(sizes)), sizes)
        reports["value"] = np.concatenate([np.arange(size) for size in sizes])
        return reports

    @property
    def row_words(self) -> int:
        return 3

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        branch = np.zeros(len(values), dtype=np.uint8)
        if len(self.branches) > 1:
            sign = self.branches[0][0]
            branch[:] = below(sign.denominator, tape, rows, lane=TAG) >= np.uint64(sign.numerator)
        reports["branch"] = branch
        for number, (_, window) in enumerate(self.branches):
            here = np.flatnonzero(branch == number)
            own = np.empty(len(here), dtype=self.dtype)
            # A tape for each branch: their laws may read a lane with different widths.
            window.fill(own, values[here], tape.slots(str(number), 1), some_of(rows, here))
            reports["value"][here] = own["value"]

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        sizes = np.array([window.law.outputs for _, window in self.branches])
        branch = np.minimum(reports["branch"], len(sizes) - 1)
        return (reports["branch"] < len(sizes)) & (reports["value"] < sizes[branch])

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        sizes = [window.law.outputs for _, window in self.branches]
        first = np.concatenate([[0], np.cumsum(sizes)])
        return np.bincount(first[reports["branch"]] + reports["value"], minlength=int(first[-1]))

    @cached_property
    def contributions(self) -> Bounded:
        return one_of(self.channel().shape[1])


def _best_share(sign: Mean, window: Mean) -> float:
    """The share of piecewise with the smallest worst-case variance."""

    def worst(share: float) -> float:
        zero = share * window.square_at_zero + (1 - share) * sign.square_at_zero
        return zero + max(0.0, share * window.square_growth - 1)

    return min((0.0, 1 / window.square_growth, 1.0), key=worst)
