"""The expectation behind the bounds: against exact arithmetic for few users, and binomial tails for many.

An upper bound has to stay one in floating point, and a lower one too. Small cases are worked out in fractions.
"""

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.core.blanket_law import BlanketLaw, Contrast
from dither.privacy.shuffle_divergence import binary_law, delta_above, delta_below, two_output_delta

seldom = settings(max_examples=60, deadline=None, derandomize=True)


def expected(pair: Contrast, r: Fraction, n: int) -> Fraction:
    """(1/n) E[(sum of H)_+] over all numbers of users of the four kinds."""
    ratio, spread, both, low = pair
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
def test_bounds_on_either_side_that_are_close(ratio, spread, both, low, rest, step, n):
    whole = 2 * spread + both + low + rest
    pair = Contrast(*map(Fraction, (ratio, Fraction(spread, whole), Fraction(both, whole), Fraction(low, whole))))
    r = 1 + Fraction(step * (ratio - 1), 8)
    law, exact = BlanketLaw.of(pair), float(expected(pair, r, n))
    above, below = delta_above(law, math.log(r), n), delta_below(law, math.log(r), n)
    assert min(1.0, exact) * (1 - 1e-12) <= above <= exact * 1.02
    assert exact * 0.9 <= below <= exact * (1 + 1e-12)


PAIRS = [
    Contrast(Fraction(ratio), *(Fraction(each, 100) for each in masses))
    for ratio, masses in ((3, (10, 0, 30)), (2, (20, 10, 30)), (Fraction(3, 2), (5, 20, 0)))
]


@pytest.mark.parametrize("pair", PAIRS)
def test_more_users_hide_better(pair):
    law = BlanketLaw.of(pair)
    found = [delta_above(law, 0.05, n) for n in (2, 10, 100, 1000, 10_000, 100_000, 10**7, 10**12)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 1e-100


def simulated(pair: Contrast, epsilon: float, n: int) -> float:
    """The expectation at a middling n in floating point, over all numbers of users of each kind, without blocks."""
    r, q, ratio = math.exp(epsilon), float(2 * pair.spread), float(pair.ratio)
    users = np.arange(n + 1)
    log_choose = math.lgamma(n + 1) - np.array([math.lgamma(j + 1) + math.lgamma(n - j + 1) for j in users])
    chance = np.exp(log_choose + users * math.log(q) + (n - users) * math.log1p(-q))
    others = float(pair.low) / (1 - q)
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
            gain = up * (ratio - r) + (j - up) * (1 - r * ratio) + (1 - r) * under
            total += chance[j] * odds * float(half @ np.maximum(gain, 0.0)) * 0.5**j
    return total / n


def test_little_is_lost():
    pair = Contrast(Fraction(math.e), Fraction(15, 100), Fraction(0), Fraction(3, 10))
    for epsilon in (0.1, 0.3):
        exact, law = simulated(pair, epsilon, 60), BlanketLaw.of(pair)
        assert exact * (1 - 1e-9) <= delta_above(law, epsilon, 60) <= 1.001 * exact
        assert 0.999 * exact <= delta_below(law, epsilon, 60) <= exact * (1 + 1e-9)


# Many users: all others alike, where the count of one output is binomial ---------------------------------------------


def all_alike(ratio: float, epsilon: float, n: int) -> float:
    """The exact delta of binary response, all others with the input of the one: sums of binomial probabilities."""
    stats = pytest.importorskip("scipy.stats")
    p, q, r = ratio / (ratio + 1), 1 / (ratio + 1), math.exp(epsilon)
    width = int(14 * math.sqrt(n * p * q)) + 2
    count = np.arange(max(0, int(n * p) - width), min(n, int(n * p) + width))
    others, more = stats.binom.pmf(count, n - 1, p), stats.binom.pmf(count - 1, n - 1, p)
    return float(np.maximum((p - r * q) * more - (r * p - q) * others, 0.0).sum())


@pytest.mark.parametrize(("ratio", "n"), [(math.e, 10**3), (math.e, 10**5), (20.0, 10**5), (math.e, 10**8)])
@pytest.mark.parametrize("depth", [2.0, 5.0, 7.5])
def test_a_crowd_of_many(ratio, n, depth):
    epsilon = depth * (ratio - 1) / math.sqrt(ratio * n)
    if math.exp(epsilon) >= ratio:
        pytest.skip("beyond the local epsilon")
    exact = all_alike(ratio, epsilon, n)
    rows = [Fraction(ratio) / (1 + Fraction(ratio)), 1 / (1 + Fraction(ratio))]
    law = BlanketLaw.between(rows, rows[::-1], rows)
    assert delta_below(law, epsilon, n) == pytest.approx(exact, rel=3e-4)
    assert delta_above(law, epsilon, n) == pytest.approx(exact, rel=3e-4)
    assert exact * (1 - 1e-6) <= two_output_delta(ratio, epsilon, n) <= delta_above(binary_law(ratio), epsilon, n)


def test_two_outputs_are_the_worst_of_all_numbers_of_others():
    """Blocks of k against every k, for more users than there are blocks."""
    stats = pytest.importorskip("scipy.stats")
    ratio, n, epsilon = 3.0, 400, 0.25
    p, q, r = ratio / (ratio + 1), 1 / (ratio + 1), math.exp(epsilon)
    worst = 0.0
    for k in range(n):
        others = np.convolve(stats.binom.pmf(np.arange(k + 1), k, p), stats.binom.pmf(np.arange(n - k), n - 1 - k, q))
        gains = (p - r * q) * np.append(0, others) - (r * p - q) * np.append(others, 0)
        worst = max(worst, float(np.maximum(gains, 0).sum()))
    assert worst * (1 - 1e-9) <= two_output_delta(ratio, epsilon, n) <= 1.2 * worst


def test_rare_reports_with_a_long_ratio_cost_their_probability():
    bulk = binary_law(3.0)
    far = np.geomspace(1e3, 1e9, 20)
    mass = 1e-12 / far
    law = BlanketLaw(
        np.concatenate([bulk.mass, mass, mass]),
        np.concatenate([bulk.first, far, np.ones(20)]),
        np.concatenate([bulk.second, np.ones(20), far]),
    )
    plain, found = delta_above(bulk, 0.1, 10**4), delta_above(law, 0.1, 10**4)
    assert plain <= found <= plain * 1.01 + 3e-11


@pytest.mark.parametrize("closeness", [1e-3, 1e-9, 1e-15])
def test_two_outputs_next_to_their_own_epsilon(closeness):
    """Where next to nothing is left to gain, and the tilt is large."""
    ratio = 6.0
    found = two_output_delta(ratio, math.log(ratio) * (1 - closeness), 4)
    assert 0 <= found <= 2 * closeness
