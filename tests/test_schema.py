"""Schemas: units in, units out, refusals that do not quote, and a form that can be stored."""

import json
import math
import pickle
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.errors import DomainError, ParameterError

SECRET = 987654321
FULL = Schema(
    {
        "age": Ordinal(0, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(["nurse", "driver", "teacher", "other"]),
        "movies": KeyValue(keys=512, size=8),
    }
)


def test_numbers_keep_their_place():
    income = Numeric(-100, 300)
    values = np.array([-100.0, 0.0, 100.0, 300.0])
    encoded = income.encode(values)
    assert encoded.tolist() == [-1.0, -0.5, 0.0, 1.0]
    np.testing.assert_allclose(income.centre + income.half_width * encoded, values)
    assert np.abs(Numeric(0.1, 0.7).encode([0.1, 0.7])).max() <= 1  # a rounding does not leave the domain


@pytest.mark.parametrize(
    "column", [[1, SECRET], [SECRET, 1], np.array([1.0, SECRET]), [None], ["x"], [True], [float("nan")]]
)
def test_a_refusal_names_the_row_and_not_the_value(column):
    for attribute in (Numeric(0, 10), Ordinal(0, 10), Categorical(["a", "b"])):
        with pytest.raises(DomainError, match=r"row [01]: ") as caught:
            attribute.encode(column)
        assert str(SECRET) not in str(caught.value)


def test_substitutes():
    assert Numeric(0, 10).encode([-5, 99, None, "x", float("nan"), 10**400], "substitute").tolist() == [
        -1.0, 1.0, 0.0, 0.0, 0.0, 1.0,
    ]  # fmt: skip
    assert Numeric(0, 10, missing=0).encode([None], "substitute").tolist() == [-1.0]
    assert Ordinal(5, 9).encode([1, 5, 99, None, 6.5, "x"], "substitute").tolist() == [0, 0, 4, 2, 2, 2]
    assert Ordinal(5, 9, missing=9).encode([None], "substitute").tolist() == [4]
    assert Categorical(["a", "b"], other="b").encode(["a", 3, None, "c"], "substitute").tolist() == [0, 1, 1, 1]
    assert Categorical(["a", "other"]).other == "other"
    assert Categorical(["a", "b"]).other == "a"
    for attribute in (Numeric(0, 1), Ordinal(0, 1), Categorical(["a", "b"])):
        with pytest.raises(ParameterError):
            attribute.encode([0], invalid="clip")
        with pytest.raises(DomainError):
            attribute.encode("text")


ATTRIBUTES = (Numeric(0, 10), Ordinal(0, 10), Categorical(["a", "b"]))


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda attribute: attribute.kind)
@pytest.mark.parametrize("invalid", ["error", "substitute"])
def test_a_column_is_one_dimensional(attribute, invalid):
    values = np.array(["a", "b", "a"] if attribute.kind == "categorical" else [1, 2, 3])
    plain = attribute.encode(values, invalid)
    assert plain.shape == (3,)
    for fine in (list(values), tuple(values), values.astype(object), np.ma.array(values)):
        assert (attribute.encode(fine, invalid) == plain).all()
    for wrong in (
        values[:, None],
        values[None, :],
        values[:, None].astype(object),
        np.ma.array(values[:, None]),
        np.array(1),
        np.array("a"),
        np.ma.masked,
        5,
        None,
        {"a": 1},
        {1, 2},
        b"ab",
        bytearray(b"ab"),
        memoryview(b"ab"),
    ):
        with pytest.raises(DomainError, match="one value for each user"):
            attribute.encode(wrong, invalid)


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda attribute: attribute.kind)
def test_a_value_that_is_a_list_is_no_value(attribute):
    holder = np.empty(2, dtype=object)
    holder[:] = [[1, 2], [3]]
    for column in (holder, [[1, 2], [3]], [np.array([1]), np.array([2])], [np.array(1), np.array("a")]):
        with pytest.raises(DomainError, match="row 0"):
            attribute.encode(column)
        assert (attribute.encode(column, "substitute") == attribute.encode([None, None], "substitute")).all()


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda attribute: attribute.kind)
@pytest.mark.parametrize("dtype", [None, object])
def test_what_is_masked_is_missing(attribute, dtype):
    values = np.array(["b", "b", "a"] if attribute.kind == "categorical" else [1, 2, 3], dtype=dtype)
    column = np.ma.array(values, mask=[False, True, False])
    with pytest.raises(DomainError, match="row 1"):
        attribute.encode(column)
    expected = attribute.encode([values[0], None, values[2]], "substitute")
    assert (attribute.encode(column, "substitute") == expected).all()


def test_substitutes_beyond_all_floats(recwarn):
    for column in ([-(10**400), 10**400], np.array(["-1e4000", "1e4000"], dtype=np.longdouble)):
        assert Numeric(0, 10).encode(column, "substitute").tolist() == [-1.0, 1.0]
        assert Ordinal(0, 10).encode(column, "substitute").tolist() == [0, 10]
    assert not recwarn.list


def test_keys_with_values():
    plain, rated = KeyValue(8, 2), KeyValue(["Alien", "Heat", "Totoro"], size=2, low=1, high=5)
    assert (plain.d, plain.labels, plain.centre, plain.half_width) == (8, None, 0.0, 1.0)
    assert (rated.d, rated.labels, rated.centre, rated.half_width) == (3, ("Alien", "Heat", "Totoro"), 3.0, 2.0)
    encoded = rated.encode([{"Totoro": 5, "Alien": 2}, {}, [0, 3, 1]])
    assert encoded["key"].tolist() == [[2, 0], [-1, -1], [1, 2]]
    assert encoded["value"].tolist() == [[1.0, -0.5], [0.0, 0.0], [0.0, -1.0]]
    assert plain.encode([{7: 0.25}])["value"].tolist() == [[0.25, 0.0]]
    assert len(plain.encode([])) == 0
    # What was stored before there were names and ranges is stored as it was, and keeps its hash.
    assert Schema({"a": plain}).to_dict() == {"a": {"kind": "keyvalue", "keys": 8, "size": 2}}
    schema = Schema({"a": plain, "b": rated, "c": KeyValue(8, 2, low=0)})
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert len({plain, rated, KeyValue(8, 2, -1.0, 1)}) == 2


@pytest.mark.parametrize("keys", [KeyValue(3, 2), KeyValue(["a", "b", "c"], 2)], ids=["numbers", "names"])
@pytest.mark.parametrize("column", ["text", b"bytes", 5, None, np.zeros(()), np.zeros((2, 2)), np.zeros((2, 3, 1))])
def test_columns_without_vectors(keys, column):
    for invalid in ("error", "substitute"):
        with pytest.raises(DomainError):
            keys.encode(column, invalid)
    with pytest.raises(ParameterError):
        keys.encode([{}], "clip")


def test_whole_numbers_of_numpy_can_be_stored():
    schema = Schema({"a": Ordinal(np.int64(0), np.int64(9)), "b": KeyValue(np.int64(8), np.int64(2))})  # type: ignore[arg-type]
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert Ordinal(1, 1 << 20).k == 1 << 20


def test_whole_floats_are_ordinal_values():
    assert Ordinal(0, 9).encode(np.array([0.0, 9.0])).tolist() == [0, 9]
    assert Ordinal(-3, 3).labels == ("-3", "-2", "-1", "0", "1", "2", "3")
    assert Ordinal(-3, 3).numeric().encode([-3, 0, 3]).tolist() == [-1.0, 0.0, 1.0]


def test_stored_and_read_again(tmp_path):
    again = Schema.from_dict(json.loads(json.dumps(FULL.to_dict())))
    assert again == FULL
    assert hash(again) == hash(FULL)
    assert list(again) == ["age", "income", "job", "movies"]
    assert repr(FULL) == "Schema(age: ordinal, income: numeric, job: categorical, movies: keyvalue)"
    file = tmp_path / "schema.toml"
    file.write_text('[age]\nkind = "ordinal"\nlow = 0\nhigh = 99\n[job]\nkind = "categorical"\nlabels = ["a", "b"]\n')
    assert Schema.read(file) == Schema({"age": Ordinal(0, 99), "job": Categorical(["a", "b"])})
    file.write_text("not toml [")
    with pytest.raises(ParameterError, match="not TOML"):
        Schema.read(file)
    with pytest.raises(ParameterError, match="cannot be read"):
        Schema.read(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Numeric(1, 1),
        lambda: Numeric(2, 1),
        lambda: Numeric(0, float("inf")),
        lambda: Numeric(0, "x"),  # type: ignore[arg-type]
        lambda: Numeric(0, 1, missing=2),
        lambda: Ordinal(0, 0),
        lambda: Ordinal(0.5, 3),  # type: ignore[arg-type]
        lambda: Ordinal(0, 1 << 30),
        lambda: Ordinal(0, 1 << 20),
        lambda: Numeric(0, 5e-324),
        lambda: Numeric(0, 1e-308),
        lambda: Numeric(-1.7e308, 1.7e308),
        lambda: Numeric(1.6e308, 1.7e308),
        lambda: Numeric(1.0, math.nextafter(1.0, 2.0)),
        lambda: Schema({"\ud800": Ordinal(0, 1)}),
        lambda: Categorical(["a", "\udfff"]),
        lambda: Ordinal(0, 3, missing=7),
        lambda: Categorical([]),
        lambda: Categorical(["a"]),
        lambda: Categorical("ab"),
        lambda: Categorical(["a", "a"]),
        lambda: Categorical(["a", 1]),
        lambda: Categorical(["a", "b"], other="c"),
        lambda: Categorical(["a", "b"], missing="c"),
        lambda: Categorical(["a", "b"], missing=1),  # type: ignore[arg-type]
        lambda: KeyValue(1, 1),
        lambda: KeyValue(8, 9),
        lambda: KeyValue(1 << 40, 9),
        lambda: KeyValue("Alien", 1),
        lambda: KeyValue(["Alien"], 1),
        lambda: KeyValue(["Alien", "Alien"], 1),
        lambda: KeyValue(["Alien", 5], 1),
        lambda: KeyValue(["Alien", ["Heat"]], 1),
        lambda: KeyValue(["Alien", "Heat"], 3),
        lambda: KeyValue(8, 2, low=5, high=1),
        lambda: KeyValue(8, 2, low=float("nan")),
        lambda: KeyValue(8.5, 2),
        lambda: Schema({}),
        lambda: Schema([]),
        lambda: Schema({"a": 3}),
        lambda: Schema({"": Ordinal(0, 1)}),
        lambda: Schema({"mean(a)": Ordinal(0, 1)}),
        lambda: Schema.from_dict({"a": {"kind": "unknown"}}),
        lambda: Schema.from_dict({"a": {"kind": "ordinal", "low": 0}}),
        lambda: Schema.from_dict({"a": 3}),
    ],
)
def test_what_is_no_schema_is_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_public_names():
    for name in ("Schema", "Numeric", "Ordinal", "Categorical", "KeyValue"):
        assert getattr(dither, name).__name__ == name
        assert name in dir(dither)


# Missing values -----------------------------------------------------------------------------------------------------


def test_a_label_for_what_is_missing():
    jobs = Categorical(["a", "b", "gone"], other="b", missing="gone")
    column = ["a", None, "x", float("nan"), 3]
    assert jobs.encode(column, "substitute").tolist() == [0, 2, 1, 2, 1]
    masked = np.ma.array(["a", "a"], mask=[False, True])
    assert jobs.encode(masked, "substitute").tolist() == [0, 2]
    assert Categorical(["a", "b"], other="b").encode(column, "substitute").tolist() == [0, 1, 1, 1, 1]
    with pytest.raises(DomainError, match="row 1"):  # a trial is told about it
        jobs.encode(column)
    assert jobs.encode(["gone"]).tolist() == [2]


def test_every_attribute_has_a_substitute():
    attributes: list[Any] = [
        (Numeric(0, 10), 5.0),
        (Numeric(-1, 10, missing=0), 0.0),
        (Ordinal(1, 10), 5),
        (Ordinal(-1, 10, missing=0), 0),
        (Categorical(["a", "b"]), "a"),
        (Categorical(["a", "b"], other="b"), "b"),
        (Categorical(["a", "b", ""], other="b", missing=""), ""),
        (KeyValue(3, 2), {}),
    ]
    for attribute, expected in attributes:
        assert attribute.substitute == expected
        assert (attribute.encode([attribute.substitute]) == attribute.encode([None], "substitute")).all()


def test_missing_is_stored_only_where_it_is_declared():
    plain, declared = Categorical(["a", "b"]), Categorical(["a", "b"], missing="b")
    assert Schema({"x": plain}).to_dict() == {"x": {"kind": "categorical", "labels": ["a", "b"], "other": "a"}}
    assert Schema({"x": declared}).to_dict()["x"]["missing"] == "b"
    assert plain != declared
    for attribute in (plain, declared):
        attribute.encode(["a"])  # what is looked up is kept, and changes nothing
        again = pickle.loads(pickle.dumps(attribute))
        assert again == attribute
        assert hash(again) == hash(attribute)
        assert again.encode(["b"]).tolist() == [1]
        assert b"Places" not in pickle.dumps(attribute)


def test_codes_and_truth_are_labels():
    codes = Categorical(["1", "2", "3"])
    for column in ([3, 1], ["3", "1"], np.array([3, 1]), np.array([3.0, 1.0]), np.array([3, 1], dtype=np.uint8)):
        assert codes.encode(column).tolist() == [2, 0]
    for column in ([True], [1.5], ["1.0"], [4], np.array([True])):
        with pytest.raises(DomainError, match="row 0"):
            codes.encode(column)
    assert Categorical(["false", "true"]).encode(np.array([True, False])).tolist() == [1, 0]


# Arrow --------------------------------------------------------------------------------------------------------------


def test_columns_of_arrow():
    pa = pytest.importorskip("pyarrow")
    jobs = Categorical(["a", "b", "gone"], other="b", missing="gone")
    texts = pa.array(["a", None, "x", "b"])
    for column in (
        texts,
        texts.dictionary_encode(),
        texts.cast(pa.string_view()),
        pa.chunked_array([texts[:1], texts[1:]]),
    ):
        assert jobs.encode(column, "substitute").tolist() == [0, 2, 1, 1]
        with pytest.raises(DomainError, match="row 1"):
            jobs.encode(column)
    numbers = pa.array([1, None, 99], pa.int16())
    assert Numeric(1, 3, missing=3).encode(numbers, "substitute").tolist() == [-1.0, 1.0, 1.0]
    assert Ordinal(1, 3, missing=3).encode(numbers, "substitute").tolist() == [0, 2, 2]
    for attribute in (Numeric(1, 100), Ordinal(1, 100)):
        with pytest.raises(DomainError, match="row 1"):
            attribute.encode(numbers)
        with pytest.raises(DomainError, match="row 0"):
            attribute.encode(pa.array(["1"]))


# TOML ---------------------------------------------------------------------------------------------------------------

NASTY = [
    "a.b",
    'say "x"',
    "back\\slash",
    "\t",
    "\x00\x1f\x7f\x85\u2028",
    "🎲",
    "é",
    "# no comment",
    "'",
    "= 1",
    "\r",
    " ",
    "\u202e",
]
texts = st.one_of(st.text(max_size=8), st.sampled_from(NASTY))
finite = st.floats(allow_nan=False, allow_infinity=False)


def made(make: Any, *parts: Any) -> Any:
    """Attributes, without those that are refused."""

    def tried(given: Any) -> Any:
        try:
            return make(*given)
        except ParameterError:
            return None

    return st.tuples(*parts).map(tried).filter(lambda found: found is not None)


attributes = st.one_of(
    made(Numeric, finite, finite),
    made(lambda low, width, part: Numeric(low, low + width, low + part * width), finite, finite, st.floats(0, 1)),
    made(lambda low, more: Ordinal(low, low + more, low), st.integers(-(2**53), 2**53), st.integers(1, 1000)),
    made(
        lambda labels, other, missing: Categorical(labels, labels[other], missing and labels[-1]),
        st.lists(texts, min_size=2, unique=True),
        st.integers(0, 1),
        st.sampled_from([None, "last"]),
    ),
    made(
        KeyValue,
        st.one_of(st.integers(2, 1 << 30), st.lists(texts, min_size=2, unique=True)),
        st.integers(1, 3),
        finite,
        finite,
    ),
    made(KeyValue, st.integers(2, 9), st.integers(1, 3)),
)
names = texts.filter(lambda name: name and not set(name) & set("()[]\n"))


@settings(deadline=None)
@given(st.dictionaries(names, attributes, min_size=1, max_size=4), st.lists(texts, min_size=5, max_size=5))
def test_toml_is_read_back(given, said):
    schema = Schema(given)
    comments = dict(zip(["", *schema], said, strict=False))
    for text in (schema.to_toml(), schema.to_toml(comments)):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "schema.toml"
            file.write_text(text, encoding="utf-8", newline="\n")
            again = Schema.read(file)
        assert again == schema
        assert list(again) == list(schema)
        assert json.dumps(again.to_dict()) == json.dumps(schema.to_dict())  # so the hash of a plan is the same
        assert Schema.from_dict(tomllib.loads(text)) == schema


def test_toml_is_pleasant_to_edit():
    schema = Schema(
        {"a.b": Numeric(0, 200_000, 0.5), "job": Categorical(["x", 'y"', "z"], missing="z"), "k": KeyValue(9, 2)}
    )
    assert (
        schema.to_toml({"": "All of it.\nTwo lines.", "job": "What\x00 people do."})
        == """# All of it.
# Two lines.

["a.b"]
kind = "numeric"
low = 0
high = 200000
missing = 0.5

# What  people do.
[job]
kind = "categorical"
labels = ["x", "y\\"", "z"]
other = "x"
missing = "z"

[k]
kind = "keyvalue"
keys = 9
size = 2
low = -1
high = 1
"""
    )
    long = Schema({"x": Categorical([f"label {number}" for number in range(40)])}).to_toml()
    assert max(map(len, long.splitlines())) <= 106
    assert Schema.from_dict(tomllib.loads(long))["x"].k == 40  # type: ignore[union-attr]
    below = Schema({"x": Numeric(-0.0, 1)})
    assert json.dumps(Schema.from_dict(tomllib.loads(below.to_toml())).to_dict()) == json.dumps(below.to_dict())
    with pytest.raises(ParameterError, match="comment"):
        schema.to_toml({"jobs": "no such attribute"})
