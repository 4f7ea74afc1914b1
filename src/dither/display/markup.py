"""HTML that is right by construction: texts are escaped when they are put into an element, never by hand.

`Markup` is text that is HTML already, and only `element` and `joined` make it. So a label that looks like a script is
shown as it is written. Letters that no page may hold (control characters, halves of surrogate pairs) are replaced.
"""

import html
import re
from collections.abc import Iterable
from typing import Any

_VOID = frozenset({"br", "img", "input", "link", "meta"})
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_ALONE = frozenset({"circle", "line", "path", "rect"})  # of drawings


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(content: Any) -> Markup:
    """Anything as text of a page.

    >>> text("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    if isinstance(content, Markup):
        return content
    return Markup(html.escape(_NOT_TEXT.sub("\ufffd", str(content))))


def joined(parts: Iterable[Any], between: str = "") -> Markup:
    """Parts one after another."""
    return Markup(between.join(map(text, parts)))


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element; an attribute that is None is left out, and one that ends in `_` is a word that Python has taken.

    >>> element("p", "1 < 2 ", element("b", "yes"), class_="note", aria_label=None)
    '<p class="note">1 &lt; 2 <b>yes</b></p>'
    """
    written = joined(
        Markup(f' {key.rstrip("_").replace("_", "-")}="{text(value)}"')
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    if name in _ALONE:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def visible(label: str) -> str:
    """A label that can be seen: one that is empty or blank is put in quotes.

    >>> visible("nurse"), visible("")
    ('nurse', '""')
    """
    return label if label.strip() else f'"{label}"'


def given(content: Any, longest: int = 60) -> Markup:
    """A name or label of somebody's data: its direction does not touch its neighbours', and very long ones are cut.

    Names that differ do so at their ends more often than in the middle.

    >>> given("nurse")
    '<bdi>nurse</bdi>'
    """
    whole = visible(str(content))
    if len(whole) <= longest:
        return element("bdi", whole)
    return element("bdi", f"{whole[: longest // 2]}…{whole[1 - longest // 2 :]}", title=whole[:400])
