"""The ROC curve of the scores, and what is read off it.

For each threshold the curve shows the share of others accused and of members found. The area under it counts ties one
half (Mann and Whitney). Intervals are over the records, for this model: of the area with the variance of DeLong, put
into Wilson's formula so that they stay within 0 and 1, of all else those of Clopper and Pearson. The threshold of the
balanced accuracy is learned on one half of the records and counted on the other, or else its luck would count as skill.

The corners are kept without their thresholds, which are scores of records, and of many corners only some.
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dither.learn.attack.result import Rate
from dither.privacy.auditing.epsilon_bound import clopper_pearson, wilson

Numbers = NDArray[np.float64]

_CORNERS = 512  # of a ROC curve that are kept


def roc(ours: Numbers, theirs: Numbers) -> tuple[Numbers, Numbers]:
    """The ROC curve: for each score as a threshold the share of others and of members at or above it."""
    cuts = np.unique(np.concatenate([ours, theirs]))[::-1]
    shares = [1 - np.searchsorted(np.sort(scores), cuts, side="left") / len(scores) for scores in (theirs, ours)]
    alarms, hits = (np.concatenate([[0.0], each]) for each in shares)
    return alarms, hits


def thinned(corners: int) -> NDArray[np.int64]:
    """The places of the corners to be kept: all if they are few, or else finely where few are accused."""
    if corners <= _CORNERS:
        return np.arange(corners)
    near = np.geomspace(1, corners, _CORNERS // 2).astype(np.int64) - 1
    even = np.linspace(0, corners - 1, _CORNERS // 2).astype(np.int64)
    return np.unique(np.concatenate([near, even]))


def area_under(ours: Numbers, theirs: Numbers, miss: float) -> Rate:
    """The area under the curve (Mann and Whitney), with DeLong's variance put into Wilson's interval."""
    above, below = np.sort(theirs), np.sort(ours)
    wins = (np.searchsorted(above, ours, "left") + np.searchsorted(above, ours, "right")) / (2 * len(theirs))
    defeats = (np.searchsorted(below, theirs, "left") + np.searchsorted(below, theirs, "right")) / (2 * len(ours))
    area = float(wins.mean())
    variance = float(wins.var(ddof=1) / len(ours) + defeats.var(ddof=1) / len(theirs))
    least = min(len(ours), len(theirs))
    trials = area * (1 - area) / variance if variance > 0 else float(least)
    low, high = _wilson(area, max(1.0, trials), miss)
    return Rate(area, min(low, area), max(high, area))


def _wilson(share: float, trials: float, miss: float) -> tuple[float, float]:
    level, at = NormalDist().inv_cdf(1 - miss / 2), np.array([share])
    low, high = (float(wilson(at, trials, side)[0]) for side in (-level, level))  # type: ignore[arg-type]
    return low, high


def balanced(ours: Numbers, theirs: Numbers, miss: float) -> Rate:
    """The balanced accuracy of the threshold that was best on the first halves, on the second ones."""
    one, other = len(ours) // 2, len(theirs) // 2
    learned = [np.sort(scores[:size]) for scores, size in ((ours, one), (theirs, other))]
    cuts = np.concatenate([*learned, [np.inf]])
    hits, alarms = (1 - np.searchsorted(scores, cuts, "left") / len(scores) for scores in learned)
    cut = float(cuts[int(np.argmax(hits - alarms))])
    found, spared = int((ours[one:] >= cut).sum()), int((theirs[other:] < cut).sum())
    first, second = _limits(found, len(ours) - one, miss / 2), _limits(spared, len(theirs) - other, miss / 2)
    return Rate(*((a + b) / 2 for a, b in zip(first, second, strict=True)))


def found_at(alarms: Numbers, hits: Numbers, share: float, members: int, miss: float) -> Rate:
    """The members found at the lowest threshold that accuses no larger share of the others."""
    last = int(np.flatnonzero(alarms <= share * (1 + 1e-12))[-1])
    return _limits(round(float(hits[last]) * members), members, miss)


def _limits(count: int, n: int, miss: float) -> Rate:
    """A share with Clopper and Pearson's limits."""
    return Rate(count / n, *clopper_pearson(count, n, miss / 2))
