"""What a paper claims, and what the numbers say: holds, holds after correction, refuted, or cannot be decided here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dither.reproduce.experiments import Experiment
from dither.reproduce.measured import Measured, NotMeasuredError

Outcome = Literal["holds", "holds after correction", "refuted", "cannot be decided here"]
OUTCOMES: tuple[Outcome, ...] = ("holds", "holds after correction", "refuted", "cannot be decided here")


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, with the numbers that it rests on."""

    outcome: Outcome
    evidence: str


def holds(evidence: str) -> Verdict:
    """The claim is true as it stands."""
    return Verdict("holds", evidence)


def corrected(evidence: str) -> Verdict:
    """True in substance, with a constant, a condition or a formula that is not the printed one."""
    return Verdict("holds after correction", evidence)


def refuted(evidence: str) -> Verdict:
    """Not true."""
    return Verdict("refuted", evidence)


def undecided(why: str) -> Verdict:
    """What would decide it is not to be had here."""
    return Verdict("cannot be decided here", why)


def by_criterion(true: bool, evidence: str, *, otherwise: Callable[[str], Verdict] = refuted) -> Verdict:
    """By a criterion that the numbers meet or do not.

    >>> by_criterion(2 > 1, "2 against 1")
    Verdict(outcome='holds', evidence='2 against 1')
    """
    return holds(evidence) if true else otherwise(evidence)


@dataclass(frozen=True)
class Claim:
    """One claim of a paper in our words, where it stands, and how numbers decide it.

    `judge` takes what was measured by each of `experiments`, in this order.
    """

    name: str
    says: str
    place: str
    experiments: Sequence[Experiment]
    judge: Callable[..., Verdict]

    def verdict(self, measured: Mapping[str, Measured]) -> Verdict:
        """What the numbers say; undecided where one that it needs was not measured."""
        missing = [each.name for each in self.experiments if each.name not in measured]
        if missing:
            return undecided(f"not measured in this run: {', '.join(missing)}")
        try:
            return self.judge(*(measured[each.name] for each in self.experiments))
        except NotMeasuredError as error:
            return undecided(f"not measured in this run: {error}")
