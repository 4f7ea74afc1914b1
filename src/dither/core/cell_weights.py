"""How much each of several numbers matters: of categories or keys some more than others.

Only those that were named are kept, as there may be millions of others: what is not named weighs one. Nearly always a
few different weights are left, the *levels*, and how many numbers have each; the worst case over all users needs no
more than these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CellWeights:
    """The weights of `size` numbers: those of the named ones by their places, and one number for all others.

    >>> weights = CellWeights(4, {2: 5.0})
    >>> weights.importance, weights.levels[0].tolist(), weights.levels[1].tolist()
    (2.0, [1.0, 5.0], [3.0, 1.0])
    """

    size: int
    named: Mapping[int, float]
    others: float = 1.0

    @classmethod
    def only(cls, size: int, place: int) -> "CellWeights":
        """One number matters, and no other."""
        return cls(size, {place: 1.0}, 0.0)

    @cached_property
    def levels(self) -> tuple[Floats, Floats]:
        """The different weights, ascending, and how many numbers have each."""
        values, counts = np.unique(np.array(list(self.named.values())), return_counts=True)
        rest = self.size - len(self.named)
        if rest:
            values, counts = np.append(values, self.others), np.append(counts, rest)
            values, where = np.unique(values, return_inverse=True)
            counts = np.bincount(where, weights=counts)
        return values.astype(np.float64), counts.astype(np.float64)

    @property
    def total(self) -> float:
        """The sum of all weights."""
        values, counts = self.levels
        return float(values @ counts)

    @property
    def importance(self) -> float:
        """The weight of a number, on average: what all of them together count in a measure of several questions."""
        return self.total / self.size

    @property
    def even(self) -> bool:
        """Whether all numbers matter alike."""
        return len(self.levels[0]) == 1

    @property
    def least(self) -> float:
        """The smallest weight, of those that are one on average."""
        return float(self.levels[0][0]) / self.importance

    def each(self) -> Floats:
        """The weight of every number."""
        found = np.full(self.size, self.others)
        found[list(self.named)] = list(self.named.values())
        return found

    def mean(self, numbers: Floats) -> float:
        """The weighted mean of some numbers."""
        return float(self.each() @ numbers) / self.total
