"""A rehearsed collection has the errors that were predicted, and other repetitions have other errors.

Mean squares of 40 repetitions are compared with their predictions: of the worst users, whose variance is that of every
user here. The sum of squares over its variance is chi-square with at least 40 degrees of freedom if every number is
normal, and its quantiles at 1e-7 are the limits; seeds are fixed.
"""

import numpy as np
import pytest
from scipy.stats import chi2

import dither
from dither import Categorical, KeyValue, Numeric, Schema

SCHEMA = Schema({"job": Categorical(["a", "b", "c", "d"]), "x": Numeric(-1, 1), "films": KeyValue(12, size=1)})
USERS, TIMES = 4_000, 40


@pytest.fixture(scope="module")
def plan():
    return dither.plan(SCHEMA, 4.0, users=USERS, ask=["histogram(job)", "mean(x)", "presence(films)", "ranges(job, x)"])


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(5)
    return {
        "job": draw.choice(list("abcd"), USERS).tolist(),
        "x": np.where(draw.random(USERS) < 0.5, -1.0, 1.0),
        "films": [{int(key): 1.0} for key in draw.integers(0, 4, USERS)],
    }


@pytest.fixture(scope="module")
def found(plan, people):
    return plan.simulate(people, TIMES, seed=3)


def test_errors_are_those_predicted(plan, found):
    for name in ("histogram(job)", "mean(x)"):
        assert found.errors[name].shape == (TIMES, {"histogram(job)": 4, "mean(x)": 1}[name])
        squares = float(np.sum((found.errors[name][:, 0] / plan.predicted[name]) ** 2))
        assert chi2.ppf(1e-7, TIMES) < squares < chi2.isf(1e-7, TIMES), name


def test_wrong_predictions_are_seen(plan, found):
    squares = float(np.sum((found.errors["mean(x)"][:, 0] / (3 * plan.predicted["mean(x)"])) ** 2))
    assert squares < chi2.ppf(1e-7, TIMES)


def test_repetitions_differ_and_can_be_repeated(plan, people, found):
    again = plan.simulate(people, 2, seed=3)
    for name, errors in again.errors.items():
        assert (errors == found.errors[name][:2]).all()
        assert (errors[0] != errors[1]).any()
    other = plan.simulate(people, 1, seed=4)
    assert (other.errors["mean(x)"][0] != found.errors["mean(x)"][0]).any()


def test_it_is_told_in_a_table_in_words_and_in_a_picture(plan, found, tmp_path):
    told = found.table().columns
    assert told["question"] == ["histogram(job)", "mean(x)", "presence(films)"]  # ranges have no single truth
    assert told["predicted"] == [plan.predicted[name] for name in told["question"]]
    order = [told[name] for name in ("lucky (1 of 20)", "usual", "unlucky (1 of 20)", "worst")]
    assert (np.diff(order, axis=0) >= 0).all()
    assert f"{TIMES} collections from {USERS:,} users each" in repr(found)
    assert "<table" in found._repr_html_()
    found.plot(tmp_path / "errors.png")
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")


def test_fewer_users_than_planned(plan, people):
    quarter = {name: column[: USERS // 4] for name, column in people.items()}
    found = plan.simulate(quarter, 3)
    assert found.users == USERS // 4
    assert found.table().columns["predicted"][0] == pytest.approx(2 * plan.predicted["histogram(job)"])


def test_refined_results_can_be_rehearsed(plan, people, found):
    better = plan.simulate(people, 2, seed=3, refine="auto")
    assert (better.errors["presence(films)"] != found.errors["presence(films)"][:2]).any()


def test_a_bar_is_shown(plan, people, capsys):
    plan.simulate(people, 1, progress=True)
    assert capsys.readouterr().out == ""  # it is on standard error


def test_no_collection_is_none(plan, people):
    for wrong in (0, -1, 1.5, "many"):
        with pytest.raises(dither.errors.ParameterError, match="repetitions"):
            plan.simulate(people, wrong)
