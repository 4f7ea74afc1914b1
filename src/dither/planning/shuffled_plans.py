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
  are tried (`_EVERY`), and what counts is the sum of the losses. With many users this is often the best way: noise
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
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dither.core.crowd import Crowd
from dither.core.exact import float_above, share_below
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.errors import ParameterError
from dither.planning.choose import Chooser, Price, Unit, Way
from dither.privacy.accounting.composition import compose
from dither.privacy.shuffle import amplify, local_budget, shuffled_delta
from dither.privacy.shuffled_rounds import ShuffledRound
from dither.questions.tables import crossed

if TYPE_CHECKING:
    from dither.planning.plans import Plan

_CLOSE = 1e-3  # of a local epsilon: how near the largest one is found
MOST_LOCAL = 16.0  # of one report, and of one user if nothing else is said: beyond, nothing is random
_TINY = 1e-300
_STEP = 1.1  # by which a larger one is tried at first
_HOPELESS = 2.0  # times the best: a way that costs more is not looked at any further
# How budgets are tried, the largest first, until a way keeps the promise: a factor for the parts of the central
# epsilon, which are one over the root of their number, as losses add up; and one for the local epsilons they allow.
# Parts that hide well and badly, mixed, together hide a little less than each alone.
_ONE = ((1.0, 1.0), (1.0, 0.995), (1.0, 0.98), (1.0, 0.95), (1.0, 0.85))
_EVERY = ((1.1, 1.0), (1.0, 1.0), (1.0, 0.95), (1.0, 0.85), (1.0, 0.7))


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
    shrink: float = 1.0  # of local epsilons
    own: bool = True  # whether a mechanism has the budget that its own bound allows, and not what any would have
    found: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)  # also by other stretches

    @classmethod
    def of(cls, chooser: Chooser, crowd: Crowd, most: float | None) -> "CrowdChooser":
        """The same for a crowd; `most` is what a user may tell without it, if that is limited."""
        known = {each.name: getattr(chooser, each.name) for each in fields(Chooser)}
        own = {"epsilon": crowd.epsilon, "delta": crowd.delta, "batch": crowd.batch}
        return cls(**{**known, **own}, most=MOST_LOCAL if most is None else most)

    def ways_kept(self, keeps: Callable[[Way], bool]) -> list[Way]:
        """Of every way to ask that with the largest budgets with which it keeps what is promised; the best first."""
        kept: dict[str, Way] = {}
        for every, tried in ((False, _ONE), (True, _EVERY if len(self.questions) > 1 else ())):
            for stretch, shrink in tried:
                chooser = replace(self, every=every, stretch=stretch, shrink=shrink)
                most = _HOPELESS * min((way.cost for way in kept.values()), default=math.inf)
                ways = [way for way in chooser.ways_if_any() if way.label not in kept and way.cost < most]
                kept |= {way.label: way for way in ways if keeps(way)}
                if all(way.label in kept for way in ways):
                    break
        return sorted(kept.values(), key=lambda way: way.cost)

    def ways_if_any(self) -> list[Way]:
        """None where the budgets suffice for no mechanism."""
        try:
            return self.ways()
        except ParameterError:
            return []

    def declared(self, way: Way) -> tuple[float, float]:
        """What all that a user sends tells on its own."""
        largest = sorted((mechanism.epsilon for mechanism in way.mechanisms), reverse=True)[: way.questions_per_user]
        return float_above(sum(map(Fraction, largest), Fraction(0))), 0.0

    def spent(self, mechanism: Mechanism, way: Way) -> tuple[float, float]:
        return self._part(way.questions_per_user)

    def _part(self, m: int) -> tuple[float, float]:
        return min(1.0, self.stretch / math.sqrt(m)) * self.epsilon, share_below(self.delta, m)

    def numbers(self, count: int) -> range:
        return range(1, 1 if self.every else min(2, count))

    def _of(self, units: tuple[Unit, ...], style: str) -> Iterator[Way | None]:
        """One question a user, or every one."""
        every = (way for way in super()._of(units, style) if way is not None)
        yield from (way for way in every if (way.questions_per_user == len(units)) == (self.every or len(units) == 1))

    def _budgets_by_variance(self, units: tuple[Unit, ...]) -> None:
        """Not for a crowd: what several reports cost together is no sum."""

    @cached_property
    def _for_tables(self) -> "CrowdChooser":
        return replace(self, own=False)

    def prices(self, unit: Unit, epsilon: float, delta: float, share: float) -> Iterator[Price]:
        """Of tables, of which there are very many to look at, with the budget of any mechanism: some per cent less."""
        chooser = self if crossed(unit) is None else self._for_tables
        return Chooser.prices(chooser, unit, epsilon, delta, share)

    def _offers(
        self, unit: Unit, epsilon: float, delta: float, share: float
    ) -> Iterator[tuple[type[Mechanism], Mapping[str, Any]]]:
        """What each class offers for its own budget, which is larger than the one that any mechanism may have."""
        if not self.own:
            yield from super()._offers(unit, self._of_any(epsilon, delta), 0.0, share)
            return
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
        return min(self._most_of_one, self.found[key])

    @cached_property
    def _most_of_one(self) -> float:
        """What one report may tell on its own."""
        return min(MOST_LOCAL, self.most / (len(self._reported_together()) if self.every else 1))

    def _with_budget(
        self, cls: type[Mechanism], parameters: Mapping[str, Any], epsilon: float, delta: float
    ) -> Mechanism:
        key = (cls, repr(parameters), epsilon, delta, self._most_of_one, self.own)
        if key not in self.found:
            made = self._with_largest_budget if self.own else self._with_budget_of_any
            self.found[key] = made(cls, parameters, epsilon, delta)
        largest = self.found[key]
        return largest if self.shrink == 1 else cls.with_budget(parameters, self.shrink * largest.epsilon, 0.0)

    def _with_budget_of_any(
        self, cls: type[Mechanism], parameters: Mapping[str, Any], epsilon: float, delta: float
    ) -> Mechanism:
        return cls.with_budget(parameters, self._of_any(epsilon, delta), 0.0)

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
        return tried[largest_below(excess, low, self._most_of_one)]


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
