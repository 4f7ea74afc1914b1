"""Records of nobody, drawn from the fitted model, to be used with any tool.

A `Pairwise` model knows the marginals, the tables of pairs, and a normal copula that is near to both. What it says
about whole records is the distribution *nearest to the copula* (in relative entropy) that has these tables: the
copula's density times a factor for each cell of each pair and each margin. So

1. **propose**: records of the copula, and every eighth of independent attributes, so that no cell of any table goes
   without; their weights are the density of the copula over that of the mixture they were drawn from, and not less
   than some hundredths;
2. **rake**: one table after the other, the weights of the records in each cell are scaled to what the model has there
   (iterative proportional fitting), in rounds, until none of them changes much;
3. **resample**: n records in proportion to the weights, evenly: a record of weight w is drawn floor(n w) times or once
   more. They are passed in an order in which neighbours are alike in all attributes (Morton's curve through the
   ranks), so that every region gets its number of records nearly. Standard errors over those of n independent draws,
   for six attributes of 64 values: .03 to .35 for about half of one attribute or of each of two, .5 to 1 for the
   middle of each of two, and about 1 for single values; with 100,000 records .4 for these, and less for all others.

Factors are found on a part of the proposals and finished on all of them. Tables that contradict each other (noise does
that) have no such distribution; the rounds then end at a compromise, and margins, which come last, hold.

Privacy: a function of the estimate and of fresh random bits, so it costs nothing (post-processing).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.randomness import Stream
from dither.estimation.normal_copula import at_scores, scored
from dither.ranges.model import Margin, Pairwise, common_cuts, sums

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Cuts = NDArray[np.int64]

_LEAST, _MOST = 1 << 17, 1 << 20  # proposals
_FIRST = 1 << 17  # of them, for most of the rounds
_CHUNK = 1 << 16
_INDEPENDENT = 8  # one proposal in so many
_FEW_CELLS, _MOST_CELLS = 16, 64  # along an attribute, in a pair
_MARGIN_CELLS = 1024
_ROUNDS, _LAST_ROUNDS = 20, 4
_LARGEST = 1e3  # factor of a cell: tables that contradict each other would drive some to infinity
_LEAST_WEIGHT = 0.03  # of a proposal, so that factors need not be larger
_CURVE, _WORD = 10, 60  # bits of a rank, and of a place on the curve
_SETTLED = 1e-3  # sum of all changes in the worst of the tables


def sampled_records(model: Pairwise, n: int, seed: int | None = None) -> NDArray[np.int64]:
    """n records of the model, one a row, in codes from 0. The same seed gives the same records.

    >>> from dither.ranges.fit import uniform
    >>> sampled_records(uniform((4, 8)), 100_000, seed=1).mean(axis=0).round(1).tolist()
    [1.5, 3.5]
    """
    wanted = checked_count("n", n, 0)
    stream = Stream.secure() if seed is None else Stream.seeded(seed, "records")
    found = np.empty((wanted, len(model.margins)), dtype=np.int64)
    tables = _tables(model) if wanted else []
    for start in range(0, wanted, _MOST):
        stop = min(start + _MOST, wanted)
        _fill(found[start:stop], model, tables, stream.spawn("part", str(start)))
    return found


def _fill(out: NDArray[np.int64], model: Pairwise, tables: "Sequence[_Table]", stream: Stream) -> None:
    count = min(_MOST, max(_LEAST, 2 * len(out)))
    columns, weights = _proposed(model, count, stream)
    fitted = _raked(columns, weights, tables)
    near = _curve(columns, [margin.value for margin in model.margins])
    chosen = near[_systematic(fitted[near], len(out), float(fractions(stream, 1, slice(0, 1))[0, 0]))]
    order = stream.order(len(out), lane=2)
    for j, column in enumerate(columns):
        out[:, j] = column[chosen[order]]


def fractions(stream: Stream, lane: int, rows: slice, width: int = 1) -> Floats:
    """Random numbers inside (0, 1), neither end included, one row for each of the rows."""
    return (stream.words(lane, rows, width) >> np.uint64(12)).astype(np.float64) * 2.0**-52 + 2.0**-53


def _proposed(model: Pairwise, count: int, stream: Stream) -> tuple[list[Codes], Floats]:
    """Records, a column for each attribute, and their weights."""
    shares = [margin.value for margin in model.margins]
    root: Any = np.linalg.cholesky(model.correlation)
    inverse, logarithm = np.linalg.inv(root), float(np.log(np.diag(root)).sum())
    columns = [np.empty(count, dtype=np.int32) for _ in shares]
    weights = np.empty(count)
    for start in range(0, count, _CHUNK):
        rows = slice(start, min(start + _CHUNK, count))
        scores = scored(fractions(stream, 0, rows, len(shares)), root)
        alone = scores[::_INDEPENDENT]
        alone[:] = alone @ inverse.T
        density = np.exp(0.5 * ((scores**2).sum(axis=1) - ((scores @ inverse.T) ** 2).sum(axis=1)) - logarithm)
        ratio = density / (density * (1 - 1 / _INDEPENDENT) + 1 / _INDEPENDENT)
        weights[rows] = np.maximum(ratio, _LEAST_WEIGHT)
        for column, own in zip(columns, at_scores(scores, shares).T, strict=True):
            column[rows] = own
    return columns, weights


# Raking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Table:
    """What the records of some cells are to weigh, and by which factor they were scaled."""

    attributes: tuple[int, ...]
    places: tuple[Codes, ...]  # value -> what its cell adds to the number of the cell
    wanted: Floats
    factors: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", np.ones_like(self.wanted))

    def cells(self, columns: Sequence[Codes], rows: slice) -> NDArray[np.intp]:
        """The number of the cell of each record."""
        found = self.places[0].take(columns[self.attributes[0]][rows])
        if len(self.places) > 1:
            found += self.places[1].take(columns[self.attributes[1]][rows])
        return found.astype(np.intp)

    def scale(self, columns: Sequence[Codes], weights: Floats) -> float:
        """Scale the weights of the first records to this table, in place; and how far they were from it."""
        cells = self.cells(columns, slice(0, len(weights)))
        mass = np.bincount(cells, weights, minlength=len(self.wanted))
        factor = np.divide(self.wanted, mass, out=np.ones_like(mass), where=mass > 0)
        held = np.clip(self.factors * factor, 1 / _LARGEST, _LARGEST)
        weights *= (held / self.factors).take(cells)
        self.factors[:] = held
        return float(np.abs(self.wanted - mass).sum())


def _raked(columns: Sequence[Codes], weights: Floats, tables: "Sequence[_Table]") -> Floats:
    """Weights that add up to one, scaled to the tables."""
    for table in tables:
        table.factors[:] = 1.0
    first = weights[:_FIRST] / weights[:_FIRST].sum()
    _rounds(columns, first, tables, _ROUNDS)
    if len(weights) == len(first):
        return first
    logarithm = np.log(weights)
    for table in tables:
        logarithm += np.log(table.factors).take(table.cells(columns, slice(0, len(weights))))
    whole = np.exp(logarithm - logarithm.max())
    whole /= whole.sum()
    _rounds(columns, whole, tables, _LAST_ROUNDS)
    return whole


def _rounds(columns: Sequence[Codes], weights: Floats, tables: "Sequence[_Table]", most: int) -> None:
    for _ in range(most):
        changes = [table.scale(columns, weights) for table in tables]
        if max(changes) < _SETTLED:
            return


def _curve(columns: Sequence[Codes], shares: Sequence[Floats]) -> NDArray[np.intp]:
    """The order of records along a curve that halves one attribute after the other, and then their halves again."""
    some = min(len(columns), _WORD)
    bits = min(_CURVE, _WORD // some)
    places = np.zeros(len(columns[0]), dtype=np.uint64)
    for j, (column, share) in enumerate(zip(columns[:some], shares, strict=False)):
        below = np.cumsum(share)
        rank = np.minimum((below - share / 2) / below[-1] * 2**bits, 2**bits - 1).astype(np.uint64)
        own = np.zeros_like(rank)
        for bit in range(bits):
            own |= (rank >> np.uint64(bit) & np.uint64(1)) << np.uint64(bit * some + some - 1 - j)
        places |= own.take(column)
    return np.argsort(places, kind="stable")


def _systematic(weights: Floats, n: int, offset: float) -> NDArray[np.intp]:
    """The numbers of n records in proportion to these weights: each as often as it should be, rounded up or down."""
    below = np.cumsum(weights)
    ends = np.floor(below * (n / below[-1]) + offset).astype(np.int64)
    ends[-1] = n
    return np.repeat(np.arange(len(weights)), np.diff(ends, prepend=0))


# What the model has in each cell ---------------------------------------------------------------------------------


def _tables(model: Pairwise) -> list[_Table]:
    """All pairs, and then all margins."""
    pairs = [_pair_table(model, j, k) for j, k in combinations(range(len(model.margins)), 2)]
    return pairs + [_margin_table(j, margin) for j, margin in enumerate(model.margins)]


def _margin_table(j: int, margin: Margin) -> _Table:
    cuts = _even(margin.value, _MARGIN_CELLS)
    return _Table((j,), (_places(cuts, 1),), sums(margin.value, cuts))


def _pair_table(model: Pairwise, j: int, k: int) -> _Table:
    left, right = model.margins[j].value, model.margins[k].value
    pair = model.pairs.get((j, k))
    if pair is None:
        cuts = _even(left, _FEW_CELLS), _even(right, _FEW_CELLS)
        wanted = np.outer(sums(left, cuts[0]), sums(right, cuts[1]))
    else:
        cuts = _raked_cells(left, pair.grid[0]), _raked_cells(right, pair.grid[1])
        wanted = pair.ratio
        for shares, blocks, own in ((left, pair.cuts[0], cuts[0]), (right, pair.cuts[1], cuts[1])):
            wanted = (_parts(shares, blocks, own) @ wanted).T  # rows first, then columns
    across = wanted.shape[1]
    return _Table((j, k), (_places(cuts[0], across), _places(cuts[1], 1)), wanted.ravel())


def _parts(shares: Floats, blocks: Cuts, cells: Cuts) -> Floats:
    """The mass that each cell (row) has in each block (column)."""
    pieces = common_cuts([blocks, cells])
    found = np.zeros((len(cells) - 1, len(blocks) - 1))
    row, column = (np.searchsorted(cuts, pieces[:-1], side="right") - 1 for cuts in (cells, blocks))
    found[row, column] = sums(shares, pieces)
    return found


def _places(cuts: Cuts, stride: int) -> Codes:
    return np.repeat(np.arange(len(cuts) - 1, dtype=np.int32) * np.int32(stride), np.diff(cuts))


def _raked_cells(shares: Floats, grid: Cuts) -> Cuts:
    """The cells of the grid: together with some of about equal mass if they are few, and not all if they are many."""
    cells = len(grid) - 1
    if cells > _MOST_CELLS:
        below = np.concatenate([[0.0], np.cumsum(shares)])[grid]
        places = np.searchsorted(below, np.linspace(0, below[-1], _MOST_CELLS + 1)[1:-1])
        return np.unique(np.concatenate([[0], grid[places], grid[-1:]]))
    return grid if cells >= _FEW_CELLS else common_cuts([grid, _even(shares, _FEW_CELLS)])


def _even(shares: Floats, cells: int) -> Cuts:
    """Cuts into at most so many cells of about equal mass; one for each value if there are no more."""
    if len(shares) <= cells:
        return np.arange(len(shares) + 1)
    below = np.concatenate([[0.0], np.cumsum(shares)])
    places = np.searchsorted(below, np.linspace(0, below[-1], cells + 1)[1:-1])
    return np.unique(np.concatenate([[0], places, [len(shares)]]))
