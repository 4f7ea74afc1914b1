"""Frequencies of categories under the four mechanisms of 002: real attributes, and a made-up one of many sizes.

The paper does not say how a budget is split over attributes: here every attribute is asked alone, of all users, with
the whole budget, and the error is the mean over all cells of all attributes, as eq. 44 has it. As with means, a smaller
scale has fewer users, and errors are given for the paper's number of them. OLH has the whole number next to the g of
eq. 57; for few categories a smaller one would be better, and is what `LocalHash` takes if none is given.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dither
from dither.core.mechanism import Mechanism
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .formulas import best_g
from .standins import NAMES, SHAPES, needed, population

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
SIZES = (10, 50, 100, 200, 500, 1000)
DELTAS = (1e-6, 1e-7)
REAL_USERS = 4_000_000
ZIPF_USERS = 100_000
ZIPF = 1.3
PRINTED = ("GRR", "SPRR", "OLH", "Opt-GM")


@lru_cache(maxsize=1024)
def frequency_mechanisms(k: int, epsilon: float, delta: float) -> Mapping[str, Mechanism[Any]]:
    """The lines of the figures; dither's is the one with the least total variance, of three that need no delta."""
    best = min(
        (dither.SubsetSelection(k, epsilon), dither.ProjectiveGeometry(k, epsilon), dither.GRR(k, epsilon)),
        key=lambda each: each.reading.total_variance,
    )
    return {
        "GRR": dither.GRR(k, epsilon, delta),
        "SPRR": dither.Unary(k, epsilon, delta, kind="symmetric"),
        "OLH": dither.LocalHash(k, epsilon, delta, g=round(best_g(epsilon, delta))),
        "Opt-GM": dither.OneHotGaussian(k, epsilon, delta),
        "dither": best,
    }


def squared_errors(
    values: NDArray[np.int64], k: int, trials: int, mechanism: Mechanism[Any], seed: int
) -> NDArray[np.float64]:
    """For each trial and category the squared error of its frequency, times the users of the trial."""
    reports = mechanism.randomize(values.ravel(), seed=seed)
    users = len(values.ravel()) // trials
    found = []
    for trial in range(trials):
        here = slice(trial * users, (trial + 1) * users)
        truth = np.bincount(values.ravel()[here], minlength=k) / users
        found.append(users * (mechanism.estimate(mechanism.tally(reports[here])).value - truth) ** 2)
    return np.array(found)


def real_frequencies(setting: Setting, seed: int) -> Iterator[Number]:
    """All categorical attributes of census records."""
    people, users = population(setting), int(setting["users"])
    chosen = np.random.default_rng(seed).integers(0, len(people.categories), users)
    budget = (float(setting["epsilon"]), float(setting["delta"]))
    cells: dict[str, list[float]] = {}
    for place, (column, k) in enumerate(zip(people.categories[chosen].T, people.sizes, strict=True)):
        for line, mechanism in frequency_mechanisms(k, *budget).items():
            squares = squared_errors(column, k, int(setting["trials"]), mechanism, seed + place)
            cells.setdefault(line, []).extend(squares.mean(axis=0))
    for line, squares in cells.items():
        yield measured_value(np.mean(squares) / REAL_USERS, line=line)  # pyright: ignore[reportArgumentType]


def real_mechanisms(setting: Setting) -> list[Mechanism[Any]]:
    """What the reports of a setting are made by."""
    _, sizes = SHAPES[str(setting["data"])]
    budget = (float(setting["epsilon"]), float(setting["delta"]))
    return [each for k in sorted(set(sizes)) for each in frequency_mechanisms(k, *budget).values()]


REAL_FREQUENCIES = Experiment(
    "002.real_frequencies",
    real_frequencies,
    grid(data=NAMES, delta=DELTAS, epsilon=EPSILONS),
    {"smoke": 2, "quick": 6, "full": 10},
    size={
        "smoke": {"users": 400, "trials": 1, "source": "made up"},
        "quick": {"users": 2_000, "trials": 2, "source": "real"},
        "full": {"users": 200_000, "trials": 1, "source": "real"},
    },
    only={"smoke": tuple({"data": "BR", "delta": delta, "epsilon": e} for delta in DELTAS for e in (0.5, 5.0))},
    mechanisms=real_mechanisms,
    data=needed,
)


def zipf_frequencies(setting: Setting, seed: int) -> Iterator[Number]:
    """One attribute with k values, whose shares fall with the power 1.3 of their rank."""
    k, users = int(setting["k"]), int(setting["users"])
    trials = max(1, round(int(setting["errors"]) / k))
    shares = np.arange(1, k + 1) ** -ZIPF
    values = np.random.default_rng(seed).choice(k, trials * users, p=shares / shares.sum())
    for place, (line, mechanism) in enumerate(
        frequency_mechanisms(k, float(setting["epsilon"]), float(setting["delta"])).items()
    ):
        yield measured_value(squared_errors(values, k, trials, mechanism, seed + place).mean() / ZIPF_USERS, line=line)


def zipf_mechanisms(setting: Setting) -> list[Mechanism[Any]]:
    """What the reports of a setting are made by."""
    budget = (float(setting["epsilon"]), float(setting["delta"]))
    return list(frequency_mechanisms(int(setting["k"]), *budget).values())


ZIPF_FREQUENCIES = Experiment(
    "002.zipf_frequencies",
    zipf_frequencies,
    grid(epsilon=(0.5, 5.0), delta=DELTAS, k=SIZES),
    {"smoke": 2, "quick": 5, "full": 10},
    size={
        "smoke": {"users": 300, "errors": 20},
        "quick": {"users": 2_000, "errors": 120},
        "full": {"users": ZIPF_USERS, "errors": 1},
    },
    only={"smoke": tuple({"delta": 1e-6, "k": k} for k in (10, 100))},
    mechanisms=zipf_mechanisms,
)


def zipf_variances(setting: Setting, seed: int) -> Iterator[Number]:
    """What the errors of one attribute are by eq. 43, with all its terms: the mean over its cells, drawing nothing."""
    k = int(setting["k"])
    shares = np.arange(1, k + 1) ** -ZIPF
    for line, mechanism in frequency_mechanisms(k, float(setting["epsilon"]), float(setting["delta"])).items():
        reading: Any = mechanism.reading
        yield measured_value(float(np.mean(reading.variance(shares / shares.sum()))) / ZIPF_USERS, line=line)


ZIPF_VARIANCES = Experiment(
    "002.zipf_variances",
    zipf_variances,
    grid(epsilon=(0.5, 5.0), delta=DELTAS, k=SIZES),
    {"smoke": 1, "quick": 1, "full": 1},
    only={"smoke": tuple({"delta": 1e-6, "k": k} for k in (10, 100))},
    mechanisms=zipf_mechanisms,
)
