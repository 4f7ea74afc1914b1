"""What a collector does with a batch that a shuffler forwards: opens each message, and stores the batch like any other.

**Nothing is lost, nothing twice.** The shuffler gives the batch an idempotency key, as clients do with theirs. A batch
that arrives again is known by its key and its *sealed* bytes, whichever keys have expired meanwhile. Messages that do
not open, or hold nothing that can be counted, are counted by their reason, and the others are not tainted. A batch of
which nothing opens is stored too, as a batch without reports, so that the shuffler hears the same answer again.

**How large was the crowd?** For each batch, before it is stored, the store notes how many users are in it: those whose
reports opened and are acceptable, since rubbish hides nobody. The guarantee of a campaign in the shuffled model is that
of its smallest batch (`shuffled_facts`), whatever the plan had counted on. It holds against whoever sees the batches,
as the collector does, and not who sent what. So it holds *while the shuffler and the collector do not work together*,
and among users who are honest: n counts people, and somebody who sends 9,999 of 10,000 messages knows the last.
Reports that were sent to the collector directly have no crowd.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from dither.collect.problems import ProblemError
from dither.collect.request_bodies import Receive, Scope
from dither.collect.sealed_reports import (
    CONTENT_TYPE,
    EXPIRED_KEY,
    SUITE,
    UNKNOWN_KEY,
    Head,
    SealedReportFormat,
    merged,
    read_head,
    split_messages,
)
from dither.collect.sealing_keys import KeyFolder, OpeningKeys
from dither.collect.store import SHUFFLER, Outcome, Store, key_hash
from dither.core.crowd import Crowd
from dither.core.guarantee import Guarantee
from dither.errors import DitherError, WireError
from dither.planning.plans import Plan
from dither.planning.shuffled_plans import shuffled_guarantee
from dither.wire.frames import MALFORMED

if TYPE_CHECKING:
    from dither.collect.collector import Collector, Running
    from dither.collect.service import Service

DELTA = 1e-6  # of the guarantee in the shuffled model, of plans that do not name one
TRUST = "the shuffler and the collector must not work together: who has both sees whose report is whose"
NAMESPACE = b"sealed "  # before a shuffler's idempotency keys: they are not those of clients

_CONTENT_TYPE = CONTENT_TYPE.encode()
_AT_ONCE = 2  # batches that are opened at the same time
_MOST_REQUESTS = 6  # that are read, wait to be opened, or are opened


class OpenedBatch(NamedTuple):
    """What was in a forwarded batch: its reports, of how many users, and why messages were left out."""

    batch: bytes
    users: int
    rejected: Mapping[str, int]


class SealedBatches:
    """Opens batches of sealed reports, for a service."""

    def __init__(self, collector: "Collector", keys: KeyFolder | None) -> None:
        self._collector, self._keys = collector, None if keys is None else OpeningKeys(keys)
        self._formats: dict[str, SealedReportFormat] = {}
        self._opening, self._requests = asyncio.Semaphore(_AT_ONCE), 0

    def format(self, plan: Plan) -> SealedReportFormat:
        """The messages of a plan."""
        if plan.fingerprint not in self._formats:
            self._formats[plan.fingerprint] = SealedReportFormat(plan)
        return self._formats[plan.fingerprint]

    def keys_document(self, running: "Running") -> dict[str, Any]:
        """What devices and shufflers need to know: the keys, and what messages of the plan look like."""
        plan = running.plan
        return {
            "plan": plan.fingerprint,
            "state": "open" if running.campaign.is_open(time.time()) else "closed",
            "suite": SUITE,
            "size": self.format(plan).size,
            "rounds": plan.schedule.rounds,
            "crowds": len(self.format(plan).crowds),
            "batch": None if plan.crowd is None else plan.crowd.batch,
            "keys": [] if self._keys is None else [*self._keys.published()],
        }

    def opened(self, plan: Plan, body: bytes) -> OpenedBatch:
        """All messages of a batch. A batch that cannot be cut into messages raises `WireError`."""
        messages = split_messages(body, self.format(plan).size)
        if self._keys is not None:
            self._keys.refreshed()
        rejected: Counter[str] = Counter()
        batches, users, mixed = list[bytes](), 0, set[bytes]()
        for message in messages:
            try:
                head = read_head(message)
                mixed.add(head.mixed_with)
                batches.append(self._opened(plan, head, message))
            except WireError as error:
                rejected[error.reason] += 1
                continue
            users += head.users
        if len(mixed) > 1:
            raise WireError(MALFORMED, "a forwarded batch holds messages of one key, one round and one crowd")
        wire = self.format(plan).wire
        batch = merged(batches, wire)
        return OpenedBatch(batch, max(0, users - sum(wire.check(batch).rejected.values())), rejected)

    def _opened(self, plan: Plan, head: Head, message: bytes) -> bytes:
        known = {} if self._keys is None else self._keys.refreshed()
        if head.key not in known:
            raise WireError(UNKNOWN_KEY, "this message is sealed to a key that is not here")
        opener = None if self._keys is None else self._keys.opener(head.key, time.time())
        if opener is None:
            raise WireError(EXPIRED_KEY, "this message is sealed to a key that has expired")
        return self.format(plan).opened(message, opener)

    async def submitted(self, running: "Running", key: bytes, body: bytes) -> Outcome:
        """Open a batch and store it, with the size of its crowd. A batch that is no batch raises `WireError`."""
        self._collector.refuse_busy(len(body))
        async with self._opening:
            found = await asyncio.to_thread(self.opened, running.plan, body)
        key = NAMESPACE + key
        if found.users:
            stored = key_hash(running.plan.fingerprint, key)
            await asyncio.to_thread(self._collector.store.note_crowd, running.number, stored, found.users)
        return await self._collector.submit(running, key, found.batch, sealed=body, rejected=found.rejected)

    async def ingest(
        self,
        service: "Service",
        running: "Running",
        key: bytes,
        scope: Scope,
        headers: dict[bytes, bytes],
        receive: Receive,
    ) -> Outcome:
        """The request of a shuffler: whether it is one, and what it brings."""
        if self._collector.tokens.needs(SHUFFLER, running.number):
            service.authorize(headers.get(b"authorization"), SHUFFLER, running.number)
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != _CONTENT_TYPE or headers.get(b"content-encoding", b"identity") != b"identity":
            raise ProblemError("content-type", f"send {CONTENT_TYPE}, as dither shuffle does")
        if self._requests >= _MOST_REQUESTS:  # each may hold as many bytes as a request can have
            raise ProblemError("busy", "other batches are being opened: try again later")
        self._requests += 1
        try:
            body = await service.body(scope, headers, receive, service.options.body_bytes)
            return await self.submitted(running, key, body)
        except WireError as error:
            raise ProblemError(error.reason.replace(" ", "-"), str(error)) from None
        finally:
            self._requests -= 1


# What it is worth ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def guarantee_of_batches(plan: Plan, smallest: int, delta: float = DELTA) -> Guarantee:
    """What batches of at least so many users promise; by those who are asked most, in a plan with several budgets."""
    if smallest < 2:
        return plan.guarantee
    found = list[Guarantee]()
    for asked in {each.fingerprint: each for each in plan.budgets.values()}.values():
        crowd = Crowd(1.0, delta if plan.crowd is None else plan.crowd.delta, smallest)
        found.append(shuffled_guarantee(asked, crowd))
    return max(found, key=lambda each: (each.epsilon, each.delta))


class BatchGuarantees:
    """What batches of a plan promise, computed beside everything else: of some plans it takes many seconds.

    Until the bound for the smallest batch is there, `found` tells one that holds as well: that of a smaller batch, or
    that of a report on its own.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan, self._lock = plan, threading.Lock()
        self._known: dict[int, Guarantee | DitherError] = {0: plan.guarantee}
        self._computing: threading.Thread | None = None

    def found(self, smallest: int) -> tuple[Guarantee | DitherError, bool]:
        """What batches of so many users or more promise, or why that is not known; whether it is the last word."""
        with self._lock:
            if smallest not in self._known and self._computing is None:
                self._computing = threading.Thread(target=self._compute, args=(smallest,), daemon=True)
                self._computing.start()
            return self._known[max(users for users in self._known if users <= smallest)], smallest in self._known

    def _compute(self, smallest: int) -> None:
        try:
            found: Guarantee | DitherError = guarantee_of_batches(self._plan, smallest)
        except DitherError as error:  # responses that are kept, for instance
            found = error
        with self._lock:
            self._known[smallest], self._computing = found, None

    def wait(self) -> None:
        """Until what is computed now is there."""
        computing = self._computing
        if computing is not None:
            computing.join()


def shuffled_facts(store: Store, campaign: int, plan: Plan, guarantees: BatchGuarantees) -> dict[str, Any]:
    """What the estimates of a campaign say about its shuffler; nothing if none has forwarded a batch."""
    crowds = store.crowds(campaign)
    if not crowds.batches:
        return {}
    told: dict[str, Any] = {"batches": crowds.batches, "users": crowds.users, "smallest_batch": crowds.smallest}
    if plan.crowd is not None:
        told["planned_batch"] = plan.crowd.batch
    found, final = guarantees.found(crowds.smallest)
    if isinstance(found, DitherError):
        return {"shuffled": {**told, "guarantee": None, "why": str(found), "pending": not final}}
    told |= {"guarantee": found.to_dict(), "in_words": str(found), "trust": TRUST, "pending": not final}
    return {"shuffled": told}
