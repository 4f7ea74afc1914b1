"""Guessed schemas: what is decided for which column, and that what was seen fits into what was guessed."""

import datetime as dt
import math
import re
import tomllib
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import Categorical, KeyValue, Numeric, Ordinal, Schema, Text, plan
from dither.errors import DitherError, ParameterError
from dither.planning.infer import WARNING, Inferred, infer
from dither.planning.record_tables import columns_of

RNG = np.random.default_rng(5)
PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.float64())]))


def of(values: Any, kind: Any = None, name: str = "x", **options: Any) -> Any:
    """The attribute that a column becomes, or the reason why it is left out."""
    column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, kind)
    beside = pa.array([row % 2 == 0 for row in range(len(column))])  # so that something is left
    found = infer(pa.table([column, beside], names=[name, "beside"]), **options)
    return found.schema.get(name) or found.left_out[name]


# Labels -------------------------------------------------------------------------------------------------------------


def test_labels():
    assert of(["b", "a", "b", "a"]) == Categorical(["a", "b", "other"], "other")
    assert of(["b", "a", None, "a"]) == Categorical(["a", "b", "other", "missing"], "other", "missing")
    assert of(["Other", "a", "Other", "a"]) == Categorical(["Other", "a"], "Other")
    assert of(["MISSING", "a", None, "a"]) == Categorical(["MISSING", "a", "other"], "other", "MISSING")
    assert of(["b", "a", "b", "a"], pa.dictionary(pa.int8(), pa.string())) == of(["b", "a", "b", "a"])
    assert of(["b", "a", "b", "a"], pa.string_view()) == of(["b", "a", "b", "a"], pa.large_string())
    assert of(["yes", None, None, None]) == Categorical(["yes", "other", "missing"], "other", "missing")
    different = pa.chunked_array([pa.array(["b", "b"]).dictionary_encode(), pa.array(["a", "a"]).dictionary_encode()])
    assert of(different) == of(["b", "a", "b", "a"])


def test_texts_that_are_no_labels():
    assert "every value is the same" in of(["a", "a"])
    assert of(["a", "b", "c", "a"]) == "3 different texts in 4 rows: an identifier or free text"
    assert isinstance(of(["a", "b", "c"] * 2), Categorical)
    assert isinstance(of(["a", "b", "c"] * 2, most_labels=3), Categorical)
    assert "identifier" in of(["a", "b", "c"] * 2, most_labels=2)
    assert 'they are numbers: cast("a ""b"" " as double)' in of(["1.5", "2", "3e4"], name='a "b" ')
    assert "numbers" not in of(["1.5", "2", "3 Main St"])


def test_texts_that_are_asked_for_their_most_frequent_values():
    def text(values, **options):
        found = infer(pa.table({"word": values}), texts=["word"], **options)
        return found.schema.get("word") or found.left_out["word"]

    letters = "abcdefghijklmnopqrstuvwxyz"
    assert text(["Tea", "coffee ", "TEA"]) == Text(6, letters)
    assert text(["tea 2", "tea-3"]) == Text(5, f"{letters}0123456789 -")
    assert text(["12", "7"]) == Text(2, "0123456789")
    assert text(["\u00e9t\u00e9", "e\u0301te\u0301"]) == Text(3, f"{letters}\u00e9")  # one form
    arabic = "\u0634\u0627\u064a", "\u0642\u0647\u0648\u0629"
    assert text([*arabic]) == Text(4, "".join(sorted("".join(arabic))))
    assert text([chr(0x4E00 + place) for place in range(100)]) == Text(3, None)  # bytes of UTF-8
    assert text(["tea"] * 5000 + ["a very long story of one person"] + ["\u00f1"]) == Text(3, letters)
    with pytest.raises(ParameterError, match="named as a text, and is none"):
        text([1, 2, 3])
    assert text(["same", "same"]) == Text(4, letters)  # one that all have may be the answer
    long = infer(pa.table({"word": ["x" * 2000] * 9 + ["y"] * 9}), texts=["word"])
    assert "count as no word" in dict(long.notes)["word"]
    with pytest.raises(ParameterError, match="does not have; it has word"):
        infer(pa.table({"word": ["a"]}), texts=["wrd"])
    with pytest.raises(ParameterError, match="list of names"):
        infer(pa.table({"word": ["a"]}), texts="word")


def test_texts_that_come_again_could_be_asked_for():
    often = [f"word {place % 400}" for place in range(4000)]
    assert "come again: name it as a text" in of(often, most_labels=100)
    assert "come again" not in of([f"word {place}" for place in range(400)])
    assert "come again" not in of([str(place % 400) for place in range(4000)], most_labels=100)  # numbers


def test_truth():
    assert of([True, False]) == Categorical(["false", "true"])
    assert of([True, True]) == Categorical(["false", "true"])
    assert of([True, None]) == Categorical(["false", "true", "missing"], "false", "missing")
    found = infer(pa.table({"x": [True, None, None]}))
    assert found.notes == [("x", "categorical, 3 labels: true or false; only true was seen, 66.67% missing")]


# Numbers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 1, 1], Ordinal(0, 1, 1)),
        ([1, 12, 12], Ordinal(1, 12, 12)),
        ([31, 1, 30], Ordinal(1, 31, 30)),
        ([5, 23, 6, None], Ordinal(5, 23, 6)),
        ([18, 87, 40], Ordinal(15, 90, 40)),
        ([-3, 96, 2], Ordinal(-5, 100, 2)),
        ([1987, 2013, 1999], Ordinal(1987, 2013, 1999)),
        ([7, 1006, 9], Ordinal(0, 1050, 9)),
        ([1.0, 3.0, float("nan")], Ordinal(1, 3, 1)),
        ([Decimal("1.00"), Decimal("3.00"), None], Ordinal(1, 3, 1)),
        ([2, 1, 2**40], Numeric(0, 1_100_000_000_000, 0)),
        ([7, 1007, 9], Numeric(0, 1100, 10)),
        ([0, 999.5, 120], Numeric(0, 1000, 120)),
        ([0.1, 0.7, 0.3], Numeric(0.1, 0.7, 0.3)),
        ([982.9, 1042.7, 1013.26], Numeric(980, 1045, 1013.5)),
        ([900.2, 390_233.0, 21_034.0], Numeric(0, 400_000, 20_000)),
        ([-86, 1272, 10], Numeric(-100, 1300, 10)),
        ([1e-12, 3.3e-12, 2e-12], Numeric(1e-12, 3.4e-12, 2e-12)),
        ([1e300, -1e300, 0.5], Numeric(-1e300, 1e300, 0)),
        ([Decimal("1.5"), Decimal("2.25"), None], Numeric(1.5, 2.25, 1.5)),
        ([1.5, 2.25, float("inf"), None], Numeric(1.5, 2.25, 1.5)),
        ([2**53, 2**53 + 20], Numeric(2**53, 2**53 + 20, 2**53)),
    ],
)
def test_numbers(values, expected):
    found = of(values)
    assert found == expected
    if not isinstance(values[0], Decimal):
        assert of(pa.array(values).dictionary_encode()) == found


def test_numbers_that_say_nothing():
    assert of([3, 3]) == of([3.5, None, 3.5]) == "every value is the same"
    assert of([None, None]) == of([None, None], pa.int8()) == of([float("nan"), None]) == "every value is missing"
    assert of([float("inf"), None]) == "no value is finite"
    assert "too close" in of([1e308, -1e308, 0.5])
    assert "too close" in of([1.0, math.nextafter(1.0, 2.0)])


def test_large_numbers_that_differ_are_not_called_the_same():
    """As floats they run together."""
    for values, kind in (
        ([2**60 + row for row in range(5)], pa.int64()),
        ([2**63 + row for row in range(5)], pa.uint64()),
        ([Decimal("0.1"), Decimal("0.1000000000000000000001")], pa.decimal128(38, 25)),
    ):
        assert "told apart" in of([*values, None], kind)
        assert of([values[0]] * 3, kind) == "every value is the same"
    assert of([0.0, -0.0]) == "every value is the same"


def test_zero_has_no_sign():
    found = of([-1.0, -0.004, 1.0, -0.003, 0.5])
    assert str(found.missing) == "0.0"
    assert str(of([-0.95, -0.02, -0.5]).high) == "0.0"
    for values in ([-1.0, -0.004, 1.0, -0.003, 0.5], [-0.95, -0.02, -0.5], [-0.0, 0.7, 0.2], [-0.0, 1.0, 2.0]):
        text = infer(pa.table({"a": values})).to_toml()
        assert not re.search(r"-0(\.0)?(?![.\d])", text), text


def test_identifiers():
    assert "identifier" in of(list(range(100, 120)))
    assert "identifier" in of(list(range(5000, 0, -1)))
    assert isinstance(of(list(range(100, 119))), Ordinal)  # could be an accident
    assert isinstance(of([*range(100, 120), 100]), Ordinal)
    assert isinstance(of([*range(100, 119), 120]), Ordinal)
    many = [3**row for row in range(30)]
    assert isinstance(of(many), Numeric)
    for name in ("id", "user_id", "USER_ID"):
        assert "identifier" in of(many, name=name)
    assert isinstance(of(many, name="paid"), Numeric)
    assert isinstance(of([1, 2] * 15, name="shop_id"), Ordinal)


def test_one_extreme_does_not_cost_everybody_accuracy():
    incomes = RNG.lognormal(10, 0.5, 20_000)
    incomes[7] = 1e9
    found = infer(pa.table({"income": incomes}))
    income = found.schema["income"]
    assert isinstance(income, Numeric)
    assert income.low == 0
    assert np.quantile(incomes, 0.999) <= income.high <= 1.2 * np.quantile(incomes, 0.999)
    beyond = (incomes > income.high).mean()
    assert 0 < beyond <= 0.001
    assert f"{beyond:.2%} lie beyond these ends" in found.notes[0][1]
    assert abs(income.substitute - np.median(incomes)) < 0.01 * income.high
    assert of(incomes, tails=0).high == 1e9
    mostly = np.zeros(20_000)  # then the others decide
    mostly[:3] = 0.25, 7.0, 3.5
    assert of(mostly) == Numeric(0, 7, 0)


def test_limits_of_whole_numbers():
    assert isinstance(of([0, 99, 99], most_values=100), Ordinal)
    assert isinstance(of([0, 100, 99], most_values=100), Numeric)


# Times, and what else is left out -----------------------------------------------------------------------------------


def test_times_are_derived():
    moment, day = dt.datetime(2013, 1, 1, 5), dt.date(2013, 1, 1)
    assert of([moment, None], name="t").endswith('with a query (SQL), as in dayofweek("t") or hour("t")')
    assert of([day, day], name="t").endswith('as in dayofweek("t")')
    assert of([dt.time(5), dt.time(6)], name="t").endswith('as in hour("t")')
    assert of([dt.timedelta(5), dt.timedelta(6)], name="t").endswith('as in epoch("t")')


def test_other_types():
    assert "type binary" in of([b"a", b"b"])
    assert "type list is" in of([["a"], ["b"]])
    assert "type fixed_size_binary is" in of([b"a", b"b"], pa.binary(1))
    assert "nested" in of([{"a": "x"}, {"a": "y"}])
    assert "nested" in of([{"a": 1, "b": True}, {"a": 1, "b": True}])


@pytest.mark.parametrize("name", ["a(b)", "a[0]", "two\nlines", ""])
def test_names_that_no_attribute_has(name):
    assert "rename the column" in of([1, 2, 5], name=name)


def test_bad_tables():
    for table, words in (
        (pa.table({"x": pa.array([], pa.int64())}), "no rows"),
        (pa.table({}), "no rows or no columns"),
        (pa.table([[1, 2], [3, 4]], names=["x", "x"]), "several columns of the name x"),
        (pa.table({"x": [1, 1], "y": ["987654321", "b"]}), "x: every value is the same; y: 2 different"),
        ("text", "Arrow table"),
        ({"x": [1, "987654321"]}, "Arrow table"),
        (None, "Arrow table"),
    ):
        with pytest.raises(ParameterError, match=words) as caught:
            infer(table)
        assert "987654321" not in f"{caught.value} {caught.value.__cause__}"
        assert caught.value.__context__ is None
    wrong: list[dict[str, Any]] = [
        {"most_labels": 1},
        {"most_values": 0},
        {"most_keys": 1},
        {"tails": 0.5},
        {"tails": -1},
    ]
    for options in wrong:
        with pytest.raises(ParameterError, match=next(iter(options))):
            infer(pa.table({"x": [1, 2]}), **options)


def test_tables_of_other_kinds():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    data = {"x": [1, 5, 3], "flag": [True, False, True]}
    expected = infer(pa.table(data))
    for table in (data, pandas.DataFrame(data), polars.DataFrame(data), pa.table(data).to_batches()[0]):
        assert infer(table) == expected


# Keys with values ---------------------------------------------------------------------------------------------------

FILMS = [{"Heat": 5, "Alien": 2}, {"Heat": 1}, {}, {"Totoro": 3}]


def test_maps():
    maps = pa.array([list(each.items()) for each in FILMS], pa.map_(pa.string(), pa.int64()))
    films = KeyValue(["Alien", "Heat", "Totoro"], 2, 1, 5)
    assert of(maps) == films
    assert of(maps.slice(1)) == KeyValue(["Heat", "Totoro"], 1, 1, 3)
    assert of(pa.chunked_array([maps[:1], maps[1:]])) == films
    assert of(pa.concat_arrays([maps, pa.nulls(1, maps.type)])) == films
    assert of([[{"key": key, "value": value} for key, value in each.items()] for each in FILMS], PAIRS) == films
    assert of(FILMS, pa.struct([("Heat", pa.int8()), ("Totoro", pa.int8()), ("Alien", pa.float64())])) == films
    found = infer(pa.table({"x": pa.concat_arrays([maps, pa.nulls(1, maps.type)])}))
    assert found.notes[0][1] == (
        "keyvalue, 2 of 3 keys, 1 to 5: 3 keys seen, at most 2 in a row, values from about 1 to 5, 20.00% missing"
    )


def test_keys_that_are_places():
    kind = pa.map_(pa.int32(), pa.float64())
    assert of([[(3, 0.5), (7, 1.25)], [(0, 2.5)]], kind) == KeyValue(8, 2, 0.4, 2.6)
    assert "places from 0 up" in of([[(-1, 0.5), (7, 1.25)], []], kind)
    assert "fewer than 2" in of([[(0, 0.5)], []], kind)
    assert "fewer than 2" in of([[], []], kind)
    assert "too many" in of([[(2**30, 0.5)], []], kind)


def test_values_of_keys():
    kind = pa.map_(pa.string(), pa.float64())
    assert of([[("a", 1.0), ("b", 1.0)]], kind) == KeyValue(["a", "b"], 2, 0, 1)
    assert of([[("a", -3.0), ("b", -3.0)]], kind) == KeyValue(["a", "b"], 2, -3, 0)
    assert of([[("a", 0.0), ("b", 0.0)]], kind) == KeyValue(["a", "b"], 2)
    assert of([[("a", 0.0), ("b", 1000.5)]], kind) == KeyValue(["a", "b"], 2, 0, 1100)
    assert of([[("a", None), ("b", None)]], kind) == "no key has a finite number"
    assert "nested" in of([[("a", "x")]], pa.map_(pa.string(), pa.string()))
    assert "too many" in of([[("a", 1.0), ("b", 2.0), ("c", 2.0)]], kind, most_keys=2)


def test_size_is_what_nearly_all_hold():
    rows = [[("a", 1.0)]] * 995 + [[("a", 1.0), ("b", 2.0), ("c", 3.0)]] * 5
    found = infer(pa.table({"x": pa.array(rows, pa.map_(pa.string(), pa.float64()))}))
    assert found.schema["x"] == KeyValue(["a", "b", "c"], 1, 1, 3)
    assert "0.50% of rows hold more than 1 keys" in found.notes[0][1]
    assert of([None] * 300 + [{"a": 1, "b": 2}] * 2).size == 2  # a missing value is no user without keys
    assert of([None] * 300 + [[("a", 1), ("b", 2)]] * 2, pa.map_(pa.string(), pa.int8())).size == 2


@pytest.mark.parametrize("form", ["map", "list", "large list", "struct"])
def test_keys_reach_the_plan(form):
    """Whatever was taken for keys can be randomized as it stands."""
    lists = [[{"key": key, "value": float(value)} for key, value in each.items()] for each in FILMS]
    column = {
        "map": lambda: pa.array([list(each.items()) for each in FILMS], pa.map_(pa.string(), pa.int64())),
        "list": lambda: pa.array(lists, PAIRS),
        "large list": lambda: pa.array(lists, pa.large_list(PAIRS.value_type)),
        "struct": lambda: pa.array(FILMS),
    }[form]()
    table = pa.table({"films": column})
    best = plan(infer(table).schema, 4.0, users=100)
    expected = best.randomize({"films": FILMS}, seed=1)
    for rows in (table, table.to_batches()[0]):
        found = best.randomize(rows, seed=1)
        assert all((np.asarray(found[name]) == np.asarray(expected[name])).all() for name in expected)


def test_polars_lists_of_structs_are_keys():
    polars = pytest.importorskip("polars")
    rows = [[{"key": key, "value": float(value)} for key, value in each.items()] for each in FILMS]
    frame = polars.DataFrame({"films": rows})
    films = infer(frame).schema["films"]
    columns, users = columns_of(frame, {"films": films})
    assert users == 4
    assert (films.encode(columns["films"]) == films.encode(FILMS)).all()


# The file -----------------------------------------------------------------------------------------------------------


def test_the_file_tells_what_was_seen_and_warns():
    table = pa.table(
        {"age": [18, 87, None, 40], "job": ["nurse", "nurse", "b\\", "b\\"], "name": list("abcd"), "x(y)": [1, 2, 3, 4]}
    )
    found = infer(table)
    assert (
        found.to_toml()
        == """\
# Domains are public: labels and ends are part of the plan, which everybody can read. These were taken
# from a table. It must be public data or a sample that may be published, never the data that will be
# collected.
# This is a guess, to be read and edited. Remove what you do not ask about. Add labels that the sample
# lacks. Set ends to what everybody knows: values beyond are moved to the nearer end, and a narrower
# range has a smaller error.
# Guessed from 4 rows.

# whole numbers from 18 to 87 seen, 25.00% missing
[age]
kind = "ordinal"
low = 15
high = 90
missing = 40

# 2 labels seen
[job]
kind = "categorical"
labels = ["b\\\\", "nurse", "other"]
other = "other"

# Left out:
# name: 4 different texts in 4 rows: an identifier or free text
# x(y): the name of an attribute has no brackets or line breaks; rename the column
"""
    )
    assert "never the data that will be collected" in WARNING
    assert Schema.from_dict(tomllib.loads(found.to_toml())) == found.schema
    assert (
        str(found.table())
        == """\
column  kind         domain    why
age     ordinal      15 to 90  whole numbers from 18 to 87 seen, 25.00% missing
job     categorical  3 labels  2 labels seen
name    left out               4 different texts in 4 rows: an identifier or free text
x(y)    left out               the name of an attribute has no brackets or line breaks; rename the column"""
    )
    assert [column for column, _ in found.notes] == ["age", "job", "name", "x(y)"]
    assert list(found.left_out) == ["name", "x(y)"]
    assert repr(found) == "Inferred from 4 rows: Schema(age: ordinal, job: categorical), 2 columns left out"
    assert "Left out" not in infer(pa.table({"x": [1, 5]})).to_toml()


def test_extremes_of_the_sample_are_not_in_the_file():
    text = infer(pa.table({"income": [1234.5, 98765.4, 40_000.0]})).to_toml()
    assert "1234.5" not in text
    assert "98765" not in text
    assert "numbers from about 1,200 to 99,000 seen" in text


# Any table ----------------------------------------------------------------------------------------------------------

whole = st.integers(-(2**63), 2**63 - 1)
number = st.one_of(st.floats(), st.integers(-50, 50).map(float))
text = st.one_of(st.text(max_size=3), st.sampled_from(["other", "missing", "", "1", "2.5", "true"]))
decimals = st.decimals(-(10**12), 10**12, allow_nan=False, allow_infinity=False, places=3)
small = st.integers(-5, 5)


def entries(held: dict[Any, Any]) -> list[tuple[Any, Any]]:
    return list(held.items())


def structs(held: dict[Any, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in held.items()]


KINDS: list[tuple[pa.DataType, Any]] = [
    (pa.string(), text),
    (pa.string(), st.sampled_from(["a", "b"])),
    (pa.large_string(), text),
    (pa.string_view(), text),
    (pa.dictionary(pa.int16(), pa.string()), text),
    (pa.dictionary(pa.int16(), pa.float64()), number),
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), whole),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.int64(), st.integers(0, 3)),
    (pa.float64(), number),
    (pa.float32(), st.floats(width=32)),
    (pa.float16(), st.floats(width=16)),
    (pa.decimal128(18, 3), decimals),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.binary(), st.binary(max_size=2)),
    (pa.null(), st.none()),
    (pa.list_(pa.int64()), st.lists(whole, max_size=2)),
    (pa.map_(pa.string(), pa.float64()), st.dictionaries(text, number, max_size=4).map(entries)),
    (pa.map_(pa.int16(), pa.int64()), st.dictionaries(st.integers(-1, 9), whole, max_size=4).map(entries)),
    (PAIRS, st.dictionaries(text, st.none() | number).map(structs)),
    (pa.struct([("b", pa.float64()), ("a", pa.int8())]), st.fixed_dictionaries({"b": st.none() | number, "a": small})),
    (pa.struct([("b", pa.string()), ("a", pa.int8())]), st.fixed_dictionaries({"b": text})),
    (pa.struct([]), st.just({})),
]


NAMES = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4
)  # Arrow hands them over as C does


@st.composite
def tables(draw: Any) -> pa.Table:
    rows = draw(st.integers(0, 12))
    columns = []
    for kind, values in draw(st.lists(st.sampled_from(KINDS), max_size=5)):
        held = draw(st.lists(st.one_of(values, values, values, st.none()), min_size=rows, max_size=rows))
        columns.append(_column(held, kind))
    names = draw(st.lists(st.one_of(NAMES, st.sampled_from("abcdefgh")), min_size=len(columns), max_size=len(columns)))
    table = pa.table(columns, names=names)
    return pa.concat_tables([table[: rows // 2], table[rows // 2 :]]) if draw(st.booleans()) else table


def _column(held: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(held, kind.value_type).dictionary_encode()
    return pa.array(held, kind)


def fits(attribute: Any, column: Any) -> None:
    """Everything that was seen fits, other than what is missing or infinite."""
    values = column.drop_null().to_pylist() if hasattr(column, "drop_null") else [each for each in column if each]
    if isinstance(attribute, KeyValue):
        held = [{key: value for key, value in dict(each).items() if value is not None} for each in values]
        finite = [each for each in held if all(map(math.isfinite, each.values()))]
        attribute.encode(finite)
    elif isinstance(attribute, Categorical):
        attribute.encode(values)
    else:
        attribute.encode([float(value) for value in values if math.isfinite(value)])
    attribute.encode(column, "substitute")


@pytest.mark.wide
@settings(max_examples=400, deadline=None)
@given(tables())
def test_any_table(table):
    """Fewer rows than tails cut anything off, so everything fits."""
    try:
        found = infer(table)
    except DitherError:
        usable = [name for name in table.column_names if name and not set(name) & set("()[]\n")]
        flags = [kind for name, kind in zip(table.column_names, table.schema.types, strict=True) if name in usable]
        repeated = len(set(table.column_names)) < table.num_columns
        assert not table.num_rows or repeated or pa.bool_() not in flags or _all_null(table)
        return
    assert isinstance(found, Inferred)
    assert [guess.column for guess in found.guesses] == table.column_names
    assert set(found.schema) | set(found.left_out) == set(table.column_names)
    assert Schema.from_dict(tomllib.loads(found.to_toml())) == found.schema
    assert len(found.table()) == table.num_columns
    assert all(why for _, why in found.notes)
    columns, rows = columns_of(table, dict(found.schema.items()))
    assert rows == table.num_rows
    for name, attribute in found.schema.items():
        fits(attribute, columns[name])


def _all_null(table: pa.Table) -> bool:
    return all(column.null_count == len(column) for column in table.columns if column.type == pa.bool_())


def test_guesses_can_be_planned_and_randomized():
    rows = 400
    table = pa.table(
        {
            "age": pa.array(RNG.integers(18, 90, rows), mask=RNG.random(rows) < 0.1),
            "income": RNG.lognormal(10, 1, rows),
            "job": pa.array(RNG.choice(["nurse", "driver"], rows).tolist()).dictionary_encode(),
            "member": pa.array((RNG.random(rows) < 0.5).tolist(), mask=RNG.random(rows) < 0.2),
        }
    )
    found = infer(table)
    best = plan(found.schema, 1.0, users=10_000)
    for part in (table, table.to_batches()[0]):
        assert sum(map(len, best.randomize(part, invalid="substitute").values())) >= rows
