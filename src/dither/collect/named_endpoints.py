"""Routes that say which they are, for the counters: what the endpoints of the API and of the pages have in common."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from dither.errors import require

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from dither.collect.service import Service


class NamedEndpoints:
    """Answers of a service, a method each."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._responses = require("starlette.responses", "serve")

    def named(self, name: str) -> Callable[["Request"], Awaitable["Response"]]:
        """An endpoint that says which it is, for the counters."""
        answer = getattr(self, name)

        async def endpoint(request: "Request") -> "Response":
            request.scope["route_name"] = name
            return await answer(request)

        return endpoint
