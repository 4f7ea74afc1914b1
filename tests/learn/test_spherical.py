"""Hyper-spherical coordinates: against the equations of 001, loop by loop, and there and back in 10^5 dimensions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dither.errors import DomainError, ParameterError
from dither.learn.spherical import from_spherical, to_spherical

SMALLEST = 5e-324
ANY = st.floats(-1e300, 1e300)


def by_the_equations(vector: list[float]) -> tuple[float, list[float]]:
    """Eq. 5.14 and 5.15 in Python's own arithmetic; `hypot` of many is exact to the last digit."""
    d = len(vector)
    angles = [math.atan2(math.hypot(*vector[z + 1 :]), vector[z]) for z in range(d - 2)]
    return math.hypot(*vector), [*angles, math.atan2(vector[-1], vector[-2])]


def back_by_the_equations(norm: float, angles: list[float]) -> list[float]:
    """Eq. 5.17."""
    d = len(angles) + 1
    sines = [math.prod(math.sin(angle) for angle in angles[:z]) for z in range(d)]
    return [norm * sines[z] * (math.cos(angles[z]) if z < d - 1 else 1.0) for z in range(d)]


@pytest.mark.parametrize("d", [2, 3, 4, 9])
def test_it_is_what_the_equations_say(d):
    vectors = np.random.default_rng(d).normal(size=(200, d)) * 10.0 ** np.random.default_rng(d).integers(
        -9, 9, (200, d)
    )
    norms, angles = to_spherical(vectors)
    expected = [by_the_equations(row) for row in vectors.tolist()]
    np.testing.assert_allclose(norms, [norm for norm, _ in expected], rtol=1e-14)
    np.testing.assert_allclose(angles, [row for _, row in expected], rtol=1e-13)
    back = [back_by_the_equations(norm, row) for norm, row in zip(norms.tolist(), angles.tolist(), strict=True)]
    assert (np.abs(from_spherical(norms, angles) - back).max(axis=1) <= 1e-14 * norms).all()


def test_the_example_of_figure_5_2():
    norms, angles = to_spherical([1.0, 2.0, 2.0])
    assert norms == pytest.approx(3.0, rel=1e-15)
    assert angles.tolist() == pytest.approx([math.atan2(math.sqrt(8), 1.0), math.pi / 4], rel=1e-15)


def test_the_range_of_the_angles():
    _, angles = to_spherical(np.random.default_rng(0).normal(size=(5000, 4)))
    assert 0 <= angles[:, :-1].min() < 0.1
    assert math.pi - 0.1 < angles[:, :-1].max() <= math.pi
    assert -math.pi < angles[:, -1].min() < 0.1 - math.pi
    assert math.pi - 0.1 < angles[:, -1].max() <= math.pi
    assert to_spherical([-1.0, -0.0])[1].tolist() == [math.pi]  # a zero is never negative


def test_zero_is_zero():
    norm, angles = to_spherical(np.zeros(5))
    assert norm == 0
    assert angles.tolist() == [0.0] * 4
    assert from_spherical(norm, np.full(4, 0.3)).tolist() == [0.0] * 5


def round_trip(vectors: np.ndarray) -> float:
    """The largest distance between a vector and what comes back, relative to its norm."""
    back = from_spherical(*to_spherical(vectors))
    scale = np.abs(vectors).max(axis=-1)
    lengths = np.linalg.norm(vectors / np.where(scale > 0, scale, 1)[..., None], axis=-1)
    apart = np.linalg.norm((back - vectors) / np.where(scale > 0, scale, 1)[..., None], axis=-1)
    return float((apart / np.where(lengths > 0, lengths, 1)).max())


def high_dimensional(d: int) -> np.ndarray:
    random = np.random.default_rng(3)
    dense = random.normal(size=d)
    sparse = np.where(random.random(d) < 1e-3, dense, 0.0)
    one = np.zeros(d)
    one[d // 3] = -7.0
    last = np.zeros(d)
    last[-1] = -1e-9
    falling = dense * 2.0 ** (-np.arange(d) / 30)  # tails down to far below all floats
    return np.array([dense, sparse, one, last, falling, dense[::-1] * 1e-290, dense * 1e290, np.full(d, -1e-3)])


def test_there_and_back_in_a_hundred_thousand_dimensions():
    assert round_trip(high_dimensional(100_000)) < 1e-11


def test_tiny_tails_keep_their_relative_accuracy():
    vector = np.array([1.0, 1e-200, -3e-220, 4e-220, 1e-290])
    norm, angles = to_spherical(vector)
    assert by_the_equations(vector.tolist())[1] == pytest.approx(angles.tolist(), rel=1e-14)
    back = from_spherical(norm, np.abs(angles))
    assert back[:2].tolist() == pytest.approx(vector[:2].tolist(), rel=1e-14)


def test_denormal_numbers_come_back_to_the_last_quantum():
    vectors = np.array([[SMALLEST, SMALLEST, 0.0], [-3e-320, 2e-322, SMALLEST], [1e-310, -2e-310, 3e-315]])
    back = from_spherical(*to_spherical(vectors))
    assert np.abs(back - vectors).max() <= 2 * SMALLEST


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(2, 12)), elements=ANY))
def test_any_vectors_come_back(vectors):
    norms, angles = to_spherical(vectors)
    back = from_spherical(norms, angles)
    assert (np.abs(back - vectors) <= 1e-13 * norms[:, None] + 4 * SMALLEST).all()
    assert (angles[:, :-1] >= 0).all()
    assert (angles <= math.pi).all()
    assert (angles[:, -1] >= -math.pi).all()  # an angle just above -pi is rounded to it


@settings(max_examples=100, deadline=None)
@given(arrays(np.float64, st.integers(1, 12), elements=st.floats(-50, 50)), st.floats(0, 1e6))
def test_any_angles_give_a_vector_of_that_length(angles, norm):
    assert np.linalg.norm(from_spherical(norm, angles)) == pytest.approx(norm, rel=1e-13)


def test_tensors_in_tensors_out():
    torch = pytest.importorskip("torch")
    vectors = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    norms, angles = to_spherical(vectors)
    assert norms.dtype == angles.dtype == torch.float64
    assert torch.allclose(from_spherical(norms, angles), vectors.double())


def test_what_has_no_coordinates_is_refused():
    with pytest.raises(ParameterError, match="two coordinates"):
        to_spherical([[1.0]])
    with pytest.raises(ParameterError, match="real numbers"):
        to_spherical([["a", "b"]])
    with pytest.raises(ParameterError, match="one norm"):
        from_spherical([1.0, 2.0], [[0.1, 0.2]])
    with pytest.raises(DomainError, match="finite"):
        to_spherical([math.nan, 1.0])
    with pytest.raises(DomainError, match="beyond all floats"):
        to_spherical([1.7e308, 1.7e308])
