"""The store in PostgreSQL, against a real server that is started here; several collectors on one database."""

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from collect.collectors import batches, other_plan, serving, small_plan
from collect.crashes import compare, killed_on_postgres
from collect.postgres import MISSING, Postgres, as_user, binaries
from collect.test_store import campaign_of, counts_arrivals, fold_all, submitted
from dither.collect.export import export_reports
from dither.collect.postgres_store import PostgresStore
from dither.collect.store import (
    ANALYST,
    CLOSED,
    CONFLICT,
    DUPLICATE,
    NEW,
    Crowds,
    Outcome,
    StoreError,
    Token,
)
from dither.engines.local import Local
from dither.wire import BatchFormat
from marks import wide

if binaries() is None or as_user() == ["false"]:
    pytest.skip(MISSING, allow_module_level=True)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    found = Postgres()
    yield found
    found.remove()


@pytest.fixture
def address(server: Postgres) -> str:
    server.empty()
    return server.address


@pytest.fixture
def store(address: str) -> Iterator[PostgresStore]:
    with PostgresStore(address) as found:
        yield found


def test_crowds_of_shuffled_batches_are_noted_once(store):
    number = campaign_of(store)
    assert store.crowds(number) == Crowds()
    for key, users in ((b"a", 5000), (b"b", 1000), (b"b", 7)):
        store.note_crowd(number, key, users)
    assert store.crowds(number) == Crowds(2, 6000, 1000)
    store.delete_campaign(number)
    assert store.crowds(number) == Crowds()


def test_a_batch_is_new_once_and_then_a_duplicate_with_the_first_answer(store):
    number = campaign_of(store)
    first = submitted(number, "a", b"one", 3, out_of_range=2)
    outcomes, groups = store.commit([first])
    assert outcomes == [Outcome(NEW, 3, {"out of range": 2})]
    assert store.commit([first]) == ([Outcome(DUPLICATE, 3, {"out of range": 2})], {})
    assert store.commit([submitted(number, "a", b"other")]) == ([Outcome(CONFLICT, 0, {})], {})
    assert store.bodies(groups[number]) == [b"one"]
    assert store.counted(number).batches == store.counted(number).waiting == 1


def test_a_group_may_hold_new_known_and_repeated_batches(store):
    number = campaign_of(store)
    other = store.add_campaign(other_plan().fingerprint, b"{}").number
    store.commit([submitted(number, "a", b"one")])
    group = [submitted(number, "b", b"two"), submitted(number, "a", b"one"), submitted(number, "b", b"two")]
    group += [submitted(number, "b", b"another"), submitted(number, "c", b"three"), submitted(other, "a", b"four")]
    outcomes, groups = store.commit(group)
    assert [outcome.status for outcome in outcomes] == [NEW, DUPLICATE, DUPLICATE, CONFLICT, NEW, NEW]
    assert store.bodies(groups[number]) == [b"two", b"three"]
    assert store.bodies(groups[other]) == [b"four"]


def test_arrivals_are_counted_with_their_batch_and_added_up_after_a_day(store, monkeypatch):
    counts_arrivals(store, campaign_of(store), monkeypatch)


def test_tallies_are_those_of_all_reports_to_the_bit(store):
    plan, number = small_plan(), campaign_of(store)
    form, sent = BatchFormat(plan), batches(small_plan(), 300, 7)
    for place, body in enumerate(sent):
        store.commit([submitted(number, str(place), body)])
    fold_all(store, number)
    assert store.counted(number).tallies[0].to_bytes() == form.tally(map(form.check, sent)).to_bytes()
    assert store.waiting() == []
    assert not store.fold(number, [1], {})


def test_what_is_kept_goes_when_its_time_is_over(store):
    number = campaign_of(store)
    store.keep_reports(number, 2)
    store.commit([submitted(number, "a", b"one")])
    store.fold(number, [1], {})
    assert (store.waiting(), store.bodies(1), store.scrub(time.time())) == ([], [b"one"], 0)
    assert store.scrub(time.time() + 3 * 3600) == 1
    assert store.bodies(1) == []


def test_campaigns_tokens_and_queries(store):
    number = campaign_of(store)
    assert campaign_of(store) == number
    store.change_campaign(number, state=CLOSED, closes=7)
    store.add_token(Token(b"d" * 32, ANALYST, number, 5))
    store.log_query(1, number, "query", "age < 3\0", b"d" * 32)
    (campaign,) = store.campaigns()
    assert (campaign.state, campaign.closes, campaign.document) == (CLOSED, 7, small_plan().to_json().encode())
    assert store.tokens() == [Token(b"d" * 32, ANALYST, number, 5)]
    assert store.queries(number) == [(1, number, "query", "age < 3?", b"d" * 32)]
    store.delete_campaign(number)
    assert store.campaigns() == store.tokens() == store.queries() == []
    with pytest.raises(StoreError, match="deleted"):
        store.counted(number)
    with pytest.raises(StoreError, match="deleted"):
        store.commit([submitted(number, "b", b"two")])
    with pytest.raises(StoreError, match="pg_dump"):
        store.backup("copy")


def test_what_a_dead_collector_left_is_taken_over_and_that_of_a_living_one_is_not(store, address):
    number = campaign_of(store)
    with PostgresStore(address) as other:
        other.commit([submitted(number, "a", b"one")])
        assert store.waiting() == []
        assert [group.number for group in other.waiting()] == [1]
    for _ in range(100):
        if store.waiting():
            break
        time.sleep(0.05)
    assert [group.number for group in store.waiting()] == [1]


def test_two_collectors_with_the_same_keys_store_each_once(store, address):
    """At the same time, in groups that overlap in any order: nobody waits for ever, and each key is new once."""
    number = campaign_of(store)
    found: list[list[Outcome]] = []
    with PostgresStore(address) as other:

        def commit(one: PostgresStore, step: int) -> None:
            for first in range(0, 100, 5):
                keys = [str((first + step * place) % 100) for place in range(20)]
                found.append(one.commit([submitted(number, key, key.encode()) for key in keys])[0])

        threads = [threading.Thread(target=commit, args=each) for each in ((store, 3), (other, 7), (store, -1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    statuses = [outcome.status for outcomes in found for outcome in outcomes]
    assert (statuses.count(NEW), statuses.count(CONFLICT)) == (store.counted(number).batches, 0)
    assert store._read("SELECT count(*) FROM batch") == [(store.counted(number).batches,)]


def test_a_server_that_was_killed_is_used_again_when_it_is_back(server, store):
    number = campaign_of(store)
    store.commit([submitted(number, "a", b"one")])
    server.kill()
    with pytest.raises(StoreError, match="cannot be used"):
        store.commit([submitted(number, "b", b"two")])
    with pytest.raises(StoreError, match="cannot be used"):
        store.campaigns()
    server.start()
    statuses = [
        store.commit([submitted(number, key, body)])[0][0].status for key, body in (("a", b"one"), ("b", b"two"))
    ]
    assert statuses == [DUPLICATE, NEW]


def test_errors_do_not_tell_the_password():
    with pytest.raises(StoreError) as caught:
        PostgresStore("postgresql://dither:secret-word@127.0.0.1:1/postgres")
    assert "secret-word" not in str(caught.value)


def test_a_store_of_a_newer_version_and_a_server_that_loses_are_refused(server, store, address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE dither_store SET version = version + 1")
    with pytest.raises(StoreError, match="newer version"):
        PostgresStore(address)


@pytest.mark.parametrize(
    ("kills", "kind"), [(1, "collector"), wide(2, "database"), wide(40, "collector"), wide(40, "database")]
)
def test_what_was_acknowledged_is_counted_once_whoever_is_killed(server, address, tmp_path, kills, kind, capsys):
    """Two collectors on one database; one of them, or the database, is killed again and again."""
    plan, sources = small_plan(), batches(small_plan(), 40, 5)
    found = killed_on_postgres(server, tmp_path, plan, sources, kills, kind, seed=kills)
    with capsys.disabled():
        print(f"\n{kills} kills of a {kind}: {compare(plan, *found)}")


def test_a_collector_serves_from_postgres(address, tmp_path):
    plan, body = small_plan(), batches(small_plan(), 5, 5)[0]
    with serving(tmp_path / "store", plan, place=address, cwd=tmp_path) as served:
        assert served.send(plan, body, "a")[1] == {"accepted": 5, "rejected": {}, "duplicate": False}
        assert served.send(plan, body, "a")[1]["duplicate"]
        token = (tmp_path / "analyst.token").read_text().strip()
        path, headers = f"/v1/plans/{plan.fingerprint}/estimate", {"authorization": f"Bearer {token}"}
        status, found = 0, {"reports": 0}
        for _ in range(100):
            status, found = served.json("GET", path, None, headers)
            if found["reports"]:
                break
            time.sleep(0.2)
        assert (status, found["reports"]) == (200, 5)


def test_what_is_kept_is_exported_once(store, tmp_path):
    number, plan = campaign_of(store), small_plan()
    store.keep_reports(number, 24)
    (campaign,) = store.campaigns()
    for place, body in enumerate(batches(plan, 300, 100)):
        store.commit([submitted(number, f"key {place}", body, 100)])
    fold_all(store, number)
    assert export_reports(store, campaign, str(tmp_path)).batches == 3
    assert export_reports(store, campaign, str(tmp_path)).files == ()
    assert Local().tally(plan, tmp_path) == store.counted(number).tallies[0]
