"""LDPVec keeps its promise for vectors of any length and direction, and its bias is what `expected` says, exactly."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dither.core.exact import exp_above, share_below
from dither.core.guarantee import NO_GUARANTEE
from dither.errors import (
    DitherError,
    DomainError,
    EmptyError,
    InvalidReportError,
    ParameterError,
    ReportError,
    TallyError,
)
from dither.learn.federated.ldpvec import LEVELS, LDPVec
from dither.learn.spherical import to_spherical

SMALL = [
    LDPVec(3, 2.0, base="Duchi"),
    LDPVec(3, 2.0, base="Duchi", beta=0.3),
    LDPVec(3, 2.0, base="Duchi", bounded=False),
    LDPVec(4, 6.0, base="Duchi", beta=0.05, clip=2.5),
    LDPVec(2, 1.0, base="Duchi"),
    LDPVec(3, 3.0, base="Piecewise", beta=0.7),
]
GAUSSIAN = [
    LDPVec(20, 8.0, 1e-5, base="Gaussian", beta=0.2),
    LDPVec(5, 2.0, 1e-5, base="Gaussian", clip=3.0),
    LDPVec(4, 9.0, 1e-3, base="Gaussian", bounded=False),
]
small = pytest.mark.parametrize("vec", SMALL, ids=repr)


def vectors(d: int, count: int = 12) -> np.ndarray:
    """Vectors of many lengths and directions: axes, ends of intervals, and some in between."""
    drawn = (
        np.random.default_rng(d).normal(size=(count, d)) * 10.0 ** np.arange(-count // 2, count - count // 2)[:, None]
    )
    return np.concatenate([drawn, np.eye(d), -np.eye(d), np.ones((1, d))])


def laws(vec: LDPVec, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every report, and for each row its probability: products of mixtures of the rows of one angle's channel."""
    matrix = vec._angle.channel().matrix().astype(float)
    places = np.linspace(-1, 1, len(matrix))
    each = np.stack([np.interp(vec.inside(rows), places, column) for column in matrix.T], axis=2)
    outputs = np.array(list(product(range(matrix.shape[1]), repeat=vec.d - 1)))
    reports = np.zeros(len(outputs), dtype=vec.mechanism.dtype)
    reports["value"] = outputs.reshape(reports["value"].shape)
    law = np.ones((len(rows), len(outputs)))
    for angle in range(vec.d - 1):
        law *= each[:, angle][:, outputs[:, angle]]
    return reports, law


# What is promised --------------------------------------------------------------------------------------------------


@pytest.mark.wide
@small
def test_no_two_vectors_of_any_length_are_told_apart_by_more_than_epsilon(vec):
    _, law = laws(vec, vectors(vec.d))
    assert law.sum(axis=1) == pytest.approx(1.0)
    ratios = law[:, None] / law[None, :]
    assert ratios.max() <= exp_above(vec.epsilon) * (1 + 1e-9)
    assert vec.guarantee.epsilon <= vec.epsilon


@small
def test_the_length_of_a_vector_is_not_in_its_report(vec):
    rows = np.random.default_rng(1).normal(size=(50, vec.d))
    sent = [vec.randomize(scale * rows, seed=3).tobytes() for scale in (1.0, 0.25, 2.0**40)]
    assert len(set(sent)) == 1
    assert vec.mechanism.dtype.names == ("value",)  # the angles, and nothing else
    assert np.linalg.norm(vec.decode(vec.randomize(rows, seed=3)), axis=1) == pytest.approx(vec.clip)


@pytest.mark.parametrize("base", ["Piecewise", "Laplace", "Duchi"])
def test_an_angle_has_its_share_of_the_budget(base):
    vec = LDPVec(101, 5.0, base=base)
    assert vec.mechanism.part(7).epsilon == share_below(5.0, 100)  # type: ignore[attr-defined]
    assert 4.99 < vec.guarantee.epsilon <= 5.0


def test_gaussian_angles_have_the_sensitivity_of_all_together():
    vec = LDPVec(50, 2.0, 1e-5, base="Gaussian")
    assert (vec.guarantee.epsilon, vec.guarantee.established) == (2.0, "bound")
    assert 0 < vec.guarantee.delta <= 1e-5
    alone = LDPVec(2, 2.0, 1e-5, base="Gaussian")
    noise = [each._radius**2 * each.mechanism.reading.variance for each in (vec, alone)]  # type: ignore[attr-defined]
    assert noise[0] / noise[1] == pytest.approx(49, rel=0.01)
    rows = vectors(50, 30)
    assert np.linalg.norm(vec.inside(rows), axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize("beta", [1.0, 0.5, 0.05])
def test_angles_are_clipped_to_fixed_intervals(beta):
    vec = LDPVec(5, 1.0, beta=beta)
    rows = vectors(5, 40)
    inside = vec.inside(rows)
    assert np.abs(inside).max() <= 1
    angles = to_spherical(vec.clipped(rows))[1]
    assert np.abs(angles[:, :-1] - math.pi / 2).max() <= beta * math.pi / 2 + 1e-9
    assert np.abs(angles[:, -1]).max() <= beta * math.pi + 1e-9
    if beta < 1:
        assert np.abs(inside).max() == 1
    else:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(vec.clipped(rows), rows / lengths, atol=1e-9)


def test_what_has_no_direction_counts_as_the_middle():
    vec = LDPVec(3, 1.0)
    bad = [[0.0, 0.0, 0.0], [np.nan, 1.0, 1.0], [np.inf, 0.0, 0.0], [1.0, -np.inf, np.nan]]
    assert not vec.inside(bad).any()
    assert vec.inside([[1e308, 1e308, -1e308]]) == pytest.approx(vec.inside([[1.0, 1.0, -1.0]]))
    centred = LDPVec(3, 1.0, centred=True)
    assert not centred.expected(bad).any()


# What comes out ----------------------------------------------------------------------------------------------------


@small
def test_the_mean_report_is_exact(vec):
    rows = vectors(vec.d)
    reports, law = laws(vec, rows)
    decoded = vec.decode(reports)
    np.testing.assert_allclose(law @ decoded - vec._nowhere, vec.expected(rows), atol=1e-9 * vec.clip)
    directions = vec.clip * rows / np.linalg.norm(rows, axis=1, keepdims=True)
    distance = ((decoded - vec._nowhere)[None] - directions[:, None]) ** 2
    assert vec.error(rows) == pytest.approx((law * distance.sum(axis=2)).sum(axis=1).max())


@pytest.mark.wide
@pytest.mark.parametrize("vec", [*SMALL, LDPVec(3, 3.0, base="Laplace"), *GAUSSIAN], ids=repr)
def test_an_estimate_is_the_expected_one(vec):
    row = np.random.default_rng(5).normal(size=vec.d)
    estimate = vec.estimate(vec.tally(vec.randomize(np.tile(row, (20_000, 1)), seed=11)))
    apart = np.abs(estimate.value - vec.expected(row)[0]) - vec.clip / LEVELS
    assert (apart <= 6.5 * estimate.stderr + 1e-12).all()  # 2.6e-10 a coordinate: below 1e-7 for the file
    assert estimate.guarantee == NO_GUARANTEE
    assert any("biased" in note.lower() for note in estimate.notes)


def test_the_last_coordinates_vanish_first():
    vec = LDPVec(40, 4.0, centred=False)
    ends = np.eye(40)[[0, 5, 20]]
    along = (vec.expected(ends) * ends).sum(axis=1)
    assert along[0] > 10 * along[1] > 100 * along[2] > 0
    assert (LDPVec(40, 4000.0, base="Duchi").cosine(np.eye(40)[[0]]) > 0.99).all()


def test_the_form_in_print_is_biased_to_nothing():
    """Without bounds, Laplace noise on a wide lattice of powers of two is a number of whole turns: no direction."""
    vec = LDPVec(100, 1.0, base="Laplace", bounded=False)
    assert np.abs(vec.expected(np.ones(100)) - vec.expected(-np.ones(100))).max() < 1e-9
    assert vec.cosine(np.eye(100)[[3]])[0] == pytest.approx(0.0, abs=1e-9)


# Tallies -----------------------------------------------------------------------------------------------------------


def test_tallies_are_whole_numbers_and_merge_to_the_bit():
    vec = LDPVec(6, 3.0, clip=0.1)
    reports = vec.randomize(np.random.default_rng(2).normal(size=(999, 6)), seed=1)
    whole = vec.tally(reports)
    parts = [vec.tally(reports[first : first + 100]) for first in range(0, 999, 100)]
    assert sum(parts[1:], parts[0]).to_bytes() == whole.to_bytes()
    assert whole.counts.dtype == np.int64
    np.testing.assert_array_equal(vec.mean(reports), vec.estimate(whole).value)
    assert whole.simulated
    assert not vec.tally(vec.randomize(np.ones((2, 6)))).simulated
    assert vec.estimate(vec.tally(vec.randomize(np.ones((2, 6))))).guarantee == vec.guarantee


def test_what_is_not_its_own_is_refused():
    vec, other = LDPVec(6, 3.0, base="Laplace"), LDPVec(6, 3.0, base="Laplace", beta=0.9)
    reports = vec.randomize(np.ones((3, 6)), seed=1)
    with pytest.raises(TallyError):
        other.estimate(vec.tally(reports))
    with pytest.raises(EmptyError):
        vec.estimate(vec.tally(reports[:0]))
    forged = np.array(reports)
    forged["value"][1, 2] = np.iinfo(forged["value"].dtype).max
    with pytest.raises(ReportError):
        vec.tally(forged)
    with pytest.raises(DomainError):
        vec.randomize(np.ones((3, 5)))
    with pytest.raises(DomainError):
        vec.randomize([["a"] * 6])


@pytest.mark.parametrize(
    "wrong",
    [
        {"d": 1},
        {"epsilon": 0.0},
        {"clip": 0.0},
        {"clip": math.inf},
        {"beta": 0.0},
        {"beta": 1.5},
        {"base": "GRR(k=4)"},
        {"base": "Gaussian"},
        {"base": None},
        {"base": "Hybrid"},
        {"base": "Gaussian", "delta": 1.0},
    ],
)
def test_parameters_without_meaning_are_refused(wrong):
    with pytest.raises(DitherError):
        LDPVec(**{"d": 5, "epsilon": 1.0, **wrong})  # type: ignore[arg-type]


def test_a_channel_that_is_too_fine_is_said_to_be():
    vec = LDPVec(3, 30.0)
    with pytest.raises(ParameterError):
        vec.expected(np.random.default_rng(0).normal(size=(1000, 3)))
    assert Fraction(vec.guarantee.epsilon) <= 30


@pytest.mark.wide
@pytest.mark.parametrize(("base", "delta", "d"), [("Piecewise", 0.0, 150_000), ("Gaussian", 1e-5, 616_610)])
def test_angles_of_a_long_update(base, delta, d):
    """Up to as many as the perceptron of 001 section 6.3 has: certified, tallied, and every report of norm `clip`."""
    angles = LDPVec(d, 48.5, delta, clip=0.1, base=base, beta=0.05)
    assert angles.guarantee.epsilon <= 48.5
    reports = angles.randomize(np.random.default_rng(1).normal(size=(2, angles.d)), seed=1)
    np.testing.assert_allclose(np.linalg.norm(angles.decode(reports), axis=1), 0.1, rtol=1e-9)
    assert angles.tally(reports).counts.shape == (2, angles.d)
    assert 0 < angles.error() < 0.05


def test_reports_that_no_device_sent_are_refused():
    angles = LDPVec(4, 3.0)
    reports = angles.randomize(np.eye(4), seed=1)
    wrong = reports.copy()
    wrong["value"][2, 1] = angles._scores.size
    with pytest.raises(InvalidReportError, match="no honest device"):
        angles.tally(wrong)
    with pytest.raises(ReportError, match="another mechanism"):
        angles.tally(LDPVec(4, 2.0).randomize(np.eye(4), seed=1))
    with pytest.raises(ReportError):
        angles.tally(np.zeros(0))
    assert angles.tally(reports).simulated
    assert not angles.tally(reports[:0]).simulated
