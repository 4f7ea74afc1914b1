"""Sparse vectors: the comparison of paper 003 (section 8) from dither's own implementations of all contestants.

    python benchmarks/keyvalue.py                 twenty repetitions, about ten minutes on two idle cores
    python benchmarks/keyvalue.py --quick         two repetitions, for a look
    python benchmarks/keyvalue.py --json FILE     also keeps every figure
    python benchmarks/keyvalue.py --markdown      tables for the docs

**Users.** 100,000 in each repetition, all of them new: exactly s of d keys, uniformly without replacement, each with
-1 or +1. One draw of users serves all mechanisms and epsilons, so their errors are paired.

**Measures.** The total variation error (TVE) of the frequencies is the sum over the 2d items of |estimate - truth among
the users|, that of the mean the sum over the d keys. *Raw* is what the mechanism estimates. *Projected* is the nearest
point with 0 <= f <= 1 and sum f = s, which users with s keys are known to satisfy; the mean is f+ - f- then (the
post-processing of the paper, with its bound of 1 added). The largest errors (MAE) are in the JSON.

**Contestants.** Succinct and SignSum are told what is asked for: `goal="frequency"` for all but the raw mean, which is
that of `goal="mean"`. That one has no frequencies to project, so their projected mean comes from the frequencies too.
CoCo has the buckets that are best for the mean, also where its frequencies are judged.

**A warning.** The users of the paper are uniform: all items are as frequent, and all means nearly 0. Who ignores the
reports and says s/2d and 0 is closer than any mechanism here, and what pulls estimates towards that looks good. So
judge mechanisms by their raw errors, which hardly depend on the users. The projected mean of CoCo is an example: its
frequencies are so noisy for a small epsilon that the projection sets most means to 0.

**Predicted.** Given the users an estimate is a sum of independent reports, so its error is nearly normal, and its
variance follows exactly from the law of a report: the TVE is sqrt(2/pi) times the sum of the standard deviations.
PrivKV reads a key from a random number of reports N, and E[N^-1/2] exceeds E[N]^-1/2 by a share of 3 / (8 E[N]).

**Noise.** The +- beside a ratio is one standard error over repetitions, paired; *beyond noise* is more than three of
them. Whether errors are as predicted is judged twice: for each mechanism over all cells together (four standard
errors, or the .3% up to which a sum of few hits may differ from a normal one), and for every cell by itself, with a
threshold that the noise of the whole table crosses once in 10,000 runs.

**Speed.** Each core runs repetitions of its own, in a process with one thread. Users are checked once for each draw;
`Mechanism.drawn` then is `randomize` without the check. The speed of `randomize` itself is measured apart.
"""

import json
import math
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from scipy.stats import t as student

from dither.core.mechanism import Mechanism
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.core.sparse_domain import Sparse, row_dtype
from dither.display.table import TextTable
from dither.estimation.simplex import onto_simplex
from dither.mechanisms import registry
from dither.mechanisms.keyvalue import KeyValues
from figures import markdown_table, short
from measure import Machine, memory_now, memory_peak, repeated, seconds

Numbers = NDArray[np.float64]
Part = tuple[str, "str | TextTable"]

USERS, LEAST, REPEATED = 100_000, 10_000, 20  # with fewer, PrivKV asks nobody about some key
DIMENSIONS, SPARSITIES = (256, 512), (4, 8, 16, 32)
EPSILONS = (0.001, 0.01, 0.1, 0.2, 0.4, 0.8, 1.0, 1.5, 2.0)
SIZES = tuple(product(DIMENSIONS, SPARSITIES))
RUNS: dict[str, dict[str, str]] = {
    "Collision": {},
    "CoCo": {},
    "PrivKV": {},
    "PCKV_UE": {},
    "PCKV_GRR": {},
    "PCKV_AGRR": {},
    "Succinct": {"goal": "frequency"},
    "SignSum": {"goal": "frequency"},
    "Succinct, mean": {"goal": "mean"},
    "SignSum, mean": {"goal": "mean"},
}
MECHANISMS = tuple(name for name in RUNS if "," not in name)
PAPER = ("PrivKV", "PCKV_UE", "PCKV_GRR", "PCKV_AGRR", "Succinct")  # whom Collision is compared with
BEATEN = ("PrivKV", "PCKV_UE", "PCKV_GRR")
MEASURES = ("frequency", "mean", "frequency, projected", "mean, projected")
FIELDS = (*MEASURES, *(f"MAE {name}" for name in MEASURES), "predicted frequency", "predicted mean", "draw", "tally")
BEYOND, POOLED, NORMAL, ALARM = 3.0, 4.0, 0.003, 1e-4
SPEED_SIZE, SPEED_EPSILON, FAST = (256, 8), 1.0, 2e6
COUNTS = (10**5, 10**6, 4 * 10**6)  # reports, for the memory of a tally
COMPARED = {
    "mean": (("CoCo", "Collision"), ("SignSum", "CoCo"), ("Succinct", "Collision"), ("PCKV_AGRR", "Collision")),
    "frequency": (
        ("CoCo", "Collision"),
        ("SignSum", "Collision"),
        ("Succinct", "Collision"),
        ("PCKV_AGRR", "Collision"),
    ),
}
PILOT, MOST_SECONDS, WIDTH = 10**6, 15 * 60, 120


# Users -----------------------------------------------------------------------------------------------------------


class People(NamedTuple):
    """Users, and for each key the shares of those who lack it, have it with -, have it with +."""

    rows: NDArray
    shares: Numbers

    @property
    def frequency(self) -> Numbers:
        """Of the 2d items, as estimates have it: a row a key."""
        return self.shares[:, 1:]

    @property
    def mean(self) -> Numbers:
        """Of the d keys."""
        return self.shares[:, 2] - self.shares[:, 1]

    @classmethod
    def drawn(cls, d: int, s: int, users: int, number: int) -> "People":
        """Users with s of d keys, uniformly, and signs."""
        random = np.random.default_rng((2026, d, s, number))
        keys = subsets(random, d, s, users)
        plus = random.integers(0, 2, (users, s), dtype=np.int8)
        rows = np.empty(users, dtype=row_dtype(s))
        rows["key"], rows["value"] = keys, 2.0 * plus - 1
        counts = np.bincount((2 * rows["key"] + plus).reshape(-1), minlength=2 * d).reshape(d, 2) / users
        return cls(Sparse(d, s).check(rows), np.column_stack([1 - counts.sum(axis=1), counts]))


def subsets(random: np.random.Generator, d: int, s: int, count: int) -> NDArray[np.int16]:
    """In each row a uniform set of s numbers below d, by Floyd's algorithm for all rows at once.

    >>> np.unique(np.sort(subsets(np.random.default_rng(1), 3, 2, 99), axis=1), axis=0).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    found = np.empty((s, count), dtype=np.int16)
    for place, last in enumerate(range(d - s, d)):
        drawn = random.integers(0, last, count, dtype=np.int16, endpoint=True)
        found[place] = np.where((found[:place] == drawn).any(axis=0), last, drawn)
    return found.T


# One repetition --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def contestants(d: int, s: int, epsilons: tuple[float, ...]) -> dict[str, list[Mechanism]]:
    """For each run a mechanism for each epsilon."""
    return {
        run: [registry[run.partition(",")[0]](d=d, s=s, epsilon=epsilon, **goal) for epsilon in epsilons]  # type: ignore[call-arg]
        for run, goal in RUNS.items()
    }


class Task(NamedTuple):
    """One draw of users, for all mechanisms."""

    d: int
    s: int
    number: int
    users: int = USERS
    epsilons: tuple[float, ...] = EPSILONS


def repetition(task: Task) -> Numbers:
    """The figures of one draw of users: for each run and epsilon one of each of FIELDS."""
    d, s, number, users, epsilons = task
    people = People.drawn(d, s, users, number)
    made = contestants(d, s, epsilons)
    return np.array([[figures(each, people, number) for each in made[run]] for run in RUNS])


def timed(task: Task) -> float:
    """The seconds of a repetition; loops are compiled before."""
    repetition(task._replace(users=LEAST))
    return seconds(lambda: repetition(task))


def figures(mechanism: Mechanism, people: People, seed: int) -> list[float]:
    """What came out for one mechanism; NaN for what it does not estimate."""
    begin = time.perf_counter()
    rows = mechanism.drawn(people.rows, Stream.seeded(seed, mechanism.fingerprint))
    middle = time.perf_counter()
    tally = mechanism.tally(Reports.wrap(rows, mechanism.fingerprint, simulated=True))
    end = time.perf_counter()
    found = mechanism.estimate(tally)
    apart = {"mean": found["mean"].value - people.mean}
    if "frequency" in found:
        raw = found["frequency"].value
        near = onto_simplex(raw.reshape(-1), float(people.rows["key"].shape[1]), cap=1.0).reshape(raw.shape)
        apart["frequency"] = raw - people.frequency
        apart["frequency, projected"] = near - people.frequency
        apart["mean, projected"] = near[:, 1] - near[:, 0] - people.mean
    sizes = {name: np.abs(each) for name, each in apart.items()}
    unknown = np.full(1, np.nan)
    errors = [sizes.get(name, unknown) for name in MEASURES]
    expected = [predicted(mechanism, people, name) for name in ("frequency", "mean")]
    return [*(e.sum() for e in errors), *(e.max() for e in errors), *expected, middle - begin, end - middle]


def predicted(mechanism: Mechanism, people: People, measure: str) -> float:
    """The expected TVE, from the law of a report and what the users have."""
    reading = mechanism.reading
    assert isinstance(reading, KeyValues)
    law, names = reading.law, ("minus", "plus") if measure == "frequency" else (measure,)
    if names[0] not in law.scores:
        return math.nan
    reports = law.asked * len(people.rows)
    total = 0.0
    for name in names:
        mean = law.chance @ law.scores[name]
        variance = people.shares @ (law.chance @ law.scores[name] ** 2 - mean**2)
        between = people.shares @ mean**2 - (people.shares @ mean) ** 2  # those asked differ from all
        total += np.sqrt((variance + (1 - law.asked) * between) / reports).sum()
    return float(math.sqrt(2 / math.pi) * total * (1 + 3 / 8 * (1 - law.asked) / reports))


# All of them -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """A ratio of errors in every cell, of means over repetitions, with its paired standard error."""

    value: Numbers
    error: Numbers

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """Where it differs from one by more than noise."""
        return np.abs(self.value - 1) > BEYOND * self.error

    def mean(self, axis: int | None = None) -> tuple[Numbers, Numbers]:
        """Over cells, with its standard error: noise is drawn anew in every cell."""
        count = self.value.size if axis is None else self.value.shape[axis]
        return np.mean(self.value, axis=axis), np.sqrt(np.sum(self.error**2, axis=axis)) / count


def run_of(mechanism: str, measure: str) -> str:
    """The run that a mechanism's figure is taken from."""
    special = f"{mechanism}, mean"
    return special if measure.endswith("mean") and special in RUNS else mechanism


@dataclass(frozen=True, eq=False)
class Results:
    """All figures, by (size, repetition, run, epsilon, field)."""

    users: int
    figures: Numbers

    @property
    def repeated(self) -> int:
        """Draws of users of each size."""
        return self.figures.shape[1]

    @property
    def title(self) -> str:
        """What was measured."""
        return f"{self.users:,} users with s of d keys, {self.repeated} repetitions"

    def of(self, mechanism: str, measure: str) -> Numbers:
        """One field of a mechanism, by (size, epsilon, repetition)."""
        return self.run(run_of(mechanism, measure), measure)

    def run(self, run: str, field: str) -> Numbers:
        """One field of a run, by (size, epsilon, repetition)."""
        return np.moveaxis(self.figures[:, :, list(RUNS).index(run), :, FIELDS.index(field)], 1, 2)

    def ratio(self, one: str, other: str, measure: str) -> Ratio:
        """The error of one mechanism to that of another."""
        mine, yours = self.of(one, measure), self.of(other, measure)
        value = mine.mean(axis=2) / yours.mean(axis=2)
        apart = mine - value[:, :, None] * yours
        return Ratio(value, apart.std(axis=2, ddof=1) / math.sqrt(self.repeated) / yours.mean(axis=2))

    def expected(self, one: str, other: str, measure: str) -> Numbers:
        """The same ratio as it is predicted."""
        mine, yours = (self.of(name, f"predicted {measure}").mean(axis=2) for name in (one, other))
        return mine / yours

    # Tables ------------------------------------------------------------------------------------------------------

    def errors(self, d: int, measure: str) -> TextTable:
        """A row for each s and epsilon, a column for each mechanism; the smallest error is marked."""
        lines = []
        for place, (_, s) in enumerate(SIZES):
            if SIZES[place][0] != d:
                continue
            for at, epsilon in enumerate(EPSILONS):
                found = [float(self.of(name, measure)[place, at].mean()) for name in MECHANISMS]
                cells = [f"{value:.4g}" + ("*" if value == min(found) else " ") for value in found]
                lines.append({"s": str(s), "epsilon": f"{epsilon:g}"} | dict(zip(MECHANISMS, cells, strict=True)))
        return flush(lines)

    def times(self) -> TextTable:
        """Milliseconds of one thread."""
        lines = []
        for run in RUNS:
            draw, tally = (1000 * np.median(self.run(run, field), axis=(1, 2)) for field in ("draw", "tally"))
            cells = (f"{a:.0f} + {b:.0f}" for a, b in zip(draw, tally, strict=True))
            lines.append({"run": run} | dict(zip((f"{d}, {s}" for d, s in SIZES), cells, strict=True)))
        return flush(lines)

    @cached_property
    def checks(self) -> list["Check"]:
        """For each run and statistic, whether errors are as predicted."""
        found = (
            Check(run, name, self.run(run, name) / self.run(run, f"predicted {name}"))
            for run, name in product(RUNS, ("frequency", "mean"))
        )
        return [each for each in found if not np.isnan(each.ratios).any()]

    def by_epsilon(self, measure: str) -> TextTable:
        """Averages over d and s of some ratios, measured and predicted."""
        lines = [{"epsilon": f"{epsilon:g}"} for epsilon in EPSILONS]
        for one, other in COMPARED[measure]:
            value, error = self.ratio(one, other, measure).mean(axis=0)
            expected = self.expected(one, other, measure).mean(axis=0)
            for line, a, b, c in zip(lines, value, error, expected, strict=True):
                line[f"{one}/{other}"] = f"{a:.3f} ± {b:.3f} ({c:.3f})"
        return flush(lines)


@dataclass(frozen=True, eq=False)
class Check:
    """Measured to predicted error of one run, by (size, epsilon, repetition)."""

    run: str
    measure: str
    ratios: Numbers

    @property
    def pooled(self) -> tuple[float, float]:
        """Over all cells, with its standard error."""
        cells = self.ratios.std(axis=2, ddof=1) / math.sqrt(self.ratios.shape[2])
        return float(self.ratios.mean()), float(np.sqrt((cells**2).sum()) / cells.size)

    @property
    def scores(self) -> Numbers:
        """How many standard errors each cell is off; the spread is that of all epsilons of a size."""
        spread = np.sqrt(self.ratios.var(axis=2, ddof=1).mean(axis=1))[:, None]
        return (self.ratios.mean(axis=2) - 1) * math.sqrt(self.ratios.shape[2]) / spread

    @property
    def worst(self) -> str:
        """The cell that is furthest off."""
        at, which = np.unravel_index(np.argmax(np.abs(self.scores)), self.scores.shape)
        d, s = SIZES[at]
        return f"{self.scores[at, which]:+.1f} se at d={d} s={s} epsilon={EPSILONS[which]:g}"

    def fine(self, cells: int) -> bool:
        """Within noise, together and cell by cell, if so many cells are looked at."""
        value, error = self.pooled
        freedom = self.ratios.shape[1] * (self.ratios.shape[2] - 1)
        furthest = float(student.isf(ALARM / cells / 2, freedom))
        return abs(value - 1) <= max(POOLED * error, NORMAL) and float(np.abs(self.scores).max()) <= furthest

    def row(self, cells: int) -> dict[str, str]:
        """As text, by column."""
        value, error = self.pooled
        return {
            "run": self.run,
            "of": self.measure,
            "measured / predicted": f"{value:.4f} ± {error:.4f}",
            "furthest cell": self.worst,
            "verdict": "within noise" if self.fine(cells) else "OFF",
        }


def flush(lines: Sequence[Mapping[str, str]]) -> TextTable:
    """A table of text, all but the first column flush right."""
    columns = {name: [line[name] for line in lines] for name in lines[0]}
    first = next(iter(columns))
    widths = {name: max(map(len, column)) for name, column in columns.items()}
    return TextTable(
        {
            name if name == first else name.rjust(widths[name]): [
                text.ljust(widths[name]) if name == first else text.rjust(max(len(name), widths[name]))
                for text in column
            ]
            for name, column in columns.items()
        }
    )


# What was asked for ----------------------------------------------------------------------------------------------


def summary(results: Results) -> Iterator[str]:
    """The claims of the paper and what became of them."""
    for measure in ("frequency", "frequency, projected"):
        yield from _below(results, "Collision", PAPER, measure, "; asked: everywhere")
    yield from _below(results, "Collision", ("CoCo", "SignSum"), "frequency")
    for measure in ("frequency", "frequency, projected"):
        yield _reduction(results, measure)
    yield _against(results, "CoCo", "Collision", "mean", most=0.88)
    yield _against(results, "CoCo", "Collision", "mean, projected")
    for measure in (*MEASURES, *(f"MAE {name}" for name in MEASURES)):
        yield _against(results, "Succinct", "Collision", measure)
    yield _against(results, "SignSum", "CoCo", "mean")
    yield from _below(results, "SignSum", ("CoCo",), "mean")
    ends = [(SIZES[at], *guess(*SIZES[at], results.users)) for at in (0, -1)]
    told = ", ".join(f"{a:.3g} and {b:.3g} at d={d} s={s}" for (d, s), a, b in ends)
    yield f"TVE of who ignores the reports and says s/2d and 0 (frequency and mean; users are uniform): {told}."
    cells = sum(check.scores.size for check in results.checks)
    off = [f"{check.run}, {check.measure}" for check in results.checks if not check.fine(cells)]
    value = np.mean([check.pooled[0] for check in results.checks])
    told = f"not so: {'; '.join(off)}" if off else f"all {len(results.checks)} runs and {cells:,} cells"
    yield f"Errors are the predicted ones, within noise: {told}; measured / predicted is {value:.4f} on average."


def _below(results: Results, who: str, others: Sequence[str], measure: str, asked: str = "") -> Iterator[str]:
    """The cells in which somebody else is not beaten."""
    ratios = {other: results.ratio(who, other, measure) for other in others}
    missed = np.any([ratio.value >= 1 for ratio in ratios.values()], axis=0)
    surely = np.any([(ratio.value >= 1) & ratio.beyond for ratio in ratios.values()], axis=0)
    yield (
        f"{who} below {', '.join(others)} ({measure} TVE{asked}): in {(~missed).sum()} of {missed.size} "
        f"cells; not in {missed.sum()}, of which {surely.sum()} beyond noise (!)."
    )
    for other, ratio in ratios.items():
        for (d, s), value, error, beyond in zip(SIZES, ratio.value, ratio.error, ratio.beyond, strict=True):
            cells = [
                f"{EPSILONS[at]:g}: {value[at]:.3f} ± {error[at]:.3f}{'!' if beyond[at] else ''}"
                for at in np.flatnonzero(value >= 1)
            ]
            for begin in range(0, len(cells), 4):
                yield f"    {f'{who}/{other} d={d} s={s}':<36} {'  '.join(cells[begin : begin + 4])}"


def _reduction(results: Results, measure: str) -> str:
    ratios = [results.ratio("Collision", other, measure) for other in BEATEN]
    each = ", ".join(f"{1 - ratio.mean()[0]:.1%} against {other}" for other, ratio in zip(BEATEN, ratios, strict=True))
    every = np.mean([ratio.value for ratio in ratios])
    verdict = "met" if every <= 0.4 else "not met"
    return f"Collision's average reduction ({measure} TVE; asked: 60% on average): {1 - every:.1%}, {verdict}; {each}."


def _against(results: Results, one: str, other: str, measure: str, most: float | None = None) -> str:
    """The average ratio; `most` is asked for."""
    ratio = results.ratio(one, other, measure)
    value, error = ratio.mean()
    kind = measure if measure.startswith("MAE") else f"{measure} TVE"
    asked = "" if most is None else f"; asked: {most - 1:+.0%}"
    text = f"{one} against {other} ({kind}{asked}): {value - 1:+.1%} ± {error:.1%} on average"
    if most is not None:
        text += ", met" if value <= most else ", not met"
    if measure in ("frequency", "mean"):
        text += f" (predicted {results.expected(one, other, measure).mean() - 1:+.1%})"
    small, large = (ratio.value[:, part].mean() for part in (slice(0, 5), slice(5, None)))
    return f"{text}; {small - 1:+.1%} up to epsilon {EPSILONS[4]:g}, {large - 1:+.1%} above."


def guess(d: int, s: int, users: int) -> tuple[float, float]:
    """The TVE of frequency and mean of who says that all items are equally frequent: how far the users happen to be."""
    share = s / (2 * d)
    spread = np.sqrt(np.array([2 * d * 2 * d * share * (1 - share), d * d * 2 * share]) / users)
    frequency, mean = math.sqrt(2 / math.pi) * spread
    return float(frequency), float(mean)


# Speed and memory ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Speed:
    """Vectors a second of `randomize`, and of `drawn`, which is that without the check of the vectors."""

    run: str
    randomize: float
    drawn: float

    def row(self) -> dict[str, str]:
        """As text, by column."""
        asked = f">= {short(FAST)}" if self.run in ("Collision", "CoCo") else ""
        verdict = ("met" if self.randomize >= FAST else "not met") if asked else ""
        return {
            "mechanism": self.run,
            "randomize": short(self.randomize),
            "without the check": short(self.drawn),
            "asked": asked,
            "verdict": verdict,
        }


def speeds(users: int) -> list[Speed]:
    """With secure randomness and all cores."""
    d, s = SPEED_SIZE
    rows = People.drawn(d, s, users, 0).rows
    found = []
    for run in MECHANISMS:
        (mechanism,) = contestants(d, s, (SPEED_EPSILON,))[run]
        mechanism.randomize(rows[:1000])
        whole = repeated(partial(mechanism.randomize, rows), enough=1.0)
        bare = repeated(lambda: mechanism.drawn(rows, Stream.secure()), enough=1.0)  # noqa: B023
        found.append(Speed(run, users / whole, users / bare))
    return found


def tally_memory(run: str, reports: int) -> int:
    """Bytes that a tally needs beyond its reports; to be called in a new process."""
    d, s = SPEED_SIZE
    (mechanism,) = contestants(d, s, (SPEED_EPSILON,))[run]
    block = np.asarray(mechanism.randomize(People.drawn(d, s, 1000, 0).rows))
    mechanism.tally(block)
    rows = np.empty(reports, dtype=mechanism.dtype)
    for at in range(0, reports, len(block)):
        rows[at : at + len(block)] = block[: reports - at]
    _forget_peak()
    before = memory_now()
    mechanism.tally(rows)
    return max(0, memory_peak() - before)


def _forget_peak() -> None:
    """Set the kernel's high-water mark to what is in memory now; where that cannot be, the mark is an upper bound."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def memories() -> dict[str, list[float]]:
    """MB of tallies of few and many reports, each in a process of its own."""
    found: dict[str, list[float]] = {run: [] for run in ("Collision", "CoCo", "PCKV_UE", "SignSum")}
    for run, reports in product(found, COUNTS):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found[run].append(pool.submit(tally_memory, run, reports).result() / 1e6)
    return found


# The whole -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Report:
    """All that was found."""

    machine: Machine
    results: Results
    speeds: Sequence[Speed]
    memory: Mapping[str, Sequence[float]]
    largest: float  # MB, of the processes that ran repetitions
    busy: float  # seconds that a core worked for them
    seconds: float
    load: float

    def parts(self) -> Iterator[Part]:
        """Headings, lines and tables in order."""
        yield "line", f"{self.machine}; load {self.load:.1f} at the end"
        yield "line", f"{self.results.title}; * is the smallest error of a row"
        for d, measure in product(DIMENSIONS, MEASURES):
            yield "heading", f"d = {d}, TVE of {measure}{'' if 'projected' in measure else ', raw'}"
            yield "table", self.results.errors(d, measure)
        for measure in COMPARED:
            yield (
                "heading",
                f"TVE of {measure}, raw: ratios, measured ± standard error (predicted), averages over d and s",
            )
            yield "table", self.results.by_epsilon(measure)
        checks = self.results.checks
        cells = sum(check.scores.size for check in checks)
        yield "heading", "Measured errors against predicted ones"
        yield "table", flush([check.row(cells) for check in checks])
        yield "heading", f"Milliseconds for {self.results.users:,} users on one thread, drawing + tallying, by d, s"
        yield "table", self.results.times()
        d, s = SPEED_SIZE
        yield "heading", f"Vectors a second with all cores, d={d}, s={s}, epsilon={SPEED_EPSILON:g}, secure randomness"
        yield "table", flush([each.row() for each in self.speeds])
        yield "heading", "Peak memory of a tally beyond its reports"
        names = [f"{short(reports)} reports, MB" for reports in COUNTS]
        rows = ((run, (f"{each:.1f}" for each in found)) for run, found in self.memory.items())
        yield "table", flush([{"mechanism": run} | dict(zip(names, cells, strict=True)) for run, cells in rows])
        yield "heading", "Summary"
        for line in self.summary:
            yield "line", line

    @cached_property
    def summary(self) -> list[str]:
        """What was asked for and what was measured."""
        fast = {each.run: each for each in self.speeds}
        told = ", ".join(
            f"{name} {short(fast[name].randomize)} ({short(fast[name].drawn)} without the check of the vectors)"
            for name in ("Collision", "CoCo")
        )
        flat = ", ".join(
            f"{name} {' / '.join(f'{each:.0f}' for each in self.memory[name])} MB" for name in ("Collision", "CoCo")
        )
        whole = self.results.repeated >= REPEATED and self.results.users >= USERS
        verdict = ("met" if self.seconds < MOST_SECONDS else "not met") if whole else "but this is a part of it"
        return [
            *summary(self.results),
            f"randomize, vectors a second at d={SPEED_SIZE[0]}, s={SPEED_SIZE[1]} (asked: {short(FAST)}): {told}.",
            f"Peak memory of a tally, {' / '.join(map(short, COUNTS))} reports (asked: flat): {flat}.",
            f"The whole took {self.seconds / 60:.1f} minutes (asked: 15 on two idle cores), {verdict}; the repetitions "
            f"kept each core busy for {self.busy / 60:.1f}; a process that runs them needs {self.largest:.0f} MB.",
        ]

    def text(self) -> str:
        """For a terminal."""
        written: dict[str, Callable[[Any], str]] = {
            "heading": lambda part: f"\n{part}",
            "line": lambda part: fill(part, WIDTH, subsequent_indent="    "),
            "table": str,
        }
        return "\n".join(written[kind](part) for kind, part in self.parts())

    def markdown(self) -> str:
        """For a page."""
        written: dict[str, Callable[[Any], str]] = {
            "heading": lambda part: f"\n### {part}\n",
            "line": lambda part: f"  - {part.strip()}" if part.startswith(" ") else f"- {part}",
            "table": markdown_table,
        }
        return "\n".join(written[kind](part) for kind, part in self.parts())

    def json(self) -> str:
        """Every figure: for each cell and run the mean over repetitions and its standard error."""
        found = self.results
        cells = []
        for (place, (d, s)), run, (at, epsilon) in product(enumerate(SIZES), RUNS, enumerate(EPSILONS)):
            cell: dict[str, Any] = {"d": d, "s": s, "epsilon": epsilon, "run": run}
            for field in FIELDS:
                each = found.run(run, field)[place, at]
                if not np.isnan(each).any():
                    error = float(each.std(ddof=1)) / math.sqrt(len(each))
                    cell[field] = {"mean": float(each.mean()), "stderr": error}
            cells.append(cell)
        whole = {"machine": str(self.machine), "users": found.users, "repetitions": found.repeated}
        return json.dumps(whole | {"seconds": self.seconds, "cells": cells, "summary": self.summary}, indent=1)


def everything(users: int, count: int, console: Console) -> Report:
    """All repetitions, as many at once as there are cores."""
    start, machine = time.perf_counter(), Machine.here(("numpy", "numba"))
    os.environ["DITHER_THREADS"] = "1"  # of the processes
    columns = TextColumn("{task.description:<28}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with (
        ProcessPoolExecutor(machine.cores, mp_context=get_context("spawn")) as pool,
        Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar,
    ):
        step = bar.add_task("how long it will take", total=None)
        costs = dict(zip(SIZES, pool.map(timed, [Task(*size, PILOT, users, (1.0,)) for size in SIZES]), strict=True))
        total = len(EPSILONS) * count * sum(costs.values())
        console.print(f"about {total / machine.cores / 60 + 1:.0f} minutes for {len(SIZES) * count} draws of users")
        bar.update(step, description="draws of users", total=total)
        tasks = [Task(*size, number, users) for size in reversed(SIZES) for number in range(count)]
        jobs = {pool.submit(repetition, task): task for task in tasks}
        found: dict[tuple[int, int], dict[int, Numbers]] = {size: {} for size in SIZES}
        for job in as_completed(jobs):
            task = jobs[job]
            found[task.d, task.s][task.number] = job.result()
            bar.advance(step, len(EPSILONS) * costs[task.d, task.s])
    del os.environ["DITHER_THREADS"]
    table = np.array([[found[size][number] for number in range(count)] for size in SIZES])
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    largest, busy = spent.ru_maxrss / 1024, (spent.ru_utime + spent.ru_stime) / machine.cores
    console.print("speed and memory")
    fast, memory = speeds(users), memories()
    took = time.perf_counter() - start
    return Report(machine, Results(users, table), fast, memory, largest, busy, took, os.getloadavg()[0])


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="Two repetitions, for a look.")
@click.option("--repetitions", type=click.IntRange(2), help=f"Draws of users of each size.  [default: {REPEATED}]")
@click.option("--users", type=click.IntRange(LEAST), default=USERS, show_default=True)
@click.option("--json", "keep", type=click.Path(dir_okay=False, path_type=Path), help="Write every figure to a file.")
@click.option("--markdown", is_flag=True, help="Print Markdown, for a page.")
def main(quick: bool, repetitions: int | None, users: int, keep: Path | None, markdown: bool) -> None:
    """Measure and print."""
    report = everything(users, repetitions or (2 if quick else REPEATED), Console(stderr=True))
    click.echo(report.markdown() if markdown else report.text())
    if keep:
        keep.write_text(report.json())


if __name__ == "__main__":
    main()
