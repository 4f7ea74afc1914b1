"""What the command says to do next can be typed as it is said, whatever the files are called."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.cases import done
from dither.cli.common import printable, shell_quoted
from marks import wide

NAMES = ['-it\'s "x"', wide("--json"), wide("a b"), wide("$HOME; *")]
HARD = ["-x", "--json", "a b", 'it\'s "so"', "$HOME; *", "new\nline", "\x1b[2J", "\udcff", "back\\slash'", "-"]


def next_of(told: str) -> list[str]:
    """The words of the command that is said to be next."""
    (line,) = re.findall(r"next: (?:read and edit .*; then )?dither (.*?)(?:    \(.*\))?$", told, re.MULTILINE)
    return shlex.split(line)


@pytest.mark.parametrize("name", NAMES)
def test_hints_are_followed(tmp_path, monkeypatch, people, schema, name):
    monkeypatch.chdir(tmp_path)
    own = "./" + name  # as who made the file had to type it
    found = done("infer", people, "-o", f"{own}.toml")
    assert next_of(found.stderr)[:2] == ["plan", f"{own}.toml"]
    shutil.copy(schema, f"{own}.toml")
    found = done("plan", f"{own}.toml", "--epsilon", 4, "--users", 2000, "-o", f"{own}.json")
    words = [people if word == "DATA" else word for word in next_of(found.stderr)]
    words[-1] = f"{name}.parquet"  # as the value of -o, this time without the folder
    found = done(*words)
    words = next_of(found.stderr)
    words[-1] = f"{name}.tally"
    found = done(*words)
    estimated = next_of(found.stderr)
    assert Path(estimated[2]) == Path(f"{name}.tally")
    found = done(*estimated)
    assert next_of(found.stderr)[:3] == estimated
    found = done("merge", own + ".tally", "-o", f"{name}.merged")
    assert next_of(found.stderr)[2].removeprefix("./") == f"{name}.merged"
    found = done("tally", own + ".json", own + ".parquet", "--add-to", f"{name}.all")
    done(*next_of(found.stderr))


@pytest.mark.parametrize("name", HARD)
def test_a_name_is_one_word_of_a_shell(name):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no Bash here")
    line = printable(f"printf %s {shell_quoted(name)}")
    found = subprocess.run([bash, "-c", line], capture_output=True, check=True, env={"HOME": "x", "LC_ALL": "C.UTF-8"})
    written = found.stdout.decode("utf-8", "surrogateescape")
    assert written.removeprefix("./") == name
    assert written == "-" or not written.startswith("-")
