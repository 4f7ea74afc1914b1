"""What is promised to the person who reports, and how it is known.

A `Guarantee` is a plain value: (epsilon, delta)-local differential privacy of one report under replacement of
its input by any other. `established` says how it is known:

- `exact`: computed from the integers that the sampler uses, and attained by some pair of inputs (where a report shows
  a public tag, such as a hash seed, under the worst tag);
- `bound`: proved, but perhaps not attained;
- `simulated`: there is none. The reports came from a seed, and whoever knows the seed knows the noise.

All roundings go up.
"""

from dataclasses import dataclass
from math import inf

from dither.core.channel import Channel
from dither.core.exact import upward
from dither.errors import ParameterError

KINDS = ("exact", "bound", "simulated")


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta), and how it was established.

    >>> print(Guarantee(1.0, 1e-6))
    epsilon 1, delta 1e-6 (exact)
    """

    epsilon: float
    delta: float = 0.0
    established: str = "exact"

    def __post_init__(self) -> None:
        if self.established not in KINDS or not self.epsilon >= 0 or not 0 <= self.delta <= 1:
            raise ParameterError(f"a guarantee has epsilon >= 0, delta in [0, 1], established in {KINDS}")

    @classmethod
    def of(cls, channel: Channel, epsilon: float, delta: float) -> "Guarantee":
        """What a channel promises: its pure epsilon, or with a declared delta, its delta at the declared epsilon."""
        if delta == 0 or channel.epsilon <= epsilon:
            return cls(channel.epsilon)
        return cls(epsilon, channel.profile(epsilon), "exact" if channel.exact else "bound")

    @property
    def simulated(self) -> bool:
        """Whether there is no guarantee because the reports came from a seed."""
        return self.established == "simulated"

    def __str__(self) -> str:
        if self.simulated:
            return "no guarantee (simulated from a seed)"
        delta = f", delta {upward(self.delta)}" if self.delta else ""
        return f"epsilon {upward(self.epsilon)}{delta} ({self.established})"


NO_GUARANTEE = Guarantee(inf, 0.0, "simulated")
