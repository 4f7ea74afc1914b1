"""Blocks of quadratic residues: the variance of a random subset, and a report that is one number.

For a prime k = 4 a + 3 the r = (k - 1)/2 squares modulo k are a difference set: the k blocks y + squares hold every
category r times, and every two categories together in lambda = (k - 3)/4 blocks. The report is the number of a block,
and a value favours the r blocks that hold it: the two-level law with r of k outputs. A block supports the categories
that it holds, with probability p for the own one and q = (lambda A + (r - lambda) B) / W for any other.

Guarantee: P(y|x) / P(y|x') is A/B, 1 or B/A, so epsilon = ln(A/B).

The variance is that of `SubsetSelection` with subsets of r categories, which is the best that epsilon allows where
epsilon is small. But reports are counted at once, where those of a subset cost the server k bits each.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dither
from dither.core.channel import TwoLevel
from dither.core.checks import checked_count
from dither.core.draw import Rows, Tape, positions
from dither.errors import ParameterError
from dither.mechanisms.frequency import Frequencies


@dither.registry.register
@dataclass(frozen=True)
class ResidueBlocks(dither.Mechanism[dither.Estimate]):
    """A block of quadratic residues that favours the value, for a prime k = 3 modulo 4."""

    k: int
    epsilon: float
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "categorical"
    examples = ({"k": 7, "epsilon": 1.0}, {"k": 11, "epsilon": 0.3}, {"k": 3, "epsilon": 2.0})

    def _validate(self) -> None:
        self._freeze(k=checked_count("k", self.k, 3, 1 << 16))
        if self.k % 4 != 3 or any(self.k % divisor == 0 for divisor in range(3, int(self.k**0.5) + 1, 2)):
            raise ParameterError("k must be a prime that leaves 3 when divided by 4, as 7, 11 and 19 do")

    @cached_property
    def squares(self) -> list[int]:
        """The squares modulo k, without 0."""
        return sorted({x * x % self.k for x in range(1, self.k)})

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        return TwoLevel.fit(
            self.epsilon,
            favoured=len(self.squares),
            outputs=self.k,
            apart=(self.k + 1) // 4,  # blocks that hold one of two categories and not the other
            inputs=self.k,
            members=lambda x: [(x - square) % self.k for square in self.squares],
            weights=self.weights,
        )

    @cached_property
    def reading(self) -> Frequencies:
        p, r, both = self.law.inside, len(self.squares), (self.k - 3) // 4
        q = Fraction(both, r) * p + Fraction(r - both, self.k - r) * (1 - p)
        return Frequencies(self.k, p, q, lambda counts: np.sum([np.roll(counts, s) for s in self.squares], axis=0))

    def channel(self) -> TwoLevel:
        return self.law

    def _fill(self, reports: NDArray[Any], values: NDArray[Any], tape: Tape, rows: Rows) -> None:
        # The first positions are favoured: blocks in which the value stands at a square.
        steps = np.array([*self.squares, *(step for step in range(self.k) if step not in self.squares)])
        reports["value"] = (values.astype(np.int64) - steps[positions(self.law, tape, rows)]) % self.k
