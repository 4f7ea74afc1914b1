"""Attributes without an order, in every method: what is asked of them, and that who says nothing of them is as before.

Seeds are fixed. Bounds on errors have room over what these seeds give; no false alarm can be stated for others.
"""

import json
from typing import Any

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.mechanisms import load
from dither.ranges import CALM, HDG, HIO, LHIO, MSW, TDG, Copula
from dither.ranges.grid import MOST_CELLS

LATER = [CALM, MSW, LHIO, HIO]  # which had no word for it when the first were stored
ALL = [Copula, HDG, TDG, *LATER]


@pytest.mark.parametrize("method", LATER)
def test_what_is_not_given_is_not_stored(method: Any):
    """So the hash is the one from before there was such a parameter (tests/stored has these)."""
    silent = method(shape=(4, 3), epsilon=1.0, n=1000)
    assert "nominal" not in silent.to_dict()
    assert silent == method(shape=(4, 3), epsilon=1.0, n=1000, nominal=())
    assert silent.fingerprint == method(shape=(4, 3), epsilon=1.0, n=1000, nominal=[]).fingerprint


@pytest.mark.parametrize("method", ALL)
def test_what_is_given_is_stored(method: Any):
    told = method(shape=(4, 3), epsilon=1.0, n=1000, nominal=[1, 1])
    assert told.nominal == (1,)
    assert told.to_dict()["nominal"] == [1]
    assert load(json.loads(json.dumps(told.to_dict()))) == told
    assert told.fingerprint != method(shape=(4, 3), epsilon=1.0, n=1000).fingerprint


@pytest.mark.parametrize("method", ALL)
def test_an_attribute_that_is_not_there_is_refused(method: Any):
    for wrong in ((2,), (-1,), "ab", 1):
        with pytest.raises(ParameterError):
            method(shape=(4, 3), epsilon=1.0, n=1000, nominal=wrong)


def test_a_full_table_has_a_cell_for_each_label_as_long_as_a_grid_holds_them():
    assert CALM((20, 9, 7), 1.0, 1000, (0,)).groups == CALM((20, 9, 7), 1.0, 1000).groups
    many = {"shape": (3000, 600), "epsilon": 1.0, "n": 1000}
    with pytest.raises(ParameterError, match="1,800,000"):
        CALM(**many)
    (pair,) = CALM(**many, nominal=(0,)).groups
    assert pair.grid.shape == (MOST_CELLS // 600, 600)
    with pytest.raises(ParameterError, match="1,800,000"):
        CALM(shape=(3000, 600, 5), epsilon=1.0, n=1000, nominal=(2,))  # those that are too many have an order


def test_labels_have_no_place_on_a_line():
    """A product of marginals reports them by a frequency oracle, and puts nothing between neighbours."""
    users, labels = 40_000, 24
    random = np.random.default_rng(1)
    column = random.choice(labels, users, p=random.dirichlet(np.full(labels, 0.5)))
    records = np.column_stack([column, np.arange(users) % 64])
    off = {}
    for nominal in ((), (0,)):
        method = MSW((labels, 64), 1.0, users, nominal)
        found = method.estimate(method.tally(method.randomize(records, seed=1))).marginal(0)
        off[nominal] = np.abs(found.value - np.bincount(column, minlength=labels) / users).mean()
        assert [each.recipe == "SquareWave" for each in method.groups] == [0 not in nominal, True]
    assert off[0,] < 0.6 * off[()]  # a quarter of room: .009 and .022


def test_a_grid_where_a_line_is_needed_is_refused_as_ever():
    asked = (((0,), (4,), "GRR(k=4)", 1), ((1,), (3,), "SquareWave", 1))
    assert MSW((4, 3), 1.0, 1000, (0,), asked=asked).groups[0].recipe == "GRR(k=4)"
    with pytest.raises(ParameterError, match="group 0"):
        MSW((4, 3), 1.0, 1000, asked=asked)


@pytest.mark.parametrize("method", [LHIO, HIO])
def test_no_two_labels_share_a_level(method: Any):
    for nominal, heights in (((), [3, 2]), ((0,), [1, 2]), ((0, 1), [1, 1])):
        made: Any = method(shape=(27, 5), epsilon=1.0, n=10**5, branching=3, nominal=nominal)
        levels = made.levels if method is LHIO else made.boxes.levels
        assert [each.height for each in levels] == heights
        assert all(each.cuts[-1] == tuple(range(each.size + 1)) for each in levels)


@pytest.mark.parametrize("method", LATER)
def test_answers_about_labels(method: Any):
    """A third of the users of each of three labels, whichever two are asked for."""
    records = np.column_stack([np.arange(60_000) % 3, np.arange(60_000) % 4])
    made = method(shape=(3, 4), epsilon=3.0, n=60_000, nominal=(0, 1))
    estimate = made.estimate(made.tally(made.randomize(records, seed=2)))
    assert estimate.answer({0: [0, 2]}).value == pytest.approx(2 / 3, abs=0.05)
    assert estimate.answer({0: [0, 2], 1: [1, 3]}).value == pytest.approx(1 / 3, abs=0.05)
