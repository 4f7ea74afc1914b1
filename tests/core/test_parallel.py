"""Chunks cover every row exactly once, whatever the numbers, and an error in a chunk comes out.

That results do not depend on the cut is tested where the results are; here is the cut itself.
"""

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dither
from dither.core import parallel
from dither.core.parallel import each_chunk, sum_chunks, threads

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
