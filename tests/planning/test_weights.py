"""Weights of labels, keys and queries: what they are equal to, what they move, what they predict, what is refused."""

import json
import math
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Plan, Schema, plan
from dither.core.cell_weights import CellWeights
from dither.errors import ParameterError
from dither.planning.choose import USUAL
from dither.planning.planner import chooser_of, limit_of
from dither.questions.tables import crossed
from dither.utility import limits
from dither.utility.limits import frequencies, least_mse, sparse
from marks import wide

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

JOBS = ["nurse", "driver", "teacher", "other"]
SCHEMA = Schema(
    {
        "income": Numeric(0, 200_000),
        "job": Categorical(JOBS),
        "age": Ordinal(18, 25),
        "films": KeyValue(["Alien", "Heat", "Totoro", "Vertigo", "Psycho", "Jaws"], size=2, low=1, high=5),
        "items": KeyValue(10, size=3),
    }
)
ASK = ["histogram(job)", "distribution(age)", "distribution(income)", "films", "items", "mean(income)"]


def all_of(question: Any, weight: float) -> dict[Any, float]:
    return dict.fromkeys(question.labels or range(question.size), weight)


# What they are equal to ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["histogram(job)", "distribution(age)", "presence(films)", "mean(items)"])
def test_ones_are_nothing_and_fives_are_five(name):
    ask = [name, "mean(income)"]
    usual, five = (plan(SCHEMA, 1.0, users=9000, ask=ask, weights=each) for each in (None, {name: 5.0}))
    question = usual.questions[0]
    first = question.labels[0] if question.labels else 0
    for weights, expected in (
        ({}, usual),
        (all_of(question, 1.0), usual),
        ({first: 1.0}, usual),
        (all_of(question, 5.0), five),
    ):
        found = plan(SCHEMA, 1.0, users=9000, ask=ask, weights={name: weights})
        assert found == expected
        assert found.prediction[:6] == expected.prediction[:6]
    assert five.rmse != usual.rmse


def test_only_ratios_count_between_questions():
    one = plan(SCHEMA, 1.0, users=9000, ask=ASK, weights={"job": {"nurse": 5.0}})
    weights: Any = {str(question): 3.0 for question in one.questions}
    weights["histogram(job)"] = {"nurse": 15.0, **dict.fromkeys(JOBS[1:], 3.0)}
    other = plan(SCHEMA, 1.0, users=9000, ask=ASK, weights=weights)
    assert other == one
    assert other.rmse == pytest.approx(one.rmse)


def test_numbers_are_named_by_labels_or_by_numbers():
    for name, same in (
        ("age", [{18: 3.0, 19: 2.0}, {"18": 3.0, "19": 2.0}, {np.int64(18): 3, "19": 2}]),
        ("items", [{7: 3.0}, {"7": 3.0}]),
        ("mean(films)", [{"Heat": 2.0}]),
        ("distribution(income)", [{"0 to 6250": 2.0}]),
        ("job", [{"nurse": 2.0}]),
    ):
        ask = [name, "mean(income)"]
        found = [plan(SCHEMA, 1.0, users=9000, ask=ask, weights={name: weights}) for weights in same]
        assert all(each == found[0] for each in found)
        assert all(each.prediction == found[0].prediction for each in found)
        assert found[0] != plan(SCHEMA, 1.0, users=9000, ask=ask)


# What they move --------------------------------------------------------------------------------------------------


def test_a_label_that_matters_brings_users_to_its_question():
    even = plan(SCHEMA, 1.0, users=9000, ask=["histogram(job)", "mean(income)"])
    tilted = plan(SCHEMA, 1.0, users=9000, ask=["histogram(job)", "mean(income)"], weights={"job": {"nurse": 33.0}})
    # The labels have a weight of 9 on average, so its part of the users grows by 3 against the mean's, and a bit more:
    # the worst users are all nurses, about whom a report of GRR is noisier.
    ratio = [made.shares[0] / made.shares[1] for made in (even, tilted)]
    assert 3.0 < ratio[1] / ratio[0] < 3.6
    assert tilted.predicted["histogram(job)"] < even.predicted["histogram(job)"]
    assert list(tilted.prediction.named) == ["histogram(job)"]
    assert list(tilted.prediction.named["histogram(job)"]) == ["nurse"]
    assert tilted.prediction.weights == {"histogram(job)": {"nurse": 33.0}}
    assert "nurse in histogram(job) counts 33" in tilted.explain()
    assert "by the weights" in tilted.explain()
    assert not even.prediction.weights
    assert "Weights" not in even.explain()


def test_the_measure_is_the_weighted_mean():
    ask, weights = ["histogram(job)", "mean(income)"], {"job": {"nurse": 5.0}, "income": 3.0}
    made = plan(SCHEMA, 1.0, users=9000, ask=ask, weights=weights)
    chooser = chooser_of(SCHEMA, 1.0, 9000, 0.0, ask, None, weights, USUAL)
    total = 0.0
    for part, share in zip(made.parts, made.shares, strict=True):
        question = next(each for each in chooser.questions if str(each) == part.name)
        (variance,) = chooser.price_of(part.mechanism, (question,), float(share)).variances
        total += chooser.importance[question] * variance / (9000 * share)
    assert [chooser.importance[each] for each in chooser.questions] == [2.0, 3.0]
    assert made.rmse**2 == pytest.approx(total / 5.0, rel=1e-9)


def test_the_predicted_error_of_a_question_is_that_of_its_numbers_on_average():
    made = plan(SCHEMA, 1.0, users=9000, ask=["histogram(job)"], weights={"job": {"nurse": 50.0}})
    usual = plan(SCHEMA, 1.0, users=9000, ask=["histogram(job)"])
    assert made.predicted == usual.predicted  # the same mechanism, of all users
    assert made.rmse != usual.rmse
    reading: Any = made.parts[0].mechanism.reading
    worst = max(float(reading.variance(held)) for held in (0.0, 1.0))
    assert made.prediction.named["histogram(job)"]["nurse"] == pytest.approx(math.sqrt(worst / 9000))


@pytest.mark.parametrize("about", ["job", wide("items"), wide("both")])
def test_predicted_and_realised_agree(about):
    # For each of 80 collections the weighted mean of squared errors. It has some ten degrees of freedom or more, so a
    # spread of .45 of its mean at most, and the average of 80 is within 6 standard errors, 30%, but for a false alarm
    # of 1e-8. The prediction is for these very users.
    users, random = 3000, np.random.default_rng(5)
    often = [0.4, *[0.6 / 9] * 9]
    data: dict[str, Any] = {
        "job": random.choice(JOBS, users, p=[0.7, 0.1, 0.1, 0.1]),
        "items": [dict.fromkeys(random.choice(10, 2, p=often, replace=False).tolist(), 1.0) for _ in range(users)],
    }
    asked = {"job": ["histogram(job)"], "items": ["presence(items)"]}
    ask = asked.get(about, ["histogram(job)", "presence(items)"])
    prior = {name: data[name] for name in asked if about in (name, "both")}
    given: dict[str, Any] = {"histogram(job)": {"nurse": 20.0}, "presence(items)": {0: 30.0, 3: 0.01}}
    weights = {name: given[name] for name in ask}
    made = plan(SCHEMA, 2.0, users=users, ask=ask, prior=prior, weights=weights)
    truth = {
        "histogram(job)": np.array([np.mean(data["job"] == each) for each in JOBS]),
        "presence(items)": np.array([np.mean([key in held for held in data["items"]]) for key in range(10)]),
    }
    labels: dict[str, Any] = {"histogram(job)": JOBS, "presence(items)": range(10)}
    each = {name: np.array([given[name].get(label, 1.0) for label in labels[name]]) for name in ask}
    errors = []
    for seed in range(80):
        found = made.estimate(made.tally(made.randomize(data, seed=seed)))
        errors.append(sum(np.mean(each[name] * (found[name].value - truth[name]) ** 2) for name in ask))
    realised = np.mean(errors) / sum(each[name].mean() for name in ask)
    assert realised == pytest.approx(made.rmse**2, rel=0.3)
    plain = plan(SCHEMA, 2.0, users=users, ask=ask, prior=prior)
    assert abs(plain.rmse**2 / made.rmse**2 - 1) > 0.01  # another measure


# The limit, liars, files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, *map(wide, (0.3, 2.0, 5.0, 12.0))])
def test_no_plan_is_below_the_limit(epsilon):
    random = np.random.default_rng(7)
    for number in range(3):
        weights: Any = {
            "histogram(job)": dict(zip(JOBS, (10 ** random.uniform(-3, 3, 4)).tolist(), strict=True)),
            "distribution(age)": {18: float(10 ** random.uniform(-2, 4))},
            "mean(films)": {"Heat": float(10 ** random.uniform(-2, 4))},
            "presence(items)": {k: float(10 ** random.uniform(-2, 2)) for k in range(4)},
            "mean(income)": float(10 ** random.uniform(-2, 2)),
        }
        for ask in (list(weights), ["histogram(job)"], ["presence(films)", "mean(films)"], ["presence(items)"]):
            own = {name: weight for name, weight in weights.items() if name in ask}
            made = plan(SCHEMA, epsilon, users=100 ** (1 + number), ask=ask, weights=own)
            assert made.prediction.limit <= made.rmse * (1 + 1e-9)
            assert made.prediction.limit > 0 or epsilon > 1


def shared_out(weights: np.ndarray, information: float, budget: float) -> float:
    """The least sum of a / lambda (1/t - 1) where all t add up to a budget, and none is above one."""
    parts = np.zeros(len(weights))
    while True:
        free = parts < 1
        parts[free] = np.sqrt(weights[free]) * (budget - (~free).sum()) / np.sqrt(weights[free]).sum()
        if (parts <= 1).all():
            return float((weights / information * (1 / parts - 1)).sum())
        parts = np.minimum(parts, 1.0)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_limit_of_uneven_weights_is_the_budget_shared_out(epsilon):
    random = np.random.default_rng(8)
    for k in (3, 8, 40):
        each = random.uniform(0.2, 5.0, k)
        each[: k // 2] = 1.0
        cells = CellWeights(k, dict(enumerate(each.tolist())))
        apart = np.eye(k) - 1 / k
        turned = np.linalg.eigvalsh(apart @ np.diag(each / each.sum()) @ apart)[1:]
        lost = least_mse(frequencies(k), epsilon) / ((k - 1) / k**2)
        exact = shared_out(turned, k, (k - 1) / (1 + lost))
        found = least_mse(frequencies(k, 1.0, cells), epsilon)
        assert found <= exact * (1 + 1e-9)
        assert found == pytest.approx(exact, rel=1e-9) or epsilon > 1  # where none is above one
        even = least_mse(frequencies(k), epsilon)
        lost = least_mse(sparse(k, 1), epsilon) / (1 / k)
        found = least_mse(sparse(k, 1, "mean", 1.0, cells), epsilon)
        assert found <= shared_out(each / each.sum(), k, k / (1 + lost)) * (1 + 1e-9)
        many = CellWeights(k, dict(enumerate((each * random.uniform(1, 1.01, k)).tolist())))
        with pytest.MonkeyPatch.context() as patch:  # the lower ends of gaps between weights stand in for eigenvalues
            patch.setattr(limits, "_MOST_DIFFERENT", 2)
            rough = least_mse(frequencies(k, 1.0, many), epsilon)
        assert rough < 1.01 * exact
        assert rough > 0.1 * even or epsilon > 1


def test_subset_selection_attains_nearly_the_limit_of_uneven_weights():
    # At a small epsilon its error at the even population is that of even weights. Of one heavy label in k that is at
    # most (sum of all) against (mean root)^2 away.
    k, epsilon, users = 16, 0.2, 10**6
    cells = CellWeights(k, {0: 4.0})
    reading: Any = dither.SubsetSelection(k=k, epsilon=epsilon).reading
    found = float(reading.variance(1 / k))  # the weighted mean: all are alike
    least = least_mse(frequencies(k, 1.0, cells), epsilon)
    assert 1.0 < found / least < 1.1
    assert (
        users * limit_of(chooser_of(SCHEMA, 0.2, users, 0.0, ["job"], None, {"job": {"nurse": 4.0}}, USUAL), users) ** 2
        > 0
    )


def test_no_limit_is_known_with_a_prior_or_liars():
    known: list[dict[str, Any]] = [{"prior": {"job": "uniform"}}, {"liars": 0.01}, {"delta": 1e-6}]
    for more in known:
        made = plan(SCHEMA, 1.0, users=9000, ask=["job"], weights={"job": {"nurse": 5.0}}, **more)
        assert made.prediction.limit == 0


def test_liars_move_what_they_move_whatever_matters():
    # Their part is the square of how far they move the worst number: no weighted mean of squares is above it.
    plain = plan(SCHEMA, 1.0, users=9000, ask=["job", "income"], liars=0.05)
    tilted = plan(SCHEMA, 1.0, users=9000, ask=["job", "income"], liars=0.05, weights={"job": {"nurse": 5.0}})
    fives = plan(SCHEMA, 1.0, users=9000, ask=["job", "income"], liars=0.05, weights={"job": dict.fromkeys(JOBS, 5.0)})
    assert fives == plan(SCHEMA, 1.0, users=9000, ask=["job", "income"], liars=0.05, weights={"job": 5.0})
    assert tilted.rmse != plain.rmse
    chooser = chooser_of(SCHEMA, 1.0, 9000, 0.0, ["job"], None, {"job": {"nurse": 5.0}}, USUAL, 0.05)
    mechanism, unit = dither.GRR(k=4, epsilon=1.0), chooser.questions
    honest = chooser_of(SCHEMA, 1.0, 9000, 0.0, ["job"], None, {"job": {"nurse": 5.0}}, USUAL)
    added = [each.price_of(mechanism, unit, 1.0).variances[0] for each in (chooser, honest)]
    worth = mechanism.report_worth()
    assert worth is not None
    assert added[0] - added[1] == pytest.approx(9000 * float(worth[0].worst_shift(chooser.liars)) ** 2)


def test_a_plan_with_weights_is_read_back():
    weights: Any = {"job": {"nurse": 5.0}, "mean(items)": {7: 3.0}, "age": {18: 2}, "mean(income)": 4}
    made = plan(SCHEMA, 1.0, users=9000, ask=ASK, weights=weights)
    again = Plan.from_json(made.to_json())
    assert again == made
    assert again.prediction == made.prediction
    assert again.explain() == made.explain()
    assert "weights" not in plan(SCHEMA, 1.0, users=9000, ask=ASK).prediction.stored()
    for field, wrong, reason in (
        ("weights", {"histogram(job)": {"pilot": 5.0}}, "weights: .*there are nurse"),
        ("weights", {"histogram(x)": 5.0}, "no such question"),
        ("weights", {"histogram(job)": {"nurse": 0.0}}, "prediction.weights"),
        ("weights", {"mean(income)": {"nurse": 1.0}}, "one number"),
        ("weights", {"histogram(job)": "much"}, "weights"),
        ("named", {"histogram(job)": {"pilot": 5.0}}, "named"),
        ("named", {"mean(income)": {"nurse": 5.0}}, "named"),
        ("named", {"histogram(job)": {"nurse": -1.0}}, "named"),
    ):
        stored = json.loads(made.to_json())
        stored["prediction"][field] = wrong
        with pytest.raises(ParameterError, match=reason):
            Plan.from_json(json.dumps(stored))


def test_what_lost_is_compared_by_the_errors_that_are_stated():
    ask: Any = ["histogram(job)", "presence(items)", "ranges(age, job)"]
    weights: Any = {"job": {"nurse": 50.0}, "presence(items)": {7: 9.0}, "ranges(age, job)": {"age": 1}}
    made = plan(SCHEMA, 1.0, users=90_000, ask=ask, weights=weights)
    table = made.compared().columns
    taken = [place for place, mark in enumerate(table["against"]) if mark == "taken"]
    assert {table["question"][place]: table["predicted error"][place] for place in taken} == pytest.approx(
        dict(made.predicted)
    )


def test_weights_do_not_change_what_a_question_is():
    made = plan(SCHEMA, 1.0, users=9000, ask=ASK, weights={"job": {"nurse": 5.0}})
    assert all(question.workload is None for question in made.questions)
    assert [question.workload is not None for question in made.weighted_questions].count(True) == 1


# What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ({"job": {"pilot": 5}}, "there are nurse, driver, teacher, other"),
        ({"job": {"nurse": 5, 3: 1}}, "there are nurse"),
        ({"job": {None: 5}}, "there are nurse"),
        ({"job": {("nurse",): 5}}, "there are nurse"),
        ({"age": {17: 5}}, "there are 18, 19"),
        ({"age": {18.0: 5}}, "there are 18, 19"),
        ({"age": {True: 5}}, "there are 18, 19"),
        ({"items": {10: 5}}, "numbered from 0 to 9"),
        ({"items": {-1: 5}}, "numbered from 0 to 9"),
        ({"items": {"10" * 30: 5}}, "numbered from 0 to 9"),
        ({"mean(films)": {"Cats": 5}}, "there are Alien, Heat"),
        ({"mean(films)": {0: 5}}, "there are Alien, Heat"),
        ({"distribution(income)": {"0": 5}}, "0 to 6250, .* and 20 more"),
        ({"mean(income)": {"low": 5}}, "one number and has one weight"),
        ({"age": {18: 1, "18": 2}}, "two weights"),
        ({"job": {"nurse": 0}}, "a weight in histogram\\(job\\) must be a number from"),
        ({"job": {"nurse": -1}}, "a weight in"),
        ({"job": {"nurse": math.nan}}, "a weight in"),
        ({"job": {"nurse": 1e10}}, "a weight in"),
        ({"job": {"nurse": True}}, "a weight in"),
        ({"job": {"nurse": "5"}}, "a weight in"),
        ({"job": {"nurse": {"driver": 2}}}, "a weight in"),
        ({"job": [1, 2, 3, 4]}, "the weight of histogram\\(job\\) must be a number"),
        ({"job": {"nurse": 2}, "histogram(job)": {"nurse": 2}}, "the same question has two"),
        ({"town": {"nurse": 2}}, "no such question is asked; there are histogram\\(job\\)"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_and_what_would_is_told(weights, reason):
    with pytest.raises(ParameterError, match=reason) as refused:
        plan(SCHEMA, 1.0, users=9000, ask=ASK, weights=weights)
    assert "pilot" not in str(refused.value)


def test_questions_of_two_units_are_told_apart():
    # Two histograms of one kind, of which one has weights: prices are not shared.
    schema = Schema({"a": Categorical(JOBS), "b": Categorical(JOBS)})
    made = plan(schema, 1.0, users=9000, weights={"a": {"nurse": 33.0}})
    assert 3.0 < made.shares[0] / made.shares[1] < 3.6


def test_crossed_questions_keep_their_weights():
    # One report about a cell of the table answers all; each axis is read with a variance of its own.
    labels = ["yes", "no", "perhaps"]
    schema = Schema({name: Categorical(labels) for name in "abc"})
    made = plan(schema, 3.0, users=9000, weights={"b": {"yes": 2.0}})
    part = next(part for part in made.parts if "histogram(b)" in part.name)
    assert len(part.questions) > 1
    table = crossed(part.questions)
    assert table is not None
    place = [str(question) for question in part.questions].index("histogram(b)")
    reading: Any = table.readings(part.mechanism)[place]
    reports = 9000 * float(made.shares[made.parts.index(part)])
    unasked = 1 - reports / 9000
    none, all_ = (float(reading.variance(held)) for held in (0.0, 1.0))
    worst = max(none + h * (all_ - none) + unasked * h * (1 - h) for h in np.linspace(0, 1, 10_001))
    assert made.prediction.named == {"histogram(b)": {"yes": pytest.approx(math.sqrt(worst / reports), rel=1e-6)}}
    assert Plan.from_json(made.to_json()).prediction == made.prediction
    fives = {"b": dict.fromkeys(labels, 5.0)}
    assert plan(schema, 3.0, users=9000, weights=fives) == plan(schema, 3.0, users=9000, weights={"b": 5.0})
