"""Noise for sums of clipped gradients: exact integer lengths, the law of a release, and what it promises."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, norm

from dither.core.exact import exp_above
from dither.core.randomness import Stream
from dither.core.rounded_gaussian import MOST_SCALE
from dither.errors import DomainError, ParameterError
from dither.learn.lattice_noise import LatticeNoise, aim, quantised_rows, shortened
from dither.privacy import noise_multiplier, subsampled_gaussian


def exact_squares(rows: np.ndarray) -> list[int]:
    """Squared lengths in Python integers."""
    return [sum(int(entry) ** 2 for entry in row) for row in rows]


@pytest.mark.parametrize("d", [1, 2, 10, 333])
@pytest.mark.parametrize("radius", [1, 2, 32, 1024, 1 << 16])
def test_no_integer_vector_is_longer_than_the_radius(d, radius):
    generator = np.random.default_rng(d * radius)
    rows = generator.standard_normal((200, d)) * 10.0 ** generator.integers(-3, 4, (200, 1))
    rows[:20] = np.sign(rows[:20]) / math.sqrt(d)  # length 1, and rounding may lengthen every entry
    rows[20:40] = np.nextafter(rows[:20], 2.0)
    rows[40] = 1e300
    rows[41] = 1e-320
    lengths = np.sqrt(((rows / np.abs(rows).max(axis=1, keepdims=True)) ** 2).sum(axis=1)) * np.abs(rows).max(axis=1)
    for factors in (1 / np.maximum(lengths, 1), 2 / np.maximum(lengths, 1), np.full(200, 1e3)):
        found = quantised_rows(rows, factors, radius)
        assert found.dtype == np.int64
        assert max(exact_squares(found)) <= radius**2


def test_rows_that_rounding_lengthens_are_shrunk_and_hardly_changed():
    # All entries lie above a half and round up: too long, until they are shrunk.
    d = 10_000
    rows = np.full((3, d), 1.0)
    rows[1, ::2] = 0.97
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for radius in (1060, 1090, 1024, 262):
        found = quantised_rows(rows, np.ones(3), radius)
        assert max(exact_squares(found)) <= radius**2
        assert np.linalg.norm(found / radius - rows, axis=1).max() < (0.1 if radius > 1000 else 0.3)
        cosines = (found * rows).sum(axis=1) / np.linalg.norm(found, axis=1)
        assert cosines.min() > 0.95


@pytest.mark.parametrize("radius", [1, 2, 3, 8, 100, 5000])
def test_whole_numbers_that_are_too_long_are_made_to_fit(radius):
    generator = np.random.default_rng(radius)
    for d in (1, 2, 7, 400):
        for size in (2 * radius, 1e3, 1e17, 1e300):
            row = np.rint(generator.uniform(-1, 1, d) * size)
            row[0] = np.rint(size)
            found = shortened(row, radius)
            assert exact_squares(found[None])[0] <= radius**2
            if radius > 10 * math.sqrt(d):
                assert found @ (row / size) > 0.95 * np.linalg.norm(found) * np.linalg.norm(row / size)
                assert np.linalg.norm(found) > 0.9 * radius


def test_rows_are_rounded_to_the_nearest_and_long_ones_clipped():
    generator = np.random.default_rng(2)
    rows = generator.standard_normal((50, 20))
    rows *= np.linspace(0.01, 3.0, 50)[:, None] / np.linalg.norm(rows, axis=1, keepdims=True)
    noise = LatticeNoise(d=20, clip=2.0, multiplier=1.0)
    found = noise.quantised(rows)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    clipped = rows * np.minimum(1.0, 2.0 / length)
    goal = aim(20, noise.radius, 2.0**-52)
    assert noise.radius - 2.1 < goal < noise.radius - 2
    assert np.abs(found - clipped / 2 * goal).max() <= 0.5 + 1e-9
    assert np.abs(np.linalg.norm(found[length[:, 0] > 2] * noise.unit, axis=1) - 2.0).max() < 0.05


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_counts_as_zero(junk):
    rows = np.array([[0.5, 0.1], [0.3, junk], [junk, junk], [0.0, 0.0]])
    found = LatticeNoise(d=2, clip=1.0, multiplier=1.0).quantised(rows)
    assert (found[1:] == 0).all()
    assert (found[0] != 0).all()


def test_a_million_dimensions_do_not_overflow():
    d = 1_000_000
    noise = LatticeNoise(d, clip=1.0, multiplier=0.5)
    rows = np.empty((2, d), dtype=np.float32)
    rows[0], rows[1] = 1e30, np.where(np.arange(d) % 2, 1e-3, -1e-3)
    found = noise.quantised(rows)
    assert max(exact_squares(found)) <= noise.radius**2 < 2**62
    assert noise.radius >= 32 * math.sqrt(d)


def test_the_lattice_is_fine_and_the_table_bounded():
    for d in (1, 10, 1000, 100_000):
        for multiplier in (0.3, 1.0, 7.0, 120.0):
            noise = LatticeNoise(d, 1.0, multiplier)
            assert noise.radius & (noise.radius - 1) == 0
            assert 4 <= noise.radius * multiplier <= MOST_SCALE
            assert noise.radius >= 32 * math.sqrt(d) or 2 * noise.radius * multiplier > 1 << 16
            assert noise.radius * multiplier <= 1 << 16 or noise.radius <= 4 * math.sqrt(d)


def worst_row(d: int, radius: int) -> np.ndarray:
    """A direction that rounding to the nearest bends most: half of the entries just below half a step."""
    goal = aim(d, radius, 2.0**-52)
    rest = math.sqrt(max(0.0, goal**2 - d / 2 * 0.499**2) / (d / 2))
    row = np.where(np.arange(d) % 2, 0.499, math.floor(rest) + 0.499)
    return row / np.linalg.norm(row)


@pytest.mark.parametrize("d", [1, 2, 7, 100, 10_000, 300_000])
def test_the_coarsest_lattice_that_is_allowed_keeps_the_direction(d):
    low, high = 1.0, 1e4
    try:
        LatticeNoise(d, 1.0, high)
        low = high
    except ParameterError:
        pass
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        try:
            LatticeNoise(d, 1.0, middle)
            low = middle
        except ParameterError:
            high = middle
    noise = LatticeNoise(d, 1.0, low)
    assert low > 20_000 / math.sqrt(d) or low == 1e4  # and much noise is allowed
    generator = np.random.default_rng(d)
    rows = np.concatenate([generator.standard_normal((3, d)), worst_row(d, noise.radius)[None], np.ones((1, d))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = noise.quantised(rows)
    cosines = (found * rows).sum(axis=1) / np.linalg.norm(found, axis=1)
    assert cosines.min() > 0.95
    assert (noise.quantised(rows * 30) == found).all()


def test_noise_that_leaves_nothing_of_a_gradient_is_refused():
    for d, multiplier in [(1_000_000, 200.0), (100_000, 300.0), (1 << 26, 10.0)]:
        with pytest.raises(ParameterError, match="a larger epsilon, fewer steps, a smaller batch or a smaller model"):
            LatticeNoise(d, 1.0, multiplier)
    with pytest.raises(ParameterError, match="larger epsilon"):
        LatticeNoise.calibrated(1_000_000, 1.0, epsilon=0.02, delta=1e-9, rate=1.0, steps=10)


def test_a_release_is_the_sum_with_gaussian_noise():
    # 60,000 coordinates: chi-squared in 42 cells and the variance, false alarm 1e-8 each.
    d, multiplier, clip = 60_000, 0.5, 3.0
    noise = LatticeNoise(d, clip, multiplier)
    total = np.full(d, 12_345)
    released = noise.release(total, 4, Stream.seeded(6))
    scores = (released / clip - 12_345 / noise.radius) / multiplier
    cells = np.linspace(-3.0, 3.0, 41)
    law = np.diff(np.concatenate([[0], norm.cdf(cells), [1]]))
    found = np.bincount(np.searchsorted(cells, scores), minlength=law.size)
    assert (((found - d * law) ** 2) / (d * law)).sum() < chi2.isf(1e-8, law.size - 1)
    assert abs(scores.var() - 1) < norm.isf(0.5e-8) * math.sqrt(2 / d)
    again = noise.release(total, 4, Stream.seeded(6))
    assert (again == released).all()
    assert (noise.release(total, 5, Stream.seeded(6)) != released).mean() > 0.99


def test_a_secure_stream_never_has_the_same_noise_twice():
    noise, stream = LatticeNoise(1000, 1.0, 1.0), Stream.secure()
    assert (noise.noise(0, stream) != noise.noise(0, stream)).mean() > 0.9


@pytest.mark.parametrize(("d", "rate", "steps", "delta"), [(650, 0.01, 1000, 1e-5), (5_000, 0.1, 300, 1e-9)])
def test_the_guarantee_is_that_of_the_accountant_and_the_table(d, rate, steps, delta):
    noise = LatticeNoise(d, 1.0, 1.1)
    found = noise.guarantee(rate, steps, delta)
    ideal = subsampled_gaussian(1.1, rate, steps, delta).epsilon
    assert found.delta == delta
    assert found.established == "bound"
    assert ideal <= found.epsilon <= ideal * 1.001
    # By definition: noise of the table over the radius, at a delta that leaves room for the table.
    assert noise.table.scale == Fraction(1.1) * noise.radius
    cost = (1 + Fraction(exp_above(found.epsilon))) * d * steps * noise.table.deviation
    own = subsampled_gaussian(float(noise.table.scale / noise.radius), rate, steps, float(Fraction(delta) - cost))
    assert own.epsilon <= found.epsilon


def test_the_promise_counts_adding_or_removing_one_record():
    # Two neighbouring batches differ by one vector of length K at most: multiplier = scale / K, not scale / 2K.
    noise = LatticeNoise(16, 1.0, 2.0)
    one = noise.quantised(np.eye(16)[:1])
    assert noise.radius - 2 <= math.sqrt(exact_squares(one)[0]) <= noise.radius
    apart = noise.radius / float(noise.table.scale)
    assert noise.guarantee(1.0, 1, 1e-5).epsilon == pytest.approx(
        subsampled_gaussian(1 / apart, 1.0, 1, 1e-5).epsilon, rel=1e-3
    )


def test_calibrated_noise_keeps_epsilon_and_is_hardly_more_than_needed():
    noise = LatticeNoise.calibrated(1000, 1.0, epsilon=1.0, delta=1e-5, rate=0.02, steps=500)
    assert noise.guarantee(0.02, 500, 1e-5).epsilon <= 1.0
    assert noise.multiplier <= 1.001 * noise_multiplier(1.0, 1e-5, 0.02, 500)
    with pytest.raises(ParameterError, match="steps"):
        noise.guarantee(0.02, 501, 1e-5)
    assert noise.guarantee(0.02, 500, 1e-5, simulated=True).simulated


@pytest.mark.parametrize(
    "change",
    [{"d": 0}, {"d": 2.5}, {"clip": 0.0}, {"clip": math.inf}, {"multiplier": 0.0}, {"multiplier": math.nan},
     {"steps": 0}],
    ids=str,
)  # fmt: skip
def test_what_has_no_meaning_is_refused(change):
    with pytest.raises(ParameterError):
        LatticeNoise(**{"d": 3, "clip": 1.0, "multiplier": 1.0} | change)


def test_only_sums_of_integers_are_released():
    noise = LatticeNoise(3, 1.0, 1.0)
    for total in (np.zeros(3), np.zeros(4, dtype=int), np.zeros((1, 3), dtype=int)):
        with pytest.raises(DomainError):
            noise.release(total, 0, Stream.seeded(1))
    for rows in (np.zeros((2, 4)), np.zeros(3), np.array([["a"] * 3])):
        with pytest.raises(DomainError):
            noise.quantised(rows)


def test_too_small_a_delta_for_the_table_is_refused():
    noise = LatticeNoise(1000, 1.0, 0.5)
    assert noise._table_cost(2.0, 30) == (1 + Fraction(exp_above(2.0))) * 1000 * 30 * noise.table.deviation
    assert noise.guarantee(0.5, 3, 1e-10).epsilon < 40
    with pytest.raises(ParameterError, match="table"):
        noise.guarantee(0.5, 20, 1e-10)  # epsilon 67: e^67 draws are too many for any table
    with pytest.raises(ParameterError, match="table"):
        LatticeNoise(1000, 1.0, 0.3).guarantee(0.5, 10_000, 1e-10)
