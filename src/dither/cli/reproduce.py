"""The command that measures figures, tables and claims of papers again."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dither.cli.common import facts, json_option, several, show, tell
from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.reproduce.measured import Measured
    from dither.reproduce.papers import Selection
    from dither.reproduce.publication import Judged


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--list", "as_list", is_flag=True, help="List all figures, tables and claims, and measure nothing.")
@click.option("--smoke", "scale", flag_value="smoke", help="Seconds: shows that it runs; the numbers mean little.")
@click.option("--quick", "scale", flag_value="quick", default=True, help="Minutes (the default).")
@click.option("--full", "scale", flag_value="full", help="The scale of the paper; may take hours.")
@click.option("--jobs", type=click.IntRange(1), help="Processes; as many as there are cores if left out.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Start nothing after so many; go on later.")
@click.option("--data", type=click.Path(exists=True, file_okay=False), help="A folder with data that packages lack.")
@click.option(
    "-o", "--output", type=click.Path(file_okay=False), default="reproduced", show_default=True, help="Where to write."
)
@click.option("--keep", is_flag=True, help="Put the numbers into the folder of the papers, for their pages.")
@json_option("Print the verdicts as JSON.")
def reproduce(
    names: tuple[str, ...],
    as_list: bool,
    scale: str,
    jobs: int | None,
    minutes: float | None,
    data: str | None,
    output: str,
    keep: bool,
    as_json: bool,
) -> None:
    """Measure figures, tables and claims of papers again.

    NAME is a paper (003), a figure or table (003.fig6), a claim (003.claim12) or all. Pictures (PNG and SVG) in the
    axes of the paper, numbers (CSV) and verdicts are written to the folder reproduced. What was measured is kept
    there: a run that is stopped goes on where it was.

    \b
    dither reproduce --list
    dither reproduce 003.fig6
    dither reproduce 004 --full --jobs 2
    """
    from dither.reproduce import papers

    if as_list:
        _listed(names or (papers.EVERYTHING,))
        return
    if not names:
        raise click.UsageError("say what: a name such as 003.fig6 or 003, or all; --list shows them")
    from dither.reproduce import publication
    from dither.reproduce.datasets import FOLDER
    from dither.reproduce.experiments import SCALES, Scale
    from dither.reproduce.results_cache import ResultsCache
    from dither.reproduce.runner import measure_selections

    if data:
        os.environ[FOLDER] = str(Path(data).resolve())
    chosen: Scale = next(each for each in SCALES if each == scale)
    folder = Path(output)
    selections = papers.select(names)
    done = measure_selections(
        selections, chosen, ResultsCache(folder / "cache"), jobs=jobs or os.cpu_count() or 1, minutes=minutes or 0
    )
    for text, experiments in done.missing.items():
        tell(f"note: {text} (for {experiments})")
    if not done.measured:
        raise ParameterError("nothing could be measured: the notes above say what is missing")
    found = []
    for selection in selections:
        files = publication.publish(selection, done.measured, folder)
        if keep:
            publication.keep(selection.paper, done.measured)
        judged = publication.verdicts(selection.claims, done.measured)
        found += judged
        if not as_json:
            _shown(selection, done.measured, judged, files)
    if as_json:
        facts(
            [
                {"claim": claim.name, "outcome": verdict.outcome, "evidence": verdict.evidence}
                for claim, verdict in found
            ]
        )
    tell(
        f"{several(done.done, 'measurement')} made, {done.reused:,} known before"
        + (f", {done.left:,} left: the same command goes on" if done.left else "")
        + f"; see {folder}"
    )


def _listed(names: tuple[str, ...]) -> None:
    from dither.display.table import TextTable
    from dither.reproduce import papers

    entries = [each for selection in papers.select(names) for each in selection.figures]
    claims = [each for selection in papers.select(names) for each in selection.claims]
    show(TextTable({"name": [each.name for each in entries], "shows": [each.title for each in entries]}))
    show(TextTable({"name": [each.name for each in claims], "claims": [each.says for each in claims]}))


def _shown(
    selection: "Selection", measured: "Mapping[str, Measured]", judged: "list[Judged]", files: list[Path]
) -> None:
    from dither.display.table import TextTable
    from dither.reproduce import publication

    for entry in selection.figures:
        if entry.shown_as == "text" and entry.experiment.name in measured:
            show(f"{entry.name}: {entry.title}", entry.table(measured[entry.experiment.name]))
    if judged:
        show(
            TextTable(
                {
                    "claim": [each.claim.name for each in judged],
                    "verdict": [each.verdict.outcome for each in judged],
                    "numbers": [each.verdict.evidence for each in judged],
                }
            )
        )
        told = publication.counts(judged)
        show(f"{selection.paper.number}: " + ", ".join(f"{count} {name}" for name, count in told.items() if count))
    for experiment in selection.experiments:
        if experiment.cost and experiment.name in measured:
            tell(f"note: {experiment.name}: {experiment.cost}")
    pictures = [file.name for file in files if file.suffix == ".png"]
    if pictures:
        tell(f"drew {', '.join(pictures[:8])}{' ...' if len(pictures) > 8 else ''}")
