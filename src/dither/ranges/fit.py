"""From what came back about grids to the model that answers queries: one function for each way to do it.

**Beside.** What other reports tell about the shares of an attribute's values (`estimation.linear_readings`) is further
evidence about its margin. A margin is smoothed in cells of several values, over which the weights of a reading are
averaged. Errors that go together are turned to the axes of their covariance, where they do not: no part of it is lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.parallel import each_chunk
from dither.errors import require
from dither.estimation.density import NoisySums, smoothed
from dither.estimation.linear_readings import LinearReading
from dither.estimation.normal_copula import LARGEST, completed, nearest, scores, slope, tables
from dither.estimation.output_counts import OutputCounts
from dither.estimation.simplex import onto_simplex
from dither.mechanisms.window_evidence import window_evidence
from dither.ranges.bends import bent_alike
from dither.ranges.consistency import processed
from dither.ranges.grid import equal_cuts
from dither.ranges.inside_cells import bends
from dither.ranges.interaction import (
    Seen,
    SeenGrid,
    agreeing,
    correlations,
    middle,
    over,
    rests,
    trusted,
    two_humps,
    with_margins,
)
from dither.ranges.model import Factors, Margin, Pair, Pairwise, White, common_cuts, sums
from dither.ranges.response_matrix import block_ratio, spread
from dither.ranges.user_groups import Collected

Floats = NDArray[np.float64]
Cuts = NDArray[np.int64]
Beside = Mapping[int, Sequence[LinearReading]]  # of attributes, by their places

NONE: Mapping[int, Any] = MappingProxyType({})
_LEAST_VARIANCE = 1e-9  # of the largest: shares that add up to one have a direction without any
_TINY = 1e-300
_MOST_SMOOTHED = 128  # cells of a marginal
_MOST_OUTPUTS = 128  # groups of outputs of a window: far narrower than what can be seen
_MOST_BLOCKS = 64  # of an attribute, in a pair
# From a copula, of any pair, beside what is seen of it. Half or twice of it moves the coverage of queries about four
# attributes by -.3 and +.8% (`python benchmarks/constants.py ranges.fit._LEAST_DEPARTURE`).
_LEAST_DEPARTURE = 0.1
# Of the evidence for a smooth margin, in its error bars (`estimation.density`). Calibrated to intervals that hold where
# marginals have horns: at half, once and twice of it the least coverage of 14 populations and one to four attributes is
# 79, 86 and 88% in one collection, and errors are stated .91, 1 and 1.08 times as large (`python
# benchmarks/constants.py ranges.fit._TEMPER`).
_TEMPER = 16.0
_FALSE_ALARM, _ENOUGH = 1e-6, 5.0  # of the tests of the fit; and reports that a group of outputs needs for them
_PROPOSED = 0.75  # of the correlation of two clusters, in the copula that records are proposed from
_LEAST_RATIO = 1e-6  # to independence, of what the copula puts anywhere
_SCALINGS, _LAST_SCALINGS = 4, 10


# Smooth marginals and a copula -----------------------------------------------------------------------------------


def product(
    shape: Sequence[int],
    collected: Sequence[Collected],
    ordered: Sequence[bool],
    beside: Beside = NONE,
    cells: Mapping[int, int] = NONE,
) -> Pairwise:
    """As if attributes were independent."""
    return Pairwise(fitted_margins(shape, collected, ordered, beside, cells), {})


def copula(
    shape: Sequence[int],
    collected: Sequence[Collected],
    ordered: Sequence[bool],
    beside: Beside = NONE,
    smooth: Mapping[int, int] = NONE,
) -> Pairwise:
    """Smooth marginals, a correlation for each pair, and what it does not explain.

    `smooth` says into how many cells a marginal is smoothed, of attributes for which that is not the usual number.
    """
    margins = fitted_margins(shape, collected, ordered, beside, smooth)
    grids: dict[tuple[int, int], list[Collected]] = {}
    for each in collected:
        if len(each.grid.attributes) == 2:
            grids.setdefault((each.grid.attributes[0], each.grid.attributes[1]), []).append(each)
    if not grids:
        return Pairwise(margins, {})
    cells = {pair: _cells(asked) for pair, asked in grids.items()}
    seen = {pair: _seen(margins, asked, cells[pair], ordered) for pair, asked in grids.items()}
    found = correlations(list(seen.values()))
    matrix, known = np.eye(len(shape)), np.eye(len(shape), dtype=bool)
    for (j, k), value in zip(seen, found.value, strict=True):
        matrix[j, k] = matrix[k, j] = value
        known[j, k] = known[k, j] = True
    matrix = nearest(completed(matrix, known))
    slopes = [slope(*pair.scores, matrix[key]) for key, pair in seen.items()]
    bases = bent_alike(list(seen.values()), [pair.base(matrix[key]) for key, pair in seen.items()], slopes)
    blocks = [_blocks(j, size, collected) for j, size in enumerate(shape)]
    pairs, unexplained = {}, _unexplained_margins(margins, collected)
    left = rests(list(seen.values()), bases, [found.spread * each for each in slopes])
    for key, rest, base, error, move in zip(seen, left, bases, found.stderr, slopes, strict=True):
        grid = cells[key]
        open_ = np.concatenate([rest.factors, error * move[None]])
        trust = trusted(seen[key], base, rest)
        inside = _Inside(margins, key, blocks, grid, rest.table)
        ratio = inside.ratio(trust.value * matrix[key])
        reach = float(np.hypot(error, trust.stderr * matrix[key]))
        hidden = Factors(inside.hidden(seen[key], ratio, trust.value * matrix[key], reach))
        departure = min(1.0, _LEAST_DEPARTURE + float(np.abs(rest.table - base).sum()))
        cuts = blocks[key[0]], blocks[key[1]]
        doubts = departure, hidden, rest.lean
        pairs[key] = Pair(cuts, ratio, grid, Factors(open_), *doubts, clusters=1 - rest.unsplit)
        if _improbable(seen[key].misfit(rest.table), len(shape) + len(seen)):
            unexplained.append(key)
    return Pairwise(margins, pairs, given=_proposing(matrix, pairs), unexplained=tuple(unexplained))


def _proposing(matrix: Floats, pairs: Mapping[tuple[int, int], Pair]) -> Floats:
    """Correlations of the copula that records are proposed from, which are raked to the pairs.

    Of two clusters a copula near 1 has hardly a record away from its diagonal inside of each, and one of 0 hardly one
    that has all attributes in the same of them.
    """
    found = matrix.copy()
    for (j, k), pair in pairs.items():
        found[j, k] = found[k, j] = matrix[j, k] * (1 - (1 - _PROPOSED) * pair.clusters)
    return nearest(found)


def _unexplained_margins(margins: Sequence[Margin], collected: Sequence[Collected]) -> list[tuple[int, ...]]:
    """The attributes whose square waves have other outputs than the fit would have (Pearson's test)."""
    found: list[tuple[int, ...]] = []
    for j, margin in enumerate(margins):
        waves = [each for each in collected if each.grid.attributes == (j,) and each.value is None and each.n]
        heard = _heard(waves, margin.cuts)
        if heard is None:
            continue
        expected = heard.n * heard.chance(margin.cells)
        fine = expected >= _ENOUGH
        apart = float(((heard.counts - expected)[fine] ** 2 / expected[fine]).sum())
        if _improbable((apart, int(fine.sum())), len(margins) ** 2):
            found.append((j,))
    return found


def _improbable(misfit: tuple[float, int], tests: int) -> bool:
    """Whether a sum of so many squares is this large by chance once in a million collections, among so many tests.

    What was fitted makes the sum smaller, so that the false alarm is at most that.
    """
    squares, number = misfit
    special: Any = require("scipy.special", "fast")
    return number > 0 and bool(special.chdtrc(number, squares) < _FALSE_ALARM / tests)


def fitted_margins(
    shape: Sequence[int],
    collected: Sequence[Collected],
    ordered: Sequence[bool],
    beside: Beside = NONE,
    cells: Mapping[int, int] = NONE,
) -> tuple[Margin, ...]:
    """All attributes, on as many threads as there are."""
    found: dict[int, Margin] = {}

    def fit(part: slice) -> None:
        for j in range(part.start, part.stop):
            known = [each for each in beside.get(j, ()) if each.reports and np.isfinite(each.covariance).all()]
            found[j] = _margin(j, shape[j], collected, ordered[j], known, cells.get(j, _MOST_SMOOTHED))

    each_chunk(fit, len(shape), 1)
    return tuple(found[j] for j in range(len(shape)))


def _margin(
    j: int, size: int, collected: Sequence[Collected], ordered: bool, beside: Sequence[LinearReading], most: int
) -> Margin:
    """The distribution of an attribute, from everything that was asked about it."""
    about = [each for each in collected if j in each.grid.attributes]
    if not ordered and size > _MOST_SMOOTHED:
        return _unordered(size, about, beside)
    shared = [each.grid.cuts[each.grid.attributes.index(j)] for each in about if each.value is not None]
    cuts = common_cuts([np.array(equal_cuts(size, min(size, most))), *map(np.array, _few(shared, size))])
    heard = _heard([each for each in about if each.value is None and each.n], cuts)
    summed = [_summed(j, each, cuts) for each in about if each.value is not None]
    told = [*_pooled(summed), *(_beside(each, cuts) for each in beside)]
    single = len(cuts) - 1 == size  # a cell for each value: others share out a spike among theirs
    found = smoothed(len(cuts) - 1, heard, told, ordered=ordered, spikes=single, temper=_TEMPER)
    return Margin(spread(found.value, cuts), cuts, found.covariance)


def _heard(waves: Sequence[Collected], cuts: Cuts) -> OutputCounts | None:
    """The tallies of square waves as evidence about the cells between the cuts.

    A cell of several values has the average of their laws. The waves of several phases are outputs of one wave: in
    which phase a user was asked is part of the output, and depends on nothing.
    """
    if not waves:
        return None
    reports, found = sum(each.n for each in waves), []
    for each in waves:
        assert each.middles is not None
        window = each.mechanism.window  # type: ignore[attr-defined]
        heard = window_evidence(window, each.tally.counts, each.middles, each.middles, _MOST_OUTPUTS)
        law = np.add.reduceat(heard.law, cuts[:-1], axis=1) / np.diff(cuts) * (each.n / reports)
        found.append(heard._replace(law=law))
    return OutputCounts(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _few(shared: Sequence[Sequence[int]], size: int) -> list[Sequence[int]]:
    """The cuts that a smoothed marginal must have: those of coarse grids. Finer ones are summed up to its own."""
    return [cuts for cuts in shared if len(cuts) - 1 <= _MOST_SMOOTHED or size <= _MOST_SMOOTHED]


def _summed(j: int, each: Collected, cuts: Cuts) -> NoisySums:
    """The margin of a grid as evidence about the cells between the cuts."""
    axis = each.grid.attributes.index(j)
    assert each.value is not None
    others = tuple(other for other in range(each.value.ndim) if other != axis)
    value, own = each.value.sum(axis=others), np.array(each.grid.cuts[axis])
    merged = np.searchsorted(own, np.intersect1d(own, cuts))  # cells that a cut of ours does not divide
    value, own, cells = sums(value, merged), own[merged], np.diff(merged)
    rows = np.zeros((len(own) - 1, len(cuts) - 1))
    starts = np.searchsorted(cuts, own)
    for number, (low, high) in enumerate(pairwise(starts)):
        rows[number, low:high] = 1.0
    beside = each.value.size // each.value.shape[axis]
    return NoisySums(rows, value, each.variance_of(value, beside * cells))


def _pooled(summed: Sequence[NoisySums]) -> list[NoisySums]:
    """Sums over the same cells as one."""
    groups: dict[bytes, list[NoisySums]] = {}
    for each in summed:
        if np.isfinite(each.variance).all():
            groups.setdefault(each.rows.tobytes(), []).append(each)
    pooled = []
    for group in groups.values():
        precision = sum(1 / each.variance for each in group)
        value = sum(each.value / each.variance for each in group) / precision
        pooled.append(NoisySums(group[0].rows, np.asarray(value), np.asarray(1 / precision)))
    return pooled


def _beside(reading: LinearReading, cuts: Cuts) -> NoisySums:
    """A reading of the values of an attribute as evidence about the cells between the cuts."""
    rows = np.add.reduceat(reading.rows, cuts[:-1], axis=1) / np.diff(cuts)
    covariance = reading.weighing + reading.slack**2 * np.eye(len(reading.value))
    variance, value = np.diag(covariance), reading.value
    if (covariance != np.diag(variance)).any():
        variance, axes = np.linalg.eigh(covariance)
        rows, value = axes.T @ rows, axes.T @ value
    return NoisySums(rows, value, np.maximum(variance, _LEAST_VARIANCE * max(float(variance.max()), _TINY)))


def _unordered(size: int, about: Sequence[Collected], beside: Sequence[LinearReading]) -> Margin:
    """Many values without an order: nothing is smooth about them, and they are only kept from being negative."""
    own = next((each for each in about if each.grid.shape == (size,) and each.n), None)
    value = variance = np.full(size, 1 / size)
    if own is not None and own.value is not None:
        value, variance = own.value, own.variance_of(own.value)
    elif not beside:
        return Margin(value, np.arange(size + 1), variance)
    for reading in beside:
        value, variance = _moved(value, variance, reading)
    return Margin(onto_simplex(value), np.arange(size + 1), variance)


def _moved(value: Floats, variance: Floats, reading: LinearReading) -> tuple[Floats, Floats]:
    """Shares with independent errors and a reading of them, put together; what their errors share is left out."""
    scaled = reading.rows * variance
    spread = scaled @ reading.rows.T + reading.covariance + reading.slack**2 * np.eye(len(reading.value))
    gain = np.linalg.solve(spread, scaled).T
    return value + gain @ (reading.value - reading.rows @ value), np.maximum(
        variance - (gain * scaled.T).sum(axis=1), 0.0
    )


def _cells(asked: Sequence[Collected]) -> tuple[Cuts, Cuts]:
    """Where a pair is cut by any of its grids."""
    first, second = (common_cuts([np.array(each.grid.cuts[axis]) for each in asked]) for axis in (0, 1))
    return first.astype(np.int64), second.astype(np.int64)


def _seen(
    margins: Sequence[Margin], asked: Sequence[Collected], cells: tuple[Cuts, Cuts], ordered: Sequence[bool]
) -> Seen:
    j, k = asked[0].grid.attributes
    rows, columns = (sums(margins[i].value, cuts) for i, cuts in zip((j, k), cells, strict=True))
    grids = []
    for each in asked:
        assert each.value is not None
        down, across = (np.searchsorted(own, cuts) for own, cuts in zip(cells, each.grid.cuts, strict=True))
        grids.append(SeenGrid(each.value, each.spread, down, across))
    apart = 1.0
    for i, shares, cuts in zip((j, k), (rows, columns), cells, strict=True):
        apart *= two_humps(margins[i].value, int(cuts[middle(shares) + 1]))
    return Seen(rows, columns, tuple(grids), ordered[j] and ordered[k], apart)


def _blocks(j: int, size: int, collected: Sequence[Collected]) -> Cuts:
    """Where the tables of an attribute's pairs are cut: finely, and wherever a grid is."""
    grids = [each for each in collected if j in each.grid.attributes and len(each.grid.attributes) == 2]
    cuts = [np.array(each.grid.cuts[each.grid.attributes.index(j)]) for each in grids]
    return common_cuts([np.array(equal_cuts(size, min(size, _MOST_BLOCKS))), *cuts]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Inside:
    """A pair inside the cells of its grid, of which the table is known: on blocks, as ratios to independence."""

    margins: Sequence[Margin]
    pair: tuple[int, int]
    blocks: Sequence[Cuts]
    grid: tuple[Cuts, Cuts]
    table: Floats

    @cached_property
    def shares(self) -> tuple[Floats, Floats]:
        """Of the blocks along both sides."""
        j, k = self.pair
        return sums(self.margins[j].value, self.blocks[j]), sums(self.margins[k].value, self.blocks[k])

    @cached_property
    def cells(self) -> tuple[Cuts, Cuts]:
        """Where the grid is cut among the blocks."""
        down, across = (np.searchsorted(self.blocks[i], cuts) for i, cuts in zip(self.pair, self.grid, strict=True))
        return down, across

    def ratio(self, correlation: float) -> Floats:
        """That of the copula, scaled to the cells of the grid and to the margins.

        Far from the diagonal the copula has nothing but rounding errors; what the grid has there is spread by the
        margins.
        """
        rows, columns = self.shares
        independent = np.outer(rows, columns)
        normal = independent if correlation == 0 else tables(scores(rows), scores(columns), np.array([correlation]))[0]
        whole = np.maximum(normal, _LEAST_RATIO * independent)
        down, across = self.cells
        heights, widths = np.diff(down), np.diff(across)
        for _ in range(_SCALINGS):
            cells = sums(sums(whole, across).T, down).T
            whole = whole * np.repeat(np.repeat(over(self.table, cells), heights, axis=0), widths, axis=1)
            whole = with_margins(whole, rows, columns, 1)
        whole = with_margins(whole, rows, columns, _LAST_SCALINGS)
        return agreeing(self._over(whole, np.ones_like(independent)), rows, columns)

    def hidden(self, seen: Seen, ratio: Floats, correlation: float, reach: float) -> Floats:
        """What may be otherwise without a cell that shows it: the correlation, by its standard error, and bends."""
        low, high = (self.ratio(float(np.clip(correlation + end, -LARGEST, LARGEST))) for end in (-reach, reach))
        found = [(high - low)[None] / 2]
        if seen.ordered:
            bent = bends(seen, ratio * np.outer(*self.shares), self.cells)
            found.append(self._over(bent, np.zeros_like(bent)))
        return np.concatenate(found)

    def _over(self, tables: Floats, else_: Floats) -> Floats:
        """Tables as ratios to independence."""
        independent = np.outer(*self.shares)
        return np.divide(tables, independent, out=else_, where=independent > 0)


# Grids as they are -----------------------------------------------------------------------------------------------


def gridded(shape: Sequence[int], collected: Sequence[Collected], completion: str) -> Pairwise:
    """Norm-Sub and consistency, and response matrices in closed form (004 section 4.2 and 4.3)."""
    grids = [each.grid for each in collected]
    known = [each.value for each in collected if each.value is not None]
    level = [each.spread if np.isfinite(each.spread) else 1e6 for each in collected]
    found = processed(grids, known, level)
    by_grid = dict(zip([grid.attributes for grid in grids], zip(grids, found.tables, level, strict=True), strict=True))
    margins = tuple(_classic_margin(j, size, by_grid) for j, size in enumerate(shape))
    pairs = {}
    for j, k in combinations(range(len(shape)), 2):
        if (j, k) in by_grid:
            grid, table, variance = by_grid[j, k]
            cuts = np.array(grid.cuts[0]), np.array(grid.cuts[1])
            ratio = block_ratio(margins[j].value, margins[k].value, table, *cuts)
            pairs[j, k] = Pair(cuts, ratio, cuts, White(variance))
    return Pairwise(margins, pairs, completion)


def _classic_margin(j: int, size: int, by_grid: Mapping) -> Margin:
    """The marginal of the finest grid, with the covariance that consistency leaves.

    Sums over the intervals that all grids share have the variance of their weighted mean; what lies inside them, that
    of the finest grid alone.
    """
    held = [
        (np.array(grid.cuts[grid.attributes.index(j)]), table, variance, grid.attributes.index(j))
        for grid, table, variance in by_grid.values()
        if j in grid.attributes
    ]
    cuts, table, variance, axis = max(held, key=lambda each: (len(each[0]), -each[1].ndim))
    shares = np.maximum(table.sum(axis=tuple(other for other in range(table.ndim) if other != axis)), 0.0)
    common = held[0][0]
    for other, *_ in held:
        common = np.intersect1d(common, other)
    precision = 0.0
    for own, other, level, place in held:
        precision = precision + 1 / (np.diff(np.searchsorted(own, common)) * other.size / other.shape[place] * level)
    parts = np.diff(np.searchsorted(cuts, common))
    owner = np.repeat(np.arange(len(parts)), parts)
    inner = variance * table.size / table.shape[axis]
    same = owner[:, None] == owner
    covariance = inner * (np.eye(len(owner)) - same / parts[owner]) + same * (1 / precision / parts**2)[owner]
    whole = covariance.sum(axis=1)
    covariance -= np.outer(whole, whole) / max(whole.sum(), 1e-300)
    return Margin(spread(shares / shares.sum(), cuts), cuts, covariance)


def uniform(shape: Sequence[int]) -> Pairwise:
    """All records equally likely."""
    cuts = [np.array([0, size]) for size in shape]
    return Pairwise(
        tuple(Margin(np.full(size, 1 / size), cut, np.zeros((1, 1))) for size, cut in zip(shape, cuts, strict=True)), {}
    )
