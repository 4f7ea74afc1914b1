"""Phases: other users are asked later, with what was learned from those before.

A share of the users answers the first plan. `plan.next(tally)` makes the plan for the others from the tally of these:
whatever a mechanism learns (`Mechanism.after`), such as where the people are. Every user answers in one phase only.

**Why it costs nothing.** Let x_1 be the records of the first phase and x_2 those of the second. The first tally T is
made of reports that are epsilon-private in each record of x_1. The second mechanism is a function of T, and nothing
else; given T, its reports are epsilon-private in each record of x_2. A record is in one of the two. If it is in x_1,
then T protects it, and what comes afterwards is made of T and of other people's records. If it is in x_2, then T does
not depend on it at all, and the second mechanism protects it, whichever T chose. So all that is published together
promises what the worse phase does: parallel composition, with a mechanism chosen in between (docs/decisions/0046).

**What has to be organised.** Who belongs to which phase is decided without looking at anybody's record, and nobody
reports in both. If it is drawn at random the results are about all users; if it is decided otherwise (the first week)
nothing is spent more, but reports of the two phases are put together as if their users were alike.

**What is stored.** The first plan says how many users each phase is for. The second holds the first, and the digest of
its tally (`after`): the estimate needs that tally, and takes no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from dither.core.checks import as_float, is_list, whole_number
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.errors import ParameterError, TallyError
from dither.planning.phase_formats import PhasesFormat
from dither.planning.plan_parts import Part

if TYPE_CHECKING:
    from dither.planning.plan_tally import PlanTally
    from dither.planning.plans import Plan

FIRST = 0.25  # of the users answer the first of two phases; benchmarks/phases.py --first compares others
_USAGE = "phases is 2, or the shares of the users of two phases, as in phases=[0.25, 0.75]"


@dataclass(frozen=True)
class Phases:
    """Of the first plan: how many users are expected in each phase.

    Where something can be asked only when the first phase has told the ends of a number, `ask` is what the second plan
    asks, and `options` how it is made.
    """

    users: tuple[int, ...]
    ask: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        later = {"ask": list(self.ask), "options": dict(self.options)} if self.ask else {}
        return {"users": list(self.users), **later}

    @classmethod
    def of(cls, stored: PhasesFormat) -> "Phases":
        """What a file holds."""
        return cls(tuple(stored.users), tuple(stored.ask), dict(stored.options))


@dataclass(frozen=True)
class EarlierPhase:
    """Of a later plan: the plan of the phase before, and the digest of its tally."""

    plan: "Plan"
    tally: str

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"plan": self.plan.to_dict(), "tally": self.tally}


def in_one(phases: Any) -> bool:
    """Whether all users are asked at once."""
    return whole_number(phases) == 1


def users_of_phases(phases: Any, users: int) -> tuple[int, ...]:
    """How many of the users answer in each of two phases."""
    count = whole_number(phases)
    shares = [FIRST, 1 - FIRST] if count == 2 else phases if is_list(phases) else []
    numbers = [as_float(each) for each in shares]
    if len(numbers) != 2 or not all(0 < each < 1 for each in numbers) or abs(sum(numbers) - 1) > 1e-9:
        raise ParameterError(_USAGE)
    first = round(users * numbers[0])
    if not 0 < first < users:
        raise ParameterError("two phases need users in each: plan for more users, or in one phase")
    return first, users - first


def refuse_with_phases(rounds: bool, groups: bool, crowd: bool) -> None:
    """What phases do not go with, so far, and what to do instead."""
    for given, what in (
        (rounds, "rounds, in which the same users are asked alike again: leave rounds out, or plan in one phase"),
        (
            groups,
            "public attributes or budgets to choose from: make a plan with phases for each group, from a schema "
            "without the public attributes and with one epsilon, or one plan in one phase",
        ),
        (
            crowd,
            "a shuffler, since each phase would be a crowd of its own: leave central out and say what a report may "
            "tell, as in epsilon=1.0, or plan in one phase",
        ),
    ):
        if given:
            raise ParameterError(f"phases do not go with {what}")


def next_plan(plan: "Plan", tally: "PlanTally", prior: Mapping[str, Any] | None = None) -> "Plan":
    """The plan for the users of the next phase, by what the tally of this one tells."""
    if plan.phases is None:
        told = "this plan is the last of its phases" if plan.after is not None else "this plan has one phase"
        raise ParameterError(f"{told}: dither.plan(..., phases=2) makes one that has a next")
    plan.check_tally(tally)
    if not tally.reports:
        raise TallyError("the first phase has no reports yet: tally them before planning the next one")
    users, earlier = plan.phases.users[1], EarlierPhase(plan, tally.digest)
    if plan.phases.ask:
        from dither.planning.open_numbers import plan_with_ends

        return replace(plan_with_ends(plan, tally, users, prior), after=earlier)
    total = sum(part.weight for part in plan.parts)
    parts = []
    for part in plan.parts:
        expected = max(1, users * plan.questions_per_user * part.weight // total)
        mechanism = part.mechanism.after(tally.parts[part.name], expected)
        parts.append(
            part._replace(questions=tuple(each.as_asked_by(mechanism) for each in part.questions), mechanism=mechanism)
        )
    made = replace(plan, users=users, parts=tuple(parts), phases=None, after=earlier)
    if not made.kept:
        raise ParameterError("what this tally tells makes a plan that does not keep its guarantee; ask in one phase")
    return made


# All phases together -------------------------------------------------------------------------------------------------


class PartOfPhases(NamedTuple):
    """What is told about a part: its own tally, and the mechanisms and tallies of earlier phases if these differ."""

    tally: Tally
    earlier: tuple[tuple[Mechanism, Tally], ...] = ()

    @property
    def n(self) -> int:
        """How many reports there are, in all phases."""
        return self.tally.n + sum(tally.n for _, tally in self.earlier)


class AllPhases(NamedTuple):
    """The reports of all phases by the parts of the last plan, and those that are about none of its parts."""

    parts: Mapping[str, PartOfPhases]
    others: tuple[tuple[Part, Tally], ...] = ()
    users: int = 0  # who reported in an earlier phase
    simulated: bool = False


def in_one_phase(tally: "PlanTally") -> AllPhases:
    """A tally of a plan that has no earlier phase."""
    return AllPhases({name: PartOfPhases(own) for name, own in tally.parts.items()}, simulated=tally.simulated)


def all_phases(plan: "Plan", tally: "PlanTally", earlier: Sequence["PlanTally"]) -> AllPhases:
    """The tally of a plan with those of earlier phases, checked: what was asked alike counts as one.

    A part whose mechanism learned something keeps its reports apart, for a reading that knows both. What was asked in
    another way tells about its attribute as any other question does.
    """
    tallies = list(earlier)
    if plan.after is None:
        if tallies:
            raise ParameterError("this plan has no earlier phase: estimate without earlier")
        return in_one_phase(tally)
    if len(tallies) != 1:
        raise TallyError(
            "this plan is of a second phase, and its results need the tally of the first one: "
            "plan.estimate(tally, earlier=[first_tally])"
        )
    first, [own] = plan.after.plan, tallies
    first.check_tally(own)
    if own.digest != plan.after.tally:
        raise TallyError(
            f"this plan was made from another tally of the first phase, {plan.after.tally[:12]}, and this one is "
            f"{own.digest[:12]}: give the tally that plan.next was given, or make the next plan again"
        )
    parts = {name: PartOfPhases(each) for name, each in tally.parts.items()}
    others = []
    mechanisms = {part.name: part.mechanism for part in plan.parts}
    for part in first.parts:
        mechanism, heard = mechanisms.get(part.name), own.parts[part.name]
        if mechanism is not None and mechanism.fingerprint == part.mechanism.fingerprint:
            parts[part.name] = PartOfPhases(parts[part.name].tally + heard)
        elif mechanism is not None and mechanism.phased and type(mechanism) is type(part.mechanism):
            parts[part.name] = PartOfPhases(parts[part.name].tally, ((part.mechanism, heard),))
        else:
            others.append((part, heard))
    reported = first.users_behind([each.n for each in own.parts.values()])
    return AllPhases(parts, tuple(others), reported, tally.simulated or own.simulated)


def guarantee_of_phases(plan: "Plan") -> Guarantee:
    """What all phases promise to each user, who is in one of them: that of the worst."""
    if plan.after is None:
        return plan.guarantee
    own, first = plan.guarantee, plan.after.plan.guarantee
    if own == first:
        return own
    return replace(own, epsilon=max(own.epsilon, first.epsilon), delta=max(own.delta, first.delta), established="bound")
