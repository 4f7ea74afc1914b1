"""Means in groups: one report tells the group and the number; a group's mean is a ratio, or unknown."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import dither
from dither.core.sparse_domain import row_dtype
from dither.errors import ParameterError
from dither.mechanisms.keyvalue import KeyValues
from dither.planning.trial import truths
from dither.questions import questions
from questions.population import (
    SCHEMA,
    check_single_reports,
    check_stored,
    people,
    planned,
    tallied,
)

ASKED = "mean(income by job)"


@pytest.mark.parametrize("text", [ASKED, " mean ( income  by  job ) "])
def test_it_is_read_and_written(text):
    (one,) = questions(SCHEMA, [text])
    assert str(one) == ASKED
    assert [str(base) for base in one.rests_on] == ["groups(income by job)", "group_sums(income by job)"]
    assert one.labels == ("nurse", "driver", "other", "none")
    assert one.names == ("job", "income")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mean(job by income)", r"a mean in groups is that of a number by labels, as in mean\(income by job\)"),
        ("mean(income by age)", "a mean in groups is that of a number by labels"),
        ("mean(job by sex)", "a mean in groups is that of a number by labels"),
        ("mean(films by job)", "a mean in groups is that of a number by labels"),
        ("mean(income by films)", "a mean in groups is that of a number by labels"),
        ("mean(income by wealth)", "there is no such question"),
        ("mean(income by)", "there is no such question"),
    ],
)
def test_bad_questions(text, reason):
    with pytest.raises(ParameterError, match=reason):
        questions(SCHEMA, [text])


def test_a_user_is_one_key_with_a_value():
    (one,) = planned(ASKED).parts
    table = {"job": ["driver", None, "pilot", "nurse"], "income": [200_000, 0, 100_000, None]}
    encoded = one.encode(table, 4, "substitute")
    assert encoded.dtype == row_dtype(1)
    assert encoded["key"][:, 0].tolist() == [1, 3, 2, 0]  # an unknown label is another one
    assert encoded["value"][:, 0].tolist() == [1.0, -1.0, 0.0, 0.0]


def check_truths() -> None:
    own, true = people(), truths(planned(ASKED), [people()])
    for place, job in enumerate(SCHEMA["job"].labels):  # type: ignore[arg-type]
        assert true[ASKED][place] == pytest.approx(own["income"][own["job"] == job].mean(), rel=1e-9)
        assert true["groups(income by job)"][place] == np.mean(own["job"] == job)


def check_estimates() -> None:
    """Intervals of ratios miss with probability 2e-9 and hold the truth; shares are within six errors."""
    plan, true = planned(ASKED), truths(planned(ASKED), [people()])
    for refine in (None, "auto"):
        found = plan.estimate(tallied(plan), refine=refine)
        low, high = found.single(ASKED).interval(1 - 2e-9)
        assert ((low <= true[ASKED]) & (true[ASKED] <= high)).all()
        assert (high - low < 200_000).all()
        assert (np.abs(found.single(ASKED).value - true[ASKED]) < 6 * found.single(ASKED).stderr).all()
        shares = found.single("groups(income by job)")
        own = shares if shares.original is None else shares.original
        assert (np.abs(own.value - true["groups(income by job)"]) < 6 * own.stderr).all()


def test_truths_are_those_of_numpy():
    check_truths()


def test_it_is_estimated():
    check_estimates()
    found = planned(ASKED).estimate(tallied(planned(ASKED)))
    assert "group_sums(income by job)" not in found
    assert "A mean is unknown where its group hardly stands out of the noise." in found.single(ASKED).notes


def test_a_group_of_nobody_is_unknown():
    plan = planned(ASKED, epsilon=1.0)
    table = {"job": ["nurse", "driver"] * 2000, "income": [50_000.0, 90_000.0] * 2000}
    found = plan.estimate(plan.tally(plan.randomize(table, seed=2))).single(ASKED)
    low, high = found.interval()
    assert high[3] - low[3] > 100_000  # nearly all of the domain
    assert low[0] <= 50_000 <= high[0]
    assert math.isnan(float(truths(plan, [table])[ASKED][3]))


def test_single_reports_and_files():
    check_single_reports(planned(ASKED))
    check_stored(planned(ASKED))


# What its reports tell about others -----------------------------------------------------------------------------------

SEEDS, FEW = 200, 2000
ALARM = 1e-7


def errors_in_units_of_their_own(epsilon: float) -> np.ndarray:
    """z of the mean and of the shares of groups, from reports about groups and others, over many collections.

    Values are at the ends of the domain, where a sign hides nothing: stated errors are then neither too small nor too
    large.
    """
    schema = dither.Schema({"x": dither.Ordinal(0, 1), "g": dither.Categorical(["a", "b", "c"])})
    asked = ["mean(x)", "histogram(g)", "mean(x by g)"]
    plan = dither.plan(schema, epsilon=epsilon, users=FEW, ask=asked)
    draw = np.random.default_rng(8)
    groups = draw.choice(3, FEW, p=[0.5, 0.3, 0.2])
    people = {"x": (draw.random(FEW) < 0.3 + 0.2 * groups).astype(int), "g": np.array(["a", "b", "c"])[groups]}
    truth = np.concatenate([[people["x"].mean()], np.bincount(groups) / FEW])
    found = []
    for seed in range(SEEDS):
        estimates = plan.estimate(plan.tally(plan.randomize(people, seed=seed)))
        mean, shares = estimates.single("mean(x)"), estimates.single("histogram(g)")
        assert "mean(x)" in mean.notes[-1]
        assert "group_sums(x by g)" in mean.notes[-1]
        value, stderr = (np.concatenate([[getattr(mean, of)], getattr(shares, of)]) for of in ("value", "stderr"))
        found.append((value - truth) / stderr)
    return np.array(found)


def squares_are_right(z: np.ndarray) -> bool:
    """z^2 is 1 on average, for each of four numbers; false alarm 1e-7 in all, with 2% for the plug-in."""
    low, high = (chi2(SEEDS).ppf(chance) / SEEDS for chance in (ALARM / 8, 1 - ALARM / 8))
    squares = (z**2).mean(axis=0)
    return bool(((squares >= 0.98 * low) & (squares <= 1.02 * high)).all())


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_reports_about_groups_tell_the_mean_and_the_shares(epsilon):
    assert squares_are_right(errors_in_units_of_their_own(epsilon))


def test_errors_of_groups_taken_to_be_independent_are_noticed(monkeypatch):
    own: Any = KeyValues.covariance_of_keys
    monkeypatch.setattr(KeyValues, "covariance_of_keys", lambda *given: np.diag(np.diag(own(*given))))
    assert not squares_are_right(errors_in_units_of_their_own(4.0))
