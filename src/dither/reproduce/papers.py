"""Papers by number: their figures, tables and claims, found by name.

A paper is a folder of `papers/` with a file `paper.py` that holds a `PAPER`. The folder is beside `src` in a checkout,
and inside the package where it was installed from a wheel. It is loaded as a package whose name no import statement
could spell (`dither_papers.003`); its files import each other by relative imports.
"""

import difflib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from dither.errors import ParameterError
from dither.reproduce.claims import Claim
from dither.reproduce.experiments import Experiment
from dither.reproduce.fingerprints import PACKAGE
from dither.reproduce.measured import Measured
from dither.reproduce.paper_figures import Figure, PaperTable

EVERYTHING = "all"


@dataclass(frozen=True)
class Paper:
    """A paper: its number, what it is, what it shows and what it claims."""

    number: str
    title: str
    figures: Sequence[Figure | PaperTable]
    claims: Sequence[Claim]

    def __post_init__(self) -> None:
        names = [each.name for each in (*self.figures, *self.claims)]
        wrong = [name for name in names if not name.startswith(f"{self.number}.")]
        twice = {name for name in names if names.count(name) > 1}
        if wrong or twice:
            raise ParameterError(f"paper {self.number}: names that are not its own, or stand twice: {wrong or twice}")

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """All that it rests on, each once."""
        return _once(self.figures, self.claims)

    def folder(self) -> Path:
        """Where its files are."""
        return home() / self.number

    def kept(self) -> dict[str, Measured]:
        """The numbers that are in the repository, by experiment."""
        files = sorted((self.folder() / "results").glob("*.csv"))
        return {file.stem: Measured.from_csv(file.read_text()) for file in files}


@dataclass(frozen=True)
class Selection:
    """Some figures, tables and claims of one paper."""

    paper: Paper
    figures: Sequence[Figure | PaperTable]
    claims: Sequence[Claim]

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """What has to be measured for them."""
        return _once(self.figures, self.claims)


def _once(figures: Iterable[Figure | PaperTable], claims: Iterable[Claim]) -> tuple[Experiment, ...]:
    found = (experiment for each in (*figures, *claims) for experiment in each.experiments)
    return tuple({experiment.name: experiment for experiment in found}.values())


def home() -> Path:
    """The folder of all papers."""
    package = Path(__file__).parent
    for place in (package.parents[2] / "papers", package / "described_papers"):
        if place.is_dir():
            return place
    raise ParameterError("there are no papers beside this installation: take a checkout of the repository")


def numbers() -> list[str]:
    """The numbers of all papers that can be reproduced."""
    return sorted(path.parent.name for path in home().glob("*/paper.py"))


def load_paper(number: str) -> Paper:
    """One paper."""
    if PACKAGE not in sys.modules:
        package = ModuleType(PACKAGE)
        package.__path__ = [str(home())]
        sys.modules[PACKAGE] = package
    return import_module(f"{PACKAGE}.{number}.paper").PAPER


def select(names: Sequence[str]) -> list[Selection]:
    """What is meant by `all`, `003`, `003.fig6` or `003.claim12`, in the order of the papers."""
    papers = {number: load_paper(number) for number in numbers() if _asked(number, names)}
    known = [*numbers(), EVERYTHING] + [
        each.name for paper in papers.values() for each in (*paper.figures, *paper.claims)
    ]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 4, 0.5)
            hint = f"did you mean {', '.join(close)}?" if close else "dither reproduce --list names them"
            raise ParameterError(f"there is no figure, table, claim or paper called {name}: {hint}")
    return [_chosen(paper, names) for paper in papers.values()]


def _asked(number: str, names: Sequence[str]) -> bool:
    """Whether a paper has to be looked at; all of them, where a name belongs to none."""
    heads = {name.split(".")[0] for name in names}
    return number in heads or bool(heads - set(numbers()))


def _chosen(paper: Paper, names: Sequence[str]) -> Selection:
    if {EVERYTHING, paper.number} & set(names):
        return Selection(paper, paper.figures, paper.claims)
    figures = [each for each in paper.figures if each.name in names]
    wanted = {each.name for each in _once(figures, ())}
    claims = [
        each
        for each in paper.claims
        if each.name in names or (each.experiments and {one.name for one in each.experiments} <= wanted)
    ]
    return Selection(paper, figures, claims)
