"""Results while they come in: estimates and answers of a campaign, made again at most every second.

An estimate may take seconds to make, and many people may look at it. So one is made at a time, it is kept, and the next
one is made when somebody asks, at least a second has passed (and several times as long as the last one took), and
enough new reports have been counted. `least` reports are enough: results that differ by one report would show that
report, and whoever reads results is not to see single ones. Each of them is protected by itself, since it was
randomized on its device; this is a second wall, and it starts anew with the process.

The same estimate is told as numbers (`document`), answers conditions (`trial`), and is drawn for the live page (`view`,
`pair`). `version` grows whenever it is made of more reports.

What shuffled batches promise may take many seconds to compute, and is computed beside (`sealed_batches`): until it is
there, results state a bound that is not as close, and say so (`pending`).
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dither.collect.collector import Running
from dither.collect.sealed_batches import BatchGuarantees, shuffled_facts
from dither.collect.store import ACCEPTED, Campaign, Store
from dither.errors import DitherError, EmptyError, ParameterError
from dither.page.export import to_dict
from dither.page.live_sections import (
    Arrived,
    Shuffled,
    answer_section,
    arrival_sections,
    estimate_sections,
    explored,
    pair_section,
    problem_section,
    promise_section,
    rounds_choice,
    strict,
)
from dither.planning.plan_estimates import PlanEstimates
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.trial import Trial, answers_of, ranges_question

REFRESHED = 1.0  # seconds
LEAST_REPORTS = 100
_PAUSE = 4.0  # times as long as the last estimate took

Tallies = Mapping[int, PlanTally]


class LiveEstimates:
    """The results of one campaign. Every method may be called from any thread, and may take seconds."""

    def __init__(self, store: Store, running: Running, least: int = LEAST_REPORTS) -> None:
        self._store, self._running, self._least = store, running, least
        self._lock, self._guarantees = threading.Lock(), BatchGuarantees(running.plan)
        self._tallies: Tallies = {}
        self._earlier: list[PlanTally] = []
        self._facts: dict[str, Any] = {}
        self._made = self._took = 0.0
        self._document: bytes | None = None
        self._found: dict[int, PlanEstimates] = {}  # by the round
        self._parts: dict[int, dict[str, str]] = {}
        self.version = int(time.time()) * 1000  # a page that saw results before a restart asks for the new ones

    def document(self) -> bytes:
        """All estimates as JSON."""
        with self._lock:
            self._refresh()
            if self._document is None:
                started = time.monotonic()
                found = self._estimated()
                self._document = json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
                self._took = time.monotonic() - started
            return self._document

    def answers(self, conditions: Sequence[str], question: str | None) -> bytes:
        """The answers to conditions in the words of SQL, from the same tally that the estimates are made of."""
        with self._lock:
            found = self._answered(conditions, question)
            return json.dumps({**self._facts, **found.to_dict()}, allow_nan=False, ensure_ascii=False).encode()

    def drawn_answers(self, conditions: Sequence[str], question: str | None) -> str:
        """The same, drawn for the live page."""
        with self._lock:
            return strict({"answer": answer_section(self._answered(conditions, question))})["answer"]

    def _answered(self, conditions: Sequence[str], question: str | None) -> Trial:
        self._refresh()
        if self._running.plan.schedule.repeats:
            raise ParameterError("conditions are answered for plans with one round: ask for the tallies of the rounds")
        return answers_of(self._running.plan, self._estimates(0), conditions, question)

    # For the live page -----------------------------------------------------------------------------------------

    def refresh(self, *, at_once: bool = False) -> int:
        """Look for new reports, if it is time or `at_once`; the version of the estimates."""
        with self._lock:
            self._refresh(at_once=at_once)
            return self.version

    def view(self, period: str | None, seen: int | None) -> dict[str, Any]:
        """What the live page shows, of one round of a plan that has several; without what was `seen` already."""
        with self._lock:
            self._refresh()
            plan, now = self._running.plan, self._counts()
            found: dict[str, Any] = {"version": self.version, "state": now.state, "title": plan.title}
            parts = strict(arrival_sections(plan, now))
            if seen != self.version:
                chosen, names = self._round(period)
                parts |= strict(
                    {"promise": promise_section(plan, shuffled_crowds(self._store, self._running, self._guarantees))}
                )
                parts |= self._estimate_parts(chosen)
                if names:
                    parts |= strict({"rounds": rounds_choice(names, names[sorted(self._tallies).index(chosen)])})
                if chosen in self._found and not plan.schedule.repeats:
                    found["ranges"] = explored(plan, self._found[chosen])
            return {**found, "parts": parts}

    def pair(self, question: str | None, first: str, second: str) -> dict[str, Any]:
        """The heat map of two attributes, and what its cells are."""
        with self._lock:
            self._refresh()
            plan = self._running.plan
            chosen = ranges_question(plan, question)
            drawn, sides = pair_section(self._estimates(0).ranges(*chosen.names), first, second)
            return {"version": self.version, "html": strict({"pair": drawn})["pair"], "sides": sides}

    def _counts(self) -> Arrived:
        """What came in so far."""
        running, arrivals = self._running, self._store.arrivals(self._running.number)
        accepted: dict[int, int] = {}
        rejected: dict[str, int] = {}
        for minute, outcome, reports in arrivals:
            if outcome == ACCEPTED:
                accepted[minute] = accepted.get(minute, 0) + reports
            else:
                rejected[outcome] = rejected.get(outcome, 0) + reports
        state = "open" if running.campaign.is_open(time.time()) else "closed"
        counted = sum(each.reports for each in self._tallies.values())
        return Arrived(state, running.campaign.closes, accepted, rejected, dict(running.refused), counted)

    def _round(self, period: str | None) -> tuple[int, list[str]]:
        """The number of the round that is shown, and the names of those that there are."""
        plan, numbers = self._running.plan, sorted(self._tallies)
        if not plan.schedule.repeats or not numbers:
            return 0, []
        names = [str(plan.schedule.periods[number]) for number in numbers]
        return (numbers[names.index(period)] if period in names else numbers[-1]), names

    def _estimate_parts(self, number: int) -> dict[str, str]:
        """All that is drawn of an estimate; made once for each version."""
        if number not in self._parts:
            started = time.monotonic()
            try:
                plan, estimates = self._running.plan, self._estimates(number)
                made = estimate_sections(plan, estimates, plan.goodness(self._tallies[number]))
            except DitherError as error:
                told = problem_section(f"{str(error)[:1].upper()}{str(error)[1:]}.")
                made = {"outlook": told, "results": told, "trust": told, "plan": told}
            self._parts[number] = strict(made)
            self._took = max(self._took, time.monotonic() - started)
        return self._parts[number]

    def _estimates(self, number: int) -> PlanEstimates:
        """The estimates of a round; made once for each version."""
        if number not in self._tallies:
            raise EmptyError(f"there are not enough reports yet: results are made of {self._least:,} or more")
        if number not in self._found:
            earlier = [] if self._running.plan.schedule.repeats else self._earlier
            self._found[number] = self._running.plan.estimate(self._tallies[number], earlier=earlier)
        return self._found[number]

    def _refresh(self, *, at_once: bool = False) -> None:
        """Take the tallies that are stored now, if it is time and there are enough new reports."""
        now = time.monotonic()
        if self._facts and not at_once and now - self._made < max(REFRESHED, _PAUSE * self._took):
            return
        counted = self._store.counted(self._running.number)
        self._made = now
        reports, before = (sum(each.reports for each in some.values()) for some in (counted.tallies, self._tallies))
        if reports - before >= self._least:
            self._tallies, self._document, self._found, self._parts = counted.tallies, None, {}, {}
            self.version += 1
            self._earlier = earlier_tallies(self._store, self._running.plan)
        pending = self._pending
        if pending:
            self._document = None
        if self._document is None:
            shown = sum(each.reports for each in self._tallies.values())
            self._facts = {"state": self._running.campaign.state, "as_of": int(time.time()), "reports": shown}
            self._facts |= shuffled_facts(self._store, self._running.number, self._running.plan, self._guarantees)
            self.version += pending and not self._pending  # what is promised is known now

    @property
    def _pending(self) -> bool:
        """Whether a closer bound on what shuffled batches promise is being computed."""
        return bool(self._facts.get("shuffled", {}).get("pending"))

    def _estimated(self) -> dict[str, Any]:
        plan = self._running.plan
        if not self._tallies:
            return {**self._facts, "plan": plan.fingerprint, "users": 0, "questions": {}}
        if not plan.schedule.repeats:
            return {**self._facts, **to_dict(plan, self._estimates(0))}
        periods = plan.schedule.periods
        rounds = {str(periods[number]): _of_round(plan, tally) for number, tally in self._tallies.items()}
        return {**self._facts, "plan": plan.fingerprint, "rounds": rounds}


def _of_round(plan: Plan, tally: PlanTally) -> dict[str, Any]:
    try:
        return to_dict(plan, plan.estimate(tally))
    except DitherError as error:  # of one round, which must not hide the others
        return {"users": 0, "questions": {}, "problem": str(error)}


def shuffled_crowds(store: Store, running: Running, guarantees: BatchGuarantees) -> Shuffled | None:
    """What a shuffler has forwarded of a campaign, and what that promises."""
    crowds = store.crowds(running.number)
    if not crowds.batches:
        return None
    found, final = guarantees.found(crowds.smallest)
    if isinstance(found, DitherError):
        return Shuffled(*crowds, None, str(found))
    return Shuffled(*crowds, found, pending=not final)


def earlier_tallies(store: Store, plan: Plan) -> list[PlanTally]:
    """The tally of the phase before, of a plan that has one: it is collected in the same store."""
    if plan.after is None:
        return []
    before = plan.after.plan.fingerprint
    campaign = _found(store.campaigns(), lambda each: each.plan == before)
    tallies = {} if campaign is None else store.counted(campaign.number).tallies
    if not tallies:
        raise EmptyError("this plan is of a second phase: its results need the first one, in the same store")
    return list(tallies.values())


def _found(campaigns: Sequence[Campaign], wanted: Callable[[Campaign], bool]) -> Campaign | None:
    return next(filter(wanted, campaigns), None)
