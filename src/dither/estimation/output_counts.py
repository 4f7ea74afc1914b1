"""Counts of outputs as evidence about cells: the multinomial likelihood that EM and the smooth density both use.

With shares f of the cells an output y has the chance p_y = sum_k P(y | k) f_k, and counts c of the outputs have the
log-likelihood sum_y c_y log p_y. Its derivative by f_k is n D_k with D_k = sum_y (c_y / n) P(y | k) / p_y.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ONE_THREAD = 1 << 17


class OutputCounts(NamedTuple):
    """Counts of outputs, and the probability of each output (row) for each cell (column)."""

    counts: Floats
    law: Floats

    @property
    def n(self) -> float:
        """The number of reports."""
        return float(self.counts.sum())

    def chance(self, shares: Floats) -> Floats:
        """The probability of each output, where the cells have these shares.

        BLAS splits a large product over threads, which on a busy machine wait for each other far longer than it takes.
        """
        return self.law @ shares if self.law.size <= _ONE_THREAD else np.einsum("yk,k->y", self.law, shares)

    def log_likelihood(self, shares: Floats) -> float:
        """Of the counts, but for a constant."""
        return float(self.counts @ np.log(self.chance(shares)))

    def factors(self, chance: Floats) -> Floats:
        """D_k, by which EM multiplies the shares: the slope of the log-likelihood, a report."""
        weights = self.counts / (self.n * chance)
        return weights @ self.law if self.law.size <= _ONE_THREAD else np.einsum("y,yk->k", weights, self.law)
