"""Generalized randomized response: say the true category, or now and then any other.

The favoured set is the value itself, so w = 1 of M = k outputs (docs/exact.md). With integers A and B and
W = A + (k-1) B the report is the true category with probability p = A / W and any given other with q = B / W.

Guarantee: P(y|x) / P(y|x') is A/B, 1 or B/A, so epsilon = ln(A/B). With delta (002 eq. 45, sound and tight) the one
output favoured by x alone gains A - e^epsilon B, so delta = (A - e^epsilon B) / W.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.draw import Rows, Tape, positions
from dither.core.estimate import Estimate
from dither.core.honest_sums import Sums
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.mechanisms.frequency import Frequencies, PairSupport, Supported


@dataclass(frozen=True)
class GRR(Mechanism[Estimate]):
    """Randomized response over k categories.

    Best for few categories or a large epsilon.

    >>> mechanism = GRR(k=4, epsilon=1.0)
    >>> mechanism.guarantee.epsilon
    1.0
    >>> reports = mechanism.randomize([0, 1, 1, 3], seed=1)
    >>> mechanism.estimate(mechanism.tally(reports)).value.shape
    (4,)
    """

    k: int
    epsilon: float
    delta: float = 0.0
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "categorical"
    statistics = ("frequency", "total")
    examples = (
        {"k": 4, "epsilon": 1.0},
        {"k": 2, "epsilon": 0.1},
        {"k": 5, "epsilon": 2.0, "delta": 1e-3},
    )

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 2, 1 << 40))

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(self.epsilon, self.delta, favoured=1, outputs=self.k, weights=self.weights)

    @cached_property
    def reading(self) -> Frequencies:
        alone = PairSupport(Fraction(0), Fraction(0))  # a report names one category
        q = (1 - self.law.inside) / (self.k - 1)
        return Frequencies(self.k, self.law.inside, q, pairs=alone, supported=Supported(1, 1))

    def along(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Frequencies | None:
        return self.reading.along(shape, axes)

    def report_worth(self) -> Worths:
        return self.reading.worths()

    def honest_sums(self, tally: Tally) -> Sums:
        return self.reading.honest_sums(tally)

    def channel(self) -> TwoLevel:
        return self.law

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        # Position 0 is the favoured output; adding it to x modulo k runs through the others in order.
        y = values.astype(np.uint64) + positions(self.law, tape, rows)
        k = np.uint64(self.k)
        reports["value"] = np.where(y >= k, y - k, y)
