"""UnitVector: its codebooks, the moments of their products, the error against PrivUnit's, and estimates end to end.

The contract suite runs the sampler over all tapes, and audits and certificates have tests of their own. Statistical
tests here have fixed seeds, and together a false alarm below 1e-6.
"""

import math
import zlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, norm

import dither
from dither import testing as checks
from dither.core.exact import exp_below
from dither.core.randomness import Stream
from dither.errors import DomainError, ParameterError
from dither.kernels import with_numba, with_numpy
from dither.mechanisms import BallGaussian, codebooks
from dither.mechanisms.codebooks import (
    LENGTH,
    Drawn,
    Products,
    Rotated,
    best,
    codebook,
    seeds_of_parts,
    sizes,
    whole_vectors,
)
from dither.mechanisms.unitvector import MOST_DIMENSIONS, best_codewords

ALARM = 1e-8


def seeds(count: int, first: int = 0) -> np.ndarray:
    return np.random.default_rng(first).integers(0, 1 << 63, count).astype(np.uint64)


def directions(count: int, d: int) -> np.ndarray:
    vectors = np.random.default_rng(count).standard_normal((count, d))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# PrivUnit ------------------------------------------------------------------------------------------------------------


def privunit(d: int, epsilon: float) -> float:
    """The least error of PrivUnit over all caps of share f and mean product m: kappa = (E-1) f m / (1 + f (E-1))."""
    gain = math.expm1(epsilon)
    density = math.exp(special.gammaln(d / 2) - special.gammaln((d - 1) / 2)) / math.sqrt(math.pi)

    def error(t: float) -> float:
        share = 0.5 * special.betainc((d - 1) / 2, 0.5, 1 - t * t)
        kappa = gain * density * (1 - t * t) ** ((d - 1) / 2) / (d - 1) / (1 + share * gain)
        return 1 / kappa**2 - 1

    found: Any = minimize_scalar(error, bounds=(0, min(0.99, 6 / math.sqrt(d))), method="bounded")
    return found.fun


@pytest.mark.parametrize("epsilon", range(1, 9))
def test_within_ten_per_cent_of_privunit(epsilon):
    mechanism = dither.UnitVector(d=650, epsilon=float(epsilon))
    assert privunit(650, epsilon) * (1 - 1e-6) <= mechanism.reading.error < 1.02 * privunit(650, epsilon)
    assert (mechanism.law.outputs, mechanism.parts) == (2048, 1)


@pytest.mark.parametrize("d", [2, 3, 5, 10, 32, 63, 64, 100, 128, 300])
def test_other_dimensions_are_near_privunit(d):
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        favoured, size, error = best(d, epsilon)
        assert 1 - 1e-4 <= error / privunit(d, epsilon) < 1.1
        assert 1 <= favoured <= size
        assert size in sizes(d)


def test_the_choice_of_favoured_codewords_is_the_best_there_is():
    for d, epsilon in ((2, 1.0), (5, 4.0), (64, 6.0), (100, 0.3)):
        favoured, size, error = best(d, epsilon)
        ratio = math.exp(epsilon)
        book = codebook(d, size)
        lows = {w: 1 / (w * ratio + 2 * size - w) for w in range(1, size + 1)}
        every = {w: Products.of(book, w, ratio * low, low).error for w, low in lows.items()}
        assert min(every.values()) == error == every[favoured]


def test_parts_are_used_when_they_pay():
    assert [best_codewords(650, epsilon) for epsilon in (1.0, 8.0, 12.0, 16.0, 40.0)] == [1, 1, 1, 2, 3]
    one, two = (dither.UnitVector(d=650, epsilon=16.0, parts=parts).reading.error for parts in (1, 2))
    assert two < one
    assert dither.UnitVector(d=650, epsilon=16.0).parts == 2
    assert dither.UnitVector(d=100, epsilon=1000.0).reading.error < 1.0
    for epsilon in (12.0, 20.0, 30.0):
        alone = dither.UnitVector(d=650, epsilon=epsilon)
        assert alone.reading.error < 1.4 * privunit(650, epsilon)  # set after looking: it guards, and proves nothing
        assert alone.reading.error < 1.1 * privunit(650, epsilon / (alone.parts or 1)) / (alone.parts or 1)


# Products ------------------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize(("d", "size", "favoured"), [(2, 64, 52), (3, 32, 32), (10, 128, 59), (40, 256, 3), (5, 32, 1)])
def test_the_largest_of_independent_coordinates(d, size, favoured):
    products = np.abs(directions(2000 * size, d)[:, 0]).reshape(2000, size)
    largest = np.sort(products, axis=1)[:, -favoured:]
    for power, stated in enumerate(Drawn(d, size).tops(favoured), start=1):
        found = (largest**power).sum(axis=1)
        assert abs(found.mean() - stated) < norm.isf(ALARM) * found.std() / 2000**0.5


@pytest.mark.parametrize(("size", "favoured"), [(64, 64), (64, 20), (256, 3), (256, 110)])
def test_the_largest_coordinates_of_a_point(size, favoured):
    largest = np.sort(np.abs(directions(4000, size)), axis=1)[:, -favoured:]
    for power, stated in enumerate(Rotated(size, size).tops(favoured), start=1):
        found = (largest**power).sum(axis=1)
        assert abs(found.mean() - stated) < norm.isf(ALARM) * max(found.std() / 4000**0.5, 1e-9)


def test_an_exact_largest():
    # In two dimensions angles are even: the mean of the largest of N cosines is an integral with a closed form.
    for size in (4, 64, 1024):
        angle = np.linspace(0, math.pi / 2, 2_000_001)
        law = np.cos(angle) * size * (1 - 2 * angle / math.pi) ** (size - 1) * 2 / math.pi
        assert Drawn(2, size).tops(1)[0] == pytest.approx(np.trapezoid(law, angle), abs=2e-6)
        assert Drawn(2, size).tops(size)[0] == pytest.approx(size * 2 / math.pi, rel=1e-6)


@pytest.mark.parametrize("d", [64, 200])
@pytest.mark.parametrize("kind", ["one", "three", "alike", "walsh", "any"])
def test_rotations_have_no_bias(d, kind):
    """Mean of the exact conditional mean given the seed, along the vector and across (where ties would show)."""
    signs = 1.0 - 2.0 * (np.bitwise_count(np.arange(d) & 37) & 1)
    vector = {
        "one": np.eye(d)[0],
        "three": np.eye(d)[0] + 0.5 * np.eye(d)[1] + 0.25 * np.eye(d)[2],
        "alike": np.ones(d),
        "walsh": signs,
        "any": directions(1, d)[0],
    }[kind]
    vector = vector / np.linalg.norm(vector)
    mechanism = dither.UnitVector(d=d, epsilon=1.0)
    book, law = mechanism.book, mechanism.law
    cubed = vector**3 - vector**3 @ vector * vector
    number, length = 60, np.linalg.norm(cubed)
    along, across = [], []
    rows = np.repeat(whole_vectors(vector[None])[0], law.favoured, axis=0)
    for seed in seeds(number, d):
        own = np.full(law.favoured, seed)
        total = book.sums(own, book.choose(rows, own, np.arange(law.favoured), law.favoured))[0]
        mean = (law.high - law.low) / law.total * mechanism.reading.scale * total
        along.append(mean @ vector - 1)
        across.append(mean @ cubed / length if length > 1e-9 else 0.0)
    for found in (along, across):
        assert abs(np.mean(found)) < norm.isf(ALARM) * max(float(np.std(found)) / number**0.5, 1e-12) + 1e-3


def test_ties_would_leave_a_bias(monkeypatch):
    """Without the nudge a vector 4 : 2 : 1 has many equal products, and rows of low number are no random choice."""
    direction, size = np.zeros((1, 64)), 256
    direction[0, :3] = 1 << 23, 1 << 22, 1 << 21
    made = with_numpy._rotated_products(np.repeat(direction, 50, axis=0), seeds(50), size)
    assert all(len(np.unique(np.abs(row))) > size - 3 for row in made)
    monkeypatch.setattr(with_numpy, "_nudges", lambda bits: 0.0 * bits)
    plain = with_numpy._rotated_products(np.repeat(direction, 50, axis=0), seeds(50), size)
    assert np.mean([len(np.unique(np.abs(row))) for row in plain]) < 0.8 * size


# Codebooks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("book", [Drawn(2, 32), Drawn(63, 64), Rotated(64, 256), Rotated(300, 512)])
def test_rows_have_the_length_they_say(book):
    rows = np.array([book.row(5, codeword) for codeword in range(0, 2 * book.size, 7)])
    lengths = np.linalg.norm(rows, axis=1) / book.length
    seen = book.d / book.dimensions
    np.testing.assert_allclose(lengths, math.sqrt(seen), rtol=2e-3 if isinstance(book, Drawn) else 0.45)
    assert (lengths**2).mean() == pytest.approx(seen, rel=0.06)
    np.testing.assert_array_equal(book.row(5, 3), -book.row(5, 3 + book.size))
    assert (book.row(5, 3) != book.row(6, 3)).any()


def test_a_rotation_is_one():
    book = Rotated(64, 64)
    matrix = np.array([book.row(9, row) for row in range(64)])
    np.testing.assert_array_equal(matrix @ matrix.T, 64**3 * np.eye(64, dtype=np.int64))


def test_the_quantiles_are_what_they_always_were():
    table = codebooks._quantiles()
    assert (table != 0).all()
    assert (table == -table[::-1]).all()
    assert table.astype(np.float64).var() / 2**30 == pytest.approx(1.0, abs=1e-4)
    assert zlib.crc32(table.astype("<i8").tobytes()) == CHECKSUM


CHECKSUM = 3142683358


def test_whole_directions():
    vectors = np.vstack(
        [directions(20, 7) * np.linspace(0.05, 1, 20)[:, None], np.zeros((1, 7)), np.full((1, 7), 5e-324)]
    )
    found, lengths = whole_vectors(vectors)
    assert (found == np.rint(found)).all()
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), LENGTH, rtol=1e-6)
    np.testing.assert_allclose(found[:20] / LENGTH * lengths[:20, None], vectors[:20], atol=1e-7)
    np.testing.assert_allclose(lengths[:20], np.linspace(0.05, 1, 20), rtol=1e-12)
    assert lengths[20] == 0
    assert found[20].tolist() == [LENGTH] + [0] * 6
    assert len(set(found[21])) == 1
    assert whole_vectors(np.array([[1.0 + 1e-12, 0.0]]))[1][0] == 1.0


def test_parts_have_codebooks_of_their_own():
    found = seeds_of_parts(np.arange(1000, dtype=np.uint64), 4)
    assert len(np.unique(found)) == 4000
    assert seeds_of_parts(np.arange(3, dtype=np.uint64), 1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("d", [3, 65])
def test_favours_agrees_with_the_choice(d):
    mechanism = dither.UnitVector(d=d, epsilon=2.0, parts=2)
    vector = directions(1, d)[0]
    direction = whole_vectors(vector[None])[0]
    reports = mechanism.randomize(np.repeat(vector[None], 30, axis=0), seed=4)
    for part in (0, 1):
        said = mechanism.favours(vector, reports, part)
        for report, favoured in zip(reports, said, strict=True):
            assert (report["value"][part] in mechanism.favoured(direction, int(report["seed"]))[part]) == favoured
    opposite = mechanism.favours(-vector, reports)
    assert not (mechanism.favours(vector, reports) & opposite).any()


@pytest.mark.parametrize("parts", [1, 2])
def test_the_sampler_on_rotations_over_all_tapes(monkeypatch, parts):
    monkeypatch.setattr(codebooks, "FIRST_ROTATED", 2)
    monkeypatch.setattr(codebooks, "_LEAST_ROTATED", 4)
    mechanism = dither.UnitVector(d=2, epsilon=1.0, parts=parts)
    assert isinstance(mechanism.book, Rotated)
    assert checks.check_sampler(mechanism)


# Estimates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "epsilon", "n"), [(2, 1.0, 20_000), (10, 8.0, 4000), (63, 3.0, 3000), (64, 8.0, 6000), (650, 20.0, 1500)]
)
def test_errors_are_as_stated(d, epsilon, n):
    """Squared errors of a mean over its stated standard errors, and the whole against the moments; both chi-square."""
    mechanism = dither.UnitVector(d=d, epsilon=epsilon)
    users = directions(n, d) * 0.3 + directions(1, d) * 0.6
    users /= np.maximum(1, np.linalg.norm(users, axis=1, keepdims=True))
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(users, seed=d)))
    off = estimate.value - users.mean(axis=0)
    z = off / estimate.stderr
    assert chi2.ppf(ALARM, d) * 0.9 < z @ z < chi2.isf(ALARM, d) * 1.1
    predicted = mechanism.moments(users).variance.mean(axis=0) / n
    assert (estimate.stderr**2 > 0.9 * predicted).mean() > 0.85
    assert estimate.stderr**2 @ np.ones(d) == pytest.approx(predicted.sum(), rel=0.15)


@pytest.mark.wide
def test_the_error_of_one_report_is_the_stated_one():
    """The mean of |score - v|^2 over 3,000 reports of a vector."""
    for d, epsilon in ((5, 4.0), (100, 6.0), (100, 24.0)):
        mechanism = dither.UnitVector(d=d, epsilon=epsilon)
        vector = directions(1, d)[0]
        reports = mechanism.randomize(np.repeat(vector[None], 3000, axis=0), seed=1)
        scores = np.array([mechanism.estimate(mechanism.tally(report)).value for report in reports])
        errors = np.square(scores - vector).sum(axis=1)
        assert abs(errors.mean() - mechanism.reading.error) < norm.isf(ALARM) * errors.std() / 3000**0.5
        assert mechanism.moments(vector).variance.sum() == pytest.approx(mechanism.reading.error, rel=1e-9)
        stated = mechanism.moments(vector)
        central = np.abs(scores - vector)
        for power, moment, slack in ((2, stated.variance[0], 1.2), (3, stated.third[0], 1.3)):
            found = (central**power).mean(axis=0)
            assert (found < slack * moment * (1 + 8 / 3000**0.5)).all()
            assert (found > moment / (slack * 1.6)).all()


@pytest.mark.wide
def test_short_vectors_have_the_right_mean_and_a_coin():
    mechanism = dither.UnitVector(d=4, epsilon=16.0)
    vector = np.array([0.2, 0.0, -0.3, 0.1])
    n = 20_000
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(np.repeat(vector[None], n, axis=0), seed=3)))
    assert (np.abs(estimate.value - vector) < norm.isf(ALARM) * estimate.stderr).all()
    length = np.linalg.norm(vector)
    found = mechanism.moments(vector).variance.sum()
    assert found == pytest.approx(mechanism.reading.error + (1 - length**2) / mechanism.number, rel=1e-6)
    np.testing.assert_allclose(estimate.stderr**2 * n, mechanism.moments(vector).variance[0], rtol=0.1)


def test_worst_variance_is_that_of_zero():
    mechanism = dither.UnitVector(d=6, epsilon=20.0, parts=3)
    zero = mechanism.moments(np.zeros(6)).variance.mean()
    assert mechanism.reading.worst_variance() == pytest.approx(zero)
    assert mechanism.reading.worst_variance(0.0) > zero
    for vector in directions(5, 6):
        assert mechanism.moments(vector).variance.mean() < zero


def test_one_report_has_an_error_bar():
    mechanism = dither.UnitVector(d=20, epsilon=3.0)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(np.eye(20)[:1], seed=1)))
    assert (estimate.stderr > 0.5).all()
    assert "directions" in estimate.explain()


def test_many_dimensions_are_feasible():
    mechanism = dither.UnitVector(d=100_000, epsilon=2.0)
    assert mechanism.law.outputs == 1 << 18
    tally = mechanism.tally(mechanism.randomize(np.full((2, 100_000), 100_000**-0.5), seed=1))
    assert tally.counts.shape == (2, 100_000)
    assert mechanism.book.shift == 10


def test_the_size_of_a_report():
    assert dither.UnitVector(d=650, epsilon=8.0).dtype.itemsize == 10
    assert dither.UnitVector(d=650, epsilon=20.0).dtype.itemsize == 8 + 2 * 2


# Behind the door ------------------------------------------------------------------------------------------------------


def spoiled(d: int) -> np.ndarray:
    """Rows that no domain would let in."""
    rows = np.zeros((9, d))
    rows[0] = math.nan
    rows[1, 0], rows[1, 1:] = math.nan, 0.5
    rows[2, -1], rows[3, 0], rows[4] = math.inf, -math.inf, math.inf
    rows[5] = 1e308
    rows[6, :2], rows[7], rows[8, 1] = (math.nan, math.inf), 5e-324, math.nan
    return rows


@pytest.mark.parametrize("settings", [{"d": 2, "epsilon": 1.0}, {"d": 5, "epsilon": 2.0, "parts": 2},
                                      {"d": 70, "epsilon": 2.0}], ids=str)  # fmt: skip
def test_what_is_not_finite_counts_as_zero_and_favours_as_many(settings):
    mechanism = dither.UnitVector(**settings)
    rows = spoiled(mechanism.d)
    clean = np.where(np.isfinite(rows), rows, 0.0)
    found, expected = (mechanism.drawn(np.repeat(each, 50, axis=0), Stream.seeded(3)) for each in (rows, clean))
    assert (found == expected).all()
    assert mechanism._valid(found).all()
    vectors, lengths = whole_vectors(rows)
    assert np.isfinite(vectors).all()
    assert ((lengths >= 0) & (lengths <= 1)).all()
    assert lengths[[0, 2, 5]].tolist() == [0.0, 0.0, 1.0]
    for vector in vectors:
        for favoured in mechanism.favoured(vector[None, :], seed=7):
            assert len(set(favoured)) == mechanism.law.favoured


# Parameters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 0, (1 << 20) + 1, 2.0])
def test_dimensions_that_there_are_not(d):
    with pytest.raises(ParameterError):
        dither.UnitVector(d=d, epsilon=1.0)


@pytest.mark.parametrize("parts", [0, 65, 1.5, True])
def test_parts_that_there_are_not(parts):
    with pytest.raises(ParameterError):
        dither.UnitVector(d=3, epsilon=1.0, parts=parts)


def test_codebooks_that_there_are_not():
    good = dither.UnitVector(d=70, epsilon=1.0)
    assert good.weights is not None
    high, low, favoured, _ = good.weights
    for changed in ((favoured, 384), (favoured, 511), (300, 512), (0, 512), (3, 64), (favoured, 1 << 22)):
        with pytest.raises(ParameterError):
            replace(good, weights=(high, low, *changed))


def test_the_guarantee_is_that_of_the_integers():
    mechanism = dither.UnitVector(d=5, epsilon=20.0, parts=4)
    assert mechanism.channel().ratio() == Fraction(mechanism.law.high, mechanism.law.low) ** 4
    assert mechanism.channel().ratio() <= exp_below(20.0)
    assert 20.0 - 1e-9 <= mechanism.guarantee.epsilon <= 20.0
    with pytest.raises(DomainError):
        mechanism.randomize(np.full((1, 5), 0.5))


def test_products_are_exact_in_as_many_dimensions_as_there_may_be():
    """Beyond 2^53 floats hold even numbers alone: products are multiples of four, and equal to those of integers."""
    size, seeds = MOST_DIMENSIONS, np.array([7], dtype=np.uint64)
    row = Rotated(size, size).row(seed=7, codeword=3)
    vector = whole_vectors(row[None] / np.linalg.norm(row))[0]  # along a row, so that its product is the largest
    bits = with_numpy._hashed(seeds, size)
    exact = (vector + with_numpy._nudges(bits))[0].astype(np.int64)
    for turn in range(3):
        exact *= with_numpy._signs(bits, turn)[0].astype(np.int64)
        width = 1
        while width < size:
            pairs = exact.reshape(-1, 2, width)
            exact = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
            width *= 2
    products = with_numpy._rotated_products(vector, seeds, size)[0]
    assert exact[3] > 1 << 54
    assert not (exact % 4).any()
    np.testing.assert_array_equal(products.astype(np.int64), exact)
    first = np.zeros(1, dtype=np.int64)
    for loops in (with_numpy, with_numba):
        assert loops.rotated_choice(vector, seeds, first, size, 1).tolist() == [3]


@pytest.mark.parametrize("make", [lambda d: dither.UnitVector(d, 8.0), lambda d: BallGaussian(d, 8.0, 1e-6)])
def test_a_report_of_a_long_vector_is_as_exact_as_it_says(make):
    """The squared distance e of a report has a standard deviation of 2 sqrt(e), about 1% of it: 8% are six and more."""
    mechanism = make(616_610)
    vector = np.random.default_rng(1).normal(size=(1, mechanism.d))
    vector /= np.linalg.norm(vector) * (1 + 1e-9)
    assert mechanism.guarantee.epsilon <= 8
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(vector, seed=3)))
    error = float(((found.value - vector[0]) ** 2).sum())
    assert error == pytest.approx(mechanism.reading.error, rel=0.08)
