"""Projective spaces over a finite field: points, hyperplanes, and counts of the points on each.

A *point* is a vector of t elements of the field with q elements, not all zero, where multiples count as one; there are
(q^t - 1)/(q - 1). It is written as a number in base q, whose digits are the vector: that multiple of it whose highest
digit that is not zero is 1. So the points with i + 1 digits are the numbers from q^i to 2 q^i - 1, and numbered in this
order the first of them is point (q^i - 1)/(q - 1), which is `starts[i]`.

A *hyperplane* holds the points whose product with a vector x is zero, (q^(t-1) - 1)/(q - 1) of them; two share
(q^(t-2) - 1)/(q - 1). Of the multiples of x the one is taken whose *lowest* digit that is not zero is 1: x = (x' q + 1)
q^r, with any x' of t - 1 - r digits. Hyperplanes are numbered by the number of digits of x', then by x'.

**The points of a hyperplane, by number.** A point of x is determined by its digits other than number r: that one is
minus the product of x' with the digits above it. And these other digits are a point of t - 1 digits (if the highest of
them is above r it stays the highest; if it is below, digit r is zero). So the i-th point of x is the i-th point of a
space with one dimension less, with a digit put in. A point that is *not* on the hyperplane has any other digit in that
place, if there is one above it, and 1 otherwise.

**Counts on all hyperplanes** (after Feldman, Nelson, Nguyen and Talwar 2022): for every x the sum of what is counted at
its points, one digit of x after the other, from the lowest, as in a fast transform. While some digits of x are fixed,
all that matters of a point is what digits it has above, and what the product must still add up to: a table of points by
elements, for each choice of the digits so far. One step makes of every q by q block of it (a digit of the point, and
the element) a block of the same size, of sums along its q^2 lines; so t steps, each of q additions for every point, are
all.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.kernels.finite_field import MOST_TABLED, FiniteField

Numbers = NDArray[np.int64]

_TABLE = 1 << 18  # products of groups of digits


@dataclass(frozen=True)
class ProjectiveSpace:
    """The points and hyperplanes of vectors of t elements of the field with q.

    >>> plane = ProjectiveSpace(2, 3)  # seven points on seven lines, three on each
    >>> plane.size, plane.on_hyperplane, plane.on_two
    (7, 3, 1)
    >>> plane.counted(np.array([1, 0, 0, 0, 0, 0, 0])).tolist()
    [1, 1, 1, 0, 0, 0, 0]
    """

    q: int
    t: int

    @classmethod
    def holding(cls, hyperplanes: int, q: int) -> "ProjectiveSpace":
        """The smallest one with so many hyperplanes, of three elements a vector or more."""
        return next(space for space in (cls(q, t) for t in count(3)) if space.size >= hyperplanes)

    @property
    def size(self) -> int:
        """The number of points, and of hyperplanes."""
        return (self.q**self.t - 1) // (self.q - 1)

    @property
    def on_hyperplane(self) -> int:
        """The number of points on a hyperplane."""
        return (self.q ** (self.t - 1) - 1) // (self.q - 1)

    @property
    def on_two(self) -> int:
        """The number of points on two hyperplanes at once."""
        return (self.q ** (self.t - 2) - 1) // (self.q - 1)

    @cached_property
    def field(self) -> FiniteField:
        """Of its elements."""
        return FiniteField(self.q)

    @cached_property
    def powers(self) -> Numbers:
        """1, q, ..., q^t."""
        return self.q ** np.arange(self.t + 1)

    @cached_property
    def starts(self) -> Numbers:
        """How many points have at most i digits."""
        return (self.powers - 1) // (self.q - 1)

    @cached_property
    def digit_products(self) -> NDArray[np.uint8]:
        """A table of the products of groups of digits, as many as fit; without rows where elements have no tables."""
        if self.q > MOST_TABLED:
            return np.empty((0, 0), dtype=np.uint8)
        digits = next(digits for digits in count(1) if self.q ** (2 * digits + 2) > _TABLE)
        group = np.arange(self.q**digits)
        table = np.zeros((group.size, group.size), dtype=np.int64)
        for place in range(digits):
            digit = group // self.q**place % self.q
            table = self.field.plus(table, self.field.times(digit[:, None], digit))
        return table.astype(np.uint8)

    def places(self, hyperplanes: NDArray, positions: NDArray) -> Numbers:
        """For each row the point at this position, where those of its hyperplane come first and the others follow."""
        return kernels.hyperplane_points(self, hyperplanes, positions)

    def counted(self, counts: NDArray) -> NDArray:
        """For each hyperplane the sum of what is counted at its points."""
        found = np.empty(self.size, dtype=counts.dtype)
        below, left = counts.dtype.type(0), counts  # points with no digit from number r on; the others, without those
        for digits in range(self.t - 1, -1, -1):  # of x'; its other ones are zero, and a one
            rows = left[1:].reshape(-1, self.q)
            found[self.starts[digits] : self.starts[digits + 1]] = below + self._sums(rows[:, self.field.negatives])
            below, left = below + left[0], rows.sum(axis=1)
        return found

    def _sums(self, table: NDArray) -> NDArray:
        """For each x' the sum, over points y of as many digits, of the table at y and the product of both."""
        total = np.zeros(1, dtype=table.dtype)
        table = table[None]
        while table.shape[1]:
            total = (total + table[:, 0].T).reshape(-1)  # the point 1: its product is the lowest digit of x'
            higher = table.shape[1] // self.q
            lines = kernels.line_sums(self.field, table[:, 1:].reshape(len(table), higher, self.q, self.q))
            table = lines.reshape(self.q * len(table), higher, self.q)
        return total

    def through(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each point the sum of the weights of the hyperplanes that it is on.

        A vector is a point and a hyperplane, and what is on what is the same both ways: weights move to the points.
        """
        moved = np.empty_like(weights)
        moved[self._own_points] = weights
        return self.counted(moved)[np.argsort(self._own_points)]

    @cached_property
    def _own_points(self) -> Numbers:
        """For each hyperplane the point with the same vector, up to a multiple."""
        vectors = self.normals(np.arange(self.size))
        top = self.t - 1 - np.argmax(vectors[:, ::-1] != 0, axis=1)
        factor = self.field.inverses[vectors[np.arange(self.size), top]]
        number = self.field.times(factor[:, None], vectors) @ self.powers[:-1]
        return number - self.powers[top] + self.starts[top]

    def vectors(self, points: NDArray) -> Numbers:
        """The digits of points, the lowest first, in a last axis."""
        digits = np.searchsorted(self.starts, points, side="right") - 1
        number = points - self.starts[digits] + self.powers[digits]
        return number[..., None] // self.powers[:-1] % self.q

    def normals(self, hyperplanes: NDArray) -> Numbers:
        """The digits of the vectors x of hyperplanes, the lowest first, in a last axis."""
        digits = np.searchsorted(self.starts, hyperplanes, side="right") - 1
        number = ((hyperplanes - self.starts[digits]) * self.q + 1) * self.powers[self.t - 1 - digits]
        return number[..., None] // self.powers[:-1] % self.q

    def on(self, hyperplanes: NDArray, points: NDArray) -> NDArray[np.bool_]:
        """Which points are on their hyperplanes."""
        x, y = self.normals(hyperplanes), self.vectors(points)
        total = np.zeros(np.broadcast_shapes(x.shape, y.shape)[:-1], dtype=np.int64)
        for place in range(self.t):
            total = self.field.plus(total, self.field.times(x[..., place], y[..., place]))
        return total == 0
