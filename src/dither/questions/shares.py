"""The shares of users in categories: what histograms and distributions have in common."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dither.core.cell_weights import CellWeights
from dither.core.domains import Categories
from dither.core.estimate import Estimate
from dither.questions.question import Floats, Question, Whole
from dither.utility.limits import Parameters, frequencies


class SharesOf(Question[Estimate]):
    """The share of users in each of the categories that `_encoded` numbers from 0."""

    crosses: ClassVar[bool] = True

    @cached_property
    def domain(self) -> Categories:
        return Categories(self.size)

    def limit(self, weight: float) -> tuple[Parameters, ...]:
        return frequencies(self.size, weight)

    def weighted_limit(self, weight: float, cells: CellWeights) -> tuple[Parameters, ...]:
        return frequencies(self.size, weight, cells)

    @property
    def unasked(self) -> float:
        """Of 1/k for each of k shares."""
        return (1 - 1 / self.size) / self.size

    @property
    def useless(self) -> float:
        """The squares of k shares add up to at most 1."""
        return self.size**-0.5 / 1.96

    def sums(self, column: Any) -> Whole:
        return np.bincount(self.encode(column, "substitute"), minlength=self.size)[None]

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {str(self): sums[0] / users}
