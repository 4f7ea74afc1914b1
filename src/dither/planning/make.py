"""`dither.plan`: from public facts to the best plan.

Everything that a caller gives is checked here; `choose` compares the ways to ask; what comes out is a `Plan` with
its prediction, and a warning where the budget is too small to learn anything.
"""

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from dither.core.checks import checked_count, checked_delta, checked_epsilon
from dither.core.errors import BudgetWarning, ParameterError
from dither.planning.choose import Chooser, Way, variances
from dither.planning.plans import Part, Plan, Prediction
from dither.planning.priors import checked_prior, users_like
from dither.planning.questions import Question, questions
from dither.schema import Schema
from dither.utility.limits import frequencies, least_mse, mean
from dither.utility.population import Population


def plan(
    schema: Schema,
    epsilon: float,
    *,
    users: int,
    delta: float = 0.0,
    ask: Iterable[str] | None = None,
    prior: Mapping[str, Any] | None = None,
    weights: Mapping[str, float] | None = None,
    most_evaluations: int = 500,
) -> Plan:
    """The best plan for these attributes, this budget and this many users.

    `ask` names the questions, as in `["mean(income)", "histogram(job)"]`; by default every attribute's first. `prior`
    says what is publicly known about attributes (`planning.priors`); `weights` how much questions matter, 1 if not
    named.

    >>> from dither import Categorical, Numeric, Schema
    >>> schema = Schema({"income": Numeric(0, 200_000), "job": Categorical(["nurse", "driver", "other"])})
    >>> best = plan(schema, epsilon=1.0, users=100_000)
    >>> [part.name for part in best.parts], best.reported
    (['mean(income)', 'histogram(job)'], 1)
    """
    users = checked_count("users", users, 1)
    chooser = chooser_of(schema, epsilon, delta, ask, prior, weights, most_evaluations)
    ways = chooser.ways()
    made = _made(schema, chooser, ways, users)
    _warn(made)
    return made


def chooser_of(
    schema: Schema,
    epsilon: float,
    delta: float,
    ask: Iterable[str] | None,
    prior: Mapping[str, Any] | None,
    weights: Mapping[str, float] | None,
    most_evaluations: int,
) -> Chooser:
    """What compares the ways to ask, with everything checked."""
    if not isinstance(schema, Schema):
        raise ParameterError(
            "a plan starts from a schema: dither.plan(dither.Schema({...}), epsilon=1.0, users=100_000)"
        )
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    asked = questions(schema, ask)
    most = checked_count("most_evaluations", most_evaluations, 0)
    return Chooser(
        asked, _importance(asked, weights), _known(asked, checked_prior(schema, prior)), epsilon, delta, most
    )


def _importance(asked: tuple[Question, ...], weights: Mapping[str, float] | None) -> dict[Question, float]:
    given: dict[str, float] = dict(weights) if isinstance(weights, Mapping) else {}
    if weights is not None and not isinstance(weights, Mapping):
        raise ParameterError('weights maps questions to numbers, as in weights={"mean(income)": 2.0}')
    known = {str(each) for each in asked}
    given = {first_of(asked, name): weight for name, weight in given.items()}
    for name, weight in given.items():
        if name not in known:
            raise ParameterError(f"weights: no such question is asked; there are {', '.join(map(str, asked[:12]))}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise ParameterError(f"the weight of {name} must be a number above 0; leave out what does not matter")
    return {each: float(given.get(str(each), 1.0)) for each in asked}


def first_of(asked: tuple[Question, ...], name: str) -> str:
    """The name of an attribute stands for the first question about it."""
    return next((str(each) for each in asked if each.name == name), name)


def _known(asked: tuple[Question, ...], prior: dict[str, Any]) -> dict[Question, Population]:
    """For each question the users that its attribute's prior describes; one object for equal descriptions."""
    named: dict[Any, Population] = {}
    known = {}
    for each in asked:
        if each.name in prior:
            about = prior[each.name]
            key = (each.statistic, each.attribute, about) if isinstance(about, str) else each
            if key not in named:
                named[key] = users_like(each, about)
            known[each] = named[key]
    return known


def _made(schema: Schema, chooser: Chooser, ways: list[Way], users: int) -> Plan:
    best = ways[0]
    compared = {way.label: math.sqrt(way.cost / users) for way in reversed(ways)}
    parts = tuple(Part(*part) for part in zip(best.units, best.mechanisms, best.weights, strict=True))
    shares = [best.reported * part.weight / sum(best.weights) for part in parts]
    errors: dict[str, float] = {}
    for part, share in zip(parts, shares, strict=True):
        found = variances(part.mechanism.reading, [chooser.users.get(each) for each in part.questions], share)
        for each, variance in zip(part.questions, found, strict=True):
            errors[str(each)] = math.sqrt(variance / (users * share)) * each.unit
    prediction = Prediction(
        {str(each): errors[str(each)] for each in chooser.questions},
        dict(sorted(compared.items(), key=lambda pair: pair[1])),
        limit_of(chooser, users),
        bool(chooser.users),
    )
    return Plan(schema, chooser.epsilon, chooser.delta, users, parts, best.reported, prediction)


def limit_of(chooser: Chooser, users: int) -> float:
    """What no plan for these questions can be below (`utility.limits`), by the measure of `Plan.rmse`."""
    importance = [chooser.importance[each] for each in chooser.questions]
    scaled = [weight / sum(importance) for weight in importance]
    parameters = [
        block
        for each, weight in zip(chooser.questions, scaled, strict=True)
        for block in (frequencies(each.cells, weight) if each.cells else mean(weight))
    ]
    return math.sqrt(least_mse(parameters, chooser.epsilon) / users)


def _warn(made: Plan) -> None:
    """Say so where a result would tell no more than the domain does."""
    asked = [question for part in made.parts for question in part.questions]
    weak = [each for each in asked if made.predicted[str(each)] > each.useless]
    if weak:
        worst = max(weak, key=lambda each: made.predicted[str(each)] / each.useless)
        others = len(weak) - 1
        domain = f"from {worst.attribute.low:g} to {worst.attribute.high:g}" if worst.cells == 0 else "between 0 and 1"
        more = (max(made.predicted[str(each)] / each.useless for each in weak) * 4) ** 2
        warnings.warn(
            f"epsilon {made.epsilon:g} with {made.users:,} users is too little to learn from: {worst} will have a "
            f"standard error of {made.predicted[str(worst)]:.3g}, for a value {domain}"
            + (f", and {others} more likewise" if others else "")
            + f". Ask for less, raise epsilon, or find some {math.ceil(more):,} times as many users.",
            BudgetWarning,
            stacklevel=3,
        )
