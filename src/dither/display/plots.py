"""Plots: lines with their names beside them, in colours that the colour-blind tell apart.

Matplotlib is needed only here, and only when something is drawn.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito, with dashes that can be told apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#A0457E", "#E69F00", "#56B4E9", "#000000")
ALONE = "#2B8CCB"  # one colour for all: it stands out from a white page and from a black one
DASHES: tuple[Any, ...] = (
    "solid",
    (0, (5, 2)),
    (0, (2.2, 1)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (1, 1.2)),
    (0, (8, 2)),
    "solid",
)
_KINDS = (".png", ".svg", ".pdf")

Lines = Mapping[str, NDArray[np.float64]]
Panel = tuple[str, NDArray[np.float64], Lines, float]  # the axis, its places, the lines, the place that is meant


def two_panels(
    left: Panel, right: Panel, *, titles: tuple[str, str], label: str, faint: Sequence[str] = ()
) -> "Figure":
    """Two log-log pictures beside each other that share a legend; `faint` lines are background."""
    figures = require("matplotlib.figure", "plot")
    figure = figures.Figure(figsize=(9.6, 4.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for place, (x_label, x, lines, here), title in zip(axes, (left, right), titles, strict=True):
        for number, (name, y) in enumerate(lines.items()):
            grey = name in faint
            place.plot(
                x,
                np.where(y > 0, y, np.nan),
                color="0.6" if grey else COLOURS[number % len(COLOURS)],
                linestyle=(0, (1, 1.5)) if grey else DASHES[number % len(DASHES)],
                linewidth=1.4 if grey else 2,
                label=name,
            )
        place.axvline(here, color="0.8", linewidth=1, zorder=0)
        place.set(xscale="log", yscale="log", xlabel=x_label, xlim=(x[0], x[-1]))
        if x[-1] < 1000 * x[0]:
            _plain_ticks(place.xaxis)
        place.set_title(title, loc="left", fontsize=10)
        tidy(place)
    low = min(float(np.nanmin(y)) for name, y in left[2].items() if name not in faint)
    high = max(float(np.nanmax(y)) for y in left[2].values())
    axes[0].set_ylim(low / 3, high * 1.5)
    axes[0].set_ylabel(label)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=9)
    return figure


def error_strips(ratios: Mapping[str, NDArray[np.float64]], *, label: str) -> "Figure":
    """For each name a strip of numbers around one: dots, the middle nine tenths as a bar, and the median."""
    figures = require("matplotlib.figure", "plot")
    figure = figures.Figure(figsize=(7.6, 1.2 + 0.5 * len(ratios)), layout="constrained")
    axes = figure.subplots()
    for place, values in enumerate(ratios.values()):
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
        heights = place + 0.26 * np.sin(np.arange(len(values)) * 2.4)  # spread without randomness
        axes.plot(values, heights, ".", color=COLOURS[0], alpha=0.35, markersize=4, zorder=2)
        axes.barh(place, high - low, left=low, height=0.62, color=COLOURS[5], alpha=0.35, zorder=1)
        axes.plot([middle, middle], [place - 0.31, place + 0.31], color=COLOURS[1], linewidth=2, zorder=3)
    axes.axvline(1.0, color="0.45", linewidth=1, linestyle=DASHES[1], zorder=0)
    axes.set(xlabel=label, yticks=range(len(ratios)), yticklabels=list(ratios), xlim=(0, None))
    axes.invert_yaxis()
    tidy(axes)
    return figure


def _plain_ticks(axis: "Axis") -> None:
    """Plain numbers where an axis has few powers of ten; those of the minor ticks would run into each other."""
    ticker = require("matplotlib.ticker", "plot")
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda number, _: f"{number:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def tidy(axes: "Axes") -> None:
    """A faint grid, on a light page as on a dark one, and no box."""
    axes.grid(color="0.5", alpha=0.16, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def saved(figure: "Figure", path: str | PathLike[str] | None = None) -> "Figure":
    """The figure, written to a file if a path is given."""
    check_picture(path)
    if path is not None:
        figure.savefig(path, dpi=130)
    return figure


def check_picture(path: str | PathLike[str] | None) -> None:
    """Refuse the name of a picture that cannot be drawn: also before the work that there is to draw."""
    if path is not None and Path(path).suffix not in _KINDS:
        raise ParameterError(f"a plot is saved as {', '.join(_KINDS)}: name the file so, as in error.png")
