"""The share of users with each label: `histogram(job)`.

Where the schema has a label for what is missing, its share comes beside it: `missing(job)`, who gave no answer.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from dither.core.estimate import Bounds, Estimate
from dither.errors import ParameterError
from dither.questions.question import FINE, Floats, Question, Whole
from dither.questions.shares import SharesOf
from dither.schema import Attribute, Schema


class HistogramOf(SharesOf):
    """The share of users with each label, which have no order."""

    statistic: ClassVar[str] = "histogram"

    @property
    def sought(self) -> str:
        return f"the share of people with each label of {self.name}"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind == "categorical"

    @property
    def shape(self) -> tuple[int]:
        return (self.attribute.k,)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.attribute.labels

    def encode_value(self, value: Any) -> int:
        return self.attribute.encode_value(value)

    @property
    def rows(self) -> Floats | None:
        return np.eye(self.size) if self.size <= FINE else None

    @property
    def beside(self) -> tuple[Question, ...]:
        return (MissingOf(self.name, self.attribute),) if self.attribute.missing is not None else ()

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        shares = sums[0] / users
        if self.attribute.missing is None:
            return {str(self): shares}
        return {str(self): shares, str(MissingOf(self.name, self.attribute)): shares[[missing_place(self.attribute)]]}


class MissingOf(SharesOf):
    """The share of users without an answer: of the label for what is missing, as it was estimated."""

    statistic: ClassVar[str] = "missing"
    derived: ClassVar[bool] = True
    crosses: ClassVar[bool] = False
    title: ClassVar[str] = "no answer"

    @property
    def sought(self) -> str:
        return f"the share of people without an answer to {self.name}"

    @classmethod
    def asks(cls, attribute: Any) -> bool:
        return attribute.kind == "categorical" and attribute.missing is not None

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        asked = super().read(schema, inside)
        if asked is not None:
            raise ParameterError(f"{asked} comes with histogram({asked.name}): ask for that")
        return None

    @property
    def shape(self) -> tuple[()]:
        return ()

    @property
    def rows(self) -> Floats | None:
        """One label of all."""
        return np.eye(self.attribute.k)[[missing_place(self.attribute)]] if self.attribute.k <= FINE else None

    def tells(self, *told: Any) -> Iterator[tuple[str, Any]]:
        """No reports are about it alone."""
        return iter(())

    def select(self, own: Estimate, place: int, count: int) -> Estimate:
        here = missing_place(self.attribute)
        return replace(
            own, value=own.value[here], stderr=own.stderr[here], bounds=Bounds(0.0, 1.0), labels=None, correlation=None
        )

    def refine(self, estimate: Estimate, apply: Callable[[Estimate], Estimate], auto: bool) -> Estimate:
        """It stays as it was estimated."""
        return estimate


def missing_place(attribute: Any) -> int:
    """The number of the label for what is missing."""
    return attribute.labels.index(attribute.missing)
