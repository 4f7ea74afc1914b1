"""HIO: range queries about many attributes from all combinations of levels (Wang et al. 2019; 004 section 3.3).

Every attribute has its nested partitions (`hierarchy.Levels`). A choice of one level of each attribute is a *group*,
and its cells are boxes: one cell of each attribute. Users are divided over all groups but the one whose only box is
everything, and each reports its box by local hashing. A query is made up of the fewest cells of each attribute that
it restricts, and of the single cell of any other; the answer is the sum of the boxes, which are spread over some tens
of groups.

It is a baseline: nothing is assumed about the data, answers are unbiased, and with (h + 1)^d groups there are few users
in each. 64 values of 6 attributes in parts of 4 make 4,095 groups.

**Shared functions.** A group may have 2^36 boxes, so its frequencies cannot be written down, and a tally must be a sum.
So C numbered hash functions of each group are shared by its users (`mechanisms.hash_seeds`): the tally counts reports
by function and hash value, and the support of any box is read off it when a query asks. With C at least about the
number of users in a group, few of them share a function. What collisions still do is part of the standard errors: over
the choice of functions each box has a variance of at most 1 / ((g - 1) C) from them (`mechanisms.cohorts`, with the sum
of squared frequencies at its largest, one).

**Noise.** The supports of two boxes by one report are independent, so all variances add up: for a group of m reports,
weight^2 times the variance of the oracle over m, for each box. That its users stand for all adds F (1 - F) / m, where F
is the share of users in the boxes of that group; less F (1 - F) / n for all together, since everybody is in some group.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.composite_channels import PublicMixture
from dither.core.domains import WHOLE_NUMBERS
from dither.core.draw import Rows, Tape, positions
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import Sums
from dither.core.mechanism import IF_GIVEN, Mechanism, Moments
from dither.core.structure import BOXES
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.kernels.hashing import SPREAD, halves, mixed, public_seeds
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.hash_seeds import HashedReports, HashSeeds
from dither.mechanisms.localhash import MOST_BUCKETS, best_integer
from dither.ranges.axes import Axes
from dither.ranges.collection import MOST_USERS, WholeNumberRecords
from dither.ranges.granularity import checked_nominal
from dither.ranges.grid import MOST_VALUES, checked_shape
from dither.ranges.hierarchy import Hierarchy, Levels, nested
from dither.ranges.queries import Queries
from dither.ranges.query_model import Answered, Model

if TYPE_CHECKING:
    from dither.ranges.range_estimate import RangeEstimate  # what is estimated

MOST_COUNTS = 1 << 24  # of a tally: 128 MB
MOST_BOXES = 1 << 64  # of a group: they are numbered in one word
_LEAST_FUNCTIONS, _USUAL_FUNCTIONS = 4, 16
_MOST_LISTED = 4096
_BLOCK = 1 << 20  # boxes of a query, or hashes, at a time

Numbers = NDArray[np.uint64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Boxes:
    """The groups: all choices of one level of each attribute, but for the single cells of all; and their boxes.

    Groups are numbered with the last attribute's level fastest, and boxes of a group with its last attribute's cell.
    """

    shape: tuple[int, ...]
    branching: int
    nominal: tuple[int, ...] = ()

    @cached_property
    def levels(self) -> tuple[Levels, ...]:
        """The nested partitions of each attribute."""
        return nested(self.shape, self.branching, self.nominal)

    @property
    def heights(self) -> tuple[int, ...]:
        """How many levels each attribute has."""
        return tuple(each.height + 1 for each in self.levels)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return prod(self.heights) - 1

    def group(self, levels: tuple[int, ...]) -> int:
        """The group with these levels; -1 for that of everything, which nobody is in."""
        return int(np.ravel_multi_index(levels, self.heights)) - 1

    def numbers(self, records: NDArray[np.integer], group: NDArray[np.integer]) -> Numbers:
        """The number of the box that each record lies in, in its group."""
        levels = np.unravel_index(group.astype(np.int64) + 1, self.heights)
        found = np.zeros(len(records), dtype=np.uint64)
        for j, (each, level) in enumerate(zip(self.levels, levels, strict=True)):
            cells, count = self._tables[j]
            found *= count[level]
            found += cells.take(level * each.size + records[:, j])
        return found

    @cached_property
    def _tables(self) -> list[tuple[Numbers, Numbers]]:
        """Of each attribute: the cell of each value, level by level; and how many cells each level has."""
        return [
            (
                np.concatenate([each.partition(level) for level in range(each.height + 1)]).astype(np.uint64),
                np.array([len(first) for first in each.starts], dtype=np.uint64),
            )
            for each in self.levels
        ]


def box_buckets(seeds: Numbers, boxes: Numbers, g: int) -> Numbers:
    """The hash value of each box under the function with that seed; the two arrays broadcast.

    `kernels.hashing` hashes 32 bits. Here the upper half of a box's number goes first, and its result replaces half of
    the seed under which the lower half is hashed: two boxes meet before the last step with a chance of 2^-32.
    """
    low, high = halves(seeds)
    upper, lower = (boxes >> np.uint64(32)).astype(np.uint32), boxes.astype(np.uint32)
    scrambled = mixed(lower * SPREAD, mixed(upper * SPREAD, low, high), high)
    return np.right_shift(scrambled.astype(np.uint64) * np.uint64(g), np.uint64(32))


@dataclass(frozen=True)
class HIO(Mechanism["RangeEstimate"]):
    """Range queries from all combinations of levels of all attributes: the honest baseline.

    `n` is the expected number of users. `cohorts` is the number of hash functions of a group, and `g` that of their
    values; None takes what suits n and epsilon. `nominal` lists the attributes whose values have no order: they have a
    cell for each value, and no level above it but that of everybody.

    >>> HIO(shape=(64, 64), epsilon=1.0, n=10**6)
    HIO(shape=(64, 64), epsilon=1.0, n=1000000, branching=4, g=4, cohorts=66667, nominal=())
    """

    shape: tuple[int, ...]
    epsilon: float
    n: int
    branching: int = 4
    g: int | None = None
    cohorts: int | None = None
    nominal: tuple[int, ...] = field(default=(), metadata=IF_GIVEN)
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "ranges"
    structure = BOXES
    takes = WHOLE_NUMBERS
    statistics = ("ranges",)
    planned = False  # Copula comes out ahead
    examples = (
        {"shape": (2, 3), "epsilon": 1.0, "n": 1000, "branching": 2, "cohorts": 4},
        {"shape": (5, 2, 2), "epsilon": 0.5, "n": 100_000, "cohorts": 5},
        {"shape": (3, 4), "epsilon": 2.0, "n": 1000, "cohorts": 3},
        {"shape": (4, 3), "epsilon": 1.0, "n": 1000, "branching": 2, "cohorts": 3, "nominal": (0,)},
    )

    def _validate(self) -> None:
        self._freeze(shape=checked_shape(self.shape), n=checked_count("n", self.n, 1, MOST_USERS))
        self._freeze(branching=checked_count("branching", self.branching, 2, MOST_VALUES))
        self._freeze(nominal=checked_nominal(self.nominal, len(self.shape)))
        if prod(self.shape) > MOST_BOXES:
            raise ParameterError(
                "HIO numbers all records there may be in 64 bits: ask for fewer attributes, or coarser ones"
            )
        groups = self.boxes.groups
        if self.n < groups:
            raise ParameterError(
                f"HIO of {len(self.shape)} attributes divides users over {groups:,} groups: it needs at least "
                f"{groups:,} users, and thousands in each to learn from; ask for fewer attributes, or take HDG"
            )
        if self.g is None:  # the best for many boxes, if that leaves room for functions
            room = max(2, MOST_COUNTS // (groups * _USUAL_FUNCTIONS))
            self._freeze(g=min(best_integer(_MOST_LISTED, self.epsilon, 0.0), room))
        self._freeze(g=checked_count("g", self.g, 2, MOST_BUCKETS))  # type: ignore[arg-type]
        most = MOST_COUNTS // (groups * self._g)
        if most < _LEAST_FUNCTIONS:
            raise ParameterError(
                f"HIO has {groups:,} groups here, and a tally of {self._g} hash values and several functions of each "
                f"does not fit into {MOST_COUNTS:,} counts; ask for fewer attributes, or take HDG"
            )
        wanted = max(_USUAL_FUNCTIONS, -(-self.n // groups))
        cohorts = min(wanted, most) if self.cohorts is None else self.cohorts
        self._freeze(cohorts=checked_count("cohorts", cohorts, 1, most))

    @property
    def _g(self) -> int:
        return self.g or 2

    @cached_property
    def boxes(self) -> Boxes:
        """The groups of users, and their boxes."""
        return Boxes(self.shape, self.branching, self.nominal)

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(self.epsilon, favoured=1, outputs=self._g, weights=self.weights)

    @cached_property
    def functions(self) -> HashSeeds:
        """All hash functions: `cohorts` of the first group, then of the second, and so on."""
        return HashSeeds(self.boxes.groups * (self.cohorts or 1), "function")

    @cached_property
    def reading(self) -> "BoxReading":
        return BoxReading(self)

    def report_worth(self) -> Worths:
        """What a report is worth to a box of its group, of which a liar chooses one."""
        (worth,) = self.reading.plain.worths(at_once=None)
        note = "An answer adds up boxes of several groups: what a liar can do to it is the sum over those he speaks to."
        found = worth._replace(question="box", items=1, note=note)
        return (found.asked_of(Fraction(1, self.boxes.groups)),)

    def honest_sums(self, tally: Tally) -> Sums:
        law = self.law
        return self.layout.honest_sums(tally, float((1 - law.inside) / (law.outputs - 1)), float(law.inside))

    @cached_property
    def layout(self) -> HashedReports:
        return HashedReports(self.functions, self._g)

    def channel(self) -> PublicMixture:
        def given(x: int, tag: int) -> list[Fraction]:
            record = np.array([np.unravel_index(x, self.shape)])
            box = self.boxes.numbers(record, np.array([tag // (self.cohorts or 1)]))
            return self.law.row(int(box_buckets(self.functions.seed(tag), box, self._g)[0]))

        return PublicMixture(self.law, self.functions.count, prod(self.shape), given)

    def inputs(self) -> NDArray:
        if prod(self.shape) <= _MOST_LISTED:
            return np.array(list(product(*(range(size) for size in self.shape))))
        return self.reading.domain.points(16).astype(np.int64)

    @property
    def row_words(self) -> int:
        return 2

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        seeds = self.functions.draw(reports, tape, rows)
        boxes = self.boxes.numbers(values.astype(np.int64, copy=False), reports["function"] // (self.cohorts or 1))
        y = box_buckets(seeds, boxes, self._g) + positions(self.law, tape, rows)
        reports["value"] = np.where(y >= self._g, y - np.uint64(self._g), y)


@dataclass(frozen=True, eq=False)
class BoxReading:
    """How a tally is read: as an estimate that answers queries."""

    mechanism: HIO

    @property
    def domain(self) -> WholeNumberRecords:
        """Records of whole numbers."""
        return WholeNumberRecords.sized(self.mechanism.shape)

    @cached_property
    def plain(self) -> Frequencies:
        """The reading of one box by the reports of its group."""
        return Frequencies(2, self.mechanism.law.inside, Fraction(1, self.mechanism.law.outputs))

    def worst_variance(self, share: float = 1.0) -> float:
        """Of one user's report about a rare box, of which only the users of its group say something."""
        return self.mechanism.boxes.groups * float(self.plain.variance(0.0)) / share

    def moments(self, x: Any) -> Moments:
        """Boxes have no moments in common."""
        raise ParameterError("the boxes of each group have moments of their own: LocalHash(k, epsilon).moments(box)")

    def model(self, tally: Tally) -> "HierarchyModel":
        """What answers queries."""
        hio = self.mechanism
        counts = tally.counts.reshape(hio.boxes.groups, hio.cohorts or 1, hio.law.outputs)
        return HierarchyModel(hio.boxes, counts, self.plain, tally.n)

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> "RangeEstimate":
        """A `RangeEstimate`."""
        from dither.ranges.range_estimate import RangeEstimate  # a device has no use for it

        note = (
            f"The users were divided over {self.mechanism.boxes.groups:,} groups, one for each choice of levels; an "
            "answer adds up boxes of several groups. It is unbiased, and may be below 0 or above 1."
        )
        axes = Axes.of_shape(self.mechanism.shape)
        return RangeEstimate.of(self.model(tally), axes, tally.n, guarantee, source, (note,))


@dataclass(frozen=True, eq=False)
class HierarchyModel(Model):
    """What answers queries: the reports by group, function and hash value."""

    boxes: Boxes
    counts: NDArray[np.int64]
    plain: Frequencies
    n: int

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return self.boxes.shape

    def answers(self, queries: Queries) -> Answered:
        """The share of users inside each query. It is unbiased, may be below 0 or above 1, and leaves no doubt."""
        value, noise, within = (np.zeros(len(queries)) for _ in range(3))
        kinds: dict[tuple[int, ...], list[int]] = {}
        for number, attributes in enumerate(queries.attributes):
            kinds.setdefault(attributes, []).append(number)
        for attributes, chosen in kinds.items():
            for rows, group, number, boxes, weight in self._made_up(queries, attributes, np.array(chosen)):
                frequency, variance = self._frequencies(group, boxes)
                part = np.bincount(rows, weight * frequency[number], len(queries))
                value += part
                noise += np.bincount(rows, weight**2 * variance[number], len(queries))
                m = int(self.counts[group].sum()) if group >= 0 else 0
                if m:
                    share = np.clip(part, 0.0, 1.0)
                    noise += share * (1 - share) / m
                    within += share
        share = np.clip(within, 0.0, 1.0)
        noise = np.sqrt(np.maximum(noise - share * (1 - share) / self.n, 0.0))
        once, done = np.zeros(len(queries), dtype=np.int64), np.ones(len(queries), dtype=bool)
        return Answered(value, noise, np.zeros(len(queries)), once, done)

    def marginal(self, attribute: int) -> tuple[Floats, Floats]:
        """The frequencies of the values of one attribute, and their standard errors; none is negative."""
        tree, fitted = self._fitted((attribute,))
        return fitted, deviations(tree)

    def table(self, one: int, other: int) -> Floats:
        """The frequencies of all pairs of values; none is negative."""
        return self._fitted((one, other))[1] if one < other else self._fitted((other, one))[1].T

    def _fitted(self, attributes: tuple[int, ...]) -> tuple[Hierarchy, Floats]:
        """The nearest distribution of some attributes by least squares over their levels; and what these tell."""
        levels = tuple(self.boxes.levels[j] for j in attributes)
        variance = np.zeros([each.height + 1 for each in levels])
        values = {(0,) * len(levels): np.ones((1,) * len(levels))}
        for at in list(np.ndindex(variance.shape))[1:]:
            chosen = dict(zip(attributes, at, strict=True))
            group = self.boxes.group(tuple(chosen.get(j, 0) for j in range(len(self.shape))))
            shape = tuple(len(each.starts[level]) for each, level in zip(levels, at, strict=True))
            values[at] = self._frequencies(group, np.arange(prod(shape), dtype=np.uint64))[0].reshape(shape)
            variance[at] = self._typical(group, prod(shape))
        tree = Hierarchy(levels, variance)
        return tree, tree.nonnegative(tree.exact(values))

    def _typical(self, group: int, boxes: int) -> float:
        """The variance of a box of even frequency, and how far the users of its group are from all."""
        m, share = int(self.counts[group].sum()), 1 / boxes
        if m == 0:
            return np.inf
        functions, g = self.counts.shape[1:]
        others = share * (1 - share) * (1 / m - 1 / self.n)
        return float(self.plain.variance(share)) / m + 1 / ((g - 1) * functions) + others

    # Which boxes -----------------------------------------------------------------------------------------------------

    def _made_up(
        self, queries: Queries, attributes: tuple[int, ...], chosen: NDArray[np.intp]
    ) -> Iterator[tuple[NDArray[np.intp], int, NDArray[np.intp], Numbers, Floats]]:
        """For queries about the same attributes, group by group: which of some boxes each needs, and by what weight."""
        covers = [self.boxes.levels[j].covers(queries.masks[j][chosen]) for j in attributes]
        cells = [[_Cells.of(weights) for weights in cover] for cover in covers]
        for levels in product(*(range(len(cover)) for cover in cells)):
            sides = [cover[level] for cover, level in zip(cells, levels, strict=True)]
            all_levels = dict(zip(attributes, levels, strict=True))
            group = self.boxes.group(tuple(all_levels.get(j, 0) for j in range(len(self.shape))))
            each = np.prod([side.count for side in sides], axis=0) if sides else np.ones(len(chosen), dtype=np.int64)
            for block in _blocks(each):
                rows, boxes, weight = _crossed(sides, block)
                different, number = np.unique(boxes, return_inverse=True)
                yield chosen[rows], group, number, different, weight

    # What the reports say about boxes --------------------------------------------------------------------------------

    def _frequencies(self, group: int, boxes: Numbers) -> tuple[Floats, Floats]:
        """Unbiased frequencies of boxes of one group, and their variances, given the users in the group."""
        if group < 0:  # everybody is in the box of everything
            return np.ones(len(boxes)), np.zeros(len(boxes))
        counts = self.counts[group]
        m = int(counts.sum())
        if m == 0:  # nobody was asked: even frequencies, which are not further off than one
            levels = np.unravel_index(group + 1, self.boxes.heights)
            cells = prod(len(each.starts[level]) for each, level in zip(self.boxes.levels, levels, strict=True))
            return np.full(len(boxes), 1 / cells), np.ones(len(boxes))
        p, q = float(self.plain.p), float(self.plain.q)
        value = (self._supports(group, boxes) / m - q) / (p - q)
        collisions = 1 / ((counts.shape[1] - 1) * counts.shape[0])
        return value, self.plain.variance(value) / m + collisions

    def _supports(self, group: int, boxes: Numbers) -> NDArray[np.int64]:
        """How many reports of the group have a function that sends the box to their value."""
        counts = self.counts[group]
        functions, g = counts.shape
        used = np.flatnonzero(counts.any(axis=1))
        flat, first = counts[used].reshape(-1), g * np.arange(len(used))[:, None]
        seeds = self._seeds[group * functions + used][:, None]
        total = np.empty(len(boxes), dtype=np.int64)
        step = max(1, _BLOCK // len(used))
        for at in range(0, len(boxes), step):
            y = box_buckets(seeds, boxes[at : at + step], g).astype(np.intp)
            y += first
            total[at : at + step] = flat.take(y).sum(axis=0)
        return total

    @cached_property
    def _seeds(self) -> Numbers:
        return public_seeds(self.counts.shape[0] * self.counts.shape[1])


def supposed(precision: Floats, shape: tuple[int, ...]) -> Floats:
    """How well levels are known, where those that nobody was asked about are taken to be even.

    If everybody is in one place, which may be any of N, a query about a share v of all places has an answer of variance
    v (1 - v) around v, and each level its part in it: as if it were known with a precision of N.
    """
    return np.where(precision > 0, precision, float(prod(shape)))


def deviations(tree: Hierarchy) -> Floats:
    """The standard errors of the single values of one attribute; what no level shows is as `supposed`."""
    (levels,) = tree.levels
    kept = np.column_stack([np.repeat(1 / width, width) for width in levels.widths])
    return np.sqrt(np.diff(kept, axis=1, prepend=0.0) @ (1 / supposed(tree.precision, tree.shape)))


@dataclass(frozen=True, eq=False)
class _Cells:
    """Of one attribute and level: the cells that make up each query, one query after the other."""

    count: NDArray[np.int64]
    first: NDArray[np.int64]
    cell: NDArray[np.int64]
    weight: Floats
    number: int  # of all cells of the level

    @classmethod
    def of(cls, weights: Floats) -> "_Cells":
        rows, cells = np.nonzero(weights)
        count = np.bincount(rows, minlength=len(weights))
        return cls(count, np.cumsum(count) - count, cells, weights[rows, cells], weights.shape[1])


def _crossed(sides: list[_Cells], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], Numbers, Floats]:
    """All boxes of these queries, one cell of each side: of which query, their numbers and their weights."""
    boxes, weight = np.zeros(len(rows), dtype=np.uint64), np.ones(len(rows))
    for side in sides:
        times = side.count[rows]
        entry = np.repeat(np.arange(len(rows)), times)
        within = np.arange(len(entry)) - np.repeat(np.cumsum(times) - times, times)
        place = side.first[rows][entry] + within
        boxes = boxes[entry] * np.uint64(side.number) + side.cell[place].astype(np.uint64)
        weight, rows = weight[entry] * side.weight[place], rows[entry]
    return rows, boxes, weight


def _blocks(each: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The numbers of the queries that have boxes, some at a time, so that these do not fill the memory."""
    rows = np.flatnonzero(each)
    block = np.cumsum(each[rows]) // _BLOCK
    for number in np.unique(block):
        yield rows[block == number]
