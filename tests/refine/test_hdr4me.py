"""The papers' re-calibration: their formulas by hand, what it changes, and honest standard errors.

Hand numbers are for y on [-1, 1] with L = 1.96 sigma. Stein's formulas, of the first and of the second order, are
checked by integrating over the normal law of y. Simulations have fixed seeds and bounds of `Z` standard errors, or
binomial ones: false alarms have probability below 1e-6.
"""

import importlib
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

from dither import refine
from dither.core.covariance import Covariance
from dither.core.estimate import MEAN, SHARES, Bounds
from dither.errors import HarmWarning
from refine.test_shrink import Z, some

ninety_five = norm.ppf(0.975)
quiet = pytest.mark.filterwarnings("ignore::dither.errors.HarmWarning")
PENALTIES = ("l1", "l2", "adaptive")


hdr4me = importlib.import_module("dither.refine.hdr4me")  # the function hides its module


def change_in(note: str) -> tuple[float, float]:
    """The change and its standard error, as they are said."""
    found = re.search(r"changes by ([+-][\d.]+)% by Stein's estimate, with a standard error of ([\d.]+)%", note)
    assert found is not None
    return float(found[1]) / 100, float(found[2]) / 100


@quiet
def test_l1_is_equation_34():
    found = refine.hdr4me(some([0.9, -0.9, 0.1, -3.0], [0.1, 0.1, 0.1, 1.0]), "l1")
    np.testing.assert_allclose(found.value, [0.9 - 0.196, -0.9 + 0.196, 0.0, -3 + 1.96], atol=1e-4)
    narrow = refine.hdr4me(some([0.9], [0.1]), "l1", confidence=0.5)
    np.testing.assert_allclose(narrow.value, [0.9 - 0.06745], atol=1e-5)


@quiet
def test_l2_is_equation_42():
    """w = L / 2 for the largest mean, so y is divided by L + 1: 1.196 and 2.96."""
    found = refine.hdr4me(some([0.9, -0.9, 0.0, -3.0], [0.1, 0.1, 0.1, 1.0]), "l2")
    np.testing.assert_allclose(found.value, [0.75251, -0.75251, 0.0, -1.01352], atol=1e-4)


def check_adaptive() -> None:
    """The average of y, L1 and L2 with the probabilities of a deviation within 1, up to 2, and beyond."""
    y, sigma = np.array([0.9, -2.5, 0.4, 5.0]), np.array([0.2, 1.0, 0.8, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HarmWarning)
        soft, divided, mixed = (refine.hdr4me(some(y, sigma), each).value for each in ("l1", "l2", "adaptive"))
    one, two = 2 * norm.sf(1 / sigma), 2 * norm.sf(2 / sigma)
    np.testing.assert_allclose(mixed, (1 - one) * y + (one - two) * soft + two * divided, rtol=1e-9)


def test_adaptive_is_the_weighted_average():
    check_adaptive()


def check_stein_change(penalty: str, sigma: float) -> None:
    """Integrated over y: the estimate is the change in squared error, and its spread about that is what it says.

    The slope of L1 jumps: with steps of .009 that costs less than the tolerance.
    """
    z = np.linspace(-9, 9, 2001)
    density = norm.pdf(z) * (z[1] - z[0])
    for truth in (-1.0, 0.0, 0.3, 0.9):
        y = truth + sigma * z
        noise = np.full_like(y, sigma)
        found, slope = hdr4me._shrunk(penalty, y, noise, ninety_five * noise)
        each = [
            hdr4me._risk_change(*np.array([[a], [b], [sigma]]), None) for a, b in zip(found - y, slope - 1, strict=True)
        ]
        change, stderr = np.array(each).T
        loss = ((found - truth) ** 2 - (y - truth) ** 2) / sigma**2
        assert density @ change == pytest.approx(density @ loss, abs=0.01)
        assert density @ stderr**2 == pytest.approx(density @ (change - loss) ** 2, abs=0.03)


@pytest.mark.parametrize("sigma", [0.4, pytest.param(1.5, marks=pytest.mark.wide)])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_change_and_its_error_are_those_of_stein(penalty, sigma):
    check_stein_change(penalty, sigma)


def check_correlated_items() -> None:
    """Two opposite items, and three that compete: the spread of the estimate by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    for size, shared in ((2, -0.95), (3, -0.45), (2, 0.8)):
        correlation = Covariance(np.full(size, 1 - shared), np.ones((size, 1)), np.array([[shared]]))
        root = np.linalg.cholesky(correlation.dense())
        grid = np.stack(np.meshgrid(*[nodes] * size), axis=-1).reshape(-1, size) @ root.T
        density = np.prod(np.stack(np.meshgrid(*[weights] * size), axis=-1).reshape(-1, size), axis=1)
        density /= density.sum()
        sigma, truth = np.full(size, 0.8), np.linspace(-0.4, 0.9, size)
        y = truth + sigma * grid
        found, slope = hdr4me._shrunk("l2", y, np.broadcast_to(sigma, y.shape), ninety_five * sigma)
        steps = zip(found - y, np.broadcast_to(slope - 1, y.shape), strict=True)
        change, stderr = np.array([hdr4me._risk_change(step, own, sigma, correlation) for step, own in steps]).T
        loss = ((found - truth) ** 2 - (y - truth) ** 2).sum(axis=1) / (sigma**2).sum()
        assert density @ change == pytest.approx(density @ loss, rel=1e-9)
        assert density @ stderr**2 == pytest.approx(density @ (change - loss) ** 2, rel=1e-9)


def test_correlated_items():
    check_correlated_items()


def check_warnings() -> None:
    """Where means are far from the centre there is a warning; where the noise is large there is none, and a gain.

    The product of tails is nearly 0 in both.
    """
    rng = np.random.default_rng(1)
    far, near = np.full(900, 0.9), np.where(np.arange(900) < 90, 0.9, 0.0)
    for penalty in PENALTIES:
        for sigma, truth, harms in ((0.3, far, True), (1.0, near, False)):
            assert np.prod(hdr4me._beyond(1.0, np.full(900, sigma))) < 1e-40
            if (penalty, harms) == ("adaptive", True):
                continue  # it hardly moves there
            for _ in range(20):
                y = truth + sigma * rng.normal(size=truth.size)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    better = refine.hdr4me(some(y, sigma), penalty)
                assert [each.category for each in caught] == [HarmWarning] * harms
                shrank = np.mean((better.value - truth) ** 2) < np.mean((y - truth) ** 2)
                assert shrank != harms
                change, stderr = change_in(better.notes[-1])
                assert (change > 2 * stderr) == harms


def test_a_warning_comes_with_significant_harm_alone():
    check_warnings()


@quiet
def test_on_the_boundary_a_warning_is_rare():
    """All means at the place where L2 changes nothing on average: 2% of warnings, at most 9% in 300 runs (1e-6)."""
    rng, sigma = np.random.default_rng(2), 0.7
    factor = 1 / (1 + ninety_five * sigma)
    truth = sigma * math.sqrt((1 - factor**2) / (1 - factor) ** 2)
    runs, rate = 300, 0.03
    most = int(binom.isf(1e-6, runs, rate))
    warned = 0
    for _ in range(runs):
        y = truth + sigma * rng.normal(size=200)
        found, slope = hdr4me._shrunk("l2", y, np.full(200, sigma), np.full(200, ninety_five * sigma))
        warned += hdr4me._risk_change(found - y, slope - 1, np.full(200, sigma), None).harms
    assert warned <= most


def test_known_correlations_are_used():
    """Two opposite items have the same step: the error of the estimate is larger than of independent ones."""
    y, sigma = np.array([0.9, -0.9]), np.full(2, 0.5)
    opposite = Covariance(np.full(2, 2.0), np.ones((2, 1)), np.array([[-1.0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HarmWarning)
        plain = refine.hdr4me(some(y, sigma), "l2")
        known = refine.hdr4me(replace(some(y, sigma), correlation=opposite), "l2")
    assert change_in(plain.notes[-1])[0] == change_in(known.notes[-1])[0]
    assert change_in(known.notes[-1])[1] == pytest.approx(change_in(plain.notes[-1])[1] * math.sqrt(2), rel=0.01)


@quiet
def test_beyond_the_limit_every_item_is_closer():
    """Lemmas 4 and 5 of 000: given deviations beyond 1 (2 for L2) every item is closer."""
    rng = np.random.default_rng(1)
    for penalty, limit in (("l1", 1.0), ("l2", 2.0), ("adaptive", 1.0)):
        truth, deviation = rng.uniform(-1, 1, 500), rng.choice([-1, 1], 500) * rng.uniform(limit, 9, 500)
        better = refine.hdr4me(some(truth + deviation, rng.uniform(0.5, 5, 500)), penalty)
        assert (np.abs(better.value - truth) <= np.abs(deviation) + 1e-12).all()


@quiet
@pytest.mark.parametrize("penalty", PENALTIES)
def test_units_do_not_matter(penalty):
    y, sigma = np.array([0.9, -2.5, 0.4, 5.0]), np.array([0.2, 1.0, 0.8, 3.0])
    better = refine.hdr4me(some(y, sigma), penalty)
    bare = refine.hdr4me(some(y, sigma, None), penalty)
    np.testing.assert_array_equal(bare.value, better.value)
    moved = refine.hdr4me(some(60 + 40 * y, 40 * sigma, Bounds(20.0, 100.0)), penalty)
    np.testing.assert_allclose((moved.value - 60) / 40, better.value, atol=1e-12)
    np.testing.assert_allclose(moved.stderr / 40, better.stderr, rtol=1e-12)
    assert change_in(moved.notes[-1]) == change_in(better.notes[-1])


@quiet
@pytest.mark.parametrize("penalty", PENALTIES)
def test_frequencies_shrink_to_zero(penalty):
    found = some([0.9, 0.02, -0.03, 0.0], 0.1, SHARES)
    better = refine.hdr4me(found, penalty)
    assert (np.abs(better.value) <= np.abs(found.value)).all()
    np.testing.assert_array_equal(better.value, refine.hdr4me(some(found.value, 0.1, MEAN), penalty).value)
    counts = refine.hdr4me(some(500 * found.value, 50.0, Bounds(0.0, 500.0, 500.0)), penalty)
    np.testing.assert_allclose(counts.value / 500, better.value, atol=1e-12)


def check_errors(penalty: str, sigma: float, size: int = 100, draws: int = 200) -> None:
    """The standard errors are, on average over draws, the mean squared error that happened."""
    rng = np.random.default_rng(3)
    truth, gap = rng.uniform(-1, 1, size), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HarmWarning)
        for _ in range(draws):
            better = refine.hdr4me(some(truth + sigma * rng.normal(size=size), sigma), penalty)
            gap.append(float(np.min(better.stderr) ** 2 - np.mean((better.value - truth) ** 2)))
    assert abs(np.mean(gap)) <= Z * np.std(gap) / math.sqrt(draws)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("sigma", [0.3, 0.7, 2.0])
def test_standard_errors_are_root_mean_squared_errors(penalty, sigma):
    check_errors(penalty, sigma)
