"""One small table value for the terminal, for notebooks and for the `dither` command.

It holds columns and nothing else: `print` aligns them, a notebook renders HTML, and `rich` draws a box.
"""

import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rich.table import Table as Drawn

# Names and labels come from files, and a terminal obeys what it does not show.
_UNSEEN = {code: "?" for code in (*range(32), *range(127, 160)) if chr(code) != "\n"}
_WRITTEN: dict[Any, Callable[[Any], str]] = {  # the first kind that an entry is of
    bool | np.bool_: lambda truth: "yes" if truth else "no",
    int | np.integer: "{:,}".format,
    float | np.floating: "{:.5g}".format,
}


@dataclass(frozen=True, eq=False)
class TextTable:
    """Named columns of equal length.

    >>> print(TextTable({"name": ["a", "b"], "share": [0.25, 12.0]}))
    name  share
    a      0.25
    b        12
    """

    columns: Mapping[str, Any]

    def rows(self) -> list[tuple[str, ...]]:
        """The cells as text, row by row."""
        return list(zip(*(map(cell, column) for column in self.columns.values()), strict=True))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __str__(self) -> str:
        lines = [tuple(self.columns), *self.rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        right = [self._numeric(column) for column in self.columns.values()]
        return "\n".join(
            "  ".join(
                text.rjust(width) if flush else text.ljust(width)
                for text, width, flush in zip(line, widths, right, strict=True)
            ).rstrip()
            for line in lines
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def line(cells: Iterable[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in cells) + "</tr>"

        body = "".join(line(row, "td") for row in self.rows())
        return f"<table><thead>{line(self.columns, 'th')}</thead><tbody>{body}</tbody></table>"

    def __rich__(self) -> "Drawn":
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as Drawn
        from rich.text import Text

        drawn = Drawn(box=SIMPLE_HEAD)
        for name, column in self.columns.items():
            drawn.add_column(Text(name), justify="right" if self._numeric(column) else "left", overflow="fold")
        for row in self.rows():
            drawn.add_row(*map(Text, row))
        return drawn

    @staticmethod
    def _numeric(column: Any) -> bool:
        return all(isinstance(entry, int | float | np.number) for entry in column)


def cell(entry: Any) -> str:
    """A number with five significant digits, anything else as it is."""
    for kind, written in _WRITTEN.items():
        if isinstance(entry, kind):
            return written(entry)
    return str(entry).translate(_UNSEEN)
