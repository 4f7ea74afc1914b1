"""A question that is added as one file is planned, predicted, estimated, refined, tabled, drawn and put on the page.

`above.py` is that file; nothing in `src` knows it. Its number is compared with the truth to six stated errors: under a
normal law that alarms with probability 2e-9 a collection, and seeds are fixed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import dither
from dither.page.html_page import html_page
from dither.planning.trial import truths
from dither.questions import named, questions, register, restored
from questions.above import AboveOf

SCHEMA = dither.Schema(
    {
        "income": dither.Numeric(0, 100),
        "age": dither.Ordinal(0, 99),
        "job": dither.Categorical(["nurse", "driver", "other"]),
    }
)
ASKED = "above(income, 60)"
USERS = 60_000


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Known in this file alone."""
    with restored():
        register(AboveOf)
        yield
    with pytest.raises(dither.errors.ParameterError, match="no such question"):
        questions(SCHEMA, [ASKED])


@pytest.fixture(scope="module")
def plan():
    return dither.plan(SCHEMA, 2.0, users=USERS, ask=[ASKED, "above(age, 29)", "mean(income)", "histogram(job)"])


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(7)
    return {
        "income": draw.beta(2, 2, USERS) * 100,
        "age": draw.integers(0, 100, USERS),
        "job": draw.choice(["nurse", "driver", "other"], USERS),
    }


@pytest.fixture(scope="module")
def tally(plan, people):
    return plan.tally(plan.randomize(people, seed=3))


def test_it_is_read_and_written():
    (one,) = questions(SCHEMA, [ASKED])
    assert one == AboveOf("income", SCHEMA["income"], 60.0)
    assert str(one) == ASKED
    assert named([one], ASKED) is one
    with pytest.raises(dither.errors.ParameterError, match="no such question"):
        questions(SCHEMA, ["above(job, 3)"])
    with pytest.raises(dither.errors.ParameterError, match=r"this schema answers mean\(income\).*above\(income, 50\)"):
        questions(dither.Schema({"income": SCHEMA["income"]}), ["mode(income)"])


def test_what_is_not_a_question_is_not_registered():
    for wrong in (int, dither.questions.Question, "above"):
        with pytest.raises(dither.errors.ParameterError, match="register takes a class of questions"):
            register(wrong)  # type: ignore[arg-type]


def test_two_thresholds_of_one_attribute_are_two_questions():
    both = questions(SCHEMA, ["above(income, 10)", "above(income, 20)"])
    assert len(both) == 2
    with pytest.raises(dither.errors.ParameterError, match="each only once"):
        questions(SCHEMA, ["above(income, 10)", "above(income, 10.0)"])


def test_it_is_planned_and_stored(plan):
    assert ASKED in plan.table().columns["question"]
    again = dither.Plan.from_json(plan.to_json())
    assert again == plan
    assert again.fingerprint == plan.fingerprint
    assert ASKED in repr(plan)


def test_its_error_is_predicted(plan):
    """A binary answer with probabilities p and q: variance q (1 - q) / (p - q)^2 for each of those who are asked."""
    part = next(part for part in plan.parts if part.name == ASKED)
    share = plan.shares[plan.parts.index(part)]
    variance = part.mechanism.reading.worst_variance(share)
    assert plan.predicted[ASKED] == pytest.approx(math.sqrt(variance / (USERS * share)))
    assert 0 < plan.prediction.limit < plan.rmse


def test_it_is_estimated_and_refined(plan, people, tally):
    found, true = plan.estimate(tally), truths(plan, [people])
    for asked, value in ((ASKED, np.mean(people["income"] > 60)), ("above(age, 29)", np.mean(people["age"] > 29))):
        assert float(true[asked][0]) == value
        assert np.shape(found[asked].value) == ()
        assert abs(found[asked].value - value) < 6 * found[asked].stderr
        assert found[asked].stderr < 1.5 * plan.predicted[asked]
    better = plan.estimate(tally, refine="auto")[ASKED]
    assert abs(better.value - true[ASKED][0]) < 6 * found[ASKED].stderr
    assert better.original is not None


def test_nobody_was_asked(plan):
    tally = plan.tally(plan.randomize({"income": [1], "age": [2], "job": ["nurse"]}, seed=1))
    assert tally.parts[ASKED].n == 0
    found = plan.estimate(tally, refine="auto")[ASKED]
    assert (math.isnan(float(found.value)), float(found.stderr)) == (True, math.inf)


def test_it_is_on_the_page(plan, people, tally):
    page = html_page(plan, plan.estimate(tally, refine="auto"), truth=truths(plan, [people]))
    assert "share above a threshold" in page
    assert page.count(ASKED) >= 3  # its card, its error, its mechanism
    assert "%" in page.split("share above a threshold")[1].split("</article>")[0]


def test_a_mistake_in_it_is_seen(monkeypatch, plan, people, tally):
    real = AboveOf.select

    def below(self, own, place, count):
        found = real(self, own, place, count)
        return replace(found, value=1 - found.value)

    monkeypatch.setattr(AboveOf, "select", below)
    with pytest.raises(AssertionError):
        test_it_is_estimated_and_refined(plan, people, tally)
