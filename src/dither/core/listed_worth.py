"""What a report is worth where a mechanism does not say: each of its reports is estimated alone, if these are few.

That is what a report adds to an average over reports, so it is only believed of an estimate that is one: the estimate
from all reports together must be the average of those from single ones. It is a result of floating-point numbers, to
about ten digits; a mechanism that says it itself (`Mechanism.report_worth`) says it exactly.
"""

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dither.core.domains import CATEGORIES
from dither.core.worth import ONE, ZERO, Worth, Worths
from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.core.mechanism import Mechanism

MOST_LISTED = 1 << 12
_CLOSE = 1e-9


def listed_worth(mechanism: "Mechanism[Any]") -> Worths | None:
    """By estimating each report alone; None if they are too many, or if estimates are no averages over reports."""
    if mechanism.channel().shape[1] > MOST_LISTED:
        return None
    try:
        reports = mechanism.outputs()
    except ParameterError:
        return None
    alone = [mechanism.estimate(mechanism.tally(report)).numbers() for report in reports]
    low = ZERO if mechanism.takes == CATEGORIES else -ONE
    found = []
    for name, numbers in mechanism.estimate(mechanism.tally(reports)).numbers().items():
        table = np.array([each[name] for each in alone])
        if not np.allclose(table.mean(axis=0), numbers, rtol=_CLOSE, atol=_CLOSE):
            return None
        least, most = (Fraction(float(end)) for end in (table.min(), table.max()))
        found.append(Worth(name, least, most, low, items=numbers.size, at_once=None))
    return tuple(found) or None
