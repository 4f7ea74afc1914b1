"""Local hashing: hash the value into g buckets, then randomized response over the buckets.

Each report carries its own public hash function (a 64-bit seed) and one bucket. The favoured output is the bucket
of the value, w = 1 of g, so the guarantee is that of randomized response over g values, for the worst hash
function. The report supports every category that its hash sends to its bucket: p = A / W for the true one, q = 1/g
for any other (002 eq. 55; the hash must behave like independent values for this, see `kernels.hashing`).

The best g balances the loss from hashing against the noise of many buckets. For rare categories it is the root of
002 eq. 57 (e^epsilon + 1 for delta = 0); the printed closed form cancels for small delta, and `best_buckets` is the
same root written without cancellation (docs/papers.md). Summed over all categories, whatever the population, the
best g for delta = 0 is 1 + sqrt(E ((k-1) E + 1) / (k - 1 + E)), E = e^epsilon. It is the same for many categories
and smaller for few. The integer beside either with the smallest total variance is taken, and p recomputed for it.
(With a delta near or above 1/9 a huge g would do better still: delta then acts as the probability of showing the
hash. This is not sought.)

**Cohorts.** With a seed of its own for every user the server evaluates n * k hashes. `cohorts=C` shares C numbered
hash functions, and the tally is a C x g table. `mechanisms.cohorts` reads it.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.composite_channels import PublicMixture
from dither.core.contributions import Bounded
from dither.core.draw import Rows, Tape, positions
from dither.core.estimate import Estimate
from dither.core.honest_sums import Sums
from dither.core.mechanism import Mechanism, Reading
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.kernels.hashing import MOST_CATEGORIES, buckets
from dither.mechanisms.cohorts import CohortFrequencies, collision_variance
from dither.mechanisms.frequency import Frequencies, PairSupport, Supported
from dither.mechanisms.hash_seeds import HashedReports, HashSeeds, enough_cohorts

MOST_BUCKETS = 1 << 16


@dataclass(frozen=True)
class LocalHash(Mechanism[Estimate]):
    """Randomized response over a hash (OLH).

    Small reports and a variance that does not grow with k. `g=None` takes the best number of buckets.
    `cohorts=None` gives every report a hash function of its own; a number shares that many, for a server cost that
    does not grow with n * k.

    >>> LocalHash(k=1000, epsilon=1.0).g
    4
    """

    k: int
    epsilon: float
    delta: float = 0.0
    g: int | None = None
    cohorts: int | None = None
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "categorical"
    statistics = ("frequency", "total")
    examples = (
        {"k": 6, "epsilon": 1.0},
        {"k": 5, "epsilon": 1.0, "cohorts": 7},
        {"k": 4, "epsilon": 0.5, "g": 2, "cohorts": 5},
        {"k": 5, "epsilon": 2.0, "delta": 1e-3, "cohorts": 4},
    )

    @property
    def evaluations(self) -> int:
        """A hash for each category, where every report has a hash function of its own."""
        return self.k if self.cohorts is None else 0

    def affordable(self, variance: float, reports: float, most_evaluations: int) -> Self:
        """With hash functions that users share: enough of them, as far as their table can be read at that cost."""
        g = self.law.outputs
        shared = enough_cohorts(collision_variance(g, 1), g, self.k, variance, reports, most_evaluations)
        return replace(self, cohorts=shared, weights=None)

    def displacement(self) -> float:
        """What categories that collide under a shared hash function do, in the same way for all who share it."""
        return 0.0 if self.cohorts is None else collision_variance(self.law.outputs, self.cohorts)

    @property
    def priced_reading(self) -> Frequencies:
        """As if hash functions were not shared: to solve for collisions takes seconds, and wins little on average."""
        return Frequencies(self.k, self.law.inside, Fraction(1, self.law.outputs))

    @property
    def sampler(self) -> Hashable:
        """A hashed value is drawn without knowing k."""
        return type(self).__name__, self.g, self.cohorts, self.weights

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 2, MOST_CATEGORIES))
        g = best_integer(self.k, self.epsilon, self.delta) if self.g is None else self.g
        self._freeze(g=checked_count("g", g, 2, MOST_BUCKETS))
        self._freeze(cohorts=HashSeeds.checked(self.cohorts).cohorts)

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(self.epsilon, self.delta, favoured=1, outputs=self.g or 2, weights=self.weights)

    @cached_property
    def reading(self) -> Reading[Estimate]:
        return self._of_fresh_hashes if self._of_shared_hashes is None else self._of_shared_hashes

    @cached_property
    def _of_shared_hashes(self) -> CohortFrequencies | None:
        """The reading where reports are counted by cohort and bucket."""
        if self.cohorts is None:
            return None
        p, g, alone = self.law.inside, self.law.outputs, PairSupport(Fraction(0), Fraction(0))
        oracle = Frequencies(g, p, (1 - p) / (g - 1), pairs=alone, supported=Supported(1, 1))  # of one bucket of g
        return CohortFrequencies(self.k, self.cohorts, oracle)

    @cached_property
    def _of_fresh_hashes(self) -> Frequencies:
        """The reading where every report has a hash function of its own."""
        p, q = self.law.inside, Fraction(1, self.g or 2)
        pairs, supported = PairSupport.independent(p, q), Supported(0, self.k, free=False)  # a liar searches for a hash
        return Frequencies(self.k, p, q, pairs=pairs, supported=supported)

    def along(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Frequencies | None:
        return None if self.cohorts is not None else self._of_fresh_hashes.along(shape, axes)

    def report_worth(self) -> Worths:
        return (self._of_fresh_hashes if self._of_shared_hashes is None else self._of_shared_hashes).worths()

    def honest_sums(self, tally: Tally) -> Sums:
        low, high = float((1 - self.law.inside) / (self.law.outputs - 1)), float(self.law.inside)
        if self.cohorts is not None:
            return self.layout.honest_sums(tally, low, high)
        return Frequencies(self.k, self.law.inside, Fraction(1, self.law.outputs)).honest_sums(tally)

    @cached_property
    def layout(self) -> HashedReports:
        g = self.law.outputs
        return HashedReports(
            HashSeeds(self.cohorts),
            g,
            lambda seeds, values: kernels.hash_support(seeds, values, self.k, g),
            Bounded((self.k,)),
        )

    def channel(self) -> PublicMixture:
        def given(x: int, tag: int) -> list[Fraction]:
            return self.law.row(int(buckets(self.layout.functions.seed(tag), np.array([x]), self.law.outputs)[0]))

        return PublicMixture(self.law, self.layout.functions.count, self.k, given)

    @property
    def row_words(self) -> int:
        return 2

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        seeds = self.layout.functions.draw(reports, tape, rows)
        g = np.uint64(self.law.outputs)
        y = buckets(seeds, values, self.law.outputs) + positions(self.law, tape, rows)
        reports["value"] = np.where(y >= g, y - g, y)


def best_buckets(epsilon: float, delta: float = 0.0) -> float:
    """The real g where the variance of rare categories has its valley; infinite where it has none (delta too large).

    >>> round(best_buckets(1.0, 1e-6), 6)
    3.718299
    """
    gain = math.expm1(epsilon)
    inner = (1 - delta) * (gain + delta - 9 * (gain + 1) * delta)
    if inner < 0:
        return math.inf
    return 2 * gain * (gain + 2 - 2 * delta) / (gain * (1 - 3 * delta) + math.sqrt(gain * inner))


def best_integer(k: int, epsilon: float, delta: float) -> int:
    """The integer with the smallest total variance, beside the valley of rare categories and that of all of them."""
    gain = math.expm1(min(epsilon, 50.0))
    ratio = gain + 1
    balanced = 1 + math.sqrt(ratio * ((k - 1) * ratio + 1) / (k - 1 + ratio))  # all categories, delta = 0
    valleys = [valley for valley in (balanced, best_buckets(min(epsilon, 50.0), delta)) if math.isfinite(valley)]
    beside = [side(min(valley, MOST_BUCKETS)) for valley in valleys for side in (math.floor, math.ceil)]

    def cost(g: int) -> float:
        p, q = (ratio + (g - 1) * delta) / (ratio + g - 1), 1 / g
        return (p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2

    return min((max(2, g) for g in beside), key=cost)
