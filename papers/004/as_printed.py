"""004 exactly as printed, where that is not what its authors ran.

`algorithm_2` is Algorithm 2 without the scaling of the whole table that their code has after every update: the table
does not stay a distribution, and answers about four attributes are far off. Reports are not touched, so the guarantee
is that of the grids.

`rounded_hash` is local hashing with c' = E + 1 rounded to a whole number and p left at 1/2, which the variance
4E/(E-1)^2 takes for granted. What it gives is `spent`, by the largest ratio of two probabilities of one report: more
than was asked for, wherever E + 1 was rounded up. Not for collecting data.
"""

import math
from fractions import Fraction

from .algorithms import Floats, Updated, algorithm_2


def printed_algorithm_2(pairs: Floats, count: int, rounds: int = 100) -> Updated:
    """Algorithm 2 without the scaling."""
    return algorithm_2(pairs, count, rounds=rounds, scaled=False)


def rounded_hash(epsilon: float) -> tuple[Fraction, Fraction, int]:
    """The probabilities of the hashed value and of any other, and how many there are: p = 1/2 whatever c' is.

    >>> rounded_hash(1.0)
    (Fraction(1, 2), Fraction(1, 6), 4)
    """
    values = round(math.exp(epsilon) + 1)
    return Fraction(1, 2), Fraction(1, 2 * (values - 1)), values


def spent(epsilon: float) -> float:
    """The certificate of `rounded_hash`: the logarithm of the largest ratio of the probabilities of one report.

    Two records with different hash values make a report likely with p and with the other probability.

    >>> round(spent(1.0), 4)
    1.0986
    """
    own, other, _ = rounded_hash(epsilon)
    return math.log(own / other)
