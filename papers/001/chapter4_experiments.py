"""What is measured for chapter 4 of 001: the framework and re-calibration of 000, and what the thesis adds to them.

New are personalised budgets (section 4.1.3), the break-even population (Algorithm 3), the rule for the supremum of a
biased deviation, and HDR4ME* (Algorithm 4).
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dither
from dither.core.mechanism import Mechanism
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value
from dither.utility import break_even

from ..framework import (
    CASE_EPSILON,
    FOUR_TIMES,
    ONCE,
    REPORTS,
    RUNS,
    VALUES,
    Formula,
    agreement,
    berry_esseen_experiment,
    case_experiment,
    deviations_experiment,
    piecewise_formula,
    square_wave_formula,
)
from ..recalibration import MECHANISMS, WAVE, dimensions_experiment, real_experiment, sweep_experiment
from ..recalibration_as_printed import always_wins, known_mean_l2, piecewise_variance, supremum
from ..recalibration_theorems import theorems_experiment

Numbers = NDArray[np.float64]

SECOND_EPSILON = 1.0  # of the second half of the case study, which the text does not say
CASE_STUDY = case_experiment("001.deviation_case", CASE_EPSILON, SECOND_EPSILON)
BERRY_ESSEEN = berry_esseen_experiment("001.deviation_bound")
DEVIATIONS = deviations_experiment("001.deviation_runs")
SWEEP = sweep_experiment("001.recalibration_sweep", ("Gaussian", "Poisson", "Uniform", "Factors"))
DIMENSIONS = dimensions_experiment("001.recalibration_dimensions", ("Factors", "MNIST"))
REAL_DATA = real_experiment("001.recalibration_real")
THEOREMS = theorems_experiment("001.recalibration_theorems")


# Personalised budgets ----------------------------------------------------------------------------------------------

_ASKED = 10_000  # of a million users, d = 2,000, m = 20
_BUDGETS = (0.05, 0.25, 0.5, 0.75, 1.0)  # 1, 5, 10, 15 and 20 over 20 dimensions


class Chosen(NamedTuple):
    """Users of one subgroup: a budget, and the region, half as wide as the domain, on whose side their values are."""

    epsilon: float
    centre: float
    values: Numbers


def subgroups() -> list[Chosen]:
    """The users who report dimension 1, uniform in [-1, 1], in ten subgroups of five budgets and two regions."""
    rng = np.random.default_rng(44)
    values, budgets = rng.uniform(-1, 1, _ASKED), rng.integers(0, len(_BUDGETS), _ASKED)
    return [
        Chosen(epsilon, side / 2, values[(budgets == place) & (np.where(values < 0, -1, 1) == side)])
        for place, epsilon in enumerate(_BUDGETS)
        for side in (-1, 1)
    ]


def personalised_law(mechanism: str) -> tuple[float, float]:
    """Bias and standard deviation of the pooled mean (eq. 4.39), of reports that are scaled back to their regions."""
    bias = variance = 0.0
    for group in subgroups():
        reading = _reading(mechanism, group.epsilon)
        moments = reading.moments(2 * (group.values - group.centre))
        bias += float(np.sum(moments.bias)) / 2 / _ASKED
        variance += float(np.sum(moments.variance)) / 4 / _ASKED**2
    return bias, math.sqrt(variance)


def _reading(mechanism: str, epsilon: float) -> Any:
    """Of the square wave, outputs as they are."""
    return getattr(dither, mechanism)(epsilon).read_by("naive" if mechanism == WAVE else "calibrated")


def personalised(setting: Setting, seed: int) -> Iterator[Number]:
    """Many runs of all subgroups, beside the law of the pooled deviation."""
    name, runs = str(setting["mechanism"]), int(setting["runs"])
    total = np.zeros(runs)
    truth = 0.0
    for place, group in enumerate(subgroups()):
        scaled = np.tile(2 * (group.values - group.centre), runs)
        reports = getattr(dither, name)(group.epsilon).randomize(scaled, seed=seed % (1 << 61) + place)
        scores = _reading(name, group.epsilon).scores[reports["value"]].reshape(runs, -1)
        total += np.sum(group.centre + scores / 2, axis=1)
        truth += float(group.values.sum())
    yield from agreement((total - truth) / _ASKED, *personalised_law(name))


def _of_budgets(setting: Setting) -> Sequence[Mechanism[Any]]:
    return tuple(getattr(dither, str(setting["mechanism"]))(epsilon) for epsilon in _BUDGETS)


PERSONALISED = Experiment(
    "001.deviation_personalised",
    personalised,
    grid(mechanism=MECHANISMS),
    FOUR_TIMES,
    {**RUNS, "smoke": {"runs": 20}},
    mechanisms=_of_budgets,
)


# Break-even populations and suprema ----------------------------------------------------------------------------------

AS_PRINTED, MIXED = "Square wave, Piecewise: variance as printed", "Square wave, Piecewise"
SWAPPED = "Piecewise, square wave"
UNIT, WHOLE = "Square wave, Piecewise, both on [0, 1]", "Square wave, Piecewise, both on [-1, 1]"
BETTER, WORSE = "Square wave at 1, at 4", "Square wave at 4, at 1"
THRESHOLD, BY_RULE, BY_ERROR = "n'", "B wins at 10,000, Algorithm 3", "B wins at 10,000, by MSE"


def _error(one: Formula, reports: int) -> float:
    return one.bias**2 + one.variance / reports


def break_even_population(setting: Setting, seed: int) -> Iterator[Number]:
    """Algorithm 3 for pairs of mechanisms (A, B), and who really has the smaller error at 10,000 reports."""
    wave, piecewise = square_wave_formula(SECOND_EPSILON), piecewise_formula(SECOND_EPSILON)
    printed, sharper = Formula(0.0, piecewise_variance(SECOND_EPSILON, VALUES)), square_wave_formula(4.0)
    pairs = {
        AS_PRINTED: (wave, printed),
        MIXED: (wave, piecewise),
        SWAPPED: (piecewise, wave),
        BETTER: (wave, sharper),
        WORSE: (sharper, wave),
    }
    for name, (a, b) in pairs.items():
        threshold = (b.variance - a.variance) / (a.bias**2 - b.bias**2)
        yield measured_value(threshold, pair=name, quantity=THRESHOLD)
        rule = always_wins(threshold) or ("A" if threshold >= REPORTS else "B")
        yield measured_value(float(rule == "B"), pair=name, quantity=BY_RULE)
        yield measured_value(float(_error(b, REPORTS) < _error(a, REPORTS)), pair=name, quantity=BY_ERROR)
    for name, values in {UNIT: 2 * VALUES - 1, WHOLE: VALUES}.items():
        one, other = dither.SquareWave(SECOND_EPSILON), dither.Piecewise(SECOND_EPSILON)
        found = break_even(one, other, values, estimators=("naive", "calibrated"), names=("A", "B"))
        yield measured_value(math.ceil(found.reports), pair=name, quantity=THRESHOLD)
        yield measured_value(float(found.winner(REPORTS) == "B"), pair=name, quantity=BY_ERROR)


BREAK_EVEN = Experiment("001.deviation_break_even", break_even_population, ({},), ONCE)

PRINTED_RULE, RIGHT_RULE = "as printed", "right"


def supremum_of_biased(setting: Setting, seed: int) -> Iterator[Number]:
    """The square wave of the second case study: xi at a confidence of 95%, and how often it really holds."""
    law = square_wave_formula(SECOND_EPSILON).deviation()
    rules = {
        PRINTED_RULE: supremum(float(law.bias), float(law.stderr), 0.95),
        RIGHT_RULE: law.supremum(0.95),
    }
    for rule, xi in rules.items():
        yield measured_value(xi, rule=rule, quantity="xi")
        yield measured_value(law.within(xi) if xi > 0 else 0.0, rule=rule, quantity="coverage")


SUPREMUM = Experiment("001.deviation_supremum", supremum_of_biased, ({},), ONCE)


def l2_by_mean(setting: Setting, seed: int) -> Iterator[Number]:
    """What L2 makes of an estimate of 3 with a supremum of 2, by the mean in its weight."""
    mean = float(setting["mean"])
    yield measured_value(float(known_mean_l2(np.array([3.0]), np.array([2.0]), np.array([mean]))[0]), line="L2")


L2_BY_MEAN = Experiment("001.recalibration_l2", l2_by_mean, grid(mean=(0.0, 0.001, 0.1, 1.0)), ONCE)
