"""Key-value statistics from shared hash functions, with error bars that own up to the collisions.

C hash functions are shared by all users, who draw one of them each, and the tally counts every (function, bucket). Keys
that share a bucket under a function do so for all who drew it. A key's hits are then too many in one cohort and too few
in another, and averaged over C cohorts a shift is left that no number of users repairs. For item frequencies f
its variance is about

    sum of f^2 * (t - 1) / ((t - s)^2 C)

over the choice of hash functions, more or less where items are held together. Nothing of that has to be assumed: each
cohort is a small collection of its own, with a hash function of its own, so the scatter of the cohorts' estimates
around their mean *shows* the variance of that mean, noise and shift together. For one key it is a rough figure, as
there are only C cohorts. Noise is known exactly, though, and the shift is alike for all keys; so what the scatter shows
beyond the noise is averaged over keys, and added to each key's own noise. For one key the shift is fixed for as long as
the cohorts are: these intervals cover on average over keys.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dither.core.draw import Words
from dither.core.hashing import public_seeds
from dither.core.tally import Tally
from dither.mechanisms.functions import Functions
from dither.mechanisms.keyvalue import Found, KeyValues, Numbers

LEAST_COHORTS = 8
_BLOCK = 1 << 20

Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Places:
    """Where the items of every key lie in a table of shared functions by buckets."""

    functions: Functions
    buckets: int
    of: Callable[[Words], tuple[NDArray[np.intp], NDArray[np.intp]]]

    def hits(self, counts: NDArray[np.int64], d: int) -> Iterator[tuple[Numbers, Numbers]]:
        """Cohorts a few at a time: their numbers of reports, and the hits of each key's items - and +."""
        cohorts = self.functions.count
        seeds, table = public_seeds(cohorts), counts.reshape(cohorts, self.buckets)
        height = max(1, _BLOCK // d)
        for start in range(0, cohorts, height):
            rows = slice(start, start + height)
            hits = [np.take_along_axis(table[rows], place, axis=1) for place in self.of(seeds[rows])]
            yield table[rows].sum(axis=1, dtype=np.float64), np.stack(hits, axis=-1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class CohortKeyValues(KeyValues):
    """The reading of d keys from a table of C cohorts by t buckets."""

    table: Places = None  # type: ignore[assignment]  # always given

    def _rates(self, tally: Tally) -> tuple[Numbers, Numbers]:
        total = sum((hits.sum(axis=0) for _, hits in self.table.hits(tally.counts, self.d)), np.zeros((self.d, 2)))
        return total / tally.n, np.full(self.d, float(tally.n))

    def _found(self, tally: Tally, users: int) -> Found:
        found = super()._found(tally, users)
        scatter = self._scatter(tally, found)
        shift = {pair: float(np.mean(scatter[pair] - found.drawn[pair])) for pair in scatter}
        for one, other in shift:
            if one == other:
                shift[one, other] = max(0.0, shift[one, other])
        return replace(found, covariance={pair: found.covariance[pair] + shift[pair] for pair in shift})

    def _scatter(self, tally: Tally, found: Found) -> dict[Pair, Numbers]:
        """The covariances of every key's statistics that the cohorts show."""
        sums = {pair: np.zeros(self.d) for pair in found.covariance}
        for n, hits in self.table.hits(tally.counts, self.d):
            value = {name: read.base * n[:, None] + hits @ read.weights for name, read in self.law.reads.items()}
            away = {name: value - n[:, None] * found.value[name] for name, value in self.law.all_of(value).items()}
            for one, other in sums:
                sums[one, other] += (away[one] * away[other]).sum(axis=0)
        cohorts = self.table.functions.count
        return {pair: total * cohorts / (cohorts - 1) / tally.n**2 for pair, total in sums.items()}

    def _notes(self, tally: Tally) -> tuple[str, ...]:
        return (
            *super()._notes(tally),
            f"{self.table.functions.count:,} shared hash functions: the collisions of keys are part of the standard "
            "errors, which hold on average over keys.",
        )
