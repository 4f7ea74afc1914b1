"""Tallies drawn directly from what users hold, without a report for each: the same law, for large sweeps.

Under optimal unary encoding (`dither.Unary`) every bit of every report is a coin of its own: the bit of the category
that a user holds is one with probability p, any other with probability q. So given how many users hold each category,
the counts of different categories are independent, and that of a category held by h of m users is

    Binomial(h, p) + Binomial(m - h, q).

Two binomials for each category in place of m k coins. The authors of 004 measured so. The probabilities are those of
the integers that the mechanism samples with, rounded to a float: 1e-16 of them. Tallies are marked as simulated, and
so have no guarantee: nothing here is for collecting data.

A method for range queries divides users into groups, each of which reports the cells of its grid. `unary` is that
method with unary encoding in all groups, and `Crowd` is a draw of who is in which group.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from dither import Unary
from dither.core.tally import Tally
from dither.ranges.collection import Ranges
from dither.ranges.grid import Grid

Counts = NDArray[np.int64]


def unary_counts(oracle: Unary, held: Counts, random: np.random.Generator) -> Counts:
    """The counts of one tally, from the number of users who hold each category."""
    users = int(held.sum())
    p, q = float(oracle.reading.p), float(oracle.reading.q)
    return random.binomial(held, p) + random.binomial(users - held, q)


def drawn_tally(oracle: Unary, held: Counts, random: np.random.Generator) -> Tally:
    """A tally of unary encoding.

    >>> tally = drawn_tally(Unary(k=3, epsilon=1.0), np.array([100, 0, 900]), np.random.default_rng(1))
    >>> tally.n, tally.counts.shape, tally.simulated
    (1000, (3,), True)
    """
    return Tally(oracle.fingerprint, int(held.sum()), unary_counts(oracle, held, random), simulated=True)


def unary(method: Ranges) -> Ranges:
    """The same method for range queries with unary encoding in all groups.

    >>> from dither.ranges import HDG
    >>> unary(HDG(shape=(64, 64), epsilon=1.0, n=10**6, granularity=(16, 4))).groups[-1].stored()
    ((0, 1), (4, 4), 'Unary(k=16)', 1)
    """
    groups = []
    for group in method.groups:
        attributes, cuts, _, share = group.stored()
        groups.append((attributes, cuts, f"Unary(k={group.grid.size})", share))
    return replace(method, asked=tuple(groups), weights=None)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Crowd:
    """Users who are divided into groups by their shares, each on their own; of each group the records."""

    records: NDArray[np.unsignedinteger]  # those of the first group, then of the second, and so on
    ends: Counts

    @classmethod
    def drawn(cls, records: NDArray[np.unsignedinteger], shares: NDArray, random: np.random.Generator) -> "Crowd":
        """A group for each user, as a device draws it: whole numbers below the sum of the shares."""
        edges = np.cumsum(shares)
        chosen = np.searchsorted(edges, random.integers(0, int(edges[-1]), len(records)), side="right")
        order = np.argsort(chosen.astype(np.min_scalar_type(len(edges))), kind="stable")
        return cls(records[order], np.cumsum(np.bincount(chosen, minlength=len(edges))))

    def group(self, number: int) -> NDArray[np.unsignedinteger]:
        """The records of one group."""
        first = int(self.ends[number - 1]) if number else 0
        return self.records[first : int(self.ends[number])]

    def held(self, number: int, grid: Grid) -> Counts:
        """How many users of a group are in each cell."""
        return np.bincount(grid.cells(self.group(number)), minlength=grid.size)

    def tally(self, method: Ranges, random: np.random.Generator) -> Tally:
        """What the groups of a method report, in the order of its groups."""
        return joined(method, [self.held(number, group.grid) for number, group in enumerate(method.groups)], random)


def joined(method: Ranges, held: list[Counts], random: np.random.Generator) -> Tally:
    """The tally of a method with unary encoding, from how many users of each group are in each cell."""
    counts = [
        part
        for number, own in enumerate(held)
        for part in (np.array([own.sum()]), unary_counts(_oracle(method, number), own, random))
    ]
    return Tally(method.fingerprint, sum(int(own.sum()) for own in held), np.concatenate(counts), simulated=True)


def _oracle(method: Ranges, number: int) -> Unary:
    oracle = method.oracle(number)
    if not isinstance(oracle, Unary):
        raise TypeError("only unary encoding has independent counts: take unary(method)")
    return oracle


@dataclass(frozen=True, eq=False)
class Histograms:
    """Of each group the shares of all values of its attributes, from which any coarser grid is summed up."""

    attributes: tuple[tuple[int, ...], ...]
    counts: tuple[Counts, ...]  # one axis for each attribute

    @classmethod
    def of(cls, crowd: Crowd, attributes: tuple[tuple[int, ...], ...], shape: tuple[int, ...]) -> "Histograms":
        """Of the groups of a crowd, in this order of what they are asked about."""
        found = []
        for number, asked in enumerate(attributes):
            sizes = tuple(shape[j] for j in asked)
            held = crowd.held(number, Grid.equal(asked, shape, sizes))
            found.append(held.reshape(sizes))
        return cls(attributes, tuple(found))

    @cached_property
    def users(self) -> int:
        """In all groups."""
        return sum(int(each.sum()) for each in self.counts)

    def held(self, number: int, grid: Grid) -> Counts:
        """How many users of a group are in each cell of a grid on its attributes."""
        summed = self.counts[number]
        for axis, cuts in enumerate(grid.cuts):
            summed = np.add.reduceat(summed, np.array(cuts[:-1]), axis=axis)
        return summed.reshape(prod(grid.shape))

    def tally(self, method: Ranges, random: np.random.Generator) -> Tally:
        """What the groups of a method report; it asks about the same attributes in the same order."""
        asked = tuple(group.grid.attributes for group in method.groups)
        if asked != self.attributes:
            raise ValueError("the groups of this method are asked about other attributes")
        return joined(method, [self.held(number, group.grid) for number, group in enumerate(method.groups)], random)
