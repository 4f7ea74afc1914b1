"""The command as a shell runs it: pipes, signals, full disks, exit codes, and what is imported."""

import io
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import dither
from cli.cases import command, done, environment, left_over, process
from dither.engines.report_rows import pack_rows
from dither.engines.report_rows import rows_schema as layout
from interrupts import hears_interrupts
from marks import wide

HEAVY = {"numpy", "pyarrow", "numba", "scipy", "pandas", "rich", "duckdb", "matplotlib"}


def test_the_command_itself_is_light():
    script = "import sys, dither.cli; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(found.stdout.split())
    script = (
        "import sys, dither.cli\ntry: dither.cli.main(['--version'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == f"dither, version {dither.__version__}\n"
    assert HEAVY.isdisjoint(found.stderr.split())


def test_exit_codes(plan, tmp_path):
    assert process("--version").returncode == 0
    assert process("tally", plan, tmp_path / "nope.parquet", "-o", tmp_path / "x").returncode == 1
    assert process("tally", plan).returncode == 2


# Pipes -------------------------------------------------------------------------------------------------------------


def test_randomize_into_tally_into_estimate(plan, people, tally):
    first = subprocess.Popen(
        command("randomize", plan, people, "-o", "-", "--seed", 1), stdout=subprocess.PIPE, env=environment()
    )
    assert first.stdout is not None
    second = subprocess.run(
        command("tally", plan, "-", "-o", "-"), stdin=first.stdout, capture_output=True, env=environment(), check=True
    )
    first.stdout.close()
    assert first.wait() == 0
    assert second.stdout == Path(tally).read_bytes()
    assert b"\r" not in second.stderr  # no bar where nobody looks
    third = process("estimate", plan, "-", "--json", input=second.stdout)
    assert third.returncode == 0
    assert third.stdout == process("estimate", plan, tally, "--json").stdout


@pytest.mark.wide
@pytest.mark.parametrize("what", [("mechanisms",), ("certify", "--json"), ("RANDOMIZE",)], ids=str)
def test_a_reader_who_has_had_enough(plan, people, tmp_path, what):
    if what == ("RANDOMIZE",):
        more = tmp_path / "more.csv"
        lines = Path(people).read_text().splitlines()
        more.write_text("\n".join([lines[0], *(lines[1:] * 60)]))
        what = ("randomize", plan, more, "-o", "-")
    running = subprocess.Popen(command(*what), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.read(10)
    running.stdout.close()
    told = running.stderr.read().decode()
    running.stderr.close()
    assert running.wait() in (0, 1)
    assert "Traceback" not in told
    assert "Error" not in told
    assert "Broken" not in told


# Interrupted -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """A plan, 100 files of reports, and their tally."""
    folder = tmp_path_factory.mktemp("many")
    schema = dither.Schema({"town": dither.Categorical([f"town {i}" for i in range(3000)])})
    plan = dither.plan(schema, 1.0, users=100_000)
    (folder / "plan.json").write_text(plan.to_json())
    (folder / "reports").mkdir()
    towns = np.array(schema["town"].labels)  # type: ignore[union-attr]
    for i in range(100):
        reports = plan.randomize({"town": towns[np.arange(i, i + 2000) % 3000]}, seed=i)
        table = pyarrow.Table.from_batches([pack_rows(plan, reports)]).replace_schema_metadata(layout(plan).metadata)
        pyarrow.parquet.write_table(table, folder / "reports" / f"{i:03}.parquet")
    done("tally", folder / "plan.json", folder / "reports", "-o", folder / "straight.tally")
    return folder


def started(many: Path, target: Path) -> subprocess.Popen[bytes]:
    """A tally that has begun to count. It writes its journal often, and each file takes a moment."""
    script = (
        "import time, dither.cli, dither.engines.journal as j, dither.engines.local as l\n"
        "j._PAUSE = 0.05\n"
        "real = l.tallied\n"
        "def slow(*given):\n    time.sleep(0.1)\n    return real(*given)\n"
        "l.tallied = slow\n"
        "dither.cli.main(prog_name='dither')"
    )
    journal = Path(f"{target}.progress")
    before = journal.stat().st_mtime_ns if journal.exists() else 0
    arguments = ["tally", str(many / "plan.json"), str(many / "reports"), "-o", str(target)]
    running = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=hears_interrupts,
    )
    for _ in range(600):
        if journal.exists() and journal.stat().st_mtime_ns != before:
            break
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    time.sleep(0.3)
    return running


@pytest.mark.wide
@pytest.mark.parametrize("number", [signal.SIGINT, wide(signal.SIGTERM), signal.SIGKILL])
def test_a_stopped_tally_goes_on(many, tmp_path, number):
    target = tmp_path / "part.tally"
    for _ in range(2 if number == signal.SIGINT else 1):
        running = started(many, target)
        running.send_signal(number)
        _, told = running.communicate(timeout=60)
        if number == signal.SIGKILL:
            assert running.returncode == -signal.SIGKILL
        else:
            assert running.returncode == 130
            line = told.decode()
            assert line.startswith("stopped: ")
            assert line.endswith(" of 200,000 reports are counted; run the same command again to go on\n")
            assert 0 < int(line.split()[1].replace(",", "")) < 200_000
            assert left_over(tmp_path) == []
        assert not target.exists()
        assert stat.S_IMODE(Path(f"{target}.progress").stat().st_mode) == 0o600
    last = process("tally", many / "plan.json", many / "reports", "-o", target)
    assert last.returncode == 0, last.stderr
    assert target.read_bytes() == (many / "straight.tally").read_bytes()
    assert not Path(f"{target}.progress").exists()
    assert left_over(tmp_path) == []


def randomizing(plan: str, people: str, target: Path) -> subprocess.Popen[bytes]:
    """A process that has begun to write reports, and waits for more records."""
    buffer, table = io.BytesIO(), pyarrow.csv.read_csv(people)
    with pyarrow.ipc.new_stream(buffer, table.schema) as stream:
        for _ in range(100):
            stream.write(table)
    running = subprocess.Popen(
        command("randomize", plan, "-", "-o", target),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=hears_interrupts,
    )
    assert running.stdin is not None
    running.stdin.write(buffer.getvalue()[:-8])  # without its end, so that more is waited for
    running.stdin.flush()
    for _ in range(400):
        if left_over(target.parent):
            break
        time.sleep(0.05)
    assert left_over(target.parent)
    return running


@pytest.mark.wide
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_nothing_of_a_killed_randomize_stays_beside_the_next(plan, people, tmp_path, ending):
    # The reports that it had written are a draw: with those of the next run they would tell twice as much.
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / f"reports.{ending}"
    running = randomizing(plan, people, target)
    running.kill()
    running.communicate()
    (left,) = folder.iterdir()
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    if ending == "arrow":  # also by a run that comes to nothing
        assert process("randomize", plan, folder / "nope.csv", "-o", target).returncode == 1
        assert not left.exists()
    again = process("randomize", plan, people, "-o", target)
    assert again.returncode == 0, again.stderr
    assert list(folder.iterdir()) == [target]


@pytest.mark.wide
@pytest.mark.parametrize("number", [wide(signal.SIGINT), signal.SIGTERM])
def test_a_stopped_randomize_leaves_nothing(plan, people, tmp_path, number):
    folder = tmp_path / "out"
    folder.mkdir()
    running = randomizing(plan, people, folder / "reports.parquet")
    time.sleep(1)  # until all is read: a signal between two reads is noticed only when more comes in
    running.send_signal(number)
    try:
        running.wait(timeout=20)  # standard input is still open
    finally:
        _, told = running.communicate()
    assert running.returncode == 130
    assert told.decode().endswith("stopped; no unfinished file is left\n")
    assert list(folder.iterdir()) == []


# A full disk -------------------------------------------------------------------------------------------------------


def short_of_space(size: int):
    """In a process of its own: no file may be longer, as on a full disk."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.parametrize(
    "arguments",
    [
        wide(("plan", "SCHEMA", "--epsilon", "1", "--users", "1000", "-o")),
        wide(("infer", "PEOPLE", "-o")),
        ("randomize", "PLAN", "PEOPLE", "-o"),
        ("tally", "PLAN", "REPORTS", "-o"),
        wide(("merge", "TALLY", "-o")),
        ("estimate", "PLAN", "TALLY", "-o"),
        wide(("estimate", "PLAN", "TALLY", "--html")),
    ],
    ids=lambda arguments: arguments[0] + arguments[-1],
)
@pytest.mark.parametrize("before", [wide(False), True], ids=["new", "there before"])
def test_a_full_disk(schema, plan, people, reports, tally, tmp_path, arguments, before):
    names = {"SCHEMA": schema, "PLAN": plan, "PEOPLE": people, "REPORTS": reports, "TALLY": tally}
    folder = tmp_path / "full"
    folder.mkdir()
    ending = {"randomize": "parquet", "estimate": "csv" if arguments[-1] == "-o" else "html"}.get(arguments[0], "any")
    target = folder / f"file.{ending}"
    was = Path(reports).read_bytes() if arguments[0] == "randomize" else b"as it was"
    if before:
        target.write_bytes(was)
    found = process(*(names.get(each, each) for each in arguments), target, preexec_fn=short_of_space(64))
    told = found.stderr.decode()
    assert found.returncode == 1, told
    assert "Traceback" not in told
    assert told.splitlines()[-1].startswith(f"Error: cannot write {target}"), told  # or what it has counted so far
    assert ": file too large. No part of it was left" in told
    assert [file.name for file in folder.iterdir()] == ([target.name] if before else [])
    assert not before or target.read_bytes() == was


@pytest.mark.wide
@pytest.mark.parametrize(
    "arguments",
    [
        ("randomize", "PLAN", "PEOPLE", "-o", "-"),
        ("tally", "PLAN", "REPORTS", "-o", "-"),
        wide(("merge", "TALLY", "-o", "-")),
        wide(("estimate", "PLAN", "TALLY")),
        ("estimate", "PLAN", "TALLY", "--json"),
        wide(("certify", "GRR", "k=4", "epsilon=1")),
    ],
    ids=" ".join,
)
def test_a_device_that_is_full(plan, people, reports, tally, arguments):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    names = {"PLAN": plan, "PEOPLE": people, "REPORTS": reports, "TALLY": tally}
    given = command(*(names.get(each, each) for each in arguments))
    with open("/dev/full", "wb") as full:
        found = subprocess.run(given, stdout=full, stderr=subprocess.PIPE, env=environment())
    told = found.stderr.decode()
    assert found.returncode == 1
    assert "Traceback" not in told
    assert "Exception ignored" not in told
    last = told.splitlines()[-1]
    assert last.startswith(("Error: cannot write standard output: ", "Error: cannot write the stream of reports: "))
    assert "no space left on device" in last


# Closed streams, and pipes with names --------------------------------------------------------------------------------


def shell(line: str, *arguments: object) -> tuple[int, str]:
    """A line of Bash, in which "$@" and $1 are the arguments; how it ends, and what is told at the end."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no Bash here")
    given = [bash, "-o", "pipefail", "-c", line, "bash", *map(str, arguments)]
    found = subprocess.run(given, capture_output=True, env=environment(), check=False)
    return found.returncode, found.stderr.decode().splitlines()[-1]


DITHER = f"{sys.executable} -m dither"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("tally $1 - -o $3 <&-", "standard input (-) is closed"),
        wide("estimate - $2 <&-", "standard input (-) is closed"),
        wide("estimate $1 - <&-", "standard input (-) is closed"),
        ("tally $1 $4 -o - >&-", "standard output (-) is closed"),
        ("tally $1 <(cat $4) -o $3", "is a pipe or a device, and no file: pipe the reports in, and name it -"),
        wide(
            "tally $1 /dev/stdin -o $3 < $4", "is a pipe or a device, and no file: pipe the reports in, and name it -"
        ),
        ("randomize $1 <(cat $4) -o $3", "is a pipe or a device, and no file: pipe the records in, and name it -"),
    ],
)
def test_streams_that_cannot_be_used(plan, tally, reports, tmp_path, line, reason):
    code, told = shell(f"{DITHER} {line}", plan, tally, tmp_path / "new.parquet", reports)
    assert code == 1
    assert told.startswith("Error: ")
    assert reason in told
    assert not (tmp_path / "new.parquet").exists()


@pytest.mark.wide
def test_a_producer_that_fails_in_the_middle(plan, people, tmp_path):
    rows = Path(people).read_text().splitlines()
    bad = tmp_path / "bad.csv"
    bad.write_text(
        "\n".join([rows[0], *(rows[1:] * 100), "9,7,5,nurse"])
    )  # an age that is too low, in the second batch
    line = f"{DITHER} randomize $1 $2 -o - 2>$4 | {DITHER} tally $1 - -o $3"
    code, told = shell(line, plan, bad, tmp_path / "pipe.tally", tmp_path / "told")
    assert code == 1
    assert "age" in (tmp_path / "told").read_text()
    assert told.startswith("Error: the stream of reports cannot be read: it is damaged, or was cut short")
    assert not (tmp_path / "pipe.tally").exists()
