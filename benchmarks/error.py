"""How large the error is, not only how fast it comes: records of twenty numbers at the same epsilon.

    python benchmarks/error.py            fifty seeds, about a minute
    python benchmarks/error.py --quick    a smoke test

Dimension j of the sample is beta(1 + j/4, 3), mapped from [0, 1] to [-1, 1]. All mechanisms see the same records, and
the error is the squared distance of the estimated means to those of the sample, averaged over dimensions and seeds.

- **predicted** is `reading.worst_variance()` / n, that of the worst population: what is known before there are data.
  A real population is never worse, so a ratio is at most one, but for the noise of the simulation.
- **stated** is the average squared standard error of the estimates: what the analyst is told. Its ratio is about
  one, or below it where signs tell nothing of the values' squares and the error bar is too wide on purpose.
- **to the best** compares mechanisms with each other: the ratio to the smallest error in the same run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click
import numpy as np
from numpy.typing import NDArray

from dither.core.mechanism import Mechanism
from dither.display.table import TextTable
from dither.mechanisms import Gaussian, Hypercube, Sampled, SampledDuchi, Split
from measure import Machine

EPSILON, DELTA, D, USERS = 1.0, 1e-6, 20, 100_000


def contestants() -> dict[str, Mechanism]:
    """Everyone with the same epsilon; those with a delta say so."""
    return {
        "Split(Piecewise)": Split("Piecewise", D, EPSILON),
        "Sampled(Piecewise)": Sampled("Piecewise", D, epsilon=EPSILON),
        "Sampled(Hybrid)": Sampled("Hybrid", D, epsilon=EPSILON),
        "SampledDuchi": SampledDuchi(D, EPSILON),
        "SampledDuchi, delta": SampledDuchi(D, EPSILON, DELTA),
        "Hypercube": Hypercube(D, EPSILON),
        "Hypercube, delta": Hypercube(D, EPSILON, DELTA),
        "Gaussian, delta": Gaussian(EPSILON, delta=DELTA, d=D),
    }


@dataclass(frozen=True)
class Simulation:
    """For each mechanism what was predicted, and the squared errors, measured and stated, one a seed."""

    users: int
    predicted: Mapping[str, float]
    errors: Mapping[str, Sequence[float]]
    stated: Mapping[str, Sequence[float]]

    @property
    def title(self) -> str:
        """What was measured."""
        seeds = len(next(iter(self.errors.values())))
        return f"{D} dimensions, {self.users:,} users, epsilon = {EPSILON:g}, delta = {DELTA:g} or none, {seeds} seeds"

    def table(self) -> TextTable:
        """One row a mechanism."""
        found = {name: float(np.mean(each)) for name, each in self.errors.items()}
        noise = [float(np.std(each, ddof=1) / math.sqrt(len(each))) for each in self.errors.values()]
        best = min(found.values())
        return TextTable(
            {
                "mechanism": list(found),
                "mean squared error": list(found.values()),
                "relative noise": [f"{error / value:.1%}" for error, value in zip(noise, found.values(), strict=True)],
                "ratio to predicted": [f"{value / self.predicted[name]:.3f}" for name, value in found.items()],
                "ratio to stated": [f"{value / np.mean(self.stated[name]):.3f}" for name, value in found.items()],
                "ratio to the best": [f"{value / best:.2f}" for value in found.values()],
            }
        )


def sample(users: int, seed: int) -> NDArray[np.float64]:
    """Records whose dimensions lean more and more to the right."""
    return 2 * np.random.default_rng(seed).beta(1 + np.arange(D) / 4, 3, (users, D)) - 1


def measured(quick: bool, users: int = USERS) -> Simulation:
    """Everyone on the same samples."""
    mechanisms = contestants()
    predicted = {name: mechanism.reading.worst_variance() / users for name, mechanism in mechanisms.items()}
    errors: dict[str, list[float]] = {name: [] for name in mechanisms}
    stated: dict[str, list[float]] = {name: [] for name in mechanisms}
    for seed in range(2 if quick else 50):
        records = sample(users, seed)
        for name, mechanism in mechanisms.items():
            estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=seed)))
            errors[name].append(float(np.mean((estimate.value - records.mean(axis=0)) ** 2)))
            stated[name].append(float(np.mean(estimate.stderr**2)))
    return Simulation(users, predicted, errors, stated)


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test: two seeds.")
@click.option("--users", default=USERS, show_default=True)
def main(quick: bool, users: int) -> None:
    """Measure and print."""
    simulation = measured(quick, users)
    for line in (Machine.here(("numpy",)), simulation.title, simulation.table()):
        click.echo(str(line))


if __name__ == "__main__":
    main()
