"""The ball: what comes in, what is refused, and what is clipped."""

import numpy as np
import pytest

from dither.core.ball_domain import TOLERANCE, Ball
from dither.errors import DomainError, ParameterError
from dither.testing import messages

SECRET = 987654321.0


def test_a_table_inside_is_not_copied():
    table = np.full((1000, 4), 0.5)
    assert Ball(4).check(table) is table
    assert Ball(4).check(table, invalid="clip") is table


def test_other_types_become_floats():
    ball = Ball(2)
    for values in ([[0, 1]], np.array([[0, 1]], dtype=np.int8), np.array([[0, 1]], dtype=np.float32), ((0.0, 1),)):
        found = ball.check(values)
        assert found.dtype == np.float64
        assert found.tolist() == [[0.0, 1.0]]
    assert ball.check([0.6, 0.8]).tolist() == [[0.6, 0.8]]
    assert ball.check({"a": [0.0, 1.0], "b": [1.0, 0.0]}).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert ball.check([]).shape == (0, 2)
    assert ball.check(np.zeros((0, 2))).shape == (0, 2)


def test_rounding_is_tolerated_and_nothing_more():
    just = np.array([[1.0 + TOLERANCE / 2, 0.0], [0.3, 0.0]])
    found = Ball(2).check(just)
    assert found.tolist() == [[1.0, 0.0], [0.3, 0.0]]
    assert just[0, 0] > 1  # the caller's table is left alone
    with pytest.raises(DomainError, match="row 1"):
        Ball(2).check([[1.0, 0.0], [1.0 + 3 * TOLERANCE, 0.0]])


@pytest.mark.parametrize(
    "row",
    [
        [SECRET, 0.0],
        [float("nan"), SECRET],
        [float("inf"), SECRET],
        [str(SECRET), 0.0],
        [None, SECRET],
        [1j * SECRET, 0.0],
        [0.8, 0.8],
        [True, 0.0 * SECRET],
        [2.0**1023, 2.0**1023],
    ],
    ids=str,
)
def test_what_is_outside_is_refused_or_clipped_and_never_quoted(row):
    for values in ([[0.0, 0.5], row], np.array([[0.0, 0.5], row], dtype=object)):
        if row == [True, 0.0] and isinstance(values, list):
            continue  # numpy makes a number of it before anybody can look
        with pytest.raises(DomainError) as caught:
            Ball(2).check(values)
        assert str(SECRET) not in messages(caught.value)
        assert "98765" not in messages(caught.value)
        found = Ball(2).check(values, invalid="clip")
        assert found[0].tolist() == [0.0, 0.5]
        numbers = all(isinstance(each, float) and np.isfinite(each) for each in row)
        assert np.linalg.norm(found[1]) == pytest.approx(1.0 if numbers else 0.0, abs=1e-15)


def test_a_mask_is_not_looked_under():
    masked = np.ma.masked_array([[0.1, 0.2], [0.3, 0.4]], mask=[[False, False], [True, False]])
    with pytest.raises(DomainError, match="row 1"):
        Ball(2).check(masked)
    assert Ball(2).check(masked, invalid="clip").tolist() == [[0.1, 0.2], [0.0, 0.0]]


@pytest.mark.parametrize("values", [[[0.1]], [[0.1, 0.2, 0.3]], [[[0.1, 0.2]]], [[0.1], [0.1, 0.2]], 3.0, "text"])
def test_the_shape_is_checked(values):
    with pytest.raises(DomainError):
        Ball(2).check(values)


@pytest.mark.parametrize("invalid", ["wrap", 0, None])
def test_unknown_rules(invalid):
    with pytest.raises(ParameterError):
        Ball(2).check([[0.0, 0.0]], invalid=invalid)


@pytest.mark.parametrize("d", [1, 2, 3, 50])
def test_points_and_spread_lie_inside(d):
    points = Ball(d).points(5 * d)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-12)
    assert points[:2, 0].tolist() == [1.0, -1.0]
    assert len(np.unique(points[: 2 * d], axis=0)) == 2 * d
    assert Ball(d).check(Ball(d).spread()).shape == (10, d)


def test_long_rows_are_scaled_in_every_chunk():
    rows = np.ones((400_000, 3))
    rows[::2] *= 1e200
    found = Ball(3).check(rows, invalid="clip")
    np.testing.assert_allclose(found, 1 / np.sqrt(3), rtol=1e-15)


@pytest.mark.parametrize("entry", [5e-324, 1e-310, 1e-200, 1e160, 1e308, np.finfo(np.float64).max])
def test_tiny_and_huge_rows_are_checked_without_a_word(entry):
    rows = np.array([[entry, -entry, entry, entry], [0.0, 0.0, 0.0, entry]])
    with np.errstate(all="raise"):
        found = Ball(4).check(rows, invalid="clip")
    if entry < 1:
        assert (found == rows).all()
    else:
        np.testing.assert_allclose(found, [[0.5, -0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0]], rtol=1e-15)


def test_wider_floats_become_zero_beyond_all_floats():
    wide = np.array([["1e400", "0"], ["0.6", "0.8"]], dtype=np.longdouble)
    assert Ball(2).check(wide, invalid="clip").tolist() == [[0.0, 0.0], [0.6, 0.8]]
