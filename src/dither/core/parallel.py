"""Rows in chunks, on as many threads as there are cores.

Chunks keep memory flat: whatever the number of rows, only a few chunks of words exist at once. The heavy steps (the
cipher, NumPy's loops, compiled kernels) release the interpreter lock, so threads are enough. Results
never depend on the cut: randomness is addressed by row, and tallies are sums of integers.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, TypeVar

Part = TypeVar("Part")
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


def _total(parts: Iterable[Any]) -> Any:
    return reduce(add, parts)


def _spread(work: Callable[[slice], Part], rows: int, chunk: int) -> list[Part]:
    """One contiguous share of the rows for each thread."""
    workers = min(threads(), -(-rows // min(chunk, _WORTH_A_THREAD)))
    if workers <= 1:
        return [work(slice(0, rows))] if rows else []
    edges = [rows * i // workers for i in range(workers + 1)]
    shares = [slice(a, b) for a, b in pairwise(edges)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, shares))


def _cut(span: slice, chunk: int) -> list[slice]:
    return [slice(at, min(at + chunk, span.stop)) for at in range(span.start, span.stop, chunk)]
