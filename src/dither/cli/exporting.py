"""`dither export`: what a collector keeps of its batches, as files of reports for larger engines."""

from typing import TYPE_CHECKING

import click

from dither.cli.common import facts, json_option, several, shell_quoted, tell
from dither.display.progress import progress
from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.collect.export import Exported


@click.command()
@click.option(
    "--store",
    "place",
    metavar="PLACE",
    default="./store",
    show_default=True,
    help="A folder, or postgresql://host/database; a collector may be running on it.",
)
@click.option(
    "--parquet",
    "folder",
    metavar="FOLDER",
    required=True,
    help="Where the files go: a folder, or an address as s3://bucket/reports.",
)
@click.option("--plan", metavar="HASH", help="One campaign, by the hash of its plan or its first letters; else all.")
@json_option()
def export(place: str, folder: str, plan: str | None, as_json: bool) -> None:
    """Write the raw batches that a collector keeps as Parquet files of reports.

    A collector scrubs what it has counted, unless dither serve --keep-reports says for how long to keep it. Files
    are whole or not there. Run it again and again: batches that are in the folder already are left out, so that no
    report is written twice. The tally of all files is the collector's own, to the bit, if nothing was scrubbed before.

    \b
    dither export --store ./store --parquet reports
    dither tally plan.json reports -o all.tally
    dither export --store postgresql://db/dither --parquet s3://bucket/reports --plan 9c56
    """
    from dither.collect.export import export_reports
    from dither.collect.server import open_store

    results: dict[str, Exported] = {}
    store = open_store(place)
    try:
        campaigns = [each for each in store.campaigns() if plan is None or each.plan.startswith(plan.lower())]
        if not campaigns or (plan is not None and len(campaigns) != 1):
            raise ParameterError(
                f"{several(len(campaigns), 'plan')} in this store begin so: dither campaign list has all of them"
                if plan is not None
                else "there are no campaigns in this store; dither serve plan.json begins one"
            )
        for each in campaigns:
            with progress(f"exporting {each.plan[:12]}") as advance:
                results[each.plan] = export_reports(store, each, folder, progress=advance)
    finally:
        store.close()
    if as_json:
        facts(
            [
                {
                    "plan": fingerprint,
                    "folder": found.folder,
                    "files": list(found.files),
                    "reports": found.reports,
                    "batches": found.batches,
                    "batches before": found.batches_before,
                    "batches scrubbed": found.missing,
                }
                for fingerprint, found in results.items()
            ]
        )
    for fingerprint, found in results.items():
        _tell(fingerprint, found)
    if not any(found.batches or found.batches_before for found in results.values()):
        raise ParameterError(
            "there is nothing to export: a collector scrubs batches when it has counted them. dither serve "
            "--keep-reports 30d keeps those that arrive from then on; what was counted is in its tally, which dither "
            "campaign tally writes"
        )


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count:,} batches"


def _tell(fingerprint: str, found: "Exported") -> None:
    if found.files:
        tell(
            f"wrote {several(found.reports, 'report')} of {_batches(found.batches)} of plan "
            f"{fingerprint[:12]} to {several(len(found.files), 'file')} in {found.folder}"
        )
    elif found.batches_before:
        tell(f"{found.folder} is as it was: all {_batches(found.batches_before)} that are kept are there")
    if found.rejected:
        tell(f"note: {several(found.rejected, 'report')} that the collector rejected are left out")
    if found.missing and (found.batches or found.batches_before):
        tell(
            f"note: {_batches(found.missing)} that were counted earlier are not among them: they were scrubbed "
            "before an export. The collector's tally has them"
        )
    if found.files:
        tell(f"next: dither tally plan.json {shell_quoted(found.folder)} -o all.tally")
