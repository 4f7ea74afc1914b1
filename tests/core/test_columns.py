"""Columns of single values: every form gives the same, and what does not fit is never taken for what does."""

import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.core.columns import MISSING, UNKNOWN, LabelCodes, floats_of, is_arrow

LABELS = ["a", "b", "", "é", "1", "-7", "true", "01", "1.0", "False", "9007199254740993", "99999999999999999999"]
TEXTS = ["b", None, "a", "", "zz", "é", "a"]
EXPECTED = [1, MISSING, 0, 2, UNKNOWN, 3, 0]


def run_ends(array: Any) -> Any:
    return pc.call_function("run_end_encode", [array])


def texts() -> dict[str, Any]:
    """The same texts in every form."""
    plain = pa.array(TEXTS)
    holed = pa.DictionaryArray.from_arrays(
        pa.array([1, 2, 0, 3, 4, 5, 0], pa.int8()), pa.array(["a", "b", None, "", "zz", "é"])
    )
    return {
        "list": TEXTS,
        "tuple": tuple(TEXTS),
        "objects": np.array(TEXTS, dtype=object),
        "new strings": np.array(TEXTS, dtype=np.dtypes.StringDType(na_object=None)),  # type: ignore[call-arg]
        "masked": np.ma.array(np.array([text or "" for text in TEXTS]), mask=[text is None for text in TEXTS]),
        "nan": [np.nan if text is None else text for text in TEXTS],
        "numpy texts": [None if text is None else np.str_(text) for text in TEXTS],
        "string": plain,
        "large": plain.cast(pa.large_string()),
        "view": plain.cast(pa.string_view()),
        "dictionary": plain.dictionary_encode(),
        "dictionary of views": plain.cast(pa.string_view()).dictionary_encode(),
        "a null in the dictionary": holed,
        "runs": run_ends(plain),
        "slice": pa.array(["x", *TEXTS, "y"]).slice(1, len(TEXTS)),
        "slice of a dictionary": pa.array(["x", *TEXTS, "y"]).dictionary_encode().slice(1, len(TEXTS)),
        "chunks": pa.chunked_array([plain[:2], plain[2:2], plain[2:]]),
        "chunks of dictionaries": pa.chunked_array([plain[:2].dictionary_encode(), plain[2:].dictionary_encode()]),
    }


@pytest.mark.parametrize("form", list(texts()))
def test_texts(form):
    found = LabelCodes(LABELS).of(texts()[form])
    assert found.tolist() == EXPECTED
    assert found.dtype == np.int64


NUMBERS = {
    "int8": ([1, -7, 2], [4, 5, UNKNOWN]),
    "uint64": ([1, 2**64 - 1, 2**63], [4, UNKNOWN, UNKNOWN]),
    "int64": ([1, -(2**63), 9007199254740993], [4, UNKNOWN, 10]),
    "float64": ([1.0, 1.5, np.inf, np.nan, -7.0, 1e300, -0.0], [4, UNKNOWN, UNKNOWN, MISSING, 5, UNKNOWN, UNKNOWN]),
    "float16": ([1.0, np.nan], [4, MISSING]),
    "bool": ([True, False], [6, UNKNOWN]),
}


@pytest.mark.parametrize("dtype", list(NUMBERS))
def test_a_number_is_the_label_that_is_its_decimal_text(dtype):
    values, expected = NUMBERS[dtype]
    places, array = LabelCodes(LABELS), np.array(values, dtype=dtype)
    for form in (
        array,
        array.astype(object),
        array.tolist(),
        list(array),
        pa.array(array),
        pa.array(array).dictionary_encode(),
    ):
        assert places.of(form).tolist() == expected
    holed = pa.array([*array.tolist(), None], pa.from_numpy_dtype(array.dtype))
    assert places.of(holed).tolist() == [*expected, MISSING]
    assert LabelCodes(["a", "b"]).of(array).tolist() == [MISSING if value != value else UNKNOWN for value in values]
    assert places.of(array.tolist()[0:1]).tolist() == expected[:1]


def test_true_is_no_one():
    assert LabelCodes(["0", "1", "false", "true"]).of([0, 1, False, True, 1.0, np.True_]).tolist() == [0, 1, 2, 3, 1, 3]
    assert LabelCodes(["0", "1"]).of(np.array([True, False])).tolist() == [UNKNOWN, UNKNOWN]
    for column in ([1, 0], np.array([1, 0]), np.array([1.0, -0.0]), pa.array([1, 0])):  # a number has one text
        assert LabelCodes(["01", "-0", "+1", "00", "1.0"]).of(column).tolist() == [UNKNOWN, UNKNOWN]
    assert LabelCodes(["True", "yes"]).of([True]).tolist() == [UNKNOWN]


def test_beyond_what_a_float_tells_apart():
    places = LabelCodes(["9007199254740992", "9007199254740993"])
    assert places.of([2**53 + 1, 2**53]).tolist() == [1, 0]
    assert places.of(np.array([2**53 + 1, 2**53])).tolist() == [1, 0]
    for values in (np.array([2**64 - 1], dtype=np.uint64), pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]):
        assert LabelCodes(["-1", "1"]).of(values).tolist() == [UNKNOWN]
    assert places.of([2.0**53]).tolist() == places.of(np.array([2.0**53])).tolist() == [UNKNOWN]


def test_whole_decimals_are_numbers():
    for kind in (pa.decimal32(5, 1), pa.decimal64(9, 1), pa.decimal128(20, 1), pa.decimal256(50, 1)):
        column = pa.array([Decimal("1.0"), Decimal("1.5"), None], kind)
        assert LabelCodes(LABELS).of(column).tolist() == [4, UNKNOWN, MISSING]
        np.testing.assert_array_equal(floats_of(column), [1.0, 1.5, np.nan])


ODD: dict[str, Any] = {
    "dates": np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"),
    "bytes": np.array([b"a", b"1"]),
    "complex": np.array([1 + 0j, 2j]),
    "arrow dates": pa.array([1, 2], pa.timestamp("ns")),
    "arrow binary": pa.array([b"a", b"b"]),
    "arrow lists": pa.array([["a"], ["b"]]),
    "arrow structs": pa.array([{"a": 1}, {"b": 2}]),
    "lists": [["a"], {"a": 1}],
    "arrays": [np.array(1), np.array("a")],
}


@pytest.mark.parametrize("form", list(ODD))
def test_other_types_fit_nowhere(form):
    assert LabelCodes(["a", "1", "2", "b"]).of(ODD[form]).tolist() == [UNKNOWN, UNKNOWN]
    if not isinstance(ODD[form], np.ndarray):
        assert np.isnan(floats_of(ODD[form])).all()


def test_what_breaks_when_looked_at_is_unknown():
    class Broken(str):
        __slots__ = ()

        def __hash__(self) -> int:
            raise RuntimeError("a value")

    damaged = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 2, 3], dtype=np.int32)), pa.py_buffer(b"\xff\xfea")]
    )
    assert LabelCodes(["a", "b"]).of([Broken("a"), "b"]).tolist() == [UNKNOWN, 1]
    assert LabelCodes(["a", "b"]).of(damaged).tolist() == [UNKNOWN, 0]


def test_nothing_at_all():
    for empty in (
        [],
        np.array([]),
        pa.array([], pa.string()),
        pa.chunked_array([], pa.string()),
        pa.array([], pa.int8()),
    ):
        assert LabelCodes(["a", "b"]).of(empty).shape == floats_of(empty).shape == (0,)
        assert LabelCodes(["a", "b"]).of(empty).dtype == np.int64
    nothing = pa.nulls(3)
    assert LabelCodes(["a", "b"]).of(nothing).tolist() == [MISSING] * 3
    assert np.isnan(floats_of(nothing)).all()


def test_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    assert LabelCodes(["a", "b"]).of([pandas.NA, pandas.NaT, "a"]).tolist() == [MISSING, MISSING, 0]
    for column in (pandas.Series(["b", None, "a"]), pandas.Series(["b", None, "a"], dtype="category")):
        assert LabelCodes(["a", "b"]).of(column).tolist() == [1, MISSING, 0]
    assert LabelCodes(["1", "2"]).of(pandas.Series([2, None, 1])).tolist() == [1, MISSING, 0]
    assert LabelCodes(["1", "2"]).of(pandas.Series([2, None, 1], dtype="Int64")).tolist() == [1, MISSING, 0]


def floats() -> dict[str, Any]:
    plain = pa.array([1.5, None, -2.0, float("nan"), 1.5])
    return {
        "double": plain,
        "float": plain.cast(pa.float32()),
        "half": plain.cast(pa.float16()),
        "dictionary": plain.dictionary_encode(),
        "runs": run_ends(plain),
        "chunks": pa.chunked_array([plain[:1], plain[1:]]),
        "list": plain.to_pylist(),
        "slice": pa.array([9.0, 1.5, None, -2.0, float("nan"), 1.5, 9.0]).slice(1, 5),
    }


@pytest.mark.parametrize("form", list(floats()))
def test_floats(form):
    np.testing.assert_array_equal(floats_of(floats()[form]), [1.5, np.nan, -2.0, np.nan, 1.5])


def test_whole_numbers_are_floats_and_truth_is_none():
    for kind in (pa.int8(), pa.uint8(), pa.int64(), pa.uint64()):
        np.testing.assert_array_equal(floats_of(pa.array([3, None], kind)), [3.0, np.nan])
    assert floats_of(pa.array([2**64 - 1], pa.uint64())).tolist() == [2.0**64]
    for column in ([True], np.array([True]), pa.array([True]), pa.array(["5"]), ["5"]):
        assert np.isnan(floats_of(column)).all()


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=3), st.sampled_from(LABELS))))
def test_arrow_and_lists_agree(values):
    places, column = LabelCodes(LABELS), pa.array(values, pa.string())
    expected = [MISSING if value is None else LABELS.index(value) if value in LABELS else UNKNOWN for value in values]
    assert places.of(values).tolist() == expected
    assert places.of(column).tolist() == expected
    assert places.of(column.dictionary_encode()).tolist() == expected


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.floats(), st.integers(-(2**63), 2**63 - 1).map(float), st.integers(-9, 9).map(float))
    )
)
def test_arrays_of_floats_and_lists_agree(values):
    places = LabelCodes([str(number) for number in range(-5, 5)])
    found = places.of(values).tolist()
    assert places.of(pa.array(values, pa.float64())).tolist() == found
    for value, place in zip(values, found, strict=True):
        assert (place >= 0) == (value in range(-5, 5))


def test_rows_are_not_looked_at_one_by_one(monkeypatch):
    """Each different text is looked up once."""
    places, seen = LabelCodes(["a", "b"]), []
    monkeypatch.setattr(places, "_of_items", lambda items: seen.extend(items) or np.zeros(len(items), np.int64))
    places.of(pa.array(["a", "b", "a", None, "b"] * 100))
    assert seen == ["a", "b"]


def test_arrow_is_known_without_importing_it(monkeypatch):
    assert is_arrow(pa.array([1]))
    assert is_arrow(pa.chunked_array([[1]]))
    assert not any(map(is_arrow, ([1], np.array([1]), pa.table({"a": [1]}), None)))
    monkeypatch.delitem(sys.modules, "pyarrow")
    assert not is_arrow([1])
