"""The largest error over all items, balls, and biased readings of records: exactly, by enumeration and by simulation.

What is proven is checked against the exact law of few reports, by Fractions. The normal law is checked by collections
of the mechanisms themselves, with fixed seeds. Their bounds are binomial, or 5.2 standard errors: each has a
false-alarm probability of 1e-6 or less. Mutants at the end must fail the same checks.
"""

import importlib
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2, multivariate_normal, ncx2

import dither
from dither.core.covariance import Covariance
from dither.errors import ParameterError
from dither.utility import Deviation, deviation, epsilon_for, users_for
from dither.utility.concentration import Concentration
from dither.utility.quadratic_forms import SquaredLength
from marks import wide

FALSE_ALARM = 1e-6
module = importlib.import_module("dither.utility.deviation")  # the function hides its module


# What is proven ------------------------------------------------------------------------------------------------------


def tail(law: dict[tuple[int, int], Fraction], unit: float, truth: float, radius: float) -> float:
    """P(|average - truth| >= radius) of signs, where (asked, sum of signs) has this law; none asked is a miss."""
    return float(
        sum(
            chance
            for (asked, total), chance in law.items()
            if asked == 0 or abs(unit * total / asked - truth) >= radius * (1 - 1e-12)
        )
    )


def law_of_signs(chances: list[Fraction], share: Fraction) -> dict[tuple[int, int], Fraction]:
    """Of users who report a sign with probability `share`, a plus with these chances: asked, and sum of signs."""
    law = {(0, 0): Fraction(1)}
    for plus in chances:
        step: dict[tuple[int, int], Fraction] = {}
        for (asked, total), chance in law.items():
            for place, part in (
                ((asked, total), 1 - share),
                ((asked + 1, total + 1), share * plus),
                ((asked + 1, total - 1), share * (1 - plus)),
            ):
                step[place] = step.get(place, Fraction(0)) + chance * part
        law = step
    return law


def check_proven(epsilon: float, d: int, users: list[float]) -> None:
    """The exact law of d attributes of which each user reports one sign: misses add up to no more than is allowed."""
    mechanism = dither.SampledDuchi(d=d, epsilon=epsilon, m=1)
    weights: Any = mechanism.part(0).weights
    high, low = weights[:2]
    unit = float(Fraction(high + low, high - low))
    chances = [Fraction(1, 2) + Fraction(value) / Fraction(unit) / 2 for value in users]
    law = law_of_signs(chances, Fraction(1, d))
    truth = float(np.mean(users))
    found = deviation(mechanism, np.tile(np.array(users)[:, None], (1, d)), reports=len(users))
    worst = deviation(mechanism, reports=len(users))
    for confidence in (0.5, 0.9, 0.99):
        radius = found.maximum(confidence, proven=True)
        if math.isfinite(radius):
            assert d * tail(law, unit, truth, radius) <= 1 - confidence
        assert worst.maximum(confidence, proven=True) >= radius


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("d", [1, 2])
def test_what_is_proven_holds_exactly(epsilon, d):
    check_proven(epsilon, d, [1.0] * 40)
    check_proven(epsilon, d, [0.5, -0.5, 0.25, 1.0, -1.0, 0.0] * 6)


def test_the_proven_radius_goes_to_that_of_bernstein():
    """For many reports sqrt(2 V log(2 d / beta) / n): 002 Theorems 2, 4 and 5 with their constants."""
    for mechanism, items, variance in (
        (dither.Duchi(1.0), 1, 4.6827),
        (dither.Hypercube(d=4, epsilon=1.0), 4, None),
        (dither.SampledDuchi(d=7, epsilon=1.0), 7, 7 * 4.6827),
    ):
        found = deviation(mechanism, reports=10**12)
        noise = float(np.max(found.variance)) * 10**12 if variance is None else variance
        expected = math.sqrt(2 * noise * math.log(2 * items / 0.05) / 10**12)
        assert found.maximum(0.95, proven=True) == pytest.approx(expected, rel=1e-3)
        assert found.maximum(0.95) < expected


def test_few_reports_prove_nothing():
    found = deviation(dither.SampledDuchi(d=100, epsilon=1.0), reports=50)  # most attributes have no report at all
    assert math.isinf(found.maximum(0.95, proven=True))
    with pytest.raises(ParameterError, match="leave proven out"):
        deviation(dither.LocalHash(k=5, epsilon=1.0, cohorts=7), reports=1000).maximum(0.95, proven=True)
    with pytest.raises(ParameterError, match="by hand"):
        Deviation(np.zeros(2), np.ones(2), 10, 0.0).maximum(0.95, proven=True)


def test_a_biased_reading_is_proven_with_its_bias():
    wave = dither.SquareWave(1.0)
    found = deviation(wave, [0.9], reports=10**8, estimator="naive")
    assert found.maximum(0.95, proven=True) == pytest.approx(abs(float(found.bias)), rel=2e-3)
    assert found.maximum(0.95, proven=True) > found.maximum(0.95) > abs(float(found.bias))


# By the normal law ---------------------------------------------------------------------------------------------------


def collections(mechanism, users: np.ndarray, times: int, seed: int) -> np.ndarray:
    """Means of `times` collections, in which each user reports some dimensions, by outputs as they are."""
    rows = np.tile(users, (times, 1))
    table = np.asarray(mechanism.randomize(rows, seed=seed))
    d = users.shape[1]
    own = np.asarray(mechanism.naive.dimensions[0][0].scores)[table["value"]].reshape(-1)
    asked = table["dimension"].reshape(-1).astype(np.intp)
    per_user = table["value"].shape[1]
    place = np.repeat(np.repeat(np.arange(times), len(users)), per_user) * d + asked
    counts = np.bincount(place, minlength=times * d)
    return (np.bincount(place, weights=own, minlength=times * d) / counts).reshape(times, d)


def check_naive_records() -> None:
    """Half of the users report each of two dimensions by square waves: bias, variance and the largest error.

    The mean of 3,000 collections is within 5.2 of its standard errors, and their variance within 5.2 of its own.
    """
    mechanism = dither.Sampled("SquareWave", d=2, m=1, epsilon=3.0)
    users = np.column_stack([np.resize([1.0, -1.0], 400), np.resize([1.0, 0.6], 400)])
    times = 3000
    found = deviation(mechanism, users, reports=400, estimator="naive")
    errors = collections(mechanism, users, times, seed=5) - users.mean(axis=0)
    assert (np.abs(errors.mean(axis=0) - found.bias) <= 5.2 * np.sqrt(found.variance / times)).all()
    assert errors.var(axis=0) == pytest.approx(found.variance, rel=5.2 * math.sqrt(2 / times))
    for confidence in (0.5, 0.9):
        inside = int((np.abs(errors).max(axis=1) <= found.maximum(confidence)).sum())
        slack = 2 * found.normal_error * 0.1  # what is left of the bound at these sizes
        assert binom.isf(1 - FALSE_ALARM, times, confidence - slack) <= inside
        assert inside <= binom.isf(FALSE_ALARM, times, min(1, confidence + slack))


def test_naive_readings_of_records():
    check_naive_records()


def test_every_base_of_a_record_has_its_own_reading():
    mixed = dither.Sampled(("SquareWave", "Duchi"), d=2, m=1, epsilon=1.0)
    users = np.array([[0.9, 0.9], [0.5, 0.3]])
    found = deviation(mixed, users, reports=1000, estimator="naive")
    wave = deviation(dither.SquareWave(1.0), users[:, 0], reports=1000, estimator="naive")
    assert found.bias == pytest.approx([float(wave.bias), 0.0])
    split = dither.Split("SquareWave", d=2, epsilon=2.0)
    both = deviation(split, users, reports=1000, estimator="naive")
    assert both.bias[0] == pytest.approx(float(wave.bias))
    assert both.variance[0] == pytest.approx(float(wave.variance))
    tally = mixed.tally(mixed.randomize(np.tile(users, (500, 1)), seed=1))
    assert mixed.naive is not None
    read = mixed.naive.estimate(tally, mixed.guarantee, "test")
    assert read.value[0] < 0.5 * mixed.estimate(tally).value[0]
    assert read.value[1] == mixed.estimate(tally).value[1]
    robust = deviation(dither.Sampled("Laplace", d=2, m=1, epsilon=1.0), users, reports=1000, estimator="robust")
    assert robust.rmse < deviation(dither.Sampled("Laplace", d=2, m=1, epsilon=1.0), users, reports=1000).rmse
    with pytest.raises(ParameterError):
        deviation(dither.Sampled("Laplace", d=2, m=1, epsilon=1.0), users, reports=1000, estimator="naive")


def test_the_worst_users_of_a_biased_reading_depend_on_how_many_report():
    wave = dither.SquareWave(1.0)
    values = np.linspace(-1, 1, 41)
    for reports in (1, 10, 10**3, 10**6):
        alone = max(deviation(wave, [value], reports=reports, estimator="naive").mse for value in values)
        assert deviation(wave, reports=reports, estimator="naive").mse == pytest.approx(alone, rel=1e-9)
    sampled = dither.Sampled("SquareWave", d=2, m=1, epsilon=1.0)
    for reports in (2, 50, 10**4):
        some = max(
            deviation(sampled, np.array([[one] * 2, [other] * 2]), reports=reports, estimator="naive").mse
            for one in values[::4]
            for other in values[::4]
        )
        assert deviation(sampled, reports=reports, estimator="naive").mse >= some * (1 - 1e-9)


def test_many_independent_items():
    """The product over items, turned around: exact at any confidence."""
    for items, confidence in ((1, 0.95), (2, 0.999999), (1000, 0.5), (1000, 1 - 2.0**-40)):
        found = Deviation(np.zeros(items), np.full(items, 0.04), 10, 0.0).maximum(confidence)
        assert math.erfc(found / 0.2 / math.sqrt(2)) == pytest.approx(
            -math.expm1(math.log(confidence) / items), rel=1e-6
        )
    uneven = Deviation(np.array([0.1, -0.2, 0.0]), np.array([0.01, 0.0, 0.09]), 10, 0.0)
    for confidence in (0.5, 0.9, 0.999):
        assert uneven.within(uneven.maximum(confidence)) == pytest.approx(confidence, rel=1e-6)
    assert uneven.maximum(0.3) == pytest.approx(0.2)  # which an item without noise is off by
    assert uneven.within(0.2) > 0.4 > uneven.within(0.19) == 0.0


@pytest.mark.parametrize("k", [2, 3, 5])
def test_shares_that_compete(k):
    """Sidak: never too small, and sharp; two shares are one number. The exact probability by integration."""
    found = deviation(dither.GRR(k=k, epsilon=1.0), "uniform", reports=1000)
    radius = found.maximum(0.95)
    some: Any = found.covariances[0].dense()[: k - 1, : k - 1]
    if k == 2:
        exact = found.each_within(radius)[0]
        assert found.within([radius, radius / 2]) == pytest.approx(found.each_within(radius / 2)[0])
    else:  # the last is what is left, and it is inside, too
        draws = multivariate_normal(np.zeros(k - 1), some).rvs(400_000, random_state=1)
        whole = np.column_stack([draws, -draws.sum(axis=1)])
        exact = float((np.abs(whole).max(axis=1) <= radius).mean())
    assert exact == pytest.approx(0.95, abs=1e-9) if k == 2 else 0.948 < exact < 0.962
    assert found.within(radius) == pytest.approx(0.95, rel=1e-6)


# Balls ---------------------------------------------------------------------------------------------------------------


def check_balls() -> None:
    """Central and shifted chi-square, at confidences from 1e-6 to 1 - 2^-40, to nine digits."""
    for items in (1, 2, 5, 100, 1000):
        for miss in (1 - 1e-6, 0.5, 0.05, 1e-6, 2.0**-40):
            found = Deviation(np.zeros(items), np.full(items, 0.04), 10, 0.0).supremum(1 - miss)
            expected = chi2.ppf(1 - miss, items) if miss > 0.5 else chi2.isf(miss, items)
            assert found == pytest.approx(0.2 * expected**0.5, rel=1e-9)
        for shift in (0.01, 3.0, 1e4):
            vector = Deviation(np.full(items, 0.2 * math.sqrt(shift)), np.full(items, 0.04), 10, 0.0)
            for miss in (0.9, 0.05, 1e-6):
                expected = 0.2 * ncx2.isf(miss, items, items * shift) ** 0.5
                assert vector.supremum(1 - miss) == pytest.approx(expected, rel=1e-6)


def test_balls_hold_at_every_confidence():
    check_balls()


def test_items_without_noise_have_their_bias():
    still = Deviation(np.array([0.3, 0.4]), np.zeros(2), 10, 0.0)
    assert still.supremum(0.95) == pytest.approx(0.5)
    one = Deviation(np.array([0.3, 0.0]), np.array([0.0, 0.04]), 10, 0.0).supremum(0.95)
    assert one == pytest.approx(math.hypot(0.3, 0.2 * chi2.ppf(0.95, 1) ** 0.5))
    assert Deviation(np.array(0.1), np.array(0.0), 10, 0.0).supremum(0.5) == pytest.approx(0.1)


def enumerated(mechanism, shares: np.ndarray) -> np.ndarray:
    """The covariance of one report about all categories, from the exact channel and what each report is worth."""
    outputs = mechanism.outputs()
    worth = np.array([mechanism.estimate(mechanism.tally(report)).value for report in outputs])
    chances = np.array([[float(entry) for entry in row] for row in mechanism.channel().matrix()])
    means = chances @ worth
    return np.einsum("x,xy,yi,yj->ij", shares, chances, worth, worth) - np.einsum("x,xi,xj->ij", shares, means, means)


def check_frequencies() -> None:
    """By enumeration: the covariance of categories, and the ball that follows from its eigenvalues."""
    for mechanism in (
        dither.GRR(k=3, epsilon=1.0),
        dither.GRR(k=5, epsilon=2.0),
        dither.SubsetSelection(k=5, epsilon=1.0, size=2),
        dither.Unary(k=3, epsilon=1.0),
    ):
        for shares in (np.full(mechanism.k, 1 / mechanism.k), np.arange(mechanism.k) / np.arange(mechanism.k).sum()):
            values = np.arange(mechanism.k)
            found = deviation(mechanism, values, shares, reports=1000)
            covariance = enumerated(mechanism, shares) / 1000
            assert found.variance == pytest.approx(np.diag(covariance), rel=1e-9)
            assert found.covariances[0].dense() == pytest.approx(covariance, rel=1e-8, abs=1e-12)
            eigenvalues = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
            expected = SquaredLength.of([(np.zeros(mechanism.k), Covariance.uncorrelated(eigenvalues))]).quantile(0.95)
            assert found.supremum(0.95) == pytest.approx(expected, rel=1e-7)


def test_balls_of_frequencies():
    check_frequencies()
    found = deviation(dither.GRR(k=3, epsilon=1.0), "uniform", reports=1000)
    expected = math.sqrt(1.5 * found.variance[0] * chi2.ppf(0.95, 2))  # two directions share all the noise
    assert found.supremum(0.95) == pytest.approx(expected, rel=1e-9)


def test_balls_of_frequencies_by_simulation():
    """4,000 collections: 95% of them inside, with a binomial bound of 1e-6."""
    mechanism, times, n = dither.GRR(k=3, epsilon=1.0), 4000, 999
    users = np.resize(np.arange(3), n)
    reports = np.asarray(mechanism.randomize(np.tile(users, times), seed=3))["value"].reshape(times, n)
    counts = np.stack([(reports == value).sum(axis=1) for value in range(3)], axis=1)
    reading = mechanism.reading
    estimates = (counts / n - float(reading.q)) / float(reading.p - reading.q)
    radius = deviation(mechanism, users, reports=n).supremum(0.95)
    inside = int((np.linalg.norm(estimates - 1 / 3, axis=1) <= radius).sum())
    assert binom.isf(1 - FALSE_ALARM, times, 0.945) <= inside <= binom.isf(FALSE_ALARM, times, 0.955)


@pytest.mark.parametrize("kind", ["records", wide("many")])
def test_frequencies_beside_means(kind):
    if kind == "records":
        mechanism = dither.Sampled(("Duchi", "GRR(k=3)", "GRR(k=2)"), d=3, m=1, epsilon=1.0)
        found = deviation(mechanism, reports=1000)
        assert [each.size for each in found.covariances] == [1, 3, 2]
        dense = np.zeros((6, 6))
        dense[:1, :1], dense[1:4, 1:4], dense[4:, 4:] = (each.dense() for each in found.covariances)
        assert np.diag(dense) == pytest.approx(found.variance)
        eigenvalues = np.maximum(np.linalg.eigvalsh(dense), 0.0)
        expected = SquaredLength.of([(np.zeros(6), Covariance.uncorrelated(eigenvalues))]).quantile(0.9)
        assert found.supremum(0.9) == pytest.approx(expected, rel=1e-8)
    else:  # more kinds of items than are diagonalised: as if uncorrelated, which is close
        found = deviation(dither.GRR(k=600, epsilon=3.0), "zipf(1.1)", reports=10**5)
        covariance = found.covariances[0].dense()
        eigenvalues = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
        expected = SquaredLength.of([(np.zeros(600), Covariance.uncorrelated(eigenvalues))]).quantile(0.95)
        assert found.supremum(0.95) == pytest.approx(expected, rel=0.01)


# As a goal -----------------------------------------------------------------------------------------------------------


def test_users_and_epsilon_for_a_largest_error():
    mechanism = dither.SampledDuchi(d=20, epsilon=1.0)
    for proven in (False, True):
        users = users_for(mechanism, 0.1, 0.99, goal="maximum", proven=proven)
        assert deviation(mechanism, reports=users).maximum(0.99, proven=proven) <= 0.1 * (1 + 1e-9)
        assert deviation(mechanism, reports=users - 1).maximum(0.99, proven=proven) > 0.1 * (1 - 1e-9)
    assert users_for(mechanism, 0.1, 0.99) == users_for(mechanism, 0.1, 0.99, goal="maximum")
    assert users_for(mechanism, 0.1, 0.95) == users_for(mechanism, 0.1, goal="maximum")

    def make(epsilon: float) -> dither.SampledDuchi:
        return dither.SampledDuchi(d=20, epsilon=epsilon)

    for proven in (False, True):
        epsilon = epsilon_for(make, 0.2, users=20_000, goal="maximum", proven=proven)
        assert deviation(make(epsilon), reports=20_000).maximum(0.95, proven=proven) <= 0.2
        assert deviation(make(epsilon - 0.001), reports=20_000).maximum(0.95, proven=proven) > 0.2
    refused: tuple[dict[str, Any], ...] = (
        {"goal": "mean"},
        {"goal": "rmse", "confidence": 0.9},
        {"goal": "rmse", "proven": True},
    )
    for wrong in refused:
        with pytest.raises(ParameterError):
            users_for(mechanism, 0.1, **wrong)
    with pytest.raises(ParameterError, match=r"biased by more|larger error"):
        users_for(dither.SquareWave(0.5), 0.01, None, [0.9], estimator="naive", goal="maximum", proven=True)


# Mutants -------------------------------------------------------------------------------------------------------------


def without_the_bias(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module.Item, "meant", property(lambda item: item.truth))


def without_the_sampling_of_users(patch: pytest.MonkeyPatch) -> None:
    real = module._average
    patch.setattr(
        module, "_average", lambda item, weights: real(item._replace(share=1.0), weights)._replace(share=item.share)
    )


def bias_lost(patch: pytest.MonkeyPatch) -> None:
    real = module._average
    patch.setattr(
        module, "_average", lambda item, weights: real(item, weights)._replace(bias=0 * real(item, weights).bias)
    )


def independent_shares(patch: pytest.MonkeyPatch) -> None:
    real = module._average
    patch.setattr(module, "_average", lambda item, weights: real(item, weights)._replace(covariance=None))


def twice_the_exponent(patch: pytest.MonkeyPatch) -> None:
    concentration = importlib.import_module("dither.utility.concentration")
    real = concentration._bennett
    patch.setattr(concentration, "_bennett", lambda x: 2.2 * real(x))


def tails_without_their_pole(patch: pytest.MonkeyPatch) -> None:
    real = SquaredLength.upper_tail
    patch.setattr(SquaredLength, "upper_tail", lambda own, q: 1.02 * real(own, q))


MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = [
    (without_the_bias, check_naive_records),
    (without_the_sampling_of_users, check_naive_records),
    (bias_lost, check_naive_records),
    (independent_shares, check_frequencies),
    (twice_the_exponent, lambda: check_proven(0.5, 1, [1.0] * 40)),
    (tails_without_their_pole, check_balls),
]


@pytest.mark.parametrize(("mutant", "check"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
def test_mutants_are_killed(mutant, check, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, IndexError)):
        check()


def test_the_bound_falls_with_the_radius():
    bound = Concentration(1000, np.full(3, 0.25), np.zeros(3), np.full(3, 4.0), 3.0, 2.0)
    misses = [bound.miss(radius) for radius in np.linspace(0.01, 3, 200)]
    assert all(one >= other for one, other in itertools.pairwise(misses))
