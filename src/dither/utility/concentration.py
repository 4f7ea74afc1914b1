"""What is proven for any number of reports: the largest error over all items, without a normal law.

The statements of 002 (Theorems 2, 4 and 5), with their constants. Let n users report, each on an item with probability
q and independently of all others. With I for being asked, y for what a report is worth and m for its mean given the
user's value, the estimate is the average of y over those who were asked. It exceeds the users' mean X by t or more only
if

    sum over users of I (y - X - t)  >=  0.

The terms are independent. Their means add up to -n q u with u = t - B, where B is the bias; their variances to n q (V +
(1 - q) u^2), where V is the variance of y and, as far as users are drawn, of m. Each exceeds its mean by at most b, the
larger of `most - low` and q (high - low + t), for reports worth `least` to `most` and truths and means from `low` to
`high`. So by Bennett's inequality (1962), which is sharper than Bernstein's, with h(x) = (1 + x) log(1 + x) - x and s =
V + (1 - q) u^2,

    P(error >= t)  <=  exp(-n q s / b^2 h(b u / s)),

and likewise below. Nobody having been asked counts as an error. All items together miss at most as often as the sum of
all, whatever their dependence (Bonferroni).

For 002's Algorithm 2 that is sqrt(2 V log(2 / beta) / n) for n large, for d attributes with log(2 d / beta), where the
normal law has very nearly the same: at beta = .05 and d = 1 it has 1.96 in the place of 2.72, at d = 1,000 4.06 in that
of 4.60. What is added for few reports vanishes as 1 / n.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_OUTWARD = 1 + 1e-9  # variances and ranges are rounded up: the formulas are evaluated in floating point
_HALVINGS = 80


@dataclass(frozen=True, eq=False)
class Concentration:
    """Of each item: the share of users who report on it, and the largest bias and variance of their reports."""

    reports: int
    share: Floats
    bias: Floats
    variance: Floats
    span: float  # how far a report can be from what it means
    width: float  # of what a report can mean

    def miss(self, radius: float) -> float:
        """A bound for the probability that some item is off by this much or more."""
        off = np.maximum(radius - self.bias, 0.0)
        variance = (self.variance + (1 - self.share) * off**2) * _OUTWARD
        largest = np.maximum(self.span, self.share * (self.width + radius)) * _OUTWARD
        ratio = np.divide(largest * off, variance, out=np.full_like(off, np.inf), where=variance > 0)
        # h(x) / x^2 goes to 1/2 for small x, and is taken instead of h(x) / b^2: nothing is lost there.
        exponent = self.reports * self.share * off**2 / np.where(variance > 0, variance, 1.0) * _bennett(ratio)
        exponent = np.where(variance > 0, exponent, np.where(off > 0, np.inf, 0.0))
        return min(1.0, float(2 * np.exp(-exponent).sum()))

    def radius(self, confidence: float) -> float:
        """The smallest radius that is proven to hold all items; infinite where so few reports prove none."""
        miss = 1 - confidence
        low, high = 0.0, float(np.max(self.bias)) + self.span
        while self.miss(high) > miss:
            low, high = high, 2 * high
            if high > 1e6 * self.span:
                return math.inf
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.miss(middle) <= miss else (middle, high)
        return high


def _bennett(x: Floats) -> Floats:
    """((1 + x) log(1 + x) - x) / x^2, also where that would cancel."""
    small = x < 1e-3
    inner = np.where(small | np.isinf(x), 1.0, x)
    exact = ((1 + inner) * np.log1p(inner) - inner) / inner**2
    return np.where(np.isinf(x), 0.0, np.where(small, 0.5 - x / 6, exact))  # the next term of the series is positive
