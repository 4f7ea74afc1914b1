"""A paper that is made for tests: small files in a folder, loaded as the real ones are."""

import linecache
import sys
from pathlib import Path
from textwrap import dedent

from dither.reproduce.fingerprints import PACKAGE

EXPERIMENTS = """
    from dither import GRR
    from dither.reproduce.experiments import Experiment, grid
    from dither.reproduce.measured import measured_value

    FACTOR = 2.0
    UNUSED = 7

    def doubled(value):
        "Twice as much."
        return FACTOR * value

    def measure(setting, seed):
        "The level, twice."
        yield measured_value(doubled(setting["level"]) + setting.get("users", 0), line="twice")
        yield measured_value(float(seed % 1000), line="noise")

    def mechanisms(setting):
        return [GRR(k=setting["level"] + 1, epsilon=1.0)]

    LEVELS = Experiment(
        "900.levels",
        measure,
        grid(level=(1, 2, 3)),
        {"smoke": 1, "quick": 2, "full": 4},
        size={"full": {"users": 1000}},
        only={"smoke": ({"level": 1}, {"level": 3})},
        mechanisms=mechanisms,
    )
"""
PAPER = """
    from dither.reproduce.claims import Claim, by_criterion, undecided
    from dither.reproduce.paper_figures import Figure, Line, Panel, PaperTable
    from dither.reproduce.papers import Paper

    from .experiments import LEVELS

    def rises(found):
        return by_criterion(found.value(level=3, line="twice") > found.value(level=2, line="twice"), "as measured")

    PAPER = Paper(
        "900",
        "A paper of tests",
        figures=(
            Figure(
                "900.fig1", "levels", LEVELS, x="level", lines=(Line("twice"), Line("noise", kind="control")),
                panels=(Panel("there"), Panel("not there", {"level": 17})),
            ),
            PaperTable("900.table1", "levels", LEVELS, rows="level", columns="line", printed={(1, "twice"): 2.5}),
        ),
        claims=(Claim("900.claim1", "it rises", "Fig. 1", (LEVELS,), rises),),
    )
"""


def write(folder: Path, **files: str) -> None:
    """Files of the paper, by name."""
    for name, text in files.items():
        (folder / "900" / f"{name}.py").write_text(dedent(text))


def forget() -> None:
    """Modules of papers are loaded anew, and their lines read again."""
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]
    linecache.checkcache()
