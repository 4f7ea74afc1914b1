"""The expectation behind the bounds: against exact arithmetic for few users, and the tails against digits for many.

An upper bound has to stay one in floating point. Small cases are worked out in fractions; binomial tails with hundreds
of millions of users are summed in decimals.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.privacy.shuffle_divergence import BlanketPair, blocks, tail

seldom = settings(max_examples=60, deadline=None, derandomize=True)


def expected(pair: BlanketPair, r: Fraction, n: int) -> Fraction:
    """(1/n) E[(sum of H)_+] over all numbers of users of the four kinds."""
    ratio, spread, both, low = (Fraction(each) for each in (pair.ratio, pair.spread, pair.both, pair.low))
    rest = 1 - 2 * spread - both - low
    total = Fraction(0)
    for up in range(n + 1):
        for down in range(n + 1 - up):
            for high in range(n + 1 - up - down):
                for under in range(n + 1 - up - down - high):
                    gain = up * (ratio - r) + down * (1 - r * ratio) + (1 - r) * (high * ratio + under)
                    if gain > 0:
                        ways = comb(n, up) * comb(n - up, down) * comb(n - up - down, high)
                        ways *= comb(n - up - down - high, under)
                        left = n - up - down - high - under
                        total += ways * spread ** (up + down) * both**high * low**under * rest**left * gain
    return total / n


shares = st.integers(0, 16)


@seldom
@given(st.integers(2, 12), st.integers(1, 16), shares, shares, shares, st.integers(1, 7), st.integers(1, 7))
def test_an_upper_bound_that_is_close(ratio, spread, both, low, rest, step, n):
    whole = 2 * spread + both + low + rest
    pair = BlanketPair(float(ratio), spread / whole, both / whole, low / whole)
    r = 1 + Fraction(step * (ratio - 1), 8)
    exact, found = min(1.0, float(expected(pair, r, n))), pair.delta(math.log(r), n)
    assert found >= exact * (1 - 1e-12)
    assert found <= exact * (1 + 2e-6)  # for a few users every block holds one number


@pytest.mark.parametrize(
    "pair", [BlanketPair(3.0, 0.1, 0.0, 0.3), BlanketPair(2.0, 0.2, 0.1, 0.3), BlanketPair(1.5, 0.05, 0.2, 0.0)]
)
def test_more_users_hide_better(pair):
    found = [pair.delta(0.05, n) for n in (2, 10, 100, 1000, 10_000, 100_000)]
    assert found == sorted(found, reverse=True)


def simulated(pair: BlanketPair, epsilon: float, n: int) -> float:
    """The expectation at a middling n in floating point, over all numbers of users of each kind, without blocks."""
    r, q = math.exp(epsilon), 2 * pair.spread
    users = np.arange(n + 1)
    log_choose = math.lgamma(n + 1) - np.array([math.lgamma(j + 1) + math.lgamma(n - j + 1) for j in users])
    chance = np.exp(log_choose + users * math.log(q) + (n - users) * math.log1p(-q))
    others = pair.low / (1 - q)
    total = 0.0
    for j in users[chance > 1e-18]:
        for under in range(n - j + 1):
            odds = math.exp(
                math.lgamma(n - j + 1) - math.lgamma(under + 1) - math.lgamma(n - j - under + 1)
                + under * math.log(others) + (n - j - under) * math.log1p(-others)
            )  # fmt: skip
            if odds < 1e-16:
                continue
            up = np.arange(j + 1)
            half = np.exp(math.lgamma(j + 1) - np.array([math.lgamma(a + 1) + math.lgamma(j - a + 1) for a in up]))
            gain = up * (pair.ratio - r) + (j - up) * (1 - r * pair.ratio) + (1 - r) * under
            total += chance[j] * odds * float(half @ np.maximum(gain, 0.0)) * 0.5**j
    return total / n


def test_blocks_lose_little():
    pair = BlanketPair(math.e, 0.15, 0.0, 0.3)
    for epsilon in (0.1, 0.3):
        exact, found = simulated(pair, epsilon, 60), pair.delta(epsilon, 60)
        assert exact <= found <= 1.01 * exact


# Tails ---------------------------------------------------------------------------------------------------------------


def decimal_tail(k: int, n: int) -> Decimal:
    """P(Bin(n, 1/2) >= k) for k above the middle: the first term from factorials, the others from their ratios."""
    with localcontext() as context:
        context.prec = 60
        term = Decimal(1)
        total, j = Decimal(1), k
        while term > Decimal(10) ** -25:
            term *= Decimal(n - j) / Decimal(j + 1)
            total += term
            j += 1
        return total * (_log_factorial(n) - _log_factorial(k) - _log_factorial(n - k) - n * Decimal(2).ln()).exp()


def _log_factorial(n: int) -> Decimal:
    """Stirling's series, whose error is below its next term."""
    x = Decimal(n)
    series = sum(
        Decimal(a) / (Decimal(b) * x**power) for a, b, power in ((1, 12, 1), (-1, 360, 3), (1, 1260, 5), (-1, 1680, 7))
    )
    tau = Decimal("6.283185307179586476925286766559005768394338798750211641949889")
    return x * x.ln() - x + (tau * x).ln() / 2 + series


@pytest.mark.parametrize("n", [10_000, 1_000_000, 400_000_000])
@pytest.mark.parametrize("z", [2.0, 5.0, 7.5])
def test_tails_of_many_users(n, z):
    k = math.ceil(n / 2 + z * math.sqrt(n) / 2)
    found = float(tail(np.array([float(k)]), float(n), 0.5)[0])
    assert found == pytest.approx(float(decimal_tail(k, n)), rel=1e-10)


def test_tails_of_few_users():
    for n in range(8):
        for k in range(-1, n + 3):
            exact = sum(comb(n, j) for j in range(max(k, 0), n + 1)) / 2**n
            assert float(tail(np.array([float(k)]), float(n), 0.5)[0]) == pytest.approx(exact, abs=1e-15)


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (7, 0.5), (1000, 0.01), (10**6, 0.4), (10**9, 0.7), (5, 1.0)])
def test_blocks_hold_all(n, p):
    edges, mass = blocks(n, p, 0.02)
    assert (edges[0], edges[-1]) == (0, n + 1)
    assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert len(edges) < 2500
    assert (mass * edges[:-1]).sum() <= n * p * (1 + 1e-12)  # a block counts as its first number
