"""Crowds: what a plan counts on where a shuffler stands between the devices and the server.

A shuffler takes who sent what off the reports, and forwards them in batches. What it shows of a batch promises more
than a single report does, and the more users are in the batch the more (`privacy.shuffle`). So it is the *smallest
batch that is forwarded* that counts, not the number of all users: a plan for a crowd states it, and a shuffler has to
wait for so many users. Every user is in one batch, so what is promised for each batch is promised for all of them.

Single reports are mixed: where a user sends several, one about each question, nobody sees which of them belong
together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from dither.core.checks import checked_count, checked_epsilon, checked_real
from dither.core.decoding import decoded
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError

MOST_USERS = 10**12
LEAST_DELTA = 1e-15  # floating point does not resolve smaller ones


@dataclass(frozen=True)
class Crowd:
    """What the shuffled reports of at least so many users are to promise.

    >>> Crowd(0.1, 1e-6, 100_000)
    Crowd(epsilon=0.1, delta=1e-06, batch=100000)
    """

    epsilon: float
    delta: float
    batch: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        object.__setattr__(self, "delta", checked_crowd_delta(self.delta))
        object.__setattr__(self, "batch", checked_count("batch", self.batch, 2, MOST_USERS))

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to everybody in a batch."""
        return Guarantee(self.epsilon, self.delta, "bound", model="shuffled")

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"epsilon": self.epsilon, "delta": self.delta, "batch": self.batch}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Crowd":
        """The inverse of `to_dict`."""
        found = decoded(dict(stored), _CrowdFormat, "this is not a crowd")
        return cls(found.epsilon, found.delta, found.batch)


class _CrowdFormat(msgspec.Struct, forbid_unknown_fields=True):
    epsilon: float
    delta: float
    batch: Annotated[int, msgspec.Meta(ge=2)]


def checked_crowd_delta(delta: Any) -> float:
    """A delta that shuffled reports can keep."""
    number = checked_real("delta", delta)
    if not 0 < number < 1:
        raise ParameterError("delta must lie between 0 and 1, for example 1e-6: shuffling alone keeps no delta of 0")
    if number < LEAST_DELTA:
        raise ParameterError(f"delta must be at least {LEAST_DELTA:g}: floating point does not resolve smaller ones")
    return number
