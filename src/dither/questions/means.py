"""The mean of a number: `mean(income)`."""

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import UnitInterval
from dither.core.estimate import MEAN, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.questions.question import FINE, Floats, Question, Whole, from_steps, steps, value_places
from dither.schema import Attribute, Numeric
from dither.utility.limits import Parameters, mean
from dither.utility.population import Population

EVENLY = np.linspace(-1.0, 1.0, 201)
# Nine in ten are spread evenly, the others sit at the ends. With none at the ends plans give up a tenth of the error of
# users who do, for a hundredth of that of others; with one in five there real users pay (docs/decisions/0034-whom.md).
_AT_ENDS = 0.1
PLACES = np.concatenate([EVENLY, [-1.0, 1.0]])
WEIGHTS = np.concatenate([np.full(EVENLY.size, (1 - _AT_ENDS) / EVENLY.size), [_AT_ENDS / 2, _AT_ENDS / 2]])
_MOSTLY_EVEN = Population(PLACES, WEIGHTS)


class MeanOf(Question[Estimate]):
    """The mean of a number, in its own units.

    >>> from dither.schema import Numeric
    >>> question = MeanOf("income", Numeric(0, 200_000))
    >>> str(question), question.shape, question.unit
    ('mean(income)', (), 100000.0)
    """

    statistic: ClassVar[str] = "mean"
    needs: ClassVar[str] = "mean"
    averages: ClassVar[bool] = True
    pairs: ClassVar[bool] = True
    pooled: ClassVar[bool] = True
    regional: ClassVar[bool] = True
    group: ClassVar[str] = "means"
    title: ClassVar[str] = "mean"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind in ("numeric", "ordinal")

    @cached_property
    def domain(self) -> UnitInterval:
        return UnitInterval()

    @property
    def shape(self) -> tuple[()]:
        return ()

    @property
    def unasked(self) -> float:
        """The centre is at most half a width away."""
        return 1.0

    @property
    def believed(self) -> float:
        """Its mean for users of whom nothing is known, in a mechanism's units: `questions.derived` says which."""
        return 0.25

    @property
    def reference(self) -> Population:
        """Most of them spread evenly: the worst users all sit at the ends, which real ones never do."""
        return _MOSTLY_EVEN

    @property
    def rows(self) -> Floats | None:
        places = value_places(self.attribute)
        return None if places is None else places[None]

    @property
    def slack(self) -> float:
        return 0.0 if self.attribute.k else 1 / FINE

    def unknown(self, guarantee: Guarantee, source: str) -> Estimate:
        nothing: Any = super().unknown(guarantee, source)
        return replace(nothing, bounds=MEAN)

    def told_by(self, other: Question, mechanism: Mechanism, share: float) -> float | None:
        return other.variance_of_mean(self.name, mechanism, share)

    @cached_property
    def _number(self) -> Numeric:
        return self.attribute.numeric()

    def _encoded(self, column: Any, invalid: str) -> NDArray:
        return self._number.encode(column, invalid)

    def encode_value(self, value: Any) -> float:
        return self._number.encode_value(value)

    def limit(self, weight: float) -> tuple[Parameters, ...]:
        return mean(weight)

    def sums(self, column: Any) -> Whole:
        encoded = self.encode(column, "substitute")
        return steps(encoded, np.zeros(len(encoded), dtype=np.int64), 1)

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {str(self): self.origin + self.unit * (from_steps(sums) / users)}
