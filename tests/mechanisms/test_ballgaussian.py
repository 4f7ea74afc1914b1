"""Gaussian noise on vectors of a ball: certificate, sampler over all tapes, integer lengths, and what it measures."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

import dither
from dither.core.ball_domain import Ball
from dither.core.draw import DRAW, ELEMENT
from dither.core.exact import exp_below
from dither.core.lattice import ROUNDING
from dither.core.randomness import Stream
from dither.core.rounded_gaussian import RoundedGaussian
from dither.errors import ParameterError
from dither.mechanisms.ballgaussian import BallGaussian, Sphere, _length, gaussian_divergence
from dither.mechanisms.noise_tables import analytic_sigma
from dither.testing.tapes import EveryTape


def exact_delta(apart: Fraction, epsilon: float) -> Any:
    """Balle and Wang's delta with 60 digits."""
    gap, drop = mpmath.mpf(apart.numerator) / apart.denominator, mpmath.mpf(epsilon)
    near, far = gap / 2 - drop / gap, -gap / 2 - drop / gap
    return mpmath.ncdf(near) - mpmath.exp(drop) * mpmath.ncdf(far)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (4.0, 1e-3), (8.0, 1e-12), (20.0, 1e-6)])
@pytest.mark.parametrize("d", [1, 30])
def test_the_certificate_is_the_analytic_gaussian_with_the_diameter_of_the_ball(epsilon, delta, d):
    mechanism = BallGaussian(d, epsilon, delta)
    law = mechanism.law
    assert mechanism.guarantee.established == "bound"
    assert mechanism.guarantee.epsilon == epsilon
    assert delta * (1 - 1e-9) <= mechanism.guarantee.delta <= delta
    with mpmath.workdps(60):
        ideal = exact_delta(Fraction(2 * law.radius) / law.scale, epsilon)
        table = (
            (1 + mpmath.exp(epsilon)) * d * law.table.deviation.numerator / mpmath.mpf(law.table.deviation.denominator)
        )
        assert ideal <= mechanism.guarantee.delta
        assert abs(mechanism.guarantee.delta - ideal - table) < 1e-15 * delta


def test_the_noise_is_that_of_the_continuum():
    for epsilon in (0.5, 8.0):
        mechanism = BallGaussian(64, epsilon, 1e-6)
        assert mechanism.reading.variance == pytest.approx(analytic_sigma(epsilon, 1e-6) ** 2, rel=0.02)
        assert mechanism.reading.error == 64 * mechanism.reading.variance
    box = dither.Gaussian(2.0, d=4, delta=1e-6)  # two records there may be 2 sqrt(d) apart
    assert box.reading.worst_variance() == pytest.approx(4 * BallGaussian(4, 2.0, 1e-6).reading.variance, rel=0.02)


def test_the_divergence_is_rounded_up():
    with mpmath.workdps(60):
        for apart, epsilon in product((Fraction(1, 7), Fraction(1), Fraction(5)), (0.0, 0.3, 2.0, 12.0)):
            found = gaussian_divergence(apart, exp_below(epsilon))
            exact = exact_delta(apart, epsilon)
            assert exact <= mpmath.mpf(found.numerator) / found.denominator <= exact + mpmath.mpf(10) ** -36


def test_a_pair_at_the_ends_has_the_stated_divergence_and_no_more():
    # In one dimension the law of the table is written out: K against -K is the worst pair of integer points.
    law = Sphere(1, 4, Fraction(3))
    weights = {o: law.table.probability(o) for o in range(-law.table.reach, law.table.reach + 1)}
    for epsilon in (0.5, 2.0, 4.0):
        ratio = exp_below(epsilon)
        stated = law.divergence(ratio)
        for one, other in ((-4, 4), (4, -4), (0, 4), (1, 2)):
            outputs = range(-law.most, law.most + 1)
            gains = (weights.get(y - one, Fraction(0)) - ratio * weights.get(y - other, Fraction(0)) for y in outputs)
            assert sum(gain for gain in gains if gain > 0) <= stated
        # Rounding is the only thing lost between the continuum and the table.
        ends = (weights.get(y + 4, Fraction(0)) - ratio * weights.get(y - 4, Fraction(0)) for y in outputs)
        assert sum(gain for gain in ends if gain > 0) > Fraction(9, 10) * stated


def test_the_table_of_every_coordinate_is_paid_for():
    law, ratio = Sphere(7, 64, Fraction(100)), exp_below(1.5)
    ideal = gaussian_divergence(Fraction(128, 100), ratio)
    assert law.divergence(ratio) - ideal == (1 + ratio) * 7 * law.table.deviation > 0


def test_sums_are_read_in_the_length_of_the_lattice():
    mechanism = BallGaussian(3, 2.0, 1e-4)
    vector = np.array([0.5, -0.25, 0.0])
    counts = np.rint(1e9 * (mechanism.law.most + mechanism.reading.length * vector)).astype(np.int64)
    estimate = mechanism.estimate(dither.Tally(mechanism.fingerprint, 10**9, counts))
    np.testing.assert_allclose(estimate.value, vector, atol=1e-9)
    np.testing.assert_allclose(estimate.stderr**2 * 1e9, mechanism.moments(vector).variance[0], rtol=1e-4)


def small(d: int, bits: int) -> Any:
    """A lattice of three points a coordinate, and a table of few bits."""
    mechanism = BallGaussian(d, 20.0, 0.5, weights=(4, 8 << 40))
    law = Sphere(d, 4, Fraction(8))
    vars(law)["table"] = RoundedGaussian(Fraction(1, 4), bits)
    vars(mechanism)["law"] = law
    return mechanism


@pytest.mark.parametrize(("d", "bits", "table"), [(1, 4, 6), (2, 2, 2), (1, 5, 4)])
def test_the_sampler_over_all_tapes(d, bits, table):
    mechanism = small(d, table)
    assert mechanism.reading.length == 1
    lanes = {("coordinate", DRAW): d, ("coordinate", ELEMENT): d * -(-table // bits), ("coordinate", ROUNDING): d}
    for vector in ([0.0] * d, [0.6] + [-0.5] * (d - 1), [-1.0] + [0.0] * (d - 1)):
        tape = EveryTape(bits, lanes)
        reports = mechanism.drawn(np.tile(vector, (tape.rows, 1)), tape)
        rows, inverse = tape.odds()
        found: dict[tuple[int, ...], Fraction] = {}
        points = reports["value"][rows].astype(int) - mechanism.law.most
        drawn, counts = np.unique(np.column_stack([points, inverse]), axis=0, return_counts=True)
        for (*report, odds), count in zip(drawn.tolist(), counts.tolist(), strict=True):
            found[tuple(report)] = found.get(tuple(report), Fraction(0)) + Fraction(count, odds)
        expected: dict[tuple[int, ...], Fraction] = {}
        for report in product(range(-mechanism.law.most, mechanism.law.most + 1), repeat=d):
            law = Fraction(1)
            for y, x in zip(report, vector, strict=True):
                # The share of the upper point has as many digits as a word.
                place = Fraction(round((x + 1) * 2 ** (bits - 1)), 1 << bits - 1)
                low = math.floor(place)
                share = place - low
                noise = mechanism.law.table.probability
                law *= (1 - share) * noise(y - low + 1) + share * noise(y - low)
            if law:
                expected[report] = law
        assert found == expected


def test_no_integer_vector_is_longer_than_the_radius():
    mechanism: Any = BallGaussian(50, 20.0, 0.5, weights=(32, 64 << 40))
    generator = np.random.default_rng(3)
    vectors = generator.standard_normal((2000, 50))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    points = mechanism._points(vectors, Stream.seeded(1), slice(0, 100_000))
    assert (points**2).sum(axis=1).max() <= 32**2
    # With no margin half of all would be too long: those are rounded towards zero.
    vars(mechanism)["reading"] = dither.mechanisms.ballgaussian.BallMean(50, 32, mechanism.law.most, 1.0)
    points = mechanism._points(vectors, Stream.seeded(1), slice(0, 100_000))
    lengths = (points**2).sum(axis=1)
    assert lengths.max() <= 32**2
    assert 200 < (points == np.trunc(vectors * 32)).all(axis=1).sum() < 1900
    beyond = mechanism._points(vectors * 40, Stream.seeded(1), slice(0, 100_000))  # never checked: clipped, or zero
    assert (beyond**2).sum(axis=1).max() <= 32**2


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_counts_as_zero(bad):
    # As integers, NaNs were all -2^63, and the sum of their squares 0: no length check saw them.
    mechanism: Any = BallGaussian(4, 20.0, 0.5, weights=(32, 64 << 40))
    rows = np.array([[bad] * 4, [bad, 0.0, 0.0, 0.0], [0.6, bad, -0.6, bad], [0.0, 0.0, 0.0, bad]] * 50)
    clean = np.where(np.isfinite(rows), rows, 0.0)
    points = mechanism._points(rows, Stream.seeded(1), slice(0, rows.size))
    assert np.abs(points).max() <= 32
    assert (points == mechanism._points(clean, Stream.seeded(1), slice(0, rows.size))).all()
    found, expected = (mechanism.drawn(each, Stream.seeded(2)) for each in (rows, clean))
    assert (found == expected).all()
    assert mechanism._valid(found).all()


@pytest.mark.parametrize("d", [3, 785])
@pytest.mark.parametrize("epsilon", [20.0, 21.0, 48.5, 100.0])
def test_beyond_twenty_the_noise_and_the_certificate_are_those_of_twenty(d, epsilon):
    mechanism = BallGaussian(d, epsilon, 1e-5)
    assert mechanism.epsilon == epsilon
    assert mechanism.guarantee.epsilon == 20.0
    assert 1e-5 * (1 - 1e-9) <= mechanism.guarantee.delta <= 1e-5
    assert mechanism.weights == BallGaussian(d, 20.0, 1e-5).weights
    assert BallGaussian.from_dict(mechanism.to_dict()) == mechanism


def test_the_margin_is_wide_enough():
    generator = np.random.default_rng(4)
    for d, radius in ((2, 64), (100, 512), (5000, 4096)):
        length = _length(d, radius)
        assert 0.8 * radius < length < radius
        vectors = generator.standard_normal((200, d))
        vectors *= length / np.linalg.norm(vectors, axis=1, keepdims=True)
        low = np.floor(vectors)
        points = low + (generator.random(vectors.shape) < vectors - low)
        assert (points**2).sum(axis=1).max() <= radius**2
        assert length**2 + 9 * length + d / 4 + 5 * math.sqrt(d) <= radius**2


@pytest.mark.wide
def test_estimates_are_unbiased_with_the_stated_error():
    # 40,000 users: mean within 6 standard errors in 12 coordinates (2e-8), variance by chi-squared (normal, 1e-8).
    mechanism = BallGaussian(12, 2.0, 1e-4)
    vectors = Ball(12).points(40) * np.linspace(0, 1, 40)[:, None]
    values = np.tile(vectors, (1000, 1))
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=5)))
    scores = (estimate.value - values.mean(axis=0)) / estimate.stderr
    assert np.abs(scores).max() < 6
    assert estimate.guarantee.simulated
    reports = mechanism.randomize(values, seed=6)["value"].astype(float) - mechanism.law.most
    errors = reports / mechanism.reading.length - values
    count = errors.size
    assert abs((errors**2).mean() / mechanism.moments(vectors).variance.mean() - 1) < norm.isf(1e-8) * math.sqrt(
        2 / count
    )


def test_wide_noise_and_small_deltas_are_refused():
    with pytest.raises(ParameterError, match="table"):
        BallGaussian(6, 1e-6, 1e-6)
    for delta in (0.0, 1e-30):
        with pytest.raises(ParameterError, match="UnitVector"):
            BallGaussian(6, 1.0, delta)
    with pytest.raises(ParameterError):
        BallGaussian(3, 1.0, 1e-6, weights=(2048, 2048 << 40))
