"""Commands for the analyst: estimates with their error bars, and answers to conditions."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dither.cli.common import (
    STREAM,
    checked_output,
    facts,
    invalid_option,
    json_option,
    key_option,
    once_from_input,
    plan_argument,
    read_plan,
    read_tally,
    refuse_pipes,
    say,
    sealing_key,
    seed_option,
    several,
    shell_quoted,
    show,
    tell,
    writable,
    write,
)
from dither.display.progress import progress
from dither.display.table import TextTable, cell
from dither.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow

    from dither.core.estimate import Estimate
    from dither.display.bar_charts import BarChart, ColumnChart, Legend
    from dither.engines.records import RecordStream
    from dither.planning import Plan
    from dither.planning.group_estimates import GroupEstimates
    from dither.planning.plan_estimates import PlanEstimates
    from dither.planning.plan_tally import PlanTally

_LONG, _TOP = 12, 5  # a list of more numbers is cut to the largest few
_HIDDEN = "frequency("  # of keys at the ends of their values: what the others are made of
_TALLY = ".tally"
_ERRORS = "The errors that were predicted and made, and the share of all 95% intervals that hold the truth:"


@click.command()
@plan_argument
@click.argument("tally_file", metavar="TALLY")
@click.option(
    "--refine",
    default="auto",
    show_default=True,
    metavar="METHOD",
    help="Win back accuracy without touching privacy: auto, none, or a method of dither.refine.",
)
@click.option("-o", "--output", metavar="FILE", help="Write all numbers: .parquet, .csv or .json; .html is a page.")
@click.option("--html", metavar="FILE", help="Write one page to be read: plots, the plan, the guarantee in words.")
@click.option("--query", "queries", multiple=True, metavar="CONDITION", help="Answer this too, on the page and here.")
@click.option(
    "--earlier",
    metavar="TALLY",
    help="Of a plan that dither next wrote: the tally of the first phase, which counts too.",
)
@click.option("--truth", metavar="RECORDS", help="In a trial: the raw records, to show the errors that were made.")
@click.option(
    "--users",
    type=int,
    help="How many users there are, if that is public and only a random part of them reported: totals are of all.",
)
@click.option("--by", metavar="NAME", help="Results of each value of this public attribute, here and in the files.")
@click.option(
    "--sizes", metavar="NAME=NUMBER,...", help="Public sizes of the groups, which count by them: DE=83e6,FR=68e6."
)
@click.option(
    "--survey-weights",
    metavar="NAME=NUMBER,...",
    help="Public weights of a survey: how much a user of each group counts.",
)
@click.option(
    "--pooling",
    type=click.Choice(["stratified", "reports", "inverse variance"]),
    default="stratified",
    show_default=True,
    help="How budgets that people chose are put together; the last two are right only if their users are alike.",
)
@click.option(
    "--chart/--no-chart",
    default=None,
    help="Draw the shares as bars with their intervals. By default on a terminal, and not into a pipe or a file.",
)
@key_option("Only a tally that is sealed with the key in this file.")
@json_option()
def estimate(
    plan_file: str,
    tally_file: str,
    refine: str,
    output: str | None,
    html: str | None,
    queries: Sequence[str],
    earlier: str | None,
    truth: str | None,
    users: int | None,
    by: str | None,
    sizes: str | None,
    survey_weights: str | None,
    pooling: str,
    chart: bool | None,
    key_file: str | None,
    as_json: bool,
) -> None:
    """Estimate what was asked, each number with its error bar.

    TALLY is what dither tally or dither merge wrote, or - for standard input.

    \b
    dither estimate plan.json all.tally -o estimates.csv
    dither estimate plan.json all.tally --html report.html
    dither estimate plan.json all.tally --by country
    dither estimate second.json second.tally --earlier first.tally
    dither estimate plan.json all.tally --html report.html --query "age < 30 and income > 50000"
    """
    from dither.page.export import compared, to_dict, write_estimates
    from dither.planning.trial import answers

    once_from_input(plan_file, tally_file, truth, earlier)
    as_json, output = as_json or output == STREAM, None if output == STREAM else output
    inputs = [plan_file, tally_file, *(path for path in (truth, earlier) if path)]
    checked_output(output, inputs)
    checked_output(html, inputs, as_json=as_json)
    writable(output, html)
    refuse_pipes([truth], "the records")
    made = read_plan(plan_file)
    key = sealing_key(key_file)
    tally, before = read_tally(tally_file, made, key), _earlier(earlier, made, key)
    asked = answers(made, tally, queries, earlier=before) if queries else None
    counting = {"sizes": _by_value("--sizes", sizes), "weights": _by_value("--survey-weights", survey_weights)}
    chosen = None if refine == "none" else refine
    found = made.estimate(tally, earlier=before, refine=chosen, users=users, pooling=pooling, **counting)
    groups = None if by is None else found.by(by)
    fit = made.goodness(tally)
    real = _truths(made, found, truth, [output, html]) if truth else None
    told = asked.rows() if asked else None
    if output:
        write_estimates(output, made, found, truth=real, queries=told, by=groups)
    if html:
        from dither.page.html_page import html_page

        write(html, html_page(made, found, truth=real, queries=told, goodness=fit))
    if as_json:
        errors = {} if real is None else {"errors": list(_rows(compared(made, found, real)))}
        answered = {} if asked is None else {"answers": asked.to_dict()["answers"]}
        facts({**to_dict(made, found, by=groups), **errors, **answered})
    elif html != STREAM:
        show(_table(made, found, real or {}), *_charts(made, found, chart), _explained(made, found, refine))
        if groups is not None:
            show(_group_table(made, groups), groups.explain())
        if asked is not None:
            show(asked.table())
        if real is not None:
            show(_ERRORS, _errors(compared(made, found, real)))
    if not fit.passed:
        tell(f"Warning: {fit.explain()}")
    if real is not None:
        tell("note: the truth comes from raw records and is protected by nothing; keep the page to yourself")
    for path in (output, html):
        if path and path != STREAM:
            tell(f"wrote {path}")
    if not (output or html or as_json):
        tell(
            f"next: dither estimate {shell_quoted(plan_file)} {shell_quoted(tally_file)} "
            "--html report.html -o estimates.csv"
        )


def _earlier(path: str | None, made: "Plan", key: bytes | None) -> "list[PlanTally]":
    """The tally of the first phase, if there is one; it is that of the plan that this one was made from."""
    if made.after is None:
        if path is not None:
            raise ParameterError("--earlier is for plans that dither next wrote, and this one has no earlier phase")
        return []
    if path is None:
        raise ParameterError("this plan is of a second phase: name the tally of the first one, --earlier first.tally")
    return [read_tally(path, made.after.plan, key)]


def _by_value(option: str, text: str | None) -> dict[str, Any] | None:
    """NAME=NUMBER,...: a number for each value of a public attribute; NAME:VALUE=NUMBER where there are several."""
    if text is None:
        return None
    found: dict[str, Any] = {}
    for pair in text.split(","):
        name, mark, value = (part.strip() for part in pair.rpartition("="))
        try:
            number = float(value) if mark else None
        except ValueError:
            number = None
        if number is None:
            raise ParameterError(f"write {option} as DE=83e6,FR=68e6, with a number for every value")
        attribute, colon, label = name.partition(":")
        if colon:
            found.setdefault(attribute, {})[label] = number
        else:
            found[name] = number
    return found


def _group_table(made: "Plan", groups: "GroupEstimates") -> TextTable:
    """The numbers of each value of a public attribute that fit a terminal."""
    columns: dict[str, list[Any]] = {}
    for value, each in groups.items():
        table = _table(made, each, {}).columns
        columns.setdefault(groups.name, []).extend([value] * len(next(iter(table.values()))))
        for name, column in table.items():
            columns.setdefault(name, []).extend(column)
    return TextTable(columns)


def _truths(made: "Plan", found: "PlanEstimates", source: str, outputs: Sequence[str | None]) -> dict[str, Any]:
    """What the raw records say, for the questions that were estimated."""
    from dither.engines.records import open_records
    from dither.planning.trial import truths

    given = open_records(source, made.attributes)
    for output in outputs:
        checked_output(output, given.files)

    read = _watched(given, "Reading the truth")
    return {question: each for question, each in truths(made, read).items() if question in found}


def _watched(given: "RecordStream", what: str) -> Iterator["pyarrow.RecordBatch"]:
    """The batches of records, with a bar that tells how far they are."""
    with progress(what, given.rows, unit="records") as advance:
        for batch in given.batches():
            yield batch
            advance(batch.num_rows)


def _table(made: "Plan", found: "PlanEstimates", truth: dict[str, Any]) -> TextTable:
    """All numbers that fit a terminal, and the largest of long lists."""
    from dither.page.export import numeric_estimates

    rows: list[tuple[str, ...]] = []
    for question, attribute, each in numeric_estimates(made, found):
        if not question.startswith(_HIDDEN):
            held = f"presence({attribute})"  # of keys those that many hold are told, not those with odd values
            by = found[held] if question.endswith(f"({attribute})") and held in found else each
            rows += _lines(question, attribute, each, truth.get(question), np.ravel(by.value))
    names = ["question", "of", "estimate", "95% interval", *(["truth"] if truth else [])]
    return TextTable(dict(zip(names, map(list, zip(*(row[: len(names)] for row in rows), strict=True)), strict=True)))


def _lines(question: str, attribute: str, each: "Estimate", truth: Any, size: Any) -> list[tuple[str, ...]]:
    from dither.display.significant_digits import number
    from dither.page.export import names
    from dither.questions.ranges import RangesOf

    labels, value, stderr = names(each), np.ravel(each.value), np.ravel(each.stderr)
    if not value.size:  # a list that nothing is on
        return [(question, "nothing stands out", "", "", "")]
    about = f"{attribute} " if question.startswith(f"{RangesOf.statistic}(") else ""
    cut = value.size > _LONG
    low, high = (np.ravel(end) for end in each.interval(0.95, simultaneous=cut))
    chosen = np.argsort(-size, kind="stable")[:_TOP] if cut else np.arange(value.size)
    lines = []
    for row in map(int, chosen):
        told = [number(float(part[row]), float(stderr[row])) for part in (value, low, high)]
        true = np.nan if truth is None else float(truth[row])
        real = number(true, float(stderr[row])) if np.isfinite(true) else ""
        missed = " missed" if true < low[row] or true > high[row] else ""  # what is unknown compares false
        between = told[1] if told[1] == told[2] else f"{told[1]} to {told[2]}"  # both unknown, or known exactly
        lines.append((about + labels[row], told[0], between, real + missed))
    if cut:
        lines.append((f"and {value.size - _TOP:,} more", "", "", ""))
    return [("" if place else question, *line) for place, line in enumerate(lines)]


def _charts(made: "Plan", found: "PlanEstimates", wanted: bool | None) -> "list[BarChart | ColumnChart | Legend]":
    """What can be drawn of all this: shares by their labels, and along an axis."""
    from rich.console import Console

    from dither.display.bar_charts import BarChart, ColumnChart, Legend, neighbours
    from dither.page.export import names, numeric_estimates

    console = Console()
    if not (console.is_terminal if wanted is None else wanted):
        return []
    charts: list[BarChart | ColumnChart | Legend] = []
    for question, attribute, each in numeric_estimates(made, found):
        value, bounds, size = np.ravel(each.value), each.bounds, np.size(each.value)
        if question.startswith(_HIDDEN) or size < 2 or bounds is None or bounds[:2] != (0.0, 1.0):
            continue
        title, labels = question if f"({attribute})" in question else f"{question}: {attribute}", names(each)
        if each.ordered and size > _LONG and bounds.total == 1.0:
            level = 1 - 0.05 / neighbours(size, console.width)  # of each, so that sums of neighbours hold 95%
            low, high = (np.ravel(end) for end in each.interval(level))
            charts.append(ColumnChart(title, (labels[0], labels[-1]), value, low, high))
            continue
        cut = size > _LONG
        low, high = (np.ravel(end) for end in each.interval(0.95, simultaneous=cut))
        rows = np.argsort(-np.nan_to_num(value, nan=-np.inf), kind="stable")[:_LONG] if cut else np.arange(size)
        kept = [labels[row] for row in rows]
        charts.append(BarChart(title, kept, value[rows], low[rows], high[rows], rest=size - len(rows)))
    return [*charts, Legend()] if charts else []


def _explained(made: "Plan", found: "PlanEstimates", refine: str) -> str:
    from dither.core.reports import left_out_in_words
    from dither.page.export import numeric_estimates, people

    lines = [f"From {several(people(made, found), 'user')}; all that a user reports together: {found.guarantee}."]
    parts = [each for _, _, each in numeric_estimates(made, found)]
    if any(np.size(each.value) > _LONG for each in parts):
        lines.append(
            "Of long lists the largest are shown, with intervals that hold for all of the list at once; "
            "-o estimates.csv writes every number."
        )
    if any(each.original is not None for each in parts):
        lines.append(f"Refined ({refine}), which costs no privacy; --refine none shows the reports by themselves.")
    if found.dropped:
        lines.append(left_out_in_words(found.dropped))
    return "\n".join(lines)


def _errors(table: TextTable) -> TextTable:
    """What fits a terminal: the errors that were predicted, and those that were made."""
    columns = table.columns
    shares = ["" if np.isnan(share) else f"{share:.0%}" for share in columns["inside"]]
    told = {"predicted": columns["predicted"], "real": columns["real before"]}
    if not np.isnan(columns["refined"]).all():
        told["refined"] = columns["real"]
    errors = {name: ["" if np.isnan(each) else cell(each) for each in column] for name, column in told.items()}
    return TextTable({"question": columns["question"], "numbers": columns["numbers"], **errors, "inside": shares})


def _rows(table: TextTable) -> Iterator[dict[str, Any]]:
    """A table of questions and their numbers for machines: what is not known is null."""
    from dither.page.export import known

    questions, *numbers = table.columns.values()
    for row in zip(questions, *(map(known, column) for column in numbers), strict=True):
        yield dict(zip(table.columns, row, strict=True))


# Conditions --------------------------------------------------------------------------------------------------------


@click.command()
@plan_argument
@click.argument("conditions", nargs=-1, required=True, metavar="[TALLY] CONDITION...")
@click.option("--records", metavar="DATA", help="A trial: randomize these records, and ask them.")
@click.option("--earlier", metavar="TALLY", help="Of a plan that dither next wrote: the tally of the first phase.")
@click.option("--question", metavar="QUESTION", help="Which ranges are meant, if the plan asks for several.")
@seed_option
@invalid_option
@key_option("Only a tally that is sealed with the key in this file.")
@json_option()
def query(
    plan_file: str,
    conditions: Sequence[str],
    records: str | None,
    earlier: str | None,
    question: str | None,
    seed: int | None,
    invalid: str,
    key_file: str | None,
    as_json: bool,
) -> None:
    """Answer conditions in the words of SQL, from a tally or in a trial.

    Each is answered by the share of users for whom it holds. The plan must ask for ranges. TALLY is a file that ends in
    .tally, or - for standard input; with --records instead, the records of a file are randomized and tallied first.

    \b
    dither plan schema.toml --epsilon 1 --users 100000 --ask "ranges(age, income)" -o plan.json
    dither query plan.json all.tally "age between 20 and 40 and income > 50000"
    dither query plan.json --records people.csv "age between 20 and 40 and income > 50000"
    """
    from dither.planning.trial import answered, answers

    first = conditions[0]
    source = first if first == STREAM or first.lower().endswith(_TALLY) else None
    asked = conditions[1:] if source else conditions
    if (source is None) == (records is None):
        raise click.UsageError(
            "Name a tally (a file that ends in .tally) before the conditions, or records for a trial with --records."
        )
    if not asked:
        raise click.UsageError('Name at least one condition, in quotes, as in "age between 20 and 40".')
    if records and key_file:
        raise click.UsageError("--key is for tallies; records are tallied here.")
    if source and seed is not None:
        raise click.UsageError("--seed is for trials with --records; a tally is randomized already.")
    once_from_input(plan_file, source, earlier)
    made = read_plan(plan_file)
    if records is None:
        key = sealing_key(key_file)
        tally, before = read_tally(str(source), made, key), _earlier(earlier, made, key)
        found = answers(made, tally, asked, question=question, earlier=before)
    else:
        from dither.engines.records import open_records

        def read() -> Iterator["pyarrow.RecordBatch"]:  # once the conditions are known to be fine
            yield from _watched(open_records(records, made.attributes), "Asking")

        found = answered(made, read(), asked, question=question, seed=seed, invalid=invalid)
    if as_json:
        facts(found.to_dict())
        return
    show(found.table())
    say(found.explain())
