"""Several shuffled rounds: what the crowds of many days tell together, by the one accountant.

Users who report afresh in every round, through a shuffler each time, promise in each what `amplify` states, at one
delta. To add those up would waste most of it. What adds up are privacy losses (`accounting.privacy_loss`), and a bound
on a crowd has the law of one:

**A pair that dominates.** With atoms (mass, u, v) of a blanket law, D(r) = (1/n) E[(sum u_i - r sum v_i)_+] is itself
the hockey-stick divergence of two probability measures on n draws from the blanket, with the densities (1/n) sum u_i
and (1/n) sum v_i. It is at least that of any two neighbouring data sets, at every r, so that the pair dominates, in any
composition, also if later rounds are chosen after earlier ones (Zhu, Dong and Wang 2022). Laws are the same in both
orders, so D for r < 1 follows from D for r > 1: D(1/r) = 1 - 1/r + D(r)/r.

**On a grid.** Losses are multiples of a step. D is convex in r, so the points (e^epsilon, D) at the multiples lie above
it, and so does the largest convex function below them, which is a polygon. A polygon is the divergence of a pair with
losses at its corners only: at a corner with ratio r, the change of slope is the mass under the second measure, and r
times as much under the first. Beyond the last point everything counts as an infinite loss.

What a round needs: fresh noise, and n users of whom nobody's reports of two rounds can be linked. A device with memory
is none of this: for it `amplify(...).all_rounds` holds, whatever the number of rounds.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.crowd import MOST_USERS
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError
from dither.privacy.accounting.privacy_loss import PrivacyLoss, along_the_logarithm, least_epsilon
from dither.privacy.certificate import Certifiable, Promising
from dither.privacy.shuffle import LocalRandomizer

_CELLS = 200  # of a loss, between 0 and where next to nothing is left
_NOTHING = 1e-18
_ROUGH = 0.02
_ROUNDING = 2.0**-48  # of a loss, since multiples of the step are floats


@dataclass(frozen=True)
class ShuffledRound:
    """One round of n users behind a shuffler, for `compose`; `given` is a mechanism or plan, or the epsilon of any.

    >>> from dither import GRR
    >>> from dither.privacy import compose
    >>> daily = ShuffledRound(GRR(k=4, epsilon=1.0), n=100_000)
    >>> round(compose([(daily, 30)], delta=1e-6).epsilon, 4)
    0.0619
    """

    given: Certifiable | float
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checked_count("n", self.n, 2, MOST_USERS))
        if self._randomizer.permanent is not None:
            raise ParameterError(
                "a device with memory sends no fresh noise: amplify(...).all_rounds holds for any number of its rounds"
            )

    @cached_property
    def _randomizer(self) -> LocalRandomizer:
        return LocalRandomizer.of(self.given)

    @property
    def fingerprint(self) -> str:
        """Equal for rounds that are alike."""
        kind = self.given.fingerprint if isinstance(self.given, Promising) else repr(self.given)
        return f"{self.n} users of {kind}"

    @property
    def guarantee(self) -> Guarantee:
        """That of a report alone, which holds behind a shuffler, too."""
        local = self._randomizer.local
        return Guarantee(local.epsilon, local.delta, local.established, model="shuffled")

    def privacy_loss(self) -> PrivacyLoss:
        """The loss of the pair that dominates, on a grid, never too good."""
        local = min(self._randomizer.local.epsilon, math.log(self._randomizer.ratio))
        last = least_epsilon(self._delta, _NOTHING, local, _ROUGH, along_the_logarithm)
        step = last / _CELLS
        ratios = np.exp(step * np.arange(_CELLS + 1))
        divergences = np.array([self._delta(step * cell) for cell in range(_CELLS + 1)])
        corners = _convex_corners(ratios, divergences)
        slopes = np.diff(divergences[corners]) / np.diff(ratios[corners])
        other = np.zeros(_CELLS + 1)  # under the second measure, by loss
        other[corners[1:]] = np.diff(np.append(slopes, 0.0))
        other[0] = 0.0
        mass = np.concatenate([other[:0:-1], [0.0], (ratios * other)[1:]])
        infinite = float(divergences[-1])
        mass[_CELLS] = max(0.0, 1 - float(mass.sum()) - infinite)
        return PrivacyLoss(step, -_CELLS, mass, infinite, _ROUNDING * last)

    def _delta(self, epsilon: float) -> float:
        return self._randomizer.delta(epsilon, self.n)


def _convex_corners(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[int]:
    """The numbers of the points on the largest convex function below all, from the first to the last."""
    corners: list[int] = []
    for point in range(x.size):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (y[b] - y[a]) * (x[point] - x[b]) <= (y[point] - y[b]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(point)
    return corners
