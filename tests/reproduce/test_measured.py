"""Measured numbers: means, standard errors, selections, and files that hold all of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dither.errors import ParameterError
from dither.reproduce.measured import Measured, NotMeasuredError, Number, measured_value

WORDS = st.text("abcdefgh ,;\"'|", min_size=1, max_size=8).map(lambda word: f"w{word}")
PLACES = st.one_of(WORDS, st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.floats(-1e12, 1e12).map(lambda value: float(f"{value:.7g}"))


@given(st.lists(st.tuples(PLACES, PLACES, VALUES), min_size=1, max_size=12))
def test_a_file_holds_what_was_measured(rows):
    found = Measured.of([measured_value(value, line=line, x=x) for line, x, value in rows], {"scale": "quick: 3"})
    again = Measured.from_csv(found.to_csv())
    assert again.notes == found.notes
    assert [row.where for row in again.rows] == [row.where for row in found.rows]
    assert np.allclose([row.value for row in again.rows], [row.value for row in found.rows], rtol=1e-6)
    assert [row.repetitions for row in again.rows] == [row.repetitions for row in found.rows]


def test_means_and_standard_errors():
    found = Measured.of([measured_value(value, x=1) for value in (1.0, 2.0, 6.0)] + [measured_value(5.0, x=2)])
    assert found.value(x=1) == 3.0
    assert found.stderr(x=1) == pytest.approx(np.std([1, 2, 6], ddof=1) / math.sqrt(3))
    assert math.isnan(found.stderr(x=2))
    assert Measured.from_csv(found.to_csv()).row(x=2).repetitions == 1


def test_coordinates_that_numbers_lack_stay_missing():
    found = Measured.of([measured_value(1.0, line="a", x=1), measured_value(2.0, line="b")])
    assert Measured.from_csv(found.to_csv()).rows[1].where == {"line": "b"}


def test_what_was_not_measured_is_said():
    found = Measured.of([measured_value(1.0, line="a", x=1), measured_value(2.0, line="a", x=2)])
    with pytest.raises(NotMeasuredError, match="no number at line=b"):
        found.value(line="b")
    with pytest.raises(NotMeasuredError, match="2 numbers at line=a"):
        found.value(line="a")
    with pytest.raises(NotMeasuredError, match="nothing was measured"):
        found.curve("x", line="b")
    with pytest.raises(NotMeasuredError, match="several numbers have the same line"):
        found.curve("line")


def test_curves_are_in_order():
    found = Measured.of([measured_value(float(x), line="a", x=x) for x in (10, 2.5, 1)])
    assert found.curve("x", line="a").x == (1, 2.5, 10)
    words = Measured.of([measured_value(1.0, x="b"), measured_value(2.0, x="a")])
    assert words.curve("x").x == ("b", "a")


@pytest.mark.parametrize("where", [{"x": "1"}, {"x": "nan"}, {"value": "a"}])
def test_texts_that_a_file_could_not_hold_are_refused(where):
    with pytest.raises(ParameterError, match="reads as a number"):
        Measured.of([Number(where, 1.0)])


def test_another_table_is_refused():
    with pytest.raises(ParameterError, match="no measured numbers"):
        Measured.from_csv("a,b\n1,2\n")
