"""Groups with budgets and regions of their own: what theorem 3 of 001 predicts, and what comes out (its Fig. 4.4)."""

import math
from functools import lru_cache
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import dither
from dither.errors import ParameterError
from dither.mechanisms.spec import from_spec
from dither.utility import Deviation, deviation, pooled_deviation, pooling

BUDGETS = (1.0, 5.0, 10.0, 15.0, 20.0)
REGIONS = ((-1.0, 0.0), (0.0, 1.0))
D, M = 2000, 20
REPORTS = 1000  # of each subgroup about a dimension: 100,000 users, of whom each reports 20 of 2,000
ITERATIONS = 1000
BASES = ("Laplace", "Piecewise", "SquareWave")
REACH = -NormalDist().inv_cdf(0.5e-6)  # two-sided, false alarm 1e-6


@lru_cache
def predicted(base: str, weights: str, *, regions: bool = True) -> Deviation:
    """Of one dimension: Laplace, Piecewise or SquareWave at a twentieth of each budget, for uniform values."""
    found = []
    for epsilon, (low, high) in product(BUDGETS, REGIONS if regions else ((-1.0, 1.0),) * 2):
        own = deviation(from_spec(base, epsilon / M, 0.0), "uniform", reports=REPORTS)
        found.append(own.scaled((high - low) / 2))
    return pooled_deviation(found, weights)


def deviations(base: str, weights: str, *, regions: bool, seed: int = 1) -> np.ndarray:
    """Estimate less truth in the first dimension, again and again; the truth is of those who report about it."""
    rng = np.random.default_rng(seed)
    groups = list(product(BUDGETS, REGIONS if regions else ((-1.0, 1.0),) * 2))
    shares = np.empty((ITERATIONS, len(groups)))
    errors = np.empty((ITERATIONS, len(groups)))
    for place, (epsilon, (low, high)) in enumerate(groups):
        mechanism = from_spec(base, epsilon / M, 0.0)
        half, centre = (high - low) / 2, (high + low) / 2
        values = rng.uniform(-1, 1, (ITERATIONS, REPORTS))
        reports = np.asarray(mechanism.randomize(values.reshape(-1), seed=seed + place)).reshape(ITERATIONS, REPORTS)
        for row in range(ITERATIONS):
            found = mechanism.estimate(mechanism.tally(reports[row]))
            errors[row, place] = half * (float(found.value) - values[row].mean())
            shares[row, place] = 1.0 if weights == "reports" else 1 / (half * float(found.stderr)) ** 2
        assert centre == (low + high) / 2
    return (errors * shares / shares.sum(axis=1, keepdims=True)).sum(axis=1)


def check_figure(base: str, weights: str, *, regions: bool) -> None:
    """The mean within 4.9 standard errors of the bias, and the variance within 4.9 of its own, as of a normal."""
    found, made = predicted(base, weights, regions=regions), deviations(base, weights, regions=regions)
    assert abs(made.mean() - float(found.bias)) <= REACH * float(found.stderr) / math.sqrt(ITERATIONS)
    assert abs(made.var() / float(found.variance) - 1) <= REACH * math.sqrt(2 / ITERATIONS)


@pytest.mark.parametrize("base", ["Piecewise", *(pytest.param(base, marks=pytest.mark.wide) for base in BASES[::2])])
def test_figure_4_4(base: str):
    """Five budgets and two regions, 10 subgroups of 100,000 users, 20 of 2,000 dimensions, 1,000 iterations."""
    check_figure(base, "reports", regions=True)


@pytest.mark.parametrize("base", ["Piecewise", *(pytest.param(base, marks=pytest.mark.wide) for base in BASES[::2])])
def test_budgets_by_inverse_variance(base: str):
    """The same budgets without regions, where groups are alike: the smaller error comes out as it is predicted."""
    check_figure(base, "inverse variance", regions=False)
    ratio = predicted(base, "reports", regions=False).rmse / predicted(base, "inverse variance", regions=False).rmse
    assert ratio > (2.5 if base != "SquareWave" else 1.0)


@pytest.mark.wide
@pytest.mark.parametrize("weights", ["reports", "inverse variance"])
def test_two_thousand_dimensions_at_once(weights: str):
    """All dimensions of one collection with 20 of 2,000 reported, 20,000 users a budget: 2,000 deviations in units of
    their predicted errors have squares that add up to 2,000, within 4.9 standard deviations of a chi-square."""
    rng, users = np.random.default_rng(1), 20_000
    groups, errors, stderr = [], [], []
    for place, epsilon in enumerate((1.0, 10.0, 20.0)):
        mechanism = dither.Sampled("Piecewise", d=D, epsilon=epsilon, m=M)
        tally: Any = None
        total = np.zeros(D)
        for start in range(0, users, 2_000):
            records = rng.uniform(-1, 1, (2_000, D))
            total += records.sum(axis=0)
            counted = mechanism.tally(mechanism.randomize(records, seed=10_000 * place + start))
            tally = counted if tally is None else tally + counted
        found: Any = mechanism.estimate(tally)
        errors.append(np.asarray(found.value) - total / users)
        stderr.append(np.asarray(found.stderr))
        groups.append(deviation(mechanism, "uniform", reports=users))
    precision = np.stack(stderr) ** -2.0
    shares = np.full((3, D), 1 / 3) if weights == "reports" else precision / precision.sum(axis=0)
    together, off = pooled_deviation(groups, weights), (np.stack(errors) * shares).sum(axis=0)
    assert together.variance.shape == (D,)
    squares = float(np.sum((off - together.bias) ** 2 / together.variance))
    assert abs(squares - D) <= REACH * math.sqrt(2 * D)


def test_theorem_3_is_what_the_groups_come_to():
    """By the paper's formula, from the moments of single reports."""
    one, other = dither.Laplace(0.5), dither.Laplace(2.0)
    counts = (300, 700)
    groups = [deviation(each, [0.2], reports=r) for each, r in zip((one, other), counts, strict=True)]
    found = pooled_deviation(groups)
    moments = [each.moments(np.array([0.2])) for each in (one, other)]
    variance = sum(r * float(each.variance[0]) for r, each in zip(counts, moments, strict=True)) / 1000**2
    bias = sum(r * float(each.bias[0]) for r, each in zip(counts, moments, strict=True)) / 1000
    assert float(found.variance) == pytest.approx(variance, rel=1e-12)
    assert float(found.bias) == pytest.approx(bias, abs=1e-12)
    assert found.reports == 1000
    assert found.normal_error == pytest.approx(sum(each.normal_error for each in groups))


def test_no_weights_are_better_than_inverse_variance():
    groups = [deviation(dither.Piecewise(epsilon), reports=1000) for epsilon in (0.5, 1.0, 4.0)]
    best = pooled_deviation(groups, "inverse variance").mse
    rng = np.random.default_rng(1)
    for _ in range(100):
        assert pooled_deviation(groups, rng.dirichlet(np.ones(3))).variance.mean() >= best * (1 - 1e-12)


@pytest.mark.parametrize("weights", ["best", [0.5], [0.5, 0.6], [1.5, -0.5], None, [math.nan, 1.0]])
def test_odd_weights(weights: Any):
    groups = [deviation(dither.Laplace(1.0), [0.0], reports=10)] * 2
    with pytest.raises(ParameterError, match="weights must be"):
        pooled_deviation(groups, weights)
    with pytest.raises(ParameterError, match="of the same items"):
        pooled_deviation([groups[0], deviation(dither.GRR(4, 1.0), reports=10)])


def test_a_plan_predicts_both_poolings():
    """One question that all answer: the plan's predictions are those of the framework."""
    budgets, users = {"careful": 0.5, "open": 2.0}, {"careful": 3000, "open": 7000}
    made = dither.plan(dither.Schema({"x": dither.Numeric(-1, 1)}), budgets, users=users)
    groups = [deviation(plan.parts[0].mechanism, reports=plan.users) for plan in made.budgets.values()]
    assert made.predicted["mean(x)"] == pytest.approx(
        pooled_deviation(groups).rmse, rel=1e-4
    )  # the worst value is looked for on a grid
    from dither.planning.groups import pooled_errors

    best = pooled_deviation(groups, "inverse variance").rmse
    assert pooled_errors(made)["mean(x)"] == pytest.approx(best, rel=1e-4)  # the worst value is looked for on a grid


# Broken on purpose ---------------------------------------------------------------------------------------------------


def test_a_variance_that_is_not_squared_by_its_weight(monkeypatch):
    real = pooling._shares
    monkeypatch.setattr(pooling, "_shares", lambda groups, weights: np.sqrt(real(groups, weights)))
    predicted.cache_clear()
    with pytest.raises(AssertionError):
        check_figure("Piecewise", "reports", regions=True)
    predicted.cache_clear()


def test_a_region_that_is_not_scaled(monkeypatch):
    monkeypatch.setattr(Deviation, "scaled", lambda self, unit: self)
    predicted.cache_clear()
    with pytest.raises(AssertionError):
        check_figure("Piecewise", "reports", regions=True)
    predicted.cache_clear()
