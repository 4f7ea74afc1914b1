"""Devices and the command against a real collector: what they sent is what it counts, to the bit, kills included."""

import threading
import time

import pytest

from cli.cases import facts
from collect.collectors import JOBS, other_plan, serving, started, waited_for
from collect.shufflers import estimate_of, figures_of, shuffling, with_key
from dither.collect import Client, SqliteStore
from dither.wire import BatchFormat, read_frame

pytest.importorskip("uvicorn", reason="the collector is served by uvicorn: pip install 'dither[serve]'")


def counted(store, plan):
    """What the store has counted, when the collector has stopped."""
    with SqliteStore(store) as opened:
        (campaign,) = (each for each in opened.campaigns() if each.plan == plan.fingerprint)
        found = opened.counted(campaign.number)
        assert found.waiting == 0
        return found.tallies[0]


def test_devices_and_the_command(tmp_path):
    plan, store = other_plan(), tmp_path / "store"
    table = tmp_path / "people.csv"
    table.write_text("job\n" + "\n".join(JOBS[i % 4] for i in range(900)) + "\n")
    with serving(store, plan) as served:
        url = f"http://127.0.0.1:{served.port}"
        for user in range(3):
            client = Client(f"{url}/v1/plans/{plan.fingerprint}", tmp_path / f"device {user}")
            first = client.send({"job": "nurse"})
            assert (first.accepted, first.duplicates, first.pending, first.trouble) == (1, 0, 0, "")
            assert client.plan == plan
            assert client.send({"job": "other"}).batches == 0
        plan.save(tmp_path / "plan.json")
        found = facts("send", tmp_path / "plan.json", table, "--to", url, "--batch", 200)
        assert (found["accepted"], found["batches"], found["rejected"]) == (900, 5, {})
        assert Client(url, tmp_path / "unpinned", epsilon=1.0).send({"job": "nurse"}).accepted == 1
        served.stop()
    assert counted(store, plan).reports == 904


def test_the_command_through_a_shuffler(tmp_path):
    plan, store = other_plan(), tmp_path / "store"
    with_key(store)
    plan.save(tmp_path / "plan.json")
    (tmp_path / "people.csv").write_text("job\n" + "\n".join(JOBS[i % 4] for i in range(500)) + "\n")
    with serving(store, plan) as served, shuffling(tmp_path / "shuffler", served, 300) as shuffler:
        sent = ["send", tmp_path / "plan.json", tmp_path / "people.csv", "--to", f"http://127.0.0.1:{served.port}"]
        found = facts(*sent, "--shuffler", f"http://127.0.0.1:{shuffler.port}", "--batch", 400)
        assert (found["accepted"], found["batches"], found["pending"]) == (500, 1, 0)
        waited_for(lambda: figures_of(tmp_path / "shuffler", plan).forwarded == 500)
        waited_for(lambda: estimate_of(served, store, plan).get("reports") == 500)
        assert estimate_of(served, store, plan)["shuffled"]["smallest_batch"] == 500


def test_the_real_collector_knows_a_retry(tmp_path, monkeypatch):
    """The device never learns that its batch arrived, and sends it again: the same bytes, counted once."""
    plan, store = other_plan(), tmp_path / "store"
    with serving(store, plan) as served:
        url = f"http://127.0.0.1:{served.port}/v1/plans/{plan.fingerprint}"
        client = Client(url, tmp_path / "device")
        with monkeypatch.context() as patched:
            patched.setattr(client._outbox, "delivered", lambda number: (_ for _ in ()).throw(RuntimeError))
            with pytest.raises(RuntimeError):
                client.send({"job": "nurse"})
        found = Client(url, tmp_path / "device").flush()
        assert (found.batches, found.accepted, found.duplicates) == (1, 1, 1)
        served.stop()
    assert counted(store, plan).reports == 1


@pytest.mark.wide
def test_a_collector_that_is_killed_while_devices_send(tmp_path):
    """Batches of 20 are sent while the collector is killed and started again: all are counted, each once."""
    plan, store = other_plan(), tmp_path / "store"
    client = Client("http://127.0.0.1:1", tmp_path / "node", plan=plan, patience=0)
    reports = plan.randomize({"job": [JOBS[i % 4] for i in range(1200)]})
    assert client.queue_reports(reports, most=20) == 60
    bodies = [read_frame(body) for body in BatchFormat(plan).pack_batches(reports, 20)]
    assert len(bodies) == 60
    for _ in range(3):
        served = started(store, plan)
        node = Client(f"http://127.0.0.1:{served.port}", tmp_path / "node", plan=plan, patience=0)
        killer = threading.Timer(0.15, served.kill)
        killer.start()
        node.flush()
        killer.join()
        for stream in (served.process.stdout, served.process.stderr):
            assert stream is not None
            stream.close()
    with serving(store, plan) as served:
        node = Client(f"http://127.0.0.1:{served.port}", tmp_path / "node", plan=plan, patience=30)
        node.flush()
        assert node.pending == 0
        time.sleep(0.1)
        served.stop()
    assert counted(store, plan).to_bytes() == plan.tally(reports).to_bytes()


def test_a_token_of_a_campaign(tmp_path):
    plan = other_plan()
    (tmp_path / "tokens").write_text("a-token-of-clients-that-is-long-enough\n")
    with serving(tmp_path / "store", plan, options=("--client-token-file", str(tmp_path / "tokens"))) as served:
        url = f"http://127.0.0.1:{served.port}/v1/plans/{plan.fingerprint}"
        refused = Client(url, tmp_path / "device").send({"job": "nurse"})
        assert (refused.pending, refused.refused) == (1, 0)
        assert refused.trouble.startswith("401, ")
        token = (tmp_path / "tokens").read_text().strip()
        assert Client(url, tmp_path / "device", token=token).flush().accepted == 1
