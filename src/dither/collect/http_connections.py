"""Connections of a server: uvicorn's HTTP protocol, with limits in time, in number and in the size of headers.

uvicorn waits for ever for the headers of a request, for the first byte on a new connection, and for a client that does
not read its answer; and it keeps headers of any length. Whoever opens some thousand connections and lets a byte drip
into each now and then (*slowloris*) has the server to himself. So every connection has a time at which it is `due`,
which moves with what it has achieved, and never with a mere byte:

| a connection that | may take |
| --- | --- |
| is new, or has begun a request | `HEADER_SECONDS` until its headers are whole |
| sends the body of a request | `request_bodies.SECONDS`, after which it is answered 408 |
| has its answer | `KEEP_ALIVE_SECONDS` until the next request begins |
| does not take what it is sent | `WRITE_SECONDS` |

All connections are looked at once a second (`LimitedServer.on_tick`), so a request needs no timer of its own
(docs/decisions/0059). While a request is answered nothing is due, so an answer may go on for hours.

The head and the body of an answer are sent in one write: uvicorn's two are two system calls for the server, and two
packets for the client to wake up for.
"""

import asyncio
import math
import socket
from collections.abc import Callable
from typing import Any

from uvicorn import Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dither.collect.request_bodies import WHOLE

HEADER_SECONDS, KEEP_ALIVE_SECONDS, WRITE_SECONDS = 10.0, 30.0, 30.0
HEADER_BYTES = 1 << 16

_NEVER = math.inf
_WHOLE: dict[str, dict[object, object]] = {WHOLE: {}}
_REFUSAL = b"HTTP/1.1 %b\r\nretry-after: 2\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _OneWrite:
    """A transport that sends the head of an answer together with what follows it in the same step of the loop."""

    __slots__ = ("_head", "_loop", "_transport", "abort", "get_extra_info", "is_closing", "set_protocol")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._head = transport, loop, b""
        self.abort, self.is_closing = transport.abort, transport.is_closing
        self.get_extra_info, self.set_protocol = transport.get_extra_info, transport.set_protocol

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(b"HTTP/"):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


class LimitedProtocol(HttpToolsProtocol):
    """A connection that ends when it is due."""

    most = 8192  # connections at the same time
    due = stuck = _NEVER
    head_bytes = -1  # of the request whose headers are arriving; negative, if none is

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        self.transport = _OneWrite(transport, self.loop)  # type: ignore[assignment]
        self.due = self.loop.time() + HEADER_SECONDS
        if len(self.connections) > self.most:
            self.head_bytes = 0  # it is told why
            self.end(b"503 Service Unavailable")

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request; those of its headers are counted."""
        super().data_received(data)
        if self.head_bytes >= 0:
            self.head_bytes += len(data)
            if self.head_bytes > HEADER_BYTES and not self.transport.is_closing():
                self.end(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.due, self.head_bytes = self.loop.time() + HEADER_SECONDS, 0

    def on_headers_complete(self) -> None:
        """All headers are there."""
        self.due, self.head_bytes = _NEVER, -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The whole request is there."""
        self.scope["extensions"] = _WHOLE
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It was answered. As in uvicorn, but for its timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self.due = self.loop.time() + KEEP_ALIVE_SECONDS

    def pause_writing(self) -> None:
        """The client does not take what it is sent."""
        super().pause_writing()
        self.stuck = self.loop.time() + WRITE_SECONDS

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self.stuck = _NEVER

    def end(self, status: bytes) -> None:
        """Close the connection with a status; at once, if it should have been closed before."""
        if self.transport.is_closing() or self.stuck < _NEVER:
            self.transport.abort()
            return
        self.due = self.loop.time()
        if self.head_bytes >= 0:  # there is a request, and nobody answers it
            self.transport.write(_REFUSAL % status)
        self.transport.close()


class LimitedServer(Server):
    """A server that ends connections which are due, and says when it stops."""

    stopping: Callable[[], None] | None = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and wait for the answers that are open."""
        if self.stopping is not None:
            self.stopping()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            connections: Any = list(self.server_state.connections)
            for connection in connections:
                if isinstance(connection, LimitedProtocol) and now >= min(connection.due, connection.stuck):
                    connection.end(b"408 Request Timeout")
        return await super().on_tick(counter)
