"""Fuzz what reads bytes from strangers: `python tests/fuzz/run.py --cases 100000 --seconds 900`.

Cases are shared out over the targets as their tests are, and each has a number of its own: one that fails is printed
with the command that runs it again. Report files and rows (`report_inputs`) are checked against a second reading, and
have a tenth of the cases. The run ends after so many seconds, whatever is left, and says how many there were.
"""

import argparse
import sys
import time
import tracemalloc
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import report_inputs
from fuzz.targets import TARGETS, case, checked

ROWS = "report files and rows"


def main() -> int:
    """How many targets have failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=2000, help="of all targets together")
    options.add_argument("--seconds", type=float, default=900.0, help="after which it ends")
    options.add_argument("--target", choices=[*TARGETS, ROWS], action="append", help="only this one")
    options.add_argument("--first", type=int, default=0, help="the number of the first case")
    asked = options.parse_args()
    chosen = asked.target or [*TARGETS, ROWS]
    names = [name for name in chosen if name != ROWS]
    for name in names:  # what is right is made before the clock runs, and before memory is traced
        TARGETS[name].make()
    began = time.monotonic()
    failed = _fuzzed_rows(asked, began, 1 if not names else 0.1) if ROWS in chosen else 0
    whole = sum(TARGETS[name].cases for name in names)
    began, left = time.monotonic(), asked.seconds - (time.monotonic() - began)
    tracemalloc.start()
    for place, name in enumerate(names):
        share = max(1, round(asked.cases * TARGETS[name].cases / whole * (0.9 if ROWS in chosen else 1)))
        started, until = time.monotonic(), began + left * (place + 1) / len(names)
        done = accepted = 0
        before = tracemalloc.get_traced_memory()[0]
        for number in range(asked.first, asked.first + share):
            if time.monotonic() > until:
                break
            try:
                accepted += checked(name, case(name, Random(number)))
            except AssertionError as error:
                failed += 1
                print(f"{error}\nagain: python tests/fuzz/run.py --target '{name}' --first {number} --cases 1")
                break
            done += 1
        grown = tracemalloc.get_traced_memory()[0] - before
        seconds = time.monotonic() - started
        memory = f"{grown / 2**20:.1f} MB kept"
        print(f"{name}: {done:,} of {share:,} cases, {accepted:,} accepted, {seconds:.0f} s, {memory}")
    return failed


def _fuzzed_rows(asked: argparse.Namespace, began: float, share: float) -> int:
    """Whether one of the report files and rows failed; memory is looked at from outside, where Arrow takes it, too."""
    count, done = max(1, round(asked.cases * share)), 0
    while done < count and time.monotonic() < began + asked.seconds / 2:
        first, some = asked.first + done, min(100, count - done)
        try:
            report_inputs.run(some, first)
        except AssertionError as error:
            print(f"{error}\nagain: python tests/fuzz/run.py --target '{ROWS}' --first {first} --cases {some}")
            return 1
        done += some
    print(f"{ROWS}: {done:,} of {count:,} cases, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
