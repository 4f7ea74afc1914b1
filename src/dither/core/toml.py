"""TOML for people to edit: tables of numbers and texts, with comments.

Python reads TOML and does not write it. What is written here is little (no nested tables, no dates), and is read back
equal whatever the texts hold: the tests draw them at random.
"""

import re
from collections.abc import Sequence
from typing import Any

from dither.core.checks import is_list

_WIDTH = 100  # of lines of labels
_LARGE = 1e15  # whole floats below are written as people write them


def comment(text: str) -> str:
    """A text as lines that TOML does not read, whatever is in it."""
    lines = ("".join(letter if _shown(letter) else " " for letter in line) for line in text.splitlines())
    return "\n".join(f"# {line}".rstrip() for line in lines) or "#"


def _shown(letter: str) -> bool:
    return letter.isprintable() and not "\ud800" <= letter <= "\udfff"


def key(name: str) -> str:
    """The name of a table or a parameter; in quotes where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def quoted(text: str) -> str:
    """In quotes; whatever is not seen on a screen is written as its number."""
    return '"' + "".join(map(_letter, text)) + '"'


def _letter(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 1 << 16 else f"\\U{ord(letter):08x}"


def written(value: Any) -> str:
    """A number, a text, true or false, or a list of them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value)
    if is_list(value):
        return _listed(list(map(written, value)))
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGE and str(value) != "-0.0":
        return str(int(value))
    return repr(value)


def _listed(texts: Sequence[str]) -> str:
    """On one line if there is room, else on lines of some width."""
    lines, line = [], ""
    for text in texts:
        if line and len(line) + len(text) + 2 > _WIDTH:
            lines.append(line)
            line = ""
        line += f"{', ' if line else ''}{text}"
    lines.append(line)
    return f"[{line}]" if len(lines) == 1 else "[\n" + "".join(f"    {each},\n" for each in lines) + "]"
