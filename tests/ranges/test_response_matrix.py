"""Response matrices: Algorithm 1 as it is printed, its closed form, and answers that never build it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.errors import ParameterError
from dither.ranges.response_matrix import block_ratio, spread
from scripts_by_path import paper

algorithm = paper("004", "response_matrix")
closed_form, response_matrix = algorithm.closed_form, algorithm.response_matrix

often = settings(max_examples=50, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def cuts(rng: np.random.Generator, size: int, cells: int) -> np.ndarray:
    return np.concatenate([[0], np.sort(rng.choice(np.arange(1, size), cells - 1, replace=False)), [size]])


def nested(seed: int):
    """A coarse table and finer marginals of one joint distribution of 9 x 7 values, and all cuts."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(63)).reshape(9, 7)
    fine = cuts(rng, 9, 6), cuts(rng, 7, 5)
    rows, columns = (np.sort(rng.choice(each[1:-1], 2, replace=False)) for each in fine)
    coarse = np.concatenate([[0], rows, [9]]), np.concatenate([[0], columns, [7]])
    row = np.add.reduceat(joint.sum(axis=1), fine[0][:-1])
    column = np.add.reduceat(joint.sum(axis=0), fine[1][:-1])
    return row, column, coarsened(joint, *coarse), fine, coarse


def coarsened(matrix: np.ndarray, rows, columns) -> np.ndarray:
    return np.add.reduceat(np.add.reduceat(matrix, rows[:-1], axis=0), columns[:-1], axis=1)


def as_printed(row, column, table, fine, coarse, rounds: int) -> np.ndarray:
    """Algorithm 1, cell by cell, on one entry for each pair of values."""
    matrix = np.full((fine[0][-1], fine[1][-1]), 1 / (fine[0][-1] * fine[1][-1]))

    def update(rows: slice, columns: slice, share: float) -> None:
        total = matrix[rows, columns].sum()
        if total != 0:
            matrix[rows, columns] *= share / total

    def spans(ends):
        return [slice(low, high) for low, high in pairwise(ends)]

    for _ in range(rounds):
        for here, share in zip(spans(fine[0]), row, strict=True):
            update(here, slice(None), share)
        for here, share in zip(spans(fine[1]), column, strict=True):
            update(slice(None), here, share)
        for i, down in enumerate(spans(coarse[0])):
            for j, across in enumerate(spans(coarse[1])):
                update(down, across, table[i, j])
    return matrix


@often
@given(seeds, st.integers(1, 4))
def test_any_cuts_and_any_tables_are_fitted_as_printed(seed, rounds):
    """Grids that neither are nested nor agree, some cells empty."""
    rng = np.random.default_rng(seed)
    fine, coarse = (cuts(rng, 9, 5), cuts(rng, 7, 4)), (cuts(rng, 9, 3), cuts(rng, 7, 2))
    row, column = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4))
    table = rng.dirichlet(np.ones(6)).reshape(3, 2)
    row[rng.integers(5)] = 0
    found = response_matrix(row, column, table, *fine, coarse, tolerance=1e-300, most=rounds)
    assert found.iterations == rounds or found.converged
    np.testing.assert_allclose(found.full(), as_printed(row, column, table, fine, coarse, rounds), atol=1e-13)


@often
@given(seeds)
def test_the_closed_form_is_the_limit(seed):
    row, column, table, fine, coarse = nested(seed)
    found = response_matrix(row, column, table, *fine, coarse, tolerance=1e-13)
    assert found.converged
    assert found.iterations == 2  # the second round finds nothing to change
    sides = spread(row, fine[0]), spread(column, fine[1])
    matrix = closed_form(*sides, table, *coarse)
    np.testing.assert_allclose(found.full(), matrix, atol=1e-10)
    np.testing.assert_allclose(matrix.sum(axis=1), sides[0], atol=1e-14)
    np.testing.assert_allclose(matrix.sum(axis=0), sides[1], atol=1e-14)
    np.testing.assert_allclose(coarsened(matrix, *coarse), table, atol=1e-14)


def test_empty_blocks_and_marginals():
    row, column = np.array([0.0, 0.0, 0.4, 0.6]), np.array([0.5, 0.5])
    table = np.array([[0.0, 0.0], [0.5, 0.5]])
    matrix = closed_form(row, column, table, (0, 2, 4), (0, 1, 2))
    np.testing.assert_allclose(matrix, [[0, 0], [0, 0], [0.2, 0.2], [0.3, 0.3]])
    lost = closed_form(row, column, np.array([[0.1, 0.0], [0.4, 0.5]]), (0, 2, 4), (0, 1, 2))
    assert lost.sum() == pytest.approx(0.9)  # mass in a block without a marginal has no place


def test_inconsistent_grids_end_in_a_cycle():
    rng = np.random.default_rng(1)
    found = response_matrix(
        rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)).reshape(2, 2),
        range(5), range(5), ((0, 2, 4), (0, 2, 4)), most=1000,
    )  # fmt: skip
    assert found.converged
    assert found.matrix.sum() == pytest.approx(1)


def test_spread_is_even():
    np.testing.assert_allclose(spread(np.array([0.6, 0.4]), (0, 1, 5)), [0.6, 0.1, 0.1, 0.1, 0.1])


def test_small_integers_as_cuts():
    """Differences of unsigned numbers would wrap around."""
    with pytest.raises(ParameterError):
        spread(np.array([0.6, 0.4]), np.array([0, 5, 3], dtype=np.uint8))


def test_what_has_no_meaning_is_refused():
    half, quarter = np.full(2, 0.5), np.full((2, 2), 0.25)
    for wrong in ((1, 2), (0,), (0, 2, 2), (0.0, 2.0), ((0, 2),)):
        with pytest.raises(ParameterError):
            spread(half, wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        response_matrix(half, half, quarter, (0, 1, 2), (0, 1, 2), ((0, 2), (0, 1, 2)))
    with pytest.raises(ParameterError):
        response_matrix(half, half, quarter, (0, 1, 2), (0, 1, 2), ((0, 1, 3), (0, 1, 2)))
    with pytest.raises(ParameterError):
        response_matrix(half, half, quarter, (0, 1, 2), (0, 1, 2), ((0, 1, 2), (0, 1, 2)), most=0)
    with pytest.raises(ParameterError):
        block_ratio(half, half, quarter, (0, 2), (0, 1, 2))
    with pytest.raises(ParameterError):
        block_ratio(half, half, quarter, (0, 1, 3), (0, 1, 2))
