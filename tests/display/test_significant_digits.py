"""Numbers for readers: digits come from the error, and what is shown is what is meant."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from dither.display.significant_digits import (
    UNKNOWN,
    last_place,
    number,
    percent,
    percent_size,
    plain_number,
    plus_minus,
    size,
    span,
)

MINUS = "\u2212"
SMALL = some.floats(1e-12, 1e12)
SIZES = some.floats(1e-300, 1e300)


def read(text: str) -> float:
    """What a reader takes a text for."""
    return float(text.replace(",", "").replace(MINUS, "-").removesuffix("%"))


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (12345.4, 123.0, "12,345 ± 120"),
        (0.31234, 0.0042, "0.312 ± 0.004"),
        (0.31234, 0.0012, "0.3123 ± 0.0012"),
        (0.31234, 0.0096, "0.312 ± 0.010"),
        (0.5, 0.0294, "0.500 ± 0.029"),
        (0.5, 0.0296, "0.50 ± 0.03"),
        (40482.0, 2420.5, "40,480 ± 2,400"),
        (1234567.0, 25000.0, "1,234,600 ± 25,000"),
        (53.288, 1.0265, "53.3 ± 1.0"),
        (5432.1, 42.0, "5,432 ± 40"),
        (5432.1, 12.0, "5,432 ± 12"),
        (5432.1, 3.2, "5,432 ± 3"),
        (-7.2144, 0.1784, f"{MINUS}7.21 ± 0.18"),
        (-0.0001, 0.3, "0.0 ± 0.3"),
        (0.0, 250.0, "0 ± 250"),
        (3.0, 1000.0, "0 ± 1,000"),
        (1e-9, 2e-10, "1.00e-09 ± 2.0e-10"),
        (-1.5e20, 2e18, f"{MINUS}1.5000e+20 ± 2.0e+18"),
        (5.0, 0.0, "5 ± 0"),
        (5.25, math.nan, "5.25"),
        (math.nan, 0.1, UNKNOWN),
        (math.nan, math.inf, UNKNOWN),
        (1.0, math.inf, UNKNOWN),
        (math.inf, 1.0, UNKNOWN),
    ],
)
def test_value_and_error(value, error, shown):
    assert plus_minus(value, error) == shown


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (0.38269, 0.024101, "38.3%"),
        (0.31234, 0.0042, "31.2%"),
        (-0.0129, 0.01, f"{MINUS}1.3%"),
        (0.03, 0.04, "3%"),
        (1.0, None, "100%"),
        (0.0, None, "0%"),
        (1 / 3, None, "33.33%"),
        (math.nan, 0.1, UNKNOWN),
    ],
)
def test_shares(value, error, shown):
    assert percent(value, error) == shown


def test_sizes():
    assert [size(error) for error in (2538.4, 0.0207, 0.057, 0.0)] == ["2,500", "0.021", "0.06", "0"]
    assert [size(error) for error in (math.nan, math.inf, -1.0)] == [UNKNOWN] * 3
    assert [percent_size(error) for error in (0.0207, 0.0, math.nan)] == ["2.1%", "0%", UNKNOWN]


def test_both_ends_of_an_interval_have_the_digits_of_the_value():
    assert span(29847.0, 39776.0, 2538.4) == "29,850 to 39,780"
    assert span(-0.0067592, 0.067788, 0.019017, share=True) == f"{MINUS}0.7 to 6.8%"
    assert span(math.nan, 1.0, 1.0) == span(-math.inf, math.inf, math.inf) == UNKNOWN


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (200_000.0, "200,000"), (0.5, "0.5"), (-3, f"{MINUS}3"), (-1e-9, f"{MINUS}1e-09"), (1e20, "1e+20")],
)
def test_numbers_that_are_known(value, shown):
    assert plain_number(value) == shown


@settings(derandomize=True, deadline=None)
@given(some.floats(-1e12, 1e12), SMALL)
def test_what_is_shown_is_the_value_up_to_its_last_digit(value, error):
    unit = 10.0 ** last_place(error)
    assert abs(read(number(value, error)) - value) <= 0.5000001 * unit + 1e-9 * abs(value)


@settings(derandomize=True, deadline=None)
@given(SIZES)
def test_an_error_is_shown_to_within_a_sixth(error):
    assert abs(read(size(error)) - error) <= error / 5.9


@settings(derandomize=True, deadline=None)
@given(SIZES)
def test_an_error_has_one_digit_or_two(error):
    digits = size(error).partition("e")[0].replace(",", "").replace(".", "").strip("0")
    assert 1 <= len(digits) <= 2


@settings(derandomize=True, deadline=None)
@given(some.floats(allow_nan=True, allow_infinity=True), some.floats(min_value=0, allow_infinity=True))
def test_any_numbers_have_a_text(value, error):
    told = plus_minus(value, error)
    assert "nan" not in told
    assert "inf" not in told
    assert not told.startswith("-")
    assert math.isfinite(value) or told == UNKNOWN
    plain_number(value) if math.isfinite(value) else None


@settings(derandomize=True, deadline=None)
@given(some.floats(-1e9, 1e9), some.floats(-1e9, 1e9), SMALL)
def test_order_is_kept(one, other, error):
    low, high = sorted((one, other))
    assert read(number(low, error)) <= read(number(high, error))
