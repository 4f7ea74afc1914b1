"""Error curves: how a plan's error falls with epsilon and with users, before either is fixed.

For each epsilon the ways to ask are compared anew, so the curves show where another way takes over. The error is
the measure that a plan minimises, the square root of the mean over questions of MSE / scale^2. It falls with
1 / sqrt(users), but more slowly for ranges, for cumulative shares and where users share hash functions, which the
picture does not show. The limit for any plan is shown where it is known: for delta = 0, and without a prior.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_epsilon
from dither.display.table import TextTable
from dither.errors import ParameterError
from dither.planning.importance import Weights
from dither.planning.planner import checked_limits, chooser_of, kept_ways, limit_of
from dither.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

ONE, SOME, EVERY = "one question a user", "several questions a user", "every question"
LIMIT = "limit for any plan"


@dataclass(frozen=True, eq=False)
class ErrorCurves:
    """For each kind of way to ask, its error at some epsilons; the chosen plan is always on the lowest line."""

    epsilon: float
    users: int
    epsilons: tuple[float, ...]
    errors: dict[str, NDArray[np.float64]]

    def table(self) -> TextTable:
        """One row an epsilon."""
        return TextTable(
            {"epsilon": list(self.epsilons), **{name: line.tolist() for name, line in self.errors.items()}}
        )

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def at(self, epsilon: float) -> dict[str, float]:
        """The errors at an epsilon between those that were tried."""
        spots = np.log(self.epsilons)
        return {
            name: float(np.exp(np.interp(math.log(epsilon), spots, np.log(np.maximum(line, 1e-300)))))
            for name, line in self.errors.items()
        }

    def plot(self, path: "str | Path | None" = None) -> "Figure":
        """A picture of error against epsilon and against users; with a path it is saved there (.png, .svg, .pdf)."""
        from dither.display.plots import saved, two_panels

        users = np.geomspace(self.users / 100, self.users * 100, 41)
        by_users = {name: error * np.sqrt(self.users / users) for name, error in self.at(self.epsilon).items()}
        figure = two_panels(
            ("epsilon", np.array(self.epsilons), self.errors, self.epsilon),
            ("users", users, by_users, self.users),
            titles=(f"{self.users:,} users", f"epsilon {self.epsilon:g}"),
            label="predicted error / half width of a domain",
            faint=(LIMIT,),
        )
        return saved(figure, path)


def error_curves(
    schema: Schema,
    epsilon: float,
    *,
    users: int,
    epsilons: Iterable[float] | None = None,
    delta: float = 0.0,
    ask: Iterable[str] | None = None,
    prior: Mapping[str, Any] | None = None,
    weights: Weights | None = None,
    most_evaluations: int = 500,
    most_bytes: int | None = None,
    progress: Callable[[Any], Iterable[Any]] | None = None,
) -> ErrorCurves:
    """How the error of the best plan, and of other ways to ask, depends on epsilon and on users.

    `progress` wraps the epsilons, as `rich.progress.track` does.

    >>> from dither import Numeric
    >>> found = error_curves(Schema({"age": Numeric(0, 100)}), 1.0, users=10_000, epsilons=[0.5, 1.0, 2.0])
    >>> [round(float(error), 4) for error in found.errors["every question"]]
    [0.0403, 0.0207, 0.0094]
    """
    epsilon, users = checked_epsilon(epsilon), checked_count("users", users, 1)
    spots = tuple(np.geomspace(epsilon / 10, epsilon * 10, 17)) if epsilons is None else _ascending(epsilons)
    limits = checked_limits(most_evaluations, most_bytes)
    rows = []
    for spot in (progress or iter)(spots):
        chooser = chooser_of(schema, float(spot), users, delta, ask, prior, weights, limits)
        found: dict[str, float] = {}
        for way in kept_ways(schema, chooser, users):
            name = EVERY if way.questions_per_user == len(way.units) else ONE if way.questions_per_user == 1 else SOME
            found[name] = min(found.get(name, math.inf), math.sqrt(way.cost / users))
        limit = limit_of(chooser, users)
        rows.append({**found, LIMIT: limit} if limit else found)
    names = [name for name in (ONE, SOME, EVERY, LIMIT) if any(name in row for row in rows)]
    lines = {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}
    return ErrorCurves(epsilon, users, tuple(float(spot) for spot in spots), lines)


def _ascending(epsilons: Iterable[float]) -> Sequence[float]:
    spots = tuple(checked_epsilon(spot) for spot in epsilons)
    if not spots or any(low >= high for low, high in pairwise(spots)):
        raise ParameterError("epsilons must be ascending, for example [0.5, 1.0, 2.0]")
    return spots
