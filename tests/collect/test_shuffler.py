"""A shuffler forwards what it acknowledged once, in whole batches, in no order, and lets nothing else across."""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import chi2

from collect.collectors import other_plan, serving, small_plan, waited_for
from collect.crashes import killed_shuffler
from collect.shufflers import (
    estimate_of,
    figures_of,
    handed_in,
    messages_of,
    shuffling,
    with_key,
)
from collect.test_sealing import crowd_plan
from dither.collect import Client, SqliteStore
from dither.collect.sealed_batches import guarantee_of_batches
from dither.collect.sealed_reports import CONTENT_TYPE, LEAST_BYTES, Head, SealedReportFormat
from dither.collect.sealing_keys import KeyFolder, new_key
from dither.collect.shuffler import Shuffler, ShufflerOptions
from dither.collect.shuffler_store import DATABASE, PlanFacts, ShufflerFigures, ShufflerStore
from dither.collect.store import StoreError
from dither.core.randomness import Stream
from dither.errors import CollectorError, ParameterError

FALSE_ALARM = 1e-6
PLAN = "ab" * 32
SIZE = LEAST_BYTES + 10


def document(**changes: Any) -> str:
    """What a collector says of a plan."""
    told = {
        "plan": PLAN,
        "state": "open",
        "size": SIZE,
        "batch": None,
        "rounds": 1 << 20,
        "crowds": 1,
        "keys": [{"id": "00" * 8}],
    }
    return json.dumps({**told, **changes})


def letter(number: int, round_: int = 0) -> tuple[Head, bytes]:
    """Bytes of the size of a message, which nobody opens."""
    head = Head(bytes(8), round_)
    return head, head.to_bytes() + sha256(f"{round_} {number}".encode()).digest().ljust(SIZE - 28, b"\0")


# What is on disk -----------------------------------------------------------------------------------------------------


def mixed_crowds(folder: Path, crowds: int, size: int) -> dict[int, list[int]]:
    """For each of many crowds the order in which its messages left, as the numbers with which they came."""
    with ShufflerStore(folder, size) as store:
        facts = store.note_plan(PLAN, document())
        messages = [letter(number, crowd) for number in range(size) for crowd in range(crowds)]
        assert store.take([(facts, messages)]) == [len(messages)]
        numbers = {message: (head.round, place // crowds) for place, (head, message) in enumerate(messages)}
        left = dict[int, list[int]]()
        for key, _ in store.outgoing():
            batch = store.batch(key)
            assert batch is not None
            assert batch.users == size
            found = [numbers[batch.body[at : at + SIZE]] for at in range(0, len(batch.body), SIZE)]
            (crowd,) = {crowd for crowd, _ in found}
            left[crowd] = [number for _, number in found]
    return left


def unevenness(orders: list[list[int]]) -> float:
    """How far the positions of numbers are from uniform: chi-squared with (n - 1)^2 degrees of freedom if they are."""
    size = len(orders[0])
    counts = np.zeros((size, size))
    for order in orders:
        counts[np.arange(size), order] += 1
    expected = len(orders) / size
    return float((size - 1) / size * ((counts - expected) ** 2 / expected).sum())


def by_digest(crowd: int, order: list[int]) -> list[int]:
    """The same order by the rank of the messages' hashes, which is how they lie on the disk."""
    ranks = sorted(range(len(order)), key=lambda number: sha256(letter(number, crowd)[1]).digest())
    return [ranks.index(number) for number in order]


def test_a_batch_is_a_permutation_and_positions_are_uniform(tmp_path: Path):
    # False alarm: FALSE_ALARM for each of two looks; 1500 crowds of 6.
    left = mixed_crowds(tmp_path, 1500, 6)
    assert len(left) == 1500
    assert all(sorted(order) == [0, 1, 2, 3, 4, 5] for order in left.values())
    limit = chi2.isf(FALSE_ALARM, 25)
    assert unevenness(list(left.values())) < limit
    assert unevenness([by_digest(crowd, order) for crowd, order in left.items()]) < limit


def test_a_shuffler_that_does_not_mix_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Stream, "order", lambda self, count, **_: np.arange(count))
    left = mixed_crowds(tmp_path, 200, 6)
    assert unevenness([by_digest(crowd, order) for crowd, order in left.items()]) > chi2.isf(FALSE_ALARM, 25)


def test_no_batch_is_smaller_and_what_is_left_waits(tmp_path: Path):
    with ShufflerStore(tmp_path, 10) as store:
        facts = store.note_plan(PLAN, document())
        assert store.take([(facts, [letter(number) for number in range(9)])]) == [9]
        assert store.outgoing() == []
        assert store.take([(facts, [letter(3), letter(9), letter(9)])]) == [1]
        (key, _), *others = store.outgoing()
        assert not others
        batch = store.batch(key)
        assert batch is not None
        assert batch.users == 10
        assert store.take([(facts, [letter(4)])]) == [0]  # long gone, and still known
        store.take([(facts, [letter(20)])])
        assert store.figures()[PLAN] == ShufflerFigures(11, 1, 10, 0, 0, {})
        store.forwarded(batch)
        store.forwarded(batch)
        assert store.figures()[PLAN] == ShufflerFigures(11, 1, 0, 10, 1, {})
        assert store.close_plan(PLAN) == 1
        assert store.figures()[PLAN] == ShufflerFigures(11, 0, 0, 10, 1, {"campaign closed": 1})


def test_crowds_rounds_and_keys_are_not_mixed(tmp_path: Path):
    with ShufflerStore(tmp_path, 3) as store:
        facts = store.note_plan(PLAN, document())
        heads = [Head(b"key one.", 0, 0), Head(b"key two.", 0, 0), Head(b"key one.", 1, 0), Head(b"key one.", 0, 1)]
        rest = [bytes([number]) * (SIZE - 28) for number in range(3)]
        messages = [(head, head.to_bytes() + each) for head in heads for each in rest]
        random.Random(7).shuffle(messages)
        store.take([(facts, messages)])
        batches = [store.batch(key) for key, _ in store.outgoing()]
        assert len(batches) == 4
        for batch in batches:
            assert batch is not None
            assert len({batch.body[at : at + 28] for at in range(0, len(batch.body), SIZE)}) == 1


def test_a_plan_that_counts_on_more_waits_for_more(tmp_path: Path):
    with ShufflerStore(tmp_path, 3) as store:
        facts = store.note_plan(PLAN, document(batch=5))
        store.take([(facts, [letter(number) for number in range(4)])])
        assert not store.outgoing()
        store.take([(facts, [letter(4)])])
        assert len(store.outgoing()) == 1


def test_a_message_of_many_users_is_a_batch_of_its_own(tmp_path: Path):
    with ShufflerStore(tmp_path, 3) as store:
        facts = store.note_plan(PLAN, document())
        head = Head(bytes(8), users=7, many=True)
        store.take([(facts, [letter(0)]), (facts, [(head, head.to_bytes() + bytes(500))])])
        (key, _), *_ = store.outgoing()
        batch = store.batch(key)
        assert batch is not None
        assert (batch.users, len(batch.body)) == (7, 528)
        assert store.figures()[PLAN][:3] == (8, 1, 7)


def test_neither_order_nor_time_is_stored(tmp_path: Path):
    with ShufflerStore(tmp_path, 100) as store:
        facts = store.note_plan(PLAN, document())
        for number in range(20):
            store.take([(facts, [letter(number)])])
    with sqlite3.connect(tmp_path / DATABASE) as database:
        tables = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
        assert all("WITHOUT ROWID" in text for _, text in tables)  # a row number would be the order of arrival
        stored = [bytes(row[0]) for row in database.execute("SELECT digest FROM waiting")]
        columns = {row[1] for name, _ in tables for row in database.execute(f"PRAGMA table_info({name})")}
    database.close()
    assert stored == sorted(stored)
    assert columns == {
        *("plan", "document", "forwarded", "batches", "taken", "dropped"),
        *("digest", "crowd", "message", "key", "users", "body"),
    }


def test_keys_stay_known_and_facts_are_read(tmp_path: Path):
    with ShufflerStore(tmp_path, 2) as store:
        store.note_plan(PLAN, document())
        facts = store.note_plan(PLAN, document(keys=[{"id": "11" * 8}], state="closed"))
        assert facts.keys == {bytes(8), b"\x11" * 8}
        assert store.plans() == {PLAN: facts}
        assert facts.state == "closed"
    for bad in ("[]", "{}", "x", document(size="large")):
        with pytest.raises((ValueError, KeyError, TypeError)):
            PlanFacts.of(bad)


def test_a_store_is_held_alone_and_is_a_shufflers(tmp_path: Path):
    with ShufflerStore(tmp_path / "one"), pytest.raises(StoreError, match="another shuffler"):
        ShufflerStore(tmp_path / "one")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / DATABASE).write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match="cannot be used"):
        ShufflerStore(tmp_path / "two")
    assert (tmp_path / "one" / DATABASE).stat().st_mode & 0o777 == 0o600
    with pytest.raises(ParameterError, match="plain HTTP"):
        ShufflerOptions("http://collect.example.org")
    with pytest.raises(ParameterError, match="at least 2"):
        ShufflerOptions("https://collect.example.org", batch=1)


# What the collector answers ------------------------------------------------------------------------------------------


class AnsweringLink:
    """A collector that answers as it is told."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.seen = list(statuses), list[tuple[str, bytes]]()

    def plan(self, plan: str) -> str | None:
        return document()

    def forward(self, batch: Any) -> int:
        self.seen.append((batch.key, batch.body))
        return self.statuses.pop(0)


def test_a_batch_is_sent_with_the_same_bytes_and_key_until_it_is_settled(tmp_path: Path):
    link: Any = AnsweringLink(503, 404, 401, 0, 200, 422)

    async def forwarded() -> list[bool]:
        shuffler = Shuffler(store, link, ShufflerOptions("http://127.0.0.1", 2))
        return [await shuffler.forward_all() for _ in range(5)]

    with ShufflerStore(tmp_path, 2) as store:
        facts = store.note_plan(PLAN, document())
        store.take([(facts, [letter(0), letter(1)])])
        assert asyncio.run(forwarded()) == [False, False, False, False, True]
        assert len(set(link.seen)) == 1
        assert store.figures()[PLAN] == ShufflerFigures(2, 0, 0, 2, 1, {})
        store.take([(facts, [letter(2), letter(3), letter(4)])])
        shuffler = Shuffler(store, link, ShufflerOptions("http://127.0.0.1", 2))
        assert asyncio.run(shuffler.forward_all())
        assert store.figures()[PLAN] == ShufflerFigures(5, 0, 0, 2, 1, {"refused by the collector, 422": 3})


def asked(shuffler: Shuffler, headers: dict[bytes, bytes], *pieces: bytes) -> tuple[int, dict[str, Any]]:
    """The answer to a request that arrives in pieces."""
    parts = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    arriving = iter([*parts, {"type": "http.request", "body": b"", "more_body": False}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(arriving)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": f"/v1/plans/{PLAN}/sealed", "headers": [*headers.items()]}
    asyncio.run(shuffler(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_what_there_is_no_room_for_is_turned_away_before_it_is_read(tmp_path: Path):
    kind, link = {b"content-type": CONTENT_TYPE.encode()}, AnsweringLink()
    options = ShufflerOptions("http://127.0.0.1", 2, peer_requests_per_second=1000.0)
    with ShufflerStore(tmp_path, 2) as store:
        shuffler = Shuffler(store, cast(Any, link), options)
        shuffler._queued = (64 << 20) - 1000
        for headers, pieces in (({b"content-length": b"2000"}, []), ({}, [bytes(600)] * 2)):
            status, problem = asked(shuffler, {**kind, **headers}, *pieces)
            assert (status, problem["title"]) == (503, "The service is busy")
        assert asked(shuffler, {**kind, b"content-length": b"9" * 30})[0] == 413
        assert asked(shuffler, {**kind, b"content-length": b"7"}, b"rubbish")[0] == 400
        shuffler._queued = 0
        status, problem = asked(shuffler, kind, *[bytes(1 << 20)] * 17)
        assert (status, problem["title"]) == (413, "The request is too large")
        assert shuffler._queued == shuffler._bodies.arriving == 0
        many = Shuffler(store, cast(Any, link), ShufflerOptions("http://127.0.0.1", 2, requests_per_second=1.0))
        assert [asked(many, kind)[0] for _ in range(2)] == [400, 429]


def test_a_plan_whose_batch_does_not_fit_is_refused(tmp_path: Path):
    link = AnsweringLink()
    link.plan = lambda plan: document(size=1 << 20, batch=10_000)
    with ShufflerStore(tmp_path, 2) as store:
        shuffler = Shuffler(store, cast(Any, link), ShufflerOptions("http://127.0.0.1", 2))
        status, problem = asked(shuffler, {b"content-type": CONTENT_TYPE.encode(), b"content-length": b"7"}, b"DTHS...")
        assert (status, "a smaller --batch" in problem["detail"]) == (422, True)


def test_who_arrives_while_the_first_is_asking_is_not_told_that_the_plan_is_unknown(tmp_path: Path, monkeypatch):
    """The answer is there, and is being written down."""

    async def all_at_once() -> list[str]:
        shuffler, writing = Shuffler(store, cast(Any, AnsweringLink()), ShufflerOptions("http://127.0.0.1", 2)), Event()
        note = store.note_plan

        def noted(plan: str, told: str) -> Any:
            writing.wait(30)
            return note(plan, told)

        monkeypatch.setattr(store, "note_plan", noted)
        first = asyncio.create_task(shuffler._facts(PLAN))
        while not first.done() and not shuffler._asking.locked() and len(others) < 6:
            await asyncio.sleep(0.01)
            others.append(asyncio.create_task(shuffler._facts(PLAN)))
        await asyncio.sleep(0.1)
        writing.set()
        return [facts.plan for facts in await asyncio.gather(first, *others)]

    others: list[Any] = []
    with ShufflerStore(tmp_path, 2) as store:
        found = asyncio.run(all_at_once())
    assert len(found) > 2
    assert set(found) == {PLAN}


# Real processes ------------------------------------------------------------------------------------------------------


def test_from_devices_through_a_shuffler_to_the_estimate(tmp_path: Path):
    plan, store, folder = small_plan(), tmp_path / "store", tmp_path / "shuffler"
    key = with_key(store)
    with (
        serving(store, plan, other_plan()) as collector,
        shuffling(folder, collector, 200, "--refresh", "0.3") as shuffler,
    ):
        messages = messages_of(plan, key, 250)
        for at in range(0, 190, 10):
            body = b"".join(messages[at : at + 10])
            headers = {"x_forwarded_for": "192.0.2.7", "idempotency_key": "mine", "authorization": "Bearer secret"}
            status, told = handed_in(shuffler, plan, body, **headers)
            assert (status, told) == (200, {"accepted": 10, "rejected": {}, "duplicate": False})
        assert handed_in(shuffler, plan, messages[0])[1]["duplicate"] is True
        assert figures_of(folder, plan).waiting == 190
        # for another plan, but of the right size: the shuffler cannot know, the collector does
        stray = messages_of(other_plan(), key, 1)[0].ljust(len(messages[0]), b"\0")
        assert handed_in(shuffler, plan, stray)[0] == 200
        assert handed_in(shuffler, plan, b"".join(messages[190:]))[0] == 200
        waited_for(lambda: figures_of(folder, plan).forwarded == 251)
        waited_for(lambda: estimate_of(collector, store, plan)["reports"] == 250)
        waited_for(lambda: not estimate_of(collector, store, plan)["shuffled"]["pending"])
        told = estimate_of(collector, store, plan)["shuffled"]
        assert (told["batches"], told["users"], told["smallest_batch"]) == (1, 250, 250)
        assert told["guarantee"] == guarantee_of_batches(plan, 250).to_dict()
        metrics = collector.request("GET", "/metrics")[2].decode()
        assert f'reports_rejected_total{{plan="{plan.fingerprint}",reason="not opened"}} 1' in metrics
        # one seal over many, of a server that reports for its own users
        form = SealedReportFormat(plan)
        columns = {name: [None] * 300 for name in ("age", "job", "income")}
        (many,) = form.seal_many(plan.randomize(columns), key.public)
        assert handed_in(shuffler, plan, many)[1]["accepted"] == 300
        few = form.seal_many(plan.randomize({name: column[:20] for name, column in columns.items()}), key.public)
        status, problem = handed_in(shuffler, plan, few[0])
        assert (status, problem["type"]) == (422, "tag:dither,2026:problem:few-users")
        waited_for(lambda: estimate_of(collector, store, plan)["reports"] == 550)
        assert estimate_of(collector, store, plan)["shuffled"]["batches"] == 2
        # nothing that was sent beside the messages is anywhere
        waiting = messages_of(plan, key, 7)
        assert handed_in(shuffler, plan, b"".join(waiting))[0] == 200
        subprocess.run(
            [sys.executable, "-m", "dither", "campaign", "close", plan.fingerprint, "--store", str(store)], check=True
        )
        waited_for(lambda: figures_of(folder, plan).dropped == {"campaign closed": 7})
        assert handed_in(shuffler, plan, waiting[0])[0] == 410
        assert figures_of(folder, plan) == ShufflerFigures(558, 0, 0, 551, 2, {"campaign closed": 7})
        code, errors = shuffler.stop()
        assert code in (0, -15, 130, 143)
        assert "192.0.2.7" not in errors
    for path in folder.iterdir():
        data = path.read_bytes()
        assert not any(word in data for word in (b"192.0.2.7", b"mine", b"Bearer", b"secret"))


def test_what_is_wrong_gets_a_problem_and_changes_nothing(tmp_path: Path):
    plan, store, folder = other_plan(), tmp_path / "store", tmp_path / "shuffler"
    key = with_key(store)
    (message,) = messages_of(plan, key, 1)
    (stranger,) = messages_of(plan, new_key(), 1)
    closed = PLAN
    with serving(store, plan) as collector, shuffling(folder, collector, 5) as shuffler:
        path = f"/v1/plans/{plan.fingerprint}/sealed"
        kind = {"content-type": CONTENT_TYPE}
        for method, place, body, headers, status, problem in (
            ("POST", path, message, {}, 415, "content-type"),
            ("POST", path, b"", kind, 400, "malformed"),
            ("POST", path, b"rubbish", kind, 400, "malformed"),
            ("POST", path, message[:-1], kind, 422, "truncated"),
            ("POST", path, message[:4] + b"\2" + message[5:], kind, 422, "unknown-version"),
            ("POST", path, stranger, kind, 422, "unknown-key"),
            ("POST", path, message[:16] + b"\1" + message[17:], kind, 422, "another-round"),
            ("POST", path, message[:24] + b"\0" + message[25:], kind, 400, "malformed"),
            ("POST", f"/v1/plans/{closed}/sealed", message, kind, 404, "unknown-plan"),
            ("POST", "/v1/plans/xyz/sealed", message, kind, 404, "unknown-plan"),
            ("GET", path, None, {}, 405, "method"),
            ("OPTIONS", path, None, {"origin": "https://example.org"}, 405, "method"),
            ("GET", "/metrics", None, {}, 404, "not-found"),
        ):
            found, told = shuffler.json(method, place, body, headers)
            assert (found, told["type"].rpartition(":")[2]) == (status, problem), (method, place, problem)
        assert figures_of(folder, plan) == ShufflerFigures(0, 0, 0, 0, 0, {})
        # the collector's side
        place = f"/v1/plans/{plan.fingerprint}/sealed-batches"
        for body, headers, status, problem in (
            (message, {"idempotency-key": "a"}, 415, "content-type"),
            (message, kind, 400, "no-key"),
            (b"rubbish", {**kind, "idempotency-key": "a"}, 400, "malformed"),
            (message + message[:9], {**kind, "idempotency-key": "a"}, 422, "truncated"),
        ):
            found, told = collector.json("POST", place, body, headers)
            assert (found, told["type"].rpartition(":")[2]) == (status, problem)
        line = {**kind, "idempotency-key": "b"}
        assert collector.json("POST", place, stranger, line)[1] == {
            "accepted": 0,
            "rejected": {"unknown key": 1},
            "duplicate": False,
        }
        assert collector.json("POST", place, stranger, line)[1]["duplicate"] is True
        assert collector.json("POST", place, message, line)[0] == 409


def test_a_retry_is_known_after_its_key_has_expired(tmp_path: Path):
    plan, store = other_plan(), tmp_path / "store"
    key = with_key(store)
    body = b"".join(messages_of(plan, key, 3))
    with serving(store, plan) as collector:
        place = f"/v1/plans/{plan.fingerprint}/sealed-batches"
        headers = {"content-type": CONTENT_TYPE, "idempotency-key": "a"}
        first = collector.json("POST", place, body, headers)[1]
        assert (first["accepted"], first["duplicate"]) == (3, False)
        KeyFolder(store / "keys").expire(key.name, hours=0)
        time.sleep(1.1)  # the collector looks at its keys once a second
        again = collector.json("POST", place, body, headers)[1]
        assert (again["accepted"], again["rejected"], again["duplicate"]) == (3, {}, True)
        assert collector.json("GET", f"/v1/plans/{plan.fingerprint}/keys")[1]["keys"] == []
    with SqliteStore(store) as opened:
        assert opened.crowds(1) == (1, 3, 3)


def test_devices_report_through_a_shuffler(tmp_path: Path):
    plan, store, folder = other_plan(), tmp_path / "store", tmp_path / "shuffler"
    with_key(store)
    with serving(store, plan) as collector, shuffling(folder, collector, 3) as shuffler:
        addresses = f"http://127.0.0.1:{collector.port}", f"http://127.0.0.1:{shuffler.port}"
        for number in range(3):
            client = Client(addresses[0], tmp_path / f"{number}", plan=plan.fingerprint, shuffler=addresses[1])
            assert client.send({"job": "nurse"}).accepted == 1
            assert client.send({"job": "nurse"}).batches == 0  # once
        waited_for(lambda: figures_of(folder, plan).forwarded == 3)
        # sealed again it would be another message, and counted twice: what was lost is not sent
        (tmp_path / "0" / "outbox.db").unlink()
        lost = Client(addresses[0], tmp_path / "0", plan=plan.fingerprint, shuffler=addresses[1])
        with pytest.raises(CollectorError, match="counted twice; nothing is sent"):
            lost.send({"job": "nurse"})
        many = Client(addresses[0], tmp_path / "many", plan=plan, shuffler=addresses[1])
        assert many.send_reports(plan.randomize({"job": ["nurse"] * 9})).accepted == 9
        waited_for(lambda: estimate_of(collector, store, plan)["reports"] == 12)
        # a device that is offline seals to the key that it knows, and one that never knew one does not report
        late = Client(addresses[0], tmp_path / "late", plan=plan, shuffler=addresses[1], patience=0.0)
        late._sealing_key()
        late._outbox.begin(plan.fingerprint, 0)
        with late._ledger() as ledger:
            ledger.report(plan, {"job": "nurse"})  # and then it crashed: what was begun is finished
        collector.kill()
        assert late.send({"job": "nurse"}).accepted == 1
        assert figures_of(folder, plan).waiting == 1


def test_a_plan_that_counts_on_a_shuffler_takes_nothing_directly(tmp_path: Path):
    plan, store = crowd_plan(), tmp_path / "store"
    key = with_key(store)
    with serving(store, plan) as collector:
        status, problem = collector.send(plan, plan.pack(plan.report({})), "a")
        assert (status, problem["type"]) == (422, "tag:dither,2026:problem:shuffler-needed")
        client = Client(f"http://127.0.0.1:{collector.port}", tmp_path / "device", plan=plan)
        with pytest.raises(ParameterError, match="counts on a shuffler"):
            client.send({})
        # only shufflers with a token, once there is one
        place = f"/v1/plans/{plan.fingerprint}/sealed-batches"
        headers = {"content-type": CONTENT_TYPE, "idempotency-key": "a"}
        made = [sys.executable, "-m", "dither", "campaign", "token", plan.fingerprint, "--store", str(store)]
        token = subprocess.run([*made, "--role", "shuffler"], check=True, capture_output=True, text=True).stdout.strip()
        body = b"".join(messages_of(plan, key, 2))
        waited_for(lambda: collector.request("POST", place, b"rubbish", headers)[0] == 401)
        assert collector.json("POST", place, body, headers)[0] == 401
        (tmp_path / "token").write_text(token)
        line = {**headers, "authorization": f"Bearer {token}"}
        assert collector.json("POST", place, body, line)[1]["accepted"] == 2
        with shuffling(tmp_path / "shuffler", collector, 2, "--token-file", str(tmp_path / "token")) as shuffler:
            assert handed_in(shuffler, plan, b"".join(messages_of(plan, key, 9)))[0] == 200
            assert figures_of(tmp_path / "shuffler", plan).waiting == 9  # the plan counts on 10,000


def test_what_is_acknowledged_is_counted_once_though_processes_are_killed(tmp_path: Path):
    print(killed_shuffler(tmp_path, 3, 1))


@pytest.mark.wide
@pytest.mark.parametrize("collector_too", [True, False])
def test_many_kills(tmp_path: Path, collector_too: bool):
    print(killed_shuffler(tmp_path, 40, 2, collector_too=collector_too))
