"""A stream on Spark, for real: killed between its sink and Spark's commit, it counts each report once."""

import os
import signal
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

from dither.engines import spark_session as sessions
from dither.engines.local import Local
from dither.engines.report_rows import rows_schema
from dither.engines.tally_folder import TallyFolder
from dither.errors import MissingExtraError
from engines.cases import made, rows, written

if find_spec("pyspark") is None:
    pytest.skip("Spark is not tested: pip install 'dither[spark]'", allow_module_level=True)
try:
    sessions.check_java()
except MissingExtraError as missing:
    pytest.skip(f"Spark is not tested, since there is no Java 17: {missing}", allow_module_level=True)

pytestmark = [pytest.mark.wide]

PLAN = made("mixed")
OTHER = made("one question")

# A program that streams a folder. Told a batch, it kills itself, and Java, when the tally of it was written.
PROGRAM = textwrap.dedent("""
    import os, signal, subprocess, sys
    from pathlib import Path
    import dither
    from dither.engines import Spark, spark_session
    from dither.engines.tally_folder import TallyFolder

    folder, fatal = Path(sys.argv[1]), int(sys.argv[2])
    put = TallyFolder.put

    def put_and_die(self, number, tally):
        put(self, number, tally)
        print("wrote", number, flush=True)
        if number == fatal:
            from pyspark import SparkContext
            os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    TallyFolder.put = put_and_die
    plan = dither.Plan.from_json((folder / "plan.json").read_text())
    stream = Spark().stream(
        plan, folder / "reports", folder / "tallies", folder / "checkpoint", files_per_batch=1
    )
    try:
        stream.wait()
        print("total", stream.total().reports, flush=True)
    except dither.errors.DitherError as error:
        print(type(error).__name__, error, flush=True)
""")


def run(folder: Path, fatal: int = -1) -> tuple[int, list[str]]:
    """Run the program; its exit code, and what it printed."""
    source = Path(__file__).parents[2] / "src"
    environment = {
        **os.environ,
        "DITHER_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH", "")])),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(fatal)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout.splitlines()


def test_a_crash_between_sink_and_commit_replays_the_batch_and_counts_it_once(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    reports, checkpoint = tmp_path / "reports", tmp_path / "checkpoint"
    (reports / "inside").mkdir(parents=True)
    whole = pa.table(rows("mixed", 700, seed=None))
    cuts = [(0, 300), (300, 250), (550, 150)]
    for number, (start, size) in enumerate(cuts):
        path = reports / "inside" / f"{number}.parquet"
        written(path, whole.slice(start, size).cast(rows_schema(PLAN)), group=90)

    code, told = run(tmp_path, fatal=1)
    assert code == -signal.SIGKILL
    assert told == ["wrote 0", "wrote 1"]
    names = {name: {each.name for each in (checkpoint / name).iterdir()} for name in ("offsets", "commits")}
    assert "1" in names["offsets"]  # begun,
    assert "1" not in names["commits"]  # not committed,
    assert TallyFolder(str(tmp_path / "tallies")).batches() == [0, 1]  # and in the sink

    code, told = run(tmp_path)
    assert (code, told) == (0, ["wrote 1", "wrote 2", f"total {whole.num_rows}"])
    total = TallyFolder(str(tmp_path / "tallies")).total(PLAN)
    assert total == Local().tally(PLAN, reports)
    assert total.reports == whole.num_rows

    # A new file, one of another plan, goes no further: the stream stops, and nothing of it is counted.
    written(reports / "strange.parquet", pa.table(rows("one question", 5, seed=None)))
    code, told = run(tmp_path)
    assert (code, len(told)) == (0, 1)
    assert told[0].startswith("InvalidReportError row 0 belongs to another plan")
    assert TallyFolder(str(tmp_path / "tallies")).total(PLAN) == total

    # Without its checkpoint the stream would begin at batch 0 again, in the place of another.
    (reports / "strange.parquet").unlink()
    checkpoint.rename(tmp_path / "lost")
    code, told = run(tmp_path)
    assert (code, len(told)) == (0, 1)
    assert "before its checkpoint was removed" in told[0]
    assert TallyFolder(str(tmp_path / "tallies")).total(PLAN) == total
