"""What is measured: a function, the settings that it is called with, and how often.

An experiment comes in three sizes: `smoke` takes seconds and shows that everything runs, `quick` takes minutes, and
`full` is what the paper did. What differs between them, such as a share of the users, is its `size`; it is given to the
function, and is no coordinate, so that a figure is the same in all of them. Every measurement has a seed of its own,
made of the experiment's name, the setting and the number of the repetition.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from dither.core.mechanism import Mechanism
from dither.errors import ParameterError
from dither.reproduce.datasets import DataSet
from dither.reproduce.measured import Coordinate, Coordinates, Number

Scale = Literal["smoke", "quick", "full"]
SCALES: tuple[Scale, ...] = ("smoke", "quick", "full")
Setting = dict[str, Coordinate]
Measure = Callable[[Setting, int], Iterable[Number]]


def grid(**axes: Sequence[Coordinate]) -> tuple[Coordinates, ...]:
    """All combinations.

    >>> grid(s=(4, 8), d=(256,))
    ({'s': 4, 'd': 256}, {'s': 8, 'd': 256})
    """
    return tuple(dict(zip(axes, values, strict=True)) for values in product(*axes.values()))


def _no_mechanisms(setting: Setting) -> Sequence[Mechanism[Any]]:
    return ()


def _no_data(setting: Setting) -> Sequence[DataSet]:
    return ()


@dataclass(frozen=True)
class Experiment:
    """What is measured, where, how often, and on what it rests.

    `measure(setting, seed)` yields numbers; the coordinates of the setting are added to theirs. `mechanisms` and `data`
    name what a setting uses: a result is kept until one of these, the function or the setting changes. A measurement
    should take seconds, at most a few minutes: it is what is lost when a run is interrupted. `only` names the settings
    that a smaller scale keeps, by some of their coordinates.
    """

    name: str
    measure: Measure
    settings: Sequence[Coordinates]
    repetitions: Mapping[Scale, int]
    size: Mapping[Scale, Coordinates] = field(default_factory=dict)
    only: Mapping[Scale, Coordinates | Sequence[Coordinates]] = field(default_factory=dict)
    mechanisms: Callable[[Setting], Sequence[Mechanism[Any]]] = _no_mechanisms
    data: Callable[[Setting], Sequence[DataSet]] = _no_data
    cost: str = ""  # what the full size would take, where it is out of reach

    def __post_init__(self) -> None:
        if set(self.repetitions) != set(SCALES):
            raise ParameterError(f"{self.name}: repetitions are given for each of {', '.join(SCALES)}")
        if self.measure.__name__ == "<lambda>":
            raise ParameterError(f"{self.name}: measure is a function with a name, whose code can be found again")

    def at(self, scale: Scale) -> list[Coordinates]:
        """The settings that are measured at this scale."""
        chosen = self.only.get(scale)
        if chosen is None:
            return list(self.settings)
        allowed = [chosen] if isinstance(chosen, Mapping) else list(chosen)
        return [
            setting
            for setting in self.settings
            if any(all(setting.get(name) == value for name, value in each.items()) for each in allowed)
        ]

    def seed(self, setting: Coordinates, repetition: int) -> int:
        """The seed of one measurement; it does not depend on the scale."""
        text = json.dumps([self.name, dict(setting), repetition], sort_keys=True)
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
