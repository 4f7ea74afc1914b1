"""The door: what starting costs, in CPU time, and as a ratio to importing NumPy in the same run.

    python benchmarks/door.py
    python benchmarks/door.py --rounds 21 --slowest 15

Each line is a process of its own, from its start to its end. CPU time (user and system, as the kernel counts them for a
child that has ended) is what a busy machine changes least; it still changes, so that processes take turns and the
figure is the median over the rounds. Two ratios stand beside it: of the whole process to one that imports NumPy, and
of what it takes beyond bare Python to what NumPy takes beyond it. The first run of each, which compiles and warms the
cache of files, does not count.

`--slowest` lists what `python -X importtime` says of `dither --help`: the modules with the most time of their own.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from statistics import median

REPORT = "import dither; dither.GRR(k=4, epsilon=1.0).randomize([0, 1, 2, 3])"
PLAN = "import dither; dither.plan(dither.Schema({'x': dither.Categorical(['a', 'b'])}), epsilon=1.0, users=1000)"
HELP = ["-m", "dither", "--help"]
BARE, NUMPY = "python", "import numpy"
JOBS = {
    BARE: ["-c", "pass"],
    NUMPY: ["-c", "import numpy"],
    "import dither": ["-c", "import dither"],
    "the first report": ["-c", REPORT],
    "the first plan": ["-c", PLAN],
    "dither --version": ["-m", "dither", "--version"],
    "dither --help": HELP,
    "dither estimate --help": ["-m", "dither", "estimate", "--help"],
    "dither doctor": ["-m", "dither", "doctor"],
}
TARGET = 0.3  # seconds of CPU, for these
HELD = ("import dither", "the first report", "dither --help")


def main() -> None:
    """The table, and whether the door is light enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--slowest", type=int, default=0)
    given = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in JOBS}
    for counted in [False] + [True] * given.rounds:
        for name, arguments in JOBS.items():
            taken = cpu_seconds(arguments)
            if counted:
                times[name].append(taken)
    found = {name: median(taken) for name, taken in times.items()}
    bare, numpy = found[BARE], found[NUMPY]
    print(f"median CPU time of {given.rounds} processes in turns; Python {sys.version.split()[0]}")
    print(f"{'':<24}{'s':>8}{'/ numpy':>10}{'beyond bare':>13}")
    for name, seconds in found.items():
        beyond = f"{(seconds - bare) / (numpy - bare):.2f}" if name != BARE else ""
        print(f"{name:<24}{seconds:>8.3f}{seconds / numpy:>10.2f}{beyond:>13}")
    for name in HELD:
        verdict = "met" if found[name] < TARGET else "missed"
        print(f"{name}: {found[name]:.3f} s of CPU, asked for below {TARGET}: {verdict}")
    for line in slowest(HELP, given.slowest):
        print(line)


def cpu_seconds(arguments: Sequence[str]) -> float:
    """User and system time of one process, and of those that it waited for."""
    running = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        sys.exit(f"this failed, so nothing is measured: python {' '.join(arguments)}")
    return used.ru_utime + used.ru_stime


def slowest(arguments: Sequence[str], most: int) -> list[str]:
    """The modules that took the most time of their own, in microseconds."""
    told = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True
    ).stderr
    lines = [line.removeprefix("import time:").split("|") for line in told.splitlines() if "|" in line]
    owned = sorted(((int(own), name.strip()) for own, _, name in lines if own.strip().isdigit()), reverse=True)
    return [f"{own:>8} us  {name}" for own, name in owned[:most]]


if __name__ == "__main__":
    main()
