"""The shuffler: takes sealed reports from devices, and hands them to the collector in batches, in no order.

It runs on its own, best by somebody else than the collector. It sees who sends, and only ciphertexts; the collector
sees the reports, and not who sent them. Neither learns what a person reported *and* who it was, as long as they do not
work together.

**What does not cross it**: addresses, headers, tokens, the order and the times of arrival, which messages came in one
request. What crosses is a batch: messages of one plan, key, round and crowd, at least as many as the minimum, permuted
by random bits of the operating system, under a new random idempotency key. What remains of timing is when a batch is
full.

**Keys.** A collector could hand every device a key of its own, and know it again by that. So a message is taken only if
the shuffler was told of its key too, and each key has batches of its own, none below the minimum.

**Durable.** A message is acknowledged when it is on the disk (`shuffler_store`). It is then in one batch, which is sent
until the collector has acknowledged it. Whatever dies meanwhile, it is counted once.

The service is plain ASGI. It has no counters to read over the network: whoever could read them, as the collector
would, could see when somebody's message arrived.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from dither.collect import problems
from dither.collect.client_http import Address, Connection, UnreachableError
from dither.collect.http_server import Endpoint, run_server
from dither.collect.problems import ProblemError
from dither.collect.rate_limits import RateLimit
from dither.collect.request_bodies import Receive, RequestBodies, Scope, Send
from dither.collect.sealed_reports import CONTENT_TYPE, LEAST_BYTES, Head, read_head, split_messages
from dither.collect.shuffler_store import Outgoing, PlanFacts, ShufflerStore
from dither.collect.store import OPEN, StoreError
from dither.errors import ParameterError, WireError
from dither.wire.frames import MOST_BYTES

LEAST_BATCH = 2
_PLANS, _SEALED = "/v1/plans/", "/sealed"
_CONTENT_TYPE = CONTENT_TYPE.encode()
_HASH_LETTERS = 64
_QUEUED = 64 << 20  # bytes of requests that wait for the disk
_OPEN_REQUESTS = 4096
_ASKED_AGAIN = 2.0  # seconds before the collector is asked again about the same plan
_MOST_ASKED = 1000  # plans that the collector does not know, which are remembered for so long
_TIMEOUT = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_FINAL = {400, 409, 410, 413, 415, 422}  # what the collector will say again, however often it is asked
_SECURITY = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]

log = logging.getLogger("dither.shuffle")


@dataclass(frozen=True)
class ShufflerOptions:
    """Where a shuffler listens, and where it forwards to."""

    to: str
    batch: int = 10_000
    endpoint: Endpoint = field(default_factory=lambda: Endpoint(port=8081))
    origins: tuple[str, ...] = ()
    token: str | None = None  # for the collector, if it wants one of shufflers
    refreshed: float = 10.0  # seconds between questions whether campaigns are open, and which keys are in use
    allow_http: bool = False  # to a collector on another machine
    requests_per_second: float | None = None
    peer_requests_per_second: float | None = None

    @property
    def address(self) -> Address:
        """The collector."""
        return Address.of(self.to, self.allow_http)

    def __post_init__(self) -> None:
        _ = self.address  # or why it is none
        if self.batch < LEAST_BATCH:
            raise ParameterError(
                f"a batch has at least {LEAST_BATCH} messages; the more, the better they hide each other"
            )


class CollectorLink:
    """What a shuffler asks of the collector. Every method blocks, and raises `UnreachableError` if nobody answers."""

    def __init__(self, options: ShufflerOptions) -> None:
        self._connection = Connection(options.address, options.token, _TIMEOUT, None)

    def plan(self, plan: str) -> str | None:
        """What the collector says of a plan, as JSON; None if it does not know it."""
        answer = self._connection.get(f"/v1/plans/{plan}/keys")
        if answer.status == 404:
            return None
        try:
            text = answer.body.decode("utf-8")
            facts = PlanFacts.of(text) if answer.status == 200 else None
        except (ValueError, KeyError, TypeError):
            text, facts = "", None
        if facts is None or facts.plan != plan or facts.size < LEAST_BYTES:
            raise UnreachableError("the collector does not answer as one does")
        return text

    def forward(self, batch: Outgoing) -> int:
        """Hand over a batch; the status. Only what says that it was counted is an answer of 200."""
        headers = {"Content-Type": CONTENT_TYPE, "Idempotency-Key": batch.key}
        answer = self._connection.post(f"/v1/plans/{batch.plan}/sealed-batches", batch.body, headers)
        told = answer.json()
        counted = isinstance(told, dict) and type(told.get("accepted")) is int
        return answer.status if answer.status != 200 or counted else 0


class _Request(NamedTuple):
    """Messages of one request that wait for the disk."""

    facts: PlanFacts
    messages: list[tuple[Head, bytes]]
    answer: "asyncio.Future[int]"


class Shuffler:
    """The application: `shuffler(scope, receive, send)`."""

    def __init__(self, store: ShufflerStore, link: CollectorLink, options: ShufflerOptions) -> None:
        self.store, self.link, self.options = store, link, options
        self._plans = store.plans()
        self._asked: dict[str, float] = {}  # when the collector was asked about a plan
        self._asking = asyncio.Semaphore(4)
        self._queue: list[_Request] = []
        self._queued = self._open = 0
        self._bodies = RequestBodies(self._refuse_busy)
        self._limit = RateLimit(options.requests_per_second, options.peer_requests_per_second)
        self._arrived, self._outgoing = asyncio.Event(), asyncio.Event()
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the life of the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answered(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                work = (self._write, self._forward, self._refresh)
                self._tasks = [asyncio.create_task(each()) for each in work]
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self._stopping = True
                self._arrived.set()
                await self._tasks[0]  # what was taken is answered
                for task in self._tasks[1:]:
                    task.cancel()
                await asyncio.gather(*self._tasks[1:], return_exceptions=True)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._open += 1
        try:
            if self._open > _OPEN_REQUESTS:
                raise ProblemError("busy", "too many requests are open: try again later")
            if not self._limit.allows((scope.get("client") or ("",))[0]):
                raise ProblemError("rate", "too many requests come in: try again later")
            status, body = 200, await self._answer(scope, receive)
        except ProblemError as error:
            status, body = problems.document(error.kind, error.detail, **error.more)
        except WireError as error:
            status, body = problems.document(error.reason.replace(" ", "-"), str(error))
        except StoreError:
            log.error("the store cannot be written")
            status, body = problems.document("store", "nothing was stored: try again later")
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # its words may quote what was sent
            log.error("a request failed: %s", type(error).__name__)
            status, body = problems.document("failure", "this is a fault of the service")
        finally:
            self._open -= 1
        kind = b"application/json" if status == 200 else problems.CONTENT_TYPE
        headers = [*_SECURITY, (b"content-type", kind), (b"content-length", b"%d" % len(body))]
        if status in (429, 503):
            headers.append((b"retry-after", b"2"))
        if status in (408, 413):
            headers.append((b"connection", b"close"))
        headers += self._cors(dict(scope["headers"]).get(b"origin"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Scope, receive: Receive) -> bytes:
        path, method = scope["path"], scope["method"]
        if path == "/v1/health" and method == "GET":
            return b'{"status":"ok"}'
        if not (path.startswith(_PLANS) and path.endswith(_SEALED)):
            raise ProblemError("not-found", "sealed reports are sent to /v1/plans/{hash}/sealed")
        if method == "OPTIONS" and self._cors(dict(scope["headers"]).get(b"origin")):
            return b"{}"
        if method != "POST":
            raise ProblemError("method", "sealed reports are sent by POST")
        return await self._taken(path[len(_PLANS) : -len(_SEALED)], scope, receive)

    def _cors(self, origin: bytes | None) -> list[tuple[bytes, bytes]]:
        if origin is None or not {origin.decode("latin-1"), "*"} & set(self.options.origins):
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"POST"),
            (b"access-control-allow-headers", b"content-type"),
            (b"access-control-max-age", b"3600"),
            (b"vary", b"Origin"),
        ]

    # Messages in ---------------------------------------------------------------------------------------------------

    async def _taken(self, plan: str, scope: Scope, receive: Receive) -> bytes:
        """Keep the messages of a request: the answer comes when they are on the disk."""
        headers = dict(scope["headers"])
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != _CONTENT_TYPE or headers.get(b"content-encoding", b"identity") != b"identity":
            raise ProblemError("content-type", f"send {CONTENT_TYPE}")
        facts = await self._facts(plan)
        body = await self._bodies.read(scope, headers, receive, MOST_BYTES)
        self._queued += len(body)  # until it is answered
        try:
            return await self._kept(facts, body)
        finally:
            self._queued -= len(body)

    def _refuse_busy(self, size: int) -> None:
        """Turn away so many bytes, if there is no room for them."""
        if self._stopping or self._queued + size > _QUEUED:
            raise ProblemError("busy", "more messages arrive than can be stored: try again later")

    async def _kept(self, facts: PlanFacts, body: bytes) -> bytes:
        messages = [(read_head(message), message) for message in split_messages(body, facts.size)]
        facts = await self._checked(facts, [head for head, _ in messages])
        answer = asyncio.get_running_loop().create_future()
        self._queue.append(_Request(facts, messages, answer))
        self._arrived.set()
        users = sum(head.users for head, _ in messages)
        fresh = await answer
        return json.dumps({"accepted": users, "rejected": {}, "duplicate": fresh == 0}).encode()

    async def _facts(self, plan: str) -> PlanFacts:
        """What is known of a plan whose campaign is open."""
        if len(plan) != _HASH_LETTERS or not set(plan) <= set("0123456789abcdef"):
            raise ProblemError("unknown-plan", "name a plan by its hash, 64 hexadecimal digits")
        facts = self._plans.get(plan) or await self._asked_about(plan)
        if facts is None:
            raise ProblemError("unknown-plan", "the collector has no campaign for this plan")
        if facts.state != OPEN:
            raise ProblemError("closed", "this campaign is closed: send no more reports of this plan")
        if self.store.smallest(facts) > self.store.most(facts):
            raise ProblemError(
                "refused",
                f"reports of this plan are so large that a batch has at most {self.store.most(facts):,}, and this "
                "shuffler waits for more: give it a smaller --batch, or plan for a smaller crowd",
            )
        return facts

    async def _asked_about(self, plan: str) -> PlanFacts | None:
        """Ask the collector about a plan, unless it was asked a moment ago."""
        now = time.monotonic()
        if now - self._asked.get(plan, -_ASKED_AGAIN) < _ASKED_AGAIN:
            return self._plans.get(plan)
        if len(self._asked) > _MOST_ASKED:
            self._asked = {each: at for each, at in self._asked.items() if now - at < _ASKED_AGAIN}
            if len(self._asked) > _MOST_ASKED:
                raise ProblemError("busy", "too many plans are asked for: try again later")
        async with self._asking:
            try:
                document = await asyncio.to_thread(self.link.plan, plan)
            except UnreachableError:
                raise ProblemError("collector", "the collector does not answer: try again later") from None
            if document is not None:
                self._plans[plan] = await asyncio.to_thread(self.store.note_plan, plan, document)
            self._asked[plan] = time.monotonic()  # now that others find what was answered
        return None if document is None else self._plans[plan]

    async def _checked(self, facts: PlanFacts, heads: list[Head]) -> PlanFacts:
        """Refuse messages that no batch can be made of."""
        if any(head.key not in facts.keys for head in heads):
            facts = await self._asked_about(facts.plan) or facts
        for head in heads:
            if head.key not in facts.keys:
                raise ProblemError("unknown-key", "the collector has no such key: GET .../keys there has those in use")
            if head.round >= facts.rounds or head.crowd >= facts.crowds:
                raise ProblemError("another-round", "the plan has no such round, or no such crowd")
            if head.many and head.users < self.store.smallest(facts):
                raise ProblemError(
                    "few-users",
                    f"a message of many users is a batch of its own, and needs {self.store.smallest(facts):,} of them: "
                    "seal more at a time, or each report on its own",
                )
        return facts

    async def _write(self) -> None:
        """Keep what arrived together in one transaction, and answer then."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            group, self._queue = self._queue, []
            if group:
                found: list[int] | Exception
                try:
                    found = await asyncio.to_thread(self.store.take, [(each.facts, each.messages) for each in group])
                except Exception as error:  # nobody is told that it is stored, and the writer lives on
                    found = error if isinstance(error, StoreError) else StoreError("nothing was stored")
                for place, each in enumerate(group):
                    if each.answer.done():
                        continue
                    if isinstance(found, Exception):
                        each.answer.set_exception(found)
                    else:
                        each.answer.set_result(found[place])
                self._outgoing.set()
            if self._stopping and not self._queue:
                return

    # Batches out ---------------------------------------------------------------------------------------------------

    async def _forward(self) -> None:
        """Send batches until the collector has acknowledged them."""
        pause = _FIRST_PAUSE
        while True:
            try:
                done = await self.forward_all()
            except Exception as error:  # the disk, say: what is on its way stays there
                log.error("forwarding failed, and is tried again: %s", type(error).__name__)
                done = False
            if done:
                pause = _FIRST_PAUSE
                await self._outgoing.wait()
                self._outgoing.clear()
            else:
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)

    async def forward_all(self) -> bool:
        """One try with each batch that is on its way: whether all are settled."""
        done = True
        for key, _ in await asyncio.to_thread(self.store.outgoing):
            batch = await asyncio.to_thread(self.store.batch, key)
            if batch is None:
                continue
            try:
                status = await asyncio.to_thread(self.link.forward, batch)
            except UnreachableError as error:
                log.warning("%s; a batch waits", error)
                return False
            if status == 200:
                await asyncio.to_thread(self.store.forwarded, batch)
            elif status in _FINAL:
                log.error("the collector refused a batch for good, with status %d: it is dropped and counted", status)
                await asyncio.to_thread(self.store.refused, batch, f"refused by the collector, {status}")
            else:
                log.warning("the collector answered %d; a batch waits", status)
                done = False
        return done

    async def _refresh(self) -> None:
        """Look now and then whether campaigns are open, and which keys are in use."""
        while True:
            for plan in list(self._plans):
                try:
                    document = await asyncio.to_thread(self.link.plan, plan)
                    if document is not None:
                        self._plans[plan] = await asyncio.to_thread(self.store.note_plan, plan, document)
                        if self._plans[plan].state != OPEN:
                            await asyncio.to_thread(self.store.close_plan, plan)
                except (UnreachableError, StoreError):  # another time
                    continue
            await asyncio.sleep(self.options.refreshed)


def shuffle(store: ShufflerStore, options: ShufflerOptions, *, ready: Callable[[str], None] | None = None) -> None:
    """Shuffle until the process is told to stop. `ready` is called with the address once the port is open."""
    run_server(Shuffler(store, CollectorLink(options), options), options.endpoint, ready)
