"""The ledger repeats itself or pays, keeps what it promises, and refuses what it cannot trust.

What is promised is checked exactly: the ledger runs over every tape of reports, and the transcripts of all short
histories are compared.
"""

import os
import pickle
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import exp, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import dither
from dither import GRR, Categorical, DitherError, KeyValue, Numeric, Ordinal, Schema, Unary
from dither.core.guarantee import Guarantee
from dither.core.reports import Reports
from dither.errors import DomainError, ParameterError, ReportError
from dither.privacy.ledger import BudgetError, Ledger, LedgerError, store
from dither.privacy.ledger.prompt import Prompt, canonical
from dither.questions.shares import SharesOf

WIDE = Unary(k=64, epsilon=1.0)  # two reports are equal by chance with probability below 1e-6, for any two values
SCHEMA = Schema({"age": Ordinal(0, 99), "income": Numeric(0, 200_000), "job": Categorical(["nurse", "other"])})


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing here pulls the plug: do not wait for the disk."""
    monkeypatch.setattr(store, "_SETTINGS", ("synchronous=OFF", *store._SETTINGS[1:]))
    monkeypatch.setattr(store, "_sync_directory", lambda _: None)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def sent(reports: Any) -> bytes:
    """What the server sees."""
    return b"|".join(f"{name}=".encode() + np.asarray(each).tobytes() for name, each in reports.items())


def rounds(ledger: Ledger) -> int:
    return sum(ledger.table().columns["rounds"])


# Repeat, or pay -------------------------------------------------------------------------------------------------


def test_whether_a_period_has_a_round_is_known_before_it_is_asked(path):
    with Ledger(path, epsilon=4.0) as ledger:
        with pytest.raises(ParameterError, match="periods"):
            ledger.has_round(WIDE, "W1")
        ledger.reserve(WIDE, periods=2)
        assert ledger.has_round(WIDE, "W1")
        assert not ledger.keeps(WIDE, "W1")
        for week, value in (("W1", 7), ("W1", 8), ("W2", 7)):
            ledger.report(WIDE, value, period=week)
            assert ledger.keeps(WIDE, week)
        known = [(ledger.has_round(WIDE, week), ledger.keeps(WIDE, week)) for week in ("W1", "W2", "W3", 2)]
        assert known == [(False, False), (True, True), (False, False), (False, False)]
        assert rounds(ledger) == 2
    with Ledger(path) as ledger:
        plan = dither.plan(SCHEMA, epsilon=1.0, users=100_000)
        ledger.reserve(plan, periods=1)
        ledger.report(plan, {"age": 3}, period="W1")
        assert [ledger.has_round(plan, week) for week in ("W1", "W2")] == [True, False]


def test_an_unchanged_value_gets_the_same_report_and_costs_nothing_more(path):
    with Ledger(path, epsilon=4.0) as ledger:
        first = ledger.report(WIDE, 7)
        assert first.dtype == WIDE.dtype
        assert (len(first), first.maker, first.simulated) == (1, WIDE.fingerprint, False)
        assert all(ledger.report(WIDE, 7).tobytes() == first.tobytes() for _ in range(5))
        assert ledger.spent == Guarantee(WIDE.guarantee.epsilon, 0.0, "bound")
    assert Ledger(path).report(WIDE, 7).tobytes() == first.tobytes()
    assert rounds(Ledger(path)) == 1


def test_a_changed_value_is_charged_and_over_budget_the_last_report_is_repeated(path):
    ledger = Ledger(path, epsilon=3.0)
    seen = [ledger.report(WIDE, value).tobytes() for value in (0, 1, 0, 2, 3, 3, 0)]
    assert len(set(seen)) == len(set(seen[:3])) == 3  # also what goes back is fresh
    assert set(seen[2:]) == {seen[2]}
    assert rounds(ledger) == 3
    assert ledger.spent.epsilon <= ledger.reserved.epsilon <= ledger.budget.epsilon == 3.0


def test_reports_may_be_changed_by_who_receives_them(path):
    ledger = Ledger(path, epsilon=1.0)
    first = ledger.report(WIDE, 7)
    kept = first.tobytes()
    first["bits"] = np.zeros(1, dtype="V8")
    assert ledger.report(WIDE, 7).tobytes() == kept


def test_the_draw_is_kept_and_only_what_was_drawn_is_charged(path):
    plan = dither.plan(SCHEMA, 1.0, users=100_000)
    assert plan.questions_per_user == 1
    ledger = Ledger(path, epsilon=100.0)
    record: dict[str, Any] = {"age": 30, "income": 1000.0, "job": "nurse"}
    first = ledger.report(plan, record)
    assert set(first) == {part.name for part in plan.parts}
    (drawn,) = (name for name, reports in first.items() if len(reports))
    own = next(part.columns[0].name for part in plan.parts if part.name == drawn)
    other = {"age": 31, "income": 2000.0, "job": "other"}
    assert sent(ledger.report(plan, {**other, own: record[own]})) == sent(first)
    assert rounds(ledger) == 1
    for step in range(20):
        again = ledger.report(plan, {**record, own: (record, other)[(step + 1) % 2][own]})
        assert [name for name, reports in again.items() if len(reports)] == [drawn]
        assert {name: reports.maker for name, reports in again.items()} == {
            name: reports.maker for name, reports in plan.report({}).items()
        }
        assert plan.tally(again).parts[drawn].n == 1
    assert rounds(ledger) == 21
    assert ledger.spent.epsilon == pytest.approx(21 * plan.guarantee.epsilon)


def test_devices_draw_for_themselves(tmp_path):
    plan = dither.plan(SCHEMA, 1.0, users=100_000)
    drawn = set()
    for number in range(40):  # all draw the same with probability below 3 * (1/2)^40, whatever the weights here
        reports = Ledger(tmp_path / str(number), epsilon=1.0).report(plan, {})
        drawn |= {name for name, each in reports.items() if len(each)}
    assert len(drawn) > 1


def test_a_round_is_paid_for_once_however_many_answers_change(path, monkeypatch):
    monkeypatch.setattr(SharesOf, "crosses", False)  # a report for each answer
    schema = Schema({name: Categorical(["a", "b", "c"]) for name in "xyz"})
    plan = dither.plan(schema, 12.0, users=100_000)
    assert plan.questions_per_user == 3
    ledger = Ledger(path, epsilon=24.0)
    first = ledger.report(plan, {"x": "a", "y": "a", "z": "a"})
    for record in ({"x": "b", "y": "a", "z": "a"}, {"x": "b", "y": "b", "z": "a"}, {"x": "b", "y": "b", "z": "b"}):
        ledger.report(plan, record)
        assert rounds(ledger) == 2
    last = ledger.report(plan, {"x": "b", "y": "b", "z": "b"})
    assert sent(ledger.report(plan, {"x": "c", "y": "c", "z": "c"})) == sent(last)
    assert rounds(ledger) == 2
    assert set(first) == set(last)


def test_answers_that_one_report_is_about_are_one_answer(path):
    schema = Schema({name: Categorical(["a", "b", "c"]) for name in "xyz"})
    plan = dither.plan(schema, 12.0, users=100_000)
    assert len(plan.parts) == 1
    ledger = Ledger(path, epsilon=36.0)
    seen = []
    for number, record in enumerate(({"x": "a"}, {"x": "b"}, {"x": "b", "y": "b"}, {"x": "b", "y": "b", "z": "b"})):
        seen.append(sent(ledger.report(plan, record)))
        assert seen[-1] == sent(ledger.report(plan, record))  # and only if one of them changes
        assert rounds(ledger) == min(number + 1, 3)
    assert seen[3] == seen[2]  # beyond the budget the last is repeated


def test_periods_are_fresh_whatever_the_value_does(path):
    ledger = Ledger(path, epsilon=3.0)
    assert ledger.reserve(WIDE, periods=3) == ledger.guarantee(WIDE, periods=3) == ledger.guarantee(WIDE)
    weeks = [(1, 5), (1, 6), (2, 6), (2, 7), ("2", 7), (4, 8), (5, 9)]
    seen = [ledger.report(WIDE, value, period=week).tobytes() for week, value in weeks]
    assert seen[0] == seen[1] != seen[2] == seen[3] != seen[4] == seen[5] == seen[6]
    assert rounds(ledger) == 3


@pytest.mark.wide
def test_every_mechanism(tmp_path):
    for name, cls in dither.registry.items():
        for number, example in enumerate(cls.examples):
            mechanism = cls(**dict(example))
            ledger = Ledger(tmp_path / f"{name}{number}", epsilon=1000.0, delta=0.5)
            ledger.reserve(mechanism, changes=1)
            values = mechanism.inputs()
            reports = ledger.report(mechanism, values[:1])
            assert mechanism.valid(reports).all()
            assert ledger.report(mechanism, values[:1]).tobytes() == reports.tobytes()
            ledger.report(mechanism, values[-1:])
            assert rounds(ledger) == 2


def test_odd_records_are_answered_like_any_other(tmp_path):
    schema = Schema({"age": Ordinal(0, 99), "films": KeyValue(["a", "b", "c"], size=2)})
    plan = dither.plan(schema, 1.0, users=100_000)

    class Odd(dict):
        def get(self, *_):
            raise RuntimeError("secret")

    records = [{}, None, 7, "text", {"age": [1, 2]}, {"age": object(), "films": 3}, Odd(), {"films": {"a": "x", 9: 9}}]
    for number, record in enumerate(records):
        ledger = Ledger(tmp_path / str(number), epsilon=1.0)
        assert sum(map(len, ledger.report(plan, record).values())) == plan.questions_per_user


def test_values_that_a_mechanism_does_not_tell_apart_are_unchanged():
    films = KeyValue(["a", "b", "c"], size=2)
    same = [{"a": 1.0, "c": -0.5}, {"c": -0.5, "a": 1}, {"c": -0.5, "unknown": 1, "a": 9}]
    assert len({canonical(films.encode([each], "substitute")) for each in same}) == 1
    others = [{}, {"a": 1.0}, {"a": 1.0, "b": -0.5}, {"a": -0.5, "c": 1.0}, {"a": 0.0}, {"b": 0.0}]
    assert len({canonical(films.encode([each], "substitute")) for each in [same[0], *others]}) == 7
    assert canonical(np.array([-0.0])) == canonical(np.array([0.0])) != canonical(np.array([5e-324]))
    assert canonical(np.array([3], dtype=np.uint8)) == canonical(np.array([3])) != canonical(np.array([3.0]))
    table = np.zeros(1, dtype=[("value", "<f8"), ("group", "u1")])
    other = table.copy()
    other["group"] = 1
    assert canonical(table) != canonical(other)


# What is promised -----------------------------------------------------------------------------------------------

SMALL = GRR(k=3, epsilon=1.0)
ROW = [SMALL.channel().row(value) for value in range(3)]
HISTORIES = list(product(range(3), repeat=3))


def transcripts(folder, monkeypatch, rounds: int, periods=None) -> dict[Any, dict[Any, Fraction]]:
    """For each history of three values the exact law of what is sent: production code over all tapes of reports."""
    laws, template = {}, folder / "template"
    Ledger(template, epsilon=100.0).reserve(SMALL, **({"periods": rounds} if periods else {"changes": rounds - 1}))
    whole, place = template.read_bytes(), folder / "ledger"
    ledger = Ledger(place, epsilon=100.0)
    for history in HISTORIES:
        law: dict[Any, Fraction] = {}
        needed = len(set(periods)) if periods else min(rounds, 1 + sum(times(history)))
        for tape in product(range(3), repeat=needed):
            weight, left = [Fraction(1)], iter(tape)

            def drawn(asked: Prompt, part: str, weight=weight, left=left) -> bytes:
                report = next(left)
                weight[0] *= ROW[int(asked.values[part][0])][report]
                return np.array([report]).astype(SMALL.dtype).tobytes()

            monkeypatch.setattr(Prompt, "fresh", drawn)
            place.write_bytes(whole)
            labels = periods or [None] * 3
            seen = tuple(
                int(ledger.report(SMALL, value, period=label)["value"][0])
                for value, label in zip(history, labels, strict=True)
            )
            assert list(left) == []
            law[seen] = law.get(seen, Fraction(0)) + weight[0]
        assert sum(law.values()) == 1
        laws[history] = law
    return laws


def times(history) -> Any:
    """Whether the value changes, at each time."""
    return tuple(a != b for a, b in pairwise(history))


def worst(laws, pairs) -> float | Fraction:
    """The largest likelihood ratio between histories of these pairs."""
    found = [
        inf if seen not in laws[other] else law[seen] / laws[other][seen]
        for one, two in pairs
        for law, other in ((laws[one], two), (laws[two], one))
        for seen in law
    ]
    return max(found)


ALL = list(combinations(HISTORIES, 2))
ONE = Fraction(max(max(row) for row in ROW), min(min(row) for row in ROW))


def check_promises(folder, monkeypatch):
    (folder / "some").mkdir()
    laws = transcripts(folder / "some", monkeypatch, 3)
    together = [(a, b) for a, b in ALL if times(a) == times(b)]
    assert worst(laws, together) == ONE**3
    assert worst(laws, [(a, b) for a, b in together if sum(times(a)) == 1]) == ONE**2
    assert worst(laws, [((0, 1, 0), (0, 1, 2))]) == ONE  # going back is one more report, no more
    assert all(worst(laws, [(a, b)]) == inf for a, b in ALL if times(a) != times(b))  # said, not hidden

    (folder / "one").mkdir()
    laws = transcripts(folder / "one", monkeypatch, 2)
    first = {(True, True): 0, (True, False): 0, (False, True): 1, (False, False): 2}  # only one change is shown
    together = [(a, b) for a, b in ALL if first[times(a)] == first[times(b)]]
    assert worst(laws, together) == ONE**2

    (folder / "none").mkdir()
    assert worst(transcripts(folder / "none", monkeypatch, 1), ALL) == ONE
    (folder / "periods").mkdir()
    assert worst(transcripts(folder / "periods", monkeypatch, 2, ["a", "b", "b"]), ALL) == ONE**2


def test_the_promises_hold_exactly_over_all_tapes(tmp_path, monkeypatch):
    check_promises(tmp_path, monkeypatch)
    assert float(ONE) <= exp(SMALL.guarantee.epsilon) * (1 + 1e-12)


def test_a_report_for_each_value_would_tell_who_went_back(tmp_path, monkeypatch):
    production = Ledger._kept
    kept: dict[Any, Any] = {}

    def by_value(self: Ledger, outline, question: Prompt, label):
        if rounds(self) == 0:
            kept.clear()
        where = label or canonical(question.values[""])
        if where not in kept:
            kept[where] = production(self, outline, question, label)
        return kept[where]

    monkeypatch.setattr(Ledger, "_kept", by_value)
    with pytest.raises(AssertionError):
        check_promises(tmp_path, monkeypatch)


def test_guarantees_are_stated_for_a_number_of_changes(path):
    ledger = Ledger(path, epsilon=4.0)
    one = SMALL.guarantee.epsilon
    assert ledger.guarantee(SMALL, changes=0) == SMALL.guarantee
    assert ledger.guarantee(SMALL, changes=3) == Guarantee(4 * one, 0.0, "bound")
    assert ledger.guarantee(SMALL, periods=1) == SMALL.guarantee
    ten = ledger.guarantee(SMALL, changes=9)
    assert Fraction(ten.epsilon) >= 10 * Fraction(one)
    with pytest.raises(ParameterError, match="nothing is reserved"):
        ledger.guarantee(SMALL)
    ledger.report(SMALL, 0)
    assert ledger.guarantee(SMALL) == ledger.guarantee(SMALL, changes=3)
    noisy = dither.Gaussian(1.0, delta=1e-6)
    two = ledger.guarantee(noisy, periods=2)
    assert (two.epsilon, two.delta) == (2 * noisy.guarantee.epsilon, 2 * noisy.guarantee.delta)


# The budget -----------------------------------------------------------------------------------------------------


def test_plans_are_admitted_by_public_facts_only(tmp_path):
    others = [GRR(k=k, epsilon=1.0) for k in (4, 5, 6)]
    refusals = []
    for values in ([0, 0, 0, 0], [0, 1, 2, 0]):  # one device never changes, one always
        ledger = Ledger(tmp_path / "-".join(map(str, values)), epsilon=4.0)
        ledger.reserve(SMALL, changes=1)
        for value in values:
            ledger.report(SMALL, value)
        ledger.reserve(others[0], changes=0)
        ledger.report(others[1], 0)
        with pytest.raises(BudgetError) as refused:
            ledger.report(others[2], 0)
        refusals.append(str(refused.value))
        assert repr(ledger).count("spent") == 0
        assert ledger.reserved.epsilon <= 4.0
    assert refusals[0] == refusals[1]
    assert "ledger.reserve(plan, changes=1)" in refusals[0]


def test_reservations_are_kept(path):
    ledger = Ledger(path, epsilon=4.0)
    assert ledger.reserve(SMALL, changes=1) == ledger.reserve(SMALL, changes=1) == ledger.reserve(SMALL)
    for wrong in ({"changes": 0}, {"changes": 2}, {"periods": 2}):
        with pytest.raises(ParameterError, match="1 changes are reserved"):
            ledger.reserve(SMALL, **wrong)
    with pytest.raises(ParameterError, match="period"):
        ledger.report(SMALL, 0, period=1)
    with pytest.raises(BudgetError, match="does not fit"):
        ledger.reserve(WIDE, changes=2)
    assert len(ledger.table()) == 1
    ledger.reserve(WIDE, changes=1)
    assert ledger.spent.epsilon == 0
    assert ledger.table().columns["answers"] == [0, 0]
    strange: Any = 1.5
    for wrong in (
        {"changes": -1},
        {"changes": strange},
        {"periods": 0},
        {"changes": 1, "periods": 1},
        {"changes": True},
    ):
        with pytest.raises(ParameterError):
            ledger.reserve(GRR(k=9, epsilon=0.1), **wrong)


def test_sums_are_exact(path):
    tenth = GRR(k=3, epsilon=0.1)
    price = Fraction(tenth.guarantee.epsilon)
    ledger = Ledger(path, epsilon=0.3)
    reserved = ledger.reserve(tenth)
    assert Fraction(reserved.epsilon) <= Fraction(0.3)
    assert (Fraction(0.3) // price) == round(reserved.epsilon / tenth.guarantee.epsilon)


def test_a_delta_needs_a_budget_of_its_own(tmp_path):
    noisy = dither.Gaussian(1.0, delta=1e-6)
    with pytest.raises(BudgetError):
        Ledger(tmp_path / "a", epsilon=8.0).report(noisy, 0.5)
    ledger = Ledger(tmp_path / "b", epsilon=8.0, delta=2e-6)
    assert ledger.reserve(noisy).delta <= 2e-6
    for value in (0.1, 0.2, 0.3):
        ledger.report(noisy, value)
    assert 1e-6 < ledger.spent.delta <= 2e-6
    assert rounds(ledger) == 2


def test_a_promised_budget_is_not_changed(path):
    Ledger(path, epsilon=4.0, delta=1e-6)
    for same in ({}, {"epsilon": 4}, {"delta": 1e-6}):
        assert Ledger(path, **same).budget == Guarantee(4.0, 1e-6, "bound")
    for wrong in ({"epsilon": 5.0}, {"delta": 0.0}, {"epsilon": 4.0, "delta": 1e-5}):
        with pytest.raises(ParameterError, match="not changed"):
            Ledger(path, **wrong)


# Bad input ------------------------------------------------------------------------------------------------------


def test_parameters(tmp_path, path):
    for wrong in (None, 3, "", "a\0b", b"bytes", object()):
        with pytest.raises(ParameterError, match="path"):
            Ledger(wrong, epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="needs a budget"):
        Ledger(path)
    for wrong in ({"epsilon": 0}, {"epsilon": inf}, {"epsilon": 1.0, "delta": 1}, {"epsilon": 1.0, "timeout": -1}):
        with pytest.raises(ParameterError):
            Ledger(path, **wrong)
    assert not path.exists()
    ledger = Ledger(path, epsilon=1.0)
    for wrong in (None, 3, "plan", {}):
        with pytest.raises(ParameterError, match="a plan"):
            ledger.report(wrong, {})  # type: ignore[call-overload]
    for wrong in (1.5, True, b"week", ("week",)):
        with pytest.raises(ParameterError, match="public label"):
            ledger.report(SMALL, 0, period=wrong)  # type: ignore[arg-type]
    for wrong in (17, "x", [0, 1], []):
        with pytest.raises(DomainError) as refused:
            ledger.report(SMALL, wrong)
        assert "17" not in str(refused.value)
    assert rounds(ledger) == 0
    assert os.listdir(tmp_path) == ["ledger.db"]


def test_simulated_reports_are_refused(path):
    plan = dither.plan(SCHEMA, 1.0, users=100_000)

    class Simulated:
        fingerprint, guarantee, parts = plan.fingerprint, plan.guarantee, plan.parts

        def report(self, record):
            return plan.report(record, seed=1)

        def encoded(self, record):
            return plan.encoded(record)

    class Promised(Simulated):
        guarantee = Guarantee(inf, 0.0, "simulated")

    ledger = Ledger(path, epsilon=1.0)
    for wrong in (Simulated(), Promised()):
        with pytest.raises(ReportError, match="simulated"):
            ledger.report(wrong, {})
    assert len(ledger.table()) == 0


def test_closed(path):
    with Ledger(path, epsilon=1.0) as ledger:
        ledger.report(SMALL, 0)
    ledger.close()
    for call in (lambda: ledger.spent, lambda: ledger.report(SMALL, 0), ledger.table):
        with pytest.raises(ParameterError, match="closed"):
            call()
    assert "closed" in repr(ledger)


def test_it_is_shown_pickled_and_used_by_threads(path):
    ledger = Ledger(path, epsilon=8.0)
    copy = pickle.loads(pickle.dumps(ledger))
    with ThreadPoolExecutor(8) as pool:
        seen = set(pool.map(lambda one: one.report(WIDE, 5).tobytes(), [ledger, copy] * 20))
    assert len(seen) == 1
    assert rounds(ledger) == 1
    assert repr(ledger) == f"Ledger({str(path)!r})"
    assert list(ledger.table().columns) == ["plan", "answers", "reserved for", "rounds", "spent", "reserved"]


def test_no_value_is_stored_and_digests_have_a_key(tmp_path, path):
    plan = dither.plan(Schema({"income": Numeric(0, 200_000)}), 1.0, users=100_000)
    digests = set()
    for name in ("a", "b"):
        ledger = Ledger(tmp_path / name, epsilon=2.0)
        for income in (123_456.0, 54_321.0):
            ledger.report(plan, {"income": income})
            encoded = plan.parts[0].columns[0].encode([income])
            raw = (tmp_path / name).read_bytes()
            assert encoded.tobytes() not in raw
            assert canonical(encoded) not in raw
        with sqlite3.connect(tmp_path / name) as connection:
            ((digest,),) = connection.execute("SELECT made_for FROM answers").fetchall()
        connection.close()
        digests.add(digest)
        assert len(digest) == 32
    assert len(digests) == 2
    if os.name == "posix":
        assert (tmp_path / "a").stat().st_mode & 0o077 == 0


# Files that cannot be trusted, read or written -------------------------------------------------------------------


def refused(path, words: str, keep: bool = True) -> str:
    """Opening it is refused with these words, and the file is as it was."""
    before = path.read_bytes() if keep else b""
    with pytest.raises(LedgerError, match=words) as caught:
        Ledger(path, epsilon=4.0)
    assert isinstance(caught.value, DitherError | OSError)
    assert caught.value.__context__ is None
    if keep:
        assert path.read_bytes() == before
    return str(caught.value)


@pytest.fixture
def used(path):
    """A ledger with a report in it."""
    ledger = Ledger(path, epsilon=4.0)
    ledger.report(WIDE, 3)
    ledger.report(WIDE, 4)
    return ledger


def test_damaged_files_are_refused_and_kept(path, used):
    whole = path.read_bytes()
    last = len(whole.rstrip(b"\0")) - 1  # zeros at the end are read whether they are there or not
    for kept in (0, 1, 15, 16, 100, 1000, len(whole) // 2, last):
        path.write_bytes(whole[:kept])
        assert "forgotten" in refused(path, "damaged")
    for content in (b"not a database at all" * 100, b"\0" * len(whole), whole[::-1]):
        path.write_bytes(content)
        assert "budget as spent" in refused(path, "damaged")
    path.write_bytes(whole)
    assert rounds(Ledger(path)) == 2


@pytest.mark.wide
def test_a_flipped_byte_is_refused_or_does_not_matter(path, used):
    whole = path.read_bytes()
    report = used.report(WIDE, 4).tobytes()
    places = np.random.default_rng(1).choice(len(whole), 300, replace=False)
    meaning = [place for place in range(len(whole)) if whole[place]]  # most of a page is empty
    places = [*range(100), *places, *np.random.default_rng(2).choice(meaning, 300, replace=False)]
    refusals = 0
    for place in map(int, places):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        for end in ("-journal", "-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        try:
            again = Ledger(path)
            assert again.report(WIDE, 4).tobytes() == report
            assert rounds(again) == 2
        except LedgerError:
            refusals += 1
    assert refusals > 100


def edit(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM facts WHERE name = 'key'",
        "DELETE FROM facts WHERE name = 'seal'",
        "UPDATE facts SET value = x'00' WHERE name = 'key'",
        "UPDATE facts SET value = zeroblob(32) WHERE name = 'key'",
        "UPDATE facts SET value = 100.0 WHERE name = 'epsilon'",
        "UPDATE plans SET rounds = 100",
        "UPDATE plans SET epsilon = 0.1",
        "DELETE FROM charges WHERE round = 2",
        "UPDATE answers SET round = 0",
        "UPDATE answers SET report = x'00'",
        "DELETE FROM answers",
        "DROP TABLE charges",
        "ALTER TABLE answers ADD COLUMN more",
        "PRAGMA user_version = 0",
    ],
)
def test_edited_files_are_refused(path, used, statement):
    edit(path, statement)
    refused(path, "damaged")
    with pytest.raises(LedgerError):
        used.report(WIDE, 3)


def test_files_of_others_are_refused(tmp_path, path, used):
    edit(path, "PRAGMA user_version = 2")
    refused(path, "newer version")
    edit(path, "PRAGMA user_version = 1", "PRAGMA application_id = 7")
    refused(path, "damaged")
    foreign = tmp_path / "foreign.db"
    edit(foreign, "CREATE TABLE mail (text)")
    refused(foreign, "but no ledger")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", "not a file", keep=False)
    refused(tmp_path / "no such" / "ledger.db", "make it first", keep=False)
    assert not (tmp_path / "no such").exists()


def test_a_ledger_that_is_gone_is_not_made_anew_unasked(tmp_path, path, used):
    path.rename(tmp_path / "away")
    with pytest.raises(LedgerError, match="moved or deleted"):
        used.report(WIDE, 4)
    (tmp_path / "ledger.db-journal").write_bytes(b"left over")
    refused(path, "forgotten", keep=False)
    assert not path.exists()


def limited(monkeypatch, setting: str) -> None:
    """Every connection has this setting."""
    production = store._connect

    def connect(*arguments):
        connection = production(*arguments)
        connection.execute(setting)
        return connection

    monkeypatch.setattr(store, "_connect", connect)


def test_what_cannot_be_stored_is_not_sent(tmp_path, path, monkeypatch):
    Ledger(path, epsilon=1000.0)
    pages = path.stat().st_size // 4096
    ledger = Ledger(path)
    with monkeypatch.context() as full:
        limited(full, f"PRAGMA max_page_count={pages}")
        mechanism = Unary(k=100_000, epsilon=1.0)  # a report that needs new pages
        for value in (0, 1):
            with pytest.raises(LedgerError, match="no space"):
                ledger.report(mechanism, value)
        limited(full, "PRAGMA max_page_count=2")
        with pytest.raises(LedgerError, match="no ledger can be made"):
            Ledger(tmp_path / "other", epsilon=1.0)
    assert len(ledger.table()) == 0
    assert sorted(os.listdir(tmp_path)) == ["ledger.db"]


def check_silence(tmp_path, monkeypatch):
    """Where only a fresh report cannot be stored, the last one is repeated: silence would tell of the change."""
    ledger = Ledger(tmp_path / "silence", epsilon=8.0)
    first = ledger.report(WIDE, 1)

    class Full(sqlite3.Connection):
        def execute(self, statement, *rest):
            if statement.startswith("INSERT INTO charges"):
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(statement, *rest)

    with monkeypatch.context() as full:
        connect = sqlite3.connect
        full.setattr(store.sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Full))
        assert ledger.report(WIDE, 2).tobytes() == first.tobytes()
    assert rounds(ledger) == 1
    assert ledger.report(WIDE, 2).tobytes() != first.tobytes()
    assert rounds(ledger) == 2


def test_a_change_that_cannot_be_stored_is_not_told_by_silence(tmp_path, monkeypatch):
    check_silence(tmp_path, monkeypatch)


def test_a_change_is_not_told_by_the_time_that_the_disk_takes(path, used, monkeypatch):
    statements: list[str] = []

    class Watched(sqlite3.Connection):
        def execute(self, statement, *rest):
            statements.append(statement)
            return super().execute(statement, *rest)

    connect = sqlite3.connect
    monkeypatch.setattr(store.sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Watched))
    done = []
    for value in (4, 5):  # unchanged, changed
        statements.clear()
        used.report(WIDE, value)
        done.append([each for each in statements if not each.startswith("INSERT INTO charges")])
        assert len(statements) - len(done[-1]) == (value == 5)
    assert done[0] == done[1]
    assert done[0][-1] == "COMMIT"


def test_read_only_files_are_refused_whether_the_value_changed_or_not(path, used, monkeypatch):
    # The superuser may write what is read-only, so the connection is made so.
    production = store._connect

    def connect(where, timeout):
        connection = sqlite3.connect(f"{where.as_uri()}?mode=ro", uri=True, isolation_level=None)
        production(where, timeout).close()
        return connection

    monkeypatch.setattr(store, "_connect", connect)
    for value in (4, 5):
        with pytest.raises(LedgerError, match="cannot be read and written"):
            used.report(WIDE, value)


def check_waits(path):
    """While another process is in the ledger, nobody gets an answer, whatever the value."""
    Ledger(path, epsilon=8.0).report(WIDE, 1)
    ledger = Ledger(path, timeout=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    try:
        for lock in ("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"):
            other.execute(lock)
            for value in (1, 2):
                with pytest.raises(LedgerError, match="another process"):
                    ledger.report(WIDE, value)
            other.execute("ROLLBACK")
        assert rounds(ledger) == 1
    finally:
        other.close()


def test_one_at_a_time(path):
    check_waits(path)


# Mutants --------------------------------------------------------------------------------------------------------


def rewritten(monkeypatch, before: str, after: str) -> None:
    """Every connection takes one statement for another."""

    class Changed(sqlite3.Connection):
        def execute(self, statement, *rest):
            return super().execute(statement.replace(before, after), *rest)

    connect = sqlite3.connect
    monkeypatch.setattr(store.sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Changed))


def test_mutant_without_a_lock(path, monkeypatch):
    Ledger(path, epsilon=8.0)
    rewritten(monkeypatch, "BEGIN EXCLUSIVE", "BEGIN")
    with pytest.raises(BaseException, match=r"DID NOT RAISE|Regex pattern did not match"):
        check_waits(path)


def test_mutant_that_does_not_commit(path, monkeypatch):
    Ledger(path, epsilon=4.0)
    rewritten(monkeypatch, "COMMIT", "SELECT 1")
    with pytest.raises(AssertionError):
        test_an_unchanged_value_gets_the_same_report_and_costs_nothing_more(path)


def test_mutant_without_a_key(tmp_path, path, monkeypatch):
    production = store.keyed
    monkeypatch.setattr(store, "keyed", lambda key, *parts: production(b"\0" * 32, *parts))
    with pytest.raises(AssertionError):
        test_no_value_is_stored_and_digests_have_a_key(tmp_path, path)


def test_mutant_that_falls_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "STORING", ())
    with pytest.raises(sqlite3.OperationalError):
        check_silence(tmp_path, monkeypatch)


def test_mutant_that_never_stops(path, monkeypatch):
    from dither.privacy.ledger import ledger as device

    monkeypatch.setattr(device, "affordable_rounds", lambda *_: 1 << 50)
    with pytest.raises(AssertionError):
        test_a_changed_value_is_charged_and_over_budget_the_last_report_is_repeated(path)


def test_mutant_that_admits_by_what_was_spent(tmp_path, monkeypatch):
    from dither.privacy.ledger import ledger as device

    production = device._reservation

    def by_spent(book, outline, *rest):
        if outline.fingerprint not in book.reserved:
            book.reserved = {plan: row._replace(rounds=book.paid(plan)) for plan, row in book.reserved.items()}
        return production(book, outline, *rest)

    monkeypatch.setattr(device, "_reservation", by_spent)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_plans_are_admitted_by_public_facts_only(tmp_path)


# Against a model ------------------------------------------------------------------------------------------------

MECHANISMS = [Unary(k=64, epsilon=each) for each in (1.0, 0.75)]


class Against(RuleBasedStateMachine):
    """The ledger and a dictionary do the same, whatever is asked in whatever order, reopened at any time."""

    def __init__(self) -> None:
        import tempfile

        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/ledger"
        self.ledger = Ledger(self.path, epsilon=5.0)
        self.model: dict[int, dict[str, Any]] = {}

    def left(self) -> Fraction:
        taken = [Fraction(MECHANISMS[which].guarantee.epsilon) * one["rounds"] for which, one in self.model.items()]
        return Fraction(5) - sum(taken, Fraction(0))

    def admitted(self, which: int, kind: str, rounds: int | None) -> bool:
        fits = int(self.left() // Fraction(MECHANISMS[which].guarantee.epsilon))
        if which not in self.model and (rounds or 1) <= fits:
            fresh = {"kind": kind, "rounds": rounds or fits, "paid": 0, "for": None, "report": b""}
            self.model[which] = fresh
        return which in self.model

    @rule(which=st.sampled_from([0, 1]), changes=st.integers(0, 4))
    def reserve(self, which, changes):
        known = self.model.get(which)
        try:
            self.ledger.reserve(MECHANISMS[which], changes=changes)
        except BudgetError:
            assert not self.admitted(which, "changes", changes + 1)
        except ParameterError:
            assert known
            assert (known["kind"], known["rounds"]) != ("changes", changes + 1)
        else:
            assert self.admitted(which, "changes", changes + 1)
            assert (self.model[which]["kind"], self.model[which]["rounds"]) == ("changes", changes + 1)

    @rule(which=st.sampled_from([0, 1]), value=st.integers(0, 3), period=st.none() | st.integers(0, 2))
    def report(self, which, value, period):
        kind = "changes" if period is None else "periods"
        known = self.model.get(which)
        try:
            report = self.ledger.report(MECHANISMS[which], value, period=period).tobytes()
        except BudgetError:
            assert not self.admitted(which, kind, None)
            return
        except ParameterError:
            assert known
            assert known["kind"] != kind
            return
        assert self.admitted(which, kind, None)
        one, subject = self.model[which], value if period is None else period
        if one["for"] != subject and one["paid"] < one["rounds"]:
            assert report != one["report"]  # by chance with probability below 1e-6
            one.update(paid=one["paid"] + 1, report=report)
            one["for"] = subject
        assert report == one["report"]

    @rule()
    def reopen(self):
        self.ledger = Ledger(self.path)

    @invariant()
    def the_sums_agree(self):
        spent = sum(one["paid"] * MECHANISMS[which].guarantee.epsilon for which, one in self.model.items())
        assert self.ledger.spent.epsilon == pytest.approx(spent)
        assert sum(self.ledger.table().columns["rounds"]) == sum(one["paid"] for one in self.model.values())
        assert self.ledger.spent.epsilon <= self.ledger.reserved.epsilon <= 5.0

    def teardown(self):
        self.folder.cleanup()


@pytest.mark.wide
def test_against_a_model():
    from hypothesis.stateful import run_state_machine_as_test

    checks = [HealthCheck.too_slow]
    run_state_machine_as_test(
        Against, settings=settings(max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=checks)
    )


def test_reports_are_those_of_the_plan(path):
    plan = dither.plan(SCHEMA, 1.0, users=100_000)
    kept, usual = Ledger(path, epsilon=1.0).report(plan, {}), plan.report({})
    for name, reports in kept.items():
        assert isinstance(reports, Reports)
        assert (reports.dtype, reports.maker) == (usual[name].dtype, usual[name].maker)
