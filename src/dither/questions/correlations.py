"""How two numbers go together: `covariance(a, b)` and `correlation(a, b)`.

A device multiplies its two numbers, each from -1 to 1, before it adds noise: the product is a number from -1 to 1
again, and its mean is a question like any other (`ProductOf`). With the means of both numbers that is their covariance,
and with their squares (`questions.spreads`) their correlation:

    covariance = scale_a scale_b (E[t_a t_b] - E[t_a] E[t_b]),      correlation = covariance / (std_a std_b).

**Predictions** need the spread of both numbers, which priors tell, and how they go together, of which nobody says
anything beforehand: a correlation of a half is believed, neither none nor all. With none, the squares would not matter,
and nobody would be asked about them.

**Where nothing can be said.** A correlation of numbers that may not vary at all can be anything. So where the noise
leaves it open whether a variance is above zero, the interval is all of [-1, 1], and the result says that it is unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.mechanism import Mechanism
from dither.errors import ParameterError
from dither.questions.derived import FunctionOf, Users
from dither.questions.means import EVENLY, MeanOf
from dither.questions.question import Column, Floats, Question, Whole, steps
from dither.questions.spreads import SquareOf
from dither.schema import Attribute, Schema
from dither.utility.population import Population

_SOME = EVENLY[::20]
_PRODUCTS = Population(np.ravel(np.outer(_SOME, _SOME)), np.full(_SOME.size**2, 1 / _SOME.size**2))
_RELATED = 0.5  # the correlation that is believed
_ALONE = 1e-3  # of the largest variance that there can be: below it, a number does not vary


class _OfTwo(Question):
    """Questions about two numbers, of which `attribute` is the pair."""

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        """Of numbers, two at a time."""
        return attribute.kind in ("numeric", "ordinal")

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        """The question about the two that are named; their order does not matter, and is that of the schema."""
        names = [name.strip() for name in inside.split(",")]
        if not all(name in schema for name in names):
            return None
        if len(set(names)) != 2 or not all(cls.asks(schema[name]) for name in names):
            raise ParameterError(f"{cls.statistic} is of two different numbers, as in {cls.statistic}(age, income)")
        both = [name for name in schema if name in names]
        return cls(", ".join(both), tuple(schema[name] for name in both))

    @classmethod
    def usage(cls, name: str, attribute: Attribute) -> str:
        return f"{cls.statistic}({name}, another)"

    def means(self, text: str) -> bool:
        """Neither spaces nor the order matter."""
        statistic, _, rest = text.strip().partition("(")
        named = sorted(name.strip() for name in rest.removesuffix(")").split(","))
        return statistic.strip() == self.statistic and rest.endswith(")") and named == sorted(self.both)

    @property
    def both(self) -> tuple[str, str]:
        """The names of the two attributes."""
        first, second = self.name.split(", ")
        return first, second

    @property
    def of_each(self) -> tuple[MeanOf, MeanOf]:
        """Their means."""
        first, second = (MeanOf(name, own) for name, own in zip(self.both, self.attribute, strict=True))
        return first, second


class ProductOf(_OfTwo, MeanOf):
    """The mean of the product of two numbers' distances from the middles of their domains."""

    statistic: ClassVar[str] = "product"
    pairs: ClassVar[bool] = False
    pooled: ClassVar[bool] = False
    supporting: ClassVar[bool] = True
    title: ClassVar[str] = "mean product of the distances from the middles"

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.of_each

    def join(self, encoded: Sequence[NDArray]) -> NDArray:
        return encoded[0] * encoded[1]

    @property
    def unit(self) -> float:
        return self.attribute[0].half_width * self.attribute[1].half_width

    @property
    def origin(self) -> float:
        return 0.0

    @property
    def ends(self) -> tuple[float, float]:
        return -self.unit, self.unit

    @property
    def rows(self) -> None:
        """It is about both together."""

    @property
    def slack(self) -> float:
        return 0.0

    def told_by(self, other: Question, mechanism: Mechanism, share: float) -> None:
        """Reports about one of the numbers tell nothing of the product."""

    @property
    def believed(self) -> float:
        return 0.0625

    @property
    def reference(self) -> Population:
        """Of numbers that are spread evenly, and have nothing to do with each other."""
        return _PRODUCTS

    def sums_of(self, columns: Mapping[str, Any]) -> Whole:
        product = self.join([each.encode(columns[each.name], "substitute") for each in self.of_each])
        return steps(product, np.zeros(len(product), dtype=np.int64), 1)


@dataclass(frozen=True)
class CovarianceOf(_OfTwo, FunctionOf):
    """The covariance of two numbers, in the product of their units."""

    statistic: ClassVar[str] = "covariance"
    title: ClassVar[str] = "covariance"

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.of_each

    @property
    def rests_on(self) -> tuple[MeanOf, ...]:
        return ProductOf(self.name, self.attribute), *self.of_each

    @property
    def unit(self) -> float:
        return self.attribute[0].half_width * self.attribute[1].half_width

    @property
    def ends(self) -> tuple[float, float]:
        return -self.unit, self.unit

    def function(self, values: Floats) -> Floats:
        return values[..., 0] - values[..., 1] * values[..., 2]


class CorrelationOf(CovarianceOf):
    """The correlation of two numbers, from -1 to 1."""

    statistic: ClassVar[str] = "correlation"
    title: ClassVar[str] = "correlation"

    @property
    def rests_on(self) -> tuple[MeanOf, ...]:
        squares = (SquareOf(name, own) for name, own in zip(self.both, self.attribute, strict=True))
        return (*super().rests_on, *squares)

    @property
    def unit(self) -> float:
        return 1.0

    def believed(self, users: Users) -> Floats:
        """With a correlation of a half."""
        values = super().believed(users)
        variances = np.maximum((values[3:] + 1) / 2 - values[1:3] ** 2, 2 * _ALONE)
        values[0] = values[1] * values[2] + _RELATED * float(np.sqrt(np.prod(variances)))
        return values

    @property
    def remark(self) -> str:
        return super().remark + " Both numbers are believed to have a correlation of a half."

    def function(self, values: Floats) -> Floats:
        variances = (values[..., 3:] + 1) / 2 - values[..., 1:3] ** 2
        both = np.sqrt(np.prod(np.maximum(variances, _ALONE), axis=-1))
        return np.where(variances.min(axis=-1) > _ALONE, super().function(values) / both, np.nan)

    @property
    def not_known(self) -> str:
        return "Unknown: the reports leave it open whether both numbers vary at all."
