"""Requests of a device to its collector, with the standard library: no redirects, no cookies, nothing that names it.

A redirect would hand reports, or a token, to whoever answers; `urllib` follows some by default, and turns a POST into a
GET. So none is followed. Proxies of the environment are used, as other programs do. What comes back is a stranger's: so
many bytes of it are read at most, in so much time.

Plain HTTP is for this machine alone (tests, trials, a proxy beside the program), unless the caller says otherwise:
whoever is on the way could read the token, and answer in the collector's place.
"""

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from dither import __version__
from dither.core.checks import is_string
from dither.errors import ParameterError

_MOST_ANSWER = 1 << 24  # bytes: a plan of many attributes is the largest
_PIECE = 1 << 16
_MOST_SHOWN = 200  # letters
_URL_RULE = 'url is the address of a collector, as in "https://collect.example.org", or that of a plan there'


class UnreachableError(Exception):
    """There was no answer, or none that could be read. Nothing is known about what the collector did."""


class HttpAnswer(NamedTuple):
    """What a collector answered."""

    status: int
    body: bytes
    retry_after: float = 0.0

    def json(self) -> Any:
        """The body, if it is JSON; None otherwise."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def in_words(self) -> str:
        """The status, and what the problem document says, without anything that a terminal would obey."""
        found = self.json()
        told = found.get("detail") or found.get("title") if isinstance(found, dict) else ""
        text = "".join(letter for letter in told if letter.isprintable()) if isinstance(told, str) else ""
        return f"{self.status}, {text[:_MOST_SHOWN]}" if text else f"{self.status}"


class Address(NamedTuple):
    """A collector, and a plan there if the address names one."""

    collector: str
    plan: str | None

    @classmethod
    def of(cls, url: Any, allow_http: bool = False) -> "Address":
        """From what a caller gives.

        >>> Address.of("https://collect.example.org/v1/plans/" + "ab" * 32).collector
        'https://collect.example.org'
        """
        try:
            parts = urlsplit(url if is_string(url) else "")
            host, fine = parts.hostname or "", parts.port is None or parts.port > 0
        except ValueError:
            parts, host, fine = urlsplit(""), "", False
        if not (fine and host and parts.scheme in ("http", "https")) or parts.query or parts.fragment or "@" in url:
            raise ParameterError(_URL_RULE)
        if parts.scheme == "http" and not allow_http and not _is_here(host):
            raise ParameterError(
                "this address is plain HTTP to another machine: whoever is on the way could answer in the collector's "
                "place. Use https, or say allow_http=True"
            )
        path, plan = parts.path.rstrip("/"), None
        before, found, after = path.rpartition("/v1/plans/")
        if found:
            path, plan = before, after
        return cls(urlunsplit((parts.scheme, parts.netloc, path, "", "")), plan)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


class Connection:
    """How requests are made."""

    def __init__(self, address: Address, token: str | None, timeout: float, context: ssl.SSLContext | None) -> None:
        self._collector, self._timeout = address.collector, timeout
        self._headers = {"User-Agent": f"dither/{__version__}"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        handlers: list[Any] = [_NoRedirect]
        if address.collector.startswith("https:"):  # reading the certificates of all authorities takes a while
            handlers.append(urllib.request.HTTPSHandler(context=context or ssl.create_default_context()))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str) -> HttpAnswer:
        """Ask for something."""
        return self._answer(urllib.request.Request(self._collector + path, headers=self._headers))  # noqa: S310

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Send something."""
        return self._answer(
            urllib.request.Request(  # noqa: S310  # `Address.of` lets http and https pass
                self._collector + path, data=body, headers={**self._headers, **headers}, method="POST"
            )
        )

    def _answer(self, request: urllib.request.Request) -> HttpAnswer:
        try:
            try:
                answer: Any = self._opener.open(request, timeout=self._timeout)
            except urllib.error.HTTPError as error:  # which is an answer, too
                answer = error
            with answer:
                return HttpAnswer(answer.status, self._read(answer), _seconds(answer.headers.get("Retry-After")))
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None)
            kind = type(reason if isinstance(reason, Exception) else error).__name__
        raise UnreachableError(f"no answer from the collector ({kind})")

    def _read(self, answer: Any) -> bytes:
        parts, size, end = list[bytes](), 0, time.monotonic() + self._timeout
        while piece := answer.read(_PIECE):
            parts.append(piece)
            size += len(piece)
            if size > _MOST_ANSWER or time.monotonic() > end:
                raise OSError("the answer does not end")
        return b"".join(parts)


def _seconds(text: str | None) -> float:
    """What a server asks to wait; a date, or anything else, is not looked at."""
    return float(min(int(text), 3600)) if text and text.isascii() and text.isdigit() else 0.0
