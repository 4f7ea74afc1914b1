"""What a query is: some attributes, each restricted to a set of its values.

"Between 20 and 40 years old, and a nurse or a driver" restricts two attributes of many; the answer is the share of
users who satisfy both. A range is a set, and so are a few labels, or everything but one value: whatever the set, a
query is a *mask* for each attribute, and methods never see anything else.

**Weights.** A mask has a number from 0 to 1 for each value of an attribute: the share of that value's cell which the
query covers. Whole numbers and labels are covered or not, so theirs are 0 and 1. A `Numeric` attribute is cut into
equal cells, and a range may end inside one: the cell counts by the share of it that is covered, as if users were
spread evenly inside.

**Units.** `axes` knows the attributes in the analyst's own units, and turns what is asked into *pieces* of them.

**Many at once.** The pieces of all queries are written as steps: +1 where one starts, -1 where it stops. A running
sum turns them into masks, at a cost of one addition a cell whatever the number of pieces.

What restricts nothing is not listed among the attributes of a query: an answer that uses fewer attributes is
a better one. A query with none is answered by 1. Its values are the analyst's own, so errors may quote them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real, is_list
from dither.core.randomness import Stream
from dither.core.subsets import random_subsets
from dither.errors import ParameterError
from dither.ranges.axes import Axes, Axis, Pieces, listed

MOST_WEIGHTS = 1 << 27  # a gigabyte


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

        >>> from dither import Categorical, Numeric, Ordinal, Schema
        >>> schema = Schema({"age": Ordinal(18, 99), "income": Numeric(0, 100)})
        >>> queries = Queries.of(Axes.of_schema(schema, bins=4), [{"age": (20, None), "income": (25, 60)}])
        >>> queries.attributes, queries.masks[1].round(3).tolist()
        (((0, 1),), [[0.0, 1.0, 0.4, 0.0]])
        """
        if not is_list(given):
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
            chosen = random_subsets(len(axes), dimensions, stream.spawn("attributes"), rows)
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

    >>> from dither import Categorical, Numeric, Ordinal, Schema
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
