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

**Several rounds.** `central` is then for all batches of all rounds together. Two schedules (`core.schedule`) compete:

- *every round, fresh noise*: each of R rounds is a shuffled collection of its own, with noise and questions that are
  drawn anew, so that R times as many losses add up. A part of central / sqrt(R) is about what each may have.
- *one round each*: a user is in one batch of one round, so that one batch is all that tells about her, and may have the
  whole of `central`; but a round has the reports, and the crowd, of n/R users only.

Behind a shuffler fresh noise wins, where without one it loses: both have local epsilons of nearly the same size (with
e^epsilon near central^2 n / R), and the first has R times the reports.

Responses that are kept are refused (`refuse_memory`). Rounds that share a response are not independent, so their losses
do not add up; and the crowd of somebody who misses a round is not the batch. Whoever sees the batches with and without
her has her kept response as their difference (docs/decisions/0048).

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
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from dither.core.checks import checked_epsilon
from dither.core.crowd import Crowd
from dither.core.exact import float_above, share_below
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.schedule import FRESH, KEPT, ONCE, Schedule
from dither.errors import ParameterError
from dither.planning.choose import Chooser, Price, Unit, Way
from dither.privacy.accounting.composition import compose
from dither.privacy.shuffle import amplify, local_budget, shuffled_delta
from dither.privacy.shuffled_rounds import ShuffledRound
from dither.questions.tables import crossed

if TYPE_CHECKING:
    from dither.planning.plans import Plan

_CLOSE = 1e-3  # of a local epsilon: how near the largest one is found
MOST_LOCAL = 16.0  # of one report, and of one user in a round if nothing else is said: beyond, nothing is random
_SHORT = 1e-6  # with what chance one of the rounds that users draw may have fewer of them than a batch
_TINY = 1e-300
_STEP = 1.1  # by which a larger one is tried at first
_HOPELESS = 2.0  # times the best: a way that costs more is not looked at any further
# How budgets are tried, the largest first, until a way keeps the promise: a factor for the parts of the central
# epsilon, which are one over the root of their number, as losses add up; and one for the local epsilons they allow.
# Parts that hide well and badly, mixed, together hide a little less than each alone.
_ONE = ((1.0, 1.0), (1.0, 0.995), (1.0, 0.98), (1.0, 0.95), (1.0, 0.85))
_EVERY = ((1.1, 1.0), (1.0, 1.0), (1.0, 0.95), (1.0, 0.85), (1.0, 0.7))
# Where rounds add up, what is tried next follows from how far the last was off: the sum is nearly linear in its parts.
_AGAIN = 1.1
_CAREFUL = 0.995
_MOST_TRIES = 8


def shuffled_guarantee(plan: "Plan", crowd: Crowd) -> Guarantee:
    """What the smallest batches of a plan's reports promise to everybody in them, those of all rounds together.

    With groups, batches of one group. With a round for each user her batch is all that tells about her; with fresh
    noise in every round there are as many batches as rounds, and their losses add up.
    """
    if plan.groups:
        return shuffled_guarantee(plan.groups[0].asked, crowd)
    if plan.schedule.mode == KEPT:
        refuse_memory()
    only = plan.parts[0].mechanism if len(plan.parts) == 1 else None  # whose own bound may be closer than a plan's
    once, times = only or replace(plan, schedule=ONCE, crowd=None), plan.schedule.responses
    if 1 < plan.questions_per_user == len(plan.parts):
        rounds = [(ShuffledRound(part.mechanism, crowd.batch), times) for part in plan.parts]
    elif times > 1:
        rounds = [(ShuffledRound(once, crowd.batch), times)]
    else:
        return amplify(once, crowd.batch, crowd.delta)
    return compose(rounds, crowd.delta)


def refuse_memory() -> NoReturn:
    """No crowd is known to hide a response that is kept: reports that are made from it are not independent."""
    raise ParameterError(
        "a kept response comes back in every round, and who joins, leaves or misses one is seen by the difference: no "
        "crowd is known to hide it. Behind a shuffler plan with fresh noise: leave out changes, and say with first= "
        "what one round may tell on its own; or keep responses and plan without central"
    )


def crowd_in(schedule: Schedule, crowd: Crowd, users: int, *, given: bool) -> Crowd | None:
    """The smallest batch of a round; None where rounds have fewer users than the one that is `given`.

    With a round for each user, how many draw it is chance: by default the batch has as many as each round has, but with
    a probability of one in a million. By Chernoff's bound a binomial number with mean m is below m - t with
    probability exp(-t^2 / (2 m)) at most, and there are R of them.
    """
    if schedule.mode == FRESH or not schedule.repeats:
        return crowd
    expected = users / schedule.rounds
    sure = math.floor(expected - math.sqrt(2 * expected * math.log(schedule.rounds / _SHORT)))
    if given:
        return crowd if crowd.batch <= expected else None
    return replace(crowd, batch=sure) if sure > 1 else None


class LocalLimits(NamedTuple):
    """What a user may tell without the crowd, if that is limited: in all rounds, and in one."""

    all_rounds: float | None = None
    one_round: float | None = None

    def of_a_round(self, schedule: Schedule) -> float:
        """The most that the reports of one round may tell on their own."""
        together = (
            None if self.all_rounds is None else share_below(checked_epsilon(self.all_rounds), schedule.responses)
        )
        return min((each for each in (together, self.one_round) if each is not None), default=MOST_LOCAL)


_UNLIMITED = LocalLimits()


@dataclass(frozen=True)
class CrowdChooser(Chooser):
    """Compares ways to ask with budgets that hold after shuffling: `epsilon` and `delta` are the central ones."""

    batch: int = 2
    most: float = MOST_LOCAL  # what all that a user sends in a round may tell on its own, at most
    every: bool = False  # whether every user answers every question, and not one each
    stretch: float = 1.0  # of the parts of epsilon
    shrink: float = 1.0  # of local epsilons
    own: bool = True  # whether a mechanism has the budget that its own bound allows, and not what any would have
    found: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)  # also by other stretches

    @classmethod
    def of(
        cls, chooser: Chooser, crowd: Crowd, limits: LocalLimits = _UNLIMITED, schedule: Schedule = ONCE
    ) -> "CrowdChooser":
        """The same for a crowd, in the rounds of a schedule."""
        known = {each.name: getattr(chooser, each.name) for each in fields(Chooser)}
        own = {"epsilon": crowd.epsilon, "delta": crowd.delta, "batch": crowd.batch, "schedule": schedule}
        return cls(**{**known, **own}, most=limits.of_a_round(schedule))

    def ways_kept(self, margin: Callable[[Way], float], least: float = math.inf) -> list[Way]:
        """Of every way to ask that with the largest budgets with which it keeps what is promised; the best first.

        `margin` is how many times as much as a way tells once shuffled it may tell: it is kept from 1 on. In rounds it
        takes seconds to find, so it is looked for the best way only of those with one question a user, and of those
        with every question where that costs less than `least`.
        """
        kept: dict[str, Way] = {}
        again = self.schedule.repeats
        for every in (False, True) if len(self.questions) > 1 else (False,):
            tries = [(_AGAIN if every or self.schedule.mode == FRESH else 1.0, 1.0)]
            tries = tries if again else [*(_EVERY if every else _ONE)]
            for number in range(_MOST_TRIES):
                stretch, shrink = tries[number]
                chooser = replace(self, every=every, stretch=stretch, shrink=shrink)
                most = _HOPELESS * min((way.cost for way in kept.values()), default=math.inf)
                ways = [way for way in chooser.ways_if_any() if way.label not in kept and way.cost < most]
                if again:
                    ways = [way for way in ways[:1] if not every or way.cost < least]
                margins = {way.label: margin(way) for way in ways}
                kept |= {way.label: way for way in ways if margins[way.label] >= 1}
                nearest = max((each for each in margins.values() if each < 1), default=None)
                if again and nearest:
                    tries.append((stretch * _CAREFUL * nearest, 1.0))
                if nearest is None or number + 1 == len(tries):
                    break
        return sorted(kept.values(), key=lambda way: way.cost)

    def ways_if_any(self) -> list[Way]:
        """None where the budgets suffice for no mechanism."""
        try:
            return self.ways()
        except ParameterError:
            return []

    def declared(self, way: Way) -> tuple[float, float]:
        """What all that a user sends in all rounds tells on its own."""
        return float_above(self._told_in_a_round(way) * self.schedule.responses), 0.0

    def within_limits(self, way: Way) -> bool:
        """Whether that is no more than a round may tell."""
        return self._told_in_a_round(way) <= Fraction(self.most)

    @staticmethod
    def _told_in_a_round(way: Way) -> Fraction:
        largest = sorted((mechanism.epsilon for mechanism in way.mechanisms), reverse=True)[: way.questions_per_user]
        return sum(map(Fraction, largest), Fraction(0))

    def spent(self, mechanism: Mechanism, way: Way) -> tuple[float, float]:
        return self._part(way.questions_per_user)

    def _part(self, m: int) -> tuple[float, float]:
        """Of m reports in each round: what one may tell after shuffling."""
        count = m * self.schedule.responses
        return min(1.0, self.stretch / math.sqrt(count)) * self.epsilon, share_below(self.delta, count)

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
