"""The shares of users along the values of a number: `distribution(age)`.

Whole numbers have a share each. Other numbers fall into `BINS` bins of equal width.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.core.estimate import Estimate
from dither.questions.question import FINE, Floats
from dither.questions.shares import SharesOf
from dither.ranges.axes import Axis
from dither.refine.smooth import MOST_CELLS, smooth
from dither.schema import Attribute

BINS = 32  # stored plans rely on it


class DistributionOf(SharesOf):
    """The share of users at each whole number, or in each bin."""

    statistic: ClassVar[str] = "distribution"
    ordered: ClassVar[bool] = True
    title: ClassVar[str] = "distribution"

    @property
    def sought(self) -> str:
        return f"the share of people along the values of {self.name}"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind in ("numeric", "ordinal")

    @property
    def _binned(self) -> bool:
        return self.attribute.kind == "numeric"

    @property
    def shape(self) -> tuple[int]:
        return (BINS if self._binned else self.attribute.k,)

    @property
    def labels(self) -> tuple[str, ...]:
        if not self._binned:
            return self.attribute.labels
        edges = np.linspace(self.attribute.low, self.attribute.high, BINS + 1)
        return tuple(f"{low:g} to {high:g}" for low, high in pairwise(edges))

    @property
    def edges(self) -> Floats:
        """Whole numbers stand in the middle of theirs."""
        return Axis(self.name, self.size, self.attribute).edges

    def _encoded(self, column: Any, invalid: str) -> NDArray:
        encoded = self.attribute.encode(column, invalid)
        return np.minimum(((encoded + 1) / 2 * BINS).astype(np.int64), BINS - 1) if self._binned else encoded

    def encode_value(self, value: Any) -> int:
        encoded = self.attribute.encode_value(value)
        return min(int((encoded + 1) / 2 * BINS), BINS - 1) if self._binned else encoded

    @property
    def rows(self) -> Floats | None:
        """A value each, or the fine cells of a bin."""
        values = FINE if self._binned else self.size
        return np.repeat(np.eye(self.size), values // self.size, axis=1) if values <= FINE else None

    def refine(self, estimate: Estimate, apply: Callable[[Estimate], Estimate], auto: bool) -> Estimate:
        """That values have an order says more about them than that they are many: they are smoothed."""
        return smooth(estimate) if auto and self.size <= MOST_CELLS else apply(estimate)
