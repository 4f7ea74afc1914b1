"""Smoothing: what neighbours tell is learned, what stands out of the noise stays, and errors are honest."""

import numpy as np
import pytest

from dither import Numeric, Ordinal, Schema, plan, refine
from dither.core.estimate import SHARES, Bounds
from dither.errors import ParameterError
from refine.test_shrink import some


def bell(k: int) -> np.ndarray:
    shares = np.exp(-((((np.arange(k) + 0.5) / k - 0.45) / 0.15) ** 2) / 2)
    return shares / shares.sum()


@pytest.mark.parametrize("noise", [0.002, 0.02])
def test_a_bell_is_seen_through_the_noise(noise):
    # The noise has an rmse of `noise`; the values of a smooth curve, which a few numbers describe, far less. In 300
    # draws of other seeds the ratio was never above 0.6.
    truth = bell(60)
    for seed in range(3):
        came = some(truth + noise * np.random.default_rng(seed).normal(size=60), noise, SHARES)
        found = refine.smooth(came)
        assert np.sqrt(np.mean((found.value - truth) ** 2)) < 0.75 * noise
        assert found.value.sum() == pytest.approx(1)
        assert (found.value > 0).all()
        assert found.original is came
        low, high = found.interval(0.95)
        assert np.mean((low <= truth) & (truth <= high)) > 0.6
        assert (found.stderr < came.stderr).mean() > 0.5


def test_without_noise_nothing_moves():
    truth = bell(20)
    truth[7] += 0.2
    truth /= truth.sum()
    found = refine.smooth(some(truth, 1e-6, SHARES))
    np.testing.assert_allclose(found.value, truth, atol=1e-5)


def test_a_spike_that_stands_out_stays():
    truth = np.full(40, 0.5 / 39)
    truth[13] = 0.5
    came = some(truth + 0.01 * np.random.default_rng(2).normal(size=40), 0.01, SHARES)
    found = refine.smooth(came)
    assert found.value[13] == pytest.approx(0.5, abs=0.05)
    assert np.abs(found.value[[12, 14]] - truth[12]).max() < 0.05


def test_neighbours_matter_and_so_does_their_order():
    truth = bell(50)
    came = some(truth + 0.01 * np.random.default_rng(1).normal(size=50), 0.01, SHARES)
    order = np.random.default_rng(3).permutation(50)
    mixed = some(np.asarray(came.value)[order], 0.01, SHARES)
    off = np.sqrt(np.mean((refine.smooth(came).value - truth) ** 2))
    off_mixed = np.sqrt(np.mean((refine.smooth(mixed).value - truth[order]) ** 2))
    assert off < off_mixed / 1.5


def test_what_has_no_order_or_no_sum_is_refused():
    for wrong in (some(np.zeros(5), 0.1, Bounds(-1.0, 1.0)), some(np.ones(300) / 300, 0.1, SHARES), some([1.0], 1.0)):
        with pytest.raises(ParameterError, match="use shrink"):
            refine.smooth(wrong)
    with pytest.raises(ParameterError, match="refined already"):
        refine.smooth(refine.smooth(some(bell(20), 0.1, SHARES)))


def test_plans_smooth_distributions_and_nothing_else():
    schema = Schema({"age": Ordinal(0, 59), "income": Numeric(0, 1000), "wide": Ordinal(0, 999)})
    made = plan(schema, 4.0, users=3000, ask=["distribution(age)", "distribution(income)", "distribution(wide)"])
    rng = np.random.default_rng(5)
    ages = rng.choice(60, 3000, p=bell(60))
    data = {"age": ages, "income": rng.uniform(0, 1000, 3000), "wide": rng.integers(0, 1000, 3000)}
    found = made.estimate(made.tally(made.randomize(data, seed=1)), refine="auto")
    notes = {name: " ".join(found[name].notes) for name in schema}
    assert "Smoothed" in notes["age"]
    assert "Smoothed" in notes["income"]
    assert "Smoothed" not in notes["wide"]  # too many to smooth
    shrunk = made.estimate(made.tally(made.randomize(data, seed=1)), refine="shrink")
    truth = np.bincount(ages, minlength=60) / 3000
    assert np.mean((found["age"].value - truth) ** 2) < np.mean((shrunk["age"].value - truth) ** 2)
