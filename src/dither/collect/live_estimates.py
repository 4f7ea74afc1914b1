"""Results while they come in: estimates and answers of a campaign, made again at most every second.

An estimate may take seconds to make, and many people may look at it. So one is made at a time, it is kept, and the next
one is made when somebody asks, at least a second has passed (and several times as long as the last one took), and
enough new reports have been counted. `least` reports are enough: results that differ by one report would show that
report, and whoever reads results is not to see single ones. Each of them is protected by itself, since it was
randomized on its device; this is a second wall, and it starts anew with the process.

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
from dither.collect.store import Campaign, Store
from dither.errors import DitherError, EmptyError, ParameterError
from dither.page.export import to_dict
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan

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
        from dither.planning.trial import answers

        with self._lock:
            self._refresh()
            plan, tally = self._running.plan, self._one_tally()
            if tally is None:
                raise EmptyError(f"there are not enough reports yet: results are made of {self._least:,} or more")
            found = answers(plan, tally, conditions, question=question, earlier=self._earlier)
            return json.dumps({**self._facts, **found.to_dict()}, allow_nan=False, ensure_ascii=False).encode()

    def _refresh(self) -> None:
        """Take the tallies that are stored now, if it is time and there are enough new reports."""
        now = time.monotonic()
        if self._facts and now - self._made < max(REFRESHED, _PAUSE * self._took):
            return
        counted = self._store.counted(self._running.number)
        self._made = now
        reports, before = (sum(each.reports for each in some.values()) for some in (counted.tallies, self._tallies))
        if reports - before >= self._least:
            self._tallies, self._document = counted.tallies, None
            self._earlier = earlier_tallies(self._store, self._running.plan)
        if self._facts.get("shuffled", {}).get("pending"):
            self._document = None
        if self._document is None:
            shown = sum(each.reports for each in self._tallies.values())
            self._facts = {"state": self._running.campaign.state, "as_of": int(time.time()), "reports": shown}
            self._facts |= shuffled_facts(self._store, self._running.number, self._running.plan, self._guarantees)

    def _one_tally(self) -> PlanTally | None:
        if self._running.plan.schedule.repeats:
            raise ParameterError("conditions are answered for plans with one round: ask for the tallies of the rounds")
        return next(iter(self._tallies.values()), None)

    def _estimated(self) -> dict[str, Any]:
        plan = self._running.plan
        if not self._tallies:
            return {**self._facts, "plan": plan.fingerprint, "users": 0, "questions": {}}
        if not plan.schedule.repeats:
            found = plan.estimate(self._tallies[0], earlier=self._earlier, refine=None)
            return {**self._facts, **to_dict(plan, found)}
        periods = plan.schedule.periods
        rounds = {str(periods[number]): _of_round(plan, tally) for number, tally in self._tallies.items()}
        return {**self._facts, "plan": plan.fingerprint, "rounds": rounds}


def _of_round(plan: Plan, tally: PlanTally) -> dict[str, Any]:
    try:
        return to_dict(plan, plan.estimate(tally))
    except DitherError as error:  # of one round, which must not hide the others
        return {"users": 0, "questions": {}, "problem": str(error)}


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
