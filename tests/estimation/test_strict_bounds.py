"""Bounds that hold for every distribution: the weights are checked exactly, and what follows by its own arithmetic."""

import numpy as np
import pytest

from dither.core.confidence import beyond
from dither.estimation import strict_bounds
from dither.estimation.output_counts import OutputCounts
from dither.estimation.strict_bounds import upper_bounds
from dither.mechanisms import SquareWave
from dither.mechanisms.window_evidence import output_groups, probabilities

places = np.linspace(0.0, 1.0, 81)


def law(epsilon: float) -> np.ndarray:
    window = SquareWave(epsilon).window
    at = places * window.steps
    return probabilities(window, output_groups(window.law.outputs, 64), at, at)


def guess(kind: str) -> np.ndarray:
    shape = {"bell": np.exp(-0.5 * ((places - 0.4) / 0.15) ** 2), "even": np.ones(places.size)}[kind]
    return shape / shape.sum()


def wanted() -> np.ndarray:
    below = places <= np.array([[0.25], [0.5], [0.8]])
    bins = (places >= np.array([[0.0], [0.4], [0.9]])) & (places <= np.array([[0.1], [0.45], [1.0]]))
    rows = np.concatenate([below, bins]).astype(float)
    return np.concatenate([rows, -rows])


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("n", [10**3, 10**5, 10**7])
@pytest.mark.parametrize("kind", ["bell", "even"])
def test_weights_are_above_what_is_wanted_at_every_place(epsilon, n, kind):
    chances = law(epsilon)
    heard = OutputCounts(n * (chances @ guess(kind)), chances)
    search = strict_bounds._WeightSearch(heard, guess(kind), beyond(0.025))
    for row in wanted():
        assert (search.weights(row) @ chances >= row - 1e-9).all(), "so the bound holds whoever the users are"


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_bounds_close_in_on_the_truth_as_reports_grow(epsilon):
    chances, shares = law(epsilon), guess("bell")
    truth = wanted() @ shares
    widths = []
    for n in (10**4, 10**6, 10**8):
        bounds = upper_bounds(OutputCounts(n * (chances @ shares), chances), wanted(), shares, 0.025)
        assert (bounds >= truth - 1e-9).all()
        widths.append((bounds - truth).mean())
    assert widths[0] > 2 * widths[1] > 2 * widths[2]


def test_bounds_hold_where_the_guess_is_wrong():
    """Users at three points, and the guess is a bell; 4,000 collections.

    A bound that misses with 2.5% misses 160 of 4,000 or more with 3e-9, and one of twelve does so with less than 1e-7.
    """
    chances, shares = law(2.0), np.zeros(places.size)
    shares[[20, 40, 61]] = 0.5, 0.3, 0.2
    n, z = 20_000, beyond(0.025)
    drawn = np.random.default_rng(3).multinomial(n, chances @ shares / (chances @ shares).sum(), 4000).astype(float)
    search = strict_bounds._WeightSearch(OutputCounts(drawn[0], chances), guess("bell"), z)
    for row in wanted():
        weights = search.weights(row)
        bounds = [strict_bounds._bound(counts / n, weights, n, z) for counts in drawn]
        assert np.mean(bounds < row @ shares - 1e-9) < 0.04


def test_nothing_is_bounded_beyond_what_is_possible():
    chances = law(0.5)
    heard = OutputCounts(50 * (chances @ guess("even")), chances)
    bounds = upper_bounds(heard, wanted(), guess("even"), 1e-4)
    assert (bounds[:6] <= 1).all()
    assert (bounds[6:] <= 0).all()
