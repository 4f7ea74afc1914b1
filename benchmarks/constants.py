"""How much results depend on the constants that were fitted: each at half, as it is, and at twice its value.

    python benchmarks/constants.py                       all of them, small: half an hour on two idle cores
    python benchmarks/constants.py ranges.model._GUESS   one of them; several names are measured one after the other
    python benchmarks/constants.py --users 1000000 ...   the size at which those of ranges were fitted

A constant is measured where it acts, on data that it was not derived from:

- **ranges**: the mean absolute error of 60 queries about two and 60 about four of five attributes (half of each, on a
  Normal, a Clustered and a Ring sample of benchmarks/ranges.py) at epsilon .5 and 2, with the method that uses it; and
  the share of 95% intervals that hold the truth. For `_SMOOTHED` the predicted error over that which came out.
- **phases**: range queries in two phases on the 14 populations of benchmarks/range_calibration.py, which no benchmark
  judges by, at epsilon 1: the mean absolute error in thousandths and the standard error that is stated (geometric
  means over populations and over one to four attributes), the share of 95% intervals that hold the truth for one to
  four attributes, and the least of these over all populations.
- **shrink**: the mean squared error of `refine.shrink` over that of doing nothing, as a geometric mean over the shapes
  of benchmarks/refine.py, the largest of all, and the coverage.
- **cumulative**: of shares below thresholds, over eight shapes and three budgets, the predicted error of a square wave
  over that which came out, the geometric mean and the least for the hardest shape; and how often the planner takes it,
  of combinations of cells, users and epsilon.
- **linear**: misclassification above that of the true coefficients, of logistic regressions with 10 and 40 features, at
  epsilon 1 and 4.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from typing import Any
from zlib import crc32

import click
import numpy as np

import ordered
import range_calibration
import ranges
import refine
import two_phases
from dither import SquareWave
from dither.display.table import TextTable
from dither.learn.linear import LogisticRegression
from dither.mechanisms.cumulative_error import hardest_error
from dither.ranges import quantile_places
from dither.ranges.error_prediction import predicted
from dither.refine import shrink

Figures = dict[str, float]

FACTORS = (0.5, 1.0, 2.0)
SHAPE, KINDS, EPSILONS, QUERIES, LAMBDAS = (64,) * 5, ("Normal", "Clustered", "Ring"), (0.5, 2.0), 60, (2, 4)


def over_ranges(method: str, users: int) -> Figures:
    """Errors and coverage of a method for range queries."""
    errors: dict[int, list[ranges.Error]] = {count: [] for count in LAMBDAS}
    for kind in KINDS:
        people = ranges.People.drawn(kind, 0, users, SHAPE)
        assert people is not None
        asked = {str(count): ranges.queries(SHAPE, count, QUERIES, 0.5, count, anywhere=True) for count in LAMBDAS}
        trial = ranges.Trial.drawn(people, 0, asked)
        for epsilon in EPSILONS:
            found = trial.run(ranges.made(method, SHAPE, epsilon, users))
            for count in LAMBDAS:
                errors[count].append(found[str(count)])
    return {
        f"{what} {count}": float(np.mean([getattr(each, name) for each in errors[count]]))
        for name, what in (("absolute", "error"), ("covered", "inside"))
        for count in LAMBDAS
    }


@cache
def _collected(name: str, users: int, *_varied: float) -> tuple[two_phases.Records, two_phases.Collected]:
    """A population of the calibration and its two tallies."""
    random = np.random.default_rng([crc32(name.encode()), 0])
    records = range_calibration.POPULATIONS[name](random, users)
    return records, two_phases.collected(records, 1.0, 0)


def over_phases(users: int) -> Figures:
    """Errors, stated errors and coverage of two phases. Only two constants change what is collected."""
    varied = quantile_places._EVEN, quantile_places._GAP
    runs = []
    for name in range_calibration.POPULATIONS:
        records, told = _collected(name, users, *varied)
        runs.append(two_phases.scores(two_phases.estimated(told), records, 0))
    held = {
        count: [np.mean([run[count, kind].held for kind in (False, True)]).item() for run in runs]
        for count in two_phases.LAMBDAS
    }
    scores = [score for run in runs for score in run.values()]
    return {
        "error": 1000 * float(np.exp(np.mean([np.log(each.error) for each in scores]))),
        "stated": 1000 * float(np.exp(np.mean([np.log(each.stated) for each in scores]))),
        **{f"inside {count}": float(np.mean(each)) for count, each in held.items()},
        "least": min(min(each) for each in held.values()),
    }


def prediction(users: int) -> Figures:
    """The predicted error of Copula over what came out, the geometric mean and the least."""
    ratios = []
    for kind in KINDS:
        people = ranges.People.drawn(kind, 0, users, SHAPE)
        assert people is not None
        trial = ranges.Trial.drawn(people, 0, {"2": ranges.queries(SHAPE, 2, QUERIES, 0.5, 2, anywhere=True)})
        for epsilon in EPSILONS:
            mechanism = ranges.made("Copula", SHAPE, epsilon, users)
            # Where errors are normal, the mean absolute one is .8 of the root of the mean square.
            ratios.append(0.8 * predicted(mechanism, users).rmse / trial.run(mechanism)["2"].absolute)
    return {"predicted / realised": float(np.exp(np.mean(np.log(ratios)))), "least": min(ratios)}


def over_shapes(users: int) -> Figures:
    """Errors and coverage of shrink."""
    ratios, held = [], []
    for name in refine.SHAPES:
        for number in range(4):
            setting = refine.shape(name, number, 1)
            for seed in range(setting.repeated):
                estimate = setting.draw(seed)
                better = shrink(estimate)
                low, high = better.interval(0.95)
                ratios.append(
                    np.mean((better.value - setting.truth) ** 2) / np.mean((estimate.value - setting.truth) ** 2)
                )
                held.append(np.mean((low <= setting.truth) & (setting.truth <= high)))
    return {"mse ratio": float(np.exp(np.mean(np.log(ratios)))), "largest": max(ratios), "inside": float(np.mean(held))}


def over_thresholds(whole: bool, users: int) -> Figures:
    """The predicted error of shares below thresholds over what came out, and how often a square wave is planned."""
    ratios, least = [], []
    for epsilon in (0.5, 1.0, 2.0):
        errors = [crowd.error(SquareWave(epsilon), 4) for crowd in ordered.crowds(users, whole=whole).values()]
        expected = hardest_error(epsilon, users, places=whole)
        ratios += [expected / error for error in errors]
        least.append(expected / max(errors))
    sizes = (10, 20, 40, 80, 128) if whole else (ordered.CELLS,)
    settings = [(k, n, e) for k in sizes for n in (10**4, 10**6) for e in (0.25, 1.0, 2.0, 4.0)]
    taken = [ordered.chosen(k, n, e, whole=whole) == "SquareWave" for k, n, e in settings]
    return {
        "predicted / realised": float(np.exp(np.mean(np.log(ratios)))),
        "least": min(least),
        "square wave planned": float(np.mean(taken)),
    }


def over_models(users: int) -> Figures:
    """What private logistic regressions miss beyond the true coefficients."""
    found: Figures = {}
    for d in (10, 40):
        for epsilon in (1.0, 4.0):
            missed = []
            for seed in range(3):
                rng = np.random.default_rng(seed)
                features, direction = rng.uniform(-1, 1, (users, d)), rng.normal(0, 3 / np.sqrt(d), d)
                score = features @ direction - 0.5
                labels = (rng.random(users) < 1 / (1 + np.exp(-score))).astype(int)
                train = users * 3 // 4
                model = LogisticRegression(epsilon, seed=seed).fit(features[:train], labels[:train])
                least = np.mean((score[train:] > 0) != labels[train:])
                missed.append(1 - model.score(features[train:], labels[train:]) - least)
            found[f"d {d}, epsilon {epsilon:g}"] = float(np.mean(missed))
    return found


CONSTANTS: dict[str, Callable[[int], Figures]] = {
    "ranges.model._GUESS": partial(over_ranges, "Copula"),
    "ranges.model._UNKNOWN": partial(over_ranges, "MSW"),
    "ranges.interaction._BELIEF": partial(over_ranges, "Copula"),
    "ranges.interaction._TEMPER": over_phases,
    "ranges.interaction._CLUSTERED": over_phases,
    "ranges.interaction._HIDDEN": over_phases,
    "ranges.interaction._SCEPTICAL": over_phases,
    "ranges.inside_cells._BENT": over_phases,
    "ranges.bends._BENT": over_phases,
    "ranges.bends._ALIKE": over_phases,
    "ranges.fit._TEMPER": over_phases,
    "ranges.model._UNSEEN": over_phases,
    "ranges.quantile_places._EVEN": over_phases,
    "ranges.quantile_places._GAP": over_phases,
    "estimation.density._HEIGHT": over_phases,
    "ranges.fit._LEAST_DEPARTURE": partial(over_ranges, "Copula"),
    "ranges.copula._PACE": partial(over_ranges, "Copula"),
    "ranges.granularity.OWN_1": partial(over_ranges, "HDG"),
    "ranges.granularity.OWN_2": partial(over_ranges, "HDG"),
    "ranges.granularity.OWN_ALONE": partial(over_ranges, "TDG"),
    "ranges.granularity.ODD": partial(over_ranges, "HDG"),
    "ranges.error_prediction._SMOOTHED": prediction,
    "mechanisms.cumulative_error.ANYWHERE": partial(over_thresholds, False),
    "mechanisms.cumulative_error.AT_PLACES": partial(over_thresholds, True),
    "refine.shrink.AMBITION": over_shapes,
    "refine.shrink._TEMPERATURE": over_shapes,
    "refine.shrink._CLUSTERED": over_shapes,
    "learn.linear.models.LogisticRegression.pace": over_models,
    "learn.linear.schedule.RIDGE": over_models,
    "learn.linear.schedule.FIRST_SHARE": over_models,
}


@contextmanager
def scaled(name: str, factor: float) -> Iterator[None]:
    """The constant, or every entry of it, times a factor; nothing computed before is kept."""
    *path, constant = name.split(".")
    owner: Any = import_module(".".join(["dither", *(each for each in path if each.islower())]))
    kept = [each for each in vars(owner).values() if hasattr(each, "cache_clear")]
    for each in path:
        owner = owner if each.islower() else getattr(owner, each)
    usual = getattr(owner, constant)
    other = {key: factor * each for key, each in usual.items()} if isinstance(usual, dict) else factor * usual
    try:
        setattr(owner, constant, other)
        for each in kept:
            each.cache_clear()
        yield
    finally:
        setattr(owner, constant, usual)
        for each in kept:
            each.cache_clear()


def varied(name: str, users: int) -> TextTable:
    """One row a factor."""
    rows = []
    for factor in FACTORS:
        with scaled(name, factor):
            rows.append({"times": factor, **CONSTANTS[name](users)})
    return TextTable({column: [row[column] for row in rows] for column in rows[0]})


@click.command(help=(__doc__ or "").split("\n")[0])
@click.argument("names", nargs=-1, type=click.Choice(list(CONSTANTS)))
@click.option("--users", default=100_000, show_default=True)
def main(names: Sequence[str], users: int) -> None:
    """Measure and print."""
    for name in names or CONSTANTS:
        click.echo(f"{name}, {users:,} users\n{varied(name, users)}\n")


if __name__ == "__main__":
    main()
