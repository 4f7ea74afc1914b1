"""The client in a browser: how large it is, and how long it takes in a real Chromium.

    python benchmarks/browser.py

Sizes are those of the files that the collector serves, minified, and gzipped as servers send them. Times are of the
demonstration's plan: to read it, compute its hash and certify its integers; and to make one report. Beside them are
those of Python in the same run, since a number of milliseconds is a number of this machine.
"""

import gzip
import json
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from dither import Plan

ROOT = Path(__file__).parents[1]
CLIENT = ROOT / "clients" / "js"
BUILT = ROOT / "src" / "dither" / "collect" / "browser"
PLAN = CLIENT / "vectors" / "plans" / "demonstration.json"


def sizes() -> None:
    for name in ("dither-client.min.js", "dither-client-sealed.min.js"):
        data = (BUILT / name).read_bytes()
        print(f"{name:<30} {len(data):>8,} bytes  {len(gzip.compress(data, 9, mtime=0)):>8,} gzipped")


def python_times() -> tuple[float, float]:
    """Milliseconds to load the plan, and to make a report."""
    text = PLAN.read_text(encoding="utf-8")
    plan, loads, reports = Plan.from_json(text), [], []
    for _ in range(5):
        began = time.perf_counter()
        plan = Plan.from_json(text)
        plan.report({})  # what is worked out once, as the client does it at load
        loads.append(time.perf_counter() - began)
    for _ in range(200):
        began = time.perf_counter()
        plan.report({"origin": "JFK", "dep_delay": 7, "carrier": "UA"})
        reports.append(time.perf_counter() - began)
    return 1000 * statistics.median(loads), 1000 * statistics.median(reports)


def main() -> None:
    sizes()
    done = subprocess.run(
        [shutil.which("node") or "node", "bench.js"], cwd=CLIENT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    load, report = python_times()
    print(f"\n{'milliseconds':<30} {'Chromium':>10} {'at first':>10} {'Python':>10} {'ratio':>7}")
    rows = (("load and certify the plan", "load", "first", load), ("one report", "report", "firstReport", report))
    for what, usual, first, own in rows:
        print(f"{what:<30} {found[usual]:>10.2f} {found[first]:>10.2f} {own:>10.2f} {found[usual] / own:>7.2f}")
    print(f"the demonstration's plan has {found['parts']} parts; the slowest report took {found['slowest']:.2f} ms")


if __name__ == "__main__":
    main()
