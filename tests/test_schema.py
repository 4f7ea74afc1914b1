"""Schemas: units in, units out, refusals that do not quote, and a form that can be stored."""

import json
import math

import numpy as np
import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.core.errors import DomainError, ParameterError

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
    np.testing.assert_allclose(income.centre + income.scale * encoded, values)
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
    assert (plain.d, plain.labels, plain.centre, plain.scale) == (8, None, 0.0, 1.0)
    assert (rated.d, rated.labels, rated.centre, rated.scale) == (3, ("Alien", "Heat", "Totoro"), 3.0, 2.0)
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
