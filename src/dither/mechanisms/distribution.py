"""Distributions: the share of users in each bin, read off the tally of a window mechanism.

The shares are found by `estimation.density`, smooth as far as the reports allow, or by maximum likelihood
(`estimation.em`); here is what is asked (`DistributionReading`) and what is answered (`Distribution`). A smooth
density has the same 128 cells whatever the number of bins, and the bins are cut out of it, so that a bin's share does
not depend on how the others were cut. Inside a cell users are spread evenly, but for chance, which is part of the
standard errors.
"""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dither.core.checks import checked_count
from dither.core.covariance import Covariance
from dither.core.domains import UnitInterval
from dither.core.estimate import SHARES, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Moments
from dither.core.parallel import small_matrices
from dither.core.results import Interval, checked_level
from dither.core.tally import Tally
from dither.display.distribution_plots import steps
from dither.display.estimate_plots import new_axes
from dither.display.plots import tidy
from dither.errors import ParameterError
from dither.estimation.density import of_users, smoothed
from dither.estimation.em import GAP, maximum
from dither.estimation.output_counts import OutputCounts
from dither.mechanisms.distribution_bounds import StrictIntervals
from dither.mechanisms.window_evidence import window_evidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dither.mechanisms.window import Window

Floats = NDArray[np.float64]

MOST_BINS = 1024
SMOOTH_CELLS = 128  # of a smooth density
_MOST_OUTPUTS = 2048  # groups of outputs; of a smooth density, twice as many as cells
_HOLD = "Intervals do not come from these: they hold whatever the distribution is, and are wide where bins are narrow."
_NO_AVERAGE = "a distribution is not an average of reports, so one report has no moments and no variance for it"


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(Estimate):
    """The share of users in each bin of [-1, 1], with what can be read off it.

    `gap` bounds how far `log_likelihood` is below its maximum, which EM has found in so many `iterations`; both are
    None with smoothing, which does not maximise it.
    """

    edges: NDArray[np.float64] = field(kw_only=True)  # always known
    rule: StrictIntervals = field(kw_only=True, repr=False)
    log_likelihood: float = field(kw_only=True)
    iterations: int | None = field(default=None, kw_only=True)
    gap: float | None = field(default=None, kw_only=True)

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
        shares = _shares(q)
        bin_ = np.clip(np.searchsorted(self._below, shares, side="left") - 1, 0, self.value.size - 1)
        into = shares - self._below[bin_]
        width = np.diff(self.edges)[bin_]
        part = np.divide(into, self.value[bin_], out=np.zeros_like(into), where=into > 0)
        return self.edges[bin_] + width * np.minimum(part, 1.0)

    def cdf_interval(self, x: ArrayLike, level: float = 0.95) -> Interval:
        """Where the share of users at or below x is, with probability `level`, whatever the distribution is.

        >>> from dither import SquareWave
        >>> mechanism = SquareWave(epsilon=2.0)
        >>> tally = mechanism.tally(mechanism.randomize(np.linspace(-0.5, 0.5, 50_000), seed=1))
        >>> low, high = mechanism.distribution(tally, bins=8).cdf_interval(0.25)
        >>> bool(low < 0.75 < high), bool(high - low < 0.2)
        (True, True)
        """
        points = (np.clip(_numbers("x", x), -1.0, 1.0) + 1) / 2
        flat = np.ravel(points)
        low, high = self.rule.between(np.zeros_like(flat), flat).ends(1 - checked_level(level))
        return Interval(low.reshape(points.shape), high.reshape(points.shape))

    def quantile_interval(self, q: ArrayLike, level: float = 0.95) -> Interval:
        """Where `quantile` is, with probability `level`, whatever the distribution is: between two edges of bins.

        An edge is too low if surely fewer than q users are at or below it, and high enough if surely as many are. Only
        the edges next to the truth can be judged wrongly, since those beyond them have to agree with them.
        """
        shares = _shares(q)
        low, high = self.cdf_interval(self.edges[1:-1], level)
        too_low = np.searchsorted(np.maximum.accumulate(high), shares, side="left")
        enough = np.searchsorted(np.minimum.accumulate(low[::-1])[::-1], shares, side="left")
        return Interval(self.edges[too_low], self.edges[enough + 1])

    def plot(self, ax: "Axes | None" = None, level: float = 0.95) -> "Axes":
        """The density as steps, with a band of intervals; on `ax`, or on new axes."""
        axes = new_axes() if ax is None else ax
        width = np.diff(self.edges)
        low, high = (end / width for end in self.interval(level))
        tidy(axes)
        steps(axes, self.edges, self.density(), low, high)
        axes.set(xlabel="value", ylabel="density")
        axes.set_ylim(bottom=0)
        axes.set_title(f"from {self.n:,} reports, with {100 * level:.6g}% intervals", loc="left", fontsize=10)
        return axes

    @property
    def _below(self) -> NDArray[np.float64]:
        total = np.concatenate([[0.0], np.cumsum(self.value)])
        return total / total[-1]

    def _rest(self) -> str:
        low, middle, high = self.quantile([0.25, 0.5, 0.75])
        return (
            f"{super()._rest()}\nmean {self.mean():.3g}; median {middle:.3g}; half of all from {low:.3g} to {high:.3g}"
        )


def _shares(given: ArrayLike) -> NDArray[np.float64]:
    shares = _numbers("q", given)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ParameterError("a quantile is asked for a share from 0 to 1, for example 0.5 for the median")
    return shares


def _numbers(name: str, given: ArrayLike) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (ValueError, TypeError):
        numbers = None
    if numbers is None or np.isnan(numbers).any():
        raise ParameterError(f"{name} must be a number, or numbers")
    return numbers


@dataclass(frozen=True)
class DistributionReading:
    """The reading of a distribution over `bins` equal bins of [-1, 1].

    `smooth` is True (as smooth as the reports allow, with standard errors) or False (maximum likelihood by EM).
    """

    window: "Window"
    bins: int = 64
    smooth: bool = True

    def __post_init__(self) -> None:
        if self.window.steps == 1:
            raise ParameterError(
                "one bit a report cannot tell a distribution, only a mean; collect with SquareWave instead"
            )
        checked_count("bins", self.bins, 2, MOST_BINS)
        if not isinstance(self.smooth, bool):
            raise ParameterError("smooth must be True or False; how smooth is read off the reports")

    @property
    def domain(self) -> UnitInterval:
        """Numbers from -1 to 1."""
        return UnitInterval()

    def evidence(self, tally: Tally, cells: int, most: int = _MOST_OUTPUTS) -> OutputCounts:
        """The tally as evidence about the shares of `cells` equal cells."""
        ends = np.linspace(0.0, 1.0, cells + 1)
        return window_evidence(self.window, tally.counts, ends[:-1], ends[1:], most)

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Distribution:
        """The shares of the bins; of the `among` users from whom the reports were drawn, if more."""
        heard = self.evidence(tally, SMOOTH_CELLS, 2 * SMOOTH_CELLS) if self.smooth else self.evidence(tally, self.bins)
        if self.smooth:
            found, covariance, likelihood, cells = self._smooth(heard, tally.n, among or tally.n)
            stderr = np.sqrt(np.maximum(covariance.variance, 0.0))
            ended: dict[str, Any] = {"correlation": covariance.correlation}
            notes = (
                "As smooth as the reports allow: an average over degrees of smoothness, weighted by their evidence.",
                "Standard errors cover what smoothing irons out as chance, not all of how it flattens peaks and edges. "
                + _HOLD,
            )
        else:
            found, steps, gap = maximum(heard)
            stderr, likelihood, cells = np.full(self.bins, math.nan), heard.log_likelihood(found), found
            ended = {"iterations": steps, "gap": gap}
            notes = (
                f"Maximum likelihood by EM; the log-likelihood is at most {gap:.2g} below its maximum.",
                "No standard errors are stated: shares at or near zero have no normal error. The maximum of the "
                "likelihood is rough where bins are narrow; smooth=True is the better picture. " + _HOLD,
            )
            if gap > GAP:
                notes += (f"Not converged after {steps:,} steps: take fewer bins, or read it with care.",)
        edges = np.linspace(-1.0, 1.0, self.bins + 1)
        rule = StrictIntervals.of_bins(self.window, tally, (edges + 1) / 2, cells)
        labels, told = _labels(edges), {"edges": edges, "log_likelihood": likelihood, "rule": rule, **ended}
        told["bounds"] = SHARES
        return Distribution(found, stderr, tally.n, guarantee, "share", labels, source, notes, **told)

    def _smooth(self, heard: OutputCounts, n: int, among: int) -> tuple[Floats, Covariance, float, Floats]:
        """Shares of the bins, the covariance of their errors, the log-likelihood, and the shares of cells."""
        value, covariance, cells = smooth_bins(heard, np.linspace(0.0, 1.0, self.bins + 1), n, among)
        return value, covariance, heard.log_likelihood(cells), cells

    def moments(self, x: Any) -> Moments:
        """There are none: a share in the distribution is no average of calibrated reports."""
        raise ParameterError(_NO_AVERAGE)

    def worst_variance(self, share: float = 1.0) -> float:
        """There is none, as there are no moments."""
        raise ParameterError(_NO_AVERAGE)


def smooth_bins(heard: OutputCounts, edges: Floats, n: int, among: int) -> tuple[Floats, Covariance, Floats]:
    """Of n of `among` users the shares in the bins between edges, the covariance of their errors; the shares of cells.

    Edges are in shares of the domain; what was heard is about `SMOOTH_CELLS` equal cells of it.
    """
    with small_matrices():
        drawn = smoothed(SMOOTH_CELLS, heard, [])
        users = of_users(drawn, heard, n / among)
        ends, cuts = np.linspace(0.0, 1.0, SMOOTH_CELLS + 1), edges[:, None]
        # The part of each cell (column) that lies in each bin.
        part = np.diff(np.clip((cuts - ends[:-1]) * SMOOTH_CELLS, 0.0, 1.0), axis=0)
    # Users in a cell that bins cut are in each of these by chance: diag(part v) - part diag(v) part', over all.
    value = part @ users.value
    return value, Covariance(value / among, part, users.covariance - np.diag(users.value) / among), drawn.value


def _labels(edges: NDArray[np.float64]) -> tuple[str, ...]:
    digits = 1 + math.ceil(math.log10(edges.size - 1))
    texts = [f"{edge:.{digits}f}" for edge in edges]
    return tuple(f"{low} to {high}" for low, high in pairwise(texts))
