"""What is measured for 000; what chapter 4 of 001 repeats is in the modules beside this folder."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import dither
from dither.core.mechanism import Mechanism
from dither.errors import HarmWarning
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value
from dither.utility import rank

from ..framework import CASE_EPSILON, berry_esseen_experiment, case_experiment, deviations_experiment
from ..framework import moments_experiment as moments_of_one_report
from ..recalibration import (
    EPSILONS,
    MECHANISMS,
    UNBIASED,
    WAVE,
    dimensions_experiment,
    mse,
    part,
    sweep_experiment,
)
from ..recalibration_data import blocks
from ..recalibration_theorems import lemmas_experiment, theorems_experiment

CASE_STUDY = case_experiment("000.case_study", CASE_EPSILON)
MOMENTS = moments_of_one_report("000.moments")
BERRY_ESSEEN = berry_esseen_experiment("000.berry_esseen")
DEVIATIONS = deviations_experiment("000.deviations")
SWEEP = sweep_experiment("000.sweep", ("Gaussian", "Poisson", "Uniform", "Factors", "MNIST"))
DIMENSIONS = dimensions_experiment("000.dimensions", ("Factors", "MNIST"))
LEMMAS = lemmas_experiment("000.lemmas")
THEOREMS = theorems_experiment("000.theorems")

DIMENSION_COUNT = 100
CALIBRATED = "SquareWave, calibrated"


def ranking(setting: Setting, seed: int) -> Iterator[Number]:
    """Mean squared errors of the Gaussian data: as the law foretells them for these users, and from their reports."""
    rows = np.concatenate(list(blocks("Gaussian", int(setting["users"])))).astype(np.float64)
    epsilon, truth = float(setting["epsilon"]), rows.mean(axis=0)
    named = {name: dither.Split(name, d=DIMENSION_COUNT, epsilon=epsilon) for name in MECHANISMS}
    named[CALIBRATED] = named[WAVE]
    foretold = rank(named, rows, reports=len(rows), estimator={WAVE: "naive"})
    for name, found in zip(foretold.names, foretold.deviations, strict=True):
        yield measured_value(found.mse, line=name, by="law")
    for place, (name, mechanism) in enumerate(named.items()):
        tally = mechanism.tally(mechanism.randomize(rows, seed=seed % (1 << 61) + place))
        estimate = mechanism.estimate(tally, mechanism.naive) if name == WAVE else mechanism.estimate(tally)
        yield measured_value(float(mse(np.asarray(estimate.value), truth)), line=name, by="reports")


def _one_dimension(setting: Setting) -> Sequence[Mechanism[Any]]:
    return tuple(part(name, float(setting["epsilon"]) / DIMENSION_COUNT) for name in MECHANISMS)


RANKING = Experiment(
    "000.ranking",
    ranking,
    grid(epsilon=EPSILONS),
    {"smoke": 1, "quick": 3, "full": 5},
    {"smoke": {"users": 400}, "quick": {"users": 10_000}, "full": {"users": 100_000}},
    {"smoke": {"epsilon": 0.8}},
    mechanisms=_one_dimension,
)

CATEGORIES = 8
SHARES = np.array([0.4, 0.2, 0.13, 0.1, 0.07, 0.05, 0.03, 0.02])
FREQUENCY_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


def frequencies(setting: Setting, seed: int) -> Iterator[Number]:
    """Section V-C: one-hot entries at half the budget each, re-calibrated; and mechanisms that are made for them."""
    n, epsilon = int(setting["users"]), float(setting["epsilon"])
    counts = np.round(n * SHARES).astype(int)
    values, truth = np.repeat(np.arange(CATEGORIES), counts), counts / counts.sum()
    histogram = dither.Histogram(str(setting["mechanism"]), CATEGORIES, epsilon)
    found = histogram.estimate(histogram.tally(histogram.randomize(values, seed=seed)))

    def error(estimate: Any) -> float:
        return float(np.sqrt(mse(np.asarray(estimate.value), truth)))

    yield measured_value(error(found), line="none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HarmWarning)
        for line, penalty in (("L1", "l1"), ("L2", "l2")):
            yield measured_value(error(found.refine("hdr4me", penalty=penalty)), line=line)
    yield measured_value(error(found.refine("auto")), line="auto")
    made_for = dither.SubsetSelection(CATEGORIES, epsilon)
    better = made_for.estimate(made_for.tally(made_for.randomize(values, seed=seed)))
    yield measured_value(error(better.refine("auto")), line="categorical")
    yield measured_value(histogram.guarantee.epsilon, quantity="certified epsilon")
    yield measured_value(histogram.channel().profile(0.999 * epsilon), quantity="delta at 0.999 epsilon")
    yield measured_value(histogram.entry.epsilon, quantity="epsilon of an entry")


def _histograms(setting: Setting) -> Sequence[Mechanism[Any]]:
    epsilon = float(setting["epsilon"])
    return (
        dither.Histogram(str(setting["mechanism"]), CATEGORIES, epsilon),
        dither.SubsetSelection(CATEGORIES, epsilon),
    )


FREQUENCIES = Experiment(
    "000.frequencies",
    frequencies,
    grid(mechanism=UNBIASED, epsilon=FREQUENCY_EPSILONS),
    {"smoke": 1, "quick": 10, "full": 100},
    {"smoke": {"users": 1000}, "quick": {"users": 30_000}, "full": {"users": 30_000}},
    {"smoke": ({"epsilon": 2.0},)},
    mechanisms=_histograms,
)
