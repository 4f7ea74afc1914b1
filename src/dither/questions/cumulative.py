"""The shares of users below thresholds of a number: `cumulative(income)`.

Of whole numbers the share of users with at most each of them; of other numbers the share below each edge of `BINS` bins
of equal width, and so of whole numbers that are more than `MOST_PLACES`. It is the curve that medians and quantiles
are read off, and it is judged as such: its error is that of a share below a value, averaged over values.

**Between two thresholds** a share is read as if users were spread evenly there. They need not be: delays are in whole
minutes, incomes in round sums. If the share m of users is at one place of a cell, which may be anywhere in it, the line
misses it by m^2 / 6 on average, squared: at x of the cell it is off by x or by 1 - x, with the chances 1 - x and x, and
the mean of x (1 - x) is 1/6. What is planned for are k cells with 1/k of the users each, half of them at one place and
the others spread evenly: 1 / (24 k^2), a part of the error (`missed`) that more reports do not make smaller. More
thresholds do. (Smooth data have none of it, and heaps alone four times as much.)

**Forms.** It can be asked in several ways, and the planner takes the one with the smallest error of what is asked:

- *cells* that are added up. A mechanism for categories tells the share of each cell without bias, and sums of k cells
  have an exact variance: with F_j the sum of the first j, and all of them adding up to one,

      F_j = j/k + sum_i a_ji f_i,      a_ji = [i <= j] - j/k,

  so that what the noise adds to all cells alike is taken out. The variance is about V j (k - j) / k, where V is that of
  one cell: it grows with the number of cells.
- *finer cells* (`FinerCells`), 4 or 16 times as many, where the noise is so small that what is missed between
  thresholds is what counts: with many users, or with the large budgets that a shuffler allows. The result has the
  thresholds that it always has, and quantiles are read off all of them (`Cumulative.finest`).
- *the number itself*, blurred by a window (`SquareWave`), read as a smooth density (`mechanisms.cumulative_reading`).
  The error depends on the users, and what is predicted is that of the hardest of some shapes. It does not grow with
  the number of thresholds, and is the smaller one where cells are many, reports few or epsilon small.

In the second of two phases thresholds are where the first one saw the people (`questions.placed`).

Refinement smooths cells by their neighbours, as that of a distribution does; what came from a window is smooth already.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.cumulative_estimate import Cumulative, Thresholds
from dither.core.domains import Categories
from dither.core.estimate import Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism, PredictedReading
from dither.core.parallel import small_matrices
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.display.significant_digits import plain_number
from dither.errors import ParameterError
from dither.estimation.density import NoisySums, smoothed
from dither.estimation.linear_readings import LinearReading
from dither.questions.distributions import BINS
from dither.questions.means import MeanOf
from dither.questions.placed import Placed, round_cuts, whole_cuts
from dither.questions.question import FINE, Column, Floats, Form, Question, Whole
from dither.schema import Attribute
from dither.utility.limits import Parameters, frequencies
from dither.utility.population import Population

MOST_PLACES = 128  # whole numbers with a threshold between each two; stored plans rely on it
_FINER = (128, 512)  # multiples of BINS; what a plan for a crowd takes to make grows with their number
_SHARE = Bounds(0.0, 1.0)
_SMOOTH = "As smooth as the reports allow already: refining has nothing to win back."


@dataclass(frozen=True)
class CumulativeOf(Question[Cumulative]):
    """The share of users below each threshold; in the form of cells, unless a mechanism takes numbers.

    `cut` is the number of cells, where it is not the usual one.

    >>> from dither.schema import Numeric, Ordinal
    >>> CumulativeOf("age", Ordinal(0, 99)).labels[17], CumulativeOf("income", Numeric(0, 200_000)).labels[0]
    ('at most 17', 'below 6250')
    """

    cut: int | None = field(default=None, kw_only=True, compare=False, repr=False)
    cuts: tuple[float, ...] | None = field(default=None, kw_only=True, compare=False, repr=False)  # from -1 to 1

    statistic: ClassVar[str] = "cumulative"
    needs: ClassVar[str] = "total"
    ordered: ClassVar[bool] = True
    has_prior: ClassVar[bool] = False
    title: ClassVar[str] = "cumulative distribution"

    @property
    def sought(self) -> str:
        return f"the share of people {'at or ' * self.whole}below values of {self.name}"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind in ("numeric", "ordinal")

    @property
    def forms(self) -> tuple[Form, ...]:
        return self, *self._finer, self._placed

    @cached_property
    def _finer(self) -> tuple["FinerCells", ...]:
        """None where every whole number has a cell, or where an earlier phase said where to cut."""
        if self.cuts is not None:
            return ()
        values = self.attribute.k if self.whole else FINE
        return tuple(FinerCells(self, replace(self, cut=cells)) for cells in _FINER if self.cell_count < cells < values)

    @cached_property
    def _placed(self) -> "PlacedCurve":
        return PlacedCurve(self)

    def as_asked_by(self, mechanism: Mechanism) -> Self:
        """With thresholds where an earlier phase saw many users, if there was one and not every value has its own."""
        cuts = mechanism.learned_cuts()
        if cuts is None or not self.cuts_learned:
            return self
        return replace(self, cuts=tuple(cuts) if self.whole else round_cuts(cuts, self.attribute))

    @property
    def cuts_learned(self) -> bool:
        return not (self.whole and self.attribute.k <= MOST_PLACES)

    @property
    def spread_by(self) -> MeanOf:
        return MeanOf(self.name, self.attribute)

    def known_error(self, mechanism: Mechanism, users: Population, reports: tuple[float, float]) -> float:
        learned: Any = self._placed.reading_of(mechanism)  # one of a mechanism that is phased, so it knows
        return float(np.sqrt(learned.known_mse(users.values, users.weights, reports)))

    def one_phase_error(self, mechanism: Mechanism, reports: float, users: float) -> float | None:
        learned: Any = self._placed.reading_of(mechanism)  # one of a mechanism that is phased, so it knows
        return float(np.sqrt(learned.one_phase_mse(reports, users)))

    # Where it cuts -----------------------------------------------------------------------------------------------

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.attribute.kind == "ordinal"

    @cached_property
    def cell_count(self) -> int:
        """How many cells its thresholds lie between."""
        if self.cut is not None:
            return self.cut
        if self.cuts is not None:
            return len(self._starts if self.whole else self.cuts) + 1
        return self.attribute.k if self.whole and self.attribute.k <= MOST_PLACES else BINS

    @property
    def shape(self) -> tuple[int]:
        return (self.cell_count - 1,)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Of whole numbers, counted from the lowest: the first of each cell but the lowest."""
        if self.cuts is not None:
            return whole_cuts(self.cuts, self.attribute.k)
        return _starts(self.cell_count, self.attribute.k)

    @property
    def thresholds(self) -> Floats:
        """In its own units; of whole numbers the largest that counts as below."""
        if self.whole:
            return (self.attribute.low + self._starts - 1).astype(np.float64)
        if self.cuts is not None:
            return self.attribute.centre + self.attribute.half_width * np.array(self.cuts)
        return np.linspace(self.attribute.low, self.attribute.high, self.cell_count + 1)[1:-1]

    @property
    def axis(self) -> Thresholds:
        """Where they are between -1 and 1, as a mechanism for numbers has them."""
        if self.cuts is not None:
            at = (2 * self._starts - 1) / (self.attribute.k - 1) - 1 if self.whole else np.array(self.cuts)
            return Thresholds(tuple(at.tolist()))
        return _axis(self.cell_count, self.attribute.k)

    @property
    def labels(self) -> tuple[str, ...]:
        words = "at most" if self.whole else "below"
        written = (plain_number(end) if self.whole else f"{end:g}" for end in self.thresholds.tolist())
        return tuple(f"{words} {end}" for end in written)

    @cached_property
    def kind(self) -> tuple[Hashable, str]:
        return (self.cell_count, self.attribute.k), self.statistic

    # Cells ---------------------------------------------------------------------------------------------------------

    @cached_property
    def domain(self) -> Categories:
        return Categories(self.cell_count)

    def _encoded(self, column: Any, invalid: str) -> NDArray:
        encoded = self.attribute.encode(column, invalid)
        if self.cuts is not None:
            return self._cut(encoded)
        if self.whole:
            return self._cell(encoded)
        return np.minimum(((encoded + 1) / 2 * self.cell_count).astype(np.int64), self.cell_count - 1)

    def encode_value(self, value: Any) -> int:
        encoded = self.attribute.encode_value(value)
        if self.cuts is not None:
            return int(self._cut(encoded))
        if self.whole:
            return self._cell(encoded)
        return min(int((encoded + 1) / 2 * self.cell_count), self.cell_count - 1)

    def _cut(self, encoded: Any) -> Any:
        """Of an encoded value the cell between cuts; at a cut it is in the upper one."""
        return np.searchsorted(self._starts if self.whole else np.array(self.cuts), encoded, side="right")

    def _cell(self, place: Any) -> Any:
        """Of a whole number, counted from the lowest: the cell that it is in."""
        return place if self.attribute.k == self.cell_count else place * self.cell_count // self.attribute.k

    @cached_property
    def _sums(self) -> Floats:
        """What each cell (column) counts for below each threshold (row)."""
        below = np.tri(self.cell_count - 1, self.cell_count)
        return below - below.mean(axis=1, keepdims=True)

    def variance(self, mechanism: Mechanism, reports: float, users: float) -> float:
        """The mean over thresholds, for the worst users, and what is missed between two.

        Given their values it is an average over users, so it is largest where all hold one. Which, is decided by how
        often their cell counts: least in the middle, most at the ends.
        """
        reading: Any = mechanism.reading  # of categories, which knows how the errors of totals go together
        noise = []
        for held in (0, self.cell_count // 2, self.cell_count - 1):
            spread = reading.covariance(np.eye(self.cell_count)[held])
            if spread is None:
                raise ParameterError("it is not known how the errors of these categories go together")
            factor = self._sums @ spread.factor
            noise.append(np.mean(self._sums**2 @ spread.diagonal + ((factor @ spread.core) * factor).sum(axis=1)))
        return max(map(float, noise)) + max(0.0, 1 - reports / users) / 4 + reports * self.missed

    def _finer_form(self, curve: Cumulative) -> "FinerCells":
        """The form that a curve with more thresholds was asked in."""
        return next(form for form in self._finer if form.fine.size == curve.thresholds.size)

    @property
    def missed(self) -> float:
        """The squared error of a share between two thresholds, if half of the users of a cell are at one place."""
        return 0.0 if self.whole and self.cell_count == self.attribute.k else 1 / (24 * self.cell_count**2)

    def asked_in_cells(self, mechanism: Mechanism) -> "CumulativeOf | None":
        """The question with the cells that a mechanism is given; None if it is given the number itself."""
        asked = (self, *(form.fine for form in self._finer))
        return next((each for each in asked if each.domain == mechanism.reading.domain), None)

    def error_ratio(self, mechanism: Mechanism, q: float) -> float:
        """The error where the share is q, over that which is predicted on average, where users are spread evenly."""
        if mechanism.reading.domain != self.domain:
            return 1.0  # a smooth curve is known about equally well everywhere
        even = np.full(self.cell_count, 1 / self.cell_count)
        variances = np.array([self._variance_at(mechanism, even, place) for place in range(self.size)])
        place = min(max(round(q * self.cell_count) - 1, 0), self.size - 1)
        return float(np.sqrt(variances[place] / variances.mean()))

    def error_at(self, mechanism: Mechanism, q: float, shares: Floats, reports: float, users: float) -> float | None:
        """The error where the share is q, for users with these shares of cells; None if it is read off a window."""
        if mechanism.reading.domain != self.domain:
            return None
        place = min(int(np.searchsorted(np.cumsum(shares), q)), self.size - 1)
        unasked = max(0.0, 1 - reports / users) * q * (1 - q)
        return float(np.sqrt((self._variance_at(mechanism, shares, place) + unasked) / reports))

    def _variance_at(self, mechanism: Mechanism, shares: Floats, place: int) -> float:
        """Of one report, about the share below a threshold, for users with these shares of cells."""
        reading: Any = mechanism.reading
        return float(reading.covariance(shares).variance_of(self._sums[place]))

    def cells_of(self, values: Floats, weights: Floats) -> Floats:
        """The shares of cells, of users with these values in their own units."""
        cells = self.encode(values)
        return np.bincount(cells, weights=weights, minlength=self.cell_count).astype(np.float64)

    def select(self, own: Estimate, place: int, count: int) -> Cumulative:
        start = np.arange(1, self.cell_count) / self.cell_count
        spread = own.covariance
        if spread is None:  # then at most as if all errors went the same way
            error = np.abs(self._sums) @ own.stderr
        else:
            error = np.sqrt([spread.variance_of(row) for row in self._sums])
        note = "Added up from the shares of cells, which together are one: without bias."
        return Cumulative(
            start + self._sums @ own.value,
            error,
            own.n,
            own.guarantee,
            source=own.source,
            notes=(*own.notes, note),
            bounds=_SHARE,
            **self.on_axis,
            cells=own,
        )

    def worth(self, worths: Worths, place: int, count: int) -> Worth:
        """A report adds 1 / (p - q) for each category that it supports, times what that counts for.

        At most it supports as many as it can below the threshold, or as many above. Unless it names one category alone,
        whether some report does so exactly is left open.
        """
        [own] = worths
        most_at_once = self.cell_count if own.at_once is None else own.at_once
        least, most = Fraction(1), Fraction(0)
        for below in range(1, self.cell_count):
            start = Fraction(below, self.cell_count)
            most = max(most, start + min(most_at_once, below) * (1 - start) * own.swing)
            least = min(least, start - min(most_at_once, self.cell_count - below) * start * own.swing)
        exact = own.exact and own.at_once == 1
        return own._replace(least=least, most=most, items=self.size, at_once=self.size, exact=exact)

    @property
    def _cell_rows(self) -> Floats | None:
        """The values in each cell."""
        values = self.attribute.k if self.whole else FINE
        if values > FINE or self.cuts is not None:
            return None
        first = self._starts if self.whole else FINE // self.cell_count * np.arange(1, self.cell_count)
        cell = np.searchsorted(first, np.arange(values), side="right")
        return (cell == np.arange(self.cell_count)[:, None]).astype(np.float64)

    def variance_of_mean(self, name: str, mechanism: Mechanism, share: float) -> float | None:
        """Of a window, which is given the number itself."""
        told = name == self.name and self.asked_in_cells(mechanism) is None and "mean" in mechanism.statistics
        return mechanism.reading.worst_variance(share) if told else None

    def tells(
        self, mechanism: Mechanism, tally: Tally, own: Cumulative, among: int
    ) -> Iterator[tuple[str, LinearReading]]:
        """The shares of its cells, where these were reported; of a window, the mean."""
        if own.finer is not None:
            yield from self._finer_form(own.finer).fine.tells(mechanism, tally, own.finer, among)
            return
        cells, mean = self._cell_rows, MeanOf(self.name, self.attribute)
        if own.n and own.cells is not None and cells is not None:
            yield self.name, LinearReading.of_estimate(cells, own.cells)
        elif own.n and own.cells is None and mean.rows is not None and "mean" in mechanism.statistics:
            found: Any = mechanism.reading.estimate(tally, own.guarantee, "", among)  # of a window it is the mean
            yield self.name, LinearReading.of_estimate(mean.rows, found, mean.slack)

    def from_all(self, estimate: Cumulative, better: Callable[[Floats, Estimate], Estimate]) -> Cumulative:
        """Cells are put together with what else is told, and added up; a smooth curve stays as it is."""
        if estimate.finer is not None:
            form = self._finer_form(estimate.finer)
            return form.at_thresholds(form.fine.from_all(estimate.finer, better))
        rows = self._cell_rows
        return estimate if estimate.cells is None or rows is None else self.select(better(rows, estimate.cells), 0, 1)

    # What it costs ---------------------------------------------------------------------------------------------------

    def weighted(self, given: Mapping[Any, float]) -> tuple[Self, float]:
        """All thresholds count alike: of a smooth curve no error of a single one is predicted."""
        raise ParameterError(
            f"weights: all thresholds of {self} count alike; give the question one weight, as in "
            f"weights={{{str(self)!r}: 2.0}}"
        )

    def limit(self, weight: float) -> tuple[Parameters, ...]:
        """Of users at the two ends alone: all shares are then one, that of those at the lower end."""
        return frequencies(2, weight)

    @property
    def unasked(self) -> float:
        """Of a half for each: all users may be at one end."""
        return 0.25

    @property
    def useless(self) -> float:
        """No share is farther than a half from a half."""
        return 0.5 / 1.96

    @property
    def remark(self) -> str:
        between = "" if self.missed == 0 else ", with what a line between two thresholds may miss"
        return f"predicted is the error of a share below a threshold, averaged over thresholds{between}."

    # What it gives ---------------------------------------------------------------------------------------------------

    @property
    def on_axis(self) -> dict[str, Any]:
        """What a result knows of its thresholds."""
        ends = float(self.attribute.low), float(self.attribute.high)
        return {"thresholds": self.thresholds, "ends": ends, "whole": self.whole}

    def unknown(self, guarantee: Guarantee, source: str) -> Cumulative:
        nothing = np.full(self.shape, np.nan), np.full(self.shape, np.inf)
        return Cumulative(*nothing, 0, guarantee, source=source, bounds=_SHARE, **self.on_axis)

    def refine(self, estimate: Cumulative, apply: Callable[[Cumulative], Cumulative], auto: bool) -> Cumulative:
        """Cells learn from their neighbours, and are added up again. Methods for items without an order do nothing."""
        if estimate.finer is not None:
            form = self._finer_form(estimate.finer)
            refined = form.fine.refine(estimate.finer, apply, auto)
            return estimate if refined is estimate.finer else replace(form.at_thresholds(refined), original=estimate)
        cells = estimate.cells
        if cells is None:
            return replace(estimate, notes=(*estimate.notes, _SMOOTH))
        if not auto:
            return estimate
        with small_matrices():
            found = smoothed(self.cell_count, None, [NoisySums(np.eye(self.cell_count), cells.value, cells.stderr**2)])
        added = np.tri(self.cell_count - 1, self.cell_count)
        variance = ((added @ found.covariance) * added).sum(axis=1)
        return replace(
            estimate,
            value=np.clip(added @ found.value, 0.0, 1.0),
            stderr=np.sqrt(np.maximum(variance, 0.0)),
            notes=(*estimate.notes, "Smoothed: each cell has learned from its neighbours."),
            original=estimate,
            cells=None,
        )

    # What is true, in a trial ----------------------------------------------------------------------------------------

    def sums(self, column: Any) -> Whole:
        return np.bincount(self.encode(column, "substitute"), minlength=self.cell_count)[None]

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {str(self): np.cumsum(sums[0])[:-1] / users}


@dataclass(frozen=True)
class FinerCells:
    """Cumulative shares asked for by cells that lie within those of the question: `fine` has a threshold for each."""

    question: CumulativeOf
    fine: CumulativeOf

    needs: ClassVar[str] = "total"

    @cached_property
    def domain(self) -> Categories:
        """The finer cells."""
        return self.fine.domain

    @property
    def columns(self) -> tuple[Column, ...]:
        """Itself: it is of one attribute."""
        return (self.fine,)

    @property
    def nominal(self) -> tuple[()]:
        """Cells have an order."""
        return ()

    def join(self, encoded: Sequence[NDArray]) -> NDArray:
        """The only column as it is."""
        return encoded[0]

    @property
    def remark(self) -> str:
        """What must be known about its predicted error."""
        return self.fine.remark

    def reading_of(self, mechanism: Mechanism) -> None:
        """As the mechanism reads categories."""

    def variance(self, mechanism: Mechanism, reports: float, users: float) -> float:
        """That of the finer curve."""
        return self.fine.variance(mechanism, reports, users)

    def select(self, own: Estimate, place: int, count: int) -> Cumulative:
        """The finer curve, at the thresholds of the question."""
        return self.at_thresholds(self.fine.select(own, place, count))

    def at_thresholds(self, fine: Cumulative) -> Cumulative:
        """A curve of all cells at the thresholds of the question, with the whole one in it."""
        step = self.fine.cell_count // self.question.cell_count
        shown = slice(step - 1, None, step)
        return replace(
            fine,
            value=fine.value[shown],
            stderr=fine.stderr[shown],
            thresholds=fine.thresholds[shown],
            cells=None,
            finer=fine,
        )

    def worth(self, worths: Worths, place: int, count: int) -> Worth:
        """At most what a report is worth to the finer curve, of which all its thresholds are."""
        own = self.fine.worth(worths, place, count)
        return own._replace(items=self.question.size, at_once=self.question.size, exact=False)


class PlacedCurve(Placed):
    """Cumulative shares asked for by the number itself, as a place from -1 to 1."""

    question: CumulativeOf

    needs: ClassVar[str] = "distribution"

    @property
    def remark(self) -> str:
        """What must be known about its predicted error."""
        return (
            "predicted is the error of a share below a threshold, averaged over thresholds, for the hardest of eight "
            "shapes, with spikes and heaps; smooth data are kinder. Intervals hold for any data, and are wider than "
            "this error would give."
        )

    def reading_of(self, mechanism: Mechanism) -> PredictedReading[Cumulative]:
        """That of shares below thresholds."""
        reading = mechanism.cumulative_reading(self.question.axis)
        if reading is None:
            raise ParameterError(f"it is not known how to read shares below thresholds off {type(mechanism).__name__}")
        return reading

    def variance(self, mechanism: Mechanism, reports: float, users: float) -> float:
        """Between two thresholds a smooth curve is read off a line, too."""
        return super().variance(mechanism, reports, users) + reports * self.question.missed

    def select(self, own: Cumulative, place: int, count: int) -> Cumulative:
        """What was read, in the attribute's units."""
        return replace(own, **self.question.on_axis)


def _starts(cells: int, k: int) -> NDArray[np.int64]:
    """Of k whole numbers in cells as equal as can be, counted from 0: the first of each cell but the lowest."""
    return -(-np.arange(1, cells) * k // cells)


@lru_cache(maxsize=256)
def _axis(cells: int, k: int | None) -> Thresholds:
    """Thresholds between cells of k whole numbers, or of a number of any kind."""
    if k is None:
        return Thresholds.of_cells(cells)
    if cells == k:
        return Thresholds.between_places(k)
    return Thresholds(tuple(((2 * _starts(cells, k) - 1) / (k - 1) - 1).tolist()))
