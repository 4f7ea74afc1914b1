"""Chunks cover every row exactly once, whatever the numbers, and an error in a chunk comes out.

That results do not depend on the cut is tested where the results are; here is the cut itself.
"""

import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dither
from dither.core import parallel
from dither.core.parallel import as_they_come, each_chunk, sum_chunks, threads

NUMBERS = [0, 1, 2, 3, 7, 8, 9, 100, 1000, 1 << 14, (1 << 14) + 1, 50_000]
CHUNKS = [1, 2, 3, 7, 64, 1000, 1 << 14, 1 << 20]
PAIRS = [(rows, chunk) for rows in NUMBERS for chunk in CHUNKS if rows <= 3000 * chunk]


@pytest.fixture(params=["1", "2", "3", "16"])
def some_threads(request, monkeypatch) -> int:
    monkeypatch.setenv("DITHER_THREADS", request.param)
    return int(request.param)


def slices(rows: int, chunk: int) -> list[slice]:
    found: list[slice] = []
    each_chunk(found.append, rows, chunk)
    return found


def covers(found: list[slice], rows: int, chunk: int) -> bool:
    """Whether the slices are neither empty nor too long, and cover each row once."""
    times = np.zeros(rows, dtype=int)
    for part in found:
        if not 0 < part.stop - part.start <= chunk or part.step is not None:
            return False
        times[part] += 1
    return bool((times == 1).all()) and sum(part.stop - part.start for part in found) == rows


def test_the_check_can_fail():
    assert covers([slice(0, 4), slice(4, 6)], 6, 4)
    assert covers([], 0, 4)
    for wrong in ([slice(0, 4)], [slice(0, 4), slice(3, 6)], [slice(0, 6)], [slice(0, 4), slice(4, 8)], []):
        assert not covers(wrong, 6, 4)


def test_every_row_is_in_one_chunk(some_threads):
    for rows, chunk in PAIRS:
        assert covers(slices(rows, chunk), rows, chunk)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(rows=st.integers(0, 40_000), chunk=st.integers(50, 50_000), workers=st.integers(1, 9))
def test_every_row_is_in_one_chunk_for_any_numbers(rows, chunk, workers):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DITHER_THREADS", str(workers))
        assert covers(slices(rows, chunk), rows, chunk)
        assert sum_chunks(lambda part: part.stop - part.start, rows, chunk) == (rows or None)


def test_sums_are_sums(some_threads):
    values = np.arange(50_000) ** 2 % 1013
    for rows, chunk in PAIRS:
        found = sum_chunks(lambda part: values[part].sum(), rows, chunk)
        assert found == (values[:rows].sum() if rows else None)


def test_sums_keep_the_order(some_threads):
    # Tuples add by joining, which shows the order in which the parts were put together.
    assert sum_chunks(lambda part: tuple(range(part.start, part.stop)), 1000, 7) == tuple(range(1000))


def test_no_rows_no_work(some_threads):
    assert slices(0, 10) == []
    assert sum_chunks(lambda part: 1, 0, 10) is None


class BrokenError(Exception):
    """Raised by a chunk."""


@pytest.mark.parametrize("bad", [0, 31_999, 32_000, 99_999])
def test_errors_come_out(some_threads, bad):
    def work(part: slice) -> int:
        if part.start <= bad < part.stop:
            raise BrokenError(bad)
        return 1

    for run in (each_chunk, sum_chunks):
        with pytest.raises(BrokenError):
            run(work, 100_000, 1000)


def test_an_error_of_a_mechanism_comes_out(some_threads):
    mechanism = dither.GRR(5, 1.0)
    reports = mechanism.randomize(np.zeros(100_000, dtype=int), seed=1)
    reports["value"][77_777] = 5
    with pytest.raises(dither.DitherError, match="report 77777 "):
        mechanism.tally(reports)


def test_several_threads_are_used(monkeypatch):
    monkeypatch.setenv("DITHER_THREADS", "3")
    meeting = threading.Barrier(3, timeout=30)  # passes only if three are there at once
    each_chunk(lambda part: meeting.wait(), 3 * (1 << 14), 1 << 14)


def test_one_thread_is_this_thread(monkeypatch):
    monkeypatch.setenv("DITHER_THREADS", "1")
    found: list[threading.Thread] = []
    each_chunk(lambda part: found.append(threading.current_thread()), 100_000, 1000)
    assert set(found) == {threading.current_thread()}
    assert len(found) == 100


def test_few_rows_are_not_worth_a_thread(monkeypatch):
    monkeypatch.setenv("DITHER_THREADS", "8")
    found: list[threading.Thread] = []
    each_chunk(lambda part: found.append(threading.current_thread()), parallel._WORTH_A_THREAD, 1 << 20)
    assert found == [threading.current_thread()]


def test_the_environment_says_how_many_threads(monkeypatch):
    for asked in ("1", "2", "17", "007"):
        monkeypatch.setenv("DITHER_THREADS", asked)
        assert threads() == int(asked)
    monkeypatch.delenv("DITHER_THREADS")
    cores = threads()
    assert 1 <= cores <= (os.cpu_count() or 1)
    for nonsense in ("", "0", "-3", "many", "2.5", " 4", "1e3"):
        monkeypatch.setenv("DITHER_THREADS", nonsense)
        assert threads() == cores


def test_a_superscript_is_not_a_number_of_threads(monkeypatch):
    monkeypatch.delenv("DITHER_THREADS", raising=False)
    cores = threads()
    monkeypatch.setenv("DITHER_THREADS", "²")
    assert threads() == cores


# As they come ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 100])
def test_each_item_comes_once_with_its_own_work(some_threads, count):
    found = list(as_they_come(lambda item: item * item, range(count)))
    assert sorted(found) == [(item, item * item) for item in range(count)]


def test_equal_items_are_different_work(some_threads):
    assert list(as_they_come(lambda item: item + 1, [7] * 20)) == [(7, 8)] * 20


def test_what_is_done_first_comes_first(monkeypatch):
    monkeypatch.setenv("DITHER_THREADS", "3")
    gate = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert gate.wait(30)
        return item

    found = []
    for item, _ in as_they_come(work, range(6)):
        found.append(item)
        if len(found) == 5:
            gate.set()  # the first is still at work: all others have passed it
    assert found[-1] == 0
    assert sorted(found) == list(range(6))


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_only_a_few_are_worked_on_at_a_time(monkeypatch, workers):
    monkeypatch.setenv("DITHER_THREADS", str(workers))
    lock, running, most, begun, ahead, taken = threading.Lock(), 0, 0, 0, 0, 0

    def work(item: int) -> int:
        nonlocal running, most, begun, ahead
        with lock:
            running, begun = running + 1, begun + 1
            most, ahead = max(most, running), max(ahead, begun - taken)
        time.sleep(0.002)
        with lock:
            running -= 1
        return item

    for _ in as_they_come(work, range(60)):
        taken += 1
        time.sleep(0.003)  # whoever takes the results is slower than the work
    assert begun == taken == 60
    assert 1 < most <= workers
    assert ahead <= workers + 2  # those in the hand, and the one that is looked at


@pytest.mark.parametrize("bad", [0, 3, 19])
def test_an_error_of_an_item_comes_out_and_nothing_is_left_running(some_threads, bad):
    begun, ended = [], []

    def work(item: int) -> int:
        begun.append(item)
        try:
            if item == bad:
                raise BrokenError(item)
            time.sleep(0.001)
            return item
        finally:
            ended.append(item)

    with pytest.raises(BrokenError):
        list(as_they_come(work, range(20)))
    assert sorted(begun) == sorted(ended)
    assert len(begun) <= bad + 2 * some_threads + 2
    count = len(begun)
    time.sleep(0.02)
    assert len(begun) == count
    assert sorted(as_they_come(lambda item: item, range(5))) == [(item, item) for item in range(5)]  # threads live on


def test_errors_of_all_items_are_one_error(some_threads):
    def work(item: int) -> None:
        raise BrokenError(item)

    with pytest.raises(BrokenError):
        list(as_they_come(work, range(20)))


def test_stopping_early_leaves_nothing_running(some_threads):
    begun, ended = [], []

    def work(item: int) -> int:
        begun.append(item)
        time.sleep(0.002)
        ended.append(item)
        return item

    coming = as_they_come(work, range(1000))
    next(coming)
    coming.close()  # type: ignore[attr-defined]
    count = len(begun)
    assert sorted(begun) == sorted(ended)
    assert count <= some_threads + 2
    time.sleep(0.02)
    assert len(begun) == count


def test_an_interruption_of_the_taker_leaves_nothing_running(monkeypatch):
    monkeypatch.setenv("DITHER_THREADS", "3")
    begun, ended = [], []

    def work(item: int) -> int:
        begun.append(item)
        time.sleep(0.002)
        ended.append(item)
        return item

    def take() -> None:
        for _ in (coming := as_they_come(work, range(100))):
            try:
                raise KeyboardInterrupt
            finally:
                coming.close()  # type: ignore[attr-defined]

    with pytest.raises(KeyboardInterrupt):
        take()
    assert sorted(begun) == sorted(ended)


def test_a_single_item_is_worked_on_here(some_threads):
    # So that its own chunks can be spread over the threads.
    ((_, thread),) = as_they_come(lambda item: threading.current_thread(), ["only"])
    assert thread is threading.current_thread()


def test_several_items_are_worked_on_at_once(monkeypatch):
    monkeypatch.setenv("DITHER_THREADS", "3")
    meeting = threading.Barrier(3, timeout=30)
    found = [threads_name for _, threads_name in as_they_come(lambda item: meeting.wait() * 0, range(3))]
    assert found == [0, 0, 0]


def test_chunks_of_an_item_stay_on_its_thread(monkeypatch):
    monkeypatch.setenv("DITHER_THREADS", "2")

    def work(item: int) -> set[threading.Thread]:
        found = set()
        each_chunk(lambda part: found.add(threading.current_thread()), 100_000, 1000)
        return found | {threading.current_thread()}

    for _, found in as_they_come(work, range(8)):
        assert len(found) == 1
        assert threading.current_thread() not in found


def test_items_inside_of_items_do_not_wait_for_each_other(monkeypatch):
    monkeypatch.setenv("DITHER_THREADS", "2")

    def work(item: int) -> int:
        return sum(inner for _, inner in as_they_come(lambda each: each, range(item + 2)))

    assert sorted(as_they_come(work, range(10))) == [(item, sum(range(item + 2))) for item in range(10)]
