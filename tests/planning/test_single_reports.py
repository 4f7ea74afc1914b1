"""One report at a time: the same as the row of a table, whatever the record holds, and with the same steps for all.

A device looks at what was drawn only, and without arrays. The table is the judge: with the same words both send the
same bytes. What a device does must not depend on values; that is not a matter of clocks here, but of the words that are
read and of the steps that are taken (benchmarks/single_report.py has the clocks).
"""

import copy
import pickle
import sys
import warnings
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.core import columns, draw, randomness
from dither.core.randomness import Stream
from dither.mechanisms import key_sampling
from dither.planning import plan_parts
from dither.questions import Column, Question
from dither.questions.means import MeanOf

SCHEMA = Schema(
    {
        "age": Ordinal(18, 99),
        "income": Numeric(-1000, 200_000, missing=0),
        "job": Categorical(["nurse", "7", "true", "other", "none"], missing="none"),
        "films": KeyValue(["Alien", "Heat", "Totoro", "7"], size=2, low=1, high=5),
        "sites": KeyValue(50, size=3),
    }
)
ASKED = ["mean(income)", "mean(age)", "distribution(income)", "histogram(job)", "films", "sites"]
RANGES = "ranges(age, income, job)"
DERIVED = ["variance(income)", "correlation(age, income)", "mean(income by job)", "share(age > 30 and income < 9)"]
RECORD = {"age": 40, "income": 50_000.0, "job": "nurse", "films": {"Heat": 4.0, "Alien": 2.5}, "sites": {3: 0.5}}


@cache
def made(epsilon: float, *asked: str, users: int = 50_000) -> dither.Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dither.plan(SCHEMA, epsilon, users=users, ask=asked)


PLANS: dict[str, Callable[[], dither.Plan]] = {
    "one of many, by variance": lambda: made(1.0, *ASKED, RANGES),
    "all": lambda: made(14.0, "mean(income)", "distribution(age)", users=1000),
    "ranges alone": lambda: made(2.0, RANGES),
    "keys": lambda: made(3.0, "films", "sites"),
    "numbers": lambda: made(0.5, "mean(income)", "mean(age)"),
    "derived": lambda: made(
        2.0,
        *("variance(income)", "correlation(age, income)", "mean(income by job)", "table(age, job)", "median(age)"),
        *("share(age > 30 and job = '7')", "count(income > 5000)", "top(films, 2)"),
    ),
    "crossed": lambda: made(7.0, "histogram(job)", "distribution(income)", "mean(age)"),
}


class Broken:
    """Whatever is done with it goes wrong."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("a secret")

    def __hash__(self) -> int:
        raise RuntimeError("a secret")


class NoFloat(float):
    """A number that does not say which."""

    def __float__(self) -> float:
        raise RuntimeError("a secret")


ODD: list[Any] = [
    None,
    *(True, False, 0, 1, 7, 18, 99, 100, -1, -1000, 10**6, 2**53, 2**63, 2**64, 10**400, -(10**400)),
    *(0.0, -0.0, 18.0, 18.5, 7.0, 1e-320, -1e300, 1e300, 2.0**53, float("nan"), float("inf"), -float("inf")),
    *(np.float32(0.1), np.float64(99), np.int8(18), np.uint64(2**63), np.bool_(True), np.str_("nurse"), np.nan),
    *(Fraction(1, 3), Decimal("18"), 1j, np.datetime64("2020-01-01"), np.ma.masked),
    *("", "nurse", "7", "true", "none", "07", "astronaut", "x" * 10_000, b"nurse", "\ud800"),
    *(
        [],
        [1],
        (1, 2),
        [[1, 2]],
        {},
        {1},
        np.array([1.0]),
        np.array(3),
        np.zeros((1, 2)),
        Broken(),
        NoFloat(5.0),
        object(),
    ),
    *({"Heat": 4.0}, {"Heat": None}, {"Heat": "x", "Alien": 3}, {"Heat": 9, "XXX": 1, 7: 2, "7": -3}),
    *({"Alien": 1, "Heat": 2, "Totoro": 3, "7": 4}, {"Heat": float("nan"), "Alien": float("inf")}),
    *([("Heat", 3.0), ("Heat", 1.0), ("Alien", 2.0)], [("Heat",)], [0, 2.0, 0, 3.0], np.array([0, 2.0, 0, 3.0])),
    *({3: 0.5}, {3.0: 0.5, 4: 0.1}, {3.5: 1, -1: 1, 49: -1, 50: 1, 2**40: 1}, {True: 0.5}, {Fraction(3): 0.25}),
    *(dict.fromkeys(range(10), 0.5), [(1, 0.5), (1, 0.2), (2, -9)], np.eye(50)[3], Broken),
]


def by_columns(column: Any, value: Any) -> Any:
    """What a mechanism takes of one value, by way of a column: the judge."""
    try:
        encoded = column.encode([value], "substitute")
        assert encoded.shape == (1,)
    except Exception:
        encoded = column.encode([None], "substitute")
    return encoded[0]


def as_held(encoded: Any) -> Any:
    """A row of keys without its empty places; a number as it is."""
    if np.asarray(encoded).dtype.names is None:
        return float(encoded)
    return [(int(key), float(value)) for key, value in zip(encoded["key"], encoded["value"], strict=True) if key >= 0]


@pytest.mark.parametrize("question", [*ASKED, RANGES, "distribution(age)", "mean(films)", "mean(sites)", *DERIVED])
def test_a_value_is_encoded_as_in_a_column(question):
    for part in made(1.0, question).parts:
        for column in part.columns:
            for place, value in enumerate(ODD):
                alone = plan_parts._substituted(column, value)
                assert as_held(alone) == as_held(by_columns(column, value)), (column.name, place)


@pytest.mark.parametrize("place", range(20))
def test_cells_of_numbers_are_those_of_a_column(place):
    values = [*np.random.default_rng(place).uniform(-1200, 210_000, 30), *np.linspace(-1000, 200_000, 65)[place::20]]
    for question in (RANGES, "distribution(income)", "mean(income)"):
        [part] = made(1.0, question).parts
        for column in part.columns:
            assert [column.encode_value(value) for value in values] == column.encode(values, "substitute").tolist()


def odd_records() -> list[Any]:
    records: list[Any] = [RECORD, {}]
    for place, value in enumerate(ODD):
        others = {name: ODD[(place * 5 + step * 7) % len(ODD)] for step, name in enumerate(SCHEMA)}
        records += [{**RECORD, name: value} for name in SCHEMA if place % 5 == list(SCHEMA).index(name)] + [others]
    return records


def as_table(plan: dither.Plan, record: Mapping[str, Any]) -> dict[str, Any]:
    """What a table of one user would send, of values as columns encode them."""

    def encoded(column: Column) -> np.ndarray:
        return np.array([by_columns(column, record.get(column.name))])

    return {part.name: part.looked_at.encode(encoded) for part in plan.parts}


@pytest.mark.parametrize("name", PLANS)
def test_a_single_report_is_that_of_a_table(name):
    plan = PLANS[name]()
    for seed, record in enumerate(odd_records()):
        table = plan._all_reports(as_table(plan, record), 1, Stream.seeded(seed, plan.fingerprint))
        alone = plan.report(record, seed=seed)
        assert list(alone) == list(table)
        for part in alone:
            assert alone[part].tobytes() == table[part].tobytes()
            assert (alone[part].dtype, alone[part].maker) == (table[part].dtype, table[part].maker)
            assert alone[part].simulated


@pytest.mark.parametrize("name", PLANS)
def test_a_report_is_the_row_of_randomize(name):
    plan = PLANS[name]()
    for seed in range(25):
        table = plan.randomize([RECORD], seed=seed, invalid="substitute")
        assert {part: each.tobytes() for part, each in plan.report(RECORD, seed=seed).items()} == {
            part: each.tobytes() for part, each in table.items()
        }
        secure = plan.report(RECORD)
        assert not any(each.simulated for each in secure.values())
        assert sum(map(len, secure.values())) == plan.questions_per_user
    plan.tally(plan.report(RECORD))  # its tags are right


def test_several_questions_a_user():
    source = PLANS["one of many, by variance"]()
    even = tuple(part._replace(weight=1) for part in source.parts)
    for count in (2, len(even) - 1, len(even)):
        plan = dither.Plan(source.schema, 99.0, 0.0, 1000, even, count, source.prediction)
        for seed in range(30):
            alone, table = plan.report(RECORD, seed=seed), plan.randomize([RECORD], seed=seed, invalid="substitute")
            assert {part: each.tobytes() for part, each in alone.items()} == {
                part: each.tobytes() for part, each in table.items()
            }
            assert sum(map(len, alone.values())) == count


class Noted(dict):
    """A record that notes what is looked at."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.looked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.looked.add(name)
        return super().get(name, default)


def test_only_what_was_drawn_is_looked_at():
    plan = PLANS["one of many, by variance"]()
    for _ in range(60):
        record = Noted(RECORD)
        [drawn] = [name for name, reports in plan.report(record).items() if len(reports)]
        [part] = [part for part in plan.parts if part.name == drawn]
        assert record.looked == {column.name for column in part.columns}


# The same steps for all values ---------------------------------------------------------------------------------------

SAMPLING = ("core/draw.py", "core/lattice.py", "core/subsets.py", "core/mechanism.py", "/mechanisms/", "/kernels/")
ORDINARY = {
    "age": [18, 99, 40, None, "x", 10**400, 18.5],
    "income": [-1000, 200_000, 1e9, None, "x", float("nan"), 1e-320],
    "job": ["nurse", "none", "astronaut", None, 7, True, "x" * 1000],
    "films": [{}, {"Heat": 5}, {"XXX": 1}, {"Heat": "x"}, None, 5, dict.fromkeys(["Alien", "Heat", "Totoro"], 2.0)],
    "sites": [{}, {3: 1}, {99: 1}, None, dict.fromkeys(range(10), 0.5)],
}


def steps_of(plan: dither.Plan, record: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The words that a report reads, and the functions of the sampler that it runs, in order."""
    taken: list[Any] = []
    real = Stream.words

    def words(self, lane, rows, width=1, attempt=0, out=None):
        taken.append((lane, draw.count_of(rows), width, attempt))
        return real(self, lane, rows, width, attempt, out)

    def note(frame, event, _):
        name = Path(frame.f_code.co_filename).as_posix()
        if event == "call" and any(part in name for part in SAMPLING):
            taken.append((name.rpartition("dither/")[2], frame.f_code.co_name))

    with monkeypatch.context() as patch:
        patch.setattr(randomness.Stream, "words", words)
        sys.setprofile(note)
        try:
            plan.report(record, seed=seed)
        finally:
            sys.setprofile(None)
    return taken


def test_few_keys_or_none_take_the_same_steps_to_look_at():
    def looked(vector: Any) -> list[str]:
        taken: list[str] = []

        def note(frame, event, _):
            if event == "call" and "dither" in frame.f_code.co_filename:
                taken.append(frame.f_code.co_name)

        sys.setprofile(note)
        try:
            SCHEMA["films"].encode_value(vector)
        finally:
            sys.setprofile(None)
        return taken

    vectors = [None, {}, {"Heat": 4.0}, {"XXX": 4.0}, {"Heat": "x"}, {"Heat": 4.0, "Alien": 1}, {"Heat": 4, 7: 9}]
    looked({})
    assert len({tuple(looked(vector)) for vector in vectors}) == 1


def check_the_same_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PLANS[name]()
    for seed in range(5):
        for attribute in plan.attributes:
            steps = [steps_of(plan, {**RECORD, attribute: value}, seed, monkeypatch) for value in ORDINARY[attribute]]
            assert all(each == steps[0] for each in steps)


@pytest.mark.parametrize("name", PLANS)
def test_the_steps_of_the_sampler_do_not_depend_on_values(name, monkeypatch):
    plan = PLANS[name]()
    for seed in range(5):  # what is looked up once is looked up now
        plan.report(RECORD, seed=seed)
    check_the_same_steps(name, monkeypatch)


def test_a_device_that_samples_keys_down_only_where_there_are_many(monkeypatch):
    real = key_sampling._sampled

    def sampled(s, values, tape, rows):
        most = max(s, int((values["key"] >= 0).sum()))
        narrow = np.zeros(1, dtype=[("key", np.int32, (most,)), ("value", float, (most,))])
        for field in ("key", "value"):
            narrow[field] = values[field][:, :most]
        return real(s, narrow, tape, rows)

    monkeypatch.setattr(key_sampling, "_sampled", sampled)
    with pytest.raises(AssertionError):
        check_the_same_steps("keys", monkeypatch)


def test_a_text_that_is_too_long_for_a_label_is_not_hashed():
    hashed = []

    class Text(str):
        def __hash__(self) -> int:
            hashed.append(len(self))
            return super().__hash__()

    found = columns.LabelCodes(["nurse", "other"])
    assert [found.of_value(Text("nurse")), found.of_value(Text("x" * 100))] == [0, columns.UNKNOWN]
    assert hashed == [5]


# What it is made of -------------------------------------------------------------------------------------------------


def test_a_plan_that_has_reported_is_pickled_and_copied():
    for make in PLANS.values():
        plan = make()
        plan.report({**RECORD, "job": "a secret job", "films": {"a secret film": 1.0}})
        written = pickle.dumps(plan)
        assert b"secret" not in written
        for other in (pickle.loads(written), copy.deepcopy(plan)):
            assert other == plan
            assert {name: each.tobytes() for name, each in other.report(RECORD, seed=3).items()} == {
                name: each.tobytes() for name, each in plan.report(RECORD, seed=3).items()
            }


class Doubled(MeanOf):
    """A question with its own way of a column, and no word about single values."""

    def _encoded(self, column: Any, invalid: str) -> np.ndarray:
        return np.clip(2 * super()._encoded(column, invalid), -1, 1)


def test_a_question_with_its_own_columns_has_its_own_values():
    question = Doubled("income", SCHEMA["income"])
    assert question.encode_value(200_000) == 1.0
    assert question.encode_value(120_000) == question.encode([120_000])[0] != MeanOf.encode_value(question, 120_000)
    assert Doubled.encode_value is Question.encode_value
    assert MeanOf.encode_value is not Question.encode_value
