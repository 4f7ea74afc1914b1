"""Grids that agree: one pass against exact least squares, for any cuts, any sizes of groups and any order.

The weighted least-squares fit is solved a second time from its normal equations, with every constraint written out.
Properties that the argument in the module rests on (totals stay, no step disturbs another) are tested for random cuts,
where the weights differ from interval to interval.
"""

from itertools import combinations, pairwise, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.errors import ParameterError
from dither.ranges.consistency import consistent, inconsistency, processed

often = settings(max_examples=50, deadline=None, derandomize=True)
SIZES = (12, 8, 10)


def grid(attributes: tuple[int, ...], cuts: tuple) -> Any:
    return SimpleNamespace(attributes=attributes, cuts=cuts)


def some_grids(seed: int, lines: bool = True) -> list[Any]:
    """All pairs of three attributes, and each alone, with cuts drawn at random around a few that all of them have."""
    rng = np.random.default_rng(seed)
    core = [np.concatenate([[0], np.sort(rng.choice(np.arange(1, size), 2, replace=False)), [size]]) for size in SIZES]

    def cuts(attribute: int) -> tuple[int, ...]:
        more = rng.choice(SIZES[attribute], rng.integers(0, 4), replace=False)
        return tuple(np.union1d(core[attribute], more).tolist())

    held = [*((j,) for j in range(3) if lines), *combinations(range(3), 2)]
    return [grid(each, tuple(cuts(j) for j in each)) for each in held]


def some_tables(grids: list[Any], seed: int, total: float | None = 1.0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    tables = [rng.normal(0.1, 0.2, [len(cuts) - 1 for cuts in each.cuts]) for each in grids]
    return tables if total is None else [table + (total - table.sum()) / table.size for table in tables]


def marginal(each: Any, table: np.ndarray, attribute: int) -> np.ndarray:
    axis = each.attributes.index(attribute)
    return table.sum(axis=tuple(other for other in range(table.ndim) if other != axis))


def interval_sums(each: Any, table: np.ndarray, attribute: int, common: list[int]) -> list[float]:
    cuts, along = each.cuts[each.attributes.index(attribute)], marginal(each, table, attribute)
    return [
        sum(share for share, first in zip(along, cuts, strict=False) if low <= first < high)
        for low, high in pairwise(common)
    ]


def common_cuts(grids: list[Any], attribute: int) -> list[int]:
    held = [each.cuts[each.attributes.index(attribute)] for each in grids if attribute in each.attributes]
    return sorted(set.intersection(*map(set, held)))


def least_squares(grids: list[Any], tables: list[np.ndarray], variances: list[float], total: float) -> list[np.ndarray]:
    """The nearest tables in units of the noise that have the total and agree on all common intervals."""
    ends = np.cumsum([0, *(table.size for table in tables)])
    flat = np.concatenate([table.reshape(-1) for table in tables])
    noise = np.concatenate([np.full(table.size, v) for table, v in zip(tables, variances, strict=True)])

    def indicator(number: int, attribute: int, low: int, high: int) -> np.ndarray:
        row, each = np.zeros(flat.size), np.zeros(tables[number].shape)
        axis = grids[number].attributes.index(attribute)
        firsts = np.array(grids[number].cuts[axis][:-1])
        np.moveaxis(each, axis, 0)[(firsts >= low) & (firsts < high)] = 1
        row[ends[number] : ends[number + 1]] = each.reshape(-1)
        return row

    rows, wanted = [], []
    for number in range(len(grids)):
        row = np.zeros(flat.size)
        row[ends[number] : ends[number + 1]] = 1
        rows.append(row)
        wanted.append(total)
    for attribute in range(len(SIZES)):
        held = [number for number, each in enumerate(grids) if attribute in each.attributes]
        common = common_cuts(grids, attribute)
        for low, high in pairwise(common):
            for number in held[1:]:
                rows.append(indicator(number, attribute, low, high) - indicator(held[0], attribute, low, high))
                wanted.append(0.0)
    matrix = np.array(rows)
    gap = np.array(wanted) - matrix @ flat
    found = flat + noise * (matrix.T @ np.linalg.lstsq(matrix * noise @ matrix.T, gap, rcond=1e-12)[0])
    return [found[a:b].reshape(t.shape) for a, b, t in zip(ends, ends[1:], tables, strict=False)]


seeds = st.integers(0, 10**6)


@often
@given(seeds, st.booleans())
def test_one_pass_is_the_least_squares_fit(seed, lines):
    grids = some_grids(seed, lines)
    variances = np.random.default_rng(seed).uniform(0.2, 5.0, len(grids)).tolist()
    for tables in (some_tables(grids, seed), some_tables(grids, seed, total=None)):
        found = consistent(grids, tables, variances, total=1.0)
        for ours, best in zip(found, least_squares(grids, tables, variances, 1.0), strict=True):
            np.testing.assert_allclose(ours, best, atol=1e-9)


@often
@given(seeds)
def test_all_sums_agree_and_totals_stay(seed):
    grids = some_grids(seed)
    tables = some_tables(grids, seed, total=2.5)
    variances = np.random.default_rng(seed).uniform(0.2, 5.0, len(grids)).tolist()
    before = [table.copy() for table in tables]
    found = consistent(grids, tables, variances)
    for table, old in zip(tables, before, strict=True):
        np.testing.assert_array_equal(table, old)  # what came in is left alone
    for table in found:
        assert table.sum() == pytest.approx(2.5, abs=1e-12)
    for attribute in range(3):
        common = common_cuts(grids, attribute)
        sums = [
            interval_sums(each, table, attribute, common)
            for each, table in zip(grids, found, strict=True)
            if attribute in each.attributes
        ]
        np.testing.assert_allclose(sums, np.broadcast_to(sums[0], np.shape(sums)), atol=1e-12)
    assert inconsistency(grids, found) < 1e-12
    assert inconsistency(grids, tables) > 1e-3


@often
@given(seeds)
def test_any_order_of_the_grids_gives_the_same(seed):
    """The order of the attributes is that in which the grids name them."""
    grids = some_grids(seed)
    tables = some_tables(grids, seed, total=None)
    variances = np.random.default_rng(seed).uniform(0.2, 5.0, len(grids))
    wanted = consistent(grids, tables, variances.tolist())
    for order in list(permutations(range(6)))[:: 720 // 7]:
        found = consistent([grids[i] for i in order], [tables[i] for i in order], variances[list(order)].tolist())
        for place, number in enumerate(order):
            np.testing.assert_allclose(found[place], wanted[number], atol=1e-12)


@often
@given(seeds)
def test_a_step_of_one_attribute_leaves_the_marginals_of_the_others(seed):
    """Only attribute 0 is held twice, with unequal weights of the intervals: no other marginal may move."""
    first, second = (each for each in some_grids(seed) if each.attributes in [(0, 1), (0, 2)])
    tables = some_tables([first, second], seed)
    found = consistent([first, second], tables, [1.0, 3.0])
    np.testing.assert_allclose(marginal(first, found[0], 1), marginal(first, tables[0], 1), atol=1e-12)
    np.testing.assert_allclose(marginal(second, found[1], 2), marginal(second, tables[1], 2), atol=1e-12)
    again = consistent([first, second], found, [1.0, 3.0])
    for once, twice in zip(found, again, strict=True):
        np.testing.assert_allclose(once, twice, atol=1e-12)


def test_the_weights_of_the_paper():
    """Equal groups, g1 = 8 and g2 = 2: a sum is made of 4 cells of the line, and of 2 of each square."""
    line, square, other = grid((0,), (range(9),)), grid((0, 1), ((0, 4, 8),) * 2), grid((0, 2), ((0, 4, 8),) * 2)
    tables = [np.array([0.05] * 4 + [0.2] * 4), np.full((2, 2), 0.25), np.array([[0.3, 0.4], [0.1, 0.2]])]
    found = consistent([line, square, other], tables, [1.0] * 3)
    average = (0.2 / 4 + 0.5 / 2 + 0.7 / 2) / (1 / 4 + 1 / 2 + 1 / 2)
    np.testing.assert_allclose(found[0][:4], 0.05 + (average - 0.2) / 4)
    np.testing.assert_allclose(found[1][0], 0.25 + (average - 0.5) / 2)
    change = (average - 0.7) / 2
    np.testing.assert_allclose(found[2], [[0.3 + change, 0.4 + change], [0.1 - change, 0.2 - change]])


def test_a_noisy_grid_gives_way():
    line = grid((0,), ((0, 1, 2),))
    sure, unsure = consistent([line, line], [np.array([0.6, 0.4]), np.array([0.2, 0.8])], [0.001, 1.0])
    assert abs(sure[0] - 0.6) < 0.001
    np.testing.assert_allclose(sure, unsure)
    np.testing.assert_allclose(sure[0], (0.6 / 0.001 + 0.2) / (1 / 0.001 + 1))


def test_totals_are_averaged_by_what_is_known_of_them():
    """A total of k cells has k times the variance of a cell."""
    grids = [grid((0,), ((0, 1, 2),)), grid((1,), ((0, 1, 2, 3),))]
    first, second = consistent(grids, [np.array([0.5, 0.7]), np.array([0.3, 0.3, 0.3])], [1.0, 2.0])
    total = (1.2 / 2 + 0.9 / 6) / (1 / 2 + 1 / 6)
    assert first.sum() == pytest.approx(total)
    assert second.sum() == pytest.approx(total)
    assert first[1] - first[0] == pytest.approx(0.2)


def test_grids_without_a_common_cut_are_left_alone():
    grids = [grid((0,), ((0, 2, 6),)), grid((0,), ((0, 3, 6),))]
    tables = [np.array([0.1, 0.9]), np.array([0.8, 0.2])]
    for table, found in zip(tables, consistent(grids, tables, [1.0, 1.0]), strict=True):
        np.testing.assert_allclose(found, table)
    assert inconsistency(grids, tables) < 1e-15


@pytest.mark.wide
@often
@given(seeds)
def test_processed_tables_are_distributions_that_nearly_agree(seed):
    grids = some_grids(seed)
    tables = some_tables(grids, seed, total=None)
    found = processed(grids, tables, [1.0] * 6, rounds=300)
    for table in found.tables:
        assert (table >= 0).all()
        assert table.sum() == pytest.approx(1, abs=1e-9)
    assert found.inconsistency == pytest.approx(inconsistency(grids, found.tables), abs=1e-15)
    # In general slowly; but it never stops short of the rounds with more than it was allowed to leave.
    assert found.inconsistency <= 1e-6 or found.rounds == 300
    assert found.inconsistency < 1e-2


def test_norm_sub_comes_last():
    """Also where no round is asked for."""
    line = grid((0,), ((0, 1, 2, 3),))
    found = processed([line], [np.array([0.9, 0.4, -0.1])], [1.0], rounds=0)
    np.testing.assert_allclose(found.tables[0], [0.75, 0.25, 0.0])
    assert found.rounds == 0


def test_rounds_bring_grids_closer():
    grids = some_grids(3)
    tables = some_tables(grids, 3, total=None)
    left = [processed(grids, tables, [1.0] * 6, rounds=rounds).inconsistency for rounds in (0, 1, 10, 100)]
    assert left[0] > left[1] > left[2] > left[3]


def true_tables(grids: list[Any], seed: int) -> list[np.ndarray]:
    """What the grids show of one joint distribution of all attributes."""
    truth = np.random.default_rng(seed).dirichlet(np.ones(np.prod(SIZES))).reshape(SIZES)
    tables = []
    for each in grids:
        table = truth.sum(axis=tuple(j for j in range(3) if j not in each.attributes))
        for axis, cuts in enumerate(each.cuts):
            table = np.add.reduceat(table, cuts[:-1], axis=axis)
        tables.append(table)
    return tables


def test_consistent_distributions_stay():
    grids = some_grids(5)
    tables = true_tables(grids, 5)
    found = processed(grids, tables, [1.0] * 6)
    assert found.rounds == 1
    for table, old in zip(found.tables, tables, strict=True):
        np.testing.assert_allclose(table, old, atol=1e-12)


@often
@given(seeds)
def test_no_round_moves_away_from_the_truth(seed):
    """Distance in units of the noise, to any consistent distributions: those of a random table."""
    grids = some_grids(seed)
    variances = np.random.default_rng(seed).uniform(0.2, 5.0, 6).tolist()
    tables, truth = some_tables(grids, seed, total=None), true_tables(grids, seed)
    distances = []
    for rounds in range(1, 6):
        found = processed(grids, tables, variances, rounds=rounds, tolerance=0.0).tables
        distances.append(
            sum(((a - b) ** 2).sum() / v for a, b, v in zip(found, truth, variances, strict=True)),
        )
    before = sum(((a - b) ** 2).sum() / v for a, b, v in zip(tables, truth, variances, strict=True))
    assert (np.diff([before, *distances]) <= 1e-12).all()


def test_what_has_no_meaning_is_refused():
    line, table = grid((0,), ((0, 1, 2),)), np.array([0.5, 0.5])
    wrong: list[tuple] = [
        ([], [], []),
        ([line], [table], []),
        ([line], [np.ones(3)], [1.0]),
        ([line], [table], [0.0]),
        ([line], [table], [np.inf]),
        ([line], [table * np.nan], [1.0]),
        ([line, grid((0,), ((0, 1, 3),))], [table, table], [1.0, 1.0]),
    ]
    for given_grids, tables, variances in wrong:
        for ask in (consistent, processed):
            with pytest.raises(ParameterError):
                ask(given_grids, tables, variances)
    with pytest.raises(ParameterError):
        processed([line], [table], [1.0], rounds=-1)
    with pytest.raises(ParameterError):
        processed([line], [table], [1.0], tolerance=-1.0)
