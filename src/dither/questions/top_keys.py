"""The keys that most users hold: `top(films, 10)`.

Read off the presence of all keys. Of many the largest are in part the luckiest, so the intervals are those that hold
for all keys at once: they hold for the ones that came out on top, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.confidence import Ends, IntervalRule
from dither.core.estimate import Bounds, Estimate
from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.questions.derived import Derived, Users
from dither.questions.keys import PresenceOf, variances_of_keys
from dither.questions.question import CollectedUsers, Expected, Floats, Question, Whole
from dither.questions.ranking import means_the_same, name_and_numbers
from dither.schema import Attribute, Schema

USUAL = 10
MOST = 1000
_TRIALS = 512  # of who comes out on top: the error of a single key on top is known to 3%
_BLOCK = 1 << 20  # numbers at a time


@dataclass(frozen=True, eq=False)
class ChosenIntervals(IntervalRule):
    """Of some items, chosen by their values: the intervals that hold for all items at once."""

    every: Estimate
    places: NDArray[np.intp]

    def ends(self, miss: float) -> Ends:
        low, high = self.every.interval(1 - miss, simultaneous=True)
        return low[self.places], high[self.places]

    def of(self, places: NDArray[np.intp]) -> "ChosenIntervals":
        return replace(self, places=self.places[places])


@dataclass(frozen=True)
class TopOf(Derived[Estimate]):
    """The keys that most users hold, and their shares, the largest first."""

    count: int = USUAL

    statistic: ClassVar[str] = "top"
    group: ClassVar[str] = "shares"
    found: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{self.statistic}({self.name}, {self.count})"

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"the {self.count} that most users have"

    @property
    def sought(self) -> str:
        return f"which {self.count} things of {self.name} most people have, and which share of them"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind == "keyvalue"

    @classmethod
    def usage(cls, name: str, attribute: Attribute) -> str:
        return f"{cls.statistic}({name}, {USUAL})"

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        name, numbers = name_and_numbers(schema, inside)
        if name not in schema or not cls.asks(schema[name]):
            return None
        keys, number = schema[name].d, ",".join(numbers) or str(USUAL)  # type: ignore[union-attr]
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= min(keys, MOST)):
            raise ParameterError(f"top asks for a number of keys from 1 to {min(keys, MOST)}, as in top({name}, 3)")
        return cls(name, schema[name], count=int(number))

    def means(self, text: str) -> bool:
        return means_the_same(self, text)

    @property
    def shape(self) -> tuple[int]:
        return (self.count,)

    @property
    def of(self) -> PresenceOf:
        """The presence of all keys."""
        return PresenceOf(self.name, self.attribute)

    @property
    def rests_on(self) -> tuple[PresenceOf, ...]:
        return (self.of,)

    @property
    def remark(self) -> str:
        return (
            "predicted is the error of the share of a key: on average over those that will come out on top, in part by "
            "luck, if a prior says who holds what; else over all of them, of which the rare ones have the smaller "
            "errors. Its intervals are wider, since they hold for all keys at once."
        )

    def sensitivities(self, users: Users) -> dict[Question, float]:
        return {self.of: 1.0}

    def predict(self, expected: Mapping[Question, Expected], users: Users) -> float:
        told, known = expected[self.of], users.get(self.of)
        if known is None:
            return told.error
        reading: Any = told.mechanism.priced_reading
        reading = replace(reading, about=self.of.needs)
        held = sum(known.weights[:, None] * reading.truth(known.values))
        variances = variances_of_keys(reading, known, told.reports / told.users) / told.reports
        return _error_on_top(np.asarray(held), np.sqrt(variances), self.count)

    def derive(self, found: Mapping[Question, Estimate], collected: CollectedUsers) -> Estimate:
        every = found[self.of]
        if not every.n:
            unknown: Any = self.unknown(collected.guarantee, "")
            return replace(unknown, question=str(self), bounds=Bounds(0.0, 1.0))
        places = np.argsort(-every.value, kind="stable")[: self.count]
        names = every.item_names
        return Estimate(
            every.value[places],
            every.stderr[places],
            every.n,
            collected.guarantee,
            str(self),
            tuple(names[int(place)] for place in places),
            every.source,
            (*every.notes, "The largest of many are in part the luckiest: intervals hold for all keys at once."),
            Bounds(0.0, 1.0),
            rule=ChosenIntervals(every, places),
            ordered=True,
        )

    def sums_of(self, columns: Mapping[str, Any]) -> Whole | None:
        """Which keys come out on top is part of the result: it has no truth beforehand."""
        return None

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {}


def _error_on_top(held: Floats, errors: Floats, count: int) -> float:
    """The error of the shares that come out on top, who are in part the luckiest: by trial, always the same ones.

    >>> round(_error_on_top(np.array([0.9, 0.1, 0.1]), np.full(3, 0.01), 1), 3)
    0.01
    >>> round(_error_on_top(np.full(1000, 0.1), np.full(1000, 0.01), 1), 3)
    0.033
    """
    stream, squares, trials = Stream.seeded(0, "who comes out on top"), 0.0, 0
    while trials < _TRIALS:
        rows = max(1, min(_TRIALS - trials, _BLOCK // held.size))
        noise = errors * _normal(stream, trials * held.size, rows * held.size).reshape(rows, held.size)
        top = np.argpartition(-(held + noise), count - 1, axis=1)[:, :count]
        squares += float(np.square(np.take_along_axis(noise, top, axis=1)).sum())
        trials += rows
    return float(np.sqrt(squares / (trials * count)))


def _normal(stream: Stream, first: int, size: int) -> Floats:
    """Normal numbers, from a radius and an angle each."""
    radius, angle = ((stream.below(1 << 53, size, lane=lane, first=first) + 0.5) / 2.0**53 for lane in (0, 1))
    return np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * angle)
