"""Shares below thresholds: the square wave against categories that are added up, and what the planner predicts of it.

    python benchmarks/ordered.py            errors, widths and predictions over populations: ten minutes on a core
    python benchmarks/ordered.py --fit      the tables of `mechanisms.cumulative_error`: ten minutes on a core
    python benchmarks/ordered.py --quick    a smoke test

What is asked is `cumulative(x)`: of a number the shares below 31 thresholds, of whole numbers those at most each value.
The error is the root of the mean square over thresholds and collections. The rows:

- **shapes** are the eight that the prediction is made for, the hardest of which it states: a bell, two bells,
  beta(5, 2), an exponential, zeros (40% at the lowest value), a spike (30% at one value), a step, and heaps (half of
  all at every twentieth of the range, some of which are thresholds).
- **others** are populations that nothing was fitted to: those of benchmarks/populations.py, real ones among them.

Reports are drawn from their exact law, place by place, for users who stay the same.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

import populations
from dither import Numeric, Ordinal, Schema, SquareWave, plan
from dither.core.cumulative_estimate import Cumulative, Thresholds
from dither.core.tally import Tally
from dither.display.table import TextTable
from dither.mechanisms.cumulative_error import EPSILONS, REPORTS, hardest_error
from dither.mechanisms.window_evidence import probabilities
from measure import Machine

Floats = NDArray[np.float64]

CELLS, GRID, WHOLE = 32, 640, 100  # thresholds are between cells; numbers are at places of a grid; so many values
REPETITIONS = 20


class Crowd(NamedTuple):
    """Where users are, from 0 to 1, how many are there, and what is asked of them."""

    places: Floats
    counts: NDArray[np.int64]
    thresholds: Thresholds

    @classmethod
    def of(cls, places: Floats, shares: Floats, users: int, thresholds: Thresholds) -> "Crowd":
        """So many users in these proportions."""
        return cls(places, populations.apportioned(shares, users), thresholds)

    @property
    def truth(self) -> Floats:
        """The shares below the thresholds; who is exactly at one is above it."""
        at = (np.array(self.thresholds.at) + 1) / 2
        return np.array([self.counts[self.places < end - 1e-9].sum() for end in at]) / self.counts.sum()

    def tallies(self, mechanism: SquareWave, repetitions: int, seed: int) -> Iterator[Tally]:
        """Tallies of their reports."""
        window, outputs = mechanism.window, mechanism.window.law.outputs
        here = self.counts > 0
        at = self.places[here] * window.steps
        law = np.maximum(probabilities(window, np.arange(outputs + 1), at, at).T, 0.0)
        law /= law.sum(axis=1, keepdims=True)
        for repetition in range(repetitions):
            rng = np.random.default_rng([seed, repetition, int(self.counts.sum()), round(1000 * mechanism.epsilon)])
            drawn = rng.multinomial(self.counts[here], law).sum(axis=0)
            yield Tally(mechanism.fingerprint, int(drawn.sum()), drawn)

    def estimates(self, mechanism: SquareWave, repetitions: int, seed: int = 0) -> Iterator[Cumulative]:
        """What is read off them."""
        reading = mechanism.cumulative_reading(self.thresholds)
        for tally in self.tallies(mechanism, repetitions, seed):
            yield mechanism.estimate(tally, reading)

    def error(self, mechanism: SquareWave, repetitions: int) -> float:
        """The root of the mean squared error."""
        truth = self.truth
        squares = [np.mean((found.value - truth) ** 2) for found in self.estimates(mechanism, repetitions)]
        return float(np.sqrt(np.mean(squares)))


def shapes(places: Floats) -> dict[str, Floats]:
    """The shares of places from 0 to 1, the first and the last of which are at the ends."""

    def bell(middle: float, spread: float) -> Floats:
        return _whole(np.exp(-(((places - middle) / spread) ** 2) / 2))

    def all_at(place: float) -> Floats:
        return (np.arange(places.size) == round(place * (places.size - 1))) * 1.0

    heaps = np.arange(places.size) % (places.size // 20) == 0
    return {
        "bell": bell(0.45, 0.15),
        "two bells": 0.6 * bell(0.25, 0.07) + 0.4 * bell(0.7, 0.1),
        "beta(5, 2)": _whole(places**4 * (1 - places)),
        "exponential": _whole(np.exp(-10 * places)),
        "zeros": 0.4 * all_at(0.0) + 0.6 * _whole(places * (1 - places) ** 3),
        "spike": 0.3 * all_at(0.617) + 0.7 * bell(0.5, 0.2),
        "step": _whole(np.where(places < 0.35, 0.8 / 0.35, 0.2 / 0.65)),
        "heaps": 0.5 * bell(0.45, 0.15) + 0.5 * _whole(heaps * bell(0.45, 0.15)),
    }


def _whole(weights: Floats) -> Floats:
    return weights / weights.sum()


def crowds(users: int, *, whole: bool) -> dict[str, Crowd]:
    """Users of each shape: with numbers, or with whole numbers."""
    places = np.arange(WHOLE) / (WHOLE - 1) if whole else np.arange(GRID + 1) / GRID
    thresholds = Thresholds.between_places(WHOLE) if whole else Thresholds.of_cells(CELLS)
    return {name: Crowd.of(places, shares, users, thresholds) for name, shares in shapes(places).items()}


def others(users: int, *, whole: bool) -> dict[str, Crowd]:
    """Users of populations that nothing was fitted to."""
    found: dict[str, Crowd] = {}
    for make in (populations.ORDINALS if whole else populations.NUMBERS).values():
        people = make()
        if whole:
            places, thresholds = (
                np.linspace(0.0, 1.0, people.shares.size),
                Thresholds.between_places(people.shares.size),
            )
        else:
            assert people.values is not None
            places, thresholds = (people.values[:, 0] + 1) / 2, Thresholds.of_cells(CELLS)
        found[people.name] = Crowd.of(places, people.shares, users, thresholds)
    return found


# The tables -----------------------------------------------------------------------------------------------------------


def fitted(repetitions: int, *, whole: bool) -> Iterator[tuple[float, float, str, float]]:
    """For each epsilon and number of reports the hardest shape, and its error."""
    for epsilon in EPSILONS:
        mechanism = SquareWave(float(epsilon))
        for reports in REPORTS:
            made = crowds(int(reports), whole=whole)
            errors = {name: crowd.error(mechanism, repetitions) for name, crowd in made.items()}
            hardest = max(errors, key=lambda name: errors[name])
            yield float(epsilon), float(reports), hardest, errors[hardest]


# What it is worth -----------------------------------------------------------------------------------------------------


def compared(users: int, epsilon: float, repetitions: int, *, whole: bool) -> Iterator[Mapping[str, Any]]:
    """For each population the errors and the widths of intervals of both, and what was predicted."""
    mechanism = SquareWave(epsilon)
    for group, made in (("shapes", crowds(users, whole=whole)), ("others", others(users, whole=whole))):
        for name, crowd in made.items():
            realised = crowd.error(mechanism, repetitions)
            one = next(crowd.estimates(mechanism, 1, seed=1))
            low, high = one.interval(0.95)
            held = np.mean((low <= crowd.truth + 1e-9) & (crowd.truth <= high + 1e-9))
            error, width = categories(len(crowd.thresholds.at) + 1, users, epsilon)
            predicted = hardest_error(epsilon, users, places=crowd.thresholds.places is not None)
            yield {
                "population": f"{group}: {name}",
                "whole": whole,
                "users": users,
                "epsilon": epsilon,
                "square wave": realised,
                "categories": error,
                "ratio": realised / error,
                "predicted / realised": predicted / realised,
                "width / categories": float(np.mean(high - low)) / width,
                "held": float(held),
                "planned": chosen(len(crowd.thresholds.at) + 1, users, epsilon, whole=whole),
            }


def categories(k: int, users: int, epsilon: float) -> tuple[float, float]:
    """The error of the best categories, and the mean width of their intervals at 95%."""
    best = plan(Schema({"x": Ordinal(0, k - 1)}), epsilon, users=users, ask=["distribution(x)"]).parts[0].mechanism
    reading: Any = best.reading
    below = np.arange(1, k)
    variance = reading.total_variance / k * below * (k - below) / k / users
    return float(np.sqrt(variance.mean())), float(2 * 1.96 * np.sqrt(variance).mean())


def chosen(k: int, users: int, epsilon: float, *, whole: bool) -> str:
    """The mechanism that the planner takes."""
    attribute = Ordinal(0, k - 1) if whole else Numeric(0, 1)
    made = plan(Schema({"x": attribute}), epsilon, users=users, ask=["cumulative(x)"])
    return type(made.parts[0].mechanism).__name__


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--fit", is_flag=True, help="The tables of mechanisms.cumulative_error.")
@click.option("--quick", is_flag=True, help="A smoke test.")
def main(fit: bool, quick: bool) -> None:
    """Measure and print."""
    click.echo(str(Machine.here(("numpy", "scipy"))))
    if fit:
        for whole in (False, True):
            click.echo(f"\n{'at places' if whole else 'anywhere'}: epsilon, reports, hardest shape, error")
            for epsilon, reports, name, error in fitted(1 if quick else REPETITIONS, whole=whole):
                click.echo(f"{epsilon:g}  {reports:g}  {name}  {error:.4f}")
        return
    settings = (
        [(10_000, 1.0)] if quick else [(n, e) for n in (10_000, 100_000, 1_000_000) for e in (0.5, 1.0, 2.0, 4.0)]
    )
    rows = [
        row
        for whole in (False, True)
        for users, epsilon in settings
        for row in compared(users, epsilon, 2 if quick else 8, whole=whole)
    ]
    click.echo(str(TextTable({name: [row[name] for row in rows] for name in rows[0]})))


if __name__ == "__main__":
    main()
