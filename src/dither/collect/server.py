"""Serve campaigns over HTTP: the store, the collector and the service put together, on uvicorn.

The server stops at SIGTERM and SIGINT: it takes no new connections, answers the requests that are open, counts what is
stored, and lets go of the store. A server that is killed loses nothing that it acknowledged; the next start counts it.
"""

import gc
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dither.collect.collector import Collector
from dither.collect.service import Service, ServiceOptions
from dither.collect.sqlite_store import SqliteStore
from dither.collect.store import ANALYST, Store, Token
from dither.collect.tokens import new_token, token_digest
from dither.core.atomic_write import write_bytes
from dither.errors import ParameterError, require

TOKEN_FILE = "analyst.token"  # noqa: S105 - where it is, not what it is
_CONNECTIONS = 2048  # that wait to be accepted
_GRACE = 20  # seconds for open requests when the server stops


@dataclass(frozen=True)
class ServerOptions:
    """Where and how a collector listens."""

    host: str = "127.0.0.1"
    port: int = 8080
    service: ServiceOptions = field(default_factory=ServiceOptions)
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


def open_store(place: str, *, collects: bool = False) -> Store:
    """The store at a place: a folder, or the address of a PostgreSQL database."""
    if "://" not in place:
        return SqliteStore(place, collects=collects)
    if place.startswith(("postgresql://", "postgres://")):
        from dither.collect.postgres_store import PostgresStore

        return PostgresStore(place)
    raise ParameterError("a store is a folder, or the address of a PostgreSQL database: postgresql://host/database")


def first_token(store: Store, place: str) -> str | None:
    """A token for an analyst, if there is none yet, in a file that only its owner can read; where it is."""
    if any(token.role == ANALYST for token in store.tokens()):
        return None
    file = Path(place if "://" not in place else ".") / TOKEN_FILE
    secret = new_token()
    write_bytes(file, f"{secret}\n".encode(), private=True)
    store.add_token(Token(token_digest(secret), ANALYST, None, None))
    return str(file)


def serve(
    collector: Collector, options: ServerOptions | None = None, *, ready: Callable[[str], None] | None = None
) -> None:
    """Serve until the process is told to stop. `ready` is called with the address once the port is open."""
    uvicorn = require("uvicorn", "serve")
    options = options or ServerOptions()
    if not collector.running:
        raise ParameterError("there is no plan to collect for: name a plan.json")
    service = Service(collector, options.service)
    config = uvicorn.Config(
        service,
        lifespan="on",
        log_config=None,
        access_log=False,  # it would keep addresses
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=30,
        **options.tls(),
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    with listening(options.host, options.port) as listener:
        host, port = listener.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        if ready is not None:
            ready(f"http{'s' * bool(options.tls_certificate)}://{name}:{port}")
        _settle_interpreter()
        uvicorn.Server(config).run(sockets=[listener])


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


def listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections; port 0 is one that is free."""
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = known[0]
        listener = socket.socket(family, kind, number)
    except OSError as error:
        raise ParameterError(f"cannot listen on {host}: {os.strerror(error.errno or 0).lower()}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_CONNECTIONS)
    except OSError as error:
        listener.close()
        reason = os.strerror(error.errno or 0).lower()
        raise ParameterError(f"cannot listen on {host}, port {port}: {reason}; name another one with --port") from None
    with suppress(OSError):
        listener.set_inheritable(True)
    return listener
