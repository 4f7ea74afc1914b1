"""What a store promises: a batch that was committed is there, is counted once, and leaves nothing when it is gone."""

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from collect.collectors import batches, other_plan, small_plan
from dither.collect.sqlite_store import APPLICATION, DATABASE, LOCK, MIGRATIONS, SqliteStore
from dither.collect.store import (
    ACCEPTED,
    ANALYST,
    CLOSED,
    CONFLICT,
    DUPLICATE,
    NEW,
    VERSION,
    Arrival,
    Outcome,
    Store,
    StoreError,
    StoreFullError,
    Submission,
    Token,
    body_digest,
    key_hash,
)
from dither.wire import BatchFormat


@pytest.fixture
def store(tmp_path: Path):
    with SqliteStore(tmp_path / "store", collects=True) as found:
        yield found


def submitted(campaign: int, key: str, body: bytes, accepted: int = 1, **rejected: int) -> Submission:
    plan = small_plan().fingerprint
    told = {reason.replace("_", " "): count for reason, count in rejected.items()}
    return Submission(campaign, key_hash(plan, key.encode()), body_digest(key.encode(), body), body, accepted, told)


def campaign_of(store: Store) -> int:
    return store.add_campaign(small_plan().fingerprint, small_plan().to_json().encode()).number


def fold_all(store: Store, number: int) -> None:
    form = BatchFormat(small_plan())
    for group in store.waiting():
        assert store.fold(number, [group.number], {0: form.tally(map(form.check, store.bodies(group.number)))})


def test_a_batch_is_new_once_and_then_a_duplicate_with_the_first_answer(store):
    number = campaign_of(store)
    first = submitted(number, "a", b"one", 3, out_of_range=2)
    assert store.commit([first]) == ([Outcome(NEW, 3, {"out of range": 2})], {number: 1})
    again = first._replace(accepted=99, rejected={})
    assert store.commit([again]) == ([Outcome(DUPLICATE, 3, {"out of range": 2})], {})
    assert store.commit([submitted(number, "a", b"other")]) == ([Outcome(CONFLICT, 0, {})], {})
    assert store.bodies(1) == [b"one"]
    assert store.counted(number).batches == store.counted(number).waiting == 1


def test_a_group_may_hold_new_known_and_repeated_batches(store):
    number = campaign_of(store)
    store.commit([submitted(number, "a", b"one")])
    group = [submitted(number, "b", b"two"), submitted(number, "a", b"one"), submitted(number, "b", b"two")]
    group += [submitted(number, "b", b"another"), submitted(number, "c", b"three")]
    outcomes, groups = store.commit(group)
    assert [outcome.status for outcome in outcomes] == [NEW, DUPLICATE, DUPLICATE, CONFLICT, NEW]
    assert store.bodies(groups[number]) == [b"two", b"three"]


def test_keys_are_searched_for_and_not_read_one_after_the_other(store):
    """SQLite would look at every batch that was ever stored, in every commit, if it were asked in other words."""
    number = campaign_of(store)
    seen = list[str]()
    with store._transaction() as connection:
        connection.set_trace_callback(seen.append)
        store._known(connection, [(number, b"a"), (number, b"b")])
        connection.set_trace_callback(None)
    (text,) = seen
    steps = [row[3] for row in store._read(f"EXPLAIN QUERY PLAN {text}")]
    assert "SEARCH batch USING PRIMARY KEY (campaign=? AND key=?)" in steps


def test_many_batches_are_few_statements(store):
    """Each statement gives the interpreter away once: of 1,000 batches there are few."""
    number = campaign_of(store)
    seen = list[str]()
    store._writer.set_trace_callback(seen.append)
    outcomes, groups = store.commit([submitted(number, str(key), b"one") for key in range(1000)])
    store._writer.set_trace_callback(None)
    assert [outcome.status for outcome in outcomes] == [NEW] * 1000
    assert len(store.bodies(groups[number])) == 1000
    assert len(seen) < 25


def test_the_same_key_in_two_campaigns_is_two_keys(store):
    first = campaign_of(store)
    second = store.add_campaign(other_plan().fingerprint, b"{}").number
    group = [submitted(first, "a", b"one"), submitted(second, "a", b"two")]
    outcomes, groups = store.commit(group)
    assert [outcome.status for outcome in outcomes] == [NEW, NEW]
    assert {store.bodies(groups[first])[0], store.bodies(groups[second])[0]} == {b"one", b"two"}


def counts_arrivals(store: Store, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a campaign, by the minute with their batch, and by the hour after a day."""
    now = 1_800_000_300.0
    monkeypatch.setattr(time, "time", lambda: now)
    first = submitted(number, "a", b"one", 3, out_of_range=2)
    store.commit([first, submitted(number, "b", b"two", 4)])
    store.commit([first, submitted(number, "b", b"another")])  # a retry is no arrival, and a conflict is none
    minute = 30_000_005
    found = [Arrival(minute, ACCEPTED, 7), Arrival(minute, "out of range", 2)]
    assert store.arrivals(number) == found
    store.scrub(now + 24 * 3600)
    assert store.arrivals(number) == found
    store.scrub(now + 26 * 3600)
    assert store.arrivals(number) == [each._replace(minute=30_000_000) for each in found]
    store.commit([submitted(number, "c", b"four", 1)])
    store.scrub(now + 26 * 3600)  # added to what is there
    assert store.arrivals(number)[0].reports == 8
    store.delete_campaign(number)
    assert store.arrivals(number) == []


def test_arrivals_are_counted_with_their_batch_and_added_up_after_a_day(store, monkeypatch):
    counts_arrivals(store, campaign_of(store), monkeypatch)


def test_tallies_are_those_of_all_reports_to_the_bit(store):
    plan, number = small_plan(), campaign_of(store)
    form, sent = BatchFormat(plan), batches(small_plan(), 500, 7)
    for place, body in enumerate(sent):
        store.commit([submitted(number, str(place), body)])
    fold_all(store, number)
    expected = form.tally(map(form.check, sent))
    assert store.counted(number).tallies[0].to_bytes() == expected.to_bytes()
    assert store.counted(number).waiting == 0
    assert store.waiting() == []


def test_a_group_is_folded_once(store):
    plan, number = small_plan(), campaign_of(store)
    form, body = BatchFormat(plan), batches(small_plan(), 5, 5)[0]
    _, groups = store.commit([submitted(number, "a", body)])
    tally = {0: form.tally([form.check(body)])}
    assert store.fold(number, [groups[number]], tally)
    assert not store.fold(number, [groups[number]], tally)
    assert store.counted(number).tallies[0].reports == 5


def test_rounds_have_tallies_of_their_own(store):
    plan, number = small_plan(), campaign_of(store)
    form, body = BatchFormat(plan), batches(small_plan(), 5, 5)[0]
    for name in "ab":
        store.commit([submitted(number, name, body)])
    tally = form.tally([form.check(body)])
    assert store.fold(number, [1], {0: tally})
    assert store.fold(number, [2], {0: tally, 3: tally})
    assert {place: each.reports for place, each in store.counted(number).tallies.items()} == {0: 10, 3: 5}


def test_what_is_scrubbed_is_nowhere_in_the_folder(store, tmp_path):
    """Neither in the database nor in its log: the bytes of a batch are looked for in the files themselves."""
    number = campaign_of(store)
    sent = [bytes([letter]) * 6000 for letter in b"XYZ"]
    store.commit([submitted(number, str(place), body) for place, body in enumerate(sent)])
    assert any(sent[1][:1000] in file.read_bytes() for file in store.folder.iterdir())
    store.fold(number, [1], {})
    store.checkpoint(least=0)
    files = list(store.folder.iterdir())
    assert {file.name for file in files} >= {DATABASE, LOCK}
    for file in files:
        assert not any(body[:100] in file.read_bytes() for body in sent)


def test_what_is_kept_goes_when_its_time_is_over(store):
    number = campaign_of(store)
    store.keep_reports(number, 2)
    store.commit([submitted(number, "a", b"one")])
    hour = store._read("SELECT hour FROM raw")[0][0] * 3600
    assert store.scrub(hour + 3 * 3600) == 0  # it is not counted yet
    store.fold(number, [1], {})
    assert store.waiting() == []
    assert store.bodies(1) == [b"one"]
    assert store.scrub(hour + 2 * 3600 - 1) == 0
    assert store.scrub(hour + 2 * 3600) == 1
    assert store.bodies(1) == []


def test_a_campaign_is_deleted_with_all_that_it_has(store):
    number = campaign_of(store)
    other = store.add_campaign(other_plan().fingerprint, b"{}").number
    store.commit([submitted(number, "a", b"W" * 5000), submitted(other, "a", b"V" * 5000)])
    store.add_token(Token(b"d" * 32, ANALYST, number, None))
    store.log_query(1, number, "query", "age < 3", None)
    store.delete_campaign(number)
    assert [each.number for each in store.campaigns()] == [other]
    assert store.tokens() == store.queries() == []
    with pytest.raises(StoreError, match="deleted"):
        store.counted(number)
    assert not any(b"W" * 100 in file.read_bytes() for file in store.folder.iterdir())
    assert not store.fold(number, [1], {})
    with pytest.raises(StoreError, match="deleted"):
        store.commit([submitted(number, "b", b"two"), submitted(other, "b", b"two")])
    assert store.counted(other).batches == 1


def test_campaigns_open_close_and_expire(store):
    number = campaign_of(store)
    assert campaign_of(store) == number
    (campaign,) = store.campaigns()
    assert campaign.is_open(0.0)
    store.change_campaign(number, closes=100)
    (campaign,) = store.campaigns()
    assert (campaign.is_open(99.9), campaign.is_open(100.0)) == (True, False)
    store.change_campaign(number, state=CLOSED)
    assert not store.campaigns()[0].is_open(0.0)


def test_the_digest_of_a_body_says_nothing_without_its_key():
    assert body_digest(b"a", b"body") != body_digest(b"b", b"body")
    assert key_hash("p", b"a") != key_hash("q", b"a")


def test_two_collectors_do_not_share_a_folder(store):
    with pytest.raises(StoreError, match="another collector uses"):
        SqliteStore(store.folder, collects=True)
    with SqliteStore(store.folder) as beside:  # a command may look, and change a campaign
        beside.change_campaign(campaign_of(store), state=CLOSED)
    assert store.campaigns()[0].state == CLOSED


def test_a_new_store_has_its_version_and_its_owner(store):
    database = store.folder / DATABASE
    with sqlite3.connect(database) as found:
        assert found.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert found.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        assert found.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    found.close()
    assert len(MIGRATIONS) == VERSION
    assert database.stat().st_mode & 0o077 == store.folder.stat().st_mode & 0o077 == 0
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (f"PRAGMA user_version = {VERSION + 1}", "newer version"),
        ("PRAGMA application_id = 7", "no store"),
    ],
)
def test_what_is_no_store_of_this_version_is_refused(tmp_path, change, message):
    SqliteStore(tmp_path).close()
    with sqlite3.connect(tmp_path / DATABASE) as found:
        found.execute(change)
    found.close()
    with pytest.raises(StoreError, match=message):
        SqliteStore(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="cannot be used"):
        SqliteStore(tmp_path)


def test_a_store_of_an_older_version_is_migrated(tmp_path):
    """As of version 0, which has no tables: every step runs, in one transaction."""
    with sqlite3.connect(tmp_path / DATABASE) as found:
        found.execute(f"PRAGMA application_id = {APPLICATION}")
    found.close()
    with SqliteStore(tmp_path) as store:
        assert store.campaigns() == []
        assert store._read("PRAGMA user_version") == [(VERSION,)]


def test_a_full_disk_acknowledges_nothing_and_leaves_the_store_as_it_was(store):
    number = campaign_of(store)
    store.commit([submitted(number, "a", b"one")])
    pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
    store._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreFullError, match="full"):
        store.commit([submitted(number, "b", os.urandom(100_000))])
    assert store.counted(number).batches == 1
    store._writer.execute("PRAGMA max_page_count = 1000000")
    outcomes, _ = store.commit([submitted(number, "b", b"two")])
    assert outcomes[0].status == NEW


def test_a_copy_is_made_while_the_store_is_used(store, tmp_path):
    number = campaign_of(store)
    store.commit([submitted(number, "a", b"one")])
    (tmp_path / "copy").mkdir()
    store.backup(str(tmp_path / "copy" / DATABASE))
    with SqliteStore(tmp_path / "copy") as copy:
        assert copy.commit([submitted(number, "a", b"one")])[0][0].status == DUPLICATE


def test_threads_commit_and_fold_beside_each_other(store):
    plan, number = small_plan(), campaign_of(store)
    form, sent = BatchFormat(plan), batches(small_plan(), 200, 2)

    def commit(first: int) -> None:
        for place in range(first, len(sent), 4):
            store.commit([submitted(number, str(place), sent[place])])

    threads = [threading.Thread(target=commit, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        fold_all(store, number)
        store.checkpoint(least=0)
    for thread in threads:
        thread.join()
    fold_all(store, number)
    assert store.counted(number).tallies[0].to_bytes() == form.tally(map(form.check, sent)).to_bytes()
