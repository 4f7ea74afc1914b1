"""What it is worth to know which queries will be asked: `Copula` with its usual groups, and with those of a workload.

    python benchmarks/workloads.py                       half an hour on two idle cores
    python benchmarks/workloads.py --repetitions 3 --users 20000 --attributes 4      a few minutes

For each workload 100 queries of it are answered (half of each attribute, beginning anywhere), on new users, queries and
reports in every repetition; both designs have the same users and queries. Data are those of benchmarks/ranges.py, and
*Hard*: attributes on V-shaped curves of each other, the last with nine tenths of its mass on eight values. Printed are
the root of the mean squared error with the usual groups, that of the workload's over it, and, of the workload's, the
predicted error over the realised one. The means are geometric, over the data.
"""

import math
from collections.abc import Mapping
from typing import Any

import click
import numpy as np

import ranges
from dither.core.workload import Workload
from dither.display.table import TextTable
from dither.ranges import Copula
from dither.ranges.collection import WholeNumberRecords
from dither.ranges.error_prediction import predicted
from dither.ranges.query_workload import QueryWorkload

KINDS, EPSILONS, QUERIES = ("Normal", "Clustered", "Ring", "Hard"), (0.7, 2.0), 100


def workloads(d: int) -> dict[str, dict[Any, float]]:
    """By name. Attributes are numbers, in texts; a whole number is how many of them a query is about."""
    return {
        "one attribute": {"0": 1},
        "any one": {1: 1},
        "one pair": {("0", "1"): 1},
        "pairs with the first": {("0", str(k)): 1 for k in range(1, d)},
        "first 3, first two 2, any two 1": {"0": 3, ("0", "1"): 2, 2: 1},
        "the first three": {("0", "1", "2"): 1},
        "any three": {3: 1},
    }


def people(kind: str, number: int, n: int, shape: tuple[int, ...]) -> ranges.People:
    """The users of a repetition."""
    if kind != "Hard":
        drawn = ranges.People.drawn(kind, number, n, shape)
        assert drawn is not None
        return drawn
    random = np.random.default_rng((2027, number))
    middle = random.uniform(-1, 1, (n, 1))
    curve = np.where(np.arange(len(shape)) % 2 == 0, middle, 2 * np.abs(middle) - 1)
    values = 4 * (curve + 0.1 * random.standard_normal((n, len(shape))))
    spikes = 1.3 * (random.integers(0, 8, n) - 3.5)
    values[:, -1] = np.where(random.random(n) < 0.9, spikes, values[:, -1])
    return ranges.People(ranges.cut(values, -ranges.LIMIT, ranges.LIMIT, shape), shape)


def drawn(workload: QueryWorkload, shape: tuple[int, ...], seed: int) -> list[ranges.Query]:
    """Queries as a workload has them."""
    random = np.random.default_rng(seed)
    kinds, often = zip(*workload.asked, strict=True)
    found = []
    for place in random.choice(len(kinds), QUERIES, p=often):
        kind: Any = kinds[place]
        some = kind if isinstance(kind, tuple) else np.sort(random.choice(len(shape), kind, replace=False)).tolist()
        lows = {j: int(random.integers(0, shape[j] // 2 + 1)) for j in some}
        found.append({j: (low, low + shape[j] // 2 - 1) for j, low in lows.items()})
    return found


def designs(workload: QueryWorkload, shape: tuple[int, ...], epsilon: float, n: int) -> tuple[Copula, Copula]:
    """The usual one, and that of the workload."""
    asked = Workload(WholeNumberRecords.sized(shape), ("ranges",), epsilon, users=n, queries=workload)
    offered = [Copula.with_budget(parameters, epsilon, 0.0) for parameters in Copula.candidates(asked)]
    return Copula(shape, epsilon, n), min(offered, key=lambda each: predicted(each, n, queries=workload).mse)


def error(mechanism: Copula, users: ranges.People, asked: list[ranges.Query], seed: int) -> float:
    """The mean squared error of the answers."""
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(users.records, seed=seed)))
    return float(np.mean((found.answers(asked).value - users.truth(asked)) ** 2))


def measured(given: Mapping[Any, float], shape: tuple[int, ...], epsilon: float, n: int, repeated: int) -> np.ndarray:
    """For each kind of data: the error of the usual groups, those of the workload over it, predicted over realised."""
    workload = QueryWorkload.of([str(j) for j in range(len(shape))], given)
    usual, own = designs(workload, shape, epsilon, n)
    foretold = predicted(own, n, queries=workload).rmse
    rows = []
    for kind in KINDS:
        both = []
        for seed in range(repeated):
            users, asked = people(kind, seed, n, shape), drawn(workload, shape, seed)
            both.append([error(each, users, asked, seed) for each in (usual, own)])
        before, after = np.sqrt(np.mean(both, axis=0))
        rows.append((before, after / before, foretold / after))
    return np.array(rows)


@click.command()
@click.option("--users", type=int, default=40_000, show_default=True)
@click.option("--attributes", type=int, multiple=True, default=(4, 6), show_default=True)
@click.option("--repetitions", type=int, default=10, show_default=True)
def main(users: int, attributes: tuple[int, ...], repetitions: int) -> None:
    """Print a row for each number of attributes, epsilon and workload."""
    for d in attributes:
        for epsilon in EPSILONS:
            lines: dict[str, list[Any]] = {"workload": [], "usual error": [], "workload / usual": [], "mean": []}
            lines["predicted / realised"] = []
            for name, given in workloads(d).items():
                found = measured(given, (64,) * d, epsilon, users, repetitions)
                lines["workload"].append(name)
                lines["usual error"].append(" ".join(f"{each:.4f}" for each in found[:, 0]))
                lines["workload / usual"].append(" ".join(f"{each:.2f}" for each in found[:, 1]))
                lines["mean"].append(f"{math.exp(np.log(found[:, 1]).mean()):.2f}")
                lines["predicted / realised"].append(" ".join(f"{each:.1f}" for each in found[:, 2]))
            print(f"{d} attributes, epsilon {epsilon:g}, {users:,} users; data: {', '.join(KINDS)}")
            print(TextTable(lines), flush=True)


if __name__ == "__main__":
    main()
