"""The distribution of an attribute, from everything that was asked about it: smooth as far as the reports allow.

The shares of the cells are p = softmax(theta). Two kinds of evidence are put together: counts of a window mechanism,
with their multinomial likelihood, and sums of cells that were estimated with normal noise (the margins of grids).
Neither tells fine detail, so theta has a prior under which its differences of order o are small: normal, with
precision strength * |D_o theta|^2. Order 1 knows jumps, order 2 lines, order 3 parabolas of the log-density: with a
great strength the last is a normal distribution (Silverman 1982). Order 0 knows nothing of neighbours, and has its
spikes anywhere; it is the only one for an attribute without an order. It is left out where there are counts of a
window, which blurs spikes of noise and of users alike: the evidence would often prefer it, and it was the worst each
time.

**How smooth?** Every order and strength of a ladder is fitted (Newton's method, a concave problem up to the curvature
of the normal part) and weighted by its evidence, the probability of the reports under it, by Laplace's approximation:

    log evidence = log p(reports | theta^) + log prior(theta^) - log det(Hessian) / 2  (+ constants).

The estimate is the average with these weights. So is its covariance, that of the fits and of the fits among each other;
as it is a posterior one, what smoothing irons out is in it. The evidence is an approximation, and a flat density that
fits a little better does not rule out one with two peaks. So the covariance may take the weights by their root of some
order (`temper`). With fourth roots intervals about a density with two horns hold 79% in place of 48%, and where data
are smooth they are a third wider.

**Spikes.** Zeros, and numbers that people round to, are not smooth. With `spikes`, single cells and lattices (every
fifth or tenth cell) may be raised by a normal amount each, one after the other, as long as that is more probable than
not, where each of the m candidates is so with the odds 1 / m. They are looked for under smooth priors too: without
spikes a rough one fits best, under which they are nothing special. Every set that is found is fitted with all orders
and strengths, and is in the average by its evidence. On heaped numbers (two in five users round to tens, three in ten
to fives), asked in two phases, this halved the error of a marginal, and intervals held 96% in place of 76% (two seeds).

**Of whom?** The shares p are those from which users come. The users who reported differ from them by chance, and the
reports tell about them first: a user who sent y is in cell k with probability r_yk = P(y | k) p_k / p_y, independently
of the others. So the shares s of n users have, given p, the mean sum_y (c_y / n) r_y, which is one step of EM, and the
covariance (diag(s) - sum_y (c_y / n) r_y r_y') / n. `of_users` puts the posterior of p on top by the step's slope, and
adds users who were not asked, who are drawn from p. With p instead of s, a quarter of the intervals miss where
p is smooth and everybody is seen well (epsilon 4, 64 bins).

With 128 cells this takes .2 to .4 s, however many users there are; docs/decisions/0019-one-smoother.md compares it with
EM with smoothing, whose errors are larger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.estimation.output_counts import OutputCounts

Floats = NDArray[np.float64]

ORDERS = (0, 1, 2, 3)
STRENGTHS = tuple(float(strength) for strength in np.geomspace(1e-2, 1e6, 9))
_RIDGE = 1e-4  # theta is anything up to hundreds: this only makes the prior one that can be normalised
_MOST_STEPS = 40
_FLAT = 1e-2  # of log-posterior, gained by a step
_LONGEST = 4.0  # of theta in a step
_NEGLIGIBLE = 1e-4  # weight of a fit
_MOST_HEARD = 2.0**40  # reports: with more, nothing of the prior is left in a float
# Standard deviation of a spike of log-density. At half and twice of it errors of range queries are .6 and .9% larger
# (`python benchmarks/constants.py estimation.density._HEIGHT`).
_HEIGHT = 2.0
_LATTICES = (5, 10)  # people round to these
_MOST_SPIKES, _SEARCHED = 24, 2
_SHARPEST = 2.0**38  # precision of a sum, times the squared share of a cell: the same


class NoisySums(NamedTuple):
    """Estimated sums of cells: `rows @ shares` with independent normal errors of these variances."""

    rows: Floats
    value: Floats
    variance: Floats


class Shares(NamedTuple):
    """The shares of the cells, the covariance of their errors, and the logarithm of how probable the reports are.

    The last is for comparing cells that were cut in different ways, by the same reports.
    """

    value: Floats
    covariance: Floats
    evidence: float = 0.0


def smoothed(
    cells: int,
    heard: OutputCounts | None,
    summed: Sequence[NoisySums],
    *,
    ordered: bool = True,
    strengths: Sequence[float] = STRENGTHS,
    spikes: bool = False,
    temper: float = 1.0,
) -> Shares:
    """The shares of `cells` cells: an average over orders and strengths, from the least, by their evidence.

    `spikes` looks for cells, and for lattices of cells, that hold more than what is smooth tells. In the covariance the
    evidence counts by its root of the order `temper`.

    >>> seen = NoisySums(np.eye(4), np.array([0.1, 0.4, 0.4, 0.1]), np.full(4, 1e-6))
    >>> found = smoothed(4, None, [seen])
    >>> found.value.round(2).tolist(), float(found.covariance.sum().round(6))
    ([0.1, 0.4, 0.4, 0.1], 0.0)
    """
    evidence = _Evidence.of(cells, heard, summed)
    orders = _orders(cells, heard, ordered)
    fits = _ladder(evidence, cells, orders, strengths, ())
    if spikes and ordered:
        # Without spikes a rough prior fits best, under which they are nothing special: so they are looked for in all.
        searched = {_spiked(evidence, cells, fit) for fit in fits[::_SEARCHED]}
        for found in sorted(searched - {()}):
            fits += _ladder(evidence, cells, orders, strengths, found)
    return _averaged(fits, cells, temper)


class _Fit(NamedTuple):
    """The fit of one prior: its evidence, where its maximum is, the shares, and the curvature by theta."""

    score: float
    theta: Floats
    shares: Floats
    hessian: Floats
    order: int
    strength: float
    spikes: tuple[int, ...]


def _ladder(
    evidence: "_Evidence", cells: int, orders: Sequence[int], strengths: Sequence[float], spikes: tuple[int, ...]
) -> list[_Fit]:
    """Every order and strength, with these spikes."""
    fits = []
    for order in orders:
        theta = np.zeros(cells)
        for strength in reversed(strengths):  # from the smoothest, each starts where the last one ended
            fits.append(_fitted(evidence, theta, order, strength, spikes))
            theta = fits[-1].theta
    return fits


def _fitted(evidence: "_Evidence", theta: Floats, order: int, strength: float, spikes: tuple[int, ...]) -> _Fit:
    cells = len(theta)
    precision, log_determinant = _spiked_prior(cells, order, strength, spikes)
    found, score, shares, hessian = evidence.fit(theta, precision)
    odds = len(spikes) * np.log(_odds(cells))
    return _Fit(score + log_determinant / 2 + odds, found, shares, hessian, order, strength, spikes)


def _averaged(fits: Sequence[_Fit], cells: int, temper: float) -> Shares:
    """The shares by the evidence of each fit, and what is open about them by its root of the order `temper`."""
    scores = np.array([fit.score for fit in fits])
    kept, total = _kept(scores, fits)
    evidence = float(scores.max() + np.log(np.exp(scores - scores.max()).mean()))
    value = np.asarray(sum(weight * fit.shares for weight, fit in kept) / total)
    spread, (kept, total) = np.zeros((cells, cells)), _kept(scores / temper, fits)
    for weight, fit in kept:
        jacobian, apart = np.diag(fit.shares) - np.outer(fit.shares, fit.shares), fit.shares - value
        spread += weight * (jacobian @ np.linalg.solve(fit.hessian, jacobian) + np.outer(apart, apart))
    return Shares(value, spread / total, evidence)


def _kept(scores: Floats, fits: Sequence[_Fit]) -> tuple[list[tuple[float, _Fit]], float]:
    """The fits that count, by their weights, and the sum of these."""
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    kept = [(float(weight), fit) for weight, fit in zip(weights, fits, strict=True) if weight > _NEGLIGIBLE]
    return kept, sum(weight for weight, _ in kept)


# Spikes ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _candidates(cells: int) -> Floats:
    """Where spikes may be, a row each: at one cell, or at all cells of a lattice."""
    lattices = [np.arange(cells) % step == first for step in _LATTICES if cells >= 3 * step for first in range(step)]
    return np.concatenate([np.eye(cells), np.array(lattices, dtype=np.float64).reshape(-1, cells)])


def _odds(cells: int) -> float:
    return 1 / len(_candidates(cells))


@lru_cache(maxsize=256)
def _spiked_prior(cells: int, order: int, strength: float, spikes: tuple[int, ...]) -> tuple[Floats, float]:
    """The precision of theta where these candidates are added, each times a normal number; and its log-determinant."""
    precision, log_determinant = _prior(cells, order, strength)
    if not spikes:
        return precision, log_determinant
    rows = _candidates(cells)[list(spikes)]
    held = rows @ precision
    inner = held @ rows.T + np.eye(len(rows)) / _HEIGHT**2  # Woodbury's identity
    less = held.T @ np.linalg.solve(inner, held)
    return precision - less, log_determinant - float(np.linalg.slogdet(inner * _HEIGHT**2)[1])


def _spiked(evidence: "_Evidence", cells: int, best: _Fit) -> tuple[int, ...]:
    """One spike after the other, each where it explains most, as long as they are more probable than not.

    At the maximum the slope of the log-likelihood by theta is P theta, with the prior's precision P and the curvature H
    of both together. A spike v of a normal height with variance h^2 then gains about

        ((v' P theta)^2 / (c + h^-2) - log(1 + h^2 c)) / 2,   c = v' P v - v' P H^-1 P v.
    """
    rows, fit = _candidates(cells), best
    for _ in range(_MOST_SPIKES):
        precision, _ = _spiked_prior(cells, fit.order, fit.strength, fit.spikes)
        held = rows @ precision
        sharp = np.einsum("rk,rk->r", held, rows) - np.einsum("rk,rk->r", held, np.linalg.solve(fit.hessian, held.T).T)
        sharp = np.maximum(sharp, 0.0)
        gain = ((held @ fit.theta) ** 2 / (sharp + _HEIGHT**-2) - np.log1p(_HEIGHT**2 * sharp)) / 2
        gain[list(fit.spikes)] = -np.inf
        where = int(gain.argmax())
        if gain[where] < -np.log(_odds(cells)):
            break
        tried = _fitted(evidence, fit.theta, fit.order, fit.strength, tuple(sorted((*fit.spikes, where))))
        if tried.score < fit.score:
            break
        fit = tried
    return fit.spikes


def of_users(found: Shares, heard: OutputCounts, asked: float = 1.0) -> Shares:
    """The shares of the users themselves, of whom a share was asked; `found` is where they come from.

    >>> seen = OutputCounts(np.array([60.0, 40.0]), np.array([[0.999, 0.001], [0.001, 0.999]]))
    >>> drawn = smoothed(2, seen, [])
    >>> users = of_users(drawn, seen)
    >>> users.value.round(2).tolist(), bool(users.covariance[0, 0] < drawn.covariance[0, 0] / 10)
    ([0.6, 0.4], True)
    """
    p, n = found.value, heard.n
    chance = heard.chance(p)
    seen = heard.counts / n
    cells_of = heard.law * (p / chance[:, None])  # where users are, by what they sent
    reported = seen @ cells_of
    slope = np.diag(heard.factors(chance)) - cells_of.T @ (heard.law * (seen / chance)[:, None])
    told = np.diag(reported) - cells_of.T @ (cells_of * seen[:, None])
    others = np.diag(p) - np.outer(p, p)
    moved = asked * slope + (1 - asked) * np.eye(len(p))
    covariance = moved @ found.covariance @ moved.T + asked / n * (asked * told + (1 - asked) * others)
    return Shares(asked * reported + (1 - asked) * p, covariance)


def _orders(cells: int, heard: OutputCounts | None, ordered: bool) -> list[int]:
    """Order 0 where there is no order, or where cells are told one by one: a window cannot tell spikes from noise."""
    if not ordered:
        return [0]
    return [order for order in ORDERS if order < cells and (order or heard is None)]


@lru_cache(maxsize=256)
def _prior(cells: int, order: int, strength: float) -> tuple[Floats, float]:
    """The precision of theta, and the logarithm of its determinant. Strengths mean the same for any number of cells."""
    differences = np.diff(np.eye(cells), order, axis=0) if order else np.eye(cells)
    scale = (cells / 64) ** (2 * order - 1) * 16.0 ** (order - 2) if order else 1e-2
    precision = strength * scale * differences.T @ differences + _RIDGE * np.eye(cells)
    return precision, float(np.linalg.slogdet(precision)[1])


@dataclass(frozen=True, eq=False)
class _Evidence:
    """What the reports say: a log-likelihood of the shares, and the curvature of it."""

    heard: OutputCounts | None
    n: float
    rows: Floats
    value: Floats
    precision: Floats
    curvature: Floats  # of the normal part

    @classmethod
    def of(cls, cells: int, heard: OutputCounts | None, summed: Sequence[NoisySums]) -> "_Evidence":
        known = [each for each in summed if np.isfinite(each.variance).all()]
        rows = np.concatenate([np.zeros((0, cells)), *(each.rows for each in known)])
        value = np.concatenate([np.zeros(0), *(each.value for each in known)])
        precision = 1 / np.concatenate([np.zeros(0), *(each.variance for each in known)])
        precision = np.minimum(precision, _SHARPEST * cells**2)
        asked = heard if heard is not None and heard.n else None
        if asked is not None and asked.n > _MOST_HEARD:  # then as if it were so many: errors are stated too large
            asked = asked._replace(counts=asked.counts * (_MOST_HEARD / asked.n))
        n = 0.0 if asked is None else asked.n
        return cls(asked, n, rows, value, precision, (rows.T * precision) @ rows)

    def likelihood(self, shares: Floats) -> float:
        apart = self.rows @ shares - self.value
        found = -0.5 * float(self.precision @ apart**2)
        return found if self.heard is None else found + self.heard.log_likelihood(shares)

    def slope(self, shares: Floats) -> tuple[Floats, Floats]:
        """The derivative of the log-likelihood by the shares, and its expected curvature."""
        slope = self.rows.T @ (self.precision * (self.value - self.rows @ shares))
        if self.heard is None:
            return slope, self.curvature
        chance = self.heard.chance(shares)
        scaled = self.heard.law * np.sqrt(self.n / chance)[:, None]
        return slope + self.n * self.heard.factors(chance), self.curvature + scaled.T @ scaled

    def fit(self, theta: Floats, precision: Floats) -> tuple[Floats, float, Floats, Floats]:
        """The maximum of the posterior from `theta`: where, its score, the shares, and the curvature by theta."""
        shares = _softmax(theta)
        score = self.likelihood(shares) - 0.5 * float(theta @ precision @ theta)
        for _ in range(_MOST_STEPS):
            slope, curvature = self.slope(shares)
            hessian = _pulled(curvature, shares) + precision
            step = np.linalg.solve(hessian, shares * (slope - shares @ slope) - precision @ theta)
            length = min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-12))
            while True:
                moved = theta + length * step
                found = _softmax(moved)
                better = self.likelihood(found) - 0.5 * float(moved @ precision @ moved)
                if better >= score or length < 1e-3:
                    break
                length /= 2
            gained, theta, shares, score = better - score, moved, found, better
            if gained < _FLAT:
                break
        hessian = _pulled(self.slope(shares)[1], shares) + precision
        return theta, score - 0.5 * float(np.linalg.slogdet(hessian)[1]), shares, hessian


def _softmax(theta: Floats) -> Floats:
    raised = np.exp(theta - theta.max())
    return raised / raised.sum()


def _pulled(curvature: Floats, shares: Floats) -> Floats:
    """The curvature by theta: J C J with J = diag(p) - p p', without a product of matrices."""
    left = shares[:, None] * (curvature - shares @ curvature)
    return (left - (left @ shares)[:, None]) * shares
