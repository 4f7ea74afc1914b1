"""Covariances and correlations of two numbers: what a device multiplies, and where nothing can be said."""

import math

import numpy as np
import pytest

from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError
from dither.planning.trial import truths
from dither.questions import named, questions
from dither.questions.correlations import CorrelationOf, CovarianceOf, ProductOf
from dither.questions.question import CollectedUsers, Question
from dither.schema import Numeric
from questions.population import (
    SCHEMA,
    check_single_reports,
    check_stored,
    check_within_six_errors,
    people,
    planned,
    tallied,
)

ASKED = "covariance(age, income)", "correlation(age, income)"
BOTH = Numeric(0, 20), Numeric(-3, 3)


@pytest.mark.parametrize(
    "text", ["correlation(age, income)", " correlation ( income,age ) ", "correlation(income, age)"]
)
def test_neither_spaces_nor_the_order_matter(text):
    (one,) = questions(SCHEMA, [text])
    assert str(one) == "correlation(age, income)"
    assert one.means(text)
    assert named([one], "correlation(income,age)") is one
    assert not one.means("covariance(age, income)")
    assert not one.means("correlation(age, income")


@pytest.mark.parametrize(
    "ask",
    [
        ["covariance(age, income)", "covariance(income, age)"],
        ["correlation(age, income)", "correlation(age,income)"],
    ],
)
def test_each_is_asked_once(ask):
    with pytest.raises(ParameterError, match="each only once"):
        questions(SCHEMA, ask)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("correlation(age)", r"correlation is of two different numbers, as in correlation\(age, income\)"),
        ("correlation(age, age)", "correlation is of two different numbers"),
        ("covariance(age, job)", "covariance is of two different numbers"),
        ("covariance(age, films)", "covariance is of two different numbers"),
        ("correlation(age, income, sex)", "correlation is of two different numbers"),
        ("correlation(age, wealth)", "there is no such question"),
        ("correlation()", "there is no such question"),
        ("correlation", "there is no such question"),
    ],
)
def test_bad_questions(text, reason):
    with pytest.raises(ParameterError, match=reason):
        questions(SCHEMA, [text])


def test_the_product_of_two_is_asked_once_in_whatever_order():
    plan = planned("covariance(income, age)", "correlation(age, income)")
    parts = sorted(part.name for part in plan.parts)
    assert parts == ["mean(age)", "mean(income)", "product(age, income)", "square(age)", "square(income)"]


def test_products_are_those_of_the_distances_from_the_middles():
    question = ProductOf("x, y", BOTH)
    x, y = [0, 20, 5, 15, None, 99], [-3, -3, 1.5, "x", 0.3, 99]
    first, second = (column.encode(own, "substitute") for column, own in zip(question.columns, (x, y), strict=True))
    product = question.join([first, second])
    centred = [(np.clip(10 if a is None else a, 0, 20) - 10) for a in x], [-3, -3, 1.5, 0, 0.3, 3]
    assert question.origin + question.unit * product == pytest.approx(np.prod(centred, axis=0))
    assert question.ends == (-30.0, 30.0)


def test_truths_are_those_of_numpy():
    own = people()
    true = truths(planned(*ASKED), [own])
    assert float(true[ASKED[0]][0]) == pytest.approx(np.cov(own["age"], own["income"], bias=True)[0, 1], rel=1e-9)
    assert float(true[ASKED[1]][0]) == pytest.approx(np.corrcoef(own["age"], own["income"])[0, 1], rel=1e-9)


def test_it_is_estimated():
    plan = planned(*ASKED)
    check_within_six_errors(plan, *ASKED)
    check_within_six_errors(plan, *ASKED, refine="auto")
    found = plan.estimate(tallied(plan))
    assert found["correlation(income,age)"] is found["correlation(age, income)"]
    assert 0 < found.single(ASKED[1]).value <= 1
    assert not any(name.startswith(("product", "square")) for name in found)


def test_single_reports_and_files():
    check_single_reports(planned(*ASKED))
    check_stored(planned(*ASKED))


def derived(kind: type[CovarianceOf], values: list[float], error: float) -> Estimate:
    """From what it rests on, in units of mechanisms."""
    question = kind("x, y", BOTH)
    found: dict[Question, Estimate] = {
        each: each.decode(Estimate(np.asarray(value), np.asarray(error), 50, Guarantee(1.0)))
        for each, value in zip(question.rests_on, values, strict=True)
    }
    return question.derive(found, CollectedUsers(1000, Guarantee(1.0), found))


def test_units():
    """Means of 0.1 and -0.2, a mean product of 0.1: covariance 0.12 x 10 x 3; variances of 0.3 and 0.2 besides."""
    assert float(derived(CovarianceOf, [0.1, 0.1, -0.2], 0.01).value) == pytest.approx(3.6)
    squares = [2 * (0.3 + 0.01) - 1, 2 * (0.2 + 0.04) - 1]
    assert float(derived(CorrelationOf, [0.1, 0.1, -0.2, *squares], 0.01).value) == pytest.approx(
        0.12 / math.sqrt(0.06)
    )


@pytest.mark.parametrize("kind", [CovarianceOf, CorrelationOf])
def test_the_standard_error_is_that_of_the_function(kind):
    """By simulation of normal bases: of 200,000 draws a standard deviation has a relative error of 0.16%, 2% is 12."""
    values = [0.1, 0.1, -0.2, -0.38, -0.52][: 3 if kind is CovarianceOf else 5]
    question, draw = kind("x, y", BOTH), np.random.default_rng(1)
    drawn = np.array(values) + 1e-3 * draw.normal(size=(200_000, len(values)))
    spread = question.unit * question.function(drawn).std()
    assert float(derived(kind, values, 1e-3).stderr) == pytest.approx(spread, rel=0.02)


def test_where_a_number_may_not_vary_nothing_is_known():
    found = derived(CorrelationOf, [0.02, 0.1, 0.2, 2 * 0.01 - 1, -0.5], 0.05)  # the first has no variance
    assert math.isnan(float(found.value))
    assert float(found.stderr) == math.inf
    assert tuple(map(float, found.interval())) == (-1.0, 1.0)
    assert found.notes[-1] == "Unknown: the reports leave it open whether both numbers vary at all."
    few = derived(CorrelationOf, [0.1, 0.1, -0.2, -0.38, -0.52], 0.2)  # varies, but for all that is known it may not
    assert math.isfinite(float(few.value))
    assert tuple(map(float, few.interval())) == (-1.0, 1.0)


def test_it_is_at_most_one():
    found = derived(CorrelationOf, [0.305, 0.0, 0.0, -0.4, -0.4], 0.01)  # the product is larger than it can be
    assert float(found.value) == 1.0
    low, high = found.interval()
    assert (0.9 < low < 1, float(high)) == (True, 1.0)
    for product in (0.305, 0.4):  # its error does not end there
        assert float(derived(CorrelationOf, [product, 0.0, 0.0, -0.4, -0.4], 0.01).stderr) > 0.03
