"""From reports to key-value statistics: the reading that the mechanisms for sparse vectors share.

For one key a user is of one of three kinds (absent, -, +), and a report about it has one of a few outcomes. A `Law`
says how likely each outcome is for each kind, what it adds to the key's counts, and how statistics are read off these:

    mean       over all users, where an absent key counts 0,
    presence   the share of users who have the key,
    frequency  of the two items j-, j+: (presence -+ mean) / 2.

They are linear in the counts and unbiased, and their variances follow from the law, exactly and for every population.
The conditional mean, of those who have the key, is mean / presence, with the error of the ratio by the delta method.

**Hits.** Most mechanisms let a report *hit* some of the 2d items (`Hits`). With P_t, P_o and P_f the probabilities that
an item is hit if the user has it, has its opposite, or has neither (003 Algorithm 2, and Lemma 3 made exact),

    mean = (I[j+] - I[j-]) / (P_t - P_o),    presence = (I[j+] + I[j-] - 2 P_f) / (P_t + P_o - 2 P_f).

**What signs hide.** A value x between -1 and 1 is rounded to a sign, which adds 1 - x^2 to the variance of a report
about a key that the user has. Reports do not tell x^2; the square of the mean of those who have the key stands in,
which can only make the error bar too wide (as in `mechanisms.mean`). With sampling down, they do not tell either who
has more than s keys, and the whole variance between users stands in.

**Padding and sampling.** A user with fewer than s keys fills up with dummy keys that nobody asks about: nothing is
biased by it. A user with L > s keys reports on s of them, drawn at random. Each key then counts s/L, so presence and
mean of a key are too small by the average, over all users, of 1 - s/L where the user has the key. The conditional
mean is biased only as far as users with many keys hold other values than those with few.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.confidence import STANDS_OUT, RatioIntervals
from dither.core.estimate import MEAN, Bounds, Estimate, Estimates
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import HonestSums, Sums
from dither.core.mechanism import Moments
from dither.core.sparse_columns import EMPTY
from dither.core.sparse_domain import Sparse
from dither.core.tally import Tally
from dither.core.worth import ONE, Worth, Worths
from dither.errors import ParameterError
from dither.estimation.simplex import onto_simplex

STATISTICS = ("presence", "mean", "conditional_mean", "frequency")  # of each key

Numbers = NDArray[np.float64]
_TRUTH = {  # of a user who lacks the key, has it with -, has it with +
    "mean": np.array([0.0, -1.0, 1.0]),
    "presence": np.array([0.0, 1.0, 1.0]),
    "minus": np.array([0.0, 1.0, 0.0]),
    "plus": np.array([0.0, 0.0, 1.0]),
}
ONE_KEY, EACH_KEY = "one key", "each key"
_BLOCK = 1 << 18
_NINE_OF_TEN = 1.28  # standard errors that nine of ten collections are not below


class Linear(NamedTuple):
    """A statistic as a linear function of what was counted."""

    base: float
    weights: Numbers

    def of(self, seen: Numbers) -> Numbers:
        """Its value for rows of (average) counts."""
        return self.base + seen @ self.weights


@dataclass(frozen=True, eq=False)
class Law:
    """What reports say about one key.

    `reads` has "mean" and "presence", or the one of them that reports tell. Only a share `asked` of the reports may be
    about a key, drawn without looking; then a key has one more count before the others, the number of these.
    `others` says what a report about one key has to do with another, if the user is known: it hits at most one of all
    keys (`ONE_KEY`), or each for itself (`EACH_KEY`); None if neither.
    """

    chance: Numbers  # of each outcome (columns), for each kind of user: absent, -, +
    seen: Numbers  # for each outcome, what it adds to the key's counts
    reads: Mapping[str, Linear]
    asked: float = 1.0
    others: str | None = None

    @cached_property
    def scores(self) -> dict[str, Numbers]:
        """For each statistic what each outcome counts."""
        return self.all_of({name: each.of(self.seen) for name, each in self.reads.items()})

    @staticmethod
    def all_of(found: dict[str, Numbers]) -> dict[str, Numbers]:
        """With the frequencies of the two signs, where presence and mean are known."""
        if len(found) < 2:
            return found
        presence, mean = found["presence"], found["mean"]
        return {**found, "minus": (presence - mean) / 2, "plus": (presence + mean) / 2}


class Hits(NamedTuple):
    """Of the two items of a key, how likely a report hits them."""

    true: Fraction  # the item that the user has
    opposite: Fraction  # the one with the other sign
    both: Fraction  # these two at once
    false: Fraction  # an item of a key that the user does not have
    both_false: Fraction  # both items of such a key

    @classmethod
    def one(cls, true: Fraction, false: Fraction) -> "Hits":
        """Of reports that hit at most one item, and one that the user has not as likely as any other."""
        return cls(true, false, Fraction(0), false, Fraction(0))

    def outcomes(self) -> Numbers:
        """For each kind (absent, -, +) the probabilities of: none, only -, only +, both."""
        absent = (1 - 2 * self.false + self.both_false, self.false - self.both_false, self.false - self.both_false)
        none = 1 - self.true - self.opposite + self.both
        own, other = self.true - self.both, self.opposite - self.both
        rows = [(*absent, self.both_false), (none, own, other, self.both), (none, other, own, self.both)]
        return np.array([[float(each) for each in row] for row in rows])

    def worths(self, d: int, at_once: int | None, asked: Fraction = ONE, *, exact: bool = True) -> Worths:
        """What a report is worth to presence, mean and the items of a key, over what it can hit: nothing, one, both."""
        gap, apart = self.true + self.opposite - 2 * self.false, self.true - self.opposite
        hits = [(0, 0), (1, 0), (0, 1)] + [(1, 1)] * (self.both + self.both_false > 0)
        mean = [(plus - minus) / apart for minus, plus in hits]
        presence = [(minus + plus - 2 * self.false) / gap for minus, plus in hits]
        item = [(some + sign) / 2 for some, sign in zip(presence, mean, strict=True)]
        scores = list(zip(mean, presence, strict=True))
        away = max(abs(m1 - m2) + abs(p1 - p2) for m1, p1 in scores for m2, p2 in scores)
        note = (
            "A conditional mean is a ratio: where a share h of the users holds a key, replacing one of n reports moves "
            f"it by about {float(away / asked):.4g} / (h n) at most."
        )
        more: dict[str, Any] = {"at_once": at_once, "asked": asked, "exact": exact}
        return (
            Worth("presence", min(presence), max(presence), items=d, **more),
            Worth.of_mean(max(mean), items=d, note=note, **more),
            Worth("frequency", min(item), max(item), items=2 * d, **more),
        )

    def honest_sums(self, hits: NDArray[np.int64], n: Any) -> Sums:
        """How many of n reports hit each item: with the least to the largest of these chances, whatever users hold."""
        ends = [float(each) for each in (self.true, self.opposite, self.false)]
        return (HonestSums.of("reports that hit an item", hits, n, min(ends), max(ends)),)

    def law(self, asked: float = 1.0, others: str | None = EACH_KEY) -> Law:
        """What a report of these hits says about a key: the counts are the hits of - and +."""
        mean = float(1 / (self.true - self.opposite))
        gap = self.true + self.opposite - 2 * self.false
        some, none = float(1 / gap), float(-2 * self.false / gap)
        reads = {
            "mean": Linear(0.0, mean * np.array([-1.0, 1.0])),
            "presence": Linear(none, some * np.array([1.0, 1.0])),
        }
        return Law(self.outcomes(), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), reads, asked, others)


@dataclass(frozen=True, eq=False)
class KeyStatistics:
    """What was read off a tally: the statistics of every key, their covariances, and what these would be if the users
    had been drawn from a larger crowd."""

    value: dict[str, Numbers]
    covariance: dict[tuple[str, str], Numbers]
    drawn: dict[tuple[str, str], Numbers]

    def of(self, name: str) -> Numbers:
        """The values of one statistic."""
        return self.value[name]

    def error(self, name: str) -> Numbers:
        """Its standard errors."""
        return np.sqrt(_known(self.covariance[name, name]))

    def ratio_intervals(self) -> RatioIntervals:
        """Those of mean / presence, which hold however few hold a key."""
        known = self.covariance
        return RatioIntervals(
            top=self.value["mean"],
            bottom=self.value["presence"],
            top_variance=known["mean", "mean"],
            bottom_variance=known["presence", "presence"],
            covariance=known["mean", "presence"],
        )


@dataclass(frozen=True, eq=False)
class KeyValues:
    """The reading of d keys from counts for each; `about` is the statistic that moments are of."""

    domain: Sparse
    law: Law
    about: str = "mean"

    @property
    def d(self) -> int:
        """How many keys there are."""
        return self.domain.d

    @property
    def statistics(self) -> tuple[str, ...]:
        """What reports tell: `presence` and `mean`, or one of them."""
        return tuple(self.law.reads)

    # On the server -----------------------------------------------------------------------------------------------

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimates:
        """`presence`, `mean`, `conditional_mean` and `frequency` (d rows: signs -1 and +1), or what reports tell."""
        found = self._found(tally, among or tally.n)
        about: dict[str, Any] = {"source": source, "notes": self._notes(tally)}
        share = Bounds(0.0, 1.0, most=float(self.domain.s))

        def part(name: str, value: Numbers, stderr: Numbers, bounds: Bounds) -> Estimate:
            return Estimate(value, stderr, tally.n, guarantee, name, bounds=bounds, **about)

        parts = {
            name: part(name, found.of(name), found.error(name), bounds)
            for name, bounds in (("presence", share), ("mean", MEAN))
            if name in found.value
        }
        if len(parts) == 2:
            value, stderr = (np.stack([each("minus"), each("plus")], axis=1) for each in (found.of, found.error))
            ratios = found.ratio_intervals()
            parts["conditional_mean"] = replace(part("conditional mean", *ratios.point(), MEAN), rule=ratios)
            parts["frequency"] = part("frequency", value, stderr, share)
        return Estimates(parts)

    def _found(self, tally: Tally, users: int) -> "KeyStatistics":
        """Values and covariances of every key."""
        return self._read(*self._rates(tally), users)

    def _read(self, rates: Numbers, n: Numbers, users: int) -> "KeyStatistics":
        """The same, from the average counts of each key and the number of reports about it."""
        value = self.law.all_of({name: each.of(rates) for name, each in self.law.reads.items()})
        kinds = self._kinds(value)
        pairs = [(name, name) for name in value] + [("mean", "presence")] * (len(value) > 1)
        unasked = np.clip(1 - n / users, 0.0, 1.0)
        covariance = {pair: self._covariance(*pair, kinds, unasked) / n for pair in pairs}
        return KeyStatistics(value, covariance, {pair: self._covariance(*pair, kinds, 1.0) / n for pair in pairs})

    def _rates(self, tally: Tally) -> tuple[Numbers, Numbers]:
        """For each key (rows) the average counts of the reports about it, and how many these are."""
        counts = tally.counts.reshape(self.d, -1)
        if counts.shape[1] == self.law.seen.shape[1]:
            return counts / tally.n, np.full(self.d, float(tally.n))
        asked = np.where(counts[:, 0] > 0, counts[:, 0], np.nan)  # unknown where nobody was asked
        return counts[:, 1:] / asked[:, None], asked

    def _notes(self, tally: Tally) -> tuple[str, ...]:
        if self.law.asked == 1:
            return ()
        return (
            f"Each of them was asked about one key, drawn at random: about {tally.n // self.d:,} reports for each.",
        )

    def _kinds(self, value: dict[str, Numbers]) -> Numbers:
        """For each key the shares of users who lack it, have it with -, have it with +: what is put into variances.

        Where presence is unknown, everybody is taken to have the key: what signs hide is largest then.
        """
        if len(value) == 1:
            presence = value.get("presence", np.ones(self.d))
            mean = np.clip(value.get("mean", np.zeros(self.d)), -1.0, 1.0)
            value = {"minus": (presence - mean) / 2, "plus": (presence + mean) / 2}
        minus, plus = (np.clip(value[name], 0.0, 1.0) for name in ("minus", "plus"))
        some = np.maximum(minus + plus, 1.0)
        minus, plus = minus / some, plus / some
        return np.stack([1 - minus - plus, minus, plus], axis=1)

    def _covariances(self, one: str, other: str) -> Numbers:
        """For each kind of user the covariance of two statistics of one report."""
        chance, a, b = self.law.chance, self.law.scores[one], self.law.scores[other]
        return chance @ (a * b) - (chance @ a) * (chance @ b)

    def _covariance(self, one: str, other: str, kinds: Numbers, unasked: Numbers | float) -> Numbers:
        """Of one report, averaged over users: its noise, what signs hide, and how those asked differ from all."""
        a, b = _TRUTH[one], _TRUTH[other]
        product, means = kinds @ (a * b), (kinds @ a) * (kinds @ b)
        held = np.maximum(kinds[:, 1] + kinds[:, 2], np.finfo(np.float64).tiny)
        hidden, apart = product - means / held, means / held - means  # among those who have the key; them and the rest
        share = 1.0 if self.domain.sample else unasked
        return kinds @ self._covariances(one, other) + hidden + share * apart

    def covariance_of_keys(self, name: str, own: Estimate, among: int) -> Numbers | None:
        """That of "presence" or "mean" of all keys, if each of so many users has one key; None if it is not known.

        Of two keys a user has one at most, so what they add up to is - f_i f_j for whom one asks. And if a report hits
        at most one of the keys, of which i has the chance b + f_i, up to the scale of presence, two cannot be hit
        together: - (b + f_i) (b + f_j) in all. Where each report is about one key, keys have users of their own.
        """
        if self.law.others is None or self.domain.s > 1:
            return None
        held = onto_simplex(own.value) if name == "presence" else np.clip(own.value, -1.0, 1.0)
        hit = held - self.law.reads[name].base if self.law.others == ONE_KEY else held
        apart = -np.outer(hit, hit) / own.n if self.law.asked == 1 else np.zeros((self.d, self.d))
        found = apart + np.outer(held, held) / among
        np.fill_diagonal(found, own.stderr**2)
        return found

    # Before collecting -------------------------------------------------------------------------------------------

    def conditional_error(self, presence: Numbers, among: Numbers, reports: float, users: float) -> Numbers:
        """The standard error of each key's mean among those who have it, if these shares have it with these means.

        Infinite where a key would be unknown in more than one of ten collections.
        """
        kinds = np.stack([1 - presence, presence * (1 - among) / 2, presence * (1 + among) / 2], axis=1)
        n = reports * self.law.asked
        unasked = max(0.0, 1 - n / users)
        both, mean, held = (
            self._covariance(*pair, kinds, unasked) / n
            for pair in (("mean", "presence"), ("mean", "mean"), ("presence", "presence"))
        )
        spread = np.maximum(mean + among**2 * held - 2 * among * both, 0.0)
        seen = presence > (STANDS_OUT + _NINE_OF_TEN) * np.sqrt(held)
        return np.where(seen, np.sqrt(spread) / np.where(seen, presence, 1.0), np.inf)

    def worst_variance(self, share: float = 1.0) -> float:
        """The largest variance of one report, averaged over keys, where this share of the users is asked.

        Users have at most s keys. Of means, the hardest value is 0: rounded to a sign it varies as much as signs do
        between users. Of presence, a share h of users who have a key adds h (1 - h) for those who were not asked.
        """
        most = self.domain.s / self.d
        absent, more, unasked = self.worst_parts(share)
        held = most * (more > 0) if unasked == 0 else min(max((more + unasked) / (2 * unasked), 0.0), most)
        return float(absent + held * more + unasked * held * (1 - held)) / self.law.asked

    def worst_parts(self, share: float) -> tuple[float, float, float]:
        """Of the variance of a report about a key: of one who lacks it, what a holder adds, and the part of h (1 - h).

        The latter is that of who was asked, where a share h holds the key; of means it is 0, as their hardest value is.
        """
        own = self._covariances(self.about, self.about)
        more = float(own[1:].max() - own[0])
        if self.about == "mean":
            return float(own[0]), more + 1.0, 0.0
        return float(own[0]), more, 1 - share * self.law.asked

    def moments(self, x: Any) -> Moments:
        """For each vector (rows) the moments of a report about each key (columns), of the statistic it is about.

        A report about another key counts 0, and one about this key so much more: that is no better than what
        `estimate` does, which divides by the number of those who were asked.
        """
        rows = self.domain.check(x)
        at, slot = np.nonzero(rows["key"] != EMPTY)
        counts = np.bincount(at, minlength=len(rows))
        kept, value = np.minimum(1.0, self.domain.s / counts[at]), rows["value"][at, slot]
        entries = np.stack([1 - kept, kept * (1 - value) / 2, kept * (1 + value) / 2], axis=1)
        (absent,) = self._mixed(np.array([[1.0, 0.0, 0.0]]))
        found = np.tile(absent, (len(rows), self.d, 1))
        found[at, rows["key"][at, slot]] = self._mixed(entries)
        mean, variance, third = np.moveaxis(found, -1, 0)
        return Moments(mean - self.truth(rows), variance, third)

    def _mixed(self, kinds: Numbers) -> Numbers:
        """For users who are of each kind with some probability (rows): mean, variance, third moment of a report."""
        asked, chance = self.law.asked, self.law.chance
        chance = np.hstack([np.full((len(chance), 1), 1 - asked), asked * chance])
        score = np.concatenate([[0.0], self.law.scores[self.about] / asked])
        found = np.empty((len(kinds), 3))
        height = max(1, _BLOCK // score.size)
        for start in range(0, len(kinds), height):
            own = kinds[start : start + height] @ chance
            mean = own @ score
            away = np.abs(score - mean[:, None])
            found[start : start + height] = np.stack([mean, (own * away**2).sum(1), (own * away**3).sum(1)], axis=1)
        return found

    def truth(self, x: Any) -> Numbers:
        """For each vector (rows) the statistic that moments are of, of each key (columns)."""
        rows = self.domain.check(x)
        found = np.zeros((len(rows), self.d))
        at, slot = np.nonzero(rows["key"] != EMPTY)
        found[at, rows["key"][at, slot]] = rows["value"][at, slot] if self.about == "mean" else 1.0
        return found


def _known(variance: Numbers) -> Numbers:
    """Infinite where there was no report."""
    return np.where(np.isnan(variance), np.inf, variance)


def checked_goal(goal: str) -> str:
    """What a mechanism is to be best for."""
    if goal not in ("mean", "presence"):
        raise ParameterError('goal must be "mean" or "presence"')
    return goal
