"""The results of a plan: a mapping from each question to what was estimated.

Most questions are about one attribute, and their result is an `Estimate`. One about several at once has a
`RangeEstimate`, which answers any query about them. Both are results (`core.results`): a loop over all of them finds a
table, a picture, intervals and words on each. `single` gives a result of the first kind and `ranges` one of the second,
with their types; `cumulative` gives shares below thresholds, which have quantiles. Where reports name a group, `by`
gives the results of each value of a public attribute (`planning.group_estimates`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dither.core.cumulative_estimate import Cumulative
from dither.core.estimate import Estimate, Estimates
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.reports import left_out_in_words
from dither.errors import UnknownError
from dither.estimation.linear_readings import LinearReading
from dither.planning.attribute_evidence import Evidence, WhoWasAsked, sources_of
from dither.planning.open_numbers import with_magnitudes
from dither.planning.phases import AllPhases, guarantee_of_phases, in_one_phase
from dither.planning.refinement import refine_estimates
from dither.questions.catalogue import named
from dither.questions.question import CollectedUsers, Question
from dither.ranges.range_estimate import RangeEstimate

if TYPE_CHECKING:
    from dither.planning.group_estimates import GroupEstimates, GroupTallies
    from dither.planning.plan_tally import PlanTally
    from dither.planning.plans import Plan


@dataclass(frozen=True, eq=False, repr=False)
class PlanEstimates(Estimates[str, Estimate | RangeEstimate]):
    """A result for each question, as in `estimates["mean(income)"]`; an attribute's name means its first question.

    `dropped` says how many reports were left out of the tally, by the reason: they are in no number. `reports` says how
    many there are about each part of the plan.
    """

    dropped: Mapping[str, int] = field(default_factory=dict)
    asked: tuple[Question, ...] = ()
    reports: Mapping[str, int] = field(default_factory=dict)
    of_groups: "GroupTallies | None" = field(default=None, repr=False)

    def __getitem__(self, key: str) -> Estimate | RangeEstimate:
        """The result of a question, however it is written; an attribute's name means its first question."""
        if key not in self.parts and key not in self.aliases:
            meant = named(self.asked, key) if isinstance(key, str) else None
            key = key if meant is None else str(meant)
        return super().__getitem__(key)

    def by(self, name: str) -> "GroupEstimates":
        """The results of each value of a public attribute, as in `estimates.by("country")["DE"]["mean(income)"]`."""
        if self.of_groups is None:
            raise UnknownError("these results are not by group: the schema of their plan has no Public attributes")
        return self.of_groups.by(name)

    def explain(self) -> str:
        """Each part in words, and what was left out."""
        return "\n\n".join(filter(None, [super().explain(), left_out_in_words(self.dropped)]))

    def single(self, question: str) -> Estimate:
        """The result of a question about one attribute."""
        found = self[question]
        if isinstance(found, RangeEstimate):
            raise UnknownError("this result is about several attributes: estimates.ranges(...) gives it")
        return found

    def cumulative(self, attribute: str) -> Cumulative:
        """The shares of users below thresholds of an attribute, with the quantiles that can be read off them."""
        found = self.parts.get(f"cumulative({attribute})")
        if not isinstance(found, Cumulative):
            raise UnknownError(f'this plan did not ask for it: plan with ask=["cumulative({attribute})"]')
        return found

    def ranges(self, *attributes: str) -> RangeEstimate:
        """The result about exactly these attributes together, in any order; the only one, if none are named."""
        asked = {tuple(part.axes.names): part for part in self.values() if isinstance(part, RangeEstimate)}
        found = [part for names, part in asked.items() if not attributes or set(names) == set(attributes)]
        if len(found) == 1:
            return found[0]
        known = ", ".join(f"ranges({', '.join(names)})" for names in list(asked)[:12])
        if not asked:
            raise UnknownError('this plan did not ask for ranges: plan with ask=["ranges(age, income)"]')
        raise UnknownError(f"name the attributes of one of these results: {known}")


class ToldByReports(NamedTuple):
    """Estimates in the units of mechanisms: of all users, and for what rests on some of them `apart`.

    The latter are as of independent samples of users without end (`questions.CollectedUsers`).
    """

    found: dict[Question, Any]
    apart: dict[Question, Any]


def estimated(
    plan: "Plan", tally: "PlanTally", users: int, refine: str | None, phases: AllPhases | None = None
) -> PlanEstimates:
    """The results of a plan, of so many users: what reports tell, refined if wanted, and what is worked out from it."""
    phases = in_one_phase(tally) if phases is None else phases
    guarantee = NO_GUARANTEE if phases.simulated else guarantee_of_phases(plan)
    told = told_by_reports(plan, tally, users, guarantee, phases)
    found = finished(plan, told, tally, users, refine, phases)
    return with_magnitudes(found, phases.others, users) if phases.others else found


def told_by_reports(
    plan: "Plan", tally: "PlanTally", users: int, guarantee: Guarantee, phases: AllPhases | None = None
) -> ToldByReports:
    """What the reports of a plan without groups tell, all that is about an attribute put together."""
    asked = WhoWasAsked(users, len(plan.parts), plan.questions_per_user)
    own, evidence = _told_by_parts(plan, phases or in_one_phase(tally), guarantee, asked)
    needed = {each: evidence.alone[each] for one in plan.derived for each in one.rests_on if each in evidence.alone}
    return ToldByReports(evidence.put_together(own, asked.known), evidence.put_together(needed))


def finished(
    plan: "Plan",
    told: ToldByReports,
    tally: "PlanTally",
    users: int,
    refine: str | None,
    phases: AllPhases | None = None,
) -> PlanEstimates:
    """Results in the units of attributes, refined if wanted, with what is worked out from them."""
    heard = in_one_phase(tally) if phases is None else phases
    guarantee = NO_GUARANTEE if heard.simulated else guarantee_of_phases(plan)
    found = told.found if refine is None else refine_estimates(told.found, refine)
    decoded = {question: question.decode(estimate) for question, estimate in found.items()}
    apart = {each: each.decode(estimate) for each, estimate in told.apart.items()}
    collected = CollectedUsers(users, guarantee, apart)
    worked_out = {question: question.derive(decoded, collected) for question in plan.derived}
    shown = {str(each): result for each, result in {**decoded, **worked_out}.items() if not each.supporting}
    reports = {name: part.n for name, part in heard.parts.items()}
    reports |= {part.name: own.n for part, own in heard.others if part.name not in reports}
    return PlanEstimates(shown, _first_of_attributes(plan.questions), tally.dropped, plan.questions, reports)


def _told_by_parts(
    plan: "Plan", phases: AllPhases, guarantee: Guarantee, asked: WhoWasAsked
) -> tuple[dict[Question, Any], Evidence]:
    """For each question an estimate from its own reports, and what all of them tell about its attribute.

    Ranges come last: they take what the others tell into their marginals.
    """
    found: dict[str, dict[Question, Any]] = {part.name: {} for part in plan.parts}
    alone: dict[Question, Any] = {}
    told: list[tuple[Question, str, LinearReading]] = []
    for part, heard in phases.others:  # of an earlier phase, which asked it in another way
        told += part.tells(heard, dict(part.estimates(heard, guarantee, asked.among)), asked.among)
    for part in sorted(plan.parts, key=lambda each: each.takes_evidence):
        (own, earlier), others = phases.parts[part.name], dict[str, list[LinearReading]]()
        if part.takes_evidence and phases.parts[part.name].n:
            for _, name, reading in told:
                others.setdefault(name, []).append(reading)
        found[part.name] |= part.estimates(own, guarantee, asked.users, others, earlier)
        apart = part.takes_evidence or asked.among == asked.users
        drawn = found[part.name] if apart else dict(part.estimates(own, guarantee, asked.among, earlier=earlier))
        told += part.tells(own, drawn, asked.among)
        alone |= drawn
    every = {question: estimate for estimates in found.values() for question, estimate in estimates.items()}
    return every, Evidence(sources_of(told), alone)


def _first_of_attributes(asked: tuple[Question, ...]) -> dict[str, str]:
    """For each attribute its first question."""
    return {name: str(question) for question in reversed(asked) for name in question.names}
