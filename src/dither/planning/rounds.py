"""Plans over time: the ways to ask the same users in R rounds, compared by price.

`epsilon` is what all that a user reports in all rounds promises. Three schedules (`core.schedule`) are compared, each
with every way of `choose` to share users and budgets among questions:

- **one round each**: a report spends everything, and each round has the reports of n/R users: the variance of a
  round is R V(epsilon), V being that of one report. Promised for any two histories of values.
- **every round, fresh noise**: R reports with epsilon/R each: V(epsilon/R), about R^2 V(epsilon) where epsilon is
  small. Promised for any two histories, too, and so hardly ever worth it: at a large epsilon only.
- **every round, from memory**, if it is said how often a value may change (`changes`): a response that is kept, and 1 +
  changes of them at epsilon/(1 + changes). No R in it. It is promised for two histories whose values change at the
  same times; with changes=0, for any two, since only the first value is ever looked at.

**Two budgets.** Of a kept response a single report may tell less: `first` < epsilon, by a mechanism that randomizes it
again (`mechanisms.longitudinal`). Then a round has the variance V(first), and the mean over R rounds
V(epsilon) + (V(first) - V(epsilon)) / R. By price `first` would always be epsilon: the second noise is no help to any
error. It is for privacy: a kept response that is sent as it is, in every round, is a name of its device, and the round
in which it changes is seen with certainty. So it is no outcome of the comparison but a choice, by default half of what
a response spends (`HALF`), for the questions that have such a mechanism: shares of categories. Of a number the kept
response itself is sent, in every round.

**The measure** is that of one round: the mean over questions of MSE / scale^2, the same in all rounds. Price and
variance of one of n/R reports are stated for all n users: R times as large (`Chooser.price_of`).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dither.core.checks import checked_epsilon
from dither.core.exact import share_below
from dither.core.mechanism import Mechanism
from dither.core.schedule import FRESH, KEPT, ONE, Schedule
from dither.core.workload import Workload
from dither.errors import ParameterError
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.memoized import Memoized
from dither.planning.choose import Chooser, Price, ReportLimits, Unit, Way
from dither.questions.question import Form, Question

if TYPE_CHECKING:
    from dither.planning.plan_parts import Part
    from dither.planning.plans import Plan
    from dither.planning.prediction import Prediction

HALF = Fraction(1, 2)  # of what a kept response spends, for a single report; a choice, not a result (decision 33)
IN_WORDS = {ONE: "one round each", FRESH: "every round, fresh noise", KEPT: "every round, from memory"}


class OverTime(NamedTuple):
    """What a caller says about rounds: their number or names, how often a value may change, what one may tell."""

    schedule: Schedule
    changes: int | None = None
    first: float | None = None

    @classmethod
    def checked(cls, rounds: Any, changes: Any, first: Any, epsilon: float) -> "OverTime":
        """The arguments `rounds`, `changes` and `first` of `dither.plan`; `epsilon` is what all rounds may tell."""
        schedule = Schedule.of(rounds)
        if not schedule.repeats and (changes, first) != (None, None):
            raise ParameterError("changes and first are for plans that ask again: say how often, as in rounds=30")
        if changes is not None:
            changes = replace(schedule, mode=KEPT, changes=changes).changes
        if first is not None:
            first = checked_epsilon(first)
            if first > epsilon:
                raise ParameterError("first is what one round may tell: at most epsilon, which is for all rounds")
        return cls(schedule, changes, first)

    def schedules(self) -> Iterator[Schedule]:
        """Those that are compared."""
        yield replace(self.schedule, mode=ONE)
        yield replace(self.schedule, mode=FRESH)
        if self.changes is not None:
            yield replace(self.schedule, mode=KEPT, changes=self.changes)

    def choosers(self, chooser: Chooser) -> "Iterator[RoundsChooser]":
        """What compares the ways to ask, for each schedule."""
        known = {each.name: getattr(chooser, each.name) for each in fields(Chooser)}
        for schedule in self.schedules():
            yield RoundsChooser(**{**known, "schedule": schedule}, first=self.first, divided=schedule.responses)


@dataclass(frozen=True)
class RoundsChooser(Chooser):
    """Compares the ways to ask with one schedule."""

    first: float | None = None  # what the reports of one round may tell, if that was said
    divided: int = 1  # into so many equal parts budgets are cut: those of responses
    report_epsilon: float | None = None  # what a single report tells, where it is known

    def by_response(self) -> "RoundsChooser":
        """The same for budgets of single responses."""
        return replace(self, divided=1)

    def prices(self, unit: Unit, epsilon: float, delta: float, share: float) -> Iterator[Price]:
        return super().prices(unit, share_below(epsilon, self.divided), share_below(delta, self.divided), share)

    def cost_within(self, way: Way, limits: ReportLimits) -> float:
        return Chooser.cost_within(self.by_response(), way, limits)

    def _offers(
        self, unit: Unit, epsilon: float, delta: float, share: float
    ) -> Iterator[tuple[type[Mechanism], Mapping[str, Any]]]:
        """Of mechanisms that remember, if there are any: those that do not would tell all in a single report."""
        offers = list(super()._offers(unit, epsilon, delta, share))
        return iter([offer for offer in offers if offer[0].remembers] or offers)

    def _workload(self, unit: Unit, form: Form, epsilon: float, delta: float, share: float) -> Workload:
        first = self._first_report(epsilon) if self.schedule.mode == KEPT else None
        return replace(super()._workload(unit, form, epsilon, delta, share), first=first)

    def _first_report(self, epsilon: float) -> float | None:
        """What a single report may tell of a response with this budget; None if all."""
        first = float(HALF * Fraction(epsilon)) if self.first is None else self._part_of_first(epsilon)
        first = first if self.report_epsilon is None else self.report_epsilon
        return first if first < epsilon else None

    def _part_of_first(self, epsilon: float) -> float:
        """Of what the reports of one round may tell, the part of one that has this part of the budget."""
        part = Fraction(epsilon) * self.schedule.responses / Fraction(self.epsilon)
        exact = Fraction(self.epsilon if self.first is None else self.first) * part
        rounded = float(exact)
        return rounded if Fraction(rounded) <= exact else math.nextafter(rounded, 0.0)

    def _with_budget(
        self, cls: type[Mechanism], parameters: Mapping[str, Any], epsilon: float, delta: float
    ) -> Mechanism:
        least = epsilon if cls.remembers or self.first is None else min(epsilon, self._part_of_first(epsilon))
        return super()._with_budget(cls, parameters, least, delta)


# What is known before a collection ----------------------------------------------------------------------------------


def predicted_over_time(plan: "Plan") -> "Prediction":
    """The prediction of a plan, with the errors of the mean over all rounds, and of a change from one to the next.

    Rounds with fresh noise, or of other users, are independent. Those from memory share the noise of the kept
    responses, which no number of rounds averages out; it cancels in a change where no value has changed, and is at most
    that of two rounds where values have, or where it is not known how the noise splits.
    """
    schedule, errors = plan.schedule, plan.prediction.errors
    means, changes = {}, {}
    parts_about = Counter(name for part in plan.parts for name in {column.name for column in part.columns})
    told_often = {name for name, parts in parts_about.items() if parts > 1}  # all of them enter each result
    for part, share in zip(plan.parts, plan.shares.tolist(), strict=True):
        for place, question in enumerate(part.questions):
            name, square = str(question), errors[str(question)] ** 2
            if schedule.mode != KEPT:
                means[name], changes[name] = math.sqrt(square / schedule.rounds), math.sqrt(2 * square)
                continue
            again = None if told_often & {*question.names} else _noise_again(part, question, place)
            noise = (again or 0.0) / (plan.users * share)
            means[name] = math.sqrt(square - noise + noise / schedule.rounds)
            changes[name] = math.sqrt(2 * (square if schedule.changes or again is None else noise))
    for name in map(str, plan.derived):  # of what they share nothing is known
        means[name] = errors[name] if schedule.mode == KEPT else errors[name] / math.sqrt(schedule.rounds)
        changes[name] = math.sqrt(2) * errors[name]
    return plan.prediction._replace(mean_of_rounds=means, change=changes)


def _noise_again(part: "Part", question: Question, place: int) -> float | None:
    """Of the variance of one report what is drawn in every round; None where it is not known."""
    if not part.mechanism.remembers:
        return 0.0
    readings = response_readings(part, question, place)
    return None if readings is None else readings.sent.worst_variance() - readings.kept.worst_variance()


class ResponseReadings(NamedTuple):
    """How shares are read off kept responses, and off what is sent of them in one round."""

    kept: Frequencies
    sent: Frequencies


def response_readings(part: "Part", question: Question, place: int) -> ResponseReadings | None:
    """Both readings of a question about shares, where a kept response is randomized again; otherwise None."""
    if not part.mechanism.remembers or not question.crosses:
        return None
    mechanism, table = cast(Memoized[Any], part.mechanism), part.table
    if table is None:
        return ResponseReadings(cast(Frequencies, mechanism.kept.reading), cast(Frequencies, mechanism.sent.reading))
    axis = [table.readings(each)[place] for each in (mechanism.kept, mechanism.sent)]
    return ResponseReadings(cast(Frequencies, axis[0]), cast(Frequencies, axis[1]))
