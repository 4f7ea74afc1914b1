"""Where values are expected: places that are equal cells, and multiples that are cells of their own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dither.core.spacings import CutSpacing, Lattice, LogSpacing, shortened

CONTINUOUS = [
    LogSpacing(0.0, 1e6),
    LogSpacing(2.5, 40.0),
    LogSpacing(1e-6, 1e6),
    CutSpacing(-5.0, 100.0, (0.0, 1.0, 60.0)),
    CutSpacing(0.0, 1.0, (0.3,)),
]


@pytest.mark.parametrize("spacing", CONTINUOUS, ids=str)
def test_places_go_up_from_end_to_end_and_back(spacing):
    places = np.linspace(0, 1, 1001)
    values = spacing.values(places)
    np.testing.assert_allclose(values[[0, -1]], [spacing.low, spacing.high], rtol=1e-12)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(spacing.places(values), places, atol=1e-9)


def test_logarithms_by_hand():
    spacing = LogSpacing(0.0, 1000.0)
    np.testing.assert_allclose(spacing.places(np.array([0, 1, 9, 1000])), np.log([1, 2, 10, 1001]) / np.log(1001))
    ratios = np.diff(np.log(LogSpacing(3.0, 300.0).values(np.linspace(0, 1, 11))))
    np.testing.assert_allclose(ratios, np.log(100) / 10)


@pytest.mark.parametrize(("wanted", "cells"), [(64, 64), (1024, 1024), (10, 8), (3, 4)])
def test_every_cut_is_the_end_of_a_cell(wanted, cells):
    spacing = CutSpacing(0.0, 100.0, (10.0, 20.0, 40.0))
    assert spacing.cells(wanted) == cells
    ends = spacing.places(np.array([10.0, 20.0, 40.0])) * cells
    np.testing.assert_allclose(ends, np.rint(ends), atol=1e-9)


@given(st.integers(-1000, 1000), st.integers(1, 400), st.sampled_from([0.1, 0.25, 1.0, 5.0, 7.0]))
def test_multiples_by_enumeration(low, width, step):
    high = low + width
    points = Lattice(float(low), float(high), step).points
    wanted = [k * step for k in range(-20_000, 20_001) if low - 1e-9 <= k * step <= high + 1e-9]
    np.testing.assert_allclose(points, wanted, atol=1e-9)


@given(st.floats(0, 100), st.sampled_from([2.0, 5.0, 0.5, 33.0]))
def test_the_nearest_multiple_is_nearest(value, step):
    lattice = Lattice(0.0, 100.0, step)
    distances = np.abs(lattice.points - value)
    assert distances[lattice.nearest(np.array([value]))[0]] <= distances.min() + 1e-9


def test_multiples_have_the_digits_that_people_write():
    assert 0.3 in Lattice(0.0, 1.0, 0.1).points
    assert Lattice(0.0, 1.0, 0.1).below(np.array([0.3, np.nextafter(0.3, 1)])).tolist() == [3, 4]
    assert shortened(0.1 + 0.2) == 0.3
