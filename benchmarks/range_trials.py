"""One repetition of range queries on a population: users, queries, methods, and what is measured of each.

`benchmarks/range_models.py` says what the figures mean, repeats, and compares. Whatever moves a figure is here or in
`range_populations`: what was kept of other code is measured again (`code`).
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import dither
import dither.ranges
from dither.core.atomic_write import atomic_path
from dither.errors import DitherError
from dither.ranges.collection import RangeReading
from range_populations import People, Query, drawn

Floats = NDArray[np.float64]
Figures = dict[str, float]

KINDS, COUNTS, QUERIES = ("half", "quantile"), (1, 2, 3, 4, 5, 6), 30
LEVEL = 0.95
SAMPLE = 100_000
FIRST_PHASE = 4  # one user in so many
LEAST, NOISE = 4, 0.05  # repetitions at the centre, and the standard error until which there are more
_LEAST_ERROR = 1e-9


# Settings and queries ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """Everything but the population."""

    users: int = 100_000
    epsilon: float = 1.0
    d: int = 6
    c: int = 64

    def __str__(self) -> str:
        usual = Setting()
        told = {
            f"{self.users:,} users": self.users != usual.users,
            f"epsilon {self.epsilon:g}": self.epsilon != usual.epsilon,
            f"d {self.d}": self.d != usual.d,
            f"c {self.c}": self.c != usual.c,
        }
        return ", ".join(text for text, other in told.items() if other) or "centre"

    @property
    def most(self) -> int:
        """Repetitions at most."""
        return 12 if self == Setting() else 4 if self.users < 10**6 else 3

    @property
    def noise(self) -> float:
        """The standard error that is enough."""
        return NOISE if self == Setting() else 2 * NOISE


CENTRE = Setting()
SETTINGS = (
    CENTRE,
    *(replace(CENTRE, d=d) for d in (4, 10, 20)),
    *(replace(CENTRE, c=c) for c in (16, 256, 1024)),
    *(replace(CENTRE, users=users) for users in (10**4, 10**6)),
    *(replace(CENTRE, epsilon=epsilon) for epsilon in (0.5, 2.0, 4.0)),
)
QUICK = Setting(users=20_000)


def queries(people: People, kind: str, count: int, random: np.random.Generator) -> list[Query]:
    """Random queries of a kind about so many attributes each."""
    found: list[Query] = []
    for _ in range(QUERIES):
        places = np.sort(random.choice(len(people.shape), count, replace=False)).tolist()
        found.append({j: _wanted(people, kind, j, random) for j in places})
    return found


def _wanted(people: People, kind: str, j: int, random: np.random.Generator) -> tuple[int, int] | list[int]:
    """Half of the values of an attribute, or of its users."""
    size = people.shape[j]
    weights = np.ones(size) if kind == "half" else np.bincount(people.records[:, j], minlength=size).astype(float)
    if j in people.nominal:
        order = random.permutation(size)
        many = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)) + 1
        return sorted(order[: min(many, size - 1)].tolist())
    below = np.cumsum(weights) / weights.sum()
    start = random.uniform(0, 0.5)
    low, high = np.searchsorted(below, [start, start + 0.5 - 1e-9], side="right").tolist()
    return low, min(max(low, high), size - 1)


def halved(query: Query) -> tuple[Query, Query] | None:
    """The two parts of a query, divided in the middle of its first range that is wide enough."""
    for j, wanted in query.items():
        values = wanted if isinstance(wanted, list) else list(range(wanted[0], wanted[1] + 1))
        if len(values) > 1:
            middle = len(values) // 2
            return {**query, j: values[:middle]}, {**query, j: values[middle:]}
    return None


# Methods -------------------------------------------------------------------------------------------------------------

ONE_ROUND, TWO_PHASES = "Copula", "two phases"
ROUNDS = ("Copula", "HDG", "TDG", "CALM", "LHIO", "MSW")


def designed(method: str, shape: tuple[int, ...], nominal: tuple[int, ...], epsilon: float, n: int) -> Any:
    """The mechanism of a method whose users report all at once."""
    return getattr(dither.ranges, method)(shape, epsilon, n, nominal=nominal)


def _one_round(method: str) -> Callable[[People, float, int], Any]:
    def estimated(people: People, epsilon: float, seed: int) -> Any:
        made = designed(method, people.shape, people.nominal, epsilon, len(people.records))
        return made.estimate(made.tally(made.randomize(people.records, seed=seed)))

    return estimated


def _two_phases(people: People, epsilon: float, seed: int) -> Any:
    """A quarter of the users by `Copula`, the others by what these told; the estimate is from all reports."""
    n = len(people.records)
    early = n // FIRST_PHASE
    first = designed(ONE_ROUND, people.shape, people.nominal, epsilon, early)
    told = first.tally(first.randomize(people.records[:early], seed=seed))
    second = first.after(told, n - early)
    tally = second.tally(second.randomize(people.records[early:], seed=seed))
    reading: Any = RangeReading  # whose `earlier` comes with the second phase
    return second.estimate(tally, reading(second, earlier=((first, told),)))


METHODS: dict[str, Callable[[People, float, int], Any]] = {
    ONE_ROUND: _one_round(ONE_ROUND),
    TWO_PHASES: _two_phases,
    **{name: _one_round(name) for name in ROUNDS if name != ONE_ROUND},
}
TESTED = (ONE_ROUND, TWO_PHASES)
OTHERS = tuple(name for name in METHODS if name not in TESTED)


def phased() -> bool:
    """Whether a second phase can be had yet."""
    return bool(getattr(dither.ranges.Copula, "phased", False))


def methods() -> list[str]:
    """Those that can be run."""
    return [name for name in METHODS if name != TWO_PHASES or phased()]


# One repetition ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """Of one method in one repetition: figures by cell, and those of the whole."""

    error: Figures  # mean absolute
    square: Figures  # root mean square
    covered: Figures
    gap: float = math.nan
    sample: float = math.nan
    seconds: float = 0.0

    @property
    def log_error(self) -> Figures:
        """By whose means errors are compared: geometric ones."""
        return {cell: math.log(max(error, _LEAST_ERROR)) for cell, error in self.error.items()}


@dataclass(frozen=True)
class Trial:
    """The users of a repetition, and what is asked about them."""

    people: People
    epsilon: float
    number: int
    asked: Mapping[str, list[Query]]
    truth: Mapping[str, Floats]

    @classmethod
    def drawn(cls, name: str, setting: Setting, number: int) -> "Trial":
        """With the true answers."""
        people = drawn(name, number, setting.users, setting.d, setting.c)
        asked = {
            f"{kind} {count}": queries(people, kind, count, np.random.default_rng((number, count, len(kind))))
            for kind, count in product(KINDS, COUNTS)
            if count <= len(people.shape)
        }
        return cls(people, setting.epsilon, number, asked, {cell: people.truth(each) for cell, each in asked.items()})

    @property
    def check(self) -> int:
        """A number that other users or queries would not have."""
        return crc32(np.concatenate(list(self.truth.values())).astype(np.float32).tobytes())

    def run(self, method: str) -> Run:
        """Every user reports once, and all queries are answered."""
        start = time.perf_counter()
        estimate = METHODS[method](self.people, self.epsilon, self.number)
        found = Run({}, {}, {})
        for cell, asked in self.asked.items():
            answers, truth = estimate.answers(asked), self.truth[cell]
            low, high = answers.interval(LEVEL)
            off = answers.value - truth
            found.error[cell] = float(np.abs(off).mean())
            found.square[cell] = float(np.sqrt(np.mean(off**2)))
            found.covered[cell] = float(np.mean((low <= truth) & (truth <= high)))
        taken = time.perf_counter() - start
        if method in TESTED:
            return replace(found, gap=self._gap(estimate), sample=self._sample(estimate), seconds=taken)
        return replace(found, seconds=taken)

    def _several(self, *counts: int) -> list[Query]:
        return [query for asked in self.asked.values() for query in asked if len(query) in counts]

    def _gap(self, estimate: Any) -> float:
        """How far parts are from adding up to the whole."""
        parted = [(query, parts) for query in self._several(3, 4) if (parts := halved(query)) is not None]
        if not parted:
            return math.nan
        whole = estimate.answers([query for query, _ in parted]).value
        one, two = (estimate.answers([parts[side] for _, parts in parted]).value for side in (0, 1))
        return float(np.abs(whole - one - two).max())

    def _sample(self, estimate: Any) -> float:
        """How far records are from the answers, beyond the chance of drawing them."""
        asked = self._several(2, 3, 4)
        records = self.people._replace(records=estimate.sample(SAMPLE, seed=self.number))
        answers = estimate.answers(asked).value
        beyond = np.mean((records.truth(asked) - answers) ** 2) - np.mean(answers * (1 - answers)) / SAMPLE
        return math.sqrt(max(0.0, float(beyond)))


# A population in a setting -------------------------------------------------------------------------------------------


@dataclass
class Cell:
    """The repetitions of a population in a setting: runs by number and method, checks of users and queries."""

    population: str
    setting: Setting
    runs: dict[int, dict[str, Run]] = field(default_factory=dict)
    checks: dict[int, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    nominal: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """A name for files."""
        return f"{self.setting}, {self.population}"

    def ratios(self, method: str, others: Sequence[str] = OTHERS) -> Floats:
        """For each repetition the log of the error over that of the best of others, chosen on other repetitions."""
        logs = {
            name: np.array([np.mean(list(runs[name].log_error.values())) for runs in self.runs.values()])
            for name in (method, *others)
            if all(name in runs for runs in self.runs.values())
        }
        rivals = [name for name in others if name in logs]
        if method not in logs or not rivals:
            return np.array([])
        found = []
        for number in range(len(self.runs)):
            rest = [other for other in range(len(self.runs)) if other != number] or [number]
            best = min(rivals, key=lambda name: logs[name][rest].mean())
            found.append(logs[method][number] - logs[best][number])
        return np.array(found)

    def best(self) -> str:
        """The best of the other methods."""
        ran = [name for name in OTHERS if all(name in runs for runs in self.runs.values())]
        return min(ran, key=lambda name: self.mean(name, "log_error"), default="")

    def against(self, method: str, reference: Mapping[str, Any]) -> Floats:
        """For each repetition the log of the error over that of the reference, if its users and queries are those."""
        known, found = reference.get(self.key, {}), []
        for number, runs in self.runs.items():
            told = known.get(str(number))
            if told and method in runs and told["check"] == self.checks[number]:
                then = Run(told["error"], {}, {}).log_error
                found.append(np.mean([now - then[cell] for cell, now in runs[method].log_error.items()]))
        return np.array(found)

    def mean(self, method: str, what: str, cells: Callable[[str], bool] = lambda _: True) -> float:
        """The mean of some figures over repetitions and cells; NaN where there are none."""
        found = [
            value
            for runs in self.runs.values()
            if method in runs
            for cell, value in getattr(runs[method], what).items()
            if cells(cell)
        ]
        return float(np.mean(found)) if found else math.nan

    @property
    def settled(self) -> bool:
        """Whether the methods under test are known well enough."""
        if len(self.runs) < min(LEAST, self.setting.most):
            return False
        return all(
            noise(self.ratios(method)) <= self.setting.noise
            for method in TESTED
            if all(method in runs for runs in self.runs.values())
        )


def noise(logs: Floats) -> float:
    """The standard error of a mean of logs; NaN of fewer than two."""
    return float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan


def code() -> int:
    """A number that changes with the code of the methods, or of what is measured here."""
    root = Path(dither.__file__).parent
    files = [path for room in ("ranges", "estimation", "mechanisms") for path in (root / room).rglob("*.py")]
    moving = sorted(path for path in files if path.name != "error_prediction.py")
    here = [Path(__file__), Path(__file__).with_name("range_populations.py")]
    return crc32(b"".join(path.read_bytes() for path in (*moving, *here)))


def measured(name: str, setting: Setting, chosen: Sequence[str], most: int | None, folder: Path | None) -> Cell:
    """Repetitions until they are enough, those that were kept among them."""
    cell, now = Cell(name, setting), code()
    path = None if folder is None else folder / f"{cell.key.replace(', ', '-').replace(' ', '_')}.json"
    if path is not None and path.exists():
        _restore(cell, json.loads(path.read_text()), now)
    for number in range(most or setting.most):
        if most is None and cell.settled:
            break
        runs = cell.runs.get(number, {})
        wanted = [method for method in chosen if method not in runs and method not in cell.refused]
        if not wanted:
            continue
        trial = Trial.drawn(name, setting, number)
        cell.checks[number], cell.shape, cell.nominal = trial.check, trial.people.shape, trial.people.nominal
        for method in wanted:
            try:
                runs[method] = trial.run(method)
            except DitherError as error:
                cell.refused[method] = str(error)
        cell.runs[number] = runs
        if path is not None:
            with atomic_path(path) as temporary:
                temporary.write_text(json.dumps(_stored(cell, now)))
    return cell


def _stored(cell: Cell, now: int) -> dict[str, Any]:
    runs = {number: {method: vars(run) for method, run in each.items()} for number, each in cell.runs.items()}
    kept = {"checks": cell.checks, "refused": cell.refused, "shape": cell.shape, "nominal": cell.nominal}
    return {"code": now, "runs": runs, **kept}


def _restore(cell: Cell, kept: Mapping[str, Any], now: int) -> None:
    """What was kept, if it was measured with this very code."""
    if kept["code"] == now:
        cell.runs = {
            int(number): {name: Run(**run) for name, run in each.items()} for number, each in kept["runs"].items()
        }
        cell.checks = {int(number): check for number, check in kept["checks"].items()}
        cell.refused, cell.shape, cell.nominal = kept["refused"], tuple(kept["shape"]), tuple(kept["nominal"])
