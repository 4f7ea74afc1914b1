"""A part of a plan: the questions that one report answers, and the mechanism that asks them.

A part knows how the columns of its attributes become what its mechanism takes, whether the mechanism fits its
questions, and how what the mechanism estimates becomes an estimate for each of them, still in the mechanism's units.

Questions that are crossed have a `table`: a report is about its cell, and each question reads its own axis.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import CATEGORIES, RECORDS, SPARSE, UnitInterval
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Collection, Mechanism
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.core.tally import Tally
from dither.core.worth import Worth
from dither.errors import DomainError, ParameterError, TallyError
from dither.estimation.linear_readings import LinearReading
from dither.planning.choose import Unit, report_worths
from dither.planning.record_tables import record_value
from dither.questions.question import Column, Encoded, Form, Question
from dither.questions.tables import MOST_TABLED, TableOf, crossed


class Part(NamedTuple):
    """Questions that one report answers, the mechanism that asks them, and how often it is drawn."""

    questions: Unit
    mechanism: Mechanism
    weight: int
    group: str = ""  # whose users answer it, where a report names a group

    @property
    def name(self) -> str:
        """As in `mean(age)`, `mean(age) and mean(income)`, or `mean(age) [country=DE]`.

        The bracket comes last, so that no label of a group can make its name that of another part, or that of the
        simulated reports of one.
        """
        asked = " and ".join(map(str, self.questions))
        return f"{asked} [{self.group}]" if self.group else asked

    @property
    def forms(self) -> tuple[Form, ...]:
        """Its questions as they are put to its mechanism."""
        return tuple(question.form(self.mechanism) for question in self.questions)

    @property
    def looked_at(self) -> "LookedAt":
        """What its mechanism looks at, of one user or of many."""
        return LookedAt.of(self)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The attributes that its mechanism looks at."""
        looked_at = (column for form in self.forms for column in form.columns)
        return tuple({column.name: column for column in looked_at}.values())

    @property
    def table(self) -> TableOf | None:
        """The table whose cells its reports are about, if its questions are crossed."""
        return crossed(self.questions)

    @property
    def beside(self) -> tuple[Question, ...]:
        """What was not asked, and may come with its questions."""
        table = self.table
        if table is None:
            return self.questions[0].beside
        own = (each for question in self.questions for each in question.beside)
        return *own, *([table] if table.size <= MOST_TABLED else ())

    @property
    def keys(self) -> str | None:
        """The attribute whose keys it asks for, if it does."""
        return self.questions[0].name if self.mechanism.reading.domain.kind == SPARSE else None

    @property
    def fits(self) -> bool:
        """Whether its mechanism takes what its questions ask for."""
        reading: Any = self.mechanism.reading  # a domain of each kind has its own parameters
        domain, asked = reading.domain, {form.domain for form in self.forms}
        if domain.kind == RECORDS:
            all_asked = domain.d == len(self.questions) > 1
            return domain.numeric and all_asked and asked == {UnitInterval()}
        answered_together = asked == {domain} and len({question.together for question in self.questions}) == 1
        if domain.kind == SPARSE:
            return answered_together and {question.needs for question in self.questions} <= set(reading.statistics)
        table = self.table
        if domain.kind == CATEGORIES and table is not None:
            return domain == table.domain and self.mechanism.along(table.shape, (0,)) is not None
        return answered_together and {form.needs for form in self.forms} <= set(self.mechanism.statistics)

    def encode(self, columns: Mapping[str, Any], users: int, invalid: str) -> NDArray:
        """What its mechanism takes, for each row of a table."""

        def encoded(column: Column) -> NDArray:
            found = column.encode(columns[column.name], invalid)
            if found.shape != (users,):  # a report would depend on the values of others
                raise DomainError(f"attribute {column.name}: there must be exactly one value for each user")
            return found

        return self.looked_at.encode(encoded)

    @property
    def counts(self) -> int:
        """How many counts its tally has; more than fit are refused, before there is one."""
        try:
            self.mechanism.check_size()
        except ParameterError as error:
            raise ParameterError(f"{self.name}: {error}") from None
        return self.mechanism.contributions.size or 0

    def check_tally(self, tally: Tally) -> None:
        """Refuse a tally that no reports of its mechanism can have added up to; names the question."""
        if tally.mechanism != self.mechanism.fingerprint:
            raise TallyError(f"{self.name}: this tally is damaged: it is of another mechanism than the plan's")
        try:
            self.mechanism.check_tally(tally)
        except TallyError as error:
            wrong = TallyError(f"{self.name}: {error}")
        else:
            return
        raise wrong

    def worths(self, share: Fraction) -> Iterator[tuple[Question, Worth | None]]:
        """For each question what a report is worth, in its own units, where this share of the users is asked."""
        for question, worth in zip(self.questions, report_worths(self.mechanism, self.questions), strict=True):
            if worth is not None and question.averages:
                worth = worth.scaled(Fraction(question.unit), Fraction(question.origin))
            yield question, None if worth is None else worth._replace(question=str(question)).asked_of(share)

    @property
    def takes_evidence(self) -> bool:
        """Whether its result is a fit, which takes what others tell about its attributes."""
        return any(question.answers_conditions for question in self.questions)

    def tells(
        self, tally: Tally, found: Mapping[Question, Any], users: int
    ) -> Iterator[tuple[Question, str, LinearReading]]:
        """What its reports tell about single attributes: by which question, the attribute's name, and the reading."""
        asked = self.questions if self.table is None else (self.table,)
        for question in asked if tally.n else ():
            own = found.get(question, found[self.questions[0]])
            yield from ((question, name, told) for name, told in question.tells(self.mechanism, tally, own, users))

    def estimates(
        self,
        tally: Tally,
        guarantee: Guarantee,
        users: int,
        others: Mapping[str, Sequence[LinearReading]] | None = None,
        earlier: tuple[tuple[Mechanism, Tally], ...] = (),
    ) -> Iterator[tuple[Question, Any]]:
        """For each question an estimate in the mechanism's own units; unknown if nobody was asked.

        `others` is what other questions tell about attributes, for a result that takes it; `earlier` are the reports of
        phases in which its mechanism had not learned what it knows now.
        """
        mechanism, asked = self.mechanism, self.questions
        source = f"{type(mechanism).__name__} at epsilon {mechanism.epsilon:.6g}"
        heard = tally.n + sum(before.n for _, before in earlier)
        unknown = None if heard else {question: question.unknown(guarantee, source) for question in asked}
        if unknown is not None and all(each is not None for each in unknown.values()):
            yield from unknown.items()
            return
        within, table = Collection(guarantee, source, users), self.table
        if table is None:
            forms = self.forms
            reading = forms[0].reading_of(mechanism)
            if earlier:
                learned: Any = reading or mechanism.reading  # one of a mechanism that is phased, so it takes them
                reading = replace(learned, earlier=earlier)
            reading = reading if not others else asked[0].told(others, reading or mechanism.reading)
            own = mechanism.estimate(tally, reading, within=within)
            for place, question in enumerate(asked):
                yield question, forms[place].select(own, place, len(asked))
            yield from ((each, each.select(own, 0, 1)) for each in self.beside if each.answered_by(own))
            return
        axes = [mechanism.estimate(tally, reading, within=within) for reading in table.readings(mechanism)]
        read = list(zip(asked, axes, strict=True))
        yield from ((each, each.select(axis, 0, 1)) for question, axis in read for each in (question, *question.beside))
        if table in self.beside:
            yield table, table.select(mechanism.estimate(tally, within=within), 0, 1)


class LookedAt(NamedTuple):
    """What a mechanism looks at: the forms of questions, each with its columns, and the table of crossed ones."""

    forms: tuple[Form, ...]
    table: TableOf | None

    @classmethod
    def of(cls, part: Part) -> "LookedAt":
        """Of crossed questions, and of several numbers in one report, all of them; else one speaks for all."""
        several = part.table is not None or part.mechanism.reading.domain.kind == RECORDS
        return cls(part.forms if several else part.forms[:1], part.table)

    def encode(self, encoded: Callable[[Column], NDArray]) -> NDArray:
        """What the mechanism takes, one for each user, given how a column is encoded."""
        joined = [form.join([encoded(column) for column in form.columns]) for form in self.forms]
        if self.table is not None:
            return self.table.join(joined)
        return np.stack(joined, axis=1) if len(joined) > 1 else joined[0]


class DevicePart(NamedTuple):
    """A part as a device knows it: what does not depend on the record, worked out once."""

    name: str
    tag: str
    mechanism: Mechanism
    looked_at: LookedAt

    @classmethod
    def of(cls, part: Part, tag: str) -> "DevicePart":
        """For a part whose reports carry this tag."""
        return cls(part.name, tag, part.mechanism, part.looked_at)

    def encode(self, record: Any) -> NDArray:
        """What its mechanism takes from the record of one user; substitutes for what does not fit."""
        return self.looked_at.encode(lambda column: np.array([_substituted(column, record_value(record, column.name))]))

    def reports(self, values: NDArray, tape: Stream, rows: NDArray[np.intp] | None = None) -> Reports:
        """One report for each value, with words of a stream of its own."""
        drawn = self.mechanism.drawn(values, tape.spawn("question", self.name), rows)
        return Reports.wrap(drawn, self.tag, tape.simulated)

    def nothing(self, simulated: bool) -> Reports:
        """What is sent where the part was not drawn: no report."""
        return Reports.wrap(np.empty(0, dtype=self.mechanism.dtype), self.tag, simulated)


def _substituted(column: Column, value: object) -> Encoded:
    """What a mechanism takes of one user's value, or of a substitute; also where looking at it goes wrong."""
    try:
        return column.encode_value(value)
    except Exception:  # that a value is odd is a fact about its user
        return column.encode_value(None)
