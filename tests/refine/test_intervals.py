"""Intervals: each holds with its probability, whatever is true, and nothing that should not decide does.

**Exact.** For a fixed expectation of others, which y an interval holds a truth with is a matter of arithmetic: the
normal law is integrated over a fine grid of y, and the sum must be 95% at *every* truth. That is the whole promise, and
no simulation is needed for it. That the expectation did not see the item is exact too: whatever the item turns out to
be, its table stays the same to the bit. So is Fieller's set, against every truth of a grid.

**By simulation**, with fixed seeds: that nothing is lost between a tally and an interval. `Z` = 5.6 standard errors, or
binomial tails of `ALARM` = 1e-8: some sixty bounds, and a right program fails with a probability below 1e-6 altogether.
`benchmarks/calibration.py` does the same for many populations, and at length.

**Mutants.** Each breaks the code on purpose, and one of the checks above has to notice.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy import stats
from scipy.special import ndtr

from dither import (
    GRR,
    PCKV_GRR,
    Categorical,
    CoCo,
    Collision,
    Duchi,
    Hadamard,
    Hypercube,
    LocalHash,
    Schema,
    SubsetSelection,
    Unary,
    plan,
    refine,
)
from dither.core import confidence
from dither.core.confidence import InUnits, LearnedIntervals, Marginals, RatioIntervals, beyond, plain_ends, shortest
from dither.core.estimate import MEAN, SHARES, Bounds, Estimate
from dither.errors import ParameterError
from dither.estimation.simplex import onto_simplex
from dither.refine import marginals
from dither.refine.inputs import Numbers
from marks import wide
from refine.test_mutants import caught
from refine.test_shrink import some
from scripts_by_path import benchmark

Z, ALARM = 5.6, 1e-8
simulated: Any = benchmark("tally_laws")
CategoryLaw, KeyLaw, SignLaw = simulated.CategoryLaw, simulated.KeyLaw, simulated.SignLaw
shrinking: Any = importlib.import_module("dither.refine.shrink")

# Truths of several shapes, in units of the standard error, with the ends of their domain.
SHAPES: dict[str, tuple[Numbers, float, float]] = {
    "one cluster": (np.full(40, 0.3), -16.0, 16.0),
    "two clusters": (np.repeat([-3.0, 4.0], 20), -16.0, 16.0),
    "far": (np.append(np.zeros(37), [9.0, -7.0, 12.0]), -16.0, 16.0),
    "zeros": (np.append(np.zeros(35), [2.0, 3.0, 5.0, 8.0, 20.0]), 0.0, 25.0),
    "at the upper end": (np.append(np.full(5, 25.0), np.zeros(35)), 0.0, 25.0),
    "spread": (np.linspace(-20, 20, 40), -25.0, 25.0),
    "narrow domain": (np.linspace(0, 3, 40), 0.0, 3.0),
}


def learned(shape: str, seed: int = 0) -> LearnedIntervals:
    """What others expect in one draw of a shape, with standard errors of one."""
    truth, low, high = SHAPES[shape]
    y = truth + np.random.default_rng(seed).normal(size=truth.size)
    return marginals.from_others(y, np.ones(y.size), Bounds(low, high))


# Exact coverage ------------------------------------------------------------------------------------------------------


def least_covered(ends: Callable[[Numbers], tuple[Numbers, Numbers]], truth: Numbers, sigma: float = 1.0) -> float:
    """The least probability over these truths that an interval holds it, integrated over y; within 1e-3 of it."""
    step = 0.008 * sigma
    y = np.arange(truth.min() - 6 * sigma, truth.max() + 6 * sigma, step)
    low, high = ends(y)
    held = (low <= truth[:, None] + 1e-9) & (truth[:, None] - 1e-9 <= high)
    away = (y - truth[:, None]) / sigma
    return float((held * (ndtr(away + step / sigma / 2) - ndtr(away - step / sigma / 2))).sum(axis=1).min())


def truths(low: float, high: float, around: Numbers) -> Numbers:
    """Truths to try: where items are, between them, at the ends of the domain and close to these."""
    near = np.array([0.0, 1e-6, 0.2, 0.5, 0.8, 1.3, 1.64, 2.0, 3.1])
    some = np.concatenate([low + near, high - near, around[::7], around.mean() + np.linspace(-4, 4, 7)])
    return np.unique(some[(some >= low) & (some <= high)])


def check_exact_coverage(shape: str, miss: float = 0.05) -> None:
    found = learned(shape)
    truth, low, high = SHAPES[shape]
    for marginal in (0, 2):
        for sigma in (1.0, 0.92, 1.08):  # those within a tenth share a table

            def ends(y: Numbers, marginal: int = marginal, sigma: float = sigma) -> tuple[Numbers, Numbers]:
                which = np.full(y.size, marginal)
                return replace(found, y=y, sigma=np.full(y.size, sigma), which=which).ends(miss)

            assert least_covered(ends, truths(low, high, truth), sigma) > 1 - miss - 1.5e-3


@pytest.mark.parametrize("shape", [each if each in ("far", "zeros") else wide(each) for each in SHAPES])
def test_learned_intervals_hold_at_every_truth(shape):
    check_exact_coverage(shape)


@pytest.mark.wide
@pytest.mark.parametrize("shape", list(SHAPES))
def test_learned_intervals_hold_at_every_truth_where_many_hold_at_once(shape):
    check_exact_coverage(shape, 0.05 / 40)


def test_any_expectation_will_do():
    # Wild guesses of what y will be: intervals are longer, and hold.
    for grid, cdf in (
        ([0.0, 1e-3], [0.0, 1.0]),
        ([-9.0, -8.0], [0.0, 1.0]),
        ([-5.0, 0.0, 0.1, 9.0], [0.0, 0.0, 0.9, 1.0]),
    ):
        tables = Marginals((np.array(grid),), (np.array(cdf),), np.ones(1))

        def ends(y: Numbers, tables: Marginals = tables) -> tuple[Numbers, Numbers]:
            return LearnedIntervals(y, np.ones(y.size), -20.0, 20.0, np.zeros(y.size, np.intp), tables).ends(0.05)

        assert least_covered(ends, np.array([-9.0, -3.0, 0.0, 0.3, 2.0, 8.0])) > 0.9485


def check_plain_coverage(miss: float = 0.05) -> None:
    for low, high in ((0.0, 60.0), (0.0, 1.5), (-np.inf, np.inf)):

        def ends(y: Numbers, low: float = low, high: float = high) -> tuple[Numbers, Numbers]:
            return plain_ends(y, np.ones(y.size), low, high, miss)

        assert least_covered(ends, truths(max(low, -20.0), min(high, 60.0), np.linspace(0, 9, 30))) > 1 - miss - 1e-3


def test_plain_intervals_hold_at_every_truth():
    check_plain_coverage()
    check_plain_coverage(0.001)


def test_plain_intervals_are_those_of_a_normal_away_from_the_ends():
    low, high = plain_ends(np.array([0.3]), np.array([0.02]), 0.0, 1.0, 0.05)
    np.testing.assert_allclose([low[0], high[0]], 0.3 + 1.959964 * 0.02 * np.array([-1, 1]))


def test_unknown_items_may_be_anything():
    low, high = plain_ends(np.array([np.nan, 0.2]), np.array([np.inf, np.inf]), -1.0, 1.0, 0.05)
    assert low.tolist() == [-1.0, -1.0]
    assert high.tolist() == [1.0, 1.0]
    nothing = np.full(1, np.nan)
    unheard = RatioIntervals(nothing, nothing, nothing, nothing, nothing).ends(0.05)
    assert [float(end[0]) for end in unheard] == [-1.0, 1.0]


def test_no_interval_is_shorter_than_pratts_bound():
    for shape in ("one cluster", "far"):
        found, (truth, low, high) = learned(shape), SHAPES[shape]
        for theta in (float(np.median(truth)), 2.0):
            y = theta + np.linspace(-6, 6, 3001)
            own = replace(found, y=y, sigma=np.ones(y.size), which=np.zeros(y.size, np.intp))
            below, above = own.ends(0.05)
            weights = stats.norm.pdf(y - theta)
            expected = float((weights * (above - below)).sum() / weights.sum()) / (2 * beyond(0.025))
            assert expected > shortest(0.05) - 1e-3
            assert below.min() > low
            assert above.max() < high


# Blindness -----------------------------------------------------------------------------------------------------------


def check_blind(find: str, bounds: Bounds) -> None:
    """What is expected of an item does not depend on it: not on its value, nor on those of its fold."""
    random = np.random.default_rng(3)
    y = np.append(np.abs(0.02 * random.normal(size=24)), 0.5)  # an item of its own is the largest
    sigma = 0.02 * np.exp(0.05 * random.normal(size=25))
    before = getattr(marginals, find)(y, sigma, bounds)
    for item in (0, 7, 23):
        for value in (-0.1, 0.07, 0.3):
            other = y.copy()
            other[item] = value
            after = getattr(marginals, find)(other, sigma, bounds)
            one, two = before.which[item], after.which[item]
            assert one == two
            np.testing.assert_array_equal(before.marginals.grid[one], after.marginals.grid[two])
            np.testing.assert_array_equal(before.marginals.cdf[one], after.marginals.cdf[two])


@pytest.mark.parametrize("find", ["from_others", "from_neighbours"])
def test_what_is_expected_of_an_item_does_not_see_it(find):
    check_blind(find, SHARES)


def check_sum_is_not_used() -> None:
    """Where shares add up to one, the others' sum is the item: what they have in common must not tell it."""
    y, sigma = np.linspace(0.01, 0.07, 25), np.full(25, 0.002)
    before = marginals.from_neighbours(y, sigma, SHARES)
    shifted = np.where(np.arange(25) % 5 == 2, y, y - 0.004)
    after = marginals.from_neighbours(shifted, sigma, SHARES)
    centre = [float(np.interp(0.5, each.cdf[12], each.grid[12])) for each in (before.marginals, after.marginals)]
    assert abs(centre[0] - centre[1]) < 0.05 * 0.002  # how far the table goes depends on the largest


def test_neighbours_do_not_tell_an_item_by_their_sum():
    check_sum_is_not_used()


# What an interval is -------------------------------------------------------------------------------------------------


def check_domain(refined: Estimate, original: Estimate) -> None:
    assert original.bounds is not None
    assert refined.rule is not None
    raw = 2 * beyond(0.025) * original.stderr
    before = refined.rule.ends(0.05)
    assert (before[1] - before[0] <= 1.35 * raw).all()
    for level in (0.5, 0.95, 0.999):
        low, high = refined.interval(level)
        assert (low >= original.bounds.low).all()
        assert (high <= original.bounds.high).all()
        assert (low < high).all()
        assert ((low <= refined.value) & (refined.value <= high)).all()
    assert (refined.interval(0.99).high >= refined.interval(0.9).high - 1e-12).all()


@pytest.mark.parametrize("bounds", [SHARES, MEAN])
@pytest.mark.parametrize("spread", [0.0, 0.01, 0.3])
def test_intervals_stay_in_the_domain_and_hold_the_refined_value(bounds, spread):
    random = np.random.default_rng(int(100 * spread))
    truth = np.clip(spread * random.standard_t(2, size=30), bounds.low, bounds.high)
    sigma = 0.05 * np.exp(0.4 * random.normal(size=30))
    came = some(truth + sigma * random.normal(size=30), sigma, bounds)
    check_domain(refine.shrink(came), came)
    check_domain(refine.auto(came), came)


def test_intervals_of_smoothed_shares_too():
    truth = np.append(np.full(20, 0.04), np.full(12, 0.2 / 12))
    came = some(truth + 0.01 * np.random.default_rng(1).normal(size=32), 0.01, SHARES)
    check_domain(refine.smooth(came), came)


def test_simultaneous_is_the_level_of_each_with_the_miss_divided():
    y = np.random.default_rng(1).normal(size=20) * 0.1
    for found in (some(y, 0.05), refine.shrink(some(y, 0.05))):
        both = found.interval(0.9, simultaneous=True), found.interval(1 - 0.1 / 20)
        np.testing.assert_allclose(both[0].low, both[1].low, rtol=1e-12)
        np.testing.assert_allclose(both[0].high, both[1].high, rtol=1e-12)


def test_credible_intervals_are_those_of_the_posterior():
    came = some(np.random.default_rng(2).normal(size=20) * 0.3, 0.1)
    found = refine.shrink(came)
    low, high = found.credible(0.95)
    np.testing.assert_allclose(low, np.maximum(found.value - 1.959964 * found.stderr, -1.0), rtol=1e-6)
    np.testing.assert_allclose(high, np.minimum(found.value + 1.959964 * found.stderr, 1.0), rtol=1e-6)
    with pytest.raises(ParameterError, match="posterior"):
        came.credible()


def check_units() -> None:
    random = np.random.default_rng(5)
    y, sigma = 0.2 * random.normal(size=30), 0.1 * np.exp(0.3 * random.normal(size=30))
    rules = (
        marginals.from_others(y, sigma, MEAN),
        RatioIntervals(0.3 * y, np.abs(y), sigma**2 / 9, sigma**2 / 9, 0 * y),
    )
    for rule in rules:
        scaled = InUnits(rule, -273.0, 40.0).ends(0.05)
        for one, two in zip(rule.ends(0.05), scaled, strict=True):
            np.testing.assert_allclose(-273.0 + 40.0 * one, two, rtol=1e-9)
        some = np.array([3, 11, 29])
        for one, two in zip(rule.ends(0.01), rule.of(some).ends(0.01), strict=True):
            np.testing.assert_allclose(one[some], two, rtol=1e-9, atol=1e-12)
    moved = marginals.from_others(7.0 + 3.0 * y, 3.0 * sigma, Bounds(4.0, 10.0)).ends(0.05)
    for one, two in zip(rules[0].ends(0.05), moved, strict=True):
        np.testing.assert_allclose(7.0 + 3.0 * one, two, rtol=1e-6)


def test_intervals_move_and_stretch_with_their_units():
    check_units()


@pytest.mark.parametrize("ratio", [1.0, 3.0, 40.0])
def test_a_wide_kernel_fits_any_table(ratio):
    # All items in one place: a kernel is wider than the table that it is put into.
    sigma = np.where(np.arange(10) == 4, ratio, 1.0)
    low, high = marginals.from_others(np.full(10, 0.1), sigma, Bounds(0.0, 0.2)).ends(0.05)
    assert (low == 0.0).all()
    assert (high == 0.2).all()


# Ratios --------------------------------------------------------------------------------------------------------------


def check_ratios(seed: int = 6) -> None:
    random = np.random.default_rng(seed)
    count, grid = 400, np.linspace(-1, 1, 4001)
    bottom, spread = random.uniform(-0.02, 0.3, count), random.uniform(0.001, 0.05, count)
    top = bottom * random.uniform(-1.4, 1.4, count) + spread * random.normal(size=count)
    one, two, together = spread**2, (spread * random.uniform(0.3, 2, count)) ** 2, random.uniform(-0.9, 0.9, count)
    both = together * np.sqrt(one * two)
    low, high = RatioIntervals(top, bottom, one, two, both).ends(0.05)
    z = beyond(0.025)
    for i in range(count):
        variance = one[i] - 2 * grid * both[i] + grid**2 * two[i]
        believed = grid[np.abs(top[i] - grid * bottom[i]) <= z * np.sqrt(variance)]
        hull = (believed.min(), believed.max()) if believed.size else (-1.0, 1.0)
        if 0 < believed.size < 5:
            continue  # a sliver that the grid hardly sees
        np.testing.assert_allclose([low[i], high[i]], hull, atol=1.2e-3)


def test_ratio_intervals_are_the_truths_that_are_believed():
    check_ratios()


# Tallies drawn at once -----------------------------------------------------------------------------------------------

HELD = np.array([60, 25, 10, 5, 0])
CATEGORICAL = [GRR(5, 1.0), Unary(5, 1.0), LocalHash(5, 1.0), Hadamard(5, 1.0), SubsetSelection(5, 1.0, size=2)]
KEYED = [Collision(3, 1, 1.0), CoCo(3, 1, 2.0), PCKV_GRR(3, 1, 2.0)]
SIGNED: list[tuple[Any, Numbers]] = [
    (Duchi(1.0), np.array([[0.5], [-1.0], [0.2]])),
    (Hypercube(2, 2.0), np.array([[0.5, -0.5], [-1.0, 1.0], [0.2, 0.3]])),
]


def laws() -> list[tuple[Any, Any, Any]]:
    """Each law with its mechanism and the values of its users."""
    found: list[tuple[Any, Any, Any]] = [
        (CategoryLaw(each, HELD), each, np.repeat(np.arange(5), HELD)) for each in CATEGORICAL
    ]
    keys, values = np.array([[20, 10], [0, 30], [5, 0]]), np.array([[0.5, -1.0], [0.0, 0.3], [1.0, 0.0]])
    rows = [{j: values[j, at]} for j in range(3) for at in range(2) for _ in range(keys[j, at])] + [{}] * 35
    found += [(KeyLaw(each, keys, values, 100), each, each.domain.check(rows)) for each in KEYED]
    held = np.array([20, 30, 50])
    for mechanism, rows in SIGNED:
        users = np.repeat(rows, held, axis=0)
        found.append((SignLaw(mechanism, held, rows), mechanism, users if rows.shape[1] > 1 else users[:, 0]))
    return found


def enumerated(mechanism: Any, values: Any) -> tuple[Numbers, Numbers]:
    """The exact mean and covariance of the counts, from all reports that there are."""
    channel, outputs = mechanism.channel(), mechanism.outputs()
    counts = np.array([mechanism.tally(outputs[i : i + 1]).counts.ravel() for i in range(len(outputs))], dtype=float)
    mean, covariance = np.zeros(counts.shape[1]), np.zeros((counts.shape[1],) * 2)
    for value, users in zip(*np.unique(values, return_counts=True), strict=True):
        chance = np.array([float(each) for each in channel.row(int(value))])
        own = chance @ counts
        mean += users * own
        covariance += users * ((counts.T * chance) @ counts - np.outer(own, own))
    return mean, covariance


def test_normal_tallies_have_the_exact_mean_and_covariance():
    law, mechanism, values = laws()[4]
    mean, covariance = enumerated(mechanism, values)
    found, root = law._normal
    np.testing.assert_allclose(found, mean, rtol=1e-12)
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-9)


def moments_agree(draws: Numbers, mean: Numbers, covariance: Numbers) -> bool:
    """Means within Z standard errors, and so are the products of deviations (which have fourth moments)."""
    away = draws - mean
    products = away[:, :, None] * away[:, None, :]
    error = products.std(axis=0) / math.sqrt(len(draws)) + 1e-9
    right = np.abs(away.mean(axis=0)) <= Z * np.sqrt(np.diagonal(covariance) / len(draws)) + 1e-9
    return bool(right.all() and (np.abs(products.mean(axis=0) - covariance) <= Z * error).all())


@pytest.mark.parametrize("place", [0, 1, 3, 4])
def test_drawn_tallies_have_the_moments_of_the_channel(place):
    law, mechanism, values = laws()[place]
    random = np.random.default_rng(place)
    draws = np.array([law.draw(random).counts.ravel() for _ in range(3000)], dtype=float)
    assert moments_agree(draws, *enumerated(mechanism, values))


def check_same_law(place: int, collections: int = 800) -> None:
    """Against `randomize` and `tally`: means and covariances, and by Kolmogorov and Smirnov a mixture of the counts."""
    law, mechanism, values = laws()[place]
    random = np.random.default_rng(50 + place)
    users = len(values)
    reports = mechanism.randomize(np.concatenate([values] * collections), seed=60 + place)
    ran = np.array(
        [mechanism.tally(reports[i * users : (i + 1) * users]).counts.ravel() for i in range(collections)], dtype=float
    )
    drawn = np.array([law.draw(random).counts.ravel() for _ in range(collections)], dtype=float)
    weights = np.random.default_rng(1).normal(size=ran.shape[1])
    compared: Any = stats.ks_2samp(ran @ weights, drawn @ weights)
    assert compared.pvalue > ALARM
    apart = ran.mean(axis=0) - drawn.mean(axis=0)
    error = np.sqrt((ran.var(axis=0) + drawn.var(axis=0)) / collections) + 1e-9
    assert (np.abs(apart) <= Z * error).all()
    one, two = (np.einsum("ri,rj->rij", each, each) for each in (ran - ran.mean(axis=0), drawn - drawn.mean(axis=0)))
    error = np.sqrt((one.var(axis=0) + two.var(axis=0)) / collections) + 1e-9
    assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) <= Z * error).all()


@pytest.mark.parametrize("place", range(10))
def test_drawn_tallies_are_those_of_reports(place):
    check_same_law(place)


def test_laws_that_are_not_known_are_refused():
    for mechanism in (LocalHash(5, 1.0, cohorts=16), Collision(3, 2, 1.0)):
        law = CategoryLaw if isinstance(mechanism, LocalHash) else KeyLaw
        with pytest.raises(ParameterError, match="randomize"):
            law(mechanism, HELD) if law is CategoryLaw else law(mechanism, np.ones((3, 1)), np.ones((3, 1)), 9)  # type: ignore[call-arg]


# From a tally to an interval -----------------------------------------------------------------------------------------


def check_collections(draw: Callable[[np.random.Generator], Estimate], truth: Numbers, draws: int, seed: int) -> None:
    """95% on average and for every item, and of all at once, within what chance allows.

    On average the standard errors, which are estimated, and the normal law of counts may cost half a point.
    """
    random, k = np.random.default_rng(seed), truth.size
    runs, items, once = np.empty(draws), np.zeros(k, dtype=np.int64), 0
    for number in range(draws):
        estimate = draw(random)
        assert estimate.bounds is not None
        bounds = Bounds(*estimate.bounds[:2])
        rule = marginals.from_others(estimate.value, estimate.stderr, bounds, estimate.variance)
        low, high = rule.ends(0.05)
        held = (low <= truth) & (truth <= high)
        runs[number] = held.mean()
        items += held
        low, high = rule.ends(0.05 / k)
        once += bool(((low <= truth) & (truth <= high)).all())
    assert runs.mean() > 0.945 - Z * runs.std() / math.sqrt(draws)
    assert items.min() >= stats.binom.ppf(ALARM / k, draws, 0.94)
    assert once >= stats.binom.ppf(ALARM, draws, 0.94)


def check_variance_by_truth() -> None:
    """Exact coverage where the variance grows with the truth, and the item, being small, says little of it.

    Integrated over y; the rule may not depend on it but through y itself and a standard error that is too small.
    """
    variance, grid = Polynomial([1e-4, 0.02]), np.linspace(-1.0, 2.0, 301)
    table = Marginals((grid,), (np.clip((grid + 0.01) / 0.02, 0.0, 1.0),), np.array([0.01]))
    for truth in (0.0, 0.002, 0.01, 0.05, 0.2, 0.6):
        spread = math.sqrt(variance(truth))
        y = truth + spread * np.linspace(-6.0, 6.0, 4001)
        rule = LearnedIntervals(y, np.full(y.size, 0.01), 0.0, 1.0, np.zeros(y.size, dtype=np.intp), table, variance)
        low, high = rule.ends(0.05)
        weight = np.exp(-0.5 * ((y - truth) / spread) ** 2)
        assert weight[(low <= truth) & (truth <= high)].sum() / weight.sum() > 0.9485
        for place in (1500, 2000, 2500):  # an item by itself reaches as far as among the others
            alone = rule.of(np.array([place])).ends(0.05)
            np.testing.assert_allclose(np.ravel(alone), [low[place], high[place]], atol=1e-9)


def test_intervals_hold_exactly_where_the_variance_is_known_by_truth():
    check_variance_by_truth()


def check_few_reports(draws: int = 300) -> None:
    """A hundred of a thousand hold all users, ten thousand of them: a category has fifteen reports or so.

    An item that came out small has a small standard error, and the others are at 0: with it alone 92% hold.
    """
    held = np.where(np.arange(1000) < 100, 100, 0)
    law, truth = CategoryLaw(GRR(1000, 4.0), held), held / held.sum()
    random, found = np.random.default_rng(76), np.empty(draws)
    for number in range(draws):
        estimate = law.mechanism.estimate(law.draw(random))
        rule = marginals.from_others(estimate.value, estimate.stderr, Bounds(0.0, 1.0), estimate.variance)
        low, high = rule.ends(0.05)
        found[number] = ((low <= truth) & (truth <= high))[:100].mean()
    assert found.mean() > 0.945 - Z * found.std() / math.sqrt(draws)


def test_intervals_from_few_reports_hold():
    check_few_reports()


def check_categories(draws: int = 200) -> None:
    """A tenth of the categories hold all users; those that hold some are the ones that used to be missed."""
    held = np.where(np.arange(100) % 10 == 3, 10_000, 0)
    law = CategoryLaw(Unary(100, 1.0), held)
    check_collections(lambda random: law.mechanism.estimate(law.draw(random)), held / held.sum(), draws, 71)


def check_sums(draws: int = 200) -> None:
    """Randomized response, whose shares add up to one."""
    held = np.where(np.arange(60) < 4, 20_000, 300)
    law = CategoryLaw(GRR(60, 2.0), held)
    check_collections(lambda random: law.mechanism.estimate(law.draw(random)), held / held.sum(), draws, 72)


def check_keys(statistic: str, draws: int = 200) -> None:
    presence, value = np.append(np.geomspace(50, 5000, 30), 40_000).astype(np.int64)[:, None], np.ones((31, 1))
    value[::3] = -0.4
    law = KeyLaw(Collision(31, 1, 1.0), presence, value, 200_000)
    truth = presence[:, 0] / 200_000 * (value[:, 0] if statistic == "mean" else 1.0)
    check_collections(lambda random: law.mechanism.estimate(law.draw(random))[statistic], truth, draws, 73)


def test_intervals_of_categories_hold():
    check_categories()


def test_intervals_of_shares_that_add_up_hold():
    check_sums()


@pytest.mark.parametrize("statistic", ["presence", wide("mean")])
def test_intervals_of_keys_hold(statistic):
    check_keys(statistic)


def check_ratio_coverage(draws: int = 400) -> None:
    """Means among those who hold a key, down to keys that hardly anybody holds."""
    presence = np.array([20, 200, 2000, 8000, 40_000])[:, None]
    value = np.array([1.0, -0.5, 0.8, 0.0, -1.0])[:, None]
    law, random = KeyLaw(Collision(5, 1, 1.0), presence, value, 100_000), np.random.default_rng(74)
    held = np.zeros(5, dtype=np.int64)
    for _ in range(draws):
        low, high = law.mechanism.estimate(law.draw(random))["conditional_mean"].interval(0.95)
        held += (low <= value[:, 0]) & (value[:, 0] <= high)
    assert (held >= stats.binom.ppf(ALARM / 5, draws, 0.945)).all()


def test_intervals_of_conditional_means_hold_however_few_hold_a_key():
    check_ratio_coverage()


@pytest.mark.wide
def test_intervals_of_smoothed_distributions_hold():
    place = (np.arange(24) + 0.5) / 24
    shares = np.where(np.arange(24) == 8, 3.0, np.where(place < 0.6, 1.0, 0.1))
    held = np.rint(100_000 * shares / shares.sum()).astype(np.int64)
    law, truth = CategoryLaw(SubsetSelection(24, 1.0), held), held / held.sum()
    random, items, draws = np.random.default_rng(75), np.zeros(24, dtype=np.int64), 300
    for _ in range(draws):
        estimate = law.mechanism.estimate(law.draw(random))
        rule = marginals.from_neighbours(estimate.value, estimate.stderr, SHARES, estimate.variance)
        low, high = rule.ends(0.05)
        items += (low <= truth) & (truth <= high)
    assert items.sum() / items.size / draws > 0.945 - Z * math.sqrt(0.05 * 0.95 / draws / 24)
    assert items.min() >= stats.binom.ppf(ALARM / 24, draws, 0.94)


def test_a_plan_states_these_intervals():
    labels = [f"label {place}" for place in range(20)]
    made = plan(Schema({"a": Categorical(labels)}), 1.0, users=20_000, ask=["histogram(a)"])
    column = np.array(labels)[np.random.default_rng(8).integers(0, 20, 20_000) // 2]
    found = made.estimate(made.tally(made.randomize({"a": column}, seed=1)), refine="auto").single("histogram(a)")
    assert found.original is not None
    before = found.original
    low, high = marginals.from_others(before.value, before.stderr, Bounds(0.0, 1.0), before.variance).ends(0.05)
    np.testing.assert_allclose(found.interval(0.95).low, np.minimum(low, found.value), rtol=1e-12)
    np.testing.assert_allclose(found.interval(0.95).high, np.maximum(high, found.value), rtol=1e-12)


# Mutants -------------------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch
real: dict[str, Any] = {
    name: getattr(marginals, name) for name in ("from_others", "from_neighbours", "_blurred", "_contrasts")
}
real |= {"ends": LearnedIntervals.ends, "ratio": RatioIntervals.ends, "plain": plain_ends}


def _narrower(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    middle, half = (low + high) / 2, 0.9 * (high - low) / 2
    return middle - half, middle + half


def nine_tenths_as_wide(patch: Patch) -> None:
    patch.setattr(LearnedIntervals, "ends", lambda self, miss: _narrower(*real["ends"](self, miss)))


def ratios_nine_tenths_as_wide(patch: Patch) -> None:
    patch.setattr(RatioIntervals, "ends", lambda self, miss: _narrower(*real["ratio"](self, miss)))


def plain_ones_nine_tenths_as_wide(patch: Patch) -> None:
    patch.setitem(check_plain_coverage.__globals__, "plain_ends", lambda *given: _narrower(*real["plain"](*given)))


def prior_that_saw_the_item(patch: Patch) -> None:
    def from_others(y, sigma, bounds, variance=None):
        found = real["from_others"](y, sigma, bounds, variance)
        grid, cdf = real["_blurred"](y, sigma, float(np.median(sigma)), bounds)
        tables = Marginals(
            (grid,) * len(found.marginals.grid), (cdf,) * len(found.marginals.grid), found.marginals.scale
        )
        return replace(found, marginals=tables)

    patch.setattr(marginals, "from_others", from_others)


def expected_where_it_is(patch: Patch) -> None:
    def from_others(y, sigma, bounds, variance=None):
        tables = Marginals(tuple(np.array([each, each + 1e-9]) for each in y), (np.array([0.0, 1.0]),) * y.size, sigma)
        return replace(real["from_others"](y, sigma, bounds), which=np.arange(y.size), marginals=tables)

    patch.setattr(marginals, "from_others", from_others)


def lattice_as_long_as_the_item_says(patch: Patch) -> None:
    patch.setattr(confidence, "_OUTWARD", 0)


def standard_errors_of_the_item_alone(patch: Patch) -> None:
    def from_others(y, sigma, bounds, variance=None):
        return real["from_others"](y, sigma, bounds)

    patch.setattr(marginals, "from_others", from_others)


def neighbours_that_saw_the_item(patch: Patch) -> None:
    patch.setattr(marginals, "_contrasts", lambda y, sigma, seen: real["_contrasts"](y, sigma, np.arange(y.size)))


def folds_that_leak(patch: Patch) -> None:
    def contrasts(y, sigma, seen):  # one more than should be
        left = np.setdiff1d(np.arange(y.size), seen)
        return real["_contrasts"](y, sigma, np.sort(np.append(seen, left[:1])))

    patch.setattr(marginals, "_contrasts", contrasts)


def sum_tells_the_item(patch: Patch) -> None:
    def whole(y, sigma, seen):
        return marginals.NoisySums(np.eye(y.size)[seen], y[seen], sigma[seen] ** 2)

    patch.setattr(marginals, "_contrasts", whole)


def sum_constraint_on_the_values(patch: Patch) -> None:
    patch.setattr(marginals, "from_others", lambda y, *rest: real["from_others"](onto_simplex(y), *rest))


def no_cap(patch: Patch) -> None:
    patch.setattr(confidence, "CAP", 1e-9)


def both_tails_get_all_of_the_miss(patch: Patch) -> None:
    one = confidence._Spent.of

    def of(miss):
        found = one(miss)
        return replace(found, above=np.minimum(found.above, beyond(miss)), below=np.minimum(found.below, beyond(miss)))

    patch.setattr(confidence._Spent, "of", of)


def units_without_their_centre(patch: Patch) -> None:
    patch.setattr(InUnits, "ends", lambda self, miss: tuple(self.unit * end for end in self.rule.ends(miss)))


def widest() -> None:
    """The interval of an item that nobody expected."""
    found = learned("far")
    y = np.linspace(-12, 12, 200)
    low, high = replace(found, y=y, sigma=np.ones(200), which=np.zeros(200, np.intp)).ends(0.05)
    assert (high - low).max() < 1.35 * 2 * beyond(0.025)


def test_an_interval_of_what_nobody_expected_is_at_most_a_third_longer():
    widest()


MUTANTS: list[tuple[Callable[[Patch], None], Callable[..., None], tuple[Any, ...]]] = [
    (nine_tenths_as_wide, check_exact_coverage, ("far",)),
    (nine_tenths_as_wide, check_categories, ()),
    (ratios_nine_tenths_as_wide, check_ratios, ()),
    (plain_ones_nine_tenths_as_wide, check_plain_coverage, ()),
    (prior_that_saw_the_item, check_blind, ("from_others", SHARES)),
    (expected_where_it_is, check_blind, ("from_others", SHARES)),
    (neighbours_that_saw_the_item, check_blind, ("from_neighbours", SHARES)),
    (folds_that_leak, check_blind, ("from_neighbours", SHARES)),
    (sum_tells_the_item, check_sum_is_not_used, ()),
    (sum_constraint_on_the_values, check_categories, ()),
    (no_cap, widest, ()),
    (both_tails_get_all_of_the_miss, check_exact_coverage, ("zeros",)),
    (units_without_their_centre, check_units, ()),
    (standard_errors_of_the_item_alone, check_few_reports, ()),
    (lattice_as_long_as_the_item_says, check_variance_by_truth, ()),
]


@pytest.mark.parametrize(
    ("mutant", "check", "arguments"), MUTANTS, ids=[f"{each[0].__name__}-{each[1].__name__}" for each in MUTANTS]
)
def test_mutants_are_killed(mutant, check, arguments, monkeypatch):
    mutant(monkeypatch)
    assert caught(check, *arguments)
