"""Succinct and SignSum: the variances that they promise, exactly; every draw by enumeration; simulated users.

What all mechanisms have in common is tested in `contract`. Statistical tests have fixed seeds and a false alarm of 2e-8
each, less than 1e-6 in all.
"""

import math
from dataclasses import replace
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest

import dither
from contract.sparse import MANY, USERS, check_worst_users
from contract.sparse import SIGNS as FEW
from dither import testing as checks
from dither.core.additive_channel import AdditiveChannel
from dither.core.exact import log_above
from dither.errors import DitherError, DomainError, ParameterError
from dither.mechanisms.additive import Laplace
from dither.testing.sign_vectors import signs_of
from dither.utility import deviation

ALARM = 2e-8
GOALS = ["frequency", "mean", "presence"]
each_goal = pytest.mark.parametrize("goal", GOALS)
each_class = pytest.mark.parametrize("cls", [dither.SignSum, dither.Succinct])


def kappa(s: int) -> Fraction:
    """How much the sign of a sum of m = s or s + 1 random signs, an odd number, says about one of them."""
    m = s | 1
    return Fraction(comb(m - 1, (m - 1) // 2), 2 ** (m - 1))


# Numbers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("s", [1, 2, 3, 4, 8, 9, 20])
def test_what_a_sign_says_about_its_terms(s):
    # By counting: E[h sign(h + sum of the others)], and nothing but ties where their number is even.
    m = s | 1
    counted = sum(comb(m - 1, up) * (1 if 1 + 2 * up - (m - 1) > 0 else -1) for up in range(m))
    assert Fraction(counted, 2 ** (m - 1)) == kappa(s)
    assert float(1 / kappa(s) ** 2) == pytest.approx(math.pi * m / 2, rel=0.6 / m)


@each_goal
@pytest.mark.parametrize(("s", "epsilon"), [(1, 0.5), (2, 0.5), (3, 1.0), (8, 0.1), (8, 3.0), (21, 1.0)])
def test_the_variance_of_one_bit(goal, s, epsilon):
    mechanism = dither.SignSum(d=30, s=s, epsilon=epsilon, goal=goal)
    high, low = mechanism.law.high, mechanism.law.low
    one = float(Fraction(high + low, high - low) ** 2 / kappa(s) ** 2)
    e = math.exp(epsilon)
    assert one == pytest.approx(float(1 / kappa(s) ** 2) * ((e + 1) / (e - 1)) ** 2, rel=1e-7)
    found = mechanism.moments([{}, dict.fromkeys(range(s), -1)]).variance
    both = 2 if goal == "frequency" else 1  # the two items of a key have signs of their own
    assert found[0] == pytest.approx(np.full(30, both * one), rel=1e-9)
    assert found[1, 0] == pytest.approx(both * one - 1, rel=1e-9)
    assert found[1, -1] == pytest.approx(both * one, rel=1e-9)


def report_moments(s: int, eta: int, law: Any) -> tuple[float, float]:
    """E[h y] and E[y^2] of a reported number y, for an item of the user's with the sign h: from the table of noise."""
    places = law.stretch * (2 * (np.arange(law.shape[1]) - law.reach) / law.steps - 1)
    rows = [np.array([float(Fraction(weight, law.total)) for weight in law.shifted(i)]) for i in range(law.steps + 1)]
    first, second, m = 0.0, 0.0, s | 1
    for up in range(m):
        x = max(-1.0, min(1.0, (1 + 2 * up - (m - 1)) / eta)) / law.stretch
        at = (x + 1) / 2 * law.steps
        lower = min(int(at), law.steps - 1)
        row = (1 - at + lower) * rows[lower] + (at - lower) * rows[lower + 1]
        share = comb(m - 1, up) / 2 ** (m - 1)
        first += share * (row @ places)
        second += share * (row @ places**2)
    return first, second


@pytest.mark.wide
@pytest.mark.parametrize(
    ("s", "epsilon"), [(1, 1.0), (2, 0.05), (3, 4.0), (5, 8.0), (8, 0.5), (8, 4.0), (21, 2.0), (32, 3.0)]
)
def test_the_clip_is_the_best(s, epsilon):
    law = Laplace(epsilon).noise.law
    cost = {}
    for eta in range(1, (s | 1) + 1, 2):
        first, second = report_moments(s, eta, law)
        cost[eta] = second / first**2
    mechanism = dither.Succinct(d=100, s=s, epsilon=epsilon, goal="mean")
    assert cost[mechanism.eta] == min(cost.values())
    assert mechanism.moments([{}]).variance[0] == pytest.approx(np.full(100, cost[mechanism.eta]), rel=1e-9)


def test_clips_that_are_known():
    # The clip of the literature, sqrt(s log n), is far from it where epsilon is small.
    found = [dither.Succinct(d=128, s=s, epsilon=epsilon).eta for s, epsilon in ((8, 0.5), (64, 4.0), (64, 8.0))]
    assert found == [1, 5, 9]
    wide, best = (dither.Succinct(d=128, s=63, epsilon=1.0, eta=eta, goal="mean") for eta in (27, None))
    assert deviation(wide, reports=1000).mse > 2 * deviation(best, reports=1000).mse


@pytest.mark.parametrize(("epsilon", "best"), [(0.1, True), (0.5, True), (3.0, False)])
def test_one_bit_is_best_below_one(epsilon, best):
    d, s = 128, 8
    for goal in ("mean", "presence"):
        users = [dict.fromkeys(range(s), 1)]
        own = dither.SignSum(d=d, s=s, epsilon=epsilon, goal=goal).moments(users).variance.mean()
        for other in (dither.CoCo(d=d, s=s, epsilon=epsilon, goal=goal), dither.Collision(d=d, s=s, epsilon=epsilon)):
            assert (own < replace(other.reading, about=goal).moments(users).variance.mean()) == best


# Enumerated ----------------------------------------------------------------------------------------------------------


def made(cls: Any, **parameters: Any) -> Any:
    return cls(**{"d": 3, "s": 2, "epsilon": 1.0, **parameters})


# Tables of noise with a few outputs: what is done with them is the same.
COARSE, STRETCHED = (
    AdditiveChannel((9, 7, 4, 2, 1), steps=2, reach=2),
    AdditiveChannel((6, 3, 2), steps=1, reach=1, stretch=2),
)


def noisy(law: AdditiveChannel, **parameters: Any) -> dither.Succinct:
    weights = (*law.weights, law.steps, law.reach, law.stretch)
    return made(dither.Succinct, epsilon=log_above(law.ratio()), weights=weights, **parameters)


SMALL = [made(dither.SignSum, s=s, goal=goal, sample=goal == "mean") for s in (1, 2, 3) for goal in GOALS]
SMALL += [noisy(COARSE, s=s, eta=1, goal=goal, sample=goal == "mean") for s in (1, 2, 3) for goal in GOALS]
SMALL += [noisy(COARSE, s=3, eta=3, goal=goal) for goal in GOALS]
SMALL += [noisy(COARSE, d=4, s=4, eta=3, goal=goal) for goal in GOALS]
SMALL += [noisy(STRETCHED, s=s, eta=eta, goal=goal) for s, eta in ((1, 1), (3, 3)) for goal in GOALS]
small = pytest.mark.parametrize("mechanism", SMALL, ids=checks.label)


@small
def test_counts_and_moments_over_all_signs(mechanism):
    checks.check_outcomes(mechanism)


@small
def test_the_channel_against_all_pairs_of_users(mechanism):
    checks.check_channel(mechanism)


@pytest.mark.wide
@each_goal
def test_the_ratio_is_attained_where_s_is_even(goal):
    # Of s = 2 terms and the public one, which is +1 for everybody under a hash function, no two users are 6 apart.
    with pytest.raises(ParameterError, match="eta must be at most 1"):
        made(dither.Succinct, eta=3, goal=goal)
    assert dither.Succinct(d=3, s=2, epsilon=8.0, goal=goal).eta == 1
    checks.check_channel(dither.Succinct(d=3, s=2, epsilon=8.0, goal=goal))


@each_goal
@pytest.mark.parametrize("s", [1, 2, 3, 4])
def test_no_sum_is_zero(goal, s):
    mechanism = dither.SignSum(d=4, s=s, epsilon=1.0, goal=goal)
    assert mechanism.terms % 2 == 1
    for seed in range(20):
        assert all(checks.total_of(mechanism, each, checks.hashed_sign(seed)) % 2 for each in signs_of(4, s))


SIGNS: list[dict[int, float]] = [{}, {2: -1.0}, {0: 1.0, 1: -1.0}, {0: 1.0, 1: 1.0, 2: -1.0}]
REAL: list[dict[int, float]] = [{0: 0.3}, {0: -0.5, 2: 1.0}, {0: 1.0, 1: 0.3}, {0: -0.6, 1: 0.3, 2: 0.5}]


def fitting(mechanism: Any, vectors: list[dict[int, float]]) -> list[dict[int, float]]:
    return [vector for vector in vectors if len(vector) <= mechanism.s or mechanism.sample]


@pytest.mark.wide
@small
def test_sampler_over_all_tapes(mechanism):
    for vector in fitting(mechanism, SIGNS):
        checks.check_sparse_sampler(mechanism, vector)


def on_the_lattice(mechanism: Any) -> bool:
    """Whether no sum has to be rounded, or no number to a sign that matters."""
    if isinstance(mechanism, dither.SignSum) or mechanism.goal == "presence":
        return True
    return mechanism.eta == 1 and mechanism.noise.law.stretch == 1


@pytest.mark.parametrize("mechanism", [each for each in SMALL if on_the_lattice(each)], ids=checks.label)
def test_sampler_over_all_tapes_of_numbers(mechanism):
    for vector in fitting(mechanism, REAL[1:3] if mechanism.s > 1 else REAL[:1]):
        checks.check_sparse_sampler(mechanism, vector)


@pytest.mark.parametrize("mechanism", [each for each in SMALL if not on_the_lattice(each)], ids=checks.label)
def test_numbers_and_sums_are_rounded_independently(mechanism):
    for vector in fitting(mechanism, REAL[:2]):
        checks.check_sparse_sampler(mechanism, vector)


# Estimates -----------------------------------------------------------------------------------------------------------


@each_class
@each_goal
def test_estimates_of_simulated_users(cls, goal):
    checks.check_sparse_estimates(cls(d=6, s=3, epsilon=3.0, goal=goal), USERS, times=20_000, seed=7, alarm=ALARM)


@each_class
def test_estimates_of_users_with_more_keys(cls):
    mechanism = cls(d=6, s=2, epsilon=3.0, sample=True)
    checks.check_sparse_estimates(mechanism, MANY, times=40_000, seed=8, alarm=ALARM)


@each_class
@each_goal
def test_simulated_errors_are_those_predicted(cls, goal):
    checks.check_simulated_errors(cls(d=6, s=2, epsilon=2.0, goal=goal), FEW, seed=9, alarm=ALARM)


@each_class
@each_goal
@pytest.mark.parametrize("vectors", [FEW, USERS, [{0: 0.0}], [{0: 0.3, 1: -0.3}, {1: 0.9}]], ids=len)
def test_stated_errors(cls, goal, vectors):
    mechanism = cls(d=6, s=3, epsilon=2.0, goal=goal)
    if goal == "frequency" or vectors is not FEW:
        checks.check_sparse_errors(mechanism, vectors)
        return
    # One statistic does not tell the other: everybody may have the key, and hide a number behind a sign.
    expected = checks.expected_tally(mechanism, vectors, 10**12)
    found = checks.read_expected(mechanism, expected)[goal].stderr ** 2 * 10**12
    true = mechanism.moments(vectors).variance.mean(axis=0)
    assert (found >= true * (1 - 1e-4)).all()
    assert (found <= true + 1 + 1e-3).all()


@each_class
@each_goal
def test_what_was_not_asked_for_is_not_told(cls, goal):
    mechanism = cls(d=6, s=3, epsilon=3.0, goal=goal)
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(USERS, seed=1)))
    both = ["presence", "mean", "conditional_mean", "frequency"]
    assert list(found) == (both if goal == "frequency" else [goal])
    assert found.explain()


@small
def test_the_worst_users_are_the_worst(mechanism):
    check_worst_users(mechanism)


# Parameters ----------------------------------------------------------------------------------------------------------


@each_class
@pytest.mark.parametrize(
    "parameters",
    [
        {"s": 4},
        {"s": 0},
        {"s": 1.0},
        {"d": 0},
        {"d": 1 << 40},
        {"sample": 1},
        {"goal": "median"},
        {"goal": None},
        {"goal": ["mean"]},
        {"weights": (1, 1)},
        {"weights": (1, 1, 1, 1, 1, 3)},
        {"weights": (6, 3, 2, 1, 1, 1)},  # a ratio of 5/2 + 1/2
        {"weights": (10**6, 1)},
    ],
    ids=str,
)
def test_bad_parameters(cls, parameters):
    with pytest.raises(DitherError):
        made(cls, **{"epsilon": 0.9, **parameters})


@pytest.mark.parametrize("eta", [0, 2, 5, -1, 1.0, True, "1", 1 << 70])
def test_bad_clips(eta):
    with pytest.raises(DitherError):
        made(dither.Succinct, eta=eta)


@each_class
def test_more_keys_than_s_have_to_be_allowed(cls):
    vectors = [{0: 1}, {0: 1, 1: 1}, {0: 1, 1: 1, 2: -1}]
    with pytest.raises(DomainError, match=r"row 2: there are more than 2 keys; sample=True"):
        cls(d=5, s=2, epsilon=1.0).randomize(vectors)
    assert len(cls(d=5, s=2, epsilon=1.0, sample=True).randomize(vectors)) == 3


@each_class
@each_goal
def test_all_keys_and_large_ones(cls, goal):
    whole = cls(d=4, s=4, epsilon=2.0, goal=goal)
    assert whole.tally(whole.randomize(np.eye(4), seed=1)).n == 4
    large = cls(d=1 << 30, s=2, epsilon=1.0, goal=goal)
    assert len(large.randomize([{(1 << 30) - 1: 1.0}, {}], seed=1)) == 2


def test_reports_are_small():
    assert dither.SignSum(d=128, s=8, epsilon=0.5).dtype.itemsize == 9
    assert dither.Succinct(d=128, s=8, epsilon=0.5).dtype.itemsize == 10
