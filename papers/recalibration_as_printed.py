"""What 000 and chapter 4 of 001 print and dither does not do: wrong formulas, and a weight that looks at raw data.

- **Piecewise variance** (000 eq. 14, 001 eq. 4.31): t where t^2 belongs, and e^(h' + 3) where h + 3 does.
- **Third moment of Laplace noise** (Theorem 2): 3 lambda^3 for 6 lambda^3, which makes 1.57% of 2.69%.
- **L2 weight** (000 eq. 42, 001 eq. 4.66): sup / (2 mean) with the mean that is to be estimated. The papers' figures
  need the *true* one. Nothing private is left of it then: `mean_given_away` reads it off the published number, so its
  certificate is epsilon = infinity. Below a mean of 0 the weight is negative and the estimate changes its sign
  (`signed_l2`); `known_mean_l2` takes the absolute value, which is what figures are drawn with.
- **Break-even rule** (001 Algorithm 3): who wins is told by the sign of n' alone.
- **Supremum of a biased deviation** (001 section 4.1.2): limits that are symmetric about the bias, taken off the wrong
  side.

Not for collecting data: `dither.refine` has sound forms of what can be saved.
"""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def piecewise_variance(epsilon: float, values: Numbers) -> float:
    """The average variance of a report by the printed formula."""
    half = epsilon / 2
    grown = math.expm1(half)
    return float(np.mean(values)) / grown + math.exp(half + 3) / (3 * grown**2)


def laplace_bound(reports: int) -> float:
    """Theorem 2 for Laplace noise, with the printed third moment: 3 lambda^3.

    >>> round(100 * laplace_bound(1000), 2)
    1.57
    """
    cube = 2 * math.sqrt(2)  # sigma^3 at lambda = 1
    return 0.33554 * (3 + 0.415 * cube) / (cube * math.sqrt(reports))


def known_mean_l2(y: Numbers, reach: Numbers, mean: Numbers) -> Numbers:
    """L2 with the weight reach / (2 |mean|) of the true means: y / (1 + reach / |mean|)."""
    size = np.abs(mean)
    return y * size / (reach + size)


def mean_given_away(y: float, shrunk: float, reach: float) -> float:
    """What `known_mean_l2` publishes of the raw data: the true mean itself, without its sign.

    >>> shrunk = known_mean_l2(np.array([2.5]), np.array([4.0]), np.array([-0.3]))
    >>> round(mean_given_away(2.5, float(shrunk[0]), 4.0), 12)
    0.3
    """
    return reach * shrunk / (y - shrunk)


def signed_l2(y: Numbers, reach: Numbers, mean: Numbers) -> Numbers:
    """L2 exactly as printed: y / (1 + reach / mean), without a value at 0 and at a mean of -reach."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return y / (1 + reach / mean)


def always_wins(break_even: float) -> str:
    """Algorithm 3 for mechanisms A and B, by its break-even population alone: B from n' <= 0 on."""
    return "B" if break_even <= 0 else ""


def supremum(bias: float, stderr: float, confidence: float) -> float:
    """The xi for which the integral from -(xi - bias)/sigma to (xi - bias)/sigma is the confidence; may be negative."""
    return bias + NormalDist().inv_cdf((1 + confidence) / 2) * stderr
