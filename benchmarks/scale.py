"""What a report costs at each station, and what a thousand million of them a day take.

    python benchmarks/scale.py              a minute; prints the table of docs/scale.md
    python benchmarks/scale.py --reports 200000

Times are seconds of a core (`time.process_time`), so that whatever else runs on the machine matters little; only the
commit waits for the disk, and is told as a median of seconds on the clock. Bytes are counted, not estimated.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dither
from collect import example_plan, records
from dither.collect import SqliteStore
from dither.collect.export import export_reports
from dither.collect.joint_checks import check_batches
from dither.collect.sqlite_store import DATABASE
from dither.collect.store import Campaign, Submission, body_digest, key_hash
from dither.engines.report_files import report_files
from dither.engines.report_rows import tally_rows
from dither.errors import WireError
from dither.wire import BatchFormat

A_DAY = 10**9
SECONDS = 86_400
PEAK = 5  # times the mean rate, at the busiest minute


def core_seconds(work: Callable[[], object], least: float = 0.5) -> float:
    """How long the work takes on one core: the best of some runs."""
    work()  # compiled, and in the caches
    best, spent = float("inf"), 0.0
    while spent < least:
        began = time.process_time()
        work()
        took = time.process_time() - began
        best, spent = min(best, took), spent + took
    return best


def submissions(campaign: Campaign, plan: dither.Plan, bodies: list[bytes], accepted: int) -> list[Submission]:
    """Batches as the collector commits them."""
    found = []
    for body in bodies:
        key = os.urandom(16)
        found.append(
            Submission(campaign.number, key_hash(plan.fingerprint, key), body_digest(key, body), body, accepted, {})
        )
    return found


def batches_cost(plan: dither.Plan, bodies: list[bytes], size: int) -> tuple[float, float]:
    """Microseconds of a core for each report: to check it, and to count it."""
    form = BatchFormat(plan)
    reports = size * len(bodies)
    check = core_seconds(lambda: check_batches(form, bodies))
    verdicts = [verdict for verdict in check_batches(form, bodies) if not isinstance(verdict, WireError)]
    checked = list({id(verdict.joint): verdict.joint for verdict in verdicts}.values())  # counted as checked: together
    count = core_seconds(lambda: form.tally(checked))
    return 1e6 * check / reports, 1e6 * count / reports


def commit_cost(plan: dither.Plan, bodies: list[bytes], size: int, together: int) -> tuple[float, float]:
    """The median of a commit of so many batches, on the clock; and the bytes that stay of each batch for good.

    These do not depend on the size of a batch; of few batches they are less than a page of the database.
    """
    form = BatchFormat(plan)
    with tempfile.TemporaryDirectory(dir=".") as folder, SqliteStore(folder) as store:
        campaign = store.add_campaign(plan.fingerprint, plan.to_json().encode())
        store.checkpoint(least=0)
        before = (Path(folder) / DATABASE).stat().st_size
        took = []
        for start in range(0, len(bodies), together):
            group = submissions(campaign, plan, bodies[start : start + together], size)
            began = time.perf_counter()
            store.commit(group)
            took.append(time.perf_counter() - began)
        for group in store.waiting():
            tally = form.tally([form.check(body) for body in store.bodies(group.number)])
            store.fold(campaign.number, [group.number], {0: tally})
        store._writer.execute("VACUUM")  # what was scrubbed is free space, which the next batches use
        store.checkpoint(least=0)
        return statistics.median(took), ((Path(folder) / DATABASE).stat().st_size - before) / len(bodies)


def files_cost(plan: dither.Plan, bodies: list[bytes], size: int) -> tuple[float, float, float]:
    """Of each report in exported files: bytes, and microseconds of a core to write and to tally it."""
    os.environ["DITHER_THREADS"] = "1"
    reports = size * len(bodies)
    with tempfile.TemporaryDirectory(dir=".") as folder, SqliteStore(f"{folder}/store") as store:
        campaign = store.add_campaign(plan.fingerprint, plan.to_json().encode())
        store.keep_reports(campaign.number, 24)
        store.commit(submissions(campaign, plan, bodies, size))
        export_reports(store, campaign, f"{folder}/warm")
        began = time.process_time()
        export_reports(store, campaign, f"{folder}/out")
        write = time.process_time() - began
        (file,) = report_files(f"{folder}/out", plan)
        size_on_disk = os.stat(file.path).st_size

        def tally() -> None:
            for piece in file.pieces:
                for batch in piece.batches():
                    tally_rows(plan, batch)

        return size_on_disk / reports, 1e6 * write / reports, 1e6 * core_seconds(tally) / reports


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=int, default=200_000, help="reports of each measurement in large batches")
    most = parser.parse_args().reports
    plan = example_plan()
    form = BatchFormat(plan)
    print(
        f"plan {plan.fingerprint[:12]}, a mean of {A_DAY / SECONDS:,.0f} reports a second, {PEAK} times that at peak\n"
    )
    head = (
        "reports a batch",
        "bytes a report",
        "check, us",
        "count, us",
        "commit, ms",
        "kept a batch, bytes",
        "GB a day",
    )
    print(" | ".join(head))
    row = 0.0
    for size, many, together in ((1, 5_000, 250), (100, 1_000, 50), (10_000, max(1, most // 10_000), 1)):
        bodies = list(form.pack_batches(plan.randomize(records(size * many)), size))[:many]
        check, count = batches_cost(plan, bodies, size)
        commit, kept = commit_cost(plan, bodies, size, together)
        row = row or kept
        sent = sum(map(len, bodies)) / (size * len(bodies))
        day = A_DAY / size * row / 1e9
        print(f"{size:,} | {sent:.2f} | {check:.3f} | {count:.3f} | {1e3 * commit:.1f} | {row:.0f} | {day:.3f}")
    on_disk, write, tally = files_cost(plan, bodies, size)
    print(f"\nfiles: {on_disk:.2f} bytes a report, {write:.3f} us to write it, {tally:.3f} us to tally it")
    seconds = A_DAY * tally / 1e6
    print(f"a day of files: {A_DAY * on_disk / 1e9:.1f} GB, tallied in {seconds:.0f} seconds of one core")


if __name__ == "__main__":
    main()
