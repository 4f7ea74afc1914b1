"""Cumulative shares: thresholds, quantiles and their intervals, exactly; what they refuse."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dither.core.cumulative_estimate import Cumulative, Thresholds
from dither.core.estimate import Bounds
from dither.core.guarantee import NO_GUARANTEE
from dither.errors import ParameterError


def made(value, thresholds, ends, *, whole, stderr=0.0):
    return Cumulative(
        np.array(value, dtype=float),
        np.full(len(value), float(stderr)),
        100,
        NO_GUARANTEE,
        "cumulative(x)",
        [f"below {end}" for end in thresholds],
        bounds=Bounds(0.0, 1.0),
        thresholds=np.array(thresholds, dtype=float),
        ends=ends,
        whole=whole,
    )


WHOLE = made([0.1, 0.4, 0.4, 0.9], [1, 2, 3, 4], (1.0, 5.0), whole=True)
NUMBER = made([0.2, 0.2, 0.6], [10, 20, 30], (0.0, 40.0), whole=False)


def test_thresholds_lie_between_what_they_part():
    assert Thresholds.of_cells(4) == Thresholds((-0.5, 0.0, 0.5))
    between = Thresholds.between_places(128)
    assert between.places is not None
    assert len(between.at) == 127
    for low, cut, high in zip(between.places, between.at, between.places[1:], strict=False):
        assert low < cut < high
    assert (between.places[0], between.places[-1]) == (-1.0, 1.0)
    assert Thresholds.between_places(2) == Thresholds((0.0,), (-1.0, 1.0))


@pytest.mark.parametrize(
    ("q", "least"), [(0, 1), (0.05, 1), (0.1, 1), (0.11, 2), (0.4, 2), (0.41, 4), (0.9, 4), (0.91, 5), (1, 5)]
)
def test_the_quantile_of_whole_numbers_is_the_least_with_so_many_up_to_it(q, least):
    assert float(WHOLE.quantile(q)) == least


@pytest.mark.parametrize(
    ("q", "place"), [(0, 0), (0.1, 5), (0.2, 10), (0.3, 22.5), (0.6, 30), (0.8, 35), (1, 40), ([0.1, 1], [5, 40])]
)
def test_the_quantile_of_numbers_lies_on_the_curve(q, place):
    assert np.allclose(NUMBER.quantile(q), place, rtol=0, atol=1e-12)


def test_noise_does_not_let_quantiles_fall():
    noisy = made([0.3, 0.1, -0.2, 1.3], [1, 2, 3, 4], (1.0, 5.0), whole=True)
    found = noisy.quantile(np.linspace(0, 1, 101))
    assert (np.diff(found) >= 0).all()
    assert float(noisy.quantile(0.3)) == 1
    assert float(noisy.quantile(0.31)) == 4


def test_the_interval_of_a_quantile_lies_between_thresholds_that_are_surely_on_either_side():
    sure = made([0.1, 0.4, 0.6, 0.9], [1, 2, 3, 4], (1.0, 5.0), whole=True, stderr=0.1 / 1.96)  # +- .1
    assert [float(end) for end in sure.quantile_interval(0.55)] == [3, 4]
    assert [float(end) for end in sure.quantile_interval(0.35)] == [2, 3]
    assert [float(end) for end in sure.quantile_interval(0.02)] == [1, 2]
    assert [float(end) for end in sure.quantile_interval(0.98)] == [4, 5]
    exact = made([0.1, 0.4, 0.6, 0.9], [10, 20, 30, 40], (0.0, 50.0), whole=False)
    assert [float(end) for end in exact.quantile_interval(0.5)] == [20, 30]
    low, high = exact.quantile_interval([0.05, 0.95])
    assert (low.tolist(), high.tolist()) == ([0, 40], [10, 50])


def test_nothing_known_has_no_quantile_and_the_widest_interval():
    nothing = made([math.nan] * 4, [1, 2, 3, 4], (1.0, 5.0), whole=True, stderr=math.inf)
    assert np.isnan(nothing.quantile([0.1, 0.5])).all()
    assert [float(end) for end in nothing.quantile_interval(0.5)] == [1, 5]


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan, "half", None, [0.5, 2]])
def test_a_quantile_is_asked_for_a_share(q):
    for ask in (NUMBER.quantile, NUMBER.quantile_interval):
        with pytest.raises(ParameterError, match="a share from 0 to 1"):
            ask(q)


def test_each_share_has_a_threshold():
    with pytest.raises(ParameterError, match="one threshold for each"):
        replace(NUMBER, thresholds=np.array([1.0, 2.0]))


def test_items_keep_their_order_and_are_drawn_along_the_axis():
    assert WHOLE.ordered
    assert WHOLE.table(most=2).columns["item"] == ["below 2", "below 4"]
    axes = NUMBER.plot()
    assert axes.get_xlim() == (0.0, 40.0)
    assert np.array_equal(axes.lines[0].get_xdata(), [10, 20, 30])
    assert np.array_equal(axes.lines[0].get_ydata(), [0.2, 0.2, 0.6])
    assert axes.get_ylabel() == "share of users below"
