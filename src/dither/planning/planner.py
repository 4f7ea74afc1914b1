"""`dither.plan`: from public facts to the best plan.

Everything that a caller gives is checked here; `choose` compares the ways to ask; what comes out is a `Plan` with
its prediction, and a warning where the budget is too small to learn anything.

A way to ask whose reports would not keep the declared guarantee, all of a user's together and as far as it can be
proved, is never taken: what `dither.plan` returns is what `Plan.from_json` reads.
"""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dither.core.checks import as_float, checked_count, checked_delta, checked_epsilon
from dither.errors import BudgetWarning, ParameterError
from dither.planning.choose import Chooser, Limits, Way
from dither.planning.plan_files import MOST_WHOLE
from dither.planning.plans import Part, Plan
from dither.planning.prediction import NOTHING, Prediction
from dither.planning.priors import checked_mapping, known_users
from dither.questions.catalogue import named, questions
from dither.questions.question import Question
from dither.schema import Schema
from dither.utility.influence import checked_share
from dither.utility.limits import least_mse

_WEIGHTS = (1e-9, 1e9)  # in sums of them none is lost, and none is infinite


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
    most_bytes: int | None = None,
    liars: float = 0.0,
) -> Plan:
    """The best plan for these attributes, this budget and this many users.

    `ask` names the questions, as in `["mean(income)", "histogram(job)"]`; by default every attribute's first, and of
    a `KeyValue` both, which one report answers. `"ranges(age, income)"` asks for any ranges of these attributes: its
    result answers queries (`dither.ranges`), each about at most 16 of them. `prior` says what is publicly known
    about attributes (`planning.priors`); `weights` how much questions matter, 1 if not named. A report costs the
    server at most `most_evaluations` (hashes, or items that are looked at), and has at most `most_bytes`;
    `plan.compared()` shows what that leaves out.

    `liars` is the share of users who may send what they like, as in 0.01. The plan then minimises the error at the
    worst that they can do: to the variance of each question comes the square of how far they can move a number.

    >>> from dither import Categorical, Numeric, Schema
    >>> schema = Schema({"income": Numeric(0, 200_000), "job": Categorical(["nurse", "driver", "other"])})
    >>> best = plan(schema, epsilon=1.0, users=100_000)
    >>> [part.name for part in best.parts], best.questions_per_user
    (['mean(income)', 'histogram(job)'], 1)
    """
    users = checked_count("users", users, 1, MOST_WHOLE)
    limits = checked_limits(most_evaluations, most_bytes)
    chooser = chooser_of(schema, epsilon, users, delta, ask, prior, weights, limits, liars)
    made = _made(schema, chooser, kept_ways(schema, chooser, users), users)
    _warn(made)
    return made


def chooser_of(
    schema: Schema,
    epsilon: float,
    users: int,
    delta: float,
    ask: Iterable[str] | None,
    prior: Mapping[str, Any] | None,
    weights: Mapping[str, float] | None,
    limits: Limits,
    liars: float = 0.0,
) -> Chooser:
    """What compares the ways to ask, with everything checked."""
    if not isinstance(schema, Schema):
        raise ParameterError(
            "a plan starts from a schema: dither.plan(dither.Schema({...}), epsilon=1.0, users=100_000)"
        )
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    asked = questions(schema, ask)
    given = checked_mapping(weights, 'weights maps questions to numbers, as in weights={"mean(income)": 2.0}')
    known, share = known_users(schema, asked, prior), checked_share("liars", liars)
    return Chooser(asked, _importance(asked, given), known, epsilon, delta, users, limits, share)


def checked_limits(most_evaluations: Any, most_bytes: Any) -> Limits:
    """What a report may cost, if these are numbers."""
    most = None if most_bytes is None else checked_count("most_bytes", most_bytes, 1)
    return Limits(checked_count("most_evaluations", most_evaluations, 0), most)


def _importance(asked: tuple[Question, ...], weights: Mapping[str, float]) -> dict[Question, float]:
    known = {str(each) for each in asked}
    meant = [(first_of(asked, name), weight) for name, weight in weights.items()]
    given: dict[str, float] = dict(meant)
    if len(given) < len(meant):
        raise ParameterError("weights: the same question has two; an attribute's name means its first question")
    least, most = _WEIGHTS
    for name, weight in given.items():
        if name not in known:
            raise ParameterError(f"weights: no such question is asked; there are {', '.join(map(str, asked[:12]))}")
        if not least <= as_float(weight) <= most:
            raise ParameterError(
                f"the weight of {name} must be a number from {least:g} to {most:g}; leave out what does not matter"
            )
    return {each: float(given.get(str(each), 1.0)) for each in asked}


def first_of(asked: tuple[Question, ...], name: str) -> str:
    """The name of an attribute stands for the first question about it; of a question, any way to write it will do."""
    first = next((each for each in asked if name in each.names), None)
    meant = named(asked, str(name)) if first is None else first
    return name if meant is None else str(meant)


def kept_ways(schema: Schema, chooser: Chooser, users: int) -> list[Way]:
    """The ways to ask whose finished plan keeps what is declared, the best first."""
    kept = [way for way in chooser.ways() if _plan(schema, chooser, way, users, NOTHING).kept]
    if not kept:
        raise ParameterError("no way to ask these questions keeps this epsilon and delta; try delta=0")
    return kept


def _plan(schema: Schema, chooser: Chooser, way: Way, users: int, prediction: Prediction) -> Plan:
    parts = tuple(Part(*part) for part in zip(way.units, way.mechanisms, way.weights, strict=True))
    return Plan(schema, chooser.epsilon, chooser.delta, users, parts, way.questions_per_user, prediction)


def _made(schema: Schema, chooser: Chooser, ways: list[Way], users: int) -> Plan:
    best = ways[0]
    compared = {way.label: math.sqrt(way.cost / users) for way in reversed(ways)}
    parts = _plan(schema, chooser, best, users, NOTHING).parts
    shares = [best.questions_per_user * part.weight / sum(best.weights) for part in parts]
    errors: dict[str, float] = {}
    honest = replace(chooser, liars=Fraction(0))
    for part, share in zip(parts, shares, strict=True):
        price = honest.price_of(part.mechanism, part.questions, share)
        for each, variance in zip(part.questions, price.variances, strict=True):
            errors[str(each)] = math.sqrt(variance / (users * share)) * each.unit
    prediction = Prediction(
        {str(each): errors[str(each)] for each in chooser.questions},
        dict(sorted(compared.items(), key=lambda pair: pair[1])),
        limit_of(chooser, users),
        bool(chooser.users),
        tuple(str(each) for each in chooser.questions if each in chooser.users),
        float(chooser.liars),
        _counted(chooser, best),
    )
    return _plan(schema, chooser, best, users, prediction)


def _counted(chooser: Chooser, way: Way) -> float:
    """The error of the same way to ask if the server could only count reports; 0 if it cannot be asked then."""
    poorer = replace(chooser, limits=chooser.limits._replace(evaluations=0))
    cost = poorer.cost_of(way)
    return 0.0 if cost is None else math.sqrt(cost / chooser.n)


def limit_of(chooser: Chooser, users: int) -> float:
    """What no plan for these questions can be below (`utility.limits`), by the measure of `Plan.rmse`.

    It is known for delta = 0 and for all users: with a delta, a prior or liars it is 0, and so it is where ranges are
    asked for, of which no limit is known. It is one of many users. With few,
    it is better to answer some questions without asking anybody, which costs at most `unasked`; so they are left
    out one kind after the other, those that cost least first, as far as that makes the limit smaller.
    """
    if (
        chooser.delta > 0
        or chooser.users
        or chooser.liars
        or any(each.limit(1.0) is None for each in chooser.questions)
    ):
        return 0.0
    total = sum(chooser.importance[each] for each in chooser.questions)
    left = {each: chooser.importance[each] / total for each in chooser.questions}
    least, constant = math.inf, 0.0
    kinds = {each.kind: each.unasked for each in left}
    for kind in sorted(kinds, key=kinds.__getitem__):
        least = min(least, _asked(left, chooser.epsilon) / users + constant)
        dropped = [each for each in left if each.kind == kind]
        constant += sum(left.pop(each) for each in dropped) * kinds[kind]
    return math.sqrt(min(least, constant))


def _asked(weights: Mapping[Question, float], epsilon: float) -> float:
    """The least error of these questions together.

    The mean of keys tells apart all that their presence does, so these two are not independent questions: what is
    known of independent ones alone does not bound them together, and is used without the presence.
    """
    also = [each for each in weights if any(map(each.follows_from, weights))]
    alone = [block for each, weight in weights.items() if each not in also for block in each.limit(weight) or ()]
    joined = [replace(block, cells=None, signs=False) for each in also for block in each.limit(weights[each]) or ()]
    return max(least_mse(alone + joined, epsilon), least_mse(alone, epsilon))


def _warn(made: Plan) -> None:
    """Say so where a result would tell no more than the domain does."""
    asked = [question for part in made.parts for question in part.questions]
    weak = [each for each in asked if made.predicted[str(each)] > each.useless]
    if weak:
        worst = max(weak, key=lambda each: made.predicted[str(each)] / each.useless)
        others = len(weak) - 1
        domain = "from {:g} to {:g}".format(*worst.ends) if worst.averages else "between 0 and 1"
        more = (max(made.predicted[str(each)] / each.useless for each in weak) * 4) ** 2
        warnings.warn(
            f"epsilon {made.epsilon:g} with {made.users:,} users is too little to learn from: {worst} will have a "
            f"standard error of {made.predicted[str(worst)]:.3g}, for a value {domain}"
            + (f", and {others} more likewise" if others else "")
            + f". Ask for less, raise epsilon, or find some {math.ceil(more):,} times as many users.",
            BudgetWarning,
            stacklevel=3,
        )
