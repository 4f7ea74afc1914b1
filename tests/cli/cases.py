"""What the tests of the command share: how it is run, and small files to run it on."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from dither.cli import main

PLAIN = {
    "COLUMNS": "100",
    "FORCE_COLOR": None,
    "NO_COLOR": "1",
    "TERM": "dumb",
    "DITHER_TRACEBACK": "1",  # what nobody foresaw fails the test, instead of being a message
}
MARKER = "7310473secret"  # stands in records, and nowhere else

SCHEMA = """
[age]
kind = "ordinal"
low = 18
high = 99
[income]
kind = "numeric"
low = 0
high = 200000
[job]
kind = "categorical"
labels = ["nurse", "driver", "other"]
"""


def run(*arguments: Any, stdin: bytes | None = None, env: dict[str, str | None] | None = None) -> Result:
    """The command, in this process."""
    return CliRunner(env={**PLAIN, **(env or {})}).invoke(main, [str(each) for each in arguments], input=stdin)


def done(*arguments: Any, stdin: bytes | None = None) -> Result:
    """The command, when all is well."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def printed(*arguments: Any) -> str:
    """What it prints when all is well and nothing is to be noted."""
    result = done(*arguments)
    assert result.stderr == ""
    return result.stdout


def facts(*arguments: Any, stdin: bytes | None = None) -> Any:
    """What it tells machines."""
    return json.loads(done(*arguments, "--json", stdin=stdin).stdout)


def refused(*arguments: Any, stdin: bytes | None = None) -> str:
    """The one line that a mistake is answered by."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)  # not an exception of the library, which would be a traceback
    assert result.stdout == ""
    *notes, last = result.stderr.splitlines()
    assert all(note.startswith(("note: ", "Warning: ")) for note in notes), result.stderr
    assert re.fullmatch("Error: .+", last), result.stderr
    assert MARKER not in result.output
    return last


def words(text: str) -> str:
    """The text without the layout of the table."""
    return " ".join(text.split())


def command(*arguments: Any) -> list[str]:
    """The command line that runs it in a process of its own."""
    return [sys.executable, "-m", "dither", *(str(each) for each in arguments)]


def process(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The command, in a process of its own."""
    return subprocess.run(command(*arguments), capture_output=True, env=environment(), check=False, **options)


def environment() -> dict[str, str]:
    """What a process of its own sees: what users have, so that they see what nobody foresaw as they would.

    It keeps nothing of what it compiles: on a full disk Python writes half a file, which all after it would read.
    """
    plain = {name: text for name, text in PLAIN.items() if text is not None and name != "DITHER_TRACEBACK"}
    plain["PYTHONDONTWRITEBYTECODE"] = "1"
    return {name: text for name, text in os.environ.items() if name != "DITHER_TRACEBACK"} | plain


def left_over(folder: Path) -> list[str]:
    """Temporary files that should not be there."""
    return [file.name for file in folder.rglob("*") if file.name.endswith(".part")]
