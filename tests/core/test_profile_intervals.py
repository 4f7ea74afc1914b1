"""Intervals of functions hold as often as they say, for estimates with known normal errors.

Coverage is counted over `MANY` draws of the numbers that a function rests on. If an interval covers with 95%, a count
beyond the limits of `binomial_limits` has a probability of at most 1e-6 (exact binomial tails), and seeds are fixed.
A profile interval is exact for linear functions. For functions that bend it is so to second order in the errors, which
`LEEWAY` allows for; it is conservative where the domain cuts it.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from dither.core.confidence import ProfileIntervals, beyond
from dither.questions.correlations import CorrelationOf, CovarianceOf
from dither.questions.spreads import StdOf, VarianceOf
from dither.schema import Numeric

stats = pytest.importorskip("scipy.stats")

MANY = 1000
ALARM = 1e-6
LEEWAY = 0.01  # of the 5%: what bending may cost at these errors
UNIT = Numeric(-1, 1)
VARIANCE, STD = VarianceOf("x", UNIT), StdOf("x", UNIT)
COVARIANCE = CovarianceOf("x, y", (UNIT, UNIT))
CORRELATION = CorrelationOf("x, y", (UNIT, UNIT))


def binomial_limits(level: float) -> tuple[int, int]:
    """Counts that happen with a probability of less than 1e-6 lie outside of these."""
    law = stats.binom(MANY, level)
    return int(law.ppf(ALARM / 2)), int(law.isf(ALARM / 2))


def moments(mean: float, variance: float) -> list[float]:
    """The mean of a number, and of twice its square less one."""
    return [mean, 2 * (variance + mean**2) - 1]


def together(means: tuple[float, float], variances: tuple[float, float], correlation: float) -> list[float]:
    """The truths that a correlation rests on: the product, both means, both squares."""
    product = means[0] * means[1] + correlation * math.sqrt(variances[0] * variances[1])
    squares = [moments(*each)[1] for each in zip(means, variances, strict=True)]
    return [product, *means, *squares]


def covered(
    function: Callable[[np.ndarray], np.ndarray],
    truth: list[float],
    sigma: list[float] | np.ndarray,
    ends: tuple[float, float],
    seed: int,
) -> int:
    """How many of `MANY` intervals hold the function of the truth."""
    draw, right = np.random.default_rng(seed), float(function(np.array(truth)))
    errors = np.array(sigma)
    inside = np.full(len(truth), -1.0), np.full(len(truth), 1.0)
    count = 0
    for y in np.array(truth) + errors * draw.normal(size=(MANY, len(truth))):
        low, high = ProfileIntervals(function, y, errors, *ends, inside).ends(0.05)
        count += bool(low[0] <= right <= high[0])
    return count


CASES = {
    "a variance": (VARIANCE, moments(0.1, 0.3), [0.02, 0.03], (0.0, 1.0)),
    "one off the middle": (VARIANCE, moments(0.7, 0.1), [0.03, 0.03], (0.0, 1.0)),
    "std": (STD, moments(-0.4, 0.2), [0.02, 0.04], (0.0, 1.0)),
    "covariance": (COVARIANCE, together((0.3, -0.5), (0.2, 0.3), 0.5)[:3], [0.03, 0.02, 0.02], (-1.0, 1.0)),
    "correlation": (CORRELATION, together((0.2, -0.3), (0.3, 0.25), 0.4), [0.02] * 5, (-1.0, 1.0)),
    "none": (CORRELATION, together((0.5, 0.4), (0.2, 0.2), 0.0), [0.01] * 5, (-1.0, 1.0)),
    "linear": (COVARIANCE, [0.2, 0.0, 0.0], [0.1, 1e-9, 1e-9], (-1.0, 1.0)),
}
AT_THE_END = {
    "nearly no variance": (VARIANCE, moments(0.2, 1e-4), [0.02, 0.03], (0.0, 1.0)),
    "none at all": (VARIANCE, moments(0.2, 0.0), [0.02, 0.03], (0.0, 1.0)),
    "nearly no std": (STD, moments(0.2, 1e-4), [0.02, 0.03], (0.0, 1.0)),
    "nearly one": (CORRELATION, together((0.1, 0.2), (0.3, 0.3), 0.999), [0.02] * 5, (-1.0, 1.0)),
    "minus one": (CORRELATION, together((0.1, 0.2), (0.3, 0.3), -1.0), [0.02] * 5, (-1.0, 1.0)),
}


def check_coverage(name: str) -> None:
    question, truth, sigma, ends = CASES[name]
    low, _ = binomial_limits(0.95 - LEEWAY)
    _, high = binomial_limits(0.95 + LEEWAY)
    assert low <= covered(question._at, truth, sigma, ends, 5) <= high


@pytest.mark.wide
@pytest.mark.parametrize("name", CASES)
def test_they_hold_as_often_as_they_say(name):
    check_coverage(name)


@pytest.mark.wide
@pytest.mark.parametrize("name", AT_THE_END)
def test_they_hold_at_the_end_of_a_domain(name):
    """At least: where a variance cannot be below zero, more of them hold."""
    question, truth, sigma, ends = AT_THE_END[name]
    assert covered(question._at, truth, sigma, ends, 6) >= binomial_limits(0.95 - LEEWAY)[0]


@pytest.mark.parametrize("miss", [0.3, 0.05, 1e-4])
def test_of_a_linear_function_they_are_the_usual_ones(miss):
    weights, y, sigma = np.array([1.0, -2.0, 0.5]), np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.02, 0.3])
    rule = ProfileIntervals(lambda values: values @ weights, y, sigma)
    reach = beyond(miss / 2) * math.sqrt(float((weights * sigma) @ (weights * sigma)))
    low, high = rule.ends(miss)
    assert (float(low[0]), float(high[0])) == pytest.approx((y @ weights - reach, y @ weights + reach), rel=1e-6)
    assert rule.of(np.array([0])) is rule


@pytest.mark.parametrize("case", range(6))
def test_they_reach_the_farthest_truth_that_may_be(case):
    """Against a search over the whole ball of truths, by random points: none is beyond, and the ends are attained."""
    draw = np.random.default_rng(case)
    question, truth, sigma, ends = [*CASES.values()][case]
    errors = np.array(sigma)
    y = np.array(truth) + errors * draw.normal(size=len(truth))
    low, high = (float(end[0]) for end in ProfileIntervals(question._at, y, errors, *ends).ends(0.05))
    directions = draw.normal(size=(200_000, len(truth)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    values = np.clip(question._at(y + beyond(0.025) * errors * directions), *ends)
    width = high - low
    assert low - 1e-6 * width <= values.min() <= low + 0.02 * width
    assert high - 0.02 * width <= values.max() <= high + 1e-6 * width


def test_where_variances_may_be_zero_nothing_is_known():
    truth, errors = together((0.1, 0.2), (0.01, 0.3), 0.5), np.full(5, 0.05)
    low, high = ProfileIntervals(CORRELATION._at, np.array(truth), errors, -1.0, 1.0).ends(0.05)
    assert (low.tolist(), high.tolist()) == ([-1.0], [1.0])
    certain = ProfileIntervals(CORRELATION._at, np.array(truth), errors / 1000, -1.0, 1.0).ends(0.05)
    assert 0.4 < float(certain[0][0]) < 0.5 < float(certain[1][0]) < 0.6


def test_they_grow_with_the_level():
    question, truth, sigma, ends = CASES["correlation"]
    rule = ProfileIntervals(question._at, np.array(truth), np.array(sigma), *ends)
    found = [rule.ends(miss) for miss in (0.5, 0.1, 0.01, 1e-4)]
    assert all(wide[0] <= narrow[0] < narrow[1] <= wide[1] for narrow, wide in pairwise(found))
