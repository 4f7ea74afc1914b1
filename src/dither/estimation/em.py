"""From counts of outputs to shares of cells: maximum likelihood by EM, with a certificate.

**EM** takes shares f to f_k D_k (`OutputCounts.factors`). The likelihood never falls, and as it is concave, it is at
most n (max_k D_k - 1) below its maximum: the `gap`, on which EM stops. Steps are lengthened (squared extrapolation,
Varadhan and Roland 2008) where that does not cost likelihood.

**What goes wrong with EM.** The likelihood hardly sees fine detail, so its maximum is a row of spikes: too rough to
be of use beyond a few bins. Its error is not normal either, since many shares lie on the border, at zero; no
standard errors are stated for it. `estimation.density` is the better picture.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.estimation.output_counts import OutputCounts

Shares = NDArray[np.float64]

GAP = 0.1  # of log-likelihood: one superfluous parameter gains 0.5 from noise alone
_MOST_STEPS = 20_000
_TINY = 1e-30


class EMResult(NamedTuple):
    """Where an iteration ended: shares, steps taken, and how far below its maximum the log-likelihood is at most."""

    shares: Shares
    steps: int
    gap: float


class _Stretch:
    """How far an extrapolation may go: twice as far after each success at the limit, half as far after a failure."""

    def __init__(self) -> None:
        self.most = 1.0
        self.wanted = 1.0

    def point(self, first: Shares, second: Shares, third: Shares) -> Shares:
        """Where two steps, first to second to third, seem to lead."""
        step, turn = second - first, third - 2 * second + first
        self.wanted = max(1.0, float(np.linalg.norm(step) / max(np.linalg.norm(turn), _TINY)))
        length = min(self.wanted, self.most)
        ahead = first + 2 * length * step + length**2 * turn
        ahead = np.where(ahead > 0, ahead, np.maximum(third / 10, _TINY))
        return ahead / ahead.sum()

    def learn(self, success: bool) -> None:
        if not success:
            self.most = max(1.0, min(self.most, self.wanted) / 2)
        elif self.wanted >= self.most:
            self.most *= 2


def maximum(heard: OutputCounts, gap: float = GAP, most: int = _MOST_STEPS) -> EMResult:
    """EM from the uniform distribution until the gap is small, or for `most` steps. The log-likelihood never falls.

    >>> maximum(OutputCounts(np.array([60.0, 40.0]), np.array([[0.8, 0.2], [0.2, 0.8]])), 1e-6).shares.round(3).tolist()
    [0.667, 0.333]
    """
    n, cells = heard.n, heard.law.shape[1]

    def judged(shares: Shares) -> tuple[Shares, float]:
        chance = heard.chance(shares)
        return heard.factors(chance), float(heard.counts @ np.log(chance))

    shares = np.full(cells, 1 / cells)
    factors, _ = judged(shares)
    steps, stretch = 1, _Stretch()
    while n * (factors.max() - 1) > gap and steps < most:
        once = shares * factors
        factors, reached = judged(once)
        twice = once * factors
        shares = stretch.point(shares, once, twice)
        factors, found = judged(shares)
        success = found >= reached
        stretch.learn(success)
        if not success:
            shares = twice / twice.sum()
            factors, _ = judged(shares)
        steps += 2 if success else 3
    return EMResult(shares, steps, max(0.0, float(n * (factors.max() - 1))))
