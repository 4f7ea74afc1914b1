"""The hook that puts pictures into the pages: every comment that asks for one gets it, or stops the build."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts_by_path import documentation

pytest.importorskip("mkdocs", reason="the pages are built by MkDocs: pip install 'dither[docs]'")
pytest.importorskip("matplotlib", reason="pictures are drawn by Matplotlib: pip install 'dither[docs]'")

DOCS = Path(__file__).parents[1] / "docs"
drawings = documentation("drawings")


def placed(text: str, where: str = "page.md") -> str:
    """A page with its pictures."""
    return drawings.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=where)))


@pytest.mark.parametrize(
    "comment",
    [
        "<!-- drawing: heat: two attributes -->",
        "<!-- drawing: heat: two\nattributes\n-->",
        "<!--drawing: heat:two attributes-->",
    ],
)
def test_a_comment_becomes_a_picture(comment):
    assert placed(f"Before.\n\n{comment}\n\nBehind.") == "Before.\n\n![two attributes](drawings/heat.svg)\n\nBehind."
    assert placed(comment, "decisions/page.md") == "![two attributes](../drawings/heat.svg)"


@pytest.mark.parametrize("comment", ["<!-- drawing: nobody: x -->", "<!-- drawing heat -->", "<!-- drawing: heat -->"])
def test_a_picture_that_is_missing_stops_the_build(comment):
    with pytest.raises(Exception, match=r"page.md: (nobody draws|a drawing is asked for)"):
        placed(comment)


def test_every_drawing_of_the_pages_is_there():
    asked = [found for page in DOCS.rglob("*.md") for found in drawings.MARK.findall(page.read_text())]
    assert sorted(name for name, _ in asked) == sorted(drawings.DRAWINGS)
    for page in DOCS.rglob("*.md"):
        placed(page.read_text())
