"""How things are measured: wall-clock time as a median, memory as a high-water mark, and the machine by name.

Machines are shared and noisy, so two rules hold. What is to be compared is measured in turns (`in_turns`): one round
runs every contestant once, so that a slow minute slows all of them, and the median over the rounds drops the odd one.
What stands alone is repeated until it has taken a few seconds (`repeated`).

Memory is read from the kernel's own high-water mark of this process. `ru_maxrss` alone would not do: on Linux a child
starts with the mark of the process that started it, so a large parent hides what the child needs. `VmHWM` does not.
"""

import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

Work = Callable[[], Any]


def seconds(work: Work) -> float:
    """The wall-clock time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(contestants: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """The median time of each contestant, when all of them run once a round."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            times[name].append(seconds(work))
    return {name: median(taken) for name, taken in times.items()}


def repeated(work: Work, *, least: int = 3, most: int = 9, enough: float = 3.0) -> float:
    """The median time of a call, which is repeated until `enough` seconds have passed."""
    times: list[float] = []
    while len(times) < least or (len(times) < most and sum(times) < enough):
        times.append(seconds(work))
    return median(times)


def memory_now() -> int:
    """Bytes of this process that are in memory; where the system does not say, the most there ever were."""
    return _kernel_says("VmRSS") or _largest()


def memory_peak() -> int:
    """The most bytes of this process that ever were in memory."""
    return _kernel_says("VmHWM") or _largest()


def _kernel_says(field: str) -> int | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    for line in status.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    return None


def _largest() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


@dataclass(frozen=True)
class Machine:
    """What the figures depend on."""

    processor: str
    cores: int
    load: float
    versions: Mapping[str, str]

    @classmethod
    def here(cls, packages: tuple[str, ...]) -> "Machine":
        """This machine as it is now; packages that are not installed are left out."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        found = {package: _version(package) for package in packages}
        versions = {"Python": platform.python_version()} | {name: text for name, text in found.items() if text}
        return cls(_processor(), cores, os.getloadavg()[0], versions)

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {text}" for name, text in self.versions.items())
        return f"{self.processor}, {self.cores} cores (load {self.load:.1f} at the start); {versions}"


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    for line in facts.read_text().splitlines() if facts.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
