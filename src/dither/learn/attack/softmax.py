"""Softmax regression, for many subsets of the records at once.

An attack by likelihood ratios asks for dozens of shadow models of halves of the same records. For a linear model their
logits are one product of matrices: inputs (n, d) times the weights of all models (d, classes * models). Gradient
descent on all records needs no randomness, and is the same for each model as if it were trained alone. Where these
products are small, they are left to one thread: more would only wait for each other.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real, real_array
from dither.core.parallel import small_matrices
from dither.errors import DomainError, ParameterError
from dither.learn.attack.model_scores import columns, log_softmax

Numbers = NDArray[np.float64]

_SMALL = 1 << 24  # multiplications in a product, about a millisecond on one core: not worth a second one


@dataclass(frozen=True)
class SoftmaxTrainer:
    """Linear softmax regression by gradient descent on all records, for one model or for many subsets at once.

    It draws nothing: equal records give equal models, and the seed is not looked at. `many` trains a model for each
    row of a table that says which records it sees; the logits of all of them are one product of matrices.

    >>> trainer = SoftmaxTrainer(classes=2, steps=100)
    >>> model = trainer(np.array([[0.0], [1.0]]), np.array([0, 1]), 0)
    >>> model(np.array([[0.0], [1.0]])).argmax(axis=1).tolist()
    [0, 1]
    """

    classes: int
    steps: int = 200
    rate: float = 1.0
    penalty: float = 0.0

    def __post_init__(self) -> None:
        checked_count("classes", self.classes, 2)
        checked_count("steps", self.steps, 1)
        if not checked_real("rate", self.rate) > 0 or not checked_real("penalty", self.penalty) >= 0:
            raise ParameterError("rate must be above 0, and penalty at least 0")

    def __call__(self, inputs: Any, labels: Any, seed: int = 0) -> "Softmax":
        """One model of all records."""
        return Softmax(self.many(inputs, labels, np.ones((1, len(labels)), dtype=bool))[0])

    def many(self, inputs: Any, labels: Any, seen: NDArray[np.bool_]) -> Numbers:
        """Weights (models, inputs + 1, classes); model i saw the records of row i."""
        x, y = table_of(inputs), columns(labels, self.classes)
        share = np.ascontiguousarray(seen.T / np.maximum(seen.sum(axis=1), 1))[:, None, :]
        weights = np.zeros((x.shape[1], self.classes, len(seen)))
        with fitting_threads(len(x) * weights.size):
            self._descend(x, y, share, weights)
        return np.ascontiguousarray(weights.transpose(2, 0, 1))

    def _descend(self, x: Numbers, y: NDArray[np.intp], share: Numbers, weights: Numbers) -> None:
        """All steps, on the weights (inputs + 1, classes, models) as they stand."""
        rows, turned = np.arange(len(x)), np.ascontiguousarray(x.T)
        for _ in range(self.steps):
            slope = (x @ weights.reshape(len(weights), -1)).reshape(len(x), *weights.shape[1:])
            slope -= slope.max(axis=1, keepdims=True)
            np.exp(slope, out=slope)
            slope /= slope.sum(axis=1, keepdims=True)
            slope[rows, y] -= 1.0
            slope *= share
            gradient = (turned @ slope.reshape(len(x), -1)).reshape(weights.shape)
            weights -= self.rate * (gradient + self.penalty * weights)


class Softmax:
    """A linear softmax model: a function from inputs to probabilities."""

    def __init__(self, weights: Numbers) -> None:
        self.weights = weights

    def __call__(self, inputs: Any) -> Numbers:
        return np.exp(log_softmax(table_of(inputs) @ self.weights))

    def predict(self, inputs: Any) -> NDArray[np.intp]:
        """The likeliest label."""
        return self(inputs).argmax(axis=1)


def fitting_threads(multiplications: int) -> AbstractContextManager[None]:
    """One thread for small products of matrices; for large ones as many as there are."""
    return small_matrices() if multiplications < _SMALL else nullcontext()


def table_of(inputs: Any) -> Numbers:
    """Inputs as rows of numbers, with a one at the end of each for the intercept."""
    table = real_array(inputs)
    if table is None or table.ndim < 2 or not np.isfinite(table).all():
        raise DomainError("inputs must be a table of finite numbers, one row a record")
    flat = table.reshape(len(table), -1)
    return np.concatenate([flat, np.ones((len(flat), 1))], axis=1)
