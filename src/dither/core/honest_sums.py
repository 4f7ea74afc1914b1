"""Sums over reports that honest devices keep within bounds, whatever their users hold.

A report supports a category with probability p if its user holds it and q if not: so among n honest reports the count
has a mean from n q to n p, for every population. A mechanism names such sums (`Mechanism.honest_sums`): each is one of
`trials` independent terms from 0 to 1, whose means lie from `low` to `high`, on average over the terms. A public draw
(which dimension, which question) has both ends equal: there liars show who do not keep to the draw.

**Chernoff and Hoeffding** (Hoeffding 1963, theorem 1): with KL the divergence of two coins, and N terms,

    P(sum >= N t) <= exp(-N KL(t, high)) for t > high,    P(sum <= N t) <= exp(-N KL(t, low)) for t < low.

This holds for each population and each N, not only for large ones.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_THRESHOLDS = 64
_ROUNDING = 2.0**-50  # a bound on what rounding adds to a divergence, which is multiplied by all trials


class HonestSums(NamedTuple):
    """Some sums, one for each of several numbers, and between what the means of their terms lie."""

    what: str
    seen: Floats
    trials: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, what: str, seen: ArrayLike, trials: ArrayLike, low: ArrayLike, high: ArrayLike) -> "HonestSums":
        """With numbers that are the same for all written once."""
        arrays = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) for each in (seen, trials, low, high)))
        return cls(what, *(np.ravel(each) for each in arrays))

    def about(self, part: str) -> "HonestSums":
        """The same, as sums of one part of a report."""
        return self._replace(what=f"{part}: {self.what}" if part else self.what)

    @property
    def shares(self) -> Floats:
        """The average term; 0 where there is none."""
        return np.divide(self.seen, self.trials, out=np.zeros_like(self.seen), where=self.trials > 0)

    def log_chances(self) -> Floats:
        """For each sum the logarithm of a bound on how likely honest reports are as far out, on that side."""
        share = self.shares
        nearest = np.clip(share, self.low, self.high)
        return -self.trials * _divergence(share, nearest)


def _divergence(share: Floats, chance: Floats) -> Floats:
    """KL of two coins; 0 where they are alike, infinite where the second cannot give the first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = np.where(share > 0, share * np.log(share / chance), 0.0)
        zeros = np.where(share < 1, (1 - share) * (np.log1p(-share) - np.log1p(-chance)), 0.0)
        return np.where(share == chance, 0.0, np.maximum(ones + zeros - _ROUNDING, 0.0))


Sums = tuple[HonestSums, ...]


def parted(part: str, sums: Iterable[HonestSums]) -> Sums:
    """Sums of one part of a report."""
    return tuple(each.about(part) for each in sums)


def tails(what: str, counts: NDArray[np.int64], ends: Iterable[Floats]) -> Sums:
    """Of ordered outputs, how many are at least so high, for some thresholds.

    `ends` are the probabilities of each output for the lowest and for the highest input: for all between them the
    probability of a high output lies between.
    """
    seen, low, high = (np.cumsum(each[::-1], dtype=np.float64)[::-1] for each in (counts, *ends))
    places = np.unique(np.linspace(1, len(seen) - 1, _THRESHOLDS).round().astype(np.intp))
    return (HonestSums.of(what, seen[places], seen[0], np.minimum(low[places], 1), np.minimum(high[places], 1)),)
