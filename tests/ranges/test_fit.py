"""From grids to models: grids that are known exactly give exact answers wherever queries follow their cells.

`told` makes what would come back from infinitely many users, so no randomness is involved in most of these tests.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dither.ranges.axes import Axes
from dither.ranges.fit import copula, gridded, product, uniform
from dither.ranges.grid import Grid
from dither.ranges.queries import Queries
from dither.ranges.user_groups import Collected

SHAPE = (16, 12, 10)
KINDS = ["gridded", "copula"]


def people(n: int = 20_000, seed: int = 1) -> np.ndarray:
    """Three attributes: two that rise together, and one that depends on both in a way that is no correlation."""
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], n)
    first, second = (np.clip((z[:, j] + 3) / 6 * SHAPE[j], 0, SHAPE[j] - 1).astype(int) for j in (0, 1))
    third = np.where(rng.random(n) < 0.6, (first * 5 + second) % 10, rng.integers(0, 10, n))
    return np.column_stack([first, second, third])


def grids(singles: Any = SHAPE, pairs: tuple[int, ...] = (4, 4, 5), shape: tuple[int, ...] = SHAPE) -> list[Grid]:
    d = len(shape)
    ones = [Grid.equal((j,), shape, (singles[j],)) for j in range(d)]
    return [*ones, *(Grid.equal(pair, shape, [pairs[j] for j in pair]) for pair in combinations(range(d), 2))]


def told(records: np.ndarray, asked: list[Grid], variance: float = 1e-12, noise: int | None = None) -> list[Collected]:
    """What came back about each grid: true frequencies, with normal noise if there is a seed for it."""
    found = []
    for number, grid in enumerate(asked):
        value = np.bincount(grid.cells(records), minlength=grid.size) / len(records)
        if noise is not None:
            value = value + np.random.default_rng([noise, number]).normal(0, np.sqrt(variance), grid.size)
        unused: Any = None
        found.append(Collected(grid, value.reshape(grid.shape), variance, len(records), unused, unused))
    return found


def fitted(kind: str, collected: list[Collected], shape: tuple[int, ...] = SHAPE, ordered: Any = None):
    if kind == "gridded":
        return gridded(shape, collected, "entropy")
    return copula(shape, collected, [True] * len(shape) if ordered is None else ordered)


def truth(records: np.ndarray, queries: Queries) -> np.ndarray:
    inside = [queries.masks[j][:, records[:, j]] for j in range(records.shape[1])]
    return np.prod(inside, axis=0).mean(axis=1)


def along_cells(dimensions: int, count: int = 60) -> Queries:
    """Queries whose ends are cuts of the grids of pairs: of 4 values, of 3, and of 2."""
    rng = np.random.default_rng(dimensions)
    asked = []
    for _ in range(count):
        query = {}
        for j in rng.choice(3, dimensions, replace=False):
            width, cells = ((4, 4), (3, 4), (2, 5))[j]
            low, high = sorted(rng.choice(cells + 1, 2, replace=False))
            query[int(j)] = (int(low * width), int(high * width) - 1)
        asked.append(query)
    return Queries.of(Axes.of_shape(SHAPE), asked)


# Infinite information --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimensions", [1, 2])
def test_exact_grids_give_exact_answers_along_their_cells(kind, dimensions):
    records, queries = people(), along_cells(dimensions)
    found = fitted(kind, told(records, grids())).answers(queries)
    np.testing.assert_allclose(found.value, truth(records, queries), atol=1e-10 if kind == "gridded" else 1e-4)
    assert found.noise.max() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_three_attributes_are_known_up_to_what_pairs_tell(kind):
    records, queries = people(), along_cells(3)
    found = fitted(kind, told(records, grids())).answers(queries)
    apart = np.abs(found.value - truth(records, queries))
    assert apart.max() < 0.05
    assert apart.mean() < 0.01
    assert found.doubt.max() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_full_resolution_gives_exact_tables(kind):
    """A pair with a cell for each pair of values: nothing is left to guess, whatever the table is."""
    shape = (6, 5)
    records = np.column_stack([people()[:, 0] * 6 // 16, people()[:, 2] // 2])
    model = fitted(kind, told(records, grids(shape, shape, shape)), shape)
    table = np.zeros(shape)
    np.add.at(table, (records[:, 0], records[:, 1]), 1 / len(records))
    np.testing.assert_allclose(model.table(0, 1), table, atol=1e-10 if kind == "gridded" else 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_marginals_and_tables_agree(kind):
    """Response margins equal the grids: rows and columns of a pair add up to the marginals, blocks to the grid."""
    for noise in (None, 1):
        model = fitted(kind, told(people(), grids(), 1e-12 if noise is None else 1e-4, noise))
        for (j, k), pair in model.pairs.items():
            table = model.table(j, k)
            assert (table >= 0).all()
            close = 1e-9 if kind == "gridded" and noise is None else 2e-3
            np.testing.assert_allclose(table.sum(axis=1), model.margins[j].value, atol=close)
            np.testing.assert_allclose(table.sum(axis=0), model.margins[k].value, atol=close)
            blocks = np.add.reduceat(np.add.reduceat(table, pair.grid[0][:-1], axis=0), pair.grid[1][:-1], axis=1)
            assert blocks.shape == ((4, 4, 5)[j], (4, 4, 5)[k])
            assert blocks.sum() == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_shares_add_up_and_none_is_negative_in_much_noise(kind):
    model = fitted(kind, told(people(), grids(), 0.01, noise=2))
    for margin in model.margins:
        assert (margin.value >= 0).all()
        assert margin.value.sum() == pytest.approx(1.0)
    axes = Axes.of_shape(SHAPE)
    for dimensions in (1, 2, 3):
        found = model.answers(Queries.random(axes, dimensions, 50, seed=dimensions))
        assert (found.value >= 0).all()
        assert (found.value <= 1).all()
        assert np.isfinite(found.stderr).all()


def test_answers_are_the_same_with_the_attributes_in_another_order():
    records, order = people(), [2, 0, 1]
    queries = along_cells(2)
    turned = Queries(
        tuple(SHAPE[j] for j in order),
        tuple(tuple(sorted(order.index(j) for j in each)) for each in queries.attributes),
        tuple(queries.masks[j] for j in order),
    )
    for kind in KINDS:
        asked = grids(turned.shape, (5, 4, 4), turned.shape)
        found = fitted(kind, told(records[:, order], asked, 1e-8), turned.shape).answers(turned).value
        wanted = fitted(kind, told(records, grids(), 1e-8)).answers(queries).value
        np.testing.assert_allclose(found, wanted, atol=1e-9 if kind == "gridded" else 1e-4)


# What the copula adds --------------------------------------------------------------------------------------------


def correlated(correlation: float, n: int = 40_000, seed: int = 3) -> np.ndarray:
    z = np.random.default_rng(seed).multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], n)
    return np.clip((z + 4) / 8 * 32, 0, 31).astype(int)


@pytest.mark.parametrize("correlation", [-0.8, 0.0, 0.6])
def test_inside_cells_the_copula_knows_more_than_margins(correlation):
    """Coarse grids of a normal distribution: ranges that cut them are answered as the copula does."""
    shape, records = (32, 32), correlated(correlation)
    asked = grids(shape, (4, 4), shape)
    queries = Queries.random(Axes.of_shape(shape), 2, 60, seed=1)
    errors = {
        kind: np.abs(fitted(kind, told(records, asked, 1e-9), shape).answers(queries).value - truth(records, queries))
        for kind in KINDS
    }
    assert errors["copula"].max() < 0.01
    if correlation:
        assert errors["copula"].mean() < 0.4 * errors["gridded"].mean()
    model = fitted("copula", told(records, asked, 1e-9), shape)
    assert model.correlation[0, 1] == pytest.approx(correlation, abs=0.03)


def test_noise_is_shrunk_towards_the_copula():
    shape, records = (32, 32), correlated(0.0)
    asked = grids(shape, (6, 6), shape)
    queries = Queries.random(Axes.of_shape(shape), 2, 60, seed=1)
    wanted = truth(records, queries)
    apart = dict.fromkeys(KINDS, 0.0)
    for noise in range(5):
        collected = told(records, asked, 4e-4, noise)
        for kind in KINDS:
            apart[kind] += float(np.mean((fitted(kind, collected, shape).answers(queries).value - wanted) ** 2))
    assert apart["copula"] < 0.5 * apart["gridded"]


def test_attributes_without_an_order_take_no_part_in_it():
    """Labels numbered in two ways have the same answers."""
    records = people()
    shuffled = np.random.default_rng(5).permutation(10)
    other = records.copy()
    other[:, 2] = shuffled[records[:, 2]]
    asked = grids(pairs=(4, 4, 10))
    ordered = [True, True, False]
    models = [fitted("copula", told(each, asked, 1e-6, None), ordered=ordered) for each in (records, other)]
    np.testing.assert_allclose(models[0].margins[2].value, models[1].margins[2].value[shuffled], atol=1e-9)
    for j in (0, 1):
        np.testing.assert_allclose(models[0].table(j, 2), models[1].table(j, 2)[:, shuffled], atol=2e-5)
    assert abs(models[0].correlation[0, 2]) < 1e-9


def test_many_labels_are_only_kept_from_being_negative():
    shape = (300, 4)
    records = np.column_stack(
        [np.random.default_rng(1).geometric(0.05, 30_000).clip(1, 300) - 1, people(30_000)[:, 0] // 4]
    )
    model = fitted("copula", told(records, grids(shape, (40, 4), shape), 1e-10), shape, [False, True])
    np.testing.assert_allclose(model.margins[0].value, np.bincount(records[:, 0], minlength=300) / 30_000, atol=1e-6)


def test_many_values_are_smoothed_on_fewer_cells():
    shape = (1000, 4)
    z = np.random.default_rng(1).normal(500, 80, 50_000).clip(0, 999).astype(int)
    records = np.column_stack([z, people(50_000)[:, 0] // 4])
    model = fitted("copula", told(records, grids((100, 4), (8, 4), shape), 1e-6), shape)
    assert len(model.margins[0].covariance) < 300
    below = np.cumsum(model.margins[0].value - np.bincount(z, minlength=1000) / 50_000)
    assert np.abs(below).max() < 0.02
    assert np.abs(below[9::10]).max() < 0.003  # where the grid is cut


def test_a_product_knows_no_pairs():
    model = product(SHAPE, told(people(), grids()[:3]), [True] * len(SHAPE))
    assert not model.pairs
    queries = along_cells(2)
    singles = [
        truth(
            people(),
            Queries(
                SHAPE,
                ((j,),) * len(queries),
                tuple(mask if i == j else np.ones_like(mask) for i, mask in enumerate(queries.masks)),
            ),
        )
        for j in range(3)
    ]
    np.testing.assert_allclose(model.answers(queries).value, np.prod(singles, axis=0), atol=1e-4)


def test_uniform_needs_no_reports():
    queries = Queries.random(Axes.of_shape(SHAPE), 2, 20, seed=1)
    volume = np.prod([mask.mean(axis=1) for mask in queries.masks], axis=0)
    np.testing.assert_allclose(uniform(SHAPE).answers(queries).value, volume, atol=1e-12)


# Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("kind", KINDS)
def test_noise_in_singles_is_stated(kind):
    """200 fits to grids with known noise: answers about one attribute, along cells, miss by what they state."""
    records, queries = people(), along_cells(1, 30)
    wanted, errors, stated = truth(people(), queries), [], []
    for noise in range(25 if kind == "copula" else 100):
        found = fitted(kind, told(records, grids(), 1e-5, noise)).answers(queries)
        errors.append(found.value - wanted)
        stated.append(found.noise)
    ratio = np.sqrt(np.mean(np.square(errors))) / np.sqrt(np.mean(np.square(stated)))
    assert 0.5 < ratio < 1.25


@pytest.mark.parametrize("kind", KINDS)
def test_grids_that_nobody_answered_are_no_evidence(kind):
    records = people()
    collected = told(records, grids(), 1e-10)
    silent = collected[3]
    unused: Any = None
    collected[3] = Collected(silent.grid, np.full(silent.grid.shape, 1 / silent.grid.size), np.inf, 0, unused, unused)
    found = fitted(kind, collected).answers(along_cells(2))
    assert np.isfinite(found.value).all()
    assert np.isfinite(found.stderr).all()
    rest = [number for number, each in enumerate(along_cells(2).attributes) if each != (0, 1)]
    np.testing.assert_allclose(found.value[rest], truth(records, along_cells(2))[rest], atol=2e-3)
