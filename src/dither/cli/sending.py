"""The command that sends reports to a collector: `dither send`, for trials, and for nodes that may see the records."""

import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dither.cli.common import (
    Stopped,
    facts,
    invalid_option,
    json_option,
    once_from_input,
    pace,
    plan_argument,
    printable,
    read_bytes,
    read_plan,
    refuse_pipes,
    several,
    shell_quoted,
    table_option,
    tell,
    tell_left_out,
)
from dither.display.progress import progress
from dither.errors import CollectorError, ParameterError

if TYPE_CHECKING:
    import pyarrow

    from dither.core.reports import Reports
    from dither.planning import Plan


@click.command()
@plan_argument
@click.argument("data", required=False, metavar="[DATA]")
@click.option("--to", "url", required=True, metavar="URL", help="The collector, as in https://collect.example.org.")
@click.option("--sql", metavar="QUERY", help="Take the records from a DuckDB query instead of DATA.")
@table_option
@invalid_option
@click.option("--batch", "most", type=click.IntRange(1, 1 << 20), default=10_000, help="Reports in a request.")
@click.option(
    "--shuffler",
    metavar="URL",
    help="Seal reports to the key of the collector, and send them to this shuffler; --batch users or more at a time.",
)
@click.option("--outbox", metavar="FOLDER", help="Where reports wait to be delivered; PLAN.outbox if left out.")
@click.option("--token-file", metavar="FILE", help="The token of a client, if the campaign asks for one.")
@click.option("--patience", type=click.FloatRange(0, 1e5), default=60.0, help="For how many seconds to go on trying.")
@click.option("--allow-http", is_flag=True, help="Send over plain HTTP to another machine, too.")
@json_option()
def send(
    plan_file: str,
    data: str | None,
    url: str,
    sql: str | None,
    table: str | None,
    invalid: str,
    most: int,
    shuffler: str | None,
    outbox: str | None,
    token_file: str | None,
    patience: float,
    allow_http: bool,
    as_json: bool,
) -> None:
    """Turn records into reports, and send them to a collector.

    For trials, and for edge nodes that may see the records; a device that reports about its own user has
    dither.collect.Client. DATA is as for dither randomize. All reports are on the disk before the first one is sent.
    What could not be delivered waits there, and the same command without DATA sends it: each report is counted once.
    Behind a shuffler the users of one request hide each other, and nobody else: the collector sees that they came
    together.

    \b
    dither send plan.json data.parquet --to https://collect.example.org
    dither send plan.json --to https://collect.example.org
    dither send plan.json data.parquet --to https://collect.example.org --shuffler https://shuffle.example.net
    """
    from dither.collect.client import Client

    fresh = data is not None or sql is not None
    if data is not None and sql is not None:
        raise click.UsageError("Name a file of records, or give a query with --sql, not both.")
    once_from_input(plan_file, data)
    refuse_pipes([data], "the records")
    made = read_plan(plan_file)
    _refuse_rounds(made)
    token = None if token_file is None else read_bytes(token_file, "token").decode("latin-1").strip()
    folder = Path(outbox or f"{plan_file}.outbox")
    if not fresh and not folder.is_dir():
        raise ParameterError(f"no reports wait in {folder}; name a file of records, or with --outbox another folder")
    client = Client(url, folder, plan=made, token=token, patience=patience, allow_http=allow_http, shuffler=shuffler)
    again = f"dither send {shell_quoted(plan_file)} --to {shell_quoted(url)}"
    for option, value in (("--shuffler", shuffler), ("--outbox", outbox)):
        again += f" {option} {shell_quoted(value)}" if value else ""
    began, records = time.monotonic(), 0
    try:
        if fresh:
            if client.pending:
                raise ParameterError(
                    f"reports of an earlier run wait in {folder}, and these records would be reported again. Send "
                    f"what waits: {again}"
                )
            client.check_collector()
            least = None if shuffler is None else max(most, made.crowd.batch if made.crowd else 0)
            records = _queued(client, made, data, sql, table, invalid, most, least)
        found = client.flush()
    except KeyboardInterrupt:
        raise Stopped(f"stopped; what was randomized waits in {folder}: {again}") from None
    finally:
        if outbox is None and not client.pending and not client.refusals:
            _remove(folder)
    seconds = time.monotonic() - began
    if as_json:
        facts(
            {
                "plan": made.fingerprint,
                "records": records,
                "batches": found.batches,
                "accepted": found.accepted,
                "rejected": dict(found.rejected),
                "duplicates": found.duplicates,
                "refused": found.refused,
                "pending": found.pending,
                "seconds": round(seconds, 3),
            }
        )
    note = "note: " if found.refused or found.pending else ""
    tell(f"{note}delivered {_batches(found.batches)}: {pace(found.accepted, seconds, 'report')}")
    tell_left_out(found.rejected)
    if found.refused:
        raise CollectorError(
            f"the collector will never take {_batches(found.refused)} ({printable(', '.join(client.refusals))}): "
            f"kept in {folder}"
        )
    if found.pending:
        raise CollectorError(
            f"{_batches(found.pending)} could not be delivered ({printable(found.trouble)}): what waits in {folder} "
            f"is sent by {again}"
        )


def _refuse_rounds(made: "Plan") -> None:
    """Users of a plan with rounds have to be known again, and a file of records has nobody who remembers."""
    if made.schedule.repeats:
        raise ParameterError(
            f"this plan has {made.schedule.rounds:,} rounds, and whoever forgets what a user sent would spend again in "
            "each. A device remembers: dither.collect.Client(url, store=...).send(record, period=...). For a "
            "trial: client.send_reports(reports, period=...) with each of plan.randomize_rounds(tables)"
        )


def _queued(
    client: Any,
    made: "Plan",
    data: str | None,
    sql: str | None,
    table: str | None,
    invalid: str,
    most: int,
    least: int | None,
) -> int:
    """Put the reports about all records on the disk, or none; how many records there are.

    `least` is the number of users that a sealed message has at least, if there are as many.
    """
    from dither.engines.local import low
    from dither.engines.records import open_records

    opened, records = open_records(data, made.attributes, sql=sql, table=table), 0

    def randomized() -> "Iterator[dict[str, Reports]]":
        nonlocal records
        with (
            progress("Randomizing", opened.rows, unit="records") as advance,
            closing(low(made, opened.batches())) as batches,
        ):
            for batch in batches if least is None else _crowds(batches, least):
                yield made.randomize(batch, invalid=invalid, first=records)
                records += batch.num_rows
                advance(batch.num_rows)

    client.queue_reports(randomized(), most=most)
    return records


def _crowds(batches: "Iterable[pyarrow.RecordBatch]", least: int) -> "Iterator[pyarrow.Table]":
    """The same records, at least so many at a time: those that are left at the end are with the last ones."""
    import pyarrow

    last, pending, rows = list["pyarrow.RecordBatch"](), list["pyarrow.RecordBatch"](), 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= least:
            if last:
                yield pyarrow.Table.from_batches(last)
            last, pending, rows = pending, [], 0
    if last or rows:
        yield pyarrow.Table.from_batches(last + pending)


def _batches(count: int) -> str:
    return several(count, "batch") if count == 1 else f"{count:,} batches"


def _remove(folder: Path) -> None:
    """Remove an outbox that nothing waits in, and nothing else."""
    with suppress(OSError):
        (folder / "outbox.db").unlink()
        folder.rmdir()
