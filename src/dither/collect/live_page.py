"""The pages of a collector: `/` for analysts, who watch a collection, and `/join` for the people who are asked.

A page is a frame without data (`dither.page.live_frames`), a script and a style sheet, all from here: nothing comes
from anywhere else, and the content security policy says so, without exceptions for what stands in the page itself. The
script asks for what it shows with the token that the analyst has typed in. It keeps it for as long as the tab is open
(`sessionStorage`), sends it in a header, and never puts it into an address or a cookie; so there is nothing that
another site could have a browser send.

What a page shows is drawn here, by the code of the report (`live_sections`). `/v1/plans/{hash}/live` gives all of it,
or with `seen=` only what has changed since; `events` says when to ask (`live_streams`); `pair` draws two attributes for
the range explorer. Looks are noted in the store as those at estimates are: once for each page that is opened, not for
each time that it is brought up to date.
"""

import asyncio
import gzip
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from dither.collect.live_streams import CONTENT_TYPE as EVENTS
from dither.collect.named_endpoints import NamedEndpoints
from dither.collect.problems import ProblemError
from dither.collect.store import ACCEPTED, ANALYST, CLIENT
from dither.errors import ParameterError, require
from dither.page.html_page import page_style
from dither.page.live_frames import choice_frame, join_frame, live_frame

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from dither.collect.collector import Running
    from dither.collect.service import Service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'{more}; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types dither"
)
ROUTES = (
    ("/", "live"),
    ("/join", "join"),
    ("/join/{plan}", "join_plan"),
    ("/browser/{file}", "file"),
    ("/v1/campaigns", "campaigns"),
    ("/v1/plans/{plan}/live", "view"),
    ("/v1/plans/{plan}/pair", "pair"),
    ("/v1/plans/{plan}/events", "events"),
)

_KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")
_WORTH_PACKING = 1400  # bytes: a packet


def live_routes(service: "Service") -> list[Any]:
    """The routes of the pages, and of what they ask for."""
    routing = require("starlette.routing", "serve")
    pages = LivePages(service)
    return [routing.Route(path, pages.named(name), methods=["GET"]) for path, name in ROUTES]


@lru_cache(maxsize=1)
def page_files() -> Mapping[str, tuple[str, bytes, bytes]]:
    """What pages are made of: the type, the bytes and the same packed, by the name."""
    folder = resources.files("dither.collect").joinpath("browser")
    found = {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith((".js", ".css"))}
    found["live.css"] = page_style().encode() + found["live.css"]  # the sheet of the report, and what is added to it
    return {
        name: (_KINDS[name[name.rindex(".") :]], body, gzip.compress(body, mtime=0)) for name, body in found.items()
    }


class LivePages(NamedEndpoints):
    """What each of these routes answers."""

    def __init__(self, service: "Service") -> None:
        super().__init__(service)
        shuffler = service.options.shuffler
        self._shuffler = () if shuffler is None else (_origin(shuffler),)

    # Frames ----------------------------------------------------------------------------------------------------

    async def live(self, request: "Request") -> "Response":
        """The page for analysts, without anything that is not public."""
        return self._page(request, live_frame())

    async def join(self, request: "Request") -> "Response":
        """The page for participants: of the campaign that is open, or a choice of several."""
        now = time.time()
        some = [each for each in list(self._service.collector.running.values()) if each.campaign.is_open(now)]
        if len(some) == 1:
            return await self._join(request, some[0])
        return self._page(request, choice_frame({each.plan.fingerprint: each.plan.title for each in some}))

    async def join_plan(self, request: "Request") -> "Response":
        """The page for participants of one campaign."""
        return await self._join(request, self._service.running(request.path_params["plan"]))

    async def _join(self, request: "Request", running: "Running") -> "Response":
        shuffler = self._service.options.shuffler
        needs_token = self._service.collector.tokens.needs(CLIENT, running.number)
        statement = await asyncio.to_thread(lambda: running.statement)
        written = join_frame(running.plan, statement, needs_token=needs_token, shuffler=shuffler)
        return self._page(request, written, self._shuffler)

    def _page(self, request: "Request", written: str, origins: tuple[str, ...] = ()) -> "Response":
        policy = POLICY.format(more="".join(f" {origin}" for origin in origins))
        return self._packed(
            request,
            written.encode(),
            "text/html; charset=utf-8",
            {"content-security-policy": policy, "cross-origin-opener-policy": "same-origin"},
        )

    async def file(self, request: "Request") -> "Response":
        """A script or a style sheet."""
        known = page_files().get(request.path_params["file"])
        if known is None:
            raise ProblemError("not-found", "GET /openapi.json describes what there is")
        kind, body, packed = known
        return self._packed(request, body, kind, packed=packed)

    def _packed(
        self,
        request: "Request",
        body: bytes,
        kind: str,
        headers: Mapping[str, str] | None = None,
        packed: bytes | None = None,
    ) -> "Response":
        """An answer, packed where that is taken. Nothing secret is in one beside what the asker chose, so that its size
        tells nothing: tokens are in headers of requests only."""
        lines = {**(headers or {}), "content-type": kind, "vary": "Accept-Encoding"}
        if len(body) >= _WORTH_PACKING and "gzip" in request.headers.get("accept-encoding", ""):
            lines["content-encoding"] = "gzip"
            body = gzip.compress(body, 6, mtime=0) if packed is None else packed
        return self._responses.Response(body, headers=lines)

    # What they ask for -----------------------------------------------------------------------------------------

    async def campaigns(self, request: "Request") -> "Response":
        """The campaigns whose results this token may see."""
        service, now = self._service, time.time()
        authorization = dict(request.scope["headers"]).get(b"authorization")
        found, refusal = list[dict[str, Any]](), "no-token"
        for plan, running in list(service.collector.running.items()):
            refusal, _ = service.collector.tokens.refusal(authorization, ANALYST, running.number, now)
            if refusal:
                continue
            arrivals = await asyncio.to_thread(service.collector.store.arrivals, running.number)
            found.append(
                {
                    "plan": plan,
                    "title": running.plan.title,
                    "state": "open" if running.campaign.is_open(now) else "closed",
                    "closes": running.campaign.closes,
                    "reports": sum(each.reports for each in arrivals if each.outcome == ACCEPTED),
                }
            )
        if not found:
            raise ProblemError(refusal, f"send the header Authorization: Bearer with a token for the role {ANALYST}")
        return self._json(request, found)

    async def view(self, request: "Request") -> "Response":
        """All that the live page shows of a campaign, or what has changed since it was seen."""
        running = self._service.running(request.path_params["plan"])
        seen = request.query_params.get("seen", "")
        analyst = self._analyst(request, running)
        if not seen:
            await self._note(running, "live page", "", analyst)
        estimates = self._service.estimates(running)
        found = await asyncio.to_thread(
            estimates.view, request.query_params.get("round"), int(seen) if seen.isdecimal() else None
        )
        return self._json(request, found)

    async def pair(self, request: "Request") -> "Response":
        """Two attributes of a question about ranges."""
        running = self._service.running(request.path_params["plan"])
        analyst = self._analyst(request, running)
        asked = request.query_params
        first, second = asked.get("first", ""), asked.get("second", "")
        await self._note(running, "pair", f"{first}, {second}"[:200], analyst)
        estimates = self._service.estimates(running)
        return self._json(request, await asyncio.to_thread(estimates.pair, asked.get("question"), first, second))

    async def events(self, request: "Request") -> "Response":
        """A stream of what has changed."""
        running = self._service.running(request.path_params["plan"])
        self._analyst(request, running)
        events = self._service.streams.events(running, self._service.estimates(running))
        return self._responses.StreamingResponse(events, headers={"content-type": EVENTS, "x-accel-buffering": "no"})

    def _json(self, request: "Request", found: Any) -> "Response":
        return self._packed(request, msgspec.json.encode(found), "application/json")

    def _analyst(self, request: "Request", running: "Running") -> bytes | None:
        authorization = dict(request.scope["headers"]).get(b"authorization")
        return self._service.authorize(authorization, ANALYST, running.number)

    async def _note(self, running: "Running", kind: str, detail: str, analyst: bytes | None) -> None:
        store = self._service.collector.store
        await asyncio.to_thread(store.log_query, int(time.time()), running.number, kind, detail, analyst)


def _origin(address: str) -> str:
    """The origin of an address, for the policy.

    >>> _origin("https://shuffle.example.org:8443/v1")
    'https://shuffle.example.org:8443'
    """
    parts = urlsplit(address)
    origin = f"{parts.scheme}://{parts.netloc}"
    if not _ORIGIN.fullmatch(origin):
        raise ParameterError("the address of a shuffler is written as https://shuffle.example.org")
    return origin
