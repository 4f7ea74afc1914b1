"""Whether a tally can have come from honest reports at all: goodness of fit, for every population at once.

A mechanism names sums over reports whose means honest devices keep within bounds, whatever their users hold
(`core.honest_sums`): support counts between n q and n p, the ones of all words, how often each dimension is drawn. Each
is compared with its bounds on both sides. The bound of Chernoff and Hoeffding holds for every population and every
number of reports, and the bounds of all sums are added up (Bonferroni): so honest reports fail with probability
`false_alarm` at most, and in fact far more seldom.

**What passes is not proved honest.** Lies that stay within the bounds are those that no local mechanism can tell from
unlucky honest users: see `utility.influence` for what they can do. Found are lies that many honest users could not
have sent together: a code that is always equally likely, a word of ones, a dimension that was not drawn so often, noise
that never reaches so far.

**What is supposed**: reports are independent, one of each user. Those of one user over several rounds are not, nor is
what was selected by its content. Of hashed reports the chances are those over random hash functions.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dither.core.checks import as_float
from dither.core.honest_sums import HonestSums
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.display.markup import element
from dither.display.table import TextTable
from dither.errors import ParameterError, TallyError

FALSE_ALARM = 1e-6


class Finding(NamedTuple):
    """A sum that honest reports are unlikely to have."""

    what: str
    item: int
    seen: float  # the average term
    low: float
    high: float
    log_chance: float  # for all sums at once, that of honest reports as far out; at most


@dataclass(frozen=True)
class Goodness:
    """Whether honest reports can have made a tally: `p_value` is the chance that they are as far out, at most."""

    log_p: float
    sums: int  # how many were looked at
    false_alarm: float
    findings: tuple[Finding, ...]  # those that honest reports would hardly have, the worst first

    @property
    def p_value(self) -> float:
        """The chance that honest reports are as far out as these, at most, whatever their users hold."""
        return min(1.0, math.exp(self.log_p))

    @property
    def passed(self) -> bool:
        """Whether honest reports may have made it: if they did, this is false with chance `false_alarm` at most."""
        return not self.findings

    def table(self) -> TextTable:
        """One row a sum that is out of bounds: its average, and between what that of honest reports lies."""
        return TextTable(
            {
                "sum over reports": [each.what for each in self.findings],
                "item": [each.item for each in self.findings],
                "average": [each.seen for each in self.findings],
                "honest, least": [each.low for each in self.findings],
                "honest, most": [each.high for each in self.findings],
                "chance": [f"{math.exp(each.log_chance):.1e}" for each in self.findings],
            }
        )

    def explain(self) -> str:
        """In words."""
        if not self.sums:
            return "Nothing is known of these reports that could be checked."
        compared = f"{self.sums:,} sums over the reports were compared with what honest devices can send"
        if self.passed:
            return (
                f"Honest reports may have made this tally: {compared}, and none is out of bounds. Lies that stay "
                "within them are not ruled out."
            )
        worst = self.findings[0]
        return (
            f"Honest reports alone did not make this tally: {compared}, and {len(self.findings):,} of these are out of "
            f"bounds. The worst: {worst.what}, item {worst.item}, {worst.seen:.4g} on average, where honest devices "
            f"have {worst.low:.4g} to {worst.high:.4g}. A false alarm has probability {self.false_alarm:g} at most."
        )

    def __repr__(self) -> str:
        return self.explain() if self.passed else f"{self.explain()}\n{self.table()}"

    def _repr_html_(self) -> str:
        return element("p", self.explain()) + ("" if self.passed else self.table()._repr_html_())


def goodness(mechanism: Mechanism, tally: Tally, false_alarm: float = FALSE_ALARM) -> Goodness:
    """Whether honest reports of a mechanism can have made this tally.

    >>> from dither import Unary
    >>> unary = Unary(k=8, epsilon=1.0)
    >>> honest = unary.tally(unary.randomize([3] * 20_000, seed=1))
    >>> goodness(unary, honest).passed
    True
    >>> forged = unary.tally(np.repeat(unary.outputs()[[-1]], 1000))  # words of ones
    >>> print(goodness(unary, honest + forged).findings[0].what)
    ones in all words
    """
    if tally.mechanism != mechanism.fingerprint:
        raise TallyError("this tally belongs to another mechanism, or to this one with other parameters")
    return goodness_of_sums(mechanism.honest_sums(tally), false_alarm)


def goodness_of_sums(sums: Iterable[HonestSums], false_alarm: float = FALSE_ALARM) -> Goodness:
    """All sums together, with a chance of `false_alarm` at most that honest ones are found out of bounds."""
    level = as_float(false_alarm)
    if not 0 < level < 1:
        raise ParameterError("false_alarm must lie between 0 and 1, for example 1e-6")
    kept = [each for each in sums if each.seen.size]
    count = sum(each.seen.size for each in kept)
    if not count:
        return Goodness(0.0, 0, level, ())
    price = math.log(2 * count)  # two sides each
    found, least = list[Finding](), 0.0
    for each in kept:
        chances = each.log_chances() + price
        least = min(least, float(chances.min()))
        for item in np.flatnonzero(chances < math.log(level)).tolist():
            ends = float(each.shares[item]), float(each.low[item]), float(each.high[item])
            found.append(Finding(each.what, item, *ends, float(chances[item])))
    return Goodness(least, count, level, tuple(sorted(found, key=lambda each: each.log_chance)))
