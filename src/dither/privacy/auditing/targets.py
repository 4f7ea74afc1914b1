"""Several rounds of the same device, as one report: what an adversary sees who keeps listening.

A mechanism with memory draws a permanent response once and shows it, randomized again, at every round. What it promises
holds for all rounds together, so all of them are attacked at once: a device that forgets, and draws its permanent
response anew, gives itself away only here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.guarantee import Guarantee

ROUNDS = 16


@dataclass(frozen=True)
class Rounds:
    """A mechanism with `permanent` and `instantaneous` responses, over so many rounds."""

    mechanism: Any
    rounds: int = ROUNDS

    @property
    def guarantee(self) -> Guarantee:
        """What all rounds promise together."""
        return self.mechanism.guarantee

    @property
    def reading(self) -> Any:
        """What a value may be."""
        return self.mechanism.reading

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
