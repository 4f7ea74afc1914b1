"""Window mechanisms beyond the contract: golden numbers, the continuum, and values between lattice points."""

from itertools import product

import numpy as np
import pytest

from dither import Duchi, Piecewise, SquareWave
from dither.core.lattice import MOST_STEPS, split
from dither.mechanisms.window import continuous_variance, piecewise_share, square_wave_share
from dither.testing import rounded_value

CASE_STUDY = np.arange(1, 11) / 10  # values .1, .2, ..., 1 with probability .1 each (000, 001)


@pytest.mark.parametrize(
    ("epsilon", "golden"), [(0.1, 400.65), (0.5, 16.671), (1.0, 4.6827), (2.0, 1.7241), (5.0, 1.0273)]
)
def test_golden_worst_case_variance_of_duchi(epsilon, golden):
    assert Duchi(epsilon, 1e-6).moments([0.0]).variance[0] == pytest.approx(golden, rel=5e-5)


def test_golden_case_study_of_000():
    assert Piecewise(0.001).moments(CASE_STUDY).variance.mean() / 10_000 == pytest.approx(533.2104, rel=1e-3)
    naive = SquareWave(0.001).naive.moments(2 * CASE_STUDY - 1)  # the paper's values lie in [0, 1]
    assert naive.bias.mean() / 2 == pytest.approx(-0.049975, rel=1e-3)
    assert naive.variance.mean() / 4 / 10_000 == pytest.approx(3.3303e-5, rel=1e-3)


def test_golden_case_study_of_001():
    naive = SquareWave(1.0).naive.moments(2 * CASE_STUDY - 1)
    assert naive.variance.mean() / 4 == pytest.approx(0.14826, rel=1e-3)
    assert naive.bias.mean() / 2 == pytest.approx(-0.031606, rel=1e-3)
    assert Piecewise(1.0).moments(CASE_STUDY).variance.mean() == pytest.approx(4.2756, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
def test_piecewise_variance_is_that_of_the_continuum(epsilon):
    x = np.array([-1.0, -0.5, 0.0, 1.0, 0.1234, 1 / 3])
    h = np.exp(epsilon / 2)
    printed = x**2 / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)  # 000 eq. 14, corrected
    np.testing.assert_allclose(Piecewise(epsilon).moments(x).variance, printed, rtol=1e-3)
    np.testing.assert_allclose(continuous_variance(epsilon, piecewise_share(epsilon), x), printed, rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0])
def test_square_wave_variance_is_that_of_the_continuum(epsilon):
    x = np.array([-1.0, -0.5, 0.0, 1.0, 0.1234, 1 / 3])
    continuum = continuous_variance(epsilon, square_wave_share(epsilon), x)
    np.testing.assert_allclose(SquareWave(epsilon).moments(x).variance, continuum, rtol=1e-3)


def test_the_width_of_the_square_wave_does_not_cancel():
    for epsilon in (1e-12, 1e-8, 1e-4, 1e-3):
        series = 0.5 - epsilon / 3 + epsilon**2 / 9
        assert square_wave_share(epsilon) / 2 == pytest.approx(series, abs=epsilon**3 + 1e-15)


@pytest.mark.parametrize("mechanism", [Piecewise(1.0), Piecewise(3.0), SquareWave(0.5), Duchi(1.0)], ids=repr)
def test_moments_between_lattice_points_by_enumeration(mechanism):
    scores = mechanism.reading.scores
    for value in (-1.0, -0.987, 0.0, 0.123, 0.5, 0.999, 1.0):
        rows = rounded_value(mechanism, value)
        law = sum(float(share) * np.array(mechanism.channel().row(row), dtype=float) for row, share in rows.items())
        found = mechanism.moments([value])
        assert law @ scores == pytest.approx(value, abs=1e-9)
        assert law @ (scores - value) ** 2 == pytest.approx(found.variance[0], rel=1e-9)
        assert law @ np.abs(scores - value) ** 3 == pytest.approx(found.third[0], rel=1e-9)


def test_naive_moments_by_enumeration():
    mechanism = SquareWave(1.0)
    reading = mechanism.naive
    for row in (0, 17, mechanism.window.steps):
        value = mechanism.inputs()[row]
        law = np.array(mechanism.channel().row(row), dtype=float)
        found = reading.moments([value])
        mean = law @ reading.scores
        assert mean - value == pytest.approx(found.bias[0], abs=1e-12)
        assert law @ (reading.scores - mean) ** 2 == pytest.approx(found.variance[0], rel=1e-9)


def test_naive_estimates_have_the_bias_that_is_stated():
    mechanism, values = SquareWave(1.0), np.full(200_000, 0.8)
    tally = mechanism.tally(mechanism.randomize(values, seed=1))
    naive = mechanism.estimate(tally, mechanism.naive)
    stated = mechanism.naive.moments([0.8])
    # Both within 6 standard errors: false alarm 2e-9.
    assert abs(naive.value - 0.8 - stated.bias[0]) < 6 * (stated.variance[0] / tally.n) ** 0.5
    assert abs(mechanism.estimate(tally).value - 0.8) < 6 * mechanism.estimate(tally).stderr
    assert naive.stderr == pytest.approx((stated.variance[0] / tally.n) ** 0.5, rel=0.02)


def test_splitting_is_exact_in_its_digits():
    for steps, bits in product((1, 2, 7, 1000, MOST_STEPS), (4, 8, 64)):
        values = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
        lower, fraction, digits = split(values, steps, bits)
        place = (lower.astype(object) * 2**digits + fraction.astype(object)) / steps
        assert (np.abs(place / 2**digits - (values + 1) / 2) <= 2.0 ** (-digits)).all()
        assert lower[-1] == steps
        assert fraction[0] == fraction[-1] == 0


def test_duchi_is_002_equation_32():
    for epsilon, delta in product((0.1, 1.0, 3.0), (0.0, 1e-6, 1e-2)):
        e = np.exp(epsilon)
        scores = Duchi(epsilon, delta).reading.scores
        assert scores[1] == pytest.approx((e + 1) / (e + 2 * delta - 1), rel=1e-9)
        assert -scores[0] == pytest.approx(scores[1], rel=1e-12)


def test_scalar_estimates_print():
    mechanism = Piecewise(1.0)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(np.linspace(-1, 1, 1000), seed=1)))
    low, high = estimate.interval(0.95)
    assert low < estimate.value < high
    assert "mean" in repr(estimate)
    assert "from 1,000 reports" in estimate.explain()
    assert len(estimate.table()) == 1
