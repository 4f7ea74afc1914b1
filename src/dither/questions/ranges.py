"""Any ranges of several attributes: `ranges(age, income)`.

Its result answers any query about these attributes, and its error is that of a typical one (`ranges.error_prediction`).
Its `attribute` is the `Axes` of all of them; it is asked by `Copula`: no other method comes near it (docs/ranges.md).

**Cells of numbers.** A device reports the middle of its cell, so a mean that is read off these reports is off by up to
1 / `CELLS` of half the width of the domain. Plans that were stored when there were fewer keep theirs: the shape of
their mechanism says how many (`as_asked_by`). Reports do not tell so many shares apart: a marginal is smoothed in
`SMOOTHED` cells, even inside them, and queries are answered from these (docs/decisions/0032-finer-numbers.md).

**Hints.** Cells are equal, or as the hints of the schema say. Those are no cells of other questions about the
attribute, so that neither tells the other anything (docs/decisions/0047-range-hints.md).
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import WHOLE_NUMBERS
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.structure import GRIDS
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.display.significant_digits import size as shown
from dither.errors import ParameterError
from dither.estimation.linear_readings import LinearReading
from dither.questions.question import FINE, Column, Floats, Question, Whole, encoded_by
from dither.ranges.axes import MOST_SHOWN, Axes, Axis
from dither.ranges.collection import RangeReading, WholeNumberRecords
from dither.ranges.error_prediction import predicted
from dither.ranges.query_workload import QueryKind, QueryWorkload, written
from dither.schema import Attribute, Schema

if TYPE_CHECKING:
    from dither.ranges.range_estimate import RangeEstimate  # a device has no use for it

CELLS = 1024  # of a number, in a new plan
SMOOTHED = MOST_SHOWN  # of these, in the marginal of a number: as many as are shown
_LISTED = 4
# Errors of two phases over those of one: the least, the geometric mean and the largest of the populations of `python
# benchmarks/range_models.py --centre --method Copula --method "two phases" --repetitions 2`.
_OVER_ONE_PHASE = (0.3, 0.8, 2.1)


@dataclass(frozen=True)
class AxisColumn:
    """One of the attributes of a question about ranges."""

    axis: Axis

    @property
    def name(self) -> str:
        """The attribute."""
        return self.axis.name

    def encode(self, column: Any, invalid: str = "error") -> NDArray:
        """The cells, from 0."""
        return encoded_by(self.axis.encode, self.name, column, invalid)

    def encode_value(self, value: Any) -> int:
        """The cell of the value of one user."""
        return self.axis.encode_value(value)


class RangesOf(Question["RangeEstimate"]):
    """Any ranges of several attributes."""

    statistic: ClassVar[str] = "ranges"
    needs: ClassVar[str] = "ranges"
    group: ClassVar[str] = "ranges"
    title: ClassVar[str] = "answers any ranges"
    has_prior: ClassVar[bool] = False
    answers_conditions: ClassVar[bool] = True

    @property
    def sought(self) -> str:
        *names, last = self.names
        together = f"{', '.join(names)} and {last} together" if names else last
        return f"the share of people within any ranges of {together}"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        """Of any that has one value a user, together with others."""
        return attribute.kind not in ("keyvalue", "text")

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        """The question about all of these attributes; spaces do not matter."""
        names = [name.strip() for name in inside.split(",")]
        if not all(names):
            raise ParameterError("ranges names the attributes that queries may be about, as in ranges(age, income)")
        return cls(", ".join(names), Axes.of_schema(schema, names, CELLS, spaced=True))

    def means(self, text: str) -> bool:
        """Neither spaces nor the order of attributes matter."""
        statistic, _, rest = text.strip().partition("(")
        names = sorted(name.strip() for name in rest.removesuffix(")").split(","))
        return statistic.strip() == self.statistic and rest.endswith(")") and sorted(self.names) == names

    @property
    def identity(self) -> Hashable:
        return self.statistic, frozenset(self.names)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(map(AxisColumn, self.attribute))

    def as_asked_by(self, mechanism: Mechanism) -> Self:
        """With the cells of numbers that the mechanism has."""
        domain: Any = mechanism.reading.domain  # one of each kind has its own parameters
        if domain.kind != WHOLE_NUMBERS or domain.d != len(self.attribute):
            return self
        return replace(self, attribute=self.attribute.cut_into(domain.shape))

    def reading_of(self, mechanism: Mechanism) -> RangeReading | None:
        """With numbers smoothed in fewer cells than they were asked in, where the mechanism smooths."""
        fewer = {
            j: axis.coarser(SMOOTHED)
            for j, axis in enumerate(self.attribute)
            if axis.continuous and axis.size > SMOOTHED
        }
        grids: Any = mechanism if mechanism.structure == GRIDS else None  # of which `Ranges` are made
        return RangeReading(grids, smoothed=fewer) if fewer and grids else None

    def variance_of_mean(self, name: str, mechanism: Any, share: float) -> float | None:
        return mechanism.mean_variance(self.names.index(name), share) if name in self._evenly else None

    def variance_of_shares(self, name: str, size: int, mechanism: Any, share: float) -> float | None:
        j = self.names.index(name) if name in self._evenly else -1
        return mechanism.share_variance(j, share) if j >= 0 and self.attribute[j].size == size else None

    def tells(self, mechanism: Any, tally: Tally, own: Any, among: int) -> Iterator[tuple[str, LinearReading]]:
        """What was reported about each of its attributes, on as many cells as results of others have."""
        if tally.n:
            for j, readings in mechanism.attribute_readings(tally, among).items():
                axis = self.attribute[j]
                if axis.name in self._evenly and axis.size == (axis.attribute.k or FINE) <= FINE:
                    yield from ((axis.name, reading) for reading in readings)

    def told(self, others: Mapping[str, Sequence[LinearReading]], reading: RangeReading) -> RangeReading:
        """The same reading with what others tell about its attributes."""
        sizes = {j: axis.size for j, axis in enumerate(self.attribute)}
        fitting = {
            j: tuple(each for each in others.get(axis.name, ()) if each.rows.shape[1] == sizes[j])
            for j, axis in enumerate(self.attribute)
            if axis.name in self._evenly
        }
        return replace(reading, beside={j: each for j, each in fitting.items() if each})

    @cached_property
    def _evenly(self) -> set[str]:
        """The attributes that are told in the cells that other questions have: those without a hint."""
        return {axis.name for axis in self.attribute if axis.spacing is None}

    @cached_property
    def domain(self) -> WholeNumberRecords:
        return WholeNumberRecords.sized(self.attribute.shape)

    def join(self, encoded: Sequence[NDArray]) -> NDArray:
        """Records, also of one attribute."""
        return np.stack(encoded, axis=1)

    @property
    def shape(self) -> tuple[()]:
        """They are asked one by one."""
        return ()

    @property
    def unasked(self) -> float:
        return 1.0

    @property
    def nominal(self) -> tuple[int, ...]:
        """The attributes without an order, by their places."""
        return tuple(place for place, axis in enumerate(self.attribute) if axis.labelled)

    @cached_property
    def kind(self) -> tuple[Hashable, str]:
        return (self.attribute.shape, self.nominal), self.statistic

    def variance(self, mechanism: Any, reports: float, users: float) -> float:
        """That would have the predicted error, which falls more slowly than with the number of users."""
        return reports * predicted(mechanism, reports, users, queries=self.queries).mse

    def won_by_phases(self, mechanism: Any, reports: float, users: float) -> str:
        """By what was found on the benchmark's populations, of which nobody knows whether the users are like them."""
        one, two = (predicted(mechanism, reports, users, queries=self.queries, phases=each) for each in (1, 2))
        least, average, most = _OVER_ONE_PHASE
        return (
            f"where users crowd in a few places, errors of up to {shown(one.largest)} in one phase are up to "
            f"{shown(two.largest)} in two. On the populations of the benchmark they are {average:g} times as large on "
            f"average: {least:g} times with long tails, and {most:g} times where users are spread evenly"
        )

    def limit(self, weight: float) -> None:
        return None

    # What of it matters ----------------------------------------------------------------------------------------

    def weighted(self, given: Mapping[Any, float]) -> tuple[Self, float]:
        """The question where these queries will be asked, each so often; as a whole it matters as it does without."""
        try:
            queries = QueryWorkload.of(self.names, given)
        except ParameterError as error:
            raise ParameterError(f"weights of {self}: {error}") from None
        return replace(self, workload=None if queries.usual else queries), 1.0

    def names_of(self, given: Mapping[Any, float]) -> dict[str, float]:
        return {written(self.names, key): float(often) for key, often in given.items()}

    @property
    def queries(self) -> QueryWorkload | None:
        return self.workload

    @property
    def cells(self) -> None:
        return None

    def evenly(self) -> Self:
        """Its error is that of the queries that will be asked."""
        return self

    @property
    def remark(self) -> str:
        hard = "for data that are far from smooth"
        if self.queries is None:
            about = "half of the values" + (" of two attributes" if len(self.names) > 1 else "")
            return f"predicted is the error of a query about {about}, {hard}."
        often = sorted(self.queries.asked, key=lambda each: -each[1])
        listed = [f"{self._queries(kind)} {size:.0%}" for kind, size in often[:_LISTED]]
        rest = len(often) - _LISTED
        more = f" and {rest:,} more" if rest > 0 else ""
        estimate = "; of three attributes or more, an estimate from their pairs" if self.queries.largest > 2 else ""
        some = len(self.queries.pairs) < math.comb(len(self.names), 2)
        left_out = " Few users are asked about what they leave out, or none." if some else ""
        return (
            f"predicted is the error of a query about half of the values of what the weights name ({'; '.join(listed)}"
            f"{more}), {hard}{estimate}.{left_out}"
        )

    def _queries(self, kind: QueryKind) -> str:
        some = f"any {kind.number} attribute{'s' * (kind.number > 1)}"
        return " and ".join(self.names[j] for j in kind.attributes) or some

    def worth(self, worths: Worths, place: int, count: int) -> Worth:
        """To what answers are fitted to and can be moved farthest: a cell, or a mean on an axis from 0 to 1."""
        half = Fraction(1, 2)
        return max((worth if worth.low == 0 else worth.scaled(half, half) for worth in worths), key=Worth.movement)

    def unknown(self, guarantee: Guarantee, source: str) -> None:
        """Its reading makes a result of no reports, whose error bars say so."""

    def decode(self, estimate: "RangeEstimate") -> "RangeEstimate":
        return estimate.on(self.attribute).condensed()

    def refine(
        self, estimate: "RangeEstimate", apply: "Callable[[RangeEstimate], RangeEstimate]", auto: bool
    ) -> "RangeEstimate":
        """It is a posterior already."""
        return estimate

    def stratified(self, terms: "Sequence[RangeEstimate]", weights: Sequence[float]) -> "RangeEstimate | None":
        """None: each is a fit of its own. Users who are asked alike are one stratum, whose reports are one fit."""
        return terms[0] if len(terms) == 1 else None

    def sums(self, column: Any) -> None:
        return None

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {}
