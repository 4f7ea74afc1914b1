"""Plans for a crowd: local budgets that are as large as a shuffler allows.

`central` and `delta` are what the shuffled reports of one batch promise. Whoever sees them sees no names, so a report
may tell more than it could on its own: the question is how much. Ways to ask are compared as in `choose`, with one
difference: a budget is what a report may tell **after shuffling**, and each mechanism gets the largest local epsilon
that its own bound allows for it (`privacy.shuffle`). Mechanisms that hide well among their like, as those with many
outputs do, get more than others with the same central budget.

- **One question a user.** Which question it is is drawn on the device, and the report names it. That is no secret, and
  still nobody knows *whose* report it is: the pair of question and report is what is randomized, so that all users of a
  batch hide each other, not only those who drew the same question (docs/decisions/0036). Each part may have a local
  budget of its own.
- **Every question.** A user sends a report for each, and the shuffler mixes single reports, so nobody sees which come
  from one user: as many shuffled collections as there are questions, whose losses add up
  (`privacy.shuffled_rounds`). To divide the central epsilon by their number is safe and far too much, so larger parts
  are tried (`_STRETCHES`), and what counts is the sum of the losses. With many users this is often the best way: noise
  is then small beside what is lost by not asking everybody.

Every way that is returned keeps the promise by the bound for all that a user sends (`shuffled_guarantee`), from the
integers that are sampled.

**What shuffling was worth** is the error of the best plan with the same epsilon and no shuffler, which stands beside
the prediction.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dither.core.crowd import Crowd
from dither.core.exact import float_above, share_below
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.errors import ParameterError
from dither.planning.choose import Chooser, Unit, Way
from dither.privacy.accounting.composition import compose
from dither.privacy.shuffle import amplify, local_budget, shuffled_delta
from dither.privacy.shuffled_rounds import ShuffledRound

if TYPE_CHECKING:
    from dither.planning.plans import Plan

_CLOSE = 1e-3  # of a local epsilon: how near the largest one is found
MOST_LOCAL = 16.0  # of one user: beyond, a report is hardly random, and a shuffler that tells is fatal
_TINY = 1e-300
_STEP = 1.1  # by which a larger one is tried at first
# Of the parts of the central epsilon, the largest first: times the root of their number, as losses add up, and less.
_STRETCHES = (1.1, 1.0, 0.9, 0.7, 0.5)
# For one question a user: parts that together hide a little less than each alone.
_SHRINKS = (1.0, 0.99, 0.97, 0.92, 0.8)


def shuffled_guarantee(plan: "Plan", crowd: Crowd) -> Guarantee:
    """What the smallest batch of a plan's reports promises to everybody in it; with groups, one of a group."""
    if plan.groups:
        return shuffled_guarantee(plan.groups[0].asked, crowd)
    if 1 < plan.questions_per_user == len(plan.parts):
        return compose([ShuffledRound(part.mechanism, crowd.batch) for part in plan.parts], crowd.delta)
    return amplify(plan, crowd.batch, crowd.delta)


@dataclass(frozen=True)
class CrowdChooser(Chooser):
    """Compares ways to ask with budgets that hold after shuffling: `epsilon` and `delta` are the central ones."""

    batch: int = 2
    most: float = MOST_LOCAL  # what all that a user sends may tell on its own, at most
    every: bool = False  # whether every user answers every question, and not one each
    stretch: float = 1.0  # of the parts of epsilon
    found: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)  # also by other stretches

    @classmethod
    def of(cls, chooser: Chooser, crowd: Crowd, most: float | None) -> "CrowdChooser":
        """The same for a crowd; `most` is what a user may tell without it, if that is limited."""
        known = {each.name: getattr(chooser, each.name) for each in fields(Chooser)}
        own = {"epsilon": crowd.epsilon, "delta": crowd.delta, "batch": crowd.batch}
        return cls(**{**known, **own}, most=MOST_LOCAL if most is None else min(most, MOST_LOCAL))

    def ways_kept(self, keeps: Callable[[Way], bool]) -> list[Way]:
        """Of every way to ask that with the largest budgets with which it keeps what is promised; the best first."""
        kept: dict[str, Way] = {}
        one = [replace(self, stretch=stretch) for stretch in _SHRINKS]
        every = (
            [replace(self, stretch=stretch, every=True) for stretch in _STRETCHES] if len(self.questions) > 1 else []
        )
        for choosers in (one, every):
            for chooser in choosers:
                ways = [way for way in chooser.ways() if way.label not in kept]
                kept |= {way.label: way for way in ways if keeps(way)}
                if all(way.label in kept for way in ways):
                    break
        return sorted(kept.values(), key=lambda way: way.cost)

    def declared(self, way: Way) -> tuple[float, float]:
        """What all that a user sends tells on its own."""
        largest = sorted((mechanism.epsilon for mechanism in way.mechanisms), reverse=True)[: way.questions_per_user]
        return float_above(sum(map(Fraction, largest), Fraction(0))), 0.0

    def spent(self, mechanism: Mechanism, way: Way) -> tuple[float, float]:
        return self._part(way.questions_per_user)

    def _part(self, m: int) -> tuple[float, float]:
        return min(1.0, self.stretch / math.sqrt(m)) * self.epsilon, share_below(self.delta, m)

    def _numbers(self, count: int) -> range:
        return range(1, 1 if self.every else min(2, count))

    def _of(self, units: tuple[Unit, ...], style: str) -> Iterator[Way | None]:
        """One question a user, or every one."""
        every = (way for way in super()._of(units, style) if way is not None)
        yield from (way for way in every if (way.questions_per_user == len(units)) == (self.every or len(units) == 1))

    def _budgets_by_variance(self, units: tuple[Unit, ...]) -> None:
        """Not for a crowd: what several reports cost together is no sum."""

    def _offers(
        self, unit: Unit, epsilon: float, delta: float, share: float
    ) -> Iterator[tuple[type[Mechanism], Mapping[str, Any]]]:
        """What each class offers for its own budget, which is larger than the one that any mechanism may have."""
        for form in unit[0].forms:
            workload = self._workload(unit, form, self._of_any(epsilon, delta), 0.0, share)
            for cls in self._candidates:
                own = [self._epsilon_of(cls, first, epsilon, delta) for first in cls.candidates(workload)]
                if any(own):
                    for parameters in cls.candidates(replace(workload, epsilon=max(own))):
                        yield cls, parameters

    def _epsilon_of(self, cls: type[Mechanism], parameters: Mapping[str, Any], epsilon: float, delta: float) -> float:
        """The local budget of a mechanism; 0 where none suffices."""
        try:
            return self._with_budget(cls, parameters, epsilon, delta).epsilon
        except ParameterError:
            return 0.0

    def _of_any(self, epsilon: float, delta: float) -> float:
        """The largest local budget that any mechanism may have."""
        key = epsilon, delta
        if key not in self.found:
            self.found[key] = local_budget(epsilon, self.batch, delta, "blanket")
        return min(self.most, self.found[key])

    def _with_budget(
        self, cls: type[Mechanism], parameters: Mapping[str, Any], epsilon: float, delta: float
    ) -> Mechanism:
        key = (cls, repr(parameters), epsilon, delta)
        if key not in self.found:
            self.found[key] = self._with_largest_budget(cls, parameters, epsilon, delta)
        return self.found[key]

    def _with_largest_budget(
        self, cls: type[Mechanism], parameters: Mapping[str, Any], epsilon: float, delta: float
    ) -> Mechanism:
        """With the largest local epsilon that its own bound allows: rarely far above that of any."""
        tried: dict[float, Mechanism] = {}

        def excess(local: float) -> float:
            """How far above delta, in logarithms: nearly a line in the local epsilon."""
            tried[local] = cls.with_budget(parameters, local, 0.0)
            return math.log(max(shuffled_delta(tried[local], epsilon, self.batch), _TINY) / delta)

        low = self._of_any(epsilon, delta)
        tried[low] = cls.with_budget(parameters, low, 0.0)
        return tried[largest_below(excess, low, self.most)]


def largest_below(excess: Callable[[float], float], low: float, most: float) -> float:
    """Nearly the largest number up to `most` where a growing function is not positive, as it is not at `low`.

    >>> round(largest_below(lambda x: x**2 - 9, 1.0, 20.0), 2)
    3.0
    """
    below, above, high = 0.0, 0.0, low
    while high < most and above <= 0:
        low, below, high = high, above, min(high * _STEP, most)
        above = excess(high)
    if above <= 0:
        return high
    while high - low > _CLOSE * low:
        root = low + (high - low) * below / (below - above) if below < 0 else (low + high) / 2
        for place in (root - _CLOSE * low / 3, root + _CLOSE * low / 3):
            if low < place < high:
                value = excess(place)
                low, below, high, above = (place, value, high, above) if value <= 0 else (low, below, place, value)
    return low
