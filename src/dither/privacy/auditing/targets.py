"""What is attacked: a mechanism, several rounds of one, or anything that sends reports.

A mechanism with memory draws a permanent response once and shows it, randomized again, at every round. What it promises
holds for all rounds together, so all of them are attacked at once, as one report (`Rounds`): what an adversary sees who
keeps listening. A device that forgets, and draws its permanent response anew, gives itself away only here.

Of a mechanism the channel is known and what values there are; of what others have written, nothing (`Unspecified`).
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism, Reading

ROUNDS = 16


class Auditable(Protocol):
    """What an audit needs to see. Of a `Mechanism` it knows the channel, too, and can do more."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, and put to the test."""
        ...

    def randomize(self, values: Any, *, seed: int | None = None) -> NDArray:
        """One report for each value."""
        ...

    def inputs(self) -> NDArray:
        """Some values."""
        ...


@runtime_checkable
class Remembering(Auditable, Protocol):
    """What keeps a permanent response on the device, and shows it at every round; all rounds together are promised."""

    @property
    def reading(self) -> Reading:
        """What a value may be."""
        ...

    def permanent(self, values: Any, *, seed: int | None = None) -> NDArray:
        """What is kept for each value."""
        ...

    def instantaneous(self, permanent: Any, *, seed: int | None = None) -> NDArray:
        """What is shown of it at one round."""
        ...


@dataclass(frozen=True)
class Rounds:
    """A mechanism with `permanent` and `instantaneous` responses, over so many rounds."""

    mechanism: Remembering
    rounds: int = ROUNDS

    @property
    def guarantee(self) -> Guarantee:
        """What all rounds promise together."""
        return self.mechanism.guarantee

    @property
    def reading(self) -> Reading:
        """What a value may be."""
        return self.mechanism.reading

    def channel(self) -> None:
        """What all rounds tell together is not written down."""

    def inputs(self) -> NDArray:
        """Some values."""
        return self.mechanism.inputs()

    def randomize(self, values: Any, *, seed: int | None = None) -> NDArray:
        """For each value the reports of all rounds, in fields as long as there are rounds."""
        seeds = [None if seed is None else (seed << 16) + place for place in range(self.rounds + 1)]
        kept = self.mechanism.permanent(values, seed=seeds[0])
        shown = [np.asarray(self.mechanism.instantaneous(kept, seed=each)) for each in seeds[1:]]
        dtype = shown[0].dtype
        made = np.empty(len(kept), dtype=[(name, dtype[name], (self.rounds,)) for name in dtype.names or ()])
        for name in dtype.names or ():
            for place, reports in enumerate(shown):
                made[name][:, place] = reports[name]
        return made


@dataclass(frozen=True)
class Unspecified:
    """What is attacked from outside: nothing is known of it but what it sends."""

    mechanism: Auditable
    reading: None = None

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        return self.mechanism.guarantee

    def channel(self) -> None:
        """It is not known."""

    def inputs(self) -> NDArray:
        """Some values."""
        return self.mechanism.inputs()

    def randomize(self, values: Any, *, seed: int | None = None) -> NDArray:
        """One report for each value."""
        return self.mechanism.randomize(values, seed=seed)

    def __repr__(self) -> str:
        return repr(self.mechanism)


Attacked = Mechanism | Rounds | Unspecified
