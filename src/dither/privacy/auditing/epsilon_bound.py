"""From hits to epsilon: a lower bound that holds whatever the mechanism does.

An event E was seen a times in n reports of one input and b times in n reports of another. If the mechanism is
(epsilon, delta)-private then P(E|x) <= e^epsilon P(E|x') + delta, so

    epsilon >= log((P(E|x) - delta) / P(E|x')) >= log((low(a) - delta) / high(b)),

where low and high are the exact bounds of Clopper and Pearson for a binomial share, each wrong with probability
(1 - confidence) / 2. Nothing is assumed of the reports but that they were drawn independently. The event must have
been chosen without looking at them: it is chosen on other reports (`best_event`).

**Which event?** A likely one with a small ratio, or a rare one with a large ratio that is hardly ever seen? The best is
the one with the largest bound *to be expected* from the trials that are left. Its two probabilities are estimated
pessimistically, by two standard errors, or else the luckiest of many rare events would be chosen. Wilson's formula
stands in for Clopper and Pearson's here: thousands of events are compared, and nothing is claimed.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.errors import require

_MOST_CUTS = 256
_DOUBT = 2.0  # standard errors

Numbers = NDArray[np.float64]


def epsilon_below(hits: int, misses: int, n: int, confidence: float, delta: float = 0.0) -> float:
    """The epsilon that is proved by an event seen `hits` times under one input and `misses` times under another.

    >>> round(epsilon_below(7311, 2689, 10_000, 0.99), 3)   # a fair estimate would be log(7311 / 2689) = 1.0002
    0.942
    """
    tail = (1 - confidence) / 2
    low, high = clopper_pearson(hits, n, tail)[0], clopper_pearson(misses, n, tail)[1]
    return max(0.0, float(np.log((low - delta) / high))) if low > delta else 0.0


def clopper_pearson(count: int, n: int, tail: float) -> tuple[float, float]:
    """The exact bounds for a share that was seen `count` times in n trials, each wrong with probability `tail`.

    >>> [round(bound, 4) for bound in clopper_pearson(30, 100, 0.005)]
    [0.189, 0.4306]
    """
    special = require("scipy.special", "fast")
    low = float(special.betaincinv(count, n - count + 1, tail)) if count else 0.0
    high = float(special.betainccinv(count + 1, n - count, tail)) if count < n else 1.0
    return low, high


class Event(NamedTuple):
    """Reports whose score is at least `cut`, or below it: likelier under the first input, or the second."""

    cut: float
    above: bool
    first: bool
    promise: float  # the bound that is to be expected

    def seen(self, scores: Numbers) -> int:
        """How often it happened."""
        return int(np.count_nonzero((scores >= self.cut) == self.above))


def best_event(
    ours: Numbers, theirs: Numbers, trials: int, confidence: float, delta: float = 0.0, doubt: float = _DOUBT
) -> Event:
    """The event by a score with the largest bound to be expected from `trials` further reports of each input."""
    ours, theirs = np.sort(ours), np.sort(theirs)
    cuts = _cuts(ours, theirs)
    shares = [1 - np.searchsorted(scores, cuts) / len(scores) for scores in (ours, theirs)]
    level = NormalDist().inv_cdf(1 - (1 - confidence) / 2)
    found = []
    for above in (True, False):
        one, other = shares if above else (1 - shares[0], 1 - shares[1])
        for first, likely, rare in ((True, one, other), (False, other, one)):
            low = wilson(wilson(likely, len(ours), -doubt), trials, -level) - delta
            high = wilson(wilson(rare, len(ours), doubt), trials, level)
            promise = np.log(np.maximum(low, 1e-300) / np.maximum(high, 1e-300))
            at = int(np.argmax(promise))
            found.append(Event(float(cuts[at]), above, first, float(promise[at])))
    best = max(found, key=lambda event: event.promise)
    if best.promise > 0 or not doubt:
        return best
    # Nothing is to be expected for sure. What looks best is tried, but only if no other score has more to show.
    lucky = best_event(ours, theirs, trials, confidence, delta, doubt=0.0)
    return lucky._replace(promise=min(0.0, lucky.promise - 1.0))


def wilson(share: Numbers, n: int, level: float) -> Numbers:
    """A bound for a share that was seen in n trials, `level` standard errors above it, or below if negative."""
    square = level * level
    spread = level * np.sqrt(share * (1 - share) / n + square / (4.0 * n * n))
    return np.clip((share + square / (2 * n) + spread) / (1 + square / n), 0.0, 1.0)


def _cuts(ours: Numbers, theirs: Numbers) -> Numbers:
    """Scores to cut at: all if they are few, otherwise finely at both ends, where ratios are large."""
    both = np.unique(np.concatenate([ours, theirs]))
    if len(both) <= _MOST_CUTS:
        return both
    near = np.unique(np.geomspace(1, len(ours) // 2, _MOST_CUTS // 4).astype(np.int64)) - 1
    return np.unique(np.concatenate([scores[[*near, *(-1 - near)]] for scores in (ours, theirs)]))
