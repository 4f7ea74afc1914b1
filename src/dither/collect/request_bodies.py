"""The bodies of requests, read within limits: of one, of all that arrive together, and in time.

What has arrived of all bodies together is counted before more is read, beside what waits for the disk already. So the
memory is bounded however many requests are open, and who wants to use it up has to send as many bytes. A request that
says how long it is and would not fit is turned away before anything of it is read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from dither.collect.problems import ProblemError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

SECONDS = 30.0
WHOLE = "dither.whole_body"  # an extension of the scope, by our own server: the body of this request has arrived


class RequestBodies:
    """Reads bodies. `refuse_busy` is asked about bytes that are to be held, and raises if there is no room."""

    def __init__(self, refuse_busy: Callable[[int], None], seconds: float = SECONDS) -> None:
        self.arriving = 0  # bytes
        self._refuse_busy, self._seconds = refuse_busy, seconds

    async def read(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, most: int) -> bytes:
        """The body of a request, of so many bytes at most."""
        length = headers.get(b"content-length")
        if length is not None:
            if not length.isdigit():
                raise ProblemError("bad-request", "the header Content-Length is no number")
            size = int(length) if len(length) < 20 else most + 1
            if size > most:
                await self._drained(receive, most)
                raise _too_large(most)
            self._refuse_busy(self.arriving + size)
            if WHOLE in scope.get("extensions", ()):  # which is the usual case, and needs no timer
                message = await receive()
                if not message.get("more_body", False):
                    return _part(message)
                return await self._rest(receive, most, _part(message))
        return await self._rest(receive, most)

    async def _rest(self, receive: Receive, most: int, first: bytes = b"") -> bytes:
        parts, size, more = [first], len(first), True
        self.arriving += size
        try:
            async with asyncio.timeout(self._seconds):
                while more:
                    message = await receive()
                    parts.append(_part(message))
                    size += len(parts[-1])
                    self.arriving += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > most:
                        parts.clear()
                        if more:
                            await self._drained(receive, most)
                        raise _too_large(most)
                    self._refuse_busy(self.arriving)
        except TimeoutError:
            raise ProblemError("timeout", "the request did not arrive in time: send it again") from None
        finally:
            self.arriving -= size
        return b"".join(parts)

    async def _drained(self, receive: Receive, most: int) -> None:
        """Read a request that is too large to its end, if that is near: many clients listen only then."""
        size, more = 0, True
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                while more and size <= 4 * most:
                    message = await receive()
                    size += len(message.get("body", b""))
                    more = message.get("more_body", False)


def _part(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise ConnectionError
    return message.get("body", b"")


def _too_large(most: int) -> ProblemError:
    return ProblemError("too-large", f"a request has at most {most:,} bytes: send less at a time")
