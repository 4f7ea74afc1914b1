"""Sketches: the count-mean sketch and its Hadamard form, as Apple published them.

"Learning with privacy at scale", Apple's differential privacy team, 2017; algorithms CMS and HCMS.

C numbered hash functions send items to g buckets, and all users share them. A report names one of them, drawn
uniformly, and tells of the user's *bucket* under it by a frequency oracle for g categories:

- **Count-mean sketch** (CMS): the one-hot vector of g bits, each flipped with probability 1 / (1 + e^(epsilon / 2)).
  Two buckets differ in two bits, so all of the vector costs epsilon. That is `Unary(kind="symmetric")`, which draws the
  bits and certifies them. A report has g bits; the server counts the ones of every function and bucket.
- **Hadamard count-mean sketch** (HCMS): one entry of the Hadamard transform of that vector. The row l of the matrix is
  drawn uniformly and public, and its sign at the bucket, (-1)^popcount(l & bucket), is told truly with probability
  e^epsilon / (1 + e^epsilon). A report has one bit beside what is public. Of the 2 g codes 2 l + sign a bucket favours
  g, so that this is Hadamard response where bucket y owns row 2 y + 1: the same draw, and the same transform.

The tally is a table of C by g numbers, however many items there are, and answers for any of them: it is a sketch.
`mechanisms.cohorts` reads it: the published estimator is its plain reading, f = (C_v / n - q') / (p - q') with q' = q +
(p - q) / g, in which items that collide with a frequent one are too high by a part that no number of users repairs. Its
standard errors own up to that, and where it can it solves for the collisions.

**What for.** To compare with, and to read what was collected by such sketches. `LocalHash` with as many cohorts has the
same table and reports of a few bits. p and q of CMS are symmetric, and those of HCMS have q = 1/2, where q = 1 /
(e^epsilon + 1) is best: from epsilon 0.5 on local hashing has less variance than either, 6% less at 1 and less than
half at 4. Below, its whole number of buckets costs it 2% at the most. So the planner does not look at sketches.
"""

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Channel, TwoLevel
from dither.core.checks import checked_count
from dither.core.composite_channels import PublicMixture
from dither.core.contributions import Bounded, Grouped
from dither.core.draw import Rows, Tape, Words, positions
from dither.core.estimate import Estimate
from dither.core.honest_sums import HonestSums, Sums
from dither.core.mechanism import MOST_COUNTED, Mechanism
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.kernels.hashing import MOST_CATEGORIES, buckets
from dither.mechanisms.cohorts import CohortFrequencies, collision_variance
from dither.mechanisms.frequency import Frequencies, PairSupport, Supported
from dither.mechanisms.hadamard import code_at, walsh_hadamard
from dither.mechanisms.hash_seeds import MOST_COHORTS, HashedReports, HashSeeds
from dither.mechanisms.packing import counted_bits
from dither.mechanisms.unary import Unary

MOST_BUCKETS = 1 << 16
_COUNTED_AT_ONCE = 1 << 18  # reports that are put in the order of their cohorts


@dataclass(frozen=True)
class _Sketch(Mechanism[Estimate]):
    """A shared hash function, and what a frequency oracle tells of the bucket of the value under it."""

    k: int
    epsilon: float
    g: int = 1024
    cohorts: int = 1024
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "categorical"
    planned = False  # LocalHash with as many cohorts has less variance or 2% more, and smaller reports

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 2, MOST_CATEGORIES))
        self._freeze(g=checked_count("g", self.g, 2, MOST_BUCKETS))
        self._freeze(cohorts=checked_count("cohorts", self.cohorts, 1, MOST_COHORTS))

    @abstractmethod
    def component(self) -> Channel:
        """The channel of a bucket, under any hash function."""

    @cached_property
    @abstractmethod
    def oracle(self) -> Frequencies:
        """How the reports of one function tell of its buckets."""

    @abstractmethod
    def _fill_bucket(self, reports: NDArray, bucket: Words, tape: Tape, rows: Rows) -> None:
        """Write what is told of each bucket."""

    @cached_property
    def functions(self) -> HashSeeds:
        """The hash functions that users share."""
        return HashSeeds(self.cohorts)

    @cached_property
    def reading(self) -> CohortFrequencies:
        return CohortFrequencies(self.k, self.cohorts, self.oracle)

    @property
    def priced_reading(self) -> Frequencies:
        """As if hash functions were not shared."""
        return self.reading.plain

    def displacement(self) -> float:
        """What items that collide under a shared hash function do, in the same way for all who share it."""
        return collision_variance(self.g, self.cohorts)

    @property
    def sampler(self) -> Hashable:
        """A hashed value is drawn without knowing k."""
        return type(self).__name__, self.g, self.cohorts, self.weights

    def report_worth(self) -> Worths:
        return self.reading.worths()

    def check_size(self) -> None:
        """The tally fits, or the layout would have refused it; and some items can be read of any number."""

    def channel(self) -> PublicMixture:
        component = self.component()

        def given(x: int, tag: int) -> list[Fraction]:
            return component.row(int(buckets(self.functions.seed(tag), np.array([x]), self.g)[0]))

        return PublicMixture(component, self.cohorts, self.k, given)

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        seeds = self.functions.draw(reports, tape, rows)
        self._fill_bucket(reports, buckets(seeds, values, self.g), tape, rows)


@dataclass(frozen=True, eq=False)
class _HashedBits:
    """The layout of a report that is a shared hash function and the bits of an oracle for its buckets.

    Counted are, for each function, its reports, and those with each bit set.
    """

    functions: HashSeeds
    bits: Unary

    def __post_init__(self) -> None:
        counts = self.functions.count * (self.bits.k + 1)
        if counts > MOST_COUNTED:
            raise ParameterError(
                f"a tally of 2^{counts.bit_length() - 1} counts does not fit, one for each shared hash function and "
                "bucket; take fewer cohorts"
            )

    @property
    def dtype(self) -> np.dtype:
        """A function, and packed bits."""
        number = np.min_scalar_type(self.functions.count - 1)
        return np.dtype([(self.functions.name, number), ("bits", self.bits.dtype["bits"])])

    def outputs(self) -> NDArray:
        """Every possible report, function by function."""
        words = self.bits.outputs()
        reports = np.empty(self.functions.count * len(words), dtype=self.dtype)
        reports[self.functions.name] = np.repeat(np.arange(self.functions.count), len(words))
        reports["bits"] = np.tile(words["bits"], self.functions.count)
        return reports

    def words(self, reports: NDArray) -> NDArray:
        """Their bits, as reports of the oracle."""
        words = np.empty(len(reports), dtype=self.bits.dtype)
        words["bits"] = reports["bits"]
        return words

    def valid(self, reports: NDArray) -> NDArray[np.bool_]:
        """Which reports name a function that there is, and have a clear padding."""
        return (reports[self.functions.name] < self.functions.count) & self.bits.valid(self.words(reports))

    def count(self, reports: NDArray) -> NDArray[np.int64]:
        """For each function the number of its reports, and of those with each bit set."""
        cohorts = self.functions.count
        counts = np.zeros((cohorts, 1 + self.bits.k), dtype=np.int64)
        for start in range(0, len(reports), _COUNTED_AT_ONCE):
            some = reports[start : start + _COUNTED_AT_ONCE]
            number = np.bincount(some[self.functions.name], minlength=cohorts)
            ordered = self.words(some[np.argsort(some[self.functions.name], kind="stable")])
            counts[:, 0] += number
            ends = np.cumsum(number)
            for cohort in np.flatnonzero(number):
                own = slice(ends[cohort] - number[cohort], ends[cohort])
                counts[cohort, 1:] += counted_bits(ordered[own], self.bits.k)
        return counts

    @property
    def contributions(self) -> Grouped:
        """What one report adds to the counts."""
        cohorts, which = self.functions.count, np.zeros(self.functions.count, dtype=np.intp)
        return Grouped.of((Bounded((self.bits.k,)),), which, 1, (cohorts, 1 + self.bits.k))


@dataclass(frozen=True)
class CountMeanSketch(_Sketch):
    """A shared hash function and the flipped bits of the value's bucket (Apple's CMS).

    `cohorts` is the number of hash functions, and `g` that of the buckets of each. The tally answers for any item, also
    for some of billions: `estimate(tally, mechanism.reading.of_items([...]))`.

    >>> mechanism = CountMeanSketch(k=10**9, epsilon=4.0, g=256, cohorts=64)
    >>> tally = mechanism.tally(mechanism.randomize([123_456_789] * 700 + [42] * 300, seed=1))
    >>> mechanism.estimate(tally, mechanism.reading.of_items([123_456_789, 42])).value.round(1).tolist()
    [0.7, 0.3]
    """

    weight_count = 4
    examples = (
        {"k": 5, "epsilon": 1.0, "g": 3, "cohorts": 5},
        {"k": 7, "epsilon": 0.5, "g": 3, "cohorts": 4},
        {"k": 3, "epsilon": 2.0, "g": 2, "cohorts": 5},
    )

    @cached_property
    def bits(self) -> Unary:
        """The frequency oracle for buckets: a bit for each."""
        return Unary(self.g, self.epsilon, kind="symmetric", weights=self.weights)

    def _fit(self) -> tuple[int, ...]:
        return self.bits.weights or ()

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        return Unary(self.g, self.epsilon, kind="symmetric", weights=weights).weights or ()

    def shortened(self, limit: int, rejecting: bool = True) -> Self:
        """Coins in eighths, as those of the bits."""
        short = self.bits.shortened(limit, rejecting)
        return replace(self, epsilon=short.epsilon, weights=short.weights)

    def component(self) -> Channel:
        return self.bits.channel()

    @cached_property
    def oracle(self) -> Frequencies:
        return replace(self.bits.reading, supports=lambda counts: counts[:, 1:])

    @cached_property
    def layout(self) -> _HashedBits:
        return _HashedBits(self.functions, self.bits)

    @property
    def row_words(self) -> int:
        return 1 + self.bits.row_words

    def _fill_bucket(self, reports: NDArray, bucket: Words, tape: Tape, rows: Rows) -> None:
        words = np.empty(len(reports), dtype=self.bits.dtype)
        self.bits._fill(words, bucket.astype(np.int64), tape, rows)
        reports["bits"] = words["bits"]

    def honest_sums(self, tally: Tally) -> Sums:
        """How often each function is drawn, and with each bit set: with q to p of its reports."""
        drawn, p, q = tally.counts[:, :1], float(self.oracle.p), float(self.oracle.q)
        functions = HonestSums.of("reports with a hash function", drawn, tally.n, 1 / self.cohorts, 1 / self.cohorts)
        return functions, HonestSums.of("reports with a bit set", tally.counts[:, 1:], drawn, q, p)


@dataclass(frozen=True)
class HadamardSketch(_Sketch):
    """A shared hash function, a Hadamard row, and its randomized sign at the value's bucket (Apple's HCMS).

    One bit beside what is public. `g` must be a power of two; for the rest, see `CountMeanSketch`.

    >>> HadamardSketch(k=10**9, epsilon=4.0).dtype.itemsize   # a function of 1,024, and a row of 1,024 with a sign
    4
    """

    examples = (
        {"k": 5, "epsilon": 1.0, "g": 4, "cohorts": 3},
        {"k": 4, "epsilon": 0.5, "g": 2, "cohorts": 7},
        {"k": 9, "epsilon": 3.0, "g": 8, "cohorts": 5},
    )

    def _validate(self) -> None:
        super()._validate()
        if self.g & (self.g - 1):
            raise ParameterError("g must be a power of two: there are Hadamard matrices of these sizes")

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(
            self.epsilon,
            favoured=self.g,
            outputs=2 * self.g,
            apart=self.g // 2,
            inputs=self.g,
            members=lambda y: [code for code in range(2 * self.g) if ((2 * y + 1) & code).bit_count() % 2 == 0],
            weights=self.weights,
        )

    def component(self) -> TwoLevel:
        return self.law

    @cached_property
    def oracle(self) -> Frequencies:
        p, half = self.law.inside, Fraction(1, 2)
        # Of two rows 2 y + 1 and a third one no two give the third: signs are independent, for any two buckets.
        pairs, supported = PairSupport.independent(p, half), Supported(0, self.g, free=False)
        return Frequencies(self.g, p, half, supports=self._bucket_supports, pairs=pairs, supported=supported)

    def _bucket_supports(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return (counts.sum(axis=1, keepdims=True) + walsh_hadamard(counts)[:, 1::2]) // 2

    @cached_property
    def layout(self) -> HashedReports:
        return HashedReports(self.functions, 2 * self.g)

    @property
    def row_words(self) -> int:
        return 2

    def _fill_bucket(self, reports: NDArray, bucket: Words, tape: Tape, rows: Rows) -> None:
        position, g = positions(self.law, tape, rows), np.uint64(self.g)
        odd = position >= g
        reports["value"] = code_at(2 * bucket + np.uint64(1), np.where(odd, position - g, position), odd)

    def honest_sums(self, tally: Tally) -> Sums:
        low, high = (Fraction(weight, self.law.total) for weight in (self.law.low, self.law.high))
        return self.layout.honest_sums(tally, float(low), float(high))
