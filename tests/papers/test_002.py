"""002 as printed, measured: Mechanism-1 delivers C_d times its delta, and Remark 1 has another scale than printed."""

from fractions import Fraction
from itertools import product
from math import comb

import pytest

from dither import Hypercube
from dither.core.channel import hockey_stick
from dither.core.exact import exp_below
from dither.errors import ParameterError
from dither.mechanisms.hypercube import half_space
from scripts_by_path import paper

printed = paper("002", "as_printed")
EPSILON, DELTA = 1.0, 1e-3
E = exp_below(EPSILON)
SIZES = {3: 4, 4: 5, 5: 16, 6: 22, 7: 64, 8: 93}
each_size = pytest.mark.parametrize(("d", "size"), SIZES.items())


def by_agreements(d: int, high: Fraction, low: Fraction, between: int) -> Fraction:
    """The divergence at e^epsilon of two corners that differ in `between` signs, by the numbers of agreeing signs."""
    lost = Fraction(0)
    for here, there in product(range(between + 1), range(d - between + 1)):  # disagreements with the first corner
        one, other = here + there, between - here + there
        gain = (high if 2 * one < d else low) - E * (high if 2 * other < d else low)
        lost += comb(between, here) * comb(d - between, there) * max(Fraction(0), gain)
    return lost


def worst(channel) -> Fraction:
    """The largest divergence over all pairs of corners that start at the first: the others are mirror images."""
    d = channel.outputs.bit_length() - 1
    high, low = Fraction(channel.high, channel.total), Fraction(channel.low, channel.total)
    return max(by_agreements(d, high, low, between) for between in range(1, d + 1))


@each_size
def test_c_d_is_the_number_of_corners_on_one_side(d, size):
    assert half_space(d) == size
    assert sum(2 * corner.bit_count() < d for corner in range(1 << d)) == size


@each_size
def test_as_printed_delivers_c_d_times_delta(d, size):
    channel = printed.hypercube(d, EPSILON, DELTA)
    assert float(worst(channel)) / DELTA == pytest.approx(size, rel=1e-9)
    assert channel.divergence(E) == worst(channel)
    assert float(channel.inside) == pytest.approx(printed.printed_alpha(d, EPSILON, DELTA), rel=1e-12)


@each_size
def test_the_sound_form_delivers_delta(d, size):
    channel = Hypercube(d, EPSILON, DELTA).law
    assert Fraction(DELTA) * (1 - Fraction(1, 10**9)) <= worst(channel) <= Fraction(DELTA)
    assert channel.divergence(E) == worst(channel)
    assert channel.apart == size


@pytest.mark.parametrize("d", [3, 4, 5, 6])
def test_both_by_brute_force_over_all_corners(d):
    for channel in (Hypercube(d, EPSILON, DELTA).channel(), printed.hypercube(d, EPSILON, DELTA)):
        first = channel.row(0)
        assert sum(first) == 1
        assert max(hockey_stick(first, channel.row(x), E) for x in range(1, 1 << d)) == worst(channel)
        assert hockey_stick(first, channel.row((1 << d) - 1), E) == worst(channel)  # the opposite corner is the worst


@pytest.mark.wide
@pytest.mark.parametrize(("d", "delta"), [(85, 1e-26), (42, 1e-13)])
def test_at_the_settings_of_the_paper_the_true_delta_is_a_fifth(d, delta):
    channel = printed.hypercube(d, EPSILON, delta)
    assert channel.profile(EPSILON) == pytest.approx(0.193, abs=5e-4)
    assert channel.profile(EPSILON) == pytest.approx(half_space(d) * delta, rel=1e-6)
    assert worst(channel) == channel.divergence(E)
    assert Hypercube(d, EPSILON, delta).guarantee.delta <= delta


def test_the_printed_form_ends_where_c_d_delta_is_one():
    with pytest.raises(ParameterError, match="delta is too large"):
        printed.hypercube(11, EPSILON, DELTA)
    assert Hypercube(11, EPSILON, DELTA).guarantee.delta <= DELTA


@each_size
def test_eq_8_is_unbiased_for_the_printed_channel(d, size):
    channel = printed.hypercube(d, EPSILON, DELTA)
    assert printed.printed_scale(d, EPSILON, DELTA) == pytest.approx(float(printed.true_scale(d, channel)), rel=1e-12)
    assert printed.printed_scale(d, EPSILON, DELTA / size) == pytest.approx(
        Hypercube(d, EPSILON, DELTA).reading.scale, rel=1e-12
    )


def test_remark_1_is_biased_with_eq_8():
    channel = printed.remark_1(4, EPSILON, DELTA)
    row = channel.row(15)
    first_sign = sum((probability if y & 1 else -probability for y, probability in enumerate(row)), Fraction(0))
    assert printed.true_scale(4, channel) == 1 / first_sign
    assert round(float(1 / first_sign), 3) == 6.708
    assert round(printed.printed_scale(4, EPSILON, DELTA), 3) == 4.727


@pytest.mark.parametrize("d", [3, 4, 5, 6])
def test_remark_1_delivers_c_d_times_delta_too(d):
    channel = printed.remark_1(d, EPSILON, DELTA)
    first = channel.row(0)
    assert sum(first) == 1
    enumerated = max(hockey_stick(first, channel.row(x), E) for x in range(1, 1 << d))
    assert enumerated == channel.divergence(E)
    assert float(enumerated) / DELTA == pytest.approx(SIZES[d], rel=1e-9)


def test_remark_1_is_the_same_for_odd_d():
    assert printed.remark_1(5, EPSILON, DELTA) == printed.hypercube(5, EPSILON, DELTA)
