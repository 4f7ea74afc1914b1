"""Frequencies through numeric noise: a one-hot vector, one entry a category, each randomized as a number.

The value x becomes k numbers, 1 at x and -1 elsewhere (000 section V-C writes 1 and 0; the domain here is [-1, 1]). The
mean of entry v is 2 f_v - 1. Its variance is that of the noise at the ends of its domain: no value is anywhere else.
Two inputs differ in two entries, and how the budget is made for them is what the two mechanisms differ in:

- **Histogram**: each entry goes through a numeric base with half the budget. With m of d categorical dimensions, as
  `Sampled` of this, an entry gets epsilon/(2m), which is 000's rule, sound and tight.
- **OneHotGaussian**: Gaussian noise for the two entries at once, the optimal Gaussian mechanism of 002 for categories.
  As a vector two inputs are 2 sqrt(2) apart (sqrt(2) for 1 and 0), so the noise is that of one number times sqrt(2),
  where halving the budget would nearly double it. It is a table of integers, calibrated until the exact delta of two
  entries, clamped ends included, is within 1e-9 below the declared one (`noise_tables.one_hot_law`).

Categorical mechanisms are better at the same budget. Histogram exists because the re-calibration of 000 works on means;
OneHotGaussian is the yardstick that the literature compares with.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.composite_channels import Product
from dither.core.covariance import Covariance
from dither.core.domains import NUMBERS, Categories
from dither.core.draw import Rows, Tape
from dither.core.estimate import Estimate
from dither.core.exact import log_above, share_below
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import Sums
from dither.core.mechanism import Mechanism, Moments
from dither.core.short_weights import FEWEST_NOISES
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.mechanisms.additive import LEAST_DELTA, Gaussian
from dither.mechanisms.frequency import frequency_estimate
from dither.mechanisms.multi_attribute import MultiAttribute
from dither.mechanisms.noise_tables import one_hot_law
from dither.mechanisms.spec import from_spec, normal_spec, takes_delta

MOST_CATEGORIES = 1 << 12
_CHANGED = 2  # entries in which two inputs differ


@dataclass(frozen=True, eq=False)
class EntryFrequencies:
    """The reading of k entries: their means, moved from [-1, 1] to [0, 1]."""

    k: int
    entries: MultiAttribute

    @property
    def domain(self) -> Categories:
        """The numbers of the categories."""
        return Categories(self.k)

    @cached_property
    def _ends(self) -> Moments:
        """The base's moments at -1 and 1."""
        return self.entries.parts[0].moments(np.array([-1.0, 1.0]))

    def variance(self, frequency: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variance that one report contributes, averaged over users of whom this share holds the category."""
        share = np.clip(frequency, 0.0, 1.0)
        return ((1 - share) * self._ends.variance[0] + share * self._ends.variance[1]) / 4

    def covariance(self, shares: NDArray[np.float64], unasked: float = 0.0) -> Covariance:
        """Of one report: entries are randomized one by one; who was not asked is missing in one of them only."""
        return Covariance(self.variance(shares) + unasked * shares, shares[:, None], np.array([[-unasked]]))

    def worst_variance(self, share: float = 1.0) -> float:
        """The largest variance of one report, averaged over categories, where this share of the users is asked."""
        return float(self._ends.variance.max()) / 4 + (1 - share) * (1 - 1 / self.k) / self.k

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimate:
        """Frequencies of all categories with standard errors; of the `among` users who might have been asked."""
        mean = self.entries.parts[0].reading
        parts = (self.entries.marginal(tally, v) for v in range(self.k))
        value = np.array([(mean.estimate(part, guarantee, source).value + 1) / 2 for part in parts])
        note = "Every category is an entry of its own, randomized as a number; frequencies are means of entries."
        variance = self.variance(value) / tally.n
        return frequency_estimate(value, variance, tally.n, guarantee, source, among, note, self.covariance)

    def moments(self, x: Any) -> Moments:
        """For each input (rows) the moments of its calibrated report about each category (columns)."""
        own = (self.domain.check(x)[:, None] == np.arange(self.k)).astype(int)
        ends = self._ends
        return Moments(ends.bias[own] / 2, ends.variance[own] / 4, ends.third[own] / 8)


class _OneHot(Mechanism[Estimate]):
    """What mechanisms on one-hot vectors share: everything but the noise of an entry."""

    k: int

    family = "categorical"

    @cached_property
    @abstractmethod
    def entry(self) -> Mechanism:
        """The mechanism of one entry."""

    @property
    def evaluations(self) -> int:
        """An entry for each category."""
        return self.k

    @property
    def components(self) -> tuple[Mechanism[Any], ...]:
        return (self.entry,)

    @cached_property
    def layout(self) -> MultiAttribute:
        """The k entries."""
        return MultiAttribute((self.entry,), np.zeros(self.k, dtype=np.intp), self.k)

    @cached_property
    def reading(self) -> EntryFrequencies:
        return EntryFrequencies(self.k, self.layout)

    def report_worth(self) -> Worths | None:
        """Of an entry moved from [-1, 1] to [0, 1]; all entries are reported, each on its own."""
        own, half = self.entry.report_worth(), Fraction(1, 2)
        if own is None:
            return None
        return tuple(
            worth.scaled(half, half)._replace(question="frequency", items=self.k, at_once=self.k) for worth in own
        )

    def honest_sums(self, tally: Tally) -> Sums:
        return self.layout.honest_sums(tally)

    def channel(self) -> Product:
        factor = self.entry.channel()
        last = factor.shape[0] - 1
        return Product(
            factor,
            coordinates=self.k,
            inputs=self.k,
            encode=lambda x: [last if v == x else 0 for v in range(self.k)],
            differing=(((last, 0), (0, last)),),
            one_hot=(last, 0),
        )

    @property
    def row_words(self) -> int:
        return self.k * self.entry.row_words

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        entries = np.full((len(values), self.k), -1.0)
        np.put_along_axis(entries, values[:, None].astype(np.intp), 1.0, axis=1)
        self.layout.fill(reports, entries, tape, rows)


@dataclass(frozen=True)
class Histogram(_OneHot):
    """A category, by k numbers through a numeric base.

    Each entry has half of epsilon; the form that the re-calibration of 000 works on.

    >>> Histogram("Piecewise", k=4, epsilon=2.0).entry
    Piecewise(epsilon=1.0)
    """

    base: Any
    k: int
    epsilon: float
    delta: float = 0.0
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    planned = False  # mechanisms for categories are better
    examples = (
        {"base": "Duchi", "k": 2, "epsilon": 1.0},
        {"base": "Duchi", "k": 3, "epsilon": 1.0, "delta": 1e-3},
        {"base": "Piecewise", "k": 3, "epsilon": 2.0},
    )

    def _validate(self) -> None:
        self._freeze(base=normal_spec(self.base), k=checked_count("k", self.k, 2, MOST_CATEGORIES))
        if self.delta and not takes_delta(self.base):
            raise ParameterError(f"{self.base} has no delta: leave delta out")

    def _fit(self) -> tuple[int, ...]:
        return self._made(None).weights or ()

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        return self._made(weights).weights or ()

    def _made(self, weights: Any) -> Mechanism:
        budget = share_below(self.epsilon, _CHANGED), share_below(self.delta, _CHANGED)
        entry = from_spec(self.base, *budget, weights)
        if entry.reading.domain.kind != NUMBERS or entry.layout is not None:
            raise ParameterError('an entry is a number: base="Piecewise" or another numeric mechanism')
        return entry

    @cached_property
    def entry(self) -> Mechanism:
        """The mechanism of one entry."""
        return self._made(self.weights)

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """With shortened entries."""
        entry = self.entry.shortened(limit)
        return replace(self, weights=entry.weights, delta=0.0) if entry else None


@dataclass(frozen=True)
class OneHotGaussian(_OneHot):
    """A category, by Gaussian noise on its one-hot vector, calibrated for all entries at once.

    >>> mechanism = OneHotGaussian(k=10, epsilon=1.0, delta=1e-6)
    >>> print(mechanism.guarantee)
    epsilon 1, delta 1e-6 (exact)
    >>> round(mechanism.reading.worst_variance(), 1)  # of a frequency, from one report
    35.7
    """

    k: int
    epsilon: float
    delta: float = 0.0
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)  # as those of Gaussian

    needs_delta = True
    composition = "delta"
    examples = (
        {"k": 2, "epsilon": 1.0, "delta": 1e-3},
        {"k": 3, "epsilon": 4.0, "delta": 1e-2},
        {"k": 3, "epsilon": 0.05, "delta": 1e-6},
    )

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """For categories, where there is a delta."""
        if workload.delta:
            yield from super().candidates(workload)

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 2, MOST_CATEGORIES))
        if self.delta < LEAST_DELTA:
            raise ParameterError(
                "Gaussian noise needs a delta that a table can resolve, above 2^-100, for example delta=1e-6; GRR, "
                "LocalHash and SubsetSelection need none"
            )

    def _fit(self) -> tuple[int, ...]:
        law = one_hot_law(self.epsilon, self.delta)
        return *law.weights, law.steps, law.reach, law.stretch

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        return Gaussian(self.epsilon, weights=weights, delta=self.delta).weights or ()

    @cached_property
    def entry(self) -> Gaussian:
        """The noise of one entry, which alone keeps the guarantee of the whole."""
        return Gaussian(self.epsilon, weights=self.weights, delta=self.delta)

    def shortened(self, limit: int, rejecting: bool = True) -> Self:
        """With a table of few noises, and the budget that two entries of it keep."""
        law = FEWEST_NOISES
        weights = (*law.weights, law.steps, law.reach, law.stretch)
        return replace(self, epsilon=log_above(law.ratio() ** _CHANGED), weights=weights)
