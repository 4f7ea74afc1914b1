"""`dither send`: all reports are on the disk before one is sent, and each is counted once, whatever happens between."""

import json
from pathlib import Path

import pyarrow
import pytest

from cli.cases import MARKER, done, facts, refused, run
from collect.stub_collector import DROP, running
from dither import Categorical, Plan, Schema, plan
from dither.cli.sending import _crowds
from dither.wire import BatchFormat


@pytest.fixture
def made(plan: str) -> Plan:
    return Plan.read(plan)


def test_send_tells_what_it_did(plan, made, people, tmp_path):
    with running(made) as stub:
        result = done("send", plan, people, "--to", stub.url, "--batch", 300)
        assert result.stdout == ""
        assert result.stderr.startswith("delivered 7 batches: 2,000 reports in ")
        assert stub.reports() == 2000
        assert not Path(f"{plan}.outbox").exists()
        found = facts("send", plan, people, "--to", stub.url)
        assert found["plan"] == made.fingerprint
        del found["plan"], found["seconds"]
        expected = {"records": 2000, "batches": 1, "accepted": 2000, "rejected": {}}
        assert found == {**expected, "duplicates": 0, "refused": 0, "pending": 0}
        wire = BatchFormat(made)
        tally = wire.tally([wire.check(body) for body in stub.counted.values()])
        assert tally.reports == 4000


def test_what_was_not_delivered_is_sent_later_and_counted_once(plan, made, people):
    folder = Path(f"{plan}.outbox")
    with running(made) as stub:
        stub.script = [200, DROP, 503]
        text = refused("send", plan, people, "--to", stub.url, "--batch", 500, "--patience", 0)
        assert "3 batches could not be delivered (no answer from the collector (RemoteDisconnected))" in text
        assert f"is sent by dither send {plan} --to {stub.url}" in text
        assert folder.is_dir()
        text = refused("send", plan, people, "--to", stub.url)
        assert "these records would be reported again" in text
        assert "could not be delivered (503, do so)" in refused("send", plan, "--to", stub.url, "--patience", 0)
        found = facts("send", plan, "--to", stub.url)
        assert (found["records"], found["batches"], found["accepted"], found["duplicates"]) == (0, 3, 1500, 1)
        assert stub.reports() == 2000
        assert len(set(stub.posts)) == 4
    assert not folder.exists()
    assert "no reports wait in" in refused("send", plan, "--to", stub.url)


def test_nothing_is_spent_where_nobody_collects(plan, made, people, other_plan):
    with running(Plan.read(other_plan)) as stub:
        assert "the plan cannot be fetched: 404, do so" in refused("send", plan, people, "--to", stub.url)
        assert stub.posts == []
    assert "no answer from the collector" in refused("send", plan, people, "--to", stub.url)
    assert not Path(f"{plan}.outbox").exists()


def test_records_that_do_not_fit_are_refused_and_nothing_is_sent(plan, made, write_csv):
    path = write_csv([["age", "income", "job"], [20, 5, "nurse"], [20, 5, MARKER]])
    with running(made) as stub:
        text = refused("send", plan, path, "--to", stub.url)
        assert "attribute job, row 1" in text
        assert MARKER not in text
        assert stub.posts == []
        assert facts("send", plan, path, "--to", stub.url, "--invalid", "substitute")["accepted"] == 2


def test_a_batch_that_is_never_taken(plan, made, people, tmp_path):
    with running(made) as stub:
        stub.script = [410]
        text = refused("send", plan, people, "--to", stub.url, "--outbox", tmp_path / "box")
        assert f"the collector will never take 1 batch (410, do so): kept in {tmp_path / 'box'}" in text


def test_a_token(plan, made, people, tmp_path):
    (tmp_path / "token").write_text("abc\n")
    with running(made) as stub:
        stub.token = "abc"  # noqa: S105
        assert facts("send", plan, people, "--to", stub.url, "--token-file", tmp_path / "token")["accepted"] == 2000


def test_what_is_not_understood(plan, people):
    assert run("send", plan, people).exit_code == 2
    assert run("send", plan, people, "--sql", "select 1", "--to", "http://localhost").exit_code == 2
    assert "plain HTTP to another machine" in refused("send", plan, people, "--to", "http://collect.example.org")
    assert json.loads(Path(plan).read_text())


def test_a_plan_with_rounds_says_who_can_send_it(people, tmp_path):
    schema = Schema({"job": Categorical(["nurse", "driver", "teacher", "other"])})
    plan(schema, 2.0, users=1000, rounds=3).save(tmp_path / "rounds.json")
    text = refused("send", tmp_path / "rounds.json", people, "--to", "http://localhost")
    assert "Client(url, store=...).send(record, period=...)" in text
    assert "plan.randomize_rounds" in text


@pytest.mark.parametrize(
    ("sizes", "crowds"),
    [([3, 3, 3, 3, 1], [6, 7]), ([1], [1]), ([], []), ([5], [5]), ([9, 1, 1], [11]), ([5, 5, 5], [5, 5, 5])],
)
def test_records_behind_a_shuffler_are_sealed_in_crowds(sizes, crowds):
    numbers = iter(range(100))
    batches = [pyarrow.RecordBatch.from_pydict({"n": [next(numbers) for _ in range(size)]}) for size in sizes]
    tables = list(_crowds(batches, 5))
    assert [table.num_rows for table in tables] == crowds
    assert [n for table in tables for n in table["n"].to_pylist()] == list(range(sum(sizes)))
