"""The mechanisms that a plan did not take: what they would have cost, question by question.

Each part of a plan is priced again with everything that the registry offers for its questions, at the part's own budget
and share of the users, whatever a report would cost the server. So the table can be made of a stored plan too, and by a
reader who doubts the choice.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from dither.core.exact import share_below
from dither.core.mechanism import Mechanism
from dither.display.table import TextTable
from dither.planning.choose import Chooser, Price, ReportLimits
from dither.planning.demand import known_by
from dither.planning.priors import known_users
from dither.planning.rounds import RoundsChooser
from dither.planning.shuffled_plans import CrowdChooser
from dither.privacy.shuffle import amplify

if TYPE_CHECKING:
    from dither.planning.plan_parts import Part
    from dither.planning.plans import Plan

_ANY_SERVER = ReportLimits(1 << 62)
_BUDGET = ("epsilon", "delta", "weights")


def compared_mechanisms(plan: "Plan", prior: Mapping[str, Any] | None = None) -> TextTable:
    """One row for each question and mechanism, the best first: its predicted error, and what a report costs.

    That of a question is the one that the plan states: of its numbers on average, of ranges for the queries that will
    be asked; for the worst users, if there is no prior. "against" compares by what plans minimise, which for a mean is
    the error for numbers that are spread evenly: its order may be another one.
    """
    asked = tuple(question.evenly() for question in plan.weighted_questions if question.reported)
    users = known_users(plan.schema, known_by(tuple(plan.weighted_questions)), prior)
    known = asked, dict.fromkeys(asked, 1.0), users, plan.epsilon, plan.delta, plan.users, _ANY_SERVER
    by_name = {str(question): question for question in asked}
    once, shares = Chooser(*known), plan.shares.tolist()
    units = [tuple(by_name[str(question)] for question in part.questions) for part in plan.parts]
    choosers = [_chooser(plan, part, once) for part in plan.parts]
    parts = list(zip(plan.parts, units, shares, choosers, strict=True))
    stated = [replace(each, worst=True).price_of(part.mechanism, unit, share) for part, unit, share, each in parts]
    squares = [each for _, each in replace(once, worst=True).errors(units, stated, shares)]
    rows: list[tuple[Any, ...]] = []
    for (part, unit, share, chooser), own, together in zip(parts, stated, squares, strict=True):
        worst = replace(chooser, worst=True)
        taken = chooser.price_of(part.mechanism, unit, share)
        offered = chooser.prices(unit, *_budget(plan, part), share)
        prices = [taken, *(price for price in offered if price.mechanism != part.mechanism)]
        for place, question in enumerate(part.questions):
            others = 1 / together[place] - share / own.variances[place]  # what else is told about it
            for price in sorted(prices, key=lambda each: each.variances[place]):
                more = (price.variances[place] / taken.variances[place]) ** 0.5 - 1
                alone = worst.price_of(price.mechanism, unit, share).variances[place]
                error = question.unit / (plan.users * (share / alone + others)) ** 0.5
                mark = "taken" if price is taken else f"{more:+.1%}"
                rows.append((str(question), described(price.mechanism), error, mark, *_costs(price)))
    names = ("question", "mechanism", "predicted error", "against", "bytes", "evaluations", "counts")
    return TextTable({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


def _chooser(plan: "Plan", part: "Part", once: Chooser) -> Chooser:
    """What prices the candidates for a part as the plan did: in rounds, for a crowd, or neither."""
    if plan.crowd is not None:
        return CrowdChooser.of(once, plan.crowd, schedule=plan.schedule)
    if plan.schedule.repeats:
        known = {each.name: getattr(once, each.name) for each in fields(Chooser)}
        return RoundsChooser(**{**known, "schedule": plan.schedule}, report_epsilon=part.mechanism.report_epsilon)
    return once


def _budget(plan: "Plan", part: "Part") -> tuple[float, float]:
    """What a report may tell; where it is shuffled, after that."""
    if plan.crowd is None:
        shared = share_below(plan.delta, plan.questions_per_user * plan.schedule.responses)
        return part.mechanism.epsilon, part.mechanism.delta or shared
    delta = plan.crowd.delta / (plan.questions_per_user * plan.schedule.responses)
    return min(plan.crowd.epsilon, amplify(part.mechanism, plan.crowd.batch, delta).epsilon), delta


def _costs(price: Price) -> tuple[int, int, int]:
    """Of a report: its bytes, and the evaluations of the server; of a tally: its counts."""
    return price.bytes, price.mechanism.evaluations, price.mechanism.contributions.size or 0


def described(mechanism: Mechanism) -> str:
    """A mechanism by its name and the choices that were made for it, without its domain and its budget.

    >>> from dither import GRR, LocalHash
    >>> described(GRR(k=4, epsilon=1.0)), described(LocalHash(k=1000, epsilon=1.0))
    ('GRR', 'LocalHash(g=4)')
    """
    stored, given = mechanism.to_dict(), {*mechanism.reading.domain.parameters, *_BUDGET}
    chosen = {each.name: stored[each.name] for each in fields(mechanism) if each.name not in given}  # type: ignore[arg-type]
    told = [f"{name}={value}" for name, value in chosen.items() if type(value) in (int, str)]
    return type(mechanism).__name__ + (f"({', '.join(told)})" if told else "")
