"""What the domain tells: projections are compared with brute force, and never move away from any distribution.

Small cases are drawn by hypothesis. The nearest point is found by trying every set of entries that may be zero. Every
refusal is an error of the library, says what to do, and quotes no value.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dither
from dither import refine
from dither.core.estimate import SHARES, Bounds, Estimates, refinements
from dither.errors import DitherError
from estimation.test_simplex import nearest
from refine.test_shrink import some

numbers = st.floats(-3, 3, allow_nan=False).map(lambda number: round(number, 4))
vectors = st.lists(numbers, min_size=1, max_size=6).map(np.array)
seldom = settings(max_examples=60, deadline=None, derandomize=True)


def check_nearest(value: np.ndarray, total: float = 1.0) -> None:
    """`simplex` is the nearest, and `norm_sub` the same, whatever the standard errors."""
    found = some(value, np.linspace(0.05, 0.3, value.size), Bounds(0.0, total, total))
    wanted = nearest(value, total)
    for better in (refine.simplex(found), refine.norm_sub(found)):
        np.testing.assert_allclose(better.value, wanted, atol=1e-9 * total)
        assert (better.value >= 0).all()
        assert better.value.sum() == pytest.approx(total, abs=1e-9 * total)
        np.testing.assert_array_equal(better.stderr, found.stderr)
        assert better.original is found


@seldom
@given(vectors, st.sampled_from([1.0, 2.5, 1000.0]))
def test_the_nearest_distribution(value, total):
    check_nearest(value, total)


@seldom
@given(vectors, st.integers(0, 1000))
def test_never_farther_from_any_distribution(value, seed):
    truth = np.random.default_rng(seed).dirichlet(np.full(value.size, 0.5))
    for method in ("simplex", "norm_sub", "clip"):
        better = some(value, 0.1, SHARES).refine(method)
        assert np.sum((better.value - truth) ** 2) <= np.sum((value - truth) ** 2) + 1e-12


def test_clip_by_hand():
    better = refine.clip(some([-2.0, -1.0, 0.3, 1.5], math.nan))
    assert better.value.tolist() == [-1.0, -1.0, 0.3, 1.0]
    assert "2 of 4 moved" in better.notes[-1]
    assert refine.clip(some(np.float64(7.0), 1.0, Bounds(0.0, 5.0))).value == 5.0


def test_base_cut_by_hand():
    found = some([0.5, 0.19, -0.7, 0.21], 0.1, SHARES)
    better = refine.base_cut(found)
    assert better.value.tolist() == [0.5, 0.0, 0.0, 0.21]
    np.testing.assert_allclose(better.stderr, [0.1, math.hypot(0.1, 0.19), 0.1, 0.1])
    assert refine.base_cut(found, 0).value.tolist() == [0.5, 0.19, 0.0, 0.21]
    assert refinements.find("base_cut")(found, np.int64(3)).value.tolist() == [0.5, 0.0, 0.0, 0.0]
    assert not refine.base_cut(found, math.inf).value.any()


# Refusals ------------------------------------------------------------------------------------------------------------

SECRET = 0.7351


def check_refused(estimate, method: str, words: str, **options) -> None:
    """A dither error with these words, and no value."""
    with pytest.raises(DitherError, match=words) as caught:
        refinements.find(method)(estimate, **options)
    assert "7351" not in str(caught.value)


@pytest.mark.parametrize("method", ["simplex", "norm_sub", "base_cut"])
def test_means_are_not_frequencies(method):
    check_refused(some([SECRET, -SECRET], 0.1), method, "use clip or shrink for means")


@pytest.mark.parametrize("method", ["simplex", "norm_sub", "base_cut", "clip"])
def test_a_range_is_needed(method):
    check_refused(some([SECRET, -SECRET], 0.1, None), method, "range of this estimate is not known")


@pytest.mark.parametrize("method", ["auto", "shrink", "hdr4me", "clip"])
@pytest.mark.parametrize("bounds", [Bounds(1.0, 1.0), Bounds(SECRET, -1.0), Bounds(math.nan, 1.0)])
def test_a_range_needs_an_inside(method, bounds):
    check_refused(some([SECRET], 0.1, bounds), method, "low end below a high end")


def test_hdr4me_needs_two_ends():
    check_refused(some([SECRET], 0.1, Bounds(0.0, math.inf)), "hdr4me", "range with two ends")


@pytest.mark.parametrize("method", ["auto", "shrink", "hdr4me", "base_cut"])
@pytest.mark.parametrize("bad", [math.nan, 0.0, math.inf, -1.0])
def test_standard_errors_are_needed(method, bad):
    check_refused(some([SECRET, 0.2], [0.1, bad], SHARES), method, "has no standard errors")


@pytest.mark.parametrize("method", list(refinements))
def test_values_are_needed(method):
    for bad in (math.nan, math.inf):
        check_refused(some([SECRET, bad, 0.2], 0.1, SHARES), method, "1 items .* collect reports on them first")
    check_refused(some([], 0.1, SHARES), method, "no items")


@pytest.mark.parametrize("method", list(refinements))
def test_several_results_are_refined_one_by_one(method):
    several = Estimates({"mean(age)": some([SECRET], 0.1)})
    check_refused(several, method, "of several results refine each")
    check_refused(np.array([SECRET]), method, "takes an Estimate")


def test_options_that_have_no_meaning():
    found = some([SECRET, 0.2], 0.1, SHARES)
    check_refused(found, "hdr4me", "l1, l2, adaptive", penalty="l3")
    for bad in (0, 1, 1.5, math.nan, "7351", None, True):
        check_refused(found, "hdr4me", "confidence must", confidence=bad)
    for bad in (-1, math.nan, "7351", None, True):
        check_refused(found, "base_cut", "threshold must", threshold=bad)
    unknown: list[Any] = ["nothing", "", None, ["shrink"]]
    for bad in unknown:
        with pytest.raises(DitherError, match="there are auto, shrink, smooth, hdr4me"):
            found.refine(bad)


# Items of sparse vectors ---------------------------------------------------------------------------------------------


def test_frequencies_of_items_add_up_to_at_most_s():
    bounds = Bounds(0.0, 1.0, most=2.0)
    small = some([0.5, -0.2, 0.4, 1.3], 0.1, bounds)
    assert refine.simplex(small).value.tolist() == [0.5, 0.0, 0.4, 1.0]
    large = refine.simplex(some([0.9, 0.8, 0.7, 1.3], 0.1, bounds)).value
    assert large.sum() == pytest.approx(2.0)
    assert large.max() <= 1.0
    assert refine.simplex(small, total=2.0).value.sum() == pytest.approx(2.0)
    assert refine.auto(some(np.linspace(-0.2, 0.6, 40), 0.1, bounds)).value.min() >= 0
    for total in (0.0, -1.0, 2.5, math.nan, True, "2"):
        with pytest.raises(DitherError, match="total"):
            refine.simplex(small, total=total)  # type: ignore[arg-type]


def test_a_projection_is_nearer_to_items_of_real_vectors():
    mechanism = dither.Collision(d=40, s=4, epsilon=0.5)
    vectors = [dict.fromkeys(range(start % 37, start % 37 + 4), 1.0) for start in range(5000)]
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(vectors, seed=2)))["frequency"]
    truth = np.zeros((40, 2))
    for vector in vectors:
        truth[list(vector), 1] += 1 / len(vectors)
    before = np.linalg.norm(found.value - truth)
    for better in (found.refine("simplex"), found.refine("simplex", total=4)):
        assert np.linalg.norm(better.value - truth) < 0.7 * before
        assert better.value.shape == (40, 2)
