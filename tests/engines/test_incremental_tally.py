"""A stored tally to which files are added: each once, in any order, and all or nothing."""

import fcntl
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dither.engines import add_to_tally
from dither.engines import incremental_tally as module
from dither.engines.incremental_tally import listed_tally
from dither.engines.local import Local
from dither.engines.report_files import report_files
from dither.engines.report_rows import rows_schema
from dither.errors import ReportError, TallyError, WriteError
from dither.planning.plan_tally import PlanTally
from engines.cases import made, names_in, reports, rows, written

USERS, FILES = 600, 6
CHOSEN = made("mixed")
RIGHT = CHOSEN.tally(reports("mixed", USERS))


@pytest.fixture
def days(tmp_path) -> list[Path]:
    """Six files, four of them with a number of their own, as dither writes them, and two without."""
    folder, height = tmp_path / "days", USERS // FILES
    folder.mkdir()
    found = [folder / f"{number}.parquet" for number in range(FILES)]
    for number, path in enumerate(found):
        some = pa.table(rows("mixed", USERS).slice(height * number, height))
        metadata = rows_schema(CHOSEN).metadata if number < 4 else None
        written(path, some.replace_schema_metadata(metadata), height // 2)
    return found


def at_once(days: list[Path]) -> bytes:
    """The bytes of the tally of all files at once."""
    return listed_tally(Local().tally(CHOSEN, days), report_files(days, CHOSEN)).to_bytes()


def test_any_order_gives_the_tally_of_all_files_to_the_bit(tmp_path, days):
    right = at_once(days)
    for seed in range(5):
        order, target = random.Random(seed).sample(days, FILES), tmp_path / f"{seed}.tally"
        for path in order:
            assert add_to_tally(target, CHOSEN, path).added == (str(path),)
        assert target.read_bytes() == right
    stored = PlanTally.from_bytes(right)
    assert stored == RIGHT
    assert stored.unlisted == 0
    assert sorted(stored.files.values()) == [100] * FILES


def test_a_file_that_is_counted_is_left_out(tmp_path, days):
    target = tmp_path / "all.tally"
    add_to_tally(target, CHOSEN, days[:3])
    before = target.read_bytes()
    found = add_to_tally(target, CHOSEN, days[1])
    assert (found.added, found.counted_before, found.reports) == ((), (str(days[1]),), 0)
    assert target.read_bytes() == before
    found = add_to_tally(target, CHOSEN, tmp_path / "days")  # the folder, which has grown
    assert (found.added, found.reports) == (tuple(map(str, days[3:])), 300)
    assert found.counted_before == tuple(map(str, days[:3]))
    assert target.read_bytes() == at_once(days)


@pytest.mark.parametrize("number", [0, 5])
def test_a_copy_under_another_name_is_left_out(tmp_path, days, number):
    target, copy = tmp_path / "all.tally", tmp_path / "copy.parquet"
    add_to_tally(target, CHOSEN, days)
    shutil.copy(days[number], copy)
    os.utime(copy, (1, 1))
    assert add_to_tally(target, CHOSEN, copy).counted_before == (str(copy),)
    assert target.read_bytes() == at_once(days)


def test_a_numbered_file_that_was_written_anew_is_left_out(tmp_path, days):
    # Other bytes, the same reports: the number that dither wrote into it is still there.
    target, anew = tmp_path / "all.tally", tmp_path / "anew.parquet"
    add_to_tally(target, CHOSEN, days)
    pq.write_table(pq.read_table(days[0]), anew, compression="gzip")
    assert anew.read_bytes() != days[0].read_bytes()
    assert add_to_tally(target, CHOSEN, anew).added == ()


def test_without_digests_a_file_would_be_counted_twice(tmp_path, days, monkeypatch):
    # What the list is for: a mutant that forgets it counts twice, and the sum shows nothing of it.
    monkeypatch.setattr(module, "listed_tally", lambda tally, files: tally)
    target = tmp_path / "all.tally"
    for _ in range(2):
        add_to_tally(target, CHOSEN, days[0])
    found = PlanTally.from_bytes(target.read_bytes())
    assert sum(part.n for part in found.parts.values()) == 200


def test_an_older_tally_is_extended_and_what_cannot_be_known_is_told(tmp_path, days):
    target = tmp_path / "all.tally"
    target.write_bytes(Local().tally(CHOSEN, days[:2]).to_bytes())  # as stored before there were lists
    found = add_to_tally(target, CHOSEN, days[2])
    assert (found.unlisted, found.reports) == (200, 100)
    stored = PlanTally.from_bytes(target.read_bytes())
    assert stored == Local().tally(CHOSEN, days[:3])
    assert (len(stored.files), stored.unlisted) == (1, 200)
    assert add_to_tally(target, CHOSEN, days[2]).added == ()


def test_tallies_that_share_a_file_do_not_add_up(days):
    one = listed_tally(Local().tally(CHOSEN, days[:2]), report_files(days[:2], CHOSEN))
    other = listed_tally(Local().tally(CHOSEN, days[1:]), report_files(days[1:], CHOSEN))
    with pytest.raises(TallyError, match="both of these tallies count 1 file of reports"):
        one + other  # type: ignore[operator]
    rest = listed_tally(Local().tally(CHOSEN, days[2:]), report_files(days[2:], CHOSEN))
    assert (one + rest).to_bytes() == (rest + one).to_bytes() == at_once(days)


def test_a_list_there_and_back_and_damaged(days):
    whole = at_once(days)
    stored = PlanTally.from_bytes(whole)
    assert stored.to_bytes() == whole
    assert replace(stored, files={}).to_bytes() == RIGHT.to_bytes()  # bytes of older versions are what they were
    digest = next(iter(stored.files))
    too_many = replace(stored, files={**stored.files, digest: 101}).to_bytes()
    none = replace(stored, files={**stored.files, digest: 0}).to_bytes()
    short = replace(stored, files={digest[:-2]: 100}).to_bytes()
    for damaged in (too_many, none, short):
        with pytest.raises(TallyError):
            PlanTally.from_bytes(damaged)
    for place in range(0, len(whole), 97):
        changed = bytearray(whole)
        changed[place] ^= 1
        with pytest.raises(TallyError):
            PlanTally.from_bytes(bytes(changed))


def test_digests_tell_files_apart_and_nothing_else(days, tmp_path):
    found = [file.digest for file in report_files(days, CHOSEN)]
    assert len(set(found)) == FILES
    assert all(len(digest) == 64 for digest in found)
    moved = shutil.move(days[0], tmp_path / "moved.parquet")
    assert report_files(moved, CHOSEN)[0].digest == found[0]


def test_files_without_reports_are_not_listed(tmp_path, days):
    empty, target = tmp_path / "empty.parquet", tmp_path / "all.tally"
    Local().randomize(CHOSEN, _Nobody(), empty)
    found = add_to_tally(target, CHOSEN, [empty, days[0]])
    assert len(found.tally.files) == 1


class _Nobody:
    def batches(self) -> Any:
        return iter(())


def test_what_is_no_tally_of_the_plan_is_refused(tmp_path, days):
    target = tmp_path / "all.tally"
    for content, words in (
        (b"", "not the tally of a plan"),
        (b"something else", "not the tally of a plan"),
        (made("one question").tally(reports("one question", 10)).to_bytes(), "different plans"),
    ):
        target.write_bytes(content)
        with pytest.raises(TallyError, match=words) as caught:
            add_to_tally(target, CHOSEN, days)
        assert str(target) in str(caught.value)
        assert target.read_bytes() == content


def test_a_damaged_file_leaves_the_tally_as_it_was(tmp_path, days):
    target = tmp_path / "all.tally"
    add_to_tally(target, CHOSEN, days[0])
    before = target.read_bytes()
    damaged = bytearray(days[2].read_bytes())
    damaged[40:60] = b"x" * 20
    days[2].write_bytes(bytes(damaged))
    with pytest.raises(ReportError):
        add_to_tally(target, CHOSEN, days)
    assert target.read_bytes() == before


def test_a_full_disk_leaves_the_tally_as_it_was(tmp_path, days, monkeypatch):
    target = tmp_path / "all.tally"
    add_to_tally(target, CHOSEN, days[0])
    before = target.read_bytes()

    def fail(*paths: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(WriteError, match="no space left"):
        add_to_tally(target, CHOSEN, days)
    monkeypatch.undo()
    assert target.read_bytes() == before
    assert names_in(tmp_path) == ["all.tally", "days"]
    add_to_tally(target, CHOSEN, days)
    assert target.read_bytes() == at_once(days)


def test_two_runs_at_a_time_do_not_lose_a_sum(tmp_path, days):
    target = tmp_path / "all.tally"
    add_to_tally(target, CHOSEN, days[0])
    before = target.read_bytes()
    with target.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TallyError, match="another run adds to it"):
            add_to_tally(target, CHOSEN, days[1])
    assert target.read_bytes() == before
    add_to_tally(target, CHOSEN, days[1])


def test_a_tally_that_appears_meanwhile_is_not_replaced(tmp_path, days):
    target = tmp_path / "all.tally"
    with pytest.raises(TallyError, match="another run adds to it"):
        add_to_tally(target, CHOSEN, days[0], progress=lambda rows: target.write_bytes(b"of another run"))
    assert target.read_bytes() == b"of another run"


SCRIPT = """
import os, random, signal, sys, time
from pathlib import Path
from dither import Plan
from dither.engines import Local, add_to_tally
from dither.planning.plan_tally import PlanTally

stored, target, *days = sys.argv[1:]
plan, rng = Plan.from_json(Path(stored).read_text()), random.Random(7)
os.environ["DITHER_THREADS"] = "1"
Local().tally(plan, days)  # compiles; a process with threads should not fork
add_to_tally(target, plan, days[0])
killed = unchanged = 0
while len(PlanTally.from_bytes(Path(target).read_bytes()).files) < len(days):
    before = Path(target).read_bytes()
    known = len(PlanTally.from_bytes(before).files)
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        os.close(heard)
        add_to_tally(target, plan, days[known : known + 1], progress=lambda rows: os.write(told, b"."))
        os._exit(0)
    os.close(told)
    if killed < 3 * known:  # several times at each of the files
        os.read(heard, 1)
        time.sleep(rng.random() * 0.004)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(heard)
    killed += os.WIFSIGNALED(status)
    after = Path(target).read_bytes()
    assert status in (0, signal.SIGKILL)
    assert len(PlanTally.from_bytes(after).files) in (known, known + 1)
    assert (after == before) == (len(PlanTally.from_bytes(after).files) == known)
    unchanged += after == before
print(killed, unchanged)
"""


@pytest.mark.wide
def test_a_killed_process_leaves_the_tally_as_it_was_or_all_added(tmp_path, days):
    target, stored = tmp_path / "all.tally", tmp_path / "plan.json"
    stored.write_text(CHOSEN.to_json())
    command = [sys.executable, "-c", SCRIPT, str(stored), str(target), *map(str, days)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    killed, unchanged = map(int, done.stdout.split())
    assert killed >= 3
    assert unchanged >= 1
    assert target.read_bytes() == at_once(days)
