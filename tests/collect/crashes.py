"""A load that does not give up, and a collector that is killed under it: all that was acknowledged is counted, once.

Clients send batches of reports from several threads. Whatever happens to a request (the connection breaks, nobody
answers, 503), they send the same bytes under the same key again, as the protocol asks of them. Some give up on purpose,
when they were not answered: those batches may be counted or not, and never twice.
"""

import http.client
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from collect.collectors import TOO_LONG, Served, started
from dither.planning import Plan
from dither.planning.plan_tally import PlanTally
from dither.wire import CONTENT_TYPE, BatchFormat


@dataclass
class Sent:
    """What clients know at the end."""

    acknowledged: dict[str, bytes] = field(default_factory=dict)  # by the key
    unanswered: dict[str, bytes] = field(default_factory=dict)
    repeated: int = 0  # requests that were answered as duplicates
    retries: int = 0


class Clients:
    """Threads that send batches until they are told to stop."""

    def __init__(
        self, plan: Plan, sources: list[bytes], ports: Callable[[], list[int]], threads: int, seed: int
    ) -> None:
        self.plan, self.sources, self.ports, self.seed = plan, sources, ports, seed
        self.sent, self.stopping = Sent(), threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(threads)]

    def __enter__(self) -> "Clients":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(TOO_LONG)

    def _run(self, number: int) -> None:
        draw = random.Random(self.seed * 1000 + number)
        for count in range(1_000_000):
            if self.stopping.is_set():
                return
            key, body = f"{number}-{count}", draw.choice(self.sources)
            patient = draw.random() < 0.9
            if self._send(draw, key, body, patient):
                self.sent.acknowledged[key] = body
            else:
                self.sent.unanswered[key] = body

    def _send(self, draw: random.Random, key: str, body: bytes, patient: bool) -> bool:
        headers = {"content-type": CONTENT_TYPE, "idempotency-key": key}
        end = time.monotonic() + TOO_LONG
        while time.monotonic() < end:
            link = http.client.HTTPConnection("127.0.0.1", draw.choice(self.ports()), timeout=20)
            try:
                link.request("POST", f"/v1/plans/{self.plan.fingerprint}/reports", body, headers)
                answer = link.getresponse()
                text = answer.read()
                if answer.status == 200:
                    self.sent.repeated += b'"duplicate":true' in text
                    return True
                assert answer.status in (429, 503), text
            except (OSError, http.client.HTTPException):
                pass
            finally:
                link.close()
            if not patient:
                return False
            self.sent.retries += 1
            time.sleep(0.02)
        raise AssertionError("a batch could not be sent")


def killed(
    store: Path, plan: Plan, sources: list[bytes], kills: int, *, seed: int, threads: int = 6, longest: float = 0.5
) -> tuple[Sent, PlanTally, int]:
    """Kill a collector so many times under load: what was sent, the tally at the end, and how many batches it has."""
    from dither.collect import SqliteStore

    draw = random.Random(seed)
    served: Served = started(store, plan)
    port = served.port
    with Clients(plan, sources, lambda: [port], threads, seed) as clients:
        for _ in range(kills):
            time.sleep(draw.random() * longest)
            served.kill()
            for stream in (served.process.stdout, served.process.stderr):
                stream.close()  # type: ignore[union-attr]
            served = started(store, options=("--port", str(port)))
        time.sleep(0.2)
    code, errors = served.stop()
    served.process.stdout.close()  # type: ignore[union-attr]
    assert code == 0, errors
    with SqliteStore(store) as found:
        counted = found.counted(found.campaigns()[0].number)
    assert counted.waiting == 0
    return clients.sent, counted.tallies[0], counted.batches


def compare(plan: Plan, sent: Sent, tally: PlanTally, batches: int) -> str:
    """Refuse a tally that lacks something acknowledged, or has something twice; what was counted, in words."""
    form = BatchFormat(plan)
    sure = form.tally(map(form.check, sent.acknowledged.values()))
    perhaps = form.tally(map(form.check, sent.unanswered.values()))
    assert sure.reports <= tally.reports <= sure.reports + perhaps.reports
    assert len(sent.acknowledged) <= batches <= len(sent.acknowledged) + len(sent.unanswered)
    if batches == len(sent.acknowledged):
        assert tally.to_bytes() == sure.to_bytes()
    return (
        f"{len(sent.acknowledged):,} batches acknowledged with {sure.reports:,} reports; {batches:,} batches and "
        f"{tally.reports:,} reports counted; {len(sent.unanswered)} batches without an answer, of which "
        f"{batches - len(sent.acknowledged)} had been stored; {sent.retries:,} retries, {sent.repeated:,} repeats"
    )
