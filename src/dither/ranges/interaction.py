"""How a pair of attributes departs from independence, as far as the noise allows to see it.

A grid of a pair tells, apart from its margins, (g - 1)^2 numbers with white noise of variance V each. Taking them as
they are is what makes grid methods bad at a small epsilon, and throwing them away is what makes a product of marginals
bad on correlated data. Here they are believed in two steps, each exactly as far as the reports of *all* pairs together
support it (empirical Bayes):

1. **One number a pair.** Most of what pairs do is described by the correlation of a normal copula. Its likelihood is
   that of the grid, with the margins taken out. The correlations of all pairs have a normal prior, whose mean and
   spread are averaged over by their evidence: where the noise allows to see nothing, all correlations go to their
   mean, or to zero; where it does not matter, they are left alone.
2. **The rest.** What the copula leaves over in cell IJ has a normal prior with variance tau^2 w_IJ, where w is the mass
   the cell would have (between copula and independence), given that rows and columns add up to nothing. Or the pair is
   two clusters: independent but for its halves, of which one number says how they go together, with a prior of mean 0
   and variance 1, and a little left over. How large tau is, and which of both it is, is a mixture over a ladder that is
   fitted to all pairs (Laird 1978): pairs that are normal copulas keep nothing of their noise, pairs that are not keep
   what they have. Without the clusters a copula is taken for them, and inside of each it has a correlation that is not
   there. Both explain a grid of two clusters, and neither may have an advantage that it does not deserve: the
   correlation was fitted, which is taken off its evidence; and two clusters need margins that have two humps
   (`two_humps`). Errors of two clusters in one phase are half of what they were without it
   (docs/decisions/0062-bent-and-split-pairs.md).

Both steps state what they leave open, as the posterior does, and answers have it in their error bars. How large tau is,
and how far correlations lie from each other, counts there by a root of its evidence (`_TEMPER`), since all pairs
together may be surer than they should be. And half of the error bar is a sceptic's, who takes every pair to depart from
its copula by `_HIDDEN`, whatever the evidence: what noise hides is part of the interval. Where the sceptic's table lies
off the one that is believed, it does so for all pairs in the same way, so that this part adds up (`Rest.lean`). What
lies inside cells is left to `inside_cells`.

**Several grids.** A pair may have been asked in several phases, by grids with different cuts. Its cells are then those
between all of these cuts, and each grid tells sums over some of them. Everything else is the same: what the copula puts
into a grid's cells is a sum, and so is what it leaves over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.estimation.normal_copula import LARGEST, scores, slope, tables

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_COARSE = np.sin(np.linspace(-1.32, 1.32, 41))
_APART = 0.07  # at most, of two coarse ones
_CLOSE = np.linspace(-4.0, 4.0, 21)  # standard errors around the best
_STEPS = 6
_MEANS = np.linspace(-0.8, 0.8, 9)
_SPREADS = np.geomspace(0.005, 2.0, 9)
_ENOUGH_PAIRS = 3  # to speak of their mean
_LADDER = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 13)])
_SPLIT_LADDER = np.array([0.0, 0.03, 0.1])  # of what two clusters leave over: more is anything
# Of pairs are two clusters, as long as no pair tells. Half or twice of it changes errors by .03%
# (`python benchmarks/constants.py ranges.interaction._CLUSTERED`).
_CLUSTERED = 0.05
# Of the evidence, in what is left open. It hardly matters: at half and twice of it intervals about two attributes hold
# 97.0 and 97.3%, and errors are stated 2% smaller and 1% larger (`python benchmarks/constants.py
# ranges.interaction._TEMPER`).
_TEMPER = 16.0
# How far any pair may be from its copula unseen (as tau), and which part of its error bar says so in any case.
# Calibrated on populations that no benchmark judges by (`python benchmarks/constants.py ranges.interaction._HIDDEN`).
_HIDDEN, _SCEPTICAL = 0.7, 0.5
_ROUNDS = 100
_LEAST = 1e-2  # of what the copula puts into a cell is left
_TINY = 1e-9
_SPLIT = 4  # cells along a side that can be put together two by two
# The variance of how far a copula is to be trusted, before the grid is looked at. Chosen by simulation:
# half or twice of it changes errors by .3% (`python benchmarks/constants.py ranges.interaction._BELIEF`).
_BELIEF = 0.1


@dataclass(frozen=True, eq=False)
class SeenGrid:
    """The cells of one grid as estimated, and their variance; where its cuts are among the cells of the pair."""

    value: Floats
    variance: float
    down: Places
    across: Places

    @property
    def told(self) -> bool:
        """Whether anybody answered."""
        return bool(np.isfinite(self.variance))

    def summed(self, tables: Floats) -> Floats:
        """Tables of the pair's cells on those of the grid."""
        return np.add.reduceat(np.add.reduceat(tables, self.down[:-1], axis=-2), self.across[:-1], axis=-1)

    @cached_property
    def contrasts(self) -> Floats:
        """What it tells beyond its margins, a row each, in coordinates of the tables of the pair (`_Ladder`)."""
        sides = []
        for places in (self.down, self.across):
            held = np.repeat(np.eye(len(places) - 1), np.diff(places), axis=1)
            sides.append(_contrasts(len(places) - 1).T @ held @ _contrasts(int(places[-1])))
        return np.asarray(np.kron(*sides), dtype=np.float64)

    def left(self, table: Floats) -> Floats:
        """What it tells beyond its margins that a table of the pair's cells does not, an entry for each contrast."""
        apart = self.value - self.summed(table)
        return np.ravel(_contrasts(apart.shape[0]).T @ apart @ _contrasts(apart.shape[1]))


@dataclass(frozen=True, eq=False)
class Seen:
    """A pair: the marginal shares of its rows and columns, and the grids that tell about its cells.

    `apart` says how far both attributes look like two clusters, from 0 to 1 (`two_humps`).
    """

    rows: Floats
    columns: Floats
    grids: tuple[SeenGrid, ...]
    ordered: bool = True
    apart: float = 1.0

    @classmethod
    def of_grid(cls, rows: Floats, columns: Floats, value: Floats, variance: float, ordered: bool = True) -> "Seen":
        """Of one grid that has just these cells."""
        grid = SeenGrid(value, variance, np.arange(len(rows) + 1), np.arange(len(columns) + 1))
        return cls(rows, columns, (grid,), ordered)

    @cached_property
    def scores(self) -> tuple[Floats, Floats]:
        """Normal quantiles at the cuts."""
        return scores(self.rows), scores(self.columns)

    @property
    def told(self) -> bool:
        """Whether anybody answered."""
        return any(grid.told for grid in self.grids)

    @cached_property
    def answered(self) -> tuple[SeenGrid, ...]:
        """The grids about which somebody did."""
        return tuple(grid for grid in self.grids if grid.told)

    def precision(self, one: Floats, other: Floats) -> float:
        """Of what the grids tell, beyond margins, about two directions in which the table may move."""
        return sum(
            float((interaction_of(grid.summed(one)) * grid.summed(other)).sum()) / grid.variance
            for grid in self.answered
        )

    def pull(self, direction: Floats, base: Floats) -> float:
        """How much they want the table to move from a base into a direction."""
        return sum(
            float((interaction_of(grid.summed(direction)) * (grid.value - grid.summed(base))).sum()) / grid.variance
            for grid in self.answered
        )

    def misfit(self, table: Floats) -> tuple[float, int]:
        """The squares of what a table does not explain, in standard errors; and of how many numbers."""
        told = self.answered
        squares = (float((grid.left(table) ** 2).sum()) / grid.variance for grid in told)
        return sum(squares), sum(len(grid.contrasts) for grid in told)

    def base(self, correlation: float) -> Floats:
        """What the copula puts into the cells."""
        return tables(*self.scores, np.array([correlation]))[0]


class Correlations(NamedTuple):
    """Of each pair, with a standard error; and how far they lie from each other, as a standard deviation."""

    value: Floats
    stderr: Floats
    spread: float = 0.0


class Rest(NamedTuple):
    """A pair's table after both steps, and what is left open about it: tables with independent factors.

    `lean` is where the table would go if the pair departed from its copula as a sceptic takes it to: one number of
    variance one says how far, and it is the same for all pairs. `unsplit` is how likely it is not two clusters.
    """

    table: Floats
    factors: Floats
    lean: Floats
    unsplit: float


# One number a pair -----------------------------------------------------------------------------------------------


def correlations(pairs: Sequence[Seen]) -> Correlations:
    """The correlations of the normal copulas of all pairs; zero for attributes without an order."""
    value, stderr = np.zeros(len(pairs)), np.zeros(len(pairs))
    known = [number for number, pair in enumerate(pairs) if pair.ordered and pair.told]
    if not known:
        return Correlations(value, stderr)
    curves = [_curve(pairs[number]) for number in known]
    means = np.concatenate([[0.0], _MEANS[_MEANS != 0]]) if len(known) >= _ENOUGH_PAIRS else np.zeros(1)
    odds = np.where(means == 0, 1.0, 1.0 / max(1, len(means) - 1))  # no common mean is as likely as any
    evidence = np.zeros((len(means), len(_SPREADS)))
    first, second = (np.zeros((len(known), *evidence.shape)) for _ in range(2))
    for number, (nodes, widths, curve) in enumerate(curves):
        prior = -0.5 * ((nodes - means[:, None, None]) / _SPREADS[:, None]) ** 2
        prior = np.exp(prior) * widths
        prior /= prior.sum(axis=-1, keepdims=True)
        weight = prior * np.exp(curve - curve.max())
        total = np.maximum(weight.sum(axis=-1), 1e-300)
        evidence += np.log(total)
        first[number], second[number] = (weight @ nodes) / total, (weight @ nodes**2) / total
    chance, doubtful = (np.exp((evidence - evidence.max()) / root) * odds[:, None] for root in (1.0, _TEMPER))
    value[known] = (first * chance).sum(axis=(1, 2)) / chance.sum()
    apart = second - 2 * first * value[known, None, None] + value[known, None, None] ** 2
    stderr[known] = np.sqrt(np.maximum((apart * doubtful).sum(axis=(1, 2)) / doubtful.sum(), 0.0))
    spread = float(np.sqrt(np.minimum(_SPREADS**2, 1.0) @ chance.sum(axis=0) / chance.sum()))
    return Correlations(value, stderr, spread)


def _curve(pair: Seen) -> tuple[Floats, Floats, Floats]:
    """Correlations, the part of the line that each stands for, and their log-likelihood: finer around its maximum."""
    rough = _fit(pair, _COARSE)
    best, reach = _peak(pair, float(_COARSE[rough.argmax()]))
    around = best + _CLOSE * reach
    close = around[np.abs(around) < LARGEST]
    nodes = np.concatenate([_COARSE, close])
    order = np.argsort(nodes)
    nodes, likelihood = nodes[order], np.concatenate([rough, _fit(pair, close)])[order]
    edges = np.concatenate([[-LARGEST], (nodes[1:] + nodes[:-1]) / 2, [LARGEST]])
    return nodes, np.maximum(np.diff(edges), 0.0), likelihood


def _peak(pair: Seen, near: float) -> tuple[float, float]:
    """The most likely correlation, by Gauss-Newton steps from one near to it, and its standard error."""
    best, reach = near, 0.0
    for _ in range(_STEPS):
        towards = slope(*pair.scores, best)
        sharp = _TINY + pair.precision(towards, towards)
        reach, step = 1 / float(np.sqrt(sharp)), pair.pull(towards, pair.base(best)) / sharp
        if reach > _APART:  # the coarse ones are close enough
            break
        best = float(np.clip(best + step, max(near - _APART, -LARGEST), min(near + _APART, LARGEST)))
        if abs(step) < reach / 10:
            break
    return best, reach


def _fit(pair: Seen, nodes: Floats) -> Floats:
    if not len(nodes):
        return np.zeros(0)
    expected, found = tables(*pair.scores, nodes), np.zeros(len(nodes))
    for grid in pair.answered:
        apart = interaction_of(grid.value - grid.summed(expected))
        found -= 0.5 * (apart**2).sum(axis=(1, 2)) / grid.variance
    return found


def interaction_of(table: Floats) -> Floats:
    """Without the means of rows and of columns."""
    rows, columns = table.mean(axis=-1, keepdims=True), table.mean(axis=-2, keepdims=True)
    return table - rows - columns + table.mean(axis=(-1, -2), keepdims=True)


# The rest --------------------------------------------------------------------------------------------------------


class _Ladder(NamedTuple):
    """What each rung makes of a pair, in coordinates of the tables whose rows and columns add up to nothing."""

    coordinates: Floats  # a column for each
    means: Floats  # (rungs, coordinates), from the copula
    covariances: Floats
    evidence: Floats


def rests(pairs: Sequence[Seen], bases: Sequence[Floats], moves: Sequence[Floats] | None = None) -> list[Rest]:
    """The tables of all pairs, from what the copula puts into their cells (`bases`) and what was seen.

    `moves` is by how much the copula would move if its correlation were higher by as much as correlations differ; none
    if it was given. It was chosen to fit, and this is taken off the evidence for it.
    """
    moves = [np.zeros_like(base) for base in bases] if moves is None else moves
    found = [_ladder(*each) for each in zip(pairs, bases, moves, strict=True)]
    evidence = np.array([each.evidence for each in found])
    chance = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    expected = np.repeat([1 - _CLUSTERED, _CLUSTERED], [len(_LADDER), len(_SPLIT_LADDER)])
    expected /= np.repeat([len(_LADDER), len(_SPLIT_LADDER)], [len(_LADDER), len(_SPLIT_LADDER)])
    mixture, posterior = expected, chance * expected
    posterior /= posterior.sum(axis=1, keepdims=True)
    for _ in range(_ROUNDS):
        mixture = (posterior.sum(axis=0) + expected) / (len(pairs) + 1)
        posterior = chance * mixture
        posterior /= posterior.sum(axis=1, keepdims=True)
    tempered = _tempered(evidence, mixture)
    return [_rest(*each) for each in zip(pairs, bases, found, posterior, tempered, strict=True)]


def _tempered(evidence: Floats, mixture: Floats) -> Floats:
    """How likely each rung is for each pair, with less faith in its evidence, and in that of the other pairs."""
    chance = np.exp((evidence - evidence.max(axis=1, keepdims=True)) / _TEMPER) * mixture ** (1 / _TEMPER)
    return chance / chance.sum(axis=1, keepdims=True)


def _ladder(pair: Seen, base: Floats, move: Floats) -> _Ladder:
    """Around the copula anything; and around independence a difference of halves, and a little of anything."""
    sides = [_contrasts(size) for size in base.shape]
    coordinates = np.asarray(np.kron(*sides), dtype=np.float64)
    independent = np.outer(pair.rows, pair.columns)
    anything = coordinates.T @ _free((base + independent) / 2) @ coordinates
    halves = np.kron(sides[0].T @ (pair.rows * _halves(pair.rows)), sides[1].T @ (pair.columns * _halves(pair.columns)))
    smooth = _climbed(pair, base, (_LADDER**2)[:, None, None] * anything)
    split = _climbed(pair, independent, np.outer(halves, halves) + (_SPLIT_LADDER**2)[:, None, None] * anything)
    beyond = coordinates.T @ np.ravel(independent - base)
    smooth[2][:] -= np.log1p(pair.precision(move, move)) / 2  # a number of variance one was fitted
    means, covariances, evidence = (np.concatenate(both) for both in zip(smooth, split, strict=True))
    means[len(_LADDER) :] += beyond
    possible = pair.apart if pair.ordered and pair.told else 0.0  # there are no halves, or nobody spoke of them
    evidence[len(_LADDER) :] += np.log(possible) if possible else -np.inf
    return _Ladder(coordinates, means, covariances, evidence)


def _free(mass: Floats) -> Floats:
    """The covariance of cells with these variances, given that rows and columns add up to nothing."""
    (rows, columns), weight = mass.shape, mass.ravel()
    lines = np.concatenate(
        [np.kron(np.eye(rows), np.ones(columns)), np.kron(np.ones(rows), np.eye(columns))[:-1]]
    )  # sums along rows and columns; the last follows from the others
    held = lines * weight
    return np.asarray(np.diag(weight) - held.T @ np.linalg.lstsq(held @ lines.T, held, rcond=None)[0])


def middle(shares: Floats) -> int:
    """The last cell below the cut that is nearest to the median."""
    return int(np.abs(np.cumsum(shares)[:-1] - 0.5).argmin())


def _halves(shares: Floats) -> Floats:
    """One number below the cut that is nearest to the median and one above it, with mean 0 and variance 1."""
    below, cut = np.cumsum(shares)[:-1], middle(shares)
    low = min(max(float(below[cut]), _TINY), 1 - _TINY)
    upper = np.arange(len(shares)) > cut
    return np.where(upper, np.sqrt(low / (1 - low)), -np.sqrt((1 - low) / low))


def two_humps(shares: Floats, cut: int) -> float:
    """How far an attribute looks like two clusters, below a cut and from it on: from 0 to 1.

    Inside the halves of users who are spread evenly is a quarter of their variance, of normal ones more than a third.
    With two clusters it is less.
    """
    places, inside = np.arange(len(shares)), 0.0
    for half in (slice(None, cut), slice(cut, None)):
        inside += _variance(places[half], shares[half])
    return max(0.0, 1 - 4 * inside / max(_variance(places, shares), _TINY))


def _variance(places: Places, shares: Floats) -> float:
    """Of places, times the shares in them."""
    mass = float(shares.sum())
    return float(shares @ (places - shares @ places / max(mass, _TINY)) ** 2)


def _climbed(pair: Seen, start: Floats, prior: Floats) -> tuple[Floats, Floats, Floats]:
    """For each prior covariance of what is beyond a table: the posterior mean, its covariance, and the evidence.

    With prior P and precision H of what was seen the posterior has the covariance (1 + P H)^-1 P.
    """
    size, apart = prior.shape[1], 0.0
    precision, pull = np.zeros((size, size)), np.zeros(size)
    for grid in pair.answered:
        own, left = grid.contrasts, grid.left(start)
        precision += own.T @ own / grid.variance
        pull += own.T @ left / grid.variance
        apart += float(left @ left) / grid.variance
    spread = np.eye(size) + prior @ precision
    covariances = np.linalg.solve(spread, prior)
    means = covariances @ pull
    evidence = -0.5 * (np.linalg.slogdet(spread)[1] - means @ pull + apart)
    return means, np.asarray(covariances, dtype=np.float64), evidence


def _rest(pair: Seen, base: Floats, ladder: _Ladder, posterior: Floats, tempered: Floats) -> Rest:
    """The mean by the posterior of the rungs. What is open is half by a tempered one, and half by a sceptic's."""
    mean = posterior @ ladder.means
    apart = ladder.means - mean
    sceptic = int(np.abs(_LADDER - _HIDDEN).argmin())
    believed = (1 - _SCEPTICAL) * tempered
    covariance = np.einsum("t,tij->ij", believed, ladder.covariances) + (apart.T * believed) @ apart
    covariance += _SCEPTICAL * ladder.covariances[sceptic]
    lean = np.sqrt(_SCEPTICAL) * (ladder.coordinates @ apart[sceptic]).reshape(base.shape)
    table = base + (ladder.coordinates @ mean).reshape(base.shape)
    factors = (ladder.coordinates @ _root(covariance)).T.reshape(-1, *base.shape)
    unsplit = float(posterior[: len(_LADDER)].sum())
    return Rest(with_margins(np.maximum(table, _LEAST * base), pair.rows, pair.columns), factors, lean, unsplit)


def _root(covariance: Floats) -> Floats:
    """R with R R' = covariance, which may be singular."""
    even = (covariance + covariance.T) / 2
    values, vectors = np.linalg.eigh(even)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)), dtype=np.float64)


@lru_cache(maxsize=64)
def _contrasts(count: int) -> Floats:
    """Orthonormal columns that each add up to nothing: entry i against the mean of those before it (Helmert)."""
    found = np.zeros((count, count - 1))
    for column in range(1, count):
        found[:column, column - 1], found[column, column - 1] = -1.0, column
        found[:, column - 1] /= np.sqrt(column * (column + 1.0))
    return found


class Trust(NamedTuple):
    """How far the copula is to be trusted inside cells, from 0, for independence, to 1; and its standard error."""

    value: float
    stderr: float


def trusted(pair: Seen, base: Floats, rest: Rest) -> Trust:
    """How far the copula is to be trusted inside the cells of a grid.

    The grid itself tells. Put together two by two, its cells make a coarser one; inside those the copula says one thing
    and independence another, and what was seen lies nearer to one of them. Where the noise hides it, it is trusted as
    far as it explains what lies between cells, and as it is likely that these are no two clusters.
    """
    table = rest.table
    beyond, all_ = (float(np.abs(table - other).sum()) for other in (base, np.outer(pair.rows, pair.columns)))
    prior = rest.unsplit * (1 - beyond / max(all_, beyond, _TINY))
    finest = max(pair.answered, key=lambda grid: grid.value.size, default=None)
    if finest is None or min(finest.value.shape) < _SPLIT:
        return Trust(prior, _BELIEF**0.5)
    table, base, independent = map(finest.summed, (table, base, np.outer(pair.rows, pair.columns)))
    guesses = [_inside_coarse(like, table, independent) for like in (base, independent)]
    apart = interaction_of(guesses[0] - guesses[1])
    size = float((apart**2).sum())
    if size < _TINY:
        return Trust(prior, _BELIEF**0.5)
    nearer = float((interaction_of(finest.value - guesses[1]) * apart).sum()) / size
    weight = _BELIEF / (_BELIEF + finest.variance / size)
    return Trust(float(np.clip(prior + weight * (nearer - prior), 0.0, 1.0)), (_BELIEF * (1 - weight)) ** 0.5)


def _inside_coarse(like: Floats, table: Floats, independent: Floats) -> Floats:
    """A table that has the sums of another one over two by two cells, and inside them is like a third."""
    rows, columns = np.arange(0, table.shape[0], 2), np.arange(0, table.shape[1], 2)

    def coarse(cells: Floats) -> Floats:
        return np.add.reduceat(np.add.reduceat(cells, rows, axis=0), columns, axis=1)

    found, margins = like, (independent.sum(axis=1), independent.sum(axis=0))
    for _ in range(4):
        scale = over(coarse(table), coarse(found))
        found = found * scale.repeat(2, axis=0).repeat(2, axis=1)[: table.shape[0], : table.shape[1]]
        found = with_margins(found, *margins, 1)
    return found


def with_margins(table: Floats, rows: Floats, columns: Floats, rounds: int = 30) -> Floats:
    """Scaled along rows and columns until it has these sums, nearly."""
    for _ in range(rounds):
        table = table * over(rows, table.sum(axis=1))[:, None]
        table = table * over(columns, table.sum(axis=0))
    return table


def agreeing(ratio: Floats, rows: Floats, columns: Floats) -> Floats:
    """Ratios to independence, moved so that the table has exactly these sums along rows and columns.

    What scaling has left is added along rows and columns: sums of answers are then exact, whatever the tables are.

    >>> agreeing(np.array([[1.5, 0.6], [0.5, 1.4]]), np.full(2, 0.5), np.full(2, 0.5)).round(3).tolist()
    [[1.45, 0.55], [0.55, 1.45]]
    """
    down, across = ratio @ columns, rows @ ratio
    return ratio + (1 - down)[:, None] + (1 - across) - (1 - rows @ down)


def over(above: Floats, below: Floats) -> Floats:
    """Their quotient, and nothing where there is nothing to divide by."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
