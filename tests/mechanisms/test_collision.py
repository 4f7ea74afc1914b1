"""Collision and CoCo: the numbers of paper 003, exactly; every draw by enumeration; estimates of simulated users.

What all mechanisms have in common, and the forms of sparse vectors, are tested elsewhere (`contract`,
`core/test_sparse.py`, `core/test_hashed.py`). Statistical tests state their false alarm and have fixed seeds.
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dither
from contract.sparse import MANY, USERS
from dither import testing as checks
from dither.core.exact import log_above
from dither.errors import DitherError, DomainError, ParameterError
from dither.kernels.hashing import buckets
from dither.utility import deviation
from marks import wide

LN2 = log_above(Fraction(2))  # just above ln 2, so that weights 2 and 1 keep it


# The paper's numbers -------------------------------------------------------------------------------------------------


def test_the_hits_of_the_paper():
    hits = dither.CoCo(d=9, s=3, epsilon=LN2, t=8, weights=(2, 1)).hits
    overwritten, omega = Fraction(11, 48), 3 * 2 + 5
    assert (hits.true, hits.opposite, hits.false) == (Fraction(181, 1056), Fraction(107, 1056), Fraction(1, 8))
    assert hits.true - hits.opposite == (1 - overwritten) / omega
    assert hits.true + hits.opposite == Fraction(3, omega)  # (E + 1) / Omega: once the paper has a 2 too many
    assert (hits.both, hits.both_false) == (0, 0)
    plain = dither.Collision(d=9, s=3, epsilon=LN2, t=8, weights=(2, 1)).hits
    assert (plain.true, plain.opposite, plain.false) == (Fraction(2, 11), Fraction(1, 8), Fraction(1, 8))
    assert (plain.both, plain.both_false) == (Fraction(2, 88), Fraction(1, 64))


@pytest.mark.parametrize("weights", [(2, 1), (5, 4), (9, 2)])
def test_the_certificate_does_not_move_with_conflicts(weights):
    ratio = Fraction(*weights)
    for mechanism in (
        dither.Collision(d=9, s=3, epsilon=log_above(ratio), t=8, weights=weights),
        dither.CoCo(d=9, s=3, epsilon=log_above(ratio), t=8, weights=weights),
    ):
        assert mechanism.channel().ratio() == ratio
        assert mechanism.guarantee.epsilon == log_above(ratio)
        shrunk = ratio * Fraction(3 * weights[0] + 5 * weights[1], weights[0] + 7 * weights[1])
        assert shrunk > ratio  # what a total that follows the number of favoured buckets would spend


def collision_error(d: int, s: int, epsilon: float, t: int) -> float:
    """The sum over keys of the variances of the mean, for one user with s keys (003 Theorem 3)."""
    ratio = math.exp(epsilon)
    true, false = ratio / (s * ratio + t - s), 1 / t
    return (s * true * (1 - true) + (2 * d - s) * false * (1 - false)) / (true - false) ** 2


def coco_error(d: int, s: int, epsilon: float, t: int, goal: str = "mean") -> float:
    """The same for CoCo (003 Lemma 3), of means or presences."""
    ratio = math.exp(epsilon)
    omega = s * ratio + t - s
    overwritten = 1 - (t**s - (t - 2) ** s) / (2 * s * t ** (s - 1))
    both, gap = (ratio + 1) / omega, (1 - overwritten) * (ratio - 1) / omega
    if goal == "mean":
        return (s * (both - gap**2) + (d - s) * 2 / t) / gap**2
    return (s * both * (1 - both) + (d - s) * 2 / t * (1 - 2 / t)) / (both - 2 / t) ** 2


def test_the_errors_of_the_paper():
    # d=128, s=8, epsilon=.5, one user. Those of Fig. 5 are at t=28 (the closed form) and, for CoCo, at t=20.
    found = {t: round(collision_error(128, 8, 0.5, t)) for t in (28, 30)}
    assert found == {28: 45_755, 30: 45_679}
    found = {t: round(coco_error(128, 8, 0.5, t)) for t in (20, 22, 24)}
    assert found == {20: 38_194, 22: 38_150, 24: 38_372}  # 24 is that of the closed form, 22 the best
    assert dither.Collision(d=128, s=8, epsilon=0.5).t == 30
    assert dither.CoCo(d=128, s=8, epsilon=0.5).t == 22
    assert dither.Collision(d=256, s=4, epsilon=1.0).t == 19
    assert collision_error(256, 4, 1.0, 17) / collision_error(256, 4, 1.0, 19) == pytest.approx(1.007, abs=5e-4)
    assert pytest.approx(0.165, abs=5e-4) == 1 - 38_194 / 45_755  # CoCo's gain, where the paper says about 20%


def user(d: int, s: int) -> dict[int, int]:
    """One with s keys."""
    return {key: (-1) ** key for key in range(s)}


@pytest.mark.parametrize("t", [9, 20, 28, 30, 50])
def test_the_formulas_are_the_moments_of_the_mechanisms(t):
    d, s, epsilon = 40, 8, 0.5
    plain = dither.Collision(d=d, s=s, epsilon=epsilon, t=t)
    assert plain.moments([user(d, s)]).variance.sum() == pytest.approx(collision_error(d, s, epsilon, t), rel=1e-8)
    if t >= 2 * s + 2:
        paired = dither.CoCo(d=d, s=s, epsilon=epsilon, t=t)
        assert paired.moments([user(d, s)]).variance.sum() == pytest.approx(coco_error(d, s, epsilon, t), rel=1e-8)
        presence = replace(paired.reading, about="presence").moments([user(d, s)])
        assert presence.variance.sum() == pytest.approx(coco_error(d, s, epsilon, t, "presence"), rel=1e-8)
        np.testing.assert_allclose(presence.bias, 0.0, atol=1e-9)


SIZES = [(1, 1), (3, 2), (8, 8), (128, 8), (256, 4), (1000, 1), (1000, 20)]


@pytest.mark.parametrize(("d", "s"), SIZES)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_the_number_of_buckets_is_the_best(d, s, epsilon):
    plain = range(s + 1, 40 * s + 200)
    assert dither.Collision(d=d, s=s, epsilon=epsilon).t == min(plain, key=lambda t: collision_error(d, s, epsilon, t))
    for goal in ("mean", "presence"):
        paired = range(2 * s + 2, 40 * s + 200, 2)
        best = min(paired, key=lambda t: coco_error(d, s, epsilon, t, goal))
        assert dither.CoCo(d=d, s=s, epsilon=epsilon, goal=goal).t == best


def exact_error(d: int, s: int, epsilon: float, t: int, goal: str | None) -> Fraction:
    """The errors of above without rounding: at a large epsilon all but nothing is left of them."""
    ratio = Fraction(math.exp(epsilon))
    omega, none = s * ratio + t - s, Fraction(2, t)
    if goal is None:
        true = ratio / omega
        return (s * true * (1 - true) + (2 * d - s) * none / 2 * (1 - none / 2)) / (true - none / 2) ** 2
    both, alone = (ratio + 1) / omega, (t**s - (t - 2) ** s) * Fraction(1, 2 * s * t ** (s - 1))
    gap = alone * (ratio - 1) / omega
    if goal == "mean":
        return (s * (both - gap**2) + (d - s) * none) / gap**2
    return (s * both * (1 - both) + (d - s) * none * (1 - none)) / (both - none) ** 2


@pytest.mark.parametrize(("d", "s"), [(1, 1), (2, 2), (3, 2), (256, 1), (256, 4), (100_000, 3)])
@pytest.mark.parametrize("goal", [None, "mean", "presence"])
def test_the_number_of_buckets_is_the_best_at_a_large_epsilon(d, s, goal):
    least, step = (s + 1, 1) if goal is None else (2 * s + 2, 2)
    for epsilon in (11.0, 12.5, 16.0, 20.0, 24.5, 30.0, 44.0):
        made = dither.Collision(d, s, epsilon) if goal is None else dither.CoCo(d, s, epsilon, goal=goal)
        best = made.t or 0
        spots = {int(spot) for spot in np.geomspace(1, (1 << 16) - least, 30) // step}
        others = {least, best - step, best + step, 1 << 16} | {least + step * spot for spot in spots}
        errors = {t: exact_error(d, s, epsilon, t, goal) for t in others | {best} if least <= t <= 1 << 16}
        assert errors[best] <= min(errors.values()) * (1 + Fraction(1, 10**11)), epsilon  # floats chose it


def test_nothing_is_lost_above_epsilon_twelve():
    # At t=9106, the best number at epsilon 12, the worst variance of means would be 4% larger: most of it is that signs
    # are rounded. Without that it would be 3.7 times as large.
    made = dither.Collision(d=256, s=1, epsilon=16.0)
    worst = [replace(made, t=t, weights=None).reading.worst_variance() for t in (made.t, 9106)]
    assert made.t == 1 << 16
    assert worst[1] / worst[0] == pytest.approx(1.042, abs=1e-3)
    assert collision_error(256, 1, 16.0, 9106) / collision_error(256, 1, 16.0, 1 << 16) == pytest.approx(3.75, abs=0.01)


@pytest.mark.parametrize(("epsilon", "gain"), [(0.1, 0.24), (0.5, 0.16), (1.0, 0.1), (2.0, 0.03)])
def test_coco_is_better_for_means(epsilon, gain):
    # By a quarter of the variance for a small epsilon, and by nothing for a large one.
    for d, s in ((128, 8), (256, 4), (1000, 20)):
        pair = [cls(d=d, s=s, epsilon=epsilon) for cls in (dither.CoCo, dither.Collision)]
        one, other = (deviation(each, [user(d, s)], reports=1000).mse for each in pair)
        assert 1 - one / other == pytest.approx(gain, abs=0.03)


# Ideal hashing -------------------------------------------------------------------------------------------------------

IDEAL = [
    dither.Collision(d=3, s=1, epsilon=0.7, t=2),
    dither.Collision(d=3, s=2, epsilon=LN2, t=4, weights=(2, 1)),
    dither.Collision(d=3, s=2, epsilon=1.0, t=5),
    dither.Collision(d=3, s=3, epsilon=3.0, t=4),
    dither.CoCo(d=3, s=1, epsilon=3.0, t=6),
    dither.CoCo(d=3, s=2, epsilon=LN2, t=6, weights=(2, 1)),
    dither.CoCo(d=4, s=3, epsilon=LN2, t=8, weights=(2, 1)),
]


@pytest.mark.parametrize("mechanism", [*IDEAL[:-1], wide(IDEAL[-1])], ids=checks.label)
def test_hits_and_moments_over_all_hash_functions(mechanism):
    checks.check_hits(mechanism)


@pytest.mark.parametrize("mechanism", IDEAL, ids=checks.label)
def test_real_values_are_mixtures_of_signs(mechanism):
    for value in (0.0, 0.3, -0.7):
        found = mechanism.moments([{0: value}])
        np.testing.assert_allclose(found.bias, 0.0, atol=1e-9)
        ends = mechanism.moments([{0: -1}, {0: 1}])
        assert found.variance[0, 0] == pytest.approx(ends.variance[:, 0].mean() + 1 - value**2, rel=1e-9)
        np.testing.assert_allclose(found.variance[0, 1:], ends.variance[0, 1:], rtol=1e-9)


# The sampler over all tapes ------------------------------------------------------------------------------------------

SAMPLED = [
    dither.Collision(d=3, s=1, epsilon=1.0, t=3, sample=True),
    dither.Collision(d=3, s=2, epsilon=1.0, t=5, sample=True),
    dither.Collision(d=4, s=3, epsilon=1.5, t=4),
    dither.CoCo(d=3, s=1, epsilon=1.0, sample=True),
    dither.CoCo(d=3, s=2, epsilon=1.0, sample=True),
    dither.CoCo(d=3, s=2, epsilon=0.8, t=8),
]


@pytest.mark.wide
@pytest.mark.parametrize("mechanism", SAMPLED, ids=checks.label)
def test_sampler_over_all_tapes(mechanism):
    for vector in checks.sparse_inputs(mechanism):
        checks.check_sparse_sampler(mechanism, vector)


@pytest.mark.wide
def test_a_random_one_of_three_keys_counts():
    mechanism = dither.CoCo(d=3, s=3, epsilon=0.8, t=8)
    for vector in ({0: 1.0, 1: -1.0, 2: 1.0}, {2: -1.0}):
        checks.check_sparse_sampler(mechanism, vector)


@pytest.mark.parametrize("mechanism", [SAMPLED[1], SAMPLED[5], dither.CoCo(3, 2, 1.0)], ids=checks.label)
def test_short_seeds_have_conflicts_and_none(mechanism):
    # Or the check above would not see what happens in a conflict.
    shares = set()
    for vector in ({0: 1, 1: -1}, {0: 1, 1: 1}):
        mechanism, bits, _ = checks.short_sparse(mechanism, vector)
        places = [mechanism._places(vector, seed) for seed in range(1 << bits)]
        assert {len(each) for each in places} == {1, 2}
        shares |= {share for each in places if len(each) == 1 for share in each.values()}
    # Two keys on one pair may speak for the same bucket, or against each other.
    assert shares == ({0, Fraction(1, 2), 1} if mechanism.paired else {1})


def test_hash_functions_are_the_public_ones():
    mechanism, coco = dither.Collision(d=9, s=2, epsilon=16.0), dither.CoCo(d=9, s=2, epsilon=16.0)
    reports = mechanism.randomize([{3: 1, 7: -1}] * 2000, seed=1)
    items = buckets(reports["seed"][:, None], np.array([7, 14]), mechanism.law.outputs)
    assert (items == reports["value"][:, None]).any(axis=1).mean() > 0.99
    reports = coco.randomize([{3: 1, 7: 1}] * 2000, seed=1)
    keys = buckets(reports["seed"][:, None], np.array([3, 7]), coco.law.outputs)
    assert (keys == reports["value"][:, None]).any(axis=1).mean() > 0.95


# Estimates -----------------------------------------------------------------------------------------------------------

ESTIMATED = [
    dither.Collision(d=6, s=3, epsilon=2.0),
    dither.Collision(d=6, s=3, epsilon=5.0, t=9),
    dither.CoCo(d=6, s=3, epsilon=2.0),
    dither.CoCo(d=6, s=3, epsilon=5.0, goal="presence"),
    dither.CoCo(d=6, s=4, epsilon=1.0),
]


@pytest.mark.parametrize("mechanism", ESTIMATED, ids=checks.label)
def test_estimates_of_simulated_users(mechanism):
    checks.check_sparse_estimates(mechanism, USERS, times=40_000, seed=7)


@pytest.mark.wide
@pytest.mark.parametrize("cls", [dither.Collision, wide(dither.CoCo)])
def test_sampling_down_is_biased_as_it_says(cls):
    mechanism = cls(d=6, s=2, epsilon=3.0, sample=True)
    checks.check_sparse_estimates(mechanism, MANY, times=80_000, seed=8)
    # Presence and mean are too small by the average, over all users, of 1 - s/L times what the user holds.
    lost = np.array([[1 - min(1, 2 / len(vector)) if key in vector else 0.0 for key in range(6)] for vector in MANY])
    held = np.array([[vector.get(key, 0.0) for key in range(6)] for vector in MANY])
    found = mechanism.moments(MANY)
    np.testing.assert_allclose(found.bias, -lost * held, atol=1e-9)
    presence = replace(mechanism.reading, about="presence")
    np.testing.assert_allclose(presence.moments(MANY).bias, -lost, atol=1e-9)
    np.testing.assert_allclose(deviation(mechanism, MANY, reports=100).bias, -(lost * held).mean(axis=0), atol=1e-9)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(MANY * 80_000, seed=9)))["presence"]
    true = np.array([sum(key in vector for vector in MANY) / 4 for key in range(6)])
    assert (np.abs(estimate.value - true) > 10 * estimate.stderr)[[0, 1, 4]].all()  # it shows


@pytest.mark.parametrize("cls", [dither.Collision, dither.CoCo])
def test_a_conditional_mean_is_unknown_where_presence_is_lost(cls):
    mechanism = cls(d=4, s=1, epsilon=1.0)
    hits, n = mechanism.hits, 10**6
    nobody = round(float(hits.false) * n)
    half = round(float(hits.true + hits.opposite) / 2 * n)
    some = nobody + n // 10_000
    counts = np.array([[nobody, nobody], [half, half], [nobody - 5000, nobody - 5000], [some, some]])
    made = mechanism.estimate(dither.Tally(mechanism.fingerprint, n, counts))
    presence, ratio = made["presence"], made["conditional_mean"]
    unknown = presence.value <= presence.stderr
    assert unknown.tolist() == [True, False, True, True]
    assert np.isnan(ratio.value[unknown]).all()
    assert np.isinf(ratio.stderr[unknown]).all()
    assert ratio.value[1] == pytest.approx(0.0, abs=1e-3)
    assert np.isfinite(ratio.stderr[1])
    assert np.isfinite(made["mean"].value).all()
    assert "conditional mean" in made.explain()
    assert "nan" in repr(ratio)


def test_estimates_are_shown():
    mechanism = dither.CoCo(d=3, s=2, epsilon=1.0)
    made = mechanism.estimate(mechanism.tally(mechanism.randomize(np.eye(3), seed=1)))
    assert "frequency" in repr(made)
    assert made["frequency"].table()


def test_conditional_means_stay_in_their_range():
    mechanism = dither.CoCo(d=3, s=1, epsilon=1.0)
    made = mechanism.estimate(mechanism.tally(mechanism.randomize([{0: 1}] * 3000, seed=5)))["conditional_mean"]
    known = made.value[~np.isnan(made.value)]
    assert (np.abs(known) <= 1).all()


@pytest.mark.wide
@pytest.mark.parametrize("cls", [dither.Collision, wide(dither.CoCo)])
def test_conditional_means_are_covered(cls):
    # 1,000 collections, 95% intervals cover 93% to 97.5%: beyond 4.8 deviations with the ratio's own curvature, 1e-6.
    mechanism, vectors = cls(d=3, s=2, epsilon=3.0), [{0: 1, 1: -0.5}, {0: 0.25}, {0: -1, 2: 1}, {0: 1, 1: 1}]
    truth, covered = checks.sparse_truth(mechanism, vectors)["conditional_mean"], 0
    reports = mechanism.randomize(np.tile(mechanism.reading.domain.check(vectors), 1_000_000), seed=12)
    for number, part in enumerate(np.split(reports, 1000)):
        low, high = mechanism.estimate(mechanism.tally(part))["conditional_mean"].interval(0.95)
        covered += bool(low[number % 3] <= truth[number % 3] <= high[number % 3])
    assert 910 <= covered <= 985


def expected(mechanism: Any, vectors: list[dict[int, float]], n: int) -> dither.Tally:
    """A tally with the expected counts of these users."""
    reading = mechanism.reading
    scores, chance = [], reading.law.chance
    truth = checks.sparse_truth(mechanism, vectors)["frequency"]
    kinds = np.column_stack([1 - truth.sum(axis=1), truth])
    for outcome in ([0, 1, 0, 1], [0, 0, 1, 1]):
        scores.append(kinds @ chance @ np.array(outcome, dtype=float))
    return dither.Tally(mechanism.fingerprint, n, np.rint(n * np.stack(scores, axis=1)).astype(np.int64))


@pytest.mark.parametrize("mechanism", ESTIMATED, ids=checks.label)
def test_errors_of_one_sign_are_exact(mechanism):
    # Where all who have a key hold the same sign, nothing is hidden, and the stated error is the predicted one.
    vectors: list[dict[int, float]] = [{0: 1, 1: -1}, {0: 1, 2: 1}, {3: -1}, {}]
    n = 10**12
    made = mechanism.estimate(expected(mechanism, vectors, n))
    predicted = deviation(mechanism, vectors, reports=n)
    np.testing.assert_allclose(made["mean"].stderr, predicted.stderr, rtol=1e-4)
    presence = replace(mechanism.reading, about="presence").moments(vectors)
    np.testing.assert_allclose(made["presence"].stderr, np.sqrt(presence.variance.mean(axis=0) / n), rtol=1e-4)


@pytest.mark.parametrize("mechanism", ESTIMATED, ids=checks.label)
def test_errors_are_never_too_small(mechanism):
    # Rounding values to signs adds to the variance, which at a large epsilon shows.
    n = 10**12
    for vectors in (USERS, [{0: 0.0}], [{0: 0.3, 1: -0.3}, {1: 0.9}]):
        made = mechanism.estimate(expected(mechanism, vectors, n))["mean"].stderr ** 2 * n
        true = deviation(mechanism, vectors, reports=n).variance * n
        assert (made >= true * (1 - 1e-4)).all()
        assert (made <= true + 1 + 1e-3).all()


def test_errors_cover_which_keys_were_sampled():
    n = 10**12
    for mechanism in (dither.CoCo(6, 2, 6.0, sample=True), dither.Collision(6, 2, 6.0, sample=True)):
        for vectors in (MANY, [dict.fromkeys(range(6), 1.0)]):
            made = mechanism.estimate(expected(mechanism, vectors, n))
            true = mechanism.moments(vectors).variance.mean(axis=0)
            assert (made["mean"].stderr ** 2 * n >= true * (1 - 1e-4)).all()
            presence = replace(mechanism.reading, about="presence").moments(vectors)
            assert (made["presence"].stderr ** 2 * n >= presence.variance.mean(axis=0) * (1 - 1e-4)).all()


@pytest.mark.parametrize("mechanism", ESTIMATED, ids=checks.label)
def test_some_users_of_more(mechanism):
    # Half of the users were asked: half of the variance between users is added.
    vectors: list[dict[int, float]] = [{0: 1, 1: -1}, {0: 1, 2: 1}, {3: -1}, {}]
    tally = expected(mechanism, vectors, 10**12)
    all_, some = (
        mechanism.reading.estimate(tally, mechanism.guarantee, "", among=among) for among in (10**12, 2 * 10**12)
    )
    table = np.array([[vector.get(key, 0) for key in range(6)] for vector in vectors])
    added = (some["mean"].stderr ** 2 - all_["mean"].stderr ** 2) * 10**12
    np.testing.assert_allclose(added, table.var(axis=0) / 2, atol=2e-3)
    added = (some["presence"].stderr ** 2 - all_["presence"].stderr ** 2) * 10**12
    np.testing.assert_allclose(added, (table != 0).var(axis=0) / 2, atol=2e-3)


# Predictions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [*ESTIMATED, *SAMPLED, *IDEAL], ids=checks.label)
def test_the_worst_users_are_the_worst(mechanism):
    worst = deviation(mechanism, reports=1000)
    assert worst.bias.shape == (mechanism.d,)
    assert 1000 * worst.variance.mean() == pytest.approx(mechanism.reading.worst_variance(), rel=1e-9)
    generator = np.random.default_rng(3)
    for _ in range(30):
        keys = generator.choice(mechanism.d, generator.integers(0, mechanism.s + 1), replace=False).tolist()
        vector = {key: float(generator.uniform(-1, 1)) for key in keys}
        assert deviation(mechanism, [vector], reports=1000).mse <= worst.mse * (1 + 1e-9)
    assert mechanism.reading.worst_variance(0.5) >= mechanism.reading.worst_variance()


def test_predictions_from_any_form_and_with_weights():
    mechanism = dither.CoCo(d=6, s=3, epsilon=1.0)
    table = np.array([[vector.get(key, 0.0) for key in range(6)] for vector in ({0: 1.0}, {1: -0.5, 2: 1.0})])
    one = deviation(mechanism, table, [0.25, 0.75], reports=1000)
    other = deviation(mechanism, [{0: 1}] + [{1: -0.5, 2: 1}] * 3, reports=1000)
    np.testing.assert_allclose(one.variance, other.variance)
    with pytest.raises(DomainError, match="row 0"):
        deviation(mechanism, [{9: 1}], reports=10)


# Parameters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        (dither.Collision, {"d": 3, "s": 4}),
        (dither.Collision, {"d": 3, "s": 0}),
        (dither.Collision, {"d": 3, "s": 1.0}),
        (dither.Collision, {"d": 3, "s": True}),
        (dither.Collision, {"d": 3, "s": 2, "t": 2}),
        (dither.Collision, {"d": 3, "s": 2, "t": 1}),
        (dither.Collision, {"d": 3, "s": 2, "t": 1 << 17}),
        (dither.Collision, {"d": 3, "s": 2, "t": 5.0}),
        (dither.Collision, {"d": 3, "s": 2, "sample": 1}),
        (dither.Collision, {"d": 0, "s": 1}),
        (dither.Collision, {"d": 1 << 40, "s": 1}),
        (dither.Collision, {"d": 3, "s": 2, "weights": (1, 1)}),
        (dither.Collision, {"d": 3, "s": 2, "weights": (3, 1)}),
        (dither.Collision, {"d": 3, "s": 2, "weights": (3, 2, 1)}),
        (dither.CoCo, {"d": 3, "s": 4}),
        (dither.CoCo, {"d": 3, "s": 2, "t": 4}),
        (dither.CoCo, {"d": 3, "s": 2, "t": 5}),
        (dither.CoCo, {"d": 3, "s": 2, "t": 7}),
        (dither.CoCo, {"d": 3, "s": 1, "t": 2}),
        (dither.CoCo, {"d": 3, "s": 2, "goal": "frequency"}),
        (dither.CoCo, {"d": 3, "s": 2, "goal": None}),
        (dither.CoCo, {"d": 3, "s": 2, "sample": None}),
    ],
    ids=str,
)
def test_bad_parameters(cls, parameters):
    with pytest.raises(DitherError):
        cls(epsilon=1.0, **parameters)


@pytest.mark.parametrize("cls", [dither.Collision, dither.CoCo])
def test_more_keys_than_s_have_to_be_allowed(cls):
    vectors = [{0: 1}, {0: 1, 1: 1}, {0: 1, 1: 1, 2: -1}]
    with pytest.raises(DomainError, match=r"row 2: there are more than 2 keys; sample=True"):
        cls(d=5, s=2, epsilon=1.0).randomize(vectors)
    assert len(cls(d=5, s=2, epsilon=1.0, sample=True).randomize(vectors)) == 3


@pytest.mark.parametrize("cls", [dither.Collision, dither.CoCo])
def test_all_keys_and_large_ones(cls):
    whole = cls(d=4, s=4, epsilon=2.0)
    assert whole.tally(whole.randomize(np.eye(4), seed=1)).n == 4
    large = cls(d=1 << 30, s=2, epsilon=1.0)
    assert len(large.randomize([{(1 << 30) - 1: 1.0}, {}], seed=1)) == 2


def test_reports_are_small():
    assert dither.Collision(d=128, s=8, epsilon=0.5).dtype.itemsize == 9
    assert dither.CoCo(d=128, s=8, epsilon=8.0).dtype.itemsize == 10


def test_a_law_beyond_one_word_is_refused_when_made():
    with pytest.raises(ParameterError, match="too small"):
        dither.Collision(d=1000, s=300, epsilon=1e-9)
