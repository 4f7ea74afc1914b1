"""Collision and CoCo with shared hash functions: the same counts, and error bars that own up to the collisions.

With 64 shared functions, popular keys and 60,000 users, error bars that ignore this are too narrow by a factor of three
and more. Keys collide in the same buckets, so their errors go together: the mean squared z-score of one
collection scatters more than that of independent keys. Bounds are for the average over collections with other keys.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dither
from dither.core.sparse_domain import row_dtype
from dither.errors import ParameterError
from dither.kernels.hashing import buckets, public_seeds
from dither.mechanisms import keycohorts

BOTH = pytest.mark.parametrize("cls", [dither.Collision, dither.CoCo])


def users(n: int, d: int, s: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Users with popular keys, other ones for every seed, and the statistics of all keys."""
    rng = np.random.default_rng(seed)
    popular = rng.permutation(1.0 / np.arange(1, d + 1) ** 1.5)
    rows = np.empty(n, dtype=row_dtype(s))
    rows["key"] = np.argsort(rng.exponential(size=(n, d)) / popular, axis=1)[:, :s]
    rows["value"] = np.where(rng.random((n, s)) < 0.8, 1.0, -1.0)
    dense = np.zeros((n, d))
    np.put_along_axis(dense, rows["key"].astype(np.int64), rows["value"], axis=1)
    return rows, {"presence": (dense != 0).mean(axis=0), "mean": dense.mean(axis=0)}


def squares(cls, cohorts: int) -> dict[str, float]:
    """The mean squared z-score over keys and collections."""
    found = {"presence": [], "mean": []}
    for seed in range(6):
        rows, truth = users(60_000, 30, 3, seed)
        mechanism = cls(d=30, s=3, epsilon=3.0, cohorts=cohorts)
        estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(rows, seed=seed)))
        for name, values in found.items():
            values.append((((estimate[name].value - truth[name]) / estimate[name].stderr) ** 2).mean())
    return {name: float(np.mean(values)) for name, values in found.items()}


@pytest.mark.wide
@BOTH
@pytest.mark.parametrize("cohorts", [16, 64, 512])
def test_error_bars_own_up_to_the_collisions(cls, cohorts):
    # 180 scores, of which about a third are independent: 1 +- .18. Six standard deviations are at most a false alarm of
    # 1e-8. Without the shifts the mean square is 8 and more.
    for name, square in squares(cls, cohorts).items():
        assert 0.3 < square < 2.1, name


@BOTH
def test_the_plain_error_bars_would_be_caught(cls, monkeypatch):
    monkeypatch.setattr(keycohorts.CohortKeyValues, "_scatter", lambda self, sums, n, found: found.drawn)
    for name, square in squares(cls, 64).items():
        assert square > 5, name


@BOTH
def test_many_cohorts_are_as_good_as_functions_of_ones_own(cls):
    rows, truth = users(40_000, 30, 3, 1)
    one = cls(d=30, s=3, epsilon=1.0)
    other = replace(one, cohorts=1 << 14)
    errors = [each.estimate(each.tally(each.randomize(rows, seed=1)))["mean"] for each in (one, other)]
    assert errors[1].stderr.mean() == pytest.approx(errors[0].stderr.mean(), rel=0.05)
    assert "shared hash functions" in errors[1].explain()
    z = (errors[1].value - truth["mean"]) / errors[1].stderr
    assert np.abs(z).max() < 6.5  # 30 scores: a false alarm of about 3e-9


@BOTH
def test_the_table_is_read_as_reports_with_seeds_are(cls):
    """The same reports, with the seed instead of the number of its function, hit the same items."""
    shared = cls(d=7, s=2, epsilon=1.0, cohorts=11)
    own = cls(d=7, s=2, epsilon=1.0)
    reports = shared.randomize([{0: 1, 3: -1}, {6: 0.5}, {}] * 400, seed=3)
    spelled: Any = np.empty(len(reports), dtype=own.dtype)
    spelled["seed"], spelled["value"] = public_seeds(11)[reports["cohort"].astype(int)], reports["value"]
    one, other = shared.estimate(shared.tally(reports)), own.estimate(own.tally(spelled))
    for name in ("presence", "mean", "frequency"):
        np.testing.assert_allclose(one[name].value, other[name].value, rtol=1e-12, atol=1e-12)
        assert (one[name].stderr >= other[name].stderr * (1 - 1e-12)).all()


def test_a_tally_of_cohorts_does_not_grow_with_keys():
    mechanism = dither.Collision(d=10_000, s=4, epsilon=1.0, t=20, cohorts=32)
    reports = mechanism.randomize([{0: 1, 9_999: -1}] * 100, seed=1)
    assert mechanism.tally(reports).counts.shape == (32, 20)
    assert mechanism.estimate(mechanism.tally(reports))["mean"].value.shape == (10_000,)


@BOTH
def test_the_guarantee_is_that_of_the_worst_function(cls):
    assert cls(d=5, s=2, epsilon=1.0, cohorts=9).guarantee == cls(d=5, s=2, epsilon=1.0).guarantee


@BOTH
@pytest.mark.parametrize("cohorts", [0, 1, 7, -3, 1.5, True, "many", 1 << 30])
def test_bad_numbers_of_cohorts(cls, cohorts):
    with pytest.raises(ParameterError, match="cohorts"):
        cls(d=5, s=2, epsilon=1.0, cohorts=cohorts)


def test_forged_cohorts_are_refused():
    mechanism = dither.CoCo(d=5, s=2, epsilon=1.0, cohorts=9)
    reports = mechanism.randomize([{}] * 4, seed=1)
    reports["cohort"][2] = 9
    assert mechanism.valid(reports).tolist() == [True, True, False, True]


def test_the_expected_shift():
    """What the essay says: the variance of the shift, for items that are held alone, over many sets of functions."""
    d, t, s, cohorts = 12, 6, 1, 40
    frequency = np.zeros(2 * d)
    frequency[[1, 7]] = 0.5, 0.3  # of items; the others have none of their own, and only shifts
    mechanism = dither.Collision(d=d, s=s, epsilon=1.0, t=t)
    shifts = []
    for trial in range(400):
        seeds = public_seeds((trial + 1) * cohorts)[trial * cohorts :]
        bucket = buckets(seeds[:, None], np.arange(2 * d), t).astype(np.int64)
        together = bucket[:, :, None] == bucket[:, None, [1, 7]]
        high, low = mechanism.law.high / mechanism.law.total, mechanism.law.low / mechanism.law.total
        hit = (low + (high - low) * together).mean(axis=0) @ np.array([0.5, 0.3]) + 0.2 / t
        shifts.append((hit - 1 / t)[[0, 3, 5]] / (high - 1 / t))
    expected = (frequency**2).sum() * (t - 1) / ((t - s) ** 2 * cohorts)
    # 1,200 nearly normal squares have a relative standard deviation of .041: six of them.
    assert np.mean(np.square(shifts)) == pytest.approx(expected, rel=0.25)
