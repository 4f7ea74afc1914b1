"""Rounding goes outward, always: e^epsilon from below, logarithms and printed numbers from above.

Two oracles that do not trust the code under test: the exponential series in exact fractions with its remainder
bounded, and `decimal` with 120 digits and a step outward. A check counts only if it would notice the usual mistakes, so
each is also run on a version that rounds to nearest, or goes through a float, and must reject it.
"""

import math
import sys
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dither.core.exact import _LARGEST_EXPONENT, exp_below, float_above, log_above, upward

steady = settings(derandomize=True, deadline=None, max_examples=200)
LIMIT = float(_LARGEST_EXPONENT)
ORACLE = Context(prec=120, Emax=10**9, Emin=-(10**9))

# From 1e-12 to 5000, on a fine grid and at awkward places.
EPSILONS = [
    *(mantissa * 10.0**power for power in range(-12, 4) for mantissa in (1.0, 1.7, math.pi, 4.9)),
    *(i / 8 for i in range(1, 200)),
    *(math.log(i) for i in range(2, 60)),
    *(math.nextafter(1.0, side) for side in (0.0, 2.0)),
    math.log(10),  # where e^epsilon crosses a power of ten, the unit in the last place changes
    math.nextafter(math.log(10), 0),
    16.0,
    5000.0,
]


def enclosed_exp(epsilon: float) -> tuple[Fraction, Fraction]:
    """e^epsilon from both sides, to 119 digits."""
    nearest = Decimal(epsilon).exp(ORACLE)
    return Fraction(ORACLE.next_minus(nearest)), Fraction(ORACLE.next_plus(nearest))


def series_exp(epsilon: float, terms: int = 120) -> tuple[Fraction, Fraction]:
    """e^epsilon from both sides for 0 < epsilon <= 8, by the series: what is left out is below twice its first term."""
    x, term, total = Fraction(epsilon), Fraction(1), Fraction(0)
    for i in range(terms):
        total += term
        term = term * x / (i + 1)
    return total, total + 2 * term


def is_below(function, epsilon: float) -> bool:
    """Strictly below e^epsilon, and by no more than two units of the 60th digit until it saturates."""
    low, high = enclosed_exp(epsilon)
    found = function(epsilon)
    if epsilon > LIMIT:
        return found < low and found == function(LIMIT)
    return found < low and high - found <= Fraction(2, 10**59) * found


def test_exp_below_is_below_and_close():
    assert [epsilon for epsilon in EPSILONS if not is_below(exp_below, epsilon)] == []


@steady
@given(st.floats(1e-12, 5000.0))
def test_exp_below_anywhere(epsilon):
    assert is_below(exp_below, epsilon)


@pytest.mark.parametrize("epsilon", [epsilon for epsilon in EPSILONS if epsilon <= 8][::5])
def test_exp_below_by_the_series(epsilon):
    low, high = series_exp(epsilon)
    assert exp_below(epsilon) < low
    assert high - exp_below(epsilon) <= Fraction(2, 10**59) * low


def test_rounding_to_nearest_would_be_noticed():
    def nearest(epsilon: float) -> Fraction:
        return Fraction(Decimal(epsilon).exp(Context(prec=60)))

    def through_float(epsilon: float) -> Fraction:
        return Fraction(math.exp(epsilon))

    def upwards(epsilon: float) -> Fraction:
        return Fraction(Context(prec=60).next_plus(Decimal(epsilon).exp(Context(prec=60))))

    def too_far(epsilon: float) -> Fraction:
        return exp_below(epsilon, digits=57)

    small = [epsilon for epsilon in EPSILONS if epsilon < 700]
    for mutant in (nearest, through_float, upwards, too_far):
        assert not all(is_below(mutant, epsilon) for epsilon in small)


@pytest.mark.parametrize("digits", [10, 60, 65, 90, 115])
def test_exp_below_with_more_digits_is_closer(digits):
    for epsilon in (0.1, 1.0, 3.7, 20.0):
        low, high = enclosed_exp(epsilon)
        found = exp_below(epsilon, digits)
        assert found < low
        assert high - found <= Fraction(2, 10 ** (digits - 1)) * found


def test_exp_below_saturates_and_grows():
    assert exp_below(0.0) == 1
    assert exp_below(LIMIT) == exp_below(LIMIT + 0.5) == exp_below(1e9) == exp_below(math.inf)
    assert exp_below(math.nextafter(LIMIT, 0)) < exp_below(LIMIT)
    assert LIMIT > 710  # beyond what a float can hold, at least
    ordered = sorted(EPSILONS)
    assert all(exp_below(a) <= exp_below(b) for a, b in pairwise(ordered))


def test_exp_below_a_hair_above_zero_promises_less_than_nothing():
    # Beyond 60 digits e^epsilon is rounded to one, and the step down goes below it: on the safe side.
    assert exp_below(1e-70) < 1
    assert exp_below(1e-70, digits=90) > 1


# Logarithms ---------------------------------------------------------------------------------------------------------


def enclosed_log(ratio: Fraction) -> tuple[Fraction, Fraction]:
    """ln(ratio) from both sides, with digits to spare for the cancellation near one."""
    digits = 150 + (ratio.numerator.bit_length() + ratio.denominator.bit_length()) // 3
    context, slack = Context(prec=digits), Fraction(1, 10 ** (digits - 10))  # no logarithm here has ten digits
    middle = Fraction(Decimal(ratio.numerator).ln(context)) - Fraction(Decimal(ratio.denominator).ln(context))
    return middle - slack, middle + slack


def is_above(function, ratio: Fraction) -> bool:
    """Not below ln(ratio), and at most one float further than the best float."""
    low, high = enclosed_log(ratio)
    found = function(ratio)
    before_last = math.nextafter(math.nextafter(found, -math.inf), -math.inf)
    return Fraction(found) >= high and Fraction(before_last) < low


RATIOS = [
    *(Fraction(i) for i in range(2, 40)),
    *(Fraction(i, i + 1) for i in (1, 2, 9, 10**20)),
    *(Fraction(2**bits + 1, 2**bits) for bits in (1, 10, 52, 53, 54, 64, 200, 1000)),
    *(Fraction(2**bits, 2**bits - 1) for bits in (10, 53, 64, 200)),
    *(exp_below(epsilon) for epsilon in (1e-12, 1e-6, 0.1, 1.0, 2.0, 16.0, 300.0, 5000.0)),
    Fraction(10**300),
    Fraction(1, 10**300),
    Fraction(3**2000, 2**3000),
]


def test_log_above_is_above_and_close():
    assert [ratio for ratio in RATIOS if not is_above(log_above, ratio)] == []


@steady
@given(st.integers(1, 2**70), st.integers(1, 2**70))
@example(2**64 - 1, 2**64 - 2)
@example(1, 2**70)
def test_log_above_anywhere(numerator, denominator):
    ratio = Fraction(numerator, denominator)
    assert log_above(ratio) == 0.0 if ratio == 1 else is_above(log_above, ratio)


def test_a_logarithm_rounded_to_nearest_would_be_noticed():
    def nearest(ratio: Fraction) -> float:
        return math.log(ratio.numerator) - math.log(ratio.denominator)

    def too_far(ratio: Fraction) -> float:
        return math.nextafter(math.nextafter(log_above(ratio), math.inf), math.inf)

    for mutant in (nearest, too_far):
        assert not all(is_above(mutant, ratio) for ratio in RATIOS)


@pytest.mark.parametrize("epsilon", [epsilon for epsilon in EPSILONS if epsilon <= LIMIT][::7])
def test_the_two_fit_together(epsilon):
    # What a sampler takes from e^epsilon, the certificate states: never more than epsilon was declared.
    assert math.nextafter(epsilon, 0) <= log_above(exp_below(epsilon)) <= epsilon


# Floats and text ----------------------------------------------------------------------------------------------------


def fractions(bits: int) -> st.SearchStrategy[Fraction]:
    return st.builds(Fraction, st.integers(-(2**bits), 2**bits), st.integers(1, 2**bits))


@steady
@given(st.one_of(fractions(10), fractions(200), fractions(1000)))
@example(Fraction(1, 3))
@example(Fraction(1, 10**400))
@example(Fraction(-1, 10**400))
@example(Fraction(2**53 + 1))
@example(Fraction(-(2**53) - 1))
@example(Fraction(sys.float_info.max))
def test_float_above_is_the_smallest_float_that_is_not_below(number):
    found = float_above(number)
    assert Fraction(found) >= number
    assert Fraction(math.nextafter(found, -math.inf)) < number


@steady
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 17))
@example(1e-6, 9)
@example(0.99999999999, 9)
@example(123456789.5, 9)
@example(1e300, 9)
@example(5e-324, 3)
@example(-1.23456789012, 9)
def test_printed_numbers_are_rounded_up(number, digits):
    printed = Decimal(upward(number, digits))
    assert float(printed) >= number
    significant = upward(number, digits).lstrip("-").partition("e")[0].replace(".", "").strip("0")
    assert len(significant) <= digits
    if float(printed) == number:  # a float that has a short name is called by it: 0.1
        return
    assert printed >= Decimal(number)
    unit = Decimal(10) ** (Decimal(number).adjusted() - digits + 1) if number else Decimal(0)
    assert printed - Decimal(number) <= unit


def test_printed_numbers_look_plain():
    shown = {
        0.0: "0",
        1.0: "1",
        0.5: "0.5",
        0.1: "0.1",  # though the float is a little above a tenth
        0.3: "0.3",
        0.1 + 0.2: "0.300000001",
        1.0000000001: "1.00000001",
        0.99999999999: "1",
        -1.0000000001: "-1",
        0.00012: "0.00012",
        1e-6: "1e-6",
        100.0: "100",
        123456789.0: "123456789",
        123456789.5: "123456790",
        1e9: "1e+9",
        1e10: "1e+10",
        math.inf: "inf",
        -math.inf: "-inf",
    }
    assert {number: upward(number) for number in shown} == shown
    assert upward(math.nan) == "nan"
    assert upward(-0.0) == "0"
