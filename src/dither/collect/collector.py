"""The collector: checks batches, commits those that arrive together, counts them in the background. It knows no HTTP.

**The path of a batch.** Whoever receives it calls `submit`, and awaits the answer. One thread, the *writer*, takes all
that has arrived since its last commit: checks every field of every report, commits what is acceptable in one
transaction, and only then answers all of them. So one `fsync` serves as many clients as happen to wait for it, and
none waits for a timer. A second thread, the *counter*, adds up what was committed, several groups at a time
(`store.Store.fold`). A third, the *keeper*, looks at what others have changed in the store.

**Never unbounded.** What waits for the writer is bounded in bytes and batches, and so are the bytes that are committed
and not yet counted, which is what a mechanism that is dear to count piles up. Beyond that a batch is turned away
(`BusyError`), unacknowledged, and its client tries again later. Of what waits to be counted a part is held in memory,
checked already; of the rest only the numbers, and its bytes are read back from the store.

**Plans that are too dear** to count are refused when they are added (`MOST_EVALUATIONS`), with advice.

**What is not stored.** A batch of which no report is acceptable is refused as a whole and leaves nothing behind, so
that nobody fills a disk with rubbish.
"""

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from dither.collect.joint_checks import BatchVerdict, check_batches
from dither.collect.store import NEW, Campaign, Outcome, Store, StoreError, Submission, body_digest, key_hash
from dither.collect.tokens import TokenBook
from dither.core.reports import REASONS
from dither.errors import DitherError, ParameterError, WireError
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.statement import Statement
from dither.wire import BatchFormat, CheckedBatch

MOST_EVALUATIONS = 20_000  # of a report: a core counts some tens of thousands of such reports a second, or fewer

_EVALUATIONS_AT_ONCE = 500_000_000  # of one step of the counter: seconds
_GROUPS_AT_ONCE = 400
_BYTES_AT_ONCE = 32 << 20
_ADOPTED = 5.0  # seconds between looks at the store for what a collector that died left uncounted
_REST, _REST_RATIO, _LONGEST_REST = 0.1, 3.0, 1.0  # of the counter, in seconds: more if its last step took long
_RELOADED = 1.0  # seconds between looks at the store for campaigns and tokens that others changed

log = logging.getLogger("dither.collect")


class BusyError(DitherError):
    """More has arrived than can be stored or counted at the moment; try again later."""


class RefusedBatchError(DitherError):
    """A batch of which nothing can be counted: `reason` is one word for counters, `rejected` has verdicts if any."""

    def __init__(self, reason: str, message: str, rejected: Mapping[str, int] | None = None) -> None:
        self.reason, self.rejected = reason, dict(rejected or {})
        super().__init__(message)


@dataclass(frozen=True)
class CollectorLimits:
    """What a collector takes on at a time."""

    queued_bytes: int = 64 << 20  # that wait for the writer
    queued_batches: int = 8192
    held_bytes: int = 64 << 20  # that wait for the counter in memory
    uncounted_bytes: int = 2 << 30  # that wait for it in the store


class Running:
    """A campaign that is served: its plan, the format of its batches, and what was counted since the start."""

    def __init__(self, campaign: Campaign, plan: Plan) -> None:
        self.campaign, self.plan, self.format = campaign, plan, BatchFormat(plan)
        self.fingerprint = plan.fingerprint
        self.rejected: Counter[str] = Counter()  # reports, by the reason
        self.refused: Counter[str] = Counter()  # batches, by the reason
        self.accepted = self.batches = self.duplicates = 0

    @cached_property
    def statement(self) -> Statement:
        """What the people who are asked should know; made once, since it may take a while."""
        return self.plan.statement()

    @property
    def number(self) -> int:
        """The number of the campaign in the store."""
        return self.campaign.number


class Batch:
    """A batch that waits for the writer."""

    __slots__ = ("answer", "body", "key", "rejected", "running", "sealed")

    def __init__(
        self,
        running: Running,
        key: bytes,
        body: bytes,
        answer: "asyncio.Future[Outcome]",
        sealed: bytes | None = None,
        rejected: Mapping[str, int] | None = None,
    ) -> None:
        self.running, self.key, self.body, self.answer = running, key, body, answer
        self.sealed, self.rejected = sealed, rejected


class _Uncounted(NamedTuple):
    """A raw group that waits for the counter; its batches, if they are held in memory."""

    campaign: int
    number: int
    size: int
    batches: Sequence[CheckedBatch] | None


@dataclass
class CollectorFigures:
    """What the writer and the counter have done since the start."""

    commits: int = 0
    commit_seconds: float = 0.0
    folds: int = 0
    fold_seconds: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)


class Collector:
    """Collects for the campaigns of a store.

    `start` and `submit` are called in an event loop; `stop` ends both threads when all that was submitted is answered.
    """

    def __init__(self, store: Store, limits: CollectorLimits | None = None) -> None:
        self.store, self.limits, self.figures = store, limits or CollectorLimits(), CollectorFigures()
        self.running: dict[str, Running] = {}
        self.queued_bytes = self.uncounted_bytes = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: list[Batch] = []
        self._arrived, self._counting = threading.Condition(), threading.Condition()
        self._stopping, self._stopped = False, threading.Event()
        self._uncounted: deque[_Uncounted] = deque()
        self._known: set[int] = set()  # numbers of groups in the line above
        self._held = 0
        self._threads: list[threading.Thread] = []
        self.reload()

    # Campaigns -------------------------------------------------------------------------------------------------

    def add(self, document: bytes, *, allow_dear: bool = False) -> Running:
        """Collect for the plan in these bytes of a plan.json."""
        plan = Plan.from_json(document.decode("utf-8"))
        if not allow_dear:
            refuse_dear(plan)
        campaign = self.store.add_campaign(plan.fingerprint, document)
        self.running[plan.fingerprint] = Running(campaign, plan)
        return self.running[plan.fingerprint]

    def reload(self) -> None:
        """Look at the store for campaigns and tokens that were added, changed or deleted by somebody else."""
        self.tokens = TokenBook(self.store.tokens())
        found = {campaign.plan: campaign for campaign in self.store.campaigns()}
        for plan in self.running.keys() - found.keys():
            del self.running[plan]
        for plan, campaign in found.items():
            if plan in self.running:
                self.running[plan].campaign = campaign
            else:
                self.running[plan] = Running(campaign, Plan.from_json(campaign.document.decode("utf-8")))

    # Batches in ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the writer and the counter, in the loop that is running."""
        self._loop = asyncio.get_running_loop()
        self._adopt()
        for work in (self._write, self._count, self._keep):
            thread = threading.Thread(target=work, name=f"dither {work.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def refuse_busy(self, size: int) -> None:
        """Turn away a batch of so many bytes, if there is no room for it."""
        limits = self.limits
        if self._stopping:
            raise BusyError("this collector is stopping")
        if self.queued_bytes + size > limits.queued_bytes or len(self._queue) >= limits.queued_batches:
            raise BusyError("more batches arrive than can be stored")
        if self.uncounted_bytes > limits.uncounted_bytes:
            raise BusyError("more batches were stored than are counted")

    def submit(
        self,
        running: Running,
        key: bytes,
        body: bytes,
        *,
        sealed: bytes | None = None,
        rejected: Mapping[str, int] | None = None,
    ) -> "asyncio.Future[Outcome]":
        """Store a batch under the idempotency key of its client. The answer comes when it is on the disk.

        Of a batch that a shuffler forwarded, `sealed` are the bytes that came, by which it is known again, and
        `rejected` what did not open; it is stored whatever is in it (`sealed_batches`).
        """
        self.refuse_busy(len(body))
        assert self._loop is not None, "start the collector first"
        batch = Batch(running, key, body, self._loop.create_future(), sealed, rejected)
        self.queued_bytes += len(body)
        with self._arrived:
            self._queue.append(batch)
            if len(self._queue) == 1:
                self._arrived.notify()
        return batch.answer

    def _write(self) -> None:
        """The writer: one group after the other."""
        while True:
            with self._arrived:
                while not self._queue and not self._stopping:
                    self._arrived.wait()
                group, self._queue = self._queue, []
            if not group:
                return
            started = time.perf_counter()
            try:
                answers = self._committed(group)
            except Exception as error:  # whatever it is: nobody is answered that it is stored, and the writer lives on
                if not isinstance(error, StoreError):
                    log.error("a group of batches was not stored: %s", type(error).__name__)
                self.figures.failures[type(error).__name__] += 1
                failure = error if isinstance(error, StoreError) else StoreError("these batches could not be stored")
                answers = [failure] * len(group)
            self.figures.commits += 1
            self.figures.commit_seconds += time.perf_counter() - started
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._answer, group, answers)

    def _committed(self, group: Sequence[Batch]) -> "list[Outcome | DitherError]":
        """Check batches and commit what is acceptable: for each what became of it, or why it was refused."""
        verdicts = self._verdicts(group)
        answers: list[Outcome | DitherError] = []
        places: list[int] = []
        submissions: list[Submission] = []
        for place, (batch, verdict) in enumerate(zip(group, verdicts, strict=True)):
            if isinstance(verdict, WireError):
                answers.append(RefusedBatchError(verdict.reason, str(verdict)))
            elif not verdict.accepted and batch.sealed is None:
                answers.append(_refusal(verdict))
            else:
                known_by = batch.body if batch.sealed is None else batch.sealed
                keys = key_hash(batch.running.fingerprint, batch.key), body_digest(batch.key, known_by)
                rejected = verdict.rejected if batch.rejected is None else {**batch.rejected, **verdict.rejected}
                found = batch.running.number, *keys, batch.body, verdict.accepted, rejected
                submissions.append(Submission(*found))
                places.append(place)
                answers.append(_PENDING)
        if not submissions:
            return answers
        outcomes, groups = self.store.commit(submissions)
        new: list[int] = []
        for place, outcome in zip(places, outcomes, strict=True):
            answers[place] = outcome
            if outcome.status == NEW:
                new.append(place)
        self._uncount(_uncounted(group, verdicts, new, groups))
        return answers

    def _verdicts(self, group: Sequence[Batch]) -> "list[BatchVerdict | WireError]":
        """What is to be said about each batch; those of one campaign are looked at together."""
        first = group[0].running
        if all(batch.running is first for batch in group):
            return check_batches(first.format, [batch.body for batch in group])
        found: list[Any] = [None] * len(group)
        for running in {batch.running.number: batch.running for batch in group}.values():
            places = [place for place, batch in enumerate(group) if batch.running is running]
            own = check_batches(running.format, [group[place].body for place in places])
            for place, verdict in zip(places, own, strict=True):
                found[place] = verdict
        return found

    def _answer(self, group: Sequence[Batch], answers: "Sequence[Outcome | DitherError]") -> None:
        """In the event loop: everybody of a group gets an answer."""
        for batch, answer in zip(group, answers, strict=True):
            self.queued_bytes -= len(batch.body)
            if batch.answer.done():  # the client went away
                continue
            if isinstance(answer, Outcome):
                batch.answer.set_result(answer)
            else:
                batch.answer.set_exception(answer)

    # Counting --------------------------------------------------------------------------------------------------

    def _uncount(self, groups: Sequence[_Uncounted]) -> None:
        """Hand raw groups to the counter; what is too much for the memory without its batches."""
        with self._counting:
            for group in groups:
                if group.number in self._known:
                    continue
                held = group.batches is not None and self._held + group.size <= self.limits.held_bytes
                self._uncounted.append(group if held else group._replace(batches=None))
                self._known.add(group.number)
                self._held += group.size * held
                self.uncounted_bytes += group.size
            self._counting.notify()

    def _count(self) -> None:
        """The counter: adds up what was committed, and keeps the log of the store short."""
        for running in list(self.running.values()):
            running.format.tally([])  # loads compiled loops, which takes a second: now, while nobody waits for it
        while True:
            with self._counting:
                if not self._uncounted and not self._stopped.is_set():
                    self._counting.wait(_RELOADED)
                stopped, waiting = self._stopped.is_set(), bool(self._uncounted)
            started = time.monotonic()
            try:
                if waiting:
                    self.count_some()
                if stopped and not self._uncounted:
                    return
                self.store.checkpoint()
                rest = min(_LONGEST_REST, _REST + _REST_RATIO * (time.monotonic() - started))
            except Exception as error:  # a full disk, say: what waits stays in the store
                self.figures.failures[type(error).__name__] += 1
                log.error("counting failed, and is tried again: %s", type(error).__name__)
                if stopped:
                    return
                rest = _RELOADED
            self._stopped.wait(rest)

    def _keep(self) -> None:
        """The keeper: looks at what others changed in the store, and scrubs what was kept for long enough."""
        adopted = time.monotonic()
        while not self._stopped.wait(_RELOADED):
            try:
                self.reload()
                self.store.scrub(time.time())
                if time.monotonic() - adopted > _ADOPTED:
                    self._adopt()
                    adopted = time.monotonic()
            except Exception as error:  # another time
                self.figures.failures[type(error).__name__] += 1

    def _adopt(self) -> None:
        """Take over groups that wait in the store and that nobody here knows of."""
        self._uncount([_Uncounted(each.campaign, each.number, each.size, None) for each in self.store.waiting()])

    def count_some(self) -> None:
        """One step of the counter: some groups of one campaign become a part of its tallies."""
        with self._counting:
            taken = self._taken()
        if not taken:
            return
        started = time.perf_counter()
        try:
            self._fold(taken)
        except BaseException:
            with self._counting:
                self._uncounted.extendleft(reversed(taken))
            raise
        with self._counting:
            self._known.difference_update(group.number for group in taken)
            self._held -= sum(group.size for group in taken if group.batches is not None)
            self.uncounted_bytes -= sum(group.size for group in taken)
        self.figures.folds += 1
        self.figures.fold_seconds += time.perf_counter() - started

    def _taken(self) -> list[_Uncounted]:
        """The groups of the next step: of one campaign, not too many, and not too dear."""
        if not self._uncounted:
            return []
        campaign = self._uncounted[0].campaign
        running = self._by_number().get(campaign)
        dearest = max((part.mechanism.evaluations for part in running.plan.parts), default=0) if running else 0
        budget, size = _EVALUATIONS_AT_ONCE // max(1, dearest), 0
        taken: list[_Uncounted] = []
        rest: deque[_Uncounted] = deque()
        while self._uncounted:
            group = self._uncounted.popleft()
            fits = len(taken) < _GROUPS_AT_ONCE and (not taken or (size < _BYTES_AT_ONCE and budget > 0))
            if group.campaign == campaign and fits:
                taken.append(group)
                size += group.size
                budget -= sum(batch.accepted for batch in group.batches or ()) or group.size
            else:
                rest.append(group)
        self._uncounted = rest
        return taken

    def _fold(self, taken: Sequence[_Uncounted]) -> None:
        running = self._by_number().get(taken[0].campaign)
        if running is None:  # it was deleted, and its groups with it
            return
        numbers = [group.number for group in taken]
        if self.store.fold(running.number, numbers, self._tallied(running, taken)) or len(taken) == 1:
            return
        for group in taken:  # another collector has counted some of them: one at a time, each is taken or left
            self.store.fold(running.number, [group.number], self._tallied(running, [group]))

    def _tallied(self, running: Running, groups: Sequence[_Uncounted]) -> dict[int, PlanTally]:
        """The tally of some groups, for each round."""
        rounds: dict[int, list[CheckedBatch]] = {}
        for group in groups:
            batches = group.batches
            if batches is None:
                batches = [running.format.check(body) for body in self.store.bodies(group.number)]
            for batch in batches:
                rounds.setdefault(batch.round, []).append(batch)
        return {number: running.format.tally(batches) for number, batches in rounds.items()}

    def _by_number(self) -> dict[int, Running]:
        return {running.number: running for running in list(self.running.values())}

    def stop(self) -> None:
        """Take no more batches, answer those that are there, count what was committed, and end both threads."""
        with self._arrived:
            self._stopping = True
            self._arrived.notify()
        writers = self._threads[:1]
        for thread in writers:
            thread.join()
        with self._counting:
            self._stopped.set()
            self._counting.notify()
        for thread in self._threads[1:]:
            thread.join(timeout=30.0)  # what is not counted by then is, after the next start


_PENDING = Outcome(NEW, 0, {})


def _refusal(verdict: BatchVerdict) -> RefusedBatchError:
    """Why a batch of which nothing is acceptable is refused."""
    reasons = ", ".join(verdict.rejected) or "there are no reports in it"
    reason = next((each for each in REASONS if each in verdict.rejected), "empty")
    return RefusedBatchError(reason, f"no report of this batch is acceptable: {reasons}", verdict.rejected)


def _uncounted(
    group: Sequence[Batch], verdicts: Sequence[BatchVerdict | WireError], new: Sequence[int], numbers: Mapping[int, int]
) -> list[_Uncounted]:
    """The raw groups that were made of the batches at `new`, with these as they were checked.

    What was checked together is counted together, if all of it is new; otherwise the new ones are checked again, alone.
    """
    members = Counter(id(verdict.joint) for verdict in verdicts if isinstance(verdict, BatchVerdict))
    fresh: dict[int, list[int]] = {}
    for place in new:
        fresh.setdefault(id(verdicts[place].joint), []).append(place)  # type: ignore[union-attr]
    found: dict[int, list[CheckedBatch]] = {number: [] for number in numbers}
    for joint, places in fresh.items():
        running = group[places[0]].running
        if len(places) == members[joint]:
            found[running.number].append(verdicts[places[0]].joint)  # type: ignore[union-attr]
        else:
            found[running.number] += [running.format.check(group[place].body) for place in places]
    sizes: Counter[int] = Counter()
    for place in new:
        sizes[group[place].running.number] += len(group[place].body)
    return [_Uncounted(each, numbers[each], sizes[each], batches) for each, batches in found.items()]


def refuse_dear(plan: Plan) -> None:
    """Refuse a plan whose reports cost a collector so much that it would never be done counting them."""
    for part in plan.parts:
        if part.mechanism.evaluations > MOST_EVALUATIONS:
            raise ParameterError(
                f"a report about {part.name} costs {part.mechanism.evaluations:,} evaluations to count, so a collector "
                "would fall behind: plan with hash functions that users share (cohorts), by most_evaluations=500, the "
                "default of dither.plan"
            )
