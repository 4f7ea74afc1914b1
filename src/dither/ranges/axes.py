"""The attributes that queries are about, in the analyst's own units.

From a schema, ages are ages and jobs have names; from a plain shape, values are 0, ..., c - 1. A `Numeric` attribute is
cut into equal cells or, in questions about ranges, as the hints of the schema say (`core.spacings`): equal in the
logarithm or between cuts; of a lattice, a cell is one of its numbers, and lies in a query or not. Between the analyst's
words and the cells stand *pieces*: half-open intervals [start, stop) in the attribute's units (labels: their numbers),
so that union and complement are the same for numbers of all kinds.

Values in queries are the analyst's own, so errors may quote them.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from sys import maxsize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_list, checked_real, is_real, is_whole
from dither.core.columns import is_flat
from dither.core.spacings import CutSpacing, Lattice, LogSpacing, Spacing, shortened
from dither.display.distribution_plots import Side
from dither.errors import ParameterError
from dither.ranges.grid import listed_entries
from dither.schema import MOST_LABELS, Attribute, Categorical, KeyValue, Numeric, Ordinal, Public, Schema, Text

_SNAP = 1e-9  # of a cell: what rounding makes of an end that lies on the border of two
_FEWER = 3  # digits: numbers that people write have at most 13 or so, and those next to them 16 or 17
_LISTED = 20  # names or labels in a message
MOST_SHOWN = 64  # cells of a continuous attribute in a table or a picture: more are summed up to so many

Pieces = list[tuple[Any, Any]]  # whole numbers, or floats where the attribute is continuous


@dataclass(frozen=True)
class AnyOf:
    """Values in any of some ranges, each (low, high) with None for an open end.

    >>> axes = Axes.of_schema(Schema({"age": Ordinal(0, 9)}))
    >>> from dither.ranges.queries import Queries
    >>> Queries.of(axes, [{"age": AnyOf(((None, 1), (8, None)))}]).masks[0].tolist()
    [[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]]
    """

    ranges: tuple[tuple[Any, Any], ...]

    def __post_init__(self) -> None:
        rule = "AnyOf takes ranges, as in AnyOf([(None, 19), (61, None)])"
        given = checked_list(rule, self.ranges, 0, maxsize)
        if not all(isinstance(each, tuple) and len(each) == 2 for each in given):
            raise ParameterError(rule)
        object.__setattr__(self, "ranges", given)


@dataclass(frozen=True)
class Axis:
    """One attribute: its name, the number of its values or cells, and its units."""

    name: str
    size: int
    attribute: Numeric | Ordinal | Categorical
    exact: bool = False  # whether `<` and `<=` of a continuous one differ, by the last bit of an end
    spacing: Spacing | None = None  # where its values are expected, if its cells are made for it

    @cached_property
    def continuous(self) -> bool:
        """Whether cells may be covered in part."""
        return self.attribute.k is None and not self._discrete

    @cached_property
    def _lattice(self) -> Lattice | None:
        return self.spacing if isinstance(self.spacing, Lattice) else None

    @cached_property
    def _discrete(self) -> bool:
        """Whether a cell is one number of a lattice."""
        return self._lattice is not None

    @cached_property
    def labelled(self) -> bool:
        """Whether its values are texts without an order."""
        return self.attribute.nominal

    @cached_property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.attribute.k is not None and not self.labelled

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """All values, as a piece."""
        low, high = self.attribute.span
        return (low, math.nextafter(high, math.inf)) if self._discrete and not self.whole else (low, high)

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Where the cells of all values begin and end; whole numbers and labels stand in the middle of theirs."""
        if self._lattice is not None:
            points = self._lattice.points
            return np.append(points, points[-1] + self._lattice.step) - self._lattice.step / 2
        if self.spacing is not None:
            return self._values(np.arange(self.size + 1))
        first, last = self.ends
        edges = np.linspace(float(first), float(last), self.size + 1)
        return edges if self.continuous else edges - 0.5

    @property
    def side(self) -> Side:
        """What stands along the side of a picture."""
        name = f"attribute {self.name}" if self.name.isdigit() else self.name
        return Side(name, self.edges, self.labels or None, "cell" if self.continuous else "value")

    @property
    def shown(self) -> "Axis":
        """The same attribute as results show it: a continuous one in at most `MOST_SHOWN` cells."""
        return replace(self, size=self.coarser(MOST_SHOWN)) if self.continuous and self.size > MOST_SHOWN else self

    def coarser(self, cells: int) -> int:
        """About so many cells, as its spacing has them."""
        return cells if self.spacing is None else self.spacing.cells(cells)

    def covered_by(self, other: "Axis") -> NDArray[np.float64]:
        """Which share of each of its cells (column) lies in each cell (row) of the same attribute in other cells.

        >>> income = Axis("income", 4, Numeric(0, 100))
        >>> income.covered_by(Axis("income", 3, Numeric(0, 100))).round(2).tolist()
        [[1.0, 0.33, 0.0, 0.0], [0.0, 0.67, 0.67, 0.0], [0.0, 0.0, 0.33, 1.0]]
        """
        ends = np.arange(other.size + 1) * self.size / other.size  # exact where the cells of one are those of the other
        return np.diff(np.clip(ends[:, None] - np.arange(self.size), 0.0, 1.0), axis=0)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Its values, if they are texts without an order; else none."""
        return self.attribute.labels or () if self.labelled else ()

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {label: code for code, label in enumerate(self.labels)}

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.int64]:
        """The values of users as numbers from 0 to size - 1.

        >>> Axis("income", 4, Numeric(0, 100)).encode([0, 24, 25, 100]).tolist()
        [0, 0, 1, 3]
        """
        found = self.attribute.encode(column, invalid)
        if self.spacing is not None:
            return self._spaced(found)
        if not self.continuous:
            return found.astype(np.int64)
        cells = _snapped((found + 1) / 2 * self.size)
        return np.minimum(cells.astype(np.int64), self.size - 1)

    def _spaced(self, found: NDArray) -> NDArray[np.int64]:
        """The cells of values that the attribute has encoded, by its spacing."""
        values = np.asarray(self.attribute.decode(found), dtype=np.float64)  # type: ignore[union-attr]
        if self._lattice is not None:
            return self._lattice.nearest(values)
        return np.minimum(self.cells(values).astype(np.int64), self.size - 1)

    def encode_value(self, value: Any) -> int:
        """The number of the value of one user: `encode([value], "substitute")[0]`, without the array."""
        found = self.attribute.encode_value(value)
        if self.spacing is not None:
            return int(self._spaced(np.array([found]))[0])
        if not self.continuous:
            return int(found)
        cell = (found + 1) / 2 * self.size
        border = round(cell)
        return min(border if abs(cell - border) <= _SNAP else int(cell), self.size - 1)

    # From the analyst's words to pieces ------------------------------------------------------------------------

    def pieces(self, wanted: Any) -> Pieces:
        """A range (low, high), some values, or one value, as sorted pieces that do not touch."""
        if isinstance(wanted, tuple):
            if len(wanted) != 2:
                raise ParameterError(
                    f"{self.name}: a range is (low, high), with None for an open end; some values are a set or a list"
                )
            low, high = wanted
            plain = self.whole and not self._discrete and type(low) is type(high) is int
            if plain and self.ends[0] <= low <= high < self.ends[1]:
                return [(low, high + 1)]  # most of them: nothing else is left to check
            return [self.span(low, high)]
        if isinstance(wanted, AnyOf):
            return self._some([self.span(*each) for each in wanted.ranges])
        if isinstance(wanted, Collection) and not isinstance(wanted, Mapping) and is_flat(wanted):
            return self._some([self.point(each) for each in wanted])
        return [self.point(wanted)]

    def _some(self, pieces: Pieces) -> Pieces:
        if not pieces:
            raise ParameterError(f"{self.name}: there are no values to choose from; leave it out if all will do")
        return union(pieces)

    def span(self, low: Any, high: Any) -> tuple[Any, Any]:
        """The piece from `low` to `high`, both included."""
        if self.labelled:
            raise ParameterError(
                f"{self.name}: labels have no order, so a range (low, high) has no meaning; give a set, as in "
                f"{{{', '.join(map(repr, list(self._codes)[:2]))}}}"
            )
        start, stop = self.ends
        if low is not None:
            start = self.value(low)
        if high is not None:
            stop = self.after(self.value(high))
        if start > stop or (start == stop and not self.continuous):
            raise ParameterError(
                f"{self.name}: the range from {value_text(low)} to {value_text(high)} is reversed; "
                "give the lower end first"
            )
        if self._discrete and self.narrow(start, stop):
            raise self._between_multiples()
        if self.continuous and self.narrow(start, stop):
            raise ParameterError(
                f"{self.name}: the range from {_number(start)} to {_number(stop)} has no width, and of a continuous "
                "attribute no share is known at one value; give a wider range"
            )
        return start, stop

    def narrow(self, start: Any, stop: Any) -> bool:
        """Whether a piece has no width that could be told from rounding, or no number of the lattice inside."""
        if self.spacing is not None:
            low, high = self.cells([start, stop]).tolist()
            return high - low <= 10 * _SNAP
        first, last = self.ends
        return self.continuous and (stop - start) * self.size <= 10 * _SNAP * (last - first)

    def after(self, value: Any) -> Any:
        """Where a piece ends that holds this value: before the next whole number, or number."""
        if self.whole or self.labelled:
            return value + 1
        return math.nextafter(cut_at(value), math.inf) if self._discrete else value

    def before(self, stop: Any) -> Any:
        """The last value of a piece that ends here."""
        if self.whole or self.labelled:
            return stop - 1
        return math.nextafter(stop, -math.inf) if self._discrete else stop

    def _between_multiples(self) -> ParameterError:
        return ParameterError(
            f"{self.name}: users are counted at multiples of {_number(self._lattice.step)}, and none of these lies in "  # type: ignore[union-attr]
            "the range; give one that holds a multiple"
        )

    def point(self, given: Any) -> tuple[Any, Any]:
        """The piece of one value."""
        if self.continuous:
            raise ParameterError(
                f"{self.name}: of a continuous attribute no share is known at one value; give a range, as in "
                f"({_number(self.ends[0])}, {_number(sum(self.ends) / 2)})"
            )
        start = self.value(given)
        if self._discrete and self.narrow(start, self.after(start)):
            raise self._between_multiples()
        return start, self.after(start)

    def value(self, given: Any) -> int | float:
        """One value, checked: a number of the attribute, or the number of a label."""
        if self.labelled:
            code = self._codes.get(given) if isinstance(given, str) else None
            if code is None:
                raise ParameterError(
                    f"{self.name}: {value_text(given)} is not one of its labels: {listed(self._codes)}"
                )
            return code
        number = self.number(given)
        if not self.ends[0] <= number <= self.last:
            raise self.outside(given)
        return number

    def number(self, given: Any) -> int | float:
        """A number, whole where the attribute is."""
        if not is_real(given):
            raise ParameterError(f"{self.name}: {value_text(given)} is {_kind(given)}; give a number")
        number = checked_real(self.name, given)
        if math.isnan(number):
            raise ParameterError(f"{self.name}: NaN is no value; leave the attribute out, or use None for an open end")
        if not self.whole:
            return number
        if is_whole(given):
            return int(given)
        if not number.is_integer():  # infinity is not whole either
            raise ParameterError(f"{self.name}: {value_text(given)} is not a whole number from {self._bounds}")
        return int(given)

    @cached_property
    def last(self) -> int | float:
        """The largest value."""
        return self.attribute.span[1] - (self.attribute.k is not None)

    @property
    def _bounds(self) -> str:
        return f"{_number(self.ends[0])} to {_number(self.last)}"

    def outside(self, given: Any) -> ParameterError:
        """The refusal of a number beyond the ends."""
        return ParameterError(
            f"{self.name}: {value_text(given)} lies outside of its values, which go from {self._bounds}"
        )

    # Between units and cells -----------------------------------------------------------------------------------

    def cells(self, edges: Sequence[Any] | NDArray) -> NDArray:
        """Ends of pieces, counted in cells."""
        first, last = self.ends
        if self._lattice is not None:
            return self._lattice.below(np.array(edges, dtype=np.float64))
        if not self.continuous:
            return np.array(edges, dtype=np.int64) - first
        values = np.array(edges, dtype=np.float64)
        if isinstance(self.spacing, LogSpacing | CutSpacing):
            return _snapped(self.spacing.places(values) * self.size)
        return _snapped((values - first) / (last - first) * self.size)

    def _values(self, cells: NDArray) -> NDArray[np.float64]:
        """The inverse, where there is a spacing: ends of cells, or places inside them."""
        return np.clip(self.spacing.values(np.asarray(cells) / self.size), *self.ends)  # type: ignore[union-attr]

    def units(self, cell: float) -> int | float:
        """The inverse of `cells`, for one end; digits that are only rounding are left out."""
        first, last = self.ends
        if self._lattice is not None:
            return self._point(round(cell)) if round(cell) < self.size else last
        if not self.continuous:
            return first + round(cell)
        if self.spacing is not None:
            return min(max(shortened(float(self._values(np.array([cell]))[0])), first), last)
        width = (last - first) / self.size
        return min(max(round(first + cell * width, 10 - math.floor(math.log10(width))), first), last)

    def decode(self, codes: NDArray) -> NDArray:
        """The inverse of `encode`: codes in the attribute's own units; inside a cell they may have a fraction."""
        if self.labelled:
            return np.array(self.labels)[codes]
        first, last = self.ends
        if self._lattice is not None:
            points = self._lattice.points[codes]
            return points.astype(np.int64) if self.whole else points
        if self.spacing is not None:
            return self._values(codes)
        return np.clip(first + codes * ((last - first) / self.size), first, last) if self.continuous else first + codes

    def at(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers at places that are counted in cells, with a fraction also where values have none.

        >>> Axis("income", 4, Numeric(0, 100)).at(np.array([1.5])).tolist()
        [37.5]
        """
        if self._lattice is not None:
            return self._lattice.points[0] + self._lattice.step * cells
        if self.spacing is not None:
            return self._values(cells)
        first, last = (float(end) for end in self.ends)
        return first + (last - first) / self.size * cells

    def _point(self, code: int) -> int | float:
        point = float(self._lattice.points[code])  # type: ignore[union-attr]
        return int(point) if self.whole else point

    # And back to words -----------------------------------------------------------------------------------------

    def text(self, code: int) -> str:
        """A value, or the range of a cell."""
        if self.labelled:
            return self.labels[code]
        return f"{self.units(code):g} to {self.units(code + 1):g}" if self.continuous else str(self.units(code))

    @property
    def summary(self) -> str:
        """What there is, in a few words."""
        if self.labelled:
            return f"{self.size:,} labels"
        first, last = self.ends[0], self.last
        if self.continuous:
            return f"from {first:g} to {last:g}, in {self.size:,} cells"
        if self._lattice is not None:
            step, low, high = self._lattice.step, self._lattice.points[0], self._lattice.points[-1]
            return f"{self.size:,} multiples of {step:g}, from {low:g} to {high:g}"
        return f"{self.size:,} values, from {first:,} to {last:,}"

    def condition(self, pieces: Pieces) -> str:
        """The pieces as a condition that `where.parse` reads; empty if they are all there is."""
        if pieces == [self.ends]:
            return ""
        name = _identifier(self.name)
        if self.labelled:
            labels = [label for start, stop in pieces for label in self.labels[start:stop]]
            return _among(name, ["'" + label.replace("'", "''") + "'" for label in labels])
        if self.whole and all(stop - start == 1 for start, stop in pieces):
            return _among(name, [str(start) for start, _ in pieces])
        texts = [self._range_text(name, start, stop) for start, stop in pieces]
        return texts[0] if len(texts) == 1 else f"({' or '.join(texts)})"

    def between(self, low: float, after: bool, high: float, behind: bool) -> str:
        """Numbers from one, or only those `after` it, to another, which is inside if the piece ends `behind` it."""
        name, (first, last) = _identifier(self.name), self.ends
        above = "" if low == first and not after else f"{name} {'>' if after else '>='} {_number(low)}"
        below = "" if high == last else f"{name} {'<=' if behind else '<'} {_number(high)}"
        return " and ".join(filter(None, [above, below]))

    def _range_text(self, name: str, start: Any, stop: Any) -> str:
        if self._discrete and not self.whole:
            low, high = cut_at(start), cut_at(stop)
            one = low == start and high != stop and self.after(low) == stop
            return f"{name} = {_number(low)}" if one else self.between(low, low != start, high, high != stop)
        high = self.before(stop)
        if start == high:
            return f"{name} = {_number(start)}"
        if start == self.ends[0]:
            return f"{name} <= {_number(high)}"
        if stop == self.ends[1]:
            return f"{name} >= {_number(start)}"
        return f"{name} between {_number(start)} and {_number(high)}"


def cut_at(end: float) -> float:
    """The number that the end of a piece is written as: the one below, where it is just above one with fewer digits.

    >>> import math
    >>> cut_at(30.0), cut_at(math.nextafter(30.0, math.inf))
    (30.0, 30.0)
    """
    below = math.nextafter(end, -math.inf)
    return below if len(repr(below)) + _FEWER <= len(repr(end)) else end


def _snapped(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ends on the border of two cells exactly there, where rounding moved them."""
    border = np.rint(cells)
    return np.where(np.abs(cells - border) <= _SNAP, border, cells)


@dataclass(frozen=True)
class Axes:
    """The attributes that queries are about, in order.

    >>> Axes.of_shape((64, 64)).shape
    (64, 64)
    >>> schema = Schema({"age": Ordinal(18, 99), "income": Numeric(0, 200_000), "job": Categorical(["nurse", "other"])})
    >>> axes = Axes.of_schema(schema, bins=32)
    >>> axes.names, axes.shape
    (('age', 'income', 'job'), (82, 32, 2))
    """

    axes: tuple[Axis, ...]
    named: bool = True

    def __post_init__(self) -> None:
        if not self.axes:
            raise ParameterError("queries are about at least one attribute")

    @classmethod
    def of_shape(cls, shape: Sequence[int] | NDArray[np.integer]) -> "Axes":
        """Attributes without names: c values each, from 0 to c - 1."""
        given = listed_entries("shape is the number of values of each attribute, as in (64, 64, 64)", shape)
        sizes = [checked_count("the number of values of an attribute", size, 2, MOST_LABELS) for size in given]
        return cls(tuple(Axis(str(j), size, Ordinal(0, size - 1)) for j, size in enumerate(sizes)), named=False)

    @classmethod
    def of_schema(
        cls,
        schema: Schema,
        attributes: Sequence[str] | None = None,
        bins: int | Mapping[str, int] = 64,
        *,
        spaced: bool = False,
    ) -> "Axes":
        """The attributes of a schema, or some of them; `bins` is the number of cells of the numeric ones.

        `spaced` makes cells as the hints of the schema say.

        >>> schema = Schema({"age": Ordinal(18, 99, lattice=5), "income": Numeric(1, 10_000, scale="log")})
        >>> age, income = Axes.of_schema(schema, bins=4, spaced=True)
        >>> age.encode([18, 31]).tolist(), income.encode([9, 11, 101]).tolist(), income.edges.round(6).tolist()
        ([0, 2], [0, 1, 2], [1.0, 10.0, 100.0, 1000.0, 10000.0])
        """
        if not isinstance(schema, Schema):
            raise ParameterError('a schema is needed, as in Schema({"age": Ordinal(0, 99)})')
        chosen = tuple(schema) if attributes is None else tuple(attributes)
        before: set[str] = set()
        for name in chosen:
            if name not in schema:
                raise ParameterError(f"there is no attribute {value_text(name)} in the schema: {listed(schema)}")
            if name in before:
                raise ParameterError(f"attribute {name} is named twice")
            before.add(name)
        return cls(tuple(_axis(name, schema[name], bins, spaced) for name in chosen))

    def cut_into(self, sizes: Sequence[int]) -> "Axes":
        """The same attributes, with so many cells of each that is continuous.

        >>> Axes.of_schema(Schema({"age": Ordinal(18, 99), "income": Numeric(0, 9)})).cut_into((7, 128)).shape
        (82, 128)
        """
        pairs = zip(self.axes, sizes, strict=True)
        return replace(self, axes=tuple(replace(axis, size=size) if axis.continuous else axis for axis, size in pairs))

    @property
    def shown(self) -> "Axes":
        """The same attributes as results show them."""
        return replace(self, axes=tuple(axis.shown for axis in self.axes))

    def __getitem__(self, number: int) -> Axis:
        return self.axes[number]

    def __iter__(self) -> Iterator[Axis]:
        return iter(self.axes)

    def __len__(self) -> int:
        return len(self.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names; the numbers as texts where there are none."""
        return tuple(axis.name for axis in self.axes)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}

    @cached_property
    def _alike(self) -> dict[str, list[int]]:
        """The attributes whose names differ by capitals only."""
        found: dict[str, list[int]] = {}
        for j, name in enumerate(self.names):
            found.setdefault(name.lower(), []).append(j)
        return found

    def called(self, name: str) -> list[int]:
        """The attributes of this name: the very same, or if there is none, those that differ in capitals.

        >>> Axes.of_schema(Schema({"Age": Ordinal(0, 9), "AGE": Ordinal(0, 9)})).called("age")
        [0, 1]
        """
        return [self._places[name]] if name in self._places else self._alike.get(name.lower(), [])

    def key(self, number: int) -> str | int:
        """What an attribute is called in a query: its name, or its number if it has none."""
        return self.names[number] if self.named else number

    def index(self, key: str | int) -> int:
        """The number of an attribute, from its name or its number.

        >>> Axes.of_shape((8, 8)).index(5)
        Traceback (most recent call last):
        ...
        dither.errors.ParameterError: there is no attribute 5; there are 2, numbered from 0
        """
        if type(key) is int:  # most of them
            found = key
        elif isinstance(key, str):
            found = self._places.get(key)
        else:
            found = int(key) if is_whole(key) else None
        if found is None or not 0 <= found < len(self):
            names = f": {listed(self.names)}" if self.named else ""
            raise ParameterError(
                f"there is no attribute {value_text(key)}; there are {len(self)}, numbered from 0{names}"
            )
        return found


def _axis(name: str, attribute: Attribute, bins: int | Mapping[str, int], spaced: bool) -> Axis:
    if isinstance(attribute, KeyValue | Text | Public):
        raise ParameterError(f"attribute {name}: ranges are about numbers and labels; leave it out")
    wanted = bins.get(name, 64) if isinstance(bins, Mapping) else bins
    size, spacing = attribute.k or checked_count("bins", wanted, 2, MOST_LABELS), attribute.spacing if spaced else None
    return Axis(name, size if spacing is None else spacing.cells(size), attribute, spacing=spacing)


def union(pieces: Pieces) -> Pieces:
    """The same values as sorted pieces that do not touch.

    >>> union([(5, 9), (0, 2), (2, 3)])
    [(0, 3), (5, 9)]
    """
    found: Pieces = []
    for start, stop in sorted(pieces):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        elif start < stop:
            found.append((start, stop))
    return found


def complement(pieces: Pieces, ends: tuple[Any, Any]) -> Pieces:
    """All other values, of sorted pieces that do not touch.

    >>> complement([(0, 3), (5, 9)], (0, 12))
    [(3, 5), (9, 12)]
    """
    borders = [ends[0], *(edge for piece in pieces for edge in piece), ends[1]]
    return [(start, stop) for start, stop in zip(borders[::2], borders[1::2], strict=True) if start < stop]


# Words ---------------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
GRAMMAR = ("and", "or", "not", "in", "between")  # an attribute with such a name is quoted


def _identifier(name: str) -> str:
    if _PLAIN.fullmatch(name) and name.lower() not in GRAMMAR:
        return name
    return '"' + name.replace('"', '""') + '"'


def _number(number: Any) -> str:
    """The shortest text that is read as the same number."""
    if abs(number) < 1e15 and float(number).is_integer():
        return str(int(number))
    return repr(number)


def _among(name: str, values: list[str]) -> str:
    return f"{name} = {values[0]}" if len(values) == 1 else f"{name} in ({', '.join(values)})"


def _kind(given: Any) -> str:
    return {bool: "true or false", str: "a text"}.get(type(given), f"of type {type(given).__name__}")


def value_text(given: Any) -> str:
    """A value of the analyst's in a message, not too long."""
    try:
        text = repr(given.item() if isinstance(given, np.generic) else given)
    except Exception:  # a whole number of many thousand digits has no text
        text = f"a value of type {type(given).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Collection[str]) -> str:
    """Names or labels in a message, not too many."""
    first = [value_text(name) for name, _ in zip(names, range(_LISTED), strict=False)]
    return ", ".join(first) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
