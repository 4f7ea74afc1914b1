"""Tilted shares have the means that they should have, and none with these means is nearer to the given ones."""

import numpy as np
import pytest

from dither.estimation.tilting import tilted

optimize = pytest.importorskip("scipy.optimize")


def distance(found: np.ndarray, shares: np.ndarray) -> float:
    """Kullback and Leibler's, from the given shares."""
    return float(np.sum(np.where(found > 0, found * np.log(np.where(found > 0, found, 1.0) / shares), 0.0)))


@pytest.mark.parametrize("case", range(10))
def test_it_is_the_nearest(case):
    draw = np.random.default_rng(case)
    size, count = int(draw.integers(3, 9)), int(draw.integers(1, 3))
    shares, other = draw.dirichlet(np.full(size, 2.0), 2)
    rows = np.stack([np.linspace(-1, 1, size), (np.arange(size) < size // 2).astype(float)])[:count]
    values = rows @ (0.5 * shares + 0.5 * other)  # some shares have them
    found = tilted(shares, rows, values)
    assert found is not None
    assert rows @ found == pytest.approx(values, abs=1e-9)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()
    best = optimize.minimize(
        lambda each: distance(np.maximum(each, 1e-300), shares),
        0.5 * shares + 0.5 * other,
        bounds=[(1e-9, 1)] * size,
        constraints=[
            {"type": "eq", "fun": lambda each: each.sum() - 1},
            {"type": "eq", "fun": lambda each: rows @ each - values},
        ],
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert distance(found, shares) <= best.fun + 1e-9
    assert found == pytest.approx(best.x, abs=1e-4)


def test_what_agrees_stays():
    shares = np.array([0.2, 0.3, 0.5])
    found = tilted(shares, np.array([[0.0, 1.0, 2.0]]), np.array([1.3]))
    assert found is not None
    assert found.tolist() == shares.tolist()


def test_shares_of_nothing_stay_so():
    found = tilted(np.array([0.5, 0.0, 0.5]), np.array([[0.0, 1.0, 2.0]]), np.array([1.5]))
    assert found == pytest.approx([0.25, 0.0, 0.75])


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ([[0.0, 1.0, 2.0]], [2.5]),  # beyond the last
        ([[0.0, 1.0, 2.0]], [-0.1]),
        ([[1.0, 1.0, 1.0]], [0.9]),  # all shares have the mean 1
        ([[0.0, 1.0, 2.0], [0.0, 2.0, 4.0]], [1.0, 3.0]),  # two means that exclude each other
        ([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]], [1.9, 0.5]),
    ],
)
def test_where_there_are_none(rows, values):
    assert tilted(np.array([0.2, 0.3, 0.5]), np.array(rows), np.array(values)) is None


def test_rows_that_say_the_same_twice():
    rows = np.array([[0.0, 1.0, 2.0], [0.0, 2.0, 4.0]])
    found = tilted(np.array([0.2, 0.3, 0.5]), rows, np.array([1.0, 2.0]))
    assert found is not None
    assert rows @ found == pytest.approx([1.0, 2.0], abs=1e-6)


def test_a_mean_near_the_end():
    found = tilted(np.full(100, 0.01), np.arange(100.0)[None], np.array([95.0]))
    assert found is not None
    assert np.arange(100.0) @ found == pytest.approx(95.0, abs=1e-9)
    assert tilted(np.full(100, 0.01), np.arange(100.0)[None], np.array([98.99])) is None  # too far to go there
