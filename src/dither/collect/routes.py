"""The routes of the service beside the path of the reports, by starlette.

Nobody reads a single report here. Plans, the statement and whether the service is well are for everybody; estimates and
queries are for analysts, and each is noted in the log of the store with the digest of their token.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from dither import __version__
from dither.collect.live_page import live_routes
from dither.collect.metrics import CONTENT_TYPE as METRICS
from dither.collect.metrics import metrics_text
from dither.collect.named_endpoints import NamedEndpoints
from dither.collect.openapi import openapi_document
from dither.collect.problems import ProblemError
from dither.collect.store import ANALYST
from dither.errors import require

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from dither.collect.collector import Running
    from dither.collect.service import Service

ALLOWED_HEADERS = b"authorization, content-type, idempotency-key"

_MOST_QUERY = 1 << 18  # bytes
_LOGGED = 2000  # letters of a query that are noted


class QueryFormat(msgspec.Struct, forbid_unknown_fields=True):
    conditions: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=2000)]], msgspec.Meta(min_length=1, max_length=100)
    ]
    question: str | None = None


def routed(service: "Service") -> Callable[..., Awaitable[None]]:
    """The application of all routes but the one for reports."""
    routing = require("starlette.routing", "serve")
    endpoints = Endpoints(service)
    routes = [
        routing.Route(path, endpoints.named(name), methods=methods)
        for path, name, methods in (
            ("/v1/plans", "plans", ["GET"]),
            ("/v1/plans/{plan}", "plan", ["GET"]),
            ("/v1/plans/{plan}/estimate", "estimate", ["GET"]),
            ("/v1/plans/{plan}/query", "query", ["POST"]),
            ("/v1/plans/{plan}/statement", "statement", ["GET"]),
            ("/v1/plans/{plan}/keys", "keys", ["GET"]),
            ("/v1/health", "health", ["GET"]),
            ("/metrics", "metrics", ["GET"]),
            ("/openapi.json", "openapi", ["GET"]),
        )
    ]
    routes += live_routes(service)
    for name in ("reports", "sealed-batches"):
        routes.append(routing.Route(f"/v1/plans/{{plan}}/{name}", endpoints.named("reports"), methods=["POST"]))
    router = routing.Router(routes, redirect_slashes=False)
    refusal = require("starlette.exceptions", "serve").HTTPException

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "OPTIONS":
            await endpoints.preflight(scope, send)
            return
        scope["app"] = router  # starlette then raises what is not found or not allowed
        try:
            await router(scope, receive, send)
        except refusal as error:
            kind = "method" if error.status_code == 405 else "not-found"
            raise ProblemError(kind, "GET /openapi.json describes what there is") from None

    return application


class Endpoints(NamedEndpoints):
    """What each route answers."""

    def _running(self, request: "Request") -> "Running":
        return self._service.running(request.path_params["plan"])

    def _json(self, body: bytes) -> "Response":
        return self._responses.Response(body, media_type="application/json")

    async def plans(self, request: "Request") -> "Response":
        """All campaigns."""
        told = [
            {
                "plan": plan,
                "state": "open" if running.campaign.is_open(time.time()) else "closed",
                "closes": running.campaign.closes,
                "url": f"/v1/plans/{plan}",
            }
            for plan, running in list(self._service.collector.running.items())
        ]
        return self._responses.JSONResponse(told)

    async def plan(self, request: "Request") -> "Response":
        """The bytes of plan.json. They never change, and are named by their hash."""
        return self._json(self._running(request).campaign.document)

    async def reports(self, request: "Request") -> "Response":
        """Other methods than POST, which is answered before."""
        raise ProblemError("method", "reports are sent by POST")

    async def keys(self, request: "Request") -> "Response":
        """The public keys that reports of a plan are sealed to."""
        found = await asyncio.to_thread(self._service.sealed.keys_document, self._running(request))
        return self._responses.JSONResponse(found)

    async def estimate(self, request: "Request") -> "Response":
        """All estimates."""
        running = self._running(request)
        await self._note(running, "estimate", "", self._analyst(request, running))
        return self._json(await asyncio.to_thread(self._service.estimates(running).document))

    async def query(self, request: "Request") -> "Response":
        """The answers to conditions."""
        running = self._running(request)
        analyst = self._analyst(request, running)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ProblemError("content-type", "send application/json")
        headers = dict(request.scope["headers"])
        body = await self._service.body(request.scope, headers, request.receive, _MOST_QUERY)
        try:
            asked = msgspec.json.decode(body, type=QueryFormat)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise ProblemError("bad-request", 'send {"conditions": ["age between 20 and 40"]}') from None
        await self._note(running, "query", "; ".join(asked.conditions)[:_LOGGED], analyst)
        estimates = self._service.estimates(running)
        if "text/html" in request.headers.get("accept", ""):
            drawn = await asyncio.to_thread(estimates.drawn_answers, asked.conditions, asked.question)
            return self._responses.HTMLResponse(drawn)
        return self._json(await asyncio.to_thread(estimates.answers, asked.conditions, asked.question))

    def _analyst(self, request: "Request", running: "Running") -> bytes | None:
        """The digest of the token of somebody who may read the results."""
        authorization = dict(request.scope["headers"]).get(b"authorization")
        return self._service.authorize(authorization, ANALYST, running.number)

    async def _note(self, running: "Running", kind: str, detail: str, analyst: bytes | None) -> None:
        """Note in the store that somebody asked, before they are answered."""
        store = self._service.collector.store
        await asyncio.to_thread(store.log_query, int(time.time()), running.number, kind, detail, analyst)

    async def statement(self, request: "Request") -> "Response":
        """The statement of the plan: a page where HTML is accepted, or plain text."""
        running = self._running(request)
        found = await asyncio.to_thread(lambda: running.statement)
        if "text/html" in request.headers.get("accept", ""):
            return self._responses.HTMLResponse(found.html())
        return self._responses.PlainTextResponse(found.text())

    async def health(self, request: "Request") -> "Response":
        """Whether batches are taken."""
        self._service.collector.refuse_busy(0)
        return self._responses.JSONResponse({"status": "ok", "version": __version__})

    async def metrics(self, request: "Request") -> "Response":
        """Counters for Prometheus."""
        service = self._service
        text = metrics_text(service.collector, service.requests, service.open_requests)
        return self._responses.Response(text, headers={"content-type": METRICS})

    async def openapi(self, request: "Request") -> "Response":
        """The document that describes all of this."""
        return self._responses.JSONResponse(openapi_document())

    async def preflight(self, scope: Any, send: Any) -> None:
        """What a browser asks before it lets the scripts of a page send reports."""
        headers = dict(scope["headers"])
        allowed = self._service.cors(headers.get(b"origin", b""))
        if not allowed:
            raise ProblemError("method", "only pages of declared origins may ask for options")
        lines = [
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", ALLOWED_HEADERS),
            (b"access-control-max-age", b"3600"),
            (b"content-length", b"0"),
        ]
        scope["route_name"] = "preflight"
        await send({"type": "http.response.start", "status": 204, "headers": lines})
        await send({"type": "http.response.body", "body": b""})
