"""Deviations of groups put together: users with budgets and regions of their choice (001 section 4.1.3, theorem 3).

Users of group z send r_z reports about an item, whose calibrated average deviates from the mean of these users by a
normal error with bias b_z and variance V_z (`utility.deviation`). Groups have different users, so with weights w_z that
add up to 1

    sum w_z y_z        is normal about        sum w_z theta_z        with        B = sum w_z b_z,   V = sum w_z^2 V_z.

- `"reports"`, the paper's pooling: w_z = r_z / r, every report counts once. With V_z = Var_z / r_z this is theorem 3:
  B = sum r_z b_z / r and V = sum r_z Var_z / r^2. A group with a tiny budget spoils it for all.
- `"inverse variance"`: w_z in proportion to 1 / V_z, item by item. No weights have a smaller V. What is estimated is
  sum w_z theta_z, which is the mean of all users only if groups are alike.
- weights that are given: shares of users, or public sizes (stratified).

Distribution functions differ from the normal one by at most the sum of what those of the groups do: a convolution adds
no more than that.

**Regions.** A group whose values are scaled from a region of half-width h to [-1, 1] has h b_z and h^2 V_z
(`Deviation.scaled`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import is_list, real_array
from dither.errors import ParameterError
from dither.utility.deviation import Deviation

REPORTS, INVERSE_VARIANCE = "reports", "inverse variance"
_SUM = 1e-9
_WEIGHTS = 'weights must be "reports", "inverse variance", or one number for each group, which add up to 1'


def pooled_deviation(groups: Sequence[Deviation], weights: Any = REPORTS) -> Deviation:
    """What the results of groups with different users, put together, will be off by.

    >>> from dither import Laplace
    >>> from dither.utility import deviation
    >>> careful, generous = (deviation(Laplace(epsilon), "uniform", reports=5000) for epsilon in (0.5, 4.0))
    >>> [round(pooled_deviation([careful, generous], way).rmse, 4) for way in ("reports", "inverse variance")]
    [0.0403, 0.0099]
    """
    listed = list(groups) if is_list(groups) else []
    fine = bool(listed) and all(isinstance(each, Deviation) for each in listed)
    if not fine or len({np.shape(each.bias) for each in listed}) > 1:
        raise ParameterError("groups must be deviations of the same items: dither.utility.deviation(...) for each")
    shares = _shares(listed, weights)
    bias = sum((share * each.bias for share, each in zip(shares, listed, strict=True)), np.zeros(()))
    variance = sum((share**2 * each.variance for share, each in zip(shares, listed, strict=True)), np.zeros(()))
    error = min(1.0, sum(each.normal_error for each in listed))
    return Deviation(np.asarray(bias), np.asarray(variance), sum(each.reports for each in listed), error)


def _shares(groups: Sequence[Deviation], weights: Any) -> NDArray[np.float64]:
    """How much each group counts, item by item."""
    if isinstance(weights, str):
        if weights not in (REPORTS, INVERSE_VARIANCE):
            raise ParameterError(_WEIGHTS)
        counts = [np.full(np.shape(each.bias), float(each.reports)) for each in groups]
        numbers = np.stack(counts if weights == REPORTS else [1 / each.variance for each in groups])
        return numbers / numbers.sum(axis=0)
    given = real_array(weights)
    if given is None or given.shape != (len(groups),) or not (given >= 0).all() or abs(given.sum() - 1) > _SUM:
        raise ParameterError(_WEIGHTS)
    return given
