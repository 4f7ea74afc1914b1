"""From guesses to epsilon: what the right guesses about one model prove.

The records of one model are not independent trials, so that the usual limits for both rates prove nothing. What holds
(Steinke, Nasr and Jagielski 2023): if a fair coin decided over the membership of each of m records, and the attacker
guesses r of them, then under (epsilon, delta)-DP the number of right guesses V keeps

    P(V >= v) <= P(B >= v) + min(m delta (1 - q), 2 m delta max_i P(v - i <= B < v) / i),  B ~ Bin(r, q),

with q = e^epsilon / (1 + e^epsilon). The last term is their theorem 5.2. The other is seen at once: given the model and
the coins before it, a coin is guessed with probability q + x, where (1 - q) delta bounds the mean of x > 0; so V is at
most B and as many more as the sum of the x, whose mean is m delta (1 - q). Without delta this is the limit of Clopper
and Pearson. The epsilons for which it is below 1 - confidence are refuted.

*Which coins?* `coins=True` says that each record came in by a coin of its own: epsilon is for adding or removing one.
Otherwise members and others are the halves of one random split. They are joined in random pairs, in each of which a
fair coin said who is the member: epsilon is for replacing one, and adding or removing one costs at least half of it:
(epsilon, delta) for one is (2 epsilon, (1 + e^epsilon) delta) for two. **If the two groups are not of one population,
nothing is proved**: then an attacker tells populations apart.

*Which guesses?* The surest ones; how many, on either side, is decided on one half of the records and counted on the
other.
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.errors import require
from dither.privacy.auditing.bound import wilson
from dither.randomness import Stream

Numbers = NDArray[np.float64]

RELATIONS = ("add-or-remove", "replace")
_SIZES = 24  # how many guesses are tried on either side
_DOUBT = 1.0  # standard errors that a share of right guesses is doubted by when their number is chosen
_LARGEST, _STEPS = 40.0, 161  # the epsilons that are looked at first


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

    def tail(epsilon: float) -> float:
        if coins or relation == "replace":
            return chance(right, guesses, tested, epsilon, delta)
        return chance(right, guesses, tested, 2 * epsilon, min(1.0, (1 + math.exp(epsilon)) * delta))

    return Proof(_least(tail, miss), guesses, right, tested)


def chance(right: int, guesses: int, tested: int, epsilon: float, delta: float = 0.0) -> float:
    """How likely so many right guesses are at most, where `tested` fair coins are hidden with (epsilon, delta).

    The number of guesses must not depend on what is tested, or else delta be 0.

    >>> round(chance(75, 100, 100, np.log(3.0)), 3)
    0.553
    """
    special = require("scipy.special", "fast")
    if right == 0:
        return 1.0
    q = 1 / (1 + math.exp(-epsilon))
    beyond = float(special.betainc(right, guesses - right + 1, q))
    if not delta:
        return beyond
    below = np.arange(right - 1, -1, -1)
    logs = special.gammaln(guesses + 1) - special.gammaln(below + 1) - special.gammaln(guesses - below + 1)
    short = np.cumsum(np.exp(logs + special.xlogy(below, q) + (guesses - below) * -np.logaddexp(0.0, epsilon)))
    spread = float((short / np.arange(1, right + 1)).max())
    return min(1.0, beyond + tested * delta * min(1 / (1 + math.exp(epsilon)), 2 * spread))


def _least(tail: Callable[[float], float], miss: float) -> float:
    """The least epsilon under which what was seen is likelier than `miss`: all below are refuted."""
    grid = np.linspace(0.0, _LARGEST, _STEPS)
    kept = next((place for place, epsilon in enumerate(grid) if tail(float(epsilon)) > miss), None)
    if kept == 0:
        return 0.0
    if kept is None:
        return _LARGEST
    low, high = float(grid[kept - 1]), float(grid[kept])
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if tail(middle) > miss else (middle, high)
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
