"""A part of a plan: the questions that one report answers, and the mechanism that asks them.

A part knows how the columns of its attributes become what its mechanism takes, whether the mechanism fits its
questions, and how what the mechanism estimates becomes an estimate for each of them, still in the mechanism's units.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import RECORDS, SPARSE, WHOLE_NUMBERS, UnitInterval
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Collection, Mechanism
from dither.core.tally import Tally
from dither.core.worth import Worth
from dither.errors import DomainError, TallyError
from dither.planning.choose import Unit
from dither.questions.question import Column, Question


class Part(NamedTuple):
    """Questions that one report answers, the mechanism that asks them, and how often it is drawn."""

    questions: Unit
    mechanism: Mechanism
    weight: int

    @property
    def name(self) -> str:
        """As in `mean(age)`, or `mean(age) and mean(income)`."""
        return " and ".join(map(str, self.questions))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The attributes that its mechanism looks at."""
        looked_at = (column for question in self.questions for column in question.columns)
        return tuple({column.name: column for column in looked_at}.values())

    @property
    def keys(self) -> str | None:
        """The attribute whose keys it asks for, if it does."""
        return self.questions[0].name if self.mechanism.reading.domain.kind == SPARSE else None

    @property
    def fits(self) -> bool:
        """Whether its mechanism takes what its questions ask for."""
        reading: Any = self.mechanism.reading  # a domain of each kind has its own parameters
        domain, asked = reading.domain, {question.domain for question in self.questions}
        if domain.kind == RECORDS:
            all_asked = domain.d == len(self.columns) == len(self.questions) > 1
            return domain.numeric and all_asked and asked == {UnitInterval()}
        if domain.kind == SPARSE:
            told = {question.statistic for question in self.questions} <= set(reading.statistics)
            return told and asked == {domain} and len(self.columns) == 1
        return asked == {domain} and len(self.questions) == 1

    def encode(self, columns: Mapping[str, Any], users: int, invalid: str) -> NDArray:
        """What its mechanism takes, for each row of a table."""
        encoded = [column.encode(columns[column.name], invalid) for column in self.columns]
        for column, each in zip(self.columns, encoded, strict=True):
            if each.shape != (users,):  # a report would depend on the values of others
                raise DomainError(f"attribute {column.name}: there must be exactly one value for each user")
        return self._joined(encoded)

    def encode_record(self, columns: Mapping[str, list[Any]]) -> NDArray:
        """What its mechanism takes from the record of one user; substitutes for what does not fit."""
        return self._joined([_substituted(column, columns[column.name]) for column in self.columns])

    def _joined(self, encoded: Sequence[NDArray]) -> NDArray:
        """Columns as a mechanism takes them: one, or those of records beside each other."""
        records = self.mechanism.reading.domain.kind in (RECORDS, WHOLE_NUMBERS)
        return np.stack(encoded, axis=1) if records else encoded[0]

    def worths(self, share: Fraction) -> Iterator[tuple[Question, Worth | None]]:
        """For each question what a report is worth, in its own units, where this share of the users is asked."""
        own = self.mechanism.report_worth()
        for place, question in enumerate(self.questions):
            worth = None if own is None else question.worth(own, place, len(self.questions))
            if worth is not None and question.averages:
                worth = worth.scaled(Fraction(question.unit), Fraction(question.attribute.centre))
            yield question, None if worth is None else worth._replace(question=str(question)).asked_of(share)

    def estimates(self, tally: Tally, guarantee: Guarantee, users: int) -> Iterator[tuple[Question, Any]]:
        """For each question an estimate in the mechanism's own units; unknown if nobody was asked."""
        mechanism, asked = self.mechanism, self.questions
        if tally.mechanism != mechanism.fingerprint:
            raise TallyError("this tally is damaged: it is of another mechanism than the plan's")
        source = f"{type(mechanism).__name__} at epsilon {mechanism.epsilon:.6g}"
        unknown = None if tally.n else {question: question.unknown(guarantee, source) for question in asked}
        if unknown is not None and all(each is not None for each in unknown.values()):
            yield from unknown.items()
            return
        own = mechanism.estimate(tally, within=Collection(guarantee, source, users))
        yield from ((question, question.select(own, place, len(asked))) for place, question in enumerate(asked))
        yield from ((each, each.select(own, 0, 1)) for each in asked[0].beside if each.answered_by(own))


def _substituted(column: Column, values: list[Any]) -> NDArray:
    """One user's value, with a substitute if it does not fit; also where looking at it goes wrong."""
    try:
        encoded = column.encode(values, "substitute")
    except Exception:  # that a value is odd is a fact about its user
        encoded = None
    return column.encode([None], "substitute") if encoded is None or encoded.shape != (1,) else encoded
