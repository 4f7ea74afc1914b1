"""Results along the rounds of a collection, or along public values such as days: a line for each item, with a band."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dither.display.distribution_plots import shortened
from dither.display.estimate_plots import new_axes
from dither.display.plots import COLOURS, DASHES, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES = 6  # that are told apart in one picture
_MOST_NAMES = 8  # below the axis
_MOST_DOTS = 40

Floats = NDArray[np.float64]
Band = tuple[Floats, Floats, Floats]  # values, lower and upper ends


def draw_rounds(
    ax: "Axes | None", periods: Sequence[str], lines: Mapping[str, Band], title: str, along: str = "round"
) -> "Axes":
    """Lines with bands along the rounds, each with its name; a single one needs none."""
    ax = new_axes() if ax is None else ax
    tidy(ax)
    places = np.arange(len(periods))
    for number, (name, (value, low, high)) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        ax.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
        ax.plot(
            places,
            value,
            color=colour,
            linestyle=DASHES[number % len(DASHES)],
            linewidth=1.6,
            marker="o" if len(periods) <= _MOST_DOTS else None,
            markersize=3,
            label=shortened(name, 24),
        )
    step = max(1, -(-len(periods) // _MOST_NAMES))
    shown = places[::step]
    ax.set_xticks(shown, [shortened(period, 12) for period in periods[::step]], fontsize=8)
    room = max(0.2, 0.02 * len(periods))
    ax.set(xlabel=along, xlim=(-room, len(periods) - 1 + room))
    if len(lines) > 1:
        ax.legend(frameon=False, fontsize=8, ncols=2)
    ax.set_title(title, loc="left", fontsize=10)
    return ax
