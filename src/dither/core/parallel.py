"""Rows in chunks, on as many threads as there are cores.

Chunks keep memory flat: whatever the number of rows, only a few chunks of words exist at once. The heavy steps (the
cipher, NumPy's loops, compiled kernels) release the interpreter lock, so threads are enough. Results
never depend on the cut: randomness is addressed by row, and tallies are sums of integers.

The threads are kept: a new one starts with no memory of its own, and would spend half its time asking the system for
pages. They belong to one process (a forked child makes its own), and what runs on them never waits for them.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache, reduce
from itertools import islice, pairwise
from operator import add
from typing import Any, TypeVar

Item = TypeVar("Item")
Part = TypeVar("Part")
_NAME = "dither"
_WORTH_A_THREAD = 1 << 14  # rows; starting a thread costs about as much as randomizing a few thousand


def threads() -> int:
    """How many threads to use: the environment variable DITHER_THREADS, or the cores this process may use."""
    asked = os.environ.get("DITHER_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_chunk(work: Callable[[slice], object], rows: int, chunk: int) -> None:
    """Call `work` for consecutive slices that cover the rows."""
    _spread(lambda span: [work(part) for part in _cut(span, chunk)], rows, chunk)


def sum_chunks(work: Callable[[slice], Part], rows: int, chunk: int) -> Part | None:
    """The sum of `work` over consecutive slices that cover the rows; None if there are none."""
    parts = _spread(lambda span: _total(map(work, _cut(span, chunk))), rows, chunk)
    return _total(parts) if parts else None


def as_they_come(work: Callable[[Item], Part], items: Sequence[Item]) -> Iterator[tuple[Item, Part]]:
    """Each item with `work` of it, in the order in which threads finish; only a few are worked on at a time.

    The work must not wait for other work of this module: it is done on the same threads. A single item is worked on
    here, so that its own work can be spread.
    """
    workers = threads()
    if len(items) == 1 or workers == 1 or threading.current_thread().name.startswith(_NAME):
        for item in items:
            yield item, work(item)
        return
    waiting, running = iter(items), {}
    pool = _pool(os.getpid(), workers)
    try:
        while True:
            for item in islice(waiting, workers + 1 - len(running)):
                running[pool.submit(work, item)] = item
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
    finally:
        for future in running:
            future.cancel()
        wait(running)


def _total(parts: Iterable[Any]) -> Any:
    return reduce(add, parts)


def _spread(work: Callable[[slice], Part], rows: int, chunk: int) -> list[Part]:
    """One contiguous share of the rows for each thread."""
    shares = -(-rows // min(chunk, _WORTH_A_THREAD))
    workers = min(threads(), shares) if shares > 1 else 1
    if workers == 1 or threading.current_thread().name.startswith(_NAME):
        return [work(slice(0, rows))] if rows else []
    edges = [rows * i // workers for i in range(workers + 1)]
    spans = [slice(a, b) for a, b in pairwise(edges)]
    return list(_pool(os.getpid(), threads()).map(work, spans))


@lru_cache(maxsize=1)
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """The threads of this process."""
    return ThreadPoolExecutor(workers, thread_name_prefix=_NAME)


def _cut(span: slice, chunk: int) -> list[slice]:
    return [slice(at, min(at + chunk, span.stop)) for at in range(span.start, span.stop, chunk)]


@contextmanager
def small_matrices() -> Iterator[None]:
    """Linear algebra on one thread each, while many small problems are solved.

    BLAS splits even a matrix of a hundred rows over all cores. On a busy machine its threads wait for each other up to
    thirty times longer than the sum itself takes; and where our own threads each have a problem, always.
    """
    control = _blas()
    if control is None:
        yield
        return
    with control.limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _blas() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
