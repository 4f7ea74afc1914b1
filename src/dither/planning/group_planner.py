"""Plans with groups: which there are, and the best plan for each budget.

Groups with the same budget are asked alike, by the plan that is best for all of them together: their reports are added
up wherever no group is asked for by itself, and the number of users does not change which mechanism is best. Another
budget has another best plan, made as if nobody else were asked.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dither.core.checks import checked_count, checked_epsilon
from dither.errors import BudgetWarning, ParameterError
from dither.planning.budgets import checked_budgets, refuse_in_regions, regions_of, schema_in
from dither.planning.groups import BUDGET, Group, combinations, expected_users, with_budgets
from dither.planning.plans import Plan
from dither.schema import Schema

_LISTED = 3


def has_groups(schema: Any, epsilon: Any) -> bool:
    """Whether reports are to name a group."""
    return isinstance(schema, Schema) and (bool(schema.public) or isinstance(epsilon, Mapping))


def refuse_rounds(rounds: Any, changes: Any, first: Any) -> None:
    """Plans with groups ask once."""
    if rounds != 1 or (changes, first) != (None, None):
        raise ParameterError(
            "a plan with groups asks once: for a trend over days make the day public, with other users on each; to ask "
            "the same users again, plan with rounds and without groups"
        )


def crowd_of_groups(schema: Schema, epsilon: Any, users: Any, central: Any, batch: Any) -> dict[str, Any]:
    """The arguments `central` and `batch` for each group: a report shows its group, and hides among its like."""
    if central is None:
        return {"batch": batch}
    if isinstance(epsilon, Mapping):
        raise ParameterError("people choose what reports tell on their own: give one epsilon for all, or no central")
    smallest = min(expected_users(schema.public, users))
    if batch is None:
        return {"central": central, "batch": smallest}
    if checked_count("batch", batch, 2) > smallest:
        raise ParameterError(
            f"batch is the number of users in the smallest batch of one group, since a report shows its group: "
            f"at most {smallest:,}, the users of the smallest one"
        )
    return {"central": central, "batch": batch}


def asked_in_groups(schema: Schema, ask: Iterable[str] | None) -> Iterable[str] | None:
    """The questions, if none of them is about a public attribute."""
    listed = [ask] if isinstance(ask, str) else None if ask is None else list(ask)
    for text in listed or ():
        names = _names_in(text) & set(schema.public) if isinstance(text, str) else set()
        if names:
            name = min(names)
            raise ParameterError(
                f"{name} is public: reports carry it in the clear, and nobody is asked about it. Ask for the others; "
                f'estimates.by("{name}") gives every result by it'
            )
    return listed


def _names_in(question: str) -> set[str]:
    """What may be names of attributes in the text of a question: what stands between its commas, brackets and signs."""
    pieces = re.split(r"[(),]|\bby\b|\band\b|\bor\b|\bnot\b|\bin\b|[<>=!]+", question)
    return {question.strip(), *(piece.strip() for piece in pieces)}


def plan_of_groups(
    schema: Schema, epsilon: Any, users: Any, plan: Callable[..., Plan], prior: Mapping[str, Any] | None = None
) -> Plan:
    """The plan of all groups; `plan` makes the best one for a schema, an epsilon and a number of users.

    What is known beforehand of all users says nothing of those whose numbers lie in a region: there it is left out.
    """
    chosen = isinstance(epsilon, Mapping)
    budgets = checked_budgets(epsilon) if chosen else {}
    private = {label: schema_in(schema.private, each.regions) for label, each in budgets.items()} or {
        "": schema.private
    }
    spent = {label: each.epsilon for label, each in budgets.items()}
    spent = spent or {"": None if epsilon is None else checked_epsilon(epsilon)}
    whole = with_budgets(schema, budgets) if chosen else schema
    counts = expected_users(whole.public, users)
    choosing = dict.fromkeys(spent, 0)
    for facts, count in zip(combinations(whole.public), counts, strict=True):
        choosing[dict(facts).get(BUDGET, "")] += count
    with warnings.catch_warnings():  # of a budget alone: what is said is said of groups
        warnings.simplefilter("ignore", BudgetWarning)
        plans = {
            label: plan(
                private[label],
                spent[label],
                users=count,
                prior=None if prior is None else _outside(prior, regions_of(schema.private, private[label])),
            )
            for label, count in choosing.items()
        }
    _refuse_fits(plans)
    narrowed = {name for budget in budgets.values() for name in budget.regions}
    for each in plans.values():
        refuse_in_regions((*each.measured, *each.derived), narrowed)
    made = Plan.of_groups(whole, plans, counts)
    _warn_of_groups(made)
    return made


def _outside(prior: Mapping[str, Any], regions: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is known of attributes without a region; as it is, if there is no mapping to look at."""
    if not regions or not isinstance(prior, Mapping):
        return prior
    return {name: known for name, known in prior.items() if name not in regions}


def _refuse_fits(plans: Mapping[str, Plan]) -> None:
    """What is answered by a fit to reports of one kind has no sum over several budgets."""
    fitted = [question for plan in plans.values() for question in plan.measured if question.answers_conditions]
    searched = [question for plan in plans.values() for question in plan.measured if question.found]
    if searched and len(plans) > 1:
        raise ParameterError(
            f"{searched[0]} finds its items itself, and lists of users with different budgets are not put together: "
            "give one epsilon for all, or make a plan for each budget"
        )
    if fitted and len(plans) > 1:
        raise ParameterError(
            f"{fitted[0]}: ranges are fitted to reports of one kind, and people who choose budgets send several: ask "
            "for it with one epsilon for all, or leave it out"
        )


def _warn_of_groups(made: Plan) -> None:
    """Say which groups will tell no more than the domain does."""
    weak = [(group, name) for group in made.groups for name in _useless(made, group)]
    if not weak:
        return
    few = list(dict.fromkeys(group.name for group, _ in weak))
    (group, name), more = weak[0], f" and {len(few) - _LISTED:,} more" if len(few) > _LISTED else ""
    warnings.warn(
        f"too few users to learn from in {len(few):,} of {len(made.groups):,} groups "
        f"({'; '.join(few[:_LISTED])}{more}): with epsilon {group.asked.epsilon:g} and {group.users:,} users {name} of "
        f"{group.name} will have a standard error of {group.predicted[name]:.3g}. Results over all users are not "
        "harmed; join small groups under one label, or raise their epsilon.",
        BudgetWarning,
        stacklevel=4,
    )


def _useless(made: Plan, group: Group) -> list[str]:
    """Questions whose predicted error in a group is as large as what is known without asking."""
    asked = [question for question in made.questions if not question.supporting]
    predicted = group.predicted
    return [str(each) for each in asked if predicted[str(each)] > each.useless]
