"""From counts of outputs to a mean: the reading that the one-dimensional numeric mechanisms share.

A report is an output y of a channel with a calibrated score z_y, whose mean given the input x is x. The estimate is
the average score. Its variance, given the users' values, is the average of Var(z | x) = r0 + (r2 - 1) x^2, where
E[z^2 | x] = r0 + r2 x^2 at the points of the lattice. Where r2 > 0 the reports themselves tell the mean square of
the values, (average z^2 - r0) / r2, and this is put in; where r2 = 0 (signs carry no magnitude) the square of the
estimated mean stands in, which can only make the error bar too wide.

Where only a random share of the users was asked, their mean differs from that of all by a variance of
(1 - share) (mean square - squared mean) for each report, which is added.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import UnitInterval
from dither.core.estimate import MEAN, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Moments
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths


@dataclass(frozen=True, eq=False)
class Mean:
    """The reading of a mean: a score for each output, and how score and squared score grow with the input.

    The mean score of x is `slope` * x: one for a calibrated reading, less for a naive one.
    """

    scores: NDArray[np.float64] = field(repr=False)
    square_at_zero: float
    square_growth: float
    slope: float
    exact_moments: Callable[[NDArray[np.float64]], Moments] = field(repr=False)
    rounding: float = 0.0  # the most that rounding to the lattice adds to a variance

    @property
    def domain(self) -> UnitInterval:
        """Numbers from -1 to 1."""
        return UnitInterval()

    def worst_variance(self, share: float = 1.0) -> float:
        """The largest variance of one report over all populations, where this share of the users is asked."""
        return self.square_at_zero + max(0.0, self.square_growth - share * self.slope**2) + self.rounding

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimate:
        """The mean with its standard error; of the `among` users from whom the reports were drawn, if more."""
        shares = tally.counts / tally.n
        value: Any = shares @ self.scores  # a NumPy number, as an array of no dimension would be
        square = float(shares @ self.scores**2)
        least = min((value / self.slope) ** 2, 1.0)  # of few reports it may be beyond all inputs
        power = (square - self.square_at_zero) / self.square_growth if self.square_growth else least
        power = min(max(power, least), 1.0)
        variance = self.square_at_zero + (self.square_growth - self.slope**2) * power
        unasked = 0.0 if among is None else 1 - tally.n / among
        variance = max(variance + unasked * (power - least), 0.0)
        note = f"Each report is calibrated to be unbiased, with a standard deviation of about {variance**0.5:.3g}."
        stderr: Any = np.float64((variance / tally.n) ** 0.5)
        return Estimate(value, stderr, tally.n, guarantee, "mean", source=source, notes=(note,), bounds=MEAN)

    def worths(self) -> Worths:
        """What a report is worth to the mean: its score. To the last digits, as scores are floating-point numbers."""
        ends = (Fraction(float(end)) for end in (self.scores.max(), self.scores.min()))
        return (Worth.of_mean(*ends, exact=False),)

    def moments(self, x: Any) -> Moments:
        """Of one calibrated report, for each input."""
        return self.exact_moments(self.domain.check(x))
