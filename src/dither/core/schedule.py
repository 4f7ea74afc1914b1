"""Schedules: how often a device is asked the same, and what it does in each round.

A collection over time has rounds with public names (weeks, say). What a device sends in them may depend on its values
and on public facts, and all of it together keeps one promise. There are three modes:

- `one`: a device draws one of the R rounds, without looking at anything, and reports in that one alone. Each round has
  the reports of a part of the users, and a report may spend everything.
- `fresh`: every device reports in every round, with fresh noise. What it spends is divided by R.
- `kept`: a device draws a response once and keeps it (*permanent response*, memoization), and makes its report of every
  round from it. A new response is drawn when the value has changed, at most `changes` times; what is spent is divided
  by 1 + `changes`. A mechanism that remembers (`mechanisms.longitudinal`) randomizes the kept response again in every
  round; of any other the kept response is the report.

**What is promised**, with `responses` for the number of times that a value is randomized for the first time (1, R, or
1 + changes): a transcript is made of so many independent draws of the channel of a response, and of public facts. So it
is the product of so many channels that bounds it (`over_time`), for any two histories of values; where a kept response
may change, for two histories that change at the same times, since the times show (`privacy.ledger`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import msgspec

from dither.core.channel import Channel
from dither.core.checks import checked_count, is_string, whole_number
from dither.core.composite_channels import Announced, Independent
from dither.core.decoding import decoded
from dither.errors import ParameterError

ONE, FRESH, KEPT = "one", "fresh", "kept"
MODES = (ONE, FRESH, KEPT)
MOST_ROUNDS = 10_000
_LONGEST = 200  # letters of a name
_SHOWN = 6
_RULE = 'rounds is a number of rounds, as in rounds=30, or a list of their names, as in rounds=["2026-W47", "2026-W48"]'


@dataclass(frozen=True)
class Schedule:
    """How many rounds there are, what they are called, and what a device does in each; `ONCE` for a single one.

    >>> weekly = Schedule.of(["W47", "W48", "W49"])
    >>> weekly.rounds, weekly.periods, weekly.number_of("W48"), weekly.responses
    (3, ('W47', 'W48', 'W49'), 1, 1)
    >>> Schedule(30).periods[:3]
    (0, 1, 2)
    """

    rounds: int = 1
    mode: str = ONE
    changes: int | None = None  # where responses are kept: how often a value may change
    labels: tuple[str, ...] = ()  # public names of the rounds; without them, their numbers from 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", checked_count("rounds", self.rounds, 1, MOST_ROUNDS))
        object.__setattr__(self, "labels", tuple(self.labels))
        if self.mode not in MODES:
            raise ParameterError(f"the mode of a schedule is one of {', '.join(MODES)}")
        if self.changes is not None:
            object.__setattr__(self, "changes", checked_count("changes", self.changes, 0, MOST_ROUNDS))
        if (self.changes is None) == (self.mode == KEPT):
            raise ParameterError("a device that keeps a response has a number of changes, and no other device has one")
        fine = all(type(label) is str and 0 < len(label) <= _LONGEST for label in self.labels)
        if self.labels and (not fine or len(set(self.labels)) < len(self.labels) or len(self.labels) != self.rounds):
            raise ParameterError(f"rounds need names that differ, one for each; {_RULE}")

    @classmethod
    def of(cls, rounds: Any) -> "Schedule":
        """From what a caller gives as rounds: their number, or their names in order."""
        number = whole_number(rounds)
        if number is not None:
            return cls(number)
        names = list(rounds) if isinstance(rounds, Sequence) and not is_string(rounds) else []
        if not names or not all(map(is_string, names)):
            raise ParameterError(_RULE)
        return cls(len(names), labels=tuple(str.__str__(name) for name in names))

    @property
    def repeats(self) -> bool:
        """Whether there is more than one round."""
        return self.rounds > 1

    @property
    def responses(self) -> int:
        """How often a value is randomized for the first time, in all rounds together."""
        return {ONE: 1, FRESH: self.rounds, KEPT: 1 + (self.changes or 0)}[self.mode]

    @property
    def turnout(self) -> Fraction:
        """The share of the users who report in one round."""
        return Fraction(1, self.rounds) if self.mode == ONE else Fraction(1)

    @property
    def moments_hidden(self) -> bool:
        """Whether two histories may differ in any way: where a kept response is replaced, it shows when."""
        return not self.changes

    def over_time(self, response: Channel) -> Channel:
        """The channel of all rounds together, of that of one response; when a kept one changes is announced."""
        if self.responses == 1:
            return response
        together = Independent.all_of([response] * self.responses)
        return together if self.moments_hidden else Announced((together,))

    @property
    def periods(self) -> tuple[str, ...] | tuple[int, ...]:
        """The public names of the rounds, in order."""
        return self.labels or tuple(range(self.rounds))

    @cached_property
    def _numbers(self) -> dict[str | int, int]:
        return {label: number for number, label in enumerate(self.periods)}

    def number_of(self, period: Any) -> int:
        """The number of the round with this name."""
        key = whole_number(period)
        name = key if key is not None else str.__str__(period) if isinstance(period, str) else None
        found = None if name is None else self._numbers.get(name)
        if found is None:
            raise ParameterError(f"there is no such period in this plan; {self.periods_in_words()}")
        return found

    def periods_in_words(self) -> str:
        """What rounds are called."""
        if not self.labels:
            return f"its periods are the numbers from 0 to {self.rounds - 1}"
        rest = len(self.labels) - _SHOWN
        return f"its periods are {', '.join(self.labels[:_SHOWN])}" + (f" and {rest:,} more" if rest > 0 else "")

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        later = {"changes": self.changes, "labels": list(self.labels) or None}
        told = {name: each for name, each in later.items() if each is not None}
        return {"rounds": self.rounds, "mode": self.mode, **told}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Schedule":
        """The inverse of `to_dict`."""
        found = decoded(dict(stored), ScheduleFormat, "this is not a schedule")
        made = cls(found.rounds, found.mode, found.changes, tuple(found.labels))
        if not made.repeats:
            raise ParameterError("a schedule that is stored has at least two rounds")
        return made


class ScheduleFormat(msgspec.Struct, forbid_unknown_fields=True):
    rounds: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROUNDS)]
    mode: str
    changes: int | None = None
    labels: list[str] = []


ONCE = Schedule()
