"""The command for rankings: the most frequent words or keys, in order, and how deep they were looked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dither.cli.common import (
    facts,
    json_option,
    key_option,
    once_from_input,
    plan_argument,
    read_plan,
    read_tally,
    sealing_key,
    several,
    shell_quoted,
    show,
    tell,
)
from dither.display.table import TextTable
from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.core.estimate import Estimate
    from dither.planning import Plan
    from dither.planning.plan_estimates import PlanEstimates
    from dither.questions.question import Question

_NOTHING = "Nothing stands out of the noise: with so many reports, at this epsilon, nobody could tell a frequent one."


@click.command()
@plan_argument
@click.argument("tally_file", metavar="TALLY")
@click.option("--question", metavar="QUESTION", help="Which ranking is meant, if the plan asks for several.")
@click.option(
    "--share",
    "shares",
    multiple=True,
    metavar="WORD",
    help="The share of this word, listed or not, from the same reports; any number of times.",
)
@key_option("Only a tally that is sealed with the key in this file.")
@json_option()
def top(
    plan_file: str, tally_file: str, question: str | None, shares: Sequence[str], key_file: str | None, as_json: bool
) -> None:
    """List the most frequent words or keys, the first with the largest share, each with its interval.

    TALLY is what dither tally or dither merge wrote, or - for standard input. Of words that nobody listed those are
    told that stand out of the noise; a list may be shorter than what was asked for, and says how deep it looked.

    \b
    dither top plan.json all.tally
    dither top plan.json all.tally --share tea --share coffee
    """
    once_from_input(plan_file, tally_file)
    made = read_plan(plan_file)
    asked = _ranking(made, question)
    tally = read_tally(tally_file, made, sealing_key(key_file))
    found = made.estimate(tally)
    estimate = found.single(str(asked))
    named = asked.shares_of(estimate, shares) if shares else None
    if shares and named is None:
        raise ParameterError(f"--share is for words that nobody listed; the keys of {asked} are in the plan")
    searched = asked.search_table(estimate)
    if as_json:
        facts(_told(made, found, asked, named, searched))
        return
    show(_table(estimate, "rank") if np.size(estimate.value) else _NOTHING, _explained(found, estimate))
    if named is not None:
        show(_table(named, None))
    if searched is not None:
        show(searched)
    fit = made.goodness(tally)
    if not fit.passed:
        tell(f"Warning: {fit.explain()}")
    tell(f"next: dither estimate {shell_quoted(plan_file)} {shell_quoted(tally_file)} --html report.html")


def _ranking(made: "Plan", text: str | None) -> "Question[Any]":
    """The ranking that is meant: the only one, or the one of this name."""
    found = [question for question in made.questions if question.found]
    if text is not None:
        found = [question for question in found if question.means(text) or question.name == text.strip()]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(str(question) for question in made.questions if question.found)
    if not listed:
        raise ParameterError(
            "this plan asks for no ranking: ask for one with dither plan --ask 'top(NAME, 20)', of a text or of keys"
        )
    raise ParameterError(f"say which ranking is meant, --question with one of: {listed}")


def _table(estimate: "Estimate", rank: str | None) -> TextTable:
    """All of a list: the names, the shares, and intervals that hold for all of it at once."""
    from dither.display.significant_digits import percent
    from dither.page.export import names

    low, high = (np.ravel(end) for end in estimate.interval(0.95))
    value, error = np.ravel(estimate.value), np.ravel(estimate.stderr)
    ends = [
        f"{percent(float(a), float(e))} to {percent(float(b), float(e))}"
        for a, b, e in zip(low, high, error, strict=True)
    ]
    places = {} if rank is None else {rank: list(range(1, value.size + 1))}
    written = [percent(float(v), float(e)) for v, e in zip(value, error, strict=True)]
    return TextTable({**places, "of": names(estimate), "share": written, "95% interval": ends})


def _explained(found: "PlanEstimates", estimate: "Estimate") -> str:
    lines = [f"From {several(estimate.n, 'report')}; all that a user reports together: {found.guarantee}."]
    return "\n".join([*lines, *estimate.notes])


def _told(
    made: "Plan", found: "PlanEstimates", asked: "Question[Any]", named: "Estimate | None", searched: TextTable | None
) -> dict[str, Any]:
    """The same for machines."""
    estimate = found.single(str(asked))
    told: dict[str, Any] = {
        "plan": made.fingerprint,
        "question": str(asked),
        "reports": estimate.n,
        "simulated": found.guarantee.simulated,
        "listed": _rows(estimate),
        "notes": list(estimate.notes),
    }
    if named is not None:
        told["shares"] = _rows(named)
    if searched is not None:
        levels = zip(*searched.columns.values(), strict=True)
        told["searched"] = [dict(zip(searched.columns, level, strict=True)) for level in levels]
    return told


def _rows(estimate: "Estimate") -> list[dict[str, Any]]:
    from dither.page.export import known

    low, high = (np.ravel(end) for end in estimate.interval(0.95))
    columns = np.ravel(estimate.value), np.ravel(estimate.stderr), low, high
    return [
        {"of": str(name), **dict(zip(("value", "stderr", "low", "high"), map(known, numbers), strict=True))}
        for name, *numbers in zip(estimate.item_names, *columns, strict=True)
    ]
