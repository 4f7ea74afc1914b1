"""Estimates as pictures: points with their intervals, on a domain, along an axis or below each other.

Plain arrays and names come in. The colour is one that the colour-blind tell from the grey of axes, and all lines stand
out from a light page and from a dark one; text and background are those of matplotlib's style.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.display.distribution_plots import letter_size, shortened, steps
from dither.display.plots import ALONE, tidy
from dither.display.significant_digits import number
from dither.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Drawing = Callable[["Axes"], "Axes"]  # draws on axes

MOST_ITEMS = 30  # below each other
_MOST_POINTS = 40  # cells along an axis; more are steps with a band
_MOST_PANELS = 24
_ACROSS = 3  # panels beside each other
_POINT: dict[str, Any] = {"fmt": "o", "color": ALONE, "markersize": 5, "elinewidth": 1.6, "capsize": 0}


def new_axes(width: float = 6.4, height: float = 4.0) -> "Axes":
    """Axes of a figure of their own, in inches."""
    figure = require("matplotlib.figure", "plot").Figure(figsize=(width, height), layout="constrained")
    return figure.subplots()


def draw_number(
    ax: "Axes | None", name: str, value: float, low: float, high: float, ends: tuple[float, float], title: str
) -> "Axes":
    """One number with its interval, on its domain where that has two ends."""
    ax = new_axes(height=1.5) if ax is None else ax
    tidy(ax)
    if all(map(math.isfinite, ends)):
        ax.plot(ends, (0, 0), color="0.5", alpha=0.35, linewidth=5, solid_capstyle="round", zorder=1)
        room = 0.03 * (ends[1] - ends[0])
        ax.set_xlim(min(ends[0], low) - room, max(ends[1], high) + room)
    ax.errorbar([value], [0], xerr=_reach(value, low, high), **_POINT, zorder=3)
    ax.annotate(
        number(value, (high - low) / 4), (value, 0), (0, 8), textcoords="offset points", ha="center", fontsize=9
    )
    ax.set(xlabel=name, ylim=(-1, 1.2), yticks=[])
    ax.spines["left"].set_visible(False)
    return _titled(ax, title)


def draw_cells(
    ax: "Axes | None",
    edges: Floats,
    value: Floats,
    low: Floats,
    high: Floats,
    labels: tuple[str, str],
    title: str,
    *,
    zero: bool = False,
) -> "Axes":
    """Numbers of the cells of an axis: points in the middle of each, or steps with a band where there are many.

    Where sizes are to be compared, as those of shares, the picture starts at `zero`.
    """
    ax = new_axes() if ax is None else ax
    tidy(ax)
    if len(value) > _MOST_POINTS:
        steps(ax, edges, value, low, high)
    else:
        ax.errorbar((edges[1:] + edges[:-1]) / 2, value, yerr=_reach(value, low, high), **_POINT, zorder=3)
        ax.set_xlim(edges[0], edges[-1])
    if zero or ax.get_ylim()[0] <= 0 <= ax.get_ylim()[1]:
        ax.axhline(0, color="0.5", linewidth=0.8, zorder=1)
    ax.set(xlabel=labels[0], ylabel=labels[1])
    return _titled(ax, title)


def draw_rising(
    ax: "Axes | None",
    places: Floats,
    ends: tuple[float, float],
    value: Floats,
    low: Floats,
    high: Floats,
    labels: tuple[str, str],
    title: str,
) -> "Axes":
    """Shares that rise from 0 to 1 along an axis, known at some places: a line with a band."""
    ax = new_axes() if ax is None else ax
    tidy(ax)
    ax.fill_between(places, low, high, color=ALONE, alpha=0.25, linewidth=0)
    ax.plot(places, value, color=ALONE, linewidth=1.6, marker="o" if len(value) <= _MOST_POINTS else None, markersize=3)
    ax.set(xlabel=labels[0], ylabel=labels[1], xlim=ends, ylim=(-0.02, 1.02))
    return _titled(ax, title)


def draw_items(
    ax: "Axes | None",
    names: Sequence[str],
    value: Floats,
    low: Floats,
    high: Floats,
    label: str,
    title: str,
    *,
    zero: bool = False,
) -> "Axes":
    """Named numbers below each other, the first on top; from `zero` where sizes are to be compared."""
    ax = new_axes(height=1.1 + 0.26 * len(names)) if ax is None else ax
    tidy(ax)
    places = np.arange(len(names))
    ax.errorbar(value, places, xerr=_reach(value, low, high), **_POINT, zorder=3)
    if zero or ax.get_xlim()[0] <= 0 <= ax.get_xlim()[1]:
        ax.axvline(0, color="0.5", linewidth=0.8, zorder=1)
    ax.set_yticks(places, list(map(shortened, names)), fontsize=letter_size(len(names)))
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(len(names) - 0.4, -0.6), xlabel=label)
    return _titled(ax, title)


def draw_nothing(ax: "Axes | None", name: str) -> "Axes":
    """In place of numbers that are not known."""
    ax = new_axes(height=1.5) if ax is None else ax
    ax.text(0.5, 0.5, "no reports yet", ha="center", va="center", transform=ax.transAxes, color="0.5")
    ax.set(xticks=[], yticks=[], xlabel=name)
    ax.spines[:].set_visible(False)
    return ax


def small_multiples(drawings: Mapping[str, Drawing]) -> "Figure":
    """Pictures beside and below each other, each with its name; the figure says how many more there are."""
    shown = dict(list(drawings.items())[:_MOST_PANELS])
    across = min(_ACROSS, max(len(shown), 1))
    down = max(-(-len(shown) // across), 1)
    make = require("matplotlib.figure", "plot").Figure
    figure = make(figsize=(4.4 * across, 3.3 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel, (name, draw) in zip(panels, shown.items(), strict=False):
        draw(panel)
        below = panel.get_title(loc="left").rpartition("\n")[2]  # its first line is what was asked
        panel.set_title(f"{shortened(name, 48)}\n{below}" if below else shortened(name, 48), loc="left", fontsize=9)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    rest = len(drawings) - len(shown)
    if rest:
        figure.supxlabel(f"... and {rest:,} more", fontsize=9)
    return figure


def _reach(value: Floats | float, low: Floats | float, high: Floats | float) -> Floats:
    """How far intervals go to either side; none where an error is not known."""
    reach = np.stack([np.atleast_1d(value - low), np.atleast_1d(high - value)])
    return np.where(np.isfinite(reach), np.maximum(reach, 0.0), 0.0)


def _titled(ax: "Axes", title: str) -> "Axes":
    ax.set_title(title, loc="left", fontsize=10)
    return ax
