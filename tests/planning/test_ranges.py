"""Plans that ask for ranges: one question about several attributes, from the text to answers in their own units."""

import json
import math
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, Copula, KeyValue, Numeric, Ordinal, Plan, Schema, plan
from dither.errors import DomainError, ParameterError
from dither.planning import PlanTally
from dither.planning.error_curves import LIMIT, error_curves
from dither.privacy.ledger import Ledger
from dither.questions import questions
from dither.ranges import HDG, copula
from dither.ranges.error_prediction import predicted
from dither.ranges.range_estimate import RangeEstimate

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

SCHEMA = Schema(
    {
        "age": Ordinal(18, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(["nurse", "driver", "other"]),
        "commute": Numeric(0, 100, missing=10),
        "films": KeyValue(["Alien", "Heat"], size=1),
    }
)
ASK = "ranges(age, income, job)"
USERS = 20_000


def people(users: int = USERS) -> dict[str, Any]:
    """Incomes rise with age, and nurses are younger."""
    random = np.random.default_rng(8)
    age = np.clip(np.rint(random.normal(45, 12, users)), 18, 99).astype(int)
    income = np.clip(1000 * age + random.normal(0, 10_000, users), 0, 200_000)
    job = np.where(random.random(users) * 60 > age, "nurse", random.choice(["driver", "other"], users))
    return {"age": age, "income": income, "job": job, "commute": random.random(users) * 100}


def estimated(best: Plan, table: Any, seed: int = 1) -> Any:
    return best.estimate(best.tally(best.randomize(table, seed=seed)))


# What is asked ------------------------------------------------------------------------------------------------------


def test_the_question_and_its_mechanism():
    best = plan(SCHEMA, 1.0, users=100_000, ask=[ASK])
    (part,) = best.parts
    assert part.mechanism == Copula(shape=(82, 1024, 3), epsilon=1.0, n=100_000, nominal=(2,))
    assert [column.name for column in part.columns] == ["age", "income", "job"]
    assert (best.questions_per_user, part.name, str(best.questions[0])) == (1, ASK, ASK)
    assert best.guarantee == part.mechanism.guarantee
    assert (best.guarantee.epsilon, best.guarantee.established) == (1.0, "exact")
    assert ASK in str(best)
    assert f"{ASK}: predicted is the error of a query" in best.explain()
    assert "two numbers in one report" not in best.explain()


@pytest.mark.parametrize("text", ["ranges(age,income,job)", " ranges ( age ,income,  job ) ", ASK])
def test_spaces_are_free(text):
    assert str(questions(SCHEMA, [text])[0]) == ASK


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        ("ranges(films)", "attribute films: ranges are about numbers and labels"),
        ("ranges(age, films)", "attribute films: ranges are about numbers and labels"),
        ("ranges()", "names the attributes"),
        ("ranges(age,)", "names the attributes"),
        ("ranges(age, age)", "attribute age is named twice"),
        ("ranges(age, wealth)", "no attribute 'wealth' in the schema: 'age'"),
        ("ranges(age; income)", "no attribute"),
        ("ranges", "no such question"),
        ("ranges(age", "no such question"),
        ("range(age)", r"any ranges of several: ranges\(age, income, job\)"),
        ([ASK, ASK], "only once"),
        (["ranges(age, income)", "ranges(income, age)"], "only once"),
    ],
    ids=str,
)
def test_bad_questions(ask, reason):
    with pytest.raises(ParameterError, match=reason):
        plan(SCHEMA, 1.0, users=10_000, ask=ask)


def test_too_few_users_are_told_how_many_are_needed():
    with pytest.raises(ParameterError, match="needs at least 6 users"):
        plan(SCHEMA, 1.0, users=5, ask=[ASK, "mean(income)"])


def test_two_questions_about_other_attributes():
    best = plan(SCHEMA, 1.0, users=100_000, ask=["ranges(age, income)", "ranges(age, job)"])
    assert len(best.parts) == 2
    found = estimated(best, people())
    assert found["ranges(age, job)"].axes.names == ("age", "job")


# Sharing with other questions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_it_shares_users_with_other_questions(epsilon):
    users = 100_000
    best = plan(SCHEMA, epsilon, users=users, ask=[ASK, "mean(income)", "histogram(job)"])
    part, share = best.parts[0], float(best.shares[0])
    mechanism: Any = part.mechanism
    assert mechanism.n == round(users * share)
    own = predicted(mechanism, users * share, users)
    assert best.predicted[ASK] == pytest.approx(own.rmse)
    scaled = [best.predicted[str(question)] / question.unit for question in best.questions]
    assert best.prediction.worst == pytest.approx(math.sqrt(np.mean(np.square(scaled))))
    assert best.kept


def test_what_matters_more_gets_more_users():
    shares = [
        float(plan(SCHEMA, 1.0, users=100_000, ask=[ASK, "mean(commute)"], weights={name: 9.0}).shares[0])
        for name in (ASK, "age", "mean(commute)")
    ]
    assert shares[0] == shares[1] > shares[2] + 0.1


def test_more_users_and_more_budget_help():
    alone = [plan(SCHEMA, 1.0, users=users, ask=ASK).rmse for users in (10**4, 10**5, 10**6)]
    richer = [plan(SCHEMA, epsilon, users=10**5, ask=ASK).rmse for epsilon in (0.5, 1.0, 4.0)]
    assert alone == sorted(alone, reverse=True)
    assert richer == sorted(richer, reverse=True)


def test_no_limit_is_claimed():
    best = plan(SCHEMA, 1.0, users=100_000, ask=[ASK, "mean(income)"])
    assert best.prediction.limit == 0
    assert "No plan" not in best.explain()
    found = error_curves(SCHEMA, 1.0, users=100_000, ask=[ASK, "mean(income)"], epsilons=[0.5, 2.0])
    assert LIMIT not in found.errors
    assert all((line[1:] < line[:-1]).all() for line in found.errors.values())


def test_a_prior_speaks_of_other_questions_only():
    best = plan(SCHEMA, 1.0, users=100_000, ask=[ASK, "mean(income)"], prior={"income": "normal(40000, 9000)"})
    assert best.prediction.known == ("mean(income)",)


@pytest.mark.parametrize("name", ["age", "job"])
def test_a_prior_that_would_change_nothing_is_refused(name):
    with pytest.raises(ParameterError, match=f"prior of attribute {name} would change nothing"):
        plan(SCHEMA, 1.0, users=100_000, ask=[ASK, "mean(income)"], prior={name: "uniform"})


@pytest.mark.wide
@pytest.mark.parametrize("text", ["ranges(income,age)", " ranges ( age ,income ) ", "ranges(age, income)"])
def test_weights_name_ranges_in_any_order_and_spacing(text):
    ask = ["ranges(age, income)", "ranges(age, job)", "mean(income)"]
    usual = plan(SCHEMA, 1.0, users=100_000, ask=ask, weights={"ranges(age, income)": 50.0})
    assert plan(SCHEMA, 1.0, users=100_000, ask=ask, weights={text: 50.0}) == usual
    assert usual != plan(SCHEMA, 1.0, users=100_000, ask=ask)


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ({"ranges(age, income)": 5, "ranges(income, age)": 5}, "the same question has two"),
        ({"ranges(age)": 5}, "no such question is asked"),
        ({"ranges(age, age, income)": 5}, "no such question is asked"),
        ({"ranges(age, income": 5}, "no such question is asked"),
        ({3: 5}, "no such question is asked"),
    ],
    ids=str,
)
def test_bad_weights(weights, reason):
    with pytest.raises(ParameterError, match=reason):
        plan(SCHEMA, 1.0, users=100_000, ask=["ranges(age, income)", "mean(income)"], weights=weights)


QUERIES: Any = {"age": 3, ("age", "income"): 2, 2: 1.0}


def test_queries_that_will_be_asked_change_who_is_asked_what():
    usual = plan(SCHEMA, 1.0, users=100_000, ask=[ASK])
    made = plan(SCHEMA, 1.0, users=100_000, ask=[ASK], weights={ASK: QUERIES})
    for same in ({"any 2": 1}, {}, {2: 7}, 5.0):
        assert plan(SCHEMA, 1.0, users=100_000, ask=[ASK], weights={ASK: same}) == usual
    mechanism: Any = made.parts[0].mechanism
    workload = made.weighted_questions[0].queries
    assert made.predicted[ASK] == pytest.approx(predicted(mechanism, 100_000, queries=workload).rmse)
    old: Any = usual.parts[0].mechanism
    assert made.predicted[ASK] < predicted(old, 100_000, queries=workload).rmse
    share = {each.grid.attributes: each.share for each in mechanism.groups}
    assert share[0,] > share[1,] > share[2,]
    assert share[0, 1] > share[0, 2] == share[1, 2]
    assert made.guarantee == usual.guarantee
    told = made.explain()
    assert "what the weights name (age 50%; age and income 33%; any 2 attributes 17%)" in told
    assert "Weights:" not in told
    again = Plan.from_json(made.to_json())
    assert (again, again.prediction, again.explain()) == (made, made.prediction, told)
    assert made.prediction.limit == 0


def test_queries_are_named_in_any_way_and_by_the_attribute():
    made = plan(SCHEMA, 1.0, users=100_000, ask=[ASK], weights={ASK: QUERIES})
    for weights in (
        {"ranges(job,income,age)": {"age": 6, "income, age": 4, "2": 2}},
        {"age": {("age",): 3, ("income", "age"): 2, "any 2": 1}},
    ):
        assert plan(SCHEMA, 1.0, users=100_000, ask=[ASK], weights=weights) == made


def test_how_often_queries_are_asked_is_not_how_much_ranges_matter():
    ask = [ASK, "mean(commute)"]
    one, many = (
        plan(
            SCHEMA, 1.0, users=100_000, ask=ask, weights={ASK: {key: factor * often for key, often in QUERIES.items()}}
        )
        for factor in (1, 1000)
    )
    assert one == many
    assert one.rmse == many.rmse


@pytest.mark.parametrize(
    ("queries", "reason"),
    [
        ({"commute": 1}, "queries are named by attributes of it: age, income, job"),
        ({4: 1}, "a query is about 1 to 3 of these attributes"),
        ({"age": 1, ("age",): 1}, "twice"),
        ({"age": 0}, "a weight in ranges"),
        ({"age": math.nan}, "a weight in ranges"),
        ({"age": True}, "a weight in ranges"),
        ({"age": 1e10}, "a weight in ranges"),
    ],
    ids=str,
)
def test_queries_that_do_not_fit_are_refused(queries, reason):
    with pytest.raises(ParameterError, match=reason):
        plan(SCHEMA, 1.0, users=100_000, ask=[ASK], weights={ASK: queries})


def test_what_was_not_asked_about_is_answered_with_doubt():
    made = plan(SCHEMA, 2.0, users=USERS, ask=[ASK], weights={ASK: {("age", "income"): 1}})
    found = estimated(made, people()).ranges()
    asked, guessed = found.answers(
        [{"age": (18, 44), "income": (0, 45_000)}, {"age": (18, 44), "job": ["nurse"]}]
    ).stderr
    assert guessed > 1.5 * asked


def test_one_attribute_is_not_two():
    alone = plan(SCHEMA, 1.0, users=100_000, ask=["ranges(age)"]).explain()
    assert "ranges(age): predicted is the error of a query about half of the values, for" in alone
    assert "two attributes" not in alone
    both = plan(SCHEMA, 1.0, users=100_000, ask=["ranges(age)", "ranges(age, job)"]).explain()
    assert "ranges(age): predicted is the error of a query about half of the values, for" in both
    assert "ranges(age, job): predicted is the error of a query about half of the values of two attributes" in both


# Stored -------------------------------------------------------------------------------------------------------------


def test_a_stored_plan_is_read_and_never_chosen_again(monkeypatch):
    best = plan(SCHEMA, 1.0, users=100_000, ask=[ASK, "mean(income)"])
    monkeypatch.setattr(copula, "pair_cells", lambda *_: 2)
    again = Plan.from_json(best.to_json())
    assert again == best
    assert again.fingerprint == best.fingerprint
    assert again.predicted == best.predicted
    table = people(500)
    assert again.tally(again.randomize(table, seed=3)) == best.tally(best.randomize(table, seed=3))


def test_a_plan_with_another_method_is_read_too():
    best = plan(SCHEMA, 1.0, users=100_000, ask=[ASK])
    grids = HDG(shape=(82, 1024, 3), epsilon=1.0, n=100_000, nominal=(2,))
    other = Plan(SCHEMA, 1.0, 0.0, 100_000, (best.parts[0]._replace(mechanism=grids),), 1, best.prediction)
    again = Plan.from_json(other.to_json())
    assert again == other != best
    assert isinstance(estimated(again, people(2000))[ASK], RangeEstimate)


@pytest.mark.parametrize("shape", [(82, 64, 4), (80, 1024, 3), (82, 64), (82, 64, 3, 2)])
def test_a_mechanism_for_other_attributes_is_refused(shape):
    best = plan(SCHEMA, 1.0, users=100_000, ask=[ASK])
    wrong = Copula(shape=shape, epsilon=1.0, n=100_000)
    other = Plan(SCHEMA, 1.0, 0.0, 100_000, (best.parts[0]._replace(mechanism=wrong),), 1, best.prediction)
    with pytest.raises(ParameterError, match="do not fit"):
        Plan.from_json(other.to_json())


def test_a_changed_grid_is_noticed():
    stored = json.loads(plan(SCHEMA, 1.0, users=100_000, ask=[ASK]).to_json())
    stored["parts"][0]["mechanism"]["asked"][0][3] += 1
    with pytest.raises(ParameterError, match="hash does not match"):
        Plan.from_json(json.dumps(stored))


# On the device ------------------------------------------------------------------------------------------------------


def test_records_are_encoded_as_the_axes_say():
    best = plan(SCHEMA, 1.0, users=100_000, ask=["ranges(commute, job, age)"])
    (codes,) = best.encoded({"age": 20, "commute": 50.1, "job": "driver"}).values()
    assert codes.tolist() == [[513, 1, 2]]
    (substitutes,) = best.encoded({"age": 7, "commute": "far", "job": "astronaut"}).values()
    assert substitutes.tolist() == [[102, 2, 0]]  # `missing` is 10 of 100, "other" is a label, 7 is moved to 18
    for record in ({}, None, {"age": [1, 2]}, {"age": object(), "job": 3}):
        assert sum(map(len, best.report(record).values())) == 1


def test_one_attribute_is_a_record_too():
    best = plan(SCHEMA, 4.0, users=USERS, ask="ranges(age)")
    assert best.encoded({"age": 20})["ranges(age)"].tolist() == [[2]]
    table = people()
    found = estimated(best, table)["ranges(age)"].where("age <= 40")
    assert abs(float(found.value) - np.mean(table["age"] <= 40)) < 5 * float(found.stderr)


def test_errors_name_the_attribute_and_the_row_but_no_value():
    best = plan(SCHEMA, 1.0, users=100_000, ask=[ASK])
    table = {"age": [20, 31], "income": [1.0, 987_654.0], "job": ["nurse", "other"]}
    with pytest.raises(DomainError, match="attribute income, row 1: the value is not a number from 0 to") as caught:
        best.randomize(table)
    assert "987" not in str(caught.value)
    assert sum(map(len, best.randomize(table, invalid="substitute").values())) == 2
    with pytest.raises(DomainError, match="no column for attribute job"):
        best.randomize({name: table[name] for name in ("age", "income")})


def test_the_ledger_answers_it(tmp_path):
    best = plan(SCHEMA, 1.0, users=100_000, ask=[ASK, "mean(income)"])
    ledger = Ledger(tmp_path / "ledger", epsilon=2.0)
    record = {"age": 30, "income": 5.0, "job": "nurse"}
    first = ledger.report(best, record)
    again = ledger.report(best, record)
    assert {name: each.tobytes() for name, each in first.items()} == {n: each.tobytes() for n, each in again.items()}
    assert best.tally(first).parts.keys() == {ASK, "mean(income)"}


# Results ------------------------------------------------------------------------------------------------------------


def test_answers_in_the_words_and_units_of_the_schema():
    table = people()
    best = plan(SCHEMA, 4.0, users=USERS, ask=[ASK])
    found = estimated(best, table)[ASK]
    assert isinstance(found, RangeEstimate)
    assert found.axes.names == ("age", "income", "job")
    young_nurses = (table["age"] <= 40) & (table["age"] >= 20) & (table["job"] == "nurse")
    for text, kept in {
        "age between 20 and 40 and job in ('nurse')": young_nurses,
        "age between 20 and 40 and job = 'nurse' and income > 30000": young_nurses & (table["income"] > 30_000),
    }.items():
        answer = found.where(text)
        assert float(answer.stderr) < 0.05
        assert abs(float(answer.value) - kept.mean()) < 5 * float(answer.stderr)
    same = found.answer({"age": (20, 40), "job": ["nurse"]})
    assert float(same.value) == float(found.where("age between 20 and 40 and job in ('nurse')").value)
    assert list(found.marginal("job").labels or ()) == ["nurse", "driver", "other"]


def test_the_estimate_is_that_of_the_mechanism():
    table = people(5000)
    best = plan(SCHEMA, 2.0, users=5000, ask=[ASK])
    tally = best.tally(best.randomize(table, seed=5))
    mechanism = best.parts[0].mechanism
    own: Any = mechanism.estimate(tally.parts[ASK], best.questions[0].reading_of(mechanism))
    through: Any = best.estimate(tally)[ASK]
    words = through.where("age between 20 and 40 and job = 'nurse'")
    assert float(own.answer({0: (2, 22), 2: [0]}).value) == float(words.value)


def test_names_of_attributes_mean_the_first_question():
    best = plan(SCHEMA, 4.0, users=USERS, ask=["mean(income)", ASK, "histogram(job)"])
    found = estimated(best, people())
    assert found["income"] is found["mean(income)"]
    assert found["age"] is found["job"] is found[ASK]
    assert set(found) == {"mean(income)", ASK, "histogram(job)"}
    assert "Range queries about 3 attributes" in found.explain()
    assert "RangeEstimate from" in repr(found)


def test_tallies_merge_to_the_bit():
    best = plan(SCHEMA, 1.0, users=1000, ask=[ASK, "mean(income)"])
    reports = best.randomize(people(1000), seed=2)
    halves = [{name: each[start::2] for name, each in reports.items()} for start in (0, 1)]
    merged = best.tally(halves[0]) + best.tally(halves[1])
    assert merged == best.tally(reports)
    assert PlanTally.from_bytes(merged.to_bytes()) == merged


def test_refining_leaves_answers_as_they_are():
    best = plan(SCHEMA, 1.0, users=5000, ask=[ASK, "mean(income)", "mean(commute)"])
    tally = best.tally(best.randomize(people(5000), seed=2))
    found: list[Any] = [best.estimate(tally, refine=method)[ASK] for method in (None, "auto")]
    raw, better = (each.where("age > 40") for each in found)
    assert (float(raw.value), float(raw.stderr)) == (float(better.value), float(better.stderr))


def test_nobody_was_asked():
    best = plan(SCHEMA, 1.0, users=10_000, ask=[ASK, "mean(income)"])
    one = {name: column[:1] for name, column in people(2).items()}
    for seed in range(1000):
        tally = best.tally(best.randomize(one, seed=seed))
        if tally.parts[ASK].n == 0:
            found: Any = best.estimate(tally, refine="auto")[ASK]
            answer = found.where("age > 40 and income < 50000")
            assert float(answer.stderr) > 1  # says nothing about a share
            return
    raise AssertionError("somebody was asked every time")


def test_a_name_with_a_comma_is_not_taken_apart():
    schema = Schema({"a, b": Numeric(0, 1), "a": Numeric(0, 1), "b": Numeric(0, 1)})
    best = plan(schema, 1.0, users=10_000, ask=["ranges(a, b)", "mean(a, b)"])
    assert [column.name for part in best.parts for column in part.columns] == ["a", "b", "a, b"]
    assert Plan.from_json(best.to_json()) == best


@pytest.mark.parametrize(("epsilon", "hard"), [(0.5, True), (2.0, True), (0.5, False), (2.0, False)])
def test_predicted_errors_are_kept_by_hard_data_and_by_smooth(epsilon, hard):
    """About half of two attributes; hard data use up a good part of what was predicted."""
    users, random = 40_000, np.random.default_rng(3)
    schema = Schema({"x": Ordinal(0, 63), "y": Ordinal(0, 63)})
    first = random.random(users)
    second = np.abs(2 * first - 1) if hard else first + 0.3 * random.normal(size=users)
    table = {name: np.clip(64 * each, 0, 63).astype(int) for name, each in (("x", first), ("y", second))}
    best = dither.plan(schema, epsilon, users=users, ask=["ranges(x, y)"])
    spans = [(low, low + 31) for low in range(0, 33, 4)]
    queries = [{"x": a, "y": b} for a in spans for b in spans]
    truth = np.array([inside(table, query) for query in queries])
    off = [estimated(best, table, seed)["ranges(x, y)"].answers(queries).value - truth for seed in range(3)]
    realised = float(np.sqrt(np.mean(np.square(off))))
    assert (0.2 if hard else 0.02) * best.rmse < realised < best.rmse


def inside(table: dict[str, np.ndarray], query: dict[str, tuple[int, int]]) -> float:
    kept = [(table[name] >= low) & (table[name] <= high) for name, (low, high) in query.items()]
    return float(np.logical_and(*kept).mean())
