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

from dither.core.cell_weights import CellWeights
from dither.core.checks import checked_count, checked_delta, checked_epsilon
from dither.core.mechanism import Mechanism
from dither.errors import BudgetWarning, ParameterError
from dither.planning.choose import Chooser, Limits, Way
from dither.planning.importance import Weights, importances, told_weights
from dither.planning.plan_files import MOST_WHOLE
from dither.planning.plans import Part, Plan
from dither.planning.prediction import NOTHING, Prediction
from dither.planning.priors import checked_mapping, known_users
from dither.questions.catalogue import questions
from dither.questions.question import Question
from dither.schema import Schema
from dither.utility.influence import checked_share
from dither.utility.limits import Parameters, least_mse

_MOST_NAMED = 12  # numbers of a question whose errors are told apart


def plan(
    schema: Schema,
    epsilon: float,
    *,
    users: int,
    delta: float = 0.0,
    ask: Iterable[str] | None = None,
    prior: Mapping[str, Any] | None = None,
    weights: Weights | None = None,
    most_evaluations: int = 500,
    most_bytes: int | None = None,
    liars: float = 0.0,
) -> Plan:
    """The best plan for these attributes, this budget and this many users.

    `ask` names the questions, as in `["mean(income)", "histogram(job)"]`; by default every attribute's first, and of
    a `KeyValue` both, which one report answers. `"ranges(age, income)"` asks for any ranges of these attributes: its
    result answers queries (`dither.ranges`), each about at most 16 of them. `prior` says what is publicly known
    about attributes (`planning.priors`). A report costs the server at most `most_evaluations` (hashes, or items that
    are looked at), and has at most `most_bytes`; `plan.compared()` shows what that leaves out.

    `weights` says how much questions matter, 1 if not named, and what of them (`planning.importance`): labels or keys
    as in `{"histogram(job)": {"nurse": 5}}`; of ranges how often queries will be asked, about the age alone or about
    any two attributes, as in `{"ranges(age, income)": {"age": 3, 2: 1}}`.

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
    made = _made(schema, chooser, kept_ways(schema, chooser, users), users, weights or {})
    _warn(made)
    return made


def chooser_of(
    schema: Schema,
    epsilon: float,
    users: int,
    delta: float,
    ask: Iterable[str] | None,
    prior: Mapping[str, Any] | None,
    weights: Weights | None,
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
    importance = importances(asked, given)
    return Chooser(tuple(importance), importance, known, epsilon, delta, users, limits, share)


def checked_limits(most_evaluations: Any, most_bytes: Any) -> Limits:
    """What a report may cost, if these are numbers."""
    most = None if most_bytes is None else checked_count("most_bytes", most_bytes, 1)
    return Limits(checked_count("most_evaluations", most_evaluations, 0), most)


def kept_ways(schema: Schema, chooser: Chooser, users: int) -> list[Way]:
    """The ways to ask whose finished plan keeps what is declared, the best first."""
    kept = [way for way in chooser.ways() if _plan(schema, chooser, way, users, NOTHING).kept]
    if not kept:
        raise ParameterError("no way to ask these questions keeps this epsilon and delta; try delta=0")
    return kept


def _plan(schema: Schema, chooser: Chooser, way: Way, users: int, prediction: Prediction) -> Plan:
    units = [tuple(replace(each, workload=None) for each in unit) for unit in way.units]  # no part of what is stored
    parts = tuple(Part(*part) for part in zip(units, way.mechanisms, way.weights, strict=True))
    return Plan(schema, chooser.epsilon, chooser.delta, users, parts, way.questions_per_user, prediction)


def _made(schema: Schema, chooser: Chooser, ways: list[Way], users: int, weights: Weights) -> Plan:
    best = ways[0]
    compared = {way.label: math.sqrt(way.cost / users) for way in reversed(ways)}
    shares = [best.questions_per_user * weight / sum(best.weights) for weight in best.weights]
    errors: dict[str, float] = {}
    of_numbers: dict[str, dict[str, float]] = {}
    honest = replace(chooser, liars=Fraction(0))
    for unit, mechanism, share in zip(best.units, best.mechanisms, shares, strict=True):
        price = honest.price_of(mechanism, tuple(each.evenly() for each in unit), share)
        for each, variance in zip(unit, price.variances, strict=True):
            errors[str(each)] = math.sqrt(variance / (users * share)) * each.unit
            if each.cells is not None:
                of_numbers[str(each)] = _errors_of_named(honest, mechanism, each, each.cells, share)
    prediction = Prediction(
        {str(each): errors[str(each)] for each in chooser.questions},
        dict(sorted(compared.items(), key=lambda pair: pair[1])),
        limit_of(chooser, users),
        bool(chooser.users),
        tuple(str(each) for each in chooser.questions if each in chooser.users),
        float(chooser.liars),
        _counted(chooser, best),
        told_weights(chooser.questions, weights),
        of_numbers,
    )
    return _plan(schema, chooser, best, users, prediction)


def _counted(chooser: Chooser, way: Way) -> float:
    """The error of the same way to ask if the server could only count reports; 0 if it cannot be asked then."""
    poorer = replace(chooser, limits=chooser.limits._replace(evaluations=0))
    cost = poorer.cost_of(way)
    return 0.0 if cost is None else math.sqrt(cost / chooser.n)


def _errors_of_named(
    chooser: Chooser, mechanism: Mechanism, question: Question, cells: CellWeights, share: float
) -> dict[str, float]:
    """The error of each number that a weight names, the heaviest first, for the users who are worst for it alone."""
    names = question.labels or range(cells.size)
    found = {}
    for place in sorted(cells.named, key=cells.named.__getitem__, reverse=True)[:_MOST_NAMED]:
        alone = replace(question, workload=CellWeights.only(cells.size, place))
        (variance,) = chooser.price_of(mechanism, (alone,), share).variances
        found[str(names[place])] = math.sqrt(variance / (chooser.n * share)) * question.unit
    return found


def limit_of(chooser: Chooser, users: int) -> float:
    """What no plan for these questions can be below (`utility.limits`), by the measure of `Plan.rmse`.

    It is known for delta = 0 and for all users: with a delta, a prior or liars it is 0, and so it is where ranges are
    asked for, of which no limit is known. It is one of many users. With few,
    it is better to answer some questions without asking anybody, which costs at most `unasked`; so they are left
    out one kind after the other, those that cost least first, as far as that makes the limit smaller. Where some
    numbers of a question matter more, that is as if all had the smallest weight: it may cost more.
    """
    if (
        chooser.delta > 0
        or chooser.users
        or chooser.liars
        or any(_limit(each, 1.0) is None for each in chooser.questions)
    ):
        return 0.0
    total = sum(chooser.importance[each] for each in chooser.questions)
    left = {each: chooser.importance[each] / total for each in chooser.questions}
    least, constant = math.inf, 0.0
    kinds = {each.kind: each.unasked for each in left}
    for kind in sorted(kinds, key=kinds.__getitem__):
        least = min(least, _asked(left, chooser.epsilon) / users + constant)
        dropped = [each for each in left if each.kind == kind]
        constant += sum(left.pop(each) * _least_weight(each) for each in dropped) * kinds[kind]
    return math.sqrt(min(least, constant))


def _limit(question: Question, weight: float) -> tuple[Parameters, ...] | None:
    return question.limit(weight) if question.cells is None else question.weighted_limit(weight, question.cells)


def _least_weight(question: Question) -> float:
    return 1.0 if question.cells is None else question.cells.least


def _asked(weights: Mapping[Question, float], epsilon: float) -> float:
    """The least error of these questions together.

    The mean of keys tells apart all that their presence does, so these two are not independent questions: what is
    known of independent ones alone does not bound them together, and is used without the presence.
    """
    also = [each for each in weights if any(map(each.follows_from, weights))]
    alone = [block for each, weight in weights.items() if each not in also for block in _limit(each, weight) or ()]
    joined = [replace(block, cells=None, signs=False) for each in also for block in _limit(each, weights[each]) or ()]
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
