"""Serve campaigns over HTTP: the store, the collector and the service put together.

The server stops at SIGTERM and SIGINT: it takes no new connections, answers the requests that are open, counts what is
stored, and lets go of the store. A server that is killed loses nothing that it acknowledged; the next start counts it.
"""

from collections.abc import Callable
from pathlib import Path

from dither.collect.collector import Collector
from dither.collect.http_server import Endpoint, run_server
from dither.collect.service import Service, ServiceOptions
from dither.collect.sqlite_store import SqliteStore
from dither.collect.store import ANALYST, Store, Token
from dither.collect.tokens import new_token, token_digest
from dither.core.atomic_write import write_bytes
from dither.errors import ParameterError

TOKEN_FILE = "analyst.token"  # noqa: S105 - where it is, not what it is


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
    collector: Collector,
    endpoint: Endpoint | None = None,
    options: ServiceOptions | None = None,
    *,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until the process is told to stop. `ready` is called with the address once the port is open."""
    if not collector.running:
        raise ParameterError("there is no plan to collect for: name a plan.json")
    service = Service(collector, options)
    run_server(service, endpoint or Endpoint(), ready, stopping=service.streams.stop)
