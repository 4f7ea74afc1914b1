"""From counts of outputs to shares of cells: likelihood by EM, and EM with smoothing, for the window mechanisms.

**The model.** The interval is cut into equal cells, and inside a cell all values are equally likely. In units of
the lattice a value x lies in [0, J]. It is rounded to a lattice point at random and sends one of M outputs.
Rounding keeps the mean of whatever is a line between lattice points, and clip(Y - i, 0, w) is, so at every whole
number Y

    P(output < Y | x) = b Y + (a - b) clip(Y - x, 0, w):

the window of the papers on the continuum, rounded down. Its average over a cell is a quadratic, so P(y | cell) has a
closed form. Beyond 2,048 outputs neighbours are read in groups, which are far narrower than what can be seen.

**EM** takes shares f to f_k D_k, with D_k = sum_y (c_y / n) P(y | k) / p(y) and p = sum_k f_k P(. | k). The
likelihood never falls, and as it is concave, it is at most n (max_k D_k - 1) below its maximum: the `gap`, on which
EM stops. Steps are lengthened (squared extrapolation, Varadhan and Roland 2008) where that does not cost
likelihood.

**What goes wrong with EM.** The likelihood hardly sees fine detail, so its maximum is a row of spikes: too rough to
be of use beyond a few bins. Its error is not normal either, since many shares lie on the border, at zero; no
standard errors are stated for it.

**EM with smoothing** (EMS: Silverman et al. 1990; Li et al. 2020 for the square wave) blurs the shares after each
step and takes the fixed point f = S EM(f). The papers blur with (1, 2, 1)/4, which reaches as far as a bin: more
bins, less smoothing, and with few bins far too much. Here S = exp(-t L), with L the differences between neighbours
and t = (cells/r)^2 / 4: it keeps the mass and the uniform distribution, and has the strength of (1, 2, 1)/4 on r
bins, whatever the number of cells. What r is best depends on the data (at 10^5 users and epsilon 1, 16 for a
uniform sample and over 1,000 for one with a spike), so it is read off the reports. Each r has the score
log-likelihood - 1.5 (effective parameters), an Akaike rule with a heavier hand, where the effective parameters are
the trace of d p / d (c/n). The estimate is the average over r = 8, 16, 32, ... with weights exp(score): mostly one
or two of them, and no jump where two are equally good.

**Standard errors of EMS** linearise the fixed point: df = (I - S J)^-1 S B d(c/n), J and B being the derivatives of
an EM step by f and by c/n, with the covariance of the counts given the users' values, n (diag(p) - sum_k f_k P_k
P_k^T). In an average over r each has the distance from the average added in squares (Buckland et al. 1997):
without, stated errors are 10 to 25% too small, since r was chosen. Smoothing also irons out what is uneven about
the users by chance; how much of it the estimate misses follows from the same derivatives, and is added
(`CellResponse.unevenness`). The bias of smoothing at peaks and gaps is not covered.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dither.mechanisms.window import Window

Shares = NDArray[np.float64]
Matrix = NDArray[np.float64]

MOST_GROUPS = 2048
LADDER = tuple(float(2**power) for power in range(3, 13))  # resolutions to choose from
_PENALTY = 1.5  # by simulation over five shapes, 10^3 to 10^6 users, epsilon 0.5 to 2
_GAP = 0.1  # of log-likelihood: one superfluous parameter gains 0.5 from noise alone
_CLOSE = 1e-4  # of 1/sqrt(n), in total share to be moved
_MOST_STEPS = 20_000
_TINY = 1e-30
_ONE_THREAD = 1 << 17
_NEGLIGIBLE = 1e-3  # weight of a resolution


def _times(matrix: Matrix, vector: Shares) -> Shares:
    """Their product. BLAS splits a large one over threads, which on a busy machine wait for each other far longer."""
    return matrix @ vector if matrix.size <= _ONE_THREAD else np.einsum("ij,j->i", matrix, vector)


class EMResult(NamedTuple):
    """Where an iteration ended: shares, steps taken, whether its rule was met, and (EM) the gap."""

    shares: Shares
    steps: int
    converged: bool
    gap: float | None = None


@dataclass(frozen=True, eq=False)
class Likelihood:
    """P(output | cell), the shares of the outputs, and the number of reports."""

    matrix: Matrix  # a row a cell
    seen: Shares
    n: int

    def factors(self, shares: Shares) -> tuple[Shares, float]:
        """D_k, by which EM multiplies the shares, and the log-likelihood of the shares before that."""
        p = _times(self.matrix.T, shares)
        heard = self.seen > 0
        return _times(self.matrix, self.seen / p), float(self.n * (self.seen[heard] @ np.log(p[heard])))

    def gap(self, factors: Shares) -> float:
        """How far the log-likelihood is below its maximum, at most."""
        return max(0.0, float(self.n * (factors.max() - 1)))

    def derivatives(self, shares: Shares) -> tuple[Matrix, Matrix]:
        """Of an EM step at `shares`: by the shares (J), and by the shares of the outputs (B)."""
        p = shares @ self.matrix
        by_seen = shares[:, None] * self.matrix / p
        by_shares = -(by_seen * (self.seen / p)) @ self.matrix.T
        by_shares[np.diag_indices_from(by_shares)] += self.matrix @ (self.seen / p)
        return by_shares, by_seen


def probabilities(window: "Window", cells: int, limits: NDArray[np.int64]) -> Matrix:
    """P(limits[g] <= output < limits[g + 1] | cell), by the closed form."""
    low = (1 - window.law.inside) / (window.law.outputs - window.width)
    extra = window.law.inside / window.width - low
    edges = np.linspace(0.0, window.steps, cells + 1)
    inside = _mean_above(limits, edges) - _mean_above(limits - window.width, edges)
    return float(low) * np.diff(limits) + float(extra) * np.maximum(np.diff(inside, axis=1), 0.0)


def _mean_above(limits: NDArray[np.int64], edges: NDArray[np.float64]) -> Matrix:
    """For each cell (row) and limit the average of max(limit - x, 0) over the cell. Nothing cancels."""
    width = edges[1] - edges[0]
    into = np.clip(limits - edges[:-1, None], 0.0, width)
    return into**2 / (2 * width) + np.maximum(limits - edges[1:, None], 0.0)


def output_groups(outputs: int) -> NDArray[np.int64]:
    """The limits of at most MOST_GROUPS groups of consecutive outputs, all of one size but the last."""
    size = -(-outputs // MOST_GROUPS)
    return np.append(np.arange(0, outputs, size), outputs)


@lru_cache(maxsize=16)
def blur(cells: int, resolution: float) -> Matrix:
    """S = exp(-t L), from the cosines that are the eigenvectors of L.

    >>> blur(4, 4.0).sum(axis=0).round(12).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    waves = np.arange(cells)
    cosines = np.cos(np.pi / cells * waves[:, None] * (waves + 0.5)) * math.sqrt(2 / cells)
    cosines[0] /= math.sqrt(2)
    decay = np.exp(-((cells / resolution) ** 2) / 4 * (2 - 2 * np.cos(np.pi / cells * waves)))
    matrix = np.maximum((cosines.T * decay) @ cosines, 0.0)  # entries that are zero may come out as -1e-17
    matrix.flags.writeable = False
    return matrix


class _Stretch:
    """How far an extrapolation may go: twice as far after each success at the limit, half as far after a failure."""

    def __init__(self) -> None:
        self.most = 1.0
        self.wanted = 1.0

    def point(self, first: Shares, second: Shares, third: Shares) -> Shares:
        """Where two steps, first to second to third, seem to lead."""
        step, turn = second - first, third - 2 * second + first
        self.wanted = max(1.0, float(np.linalg.norm(step) / max(np.linalg.norm(turn), _TINY)))
        length = min(self.wanted, self.most)
        ahead = first + 2 * length * step + length**2 * turn
        ahead = np.where(ahead > 0, ahead, np.maximum(third / 10, _TINY))
        return ahead / ahead.sum()

    def learn(self, success: bool) -> None:
        if not success:
            self.most = max(1.0, min(self.most, self.wanted) / 2)
        elif self.wanted >= self.most:
            self.most *= 2


def maximum(likelihood: Likelihood, gap: float = _GAP, most: int = _MOST_STEPS) -> EMResult:
    """EM from the uniform distribution until the gap is small. The log-likelihood never falls."""
    shares = np.full(len(likelihood.matrix), 1 / len(likelihood.matrix))
    factors, _ = likelihood.factors(shares)
    steps, stretch = 1, _Stretch()
    while likelihood.gap(factors) > gap and steps < most:
        once = shares * factors
        factors, reached = likelihood.factors(once)
        twice = once * factors
        ahead = stretch.point(shares, once, twice)
        factors, found = likelihood.factors(ahead)
        success = found >= reached
        stretch.learn(success)
        shares = ahead
        if not success:
            shares = twice / twice.sum()
            factors, _ = likelihood.factors(shares)
        steps += 2 if success else 3
    left = likelihood.gap(factors)
    return EMResult(shares, steps, left <= gap, left)


def em_smoothed(likelihood: Likelihood, resolution: float, start: Shares, most: int = _MOST_STEPS) -> EMResult:
    """EMS from `start`, until what is left to go is 1e-4 / sqrt(n) in total share: nothing beside the noise.

    Far from the start the change of a step shrinks by one factor 1 - 1/l a step, so what is left to go is l times
    the change; the extrapolation estimates the same l. (Slow waves hide in it: the true distance can be ten times
    as much.)
    """
    matrix = blur(len(start), resolution)

    def advance(shares: Shares) -> Shares:
        mixed = _times(matrix, shares * likelihood.factors(shares)[0])
        return mixed / mixed.sum()

    shares, stretch, steps = start, _Stretch(), 1
    once = advance(shares)
    enough = _CLOSE / math.sqrt(likelihood.n)
    while steps < most:
        twice = advance(once)
        ahead = stretch.point(shares, once, twice)
        if stretch.wanted * np.abs(once - shares).sum() <= enough:
            return EMResult(twice, steps + 1, True)
        then = advance(ahead)
        success = bool(np.abs(then - ahead).sum() <= np.abs(twice - once).sum())
        stretch.learn(success)
        shares, once = (ahead, then) if success else (twice, advance(twice))
        steps += 2 if success else 3
    return EMResult(once, steps, False)


def _response(likelihood: Likelihood, shares: Shares, resolution: float) -> tuple[Matrix, Matrix]:
    """(I - S J, S B): how the fixed point answers to the shares of the outputs.

    An EM step has a total of one whatever it is given, so J and S J take every change to one that adds to zero: I -
    S J keeps the total of a change, and the mass makes no system singular.
    """
    by_shares, by_seen = likelihood.derivatives(shares)
    matrix = blur(len(shares), resolution)
    return np.eye(len(shares)) - matrix @ by_shares, matrix @ by_seen


def effective_parameters(likelihood: Likelihood, shares: Shares, resolution: float) -> float:
    """The trace of d p / d (c/n), less one for the total."""
    left, right = _response(likelihood, shares, resolution)
    return float(np.trace(np.linalg.solve(left, right @ likelihood.matrix.T))) - 1


class CellResponse(NamedTuple):
    """How sums of consecutive cells answer to the shares of the outputs, and to those of the users in the cells."""

    heard: Matrix
    held: Matrix

    @classmethod
    def of(cls, likelihood: Likelihood, shares: Shares, resolution: float, bins: int) -> "CellResponse":
        """The derivatives at a fixed point."""
        left, right = _response(likelihood, shares, resolution)
        heard = np.linalg.solve(left, right).reshape(bins, -1, right.shape[1]).sum(axis=1)
        return cls(heard, heard @ likelihood.matrix.T)

    def noise(self, likelihood: Likelihood, shares: Shares, unasked: float = 0.0) -> Shares:
        """Standard errors given the values of all users, of whom a share was not asked."""
        squares = self.held**2 @ shares
        within = self.heard**2 @ (shares @ likelihood.matrix) - squares
        among = squares - (self.held @ shares) ** 2
        return np.sqrt(np.maximum(within + unasked * among, 0.0) / likelihood.n)

    def unevenness(self, likelihood: Likelihood, shares: Shares) -> Shares:
        """How far the sums are from those of the users, because smoothing irons out chance.

        Users drawn from the smooth curve itself are uneven: their shares of the cells deviate from it like those of a
        multinomial. The estimate follows such a deviation only in part.
        """
        bins = len(self.held)
        missed = self.held - np.repeat(np.eye(bins), len(shares) // bins, axis=1)
        return np.sqrt(np.maximum(missed**2 @ shares - (missed @ shares) ** 2, 0.0) / likelihood.n)


class Rung(NamedTuple):
    """EMS at one resolution, and the penalised log-likelihood of what it found."""

    resolution: float
    found: EMResult
    score: float = 0.0


def climbed(likelihood: Likelihood) -> list[Rung]:
    """EMS from coarse to fine, until two in a row are worse than the best."""
    shares, rungs, best = np.full(len(likelihood.matrix), 1 / len(likelihood.matrix)), [], 0
    for resolution in LADDER:
        found = em_smoothed(likelihood, resolution, shares)
        shares = found.shares
        penalty = _PENALTY * effective_parameters(likelihood, shares, resolution)
        rungs.append(Rung(resolution, found, likelihood.factors(shares)[1] - penalty))
        best = max(range(len(rungs)), key=lambda rung: rungs[rung].score)
        if best + 2 < len(rungs):
            break
    return rungs


def recut_rungs(likelihood: Likelihood, rungs: list[Rung]) -> list[Rung]:
    """The rungs that count, on other cells: a score hardly depends on the cells, and costs their third power."""
    cells, least = len(likelihood.matrix), max(rung.score for rung in rungs) + math.log(_NEGLIGIBLE)
    finer = []
    for resolution, found, score in rungs:
        if score >= least:
            again = em_smoothed(likelihood, resolution, _recut(found.shares, cells))
            finer.append(Rung(resolution, again._replace(steps=found.steps + again.steps), score))
    return finer


def _recut(shares: Shares, cells: int) -> Shares:
    """The same density in other cells."""
    below = np.concatenate([[0.0], np.cumsum(shares)])
    return np.diff(np.interp(np.linspace(0, 1, cells + 1), np.linspace(0, 1, below.size), below))


def averaged_rungs(
    likelihood: Likelihood, rungs: list[Rung], bins: int, unasked: float = 0.0
) -> tuple[EMResult, Shares]:
    """The average of the rungs by their weights exp(score), and the standard errors of the bins."""
    scores = np.array([rung.score for rung in rungs])
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    shares = weights @ np.array([rung.found.shares for rung in rungs])
    errors = np.zeros(bins)
    for weight, rung in zip(weights, rungs, strict=True):
        answers = CellResponse.of(likelihood, rung.found.shares, rung.resolution, bins)
        own = answers.noise(likelihood, rung.found.shares, unasked)
        uneven = answers.unevenness(likelihood, rung.found.shares)
        away = (rung.found.shares - shares).reshape(bins, -1).sum(axis=1)
        errors += weight * np.sqrt(own**2 + away**2 + uneven**2)
    steps = sum(rung.found.steps for rung in rungs)
    return EMResult(shares, steps, all(rung.found.converged for rung in rungs)), errors
