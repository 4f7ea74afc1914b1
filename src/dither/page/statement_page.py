"""A statement for the people who are asked, as one page: it can be printed, put on a website, or into an app.

Blanks, which somebody has yet to fill in, are marked. Every text is escaped where it is put into an element.
"""

from collections.abc import Iterator
from typing import Any

from dither.core.exact import upward
from dither.display.markup import Markup, element
from dither.page.html_page import page_foot, page_header, whole_page
from dither.planning.statement import BLANK, Section, Statement
from dither.privacy.promise import best_guess


def statement_page(statement: Statement) -> str:
    """A page that needs nothing beside it."""
    short, *rest = statement.sections
    told = (
        "For the people who are asked. Its numbers are those of the certificate of the plan that it names at its end."
    )
    facts = {
        "who guesses between two answers is right at most": best_guess(statement.guarantee),
        "the toss of a coin is right": "50%",
        "privacy: epsilon": upward(statement.guarantee.epsilon),
    }
    if statement.guarantee.delta:
        facts["privacy: delta"] = upward(statement.guarantee.delta)
    if statement.blanks:
        facts["blanks to be filled in"] = f"{len(statement.blanks):,}"
    body = [
        page_header(statement.title, told, facts),
        element("main", *_section(short, box=True), *(part for each in rest for part in _section(each))),
        page_foot(statement.plan),
    ]
    return whole_page(statement.title, body)


def _section(section: Section, *, box: bool = False) -> Iterator[Markup]:
    told = [
        *(element("p", *_marked(line)) for line in section.paragraphs),
        *([element("ul", *(element("li", *_marked(item)) for item in section.items))] if section.items else []),
        *(element("p", *_marked(line)) for line in section.closing),
    ]
    inside = [element("div", *told, class_="box")] if box else told
    yield element("section", element("h2", section.heading), *inside, class_="prose")


def _marked(text: str) -> Iterator[Any]:
    """A text, with its blanks marked."""
    last = 0
    for blank in BLANK.finditer(text):
        yield text[last : blank.start()]
        yield element("mark", blank[0])
        last = blank.end()
    yield text[last:]
