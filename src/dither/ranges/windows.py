"""What the tally of a window mechanism (square wave) tells about the cells of an attribute."""

from collections.abc import Sequence

import numpy as np

from dither.core.tally import Tally
from dither.estimation.density import OutputCounts

_OUTPUTS = 128  # groups of outputs of a window: far narrower than what can be seen


def window_law(tally: Tally, mechanism: object, values: int, cuts: Sequence[int]) -> OutputCounts:
    """The tally of a window mechanism whose inputs were the middles of `values` equal parts, as evidence about cells.

    The chance of an output below Y is b Y + (a - b) clip(Y - x, 0, w) at every whole Y (`mechanisms.em`). A cell of
    several values has the average of theirs.
    """
    window = mechanism.window  # type: ignore[attr-defined]
    limits = np.unique(np.linspace(0, window.law.outputs, _OUTPUTS + 1).astype(np.int64))
    low = float((1 - window.law.inside) / (window.law.outputs - window.width))
    extra = float(window.law.inside) / window.width - low
    x = window.steps * (np.arange(values) + 0.5) / values
    below = low * limits[:, None] + extra * np.clip(limits[:, None] - x, 0, window.width)
    starts = np.asarray(cuts[:-1])
    law = np.add.reduceat(np.diff(below, axis=0), starts, axis=1) / np.diff(cuts)
    return OutputCounts(np.add.reduceat(tally.counts, limits[:-1]).astype(np.float64), law)
