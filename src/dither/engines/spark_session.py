"""The Spark session that an engine runs on: the one that is there, or a quiet one on this machine.

A session of this process, or of the server that `SPARK_REMOTE` names, is taken as it is: its settings are its owner's.
Without one, a session on all cores of this machine is made, which listens to this machine only. It stays until the
process ends, because to start Java takes seconds.

Whoever stops the process meets no Java. It is in a process group of its own, which a signal to ours does not reach, and
ends by itself when we have ended. A signal that comes while it starts waits until it has started, since what is half
started would stay for ever. What Java says on its own account is shown only if it does not start; errors of a running
session come out in Python.
"""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dither.core.parallel import threads
from dither.errors import MissingExtraError, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17  # the oldest that Spark 4 runs on

_HERE = "127.0.0.1"
_LOG = Path(__file__).with_name("spark-log4j2.properties")
_SETTINGS = {
    "spark.app.name": "dither",
    "spark.driver.bindAddress": _HERE,
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
    "spark.driver.host": _HERE,
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 17),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_INSTALL = (
    f"install it (Debian and Ubuntu: apt install openjdk-{JAVA}-jre-headless; macOS: brew install openjdk@{JAVA}), or "
    "set JAVA_HOME to the folder of one. The local engine works without Java"
)


def current() -> "SparkSession":
    """The session of this process, or a new one."""
    sql = require("pyspark.sql", "spark")
    with quiet():
        found = _active(sql)
        if found is not None:
            return found
        remote = os.environ.get("SPARK_REMOTE", "")
        if not remote or remote.startswith("local"):
            check_java()
        if remote:
            return _connected(sql)
        if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit, which has its own settings
            return sql.SparkSession.builder.getOrCreate()
        return _made(sql)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what pyspark says on its own account: a warning about pandas, and copies of errors and interrupts."""
    log, root = logging.getLogger("SQLQueryContextLogger"), logging.getLogger()
    before = log.disabled
    root.addFilter(_not_of_py4j)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        log.disabled = True
        try:
            yield
        finally:
            log.disabled = before
            root.removeFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def check_java() -> None:
    """Refuse to start Spark where there is no Java, or one that is too old: its own error would not say what to do."""
    path, version = java()
    if path is None or version is None:
        home = os.environ.get("JAVA_HOME")
        where = f"in JAVA_HOME ({home})" if home else "on this machine"
        raise MissingExtraError(f"Spark needs Java {JAVA} or newer, and there is none {where}: {_INSTALL}")
    if version < JAVA:
        raise MissingExtraError(f"Spark needs Java {JAVA} or newer, and {path} is Java {version}: {_INSTALL}")


def java() -> tuple[str | None, int | None]:
    """The Java that Spark would start, and its version; None for what there is not."""
    path = _java()
    return path, None if path is None else _version(path)


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:  # Spark looks nowhere else then
        return shutil.which("java", path=str(Path(home) / "bin"))
    return shutil.which("java")


def _version(java: str) -> int | None:
    """The number that `java -version` tells; None where it does not run, as the stub of macOS."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else JAVA  # an unknown way to say it: let Spark try


def _active(sql: Any) -> "SparkSession | None":
    try:
        return sql.SparkSession.active()
    except Exception:  # pyspark has another error for it in each version
        return None


def _connected(sql: Any) -> "SparkSession":
    try:
        return sql.SparkSession.builder.getOrCreate()
    except ImportError:
        pass
    raise MissingExtraError(
        "SPARK_REMOTE names a Spark Connect server, which needs more: pip install 'pyspark[connect]'"
    )


def _made(sql: Any) -> "SparkSession":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or workers take the first python of the path
    settings = {"spark.master": f"local[{threads()}]", **_SETTINGS}
    builder = sql.SparkSession.builder.config(map=settings)
    given = os.environ.get("SPARK_LOCAL_IP")
    os.environ["SPARK_LOCAL_IP"] = given or _HERE  # or Spark wonders, aloud, which of the addresses to take
    try:
        with _undisturbed():
            if os.environ.get("SPARK_API_MODE", "classic") == "classic":
                _start_java(settings)
            return builder.getOrCreate()
    finally:
        if given is None:
            del os.environ["SPARK_LOCAL_IP"]


def _start_java(settings: dict[str, str]) -> None:
    """Java for this process, as pyspark starts it, but out of reach of signals to us, and quiet."""
    spark, gateways = require("pyspark", "spark"), require("pyspark.java_gateway", "spark")
    if spark.SparkContext._gateway is not None:  # of a session that was stopped
        return
    with tempfile.TemporaryFile() as told:
        try:
            gateway = gateways.launch_gateway(
                conf=spark.SparkConf(loadDefaults=False).setAll(list(settings.items())),
                popen_kwargs={"start_new_session": True, "stderr": told},
            )
        except Exception as error:
            told.seek(0)
            error.add_note(told.read().decode(errors="replace")[-2000:])
            raise
    spark.SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that would stop us wait until this is over."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(came[0])
