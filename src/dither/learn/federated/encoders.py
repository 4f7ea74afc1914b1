"""How an update travels: the encoders there are, by name, and how their reports add up over rounds."""

import math
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from dither.core.domains import BALL
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.reports import Reports
from dither.core.tally import Tally
from dither.learn.federated.ldpvec import LDPVec
from dither.learn.vector_reporter import VectorReporter, vector_candidates
from dither.mechanisms.lookup import registry
from dither.mechanisms.spec import parsed_spec

DEFAULT = "best"


@runtime_checkable
class VectorEncoder(Protocol):
    """How a vector travels: a `VectorReporter`, an `LDPVec`, or anything with their verbs."""

    @property
    def d(self) -> int:
        """How many coordinates a vector has."""
        ...

    @property
    def name(self) -> str:
        """What it is called, for people."""
        ...

    @property
    def fingerprint(self) -> str:
        """Equal exactly for equal protocols."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for one report."""
        ...

    @property
    def mechanism(self) -> Mechanism:
        """Who draws a report."""
        ...

    def error(self) -> float:
        """The expected squared distance of one report from the vector, at worst."""
        ...

    def inside(self, vectors: Any) -> NDArray:
        """The rows as the mechanism takes them."""
        ...

    def randomize(self, vectors: Any, *, seed: int | None = None) -> Reports:
        """One report for each row."""
        ...

    def tally(self, reports: NDArray) -> Tally:
        """The sum over reports."""
        ...

    def estimate(self, tally: Tally) -> Estimate:
        """The mean of the vectors."""
        ...


def encoder_for(name: str, d: int, epsilon: float, delta: float, clip: float, options: dict[str, Any]) -> VectorEncoder:
    """The reporter for updates of norm `clip`, by name; signs get the size that s of them of this norm have."""
    if name == "LDPVec":
        return LDPVec(d, epsilon, delta, clip, **options)  # type: ignore[return-value]  # a cached property is one
    if "s" in options:
        return VectorReporter(name, d=d, epsilon=epsilon, delta=delta, clip=clip / math.sqrt(options["s"]), **options)
    return VectorReporter(name, d=d, epsilon=epsilon, delta=delta, clip=clip, **{"norm": "l2", **options})


def update_candidates(delta: float) -> tuple[str, ...]:
    """What is tried for the best: mechanisms that take a whole update, and can do with this delta.

    >>> update_candidates(0.0), update_candidates(1e-6)
    (('UnitVector',), ('UnitVector', 'BallGaussian'))
    """
    return tuple(name for name in vector_candidates((BALL,)) if delta or not registry[name].needs_delta)


def noise_kind(name: str, options: dict[str, Any]) -> str:
    """How reports of this mechanism add up over rounds: see `per_round`."""
    if name == "LDPVec":
        return "gaussian" if options.get("base") == "Gaussian" else "pure"
    return parsed_spec(options.get("base", name))[0].composition
