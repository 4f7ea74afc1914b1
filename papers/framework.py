"""The framework of 000 section IV and 001 section 4.1: the normal law of a deviation, its case studies and its error.

A report about one number has a bias and a variance; an average of r of them deviates from the truth by a normal
variable with that bias and the r-th part of the variance. Everything here compares this law with its printed numbers,
with formulas of the continuum, and with reports.

The square wave's domain is [0, 1] in the papers: dither's is [-1, 1], so values go in as 2t - 1, biases are halved and
variances divided by four. Where a figure has all mechanisms on [-1, 1], nothing is converted.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dither
from dither.core.mechanism import Mechanism
from dither.errors import require
from dither.mechanisms.window import square_wave_share
from dither.reproduce.experiments import Experiment, Scale, Setting, grid
from dither.reproduce.measured import Coordinates, Number, measured_value
from dither.utility import Deviation, deviation

from .recalibration_as_printed import laplace_bound, piecewise_variance

Numbers = NDArray[np.float64]
Complex = NDArray[np.complex128]

VALUES = np.arange(1, 11) / 10  # of the case study, 10% of the users each
REPORTS = 10_000
CASE_EPSILON = 0.001
TOLERANCES = (0.001, 0.01, 0.05, 0.1)


# The case study ----------------------------------------------------------------------------------------------------


class Formula(NamedTuple):
    """Bias and variance of one report, averaged over the users of the case study, without a lattice."""

    bias: float
    variance: float

    def deviation(self, reports: int = REPORTS) -> Deviation:
        """The law of an average."""
        return Deviation(np.array(self.bias), np.array(self.variance / reports), reports, 0.0)


def piecewise_formula(epsilon: float) -> Formula:
    """t^2/(h - 1) + (h + 3)/(3 (h - 1)^2) with h = e^(epsilon/2): what eq. 14 should say."""
    grown = math.expm1(epsilon / 2)
    return Formula(0.0, float(np.mean(VALUES**2)) / grown + (grown + 4) / (3 * grown**2))


def square_wave_formula(epsilon: float) -> Formula:
    """Of outputs as they are, for values in [0, 1]."""
    half = square_wave_share(epsilon) / 2
    low = 1 / (1 + 2 * half * math.exp(epsilon))
    extra = low * math.expm1(epsilon)
    mean = low * (1 + 2 * half) / 2 + extra * 2 * half * VALUES
    square = low * ((1 + half) ** 3 + half**3) / 3 + extra * ((VALUES + half) ** 3 - (VALUES - half) ** 3) / 3
    return Formula(float(np.mean(mean - VALUES)), float(np.mean(square - mean**2)))


def case_laws(epsilon: float) -> dict[str, Deviation]:
    """The laws of the case study: by formula, and of the integers that dither samples."""
    wave = deviation(dither.SquareWave(epsilon), 2 * VALUES - 1, reports=REPORTS, estimator="naive")
    return {
        "Piecewise": piecewise_formula(epsilon).deviation(),
        "Piecewise, dither": deviation(dither.Piecewise(epsilon), VALUES, reports=REPORTS),
        "Square wave": square_wave_formula(epsilon).deviation(),
        "Square wave, dither": wave.scaled(0.5),
    }


def case_study(setting: Setting, seed: int) -> Iterator[Number]:
    """Bias and variance, the constant of the density, and the probability of being within tolerances."""
    epsilon = float(setting["epsilon"])
    laws = case_laws(epsilon)
    yield measured_value(crossing(laws), quantity="tolerance at which both are as likely")
    for name, found in laws.items():
        variance = float(found.variance)
        yield measured_value(float(found.bias), mechanism=name, quantity="bias")
        yield measured_value(variance * REPORTS, mechanism=name, quantity="variance of a report")
        yield measured_value(variance, mechanism=name, quantity="variance")
        yield measured_value(found.mse, mechanism=name, quantity="MSE")
        yield measured_value(math.sqrt(2 * math.pi * variance), mechanism=name, quantity="1 / height of the density")
        for tolerance in TOLERANCES:
            yield measured_value(found.within(tolerance), mechanism=name, tolerance=tolerance)
    printed = piecewise_variance(epsilon, VALUES)
    yield measured_value(printed, mechanism="Piecewise, formula as printed", quantity="variance of a report")
    yield measured_value(printed / REPORTS, mechanism="Piecewise, formula as printed", quantity="variance")


def crossing(found: Mapping[str, Deviation]) -> float:
    """The tolerance at which both mechanisms are as likely to stay within."""
    low, high = 1e-4, 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        ahead = found["Piecewise"].within(middle) > found["Square wave"].within(middle)
        low, high = (middle, high) if ahead else (low, middle)
    return low


def moments_by_value(setting: Setting, seed: int) -> Iterator[Number]:
    """Variance and bias of one report by the value that it is about; and the printed variance of Piecewise."""
    epsilon = float(setting["epsilon"])
    for value in (-1.0, 0.0, 0.5, 1.0):
        x = np.array([value])
        for name in ("Laplace", "Piecewise", "SquareWave"):
            mechanism = getattr(dither, name)(epsilon)
            reading = mechanism.read_by("naive" if name == "SquareWave" else "calibrated")
            found = reading.moments(x)
            yield measured_value(float(found.variance[0]), mechanism=name, at=value, quantity="variance")
            yield measured_value(float(found.bias[0]), mechanism=name, at=value, quantity="bias")
        grown = math.expm1(epsilon / 2)
        right = value**2 / grown + (grown + 4) / (3 * grown**2)
        yield measured_value(right, mechanism="Piecewise, right formula", at=value, quantity="variance")
        printed = piecewise_variance(epsilon, x)
        yield measured_value(printed, mechanism="Piecewise, formula as printed", at=value, quantity="variance")


ONCE: Mapping[Scale, int] = {"smoke": 1, "quick": 1, "full": 1}


def _budgeted(setting: Setting) -> Sequence[Mechanism[Any]]:
    epsilon = float(setting["epsilon"])
    return tuple(kind(epsilon) for kind in (dither.Laplace, dither.Piecewise, dither.SquareWave))


def case_experiment(name: str, *budgets: float) -> Experiment:
    """The case study at some budgets of a dimension."""
    return Experiment(name, case_study, grid(epsilon=budgets), ONCE, mechanisms=_budgeted)


def moments_experiment(name: str) -> Experiment:
    """Lemma 1 and eq. 14."""
    return Experiment(name, moments_by_value, grid(epsilon=(0.001, 0.1, 1.0)), ONCE, mechanisms=_budgeted)


# How normal it is --------------------------------------------------------------------------------------------------

MANY_REPORTS = (10, 30, 100, 300, 1000, 10_000, 100_000)
BOUND, PRINTED, TRUE = "bound", "bound as printed", "true distance"


class Density(NamedTuple):
    """Of one report: uniform on intervals (low, high) with some mass each; or Laplace, if there are none."""

    intervals: Sequence[tuple[float, float, float]] = ()

    @property
    def mean(self) -> float:
        """Its mean."""
        return sum(mass * (low + high) / 2 for low, high, mass in self.intervals)

    def moment(self, power: int) -> float:
        """The absolute central moment of this power."""
        if not self.intervals:
            return float(math.factorial(power))  # of Laplace noise with lambda = 1
        nodes, weights = np.polynomial.legendre.leggauss(400)
        total = 0.0
        for low, high, mass in self.intervals:
            x = (low + high) / 2 + (high - low) / 2 * nodes
            total += mass * float(weights @ np.abs(x - self.mean) ** power) / 2
        return total

    def transform(self, t: Numbers) -> Complex:
        """The characteristic function, about the mean."""
        if not self.intervals:
            return (1 / (1 + t**2)).astype(np.complex128)
        found = np.zeros(t.shape, dtype=np.complex128)
        for low, high, mass in self.intervals:
            middle, half = (low + high) / 2 - self.mean, (high - low) / 2
            found += mass * np.exp(1j * t * middle) * np.sinc(t * half / math.pi)
        return found


def density(mechanism: str, epsilon: float, value: float) -> Density:
    """Of one report about a value in [-1, 1], without a lattice; square wave and Piecewise have a window each."""
    if mechanism == "Laplace":
        return Density()
    share = math.exp(-epsilon / 2) if mechanism == "Piecewise" else square_wave_share(epsilon)
    low = 1 / (1 + share * math.exp(epsilon))  # of the domain's length, which is 1 here, and the window's share
    place = (value + 1) / 2
    extra = low * math.expm1(epsilon)
    return Density(
        (
            (-share / 2, 1 + share / 2, low * (1 + share)),
            (place - share / 2, place + share / 2, extra * share),
        )
    )


def distance(one: Density, reports: int) -> float:
    """sup |F - Phi| of a standardised average, by inverting its characteristic function (Gil-Pelaez)."""
    t = np.linspace(0, 40, 2001)[1:]
    spread = math.sqrt(one.moment(2) * reports)
    apart = one.transform(t / spread) ** reports - np.exp(-(t**2) / 2)
    x = np.linspace(-4, 4, 161)
    waves = np.imag(np.exp(-1j * np.outer(x, t)) * apart) / t
    return float(np.max(np.abs(waves.sum(axis=1)))) * (t[1] - t[0]) / math.pi


def berry_esseen(setting: Setting, seed: int) -> Iterator[Number]:
    """Theorem 2: its bound as printed and right, beside the true distance from a normal law."""
    one = density(str(setting["mechanism"]), 1.0, 0.9)
    cube, third = one.moment(2) ** 1.5, one.moment(3)
    for reports in MANY_REPORTS:
        root = math.sqrt(reports)
        yield measured_value(0.33554 * (third + 0.415 * cube) / (cube * root), line=BOUND, reports=reports)
        if setting["mechanism"] == "Laplace":
            yield measured_value(laplace_bound(reports), line=PRINTED, reports=reports)
        yield measured_value(distance(one, reports), line=TRUE, reports=reports)


def berry_esseen_experiment(name: str) -> Experiment:
    """Theorem 2 for three mechanisms at epsilon 1 and a value of 0.9."""
    return Experiment(name, berry_esseen, grid(mechanism=("Laplace", "Piecewise", "SquareWave")), ONCE)


# Law against reports -----------------------------------------------------------------------------------------------

UNIFORM_CASE, CASE = "uniform", "case study"
_USERS, _ASKED, _UNIFORM_EPSILON = 200_000, 2000, 1 / 50
_BINS = 15


class Asked(NamedTuple):
    """One dimension of a figure: who may be asked, how many are, at which epsilon, and the units of the figure."""

    values: Numbers
    asked: int
    epsilon: float
    unit: float = 1.0


def asked_users(figure: str, mechanism: str) -> Asked:
    """The users of Fig. 2 (uniform: n = 200,000, d = 5,000, m = 50, epsilon 1) and of Fig. 3 (the case study)."""
    if figure == UNIFORM_CASE:
        return Asked(np.random.default_rng(41).uniform(-1, 1, _USERS), _ASKED, _UNIFORM_EPSILON)
    values = np.repeat(VALUES, REPORTS // len(VALUES))
    if mechanism == "SquareWave":
        return Asked(2 * values - 1, REPORTS, CASE_EPSILON, 0.5)
    return Asked(values, REPORTS, CASE_EPSILON)


def deviation_law(mechanism: Mechanism[Any], estimator: str, users: Asked) -> tuple[float, float]:
    """Bias and standard deviation, with what the draw of those who are asked adds; in units of the figure."""
    found = deviation(mechanism, users.values, reports=users.asked, estimator=estimator)
    reading = mechanism.read_by(estimator)
    assert reading is not None
    meant = users.values + reading.moments(users.values).bias
    drawn = (1 - users.asked / len(users.values)) * float(np.var(meant)) / users.asked
    return users.unit * float(found.bias), users.unit * math.sqrt(float(found.variance) + drawn)


def deviations(setting: Setting, seed: int) -> Iterator[Number]:
    """Many runs of one dimension: the density of their deviations beside that of the law, and how well they agree."""
    name = str(setting["mechanism"])
    users = asked_users(str(setting["figure"]), name)
    mechanism = getattr(dither, name)(users.epsilon)
    estimator = "naive" if name == "SquareWave" else "calibrated"
    bias, stderr = deviation_law(mechanism, estimator, users)
    rng, runs = np.random.default_rng(seed), int(setting["runs"])
    rows = [rng.choice(users.values, users.asked, replace=False) for _ in range(runs)]
    reports = mechanism.randomize(np.concatenate(rows), seed=seed % (1 << 62))
    scores = mechanism.read_by(estimator).scores[reports["value"]].reshape(runs, -1)
    found = users.unit * (scores.mean(axis=1) - users.values.mean())
    yield from agreement(found, bias, stderr)


def agreement(found: Numbers, bias: float, stderr: float) -> Iterator[Number]:
    """The densities of deviations and of their law, and Kolmogorov's test of the one against the other."""
    stats = require("scipy.stats", "fast")
    z = (found - bias) / stderr
    edges = np.linspace(-3.75, 3.75, _BINS + 1)
    counts, _ = np.histogram(z, edges)
    heights = counts / (len(z) * (edges[1] - edges[0]) * stderr)
    for centre, height in zip((edges[1:] + edges[:-1]) / 2, heights, strict=True):
        yield measured_value(height, line="reports", deviation=float(f"{bias + stderr * centre:.6g}"))
    for place in np.linspace(-4, 4, 41):
        height = math.exp(-(place**2) / 2) / (math.sqrt(2 * math.pi) * stderr)
        yield measured_value(height, line="law", deviation=float(f"{bias + stderr * place:.6g}"))
    yield measured_value(len(found), quantity="runs")
    yield measured_value(bias, quantity="bias")
    yield measured_value(stderr, quantity="standard deviation")
    yield measured_value(float(found.mean()), quantity="mean of runs")
    yield measured_value(float(np.std(z, ddof=1)), quantity="sd of runs / law")
    yield measured_value(float(np.mean(found**2)) / (bias**2 + stderr**2), quantity="MSE of runs / law")
    yield measured_value(float(stats.kstest(z, "norm").pvalue), quantity="Kolmogorov p")


def _asked_by(setting: Setting) -> Sequence[Mechanism[Any]]:
    name = str(setting["mechanism"])
    return (getattr(dither, name)(asked_users(str(setting["figure"]), name).epsilon),)


RUNS: Mapping[Scale, Coordinates] = {"smoke": {"runs": 60}, "quick": {"runs": 250}, "full": {"runs": 250}}
FOUR_TIMES: Mapping[Scale, int] = {"smoke": 1, "quick": 4, "full": 4}


def deviations_experiment(name: str) -> Experiment:
    """Fig. 2 and 3 of 000, Fig. 4.3 and 4.5 of 001: 1,000 runs, in four blocks."""
    return Experiment(
        name,
        deviations,
        (
            *grid(figure=(UNIFORM_CASE,), mechanism=("Laplace", "Piecewise", "SquareWave")),
            *grid(figure=(CASE,), mechanism=("Piecewise", "SquareWave")),
        ),
        FOUR_TIMES,
        RUNS,
        mechanisms=_asked_by,
    )
