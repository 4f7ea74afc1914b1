"""The normal copula: what a correlation says about a pair of attributes, whatever their marginals.

Two attributes are joined as if each value were a quantile of a standard normal, and these had a correlation. A table is
then known from its marginals and one number. The bivariate normal distribution function comes from Plackett's identity,
dPhi2/drho = phi2, integrated from independence with rho = sin t, where the integrand is smooth:

    Phi2(a, b; rho) = Phi(a) Phi(b) + 1/(2 pi) * integral_0^asin(rho) exp(-(a^2 + b^2 - 2 a b sin t) / (2 cos^2 t)) dt.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import require

Floats = NDArray[np.float64]

LARGEST = 0.97  # correlation: beyond, the quadrature would need more nodes, and noise does not tell them apart
_NODES = 24
_FAR = 6.0  # standard deviations: all there is


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _special() -> Any:
    return require("scipy.special", "fast")


def scores(shares: Floats) -> Floats:
    """The normal quantile at every edge of cells with these shares, from the first to the last.

    >>> scores(np.array([0.5, 0.5])).tolist()
    [-6.0, 0.0, 6.0]
    """
    below = np.concatenate([[0.0], np.cumsum(shares)]) / shares.sum()
    return np.clip(_special().ndtri(np.clip(below, 0.0, 1.0)), -_FAR, _FAR)


def tables(rows: Floats, columns: Floats, correlations: Floats) -> Floats:
    """The shares of the cells between these scores, one table for each correlation.

    >>> tables(scores(np.array([0.5, 0.5])), scores(np.array([0.5, 0.5])), np.array([0.5]))[0].round(4).tolist()
    [[0.3333, 0.1667], [0.1667, 0.3333]]
    """
    normal = _special().ndtr
    nodes, weights = _quadrature()
    angle = np.arcsin(np.clip(correlations, -LARGEST, LARGEST))
    t = angle[:, None] * nodes
    sine, half = np.sin(t)[:, :, None, None], 0.5 / np.cos(t)[:, :, None, None] ** 2
    a, b = rows[:, None], columns[None, :]
    density = np.exp((2 * sine * (a * b) - (a**2 + b**2)) * half)
    joined = np.einsum("kn,knij->kij", angle[:, None] * weights, density) / (2 * np.pi)
    below = joined + np.outer(normal(rows), normal(columns))
    return np.maximum(np.diff(np.diff(below, axis=1), axis=2), 0.0)


def slope(rows: Floats, columns: Floats, correlation: float) -> Floats:
    """The derivative of the table by the correlation: the bivariate density at the corners of cells."""
    rho = float(np.clip(correlation, -LARGEST, LARGEST))
    left = 1 - rho**2
    a, b = rows[:, None], columns[None, :]
    density = np.exp(-(a**2 + b**2 - 2 * rho * a * b) / (2 * left)) / (2 * np.pi * np.sqrt(left))
    return np.diff(np.diff(density, axis=0), axis=1)


def correlation_of(
    shares: Sequence[Floats], pairs: Mapping[tuple[int, int], tuple[Sequence[NDArray[np.int64]], Floats]]
) -> Floats:
    """The correlations of the normal scores of all attributes: of the copula that is nearest to these pairs.

    A pair is given by the cuts of its blocks and the ratios of their shares to those of independence.
    """
    found = np.eye(len(shares))
    for (j, k), (cuts, ratio) in pairs.items():
        centred = [_block_scores(shares[i], edges) for i, edges in ((j, cuts[0]), (k, cuts[1]))]
        (mass, one), (other_mass, other) = centred
        spread = np.sqrt((mass @ one**2) * (other_mass @ other**2))
        if spread > 0:
            found[j, k] = found[k, j] = (mass * one) @ ratio @ (other_mass * other) / spread
    return nearest(found)


def _block_scores(shares: Floats, cuts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The share of each block, and its mean normal score (the difference of densities at its ends), centred."""
    mass = np.add.reduceat(shares, cuts[:-1])
    ends = scores(mass)
    density = np.exp(-(ends**2) / 2) / np.sqrt(2 * np.pi)
    mean = np.divide(density[:-1] - density[1:], mass, out=np.zeros_like(mass), where=mass > 1e-12)
    return mass, mean - mass @ mean


def nearest(correlation: Floats) -> Floats:
    """A matrix of correlations near this one: without negative eigenvalues, and none beyond what is told apart."""
    clipped = np.clip(correlation, -LARGEST, LARGEST)
    np.fill_diagonal(clipped, 1.0)
    values, vectors = np.linalg.eigh((clipped + clipped.T) / 2)
    lifted = (vectors * np.maximum(values, 1e-3)) @ vectors.T
    scale = np.sqrt(np.diag(lifted))
    return lifted / np.outer(scale, scale)


def completed(correlation: Floats, known: NDArray[np.bool_]) -> Floats:
    """The matrix with what is not known filled in, so that what is known can stay as it is.

    Two attributes of which nothing is known hang together as those on a way between them do, along which their
    correlations are multiplied: along the strongest way (Floyd and Warshall). Of a tree of known pairs this is what
    says least beyond them, of a star the product of two. With zeros instead, three attributes that all follow a fourth
    would contradict it, and `nearest` would move what was seen.

    >>> told = np.array([[1.0, 0.8, 0.5], [0.8, 1.0, 0.0], [0.5, 0.0, 1.0]])
    >>> completed(told, told != 0)[1].round(3).tolist()
    [0.8, 1.0, 0.4]
    """
    found = np.where(known, correlation, 0.0)
    for between in range(len(found)):
        through = np.outer(found[:, between], found[between])
        found = np.where(~known & (np.abs(through) > np.abs(found)), through, found)
    return found


def points(correlation: Floats, shares: Sequence[Floats], count: int) -> NDArray[np.intp]:
    """`count` records of the copula with these marginals, evenly spread rather than random, one a row."""
    return placed(evenly(len(shares), count), correlation, shares)


def evenly(d: int, count: int) -> Floats:
    """`count` points of the cube with d sides, a row each.

    Additive recurrence with the square roots of primes: the points fill the cube more evenly than random ones, so a
    share is known to about 1/count times a power of the logarithm.
    """
    steps = np.sqrt(_primes(d).astype(np.float64)) % 1
    uniform = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1
    return np.asarray(np.clip(uniform, 1e-9, 1 - 1e-9), dtype=np.float64)


def placed(uniform: Floats, correlation: Floats, shares: Sequence[Floats]) -> NDArray[np.intp]:
    """The records of the copula at these points of the cube."""
    root: Any = np.linalg.cholesky(correlation)
    return at_scores(scored(uniform, root), shares)


def scored(uniform: Floats, root: Floats) -> Floats:
    """The normal scores at these points of the cube, with the correlations root @ root.T."""
    return _special().ndtri(uniform) @ root.T


def at_scores(found: Floats, shares: Sequence[Floats]) -> NDArray[np.intp]:
    """The values of all attributes at these normal scores, a column each."""
    below = _special().ndtr(found)
    columns = [np.searchsorted(np.cumsum(each)[:-1], below[:, j], side="right") for j, each in enumerate(shares)]
    return np.stack(columns, axis=1)


def _primes(count: int) -> NDArray[np.int64]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return np.array(found)
