"""Conditions answered: from a tally, or in a trial, where records on this machine go the whole way.

A trial is for those who decide about a plan, with records that are made or public. In a collection nobody has the
records: there, reports come from devices, and their tally answers the same conditions (`answers`). Only a trial knows
the `truths` that estimates can be compared with.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.display.table import TextTable
from dither.errors import EmptyError, ParameterError
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.record_tables import columns_of
from dither.questions.catalogue import named
from dither.questions.question import Question

if TYPE_CHECKING:
    from dither.planning.plan_estimates import PlanEstimates

_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Trial:
    """The answers to conditions, from reports about `question` of a plan."""

    plan: Plan
    question: Question
    conditions: tuple[str, ...]
    answers: Any
    records: int | None = None  # of a trial

    def table(self) -> TextTable:
        """One row a condition."""
        low, high = self.answers.interval(_LEVEL)
        return TextTable(
            {
                "condition": list(self.conditions),
                "share": [f"{value:.4f}" for value in self.answers.value],
                "95% interval": [f"{a:.4f} to {b:.4f}" for a, b in zip(low, high, strict=True)],
                "noise": [f"{value:.4f}" for value in self.answers.noise],
                "doubt": [f"{value:.4f}" for value in self.answers.doubt],
            }
        )

    def rows(self) -> list[tuple[str, float, float, float, None]]:
        """Each condition with its answer and the ends of its interval, as the page of a report takes them."""
        low, high = self.answers.interval(_LEVEL)
        columns = (self.conditions, self.answers.value, low, high)
        return [(text, float(value), float(a), float(b), None) for text, value, a, b in zip(*columns, strict=True)]

    def explain(self) -> str:
        """Where the answers come from."""
        from dither.ranges.range_estimate import reports

        found = self.answers
        records = "" if self.records is None else f", of {self.records:,} record{'s' * (self.records != 1)}"
        return (
            f"From {reports(found.n)} about {self.question}{records}: {found.guarantee}.\n"
            "Noise is from the reports; doubt is an estimate of what had to be guessed; the interval has both."
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        found = self.answers
        low, high = found.interval(_LEVEL)
        parts = {"value": found.value, "stderr": found.stderr, "noise": found.noise, "doubt": found.doubt}
        columns = {**parts, "low": low, "high": high}
        return {
            "plan": self.plan.fingerprint,
            "question": str(self.question),
            **({} if self.records is None else {"records": self.records}),
            "reports": self.answers.n,
            "simulated": self.answers.guarantee.simulated,
            "epsilon": self.plan.epsilon,
            "delta": self.plan.delta,
            "level": _LEVEL,
            "answers": [
                {"condition": text, **{name: float(column[row]) for name, column in columns.items()}}
                for row, text in enumerate(self.conditions)
            ],
        }


def answered(
    plan: Plan,
    batches: Iterable[Any],
    conditions: Sequence[str],
    *,
    question: str | None = None,
    seed: int | None = None,
    invalid: str = "error",
) -> Trial:
    """Randomize and tally records, a batch at a time, estimate, and answer conditions in the words of SQL."""
    chosen, queries = _asked(plan, conditions, question)
    tally, users = None, 0
    for batch in batches:
        counted = plan.tally(plan.randomize(batch, seed=seed, invalid=invalid, first=users))
        tally = counted if tally is None else tally + counted
        users += len(batch)
    if tally is None:
        raise EmptyError("there are no records: a trial needs some to randomize")
    estimate: Any = plan.estimate(tally)[str(chosen)]
    return Trial(plan, chosen, tuple(conditions), estimate.answers(queries), users)


def answers(
    plan: Plan,
    tally: PlanTally,
    conditions: Sequence[str],
    *,
    question: str | None = None,
    earlier: Sequence[PlanTally] = (),
) -> Trial:
    """Answer conditions in the words of SQL from the tally of a collection, and those of its earlier phases."""
    _asked(plan, conditions, question)  # what cannot be answered is told before anything is estimated
    return answers_of(plan, plan.estimate(tally, earlier=earlier), conditions, question)


def answers_of(plan: Plan, estimates: "PlanEstimates", conditions: Sequence[str], question: str | None = None) -> Trial:
    """The same from estimates that are there already."""
    chosen, queries = _asked(plan, conditions, question)
    estimate: Any = estimates[str(chosen)]
    return Trial(plan, chosen, tuple(conditions), estimate.answers(queries))


def _asked(plan: Plan, conditions: Sequence[str], question: str | None) -> tuple[Question, list[Any]]:
    """The question about ranges that is meant, and what the conditions ask of it."""
    from dither.ranges.where import parse

    chosen = ranges_question(plan, question)
    return chosen, [_numbered(parse, chosen, number, text, len(conditions)) for number, text in enumerate(conditions)]


def _numbered(parse: Callable, question: Question, number: int, text: str, count: int) -> Any:
    try:
        return parse(question.attribute, text)
    except ParameterError as error:
        if count == 1:
            raise
        reason = str(error)
    raise ParameterError(f"condition {number + 1}: {reason}")


def ranges_question(plan: Plan, text: str | None) -> Question:
    """The question about ranges that is meant."""
    asked = [question for question in plan.questions if question.answers_conditions]
    if not asked:
        raise ParameterError(
            "this plan asks for no ranges, so it answers no conditions; ask for them when planning, as in "
            '"ranges(age, income)", naming your attributes'
        )
    chosen = named(asked, text) if text is not None else asked[0] if len(asked) == 1 else None
    if chosen is None:
        names = ", ".join(map(str, asked))
        raise ParameterError(f"which ranges are meant? This plan asks for {names}: name one of them as the question")
    return chosen


# What only a trial knows -------------------------------------------------------------------------------------------


def truths(plan: Plan, batches: Iterable[Any]) -> dict[str, NDArray[np.float64]]:
    """For each question what estimates should be, from the records themselves, a batch at a time.

    Values that do not fit count as their substitutes, as they do in a collection. Of keys there is also the mean among
    those who hold one, and of questions that are asked together their table. Ranges are left out: each query has a
    truth of its own. Sums are of integers (numbers in steps of 2^-52 of half their domain), so that the cut into
    batches does not matter.

    >>> from dither import Numeric, Schema, plan
    >>> made = plan(Schema({"income": Numeric(0, 100)}), 1.0, users=1000)
    >>> truths(made, [{"income": [0, 25]}, {"income": [50, 75]}])["mean(income)"].tolist()
    [37.5]
    """
    users = 0
    sums: dict[Question, NDArray[np.int64]] = {}
    for batch in batches:
        columns, rows = columns_of(batch, plan.attributes)
        users += rows
        for question in (*plan.questions, *plan.tables):
            counted = question.sums_of(columns)
            if counted is not None:
                sums[question] = sums.get(question, 0) + counted
    if users == 0:
        raise EmptyError("there are no records, so there is no truth to compare with")
    found = [question.truths(counted, users) for question, counted in sums.items()]
    return {name: truth for each in found for name, truth in each.items()}
