"""The share of users with each label: `histogram(job)`."""

from typing import Any, ClassVar

from numpy.typing import NDArray

from dither.questions.shares import SharesOf
from dither.schema import Attribute


class HistogramOf(SharesOf):
    """The share of users with each label, which have no order."""

    statistic: ClassVar[str] = "histogram"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind == "categorical"

    @property
    def shape(self) -> tuple[int]:
        return (self.attribute.k,)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.attribute.labels

    def _encoded(self, column: Any, invalid: str) -> NDArray:
        return self.attribute.encode(column, invalid)
