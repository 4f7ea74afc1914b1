"""The analysis of 001: what it predicts, against simulation, and against what is printed.

Means of simulations are compared within six standard errors: a false alarm has probability 2e-9, and there are about
60 such comparisons. The seeds are fixed.
"""

import math

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.learn.analysis import (
    angular_cosine,
    direction_bias,
    efficiency_difference,
    expected_cosine,
    federated_efficiency,
    federated_limit,
    federated_stationary,
)
from dither.learn.spherical import from_spherical, to_spherical

RANDOM = np.random.default_rng


def agree(sample: np.ndarray, mean: float, slack: float = 0.0) -> bool:
    """Whether the mean of a sample is the predicted one, within six standard errors and a slack."""
    return abs(sample.mean() - mean) <= 6 * sample.std() / math.sqrt(sample.size) + slack


# Theorem 6 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_the_efficiency_difference_of_a_step(scale):
    random = RANDOM(1)
    d, rate, clip, batch, multiplier = 20, 0.3, 0.7, 8, 5.0
    gradient, model, optimum = random.normal(size=(3, d)) * [[scale], [1.0], [1.0]]
    found = efficiency_difference(gradient, optimum - model, rate=rate, clip=clip, batch=batch, multiplier=multiplier)
    noise = clip * multiplier * random.normal(size=(200_000, d)) / batch
    noisy, plain = model - rate * (gradient + noise), model - rate * gradient
    total = ((noisy - optimum) ** 2).sum(axis=1) - ((plain - optimum) ** 2).sum()
    item_a = rate**2 * (((gradient + noise) ** 2).sum(axis=1) - gradient @ gradient)
    item_b = 2 * rate * noise @ (optimum - model)
    np.testing.assert_allclose(item_a + item_b, total, atol=1e-9)
    for sample, moments in ((item_a, found.item_a), (item_b, found.item_b), (total, found.total)):
        assert agree(sample, moments.mean)
        assert agree((sample - moments.mean) ** 2, moments.variance)


def test_item_b_does_shrink_with_clip_and_rate():
    """Against Corollary 2, which says that neither can reduce it: item B is in proportion to both."""
    settings = {"batch": 8, "multiplier": 1.0}
    base = efficiency_difference([1.0, 0.0], [0.0, 2.0], rate=0.2, clip=1.0, **settings).item_b.deviation
    slow = efficiency_difference([1.0, 0.0], [0.0, 2.0], rate=0.1, clip=1.0, **settings).item_b.deviation
    short = efficiency_difference([1.0, 0.0], [0.0, 2.0], rate=0.2, clip=0.5, **settings).item_b.deviation
    assert slow == pytest.approx(base / 2)
    assert short == pytest.approx(base / 2)


def test_the_rate_that_cancels_item_a_has_a_root():
    """Corollary 2 prints eta* = eta^2 |g|^2 / |g*|^2; what makes eta*^2 |g*|^2 = eta^2 |g|^2 is its square root."""
    rate, plain, noisy = 0.1, 2.0, 3.0
    printed, right = rate**2 * plain**2 / noisy**2, rate * plain / noisy
    assert right**2 * noisy**2 == pytest.approx(rate**2 * plain**2)
    assert printed**2 * noisy**2 != pytest.approx(rate**2 * plain**2, rel=0.5)


# Theorem 13, Corollary 3 -------------------------------------------------------------------------------------------


def simulated_rounds(weights, bias, deviation, d, seed):
    """What a round of noisy devices adds to the squared distance from the optimum, and the inputs to predict it."""
    random = RANDOM(seed)
    model, gradient, optimum = random.normal(size=(3, d))
    rate = 0.2
    noise = bias + deviation * random.laplace(size=(20_000, len(weights), d)) / math.sqrt(2)
    server = np.einsum("k,rkd->rd", weights, noise)
    plain = model - rate * gradient - optimum
    added = ((plain - rate * server) ** 2).sum(axis=1) - plain @ plain
    return added, (model, gradient, optimum), rate


WEIGHTS = {"equal": [0.125] * 8, "unequal": [0.65] + [0.05] * 7}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("bias", [0.0, 0.8])
def test_a_round_of_noisy_devices(weights, bias):
    d, deviation = 5, 3.0
    added, given, rate = simulated_rounds(weights, bias, deviation, d, seed=2)
    found = federated_efficiency(*given, rate=rate, weights=weights, noise=d * deviation**2, bias=bias)
    assert agree(added, found.total)


def test_the_printed_theorem_13_is_refuted():
    """Without eta in items B and D, and with 1/N for the sum of squared weights, it misses by far."""
    d, deviation, bias, weights = 5, 3.0, 0.8, np.array(WEIGHTS["unequal"])
    added, (model, gradient, optimum), rate = simulated_rounds(weights, bias, deviation, d, seed=2)
    mean = np.full(d, bias)
    pull = -2 * (model - rate * gradient - optimum) @ mean  # eq. 6.12: B and D
    size = rate**2 * (mean @ mean + d * deviation**2 / len(weights))  # eq. 6.12: C
    assert not agree(added, pull + size, slack=0.05 * abs(added.mean()))
    assert not agree(added, rate * pull + size)  # with eta, but still Lemma 8
    assert agree(added, rate * pull + rate**2 * (mean @ mean + d * deviation**2 * (weights @ weights)))


def test_lemma_8_holds_for_equal_weights_only():
    random, weights = RANDOM(3), np.array(WEIGHTS["unequal"])
    noise = random.normal(size=(100_000, 8))
    assert agree((noise @ weights) ** 2, float(weights @ weights))  # 0.44
    assert not agree((noise @ weights) ** 2, 1 / 8)
    assert agree((noise.mean(axis=1)) ** 2, 1 / 8)


def test_devices_may_differ():
    random, weights = RANDOM(4), np.array([0.5, 0.3, 0.2])
    bias, variances = random.normal(size=(3, 4)), np.array([1.0, 10.0, 0.0])
    model, gradient, optimum = random.normal(size=(3, 4))
    found = federated_efficiency(model, gradient, optimum, rate=0.5, weights=weights, noise=variances, bias=bias)
    mean = weights @ bias
    assert found.item_c == pytest.approx(0.25 * (mean @ mean + 0.25 * 1.0 + 0.09 * 10.0))
    assert found.item_b + found.item_d == pytest.approx(-(model - 0.5 * gradient - optimum) @ mean)


def test_a_reporter_brings_its_own_variance():
    from dither.learn.vector_reporter import VectorReporter

    reporter = VectorReporter("SampledDuchi", d=5, epsilon=1.0, clip=2.0, norm="linf")
    weights = [0.01] * 100
    assert federated_limit(rate=0.1, weights=weights, noise=reporter) == pytest.approx(1e-4 * reporter.noise())
    vectors = np.tile([2.0, -1.0, 0.0, 0.5, 2.0], (400, 1))
    means = np.array([reporter.mean(reporter.randomize(vectors[:100], seed=seed)) for seed in range(400)])
    measured = 0.01 * ((means - vectors[0]) ** 2).sum(axis=1)
    assert measured.mean() <= federated_limit(rate=0.1, weights=weights, noise=reporter) * 1.1
    assert measured.mean() >= federated_limit(rate=0.1, weights=weights, noise=reporter) * 0.7


def test_corollary_3_is_one_round_and_the_noise_of_many_adds_up():
    random, weights = RANDOM(5), np.array([0.4, 0.3, 0.3])
    curvature, rate, deviation = np.array([0.5, 2.0]), 0.2, 1.5
    place = np.zeros((4000, 2))
    for _ in range(60):
        server = deviation * np.einsum("k,rkd->rd", weights, random.normal(size=(4000, 3, 2)))
        place = place - rate * (curvature * place + server)
    settings = {"rate": rate, "weights": weights, "noise": 2 * deviation**2}
    assert agree((place**2).sum(axis=1), federated_stationary(curvature=curvature, **settings), slack=1e-4)
    assert (place**2).sum(axis=1).mean() > 2 * federated_limit(**settings)


# Lemma 6 -----------------------------------------------------------------------------------------------------------


def noisy_angles(vector: np.ndarray, deviation: float, rounds: int, seed: int) -> np.ndarray:
    """The errors of all angles; that of the last around the circle."""
    _, angles = to_spherical(vector + deviation * RANDOM(seed).normal(size=(rounds, vector.size)))
    errors = angles - to_spherical(vector)[1]
    errors[:, -1] = (errors[:, -1] + math.pi) % (2 * math.pi) - math.pi
    return errors


def test_example_1_both_clipping_thresholds_bend_the_direction_alike():
    gradient, noise = np.array([1.0, math.sqrt(3)]), np.array([0.3, 0.15])
    for clip in (2.0, 1.0):
        clipped = gradient / max(1.0, np.linalg.norm(gradient) / clip)
        _, angles = to_spherical(clipped + noise * clip / 2)
        assert angles[0] == pytest.approx(0.9663, abs=5e-5)


@pytest.mark.wide
def test_the_bias_of_the_angles():
    vector = RANDOM(6).normal(size=200) + 0.5
    found = direction_bias(vector, 1.0)
    errors = noisy_angles(vector, 1.0, 40_000, seed=7)
    for z in (0, 1, 20, 100, 150):
        assert agree(errors[:, z], found.bias[z], slack=2e-4)
        assert agree(errors[:, z] ** 2, found.squared[z], slack=0.01 * found.squared[z])
    assert (np.abs(found.bias[:150]) > 1e-3).any()  # biased, as 001 says
    towards = np.sign(math.pi / 2 - to_spherical(vector)[1][:150])
    assert (found.bias[:150] * towards > 0).all()  # and always towards pi/2


@pytest.mark.parametrize("deviation", [0.001, 0.05, 0.5, 2.0, 50.0])
def test_the_last_angle_has_no_bias(deviation):
    vector = np.array([-0.6, 0.8])
    found = direction_bias(vector, deviation)
    errors = noisy_angles(vector, deviation, 200_000, seed=8)[:, -1]
    assert found.bias.tolist() == [0.0]
    assert agree(errors, 0.0)
    assert agree(errors**2, float(found.squared[0]), slack=1e-3 * found.squared[0])


def test_a_hopeless_angle_is_uniform():
    assert direction_bias([1.0, 0.0], 1e6).squared[0] == pytest.approx(math.pi**2 / 3, rel=1e-5)


@pytest.mark.parametrize("deviation", [0.01, 0.05, 0.3, 3.0])
def test_the_cosine_under_noise_on_the_coordinates(deviation):
    d, vector = 400, RANDOM(9).normal(size=400)
    vector /= np.linalg.norm(vector)
    noisy = vector + deviation * RANDOM(10).normal(size=(20_000, d))
    cosines = noisy @ vector / np.linalg.norm(noisy, axis=1)
    predicted = expected_cosine(1.0, deviation, d)
    assert agree(cosines, predicted, slack=0.005 * predicted)


def test_the_cosine_does_improve_with_the_batch():
    """Against 001 section 5.3.2, where batch size "hardly changes" the direction under DP: the noise is C sigma / B."""
    assert expected_cosine(1.0, 1.0 / 8, 785) < 0.3
    assert expected_cosine(1.0, 1.0 / 512, 785) > 0.99


@pytest.mark.parametrize("deviation", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("d", [2, 3, 60])
def test_the_cosine_under_noise_on_the_angles_is_exact(deviation, d):
    vector = RANDOM(d).normal(size=d)
    norm, angles = to_spherical(vector)
    turned = angles + deviation * RANDOM(11).normal(size=(40_000, d - 1))
    noisy = from_spherical(np.full(40_000, norm), turned)
    assert agree(noisy @ vector / norm**2, angular_cosine(vector, deviation))


def test_turning_to_angles_loses_the_root_of_d():
    """At equal privacy and beta = 1 the noise that halves the cosine is sqrt(d) times as harmful on angles."""
    d = 2000
    spread, noise = np.ones(d), 0.01
    assert angular_cosine(spread, noise) == pytest.approx(-math.expm1(-d * noise**2 / 2) / (d * noise**2 / 2), rel=1e-3)
    assert angular_cosine(spread, math.sqrt(d + 2) * math.pi / 2 * noise) < 0.05 < expected_cosine(1.0, noise, d)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: efficiency_difference([1.0], [1.0, 2.0], rate=1, clip=1, batch=1, multiplier=1), "as long as"),
        (lambda: efficiency_difference([math.nan], [1.0], rate=1, clip=1, batch=1, multiplier=1), "finite"),
        (lambda: efficiency_difference([1.0], [1.0], rate=0, clip=1, batch=1, multiplier=1), "rate"),
        (lambda: federated_limit(rate=1, weights=[0.5, 0.6], noise=1.0), "sum to 1"),
        (lambda: federated_limit(rate=1, weights=[0.5, 0.5], noise=-1.0), "variance"),
        (lambda: federated_limit(rate=1, weights=[0.5, 0.5], noise=1.0, bias=np.zeros((3, 2))), "bias"),
        (lambda: federated_efficiency([0.0], [0.0], [0.0, 1.0], rate=1, weights=[1.0], noise=1.0), "as long as"),
        (lambda: federated_stationary(rate=1, weights=[1.0], noise=1.0, curvature=3.0), "settles"),
        (lambda: direction_bias([1.0], 1.0), "two coordinates"),
        (lambda: angular_cosine([0.0, 0.0], 1.0), "no direction"),
        (lambda: expected_cosine(0.0, 1.0, 3), "norm"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()
