"""Cumulative shares: the share of users below each of some thresholds, and what can be read off them.

Numbers have an order, and most of what people want to know of their distribution is about it: the share below a limit,
the median, the top tenth. All of that is one curve that rises from 0 to 1, known at some thresholds. A share *below* a
value is far easier to tell than that *at* a value where reports are blurred: it has one edge, and a cell has two.

**Ends.** Of whole numbers a threshold stands between two of them, and is called by the lower one: "at most 17". Of
other numbers a user exactly at a threshold is above it, as such a user is in the upper one of two bins: "below 6250".
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dither.core.checks import real_array
from dither.core.estimate import Estimate
from dither.core.results import Interval
from dither.display import estimate_plots
from dither.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


class Thresholds(NamedTuple):
    """Where the axis from -1 to 1 is cut, from the lowest; and where alone values can be, if that is known.

    >>> Thresholds.between_places(3)
    Thresholds(at=(-0.5, 0.5), places=(-1.0, 0.0, 1.0))
    """

    at: tuple[float, ...]
    places: tuple[float, ...] | None = None

    @classmethod
    def of_cells(cls, count: int) -> "Thresholds":
        """Between so many equal cells, in which values can be anywhere."""
        return cls(tuple((2 * np.arange(1, count) / count - 1).tolist()))

    @classmethod
    def between_places(cls, count: int) -> "Thresholds":
        """Between each two of so many places, of which the first is -1 and the last is 1."""
        steps = np.arange(count)
        at, places = (2 * steps[1:] - 1) / (count - 1) - 1, 2 * steps / (count - 1) - 1
        return cls(tuple(at.tolist()), tuple(places.tolist()))


@dataclass(frozen=True, eq=False, repr=False)
class Cumulative(Estimate):
    """The share of users below each threshold.

    `thresholds` are in the units of the values, of which `ends` are the least and the largest. Of `whole` numbers a
    threshold is the largest number that counts as below it. Where the shares were added up, `cells` are what of. Where
    more of the curve is known than these thresholds, `finer` is all of it, and quantiles are read off that.
    """

    thresholds: Floats = field(kw_only=True)
    ends: tuple[float, float] = field(kw_only=True)
    whole: bool = field(default=False, kw_only=True)
    cells: Estimate | None = field(default=None, kw_only=True, repr=False)
    finer: "Cumulative | None" = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ordered", True)
        if np.shape(self.value) != np.shape(self.thresholds):
            raise ParameterError("cumulative shares need one threshold for each")

    @property
    def finest(self) -> "Cumulative":
        """The curve at all thresholds where it is known."""
        return self if self.finer is None else self.finer

    def with_numbers(self, value: Floats, stderr: Floats, **how: Any) -> "Cumulative":
        """Of the same thresholds."""
        return Cumulative(
            **vars(super().with_numbers(value, stderr, **how)),
            thresholds=self.thresholds,
            ends=self.ends,
            whole=self.whole,
        )

    def quantile(self, q: ArrayLike) -> Floats:
        """The value with a share of q of the users up to it: 0.5 for the median.

        Of whole numbers it is the least with a share of at least q at or below it. Other numbers are believed to be
        spread evenly between two thresholds. Where noise lets the shares fall, the curve stays at its highest.

        >>> from dither import SquareWave
        >>> mechanism = SquareWave(epsilon=2.0)
        >>> reading = mechanism.cumulative_reading(Thresholds.of_cells(8))
        >>> tally = mechanism.tally(mechanism.randomize(np.linspace(0.0, 1.0, 50_000), seed=1))
        >>> abs(float(mechanism.estimate(tally, reading).quantile(0.5)) - 0.5) < 0.05
        True
        """
        if self.finer is not None:
            return self.finer.quantile(q)
        shares = _shares(q)
        if not np.isfinite(self.value).all():
            return np.full_like(shares, np.nan)
        below = np.maximum.accumulate(np.concatenate([[0.0], np.clip(self.value, 0.0, 1.0), [1.0]]))
        values = np.concatenate([[self.ends[0]], self.thresholds, [self.ends[1]]])
        above = np.clip(np.searchsorted(below, shares, side="left"), 1, below.size - 1)
        if self.whole:
            return values[above]
        into, height = shares - below[above - 1], below[above] - below[above - 1]
        part = np.divide(into, height, out=np.zeros_like(into), where=height > 0)
        return values[above - 1] + (values[above] - values[above - 1]) * np.clip(part, 0.0, 1.0)

    def quantile_interval(self, q: ArrayLike, level: float = 0.95) -> Interval:
        """Where a quantile is, with probability `level`, whatever the distribution is: between two thresholds.

        A threshold is too low if surely fewer than q users are below it, and high enough if surely as many are. Only
        those next to the truth can be judged wrongly, since those beyond them have to agree with them.
        """
        if self.finer is not None:
            return self.finer.quantile_interval(q, level)
        shares = _shares(q)
        low, high = self.interval(level)
        too_low = np.searchsorted(np.maximum.accumulate(high), shares, side="left")
        enough = np.searchsorted(np.minimum.accumulate(low[::-1])[::-1], shares, side="left")
        first = np.concatenate([[self.ends[0]], self.thresholds + self.whole])
        return Interval(first[too_low], np.append(self.thresholds, self.ends[1])[enough])

    def plot(self, ax: "Axes | None" = None, level: float = 0.95) -> "Axes":
        """The shares along the values, with a band of intervals; on `ax`, or on new axes."""
        if not np.isfinite(self.value).any():
            return estimate_plots.draw_nothing(ax, self.question)
        title = f"{self.question}\nfrom {self.n:,} reports, with {100 * level:.6g}% intervals"
        labels = (self.question, "share of users at or below" if self.whole else "share of users below")
        low, high = self.interval(level)
        return estimate_plots.draw_rising(ax, self.thresholds, self.ends, self.value, low, high, labels, title)


def _shares(given: ArrayLike) -> Floats:
    shares = real_array(given)
    if shares is None or not ((shares >= 0) & (shares <= 1)).all():
        raise ParameterError("a quantile is asked for a share from 0 to 1, for example 0.5 for the median")
    return shares
