"""Square waves of several phases, read together: one distribution from the reports of all.

Where users are asked in phases, those of the first report their number through a square wave, and those of the next the
*estimated quantile* of theirs (`mechanisms.quantile_wave`). Both are windows on a lattice; what differs is where on the
lattice a value lies, by a public table. So one likelihood holds for all: a report of phase r is output y with the
probability (n_r / n) P_r(y | x), and the counts of all outputs of all phases are those of one multinomial.

**Where the people are.** `QuantileScale` cuts the domain at whole numbers of 2^-20 of it into stretches that are
equally long on the lattice; within each of them the map is a straight line. A stretch where many are is short in the
domain and as long as the others on the lattice: there the reports tell apart what the first phase saw as one.

**Which cells?** The smooth density (`estimation.density`) has 128 cells, and is smooth in the coordinate in which these
are equal. Heavy tails are smooth along their quantiles and not along the domain; numbers that are spread evenly or
normally are smooth along the domain, and along quantiles that were estimated with noise a little less. Both are fitted,
and the result is their average by the evidence, the probability of the reports.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_list
from dither.core.covariance import Covariance
from dither.core.parallel import small_matrices
from dither.errors import ParameterError
from dither.estimation.density import of_users, smoothed
from dither.estimation.output_counts import OutputCounts
from dither.mechanisms.window_evidence import output_groups, probabilities

if TYPE_CHECKING:
    from dither.mechanisms.window import Window

Floats = NDArray[np.float64]

WHOLE = 1 << 20  # parts of the domain that cuts are numbered in
MOST_STRETCHES = 1024
CELLS = 128  # of a smooth density
_MOST_OUTPUTS = 2 * CELLS  # groups of outputs
_FINE = 20  # binary digits of a place within 2^-20 of the domain, or of the lattice


@dataclass(frozen=True)
class QuantileScale:
    """A map from the domain to the lattice, both from 0 to 1: a line on each stretch between two cuts.

    `cuts` are whole numbers from 0 to 2^20; stretches between them are equally long on the lattice.

    >>> scale = QuantileScale((0, 1 << 10, 1 << 20))  # half of the lattice for the lowest thousandth
    >>> scale.place(np.array([0.0, 2.0**-11, 2.0**-10, 1.0])).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """

    cuts: tuple[int, ...] = (0, WHOLE)

    @classmethod
    def checked(cls, cuts: Any) -> "QuantileScale":
        """A scale with these cuts, if they can be some."""
        rule = f"quantiles are from 2 to {MOST_STRETCHES + 1} rising whole numbers, the first 0 and the last {WHOLE}"
        found = tuple(
            checked_count("a quantile", each, 0, WHOLE) for each in checked_list(rule, cuts, 2, MOST_STRETCHES + 1)
        )
        rising = all(low < high for low, high in pairwise(found))
        if not (2 <= len(found) <= MOST_STRETCHES + 1 and rising and found[0] == 0 and found[-1] == WHOLE):
            raise ParameterError(rule)
        return cls(found)

    @classmethod
    def of_curve(cls, at: Floats, below: Floats, stretches: int) -> "QuantileScale":
        """With cuts at the quantiles of a distribution of which the share `below` each place is known."""
        share = np.arange(1, stretches) / stretches
        inner = np.rint(np.interp(share, below, at) * WHOLE).astype(np.int64)
        # Each stretch has room: the cuts before and behind are as far away as there are stretches between them.
        order = np.arange(1, stretches)
        inner = np.maximum.accumulate(np.clip(inner, order, WHOLE - stretches + order) - order) + order
        return cls((0, *inner.tolist(), WHOLE))

    @property
    def stretches(self) -> int:
        """How many there are."""
        return len(self.cuts) - 1

    @cached_property
    def at(self) -> Floats:
        """The cuts in shares of the domain."""
        return np.array(self.cuts) / WHOLE

    @cached_property
    def ends(self) -> Floats:
        """The same on the lattice."""
        return np.linspace(0.0, 1.0, len(self.cuts))

    def place(self, values: Floats) -> Floats:
        """Where on the lattice values are."""
        return np.interp(values, self.at, self.ends)

    def value(self, places: Floats) -> Floats:
        """The inverse of `place`."""
        return np.interp(places, self.ends, self.at)

    def exact_place(self, values: Floats) -> Floats:
        """What a device reports of numbers from -1 to 1: places from -1 to 1, in whole numbers and the same everywhere.

        The number is read with 40 binary digits; so is the place, rounded down.
        """
        read = np.rint((values + 1.0) * 2.0 ** (2 * _FINE - 1)).astype(np.int64)
        cuts = np.array(self.cuts, dtype=np.int64) << _FINE
        stretch = np.clip(np.searchsorted(cuts, read, side="right") - 1, 0, self.stretches - 1)
        width = (cuts[stretch + 1] - cuts[stretch]) >> _FINE
        into = (read - cuts[stretch]) // width  # of 2^20 parts of the stretch
        parts = (stretch << _FINE) + into
        return parts / (self.stretches * 2.0 ** (_FINE - 1)) - 1.0


STRAIGHT = QuantileScale()


class WavePhase(NamedTuple):
    """The counts of the outputs of one phase, and how values are mapped to its lattice."""

    window: "Window"
    counts: NDArray[np.int64]
    scale: QuantileScale = STRAIGHT

    @property
    def n(self) -> int:
        """The number of reports: each adds one count."""
        return int(self.counts.sum())

    def grouped(self, most: int) -> Floats:
        """The counts of at most so many groups of outputs."""
        limits = output_groups(self.window.law.outputs, most)
        return np.add.reduceat(self.counts, limits[:-1]).astype(np.float64)

    def law(self, low: Floats, high: Floats, most: int) -> Floats:
        """The probability of each group of outputs (row) for each cell: its values are spread evenly, low to high."""
        limits = output_groups(self.window.law.outputs, most)
        steps = self.window.steps
        if self.scale.stretches == 1 or (low == high).all():
            return probabilities(self.window, limits, steps * self.scale.place(low), steps * self.scale.place(high))
        edges = np.unique(np.concatenate([low, high, self.scale.at]))
        place = steps * self.scale.place(edges)
        pieces = probabilities(self.window, limits, place[:-1], place[1:])
        middle = (edges[1:] + edges[:-1]) / 2
        inside = (middle >= low[:, None]) & (middle <= high[:, None])
        return pieces @ (inside * np.diff(edges) / (high - low)[:, None]).T

    def bends(self, most: int) -> Floats:
        """The places of the domain at which the probability of a group of outputs bends; between them it is a line."""
        limits = output_groups(self.window.law.outputs, most)
        bends = np.concatenate([limits, limits - self.window.width]) / self.window.steps
        cuts = self.scale.at if self.scale.stretches > 1 else np.zeros(0)
        return np.concatenate([self.scale.value(bends[(bends >= 0) & (bends <= 1)]), cuts])


def heard_in(phases: Sequence[WavePhase], low: Floats, high: Floats, most: int = _MOST_OUTPUTS) -> OutputCounts:
    """All counts as evidence about cells; an output is one of its phase, which is as likely as its share of reports."""
    heard = [phase for phase in phases if phase.n] or phases[:1]
    total = max(sum(phase.n for phase in heard), 1)
    shares = [phase.n / total for phase in heard] if len(heard) > 1 else [1.0]
    laws = [share * phase.law(low, high, most) for share, phase in zip(shares, heard, strict=True)]
    return OutputCounts(np.concatenate([phase.grouped(most) for phase in heard]), np.concatenate(laws))


class SmoothFit(NamedTuple):
    """Shares between some ends, the covariance of their errors, and the density that they were cut out of."""

    value: Floats
    covariance: Covariance
    edges: Floats  # of the cells of the density that the reports make most probable
    cells: Floats


def smooth_shares(phases: Sequence[WavePhase], ends: Floats, among: int) -> SmoothFit:
    """Of `among` users the shares between ends, given in shares of the domain, from 0 to 1."""
    n = sum(phase.n for phase in phases)
    even = np.linspace(0.0, 1.0, CELLS + 1)
    systems = {phase.scale: phase.scale.value(even) for phase in phases if phase.scale.stretches > 1}
    fits: list[tuple[float, Floats, Floats, Floats, Floats]] = []
    with small_matrices():
        for edges in (even, *systems.values()):
            heard = heard_in(phases, edges[:-1], edges[1:])
            drawn = smoothed(CELLS, heard, [])
            users = of_users(drawn, heard, n / among)
            inside = np.diff(np.clip((ends[:, None] - edges[:-1]) / np.diff(edges), 0.0, 1.0), axis=0)
            value = inside @ users.value
            # Users in a cell that an end cuts are on either side of it by chance.
            core = users.covariance - np.diag(users.value) / among
            fits.append((drawn.evidence, value, inside @ core @ inside.T + np.diag(value) / among, edges, drawn.value))
    evidence = np.array([each[0] for each in fits])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    value = np.asarray(sum(weight * each[1] for weight, each in zip(weights, fits, strict=True)))
    spread = sum(
        weight * (each[2] + np.outer(each[1] - value, each[1] - value))
        for weight, each in zip(weights, fits, strict=True)
    )
    *_, edges, cells = fits[int(weights.argmax())]
    return SmoothFit(value, Covariance(np.zeros(value.size), np.eye(value.size), np.asarray(spread)), edges, cells)


def shares_at(phases: Sequence[WavePhase], places: Floats, among: int) -> SmoothFit:
    """The same at places, in shares of the domain, where alone values can be."""
    heard = heard_in(phases, places, places)
    with small_matrices():
        drawn = smoothed(places.size, heard, [])
        users = of_users(drawn, heard, heard.n / among)
    spread = Covariance(np.zeros(places.size), np.eye(places.size), users.covariance)
    return SmoothFit(users.value, spread, places, drawn.value)
