"""Scales and cuts where the people are: whole numbers, exact, and the same on every device."""

from fractions import Fraction

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.ranges.quantile_places import PLACES, QuantilePlaces, quantile_cuts
from dither.ranges.user_groups import UserGroup


@pytest.mark.parametrize("seed", range(6))
def test_places_are_the_middles_between_levels_rounded_down(seed):
    """Against rationals, for random cuts of up to 2^20 values."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([7, 64, 1000, 1 << 20]))
    cuts = np.unique([0, *rng.integers(1, size, 5).tolist(), size])
    scale = QuantilePlaces.of_shares(rng.dirichlet(np.ones(len(cuts) - 1)), cuts)
    assert scale.levels[0] == 0
    assert scale.levels[-1] == PLACES
    for value in rng.integers(0, size, 50).tolist():
        cell = int(np.searchsorted(cuts, value, side="right")) - 1
        low, high = scale.levels[cell : cell + 2]
        part = Fraction(2 * (value - int(cuts[cell])) + 1, 2 * int(cuts[cell + 1] - cuts[cell]))
        assert scale.places[value] == min(PLACES - 1, (low + (high - low) * part).__floor__())
    assert (np.diff(scale.places) >= 0).all()
    number = (2 * scale.places + 1) / PLACES - 1  # a float holds it exactly
    assert all(
        Fraction(float(each)) == Fraction(2 * int(place) + 1, PLACES) - 1
        for each, place in zip(number[:100], scale.places[:100], strict=True)
    )


def test_nobody_is_without_a_place():
    """Where a first phase saw nobody, a tenth of the scale is shared out evenly."""
    scale = QuantilePlaces.of_shares(np.array([1.0, 0, 0, 0, 0]), np.arange(6))
    assert (np.diff(scale.levels) >= PLACES // 50).all()
    assert scale.levels[1] == pytest.approx(0.92 * PLACES, abs=1)


def test_a_scale_is_stored_as_whole_numbers():
    scale = QuantilePlaces.of_shares(np.array([0.5, 0.5]), np.array([0, 3, 9]))
    assert QuantilePlaces.read(scale.stored()) == scale
    asked = UserGroup.read(((0,), (9,), "SquareWave", 2, [list(each) for each in scale.stored()]), (9, 4))
    assert asked.scale == scale
    assert UserGroup.read(asked.stored(), (9, 4)) == asked


@pytest.mark.parametrize(
    ("cuts", "levels"),
    [
        ((0, 9), (0, PLACES - 1)),
        ((0, 3, 9), (0, PLACES)),
        ((0, 3, 9), (0, PLACES, 5)),
        ((0, 9), (0, 0.5)),
        ((0, 3, 8), (0, 5, PLACES)),
    ],
)
def test_what_is_no_scale_is_refused(cuts, levels):
    with pytest.raises(ParameterError):
        UserGroup.read(((0,), (9,), "SquareWave", 1, (cuts, levels)), (9,))


def test_only_the_square_wave_has_a_scale():
    with pytest.raises(ParameterError, match="a scale is one"):
        UserGroup.read(((0,), (9,), "GRR(k=9)", 1, ((0, 9), (0, PLACES))), (9,))


def test_cells_have_equal_shares():
    shares = np.random.default_rng(1).dirichlet(np.full(500, 20.0))
    cuts = quantile_cuts(shares, 8)
    assert len(cuts) == 9
    np.testing.assert_allclose(np.add.reduceat(shares, cuts[:-1]), 1 / 8, atol=0.04)


def test_a_cut_is_drawn_into_a_gap():
    shares = np.exp(-(((np.arange(64) - 16) / 5) ** 2)) + 0.7 * np.exp(-(((np.arange(64) - 48) / 5) ** 2))
    assert 26 < quantile_cuts(shares / shares.sum(), 2)[1] < 40


def test_few_values_and_nothing_known_are_cut_as_far_as_they_go():
    assert quantile_cuts(np.array([0.2, 0.8]), 8) == (0, 1, 2)
    assert quantile_cuts(np.zeros(8), 4) == (0, 2, 4, 6, 8)
    assert quantile_cuts(np.array([1.0, 0.0, 0.0, 0.0]), 4)[0:2] == (0, 1)
