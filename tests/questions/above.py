"""A question of somebody else, in one file: the share of users above a public threshold, `above(income, 50000)`."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import Categories
from dither.core.estimate import Bounds
from dither.questions import Question
from dither.schema import Attribute, Schema
from dither.utility.limits import Parameters, frequencies


@dataclass(frozen=True)
class AboveOf(Question):
    """The share of users whose number is above a threshold."""

    threshold: float = 0.0

    statistic: ClassVar[str] = "above"
    title: ClassVar[str] = "share above a threshold"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind in ("numeric", "ordinal")

    @classmethod
    def usage(cls, name: str, attribute: Any) -> str:
        return f"above({name}, {attribute.numeric().centre:g})"

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        name, _, threshold = inside.rpartition(",")
        asked = name in schema and cls.asks(schema[name])
        return cls(name, schema[name], float(threshold)) if asked else None

    def __str__(self) -> str:
        return f"above({self.name}, {self.threshold:g})"

    @property
    def shape(self) -> tuple[()]:
        return ()

    @cached_property
    def domain(self) -> Categories:
        return Categories(2)  # at most the threshold, or above

    def _encoded(self, column: Any, invalid: str) -> NDArray:
        number = self.attribute.numeric()
        return (number.centre + number.half_width * number.encode(column, invalid) > self.threshold).astype(np.int64)

    def select(self, own: Any, place: int, count: int) -> Any:
        return replace(own, value=own.value[1], stderr=own.stderr[1], bounds=Bounds(0.0, 1.0))

    def limit(self, weight: float) -> tuple[Parameters, ...]:
        return frequencies(2, weight)

    @property
    def unasked(self) -> float:
        return 0.25

    def sums(self, column: Any) -> NDArray[np.int64]:
        return np.array([[self.encode(column, "substitute").sum()]])

    def truths(self, sums: NDArray[np.int64], users: int) -> dict[str, NDArray[np.float64]]:
        return {str(self): sums[0] / users}
