"""The rounded Gaussian: its table against Phi with 80 digits, and its sampler over every tape of short words."""

import math
from bisect import bisect_right
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2, norm

from dither.core import rounded_gaussian as gauss
from dither.core.draw import DRAW, ELEMENT
from dither.core.randomness import Stream
from dither.core.rounded_gaussian import RoundedGaussian, normal_below
from dither.errors import ParameterError
from dither.testing.tapes import EveryTape

SCALES = [Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(505, 10), Fraction(300), Fraction(4095), Fraction(4097)]


def exact(noise: RoundedGaussian, k: int) -> Any:
    """Phi((k + 1/2) / s)."""
    return mpmath.ncdf((k + mpmath.mpf(1) / 2) * noise.scale.denominator / mpmath.mpf(noise.scale.numerator))


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_every_edge_is_right_to_one_unit(scale):
    noise = RoundedGaussian(scale)
    edges = noise.cumulative
    assert len(edges) == 2 * noise.reach + 1
    assert edges[-1] == 1 << 128
    assert list(edges) == sorted(edges)
    with mpmath.workdps(80):
        for k in np.unique(np.linspace(-noise.reach, noise.reach - 1, 600).astype(int)).tolist():
            assert abs(edges[k + noise.reach] - exact(noise, k) * 2**128) <= 1


def test_the_digits_behind_the_table_are_right_far_beyond_it():
    with mpmath.workdps(200):
        assert abs(mpmath.mpf(gauss._PI) - mpmath.pi) < mpmath.mpf(10) ** -195
        for scale in (Fraction(200, 3), Fraction(5000)):  # both series
            count = math.ceil(13 * scale)
            edges = list(gauss._edges(scale, count))
            for k in (0, 1, 7, 8, 9, 77, 78, 79, count // 2, count - 1):
                found = mpmath.mpf(edges[k]) / mpmath.mpf(2) ** gauss._FRACTION
                exact = mpmath.ncdf((k + mpmath.mpf(1) / 2) * scale.denominator / scale.numerator)
                assert abs(found - exact) < mpmath.mpf(2) ** -150


@pytest.mark.parametrize(("scale", "bits"), [(Fraction(1), 128), (Fraction(1), 12), (Fraction(5, 2), 40)])
def test_the_deviation_bounds_the_total_variation(scale, bits):
    noise = RoundedGaussian(scale, bits)
    with mpmath.workdps(80):
        total = mpmath.mpf(0)
        for o in range(-4 * noise.reach, 4 * noise.reach + 1):
            p = noise.probability(o)
            total += abs(mpmath.mpf(p.numerator) / p.denominator - (exact(noise, o) - exact(noise, o - 1)))
        deviation = mpmath.mpf(noise.deviation.numerator) / noise.deviation.denominator
        assert total / 2 <= deviation <= mpmath.mpf(2 * noise.reach + 4) / 2**bits + 4 * mpmath.ncdf(-13)
    assert noise.probability(noise.reach + 1) == 0


def test_a_million_coordinates_and_ten_thousand_steps_cost_next_to_nothing():
    noise = RoundedGaussian(Fraction(32768))
    assert (1 + math.e**8) * 1e6 * 1e4 * float(noise.deviation) < 1e-3 * 1e-10


def test_the_variance_is_that_of_a_gaussian_and_its_rounding():
    for scale in (Fraction(1), Fraction(2), Fraction(40)):
        noise = RoundedGaussian(scale)
        summed = 2 * sum(o * o * noise.probability(o) for o in range(1, noise.reach + 1))
        assert noise.variance == pytest.approx(float(summed), rel=1e-14)
        assert noise.variance == pytest.approx(float(scale) ** 2 + 1 / 12, rel=1e-7)


@pytest.mark.parametrize(("scale", "table", "bits"), [("1/4", 5, 5), ("1/2", 6, 4), ("1/4", 9, 3), ("1", 4, 8)])
def test_the_sampler_over_all_tapes_is_the_table(scale, table, bits):
    noise = RoundedGaussian(Fraction(scale), table)
    tape = EveryTape(bits, {DRAW: 1, ELEMENT: -(-table // bits)})
    drawn = noise.draw(tape, slice(0, tape.rows))
    law = dict.fromkeys(range(-noise.reach, noise.reach + 1), Fraction(0))
    rows, inverse = tape.odds()
    for value, odds in zip(drawn[rows].tolist(), inverse.tolist(), strict=True):
        law[value] += Fraction(1, odds)
    assert law == {o: noise.probability(o) for o in law}


def test_words_decide_as_the_edges_say():
    # The guide, crowded cells and all: against a plain search among the 128-bit edges, at and beside every edge.
    for scale in (Fraction(3), Fraction(1000)):
        noise = RoundedGaussian(scale)
        leading = [edge >> 64 for edge in noise.cumulative]
        beside = {min(max(edge + by, 0), 2**64 - 2) for edge in leading for by in (-1, 1)} - set(leading)
        near = np.array(sorted(beside), dtype=np.uint64)
        drawn = noise.draw(Fixed(near), slice(0, near.size))
        expected = [bisect_right(noise.cumulative, int(word) << 64) - noise.reach for word in near]
        assert drawn.tolist() == expected


class Fixed:
    """A tape with given words."""

    bits = 64

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def words(self, lane, rows, width=1, attempt=0, out=None):
        assert lane == DRAW
        return self._words[rows].reshape(-1, 1)

    def slots(self, label, number):
        raise AssertionError


def test_a_tie_is_settled_by_the_digits_behind():
    noise = RoundedGaussian(Fraction(3))
    place = noise.reach + 2  # the edge above offset 2
    edge = noise.cumulative[place]

    low = edge & (2**64 - 1)
    for behind, offset in (((low << 64) - 1, 2), (low << 64, 3)):
        tape = Tied(np.array([edge >> 64], dtype=np.uint64), behind)
        assert noise.draw(tape, slice(0, 1)).tolist() == [offset]


class Tied(Fixed):
    """The same, with a number of two words behind each."""

    def __init__(self, words: np.ndarray, behind: int) -> None:
        super().__init__(words)
        self._behind = np.array([[behind >> 64, behind & (2**64 - 1)]], dtype=np.uint64)

    def words(self, lane, rows, width=1, attempt=0, out=None):
        return self._behind if lane == ELEMENT else super().words(lane, rows)


def test_draws_follow_the_law():
    # 2^20 draws in the cells of a chi-squared test, and the mean square: false alarm 1e-8 each.
    noise = RoundedGaussian(Fraction(40))
    drawn = noise.draw(Stream.seeded(5), slice(0, 1 << 20))
    edges = np.arange(-120, 121, 4)
    law = np.diff(np.concatenate([[0], norm.cdf((edges + 0.5) / 40.0), [1]]))
    found = np.bincount(np.searchsorted(edges, drawn), minlength=law.size)
    assert (((found - drawn.size * law) ** 2) / (drawn.size * law)).sum() < chi2.isf(1e-8, law.size - 1)
    assert abs((drawn.astype(float) ** 2).mean() / noise.variance - 1) < norm.isf(0.5e-8) * math.sqrt(2 / drawn.size)


def test_rows_own_their_words():
    noise, stream = RoundedGaussian(Fraction(9)), Stream.seeded(3)
    whole = noise.draw(stream, slice(0, 100_000))
    assert (noise.draw(stream, slice(70_000, 70_100)) == whole[70_000:70_100]).all()
    assert (noise.draw(stream, np.array([5, 99_999, 40_000])) == whole[[5, 99_999, 40_000]]).all()


def test_phi_in_rationals():
    with mpmath.workdps(150):
        for x in (Fraction(0), Fraction(1, 3), Fraction(-5), Fraction(27, 2), Fraction(-1399, 100)):
            found = normal_below(x)
            exact = mpmath.ncdf(mpmath.mpf(x.numerator) / x.denominator)
            assert abs(mpmath.mpf(found.numerator) / found.denominator - exact) < mpmath.mpf(2) ** -300
    assert normal_below(Fraction(15)) == 1
    assert normal_below(Fraction(-15)) == 0


@pytest.mark.parametrize("change", [{"scale": 0}, {"scale": 2**18}, {"bits": 1}, {"bits": 200}], ids=str)
def test_tables_that_there_are_not(change):
    with pytest.raises(ParameterError):
        RoundedGaussian(**{"scale": Fraction(1)} | change)
