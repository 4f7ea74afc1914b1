"""From hits to key-value statistics: the reading that the mechanisms for sparse vectors share.

A report *hits* some of the 2d items j+ and j- (key j with sign +1 or -1). For one key a user is of one of three kinds
(absent, +, -), and a report has one of four outcomes (neither item is hit, one of them, both). The probabilities
of the outcomes, given the kind, are all that a mechanism has to say (`Hits`); the sign - mirrors the sign +. With
P_t, P_o and P_f the probabilities that an item is hit if the user has it, has its opposite, or has neither,

    mean       of key j:  (I[j+] - I[j-]) / (P_t - P_o)
    presence   of key j:  (I[j+] + I[j-] - 2 P_f) / (P_t + P_o - 2 P_f)
    frequency  of j+, j-: (presence +- mean) / 2

are unbiased (003 Algorithm 2), averaged over reports, and their variances follow from the outcomes: 003 Lemma 3 made
exact, for every population. The conditional mean, of those who have the key, is mean / presence, with the error of
the ratio by the delta method.

**What signs hide.** A value x between -1 and 1 is rounded to a sign, which adds 1 - x^2 to the variance of a report
about a key that the user has. Reports do not tell x^2; the square of the mean of those who have the key stands in,
which can only make the error bar too wide (as in `mechanisms.mean`). With sampling down, they do not tell either who
has more than s keys, and the whole variance between users stands in.

**Padding and sampling.** A user with fewer than s keys fills up with dummy keys that nobody asks about: nothing is
biased by it. A user with L > s keys reports on s of them, drawn at random. Each key then counts s/L, so presence and
mean of a key are too small by the average, over all users, of 1 - s/L where the user has the key. The conditional
mean is biased only as far as users with many keys hold other values than those with few.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.errors import ParameterError
from dither.core.estimate import Bounds, Estimate, Estimates
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Moments
from dither.core.sparse import EMPTY, Sparse
from dither.core.tally import Tally

STATISTICS = ("presence", "mean", "conditional_mean", "frequency")
Numbers = NDArray[np.float64]
KINDS = 3  # absent, -, +


class Hits(NamedTuple):
    """Of the two items of a key, how likely a report hits them."""

    true: Fraction  # the item that the user has
    opposite: Fraction  # the one with the other sign
    both: Fraction  # these two at once
    false: Fraction  # an item of a key that the user does not have
    both_false: Fraction  # both items of such a key

    def outcomes(self) -> Numbers:
        """For each kind (absent, -, +) the probabilities of: none, only -, only +, both."""
        absent = (1 - 2 * self.false + self.both_false, self.false - self.both_false, self.false - self.both_false)
        none = 1 - self.true - self.opposite + self.both
        own, other = self.true - self.both, self.opposite - self.both
        rows = [(*absent, self.both_false), (none, own, other, self.both), (none, other, own, self.both)]
        return np.array([[float(each) for each in row] for row in rows])


@dataclass(frozen=True)
class KeyValues:
    """The reading of d keys from the hits of their 2d items; `about` is the statistic that moments are of."""

    domain: Sparse
    hits: Hits
    about: str = "mean"

    @property
    def d(self) -> int:
        """How many keys there are."""
        return self.domain.d

    @cached_property
    def scores(self) -> dict[str, Numbers]:
        """For each statistic what a report counts by its outcome: none, only -, only +, both."""
        hits = self.hits
        plus = float(1 / (hits.true - hits.opposite))
        sum_ = hits.true + hits.opposite - 2 * hits.false
        some, none = float(1 / sum_), float(-2 * hits.false / sum_)
        mean = plus * np.array([0.0, -1.0, 1.0, 0.0])
        presence = none + some * np.array([0.0, 1.0, 1.0, 2.0])
        return {"mean": mean, "presence": presence, "minus": (presence - mean) / 2, "plus": (presence + mean) / 2}

    def _covariances(self, one: str, other: str) -> Numbers:
        """For each kind of user the covariance of two statistics of one report."""
        chance, a, b = self.hits.outcomes(), self.scores[one], self.scores[other]
        return chance @ (a * b) - (chance @ a) * (chance @ b)

    # On the server -----------------------------------------------------------------------------------------------

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimates:
        """`presence`, `mean`, `conditional_mean` and `frequency` (d rows: signs -1 and +1)."""
        value, n = self._values(tally), tally.n
        kinds = self._kinds(value)
        unasked = 0.0 if among is None else 1 - n / among
        error = {name: np.sqrt(self._variance(name, kinds, unasked) / n) for name in value}
        note = f"A user reports on {self.domain.s} keys, padded with dummies or drawn at random."
        about: dict[str, Any] = {"source": source, "notes": (note,)}
        share, mean = Bounds(0.0, 1.0), Bounds(-1.0, 1.0)
        return Estimates(
            {
                "presence": Estimate(
                    value["presence"], error["presence"], n, guarantee, "presence", bounds=share, **about
                ),
                "mean": Estimate(value["mean"], error["mean"], n, guarantee, "mean", bounds=mean, **about),
                "conditional_mean": Estimate(
                    *self._ratio(value, kinds, n, unasked), n, guarantee, "conditional mean", bounds=mean, **about
                ),
                "frequency": Estimate(
                    np.stack([value["minus"], value["plus"]], axis=1),
                    np.stack([error["minus"], error["plus"]], axis=1),
                    n,
                    guarantee,
                    "frequency",
                    bounds=share,
                    **about,
                ),
            }
        )

    def _values(self, tally: Tally) -> dict[str, Numbers]:
        """Unbiased statistics of every key. Counts have a row for each key: hits of the items - and +."""
        rates = tally.counts.reshape(self.d, 2) / tally.n
        mean = (rates[:, 1] - rates[:, 0]) * self.scores["mean"][2]
        none, one = self.scores["presence"][0], self.scores["presence"][1]
        presence = none + (rates[:, 0] + rates[:, 1]) * (one - none)
        return {"presence": presence, "mean": mean, "minus": (presence - mean) / 2, "plus": (presence + mean) / 2}

    def _kinds(self, value: dict[str, Numbers]) -> Numbers:
        """For each key the shares of users who lack it, have it with -, have it with +: what is put into variances."""
        minus, plus = (np.clip(value[name], 0.0, 1.0) for name in ("minus", "plus"))
        some = np.maximum(minus + plus, 1.0)
        minus, plus = minus / some, plus / some
        return np.stack([1 - minus - plus, minus, plus], axis=1)

    def _variance(self, name: str, kinds: Numbers, unasked: float) -> Numbers:
        return self._covariance(name, name, kinds, unasked)

    def _covariance(self, one: str, other: str, kinds: Numbers, unasked: float) -> Numbers:
        """Of one report, averaged over users: its noise, what signs hide, and how those asked differ from all."""
        a, b = _TRUTH[one], _TRUTH[other]
        product, means = kinds @ (a * b), (kinds @ a) * (kinds @ b)
        held = np.maximum(kinds[:, 1] + kinds[:, 2], np.finfo(np.float64).tiny)
        hidden, apart = product - means / held, means / held - means  # among those who have the key; them and the rest
        share = 1.0 if self.domain.sample else unasked
        return kinds @ self._covariances(one, other) + hidden + share * apart

    def _ratio(self, value: dict[str, Numbers], kinds: Numbers, n: int, unasked: float) -> tuple[Numbers, Numbers]:
        """mean / presence with the error of a ratio; unknown where presence does not stand out of its noise."""
        variance = {
            pair: self._covariance(*pair, kinds, unasked) / n
            for pair in (("mean", "mean"), ("presence", "presence"), ("mean", "presence"))
        }
        presence = value["presence"]
        seen = presence > np.sqrt(variance["presence", "presence"])
        base = np.where(seen, presence, 1.0)
        ratio = np.clip(value["mean"] / base, -1.0, 1.0)
        spread = variance["mean", "mean"] + ratio**2 * variance["presence", "presence"]
        spread = spread - 2 * ratio * variance["mean", "presence"]
        return np.where(seen, ratio, np.nan), np.where(seen, np.sqrt(np.maximum(spread, 0.0)) / base, np.inf)

    # Before collecting -------------------------------------------------------------------------------------------

    def worst_variance(self, share: float = 1.0) -> float:
        """The largest variance of one report, averaged over keys, where this share of the users is asked.

        Users have at most s keys. Where having one costs more than lacking it, the worst have s. Of means, the
        hardest value is 0: rounded to a sign it varies as much as signs do between users.
        """
        own = self._covariances(self.about, self.about)
        held = self.domain.s / self.d
        beside = 1.0 if self.about == "mean" else (1 - share) * (1 - held)
        return float(own[0] + held * max(0.0, own[1:].max() - own[0] + beside))

    def moments(self, x: Any) -> Moments:
        """For each vector (rows) the moments of a report about each key (columns), of the statistic it is about."""
        rows = self.domain.check(x)
        share = np.zeros((len(rows), self.d, KINDS))
        share[:, :, 0] = 1.0
        counts = (rows["key"] != EMPTY).sum(axis=1)
        kept = np.minimum(1.0, self.domain.s / np.maximum(counts, 1))
        at, slot = np.nonzero(rows["key"] != EMPTY)
        key, value = rows["key"][at, slot], rows["value"][at, slot]
        share[at, key] = np.stack([1 - kept[at], kept[at] * (1 - value) / 2, kept[at] * (1 + value) / 2], axis=1)
        chance = share @ self.hits.outcomes()
        score = self.scores[self.about]
        mean = chance @ score
        centred = np.abs(score - mean[..., None])
        bias = mean - self.truth(rows)
        return Moments(bias, (chance * centred**2).sum(axis=-1), (chance * centred**3).sum(axis=-1))

    def truth(self, x: Any) -> Numbers:
        """For each vector (rows) the statistic that moments are of, of each key (columns)."""
        rows = self.domain.check(x)
        found = np.zeros((len(rows), self.d))
        at, slot = np.nonzero(rows["key"] != EMPTY)
        found[at, rows["key"][at, slot]] = rows["value"][at, slot] if self.about == "mean" else 1.0
        return found


_TRUTH = {
    "mean": np.array([0.0, -1.0, 1.0]),
    "presence": np.array([0.0, 1.0, 1.0]),
    "minus": np.array([0.0, 1.0, 0.0]),
    "plus": np.array([0.0, 0.0, 1.0]),
}


def checked_goal(goal: str) -> str:
    """What a mechanism is to be best for."""
    if goal not in ("mean", "presence"):
        raise ParameterError('goal must be "mean" or "presence"')
    return goal
