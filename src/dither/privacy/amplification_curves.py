"""Amplification at a glance: the central epsilon of every bound against the users and against the local epsilon.

It is Fig. 2 of paper 003, corrected: without the bound that enumeration refutes, and with those that stand.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_epsilon
from dither.core.crowd import MOST_USERS
from dither.display.plots import Lines, saved, two_panels
from dither.privacy.certificate import Certifiable
from dither.privacy.shuffle import BOUNDS, bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Spot = tuple[float, int]  # a local epsilon, and a number of users

LOCAL, LOWER = "local", "lower"
_SPOTS = 13


@dataclass(frozen=True, eq=False)
class Curves:
    """Central epsilons, by bound, and on the worst data set known (`lower`); NaN where one does not apply."""

    epsilon: float
    n: int
    delta: float
    users: NDArray[np.float64]
    by_users: Lines
    epsilons: NDArray[np.float64]
    by_epsilon: Lines

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Two pictures beside each other; a file (.png, .svg, .pdf) if a path is given."""
        figure = two_panels(
            ("local epsilon", self.epsilons, self.by_epsilon, self.epsilon),
            ("users", self.users, self.by_users, self.n),
            titles=(f"{self.n:,} users", f"local epsilon {self.epsilon:g}"),
            label=f"epsilon after shuffling, at delta {self.delta:g}",
            faint=(LOCAL,),
        )
        return saved(figure, path)


def curves(
    epsilon: float,
    n: int,
    delta: float,
    mechanism: Callable[[float], Certifiable | float] | None = None,
    progress: Callable[[list[Spot]], Iterable[Spot]] | None = None,
) -> Curves:
    """The curves around a local epsilon and a number of users; `mechanism(epsilon)` makes one, else for any.

    `progress` wraps the spots, as `rich.progress.track` does.
    """
    epsilon, n = checked_epsilon(epsilon), checked_count("n", n, 2, MOST_USERS)
    given: Callable[[float], Certifiable | float] = mechanism or (lambda local: local)
    users = np.unique(np.geomspace(max(2, n / 100), min(n * 100, MOST_USERS), _SPOTS).round())
    epsilons = np.geomspace(epsilon / 8, epsilon * 8, _SPOTS)
    spots = [(epsilon, int(each)) for each in users] + [(float(each), n) for each in epsilons]
    found = []
    for local, crowd in (progress or iter)(spots):
        made = given(local)
        stated = bounds(made, crowd, delta)
        each = {name: guarantee.epsilon for name, guarantee in stated.items() if guarantee}
        known = {LOWER: stated.lower} if stated.lower else {}
        found.append({**each, **known, LOCAL: local})
    names = [name for name in (*BOUNDS, LOWER, LOCAL) if any(name in spot for spot in found)]
    lines = {name: np.array([spot.get(name, np.nan) for spot in found]) for name in names}
    by_users = {name: line[: len(users)] for name, line in lines.items()}
    by_epsilon = {name: line[len(users) :] for name, line in lines.items()}
    return Curves(epsilon, n, delta, users, by_users, epsilons, by_epsilon)
