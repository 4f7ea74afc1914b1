"""Several shuffled rounds: against enumeration for few users, and against what guarantees alone add up to."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import pytest

import dither
from dither.errors import ParameterError
from dither.privacy import ShuffledRound, amplify, compose, shuffled_delta

RATIOS = [Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(3)]


def shown(rows: list[list[Fraction]], users: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """The exact law of a multiset."""
    law: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for drawn in product(range(len(rows[0])), repeat=len(users)):
        law[tuple(sorted(drawn))] += math.prod(rows[user][y] for user, y in zip(users, drawn, strict=True))
    return law


@pytest.mark.parametrize(("k", "n"), [(2, 3), (2, 5), (3, 3)])
def test_two_rounds_of_few_users_by_enumeration(k, n):
    """The others may differ between rounds: all of their data sets, and both orders of the pair."""
    mechanism = dither.GRR(k=k, epsilon=1.5)
    rows = [mechanism.channel().row(x) for x in range(k)]
    twice = ShuffledRound(mechanism, n).privacy_loss().times(2)
    crowds = list(product(range(k), repeat=n - 1))[:: max(1, k ** (n - 1) // 4)]
    pairs = [(shown(rows, (0, *others)), shown(rows, (1, *others))) for others in crowds]
    for ratio in RATIOS:
        worst = Fraction(0)
        for (p1, q1), (p2, q2) in product(pairs, repeat=2):
            gains = (p1[a] * p2[b] - ratio * q1[a] * q2[b] for a, b in product(p1, p2))
            worst = max(worst, sum((gain for gain in gains if gain > 0), Fraction(0)))
        stated = twice.delta(math.log(ratio))
        assert float(worst) <= stated * (1 + 1e-9)
        assert stated <= 2.5 * float(worst) + 1e-9  # not empty words


def test_one_round_is_what_amplify_states():
    mechanism = dither.GRR(k=4, epsilon=1.0)
    loss = ShuffledRound(mechanism, 10**5).privacy_loss()
    assert loss.total + loss.infinite == pytest.approx(1, abs=1e-9)
    for epsilon in (0.003, 0.01, 0.02):
        exact = shuffled_delta(mechanism, epsilon, 10**5)
        assert exact <= loss.delta(epsilon) <= 1.01 * exact
    once = compose([ShuffledRound(mechanism, 10**5)], delta=1e-6)
    assert amplify(mechanism, 10**5, 1e-6).epsilon <= once.epsilon <= 1.001 * amplify(mechanism, 10**5, 1e-6).epsilon


def test_many_rounds_grow_like_a_root():
    daily = ShuffledRound(1.0, 10**5)
    found = [compose([(daily, times)], delta=1e-6) for times in (1, 10, 100)]
    assert all(each.model == "shuffled" for each in found)
    assert 2 < found[1].epsilon / found[0].epsilon < 5
    assert 2 < found[2].epsilon / found[1].epsilon < 5
    alone = amplify(1.0, 10**5, 1e-8)
    assert found[2].epsilon < 0.5 * compose([(alone, 100)], delta=2e-6).epsilon  # of guarantees alone


def test_rounds_of_different_kinds():
    rounds = [
        (ShuffledRound(dither.GRR(k=4, epsilon=1.0), 10**4), 3),
        (ShuffledRound(dither.Duchi(epsilon=0.5), 10**4), 4),
    ]
    both, first = compose(rounds, delta=1e-6), compose(rounds[:1], delta=1e-6)
    assert first.epsilon < both.epsilon < first.epsilon + compose(rounds[1:], delta=1e-6).epsilon


def test_what_is_refused():
    with pytest.raises(ParameterError, match="all_rounds"):
        ShuffledRound(dither.LGRR(k=5, epsilon=3.0, first=1.0), 1000)
    with pytest.raises(ParameterError, match="n must"):
        ShuffledRound(1.0, 1)
    with pytest.raises(ParameterError, match="different models"):
        compose([ShuffledRound(1.0, 1000), dither.GRR(k=3, epsilon=1.0)], delta=1e-6)
