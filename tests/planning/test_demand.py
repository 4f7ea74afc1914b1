"""What is asked for, as what reports must tell: each once, and with the importance of all that rest on it."""

import math
import warnings
from collections.abc import Mapping

import numpy as np
import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.planning.demand import demanded, measured
from dither.questions import Question, questions
from dither.utility.population import Population

SCHEMA = Schema(
    {
        "age": Ordinal(0, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(["nurse", "driver", "other"]),
        "films": KeyValue(["Alien", "Heat"], size=1),
    }
)


def asked(**weights: float) -> dict[Question, float]:
    named = {name.replace("_of_", "(") + ")": weight for name, weight in weights.items()}
    return dict(zip(questions(SCHEMA, list(named)), named.values(), strict=True))


def by_text(importance: Mapping[Question, float]) -> dict[str, float]:
    return {str(question): weight for question, weight in importance.items()}


def test_what_reports_answer_is_asked_as_it_is():
    found = demanded(asked(mean_of_age=2.0, histogram_of_job=3.0), {})
    assert by_text(found.importance) == {"mean(age)": 2.0, "histogram(job)": 3.0}
    assert (found.derived, found.total, found.alone) == ((), 5.0, frozenset())


def test_slopes_of_a_variance():
    """By the square 1/2, by the mean -2 times itself, which is believed to be a quarter: squared, 1/4 each."""
    found = demanded(asked(variance_of_income=1.0), {})
    assert by_text(found.importance) == {
        "mean(income)": pytest.approx(0.25, rel=1e-6),
        "square(income)": pytest.approx(0.25, rel=1e-6),
    }
    assert [str(each) for each in found.derived] == ["variance(income)"]
    assert {str(each) for each in found.alone} == {"mean(income)", "square(income)"}


def test_what_several_rest_on_has_the_importance_of_all():
    found = by_text(demanded(asked(mean_of_income=3.0, sum_of_income=2.0, variance_of_income=4.0), {}).importance)
    assert found["mean(income)"] == pytest.approx(3.0 + 2.0 + 4.0 * 0.25)


def test_what_hardly_matters_is_asked_all_the_same():
    (mean, variance) = questions(SCHEMA, ["mean(income)", "variance(income)"])
    base = variance.rests_on
    centred = {base[0]: Population(np.array([0.0]), np.array([1.0]))}
    found = by_text(demanded({variance: 1.0}, centred).importance)
    assert 0 < found["mean(income)"] < 0.02 * found["square(income)"]
    assert str(mean) in found


def test_each_is_measured_once():
    found = measured(questions(SCHEMA, ["variance(income)", "std(income)", "mean(income)", "median(age)", "count"]))
    assert [str(each) for each in found] == ["mean(income)", "square(income)", "cumulative(age)"]


def test_derived_ones_keep_numbers_out_of_pairs():
    """How the errors of two numbers from one report go together is not known, and a function of both needs it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paired = dither.plan(SCHEMA, 2.0, users=10_000, ask=["mean(age)", "mean(income)"])
        apart = dither.plan(SCHEMA, 2.0, users=10_000, ask=["mean(age)", "mean(income)", "covariance(age, income)"])
    assert any("means in pairs" in way for way in paired.prediction.compared)
    assert not any("means in pairs" in way for way in apart.prediction.compared)
    assert all(len(part.questions) == 1 for part in apart.parts)


def test_predictions_follow_from_those_of_what_it_rests_on():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = dither.plan(SCHEMA, 2.0, users=10_000, ask=["variance(income)", "sum(income)", "count", "top(films, 1)"])
    own, unit = plan.predicted, 100_000.0
    assert own["count"] == 0
    assert own["sum(income)"] == pytest.approx(10_000 * own["mean(income)"])
    assert own["top(films, 1)"] == own["presence(films)"]
    variance = unit**2 * math.hypot(0.5 * own["mean(income)"] / unit, 0.5 * own["square(income)"] / (unit**2 / 2))
    assert own["variance(income)"] == pytest.approx(variance, rel=1e-6)
    assert plan.prediction.limit == 0
