"""Odd things at the doors of the library: each is answered, or refused with an error of dither that quotes nothing.

What is odd about a *value* is a fact about its user: on a device it counts as any other value that does not fit.
"""

import collections
import datetime
import decimal
import fractions
import json
from typing import Any

import numpy as np
import pytest

import dither
from dither import GRR, Categorical, Collision, DitherError, Duchi, KeyValue, Numeric, Ordinal, Schema, privacy
from dither.core.mechanism import Mechanism
from dither.errors import ParameterError
from dither.privacy import Ledger
from dither.privacy.ledger import store
from dither.testing.examples import messages

pytestmark = pytest.mark.filterwarnings("ignore")

QUOTED = "the patient in row 17"


def refusing(*names: str, kind: Any = object, value: tuple[Any, ...] = ()) -> Any:
    """A value whose class raises, and quotes itself, as soon as one of these methods is called."""

    def refuse(self, *_: Any, **__: Any):
        raise RuntimeError(QUOTED)

    return type("Refusing", (kind,), {"__hash__": kind.__hash__, **dict.fromkeys(names, refuse)})(*value)


class Unclassed:
    """A value that does not say what it is."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError(QUOTED)


COMPARED = ("__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__")
PLAIN: list[Any] = [
    *(None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**30, -(10**400), 2**53, 2**64, 1e308, 1j, object(), int),
    *("", "x", "1", "\ud800", "a\0b", b"x", bytearray(b"1"), memoryview(b"12"), np.str_("x"), np.bytes_(b"x")),
    *(decimal.Decimal("1.5"), decimal.Decimal("sNaN"), fractions.Fraction(1, 3), datetime.date(2020, 1, 1)),
    *([], [1], [[1]], (), (1, 2), {}, {"a": 1}, {1}, range(3), collections.deque([1]), collections.OrderedDict(a=1)),
    *(np.int8(1), np.uint64(2**64 - 1), np.float16(1.5), np.float32("nan"), np.longdouble(1), np.bool_(True)),
    *(
        np.complex64(1),
        np.datetime64("NaT"),
        np.timedelta64(1, "s"),
        np.ma.masked,
        np.ma.array([1, 2], mask=[True, False]),
    ),
    *(np.array(1), np.array([1, 2]), np.array([]), np.array([[1]]), np.array(["x"]), np.array([None, 1], dtype=object)),
    *(np.zeros(2, dtype=[("value", "u1")]), np.array([1], dtype="M8[s]")),
]
HOSTILE: list[Any] = [
    refusing("__float__", kind=int, value=(1,)),
    refusing("__float__", "__int__", "__index__", kind=int, value=(1,)),
    refusing(*COMPARED, kind=int, value=(1,)),
    refusing("__float__", *COMPARED, kind=float, value=(1.0,)),
    refusing("__eq__", "__str__", kind=str, value=("x",)),
    *(refusing(name) for name in ("__len__", "__iter__", "__array__", "__float__", "__index__", "__bool__", "__eq__")),
    refusing("__getattr__"),
    refusing("__repr__", "__str__"),
    Unclassed(),
]

SCHEMA = Schema(
    {
        "age": Ordinal(0, 9),
        "income": Numeric(0, 10),
        "job": Categorical(["a", "b", "other"]),
        "movies": KeyValue(keys=4, size=2),
    }
)
TABLE: dict[str, Any] = {"age": [1, 2], "income": [1.0, 2.0], "job": ["a", "b"], "movies": [{0: 0.5}, {}]}
PLAN = dither.plan(SCHEMA, epsilon=2.0, users=100_000)
REPORTS = PLAN.randomize(TABLE, seed=1)
TALLY = PLAN.tally(REPORTS)
SMALL = GRR(k=4, epsilon=1.0)


def answered(call: Any, given: list[Any]) -> None:
    """Each is answered, or refused by dither, with nothing of what it holds anywhere in the chain of errors."""
    for thing in given:
        told = ""
        try:
            call(thing)
        except DitherError as error:
            told = messages(error)
        assert QUOTED not in told, type(thing)


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("invalid", ["error", "substitute"])
def test_whatever_a_cell_holds(name: str, invalid: str):
    def ask(value: Any) -> None:
        reports = PLAN.randomize({**TABLE, name: [value, TABLE[name][0]]}, invalid=invalid)
        assert sum(map(len, reports.values())) == 2

    answered(ask, PLAIN + HOSTILE)


@pytest.mark.parametrize("invalid", ["error", "substitute"])
def test_an_integer_that_cannot_be_converted_counts_as_one_that_does_not_fit(invalid: str):
    """`float(value)` of a subclass may raise anything; it was let through once, with what it said."""
    column = [refusing("__float__", kind=int, value=(3,)), 3]
    for name in ("age", "income"):
        if invalid == "error":
            with pytest.raises(DitherError, match="row 0") as refused:
                PLAN.randomize({**TABLE, name: column})
            assert QUOTED not in messages(refused.value)
        else:
            mended = PLAN.randomize({**TABLE, name: column}, invalid=invalid, seed=5)
            plain = PLAN.randomize({**TABLE, name: ["no number", 3]}, invalid=invalid, seed=5)
            assert all((mended[part] == plain[part]).all() for part in plain)


def test_whatever_a_device_is_given_it_reports():
    def ask(value: Any) -> None:
        for record in (value, *({name: value} for name in TABLE), {"movies": {1: value}}, {"movies": [(1, value)]}):
            assert sum(map(len, PLAN.report(record).values())) == 1
            assert str(PLAN.check(record))

    for value in PLAIN + HOSTILE:
        ask(value)


DOORS: dict[str, Any] = {
    "first": lambda given: PLAN.randomize(TABLE, seed=1, first=given),
    "seed": lambda given: PLAN.randomize(TABLE, seed=given),
    "invalid": lambda given: PLAN.randomize(TABLE, invalid=given),
    "missing": lambda given: PLAN.randomize(TABLE, missing=given),
    "table": PLAN.randomize,
    "column": lambda given: PLAN.randomize({**TABLE, "age": given}),
    "records": lambda given: PLAN.randomize([given, given]),
    "refine": lambda given: PLAN.estimate(TALLY, refine=given),
    "reports": lambda given: PLAN.tally({**REPORTS, next(iter(REPORTS)): given}),
    "all reports": PLAN.tally,
    "tally": PLAN.estimate,
    "stored tally": type(TALLY).from_bytes,
    "stored plan": dither.Plan.from_json,
    "population": lambda given: PLAN.simulate(given, 1),
    "simulated seed": lambda given: PLAN.simulate(TABLE, 1, seed=given),
    "plan of": lambda given: dither.plan(given, epsilon=1.0, users=1000),
    "users": lambda given: dither.plan(SCHEMA, epsilon=1.0, users=given),
    "schema": Schema,
    "attribute": lambda given: Schema({"a": given}),
    "stored schema": lambda given: Schema.from_dict({"a": {"kind": given}}),
    "ordinal": lambda given: Ordinal(0, given),
    "numeric": lambda given: Numeric(given, 5, missing=given),
    "labels": Categorical,
    "other": lambda given: Categorical(["a", "b"], other=given),
    "for missing": lambda given: Categorical(["a", "b"], missing=given),
    "keys": lambda given: KeyValue(keys=given, size=1),
    "certify": privacy.certify,
    "amplify": lambda given: privacy.amplify(given, 1000, 1e-6),
    "amplify n": lambda given: privacy.amplify(1.0, given, 1e-6),
    "amplify bound": lambda given: privacy.amplify(1.0, 1000, 1e-6, given),
    "bounds": lambda given: privacy.bounds(1.0, 1000, 1e-6, given),
    "compose": privacy.compose,
    "part": lambda given: privacy.compose([given]),
    "times": lambda given: privacy.compose([(SMALL, given)]),
    "parallel": privacy.parallel,
    "values": SMALL.randomize,
    "one value": lambda given: SMALL.randomize([given]),
    "instead": lambda given: SMALL.randomize([9], invalid=given),
    "numbers": Duchi(epsilon=1.0).randomize,
    "vectors": lambda given: Collision(d=8, s=2, epsilon=1.0).randomize([given], invalid="substitute"),
    "tallied": SMALL.tally,
    "k": lambda given: GRR(k=given, epsilon=1.0),
    "epsilon": lambda given: GRR(k=4, epsilon=given),
    "weights": lambda given: GRR(k=4, epsilon=1.0, weights=(given, 1)),
    "load": dither.mechanisms.load,
    "load weights": lambda given: dither.mechanisms.load({**SMALL.to_dict(), "weights": given}),
    "load name": lambda given: dither.mechanisms.load({"mechanism": given}),
}
NUMBERS = (
    "first",
    "seed",
    "simulated seed",
    "users",
    "ordinal",
    "numeric",
    "amplify n",
    "times",
    "k",
    "epsilon",
    "weights",
)


@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_parameter_is_refused_in_the_words_of_dither(door: str):
    answered(DOORS[door], PLAIN + (HOSTILE if door in (*NUMBERS, "values", "one value", "invalid", "missing") else []))


def test_whatever_a_ledger_is_given(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_SETTINGS", ("synchronous=OFF", *store._SETTINGS[1:]))
    with Ledger(tmp_path / "ledger.db", epsilon=1e6) as ledger:
        answered(lambda given: ledger.report(SMALL, given), PLAIN + HOSTILE)
        answered(lambda given: ledger.report(PLAN, given), PLAIN + HOSTILE)
        answered(lambda given: ledger.guarantee(SMALL, periods=given), PLAIN + HOSTILE)
        answered(lambda given: ledger.report(given, 1), PLAIN)
        answered(lambda given: ledger.reserve(given, changes=1), PLAIN)
        answered(lambda given: ledger.keeps(SMALL, given), PLAIN)
    answered(lambda given: Ledger(tmp_path / "other.db", epsilon=given), PLAIN + HOSTILE)
    answered(lambda given: Ledger(tmp_path / "ledger.db", timeout=given), PLAIN + HOSTILE)


@pytest.mark.parametrize("first", [-1, 1.5, None, True, "1", 2**53 + 1, 10**400])
def test_the_number_of_the_first_row_is_a_whole_number(first: Any):
    with pytest.raises(ParameterError, match="first"):
        PLAN.randomize(TABLE, first=first)


def test_the_largest_number_of_a_first_row_is_one():
    assert sum(map(len, PLAN.randomize(TABLE, seed=1, first=2**53).values())) == 2


def test_so_large_a_budget_that_it_has_no_grains():
    two = Schema({"age": Ordinal(0, 9), "income": Numeric(0, 10)})
    assert dither.plan(two, epsilon=1e308, users=1000).guarantee.epsilon <= 1e308


# Integers that readers of JSON round ---------------------------------------------------------------------------------


def as_javascript(text: str) -> Any:
    """What a reader makes of JSON that holds every number as a double, as browsers do."""
    return json.loads(text, parse_int=lambda digits: int(float(digits)))


@pytest.mark.parametrize(
    "mechanism", [SMALL, Duchi(epsilon=1.0), dither.Gaussian(epsilon=1.0, delta=1e-6), dither.LGRR(4, 2.0, 1.0)]
)
def test_a_description_survives_readers_that_round(mechanism: Mechanism):
    text = json.dumps(mechanism.to_dict())
    again = dither.mechanisms.load(as_javascript(text))
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    written = {**mechanism.to_dict(), "weights": list(mechanism.weights or ())}  # as it once was, all as numbers
    assert dither.mechanisms.load(json.loads(json.dumps(written))) == mechanism
    assert as_javascript(json.dumps(written)) != written  # which such readers do not survive
