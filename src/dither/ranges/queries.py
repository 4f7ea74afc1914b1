"""What a query is: some attributes, each restricted to a set of its values.

"Between 20 and 40 years old, and a nurse or a driver" restricts two attributes of many; the answer is the share of
users who satisfy both. A range is a set, and so are a few labels, or everything but one value: whatever the set, a
query is a *mask* for each attribute, and methods never see anything else.

**Weights.** A mask has a number from 0 to 1 for each value of an attribute: the share of that value's cell which the
query covers. Whole numbers and labels are covered or not, so theirs are 0 and 1. A `Numeric` attribute is cut into
equal cells, and a range may end inside one: the cell counts by the share of it that is covered, as if users were
spread evenly inside.

**Units.** `Axes` knows the attributes in the analyst's own units. From a schema, ages are ages and jobs have names;
from a plain shape, values are 0, ..., c - 1. Between both stand *pieces*: half-open intervals [start, stop) in the
attribute's units (labels: their numbers), so that union and complement are the same for numbers of all kinds.

**Many at once.** The pieces of all queries are written as steps: +1 where one starts, -1 where it stops. A running
sum turns them into masks, at a cost of one addition a cell whatever the number of pieces.

What restricts nothing is not listed among the attributes of a query: an answer that uses fewer attributes is
a better one. A query with none is answered by 1. Its values are the analyst's own, so errors may quote them.
"""

import math
import numbers
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import _is_real, checked_count, checked_real
from dither.core.errors import ParameterError
from dither.core.subsets import subsets
from dither.randomness import Stream
from dither.schema import MOST_LABELS, Categorical, Numeric, Ordinal, Schema

MOST_WEIGHTS = 1 << 27  # a gigabyte
_SNAP = 1e-9  # of a cell: what rounding makes of an end that lies on the border of two
_LISTED = 20  # names or labels in a message

Pieces = list[tuple[Any, Any]]


@dataclass(frozen=True)
class AnyOf:
    """Values in any of some ranges, each (low, high) with None for an open end.

    >>> axes = Axes.of_schema(Schema({"age": Ordinal(0, 9)}))
    >>> Queries.of(axes, [{"age": AnyOf(((None, 1), (8, None)))}]).masks[0].tolist()
    [[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]]
    """

    ranges: tuple[tuple[Any, Any], ...]

    def __post_init__(self) -> None:
        given = self.ranges
        if not isinstance(given, Sequence) or not all(isinstance(each, tuple) and len(each) == 2 for each in given):
            raise ParameterError("AnyOf takes ranges, as in AnyOf([(None, 19), (61, None)])")
        object.__setattr__(self, "ranges", tuple(given))


@dataclass(frozen=True)
class Axis:
    """One attribute: its name, the number of its values or cells, and its units."""

    name: str
    size: int
    attribute: Numeric | Ordinal | Categorical

    @cached_property
    def continuous(self) -> bool:
        """Whether cells may be covered in part."""
        return isinstance(self.attribute, Numeric)

    @cached_property
    def labelled(self) -> bool:
        """Whether its values are texts without an order."""
        return isinstance(self.attribute, Categorical)

    @cached_property
    def _whole(self) -> bool:
        return not self.continuous and not self.labelled

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """All values, as a piece."""
        if isinstance(self.attribute, Categorical):
            return 0, self.size
        return self.attribute.low, self.attribute.high + (0 if self.continuous else 1)

    @cached_property
    def _codes(self) -> dict[str, int]:
        labels = self.attribute.labels if isinstance(self.attribute, Categorical) else ()
        return {label: code for code, label in enumerate(labels)}

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.int64]:
        """The values of users as numbers from 0 to size - 1.

        >>> Axis("income", 4, Numeric(0, 100)).encode([0, 24, 25, 100]).tolist()
        [0, 0, 1, 3]
        """
        found = self.attribute.encode(column, invalid)
        if not self.continuous:
            return found.astype(np.int64)
        cells = _snapped((found + 1) / 2 * self.size)
        return np.minimum(cells.astype(np.int64), self.size - 1)

    # From the analyst's words to pieces ------------------------------------------------------------------------

    def pieces(self, wanted: Any) -> Pieces:
        """A range (low, high), some values, or one value, as sorted pieces that do not touch."""
        if isinstance(wanted, tuple):
            if len(wanted) != 2:
                raise ParameterError(
                    f"{self.name}: a range is (low, high), with None for an open end; some values are a set or a list"
                )
            low, high = wanted
            if self._whole and type(low) is type(high) is int and self.ends[0] <= low <= high < self.ends[1]:
                return [(low, high + 1)]  # most of them: nothing else is left to check
            return [self.span(low, high)]
        if isinstance(wanted, AnyOf):
            return self._some([self.span(*each) for each in wanted.ranges])
        several = isinstance(wanted, Collection) and not isinstance(wanted, str | bytes | Mapping)
        if several and getattr(wanted, "ndim", 1) == 1:
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
            stop = self.value(high) + (0 if self.continuous else 1)
        if start > stop or (start == stop and not self.continuous):
            raise ParameterError(
                f"{self.name}: the range from {shown(low)} to {shown(high)} is reversed; give the lower end first"
            )
        if self.continuous and self.narrow(start, stop):
            raise ParameterError(
                f"{self.name}: the range from {_number(start)} to {_number(stop)} has no width, and of a continuous "
                "attribute no share is known at one value; give a wider range"
            )
        return start, stop

    def narrow(self, start: Any, stop: Any) -> bool:
        """Whether a piece of a continuous attribute has no width that could be told from rounding."""
        first, last = self.ends
        return (stop - start) * self.size <= 10 * _SNAP * (last - first)

    def point(self, given: Any) -> tuple[Any, Any]:
        """The piece of one value."""
        if self.continuous:
            raise ParameterError(
                f"{self.name}: of a continuous attribute no share is known at one value; give a range, as in "
                f"({_number(self.ends[0])}, {_number(self.attribute.centre)})"  # type: ignore[union-attr]
            )
        start = self.value(given)
        return start, start + 1

    def value(self, given: Any) -> Any:
        """One value, checked: a number of the attribute, or the number of a label."""
        if isinstance(self.attribute, Categorical):
            code = self._codes.get(given) if isinstance(given, str) else None
            if code is None:
                raise ParameterError(f"{self.name}: {shown(given)} is not one of its labels: {listed(self._codes)}")
            return code
        number = self.number(given)
        if not self.attribute.low <= number <= self.attribute.high:
            raise self.outside(given)
        return number

    def number(self, given: Any) -> Any:
        """A number, whole where the attribute is."""
        if not _is_real(given):
            raise ParameterError(f"{self.name}: {shown(given)} is {_kind(given)}; give a number")
        number = checked_real(self.name, given)
        if math.isnan(number):
            raise ParameterError(f"{self.name}: NaN is no value; leave the attribute out, or use None for an open end")
        if self.continuous:
            return number
        if isinstance(given, numbers.Integral):
            return int(given)
        if not number.is_integer():  # infinity is not whole either
            raise ParameterError(f"{self.name}: {shown(given)} is not a whole number from {self._bounds}")
        return int(given)

    @property
    def _bounds(self) -> str:
        low, high = self.ends
        return f"{_number(low)} to {_number(high if self.continuous else high - 1)}"

    def outside(self, given: Any) -> ParameterError:
        """The refusal of a number beyond the ends."""
        return ParameterError(f"{self.name}: {shown(given)} lies outside of its values, which go from {self._bounds}")

    # Between units and cells -----------------------------------------------------------------------------------

    def cells(self, edges: Sequence[Any]) -> NDArray:
        """Ends of pieces, counted in cells."""
        first, last = self.ends
        if not self.continuous:
            return np.array(edges, dtype=np.int64) - first
        return _snapped((np.array(edges, dtype=np.float64) - first) / (last - first) * self.size)

    def units(self, cell: float) -> Any:
        """The inverse of `cells`, for one end; digits that are only rounding are left out."""
        first, last = self.ends
        if not self.continuous:
            return first + round(cell)
        width = (last - first) / self.size
        return min(max(round(first + cell * width, 10 - math.floor(math.log10(width))), first), last)

    # And back to words -----------------------------------------------------------------------------------------

    def condition(self, pieces: Pieces) -> str:
        """The pieces as a condition that `where.parse` reads; empty if they are all there is."""
        if pieces == [self.ends]:
            return ""
        name = _identifier(self.name)
        if isinstance(self.attribute, Categorical):
            labels = [label for start, stop in pieces for label in self.attribute.labels[start:stop]]
            return _among(name, ["'" + label.replace("'", "''") + "'" for label in labels])
        if not self.continuous and all(stop - start == 1 for start, stop in pieces):
            return _among(name, [str(start) for start, _ in pieces])
        texts = [self._range_text(name, start, stop) for start, stop in pieces]
        return texts[0] if len(texts) == 1 else f"({' or '.join(texts)})"

    def _range_text(self, name: str, start: Any, stop: Any) -> str:
        high = stop if self.continuous else stop - 1
        if start == high:
            return f"{name} = {_number(start)}"
        if start == self.ends[0]:
            return f"{name} <= {_number(high)}"
        if stop == self.ends[1]:
            return f"{name} >= {_number(start)}"
        return f"{name} between {_number(start)} and {_number(high)}"


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
        if not isinstance(shape, Sequence | np.ndarray) or isinstance(shape, str | bytes):
            raise ParameterError("shape is the number of values of each attribute, as in (64, 64, 64)")
        sizes = [checked_count("the number of values of an attribute", size, 2, MOST_LABELS) for size in shape]
        return cls(tuple(Axis(str(j), size, Ordinal(0, size - 1)) for j, size in enumerate(sizes)), named=False)

    @classmethod
    def of_schema(
        cls, schema: Schema, attributes: Sequence[str] | None = None, bins: int | Mapping[str, int] = 64
    ) -> "Axes":
        """The attributes of a schema, or some of them; `bins` is the number of cells of the numeric ones."""
        if not isinstance(schema, Schema):
            raise ParameterError('a schema is needed, as in Schema({"age": Ordinal(0, 99)})')
        chosen = tuple(schema) if attributes is None else tuple(attributes)
        for number, name in enumerate(chosen):
            if name not in schema:
                raise ParameterError(f"there is no attribute {shown(name)} in the schema: {listed(schema)}")
            if name in chosen[:number]:
                raise ParameterError(f"attribute {name} is named twice")
        return cls(tuple(_axis(name, schema[name], bins) for name in chosen))

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

    def key(self, number: int) -> str | int:
        """What an attribute is called in a query: its name, or its number if it has none."""
        return self.names[number] if self.named else number

    def index(self, key: str | int) -> int:
        """The number of an attribute, from its name or its number.

        >>> Axes.of_shape((8, 8)).index(5)
        Traceback (most recent call last):
        ...
        dither.core.errors.ParameterError: there is no attribute 5; there are 2, numbered from 0
        """
        if type(key) is int:  # most of them
            found = key
        elif isinstance(key, str):
            found = self._places.get(key)
        else:
            whole = isinstance(key, numbers.Integral) and not isinstance(key, bool)
            found = int(key) if whole else None
        if found is None or not 0 <= found < len(self):
            names = f": {listed(self.names)}" if self.named else ""
            raise ParameterError(f"there is no attribute {shown(key)}; there are {len(self)}, numbered from 0{names}")
        return found


def _axis(name: str, attribute: Any, bins: int | Mapping[str, int]) -> Axis:
    if isinstance(attribute, Ordinal | Categorical):
        return Axis(name, attribute.k, attribute)
    if not isinstance(attribute, Numeric):
        raise ParameterError(f"attribute {name}: ranges are about numbers and labels; leave it out")
    wanted = bins.get(name, 64) if isinstance(bins, Mapping) else bins
    return Axis(name, checked_count("bins", wanted, 2, MOST_LABELS), attribute)


@dataclass(frozen=True, eq=False)
class Queries:
    """Many queries: which attributes each restricts, and for each attribute the weights of its values.

    `masks[j]` has a row for each query and a column for each value of attribute j: the share of that value's cell
    which the query covers, and 1 everywhere if attribute j is not restricted.

    >>> queries = Queries.of(Axes.of_shape((4, 4, 4)), [{0: (1, 2), 2: {0, 3}}, {1: (None, 1)}, {}])
    >>> queries.attributes
    ((0, 2), (1,), ())
    >>> queries.masks[0].tolist()
    [[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """

    shape: tuple[int, ...]
    attributes: tuple[tuple[int, ...], ...]
    masks: tuple[NDArray[np.float64], ...]
    given: "_Given | None" = None  # as they were asked, since an end inside a cell cannot be told from its weight

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator["Queries"]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, chosen: int | slice) -> "Queries":
        """Some of the queries; one, if a number is given."""
        if not isinstance(chosen, slice):
            if not -len(self) <= chosen < len(self):
                raise IndexError(f"there are {len(self)} queries")
            chosen = slice(chosen % len(self), chosen % len(self) + 1)
        given = None if self.given is None else self.given._replace(pieces=self.given.pieces[chosen])
        return Queries(self.shape, self.attributes[chosen], tuple(mask[chosen] for mask in self.masks), given)

    @classmethod
    def of(cls, axes: Axes, given: Sequence[Mapping[Any, Any]]) -> "Queries":
        """Queries from mappings: attribute (name or number) to what it is restricted to.

        That is a range `(low, high)`, both included, with None for an open end; some values, as a set or a list; one
        value; or `AnyOf` several ranges.

        >>> schema = Schema({"age": Ordinal(18, 99), "income": Numeric(0, 100)})
        >>> queries = Queries.of(Axes.of_schema(schema, bins=4), [{"age": (20, None), "income": (25, 60)}])
        >>> queries.attributes, queries.masks[1].round(3).tolist()
        (((0, 1),), [[0.0, 1.0, 0.4, 0.0]])
        """
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
            raise ParameterError("queries are a list of mappings, as in [{0: (8, 39)}]")
        _refuse_too_many(axes, len(given))
        rows: list[list[int]] = [[] for _ in axes]
        starts: list[list[Any]] = [[] for _ in axes]
        stops: list[list[Any]] = [[] for _ in axes]
        kept: list[dict[int, Pieces]] = []
        for number, query in enumerate(given):
            try:
                kept.append(_restrictions(axes, query))
                for j, pieces in kept[-1].items():
                    for start, stop in pieces:
                        rows[j].append(number)
                        starts[j].append(start)
                        stops[j].append(stop)
            except ParameterError as error:
                if len(given) == 1:
                    raise
                raise ParameterError(f"query {number}: {error}") from None
        steps = [
            (np.array(rows[j], dtype=np.intp), axis.cells(starts[j]), axis.cells(stops[j]))
            for j, axis in enumerate(axes)
        ]
        return replace(_assembled(axes, len(given), steps), given=_Given(axes, tuple(kept)))

    @classmethod
    def random(
        cls, axes: Axes, dimensions: int, count: int, volume: float = 0.5, seed: int = 0, step: int = 1
    ) -> "Queries":
        """`count` random queries of `dimensions` attributes each, as in the experiments of 004.

        The attributes are drawn without replacement. Each is restricted to a range that holds the share `volume` of
        its values (rounded to a whole number, and at least one), which starts at a multiple of `step`, all equally
        likely. Ranges are in the order of the schema where values are labels.

        >>> queries = Queries.random(Axes.of_shape((64,) * 6), dimensions=3, count=100, step=4)
        >>> {len(each) for each in queries.attributes}, queries.masks[0].sum(axis=1).min()
        ({3}, np.float64(32.0))
        """
        if checked_count("dimensions", dimensions, 0) > len(axes):
            raise ParameterError(f"a query of {dimensions} attributes is asked for, and there are only {len(axes)}")
        count, step = checked_count("count", count, 0), checked_count("step", step, 1)
        share = checked_real("volume", volume)
        if not 0 < share <= 1:
            raise ParameterError("volume is a share of the values, above 0 and at most 1")
        _refuse_too_many(axes, count)
        stream, rows = Stream.seeded(seed, "queries"), slice(0, count)
        asked = np.full((count, len(axes)), dimensions == len(axes))
        if 0 < dimensions < len(axes):
            chosen = subsets(len(axes), dimensions, stream.spawn("attributes"), rows)
            np.put_along_axis(asked, chosen.astype(np.intp), True, axis=1)
        steps = []
        for j, size in enumerate(axes.shape):
            length = max(1, round(share * size))
            places = stream.spawn("start", str(j)).below((size - length) // step + 1, count).astype(np.int64)
            here = np.flatnonzero(asked[:, j])
            steps.append((here, places[here] * step, places[here] * step + length))
        return _assembled(axes, count, steps)


class _Given(NamedTuple):
    """Queries in the units of these attributes: of each, the pieces of the attributes that it names."""

    axes: Axes
    pieces: tuple[dict[int, Pieces], ...]


def _refuse_too_many(axes: Axes, count: int) -> None:
    most = MOST_WEIGHTS // sum(axes.shape)
    if count > most:
        raise ParameterError(f"{count:,} queries at once need too much memory; ask in parts of at most {most:,}")


def _restrictions(axes: Axes, query: Any) -> dict[int, Pieces]:
    """The attributes of one query, and the pieces of each."""
    if not isinstance(query, Mapping):
        raise ParameterError("a query maps attributes to ranges or values, as in {0: (8, 39)}")
    if len(query) > len(axes):
        raise ParameterError(
            f"the query restricts {len(query)} attributes, and there are only {len(axes)}: {listed(axes.names)}"
        )
    found: dict[int, Pieces] = {}
    for key, wanted in query.items():
        j = axes.index(key)
        if j in found:
            raise ParameterError(f"attribute {axes.names[j]} is restricted twice, by its name and by its number")
        found[j] = axes.axes[j].pieces(wanted)
    return found


def _assembled(axes: Axes, count: int, steps: Sequence[tuple[NDArray, NDArray, NDArray]]) -> Queries:
    """Queries from the pieces of each attribute: their queries, starts and stops, in cells."""
    masks = [_mask(count, size, *each) for size, each in zip(axes.shape, steps, strict=True)]
    restricted = np.zeros((count, len(axes)), dtype=bool)
    for j, (rows, _, _) in enumerate(steps):
        asked = np.unique(rows)
        restricted[asked, j] = masks[j][asked].min(axis=1, initial=1.0) < 1
    return Queries(axes.shape, _subsets_of(restricted), tuple(masks))


def _mask(count: int, size: int, rows: NDArray, starts: NDArray, stops: NDArray) -> NDArray[np.float64]:
    """The share of each cell that lies in a piece of its row; a row without pieces is covered."""
    if not len(rows):
        return np.broadcast_to(np.float64(1), (count, size))
    mask = np.zeros((count, size + 1))
    mask[:, 0] = 1
    mask[rows, 0] = 0
    edges = [(starts, 1), (stops, -1)]
    for edge, sign in edges:
        np.add.at(mask, (rows, edge.astype(np.intp)), sign)
    np.cumsum(mask, axis=1, out=mask)
    if starts.dtype.kind == "f":  # an end inside a cell: the step above was at the cell's left border
        for edge, sign in edges:
            np.add.at(mask, (rows, edge.astype(np.intp)), -sign * (edge - np.floor(edge)))
        np.clip(mask, 0, 1, out=mask)
    mask.setflags(write=False)
    return mask[:, :size]


def _subsets_of(restricted: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the columns that hold, for each row; equal rows share theirs."""
    kinds, which = np.unique(restricted, axis=0, return_inverse=True)
    each = [tuple(np.flatnonzero(kind).tolist()) for kind in kinds]
    return tuple(each[kind] for kind in which.reshape(-1).tolist())


def describe(axes: Axes, query: Mapping[Any, Any] | Queries) -> str:
    """A query in words: a mapping as for `Queries.of`, or `queries[i]`. `where.parse` reads them back.

    >>> schema = Schema({"age": Ordinal(0, 99), "job": Categorical(["nurse", "driver", "other"])})
    >>> describe(Axes.of_schema(schema), {"job": {"nurse", "driver"}, "age": (20, 40)})
    "age between 20 and 40 and job in ('nurse', 'driver')"
    >>> describe(Axes.of_shape((64, 64)), Queries.of(Axes.of_shape((64, 64)), [{1: (8, None)}])[0])
    '"1" >= 8'
    """
    if isinstance(query, Queries):
        if len(query) != 1 or query.shape != axes.shape:
            raise ParameterError("describe takes one query on these attributes, as in queries[0]")
        asked = query.given.pieces[0] if query.given is not None and query.given.axes == axes else {}
        restricted = query.attributes[0]
        pieces = {j: asked[j] if j in asked else _pieces_of(axes[j], query.masks[j][0]) for j in restricted}
    else:
        pieces = _restrictions(axes, query)
    texts = [axes[j].condition(pieces[j]) for j in sorted(pieces)]
    return " and ".join(text for text in texts if text) or "everyone"


def _pieces_of(axis: Axis, weights: NDArray[np.float64]) -> Pieces:
    """Pieces with these weights. A cell covered in part is covered next to a neighbour, or else from its left."""
    cells: Pieces = []
    for cell in np.flatnonzero(weights).tolist():
        weight = float(weights[cell])
        follows = bool(cells) and cells[-1][1] == cell
        ahead = not follows and weight < 1 and cell + 1 < len(weights) and weights[cell + 1] > 0
        start = cell + 1 - weight if ahead else cell
        stop = cell + 1 if ahead else cell + weight
        if follows:
            cells[-1] = (cells[-1][0], stop)
        else:
            cells.append((start, stop))
    return [(axis.units(start), axis.units(stop)) for start, stop in cells]


# Pieces --------------------------------------------------------------------------------------------------------


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
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return repr(number)


def _among(name: str, values: list[str]) -> str:
    return f"{name} = {values[0]}" if len(values) == 1 else f"{name} in ({', '.join(values)})"


def _kind(given: Any) -> str:
    return {bool: "true or false", str: "a text"}.get(type(given), f"of type {type(given).__name__}")


def shown(given: Any) -> str:
    """A value of the analyst's in a message, not too long."""
    try:
        text = repr(given.item() if isinstance(given, np.generic) else given)
    except Exception:  # a whole number of many thousand digits has no text
        text = f"a value of type {type(given).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Collection[str]) -> str:
    """Names or labels in a message, not too many."""
    first = [shown(name) for name, _ in zip(names, range(_LISTED), strict=False)]
    return ", ".join(first) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
