"""The floors of the house: the contracts hold, and would be broken if something went up."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("importlinter", reason="the floors are checked by import-linter: pip install 'dither[dev]'")


def linted(config: Path) -> subprocess.CompletedProcess[str]:
    """The contracts of a file, checked in a process of their own."""
    script = f"import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports({str(config)!r}))"
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_import_that_goes_up_is_noticed(tmp_path):
    """With two floors exchanged, what goes down in truth goes up."""
    text = (ROOT / "pyproject.toml").read_text()
    exchanged = text.replace(
        '    "mechanisms",\n    "schema | estimation",\n', '    "schema | estimation",\n    "mechanisms",\n'
    )
    assert exchanged != text
    changed = tmp_path / "pyproject.toml"
    changed.write_text(exchanged)
    done = linted(changed)
    assert done.returncode == 1
    assert "dither.mechanisms is not allowed to import dither.estimation" in done.stdout


def test_every_room_is_on_a_floor(tmp_path):
    text = (ROOT / "pyproject.toml").read_text()
    changed = tmp_path / "pyproject.toml"
    changed.write_text(text.replace('    "page",\n', ""))
    assert linted(changed).returncode == 1
    assert linted(ROOT / "pyproject.toml").returncode == 0
