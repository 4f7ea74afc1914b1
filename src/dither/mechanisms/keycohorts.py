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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.draw import Words
from dither.core.tally import Tally
from dither.kernels.hashing import public_seeds
from dither.mechanisms.hash_seeds import HashSeeds
from dither.mechanisms.keyvalue import KeyStatistics, KeyValues, Numbers

LEAST_COHORTS = 8
_BLOCK = 1 << 20

Pair = tuple[str, str]
Line = tuple[Numbers, Numbers]  # what n is multiplied with, and what hits are


def displacement(s: int, t: int, cohorts: float) -> float:
    """The variance, at most, by which sharing so many hash functions moves an estimate, for the two items of a key."""
    return 2 * s * (t - 1) / ((t - s) ** 2 * cohorts)


@dataclass(frozen=True, eq=False)
class BucketPlaces:
    """Where the items of every key lie in a table of shared functions by buckets."""

    functions: HashSeeds
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

    table: BucketPlaces = None  # type: ignore[assignment]  # always given

    def _found(self, tally: Tally, users: int) -> KeyStatistics:
        sums = self._sums(tally)
        found = self._read(sums.hits / tally.n, np.full(self.d, float(tally.n)), users)
        scatter = self._scatter(sums, tally.n, found)
        shift = {pair: float(np.mean(scatter[pair] - found.drawn[pair])) for pair in scatter}
        for one, other in shift:
            if one == other:
                shift[one, other] = max(0.0, shift[one, other])
        return replace(found, covariance={pair: found.covariance[pair] + shift[pair] for pair in shift})

    def _sums(self, tally: Tally) -> "CohortSums":
        """Sums over cohorts, from one reading of the table: it is the cost."""
        sums = CohortSums(0.0, np.zeros((self.d, 2)), np.zeros((self.d, 2)), np.zeros((self.d, 2, 2)))
        for n, hits in self.table.hits(tally.counts, self.d):
            sums = sums.with_(n, hits)
        return sums

    def _scatter(self, sums: "CohortSums", n: int, found: KeyStatistics) -> dict[Pair, Numbers]:
        """The covariances of every key's statistics that the cohorts show."""
        cohorts = self.table.functions.count
        away = {name: (read.base, read.weights) for name, read in self.law.reads.items()}
        away |= {name: _half(away, sign) for name, sign in (("minus", -1.0), ("plus", 1.0)) if name in found.value}
        # A cohort is away by w . hits + (base - value) n from what all say.
        lines = {name: (base - found.value[name], weights) for name, (base, weights) in away.items()}
        factor = cohorts / (cohorts - 1) / n**2
        return {(one, other): factor * sums.product(lines[one], lines[other]) for one, other in found.covariance}

    def _notes(self, tally: Tally) -> tuple[str, ...]:
        return (
            *super()._notes(tally),
            f"{self.table.functions.count:,} shared hash functions: the collisions of keys are part of the standard "
            "errors, which hold on average over keys.",
        )


class CohortSums(NamedTuple):
    """Over cohorts: of n^2, of hits, of n hits, and of products of hits, for each key."""

    squares: float
    hits: Numbers
    weighted: Numbers
    products: Numbers

    def with_(self, n: Numbers, hits: Numbers) -> "CohortSums":
        """Some more cohorts."""
        return CohortSums(
            self.squares + float(n @ n),
            self.hits + hits.sum(axis=0),
            self.weighted + np.einsum("c,cda->da", n, hits),
            self.products + np.einsum("cda,cdb->dab", hits, hits),
        )

    def product(self, one: Line, other: Line) -> Numbers:
        """The sum over cohorts of the product of two statistics that are linear in n and hits."""
        (a, u), (b, v) = one, other
        mixed = a * (self.weighted @ v) + b * (self.weighted @ u)
        return a * b * self.squares + mixed + np.einsum("dab,a,b->d", self.products, u, v)


def _half(lines: dict[str, tuple[float, Numbers]], sign: float) -> tuple[float, Numbers]:
    """(presence +- mean) / 2."""
    (none, some), (base, weights) = lines["presence"], lines["mean"]
    return (none + sign * base) / 2, (some + sign * weights) / 2
