"""Poisoning has a number: how far one report, or a share of liars, can move each estimate.

`core.worth` says what a report is worth to an average over reports, and every mechanism says it of its own, from the
integers that it samples (`Mechanism.report_worth`). With it

- replacing one of n reports moves a number by at most (most - least) / n, over those n that are about it;
- a share b of liars turns an estimate of f into (1 - b) f + b w on average, where w is theirs to choose between
  `least` and `most`: so it moves by at most b (most - low) up and b (high - least) down, over all truths f from `low`
  to `high`. Where only some users are asked, liars all speak of the number that they want to move, and b is larger.

These are averages over the honest users' randomness. The noise comes on top, and is what error bars tell. They are
about estimates as they are read. A refined number learns from others, and so from lies about others: on the simplex it
is moved by at most what can be done to it up and down *together*, since the same is taken off all shares.

**A mechanism that does not say** is asked: where its reports are few, each is estimated alone (`core.listed_worth`).
Otherwise nothing is known, and that is said.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dither.core.checks import checked_real
from dither.core.worth import Worth, Worths
from dither.display.markup import element
from dither.display.table import TextTable
from dither.errors import ParameterError

UNKNOWN = (
    "it is not known what a report is worth: the mechanism does not say (report_worth), and its reports are too many "
    "to list, or its estimate is no average over them"
)


class Carrier(Protocol):
    """What says of itself what a report is worth: a mechanism, or what carries vectors through one."""

    def report_worth(self) -> Worths | None:
        """For each number that is estimated."""
        ...


@dataclass(frozen=True)
class Influence:
    """What one report can do to each number, and a share of liars.

    >>> from dither import GRR
    >>> influence(GRR(k=1000, epsilon=1.0))
    question   numbers     least    most  moved by 1 of n  1% of liars, down  1% of liars, up
    frequency    1,000  -0.58198  582.39           582.98           -0.01582           5.8239
    """

    source: str
    worths: Worths
    share: Fraction
    unknown: tuple[str, ...] = ()  # questions of which it is not known

    @property
    def worst(self) -> Worth:
        """The number that liars can move farthest, beside what it can be."""
        if not self.worths:
            raise ParameterError(UNKNOWN)
        return max(self.worths, key=lambda worth: worth.worst_shift(self.share) / (worth.high - worth.low))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is no average over reports, and what is known of it."""
        return tuple(dict.fromkeys(worth.note for worth in self.worths if worth.note))

    def of(self, question: str) -> Worth:
        """What a report is worth to one question."""
        found = next((worth for worth in self.worths if worth.question == question), None)
        if found is None:
            known = ", ".join(worth.question for worth in self.worths[:12]) or "none"
            raise ParameterError(f"there is no such question; there are {known}")
        return found

    def table(self) -> TextTable:
        """One row a question: what a report is worth, and what liars can do."""
        shifts = [worth.shift(self.share) for worth in self.worths]
        liars = f"{percentage(self.share)} of liars"
        return TextTable(
            {
                "question": [worth.question for worth in self.worths],
                "numbers": [worth.items for worth in self.worths],
                "least": [float(worth.least) for worth in self.worths],
                "most": [float(worth.most) for worth in self.worths],
                "moved by 1 of n": [float(worth.movement()) for worth in self.worths],
                f"{liars}, down": [float(down) for down, _ in shifts],
                f"{liars}, up": [float(up) for _, up in shifts],
            }
        )

    def column(self, questions: Sequence[str]) -> dict[str, list[float]]:
        """For a table of these questions: how far liars can move each, at most; NaN where that is not known."""
        known = {worth.question: float(worth.worst_shift(self.share)) for worth in self.worths}
        return {f"moved by {percentage(self.share)} of liars": [known.get(name, math.nan) for name in questions]}

    def explain(self) -> str:
        """In words: what a report is worth, what liars can do, and what is not covered."""
        if not self.worths:
            return f"{self.source}: {UNKNOWN}."
        lines = [_sentence(worth, self.share) for worth in self.worths]
        if any(not worth.exact for worth in self.worths):
            inexact = ", ".join(worth.question for worth in self.worths if not worth.exact)
            lines.append(f"A bound, which no report exceeds and perhaps none attains: {inexact}.")
        if self.unknown:
            lines.append(f"{', '.join(self.unknown)}: {UNKNOWN}.")
        return "\n".join([f"{self.source}.", *lines, *self.notes])

    def __repr__(self) -> str:
        return str(self.table()) if self.worths and not self.unknown else self.explain()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() if self.worths else element("p", self.explain())


def _sentence(worth: Worth, share: Fraction) -> str:
    down, up = worth.shift(share)
    about = "" if worth.asked == 1 else f", of which {percentage(worth.asked)} are asked about it"
    return (
        f"{worth.question}: a report adds {float(worth.least):.4g} to {float(worth.most):.4g}, in units of 1/n; an "
        f"honest one, on average, {float(worth.low):.4g} to {float(worth.high):.4g}. Replacing one of n reports moves "
        f"it by at most {float(worth.movement()):.4g} / n{about}; {percentage(share)} of liars by at most "
        f"{float(down):.4g} and {float(up):+.4g}."
    )


def percentage(share: Fraction | float) -> str:
    """As in 1%, or 0.25%."""
    return f"{100 * float(share):.4g}%"


def influence(carrier: Carrier, share: float = 0.01) -> Influence:
    """What one report of a mechanism can do to each number, and what a share of liars can.

    >>> from dither import SampledDuchi
    >>> print(influence(SampledDuchi(d=4, epsilon=1.0), share=0.05).explain())  # doctest: +NORMALIZE_WHITESPACE
    SampledDuchi(d=4, epsilon=1.0, delta=0.0, m=1).
    mean: a report adds -2.164 to 2.164, in units of 1/n; an honest one, on average, -1 to 1. Replacing one of n reports
    moves it by at most 17.31 / n, of which 25% are asked about it; 5% of liars by at most -0.5503 and +0.5503.
    """
    liars = checked_share("share", share)
    return Influence(repr(carrier), carrier.report_worth() or (), liars)


def checked_share(name: str, share: float) -> Fraction:
    """A share of users who lie, as the decimal that was written."""
    number = checked_real(name, share)
    if not 0 <= number < 1:
        raise ParameterError(f"{name} must be a share from 0 to below 1, for example 0.01 for one user in a hundred")
    return Fraction(repr(number))
