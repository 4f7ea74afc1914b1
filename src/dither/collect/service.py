"""The HTTP service of a collector: an ASGI application.

Reports come in by the hundreds at a time, and all that a request does on their path is paid by every one of them. So
that path is plain ASGI (`_ingest`); all others are starlette's routes (`routes`). docs/collecting.md has the paths, and
`openapi` the document.

**What a client can do wrong** gets a problem document (`problems`), is counted by its kind, and changes nothing. No
input is answered by a failure of the service. Nothing that was sent is in a log or in an answer.

**Limits**: on the size of a request, on how long it may take to arrive, on how many are open, on how many come in a
second (`rate_limits`), and on what waits to be stored or counted (`collector`).
"""

import asyncio
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dither.collect import problems
from dither.collect.collector import BusyError, Collector, RefusedBatchError, Running
from dither.collect.live_estimates import LEAST_REPORTS, LiveEstimates
from dither.collect.live_streams import LiveStreams
from dither.collect.openapi import KEY_LETTERS
from dither.collect.problems import ProblemError
from dither.collect.rate_limits import RateLimit
from dither.collect.request_bodies import SECONDS, Headers, Message, Receive, RequestBodies, Scope, Send
from dither.collect.routes import routed
from dither.collect.sealed_batches import SealedBatches
from dither.collect.sealing_keys import KeyFolder
from dither.collect.store import CLIENT, CONFLICT, DUPLICATE, Outcome, StoreError
from dither.errors import DitherError, WireError
from dither.wire import CONTENT_TYPE as BATCH
from dither.wire import MOST_BYTES

JSON = b"application/json"
SECURITY: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]
PLANS, REPORTS, SEALED = "/v1/plans/", "/reports", "/sealed-batches"

_BATCH = BATCH.encode()
_HASH_LETTERS = 64
_VISIBLE = re.compile(rb"[!-~]{1,%d}" % KEY_LETTERS)
_RETRY = 2  # seconds that a client is asked to wait
_MOST_JSON = 1 << 20  # bytes of a batch in JSON, which is read in the event loop

log = logging.getLogger("dither.collect")


@dataclass(frozen=True)
class ServiceOptions:
    """How a service is offered."""

    origins: tuple[str, ...] = ()  # of pages whose scripts may use it
    body_bytes: int = MOST_BYTES
    body_seconds: float = SECONDS
    open_requests: int = 4096
    requests_per_second: float | None = None
    peer_requests_per_second: float | None = None
    least_reports: int = LEAST_REPORTS
    tls: bool = False
    keys: str | None = None  # the folder of the keys that sealed reports are opened with
    shuffler: str | None = None  # the address that the page for participants sends sealed reports to


class Service:
    """The application: `service(scope, receive, send)`."""

    def __init__(self, collector: Collector, options: ServiceOptions | None = None) -> None:
        self.collector, self.options = collector, options or ServiceOptions()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.open_requests = 0
        self._bodies = RequestBodies(collector.refuse_busy, self.options.body_seconds)
        self._limit = RateLimit(self.options.requests_per_second, self.options.peer_requests_per_second)
        keys = None if self.options.keys is None else KeyFolder(self.options.keys)
        self.sealed = SealedBatches(collector, keys)
        self.streams = LiveStreams(collector.store)
        self._estimates: dict[str, tuple[Running, LiveEstimates]] = {}
        self._origins = {origin.encode() for origin in self.options.origins}
        secure = [(b"strict-transport-security", b"max-age=31536000")] if self.options.tls else []
        self._headers: Headers = SECURITY + secure
        self._ingested: Headers = [*SECURITY[:2], *secure, (b"content-type", JSON)]  # the rest is for pages
        self._routes = routed(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the life of the server."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._live(receive, send)
        elif kind == "http":
            path = scope["path"]
            if path.startswith(PLANS) and path.endswith((REPORTS, SEALED)) and scope["method"] == "POST":
                await self._guarded(path.rpartition("/")[2], self._ingest, scope, receive, send)
            else:
                await self._guarded("", self._routed, scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.collector.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await asyncio.to_thread(self.collector.stop)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _guarded(
        self, route: str, answer: Callable[..., Awaitable[Any]], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """A request within the limits; whatever goes wrong becomes a problem document."""
        self.open_requests += 1
        try:
            peer = (scope.get("client") or ("",))[0]
            if self.open_requests > self.options.open_requests:
                raise ProblemError("busy", "too many requests are open: try again later")
            if not self._limit.allows(peer):
                raise ProblemError("rate", "too many requests come in: try again later")
            await answer(scope, receive, send)
        except ProblemError as error:
            await self._problem(route, scope, send, error)
        except BusyError as error:
            await self._problem(route, scope, send, ProblemError("busy", f"{error}: try again later"))
        except StoreError as error:
            log.error("%s", error)
            await self._problem(route, scope, send, ProblemError("store", "nothing was stored: try again later"))
        except DitherError as error:
            await self._problem(route, scope, send, ProblemError("refused", str(error)))
        except ConnectionError:  # the client went away: there is nobody to answer
            return
        except Exception as error:  # its words may quote what was sent
            log.error("a request failed: %s", type(error).__name__)
            await self._problem(route, scope, send, ProblemError("failure", "this is a fault of the service"))
        finally:
            self.open_requests -= 1

    # Reports in ------------------------------------------------------------------------------------------------

    async def _ingest(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        plan, _, route = scope["path"][len(PLANS) :].rpartition("/")
        running = self.running(plan)
        try:
            outcome = await self._submitted(running, scope, headers, receive, sealed=f"/{route}" == SEALED)
        except ProblemError as error:
            running.refused[error.kind] += 1
            raise
        if outcome.status == CONFLICT:
            running.refused["conflict"] += 1
            raise ProblemError("conflict", "a retry must send the same bytes: give another batch another key")
        duplicate = outcome.status == DUPLICATE
        if duplicate:
            running.duplicates += 1
        else:
            running.batches += 1
            running.accepted += outcome.accepted
        if outcome.rejected:
            running.rejected.update({} if duplicate else outcome.rejected)
            told = {"accepted": outcome.accepted, "rejected": dict(outcome.rejected), "duplicate": duplicate}
            body = json.dumps(told).encode()
        else:
            body = b'{"accepted":%d,"rejected":{},"duplicate":%s}' % (
                outcome.accepted,
                b"true" if duplicate else b"false",
            )
        self.requests[route, 200] += 1
        lines = [*self._ingested, (b"content-length", b"%d" % len(body))]
        origin = headers.get(b"origin")
        if origin is not None:
            lines += self.cors(origin)
        await send({"type": "http.response.start", "status": 200, "headers": lines})
        await send({"type": "http.response.body", "body": body})

    async def _submitted(
        self, running: Running, scope: Scope, headers: dict[bytes, bytes], receive: Receive, *, sealed: bool
    ) -> Outcome:
        """What became of the batch in a request."""
        campaign = running.campaign
        if not campaign.is_open(time.time()):
            raise ProblemError("closed", "this campaign is closed: send no more reports of this plan")
        if sealed:
            return await self.sealed.ingest(self, running, _key(headers), scope, headers, receive)
        if running.plan.crowd is not None:
            raise ProblemError(
                "shuffler-needed", "a report of this plan tells too much on its own: seal it, and send it to a shuffler"
            )
        if self.collector.tokens.needs(CLIENT, campaign.number):
            self.authorize(headers.get(b"authorization"), CLIENT, campaign.number)
        kind = headers.get(b"content-type", b"")
        if kind != _BATCH:
            kind = kind.partition(b";")[0].strip().lower()
        if kind not in (_BATCH, JSON) or headers.get(b"content-encoding", b"identity") != b"identity":
            raise ProblemError("content-type", f"send {BATCH}, which plan.pack(reports) makes, or application/json")
        key = _key(headers)
        body = await self.body(scope, headers, receive, self.options.body_bytes if kind == _BATCH else _MOST_JSON)
        try:
            if kind == JSON:
                body = running.format.from_json(body)
            return await self.collector.submit(running, key, body)
        except WireError as error:
            raise ProblemError(error.reason.replace(" ", "-"), str(error)) from None
        except RefusedBatchError as error:
            running.rejected.update(error.rejected)
            kind = error.reason.replace(" ", "-")
            if error.rejected or kind not in problems.PROBLEMS:
                raise ProblemError("rejected", str(error), accepted=0, rejected=error.rejected) from None
            raise ProblemError(kind, str(error)) from None

    async def body(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, most: int) -> bytes:
        """The body of a request, of so many bytes at most."""
        return await self._bodies.read(scope, headers, receive, most)

    # What routes share -----------------------------------------------------------------------------------------

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = dict(scope["headers"]).get(b"origin")
        more = self._headers + (self.cors(origin) if origin is not None else [])

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.requests[scope.get("route_name", "other"), message["status"]] += 1
                own = message.get("headers", ())  # a page has a policy of its own
                told = {name for name, _ in own}
                message["headers"] = [*own, *(line for line in more if line[0] not in told)]
            await send(message)

        await self._routes(scope, receive, counted)

    async def _problem(self, route: str, scope: Scope, send: Send, error: ProblemError) -> None:
        status, body = problems.document(error.kind, error.detail, **error.more)
        self.requests[route or scope.get("route_name", "other"), status] += 1
        headers = [*self._headers, (b"content-type", problems.CONTENT_TYPE), (b"content-length", b"%d" % len(body))]
        if status in (429, 503):
            headers.append((b"retry-after", b"%d" % _RETRY))
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if status in (408, 413):  # what is left of the request is not read
            headers.append((b"connection", b"close"))
        origin = dict(scope["headers"]).get(b"origin")
        if origin is not None:
            headers += self.cors(origin)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def cors(self, origin: bytes) -> Headers:
        """What tells a browser that scripts of a page may read the answer."""
        if origin not in self._origins and b"*" not in self._origins:
            return []
        return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]

    def running(self, plan: str) -> Running:
        """The campaign of a plan."""
        found = self.collector.running.get(plan) if len(plan) == _HASH_LETTERS else None
        if found is None:
            raise ProblemError("unknown-plan", "GET /v1/plans lists the plans that are collected here")
        return found

    def estimates(self, running: Running) -> LiveEstimates:
        """The results of a campaign."""
        plan = running.plan.fingerprint
        known = self._estimates.get(plan)
        if known is None or known[0] is not running:  # it was deleted, and is collected for anew
            known = running, LiveEstimates(self.collector.store, running, self.options.least_reports)
            self._estimates[plan] = known
        return known[1]

    def authorize(self, authorization: bytes | None, role: str, campaign: int) -> bytes | None:
        """Refuse whoever may not do this; the digest of their token."""
        refusal, digest = self.collector.tokens.refusal(authorization, role, campaign, time.time())
        if refusal:
            raise ProblemError(refusal, f"send the header Authorization: Bearer with a token for the role {role}")
        return digest


def _key(headers: dict[bytes, bytes]) -> bytes:
    """The idempotency key of a batch."""
    key = headers.get(b"idempotency-key", b"")
    if _VISIBLE.fullmatch(key) is None:
        raise ProblemError(
            "no-key",
            f"send the header Idempotency-Key, up to {KEY_LETTERS} visible ASCII characters that name this batch",
        )
    return key
