"""Files appear whole or not at all, whatever happens while they are written."""

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dither.core import atomic_write as writing
from dither.core.atomic_write import atomic_folder, atomic_path, write_bytes, write_text
from dither.errors import DitherError, DitherWarning, WriteError
from interrupts import hears_interrupts


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("name", ["a.txt", "a", ".a", "ä 1.txt", "x" * 255, "漢" * 80 + ".parquet", "new\nline", "-"])
def test_a_file_is_there_at_the_end(tmp_path, name):
    path = tmp_path / name
    with atomic_path(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".")
        assert not path.exists()
        temporary.write_bytes(b"all of it")
        assert not path.exists()
    assert path.read_bytes() == b"all of it"
    assert names(tmp_path) == [name]


def test_texts_and_bytes(tmp_path):
    write_text(tmp_path / "text", "ä\n")
    write_bytes(str(tmp_path / "bytes"), b"\0\n")
    assert (tmp_path / "text").read_bytes() == "ä\n".encode()
    assert (tmp_path / "bytes").read_bytes() == b"\0\n"


def test_nothing_written_is_an_empty_file(tmp_path):
    with atomic_path(tmp_path / "a"):
        pass
    assert (tmp_path / "a").read_bytes() == b""


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), MemoryError()])
@pytest.mark.parametrize("before", [None, b"old"])
def test_an_error_leaves_what_was_there(tmp_path, error, before):
    path = tmp_path / "a"
    if before is not None:
        path.write_bytes(before)

    def write() -> None:
        with atomic_path(path) as temporary:
            temporary.write_bytes(b"half of")
            raise error

    with pytest.raises(type(error)) as caught:
        write()
    assert caught.value is error
    assert names(tmp_path) == ([] if before is None else ["a"])
    assert before is None or path.read_bytes() == before


def test_an_error_where_the_temporary_file_is_gone(tmp_path):
    def write() -> None:
        with atomic_path(tmp_path / "a") as temporary:
            temporary.unlink()

    with pytest.raises(WriteError, match=r"cannot write .*a: no such file"):
        write()
    assert names(tmp_path) == []


def test_a_file_is_replaced_in_one_step(tmp_path):
    # A reader that looks all the time meets only whole files, and always one.
    path, seen, done = tmp_path / "a", set(), threading.Event()
    write_bytes(path, b"0" * 10_000)

    def look() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for digit in b"123456789" * 5:
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                for _ in range(10):
                    file.write(bytes([digit]) * 1000)
                    file.flush()
    finally:
        done.set()
        reader.join()
    assert len(seen) > 1
    assert all(len(data) == 10_000 and len(set(data)) == 1 for data in seen)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o007])
def test_who_may_read_a_new_file_is_the_user_s_choice(tmp_path, mask):
    before = os.umask(mask)
    try:
        with atomic_path(tmp_path / "a") as temporary:
            assert stat.S_IMODE(temporary.stat().st_mode) == 0o600  # nobody else, until it is whole
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_who_may_read_a_file_stays_as_it_was(tmp_path, mode):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(mode)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_text() == "new"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "a", tmp_path / "link"
    link.symlink_to(target)  # which is not there yet
    write_text(link, "one")
    assert target.read_text() == "one"
    write_text(link, "two")
    assert link.is_symlink()
    assert target.read_text() == "two"
    assert not target.is_symlink()
    assert names(tmp_path / "far") == ["a"]
    assert names(tmp_path) == ["far", "link"]


def test_a_device_is_written_to(tmp_path):
    with atomic_path("/dev/null") as path:
        assert path == Path("/dev/null")
        path.write_bytes(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(WriteError, match="no space left on device"):
        write_bytes("/dev/full", b"x" * 100_000)


def test_a_pipe_is_written_to(tmp_path):
    path, found = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    write_bytes(path, b"through")
    reader.join()
    assert found == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


def test_a_pipe_whose_reader_has_gone(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def write() -> None:
        with atomic_path(path) as target, target.open("wb", buffering=0) as file:
            os.close(reader)
            file.write(b"x")

    with pytest.raises(BrokenPipeError):  # which commands end quietly on
        write()


@pytest.mark.parametrize("name", ["missing/a", "missing/far/a", "file/a"])
def test_a_folder_that_is_not_there(tmp_path, name):
    (tmp_path / "file").write_text("x")
    with pytest.raises(WriteError, match=r"cannot write .*: (no such file or|not a) directory") as caught:
        write_text(tmp_path / name, "x")
    assert str(tmp_path / name) in str(caught.value)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("path", [".", "", "/", "..", "folder", "folder/"])
def test_a_folder_is_no_file(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(WriteError, match="it is a folder"):
        write_text(path, "x")
    assert names(tmp_path) == ["folder"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_folder_that_may_not_be_written_to(tmp_path):
    (tmp_path / "folder").mkdir(mode=0o500)
    with pytest.raises(WriteError, match="permission denied"):
        write_text(tmp_path / "folder" / "a", "x")


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(WriteError, match="file name too long"):
        write_text(tmp_path / ("x" * 256), "x")
    assert names(tmp_path) == []


def test_errors_of_the_system_are_told_without_a_trace(tmp_path):
    with pytest.raises(WriteError) as caught:
        write_text(tmp_path / "missing" / "a", "x")
    assert isinstance(caught.value, DitherError)
    assert isinstance(caught.value, OSError)
    assert caught.value.__cause__ is None
    assert str(caught.value).endswith("No part of it was left behind")


def test_what_dither_says_is_not_said_twice(tmp_path):
    def write() -> None:
        with atomic_path(tmp_path / "outer"), atomic_path(tmp_path / "missing" / "inner"):
            pass

    with pytest.raises(WriteError) as caught:
        write()
    assert str(caught.value).count("cannot write") == 1
    assert "inner" in str(caught.value)
    assert names(tmp_path) == []


def test_it_is_on_the_disk_before_it_is_there(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(writing.os, "fsync", lambda number: (steps.append("settle"), fsync(number)))
    monkeypatch.setattr(writing.os, "replace", lambda *paths: (steps.append("replace"), replace(*paths)))
    write_text(tmp_path / "a", "x")
    assert steps == ["settle", "replace", "settle"]


def test_a_disk_that_is_full_only_at_the_end(tmp_path, monkeypatch):
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_text("old")
    monkeypatch.setattr(writing.os, "fsync", full)
    with pytest.raises(WriteError, match="no space left on device"):
        write_text(tmp_path / "a", "new")
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_a_folder_that_cannot_be_settled(tmp_path, monkeypatch):
    fsync = os.fsync

    def picky(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(22, "Invalid argument")
        fsync(number)

    monkeypatch.setattr(writing.os, "fsync", picky)
    write_text(tmp_path / "a", "x")
    assert names(tmp_path) == ["a"]


# Killed --------------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from dither.core.atomic_write import atomic_folder, atomic_path
if sys.argv[2] == "folder":
    with atomic_folder(sys.argv[1]) as temporary:
        temporary.mkdir()
        (temporary / "1.parquet").write_bytes(b"half of")
        print("ready", flush=True)
        sys.stdin.read()
else:
    with atomic_path(sys.argv[1]) as temporary, temporary.open("wb") as file:
        file.write(b"half of"); file.flush()
        print("ready", flush=True)
        sys.stdin.read()
"""


def writer(target: Path, kind: str = "file") -> subprocess.Popen[bytes]:
    """A process in the middle of writing; it ends when its standard input does."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(target), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=hears_interrupts,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_stopped(tmp_path, kind):
    (tmp_path / "a").write_text("old")
    process = writer(tmp_path / "a")
    process.send_signal(kind)
    process.communicate()
    assert process.returncode != 0
    assert (tmp_path / "a").read_text() == "old"
    left = [tmp_path / name for name in names(tmp_path) if name != "a"]
    assert [stat.S_IMODE(each.stat().st_mode) for each in left] == [0o600] * (kind == signal.SIGKILL)
    write_text(tmp_path / "a", "new")  # the next run removes what the killed one has left
    assert names(tmp_path) == ["a"]


def test_a_run_that_is_alive_keeps_its_file(tmp_path):
    first, other = writer(tmp_path / "a"), writer(tmp_path / "a.b")
    killed = writer(tmp_path / "a")
    killed.kill()
    killed.communicate()
    assert len(names(tmp_path)) == 3
    write_text(tmp_path / "a", "second")
    assert len(names(tmp_path)) == 3  # of the killed one nothing, of the others their own
    for each, target in ((first, "a"), (other, "a.b")):
        each.communicate()  # they go on, and end
        assert each.returncode == 0
        assert (tmp_path / target).read_bytes() == b"half of"  # the last to end
    assert names(tmp_path) == ["a", "a.b"]


def test_a_folder_is_there_at_the_end_and_its_owners_before(tmp_path):
    target = tmp_path / "reports"
    with atomic_folder(target) as temporary:
        assert not target.exists()
        assert stat.S_IMODE(temporary.parent.stat().st_mode) == 0o700
        temporary.mkdir()
        (temporary / "1").write_text("x")
    assert names(tmp_path) == ["reports"]
    assert names(target) == ["1"]

    def again() -> None:
        with atomic_folder(target) as temporary:
            temporary.mkdir()

    with pytest.raises(WriteError, match="not empty"):  # nothing is written over
        again()
    assert names(tmp_path) == ["reports"]

    def stopped() -> None:
        with atomic_folder(tmp_path / "other") as temporary:
            temporary.mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert names(tmp_path) == ["reports"]


def test_a_folder_of_a_process_that_was_killed(tmp_path):
    process, alive = writer(tmp_path / "reports", "folder"), writer(tmp_path / "reports", "folder")
    process.kill()
    process.communicate()
    assert len(names(tmp_path)) == 2
    with atomic_folder(tmp_path / "reports") as temporary:
        assert len(names(tmp_path)) == 2  # that of the run that is alive, and this one's
        temporary.mkdir()
    alive.communicate()
    assert alive.returncode == 0  # an empty folder was there, which it takes the place of
    assert names(tmp_path) == ["reports"]
    assert names(tmp_path / "reports") == ["1.parquet"]


@pytest.mark.parametrize("name", ["a", "x" * 200, "a.b*[c]"])
def test_what_was_left_is_known_by_the_whole_name(tmp_path, name):
    def left(of: str) -> Path:
        found = writing._hidden(tmp_path / of)
        found.write_text("half of")
        return found

    own, foreign = left(name), [left(name + "y"), left("y" + name), tmp_path / f".{name[:20]}.part"]
    foreign[-1].write_text("of the user")
    write_text(tmp_path / name, "x")
    assert not own.exists()
    assert all(each.exists() for each in foreign)


def test_without_locks_the_last_run_takes_the_place(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "locked", lambda number: None)

    def write() -> None:
        with atomic_path(tmp_path / "a"):
            write_text(tmp_path / "a", "second")

    with pytest.raises(WriteError, match="no such file"):  # the first run fails aloud
        write()
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "second"


def test_a_file_that_was_taken_for_abandoned_is_made_again(tmp_path, monkeypatch):
    # Another run may look between the moment a file is made and the moment it is locked.
    real, answers = writing.locked, [False, True]
    monkeypatch.setattr(writing, "locked", lambda number: real(number) and (answers.pop(0) if answers else True))
    write_text(tmp_path / "a", "x")
    assert not answers
    assert names(tmp_path) == ["a"]


def test_what_cannot_be_removed_is_told(tmp_path, monkeypatch):
    left = writing._hidden(tmp_path / "a")
    left.write_text("half of")
    monkeypatch.setattr(writing, "_discard", lambda place: None)
    with pytest.warns(DitherWarning, match=r"was left by a run that was stopped.*remove it"):
        write_text(tmp_path / "a", "x")


def test_what_is_private_stays_so(tmp_path):
    path = tmp_path / "a"
    for _ in range(2):
        write_bytes(path, b"x", private=True)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)
