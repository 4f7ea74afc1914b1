"""Whom an error is predicted for: values with weights, from whatever the analyst knows.

A population is a list of possible values and the share of users that hold each. It may be given as values (and
weights), as a histogram (counts and edges, as `numpy.histogram` returns them), or by the name of a distribution:
`"uniform"`, `"beta(5, 2)"`, `"normal(0, 0.3)"` (cut to the domain) for numbers, `"uniform"` or `"zipf(1.1)"` for
categories. No knowledge at all is a population too: `None` stands for the worst one, which `deviation` looks for.
"""

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.domain import Categories, Interval, Records
from dither.core.errors import ParameterError
from dither.core.mechanism import Domain

_GRID = 2000  # cells that a named distribution is cut into
_SUM = 1e-9

Weights = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Population:
    """Values, one row each, and the share of users that hold each."""

    values: NDArray
    weights: Weights


def population(domain: Domain, values: Any, weights: Any = None) -> Population:
    """The values and their shares, whatever they were given as."""
    if isinstance(values, str):
        if weights is not None:
            raise ParameterError("a named distribution has its own weights: leave weights out")
        return _named(domain, values)
    if isinstance(values, tuple) and len(values) == 2 and np.ndim(values[0]) == np.ndim(values[1]) == 1:
        counts, edges = (np.asarray(part, dtype=np.float64) for part in values)
        if isinstance(domain, Interval) and len(edges) == len(counts) + 1:
            return _histogram(domain, counts, edges)
    checked = np.asarray(domain.check(values))
    if len(checked) == 0:
        raise ParameterError("a population needs at least one value; leave values out for the worst case")
    if weights is None:
        return Population(checked, np.full(len(checked), 1 / len(checked)))
    return Population(checked, _checked(weights, len(checked)))


def _checked(weights: Any, count: int) -> Weights:
    try:
        shares = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        shares = np.empty(0)
    if shares.shape != (count,):
        raise ParameterError(f"weights must be {count} numbers, one for each value")
    if not (shares >= 0).all() or abs(shares.sum() - 1) > _SUM:
        raise ParameterError("weights must not be negative and must add up to 1: divide them by their sum")
    return shares


def _histogram(domain: Interval, counts: Weights, edges: Weights) -> Population:
    """Users spread evenly inside each bin: four points a bin."""
    if not (np.diff(edges) > 0).all() or not (counts >= 0).all() or counts.sum() <= 0:
        raise ParameterError(
            "a histogram needs ascending edges and counts that are not negative, as numpy.histogram has"
        )
    inside = (np.arange(4) + 0.5) / 4
    points = (edges[:-1, None] + np.diff(edges)[:, None] * inside).reshape(-1)
    return Population(domain.check(points), np.repeat(counts / counts.sum() / 4, 4))


def _named(domain: Domain, text: str) -> Population:
    name, numbers = _call(text)
    if isinstance(domain, Records):
        column = population(domain.of(0), text)
        if not domain.numeric:
            raise ParameterError("records of several kinds need values: a named distribution is for one kind")
        return Population(np.repeat(column.values[:, None], domain.d, axis=1), column.weights)
    if isinstance(domain, Interval) and (name, len(numbers)) in _DENSITIES:
        edges = np.linspace(-1, 1, _GRID + 1)
        middle = (edges[1:] + edges[:-1]) / 2
        density = np.asarray(_DENSITIES[name, len(numbers)](middle, *numbers), dtype=np.float64)
        if np.isfinite(density).all() and (density >= 0).all() and density.sum() > 0:
            return Population(middle, density / density.sum())
    if isinstance(domain, Categories) and name == "uniform" and not numbers:
        return Population(np.arange(domain.k), np.full(domain.k, 1 / domain.k))
    if isinstance(domain, Categories) and name == "zipf" and len(numbers) == 1:
        shares = np.arange(1, domain.k + 1) ** -numbers[0]
        return Population(np.arange(domain.k), shares / shares.sum())
    raise ParameterError(
        'a distribution is "uniform", "beta(5, 2)" or "normal(0, 0.3)" for numbers, and "uniform" or "zipf(1.1)" for '
        "categories"
    )


def _beta(x: Weights, a: float, b: float) -> Weights:
    u = (x + 1) / 2
    return np.exp((a - 1) * np.log(u) + (b - 1) * np.log1p(-u)) if min(a, b) > 0 else np.full_like(x, math.nan)


def _normal(x: Weights, mean: float, sd: float) -> Weights:
    return np.exp(-(((x - mean) / sd) ** 2) / 2) if sd > 0 else np.full_like(x, math.nan)


_DENSITIES: dict[tuple[str, int], Callable[..., Weights]] = {
    ("uniform", 0): lambda x: np.ones_like(x),
    ("beta", 2): _beta,
    ("normal", 2): _normal,
}


def _call(text: str) -> tuple[str, Sequence[float]]:
    try:
        tree = ast.parse(text.strip().lower(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, ()
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
            return tree.func.id, tuple(float(ast.literal_eval(number)) for number in tree.args)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        pass
    return "", ()
