"""The shares of users along the values of a number: `distribution(age)`.

Whole numbers have a share each. Other numbers fall into `BINS` bins of equal width; in the second of two phases into
bins that are narrow where the first phase saw many.

It is asked for as the bin, by any mechanism for categories. Where users are asked in phases it may be asked for as the
number itself (`PlacedShares`), by a mechanism that tells `"bins"`: a picture that is blurred along the estimated
quantiles. In one phase it may not: a square wave of the number hides spikes and heaps (docs/decisions/0029).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.cumulative_estimate import Thresholds
from dither.core.estimate import Estimate
from dither.core.mechanism import Mechanism, PredictedReading
from dither.errors import ParameterError
from dither.questions.means import MeanOf
from dither.questions.placed import Placed, round_cuts
from dither.questions.question import FINE, Floats, Form
from dither.questions.shares import SharesOf
from dither.ranges.axes import Axis
from dither.refine.smooth import MOST_CELLS, smooth
from dither.schema import Attribute
from dither.utility.population import Population

BINS = 32  # stored plans rely on it
MOST_PLACES = 128  # whole numbers whose shares are read off a smooth density one by one
_SMOOTH = "As smooth as the reports allow already: refining has nothing to win back."


@dataclass(frozen=True)
class DistributionOf(SharesOf):
    """The share of users at each whole number, or in each bin."""

    cuts: tuple[float, ...] | None = field(default=None, kw_only=True, compare=False, repr=False)  # from -1 to 1

    statistic: ClassVar[str] = "distribution"
    ordered: ClassVar[bool] = True
    title: ClassVar[str] = "distribution"

    @property
    def sought(self) -> str:
        return f"the share of people along the values of {self.name}"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind in ("numeric", "ordinal")

    @property
    def _binned(self) -> bool:
        return self.attribute.kind == "numeric"

    @property
    def shape(self) -> tuple[int]:
        if self.cuts is not None:
            return (len(self.cuts) + 1,)
        return (BINS if self._binned else self.attribute.k,)

    @property
    def forms(self) -> tuple[Form, ...]:
        return self, self._placed

    @cached_property
    def _placed(self) -> "PlacedShares":
        return PlacedShares(self)

    def as_asked_by(self, mechanism: Mechanism) -> Self:
        """With bins that are narrow where an earlier phase saw many users, if there was one."""
        cuts = mechanism.learned_cuts() if self.cuts_learned else None
        return self if cuts is None else replace(self, cuts=round_cuts(cuts, self.attribute))

    @property
    def cuts_learned(self) -> bool:
        return self._binned

    @property
    def spread_by(self) -> MeanOf:
        return MeanOf(self.name, self.attribute)

    def known_error(self, mechanism: Mechanism, users: Population, reports: tuple[float, float]) -> float:
        learned: Any = self._placed.reading_of(mechanism)  # one of a mechanism that is phased, so it knows
        return float(np.sqrt(learned.known_mse(users.values, users.weights, reports)))

    def one_phase_error(self, mechanism: Mechanism, reports: float, users: float) -> float | None:
        learned: Any = self._placed.reading_of(mechanism)  # one of a mechanism that is phased, so it knows
        return float(np.sqrt(learned.one_phase_mse(reports, users)))

    @property
    def axis(self) -> Thresholds:
        """Where its bins end between -1 and 1, as a mechanism for numbers has them."""
        if self.cuts is not None:
            return Thresholds(self.cuts)
        if self._binned:
            return Thresholds.of_cells(BINS)
        known = Thresholds.between_places(self.size)
        return known if self.size <= MOST_PLACES else Thresholds(known.at)

    @property
    def labels(self) -> tuple[str, ...]:
        if not self._binned:
            return self.attribute.labels
        edges = self._edges
        return tuple(f"{low:g} to {high:g}" for low, high in pairwise(edges))

    @property
    def _edges(self) -> Floats:
        """Of bins."""
        low, high, cuts = self.attribute.low, self.attribute.high, self.cuts
        if cuts is None:
            return np.linspace(low, high, BINS + 1)
        return np.concatenate([[low], self.attribute.centre + self.attribute.half_width * np.array(cuts), [high]])

    @property
    def edges(self) -> Floats:
        """Whole numbers stand in the middle of theirs."""
        if self.cuts is not None:
            return self._edges
        return Axis(self.name, self.size, self.attribute).edges

    def _encoded(self, column: Any, invalid: str) -> NDArray:
        encoded = self.attribute.encode(column, invalid)
        if self.cuts is not None:
            return np.searchsorted(np.array(self.cuts), encoded, side="right")
        return np.minimum(((encoded + 1) / 2 * BINS).astype(np.int64), BINS - 1) if self._binned else encoded

    def encode_value(self, value: Any) -> int:
        encoded = self.attribute.encode_value(value)
        if self.cuts is not None:
            return int(np.searchsorted(np.array(self.cuts), encoded, side="right"))
        return min(int((encoded + 1) / 2 * BINS), BINS - 1) if self._binned else encoded

    @property
    def rows(self) -> Floats | None:
        """A value each, or the fine cells of a bin."""
        values = FINE if self._binned else self.size
        known = self.cuts is None and values <= FINE
        return np.repeat(np.eye(self.size), values // self.size, axis=1) if known else None

    def refine(self, estimate: Estimate, apply: Callable[[Estimate], Estimate], auto: bool) -> Estimate:
        """That values have an order says more about them than that they are many: they are smoothed."""
        if estimate.rule is not None:  # that of a density
            return replace(estimate, notes=(*estimate.notes, _SMOOTH))
        return smooth(estimate) if auto and self.size <= MOST_CELLS else apply(estimate)


class PlacedShares(Placed):
    """The shares of bins or whole numbers asked for by the number itself, as a place from -1 to 1."""

    question: DistributionOf

    needs: ClassVar[str] = "bins"

    @property
    def remark(self) -> str:
        """What must be known about its predicted error."""
        return (
            "predicted is the error of the share of a bin after all phases, on average over bins that are narrow where "
            "many are, for the hardest of nine shapes; smooth data are kinder. Intervals hold for any data, and are "
            "wider than this error would give."
        )

    def reading_of(self, mechanism: Mechanism) -> PredictedReading[Estimate]:
        """That of shares between thresholds."""
        reading = mechanism.bin_reading(self.question.axis)
        if reading is None:
            raise ParameterError(f"it is not known how to read shares of bins off {type(mechanism).__name__}")
        return reading

    def select(self, own: Estimate, place: int, count: int) -> Estimate:
        """What was read."""
        return own
