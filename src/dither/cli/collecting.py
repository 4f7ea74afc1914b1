"""Commands between records and estimates: what devices do, and what servers do."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dither.cli.common import (
    STREAM,
    Stopped,
    checked_output,
    engine_option,
    enumerated,
    facts,
    invalid_option,
    invalid_reports_options,
    json_option,
    key_option,
    once_from_input,
    pace,
    plan_argument,
    read_plan,
    refuse_pipes,
    sealing_key,
    seed_option,
    several,
    shell_quoted,
    standard_input,
    table_option,
    tell,
    tell_left_out,
    to_output,
    writable,
    write_raw,
    wrote,
)
from dither.display.progress import progress
from dither.errors import ParameterError, TallyError

if TYPE_CHECKING:
    import pyarrow

    from dither.engines.report_files import ReportFile
    from dither.planning import Plan
    from dither.planning.plan_tally import PlanTally


@click.command()
@plan_argument
@click.argument("data", required=False, metavar="[DATA]")
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="Write reports here: .parquet, .arrow, or - to a pipe."
)
@click.option("--sql", metavar="QUERY", help="Take the records from a DuckDB query instead of DATA.")
@table_option
@seed_option
@invalid_option
@engine_option
@json_option()
def randomize(
    plan_file: str,
    data: str | None,
    output: str,
    sql: str | None,
    table: str | None,
    seed: int | None,
    invalid: str,
    engine_name: str,
    as_json: bool,
) -> None:
    """Turn records into reports, as devices would.

    For trials, and for edge nodes that may see the records. DATA is a file (.csv, .parquet, .arrow, .duckdb), a folder
    of Parquet files, the address of one (s3://...), or - for standard input.

    \b
    dither randomize plan.json data.parquet -o reports.parquet
    dither randomize plan.json --sql "select * from 'x.parquet' where year = 2025" -o reports.parquet
    """
    from dither.engines import engine
    from dither.engines.records import open_records
    from dither.planning.rounds_in_words import refuse_forgetful

    if (data is None) == (sql is None):
        raise click.UsageError("Name a file of records, or give a query with --sql.")
    once_from_input(plan_file, data)
    checked_output(output, [plan_file, *([data] if data else [])], as_json=as_json, binary=True)
    refuse_pipes([data], "the records")
    if engine_name == "local":
        writable(output)
    made = read_plan(plan_file)
    refuse_forgetful(made.schedule)
    chosen, target = engine(engine_name), sys.stdout.buffer if output == STREAM else output
    remote = engine_name == "spark" and data is not None and "://" in data  # Spark reads it, and tells no facts
    opened = None if remote else open_records(data, made.attributes, sql=sql, table=table)
    ignored, rows, files = ((), None, ()) if opened is None else (opened.ignored, opened.rows, opened.files)
    _refuse_records(output, files, sql)
    replaced = engine_name == "local" and _replaces_reports(output)
    _tell_about(made, ignored)
    began, stream = time.monotonic(), to_output() if output == STREAM else nullcontext()
    with stream, progress("Randomizing", None if engine_name == "spark" else rows, unit="records") as advance:
        count = chosen.randomize(made, opened or data, target, seed=seed, invalid=invalid, progress=advance)
    seconds = time.monotonic() - began
    if as_json:
        facts(
            {
                "plan": made.fingerprint,
                "records": count,
                "reports": None if made.reports_per_user is None else count * made.reports_per_user,
                "file": output,
                "seconds": round(seconds, 3),
                "ignored columns": list(ignored),
                "epsilon": made.epsilon,
                "delta": made.delta,
                "simulated": seed is not None,
            }
        )
    tell(f"randomized {pace(count, seconds, 'record')}; {wrote(output)}")
    if replaced:
        tell(f"note: {output} held earlier reports, which are replaced")
    if seed is not None:
        tell("simulated: whoever knows the seed can undo the noise, so these reports promise nothing; leave --seed out")
    else:
        tell(f"note: every run spends the budget of these records anew ({_budget(made)}); let one set of reports out")
    if output != STREAM:
        tell(f"next: dither tally {shell_quoted(plan_file)} {shell_quoted(output)} -o part.tally")


def _refuse_records(output: str, files: Sequence[str], sql: str | None) -> None:
    """A folder, a pattern or a query may mean the output too: the records would be gone."""
    from dither.engines.duckdb_queries import may_read

    checked_output(output, files)
    if sql is not None and output != STREAM and may_read(sql, output):
        raise ParameterError(f"{output} is there already, and the query may read it; choose another name with -o")


def _replaces_reports(output: str) -> bool:
    """Whether there are earlier reports at the output; any other file there is not replaced."""
    from dither.engines.report_files import ARROW, PARQUET
    from dither.engines.report_rows import has_columns
    from dither.errors import require

    if not os.path.isfile(output) or not os.path.getsize(output) or not output.lower().endswith(PARQUET + ARROW):
        return False
    arrow, found = require("pyarrow", "fast"), None
    with suppress(arrow.ArrowException, OSError):
        if output.lower().endswith(PARQUET):
            found = require("pyarrow.parquet", "fast").read_schema(output)
        else:
            with arrow.memory_map(output) as file:
                found = arrow.ipc.open_file(file).schema
    if found is None or not has_columns(found):
        raise ParameterError(
            f"{output} is there already, and is no file of reports: it is not replaced. Remove it, or choose another "
            "name with -o"
        )
    return True


def _tell_about(made: "Plan", ignored: Sequence[str]) -> None:
    """What is not looked at, and what stands in for what is missing."""
    if ignored:
        them = "it" if len(ignored) == 1 else "them"
        tell(
            f"note: {several(len(ignored), 'column')} ignored, the plan does not ask for {them}: {enumerated(ignored)}"
        )
    replaced = {name: each for name, each in made.attributes.items() if each.substitute is not None}
    known = [f"{name} {attribute.stand_in([None])}" for name, attribute in replaced.items()]
    tell(f"note: a null counts as {enumerated(known)}")
    if made.public:
        tell(f"note: every report carries in the clear: {enumerated(list(made.public))}")


def _budget(made: "Plan") -> str:
    return f"epsilon {made.epsilon:g}" + (f", delta {made.delta:g}" if made.delta else "")


# On the server -----------------------------------------------------------------------------------------------------


@click.command()
@plan_argument
@click.argument("reports", nargs=-1, metavar="[REPORTS]...")
@click.option("-o", "--output", metavar="FILE", help="Write the tally here; - is standard output.")
@click.option("--add-to", metavar="TALLY", help="Add the files to this tally, each once; it is begun if not there.")
@click.option("--sql", metavar="QUERY", help="Take the reports from a DuckDB query: its columns tag and report.")
@invalid_reports_options
@engine_option
@click.option("--restart", is_flag=True, help="Forget what an interrupted run has counted, and begin anew.")
@key_option("Seal the tally with the key in this file, which dither key writes.")
@json_option()
def tally(
    plan_file: str,
    reports: Sequence[str],
    output: str | None,
    add_to: str | None,
    sql: str | None,
    invalid_reports: str,
    allow_simulated: bool,
    engine_name: str,
    restart: bool,
    key_file: str | None,
    as_json: bool,
) -> None:
    """Count reports: the sums that estimates are made from.

    REPORTS are files (.parquet, .arrow), patterns, folders, or - for an Arrow stream on standard input. A run that
    was stopped or killed goes on where it was when the same command is given again; nothing is counted twice. A tally
    knows its files: with --add-to those of a new day are added, and those that it counts already are left out.

    A row that is no report of the plan stops it, or is left out by --invalid-reports drop, which tells how many there
    were for which reason. Reports that are all simulated are counted, and marked so. Among others that are not, they
    would void the guarantee of all: they are treated as invalid, unless --allow-simulated counts them.

    \b
    dither tally plan.json reports/*.parquet -o part.tally
    dither tally plan.json reports/*.parquet --add-to all.tally
    dither tally plan.json --sql "select * from 'all.parquet' where day = 3" -o part.tally
    dither randomize plan.json data.csv -o - | dither tally plan.json - -o part.tally
    """
    from dither.engines import engine
    from dither.engines.journal import JournalError
    from dither.engines.local import Local
    from dither.engines.paths import is_address
    from dither.engines.report_files import report_files

    if bool(reports) == (sql is not None):
        raise click.UsageError("Name files of reports, or give a query with --sql.")
    if (output is None) == (add_to is None):
        raise click.UsageError("Name the tally: a new one with -o, or with --add-to the one to add to.")
    once_from_input(plan_file, *reports)
    if output is None:
        if STREAM in reports or sql is not None or engine_name != "local" or restart:
            raise click.UsageError(
                "With --add-to the reports are files, which are known again by their digests, and are counted at once, "
                "on this machine: tally anything else with -o, and merge."
            )
        _add(plan_file, reports, str(add_to), invalid_reports, allow_simulated, as_json, sealing_key(key_file))
        return
    refuse_pipes(reports, "the reports")
    writable(output)
    key = sealing_key(key_file)
    made = read_plan(plan_file)
    chosen, treated = engine(engine_name), {"invalid_reports": invalid_reports, "allow_simulated": allow_simulated}
    began = time.monotonic()
    if STREAM in reports or sql is not None:
        if len(reports) > 1:
            raise ParameterError("standard input (-) cannot be tallied together with files; tally it alone, and merge")
        checked_output(output, [plan_file], as_json=as_json, binary=True)
        with progress("Tallying", unit="reports") as advance:
            rows = _incoming() if sql is None else _queried(sql, engine_name)
            found = chosen.tally(made, rows, **treated, progress=advance)
        _finish(made, plan_file, found, output, 1, time.monotonic() - began, as_json, key)
        return
    if engine_name == "spark":  # which finds its files by itself, and starts anew where it was stopped
        checked_output(output, [plan_file, *reports], as_json=as_json, binary=True)
        with progress("Tallying on Spark", unit="reports") as advance:
            found = chosen.tally(made, list(reports), **treated, progress=advance)
        if not any(map(is_address, reports)):  # which only Spark can read
            found = _with_files(found, report_files(list(reports), made, invalid_reports=invalid_reports))
        _finish(made, plan_file, found, output, len(reports), time.monotonic() - began, as_json, key)
        return
    counting = _Counting(made, list(reports), output, invalid_reports, key)
    checked_output(output, [plan_file, *counting.paths], as_json=as_json, binary=True)
    if restart:
        counting.restart()
    try:
        before = counting.done()
        with progress("Tallying", counting.rows, unit="reports") as advance:
            found = Local().tally(made, counting.files, **treated, progress=advance, journal=counting.journal, key=key)
    except KeyboardInterrupt:
        raise Stopped(counting.stopped()) from None
    except JournalError as error:
        raise TallyError(f"{error}; --restart does") from None
    found = _with_files(found, counting.files)
    _finish(made, plan_file, found, output, len(counting.paths), time.monotonic() - began, as_json, key, before)
    counting.forget()


def _with_files(found: "PlanTally", files: Sequence["ReportFile"]) -> "PlanTally":
    """A tally that knows its files; not a simulation, which is the same to the byte whenever its seed is."""
    from dither.engines.incremental_tally import listed_tally

    return found if found.simulated else listed_tally(found, files)


def _add(
    plan_file: str,
    reports: Sequence[str],
    target: str,
    invalid_reports: str,
    allow_simulated: bool,
    as_json: bool,
    key: bytes | None,
) -> None:
    """Add files to a stored tally, and tell which of them were in it already, and what cannot be known."""
    from dither.engines.incremental_tally import add_to_tally
    from dither.engines.report_files import report_files

    if target == STREAM:
        raise ParameterError("a tally that is added to is a file: name it")
    refuse_pipes([*reports, target], "the reports")
    made = read_plan(plan_file)
    files = report_files(list(reports), made, invalid_reports=invalid_reports)
    checked_output(target, [plan_file, *(file.path for file in files)])
    writable(target)
    began = time.monotonic()
    with progress("Tallying", unit="reports") as advance:
        found = add_to_tally(
            target,
            made,
            files,
            invalid_reports=invalid_reports,
            allow_simulated=allow_simulated,
            progress=advance,
            key=key,
        )
    seconds, count, before = time.monotonic() - began, found.tally.reports, len(found.counted_before)
    if as_json:
        facts(
            {
                "plan": found.tally.plan,
                "reports": count,
                "added": found.reports,
                "files": len(found.added),
                "left out": list(found.counted_before),
                "dropped": dict(found.dropped),
                "unlisted": found.unlisted,
                "file": target,
                "seconds": round(seconds, 3),
                "simulated": found.tally.simulated,
            }
        )
    if before:
        them = "it is" if before == 1 else "they are"
        tell(
            f"note: {target} counts {several(before, 'file')} of these already, so {them} left out: "
            f"{enumerated(found.counted_before)}"
        )
    if found.added:
        tell(f"added {pace(found.reports, seconds, 'report')} to {target}, which has {several(count, 'report')} now")
    else:
        tell(f"added nothing: {target} is as it was, with {several(count, 'report')}")
    tell_left_out(found.dropped)
    if found.added and found.unlisted:
        tell(
            f"note: of {several(found.unlisted, 'report')} in {target} it is not known which files they came from, so "
            "it cannot be known whether these files are among them"
        )
    if found.tally.simulated:
        tell("simulated: some of these reports came from a seed, and promise nothing")
    tell(f"next: dither estimate {shell_quoted(plan_file)} {shell_quoted(target)}")


class _Counting:
    """A tally over files, which may be stopped and go on."""

    def __init__(self, plan: "Plan", sources: list[str], output: str, invalid_reports: str, key: bytes | None) -> None:
        from dither.engines.report_files import report_files

        self.plan, self.key = plan, key
        self.files = report_files(sources, plan, invalid_reports=invalid_reports)
        self.paths = [file.path for file in self.files]
        self.rows = sum(file.rows for file in self.files)
        self.journal = None if output == STREAM else Path(f"{output}.progress")

    def restart(self) -> None:
        """Forget what an interrupted run has counted; what is no journal stays."""
        if self.journal is not None and self.journal.exists() and not _is_journal(self.journal):
            raise ParameterError(
                f"{self.journal} is no journal of a tally, so --restart does not remove it. Move it away, or choose "
                "another name with -o"
            )
        self.forget()

    def forget(self) -> None:
        """Remove what an interrupted run has left, or this one."""
        if self.journal is not None:
            with suppress(FileNotFoundError):
                self.journal.unlink()

    def done(self) -> int:
        """How many reports an interrupted run has looked at, as the journal says."""
        from dither.engines.journal import Journal

        if self.journal is None or not self.journal.exists():
            return 0
        return Journal.at(self.journal, self.plan, key=self.key).rows

    def stopped(self) -> str:
        """How far it came, and how to go on."""
        if self.journal is None:
            return "stopped: what was counted is lost, since only a tally that goes to a file can go on"
        done = self.done()
        if not done:
            return "stopped: nothing is counted yet; run the same command again"
        return (
            f"stopped: {done:,} of {several(self.rows, 'report')} {'is' if self.rows == 1 else 'are'} counted; run the "
            "same command again to go on"
        )


def _is_journal(path: Path) -> bool:
    """Whether a file is a journal, if only a damaged one: its kind stands behind its hash."""
    with suppress(OSError), path.open("rb") as file:
        return b"dither journal" in file.read(80)
    return False


def _incoming() -> "pyarrow.RecordBatchReader":
    """Rows of reports from standard input."""
    from dither.engines.local import incoming
    from dither.errors import ReportError

    stream = standard_input()
    try:
        return incoming(stream)
    except ReportError:
        pass
    raise ReportError("standard input has no Arrow stream of reports; dither randomize ... -o - writes one")


def _queried(sql: str, engine_name: str) -> Iterator["pyarrow.RecordBatch"]:
    """Rows of reports from a query."""
    from dither.engines.duckdb_queries import query_source

    if engine_name != "local":
        raise click.UsageError("A query with --sql is read on this machine: leave --engine out.")
    source = query_source(sql)
    return source.batches(source.columns.names)


def _finish(
    made: "Plan",
    plan_file: str,
    found: "PlanTally",
    output: str,
    files: int,
    seconds: float,
    as_json: bool,
    key: bytes | None,
    before: int = 0,
) -> None:
    """Write the tally, and tell what was done; `before`, by a run that was interrupted, took other seconds."""
    count = found.reports
    before = min(before, count)  # some of which may have been left out
    write_raw(output, found.to_bytes(key=key))
    if as_json:
        facts(
            {
                "plan": found.plan,
                "reports": count,
                "questions": {name: part.n for name, part in found.parts.items()},
                "dropped": dict(found.dropped),
                "files": files,
                "file": output,
                "seconds": round(seconds, 3),
                "simulated": found.simulated,
            }
        )
    earlier = f", and {before:,} in an interrupted run" if before else ""
    tell(f"tallied {pace(count - before, seconds, 'report')}{earlier}; {wrote(output)}")
    tell_left_out(found.dropped)
    if found.simulated:
        tell("simulated: some of these reports came from a seed, and promise nothing")
    if output != STREAM:
        command, more = ("next", " -o second.json") if made.phases is not None else ("estimate", "")
        more = " --earlier FIRST" if made.after is not None else more
        tell(
            f"next: dither {command} {shell_quoted(plan_file)} {shell_quoted(output)}{more}    "
            "(of several tallies, dither merge first)"
        )
