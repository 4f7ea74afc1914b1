"""A PostgreSQL server for tests: a real one, with its own folder and port, which can be killed and started again."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from glob import glob
from pathlib import Path

TOO_LONG = 60.0
MISSING = "there is no PostgreSQL on this machine: install Debian's postgresql, or put initdb on the PATH"


def binaries() -> Path | None:
    """Where PostgreSQL's programs are; Debian keeps them off the path."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += [Path(each) for each in sorted(glob("/usr/lib/postgresql/*/bin"))]
    return next((each for each in folders if (each / "initdb").exists() and (each / "postgres").exists()), None)


def as_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    return ["runuser", "-u", "postgres", "--"] if shutil.which("runuser") and _exists("postgres") else ["false"]


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


class Postgres:
    """A server in a folder."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None, MISSING
        self.programs, self.folder = found, Path(tempfile.mkdtemp(prefix="dither-postgres-"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.data = self.folder / "data"
        self._run("initdb", "-D", str(self.data), "-A", "trust", "-U", "dither", "-E", "UTF8", "--no-instructions")
        self.start()

    @property
    def address(self) -> str:
        return f"postgresql://dither@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *arguments: str) -> None:
        command = [*as_user(), str(self.programs / program), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=TOO_LONG, check=False)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder} -c max_connections=20"
        self._run("pg_ctl", "start", "-w", "-D", str(self.data), "-o", options, "-l", str(self.folder / "log"))

    def kill(self) -> None:
        """As a power failure would: all its processes at once."""
        number = int((self.data / "postmaster.pid").read_text().splitlines()[0])
        family = [number, *(each for each in _processes() if _fields(each)[1:2] == [str(number)])]
        for each in family:
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue
        end = time.monotonic() + TOO_LONG
        while time.monotonic() < end and any(_alive(each) for each in family):
            time.sleep(0.02)
        # Where nobody waits for the dead, their numbers stay taken, and a new server would believe that they live.
        for left in (self.data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")):
            left.unlink(missing_ok=True)

    def empty(self) -> None:
        """A database as new."""
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")

    def remove(self) -> None:
        """Stop it, and remove its folder."""
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "-D", str(self.data), "-m", "immediate")
        shutil.rmtree(self.folder, ignore_errors=True)


def _processes() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def _fields(number: int) -> list[str]:
    """The state of a process, its parent, and so on; nothing if it is gone."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _alive(number: int) -> bool:
    return _fields(number)[:1] not in ([], ["Z"])
