"""Numbers that an experiment measured: at which coordinates, their means over repetitions, and the standard errors.

A measured number has coordinates with names, such as `mechanism="Collision", epsilon=0.5, metric="MAE"`, and nothing
else: a figure chooses which of them is its x axis, which its lines and which its panels. All numbers of an experiment
are in one file of comma-separated values, which is small enough for a repository and which any tool reads.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.errors import DitherError, ParameterError

Coordinate = str | int | float
Coordinates = Mapping[str, Coordinate]
_MEASURED = ("value", "stderr", "repetitions")
_DIGITS = 7


class NotMeasuredError(DitherError, KeyError):
    """A number that the experiment at hand has not measured."""

    __str__ = Exception.__str__


class Number(NamedTuple):
    """One number that a measurement yields, and where it belongs."""

    where: Coordinates
    value: float


def measured_value(value: float, **where: Coordinate) -> Number:
    """One number that a measurement yields.

    >>> measured_value(0.25, mechanism="GRR", epsilon=1.0)
    Number(where={'mechanism': 'GRR', 'epsilon': 1.0}, value=0.25)
    """
    return Number(where, float(value))


class Row(NamedTuple):
    """The mean over repetitions at some coordinates; the standard error is NaN where there was one repetition."""

    where: Coordinates
    value: float
    stderr: float
    repetitions: int


class Curve(NamedTuple):
    """Numbers along one coordinate."""

    x: tuple[Coordinate, ...]
    value: NDArray[np.float64]
    stderr: NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """All numbers of an experiment, or some of them.

    >>> measured = [(1, 1.0), (1, 3.0), (2, 5.0)]
    >>> found = Measured.of(measured_value(value, line="a", x=x) for x, value in measured)
    >>> found.value(line="a", x=1), round(found.stderr(line="a", x=1), 3)
    (2.0, 1.0)
    >>> found.curve("x", line="a").value
    array([2., 5.])
    """

    rows: tuple[Row, ...]
    notes: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(numbers: Iterable[Number], notes: Mapping[str, str] | None = None) -> "Measured":
        """Means over all numbers with the same coordinates, in the order in which these came first."""
        together: dict[tuple[tuple[str, Coordinate], ...], list[float]] = {}
        for each in numbers:
            together.setdefault(tuple(each.where.items()), []).append(each.value)
        return Measured(tuple(_row(dict(where), values) for where, values in together.items()), notes or {})

    def select(self, **where: Coordinate) -> "Measured":
        """The numbers with these coordinates."""
        kept = (row for row in self.rows if all(row.where.get(name) == value for name, value in where.items()))
        return Measured(tuple(kept), self.notes)

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, **where: Coordinate) -> Row:
        """The one number with these coordinates."""
        found = self._index.get(frozenset(where.items()))
        if found is not None:
            return found
        some = self.select(**where).rows
        if len(some) != 1:
            shown = ", ".join(f"{name}={value}" for name, value in where.items())
            what = "no number" if not some else f"{len(some)} numbers"
            raise NotMeasuredError(f"{what} at {shown}: give all coordinates of a number that was measured")
        return some[0]

    def value(self, **where: Coordinate) -> float:
        """The mean at these coordinates."""
        return self.row(**where).value

    def stderr(self, **where: Coordinate) -> float:
        """Its standard error; NaN where there was one repetition."""
        return self.row(**where).stderr

    def along(self, name: str) -> tuple[Coordinate, ...]:
        """The values of a coordinate, in the order in which they were measured."""
        return tuple(dict.fromkeys(row.where[name] for row in self.rows if name in row.where))

    def curve(self, along: str, **where: Coordinate) -> Curve:
        """The numbers with these coordinates, in the order of the coordinate that is left (numbers before words)."""
        rows = [row for row in self.select(**where).rows if along in row.where]
        places = [row.where[along] for row in rows]
        if not rows or len(set(places)) < len(places):
            shown = ", ".join(f"{name}={value}" for name, value in where.items()) or "all coordinates"
            what = "nothing was measured" if not rows else f"several numbers have the same {along}"
            raise NotMeasuredError(f"{what} at {shown}: give all coordinates but {along}")
        if not any(isinstance(place, str) for place in places):
            rows.sort(key=lambda row: row.where[along])
        return Curve(
            tuple(row.where[along] for row in rows),
            np.array([row.value for row in rows]),
            np.array([row.stderr for row in rows]),
        )

    @cached_property
    def _index(self) -> dict[frozenset[tuple[str, Coordinate]], Row]:
        return {frozenset(row.where.items()): row for row in self.rows}

    def to_csv(self) -> str:
        """Lines that start with # say where the numbers come from; then a row for each."""
        names = tuple(dict.fromkeys(name for row in self.rows for name in row.where))
        file = io.StringIO()
        file.writelines(f"# {name}: {note}\n" for name, note in self.notes.items())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*names, *_MEASURED))
        for row in self.rows:
            cells = (_written(row.where.get(name, "")) for name in names)
            writer.writerow((*cells, _digits(row.value), _digits(row.stderr), row.repetitions))
        return file.getvalue()

    @staticmethod
    def from_csv(text: str) -> "Measured":
        """What `to_csv` wrote; values have seven digits."""
        lines = text.splitlines()
        heads = [line for line in lines if line.startswith("# ")]
        notes = dict(line[2:].split(": ", 1) for line in heads)
        table = list(csv.reader(line for line in lines if not line.startswith("#")))
        if not table or tuple(table[0][-3:]) != _MEASURED:
            raise ParameterError("these are no measured numbers: a table ends with value, stderr, repetitions")
        names = table[0][:-3]
        return Measured(tuple(_rows(names, table[1:])), notes)


def _rows(names: Sequence[str], table: Sequence[Sequence[str]]) -> Iterator[Row]:
    for cells in table:
        where = {name: _read(cell) for name, cell in zip(names, cells, strict=False) if cell != ""}
        value, stderr, repetitions = cells[len(names) :]
        yield Row(where, float(value), float(stderr or "nan"), int(repetitions))


def _row(where: Coordinates, values: Sequence[float]) -> Row:
    for name, place in where.items():
        if isinstance(place, str) and (_read(place) != place or name in _MEASURED):
            raise ParameterError(f"coordinate {name} is a text that reads as a number, or has a name of the table")
    many = len(values)
    spread = float(np.std(values, ddof=1)) / math.sqrt(many) if many > 1 else math.nan
    return Row(where, float(np.mean(values)), spread, many)


def _read(cell: str) -> Coordinate:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _written(place: Coordinate) -> str:
    return place if isinstance(place, str) else repr(place)


def _digits(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.{_DIGITS}g}"
