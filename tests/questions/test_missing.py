"""Who gave no answer is counted beside a histogram whose schema has a label for it."""

import numpy as np
import pytest

import dither
from dither.planning.trial import truths
from dither.questions import questions

SCHEMA = dither.Schema(
    {
        "job": dither.Categorical(["nurse", "driver", "other", "unknown"], missing="unknown"),
        "town": dither.Categorical(["A", "B"]),
    }
)


@pytest.fixture(scope="module")
def plan():
    return dither.plan(SCHEMA, 3.0, users=20_000)


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(2)
    return {
        "job": [None if gone else "nurse" for gone in draw.random(20_000) < 0.3],
        "town": draw.choice(["A", "B"], 20_000).tolist(),
    }


def test_the_share_of_the_label_is_its_own_result(plan, people):
    found = plan.estimate(plan.tally(plan.randomize(people, seed=1)))
    assert list(found) == ["histogram(job)", "missing(job)", "histogram(town)", "table(job, town)"]
    histogram, missing = found.single("histogram(job)"), found.single("missing(job)")
    assert (missing.value, missing.stderr) == (histogram.value[3], histogram.stderr[3])
    assert np.shape(missing.value) == ()
    true = truths(plan, [people])
    assert true["missing(job)"].tolist() == [true["histogram(job)"][3]]
    assert abs(missing.value - true["missing(job)"][0]) < 6 * missing.stderr  # a false alarm has probability 2e-9
    assert "missing(town)" not in true


def test_it_stays_as_it_was_estimated(plan, people):
    tally = plan.tally(plan.randomize(people, seed=1))
    raw, refined = plan.estimate(tally), plan.estimate(tally, refine="auto")
    assert refined.single("missing(job)").value == raw.single("missing(job)").value


def test_it_comes_with_the_histogram_and_is_not_asked():
    with pytest.raises(dither.errors.ParameterError, match=r"missing\(job\) comes with histogram\(job\)"):
        questions(SCHEMA, ["missing(job)"])
    with pytest.raises(dither.errors.ParameterError, match="no such question"):
        questions(SCHEMA, ["missing(town)"])
