"""The collector without HTTP: what arrives together is committed together, and counted to the bit."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dither
from collect.collectors import batches, other_plan, small_plan
from dither.collect.collector import (
    MOST_EVALUATIONS,
    BusyError,
    Collector,
    CollectorLimits,
    RefusedBatchError,
    refuse_dear,
)
from dither.collect.joint_checks import BatchVerdict, check_batches
from dither.collect.sqlite_store import SqliteStore
from dither.collect.store import CONFLICT, DUPLICATE, NEW, Outcome, StoreError
from dither.core.reports import REASONS
from dither.errors import ParameterError, WireError
from dither.wire import BatchFormat


def collected(
    folder: Path,
    work: Callable[[Collector], Coroutine[Any, Any, Any]],
    limits: CollectorLimits | None = None,
    **options: Any,
) -> Any:
    """What some work with a collector gives; then it is stopped."""

    async def run() -> Any:
        with SqliteStore(folder, collects=True) as store:
            collector = Collector(store, limits)
            for plan in options.get("plans", [small_plan()]):
                collector.add(plan.to_json().encode())
            collector.start()
            try:
                return await work(collector)
            finally:
                await asyncio.to_thread(collector.stop)

    return asyncio.run(run())


def counted(folder: Path, plan: dither.Plan) -> Any:
    """The tally in a store that nobody uses."""
    with SqliteStore(folder) as store:
        (campaign,) = (each for each in store.campaigns() if each.plan == plan.fingerprint)
        found = store.counted(campaign.number)
        assert found.waiting == 0
        return found.tallies[0]


async def sent(collector: Collector, plan: dither.Plan, bodies: list[bytes], name: str = "") -> list[Any]:
    """What became of each of these batches, sent at once."""
    running = collector.running[plan.fingerprint]
    waiting = [collector.submit(running, f"{name}{place}".encode(), body) for place, body in enumerate(bodies)]
    return await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_the_tally_is_that_of_all_reports_and_repeats_change_nothing(tmp_path, most):
    plan, bodies = small_plan(), batches(small_plan(), 600, most)

    async def work(collector: Collector) -> None:
        first = await sent(collector, plan, bodies)
        assert {outcome.status for outcome in first} == {NEW}
        assert sum(outcome.accepted for outcome in first) == 600
        again = await sent(collector, plan, bodies)
        assert [each._replace(status=NEW) for each in again] == first
        assert {outcome.status for outcome in again} == {DUPLICATE}
        assert (await sent(collector, plan, bodies[1:2]))[0].status == (CONFLICT if len(bodies) > 1 else DUPLICATE)

    if most == 1000:
        bodies += batches(small_plan(), 5, 5)  # so that there is another one
        bodies, extra = bodies[:1], bodies[1:]
        collected(tmp_path, lambda collector: sent(collector, plan, bodies))
        assert collected(tmp_path, lambda collector: sent(collector, plan, extra))[0].status == CONFLICT
    else:
        collected(tmp_path, work)
    form = BatchFormat(plan)
    assert counted(tmp_path, plan).to_bytes() == form.tally(map(form.check, bodies)).to_bytes()


def test_one_bad_report_does_not_taint_the_others_and_bad_batches_leave_nothing(tmp_path):
    plan = other_plan()
    form, good = BatchFormat(plan), batches(other_plan(), 50, 1)
    mixed = batches(other_plan(), 4, 4)[0]
    mixed = mixed[:-1] + b"\xc8"
    simulated = form.pack(plan.randomize({"job": ["nurse"]}, seed=1))
    bad = [good[0][:-1] + b"\xc8", b"", b"rubbish", good[0][:-1], good[0] + b"x", simulated]
    reasons = ["out of range", "malformed", "malformed", "truncated", "trailing bytes", "simulated"]

    async def work(collector: Collector) -> None:
        answers = await sent(collector, plan, [*good, *bad, mixed])
        assert [answer.status for answer in answers[:50]] == [NEW] * 50
        assert [answer.reason for answer in answers[50:-1]] == reasons
        assert all(isinstance(answer, RefusedBatchError) for answer in answers[50:-1])
        assert answers[-1] == Outcome(NEW, 3, {"out of range": 1})
        assert (await sent(collector, plan, [bad[0]], "again"))[0].rejected == {"out of range": 1}

    collected(tmp_path, work, plans=[plan])
    found = counted(tmp_path, plan)
    assert (found.reports, found.dropped) == (53, {"out of range": 1})
    assert found == form.tally(map(form.check, [*good, mixed]))


def test_campaigns_are_apart(tmp_path):
    plans = small_plan(), other_plan()
    bodies = [batches(plan, 40, 1) for plan in plans]

    async def work(collector: Collector) -> None:
        await asyncio.gather(*(sent(collector, plan, each) for plan, each in zip(plans, bodies, strict=True)))

    collected(tmp_path, work, plans=plans)
    for plan, each in zip(plans, bodies, strict=True):
        form = BatchFormat(plan)
        assert counted(tmp_path, plan).to_bytes() == form.tally(map(form.check, each)).to_bytes()


def test_what_an_earlier_life_stored_and_did_not_count_is_counted(tmp_path, monkeypatch):
    plan, bodies = small_plan(), batches(small_plan(), 90, 10)
    with monkeypatch.context() as patch:
        patch.setattr(Collector, "_count", lambda self: None)  # a counter that does nothing
        collected(tmp_path, lambda collector: sent(collector, plan, bodies))
    with SqliteStore(tmp_path) as store:
        assert store.counted(1).waiting == len(bodies)
        assert not store.counted(1).tallies

    async def nothing(collector: Collector) -> None:
        await asyncio.sleep(0)

    collected(tmp_path, nothing)
    form = BatchFormat(plan)
    assert counted(tmp_path, plan).to_bytes() == form.tally(map(form.check, bodies)).to_bytes()


def test_what_is_too_much_for_the_memory_is_read_back_from_the_store(tmp_path):
    plan, bodies = small_plan(), batches(small_plan(), 300, 10)
    collected(tmp_path, lambda collector: sent(collector, plan, bodies), CollectorLimits(held_bytes=0))
    form = BatchFormat(plan)
    assert counted(tmp_path, plan).to_bytes() == form.tally(map(form.check, bodies)).to_bytes()


@pytest.mark.parametrize(
    "limits",
    [CollectorLimits(queued_bytes=1000), CollectorLimits(queued_batches=5), CollectorLimits(uncounted_bytes=-1)],
    ids=str,
)
def test_more_than_there_is_room_for_is_turned_away(tmp_path, limits):
    plan, bodies = small_plan(), batches(small_plan(), 100, 1)

    async def work(collector: Collector) -> int:
        running, waiting = collector.running[plan.fingerprint], []
        turned_away = 0
        for place, body in enumerate(bodies):
            try:
                waiting.append(collector.submit(running, str(place).encode(), body))
            except BusyError:
                turned_away += 1
        assert turned_away
        answers = await asyncio.gather(*waiting)
        return sum(answer.accepted for answer in answers)

    accepted = collected(tmp_path, work, limits)
    with SqliteStore(tmp_path) as store:
        assert accepted == sum(tally.reports for tally in store.counted(1).tallies.values())


def test_a_store_that_fails_acknowledges_nothing_and_the_collector_lives_on(tmp_path, monkeypatch):
    plan, bodies = small_plan(), batches(small_plan(), 20, 1)

    async def work(collector: Collector) -> None:
        commit = collector.store.commit
        failures = iter([StoreError("full"), RuntimeError("nobody foresaw it")])

        def failing(submissions: Any) -> Any:
            failure = next(failures, None)
            if failure is None:
                return commit(submissions)
            raise failure

        monkeypatch.setattr(collector.store, "commit", failing)
        for _ in range(2):
            answers = await sent(collector, plan, bodies)
            assert all(type(answer) is StoreError for answer in answers)
        assert {answer.status for answer in await sent(collector, plan, bodies)} == {NEW}

    collected(tmp_path, work)
    assert counted(tmp_path, plan).reports == 20


def test_counting_that_fails_is_tried_again(tmp_path, monkeypatch):
    plan, bodies = small_plan(), batches(small_plan(), 20, 1)

    async def work(collector: Collector) -> None:
        fold, tried = collector.store.fold, threading.Event()

        def failing(*arguments: Any) -> bool:
            if not tried.is_set():
                tried.set()
                raise StoreError("full")
            return fold(*arguments)

        monkeypatch.setattr(collector.store, "fold", failing)
        await sent(collector, plan, bodies)
        await asyncio.to_thread(tried.wait, 30)
        for _ in range(300):
            if collector.figures.folds:
                break
            await asyncio.sleep(0.1)

    collected(tmp_path, work)
    assert counted(tmp_path, plan).reports == 20


def test_plans_that_are_too_dear_to_count_are_refused_with_advice():
    plan, dear = other_plan(), dither.LocalHash(k=MOST_EVALUATIONS + 1, epsilon=1.0)
    refuse_dear(plan)
    with pytest.raises(ParameterError, match="cohorts"):
        refuse_dear(replace(plan, parts=(plan.parts[0]._replace(mechanism=dear),)))


# Batches that are checked together ---------------------------------------------------------------------------------


def same(one: BatchVerdict | WireError, other: BatchVerdict | WireError) -> bool:
    if isinstance(one, WireError) or isinstance(other, WireError):
        return repr(one) == repr(other)
    return (one.accepted, one.rejected) == (other.accepted, other.rejected)


@lru_cache
def sources(plan: int) -> list[bytes]:
    """Batches to begin with, the same in all examples."""
    chosen = (small_plan(), other_plan())[plan]
    return batches(chosen, 12, 1) + batches(chosen, 12, 3)


@given(st.data())
def test_batches_that_are_checked_together_get_the_verdicts_that_they_get_alone(data):
    """Of damaged ones too: any byte of any batch may be any other."""
    plan = data.draw(st.integers(0, 1))
    form = BatchFormat((small_plan(), other_plan())[plan])
    bodies = data.draw(st.lists(st.sampled_from(sources(plan)), min_size=1, max_size=30))
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(0, len(bodies) - 1))
        body = bytearray(bodies[place])
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        bodies[place] = bytes(body)
    together, alone = check_batches(form, bodies), [check_batches(form, [body])[0] for body in bodies]
    assert all(map(same, together, alone))
    found = {id(each.joint): each.joint for each in together if isinstance(each, BatchVerdict)}
    assert form.tally(found.values()) == form.tally(each.joint for each in alone if isinstance(each, BatchVerdict))


def test_batches_of_several_sections_are_joined_section_by_section():
    schema = dither.Schema({"job": dither.Categorical(["a", "b", "c"]), "age": dither.Ordinal(0, 3)})
    plan = dither.plan(schema, epsilon=2.0, users=1000)
    form = BatchFormat(plan)
    bodies = [form.pack(plan.randomize({"job": ["a", "b"] * 20, "age": [0, 3] * 20})) for _ in range(8)]
    bodies = [body for body in bodies if len(body) == len(bodies[0])]
    several = [body[:-1] + b"\xff" if place % 2 else body for place, body in enumerate(bodies)]
    for body, verdict in zip(several, check_batches(form, several), strict=True):
        assert same(verdict, check_batches(form, [body])[0])
    assert len(REASONS) == 5
