"""The normal copula: tables against SciPy's distribution function, derivatives against differences, and its records."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from dither.estimation.normal_copula import (
    LARGEST,
    at_scores,
    completed,
    correlation_of,
    nearest,
    placed,
    points,
    scored,
    scores,
    slope,
    tables,
)

UNEQUAL = np.array([0.05, 0.2, 0.5, 0.24, 0.01])
EVEN = np.full(4, 0.25)


def by_scipy(rows: np.ndarray, columns: np.ndarray, correlation: float) -> np.ndarray:
    """The mass between scores, from the distribution function at the corners."""
    both: Any = multivariate_normal(mean=[0, 0], cov=np.array([[1, correlation], [correlation, 1]]))  # type: ignore[arg-type]
    below = np.array([[both.cdf([a, b]) for b in columns] for a in rows])
    return np.diff(np.diff(below, axis=0), axis=1)


@pytest.mark.parametrize("correlation", [-0.97, -0.6, 0.0, 0.3, 0.8, 0.95])
def test_tables_are_those_of_the_bivariate_normal(correlation):
    rows, columns = scores(UNEQUAL), scores(EVEN)
    found = tables(rows, columns, np.array([0.1, correlation]))[1]
    np.testing.assert_allclose(found, by_scipy(rows, columns, correlation), atol=2e-7)
    np.testing.assert_allclose(found.sum(axis=1), UNEQUAL, atol=1e-7)
    np.testing.assert_allclose(found.sum(axis=0), EVEN, atol=1e-7)


def test_a_positive_correlation_puts_mass_on_the_diagonal():
    up, down = tables(scores(EVEN), scores(EVEN), np.array([0.7, -0.7]))
    assert np.trace(up) > 0.45 > 0.15 > np.trace(down)
    np.testing.assert_allclose(up, down[:, ::-1], atol=1e-12)


def test_scores_are_quantiles_and_end_far_out():
    np.testing.assert_allclose(scores(UNEQUAL)[1:-1], norm.ppf(np.cumsum(UNEQUAL)[:-1]), atol=1e-12)
    assert scores(np.array([0.0, 1.0, 0.0])).tolist() == [-6.0, -6.0, 6.0, 6.0]
    np.testing.assert_allclose(scores(3 * UNEQUAL), scores(UNEQUAL))


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.5])
def test_the_slope_is_the_derivative_of_the_table(correlation):
    rows, columns, step = scores(UNEQUAL), scores(EVEN), 1e-5
    low, high = tables(rows, columns, np.array([correlation - step, correlation + step]))
    np.testing.assert_allclose(slope(rows, columns, correlation), (high - low) / (2 * step), atol=1e-6)


def test_the_nearest_correlations():
    wild = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    assert np.linalg.eigvalsh(wild).min() < 0
    found = nearest(wild)
    assert np.linalg.eigvalsh(found).min() > 0
    np.testing.assert_allclose(np.diag(found), 1.0, atol=1e-12)
    np.testing.assert_allclose(found, found.T)
    assert np.sign(found).tolist() == np.sign(wild).tolist()
    fine = 0.2 * np.eye(4) + 0.8
    np.testing.assert_allclose(nearest(fine), fine, atol=1e-12)
    assert np.abs(nearest(np.ones((2, 2)))[0, 1]) <= LARGEST + 1e-9


@pytest.mark.parametrize("correlation", [-0.8, 0.0, 0.4, 0.8])
def test_the_correlation_of_a_copulas_own_table(correlation):
    shares, cuts = np.full(64, 1 / 64), np.arange(0, 65, 2)
    cells = np.full(32, 1 / 32)
    table = tables(scores(cells), scores(cells), np.array([correlation]))[0]
    found = correlation_of([shares, shares, shares], {(0, 2): ((cuts, cuts), table / np.outer(cells, cells))})
    assert found[0, 2] == found[2, 0] == pytest.approx(correlation, abs=0.02)
    assert abs(found[0, 1]) < 1e-12


def test_a_constant_attribute_has_no_correlation():
    one, cuts = np.array([1.0, 0.0]), np.array([0, 1, 2])
    assert correlation_of([one, EVEN[:2] * 2], {(0, 1): ((cuts, cuts), np.ones((2, 2)))}).tolist() == np.eye(2).tolist()


def test_points_have_the_marginals_and_the_tables():
    correlation = np.array([[1.0, 0.7, -0.3], [0.7, 1.0, 0.1], [-0.3, 0.1, 1.0]])
    shares = [UNEQUAL, EVEN, UNEQUAL[::-1]]
    found = points(correlation, shares, 1 << 14)
    assert found.shape == (1 << 14, 3)
    for j, k in product(range(3), range(3)):
        if j < k:
            table = np.zeros((len(shares[j]), len(shares[k])))
            np.add.at(table, (found[:, j], found[:, k]), 1 / len(found))
            wanted = tables(scores(shares[j]), scores(shares[k]), correlation[[j], [k]])[0]
            np.testing.assert_allclose(table, wanted, atol=3e-3)  # random points would be off by 4e-3 * 4


def test_records_at_scores():
    """By hand: the value whose part of the cumulative shares holds the normal probability of the score."""
    found = at_scores(
        np.array([[-3.0, 0.1], [0.0, -0.1], [3.0, 5.9]]), [np.array([0.2, 0.6, 0.2]), np.array([0.5, 0.5])]
    )
    assert found.tolist() == [[0, 1], [1, 0], [2, 1]]
    root = np.linalg.cholesky(np.array([[1.0, 0.6], [0.6, 1.0]]))
    np.testing.assert_allclose(scored(norm.cdf([[1.0, 2.0]]), root), [[1.0, 0.6 + 0.8 * 2.0]])


def test_values_that_nobody_has_are_never_placed():
    uniform = np.random.default_rng(1).random((10_000, 1))
    found = placed(uniform, np.eye(1), [np.array([0.0, 0.5, 0.0, 0.5, 0.0])])
    assert sorted(set(found[:, 0].tolist())) == [1, 3]


def test_correlations_that_are_not_known_are_those_along_the_strongest_way():
    told = np.eye(5)
    known = np.eye(5, dtype=bool)
    for j, k, value in ((0, 1, 0.9), (1, 2, -0.8), (0, 3, 0.5), (2, 3, -0.1)):
        told[j, k] = told[k, j] = value
        known[j, k] = known[k, j] = True
    found = completed(told, known)
    assert found[0, 2] == pytest.approx(0.9 * -0.8)
    assert found[1, 3] == pytest.approx(0.9 * 0.5)  # not -.8 times -.1
    assert (found[4, :4] == 0).all()  # of the last nothing is known at all
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(found[known], told[known])
    whole = np.asarray(np.corrcoef(np.random.default_rng(1).standard_normal((4, 50))), dtype=np.float64)
    np.testing.assert_array_equal(completed(whole, np.ones((4, 4), dtype=bool)), whole)


def test_a_star_of_strong_correlations_stays_as_it_was_seen():
    told, known = np.eye(5), np.eye(5, dtype=bool)
    told[0, 1:] = told[1:, 0] = 0.9
    known[0, :] = known[:, 0] = True
    np.testing.assert_allclose(nearest(completed(told, known))[0], told[0], atol=1e-9)
    assert nearest(told)[0, 1] < 0.75  # with zeros for what is not known it does not
