"""The papers' re-calibration: their formulas by hand, their probability put right, and honest standard errors.

Hand numbers are for y on [-1, 1] with L = 1.96 sigma. Lemma 4 and 5 of paper 000 hold for an item whose deviation is
beyond 1 or 2; all items gain only if all deviations are beyond, a product of tails. Simulations have fixed seeds and
bounds of `Z` standard errors: false alarms have probability below 1e-6.
"""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from dither import refine
from dither.core.estimate import MEAN, SHARES, Bounds
from dither.errors import HarmWarning
from refine.test_shrink import Z, some

ninety_five = norm.ppf(0.975)
quiet = pytest.mark.filterwarnings("ignore::dither.errors.HarmWarning")
PENALTIES = ("l1", "l2", "adaptive")


def odds_in(note: str) -> float:
    return float(note.split("with probability ")[1].split(". ")[0])


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


def check_odds() -> None:
    """At d = 100 and sigma = 0.5, where the papers say 0.9905, the right probability is nearly 0; and a warning."""
    found = some(np.full(100, 0.9), 0.5)
    claimed = 1 - (1 - 2 * norm.sf(2.0)) ** 100
    assert claimed == pytest.approx(0.9905, abs=1e-4)
    for penalty, limit in (("l1", 1.0), ("l2", 2.0), ("adaptive", 1.0)):
        with pytest.warns(HarmWarning, match="may do harm"):
            better = refine.hdr4me(found, penalty)
        assert odds_in(better.notes[-1]) < 1e-100
        with pytest.warns(HarmWarning):
            three = refine.hdr4me(some([0.1, 0.2, 0.3], [0.5, 1.0, 2.0]), penalty)
        tails = math.prod(2 * norm.sf(limit / sigma) for sigma in (0.5, 1.0, 2.0))
        assert odds_in(three.notes[-1]) == pytest.approx(tails, rel=0.01)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sure = refine.hdr4me(some(np.full(4, 30.0), 50.0), penalty)
        assert odds_in(sure.notes[-1]) == pytest.approx((2 * norm.sf(limit / 50)) ** 4, rel=0.01)


def test_the_probability_that_all_gain_is_a_product_of_tails():
    check_odds()


@quiet
def test_the_probability_is_met_where_it_says_so():
    """Given deviations beyond the limit, every item is closer; with means of 0.9 and sigma = 0.5 all never are."""
    rng = np.random.default_rng(1)
    for penalty, limit in (("l1", 1.0), ("l2", 2.0), ("adaptive", 1.0)):
        truth, deviation = rng.uniform(-1, 1, 500), rng.choice([-1, 1], 500) * rng.uniform(limit, 9, 500)
        better = refine.hdr4me(some(truth + deviation, rng.uniform(0.5, 5, 500)), penalty)
        assert (np.abs(better.value - truth) <= np.abs(deviation) + 1e-12).all()
        for _ in range(50):
            y = 0.9 + 0.5 * rng.normal(size=100)
            better = refine.hdr4me(some(y, 0.5), penalty)
            assert not (np.abs(better.value - 0.9) <= np.abs(y - 0.9)).all()


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
    assert odds_in(moved.notes[-1]) == odds_in(better.notes[-1])


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
