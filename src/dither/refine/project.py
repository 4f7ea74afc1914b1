"""What the domain tells: values lie in a range, and frequencies are not negative and add up to one.

- `clip` moves values into their range.
- `simplex` is the nearest point, in Euclidean distance, among all frequencies. Those of the 2d items of sparse vectors
  with at most s keys add up to at most s, and none is above one (003 section 8 projects onto the same set).
- `norm_sub` (004 section 4.2) takes the same amount off every value and sets what becomes negative to zero, with the
  amount chosen so that the rest adds up to one: for shares of one question the same point as `simplex`, under the name
  that the papers use. It needs a known total. (Amounts in proportion to the variances, the projection in units of the
  noise, were tried: standard errors of shares are alike enough that it gains 1% with GRR and nothing elsewhere.)
- `base_cut` keeps only what stands out of the noise, more than `threshold` standard errors, and says zero of the rest.

**Standard errors.** A projection onto a convex set that holds the truth never moves away from it: the sum of squared
errors does not grow. Which item gains how much depends on the truth, so the standard errors stay those of the values
before: too wide on average, never too narrow. For values on a border the estimate is biased inward. `base_cut` is no
projection: what it drops is wrong by its own size, and its standard errors say so.
"""

import numpy as np

from dither.core.checks import checked_real
from dither.core.estimate import Bounds, Estimate
from dither.errors import ParameterError
from dither.estimation.simplex import onto_simplex
from dither.refine.inputs import bounds_of, refined_estimate, values_and_errors


def clip(estimate: Estimate) -> Estimate:
    """Values moved into the range of the domain.

    >>> from dither import GRR
    >>> mechanism = GRR(k=3, epsilon=0.5)
    >>> found = mechanism.estimate(mechanism.tally(mechanism.randomize([0] * 50, seed=1)))
    >>> bool((clip(found).value >= 0).all())
    True
    """
    value, stderr = values_and_errors(estimate, positive=False)
    bounds = _bounds(estimate)
    inside = np.clip(value, bounds.low, bounds.high)
    moved = int((inside != value).sum())
    return refined_estimate(
        estimate, inside, stderr, f"Clipped to [{bounds.low:g}, {bounds.high:g}]: {moved:,} of {value.size:,} moved."
    )


def simplex(estimate: Estimate, total: float | None = None) -> Estimate:
    """The nearest frequencies: not negative, and adding up to one.

    What items of sparse vectors add up to is known only as a bound, s; `total` states it, where all users have s keys.

    >>> from dither import Collision
    >>> mechanism = Collision(d=5, s=2, epsilon=1.0)
    >>> found = mechanism.estimate(mechanism.tally(mechanism.randomize([{0: 1, 3: -1}] * 500, seed=1)))
    >>> nearest = simplex(found["frequency"], total=2)
    >>> bool((nearest.value >= 0).all()), round(float(nearest.value.sum()), 6)
    (True, 2.0)
    """
    value, stderr = values_and_errors(estimate, positive=False)
    bounds = _bounds(estimate)
    if total is not None:
        bounds = bounds._replace(total=_checked_total(total, bounds, value.size))
    if bounds.low != 0 or (bounds.total is None and bounds.most is None):
        raise ParameterError("only frequencies, which add up to one, can be projected; use clip or shrink for means")
    inside = np.clip(value, 0.0, bounds.high)
    if bounds.total is None and bounds.most is not None and inside.sum() <= bounds.most:
        nearest, what = inside, f"at most {bounds.most:g}"
    else:
        whole = bounds.most if bounds.total is None else bounds.total
        nearest, what = onto_simplex(value, float(whole or 1.0), bounds.high), f"{whole:g}"
    zeros = int((nearest == 0).sum())
    return refined_estimate(
        estimate,
        nearest,
        stderr,
        f"Projected onto frequencies that add up to {what}; {zeros:,} of {value.size:,} are 0.",
    )


def _checked_total(total: float, bounds: Bounds, items: int) -> float:
    total = checked_real("total", total)
    if not 0 < total <= min(bounds.high * items, bounds.most or np.inf):
        raise ParameterError("total is what all frequencies add up to: above 0, and no more than they can")
    return total


def norm_sub(estimate: Estimate) -> Estimate:
    """The same taken off every value, and what becomes negative set to zero, so that the rest adds up to one."""
    value, stderr = values_and_errors(estimate, positive=False)
    total = _bounds(estimate).total
    if total is None:
        raise ParameterError("only frequencies, which add up to one, can be projected; use clip or shrink for means")
    found = onto_simplex(value, total)
    largest = value.argmax()
    amount, zeros = value.flat[largest] - found.flat[largest], int((found == 0).sum())
    return refined_estimate(
        estimate, found, stderr, f"Norm-Sub: {amount:.3g} taken off each value, {zeros:,} of {value.size:,} set to 0."
    )


def base_cut(estimate: Estimate, threshold: float = 2.0) -> Estimate:
    """What is within `threshold` standard errors of zero becomes zero."""
    threshold = checked_real("threshold", threshold)
    if not threshold >= 0:
        raise ParameterError("threshold must be a number of standard errors, for example 2.0")
    value, stderr = values_and_errors(estimate)
    if _bounds(estimate).low != 0:  # a mean of -0.9 stands out of the noise too
        raise ParameterError("only frequencies, which are 0 or more, can be cut at 0; use clip or shrink for means")
    kept = value > threshold * stderr
    # What is dropped was below the threshold, and may have been as large as its upper end.
    missed = np.sqrt(stderr**2 + np.clip(value, 0.0, None) ** 2)
    return refined_estimate(
        estimate,
        np.where(kept, value, 0.0),
        np.where(kept, stderr, missed),
        f"Base-Cut: {int((~kept).sum()):,} of {value.size:,} values within {threshold:g} standard errors of 0 dropped.",
    )


def _bounds(estimate: Estimate) -> Bounds:
    bounds = bounds_of(estimate)
    if bounds is None:
        raise ParameterError("the range of this estimate is not known; set it with dataclasses.replace(bounds=...)")
    return bounds
