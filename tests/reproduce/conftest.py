"""The made paper, for all tests of this folder."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dither.reproduce import papers
from reproduce.made_papers import EXPERIMENTS, PAPER, forget, write


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of papers, with this one in it; what was loaded is forgotten before and after."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a change within a second would not be seen
    folder = tmp_path / "papers"
    (folder / "900").mkdir(parents=True)
    write(folder, experiments=EXPERIMENTS, paper=PAPER)
    forget()
    monkeypatch.setattr(papers, "home", lambda: folder)
    yield folder
    forget()
