"""The order of magnitude of a number without known ends: `magnitude(income)`.

Its values fall into classes by sign and power of two: from -2^(e+1) to -2^e, next to 0, from 2^e to 2^(e+1). These have
an order, so it is asked for as shares below thresholds are (`questions.cumulative`): of 127 whole numbers, of which 63
is next to 0. It is asked in the first of two phases, and tells the domain of the second one (`planning.open_numbers`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float
from dither.core.columns import floats_of
from dither.core.cumulative_estimate import Cumulative
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.errors import RowError
from dither.estimation.linear_readings import LinearReading
from dither.questions.cumulative import CumulativeOf
from dither.questions.question import Floats
from dither.schema import Attribute, Numeric, Schema

LEAST = -15  # numbers below 2^LEAST are next to 0
OCTAVES = 63
CENTRE = OCTAVES  # the class of numbers next to 0


@dataclass(frozen=True)
class Magnitudes:
    """The classes of a number: whole numbers from 0 to 126, the lowest for the most negative."""

    number: Numeric

    kind: ClassVar[str] = "ordinal"
    k: ClassVar[int] = 2 * OCTAVES + 1
    low: ClassVar[int] = 0
    high: ClassVar[int] = 2 * OCTAVES
    nominal: ClassVar[bool] = False

    @property
    def centre(self) -> float:
        """The class next to 0."""
        return float(CENTRE)

    @property
    def half_width(self) -> float:
        """Half the width of the classes."""
        return float(OCTAVES)

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.int64]:
        """The classes of numbers; infinite ones are in the outermost."""
        values = floats_of(column)
        if invalid == "error" and np.isnan(values).any():
            raise RowError(int(np.isnan(values).argmax()), "the value is not a number")
        known = np.where(np.isnan(values), self.number.substitute, values)
        _, exponents = np.frexp(np.where(np.isinf(known), 1.0, known))  # 2^(e - 1) <= |x| < 2^e
        octaves = np.where(np.isinf(known), OCTAVES, np.clip(exponents - LEAST, 0, OCTAVES))
        return (CENTRE + np.sign(known) * np.where(known == 0, 0, octaves)).astype(np.int64)

    def encode_value(self, value: Any) -> int:
        """The class of the value of one user."""
        number = as_float(value)
        known = self.number.substitute if number != number else number  # NaN
        if known == 0:
            return CENTRE
        octave = OCTAVES if math.isinf(known) else min(max(math.frexp(known)[1] - LEAST, 0), OCTAVES)
        return CENTRE + (octave if known > 0 else -octave)


def edges() -> Floats:
    """Where classes end: that of place i is the upper end of class i, of all but the last."""
    positive = np.exp2(np.arange(LEAST, LEAST + OCTAVES, dtype=np.float64))
    return np.concatenate([-positive[::-1], positive])


@dataclass(frozen=True)
class MagnitudeOf(CumulativeOf):
    """The shares of users below each power of two, and below each negative one.

    >>> question = MagnitudeOf.read(Schema({"income": Numeric()}), "income")
    >>> str(question), question.encode([0, 1.5, -40_000]).tolist(), question.labels[63]
    ('magnitude(income)', [63, 79, 32], 'below 2^-15')
    """

    workload: Any = field(default=None, kw_only=True, compare=False, repr=False)

    statistic: ClassVar[str] = "magnitude"
    title: ClassVar[str] = "order of magnitude"

    @property
    def sought(self) -> str:
        return f"the share of people by the order of magnitude of {self.name}"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return isinstance(attribute, Numeric) and attribute.open

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        name = inside if inside in schema else inside.strip()
        attribute: Any = schema.get(name)
        return cls(name, Magnitudes(attribute)) if attribute is not None and cls.asks(attribute) else None

    @property
    def labels(self) -> tuple[str, ...]:
        powers = [f"2^{exponent}" for exponent in range(LEAST, LEAST + OCTAVES)]
        return (*(f"at most -{power}" for power in reversed(powers)), *(f"below {power}" for power in powers))

    @property
    def learns(self) -> str:
        return (
            f"{self} tells the ends of {self.name} for the second phase: the next power of two beyond which 1% of the "
            "users are at most, on each side, and one more; 0 where 1% at most are on the other side of it. Who is "
            "outside counts as the nearer end, and how many these are is estimated."
        )

    @property
    def spread_by(self) -> None:  # type: ignore[override]
        """Nothing is known of a number without ends."""

    @property
    def about(self) -> None:
        """Classes are no cells of a number on a domain."""

    @property
    def _cell_rows(self) -> None:
        """As above."""

    def variance_of_mean(self, name: str, mechanism: Mechanism, share: float) -> None:
        """It tells no mean."""

    def tells(
        self, mechanism: Mechanism, tally: Tally, own: Cumulative, among: int
    ) -> Iterator[tuple[str, LinearReading]]:
        """Nothing about shares within a domain."""
        return iter(())
