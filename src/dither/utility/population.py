"""Whom an error is predicted for: values with weights, from whatever the analyst knows.

A population is a list of possible values and the share of users that hold each. It may be given as values (and
weights), as a histogram (counts and edges, as `numpy.histogram` returns them), or by the name of a distribution:
`"uniform"`, `"beta(5, 2)"`, `"normal(0, 0.3)"` (cut to the domain) for numbers, `"uniform"` or `"zipf(1.1)"` for
categories, and any of these for all dimensions of records of one kind. No knowledge at all is a population too: `None`
stands for the worst one, which `deviation` looks for.
"""

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import is_real, real_array
from dither.core.domains import CATEGORIES, NUMBERS, RECORDS, WHOLE_NUMBERS
from dither.core.mechanism import Domain
from dither.errors import ParameterError, RowError

_GRID = 2000  # cells that a named distribution is cut into
_NARROW = 0.4  # of the users in one cell: a distribution that the cells do not show
_SUM = 1e-9

Weights = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Population:
    """Values, one row each, and the share of users that hold each."""

    values: NDArray
    weights: Weights


def population(domain: Domain, values: Any, weights: Any = None) -> Population:
    """The values and their shares, whatever they were given as."""
    named = isinstance(values, str)
    if named or _are_counts_and_edges(domain, values):
        if weights is not None:
            raise ParameterError("a histogram or a named distribution has its own weights: leave weights out")
        return _named(domain, values) if named else _histogram(domain, *values)
    checked = _inside(domain, values)
    if len(checked) == 0:
        raise ParameterError("a population needs at least one value; leave values out for the worst case")
    if weights is None:
        return Population(checked, np.full(len(checked), 1 / len(checked)))
    return Population(checked, _checked(weights, len(checked)))


def _inside(domain: Domain, values: Any) -> NDArray:
    try:
        return np.asarray(domain.check(values))
    except RowError as error:
        wrong = error.but(substitute="")  # it is for collecting: a prediction has no such parameter
    raise wrong


def _checked(weights: Any, count: int) -> Weights:
    shares = real_array(weights)
    if shares is None or shares.shape != (count,):
        raise ParameterError(f"weights must be {count} numbers, one for each value")
    if not ((shares >= 0) & (shares <= 1 + _SUM)).all() or abs(shares.sum() - 1) > _SUM:
        raise ParameterError("weights must not be negative and must add up to 1: divide them by their sum")
    return shares


def _shares(counts: Weights) -> Weights | None:
    """Counts as shares of all, if there is somebody and all are finite and not negative."""
    if not (np.isfinite(counts) & (counts >= 0)).all() or not counts.any():
        return None
    scaled = counts / counts.max()  # the sum itself may be beyond all floats
    return scaled / scaled.sum()


def _are_counts_and_edges(domain: Domain, values: Any) -> bool:
    """Whether this is meant as a histogram: a pair of lists, where values would be numbers."""
    return domain.kind == NUMBERS and isinstance(values, tuple) and len(values) == 2 and not any(map(is_real, values))


def _histogram(domain: Domain, counts: Any, edges: Any) -> Population:
    """Users spread evenly inside each bin: four points a bin."""
    counts, edges = real_array(counts), real_array(edges)
    if counts is not None and edges is not None and counts.ndim == edges.ndim == 1 and len(edges) == len(counts) + 1:
        shares = _shares(counts)
        if shares is not None and np.isfinite(edges).all() and (edges[:-1] < edges[1:]).all():
            inside = (np.arange(4) + 0.5) / 4
            points = edges[:-1, None] * (1 - inside) + edges[1:, None] * inside
            return Population(_inside(domain, points.reshape(-1)), np.repeat(shares / 4, 4))
    raise ParameterError(
        "a histogram is a pair of finite numbers, as numpy.histogram returns it: counts that are not negative, and "
        "ascending edges, of which there is one more"
    )


def _named(domain: Any, text: str) -> Population:
    if domain.kind in (RECORDS, WHOLE_NUMBERS):
        if len(set(domain.domains)) > 1:
            raise ParameterError("records of several kinds need values: a named distribution is for one kind")
        column = _named(domain.of(0), text)
        table = np.broadcast_to(column.values[:, None], (len(column.values), domain.d))
        return Population(table, column.weights)
    found = _distribution(domain, *_call(text))
    if found is None:
        raise ParameterError(
            'a distribution is "uniform", "beta(5, 2)" or "normal(0, 0.3)" for numbers, and "uniform" or "zipf(1.1)" '
            "for categories; give values instead where it lies outside the domain, or within a thousandth of it"
        )
    return found


def _distribution(domain: Any, name: str, numbers: Sequence[float]) -> Population | None:
    if domain.kind == NUMBERS:
        edges = np.linspace(-1, 1, _GRID + 1)
        values, laws, most = (edges[1:] + edges[:-1]) / 2, _DENSITIES, _NARROW
    elif domain.kind == CATEGORIES:
        values, laws, most = np.arange(domain.k), _FREQUENCIES, 1.0
    else:
        return None
    law = laws.get((name, len(numbers)))
    if law is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond all floats has no shares
        shares = _shares(law(values, *numbers))
    return Population(values, shares) if shares is not None and shares.max() <= most else None


def _beta(x: Weights, a: float, b: float) -> Weights:
    if min(a, b) <= 0:
        return np.full_like(x, math.nan)
    u = (x + 1) / 2
    logarithm = (a - 1) * np.log(u) + (b - 1) * np.log1p(-u)
    return np.exp(logarithm - logarithm.max())


def _normal(x: Weights, mean: float, sd: float) -> Weights:
    return np.exp(-(((x - mean) / sd) ** 2) / 2) if sd > 0 else np.full_like(x, math.nan)


_DENSITIES: dict[tuple[str, int], Callable[..., Weights]] = {
    ("uniform", 0): lambda x: np.ones_like(x),
    ("beta", 2): _beta,
    ("normal", 2): _normal,
}
_FREQUENCIES: dict[tuple[str, int], Callable[..., Weights]] = {
    ("uniform", 0): lambda category: np.ones(len(category)),
    ("zipf", 1): lambda category, exponent: (category + 1.0) ** -exponent,
}


def _call(text: str) -> tuple[str, Sequence[float]]:
    """The name of a distribution, and the numbers in its brackets; no name for what is none."""
    name, bracket, rest = text.strip().lower().partition("(")
    try:
        numbers = tuple(map(float, ast.literal_eval(f"[{rest.removesuffix(')')}]")))
    except (SyntaxError, ValueError, TypeError, OverflowError, MemoryError, RecursionError):
        return "", ()
    whole = rest.endswith(")") == bool(bracket) and all(map(math.isfinite, numbers))
    return name.strip() if whole else "", numbers
