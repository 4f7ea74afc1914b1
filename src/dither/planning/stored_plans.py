"""A plan made of the fields of a file: its schema, its parts, its groups and its predictions, each checked.

What is wrong is refused with the name of the field. Whether the plan keeps what it declares, and whether it is what its
hash says, is for `Plan.from_json` to see: here it is only made.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dither.core.checks import checked_count, checked_delta, checked_epsilon
from dither.core.crowd import Crowd
from dither.core.decoding import decoded
from dither.core.schedule import ONCE, Schedule
from dither.errors import ParameterError
from dither.mechanisms import load
from dither.planning.budgets import Budget, refuse_in_regions, schema_in
from dither.planning.groups import BUDGET, combinations
from dither.planning.phases import EarlierPhase, Phases
from dither.planning.plan_files import PartFormat, PlanFormat, digest
from dither.planning.plan_parts import Part
from dither.planning.plans import Plan
from dither.planning.prediction import NOTHING, checked_prediction
from dither.questions.catalogue import questions
from dither.questions.question import Question
from dither.schema import Schema

T = TypeVar("T")


def plan_of_fields(stored: PlanFormat) -> Plan:
    """The plan in a file."""
    schema = _named("schema", Schema.from_dict, stored.schema)
    if schema.public:
        if stored.phases is not None or stored.after is not None:
            raise ParameterError("this is not a plan: one with public attributes has no phases")
        return _of_groups(schema, stored)
    return _with_phases(_without_groups(schema, stored), stored)


def _with_phases(plan: Plan, stored: PlanFormat) -> Plan:
    """The same as one of several phases, if it is; the plan of the phase before is made as any other."""
    phases = None if stored.phases is None else Phases.of(stored.phases)
    if phases is not None and phases.users[0] != plan.users:
        raise ParameterError("this is not a plan: phases: expected the users of this plan first")
    if stored.after is None:
        return replace(plan, phases=phases)
    before = _named("after.plan", _earlier, stored.after.plan)
    if before.phases is None or not before.kept or phases is not None:
        raise ParameterError("this is not a plan: after: expected the first plan of two phases, and its guarantee")
    return replace(plan, after=EarlierPhase(before, stored.after.tally))


def _earlier(stored: dict[str, Any]) -> Plan:
    """The plan of an earlier phase, of which a file holds what its hash covers: no prediction."""
    nothing = {"errors": {}, "compared": {"": 0.0}, "limit": 0.0, "informed": False}
    own = decoded({**stored, "hash": digest(stored), "prediction": nothing}, PlanFormat, "this is not a plan")
    return _with_phases(_unpredicted(Schema.from_dict(own.schema), own), own)


def _without_groups(schema: Schema, stored: PlanFormat) -> Plan:
    """The plan in a file, of a schema without public attributes."""
    plan = _unpredicted(schema, stored)
    return replace(plan, prediction=checked_prediction(stored.prediction, plan.measured + plan.derived))


def _unpredicted(schema: Schema, stored: PlanFormat) -> Plan:
    """The same without its prediction."""
    if stored.groups or stored.budgets or any(part.budget for part in stored.parts):
        raise ParameterError("this is not a plan: its schema has no public attributes, and it has groups")
    schedule = ONCE if stored.schedule is None else _named("schedule", Schedule.from_dict, stored.schedule)
    numbered = list(enumerate(stored.parts))
    budget = checked_epsilon(stored.epsilon), stored.users, stored.reported
    return replace(_of_budget(schema, stored, numbered, *budget), schedule=schedule)


def _of_groups(schema: Schema, stored: PlanFormat) -> Plan:
    """The plan in a file, of a schema with public attributes."""
    facts = _named("schema", combinations, schema.public)
    labels = schema.public[BUDGET].labels if BUDGET in schema.public else ("",)
    fitting = len(stored.groups) == len(facts) and set(stored.budgets) == set(labels) - {""}
    if not fitting or stored.schedule is not None or set(stored.prediction.asked) != set(labels):
        raise ParameterError("this is not a plan: its groups are not those of its public attributes")
    budgets = {}
    for label in labels:
        own = [(place, part) for place, part in enumerate(stored.parts) if (part.budget or "") == label]
        users = sum(n for each, n in zip(facts, stored.groups, strict=True) if dict(each).get(BUDGET, "") == label)
        chosen = stored.budgets.get(label)
        epsilon, reported = (stored.epsilon, stored.reported) if chosen is None else (chosen.epsilon, chosen.reported)
        narrowed = schema.private
        if chosen is not None and chosen.regions:
            narrowed = _named(f"budgets.{label}", schema_in, schema.private, Budget(epsilon, chosen.regions).regions)
        plan = _of_budget(narrowed, stored, own, checked_epsilon(epsilon), users, reported)
        _named(f"budgets.{label}", refuse_in_regions, (*plan.measured, *plan.derived), _narrowed(stored))
        asked = checked_prediction(stored.prediction.asked[label], plan.measured + plan.derived)
        budgets[label] = replace(plan, prediction=asked)
    plan = Plan.of_groups(schema, budgets, stored.groups)
    checked_prediction(stored.prediction, plan.measured + plan.derived)
    return plan


def _narrowed(stored: PlanFormat) -> set[str]:
    """The attributes that some budget of a file has a region of."""
    return {name for budget in stored.budgets.values() for name in budget.regions}


def _of_budget(
    schema: Schema,
    stored: PlanFormat,
    numbered: Sequence[tuple[int, PartFormat]],
    epsilon: float,
    users: int,
    answered: int,
) -> Plan:
    """What users with one budget answer, without its prediction."""
    details = stored.conditions
    parts = tuple(_part(schema, part, details, f"parts[{place}]") for place, part in numbered)
    if not parts:
        raise ParameterError("this is not a plan: a budget has no parts")
    reported = checked_count("reported", answered, 1, len(parts))
    uneven = len({part.weight for part in parts}) > 1
    fitting = all(part.fits for part in parts) and (reported in (1, len(parts)) or not uneven)
    keys = [part.keys for part in parts if part.keys is not None]
    asked = [question for part in parts for question in part.questions]
    derived = _derived(schema, stored)
    told = {base for each in derived for base in each.rests_on} <= set(asked)
    different = len(set(map(str, asked))) == len(asked) and all(question.reported for question in asked)
    if not (fitting and told and different) or len(set(keys)) < len(keys):
        raise ParameterError("this is not a plan: its mechanisms do not fit its questions")
    crowd = None if stored.crowd is None else _named("crowd", Crowd.from_dict, stored.crowd)
    return Plan(schema, epsilon, checked_delta(stored.delta), users, parts, reported, NOTHING, derived, crowd=crowd)


def _derived(schema: Schema, stored: PlanFormat) -> tuple[Question, ...]:
    """What a stored plan works out from its reports."""
    if not stored.derived:
        return ()
    found = _named("derived", questions, schema, stored.derived, stored.conditions)
    if any(question.reported for question in found):
        raise ParameterError("this is not a plan: derived: expected questions that no report is about")
    return found


def _part(schema: Schema, stored: PartFormat, details: Mapping[str, Any], field: str) -> Part:
    asked = _named(f"{field}.questions", questions, schema, stored.questions, details)
    mechanism = _named(f"{field}.mechanism", load, stored.mechanism)
    return Part(tuple(question.as_asked_by(mechanism) for question in asked), mechanism, stored.weight)


def _named(field: str, make: Callable[..., T], *stored: Any) -> T:
    """What is made of a field of a file; an error names it."""
    try:
        return make(*stored)
    except ParameterError as error:
        raise ParameterError(f"this is not a plan: {field}: {error}") from None
