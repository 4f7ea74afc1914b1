"""LHIO: range queries from the levels of all pairs of attributes (004 section 3.4).

Each attribute has nested partitions (`hierarchy.Levels`), and each pair a grid for every two of their levels. Users are
divided over all of these grids. 004 has (h + 1)^2 groups a pair; here

- level (0, 0) is not asked: its only cell holds everybody, which is known;
- level (l, 0) of a pair is level l of its first attribute alone, and the same for all pairs of that attribute: it is
  one group, which all of them use;

so that there are d h groups of one attribute and d (d - 1) / 2 h^2 of two, each as large as any other: 153 instead of
240 for six attributes of 64 values in parts of 4.

**Constrained inference.** The levels of a pair contradict each other. `inference="exact"` takes the table of single
values that is nearest to all of them by weighted least squares, `"two-pass"` what the paper does
(`hierarchy.Hierarchy`). Then the tables of all pairs are made to agree about the attributes that they share
(`consistency`). A pair uses one part in d - 1 of what the groups of one attribute say (their variance is d - 1 times
as large), and since the agreement is an average over the d - 1 pairs of that attribute, nothing is counted twice: with
equal domains the result is the least squares of all pairs at once.

**What is not done.** All this is linear, so the answers about one and two attributes that are read off the tables are
unbiased, with a known variance. The tables have a sum of one, and entries below zero, and are left so: of thousands of
entries that are mostly noise, those that Norm-Sub leaves make another table (six attributes of 64 values, 10^6 users,
epsilon 1: a mean error of .39 in place of .02). It is the answers that are moved into their limits (`combine`).
`PairTables.table` and `marginal` are the nearest ones without negative entries, where a distribution is needed.

**Levels that nobody was asked about** are even in the tables, and how far users are from even is taken to be as if all
of them were in one place, which may be any (`hio.supposed`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.mechanism import IF_GIVEN
from dither.errors import ParameterError
from dither.ranges.collection import MOST_COUNTS, Ranges
from dither.ranges.consistency import consistent
from dither.ranges.granularity import checked_nominal, oracle
from dither.ranges.grid import MOST_CELLS, MOST_VALUES, Grid
from dither.ranges.hierarchy import Hierarchy, Levels, nested
from dither.ranges.hio import deviations, supposed
from dither.ranges.model import movable
from dither.ranges.pair_completion import joint
from dither.ranges.queries import Queries
from dither.ranges.query_model import Answered, Model
from dither.ranges.user_groups import Collected, UserGroup

Floats = NDArray[np.float64]
Pair = tuple[int, int]

_MOST_ROUNDS = 50  # of a completion that is only compared with


@dataclass(frozen=True)
class LHIO(Ranges):
    """Range queries from all levels of all pairs of attributes.

    `inference` is `"exact"` for least squares, or `"two-pass"` for the way of 004. `nominal` lists the attributes whose
    values have no order: neighbours have nothing in common, so they have a cell for each value and no level above it.

    >>> mechanism = LHIO(shape=(64,) * 6, epsilon=1.0, n=10**6)
    >>> len(mechanism.groups), mechanism.groups[-1].stored()
    (153, ((4, 5), (64, 64), 'LocalHash(k=4096)', 1))
    """

    shape: tuple[int, ...]
    epsilon: float
    n: int
    branching: int = 4
    inference: str = "exact"
    nominal: tuple[int, ...] = field(default=(), metadata=IF_GIVEN)
    asked: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    examples = (
        {"shape": (2, 3), "epsilon": 1.0, "n": 1000},
        {"shape": (5, 4, 3), "epsilon": 0.5, "n": 100_000, "branching": 2},
        {"shape": (9, 2), "epsilon": 2.0, "n": 1000, "branching": 3, "inference": "two-pass"},
        {"shape": (2, 3), "epsilon": 1.0, "n": 1000, "branching": 2, "nominal": (1,)},
    )

    def _options(self) -> None:
        self._freeze(branching=checked_count("branching", self.branching, 2, MOST_VALUES))
        self._freeze(nominal=checked_nominal(self.nominal, len(self.shape)))
        if self.inference not in ("exact", "two-pass"):
            raise ParameterError('inference must be "exact" or "two-pass"')
        if len(self.shape) < 2:
            raise ParameterError("LHIO asks for pairs, so records need two attributes or more: take HDG for one")

    @cached_property
    def levels(self) -> tuple[Levels, ...]:
        """The nested partitions of each attribute."""
        return nested(self.shape, self.branching, self.nominal)

    def _chosen(self) -> Sequence[UserGroup]:
        self._fits()
        singles = [((j,), (cuts,)) for j, each in enumerate(self.levels) for cuts in each.cuts[1:]]
        pairs = [
            ((i, j), cuts)
            for i, j in combinations(range(len(self.shape)), 2)
            for cuts in product(self.levels[i].cuts[1:], self.levels[j].cuts[1:])
        ]
        self._enough(len(singles) + len(pairs))
        grids = [Grid(attributes, cuts) for attributes, cuts in [*singles, *pairs]]
        return [UserGroup(grid, oracle(grid.size, self.epsilon)) for grid in grids]

    def _fits(self) -> None:
        """Refuse more cells than a tally holds, before any of them is made."""
        one, two = sorted(self.shape)[-2:]
        cells = [sum(len(first) for first in each.starts[1:]) for each in self.levels]
        every = sum(cells) + sum(a * b for a, b in combinations(cells, 2))
        if one * two > MOST_CELLS or every > MOST_COUNTS:
            raise ParameterError(
                f"LHIO has a cell for each pair of values and each pair of coarser cells, {every:,} in all: more than "
                f"{MOST_CELLS:,} for one pair of attributes or {MOST_COUNTS:,} for all; take HDG, fewer attributes, or "
                "coarser values"
            )

    def hierarchies(self, collected: list[Collected]) -> dict[Pair, tuple[Hierarchy, dict[Pair, Floats]]]:
        """For each pair of attributes the variances of its levels, and their frequencies."""
        found = {(each.grid.attributes, each.grid.cuts): each for each in collected}
        users = sum(each.n for each in collected)
        return {pair: self._hierarchy(pair, found, users) for pair in combinations(range(len(self.shape)), 2)}

    def _hierarchy(self, pair: Pair, found: dict[Any, Collected], users: int) -> tuple[Hierarchy, dict[Pair, Floats]]:
        levels = tuple(self.levels[j] for j in pair)
        variance = np.full([each.height + 1 for each in levels], np.inf)
        values = {(0, 0): np.ones((1, 1))}
        variance[0, 0] = 0.0
        for level in np.ndindex(variance.shape):
            asked = tuple(j for j, number in zip(pair, level, strict=True) if number)
            cuts = tuple(self.levels[j].cuts[number] for j, number in zip(pair, level, strict=True) if number)
            own = found.get((asked, cuts))
            if own is not None and own.value is not None:
                parts = len(self.shape) - 1 if len(asked) == 1 else 1  # that so many pairs share it
                variance[level] = (own.variance + _unasked(own, users)) * parts
                values[level] = np.expand_dims(own.value, [axis for axis in (0, 1) if not level[axis]])
        return Hierarchy(levels, variance), values

    def _model(self, collected: list[Collected], n: int) -> "PairTables":
        fits = self.hierarchies(collected)
        if self.inference == "exact":
            tables = [tree.exact(values) for tree, values in fits.values()]
        else:
            tables = [tree.two_pass(values) for tree, values in fits.values()]
        grids = [Grid.equal(pair, self.shape, [self.shape[j] for j in pair]) for pair in fits]
        trees = {pair: tree for pair, (tree, _) in fits.items()}
        agreed = consistent(grids, tables, [_entry(tree) for tree in trees.values()], total=1.0)
        return PairTables(self.shape, dict(zip(fits, agreed, strict=True)), trees)

    def _notes(self) -> tuple[str, ...]:
        return (
            f"Users were divided over {len(self.groups):,} grids, one for each pair of levels. The tables of all pairs "
            f"were fitted to them ({self.inference}), and agree with each other.",
        )


def _unasked(own: Collected, users: int) -> float:
    """How far those who were asked are from all: the variance of a cell of even frequency, and of cells on average."""
    share = 1 / own.grid.size
    return share * (1 - share) * (1 / own.n - 1 / users) if own.n else 0.0


def _entry(tree: Hierarchy) -> float:
    """The variance of an entry, as far as it shows in sums over one attribute: these are what is made consistent."""
    each = []
    for axis, size in enumerate(tree.shape):
        masks = [np.ones((1, other), dtype=bool) for other in tree.shape]
        masks[axis] = np.eye(1, size, dtype=bool)
        each.append(float(tree.noise(masks)[0]) * size / np.prod(tree.shape))
    mean = float(np.mean(each))
    return mean if np.isfinite(mean) and mean > 0 else 1.0


def _loosened(z: Floats, singles: Floats, variances: Floats) -> Floats:
    """Tables of all states, mixed with the product of their singles as far as the noise of pairs may hide it.

    Where noise put a pair below its limits, the states that it was moved to are empty, and nothing would move there.
    """
    product = np.ones((len(z), 1))
    for single in singles.T:
        product = (product[:, :, None] * np.stack([1 - single, single], axis=1)[:, None, :]).reshape(len(z), -1)
    hidden = np.minimum(np.sqrt(variances.mean(axis=1)), 0.5)[:, None]
    return (1 - hidden) * z + hidden * product


@dataclass(frozen=True, eq=False)
class PairTables(Model):
    """What answers queries: for each pair of attributes a table of all their values. Entries may be below zero."""

    sizes: tuple[int, ...]
    tables: dict[Pair, Floats]
    trees: dict[Pair, Hierarchy]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes

    @cached_property
    def _margins(self) -> dict[int, Floats]:
        """How well the levels of each attribute are known, from all pairs that it is in."""
        margins: dict[int, Floats] = {}
        for pair, tree in self.trees.items():
            for axis, j in enumerate(pair):
                own = np.moveaxis(tree.precision, axis, 0)[:, 0] / tree.shape[1 - axis]
                margins[j] = own + margins.get(j, 0.0)
        return margins

    @cached_property
    def _precision(self) -> dict[Pair, Floats]:
        """Of each pair's tree, with what all pairs of an attribute tell about it put together."""
        margins, known = self._margins, {}
        for (i, j), tree in self.trees.items():
            own = tree.precision.copy()
            own[1:, 0], own[0, 1:] = margins[i][1:] * self.shape[j], margins[j][1:] * self.shape[i]
            known[i, j] = supposed(own, tree.shape)
        return known

    def table(self, one: int, other: int) -> Floats:
        """The nearest distribution of two attributes."""
        if one > other:
            return self.table(other, one).T
        return self.trees[one, other].nonnegative(self.tables[one, other])

    def marginal(self, attribute: int) -> tuple[Floats, Floats]:
        """The frequencies of the values of one attribute, and their standard errors; none is negative."""
        pair, axis = self._home(attribute)
        levels = self.trees[pair].levels[axis]
        widths = np.array([levels.size / len(first) for first in levels.starts])
        with np.errstate(divide="ignore"):
            variance = 1 / np.maximum(-np.diff(self._margins[attribute], append=0.0) / widths, 0.0)
        tree = Hierarchy((levels,), variance)  # of one attribute, that knows as much
        return tree.nonnegative(self.tables[pair].sum(axis=1 - axis)), deviations(tree)

    def _home(self, attribute: int) -> tuple[Pair, int]:
        """A pair that the attribute is in, and its place there. Pairs agree, so that any will do."""
        other = 0 if attribute else 1
        return (min(attribute, other), max(attribute, other)), int(attribute > other)

    def answers(self, queries: Queries) -> Answered:
        """The share of users inside each query."""
        none = np.zeros(len(queries))
        found = Answered(none + 1, none.copy(), none.copy(), none.astype(np.int64), np.ones(len(queries), dtype=bool))
        counts = np.array([len(attributes) for attributes in queries.attributes], dtype=np.intp)
        for count in np.unique(counts[counts > 0]).tolist():
            rows = np.flatnonzero(counts == count)
            for whole, own in zip(found, self._answers(queries, rows, count), strict=True):
                whole[rows] = own
        return found

    def _answers(self, queries: Queries, rows: NDArray[np.intp], count: int) -> Answered:
        """Of queries about equally many attributes.

        What pairs leave open about three or more is put in doubt by half the distance to another completion of them.
        """
        parts = np.zeros((2, len(rows), count + count * (count - 1) // 2))  # singles and pairs: values and variances
        kinds: dict[tuple[int, ...], list[int]] = {}
        for place, row in enumerate(rows.tolist()):
            kinds.setdefault(queries.attributes[row], []).append(place)
        for attributes, places in kinds.items():
            masks = [queries.masks[j][rows[places]] for j in attributes]
            alone = [self._alone(j, mask) for j, mask in zip(attributes, masks, strict=True)]
            sides = combinations(zip(attributes, masks, strict=True), 2)
            both = [self._both((i, j), one, other) for (i, one), (j, other) in sides]
            parts[:, places] = np.array([*alone, *both]).transpose(1, 2, 0)
        (singles, pairs), spread = np.split(np.clip(parts[0], 0.0, 1.0), [count], axis=1), parts[1]
        fitted, doubt = joint(singles, pairs, "entropy"), np.zeros(len(rows))
        slopes = np.eye(spread.shape[1])[-1]  # up to two attributes, the last of these is the answer
        if count > 2:
            doubt = np.abs(fitted.answer - joint(singles, pairs, "weighted update", most=_MOST_ROUNDS).answer) / 2
            slopes = movable(_loosened(fitted.z, singles, spread[:, count:]), singles)
        noise = np.sqrt((slopes**2 * spread).sum(axis=1))
        return Answered(fitted.answer, noise, doubt, fitted.iterations, fitted.converged)

    def _alone(self, attribute: int, mask: Floats) -> tuple[Floats, Floats]:
        pair, axis = self._home(attribute)
        masks = [np.ones((len(mask), self.shape[j])) for j in pair]
        masks[axis] = mask
        return self._both(pair, *masks)

    def _both(self, pair: Pair, one: Floats, other: Floats) -> tuple[Floats, Floats]:
        value = np.einsum("qa,qa->q", one @ self.tables[pair], other)
        return value, self.trees[pair].noise((one, other), self._precision[pair])
