"""What a method for range queries will cost: the error of a typical query, before anything is collected.

The query is that of 004 section 4.6: two attributes, drawn at random, and half of the values of each (of one attribute,
if there is only one). Where it is known which queries will be asked (`query_workload`), it is one of those. Its squared
error has three parts (004 section 4.5), each averaged over the pairs:

- **Noise** of the reports, from the exact variance V of every oracle, for the m users that its group will have.
- **Sampling**: a group stands for all users. Of a share p = 1/4 it misses p (1 - p) (1 - s) / m, where m users are the
  share s of all. It is small beside the noise unless epsilon is large.
- **Guessed**: what lies in cells that the query cuts. An end cuts a cell unless it falls on an edge, and some of the
  mass there is put wrong: (alpha (c_1 + c_2))^2, where c is the share of an attribute in a cell that is cut
  (`granularity.cut_share`).

**Grids** (HDG, TDG, CALM): a query adds up the noise of half the cells along each side, g_1 g_2 V / (4 m).

**Copula** knows margins and interaction apart. An answer about halves moves by half of what each margin moves; a margin
comes from the square wave, with smoothing, and half a range of it is about as noisy as four cells of local hashing
(for densities with bumps as wide as a tenth of the domain: from 3.3 to 4.8 standard errors of one binary question).
The interaction is the noise of the grid with its margins taken out, g_1 g_2 V / (16 m), as if nothing were shrunk.

**For hard data.** alpha depends on the data: 004 takes .03, which describes its data sets on average. The default here
is .1, that of pairs that are far from any copula. Predicted over realised error, for three and six attributes of 64
values, 20,000 to a million users and epsilon from .5 to 2, where *hard* are pairs on a V-shaped curve and attributes
with all their mass on eight values, and Normal and Laplace are those of 004:

| | hard | Normal | Laplace | uniform |
| --- | --- | --- | --- | --- |
| Copula | 1.1 to 2.5 | 1.9 to 9 | 1.7 to 3.4 | 5 to 20 |
| HDG | 1.0 to 2.1 | 0.8 to 1.9 | 0.7 to 1.6 | 1.7 to 6 |

So it is nearly an upper bound, and a crude one where data are smooth, which no one knows beforehand. Below one, HDG
has fewer than 5,000 users in a group, and the removal of negative cells moves its answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dither.core.structure import GRIDS
from dither.errors import ParameterError
from dither.ranges.collection import Ranges
from dither.ranges.granularity import ALPHA_2, MOST_EVALUATIONS, cut_share, noise
from dither.ranges.groups import UserGroup
from dither.ranges.query_workload import QueryWorkload

HARD, TYPICAL = 0.1, ALPHA_2
# Cells of local hashing that are as noisy as half a range of a smoothed margin. Chosen by simulation: half or twice of
# it changes the predicted error by -4 and +8% (`python benchmarks/constants.py ranges.error_prediction._SMOOTHED`).
_SMOOTHED = 4.0
_MANY = 1 << 10  # cells: the noise of local hashing does not depend on them


class Predicted(NamedTuple):
    """The parts of the expected squared error of a query."""

    noise: float
    sampling: float
    guessed: float

    @property
    def mse(self) -> float:
        """All together."""
        return self.noise + self.sampling + self.guessed

    @property
    def rmse(self) -> float:
        """The square root of it."""
        return self.mse**0.5


def predicted(
    mechanism: Ranges,
    reports: float,
    users: float | None = None,
    *,
    alpha: float = HARD,
    queries: QueryWorkload | None = None,
) -> Predicted:
    """The error of a query about half of each of two attributes, where `reports` of all `users` report.

    With `queries`, it is that of one of them: of half of an attribute, or of each of two; for more the sum over pairs.

    >>> from dither.ranges import HDG
    >>> found = predicted(HDG(shape=(64,) * 6, epsilon=1.0, n=10**6, granularity="guideline"), 10**6, alpha=TYPICAL)
    >>> round(found.rmse, 4)  # the authors' code has an MAE of .0186, which is .0233 where errors are normal
    0.0229
    """
    d = len(mechanism.shape)
    wanted = queries or QueryWorkload.any_two(d)
    singles = {(j,): often for j, often in enumerate(wanted.singles) if often > 0}
    groups = {each.grid.attributes: each for each in mechanism.groups} if mechanism.structure == GRIDS else {}
    if any(each not in groups for each in [*singles, *wanted.pairs]):
        raise ParameterError(
            f"{type(mechanism).__name__} does not ask for every pair, so its error depends on the data; it is known "
            "for Copula, HDG, TDG and CALM"
        )
    crowd = _Crowd(mechanism, groups, reports / sum(each.share for each in mechanism.groups), users or reports)
    parts = np.array([crowd.single(j) for (j,) in singles] + [crowd.pair(j, k, alpha) for j, k in wanted.pairs])
    often = np.array([*singles.values(), *wanted.pairs.values()])
    noisy, sampling, guessed = (parts.mean(axis=0) if queries is None else often @ parts).tolist()
    return Predicted(noisy, sampling, guessed)


@dataclass(frozen=True, eq=False)
class _Crowd:
    """The groups of a mechanism by their attributes, how many reports a share of one stands for, and all users."""

    mechanism: Ranges
    groups: Mapping[tuple[int, ...], UserGroup]
    each: float
    users: float

    def single(self, j: int) -> Predicted:
        """Of a query about one attribute."""
        asked = self.groups[j,]
        return Predicted(self._half(asked), self._sampled(asked, 0.25), self._cut(asked, 0) ** 2)

    def pair(self, j: int, k: int, alpha: float) -> Predicted:
        """Of a query about two attributes."""
        asked = self.groups[j, k]
        cells = asked.grid.size * self._variance(asked)
        guessed = (alpha * (self._cut(asked, 0) + self._cut(asked, 1))) ** 2
        noisy = cells / 4
        if self.mechanism.margins_apart:
            noisy = cells / 16 + (self._half(self.groups[j,]) + self._half(self.groups[k,])) / 4
        return Predicted(noisy, self._sampled(asked, 3 / 16), guessed)

    def _users(self, asked: UserGroup) -> float:
        return max(1.0, asked.share * self.each)

    def _variance(self, asked: UserGroup) -> float:
        """Of one cell; of local hashing where the oracle has none."""
        hashed = asked.recipe == "SquareWave"
        size, most = (_MANY, None) if hashed else (asked.grid.size, MOST_EVALUATIONS)
        return noise(size, self.mechanism.epsilon, most) / self._users(asked)

    def _half(self, asked: UserGroup) -> float:
        """The noise of a sum over half of one attribute."""
        cells = _SMOOTHED if asked.recipe == "SquareWave" else asked.grid.size / 2
        return cells * self._variance(asked)

    def _sampled(self, asked: UserGroup, spread: float) -> float:
        users = self._users(asked)
        return spread * max(0.0, 1 - users / self.users) / users

    def _cut(self, asked: UserGroup, axis: int) -> float:
        """Nothing is cut of an attribute without an order."""
        return cut_share(asked.grid.shape[axis], asked.grid.sizes[axis])
