"""How the numbers of an experiment are shown: figures with panels and lines, and tables beside what a paper prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from dither.display.table import TextTable
from dither.reproduce.experiments import Experiment
from dither.reproduce.measured import Coordinate, Coordinates, Measured, NotMeasuredError

_ROUNDING = 1e-12  # of a number: what repetitions of the same one differ by

Kind = Literal["paper", "dither", "as printed", "control", "limit"]


@dataclass(frozen=True)
class Line:
    """One line: the value of the coordinate that tells lines apart, what it is called, and whose it is.

    `paper`: a method that the paper shows, in a sound form. `dither`: something better, which the paper has not.
    `as printed`: the paper's own form where that is unsound or wrong. `control`: what tells nothing, for comparison.
    `limit`: a bound or a law, not a measurement.
    """

    name: str
    label: str = ""
    kind: Kind = "paper"

    @property
    def title(self) -> str:
        """What the legend says."""
        return self.label or self.name


@dataclass(frozen=True)
class Panel:
    """One picture of a figure: its title, and the coordinates that its numbers have; `x` where its axis is another."""

    title: str
    where: Coordinates = field(default_factory=dict)
    x: str = ""
    x_label: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: in its axes, its order of panels and lines, with error bars."""

    shown_as: ClassVar[Literal["picture"]] = "picture"

    name: str
    title: str
    experiment: Experiment
    x: str
    lines: Sequence[Line]
    by: str = "line"
    panels: Sequence[Panel] = (Panel(""),)
    where: Coordinates = field(default_factory=dict)
    x_label: str = ""
    y_label: str = ""
    x_scale: Literal["linear", "log", "symlog", "category"] = "linear"
    y_scale: Literal["linear", "log", "symlog"] = "linear"
    shape: Literal["lines", "points", "bars"] = "lines"
    columns: int = 4
    note: str = ""  # data that stand in, readings of what the paper leaves open

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """What it shows the numbers of."""
        return (self.experiment,)

    def shown(self, measured: Measured) -> Measured:
        """The numbers that it shows."""
        names = {line.name for line in self.lines}
        kept = [
            row
            for row in measured.select(**self.where).rows
            if row.where.get(self.by) in names
            and any(all(row.where.get(name) == value for name, value in panel.where.items()) for panel in self.panels)
        ]
        return Measured(tuple(kept), measured.notes)


@dataclass(frozen=True)
class PaperTable:
    """A table or worked example of a paper: what it prints, what comes out, and why they differ.

    `cells` are named by the values of `rows` and `columns`; `printed` holds what the paper has there, if anything.
    """

    shown_as: ClassVar[Literal["text"]] = "text"

    name: str
    title: str
    experiment: Experiment
    rows: str
    columns: str
    where: Coordinates = field(default_factory=dict)
    printed: Mapping[tuple[Coordinate, Coordinate], float | str] = field(default_factory=dict)
    digits: int = 4
    note: str = ""

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """What it shows the numbers of."""
        return (self.experiment,)

    def shown(self, measured: Measured) -> Measured:
        """The numbers that it shows."""
        kept = (row for row in measured.select(**self.where).rows if {self.rows, self.columns} <= set(row.where))
        return Measured(tuple(kept), measured.notes)

    def table(self, measured: Measured) -> TextTable:
        """A row for each row; a column for each column, and beside it what is printed, where something is."""
        numbers = self.shown(measured)
        if not len(numbers):
            raise NotMeasuredError(f"{self.name}: nothing of it was measured")
        rows = numbers.along(self.rows)
        shown: dict[str, list[str]] = {self.rows: [str(row) for row in rows]}
        for column in numbers.along(self.columns):
            beside = [self.printed.get((row, column), "") for row in rows]
            if any(text != "" for text in beside):
                shown[f"{column}, printed"] = [str(text) for text in beside]
            shown[str(column)] = [self._cell(numbers, row, column) for row in rows]
        return TextTable(shown)

    def _cell(self, numbers: Measured, row: Coordinate, column: Coordinate) -> str:
        found = numbers.select(**{self.rows: row, self.columns: column}).rows
        if not found:
            return ""
        value, stderr = f"{found[0].value:,.{self.digits}g}", found[0].stderr
        return f"{value} ± {stderr:.2g}" if stderr > _ROUNDING * abs(found[0].value) else value
