"""Groups that a report names in the clear: public values, and budgets that people choose.

A report may carry facts that everybody may see: the country, the version of an app, the day. A schema calls them
`Public`. It may also carry the *budget* that its user chose: "careful" or "open", each with an epsilon of its own (001
section 4.1.3). Both are one idea. A **group** is one value of each public attribute, and `budget` is such an attribute
where people choose. All combinations of values are groups, so that which one a record belongs to takes no table.

**What a group has.** Its expected users, and the plan that they are `asked` by: a plan without groups, for its budget.
Groups with the same budget share it. The parts of the whole plan are those of all groups, each with the name of its
group, so a tag is a hash of the plan, of the group and of what is answered; whoever counts reports needs to know
nothing of groups.

**What is promised.** Two records are told apart only as far as the group's budget allows *if they are of the same
group*. The group itself is not hidden at all. It comes from the public values of a record, and never from private ones;
the guarantee of a group is its own, and a plan states the largest.

**What must never be public**: anything that one would not shout. A label that few people have names them; a label that
was worked out from private values gives these away (decision 42).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod, sqrt
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float, checked_count, checked_epsilon, is_whole
from dither.core.columns import filled
from dither.core.guarantee import Guarantee
from dither.display.markup import visible
from dither.display.table import TextTable
from dither.errors import DomainError, ParameterError, RowError
from dither.planning.plan_files import MOST_WHOLE
from dither.planning.plan_tally import PlanTally
from dither.planning.record_tables import record_value
from dither.privacy.shuffle import bounds, users_for
from dither.schema import Public, Schema

if TYPE_CHECKING:
    from dither.planning.plan_parts import Part
    from dither.planning.plans import Plan

BUDGET = "budget"
MOST_GROUPS = 1 << 14
_LISTED = 6

Values = tuple[str, ...]


class Group(NamedTuple):
    """Users with the same public values."""

    facts: tuple[tuple[str, str], ...]  # public attributes, each with its value
    users: int  # who are expected
    asked: "Plan"  # what they answer: a plan without groups

    @property
    def name(self) -> str:
        """As in `country=DE, budget=open`."""
        return ", ".join(f"{name}={value}" for name, value in self.facts)

    @property
    def values(self) -> Values:
        """The public values."""
        return tuple(value for _, value in self.facts)

    @property
    def budget(self) -> str:
        """The one that its users chose; nothing where there is no choice."""
        return dict(self.facts).get(BUDGET, "")

    @property
    def guarantee(self) -> Guarantee:
        """What all that one of its users reports promises together."""
        return self.asked.guarantee

    def part(self, part: "Part") -> "Part":
        """A part of what its users answer, under the name of the group."""
        return part._replace(group=self.name)

    @property
    def predicted(self) -> dict[str, float]:
        """The standard error of each question among its users: that of all who are asked alike, for fewer of them."""
        more = sqrt(self.asked.users / self.users)
        totals = {str(question) for question in self.asked.questions if question.totals}
        return {name: error / more if name in totals else error * more for name, error in self.asked.predicted.items()}


class PublicColumn(NamedTuple):
    """A public attribute as what is looked at of a record (`questions.Column`)."""

    name: str
    attribute: Public

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.int64]:
        """The labels' numbers."""
        return self.attribute.encode(column, invalid)


# Which groups there are ---------------------------------------------------------------------------------------------


def with_budgets(schema: Schema, budgets: Iterable[str]) -> Schema:
    """The schema with the choice of a budget as a public attribute."""
    if BUDGET in schema:
        raise ParameterError(
            f'the budget that people choose is a public attribute "{BUDGET}": give yours of this name another one'
        )
    return Schema({**schema, BUDGET: Public(list(budgets))})


def combinations(public: Mapping[str, Public]) -> list[tuple[tuple[str, str], ...]]:
    """All groups, the last attribute varying fastest."""
    count = prod(attribute.k for attribute in public.values())
    if count > MOST_GROUPS:
        raise ParameterError(
            f"these public attributes make {count:,} groups, and each has a tally of its own: at most {MOST_GROUPS:,}. "
            "Make coarser labels (weeks for days, regions for towns), or leave one of them out"
        )
    names = list(public)
    return [tuple(zip(names, values, strict=True)) for values in product(*(each.labels for each in public.values()))]


def group_numbers(
    public: Mapping[str, Public], columns: Mapping[str, Any], invalid: str, missing: str
) -> NDArray[np.int64]:
    """For each row of a table the number of its group, from its public values alone."""
    found: NDArray[np.int64] | None = None
    for name, attribute in public.items():
        column = columns[name]
        if missing == "substitute" and attribute.other is not None:
            column = filled(column, attribute.other)
        try:
            places = attribute.encode(column, invalid)
        except RowError as error:
            wrong = error.but(attribute=name)
        else:
            found = places if found is None else found * attribute.k + places
            continue
        raise wrong
    return np.empty(0, dtype=np.int64) if found is None else found


def group_number(public: Mapping[str, Public], record: Any) -> int:
    """The number of the group that the record of one user is of; refused, if its public values name none."""
    one = {name: [record_value(record, name)] for name in public}
    try:
        return int(group_numbers(public, one, "substitute", "substitute")[0])
    except RowError as error:
        wrong = DomainError(f"attribute {error.attribute}: {error.rule}; {error.substitute}")
    raise wrong


def rows_by_group(rows: NDArray[np.intp], groups: NDArray[np.int64], count: int) -> list[NDArray[np.intp]]:
    """For each of so many groups those of the rows that are in it, in their order."""
    own = groups[rows]
    order = np.argsort(own, kind="stable")
    return np.split(rows[order], np.searchsorted(own[order], np.arange(1, count)))


# Numbers that are given for each ------------------------------------------------------------------------------------


class PublicMargin(NamedTuple):
    """A number for each combination of values of some public attributes."""

    names: tuple[str, ...]
    numbers: dict[Values, float]

    @property
    def total(self) -> float:
        """Of all."""
        return sum(self.numbers.values())


def margins(public: Mapping[str, Public], given: Any, what: str, example: str) -> list[PublicMargin]:
    """Numbers by group, as a caller gives them: `{"DE": 5000, ...}` where one attribute is public, `{("DE", "Mon"):
    300, ...}` for combinations, or `{"country": {"DE": 5000, ...}, ...}` by attribute."""
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(f"{what} maps groups to numbers, as in {example}")
    nested = all(isinstance(number, Mapping) for number in given.values())
    if nested:
        unknown = [name for name in given if name not in public]
        if unknown:
            raise ParameterError(f"{what}: there is no public attribute of this name; there are {', '.join(public)}")
        return [_margin({name: public[name]}, own, what) for name, own in given.items()]
    return [_margin(public, given, what)]


def _margin(public: Mapping[str, Public], given: Mapping[Any, Any], what: str) -> PublicMargin:
    attributes, found = list(public.values()), dict[Values, float]()
    for key, number in given.items():
        values = key if isinstance(key, tuple) else (key,)
        places = (
            [each.place(value) for each, value in zip(attributes, values, strict=True)]
            if len(values) == len(attributes)
            else [-1]
        )
        if min(places) < 0:
            named = "one of its labels" if len(public) == 1 else f"a label of each of {', '.join(public)}"
            raise ParameterError(f"{what}: a key is no group of this schema; a group is named by {named}")
        amount = as_float(number)
        if not 0 < amount <= MOST_WHOLE:
            raise ParameterError(f"{what}: every group needs a number above 0")
        found[tuple(each.labels[place] for each, place in zip(attributes, places, strict=True))] = amount
    every = list(product(*(each.labels for each in attributes)))
    absent = [", ".join(map(visible, values)) for values in every if values not in found]
    if absent:
        more = f" and {len(absent) - _LISTED:,} more" if len(absent) > _LISTED else ""
        raise ParameterError(
            f"{what}: there is no number for {'; '.join(absent[:_LISTED])}{more}: give one for every group, or leave "
            "the label out of the schema"
        )
    return PublicMargin(tuple(public), {values: found[values] for values in every})


def expected_users(public: Mapping[str, Public], users: Any) -> list[int]:
    """How many users each group is expected to have, in the order of `combinations`.

    A number is spread evenly; numbers by attribute are taken to have nothing to do with each other.
    """
    groups = combinations(public)
    if is_whole(users) and BUDGET not in public:
        users = checked_count("users", users, 1, MOST_WHOLE)
        if users < len(groups):
            raise ParameterError(
                f"there are {len(groups):,} groups, and fewer users than that: nobody would be learnt of"
            )
        return [users // len(groups) + (place < users % len(groups)) for place in range(len(groups))]
    example = 'users={"careful": 60_000, "open": 40_000}' if BUDGET in public else 'users={"DE": 60_000, "FR": 40_000}'
    given = margins(public, users, "users", example)
    named = [name for margin in given for name in margin.names]
    if BUDGET in public and BUDGET not in named:
        raise ParameterError(f"users: say how many choose each budget, as in {example}")
    if any(number % 1 for margin in given for number in margin.numbers.values()):
        raise ParameterError("users: expected whole numbers")
    total = given[0].total
    if any(margin.total != total for margin in given):
        raise ParameterError("users: the numbers of each public attribute must add up to the same number of users")
    free = prod(public[name].k for name in public if name not in named)
    exact = []
    for facts in groups:
        values = dict(facts)
        shares = [margin.numbers[tuple(values[name] for name in margin.names)] / total for margin in given]
        exact.append(total * prod(shares) / free)
    order = np.argsort([dict(facts).get(BUDGET, "") for facts in groups], kind="stable")
    rounded = np.empty(len(groups))
    rounded[order] = np.diff(np.rint(np.cumsum([0.0, *np.array(exact)[order]])))  # adds up to all, and to each budget
    return [max(1, int(count)) for count in rounded]


# What is counted of them --------------------------------------------------------------------------------------------


def tally_of_groups(groups: Sequence[Group], tally: PlanTally) -> PlanTally:
    """The tally of users of some groups that are asked alike, as one of the plan that asks them."""
    asked = groups[0].asked
    parts = {part.name: [tally.parts[group.part(part).name] for group in groups] for part in asked.parts}
    summed = {name: reduce(add, some) for name, some in parts.items()}
    return PlanTally(asked.fingerprint, summed)


def pooled_errors(plan: "Plan") -> dict[str, float]:
    """For each question the predicted error where budgets count by one over their squared errors.

    It is the smallest that weights can have, and about all users only if those of every budget are alike.
    """
    totals = {str(question) for question in plan.questions if question.totals}
    found = {}
    for name in plan.predicted:
        errors = [
            each.predicted[name] * (plan.users / each.users if name in totals else 1) for each in plan.budgets.values()
        ]
        found[name] = sum(1 / error**2 for error in errors) ** -0.5 if all(errors) else 0.0
    return found


def crowds(groups: Sequence[Group], delta: float, central: float | None) -> TextTable:
    """One row a group: what a shuffler adds, where its expected users hide each other, and the least batch for a goal.

    A report shows its group, so nobody is hidden by the users of another. The bounds are those of what its users are
    asked (`privacy.shuffle`).
    """
    shuffled: dict[tuple[str, int], float] = {}
    least: dict[str, int | None] = {}
    for group in groups:
        key = group.budget, group.users
        if key not in shuffled:
            shuffled[key] = _once_shuffled(group, delta)
        if central is not None and group.budget not in least:
            least[group.budget] = _least_batch(group, central, delta)
    batches = [least.get(group.budget) for group in groups]
    return TextTable(
        {
            "group": [group.name for group in groups],
            "users": [f"{group.users:,}" for group in groups],
            "epsilon": [group.guarantee.epsilon for group in groups],
            "epsilon once shuffled": [shuffled[group.budget, group.users] for group in groups],
            **({} if central is None else {"least batch": ["none" if n is None else f"{n:,}" for n in batches]}),
        }
    )


def _once_shuffled(group: Group, delta: float) -> float:
    """What the shuffled reports of its users tell at most; the local epsilon, if no better is known."""
    found = bounds(group.asked, group.users, delta).values() if group.users > 1 else ()
    return min((each.epsilon for each in found if each is not None), default=group.guarantee.epsilon)


def _least_batch(group: Group, central: float, delta: float) -> int | None:
    """The fewest users whose shuffled reports keep (central, delta); None where no crowd is known to do."""
    if group.guarantee.epsilon <= checked_epsilon(central) and group.guarantee.delta <= delta:
        return 1
    try:
        return users_for(group.asked, central, delta)
    except ParameterError:
        return None


# In words -----------------------------------------------------------------------------------------------------------


def group_table(groups: Sequence[Group]) -> TextTable:
    """One row a group: its users, its budget, and the predicted error of each question."""
    questions = list(groups[0].asked.predicted)
    predicted = [group.predicted for group in groups]
    return TextTable(
        {
            "group": [group.name for group in groups],
            "users": [f"{group.users:,}" for group in groups],
            "epsilon": [group.asked.epsilon for group in groups],
            **{name: [errors[name] for errors in predicted] for name in questions},
        }
    )


def of_value(groups: Sequence[Group], name: str) -> Iterator[tuple[str, list[Group]]]:
    """For each value of a public attribute the groups that have it, in the order of the labels."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(dict(group.facts)[name], []).append(group)
    yield from found.items()
