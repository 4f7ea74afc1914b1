"""A collector that misbehaves as it is told: answers by a script, drops answers after counting, refuses, redirects.

What it counts is by idempotency key, as the real one does; every request is kept, with its headers and bytes.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dither import Plan
from dither.wire import BatchFormat, read_frame

DROP = "drop the answer after counting"
CUT = "close without reading"
HTML = "a page of a hotel's network"


@dataclass
class StubCollector:
    """What it serves, what it is to do next, and what it has seen."""

    plans: dict[str, bytes] = field(default_factory=dict)
    script: list[Any] = field(default_factory=list)  # for each next post: a status, (status, headers), or a word above
    token: str = ""
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    counted: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    answers: list[int] = field(default_factory=list)

    @property
    def posts(self) -> list[tuple[str, bytes]]:
        """Key and body of each post that arrived."""
        return [(headers["idempotency-key"], body) for method, _, headers, body in self.requests if method == "POST"]

    def reports(self) -> int:
        """How many reports it counts, each batch once."""
        return sum(section.reports for body in self.counted.values() for section in read_frame(body).sections)


def problem(status: int) -> bytes:
    return json.dumps(
        {"type": "about:blank", "title": f"Problem {status}", "status": status, "detail": "do so"}
    ).encode()


@contextmanager
def running(*plans: Plan, port: int = 0) -> Iterator[StubCollector]:
    """A stub on a free port of this machine."""
    stub = StubCollector({plan.fingerprint: plan.to_json().encode() for plan in plans})

    formats = {plan.fingerprint: BatchFormat(plan) for plan in plans}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            stub.answers.append(status)
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            stub.requests.append(("GET", self.path, _lower(self.headers), b""))
            if self.path == "/v1/plans":
                self.answer(200, json.dumps([{"plan": each, "state": "open"} for each in stub.plans]).encode())
            elif (found := stub.plans.get(self.path.removeprefix("/v1/plans/"))) is not None:
                self.answer(200, found)
            else:
                self.answer(404, problem(404))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = _lower(self.headers)
            stub.requests.append(("POST", self.path, headers, body))
            todo = stub.script.pop(0) if stub.script else 200
            if stub.token and headers.get("authorization") != f"Bearer {stub.token}":
                todo = 401
            if todo == CUT:
                self.connection.close()
                return
            if todo == HTML:
                self.answer(200, b"<html>Welcome</html>")
                return
            if isinstance(todo, tuple):
                self.answer(todo[0], problem(todo[0]), todo[1])
                return
            if todo not in (200, DROP):
                self.answer(todo, problem(todo))
                return
            key = headers["idempotency-key"]
            known = stub.counted.setdefault(key, body)
            if known != body:
                self.answer(409, problem(409))
                return
            if todo == DROP:
                self.connection.close()
                return
            duplicate = [each for each, _ in stub.posts].count(key) > 1
            batch = formats[self.path.split("/")[3]].check(body)
            told = {"accepted": batch.accepted, "rejected": batch.rejected, "duplicate": duplicate}
            self.answer(200, json.dumps(told).encode())

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
