"""The channel of hashed items, by enumeration: every set of places, every pair of inputs.

The structure states ratio, divergence and blanket from a few counts. Here all rows are written out, and the numbers
must be equal as fractions. And a total that follows the number of favoured buckets must be seen to cost privacy.
"""

from fractions import Fraction
from itertools import product
from math import log

import pytest

from dither.core.channel import TwoLevel, hockey_stick
from dither.core.hashed_channel import HashedChannel
from dither.errors import ParameterError

CASES = [
    (high, low, s, t, paired)
    for high, low in ((2, 1), (5, 2), (7, 1))
    for s, t, paired in (
        (1, 2, False),
        (1, 4, False),
        (2, 3, False),
        (2, 5, False),
        (3, 4, False),
        (3, 6, False),
        (1, 4, True),
        (2, 6, True),
        (2, 8, True),
    )
]
every = pytest.mark.parametrize(("high", "low", "s", "t", "paired"), CASES)


def channel(high: int, low: int, s: int, t: int, paired: bool) -> HashedChannel:
    return HashedChannel(TwoLevel(high, low, favoured=s, outputs=t), paired)


@every
def test_rows_sum_to_one_and_are_all_there(high, low, s, t, paired):
    made = channel(high, low, s, t, paired)
    matrix = made.matrix()
    assert matrix.shape == made.shape
    assert all(sum(row) == 1 for row in matrix)
    assert len({tuple(row) for row in matrix}) == len(matrix)
    for row in matrix:
        weights = [cell * made.law.total for cell in row]
        favoured = weights.count(high)
        assert 1 <= favoured <= t
        if paired:  # whatever is favoured has its opposite at the low weight
            pairs = list(zip(weights[: t // 2], weights[t // 2 :], strict=True))
            assert all({one, other} == {high, low} or one == other for one, other in pairs)


@every
def test_ratio_divergence_and_blanket_are_those_of_the_matrix(high, low, s, t, paired):
    made = channel(high, low, s, t, paired)
    matrix = made.matrix()
    assert made.ratio() == Fraction(high, low) == max(max(column) / min(column) for column in matrix.T)
    for ratio in (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(9, 2), Fraction(high, low)):
        assert made.divergence(ratio) == max(hockey_stick(x, y, ratio) for x, y in product(matrix, matrix))
    assert made.divergence(Fraction(high, low)) == 0
    blanket = made.blanket()
    assert blanket.mass == sum(min(column) for column in matrix.T)
    assert blanket.law == tuple(min(column) for column in matrix.T)


@every
def test_what_conflicts_leave_over_lies_between_the_weights(high, low, s, t, paired):
    made = channel(high, low, s, t, paired)
    top = Fraction(high + low, 2) if paired else Fraction(high)
    rest = [made.rest(hit) for hit in range(1, s + 1)]
    assert all(low <= weight <= top for weight in rest)
    assert rest == sorted(rest, reverse=True)
    assert rest[-1] == low


def test_a_random_winner_is_a_mixture_of_the_two_sides():
    made = channel(3, 1, 2, 6, True)
    halves = zip(
        made.given({0: Fraction(1), 2: Fraction(1)}), made.given({0: Fraction(0), 2: Fraction(1)}), strict=True
    )
    assert made.given({0: Fraction(1, 2), 2: Fraction(1)}) == [(a + b) / 2 for a, b in halves]


def shrinking(high: int, low: int, s: int, t: int) -> list[list[Fraction]]:
    """The rows if the total followed the number of favoured buckets: W = w A + (t - w) B."""
    return [
        [Fraction(high if y < w else low, w * high + (t - w) * low) for y in order]
        for w in range(1, s + 1)
        for order in (range(t), range(t - 1, -1, -1))
    ]


def test_a_total_that_shrinks_with_conflicts_costs_privacy():
    # GOLDEN 003: at s=3, t=8, E=2 it would spend ln(22/9) = .894 where ln 2 = .693 is declared.
    rows = shrinking(2, 1, 3, 8)
    assert all(sum(row) == 1 for row in rows)
    largest = max(max(column) / min(column) for column in zip(*rows, strict=True))
    assert largest == Fraction(22, 9)
    assert round(log(largest), 3) == 0.894
    assert channel(2, 1, 3, 8, False).ratio() == 2


def test_large_alphabets_are_not_listed():
    made = channel(3, 1, 40, 20_000, True)
    assert made.ratio() == 3
    assert made.blanket().law is None
    assert 0 < made.blanket().mass < 1
    with pytest.raises(ParameterError):
        made.matrix()


@pytest.mark.parametrize(("s", "t"), [(1, 3), (2, 4), (2, 5), (3, 6), (3, 7)])
def test_pairs_need_room(s, t):
    # With t <= 2 s all pairs may be spoken for, and nothing is left to spread the rest over.
    with pytest.raises(ParameterError, match="at least 2 s"):
        channel(2, 1, s, t, True)
