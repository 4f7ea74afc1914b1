"""What is asked for, as what reports must tell: questions that rest on others put in terms of these.

A plan asks a device for what it can be asked: means, shares, keys, ranges. What rests on them (`questions.derived`)
adds to their importance, by how much its error grows with theirs:

    sum over all that is asked of weight x MSE / scale^2   =   sum over what reports tell of importance x MSE / scale^2,

to first order. So a plan for a variance shares users between the mean and the square as the variance needs them, and
something that several rest on is asked once, with the importance of all.

What a derived question rests on is not asked in pairs: how the errors of two numbers from one report go together is not
known, and a function of both would not know its error.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dither.questions.question import Question
from dither.utility.population import Population

LEAST = 1e-6  # the importance of what hardly matters, relative to all: it must be asked all the same


@dataclass(frozen=True)
class Demand:
    """What reports must tell and how much it matters; and what is worked out from it."""

    importance: Mapping[Question, float]
    derived: tuple[Question, ...]
    total: float  # of all that is asked
    alone: frozenset[Question]


def demanded(asked: Mapping[Question, float], users: Mapping[Question, Population]) -> Demand:
    """The questions that reports answer, given what is asked and how much it matters."""
    derived = tuple(each for each in asked if not each.reported)
    total = sum(asked.values())
    found = {each: weight for each, weight in asked.items() if each.reported}
    for each in derived:
        for base, slope in each.sensitivities(users).items():
            found[base] = found.get(base, 0.0) + max(asked[each] * slope, LEAST * total)
    return Demand(found, derived, total, frozenset(base for each in derived for base in each.rests_on))


def measured(asked: tuple[Question, ...]) -> tuple[Question, ...]:
    """What reports must answer for all of this, each once."""
    reported = [each for each in asked if each.reported]
    return tuple(dict.fromkeys([*reported, *(base for each in asked for base in each.rests_on)]))


def known_by(asked: tuple[Question, ...]) -> tuple[Question, ...]:
    """What a prior may tell about: all that reports must answer, and what else predictions depend on, each once."""
    return tuple(dict.fromkeys([*measured(asked), *(other for each in asked for other in each.depends_on)]))
