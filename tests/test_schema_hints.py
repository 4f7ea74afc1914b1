"""Hints of the schema: what they may be, how they are stored, and that plans without any are what they were."""

import json

import pytest

from dither import Categorical, Numeric, Ordinal, Schema, plan
from dither.errors import ParameterError

HINTED = Schema(
    {
        "income": Numeric(0, 1e6, scale="log"),
        "age": Ordinal(18, 99, lattice=5),
        "rent": Numeric(0, 4000, cuts=[500, 900, 1400]),
        "hours": Numeric(0, 80, lattice=2.5),
        "job": Categorical(["nurse", "other"]),
    }
)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Numeric(-1, 10, scale="log"),
        lambda: Numeric(0, 10, scale="root"),  # type: ignore[arg-type]
        lambda: Numeric(0, 10, scale="log", lattice=5),
        lambda: Numeric(0, 10, cuts=[]),
        lambda: Numeric(0, 10, cuts=[5, 5]),
        lambda: Numeric(0, 10, cuts=[0, 5]),
        lambda: Numeric(0, 10, cuts=[5, float("nan")]),
        lambda: Numeric(0, 10, cuts=5),  # type: ignore[arg-type]
        lambda: Numeric(0, 1000, cuts=list(range(1, 300))),
        lambda: Numeric(0, 10, lattice=0),
        lambda: Numeric(0, 10, lattice=11),
        lambda: Numeric(1, 9, lattice=5),
        lambda: Numeric(0, 10, lattice=1e-9),
        lambda: Ordinal(0, 10, lattice=1),
        lambda: Ordinal(0, 10, lattice=2.5),  # type: ignore[arg-type]
        lambda: Ordinal(1, 9, lattice=5),
    ],
)
def test_hints_that_cannot_be_are_refused(wrong):
    with pytest.raises(ParameterError, match=r"scale|cuts|lattice"):
        wrong()


def test_they_are_stored_and_read_back(tmp_path):
    assert Schema.from_dict(json.loads(json.dumps(HINTED.to_dict()))) == HINTED
    (tmp_path / "schema.toml").write_text(HINTED.to_toml())
    assert Schema.read(tmp_path / "schema.toml") == HINTED
    assert HINTED.to_dict()["rent"]["cuts"] == [500.0, 900.0, 1400.0]


def test_what_has_none_is_stored_as_ever():
    assert Schema({"a": Numeric(0, 1), "b": Ordinal(0, 9)}).to_dict() == {
        "a": {"kind": "numeric", "low": 0.0, "high": 1.0, "missing": 0.5},
        "b": {"kind": "ordinal", "low": 0, "high": 9, "missing": 4},
    }
    assert "lattice" not in Schema({"b": Ordinal(0, 9)}).to_toml()


def test_they_are_part_of_the_plan_and_of_its_hash():
    plain = Schema({"income": Numeric(0, 1e6), "age": Ordinal(18, 99)})
    ask = ["ranges(income, age)"]
    plans = [
        plan(schema, 1.0, users=50_000, ask=ask)
        for schema in (
            plain,
            Schema({**plain, "income": Numeric(0, 1e6, scale="log")}),
            Schema({**plain, "income": Numeric(0, 1e6, cuts=(1e4, 1e5))}),
            Schema({**plain, "age": Ordinal(18, 99, lattice=5)}),
        )
    ]
    assert len({each.fingerprint for each in plans}) == 4
    for each in plans:
        again = type(each).from_json(each.to_json())
        assert again == each
        assert again.fingerprint == each.fingerprint
