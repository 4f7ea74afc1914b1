"""Shared hash functions: collisions are the same for everybody, and the error bars must say so.

With 256 shared functions, one category at 30% and a million users, the textbook formula gave a mean squared z-score of
30. Here it must be near 1, for both readings.
"""

import numpy as np
import pytest

from dither import LocalHash
from dither.kernels.hashing import buckets, public_seeds
from dither.mechanisms.cohorts import CohortFrequencies
from marks import wide


def skewed(k: int, n: int) -> np.ndarray:
    """One category at 30%, the others fading."""
    shares = 1.0 / np.arange(1, k)
    shares = np.concatenate([[0.3], 0.7 * shares / shares.sum()])
    return np.repeat(np.arange(k), np.round(shares * n).astype(int))


def scores(mechanism: LocalHash, n: int, seed: int) -> np.ndarray:
    """z-scores of all categories of one simulated collection."""
    values = skewed(mechanism.k, n)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=seed)))
    truth = np.bincount(values, minlength=mechanism.k) / len(values)
    return (estimate.value - truth) / estimate.stderr


@pytest.mark.wide
@pytest.mark.parametrize(
    ("cohorts", "epsilon", "reading"),
    [
        (64, 1.0, "taken off"),
        (199, 1.0, "taken off"),
        (256, 1.0, "taken off"),
        wide(4096, 1.0, "solved"),
        (512, 3.0, "solved"),
    ],
)
def test_error_bars_own_up_to_the_collisions(cohorts, epsilon, reading):
    mechanism = LocalHash(k=600, epsilon=epsilon, cohorts=cohorts)
    z = scores(mechanism, 1_000_000, seed=cohorts)
    # The scores of one collection are nearly independent; 600 of them have mean square 1 +- .058, so 1.35 is six
    # standard deviations away: a false alarm below 1e-8. The textbook error bars reach 30.
    assert 0.65 < (z**2).mean() < 1.35
    assert 0.90 < (np.abs(z) < 1.96).mean() < 0.99
    values = skewed(600, 10_000)
    small = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=1)))
    assert "shared hash functions" in small.explain()
    large = mechanism.estimate(mechanism.tally(mechanism.randomize(skewed(600, 1_000_000), seed=2)))
    assert reading in large.explain()


def test_the_plain_reading_would_be_caught():
    mechanism = LocalHash(k=600, epsilon=1.0, cohorts=256)
    values = skewed(600, 1_000_000)
    tally = mechanism.tally(mechanism.randomize(values, seed=256))
    plain = mechanism.reading.plain  # type: ignore[attr-defined]
    truth = np.bincount(values, minlength=600) / len(values)
    z = (plain.value(tally) - truth) / np.sqrt(plain.variance(plain.value(tally)) / tally.n)
    assert (z**2).mean() > 5


def test_solved_reading_by_enumeration():
    """Exact: the mean of the decoded report is the true category, and its variance is the one that is stated."""
    mechanism = LocalHash(k=6, epsilon=1.0, g=3, cohorts=11)
    reading = mechanism.reading
    assert isinstance(reading, CohortFrequencies)
    law = mechanism.channel().matrix().astype(float)
    outputs = mechanism.outputs()
    inverse = reading._inverse
    assert inverse is not None
    plain = np.array([reading.plain.value(mechanism.tally(outputs[[i]])) for i in range(len(outputs))])
    np.testing.assert_allclose(law @ plain, reading._collisions(np.arange(6)).T, atol=1e-10)
    decoded = (plain + 1) @ inverse.T
    np.testing.assert_allclose(law @ decoded, np.eye(6), atol=1e-10)
    # The variance of a population with these shares, and the stated one at the expected table of counts.
    shares = np.array([0.4, 0.3, 0.1, 0.1, 0.05, 0.05])
    variance = sum(share * (law[x] @ (decoded - np.eye(6)[x]) ** 2) for x, share in enumerate(shares))
    n = 10**12
    expected = np.round(shares @ law * n).astype(np.int64)
    tally = mechanism.tally(outputs[:0])
    tally = type(tally)(tally.mechanism, int(expected.sum()), expected.reshape(11, 3))
    solved = reading._solved(tally)
    assert solved is not None
    np.testing.assert_allclose(solved[0], shares, atol=1e-9)
    np.testing.assert_allclose(solved[1] * tally.n, variance, rtol=1e-6)


def test_repeated_collections_of_the_solved_reading_are_unbiased_for_each_category():
    # 400 collections of 2,000 users: the mean of the estimates is within 5.7 standard errors of the truth for each
    # of 12 categories (false alarm 12 * 1.2e-8 = 1.5e-7), and z-scores have mean square 1 (chi-square, 1e-8).
    mechanism = LocalHash(k=12, epsilon=1.0, cohorts=40)
    values = skewed(12, 2000)
    truth = np.bincount(values, minlength=12) / len(values)
    reports = mechanism.randomize(np.tile(values, 400), seed=3)
    reading = mechanism.reading
    found = []
    for part in np.split(reports, 400):
        tally = mechanism.tally(part)
        found.append(reading._solved(tally))  # type: ignore[attr-defined]
    value, variance = (np.array([pair[i] for pair in found]) for i in range(2))
    error = np.sqrt(variance.mean(axis=0) / 400)
    assert (np.abs(value.mean(axis=0) - truth) < 5.7 * error).all()
    assert (np.abs((value - truth) ** 2 / variance).mean(axis=0) < 1 + 5.7 * np.sqrt(2 / 400)).all()


@pytest.mark.parametrize("cohorts", [1, 2, 3])
def test_too_few_cohorts_still_answer_with_wide_error_bars(cohorts):
    mechanism = LocalHash(k=50, epsilon=2.0, cohorts=cohorts)
    z = scores(mechanism, 200_000, seed=1)
    assert np.isfinite(z).all()
    assert (z**2).mean() < 10


def test_the_table_counts_reports_by_cohort_and_bucket():
    mechanism = LocalHash(k=30, epsilon=1.0, g=4, cohorts=9)
    reports = mechanism.randomize(np.arange(30).repeat(50), seed=2)
    table = mechanism.tally(reports).counts
    for cohort in range(9):
        for value in range(4):
            assert table[cohort, value] == ((reports["cohort"] == cohort) & (reports["value"] == value)).sum()
    own = buckets(public_seeds(9)[:, None], np.arange(30, dtype=np.uint32), 4)
    by_hand = sum(table[c, own[c].astype(int)] for c in range(9))
    assert (mechanism.reading._supports(table) == by_hand).all()  # type: ignore[attr-defined]


def test_collisions_of_many_small_categories_are_in_the_error_bars():
    # 600 equal categories and 8 functions: nothing stands out, and collisions are nearly all of the error. Mean squared
    # z-scores of 600 nearly independent categories: 1 +- .058; six standard deviations are 1e-8.
    mechanism = LocalHash(k=600, epsilon=1.0, cohorts=8)
    values = np.arange(1_200_000) % 600
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=5)))
    assert 0.65 < (((estimate.value - 1 / 600) / estimate.stderr) ** 2).mean() < 1.35
