"""Nested partitions of attributes, and the table that agrees best with what was seen at all of their levels.

`Levels` cuts one attribute: level 0 is a single cell, each level cuts every cell into at most `branching` parts, as
equal as whole numbers allow, and the last level has single values. Any range is then made up of few cells, about
2 (branching - 1) at each level, instead of its many values (004 section 3.3).

A `Hierarchy` is what several levels of one attribute, or pairs of levels of two, tell about the same table X of
frequencies: F_l = A_l X + noise of variance v_l, where A_l adds up cells (in two dimensions along both axes). The
levels contradict each other, and the best linear unbiased estimate of everything that can be asked is to read it off

    X = argmin  sum over l of |A_l X - F_l|^2 / v_l.

- **exact** solves this. Let P_l average over the cells of level l. If all cells of a level have the same width, then
  A_l' A_l = width_l P_l; nested averages commute, and the differences E_l = P_l - P_(l-1) are projections onto
  orthogonal spaces on which everything is a number: X = sum of E_k (sum of A_l' F_l / v_l) / lambda_k with
  lambda_k = sum over l >= k of width_l / v_l (in two dimensions: levels, projections and widths are products). Widths
  of a level differ by at most one, so the same formula is nearly right for any domain size, and as the
  preconditioner of conjugate gradients it makes them exact in a few steps; in one, where widths are equal.
- **two_pass** is what 004 section 3.4 does: the recursion of Hay et al. (2010), here in its form for any variances and
  any tree, along the first attribute for every cell of the second, and then along the second. It is exact in one
  dimension, and in two if the variances are products.

A group that nobody reported in has infinite variance and no say. That everything sums to one is known: variance 0 at
the level of the single cell.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.errors import ParameterError

Table = NDArray[np.float64]
Values = Mapping[tuple[int, ...], Table]

_CLOSE = 1e-11  # of the first residual, where conjugate gradients stop; rounding is about as large
_MOST_STEPS = 100
_MOST_TURNS, _CLOSE_ENOUGH, _EASE = 400, 1e-4, 1.7  # of alternating directions, the second as a share of the total
_UNKNOWN = 1e9  # a variance that says nothing about a frequency, and can still be calculated with


@dataclass(frozen=True)
class Levels:
    """The nested partitions of one attribute with so many values.

    >>> Levels(10, branching=4).cuts
    ((0, 10), (0, 3, 5, 8, 10), (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
    >>> Levels(64).cover(16, 35)
    [(1, 1), (2, 8)]
    """

    size: int
    branching: int = 4

    def __post_init__(self) -> None:
        checked_count("the size of a domain", self.size, 1)
        checked_count("branching", self.branching, 2)

    @cached_property
    def cuts(self) -> tuple[tuple[int, ...], ...]:
        """Of each level: the first value of every cell, and last the size of the domain."""
        levels = [np.array([0, self.size])]
        while (np.diff(levels[-1]) > 1).any():
            levels.append(_finer(levels[-1], self.branching))
        return tuple(tuple(edges.tolist()) for edges in levels)

    @property
    def height(self) -> int:
        """The number of the last level, that of single values."""
        return len(self.cuts) - 1

    @cached_property
    def widths(self) -> tuple[NDArray[np.int64], ...]:
        """Of each level, how many values every cell has."""
        return tuple(np.diff(edges) for edges in self.cuts)

    @cached_property
    def starts(self) -> tuple[NDArray[np.int64], ...]:
        """Of each level, the first value of every cell."""
        return tuple(np.array(edges[:-1]) for edges in self.cuts)

    def partition(self, level: int) -> NDArray[np.int64]:
        """The cell of each value."""
        return np.repeat(np.arange(len(self.starts[level])), self.widths[level])

    def parents(self, level: int) -> NDArray[np.int64]:
        """For each cell of a level below the first, the cell above that it is a part of."""
        return self.partition(level - 1)[self.starts[level]]

    def parts(self, level: int) -> NDArray[np.int64]:
        """Into how many cells of a level each cell of the level above is cut."""
        return self._families[level - 1][1]

    def firsts(self, level: int) -> NDArray[np.int64]:
        """The first of them."""
        return self._families[level - 1][0]

    @cached_property
    def _families(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        parents = [self.parents(level) for level in range(1, self.height + 1)]
        return [(np.flatnonzero(np.diff(each, prepend=-1)), np.bincount(each)) for each in parents]

    def cover(self, low: int, high: int) -> list[tuple[int, int]]:
        """The fewest cells that make up the values from low to high, both included: their levels and numbers."""
        if not 0 <= low <= high < self.size:
            raise ParameterError(f"a range must lie within 0 and {self.size - 1}, its lower end first")
        values = np.arange(self.size)
        chosen = self.covers(((values >= low) & (values <= high))[None])
        return [(level, int(cell)) for level, cells in enumerate(chosen) for cell in np.flatnonzero(cells[0])]

    def covers(self, masks: NDArray[Any]) -> list[NDArray[np.float64]]:
        """For rows of weights of all values: of each level, the weights of the cells that make up each row.

        They are the cells whose values all have one weight, and that have no such cell above them. No two overlap. If
        the weights are 0 and 1, no other choice has fewer cells: each value lies in the largest cell that it may.
        """
        chosen: list[NDArray[np.float64]] = []
        above = np.zeros((len(masks), 1), dtype=bool)
        for level, first in enumerate(self.starts):
            least, most = (extreme.reduceat(masks, first, axis=1) for extreme in (np.minimum, np.maximum))
            covered = above if level == 0 else above[:, self.parents(level)]
            chosen.append(np.where((least == most) & ~covered, least, 0.0))
            above = covered | (least == most)
        return chosen

    # Linear maps along one axis of a table; a table of single values has `size` entries there ---------------------

    def added(self, table: Table, level: int, axis: int) -> Table:
        """The sums over the cells of a level."""
        return table if level == self.height else np.add.reduceat(table, self.starts[level], axis=axis)

    def spread(self, table: Table, level: int, axis: int) -> Table:
        """Each cell's number for each of its values: the transpose of `added`."""
        return table if level == self.height else np.repeat(table, self.widths[level], axis=axis)


def nested(shape: Sequence[int], branching: int, nominal: Sequence[int] = ()) -> tuple[Levels, ...]:
    """The nested partitions of all attributes; of one without an order its single values, since no two are close.

    >>> [each.cuts for each in nested((4, 3), branching=2, nominal=(1,))]
    [((0, 4), (0, 2, 4), (0, 1, 2, 3, 4)), ((0, 3), (0, 1, 2, 3))]
    """
    return tuple(Levels(size, max(2, size) if j in nominal else branching) for j, size in enumerate(shape))


def _finer(edges: NDArray[np.int64], branching: int) -> NDArray[np.int64]:
    """Every cell cut into `branching` parts, or into its single values if these are fewer."""
    cells = []
    for first, width in zip(edges[:-1].tolist(), np.diff(edges).tolist(), strict=True):
        parts = min(branching, width)
        cells.append(first + (np.arange(parts) * width + parts - 1) // parts)
    return np.append(np.concatenate(cells), edges[-1])


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """What all levels of one attribute, or all pairs of levels of two, tell about one table.

    `variance[l1, l2]` is that of each cell of that level's frequencies: infinite where there are none, and zero for
    the level of the single cell, whose frequency is one.

    >>> tree = Hierarchy((Levels(4, 2),), np.array([0.0, 1.0, 1.0]))
    >>> seen = {(1,): np.array([0.7, 0.3]), (2,): np.array([0.1, 0.2, 0.4, 0.3])}
    >>> tree.exact(seen).round(4).tolist()
    [0.2333, 0.3333, 0.2667, 0.1667]
    """

    levels: tuple[Levels, ...]
    variance: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.variance.shape != tuple(each.height + 1 for each in self.levels):
            raise ParameterError("a hierarchy needs a variance for every level of every attribute")
        if (self.variance < 0).any() or np.isnan(self.variance).any() or (self.variance.reshape(-1)[1:] == 0).any():
            raise ParameterError("the variance of a level must be above zero; infinite where there are no reports")

    @property
    def shape(self) -> tuple[int, ...]:
        """Values of each attribute."""
        return tuple(each.size for each in self.levels)

    def _numbers(self) -> Iterator[tuple[int, ...]]:
        return product(*(range(each.height + 1) for each in self.levels))

    # Exact -----------------------------------------------------------------------------------------------------------

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """1 / variance; zero at the root if that is known, since it is no part of the sum then."""
        known = self.variance > 0
        return np.where(known, 1 / np.where(known, self.variance, 1.0), 0.0)

    @cached_property
    def precision(self) -> NDArray[np.float64]:
        """lambda: how well differences between levels are known; zero if they are not, infinite for a known sum."""
        through = self._weights
        for axis, each in enumerate(self.levels):
            mean = np.array([each.size / len(first) for first in each.starts])
            through = through * _along(mean, axis, through.ndim)
        for axis in range(through.ndim):
            through = np.flip(np.cumsum(np.flip(through, axis), axis), axis)
        if self.variance.flat[0] == 0:
            through.flat[0] = np.inf
        return through

    @cached_property
    def _inverse(self) -> NDArray[np.float64]:
        return _inverted(self.precision)

    @cached_property
    def _averages(self) -> NDArray[np.float64]:
        """sum of E_k / lambda_k, as a sum of averages."""
        return _of_averages(self._inverse)

    def exact(self, values: Values) -> Table:
        """The table of least squares, from the frequencies of each level. Its sum is one if the root is known."""
        table, free = np.zeros(self.shape), self._free
        if self.variance.flat[0] == 0:
            root = (0,) * len(self.levels)
            table += float(np.sum(values.get(root, 1.0))) / table.size
        rest = free(self._gathered(values) - self._blended(table, self._weights))
        better = free(self._blended(rest, self._averages, averaged=True))
        step, size = better, np.vdot(rest, better)
        enough = size * _CLOSE**2
        for _ in range(_MOST_STEPS):
            if size <= enough:
                break
            along = free(self._blended(step, self._weights))
            length = size / np.vdot(step, along)
            table += length * step
            rest -= length * along
            better = free(self._blended(rest, self._averages, averaged=True))
            before, size = size, np.vdot(rest, better)
            step = better + (size / before) * step
        return table

    def _free(self, table: Table) -> Table:
        """The part of a table that may still change: all of it, or all but its mean."""
        return table - table.mean() if self.variance.flat[0] == 0 else table

    def _blended(self, table: Table, factors: NDArray[np.float64], averaged: bool = False) -> Table:
        """The sum over levels of factor * A'A table, or factor * P table."""
        axis = table.ndim - factors.ndim
        if factors.ndim == 0:
            return table * factors
        each, sums = self.levels[axis], [table]
        for level in range(each.height, 0, -1):
            sums.insert(0, np.add.reduceat(sums[0], each.firsts(level), axis=axis))
        total = np.zeros(())
        for level, own in enumerate(factors):
            cells = sums[level] / _along(each.widths[level], axis, table.ndim) if averaged else sums[level]
            part = self._blended(cells, own, averaged)
            total = part if level == 0 else part + np.repeat(total, each.parts(level), axis=axis)
        return total

    def _gathered(self, values: Values, level: tuple[int, ...] = ()) -> Any:
        """The sum over levels of A'F / v."""
        axis = len(level)
        if axis == len(self.levels):
            own = self._weights[level]
            return own * values[level] if own else 0.0
        total = np.zeros(())
        for number in range(self.levels[axis].height + 1):
            part = self._gathered(values, (*level, number))
            if np.ndim(part):
                total = total + self.levels[axis].spread(part, number, axis)
        return total

    def noise(self, masks: Sequence[NDArray[Any]], precision: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """The variance of the answers of `exact` to queries: of each attribute, rows of weights of its values.

        sum over k of |E_k q|^2 / lambda_k. It is exact if all cells of a level are equally wide, and else close. What
        no level shows is even in the table, and has no part in this. `precision` is another lambda, if more is known.
        """
        powers = []
        for each, mask in zip(self.levels, masks, strict=True):
            wanted = mask.astype(np.float64)
            kept = [(each.added(wanted, level, 1) ** 2 / each.widths[level]).sum(axis=1) for level in _each(each)]
            powers.append(np.diff(np.column_stack(kept), axis=1, prepend=0.0))
        inverse = self._inverse if precision is None else _inverted(precision)
        left = np.broadcast_to(inverse, (len(masks[0]), *inverse.shape))
        for power in reversed(powers):
            left = np.einsum("q...k,qk->q...", left, power)
        return np.maximum(left, 0.0)

    def nonnegative(self, table: Table) -> Table:
        """The nearest table without negative entries and with the same sum, in units of the noise.

        What Norm-Sub does on the scale of single values it does to whole ranges as well: it moves thousands of small
        entries in the same direction. Here the distance is the sum over k of lambda_k |E_k (X - table)|^2, in which the
        sums over large cells are as precious as they are well known. By alternating directions (ADMM): averages of
        levels, which are closed forms, and the cut at zero, in turns.

        >>> tree = Hierarchy((Levels(4, 2),), np.array([0.0, 1.0, 1.0]))
        >>> tree.nonnegative(np.array([0.4, -0.1, 0.5, 0.2])).round(2).tolist()  # the halves stay nearly as they are
        [0.33, 0.0, 0.49, 0.19]
        """
        seen = self._inverse > 0
        metric = np.where(seen, self.precision, 0.0)
        if not seen.any():
            return np.full(self.shape, table.sum() / table.size)
        strength = float(np.exp(np.log(metric[seen]).mean()))
        toward = np.where(seen, strength / (metric + strength), 1.0)
        toward.flat[0] = 0.0  # the sum stays
        toward = _of_averages(toward)
        kept, total = np.maximum(table, 0.0), float(table.sum())
        offset = np.zeros_like(table)
        for _ in range(_MOST_TURNS):
            free = table + self._blended(kept - offset - table, toward, averaged=True)
            eased = _EASE * free + (1 - _EASE) * kept
            before, kept = kept, np.maximum(eased + offset, 0.0)
            offset += eased - kept
            if np.abs(kept - before).sum() + np.abs(kept - free).sum() < _CLOSE_ENOUGH * total:
                break
        return kept * (total / kept.sum())

    # Two passes ------------------------------------------------------------------------------------------------------

    def two_pass(self, values: Values) -> Table:
        """The table of one pass of constrained inference along each attribute in turn."""
        tables = {level: self._known(values, level) for level in self._numbers()}
        spread = {level: min(float(self.variance[level]), _UNKNOWN) for level in tables}
        for axis, each in enumerate(self.levels):
            rests = {level[1:] for level in tables}
            stacks = {rest: [(number, *rest) for number in _each(each)] for rest in rests}
            done = {
                rest: _one_pass(each, [tables[at] for at in stack], [spread[at] for at in stack], axis)
                for rest, stack in stacks.items()
            }
            tables = {rest: table for rest, (table, _) in done.items()}
            spread = {rest: variance for rest, (_, variance) in done.items()}
        return tables[()]

    def _known(self, values: Values, level: tuple[int, ...]) -> Table:
        """A level's frequencies; where there are none, even ones, which will have no say."""
        if level in values and np.isfinite(self.variance[level]):
            return np.asarray(values[level], dtype=np.float64)
        even = np.ones(())
        for each, number in zip(self.levels, level, strict=True):
            even = np.multiply.outer(even, each.widths[number] / each.size)
        return even


def _inverted(precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / lambda; zero where nothing is to be found out."""
    seen = precision > 0
    return np.where(seen, 1 / np.where(seen, precision, 1.0), 0.0)


def _of_averages(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The factors of all P_k in the sum of number_k * E_k."""
    for axis in range(numbers.ndim):
        numbers = -np.diff(numbers, axis=axis, append=0.0)
    return numbers


def _one_pass(levels: Levels, tables: list[Table], variances: list[float], axis: int) -> tuple[Table, float]:
    """Least squares along one axis (Hay et al. 2010, for any variances), and the average variance of its entries.

    Upwards, each cell's own frequency and the sum of its parts are averaged by their variances. Downwards, what a
    cell knows better than its parts is shared out among these, by their variances.
    """
    own = [np.moveaxis(table, axis, 0) for table in tables]
    best, spread = [own[-1]], [np.full(levels.size, variances[-1])]
    sums: list[tuple[Table, NDArray]] = []
    for level in range(levels.height - 1, -1, -1):
        parts = levels.firsts(level + 1)
        total, loose = np.add.reduceat(best[0], parts, axis=0), np.add.reduceat(spread[0], parts)
        gain = loose / (loose + variances[level])
        best.insert(0, total + _along(gain, 0, total.ndim) * (own[level] - total))
        spread.insert(0, gain * variances[level])
        sums.insert(0, (total, loose))
    table, certain = best[0], spread[0]
    for level, (total, loose) in enumerate(sums, start=1):
        above = levels.parents(level)
        share = spread[level] / loose[above]
        table = best[level] + _along(share, 0, table.ndim) * (table - total)[above]
        certain = spread[level] - share**2 * (loose - certain)[above]
    return np.moveaxis(table, 0, axis), float(certain.mean())


def _along(numbers: NDArray, axis: int, dimensions: int) -> NDArray:
    """A vector along one axis of a table."""
    return numbers.reshape([-1 if a == axis else 1 for a in range(dimensions)])


def _each(levels: Levels) -> range:
    return range(levels.height + 1)
