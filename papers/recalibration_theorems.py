"""Lemma 4 and 5 and Theorem 3 and 4 of 000 (001: Lemma 4, 5, Theorem 4, 5): when a re-calibration helps.

The lemmas speak of one dimension and are searched by brute force. The theorems take 1 - P(all deviations within 1) for
the probability that the whole error shrinks; it is that of *one* deviation being beyond 1, and what all need is the
product of the tails, which is enough and far from needed. Both stand beside the share of draws in which it shrank.
"""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .framework import ONCE
from .recalibration import Law, mse, recalibrated
from .recalibration_as_printed import known_mean_l2, signed_l2

Numbers = NDArray[np.float64]

SHRUNK = ("L1", "L2", "L2, known mean")
GAUSSIAN = "Gaussian data, epsilon 0.8"
HIGH, NARROW, MANY, FEW = "means 0.9", "means 0.9, sigma 0.28", "means 0.9, d = 50,000", "means 0.9, d = 2"
_AT_ONCE = 1_000_000


def lemmas(setting: Setting, seed: int) -> Iterator[Number]:
    """In how many of all cases a dimension is *not* closer after re-calibration, by how far it deviates."""
    means = np.setdiff1d(np.round(np.linspace(-1, 1, 81), 12), [0.0])
    sizes = float(setting["beyond"]) + np.array([1e-6, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0])
    for where, factors in {"within the supremum": (1.0, 1.2, 2.0, 6.0), "beyond it": (0.05, 0.3, 0.7, 0.95)}.items():
        cases = np.array(list(product(means, np.concatenate([sizes, -sizes]), factors)))
        mean, deviated = cases[:, 0], cases[:, 1]
        reach = np.abs(deviated) * cases[:, 2]
        y = mean + deviated
        soft = np.sign(y) * np.maximum(np.abs(y) - reach, 0.0)
        forms = {"L1": soft, "L2, |mean|": known_mean_l2(y, reach, mean), "L2, as printed": signed_l2(y, reach, mean)}
        for line, found in forms.items():
            closer = np.abs(found - mean) < np.abs(deviated)
            yield measured_value(float(np.mean(~closer)), line=line, where=where)
            yield measured_value(float(len(cases)), line=line, where=where, quantity="cases")


def lemmas_experiment(name: str) -> Experiment:
    """Deviations beyond 1 and beyond 2."""
    return Experiment(name, lemmas, grid(beyond=(1.0, 2.0)), ONCE)


def settings_of(case: str) -> tuple[Numbers, Numbers]:
    """Means and standard errors."""
    if case == GAUSSIAN:  # Laplace, n = 100,000, d = 100
        return np.where(np.arange(100) < 10, 0.9, 0.0), np.full(100, math.sqrt(8 * (100 / 0.8) ** 2 / 100_000))
    if case == FEW:  # Laplace, n = 100,000, d = 2, epsilon 3.2
        return np.full(2, 0.9), np.full(2, math.sqrt(8 * (2 / 3.2) ** 2 / 100_000))
    d = 50_000 if case == MANY else 100
    return np.full(d, 0.9), np.full(d, 0.28 if case == NARROW else 0.5)


def theorems(setting: Setting, seed: int) -> Iterator[Number]:
    """The claimed probability of a smaller error, the one that is enough, and the share of draws that had one."""
    mean, stderr = settings_of(str(setting["case"]))
    found = Law(np.zeros(mean.size), stderr, 1.0)
    rng = np.random.default_rng(seed)
    draws = min(int(setting["draws"]), _AT_ONCE // mean.size)
    y = mean + stderr * rng.standard_normal((draws, mean.size))
    before = mse(y, mean)
    shrunk = recalibrated(y, found, mean)
    for line in SHRUNK:
        after = mse(shrunk[line], mean)
        yield measured_value(float(np.mean(after < before)), line=line, quantity="share of draws")
        yield measured_value(float(np.mean(after) / np.mean(before)), line=line, quantity="error, times that before")
        limit = 1.0 if line == "L1" else 2.0
        beyond = np.array([math.erfc(limit / (each * math.sqrt(2))) for each in stderr])
        yield measured_value(1 - float(np.prod(1 - beyond)), line=line, quantity="claimed")
        yield measured_value(float(np.prod(beyond)), line=line, quantity="enough")


def theorems_experiment(name: str) -> Experiment:
    """The paper's own data, and truths at which re-calibration must not be used."""
    return Experiment(
        name,
        theorems,
        grid(case=(GAUSSIAN, HIGH, NARROW, MANY, FEW)),
        {"smoke": 2, "quick": 10, "full": 10},
        {"smoke": {"draws": 50}, "quick": {"draws": 200}, "full": {"draws": 2000}},
    )
