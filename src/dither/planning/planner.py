"""`dither.plan`: from public facts to the best plan.

Everything that a caller gives is checked here; `choose` compares the ways to ask; what comes out is a `Plan` with
its prediction, and a warning where the budget is too small to learn anything.

A way to ask whose reports would not keep the declared guarantee, all of a user's together and as far as it can be
proved, is never taken: what `dither.plan` returns is what `Plan.from_json` reads.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeVar

from dither.core.cell_weights import CellWeights
from dither.core.checks import checked_choice, checked_count, checked_delta, checked_epsilon
from dither.core.crowd import Crowd
from dither.core.mechanism import Mechanism
from dither.core.schedule import ONCE
from dither.errors import BudgetWarning, ParameterError
from dither.planning.budgets import Budget
from dither.planning.choose import GOALS, Chooser, ReportLimits, Unit, Way
from dither.planning.demand import demanded, known_by
from dither.planning.group_planner import asked_in_groups, crowd_of_groups, has_groups, plan_of_groups, refuse_rounds
from dither.planning.importance import Weights, importances, told_weights
from dither.planning.open_numbers import open_numbers, plan_of_magnitudes, refuse_open
from dither.planning.phases import Phases, in_one, refuse_with_phases, users_of_phases
from dither.planning.plan_files import MOST_WHOLE
from dither.planning.plans import Part, Plan
from dither.planning.prediction import NOTHING, Prediction
from dither.planning.priors import checked_mapping, known_users
from dither.planning.rounds import IN_WORDS, OverTime, predicted_over_time
from dither.planning.shuffled_plans import CrowdChooser, LocalLimits, crowd_in, refuse_memory, shuffled_guarantee
from dither.questions.catalogue import questions
from dither.questions.question import Expected, Question
from dither.schema import Schema
from dither.utility.influence import checked_share
from dither.utility.limits import Parameters, least_mse

_MOST_NAMED = 12  # numbers of a question whose errors are told apart
C = TypeVar("C", bound=Chooser)


def plan(
    schema: Schema,
    epsilon: float | Mapping[str, float | Budget] | None = None,
    *,
    users: int | Mapping[Any, Any],
    delta: float = 0.0,
    central: float | None = None,
    batch: int | None = None,
    ask: Iterable[str] | None = None,
    prior: Mapping[str, Any] | None = None,
    weights: Weights | None = None,
    most_evaluations: int = 500,
    most_bytes: int | None = None,
    liars: float = 0.0,
    rounds: int | Sequence[str] = 1,
    changes: int | None = None,
    first: float | None = None,
    goal: str = "rmse",
    phases: int | Sequence[float] = 1,
) -> Plan:
    """The best plan for these attributes, this budget and this many users.

    `epsilon` and `delta` are what all that a user reports promises, to whoever sees it. Where a shuffler stands between
    the users and the server, `central` and `delta` are what its batches promise, of which the smallest that it forwards
    is of `batch` users (of all, if that is left out); the plan then finds the largest local budgets with which
    they do (`planning.shuffled_plans`), and `epsilon` is the most that the reports of a user may tell on their own, if
    that is to be limited.

    `ask` names the questions, as in `["mean(income)", "histogram(job)"]`; by default every attribute's first, and of
    a `KeyValue` both, which one report answers. `"ranges(age, income)"` asks for any ranges of these attributes: its
    result answers queries (`dither.ranges`), each about at most 16 of them. `prior` says what is publicly known
    about attributes (`planning.priors`). A report costs the server at most `most_evaluations` (hashes, or items that
    are looked at), and has at most `most_bytes`; `plan.compared()` shows what that leaves out.

    `weights` says how much questions matter, 1 if not named, and what of them (`planning.importance`): labels or keys
    as in `{"histogram(job)": {"nurse": 5}}`; of ranges how often queries will be asked, about the age alone or about
    any two attributes, as in `{"ranges(age, income)": {"age": 3, 2: 1}}`.

    `goal="maximum"` minimises the largest error over all numbers that are asked for, in their scales and with a
    confidence of 95%, in the place of the mean over questions: a question with much noise then has more of the users.

    `liars` is the share of users who may send what they like, as in 0.01. The plan then minimises the error at the
    worst that they can do: to the variance of each question comes the square of how far they can move a number.

    `rounds` is how often the same users are asked, or the public names of the rounds, as in `["2026-W47", "2026-W48"]`;
    `epsilon` is then what all rounds promise together, and errors are those of one (`planning.rounds`). `changes` says
    how often a value may change: then a device may keep its response. `first` is what one round may tell, by default
    half of what kept responses do. Devices of such a plan have a ledger: `ledger.report(plan, record,
    period=...)`. With `central`, that is what the shuffled batches of all rounds promise together; noise is then fresh
    in every round, and `first` is the most that one round may tell without the crowd.

    `phases=2` asks a quarter of the users first, and the others when their tally has told where the people are:
    `plan.next(tally)` gives the plan for these (`planning.phases`). `phases=[0.1, 0.9]` are the shares of users.
    Predicted errors are those of both phases together. A number without known ends, `Numeric()`, needs it.

    A schema with `Public` attributes has a group for each combination of their values, and `users` may say how many
    each has: `{"DE": 60_000, "FR": 40_000}`. Where people choose budgets, `epsilon` maps names to them, as in
    `{"careful": 0.5, "open": 2.0}`, and `users` says how many choose each (`planning.groups`). A `Budget` may also have
    regions: public intervals in which numbers of its users lie, where noise is smaller (`planning.budgets`).

    >>> from dither import Categorical, Numeric, Schema
    >>> schema = Schema({"income": Numeric(0, 200_000), "job": Categorical(["nurse", "driver", "other"])})
    >>> best = plan(schema, epsilon=1.0, users=100_000)
    >>> [part.name for part in best.parts], best.questions_per_user
    (['mean(income)', 'histogram(job)'], 1)
    """
    if not in_one(phases):
        refuse_with_phases(rounds != 1, has_groups(schema, epsilon), central is not None)
    several = None if in_one(phases) else users_of_phases(phases, checked_count("users", users, 2, MOST_WHOLE))  # type: ignore[arg-type]
    unknown = open_numbers(schema, ask)
    if unknown:
        if several is None:
            refuse_open(unknown)
        elif prior or weights:
            raise ParameterError("weights and priors are for numbers whose ends are known: leave them out")
        else:
            limits = {"most_evaluations": most_evaluations, "most_bytes": most_bytes}
            options = {"delta": delta, "liars": liars, "goal": goal, **limits}
            return plan_of_magnitudes(schema, epsilon, several, ask, unknown, options)
    if has_groups(schema, epsilon):
        asked = partial(
            plan,
            delta=delta,
            ask=asked_in_groups(schema, ask),
            weights=weights,
            most_evaluations=most_evaluations,
            most_bytes=most_bytes,
            liars=liars,
            goal=goal,
            **crowd_of_groups(schema, epsilon, users, central, batch),
        )
        refuse_rounds(rounds, changes, first)
        return plan_of_groups(schema, epsilon, users, asked, prior)
    users = checked_count("users", users, 1, MOST_WHOLE)  # type: ignore[arg-type]  # numbers by group are for groups
    limits = checked_limits(most_evaluations, most_bytes)
    crowd = checked_crowd(epsilon, central, delta, batch, users)
    spent = (epsilon, delta) if crowd is None else (crowd.epsilon, 0.0)
    count = 1 if several is None else len(several)
    chooser = chooser_of(schema, spent[0], users, spent[1], ask, prior, weights, limits, liars, count)
    chooser = replace(chooser, goal=checked_choice("goal", goal, GOALS), phases=count)
    if goal == "maximum" and chooser.derived:
        raise ParameterError(
            'goal="maximum" is for what reports answer, such as means and shares; leave out what is worked out from '
            "them, or the goal"
        )
    local = chooser.epsilon if crowd is None else math.inf if epsilon is None else checked_epsilon(epsilon)  # type: ignore[arg-type]
    over_time = OverTime.checked(rounds, changes, first, local)
    if crowd is not None:
        told = LocalLimits(None if epsilon is None else local, over_time.first)
        made = _made_for_a_crowd(schema, chooser, crowd, told, over_time, weights or {}, batch is not None)
    elif over_time.schedule.repeats:
        best, ways = _ways_over_time(schema, chooser, over_time, users)
        made = _made(schema, best, ways, users, weights or {})
        made = replace(made, prediction=predicted_over_time(made))
    else:
        made = _made(schema, chooser, kept_ways(schema, chooser, users), users, weights or {})
    if several is not None:
        made = _in_phases(schema, made, chooser, several, weights or {})
    _warn(made)
    return made


def _in_phases(schema: Schema, made: Plan, chooser: Chooser, several: tuple[int, ...], weights: Weights) -> Plan:
    """The plan of the first phase, predicted for all of them, beside the best plan that asks everybody at once."""
    once = replace(chooser, phases=1)
    alone = _made(schema, once, kept_ways(schema, once, chooser.n), chooser.n, weights)
    errors, shares = dict(alone.prediction.errors), made.shares.tolist()
    for part, share in zip(made.parts, shares, strict=True):
        question = part.questions[0]
        error = (
            question.one_phase_error(part.mechanism, chooser.n * share, chooser.n) if part.mechanism.phased else None
        )
        if question.cuts_learned and error is not None:
            more = error * question.unit / made.predicted[str(question)]
            told = [question, *(each for each in made.derived if question in each.rests_on)]
            errors |= {str(each): made.predicted[str(each)] * more for each in told}
    predicted = made.prediction._replace(one_phase={name: errors[name] for name in made.predicted})
    predicted = predicted._replace(errors=_known_in_phases(made, chooser, several))
    return replace(made, users=several[0], phases=Phases(several), prediction=predicted)


def _known_in_phases(made: Plan, chooser: Chooser, several: tuple[int, ...]) -> dict[str, float]:
    """Predicted errors, of what is learned in phases for users like those of the prior, where there is one."""
    errors = dict(made.predicted)
    for part, share in zip(made.parts, made.shares.tolist(), strict=True):
        question = part.questions[0]
        users = None if question.spread_by is None else chooser.users.get(question.spread_by)
        if not part.mechanism.phased or users is None:
            continue
        reports = several[0] * share, several[1] * share
        less = question.known_error(part.mechanism, users, reports) * question.unit / made.predicted[str(question)]
        told = [question, *(each for each in made.derived if question in each.rests_on)]
        errors |= {str(each): made.predicted[str(each)] * less for each in told}
    return errors


def checked_crowd(epsilon: Any, central: Any, delta: Any, batch: Any, users: int) -> Crowd | None:
    """The arguments `central`, `delta` and `batch` of `dither.plan`; None where there is no shuffler."""
    if central is None:
        if epsilon is None:
            raise ParameterError(
                "say what a report may tell, as in epsilon=1.0, or what shuffled ones may: central=0.1"
            )
        if batch is not None:
            raise ParameterError("batch is for plans that count on a shuffler: say what it is to promise, central=0.1")
        return None
    if not delta:
        raise ParameterError("shuffled reports promise an epsilon and a delta: say which, as in delta=1e-6")
    crowd = Crowd(central, delta, users if batch is None else batch)
    if crowd.batch > users:
        raise ParameterError(
            "batch is the number of users in the smallest batch that is forwarded: no more than there are"
        )
    return crowd


def _made_for_a_crowd(
    schema: Schema,
    chooser: Chooser,
    crowd: Crowd,
    limits: LocalLimits,
    over_time: OverTime,
    weights: Weights,
    given: bool,
) -> Plan:
    """The best plan that keeps what is promised after shuffling, beside the best one without a shuffler.

    `given` says whether the caller named the smallest batch: it is then that of every schedule.
    """
    if over_time.changes is not None:
        refuse_memory()
    if limits.all_rounds is not None and limits.all_rounds <= crowd.epsilon:
        raise ParameterError("epsilon is what a report may tell without the crowd: more than central, or leave it out")
    users, repeats = chooser.n, over_time.schedule.repeats
    if repeats:
        best, ways = _ways_over_time(schema, chooser, over_time._replace(first=None), users)
    else:
        best, ways = chooser, kept_ways(schema, chooser, users)
    local = _made(schema, best, ways, users, weights)
    found: list[tuple[CrowdChooser, list[Way]]] = []
    for schedule in reversed([*over_time.schedules()]) if repeats else (ONCE,):  # fresh noise first, which often wins
        own = crowd_in(schedule, crowd, users, given=given)
        if own is None:
            continue
        each = CrowdChooser.of(chooser, own, limits, schedule)
        least = min((theirs[0].cost for _, theirs in found), default=math.inf)
        ways = each.ways_kept(partial(_margin, schema, each, own), least)
        found += [(each, ways)] if ways else []
    if not found:
        raise ParameterError(
            f"no way to ask these questions gains anything from batches of {crowd.batch:,} users"
            + (f" in {over_time.schedule.rounds:,} rounds: plan fewer rounds, " if repeats else ": plan ")
            + "without central, or for larger batches"
        )
    shuffled, ways = _best_schedule(found) if repeats else found[0]
    made = _made(schema, shuffled, ways, users, weights)
    made = replace(made, crowd=replace(crowd, batch=shuffled.batch))
    made = replace(made, prediction=made.prediction._replace(unshuffled=local.prediction.errors))
    return replace(made, prediction=predicted_over_time(made)) if repeats else made


def _margin(schema: Schema, chooser: CrowdChooser, crowd: Crowd, way: Way) -> float:
    """How many times as much as it tells once shuffled a way may tell; 0 if it tells too much on its own."""
    made = _plan(schema, chooser, way, chooser.n, NOTHING)
    if not (chooser.within_limits(way) and made.kept):
        return 0.0
    told = shuffled_guarantee(made, crowd).epsilon
    return crowd.epsilon / told if told > crowd.epsilon else 1.0


def _ways_over_time(schema: Schema, chooser: Chooser, over_time: OverTime, users: int) -> tuple[Chooser, list[Way]]:
    """The chooser whose schedule has the smallest error, its ways to ask, and after them the best of the others."""
    found: list[tuple[Chooser, list[Way]]] = []
    refused = ParameterError("no way to ask these questions in rounds keeps this epsilon and delta; try delta=0")
    for each in over_time.choosers(chooser):
        try:
            found.append((each, kept_ways(schema, each, users)))
        except ParameterError as error:  # of what is left for a round
            refused = error
    if not found:
        raise refused
    return _best_schedule(found)


def _best_schedule(found: Sequence[tuple[C, list[Way]]]) -> tuple[C, list[Way]]:
    """The chooser whose schedule has the smallest error, its ways to ask, and after them the best of the others."""
    named = [
        (each, [replace(way, label=f"{IN_WORDS[each.schedule.mode]}; {way.label}") for way in ways])
        for each, ways in found
    ]
    (best, ways), *others = sorted(named, key=lambda pair: pair[1][0].cost)
    return best, [*ways, *(theirs[0] for _, theirs in others)]


def chooser_of(
    schema: Schema,
    epsilon: Any,
    users: int,
    delta: Any,
    ask: Iterable[str] | None,
    prior: Mapping[str, Any] | None,
    weights: Weights | None,
    limits: ReportLimits,
    liars: float = 0.0,
    phases: int = 1,
) -> Chooser:
    """What compares the ways to ask, with everything checked."""
    if not isinstance(schema, Schema):
        raise ParameterError(
            "a plan starts from a schema: dither.plan(dither.Schema({...}), epsilon=1.0, users=100_000)"
        )
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    asked = questions(schema, ask)
    given = checked_mapping(weights, 'weights maps questions to numbers, as in weights={"mean(income)": 2.0}')
    spreads = [each.spread_by for each in known_by(asked)] if phases > 1 else []
    about = tuple(dict.fromkeys([*known_by(asked), *(each for each in spreads if each is not None)]))
    known, share = known_users(schema, about, prior), checked_share("liars", liars)
    demand = demanded(importances(asked, given), known)
    if not demand.importance:
        raise ParameterError("nothing has to be reported for this: ask for something that devices know, too")
    importance, total = demand.importance, demand.total if demand.derived else None
    return Chooser(
        tuple(importance), importance, known, epsilon, delta, users, limits, share, total, demand.alone, demand.derived
    )


def checked_limits(most_evaluations: Any, most_bytes: Any) -> ReportLimits:
    """What a report may cost, if these are numbers."""
    most = None if most_bytes is None else checked_count("most_bytes", most_bytes, 1)
    return ReportLimits(checked_count("most_evaluations", most_evaluations, 0), most)


def kept_ways(schema: Schema, chooser: Chooser, users: int) -> list[Way]:
    """The ways to ask whose finished plan keeps what is declared, the best first."""
    kept = [way for way in chooser.ways() if _plan(schema, chooser, way, users, NOTHING).kept]
    if not kept:
        raise ParameterError("no way to ask these questions keeps this epsilon and delta; try delta=0")
    return kept


def _plan(schema: Schema, chooser: Chooser, way: Way, users: int, prediction: Prediction) -> Plan:
    units = [tuple(replace(each, workload=None) for each in unit) for unit in way.units]  # no part of what is stored
    parts = tuple(Part(*part) for part in zip(units, way.mechanisms, way.weights, strict=True))
    declared = chooser.declared(way)
    asked = schema, *declared, users, parts, way.questions_per_user, prediction, chooser.derived
    return Plan(*asked, schedule=chooser.schedule)


def _made(schema: Schema, chooser: Chooser, ways: list[Way], users: int, weights: Weights) -> Plan:
    best = ways[0]
    compared = {way.label: math.sqrt(way.cost / users) for way in reversed(ways)}
    shares = [best.questions_per_user * weight / sum(best.weights) for weight in best.weights]
    errors: dict[str, float] = {}
    expected: dict[Question, Expected] = {}
    of_numbers: dict[str, dict[str, float]] = {}
    worst = replace(chooser, worst=True)
    honest = replace(worst, liars=Fraction(0))
    plain = [tuple(each.evenly() for each in unit) for unit in best.units]
    prices = [honest.known_price(*part) for part in zip(best.mechanisms, plain, shares, strict=True)]
    told = zip(honest.errors(plain, prices, shares), best.units, best.mechanisms, shares, strict=True)
    for (_, squares), unit, mechanism, share in told:
        for place, (each, square) in enumerate(zip(unit, squares, strict=True)):
            error = math.sqrt(square / users)
            errors[str(each)] = error * each.unit
            expected[each] = Expected(mechanism, users * share, users, error)
            if each.cells is not None:
                of_numbers[str(each)] = _errors_of_named(honest, mechanism, unit, place, share)
    errors |= {str(each): each.predict(expected, chooser.users) for each in chooser.derived}
    prediction = Prediction(
        {str(each): errors[str(each)] for each in (*chooser.questions, *chooser.derived)},
        dict(sorted(compared.items(), key=lambda pair: pair[1])),
        limit_of(chooser, users),
        bool(chooser.users),
        tuple(str(each) for each in chooser.questions if each in chooser.users),
        float(chooser.liars),
        _counted(chooser, best),
        told_weights((*chooser.questions, *chooser.derived), weights),
        of_numbers,
        math.sqrt(worst.cost_of(best) / users),
        goal="" if chooser.goal == "rmse" else chooser.goal,
        lists=_forecasts(chooser, best, shares),
    )
    return _plan(schema, chooser, best, users, prediction)


def _forecasts(chooser: Chooser, way: Way, shares: Sequence[float]) -> dict[str, Mapping[str, float]]:
    """Of questions that find their items themselves: what they will find, in each round."""
    turnout, found = float(chooser.schedule.turnout), dict[str, Mapping[str, float]]()
    for unit, mechanism, share in zip(way.units, way.mechanisms, shares, strict=True):
        for question in unit:
            told = question.forecast(mechanism, chooser.n * share * turnout, chooser.users.get(question))
            if told is not None:
                found[str(question)] = told
    return found


def _counted(chooser: Chooser, way: Way) -> float:
    """The error of the same way to ask if the server could only count reports; 0 if it cannot be asked then."""
    if chooser.goal != "rmse":
        return 0.0
    cost = chooser.cost_within(way, chooser.limits._replace(evaluations=0))
    return math.sqrt(cost / chooser.n) if math.isfinite(cost) else 0.0


def _errors_of_named(chooser: Chooser, mechanism: Mechanism, unit: Unit, place: int, share: float) -> dict[str, float]:
    """The error of each number that a weight names, the heaviest first, for the users who are worst for it alone."""
    question = unit[place]
    named = {} if question.cells is None else question.cells.named
    names = question.labels or range(question.size)
    found = {}
    for number in sorted(named, key=named.__getitem__, reverse=True)[:_MOST_NAMED]:
        alone = replace(question, workload=CellWeights.only(question.size, number))
        price = chooser.price_of(mechanism, (*unit[:place], alone, *unit[place + 1 :]), share)
        found[str(names[number])] = math.sqrt(price.variances[place] / (chooser.n * share)) * question.unit
    return found


def limit_of(chooser: Chooser, users: int) -> float:
    """What no plan for these questions can be below (`utility.limits`), by the measure of `Plan.rmse`.

    It is known for delta = 0 and for all users: with a delta, another goal, a prior, liars or rounds it is 0, and so it
    is where ranges are asked for, of which no limit is known. It is one of many users. With few, it is better to answer
    some questions without asking anybody, which costs at most `unasked`; so they are left out one kind after the other,
    those that cost least first, as far as that makes the limit smaller. Where some numbers of a question matter more,
    that is as if all had the smallest weight: it may cost more.
    """
    if (
        chooser.delta > 0
        or chooser.goal != "rmse"
        or chooser.users
        or chooser.liars
        or chooser.derived
        or chooser.schedule.repeats
        or any(_limit(each, 1.0) is None for each in chooser.questions)
    ):
        return 0.0
    total = sum(chooser.importance[each] for each in chooser.questions)
    weights = {each: chooser.importance[each] / total for each in chooser.questions}
    asked_for = _independent(weights)
    of_kind: dict[Hashable, list[Question]] = {}
    for each in weights:
        of_kind.setdefault(each.kind, []).append(each)
    order = sorted(of_kind, key=lambda kind: of_kind[kind][0].unasked)
    costs = [sum(weights[each] * _least_weight(each) * each.unasked for each in of_kind[kind]) for kind in order]
    unasked = [0.0, *accumulate(costs)]
    merged = [_merged(asked_for[each] for each in of_kind[kind]) for kind in order]

    @lru_cache(None)
    def asked(first: int) -> float:
        """The least error of the questions that are left, without so many kinds."""
        left = list(chain.from_iterable(merged[first:]))
        return _least_of(left, chooser.epsilon) / users if left else 0.0

    return math.sqrt(_least_sum(asked, unasked, 0, len(order)))


def _least_sum(falling: Callable[[int], float], rising: Sequence[float], first: int, last: int) -> float:
    """The least of the sums of two sequences from one place to another, one falling and one rising.

    Between two places no sum is below that of the last of one and the first of the other: most need not be looked at.

    >>> _least_sum([9.0, 4.0, 3.5, 0.0].__getitem__, [0.0, 1.0, 2.0, 8.0], 0, 3)
    5.0
    """
    least, open_ = min(falling(place) + rising[place] for place in (first, last)), [(first, last)]
    while open_:
        low, high = open_.pop()
        if high - low > 1 and falling(high) + rising[low + 1] < least:
            middle = (low + high) // 2
            least = min(least, falling(middle) + rising[middle])
            open_ += [(low, middle), (middle, high)]
    return least


def _limit(question: Question, weight: float) -> tuple[Parameters, ...] | None:
    return question.limit(weight) if question.cells is None else question.weighted_limit(weight, question.cells)


def _least_weight(question: Question) -> float:
    return 1.0 if question.cells is None else question.cells.least


class _Asked(NamedTuple):
    """What is asked for by a question, and whether it follows from what another one asks for."""

    blocks: tuple[Parameters, ...]
    follows: bool


def _independent(weights: Mapping[Question, float]) -> dict[Question, _Asked]:
    """What each question asks for.

    The mean of keys tells apart all that their presence does, so these two are not independent questions: what is
    known of independent ones alone does not bound them together, and is used without the presence.
    """
    of_name: dict[str, list[Question]] = {}
    for each in weights:
        of_name.setdefault(each.name, []).append(each)
    found = {}
    for each, weight in weights.items():
        blocks, follows = _limit(each, weight) or (), any(map(each.follows_from, of_name[each.name]))
        told = tuple(replace(block, cells=None, signs=False) for block in blocks) if follows else blocks
        found[each] = _Asked(told, follows)
    return found


def _merged(asked: Iterable[_Asked]) -> list[_Asked]:
    """Equal questions as one with more parameters: the same, and less to look at."""
    times = Counter((block, each.follows) for each in asked for block in each.blocks)
    return [
        _Asked((block,) * number if block.cells is None else (replace(block, count=block.count * number),), follows)
        for (block, follows), number in times.items()
    ]


def _least_of(asked: Sequence[_Asked], epsilon: float) -> float:
    """The least error of these questions together."""
    every = [block for each in asked for block in each.blocks]
    alone = [block for each in asked if not each.follows for block in each.blocks]
    together = least_mse(every, epsilon)
    return together if len(alone) == len(every) else max(together, least_mse(alone, epsilon))


def _warn(made: Plan) -> None:
    """Say so where a result would tell no more than the domain does."""
    asked = [question for question in made.questions if not question.supporting]
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
