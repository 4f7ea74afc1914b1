"""What pairs may do inside the cells of their grids: nothing that a cell shows, and less in finer cells."""

from itertools import pairwise

import numpy as np
import pytest

from dither.estimation.normal_copula import scores, tables
from dither.ranges import Copula, inside_cells
from dither.ranges.grid import equal_cuts
from dither.ranges.inside_cells import bends
from dither.ranges.interaction import Seen, correlations

BLOCKS = 16


def grid(cuts: tuple[int, ...], variance: float) -> Seen:
    """A pair of independent even attributes, seen in these cells along both sides."""
    shares = np.diff(cuts) / BLOCKS
    return Seen.of_grid(shares, shares, np.outer(shares, shares), variance)


def open_(cuts: tuple[int, ...], variance: float = 1e-3) -> np.ndarray:
    places = np.array(cuts)
    return bends(grid(cuts, variance), np.full((BLOCKS, BLOCKS), BLOCKS**-2), (places, places))


@pytest.mark.parametrize("cells", [1, 2, 4, 16])
def test_no_cell_shows_it(cells):
    cuts = equal_cuts(BLOCKS, cells)
    for table in open_(cuts):
        for (a, b), (c, d) in ((rows, columns) for rows in pairwise(cuts) for columns in pairwise(cuts)):
            assert abs(table[a:b, c:d].sum()) < 1e-15


def test_margins_stay_where_cells_are_independent():
    for table in open_((0, 8, 16)):
        assert np.abs(table.sum(axis=0)).max() < 1e-15
        assert np.abs(table.sum(axis=1)).max() < 1e-15


def test_finer_cells_and_more_reports_leave_less_of_it():
    sizes = [float((open_(equal_cuts(BLOCKS, cells)) ** 2).sum()) for cells in (2, 4, 8, 16)]
    assert all(more > less for more, less in pairwise(sizes))
    assert sizes[-1] < 1e-30
    seldom, often = (float((open_(equal_cuts(BLOCKS, 4), variance) ** 2).sum()) for variance in (1e-2, 1e-4))
    assert often < seldom / 20


def test_one_cell_leaves_all_of_it(monkeypatch):
    """Twice as much may be there: twice as much is stated."""
    once = open_((0, BLOCKS))
    monkeypatch.setattr(inside_cells, "_BENT", 2 * inside_cells._BENT)
    assert open_((0, BLOCKS)) == pytest.approx(2 * once)


def test_a_value_that_everybody_has_bends_nothing():
    table = np.zeros((BLOCKS, BLOCKS))
    table[3, 5] = 1.0
    places = np.array([0, 8, 16])
    assert not bends(grid((0, 8, 16), 1e-3), table, (places, places)).any()


def test_where_everybody_is_in_one_cell_the_interval_knows_it():
    """Nine in ten within an eighth of each domain, as correlated as can be: cells hardly tell.

    The truth lies inside the interval for each of 9 boxes between quantiles (one fixed collection), and it does not if
    errors are those of the cells alone.
    """
    rng = np.random.default_rng(5)
    z = rng.standard_normal((60_000, 1)) * 0.95 + 0.3 * rng.standard_normal((60_000, 2))
    people = np.clip(np.exp(1.2 * z) * 2, 0, 63).astype(np.int64)
    mechanism = Copula((64, 64), 0.5, len(people))
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(people, seed=1)))
    ends = [(1, 1), (2, 3), (4, 8)]
    boxes = [{0: one, 1: other} for one in ends for other in ends]
    inside = [[(people[:, j] >= low) & (people[:, j] <= high) for j, (low, high) in box.items()] for box in boxes]
    truth = np.array([np.logical_and(*both).mean() for both in inside])
    answers = found.answers(boxes)
    low, high = answers.interval(0.95)
    assert ((low <= truth) & (truth <= high)).all()
    narrow = np.abs(answers.value - truth) <= 1.96 * answers.noise
    assert not narrow.all()


def test_a_few_pairs_do_not_say_for_sure_how_far_all_lie_apart():
    """The evidence about the spread of correlations counts by a root in their errors: 15 pairs that look alike."""
    even = np.full(4, 0.25)
    table = tables(scores(even), scores(even), np.array([0.3]))[0]
    pairs = [
        Seen.of_grid(even, even, table + np.random.default_rng(seed).normal(0, 0.04, (4, 4)), 0.04**2)
        for seed in range(15)
    ]
    assert correlations(pairs).stderr.mean() > 0.15
