"""Whoever stops a command that runs on Spark sees one line, and no traceback of Java, Py4J or Python; no Java stays."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.cases import environment
from dither.engines import spark_session
from dither.errors import MissingExtraError
from interrupts import hears_interrupts

if importlib.util.find_spec("pyspark") is None:
    pytest.skip("Spark is not tested: pip install 'dither[spark]'", allow_module_level=True)
try:
    spark_session.check_java()
except MissingExtraError as missing:
    pytest.skip(str(missing), allow_module_level=True)

# The command, which tells the id of Java as soon as it was started, and then sleeps within Java.
SCRIPT = """
import sys
import pyspark.java_gateway as gateways
import dither.cli
import dither.engines.spark_session as sessions

started, current = gateways.Popen, sessions.current

def start(*given, **options):
    process = started(*given, **options)
    print("starting", process.pid, flush=True)
    return process

def asleep():
    session = current()
    print("running", flush=True)
    with sessions.quiet():
        session._jvm.java.lang.Thread.sleep(120_000)
    return session

gateways.Popen, sessions.current = start, asleep
dither.cli.main(prog_name="dither")
"""


@pytest.mark.wide
@pytest.mark.parametrize(
    ("number", "moment", "everybody"),
    [
        (signal.SIGTERM, "starting", False),
        (signal.SIGTERM, "starting", True),  # as from a supervisor, to the whole process group
        (signal.SIGTERM, "running", False),
        (signal.SIGTERM, "running", True),
        (signal.SIGINT, "running", True),  # as from a terminal
    ],
)
def test_a_command_on_spark_is_stopped_without_a_traceback(plan, reports, tmp_path, number, moment, everybody):
    target = tmp_path / "stopped.tally"
    running = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "tally", plan, reports, "-o", str(target), "--engine", "spark"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
        preexec_fn=hears_interrupts,
        start_new_session=True,
    )
    assert running.stdout is not None
    java = int(running.stdout.readline().removeprefix("starting "))
    if moment == "running":
        assert running.stdout.readline() == "running\n"
    time.sleep(1.0)  # into the start of Java, or into the call that sleeps
    (os.killpg if everybody else os.kill)(running.pid, number)
    _, told = running.communicate(timeout=120)
    assert told == "stopped; no unfinished file is left\n"
    assert running.returncode == 130
    assert not target.exists()
    for _ in range(300):
        if not Path(f"/proc/{java}").exists():
            break
        time.sleep(0.1)
    else:
        os.kill(java, signal.SIGKILL)
        pytest.fail("Java stays when the command is over")
