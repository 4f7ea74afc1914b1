"""Devices that count for more than others: the mean update with weights p_k (001 section 6.1).

The server moves by sum_k p_k z_k, z_k what the report of device k is worth. The p_k are public, chosen without looking
at any report: each device's share of all records, for example, which is public then. Reports are drawn as ever, so
every device keeps its promise to the letter, and what is made of reports by public weights is worked out afterwards.

**Whole numbers.** Mechanisms read a mean off a tally, and not off one report: a coordinate that a user was not asked
about has no score. So device k counts w_k times, with w_k whole and in proportion to p_k, and the tally is

    sum_k w_k c_k,    n = sum_k w_k    (the report of device k, w_k times).

It is exact: the bits of the w_k are added up from the highest, the sum so far being doubled in between, and a tally
refuses to overflow. Whole weights up to 2^20 stay what they are, divided by what they have in common; others are
rounded to multiples of the largest over 2^20, and count once at least.

**Noise.** sum_k p_k z_k has the variance sum_k p_k^2 Var(z_k), that of sum p_k^2 = 1 / n' reports: n' = (sum w)^2 /
sum w^2 <= n is how many equal devices would be as exact (Kish 1965). 001 (Lemma 8) has 1/n for any weights, which is
too small for all that are not equal. A tally of copies knows nothing of it, and `weighted_estimate` mends its standard
errors: they are times sqrt(sum w^2 / sum w). That is exact where noise is the same for all vectors; elsewhere it takes
the variance of a report to go with its weight no more than by chance.

What goes wrong: weights that a device may choose, or that are secret; reports in no order, as a shuffler passes them
on, since nobody knows whose weight is whose; and one device with most of the weight, whose noise nobody averages out.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import real_array
from dither.core.estimate import Estimate
from dither.core.tally import Tally
from dither.errors import ParameterError, ReportError
from dither.learn.federated.encoders import VectorEncoder

MOST_COPIES = 1 << 20  # of the report of the device that counts most

Copies = NDArray[np.int64]


def checked_weights(weights: Any) -> Copies:
    """How often each device counts: whole numbers in proportion to the weights, in lowest terms.

    >>> checked_weights([0.5, 0.25, 0.25]).tolist(), checked_weights([300, 120, 60]).tolist()
    ([2, 1, 1], [5, 2, 1])
    """
    found = real_array(weights)
    if found is None or found.ndim != 1 or not found.size or not (np.isfinite(found) & (found > 0)).all():
        raise ParameterError(
            "weights must be a finite number above 0 for each device, as in weights=[120, 80, 80]: how many records it "
            "has, if that is public. Leave devices that do not count out"
        )
    whole = bool((found == np.rint(found)).all()) and found.max() <= MOST_COPIES
    copies = np.rint(found if whole else found / found.max() * MOST_COPIES).astype(np.int64)
    copies = np.maximum(copies, 1)
    return copies // np.gcd.reduce(copies)


def effective_reports(copies: Copies) -> float:
    """How many devices of equal weight would have as exact a mean.

    >>> effective_reports(checked_weights([0.7, 0.1, 0.1, 0.1])) < 2, effective_reports(np.array([1, 1, 1]))
    (True, 3.0)
    """
    total = int(copies.sum())
    return total**2 / sum(int(each) ** 2 for each in copies)


def weighted_tally(encoder: VectorEncoder, reports: NDArray[Any], copies: Copies) -> Tally:
    """The tally in which each report counts so many times."""
    rows = np.atleast_1d(reports)
    if len(rows) != len(copies):
        raise ReportError(f"there are {len(copies):,} weights: give one report for each, in the same order")
    total = encoder.tally(rows[:0])
    for bit in reversed(range(int(copies.max(initial=0)).bit_length())):
        total = total + total + encoder.tally(rows[(copies >> bit & 1).astype(bool)])
    return total


def weighted_estimate(encoder: VectorEncoder, tally: Tally, copies: Copies) -> Estimate:
    """The weighted mean of the vectors, from `weighted_tally` of these copies, with standard errors of its own.

    >>> from dither.learn.vector_reporter import VectorReporter
    >>> encoder, copies = VectorReporter("BallGaussian", d=2, epsilon=1.0, delta=1e-6), np.array([3, 1])
    >>> reports = encoder.randomize([[0.6, 0.8], [0.0, 1.0]], seed=1)
    >>> weighted = weighted_estimate(encoder, weighted_tally(encoder, reports, copies), copies)
    >>> alone = encoder.estimate(encoder.tally(reports[:1]))
    >>> weighted.n, (weighted.stderr / alone.stderr).round(3).tolist()  # (9 + 1) / 16 is .625, and .791 its root
    (2, [0.791, 0.791])
    """
    if tally.n != int(copies.sum()):
        raise ReportError("this tally does not hold the report of each device as often as it counts: weighted_tally")
    found = encoder.estimate(tally)
    wider = math.sqrt(tally.n / effective_reports(copies))
    note = f"Devices have weights: the noise is that of {effective_reports(copies):,.1f} devices that count alike."
    return replace(found, stderr=found.stderr * wider, n=len(copies), notes=(*found.notes, note), rule=None)
