"""Cross tables that are asked for by themselves."""

import numpy as np
import pytest

import dither
from dither import Ordinal, ProjectiveGeometry, Schema
from dither.errors import ParameterError
from dither.planning.trial import truths
from dither.questions import named, questions
from questions.population import (
    SCHEMA,
    check_single_reports,
    check_stored,
    check_within_six_errors,
    people,
    planned,
    tallied,
)

ASKED = "table(job, sex)"
LARGE = Schema({"a": Ordinal(0, 299), "b": Ordinal(0, 299)})


@pytest.mark.parametrize("text", [ASKED, "table(job,sex)", " table ( job , sex ) "])
def test_it_is_read_and_written(text):
    (one,) = questions(SCHEMA, [text])
    assert str(one) == ASKED
    assert named([one], text) is one
    assert not one.means("table(sex, job)")
    assert one.shape == (4, 2)
    assert one.labels is not None
    assert one.labels[:3] == ("nurse, f", "nurse, m", "driver, f")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("table(job)", r"a table is of two to 3 different attributes with one value a user, as in table\(job, sex\)"),
        ("table(job, sex, age, income)", "a table is of two to 3 different attributes"),
        ("table(job, job)", "a table is of two to 3 different attributes"),
        ("table(job, films)", "a table is of two to 3 different attributes"),
        ("table(job, wealth)", "there is no such question"),
        ("table()", "there is no such question"),
        ("table", "there is no such question"),
    ],
)
def test_bad_questions(text, reason):
    with pytest.raises(ParameterError, match=reason):
        questions(SCHEMA, [text])


def test_too_many_cells():
    with pytest.raises(ParameterError, match=r"table\(a, b\) has 90,000 cells, and a table has at most 65,536"):
        questions(LARGE, ["table(a, b)"])


def test_cells_are_numbered_as_ravel_does():
    (table,) = questions(SCHEMA, ["table(age, income, sex)"])
    assert table.shape == (82, 32, 2)
    columns = {"age": [18, 99, 20, None], "income": [0, 200_000, 6250, 100_000], "sex": ["m", "f", "m", "x"]}
    codes = [column.encode(columns[column.name], "substitute") for column in table.columns]
    assert table.join(codes).tolist() == np.ravel_multi_index(tuple(codes), table.shape).tolist()
    assert table.join(codes)[:3].tolist() == [1, 81 * 64 + 31 * 2, 2 * 64 + 1 * 2 + 1]


def test_truths_are_those_of_numpy():
    own, true = people(), truths(planned(ASKED), [people()])[ASKED].reshape(4, 2)
    jobs, sexes = ("nurse", "driver", "other", "none"), ("f", "m")
    expected = [[np.mean((own["job"] == job) & (own["sex"] == sex)) for sex in sexes] for job in jobs]
    assert true.tolist() == expected


def test_it_is_estimated():
    plan = planned(ASKED, "table(age, sex)")
    check_within_six_errors(plan, ASKED, "table(age, sex)")
    found = plan.estimate(tallied(plan))
    assert found.single(ASKED).value.shape == (4, 2)
    assert found.single("table(job,sex)") is found.single(ASKED)
    better = plan.estimate(tallied(plan), refine="auto").single(ASKED)
    assert better.value.shape == (4, 2)


def test_single_reports_and_files():
    check_single_reports(planned(ASKED, "table(age, income, job)"))
    check_stored(planned(ASKED, "table(age, income, job)"))


def test_a_mechanism_that_reads_no_axis_tells_nothing_about_one():
    """It is no reason to refuse a plan: others may ask for the axis, and the table is estimated as it is."""
    (table,) = questions(SCHEMA, ["table(age, sex)"])
    law = ProjectiveGeometry(k=164, epsilon=1.0)
    assert law.along(table.shape, (0,)) is None
    assert table.variance_of_shares("sex", 2, law, 0.5) is None
    tally = law.tally(law.randomize(np.arange(164), seed=1))
    own = table.select(law.estimate(tally), 0, 1)
    assert list(table.tells(law, tally, own, 164)) == []


def test_a_plan_that_tries_such_a_mechanism():
    asked = [
        "mean(age)",
        "distribution(age)",
        "share(age > 30)",
        "table(age, job)",
        "histogram(job)",
        "cumulative(age)",
    ]
    more = ["variance(age)", "mean(income)", "distribution(income)", "share(income > 90000)"]
    schema = Schema({"age": Ordinal(18, 33), "income": SCHEMA["income"], "job": SCHEMA["job"]})
    made = dither.plan(schema, 1.0, users=30_000, ask=[*asked, *more])
    assert "table(age, job)" in [part.name for part in made.parts]
