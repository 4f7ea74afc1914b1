"""A device that reports over a network: counted once whatever fails, and only for a plan that it checked."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collect.stub_collector import CUT, DROP, HTML, running
from dither import Categorical, Ordinal, Plan, Public, Schema, plan
from dither.collect import Client, Delivery
from dither.collect import client as client_module
from dither.errors import BudgetError, CollectorError, DitherError, ParameterError, ReportError, WriteError
from dither.privacy import Ledger
from dither.wire import CONTENT_TYPE, BatchFormat, read_frame
from test_import import HEAVY, imported

SECRET = "a raw value that nobody may see"  # noqa: S105
JOB = plan(Schema({"job": Categorical(["nurse", "driver", "other"], other="other")}), 1.0, users=1000)
AGE = plan(Schema({"age": Ordinal(0, 9)}), 2.0, users=1000)
ROUNDS = plan(Schema({"mood": Categorical(["good", "bad"])}), 2.0, users=1000, rounds=["W47", "W48", "W49"])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Waits are counted, not waited for."""
    monkeypatch.setattr(client_module, "_FIRST_WAIT", 1e-3)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "device"


def address(stub: Any, of: Plan = JOB) -> str:
    return f"{stub.url}/v1/plans/{of.fingerprint}"


# What is sent --------------------------------------------------------------------------------------------------------


def test_one_report(store):
    with running(JOB) as stub:
        found = Client(address(stub), store).send({"job": "nurse"})
        assert found == Delivery(batches=1, accepted=1)
        assert found.complete
    (get, path, headers, _), (post, reports_path, sent, body) = stub.requests
    assert (get, path) == ("GET", f"/v1/plans/{JOB.fingerprint}")
    assert (post, reports_path) == ("POST", f"/v1/plans/{JOB.fingerprint}/reports")
    assert sent["content-type"] == CONTENT_TYPE
    assert len(bytes.fromhex(sent["idempotency-key"])) == 16
    assert set(headers) == {"accept-encoding", "host", "user-agent", "connection"}
    assert set(sent) == {*headers, "content-type", "content-length", "idempotency-key"}
    assert sent["user-agent"].startswith("dither/")
    with Ledger(store / "ledger.db") as ledger:
        kept = ledger.report(JOB, {"job": "driver"})  # what it has sent is repeated, whatever is asked
        assert body == JOB.pack(kept)
        assert (ledger.budget.epsilon, ledger.spent.epsilon) == (JOB.epsilon, JOB.guarantee.epsilon)


def test_asked_again_it_is_counted_once(store):
    with running(JOB) as stub:
        for record in ({"job": "nurse"}, {"job": "driver"}, None):
            Client(address(stub), store).send(record)
        client = Client(address(stub), store)
        assert client.send({"job": "nurse"}) == client.flush() == Delivery()
        assert len(stub.posts) == stub.reports() == 1
    assert Client(address(stub), store).plan == JOB  # without a network


@pytest.mark.parametrize("made", [JOB, ROUNDS], ids=["once", "rounds"])
def test_a_lost_outbox_is_made_again_with_the_same_key_and_bytes(store, made):
    """What was sent from it is known again by the collector, as long as the ledger is there."""
    with running(made) as stub:
        periods = [None] if made is JOB else ["W47", "W48", "W49"]
        for period in periods:
            for _ in range(3):
                Client(address(stub, made), store).send({"job": "nurse", "mood": "good"}, period=period)
                (store / "outbox.db").unlink()
        assert len(stub.posts) == 3  # of the rounds a user draws one
        assert len(set(stub.posts)) == stub.reports() == 1


def test_names_of_rounds_are_of_one_ledger_plan_and_round(store, tmp_path):
    tmp_path.mkdir(exist_ok=True)
    with Ledger(tmp_path / "one.db", 4.0) as one, Ledger(tmp_path / "two.db", 4.0) as two:
        names = [
            ledger.name_of_round(made, number) for ledger in (one, two) for made in (JOB, ROUNDS) for number in (0, 1)
        ]
        assert len(set(names)) == 8
        assert [one.name_of_round(JOB, number) for number in (0, 1)] == names[:2]
        assert not one.has_answered(JOB)
        one.report(JOB, {"job": "nurse"})
        assert [ledger.has_answered(JOB) for ledger in (one, two)] == [True, False]


@pytest.mark.parametrize(
    "record", [{}, None, {"job": SECRET}, {"job": float("nan")}, [SECRET], SECRET, {"job": {1: 2}}]
)
def test_a_bad_record_is_reported_all_the_same(store, record):
    with running(JOB) as stub:
        assert Client(address(stub), store).send(record) == Delivery(batches=1, accepted=1)
    assert not any(SECRET.encode() in file.read_bytes() for file in store.iterdir())


@pytest.mark.wide
def test_reports_are_those_of_the_plan(tmp_path):
    """Of many devices: as the plan's own, with a false alarm of less than 1e-9 (Hoeffding)."""
    with running(JOB) as stub:
        for user in range(60):
            Client(address(stub), tmp_path / str(user)).send({"job": "nurse"})
        wire = BatchFormat(JOB)
        (counts,) = [part.counts for part in wire.tally([wire.check(body) for _, body in stub.posts]).parts.values()]
        assert len(set(stub.counted)) == counts.sum() == 60
        kept = float(JOB.parts[0].mechanism.channel().matrix()[0][0])
        assert abs(counts[0] / 60 - kept) < np.sqrt(np.log(2e9) / (2 * 60))


def test_public_values_that_name_no_group_are_refused(store):
    grouped = plan(Schema({"country": Public(["DE", "FR"]), "age": Ordinal(0, 9)}), 1.0, users=1000)
    with running(grouped) as stub:
        client = Client(address(stub, grouped), store)
        with pytest.raises(DitherError, match="country"):
            client.send({"age": 3})
        assert client.pending == 0
        assert client.send({"country": "FR"}).accepted == 1
    (section,) = read_frame(stub.posts[0][1]).sections
    assert grouped.parts[section.part].group == "country=FR"


def test_simulated_reports_are_refused(store):
    table = {"job": ["nurse"] * 30}
    with running(JOB) as stub:
        client = Client(address(stub), store)
        with pytest.raises(ReportError, match="simulated from a seed"):
            client.send_reports([JOB.randomize(table), JOB.randomize(table, seed=1)])
        assert (client.pending, stub.posts) == (0, [])  # none of them, also not those before


def test_reports_of_many_users(store):
    with running(JOB) as stub:
        client = Client(address(stub), store)
        reports = client.plan.randomize({"job": ["nurse", "other"] * 50})
        assert client.send_reports(reports, most=30) == Delivery(batches=4, accepted=100)
        assert client.queue_reports(iter([reports, reports])) == 2
        assert client.pending == 2
        assert client.flush() == Delivery(batches=2, accepted=200)
        assert stub.reports() == 300
        assert len({key for key, _ in stub.posts}) == 6
        with pytest.raises(ReportError, match="not reports of this plan"):
            client.send_reports(AGE.randomize({"age": [1]}))
    assert not any(part in file.read_bytes() for file in store.iterdir() for _, part in stub.posts)  # overwritten


def test_in_an_event_loop(store):
    async def sent() -> list[Delivery]:
        client = Client(address(stub), store)
        return [
            await client.asend({"job": "nurse"}),
            await client.asend_reports(JOB.randomize({"job": ["nurse"] * 5})),
            await client.aflush(),
        ]

    with running(JOB) as stub:
        assert asyncio.run(sent()) == [Delivery(batches=1, accepted=1), Delivery(batches=1, accepted=5), Delivery()]


def test_several_at_once(store):
    async def sent() -> list[Delivery]:
        client = Client(address(stub), store)
        return await asyncio.gather(*(client.asend({"job": "nurse"}) for _ in range(8)))

    with running(JOB) as stub:
        found = asyncio.run(sent())
        assert all(each.complete for each in found)
        assert len(set(stub.posts)) == len(stub.counted) == stub.reports() == 1


# Rounds --------------------------------------------------------------------------------------------------------------


def test_a_batch_for_each_round(store):
    kept = Plan.read(Path(__file__).parents[1] / "stored" / "plan-rounds-kept.json")
    first, second, third, _ = kept.schedule.periods
    with running(kept) as stub:
        client = Client(address(stub, kept), store)
        found = [client.send({}, period=period).batches for period in (first, first, third)]
        assert found == [1, 0, 1]
        assert [read_frame(body).round for _, body in stub.posts] == [0, 2]
        with pytest.raises(ParameterError, match="this period is over on this device"):
            client.send({}, period=second)
        with pytest.raises(ParameterError, match="say which period it is: its periods are"):
            client.send({})
        with pytest.raises(ParameterError, match="no such period"):
            client.send({}, period="another")
    with running(JOB) as stub, pytest.raises(ParameterError, match="this plan asks once"):
        Client(address(stub), store / "other").send({}, period="W47")


def test_a_device_reports_in_the_round_that_it_drew(tmp_path):
    with running(ROUNDS) as stub:
        for user in range(6):
            client = Client(address(stub, ROUNDS), tmp_path / str(user))
            found = [client.send({"mood": "good"}, period=week).accepted for week in ("W47", "W48", "W49")]
            assert sorted(found) == [0, 0, 1]
        assert stub.reports() == 6


# What can go wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [500, 502, 503, 429, 408, DROP, CUT, HTML, (503, {"Retry-After": "0"})])
def test_it_tries_again_with_the_same_bytes(store, trouble):
    with running(JOB) as stub:
        stub.script = [trouble] * 3
        found = Client(address(stub), store).send({"job": "nurse"})
        assert (found.accepted, found.pending, found.trouble) == (1, 0, "")
        assert len(stub.posts) == 4
        assert len(set(stub.posts)) == 1
        assert stub.reports() == 1
        assert found.duplicates == 1  # as the stub counts keys


@pytest.mark.parametrize("mutant", ["another key for each try", "another draw for each try"])
def test_a_device_that_changes_what_it_sends_would_be_noticed(store, mutant, monkeypatch):
    real = client_module.Outbox.next

    def changed_next(self: Any, after: int = -1) -> Any:
        batch = real(self, after)
        if batch is None:
            return None
        key, body = os.urandom(16).hex(), JOB.pack(JOB.report({"job": "nurse"}))
        return batch._replace(key=key) if "key" in mutant else batch._replace(body=body)

    monkeypatch.setattr(client_module.Outbox, "next", changed_next)
    with running(JOB) as stub:
        stub.script = [DROP] * 20
        Client(address(stub), store).send({"job": "nurse"})
        assert len(set(stub.posts)) > 1
        assert stub.reports() > 1 or any(status == 409 for status in stub.answers)


def test_what_cannot_be_delivered_waits_for_the_next_call(store):
    with running(JOB) as stub:
        stub.script = [503] * 2
        client = Client(address(stub), store, patience=0)
        assert client.send({"job": "nurse"}) == Delivery(pending=1, trouble="503, do so")
        assert client.pending == 1
        again = Client(address(stub), store, patience=0)
        assert again.flush() == Delivery(pending=1, trouble="503, do so")
        assert again.flush() == Delivery(batches=1, accepted=1, duplicates=1)
        assert len(set(stub.posts)) == 1


def test_it_waits_as_long_as_the_collector_asks(store, monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr(client_module.time, "sleep", waited.append)
    with running(JOB) as stub:
        stub.script = [(503, {"Retry-After": "2"}), (429, {"Retry-After": "99999999"}), (503, {"Retry-After": "soon"})]
        assert Client(address(stub), store, patience=1e5).send({}).complete
        assert waited[:2] == [2.0, 3600.0]
        assert 0 < waited[2] < 1
        stub.script = [(503, {"Retry-After": "60"})]
        found = Client(address(stub), store / "other", patience=30).send({})
        assert (found.pending, len(waited)) == (1, 3)


def test_waits_double_and_differ(monkeypatch):
    monkeypatch.setattr(client_module, "_FIRST_WAIT", 0.5)
    waits = [[client_module._backoff(failures) for _ in range(20)] for failures in (0, 1, 2, 3, 50)]
    for own, longest in zip(waits, (0.5, 1, 2, 4, 60), strict=True):
        assert len(set(own)) == 20
        assert longest / 2 <= min(own) < max(own) < longest


@pytest.mark.parametrize("status", [400, 409, 410, 413, 415, 422])
def test_what_is_never_taken_is_not_sent_again(store, status):
    with running(JOB) as stub:
        stub.script = [status]
        client = Client(address(stub), store)
        assert client.send({"job": "nurse"}) == Delivery(refused=1)
        assert client.flush() == Delivery()
        assert client.send({"job": "nurse"}) == Delivery()
        assert client.refusals == {f"{status}, do so": 1}
        assert len(stub.posts) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 302])
def test_what_can_be_put_right_is_kept(store, status):
    with running(JOB) as stub:
        stub.script = [(status, {"Location": "https://elsewhere.example.org/"})] * 2
        client = Client(address(stub), store)
        assert client.send({"job": "nurse"}) == Delivery(pending=1, trouble=f"{status}, do so")
        client.queue_reports(JOB.randomize({"job": ["nurse"] * 3}))
        found = client.flush()
        assert (found.batches, found.accepted, found.pending) == (1, 3, 1)  # it does not stand in the way
        assert client.flush().complete
        assert len({key for key, _ in stub.posts}) == 2


def test_a_token(store):
    with running(JOB) as stub:
        stub.token = "abc-123"  # noqa: S105
        assert Client(address(stub), store).send({}).trouble == "401, do so"
        assert Client(address(stub), store, token="abc-123").flush().accepted == 1  # noqa: S106
    for wrong in ("", "a b", "ä", "a\nb", 5):
        with pytest.raises(ParameterError, match="token"):
            Client(address(stub), store, token=wrong)  # type: ignore[arg-type]


def test_without_a_network(store):
    with running(JOB) as stub:
        Client(address(stub), store).plan  # noqa: B018
    client = Client(address(stub), store, patience=0.05)
    found = client.send({"job": "nurse"})
    assert found == Delivery(pending=1, trouble="no answer from the collector (ConnectionRefusedError)")
    with running(JOB, port=int(stub.url.rpartition(":")[2])) as back:
        assert Client(address(back), store).flush() == Delivery(batches=1, accepted=1)


def test_a_collector_that_never_ends_its_answer(store):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/plans/{JOB.fingerprint}"
        with pytest.raises(CollectorError, match="cannot be fetched: no answer"):
            Client(url, store, timeout=0.05).send({})


KILLED = """
import os, sys, signal
from pathlib import Path
from dither.collect import Client, outbox, client
moment, url, store = sys.argv[1:]
def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if moment == "before the outbox":
    outbox.Outbox.add = killed
elif moment == "before sending":
    client.Client._posted = killed
elif moment == "before the answer is noted":
    outbox.Outbox.delivered = killed
Client(url, store).send({"job": "nurse"})
"""


@pytest.mark.parametrize("moment", ["before the outbox", "before sending", "before the answer is noted"])
def test_a_killed_process_is_counted_once(store, moment):
    with running(JOB) as stub:
        done = subprocess.run([sys.executable, "-c", KILLED, moment, address(stub), str(store)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert stub.reports() == (moment == "before the answer is noted")
        found = Client(address(stub), store).send({"job": "nurse"})
        assert (found.accepted, found.pending) == (1, 0)
        assert len(set(stub.posts)) == len(stub.counted) == stub.reports() == 1


@pytest.mark.wide
def test_killed_at_any_moment(store):
    """Kills at random times, until one process comes through: one report, the same bytes each time."""
    with running(JOB) as stub:
        script = [sys.executable, "-c", KILLED, "never", address(stub), str(store)]
        for number in range(12):
            process = subprocess.Popen(script)
            time.sleep(0.1 + 0.1 * number)
            process.kill()
            process.wait()
        Client(address(stub), store).send({"job": "nurse"})
        assert len(set(stub.posts)) == len(stub.counted) == stub.reports() == 1


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError):
        Client(f"http://127.0.0.1:1/v1/plans/{JOB.fingerprint}", tmp_path / "file")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "outbox.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(WriteError, match="cannot be read and written"):
        Client(f"http://127.0.0.1:1/v1/plans/{JOB.fingerprint}", tmp_path / "broken")


FULL = """
import resource, signal, sys
from dither.collect import Client
from dither.errors import WriteError
client = Client(sys.argv[1], sys.argv[2])
client.send({"job": "nurse"})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    client.send_reports(client.plan.randomize({"job": ["nurse"] * 150_000}), most=1000)
except WriteError as error:
    assert "no space" in str(error), error
    sys.exit(7)
"""


def test_a_full_disk(store):
    """All of the reports are on the disk, or none, and then none is sent."""
    with running(JOB) as stub:
        done = subprocess.run([sys.executable, "-c", FULL, address(stub), str(store)], check=False)
        assert done.returncode == 7
        assert Client(address(stub), store).flush() == Delivery()
        assert stub.reports() == 1


def test_an_outbox_of_something_else(store):
    store.mkdir()
    with Ledger(store / "outbox.db", epsilon=1.0):
        pass
    with pytest.raises(ParameterError, match="is no outbox of this version"):
        Client(f"http://127.0.0.1:1/v1/plans/{JOB.fingerprint}", store)


def test_only_its_owner_reads_the_store(store):
    with running(JOB) as stub:
        Client(address(stub), store).send({})
    assert stat.S_IMODE(os.stat(store).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(file).st_mode) for file in store.iterdir()} == {0o600}


# The plan ------------------------------------------------------------------------------------------------------------


def test_another_plan_than_the_pinned_one(store):
    with running(JOB) as stub:
        stub.plans[JOB.fingerprint] = AGE.to_json().encode()
        with pytest.raises(CollectorError, match="another plan than the one that was asked for"):
            Client(address(stub), store).send({"job": "nurse"})
        assert stub.posts == []
    assert sorted(file.name for file in store.iterdir()) == ["outbox.db"]


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(JOB.to_json()), **fields}).encode()


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xff",
        b"{}",
        changed(epsilon=0.5),
        changed(users=7),
        changed(certificate={"epsilon": 0.1, "delta": 0.0, "established": "exact"}),
        changed(hash="ab" * 32),
    ],
)
def test_a_plan_that_is_not_what_it_says(store, document):
    with running(JOB) as stub:
        stub.plans[JOB.fingerprint] = document
        with pytest.raises(DitherError):
            Client(address(stub), store).send({"job": "nurse"})
        assert stub.posts == []


def test_a_stored_plan_is_checked_again(store):
    with running(JOB) as stub:
        Client(address(stub), store).plan  # noqa: B018
        (store / f"plan-{JOB.fingerprint}.json").write_bytes(AGE.to_json().encode())
        with pytest.raises(CollectorError, match="another plan"):
            Client(address(stub), store).send({})


def test_a_plan_that_the_collector_chooses(store):
    with running(JOB) as stub:
        with pytest.raises(ParameterError, match="say what this user may spend"):
            Client(stub.url, store).send({})
        client = Client(stub.url, store, epsilon=1.0)
        assert client.send({}).accepted == 1
        assert client.plan == JOB
        assert Client(stub.url, store).send({}) == Delivery()  # the budget was promised already
        stub.plans = {AGE.fingerprint: AGE.to_json().encode()}
        assert Client(stub.url, store).plan == JOB
        with pytest.raises(BudgetError):  # whatever the collector thinks of
            Client(stub.url, store, plan=AGE.fingerprint).send({"age": 3})
        assert stub.reports() == 1
    with running(JOB, AGE) as stub, pytest.raises(CollectorError, match="2 open plans: name one"):
        Client(stub.url, store / "other", epsilon=1.0).send({})


def test_a_budget_below_the_plan_s(store):
    with running(JOB) as stub:
        with pytest.raises(BudgetError):
            Client(address(stub), store, epsilon=0.5).send({"job": "nurse"})
        assert stub.posts == []


def test_two_plans_from_one_store(store):
    with running(JOB, AGE) as stub:
        for of, record in ((JOB, {"job": "nurse"}), (AGE, {"age": 3})):
            assert Client(address(stub, of), store, epsilon=3.0).send(record).accepted == 1
        with Ledger(store / "ledger.db") as ledger:
            assert ledger.reserved.epsilon <= 3.0
        assert stub.reports() == 2


def test_a_reservation_of_the_program_stays(store):
    store.mkdir()
    with Ledger(store / "ledger.db", epsilon=3.0) as ledger:
        ledger.reserve(JOB, changes=1)
        with running(JOB) as stub:
            assert Client(address(stub), store).send({"job": "nurse"}).accepted == 1
        assert ledger.guarantee(JOB).epsilon > 1.5


def test_a_plan_that_is_given(store):
    with running(JOB) as stub:
        client = Client(stub.url, store, plan=JOB)
        client.check_collector()
        assert client.send({"job": "nurse"}).accepted == 1
        with pytest.raises(CollectorError, match="cannot be fetched: 404, do so"):
            Client(stub.url, store, plan=AGE).check_collector()
        with pytest.raises(CollectorError, match="cannot be fetched: 404, do so"):
            Client(stub.url, store / "other", plan=AGE.fingerprint).send({})


@pytest.mark.parametrize("wrong", ["abc", "AB" * 32, "ab" * 31, 5, "../" + "a" * 61])
def test_what_is_no_hash(store, wrong):
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        Client("https://collect.example.org", store, plan=wrong)
    with pytest.raises(ParameterError, match="another plan than plan="):
        Client(f"https://collect.example.org/v1/plans/{AGE.fingerprint}", store, plan=JOB)


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            "",
            "collect.example.org",
            "ftp://a.example.org",
            "file:///etc/passwd",
            "https://",
            "https://a:b@c.example.org",
        ),
        *(
            "https://a.example.org?x=1",
            "https://a.example.org#x",
            "https://a.example.org:99999",
            "https://[::1",
            None,
            5,
        ),
    ],
)
def test_what_is_no_address(store, wrong):
    with pytest.raises(ParameterError, match="url is the address of a collector"):
        Client(wrong, store)
    assert not store.exists()


def test_plain_http_is_for_this_machine(store):
    with pytest.raises(ParameterError, match="plain HTTP to another machine"):
        Client("http://collect.example.org", store)
    for url in ("http://localhost:80", "http://127.0.0.1", "http://[::1]:8080/below/"):
        Client(url, store)
    Client("http://collect.example.org", store, allow_http=True)


def test_a_collector_below_a_path():
    found = client_module.Address.of(f"https://example.org/collect/v1/plans/{JOB.fingerprint}/")
    assert found == ("https://example.org/collect", JOB.fingerprint)


@pytest.mark.parametrize("wrong", [-1, float("nan"), "soon", 1e9])
def test_what_is_no_patience(store, wrong):
    with pytest.raises(ParameterError, match="patience"):
        Client("http://localhost", store, patience=wrong)


def test_what_a_collector_says_is_not_obeyed(store):
    with running(JOB) as stub:
        stub.script = [410]
        client = Client(address(stub), store)
        client.send({})
    from dither.collect.client_http import HttpAnswer

    told = HttpAnswer(410, json.dumps({"detail": "\x1b[2J" + "x" * 999}).encode()).in_words()
    assert "\x1b" not in told
    assert len(told) < 250
    for body in (b"", b"[", b"[1]", b'{"detail": 5}', b"[" * 100_000, b"\xff"):
        assert HttpAnswer(500, body).in_words() == "500"


def test_a_device_s_imports_are_light(tmp_path):
    with running(JOB) as stub:
        script = (
            "from dither.collect import Client\n"
            f"assert Client({address(stub)!r}, {str(tmp_path / 'device')!r}).send({{'job': 'nurse'}}).accepted == 1"
        )
        assert imported(script).isdisjoint({*HEAVY, "starlette", "uvicorn"})
