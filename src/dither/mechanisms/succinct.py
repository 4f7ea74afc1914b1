"""Succinct and SignSum: sparse vectors by one noisy sum of random signs.

A hash function of the user's own gives every item a random sign h. The user adds up the signs of the own s items, clips
the sum to [-eta, eta], and reports it with noise. The report times h(item) has mean zero for an item that the user does
not have, and kappa for one that the user has; the average over reports, divided by kappa, estimates its frequency.

- **Succinct** (Zhou et al. 2022; 003 section 3) adds Laplace noise. It clips at about sqrt(s log n), so wide that
  clipping rarely matters, because what is clipped biases. Here nothing has to be biased: every user has exactly s
  items, dummies included, so the sum of h and s - 1 other random signs has a known law, and kappa is worked out exactly
  for *any* eta. `eta=None` takes the one with the smallest variance: 1 or little more for a small epsilon.
- **SignSum** goes the whole way: only the sign of the sum is reported, by randomized response. Its variance, about
  pi s / 2 ((e^epsilon + 1) / (e^epsilon - 1))^2, is the smallest of all for means or presences up to an epsilon of
  about 1: a third below `CoCo` at epsilon .1 for means, and half of `Collision` for presences. Above, one bit is too
  little, and the others win (docs/decisions/0013).

**Goal.** Hashing keys and adding sign times h answers for the *mean* alone; adding h of the keys, for the *presence*
alone; hashing items answers for both and for *frequency*, at twice the variance for each.

**Odd.** A dummy more makes an even s odd, so that no sum is zero: the tie is broken by the public hash, and no coin is
needed. eta is odd as well. The Laplace noise is that of `mechanisms.additive`: a table of integers.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.core.additive_channel import AdditiveChannel
from dither.core.channel import Channel, TwoLevel
from dither.core.checks import checked_count
from dither.core.composite_channels import PublicMixture
from dither.core.contributions import Bounded
from dither.core.domains import SPARSE
from dither.core.draw import Rows, Tape, Words, positions
from dither.core.estimate import Estimates
from dither.core.honest_sums import HonestSums, Sums
from dither.core.lattice import SECOND_ROUNDING
from dither.core.mechanism import Mechanism
from dither.core.short_weights import EVEN_NOISES, FEW_NOISES, short_noise
from dither.core.sparse_domain import Sparse
from dither.core.structure import NOISY_SUM, SUM_SIGN
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.kernels.hashing import buckets
from dither.mechanisms.additive import Additive, Laplace
from dither.mechanisms.hash_seeds import HashedReports, HashSeeds
from dither.mechanisms.key_sampling import chosen
from dither.mechanisms.keyvalue import STATISTICS, KeyValues, Law, Linear, Numbers

GOALS = ("frequency", "mean", "presence")


@dataclass(frozen=True)
class _Summed(Mechanism[Estimates]):
    """A hash function, and what became of the sum of the signs that it gives to the user's items."""

    d: int
    s: int
    epsilon: float
    sample: bool = field(default=False, kw_only=True)
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)
    goal: str = "frequency"

    family = "keyvalue"
    takes = SPARSE
    statistics = STATISTICS

    @property
    def evaluations(self) -> int:
        """A sign for each key or, where presence and mean are asked for, for each item."""
        return 2 * self.d if self.goal == "frequency" else self.d

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """One for what is asked: signs of items tell both presence and mean, those of keys one of them, and better."""
        asked = workload.statistics
        for parameters in super().candidates(workload):
            yield {**parameters, "goal": asked[0] if len(asked) == 1 else "frequency"}

    def _validate(self) -> None:
        self._freeze(d=self.domain.d, s=self.domain.s)
        if self.goal not in GOALS:
            raise ParameterError(f"goal must be one of {', '.join(GOALS)}")

    @cached_property
    def domain(self) -> Sparse:
        """What a vector may be."""
        return Sparse.checked(self.d, self.s, self.sample)

    @property
    def terms(self) -> int:
        """How many signs are added up: s, or one more to make it odd."""
        return self.s | 1

    @abstractmethod
    def component(self) -> Channel:
        """The channel under any hash function."""

    @abstractmethod
    def _law(self, total: int) -> list[Any]:
        """The probabilities of the reported values if the signs add up to this."""

    @abstractmethod
    def _within(self, total: int) -> int:
        """A sum that is reported in the same way, nearer to zero."""

    @abstractmethod
    def _noisy(self, total: NDArray[np.int64], tape: Tape, rows: Rows) -> NDArray:
        """The reported values."""

    @cached_property
    def layout(self) -> HashedReports:
        most = self.component().shape[1] - 1  # values are counted from the middle, in steps of two
        added = Bounded((self.d, 2 if self.goal == "frequency" else 1), -most, most, step=2)
        return HashedReports(HashSeeds(), most + 1, self._support, added)

    # On the device -----------------------------------------------------------------------------------------------

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        seeds = self.layout.functions.draw(reports, tape, rows)
        keys, plus = chosen(self.domain, values, tape, rows)
        if self.s % 2 == 0:
            keys = np.pad(keys, [(0, 0), (0, 1)], constant_values=self.d + self.s)
            plus = np.pad(plus, [(0, 0), (0, 1)], constant_values=True)
        reports["value"] = self._noisy(self._total(seeds[:, None], keys, plus), tape, rows)

    def _total(self, seeds: NDArray[np.uint64], keys: NDArray[np.int64], plus: NDArray[np.bool_]) -> NDArray[np.int64]:
        up = buckets(seeds, 2 * keys + plus if self.goal == "frequency" else keys, 2).astype(bool)
        if self.goal == "mean":
            up ^= ~plus
        return 2 * up.sum(axis=1, dtype=np.int64) - keys.shape[1]

    def channel(self) -> PublicMixture:
        def given(x: int, tag: int) -> list[Fraction]:
            keys, signs = np.array(Sparse(self.d, self.terms).padded(self.domain.vector(x))).T
            total = self._total(np.array([[tag]], dtype=np.uint64), keys[None], signs[None] > 0)
            return self._law(int(total[0]))

        return PublicMixture(self.component(), self.layout.functions.count, self.domain.size, given)

    @property
    def row_words(self) -> int:
        return 4 + 2 * self.s

    # On the server -----------------------------------------------------------------------------------------------

    def _support(self, seeds: Words, values: NDArray) -> NDArray[np.int64]:
        """For each key or item, the sum of its sign times the reported value, which is counted from the middle."""
        centred = 2 * values.astype(np.int64) - (self.component().shape[1] - 1)
        items = 2 * self.d if self.goal == "frequency" else self.d
        return kernels.hash_sums(seeds, centred, items).reshape(self.d, -1)

    @cached_property
    def reading(self) -> KeyValues:
        own, values = self._own, np.arange(1 - len(self._own), len(self._own), 2, dtype=np.float64)
        other, any_ = own[::-1], (own + own[::-1]) / 2  # given that the sign is -1; and not knowing it
        read = Linear(0.0, np.array([1 / (own @ values)]))
        if self.goal == "mean":
            return KeyValues(self.domain, Law(np.stack([any_, other, own]), values[:, None], {"mean": read}), "mean")
        if self.goal == "presence":
            law = Law(np.stack([any_, own, own]), values[:, None], {"presence": read})
            return KeyValues(self.domain, law, "presence")
        # The signs of the items - and +, both ways each, and for each pair of them all values.
        minus = np.concatenate([any_, any_, any_, any_, other, other, own, own, other, own, other, own])
        chance = minus.reshape(3, -1) / 4
        signs = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
        seen = (signs[:, None, :] * values[None, :, None]).reshape(-1, 2)
        gain = float(read.weights[0])
        reads = {
            "mean": Linear(0.0, gain * np.array([-1.0, 1.0])),
            "presence": Linear(0.0, gain * np.array([1.0, 1.0])),
        }
        return KeyValues(self.domain, Law(chance, seen, reads))

    def report_worth(self) -> Worths:
        """The largest value, with the signs that a hash function of the liar's choice gives to all keys."""
        others, top = self.terms - 1, self.component().shape[1] - 1
        means: dict[int, Fraction] = {}  # of the reported value, for each sum
        mean = Fraction(0)  # the same, given that one item of the user's has the sign +1
        for up in range(others + 1):
            total = self._within(1 + 2 * up - others)
            if total not in means:
                law = enumerate(self._law(total))
                means[total] = sum(((2 * value - top) * Fraction(chance) for value, chance in law), Fraction(0))
            mean += Fraction(comb(others, up), 2**others) * means[total]
        most = top / mean
        parts = {
            "presence": Worth("presence", -most, most, items=self.d, at_once=None),
            "mean": Worth.of_mean(most, items=self.d, at_once=None),
            "frequency": Worth("frequency", -most, most, items=2 * self.d, at_once=None),
        }
        if self.goal != "frequency":
            return (parts[self.goal],)
        twice = (parts[name]._replace(least=-2 * most, most=2 * most) for name in ("presence", "mean"))
        return *twice, parts["frequency"]  # a key has two items, and their values add up

    def honest_sums(self, tally: Tally) -> Sums:
        """The sum of each key's signs times the reported values, in units of twice the largest, from the least."""
        top = float(self.component().shape[1] - 1)
        own = float(self._own @ np.arange(-top, top + 1, 2)) / (2 * top)
        seen = tally.counts / (2 * top) + tally.n / 2
        return (HonestSums.of("the sum of a key", seen, tally.n, 0.5 - own, 0.5 + own),)

    @cached_property
    def _own(self) -> Numbers:
        """The probabilities of the reported values, given that one item of the user's has the sign +1."""
        others = self.terms - 1
        chance: dict[int, float] = {}  # of sums, those that are clipped together
        for up in range(others + 1):
            total = self._within(1 + 2 * up - others)
            chance[total] = chance.get(total, 0.0) + comb(others, up) / 2**others
        laws = np.array([self._law(total) for total in chance], dtype=np.float64)
        return np.array(list(chance.values())) @ laws


@dataclass(frozen=True)
class SignSum(_Summed):
    """s of d keys with signs, by one bit: the randomized sign of a sum of random signs.

    `goal` says what is asked for: `"mean"` or `"presence"`, or all with `"frequency"`, at twice the variance.

    >>> SignSum(d=128, s=8, epsilon=0.5, goal="mean").dtype.itemsize   # bytes a report, eight of them a hash function
    9
    """

    structure = SUM_SIGN
    examples = (
        {"d": 3, "s": 2, "epsilon": 1.0},
        {"d": 3, "s": 1, "epsilon": 0.5, "goal": "mean"},
        {"d": 4, "s": 3, "epsilon": 1.0, "goal": "presence"},
    )

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(self.epsilon, favoured=1, outputs=2, weights=self.weights)

    def component(self) -> TwoLevel:
        return self.law

    def _law(self, total: int) -> list[Fraction]:
        return self.law.row(int(total > 0))

    def _within(self, total: int) -> int:
        return 1 if total > 0 else -1

    def _noisy(self, total: NDArray[np.int64], tape: Tape, rows: Rows) -> NDArray:
        return (total > 0) ^ positions(self.law, tape, rows).astype(bool)


@dataclass(frozen=True)
class Succinct(_Summed):
    """s of d keys with signs, by a sum of random signs, clipped at `eta`, with Laplace noise.

    `eta=None` takes the odd number with the smallest variance. For `goal`, see `SignSum`.

    >>> Succinct(d=128, s=8, epsilon=0.5).eta, Succinct(d=128, s=64, epsilon=4.0).eta
    (1, 5)
    """

    eta: int | None = None

    structure = NOISY_SUM
    planned = False  # the best of the others has half its variance, or little more
    examples = (
        {"d": 3, "s": 2, "epsilon": 1.0},
        {"d": 4, "s": 3, "epsilon": 2.0, "eta": 3, "goal": "mean"},
        {"d": 3, "s": 2, "epsilon": 0.05, "goal": "presence"},
    )

    def _validate(self) -> None:
        super()._validate()
        eta = checked_count("eta", self._best_eta() if self.eta is None else self.eta, 1, self._most_eta)
        self._freeze(eta=eta)
        if eta % 2 == 0:
            raise ParameterError("eta must be odd: the sum of an odd number of signs is")

    def shortened(self, limit: int, rejecting: bool = True) -> Self:
        """With a table of few noises."""
        law = FEW_NOISES if rejecting else EVEN_NOISES
        if self.noise.law.stretch > 1:
            law = replace(EVEN_NOISES, stretch=2)
        return short_noise(self, law)

    @property
    def _most_eta(self) -> int:
        """The dummy that makes an even s odd has the same sign for all: it is not within anybody's reach."""
        return (self.s - 1) | 1

    def _fit(self) -> tuple[int, ...]:
        return Laplace(self.epsilon).weights or ()

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        return Laplace(self.epsilon, weights=weights).weights or ()

    @cached_property
    def noise(self) -> Additive:
        """The lattice and the table of the noise."""
        return Laplace(self.epsilon, weights=self.weights).noise

    def component(self) -> AdditiveChannel:
        return self.noise.law

    def _clipped(self, total: Any) -> Any:
        return np.clip(total / self.eta, -1.0, 1.0)

    def _within(self, total: int) -> int:
        most = self.eta or 1
        return max(-most, min(most, total))

    def _law(self, total: int) -> list[Fraction]:
        law, x = self.noise.law, Fraction(float(self._clipped(total)))
        place = (x / law.stretch + 1) / 2 * law.steps
        lower = min(int(place), law.steps - 1)
        share = place - lower
        below, above = self._points[lower], self._points[lower + 1]
        return [(1 - share) * one + share * other for one, other in zip(below, above, strict=True)]

    @cached_property
    def _points(self) -> list[list[Fraction]]:
        """The law of every lattice point, stretched or not."""
        law = self.noise.law
        return [[Fraction(weight, law.total) for weight in law.shifted(i)] for i in range(law.steps + 1)]

    def _noisy(self, total: NDArray[np.int64], tape: Tape, rows: Rows) -> NDArray:
        found = np.empty(len(total), dtype=[("value", np.int64)])
        self.noise.fill(found, self._clipped(total), tape, rows, SECOND_ROUNDING)
        return found["value"]

    def _best_eta(self) -> int:
        """The number with the smallest variance of a report, by trying them."""
        noise, others = Laplace(self.epsilon).noise, self.terms - 1
        ups = np.arange(others + 1)
        chance = np.array([comb(others, int(up)) / 2**others for up in ups])
        total = 1 + 2 * ups - others
        best, least = 1, float("inf")
        for eta in range(1, self._most_eta + 1, 2):
            x = np.clip(total / eta, -1.0, 1.0)
            at = noise.moments(x)
            mean = x + at.bias
            cost = float(chance @ (at.variance + mean**2) / (chance @ mean) ** 2)
            if cost < least:
                best, least = eta, cost
            elif cost > 2 * least:
                break
        return best
