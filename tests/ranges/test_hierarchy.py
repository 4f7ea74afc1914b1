"""Nested partitions and their least squares: against brute force, and against dense linear algebra."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.ranges.hierarchy import Hierarchy, Levels

SIZES = [1, 2, 3, 4, 5, 7, 9, 11, 16, 17, 23, 64]


@pytest.mark.parametrize("size", [*SIZES, 1024, 1000])
@pytest.mark.parametrize("branching", [2, 3, 4, 5])
def test_levels_are_nested_and_nearly_equal(size: int, branching: int):
    levels = Levels(size, branching)
    assert levels.cuts[0] == (0, size)
    assert levels.cuts[-1] == tuple(range(size + 1))
    assert levels.branching ** (levels.height - 1) < max(size, 2) <= max(2, levels.branching**levels.height)
    for level in range(1, levels.height + 1):
        assert set(levels.cuts[level - 1]) < set(levels.cuts[level])
        assert np.bincount(levels.parents(level)).max() <= branching
        assert np.ptp(levels.widths[level]) <= 1
        assert (levels.partition(level - 1) == levels.parents(level)[levels.partition(level)]).all()


def fewest(levels: Levels, wanted: frozenset[int]) -> int:
    """The least number of cells that make up a set, by trying every choice of cells."""
    cells = {frozenset(range(low, high)) for cuts in levels.cuts for low, high in pairwise(cuts)}
    inside = [cell for cell in cells if cell <= wanted]
    for count in range(len(inside) + 1):
        for choice in combinations(inside, count):
            if frozenset().union(*choice) == wanted:
                return count
    raise AssertionError


@pytest.mark.parametrize(("size", "branching"), [(7, 2), (8, 2), (9, 3), (10, 4), (5, 4)])
def test_covers_are_disjoint_and_no_others_are_smaller(size: int, branching: int):
    levels = Levels(size, branching)
    for low in range(size):
        for high in range(low, size):
            cover = levels.cover(low, high)
            values = [value for level, cell in cover for value in range(*levels.cuts[level][cell : cell + 2])]
            assert sorted(values) == list(range(low, high + 1))  # each once
            assert len(cover) == fewest(levels, frozenset(values))


def test_sets_are_covered_as_well_as_ranges():
    levels = Levels(9, 3)
    masks = np.array(list(product([False, True], repeat=9)))
    chosen = levels.covers(masks)
    times = [levels.spread(cells.astype(float), level, 1) for level, cells in enumerate(chosen)]
    assert (np.sum(times, axis=0) == masks).all()
    for number in range(0, 512, 37):
        wanted = frozenset(np.flatnonzero(masks[number]).tolist())
        assert sum(int(cells[number].sum()) for cells in chosen) == fewest(levels, wanted)


@pytest.mark.parametrize("ends", [(-1, 3), (3, 2), (0, 10)])
def test_a_range_outside_is_refused(ends: tuple[int, int]):
    with pytest.raises(ParameterError, match="0 and 9"):
        Levels(10).cover(*ends)


# Least squares ---------------------------------------------------------------------------------------------------


def adding(levels: Levels, level: int) -> np.ndarray:
    return np.eye(len(levels.starts[level]))[:, levels.partition(level)]


def made(shape, branching, seed, known=True, silent=()):
    """A hierarchy with different variances for all levels, a table, and what is seen of it with noise."""
    generator = np.random.default_rng(seed)
    levels = tuple(Levels(size, branching) for size in shape)
    variance = generator.uniform(0.2, 3.0, [each.height + 1 for each in levels])
    for level in silent:
        variance[level] = np.inf
    truth = generator.dirichlet(np.ones(np.prod(shape))).reshape(shape)
    values = {}
    for level in np.ndindex(variance.shape):
        table = truth
        for axis, (each, number) in enumerate(zip(levels, level, strict=True)):
            table = each.added(table, number, axis)
        values[level] = table + generator.normal(0, 0.1, table.shape)
    if known:
        variance.flat[0] = 0.0
        values[(0,) * len(shape)] = np.ones((1,) * len(shape))
    return Hierarchy(levels, variance), values, truth


def design(tree: Hierarchy) -> tuple[np.ndarray, list]:
    """All equations, one below the other, each with weight 1/deviation."""
    rows, order = [], []
    for level in np.ndindex(tree.variance.shape):
        variance = tree.variance[level]
        if variance == 0 or np.isinf(variance):
            continue
        block = np.ones((1, 1))
        for each, number in zip(tree.levels, level, strict=True):
            block = np.kron(block, adding(each, number))
        rows.append(variance**-0.5 * block)
        order.append((level, variance**-0.5))
    return np.concatenate(rows), order


def free(tree: Hierarchy) -> np.ndarray:
    """The directions in which a table may move: all, or those that keep its sum."""
    size = int(np.prod(tree.shape))
    if tree.variance.flat[0]:
        return np.eye(size)
    return np.linalg.svd(np.ones((1, size)))[2][1:].T


def dense(tree: Hierarchy, values) -> np.ndarray:
    matrix, order = design(tree)
    start = np.full(matrix.shape[1], 0.0 if tree.variance.flat[0] else 1 / matrix.shape[1])
    right = np.concatenate([weight * np.ravel(values[level]) for level, weight in order])
    moves = free(tree)
    best = np.linalg.lstsq(matrix @ moves, right - matrix @ start, rcond=None)[0]
    return (start + moves @ best).reshape(tree.shape)


CASES = [
    ((8,), 2),
    ((10,), 4),
    ((23,), 3),
    ((8, 4), 2),
    ((16, 16), 4),
    ((5, 7), 2),
    ((11, 6), 4),
    ((17, 3), 4),
    ((9, 1), 3),
    ((5, 3, 6), 2),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("shape", "branching"), CASES)
def test_exact_is_the_dense_solution(shape, branching, known: bool):
    tree, values, _ = made(shape, branching, seed=1, known=known)
    table = tree.exact(values)
    np.testing.assert_allclose(table, dense(tree, values), atol=1e-10)
    if known:
        assert table.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("shape", "branching"), CASES)
def test_what_agrees_is_reproduced(shape, branching):
    tree, values, truth = made(shape, branching, seed=2)
    agreeing = {}
    for level in values:
        table = truth
        for axis, (each, number) in enumerate(zip(tree.levels, level, strict=True)):
            table = each.added(table, number, axis)
        agreeing[level] = table
    np.testing.assert_allclose(tree.exact(agreeing), truth, atol=1e-12)
    np.testing.assert_allclose(tree.two_pass(agreeing), truth, atol=1e-12)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("size", SIZES[1:])
def test_in_one_dimension_two_passes_are_one_and_exact(size: int, known: bool):
    tree, values, _ = made((size,), 3, seed=3, known=known)
    np.testing.assert_allclose(tree.two_pass(values), tree.exact(values), atol=1e-10)


@pytest.mark.parametrize("shape", [(16, 16), (8, 32)])
def test_two_passes_are_exact_where_variances_are_products(shape):
    tree, values, _ = made(shape, 2, seed=4, known=False)
    generator = np.random.default_rng(5)
    one, two = (generator.uniform(0.5, 2.0, size) for size in tree.variance.shape)
    tree = Hierarchy(tree.levels, np.outer(one, two))
    np.testing.assert_allclose(tree.two_pass(values), tree.exact(values), atol=1e-10)
    uneven, values, _ = made(shape, 2, seed=4, known=False)
    assert np.abs(uneven.two_pass(values) - uneven.exact(values)).max() > 1e-3  # and not where they are not


def test_levels_without_reports_have_no_say():
    silent = [(1, 2), (0, 1), (3, 2)]
    tree, values, _ = made((7, 5), 2, seed=6, silent=silent)
    table = tree.exact({level: table for level, table in values.items() if level not in silent})
    np.testing.assert_allclose(table, dense(tree, values), atol=1e-10)
    loud = {**values, **{level: values[level] + 1e3 for level in silent}}
    np.testing.assert_array_equal(tree.exact(loud), table)
    np.testing.assert_array_equal(tree.two_pass(loud), tree.two_pass(values))


def test_what_no_level_shows_is_even():
    tree, values, _ = made((8, 4), 2, seed=7, silent=[(3, 0), (3, 1), (3, 2)])
    for table in (tree.exact(values), tree.two_pass(values)):
        np.testing.assert_allclose(table[0::2], table[1::2], atol=1e-6)
        assert np.isfinite(table).all()


def test_nothing_but_the_total():
    tree = Hierarchy((Levels(4), Levels(5)), np.array([[0.0, np.inf, np.inf], [np.inf] * 3]))
    np.testing.assert_allclose(tree.exact({}), 1 / 20)
    np.testing.assert_allclose(tree.two_pass({}), 1 / 20)


@pytest.mark.parametrize(("shape", "branching"), CASES)
@pytest.mark.parametrize("known", [True, False])
def test_the_variance_of_answers(shape, branching, known: bool):
    tree, *_ = made(shape, branching, seed=8, known=known)
    generator = np.random.default_rng(9)
    masks = tuple(generator.random((20, size)) < 0.5 for size in shape)
    matrix, moves = design(tree)[0], free(tree)
    spread = moves @ np.linalg.inv(moves.T @ matrix.T @ matrix @ moves) @ moves.T
    queries = [np.ravel(np.einsum(",".join("abc"[: len(shape)]), *(mask[q] for mask in masks))) for q in range(20)]
    true = np.array([query @ spread @ query for query in queries])
    equal = all(np.ptp(width) == 0 for each in tree.levels for width in each.widths)
    np.testing.assert_allclose(tree.noise(masks), true, rtol=1e-9 if equal else 0.25, atol=1e-9)
    everything = tuple(np.ones((1, size), dtype=bool) for size in shape)
    if known:
        assert tree.noise(everything) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("shape", "branching"), [((16,), 4), ((8, 4), 2), ((16, 16), 4)])
def test_the_nearest_table_without_negative_entries(shape, branching):
    """Against the conditions of the optimum: what is not cut has one multiplier, what is cut has a larger one."""
    tree, values, _ = made(shape, branching, seed=11)
    table = tree.exact(values)
    assert table.min() < 0
    found = tree.nonnegative(table)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    slope = tree._blended(found - table, tree._weights)
    inside, scale = found > 1e-3 * found.max(), np.abs(slope).max()
    assert np.ptp(slope[inside]) < 0.02 * scale
    assert (slope[~inside] > slope[inside].mean() - 0.02 * scale).all()


def test_a_table_without_negative_entries_stays():
    tree, _, truth = made((9, 6), 3, seed=12)
    np.testing.assert_allclose(tree.nonnegative(truth), truth, atol=1e-12)


def test_weights_are_covered_by_weighted_cells():
    levels = Levels(10, 3)
    masks = np.random.default_rng(13).integers(0, 3, (50, 10)) / 2
    masks[0] = 0.5
    chosen = levels.covers(masks)
    times = [levels.spread(cells, level, 1) for level, cells in enumerate(chosen)]
    np.testing.assert_array_equal(np.sum(times, axis=0), masks)
    assert chosen[0][0] == 0.5


def test_large_tables_take_few_steps():
    """Conjugate gradients on widths that differ: the equations hold to rounding, without a dense matrix."""
    tree, values, _ = made((100, 77), 4, seed=10)
    table = tree.exact(values)
    rest = tree._gathered(values) - tree._blended(table, tree._weights)
    np.testing.assert_allclose(rest - rest.mean(), 0, atol=1e-9 * np.abs(tree._gathered(values)).max())


@pytest.mark.parametrize("variance", [np.ones(3), np.ones((3, 2)), -np.ones((2, 3)), np.full((2, 3), np.nan)])
def test_variances_have_to_make_sense(variance):
    with pytest.raises(ParameterError):
        Hierarchy((Levels(4), Levels(5)), variance)
