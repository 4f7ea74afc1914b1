"""Bar charts for a terminal: shares with their intervals, as text.

A bar has three shades. It is solid up to the lower end of the interval, half-tone up to the estimate, and light up to
the upper end: what is surely there, what is there as far as one can tell, and what may be there. So the picture says
how sure it is without colour, in a log and on paper too. A terminal that has colours gets them beside that; one that
has no block characters gets letters.

`BarChart` has a line for each item. `ColumnChart` is for the cells of an axis, side by side in their order; it adds up
neighbours where there are more cells than columns. Ends of intervals add up to an interval if each of k neighbours is
wrong with probability (1 - level) / k at most: whoever calls passes the ends for that level (`neighbours` tells k).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dither.display.significant_digits import percent
from dither.display.table import cell

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

Floats = NDArray[np.float64]

BLOCKS, LETTERS = "█▓░", "#=."  # up to the lower end, the estimate, the upper end
_STYLES = ("cyan", "cyan", "bright_black")
_LONGEST = 24  # letters of a label
_HEIGHT = 9
_LEAST = 10  # columns of a bar, in however narrow a terminal


def bar(value: float, low: float, high: float, most: float, width: int, shades: str = BLOCKS) -> str:
    """One bar, of `width` characters if it goes up to `most`.

    >>> print(bar(0.5, 0.3, 0.8, 1.0, 10), bar(0.5, 0.3, 0.8, 1.0, 10, LETTERS))
    ███▓▓░░░ ###==...
    """
    places = [_place(end, most, width) for end in (low, value, high)]
    surely, told, perhaps = np.maximum.accumulate(places)
    return shades[0] * surely + shades[1] * (told - surely) + shades[2] * (perhaps - told)


def _place(share: float, most: float, width: int) -> int:
    return round(min(max(share, 0.0), most) / most * width) if np.isfinite(share) and most > 0 else 0


def legend(level: float = 0.95, shades: str = BLOCKS) -> str:
    """What the shades mean.

    >>> print(legend())
    █ up to the lower end of the 95% interval, ▓ to the estimate, ░ to the upper end.
    """
    solid, half, light = shades
    return f"{solid} up to the lower end of the {level:.0%} interval, {half} to the estimate, {light} to the upper end."


@dataclass(frozen=True, eq=False)
class Legend:
    """The same, in the characters that a terminal has."""

    level: float = 0.95

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[str]":
        yield legend(self.level, LETTERS if options.ascii_only else BLOCKS)


@dataclass(frozen=True, eq=False)
class BarChart:
    """A line for each item: its label, its bar and its share; `rest` counts those that are not shown.

    >>> print(BarChart("job", ["nurse", "other"], np.array([0.6, 0.4]), np.array([0.5, 0.3]), np.array([0.7, 0.5])))
    job
    nurse  █████████████████████████████████████████████████▓▓▓▓▓▓▓▓▓░░░░░░░░░░  60%
    other  █████████████████████████████▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░                     40%
    """

    title: str
    labels: Sequence[str]
    value: Floats
    low: Floats
    high: Floats
    rest: int = 0

    def lines(self, width: int = 80, shades: str = BLOCKS) -> list[str]:
        """The chart as text."""
        from rich.cells import cell_len, set_cell_size

        names = [cell(label).replace("\n", "?") for label in self.labels]
        names = [name if cell_len(name) <= _LONGEST else set_cell_size(name, _LONGEST - 1) + "…" for name in names]
        if shades == LETTERS:
            names = [name.replace("…", "~") for name in names]
        errors = (self.high - self.low) / 4
        shares = ["not known" if not np.isfinite(value) else percent(float(value), float(error) or None)
                  for value, error in zip(self.value, errors, strict=True)]  # fmt: skip
        margin, room = max(map(cell_len, names), default=0), max(map(len, shares), default=0)
        width = max(width - margin - room - 4, _LEAST)
        most = _largest(self.value, self.high)
        bars = [bar(float(value), float(low), float(high), most, width, shades)
                for value, low, high in zip(self.value, self.low, self.high, strict=True)]  # fmt: skip
        rows = [f"{set_cell_size(name, margin)}  {drawn:<{width}}  {share:>{room}}"
                for name, drawn, share in zip(names, bars, shares, strict=True)]  # fmt: skip
        return [cell(self.title), *rows, *([f"and {self.rest:,} more"] if self.rest else [])]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Text]":
        yield from _styled(self.lines, options)


@dataclass(frozen=True, eq=False)
class ColumnChart:
    """Columns side by side, for the cells of an axis in their order; `ends` are written under the first and the last.

    >>> value = np.array([0.1, 0.3, 0.4, 0.2])
    >>> print("\\n".join(ColumnChart("age", ("18", "99"), value, value / 2, value * 1.5).lines(22)))
    age
    60%          ░░░░
                 ░░░░
             ░░░░░░░░
             ░░░░▓▓▓▓
             ░░░░▓▓▓▓
             ▓▓▓▓▓▓▓▓░░░░
             ▓▓▓▓████▓▓▓▓
         ▓▓▓▓████████████
     0%  ████████████████
         18            99
    """

    title: str
    ends: tuple[str, str]
    value: Floats
    low: Floats
    high: Floats

    def lines(self, width: int = 80, shades: str = BLOCKS) -> list[str]:
        """The chart as text."""
        value, low, high = (_together(part, width) for part in (self.value, self.low, self.high))
        high = np.minimum(high, 1.0)
        most = _largest(value, high)
        top = percent(most, most / 10)
        margin = len(top) + 1
        each = max(1, (width - margin - 1) // max(value.size, 1))
        columns = [bar(float(share), float(least), float(end), most, _HEIGHT, shades).ljust(_HEIGHT)
                   for share, least, end in zip(value, low, high, strict=True)]  # fmt: skip
        rows = ["".join(column[height] * each for column in columns) for height in reversed(range(_HEIGHT))]
        sides = [top, *[""] * (_HEIGHT - 2), "0%"]
        drawn = [f"{side:>{margin - 1}}  {row}".rstrip() for side, row in zip(sides, rows, strict=True)]
        first, last = map(cell, self.ends)
        foot = first + last.rjust(max(each * value.size - len(first), len(last) + 1))
        several = neighbours(self.value.size, width)
        title = f"{self.title}, {several} values a column" if several > 1 else self.title
        return [cell(title), *drawn, f"{'':>{margin + 1}}{foot}"]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Text]":
        yield from _styled(self.lines, options)


def neighbours(cells: int, width: int = 80) -> int:
    """How many cells a column holds.

    >>> neighbours(70), neighbours(82), neighbours(1024)
    (1, 2, 15)
    """
    return -(-cells // max(width - 8, _LEAST))


def _together(part: Floats, width: int) -> Floats:
    starts = np.arange(0, part.size, neighbours(part.size, width))
    return np.add.reduceat(np.nan_to_num(part), starts) if part.size else part


def _largest(value: Floats, high: Floats) -> float:
    known = np.concatenate([value, high])
    known = known[np.isfinite(known)]
    return float(known.max()) if known.size and known.max() > 0 else 1.0


def _styled(lines: Callable[[int, str], list[str]], options: "ConsoleOptions") -> "Iterator[Text]":
    """Lines in the width and the characters of a terminal; the first is a title, and the last is empty."""
    from rich.text import Text

    shades = LETTERS if options.ascii_only else BLOCKS
    for place, line in enumerate([*lines(options.max_width, shades), ""]):
        text = Text(line, style="" if place else "bold", no_wrap=True, overflow="crop" if place else "ellipsis")
        if shades == BLOCKS and place:
            for shade, style in zip(BLOCKS, _STYLES, strict=True):
                text.highlight_words([shade], style)
        yield text
