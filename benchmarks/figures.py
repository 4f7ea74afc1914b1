"""One row a figure: what was measured, how fast the fastest peer is, and whether a target was met.

All rows have the same columns, so that one table holds everything: on the terminal and, between two comments, in
`benchmarks/README.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from dither.display.table import TextTable

README = Path(__file__).with_name("README.md")
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Target:
    """A bound on the figure itself, or on its ratio to the peers."""

    bound: float
    unit: str = ""
    of_ratio: bool = False
    at_least: bool = True

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{sign} {short(self.bound)}{' times' if self.of_ratio else ''}{self.unit}"

    def met(self, figure: float) -> bool:
        """Whether the figure is on the right side of the bound."""
        return figure >= self.bound if self.at_least else figure <= self.bound


@dataclass(frozen=True)
class Peers:
    """The fastest peer of a figure: its name, its own figure, and on how many users it was measured."""

    library: str
    figure: float
    users: int


@dataclass(frozen=True)
class Row:
    """A figure of dither. `versus` is what a ratio is taken to: the fastest peer, or another figure of dither."""

    mechanism: str
    measure: str
    users: int
    figure: float
    peer: Peers | None = None
    versus: float | None = None
    target: Target | None = None

    @property
    def ratio(self) -> float | None:
        """dither's figure over what it is compared with."""
        other = self.peer.figure if self.peer else self.versus
        return self.figure / other if other else None

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None without a target."""
        if self.target is None:
            return None
        figure = self.ratio if self.target.of_ratio else self.figure
        return figure is not None and self.target.met(figure)

    def cells(self) -> dict[str, str]:
        """The row as text, by column."""
        return {
            "mechanism": self.mechanism,
            "measure": self.measure,
            "users": short(self.users),
            "dither": short(self.figure),
            "peer": short(self.peer.figure) if self.peer else "",
            "fastest peer, users": f"{self.peer.library}, {short(self.peer.users)}" if self.peer else "",
            "ratio": "" if self.ratio is None else short(self.ratio),
            "target": "" if self.target is None else str(self.target),
            "verdict": {None: "", True: "met", False: "not met"}[self.met],
        }


RIGHT = ("users", "dither", "peer", "ratio")


def short(figure: float) -> str:
    """A number with three significant digits and a prefix.

    >>> short(1_523_000_000), short(125), short(0.001234), short(100_000), short(999_900)
    ('1.52G', '125', '0.00123', '100k', '1M')
    """
    rounded = float(f"{figure:.3g}")
    for size, prefix in PREFIXES:
        if abs(rounded) >= size:
            return f"{rounded / size:.3g}{prefix}"
    return f"{rounded:.3g}"


def table(rows: Sequence[Row]) -> TextTable:
    """The rows for the terminal: numbers are flush right, and a mechanism is named once."""
    lines = [row.cells() for row in rows]
    columns = {name: [line[name] for line in lines] for name in lines[0]}
    names = columns["mechanism"]
    columns["mechanism"] = [name if i == 0 or name != names[i - 1] else "" for i, name in enumerate(names)]
    for name in RIGHT:
        width = max(map(len, columns[name]))
        columns[name] = [text.rjust(width) for text in columns[name]]
    return TextTable(columns)


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [row.cells() for row in rows]
    head = list(lines[0])
    rule = ["---:" if name in RIGHT else "---" for name in head]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *(line.values() for line in lines)))


def write_section(page: Path, name: str, section: str) -> None:
    """Put a section of a page between its two markers."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise click.ClickException(f"{page.name} has lost its two markers, {begin} and {end}")
    page.write_text(f"{before}{begin}\n{section}\n{end}{after}")


def markdown_table(table: TextTable) -> str:
    """Any table as a Markdown table: the first column holds names, the others numbers."""
    head = list(table.columns)
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *table.rows()))


def verdict(rows: Sequence[Row]) -> str:
    """How many targets were met, and which were not."""
    judged = [row for row in rows if row.target]
    missed = [f"{row.mechanism}, {row.measure} ({row.target})" for row in judged if not row.met]
    return f"{len(judged) - len(missed)} of {len(judged)} targets met." + (
        f" Not met: {'; '.join(missed)}." if missed else ""
    )


def keep(name: str, section: str) -> None:
    """Put a generated part between its markers in the README."""
    write_section(README, name, section)
