"""Whether intervals keep their word: 95% for every item, in populations that are easy and in awkward ones.

    python benchmarks/calibration.py               about an hour on two cores
    python benchmarks/calibration.py --quick       a smoke test
    python benchmarks/calibration.py --only keys   one group, or one population
    python benchmarks/calibration.py --write       also puts the tables into docs/calibration.md
    python benchmarks/calibration.py --keep DIR    keeps each cell in a file, and goes on where it was stopped

**Cells.** A cell is a population, a question, an epsilon and a number of users; the mechanism is the one that the
planner chooses for these. Users are fixed, what is repeated is the randomness of the reports, from seeds that are fixed
by cell. Tallies are drawn from the counts of users at once (`tally_laws`): *exact* is the law of the
reports itself, *normal* has its mean and covariance, *run* randomizes every report.

**Coverage.** What is judged is the interval before it is widened to hold the refined point, which can only help. *Far*
is the tenth of the items that is farthest from the median of all, *top 5* are the five largest in truth, *shown 5* the
five largest that a reader sees, with simultaneous intervals; *at once* is the share of collections in which all
simultaneous intervals hold. *Below 85%* is the share of collections in which fewer of the intervals hold.

**Width**, as ratios of means over items and collections: to *raw* (y -+ z s), to raw that is *cut* to the domain, and
to the *floor*, the least that an interval which holds everywhere can have at the truth (Pratt's bound, with the
domain). *Widest* is the largest ratio to raw of any interval, *widened* the mean after the refined point is inside.
*Time* is that of finding and stating the intervals beside the refinement itself, of a processor, in a few collections.

**Claims.** Not significantly below 94% on average and 93% for the far tenth, for the top five, for all at once and for
any single item, with a false-alarm probability of 1e-3 over the whole run (Bonferroni): by the normal law of the means
of collections, and by exact binomial tails for single items and for all at once. Ranges are measured and not judged.
"""

import math
import multiprocessing
import os
import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import click
import numpy as np
from numpy.typing import NDArray

import populations
from dither import Categorical, KeyValue, LocalHash, Numeric, Ordinal, Personalised, Schema, SquareWave, plan
from dither.core.atomic_write import atomic_path
from dither.core.confidence import LearnedIntervals, beyond, plain_ends
from dither.core.estimate import MEAN, Bounds, Estimate
from dither.core.guarantee import NO_GUARANTEE
from dither.core.mechanism import Collection
from dither.core.parallel import small_matrices
from dither.display.progress import progress
from dither.display.table import TextTable
from dither.errors import BudgetWarning, HarmWarning, require
from dither.mechanisms import LGRR
from dither.ranges import Copula
from dither.refine import auto, smooth
from dither.refine.marginals import LEAST, from_neighbours, from_others
from figures import markdown_table, write_section
from measure import Machine
from populations import Population
from tally_laws import CategoryLaw, KeyLaw, SignLaw

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator], Mapping[str, Estimate]]

PAGE = Path(__file__).parent.parent / "docs" / "calibration.md"
MISS, ALARM = 0.05, 1e-3
ASKED = {"average": 0.94, "far": 0.93, "top 5": 0.93, "at once": 0.93, "any item": 0.93}
FAST, SLOW, RUN, REFINED = 2000, 200, 1000, 8  # draws of a cell
MANY = 1200  # items, from which on fewer draws have to do
WIDEST = 1.35
UNJUDGED = {"ranges": "part of the error bar is an estimate of what had to be guessed"}
_MADE = ((0.5, 1_000_000), (1.0, 100_000), (4.0, 10_000))  # of populations that are made up
_REAL = ((0.5, 1_000_000), (1.0, 100_000), (2.0, 10_000), (4.0, 100_000))
_FEW = ((1.0, 100_000), (2.0, 10_000), (4.0, 100_000))  # where the mechanism runs: no million users


# Cells ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """What is asked of whom, with which budget, and how often it is tried."""

    group: str
    population: str
    epsilon: float
    users: int

    @property
    def seed(self) -> int:
        """Fixed by the cell alone."""
        return crc32(repr((self.group, self.population, self.epsilon, self.users)).encode())


@dataclass(frozen=True, eq=False)
class Setting:
    """How a cell is drawn, what is true, and how the intervals of each question are found."""

    population: str
    mechanism: str
    draw: Draw
    truth: Mapping[str, Floats]
    rules: Mapping[str, str]  # from others, from neighbours, or as stated
    how: str
    draws: int
    real: bool = False


def cells() -> Iterator[Cell]:
    """All of them."""
    for group, (found, settings, _) in GROUPS.items():
        for name in found:
            for epsilon, users in settings or (_REAL if name in populations.REAL else _MADE):
                yield Cell(group, name, epsilon, users)


def _drawn(law: CategoryLaw, question: str) -> Draw:
    return lambda random: {question: law.mechanism.estimate(law.draw(random))}


def histogram(cell: Cell, people: Population) -> Setting:
    """Labels without an order."""
    schema = Schema({"a": Categorical([str(place) for place in range(people.shares.size)])})
    return _shares(cell, people, schema, "histogram", "others")


def distribution(cell: Cell, people: Population) -> Setting:
    """Whole numbers."""
    return _shares(cell, people, Schema({"a": Ordinal(0, people.shares.size - 1)}), "distribution", "neighbours")


def _shares(cell: Cell, people: Population, schema: Schema, question: str, rule: str) -> Setting:
    (part,) = plan(schema, cell.epsilon, users=cell.users, ask=[f"{question}(a)"]).parts
    law = CategoryLaw(part.mechanism, people.held(cell.users))
    draws = SLOW if rule == "neighbours" else FAST if law.held.size <= MANY else FAST // 4
    truth = {question: law.held / law.n}
    how = "exact" if law.exact else "normal"
    return Setting(people.name, _name(part), _drawn(law, question), truth, {question: rule}, how, draws, people.real)


def means(cell: Cell, people: Population) -> Setting:
    """Means of many attributes, refined together."""
    assert people.values is not None
    d = people.values.shape[1]
    schema = Schema({f"a{place}": Numeric(-1, 1) for place in range(d)})
    made = plan(schema, cell.epsilon, users=cell.users, ask=[f"mean(a{place})" for place in range(d)])
    held, laws, order = people.held(cell.users), [], []
    for part, share in zip(made.parts, made.shares, strict=True):
        columns = [int(column.name.removeprefix("a")) for column in part.columns]
        rows, which = np.unique(people.values[:, columns], axis=0, return_inverse=True)
        counts = np.bincount(which.reshape(-1), weights=held, minlength=len(rows)).astype(np.int64)
        laws.append(SignLaw(part.mechanism, counts, rows, float(share)))
        order += columns
    back = np.argsort(order)

    def draw(random: np.random.Generator) -> dict[str, Estimate]:
        tallies = [law.draw(random) for law in laws]
        users = round(sum(tally.n for tally in tallies) / made.questions_per_user)
        within = Collection(NO_GUARANTEE, "", users)
        found = [law.mechanism.estimate(each, within=within) for law, each in zip(laws, tallies, strict=True)]
        value, stderr = (
            np.concatenate([np.atleast_1d(getattr(each, name)) for each in found])[back] for name in ("value", "stderr")
        )
        return {"mean": Estimate(value, stderr, cell.users, NO_GUARANTEE, "mean", bounds=MEAN)}

    truth = {"mean": held @ people.values / held.sum()}
    named = "+".join(sorted({_name(part) for part in made.parts}))
    return Setting(people.name, named, draw, truth, {"mean": "others"}, "exact", FAST, people.real)


def keys(cell: Cell, people: Population) -> Setting:
    """One key at most, with a value."""
    assert people.values is not None
    d, held = len(people.shares), people.held(cell.users)
    (part,) = plan(Schema({"a": KeyValue(d, 1)}), cell.epsilon, users=cell.users, ask=["a"]).parts
    law = KeyLaw(part.mechanism, held, people.values, cell.users)
    holders, total = held.sum(axis=1), (held * people.values).sum(axis=1)
    truth = {"presence": holders / cell.users, "mean": total / cell.users}
    with np.errstate(invalid="ignore"):
        truth["conditional_mean"] = total / holders
    rules = {"presence": "others", "mean": "others", "conditional_mean": "stated"}
    draw = _some(lambda random: law.mechanism.estimate(law.draw(random)), rules)
    return Setting(people.name, _name(part), draw, truth, rules, "exact", FAST, people.real)


def _some(draw: Callable[[np.random.Generator], Mapping[str, Estimate]], names: Mapping[str, str]) -> Draw:
    def some(random: np.random.Generator) -> dict[str, Estimate]:
        found = draw(random)
        return {name: found[name] for name in names}

    return some


def baskets(cell: Cell, people: Population) -> Setting:
    """Up to three keys of a user: their reports go together, so the mechanism runs."""
    assert people.values is not None
    d, presence = len(people.shares), np.minimum(3 * people.shares[:, 0], 0.5)
    random = np.random.default_rng(cell.seed)
    own = random.random((cell.users, d)) < presence
    own &= np.cumsum(own, axis=1) <= 3
    rows = [{int(key): float(people.values[key, 0]) for key in np.flatnonzero(each)} for each in own]
    made = plan(Schema({"a": KeyValue(d, 3)}), cell.epsilon, users=cell.users, ask=["a"])
    mechanism: Any = made.parts[0].mechanism
    encoded = mechanism.domain.check(rows)
    share = own.mean(axis=0)
    truth = {"presence": share, "mean": share * people.values[:, 0]}
    truth["conditional_mean"] = np.where(share > 0, people.values[:, 0], np.nan)
    rules = {"presence": "others", "mean": "others", "conditional_mean": "stated"}
    draw = _some(lambda random: _ran(mechanism, encoded, random), rules)
    return Setting(f"{people.name}, 3 a user", _name(made.parts[0]), draw, truth, rules, "run", RUN)


def one_mean(cell: Cell, people: Population) -> Setting:
    """A number of its own: nothing to learn from."""
    values = _numbers(people, cell.users)
    (part,) = plan(Schema({"a": Numeric(-1, 1)}), cell.epsilon, users=cell.users, ask=["mean(a)"]).parts
    truth = {"mean": np.array([values.mean()])}
    draw: Draw = lambda random: {"mean": _flat(_ran(part.mechanism, values, random))}  # noqa: E731
    return Setting(people.name, _name(part), draw, truth, {"mean": "stated"}, "run", FAST, people.real)


def square_wave(cell: Cell, people: Population) -> Setting:
    """The shares of 32 bins."""
    mechanism, values = SquareWave(cell.epsilon), _numbers(people, cell.users)
    place = np.minimum(((values + 1) / 2 * 32).astype(np.int64), 31)
    truth = {"distribution": np.bincount(place, minlength=32) / values.size}

    def draw(random: np.random.Generator) -> dict[str, Estimate]:
        reports = mechanism.randomize(values, seed=int(random.integers(1 << 62)))
        return {"distribution": mechanism.distribution(mechanism.tally(reports), 32)}

    rules = {"distribution": "stated"}
    return Setting(people.name, "SquareWave", draw, truth, rules, "run", RUN // 20, people.real)


def ranges(cell: Cell, people: Population) -> Setting:
    """Forty boxes of one to three attributes, drawn once for all collections."""
    assert people.values is not None
    values = people.values.astype(np.int64)
    shape, held = tuple(int(most) + 1 for most in values.max(axis=0)), people.held(cell.users)
    mechanism, records = Copula(shape=shape, epsilon=cell.epsilon, n=cell.users), np.repeat(values, held, axis=0)
    random = np.random.default_rng(cell.seed)
    boxes, truth = [], []
    for number in range(40):
        chosen = sorted(int(place) for place in random.choice(len(shape), 1 + number % len(shape), replace=False))
        ends = {place: tuple(int(end) for end in np.sort(random.integers(shape[place], size=2))) for place in chosen}
        inside = np.all(
            [(values[:, place] >= low) & (values[:, place] <= high) for place, (low, high) in ends.items()], 0
        )
        boxes.append(ends)
        truth.append(held[inside].sum() / held.sum())

    def draw(random: np.random.Generator) -> dict[str, Estimate]:
        return {"ranges": _ran(mechanism, records, random).answers(boxes)}

    how = "run", RUN // 10, people.real
    return Setting(people.name, "Copula", draw, {"ranges": np.array(truth)}, {"ranges": "stated"}, *how)


def cohorts(cell: Cell, people: Population) -> Setting:
    """Shared hash functions."""
    held = people.held(cell.users)
    mechanism, values = LocalHash(held.size, cell.epsilon, cohorts=1024), np.repeat(np.arange(held.size), held)
    truth = {"histogram": held / held.sum()}
    draw: Draw = lambda random: {"histogram": _ran(mechanism, values, random)}  # noqa: E731
    rules = {"histogram": "others"}
    return Setting(people.name, "LocalHash, 1,024 cohorts", draw, truth, rules, "run", RUN // 2, people.real)


def personalised(cell: Cell, people: Population) -> Setting:
    """Three groups: a tenth of the budget, half of it, all of it; whoever is asked first has the least."""
    values = np.sort(_numbers(people, cell.users))
    names, number = ["little", "half", "much"], np.arange(values.size) * 3 // values.size
    mechanism: Any = Personalised(
        "Piecewise", tuple(zip(names, (cell.epsilon / 10, cell.epsilon / 2, cell.epsilon), strict=True))
    )
    table = {"value": values, "group": np.array(names)[number]}
    parts = [values.mean(), *(values[number == each].mean() for each in range(3))]

    def draw(random: np.random.Generator) -> dict[str, Estimate]:
        found = _ran(mechanism, table, random)
        each = [found[name] for name in ("all", *names)]
        value, stderr = (np.array([float(getattr(one, name)) for one in each]) for name in ("value", "stderr"))
        return {"mean": Estimate(value, stderr, cell.users, NO_GUARANTEE, "mean", bounds=MEAN)}

    rules = {"mean": "stated"}
    truth = {"mean": np.array(parts)}
    return Setting(people.name, "Personalised", draw, truth, rules, "run", RUN, people.real)


def longitudinal(cell: Cell, people: Population) -> Setting:
    """Five rounds with a permanent response; a round alone is like a report of its own."""
    held = people.held(cell.users)
    mechanism, values = LGRR(held.size, 2 * cell.epsilon, cell.epsilon), np.repeat(np.arange(held.size), held)

    def draw(random: np.random.Generator) -> dict[str, Estimate]:
        seeds = random.integers(1 << 62, size=6)
        kept = mechanism.permanent(values, seed=int(seeds[0]))
        total: Any = sum(mechanism.tally(mechanism.instantaneous(kept, seed=int(seed))) for seed in seeds[1:])
        return {"histogram": mechanism.estimate(total, rounds=5)}

    truth = {"histogram": held / held.sum()}
    return Setting(people.name, "LGRR, 5 rounds", draw, truth, {"histogram": "others"}, "run", RUN, people.real)


def _ran(mechanism: Any, values: Any, random: np.random.Generator) -> Any:
    return mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=int(random.integers(1 << 62)))))


def _numbers(people: Population, users: int) -> Floats:
    assert people.values is not None
    return np.repeat(people.values[:, 0], people.held(users))


def _flat(estimate: Estimate) -> Estimate:
    value, stderr = np.atleast_1d(estimate.value), np.atleast_1d(estimate.stderr)
    return replace(estimate, value=value, stderr=stderr, correlation=None)


def _name(part: Any) -> str:
    return type(part.mechanism).__name__


Group = tuple[
    Mapping[str, Callable[[], Population]], Sequence[tuple[float, int]] | None, Callable[[Cell, Population], Setting]
]


def _only(found: Mapping[str, Callable[[], Population]], *names: str) -> dict[str, Callable[[], Population]]:
    return {name: found[name] for name in names}


GROUPS: dict[str, Group] = {
    "histogram": (populations.CATEGORIES, None, histogram),
    "distribution": (populations.ORDINALS, _MADE, distribution),
    "means": (populations.MEANS, None, means),
    "keys": (populations.KEYS, None, keys),
    "baskets": (_only(populations.KEYS, "rare keys"), ((0.5, 30_000), (1.0, 10_000), (4.0, 10_000)), baskets),
    "one mean": (populations.NUMBERS, _FEW, one_mean),
    "cohorts": (_only(populations.CATEGORIES, "dest"), ((0.5, 100_000), (1.0, 30_000), (4.0, 10_000)), cohorts),
    "personalised": (populations.NUMBERS, ((1.0, 30_000), (2.0, 10_000), (4.0, 10_000)), personalised),
    "longitudinal": (
        _only(populations.CATEGORIES, "carrier"),
        ((0.5, 30_000), (1.0, 10_000), (2.0, 10_000)),
        longitudinal,
    ),
    "ranges": (populations.RECORDS, ((1.0, 100_000), (2.0, 30_000), (4.0, 100_000)), ranges),
    "SquareWave": (populations.NUMBERS, ((1.0, 100_000), (2.0, 30_000), (4.0, 10_000)), square_wave),
}


# Measuring -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Measured:
    """A question of a cell: a row a collection in `runs`, and over all of them how often each item was held."""

    cell: Cell
    question: str
    population: str
    mechanism: str
    how: str
    real: bool
    runs: Mapping[str, Floats]  # average, far, top 5, shown 5, at once; and before, that of raw cut to the domain
    items: NDArray[np.int64]
    width: Mapping[str, float]  # raw, cut, floor: the mean, beside these; widest; widened
    refined: float  # the coverage after widening, in a few collections
    time: float
    seconds: float

    @property
    def draws(self) -> int:
        """Collections."""
        return len(self.runs["average"])


@dataclass(eq=False)
class _Sums:
    runs: dict[str, list[float]] = field(default_factory=dict)
    items: NDArray[np.int64] | int = 0
    width: dict[str, float] = field(default_factory=dict)
    widest: float = 0.0

    def add(self, **found: float) -> None:
        for name, value in found.items():
            self.runs.setdefault(name, []).append(value)

    def more(self, **found: float) -> None:
        for name, value in found.items():
            self.width[name] = self.width.get(name, 0.0) + value


def measured(cell: Cell, share: float = 1.0) -> list[Measured]:
    """All questions of a cell, with a share of its draws."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        warnings.simplefilter("ignore", HarmWarning)
        found, _, make = GROUPS[cell.group]
        setting = make(cell, found[cell.population]())
        draws = max(4, round(setting.draws * share))
        return [_judged(cell, setting, question, draws) for question in setting.truth]


def _judged(cell: Cell, setting: Setting, question: str, draws: int) -> Measured:
    started = time.perf_counter()
    random = np.random.default_rng((2100, cell.seed))  # all questions of a cell see the same tallies
    known = ~np.isnan(setting.truth[question])
    truth, rule = setting.truth[question][known], setting.rules[question]
    far = np.argsort(-np.abs(truth - np.median(truth)), kind="stable")[: max(1, truth.size // 10)]
    top = np.argsort(-truth, kind="stable")[:5]
    sums, after = _Sums(), _Sums()
    for number in range(draws):
        estimate = setting.draw(random)[question]
        low, high, low_all, high_all = (each[known] for each in stated(estimate, rule))
        value = np.where(np.isnan(estimate.value), -np.inf, estimate.value)[known]
        held, all_held = (low <= truth) & (truth <= high), (low_all <= truth) & (truth <= high_all)
        shown = np.argsort(-value, kind="stable")[:5]
        sums.add(average=held.mean(), at_once=float(all_held.all()), shown=all_held[shown].mean())
        sums.add(far=held[far].mean(), top=held[top].mean())
        sums.items = sums.items + held
        _add_widths(sums, estimate, known, truth, high - low)
        if number < min(REFINED, draws) and rule != "stated":
            _add_refined(after, estimate, rule, known, truth)
    names = {"average": "average", "far": "far", "top": "top 5", "shown": "shown 5", "at_once": "at once"}
    runs = {shown: np.array(sums.runs[name]) for name, shown in names.items()}
    width = {name: sums.width["own"] / sums.width[name] for name in ("raw", "cut", "floor") if name in sums.width}
    width["widest"] = sums.widest
    refined = taken = math.nan
    if after.runs:
        width["widened"] = after.width["own"] / after.width["raw"]
        refined = float(np.mean(after.runs["average"]))
        whole, learning, stating = (float(np.median(after.runs[name])) for name in ("whole", "learning", "stating"))
        taken = (learning + stating) / max(whole - learning, 0.1 * whole)  # learning is a part of the refinement
    spent = time.perf_counter() - started
    described = setting.population, setting.mechanism, setting.how, setting.real
    return Measured(cell, question, *described, runs, np.asarray(sums.items), width, refined, taken, spent)


def stated(estimate: Estimate, rule: str, miss: float = MISS) -> tuple[Floats, Floats, Floats, Floats]:
    """The ends of each, and those that hold all at once, before the refined point is put inside."""
    y, s = estimate.value, estimate.stderr
    if rule == "stated":
        one, all_ = estimate.interval(1 - miss), estimate.interval(1 - miss, simultaneous=True)
        return one.low, one.high, all_.low, all_.high
    assert estimate.bounds is not None
    low, high = estimate.bounds[:2]
    if y.size < LEAST:
        return (*plain_ends(y, s, low, high, miss), *plain_ends(y, s, low, high, miss / y.size))
    rule_of = learned(estimate, rule)
    return (*rule_of.ends(miss), *rule_of.ends(miss / y.size))


def learned(estimate: Estimate, rule: str) -> LearnedIntervals:
    """The intervals that a refinement finds."""
    assert estimate.bounds is not None
    value, stderr = np.asarray(estimate.value), np.asarray(estimate.stderr)
    with small_matrices():
        if rule == "neighbours":
            return from_neighbours(value, stderr, estimate.bounds, estimate.variance)
        return from_others(value, stderr, Bounds(*estimate.bounds[:2]), estimate.variance)


def _add_widths(sums: _Sums, estimate: Estimate, known: NDArray[np.bool_], truth: Floats, width: Floats) -> None:
    """Of the interval, beside raw, raw cut to the domain, and the floor; of ratios there is no raw one."""
    y, s = np.asarray(estimate.value)[known], np.asarray(estimate.stderr)[known]
    if estimate.rule is not None:
        return
    low, high = (-np.inf, np.inf) if estimate.bounds is None else estimate.bounds[:2]
    below, above = plain_ends(y, s, low, high, MISS)
    raw = 2 * beyond(MISS / 2) * s
    sums.more(own=width.sum(), raw=raw.sum(), cut=(above - below).sum(), floor=floor(truth, s, low, high, MISS).sum())
    sums.widest = max(sums.widest, float((width / raw).max()))


def floor(truth: Floats, sigma: Floats, low: float, high: float, miss: float) -> Floats:
    """Pratt's bound with a domain: the least expected length at this truth of an interval that holds at every truth.

    At a truth theta' each interval must believe y with probability 1 - miss, so believes it at the real theta with
    probability Phi(z - |theta' - theta| / s) at least (Neyman and Pearson). That is integrated over the domain.
    """
    special = require("scipy.special", "fast")
    z = beyond(miss)

    def whole(x: Floats) -> Floats:
        return x * special.ndtr(x) + np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)

    def up_to(reach: Floats) -> Floats:
        return whole(np.full(reach.shape, z)) - whole(z - np.minimum(reach, 40.0))

    return sigma * (up_to((truth - low) / sigma) + up_to((high - truth) / sigma))


def _add_refined(sums: _Sums, estimate: Estimate, rule: str, known: NDArray[np.bool_], truth: Floats) -> None:
    """The refinement itself: its intervals, and how long they took beside it."""
    start = time.process_time()
    refined = smooth(estimate) if rule == "neighbours" else auto(estimate)
    whole = time.process_time() - start
    start = time.process_time()
    if estimate.value.size >= LEAST:
        learned(estimate, rule)
    learning = time.process_time() - start
    start = time.process_time()
    low, high = (each[known] for each in refined.interval(1 - MISS))
    stating = time.process_time() - start
    value = refined.value[known]
    assert ((low <= value) & (value <= high)).all()
    raw = 2 * beyond(MISS / 2) * estimate.stderr[known]
    sums.add(average=((low <= truth) & (truth <= high)).mean())
    sums.add(whole=whole, learning=learning, stating=stating)
    sums.more(own=(high - low).sum(), raw=raw.sum())


# Judging -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """A claim that a cell does not keep."""

    row: Measured
    claim: str
    found: float
    number: int = 0  # of items

    def __str__(self) -> str:
        cell = self.row.cell
        items = f" ({self.number} items)" if self.number > 1 else ""
        return (
            f"{self.row.population}, {self.row.question} by {self.row.mechanism}, epsilon {cell.epsilon:g}, "
            f"{cell.users:,} users: {self.claim} {self.found:.1%}{items}, asked {ASKED[self.claim]:.0%}"
        )


@dataclass(frozen=True, eq=False)
class Verdict:
    """All claims of all rows at once."""

    rows: Sequence[Measured]

    @property
    def judged(self) -> list[Measured]:
        """Those of which 95% is promised."""
        return [row for row in self.rows if row.cell.group not in UNJUDGED]

    @property
    def tests(self) -> int:
        """How many claims there are."""
        return sum(4 + row.items.size for row in self.judged)

    @property
    def alarm(self) -> float:
        """The false-alarm probability of each."""
        return ALARM / max(self.tests, 1)

    def allowed(self, draws: int, claim: str) -> int:
        """The least number of collections in which an item, or all at once, may hold."""
        stats = require("scipy.stats", "fast")
        return int(stats.binom.ppf(self.alarm, draws, ASKED[claim]))

    def failures(self) -> Iterator[Failure]:
        """What is significantly below what was asked."""
        for row in self.judged:
            for claim in ("average", "far", "top 5"):
                runs = row.runs[claim]
                error = float(runs.std(ddof=1)) / math.sqrt(runs.size)
                if runs.mean() < ASKED[claim] - beyond(self.alarm) * error:
                    yield Failure(row, claim, float(runs.mean()))
            once = int(row.runs["at once"].sum())
            if once < self.allowed(row.draws, "at once"):
                yield Failure(row, "at once", once / row.draws)
            low = row.items < self.allowed(row.draws, "any item")
            if low.any():
                yield Failure(row, "any item", float(row.items.min()) / row.draws, int(low.sum()))

    def lines(self) -> Iterator[str]:
        """In words."""
        if not self.rows:
            return
        failed = list(self.failures())
        cases = {row.cell.population for row in self.rows}
        real = {row.cell.population for row in self.rows if row.real}
        yield (
            f"{len(self.rows)} questions of {len({row.cell for row in self.rows})} cells, {len(cases)} populations "
            f"({len(real)} real), {sum(row.draws for row in self.rows):,} collections."
        )
        yield (
            f"{self.tests:,} claims, false alarm {ALARM:g} over all of them: {len(failed)} are significantly below "
            f"what was asked, in {len({id(each.row) for each in failed})} questions of cells."
        )
        for each in failed:
            yield f"Not kept: {each}."
        for group, why in UNJUDGED.items():
            if any(row.cell.group == group for row in self.rows):
                yield f"Measured and not judged: {group}, {why}."
        for group in dict.fromkeys(row.cell.group for row in self.rows):
            yield from self._summary(group)

    def _summary(self, group: str) -> Iterator[str]:
        for question in dict.fromkeys(row.question for row in self.rows if row.cell.group == group):
            rows = [row for row in self.rows if (row.cell.group, row.question) == (group, question)]
            coverage = np.array([row.runs["average"].mean() for row in rows])
            told = f"{group}, {question}: coverage {coverage.mean():.1%}, by cell {coverage.min():.1%} to "
            told += f"{coverage.max():.1%}"
            for name in ("raw", "cut", "floor"):
                widths = [row.width[name] for row in rows if name in row.width]
                if widths:
                    told += f"; to {name} {np.mean(widths):.3f} ({min(widths):.3f} to {max(widths):.3f})"
            times = [row.time for row in rows if not math.isnan(row.time)]
            if times:
                told += f"; time {np.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"
            widest = max(row.width.get("widest", 0.0) for row in rows)
            if widest:
                told += f"; widest {widest:.2f}{'' if widest <= WIDEST else ', which is more than 1.35'}"
            yield f"{told}."

    def table(self, group: str) -> TextTable:
        """A row a question of a cell."""
        return TextTable(_columns([self._row(row) for row in self.rows if row.cell.group == group]))

    def _row(self, row: Measured) -> dict[str, str]:
        limit = self.allowed(row.draws, "any item") / row.draws
        return {
            "population": row.population,
            "question": row.question,
            "mechanism": row.mechanism,
            "epsilon": f"{row.cell.epsilon:g}",
            "users": f"{row.cell.users:,}",
            "draws": f"{row.draws:,} {row.how}",
            "average": _percent(row.runs["average"].mean()),
            "worst item": f"{_percent(row.items.min() / row.draws)} (>= {_percent(limit)})",
            **{name: _percent(row.runs[name].mean()) for name in ("far", "top 5", "shown 5", "at once")},
            "below 85%": _percent((row.runs["average"] < 0.85).mean()),
            **{f"to {name}": _ratio(row.width.get(name)) for name in ("raw", "cut", "floor")},
            "widest": _ratio(row.width.get("widest") or None),
            "widened": _ratio(row.width.get("widened")),
            "time": _ratio(None if math.isnan(row.time) else row.time),
        }


def _columns(rows: Sequence[dict[str, str]]) -> dict[str, list[str]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


# The command ---------------------------------------------------------------------------------------------------------


def kept(cell: Cell, share: float, folder: Path | None) -> list[Measured]:
    """A cell as it was measured before, if it was, else now."""
    path = None if folder is None else folder / f"{cell.group}-{cell.seed}-{share:g}.pickle"
    if path is not None and path.exists():
        return pickle.loads(path.read_bytes())  # noqa: S301 - its own file
    rows = measured(cell, share)
    if path is not None:
        with atomic_path(path) as temporary:
            temporary.write_bytes(pickle.dumps(rows))
    return rows


def everything(chosen: Sequence[Cell], share: float, workers: int, folder: Path | None = None) -> list[Measured]:
    """All cells, on several cores, in their own order."""
    order = {cell: place for place, cell in enumerate(chosen)}
    found: list[Measured] = []
    context = multiprocessing.get_context("spawn")
    with progress("Measuring", len(chosen), unit="cells") as advance, ProcessPoolExecutor(workers, context) as pool:
        turns = sorted(
            chosen, key=lambda cell: order[cell] - min(order[each] for each in chosen if each.group == cell.group)
        )
        for done in as_completed(pool.submit(kept, cell, share, folder) for cell in turns):  # groups in turns
            found += done.result()
            advance(1)
    return sorted(found, key=lambda row: order[row.cell])


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test: one cell of each population, few draws.")
@click.option("--write", is_flag=True, help="Put the tables into docs/calibration.md.")
@click.option("--only", multiple=True, metavar="NAME", help="A group or a population; may be given several times.")
@click.option("--draws", type=float, default=1.0, show_default=True, help="Times as many draws of each cell.")
@click.option("--workers", type=int, default=None, help="Processes; as many as there are cores if left out.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for what is measured, to go on from.")
def main(quick: bool, write: bool, only: tuple[str, ...], draws: float, workers: int | None, keep: Path | None) -> None:
    """Measure, print, and with --write keep."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    if write and (quick or only):
        raise click.UsageError("a part is not worth keeping: use --write without --quick and --only")
    chosen = [cell for cell in cells() if not only or {cell.group, cell.population} & set(only)]
    if not chosen:
        raise click.UsageError(f"there is no such group or population; groups are {', '.join(GROUPS)}")
    if quick:
        chosen = list({(cell.group, cell.population): cell for cell in chosen if cell.users <= 100_000}.values())
        draws *= 0.004
    machine, start = Machine.here(("numpy", "scipy", "scikit-learn")), time.perf_counter()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = everything(chosen, draws, workers or machine.cores, keep)
    minutes = (time.perf_counter() - start) / 60
    verdict = Verdict(rows)
    click.echo(str(machine))
    for group in dict.fromkeys(row.cell.group for row in rows):
        click.echo(f"\n{group}\n{verdict.table(group)}")
    click.echo("")
    for line in verdict.lines():
        click.echo(line)
    click.echo(f"{minutes:.0f} minutes, {sum(row.seconds for row in rows) / 60:.0f} of all cores")
    if write:
        write_section(PAGE, "calibration", _section(verdict, machine))


def _section(verdict: Verdict, machine: Machine) -> str:
    minutes = sum(row.seconds for row in verdict.rows) / 60
    today = datetime.now(UTC).date().isoformat()
    command = "`python benchmarks/calibration.py --write`"
    lines = [f"Measured on {today} by {command}, in {minutes:.0f} minutes of a core: {machine}.\n"]
    lines += [f"- {line}" for line in verdict.lines()]
    for group in dict.fromkeys(row.cell.group for row in verdict.rows):
        lines += [f"\n### {group[0].upper()}{group[1:]}\n", markdown_table(verdict.table(group))]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
