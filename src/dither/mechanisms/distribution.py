"""From counts of outputs to a distribution: likelihood by EM, and EM with smoothing, for the window mechanisms.

**The model.** The interval is cut into equal cells, and inside a cell all values are equally likely. In units of the
lattice a value x lies in [0, J]. It is rounded to a lattice point at random and sends one of M outputs. Rounding keeps
the mean of whatever is a line between lattice points, and clip(Y - i, 0, w) is, so at every whole number Y

    P(output < Y | x) = b Y + (a - b) clip(Y - x, 0, w):

the window of the papers on the continuum, rounded down. Its average over a cell is a quadratic, so P(y | cell) has a
closed form. Beyond 2,048 outputs neighbours are read in groups, which are far narrower than what can be seen.

**EM** takes shares f to f_k D_k, with D_k = sum_y (c_y / n) P(y | k) / p(y) and p = sum_k f_k P(. | k). The likelihood
never falls, and as it is concave, it is at most n (max_k D_k - 1) below its maximum: the `gap`, on which EM stops.
Steps are lengthened (squared extrapolation, Varadhan and Roland 2008) where that does not cost likelihood.

**What goes wrong with EM.** The likelihood hardly sees fine detail, so its maximum is a row of spikes: too rough to be
of use beyond a few bins. Its error is not normal either, since many shares lie on the border, at zero; no standard
errors are stated for it.

**EM with smoothing** (EMS: Silverman et al. 1990; Li et al. 2020 for the square wave) blurs the shares after each step
and takes the fixed point f = S EM(f). The papers blur with (1, 2, 1)/4, which reaches as far as a bin: more bins, less
smoothing, and with few bins far too much. Here S = exp(-t L), with L the differences between neighbours and t =
(cells/r)^2 / 4: it keeps the mass and the uniform distribution, and has the strength of (1, 2, 1)/4 on r bins, whatever
the number of cells. What r is best depends on the data (at 10^5 users and epsilon 1, 16 for a uniform sample and over
1,000 for one with a spike), so it is read off the reports. Each r has the score log-likelihood - 1.5 (effective
parameters), an Akaike rule with a heavier hand, where the effective parameters are the trace of d p / d (c/n). The
estimate is the average over r = 8, 16, 32, ... with weights exp(score): mostly one or two of them, and no jump where
two are equally good.

**Standard errors of EMS** linearise the fixed point: df = (I - S J)^-1 S B d(c/n), J and B being the derivatives of an
EM step by f and by c/n, with the covariance of the counts given the users' values, n (diag(p) - sum_k f_k P_k P_k^T).
In an average over r each has the distance from the average added in squares (Buckland et al. 1997): without, stated
errors are 10 to 25% too small, since r was chosen. They do not cover the bias of smoothing: intervals of 95% cover
the true share of a bin in some 85 to 90% of the cases, and less for sharp peaks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dither.core.checks import checked_count
from dither.core.domain import Interval
from dither.core.errors import ParameterError, require
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Moments
from dither.core.tally import Tally

if TYPE_CHECKING:
    from dither.mechanisms.window import Window

Shares = NDArray[np.float64]
Matrix = NDArray[np.float64]

MOST_BINS = 1024
MOST_GROUPS = 2048
LADDER = tuple(float(2**power) for power in range(3, 13))  # resolutions to choose from
_PENALTY = 1.5  # by simulation over five shapes, 10^3 to 10^6 users, epsilon 0.5 to 2
_CELLS = 256  # with smoothing, the least number of cells: fewer bins are sums of cells
_GAP = 0.1  # of log-likelihood: one superfluous parameter gains 0.5 from noise alone
_CLOSE = 1e-4  # of 1/sqrt(n), in total share to be moved
_MOST_STEPS = 20_000
_TINY = 1e-30
_ONE_THREAD = 1 << 17
_NO_AVERAGE = "a distribution is not an average of reports, so one report has no moments and no variance for it"
_NEGLIGIBLE = 1e-3  # weight of a resolution


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(Estimate):
    """The share of users in each bin of [-1, 1], with what can be read off it.

    `gap` bounds how far `log_likelihood` is below its maximum (EM), and is None with smoothing, which does not maximise
    it; `resolution` says how strong the smoothing was (in an average, that of the largest weight), in bins of the
    three-point kernel, and is None without.
    """

    edges: NDArray[np.float64] = field(kw_only=True)
    log_likelihood: float = field(kw_only=True)
    iterations: int = field(kw_only=True)
    converged: bool = field(kw_only=True)
    gap: float | None = field(default=None, kw_only=True)
    resolution: float | None = field(default=None, kw_only=True)

    def density(self) -> NDArray[np.float64]:
        """The density in each bin."""
        return self.value / np.diff(self.edges)

    def mean(self) -> float:
        """The mean of this distribution. The mechanism's own `estimate` is unbiased, and has an error bar."""
        return float(self.value @ (self.edges[1:] + self.edges[:-1])) / 2

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """The share of users at or below x."""
        return np.interp(_numbers("x", x), self.edges, self._below)

    def quantile(self, q: ArrayLike) -> NDArray[np.float64]:
        """The least x with a share of at least q at or below it: the inverse of `cdf`."""
        shares = _numbers("q", q)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise ParameterError("a quantile is asked for a share from 0 to 1, for example 0.5 for the median")
        bin_ = np.clip(np.searchsorted(self._below, shares, side="left") - 1, 0, self.value.size - 1)
        into = shares - self._below[bin_]
        width = np.diff(self.edges)[bin_]
        part = np.divide(into, self.value[bin_], out=np.zeros_like(into), where=into > 0)
        return self.edges[bin_] + width * np.minimum(part, 1.0)

    def plot(self, ax: Any = None) -> Any:
        """The density as steps, with a band of 95% where there are standard errors; on `ax`, or on new axes."""
        if ax is None:
            _, ax = require("matplotlib.pyplot", "plot").subplots()
        ax.stairs(self.density(), self.edges)
        if np.isfinite(self.stderr).all():
            low, high = (np.maximum(end, 0.0) / np.diff(self.edges) for end in self.interval(0.95))
            ax.stairs(high, self.edges, baseline=low, fill=True, alpha=0.3)
        ax.set_xlabel("value")
        ax.set_ylabel("density")
        return ax

    @property
    def _below(self) -> NDArray[np.float64]:
        total = np.concatenate([[0.0], np.cumsum(self.value)])
        return total / total[-1]

    def _rest(self) -> str:
        low, middle, high = self.quantile([0.25, 0.5, 0.75])
        return (
            f"{super()._rest()}\nmean {self.mean():.3g}; median {middle:.3g}; half of all from {low:.3g} to {high:.3g}"
        )


def _numbers(name: str, given: ArrayLike) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (ValueError, TypeError):
        numbers = None
    if numbers is None or np.isnan(numbers).any():
        raise ParameterError(f"{name} must be a number, or numbers")
    return numbers


def _times(matrix: Matrix, vector: Shares) -> Shares:
    """Their product. BLAS splits a large one over threads, which on a busy machine wait for each other far longer."""
    return matrix @ vector if matrix.size <= _ONE_THREAD else np.einsum("ij,j->i", matrix, vector)


class Found(NamedTuple):
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


def grouped(outputs: int) -> NDArray[np.int64]:
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


def maximum(likelihood: Likelihood, gap: float = _GAP, most: int = _MOST_STEPS) -> Found:
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
    return Found(shares, steps, left <= gap, left)


def smoothed(likelihood: Likelihood, resolution: float, start: Shares, most: int = _MOST_STEPS) -> Found:
    """EMS from `start`, until what is left to go is 1e-4 / sqrt(n) in total share: nothing beside the noise.

    Far from the start the change of a step shrinks by one factor 1 - 1/l a step, so what is left to go is l times the
    change; the extrapolation estimates the same l. (Slow waves hide in it: the true distance can be ten times as much.)
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
            return Found(twice, steps + 1, True)
        then = advance(ahead)
        success = bool(np.abs(then - ahead).sum() <= np.abs(twice - once).sum())
        stretch.learn(success)
        shares, once = (ahead, then) if success else (twice, advance(twice))
        steps += 2 if success else 3
    return Found(once, steps, False)


def _response(likelihood: Likelihood, shares: Shares, resolution: float) -> tuple[Matrix, Matrix]:
    """(I - S J, S B): how the fixed point answers to the shares of the outputs.

    An EM step has a total of one whatever it is given, so J and S J take every change to one that adds to zero: I - S J
    keeps the total of a change, and the mass makes no system singular.
    """
    by_shares, by_seen = likelihood.derivatives(shares)
    matrix = blur(len(shares), resolution)
    return np.eye(len(shares)) - matrix @ by_shares, matrix @ by_seen


def effective_parameters(likelihood: Likelihood, shares: Shares, resolution: float) -> float:
    """The trace of d p / d (c/n), less one for the total."""
    left, right = _response(likelihood, shares, resolution)
    return float(np.trace(np.linalg.solve(left, right @ likelihood.matrix.T))) - 1


def standard_errors(
    likelihood: Likelihood, shares: Shares, resolution: float, bins: int, unasked: float = 0.0
) -> Shares:
    """Of sums of consecutive cells, given the values of all users, of whom a share was not asked."""
    left, right = _response(likelihood, shares, resolution)
    answer = np.linalg.solve(left, right).reshape(bins, -1, right.shape[1]).sum(axis=1)
    means = answer @ likelihood.matrix.T  # for a user in each cell
    squares = means**2 @ shares
    within, among = answer**2 @ (shares @ likelihood.matrix) - squares, squares - (means @ shares) ** 2
    return np.sqrt(np.maximum(within + unasked * among, 0.0) / likelihood.n)


class Rung(NamedTuple):
    """EMS at one resolution, and the penalised log-likelihood of what it found."""

    resolution: float
    found: Found
    score: float = 0.0


def climbed(likelihood: Likelihood) -> list[Rung]:
    """EMS from coarse to fine, until two in a row are worse than the best."""
    shares, rungs, best = np.full(len(likelihood.matrix), 1 / len(likelihood.matrix)), [], 0
    for resolution in LADDER:
        found = smoothed(likelihood, resolution, shares)
        shares = found.shares
        penalty = _PENALTY * effective_parameters(likelihood, shares, resolution)
        rungs.append(Rung(resolution, found, likelihood.factors(shares)[1] - penalty))
        best = max(range(len(rungs)), key=lambda rung: rungs[rung].score)
        if best + 2 < len(rungs):
            break
    return rungs


def _refined(likelihood: Likelihood, rungs: list[Rung]) -> list[Rung]:
    """The rungs that count, on other cells: a score hardly depends on the cells, and costs their third power."""
    cells, least = len(likelihood.matrix), max(rung.score for rung in rungs) + math.log(_NEGLIGIBLE)
    finer = []
    for resolution, found, score in rungs:
        if score >= least:
            again = smoothed(likelihood, resolution, _recut(found.shares, cells))
            finer.append(Rung(resolution, again._replace(steps=found.steps + again.steps), score))
    return finer


def _recut(shares: Shares, cells: int) -> Shares:
    """The same density in other cells."""
    below = np.concatenate([[0.0], np.cumsum(shares)])
    return np.diff(np.interp(np.linspace(0, 1, cells + 1), np.linspace(0, 1, below.size), below))


def averaged(likelihood: Likelihood, rungs: list[Rung], bins: int, unasked: float = 0.0) -> tuple[Found, Shares]:
    """The average of the rungs by their weights exp(score), and the standard errors of the bins."""
    scores = np.array([rung.score for rung in rungs])
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    shares = weights @ np.array([rung.found.shares for rung in rungs])
    errors = np.zeros(bins)
    for weight, rung in zip(weights, rungs, strict=True):
        own = standard_errors(likelihood, rung.found.shares, rung.resolution, bins, unasked)
        away = (rung.found.shares - shares).reshape(bins, -1).sum(axis=1)
        errors += weight * np.hypot(own, away)
    steps = sum(rung.found.steps for rung in rungs)
    return Found(shares, steps, all(rung.found.converged for rung in rungs)), errors


@dataclass(frozen=True)
class Shape:
    """The reading of a distribution over `bins` equal bins of [-1, 1].

    `smooth` is True (EMS, its strength read off the reports), False (EM) or a resolution: EMS with the strength of
    the three-point kernel on that many bins. 1024 is what the papers use.
    """

    window: "Window"
    bins: int = 64
    smooth: bool | float = True

    def __post_init__(self) -> None:
        if self.window.steps == 1:
            raise ParameterError(
                "one bit a report cannot tell a distribution, only a mean; collect with SquareWave instead"
            )
        checked_count("bins", self.bins, 2, MOST_BINS)
        if not isinstance(self.smooth, bool):
            number = _numbers("smooth", self.smooth)
            if number.ndim or not LADDER[0] <= number <= LADDER[-1]:
                raise ParameterError(f"smooth must be True, False, or a number from {LADDER[0]:g} to {LADDER[-1]:g}")

    @property
    def domain(self) -> Interval:
        """Numbers from -1 to 1."""
        return Interval()

    @cached_property
    def cells(self) -> int:
        """With smoothing at least 256, so that what is estimated does not depend on how it is cut up."""
        return self.bins if self.smooth is False else self.bins * -(-_CELLS // self.bins)

    def likelihood(self, tally: Tally, cells: int) -> Likelihood:
        """The tally as a likelihood of the shares of `cells` equal cells."""
        limits = grouped(self.window.law.outputs)
        seen = np.add.reduceat(tally.counts, limits[:-1]) / tally.n
        return Likelihood(probabilities(self.window, cells, limits), seen, tally.n)

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Distribution:
        """The shares of the bins; of the `among` users from whom the reports were drawn, if more."""
        finish = _finished(self, tally, guarantee, source)
        if self.smooth is False:
            return self._plain(tally, finish)
        return self._smooth(tally, finish, 0.0 if among is None else 1 - tally.n / among)

    def _plain(self, tally: Tally, finish: Callable[..., Distribution]) -> Distribution:
        likelihood = self.likelihood(tally, self.bins)
        found = maximum(likelihood)
        notes = (
            f"Maximum likelihood by EM; the log-likelihood is at most {found.gap:.2g} below its maximum.",
            "No standard errors are stated: shares at or near zero have no normal error. The maximum of the "
            "likelihood is rough where bins are narrow; smooth=True is the better picture.",
        )
        return finish(likelihood, found, np.full(self.bins, math.nan), notes)

    def _smooth(self, tally: Tally, finish: Callable[..., Distribution], unasked: float) -> Distribution:
        likelihood = self.likelihood(tally, self.cells)
        if self.smooth is True:
            rungs = _refined(likelihood, climbed(self.likelihood(tally, _CELLS)))
            how = "and its neighbours, weighted by their likelihood"
        else:
            resolution = float(self.smooth)
            rungs = [Rung(resolution, smoothed(likelihood, resolution, np.full(self.cells, 1 / self.cells)))]
            how = "as asked"
        found, stderr = averaged(likelihood, rungs, self.bins, unasked)
        resolution = max(rungs, key=lambda rung: rung.score).resolution
        notes = (
            f"EM with smoothing, as strong as (1, 2, 1)/4 on {resolution:g} bins, {how}.",
            "Smoothing flattens peaks and fills gaps; this bias is not in the standard errors.",
        )
        return finish(likelihood, found, stderr, notes, resolution)

    def moments(self, x: Any) -> Moments:
        """There are none: a share in the distribution is no average of calibrated reports."""
        raise ParameterError(_NO_AVERAGE)

    def worst_variance(self, share: float = 1.0) -> float:
        """There is none, as there are no moments."""
        raise ParameterError(_NO_AVERAGE)


def _finished(shape: Shape, tally: Tally, guarantee: Guarantee, source: str) -> Callable[..., Distribution]:
    """What EM and EMS have in common once the shares are found."""

    def finish(
        likelihood: Likelihood, found: Found, stderr: Shares, notes: tuple[str, ...], resolution: float | None = None
    ) -> Distribution:
        if not found.converged:
            notes += (f"Not converged after {found.steps:,} steps: take fewer bins, or read it with care.",)
        edges = np.linspace(-1.0, 1.0, shape.bins + 1)
        return Distribution(
            found.shares.reshape(shape.bins, -1).sum(axis=1),
            stderr,
            tally.n,
            guarantee,
            "share",
            _labels(edges),
            source,
            notes,
            edges=edges,
            log_likelihood=likelihood.factors(found.shares)[1],
            iterations=found.steps,
            converged=found.converged,
            gap=found.gap,
            resolution=resolution,
        )

    return finish


def _labels(edges: NDArray[np.float64]) -> tuple[str, ...]:
    digits = 1 + math.ceil(math.log10(edges.size - 1))
    texts = [f"{edge:.{digits}f}" for edge in edges]
    return tuple(f"{low} to {high}" for low, high in pairwise(texts))
