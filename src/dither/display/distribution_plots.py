"""Distributions as pictures: one attribute as steps with a band, labels as bars, two attributes as a heat map."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.display.plots import ALONE, tidy
from dither.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis

Floats = NDArray[np.float64]

_MOST_BARS = 40
_TICKS = 24  # labels along a side of a heat map
_LONGEST = 20  # letters of a label
_UNEVEN = 20  # the largest share over the mean: from here on few cells would take all colours


class Side(NamedTuple):
    """What stands along a side of a picture: a name, where cells begin and end, and labels where values have some."""

    name: str
    edges: Floats
    labels: Sequence[str] | None = None
    unit: str = "value"  # what a cell is: a single value, or a "cell" of several


def draw_marginal(ax: "Axes", side: Side, value: Floats, low: Floats, high: Floats, title: str) -> "Axes":
    """Shares with their intervals: steps, or bars where values are labels."""
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    if side.labels is not None:
        tidy(ax)
        _bars(ax, side.labels, value, low, high)
        ax.set_ylabel(side.name)
    else:
        steps(ax, side.edges, value, low, high)
        ax.set(xlabel=side.name, ylabel=f"share of users per {side.unit}")
        ax.set_ylim(bottom=0)
        tidy(ax)
    ax.set_title(title, loc="left", fontsize=10)
    return ax


def draw_heat_map(ax: "Axes", first: Side, second: Side, table: Floats) -> "Axes":
    """A table of shares, the first side along x; colours are shares of users."""
    rare = float(table.max()) > _UNEVEN * float(table.mean())
    norm = require("matplotlib.colors", "plot").PowerNorm(0.5 if rare else 1.0, vmin=0.0, vmax=float(table.max()))
    drawn = ax.pcolormesh(first.edges, second.edges, table.T, cmap="cividis", norm=norm, rasterized=True)
    bar = ax.figure.colorbar(drawn, ax=ax, label="share of users")
    bar.outline.set_visible(False)
    ax.set(xlabel=first.name, ylabel=second.name)
    for axis, side in ((ax.xaxis, first), (ax.yaxis, second)):
        if side.labels is not None:
            _label_ticks(axis, side.labels)
    ax.spines[:].set_visible(False)
    return ax


def steps(ax: "Axes", edges: Floats, value: Floats, low: Floats, high: Floats) -> None:
    """Cells of an axis as one line of steps, with a band from `low` to `high` where these are known."""
    table = np.stack([value, low, high])
    changed = np.flatnonzero(np.append(True, (np.diff(table, axis=1) != 0).any(axis=0)))  # even pieces are one step
    value, low, high = table[:, changed]
    edges = np.append(edges[changed], edges[-1])
    if np.isfinite(low).all() and np.isfinite(high).all():
        ax.stairs(high, edges, baseline=low, fill=True, color=ALONE, alpha=0.25, linewidth=0)
    ax.stairs(value, edges, baseline=None, color=ALONE, linewidth=1.6)
    ax.set_xlim(edges[0], edges[-1])


def _bars(ax: "Axes", labels: Sequence[str], value: Floats, low: Floats, high: Floats) -> None:
    shown = np.arange(len(value))
    if len(value) > _MOST_BARS:
        shown = np.sort(np.argsort(-value, kind="stable")[:_MOST_BARS])
    places = np.arange(len(shown))
    reach = np.abs(np.stack([value - low, high - value]))[:, shown]
    ax.barh(places, value[shown], color=ALONE, alpha=0.5, height=0.7)
    ax.errorbar(value[shown], places, xerr=reach, fmt="none", ecolor="0.45", elinewidth=1.2, capsize=2)
    ax.set_yticks(places, [shortened(labels[int(number)]) for number in shown], fontsize=letter_size(len(shown)))
    ax.grid(visible=False, axis="y")
    ax.invert_yaxis()
    rest = len(value) - len(shown)
    ax.set_xlabel("share of users" + (f" (the {len(shown)} largest; {rest:,} more)" if rest else ""))
    ax.set_xlim(left=0)


def _label_ticks(axis: "XAxis | YAxis", labels: Sequence[str]) -> None:
    places = range(0, len(labels), -(-len(labels) // _TICKS))
    slanted = axis.axis_name == "x" and sum(map(len, labels)) > 40
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axis.set_ticks(
        list(places), [shortened(labels[place]) for place in places], fontsize=letter_size(len(places)), **turned
    )


def letter_size(labels: int) -> float:
    """Of letters, so that so many labels have room."""
    return 10.0 if labels <= 12 else 8.0 if labels <= 24 else 6.5


def shortened(label: str, longest: int = _LONGEST) -> str:
    """Names that differ do so at their ends more often than in the middle."""
    return label if len(label) <= longest else f"{label[: longest // 2]}…{label[1 - longest // 2 :]}"
