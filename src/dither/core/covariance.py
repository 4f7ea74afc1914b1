"""Covariances of many errors at once: a diagonal plus a little.

The errors of k items from the same reports are correlated: who reports one category does not report another, and those
who were asked differ from all users in every item at once. Both add a matrix of low rank to a diagonal,

    covariance = diag(d) + F C F',        F with a row for each item and a few columns, C small and symmetric,

so that the variance of a sum of 10^5 items takes 10^5 steps and no matrix of 10^10 entries. C may have negative
eigenvalues: shares that compete have negative covariances.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dither.errors import ParameterError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Covariance:
    """`diagonal` plus `factor` @ `core` @ `factor`.T.

    >>> competing = Covariance(np.full(3, 0.2), np.ones((3, 1)), np.array([[-0.05]]))
    >>> competing.variance.round(3).tolist(), round(competing.variance_of([1, 1, 0]), 3)
    ([0.15, 0.15, 0.15], 0.2)
    """

    diagonal: Floats
    factor: Floats
    core: Floats

    def __post_init__(self) -> None:
        rank = np.shape(self.core)[0] if np.ndim(self.core) == 2 else -1
        if np.shape(self.factor) != (*np.shape(self.diagonal), rank) or np.shape(self.core) != (rank, rank):
            raise ParameterError("a covariance needs a row of factors for each item, and a square core for these")

    @classmethod
    def uncorrelated(cls, variance: ArrayLike) -> "Covariance":
        """Of errors that have nothing to do with each other."""
        diagonal = np.asarray(variance, dtype=np.float64)
        return cls(diagonal, np.zeros((*diagonal.shape, 0)), np.zeros((0, 0)))

    @property
    def size(self) -> int:
        """The number of items."""
        return self.diagonal.size

    @property
    def variance(self) -> Floats:
        """Of each item."""
        return self.diagonal + ((self.factor @ self.core) * self.factor).sum(axis=1)

    def between(self, first: ArrayLike, second: ArrayLike) -> float:
        """The covariance of two linear combinations of the items: the bilinear form of their weights."""
        one, other = self._weights(first), self._weights(second)
        return float((one * self.diagonal) @ other + (one @ self.factor) @ self.core @ (self.factor.T @ other))

    def variance_of(self, weights: ArrayLike) -> float:
        """The variance of a linear combination of the items: the quadratic form of its weights."""
        return max(self.between(weights, weights), 0.0)

    def squared_form(self, weights: ArrayLike) -> float:
        """The quadratic form of the squared covariances: the sum over j, k of w_j w_k C_jk^2.

        With H = F C F' it is the sum of w_j w_k H_jk^2, a matter of small matrices, and what the diagonal adds.
        """
        given = self._weights(weights)
        small = self.factor.T @ (given[:, None] * self.factor)
        own = self.variance - self.diagonal
        beside = float((given**2 * (self.variance**2 - own**2)).sum())
        return max(float((small * (self.core @ small @ self.core.T)).sum()) + beside, 0.0)

    def scaled(self, by: ArrayLike) -> "Covariance":
        """Of items that are multiplied, each by its own number or all by one."""
        scale = np.broadcast_to(np.asarray(by, dtype=np.float64), self.diagonal.shape)
        return Covariance(self.diagonal * scale**2, self.factor * scale[:, None], self.core)

    def of(self, items: NDArray[np.intp] | NDArray[np.bool_]) -> "Covariance":
        """That of some of the items."""
        return Covariance(self.diagonal[items], self.factor[items], self.core)

    @property
    def correlation(self) -> "Covariance":
        """The correlations: the same in units of standard errors. An item without variance has none."""
        variance = self.variance
        known = variance > 0
        return self.scaled(np.where(known, 1 / np.sqrt(np.where(known, variance, 1.0)), 0.0))

    def dense(self) -> Floats:
        """The matrix, for few items."""
        return np.diag(self.diagonal) + self.factor @ self.core @ self.factor.T

    def _weights(self, given: ArrayLike) -> Floats:
        weights = np.ravel(np.asarray(given, dtype=np.float64))
        if weights.size != self.size:
            raise ParameterError(f"{self.size:,} items need as many weights")
        return weights
