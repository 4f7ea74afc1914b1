"""The hook that puts papers into the pages: every comment that asks for one gets it, or stops the build."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts_by_path import documentation

pytest.importorskip("mkdocs", reason="the pages are built by MkDocs: pip install 'dither[docs]'")
pytest.importorskip("matplotlib", reason="pictures are drawn by Matplotlib: pip install 'dither[docs]'")

pages = documentation("paper_pages")
DOCS = Path(__file__).parents[1] / "docs"


def placed(text: str, where: str = "papers/page.md") -> str:
    """A page with what it asks for."""
    return pages.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=where)))


def test_a_comment_becomes_a_paper():
    text = placed("Before.\n\n<!-- paper: 002 -->\n\nBehind.")
    assert text.startswith("Before.\n\nOf ")
    assert "(../figures/002.fig1.svg)" in text
    assert text.endswith("Behind.")


def test_counts_have_a_row_for_each_paper():
    text = placed("<!-- paper counts -->", "papers.md")
    assert "| [002](papers/002.md) |" in text
    assert "| **all** |" in text


@pytest.mark.parametrize("comment", ["<!-- paper: 999 -->", "<!-- paper 002 -->", "<!-- paper: -->"])
def test_a_paper_that_is_missing_stops_the_build(comment):
    with pytest.raises(Exception, match=r"papers/page.md: (there is no paper|a paper is asked for)"):
        placed(comment)


def test_every_paper_has_a_page():
    asked = [number for page in DOCS.rglob("*.md") for number in pages.MARK.findall(page.read_text())]
    assert sorted(asked) == pages.papers.numbers()
