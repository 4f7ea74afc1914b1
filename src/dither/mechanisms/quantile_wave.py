"""The square wave of an estimated quantile: for the second of two phases.

A square wave blurs all values within a quarter of its range, more or less, whoever they are. If most users are within a
hundredth of the domain, it hardly tells them apart. So where users are asked in phases, those of the first are asked by
the plain square wave; from their tally the quantiles are estimated; and those of the next report *where their value is
among the quantiles*, by the same window. Then every stretch of the report's range has about as many users as any other.

    place = (i + (x - q_i) / (q_{i+1} - q_i)) / k       for a value x between the cuts q_i and q_{i+1} of k stretches.

**The promise** does not depend on the table: it holds for every pair of lattice points, so for whatever maps values to
them, as long as the map was fixed without the value. It was: other users told it, and their reports are public.

**The table** is stored with the mechanism, as whole numbers of 2^-20 of the domain. Seven tenths of it follow the
estimate and three tenths the domain (`_EVEN`): a tail that the first phase did not see keeps some room, and a first
phase that was wrong costs a little and not everything.

**What is read** is a smooth density, from the reports of all phases (`mechanisms.wave_phases`). Values and standard
errors are those of a posterior; intervals are strict bounds, which hold whatever the users are. What it will cost:
`mechanisms.phased_error`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.cumulative_estimate import Cumulative, Thresholds
from dither.core.domains import UnitInterval
from dither.core.draw import Rows, Tape
from dither.core.estimate import SHARES, Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism, Moments
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.errors import ParameterError
from dither.mechanisms.distribution_bounds import StrictIntervals
from dither.mechanisms.mean import Mean
from dither.mechanisms.phased_error import error_below, error_of_bin
from dither.mechanisms.wave_phases import QuantileScale, SmoothFit, WavePhase, shares_at, smooth_shares
from dither.mechanisms.window import WindowMechanism, fine_enough, square_wave_share
from dither.mechanisms.window_evidence import probabilities

Floats = NDArray[np.float64]

STRETCHES = 32  # of the table that a first phase tells
# Of the table that follows the domain, and not the estimate. With a tenth the errors of shares below thresholds, over
# eight populations at epsilon 1 and 100,000 users, are as large at quantiles and about 1.3 times as large at equal
# distances (`python benchmarks/phases.py --even`).
_EVEN = 0.3
_SAME = 1e-9  # places that are this close are one
_NO_AVERAGE = "shares of a distribution are no average of reports, so one report has no moments for them"
_NOTES = (
    "As smooth as the reports of all phases allow, along the domain or along its estimated quantiles, by the evidence.",
    "Standard errors are right if the users are spread smoothly. Intervals do not come from these: they hold whatever "
    "the distribution is.",
)


@dataclass(frozen=True)
class QuantileWave(WindowMechanism):
    """A number by a square wave of its estimated quantile; of the number itself, where nothing is known yet.

    `quantiles` are rising whole numbers of 2^-20 of the domain, from 0 to 2^20, between which equally many users are
    expected.

    >>> first = QuantileWave(epsilon=1.0)
    >>> crowded = np.repeat(np.linspace(-1.0, -0.98, 1000), 20)
    >>> second = first.after(first.tally(first.randomize(crowded, seed=1)), users=60_000)
    >>> first.quantiles, len(second.quantiles), second.guarantee == first.guarantee
    ((0, 1048576), 33, True)
    """

    quantiles: tuple[int, ...] = QuantileScale().cuts

    statistics = ("distribution", "bins")
    phased = True
    examples = ({"epsilon": 1.0}, {"epsilon": 0.1}, {"epsilon": 3.0})
    lattice = staticmethod(lambda epsilon: fine_enough(epsilon, square_wave_share(epsilon)))

    def _validate(self) -> None:
        self._freeze(quantiles=QuantileScale.checked(self.quantiles).cuts)

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """Where others will be asked after those who are asked first."""
        if workload.phases > 1:
            yield from super().candidates(workload)

    @cached_property
    def scale(self) -> QuantileScale:
        """How a value becomes a place on the lattice."""
        return QuantileScale(self.quantiles)

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        self.window.fill(reports, self._place(values), tape, rows)

    def _place(self, values: NDArray) -> Floats:
        return values if self.scale.stretches == 1 else self.scale.exact_place(values)

    @cached_property
    def reading(self) -> Mean:
        """The mean of the places: of the numbers themselves, where nothing is known yet."""
        own = self.window.reading()
        return replace(own, exact_moments=self._moments) if self.scale.stretches > 1 else own

    def _moments(self, values: Floats) -> Moments:
        places = self._place(values)
        found = self.window.moments(places)
        return Moments(places - values, found.variance, found.third)

    def after(self, tally: Tally, users: int) -> "QuantileWave":
        self.check_tally(tally)
        return self if not tally.n else self._told([WavePhase(self.window, tally.counts, self.scale)])

    def _told(self, phases: list[WavePhase]) -> "QuantileWave":
        ends = np.linspace(0.0, 1.0, 8 * STRETCHES + 1)
        found = smooth_shares(phases, ends, sum(phase.n for phase in phases))
        return self.with_curve(ends, np.concatenate([[0.0], np.cumsum(found.value)]))

    def with_curve(self, at: Floats, below: Floats) -> "QuantileWave":
        """The same with the quantiles of a curve: the share of users below each place, in shares of the domain."""
        rising = np.maximum.accumulate(np.clip(below, 0.0, 1.0))
        mixed = (1 - _EVEN) * rising / max(float(rising[-1]), 1e-12) + _EVEN * at
        return replace(self, quantiles=QuantileScale.of_curve(at, mixed, STRETCHES).cuts)

    def learned_cuts(self) -> tuple[float, ...] | None:
        inner = 2 * self.scale.at[1:-1] - 1
        return tuple(inner.tolist()) if inner.size else None

    def cumulative_reading(self, thresholds: Thresholds) -> "CumulativeOfPhases":
        return CumulativeOfPhases(self, thresholds)

    def bin_reading(self, thresholds: Thresholds) -> "BinsOfPhases":
        return BinsOfPhases(self, thresholds)


@dataclass(frozen=True)
class _OfPhases(ABC):
    """What is read off a density that the reports of all phases tell: here what both readings share."""

    mechanism: QuantileWave
    thresholds: Thresholds
    earlier: tuple[tuple[Mechanism, Tally], ...] = ()

    @property
    def domain(self) -> UnitInterval:
        """Numbers from -1 to 1."""
        return UnitInterval()

    def _phases(self, tally: Tally) -> tuple[WavePhase, ...]:
        every: list[tuple[Any, Tally]] = [*self.earlier, (self.mechanism, tally)]  # all of one kind
        return tuple(WavePhase(each.window, heard.counts, each.scale) for each, heard in every)

    @property
    def _ends(self) -> Floats:
        """The thresholds, in shares of the domain."""
        return (np.array(self.thresholds.at) + 1) / 2

    @property
    def _places(self) -> Floats | None:
        known = self.thresholds.places
        return None if known is None else (np.array(known) + 1) / 2

    def _fit(self, phases: tuple[WavePhase, ...], among: int | None) -> SmoothFit:
        """Shares between thresholds; where values can be at some places only, of these."""
        everybody = among or sum(phase.n for phase in phases)
        if self._places is not None:
            return shares_at(phases, self._places, everybody)
        return smooth_shares(phases, np.concatenate([[0.0], self._ends, [1.0]]), everybody)

    @abstractmethod
    def _numbers(self, found: SmoothFit) -> tuple[Floats, Floats]:
        """What is read off a fit: numbers, and the variances of their errors."""

    @abstractmethod
    def _truth(self, below: Floats, at: Floats) -> Floats:
        """The same of users with these shares below thresholds, and at places."""

    def known_mse(self, values: Floats, shares: Floats, reports: tuple[float, float]) -> float:
        """The mean over numbers of the squared error for users with these values, where so many report in each phase.

        Both phases are gone through with the counts that are expected. What the fit is off by then is what smoothing
        irons out; the posterior says how much chance adds.
        """
        window, places = self.mechanism.window, (values + 1) / 2

        def expected(scale: QuantileScale, number: float) -> WavePhase:
            at = window.steps * scale.place(places)
            chances = probabilities(window, np.arange(window.law.outputs + 1), at, at) @ shares
            return WavePhase(window, np.rint(number * chances).astype(np.int64), scale)

        first = expected(self.mechanism.scale, reports[0])
        second = self.mechanism._told([first])
        cuts = second.learned_cuts() if self._places is None else None
        own = self if cuts is None else replace(self, thresholds=Thresholds(cuts))
        value, variance = own._numbers(own._fit((first, expected(second.scale, reports[1])), None))
        below = np.array([shares[places < end].sum() for end in own._ends])
        known = np.zeros(0) if own._places is None else own._places
        at = np.array([shares[np.abs(places - place) < _SAME].sum() for place in known])
        return float(np.mean((value - own._truth(below, at)) ** 2 + np.maximum(variance, 0.0)))

    def moments(self, x: Any) -> Moments:
        """There are none: a share in a smooth density is no average of calibrated reports."""
        raise ParameterError(_NO_AVERAGE)

    def worst_variance(self, share: float = 1.0) -> float:
        """There is none, as there are no moments."""
        raise ParameterError(_NO_AVERAGE)


class CumulativeOfPhases(_OfPhases):
    """The reading of the shares below thresholds."""

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Cumulative:
        """The shares below thresholds; of the `among` users from whom the reports were drawn, if more."""
        phases, ends, places = self._phases(tally), self._ends, self._places
        found = self._fit(phases, among)
        value, variance = self._numbers(found)
        return Cumulative(
            value,
            np.sqrt(np.maximum(variance, 0.0)),
            sum(phase.n for phase in phases),
            guarantee,
            "share below",
            source=source,
            notes=_NOTES,
            bounds=Bounds(0.0, 1.0),
            rule=StrictIntervals(phases, np.zeros_like(ends), ends, found.cells, found.edges, places),
            thresholds=np.array(self.thresholds.at),
            ends=(-1.0, 1.0),
        )

    def _numbers(self, found: SmoothFit) -> tuple[Floats, Floats]:
        ends, places = self._ends, self._places
        added = np.tri(ends.size, found.value.size) if places is None else (places <= ends[:, None]).astype(np.float64)
        return np.clip(added @ found.value, 0.0, 1.0), np.einsum("ij,jk,ik->i", added, found.covariance.dense(), added)

    def _truth(self, below: Floats, at: Floats) -> Floats:
        return below

    def predicted_mse(self, reports: float, users: float) -> float:
        """The mean over thresholds of the squared error, where `reports` of all users report, in both phases."""
        return self._mse(reports, users, one=False)

    def one_phase_mse(self, reports: float, users: float) -> float:
        """The same at the same thresholds, if all of these had reported in one phase."""
        return self._mse(reports, users, one=True)

    def _mse(self, reports: float, users: float, *, one: bool) -> float:
        unasked = max(0.0, 1 - reports / users) / (4 * reports)
        return error_below(self.mechanism.epsilon, reports, places=self._places is not None, one=one) ** 2 + unasked


class BinsOfPhases(_OfPhases):
    """The reading of the shares between thresholds, or at places where alone values can be."""

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimate:
        """The shares of the bins; of the `among` users from whom the reports were drawn, if more."""
        phases, places = self._phases(tally), self._places
        found = self._fit(phases, among)
        edges = np.concatenate([[0.0], self._ends, [1.0]])
        return Estimate(
            found.value,
            np.sqrt(np.maximum(self._numbers(found)[1], 0.0)),
            sum(phase.n for phase in phases),
            guarantee,
            "share",
            source=source,
            notes=_NOTES,
            bounds=SHARES,
            correlation=found.covariance.correlation,
            rule=StrictIntervals(phases, edges[:-1], edges[1:], found.cells, found.edges, places),
        )

    def _numbers(self, found: SmoothFit) -> tuple[Floats, Floats]:
        return found.value, found.covariance.variance

    def _truth(self, below: Floats, at: Floats) -> Floats:
        return at if at.size else np.diff(np.concatenate([[0.0], below, [1.0]]))

    def predicted_mse(self, reports: float, users: float) -> float:
        """The mean over bins of the squared error, where `reports` of all users report, in both phases."""
        return self._mse(reports, users, one=False)

    def one_phase_mse(self, reports: float, users: float) -> float:
        """The same of the same bins, if all of these had reported in one phase."""
        return self._mse(reports, users, one=True)

    def _mse(self, reports: float, users: float, *, one: bool) -> float:
        bins, places = len(self.thresholds.at) + 1, self._places is not None
        unasked = max(0.0, 1 - reports / users) / (bins * reports)
        return error_of_bin(self.mechanism.epsilon, reports, bins, places=places, one=one) ** 2 + unasked
