"""The command line itself: its help, what it suggests for what was mistyped, and what shells complete."""

import os
import shutil
import subprocess
import sys

import click
import pytest

from cli.cases import environment, run
from dither.cli import _HOMES, _SENTENCES, main

HEAVY = ("numpy", "rich", "pyarrow", "dither.planning", "dither.core")


@pytest.mark.parametrize("name", list(_HOMES))
def test_the_help_lists_the_first_sentence_of_each_command(name):
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.get_short_help_str(10_000) == _SENTENCES[name]


def loaded(*arguments: str, **variables: str) -> tuple[str, list[str]]:
    """What the command prints, and which modules it loads for that."""
    script = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); import dither.cli\n"
    script += "dither.cli.main(prog_name='dither')"
    given = [sys.executable, "-c", script, *arguments]
    found = subprocess.run(given, capture_output=True, text=True, env={**environment(), **variables}, check=False)
    return found.stdout, found.stderr.splitlines()[-1].split()


def test_help_and_completion_load_no_command():
    told, modules = loaded("--help")
    assert "estimate" in told
    assert not {name for name in modules if name.startswith(HEAVY)}
    told, modules = loaded(_DITHER_COMPLETE="bash_complete", COMP_WORDS="dither es", COMP_CWORD="1")
    assert told == "plain,estimate\n"
    assert not {name for name in modules if name.startswith(HEAVY)}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["estimat"], "Did you mean 'dither estimate'?"),
        (["randomise"], "Did you mean 'dither randomize'?"),
        (["shufle"], "Did you mean 'dither shuffle'?"),
        (["help"], "Did you mean 'dither --help'?"),
        (["version"], "Did you mean 'dither --version'?"),
        (["key1"], "Did you mean 'dither key' or 'dither keys'?"),
        (["estimate", "--jsn"], "--json"),
        (["--versoin"], "--version"),
    ],
)
def test_what_was_mistyped(typed, meant):
    found = run(*typed)
    assert found.exit_code == 2
    assert meant in found.stderr


def test_what_is_like_nothing_is_not_guessed():
    found = run("xyzzy")
    assert (found.exit_code, "Did you mean" in found.stderr) == (2, False)


# Completion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shell", "marks"),
    [
        ("bash", ["_DITHER_COMPLETE=bash_complete", "complete -o nosort -F _dither_completion dither"]),
        ("zsh", ["#compdef dither", "_DITHER_COMPLETE=zsh_complete", "compdef _dither_completion dither"]),
        ("fish", ["_DITHER_COMPLETE=fish_complete", "complete --no-files --command dither"]),
    ],
)
def test_scripts_for_shells(shell, marks):
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("there is no Bash here, whose version is looked at")
    told, _ = loaded(_DITHER_COMPLETE=f"{shell}_source")
    for mark in marks:
        assert mark in told
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=told, text=True, check=True)  # it is a script of this shell


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("dither estimate --ref", {"plain,--refine"}),
        ("dither tally --engine s", {"plain,spark"}),
        ("dither d", {"plain,demo", "plain,doctor"}),
        ("dither --v", {"plain,--version"}),
    ],
)
def test_what_is_completed(words, found):
    told, _ = loaded(_DITHER_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")))
    assert set(told.split()) == found


def test_bash_completes_by_the_script(tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no Bash here")
    (tmp_path / "dither").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dither "$@"\n')
    (tmp_path / "dither").chmod(0o755)
    line = (
        'eval "$(_DITHER_COMPLETE=bash_source dither)"; COMP_WORDS=(dither est); COMP_CWORD=1; '
        '_dither_completion dither est dither; echo "${COMPREPLY[@]}"'
    )
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    found = subprocess.run(
        [bash, "-c", line], capture_output=True, text=True, env={**environment(), **path}, check=True
    )
    assert found.stdout == "estimate\n", found.stderr
