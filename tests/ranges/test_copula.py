"""Copula from reports to answers: what it asks, that it is better than grids alone, and that errors are honest.

Seeds are fixed. Bounds are at least one and a quarter times what these seeds give; the answers of a run depend on each
other, so that no false alarm can be stated for other seeds.
"""

from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.ranges import HDG, MSW, Copula
from dither.ranges.axes import Axes
from dither.ranges.copula import pair_cells
from dither.ranges.model import Pairwise
from dither.ranges.queries import Queries
from marks import wide

C = 32


def people(kind: str, n: int, d: int = 3, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "even":
        return rng.integers(0, C, (n, d))
    correlation = {"correlated": 0.8, "skewed": 0.4, "opposed": -0.4}[kind]
    z = rng.multivariate_normal(np.zeros(d), (1 - correlation) * np.eye(d) + correlation, n)
    part = np.exp(0.8 * z) / 12 if kind == "skewed" else (z + 4) / 8
    return np.clip(part * C, 0, C - 1).astype(int)


def truth(records: np.ndarray, queries: Queries) -> np.ndarray:
    return np.prod([queries.masks[j][:, records[:, j]] for j in range(records.shape[1])], axis=0).mean(axis=1)


@cache
def answered(
    method, kind: str, dimensions: tuple[int, ...] = (1, 2, 3), runs: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """The errors of answers, and the standard errors that were stated, over some runs and queries of all dimensions."""
    n, errors, stated = 100_000, [], []
    mechanism = method(shape=(C,) * 3, epsilon=1.0, n=n)
    for run in range(runs):
        records = people(kind, n, seed=run)
        estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=run)))
        for count in dimensions:
            queries = Queries.random(Axes.of_shape((C,) * 3), count, 60, seed=10 * run + count)
            found = estimate.answers(queries)
            errors.append(found.value - truth(records, queries))
            stated.append(found.stderr)
    return np.concatenate(errors), np.concatenate(stated)


# What is asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 3, 6, 10])
def test_two_users_in_three_report_an_attribute(d):
    groups = Copula(shape=(64,) * d, epsilon=1.0, n=10**6).groups
    total = sum(each.share for each in groups)
    singles = sum(each.share for each in groups if len(each.grid.attributes) == 1)
    assert Fraction(singles, total) == Fraction(2, 3)
    assert [each.grid.attributes for each in groups] == [(j,) for j in range(d)] + list(combinations(range(d), 2))
    assert len({each.share for each in groups[:d]}) == len({each.share for each in groups[d:]}) == 1


def test_one_attribute_is_asked_by_everybody():
    assert [each.stored() for each in Copula(shape=(64,), epsilon=1.0, n=100).groups] == [
        ((0,), (64,), "SquareWave", 1)
    ]


def test_labels_and_few_values_have_an_oracle_for_categories():
    groups = Copula(shape=(64, 64, 4, 2), epsilon=1.0, n=10**5, nominal=(1, 3)).groups
    recipes = [each.recipe.split("(")[0] for each in groups[:4]]
    assert recipes[0] == "SquareWave"
    assert "SquareWave" not in recipes[1:]
    assert groups[1].grid.size == 64


def test_pairs_are_finer_with_more_information():
    found = [pair_cells(epsilon, 10_000) for epsilon in (0.01, 0.1, 0.5, 1, 2, 4, 8)]
    assert found == [2, 2, 4, 4, 8, 16, 16]
    assert pair_cells(8.0, 10**9) == 16
    assert pair_cells(1.0, 1000) <= pair_cells(1.0, 100_000)
    assert pair_cells(1.0, 0) == 2


def test_a_side_has_no_more_cells_than_values():
    for each in Copula(shape=(3, 100, 2), epsilon=2.0, n=10**6).groups:
        assert all(cells <= (3, 100, 2)[j] for j, cells in zip(each.grid.attributes, each.grid.shape, strict=True))


def test_what_is_refused():
    with pytest.raises(ParameterError, match="needs at least 21 users"):
        Copula(shape=(64,) * 6, epsilon=1.0, n=20)
    with pytest.raises(ParameterError, match="nominal must list"):
        Copula(shape=(8, 8), epsilon=1.0, n=1000, nominal=1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="a nominal attribute"):
        Copula(shape=(8, 8), epsilon=1.0, n=1000, nominal=(2,))
    assert Copula(shape=(8, 8), epsilon=1.0, n=1000, nominal=(1, 1, 0)).nominal == (0, 1)


# What comes out --------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["correlated", *map(wide, ("even", "skewed", "opposed"))])
def test_it_is_better_than_grids_alone(kind):
    """Mean absolute errors; the ratio is about a third to a half."""
    ours, theirs = (np.abs(answered(method, kind)[0]).mean() for method in (Copula, HDG))
    assert ours < 0.75 * theirs


@pytest.mark.wide
def test_without_correlation_it_is_nearly_a_product_and_with_it_far_better():
    """A product of marginals has all users for these, and nothing else to learn.

    Ours has two in three for them, and has to see in what the others say that there is nothing: mean absolute errors
    of .0037 against .0014 on even data (HDG has .0138), and of .012 against .037 where attributes are correlated.
    """
    errors = {
        (kind, method): np.abs(answered(method, kind)[0]).mean()
        for kind in ("even", "correlated")
        for method in (Copula, MSW)
    }
    assert errors["even", Copula] < 4 * errors["even", MSW]
    assert errors["even", Copula] < 0.005
    assert errors["correlated", Copula] < 0.5 * errors["correlated", MSW]


@pytest.mark.parametrize("method", [Copula, HDG])
@pytest.mark.wide
@pytest.mark.parametrize("kind", ["even", "correlated", "skewed"])
def test_errors_are_as_large_as_stated(kind, method):
    """95% intervals cover at least nine answers in ten, and standard errors are not three times too large.

    On even data those of `Copula` are 6.5 times too large: noise and cells would hide what is not there, too
    (docs/decisions/0054-what-cells-hide.md).
    """
    most = 8 if (kind, method) == ("even", Copula) else 3
    errors, stated = answered(method, kind)
    ratio = np.abs(errors) / np.maximum(stated, 1e-6)
    assert (ratio < 1.96).mean() > 0.88
    assert np.sqrt(np.mean(errors**2)) > np.sqrt(np.mean(stated**2)) / most
    assert np.sqrt(np.mean(errors**2)) < 1.6 * np.sqrt(np.mean(stated**2))


def test_the_sign_of_a_correlation_shows():
    for kind, sign in (("correlated", 1), ("opposed", -1)):
        records = people(kind, 50_000)
        mechanism = Copula(shape=(C,) * 3, epsilon=2.0, n=50_000)
        estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=1)))
        assert isinstance(estimate.model, Pairwise)
        off = estimate.model.correlation[np.triu_indices(3, 1)]
        assert (sign * off > 0.2).all()
        both = float(estimate.answer({0: (16, None), 1: (16, None)}).value)
        assert sign * (both - 0.25) > 0.03


def test_attributes_of_different_kinds_and_sizes():
    rng = np.random.default_rng(1)
    n = 60_000
    age = np.clip(rng.normal(40, 12, n), 0, 99).astype(int)
    job = rng.choice(7, n, p=[0.4, 0.02, 0.2, 0.03, 0.25, 0.05, 0.05])
    member = (rng.random(n) < 0.2 + 0.5 * (age > 50)).astype(int)
    records = np.column_stack([age, job, member])
    mechanism = Copula(shape=(100, 7, 2), epsilon=2.0, n=n, nominal=(1,))
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=3)))
    for query, inside in (
        ({0: (51, None), 2: 1}, (age > 50) & (member == 1)),
        ({1: {0, 4}, 2: 0}, np.isin(job, [0, 4]) & (member == 0)),
        ({0: (30, 49), 1: 2}, (age >= 30) & (age < 50) & (job == 2)),
    ):
        answer = estimate.answer(query)
        assert abs(float(answer.value) - inside.mean()) < 5 * float(answer.stderr) + 0.005
    assert estimate[1].value[1] < 0.08  # rare labels stay rare, next to frequent ones
    np.testing.assert_allclose(estimate[1].value, np.bincount(job) / n, atol=0.04)


@pytest.mark.parametrize("n", [6, 40])
def test_a_handful_of_users(n):
    """Groups without any report: answers are shares all the same, and their errors are large."""
    mechanism = Copula(shape=(16, 8, 3), epsilon=1.0, n=n)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people("even", n) % 3, seed=1)))
    found = estimate.answers(Queries.random(Axes.of_shape((16, 8, 3)), 2, 20, seed=1))
    assert ((found.value >= 0) & (found.value <= 1)).all()
    assert np.isfinite(found.stderr).all()
    assert found.stderr.mean() > 0.02


def test_the_same_reports_give_the_same_estimate():
    mechanism = Copula(shape=(16, 8), epsilon=1.0, n=5000)
    tally = mechanism.tally(mechanism.randomize(people("even", 5000, 2) % 8, seed=1))
    one, other = (mechanism.estimate(tally).answer({0: (0, 5), 1: (2, 6)}) for _ in range(2))
    assert float(one.value) == float(other.value)
    assert float(one.stderr) == float(other.stderr)
