"""Distributions as pictures: one attribute as steps with a band, labels as bars, two attributes as a heat map."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.display.plots import COLOURS, tidy
from dither.errors import require

if TYPE_CHECKING:
    from dither.core.estimate import Estimate
    from dither.ranges.axes import Axis

Floats = NDArray[np.float64]

_MOST_BARS = 40
_TICKS = 24  # labels along a side of a heat map
_LONGEST = 20  # letters of a label
_UNEVEN = 20  # the largest share over the mean: from here on few cells would take all colours


def draw_marginal(ax: Any, axis: "Axis", estimate: "Estimate") -> Any:
    """The shares of an attribute's values with 95% intervals: steps, or bars where values are labels."""
    low, high = (np.clip(end, 0.0, 1.0) for end in estimate.interval(0.95))
    if axis.labelled:
        tidy(ax)
        _bars(ax, estimate, low, high)
        ax.set_ylabel(_name(axis))
    else:
        _steps(ax, _edges(axis), estimate.value, low, high)
        ax.set(xlabel=_name(axis), ylabel="share of users per cell" if axis.continuous else "share of users per value")
        ax.set_ylim(bottom=0)
        tidy(ax)
    ax.set_title(f"from {estimate.n:,} reports, with 95% intervals", loc="left", fontsize=10)
    return ax


def draw_heat_map(ax: Any, axes: Sequence["Axis"], table: Floats) -> Any:
    """The table of two attributes, the first along x, in their own units; colours are shares of users."""
    first, second = axes
    rare = float(table.max()) > _UNEVEN * float(table.mean())
    norm = require("matplotlib.colors", "plot").PowerNorm(0.5 if rare else 1.0, vmin=0.0, vmax=float(table.max()))
    drawn = ax.pcolormesh(_edges(first), _edges(second), table.T, cmap="cividis", norm=norm, rasterized=True)
    bar = ax.figure.colorbar(drawn, ax=ax, label="share of users")
    bar.outline.set_visible(False)
    ax.set(xlabel=_name(first), ylabel=_name(second))
    for side, axis in ((ax.xaxis, first), (ax.yaxis, second)):
        if axis.labelled:
            _label_ticks(side, axis)
    ax.spines[:].set_visible(False)
    return ax


def _name(axis: "Axis") -> str:
    return f"attribute {axis.name}" if axis.name.isdigit() else axis.name


def _edges(axis: "Axis") -> Floats:
    """Where the cells of all values begin and end; whole numbers and labels stand in the middle of theirs."""
    first, last = axis.ends
    edges = np.linspace(float(first), float(last), axis.size + 1)
    return edges if axis.continuous else edges - 0.5


def _steps(ax: Any, edges: Floats, value: Floats, low: Floats, high: Floats) -> None:
    table = np.stack([value, low, high])
    changed = np.flatnonzero(np.append(True, (np.diff(table, axis=1) != 0).any(axis=0)))  # even pieces are one step
    value, low, high = table[:, changed]
    edges = np.append(edges[changed], edges[-1])
    ax.stairs(high, edges, baseline=low, fill=True, color=COLOURS[0], alpha=0.25, linewidth=0)
    ax.stairs(value, edges, baseline=None, color=COLOURS[0], linewidth=1.6)
    ax.set_xlim(edges[0], edges[-1])


def _bars(ax: Any, estimate: "Estimate", low: Floats, high: Floats) -> None:
    value = estimate.value
    shown = np.arange(len(value))
    if len(value) > _MOST_BARS:
        shown = np.sort(np.argsort(-value, kind="stable")[:_MOST_BARS])
    places = np.arange(len(shown))
    reach = np.abs(np.stack([value - low, high - value]))[:, shown]
    ax.barh(places, value[shown], color=COLOURS[0], alpha=0.5, height=0.7)
    ax.errorbar(value[shown], places, xerr=reach, fmt="none", ecolor="0.25", elinewidth=1.2, capsize=2)
    labels = estimate.labels or [str(number) for number in range(len(value))]
    ax.set_yticks(places, [_short(labels[int(number)]) for number in shown], fontsize=_size(len(shown)))
    ax.grid(visible=False, axis="y")
    ax.invert_yaxis()
    rest = len(value) - len(shown)
    ax.set_xlabel("share of users" + (f" (the {len(shown)} largest; {rest:,} more)" if rest else ""))
    ax.set_xlim(left=0)


def _label_ticks(side: Any, axis: "Axis") -> None:
    labels = axis.attribute.labels  # type: ignore[union-attr]
    places = range(0, len(labels), -(-len(labels) // _TICKS))
    slanted = side.axis_name == "x" and sum(map(len, labels)) > 40
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    side.set_ticks(list(places), [_short(labels[place]) for place in places], fontsize=_size(len(places)), **turned)


def _size(labels: int) -> float:
    """Of letters, so that so many labels have room."""
    return 10.0 if labels <= 12 else 8.0 if labels <= 24 else 6.5


def _short(label: str) -> str:
    """Names that differ do so at their ends more often than in the middle."""
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST // 2]}…{label[1 - _LONGEST // 2 :]}"
