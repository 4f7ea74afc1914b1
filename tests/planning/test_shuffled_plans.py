"""Plans for a crowd: what is promised after shuffling is kept, by enumeration where that is possible, and used up."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Plan, Schema
from dither.cli import main
from dither.core.crowd import Crowd
from dither.errors import DitherWarning, ParameterError
from dither.planning import shuffled_plans
from dither.planning.shuffled_plans import CrowdChooser, largest_below
from dither.privacy import amplify, bounds
from dither.privacy.enumeration import enumerated_delta
from dither.privacy.shuffle_divergence import delta_above, delta_below

pytest.importorskip("scipy")

SCHEMA = Schema(
    {
        "age": Ordinal(0, 9),
        "income": Numeric(0, 200),
        "job": Categorical(["nurse", "driver", "other"]),
        "films": KeyValue(keys=6, size=2),
    }
)
SMALL = "histogram(job)", "mean(income)"
CENTRAL, DELTA, USERS = 0.2, 1e-6, 50_000


@cache
def planned(*ask: str, **options: Any) -> Plan:
    given = {"central": CENTRAL, "delta": DELTA, "users": USERS, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DitherWarning)
        return dither.plan(SCHEMA, ask=ask or None, **given)


@pytest.mark.parametrize(
    "ask",
    [
        SMALL,
        ("histogram(job)",),
        pytest.param((), marks=pytest.mark.wide),
        pytest.param(("presence(films)",), marks=pytest.mark.wide),
        pytest.param(("ranges(age, job)",), marks=pytest.mark.wide),
    ],
)
def test_it_keeps_what_it_promises_and_uses_it_up(ask):
    plan = planned(*ask)
    assert plan.crowd == Crowd(CENTRAL, DELTA, USERS)
    assert plan.shuffled.model == "shuffled"
    assert plan.shuffled.delta <= DELTA
    assert 0.9 * CENTRAL < plan.shuffled.epsilon <= CENTRAL
    assert plan.guarantee.model == "local"
    assert plan.guarantee.epsilon <= plan.epsilon
    assert plan.guarantee.epsilon > 5 * CENTRAL  # else the crowd were for nothing
    assert all(plan.predicted[str(each)] < plan.prediction.unshuffled[str(each)] / 2 for each in plan.questions)


@pytest.mark.parametrize(
    "ask",
    [
        ("histogram(job)",),
        ("mean(income)", "share(age >= 5)"),
        pytest.param(("histogram(job)", "share(age >= 5)"), marks=pytest.mark.wide),
    ],
)
@pytest.mark.parametrize("batch", [3, pytest.param(4, marks=pytest.mark.wide)])
def test_by_enumeration(ask, batch):
    """Few users, of whom all data sets are tried: a delta that is large enough for so few to gain something."""
    schema = Schema({"job": SCHEMA["job"], "age": SCHEMA["age"], "income": Ordinal(0, 1)})
    ask = tuple("distribution(income)" if "income" in each else each for each in ask)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DitherWarning)
        plan = dither.plan(schema, central=1.0, delta=0.25, users=1000, batch=batch, ask=ask)
    assert enumerated_delta(plan.channel(), batch, Fraction(math.exp(1.0))) <= Fraction(1, 4)


def test_smaller_batches_allow_less():
    local = [planned("histogram(job)", batch=batch).guarantee.epsilon for batch in (50_000, 5_000, 500)]
    assert local == sorted(local, reverse=True)
    assert local[0] > local[1] + 0.5


def test_a_limit_without_the_crowd():
    plan = planned("histogram(job)", epsilon=1.5)
    assert 1.49 < plan.guarantee.epsilon <= 1.5
    assert plan.shuffled.epsilon < planned("histogram(job)").shuffled.epsilon


def test_files_and_hash():
    plan = planned(*SMALL)
    again = Plan.from_json(plan.to_json())
    assert (again, again.fingerprint, again.crowd) == (plan, plan.fingerprint, plan.crowd)
    assert again.predicted == plan.predicted
    assert again.prediction.unshuffled == plan.prediction.unshuffled
    other = replace(plan, crowd=Crowd(CENTRAL, DELTA, USERS - 1))
    assert other.fingerprint != plan.fingerprint
    local = dither.plan(SCHEMA, 1.0, users=1000)
    assert "crowd" not in local.to_dict()
    assert local.shuffled == local.guarantee


def test_it_is_said_in_words():
    plan = planned(*SMALL)
    told = plan.explain()
    for part in (
        "the reports of at least 50,000 users in a batch",
        "once shuffled",
        "trusted",
        "Worth of shuffling",
        "whose it is",
    ):
        assert part in told
    assert "without a shuffler" in plan.table().columns
    assert "in shuffled batches of 50,000 users or more" in repr(plan)
    statement = str(plan.statement())
    assert "the reports of at least 50,000 people at a time" in statement
    assert "shuffler" in plan.statement().blanks
    assert "shuffler" not in plan.statement(shuffler="The mixers").blanks


def test_it_collects_as_any_plan():
    plan = planned(*SMALL)
    draw = np.random.default_rng(3)
    people = {
        "income": draw.uniform(0, 200, USERS),
        "job": draw.choice(["nurse", "driver", "other"], USERS, p=[0.2, 0.3, 0.5]),
    }
    found = plan.estimate(plan.tally(plan.randomize(people, seed=1)))
    assert np.abs(found["histogram(job)"].value - [0.2, 0.3, 0.5]).max() < 0.03
    assert abs(found["mean(income)"].value - 100) < 6 * plan.predicted["mean(income)"]


def test_what_lost_is_compared_at_the_same_central_budget():
    columns = planned("histogram(job)").compared().columns
    assert columns["against"][0] == "taken"
    errors = columns["predicted error"]
    assert errors == sorted(errors)


def test_the_largest_below():
    assert largest_below(lambda x: -1.0, 1.0, 7.0) == 7.0
    assert largest_below(lambda x: 1.0, 2.0, 7.0) == pytest.approx(2.0, rel=2e-3)
    for root in (1.001, 1.3, 2.0, 19.0):
        found = largest_below(lambda x, root=root: math.exp(x) - math.exp(root), 1.0, 20.0)
        assert (1 - 1e-3) * root <= found <= root


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"central": 0.1}, "delta=1e-6"),
        ({"delta": 1e-6}, "epsilon=1.0, or what shuffled ones"),
        ({"epsilon": 1.0, "batch": 10}, "batch is for plans that count on a shuffler"),
        ({"central": 0.1, "delta": 1e-6, "batch": 2000}, "no more than there are"),
        ({"central": 0.1, "delta": 1e-6, "batch": 1}, "batch"),
        ({"central": 0.1, "delta": 1e-20}, "at least 1e-15"),
        ({"central": 0.5, "delta": 1e-6, "epsilon": 0.5}, "more than central"),
        ({"central": -1.0, "delta": 1e-6}, "epsilon"),
    ],
)
def test_bad_input(options, match):
    with pytest.raises(ParameterError, match=match):
        dither.plan(SCHEMA, users=1000, **options)


def test_the_command(tmp_path):
    schema, output = tmp_path / "schema.toml", tmp_path / "plan.json"
    schema.write_text(Schema({"job": SCHEMA["job"]}).to_toml())
    given = ["plan", str(schema), "--central", "0.2", "--delta", "1e-6", "--users", "50000", "-o", str(output)]
    found = CliRunner().invoke(main, [*given, "--batch", "20000", "--compare"])
    assert found.exit_code == 0, found.output
    assert "Worth of shuffling" in found.output
    assert Plan.read(output).crowd == Crowd(0.2, 1e-6, 20_000)
    assert "--central" in CliRunner().invoke(main, ["plan", str(schema), "--users", "5"]).output


# Mutants -------------------------------------------------------------------------------------------------------------


def test_budgets_that_no_crowd_allows(monkeypatch):
    """A search that overshoots: the joint bound refuses it."""
    real = CrowdChooser._with_largest_budget

    def more(self, cls, parameters, epsilon, delta):
        return cls.with_budget(parameters, 1.2 * real(self, cls, parameters, epsilon, delta).epsilon, 0.0)

    monkeypatch.setattr(CrowdChooser, "_with_largest_budget", more)
    with pytest.raises(ParameterError, match="no way to ask"):
        dither.plan(SCHEMA, central=CENTRAL, delta=DELTA, users=USERS, ask=["histogram(job)"])


def test_budgets_of_any_mechanism(monkeypatch):
    """Without their own bounds mechanisms get less, and the promise is not used up."""
    own = planned("distribution(age)").guarantee.epsilon
    monkeypatch.setattr(shuffled_plans, "shuffled_delta", lambda mechanism, epsilon, n: 1.0)
    plan = dither.plan(SCHEMA, central=CENTRAL, delta=DELTA, users=USERS, ask=["distribution(age)"])
    assert plan.guarantee.epsilon < 0.985 * own
    assert amplify(plan, USERS, DELTA).epsilon < 0.98 * CENTRAL


# From below ----------------------------------------------------------------------------------------------------------

APART = Schema({"smokes": Categorical(["yes", "no"]), "job": Categorical(["nurse", "driver", "other"])})
SHARED = Schema({"grade": Ordinal(0, 2)})
CONDITIONS = "share(grade < 1)", "share(grade > 1)", "share(grade = 1)"
RECORDS = {  # what each part is given, for all records
    "apart": (APART, ("histogram(smokes)", "histogram(job)"), [(a, b) for a in range(2) for b in range(3)]),
    "shared": (SHARED, CONDITIONS, [(int(grade < 1), int(grade > 1), int(grade == 1)) for grade in range(3)]),
}


def of_one_question(kind: str) -> tuple[Plan, list[list[Fraction]]]:
    """A plan whose users answer one question, and the law of what each record sends."""
    schema, ask, records = RECORDS[kind]
    plan = dither.plan(schema, 1.5, users=10_000, ask=ask)
    assert plan.questions_per_user == 1
    channels = [part.mechanism.channel() for part in plan.parts]
    odds = [Fraction(part.weight, sum(each.weight for each in plan.parts)) for part in plan.parts]
    rows = [
        [chance * cell for chance, own, x in zip(odds, channels, record, strict=True) for cell in own.row(x)]
        for record in records
    ]
    return plan, rows


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_lower_bound_of_a_plan_is_that_of_a_data_set(kind, n):
    """No data set hides better than the best of them all, by enumeration; and no bound is below it."""
    plan, rows = of_one_question(kind)
    channel = plan.channel()
    law, crowds = channel.blanket_law(), channel.crowds()
    assert law is not None
    for ratio in (Fraction(11, 10), Fraction(3, 2), Fraction(5, 2)):
        exact, epsilon = float(enumerated_delta(rows, n, ratio)), math.log(ratio)
        below = max(delta_below(crowd, epsilon, n) for crowd in crowds)
        assert (0.5 * exact if kind == "apart" else 0) < below <= exact * (1 + 1e-9)
        assert exact <= delta_above(law, epsilon, n) * (1 + 1e-9)


def test_records_that_differ_in_everything_are_one_data_set():
    """The first crowd of a plan about two attributes: both differ at once, beside others with a third record."""
    plan, rows = of_one_question("apart")
    first, *_ = plan.channel().crowds()
    for ratio in (Fraction(11, 10), Fraction(3, 2)):
        every = [
            float(enumerated_delta(rows, 4, ratio, others=[z] * 3, pair=(x, y)))
            for x in range(6)
            for y in range(6)
            for z in range(6)
        ]
        found = delta_below(first, math.log(ratio), 4)
        assert min(abs(found - each) for each in every) <= 1e-3 * found


def test_the_mutant_that_lets_one_value_be_two_is_seen():
    """With one attribute in all questions no record gives each of them its worst input."""
    plan, rows = of_one_question("shared")
    channel: Any = plan.channel()
    free = replace(channel, looks_at=None).crowds()
    exact = float(enumerated_delta(rows, 4, Fraction(11, 10)))
    assert max(delta_below(crowd, math.log(1.1), 4) for crowd in free) > exact * 1.01


def test_a_plan_has_a_lower_bound_beside_its_own():
    plan = dither.plan(APART, 2.0, users=10_000)
    found = bounds(plan, 10_000, 1e-6)
    own = found["own"]
    assert own is not None
    assert found.lower is not None
    assert 1 <= own.epsilon / found.lower < 1.001
