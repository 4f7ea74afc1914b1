"""Values with a given share of the users up to them: `median(x)` and `quantile(x, 0.9)`.

They are read off the shares below thresholds (`questions.cumulative`), which reports tell: where the curve reaches q.
An error of the curve is divided by its slope, the density of users there; so the error of a quantile depends on how
crowded its place is. The interval holds whatever the distribution is: it ends at thresholds (Woodruff 1952).

**Predictions.** A prior tells how crowded it is. What is predicted is then the error of what will be read off the curve
of these users, moved up and down by a normal error: with the jumps of whole numbers, and with what is missed where
users are not spread evenly between two thresholds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dither.core.confidence import Ends, IntervalRule
from dither.core.cumulative_estimate import Cumulative
from dither.core.estimate import Bounds, Estimate
from dither.core.guarantee import NO_GUARANTEE
from dither.errors import ParameterError
from dither.questions.cumulative import CumulativeOf
from dither.questions.derived import Derived, Users
from dither.questions.means import MeanOf
from dither.questions.question import CollectedUsers, Expected, Floats, Question, Whole
from dither.schema import Attribute, Schema

_FINE = 1 << 16  # cells of a number, for the truth in a trial
_USAGE = "a quantile is asked for a share between 0 and 1, as in quantile(income, 0.9)"
_EVEN = 0.5  # the density of numbers from -1 to 1 that are spread evenly
_AROUND = 0.05  # of the users on both sides of a quantile tell how crowded it is there
_CROWDED = 0.1  # the least slope of a quantile: however crowded it is, somebody must be asked
_ROUNDING = 1e-12
_NORMAL = np.array([NormalDist().inv_cdf((place + 0.5) / 101) for place in range(101)])  # stand for a normal error


class _QuantileCurve(NamedTuple):
    """Users as a prior has them: their shares of cells, the curve that these are, and where the quantile is."""

    shares: Floats
    below: Cumulative
    truth: float


@dataclass(frozen=True, eq=False)
class QuantileIntervals(IntervalRule):
    """Where a quantile of cumulative shares is."""

    curve: Cumulative
    q: float

    def ends(self, miss: float) -> Ends:
        low, high = self.curve.quantile_interval(self.q, 1 - miss)
        return np.atleast_1d(low), np.atleast_1d(high)

    def of(self, places: Any) -> "QuantileIntervals":
        return self


@dataclass(frozen=True)
class QuantileOf(Derived[Estimate]):
    """The least value with a share of q of the users up to it.

    >>> from dither.schema import Numeric
    >>> question = QuantileOf("income", Numeric(0, 200_000), q=0.9)
    >>> str(question), [str(each) for each in question.rests_on]
    ('quantile(income, 0.9)', ['cumulative(income)'])
    """

    q: float = 0.5

    statistic: ClassVar[str] = "quantile"
    averages: ClassVar[bool] = True
    group: ClassVar[str] = "means"

    def __str__(self) -> str:
        return f"{self.statistic}({self.name}, {self.q:g})"

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"value with {100 * self.q:g}% of the users up to it"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind in ("numeric", "ordinal")

    @classmethod
    def usage(cls, name: str, attribute: Attribute) -> str:
        return f"quantile({name}, 0.9)"

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        name, comma, share = (part.strip() for part in inside.rpartition(","))
        if inside.strip() in schema and cls.asks(schema[inside.strip()]):
            raise ParameterError(_USAGE)
        if not comma or name not in schema or not cls.asks(schema[name]):
            return None
        try:
            q = float(share)
        except ValueError:
            raise ParameterError(_USAGE) from None
        if not 0 < q < 1:
            raise ParameterError(_USAGE)
        return cls(name, schema[name], q=q)

    def means(self, text: str) -> bool:
        statistic, _, rest = text.strip().partition("(")
        name, _, share = (part.strip() for part in rest.removesuffix(")").rpartition(","))
        return statistic.strip() == self.statistic and name == self.name and share == f"{self.q:g}"

    @property
    def shape(self) -> tuple[()]:
        return ()

    @cached_property
    def curve(self) -> CumulativeOf:
        """The shares below thresholds that it is read off."""
        return CumulativeOf(self.name, self.attribute)

    @property
    def rests_on(self) -> tuple[CumulativeOf, ...]:
        return (self.curve,)

    @property
    def remark(self) -> str:
        return (
            "predicted is the error for users like those of the prior or, without one, where users are spread evenly "
            "over the domain: where they are twice as crowded, it is half of that, so it is an order of magnitude. Its "
            "interval ends at thresholds, so it is at least as wide as the cell between two."
        )

    @property
    def depends_on(self) -> tuple[MeanOf, ...]:
        """The number: how crowded it is where the quantile is."""
        return (MeanOf(self.name, self.attribute),)

    def _believed(self, users: Users, curve: CumulativeOf) -> "_QuantileCurve | None":
        known = users.get(*self.depends_on)
        if known is None:
            return None
        values = np.clip(self.origin + self.unit * known.values, *self.ends)
        values = np.rint(values) if curve.whole else values
        order = np.argsort(values, kind="stable")
        place = int(np.searchsorted(np.cumsum(known.weights[order]), self.q * (1 - _ROUNDING)))
        shares = curve.cells_of(values, known.weights)
        below = Cumulative(np.cumsum(shares)[:-1], np.zeros(curve.size), 0, NO_GUARANTEE, **curve.on_axis)
        return _QuantileCurve(shares, below, float(values[order][min(place, len(order) - 1)]))

    def sensitivities(self, users: Users) -> dict[Question, float]:
        """One over the squared density of users; there are at least some."""
        known = self._believed(users, self.curve)
        if known is None:
            return {self.curve: 1 / _EVEN**2}
        around = np.clip([self.q - _AROUND, self.q + _AROUND], 0.0, 1.0)
        slope = float(np.diff(known.below.quantile(around))[0] / np.diff(around)[0]) / self.unit
        return {self.curve: max(slope, _CROWDED) ** 2}

    def predict(self, expected: Mapping[Question, Expected], users: Users) -> float:
        told = expected[self.curve]
        asked = self.curve.asked_in_cells(told.mechanism) or self.curve
        known = self._believed(users, asked)
        if known is None:
            return self.unit * told.error * asked.error_ratio(told.mechanism, self.q) / _EVEN
        own = asked.error_at(told.mechanism, self.q, known.shares, told.reports, told.users)
        error = told.error if own is None else own
        read = known.below.quantile(np.clip(self.q + error * _NORMAL, 0.0, 1.0))
        return float(np.sqrt(np.mean((read - known.truth) ** 2)))

    def derive(self, found: Mapping[Question, Cumulative], collected: CollectedUsers) -> Estimate:
        curve = found[self.curve]
        measured: Any = curve if curve.original is None else curve.original
        own = measured.finest
        if not curve.n:
            unknown: Any = self.unknown(collected.guarantee, "")
            return self._named(unknown)
        value = float(curve.quantile(self.q))
        error = float(np.interp(value, own.thresholds, own.stderr))
        line: Any = replace(own, whole=False)  # whole numbers jump, and none would be no error
        low, high = (float(line.quantile(min(max(self.q + side * error, 0.0), 1.0))) for side in (-1, 1))
        made = Estimate(
            np.asarray(value),
            np.asarray((high - low) / 2),
            curve.n,
            collected.guarantee,
            source=curve.source,
            notes=(
                f"Read off {self.curve}: between two thresholds as if users were spread evenly there. Its interval "
                "ends at thresholds, and holds whatever the distribution is.",
            ),
            rule=QuantileIntervals(own, self.q),
        )
        return self._named(made)

    def _named(self, made: Estimate) -> Estimate:
        return replace(made, question=str(self), bounds=Bounds(*map(float, self.ends)))

    # What is true, in a trial ------------------------------------------------------------------------------------

    def sums_of(self, columns: Mapping[str, Any]) -> Whole:
        """How many users have each whole number, or are in each of many cells."""
        encoded = self.attribute.encode(columns[self.name], "substitute")
        if self.curve.whole:
            return np.bincount(encoded, minlength=self.attribute.k)[None]
        cells = np.minimum(((encoded + 1) / 2 * _FINE).astype(np.int64), _FINE - 1)
        return np.bincount(cells, minlength=_FINE)[None]

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        place = int(np.searchsorted(np.cumsum(sums[0]), self.q * users, side="left"))
        low, high = float(self.attribute.low), float(self.attribute.high)
        value = low + place if self.curve.whole else low + (high - low) * (place + 0.5) / _FINE
        return {str(self): np.array([value])}


class MedianOf(QuantileOf):
    """The value with half of the users up to it."""

    statistic: ClassVar[str] = "median"

    def __str__(self) -> str:
        return f"median({self.name})"

    @property
    def title(self) -> str:  # type: ignore[override]
        return "median"

    @classmethod
    def usage(cls, name: str, attribute: Attribute) -> str:
        return f"median({name})"

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        name = inside.strip()
        return cls(name, schema[name]) if name in schema and cls.asks(schema[name]) else None

    def means(self, text: str) -> bool:
        return text.strip() == str(self)
