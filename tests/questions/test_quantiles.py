"""Medians and quantiles: read off the shares below thresholds, with intervals that end at thresholds."""

import math

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.planning.trial import truths
from dither.questions import named, questions
from questions.population import (
    SCHEMA,
    check_single_reports,
    check_stored,
    people,
    planned,
    tallied,
)

ASKED = "median(age)", "quantile(income, 0.9)", "quantile(age, 0.1)"
USAGE = r"a quantile is asked for a share between 0 and 1, as in quantile\(income, 0.9\)"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("median(age)", "median(age)"),
        (" median ( age ) ", "median(age)"),
        ("quantile(income, 0.9)", "quantile(income, 0.9)"),
        ("quantile( income ,.90)", "quantile(income, 0.9)"),
        ("quantile(age, 1e-3)", "quantile(age, 0.001)"),
    ],
)
def test_they_are_read_and_written(text, written):
    (one,) = questions(SCHEMA, [text])
    assert str(one) == written
    assert named([one], written) is one
    assert questions(SCHEMA, [written]) == (one,)
    assert [str(base) for base in one.rests_on] == [f"cumulative({one.name})"]


@pytest.mark.parametrize("share", ["0", "1", "-0.5", "1.5", "nan", "inf", "x", "", "90%"])
def test_shares_outside_of_0_and_1(share):
    with pytest.raises(ParameterError, match=USAGE):
        questions(SCHEMA, [f"quantile(income, {share})"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("quantile(income)", USAGE),
        ("quantile(job, 0.5)", "there is no such question"),
        ("quantile(wealth, 0.5)", "there is no such question"),
        ("median(job)", "there is no such question"),
        ("median(films)", "there is no such question"),
        ("median(age, 0.5)", "there is no such question"),
        ("median", "there is no such question"),
    ],
)
def test_bad_questions(text, reason):
    with pytest.raises(ParameterError, match=reason):
        questions(SCHEMA, [text])


def test_several_of_one_attribute_rest_on_one_curve():
    plan = planned("median(age)", "quantile(age, 0.1)", "quantile(age, 0.5)")
    assert [part.name for part in plan.parts] == ["cumulative(age)"]
    with pytest.raises(ParameterError, match="each only once"):
        questions(SCHEMA, ["quantile(age, 0.5)", "quantile(age, .50)"])


def check_truths() -> None:
    """The least value with so many users up to it, as NumPy's inverted_cdf; of numbers, to a part in 65,536."""
    own, true = people(), truths(planned(*ASKED), [people()])
    assert float(true["median(age)"][0]) == np.quantile(own["age"], 0.5, method="inverted_cdf")
    assert float(true["quantile(age, 0.1)"][0]) == np.quantile(own["age"], 0.1, method="inverted_cdf")
    exact = np.quantile(own["income"], 0.9, method="inverted_cdf")
    assert float(true["quantile(income, 0.9)"][0]) == pytest.approx(exact, abs=200_000 / 65_536)


def check_estimates() -> None:
    """Intervals that miss with probability 2e-9 hold the truth, and values are within six errors or one cell of it."""
    plan = planned(*ASKED)
    true = truths(plan, [people()])
    for refine in (None, "auto"):
        found = plan.estimate(tallied(plan), refine=refine)
        for name in ASKED:
            result, cell = found.single(name), 1.0 if "age" in name else 200_000 / 32
            low, high = map(float, result.interval(1 - 2e-9))
            assert low <= true[name][0] <= high, name
            assert low <= result.value <= high
            assert abs(float(result.value) - true[name][0]) <= 6 * float(result.stderr) + cell, name


def test_truths_are_those_of_numpy():
    check_truths()


def test_it_is_estimated():
    check_estimates()
    plan = planned(*ASKED)
    found = plan.estimate(tallied(plan))
    curve = found.cumulative("income")
    assert float(found.single("quantile(income, 0.9)").value) == float(curve.quantile(0.9))
    low, high = found.single("quantile(income, 0.9)").interval()
    ends = {0.0, 200_000.0, *curve.finest.thresholds.tolist()}
    assert {float(low), float(high)} <= ends
    assert "whatever the distribution is" in found.single("median(age)").explain()


def test_a_larger_share_has_a_larger_value():
    plan = planned("quantile(age, 0.1)", "median(age)", "quantile(age, 0.9)")
    found = plan.estimate(tallied(plan))
    values = [float(found.single(name).value) for name in ("quantile(age, 0.1)", "median(age)", "quantile(age, 0.9)")]
    assert values == sorted(values)
    assert values[0] < values[1] < values[2]


def test_single_reports_and_files():
    check_single_reports(planned(*ASKED))
    check_stored(planned(*ASKED))


def test_nobody_was_asked():
    plan = planned("median(age)", "mean(income)", "histogram(job)")
    record = {"age": 30, "income": 5.0, "job": "nurse"}
    for seed in range(50):
        tally = plan.tally(plan.report(record, seed=seed))
        if tally.parts["cumulative(age)"].n == 0:
            found = plan.estimate(tally, refine="auto").single("median(age)")
            assert (math.isnan(float(found.value)), float(found.stderr), found.n) == (True, math.inf, 0)
            assert tuple(map(float, found.interval())) == (18.0, 99.0)
            return
    pytest.fail("somebody was always asked")
