"""What is written about a run: pictures, numbers and verdicts in a folder, and the page of a paper."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dither.core.atomic_write import write_text
from dither.display.table import TextTable
from dither.reproduce.claims import OUTCOMES, Claim, Verdict
from dither.reproduce.drawing import draw
from dither.reproduce.measured import Measured, NotMeasuredError
from dither.reproduce.paper_figures import Figure, PaperTable
from dither.reproduce.papers import Paper, Selection


class Judged(NamedTuple):
    """A claim and what became of it."""

    claim: Claim
    verdict: Verdict


def verdicts(claims: Iterable[Claim], measured: Mapping[str, Measured]) -> list[Judged]:
    """All claims, in their order."""
    return [Judged(claim, claim.verdict(measured)) for claim in claims]


def counts(found: Sequence[Judged]) -> dict[str, int]:
    """How many claims had which outcome."""
    many = Counter(each.verdict.outcome for each in found)
    return {outcome: many[outcome] for outcome in OUTCOMES}


def verdict_table(found: Sequence[Judged]) -> TextTable:
    """A row for each claim."""
    return TextTable(
        {
            "claim": [each.claim.name for each in found],
            "says": [each.claim.says for each in found],
            "where": [each.claim.place for each in found],
            "verdict": [each.verdict.outcome for each in found],
            "numbers": [each.verdict.evidence for each in found],
        }
    )


def publish(selection: Selection, measured: Mapping[str, Measured], folder: Path) -> list[Path]:
    """Write PNG, SVG and CSV of each figure, text and CSV of each table, and the verdicts; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for entry in selection.figures:
        numbers = measured.get(entry.experiment.name)
        if numbers is None or not len(entry.shown(numbers)):
            continue
        path = folder / f"{entry.name}.csv"
        write_text(path, entry.shown(numbers).to_csv())
        written += [path, *_shown(entry, numbers, folder)]
    if selection.claims:
        path = folder / f"{selection.paper.number}.claims.md"
        write_text(path, f"{markdown(verdict_table(verdicts(selection.claims, measured)))}\n")
        written.append(path)
    return written


def _shown(entry: Figure | PaperTable, numbers: Measured, folder: Path) -> list[Path]:
    if entry.shown_as == "text":
        path = folder / f"{entry.name}.txt"
        write_text(path, f"{entry.title}\n{entry.table(numbers)}\n{entry.note}\n")
        return [path]
    drawn = draw(entry, numbers)
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")  # found once, for both files
    paths = [folder / f"{entry.name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        drawn.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def keep(paper: Paper, measured: Mapping[str, Measured]) -> list[Path]:
    """Put numbers into the folder of a paper, from which its page is made."""
    folder = paper.folder() / "results"
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{each.name}.csv" for each in paper.experiments if each.name in measured]
    for path in paths:
        write_text(path, measured[path.stem].to_csv())
    return paths


def page(paper: Paper, measured: Mapping[str, Measured], picture: str = "{name}.svg") -> str:
    """The figures, tables and claims of a paper in Markdown; `picture` says where a figure's picture is."""
    found = verdicts(paper.claims, measured)
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts(found).items() if count)
    parts = [f"Of {len(found)} claims: {told}." if found else "", "## Claims", markdown(verdict_table(found))]
    parts.append("## Figures and tables")
    for entry in paper.figures:
        parts += [f"### {entry.name}: {entry.title}", *_entry(entry, measured.get(entry.experiment.name), picture)]
    return "\n\n".join(part for part in parts if part)


def _entry(entry: Figure | PaperTable, numbers: Measured | None, picture: str) -> list[str]:
    if numbers is None or not len(entry.shown(numbers)):
        return [f"Not measured yet: `dither reproduce {entry.name}`. {entry.note}".strip()]
    source = f"`dither reproduce {entry.name}`; numbers: {numbers.notes.get('scale', '')}"
    source += f", {numbers.notes.get('measurements', '')}. {entry.experiment.cost}"
    if entry.shown_as == "text":
        try:
            return [markdown(entry.table(numbers)), entry.note, source.strip()]
        except NotMeasuredError as error:
            return [str(error)]
    return [f"![{entry.title}]({picture.format(name=entry.name)})", entry.note, source.strip()]


def markdown(table: TextTable) -> str:
    """A table of text in Markdown."""
    heads = list(table.columns)
    rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in table.rows()]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
