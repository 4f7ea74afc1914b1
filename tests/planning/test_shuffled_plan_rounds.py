"""Several shuffled rounds of a plan: what they promise together, by enumeration for few users; and what they do not."""

import json
import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dither
from dither import Categorical, Numeric, Plan, Schema
from dither.cli import main
from dither.core.crowd import Crowd
from dither.core.schedule import FRESH, KEPT, ONCE, ONE, Schedule
from dither.errors import DitherWarning, ParameterError
from dither.planning import shuffled_plans
from dither.planning.plan_files import digest
from dither.planning.shuffled_plans import crowd_in, shuffled_guarantee
from dither.privacy import ShuffledRound, amplify, compose
from dither.privacy.ledger import Ledger

pytest.importorskip("scipy")

SCHEMA = Schema({"job": Categorical(["nurse", "driver", "other"]), "income": Numeric(0, 200)})
CENTRAL, DELTA, USERS, ROUNDS = 0.5, 1e-6, 50_000, 3

Law = dict[tuple[int, ...], Fraction]


@cache
def planned(*ask: str, **options: Any) -> Plan:
    given = {"central": CENTRAL, "delta": DELTA, "users": USERS, "rounds": ROUNDS, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DitherWarning)
        return dither.plan(SCHEMA, ask=ask or ("histogram(job)",), **given)


def test_all_rounds_together_keep_what_is_promised_and_use_it_up():
    plan = planned()
    assert (plan.schedule.mode, plan.crowd) == (FRESH, Crowd(CENTRAL, DELTA, USERS))
    own = compose([(ShuffledRound(plan.parts[0].mechanism, USERS), ROUNDS)], DELTA)
    assert plan.shuffled.epsilon == pytest.approx(own.epsilon, rel=1e-9)
    assert 0.93 * CENTRAL < plan.shuffled.epsilon <= CENTRAL
    assert plan.shuffled_round.epsilon < plan.shuffled.epsilon < ROUNDS * plan.shuffled_round.epsilon
    assert plan.guarantee.model == "local"
    assert plan.guarantee.epsilon == pytest.approx(ROUNDS * plan.report_guarantee.epsilon, rel=1e-9)
    assert plan.kept
    fresh, once = plan.prediction.compared.values()
    assert next(iter(plan.prediction.compared)).startswith("every round, fresh noise")
    assert once > 2 * fresh  # which is not so without a shuffler


def test_more_rounds_leave_less_for_each():
    one, three = dither.plan(SCHEMA, central=CENTRAL, delta=DELTA, users=USERS, ask=["histogram(job)"]), planned()
    assert three.report_guarantee.epsilon < one.guarantee.epsilon - 0.5
    assert one.predicted["histogram(job)"] < three.predicted["histogram(job)"]


@pytest.mark.wide
def test_every_question_in_every_round():
    plan = planned("histogram(job)", "mean(income)")
    assert plan.questions_per_user == len(plan.parts)
    own = compose([(ShuffledRound(part.mechanism, USERS), ROUNDS) for part in plan.parts], DELTA)
    assert plan.shuffled.epsilon == pytest.approx(own.epsilon, rel=1e-9)
    assert 0.9 * CENTRAL < plan.shuffled.epsilon <= CENTRAL


# By enumeration ------------------------------------------------------------------------------------------------------


def shown(rows: Sequence[Sequence[Fraction]], users: Sequence[int]) -> Law:
    """The exact law of a multiset of reports."""
    law: Law = {(): Fraction(1)}
    for user in users:
        more: Law = defaultdict(Fraction)
        for known, chance in law.items():
            for y, cell in enumerate(rows[user]):
                more[tuple(sorted((*known, y)))] += chance * cell
        law = more
    return law


def together(one: Law, other: Law) -> Law:
    return {(*a, -1, *b): p * q for (a, p), (b, q) in product(one.items(), other.items())}


def divergence(one: Law, other: Law, ratio: Fraction) -> Fraction:
    gains = (one.get(y, Fraction(0)) - ratio * other.get(y, Fraction(0)) for y in {*one, *other})
    return sum((gain for gain in gains if gain > 0), Fraction(0))


def seen_in_a_round(plan: Plan, records: Sequence[tuple[int, ...]], users: Sequence[int]) -> Law:
    """What a shuffler shows of one round: all reports in no order, or those about each question."""
    rows = [
        [part.mechanism.channel().row(record[place]) for record in records] for place, part in enumerate(plan.parts)
    ]
    if plan.questions_per_user == len(plan.parts):
        found = shown(rows[0], users)
        for own in rows[1:]:
            found = together(found, shown(own, users))
        return found
    odds = [Fraction(part.weight, sum(each.weight for each in plan.parts)) for part in plan.parts]
    joint = [
        [chance * cell for chance, own in zip(odds, rows, strict=True) for cell in own[number]]
        for number in range(len(records))
    ]
    return shown(joint, users)


def worst_of_two_rounds(plan: Plan, batch: int, ratio: Fraction) -> Fraction:
    """Over all pairs of histories of one user, and all data sets of the others, which may differ between rounds."""
    sizes = [part.mechanism.channel().shape[0] for part in plan.parts]
    records = list(product(*(range(size) for size in sizes)))
    numbers = range(len(records))
    pairs = [
        (seen_in_a_round(plan, records, (x, *others)), seen_in_a_round(plan, records, (y, *others)))
        for others in combinations_with_replacement(numbers, batch - 1)
        for x, y in product(numbers, repeat=2)
        if x != y
    ]
    both = ((together(p, r), together(q, s)) for (p, q), (r, s) in combinations_with_replacement(pairs, 2))
    return max(divergence(one, other, ratio) for one, other in both)


SMALL = Schema(
    {"smokes": Categorical(["yes", "no"]), "grade": Categorical(["a", "b", "c"]), "tall": Categorical(["0", "1"])}
)


@cache
def small(batch: int, *ask: str, delta: float = 0.25, **options: Any) -> Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DitherWarning)
        return dither.plan(SMALL, central=1.0, delta=delta, users=1000, batch=batch, rounds=2, ask=ask, **options)


@pytest.mark.parametrize(
    ("ask", "batch"),
    [
        (("histogram(smokes)",), 3),
        (("histogram(smokes)",), 6),
        pytest.param(("histogram(grade)",), 3, marks=pytest.mark.wide),
        pytest.param(("histogram(smokes)", "histogram(tall)"), 3, marks=pytest.mark.wide),
    ],
)
def test_two_rounds_of_few_users_by_enumeration(ask, batch):
    plan = small(batch, *ask)
    assert plan.schedule.mode == FRESH
    ratio = Fraction(math.exp(1.0))
    truth = worst_of_two_rounds(plan, batch, ratio)
    assert truth <= Fraction(1, 4)
    assert truth > Fraction(1, 40)  # not empty words


def test_a_round_each_by_enumeration():
    """Four users draw one of two rounds; a round with fewer than two of them is not forwarded. All draws, all data."""
    rows = dither.GRR(k=2, epsilon=1.2).channel()
    table = [rows.row(x) for x in range(2)]

    def forwarded(users: Sequence[tuple[int, ...]]) -> Law:
        found: Law = defaultdict(Fraction)
        for turns in product(range(2), repeat=len(users)):
            rounds = [
                [history[turn] for history, turn in zip(users, turns, strict=True) if turn == number]
                for number in range(2)
            ]
            laws = [shown(table, own) if len(own) > 1 else {(): Fraction(1)} for own in rounds]
            for seen, chance in together(*laws).items():
                found[len(rounds[0]), *seen] += chance / 2 ** len(users)
        return found

    histories = list(product(range(2), repeat=2))
    stated = amplify(dither.GRR(k=2, epsilon=1.2), 2, 0.1)
    ratio = Fraction(math.exp(stated.epsilon))
    for others in combinations_with_replacement(histories, 3):
        laws = [forwarded([own, *others]) for own in histories]
        assert all(divergence(one, other, ratio) <= Fraction(1, 10) for one, other in product(laws, repeat=2))
    once = dither.plan(Schema({"tall": SMALL["tall"]}), 1.2, users=1000, ask=["histogram(tall)"])
    each, own = replace(once, schedule=Schedule(2, ONE)), amplify(once.parts[0].mechanism, 2, 0.1)
    assert shuffled_guarantee(each, Crowd(1.2, 0.1, 2)).epsilon == pytest.approx(own.epsilon, rel=1e-9)


def test_why_memory_is_refused():
    """Three users with kept responses, of whom one misses the second round: neither the crowd of a round, composed, nor
    that of the kept responses for any number of rounds bounds what both rounds show together."""
    mechanism, n, delta = dither.GRR(k=2, epsilon=2.0), 3, 0.2
    table = [mechanism.channel().row(x) for x in range(2)]

    def both_rounds(users: Sequence[int]) -> Law:
        found: Law = defaultdict(Fraction)
        for kept in product(range(2), repeat=len(users)):
            chance = math.prod(table[user][y] for user, y in zip(users, kept, strict=True))
            found[*sorted(kept), -1, *sorted(kept[1:])] += chance
        return found

    kept = amplify(mechanism, n, delta)
    twice = compose([(ShuffledRound(mechanism, n), 2)], delta)
    worst = max(
        divergence(both_rounds((0, *others)), both_rounds((1, *others)), Fraction(math.exp(kept.epsilon)))
        for others in product(range(2), repeat=n - 1)
    )
    assert worst > 1.2 * Fraction(delta)
    alone = divergence(both_rounds((0, 0, 0)), both_rounds((1, 0, 0)), Fraction(math.exp(twice.epsilon)))
    assert alone <= worst
    with pytest.raises(ParameterError, match="leave out changes"):
        planned(changes=0)
    with pytest.raises(ParameterError, match="leave out changes"):
        planned(changes=2, first=1.0)


# Limits and crowds ---------------------------------------------------------------------------------------------------


def test_limits_without_the_crowd():
    round_ = planned(first=1.0)
    assert 0.99 < round_.report_guarantee.epsilon <= 1.0
    assert round_.shuffled.epsilon < planned().shuffled.epsilon
    every = planned(epsilon=4.5)
    assert 4.49 < every.guarantee.epsilon <= 4.5


def test_the_batch_of_a_round_that_users_draw():
    crowd, schedule = Crowd(1.0, 1e-6, 1000), Schedule(4, ONE)
    found = crowd_in(schedule, crowd, 1000, given=False)
    assert found is not None
    short = sum(math.comb(1000, few) * 0.25**few * 0.75 ** (1000 - few) for few in range(found.batch))
    assert 4 * short <= 1e-6
    assert found.batch > 150
    assert crowd_in(schedule, replace(crowd, batch=250), 1000, given=True) == replace(crowd, batch=250)
    assert crowd_in(schedule, replace(crowd, batch=251), 1000, given=True) is None
    assert crowd_in(schedule, replace(crowd, batch=30), 30, given=False) is None
    assert crowd_in(replace(schedule, mode=FRESH), crowd, 1000, given=False) == crowd
    assert crowd_in(ONCE, crowd, 1000, given=True) == crowd


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"changes": 0}, "fresh noise"),
        ({"first": 3.0, "epsilon": 2.0}, "at most epsilon"),
        ({"batch": 2000}, "no more than there are"),
        ({"epsilon": 0.5}, "more than central"),
        ({"rounds": 1, "first": 1.0}, "rounds=30"),
    ],
)
def test_bad_input(options, match):
    with pytest.raises(ParameterError, match=match):
        dither.plan(SCHEMA, **{"central": 0.5, "delta": 1e-6, "users": 1000, "rounds": 3, **options})


# Files, words, reports -----------------------------------------------------------------------------------------------


def test_files_and_hash():
    plan = planned()
    again = Plan.from_json(plan.to_json())
    assert (again, again.fingerprint, again.schedule, again.crowd) == (
        plan,
        plan.fingerprint,
        plan.schedule,
        plan.crowd,
    )
    assert again.prediction.mean_of_rounds == plan.prediction.mean_of_rounds
    assert again.shuffled == plan.shuffled
    assert replace(plan, schedule=Schedule(ROUNDS + 1, FRESH)).fingerprint != plan.fingerprint


def test_a_file_with_more_rounds_or_with_memory_is_refused():
    plan = planned()
    for schedule, match in (
        ({"rounds": ROUNDS + 1, "mode": FRESH}, "does not keep"),
        ({"rounds": ROUNDS, "mode": KEPT, "changes": 0}, "no crowd is known"),
    ):
        stored = {**plan.to_dict(), "schedule": schedule}
        beside = {key: value for key, value in json.loads(plan.to_json()).items() if key not in stored}
        text = json.dumps({**stored, **beside, "hash": digest(stored)})
        with pytest.raises(ParameterError, match=match):
            Plan.from_json(text)


def test_it_is_said_in_words():
    told = planned().explain()
    for part in (
        f"In {ROUNDS} rounds: every user reports in each, with fresh noise.",
        f"That is for the batches of all {ROUNDS} rounds together",
        "whatever the records of a user in all rounds are replaced by",
        "mixed anew in every round",
        "Worth of shuffling",
        "ledger.report(plan, record, period=...)",
    ):
        assert part in told
    assert {"of the mean", "of a change", "without a shuffler"} <= set(planned().table().columns)
    assert "in 3 rounds" in planned().title
    assert "in all rounds," in str(planned().statement(shuffler="The mixers"))
    assert planned().compared().columns["against"][0] == "taken"


def test_one_round_each_in_words():
    plan = replace(planned(), schedule=Schedule(ROUNDS, ONE))
    assert "each user is in one batch of one round" in plan.explain()


def test_it_collects_in_rounds(tmp_path):
    plan = planned(users=20_000)
    draw = np.random.default_rng(5)
    jobs = [draw.choice(["nurse", "driver", "other"], 20_000, p=[p, 0.5 - p / 2, 0.5 - p / 2]) for p in (0.2, 0.3, 0.4)]
    rounds = plan.randomize_rounds([{"job": each} for each in jobs], seed=2)
    found = plan.estimate_rounds({number: plan.tally(reports) for number, reports in enumerate(rounds)})
    for number, each in enumerate(jobs):
        truth = [(each == label).mean() for label in ("nurse", "driver", "other")]
        estimate = found[number]["job"]  # the normal law leaves 1e-8 beyond 6 standard errors, for each of 9 numbers
        assert np.all(np.abs(estimate.value - truth) < 6 * estimate.stderr)
    with pytest.raises(ParameterError, match="ledger"):
        plan.report({"job": "nurse"})
    with Ledger(tmp_path / "device.db", epsilon=plan.epsilon) as ledger:
        sent = [ledger.report(plan, {"job": "nurse"}, period=number) for number in range(ROUNDS)]
    assert [len(each["histogram(job)"]) for each in sent] == [1] * ROUNDS


def test_the_command(tmp_path):
    schema, output = tmp_path / "schema.toml", tmp_path / "plan.json"
    schema.write_text(Schema({"job": SCHEMA["job"]}).to_toml())
    given = ["plan", str(schema), "--central", "0.5", "--delta", "1e-6", "--users", "50000", "--rounds", "3"]
    found = CliRunner().invoke(main, [*given, "-o", str(output)])
    assert found.exit_code == 0, found.output
    assert "batches of all 3 rounds together" in found.output
    assert Plan.read(output).fingerprint == replace(planned(), schema=Schema({"job": SCHEMA["job"]})).fingerprint
    refused = CliRunner().invoke(main, [*given, "--changes", "1"])
    assert refused.exit_code != 0
    assert "leave out changes" in refused.output


# Mutants -------------------------------------------------------------------------------------------------------------


def test_the_mutant_that_forgets_a_round_is_seen(monkeypatch):
    """Budgets for one round less than there are: all data sets of few users show it."""

    def forgetful(parts, delta):
        return compose([(part, times - 1) for part, times in parts], delta)

    monkeypatch.setattr(shuffled_plans, "compose", forgetful)
    monkeypatch.setattr(shuffled_plans, "_AGAIN", 1.4)
    plan = dither.plan(SMALL, central=1.0, delta=0.05, users=1000, batch=6, rounds=2, ask=["histogram(smokes)"])
    monkeypatch.undo()
    assert worst_of_two_rounds(plan, 6, Fraction(math.exp(1.0))) > Fraction(1, 20)
    assert plan.shuffled.epsilon > 1.05


def test_the_mutant_that_adds_up_kept_responses_is_seen(monkeypatch):
    """Without the refusal rounds from memory would be composed as if their noise were fresh."""
    monkeypatch.setattr(shuffled_plans, "KEPT", "nobody")
    kept = replace(planned(), crowd=None, schedule=Schedule(ROUNDS, KEPT, 0))
    assert shuffled_guarantee(kept, Crowd(CENTRAL, DELTA, USERS)).epsilon < CENTRAL  # one response, and yet many rounds
    monkeypatch.undo()
    with pytest.raises(ParameterError, match="no crowd is known"):
        shuffled_guarantee(kept, Crowd(CENTRAL, DELTA, USERS))
