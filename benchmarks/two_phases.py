"""Range queries in one phase and in two: errors and coverage of `Copula` on users who are spread in different ways.

    python benchmarks/two_phases.py                       14 populations, three collections: six minutes of one core
    python benchmarks/two_phases.py --seeds 1 ring zeros  some of them

Six attributes of 64 values. Queries about one to four attributes, half of which cover half of each domain, and half of
which end at quantiles of the users. Errors are mean absolute ones; their ratios are geometric means over the kinds of
queries. Coverage is that of 95% intervals, for one to four attributes. "Off" is the mean absolute error and "state" the
standard error, both in thousandths, as geometric means over the kinds of queries. What
was chosen by looking at these users, and what was not, is in docs/decisions/0051-honest-ranges.md and
0054-what-cells-hide.md.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import crc32

import click
import numpy as np
from numpy.typing import NDArray

from dither.core.tally import Tally
from dither.display.table import TextTable
from dither.ranges import Copula
from dither.ranges.collection import RangeReading

Records = NDArray[np.int64]
Query = dict[int, tuple[int, int]]

D, C = 6, 64
SHAPE = (C,) * D
LAMBDAS, QUERIES, FIRST = (1, 2, 3, 4), 40, 4


# Users ---------------------------------------------------------------------------------------------------------------


def cut(values: NDArray, low: float, high: float) -> Records:
    """Numbers as values 0, 1, ... of equal width."""
    return np.clip((values - low) / (high - low) * C, 0, C - 1).astype(np.int64)


def normal(rng: np.random.Generator, n: int, correlation: float) -> NDArray:
    """Normal numbers, each two with this correlation."""
    shared = rng.standard_normal((n, 1))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.standard_normal((n, D))


def zeros(rng: np.random.Generator, n: int) -> Records:
    """A third to four fifths have nothing."""
    z = normal(rng, n, 0.6)
    some = normal(rng, n, 0.4) > np.linspace(-0.3, 0.8, D)
    return np.where(some, cut(np.exp(0.8 * z), 0, 10), 0)


def heaps(rng: np.random.Generator, n: int) -> Records:
    """Two in five round to tens, three in ten to fives."""
    value = np.clip(np.rint(C / 2 + C / 8 * normal(rng, n, 0.5)), 0, C - 1)
    draw = rng.random((n, D))
    rounded = np.where(draw < 0.4, np.rint(value / 10) * 10, np.where(draw < 0.7, np.rint(value / 5) * 5, value))
    return np.clip(rounded, 0, C - 1).astype(np.int64)


def clusters(rng: np.random.Generator, n: int) -> Records:
    """Three tight ones."""
    centres = np.array([[0.2] * D, [0.5, 0.8] * (D // 2), [0.85, 0.3] * (D // 2)])
    return cut(centres[rng.choice(3, n, p=[0.5, 0.3, 0.2])] + 0.04 * rng.standard_normal((n, D)), 0, 1)


def two_clusters(rng: np.random.Generator, n: int) -> Records:
    """One on either side of the middle."""
    side = np.where(rng.integers(0, 2, (n, 1)) == 1, 2.0, -1.5) * np.where(np.arange(D) % 2 == 0, 1, -1)
    return cut(side + 0.5 * rng.standard_normal((n, D)), -4, 4)


def ring(rng: np.random.Generator, n: int) -> Records:
    """Places on a circle."""
    angle = rng.uniform(0, 2 * np.pi, (n, 1))
    return cut(3 * np.cos(angle + np.arange(D)) + 0.3 * rng.standard_normal((n, D)), -4, 4)


def banana(rng: np.random.Generator, n: int) -> Records:
    """A number and its square."""
    x = rng.standard_normal((n, 1))
    return cut(np.where(np.arange(D) % 2, x * x * 0.8 - 1, x) + 0.4 * rng.standard_normal((n, D)), -4, 5)


def parity(rng: np.random.Generator, n: int) -> Records:
    """Every third attribute follows from two others, and from neither of them."""
    bits = rng.integers(0, 2, (n, D))
    bits[:, 2], bits[:, 5] = (bits[:, 0] + bits[:, 1]) % 2, (bits[:, 3] + bits[:, 4]) % 2
    return cut((bits * 2 - 1) * 1.5 + 0.7 * rng.standard_normal((n, D)), -4, 4)


def like_adult(rng: np.random.Generator, n: int) -> Records:
    """Ages, years of education, hours, gains and losses of which most have none, and a long-tailed weight."""
    age = np.clip(17 + rng.gamma(2.3, 9.5, n), 17, 90)
    education = np.clip(np.rint(10 + 2.5 * rng.standard_normal(n)), 1, 16)
    usual = rng.random(n) < 0.47
    hours = np.where(usual, 40, np.clip(40 + 12 * rng.standard_normal(n) + 2 * (education - 10) / 3, 1, 99))
    gains = rng.random(n) < 0.08 + 0.02 * (education > 12)
    gain = np.where(gains, np.exp(8.7 + 1.2 * rng.standard_normal(n)), 0)
    loss = np.where(rng.random(n) < 0.05, rng.normal(1870, 300, n), 0)
    weight = np.exp(12 + 0.5 * rng.standard_normal(n))
    columns = [(age, 17, 91), (education, 1, 17), (hours, 1, 100), (gain, 0, 1e5), (loss, 0, 4400), (weight, 0, 1.5e6)]
    return np.column_stack([cut(*each) for each in columns])


def mixed(rng: np.random.Generator, n: int) -> Records:
    """Normal, lognormal, squared and half-empty ones."""
    z = normal(rng, n, 0.4)
    found = cut(z, -4, 4)
    found[:, 1], found[:, 2] = cut(np.exp(1.2 * z[:, 1]), 0, 20), cut(z[:, 2] ** 2, 0, 12)
    found[:, 3] = np.where(z[:, 3] > 0, cut(z[:, 3], -1, 4), 0)
    return found


POPULATIONS: dict[str, Callable[[np.random.Generator, int], Records]] = {
    "normal": lambda rng, n: cut(normal(rng, n, 0.5), -4, 4),
    "indep": lambda rng, n: cut(normal(rng, n, 0.0) * np.linspace(0.5, 1.5, D), -5, 5),
    "r99": lambda rng, n: cut(normal(rng, n, 0.99), -4, 4),
    "heavy": lambda rng, n: cut(np.exp(1.6 * normal(rng, n, 0.6)), 0, 60),
    "heavy2": lambda rng, n: cut(
        np.abs(rng.standard_cauchy((n, 1))) * 0.5 + np.abs(rng.standard_cauchy((n, D))), 0, 100
    ),
    "zeros": zeros,
    "heaps": heaps,
    "clusters": clusters,
    "clusters2": two_clusters,
    "ring": ring,
    "banana": banana,
    "parity": parity,
    "adult": like_adult,
    "mixed": mixed,
}


# Queries -------------------------------------------------------------------------------------------------------------


def queries(records: Records, count: int, quantiles: bool, seed: int) -> list[Query]:
    """Random queries about so many attributes each."""
    rng = np.random.default_rng([7, count, seed, quantiles])
    found: list[Query] = []
    for _ in range(QUERIES):
        query: Query = {}
        for j in sorted(rng.choice(D, count, replace=False).tolist()):
            if quantiles:
                width = rng.uniform(0.3, 0.8) if count > 2 else rng.uniform(0.2, 0.7)
                low = rng.uniform(0, 1 - width)
                values = np.sort(records[:20_000, j])
                ends = int(low * len(values)), min(len(values) - 1, int((low + width) * len(values)))
                query[j] = int(values[ends[0]]), int(values[ends[1]])
            else:
                start = int(rng.integers(0, C // 2 + 1))
                query[j] = start, start + C // 2 - 1
        found.append(query)
    return found


def truth(records: Records, asked: list[Query]) -> NDArray:
    """The share of users inside each query."""
    return np.array(
        [
            np.mean(np.all([(records[:, j] >= low) & (records[:, j] <= high) for j, (low, high) in q.items()], axis=0))
            for q in asked
        ]
    )


# Phases --------------------------------------------------------------------------------------------------------------


def one_phase(records: Records, epsilon: float, seed: int) -> Any:
    """All users are asked at once."""
    mechanism = Copula(SHAPE, epsilon, len(records))
    return mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=seed)))


class Collected(NamedTuple):
    """Both methods and what was told to them."""

    first: Copula
    heard: Tally
    second: Copula
    told: Tally


def collected(records: Records, epsilon: float, seed: int) -> Collected:
    """A quarter of the users, and then the others: both report attributes and pairs, as in a plan."""
    shuffled = records[np.random.default_rng([5, seed]).permutation(len(records))]
    early = len(records) // FIRST
    first = Copula(SHAPE, epsilon, early)
    heard = first.tally(first.randomize(shuffled[:early], seed=seed))
    second = first.after(heard, len(records) - early)
    told = second.tally(second.randomize(shuffled[early:], seed=seed))
    return Collected(first, heard, second, told)


def estimated(phases: Collected) -> Any:
    """From both tallies."""
    reading = RangeReading(phases.second, earlier=((phases.first, phases.heard),))
    return phases.second.estimate(phases.told, reading)


class Score(NamedTuple):
    """Of some queries: the mean absolute error, the mean standard error that is stated, and the coverage."""

    error: float
    stated: float
    held: float


def scores(estimate: Any, records: Records, seed: int) -> dict[tuple[int, bool], Score]:
    """For each number of attributes and kind of query."""
    found = {}
    for count in LAMBDAS:
        for quantiles in (False, True):
            asked = queries(records, count, quantiles, seed)
            right, answers = truth(records, asked), estimate.answers(asked)
            low, high = answers.interval(0.95)
            held = np.mean((low <= right) & (right <= high))
            found[count, quantiles] = Score(
                float(np.abs(answers.value - right).mean()), float(answers.stderr.mean()), float(held)
            )
    return found


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(POPULATIONS)))
@click.option("--seeds", default=3, show_default=True)
@click.option("--users", default=100_000, show_default=True)
@click.option("--epsilon", default=1.0, show_default=True)
def main(names: tuple[str, ...], seeds: int, users: int, epsilon: float) -> None:
    """Errors of two phases over those of one, and coverage of both."""
    table: dict[str, list[Any]] = {
        column: [] for column in ("users", "error", "one is off", "two are off", "two state", "one holds", "two hold")
    }
    logs = []
    for name in names or POPULATIONS:
        found: dict[str, list[Any]] = {"one": [], "two": []}
        for seed in range(seeds):
            records = POPULATIONS[name](np.random.default_rng([crc32(name.encode()), seed]), users)
            found["one"].append(scores(one_phase(records, epsilon, seed), records, seed))
            found["two"].append(scores(estimated(collected(records, epsilon, seed)), records, seed))
        pairs = zip(found["one"], found["two"], strict=True)
        logs.append(np.mean([np.log(two[key].error / one[key].error) for one, two in pairs for key in one]))
        held = {
            which: [
                np.mean([each[count, kind].held for each in runs for kind in (False, True)]).item() for count in LAMBDAS
            ]
            for which, runs in found.items()
        }
        for which, column in (("one", "one is off"), ("two", "two are off")):
            off = [np.log(each.error) for run in found[which] for each in run.values()]
            table[column].append(f"{1000 * np.exp(np.mean(off)):.1f}")
        stated = [np.log(each.stated) for run in found["two"] for each in run.values()]
        table["two state"].append(f"{1000 * np.exp(np.mean(stated)):.1f}")
        table["users"].append(name)
        table["error"].append(f"{np.exp(logs[-1]):.2f}")
        for which, column in (("one", "one holds"), ("two", "two hold")):
            table[column].append(" / ".join(f"{100 * each:.0f}" for each in held[which]))
        click.echo(f"{name}: {table['error'][-1]}", err=True)
    click.echo(TextTable(table))
    click.echo(f"errors, two phases over one, as a geometric mean: {np.exp(np.mean(logs)):.3f}")


if __name__ == "__main__":
    main()
