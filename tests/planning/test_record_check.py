"""`plan.check` finds every record that a device would change, and shows no value of it."""

import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema

SCHEMA = Schema(
    {
        "age": Ordinal(0, 99),
        "income": Numeric(0, 200_000, missing=30_000),
        "job": Categorical(["nurse", "driver", "other", "unknown"], missing="unknown"),
        "films": KeyValue(["Alien", "Heat", "Totoro"], size=2, low=1, high=5),
    }
)
RIGHT = {"age": 41, "income": 30_000.0, "job": "nurse", "films": {"Heat": 5}}
SECRET = 123_456_789


@pytest.fixture(scope="module")
def plan():
    return dither.plan(SCHEMA, 2.0, users=10_000, ask=["age", "income", "job", "films", "ranges(age, income)"])


def test_a_record_that_fits(plan):
    found = plan.check(RIGHT)
    assert found.fits
    assert repr(found) == "The record fits the plan."
    assert not found.problems
    assert found.unused == ()


@pytest.mark.parametrize(
    ("name", "value", "sent"),
    [
        ("age", 141, "99"),
        ("age", None, "49"),
        ("age", "old", "49"),
        ("age", [1, 2], "49"),
        ("income", -5, "0"),
        ("income", SECRET, "200000"),
        ("income", None, "30000"),
        ("job", "pilot", "'other'"),
        ("job", None, "'unknown'"),
        ("films", {"Heat": 9}, "1 key with values from 1 to 5"),
        ("films", {"Jaws": 3}, "no keys"),
        ("films", {"Heat": 3, "Alien": 2, "Totoro": 1}, "2 keys with values from 1 to 5"),
        ("films", 7, "no keys"),
    ],
)
def test_what_a_device_would_send_is_told(plan, name, value, sent):
    found = plan.check({**RIGHT, name: value})
    assert list(found.problems) == [name]
    assert found.problems[name].endswith(f"a device sends {sent}")
    assert str(SECRET) not in repr(found)
    device, told = plan.encoded({**RIGHT, name: value}), plan.encoded(RIGHT)
    assert device.keys() == told.keys()


def test_a_name_that_is_misspelt(plan):
    found = plan.check({"Age": 41, "income": 5, "job": "nurse", "films": {}, "extra": SECRET})
    assert list(found.problems) == ["age"]
    assert found.unused == ("Age", "extra")
    assert "Not asked for: Age, extra." in repr(found)
    assert str(SECRET) not in repr(found)


def test_no_record_at_all(plan):
    for nothing in (None, {}, 3):
        assert list(plan.check(nothing).problems) == ["age", "income", "job", "films"]


def test_a_value_that_cannot_be_looked_at(plan):
    class Odd:
        def __float__(self):
            raise RuntimeError(SECRET)

    found = plan.check({**RIGHT, "income": Odd()})
    assert list(found.problems) == ["income"]
    assert str(SECRET) not in repr(found)


def test_what_is_refused_names_the_way_out(plan):
    with pytest.raises(dither.errors.DomainError, match='invalid="substitute" puts the substitute of the schema there'):
        plan.randomize([{**RIGHT, "age": 141}])
    assert plan.randomize([{**RIGHT, "age": 141}], invalid="substitute")


def test_plans_are_saved_and_read(plan, tmp_path):
    path = tmp_path / "plan.json"
    plan.save(path)
    assert path.read_text(encoding="utf-8") == plan.to_json()
    assert dither.Plan.read(path) == plan
    assert dither.Plan.read(str(path)) == plan
    path.write_bytes(b"\xff")
    for wrong in (path, tmp_path, tmp_path / "none.json"):
        with pytest.raises(dither.errors.ParameterError, match=r"cannot be read; plan.save\(path\) writes one"):
            dither.Plan.read(wrong)


def test_plans_are_certified(plan):
    assert dither.privacy.certify(plan) == plan.guarantee
    small = dither.plan(Schema({"a": Numeric(0, 1), "b": Categorical(["x", "y", "z"])}), 9.0, users=10_000)
    assert small.questions_per_user == 2
    assert dither.privacy.certify(small) == small.guarantee
