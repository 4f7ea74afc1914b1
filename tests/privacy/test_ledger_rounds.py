"""A device that answers a plan with rounds: what it sends depends on public facts, on its memory, and on its values."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import dither
from dither.core.schedule import FRESH, KEPT, ONE
from dither.errors import BudgetError, ParameterError
from dither.privacy.ledger import Ledger

SCHEMA = dither.Schema({"job": dither.Categorical(["nurse", "driver", "teacher", "other"])})
NAME = "histogram(job)"


def sent(ledger: Ledger, plan: dither.Plan, job: str, period: str | int) -> bytes:
    """All that the device sends, as bytes."""
    return b"|".join(
        np.asarray(reports).tobytes() for reports in ledger.report(plan, {"job": job}, period=period).values()
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def test_one_round_each(tmp_path: Path):
    plan = dither.plan(SCHEMA, 1.0, users=1000, rounds=4)
    assert plan.schedule.mode == ONE
    turns = []
    for device in range(24):
        with Ledger(tmp_path / f"{device}.db", epsilon=1.0) as ledger:
            reports = [sent(ledger, plan, "nurse", number) for number in range(4)]
            again = [sent(ledger, plan, "driver", number) for number in range(4)]
            assert again == reports, "the round is drawn once, and its report is kept"
            assert [bool(each) for each in reports].count(True) == 1
            turns.append([bool(each) for each in reports].index(True))
            assert ledger.spent.epsilon == ledger.reserved.epsilon == plan.guarantee.epsilon
            assert [ledger.keeps(plan, number) for number in range(4)] == [bool(each) for each in reports]
    assert len(set(turns)) > 1, "devices draw different rounds: all the same with probability 4^-23"


def test_a_round_that_was_missed_stays_missed(tmp_path: Path):
    plan = dither.plan(SCHEMA, 1.0, users=1000, rounds=4)
    found = set()
    for device in range(24):
        with Ledger(tmp_path / f"{device}.db", epsilon=1.0) as ledger:
            found.add(bool(sent(ledger, plan, "nurse", 3)))
            assert ledger.spent.epsilon in (0.0, plan.guarantee.epsilon)
    assert found == {True, False}, "one of these has probability (3/4)^24 at most"


def test_fresh_noise_in_every_round(path: Path):
    plan = dither.plan(dither.Schema({"age": dither.Numeric(0, 100)}), 40.0, users=1000, rounds=8, first=5.0)
    assert plan.schedule.mode == FRESH

    def asked(number: int) -> bytes:
        return np.asarray(ledger.report(plan, {"age": 50.0}, period=number)["mean(age)"]).tobytes()

    with Ledger(path, epsilon=40.0) as ledger:
        reports = [asked(number) for number in range(8)]
        assert len(set(reports)) > 1
        assert asked(7) == reports[7]
        assert asked(2) == reports[7], "rounds go forward: what was last is repeated"


def test_from_memory_sent_as_it_is(path: Path):
    plan = dither.plan(SCHEMA, 16.0, users=1000, rounds=8, changes=1, first=16.0)
    assert plan.schedule.mode == KEPT
    assert not plan.parts[0].mechanism.remembers
    with Ledger(path, epsilon=16.0) as ledger:
        jobs = ["nurse", "nurse", "driver", "driver", "teacher", "nurse", "other", "other"]
        reports = [sent(ledger, plan, job, number) for number, job in enumerate(jobs)]
        assert (len(set(reports[:2])), len(set(reports[2:]))) == (1, 1), "after the last change it stays"
        assert ledger.spent.epsilon == plan.guarantee.epsilon, "paid for once, for all rounds"
    with Ledger(path) as ledger:
        assert sent(ledger, plan, "nurse", 7) == reports[7], "it survives the process"


def test_from_memory_randomized_again(path: Path):
    plan = dither.plan(SCHEMA, 2.0, users=1000, rounds=200, changes=0)
    assert plan.parts[0].mechanism.remembers
    with Ledger(path, epsilon=2.0) as ledger:
        reports = [sent(ledger, plan, "nurse", number) for number in range(60)]
        counts = np.unique(reports, return_counts=True)[1]
        again = plan.parts[0].mechanism._again  # type: ignore
        assert len(counts) > 1
        often = stats.binom.ppf(1e-6, 60, again.high / again.total)  # the kept one: rarer once in 10^6
        assert counts.max() >= often > 60 / 4
        repeated = [sent(ledger, plan, "other", 59) for _ in range(5)]
        assert set(repeated) == {reports[59]}, "a round has one report, and its value is looked at once"


def test_asked_in_the_past_it_repeats_its_last_report(path: Path):
    plan = dither.plan(SCHEMA, 2.0, users=1000, rounds=["W47", "W48", "W49", "W50", "W51", "W52"], changes=0, first=2.0)
    with Ledger(path, epsilon=2.0) as ledger:
        last = sent(ledger, plan, "nurse", "W49")
        assert sent(ledger, plan, "driver", "W47") == last


def test_the_budget_is_that_of_all_rounds(path: Path):
    plan = dither.plan(SCHEMA, 2.0, users=1000, rounds=30, changes=0)
    with Ledger(path, epsilon=3.0) as ledger:
        assert ledger.guarantee(plan) == ledger.reserve(plan) or ledger.reserved.epsilon <= 2.0
        assert ledger.reserve(plan).epsilon <= 2.0
        assert "all rounds of the plan" in str(ledger.table())
        with pytest.raises(BudgetError):
            ledger.reserve(dither.plan(SCHEMA, 1.5, users=1000, rounds=30))
        for odd in ({"changes": 1}, {"periods": 3}):
            with pytest.raises(ParameterError):
                ledger.reserve(plan, **odd)
        with pytest.raises(ParameterError):
            ledger.has_round(plan, 1)


def test_odd_periods(path: Path):
    plan = dither.plan(SCHEMA, 2.0, users=1000, rounds=["W47", "W48"])
    with Ledger(path, epsilon=2.0) as ledger:
        for odd in (None, "W49", 0, 1.5, b"W47", ["W47"], "nurse"):
            with pytest.raises(ParameterError, match="its periods are W47, W48"):
                ledger.report(plan, {"job": "nurse"}, period=odd)  # type: ignore
        assert not ledger.reserved.epsilon


def test_bad_values_are_reported_too(path: Path):
    plan = dither.plan(SCHEMA, 2.0, users=1000, rounds=9, changes=0)
    with Ledger(path, epsilon=2.0) as ledger:
        for number, odd in enumerate([{}, None, {"job": 7}, {"job": ["a", "b"]}]):
            assert len(ledger.report(plan, odd, period=number)[NAME]) == 1


def test_what_is_sent_is_counted(path: Path):
    plan = dither.plan(SCHEMA, 2.0, users=1000, rounds=9, changes=0)
    with Ledger(path, epsilon=2.0) as ledger:
        counted = {number: plan.tally(ledger.report(plan, {"job": "nurse"}, period=number)) for number in range(3)}
    found = plan.estimate_rounds(counted)  # type: ignore
    assert found.guarantee == plan.guarantee
    assert [found.reports[number] for number in found] == [1, 1, 1]
