"""The shares of users in categories: what histograms and distributions have in common."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dither.core.cell_weights import CellWeights
from dither.core.domains import Categories
from dither.core.estimate import SHARES, Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.estimation.tilting import tilted
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

    def unknown(self, guarantee: Guarantee, source: str) -> Estimate:
        nothing: Any = super().unknown(guarantee, source)
        return replace(nothing, bounds=SHARES if self.shape else Bounds(0.0, 1.0))

    def told_by(self, other: Question, mechanism: Mechanism, share: float) -> float | None:
        return other.variance_of_shares(self.name, self.size, mechanism, share)

    def agreed(self, estimate: Estimate, refined: Mapping[Question, Any]) -> Estimate:
        """Refined, its mean and its shares are those that stand beside it.

        Smoothing moves the shares of values, and not a mean or the share above a limit, which are single numbers: they
        are known better. So the shares are moved to the nearest ones that agree with these, as far as cells can tell.
        """
        rows = self.rows
        if estimate.original is None or rows is None or (np.ravel(estimate.value) < 0).any():
            return estimate
        single = [
            (question.rows, float(result.value))
            for question, result in refined.items()
            if question.names == self.names and not question.shape and question.rows is not None and result.n
        ]
        if not single:
            return estimate
        shares = np.ravel(estimate.value) / np.sum(estimate.value)
        inside = [[own[0][cell > 0] for cell in rows] for own, _ in single]
        means = np.array([[values.mean() for values in cells] for cells in inside])
        slack = np.array([max(np.ptp(values) for values in cells) / 2 for cells in inside])
        value = np.array([value for _, value in single])
        now = means @ shares
        moved = tilted(shares, means, np.clip(now, value - slack, value + slack))
        return estimate if moved is None else replace(estimate, value=moved.reshape(np.shape(estimate.value)))

    def sums(self, column: Any) -> Whole:
        return np.bincount(self.encode(column, "substitute"), minlength=self.size)[None]

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {str(self): sums[0] / users}
