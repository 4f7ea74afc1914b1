"""The command for collections over time: estimates by round, changes between rounds, and their mean."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dither.cli.common import (
    STREAM,
    checked_output,
    facts,
    json_option,
    key_option,
    once_from_input,
    plan_argument,
    read_plan,
    read_tally,
    sealing_key,
    shell_quoted,
    show,
    tell,
    writable,
    write,
)
from dither.display.plots import check_picture, saved
from dither.display.table import TextTable
from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.core.estimate import Estimate
    from dither.planning.round_estimates import RoundEstimates

_LONG, _TOP = 12, 5  # a list of more numbers is cut to the largest few


@click.command()
@plan_argument
@click.argument("tally_files", nargs=-1, required=True, metavar="[PERIOD=]TALLY...")
@click.option("-o", "--output", metavar="FILE", help="Write all numbers of all rounds: .csv or .json.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw a line along the rounds (.png .svg .pdf).")
@key_option("Only tallies that are sealed with the key in this file.")
@json_option()
def rounds(
    plan_file: str,
    tally_files: Sequence[str],
    output: str | None,
    plot: str | None,
    key_file: str | None,
    as_json: bool,
) -> None:
    """Estimate a collection over time: each round, what changed, and the mean over rounds.

    Each TALLY is that of one round, as dither tally or dither merge wrote it. It is of the PERIOD before the sign, or
    of the one that its file is named after: W47.tally. Rounds that are not there yet are left out.

    \b
    dither rounds plan.json W47.tally W48.tally --plot rounds.png
    dither rounds plan.json W47=monday.tally W48=sunday.tally -o rounds.csv
    """
    named = _named(tally_files)
    once_from_input(plan_file, *named.values())
    as_json, output = as_json or output == STREAM, None if output == STREAM else output
    checked_output(output, [plan_file, *named.values()])
    checked_output(plot, [plan_file, *named.values()])
    check_picture(plot)
    _check_kind(output)
    writable(output, plot)
    made, key = read_plan(plan_file), sealing_key(key_file)
    periods = {period: _period(period, made.schedule.labels) for period in named}
    if len(set(periods.values())) < len(periods):
        raise ParameterError("two tallies are of the same period: merge them first, with dither merge")
    found = made.estimate_rounds({periods[period]: read_tally(path, made, key) for period, path in named.items()})
    if output:
        write(output, _written(output, found))
    if plot:
        saved(found.plot(), plot)
    if as_json:
        facts(found.to_dict())
    else:
        show(_latest(found), *([_changes(found)] if len(found) > 1 else []), found.explain())
    for what, path in (("wrote", output), ("drew", plot)):
        if path:
            tell(f"{what} {path}")
    if not (output or plot or as_json):
        given = " ".join(map(shell_quoted, tally_files))
        tell(f"next: dither rounds {shell_quoted(plan_file)} {given} --plot rounds.png -o rounds.csv")


def _named(arguments: Sequence[str]) -> dict[str, str]:
    """For each period the file of its tally."""
    named: dict[str, str] = {}
    for argument in arguments:
        period, sign, path = argument.partition("=")
        if not sign:
            period, path = Path(argument).stem, argument
        if not period or not path or period in named:
            raise click.UsageError(
                "Name each period once, as in W47=monday.tally, or a file after it, as in W47.tally."
            )
        named[period] = path
    return named


def _period(name: str, labels: Sequence[str]) -> str | int:
    """A period as the plan calls it: rounds without names have numbers."""
    return int(name) if not labels and name.isascii() and name.isdigit() else name


def _check_kind(output: str | None) -> None:
    if output is not None and Path(output).suffix.lower() not in (".csv", ".json"):
        raise ParameterError("results of rounds are written as .csv or .json: name the file so, as in rounds.csv")


def _written(output: str, found: "RoundEstimates") -> str:
    if Path(output).suffix.lower() == ".json":
        return json.dumps(found.to_dict(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    return found.to_csv()


def _latest(found: "RoundEstimates") -> TextTable:
    """For each number its mean over the rounds, and the last of them; the largest of long lists."""
    *_, last = found
    told = {name: [found.mean(name), found[last].single(name)] for name in found.comparable}
    return _side_by_side(found, told, ["mean", f"in {last}"])


def _changes(found: "RoundEstimates") -> TextTable:
    """How much each number changed from the last round but one to the last."""
    *_, before, last = found
    told = {name: [found.change(name, before, last)] for name in found.comparable}
    return _side_by_side(found, told, [f"{last} less {before}"])


def _side_by_side(found: "RoundEstimates", told: "Mapping[str, Sequence[Estimate]]", heads: Sequence[str]) -> TextTable:
    """For each question its items, with some results of each beside each other."""
    rows = [row for name, results in told.items() for row in _lines(name, found.mean(name), results)]
    named = ["question", "of"]
    for place, head in enumerate(heads):
        named += [head, "95% interval" + " " * place]  # heads of a table differ
    return TextTable(dict(zip(named, map(list, zip(*rows, strict=True)), strict=True)))


def _lines(name: str, mean: "Estimate", told: "Sequence[Estimate]") -> Iterator[tuple[str, ...]]:
    size = np.size(mean.value)
    cut = size > _LONG
    order = np.argsort(-np.ravel(mean.value), kind="stable")[:_TOP] if cut else np.arange(size)
    columns = [_texts(each, simultaneous=cut) for each in told]
    for place, item in enumerate(map(int, order)):
        cells = [text for column in columns for text in column[item]]
        yield (name if place == 0 else "", str(mean.item_names[item]), *cells)
    if cut:
        yield ("", f"and {size - len(order):,} more", *("" for _ in range(2 * len(told))))


def _texts(each: "Estimate", *, simultaneous: bool) -> list[tuple[str, str]]:
    """For each item its value and its interval, in as many digits as it has."""
    from dither.display.significant_digits import number

    columns: Any = (each.value, each.stderr, *each.interval(0.95, simultaneous=simultaneous))
    rows = zip(*(np.ravel(column).tolist() for column in columns), strict=True)
    return [
        (number(value, stderr), f"{number(low, stderr)} to {number(high, stderr)}") for value, stderr, low, high in rows
    ]
