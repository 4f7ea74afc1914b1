"""Distributions: the share of users in each bin, read off the tally of a window mechanism.

`mechanisms.em` finds the shares, by maximum likelihood (EM) or with smoothing (EMS); here is what is asked
(`DistributionReading`) and what is answered (`Distribution`). With smoothing the shares are found in at least 256 cells
whatever the number of bins, and summed, so that a bin's share does not depend on how the others were cut.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dither.core.checks import checked_count
from dither.core.domains import UnitInterval
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Moments
from dither.core.tally import Tally
from dither.errors import ParameterError, require
from dither.estimation.em import (
    LADDER,
    EMResult,
    Likelihood,
    Rung,
    Shares,
    averaged_rungs,
    climbed,
    em_smoothed,
    maximum,
    output_groups,
    probabilities,
    recut_rungs,
)

if TYPE_CHECKING:
    from dither.mechanisms.window import Window


MOST_BINS = 1024
_CELLS = 256  # with smoothing, the least number of cells: fewer bins are sums of cells
_NO_AVERAGE = "a distribution is not an average of reports, so one report has no moments and no variance for it"


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(Estimate):
    """The share of users in each bin of [-1, 1], with what can be read off it.

    `gap` bounds how far `log_likelihood` is below its maximum (EM), and is None with smoothing, which does not
    maximise it; `resolution` says how strong the smoothing was (in an average, that of the largest weight), in bins
    of the three-point kernel, and is None without.
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


@dataclass(frozen=True)
class DistributionReading:
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
    def domain(self) -> UnitInterval:
        """Numbers from -1 to 1."""
        return UnitInterval()

    @cached_property
    def cells(self) -> int:
        """With smoothing at least 256, so that what is estimated does not depend on how it is cut up."""
        return self.bins if self.smooth is False else self.bins * -(-_CELLS // self.bins)

    def likelihood(self, tally: Tally, cells: int) -> Likelihood:
        """The tally as a likelihood of the shares of `cells` equal cells."""
        limits = output_groups(self.window.law.outputs)
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
            rungs = recut_rungs(likelihood, climbed(self.likelihood(tally, _CELLS)))
            how = "and its neighbours, weighted by their likelihood"
        else:
            resolution = float(self.smooth)
            rungs = [Rung(resolution, em_smoothed(likelihood, resolution, np.full(self.cells, 1 / self.cells)))]
            how = "as asked"
        found, stderr = averaged_rungs(likelihood, rungs, self.bins, unasked)
        resolution = max(rungs, key=lambda rung: rung.score).resolution
        notes = (
            f"EM with smoothing, as strong as (1, 2, 1)/4 on {resolution:g} bins, {how}.",
            "Standard errors cover what smoothing irons out as chance, not how it flattens peaks and fills gaps.",
        )
        return finish(likelihood, found, stderr, notes, resolution)

    def moments(self, x: Any) -> Moments:
        """There are none: a share in the distribution is no average of calibrated reports."""
        raise ParameterError(_NO_AVERAGE)

    def worst_variance(self, share: float = 1.0) -> float:
        """There is none, as there are no moments."""
        raise ParameterError(_NO_AVERAGE)


def _finished(
    shape: DistributionReading, tally: Tally, guarantee: Guarantee, source: str
) -> Callable[..., Distribution]:
    """What EM and EMS have in common once the shares are found."""

    def finish(
        likelihood: Likelihood, found: EMResult, stderr: Shares, notes: tuple[str, ...], resolution: float | None = None
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
