"""HDR4ME (000 section V) and HDR4ME* (001 Algorithm 4): the papers' re-calibrations, sound and with their odds.

In units in which the domain is [-1, 1], with y an estimated mean, sigma its standard error and
L = sup |y - truth| at a confidence (1.96 sigma at 95%):

- **L1** (000 eq. 34) takes L off |y| and stops at the centre.
- **L2** (000 eq. 42) divides y by 2 w + 1 with the weight w = L / (2 |mean|). As printed the weight has no value at a
  mean of 0 and changes sign below it; here |mean| is the largest that the domain allows, 1, which needs no raw data and
  keeps the weight finite.
- **adaptive**, HDR4ME*: p1 y + p2 L1 + p3 L2, where p1, p2 and p3 are the probabilities that the deviation is within 1,
  between 1 and 2, and beyond 2.

**When it helps.** L1 is closer to the truth in a dimension whose deviation is beyond 1, L2 in one beyond 2 (Lemma 4
and 5). So *all* dimensions gain if all deviations are beyond: with probability prod_j P(|dev_j| > 1), or 2. The papers
state 1 - P(all within), which is the probability that at least *one* is beyond: at d = 100, sigma = 0.5 and means of
0.9 that says 0.99 where the method never helps. The right one is nearly 0 wherever the estimate is of any use, and then
this module warns. `shrink` has no such threshold.

**Standard errors** of a shrunk value must own up to its bias. They are the root of Stein's unbiased estimate of the
mean squared error, which needs sigma and the slope of the shrinkage only, averaged over items and floored at the
noise that is left.
"""

import math
import warnings
from statistics import NormalDist

import numpy as np

from dither.core.checks import checked_confidence
from dither.core.estimate import MEAN, Estimate
from dither.errors import HarmWarning, ParameterError
from dither.refine.inputs import Numbers, bounds_of, refined_estimate, values_and_errors

PENALTIES = ("l1", "l2", "adaptive")
_LIKELY = 0.5


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
    found, slope, odds = _shrunk(penalty, y, sigma, reach)
    helps = float(np.exp(np.sum(np.log(np.maximum(odds, 1e-300)))))
    if helps < _LIKELY:
        warnings.warn(
            f"this re-calibration is sure to help only if every deviation is large, which has probability {helps:.2g}; "
            "it may do harm. refine.shrink has no such condition",
            HarmWarning,
            stacklevel=2,
        )
    left = np.abs(slope) * sigma
    risk = np.mean((found - y) ** 2 + (2 * slope - 1) * sigma**2)  # Stein
    note = (
        f"HDR4ME ({penalty}, {confidence:.0%}): surely closer in all {y.size:,} items with probability {helps:.3g}. "
        "Standard errors are root mean squared errors, estimated without bias and averaged over items."
    )
    error = np.sqrt(np.maximum(left**2, max(float(risk), 0.0)))
    return refined_estimate(estimate, centre + half * found, half * error, note)


def _shrunk(penalty: str, y: Numbers, sigma: Numbers, reach: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """New values, their slope as functions of y, and for each item the probability that it is closer to the truth."""
    beyond_one, beyond_two = (_beyond(limit, sigma) for limit in (1.0, 2.0))
    soft, soft_slope = np.sign(y) * np.maximum(np.abs(y) - reach, 0.0), (np.abs(y) > reach).astype(np.float64)
    factor = 1 / (reach + 1.0)
    if penalty == "l1":
        return soft, soft_slope, beyond_one
    if penalty == "l2":
        return y * factor, factor, beyond_two
    shares = 1 - beyond_one, beyond_one - beyond_two, beyond_two
    found = shares[0] * y + shares[1] * soft + shares[2] * y * factor
    slope = shares[0] + shares[1] * soft_slope + shares[2] * factor
    return found, slope, beyond_one


def _beyond(limit: float, sigma: Numbers) -> Numbers:
    """The probability that a deviation is beyond a limit."""
    return np.array([math.erfc(limit / (each * math.sqrt(2))) for each in sigma])
