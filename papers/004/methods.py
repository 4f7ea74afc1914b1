"""The methods of 004 as it runs them, and dither's own, by the names of its figures.

HDG and TDG have the guideline's granularities, CALM a cell for each pair of values, LHIO the hierarchy of each pair
with the constrained inference of the paper (two passes); all four report by optimal unary encoding, as in the authors'
code, drawn as tallies (`drawn_tallies`), and put pairs together by weighted update where that is a choice. HIO and MSW
are dither's mechanisms: every user reports. Uni answers by the volume of a query. Copula is what dither takes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dither.ranges
from dither.errors import ParameterError
from dither.ranges.collection import Ranges
from dither.ranges.range_estimate import RangeEstimate

from ..drawn_tallies import Crowd, unary
from .people import Asked, People

UPDATE = "weighted update"
PAPER = ("Uni", "HIO", "LHIO", "CALM", "MSW", "TDG", "HDG")
OURS = "Copula"
ALL = (*PAPER, OURS)
DRAWN: Mapping[str, tuple[Callable[..., Ranges], Mapping[str, Any]]] = {
    "HDG": (dither.ranges.HDG, {"granularity": "guideline"}),
    "TDG": (dither.ranges.TDG, {"granularity": "guideline"}),
    "CALM": (dither.ranges.CALM, {}),
    "LHIO": (dither.ranges.LHIO, {"inference": "two-pass"}),
}
REPORTED: Mapping[str, Callable[..., Any]] = {
    "HIO": dither.ranges.HIO,
    "MSW": dither.ranges.MSW,
    "Copula": dither.ranges.Copula,
}
_MOST_PAIRS = {"CALM": 256**2, "LHIO": 256**2}  # cells of a pair that are tried below the full scale


def shares(method: Ranges) -> NDArray[np.int64]:
    """How often each group is drawn."""
    return np.array([group.share for group in method.groups])


def drawn(name: str, people: People, epsilon: float, random: np.random.Generator, **options: Any) -> Any:
    """The estimate of a method whose tallies are drawn."""
    make, usual = DRAWN[name]
    method = unary(make(shape=people.shape, epsilon=epsilon, n=people.n, **{**usual, **options}))
    tally = Crowd.drawn(people.records, shares(method), random).tally(method, random)
    return method.estimate(tally)


def estimated(name: str, people: People, epsilon: float, random: np.random.Generator) -> RangeEstimate | None:
    """What a method makes of these users; None where it refuses so many attributes."""
    try:
        if name in DRAWN:
            found = drawn(name, people, epsilon, random)
            return found if name == "LHIO" else found.completed(UPDATE)
        method = REPORTED[name](shape=people.shape, epsilon=epsilon, n=people.n)
    except ParameterError:
        return None
    seed = int(random.integers(1 << 62))
    return method.estimate(method.tally(method.randomize(people.records, seed=seed)))


def affordable(name: str, people: People, full: bool) -> bool:
    """Whether a method is tried here: all of them at the full scale."""
    return full or people.c**2 <= _MOST_PAIRS.get(name, people.c**2)


def volumes(asked: Asked) -> NDArray[np.float64]:
    """The share of the domain inside each query, which is what Uni answers."""
    return np.prod([mask.mean(axis=1) for mask in asked.queries.masks], axis=0)


def answers(name: str, estimate: RangeEstimate | None, asked: Asked) -> NDArray[np.float64]:
    """What a method answers."""
    if name == "Uni" or estimate is None:
        return volumes(asked)
    return estimate.answers(asked.queries).value
