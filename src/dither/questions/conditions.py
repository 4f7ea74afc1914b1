"""The share of users for whom a condition holds: `share(age > 30 and job = 'nurse')`.

A condition that is known beforehand is asked as **one bit**: the device looks whether its record fulfils it, and sends
that bit through randomized response. The error is that of a question with two answers, however many attributes the
condition is about, and nothing is guessed: no cells, no model. Reading the same condition off `ranges` costs many times
as much; ranges are for conditions that are not known yet.

Conditions are read by the parser of queries (`ranges.where`): comparisons of attributes with values, joined by and. A
plan holds them in their own words and beside these as pieces of values (`details`), so that a device needs no parser:
of whole numbers and of numbers [from, to) in their own units, where the last may reach the end; of labels their names.
Of numbers `x <= 30` ends at the next number above 30 that there is, so that who has exactly 30 is inside, and with
`x < 30` is not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import Categories
from dither.core.estimate import Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.estimation.linear_readings import LinearReading
from dither.questions.question import FINE, Column, Floats, Question, Whole, encoded_by
from dither.ranges.axes import Axes, Axis, Pieces, cut_at
from dither.schema import Attribute, Schema
from dither.utility.limits import Parameters, frequencies

_DETAILS = "the stored pieces of a condition are lists of labels, or of pairs of numbers in ascending order"


@dataclass(frozen=True)
class FulfilledColumn:
    """Which values of one attribute fulfil their part of a condition."""

    axis: Axis
    pieces: tuple[tuple[Any, Any], ...]

    @property
    def name(self) -> str:
        """The attribute."""
        return self.axis.name

    @cached_property
    def _cuts(self) -> list[tuple[float, bool, float, bool]]:
        """For each piece where it begins and ends, as values are encoded, and whether the value there is before it.

        An end just above a number stands behind it: to encode rounds, and would put both in one place.
        """
        if not self.axis.continuous:
            first = self.axis.ends[0]
            return [(start - first, False, stop - first, False) for start, stop in self.pieces]
        last = self.axis.ends[1]
        found = []
        for start, stop in self.pieces:
            ends = cut_at(start), cut_at(stop)
            low, high = self.axis.attribute.encode(list(ends)).tolist()
            found.append((low, ends[0] != start, high, ends[1] != stop or stop == last))
        return found

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.int64]:
        """1 for values that do, 0 for others; errors name the attribute and quote no value."""
        encoded = encoded_by(self.axis.attribute.encode, self.name, column, invalid)
        inside = [
            ((encoded > low) if after else (encoded >= low)) & ((encoded <= high) if behind else (encoded < high))
            for low, after, high, behind in self._cuts
        ]
        return np.any(inside, axis=0).astype(np.int64)

    def encode_value(self, value: Any) -> int:
        """The same for one user."""
        encoded = self.axis.attribute.encode_value(value)
        return int(
            any(
                (encoded > low if after else encoded >= low) and (encoded <= high if behind else encoded < high)
                for low, after, high, behind in self._cuts
            )
        )


@dataclass(frozen=True)
class Condition:
    """Of some attributes the values that fulfil it."""

    axes: Axes
    pieces: tuple[tuple[tuple[Any, Any], ...], ...]

    @classmethod
    def of(cls, axes: Axes, pieces: Mapping[int, Pieces]) -> "Condition":
        """Of the attributes that are restricted."""
        some = [j for j in sorted(pieces) if pieces[j] != [axes[j].ends]]
        if not some:
            raise ParameterError("a share is that of users for whom a condition holds: this one holds for everybody")
        return cls(Axes(tuple(axes[j] for j in some)), tuple(tuple(map(tuple, pieces[j])) for j in some))

    @classmethod
    def parsed(cls, schema: Schema, text: str) -> "Condition":
        """In the words of SQL."""
        from dither.ranges.where import parse_box  # a device has no use for it

        axes = all_axes(schema)
        return cls.of(axes, parse_box(axes, text))

    @classmethod
    def stored(cls, schema: Schema, details: Any) -> "Condition":
        """As `details` has it."""
        axes = all_axes(schema)
        if not isinstance(details, dict) or not all(name in axes.names for name in details):
            raise ParameterError(_DETAILS)
        return cls.of(axes, {axes.index(name): _pieces(axes[axes.index(name)], own) for name, own in details.items()})

    @property
    def details(self) -> dict[str, Any]:
        """For a file."""
        return {axis.name: _listed(axis, own) for axis, own in zip(self.axes, self.pieces, strict=True)}

    @property
    def text(self) -> str:
        """In words, which `parsed` reads."""
        return " and ".join(_text(axis, own) for axis, own in zip(self.axes, self.pieces, strict=True))

    @property
    def columns(self) -> tuple[FulfilledColumn, ...]:
        """One for each attribute."""
        return tuple(map(FulfilledColumn, self.axes, self.pieces))


def _text(axis: Axis, pieces: Sequence[tuple[Any, Any]]) -> str:
    """What an attribute must be, in words: of numbers with the exact comparison at each end."""
    if not axis.continuous:
        return axis.condition(list(pieces))
    cuts = [(start, cut_at(start), stop, cut_at(stop)) for start, stop in pieces]
    texts = [axis.between(low, low != start, high, high != stop) for start, low, stop, high in cuts]
    return texts[0] if len(texts) == 1 else f"({' or '.join(texts)})"


def all_axes(schema: Schema) -> Axes:
    """What a condition can be about: all attributes with one value a user."""
    names = [name for name in schema if schema[name].kind not in ("keyvalue", "text")]
    if not names:
        raise ParameterError("conditions are about numbers and labels, and this schema has none")
    return Axes(tuple(replace(axis, exact=True) for axis in Axes.of_schema(schema, names)))


def _listed(axis: Axis, pieces: Sequence[tuple[Any, Any]]) -> list[Any]:
    if axis.labelled:
        return [label for start, stop in pieces for label in axis.labels[start:stop]]
    return [[start, stop] for start, stop in pieces]


def _pieces(axis: Axis, stored: Any) -> Pieces:
    """The pieces of a file, if they are such."""
    if not isinstance(stored, list) or not stored:
        raise ParameterError(_DETAILS)
    if axis.labelled:
        return axis.pieces(stored)
    kind = (int, float) if axis.continuous else (int,)
    flat = [end for pair in stored if isinstance(pair, list) and len(pair) == 2 for end in pair]
    fine = len(flat) == 2 * len(stored) and all(type(end) in kind for end in flat)
    if not fine or flat != sorted(set(flat)) or not axis.ends[0] <= flat[0] <= flat[-1] <= axis.ends[1]:
        raise ParameterError(_DETAILS)
    return [(start, stop) for start, stop in stored]


class ShareOf(Question[Estimate]):
    """The share of users for whom a condition holds, asked as one bit.

    >>> from dither.schema import Categorical, Ordinal
    >>> schema = Schema({"age": Ordinal(0, 99), "job": Categorical(["nurse", "driver", "other"])})
    >>> question = ShareOf.read(schema, "age > 30 and job = 'nurse'")
    >>> str(question), question.details
    ("share(age >= 31 and job = 'nurse')", {'age': [[31, 100]], 'job': ['nurse']})
    >>> age, job = question.columns
    >>> question.join([age.encode([31, 40, 20]), job.encode(["nurse", "other", "nurse"])]).tolist()
    [1, 0, 0]
    """

    attribute: Condition

    statistic: ClassVar[str] = "share"
    has_prior: ClassVar[bool] = False
    title: ClassVar[str] = "share of users with"

    @property
    def sought(self) -> str:
        return f"the share of people with {self.name}"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        """Of no attribute alone: of conditions."""
        return False

    @classmethod
    def of(cls, condition: Condition) -> Self:
        """Those who fulfil this condition."""
        return cls(condition.text, condition)

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        return cls.of(Condition.parsed(schema, inside))

    @classmethod
    def restored(cls, schema: Schema, details: Any) -> Self:
        return cls.of(Condition.stored(schema, details))

    def means(self, text: str) -> bool:
        """However the condition is written."""
        if text.strip() == str(self):
            return True
        statistic, _, rest = text.strip().partition("(")
        if statistic.strip() != self.statistic or not rest.endswith(")"):
            return False
        schema = Schema({axis.name: axis.attribute for axis in self.attribute.axes})
        try:
            return Condition.parsed(schema, rest.removesuffix(")")) == self.attribute
        except ParameterError:
            return False

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.attribute.columns

    def join(self, encoded: Sequence[NDArray]) -> NDArray:
        return np.prod(encoded, axis=0)

    @property
    def details(self) -> dict[str, Any]:
        return self.attribute.details

    @cached_property
    def domain(self) -> Categories:
        return Categories(2)

    @property
    def shape(self) -> tuple[()]:
        return ()

    def limit(self, weight: float) -> tuple[Parameters, ...]:
        return frequencies(2, weight)

    @property
    def unasked(self) -> float:
        """Of a half."""
        return 0.25

    @property
    def useless(self) -> float:
        return 0.5 / 1.96

    def select(self, own: Estimate, place: int, count: int) -> Estimate:
        return replace(
            own, value=own.value[1], stderr=own.stderr[1], bounds=Bounds(0.0, 1.0), labels=None, correlation=None
        )

    def unknown(self, guarantee: Guarantee, source: str) -> Estimate:
        nothing: Any = super().unknown(guarantee, source)
        return replace(nothing, bounds=Bounds(0.0, 1.0))

    def refine(self, estimate: Estimate, apply: Callable[[Estimate], Estimate], auto: bool) -> Estimate:
        """It stays as it was estimated: of a single number there is nothing to learn from others."""
        return estimate

    def worth(self, worths: Worths, place: int, count: int) -> Worth:
        return worths[0]._replace(items=1, at_once=1)

    @property
    def rows(self) -> Floats | None:
        """Of a condition on one attribute the values that fulfil it; of numbers, if it cuts no fine cell."""
        if len(self.attribute.axes) > 1:
            return None
        [axis], [pieces] = self.attribute.axes, self.attribute.pieces
        values = axis.attribute.k or FINE
        ends = np.array([replace(axis, size=values).cells(piece) for piece in pieces])
        if values > FINE or (ends != np.rint(ends)).any():
            return None
        cells = np.arange(values)
        return np.any([(start <= cells) & (cells < stop) for start, stop in ends], axis=0)[None].astype(np.float64)

    def tells(
        self, mechanism: Mechanism, tally: Tally, own: Estimate, among: int
    ) -> Iterator[tuple[str, LinearReading]]:
        """About the only attribute of its condition."""
        if self.rows is not None and own.n:
            yield self.names[0], LinearReading.of_estimate(self.rows, own)

    def sums_of(self, columns: Mapping[str, Any]) -> Whole:
        codes = [column.encode(columns[column.name], "substitute") for column in self.columns]
        return np.array([[int(self.join(codes).sum())]])

    def sums(self, column: Any) -> None:
        return None

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {str(self): sums[0] / users}
