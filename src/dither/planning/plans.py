"""The plan: what is asked, by which mechanisms, of whom, and what it will cost.

It is made before a single report is collected, from public facts alone: the schema, the budget, the number of users,
and what is publicly known about them. `dither.plan` makes one, by comparing the ways in `choose`. What devices need of
it is in `device_plan`: what is sent, what that promises, and the hash. Here is what a collector does with it: read it,
add up reports, and estimate.

**What is stored.** The integers that are sampled; loading certifies them again. The hash covers all that defines the
plan. Beside it stand what follows from it: the certificate, which loading compares, and the predictions, which a later
version may make better.
"""

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither import __version__
from dither.core.atomic_write import atomic_path
from dither.core.checks import checked_count
from dither.core.guarantee import Guarantee
from dither.core.registry import Registry
from dither.core.reports import OUT_OF_RANGE, Reports, maker_of
from dither.core.schedule import ONCE
from dither.display.table import TextTable
from dither.errors import EmptyError, ParameterError, ReportError, TallyError
from dither.planning import plan_files
from dither.planning.budgets import regions_of, whole_questions
from dither.planning.device_plan import DevicePlan
from dither.planning.device_reports import DeviceReports
from dither.planning.explanation import explain_plan
from dither.planning.groups import (
    BUDGET,
    Group,
    combinations,
    crowds,
    group_table,
)
from dither.planning.importance import importances
from dither.planning.phases import all_phases, next_plan
from dither.planning.plan_files import CertificateFormat
from dither.planning.plan_parts import Part
from dither.planning.plan_poisoning import goodness_of_tally, influence_on_plan
from dither.planning.plan_tally import PlanTally
from dither.planning.prediction import prediction_of_budgets
from dither.planning.rounds_in_words import rounds_columns
from dither.planning.tally_sums import merged_tallies
from dither.questions.question import Question
from dither.schema import Schema
from dither.utility.goodness import FALSE_ALARM, Goodness
from dither.utility.influence import Influence

if TYPE_CHECKING:
    from dither.planning.plan_estimates import PlanEstimates
    from dither.planning.round_estimates import RoundEstimates
    from dither.planning.simulation import Simulation
    from dither.planning.statement import Statement

# What reports are in bytes is known one floor above.
_formats: Registry[Callable[["Plan"], Any]] = Registry("wire format", {"BatchFormat": "dither.wire.batches"})


@dataclass(frozen=True)
class Plan(DevicePlan):
    """What is asked, by which mechanisms, of whom; and what it will cost."""

    @classmethod
    def of_groups(cls, schema: Schema, budgets: Mapping[str, "Plan"], users: Sequence[int]) -> "Plan":
        """The plan of all groups of a schema with public attributes: who chose a budget is asked by its plan.

        `users` are those of each group, in the order of `planning.groups.combinations`. Without a choice there is one
        budget, "".
        """
        facts = combinations(schema.public)
        narrowed = {name for plan in budgets.values() for name in regions_of(schema, plan.schema)}
        groups = tuple(
            Group(each, count, budgets[dict(each).get(BUDGET, "")]) for each, count in zip(facts, users, strict=True)
        )
        parts = tuple(group.part(part) for group in groups for part in group.asked.parts)
        first = next(iter(budgets.values()))
        return cls(
            schema,
            max(plan.epsilon for plan in budgets.values()),
            first.delta,
            sum(users),
            parts,
            max(plan.questions_per_user for plan in budgets.values()),
            prediction_of_budgets(
                {label: (plan.prediction, plan.users) for label, plan in budgets.items()},
                frozenset(str(question) for question in first.questions if question.totals),
            ),
            whole_questions(schema, first.derived, narrowed),
            crowd=first.crowd,
            groups=groups,
        )

    @cached_property
    def weighted_questions(self) -> tuple[Question, ...]:
        """The same, with what of them mattered more when the plan was made."""
        return tuple(importances(self.measured + self.derived, self.prediction.weights))

    @staticmethod
    def behind(question: Question) -> tuple[Question, ...]:
        """The questions whose reports answer it: itself, or those that it rests on."""
        return (question,) if question.reported else question.rests_on

    @property
    def beside(self) -> tuple[Question, ...]:
        """What is not asked, and may come with what is."""
        return self._of_any_budget(lambda plan: (each for part in plan.parts for each in part.beside))

    @property
    def tables(self) -> tuple[Question, ...]:
        """Of these the tables of questions that are asked together."""
        return self._of_any_budget(
            lambda plan: (part.table for part in plan.parts if part.table is not None and part.table in part.beside)
        )

    @property
    def shares(self) -> NDArray[np.float64]:
        """For each part the share of users who answer it."""
        if self.groups:
            return np.concatenate([group.asked.shares * (group.users / self.users) for group in self.groups])
        weights = np.array([part.weight for part in self.parts], dtype=np.float64)
        return self.questions_per_user * weights / weights.sum()

    @property
    def users_of_phases(self) -> int:
        """How many users are expected in all phases together: predictions are for so many."""
        before = 0 if self.after is None else self.after.plan.users
        return self.users + before if self.phases is None else sum(self.phases.users)

    @property
    def reports_per_user(self) -> int | None:
        """How many reports every user sends; None if budgets differ in it."""
        counts = {plan.questions_per_user for plan in self.budgets.values()}
        return counts.pop() if len(counts) == 1 else None

    @property
    def rounds(self) -> int:
        """How often the same users are asked."""
        return self.schedule.rounds

    @property
    def heard(self) -> float:
        """How many users are expected to report in one round."""
        return self.users * float(self.schedule.turnout)

    @cached_property
    def shuffled(self) -> Guarantee:
        """What the smallest batches that a shuffler forwards promise, in all rounds; without one, what reports do.

        It protects against all who see the batches and not who sent what, and it trusts the shuffler.
        """
        from dither.planning.shuffled_plans import shuffled_guarantee  # a device has no use for it

        return self.guarantee if self.crowd is None else shuffled_guarantee(self, self.crowd)

    @cached_property
    def shuffled_round(self) -> Guarantee:
        """The same of the smallest batch of one round."""
        return replace(self, schedule=ONCE).shuffled if self.schedule.repeats else self.shuffled

    def _certified(self, stated: CertificateFormat | None) -> bool:
        """Whether a stored certificate is true: not below what the integers cost, and not above what is declared."""
        if stated is None:  # at first plans were written without one
            return True
        now = self.guarantee
        return now.epsilon <= stated.epsilon <= self.epsilon and now.delta <= stated.delta <= self.delta

    @property
    def predicted(self) -> Mapping[str, float]:
        """The standard error of each question, in its own units; of a cell or key on average, whatever the weights.

        Of ranges it is that of a query: a typical one, or one of those that the weights name.
        """
        return self.prediction.errors

    @property
    def rmse(self) -> float:
        """What the plan minimises: the square root of the mean over questions of MSE / scale^2, by their weights.

        It is for users like those of the prior; without one, for numbers that are spread evenly over their domain and
        otherwise for the worst users. Where cells or keys have weights of their own, MSE is their weighted mean. Of a
        plan that was made for a share of liars, it is that of the worst they can do. Of one with `goal="maximum"` it is
        the largest error / scale of all numbers, with a confidence of 95%.
        """
        return next(iter(self.prediction.compared.values()))

    def influence(self, share: float = 0.01) -> Influence:
        """What one report can do to each question, and what this share of liars can, in the question's own units.

        Liars choose which of the questions they answer: all of them answer the one that they want to move. Each counts
        once about a question, as an honest device does: who is let send r reports about it is r liars. It is about
        estimates as they are read; a refined one may be moved farther.

        >>> from dither import Numeric, plan
        >>> best = plan(Schema({"income": Numeric(0, 200_000)}), 1.0, users=100_000)
        >>> best.influence(0.01)
        question      numbers       least       most  moved by 1 of n  1% of liars, down  1% of liars, up
        mean(income)        1  -1.164e+05  3.164e+05       4.3279e+05              -3164             3164
        """
        return influence_on_plan(self, share)

    def table(self, liars: float | None = None) -> TextTable:
        """One row a question; with a share of `liars`, also how far these can move its numbers, at most.

        Where people choose a budget, one row for each of these and each question; `group_table` is by group.
        """
        if self.groups:
            return _by_budget({label: plan.table(liars) for label, plan in self.budgets.items()})
        told: dict[Question, tuple[Part, float]] = {
            question: (part, share)
            for part, share in zip(self.parts, self.shares.tolist(), strict=True)
            for question in part.questions
        }
        rows = []
        for question in self.questions:
            parts = list({told[each][0].name: told[each] for each in self.behind(question)}.values())
            mechanisms = dict.fromkeys(type(part.mechanism).__name__ for part, _ in parts)
            epsilon = max((part.mechanism.epsilon for part, _ in parts), default=0.0)
            asked = sum(share for _, share in parts)
            rows.append((str(question), ", ".join(mechanisms), epsilon, f"{self.heard * asked:,.0f}"))
        columns = zip(*rows, strict=True)
        named = dict(zip(("question", "mechanism", "epsilon", "users"), map(list, columns), strict=True))
        found = {**named, "predicted error": [self.predicted[name] for name in named["question"]]}
        if self.schedule.repeats:
            found |= rounds_columns(self, named["question"])
        if self.prediction.one_phase:
            found["in one phase"] = [self.prediction.one_phase[name] for name in named["question"]]
        if self.prediction.unshuffled:
            found["without a shuffler"] = [self.prediction.unshuffled[name] for name in named["question"]]
        if liars is not None:
            found |= self.influence(liars).column(named["question"])
        return TextTable(found)

    def group_table(self) -> TextTable:
        """One row a group: its expected users, its budget, and the predicted error of each question."""
        if not self.groups:
            raise ParameterError("this plan has no groups: a schema with Public attributes has, or one with budgets")
        return group_table(self.groups)

    def crowds(self, delta: float = 1e-6, *, central: float | None = None) -> TextTable:
        """For each group what a shuffler adds, and the fewest users whose reports keep (central, delta).

        Reports show their group: whoever collects sees batches of one group, and its users hide each other alone.
        """
        if not self.groups:
            raise ParameterError("this plan has no groups: dither.privacy.amplify tells what a shuffler adds")
        return crowds(self.groups, delta, central)

    def compared(self, prior: Mapping[str, Any] | None = None) -> TextTable:
        """For each question the mechanisms that might have asked it: their error, and what a report of each costs.

        At the budget and for the share of the users that the plan gives to the question. `prior` is what `dither.plan`
        was given as such: what is known about users is not stored.

        >>> from dither import Categorical, plan
        >>> best = plan(Schema({"job": Categorical(["nurse", "driver", "other"])}), 1.0, users=100_000)
        >>> table = best.compared().columns
        >>> list(zip(table["mechanism"], table["against"], table["bytes"]))[:3]
        [('GRR', 'taken', 1), ('SubsetSelection(size=1)', '+0.0%', 1), ('ProjectiveGeometry(q=2)', '+41.3%', 1)]
        """
        from dither.planning.compared import compared_mechanisms  # a device has no use for it

        if self.groups:
            return _by_budget({label: plan.compared(prior) for label, plan in self.budgets.items()})
        return compared_mechanisms(self, prior)

    def ways(self) -> TextTable:
        """The ways to ask that were compared, the best first; last, if known, the limit that no way can be below.

        The limit is one for all users, so the way that was taken stands beside it with its error for the worst of them,
        where it was chosen for others (numbers that are spread evenly).
        """
        limit, worst = self.prediction.limit, self.prediction.worst
        found = dict(self.prediction.compared)
        if limit and worst > self.rmse:
            found["the best, for the worst users"] = worst
        if limit:
            found["limit for any plan"] = limit
        error = "largest error / scale" if self.prediction.goal else "error / scale"
        return TextTable({"way to ask": list(found), error: list(found.values())})

    def explain(self) -> str:
        """In words: what is asked, how, and why."""
        return explain_plan(self)

    def statement(
        self,
        *,
        collector: str | None = None,
        purpose: str | None = None,
        contact: str | None = None,
        keep_reports: str | None = None,
        keep_results: str | None = None,
        connection: str | None = None,
        shuffler: str | None = None,
    ) -> "Statement":
        """A statement for the people who are asked, in plain words: what is asked, sent, revealed, kept, and how long.

        What no plan knows is given, or is a blank that is marked: who collects, what for, whom to ask, for how long
        reports and results are kept (as in "30d"), and what is kept about connections. `shuffler` is who mixes the
        reports, if somebody does.

        >>> from dither import Ordinal, plan
        >>> found = plan(Schema({"age": Ordinal(0, 99)}), 1.0, users=100_000).statement(collector="The town")
        >>> print(found.sections[0].paragraphs[0])
        Who collects: The town. What the results are for: [to be filled in: what the results are for].
        >>> list(found.blanks)
        ['purpose', 'contact', 'keep_reports', 'keep_results', 'connection']
        """
        from dither.planning.statement import statement_of  # a device has no use for it

        return statement_of(
            self,
            shuffler,
            collector=collector,
            purpose=purpose,
            contact=contact,
            keep_reports=keep_reports,
            keep_results=keep_results,
            connection=connection,
        )

    def __repr__(self) -> str:
        return f"{self.title}\n{self.table()}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.title)}</p>{self.table()._repr_html_()}"

    @property
    def title(self) -> str:
        """What kind of plan it is, in one line."""
        count = len(self.questions)
        asked = "1 question" if count == 1 else f"{count:,} questions"
        rounds = f" in {self.rounds:,} rounds" if self.schedule.repeats else ""
        groups = f" in {len(self.groups):,} public groups" if self.groups else ""
        crowd = self.crowd
        phase = ""
        if self.phases is not None or self.after is not None:
            phase = f" of the {'first' if self.after is None else 'second'} phase"
        mixed = "" if crowd is None else f"; in shuffled batches of {crowd.batch:,} users or more: {crowd.guarantee}"
        return f"Plan of {asked} for {self.users:,} users{phase}{rounds}{groups}; {self.guarantee}{mixed}"

    # On the device ---------------------------------------------------------------------------------------------

    def randomize_rounds(
        self, tables: Sequence[Any], *, seed: int | None = None, invalid: str = "error", missing: str = "substitute"
    ) -> "list[dict[str, Reports]]":
        """For each round the reports of the users who send one: for trials of plans with rounds.

        `tables` are those of the first rounds, in order, or of all: each as `randomize` takes it, with the same user in
        the same row of all of them. Every user draws and keeps what a device with a ledger does.

        >>> from dither import Categorical, plan
        >>> schema = Schema({"mood": Categorical(["good", "fair", "bad"])})
        >>> weekly = plan(schema, 2.0, users=1000, rounds=4)
        >>> weeks = weekly.randomize_rounds([{"mood": ["good", "bad"] * 500}] * 4, seed=1)
        >>> len(weeks), sum(len(week["histogram(mood)"]) for week in weeks)
        (4, 1000)
        """
        from dither.planning.round_reports import reports_of_rounds  # a device has no use for it

        return reports_of_rounds(self, tables, seed=seed, invalid=invalid, missing=missing)

    def pack(self, reports: Mapping[str, Any], *, period: str | int | None = None) -> bytes:
        """Reports of this plan as bytes for the wire: docs/wire-format.md. Of a plan with rounds, those of one period.

        >>> from dither import Categorical, plan
        >>> best = plan(Schema({"job": Categorical(["nurse", "driver", "other"])}), 1.0, users=1000)
        >>> report = best.report({"job": "nurse"})
        >>> data = best.pack(report)
        >>> len(data), best.unpack(data) == report
        (65, True)
        """
        return self._batch_format.pack(reports, period=period)

    def unpack(self, data: bytes | bytearray | memoryview, *, period: str | int | None = None) -> dict[str, Reports]:
        """The inverse of `pack`; refuses a batch of another plan or period, and one with any report that is invalid.

        A collector that keeps the others asks `dither.wire.BatchFormat(plan).check(data)`.
        """
        return self._batch_format.unpack(data, period=period)

    @cached_property
    def _batch_format(self) -> Any:
        return _formats["BatchFormat"](self)

    def simulate(
        self,
        population: Any,
        repetitions: int = 100,
        *,
        refine: str | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> "Simulation":
        """How far from the truth the results of collections from such a population are, before there is one.

        `population` is a table of records, as `randomize` takes it: public or made up, never those to be protected.
        """
        from dither.planning.simulation import simulated

        return simulated(self, population, repetitions, refine=refine, seed=seed, progress=progress)

    def audited(self) -> DeviceReports:
        """What an audit attacks: all that a device sends, `dither.privacy.audit(plan)`.

        The group is no secret, and is not guessed: the users of one with the largest epsilon are attacked.
        """
        weakest = max(self.groups, key=lambda group: group.guarantee.epsilon, default=None)
        return DeviceReports(self, weakest)

    # On the server ---------------------------------------------------------------------------------------------

    def tally(
        self, reports: Mapping[str, Any], *, invalid_reports: str = "error", allow_simulated: bool = False
    ) -> PlanTally:
        """The sums over the reports of each part. Plain arrays carry no tag: they are counted under their name.

        A report with a field out of range is refused, and so are simulated reports among others that are not
        (`planning.tally_sums`). `invalid_reports="drop"` leaves both out: `dropped` of the tally counts them by reason.
        """
        names = [part.name for part in self.parts]
        if not isinstance(reports, Mapping) or set(reports) != set(names):
            raise ReportError(f"these are not reports of this plan: expected a mapping with {', '.join(names)}")
        tallies = {
            part.name: part.mechanism.tally(self._own(part, reports[part.name]), invalid_reports=invalid_reports)
            for part in self.parts
        }
        invalid = sum(np.size(reports[name]) - tally.n for name, tally in tallies.items())
        found = PlanTally(self.fingerprint, tallies, dropped={OUT_OF_RANGE: invalid} if invalid else {})
        simulated = [name for name, tally in tallies.items() if tally.simulated]
        others = [name for name, tally in tallies.items() if tally.n and not tally.simulated]
        if not simulated or not others:
            return found
        kinds = found.without(simulated), replace(found.without(others), dropped={})
        return merged_tallies(kinds, invalid_reports=invalid_reports, allow_simulated=allow_simulated)

    def check_tally(self, tally: PlanTally) -> None:
        """Refuse a tally that is not of this plan, or that no reports of it can have added up to; names the question.

        >>> from dither import Categorical, plan
        >>> best = plan(Schema({"job": Categorical(["nurse", "driver", "other"])}), 1.0, users=1000)
        >>> best.check_tally(best.tally(best.randomize({"job": ["nurse", "other"]})))
        """
        if not isinstance(tally, PlanTally) or tally.plan != self.fingerprint:
            raise TallyError("this tally belongs to another plan: plan.estimate(plan.tally(reports))")
        if set(tally.parts) != {part.name for part in self.parts}:
            raise TallyError("this tally is damaged: its questions are not those of the plan")
        for part in self.parts:
            part.check_tally(tally.parts[part.name])

    def load_tally(self, data: bytes, *, key: bytes | None = None) -> PlanTally:
        """The tally of this plan in these bytes, checked; with a key, only one that is sealed with it."""
        tally = PlanTally.from_bytes(data, key=key)
        self.check_tally(tally)
        return tally

    def merge(
        self, tallies: Iterable[PlanTally], *, invalid_reports: str = "error", allow_simulated: bool = False
    ) -> PlanTally:
        """The sum of tallies of this plan, each checked before it is added: a sum would hide what one of them claims.

        Simulated ones are not mixed with others, unless that is allowed (`planning.tally_sums`).

        >>> from dither import Categorical, plan
        >>> best = plan(Schema({"job": Categorical(["nurse", "driver", "other"])}), 1.0, users=1000)
        >>> days = [best.tally(best.randomize({"job": jobs})) for jobs in (["nurse", "other"], ["driver"])]
        >>> best.merge(days)
        PlanTally(histogram(job): 3)
        """
        checked = self.checked_tallies(tallies)
        return merged_tallies(checked, invalid_reports=invalid_reports, allow_simulated=allow_simulated)

    def checked_tallies(self, tallies: Iterable[PlanTally]) -> Iterator[PlanTally]:
        """The tallies, as they come; one that does not pass `check_tally` is named by its place."""
        for place, tally in enumerate(tallies):
            try:
                self.check_tally(tally)
                wrong = None
            except TallyError as error:
                wrong = f"tally {place}: {error}; nothing was merged"
            if wrong is not None:
                raise TallyError(wrong)
            yield tally

    def _own(self, part: Part, reports: Any) -> Any:
        """The reports as the mechanism knows them, if their tag is right."""
        maker = maker_of(reports)
        if not maker:
            return reports
        if maker != self.tag(part):
            raise ReportError(
                f"the reports under {part.name} answer another question, or belong to another plan; nothing was tallied"
            )
        return Reports.wrap(np.asarray(reports), part.mechanism.fingerprint, reports.simulated)

    def goodness(self, tally: PlanTally, false_alarm: float = FALSE_ALARM) -> Goodness:
        """Whether honest reports can have made this tally, whatever the users hold (`utility.goodness`).

        If they have, it does not pass with probability `false_alarm` at most. Which questions were answered, and how
        often, is looked at, too: an honest device draws them, or answers each of them once.
        """
        return goodness_of_tally(self, tally, false_alarm)

    def next(self, tally: PlanTally, *, prior: Mapping[str, Any] | None = None) -> "Plan":
        """The plan for the users of the next phase, by what the tally of this one tells (`planning.phases`).

        Of a plan that was made with `phases=2`. The tally is made of reports, so nothing is spent; each user must be
        asked in one phase only, and in which is decided without looking at anybody's record. Results need both tallies:
        `second.estimate(tally, earlier=[first_tally])`. `prior` is what `dither.plan` was given as such.

        >>> from dither import Numeric, plan
        >>> schema = Schema({"income": Numeric(0, 1_000_000)})
        >>> first = plan(schema, 1.0, users=40_000, ask=["median(income)"], phases=2)
        >>> early = first.tally(first.randomize({"income": [20_000 + i for i in range(10_000)]}, seed=1))
        >>> second = first.next(early)
        >>> late = second.tally(second.randomize({"income": [20_000 + i for i in range(30_000)]}, seed=2))
        >>> found = second.estimate(late, earlier=[early])["median(income)"]
        >>> first.users, second.users, 25_000 < float(found.value) < 45_000
        (10000, 30000, True)
        """
        return next_plan(self, tally, prior)

    def estimate(
        self,
        tally: PlanTally,
        *,
        earlier: Sequence[PlanTally] = (),
        refine: str | None = None,
        users: int | None = None,
        sizes: Mapping[Any, Any] | None = None,
        weights: Mapping[Any, Any] | None = None,
        pooling: str = "stratified",
    ) -> "PlanEstimates":
        """An estimate for each question, in the attribute's own units; the attribute's name means its first one.

        `refine="auto"` wins back accuracy (`dither.refine`): each result then has the one before as `original`. Results
        are about the users who reported. `users` is a larger public number of them, of whom those who reported are a
        random part: totals are then of so many, and error bars know that the others were not asked. `earlier` are the
        tallies of the phases before, of a plan that `next` made.

        Results of a plan with groups are of all users, and `estimates.by("country")` has those of each value. `sizes`
        are public sizes of the groups, where other people than those who reported are to be told of, and `weights` are
        public weights of a survey, how much a user of each group counts: as in `sizes={"DE": 83e6, "FR": 68e6}`.
        `pooling` says how budgets are put together (`planning.group_estimates`).
        """
        from dither.planning.plan_estimates import estimated  # a device has no use for it

        self.check_tally(tally)
        phases = all_phases(self, tally, earlier)
        if self.groups:
            from dither.planning.group_estimates import GroupOptions, estimates_of_groups

            return estimates_of_groups(self, tally, GroupOptions.checked(self, refine, users, sizes, weights, pooling))
        if (sizes, weights, pooling) != (None, None, "stratified"):
            raise ParameterError("sizes, weights and pooling are for plans with groups, and this one has none")
        reported = self.users_behind([part.n for part in tally.parts.values()]) + phases.users
        if reported == 0:
            raise EmptyError("there are no reports yet: tally at least one before estimating")
        behind = round(reported / self.schedule.turnout)
        everybody = behind if users is None else checked_count("users", users, reported, plan_files.MOST_WHOLE)
        return estimated(self, tally, everybody, refine, phases)

    def estimate_rounds(self, tallies: "Mapping[str | int, PlanTally]") -> "RoundEstimates":
        """Estimates by round, of changes between rounds and of their mean, from the tally of each: `{"W47": tally}`.

        Rounds are named by their periods; those that are not there yet are left out.
        """
        from dither.planning.round_estimates import estimates_of_rounds  # a device has no use for it

        return estimates_of_rounds(self, tallies)

    def users_behind(self, reports: Sequence[int]) -> int:
        """How many users sent so many reports for each part: each answers so many questions, and no question twice."""
        if self.groups:
            counts = iter(reports)
            return sum(group.asked.users_behind([next(counts) for _ in group.asked.parts]) for group in self.groups)
        return max(*reports, round(Fraction(sum(reports), self.questions_per_user)))

    # Identity --------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The plan for a file, with its hash, the version that wrote it, its certificate and its prediction.

        Mechanisms are the integers that they sample. docs/formats.md describes every field.
        """
        beside = {
            "hash": self.fingerprint,
            "version": __version__,
            "certificate": _stated(self.guarantee),
            "prediction": self.prediction.stored(),
        }
        return plan_files.to_text(self.to_dict(), beside)

    def save(self, path: str | Path) -> None:
        """Write the plan to a file, whole or not at all; `Plan.read` reads it."""
        with atomic_path(path) as temporary:
            temporary.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> "Plan":
        """The plan in a file, certified again."""
        try:
            text = Path(path).read_bytes().decode("utf-8")
        except (OSError, TypeError, ValueError):  # the last two of what is no path, or no text
            raise ParameterError(f"the plan file {path} cannot be read; plan.save(path) writes one") from None
        return cls.from_json(text)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """The inverse of `to_json`: the hash is compared, every mechanism is certified again, and so is the plan."""
        from dither.planning.stored_plans import plan_of_fields

        stored = plan_files.from_text(text)
        plan = plan_of_fields(stored)
        if plan.fingerprint != stored.hash:  # what was read is not what it would write
            raise ParameterError(plan_files.CHANGED)
        if not plan.kept:
            raise ParameterError("this plan does not keep the guarantee that it declares")
        if not plan._certified(stored.certificate):
            raise ParameterError("this plan states another guarantee than its integers deliver; make the plan again")
        return plan


def _by_budget(tables: Mapping[str, TextTable]) -> TextTable:
    """Tables below each other, each row with its budget; the only one as it is."""
    if len(tables) == 1:
        return next(iter(tables.values()))
    lengths = {label: len(next(iter(table.columns.values()))) for label, table in tables.items()}
    labels = [label for label, count in lengths.items() for _ in range(count)]
    names = next(iter(tables.values())).columns
    return TextTable({BUDGET: labels, **{name: [*_chained(tables, name)] for name in names}})


def _chained(tables: Mapping[str, TextTable], name: str) -> Iterator[Any]:
    return (cell for table in tables.values() for cell in table.columns[name])


def _stated(guarantee: Guarantee) -> dict[str, Any]:
    return {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "established": guarantee.established}
