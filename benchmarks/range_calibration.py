"""Users on whom the constants of range queries in two phases are calibrated: none of them is in a benchmark.

What is fitted to the populations that it is judged by looks better than it is. So error bars are calibrated on these 14
(`python benchmarks/constants.py ranges.fit._DOUBTED` and others), and judged on those of benchmarks/two_phases.py and
benchmarks/range_models.py. Places, correlations and shares that are random come from the seed.

| name | attributes |
| --- | --- |
| student | Student's t with 3 degrees of freedom, random correlations, on skewed bells |
| knots | cosines of one, two and three times the same angle |
| waves | sines of a number, of more and more periods |
| horns | most at both ends, weakly correlated |
| pareto | tails without a variance, larger for some users than for others |
| gamma zeros | 30 to 70% have nothing, the others a gamma number |
| rounded | ages, of which half are told in fives |
| four clusters | somewhere, of unequal shares and widths |
| checkers | every other square of a board of three by three, for two attributes each |
| shares | parts of a whole |
| product | every third is the product of two others |
| chain | each follows the one before, with a long tail |
| regimes | opposite slopes below and above a threshold |
| ball | even inside a ball |
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from two_phases import D, Records, cut, normal

Random = np.random.Generator


def _ranked(values: NDArray) -> NDArray:
    """Ranks in each column, from 0 to 1."""
    return (np.argsort(np.argsort(values, axis=0), axis=0) + 0.5) / len(values)


def student(random: Random, n: int) -> Records:
    """Dependent in the tails, on skewed bells."""
    mixed = random.standard_normal((D, 3)) @ random.standard_normal((3, D)) + 1.5 * random.standard_normal((D, D))
    z = random.standard_normal((n, D)) @ mixed / np.sqrt(random.chisquare(3, (n, 1)))
    order = np.sort(random.beta(2, 5, n))
    return cut(order[(_ranked(z) * n).astype(np.int64)], 0, 1)


def knots(random: Random, n: int) -> Records:
    """Curves that cross themselves."""
    angle = random.uniform(0, 2 * np.pi, (n, 1))
    places = np.cos(angle * (1 + np.arange(D) % 3) + random.uniform(0, 2 * np.pi, D))
    return cut(places + 0.12 * random.standard_normal((n, D)), -1.3, 1.3)


def waves(random: Random, n: int) -> Records:
    """The first is even, the others follow it up and down."""
    x = random.random((n, 1))
    return cut(np.sin(np.pi * (x * np.linspace(0.5, 3, D) + 0.2)) + 0.2 * random.standard_normal((n, D)), -1.8, 1.8)


def horns(random: Random, n: int) -> Records:
    """Most are at the ends."""
    order = np.sort(random.beta(0.4, 0.5, n))
    return cut(order[(_ranked(normal(random, n, 0.3)) * n).astype(np.int64)], 0, 1)


def pareto(random: Random, n: int) -> Records:
    """Long tails, and users who are in all of them."""
    size = 1 + random.pareto(1.3, (n, 1))
    return cut(size**0.7 * (1 + random.pareto(1.5, (n, D))), 1, 80)


def gamma_zeros(random: Random, n: int) -> Records:
    """Many have nothing."""
    z = normal(random, n, 0.5)
    some = _ranked(normal(random, n, 0.6)) > np.linspace(0.3, 0.7, D)
    order = np.sort(random.gamma(2, 1, n))
    return np.where(some, np.maximum(cut(order[(_ranked(z) * n).astype(np.int64)], 0, 9), 1), 0)


def rounded(random: Random, n: int) -> Records:
    """Half of the users tell their number in fives."""
    value = np.clip(20 + 14 * normal(random, n, 0.4) + 8 * random.random((n, D)), 0, 63)
    told = np.where(random.random((n, 1)) < 0.5, np.rint(value / 5) * 5, value)
    return np.clip(told, 0, 63).astype(np.int64)


def four_clusters(random: Random, n: int) -> Records:
    """Wherever chance puts them."""
    centres, which = random.uniform(0.15, 0.85, (4, D)), random.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    widths = np.array([0.05, 0.03, 0.08, 0.02])
    return cut(centres[which] + widths[which, None] * random.standard_normal((n, D)), 0, 1)


def checkers(random: Random, n: int) -> Records:
    """Two attributes each lie on squares of one colour."""
    found = random.random((n, D))
    row = (found[:, ::2] * 3).astype(np.int64)
    column = np.where(row % 2 == 0, 2 * random.integers(0, 2, row.shape), 1)
    found[:, 1::2] = (column + random.random(column.shape)) / 3
    return cut(found, 0, 1)


def shares(random: Random, n: int) -> Records:
    """They add up to one, with a seventh that nobody asks for."""
    return cut(random.dirichlet(np.linspace(0.6, 3, D + 1), n)[:, :D], 0, 0.7)


def product(random: Random, n: int) -> Records:
    """What two tell together of a third, neither tells alone."""
    z = random.standard_normal((n, D))
    z[:, 2], z[:, 5] = z[:, 0] * z[:, 1] + 0.3 * z[:, 2], -z[:, 3] * z[:, 4] + 0.3 * z[:, 5]
    return cut(z, -3.5, 3.5)


def chain(random: Random, n: int) -> Records:
    """Neighbours correlate by .9, and those farther apart less."""
    z = random.standard_normal((n, D))
    for j in range(1, D):
        z[:, j] = 0.9 * z[:, j - 1] + np.sqrt(1 - 0.81) * z[:, j]
    order = np.sort(random.exponential(1, n))
    return cut(order[(_ranked(z) * n).astype(np.int64)], 0, 6)


def regimes(random: Random, n: int) -> Records:
    """Up to a threshold attributes follow the first one, above it they go against it."""
    x = random.standard_normal((n, 1))
    slopes = np.where(x < 0.4, np.linspace(0.3, 1, D), -np.linspace(1, 0.3, D))
    found = slopes * x + 0.4 * random.standard_normal((n, D))
    found[:, 0] = x[:, 0]
    return cut(found, -3.5, 3)


def ball(random: Random, n: int) -> Records:
    """No two correlate, and none is independent."""
    z = random.standard_normal((n, D))
    return cut(z / np.linalg.norm(z, axis=1, keepdims=True) * random.random((n, 1)) ** (1 / D), -1, 1)


POPULATIONS: dict[str, Callable[[Random, int], Records]] = {
    "student": student,
    "knots": knots,
    "waves": waves,
    "horns": horns,
    "pareto": pareto,
    "gamma zeros": gamma_zeros,
    "rounded": rounded,
    "four clusters": four_clusters,
    "checkers": checkers,
    "shares": shares,
    "product": product,
    "chain": chain,
    "regimes": regimes,
    "ball": ball,
}
