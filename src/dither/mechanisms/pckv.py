"""PrivKV and PCKV: key-value data by one key of the vector, through a mechanism for categories.

They came before Collision and are what it is compared with (003 section 3); each is best somewhere.

- **PrivKV** (Ye et al. 2019) asks every user about one of the d keys, drawn without looking at the vector, by
  randomized response over three answers: absent, minus, plus. (In the original the two halves of the answer share the
  budget; one response over the three, as 003 has it, is better.) Only a d-th of the users speak about a key.
- **PCKV** (Gu et al. 2020) lets the user draw one of the own s keys, dummies included, and report its item.
  `PCKV_GRR` is randomized response over the 2d items and a dummy, `PCKV_UE` unary encoding with one coordinate a key,
  which is none, minus or plus. An item counts s times, so its variance grows with s^2.
- **PCKV_AGRR** uses that nobody knows which of the s items was drawn: what is reported is one of 2d items and s
  dummies, of which s are favoured. This is a two-level law as it stands, and drawn in one go: likelihood ratio
  e^epsilon, which for the item that was drawn means the budget log(s (e^epsilon - 1) + 1) of the papers. The dummies
  must be distinct: with a single one, users without keys would all but name it.

**PCKV_UE.** A coordinate that is not the user's is none with probability 1 - b, and minus or plus with b/2 each. At the
user's own coordinate the weight of the own item is e^epsilon times as much, and all else as it was. Two items then
differ by a ratio e^epsilon where one hits and the other does not, whatever b is; b = 2/(e^epsilon + 3) is the published
optimum, where the own coordinate shows in half of the reports. b is rounded to a few binary digits, as in `Unary`.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.core.blanket_law import Contrast
from dither.core.channel import Channel, Table, TwoLevel
from dither.core.composite_channels import Product, PublicMixture
from dither.core.contributions import Bounded, Grouped, SumBound, at_most_one
from dither.core.domains import SPARSE
from dither.core.draw import COINS, TAG, Rows, Tape, below, entries, positions
from dither.core.estimate import Estimates
from dither.core.exact import exp_below, log_above
from dither.core.honest_sums import HonestSums, Sums
from dither.core.lattice import rounded_signs
from dither.core.mechanism import Mechanism
from dither.core.sparse_columns import EMPTY
from dither.core.sparse_domain import Sparse
from dither.core.structure import ONE_ITEM, UNARY_ITEM
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.mechanisms.key_sampling import CHOICE, chosen, entry_at, number_outside, picked
from dither.mechanisms.keyvalue import EACH_KEY, ONE_KEY, STATISTICS, Hits, KeyValues
from dither.mechanisms.packing import coins

MOST_COORDINATES = 1 << 20
_DIGITS = 10  # of b, beyond its size
_MOST_DIGITS = 128
_SIDE = COINS + _MOST_DIGITS  # the lane of words that give coordinates a sign


@dataclass(frozen=True)
class _Itemized(Mechanism[Estimates]):
    """What these mechanisms share: their parameters, and that how likely items are hit is all there is to read."""

    d: int
    s: int
    epsilon: float
    sample: bool = field(default=False, kw_only=True)
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "keyvalue"
    takes = SPARSE
    statistics = STATISTICS
    examples = ({"d": 2, "s": 1, "epsilon": 1.0}, {"d": 3, "s": 2, "epsilon": 0.5})
    others: ClassVar[str] = ONE_KEY

    def _validate(self) -> None:
        self._freeze(d=self.domain.d, s=self.domain.s)

    @cached_property
    def domain(self) -> Sparse:
        """What a vector may be."""
        return Sparse.checked(self.d, self.s, self.sample)

    @property
    @abstractmethod
    def hits(self) -> Hits:
        """How likely items are hit."""

    @cached_property
    def reading(self) -> KeyValues:
        return KeyValues(self.domain, self.hits.law(others=self.others))

    def report_worth(self) -> Worths:
        return self.hits.worths(self.d, at_once=1)  # a report names one item

    def honest_sums(self, tally: Tally) -> Sums:
        return self.hits.honest_sums(tally.counts, tally.n)

    @property
    def row_words(self) -> int:
        return 4 + 2 * self.s


@dataclass(frozen=True)
class PrivKV(_Itemized):
    """s of d keys with signs, by what one random key is: absent, minus or plus.

    >>> print(PrivKV(d=128, s=8, epsilon=0.5).guarantee)
    epsilon 0.5 (exact)
    """

    structure = ONE_ITEM

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(self.epsilon, favoured=1, outputs=3, weights=self.weights)

    @property
    def hits(self) -> Hits:
        """How likely items are hit by a report about their key."""
        return Hits.one(*self.law.probabilities)

    @cached_property
    def reading(self) -> KeyValues:
        return KeyValues(self.domain, self.hits.law(asked=1 / self.d))

    def report_worth(self) -> Worths:
        return self.hits.worths(self.d, at_once=1, asked=Fraction(1, self.d))

    def honest_sums(self, tally: Tally) -> Sums:
        """How often each key is asked about, which no value moves, and the answers about it."""
        asked = tally.counts[:, :1]
        drawn = HonestSums.of("reports about a key", asked, tally.n, 1 / self.d, 1 / self.d)
        return drawn, *self.hits.honest_sums(tally.counts[:, 1:], asked)

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype([("key", np.min_scalar_type(self.d - 1)), ("value", np.uint8)])

    def channel(self) -> PublicMixture:
        def given(x: int, tag: int) -> list[Fraction]:
            return self.law.row({0: 0, -1: 1, 1: 2}[self.domain.vector(x).get(tag, 0)])

        return PublicMixture(self.law, self.d, self.domain.size, given)

    def outputs(self) -> NDArray:
        reports = np.empty(3 * self.d, dtype=self.dtype)
        reports["key"], reports["value"] = np.divmod(np.arange(3 * self.d), 3)
        return reports

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        key = below(self.d, tape, rows, lane=TAG).astype(np.int64)
        here = values["key"] == key[:, None]
        # One of L > s keys is among the s that are drawn with probability s/L, as for everybody else.
        held = np.maximum((values["key"] != EMPTY).sum(axis=1), self.s).astype(np.uint64)
        here &= (below(held, tape, rows, lane=CHOICE) < self.s)[:, None]
        value = np.where(here, values["value"], 0.0).sum(axis=1)
        plus = rounded_signs(value[:, None], tape, rows)[:, 0]
        answer = np.where(here.any(axis=1), 1 + plus, 0)
        reports["key"] = key
        reports["value"] = (answer + positions(self.law, tape, rows).astype(np.int64)) % 3

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        return (reports["key"] < self.d) & (reports["value"] < 3)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        """For each key: reports about it, and those that say minus and plus."""
        cells = reports["key"].astype(np.intp) * 3 + reports["value"]
        counts = np.bincount(cells, minlength=3 * self.d).reshape(self.d, 3)
        counts[:, 0] = counts.sum(axis=1)
        return counts

    @cached_property
    def contributions(self) -> Grouped:
        keys = np.broadcast_to(np.intp(0), self.d)  # all of one kind, in no memory
        return Grouped.of((at_most_one(2),), keys, 1, (self.d, 3))


@dataclass(frozen=True)
class PCKV_GRR(_Itemized):  # noqa: N801 - the name in the literature
    """s of d keys with signs, by randomized response over the item of one of them.

    >>> PCKV_GRR(d=128, s=8, epsilon=0.5).dtype.itemsize   # bytes a report
    2
    """

    structure = ONE_ITEM

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(self.epsilon, favoured=1, outputs=2 * self.d + 1, weights=self.weights)

    @property
    def hits(self) -> Hits:
        high, low = self.law.probabilities
        return Hits.one((high + (self.s - 1) * low) / self.s, low)

    def channel(self) -> PublicMixture:
        # Users with s keys against users without: the dummy has the ratio of the law.
        return one_item_of_s(self.law, self.domain)

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        key, plus = picked(self.domain, values, tape, rows)
        item = np.where(key == self.d, 2 * self.d, 2 * key + plus)
        reports["value"] = (item + positions(self.law, tape, rows).astype(np.int64)) % self.law.outputs

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return super()._count(reports)[: 2 * self.d].reshape(self.d, 2)  # dummies are no key's

    @cached_property
    def contributions(self) -> Bounded:
        return at_most_one(self.d, 2)


@dataclass(frozen=True)
class PCKV_AGRR(_Itemized):  # noqa: N801 - the name in the literature
    """s of d keys with signs, by one item of which the own s are favoured: amplified by drawing one of s.

    Better than `PCKV_GRR` throughout, and than `Collision` where s is large against d and epsilon is large.

    >>> mechanism = PCKV_AGRR(d=128, s=8, epsilon=0.5)
    >>> print(mechanism.guarantee)
    epsilon 0.5 (exact)
    """

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(
            self.epsilon,
            favoured=self.s,
            outputs=2 * self.d + self.s,
            apart=self.s,  # the same keys with other signs
            inputs=self.domain.size,
            members=lambda x: [self._item(*each) for each in self.domain.padded(self.domain.vector(x))],
            weights=self.weights,
        )

    @property
    def hits(self) -> Hits:
        return Hits.one(*self.law.probabilities)

    def channel(self) -> TwoLevel:
        return self.law

    def _item(self, key: int, sign: int) -> int:
        return 2 * key + (sign > 0) if key < self.d else self.d + key

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        keys, plus = chosen(self.domain, values, tape, rows)
        items = np.sort(np.where(keys < self.d, 2 * keys + plus, self.d + keys), axis=1)
        all_ = np.ones(items.shape, dtype=bool)
        place = positions(self.law, tape, rows).astype(np.int64)
        outside = number_outside(items, all_, place - self.s)
        reports["value"] = np.where(place < self.s, entry_at(items, all_, np.minimum(place, self.s - 1)), outside)

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return super()._count(reports)[: 2 * self.d].reshape(self.d, 2)  # dummies are no key's

    @cached_property
    def contributions(self) -> Bounded:
        return at_most_one(self.d, 2)


@dataclass(frozen=True)
class PCKV_UE(_Itemized):  # noqa: N801 - the name in the literature
    """s of d keys with signs, by unary encoding of one of them: each key is none, minus or plus.

    >>> PCKV_UE(d=128, s=8, epsilon=0.5).dtype.itemsize   # bytes a report
    32
    """

    structure = UNARY_ITEM
    weight_count = 4
    others = EACH_KEY

    @property
    def evaluations(self) -> int:
        """Two bits for each key."""
        return 2 * self.d

    def _validate(self) -> None:
        super()._validate()
        if self.d > MOST_COORDINATES:
            raise ParameterError(f"a report has two bits for each key, and at most {MOST_COORDINATES:,} of them")

    def _fit(self) -> tuple[int, ...]:
        """(A, F, Q, 2^c): b = Q / 2^c; at the own coordinate the weights A, Q F and 2 (2^c - Q) F."""
        ratio = exp_below(self.epsilon)
        wanted = 2 / (float(min(ratio, 1 << 60)) + 3)
        bits = math.ceil(-math.log2(wanted)) + _DIGITS
        b = Fraction(min(max(1, round(wanted * (1 << bits))), (1 << bits) - 1), 1 << bits)
        for words in range(1, 8):
            unit = max(1, int((1 << 64 * words) / (b.numerator * ratio + 2 * b.denominator)))
            high = int(ratio * b.numerator * unit)
            fine = 1 - Fraction(high) / (ratio * b.numerator * unit) <= Fraction(1, 10**9) * min(1, 1 - 1 / ratio)
            if fine and high > b.numerator * unit:
                return high, unit, b.numerator, b.denominator
        raise ParameterError("epsilon is too small for these parameters: no report would carry information")

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        high, unit, short, whole = super()._checked_weights(weights)
        if whole & (whole - 1) or not short < whole:  # the coins read b digit by digit
            raise ParameterError("the fourth weight must be a power of two above the third: they are b's binary digits")
        if whole > 1 << _MOST_DIGITS:  # the words beyond say which sign is shown
            raise ParameterError(f"the fourth weight must be at most 2^{_MOST_DIGITS}: b has so many binary digits")
        if high < short * unit:
            raise ParameterError(
                "these weights do not favour the own item: the first must be above the second and third"
            )
        return high, unit, short, whole

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """One digit of b and a table with ties; where a user draws nothing, two digits and a table without."""
        finer = self.s == 1 and not self.sample
        large = replace(self, epsilon=16.0, weights=(9, 1, 1, 4) if finer else (2, 1, 1, 2))
        fits = limit >= 1 << self.d and rejecting != finer and (rejecting or limit == 1 << 4)
        return replace(large, epsilon=log_above(Fraction(large.channel().ratio()))) if fits else None

    @property
    def shown(self) -> Fraction:
        """b: the probability that a coordinate that is not the user's shows a sign."""
        assert self.weights is not None
        return Fraction(self.weights[2], self.weights[3])

    @cached_property
    def own(self) -> tuple[int, int, int]:
        """At the user's coordinate the weights of the own sign, the other one, and none."""
        assert self.weights is not None
        high, unit, short, whole = self.weights
        return high, short * unit, 2 * (whole - short) * unit

    @property
    def hits(self) -> Hits:
        total, none, s = sum(self.own), Fraction(0), self.s
        false = self.shown / 2
        true, opposite = ((Fraction(weight, total) + (s - 1) * false) / s for weight in self.own[:2])
        return Hits(true, opposite, none, false, none)

    def report_worth(self) -> Worths:
        return self.hits.worths(self.d, at_once=self.d)

    def honest_sums(self, tally: Tally) -> Sums:
        """Hits, and the coordinates that show a sign in all reports, of which at most one is the user's own."""
        shown, own = float(self.shown), 1 - self.own[2] / sum(self.own)
        ends = sorted((shown, (own + (self.d - 1) * shown) / self.d))
        total = HonestSums.of("coordinates with a sign", tally.counts.sum(), tally.n * self.d, *ends)
        return *super().honest_sums(tally), total

    @cached_property
    def dtype(self) -> np.dtype:
        size = -(-self.d // 8)
        return np.dtype([("minus", f"V{size}"), ("plus", f"V{size}")])

    def channel(self) -> PublicMixture:
        # The ratio is attained by the report that shows just the user's own items, for users with the opposite ones.
        return one_item_of_s(self._items, self.domain, attained=self.s == 1)

    @cached_property
    def _items(self) -> Product:
        """The channel of an item, or of the dummy, which is no coordinate's."""
        own, other, none = (Fraction(weight, sum(self.own)) for weight in self.own)
        letter = Table.of(
            [(1 - self.shown, self.shown / 2, self.shown / 2), (none, own, other), (none, other, own)],
        )
        return Product(
            letter,
            coordinates=self.d,
            inputs=2 * self.d + 1,
            encode=lambda x: [1 + x % 2 if x // 2 == key else 0 for key in range(self.d)],
            differing=(((2, 0), (0, 2)), ((2,), (1,)), ((2,), (0,))) if self.d > 1 else (((2,), (1,)), ((2,), (0,))),
            common=lambda: self._under,
            hidden=self._hidden(),
        )

    @property
    def _under(self) -> Fraction:
        """So much of the law of the dummy lies under the law of every item."""
        return Fraction(self.own[2], sum(self.own)) / (1 - self.shown)

    def _hidden(self) -> Contrast:
        # Under the law of the dummy, scaled, a report is E times as likely for an item that it shows. The two items of
        # one key are never shown together: these are the furthest apart.
        each, under = self.shown / 2, self._under
        return Contrast(Fraction(self.own[0], self.own[1]), each * under, Fraction(0), (1 - 2 * each) * under)

    def outputs(self) -> NDArray:
        if self.d > 8:
            raise ParameterError("there are too many reports to list")
        letters = np.arange(3**self.d)[:, None] // 3 ** np.arange(self.d)[::-1] % 3
        reports = np.empty(len(letters), dtype=self.dtype)
        for place, name in enumerate(("minus", "plus"), start=1):
            reports[name] = np.packbits(letters == place, axis=1, bitorder="little").view(self.dtype[name])[:, 0]
        return reports

    @property
    def row_words(self) -> int:
        return 8 * -(-self.d // 64)

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        key, plus = picked(self.domain, values, tape, rows)
        letter = entries(tuple(accumulate(self.own)), tape, rows)  # the own sign, the other, none
        some = coins(self.shown, self.d, tape, rows)
        side = coins(Fraction(1, 2), self.d, tape, rows, first=_SIDE)
        planes = {"minus": some & ~side, "plus": some & side}
        row = np.flatnonzero(key < self.d)
        at, bit = key[row] // 8, np.uint8(1) << (key[row] % 8).astype(np.uint8)
        for name, sign in (("minus", False), ("plus", True)):
            plane = planes[name]
            here = letter[row] == np.where(plus[row] == sign, 0, 1)
            plane[row, at] = np.where(here, plane[row, at] | bit, plane[row, at] & ~bit)
            reports[name] = np.ascontiguousarray(plane).view(self.dtype[name])[:, 0]

    def _planes(self, reports: NDArray) -> list[NDArray[np.uint8]]:
        planes = (np.ascontiguousarray(reports[name]) for name in ("minus", "plus"))
        return [plane.view(np.uint8).reshape(len(reports), plane.dtype.itemsize) for plane in planes]

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        minus, plus = self._planes(reports)
        beyond = np.packbits(np.arange(8 * minus.shape[1]) >= self.d, bitorder="little")
        wrong = (minus & plus) | ((minus | plus) & beyond)
        return np.asarray(~wrong.any(axis=1))

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        return np.stack([kernels.bit_counts(plane, self.d) for plane in self._planes(reports)], axis=1)

    @cached_property
    def contributions(self) -> Bounded:
        return Bounded((self.d, 2), sums=(SumBound((-1,), 0, 1),))  # no key is both minus and plus


def one_item_of_s(law: Channel, domain: Sparse, *, attained: bool = True) -> PublicMixture:
    """The channel of reports on one of a user's s items, given that of an item; item 2d stands for any dummy."""

    def given(x: int, _: int) -> list[Fraction]:
        padded = domain.padded(domain.vector(x))
        rows = [law.row(2 * key + (sign > 0) if key < domain.d else 2 * domain.d) for key, sign in padded]
        return [sum(column, Fraction(0)) / len(rows) for column in zip(*rows, strict=True)]

    return PublicMixture(law, 1, domain.size, given, attained=attained)
