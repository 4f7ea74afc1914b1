"""Numbers as they are, as places from -1 to 1: the form of a question that is put to a mechanism for numbers.

Shares along a number can be asked for as the cell that a value is in, or as the value itself, of which the server
learns a blurred picture. The second is this form; what is read off the picture is for the question to say. Whole
numbers stand from end to end.

**Cuts.** Where an earlier phase told where the people are, a question about a number cuts it there
(`Mechanism.learned_cuts`): at thresholds that are close to each other where many are. `round_cuts` makes them numbers
that can be read, as far as that moves none of them by much.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import UnitInterval
from dither.core.mechanism import Mechanism, PredictedReading
from dither.core.worth import Worths
from dither.questions.question import Column, Question, encoded_by

_NEAR = 0.1  # of the way to the next cut, at most, is a cut moved to be a round number


@dataclass(frozen=True)
class Placed:
    """A question asked by the number itself, as a place from -1 to 1; what is read is for those derived from it."""

    question: Question

    @property
    def name(self) -> str:
        """The attribute."""
        return self.question.name

    @cached_property
    def domain(self) -> UnitInterval:
        """Numbers from -1 to 1."""
        return UnitInterval()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Itself: it is of one attribute."""
        return (self,)

    @property
    def nominal(self) -> tuple[()]:
        """Numbers have an order."""
        return ()

    def join(self, encoded: Sequence[NDArray]) -> NDArray:
        """The only column as it is."""
        return encoded[0]

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.float64]:
        """The places of the values; errors name the attribute and quote no value."""
        return encoded_by(self._encoded, self.name, column, invalid)

    def _encoded(self, column: Any, invalid: str) -> NDArray[np.float64]:
        return self._place(self.question.attribute.encode(column, invalid))

    def encode_value(self, value: Any) -> float:
        """The place of the value of one user."""
        return self._place(self.question.attribute.encode_value(value))

    def _place(self, encoded: Any) -> Any:
        attribute = self.question.attribute
        return encoded if attribute.k is None else 2 * encoded / (attribute.k - 1) - 1

    @abstractmethod
    def reading_of(self, mechanism: Mechanism) -> PredictedReading[Any]:
        """How it is read off the reports of a mechanism for numbers."""

    def variance(self, mechanism: Mechanism, reports: float, users: float) -> float:
        """That would have the predicted error, which falls more slowly than with the number of reports."""
        return reports * self.reading_of(mechanism).predicted_mse(reports, users)

    def worth(self, worths: Worths, place: int, count: int) -> None:
        """It is not known: what a fit makes of one report has no bound here."""


def round_cuts(cuts: Sequence[float], attribute: Any) -> tuple[float, ...]:
    """Places from -1 to 1 that are close to these, and round numbers in the units of the attribute; rising.

    >>> from dither.schema import Numeric
    >>> near = round_cuts([-0.9876, -0.97531, 0.1111], Numeric(0, 200_000))
    >>> [round(100_000 * (1 + cut)) for cut in near]
    [1200, 2500, 110000]
    """
    values = attribute.centre + attribute.half_width * np.array(cuts)
    ends = np.concatenate([[attribute.low], values, [attribute.high]])
    rounded = []
    for value, low, high in zip(values.tolist(), ends[:-2].tolist(), ends[2:].tolist(), strict=True):
        gap = min(value - low, high - value)
        unit = 10.0 ** math.floor(math.log10(2 * _NEAR * gap)) if gap > 0 else 0.0
        rounded.append(round(value / unit) * unit if unit else value)
    inner = sorted({value for value in rounded if attribute.low < value < attribute.high})
    places = (np.array(inner) - attribute.centre) / attribute.half_width
    return tuple(places[(places > -1) & (places < 1)].tolist())


def whole_cuts(cuts: Sequence[float], k: int) -> NDArray[np.int64]:
    """Of k whole numbers, counted from 0: the first above each of these places, each once and none the lowest."""
    first = np.ceil((np.array(cuts) + 1) / 2 * (k - 1)).astype(np.int64)
    return np.unique(np.clip(first, 1, k - 1))
