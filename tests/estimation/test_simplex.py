"""The projection onto a simplex, which is Norm-Sub: by hand, in any shape, against brute force, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.errors import ParameterError
from dither.estimation.simplex import onto_simplex

vectors = st.lists(st.floats(-3, 3, allow_nan=False).map(lambda number: round(number, 4)), min_size=1, max_size=6)
seldom = settings(max_examples=60, deadline=None, derandomize=True)


def nearest(value: np.ndarray, total: float) -> np.ndarray:
    """The distribution of least squared distance, over all sets of entries that are not 0."""
    best, least = value, math.inf
    for size in range(1, value.size + 1):
        for chosen in map(list, itertools.combinations(range(value.size), size)):
            point = np.zeros(value.size)
            point[chosen] = value[chosen] - (value[chosen].sum() - total) / size
            distance = float(((point - value) ** 2).sum())
            if (point >= -1e-12).all() and distance < least:
                best, least = point, distance
    return best


@seldom
@given(vectors.map(np.array), st.sampled_from([1.0, 2.5, 1000.0]))
def test_the_nearest_distribution(value, total):
    found = onto_simplex(value, total)
    np.testing.assert_allclose(found, nearest(value, total), atol=1e-9 * total)
    assert (found >= 0).all()


@seldom
@given(vectors.map(np.array), st.floats(0.1, 4.0))
def test_a_cap_is_the_nearest_point_too(value, total):
    cap = 1.0
    found = onto_simplex(value, total, cap)
    if cap * value.size <= total:
        assert (found == cap).all()
        return
    assert found.sum() == pytest.approx(total, abs=1e-9)
    assert (found >= 0).all()
    assert (found <= cap + 1e-12).all()
    # The nearest point: one amount is taken off all that lie strictly inside; the others cannot move towards it.
    off = value - found
    inside = (found > 1e-9) & (found < cap - 1e-9)
    amount = off[inside].mean() if inside.any() else (off[found >= cap - 1e-9].min() + off[found <= 1e-9].max()) / 2
    np.testing.assert_allclose(off[inside], amount, atol=1e-9)
    assert (off[found <= 1e-9] <= amount + 1e-9).all()
    assert (off[found >= cap - 1e-9] >= amount - 1e-9).all()


def test_the_shape_stays():
    table = np.array([[0.7, 0.5], [-0.3, 0.1]])
    np.testing.assert_allclose(onto_simplex(table), [[0.6, 0.4], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(onto_simplex(10 * table, total=10.0), [[6, 4], [0, 0]], atol=1e-14)
    np.testing.assert_allclose(onto_simplex(table, cap=0.55), [[0.55, 0.425], [0, 0.025]], atol=1e-12)


def test_huge_values_do_not_break():
    assert onto_simplex(np.array([1e17, 0.0])).tolist()[1] == 0.0


@pytest.mark.parametrize("total", [0.0, -1.0, math.inf, math.nan])
def test_a_total_without_meaning_is_refused(total):
    with pytest.raises(ParameterError, match="total"):
        onto_simplex(np.array([0.5, 0.5]), total)
