"""What is missing is treated alike in Python and in files: it counts as the substitute, and nothing else does."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.engines import Local
from dither.engines.report_rows import pack_rows

SCHEMA = Schema(
    {
        "age": Ordinal(0, 99, missing=7),
        "income": Numeric(0, 100, missing=30),
        "job": Categorical(["nurse", "driver", "other", "unknown"], missing="unknown"),
        "films": KeyValue(["Alien", "Heat"], size=1, low=1, high=5),
    }
)
PLAN = dither.plan(SCHEMA, 4.0, users=1000, ask=["age", "income", "job", "films"])
WITH = {
    "age": [25, None, 61, None],
    "income": [None, 12.5, None, 99.0],
    "job": ["nurse", None, "driver", None],
    "films": [{"Heat": 5.0}, None, {}, {"Alien": 1.0}],
}
WITHOUT = {
    "age": [25, 7, 61, 7],
    "income": [30.0, 12.5, 30.0, 99.0],
    "job": ["nurse", "unknown", "driver", "unknown"],
    "films": [{"Heat": 5.0}, {}, {}, {"Alien": 1.0}],
}
KEYS = pa.map_(pa.string(), pa.float64())


def arrow(columns) -> pa.Table:
    films = pa.array([None if each is None else list(each.items()) for each in columns["films"]], KEYS)
    return pa.table({**{name: pa.array(columns[name]) for name in ("age", "income", "job")}, "films": films})


def frame() -> pd.DataFrame:
    return pd.DataFrame({**WITH, "age": pd.array(WITH["age"], dtype="Int64")})


TABLES = {
    "lists": WITH,
    "records": [dict(zip(WITH, row, strict=True)) for row in zip(*WITH.values(), strict=True)],
    "arrow": arrow(WITH),
    "pandas": frame(),
    "pandas floats": pd.DataFrame({**WITH, "age": np.array([25, np.nan, 61, np.nan])}),
    "masked": {**WITH, "age": np.ma.array([25, 3, 61, 99], mask=[False, True, False, True])},
    "NaN": {**WITH, "income": np.array([np.nan, 12.5, np.nan, 99.0])},
    "polars": {**{name: pl.Series(WITH[name]) for name in ("age", "income", "job")}, "films": WITH["films"]},
}


def bytes_of(reports) -> dict[str, bytes]:
    return {name: np.asarray(part).tobytes() for name, part in reports.items()}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_missing_values_of_tables_count_as_the_substitute(table):
    assert bytes_of(PLAN.randomize(table, seed=3)) == bytes_of(PLAN.randomize(WITHOUT, seed=3))


def test_files_say_the_same(tmp_path):
    parquet.write_table(arrow(WITH), tmp_path / "people.parquet")
    Local().randomize(PLAN, tmp_path / "people.parquet", tmp_path / "reports.parquet", seed=3)
    written = Local().tally(PLAN, tmp_path / "reports.parquet")
    assert written == PLAN.tally(PLAN.randomize(WITH, seed=3))
    rows = pa.Table.from_batches([pack_rows(PLAN, PLAN.randomize(WITHOUT, seed=3))])
    assert parquet.read_table(tmp_path / "reports.parquet").num_rows == rows.num_rows


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_they_can_be_refused(table):
    with pytest.raises(dither.errors.DomainError, match=r"row 0|row 1"):
        PLAN.randomize(table, seed=3, missing="error")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("age", "old"), ("age", 2.5), ("income", "?"), ("job", ""), ("films", 3), ("films", {"Heat": None})],
)
def test_what_is_wrong_is_still_refused(name, wrong):
    column = [wrong, *WITHOUT[name][1:]]
    with pytest.raises(dither.errors.DomainError, match=f"attribute {name}"):
        PLAN.randomize({**WITHOUT, name: column})


def test_a_cell_that_is_no_number_is_not_missing(tmp_path):
    (tmp_path / "people.csv").write_text('age,income,job,films\n25,a lot,nurse,"{}"\n', encoding="utf-8")
    with pytest.raises(dither.errors.DomainError, match="attribute income, row 0"):
        Local().randomize(PLAN, tmp_path / "people.csv", tmp_path / "reports.parquet")


def test_the_rule_is_one_of_two():
    with pytest.raises(dither.errors.ParameterError, match="missing must be one of substitute, error"):
        PLAN.randomize(WITHOUT, missing="drop")
