"""The pictures of these pages, drawn when the pages are built, so that they show what the code of today gives.

A page says `<!-- drawing: variance: what it shows -->`. This hook of MkDocs puts the picture there, with the words
behind the name as its alternative text. No picture is stored in the repository.

    python docs/drawings.py variance.png    draws one without building the pages (.svg, .png or .pdf)
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")  # no window is opened, and none is needed

import numpy as np
from matplotlib.figure import Figure

import dither

MARK = re.compile(r"<!-- drawing: (\w+): (.+?) -->", re.DOTALL)
FOLDER = "drawings"
DELTA_TEXT = "1e-6"

# Colours that the colour-blind tell apart (Okabe and Ito), and dashes that can be told apart in grey. Hybrid is broad
# and lies below the others, since it is equal to Duchi on the left and close to Piecewise on the right.
LINES: dict[str, tuple[Callable[[float], Any], str, Any]] = {
    "Hybrid": (dither.Hybrid, "0.72", "solid"),
    "Gaussian": (partial(dither.Gaussian, delta=float(DELTA_TEXT)), "#000000", (0, (1, 1.2))),
    "Laplace": (dither.Laplace, "#0072B2", (0, (5, 2))),
    "SquareWave": (dither.SquareWave, "#009E73", (0, (5, 1.5, 1, 1.5))),
    "Piecewise": (dither.Piecewise, "#D55E00", (0, (2.2, 1))),
    "Duchi": (dither.Duchi, "#A0457E", (0, (8, 1.5, 1, 1.5, 1, 1.5))),
}
APART = 0.048  # of an axis' height, between two labels


def variance() -> Figure:
    """The worst-case variance of one report against epsilon; above in numbers, below as a multiple of Hybrid's."""
    epsilon = np.geomspace(0.1, 8.0, 80)
    worst = {
        name: np.array([make(float(each)).reading.worst_variance() for each in epsilon])
        for name, (make, _, _) in LINES.items()
    }
    figure = Figure(figsize=(7.6, 8.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    above.set(yscale="log", ylim=(0.01, 1e4), ylabel="variance of one report (numbers in [-1, 1])")
    below.set(yscale="log", ylim=(0.9, 6.0), ylabel="the same, as a multiple of Hybrid's")
    below.set(xscale="log", xlim=(epsilon[0], epsilon[-1]), xlabel="epsilon")
    below.set_xticks([0.1, 0.2, 0.5, 1, 2, 4, 8], labels=["0.1", "0.2", "0.5", "1", "2", "4", "8"])
    below.set_yticks([1, 2, 3, 4, 5], labels=["1", "2", "3", "4", "5"])
    _lines(above, epsilon, worst)
    _lines(below, epsilon, {name: each / worst["Hybrid"] for name, each in worst.items() if name != "Gaussian"})
    above.set_title(f"Worst case over the user's number; Gaussian with delta = {DELTA_TEXT}", fontsize=10, loc="left")
    for axes in (above, below):
        axes.minorticks_off()
        axes.grid(color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _lines(axes: Any, x: Any, lines: dict[str, Any]) -> None:
    """Lines with their names: at the right end, pushed apart where they would touch, or where they leave at the top."""
    low, high = np.log(axes.get_ylim())
    taken = -1.0
    for name, y in sorted(lines.items(), key=lambda line: line[1][-1]):
        _, colour, dashes = LINES[name]
        broad = name == "Hybrid"
        axes.plot(x, y, color=colour, linestyle=dashes, linewidth=5.5 if broad else 1.8, zorder=2 if broad else 3)
        inside = np.flatnonzero(np.log(y) < high)[-1]
        if inside < len(x) - 1:
            spot, place = (x[inside], 1.0), {"xytext": (0, 4), "ha": "center", "va": "bottom", "fontsize": 9}
            axes.annotate(
                name, spot, xycoords=axes.get_xaxis_transform(), textcoords="offset points", color=colour, **place
            )
            continue
        taken = max((np.log(y[-1]) - low) / (high - low), taken + APART)
        axes.annotate(
            name,
            (1.0, taken),
            xycoords="axes fraction",
            xytext=(7, 0),
            textcoords="offset points",
            color="0.35" if broad else colour,
            va="center",
        )


DRAWINGS: dict[str, Callable[[], Figure]] = {"variance": variance}


def drawn(name: str, kind: str = "svg") -> bytes:
    """A drawing as the bytes of a file; the same bytes each time."""
    kept = BytesIO()
    with mpl.rc_context({"svg.hashsalt": "dither", "font.size": 10}):
        DRAWINGS[name]().savefig(kept, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return kept.getvalue()


# What MkDocs calls ---------------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    """Every drawing becomes a file of the site."""
    from mkdocs.structure.files import File

    for name in DRAWINGS:
        files.append(File.generated(config, f"{FOLDER}/{name}.svg", content=drawn(name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The drawing stands where the page asks for it. A name that nobody draws is a broken link: MkDocs refuses it."""
    up = "../" * page.file.src_uri.count("/")
    return MARK.sub(lambda found: f"![{' '.join(found[2].split())}]({up}{FOLDER}/{found[1]}.svg)", markdown)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_bytes(drawn(target.stem, target.suffix[1:]))
