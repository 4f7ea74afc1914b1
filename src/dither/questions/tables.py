"""The cross table of several attributes: `table(job, sex)`, the share of users with each combination of their values.

It is asked for by itself, of two or three attributes: then its error is that of a cell, on average. And it comes with
others: questions about shares may be *crossed*, one report about the cell of a table, an axis for each of them,
answers all. The sums of its cells along an axis are the shares that the question about this axis asked for, with an
exact variance (`mechanisms.frequency`, groups of categories), and the table comes beside them: nobody need ask for it.
Whether that is better than to ask one by one, `planning.choose` finds by price.

Cells are numbered as `numpy.ravel` does: the last axis varies fastest. Devices and servers rely on it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.estimate import Estimate
from dither.core.mechanism import MarginalReading, Mechanism
from dither.core.tally import Tally
from dither.errors import ParameterError
from dither.estimation.linear_readings import LinearReading
from dither.estimation.proportional_fitting import raked
from dither.questions.distributions import DistributionOf
from dither.questions.histograms import HistogramOf
from dither.questions.question import Column, Question, Whole
from dither.questions.shares import SharesOf
from dither.schema import Attribute, Schema

_COMPLETE = 1e-6  # shares of everybody add up to one, but for rounding
MOST_TABLED = 1 << 16  # a larger table does not come beside the questions: nobody reads so many shares
MOST_AXES = 3  # of a table that is asked for by itself
_AXES = (HistogramOf, DistributionOf)


@dataclass(frozen=True)
class TableOf(SharesOf):
    """The share of users in each cell of a table, with an axis for each of some questions about shares.

    >>> from dither.questions.histograms import HistogramOf
    >>> from dither.schema import Categorical
    >>> job, sex = Categorical(["nurse", "driver", "other"]), Categorical(["f", "m"])
    >>> table = TableOf.of((HistogramOf("job", job), HistogramOf("sex", sex)))
    >>> str(table), table.shape, table.labels[:3]
    ('table(job, sex)', (3, 2), ('nurse, f', 'nurse, m', 'driver, f'))
    >>> table.join([np.array([1]), np.array([0])]).tolist()
    [2]
    """

    axes: tuple[Question, ...] = ()

    statistic: ClassVar[str] = "table"
    crosses: ClassVar[bool] = False
    has_prior: ClassVar[bool] = False
    group: ClassVar[str] = "tables"
    title: ClassVar[str] = "shares of combinations"

    @classmethod
    def of(cls, axes: Sequence[Question]) -> Self:
        """The table with these axes, in this order."""
        return cls(", ".join(axis.name for axis in axes), tuple(axis.attribute for axis in axes), tuple(axes))

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        """Of no attribute alone."""
        return False

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        """The table of the attributes that are named: labels, whole numbers, or numbers in bins."""
        names = [name.strip() for name in inside.split(",")]
        if not all(name in schema for name in names):
            return None
        kinds = [next((kind for kind in _AXES if kind.asks(schema[name])), None) for name in names]
        axes = [kind(name, schema[name]) for kind, name in zip(kinds, names, strict=True) if kind is not None]
        if not 2 <= len(axes) == len(set(names)) == len(names) <= MOST_AXES:
            raise ParameterError(
                f"a table is of two to {MOST_AXES} different attributes with one value a user, as in table(job, sex)"
            )
        table = cls.of(axes)
        if table.size > MOST_TABLED:
            raise ParameterError(
                f"{table} has {table.size:,} cells, and a table has at most {MOST_TABLED:,}: name fewer attributes, or "
                "ask for their ranges"
            )
        return table

    def means(self, text: str) -> bool:
        """Spaces do not matter."""
        statistic, _, rest = text.strip().partition("(")
        names = tuple(name.strip() for name in rest.removesuffix(")").split(","))
        return statistic.strip() == self.statistic and rest.endswith(")") and names == self.names

    @property
    def sought(self) -> str:
        *names, last = self.names
        return f"the share of people with each combination of {', '.join(names)} and {last}"

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for axis in self.axes for column in axis.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.categories for axis in self.axes)

    @property
    def labels(self) -> tuple[str, ...]:
        """As in "nurse, f", in the order of the cells."""
        own = [axis.labels or () for axis in self.axes]
        numbers = [tuple(map(str, range(size))) for size in self.shape]
        named = (labels if len(labels) == len(each) else each for labels, each in zip(own, numbers, strict=True))
        return tuple(map(", ".join, product(*named)))

    def join(self, encoded: Sequence[NDArray]) -> NDArray[np.int64]:
        """The numbers of the cells, of a number on each axis: by Horner's rule."""
        found = np.zeros(len(encoded[0]), dtype=np.int64)
        for codes, size in zip(encoded, self.shape, strict=True):
            found = found * size + codes
        return found

    def readings(self, mechanism: Mechanism) -> tuple[MarginalReading[Estimate], ...]:
        """How each axis is read off the reports of a mechanism about cells; an error, if that is not known of it."""
        found = [mechanism.along(self.shape, (place,)) for place in range(len(self.axes))]
        known = tuple(reading for reading in found if reading is not None)
        if len(known) < len(self.axes):
            raise ParameterError(f"{type(mechanism).__name__} cannot cross questions: it reads no axis of a table")
        return known

    def select(self, own: Estimate, place: int, count: int) -> Estimate:
        return replace(own, value=own.value.reshape(self.shape), stderr=own.stderr.reshape(self.shape))

    @property
    def axis_values(self) -> tuple[int, ...]:
        """Of axes with a cell for each value."""
        whole = all(axis.attribute.k == axis.categories for axis in self.axes)
        return self.shape if whole else ()

    def told_by(self, other: Question, mechanism: Mechanism, share: float) -> None:
        """What others tell about its axes is hardly anything about a cell."""

    def variance_of_shares(self, name: str, size: int, mechanism: Mechanism, share: float) -> float | None:
        place = self.names.index(name) if name in self.names else -1
        known = place >= 0 and self.shape[place] == size
        reading = mechanism.along(self.shape, (place,)) if known else None
        return None if reading is None else reading.worst_variance(share)

    def tells(
        self, mechanism: Mechanism, tally: Tally, own: Estimate, among: int
    ) -> Iterator[tuple[str, LinearReading]]:
        """The sums of its cells along each axis, if it is known of the mechanism how to read them."""
        for place, axis in enumerate(self.axes):
            reading = mechanism.along(self.shape, (place,))
            if reading is not None and axis.rows is not None:
                margin = reading.estimate(tally, own.guarantee, "", among)
                yield axis.name, LinearReading.of_estimate(axis.rows, margin, axis.slack)

    def agreed(self, estimate: Estimate, refined: Mapping[Question, Any]) -> Estimate:
        """Refined, its sums along each axis are the refined shares of that axis, as they were before."""
        sums = [np.asarray(refined[axis].value) for axis in self.axes if axis in refined]
        shares = [*sums, np.ravel(estimate.value)]
        complete = all((each >= 0).all() and abs(each.sum() - 1) < _COMPLETE for each in shares)
        if estimate.original is None or len(sums) < len(self.axes) or not complete:
            return estimate
        note = "Raked: its sums along each axis are the refined shares of that axis."
        return replace(estimate, value=raked(estimate.value, sums), notes=(*estimate.notes, note))

    def sums_of(self, columns: Mapping[str, Any]) -> Whole:
        codes = [axis.encode(columns[axis.name], "substitute") for axis in self.axes]
        return np.bincount(self.join(codes), minlength=self.size)[None]


def crossed(questions: Sequence[Question]) -> TableOf | None:
    """The table that one report about several questions is about, if they are crossed."""
    several = len(questions) > 1 and all(question.crosses for question in questions)
    apart = len({question.name for question in questions}) == len(questions)
    return TableOf.of(questions) if several and apart else None
