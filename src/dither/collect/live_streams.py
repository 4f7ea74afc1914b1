"""Streams of events for the live page: when something has changed, so that it asks for what is new.

Server-sent events (the format `text/event-stream` of the HTML standard), read by `fetch`, since the browser's own
`EventSource` sends no token and would need it in the address. An event says that there is something new, and how much
has come; the page then asks for it, with its token, like any other request. So a stream carries no results, and a proxy
that holds one back delays a page and tells nobody anything.

**Bounded.** At most `MOST_STREAMS` are open; who asks for one more is told to come back, and the page asks every few
seconds instead. One task a campaign looks at the store once a second, however many streams wait for what it sees, and
ends with the last of them. A stream ends by itself: when its campaign is closed and counted, when it is deleted, after
`LONGEST` (a page then begins another), and when the server stops, which would otherwise wait for it.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

from dither.collect.collector import Running
from dither.collect.live_estimates import LiveEstimates
from dither.collect.problems import ProblemError
from dither.collect.store import ACCEPTED, Store
from dither.errors import DitherError

CONTENT_TYPE = "text/event-stream"
MOST_STREAMS = 64
LONGEST = 3600.0  # seconds

_LOOK = 1.0  # seconds between looks at the store
_STEP = 0.25  # seconds between looks at whether the server stops
_ALIVE = 15.0  # seconds between lines that keep proxies from closing what looks idle


class Progress(NamedTuple):
    """What a page knows has changed, if it differs from what it was told last."""

    reports: int
    rejected: int
    version: int  # of the estimates
    state: str
    waiting: int  # batches that are not counted yet

    @property
    def over(self) -> bool:
        """Whether nothing will change any more."""
        return self.state == "closed" and not self.waiting


class LiveStreams:
    """All streams of a service."""

    def __init__(self, store: Store) -> None:
        self._store, self._open = store, 0
        self._watched: dict[int, _Watched] = {}
        self._stopping = False

    @property
    def open(self) -> int:
        """How many there are."""
        return self._open

    def stop(self) -> None:
        """End all of them: the server waits for what is open."""
        self._stopping = True

    def events(self, running: Running, estimates: LiveEstimates) -> AsyncIterator[bytes]:
        """A new stream; refused, before it begins, if there are too many."""
        if self._open >= MOST_STREAMS:
            raise ProblemError("busy", "too many pages are open: ask again later")
        return self._stream(running, estimates)

    async def _stream(self, running: Running, estimates: LiveEstimates) -> AsyncIterator[bytes]:
        """Counted from its first step on: one whose client left before has none."""
        watched = self._watched.setdefault(running.number, _Watched(self._store, running, estimates))
        watched.streams += 1
        self._open += 1
        if watched.task is None:
            watched.task = asyncio.create_task(watched.look())
        told: Progress | None = None
        began = spoken = time.monotonic()
        try:
            yield b"retry: 2000\n\n"
            while not self._stopping and time.monotonic() - began < LONGEST:
                progress = watched.progress
                if watched.gone:
                    yield _event("end", {"state": "deleted"})
                    return
                if progress is not None and progress != told:
                    yield _event("progress", progress._asdict())
                    told, spoken = progress, time.monotonic()
                    if progress.over:
                        yield _event("end", {"state": progress.state})
                        return
                elif time.monotonic() - spoken > _ALIVE:
                    yield b": alive\n\n"
                    spoken = time.monotonic()
                await asyncio.sleep(_STEP)
        finally:
            self._open -= 1
            watched.streams -= 1
            if not watched.streams:
                self._watched.pop(watched.running.number, None)
                if watched.task is not None:
                    watched.task.cancel()


class _Watched:
    """A campaign that somebody looks at."""

    def __init__(self, store: Store, running: Running, estimates: LiveEstimates) -> None:
        self.running, self.streams, self.gone = running, 0, False
        self.progress: Progress | None = None
        self.task: asyncio.Task[None] | None = None
        self._store, self._estimates = store, estimates

    async def look(self) -> None:
        """Look at the store again and again, for all streams."""
        while True:
            try:
                self.progress = await asyncio.to_thread(self._seen)
            except DitherError:
                campaigns: list[Any] = []
                with suppress(DitherError):
                    campaigns = await asyncio.to_thread(self._store.campaigns)
                    self.gone = self.running.number not in {each.number for each in campaigns}
            await asyncio.sleep(_LOOK)

    def _seen(self) -> Progress:
        arrivals = self._store.arrivals(self.running.number)
        reports = sum(each.reports for each in arrivals if each.outcome == ACCEPTED)
        everything = sum(each.reports for each in arrivals)
        waiting = self._store.waiting_batches(self.running.number)
        state = "open" if self.running.campaign.is_open(time.time()) else "closed"
        last = state == "closed" and not waiting and not (self.progress is not None and self.progress.over)
        version = self._estimates.refresh(at_once=last)  # there is no later look that would find what came last
        return Progress(reports, everything - reports, version, state, waiting)


def _event(name: str, told: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(told)}\n\n".encode()
