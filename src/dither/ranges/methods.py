"""The methods of 004 and those it is compared with: which grids they ask, one class each.

| method | grids |
| --- | --- |
| `HDG` | one for each attribute, fine, and one for each pair of attributes, coarse (004 section 4) |
| `TDG` | one for each pair |
| `CALM` | one for each pair, with a cell for each pair of values (Zhang et al. 2018, for pairs) |
| `MSW` | the square wave of each attribute on its own (Li et al. 2020): a product of marginals |
| `Uniform` | none that is used: all answers are those of uniform data |

Each frequency oracle is randomized response or local hashing, whichever has the smaller exact variance for the number
of cells at this epsilon; `HDG` and `TDG` replace local hashing by projective geometry where cells are very many
(`granularity`). All groups have the same share of the users.

Which grids were asked may be given, since a stored plan is never chosen again. What a method could not put together in
the end it refuses at once (`readable`), before anybody reports.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

from dither.core.mechanism import IF_GIVEN
from dither.errors import ParameterError
from dither.ranges.collection import RangeReading, Ranges
from dither.ranges.granularity import (
    MOST_EVALUATIONS,
    Granularity,
    checked_granularity,
    checked_nominal,
    granularities,
    in_pairs,
    oracle,
)
from dither.ranges.grid import MOST_CELLS, Grid
from dither.ranges.user_groups import WAVE, Collected, Readable, UserGroup

if TYPE_CHECKING:
    from dither.ranges.query_model import Model


@dataclass(frozen=True)
class HDG(Ranges):
    """Range queries by a fine grid for each attribute and a coarse one for each pair.

    `granularity=None` chooses the cells for each attribute, `"guideline"` as 004 does, and `(g1, g2)` takes g1 cells of
    an attribute and g2 x g2 of a pair. `nominal` lists the attributes whose values have no order: they have a cell for
    each value. Where a pair would have more than 4,096 cells, neighbouring values of a nominal attribute share cells in
    its pairs: list values that belong together side by side.

    >>> HDG(shape=(64,) * 6, epsilon=1.0, n=10**6, granularity="guideline").groups[-1].stored()
    ((4, 5), (4, 4), 'LocalHash(k=16)', 1)
    """

    shape: tuple[int, ...]
    epsilon: float
    n: int
    granularity: Granularity = None
    nominal: tuple[int, ...] = ()
    asked: Any = field(default=None, kw_only=True, repr=False)
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    examples = (
        {"shape": (2, 3), "epsilon": 1.0, "n": 1000},
        {"shape": (3, 4), "epsilon": 2.0, "n": 1000, "granularity": (3, 2)},
        {"shape": (20, 6, 4), "epsilon": 0.5, "n": 100_000, "nominal": (2,)},
        {
            "shape": (2, 3),
            "epsilon": 1.0,
            "n": 9,
            "asked": (((0, 1), (2, 3), "Hadamard(k=6)", 2), ((0,), (2,), "GRR(k=2)", 1)),
        },
    )
    readable = Readable()

    def _options(self) -> None:
        nominal = checked_nominal(self.nominal, len(self.shape))
        self._freeze(granularity=checked_granularity(self.granularity), nominal=nominal)

    def _chosen(self) -> Sequence[UserGroup]:
        d = len(self.shape)
        number = d + d * (d - 1) // 2
        self._enough(number)
        singles, pairs = granularities(self.granularity, self.shape, self.epsilon, self.n / number, self.nominal)
        grids = [Grid.equal((j,), self.shape, (cells,)) for j, cells in enumerate(singles)]
        own = [UserGroup(grid, oracle(grid.size, self.epsilon, MOST_EVALUATIONS)) for grid in grids]
        return [*own, *_pairs(self.shape, pairs, self.epsilon, MOST_EVALUATIONS)]

    def _model(self, collected: list[Collected], n: int) -> "Model":
        return _entropy_model(self.shape, collected)


@dataclass(frozen=True)
class TDG(Ranges):
    """Range queries by a coarse grid for each pair of attributes.

    Its options are those of `HDG`; of a granularity `(g1, g2)` only g2 is used.

    >>> TDG(shape=(64,) * 6, epsilon=1.0, n=10**6, granularity="guideline").groups[0].stored()
    ((0, 1), (4, 4), 'LocalHash(k=16)', 1)
    """

    shape: tuple[int, ...]
    epsilon: float
    n: int
    granularity: Granularity = None
    nominal: tuple[int, ...] = ()
    asked: Any = field(default=None, kw_only=True, repr=False)
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    examples = (
        {"shape": (2, 3, 2), "epsilon": 1.0, "n": 1000},
        {"shape": (7, 5), "epsilon": 2.0, "n": 1000, "granularity": "guideline"},
    )
    readable = Readable()

    def _options(self) -> None:
        nominal = checked_nominal(self.nominal, len(self.shape))
        self._freeze(granularity=checked_granularity(self.granularity), nominal=nominal)

    def _chosen(self) -> Sequence[UserGroup]:
        d = _at_least_two("TDG", self.shape)
        number = d * (d - 1) // 2
        self._enough(number)
        _, pairs = granularities(self.granularity, self.shape, self.epsilon, self.n / number, self.nominal, alone=True)
        return _pairs(self.shape, pairs, self.epsilon, MOST_EVALUATIONS)

    def _model(self, collected: list[Collected], n: int) -> "Model":
        return _entropy_model(self.shape, collected)


@dataclass(frozen=True)
class CALM(Ranges):
    """Range queries by the full table of each pair of attributes.

    A cell for each pair of values: nothing is guessed, and everything is noisy. It is there to be compared with, so
    its oracle is the better one whatever that costs the server: a hash for each cell and report. `nominal` lists the
    attributes whose values have no order. Every value has its own cell either way; only where a pair would have more
    cells than a grid can, neighbouring values of a nominal attribute share them: list values that belong together side
    by side.

    >>> CALM(shape=(5, 4, 3), epsilon=1.0, n=10**6).groups[1].stored()
    ((0, 2), (5, 3), 'LocalHash(k=15)', 1)
    """

    shape: tuple[int, ...]
    epsilon: float
    n: int
    nominal: tuple[int, ...] = field(default=(), metadata=IF_GIVEN)
    asked: Any = field(default=None, kw_only=True, repr=False)
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    examples = (
        {"shape": (2, 3, 2), "epsilon": 1.0, "n": 1000},
        {"shape": (8, 9), "epsilon": 1.0, "n": 1000},
        {"shape": (2, 3), "epsilon": 2.0, "n": 1000, "nominal": (1,)},
    )
    readable = Readable()

    def _options(self) -> None:
        self._freeze(nominal=checked_nominal(self.nominal, len(self.shape)))

    def _chosen(self) -> Sequence[UserGroup]:
        _at_least_two("CALM", self.shape)
        cells = in_pairs(self.shape, [j in self.nominal for j in range(len(self.shape))], MOST_CELLS)
        one, two = sorted(cells)[-2:]
        if one * two > MOST_CELLS:
            raise ParameterError(
                f"CALM has a cell for each pair of values, and here a pair has {one * two:,}, more than "
                f"{MOST_CELLS:,}: take HDG, or coarser values"
            )
        return _pairs(self.shape, cells, self.epsilon)

    def _model(self, collected: list[Collected], n: int) -> "Model":
        return _entropy_model(self.shape, collected)


@dataclass(frozen=True)
class MSW(Ranges):
    """Range queries by the distribution of each attribute on its own, as if attributes were independent.

    Value v of c goes through the square wave as (2 v + 1) / c - 1, the middle of its part of the line. The values of
    `nominal` attributes have no order, so they have no place on a line: they are reported by the better frequency
    oracle.

    >>> MSW(shape=(64, 10), epsilon=1.0, n=10**6).groups[1].stored()
    ((1,), (10,), 'SquareWave', 1)
    """

    shape: tuple[int, ...]
    epsilon: float
    n: int
    nominal: tuple[int, ...] = field(default=(), metadata=IF_GIVEN)
    asked: Any = field(default=None, kw_only=True, repr=False)
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    examples = (
        {"shape": (2, 3), "epsilon": 1.0, "n": 1000},
        {"shape": (4,), "epsilon": 0.5, "n": 1000},
        {"shape": (3, 4), "epsilon": 1.0, "n": 1000, "nominal": (1,)},
    )
    readable = Readable(waves=True, cells=False)

    def _options(self) -> None:
        self._freeze(nominal=checked_nominal(self.nominal, len(self.shape)))

    def _chosen(self) -> Sequence[UserGroup]:
        return [
            UserGroup(Grid.equal((j,), self.shape, (size,)), oracle(size, self.epsilon) if j in self.nominal else WAVE)
            for j, size in enumerate(self.shape)
        ]

    def _model(self, collected: list[Collected], n: int) -> "Model":
        return self._model_read(collected, n, self.reading)

    def _model_read(self, collected: list[Collected], n: int, reading: RangeReading) -> "Model":
        from dither.ranges.fit import product  # a device has no use for it

        ordered = [j not in self.nominal for j in range(len(self.shape))]
        return product(self.shape, collected, ordered, reading.beside, reading.smoothed)


@dataclass(frozen=True)
class Uniform(Ranges):
    """Range queries answered as if all records were equally likely: what a method must beat to be worth its noise.

    Nothing needs to be asked. But a protocol without a report could not be run, stored and compared as the others are,
    so it asks for the least that a report can hold: one bit, in which half of its range the first attribute lies,
    by randomized response. The answers are not used.

    >>> Uniform(shape=(64, 10), epsilon=1.0, n=10**6).groups[0].stored()
    ((0,), (2,), 'GRR(k=2)', 1)
    """

    shape: tuple[int, ...]
    epsilon: float
    n: int
    asked: Any = field(default=None, kw_only=True, repr=False)
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    examples = ({"shape": (3, 4), "epsilon": 1.0, "n": 1000},)

    def _chosen(self) -> Sequence[UserGroup]:
        return [UserGroup(Grid.equal((0,), self.shape, (2,)), "GRR(k=2)")]

    def _model(self, collected: list[Collected], n: int) -> "Model":
        from dither.ranges.fit import uniform  # a device has no use for it

        return uniform(self.shape)


def _pairs(shape: Sequence[int], cells: Sequence[int], epsilon: float, most: int | None = None) -> list[UserGroup]:
    """A grid for each pair of attributes."""
    pairs = combinations(range(len(shape)), 2)
    grids = [Grid.equal((i, j), shape, (cells[i], cells[j])) for i, j in pairs]
    return [UserGroup(grid, oracle(grid.size, epsilon, most)) for grid in grids]


def _entropy_model(shape: tuple[int, ...], collected: list[Collected]) -> "Model":
    """All attributes together, by maximum entropy from grids of one and two."""
    from dither.ranges.fit import gridded  # a device has no use for it

    return gridded(shape, collected, "entropy")


def _at_least_two(method: str, shape: Sequence[int]) -> int:
    if len(shape) < 2:
        raise ParameterError(f"{method} asks for pairs, so records need two attributes or more: take HDG for one")
    return len(shape)
