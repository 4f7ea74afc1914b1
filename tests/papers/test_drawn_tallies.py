"""Tallies that are drawn have the law of tallies of reports: by enumeration, in exact arithmetic."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import comb
from sys import modules

import numpy as np
import pytest

from dither import Unary
from dither.ranges import HDG, TDG
from dither.ranges.grid import Grid
from dither.reproduce import papers

papers.load_paper("004")
drawn = modules["dither_papers.drawn_tallies"]

Law = dict[tuple[int, ...], Fraction]


def reported(oracle: Unary, values: Sequence[int]) -> Law:
    """The law of the counts of all users' reports, word by word, from the integers of the channel."""
    words = list(product((0, 1), repeat=oracle.k))
    law: Law = {(0,) * oracle.k: Fraction(1)}
    for value in values:
        row = oracle.channel().row(value)
        after: Law = Counter()  # type: ignore[assignment]
        for counts, chance in law.items():
            for word, own in zip(words, row, strict=True):
                total = tuple(a + b for a, b in zip(counts, word, strict=True))
                after[total] = after.get(total, Fraction(0)) + chance * own
        law = after
    return law


def binomial(n: int, p: Fraction) -> list[Fraction]:
    return [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def of_binomials(oracle: Unary, held: Sequence[int]) -> Law:
    """The law of independent counts, each the sum of two binomials."""
    users, p, q = sum(held), oracle.reading.p, oracle.reading.q
    each = []
    for own in held:
        one, other = binomial(own, p), binomial(users - own, q)
        each.append(
            [
                sum(one[a] * other[k - a] for a in range(own + 1) if k - a <= users - own and k >= a)
                for k in range(users + 1)
            ]
        )
    found = {}
    for counts in product(range(users + 1), repeat=oracle.k):
        chance = Fraction(1)
        for category, count in enumerate(counts):
            chance *= each[category][count]
        found[counts] = chance
    return found


@pytest.mark.parametrize(("k", "values"), [(2, (0, 0, 1)), (3, (2, 0)), (3, (1, 1, 1)), (4, (3, 0))])
def test_the_counts_of_reports_are_independent_sums_of_two_binomials(k, values):
    oracle = Unary(k=k, epsilon=1.0)
    held = [values.count(category) for category in range(k)]
    wanted = reported(oracle, values)
    found = of_binomials(oracle, held)
    assert sum(found.values()) == 1
    assert {counts: chance for counts, chance in found.items() if chance} == {c: p for c, p in wanted.items() if p}


class Asked:
    """Stands in for a source of randomness: keeps what binomials it is asked for, and gives their means rounded."""

    def __init__(self):
        self.binomials = []

    def binomial(self, n, p):
        self.binomials.append((np.asarray(n).tolist(), p))
        return np.asarray(n) // 2


def test_these_binomials_are_what_is_drawn():
    oracle, source = Unary(k=3, epsilon=1.0), Asked()
    tally = drawn.drawn_tally(oracle, np.array([5, 0, 7]), source)
    p, q = float(oracle.reading.p), float(oracle.reading.q)
    assert source.binomials == [([5, 0, 7], p), ([7, 12, 5], q)]
    assert (tally.n, tally.counts.tolist(), tally.simulated) == (12, [5, 6, 5], True)
    assert str(oracle.estimate(tally).guarantee) != str(oracle.guarantee)


def test_a_tally_of_a_method_has_the_parts_of_its_groups_in_their_places():
    method = drawn.unary(TDG(shape=(4, 4, 4), epsilon=1.0, n=1000, granularity=(2, 2)))
    held = [np.array([1, 2, 3, 4]), np.array([5, 0, 0, 0]), np.array([0, 0, 7, 1])]
    tally = drawn.joined(method, held, Asked())
    for group, own in enumerate(held):
        part = method.layout.marginal(tally, group)
        assert part.n == own.sum()
        assert part.counts.tolist() == (own // 2 + (own.sum() - own) // 2).tolist()
    method.check_tally(tally)


def test_groups_are_drawn_by_their_shares_and_hold_every_user_once():
    records = np.arange(6000, dtype=np.uint16)[:, None]
    crowd = drawn.Crowd.drawn(records, np.array([1, 3, 2]), np.random.default_rng(1))
    assert sorted(crowd.records[:, 0].tolist()) == list(range(6000))
    sizes = [len(crowd.group(number)) for number in range(3)]
    assert sum(sizes) == 6000
    for size, share in zip(sizes, (1 / 6, 1 / 2, 1 / 3), strict=True):
        assert abs(size - 6000 * share) < 6 * (6000 * share * (1 - share)) ** 0.5  # false alarm 2e-9 each


def test_histograms_and_records_say_the_same_of_any_grid():
    random = np.random.default_rng(1)
    records = random.integers(0, 12, (500, 3)).astype(np.uint8)
    asked = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    crowd = drawn.Crowd.drawn(records, np.ones(6), random)
    counted = drawn.Histograms.of(crowd, asked, (12, 12, 12))
    assert counted.users == 500
    for number, attributes in enumerate(asked):
        grid = Grid.equal(attributes, (12, 12, 12), (5, 4)[: len(attributes)])
        assert counted.held(number, grid).tolist() == crowd.held(number, grid).tolist()
    method = drawn.unary(HDG(shape=(12, 12, 12), epsilon=1.0, n=500, granularity=(6, 3)))
    one, other = (source.tally(method, np.random.default_rng(2)) for source in (crowd, counted))
    assert one == other


def test_estimates_from_drawn_tallies_are_unbiased_with_the_stated_variance():
    oracle, random = Unary(k=4, epsilon=1.0), np.random.default_rng(3)
    held, runs = np.array([10, 200, 0, 790]), 600
    values = np.array([oracle.estimate(drawn.drawn_tally(oracle, held, random)).value for _ in range(runs)])
    variance = oracle.reading.variance(held / 1000) / 1000
    off = (values.mean(axis=0) - held / 1000) / np.sqrt(variance / runs)
    assert np.abs(off).max() < 6  # false alarm 8e-9
    assert np.abs(values.var(axis=0, ddof=1) / variance - 1).max() < 6 * (2 / runs) ** 0.5
