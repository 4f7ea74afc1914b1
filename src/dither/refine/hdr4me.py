"""HDR4ME (000 section V) and HDR4ME* (001 Algorithm 4): the papers' re-calibrations, sound, and what they change.

In units in which the domain is [-1, 1], with y an estimated mean, sigma its standard error and
L = sup |y - truth| at a confidence (1.96 sigma at 95%):

- **L1** (000 eq. 34) takes L off |y| and stops at the centre.
- **L2** (000 eq. 42) divides y by 2 w + 1 with the weight w = L / (2 |mean|). As printed the weight has no value at a
  mean of 0 and changes sign below it; here |mean| is the largest that the domain allows, 1, which needs no raw data and
  keeps the weight finite.
- **adaptive**, HDR4ME*: p1 y + p2 L1 + p3 L2, where p1, p2 and p3 are the probabilities that the deviation is within 1,
  between 1 and 2, and beyond 2.

**When it helps.** L1 is closer to the truth in a dimension whose deviation is beyond 1, L2 in one beyond 2 (Lemma 4 and
5). The papers state 1 - P(all within) for the probability that the error shrinks, which is that of at least *one* being
beyond: at d = 100, sigma = 0.5 and means of 0.9 that says 0.99 where the method never helps. The product of the tails,
that *all* are beyond, is enough and far from needed: it is 8.9e-5 or less at the settings of 000 Fig. 4, where the
error shrank in every run. No such probability is known without the truth. What is known is Stein's estimate of the
change in the squared error. With g = (shrunk value) - y and e = y - truth the change in one collection is

    L = sum of  g^2 + 2 g e,        estimated without bias by        D = sum of  g^2 + 2 sigma^2 g',

since E[g e] = sigma^2 E[g'] for normal errors. How far D is from L is known too, again without the truth (Stein's
formula of the second order, Bellec and Zhang 2021):

    E (D - L)^2  =  4 E [ g' C g + sum over j, k of C_jk^2 g_j' g_k' ]

for errors with the covariance C, which for uncorrelated ones is the sum of sigma^2 g^2 + sigma^4 g'^2. Both are said in
`explain()`. Near the boundary D is on the wrong side nearly half of the time, so it is no verdict: there is a warning
only where it exceeds zero by more than `SIGNIFICANT` standard errors. `shrink` has no such condition.

**Standard errors** of a shrunk value must own up to its bias. They are the root of Stein's unbiased estimate of the
mean squared error, which needs sigma and the slope of the shrinkage only, averaged over items and floored at the
noise that is left.
"""

import math
import warnings
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dither.core.checks import checked_confidence
from dither.core.counted_covariance import CountedCovariance
from dither.core.covariance import Covariance
from dither.core.estimate import MEAN, Estimate
from dither.errors import HarmWarning, ParameterError
from dither.refine.inputs import Numbers, bounds_of, refined_estimate, values_and_errors

PENALTIES = ("l1", "l2", "adaptive")
SIGNIFICANT = 2.0  # standard errors: a warning without harm has a probability of about 2%


class RiskChange(NamedTuple):
    """Stein's estimate of the change in the mean squared error, beside what it was, and its standard error."""

    change: float
    stderr: float

    @property
    def harms(self) -> bool:
        """Whether it stands out of its own noise that the error grows."""
        return self.change > SIGNIFICANT * self.stderr

    def __str__(self) -> str:
        return f"{self.change:+.1%} by Stein's estimate, with a standard error of {self.stderr:.1%}"


def hdr4me(estimate: Estimate, penalty: str = "adaptive", confidence: float = 0.95) -> Estimate:
    """The papers' re-calibration of many means, or of the frequencies of `Histogram` (000 V-C).

    >>> import numpy as np
    >>> from dither import Sampled
    >>> mechanism = Sampled("Laplace", d=4, m=4, epsilon=0.001)
    >>> found = mechanism.estimate(mechanism.tally(mechanism.randomize(np.zeros((500, 4)), seed=1)))
    >>> better = hdr4me(found, "l1")
    >>> bool(np.mean(better.value**2) < np.mean(found.value**2))
    True
    """
    if penalty not in PENALTIES:
        raise ParameterError(f"penalty must be one of {', '.join(PENALTIES)}")
    confidence = checked_confidence(confidence)
    value, stderr = values_and_errors(estimate, fresh=True)
    bounds = bounds_of(estimate) or MEAN
    if not math.isfinite(bounds.high - bounds.low):
        raise ParameterError("HDR4ME needs a range with two ends; refine.shrink does without")
    centre, half = (bounds.low + bounds.high) / 2, (bounds.high - bounds.low) / 2
    if bounds.total is not None:  # frequencies are sparse: the papers shrink them to 0, on a domain of width 1
        centre, half = bounds.low, bounds.high - bounds.low
    y, sigma = (value - centre) / half, stderr / half
    reach = sigma * NormalDist().inv_cdf((1 + confidence) / 2)
    found, slope = _shrunk(penalty, y, sigma, reach)
    change = _risk_change(found - y, slope - 1, sigma, estimate.correlation)
    if change.harms:
        warnings.warn(
            f"this re-calibration does harm here: the mean squared error changes by {change}. refine.shrink draws "
            "values to where the others are, and not to the centre",
            HarmWarning,
            stacklevel=2,
        )
    left = np.abs(slope) * sigma
    risk = float(np.mean(sigma**2)) * (1 + change.change)
    note = (
        f"HDR4ME ({penalty}, {confidence:.0%}): the mean squared error of {y.size:,} items changes by {change}. "
        "Standard errors are root mean squared errors, estimated without bias and averaged over items."
    )
    error = np.sqrt(np.maximum(left**2, max(risk, 0.0)))
    return refined_estimate(estimate, centre + half * found, half * error, note)


def _risk_change(
    step: Numbers, slope: Numbers, sigma: Numbers, correlation: Covariance | CountedCovariance | None
) -> RiskChange:
    """Of moving each y by a step, a function of y with this slope. Errors are uncorrelated, if nothing is known."""
    together = Covariance.uncorrelated(np.ones(step.size)) if correlation is None else correlation
    change = float(np.sum(step**2 + 2 * sigma**2 * slope))
    spread = 4 * (together.variance_of(sigma * step) + together.squared_form(sigma**2 * slope))
    before = float(np.sum(sigma**2))
    return RiskChange(change / before, math.sqrt(spread) / before)


def _shrunk(penalty: str, y: Numbers, sigma: Numbers, reach: Numbers) -> tuple[Numbers, Numbers]:
    """New values, and their slope as functions of y."""
    soft, soft_slope = np.sign(y) * np.maximum(np.abs(y) - reach, 0.0), (np.abs(y) > reach).astype(np.float64)
    factor = 1 / (reach + 1.0)
    if penalty == "l1":
        return soft, soft_slope
    if penalty == "l2":
        return y * factor, factor
    beyond_one, beyond_two = (_beyond(limit, sigma) for limit in (1.0, 2.0))
    shares = 1 - beyond_one, beyond_one - beyond_two, beyond_two
    found = shares[0] * y + shares[1] * soft + shares[2] * y * factor
    slope = shares[0] + shares[1] * soft_slope + shares[2] * factor
    return found, slope


def _beyond(limit: float, sigma: Numbers) -> Numbers:
    """The probability that a deviation is beyond a limit."""
    return np.array([math.erfc(limit / (each * math.sqrt(2))) for each in sigma])
