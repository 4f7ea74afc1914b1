"""How well a crowd hides one of its members: the divergence of shuffled reports, from what two inputs look like.

**The blanket** (Balle, Bell, Gascon and Nissim 2019). n users apply the same randomizer, and a shuffler shows the
multiset of their reports. One user has x or x', with report laws P and P'. Let beta be a measure that lies under the
law of *every* input. Each of the others reports, with the probability of beta's mass, something that was drawn from
beta whatever the input: noise to hide in. Given which reports are such noise and which are not, the multiset of the
noise and the one report is a mixture over which of them is which, and it follows that

    D_r(shuffled with x, shuffled with x')  <=  (1/n) E[ (H_1 + ... + H_n)_+ ],     H = (P(y) - r P'(y)) / beta(y),

with independent H_i: y is drawn from beta, and H = 0 with the probability that beta leaves over. D_r is the
hockey-stick divergence: the delta at epsilon = ln r.

**Contrasts.** For most randomizers P/beta and P'/beta are 1 or E, the likelihood ratio, and H is

    E - r        where P is high and P' low        with probability `spread`
    1 - r E      where P is low and P' high        with probability `spread`, too
    (1 - r) E    where both are high               with probability `both`
    1 - r        where both are low                with probability `low`

or 0 (`core.channel.Contrast`). Two inputs of a two-level law with weights A and B, total W, w of M outputs favoured and
a of these apart have E = A/B, spread = a B/W, both = (w - a) B/W and low = (M - w - a) B/W. Further apart is worse: a
larger a takes mass from (1 - r) E and 1 - r, as much from each, and gives it to E - r and 1 - r E, which have the same
sum and lie further out. So H becomes larger in convex order, and (.)_+ of a sum is convex.

**Conflicts of hashes, rounding, padding** need no assumption. P and P' that are averages of such laws give an H that is
an average as well, which is smaller in convex order than the mixture that it averages. Collision with w < s buckets hit
gives the others what w + 1, ..., s would have had: it is the average over the choices of s - w further buckets. CoCo
likewise, over pairs and sides.

**Any randomizer** is dominated by binary randomized response, spread = 1/(E + 1) and nothing else, with E =
e^epsilon0: docs/decisions/0014 has the proof, which starts from beta = max(P, P') / E. The clone bound (Feldman,
McMillan and Talwar 2021) has the same form with 1/E in place of 2/(E + 1) as the probability to be noise.

**Evaluation.** With J ~ Bin(n, 2 spread) users at E - r or 1 - r E, the expectation given J and the sum of all others
is two tails of Bin(J, 1/2). J and the others are put into blocks, and every block counts for more than it holds:

- the expectation is convex in the number of others: a block of them goes to its two ends, with the same mean;
- a block of J from j0 to j1 counts as j1, and (j1 - j0) (r - 1) (E + 1) / 2 is added to the sum: leaving others out can
  only make the expectation larger, and so can users at E - r or 1 - r E whose mean is taken off (convex order).

Where there are no others, E[(.)_+ | J] / J falls in J, and a block counts as its smallest J. All of it is an upper
bound in exact arithmetic; floating point is given a millionth of delta, and `shuffle` refuses deltas below 1e-15,
where masses near 1 are not told apart any more.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Contrast
from dither.core.exact import float_above
from dither.errors import ParameterError, require

_MARGIN = 1e-6  # of delta, for rounding: tails are good to 1e-11, as tests show, and their differences to less
_STEP, _WIDE_STEP = 0.02, 0.04  # widths of blocks of J, in standard deviations
_OTHERS, _MANY = 3.0, 10**5  # and of the others: narrower below so many users, as what they add falls with n
_FEW = 24

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class BlanketPair:
    """Two inputs, as a blanket sees them, in floating point: see the essay above."""

    ratio: float
    spread: float
    both: float = 0.0
    low: float = 0.0
    scale: float = 1.0  # of the result

    @classmethod
    def of(cls, contrast: Contrast) -> "BlanketPair":
        """The exact numbers of a channel, rounded."""
        if contrast.ratio < 1:
            raise ParameterError("a contrast has a likelihood ratio of at least 1; please report this as a bug")
        return cls(float_above(contrast.ratio), *(float(each) for each in contrast[1:]))

    @classmethod
    def binary(cls, ratio: float) -> "BlanketPair":
        """Binary randomized response, which hides worst among all randomizers with this likelihood ratio."""
        return cls(ratio, 1 / (ratio + 1))

    @classmethod
    def clone(cls, ratio: float) -> "BlanketPair":
        """The clones of 2021: 1/E is the probability to be one, and the report itself is a binary response."""
        return cls(ratio, 1 / (2 * ratio), scale=2 * ratio / (ratio + 1))

    def delta(self, epsilon: float, n: int) -> float:
        """The delta that n shuffled reports keep at this epsilon: an upper bound."""
        growth = math.expm1(epsilon)
        if growth >= self.ratio - 1:
            return 0.0
        found = self._with_others(growth, n) if self.both or self.low else self._alone(growth, n)
        return min(1.0, self.scale * found * (1 + _MARGIN))

    @property
    def _gap(self) -> float:
        return self.ratio - 1

    def _sides(self, growth: float) -> tuple[float, float]:
        """E - r and r E - 1, without cancellation: r is 1 + growth."""
        return self._gap - growth, self._gap + growth * self.ratio

    def _alone(self, growth: float, n: int) -> float:
        """Without others. J users with the one who hides; J - 1 of the other n - 1."""
        up, down = self._sides(growth)
        edges, mass = blocks(n - 1, 2 * self.spread, _STEP)
        users = edges[:-1] + 1.0
        least = np.floor(users * (down / (up + down))) + 1  # so many at E - r make the sum positive
        value = up * tail(least - 1, users - 1, 0.5) - down * tail(least, users - 1, 0.5)
        return self.spread * float(mass @ np.maximum(value, 0.0))

    def _with_others(self, growth: float, n: int) -> float:
        up, down = self._sides(growth)
        edges, mass = blocks(n, 2 * self.spread, _WIDE_STEP)
        first, last = edges[:-1], edges[1:] - 1.0
        added = (last - first) * growth * (self.ratio + 1) / 2
        share, lost = _others(self, n)
        shift = added - growth * lost
        # J at E - r or 1 - r E: the sum is positive from `least` at E - r on.
        least = np.clip(np.floor((last * down - shift) / (up + down)) + 1, 0.0, last + 1)
        gain = last / 2 * (up * tail(least - 1, last - 1, 0.5) - down * tail(least, last - 1, 0.5))
        gain += shift * tail(least, last, 0.5)
        return float(((share * np.maximum(gain, 0.0)) @ mass).sum()) / n


@lru_cache(maxsize=32)
def _others(pair: BlanketPair, n: int) -> tuple[Numbers, Numbers]:
    """For each block of J (columns), ends of blocks of the others: their probabilities, and what they cost."""
    edges, _ = blocks(n, 2 * pair.spread, _WIDE_STEP)
    users = n - (edges[1:] - 1.0)
    rest = 1 - 2 * pair.spread
    shares, costs = [], []
    step = _OTHERS * min(1.0, (n / _MANY) ** 0.25)
    for share, number in _ends(users, pair.both / rest if pair.both else 0.0, step):
        for other, low in _ends(users - number, pair.low / (rest - pair.both) if pair.low else 0.0, step):
            shares.append(share * other)
            costs.append(pair.ratio * number + low)
    return np.array(shares), np.array(costs)


def tail(k: Numbers, n: Numbers | float, p: float) -> Numbers:
    """P(Bin(n, p) >= k), elementwise: the regularised incomplete beta function."""
    special = require("scipy.special", "fast")
    inside = (k > 0) & (k <= n)
    inner = special.betainc(np.where(inside, k, 1.0), np.where(inside, n - k + 1.0, 1.0), p)
    return np.where(inside, inner, np.asarray(k <= 0, dtype=np.float64))


@lru_cache(maxsize=32)
def blocks(n: int, p: float, step: float) -> tuple[Numbers, Numbers]:
    """Where blocks of a binomial number begin, and n + 1; and their probabilities.

    They are fine where the number mostly lies; one block holds what is beyond either end.
    """
    deviation = math.sqrt(n * p * max(0.0, 1 - p))
    reach = 9 * deviation + 30  # beyond lies a probability below 1e-18
    start, stop = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    edges = np.arange(start, stop + 1, max(1, int(step * deviation)), dtype=np.float64)
    edges = np.unique(np.concatenate([[0.0], edges, [float(stop), n + 1.0]]))
    above, below = tail(edges, n, p), tail(n + 1 - edges, n, 1 - p)
    # Where tails are near 1 their difference would be lost to rounding: there it is that of the other side.
    return edges, np.maximum(np.where(above[:-1] < 0.5, above[:-1] - above[1:], below[1:] - below[:-1]), 0.0)


def _ends(users: Numbers, p: float, step: float) -> list[tuple[Numbers, Numbers]]:
    """Bin(users, p) for each number of users, moved to the ends of blocks with the same mean: weights and ends."""
    if p <= 0:
        return [(np.ones_like(users), np.zeros_like(users))]
    p = min(p, 1.0)
    if users.max() <= _FEW:  # no blocks
        above = [tail(np.full_like(users, k), users, p) for k in range(int(users.max()) + 2)]
        return [(np.maximum(above[k] - above[k + 1], 0.0), np.full_like(users, k)) for k in range(len(above) - 1)]
    middle, deviation = users * p, np.sqrt(users * p * (1 - p))
    inner = [np.clip(np.floor(middle + place * deviation), 0, users) for place in np.arange(-6.0, 6.1, step)]
    ends = [np.zeros_like(users), *inner, users]
    total = [tail(end, users, p) for end in ends[:-1]] + [np.zeros_like(users)]
    first = [users * p * tail(end - 1, users - 1, p) for end in ends[:-1]] + [np.zeros_like(users)]
    weights = [np.zeros_like(users) for _ in ends]
    for i in range(len(ends) - 1):
        mass, mean, width = total[i] - total[i + 1], first[i] - first[i + 1], ends[i + 1] - ends[i]
        upper = np.clip((mean - ends[i] * mass) / np.maximum(width, 1.0), 0.0, np.maximum(mass, 0.0))
        weights[i] += np.maximum(mass, 0.0) - upper
        weights[i + 1] += upper
    return list(zip(weights, ends, strict=True))
