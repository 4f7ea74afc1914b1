"""Draws a figure from its description and what was measured: one legend, error bars of two standard errors.

Whose a line is can be seen: methods of the paper have the usual colours and dashes, what dither adds is broad and
black, what is drawn as printed is thin, red and dotted, and laws, limits and controls are grey.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dither.display.plots import COLOURS, DASHES, tidy
from dither.errors import require
from dither.reproduce.measured import Coordinate, Curve, Measured, NotMeasuredError
from dither.reproduce.paper_figures import Figure, Line, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

_MARKERS = "osD^vPX"
_OWN_MARKERS, _PRINTED_MARKERS = "*Ph", "x+1|"  # several lines of one kind can be told apart
_SAMPLE, _LETTER = 0.65, 0.065  # inches of a legend: what a line looks like, and a letter of its title
_BARS = 2.0  # standard errors


def draw(figure: Figure, measured: Measured) -> "Drawn":
    """The whole figure; panels of which nothing was measured say so."""
    figures = require("matplotlib.figure", "plot")
    columns = min(figure.columns, len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    width = max(3.1 * columns, 5.2)
    drawn = figures.Figure(figsize=(width, 2.5 * rows + 1.1), layout="constrained")
    places = drawn.subplots(rows, columns, squeeze=False).ravel()
    shown = figure.shown(measured)
    handles: dict[str, Any] = {}
    for place, panel in zip(places, figure.panels, strict=False):
        handles |= _panel(place, figure, panel, shown)
    for place in places[len(figure.panels) :]:
        place.set_visible(False)
    if handles:
        ordered = [line.title for line in figure.lines if line.title in handles]
        drawn.legend(
            [handles[name] for name in ordered],
            ordered,
            loc="outside lower center",
            ncols=max(1, min(len(ordered), int(width / (_SAMPLE + _LETTER * max(map(len, ordered)))))),
            frameon=False,
            fontsize=8,
        )
    drawn.suptitle(f"{figure.name}  {figure.title}", fontsize=10, x=0.01, ha="left")
    return drawn


def _panel(axes: "Axes", figure: Figure, panel: Panel, shown: Measured) -> dict[str, Any]:
    """One picture; returns what its lines look like."""
    here = shown.select(**panel.where)
    drawn: dict[str, Any] = {}
    axis = panel.x or figure.x
    places = list(here.along(axis))
    if figure.x_scale != "category":
        places.sort(key=lambda x: (isinstance(x, str), x))
    for number, line in enumerate(figure.lines):
        try:
            curve = here.curve(axis, **{figure.by: line.name})
        except NotMeasuredError:
            continue
        drawn[line.title] = _line(axes, figure, line, number, curve, places)
    axes.set_title(panel.title, loc="left", fontsize=9)
    axes.set_xlabel(panel.x_label or panel.x or figure.x_label or figure.x, fontsize=8)
    axes.set_ylabel(figure.y_label, fontsize=8)
    if not drawn:
        axes.text(0.5, 0.5, "not measured", ha="center", va="center", color="0.5", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return drawn
    axes.set_yscale(figure.y_scale)
    if figure.x_scale == "category":
        axes.set_xticks(range(len(places)), [_short(x) for x in places], fontsize=7)
    else:
        axes.set_xscale(figure.x_scale)
    axes.tick_params(labelsize=7)
    tidy(axes)
    return drawn


def _line(axes: "Axes", figure: Figure, line: Line, number: int, curve: Curve, places: Sequence[Coordinate]) -> Any:
    y, bars = curve.value, np.nan_to_num(_BARS * curve.stderr)
    x: Any = [places.index(place) for place in curve.x] if figure.x_scale == "category" else curve.x
    if figure.y_scale == "log":
        y = np.where(y > 0, y, np.nan)
        bars = np.minimum(bars, 0.95 * np.abs(y))  # a bar that reaches zero has no end on this axis
    style = _style(line, number)
    if figure.shape == "bars":
        return axes.bar(x, y, width=_bar_width(x), color=style["color"], alpha=0.5, label=line.title)
    if figure.shape == "points":
        style |= {"linestyle": "none"}
    return axes.errorbar(x, y, yerr=bars if bars.any() else None, capsize=2, elinewidth=0.8, label=line.title, **style)


def _bar_width(x: Sequence[float]) -> float:
    return float(np.min(np.diff(x))) if len(x) > 1 else 0.8


def _style(line: Line, number: int) -> dict[str, Any]:
    if line.kind == "dither":
        marker = _OWN_MARKERS[number % len(_OWN_MARKERS)]
        return {
            "color": "black",
            "linestyle": "solid",
            "linewidth": 2.4,
            "marker": marker,
            "markersize": 6,
            "zorder": 3,
        }
    if line.kind == "as printed":
        marker = _PRINTED_MARKERS[number % len(_PRINTED_MARKERS)]
        return {"color": "#CC0000", "linestyle": (0, (1, 1.2)), "linewidth": 1.1, "marker": marker, "markersize": 5}
    if line.kind in ("control", "limit"):
        dash = (0, (4, 2)) if line.kind == "control" else "solid"
        return {"color": "0.6", "linestyle": dash, "linewidth": 1.4, "marker": "none", "zorder": 1}
    return {
        "color": COLOURS[number % (len(COLOURS) - 1)],
        "linestyle": DASHES[number % (len(DASHES) - 1)],
        "linewidth": 1.4,
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 3.5,
    }


def _short(x: Coordinate) -> str:
    return x if isinstance(x, str) else f"{x:g}"
