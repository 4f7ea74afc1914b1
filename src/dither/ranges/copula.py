"""`Copula`: marginals that are as smooth as they look, and pairs that are believed as far as they can be seen.

The planner's default for range queries. In one phase:

- **Asked.** Two users in three report one attribute, through the square wave (an attribute without an order, or with
  few values, through the better frequency oracle); the others report their cell in a coarse grid of one pair. Where it
  is known which queries will be asked, users are divided by it (`shares_for`), and a pair that none of them is about is
  not asked for.
- **Marginals** (`estimation.density`). All that was heard about an attribute, its own reports, the sums of its pairs'
  grids and what other questions tell about it (`RangeReading.beside`), is put into one posterior of a smooth
  distribution.
- **Pairs** (`interaction`). A correlation for each pair, shrunk towards those of the others; and what a normal copula
  does not explain, shrunk towards nothing. Without a correlation to be seen this is the product of marginals that wins
  on weakly correlated data; with much data it is as free as a grid.
- **More attributes** (`model`). Records with weights, of the copula and raked to all pairs: answers add up.

**In two phases** (`first`, `after`), each user still reports once. A quarter of the users report single attributes, as
above. What their tally tells is public, and decides what the others are asked: the square wave of the *estimated
quantile* of a value instead of the value, and grids of pairs with cuts at quantiles (`quantile_places`). So windows and
cells are narrow where the people are. The model is fitted to the reports of both phases (`RangeReading.earlier`). Over
14 populations errors are .72 of those of one phase before, .3 to .4 with long tails and many zeros
(docs/decisions/0045-two-phases.md).

On the data of 004 its error is a half to an eighth of HDG's; docs/ranges.md has these and others, and where it is not
best (clusters).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dither.core.parallel import small_matrices
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.ranges.collection import RangeReading, Ranges
from dither.ranges.granularity import MOST_EVALUATIONS, best_oracle, cells_of_pair, checked_nominal, noise, oracle
from dither.ranges.grid import Grid
from dither.ranges.quantile_places import QuantilePlaces, quantile_cuts
from dither.ranges.query_workload import QueryWorkload
from dither.ranges.user_groups import MOST_SHARES, WAVE, Collected, Readable, UserGroup

if TYPE_CHECKING:
    from dither.ranges.model import Margin
    from dither.ranges.query_model import Model

PAIR = 1  # share of a pair; with d - 1 for an attribute, two users in three report an attribute
FEW_VALUES = 6  # an oracle for categories tells as much about them as the square wave
_MOST_CELLS = 256  # of a pair; 16 along each side, if both have too many
_COARSEST, _FINEST = 1, 4  # powers of two
# Cells along a side of a pair, times the cube root of the noise in one. Chosen by simulation: at half and twice of it
# the error is 7% and 14% larger for two attributes, the same and 23% larger for four (`python benchmarks/constants.py
# ranges.copula._PACE`).
_PACE = 1.5
_UNASKED = 0.05  # of its usual share, for an attribute that no query is about: every one must be heard of
_FINE = 64  # the usual share of a pair, where shares are divided by what will be asked
_MOST_EXPECTED = 1 << 50  # users; grids do not get finer long before


class GroupShares(NamedTuple):
    """How often the users of each group are drawn, compared with the others."""

    singles: tuple[int, ...]
    pairs: Mapping[tuple[int, int], int]


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
        {
            "shape": (9, 4),
            "epsilon": 1.0,
            "n": 1000,
            "asked": (
                ((0,), (9,), "SquareWave", 3, ((0, 1, 4, 9), (0, 400_000, 800_001, 1 << 20))),
                ((1,), (4,), "GRR(k=4)", 2),
                ((0, 1), ((0, 1, 9), (0, 3, 4)), "GRR(k=4)", 1),
            ),
        },
    )
    phased = True
    planned = True
    margins_apart = True
    readable = Readable(waves=True)

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """Which grids are asked depends on how many will answer; and, if that is known, on which queries will be asked.

        The usual groups are offered, too: where users are divided nearly as usual they may have the smaller error.
        """
        expected = min(max(1, round(workload.users)), _MOST_EXPECTED)
        for parameters in super().candidates(workload):
            made = {**parameters, "n": expected, "nominal": workload.nominal}
            if workload.queries is not None:
                asked = _groups(**made, epsilon=workload.epsilon, shares=shares_for(workload.queries))
                yield {**made, "asked": [each.stored() for each in asked]}
            yield made

    def _options(self) -> None:
        self._freeze(nominal=checked_nominal(self.nominal, len(self.shape)))

    def _chosen(self) -> Sequence[UserGroup]:
        d = len(self.shape)
        self._enough(d + d * (d - 1) // 2)
        return _groups(self.shape, self.n, self.nominal, self.epsilon, _usual_shares(d))

    @classmethod
    def first(cls, shape: Sequence[int], epsilon: float, n: int, nominal: Sequence[int] = ()) -> "Copula":
        """The method for the n users of the first of two phases: they report single attributes only.

        A quarter of all users is a good share for them.

        >>> [each.grid.attributes for each in Copula.first(shape=(64, 64, 4), epsilon=1.0, n=20_000).groups]
        [(0,), (1,), (2,)]
        """
        d = len(shape)
        asked = _groups(shape, n, nominal, epsilon, GroupShares((1,) * d, {}))
        return cls(tuple(shape), epsilon, n, tuple(nominal), asked=[each.stored() for each in asked])

    def after(self, tally: Tally, users: int) -> "Copula":
        """The method for the users of the next phase, designed by what the tally of this one tells.

        Attributes with an order are reported on the scale of their estimated quantiles, and the grids of pairs are cut
        at quantiles. Each user answers in one phase only, and the tally is made of reports, so it costs no privacy.

        >>> first = Copula.first(shape=(64, 64), epsilon=1.0, n=20_000)
        >>> people = np.random.default_rng(1).binomial(63, 0.2, (20_000, 2))
        >>> second = first.after(first.tally(first.randomize(people, seed=1)), 60_000)
        >>> second.groups[-1].grid.cuts[0]
        (0, 10, 11, 12, 13, 14, 15, 17, 64)
        """
        from dither.ranges.fit import fitted_margins  # a device has no use for it

        collected, shape = self.collected(tally), self.shape
        with small_matrices():
            known = fitted_margins(shape, collected, _ordered(shape, self.nominal))
        asked = _groups(shape, users, self.nominal, self.epsilon, self._shares, known)
        return Copula(shape, self.epsilon, users, self.nominal, asked=[each.stored() for each in asked])

    @property
    def expected_groups(self) -> tuple[UserGroup, ...]:
        """With pairs, which the users of the next phase report in any case."""
        return tuple(_groups(self.shape, self.n, self.nominal, self.epsilon, self._shares))

    @property
    def _shares(self) -> GroupShares:
        """As its own users are divided; as usual if they report no pairs."""
        shares = {each.grid.attributes: each.share for each in self.groups}
        pairs = {(each[0], each[1]): share for each, share in shares.items() if len(each) == 2}
        d = len(self.shape)
        return GroupShares(tuple(shares[j,] for j in range(d)), pairs) if pairs else _usual_shares(d)

    def _model(self, collected: list[Collected], n: int) -> "Model":
        return self._model_read(collected, n, self.reading)

    def _model_read(self, collected: list[Collected], n: int, reading: RangeReading) -> "Model":
        from dither.ranges.fit import copula  # a device has no use for it

        ordered = _ordered(self.shape, self.nominal)
        found = copula(self.shape, collected, ordered, reading.beside, reading.smoothed)
        # What all users would tell if this one answer were asked of them, by yes and no: none is known better.
        return replace(found, resolution=math.sqrt(noise(2, self.epsilon) / max(n, 1)))

    def _notes(self) -> tuple[str, ...]:
        return (
            "Marginals are smoothed, and pairs shrunk towards a normal copula, as far as the reports support it; error "
            "bars are those of the posterior.",
        )


def _ordered(shape: Sequence[int], nominal: Sequence[int]) -> list[bool]:
    return [j not in nominal or size == 2 for j, size in enumerate(shape)]  # two values are in order either way


def _usual_shares(d: int) -> GroupShares:
    return GroupShares((max(1, d - 1),) * d, dict.fromkeys(combinations(range(d), 2), PAIR))


def _groups(
    shape: Sequence[int],
    n: int,
    nominal: Sequence[int],
    epsilon: float,
    shares: GroupShares,
    known: "Sequence[Margin] | None" = None,
) -> list[UserGroup]:
    """An oracle for each attribute, and for each pair a grid that is as fine as its users can tell.

    Where margins are known already, attributes with an order are asked by their quantiles.
    """
    groups, ordered = [], _ordered(shape, nominal)
    for j, size in enumerate(shape):
        grid = Grid.equal((j,), shape, (size,))
        wave = ordered[j] and size > FEW_VALUES
        recipe = WAVE if wave else best_oracle(size, epsilon)
        scale = QuantilePlaces.of_shares(known[j].cells, known[j].cuts) if known and wave else None
        groups.append(UserGroup(grid, recipe, shares.singles[j], scale))
    total = sum(shares.singles) + sum(shares.pairs.values())
    for (j, k), share in shares.pairs.items():
        # In pairs, attributes without an order have a cell for each value, as long as there are not too many.
        g = pair_cells(epsilon, n * share / total)
        cells = [min(shape[i], g) if ordered[i] else shape[i] for i in (j, k)]
        sides = cells_of_pair(cells[0], cells[1], _MOST_CELLS)
        grid = Grid.equal((j, k), shape, sides)
        if known is not None:
            cuts = [
                quantile_cuts(known[i].value, side) if ordered[i] and side < shape[i] else own
                for i, side, own in zip((j, k), sides, grid.cuts, strict=True)
            ]
            grid = Grid((j, k), tuple(cuts))
        groups.append(UserGroup(grid, oracle(grid.size, epsilon, MOST_EVALUATIONS), share))
    return groups


def shares_for(queries: QueryWorkload) -> GroupShares:
    """How users are divided where these queries will be asked.

    A group of a share m adds c r / m to the squared error of a query, where r says how much more often it is needed
    than for any two attributes: an answer about a pair has the error of its grid, and a quarter of that of each margin
    (`error_prediction`). The usual shares are best where all r are 1 (they were found by simulation), so c is in
    proportion to their squares, and the sum is least for each usual share times the root of its r (Cauchy and Schwarz).
    With the c of `error_prediction` instead, which takes nothing to be shrunk, more users would report pairs; that was
    tried, and is no better (docs/decisions/0030-workloads.md).

    >>> shares_for(QueryWorkload.of("abc", {"any 2": 1}))
    GroupShares(singles=(2, 2, 2), pairs={(0, 1): 1, (0, 2): 1, (1, 2): 1})
    >>> shares_for(QueryWorkload.of("abc", {"a": 1, ("a", "b"): 1}))
    GroupShares(singles=(351, 157, 6), pairs={(0, 1): 111})
    """
    d, number = queries.d, queries.d * (queries.d - 1) // 2
    all_pairs = (
        math.fsum(queries.pairs.values()) or 1.0
    )  # only ratios count: any two, three or more are the usual shares
    needed = [each / all_pairs for each in queries.singles]
    for pair, often in queries.pairs.items():
        for j in pair:
            needed[j] += often / all_pairs / 4
    usual = 1 / (2 * d) if number else 1.0
    singles = [max(1, d - 1) * max(math.sqrt(each / usual), _UNASKED) for each in needed]
    pairs = {pair: PAIR * math.sqrt(often / all_pairs * number) for pair, often in queries.pairs.items()}
    total = sum(singles) + sum(pairs.values())
    scale = min(_FINE, (MOST_SHARES - len(singles) - len(pairs)) / total)
    whole = [max(1, round(scale * each)) for each in (*singles, *pairs.values())]
    divisor = math.gcd(*whole)
    whole = [each // divisor for each in whole]
    return GroupShares(tuple(whole[:d]), dict(zip(pairs, whole[d:], strict=True)))


def pair_cells(epsilon: float, users: float) -> int:
    """How many cells along each side of a pair's grid, for this many users.

    A power of two: there is a cut in the middle of the domain, where the sign of a correlation shows best, and cells
    put together two by two are a grid of the same kind, from which is learned how things are inside cells.

    >>> [pair_cells(epsilon, 22_222) for epsilon in (0.05, 0.2, 0.5, 1.0, 2.0)]
    [2, 4, 4, 8, 8]
    """
    error = math.sqrt(noise(16, epsilon) / max(users, 1.0))
    return 1 << int(np.clip(round(math.log2(_PACE * error ** (-1 / 3))), _COARSEST, _FINEST))
