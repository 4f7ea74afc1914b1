"""From guesses to epsilon: what the right guesses about one model prove.

The records of one model are not independent trials, so that the usual limits for both rates prove nothing. What holds
(Steinke, Nasr and Jagielski 2023): if a fair coin decided over the membership of each of m records, and the attacker
guesses r of them, then under (epsilon, delta)-DP the number of right guesses V keeps

    P(V >= v) <= P(B >= v) + m delta (1 - q),  B ~ Bin(r, q),  q = e^epsilon / (1 + e^epsilon).

Proof: given the model and the coins before it, a coin is guessed with probability q + x at most, where (1 - q) delta
bounds the mean of x >= 0 over models. So but for an event of probability m delta (1 - q), V is at most B. Their theorem
5.2 has a smaller last term, 2 m delta max_i P(v - i <= B < v) / i, which is for a number of guesses that is fixed
beforehand. Ours depends on the model, which has seen all records: it may guess more when it knows more. What is used
here holds for it too, since r is fixed once the model is, and only the last term speaks of the mean over models.

*Which epsilons are refuted?* Those at which the bound is at most 1 - confidence, as long as it is decided beforehand
where to look: a model that keeps (epsilon, delta) also keeps every larger epsilon with this delta, and the last term
shrinks as epsilon grows. So we begin at e, the least epsilon at which it is half of 1 - confidence (0, if delta is
small); it depends on m, delta and the confidence alone. If the bound refutes e it refutes all below. Beyond e the last
term is left as it is at e, so that the bound grows with epsilon and ends at one place. Without delta this is the limit
of Clopper and Pearson. With m delta far above 1 - confidence, no attack proves an epsilon below e.

*Which coins?* `coins=True` says that each record came in by a coin of its own: epsilon is for adding or removing one.
Otherwise members and others are the halves of one random split. They are joined in random pairs, in each of which a
fair coin said who is the member: epsilon is for replacing one, and adding or removing one costs at least half of it:
(epsilon, delta) for one is (2 epsilon, (1 + e^epsilon) delta) for two. **If the two groups are not of one population,
nothing is proved**: then an attacker tells populations apart.

*Which guesses?* The surest ones; how many, on either side, is decided by the scores and the membership of one half of
the records, and counted on the other.
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.core.randomness import Stream
from dither.errors import ParameterError, require
from dither.privacy.auditing.epsilon_bound import wilson

Numbers = NDArray[np.float64]

RELATIONS = ("add-or-remove", "replace")
_SIZES = 24  # how many guesses are tried on either side
_DOUBT = 1.0  # standard errors that a share of right guesses is doubted by when their number is chosen
_LARGEST = 40.0  # no epsilon beyond is looked at
_HALVINGS = 60


class Proof(NamedTuple):
    """The epsilon that is proved, and by how many guesses."""

    epsilon: float
    guesses: int
    right: int
    tested: int


def proved(
    ours: Numbers, theirs: Numbers, stream: Stream, *, delta: float, relation: str, coins: bool, miss: float
) -> Proof:
    """What the scores of members and others, each in random order, prove but with probability `miss`."""
    values, sides = _coins(ours, theirs, stream) if coins else _duels(ours, theirs, stream)
    half = len(values) // 2
    low, high = _sizes(values[:half], sides[:half], miss, paired=not coins)
    guesses, right = _guessed(values[half:], sides[half:], low, high)
    tested = len(values) - half

    factor = 2 if relation == "add-or-remove" and not coins else 1  # a pair is told apart by replacing a record
    begin, added = _begin(tested, delta, factor, miss)
    spare = miss - added

    def refuted(epsilon: float) -> bool:
        return chance(right, guesses, tested, factor * epsilon) <= spare

    found = _largest(refuted, begin, _LARGEST) if spare > 0 and refuted(begin) else 0.0
    return Proof(found, guesses, right, tested)


def chance(right: int, guesses: int, tested: int, epsilon: float, delta: float = 0.0) -> float:
    """How likely so many right guesses are at most, where `tested` fair coins are hidden with (epsilon, delta).

    The number of guesses may depend on what was seen, but not on the coins themselves.

    >>> round(chance(75, 100, 100, np.log(3.0)), 3)
    0.553
    """
    tested = checked_count("tested", tested, 0)
    guesses = checked_count("guesses", guesses, 0, tested)
    right = checked_count("right", right, 0, guesses)
    epsilon, delta = checked_real("epsilon", epsilon), checked_real("delta", delta)
    if not 0 <= epsilon < math.inf or not 0 <= delta <= 1:
        raise ParameterError("epsilon must be a finite number of at least 0, and delta lie between 0 and 1")
    if right == 0:
        return 1.0
    special = require("scipy.special", "fast")
    beyond = float(special.betainc(right, guesses - right + 1, special.expit(epsilon)))
    return min(1.0, beyond + _added(tested, epsilon, delta))


def _added(tested: int, epsilon: float, delta: float) -> float:
    """What delta adds: how likely any coin is shown beyond what epsilon allows."""
    return tested * delta * math.exp(-np.logaddexp(0.0, epsilon))


def _begin(tested: int, delta: float, factor: int, miss: float) -> tuple[float, float]:
    """The least epsilon at which delta adds half of `miss` at most, and what it adds there.

    Replacing a record removes one and adds one: (epsilon, delta) for either is (2 epsilon, (1 + e^epsilon) delta).
    """

    def added(epsilon: float) -> float:
        both = delta if factor == 1 else min(1.0, (1 + math.exp(epsilon)) * delta)
        return _added(tested, factor * epsilon, both)

    if added(0.0) <= miss / 2:
        return 0.0, added(0.0)
    low, high = 0.0, _LARGEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if added(middle) > miss / 2 else (low, middle)
    return high, added(high)


def _largest(refuted: Callable[[float], bool], low: float, high: float) -> float:
    """The end of what is refuted, from `low` on."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _coins(ours: Numbers, theirs: Numbers, stream: Stream) -> tuple[Numbers, NDArray[np.bool_]]:
    """All scores in random order, and whether each is a member's."""
    order = stream.order(len(ours) + len(theirs), lane=2)
    sides = np.concatenate([np.ones(len(ours), dtype=bool), np.zeros(len(theirs), dtype=bool)])
    return np.concatenate([ours, theirs])[order], sides[order]


def _duels(ours: Numbers, theirs: Numbers, stream: Stream) -> tuple[Numbers, NDArray[np.bool_]]:
    """For random pairs how far apart the two scores are, and whether the higher one is the member's.

    Who of a pair is the member was a fair coin, and the distance says nothing about it. Equal scores are guessed.
    """
    count = min(len(ours), len(theirs))
    lead = ours[:count] - theirs[:count]
    return np.abs(lead), np.where(lead == 0, stream.below(2, count, lane=3) == 1, lead > 0)


def _sizes(values: Numbers, sides: NDArray[np.bool_], miss: float, paired: bool) -> tuple[int, int]:
    """How many to call others (the lowest) and members (the highest), by what works on these values.

    Of pairs only the highest are guessed: a small distance says nothing.
    """
    good = sides[np.argsort(values, kind="stable")]
    upper = _grid(len(values) if paired else len(values) // 2)
    lower = np.zeros(1, dtype=np.int64) if paired else upper
    low, high = (each.ravel() for each in np.meshgrid(lower, upper))
    right = np.concatenate([[0], np.cumsum(good[::-1])])[high] + np.concatenate([[0], np.cumsum(~good)])[low]
    count = np.maximum(low + high, 1)
    level = NormalDist().inv_cdf(1 - miss) + _DOUBT
    best = int(np.argmax(wilson(right / count, count, -level)))  # type: ignore[arg-type]
    return int(low[best]), int(high[best])


def _grid(most: int) -> NDArray[np.int64]:
    return np.unique(np.concatenate([[0], np.geomspace(1, max(1, most), _SIZES)]).astype(np.int64))


def _guessed(values: Numbers, sides: NDArray[np.bool_], low: int, high: int) -> tuple[int, int]:
    """How many guesses there are, and how many are right. Ties are broken by the order, which is random."""
    order = np.argsort(values, kind="stable")
    top, bottom = order[len(order) - high :], order[:low]
    return low + high, int(sides[top].sum()) + int((~sides[bottom]).sum())
