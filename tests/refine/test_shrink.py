"""Shrinkage: exact where it can be exact, and honest where only simulation tells.

**Exact.** The posterior of a normal prior cut to a range is compared with quadrature that shares no line with the
code, far out in the tails and for ranges much narrower than the noise. EM never lowers what it maximises. The result
moves and stretches with its units: no point of the range, zero least of all, has a privilege. The order of items
matters only through which items share a fifth.

**By simulation**, with fixed seeds. Each statistical bound stands `Z` = 5.2 standard errors off, so that a right
program fails with probability 1e-7 a bound, and below 1e-6 all together: most bounds are further off on top of that.
Values are normal around a truth that the test knows, and squared errors are in units of sigma squared.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dither
from dither import refine
from dither.core.estimate import MEAN, SHARES, Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError
from dither.refine.inputs import Numbers
from marks import wide

shrinking: Any = importlib.import_module("dither.refine.shrink")  # the package gives the function of this name
Z = 5.2


def some(value, stderr, bounds: Bounds | None = MEAN, **changes) -> Estimate:
    value = np.asarray(value, dtype=np.float64)
    return Estimate(value, np.zeros_like(value) + stderr, 1000, Guarantee(1.0), bounds=bounds, **changes)


def noisy(truth: Numbers, sigma, seed: int, bounds: Bounds | None = MEAN) -> Estimate:
    return some(truth + sigma * np.random.default_rng(seed).normal(size=truth.size), sigma, bounds)


def squared(estimate: Estimate, truth: Numbers) -> Numbers:
    """Errors in units of the noise of the values before."""
    before = estimate if estimate.original is None else estimate.original
    return (estimate.value - truth) ** 2 / before.stderr**2


# The posterior, by other means ---------------------------------------------------------------------------------------

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
PANELS = np.linspace(0, 1, 61)
PLACES = (PANELS[:-1, None] + np.diff(PANELS)[:, None] * (NODES + 1) / 2).ravel()
MASSES = (np.diff(PANELS)[:, None] * WEIGHTS / 2).ravel()


def integrated(peaks: list[tuple[float, float]], bounds: Bounds) -> tuple[float, float, float]:
    """Log mass, mean and variance of a product of normal densities (centre, width), without constants, on a range.

    In units around the mode, over what matters of the range: 1,200 nodes.
    """
    precision = sum(1 / width**2 for _, width in peaks)
    free = sum(centre / width**2 for centre, width in peaks) / precision if precision else bounds.low
    mode = min(max(free, bounds.low), bounds.high)
    slope = sum((centre - mode) / width**2 for centre, width in peaks)
    reach = 40 / math.sqrt(precision) if precision else math.inf
    if mode in bounds[:2] and slope:
        reach = min(reach, 60 / abs(slope))
    low, high = max(bounds.low - mode, -reach), min(bounds.high - mode, reach)
    at = low + (high - low) * PLACES
    density = np.exp((slope if mode in bounds[:2] else 0.0) * at - precision * at**2 / 2) * MASSES
    mean = float((density * at).sum() / density.sum())
    variance = float((density * (at - mean) ** 2).sum() / density.sum())
    log = math.log(density.sum() * (high - low))
    log -= sum((centre - mode) ** 2 / (2 * width**2) for centre, width in peaks)
    return log, mode + mean, variance


def by_quadrature(y: float, sigma: float, centre: float, width: float, bounds: Bounds) -> tuple[float, float, float]:
    """Log likelihood of y, mean and variance of theta."""
    prior = [] if math.isinf(width) else [(centre, width)]
    log, mean, variance = integrated([(y, sigma), *prior], bounds)
    return log - integrated(prior, bounds)[0] - math.log(sigma * math.sqrt(2 * math.pi)), mean, variance


SIGMAS = (0.003, 0.1, 0.7, 1.0, 10.0, 3e3, 1e6)
WIDTHS = (1e-5, 0.02, 0.3, 1.0, 25.0, math.inf)
RANGES = (MEAN, SHARES, Bounds(-3.0, -2.9), Bounds(0.0, math.inf), Bounds(-math.inf, 0.5))


def check_posterior(sigmas=SIGMAS, widths=WIDTHS, ranges=RANGES) -> None:
    """Against quadrature: inside the range, at its ends, 40 and 1,000 sigma outside."""
    for bounds in ranges:
        low, high = (end if math.isfinite(end) else 3.0 * math.copysign(1, end) for end in bounds[:2])
        for sigma in sigmas:
            y = np.array([low, high, (low + 2 * high) / 3, high + sigma, high + 40 * sigma, low - 40 * sigma])
            y = np.append(y, low - 1000 * sigma)
            for width in widths:
                if math.isinf(width) and not math.isfinite(bounds.high - bounds.low):
                    continue  # no prior: a mass of 1 over an infinite range
                for centre in (low, high, (3 * low + high) / 4):
                    found = shrinking.components(
                        y, np.full(y.size, sigma), np.full(1, centre), np.full(1, width), bounds
                    )
                    log, mean, variance = np.array([by_quadrature(each, sigma, centre, width, bounds) for each in y]).T
                    np.testing.assert_allclose(found[0][:, 0], log, rtol=1e-8, atol=1e-7)
                    rounding = 1e-13 * (np.abs(y) + abs(centre))
                    assert (np.abs(found[1][:, 0] - mean) <= 1e-6 * np.sqrt(variance) + rounding).all()
                    np.testing.assert_allclose(found[2][:, 0], variance, rtol=1e-5)


@pytest.mark.wide
def test_posteriors_are_those_of_quadrature():
    check_posterior()


def test_a_mixture_is_averaged_by_its_likelihoods():
    centres, widths, shares = np.array([-0.5, 0.3, 0.0]), np.array([0.1, 0.4, np.inf]), np.array([0.2, 0.5, 0.3])
    y, sigma = np.linspace(-2, 2, 9), np.linspace(0.05, 1, 9)
    mean, variance = shrinking.Prior(centres, widths, shares, MEAN).posterior(y, sigma)
    for at in range(y.size):
        parts = np.array([by_quadrature(y[at], sigma[at], *each, MEAN) for each in zip(centres, widths, strict=True)])
        share = shares * np.exp(parts[:, 0] - parts[:, 0].max())
        share /= share.sum()
        assert mean[at] == pytest.approx(share @ parts[:, 1], abs=1e-9)
        assert variance[at] == pytest.approx(share @ (parts[:, 2] + parts[:, 1] ** 2) - mean[at] ** 2, abs=1e-9)


def test_a_posterior_of_many_items_is_computed_in_blocks(monkeypatch):
    prior = shrinking.Prior(np.zeros(3), np.array([0.1, 1.0, np.inf]), np.full(3, 1 / 3), MEAN)
    y, sigma = np.linspace(-1, 1, 50), np.full(50, 0.2)
    together = prior.posterior(y, sigma)
    monkeypatch.setattr(shrinking, "_BLOCK", 20)
    for one, other in zip(prior.posterior(y, sigma), together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def check_single_items() -> None:
    """One to four items have only the range, and say so: exact."""
    for bounds in (MEAN, SHARES, Bounds(10.0, 250.0)):
        for size in (1, 2, 3, 4):
            half = (bounds.high - bounds.low) / 2
            y = bounds.low + half * np.array([-0.4, 0.9, 1.9, 2.5])[:size]
            sigma = half * np.array([0.5, 0.1, 0.02, 0.3])[:size]
            better = refine.shrink(some(y, sigma, bounds))
            assert "only the range was used" in better.notes[-1]
            for at in range(size):
                _, mean, variance = by_quadrature(y[at], sigma[at], 0.0, math.inf, bounds)
                assert better.value[at] == pytest.approx(mean, abs=1e-7 * half)
                assert better.stderr[at] == pytest.approx(math.sqrt(variance), rel=1e-6)


def test_fewer_than_five_items_have_only_the_range():
    check_single_items()


# Fitting -------------------------------------------------------------------------------------------------------------


def check_em() -> None:
    """Each round raises the likelihood, with the items that were added beforehand."""
    rng = np.random.default_rng(1)
    for rows, columns, beforehand in ((30, 4, 0.0), (200, 20, 0.1), (50, 60, 2.0)):
        likely = np.exp(-3 * rng.random((rows, columns)) ** 2)
        count, added = rng.integers(1, 5, rows).astype(float), np.full(columns, beforehand)
        shares, before = np.full(columns, 1 / columns), -math.inf
        for _ in range(60):
            shares = shrinking._fitted(likely, count, added, shares, rounds=1)
            now = float(count @ np.log(likely @ shares) + added @ np.log(np.maximum(shares, 1e-300)))
            assert shares.sum() == pytest.approx(1, abs=1e-12)
            assert now >= before - 1e-9 * abs(now)
            before = now


def test_em_never_lowers_the_likelihood():
    check_em()


def check_stein(name: str = "bell", size: int = 25, draws: int = 80) -> None:
    """What the formula says of items that were left out is on average their squared error."""
    rng = np.random.default_rng(5)
    truth, sigma = rng.uniform(-0.6, 0.4, size), rng.uniform(0.2, 0.4, size)
    fit, gap = shrinking.PRIORS[name], []
    for _ in range(draws):
        items = shrinking.NoisyItems.of(truth + sigma * rng.normal(size=size), sigma, MEAN)
        total = 0.0
        for fold in range(5):
            out = np.arange(size) % 5 == fold
            prior = fit(shrinking.NoisyItems.of(items.y[~out], sigma[~out], MEAN))
            mean, _ = prior.posterior(items.y[out], sigma[out])
            total += float((((mean - truth[out]) / sigma[out]) ** 2).sum())
        gap.append(shrinking._risk(fit, items) - total)
    assert abs(np.mean(gap)) <= Z * np.std(gap) / math.sqrt(draws)


@pytest.mark.parametrize("name", ["range", "bell", "clusters"])
def test_steins_formula_is_unbiased(name):
    check_stein(name)


def check_weights() -> None:
    """They add up to one, and a prior that is exactly right has most of it."""
    rng = np.random.default_rng(7)
    right = shrinking.Prior(np.array([-0.4, 0.5]), np.array([0.02, 0.02]), np.array([0.3, 0.7]), MEAN)
    wrong = shrinking.Prior(np.array([0.0]), np.array([0.1]), np.ones(1), MEAN)
    kept = shrinking.PRIORS, shrinking.AMBITION
    truth = rng.choice([-0.4, 0.5], size=200, p=[0.3, 0.7])
    items = shrinking.NoisyItems.of(truth + 0.4 * rng.normal(size=200), np.full(200, 0.4), MEAN)
    weights = shrinking._weights(items, list(shrinking.PRIORS))
    assert sum(weights.values()) == pytest.approx(1, abs=1e-12)
    try:
        shrinking.PRIORS = kept[0] | {"right": lambda items: right, "wrong": lambda items: wrong}
        shrinking.AMBITION = dict.fromkeys(shrinking.PRIORS, 0.0)
        weights = shrinking._weights(items, list(shrinking.PRIORS))
    finally:
        shrinking.PRIORS, shrinking.AMBITION = kept
    assert sum(weights.values()) == pytest.approx(1, abs=1e-12)
    assert weights.get("right", 0.0) > 0.5
    assert weights.get("wrong", 0.0) < 0.01


def test_weights_add_up_and_favour_what_is_right():
    check_weights()


def check_crowded_clusters() -> None:
    """Clusters that can be fitted to four fifths of the items, but are too many for all of them, have no say."""
    rng = np.random.default_rng(0)
    crowds = np.repeat([20.0, 60.0, 100.0, 140.0, 180.0], 300) + 0.5 * rng.normal(size=1500)
    y = rng.permutation(np.concatenate([crowds, 1 + np.arange(440) / 2]))
    better = refine.shrink(some(y, 1.0, Bounds(0.0, 400.0)))
    assert "clusters" not in better.notes[-1]
    assert np.abs(better.value - y).max() < 4
    assert better.stderr.min() > 0.05


def test_a_prior_that_does_not_fit_all_items_has_no_weight():
    check_crowded_clusters()


# What has no privilege -----------------------------------------------------------------------------------------------


def check_equivariance(size: int = 60) -> None:
    """Moved and stretched values give moved and stretched results."""
    rng = np.random.default_rng(3)
    for truth in (rng.choice([-0.5, 0.2, 0.6], size), np.full(size, 0.37), rng.uniform(-1, 1, size)):
        sigma = rng.uniform(0.1, 0.2, size)
        found = noisy(truth, sigma, 4)
        better = refine.shrink(found)
        for shift, scale in ((7.123, 1.0), (-0.2, 1.0), (0.0, 250.0), (-51.7, 0.003)):
            bounds = Bounds(shift - scale, shift + scale)
            moved = refine.shrink(some(shift + scale * found.value, scale * sigma, bounds))
            np.testing.assert_allclose((moved.value - shift) / scale, better.value, atol=1e-6)
            np.testing.assert_allclose(moved.stderr / scale, better.stderr, rtol=1e-5)


@pytest.mark.wide
def test_results_move_and_stretch_with_their_units():
    check_equivariance()


@pytest.mark.wide
def test_results_move_and_stretch_with_their_units_when_items_are_counted_in_bins(monkeypatch):
    monkeypatch.setattr(shrinking, "_BINNED", 100)
    check_equivariance(size=300)


def test_the_order_of_items_matters_only_through_their_fifths():
    """Any order in which items that shared a fifth still do: within fifths, and of the fifths."""
    rng = np.random.default_rng(8)
    found = noisy(rng.choice([-0.4, 0.3], 100), rng.uniform(0.1, 0.4, 100), 9)
    better = refine.shrink(found)
    rows = np.arange(100).reshape(20, 5)  # columns are fifths
    within = np.stack([rng.permutation(column) for column in rows.T], axis=1)
    for order in (within.ravel(), within[:, [3, 0, 4, 1, 2]].ravel()):
        again = refine.shrink(some(found.value[order], found.stderr[order]))
        np.testing.assert_allclose(again.value, better.value[order], atol=1e-8)
        np.testing.assert_allclose(again.stderr, better.stderr[order], atol=1e-8)


# What it is worth ----------------------------------------------------------------------------------------------------

Shape = Callable[[np.random.Generator, int], Numbers]
SMOOTH: dict[str, Shape] = {
    "uniform": lambda rng, size: rng.uniform(-1, 1, size),
    "bell": lambda rng, size: np.clip(rng.normal(0.2, 0.3, size), -1, 1),
    "ramp": lambda rng, size: np.linspace(-1, 1, size),
    "ends": lambda rng, size: rng.choice([-1.0, 1.0], size) * rng.uniform(0.5, 1, size),
    "skewed": lambda rng, size: 2 * rng.beta(1, 4, size) - 1,
}
ROUGH: dict[str, Shape] = {
    "few": lambda rng, size: np.where(rng.permutation(size) < size // 20, 0.8, 0.0),
    "heavy": lambda rng, size: np.clip(0.05 * rng.standard_t(2, size), -1, 1),
    "two": lambda rng, size: rng.choice([-0.4, 0.5], size),
}


def trials(shape: Shape, sigma: float, size: int, number: int):
    """Truth and refined estimate, over and over."""
    for seed in range(number):
        truth = shape(np.random.default_rng([seed, size]), size)
        yield truth, refine.shrink(noisy(truth, sigma, seed + 1000))


def check_harmless(shape: Shape, sigma: float, size: int = 40, number: int = 8) -> None:
    """Not worse than doing nothing by more than 1%, and what chance allows."""
    gap = []
    for truth, better in trials(shape, sigma, size, number):
        assert better.original is not None
        gap.append(float(np.mean(squared(better, truth) - squared(better.original, truth))))
    assert np.mean(gap) <= 0.01 + Z * np.std(gap) / math.sqrt(number)


@pytest.mark.parametrize("sigma", [wide(0.02), 0.1, wide(0.5)])
@pytest.mark.parametrize("shape", SMOOTH | ROUGH)
def test_shrinking_does_no_harm(shape, sigma):
    check_harmless((SMOOTH | ROUGH)[shape], sigma)


def check_one_cluster(centre: float, sigma: float) -> None:
    """All items the same: 200 of them know it to within a twentieth of the noise (0.02 on average)."""
    errors = [squared(better, truth).mean() for truth, better in trials(lambda _, d: np.full(d, centre), sigma, 200, 4)]
    assert np.mean(errors) < 0.05


@pytest.mark.parametrize("centre", [0.0, 0.5, -0.9])
@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_one_cluster_anywhere_is_found(centre, sigma):
    check_one_cluster(centre, sigma)


def test_few_far_from_many_keep_their_values():
    for truth, better in trials(ROUGH["few"], 0.1, 200, 3):
        errors = squared(better, truth)
        assert errors.mean() < 0.25
        assert errors[truth > 0].mean() < 5.2  # of 10 squares: chi-squared with 10 degrees is below 52 but for 1e-7


def test_heavy_tails_gain():
    errors = [squared(better, truth).mean() for truth, better in trials(ROUGH["heavy"], 0.1, 200, 6)]
    assert np.mean(errors) < 0.75


def test_unequal_standard_errors_each_get_their_due():
    """Good items teach bad ones, and do not learn bad habits from them."""
    gain, harm = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth, sigma = rng.normal(0.2, 0.15, 100), np.repeat([0.01, 1.0], 50)
        errors = squared(refine.shrink(noisy(truth, sigma, seed + 50)), truth)
        harm.append(errors[:50].mean())
        gain.append(errors[50:].mean())
    assert np.mean(harm) < 1 + Z * math.sqrt(2 / 300)
    assert np.mean(gain) < 0.1


@pytest.mark.wide
def test_noise_far_above_the_range():
    """sigma = 10 on a range of 2: the range is what is known, and all truths near its middle are met."""
    for truth, better in trials(lambda rng, d: rng.uniform(-0.5, 0.5, d), 10.0, 50, 4):
        assert np.mean((better.value - truth) ** 2) < 0.2
        assert (np.abs(better.value) <= 1).all()
        assert better.stderr.min() > 0.2
        assert better.stderr.max() < 1
    for sigma in (1e3, 1e6, 1e9):
        better = refine.shrink(some(sigma * np.linspace(-1, 1, 11), sigma))
        assert np.abs(better.value).max() < 0.9
        assert better.stderr.min() > 0.1
        assert better.stderr.max() < 1


def check_coverage() -> None:
    """Intervals of 95% cover between 93% and 97.5%, on average over items and shapes."""
    covered = []
    for shape in (*SMOOTH.values(), ROUGH["heavy"], ROUGH["few"]):
        for sigma in (0.05, 0.2):
            for truth, better in trials(shape, sigma, 100, 2):
                low, high = better.interval()
                covered.append(float(np.mean((low <= truth) & (truth <= high))))
    off = Z * np.std(covered) / math.sqrt(len(covered))
    assert 0.93 - off <= np.mean(covered) <= 0.975 + off
    assert off < 0.03


@pytest.mark.wide
def test_intervals_cover():
    check_coverage()


def test_intervals_of_few_items_own_up_to_a_learned_centre():
    covered = []
    for truth, better in trials(lambda _, d: np.full(d, 0.3), 0.1, 6, 60):
        low, high = better.interval()
        covered.append(float(np.mean((low <= truth) & (truth <= high))))
    assert np.mean(covered) >= 0.93 - Z * np.std(covered) / math.sqrt(len(covered))


# Sizes and kinds -----------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_very_many_items_are_counted_in_bins(spread, monkeypatch):
    rng = np.random.default_rng(2)
    size = 10_000 if spread else 100_000
    truth, sigma = rng.choice([-0.5, 0.1, 0.7], size), 0.1 * (1 + spread * rng.random(size))
    found = noisy(truth, sigma, 3)
    better = refine.shrink(found)
    assert squared(better, truth).mean() < 0.5
    part = some(found.value[:5000], sigma[:5000])
    binned = refine.shrink(part)
    monkeypatch.setattr(shrinking, "_BINNED", 10**9)
    alone = refine.shrink(part)
    gap = (binned.value - alone.value) / sigma[:5000]
    assert np.sqrt(np.mean(gap**2)) < 0.02


@pytest.mark.parametrize("size", [1, 5, 200])
@pytest.mark.parametrize("bounds", [MEAN, None])
def test_identical_values_stay_together(size, bounds):
    better = refine.shrink(some(np.full(size, 0.25), 0.1, bounds))
    assert np.ptp(better.value) < 1e-12
    assert better.value[0] == pytest.approx(0.25, abs=1e-3)
    assert (better.stderr > 0).all()


@pytest.mark.parametrize("bounds", [None, Bounds(-math.inf, math.inf), Bounds(-math.inf, 1.0), Bounds(-1.0, math.inf)])
def test_a_range_with_missing_ends(bounds):
    rng = np.random.default_rng(4)
    truth = rng.choice([-0.4, 0.3], 150)
    found = noisy(truth, 0.1, 5, bounds)
    better = refine.shrink(found)
    assert squared(better, truth).mean() < 0.5
    assert np.isfinite(better.stderr).all()
    alone = refine.shrink(some([0.2], 0.1, None))
    assert alone.value[0] == pytest.approx(0.2, abs=1e-12)
    assert alone.stderr[0] == pytest.approx(0.1, rel=0.01)


def test_frequencies_stay_between_zero_and_one():
    truth = np.append(np.full(50, 0.002), [0.5, 0.4])
    better = refine.shrink(noisy(truth, 0.05, 6, SHARES))
    assert (better.value >= 0).all()
    assert (better.value <= 1).all()
    assert squared(better, truth).mean() < 0.5


def test_values_far_outside_the_range_give_finite_results():
    for y in (np.linspace(-50, 50, 20), np.full(20, 1e4), np.append(np.zeros(19), 1e6)):
        better = refine.shrink(some(y, 0.1))
        assert np.isfinite(better.value).all()
        assert (np.abs(better.value) <= 1).all()
        assert (better.stderr > 0).all()


def check_original() -> None:
    """The estimate before is kept, through any number of refinements, and nothing else is lost."""
    labels = tuple(f"item {at}" for at in range(20))
    found = replace(noisy(np.zeros(20), 0.2, 1), labels=labels, notes=("first",), question="mean", source="X")
    once = found.refine("shrink")
    twice = once.refine("clip")
    assert once.original is found
    assert twice.original is found
    assert (twice.labels, twice.n, twice.question, twice.source) == (labels, 1000, "mean", "X")
    assert twice.guarantee is found.guarantee
    assert twice.notes[0] == "first"
    assert len(twice.notes) == 3
    np.testing.assert_array_equal(found.value, noisy(np.zeros(20), 0.2, 1).value)


def test_the_original_is_kept():
    check_original()


def test_shapes_are_kept():
    one = refine.shrink(some(np.float64(0.3), 0.1))
    assert np.shape(one.value) == () == np.shape(one.stderr)
    assert one.interval().low < 0.3
    table = refine.shrink(some(np.full((4, 5), 0.3), 0.1))
    assert table.value.shape == (4, 5) == table.stderr.shape


def test_a_real_mechanism():
    mechanism = dither.Sampled("Piecewise", d=60, m=60, epsilon=1.0)
    truth = np.repeat([-0.3, 0.1], 30)
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(np.tile(truth, (500, 1)), seed=1)))
    better = found.refine()
    assert squared(better, truth).mean() < 0.3
    assert "drawn towards what the others say" in better.explain()


def test_a_posterior_is_not_taken_for_reports():
    rng = np.random.default_rng(3)
    once = some(rng.normal(0, 0.1, 50), np.full(50, 0.1)).refine("shrink")
    for method in ("shrink", "hdr4me", "auto"):
        with pytest.raises(ParameterError, match="refined already"):
            once.refine(method)
    assert once.refine("clip").original is once.original
