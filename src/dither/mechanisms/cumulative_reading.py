"""Cumulative shares from a window mechanism: what is below each threshold, read off the tally of a square wave.

The smooth density of `mechanisms.distribution` is added up from below. Adding up is what a blurred picture is good for:
a window moves users a little, and hardly any of them across a given threshold. So the errors of shares below a
threshold are a fraction of those of bins, and fall faster than these with fewer reports.

**Known places.** Of whole numbers it is known that nobody is between two of them. Then the cells of the density are the
places themselves, the probability of an output is that of a place, and intervals need not allow for users who are
nearer to a threshold than the next place is.

Values and standard errors are those of a posterior, right if the users are spread smoothly. Intervals are strict bounds
(`mechanisms.distribution_bounds`), which hold whatever the users are. What it will cost: `mechanisms.cumulative_error`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.covariance import Covariance
from dither.core.cumulative_estimate import Cumulative, Thresholds
from dither.core.domains import UnitInterval
from dither.core.estimate import Bounds
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Moments
from dither.core.parallel import small_matrices
from dither.core.tally import Tally
from dither.errors import ParameterError
from dither.estimation.density import of_users, smoothed
from dither.mechanisms.cumulative_error import hardest_error
from dither.mechanisms.distribution import SMOOTH_CELLS, smooth_bins
from dither.mechanisms.distribution_bounds import StrictIntervals
from dither.mechanisms.window_evidence import window_evidence

if TYPE_CHECKING:
    from dither.mechanisms.window import Window

Floats = NDArray[np.float64]

_MOST_OUTPUTS = 2 * SMOOTH_CELLS  # groups of outputs
_NO_AVERAGE = "cumulative shares of a window are no average of reports, so one report has no moments for them"
_NOTES = (
    "Added up from a density that is as smooth as the reports allow.",
    "Standard errors are right if the users are spread smoothly. Intervals do not come from these: they hold whatever "
    "the distribution is.",
)


@dataclass(frozen=True)
class CumulativeReading:
    """The reading of the shares below thresholds, of a window mechanism that spends `epsilon`."""

    window: "Window"
    epsilon: float
    thresholds: Thresholds

    @property
    def domain(self) -> UnitInterval:
        """Numbers from -1 to 1."""
        return UnitInterval()

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Cumulative:
        """The shares below thresholds; of the `among` users from whom the reports were drawn, if more."""
        at = np.array(self.thresholds.at)
        ends, everybody = (at + 1) / 2, among or tally.n
        places = None if self.thresholds.places is None else (np.array(self.thresholds.places) + 1) / 2
        if places is None:
            cells, covariance, drawn = self._anywhere(tally, ends, everybody)
        else:
            cells, covariance, drawn = self._at(tally, places, everybody)
        added = np.tri(at.size, cells.size) if places is None else (places <= ends[:, None]).astype(np.float64)
        rule = StrictIntervals.below(self.window, tally, ends, drawn, places)
        return Cumulative(
            np.clip(added @ cells, 0.0, 1.0),
            _errors(covariance, added),
            tally.n,
            guarantee,
            "share below",
            source=source,
            notes=_NOTES,
            bounds=Bounds(0.0, 1.0),
            rule=rule,
            thresholds=at,
            ends=(-1.0, 1.0),
        )

    def _anywhere(self, tally: Tally, ends: Floats, among: int) -> tuple[Floats, Covariance, Floats]:
        """Shares between thresholds, cut out of a smooth density."""
        grid = np.linspace(0.0, 1.0, SMOOTH_CELLS + 1)
        heard = window_evidence(self.window, tally.counts, grid[:-1], grid[1:], _MOST_OUTPUTS)
        return smooth_bins(heard, np.concatenate([[0.0], ends, [1.0]]), tally.n, among)

    def _at(self, tally: Tally, places: Floats, among: int) -> tuple[Floats, Covariance, Floats]:
        """Shares at places."""
        heard = window_evidence(self.window, tally.counts, places, places, _MOST_OUTPUTS)
        with small_matrices():
            drawn = smoothed(places.size, heard, [])
            users = of_users(drawn, heard, tally.n / among)
        spread = Covariance(np.zeros(places.size), np.eye(places.size), users.covariance)
        return users.value, spread, drawn.value

    def predicted_mse(self, reports: float, users: float) -> float:
        """The mean over thresholds of the squared error, where `reports` of all users report.

        That of the hardest of some shapes, and of the worst users who might not be asked: shares of a half are known
        from some of them with a variance of a quarter.
        """
        error = hardest_error(self.epsilon, reports, places=self.thresholds.places is not None)
        return error**2 + max(0.0, 1 - reports / users) / (4 * reports)

    def moments(self, x: Any) -> Moments:
        """There are none: a share in a smooth density is no average of calibrated reports."""
        raise ParameterError(_NO_AVERAGE)

    def worst_variance(self, share: float = 1.0) -> float:
        """There is none, as there are no moments."""
        raise ParameterError(_NO_AVERAGE)


def _errors(covariance: Covariance, weights: Floats) -> Floats:
    """The standard errors of sums, one for each row of weights."""
    factor = weights @ covariance.factor
    variance = weights**2 @ covariance.diagonal + ((factor @ covariance.core) * factor).sum(axis=1)
    return np.sqrt(np.maximum(variance, 0.0))
