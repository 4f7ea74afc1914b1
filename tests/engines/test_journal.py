"""A tally that was stopped goes on: to the same bits, whenever it was stopped; nothing is counted twice."""

import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dither.engines import journal as journal_module
from dither.engines import local as local_module
from dither.engines.journal import Journal
from dither.engines.local import Local, tallied
from dither.engines.report_files import Piece, report_files
from dither.engines.report_rows import rows_schema
from dither.errors import DitherError, ReportError, TallyError, WriteError
from dither.planning import merged_tallies
from engines.cases import made, names_in, reports, rows, written

USERS, FILES = 600, 12
CHOSEN = made("mixed")
RIGHT = CHOSEN.tally(reports("mixed", USERS)).to_bytes()


@pytest.fixture
def folder(tmp_path) -> Path:
    """Twelve files of two pieces each."""
    found = tmp_path / "reports"
    found.mkdir()
    height = USERS // FILES
    for number in range(FILES):
        some = pa.table(rows("mixed", USERS).slice(height * number, height))
        written(found / f"{number:02}.parquet", some.replace_schema_metadata(rows_schema(CHOSEN).metadata), height // 2)
    return found


@pytest.fixture
def often(monkeypatch) -> None:
    monkeypatch.setattr(journal_module, "_PAUSE", -1.0)


class StopError(Exception):
    """Stands for whatever stops a run."""


def stopping(count: int, error: BaseException) -> Callable[[int], None]:
    """Progress that is interrupted after so many pieces."""
    left = count

    def advance(done: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise error

    return advance


def counted(path: Path) -> int:
    return sum(map(len, Journal.at(path, CHOSEN).counted.values())) if path.exists() else 0


# Stopped and continued ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [StopError(), KeyboardInterrupt()])
@pytest.mark.parametrize("after", [0, 1, 5, 23])
def test_a_stopped_run_goes_on(tmp_path, folder, after, error):
    path = tmp_path / "journal"
    with pytest.raises(type(error)):
        Local().tally(CHOSEN, folder, journal=path, progress=stopping(after, error))
    assert counted(path) == after + 1
    done: list[Piece] = []
    real = local_module.tallied

    def seen(plan: Any, piece: Piece, *how: Any) -> Any:
        done.append(piece)
        return real(plan, piece, *how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_module, "tallied", seen)
        rows_told: list[int] = []
        assert Local().tally(CHOSEN, folder, journal=path, progress=rows_told.append).to_bytes() == RIGHT
    assert len(done) == 2 * FILES - after - 1
    assert sum(rows_told) == USERS  # what was counted before is told at once
    assert names_in(tmp_path) == ["journal", "reports"]


def test_stopped_again_and_again(tmp_path, folder):
    path = tmp_path / "journal"
    for _ in range(2 * FILES):
        try:
            found = Local().tally(CHOSEN, folder, journal=path, progress=stopping(2, StopError()))
        except StopError:
            continue
        break
    else:
        raise AssertionError("it never came to an end")
    assert found.to_bytes() == RIGHT


def test_a_run_that_was_finished_is_finished(tmp_path, folder):
    path = tmp_path / "journal"
    for _ in range(3):
        assert Local().tally(CHOSEN, folder, journal=path).to_bytes() == RIGHT
    assert counted(path) == 2 * FILES


def test_without_a_journal_nothing_is_written(tmp_path, folder):
    Local().tally(CHOSEN, folder)
    assert names_in(tmp_path) == ["reports"]


def test_nothing_counted_nothing_written(tmp_path):
    written(tmp_path / "x.parquet", rows("mixed", 0))
    Local().tally(CHOSEN, tmp_path / "x.parquet", journal=tmp_path / "journal")
    assert names_in(tmp_path) == ["x.parquet"]


def test_an_interruption_between_any_two_steps_of_counting(folder, often, tmp_path, monkeypatch):
    # Ctrl-C may come anywhere: at each step of `add` and of `save`. What is written down must fit itself.
    monkeypatch.setattr(os, "fsync", lambda number: None)
    path, finished = tmp_path / "journal", False
    files = report_files(folder / "00.parquet", CHOSEN)
    tallies = {piece: tallied(CHOSEN, piece) for file in files for piece in file.pieces}
    right = merged_tallies(tally for some in tallies.values() for tally in some)
    own = {Journal.add.__code__, Journal.save.__code__}
    stopped_at = set()
    for stop in range(1, 400):
        path.unlink(missing_ok=True)
        book, steps = Journal.at(path, CHOSEN), 0

        def trace(frame: Any, event: str, argument: Any, stop: int = stop) -> Any:
            nonlocal steps
            if frame.f_code not in own:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                steps += 1
                if steps == stop:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            for piece, some in tallies.items():
                book.add(piece, *some)
            finished = True
        except KeyboardInterrupt:
            finished = False
        finally:
            sys.settrace(before)
        if finished:
            break
        book.save()
        again = Journal.at(path, CHOSEN)  # which compares the tally with the rows of the pieces
        left = again.left(files)
        stopped_at.add(len(left))
        for piece in left:
            again.add(piece, *tallies[piece])
        assert merged_tallies(again.tallies) == right
    assert finished
    assert stopped_at == {0, 1, 2}


SCRIPT = """
import os, random, signal, sys, time
from pathlib import Path
from dither import Plan
from dither.engines import journal
from dither.engines.local import Local
stored, folder, path, output = sys.argv[1:]
journal._PAUSE = -1.0
plan, rng = Plan.from_json(Path(stored).read_text()), random.Random(5)
os.environ["DITHER_THREADS"] = "1"
Local().tally(plan, folder)  # compiles; a process with threads should not fork

def run(told):
    total = Local().tally(plan, folder, journal=path, progress=lambda rows: os.write(told, b"."))
    Path(output + ".part").write_bytes(total.to_bytes())  # it may be killed while it writes
    os.replace(output + ".part", output)
    os._exit(0)

killed = 0
while not os.path.exists(output):
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        os.close(heard)
        os.environ["DITHER_THREADS"] = "2"
        run(told)
    os.close(told)
    if killed < 8:
        for _ in range(1 + rng.randrange(6)):
            os.read(heard, 1)
        time.sleep(rng.random() * 0.01)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(heard)
    killed += os.WIFSIGNALED(status)
    assert killed < 100 and status in (0, signal.SIGKILL)
    state = journal.Journal.at(path, plan)
    print(sum(map(len, state.counted.values())), flush=True)
"""


@pytest.mark.wide
def test_a_killed_process_goes_on(tmp_path, folder):
    # Killed with no chance to tidy up, again and again, at moments that differ each time.
    output, stored = tmp_path / "tally", tmp_path / "plan.json"
    stored.write_text(CHOSEN.to_json())
    command = [sys.executable, "-c", SCRIPT, str(stored), str(folder), str(tmp_path / "journal"), str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counts = [int(line) for line in done.stdout.split()]
    assert len(counts) > 3
    assert counts == sorted(counts)
    assert counts[-1] == 2 * FILES
    assert output.read_bytes() == RIGHT
    assert Local().tally(CHOSEN, folder, journal=tmp_path / "journal").to_bytes() == RIGHT


def test_a_kill_while_the_journal_is_written_leaves_the_one_before(tmp_path, folder, often, monkeypatch):
    path = tmp_path / "journal"
    with pytest.raises(StopError):
        Local().tally(CHOSEN, folder, journal=path, progress=stopping(4, StopError()))
    before = path.read_bytes()

    def fail(*paths: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(WriteError, match=r"cannot write .*journal: no space left"):
        Local().tally(CHOSEN, folder, journal=path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert Local().tally(CHOSEN, folder, journal=path).to_bytes() == RIGHT
    assert names_in(tmp_path) == ["journal", "reports"]


def test_it_is_written_now_and_then(tmp_path, folder, monkeypatch):
    path, clock = tmp_path / "journal", [0.0]
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: clock[0])
    book = Journal.at(path, CHOSEN)
    book._saved = 0.0
    pieces = [piece for file in report_files(folder, CHOSEN) for piece in file.pieces]
    seen = []
    for piece in pieces[:8]:
        clock[0] += 0.7
        book.add(piece, *tallied(CHOSEN, piece))
        seen.append(counted(path))
    assert seen == [0, 0, 3, 3, 3, 6, 6, 6]


def test_a_failing_file_keeps_what_is_counted(tmp_path, folder):
    path, broken = tmp_path / "journal", folder / "11.parquet"
    data = broken.read_bytes()
    broken.write_bytes(data[:60] + bytes(60) + data[120:])
    with pytest.raises(ReportError, match=r"11\.parquet"):
        Local().tally(CHOSEN, folder, journal=path)
    assert 0 < counted(path) < 2 * FILES
    broken.write_bytes(data)  # copied again
    assert Local().tally(CHOSEN, folder, journal=path).to_bytes() == RIGHT


# Other files than before -------------------------------------------------------------------------------------------


def stopped(path: Path, folder: Path, after: int = 4) -> None:
    with pytest.raises(StopError):
        Local().tally(CHOSEN, folder, journal=path, progress=stopping(after, StopError()))


def test_files_in_another_order_and_place(tmp_path, folder):
    path = tmp_path / "journal"
    stopped(path, folder)
    moved = folder.rename(tmp_path / "moved")
    files = sorted(moved.iterdir(), reverse=True)
    assert Local().tally(CHOSEN, files, journal=path).to_bytes() == RIGHT


def test_more_files_than_before(tmp_path, folder):
    path, late = tmp_path / "journal", tmp_path / "late"
    late.mkdir()
    for name in ("00.parquet", "07.parquet"):
        shutil.move(folder / name, late / name)
    stopped(path, folder)
    assert Local().tally(CHOSEN, [folder, late], journal=path).to_bytes() == RIGHT


def test_files_that_are_gone(tmp_path, folder):
    path = tmp_path / "journal"
    Local().tally(CHOSEN, folder, journal=path)
    with pytest.raises(TallyError, match="has counted 11 files of those that are not named now"):
        Local().tally(CHOSEN, folder / "00.parquet", journal=path)
    (folder / "00.parquet").unlink()
    with pytest.raises(TallyError, match="has counted 1 file of those that are not named now"):
        Local().tally(CHOSEN, folder, journal=path)


def test_a_file_that_was_cut_in_other_groups_since(tmp_path, folder):
    # It has the number that it had, but its pieces are other rows.
    path, file = tmp_path / "journal", folder / "03.parquet"
    book = Journal.at(path, CHOSEN)
    (first, *_) = report_files(file, CHOSEN)[0].pieces
    book.add(first, *tallied(CHOSEN, first))
    book.save()
    some = pq.read_table(file)
    for height in (10, 50):
        pq.write_table(some, file, row_group_size=height)
        with pytest.raises(TallyError, match=r"03\.parquet was written anew since"):
            Local().tally(CHOSEN, folder, journal=path)


def test_a_file_without_a_number_that_was_replaced(tmp_path):
    path, file = tmp_path / "journal", written(tmp_path / "x.parquet", rows("mixed", USERS))
    Local().tally(CHOSEN, file, journal=path)
    assert Local().tally(CHOSEN, file, journal=path).to_bytes() == RIGHT
    written(file, rows("mixed", 500))
    with pytest.raises(TallyError, match="not named now, or were written anew"):
        Local().tally(CHOSEN, file, journal=path)


# Journals that are not to be believed ------------------------------------------------------------------------------


def test_the_journal_of_another_plan(tmp_path, folder):
    path = tmp_path / "journal"
    Local().tally(CHOSEN, folder, journal=path)
    other = made("ranges")
    with pytest.raises(TallyError, match=f"for plan {CHOSEN.fingerprint[:12]}, not for plan {other.fingerprint[:12]}"):
        Journal.at(path, other)


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 40, b"{}", bytes(32) + msgspec.msgpack.encode({})])
def test_what_is_no_journal(tmp_path, folder, content):
    (tmp_path / "journal").write_bytes(content)
    with pytest.raises(TallyError, match=r"is no journal of a tally, or is damaged; remove the journal"):
        Local().tally(CHOSEN, folder, journal=tmp_path / "journal")
    assert (tmp_path / "journal").read_bytes() == content


def test_a_folder_is_no_journal(tmp_path, folder):
    with pytest.raises(DitherError):
        Local().tally(CHOSEN, folder, journal=tmp_path)


def test_a_damaged_journal_is_found_out(tmp_path, folder):
    path = tmp_path / "journal"
    stopped(path, folder)
    data = path.read_bytes()
    rng = random.Random(3)
    for _ in range(200):
        place = rng.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :])
        with pytest.raises(TallyError, match="no journal of a tally, or is damaged"):
            Journal.at(path, CHOSEN)
    for cut in range(0, len(data), len(data) // 40):
        path.write_bytes(data[:cut])
        with pytest.raises(TallyError, match="no journal of a tally, or is damaged"):
            Journal.at(path, CHOSEN)
    path.write_bytes(data)
    assert Local().tally(CHOSEN, folder, journal=path).to_bytes() == RIGHT


def test_a_journal_that_does_not_fit_itself(tmp_path, folder):
    path = tmp_path / "journal"
    stopped(path, folder)
    book = Journal.at(path, CHOSEN)
    total, count = book._state
    for state in ((tuple(tally + tally for tally in total), count), (total, count - 1)):
        book._state = state
        book.save()
        with pytest.raises(TallyError, match="its tally is not of the pieces that it names"):
            Journal.at(path, CHOSEN)
    other = made("ranges").tally(reports("ranges", 10))
    book._state = ((other,), count)
    book.save()
    with pytest.raises(TallyError, match="belongs to another plan"):
        Journal.at(path, CHOSEN)


# Two at a time -----------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_two_runs_on_one_journal_count_nothing_twice(tmp_path, folder, often):
    path, found = tmp_path / "journal", []
    for _ in range(3):
        runs = [
            threading.Thread(target=lambda: found.append(Local().tally(CHOSEN, folder, journal=path).to_bytes()))
            for _ in range(3)
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        Journal.at(path, CHOSEN)  # fits itself
        assert Local().tally(CHOSEN, folder, journal=path).to_bytes() == RIGHT
        path.unlink()
    assert found == [RIGHT] * 9


def test_a_run_beside_one_that_was_stopped(tmp_path, folder, often):
    # One begins, another overtakes it and writes, the first is stopped and writes what it has: less, but true.
    path = tmp_path / "journal"

    def overtaken(done: int) -> None:
        if counted(path) < 4:
            return
        assert Local().tally(CHOSEN, folder, journal=path).to_bytes() == RIGHT
        raise StopError

    with pytest.raises(StopError):
        Local().tally(CHOSEN, folder, journal=path, progress=overtaken)
    assert 0 < counted(path) < 2 * FILES
    assert Local().tally(CHOSEN, folder, journal=path).to_bytes() == RIGHT
