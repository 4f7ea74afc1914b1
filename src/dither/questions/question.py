"""What every question says of itself: the protocol that the planner, the plan, the trial and the page read.

A question is a statistic of named attributes, a frozen value in a file of its own. It knows both sides of its
attribute: how a column in its own units becomes what a mechanism takes (`encode`), and how what the mechanism estimates
becomes a result in these units again (`decode`). Beside that it tells

- what it is *asked of*: `asks` an attribute, and `read` from the text between the brackets of `mean(income)`;
- what a mechanism *takes*: its `domain`, from which mechanisms are found; how the values of several attributes become
  one (`join`); `together`, which questions one report
  answers; whether it may be asked together with others, in `pairs`, or where it `crosses` them (`questions.tables`);
  `forms`, where it can be put in several ways (a number as itself, or as a cell), each with a domain of its own: the
  mechanism that is chosen says which of them devices encode;
- or what it *rests on*: a question that no report is about is worked out from the results of others
  (`questions.derived`);
- what it *costs*: from the reading of a mechanism, unless it knows better (`variance`); what no mechanism can be below
  (`limit`) and what a constant would miss (`unasked`);
- what of it *matters*: `weighted`, which of its numbers count more, or which queries will be asked;
- what is *won back* after collection: `refine`, alone or pooled with others (`pooled`);
- what the *truth* is, in a trial: `sums` that add up over batches, and `truths` of them;
- how it is *shown*: numbers of `shape`, of which () is one number, `labels`, `ends`, on the page in a `group` of cards.

Nobody asks for the class of a question. A new one is a class that says what of the above is not as usual; `register`
makes it known to plans. docs/extending.md builds one.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.cell_weights import CellWeights
from dither.core.checks import as_text, whole_number
from dither.core.confidence import InUnits
from dither.core.estimate import Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Domain, Mechanism, Reading
from dither.core.stratified import stratified_estimate
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.display.table import TextTable
from dither.errors import DomainError, ParameterError, RowError
from dither.estimation.linear_readings import LinearReading
from dither.schema import Attribute, Schema
from dither.utility.limits import Parameters
from dither.utility.population import Population

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
_LISTED = 12
FINE = 1024  # cells of a number in which its results are put together, and the most values of other attributes
Encoded = float | np.generic  # one of what a mechanism takes: a number, a row
if TYPE_CHECKING:  # a `Question` alone is one with any result
    from typing_extensions import TypeVar

    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R")


class CollectedUsers(NamedTuple):
    """What a derived result needs beside the results that it rests on.

    `apart` are these as of independent samples of users without end: parts of a plan ask different users, and errors of
    their results, as of all users, do not add up as if they were independent (`planning.attribute_evidence`).
    """

    users: int
    guarantee: Guarantee
    apart: Mapping["Question", Any]


class Expected(NamedTuple):
    """What is predicted of a question that others rest on."""

    mechanism: Mechanism
    reports: float
    users: float
    error: float  # in the mechanism's units


class Column(Protocol):
    """What is looked at of one attribute."""

    @property
    def name(self) -> str:
        """The attribute."""
        ...

    def encode(self, column: Any, invalid: str = "error") -> NDArray:
        """What the mechanism takes, for each value of the column."""
        ...

    def encode_value(self, value: Any) -> Encoded:
        """What the mechanism takes for the value of one user; a substitute, if it does not fit."""
        ...


class Form(Protocol):
    """One way to put a question: what a mechanism takes, and how what it estimates becomes the answer.

    A question is a form of itself. What is not explained here is as `Question` says.
    """

    needs: ClassVar[str]  # what a mechanism must answer

    @cached_property
    def domain(self) -> Domain:
        """What its mechanism takes."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """What it looks at, one for each attribute."""
        ...

    @property
    def nominal(self) -> tuple[int, ...]:
        """Of several attributes those without an order, by their places."""
        ...

    def join(self, encoded: Sequence[NDArray]) -> NDArray:
        """What the mechanism takes, for the encoded values of its columns."""
        ...

    @property
    def remark(self) -> str | None:
        """What must be known about its predicted error."""
        ...

    def reading_of(self, mechanism: Mechanism) -> Reading | None:
        """How a tally of the mechanism is read, where not as the mechanism itself reads it."""
        ...

    def variance(self, mechanism: Mechanism, reports: float, users: float) -> float | None:
        """Of one report, where that is not what the mechanism's reading says."""
        ...

    def select(self, own: Any, place: int, count: int) -> Any:
        """Of what was read, what the question asked for as one of `count`."""
        ...

    def worth(self, worths: Worths, place: int, count: int) -> Worth | None:
        """Of what a report is worth to what a mechanism estimates, what it is to the question."""
        ...


@dataclass(frozen=True)
class Question(ABC, Generic[R]):
    """A statistic of a named attribute, with a result of type R: an `Estimate`, where nothing else is said."""

    name: str
    attribute: Any = field(hash=False)  # labels may be many, and names suffice to tell questions apart
    workload: Any = field(default=None, kw_only=True, compare=False, repr=False)  # what of it matters more: `weighted`

    statistic: ClassVar[str]
    needs: ClassVar[str] = "frequency"  # what a mechanism must answer
    averages: ClassVar[bool] = False  # the result is in the units of the values, and not a share of users
    ordered: ClassVar[bool] = False  # the numbers have an order of their own
    derived: ClassVar[bool] = False  # comes with other questions, and is not asked by itself
    bare: ClassVar[bool] = False  # may be written without brackets
    totals: ClassVar[bool] = False  # grows with the number of users
    found: ClassVar[bool] = False  # which items it has is part of the result: those of two results differ
    regional: ClassVar[bool] = False  # results of users whose numbers lie in different regions can be put together
    supporting: ClassVar[bool] = False  # is asked for what rests on it, and not shown by itself
    pairs: ClassVar[bool] = False  # two may be asked by one report about both attributes
    crosses: ClassVar[bool] = False  # several may be asked by one report about the cell of their table
    pooled: ClassVar[bool] = False  # is refined together with others of its kind
    has_prior: ClassVar[bool] = True  # what is known about users changes its prediction
    answers_conditions: ClassVar[bool] = False  # its result answers queries in the words of SQL
    group: ClassVar[str] = "shares"  # of cards on a page: "means", "shares", "words", "tables", "keys" or "ranges"
    title: ClassVar[str] = "shares of users"  # of its card

    def __str__(self) -> str:
        return f"{self.statistic}({self.name})"

    @property
    def caption(self) -> str:
        """What a reader of its card must know, if anything."""
        return ""

    @property
    def sought(self) -> str:
        """What is to be known of all users together, for those who are asked."""
        return f"the {self.title.removeprefix('the ')} of {self.name}"

    # What it is asked of ---------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def asks(cls, attribute: Attribute) -> bool:
        """Whether it can be asked of such an attribute."""

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        """The question about what stands between the brackets; None if it is not one of this kind."""
        name = inside if inside in schema else inside.strip()
        return cls(name, schema[name]) if name in schema and cls.asks(schema[name]) else None

    @classmethod
    def restored(cls, schema: Schema, details: Any) -> Self | None:
        """The question of which a stored plan holds these `details`; None where its text says everything."""
        return None

    @classmethod
    def usage(cls, name: str, attribute: Attribute) -> str:
        """How it is written, for the messages that list what can be asked."""
        return f"{cls.statistic}({name})"

    def means(self, text: str) -> bool:
        """Whether this text means this question."""
        return str(self) == text

    @property
    def identity(self) -> Hashable:
        """Equal for questions that are the same, however they are written."""
        return str(self)

    @property
    def columns(self) -> tuple[Column, ...]:
        """What it looks at, one for each attribute."""
        return (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it is about."""
        return tuple(column.name for column in self.columns)

    # What a mechanism takes ------------------------------------------------------------------------------------

    @cached_property
    @abstractmethod
    def domain(self) -> Domain:
        """What its mechanism takes."""

    def _encoded(self, column: Any, invalid: str) -> NDArray:
        """What the mechanism takes, for each value of the column; a `DomainError` says what is wrong with one."""
        return self.attribute.encode(column, invalid)

    def encode(self, column: Any, invalid: str = "error") -> NDArray:
        """What the mechanism takes, for each value of the column; errors name the attribute and quote no value."""
        return encoded_by(self._encoded, self.name, column, invalid)

    def encode_value(self, value: Any) -> Encoded:
        """What the mechanism takes for the value of one user: the one of `encode([value], "substitute")`.

        A question that can say it without arrays says so: a device has one value.
        """
        [encoded] = self.encode([value], "substitute")
        return encoded

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if {"encode", "_encoded"} & set(vars(cls)) and "encode_value" not in vars(cls):
            cls.encode_value = Question.encode_value  # a column's own way does not go with another's way of a value

    @property
    def forms(self) -> tuple[Form, ...]:
        """The ways to put it, each for mechanisms that take another domain; of equally good ones the first."""
        return (self,)

    def form(self, mechanism: Mechanism) -> Form:
        """The way to put it that this mechanism takes; the first, if it takes none of them."""
        first, *others = self.forms
        taken = mechanism.reading.domain if others else None
        return next((form for form in others if form.domain == taken), first)

    def as_asked_by(self, mechanism: Mechanism) -> Self:
        """The question as a stored plan asks it by this mechanism, where a new plan might ask it in another way."""
        return self

    def reading_of(self, mechanism: Mechanism) -> Reading | None:
        """How a tally of the mechanism is read, where not as the mechanism itself reads it."""
        return None

    @cached_property
    def kind(self) -> tuple[Hashable, str]:
        """Equal for questions that mechanisms do not tell apart."""
        return self.domain, ""

    @property
    def together(self) -> Hashable:
        """Equal for questions that one report answers."""
        return self

    @property
    def categories(self) -> int:
        """Where it `crosses`: into how many categories it puts users, which it numbers from 0 when it encodes them."""
        return self.size

    @property
    def nominal(self) -> tuple[int, ...]:
        """Of several attributes those without an order, by their places."""
        return ()

    def join(self, encoded: Sequence[NDArray]) -> NDArray:
        """What the mechanism takes, for the encoded values of its columns: one, or those of several beside each other.

        Row by row: what is said for many users holds for one.
        """
        return encoded[0] if len(encoded) == 1 else np.stack(encoded, axis=1)

    reported: ClassVar[bool] = True  # whether reports are about it; else it is worked out from what it rests on

    @property
    def rests_on(self) -> tuple["Question", ...]:
        """The questions that it is worked out from; none where reports answer it (`questions.derived`)."""
        return ()

    def derive(self, found: Mapping["Question", Any], collected: CollectedUsers) -> R:
        """Its result, from the results of what it rests on, all in their own units."""
        raise TypeError(f"{self} rests on nothing: reports answer it")

    def predict(self, expected: Mapping["Question", Expected], users: Mapping["Question", Population]) -> float:
        """Its standard error, in its own units, from those of what it rests on."""
        raise TypeError(f"{self} rests on nothing: reports answer it")

    def sensitivities(self, users: Mapping["Question", Population]) -> dict["Question", float]:
        """By how much its MSE / scale^2 grows with that of each question that it rests on."""
        return {}

    @property
    def depends_on(self) -> tuple["Question", ...]:
        """Questions about single attributes whose users its own error depends on, beside what it rests on."""
        return ()

    @property
    def details(self) -> dict[str, Any] | None:
        """What a file must hold of it beside its text, for a device that reads no conditions; None if that is all."""
        return None

    # What it costs ---------------------------------------------------------------------------------------------

    @property
    def reference(self) -> Population | None:
        """The users that it is planned for where nothing is known about them; None for the worst."""
        return None

    def variance(self, mechanism: Mechanism, reports: float, users: float) -> float | None:
        """Of one report, where that is not what the mechanism's reading says."""
        return None

    @abstractmethod
    def limit(self, weight: float) -> tuple[Parameters, ...] | None:
        """What is asked for, as the limits for any mechanism take it (`utility.limits`); None where none is known."""

    @property
    @abstractmethod
    def unasked(self) -> float:
        """The largest MSE / scale^2 of the best constant."""

    def follows_from(self, other: "Question") -> bool:
        """Whether who answers the other answers this one, too, so that they are not independent questions."""
        return False

    @property
    def useless(self) -> float:
        """From this standard error on, the 95% interval tells nothing that the domain does not tell."""
        return self.unit / 1.96

    @property
    def remark(self) -> str | None:
        """What must be known about its predicted error."""
        return None

    @property
    def cuts_learned(self) -> bool:
        """Whether its numbers are of other places where an earlier phase has told where the people are."""
        return False

    @property
    def spread_by(self) -> "Question | None":
        """The question whose users tell how its attribute is spread: on it depends its error in phases."""
        return None

    def known_error(self, mechanism: Mechanism, users: Population, reports: tuple[float, float]) -> float:
        """Its error in two phases for users like these, by so many reports in each; of one that is `spread_by`."""
        raise TypeError(f"it is not known what {self} costs in phases")

    def forecast(self, mechanism: Mechanism, reports: float, users: Population | None) -> Mapping[str, float] | None:
        """Of a question whose items are `found`: what so many reports will find, of users like these; if known."""
        return None

    def forecast_in_words(self, told: Mapping[str, float]) -> str | None:
        """A forecast, for the explanation of a plan."""
        return None

    def shares_of(self, estimate: R, items: Sequence[Any]) -> Estimate | None:
        """The shares of given items from the same reports, `found` or not; None where only listed ones are known."""
        return None

    def search_table(self, estimate: R) -> TextTable | None:
        """Of a question whose items are `found`: how deep it looked for them, a row a level; if that is known."""
        return None

    def one_phase_error(self, mechanism: Mechanism, reports: float, users: float) -> float | None:
        """Its error at such places if all users had been asked in one phase, in the mechanism's units; if known."""
        return None

    def won_by_phases(self, mechanism: Mechanism, reports: float, users: float) -> str | None:
        """What is known beforehand of what a second phase wins, where that depends on the users; None if nothing is."""
        return None

    @property
    def learns(self) -> str | None:
        """What is learned for the next phase from its result, where that is what it is asked for."""
        return None

    # What of it matters ----------------------------------------------------------------------------------------

    def weighted(self, given: Mapping[Any, float]) -> tuple[Self, float]:
        """The question where some of its numbers matter more, and how much it matters as a whole.

        `given` maps names of its numbers to checked weights; one that is not named has weight 1. The question counts as
        much as its numbers do on average.
        """
        if not self.shape:
            raise ParameterError(
                f"weights: {self} is one number and has one weight: weights={{{str(self)!r}: 2.0}}; only the numbers "
                "of a histogram, a distribution or keys have weights of their own"
            )
        places = {name: self.place_of(name) for name in given}
        if None in places.values():
            raise ParameterError(f"weights: nothing in {self} is called so; {self._some_names()}")
        cells = CellWeights(self.size, {place: given[name] for name, place in places.items() if place is not None})
        if len(cells.named) < len(given):
            raise ParameterError(f"weights: a number in {self} has two weights; name it once")
        return replace(self, workload=None if cells.even else cells), cells.importance

    def place_of(self, name: Any) -> int | None:
        """The place of the number with this name: a label, or where there are none, and for whole numbers, a number."""
        number = whole_number(name)
        text = as_text(name) if number is None else str(number)
        if self._places is not None:
            return self._places.get(text)
        place = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        return place if 0 <= place < self.size else None

    @cached_property
    def _places(self) -> dict[str, int] | None:
        return None if self.labels is None else {label: place for place, label in enumerate(self.labels)}

    def _some_names(self) -> str:
        """What its numbers are called, for a refusal."""
        if self.labels is None:
            return f"they are numbered from 0 to {self.size - 1}"
        rest = len(self.labels) - _LISTED
        return f"there are {', '.join(self.labels[:_LISTED])}" + (f" and {rest:,} more" if rest > 0 else "")

    def names_of(self, given: Mapping[Any, float]) -> dict[str, float]:
        """The same weights by names that are texts, for a file."""
        return {as_text(name) or str(name): float(weight) for name, weight in given.items()}

    @property
    def cells(self) -> CellWeights | None:
        """The weights of its numbers, if they do not matter alike."""
        return self.workload

    @property
    def queries(self) -> Any:
        """Which queries will be asked, where it answers any; None if nothing is said."""
        return None

    def evenly(self) -> Self:
        """The question whose error is told: that of its numbers on average, whichever of them matter."""
        return replace(self, workload=None)

    def weighted_limit(self, weight: float, cells: CellWeights) -> tuple[Parameters, ...] | None:
        """`limit` where some numbers matter more; None where it is not known."""
        return None

    # What it gives ---------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of its numbers; () for a single one."""

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def unit(self) -> float:
        """What a mechanism's one is worth."""
        return self.attribute.half_width if self.averages else 1.0

    @property
    def origin(self) -> float:
        """What a mechanism's zero is worth."""
        return self.attribute.centre if self.averages else 0.0

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest result that there can be."""
        return (self.attribute.low, self.attribute.high) if self.averages else (0.0, 1.0)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of its numbers."""
        return None

    @property
    def edges(self) -> Floats | None:
        """Where its numbers begin and end on an axis, if they are shares along one."""
        return None

    @property
    def thresholds(self) -> Floats | None:
        """Where its numbers stand on an axis, if they are shares below places of one."""
        return None

    def select(self, own: Any, place: int, count: int) -> R:
        """Of what a mechanism estimates, what this question asked for as one of `count`."""
        return own if count == 1 else replace(own, value=own.value[place], stderr=own.stderr[place])

    def worth(self, worths: Worths, place: int, count: int) -> Worth | None:
        """Of what a report is worth to what a mechanism estimates, what it is to this question, as one of `count`.

        In the mechanism's units, as variances are; None where that is not known.
        """
        return worths[place] if len(worths) == count else worths[0]._replace(items=self.size)

    def unknown(self, guarantee: Guarantee, source: str) -> R | None:
        """What is known if nobody was asked: nothing. None where the mechanism's reading knows how to say so."""
        value, stderr = np.full(self.shape, np.nan), np.full(self.shape, np.inf)
        nothing: Any = Estimate(value, stderr, 0, guarantee, source=source)  # R, where nothing else is said
        return nothing

    @property
    def beside(self) -> tuple["Question", ...]:
        """Questions that were not asked, and that a mechanism may answer with it."""
        return ()

    def answered_by(self, own: Any) -> bool:
        """Whether what a mechanism estimates holds its answer."""
        return True

    def decode(self, estimate: R) -> R:
        """A mechanism's estimate in the attribute's own units, with its labels."""
        own: Any = estimate  # an `Estimate`, where nothing else is said
        value, stderr, bounds, rule, bias = own.value, own.stderr, own.bounds, own.rule, own.bias
        if self.averages:
            value, stderr = self.origin + self.unit * value, self.unit * stderr
            bounds = Bounds(*self.ends)
            bias = None if bias is None else self.unit * bias
            rule = None if rule is None else InUnits(rule, self.origin, self.unit)
        kept = None if own.original is None else self.decode(own.original)
        return replace(
            own,
            value=value,
            stderr=stderr,
            question=str(self),
            labels=self.labels,
            bounds=bounds,
            original=kept,
            edges=self.edges,
            rule=rule,
            bias=bias,
        )

    def refine(self, estimate: R, apply: Callable[[R], R], auto: bool) -> R:
        """A better estimate from the same reports, by the method that was chosen, or by the one that suits it best."""
        return apply(estimate)

    def agreed(self, estimate: R, refined: Mapping["Question", Any]) -> R:
        """The same in agreement with what else was refined from these reports: by default there is nothing to agree."""
        return estimate

    def stratified(self, terms: Sequence[R], weights: Sequence[float]) -> R | None:
        """Its result for all users, in the mechanism's units, from those of different ones; None if it has none.

        By default the mean of them, by their weights.
        """
        together: Any = stratified_estimate(terms, weights)  # type: ignore[arg-type]
        return together

    # What else is told about its attribute ----------------------------------------------------------------------

    @property
    def rows(self) -> Floats | None:
        """What its numbers are of the shares of its attribute's values (`value_places`), a row each.

        None if it is about several attributes, or no sum over users of something that each of them has.
        """
        return None

    @property
    def about(self) -> str | None:
        """The attribute that `rows` are about."""
        return self.names[0] if len(self.names) == 1 else None

    @property
    def slack(self) -> float:
        """How far a number may be from its row: of numbers in fine cells, whose middles stand for all in them."""
        return 0.0

    @property
    def axis_values(self) -> tuple[int, ...]:
        """Where its numbers are cells of a table: how many values each of its attributes has; else none."""
        return ()

    def told_by(self, other: "Question", mechanism: Mechanism, share: float) -> float | None:
        """The variance of a report of another question about what this one asks, on average over its numbers.

        At most, where this share of the users answers the other; None where it tells nothing, or how much is not known.
        """
        return None

    def variance_of_mean(self, name: str, mechanism: Mechanism, share: float) -> float | None:
        """The variance of one of its reports about the mean of an attribute, on a line from -1 to 1, if it is known."""
        return None

    def variance_of_shares(self, name: str, size: int, mechanism: Mechanism, share: float) -> float | None:
        """The same about the shares of so many values of an attribute, on average over these."""
        return None

    def tells(self, mechanism: Mechanism, tally: Tally, own: R, among: int) -> Iterator[tuple[str, LinearReading]]:
        """What its reports tell about single attributes, of so many users: the name of each, and the reading."""
        estimate: Any = own
        if self.rows is not None and estimate.n:
            yield self.name, LinearReading.of_estimate(self.rows, estimate, self.slack)

    def told(self, others: Mapping[str, Sequence[LinearReading]], reading: Any) -> Any:
        """A reading that takes what others tell about its attributes; by default it takes nothing."""
        return reading

    def from_all(self, estimate: R, better: Callable[[Floats, Estimate], Estimate]) -> R:
        """Its result from all that is told about its attribute; `better` puts numbers with these rows together."""
        found: Any = estimate
        together: Any = found if self.rows is None else better(self.rows, found)
        return together

    # What is true, in a trial ----------------------------------------------------------------------------------

    @abstractmethod
    def sums(self, column: Any) -> Whole | None:
        """What is added up over batches, rows of integers; None where each answer has a truth of its own."""

    def sums_of(self, columns: Mapping[str, Any]) -> Whole | None:
        """The same of a table of records; by default of the one column that it is about."""
        return self.sums(columns.get(self.name))

    @abstractmethod
    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        """Sums as results, in the attribute's own units, by the questions that they answer."""


def value_places(attribute: Any) -> Floats | None:
    """Where the values of an attribute are, from -1 to 1; of numbers, the middles of `FINE` cells.

    None for labels, which are nowhere, and for what has too many values.
    """
    if attribute.k is None:
        return (2 * np.arange(FINE) + 1) / FINE - 1
    return None if attribute.nominal or attribute.k > FINE else np.linspace(-1.0, 1.0, attribute.k)


def encoded_by(encode: Callable[[Any, str], NDArray], name: str, column: Any, invalid: str) -> NDArray:
    """A column as it is encoded; an error names the attribute."""
    try:
        return encode(column, invalid)
    except RowError as error:
        wrong: DomainError = error.but(attribute=name)
    except DomainError as error:
        wrong = DomainError(f"attribute {name}, {error}")
    raise wrong


def steps(values: Floats, places: NDArray[np.integer], size: int) -> Whole:
    """The sums of values from -1 to 1 at their places, in steps of 2^-52: the upper bits, and the 26 lowest."""
    whole = np.rint(values * 2.0**52).astype(np.int64)
    halves = (whole >> 26, whole & ((1 << 26) - 1))  # whose sums a float holds without rounding
    return np.stack([np.bincount(places, weights=half, minlength=size).astype(np.int64) for half in halves])


def from_steps(sums: Whole) -> Floats:
    """The sums of the values that `steps` added up."""
    return (sums[-2] * 2.0**26 + sums[-1]) / 2.0**52
