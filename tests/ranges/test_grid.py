"""Grids: equal cells for any size, look-up tables that agree with the cuts, and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dither.errors import ParameterError
from dither.ranges.grid import MOST_CELLS, MOST_VALUES, Grid, checked_shape, equal_cuts


@given(st.integers(1, 300), st.data())
def test_equal_cells_differ_by_at_most_one(size, data):
    cells = data.draw(st.integers(1, size))
    cuts = equal_cuts(size, cells)
    widths = np.diff(cuts)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, size, cells + 1)
    assert widths.min() >= 1
    assert widths.max() - widths.min() <= 1


@given(st.integers(1, 40), st.integers(1, 20), st.data())
def test_multiples_are_refinements(cells, times, data):
    size = data.draw(st.integers(cells * times, 2000))
    assert set(equal_cuts(size, cells)) <= set(equal_cuts(size, cells * times))


@given(st.lists(st.integers(2, 30), min_size=1, max_size=4), st.data())
def test_cells_are_numbered_row_by_row(shape, data):
    attributes = sorted(data.draw(st.sets(st.sampled_from(range(len(shape))), min_size=1)))
    granularities = [data.draw(st.integers(1, shape[j])) for j in attributes]
    grid = Grid.equal(attributes, shape, granularities)
    records = np.random.default_rng(1).integers(0, shape, (50, len(shape)))
    places = [
        [
            next(i for i in range(cells) if grid.cuts[axis][i] <= record[j] < grid.cuts[axis][i + 1])
            for record in records
        ]
        for axis, (j, cells) in enumerate(zip(attributes, granularities, strict=True))
    ]
    expected = np.ravel_multi_index(places, grid.shape)
    assert (grid.cells(records) == expected).all()
    assert grid.cells(records).max() < grid.size
    for axis, each in enumerate(places):
        assert (grid.partition(axis)[records[:, attributes[axis]]] == each).all()
        assert (np.bincount(grid.partition(axis)) == grid.widths(axis)).all()


def test_unequal_cells_and_all_kinds_of_integers():
    grid = Grid(*([1], [[0, 1, 7, 8]]))  # type: ignore[arg-type]
    assert (grid.attributes, grid.cuts, grid.sizes) == ((1,), ((0, 1, 7, 8),), (8,))
    for dtype in (np.uint8, np.int16, np.int64, np.uint64):
        assert grid.cells(np.array([[0, 0], [0, 6], [0, 7]], dtype=dtype)).tolist() == [0, 1, 2]
    assert grid == Grid((1,), ((0, 1, 7, 8),))
    assert not grid.partition(0).flags.writeable


@pytest.mark.parametrize(
    ("attributes", "cuts"),
    [
        ((), ()),
        ((0, 0), ((0, 2), (0, 2))),
        ((1, 0), ((0, 2), (0, 2))),
        ((-1,), ((0, 2),)),
        ((0,), ((0, 2), (0, 2))),
        ((0,), ((1, 2),)),
        ((0,), ((0,),)),
        ((0,), ((0, 2, 2),)),
        ((0,), ((0, 3, 2),)),
        ((0,), ((0, 1.5),)),
        ((0,), ((0, MOST_VALUES + 1),)),
        ((0,), 3),
        (0, ((0, 2),)),
        ((True,), ((0, 2),)),
    ],
)
def test_no_grid(attributes, cuts):
    with pytest.raises(ParameterError):
        Grid(attributes, cuts)


def test_too_many_cells():
    side = equal_cuts(1 << 11, 1 << 11)
    with pytest.raises(ParameterError, match="at most"):
        Grid((0, 1), (side, side))
    assert Grid.equal((0, 1), (1024, 1024), (1024, 1024)).size == MOST_CELLS


@pytest.mark.parametrize("cells", [0, 11, -1, 2.0, True, None])
def test_no_granularity(cells):
    with pytest.raises(ParameterError):
        Grid.equal((0,), (10,), (cells,))
    with pytest.raises(ParameterError):
        Grid.equal((0, 1), (10, 10), (2,))


def test_shapes():
    assert checked_shape([2, np.int64(3), 1 << 20]) == (2, 3, 1 << 20)
    assert checked_shape(np.array([4, 5])) == (4, 5)
    with pytest.raises(ParameterError, match=r"attribute 1 .* leave it out"):
        checked_shape((3, 1))
    for shape in ((), 5, None, "64", (0,), (-2, 3), (2.0,), (True, 2), ((1 << 20) + 1,)):
        with pytest.raises(ParameterError):
            checked_shape(shape)
