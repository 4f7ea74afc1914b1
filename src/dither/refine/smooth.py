"""Smoothing: the values of an attribute with an order learn from their neighbours.

The shares of ages, hours or bins of incomes are noisy one by one, and change little from one to the next. `shrink`,
which knows no order, can only pull all of them towards each other. Here the log-density has a prior under which it is
smooth, of every order and strength, and the noisy shares decide between them by their evidence (`estimation.density`):
a jump or a spike that stands out of the noise stays.

Shares come out positive, with sum one, and standard errors are those of the posterior, which hold what smoothing irons
out. `benchmarks/smooth.py` compares 42 combinations of shape, size and noise: the error is below that of the values
before in all of them, and below that of `shrink` in all but those of a single spike on even ground, and of even shares,
where both are small.
"""

import numpy as np

from dither.core.estimate import Estimate
from dither.core.parallel import small_matrices
from dither.errors import ParameterError
from dither.estimation.density import NoisySums, smoothed
from dither.refine.inputs import bounds_of, refined_estimate, values_and_errors
from dither.refine.marginals import LEAST, from_neighbours

MOST_CELLS = 256  # the work grows with the third power


def smooth(estimate: Estimate) -> Estimate:
    """The shares of values with an order, each learned from its neighbours too.

    >>> import numpy as np
    >>> from dither import GRR
    >>> mechanism = GRR(k=20, epsilon=1.0)
    >>> values = np.repeat(np.arange(20), np.arange(20) * 100)
    >>> found = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=1)))
    >>> better, truth = smooth(found), np.arange(20) / 190
    >>> bool(np.abs(better.value - truth).mean() < np.abs(found.value - truth).mean() / 2)
    True
    """
    value, stderr = values_and_errors(estimate, fresh=True)
    bounds = bounds_of(estimate)
    if bounds is None or bounds.total != 1 or not 2 <= value.size <= MOST_CELLS:
        raise ParameterError(
            f"smooth is for the shares of 2 to {MOST_CELLS} values with an order, which add up to one; use shrink"
        )
    with small_matrices():
        found = smoothed(value.size, None, [NoisySums(np.eye(value.size), value, stderr**2)])
        rule = from_neighbours(value, stderr, bounds, estimate.variance) if value.size >= LEAST else None
    errors = np.sqrt(np.maximum(np.diagonal(found.covariance), 0.0))
    note = "Smoothed: each value has learned from its neighbours."
    return refined_estimate(estimate, found.value, errors, note, rule=rule)
