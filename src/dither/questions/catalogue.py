"""The questions that there are, and those that a text asks for."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from dither.errors import ParameterError
from dither.questions.conditions import ShareOf
from dither.questions.correlations import CorrelationOf, CovarianceOf, ProductOf
from dither.questions.cumulative import CumulativeOf
from dither.questions.distributions import DistributionOf
from dither.questions.group_means import GroupMeansOf, GroupSharesOf, GroupSumsOf
from dither.questions.histograms import HistogramOf, MissingOf
from dither.questions.keys import ConditionalMeanOf, FrequencyOf, KeyMeanOf, PresenceOf
from dither.questions.magnitudes import MagnitudeOf
from dither.questions.means import MeanOf
from dither.questions.quantiles import MedianOf, QuantileOf
from dither.questions.question import Question
from dither.questions.ranges import RangesOf
from dither.questions.spreads import SquareOf, StdOf, VarianceOf
from dither.questions.tables import TableOf
from dither.questions.top_keys import TopOf
from dither.questions.top_words import TopWordsOf
from dither.questions.totals import CountOf, EveryoneOf, SumOf
from dither.schema import Schema

_KNOWN: list[type[Question]] = [
    *(MeanOf, DistributionOf, CumulativeOf, MagnitudeOf, HistogramOf, MissingOf),
    *(PresenceOf, KeyMeanOf, ConditionalMeanOf, FrequencyOf),
    *(RangesOf, TableOf, ShareOf),
    *(
        MedianOf,
        QuantileOf,
        VarianceOf,
        StdOf,
        SumOf,
        CountOf,
        EveryoneOf,
        CovarianceOf,
        CorrelationOf,
        TopOf,
        TopWordsOf,
    ),
    *(GroupMeansOf, GroupSharesOf, GroupSumsOf, SquareOf, ProductOf),
]
_LISTED = 12
Q = TypeVar("Q", bound=Question)


def register(kind: type[Q]) -> type[Q]:
    """Make a kind of question known, as a decorator of its class: texts that name its statistic are read by it.

    Kinds may share a statistic if they are asked of different attributes, as the means of numbers and of keys are.
    """
    if not (isinstance(kind, type) and issubclass(kind, Question)) or inspect.isabstract(kind):
        raise ParameterError("register takes a class of questions: one derived from Question that lacks nothing")
    if kind not in _KNOWN:
        _KNOWN.append(kind)
    return kind


@contextmanager
def restored() -> Iterator[None]:
    """Behind this block the questions are those that there were before it: for tests, which register some."""
    before = list(_KNOWN)
    try:
        yield
    finally:
        _KNOWN[:] = before


def questions(
    schema: Schema, ask: Iterable[str] | None, details: Mapping[str, Any] | None = None
) -> tuple[Question, ...]:
    """The questions that are asked for; by default each attribute's first, and of keys all that a report answers.

    `details` is what a stored plan holds of some of them, by their texts (`Question.details`).
    """
    if isinstance(ask, str):
        ask = [ask]
    given: Any = list(schema) if ask is None else list(ask) if isinstance(ask, Iterable) else [ask]
    if not all(isinstance(text, str) for text in given):
        raise ParameterError('ask is a list of texts, as in ask=["mean(income)", "histogram(job)"]')
    known = details or {}
    asked = [
        each for text in given for each in (_usual(schema, text) if text in schema else [_read(schema, text, known)])
    ]
    if not asked or len({each.identity for each in asked}) < len(asked):
        raise ParameterError("ask for at least one question, and for each only once")
    return tuple(asked)


def named(asked: Iterable[Question], text: str) -> Question | None:
    """The one of these questions that a text means. For ranges neither spaces nor the order of attributes matter.

    >>> from dither.schema import Numeric, Ordinal
    >>> schema = Schema({"age": Ordinal(0, 99), "income": Numeric(0, 100)})
    >>> str(named(questions(schema, ["ranges(age, income)"]), "ranges(income,age)"))
    'ranges(age, income)'
    """
    return next((each for each in asked if each.means(text)), None)


def _about(schema: Schema, name: str) -> list[type[Question]]:
    """What can be asked of one attribute alone, its own first."""
    attribute = schema[name]
    possible = [
        kind
        for kind in _KNOWN
        if not (kind.derived or kind.supporting) and kind is not RangesOf and kind.asks(attribute)
    ]
    order = {statistic: place for place, statistic in enumerate(attribute.questions)}
    return sorted(possible, key=lambda kind: order.get(kind.statistic, len(order)))


def _usual(schema: Schema, name: str) -> list[Question]:
    """What is asked about an attribute if nothing else is said: its first question, and what comes in one report."""
    own = [kind for kind in _about(schema, name) if kind.statistic in schema[name].questions]
    first, *others = (kind(name, schema[name]) for kind in own)
    return [first, *(each for each in others if each.together == first.together)]


def _read(schema: Schema, text: str, details: Mapping[str, Any]) -> Question:
    statistic, bracket, rest = text.strip().partition("(")
    if not bracket or rest.endswith(")"):
        for kind in _KNOWN:
            if kind.statistic != statistic.strip() or not (bracket or kind.bare):
                continue
            stored = kind.restored(schema, details[text]) if text in details else None
            found = kind.read(schema, rest.removesuffix(")")) if stored is None else stored
            if found is not None:
                return found
    raise ParameterError(f"there is no such question; this schema answers {_answered(schema)}")


def _answered(schema: Schema) -> str:
    listed = [kind.usage(name, schema[name]) for name in schema for kind in _about(schema, name)]
    told = ", ".join(listed[:_LISTED]) + (f" and {len(listed) - _LISTED:,} more" if len(listed) > _LISTED else "")
    several = [name for name in schema if RangesOf.asks(schema[name])][:3]
    return told + (f", and any ranges of several: {RangesOf.statistic}({', '.join(several)})" if several else "")
