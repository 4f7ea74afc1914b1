"""The axes of a table, read off reports about its cells: enumerated over all reports, for every population.

Given the users' cells, what a report adds to the share along an axis has a mean, a variance and covariances that are
sums over the rows of the channel. The reading must state exactly these; mutants of it (cells in another order, a wrong
probability, errors taken for independent) are noticed.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import dither
from dither.core.guarantee import Guarantee
from dither.core.tally import Tally
from dither.errors import ParameterError
from dither.mechanisms import frequency
from dither.mechanisms.frequency import Frequencies, PairSupport
from dither.testing import check_axes

SHAPES = {6: [(2, 3), (3, 2)], 8: [(2, 2, 2), (4, 2)]}
MECHANISMS = [
    dither.GRR(k=6, epsilon=1.0),
    dither.GRR(k=8, epsilon=4.0),
    dither.GRR(k=6, epsilon=2.0, delta=1e-3),
    dither.Unary(k=6, epsilon=1.0),
    dither.Unary(k=8, epsilon=2.0, kind="symmetric"),
    dither.SubsetSelection(k=6, epsilon=1.0, size=2),
    dither.SubsetSelection(k=8, epsilon=0.5, size=3),
    dither.SubsetSelection(k=6, epsilon=0.3, size=5),
]
CASES = [
    (mechanism, shape, axes)
    for mechanism in MECHANISMS
    for shape in SHAPES[mechanism.k]
    for axes in ((0,), (1,), (1, 0), *([(2,), (0, 2), (2, 0)] if len(shape) > 2 else []))
]


@cache
def reports(mechanism) -> tuple[list[Tally], np.ndarray]:
    """The tally of each report, and how likely it is for each cell."""
    outputs = mechanism.outputs()
    return [mechanism.tally(outputs[[row]]) for row in range(len(outputs))], mechanism.channel().matrix().astype(float)


def inside(shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    """For each cell (rows, the last axis fastest) which group along the axes it is in, apart from the reading."""
    groups = list(product(*(range(shape[axis]) for axis in axes)))
    return np.array([[tuple(cell[axis] for axis in axes) == group for group in groups] for cell in np.ndindex(shape)])


def populations(k: int) -> list[np.ndarray]:
    uneven = np.arange(1.0, k + 1)
    return [np.full(k, 1 / k), uneven / uneven.sum(), np.eye(k)[1]]


def marginal(mechanism, shape, axes) -> Frequencies:
    found = mechanism.along(shape, axes)
    assert found is not None
    return found


def scores(reading: Frequencies, tallies: list[Tally]) -> np.ndarray:
    return np.array([reading.value(tally) for tally in tallies])


def enumerated(worth: np.ndarray, law: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The covariance of one report, averaged over users with these cells."""
    means = law @ worth
    return np.einsum("x,xy,yu,yv->uv", shares, law, worth, worth) - np.einsum("x,xu,xv->uv", shares, means, means)


def agrees(reading: Frequencies, mechanism, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    tallies, law = reports(mechanism)
    groups, worth = inside(shape, axes), scores(reading, tallies)
    np.testing.assert_allclose(law @ worth, groups, atol=1e-9)  # unbiased, for every cell
    for shares in populations(mechanism.k):
        along = shares @ groups
        wanted = enumerated(worth, law, shares)
        covariance: Any = reading.covariance(along)
        np.testing.assert_allclose(covariance.dense(), wanted, atol=1e-9 * np.abs(wanted).max())
        np.testing.assert_allclose(reading.variance(along), np.diag(wanted), rtol=1e-9)
        assert reading.worst_variance() == pytest.approx(np.diag(wanted).mean(), rel=1e-9)


@pytest.mark.parametrize(("mechanism", "shape", "axes"), CASES, ids=str)
def test_all_reports_together_are_what_the_reading_says(mechanism, shape, axes):
    agrees(marginal(mechanism, shape, axes), mechanism, shape, axes)


@pytest.mark.parametrize(("mechanism", "shape", "axes"), CASES, ids=str)
def test_moments_worths_and_honest_sums(mechanism, shape, axes):
    tallies, law = reports(mechanism)
    reading, groups = marginal(mechanism, shape, axes), inside(shape, axes)
    worth, cells = scores(reading, tallies), groups.argmax(axis=1)
    moments = reading.moments(cells)
    centred = np.abs(worth[None] - groups[:, None])
    np.testing.assert_allclose(np.einsum("xy,xyv->xv", law, centred**2), moments.variance, rtol=1e-9)
    third = np.einsum("xy,xyv->xv", law, centred**3)
    assert (third <= moments.third * (1 + 1e-9)).all()
    if isinstance(mechanism, dither.GRR):  # a report supports one cell: it is known, not only bounded
        np.testing.assert_allclose(third, moments.third, rtol=1e-9)
    (stated,) = reading.worths()
    assert (worth.min(), worth.max()) == pytest.approx((float(stated.least), float(stated.most)), rel=1e-9)
    assert stated.exact
    assert (np.isclose(worth, worth.max()).sum(axis=1)).max() == stated.at_once
    for x, chances in enumerate(law):
        sums = [reading.honest_sums(tally)[0] for tally in tallies]
        mean = chances @ np.array([each.seen for each in sums])
        assert (mean >= sums[0].low - 1e-9).all()
        assert (mean <= sums[0].high + 1e-9).all()
        assert mean[cells[x]] == pytest.approx(sums[0].high[cells[x]])


@pytest.mark.parametrize("shape", [(2, 2), (4, 1)])
def test_hashed_reports_over_all_hash_functions(shape):
    k, g = 4, 3
    reading = marginal(dither.LocalHash(k=k, epsilon=1.0, g=g), shape, (0,))
    p, q = float(reading.p), 1 / g
    functions = np.array(list(product(range(g), repeat=k)))
    supports = np.concatenate([functions == bucket for bucket in range(g)]).astype(float)
    law = np.array(
        [
            np.concatenate([np.where(functions[:, x] == bucket, p, (1 - p) / (g - 1)) for bucket in range(g)])
            for x in range(k)
        ]
    ) / len(functions)
    groups = inside(shape, (0,))
    worth = (supports @ groups - k / shape[0] * q) / (p - q)
    np.testing.assert_allclose(law @ worth, groups, atol=1e-9)
    for shares in populations(k):
        wanted = enumerated(worth, law, shares)
        covariance: Any = reading.covariance(shares @ groups)
        np.testing.assert_allclose(covariance.dense(), wanted, atol=1e-12 * wanted.max())
    (stated,) = reading.worths()
    assert (worth.min(), worth.max()) == pytest.approx((float(stated.least), float(stated.most)))
    assert stated.exact == (shape == (4, 1))  # of several cells a liar must find a function that joins them
    assert stated.at_once is None


def test_an_estimate_along_an_axis_is_the_sum_of_cells_with_the_variance_of_a_sum():
    mechanism = dither.SubsetSelection(k=12, epsilon=2.0, size=3)
    values = np.random.default_rng(1).integers(0, 12, 5000) // 2
    tally = mechanism.tally(mechanism.randomize(values, seed=1))
    whole = mechanism.reading.estimate(tally, Guarantee(2.0), "", 9000)
    for axes, weights in (((0,), (0, None)), ((1,), (None, 1))):
        found = marginal(mechanism, (4, 3), axes).estimate(tally, Guarantee(2.0), "", 9000)
        assert "sum of" in found.notes[0]
        for place in range(found.value.size):
            some = np.zeros((4, 3))
            some[place if weights[0] is not None else slice(None), place if weights[1] is not None else slice(None)] = 1
            total = whole.combine(some.ravel())
            assert float(found.value[place]) == pytest.approx(float(total.value), rel=1e-9)
            # The errors of cells are stated for the nearest distribution, those of a sum for the sum.
            assert float(found.stderr[place]) == pytest.approx(float(total.stderr), rel=0.02)
        assert found.variance is not None
        assert found.variance(np.clip(found.value, 0, 1)) == pytest.approx(found.stderr**2, rel=1e-9)
        assert found.covariance is not None
        np.testing.assert_allclose(found.covariance.variance, found.stderr**2, rtol=1e-9)


def test_axes_of_axes():
    mechanism = dither.GRR(k=12, epsilon=1.0)
    tally = mechanism.tally(mechanism.randomize(np.arange(600) % 12, seed=2))
    pair = marginal(mechanism, (2, 3, 2), (2, 1))
    once, twice = marginal(mechanism, (2, 3, 2), (1,)), pair.along((2, 3), (1,))
    assert twice is not None
    assert twice == once
    np.testing.assert_allclose(twice.value(tally), once.value(tally))


@pytest.mark.parametrize(
    "mechanism",
    [dither.Hadamard(k=6, epsilon=1.0), dither.LocalHash(k=6, epsilon=1.0, cohorts=7), dither.Duchi(1.0)],
    ids=repr,
)
def test_where_the_variance_is_not_known_there_is_none(mechanism):
    assert mechanism.along((2, 3), (0,)) is None


@pytest.mark.parametrize(("shape", "axes"), [((2, 2), (0,)), ((2, 3), ()), ((2, 3), (0, 0))])
def test_a_shape_that_does_not_fit_is_refused(shape, axes):
    with pytest.raises(ParameterError, match="table of 6 cells"):
        dither.GRR(k=6, epsilon=1.0).along(shape, axes)


# Broken on purpose ---------------------------------------------------------------------------------------------------


def wrong_order(counts, shape, axes):
    others = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return np.ravel(counts.reshape(shape, order="F").sum(axis=others))


MUTANTS: dict[str, Any] = {
    "q": lambda reading: replace(reading, q=reading.q * Fraction(101, 100)),
    "p": lambda reading: replace(reading, p=reading.p * Fraction(99, 100)),
    "own": lambda reading: replace(reading, pairs=reading.pairs._replace(own=reading.pairs.own + Fraction(1, 1000))),
    "other": lambda reading: replace(
        reading, pairs=reading.pairs._replace(other=reading.pairs.other + Fraction(1, 1000))
    ),
    "independent": lambda reading: replace(reading, pairs=PairSupport.independent(reading.p, reading.q)),
    "one cell less": lambda reading: replace(reading, cells=reading.cells - 1),
}


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("mechanism", MECHANISMS[:1] + MECHANISMS[5:6], ids=repr)
def test_a_wrong_reading_is_noticed(mechanism, name):
    right = marginal(mechanism, (2, 3), (0,))
    agrees(right, mechanism, (2, 3), (0,))
    with pytest.raises(AssertionError):
        agrees(MUTANTS[name](right), mechanism, (2, 3), (0,))


@pytest.mark.parametrize("name", ["q", "p", "own", "other", "one cell less"])
def test_the_contract_notices_a_wrong_reading(monkeypatch, name):
    mechanism, right = dither.SubsetSelection(k=6, epsilon=1.0, size=2), Frequencies.along
    assert check_axes(mechanism)
    monkeypatch.setattr(Frequencies, "along", lambda self, shape, axes: MUTANTS[name](right(self, shape, axes)))
    with pytest.raises(AssertionError):
        check_axes(mechanism)


def test_cells_in_another_order_are_noticed(monkeypatch):
    monkeypatch.setattr(frequency, "_summed", wrong_order)
    mechanism = MECHANISMS[0]
    with pytest.raises(AssertionError):
        agrees(marginal(mechanism, (2, 3), (0,)), mechanism, (2, 3), (0,))


def test_errors_that_are_taken_for_independent_are_noticed(monkeypatch):
    mechanism = MECHANISMS[0]
    right = Frequencies.covariance

    def diagonal(self, shares, unasked=0.0):
        found: Any = right(self, shares, unasked)
        return type(found).uncorrelated(found.variance)

    monkeypatch.setattr(Frequencies, "covariance", diagonal)
    with pytest.raises(AssertionError):
        agrees(marginal(mechanism, (2, 3), (0,)), mechanism, (2, 3), (0,))
