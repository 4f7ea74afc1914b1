"""What a refinement needs of an estimate: finite values, standard errors, and a range."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dither.core.confidence import IntervalRule
from dither.core.estimate import Bounds, Estimate
from dither.errors import ParameterError

Numbers = NDArray[np.float64]


def values_and_errors(estimate: Estimate, *, positive: bool = True, fresh: bool = False) -> tuple[Numbers, Numbers]:
    """The items and their standard errors as flat arrays; refuses what is missing or not finite.

    `fresh` ones are unbiased with errors of their own: not the result of another refinement.
    """
    if not isinstance(estimate, Estimate):
        raise ParameterError(
            "a refinement takes an Estimate; of several results refine each: estimates['mean(age)'].refine()"
        )
    if fresh and estimate.original is not None:
        raise ParameterError(
            "this estimate is refined already: its errors are not those of reports. Refine its .original"
        )
    value, stderr = (
        np.atleast_1d(np.asarray(part, dtype=np.float64)).ravel() for part in (estimate.value, estimate.stderr)
    )
    if value.size == 0:
        raise ParameterError("this estimate has no items to refine")
    if not np.isfinite(value).all():
        missing = int((~np.isfinite(value)).sum())
        raise ParameterError(f"{missing:,} items of this estimate are not finite: collect reports on them first")
    if positive and not (np.isfinite(stderr).all() and (stderr > 0).all()):
        raise ParameterError("this estimate has no standard errors; a refinement weighs values by them")
    return value, stderr


def bounds_of(estimate: Estimate) -> Bounds | None:
    """What the domain tells, if it tells anything; refuses a range without an inside."""
    bounds = estimate.bounds
    if bounds is not None and not bounds.low < bounds.high:
        raise ParameterError("the bounds of this estimate must have a low end below a high end, for example (-1, 1)")
    return bounds


def refined_estimate(
    estimate: Estimate, value: Numbers, stderr: Numbers, *notes: str, rule: IntervalRule | None = None
) -> Estimate:
    """The estimate with new values, the old one beside it, and how its intervals are found."""
    shape = np.shape(estimate.value)
    return replace(
        estimate,
        value=value.reshape(shape) if shape else np.float64(value[0]),
        stderr=stderr.reshape(shape) if shape else np.float64(stderr[0]),
        notes=(*estimate.notes, *notes),
        original=estimate if estimate.original is None else estimate.original,
        rule=rule or estimate.rule,
    )
