"""Sums and counts: means and shares times the number of users, which is known."""

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.planning.trial import truths
from dither.questions import named, questions
from questions.population import (
    SCHEMA,
    USERS,
    check_single_reports,
    check_stored,
    check_within_six_errors,
    people,
    planned,
    tallied,
)

ASKED = "sum(income)", "count", "count(age >= 31)", "count(age >= 31 and job = 'nurse')"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("sum(income)", "sum(income)"),
        ("count", "count"),
        (" count ", "count"),
        ("count()", "count"),
        ("count( )", "count"),
        ("count(age > 30)", "count(age >= 31)"),
        ("count( age>=31 )", "count(age >= 31)"),
        ("count(job = 'nurse' and age > 30)", "count(age >= 31 and job = 'nurse')"),
    ],
)
def test_they_are_read_and_written(text, written):
    (one,) = questions(SCHEMA, [text])
    assert str(one) == written
    assert named([one], written) is one
    assert one.means(text)
    assert not one.reported


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sum(job)", "there is no such question"),
        ("sum(wealth)", "there is no such question"),
        ("sum", "there is no such question"),
        ("count(wealth > 3)", "there is no attribute 'wealth'"),
        ("count(films > 3)", "there is no attribute 'films'"),
        ("count(age >= 18)", "this one holds for everybody"),
        ("count(age)", "which is no condition, is not supported"),
    ],
)
def test_bad_questions(text, reason):
    with pytest.raises(ParameterError, match=reason):
        questions(SCHEMA, [text])


def test_a_count_of_everybody_alone_needs_no_reports():
    with pytest.raises(
        ParameterError, match="nothing has to be reported for this: ask for something that devices know"
    ):
        planned("count")
    assert [part.name for part in planned("count", "mean(age)").parts] == ["mean(age)"]


def test_truths_are_those_of_numpy():
    own, true = people(), truths(planned(*ASKED), [people()])
    assert float(true["sum(income)"][0]) == pytest.approx(own["income"].sum(), rel=1e-12)
    assert true["count"].tolist() == [USERS]
    assert true["count(age >= 31)"].tolist() == [pytest.approx(np.sum(own["age"] > 30))]
    both = (own["age"] > 30) & (own["job"] == "nurse")
    assert true["count(age >= 31 and job = 'nurse')"].tolist() == [pytest.approx(both.sum())]


def check_totals() -> None:
    """Each is the mean or the share that it rests on, times the users, with its error and its interval."""
    plan = planned(*ASKED, "mean(income)", "share(age > 30)")
    for refine in (None, "auto"):
        found = plan.estimate(tallied(plan), refine=refine)
        for total, one in (("sum(income)", "mean(income)"), ("count(age > 30)", "share(age > 30)")):
            whole, each = found.single(total), found.single(one)
            assert whole.value == pytest.approx(USERS * each.value)
            assert whole.stderr == pytest.approx(USERS * each.stderr)
            assert np.array(whole.interval()) == pytest.approx(USERS * np.array(each.interval()))
            assert f"times {USERS:,} users." in whole.explain()
            if each.original is not None:
                assert whole.original is not None
                assert whole.original.value == pytest.approx(USERS * each.original.value)
        everyone = found.single("count")
        assert (float(everyone.value), float(everyone.stderr)) == (USERS, 0.0)
        assert tuple(map(float, everyone.interval())) == (USERS, USERS)


def test_totals_are_what_they_rest_on_times_users():
    check_totals()
    check_within_six_errors(planned(*ASKED), *ASKED)


def test_more_users_than_reported():
    """Of whom those who reported are a random part: errors know that the others were not asked."""
    plan = planned(*ASKED, "mean(income)")
    tally = tallied(plan)
    some, more = plan.estimate(tally), plan.estimate(tally, users=10 * USERS)
    assert float(more.single("count").value) == 10 * USERS
    assert more.single("sum(income)").value == pytest.approx(10 * some.single("sum(income)").value, rel=1e-6)
    assert more.single("sum(income)").stderr > 10 * some.single("sum(income)").stderr
    with pytest.raises(ParameterError, match="users"):
        plan.estimate(tally, users=USERS - 1)


def test_predicted_errors_are_of_all_users():
    plan = planned("sum(income)", "mean(income)")
    assert plan.predicted["sum(income)"] == pytest.approx(USERS * plan.predicted["mean(income)"])


def test_single_reports_and_files():
    check_single_reports(planned(*ASKED))
    check_stored(planned(*ASKED))
