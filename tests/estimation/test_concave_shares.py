"""The largest sum of concave parabolas: against every share on a grid, and where its parts are straight."""

import itertools

import numpy as np
import pytest

from dither.estimation.concave_shares import largest_sum

PARTS = 24


def on_a_grid(linear, curve, counts, total, exactly):
    """The largest sum over shares that are multiples of 1/PARTS; entries that come several times are listed."""
    linear, curve = (np.repeat(each, counts.astype(int)) for each in (linear, curve))
    whole = np.array(list(itertools.product(range(PARTS + 1), repeat=len(linear))))
    held = whole.sum(axis=1)
    share = whole[(held == total * PARTS) | ((held < total * PARTS) & (not exactly))] / PARTS
    return float((share @ linear + (share * (1 - share)) @ curve).max())


@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize(("counts", "total"), [((1, 1, 1), 1.0), ((2, 1), 1.0), ((1, 2), 2.0), ((1, 1), 1.0)])
def test_no_shares_on_a_grid_are_worse_and_some_come_near(counts, total, exactly):
    random = np.random.default_rng(1)
    for straight in (False, True):
        for _ in range(6):
            linear, curve = random.normal(0, 1, len(counts)), random.uniform(0, 1, len(counts)) * (not straight)
            found = largest_sum(linear, curve, np.array(counts, dtype=float), total, exactly=exactly)
            seen = on_a_grid(linear, curve, np.array(counts), total, exactly)
            # Next to the best shares are some on the grid, each less than a part away: the curves' 2 allow for so much.
            assert seen - 1e-12 <= found <= seen + (1e-12 if straight else sum(counts) / PARTS**2)


def test_ties_and_ends():
    one = np.ones(1)
    assert largest_sum(3 * one, 0 * one, 4 * one, 1.0, exactly=True) == 3.0  # four alike, straight
    assert largest_sum(3 * one, one, 4 * one, 1.0, exactly=True) == pytest.approx(3 + 4 * 0.25 * 0.75)
    assert largest_sum(-3 * one, one, 4 * one, 1.0, exactly=True) == pytest.approx(-3 + 4 * 0.25 * 0.75)
    assert largest_sum(-3 * one, one, 4 * one, 1.0, exactly=False) == 0.0  # nobody holds it
    assert largest_sum(-0.5 * one, one, 4 * one, 4.0, exactly=False) == pytest.approx(4 * (0.25 * 0.75 - 0.5 * 0.25))
    assert largest_sum(3 * one, 0 * one, 4 * one, 4.0, exactly=False) == 12.0  # all hold all
