"""The robust reading of Laplace: outputs beyond the domain count alike. Less variance, and worth less to liars."""

import numpy as np
import pytest

import dither
from dither.errors import ParameterError
from dither.utility import deviation, influence

X = np.linspace(-1.0, 1.0, 41)
EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 10.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_unbiased_and_with_less_variance(epsilon: float):
    """By the exact table: the bias is below 1e-10 of a standard deviation at every point."""
    mechanism = dither.Laplace(epsilon)
    usual, robust = mechanism.moments(X), mechanism.robust.moments(X)
    assert (np.abs(robust.bias) < 1e-10 * np.sqrt(robust.variance)).all()
    assert (robust.variance <= usual.variance * (1 + 1e-12)).all()
    assert robust.variance.max() <= mechanism.robust.worst_variance() * (1 + 1e-12)


def test_how_much_it_gains():
    usual, robust = (deviation(dither.Laplace(1.0), reports=1000, estimator=name) for name in ("calibrated", "robust"))
    assert float(robust.variance / usual.variance) == pytest.approx(0.71, abs=0.01)
    mechanism = dither.Laplace(1.0)
    (worth,) = influence(mechanism).worths
    assert float(worth.most) == pytest.approx(49.2)
    assert mechanism.robust.scores.max() == pytest.approx(3.1, abs=0.01)
    assert mechanism.robust.scores.min() == pytest.approx(-mechanism.robust.scores.max())


@pytest.mark.parametrize("values", [np.full(40_000, 0.9), np.linspace(-1, 1, 40_000), np.tile([-1.0, 1.0], 20_000)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_error_bar_is_never_too_narrow(epsilon: float, values: np.ndarray):
    """Six standard errors: a false alarm has probability 2e-9."""
    mechanism = dither.Laplace(epsilon)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=4)), mechanism.robust)
    true = float(np.mean(mechanism.robust.moments(values[::100]).variance) / len(values)) ** 0.5
    assert true * (1 - 1e-2) <= float(estimate.stderr) < 1.3 * true
    assert abs(float(estimate.value) - values.mean()) < 6 * float(estimate.stderr)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05])
def test_what_liars_can_do(share: float):
    """They send the farthest output. Six standard errors: 2e-9."""
    mechanism = dither.Laplace(1.0)
    n = 50_000
    liars = round(share * n)
    honest = mechanism.tally(mechanism.randomize(np.zeros(n - liars), seed=1))
    tally = honest + mechanism.tally(np.repeat(mechanism.outputs()[[-1]], liars))
    usual, robust = mechanism.estimate(tally), mechanism.estimate(tally, mechanism.robust)
    assert abs(float(usual.value) - share * 49.2) < 6 * float(usual.stderr)
    assert abs(float(robust.value) - share * mechanism.robust.scores.max()) < 6 * float(robust.stderr)


def test_the_end_that_counts_for_all_is_the_right_one(monkeypatch: pytest.MonkeyPatch):
    """With an end that is one per cent off, the reading is biased, and that is noticed."""
    mechanism = dither.Laplace(1.0)
    scores = mechanism.robust.scores
    scores[scores == scores.max()] *= 1.01
    assert np.abs(mechanism.robust.moments(X).bias).max() > 1e-3


def test_only_where_there_is_one():
    assert dither.Gaussian(1.0, delta=1e-6).robust is None  # its tail has a memory
    with pytest.raises(ParameterError, match='"robust" for Laplace'):
        deviation(dither.Duchi(1.0), reports=10, estimator="robust")
