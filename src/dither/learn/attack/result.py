"""What an attack found: shares with their intervals, the curve, and a verdict.

The area under the ROC curve is the probability that a member scores higher than a non-member. It is an average, and so
is the balanced accuracy; beside them stands the share of members found where few others are accused: an attack that is
sure of a few does harm, although its average is that of a coin.

**What goes wrong.** Losses, scores and thresholds are of private records: an `Attack` keeps none. But its numbers were
computed from the records, without noise: they are for who holds the data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.guarantee import Guarantee
from dither.display.plots import COLOURS, saved, tidy
from dither.display.table import TextTable
from dither.errors import ParameterError, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]

FALSE_ALARMS = (0.01, 0.001)


class Rate(NamedTuple):
    """A share with its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


@dataclass(frozen=True, eq=False)
class Attack:
    """How well an attack told members from others, and what epsilon that proves at least.

    Of the records nothing is kept but counts and the corners of the ROC curve, without their thresholds.
    """

    name: str
    members: int
    others: int
    area: Rate
    accuracy: Rate  # balanced
    found: Mapping[float, Rate]  # members found at each share of others that are accused
    epsilon: float
    delta: float
    relation: str
    confidence: float
    guesses: int
    right: int
    tested: int
    certificate: Guarantee | None = None
    false_alarms: Numbers = field(default_factory=lambda: np.zeros(0), repr=False)  # the ROC curve: its corners
    hits: Numbers = field(default_factory=lambda: np.zeros(0), repr=False)

    @property
    def refuted(self) -> bool:
        """Whether the attack proves more than the certificate allows."""
        given = self.certificate
        return given is not None and not given.simulated and self.epsilon > given.epsilon

    @property
    def verdict(self) -> str:
        """In words, what this says about the certificate."""
        if self.certificate is None:
            return "there is no certificate to compare with"
        if self.certificate.simulated:
            return "the model was trained from a seed, so that there is no certificate to compare with"
        return f"the certificate {'is REFUTED' if self.refuted else 'stands'}"

    def table(self) -> TextTable:
        """All numbers, one a line."""
        facts = {
            "members, others": f"{self.members:,}, {self.others:,}",
            "area under the ROC": str(self.area),
            "balanced accuracy": str(self.accuracy),
            **{f"members found, {share:.3g} accused": str(rate) for share, rate in self.found.items()},
            "guesses": f"{self.right:,} of {self.guesses:,} right, among {self.tested:,} tested",
            "epsilon at least": f"{self.epsilon:.4g} ({self.relation} one{self._at()})",
            "confidence": f"{self.confidence:.10g}",
            "certificate": str(self.certificate) if self.certificate is not None else "none given",
            "verdict": self.verdict,
        }
        return TextTable({"": list(facts), self.name: list(facts.values())})

    def plot(self, path: str | Path | None = None) -> "Figure":
        """The ROC curve, both axes logarithmic: what counts is its left end."""
        figure = require("matplotlib.figure", "plot").Figure(figsize=(5.2, 4.6), layout="constrained")
        axes = figure.subplots()
        least = 0.5 / max(self.members, self.others)
        line = np.array([least, 1.0])
        axes.plot(line, line, color="0.6", linestyle=(0, (1, 1.5)), label="guessing")
        axes.step(
            np.maximum(self.false_alarms, least),
            np.maximum(self.hits, least),
            where="post",
            color=COLOURS[0],
            linewidth=2,
            label=self.name,
        )
        axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.05))
        axes.set(xlabel="share of others accused", ylabel="share of members found")
        axes.legend(frameon=False, fontsize=9, loc="lower right")
        tidy(axes)
        return saved(figure, path)

    def _at(self) -> str:
        return f", delta {self.delta:.3g}" if self.delta else ""

    def __str__(self) -> str:
        sure = min(self.found)
        lines = [
            f"The {self.name} attack saw {self.members:,} members and {self.others:,} others.",
            f"A member scores higher than another record with probability {self.area.value:.3f}; half of all guesses "
            f"would be right by chance, and {100 * self.accuracy.value:.1f}% were.",
            f"Where {100 * sure:.3g}% of the others are accused, it finds {100 * self.found[sure].value:.3g}% of the "
            "members.",
            f"With confidence {self.confidence:.10g} this proves epsilon at least {self.epsilon:.3g} "
            f"({self.relation} one{self._at()}): {self.verdict}.",
        ]
        if self.refuted:
            lines.append(
                f"The certificate says {self.certificate}. Either the training is not what was certified, or the two "
                "groups are not halves of one random split; look at both before anything is released."
            )
        return "\n".join(lines)


def attacks_table(attacks: Mapping[str, Attack], accuracy: Mapping[str, float] | None = None) -> TextTable:
    """A line for each attack, beside the accuracy of the model that was attacked, if it is given."""
    rows = list(attacks.values())
    columns: dict[str, Any] = {"model": list(attacks), "attack": [each.name for each in rows]}
    if accuracy is not None:
        if not set(attacks) <= set(accuracy):
            raise ParameterError("give the accuracy of every model that was attacked, under the same name")
        columns["accuracy"] = [float(accuracy[name]) for name in attacks]
    columns |= {
        "area": [round(each.area.value, 4) for each in rows],
        "balanced": [round(each.accuracy.value, 4) for each in rows],
        "found at 1%": [round(each.found[FALSE_ALARMS[0]].value, 4) for each in rows],
        "epsilon at least": [round(each.epsilon, 3) for each in rows],
        "certificate": ["none" if each.certificate is None else str(each.certificate) for each in rows],
    }
    return TextTable(columns)
