"""Granularities: the printed numbers of 004, all of them, and our own choice against an exhaustive search."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import GRR, LocalHash, ProjectiveGeometry
from dither.errors import ParameterError
from dither.mechanisms.projective_geometry import best_space
from dither.ranges import Copula
from dither.ranges.granularity import (
    ALPHA_1,
    MOST_CHOSEN,
    MOST_EVALUATIONS,
    OWN_1,
    OWN_2,
    best_in_pairs,
    best_oracle,
    cells_of_pair,
    cut_share,
    guess,
    guideline,
    in_pairs,
    least_in_pairs,
    noise,
    oracle,
    own,
    power_of_two,
    recipe_variance,
)
from dither.ranges.methods import HDG, TDG

EPSILONS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
TABLE_2 = """
3,6   8,2 16,4 32,4 32,4 32,4 32,4 32,8 64,8 64,8 64,8
4,6   8,2 16,2 16,4 32,4 32,4 32,4 32,4 32,4 32,8 64,8
5,6   8,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4 32,8
6,6   8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4
7,6   8,2 8,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4
8,6   8,2 8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4
9,6   8,2 8,2 16,2 16,2 16,4 16,4 16,4 32,4 32,4 32,4
10,6  4,2 8,2 8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4
6,5.0 4,2 4,2 8,2 8,2 8,2 16,2 16,2 16,2 16,2 16,4
6,5.2 4,2 8,2 8,2 8,2 16,2 16,2 16,2 16,4 16,4 16,4
6,5.4 4,2 8,2 8,2 16,2 16,2 16,2 16,4 16,4 16,4 32,4
6,5.6 4,2 8,2 8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4
6,5.8 8,2 8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4
6,6.0 8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4
6,6.2 8,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4 32,8
6,6.4 8,2 16,2 16,4 32,4 32,4 32,4 32,4 32,8 64,8 64,8
6,6.6 16,2 16,4 32,4 32,4 32,4 32,4 32,8 64,8 64,8 64,8
6,6.8 16,2 16,4 32,4 32,4 32,4 64,8 64,8 64,8 64,8 64,8
6,7.0 16,2 32,4 32,4 32,4 64,8 64,8 64,8 64,8 64,8 64,8
"""
ROWS = [line.split() for line in TABLE_2.strip().splitlines()]


def test_the_table_is_whole():
    assert sum(len(row) - 1 for row in ROWS) == 190


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_table_2_of_004(row):
    d, exponent = row[0].split(",")
    d, n = int(d), round(10 ** float(exponent))
    for epsilon, cell in zip(EPSILONS, row[1:], strict=True):
        g1, g2 = map(int, cell.split(","))
        groups = HDG(shape=(64,) * d, epsilon=epsilon, n=n, granularity="guideline").groups
        assert [group.grid.shape for group in groups] == [(g1,)] * d + [(g2, g2)] * (d * (d - 1) // 2)


@pytest.mark.parametrize(("d", "one", "two"), [(6, "23.31", "3.694"), (9, "18.08", "3.05"), (10, "16.91", "2.90")])
def test_the_guideline_before_rounding(d, one, two):
    g1, g2 = guideline(1.0, 10**6 / (d + d * (d - 1) // 2))
    assert f"{g1:.2f}" == one
    assert f"{g2:.{len(two) - 2}f}" == two


def test_the_printed_g1_is_below_the_optimum_of_its_objective():
    n, variance = 10**6 / 21, 4 * math.e / (math.e - 1) ** 2
    g1, _ = guideline(1.0, n)
    best = min(range(2, 200), key=lambda g: g / 2 * variance / n + (ALPHA_1 / g) ** 2)
    assert abs(best - 2 ** (1 / 3) * g1) < 1


def test_the_nearest_power_of_two():
    for size in (3, 64, 1000):
        for tenth in range(1, 9000, 7):
            g = tenth / 10
            nearest = min((1 << i for i in range(1, 15)), key=lambda power: (abs(power - g), -power))
            assert power_of_two(g, size) == min(nearest, size)


def test_the_guideline_of_pairs_alone():
    # TDG has more users in each group than HDG.
    g2 = guideline(1.0, 10**6 / 15)[1]
    assert [
        group.grid.shape for group in TDG(shape=(64,) * 6, epsilon=1.0, n=10**6, granularity="guideline").groups
    ] == [(power_of_two(g2, 64),) * 2] * 15


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 1.0, 2.0, 4.0, 8.0])
def test_noise_is_the_variance_of_what_is_sampled(epsilon):
    for k in (2, 3, 4, 7, 16, 64, 500):
        variances = [made(k=k, epsilon=epsilon).reading.worst_variance() for made in (GRR, LocalHash)]
        assert noise(k, epsilon) == pytest.approx(min(variances), rel=1e-7)
        assert oracle(k, epsilon) == ("GRR" if variances[0] <= variances[1] else "LocalHash") + f"(k={k})"


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 1.0, 2.0, 4.0, 8.0])
def test_the_best_oracle_has_the_smallest_exact_variance_of_all(epsilon):
    """Also of few cells; of many, without a hash for each."""
    for k in (2, 3, 4, 6, 9, 16, 64, MOST_EVALUATIONS, MOST_EVALUATIONS + 1, 2000):
        tried = {
            f"GRR(k={k})": GRR(k=k, epsilon=epsilon),
            f"ProjectiveGeometry(k={k}, q={best_space(k, epsilon).q})": ProjectiveGeometry(k=k, epsilon=epsilon),
        }
        if k <= MOST_EVALUATIONS:
            tried[f"LocalHash(k={k})"] = LocalHash(k=k, epsilon=epsilon)
        variances = {recipe: made.reading.worst_variance() for recipe, made in tried.items()}
        assert variances[best_oracle(k, epsilon)] == min(variances.values())
        assert recipe_variance(best_oracle(k, epsilon), epsilon) == min(variances.values())


def test_labels_are_asked_by_the_best_oracle_and_pairs_and_methods_of_004_as_there():
    assert [best_oracle(k, 1.0).split("(")[0] for k in (4, 8, 16, 64)] == ["GRR", *["ProjectiveGeometry"] * 3]
    small = {"shape": (64, 64), "epsilon": 1.0, "n": 10**6, "nominal": (0,)}
    recipes = {method: [each.recipe.split("(")[0] for each in method(**small).groups] for method in (Copula, HDG, TDG)}
    assert recipes[Copula] == ["ProjectiveGeometry", "SquareWave", "LocalHash"]
    assert recipes[HDG] == ["LocalHash"] * 3
    assert recipes[TDG] == ["LocalHash"]


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 1.0, 2.0, 4.0, 8.0])
def test_many_cells_are_counted_at_once(epsilon):
    """Above the limit projective geometry or randomized response, whichever is better; else nothing changes."""
    for k in (2, 64, MOST_EVALUATIONS):
        assert oracle(k, epsilon, MOST_EVALUATIONS) == oracle(k, epsilon)
        assert noise(k, epsilon, MOST_EVALUATIONS) == noise(k, epsilon)
    for k in (MOST_EVALUATIONS + 1, 2000, MOST_CHOSEN):
        counted = ProjectiveGeometry(k=k, epsilon=epsilon)
        variances = [GRR(k=k, epsilon=epsilon).reading.worst_variance(), counted.reading.worst_variance()]
        assert noise(k, epsilon, MOST_EVALUATIONS) == pytest.approx(min(variances), rel=1e-7)
        better = f"GRR(k={k})" if variances[0] <= variances[1] else f"ProjectiveGeometry(k={k}, q={counted.q})"
        assert oracle(k, epsilon, MOST_EVALUATIONS) == better


@pytest.mark.parametrize("most", [None, MOST_EVALUATIONS])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0, 9.0, 60.0])
def test_more_cells_are_noisier(epsilon, most):
    """The searches stop where noise alone is worse than the best so far.

    Not by more than a few per cent less noisy, where one more cell needs a space with another field.
    """
    totals = np.array([k * noise(k, epsilon, most) for k in range(2, MOST_CHOSEN + 1)])
    assert (np.diff(totals) > 0).all() if most is None else (totals > 0.97 * np.maximum.accumulate(totals)).all()


def is_round(g, size):
    return size % g == 0 or g in [2**i for i in range(13)]


def test_what_is_guessed():
    assert guess(16, 64) == pytest.approx(48 / 63 / 16**2)
    assert guess(10, 100) == pytest.approx(90 / 99 / 10**2)
    assert guess(16, 100) == pytest.approx(84 / 99 / 16**2)  # a power of two
    assert guess(24, 64) == pytest.approx(3 * 40 / 63 / 24**2)
    assert guess(7, 7) == guess(64, 64) == 0


def pair_error(g, h, size, other, epsilon, n):
    few = least_in_pairs(epsilon, n)
    if g < min(few, size) or h < min(few, other):
        return g * h / 16 * noise(g * h, epsilon) / n + 1.0
    return g * h / 16 * noise(g * h, epsilon) / n + (OWN_2 * (guess(g, size) + guess(h, other))) ** 2


def sides(size):
    return sorted({*range(2, size + 1, 2), size})


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 70), st.integers(2, 70), st.floats(0.1, 6.0), st.integers(10, 10**7))
def test_a_pair_is_as_good_as_an_exhaustive_search(size, other, epsilon, n):
    """Neither can be improved alone; of both together none is better by more than a fifth."""
    if size == other:
        other += 1
    found = best_in_pairs(((size, False), (other, False)), epsilon, n)
    g, h = found[size, False], found[other, False]
    error = pair_error(g, h, size, other, epsilon, n)
    assert error == min(pair_error(each, h, size, other, epsilon, n) for each in sides(size))
    assert error == min(pair_error(g, each, size, other, epsilon, n) for each in sides(other))
    least = min(pair_error(*both, size, other, epsilon, n) for both in product(sides(size), sides(other)))
    assert error <= 1.2 * least


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(2, 200), min_size=2, max_size=5), st.floats(0.1, 6.0), st.integers(10, 10**7))
def test_grids_that_share_an_attribute_are_nested(shape, epsilon, n):
    singles, pairs = own(shape, epsilon, n, [False] * len(shape))
    for size, one, two in zip(shape, singles, pairs, strict=True):
        assert 2 <= two <= one <= size
        assert one % two == 0 or one == size
        assert two % 2 == 0 or two == size  # a cut in the middle
        assert two >= min(least_in_pairs(epsilon, n), size)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 300), st.floats(0.1, 6.0), st.integers(10, 10**7))
def test_one_attribute_is_searched_exhaustively(size, epsilon, n):
    def error(g):
        return g / 3 * noise(g, epsilon) / n + (OWN_1 * guess(g, size)) ** 2

    (found,), pairs = own((size,), epsilon, n, (False,))
    assert pairs == ()
    assert error(found) == min(error(g) for g in {*range(2, 2 * size // 3 + 1), size})


@pytest.mark.parametrize(
    ("epsilon", "n", "cells"),
    [
        (0.1, 10**6, (8, 2)),
        (0.2, 10**6, (16, 4)),
        (0.5, 10**6, (16, 4)),
        (1.0, 10**6, (16, 4)),
        (2.0, 10**6, (32, 4)),
        (1.0, 10**5, (16, 4)),
        (1.0, 10**7, (32, 8)),
    ],
)
def test_the_choice_in_the_setting_of_004(epsilon, n, cells):
    singles, pairs = own((64,) * 6, epsilon, n / 21, (False,) * 6)
    assert set(zip(singles, pairs, strict=True)) == {cells}


def test_pairs_alone_are_finer():
    for epsilon, cells in ((0.1, 4), (0.5, 8), (1.0, 8), (3.5, 16)):
        assert own((64,) * 6, epsilon, 10**6 / 15, (False,) * 6, alone=True)[1] == (cells,) * 6


def test_round_numbers_where_the_domain_has_them():
    for size, epsilon in product((16, 30, 50, 64, 100, 365, 1000, 1024), (0.2, 0.5, 1.0, 2.0)):
        (one, _), (two, _) = own((size, size), epsilon, 10**6 / 21, (False, False))
        assert is_round(one, size)
        assert is_round(two, size)


def test_each_attribute_has_its_own():
    singles, pairs = own((1024, 64, 16, 5, 100, 30), 1.0, 10**6 / 21, (False,) * 6)
    assert singles == (32, 16, 16, 5, 20, 16)
    assert pairs == (4,) * 6


def test_small_domains_take_all_their_values():
    singles, pairs = own((2, 3, 64), 1.0, 10**5, (False,) * 3)
    assert singles[:2] == (2, 3)
    assert pairs[:2] == (2, 3)
    assert cut_share(3, 3) == 0


def test_nominal_attributes_have_a_cell_for_each_value():
    singles, pairs = own((64, 30, 5), 0.5, 10**4, (False, True, True))
    assert singles[1:] == pairs[1:] == (30, 5)
    assert pairs[0] < 64
    mechanism = HDG(shape=(64, 30), epsilon=1.0, n=10**5, nominal=(1,), granularity=(8, 4))
    assert [group.grid.shape for group in mechanism.groups] == [(8,), (30,), (4, 30)]
    listed: Any = [1, 1]
    mechanism = HDG(shape=(64, 30), epsilon=1.0, n=10**5, nominal=listed, granularity="guideline")
    assert mechanism.nominal == (1,)
    assert mechanism.groups[-1].grid.shape[1] == 30


def test_nominal_attributes_with_too_many_values_share_cells_in_pairs():
    assert own((5000, 4), 1.0, 10**5, (True, False)) == ((5000, 4), (1024, 4))
    assert own((100, 90), 1.0, 10**5, (True, True)) == ((100, 90), (64, 64))
    assert own((409, 10), 1.0, 10**5, (True, True)) == ((409, 10), (409, 10))
    assert own((411, 10), 1.0, 10**5, (True, True)) == ((411, 10), (409, 10))
    for granularity in (None, "guideline", (16, 4)):
        mechanism = HDG(shape=(3000, 64, 30), epsilon=1.0, n=10**5, nominal=(0, 2), granularity=granularity)
        shapes = {group.grid.attributes: group.grid.shape for group in mechanism.groups}
        assert (shapes[0,], shapes[2,]) == ((3000,), (30,))
        assert shapes[0, 1][0] == shapes[0, 2][0] == MOST_CHOSEN // 30  # the same in all its pairs
        assert shapes[1, 2] == (shapes[0, 1][1], 30)


@given(st.lists(st.tuples(st.integers(2, 1 << 20), st.booleans()), min_size=2, max_size=5))
def test_pairs_with_nominal_attributes_fit(kinds):
    """Ordered attributes are left as they are; nothing that fits is grouped."""
    nominal = [whole for _, whole in kinds]
    cells = [size if whole else min(size, 4) for size, whole in kinds]
    found = in_pairs(cells, nominal)
    for j, k in product(range(len(kinds)), repeat=2):
        if j < k:
            assert found[j] * found[k] <= MOST_CHOSEN
    if max(a * b for i, a in enumerate(cells) for b in cells[:i]) <= MOST_CHOSEN:
        assert found == tuple(cells)
    assert all(g == each if not whole else 2 <= g <= each for g, each, whole in zip(found, cells, nominal, strict=True))


@given(st.integers(2, 1 << 20), st.integers(2, 1 << 20), st.sampled_from([256, 4096]))
def test_the_sides_of_a_pair_are_grouped_as_little_as_possible(one, other, most):
    first, second = cells_of_pair(one, other, most)
    assert first * second <= most
    assert (first, second) == cells_of_pair(other, one, most)[::-1]
    if one * other <= most:
        assert (first, second) == (one, other)
    else:
        assert (first + 1) * second > most or (second + 1) * first > most


def test_large_domains_and_budgets_stay_bounded():
    for epsilon in (1e-6, 16.0, 5000.0):
        singles, pairs = own((1 << 20, 1 << 20, 7), epsilon, 10**9, (False,) * 3)
        assert max(singles) <= MOST_CHOSEN
        assert pairs[0] * pairs[1] <= MOST_CHOSEN


@pytest.mark.parametrize("granularity", ["best", 3, (3,), (3, 4, 5), (1, 2), (2.5, 2), (True, 2), "Guideline"])
def test_no_granularity(granularity):
    with pytest.raises(ParameterError, match="granularity"):
        HDG(shape=(8, 8), epsilon=1.0, n=1000, granularity=granularity)


@pytest.mark.parametrize("nominal", [3, (2,), (-1,), (0.5,), "01", (True,)])
def test_no_nominal_attribute(nominal):
    with pytest.raises(ParameterError, match="nominal"):
        HDG(shape=(8, 8), epsilon=1.0, n=1000, nominal=nominal)
