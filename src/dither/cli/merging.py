"""Bringing servers together: `dither merge` adds up tallies of one plan, and counts no report twice."""

import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import click

from dither.cli.common import (
    STREAM,
    checked_output,
    expanded,
    facts,
    invalid_reports_options,
    json_option,
    key_option,
    once_from_input,
    read_plan,
    read_tally,
    sealing_key,
    several,
    shell_quoted,
    tell,
    tell_left_out,
    writable,
    write_raw,
    wrote,
)
from dither.display.progress import progress
from dither.errors import DitherError, TallyError

if TYPE_CHECKING:
    from dither.planning import Plan
    from dither.planning.plan_tally import PlanTally


@click.command()
@click.argument("tallies", nargs=-1, required=True, metavar="TALLIES...")
@click.option("-o", "--output", required=True, metavar="FILE", help="Write the sum here; - is standard output.")
@click.option("--again", is_flag=True, help="Count tallies that are the same to the bit each on their own.")
@invalid_reports_options
@click.option("--plan", "plan_file", metavar="PLAN", help="Check what each tally claims before it is added.")
@key_option("Only tallies that are sealed with the key in this file; so is their sum.")
@json_option()
def merge(
    tallies: Sequence[str],
    output: str,
    again: bool,
    invalid_reports: str,
    allow_simulated: bool,
    plan_file: str | None,
    key_file: str | None,
    as_json: bool,
) -> None:
    """Add up tallies of one plan, from several files or machines.

    With --plan every tally must be one that its reports can have added up to, and with --key one that was counted by
    somebody who has the key; a single one that is not is named, and nothing is merged. Tallies of simulated reports
    are not added to others, whose guarantee they would void: they stop it, are left out by --invalid-reports drop, or
    are counted with --allow-simulated.

    \b
    dither merge monday.tally tuesday.tally -o week.tally
    dither merge --plan plan.json --key tallies.key monday.tally tuesday.tally -o week.tally
    """
    from dither.planning.tally_sums import merged_tallies

    paths = expanded(tallies)
    once_from_input(plan_file, *paths)
    _refuse_twice(paths)
    _refuse_output(paths, output)
    checked_output(output, [each for each in (plan_file, key_file) if each], as_json=as_json, binary=True)
    writable(output)
    key = sealing_key(key_file)
    sums, counts = _sums(paths, again, None if plan_file is None else read_plan(plan_file), key)
    total = merged_tallies(sums, invalid_reports=invalid_reports, allow_simulated=allow_simulated)
    count = total.reports
    write_raw(output, total.to_bytes(key=key))
    if as_json:
        facts(
            {
                "plan": total.plan,
                "reports": count,
                "dropped": dict(total.dropped),
                "tallies": counts,
                "file": output,
                "simulated": total.simulated,
            }
        )
    tell(f"merged {_tallies(len(counts))} of plan {total.plan[:12]}: {several(count, 'report')}; {wrote(output)}")
    tell_left_out(total.dropped)
    if total.simulated:
        tell("simulated: some of these reports came from a seed, so the sum is simulated, and promises nothing")
    if output != STREAM:
        tell(f"next: dither estimate {shell_quoted(plan_file or 'plan.json')} {shell_quoted(output)}")


@click.command()
@click.argument("output", metavar="FILE")
def key(output: str) -> None:
    """Write a key that tallies are sealed with.

    32 random bytes, in a new file that only you can read. Give it to those who count and to those who merge, and to
    nobody else: whoever has it can seal any tally.

    \b
    dither key tallies.key
    dither tally plan.json reports/*.parquet --key tallies.key -o part.tally
    dither merge --plan plan.json --key tallies.key *.tally -o all.tally
    """
    from dither.core.seals import write_key

    write_key(output)
    tell(f"wrote {output}, which only you can read")


def _tallies(count: int) -> str:
    return "1 tally" if count == 1 else f"{count:,} tallies"


def _refuse_twice(paths: Sequence[str]) -> None:
    """One file under two names is counted twice, which nobody would notice."""
    first: dict[tuple[int, int], str] = {}
    for path in paths:
        if path == STREAM or not os.path.exists(path):
            continue
        found = os.stat(path)
        one = first.get((found.st_dev, found.st_ino))
        if one is not None:
            same = f"{path} is named twice" if one == path else f"{one} and {path} are the same file"
            raise TallyError(f"{same}: its reports would be counted twice. Name it once")
        first[found.st_dev, found.st_ino] = path


def _refuse_output(paths: Sequence[str], output: str) -> None:
    """`merge *.tally -o all.tally` finds the all.tally of the last time."""
    if output == STREAM or not os.path.exists(output):
        return
    for path in paths:
        if path != STREAM and os.path.exists(path) and os.path.samefile(path, output):
            raise TallyError(
                f"{output} is there already, and is one of the tallies to merge: with the others its reports would be "
                "counted twice. Remove it, or name another file with -o"
            )


def _sums(
    paths: Sequence[str], again: bool, made: "Plan | None", key: bytes | None
) -> tuple[Sequence["PlanTally"], dict[str, int]]:
    """The sums, simulated tallies apart, with one in memory at a time; and how many reports each of them counts."""
    sums: Sequence[PlanTally] = ()
    first: dict[bytes, str] = {}
    counts: dict[str, int] = {}
    with progress("Merging", len(paths), unit="tallies") as advance:
        for path in paths:
            each = read_tally(path, made, key)
            counts[path] = each.reports
            one = first.setdefault(sha256(each.to_bytes()).digest(), path)
            if one != path and counts[path] and not again:
                raise TallyError(
                    f"{one} and {path} are the same to the bit, so they are most likely copies, and their reports "
                    "would be counted twice. Leave one out; if they really are different collections pass --again"
                )
            sums = _added(sums, each, paths[0], path, again)
            advance(1)
    return sums, counts


def _added(sums: Sequence["PlanTally"], each: "PlanTally", start: str, path: str, again: bool) -> Sequence["PlanTally"]:
    from dither.planning.tally_sums import sums_apart

    if sums and each.plan != sums[0].plan:
        raise TallyError(
            f"{path} belongs to plan {each.plan[:12]}, and {start} to plan {sums[0].plan[:12]}: nothing was merged. "
            "Merge and estimate the tallies of each plan on their own"
        )
    twice = {digest for total in sums for digest in total.files} & each.files.keys()
    if twice and not again:
        raise TallyError(
            f"{path} counts {several(len(twice), 'file')} of reports that a tally before it counts too: their reports "
            "would be counted twice. Leave it out, and add its other files with dither tally --add-to; if they really "
            "are different collections pass --again"
        )
    try:
        files = {digest: reports for digest, reports in each.files.items() if digest not in twice}
        return sums_apart([*sums, replace(each, files=files)])
    except DitherError as error:
        reason = str(error)
    raise TallyError(f"{path}: {reason}")
