"""Collection: every user answers one grid, drawn without looking at the data (004 section 4.1).

A method for range queries says which grids are asked, how often each, and with which frequency oracle; the rest is the
same for all of them, and stands here.

- **Device.** Draws one of the groups with probability share / total, by an exact uniform integer below the total. Looks
  up the cell of its record in the grid of that group (of no other), and reports it through the oracle of the group.
- **Report.** The group, and the report of its oracle.
- **Tally.** For each group the number of its reports, and the counts of its oracle, one after the other.
- **Guarantee.** The group is a public tag, drawn without the record, and given the group a report is that of an
  epsilon-private oracle about a function of the record. So the whole is as private as its worst oracle, whose
  integers are certified; here all have the same epsilon, and its largest ratio is attained.

Groups are drawn on the device, so their sizes vary; frequencies are divided by the reports that did arrive, and are
unbiased given these numbers. The users of a group stand for all, and `Collected.variance_of` has a part for this.

**Stored.** Which grids are asked was chosen when the mechanism was made, from public facts, and is kept in the field
`asked` as plain whole numbers and recipes. A stored plan is never chosen again.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import nan, prod
from sys import maxsize
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Channel
from dither.core.checks import checked_count, checked_list
from dither.core.composite_channels import Independent, PublicMixture
from dither.core.domains import NUMBERS, WHOLE_NUMBERS, Categories, Records, unmasked
from dither.core.draw import TAG, Rows, Tape, below
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.honest_sums import Sums
from dither.core.lattice import split
from dither.core.mechanism import Mechanism, Moments
from dither.core.parallel import each_chunk, small_matrices
from dither.core.short_weights import short_components
from dither.core.structure import GRIDS
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.errors import DomainError, EmptyError, ParameterError, RowError, TallyError
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.multi_attribute import MultiAttribute, taking_turns
from dither.mechanisms.spec import from_spec
from dither.ranges.grid import checked_shape
from dither.ranges.user_groups import MOST_SHARES, WAVE, Collected, Readable, UserGroup

if TYPE_CHECKING:
    from dither.estimation.linear_readings import LinearReading
    from dither.ranges.query_model import Model
    from dither.ranges.range_estimate import RangeEstimate  # what is estimated

MOST_GROUPS = 1 << 16
MOST_COUNTS = 1 << 26  # of all grids together: half a gigabyte
MOST_USERS = 1 << 60
_MOST_LISTED = 4096
_CHECKED = 1 << 17  # values at a time


@dataclass(frozen=True)
class WholeNumberRecords(Records):
    """Records of whole numbers: attribute j has the values 0, ..., sizes[j] - 1."""

    kind: ClassVar[str] = WHOLE_NUMBERS
    dimension: ClassVar[str] = "attribute"

    @property
    def parameters(self) -> dict[str, Any]:
        """By which a mechanism for such records is made."""
        return {"shape": self.shape}

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(domain.k for domain in self.domains)  # type: ignore[union-attr]

    @classmethod
    def sized(cls, shape: Sequence[int]) -> "WholeNumberRecords":
        """Of these domain sizes."""
        return cls(len(shape), tuple(Categories(size) for size in shape))

    def check(self, values: Any, invalid: Any = "error") -> NDArray:
        """As `Records.check`. A table of integers is looked at in place, and not copied."""
        values = unmasked(values)
        plain = isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "iu"
        if plain and invalid == "error" and self._inside(values):
            return values
        return super().check(values, invalid)

    def _placed(self, error: RowError, j: int) -> DomainError:
        listed = f"pass invalid=[...] with a category for each of the {self.d} attributes, to put it in place of such"
        return super()._placed(error.but(substitute=f"{listed} values"), j)

    def _inside(self, table: NDArray[np.integer]) -> bool:
        """Whether all values of a table of integers are inside."""
        if table.shape[1] != self.d:
            return False
        sizes = np.array([domain.k for domain in self.domains])  # type: ignore[union-attr]
        least = int(sizes.min())
        found: list[bool] = []

        def look(rows: slice) -> None:
            part = table[rows]
            fine = part.min() >= 0 and (part.max() < least or (part < sizes).all())
            found.append(bool(fine))

        each_chunk(look, len(table), max(1, _CHECKED // self.d))
        return all(found)


@dataclass(frozen=True, eq=False)
class Groups(MultiAttribute):
    """The groups as dimensions, of which a user reports one: its value is the record's cell in the group's grid."""

    asked: tuple[UserGroup, ...]
    shape: tuple[int, ...]

    tag: ClassVar[str] = "group"

    @property
    def domain(self) -> WholeNumberRecords:
        """Records of whole numbers."""
        return WholeNumberRecords.sized(self.shape)

    # On the device ---------------------------------------------------------------------------------------------

    @cached_property
    def _drawn_groups(self) -> NDArray[np.unsignedinteger]:
        """Each group as often as its share says."""
        groups = np.arange(self.d, dtype=np.min_scalar_type(max(1, self.d - 1)))
        return np.repeat(groups, [asked.share for asked in self.asked])

    def _choose(self, tape: Tape, rows: Rows) -> NDArray[np.unsignedinteger]:
        drawn = below(len(self._drawn_groups), tape, rows, lane=TAG)
        return self._drawn_groups.take(drawn.astype(np.int64))[:, None]

    def _read(self, values: NDArray, chosen: NDArray[np.unsignedinteger] | None) -> NDArray:
        """The cell of each record in its grid; as a number from -1 to 1 where the oracle is one for numbers.

        What is added up for the cell stands in tables, one for each different axis, one after the other.
        """
        group = np.zeros(len(values), dtype=np.intp) if chosen is None else chosen[:, 0].astype(np.intp)
        axes, table = self._tables
        flat, first = np.ascontiguousarray(values).reshape(-1), np.arange(0, values.size, len(self.shape))
        cells = np.zeros(len(values), dtype=np.int64)
        for attribute, start in axes:
            place = attribute.take(group)
            place += first
            at = flat.take(place).astype(np.int64, copy=False)
            at += start.take(group)
            cells += table.take(at)
        if not self._any_numbers:
            return cells
        size = self._inputs.take(group)
        return np.where(self._numbers.take(group), (2 * cells + 1) / size - 1, cells)

    @cached_property
    def _tables(self) -> tuple[list[tuple[NDArray[np.int64], NDArray[np.int64]]], NDArray[np.int32]]:
        """Of each axis, for every group, the attribute and where its table begins; and all tables.

        An axis that a grid has not reads zeros.
        """
        axes = max(len(asked.grid.attributes) for asked in self.asked)
        attribute, start = (np.zeros((axes, self.d), dtype=np.int64) for _ in range(2))
        tables: dict[Any, int] = {}
        listed: list[NDArray[np.int32]] = []

        def place(key: Any, table: NDArray) -> int:
            if key not in tables:
                tables[key] = sum(map(len, listed))
                listed.append(table.astype(np.int32))
            return tables[key]

        for group, asked in enumerate(self.asked):
            grid = asked.grid
            for axis in range(axes):
                if axis < len(grid.attributes):
                    attribute[axis, group] = grid.attributes[axis]
                    start[axis, group] = place((grid.cuts[axis], grid.strides[axis], asked.scale), asked.table(axis))
                else:
                    start[axis, group] = place(None, np.zeros(self.shape[0]))
        return list(zip(attribute, start, strict=True)), np.concatenate(listed)

    @cached_property
    def _inputs(self) -> NDArray[np.int64]:
        return np.array([asked.inputs for asked in self.asked])

    @cached_property
    def _numbers(self) -> NDArray[np.bool_]:
        """Which groups have an oracle for numbers."""
        return np.array([self.part(group).reading.domain.kind == NUMBERS for group in range(self.d)])

    @cached_property
    def _any_numbers(self) -> bool:
        return bool(self._numbers.any())

    @cached_property
    def _samplers(self) -> NDArray[np.intp]:
        """For each group the first part whose sampler is the same: that of local hashing does not know k."""
        kinds = [part.sampler for part in self.parts]
        return np.array([kinds.index(kinds[part]) for part in self.which], dtype=np.intp)

    @cached_property
    def _small_samplers(self) -> NDArray[np.integer]:
        return self._samplers.astype(np.min_scalar_type(len(self.parts)))

    @cached_property
    def _different_samplers(self) -> list[int]:
        return np.unique(self._samplers).tolist()

    def _turns(self, chosen: NDArray | None, users: int):
        numbers = self._different_samplers
        if len(numbers) == 1:
            yield numbers[0], slice(None)
            return
        assert chosen is not None
        yield from taking_turns(self._small_samplers.take(chosen[:, 0]), numbers)

    # Reading ---------------------------------------------------------------------------------------------------

    @property
    def odds(self) -> NDArray[np.float64]:
        shares = np.array([asked.share for asked in self.asked], dtype=np.float64)
        return shares / shares.sum()

    def collected(self, tally: Tally) -> list[Collected]:
        """What came back about each grid, in the order of the groups."""
        return [self._collected(group, self.marginal(tally, group), tally.n) for group in range(self.d)]

    def _collected(self, group: int, own: Tally, users: int) -> Collected:
        grid, part = self.asked[group].grid, self.part(group)
        value, variance, held, middles = None, nan, 0.0, None
        if self.asked[group].recipe == WAVE:
            middles = self.asked[group].middles
        if reading := _frequencies(part):
            value, variance = np.full(grid.size, 1 / grid.size), np.inf
            if own.n:
                rare, common = (float(reading.variance(share)) / own.n for share in (0.0, 1.0))
                value, variance, held = reading.value(own), rare, common - rare
            value = value.reshape(grid.shape)
        return Collected(grid, value, variance, own.n, own, part, users, held, middles)

    def worst_variance(self, share: float = 1.0) -> float:
        """Of one user's report, averaged over groups: each is reported by its share of the users."""
        odds = self.odds
        each = [self.part(group).reading.worst_variance(share * odds[group]) for group in range(self.d)]
        return float(np.mean(np.array(each) / odds))

    def moments(self, x: Any) -> Moments:
        """A grid's cells have moments of their own."""
        raise ParameterError("the cells of each grid have moments of their own: mechanism.oracle(group).moments(cells)")

    # Channel ---------------------------------------------------------------------------------------------------

    def channel(self) -> Channel:
        """The report of one oracle; which one it is, is a public tag."""
        total = len(self._drawn_groups)
        return PublicMixture(
            Independent(self._factors, 1),
            self.d,
            prod(self.shape),
            self._given,
            outputs=sum(factor.shape[1] for factor in self._factors),
            odds=tuple(Fraction(asked.share, total) for asked in self.asked),
            attained=not self._numbers.any(),
        )

    def _given(self, x: int, tag: int) -> list[Fraction]:
        record = np.array([np.unravel_index(x, self.shape)])
        asked, factor = self.asked[tag], self._factors[tag]
        at = enumerate(record[0, list(asked.grid.attributes)].tolist())
        cell = sum(int(asked.table(axis)[value]) for axis, value in at)
        if not self._numbers[tag]:
            return factor.row(cell)
        # A number is rounded to the lattice of its oracle, at random between two neighbours.
        lower, fraction, digits = split(np.array([(2 * cell + 1) / asked.inputs - 1]), factor.shape[0] - 1, 64)
        up = Fraction(int(fraction[0]), 1 << digits)
        rows = [factor.row(int(lower[0])), factor.row(min(int(lower[0]) + 1, factor.shape[0] - 1))]
        return [(1 - up) * one + up * other for one, other in zip(*rows, strict=True)]

    def inputs(self) -> NDArray:
        """All records if they are few, else some corners."""
        if prod(self.shape) <= _MOST_LISTED:
            return np.array(list(product(*(range(size) for size in self.shape))))
        return self.domain.points(16).astype(np.int64)


def _frequencies(part: Mechanism) -> Frequencies | None:
    """How the oracle of a grid's cells is read; None of one for numbers, or with another reading."""
    return part.reading if isinstance(part.reading, Frequencies) else None


_ANSWERS = (
    "An answer adds up cells and is fitted to all grids: it has no bound of its own here. What is stated is what the "
    "fit starts from, the unbiased shares of the cells."
)


@dataclass(frozen=True, eq=False)
class RangeReading:
    """How a tally is read: as an estimate that answers queries.

    `beside` is what other reports tell about the shares of the values of single attributes, by their places. `smoothed`
    says into how many cells the marginal of an attribute is smoothed, where these are to be fewer than usual. `earlier`
    has the mechanisms and tallies of the phases before this one, whose users are others: the model is fitted to all.
    """

    mechanism: "Ranges"
    beside: "Mapping[int, tuple[LinearReading, ...]]" = field(default_factory=dict)
    smoothed: Mapping[int, int] = field(default_factory=dict)
    earlier: "tuple[tuple[Ranges, Tally], ...]" = ()

    def __post_init__(self) -> None:
        for before, tally in self.earlier:
            if before.shape != self.mechanism.shape or before.epsilon != self.mechanism.epsilon:
                raise ParameterError("an earlier phase has the same attributes and the same epsilon as this one")
            before.check_tally(tally)
        shape, rule = self.mechanism.shape, "beside has readings of attributes by their places"
        for j, readings in self.beside.items():
            place = checked_count(rule, j, 0, len(shape) - 1)
            if any(reading.rows.shape[1] != shape[place] for reading in readings):
                raise ParameterError(f"the readings of attribute {place} need a column for each of its values")

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """The different oracles."""
        return self.mechanism.layout.parts

    @property
    def domain(self) -> WholeNumberRecords:
        """Records of whole numbers."""
        return self.mechanism.layout.domain

    def worst_variance(self, share: float = 1.0) -> float:
        """Of one user's report about a cell, averaged over the cells of a grid and over grids."""
        return self.mechanism.layout.worst_variance(share)

    def moments(self, x: Any) -> Moments:
        """A grid's cells have moments of their own: refused, with what to ask instead."""
        return self.mechanism.layout.moments(x)

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> "RangeEstimate":
        """A `RangeEstimate`."""
        from dither.ranges.axes import Axes
        from dither.ranges.range_estimate import RangeEstimate  # a device has no use for it

        reports = tally.n + sum(each.n for _, each in self.earlier)
        with small_matrices():
            collected = self._collected(tally, reports)
            model = self.mechanism._model_read(collected, reports, self)
        axes = Axes.of_shape(self.mechanism.shape)
        simulated = any(each.simulated for _, each in self.earlier)
        known = NO_GUARANTEE if simulated else guarantee
        return RangeEstimate.of(model, axes, reports, known, source, self.mechanism._notes())

    def _collected(self, tally: Tally, reports: int) -> list[Collected]:
        """What came back in all phases, the earliest first; its users were drawn among all who reported."""
        phases = [*self.earlier, (self.mechanism, tally)]
        found = [each for phase, own in phases for each in phase.layout.collected(own)]
        return [replace(each, users=reports) for each in found] if self.earlier else found


class Ranges(Mechanism["RangeEstimate"]):
    """What all methods for range queries share: everything but which grids are asked, and how they are put together.

    A concrete method is a frozen dataclass with the fields `shape` (how many values each attribute has), `epsilon`, `n`
    (how many users are expected, for the choice of grids), its own options, `asked` and `weights`.
    """

    family = "ranges"
    structure = GRIDS
    takes = WHOLE_NUMBERS
    statistics = ("ranges",)
    planned = False  # Copula comes out ahead of the others
    readable: ClassVar[Readable | None] = None  # which groups it can put together; None for any
    margins_apart: ClassVar[bool] = False  # whether a pair's grid tells no more than how it departs from its margins

    shape: tuple[int, ...]
    n: int
    nominal: tuple[int, ...] = ()  # the attributes whose values have no order, by their places
    asked: Any  # tuples of attributes, cuts, recipe and share; None has them chosen

    # What a method supplies ------------------------------------------------------------------------------------

    def _options(self) -> None:  # most have none
        """Check and normalise what is the method's own, with `_freeze`."""

    @abstractmethod
    def _chosen(self) -> Sequence[UserGroup]:
        """The groups, from public facts."""

    @abstractmethod
    def _model(self, collected: list[Collected], n: int) -> "Model":
        """What answers queries, from what came back about each grid."""

    def _model_read(self, collected: list[Collected], n: int, reading: RangeReading) -> "Model":
        """The same, as a reading says; most methods have nothing to smooth, and no use for other reports."""
        if any(reading.beside.values()) or reading.earlier:
            raise ParameterError(
                f"{type(self).__name__} takes no readings of other reports: leave beside and earlier out, or take "
                "Copula or MSW"
            )
        return self._model(collected, n)

    def _notes(self) -> tuple[str, ...]:
        """What a reader of the estimate should know."""
        return ()

    # The rest --------------------------------------------------------------------------------------------------

    def _validate(self) -> None:
        self._freeze(shape=checked_shape(self.shape), n=checked_count("n", self.n, 1, MOST_USERS))
        self._options()
        asked = [each.stored() for each in self._chosen()] if self.asked is None else self.asked
        rule = "asked must list the groups of users, or be left out to have them chosen"
        groups = tuple(UserGroup.read(each, self.shape) for each in checked_list(rule, asked, 1, maxsize))
        self._freeze(asked=tuple(each.stored() for each in groups))
        vars(self)["groups"] = groups
        checked_count("the number of groups", len(groups), 1, MOST_GROUPS)
        checked_count("the sum of the shares", sum(each.share for each in groups), 1, MOST_SHARES)
        if sum(each.grid.size for each in groups) > MOST_COUNTS:
            raise ParameterError(f"all grids together have at most {MOST_COUNTS:,} cells: take coarser ones")
        self._enough(len(groups))
        if self.readable is not None:
            self.readable.check(type(self).__name__, groups, len(self.shape), self.nominal)

    def _enough(self, groups: int) -> None:
        """Refuse a crowd with fewer users than there are groups."""
        if self.n < groups:
            raise ParameterError(
                f"{type(self).__name__} of {len(self.shape)} attributes divides users over {groups:,} groups: it needs "
                f"at least {groups:,} users, and thousands in each to learn from; ask for fewer attributes, or find "
                "more users"
            )

    @cached_property
    def groups(self) -> tuple[UserGroup, ...]:
        """What each group of users is asked."""
        return tuple(UserGroup.read(each, self.shape) for each in self.asked or ())

    @property
    def expected_groups(self) -> tuple[UserGroup, ...]:
        """What users of all phases are asked, as far as it is known before the first of them reports: its groups."""
        return self.groups

    @property
    def _recipes(self) -> list[str]:
        return list(dict.fromkeys(asked.recipe for asked in self.groups))

    def _parts(self, weights: Any = None) -> tuple[Mechanism, ...]:
        """One oracle for each different recipe, with the whole budget."""
        given = weights or [None] * len(self._recipes)
        return tuple(from_spec(text, self.epsilon, 0.0, own) for text, own in zip(self._recipes, given, strict=True))

    def _fit(self) -> tuple[Any, ...]:
        return tuple(part.weights for part in self._parts())

    def _checked_weights(self, weights: Any) -> tuple[Any, ...]:
        rule = "weights must hold the whole numbers of every oracle, or be left out"
        return tuple(part.weights for part in self._parts(checked_list(rule, weights, len(self._recipes))))

    @cached_property
    def layout(self) -> Groups:
        """The groups, their oracles, and what a report looks like."""
        recipes = self._recipes
        which = np.array([recipes.index(asked.recipe) for asked in self.groups], dtype=np.intp)
        groups = Groups(self._parts(self.weights), which, 1, self.groups, self.shape)
        for number, asked in enumerate(self.groups):
            reading, grid = _frequencies(groups.part(number)), asked.grid
            if asked.recipe == WAVE:
                if len(grid.attributes) > 1 or grid.shape != grid.sizes:
                    raise ParameterError(
                        f"group {number} is asked by SquareWave, which reports one attribute with a cell for each of "
                        "its values: take these, or a frequency oracle such as LocalHash for other cells"
                    )
            elif reading is None:
                raise ParameterError(
                    f"group {number} is asked by {asked.recipe}, whose reports do not tell the frequencies of cells: "
                    "take GRR, LocalHash without cohorts, Hadamard or another frequency oracle, or SquareWave for the "
                    "values of one attribute"
                )
            elif reading.k != grid.size:
                raise ParameterError(f"the oracle of group {number} must be one for the cells of its grid")
        return groups

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """With shortened oracles."""
        weights = short_components(self.components, limit)
        return None if weights is None else replace(self, weights=weights)  # type: ignore[type-var]

    @property
    def components(self) -> tuple[Mechanism[Any], ...]:
        return self.layout.parts

    @cached_property
    def reading(self) -> RangeReading:
        return RangeReading(self)

    def report_worth(self) -> Worths | None:
        """What a report is worth to the cells of a grid, of which a liar chooses one; groups that are alike, once."""
        total = sum(asked.share for asked in self.groups)
        alike: dict[tuple[int, int], list[UserGroup]] = {}
        for asked, part in zip(self.groups, self.layout.which.tolist(), strict=True):
            alike.setdefault((part, asked.share), []).append(asked)
        found = []
        for (part, share), groups in alike.items():
            own = self.layout.parts[part].report_worth()
            if own is None:
                return None
            cells = " x ".join(map(str, groups[0].grid.shape))
            grids = f"a grid of {cells}" if len(groups) == 1 else f"{len(groups)} grids like one of {cells}"
            found += [
                worth._replace(
                    question=f"{'mean' if worth.question == 'mean' else 'cells'} of {grids}",
                    items=worth.items * len(groups),
                    note=worth.note or _ANSWERS,
                ).asked_of(Fraction(share, total))
                for worth in own
            ]
        return tuple(found)

    def honest_sums(self, tally: Tally) -> Sums:
        return self.layout.honest_sums(tally)

    def oracle(self, group: int) -> Mechanism:
        """The mechanism that reports the cells of one group's grid."""
        return self.layout.part(checked_count("group", group, 0, len(self.groups) - 1))

    def collected(self, tally: Tally) -> list[Collected]:
        """What came back about each grid: unbiased frequencies before anything is done to them.

        >>> from dither.ranges import HDG
        >>> mechanism = HDG(shape=(8, 8), epsilon=1.0, n=10_000)
        >>> reports = mechanism.randomize(np.zeros((10_000, 2), dtype=np.int64), seed=1)
        >>> first, second, pair = mechanism.collected(mechanism.tally(reports))
        >>> pair.grid.attributes, pair.grid.shape, int(pair.value.argmax())
        ((0, 1), (4, 4), 0)
        """
        if not isinstance(tally, Tally) or tally.mechanism != self.fingerprint:
            raise TallyError("this is no tally of this mechanism: mechanism.collected(mechanism.tally(reports))")
        if tally.n == 0:
            raise EmptyError("there are no reports yet: tally at least one first")
        return self.layout.collected(tally)

    # What it tells about single attributes ---------------------------------------------------------------------

    def attribute_readings(self, tally: Tally, among: int | None = None) -> "dict[int, tuple[LinearReading, ...]]":
        """For each attribute what the reports tell about the shares of its values, to be put together with others.

        `among` is the number of users whose shares are meant, of whom those who reported were drawn; left out, they are
        those who reported.

        >>> from dither.ranges import Copula
        >>> mechanism = Copula(shape=(1000, 3), epsilon=1.0, n=10_000)
        >>> reports = mechanism.randomize(np.zeros((10_000, 2), dtype=np.int64), seed=1)
        >>> found = mechanism.attribute_readings(mechanism.tally(reports))
        >>> [[reading.rows.shape for reading in readings] for readings in found.values()]
        [[(1, 1000), (4, 1000)], [(3, 3), (3, 3)]]
        """
        from dither.ranges.attribute_readings import attribute_readings  # a device has no use for it

        try:
            collected = self.collected(tally)
        except EmptyError:
            return dict.fromkeys(range(len(self.shape)), ())
        users = tally.n if among is None else checked_count("among", among, tally.n)
        with small_matrices():
            return attribute_readings(collected, self.shape, users)

    def mean_variance(self, j: int, share: float = 1.0) -> float | None:
        """The variance of one report about the mean of an attribute, on a line from -1 to 1, for the worst users.

        This share of the users reports; of them those of one group report the attribute through a window. None if there
        is no such group.

        >>> from dither.ranges import Copula
        >>> round(Copula(shape=(1024, 1024), epsilon=1.0, n=10_000).mean_variance(0), 1)
        18.6
        """
        return self._alone(j, share, lambda asked: asked.recipe == WAVE and asked.scale is None)

    def share_variance(self, j: int, share: float = 1.0) -> float | None:
        """The variance of one report about the share of a value of an attribute, on average, for the worst users.

        None if nobody reports the attribute alone, with a cell for each value, through a frequency oracle.

        >>> from dither.ranges import Copula
        >>> round(Copula(shape=(1024, 3), epsilon=1.0, n=10_000).share_variance(1), 1)
        4.8
        """
        return self._alone(j, share, lambda asked: asked.recipe != WAVE and asked.grid.shape == asked.grid.sizes)

    def _alone(self, j: int, share: float, wanted: Callable[[UserGroup], bool]) -> float | None:
        """The least variance of a report to the whole, of those groups that report attribute j alone in such a way."""
        place = checked_count("attribute", j, 0, len(self.shape) - 1)
        found = [
            self.layout.part(group).reading.worst_variance(share * odds) / odds
            for group, (asked, odds) in enumerate(zip(self.groups, self.layout.odds.tolist(), strict=True))
            if asked.grid.attributes == (place,) and wanted(asked)
        ]
        return min(found, default=None)

    def channel(self) -> Channel:
        return self.layout.channel()

    def inputs(self) -> NDArray:
        return self.layout.inputs()

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        self.layout.fill(reports, values, tape, rows)

    @property
    def row_words(self) -> int:
        return 1 + max(part.row_words for part in self.layout.parts)
