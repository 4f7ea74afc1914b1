"""What a unit vector costs: the error of one report, of `UnitVector` and of others, the time it takes, and its bias.

    python benchmarks/unitvector.py            # errors and times
    python benchmarks/unitvector.py bias       # the mean, on vectors that mix badly (a few minutes)

**Errors** are E|score - v|^2 of one report about a vector of length 1. *PrivUnit* is its theory, with the best cap, on
a continuous sphere. *predicted* is what the integers of `UnitVector` give, *measured* the mean over reports. The others
are for entries in [-1, 1], and are given entries times sqrt(d)/4, as if it were known that none is larger than
4/sqrt(d); otherwise their errors were d/16 times as large. `Gaussian` is the analytic one of sensitivity 2 in L2
(delta 1e-6), as clipped updates have it.

**Bias**: given a seed the mean of a report is known exactly (the sum of its favoured codewords), and this is averaged
over seeds: its length along the vector, less 1, and its largest deviation across, in thousandths with standard errors.
"""

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq, minimize_scalar

import dither
from dither.display.table import TextTable
from dither.mechanisms.codebooks import whole_vectors
from dither.utility import deviation
from measure import seconds

D, EPSILONS, DELTA = 650, (1, 2, 3, 4, 5, 6, 7, 8), 1e-6
REPORTS = 4000


def privunit(d: int, epsilon: float) -> float:
    """The error of PrivUnit with its best cap."""
    gain = math.expm1(epsilon)
    density = math.exp(special.gammaln(d / 2) - special.gammaln((d - 1) / 2)) / math.sqrt(math.pi)

    def error(t: float) -> float:
        share = 0.5 * special.betainc((d - 1) / 2, 0.5, 1 - t * t)
        return (1 + share * gain) ** 2 / (gain * density * (1 - t * t) ** ((d - 1) / 2) / (d - 1)) ** 2 - 1

    best: Any = minimize_scalar(error, bounds=(0, min(0.99, 8 / math.sqrt(d))), method="bounded")
    return float(best.fun)


def gaussian(d: int, epsilon: float, delta: float = DELTA) -> float:
    """The error of the least Gaussian noise that hides a distance of 2 (Balle and Wang 2018)."""

    def excess(scale: float) -> float:
        a, b = 1 / scale, epsilon * scale / 2
        return special.ndtr(a - b) - math.exp(epsilon) * special.ndtr(-a - b) - delta

    scale: Any = brentq(excess, 0.05, 100.0)
    return d * float(scale) ** 2


def direction(d: int) -> NDArray[np.float64]:
    """Any vector of length 1."""
    vector = np.random.default_rng(d).standard_normal(d)
    return vector / np.linalg.norm(vector)


def measured(mechanism: dither.UnitVector, reports: int = REPORTS) -> tuple[float, float, float]:
    """Mean |score - v|^2, and microseconds a report on either side."""
    vector = direction(mechanism.d)
    vectors = np.repeat(vector[None], reports, axis=0)
    made = mechanism.randomize(vectors, seed=1)
    mechanism.tally(made)  # compiled by now
    client = min(seconds(lambda: mechanism.randomize(vectors)) for _ in range(5))
    server = min(seconds(lambda: mechanism.tally(made)) for _ in range(5))
    sample, scale = np.asarray(made), mechanism.reading.scale
    errors = []
    for report in sample[: min(reports, 2000)]:
        score = mechanism.tally(report[None]).counts[0] * scale / mechanism.number
        errors.append(float(np.square(score - vector).sum()))
    return float(np.mean(errors)), 1e6 * client / reports, 1e6 * server / reports


def table(d: int, epsilons: tuple[float, ...], reports: int = REPORTS) -> TextTable:
    """One line an epsilon."""
    rows = []
    for epsilon in epsilons:
        mechanism = dither.UnitVector(d=d, epsilon=float(epsilon))
        error, client, server = measured(mechanism, reports)
        theory, own = privunit(d, epsilon), mechanism.reading.error
        rows.append(
            {
                "d": d,
                "epsilon": epsilon,
                "PrivUnit": round(theory, 2),
                "predicted": round(own, 2),
                "ratio": round(own / theory, 4),
                "measured": round(error, 2),
                "M": mechanism.law.outputs,
                "w": mechanism.law.favoured,
                "parts": mechanism.number,
                "bytes": mechanism.dtype.itemsize,
                "client, us": round(client, 1),
                "server, us": round(server, 1),
            }
        )
    return TextTable({name: [row[name] for row in rows] for name in rows[0]})


def others(d: int, epsilons: tuple[float, ...]) -> TextTable:
    """The errors of other mechanisms on the same vectors."""
    vector, reach, rows = direction(d), 4 / math.sqrt(d), []
    assert np.abs(vector).max() <= reach
    for epsilon in epsilons:
        boxes = {
            "Hypercube": dither.Hypercube(d=d, epsilon=float(epsilon)),
            "SampledDuchi": dither.SampledDuchi(d=d, epsilon=float(epsilon)),
            "Sampled Piecewise": dither.Sampled("Piecewise", d=d, epsilon=float(epsilon)),
        }
        errors = {name: deviation(each, vector[None] / reach, reports=REPORTS).mse for name, each in boxes.items()}
        found = {name: reach**2 * d * REPORTS * error for name, error in errors.items()}
        own = dither.UnitVector(d=d, epsilon=float(epsilon)).reading.error
        rows.append({"epsilon": epsilon, "UnitVector": own, **found, "Gaussian, delta 1e-6": gaussian(d, epsilon)})
    return TextTable({name: [float(f"{row[name]:.4g}") for row in rows] for name in rows[0]})


# Bias ----------------------------------------------------------------------------------------------------------------


def hard(d: int) -> Iterator[tuple[str, NDArray[np.floating]]]:
    """Vectors that three turns of a transform mix worst."""
    axis = np.eye(d)
    yield "one entry", axis[0]
    yield "two alike", axis[0] + axis[d // 2]
    yield "0.9 and 0.44", 0.9 * axis[0] + math.sqrt(0.19) * axis[1]
    yield "4 : 2 : 1", axis[0] + 0.5 * axis[1] + 0.25 * axis[2]
    yield "one and all", axis[0] + np.ones(d) / math.sqrt(d)
    yield "all alike", np.ones(d)
    yield "Walsh pattern", 1.0 - 2.0 * (np.bitwise_count(np.arange(d) & 37) & 1)
    yield "falling", 1.0 / np.arange(1, d + 1)
    yield "any", direction(d)


def bias(d: int, epsilon: float, seeds: int) -> TextTable:
    """One line a vector."""
    mechanism = dither.UnitVector(d=d, epsilon=epsilon, parts=1)
    book, law, rows = mechanism.book, mechanism.law, []
    gain = (law.high - law.low) / law.total * mechanism.reading.scale
    for name, given in hard(d):
        vector = given / np.linalg.norm(given)
        cubed = vector**3 - vector**3 @ vector * vector  # where a lack of mixing would show
        length = np.linalg.norm(cubed)
        whole_ = np.repeat(whole_vectors(vector[None])[0], law.favoured, axis=0)
        means = []
        for seed in np.random.default_rng(1).integers(0, 1 << 63, seeds).astype(np.uint64):
            own = np.full(law.favoured, seed)
            favoured = book.choose(whole_, own, np.arange(law.favoured), law.favoured)
            mean = gain * book.sums(own, favoured)[0]
            means.append((mean @ vector - 1, mean @ cubed / length if length > 1e-9 else 0.0))
        along, across = np.array(means).T
        rows.append((name, *(round(1000 * number, 2) for part in (along, across) for number in _mean(part))))
    columns = (f"d = {d}, M = {law.outputs}, w = {law.favoured}", "along", "+-", "across", "+- ")
    return TextTable(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


def _mean(numbers: NDArray[np.float64]) -> tuple[float, float]:
    return float(numbers.mean()), float(numbers.std() / math.sqrt(len(numbers)))


def main() -> None:
    """Print the tables."""
    if "bias" in sys.argv[1:]:
        for d, epsilon, seeds in ((3, 4.0, 1500), (10, 4.0, 1500), (64, 6.0, 6000), (64, 2.0, 600), (650, 6.0, 1500)):
            print(bias(d, epsilon, seeds), end="\n\n")
        return
    print(table(D, EPSILONS), end="\n\n")
    print(table(D, (12, 16, 20, 30), 1000), end="\n\n")
    for d, reports in ((2, 20_000), (10, 4000), (63, 1000), (64, 4000), (128, 4000), (5000, 400), (100_000, 6)):
        print(table(d, (1, 4, 8), reports), end="\n\n")
    print(others(D, EPSILONS))


if __name__ == "__main__":
    main()
