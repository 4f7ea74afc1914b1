"""Connections that dawdle, on a real server: each is ended in time, and those that do not are served meanwhile."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from dither.collect.http_server import SeldomFilter
from dither.collect.problems import ProblemError
from dither.collect.request_bodies import RequestBodies
from interrupts import hears_interrupts

TOO_LONG = 60.0
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"

# An application that says how long the body was, on a server with short limits.
PROGRAM = """
from dither.collect import http_connections, http_server
http_connections.HEADER_SECONDS = http_connections.KEEP_ALIVE_SECONDS = http_connections.WRITE_SECONDS = 1.0
http_server.MOST_CONNECTIONS = {most}

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            message = await receive()
            await send({{"type": message["type"] + ".complete"}})
        return
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = b"%d" % size if scope["path"] == "/" else bytes(1 << 26)
    length = (b"content-length", b"%d" % len(body))
    await send({{"type": "http.response.start", "status": 200, "headers": [length]}})
    await send({{"type": "http.response.body", "body": body}})

http_server.run_server(application, http_server.Endpoint(port=0), lambda address: print(address, flush=True))
"""


@contextmanager
def serving(most: int = 100) -> Iterator[int]:
    """The port of such a server."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(most=most)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=hears_interrupts,
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline().rpartition(":")[2])
        while answer(port, GET)[:12] != b"HTTP/1.1 200":
            time.sleep(0.01)
        yield port
    finally:
        process.terminate()
        process.wait(TOO_LONG)
        process.stdout.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=TOO_LONG)


def answer(port: int, request: bytes) -> bytes:
    """What comes back at once."""
    with suppress(OSError), connected(port) as link:
        link.sendall(request)
        return link.recv(1000)
    return b""


def until_closed(link: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts = list[bytes]()
    with suppress(ConnectionResetError):
        while part := link.recv(1 << 20):
            parts.append(part)
    return b"".join(parts)


def test_connections_that_dawdle_are_ended_and_others_are_served():
    head = b"POST / HTTP/1.1\r\nhost: x\r\n"
    with serving() as port, ExitStack() as stack:
        silent, dripping, kept, blank = (stack.enter_context(connected(port)) for _ in range(4))
        dripping.sendall(head)
        for link in (kept, blank):
            link.sendall(GET)
            assert link.recv(1000).startswith(b"HTTP/1.1 200")
        start = time.monotonic()
        while time.monotonic() < start + 1.5:  # mere bytes win no time
            with suppress(OSError):
                dripping.sendall(b"x-drip: 1\r\n")
            with suppress(OSError):
                blank.sendall(b"\r\n")
            time.sleep(0.1)
        assert answer(port, GET).startswith(b"HTTP/1.1 200")
        assert until_closed(dripping).startswith(b"HTTP/1.1 408")
        assert [until_closed(link) for link in (silent, kept, blank)] == [b"", b"", b""]


def test_a_client_that_does_not_read_is_let_go():
    with serving() as port, socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(TOO_LONG)
        link.connect(("127.0.0.1", port))
        link.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        time.sleep(3.2)
        assert len(until_closed(link)) < 1 << 26


def test_headers_without_end_are_refused():
    with serving() as port:
        assert answer(port, b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000 + b"\r\n" + b"b" * 70_000).startswith(
            b"HTTP/1.1 431"
        )
        assert answer(port, b"GET / HTTP/1.1\r\nx: " + b"a" * 30_000 + b"\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_connections_beyond_the_limit_are_turned_away():
    with serving(most=3) as port, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(port))
        time.sleep(0.2)
        assert b"503 Service Unavailable\r\nretry-after: 2" in answer(port, GET)


@pytest.mark.parametrize("pieces", [1, 5])
def test_head_and_body_of_answers_arrive_whole(pieces):
    """Requests in pieces, several on one connection, and one behind the other without waiting."""
    request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n0123456789"
    with serving() as port, connected(port) as link:
        size = len(request) // pieces + 1
        for _ in range(3):
            for first in range(0, len(request), size):
                link.sendall(request[first : first + size])
                time.sleep(0.01)
            found = link.recv(1000)
            assert (found[:12], found[-6:]) == (b"HTTP/1.1 200", b"\r\n\r\n10")
        link.sendall(request * 3 + request.replace(b"host: x", b"connection: close"))
        assert until_closed(link).count(b"\r\n\r\n10") == 4


def test_a_line_that_is_logged_again_and_again_is_written_seldom():
    seldom, said = SeldomFilter(lasts=0.05), list[str]()

    def say(text: str) -> None:
        record = logging.makeLogRecord({"msg": "%s", "args": (text,)})
        if seldom.filter(record):
            said.append(record.getMessage())

    for _ in range(500):
        say("the disk is full")
    say("another")
    time.sleep(0.06)
    say("the disk is full")
    assert said == ["the disk is full", "another", "the disk is full (499 more times)"]


def test_bytes_that_arrive_are_counted_before_more_is_read():
    held: list[int] = []

    def refuse_busy(size: int) -> None:
        held.append(size)
        if size > 250:
            raise ProblemError("busy", "")

    bodies = RequestBodies(refuse_busy)

    def body(*sizes: int) -> bytes:
        arriving = iter(sizes)
        left = len(sizes)

        async def receive():
            nonlocal left
            left -= 1
            return {"type": "http.request", "body": bytes(next(arriving)), "more_body": left > 0}

        return asyncio.run(bodies.read({}, {}, receive, 1000))

    assert len(body(100, 100)) == 200
    assert held == [100, 200]
    with pytest.raises(ProblemError, match="busy"):
        body(100, 100, 100, 100)
    assert held == [100, 200, 100, 200, 300]
    assert bodies.arriving == 0
