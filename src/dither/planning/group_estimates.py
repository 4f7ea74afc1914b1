"""The results of a plan with groups: of all users, and of each value of a public attribute.

**Strata.** Users who are asked alike are one stratum: their reports are added up, and read as those of a plan without
groups. So public groups cost nothing over all users, however many there are and however few users some of them have.
Those who chose another budget are asked by other mechanisms, and are another stratum.

**All users** are the mean of the strata, by their numbers of users, which are counted and not estimated. That is
unbiased whatever made people choose (`core.stratified`). Where public `sizes` are given, strata are cut by the
attributes that these are about, and count by their sizes (post-stratification): the results are then of a population in
which groups are so large. `weights` of a survey are sizes too: the number of users times what each of them counts.

**Pooling.** Two other ways to put budgets together are offered by their names, since they may have a far smaller error:

- `"reports"`, the paper's pooling (001, theorem 3): every report about a question counts once, whatever its budget.
  Where all users answer equally many questions, that is nearly stratified.
- `"inverse variance"`: strata count by one over their squared standard errors. No weights have a smaller error.

Both are about all users *only if those of every stratum are alike*: people who choose a budget with an eye on their own
values are not. A note says where the strata differ by more than their noise; that it does not say so is no proof.
Users of a budget with a region are not alike for sure: results about its attribute are stratified, whatever pooling is
asked for. Each stratum tells them in the units of its region, and they are put together in those of the whole attribute
(`budgets.in_units_of`).

**By value.** `by("day")` reads the users of each day on their own. Days have different users, so their errors are
independent, and those of a change add up; `interval(simultaneous=True)` holds for the whole series.
"""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_choice, checked_count
from dither.core.estimate import Bounds, Estimate, Estimates
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.results import Interval, Tabular, simultaneous_level
from dither.core.stratified import CombinedRule, differs_by_more_than_noise
from dither.display.estimate_plots import small_multiples
from dither.display.round_plots import MOST_LINES, draw_rounds
from dither.display.table import TextTable
from dither.errors import EmptyError, ParameterError, UnknownError
from dither.planning.budgets import in_units_of, whole_questions
from dither.planning.groups import Group, PublicMargin, margins, of_value, tally_of_groups
from dither.planning.plan_estimates import PlanEstimates, ToldByReports, finished, told_by_reports
from dither.planning.plan_files import MOST_WHOLE
from dither.planning.plan_tally import PlanTally
from dither.questions.question import Question

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dither.planning.plans import Plan

STRATIFIED, REPORTS, INVERSE_VARIANCE = "stratified", "reports", "inverse variance"
POOLINGS = (STRATIFIED, REPORTS, INVERSE_VARIANCE)
_SHOWN = 12
_SIZES = 'sizes={"DE": 83e6, "FR": 68e6}'
_ALIKE = "Budgets are pooled by {}: that is about all users only if those of every budget are alike."
_REGIONS = "Budgets have regions, so their users are not alike: the results are stratified."
_UNLIKE = "The budgets' results differ by more than their noise: use the stratified ones."

Floats = NDArray[np.float64]


class Stratum(NamedTuple):
    """Users who are asked alike and count alike."""

    groups: tuple[Group, ...]
    tally: PlanTally
    users: int  # who reported
    share: float  # by which they count among all

    @property
    def asked(self) -> "Plan":
        """What they answer."""
        return self.groups[0].asked


@dataclass(frozen=True)
class GroupOptions:
    """How results are to be read: refined or not, of how many users, with which sizes and pooling."""

    refine: str | None = None
    users: int | None = None
    sizes: PublicMargin | None = None
    weights: PublicMargin | None = None
    pooling: str = STRATIFIED

    @classmethod
    def checked(
        cls, plan: "Plan", refine: str | None, users: Any, sizes: Any, weights: Any, pooling: Any
    ) -> "GroupOptions":
        """What a caller gave."""
        if sizes is not None and weights is not None:
            raise ParameterError("sizes and weights both say how much groups count: give one of them")
        if users is not None:
            users = checked_count("users", users, 1, MOST_WHOLE)
        checked_choice("pooling", pooling, POOLINGS)
        own = None if sizes is None else _one_margin(plan, sizes, "sizes")
        counting = None if weights is None else _one_margin(plan, weights, "weights")
        if pooling != STRATIFIED and (own or counting):
            raise ParameterError('sizes and weights are for pooling="stratified": other poolings weigh by the reports')
        return cls(refine, users, own, counting, pooling)


def _one_margin(plan: "Plan", given: Any, what: str) -> PublicMargin:
    """Sizes by one attribute, or by all of them."""
    found = margins(plan.public, given, what, _SIZES)
    if len(found) > 1:
        raise ParameterError(
            f"{what}: give the numbers of one public attribute, or of combinations of all of them, as in "
            f'{what}={{("DE", "Mon"): 5000, ...}}: margins of several do not tell what combinations have'
        )
    return found[0]


# From tallies -------------------------------------------------------------------------------------------------------


def estimates_of_groups(plan: "Plan", tally: PlanTally, options: GroupOptions) -> PlanEstimates:
    """The results of all users of a plan with groups."""
    found = _estimates(plan, plan.groups, tally, options)
    return replace(found, of_groups=GroupTallies(plan, tally, options))


@dataclass(frozen=True, eq=False)
class GroupTallies:
    """What is known of groups: enough to tell the results of each."""

    plan: "Plan"
    tally: PlanTally
    options: GroupOptions

    def by(self, name: str) -> "GroupEstimates":
        """The results of each value of a public attribute; of those without reports, none."""
        if name not in self.plan.public:
            known = ", ".join(self.plan.public)
            raise UnknownError(f"results are by public attributes, and this is none; there are {known}")
        heard, silent = dict[str, PlanEstimates](), list[str]()
        options = replace(self.options, users=None)
        for value, groups in of_value(self.plan.groups, name):
            if any(self.tally.parts[group.part(part).name].n for group in groups for part in group.asked.parts):
                heard[value] = _estimates(self.plan, groups, self.tally, options)
            else:
                silent.append(value)
        return GroupEstimates(name, self.plan, heard, tuple(silent))


def _estimates(plan: "Plan", groups: Sequence[Group], tally: PlanTally, options: GroupOptions) -> PlanEstimates:
    """The results of the users of some groups together."""
    strata = _strata(groups, tally, options)
    reported = sum(stratum.users for stratum in strata)
    if reported == 0:
        raise EmptyError("there are no reports yet: tally at least one before estimating")
    everybody = reported if options.users is None else options.users
    if everybody < reported:
        raise ParameterError(f"users must be at least {reported:,}: so many have reported")
    simulated = any(stratum.tally.simulated for stratum in strata)
    told = [
        told_by_reports(
            stratum.asked,
            stratum.tally,
            max(stratum.users, round(stratum.users * everybody / reported)),
            NO_GUARANTEE if simulated else stratum.asked.guarantee,
        )
        if stratum.users
        else None
        for stratum in strata
    ]
    asked = strata[0].asked
    pooled = told[0] if len(told) == 1 else _pooled(plan, strata, told, options.pooling)
    if len(told) > 1:
        asked = replace(asked, derived=plan.derived)
    names = {group.part(part).name for group in groups for part in group.asked.parts}
    own = replace(tally, parts={name: part for name, part in tally.parts.items() if name in names})
    assert pooled is not None  # some stratum has reports
    found = finished(asked, pooled, own, everybody, options.refine)
    return replace(found, asked=plan.questions)


def _strata(groups: Sequence[Group], tally: PlanTally, options: GroupOptions) -> list[Stratum]:
    """Users who are asked alike; with sizes, of each value that has one."""
    sizes = options.sizes or options.weights
    kept = () if sizes is None else sizes.names
    alike: dict[tuple[tuple[str, ...], str], list[Group]] = {}
    for group in groups:
        values = dict(group.facts)
        alike.setdefault((tuple(values[name] for name in kept), group.budget), []).append(group)
    tallies = {key: tally_of_groups(some, tally) for key, some in alike.items()}
    users = {
        key: some[0].asked.users_behind([part.n for part in tallies[key].parts.values()]) for key, some in alike.items()
    }
    reported = max(1, sum(users.values()))
    shares = {key: count / reported for key, count in users.items()}
    if sizes is not None:
        heard: dict[tuple[str, ...], int] = {}
        for (values, _), count in users.items():
            heard[values] = heard.get(values, 0) + count
        sized = {values: sizes.numbers[values] * (1 if options.weights is None else n) for values, n in heard.items()}
        total = sum(sized.values()) or 1.0
        budgets = {values: sum(key[0] == values for key in users) for values in heard}
        shares = {
            (values, budget): sized[values] / total * (count / heard[values] if heard[values] else 1 / budgets[values])
            for (values, budget), count in users.items()
        }
    found = [Stratum(tuple(some), tallies[key], users[key], shares[key]) for key, some in alike.items()]
    needed = [stratum for stratum in found if stratum.users or stratum.share]
    return sorted(needed, key=lambda stratum: not stratum.users) or found[:1]


def _pooled(
    plan: "Plan", strata: Sequence[Stratum], told: Sequence[ToldByReports | None], pooling: str
) -> ToldByReports:
    """The results of several strata together, question by question."""
    if plan.narrowed:
        told = [None if each is None else _about_the_whole(plan, each) for each in told]
    first = next(each for each in told if each is not None)
    weakest = max((each.asked.guarantee for each in strata), key=lambda guarantee: guarantee.epsilon)
    together = (_together(plan, strata, first[place], _named(told, place), pooling) for place in (0, 1))
    return ToldByReports(*({each: _under(result, weakest) for each, result in some.items()} for some in together))


def _about_the_whole(plan: "Plan", told: ToldByReports) -> ToldByReports:
    """What users of a budget told in the units of its regions, in those of the whole of each attribute."""

    def placed(found: Mapping[Question, Any]) -> dict[Question, Any]:
        whole = whole_questions(plan.schema, found, plan.narrowed)
        return {
            question: in_units_of(question, own, result) if question.names[0] in plan.narrowed else result
            for question, (own, result) in zip(whole, found.items(), strict=True)
        }

    return ToldByReports(*map(placed, told))


def _under(result: Estimate, weakest: Guarantee) -> Estimate:
    """A result with the guarantee of the least protected of those who are in it."""
    return result if result.guarantee.simulated else replace(result, guarantee=weakest)


def _named(told: Sequence[ToldByReports | None], place: int) -> list[dict[str, Any] | None]:
    """What is told, by the texts of questions: each budget may put one in a form of its own."""
    return [None if each is None else {str(question): one for question, one in each[place].items()} for each in told]


def _together(
    plan: "Plan",
    strata: Sequence[Stratum],
    questions: Mapping[Question, Any],
    told: Sequence[dict[str, Any] | None],
    wanted: str,
) -> dict[Question, Any]:
    found: dict[Question, Any] = {}
    for question in questions:
        name = str(question)
        results = [None if each is None else each.get(name) for each in told]
        if any(result is None and each is not None for result, each in zip(results, told, strict=True)):
            continue  # it comes beside the questions of some budgets only
        known: list[Any] = [questions[question] if result is None else result for result in results]
        unheard = [replace(one, n=0) if result is None else one for one, result in zip(known, results, strict=True)]
        pooling = STRATIFIED if plan.narrowed.intersection(question.names) else wanted
        shares = _weights(strata, unheard, pooling)
        pooled = question.stratified(unheard, shares)
        if pooled is None and question in strata[0].asked.measured:
            raise ParameterError(
                f"{question}: its reports are fitted together, and there is no sum of such fits: leave sizes and "
                "weights out, or take the results by group"
            )
        if pooled is not None:
            found[question] = pooled if pooling == STRATIFIED else _noted(pooled, unheard, pooling)
            if pooling != wanted:
                found[question] = replace(pooled, notes=(*pooled.notes, _REGIONS))
    return found


def _weights(strata: Sequence[Stratum], results: Sequence[Estimate], pooling: str) -> list[float]:
    """How much the results of strata count, which add up to 1."""
    if pooling == STRATIFIED:
        weights = np.array([stratum.share for stratum in strata])
    elif pooling == REPORTS:
        weights = np.array([float(result.n) for result in results])
    else:
        errors = [float(np.mean(np.square(result.stderr))) if result.n else np.inf for result in results]
        weights = np.array([1 / max(error, 1e-300) for error in errors])
    return (weights / (weights.sum() or 1.0)).tolist()


def _noted(pooled: Estimate, results: Sequence[Estimate], pooling: str) -> Estimate:
    """With the condition under which it is about all users, and a warning where it is plainly not met."""
    unlike = (_UNLIKE,) if differs_by_more_than_noise(results) else ()
    return replace(pooled, notes=(*pooled.notes, _ALIKE.format(pooling), *unlike))


# By value -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class GroupEstimates(Tabular, Mapping[str, PlanEstimates]):
    """For each value of a public attribute its results, as in `by_country["DE"]["mean(income)"]`.

    >>> from dither import Categorical, Public, Schema, plan
    >>> schema = Schema({"day": Public(["Mon", "Tue"]), "mood": Categorical(["good", "bad"])})
    >>> daily = plan(schema, 2.0, users=4000)
    >>> table = {"day": ["Mon", "Tue"] * 2000, "mood": ["good", "good", "bad", "good"] * 1000}
    >>> found = daily.estimate(daily.tally(daily.randomize(table, seed=1))).by("day")
    >>> list(found), found["Tue"]["mood"].n, list(found.changes("mood"))
    (['Mon', 'Tue'], 2000, ['Mon to Tue'])
    """

    name: str
    plan: "Plan" = field(repr=False)
    groups: Mapping[str, PlanEstimates]
    silent: tuple[str, ...] = ()  # values that nobody has reported with

    def __getitem__(self, value: str) -> PlanEstimates:
        if value not in self.groups:
            known = ", ".join(list(self.groups)[:_SHOWN])
            raise UnknownError(f"nobody reported with this value of {self.name}; there are {known}")
        return self.groups[value]

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def guarantee(self) -> Guarantee:
        """What all that a user reports promises together: of the least protected."""
        return max((each.guarantee for each in self.values()), key=lambda guarantee: guarantee.epsilon)

    @property
    def questions(self) -> tuple[str, ...]:
        """What is known of every value."""
        first, *others = self.values()
        return tuple(name for name in first if all(name in other for other in others))

    def series(self, question: str) -> Estimates[str, Estimate]:
        """The result of one question for each value; its intervals can hold for the whole series at once."""
        return Estimates({value: each.single(question) for value, each in self.items()})

    def change(self, question: str, before: str, after: str) -> Estimate:
        """How much a result differs between two values. They have different users: variances add up."""
        one, other = self[before].single(question), self[after].single(question)
        low, high = (-np.inf, np.inf) if other.bounds is None else other.bounds[:2]
        ruled = one.rule is not None or other.rule is not None
        biased = [np.asarray(each.bias) for each in (one, other) if each.bias is not None and not ruled]
        return Estimate(
            np.asarray(other.value - one.value),
            np.hypot(one.stderr, other.stderr),
            one.n + other.n,
            other.guarantee,
            f"{other.question}, {before} to {after}",
            labels=other.labels,
            source=other.source,
            bounds=Bounds(low - high, high - low),
            ordered=other.ordered,
            rule=CombinedRule((one, other), (-1.0, 1.0), np.arange(np.size(other.value))) if ruled else None,
            bias=sum(biased[1:], biased[0]) if biased else None,
        )

    def changes(self, question: str) -> Estimates[str, Estimate]:
        """How much a result differs from each value to the next, in the order of the labels."""
        if len(self) < 2:
            raise ParameterError(f"a change needs two values of {self.name} with reports")
        return Estimates({f"{one} to {other}": self.change(question, one, other) for one, other in pairwise(self)})

    # The protocol of results -----------------------------------------------------------------------------------

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> dict[str, Interval]:
        """For each question its intervals, a row a value; if `simultaneous`, all numbers of all values hold at once."""
        total = sum(np.size(each[name].value) for name in self.questions for each in self.values())
        return {name: self._ends(name, level, total if simultaneous else 0) for name in self.questions}

    def _ends(self, question: str, level: float, at_once: int) -> Interval:
        """The intervals of one question; such that so many numbers hold at once, if not 0."""
        ends = []
        for each in self.values():
            size = np.size(each[question].value)
            wanted = simultaneous_level(level, size, at_once) if at_once else level
            ends.append(each[question].interval(wanted, simultaneous=bool(at_once)))
        return Interval(*(np.stack([np.ravel(end[side]) for end in ends]) for side in (0, 1)))

    def _columns(self, level: float) -> dict[str, Any]:
        """In long form, one row a number: the value, question, item, value, stderr, low, high."""
        rows = [(value, each._columns(level)) for value, each in self.items()]
        values = [value for value, columns in rows for _ in columns["question"]]
        joined = {
            name: list(chain.from_iterable(columns[name] for _, columns in rows))
            for name in ("question", "item", "value", "stderr", "low", "high")
        }
        numbers = {name: np.asarray(joined.pop(name)) for name in ("value", "stderr", "low", "high")}
        return {"group": values, **joined, **numbers}

    def table(self, level: float = 0.95, *, simultaneous: bool = False) -> TextTable:
        """One row a number, with its value of the public attribute; if `simultaneous`, all intervals hold at once."""
        columns = self._columns(level)
        if simultaneous:
            count = len(columns["value"])
            columns = self._columns(1 - (1 - level) / max(count, 1))  # the same for each number (Bonferroni)
        low, high = columns.pop("low"), columns.pop("high")
        named = {self.name: columns.pop("group"), **columns}
        return TextTable({**named, f"low {100 * level:.6g}%": low, f"high {100 * level:.6g}%": high})

    def plot(self, question: str | None = None, *, level: float = 0.95, simultaneous: bool = True) -> "Figure":
        """For each question, or one, a line along the values with a band that holds for the whole line."""
        chosen = [name for name in self.questions if self.is_listed(name)] if question is None else [question]
        return small_multiples({name: self._drawing(name, level, simultaneous) for name in chosen})

    def is_listed(self, name: str) -> bool:
        """Whether a result is a list of numbers, and not answers to queries."""
        return all(set(each[name].panels()) == {""} for each in self.values())

    def _drawing(self, question: str, level: float, simultaneous: bool) -> "Callable[[Axes], Axes]":
        series = [each.single(question) for each in self.values()]
        value = np.stack([np.ravel(each.value) for each in series])
        low, high = self._ends(question, level, value.size if simultaneous else 0)
        largest = np.argsort(-np.nan_to_num(value).mean(axis=0), kind="stable")[:MOST_LINES]
        names, rest = series[0].item_names, value.shape[1] - len(largest)
        lines = {str(names[item]): (value[:, item], low[:, item], high[:, item]) for item in largest}
        shown = f", the {len(largest)} largest of {value.shape[1]:,}" if rest else ""
        hold = " for all of it at once" if simultaneous else ""
        title = f"{question}\nby {self.name}{shown}, with {100 * level:.6g}% intervals{hold}"
        return lambda ax: draw_rounds(ax, list(self), lines, title, self.name)

    def explain(self) -> str:
        """In words: which groups there are, and what was promised."""
        count = [sum(each.reports.values()) for each in self.values()]
        few = f"{min(count):,}" if min(count) == max(count) else f"{min(count):,} to {max(count):,}"
        silent = f" Nobody reported with {', '.join(self.silent[:_SHOWN])}." if self.silent else ""
        return "\n".join(
            [
                f"By {self.name}, which is public: {len(self):,} values with {few} reports each.{silent}",
                f"All that a user reports together: {self.guarantee}. Nothing hides {self.name}.",
                "Values have different users: their errors are independent, and those of a change add up.",
            ]
        )

    def __repr__(self) -> str:
        return f"{self.explain()}\n{self.table()}"

    def _repr_html_(self) -> str:
        told = "".join(f"<p>{html.escape(line)}</p>" for line in self.explain().splitlines())
        return f"{told}{self.table()._repr_html_()}"
