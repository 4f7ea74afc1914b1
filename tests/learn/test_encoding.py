"""The encoding of 002: exact, from domains alone."""

from itertools import product

import numpy as np
import pyarrow
import pytest

from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.errors import DomainError, ParameterError, RowError
from dither.learn.encoding import Encoder

SCHEMA = Schema(
    {
        "age": Ordinal(0, 100),
        "job": Categorical(["nurse", "driver", "other"]),
        "pay": Numeric(0, 200),
        "sex": Categorical(["f", "m"]),
    }
)
TABLE = {"age": [0, 25], "job": ["driver", "other"], "pay": [200.0, 50.0], "sex": ["f", "m"]}
ROWS = [[-1.0, -1.0, 1.0, 1.0, 1.0], [-0.5, -1.0, -1.0, -0.5, -1.0]]


def test_entries():
    encoder = Encoder(SCHEMA)
    assert encoder.d == 5
    assert encoder.names == ("age", "job=nurse", "job=driver", "pay", "sex=f")
    assert encoder.transform(TABLE).tolist() == ROWS
    assert encoder.transform(pyarrow.table(TABLE)).tolist() == ROWS
    assert encoder.fit(TABLE).fit_transform(TABLE).tolist() == ROWS
    assert encoder.get_feature_names_out().tolist() == list(encoder.names)


def test_second_moments_are_those_of_all_records():
    numbers, letters = ["1", "2", "3", "4"], ["x", "y", "z"]
    encoder = Encoder(Schema({"a": Categorical(numbers), "b": Categorical(letters)}))
    rows = encoder.transform([{"a": number, "b": letter} for number, letter in product(numbers, letters)])
    rows = np.column_stack([rows, np.ones(len(rows))])
    assert np.allclose(encoder.second_moments(), rows.T @ rows / len(rows), atol=1e-15)


def test_second_moments_of_numbers():
    found = Encoder(Schema({"pay": Numeric(0, 1), "age": Ordinal(0, 9)})).second_moments()
    assert np.allclose(found, np.diag([1 / 3, 1 / 3, 1.0]))


def test_the_label_is_no_feature():
    assert Encoder.without(SCHEMA, "sex").names == ("age", "job=nurse", "job=driver", "pay")
    with pytest.raises(ParameterError, match="no attribute for the label"):
        Encoder.without(SCHEMA, "income")
    with pytest.raises(ParameterError, match="nothing to learn from"):
        Encoder.without(Schema({"sex": SCHEMA["sex"]}), "sex")


@pytest.mark.parametrize(
    ("column", "value", "entries"),
    [("age", 101, [1.0]), ("age", None, [0.0]), ("job", "7310473secret", [-1.0, -1.0]), ("pay", -5.0, [-1.0])],
)
def test_what_does_not_fit_is_refused_or_replaced(column, value, entries):
    table = {**TABLE, column: [TABLE[column][0], value]}
    with pytest.raises(RowError, match=f"attribute {column}, row 1") as refusal:
        Encoder(SCHEMA).transform(table)
    assert "secret" not in str(refusal.value)
    assert "101" not in str(refusal.value)
    place = {"age": 0, "job": 1, "pay": 3}[column]
    assert Encoder(SCHEMA).transform(table, "substitute")[1, place : place + len(entries)].tolist() == entries


def test_other_refusals():
    with pytest.raises(ParameterError, match=r"made from a dither\.Schema"):
        Encoder({"age": Ordinal(0, 9)})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="key-value"):
        Encoder(Schema({"films": KeyValue(8, size=2)}))
    with pytest.raises(DomainError, match="no column for attribute pay"):
        Encoder(SCHEMA).transform({name: column for name, column in TABLE.items() if name != "pay"})
