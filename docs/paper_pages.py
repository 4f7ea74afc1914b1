"""The pages of the papers, made when the pages are built, of descriptions and numbers that are in `papers/`.

A page says `<!-- paper: 003 -->`. This hook of MkDocs puts there what `papers/003` shows and claims: verdicts, tables,
and pictures that are drawn of the kept numbers (`papers/003/results`). `<!-- paper counts -->` becomes the table of all
verdicts. A paper that is asked for in vain stops the build.
"""

import io
import re
from functools import cache
from typing import Any

import matplotlib as mpl

mpl.use("agg")  # no window is opened, and none is needed

from dither.display.table import TextTable
from dither.errors import DitherError
from dither.reproduce import papers, publication
from dither.reproduce.claims import OUTCOMES
from dither.reproduce.drawing import draw
from dither.reproduce.measured import Measured

MARK = re.compile(r"<!--\s*paper:\s*(\w+)\s*-->")
COUNTS = "<!-- paper counts -->"
LEFT_OVER = re.compile(r"<!--\s*paper\b[^>]{0,60}")
FOLDER = "figures"


@cache
def kept(number: str) -> tuple[papers.Paper, dict[str, Measured]]:
    """A paper, and the numbers that are kept of it."""
    paper = papers.load_paper(number)
    return paper, paper.kept()


def pictures(number: str) -> dict[str, bytes]:
    """Its figures as SVG, by name; those of which nothing is kept are left out."""
    paper, measured = kept(number)
    found = {}
    for entry in paper.figures:
        numbers = measured.get(entry.experiment.name)
        if entry.shown_as == "picture" and numbers is not None and len(entry.shown(numbers)):
            file = io.BytesIO()
            with mpl.rc_context({"svg.hashsalt": entry.name}):
                draw(entry, numbers).savefig(file, format="svg", metadata={"Date": None})
            found[entry.name] = file.getvalue()
    return found


def count_table() -> str:
    """Verdicts by paper, and all of them."""
    rows: dict[str, dict[str, int]] = {}
    for number in papers.numbers():
        paper, measured = kept(number)
        rows[f"[{number}](papers/{number}.md)"] = publication.counts(publication.verdicts(paper.claims, measured))
    rows["**all**"] = {outcome: sum(row[outcome] for row in rows.values()) for outcome in OUTCOMES}
    columns: dict[str, list[Any]] = {"paper": list(rows), "claims": [sum(row.values()) for row in rows.values()]}
    return publication.markdown(
        TextTable(columns | {outcome: [row[outcome] for row in rows.values()] for outcome in OUTCOMES})
    )


def on_files(files: Any, config: Any) -> Any:
    """Every figure becomes a file of the site."""
    from mkdocs.structure.files import File

    for number in papers.numbers():
        for name, content in pictures(number).items():
            files.append(File.generated(config, f"{FOLDER}/{name}.svg", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """What is known about a paper stands where the page asks for it."""
    from mkdocs.exceptions import PluginError

    up = "../" * page.file.src_uri.count("/")

    def placed(found: re.Match[str]) -> str:
        try:
            paper, measured = kept(found[1])
        except (DitherError, ModuleNotFoundError):
            known = ", ".join(papers.numbers())
            raise PluginError(f"{page.file.src_uri}: there is no paper {found[1]}; there are {known}") from None
        return publication.page(paper, measured, f"{up}{FOLDER}/{{name}}.svg")

    whole = MARK.sub(placed, markdown)
    whole = whole.replace(COUNTS, count_table()) if COUNTS in whole else whole
    left = LEFT_OVER.search(whole)
    if left is not None:
        raise PluginError(f"{page.file.src_uri}: a paper is asked for in a way that is not understood: {left[0]}")
    return whole
