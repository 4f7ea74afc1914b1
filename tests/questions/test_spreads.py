"""Variances and standard deviations: from the text to a result with an interval, and where nothing can be said."""

import math

import numpy as np
import pytest

import dither
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError
from dither.planning.trial import truths
from dither.questions import questions
from dither.questions.means import MeanOf
from dither.questions.question import CollectedUsers, Question
from dither.questions.spreads import SquareOf, StdOf, VarianceOf
from dither.schema import Numeric, Ordinal
from questions.population import (
    SCHEMA,
    check_single_reports,
    check_stored,
    check_within_six_errors,
    people,
    planned,
    tallied,
)

ASKED = "variance(income)", "std(income)", "variance(age)", "std(age)"


def collected(found: dict[Question, Estimate]) -> CollectedUsers:
    return CollectedUsers(1000, Guarantee(1.0), found)


@pytest.mark.parametrize("text", ASKED)
def test_they_are_read_and_written(text):
    (one,) = questions(SCHEMA, [text])
    assert str(one) == text
    assert one.means(text)
    assert not one.reported
    assert [str(base) for base in one.rests_on] == [f"mean({one.name})", f"square({one.name})"]


@pytest.mark.parametrize("text", ["variance(job)", "std(films)", "variance(wealth)", "std()", "variance", "std(age"])
def test_bad_questions(text):
    with pytest.raises(ParameterError, match="there is no such question; this schema answers"):
        questions(SCHEMA, [text])


@pytest.mark.parametrize("attribute", [Numeric(0, 200), Numeric(-7, 3, missing=-7), Ordinal(18, 99), Ordinal(0, 1)])
def test_squares_are_those_of_the_distance_from_the_middle(attribute):
    """Also of what does not fit, and one by one as in a column."""
    values = [attribute.low, attribute.high, attribute.low + 1, None, 10**6, -(10**6), "x", math.nan]
    question, mean = SquareOf("x", attribute), MeanOf("x", attribute)
    encoded = question.encode(values, "substitute")
    places = mean.encode(values, "substitute")
    assert encoded == pytest.approx(2 * places**2 - 1)
    assert [question.encode_value(value) for value in values] == encoded.tolist()
    assert encoded[:2].tolist() == [1.0, 1.0]
    units = question.origin + question.unit * encoded
    assert units == pytest.approx((attribute.half_width * places) ** 2)
    assert question.ends == (0.0, pytest.approx(attribute.half_width**2))


def test_truths_are_those_of_numpy():
    plan, own = planned(*ASKED), people()
    true = truths(plan, [own])
    assert float(true["variance(income)"][0]) == pytest.approx(np.var(own["income"]), rel=1e-9)
    assert float(true["std(income)"][0]) == pytest.approx(np.std(own["income"]), rel=1e-9)
    assert float(true["variance(age)"][0]) == pytest.approx(np.var(own["age"]), rel=1e-9)
    halves = [{name: column[part::2] for name, column in own.items()} for part in range(2)]
    assert truths(plan, halves) == true


def test_what_two_rest_on_is_asked_once():
    plan = planned(*ASKED)
    assert sorted(part.name for part in plan.parts) == ["mean(age)", "mean(income)", "square(age)", "square(income)"]
    assert "square(income)" not in plan.estimate(tallied(plan))
    assert "square(income)" not in map(str, plan.questions)


def test_it_is_estimated():
    plan = planned(*ASKED)
    check_within_six_errors(plan, *ASKED)
    check_within_six_errors(plan, *ASKED, refine="auto")
    found = plan.estimate(tallied(plan))
    for name in ASKED:
        low, high = found.single(name).interval()
        assert 0 <= low < found.single(name).value < high
        assert found.single(name).stderr < 3 * plan.predicted[name]
        assert found.single(name).notes[0].startswith("Worked out from mean(")
    assert found.single("std(age)").value == pytest.approx(math.sqrt(float(found.single("variance(age)").value)))


def test_single_reports_and_files():
    check_single_reports(planned(*ASKED))
    check_stored(planned(*ASKED))


def base(question: MeanOf, value: float, error: float, n: int = 100) -> Estimate:
    """An estimate of what a spread rests on, in units of a mechanism, decoded."""
    return question.decode(Estimate(np.asarray(value), np.asarray(error), n, Guarantee(1.0)))


def spread(kind: type[VarianceOf], mean: float, square: float, error: float) -> Estimate:
    question = kind("x", Numeric(0, 20))
    one, other = question.rests_on
    found: dict[Question, Estimate] = {one: base(one, mean, error), other: base(other, square, error)}
    return question.derive(found, collected(found))


def test_units():
    """t has mean 0.1 and u = 2 t^2 - 1 mean -0.5: the variance is 0.25 - 0.01, times 10^2."""
    assert float(spread(VarianceOf, 0.1, -0.5, 0.01).value) == pytest.approx(24.0)
    assert float(spread(StdOf, 0.1, -0.5, 0.01).value) == pytest.approx(math.sqrt(24.0))


@pytest.mark.parametrize("kind", [VarianceOf, StdOf])
def test_the_standard_error_is_that_of_the_function(kind):
    """Where a function hardly bends, its slopes give its error; by simulation of normal bases, too.

    Of 200,000 draws an empirical standard deviation has a relative error of 0.16%: 2% is 12 of these.
    """
    found = spread(kind, 0.3, -0.2, 1e-3)
    draw = np.random.default_rng(1)
    bases = np.array([0.3, -0.2]) + 1e-3 * draw.normal(size=(200_000, 2))
    question = kind("x", Numeric(0, 20))
    assert float(found.stderr) == pytest.approx(question.unit * question.function(bases).std(), rel=0.02)


def test_a_variance_has_no_negative_end():
    found = spread(VarianceOf, 0.5, -0.5, 0.02)  # exactly zero
    low, high = found.interval()
    assert (float(found.value), float(low)) == (0.0, 0.0)
    assert 0 < high < 10
    below = spread(VarianceOf, 0.5, -0.6, 0.02)
    assert float(below.value) == 0.0


@pytest.mark.parametrize("kind", [VarianceOf, StdOf])
@pytest.mark.parametrize("square", [-0.5, -0.52, -0.6])
def test_an_estimate_at_the_end_has_an_error_all_the_same(kind, square):
    """Of a variance of zero and below: its error is that of what it rests on, half of the one and all of the other."""
    found = spread(kind, 0.5, square, 0.02)
    assert float(found.value) == 0.0
    assert float(spread(VarianceOf, 0.5, square, 0.02).stderr) == pytest.approx(
        100 * 0.02 * math.hypot(1, 0.5), rel=0.05
    )
    assert float(found.stderr) > 0.5


def test_nobody_was_asked():
    question = VarianceOf("x", Numeric(0, 20))
    one, other = question.rests_on
    bases: dict[Question, Estimate] = {one: base(one, 0.0, 0.1), other: base(other, 0.0, 0.1, n=0)}
    found = question.derive(bases, collected(bases))
    assert (math.isnan(float(found.value)), float(found.stderr), found.n) == (True, math.inf, 0)
    assert tuple(map(float, found.interval())) == (0.0, 100.0)
    plan = planned(*ASKED)
    few = plan.estimate(plan.tally(plan.randomize({"age": [30], "income": [5.0]}, seed=1)), refine="auto")
    assert math.isnan(float(few.single("std(age)").value))


def test_its_error_is_predicted_for_evenly_spread_numbers():
    plan = planned("variance(income)")
    assert "predicted is the error for users like those of the prior" in plan.explain()
    known = dither.plan(SCHEMA, 4.0, users=40_000, ask=["variance(income)"], prior={"income": "normal(100000, 9000)"})
    assert known.predicted["variance(income)"] < plan.predicted["variance(income)"]
