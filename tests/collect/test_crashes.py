"""`kill -9` at any moment, and full disks: nothing that was acknowledged is lost, and nothing is counted twice."""

import resource
import signal

import pytest

from collect.collectors import batches, serving, small_plan
from collect.crashes import compare, killed
from dither.collect import SqliteStore
from dither.wire import BatchFormat
from interrupts import hears_interrupts
from marks import wide


@pytest.mark.parametrize(("kills", "most"), [(3, 5), wide(40, 1), wide(40, 2000)])
def test_what_was_acknowledged_is_counted_once_after_kills(tmp_path, kills, most, capsys):
    sources = batches(small_plan(), 40 if most < 100 else 20_000, most)
    sent, tally, stored = killed(tmp_path / "store", small_plan(), sources, kills, seed=most)
    assert sent.retries
    with capsys.disabled():
        print(f"\n{kills} kills: {compare(small_plan(), sent, tally, stored)}")


def test_a_comparison_that_misses_a_batch_would_notice(tmp_path):
    sources = batches(small_plan(), 10, 5)
    sent, tally, stored = killed(tmp_path / "store", small_plan(), sources, 0, seed=1)
    compare(small_plan(), sent, tally, stored)
    with pytest.raises(AssertionError):
        compare(small_plan(), sent, tally, stored - 1)
    lost = BatchFormat(small_plan()).check(sources[0])
    with pytest.raises(AssertionError):
        compare(small_plan(), sent, tally + BatchFormat(small_plan()).tally([lost]), stored)


def quota() -> None:
    """In the new process: files of at most 400,000 bytes, as on a disk that is full."""
    hears_interrupts()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))


def test_a_full_disk_is_503_and_what_was_acknowledged_stays(tmp_path):
    """The log of the database may not grow: batches are stored until there is no more room, and none after that."""
    plan, bodies = small_plan(), batches(small_plan(), 40_000, 4000)
    statuses, acknowledged = [], []
    with serving(tmp_path / "store", plan, preexec_fn=quota) as served:
        for turn in range(30):
            status, answer = served.send(plan, bodies[turn % len(bodies)], str(turn))
            statuses.append(status)
            if status == 200:
                acknowledged.append(bodies[turn % len(bodies)])
            else:
                assert (status, answer["title"]) == (503, "Nothing can be stored at the moment")
        assert set(statuses) == {200, 503}
        assert served.request("GET", "/v1/plans")[0] == 200
    with serving(tmp_path / "store"):
        pass  # counts what is stored, with room to do it
    form = BatchFormat(plan)
    with SqliteStore(tmp_path / "store") as store:
        found = store.counted(1)
        assert (found.batches, found.waiting) == (len(acknowledged), 0)
        assert found.tallies[0].to_bytes() == form.tally(map(form.check, acknowledged)).to_bytes()
