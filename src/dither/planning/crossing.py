"""Which questions are asked together: partitions in which some questions about shares are crossed.

One report about the cell of a table answers a question for each of its axes (`questions.tables`). Which tables are
worth it depends on the way to ask, and so on the budget of a report. With V the variance of one report and s what is
added where users are not asked, both weighted and summed over the questions of a unit, U units cost

- with one of them a user, by variance:    (sum of sqrt(V + s))^2 - sum of s
- with m of them a user:                   U/m (sum of V + s) - sum of s
- with all of them, equal budgets:         sum of V, at epsilon/U

The first is least where the sum of sqrt(V + s) is. The others are sums, too, once it is known what one unit more costs:
in the second (sum of V + s) / U, which is found in a few rounds; in the third whatever makes them so few. So each is a
partition with the least sum of costs (`planning.partition_search`). The chooser then prices all ways to ask it.

**What is not looked at.** Of m units a user, one more is not tried once it is hopeless. Of m units that everybody
answers: every question costs at least as much as by itself at this budget, and one of the groups has at least as many
members as there are on average, and costs at least as much as the smallest so many; where either is more than the best
way found so far, there is nothing to be won. (With weights that differ much, the second is no bound but nearly one.)

**How large a table may be** is a matter of price, up to what a server would keep. The counts of a table that has more
cells than there are users take more room than their reports: such a table is not made, beyond half a megabyte. That
matters from epsilon 11 on. All tables together are at most half of what the tally of a plan may be.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain
from typing import Protocol

from dither.core.mechanism import MOST_COUNTED
from dither.planning.partition_search import Group, cheapest_groups
from dither.questions.question import Question
from dither.questions.tables import MOST_TABLED, crossed

Unit = tuple[Question, ...]  # what one report answers

_HOPELESS = 1.2  # one unit more will not help any more
_RARELY = 2.0**-20  # a share of the users: hardly anybody is asked
_MOST_KINDS = 16  # that a search tells apart: its steps grow with their square
_ROUNDS = 4


class Prices(Protocol):
    """What units cost."""

    @property
    def n(self) -> int:
        """How many users are expected."""
        ...

    @property
    def liars(self) -> Fraction:
        """The share of users who send what they like."""
        ...

    def numbers(self, count: int) -> range:
        """How many of so many units a user may answer, below all of them."""
        ...

    def kind(self, unit: Unit) -> tuple[Unit, Hashable]:
        """A representative of the units with the same prices, and what they have in common."""
        ...

    def unit_cost(self, unit: Unit, m: int, share: float) -> float:
        """What a unit costs that is one of m a user, if this share of the users is asked; infinite if it cannot be."""
        ...


@dataclass(frozen=True)
class Crossings:
    """Ways to cross the questions of some units, each of which is one question or stays as it is."""

    prices: Prices
    units: tuple[Unit, ...]

    def partitions(self, least: Callable[[], float]) -> Iterator[tuple[Unit, ...]]:
        """Those that may be better than the `least` cost that is known by then, each once."""
        if sum(len(unit) == 1 and unit[0].crosses for unit in self.units) < 2 or not least():
            return  # there is nothing to cross, or to compare with
        known = {self.units}
        for groups in chain(self._sampled(), self._everything(least)):
            units = self._partition(groups)
            if units not in known and not self._asked_twice(units):
                known.add(units)
                yield units

    @cached_property
    def _tables(self) -> set[str]:
        """What is asked about several attributes at once."""
        return {str(question) for unit in self.units for question in unit if len(question.names) > 1}

    def _asked_twice(self, units: tuple[Unit, ...]) -> bool:
        """Whether crossing gives a table that is asked for by itself: it would have two results."""
        return bool(self._tables) and any(str(crossed(unit)) in self._tables for unit in units)

    # Questions by their kinds ----------------------------------------------------------------------------------

    @cached_property
    def _free(self) -> tuple[Unit, ...]:
        """Questions that may be crossed: one about each attribute, since a table has no axis twice."""
        first: dict[str, Unit] = {}
        for unit in self.units:
            if len(unit) == 1 and unit[0].crosses:
                first.setdefault(unit[0].name, unit)
        return tuple(first.values())

    @cached_property
    def _fixed(self) -> tuple[Unit, ...]:
        free = set(self._free)
        return tuple(unit for unit in self.units if unit not in free)

    @cached_property
    def _members(self) -> list[list[Question]]:
        """Questions that the search does not tell apart: of one kind or, if kinds are many, nearly of one."""
        kinds, step = [self.prices.kind(unit)[1] for unit in self._free], 1 / 16
        while len(set(kinds)) > _MOST_KINDS:
            traits = [(unit[0].categories, self.prices.unit_cost(unit, 1, 1.0)) for unit in self._free]
            kinds = [tuple(round(math.log2(trait) / step) for trait in each) for each in traits]
            step *= 2
        members: dict[Hashable, list[Question]] = {}
        for kind, (question,) in zip(kinds, self._free, strict=True):
            members.setdefault(kind, []).append(question)
        return list(members.values())

    @cached_property
    def _counts(self) -> list[int]:
        return [len(each) for each in self._members]

    @cached_property
    def _cells(self) -> list[int]:
        return [each[0].categories for each in self._members]

    # Which are best --------------------------------------------------------------------------------------------------

    def _sampled(self) -> Iterator[Counter[Group]]:
        """The best for m of the units a user, as long as one more is not hopeless."""
        costs: list[float] = []
        groups: Counter[Group] = Counter()
        for m in self.prices.numbers(len(self.units)):
            share = m / len(self.units) if self.prices.liars else _RARELY
            fixed = [self.prices.unit_cost(unit, m, m / len(self.units)) for unit in self._fixed]
            groups, total = self._even(m, share, fixed, groups) if groups else self._by_variance(m, share, fixed)
            if not math.isfinite(total):
                return
            yield groups
            costs.append(total)
            if total > _HOPELESS * min(costs):
                return

    def _by_variance(self, m: int, share: float, fixed: list[float]) -> tuple[Counter[Group], float]:
        groups = self._cheapest(lambda group: math.sqrt(self._group_cost(group, m, share)))
        return groups, sum(math.sqrt(cost) for cost in [*fixed, *self._costs(groups, m, share)]) ** 2

    def _even(self, m: int, share: float, fixed: list[float], groups: Counter[Group]) -> tuple[Counter[Group], float]:
        """From any groups on: what one unit more costs is not far from what it costs with them."""
        for _ in range(_ROUNDS):
            costs = [*fixed, *self._costs(groups, m, share)]
            more = sum(costs) / len(costs)
            before, groups = groups, self._cheapest(lambda group, more=more: self._group_cost(group, m, share) + more)
            if groups == before:
                break
        costs = [*fixed, *self._costs(groups, m, share)]
        return groups, len(costs) / m * sum(costs)

    def _everything(self, least: Callable[[], float]) -> Iterator[Counter[Group]]:
        """The best for m units of which everybody answers all, for those m that may be better than the least so far."""
        smallest = sorted(range(len(self._cells)), key=self._cells.__getitem__)
        members = [kind for kind in smallest for _ in range(self._counts[kind])]
        kinds = Counter(self.prices.kind(unit) for unit in self.units)
        for m in range(len(self._fixed) + 1, len(self.units)):
            wanted = m - len(self._fixed)
            group = tuple(sorted(members[: -(-len(members) // wanted)]))
            if math.prod(self._cells[kind] for kind in group) > MOST_COUNTED:
                continue
            alone = accumulate(times * self.prices.unit_cost(unit, m, 1.0) for (unit, _), times in kinds.most_common())
            if any(cost >= least() for cost in alone):  # already a few of them cost too much
                return
            if self._group_cost(group, m, 1.0) < least():
                yield self._so_many(m, wanted)

    def _so_many(self, m: int, wanted: int) -> Counter[Group]:
        """The best at the budget of one of m units, for at most so many groups, if one more costs enough for that."""

        def at(more: float) -> Counter[Group]:
            return self._cheapest(lambda group: self._group_cost(group, m, 1.0) + more)

        low, high = 0.0, self._group_cost((0,), m, 1.0)
        groups = at(low)
        if groups.total() <= wanted:
            return groups
        for _ in range(2 * _ROUNDS):
            groups = at(high)
            if groups.total() <= wanted:
                break
            low, high = high, 4 * high
        for _ in range(_ROUNDS):
            middle = (low + high) / 2
            found = at(middle)
            if found.total() <= wanted:
                groups, high = found, middle
            else:
                low = middle
        return groups

    def _cheapest(self, cost: Callable[[Group], float]) -> Counter[Group]:
        """The groups with the least cost whose tallies fit, all of them together and beside others."""
        room = MOST_COUNTED // 2
        most = min(max(self.prices.n, MOST_TABLED), room)
        while True:
            groups = cheapest_groups(self._counts, self._cells, cost, most)
            cells = sum(math.prod(self._cells[kind] for kind in group) for group in groups.elements())
            if cells <= room or most == 1:
                return groups
            most //= 2

    # Prices of groups ------------------------------------------------------------------------------------------

    def _costs(self, groups: Counter[Group], m: int, share: float) -> list[float]:
        return [self._group_cost(group, m, share) for group in groups.elements()]

    def _group_cost(self, group: Group, m: int, share: float) -> float:
        return self.prices.unit_cost(next(self._drawn(Counter([group]))), m, share)

    def _drawn(self, groups: Counter[Group]) -> Iterator[Unit]:
        """Groups as units: each kind's questions in their order."""
        left = [iter(each) for each in self._members]
        for group in sorted(groups.elements()):
            yield tuple(next(left[kind]) for kind in group)

    def _partition(self, groups: Counter[Group]) -> tuple[Unit, ...]:
        """As units, questions and units in the order in which they are asked for."""
        places = {unit[0]: place for place, unit in enumerate(self.units)}
        drawn = [tuple(sorted(unit, key=places.__getitem__)) for unit in self._drawn(groups)]
        return tuple(sorted([*self._fixed, *drawn], key=lambda unit: places[unit[0]]))
