"""Means of records of d numbers under all forms that 002 compares: reports of many trials, and their errors.

**Opt-GM has three readings in d dimensions.** (i) The printed sensitivity 2: not (epsilon, delta) beyond one dimension.
(ii) 2 sqrt(d), which is right, and the line of the figures. (iii) epsilon/d and delta/d for every dimension: sound and
wasteful, but the remarks on Fig. 4 and 5 fit this one only. Noise of (i) and (iii) is drawn for the mean at once, whose
law is that of the mean of the users' noises.

**Trials.** The relative error of a mean squared error depends on how many errors it is the mean of, not on the users
behind each. So a smaller scale has fewer users, in several trials; errors are unbiased and go with
1/users, so they are given for the paper's number of users.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import dither
from dither.core.mechanism import Mechanism
from dither.learn import VectorReporter
from dither.mechanisms.hypercube import half_space
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from . import as_printed
from .standins import NAMES, needed, population

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
DELTA = 1e-6
DIMENSIONS = (1, 5, 10, 15)
DELTAS_OF_FIG5 = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 5e-5)
DELTAS_OF_FIG3 = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
SYNTHETIC_USERS = 400_000
REAL_USERS = 4_000_000
SOUND = ("Opt-GM", "Mechanism-1", "Mechanism-2", "dither")


class MeanReporter(Protocol):
    """The mean of many rows, as it is known from their reports."""

    def means(self, trials: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
        """For each trial (rows of users, d numbers each) the estimated means."""
        ...

    @property
    def variance(self) -> float:
        """Of one report about one number, at 0."""
        ...


@dataclass(frozen=True)
class Reported:
    """By reports of a mechanism."""

    reporter: VectorReporter

    def means(self, trials: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
        """All reports are drawn at once, and told apart again."""
        many, users, d = trials.shape
        reports = self.reporter.randomize(trials.reshape(-1, d), seed=seed)
        return np.array([self.reporter.mean(reports[t * users : (t + 1) * users]) for t in range(many)])

    @property
    def variance(self) -> float:
        return self.reporter.noise() / self.reporter.d


@dataclass(frozen=True)
class Noise:
    """By normal noise of some size on each number."""

    sigma: float

    def means(self, trials: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
        """The mean of the users' noises, in one draw."""
        many, users, d = trials.shape
        noise = np.random.default_rng(seed).normal(0, self.sigma / users**0.5, (many, d))
        return trials.mean(axis=1) + noise

    @property
    def variance(self) -> float:
        return self.sigma**2


@lru_cache(maxsize=512)
def mean_reporters(d: int, epsilon: float, delta: float) -> Mapping[str, MeanReporter]:
    """All lines of the figures about means; the printed form of Mechanism-1 where it exists."""
    # A table of the distribution cannot be finer than a delta of 2^-100; no delta here is near that.
    made: dict[str, Mechanism[Any]] = {
        "Opt-GM": dither.Gaussian(epsilon=epsilon, delta=delta, d=d),
        "Mechanism-1": dither.Hypercube(d, epsilon, delta),
        "Mechanism-2": dither.SampledDuchi(d, epsilon, delta, m=as_printed.printed_dimensions(d, epsilon)),
    }
    if half_space(d) * delta < 1:
        made["Mechanism-1 as printed"] = as_printed.mechanism_1(d, epsilon, delta)
    found: dict[str, MeanReporter] = {
        line: Reported(VectorReporter(mechanism, clip=1.0, norm="linf")) for line, mechanism in made.items()
    }
    found["Opt-GM, sensitivity 2"] = Noise(as_printed.gaussian_sigma(epsilon, delta))
    found["Opt-GM, epsilon/d each"] = Noise(as_printed.gaussian_sigma(epsilon / d, delta / d))
    found["dither"] = Reported(VectorReporter.best(d, epsilon, delta, norm="linf"))
    return found


def record_variances(d: int, epsilon: float, delta: float) -> dict[str, float]:
    """The variance of one report about one of d numbers, at 0, by line."""
    return {line: reporter.variance for line, reporter in mean_reporters(d, epsilon, delta).items()}


def mechanisms_of(setting: Setting) -> list[Mechanism[Any]]:
    """What the reports of a setting are made by."""
    d, epsilon, delta = int(setting["d"]), float(setting["epsilon"]), float(setting["delta"])
    reporters = mean_reporters(d, epsilon, delta).values()
    return [each.reporter.mechanism for each in reporters if isinstance(each, Reported)]


def errors(trials: NDArray[np.float64], setting: Setting, seed: int, users: int) -> Iterator[Number]:
    """Mean squared error for so many users, and the mean error, of each line."""
    d, epsilon, delta = trials.shape[2], float(setting["epsilon"]), float(setting["delta"])
    truth = trials.mean(axis=1)
    for place, (line, reporter) in enumerate(mean_reporters(d, epsilon, delta).items()):
        error = reporter.means(trials, seed + place) - truth
        yield measured_value(np.mean(error**2) * trials.shape[1] / users, line=line, metric="MSE")
        yield measured_value(np.mean(error) * (trials.shape[1] / users) ** 0.5, line=line, metric="bias")


def synthetic_means(setting: Setting, seed: int) -> Iterator[Number]:
    """Means of d numbers from N(0, 1/16), clipped to [-1, 1]."""
    d, users = int(setting["d"]), int(setting["users"])
    trials = max(1, round(int(setting["errors"]) / d))
    numbers = np.random.default_rng(seed).normal(0, 0.25, (trials, users, d)).clip(-1, 1)
    yield from errors(numbers, setting, seed, SYNTHETIC_USERS)


SYNTHETIC_MEANS = Experiment(
    "002.synthetic_means",
    synthetic_means,
    (
        *grid(panel=("epsilon",), d=DIMENSIONS, epsilon=EPSILONS, delta=(DELTA,)),
        *grid(panel=("delta",), d=DIMENSIONS, epsilon=(1.0,), delta=DELTAS_OF_FIG5),
    ),
    {"smoke": 2, "quick": 8, "full": 10},
    size={
        "smoke": {"users": 200, "errors": 10},
        "quick": {"users": 1_000, "errors": 45},
        "full": {"users": SYNTHETIC_USERS, "errors": 1},
    },
    only={
        "smoke": tuple({"panel": "epsilon", "d": d, "epsilon": e} for d in (1, 5, 15) for e in (1.0, 10.0))
        + tuple({"panel": "delta", "d": 5, "delta": delta} for delta in (1e-8, 5e-5))
    },
    mechanisms=mechanisms_of,
)


def real_means(setting: Setting, seed: int) -> Iterator[Number]:
    """Means of the numeric attributes of census records, with users drawn at random for each trial."""
    numbers = population(setting).numbers
    users, d = int(setting["users"]), numbers.shape[1]
    trials = max(1, round(int(setting["errors"]) / d))
    chosen = np.random.default_rng(seed).integers(0, len(numbers), (trials, users))
    yield from errors(numbers[chosen], setting, seed, REAL_USERS)


REAL_MEANS = Experiment(
    "002.real_means",
    real_means,
    tuple(
        {"panel": panel, "data": name, "d": d, **each}
        for panel, budgets in (
            ("epsilon", grid(epsilon=EPSILONS, delta=(DELTA,))),
            ("delta", grid(epsilon=(1.0,), delta=DELTAS_OF_FIG3)),
        )
        for name, d in zip(NAMES, (5, 6), strict=True)
        for each in budgets
    ),
    {"smoke": 2, "quick": 6, "full": 10},
    size={
        "smoke": {"users": 200, "errors": 10, "source": "made up"},
        "quick": {"users": 1_000, "errors": 60, "source": "real"},
        "full": {"users": 200_000, "errors": 10, "source": "real"},
    },
    only={"smoke": ({"panel": "epsilon", "data": "MX", "epsilon": 1.0}, {"panel": "delta", "delta": 1e-6})},
    mechanisms=mechanisms_of,
    data=needed,
)


def largest_errors(setting: Setting, seed: int) -> Iterator[Number]:
    """The 95% quantile of the largest error of d means, over many trials; all values are 0, where noise is worst."""
    d, users, epsilon = int(setting["d"]), int(setting["people"]), float(setting["epsilon"])
    zeros = np.zeros((int(setting["trials"]), users, d))
    reporters = mean_reporters(d, epsilon, DELTA)
    for line in ("Mechanism-1", "Mechanism-2"):
        largest = np.abs(reporters[line].means(zeros, seed)).max(axis=1)
        yield measured_value(np.quantile(largest, 0.95), line=line)


LARGEST_ERRORS = Experiment(
    "002.largest_errors",
    largest_errors,
    (
        *grid(d=(5, 10, 20, 40), people=(4_000,), epsilon=(0.1, 0.5)),
        *grid(d=(10,), people=(1_000, 16_000), epsilon=(0.1, 0.5)),
    ),
    {"smoke": 1, "quick": 3, "full": 10},
    size={"smoke": {"trials": 4}, "quick": {"trials": 60}, "full": {"trials": 100}},
    only={"smoke": ({"people": 1_000}, {"people": 4_000, "d": 5}, {"people": 4_000, "d": 10})},
    mechanisms=lambda setting: mechanisms_of({**setting, "delta": DELTA}),
)
