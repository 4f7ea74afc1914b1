"""Collision and CoCo: sparse vectors of signs by one hashed bucket (paper 003).

**Collision** (Definition 5). A user's s items, key and sign, are hashed into t buckets by a hash function of the
user's own. The buckets that they hit are favoured, with weight A each under the fixed total W = s A + (t - s) B
(`core.hashed_channel`); the report is the hash function and one bucket. An item that the user has is hit with
probability A/W, any other with 1/t.

**CoCo** (Algorithm 1 and 2). Buckets come in pairs z, z + t/2. The hash of a *key* names a pair and a side; the item
j+ stands for one bucket of the pair and j- for the other, so a user who has one of them speaks against the other one.
Where several keys of a user fall on one pair, a random one of them counts. With E = A/B and Omega = W/B, a key is
overwritten with probability P_ow = 1 - (t^s - (t-2)^s) / (2 s t^(s-1)), and

    P_t = P_ow (E+1) / (2 Omega) + (1 - P_ow) E / Omega,   P_o = P_ow (E+1) / (2 Omega) + (1 - P_ow) / Omega,

P_f = 1/t. (003 prints P_t + P_o once with a 2 too many.) The difference of the two is larger than Collision's, and the
mean better: by a sixth at epsilon .5, more below and less above.

**t.** The variance is a known function of t, and `t=None` takes its exact minimum (the closed forms of 003 Theorem 4
and 7 miss it by a few buckets). A hash function must behave like independent values of its s + 1 items, which
`kernels.hashing` does and pairwise independent families do not.

**Cohorts.** With a hash function of its own in every report the server evaluates 2 n d of them. `cohorts=C` shares C
functions, and the tally is a table of C by t (003 section 7.2); `mechanisms.keycohorts` reads it.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.composite_channels import PublicMixture
from dither.core.contributions import Bounded, SumBound
from dither.core.domains import SPARSE
from dither.core.draw import Rows, Tape, Words, below, count_of, positions
from dither.core.estimate import Estimates
from dither.core.hashed_channel import HashedChannel
from dither.core.honest_sums import Sums
from dither.core.mechanism import Mechanism
from dither.core.short_weights import short_two_level
from dither.core.sparse_domain import Sparse
from dither.core.structure import BUCKETS
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.kernels.hashing import buckets
from dither.mechanisms.hash_seeds import HashedReports, HashSeeds, enough_cohorts
from dither.mechanisms.key_sampling import chosen, entry_at, number_outside
from dither.mechanisms.keycohorts import LEAST_COHORTS, BucketPlaces, CohortKeyValues, displacement
from dither.mechanisms.keyvalue import STATISTICS, Hits, KeyValues, checked_goal

MOST_BUCKETS = 1 << 16
# From here on the best number of buckets does not change any more: it is the largest (or, where all items are held, the
# least), as that grows with e^(epsilon/2), and is above `MOST_BUCKETS` at epsilon 24 for any d and s. What users hold
# is then told to 1e-10, which floats still tell apart.
_LARGEST_EXPONENT = 24.0
ORDER = 4  # the lane of words that say whose turn it is in a pair


@dataclass(frozen=True)
class _Bucketed(Mechanism[Estimates]):
    """What Collision and CoCo share: a hash function and one of t buckets."""

    d: int
    s: int
    epsilon: float
    sample: bool = field(default=False, kw_only=True)
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)
    t: int | None = None
    cohorts: int | None = None

    family = "keyvalue"
    structure = BUCKETS
    takes = SPARSE
    statistics = STATISTICS
    paired = False

    @property
    def evaluations(self) -> int:
        """Two hashes for each key, where every report has a hash function of its own."""
        return 2 * self.d if self.cohorts is None else 0

    def affordable(self, variance: float, reports: float, most_evaluations: int) -> Self:
        """With hash functions that users share."""
        t = self.law.outputs
        shift = displacement(self.s, t, 1)
        shared = enough_cohorts(shift, t, 2 * self.d, variance, reports, most_evaluations)
        return replace(self, cohorts=shared, weights=None)

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """Of shared functions so many that some words are rejected, and a short one tells them apart."""
        cohorts = 11 if self.cohorts else None
        return short_two_level(replace(self, cohorts=cohorts), limit, rejecting)

    def displacement(self) -> float:
        """What keys that collide under a shared hash function do, all of them in the same way for all who share it."""
        return 0.0 if self.cohorts is None else displacement(self.s, self.law.outputs, self.cohorts)

    def _validate(self) -> None:
        self._freeze(d=self.domain.d, s=self.domain.s)
        self._freeze(cohorts=HashSeeds.checked(self.cohorts, LEAST_COHORTS).cohorts)
        least, step = (2 * self.s + 2, 2) if self.paired else (self.s + 1, 1)
        t = checked_count("t", self._best_buckets(least, step) if self.t is None else self.t, least, MOST_BUCKETS)
        self._freeze(t=t)
        if t % step:
            raise ParameterError("t must be even: buckets come in pairs")

    @cached_property
    def domain(self) -> Sparse:
        """What a vector may be."""
        return Sparse.checked(self.d, self.s, self.sample)

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        law = TwoLevel.fit(self.epsilon, favoured=self.s, outputs=self.t or 2, weights=self.weights)
        if law.total > 1 << 64:  # rows with their own number of favoured buckets are drawn from one word
            raise ParameterError("epsilon is too small for so many keys: its weights do not fit a 64-bit word")
        return law

    @cached_property
    def hits(self) -> Hits:
        """How likely items are hit."""
        return self._hits(Fraction(self.law.high), Fraction(self.law.low), self.law.outputs)

    @abstractmethod
    def _hits(self, high: Any, low: Any, t: Any) -> Hits:
        """How likely items are hit, for these weights and buckets; t may be an array."""

    @abstractmethod
    def _cost(self, hits: Hits) -> Any:
        """The variance that the number of buckets is to keep small."""

    def _best_buckets(self, least: int, step: int) -> int:
        """The number of buckets with the smallest variance, by trying them all."""
        ratio = float(np.exp(min(self.epsilon, _LARGEST_EXPONENT)))
        most = int(min(MOST_BUCKETS, 4 * self.s * (ratio + 3) + 16))
        t = np.arange(least, max(most, least + 8) + 1, step, dtype=np.float64)
        return int(t[np.argmin(self._cost(self._hits(ratio, 1.0, t)))])

    @cached_property
    def reading(self) -> KeyValues:
        if self.cohorts is None:
            return KeyValues(self.domain, self.hits.law())
        return CohortKeyValues(
            self.domain, self.hits.law(), table=BucketPlaces(self.layout.functions, self.law.outputs, self._places_of)
        )

    @abstractmethod
    def _places_of(self, seeds: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """For hash functions (rows) and keys (columns), the buckets that hit the items - and +."""

    def report_worth(self) -> Worths:
        return self.hits.worths(self.d, at_once=None, exact=self.cohorts is None)

    def honest_sums(self, tally: Tally) -> Sums:
        if self.cohorts is None:
            return self.hits.honest_sums(tally.counts, tally.n)
        low, high = (float(Fraction(weight, self.law.total)) for weight in (self.law.low, self.law.high))
        return self.layout.honest_sums(tally, low, high)  # of buckets that share what others left, it is between

    @cached_property
    def layout(self) -> HashedReports:
        # Of a pair of buckets a report hits one, which speaks for one item of a key; else it may be that of both.
        sums = (SumBound((-1,), 0, 1),) if self.paired else ()
        return HashedReports(HashSeeds(self.cohorts), self.law.outputs, self._support, Bounded((self.d, 2), sums=sums))

    def channel(self) -> PublicMixture:
        component = HashedChannel(self.law, self.paired)
        domain = self.domain

        def given(x: int, tag: int) -> list[Fraction]:
            return component.given(self._places(domain.vector(x), int(self.layout.functions.seed(tag)[0])))

        return PublicMixture(component, self.layout.functions.count, domain.size, given)

    @abstractmethod
    def _places(self, vector: dict[int, int], seed: int) -> dict[int, Fraction]:
        """The places that a vector hits under a hash function, as `HashedChannel.given` takes them."""

    @property
    def row_words(self) -> int:
        return 4 + 2 * self.s

    @abstractmethod
    def _support(self, seeds: Words, values: NDArray) -> NDArray[np.int64]:
        """For each key, how many reports hit its items - and +."""


@dataclass(frozen=True)
class Collision(_Bucketed):
    """s of d keys with signs, by one bucket that the user's items hit (003).

    `t=None` takes the best number of buckets, `cohorts=None` a hash function of its own for every report;
    `sample=True` lets users have more than s keys.

    >>> mechanism = Collision(d=128, s=8, epsilon=0.5)
    >>> mechanism.t, print(mechanism.guarantee)
    epsilon 0.5 (exact)
    (30, None)
    """

    examples = (
        {"d": 3, "s": 2, "epsilon": 1.0},
        {"d": 4, "s": 2, "epsilon": 0.5, "t": 5},
        {"d": 3, "s": 2, "epsilon": 1.0, "t": 6, "cohorts": 40},
    )

    def _hits(self, high: Any, low: Any, t: Any) -> Hits:
        true, false = high / (self.s * high + (t - self.s) * low), 1 / (t * (high / high))
        return Hits(true, false, true * false, false, false**2)

    def _cost(self, hits: Hits) -> Any:
        """The variance of all 2d frequencies together, which is that of the d means."""
        own, other = hits.true * (1 - hits.true), hits.false * (1 - hits.false)
        return (self.s * own + (2 * self.d - self.s) * other) / (hits.true - hits.false) ** 2

    def _places(self, vector: dict[int, int], seed: int) -> dict[int, Fraction]:
        items = np.array([2 * key + (sign > 0) for key, sign in self.domain.padded(vector)])
        hit = buckets(np.array([seed], dtype=np.uint64), items, self.law.outputs)
        return dict.fromkeys(sorted({int(bucket) for bucket in hit}), Fraction(1))

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        seeds = self.layout.functions.draw(reports, tape, rows)
        keys, signs = chosen(self.domain, values, tape, rows)
        hit = np.sort(buckets(seeds[:, None], 2 * keys + signs, self.law.outputs).astype(np.int64), axis=1)
        new = np.ones(hit.shape, dtype=bool)
        new[:, 1:] = hit[:, 1:] != hit[:, :-1]
        distinct = new.sum(axis=1)
        place = positions(self.law, tape, rows, favoured=distinct.astype(np.uint64)).astype(np.int64)
        outside = number_outside(hit, new, place - distinct)
        reports["value"] = np.where(place < distinct, entry_at(hit, new, place), outside)

    def _places_of(self, seeds: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        items = buckets(seeds[:, None], np.arange(2 * self.d), self.law.outputs).astype(np.intp)
        return items[:, ::2], items[:, 1::2]

    def _support(self, seeds: Words, values: NDArray) -> NDArray[np.int64]:
        return kernels.hash_support(seeds, values, 2 * self.d, self.law.outputs).reshape(-1, 2)


@dataclass(frozen=True)
class CoCo(_Bucketed):
    """s of d keys with signs, by one bucket of a pair that speaks for a key and against its opposite (003).

    `goal` says what the number of buckets is best for, the `"mean"` or the `"presence"` of keys.

    >>> CoCo(d=128, s=8, epsilon=0.5).t, CoCo(d=128, s=8, epsilon=0.5, goal="presence").t
    (22, 52)
    """

    goal: str = "mean"

    examples = (
        {"d": 3, "s": 1, "epsilon": 1.0},
        {"d": 3, "s": 2, "epsilon": 1.0},
        {"d": 3, "s": 2, "epsilon": 1.0, "cohorts": 40},
    )
    paired = True

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """With the best number of buckets for either statistic."""
        for parameters in super().candidates(workload):
            yield {**parameters, "goal": "mean"}
            yield {**parameters, "goal": "presence"}

    def _validate(self) -> None:
        checked_goal(self.goal)
        super()._validate()

    def _hits(self, high: Any, low: Any, t: Any) -> Hits:
        s, total = self.s, self.s * high + (t - self.s) * low
        alone = t * (1 - (1 - 2 / (t * (high / high))) ** s) / (2 * s)  # 1 - P_ow
        mixed = (1 - alone) * (high + low) / (2 * total)
        false = 1 / (t * (high / high))
        return Hits(mixed + alone * high / total, mixed + alone * low / total, 0 * false, false, 0 * false)

    def _cost(self, hits: Hits) -> Any:
        """003 Lemma 3, for users with s keys."""
        s, d, sum_, none = self.s, self.d, hits.true + hits.opposite, 2 * hits.false
        if self.goal == "mean":
            gap = hits.true - hits.opposite
            return (s * (sum_ - gap**2) + (d - s) * none) / gap**2
        gap: Any = sum_ - none
        return (s * sum_ * (1 - sum_) + (d - s) * none * (1 - none)) / gap**2

    def _places(self, vector: dict[int, int], seed: int) -> dict[int, Fraction]:
        """For each pair that is hit, the share of its keys that favour its first bucket: one of them counts."""
        t = self.law.outputs
        padded = self.domain.padded(vector)
        hashed = buckets(np.array([seed], dtype=np.uint64), np.array([key for key, _ in padded]), t)
        sides: dict[int, list[int]] = {}
        for bucket, (_, sign) in zip(hashed.tolist(), padded, strict=True):
            favoured = bucket if sign > 0 else (bucket + t // 2) % t
            sides.setdefault(favoured % (t // 2), []).append(int(favoured < t // 2))
        return {pair: Fraction(sum(first), len(first)) for pair, first in sorted(sides.items())}

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        seeds = self.layout.functions.draw(reports, tape, rows)
        keys, signs = chosen(self.domain, values, tape, rows)
        t, half = self.law.outputs, self.law.outputs // 2
        hashed = buckets(seeds[:, None], keys, t).astype(np.int64)
        favoured = np.where(signs, hashed, (hashed + half) % t)
        pair = favoured % half
        counts = self._counts(pair, tape, rows)
        number = counts.sum(axis=1)
        spoken = number.astype(np.uint64)
        place = positions(self.law, tape, rows, favoured=spoken, opposed=spoken).astype(np.int64)
        own = entry_at(favoured, counts, np.where(place < number, place, place - number))
        rest = place - 2 * number
        free = np.maximum(half - number, 1)
        others = np.sort(np.where(counts, pair, half), axis=1)  # those that do not count stand beyond all pairs
        apart = number_outside(others, others < half, rest % free) + half * (rest // free)
        reports["value"] = np.where(rest >= 0, apart, np.where(place < number, own, (own + half) % t))

    def _counts(self, pair: NDArray[np.int64], tape: Tape, rows: Rows) -> NDArray[np.bool_]:
        """Which keys count: of those on one pair the last, in a random order."""
        if self.s == 1:
            return np.ones(pair.shape, dtype=bool)
        bounds = np.arange(1, self.s + 1, dtype=np.uint64)[None]
        drawn = below(bounds, tape, rows, lane=ORDER, width=self.s).reshape(count_of(rows), self.s)
        # One key of all rows lies together in memory, in a small type: comparisons are the cost.
        place = np.ascontiguousarray(pair.T, dtype=np.uint16)
        behind = np.ascontiguousarray(drawn.T, dtype=np.int16)
        turn = np.empty_like(behind)
        for i in range(self.s):  # key i goes before `behind` of the keys before it
            np.subtract(np.int16(i), behind[i], out=turn[i])
            turn[:i] += turn[:i] >= turn[i]
        counts = np.ones(place.shape, dtype=bool)
        for i in range(1, self.s):
            same, later = place[:i] == place[i], turn[i] > turn[:i]
            counts[i] = ~(same & ~later).any(axis=0)
            counts[:i] &= ~(same & later)
        return np.ascontiguousarray(counts.T)

    def _places_of(self, seeds: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        t = self.law.outputs
        plus = buckets(seeds[:, None], np.arange(self.d), t).astype(np.intp)
        return (plus + t // 2) % t, plus

    def _support(self, seeds: Words, values: NDArray) -> NDArray[np.int64]:
        t = self.law.outputs
        opposite = ((values.astype(np.int64) + t // 2) % t).astype(values.dtype)
        hits = [kernels.hash_support(seeds, each, self.d, t) for each in (opposite, values)]
        return np.stack(hits, axis=1)
