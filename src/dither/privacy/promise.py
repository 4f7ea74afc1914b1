"""A guarantee for somebody who has never heard of epsilon: a game of guessing, which a coin wins half of the time."""

import math

from dither.core.exact import upward
from dither.core.guarantee import Guarantee

_FIELD = {"local": "local", "shuffled": "shuffle", "central": "central"}


def chance_of_guess(guarantee: Guarantee) -> float:
    """How often the best guess between two answers that are equally likely is right, at most."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    return 1 / (1 + math.exp(-epsilon)) + delta / (1 + math.exp(min(epsilon, 700)))


def best_guess(guarantee: Guarantee) -> str:
    """The same in percent; rounded up.

    >>> best_guess(Guarantee(1.0)), best_guess(Guarantee(0.0)), best_guess(Guarantee(0.0, 0.5))
    ('73.2%', '50%', '75%')
    """
    return f"{upward(min(100.0, 100 * chance_of_guess(guarantee)), 3)}%"


def promise_in_words(guarantee: Guarantee) -> list[str]:
    """A guarantee for somebody who has never heard of epsilon. All roundings go up.

    >>> print(promise_in_words(Guarantee(1.0))[0])  # doctest: +NORMALIZE_WHITESPACE
    Whatever somebody's answers are, the probability of any report changes at most by a factor of e^1 = 2.72 if the
    answers are replaced by any others.
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if not math.isfinite(epsilon):
        return ["Nothing is promised."]
    factor = upward(math.exp(epsilon), 3) if epsilon < 700 else "a number without any meaning"
    beyond = f", and beyond that by at most delta = {upward(delta)}" if delta else ""
    ways = {
        "exact": "Exact: computed from the whole numbers that the randomisation uses, and attained by some answers.",
        "bound": "A bound: proved from the whole numbers that the randomisation uses; the real loss may be smaller.",
    }
    seen, whom, trust = {
        "local": (
            "any report",
            "all that a person reported",
            "it does not depend on trust in whoever collects: the answer was randomised before it left",
        ),
        "shuffled": (
            "any shuffled collection",
            "the reports of all people in no order",
            "it depends on trust in the shuffler, to take off who sent what, and in the others, to report as they "
            "should: whoever sees a report with its sender learns more",
        ),
        "central": (
            "anything that is published",
            "all that is published",
            "it depends on trust in the server, which holds the answers as they are: only what it publishes is "
            "randomised",
        ),
    }[guarantee.model]
    change, hidden = {
        "replace": ("the answers are replaced by any others", "which of two equally likely answers it hides"),
        "add-remove": (
            "the person's record is added or taken away",
            "whether the person's record is in it, which is as likely as not",
        ),
    }[guarantee.neighbours]
    return [
        f"Whatever somebody's answers are, the probability of {seen} changes at most by a factor of "
        f"e^{upward(epsilon)} = {factor} if {change}{beyond}.",
        f"What that means: somebody who sees {whom}, and guesses {hidden}, is right at most "
        f"{best_guess(guarantee)} of the time. A coin is right 50% of the time.",
        f"It holds for every person, whatever else is known, and {trust}. It is for this collection; others about the "
        "same answers add up.",
        f"In the terms of the field: {_FIELD[guarantee.model]} differential privacy, {guarantee}. "
        f"{ways[guarantee.established]}",
    ]
