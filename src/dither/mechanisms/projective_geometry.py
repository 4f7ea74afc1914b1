"""Projective geometry response: one short number, and next to no more error than a random subset (Feldman et al. 2022).

The outputs are the M = (q^t - 1)/(q - 1) points of a projective space over the field with q elements, and category v
favours the w = (q^(t-1) - 1)/(q - 1) points of hyperplane v. About one point in q is on a hyperplane, and any two
hyperplanes share the same number c = (q^(t-2) - 1)/(q - 1) of them. So it is a two-level law, as with subsets: of the
C(k, size) subsets, about one in k/size holds a category, and as many hold any two. What is missing are all but M of the
subsets, and with them the k bits of a report and the work of the server.

Guarantee: P(y|x) / P(y|x') is A/B, 1 or B/A, so epsilon = ln(A/B). q^(t-2) points are on one of two hyperplanes alone.

Support: a report supports the categories whose hyperplane it is on: the own one with p = w A / W, with W = w A + (M -
w) B, and any other with (c A + (w - c) B) / W. The server counts points. All the support counts come from them at once,
by a transform of about q t additions for every point (`kernels.projective_space`), whatever n times k is.

**Which q.** The share of points on a hyperplane, 1/q, should be near 1/(e^epsilon + 1), as the share of categories in a
subset should. There are fields of q elements for all powers of primes, so q lies close; but there are M >= k points,
up to q times as many, each with a counter. With `q=None` the variance is the smallest among all q that leave at most
four counters for every category, or `FEW_COUNTERS` (two megabytes) in all; of those within a five hundredth of it the
one with the fewest is taken. Where e^epsilon is large for so few counters, that costs error: at k = 10^7 nothing at
epsilon 1, 1% of the variance at 3, 4% at 5. `q=` takes another.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.draw import Rows, Tape, positions
from dither.core.estimate import Estimate
from dither.core.honest_sums import HonestSums, Sums
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.kernels.finite_field import MOST_ELEMENTS, checked_size, field_sizes
from dither.kernels.projective_space import ProjectiveSpace
from dither.mechanisms.frequency import Frequencies

MOST_CATEGORIES = 1 << 24
MOST_COUNTERS = 1 << 27
FEW_COUNTERS = 1 << 18
COUNTERS_PER_CATEGORY = 4
_AS_GOOD = 1.002  # of the variance
_BESIDE = 3  # sizes of fields that are tried on either side of the best one


@dataclass(frozen=True)
class ProjectiveGeometry(Mechanism[Estimate]):
    """One point of a projective space, decoded by a fast transform.

    Tiny reports, a server cost that does not depend on n times k, and nearly the smallest variance that epsilon
    allows; `q=None` takes the best field that leaves the tally small.

    >>> mechanism = ProjectiveGeometry(k=1000, epsilon=1.0)
    >>> mechanism.q, mechanism.space.size, mechanism.dtype.itemsize
    (4, 1365, 2)
    """

    k: int
    epsilon: float
    q: int | None = None
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "categorical"
    examples = (
        {"k": 7, "epsilon": 1.0, "q": 2},
        {"k": 9, "epsilon": 0.5, "q": 3},
        {"k": 15, "epsilon": 2.0, "q": 4},
        {"k": 12, "epsilon": 1.0, "q": 2},
        {"k": 3, "epsilon": 3.0},
    )

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 2, MOST_CATEGORIES))
        q = best_space(self.k, self.epsilon).q if self.q is None else self.q
        self._freeze(q=checked_size(checked_count("q", q, 2, MOST_ELEMENTS)))
        if self.space.size > MOST_COUNTERS:
            raise ParameterError(
                f"q = {q} with so many categories needs a tally of 2^{self.space.size.bit_length() - 1} counts, which "
                "does not fit; leave q out to have one chosen"
            )

    @cached_property
    def space(self) -> ProjectiveSpace:
        """The smallest space over the field with q elements that has k hyperplanes."""
        return ProjectiveSpace.holding(self.k, self.q or 2)

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return projective_law(self.space, self.k, self.epsilon, self.weights)

    @cached_property
    def reading(self) -> Frequencies:
        q = support_of_others(self.space, self.law)
        return Frequencies(self.k, self.law.inside, q, supports=self._supports, supported_by=self._supported_by)

    def report_worth(self) -> Worths:
        return self.reading.worths(at_once=self.space.on_hyperplane)  # point 0 is on the first so many hyperplanes

    def honest_sums(self, tally: Tally) -> Sums:
        """Support counts, and how often each point comes."""
        high, low = (float(each) for each in self.law.probabilities)
        points = HonestSums.of("reports of a point", tally.counts, tally.n, low, high)
        return *self.reading.honest_sums(tally), points

    def _supports(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.space.counted(counts)[: self.k]

    def _supported_by(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each point the weights of the categories whose hyperplane it is on."""
        full = np.zeros(self.space.size)
        full[: self.k] = weights
        return self.space.through(full)

    def channel(self) -> TwoLevel:
        return self.law

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        reports["value"] = self.space.places(values, positions(self.law, tape, rows))


def projective_law(
    space: ProjectiveSpace, hyperplanes: int, epsilon: float, weights: tuple[int, ...] | None
) -> TwoLevel:
    """The points of a space, of which those on one of the first so many hyperplanes are favoured."""
    return TwoLevel.fit(
        epsilon,
        favoured=space.on_hyperplane,
        outputs=space.size,
        apart=space.on_hyperplane - space.on_two,
        inputs=hyperplanes,
        members=lambda x: space.places(np.full(space.on_hyperplane, x), np.arange(space.on_hyperplane)).tolist(),
        weights=weights,
    )


def support_of_others(space: ProjectiveSpace, law: TwoLevel) -> Fraction:
    """How likely a report is on a hyperplane that is not its own."""
    both, one = space.on_two, space.on_hyperplane - space.on_two
    return Fraction(both * law.high + one * law.low, law.total)


def best_space(k: int, epsilon: float) -> ProjectiveSpace:
    """The space with the smallest total variance for k categories, within the counters allowed.

    For vectors of t elements the variance has one valley in q, beside e^epsilon + 1, so only the sizes beside it and
    those at the ends of what is allowed are tried.
    """
    costs = {space: total_variance(space, k, epsilon) for space in _spaces(k, epsilon)}
    least = min(costs.values())
    return min((space for space, cost in costs.items() if cost <= _AS_GOOD * least), key=lambda space: space.size)


def _spaces(k: int, epsilon: float) -> Iterator[ProjectiveSpace]:
    """Those that are tried: for each t, the smallest and the largest allowed field, and those beside e^epsilon + 1."""
    most, sizes = max(COUNTERS_PER_CATEGORY * k, FEW_COUNTERS), field_sizes()
    best = bisect_left(sizes, math.exp(min(epsilon, 50.0)) + 1)
    for t in range(3, 3 + k.bit_length()):
        first = bisect_left(sizes, True, key=lambda q, t=t: ProjectiveSpace(q, t).size >= k)
        end = bisect_left(sizes, True, key=lambda q, t=t: ProjectiveSpace(q, t).size > most)
        tried = range(max(first, min(best, end) - _BESIDE), min(end, max(best, first) + _BESIDE))
        yield from (space for at in tried if (space := ProjectiveSpace.holding(k, sizes[at])).t == t)


def total_variance(space: ProjectiveSpace, k: int, epsilon: float) -> float:
    """The variances that one report contributes to all categories, summed, at the real e^epsilon."""
    ratio, own, both = math.exp(min(epsilon, 50.0)), space.on_hyperplane, space.on_two
    total = own * ratio + space.size - own
    p, q = own * ratio / total, (both * ratio + own - both) / total
    return (p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2
