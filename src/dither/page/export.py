"""All estimates of a plan as one flat table, and as a file of it: one row a number, whatever the question was.

Files appear whole or not at all. They name the plan by its hash, and say under which guarantee the reports were
collected. What is not known, because nobody was asked, is null in a file: spreadsheets and JSON have no NaN. In CSV a
name that a spreadsheet would run as a formula has an apostrophe in front.

`compared` sets the error that was predicted beside the one that the data state, and beside the real one where the
truth is known, which is in trials only.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.atomic_write import atomic_path
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.display.markup import visible
from dither.display.spreadsheet import spreadsheet_text
from dither.display.table import TextTable
from dither.errors import ParameterError, require
from dither.planning import Plan
from dither.planning.group_estimates import GroupEstimates
from dither.planning.plan_estimates import PlanEstimates
from dither.ranges.axes import Axis
from dither.ranges.range_estimate import Answers, RangeEstimate

if TYPE_CHECKING:
    import pyarrow

Floats = NDArray[np.float64]

LEVEL = 0.95
KINDS = (".parquet", ".csv", ".json", ".html")
ALL_USERS = "all users"
GROUP = "group"
_TEXTS = (GROUP, "question", "attribute", "of")
_NUMBERS = ("value", "stderr", "low", "high")
_BEFORE = ("original_value", "original_stderr")
_FLAGS = ("refined", "simulated")
_MOST_PAIRS = 100  # of attributes, whose typical queries are asked


# One row a number --------------------------------------------------------------------------------------------------


def group_columns(plan: Plan, by: GroupEstimates, level: float = LEVEL) -> TextTable:
    """The same for each value of a public attribute, which is in the column `group`."""
    tables = {value: flat_columns(plan, each, level).columns for value, each in by.items()}
    names = next(iter(tables.values()))
    values = [value for value, table in tables.items() for _ in table["question"]]
    return TextTable({GROUP: values, **{name: [*_stacked(tables, name)] for name in names}})


def _stacked(tables: Mapping[str, Mapping[str, Any]], name: str) -> Iterator[Any]:
    return (cell for table in tables.values() for cell in table[name])


def flat_columns(plan: Plan, estimates: PlanEstimates, level: float = LEVEL) -> TextTable:
    """One row a number: what was asked, of which attribute and which label or key, the value and its error bar.

    `low` and `high` are the ends of the interval, `reports` how many the number is from. Where `refined` is true,
    `original_value` and `original_stderr` are those before. Of ranges there is the marginal of each attribute.
    `simulated` is the same in every row: also a file without room for remarks, such as CSV, says what it is made of.
    """
    facts = ("reports", "refined", *_BEFORE, "simulated")
    columns: dict[str, list[Any]] = {name: [] for name in (*_TEXTS[1:], *_NUMBERS, *facts)}
    for question, attribute, estimate in numeric_estimates(plan, estimates):
        size = np.size(estimate.value)
        before = estimate.original
        columns["question"] += [question] * size
        columns["attribute"] += [attribute] * size
        columns["of"] += _labels(estimate)
        for name, column in zip(_NUMBERS, _numbers(estimate, level), strict=True):
            columns[name] += column.tolist()
        columns["reports"] += [estimate.n] * size
        columns["refined"] += [before is not None] * size
        unknown = [math.nan] * size
        columns["original_value"] += unknown if before is None else np.ravel(before.value).tolist()
        columns["original_stderr"] += unknown if before is None else np.ravel(before.stderr).tolist()
        columns["simulated"] += [estimates.guarantee.simulated] * size
    return TextTable(columns)


def numeric_estimates(plan: Plan, estimates: PlanEstimates) -> Iterator[tuple[str, str, Estimate]]:
    """Every estimate that holds numbers, with its question and its attribute; of ranges the marginals."""
    checked(plan, estimates)
    for question, estimate in estimates.items():
        for attribute, panel in estimate.panels().items():
            yield question, attribute or question.partition("(")[2].removesuffix(")"), panel


def checked(plan: Plan, estimates: Any) -> None:
    """Refuse estimates that do not answer this plan."""
    asked = {str(question) for question in plan.questions} if isinstance(plan, Plan) else set()
    if not asked or not isinstance(estimates, PlanEstimates) or not asked <= set(estimates):
        raise ParameterError("these are not estimates of this plan: plan.estimate(plan.tally(reports)) gives them")


def names(estimate: Estimate) -> list[str]:
    """What each number is of, to be read: a label, a cell, a key; or all users. Blank labels are in quotes."""
    return [visible(label) for label in _labels(estimate)]


def _labels(estimate: Estimate) -> list[str]:
    """The same as it is, for files."""
    if estimate.labels is None and not np.ndim(estimate.value):
        return [ALL_USERS]
    return [str(name) for name in estimate.item_names]


def _numbers(estimate: Estimate, level: float) -> tuple[Floats, ...]:
    low, high = estimate.interval(level)
    return tuple(np.ravel(part).astype(np.float64) for part in (estimate.value, estimate.stderr, low, high))


def people(plan: Plan, estimates: PlanEstimates) -> int:
    """How many users reported."""
    checked(plan, estimates)
    return plan.users_behind(list(estimates.reports.values()))


# Predicted, stated and real errors -----------------------------------------------------------------------------------


def compared(plan: Plan, estimates: PlanEstimates, truth: Mapping[str, Any] | None = None) -> TextTable:
    """For each question the error that was predicted, that the data state, and the real one where `truth` is known.

    Errors of several numbers are root mean squares. `stated` is before refining, `refined` after; `real before` and
    `real` likewise; `coverage` is the share of the 95% intervals that hold the truth. Of ranges it is the error of the
    queries that were predicted: half of the values of each of two attributes.
    """
    checked(plan, estimates)
    known = checked_truth(estimates, truth)
    rows = []
    for asked in plan.questions:
        question = str(asked)
        predicted = plan.predicted.get(question, math.nan)
        if _several(estimates, question):
            typical = estimates.ranges(*asked.names)
            rows.append((question, _queries(typical), predicted, *_typical(typical), *[math.nan] * 4))
            continue
        estimate = estimates.single(question)
        before = estimate if estimate.original is None else estimate.original
        true = known.get(question)
        rows.append(
            (
                question,
                np.size(estimate.value),
                predicted,
                rms(before.stderr),
                math.nan if estimate.original is None else rms(estimate.stderr),
                math.nan if true is None else rms(np.ravel(before.value) - true),
                math.nan if true is None else rms(np.ravel(estimate.value) - true),
                math.nan if true is None else coverage(estimate, true),
            )
        )
    columns = ("question", "numbers", "predicted", "stated", "refined", "real before", "real", "inside")
    return TextTable(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


def checked_truth(estimates: PlanEstimates, truth: Mapping[str, Any] | None) -> dict[str, Floats]:
    """For each question whose truth is known one number for each that was estimated."""
    found = {}
    for question, given in (truth or {}).items():
        estimate = estimates.get(question)
        if estimate is None:
            raise ParameterError("the truth is of a question that was not asked: name it as in mean(income)")
        if _several(estimates, question):
            raise ParameterError("of ranges no truth can be given: give queries with their truth")
        found[question] = np.ravel(np.asarray(given, dtype=np.float64))
        if found[question].size != np.size(estimate.value):
            raise ParameterError(f"{question}: the truth needs one number for each that was estimated")
    return found


def rms(errors: Any) -> float:
    """The root of the mean square of those that are known; NaN if none is.

    >>> rms([3.0, 4.0, float("inf")]) == 12.5**0.5
    True
    """
    known = np.ravel(errors)
    known = known[np.isfinite(known)]
    return float(np.sqrt(np.mean(known**2))) if known.size else math.nan


def coverage(estimate: Estimate, truth: Floats, level: float = LEVEL) -> float:
    """The share of the intervals that hold the truth, among those that are known."""
    low, high = (np.ravel(end) for end in estimate.interval(level))
    known = np.isfinite(low) & np.isfinite(high) & np.isfinite(truth)
    return float(np.mean(((low <= truth) & (truth <= high))[known])) if known.any() else math.nan


def _several(estimates: PlanEstimates, question: str) -> bool:
    """Whether a result is about several attributes."""
    return set(estimates[question].panels()) != {""}


def _queries(estimate: RangeEstimate) -> int:
    count = len(estimate.axes)
    return min(_MOST_PAIRS, math.comb(count, 2)) if count > 1 else 1


def _typical(estimate: RangeEstimate) -> tuple[float]:
    """The error of typical queries, as the data state it."""
    return (rms(typical_answers(estimate).stderr) if estimate.n else math.nan,)


def typical_answers(estimate: RangeEstimate) -> Answers:
    """The answers to queries about half of the values of each of two attributes."""
    axes = list(estimate.axes)
    chosen = combinations(axes, 2) if len(axes) > 1 else ((axis,) for axis in axes)
    return estimate.answers([{axis.name: first_half(axis) for axis in some} for some in islice(chosen, _MOST_PAIRS)])


def first_half(axis: Axis) -> list[str] | tuple[None, Any]:
    """The first half of an attribute's values, as a query names them."""
    labels = axis.side.labels
    if labels is not None:
        return list(labels[: axis.size // 2])
    return None, axis.units(axis.size // 2) if axis.continuous else axis.units(axis.size // 2 - 1)


# Files -------------------------------------------------------------------------------------------------------------


def to_dict(
    plan: Plan, estimates: PlanEstimates, level: float = LEVEL, by: GroupEstimates | None = None
) -> dict[str, Any]:
    """All estimates, ready for JSON: what is not known is None. `by` adds those of each value of a public attribute."""
    found = {**_facts(plan, estimates, level), "questions": _asked(plan, estimates, level)}
    if by is None:
        return found
    groups = {value: {"questions": _asked(plan, each, level)} for value, each in by.items()}
    return {**found, "by": {"attribute": by.name, "groups": groups}}


def _asked(plan: Plan, estimates: PlanEstimates, level: float) -> dict[str, Any]:
    """The numbers of each question."""
    table = flat_columns(plan, estimates, level).columns
    asked: dict[str, Any] = {}
    for row, (question, attribute) in enumerate(zip(table["question"], table["attribute"], strict=True)):
        own = asked.setdefault(question, {"reports": table["reports"][row], "numbers": []})
        several = _several(estimates, question)
        numbers = {name: known(table[name][row]) for name in _NUMBERS}
        before = {name: known(table[name][row]) for name in _BEFORE} if table["refined"][row] else {}
        own["numbers"].append(
            {**({"attribute": attribute} if several else {}), "of": table["of"][row], **numbers, **before}
        )
    return asked


def known(number: float) -> float | None:
    """A number, or None if it is not known."""
    return number if math.isfinite(number) else None


def _facts(plan: Plan, estimates: PlanEstimates, level: float) -> dict[str, Any]:
    """What a file says of itself."""
    from dither import __version__

    guarantee: Guarantee = estimates.guarantee
    return {
        "plan": plan.fingerprint,
        "users": people(plan, estimates),
        "simulated": guarantee.simulated,
        "guarantee": str(guarantee),
        "epsilon": known(guarantee.epsilon),
        "delta": None if guarantee.simulated else guarantee.delta,
        **({"dropped": dict(estimates.dropped)} if estimates.dropped else {}),
        "level": level,
        "version": __version__,
    }


def write_estimates(
    path: str | Path,
    plan: Plan,
    estimates: PlanEstimates,
    *,
    level: float = LEVEL,
    truth: Mapping[str, Any] | None = None,
    title: str | None = None,
    queries: Any = None,
    by: GroupEstimates | None = None,
) -> None:
    """Write all estimates to a file, by its ending: .parquet, .csv or .json for further use, .html to be read.

    `truth`, `title` and `queries` are for the page (`dither.page.html_page`). With `by`, tables have the numbers of
    each value of a public attribute, and JSON both; the page has those of all public attributes anyway.
    """
    kind = Path(path).suffix.lower()
    if kind not in KINDS:
        raise ParameterError(f"estimates are written as {', '.join(KINDS)}: name the file so, as in estimates.parquet")
    text, table = "", None
    if kind == ".html":
        from dither.page.html_page import html_page

        text = html_page(plan, estimates, truth=truth, title=title, queries=queries)
    elif kind == ".json":
        text = json.dumps(to_dict(plan, estimates, level, by), indent=1, allow_nan=False, ensure_ascii=False)
    elif kind == ".parquet":
        table = to_arrow(plan, estimates, level, by)
    with atomic_path(path) as temporary:
        if text:
            temporary.write_text(text + "\n", encoding="utf-8")
        elif table is not None:
            require("pyarrow.parquet", "fast").write_table(table, temporary)
        else:
            _write_csv(temporary, _flat(plan, estimates, level, by))


def _flat(plan: Plan, estimates: PlanEstimates, level: float, by: GroupEstimates | None) -> TextTable:
    return flat_columns(plan, estimates, level) if by is None else group_columns(plan, by, level)


def to_arrow(
    plan: Plan, estimates: PlanEstimates, level: float = LEVEL, by: GroupEstimates | None = None
) -> "pyarrow.Table":
    """The flat table for Arrow; its metadata name the plan, the guarantee and the level."""
    pa = require("pyarrow", "fast")
    kinds = {**dict.fromkeys(_TEXTS, pa.string()), "reports": pa.int64(), **dict.fromkeys(_FLAGS, pa.bool_())}
    columns = {
        name: pa.array(
            column if name in kinds else list(map(known, column)),
            kinds.get(name, pa.float64()),
        )
        for name, column in _flat(plan, estimates, level, by).columns.items()
    }
    facts = _facts(plan, estimates, level)
    told = {f"dither.{name}": fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()}
    return pa.table(columns).replace_schema_metadata(told)


def _write_csv(path: Path, table: TextTable) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        plain = csv.writer(file, lineterminator="\n")
        quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        cells = [_in_csv(name, column) for name, column in table.columns.items()]
        for row in (tuple(table.columns), *zip(*cells, strict=True)):
            writer = quoted if any("\r" in str(cell) for cell in row) else plain  # which takes it for no line break
            writer.writerow(row)


def _in_csv(name: str, column: Sequence[Any]) -> Sequence[Any]:
    """A column as CSV writes it: what is not known is empty, and no text is a formula (`display.spreadsheet`)."""
    if name in _FLAGS:
        return ["true" if entry else "false" for entry in column]
    if name in _TEXTS:
        return [spreadsheet_text(text) for text in column]
    return ["" if known(entry) is None else entry for entry in column]
