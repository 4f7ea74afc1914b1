"""A trial of a plan: records on this machine go the whole way, and conditions are answered.

It is for those who decide about a plan, with records that are made or public. In a collection nobody has the records:
there, reports come from devices, and `plan.estimate(plan.tally(reports))` answers the same conditions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dither.core.errors import ParameterError
from dither.planning.files import read_records
from dither.planning.plans import Plan
from dither.planning.questions import RANGES, Question, named
from dither.planning.tables import columns_of
from dither.show.table import Table

_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Trial:
    """The answers to conditions, from reports about `question` of a plan."""

    plan: Plan
    question: Question
    conditions: tuple[str, ...]
    answers: Any
    records: int

    def table(self) -> Table:
        """One row a condition."""
        low, high = self.answers.interval(_LEVEL)
        return Table(
            {
                "condition": list(self.conditions),
                "share": [f"{value:.4f}" for value in self.answers.value],
                "95% interval": [f"{a:.4f} to {b:.4f}" for a, b in zip(low, high, strict=True)],
                "noise": [f"{value:.4f}" for value in self.answers.noise],
                "doubt": [f"{value:.4f}" for value in self.answers.doubt],
            }
        )

    def explain(self) -> str:
        """Where the answers come from."""
        from dither.ranges.estimate import reports

        found = self.answers
        records = f"{self.records:,} record{'s' * (self.records != 1)}"
        return (
            f"From {reports(found.n)} about {self.question}, of {records}: {found.guarantee}.\n"
            "Noise is from the reports; doubt is an estimate of what had to be guessed; the interval has both."
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        low, high = self.answers.interval(_LEVEL)
        parts = {name: getattr(self.answers, name) for name in ("value", "stderr", "noise", "doubt")}
        columns = {**parts, "low": low, "high": high}
        return {
            "plan": self.plan.fingerprint,
            "question": str(self.question),
            "records": self.records,
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
    records: str | Path,
    conditions: Sequence[str],
    *,
    question: str | None = None,
    seed: int | None = None,
    invalid: str = "error",
    progress: Callable[[Iterable], Iterable] | None = None,
) -> Trial:
    """Randomize the records of a file, tally, estimate, and answer conditions in the words of SQL.

    `progress` wraps the steps, as `rich.progress.track` does.
    """
    from dither.ranges.where import parse

    chosen = _chosen(plan, question)
    queries = [_numbered(parse, chosen, number, text, len(conditions)) for number, text in enumerate(conditions)]
    table, users = None, 0
    found: Any = None
    for step in (progress or iter)(("read", "randomize", "tally", "estimate", "answer")):
        if step == "read":
            table, users = columns_of(read_records(records, plan.attributes), plan.attributes)
        elif step == "randomize":
            found = plan.randomize(table, seed=seed, invalid=invalid)
        elif step == "tally":
            found = plan.tally(found)
        elif step == "estimate":
            found = plan.estimate(found)[str(chosen)]
        else:
            found = found.answers(queries)
    return Trial(plan, chosen, tuple(conditions), found, users)


def _numbered(parse: Callable, question: Question, number: int, text: str, count: int) -> Any:
    try:
        return parse(question.attribute, text)
    except ParameterError as error:
        if count == 1:
            raise
        reason = str(error)
    raise ParameterError(f"condition {number + 1}: {reason}")


def _chosen(plan: Plan, text: str | None) -> Question:
    """The question about ranges that is meant."""
    asked = [question for question in plan.questions if question.statistic == RANGES]
    if not asked:
        raise ParameterError(
            "this plan asks for no ranges, so it answers no conditions; plan them with "
            '--ask "ranges(age, income)", naming your attributes'
        )
    chosen = named(asked, text) if text is not None else asked[0] if len(asked) == 1 else None
    if chosen is None:
        names = ", ".join(map(str, asked))
        raise ParameterError(f"which ranges are meant? This plan asks for {names}: name one with --question")
    return chosen
