"""Blanket laws: two inputs of a randomizer, as a crowd of others sees them.

Let beta be a measure that lies under the law of every input (a *blanket*, Balle et al. 2019), and P and P' the laws of
two inputs. What matters of the two is how u = P(y)/beta(y) and v = P'(y)/beta(y) lie together, where y is drawn from
beta: a list of atoms (mass, u, v), whose masses add up to that of beta, at most 1. `privacy.shuffle_divergence` turns
it into the delta of a shuffled crowd.

**The worst two inputs.** One law is above another if E g(a u - b v) is at least as large for all convex g and all a, b
>= 0. (With the mass that beta leaves over at a u - b v = 0.) The delta of a crowd is of that form, so a law above those
of all pairs of inputs will do. The order has three properties that make a small algebra of it; docs/decisions/0036 has
the proofs:

- *products*: reports that are drawn independently multiply masses, u and v, and worst parts make the worst whole;
- *mixtures*: a public tag that is drawn without looking is part of the report, and the law is the union, weighted by
  the chances of the tags: users with other tags hide the tag;
- *averages* of rows (rounding, hash conflicts, padding) only go down.

Moving an atom to two others with the same mean in u, or in v, goes up. That is how a law with too many atoms is made
shorter (`reduced`).

The numbers are floats, from exact ones. Errors of a last place are covered by the margin of `shuffle_divergence`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_ATOMS = 2500  # of a product on its way; 48 coordinates with one two-level law need no more
_BINS, _EVERYWHERE = 200, 1e-6  # of a histogram of variances; part of all that every bin has
_SAME = 1e-10  # logarithms as near as this are of one atom

Numbers = NDArray[np.float64]


class Contrast(NamedTuple):
    """The two inputs that a crowd hides worst, where both likelihoods are beta(y) or `ratio` times as much."""

    ratio: Fraction
    spread: Fraction  # the part of beta where the first is the higher one; as much where the second is
    both: Fraction  # where both are high
    low: Fraction  # where both are low


@dataclass(frozen=True, eq=False)
class BlanketLaw:
    """The atoms: `mass` of beta where the two likelihoods are `first` and `second` times as much as beta's.

    >>> law = BlanketLaw.of(Contrast(Fraction(3), Fraction(1, 4), Fraction(0), Fraction(0)))
    >>> law.mass.tolist(), law.first.tolist(), law.second.tolist()
    ([0.25, 0.25], [3.0, 1.0], [1.0, 3.0])
    """

    mass: Numbers
    first: Numbers
    second: Numbers

    @classmethod
    def of(cls, contrast: Contrast) -> "BlanketLaw":
        """Two levels: four atoms, or fewer."""
        high = float(contrast.ratio)
        atoms = [
            (contrast.spread, high, 1.0),
            (contrast.spread, 1.0, high),
            (contrast.both, high, high),
            (contrast.low, 1.0, 1.0),
        ]
        return cls(*np.array([(float(mass), u, v) for mass, u, v in atoms if mass]).T)

    @classmethod
    def between(cls, one: Sequence[Fraction], other: Sequence[Fraction], under: Sequence[Fraction]) -> "BlanketLaw":
        """Two rows of a channel over a measure that is positive wherever they are."""
        shown = [
            (float(low), float(a / low), float(b / low)) for a, b, low in zip(one, other, under, strict=True) if low
        ]
        return cls(*np.array(shown).T).merged()

    @classmethod
    def one_hot(cls, hot: Sequence[Fraction], cold: Sequence[Fraction]) -> "BlanketLaw | None":
        """Coordinates of which the input names one: its law is `hot`, that of all others `cold`.

        With c the least hot/cold, c times the law of all-cold lies under every input. There the coordinates of two
        inputs are independent, and each is hot/cold/c times as likely for its own.
        """
        if any(a and not b for a, b in zip(hot, cold, strict=True)):
            return None
        ratios = [a / b for a, b in zip(hot, cold, strict=True) if b]
        least = min(ratios)
        if not least:
            return None
        chances, levels = np.array([float(b) for b in cold if b]), np.array([float(each / least) for each in ratios])
        alone = cls(chances, levels, np.ones_like(levels)).merged()
        both = alone * cls(alone.mass, alone.second, alone.first)
        return cls(both.mass * float(least), both.first, both.second)

    @classmethod
    def one_hot_crowd(cls, hot: Sequence[Fraction], cold: Sequence[Fraction]) -> "BlanketLaw":
        """Two inputs over a third one that all others have: three coordinates matter."""
        both = [(float(a), float(b)) for a, b in zip(hot, cold, strict=True)]
        atoms = [
            (b1 * b2 * a3, a1 * b3 / (b1 * a3), a2 * b3 / (b2 * a3))
            for (a1, b1), (a2, b2), (a3, b3) in product(both, repeat=3)
        ]
        return cls(*np.array(atoms).T).merged()

    @classmethod
    def mixture(cls, parts: Iterable[tuple["BlanketLaw", float]]) -> "BlanketLaw":
        """A public tag with these chances, and the law under each."""
        listed = list(parts)
        mass = np.concatenate([law.mass * chance for law, chance in listed])
        first, second = (np.concatenate([getattr(law, name) for law, _ in listed]) for name in ("first", "second"))
        return cls(mass, first, second).merged()

    @classmethod
    def drawn(cls, kinds: Sequence[tuple["BlanketLaw", int]], asked: int) -> "BlanketLaw":
        """So many coordinates of each kind, of which `asked` are drawn, all choices alike, and shown with their names.

        It is the elementary symmetric polynomial of degree `asked` in the laws, over the number of choices.
        """
        nothing = cls(np.ones(1), np.ones(1), np.ones(1))
        sums: list[BlanketLaw | None] = [nothing, *[None] * asked]  # of j coordinates, not yet over the choices
        for law, number in kinds:
            powers = [law**taken for taken in range(1, min(asked, number) + 1)]
            for size in range(asked, 0, -1):
                own = [(kept, 1.0)] if (kept := sums[size]) is not None else []
                more = [
                    ((before * power).reduced(), float(math.comb(number, taken)))
                    for taken, power in enumerate(powers[:size], start=1)
                    if (before := sums[size - taken]) is not None
                ]
                if own or more:
                    sums[size] = cls.mixture(own + more).reduced()
        found = sums[asked]
        assert found is not None
        choices = math.comb(sum(number for _, number in kinds), asked)
        return cls(found.mass / float(choices), found.first, found.second)

    def __mul__(self, other: "BlanketLaw") -> "BlanketLaw":
        """Both, drawn independently."""
        mass, first, second = (
            np.multiply.outer(getattr(self, name), getattr(other, name)).ravel() for name in ("mass", "first", "second")
        )
        return BlanketLaw(mass, first, second).merged()

    def __pow__(self, times: int) -> "BlanketLaw":
        factors, square = [], self
        while times:
            if times & 1:
                factors.append(square)
            times >>= 1
            if times:
                square = (square * square).reduced()
        return reduce(lambda one, other: (one * other).reduced(), factors)

    def without_empty(self) -> "BlanketLaw":
        """Atoms of no mass left out."""
        kept = self.mass > 0
        return BlanketLaw(self.mass[kept], self.first[kept], self.second[kept])

    def merged(self) -> "BlanketLaw":
        """Atoms that are alike made one."""
        one, other = (np.rint(np.log(each) / _SAME) for each in (self.first, self.second))
        _, places = np.unique(one + 1j * other, return_inverse=True)
        mass = np.bincount(places, self.mass).astype(np.float64)
        first, second = (np.bincount(places, self.mass * each) / mass for each in (self.first, self.second))
        return BlanketLaw(mass, first, second)

    def reduced(self, atoms: int = MOST_ATOMS) -> "BlanketLaw":
        """At most so many atoms, of a law that is not below: each moved to the corners of its cell, its mean kept."""
        if self.mass.size <= atoms:
            return self
        axes = [(each, _nodes(each, self.mass, math.isqrt(atoms))) for each in (self.first, self.second)]
        below = [np.clip(np.searchsorted(nodes, each, "right") - 1, 0, nodes.size - 2) for each, nodes in axes]
        above = [
            np.clip((each - nodes[low]) / (nodes[low + 1] - nodes[low]), 0.0, 1.0)
            for (each, nodes), low in zip(axes, below, strict=True)
        ]
        shape = axes[0][1].size, axes[1][1].size
        mass = np.zeros(shape)
        for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
            shares = [share if up else 1 - share for share, up in zip(above, corner, strict=True)]
            places = np.ravel_multi_index([low + up for low, up in zip(below, corner, strict=True)], shape)
            mass += np.bincount(places, self.mass * shares[0] * shares[1], mass.size).reshape(shape)
        kept = np.nonzero(mass)
        return BlanketLaw(mass[kept], axes[0][1][kept[0]], axes[1][1][kept[1]])


def _nodes(values: Numbers, mass: Numbers, most: int) -> Numbers:
    """From the least to the largest value, as dense as the cube root of the variance there: that adds least to it.

    (As quantizers are; Panter and Dite 1951.)
    """
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.array([low, 2 * high])
    edges = np.linspace(math.log(low), math.log(high), _BINS + 1)
    weights, _ = np.histogram(np.log(values), edges, weights=mass * values**2)
    density = np.concatenate([[0.0], np.cumsum(np.cbrt(weights + _EVERYWHERE * weights.sum()))])
    nodes = np.exp(np.interp(np.linspace(0, density[-1], most), density, edges))
    nodes[[0, -1]] = low, high
    return np.unique(nodes)
