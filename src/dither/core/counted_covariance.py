"""Covariances of items that outputs support: from the counts of the outputs, without a matrix.

Where every report is one of M outputs, and each output *supports* a fixed set of items, the estimate of item v is the
average over reports of (1{y supports v} - q) / (p - q). A combination of items with weights a is then the average of

    g(y)  =  (sum of a over the items that y supports  -  q sum of a) / (p - q)

whose mean, for a user who holds x, is a_x. Given what the users hold, its variance is the mean of g^2 over reports less
the mean of a_x^2 over users, over the number of reports; and both are read off the same counts, without bias, for any
weights. What a design of k items and M outputs needs for it is the sum of a over the items of every output, one fast
transform, where the matrix of covariances would have k^2 entries.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dither.errors import ParameterError

Floats = NDArray[np.float64]

MOST_DENSE = 512  # items, whose matrix is made in some milliseconds


@dataclass(frozen=True, eq=False)
class CountedCovariance:
    """Of what one report adds to the estimates of items, in a population with these `shares`.

    `supported(weights)` adds up, for each output, the weights of the items that it supports; `outputs` are the shares
    of the reports. `unasked` is the share of the users who might have been asked and were not. `unit` is what each
    item is multiplied with; only `items` are looked at.
    """

    supported: Callable[[Floats], Floats]
    p: float
    q: float
    outputs: Floats
    shares: Floats
    unasked: float
    unit: Floats
    items: NDArray[np.intp]

    @property
    def size(self) -> int:
        """The number of items."""
        return self.items.size

    @property
    def variance(self) -> Floats:
        """Of each item: an output supports it or does not."""
        share = self.shares[self.items]
        often = self.q + share * (self.p - self.q)
        score = (often * (1 - 2 * self.q) + self.q**2) / (self.p - self.q) ** 2
        found = score - share + self.unasked * share * (1 - share)
        return np.maximum(found, 0.0) * self.unit[self.items] ** 2

    @property
    def correlation(self) -> "CountedCovariance":
        """The correlations: the same in units of standard errors. An item without variance has none."""
        variance = self.variance
        known = variance > 0
        return self.scaled(np.where(known, 1 / np.sqrt(np.where(known, variance, 1.0)), 0.0))

    def between(self, first: ArrayLike, second: ArrayLike) -> float:
        """The covariance of two linear combinations of the items."""
        one, other = self._weights(first), self._weights(second)
        reports = self.outputs @ (self._score(one) * self._score(other))
        held = self.shares @ (one * other)
        apart = held - (self.shares @ one) * (self.shares @ other)
        return float(reports - held + self.unasked * apart)

    def squared_form(self, weights: ArrayLike) -> float:
        """The quadratic form of the squared covariances; of many items, without what is between two."""
        given = np.ravel(np.asarray(weights, dtype=np.float64))
        if self.size > MOST_DENSE:
            return float(np.square(given * self.variance).sum())
        return max(float(given @ np.square(self.dense()) @ given), 0.0)

    def variance_of(self, weights: ArrayLike) -> float:
        """The variance of a linear combination of the items."""
        return max(self.between(weights, weights), 0.0)

    def scaled(self, by: ArrayLike) -> "CountedCovariance":
        """Of items that are multiplied, each by its own number or all by one."""
        unit = self.unit.copy()
        unit[self.items] *= np.broadcast_to(np.asarray(by, dtype=np.float64), self.items.shape)
        return replace(self, unit=unit)

    def of(self, items: NDArray[np.intp] | NDArray[np.bool_]) -> "CountedCovariance":
        """That of some of the items."""
        return replace(self, items=self.items[items])

    def dense(self) -> Floats:
        """The matrix, for few items."""
        return self.of_sums(np.eye(self.size))

    def of_sums(self, rows: ArrayLike) -> Floats:
        """The matrix of a few linear combinations of the items, one a row."""
        weights = np.array([self._weights(row) for row in np.asarray(rows, dtype=np.float64)])
        scores = np.array([self._score(row) for row in weights])
        held = (weights * self.shares) @ weights.T
        one = weights @ self.shares
        return (scores * self.outputs) @ scores.T - held + self.unasked * (held - np.outer(one, one))

    def _score(self, weights: Floats) -> Floats:
        """What each output adds to a combination."""
        return (self.supported(weights) - self.q * weights.sum()) / (self.p - self.q)

    def _weights(self, given: ArrayLike) -> Floats:
        """Of all items, in their units."""
        weights = np.ravel(np.asarray(given, dtype=np.float64))
        if weights.size != self.size:
            raise ParameterError(f"{self.size:,} items need as many weights")
        full = np.zeros(self.unit.size)
        full[self.items] = weights * self.unit[self.items]
        return full
