"""Questions: statistics of attributes, written `mean(income)`.

A question knows both sides of its attribute: how a column in its own units becomes what a mechanism takes, and how
what the mechanism estimates becomes a result in these units again. There are four kinds, told apart by their `domain`:

- the *mean* of one number, for which `cells` is 0;
- *frequencies* of `cells` categories: labels, whole numbers, or the bins that a number falls into;
- statistics of `cells` keys that users hold some of, with a value each: their *presence*, the share of users who hold
  a key, and their *mean* over all users, where a key that a user does not hold counts as the middle of its values.
  One report answers both. It answers more, for which no error can be predicted (`DERIVED`): they come with them;
- *ranges* of several attributes, written `ranges(age, income)`: the result answers any query about them, and its error
  is that of a typical one (`ranges.error_prediction`). Its `attribute` is the `Axes` of all of them, and its `columns`
  are one for each, with an `Axis`: numbers are cut into `CELLS` cells.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import Categories, UnitInterval
from dither.core.estimate import Bounds, Estimate
from dither.core.sparse_domain import Sparse
from dither.errors import DomainError, ParameterError, RowError
from dither.ranges.axes import Axes, Axis
from dither.ranges.collection import WholeNumberRecords
from dither.schema import Attribute, KeyValue, Numeric, Ordinal, Schema

BINS = 32  # cells of the distribution of a number; stored plans rely on it, and on the next
CELLS = 64  # of a number in ranges
DERIVED = ("conditional_mean", "frequency")  # of a key, among those who hold it; and with the lower and upper end
RANGES = "ranges"
_AVERAGES = ("mean", "conditional_mean")


@dataclass(frozen=True)
class Question:
    """A statistic of a named attribute.

    >>> question = Question("income", "mean", Numeric(0, 200_000))
    >>> str(question), question.cells, question.unit
    ('mean(income)', 0, 100000.0)
    """

    name: str
    statistic: str
    attribute: Any = field(hash=False)  # labels may be many, and names suffice to tell questions apart

    def __str__(self) -> str:
        return f"{self.statistic}({self.name})"

    @property
    def columns(self) -> tuple["Question", ...]:
        """What it looks at: a question for each attribute, which knows how to encode its column."""
        if not isinstance(self.attribute, Axes):
            return (self,)
        return tuple(Question(axis.name, self.statistic, axis) for axis in self.attribute)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it is about."""
        return tuple(column.name for column in self.columns)

    @property
    def cells(self) -> int:
        """How many numbers are asked for; 0 for the mean of a number, 1 for ranges, which are asked one by one."""
        if self.statistic == RANGES:
            return 1
        if isinstance(self.attribute, KeyValue):
            return self.attribute.d
        if self.averages:
            return 0
        return BINS if isinstance(self.attribute, Numeric) else self.attribute.k

    @property
    def averages(self) -> bool:
        """Whether the result is an average of values, in their units, and not of shares of users."""
        return self.statistic in _AVERAGES

    @cached_property
    def domain(self) -> UnitInterval | Categories | Sparse | WholeNumberRecords:
        """What its mechanism takes."""
        if isinstance(self.attribute, Axes):
            return WholeNumberRecords.sized(self.attribute.shape)
        if isinstance(self.attribute, KeyValue):
            return self.attribute.domain
        return Categories(self.cells) if self.cells else UnitInterval()

    @cached_property
    def kind(self) -> tuple[Any, str]:
        """Equal for questions that mechanisms do not tell apart."""
        if isinstance(self.attribute, Axes):
            return (self.attribute.shape, self.nominal), RANGES
        return self.domain, self.statistic if isinstance(self.domain, Sparse) else ""

    @property
    def nominal(self) -> tuple[int, ...]:
        """Of the attributes of ranges those without an order, by their places."""
        return tuple(place for place, axis in enumerate(self.attribute) if axis.labelled)

    @property
    def unit(self) -> float:
        """What a mechanism's one is worth."""
        return self.attribute.scale if self.averages else 1.0

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest result that there can be."""
        return (self.attribute.low, self.attribute.high) if self.averages else (0.0, 1.0)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of the cells."""
        if self.cells == 0:
            return None
        if self.statistic == "frequency" and self.attribute.labels:
            values = (self.attribute.low, self.attribute.high)
            return tuple(f"{label} at {end:g}" for label in self.attribute.labels for end in values)
        if not isinstance(self.attribute, Numeric):
            return self.attribute.labels
        edges = np.linspace(self.attribute.low, self.attribute.high, BINS + 1)
        return tuple(f"{low:g} to {high:g}" for low, high in pairwise(edges))

    def encode(self, column: Any, invalid: str = "error") -> NDArray:
        """What the mechanism takes, for each value of the column."""
        attribute = self.attribute
        coder = attribute.numeric() if self.averages and isinstance(attribute, Ordinal) else attribute
        try:
            encoded: NDArray = coder.encode(column, invalid)
        except RowError as error:
            wrong: DomainError = error.but(attribute=self.name)
        except DomainError as error:  # never quotes a value
            wrong = DomainError(f"attribute {self.name}, {error}")
        else:
            if self.cells and isinstance(attribute, Numeric):
                return np.minimum(((encoded + 1) / 2 * BINS).astype(np.int64), BINS - 1)
            return encoded
        raise wrong

    def decode(self, estimate: Any) -> Any:
        """A mechanism's estimate in the attribute's own units, with its labels."""
        if isinstance(self.attribute, Axes):
            return estimate.on(self.attribute)
        assert isinstance(estimate, Estimate)
        value, stderr, bounds = estimate.value, estimate.stderr, estimate.bounds
        if self.averages:
            value, stderr = self.attribute.centre + self.unit * value, self.unit * stderr
            bounds = Bounds(*self.ends)
        kept = None if estimate.original is None else self.decode(estimate.original)
        return replace(
            estimate,
            value=value,
            stderr=stderr,
            question=str(self),
            labels=self.labels,
            bounds=bounds,
            original=kept,
            edges=self.edges,
        )

    @property
    def edges(self) -> NDArray[np.float64] | None:
        """Where the cells of a distribution begin and end; whole numbers stand in the middle of theirs."""
        if self.statistic != "distribution":
            return None
        return Axis(self.name, self.cells, self.attribute).edges

    @property
    def useless(self) -> float:
        """From this standard error on, the 95% interval tells nothing that the domain does not tell.

        A mean is in the domain without asking anybody. The squares of k frequencies add up to at most 1, and those of
        the keys that users hold s of to at most s.
        """
        held = self.attribute.size if isinstance(self.attribute, KeyValue) else 1
        return self.unit * (held / max(self.cells, 1)) ** 0.5 / 1.96


def questions(schema: Schema, ask: Iterable[str] | None) -> tuple[Question, ...]:
    """The questions that are asked for; by default each attribute's first, and of keys all that a report answers."""
    if isinstance(ask, str):
        ask = [ask]
    given: Any = list(schema) if ask is None else list(ask) if isinstance(ask, Iterable) else [ask]
    if not all(isinstance(text, str) for text in given):
        raise ParameterError('ask is a list of texts, as in ask=["mean(income)", "histogram(job)"]')
    full = [each for text in given for each in (_usual(schema[text], text) if text in schema else [text])]
    found = tuple(_question(schema, text) for text in full)
    if not found or len({(each.statistic, frozenset(each.names)) for each in found}) < len(found):
        raise ParameterError("ask for at least one question, and for each only once")
    return found


def _usual(attribute: Attribute, name: str) -> list[str]:
    """What is asked about an attribute if nothing else is said."""
    usual = attribute.questions if isinstance(attribute, KeyValue) else attribute.questions[:1]
    return [f"{statistic}({name})" for statistic in usual]


def _question(schema: Schema, text: str) -> Question:
    statistic, _, rest = text.partition("(")
    if statistic.strip() == RANGES and rest.strip().endswith(")"):
        return _ranges(schema, rest.strip().removesuffix(")"))
    name = rest.removesuffix(")")
    if name in schema and isinstance(schema[name], KeyValue) and statistic in DERIVED:
        raise ParameterError(
            f"{statistic}({name}) comes with presence({name}) and mean({name}), and has an error only when it is "
            f"known how many hold a key: ask for these"
        )
    if name not in schema or statistic not in schema[name].questions or not text.endswith(")"):
        raise ParameterError(f"there is no such question; this schema answers {_known(schema)}")
    return Question(name, statistic, schema[name])


def _ranges(schema: Schema, listed: str) -> Question:
    """The question about all of these attributes; spaces do not matter."""
    names = [name.strip() for name in listed.split(",")]
    if not all(names):
        raise ParameterError("ranges names the attributes that queries may be about, as in ranges(age, income)")
    axes = Axes.of_schema(schema, names, CELLS)
    return Question(", ".join(names), RANGES, axes)


def named(asked: Iterable[Question], text: str) -> Question | None:
    """The one of these questions that a text means. For ranges neither spaces nor the order of attributes matter.

    >>> schema = Schema({"age": Ordinal(0, 99), "income": Numeric(0, 100)})
    >>> str(named(questions(schema, ["ranges(age, income)"]), "ranges(income,age)"))
    'ranges(age, income)'
    """
    statistic, _, rest = text.strip().partition("(")
    names = sorted(name.strip() for name in rest.removesuffix(")").split(","))
    several = statistic.strip() == RANGES and rest.endswith(")")
    for each in asked:
        if str(each) == text or (several and each.statistic == RANGES and sorted(each.names) == names):
            return each
    return None


def _known(schema: Schema, most: int = 12) -> str:
    listed = [f"{statistic}({name})" for name in schema for statistic in schema[name].questions]
    told = ", ".join(listed[:most]) + (f" and {len(listed) - most:,} more" if len(listed) > most else "")
    several = [name for name in schema if not isinstance(schema[name], KeyValue)][:3]
    return told + (f", and any ranges of several: {RANGES}({', '.join(several)})" if several else "")
