"""dither by itself on ten million users: speed, size of a report, and memory of a tally. One process a mechanism.

    python benchmarks/alone.py '{"mechanism": "GRR", "parameters": {"k": 1000, "epsilon": 1.0}, "users": 1000000}'

runs one job and prints its figures as JSON; `run_job` starts that process. A process of its own means that the
memory of one job is not hidden by another's.

**Memory of a tally.** The reports are put in place first, block by block, so that nothing larger than them has ever
been in memory; a tally of one block warms up the compiled loops. Then the whole is tallied, and what counts is the
high-water mark of the process less what it held just before.

**Records.** A table of 10^6 records of 1,000 numbers takes 8 GB, so nobody has it in memory at once: `collect_chunks`
hands the same chunk of records to the mechanism again and again, and adds up tallies. Its memory is the high-water mark
of the process over the whole run less what it held before, the chunk of records included.

**First estimate.** What depends on public parameters alone (the collisions of shared hash functions) is computed in
the first estimate and kept for the next, so the first is the one that is timed.

**Start.** The compiled loops are built by Numba when the first tally needs them, and kept on disk. The job
`{"start": true}` measures that first tally, and is run twice with an empty cache directory: building, then loading.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import Categories
from dither.core.mechanism import Mechanism
from dither.core.randomness import Stream
from dither.mechanisms import LocalHash, Unary, registry
from measure import memory_now, memory_peak, repeated, seconds

_BLOCK = 100_000
_CHUNK = 20_000  # records


@dataclass(frozen=True)
class Figures:
    """What one job found: seconds for all users together, and bytes."""

    users: int
    randomize: float
    tally: float
    first_estimate: float
    report_bytes: int
    tally_memory: int


@dataclass(frozen=True)
class ChunkFigures:
    """What a run over chunks of records found. `values` is how many of a record's values a user reports."""

    users: int
    values: int
    randomize: float
    tally: float
    report_bytes: int
    memory: int


def collect(mechanism: Mechanism, users: int) -> Figures:
    """Randomize, tally and estimate, with secure randomness."""
    block = mechanism.randomize(_inhabitants(mechanism, min(users, _BLOCK)))
    small = mechanism.tally(block)
    estimating = seconds(lambda: mechanism.estimate(small))
    memory = _tally_memory(mechanism, np.asarray(block), users)
    values = _inhabitants(mechanism, users)
    latest: list[NDArray] = []

    def randomize() -> None:
        latest.clear()  # or two sets of reports would be in memory
        latest.append(mechanism.randomize(values))

    randomizing = repeated(randomize)
    tallying = repeated(lambda: mechanism.tally(latest[0]))
    return Figures(users, randomizing, tallying, estimating, mechanism.dtype.itemsize, memory)


def collect_chunks(mechanism: Mechanism, users: int, invalid: str) -> ChunkFigures:
    """Randomize and tally records chunk by chunk, with secure randomness."""
    d: int = mechanism.d  # type: ignore[attr-defined]
    chunk = records(min(users, _CHUNK), d)
    total = mechanism.tally(mechanism.randomize(chunk[:1], invalid=invalid))
    before, times = memory_now(), {"randomize": 0.0, "tally": 0.0}
    for at in range(0, users, len(chunk)):
        begin = time.perf_counter()
        reports = mechanism.randomize(chunk[: users - at], invalid=invalid)
        middle = time.perf_counter()
        total += mechanism.tally(reports)
        times["randomize"] += middle - begin
        times["tally"] += time.perf_counter() - middle
    memory = memory_peak() - before
    values = getattr(mechanism, "m", d)
    return ChunkFigures(users, values, **times, report_bytes=mechanism.dtype.itemsize, memory=memory)


def start() -> float:
    """The seconds of the first tallies of a process: Numba is imported, and the loops are built or loaded."""
    mechanisms = (LocalHash(8, 1.0), Unary(8, 1.0))
    reports = [mechanism.randomize(np.arange(8)) for mechanism in mechanisms]
    return seconds(lambda: [mechanism.tally(rows) for mechanism, rows in zip(mechanisms, reports, strict=True)])


def run_job(job: Mapping[str, Any], **environment: str) -> Any:
    """Run a job in a process of its own."""
    command = [sys.executable, str(Path(__file__)), json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(f"a benchmark process failed:\n{done.stderr}")
    return json.loads(done.stdout)


def run_collect(mechanism: str, users: int, **parameters: Any) -> Figures:
    """`collect` in a process of its own."""
    return Figures(**run_job({"mechanism": mechanism, "parameters": parameters, "users": users}))


def run_chunks(mechanism: str, users: int, invalid: str = "error", **parameters: Any) -> ChunkFigures:
    """`collect_chunks` in a process of its own."""
    job = {"mechanism": mechanism, "parameters": parameters, "users": users, "invalid": invalid}
    return ChunkFigures(**run_job(job))


def run_starts() -> tuple[float, float]:
    """`start` in two processes of their own: with nothing built yet, and with the loops that the first one stored."""
    with tempfile.TemporaryDirectory() as empty:
        first, later = (run_job({"start": True}, NUMBA_CACHE_DIR=empty) for _ in range(2))
    return first, later


def population(users: int, k: int) -> NDArray[np.int64]:
    """The same made users in every run."""
    return Stream.seeded(2026, "benchmark population").below(k, users).astype(np.int64)


def numbers(users: int) -> NDArray[np.float64]:
    """The same made users in every run, with a number from -1 to 1 each."""
    return records(users, 1)[:, 0]


def records(users: int, d: int) -> NDArray[np.float64]:
    """The same made users in every run, with d numbers each: made in place, so that nothing else was ever in memory."""
    table = np.empty((users, d))
    np.random.default_rng(2026).random(out=table)
    table *= 2
    table -= 1
    return table


def _inhabitants(mechanism: Mechanism, users: int) -> NDArray:
    domain = mechanism.reading.domain
    return population(users, domain.k) if isinstance(domain, Categories) else numbers(users)


def _tally_memory(mechanism: Mechanism, block: NDArray, users: int) -> int:
    """Bytes that a tally needs beyond its reports."""
    reports = np.empty(users, dtype=mechanism.dtype)
    for at in range(0, users, len(block)):
        reports[at : at + len(block)] = block[: users - at]
    before = memory_now()
    mechanism.tally(reports)
    return memory_peak() - before


def _main(job: Mapping[str, Any]) -> None:
    if job.get("start"):
        print(json.dumps(start()))
        return
    mechanism = registry.find(job["mechanism"])(**job["parameters"])
    if "invalid" in job:
        print(json.dumps(asdict(collect_chunks(mechanism, job["users"], job["invalid"]))))
    else:
        print(json.dumps(asdict(collect(mechanism, job["users"]))))


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
