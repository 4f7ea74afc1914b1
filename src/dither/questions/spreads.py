"""How far numbers spread: `variance(x)` and `std(x)`.

Both rest on two means, each a question of its own that a device answers: of the number itself, and of the square of its
distance from the middle of the domain (`SquareOf`), which the device works out before it adds noise. With t for the
number from -1 to 1 and u = 2 t^2 - 1,

    variance = scale^2 ((E[u] + 1) / 2 - E[t]^2).

Reading it off a distribution in cells instead would have the noise of all cells in it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.core.mechanism import Mechanism
from dither.questions.derived import FunctionOf
from dither.questions.means import PLACES, WEIGHTS, MeanOf
from dither.questions.question import Floats, Question
from dither.schema import Attribute
from dither.utility.population import Population

_SQUARES = Population(2 * PLACES**2 - 1, WEIGHTS)


class SquareOf(MeanOf):
    """The mean of the squared distance from the middle of the domain.

    >>> from dither.schema import Numeric
    >>> question = SquareOf("income", Numeric(0, 200))
    >>> question.encode([0, 100, 150]).tolist(), question.ends
    ([1.0, -1.0, -0.5], (0.0, 10000.0))
    """

    statistic: ClassVar[str] = "square"
    pairs: ClassVar[bool] = False
    pooled: ClassVar[bool] = False
    regional: ClassVar[bool] = False  # each region has a middle of its own
    supporting: ClassVar[bool] = True
    title: ClassVar[str] = "mean squared distance from the middle"

    @property
    def unit(self) -> float:
        return self.attribute.half_width**2 / 2

    @property
    def origin(self) -> float:
        return self.unit

    @property
    def ends(self) -> tuple[float, float]:
        return 0.0, 2 * self.unit

    @property
    def believed(self) -> float:
        return -0.5

    @property
    def rows(self) -> Floats | None:
        places = super().rows
        return None if places is None else 2 * places**2 - 1

    @property
    def slack(self) -> float:
        """No slope is above 4."""
        return 4 * super().slack

    def told_by(self, other: Question, mechanism: Mechanism, share: float) -> None:
        """How much others tell of squares is not known beforehand."""

    @property
    def reference(self) -> Population:
        """Of numbers that are spread evenly."""
        return _SQUARES

    def _encoded(self, column: Any, invalid: str) -> NDArray:
        return 2 * super()._encoded(column, invalid) ** 2 - 1

    def encode_value(self, value: Any) -> float:
        return 2 * super().encode_value(value) ** 2 - 1


@dataclass(frozen=True)
class VarianceOf(FunctionOf):
    """The variance of a number, in its units squared.

    >>> from dither.schema import Numeric
    >>> question = VarianceOf("income", Numeric(0, 200))
    >>> [str(each) for each in question.rests_on], float(question.function(np.array([0.5, -0.5])))
    (['mean(income)', 'square(income)'], 0.0)
    """

    statistic: ClassVar[str] = "variance"
    title: ClassVar[str] = "variance"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind in ("numeric", "ordinal")

    @property
    def rests_on(self) -> tuple[MeanOf, ...]:
        return MeanOf(self.name, self.attribute), SquareOf(self.name, self.attribute)

    @property
    def unit(self) -> float:
        return self.attribute.half_width**2

    def function(self, values: Floats) -> Floats:
        return _variance(values[..., 0], values[..., 1])


class StdOf(VarianceOf):
    """The standard deviation of a number, in its own units."""

    statistic: ClassVar[str] = "std"
    title: ClassVar[str] = "standard deviation"

    @property
    def unit(self) -> float:
        return self.attribute.half_width

    def function(self, values: Floats) -> Floats:
        variance = super().function(values)
        return np.sign(variance) * np.sqrt(np.abs(variance))


def _variance(mean: Floats, square: Floats) -> Floats:
    """Of numbers from -1 to 1, from their mean and that of twice their square less one."""
    return (square + 1) / 2 - mean**2
