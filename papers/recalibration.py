"""Re-calibrated means of many dimensions: what 000 Fig. 4 and 5 and 001 Fig. 4.6 to 4.8 measure.

n users report all of d dimensions at epsilon/d each. The estimate y of a dimension is drawn either

- from its **law**, normal with the exact bias and variance of the integers that are sampled, which takes microseconds
  where n reports take seconds (`tests/papers/test_000.py` compares them), or
- from **reports**: every user's record goes through `dither.Split`, is tallied and estimated.

The variance of a report is a quadratic in the value and its bias is affine (up to the rounding to a lattice, which is
averaged over), so mean and mean square of a column are all that the law needs of it.

Lines, in units where the domain is [-1, 1], with L = 1.96 standard errors, or 3 at 99.7% (the papers name no
confidence), without the square wave's bias (with it, L1 would not coincide with no re-calibration as they say):

- `none`, `L1` (takes L off |y|), `L2` (y / (1 + L), the weight that needs no raw data),
- `L2, known mean` and `HDR4ME*, known mean`: the papers' weight, which is made of the true means (as printed),
- `HDR4ME*`: p1 y + p2 L1 + p3 L2, with the probabilities of a deviation within 1, between 1 and 2, beyond 2,
- `zero`: the control, which says 0 whatever was reported,
- `shrink`: dither's, for the same reports; of the square wave it reads the calibrated means,
- `few, shrink`: dither's, with the best number m of dimensions a user instead of all.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dither
from dither.core.estimate import MEAN, Estimate
from dither.core.mechanism import Mechanism
from dither.errors import HarmWarning
from dither.refine import hdr4me, shrink
from dither.reproduce.experiments import Experiment, Scale, Setting, grid
from dither.reproduce.measured import Coordinates, Number, measured_value
from dither.reproduce.paper_figures import Line

from .recalibration_as_printed import known_mean_l2
from .recalibration_data import REAL, SHAPES, Columns, blocks, columns, dimensions, needed, users_of

Numbers = NDArray[np.float64]

UNBIASED = ("Laplace", "Piecewise")
WAVE = "SquareWave"
MECHANISMS = (*UNBIASED, WAVE)
EPSILONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
WAVE_EPSILONS = (0.1, 10.0, 100.0, 500.0, 1000.0, 5000.0)
DIMENSIONS = (50, 100, 200, 400, 800, 1600)
EPSILON = 0.8  # of the sweep over dimensions
SUPREMUM = NormalDist().inv_cdf(0.975)  # 1.96
SUPREMUM_997 = NormalDist().inv_cdf(0.9985)
MOST_EPSILON = 8.0  # of one report, where real ones are drawn: beyond it a lattice has a million points

LINES = (
    Line("none", "no re-calibration"),
    Line("L1"),
    Line("L2", "L2, weight without raw data"),
    Line("none, reports", "no re-calibration, real reports"),
    Line("L1, reports", "L1, real reports"),
    Line("L2, known mean", "L2 as printed (true means in its weight)", "as printed"),
    Line("zero", "0, whatever is reported", "control"),
    Line("shrink", "dither: shrink", "dither"),
    Line("few, shrink", "dither: best m of d, shrink", "dither"),
)
STAR_LINES = (
    Line("HDR4ME*"),
    Line("HDR4ME*, known mean", "HDR4ME* as printed (true means in L2)", "as printed"),
)


def epsilons(mechanism: str) -> tuple[float, ...]:
    """The budgets of a panel of Fig. 4."""
    return WAVE_EPSILONS if mechanism == WAVE else EPSILONS


@lru_cache(maxsize=512)
def part(mechanism: str, epsilon: float) -> Mechanism[Any]:
    """The mechanism of one dimension."""
    return getattr(dither, mechanism)(epsilon)


# The law ---------------------------------------------------------------------------------------------------------


class Law(NamedTuple):
    """Of the estimate of each column: normal about mean + bias. `slope`: how the mean score grows with the value."""

    bias: Numbers
    stderr: Numbers
    slope: float


@lru_cache(maxsize=512)
def response(mechanism: str, epsilon: float) -> tuple[Numbers, Numbers]:
    """Coefficients of the variance (a quadratic) and of the bias (a line) of one report, as functions of the value.

    The square wave is read as the papers do, outputs as they are.
    """
    x = np.linspace(-1, 1, 401)
    reading = part(mechanism, epsilon).read_by("naive" if mechanism == WAVE else "calibrated")
    assert reading is not None
    moments = reading.moments(x)
    fits = (np.polynomial.polynomial.polyfit(x, *each) for each in ((moments.variance, 2), (moments.bias, 1)))
    variance, bias = (np.asarray(fit, dtype=np.float64) for fit in fits)
    return variance, bias


def law(mechanism: str, epsilon: float, users: Columns, reported: int | None = None) -> Law:
    """Of the estimates of all columns, where a user reports `reported` of them (all, if left out) for epsilon."""
    share = 1.0 if reported is None else reported / users.d
    many = users.n * share
    noise, bias = response(mechanism, epsilon / (users.d * share))
    variance = noise[0] + noise[1] * users.mean + noise[2] * users.square
    slope = 1 + bias[1]
    asked = (1 - share) * slope**2 * users.variance  # those who were asked differ from all
    return Law(bias[0] + bias[1] * users.mean, np.sqrt(np.maximum(variance + asked, 0.0) / many), float(slope))


def recalibrated(y: Numbers, found: Law, mean: Numbers) -> dict[str, Numbers]:
    """What the papers make of estimates y (in rows, of all columns), by line."""
    reach = SUPREMUM * found.stderr
    soft, even = _soft(y, reach), y / (1 + reach)
    known = known_mean_l2(y, reach, mean)
    within_one, within_two = (_within(limit, found) for limit in (1.0, 2.0))

    def star(l2: Numbers) -> Numbers:
        return within_one * y + (within_two - within_one) * soft + (1 - within_two) * l2

    return {
        "none": y,
        "L1": soft,
        "L1, 99.7%": _soft(y, SUPREMUM_997 * found.stderr),
        "L2": even,
        "L2, known mean": known,
        "HDR4ME*": star(even),
        "HDR4ME*, known mean": star(known),
        "zero": np.zeros_like(y),
    }


def _soft(y: Numbers, reach: Numbers) -> Numbers:
    return np.sign(y) * np.maximum(np.abs(y) - reach, 0.0)


def _within(limit: float, found: Law) -> Numbers:
    """The probability that a deviation is within a limit."""
    scale = np.maximum(found.stderr, 1e-300) * math.sqrt(2)
    ends = ((sign * limit - found.bias) / scale for sign in (-1, 1))
    low, high = (np.array([math.erf(each) for each in end]) for end in ends)
    return (high - low) / 2


def mse(estimates: Numbers, mean: Numbers) -> Numbers:
    """The mean squared error of each row."""
    return np.mean((estimates - mean) ** 2, axis=-1)


def shrunk(y: Numbers, stderr: Numbers, mechanism: Mechanism[Any], n: int) -> Numbers:
    """What dither makes of the same estimates."""
    floor = np.maximum(stderr, 1e-12)
    return np.asarray(shrink(Estimate(y, floor, n, mechanism.guarantee, bounds=MEAN)).value)


def by_law(
    mechanism: str, epsilon: float, users: Columns, draws: int, shrinks: int, rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Mean squared errors by line, one for each draw of all estimates; `shrink` takes time, and some of the draws."""
    found = law(mechanism, epsilon, users)
    y = users.mean + found.bias + found.stderr * rng.standard_normal((draws, users.d))
    for line, estimates in recalibrated(y, found, users.mean).items():
        yield from ((line, float(each)) for each in mse(estimates, users.mean))
    one = part(mechanism, epsilon / users.d)
    for each in y[:shrinks]:
        better = shrunk(each / found.slope, found.stderr / found.slope, one, users.n)
        yield "shrink", float(mse(better, users.mean))
    if mechanism == WAVE:
        return
    few = dither.Sampled(mechanism, d=users.d, epsilon=epsilon)
    assert few.m is not None
    found = law(mechanism, epsilon, users, few.m)
    for each in users.mean + found.stderr * rng.standard_normal((shrinks, users.d)):
        better = shrunk(each, found.stderr, few.components[0], users.n)
        yield "few, shrink", float(mse(better, users.mean))


# Reports ---------------------------------------------------------------------------------------------------------


def by_reports(
    mechanism: str, epsilon: float, rows: Callable[[], Iterator[NDArray]], seed: int
) -> Iterator[tuple[str, float]]:
    """The same from reports of all users; `rows` gives them block by block."""
    tally, split, total, seen = None, None, 0.0, 0
    for place, block in enumerate(rows()):
        split = split or dither.Split(mechanism, d=block.shape[1], epsilon=epsilon)
        added = split.tally(split.randomize(block, seed=seed + place))
        tally = added if tally is None else tally + added
        total, seen = total + block.sum(axis=0, dtype=np.float64), seen + len(block)
    assert split is not None
    assert tally is not None
    mean = np.asarray(total) / seen
    found = split.estimate(tally, split.naive) if mechanism == WAVE else split.estimate(tally)
    yield "none, reports", float(mse(np.asarray(found.value), mean))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HarmWarning)
        for line, penalty in (("L1", "l1"), ("L2", "l2"), ("HDR4ME*", "adaptive")):
            yield f"{line}, reports", float(mse(np.asarray(hdr4me(found, penalty).value), mean))
    better = shrink(split.estimate(tally))
    yield "shrink, reports", float(mse(np.asarray(better.value), mean))


# Experiments -----------------------------------------------------------------------------------------------------


def sweep(setting: Setting, seed: int) -> Iterator[Number]:
    """Mean squared errors by epsilon: of one panel by the law, or of one point from reports."""
    name, mechanism, share = str(setting["data"]), str(setting["mechanism"]), float(setting["share"])
    n = round(share * columns(name, 0).n) if name in REAL else users_of(name, share)
    if setting["source"] == "reports":
        epsilon = float(setting["epsilon"])
        for line, error in by_reports(mechanism, epsilon, lambda: blocks(name, n), seed):
            yield measured_value(error, line=line)
        return
    rng, users = np.random.default_rng(seed), columns(name, n)
    for epsilon in epsilons(mechanism):
        found = by_law(mechanism, epsilon, users, int(setting["draws"]), int(setting["shrinks"]), rng)
        yield from (measured_value(error, epsilon=epsilon, line=line) for line, error in found)


def by_dimensions(setting: Setting, seed: int) -> Iterator[Number]:
    """Mean squared errors by the number of dimensions, at epsilon 0.8."""
    name, mechanism = str(setting["data"]), str(setting["mechanism"])
    n = users_of(name, float(setting["share"]))
    if setting["source"] == "reports":
        chosen = dimensions(name, int(setting["d"]))
        rows = lambda: (block[:, chosen] for block in blocks(name, n))  # noqa: E731
        yield from (measured_value(error, line=line) for line, error in by_reports(mechanism, EPSILON, rows, seed))
        return
    rng, users = np.random.default_rng(seed), columns(name, n)
    for d in DIMENSIONS:
        some = users.some(dimensions(name, d))
        found = by_law(mechanism, EPSILON, some, int(setting["draws"]), int(setting["shrinks"]), rng)
        yield from (measured_value(error, d=d, line=line) for line, error in found)


def _mechanisms(setting: Setting) -> Sequence[Mechanism[Any]]:
    """Those of one dimension, at the budgets of a panel or a point."""
    name, mechanism = str(setting["data"]), str(setting["mechanism"])
    if name in REAL:  # their numbers of columns are known when they are read: at a budget that all have
        return (part(mechanism, 0.01),)
    width = SHAPES[name][1]
    if "epsilon" in setting:
        return (part(mechanism, float(setting["epsilon"]) / width),)
    return tuple(part(mechanism, epsilon / width) for epsilon in epsilons(mechanism))


def _mechanisms_by_dimensions(setting: Setting) -> Sequence[Mechanism[Any]]:
    widths = (int(setting["d"]),) if "d" in setting else DIMENSIONS
    return tuple(part(str(setting["mechanism"]), EPSILON / d) for d in widths)


def _data(setting: Setting) -> Any:
    return needed(str(setting["data"]))


SIZES: Mapping[Scale, Coordinates] = {
    "smoke": {"share": 0.01, "draws": 8, "shrinks": 1},
    "quick": {"share": 1.0, "draws": 100, "shrinks": 4},
    "full": {"share": 1.0, "draws": 100, "shrinks": 20},
}


def sweep_experiment(name: str, data: Sequence[str]) -> Experiment:
    """Fig. 4 of 000 and Fig. 4.6 of 001: by epsilon."""
    points = [
        point
        for each in data
        for mechanism in MECHANISMS
        for point in grid(source=("reports",), data=(each,), mechanism=(mechanism,), epsilon=epsilons(mechanism))
        if float(point["epsilon"]) / SHAPES[each][1] <= MOST_EPSILON
    ]
    return Experiment(
        name,
        sweep,
        (*grid(source=("law",), data=data, mechanism=MECHANISMS), *points),
        {"smoke": 1, "quick": 1, "full": 5},
        SIZES,
        {
            "smoke": (
                {"source": "law", "data": "Gaussian"},
                {"source": "reports", "data": "Gaussian", "epsilon": EPSILON},
            ),
            "quick": (
                {"source": "law"},
                {"source": "reports", "data": "Gaussian"},
                *({"source": "reports", "epsilon": epsilon} for epsilon in (EPSILON, 100.0)),
            ),
        },
        _mechanisms,
        _data,
        "Laws have 100 draws, as the paper has repetitions; 100 of real reports would take some 16 hours of one core.",
    )


def dimensions_experiment(name: str, data: Sequence[str]) -> Experiment:
    """Fig. 5 of 000 and Fig. 4.7 of 001: by the number of dimensions."""
    return Experiment(
        name,
        by_dimensions,
        (
            *grid(source=("law",), data=data, mechanism=UNBIASED),
            *grid(source=("reports",), data=data, mechanism=UNBIASED, d=DIMENSIONS),
        ),
        {"smoke": 1, "quick": 1, "full": 5},
        SIZES,
        {
            "smoke": (
                *({"source": "law", "data": each} for each in data if not needed(each)),
                *({"source": "reports", "data": each, "d": 50} for each in data if not needed(each)),
            ),
            "quick": ({"source": "law"}, *({"source": "reports", "d": d} for d in DIMENSIONS[:2])),
        },
        _mechanisms_by_dimensions,
        _data,
        "Laws have 100 draws, as the paper has repetitions; 100 of real reports would take some 4 hours of one core.",
    )


def real_experiment(name: str) -> Experiment:
    """Fig. 4.8 of 001: by epsilon, on real data."""
    return Experiment(
        name,
        sweep,
        (
            *grid(source=("law",), data=REAL, mechanism=MECHANISMS),
            *grid(source=("reports",), data=REAL, mechanism=UNBIASED, epsilon=(EPSILON,)),
        ),
        {"smoke": 1, "quick": 1, "full": 5},
        SIZES,
        {
            "smoke": ({"source": "law", "data": "Flights"},),
            "quick": (
                {"source": "law"},
                {"source": "reports", "data": "Flights"},
                {"source": "reports", "data": "CPS"},
            ),
        },
        _mechanisms,
        _data,
    )
