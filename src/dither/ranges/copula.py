"""`Copula`: marginals that are as smooth as they look, and pairs that are believed as far as they can be seen.

The planner's default for range queries. In one round:

- **Asked.** Two users in three report one attribute, through the square wave (an attribute without an order, or with
  few values, through the better frequency oracle); the others report their cell in a coarse grid of one pair.
- **Marginals** (`estimation.density`). All that was heard about an attribute, its own reports and the sums of its
  pairs' grids, is put into one posterior of a smooth distribution.
- **Pairs** (`interaction`). A correlation for each pair, shrunk towards those of the others; and what a normal copula
  does not explain, shrunk towards nothing. Without a correlation to be seen this is the product of marginals that wins
  on weakly correlated data; with much data it is as free as a grid.
- **More attributes** (`model`). Of all tables that have these pairs the one nearest to the normal copula.

On the data of 004 its error is a half to an eighth of HDG's; docs/ranges.md has these and others, and where it is not
best (clusters). Grids with cuts at the quantiles, which need a first round to learn where these are, were tried and win
little over it (docs/decisions/0015-ranges.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import log2, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from dither.core.workload import Workload
from dither.ranges.collection import Ranges
from dither.ranges.granularity import MOST_EVALUATIONS, cells_of_pair, checked_nominal, noise, oracle
from dither.ranges.grid import Grid
from dither.ranges.groups import WAVE, Collected, Readable, UserGroup

if TYPE_CHECKING:
    from dither.ranges.query_model import Model

PAIR = 1  # share of a pair; with d - 1 for an attribute, two users in three report an attribute
FEW_VALUES = 6  # an oracle for categories tells as much about them as the square wave
_MOST_CELLS = 256  # of a pair; 16 along each side, if both have too many
_COARSEST, _FINEST = 1, 4  # powers of two
# Cells along a side of a pair, times the cube root of the noise in one. Chosen by simulation: at half and twice of it
# the error is 7% and 14% larger for two attributes, the same and 23% larger for four (`python benchmarks/constants.py
# ranges.copula._PACE`).
_PACE = 1.5
_MOST_EXPECTED = 1 << 50  # users; grids do not get finer long before


@dataclass(frozen=True)
class Copula(Ranges):
    """Range queries by smooth marginals and a normal copula, corrected by a coarse grid for each pair.

    `nominal` lists the attributes whose values have no order. Where a pair would have more than 256 cells, neighbouring
    values of a nominal attribute share cells in it: list values that belong together side by side.

    >>> asked = Copula(shape=(64,) * 6, epsilon=1.0, n=10**6).groups
    >>> asked[0].stored(), asked[-1].stored()
    (((0,), (64,), 'SquareWave', 5), ((4, 5), (8, 8), 'LocalHash(k=64)', 1))
    """

    shape: tuple[int, ...]
    epsilon: float
    n: int
    nominal: tuple[int, ...] = ()
    asked: Any = field(default=None, kw_only=True, repr=False)
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    examples = (
        {"shape": (2, 3), "epsilon": 1.0, "n": 1000},
        {"shape": (9, 7, 4), "epsilon": 0.5, "n": 100_000, "nominal": (2,)},
        {"shape": (8,), "epsilon": 2.0, "n": 1000},
    )
    planned = True
    margins_apart = True
    readable = Readable(waves=True)

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """Which grids are asked depends on how many will answer."""
        expected = min(max(1, round(workload.users)), _MOST_EXPECTED)
        for parameters in super().candidates(workload):
            yield {**parameters, "n": expected, "nominal": workload.nominal}

    def _options(self) -> None:
        self._freeze(nominal=checked_nominal(self.nominal, len(self.shape)))

    def _ordered(self, j: int) -> bool:
        return j not in self.nominal or self.shape[j] == 2  # two values are in order either way

    def _chosen(self) -> Sequence[UserGroup]:
        d, single = len(self.shape), max(1, len(self.shape) - 1)
        pairs = d * (d - 1) // 2
        self._enough(d + pairs)
        groups = []
        for j, size in enumerate(self.shape):
            smooth = self._ordered(j) and size > FEW_VALUES
            recipe = WAVE if smooth else oracle(size, self.epsilon, MOST_EVALUATIONS)
            groups.append(UserGroup(Grid.equal((j,), self.shape, (size,)), recipe, single))
        # In pairs, attributes without an order have a cell for each value, as long as there are not too many.
        g = pair_cells(self.epsilon, self.n * PAIR / (d * single + PAIR * pairs))
        cells = [min(size, g) if self._ordered(j) else size for j, size in enumerate(self.shape)]
        for j, k in combinations(range(d), 2):
            grid = Grid.equal((j, k), self.shape, cells_of_pair(cells[j], cells[k], _MOST_CELLS))
            groups.append(UserGroup(grid, oracle(grid.size, self.epsilon, MOST_EVALUATIONS), PAIR))
        return groups

    def _model(self, collected: list[Collected], n: int) -> "Model":
        from dither.ranges.fit import copula  # a device has no use for it

        return copula(self.shape, collected, [self._ordered(j) for j in range(len(self.shape))])

    def _notes(self) -> tuple[str, ...]:
        return (
            "Marginals are smoothed, and pairs shrunk towards a normal copula, as far as the reports support it; error "
            "bars are those of the posterior.",
        )


def pair_cells(epsilon: float, users: float) -> int:
    """How many cells along each side of a pair's grid, for this many users.

    A power of two: there is a cut in the middle of the domain, where the sign of a correlation shows best, and cells
    put together two by two are a grid of the same kind, from which is learned how things are inside cells.

    >>> [pair_cells(epsilon, 22_222) for epsilon in (0.05, 0.2, 0.5, 1.0, 2.0)]
    [2, 4, 4, 8, 8]
    """
    error = sqrt(noise(16, epsilon) / max(users, 1.0))
    return 1 << int(np.clip(round(log2(_PACE * error ** (-1 / 3))), _COARSEST, _FINEST))
