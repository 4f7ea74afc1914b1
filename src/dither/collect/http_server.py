"""Run an application on a port until the process is told to stop: what a collector and a shuffler share.

Nothing of a request is written down: there is no access log, which would keep addresses, and no header says what serves
them. Connections are limited in time and in number (`http_connections`).
"""

import gc
import logging
import math
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dither.errors import ParameterError, require

MOST_CONNECTIONS = 8192
LOGGERS = ("dither.collect", "dither.shuffle")

_WAITING = 2048  # connections that wait to be accepted
_GRACE = 20  # seconds for open requests when the server stops
_REPEATED, _MOST_SAID = 10.0, 1000  # seconds after which the same line is logged again; lines that are remembered
_OTHER_FILES = 64  # that a process has open beside its connections


@dataclass(frozen=True)
class Endpoint:
    """Where a server listens; port 0 is one that is free. With a certificate it speaks HTTPS."""

    host: str = "127.0.0.1"
    port: int = 8080
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_key_password: str | None = None

    def tls(self) -> dict[str, Any]:
        """What uvicorn needs for TLS."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ParameterError("TLS needs both a certificate and its key")
        if self.tls_certificate is None:
            return {}
        return {
            "ssl_certfile": self.tls_certificate,
            "ssl_keyfile": self.tls_key,
            "ssl_keyfile_password": self.tls_key_password,
        }

    def listening(self) -> socket.socket:
        """A socket that takes connections."""
        try:
            known = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, number, _, address = known[0]
            listener = socket.socket(family, kind, number)
        except OSError as error:
            raise ParameterError(f"cannot listen on {self.host}: {os.strerror(error.errno or 0).lower()}") from None
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(_WAITING)
        except OSError as error:
            listener.close()
            reason = os.strerror(error.errno or 0).lower()
            raise ParameterError(
                f"cannot listen on {self.host}, port {self.port}: {reason}; name another one with --port"
            ) from None
        with suppress(OSError):
            listener.set_inheritable(True)
        return listener


def run_server(
    application: Any,
    endpoint: Endpoint,
    ready: Callable[[str], None] | None = None,
    *,
    stopping: Callable[[], None] | None = None,
) -> None:
    """Serve an application. `ready` is called with the address once the port is open.

    `stopping` is called when the server is told to stop, before it waits for the answers that are open: answers without
    an end of their own end then.
    """
    uvicorn = require("uvicorn", "serve")
    require("httptools", "serve")
    from dither.collect.http_connections import LimitedProtocol, LimitedServer

    LimitedProtocol.most = _most_connections()
    config = uvicorn.Config(
        application,
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        **endpoint.tls(),
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    seldom = SeldomFilter()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(seldom)
    with endpoint.listening() as listener:
        host, port = listener.getsockname()[:2]
        if ready is not None:
            scheme, name = f"http{'s' * bool(endpoint.tls_certificate)}", f"[{host}]" if ":" in host else host
            ready(f"{scheme}://{name}:{port}")
        _settle_interpreter()
        server = LimitedServer(config)
        server.stopping = stopping
        server.run(sockets=[listener])


class SeldomFilter(logging.Filter):
    """Lets the same words pass once in some seconds, and says how often they were held back.

    A store that fails does so with every request. Nobody reads a thousand lines a second, a disk may fill with them,
    and a pipe that nobody empties would stop the server in the middle of a line.

    >>> seldom = SeldomFilter(lasts=60.0)
    >>> record = logging.makeLogRecord({"msg": "the disk is full"})
    >>> [seldom.filter(record) for _ in range(3)]
    [True, False, False]
    """

    def __init__(self, lasts: float = _REPEATED) -> None:
        super().__init__()
        self._lasts = lasts
        self._said: dict[str, tuple[float, int]] = {}  # when, and how often since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        text, now = record.getMessage(), time.monotonic()
        when, often = self._said.get(text, (-math.inf, 0))
        if now - when < self._lasts:
            self._said[text] = when, often + 1
            return False
        if len(self._said) > _MOST_SAID:
            self._said.clear()
        self._said[text] = now, 0
        if often:
            record.msg, record.args = f"{text} ({often:,} more times)", None
        return True


def _most_connections() -> int:
    """As many connections as this process may have files; as many of those as it is allowed."""
    try:
        import resource
    except ImportError:  # there is no such limit
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(MOST_CONNECTIONS, soft - _OTHER_FILES))


def _settle_interpreter() -> None:
    """Settings of the interpreter for a process that does nothing but serve.

    The garbage collector looks through all that lives every few hundred requests, which costs a third of the time of a
    request. What is there at the start lives for ever, and is left out of it; the rest is looked at less often. Threads
    hand over after half a millisecond, not five: the writer waits for the interpreter after each flush of the disk.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(0.0005)
