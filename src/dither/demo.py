"""The demonstration: a made population, four attributes, one report a user.

Every user is asked one of the four questions, drawn without looking at any value, and answers it with the whole
budget; so what a user spends altogether is what that one report spends.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dither.core.errors import ParameterError
from dither.core.mechanism import Mechanism
from dither.mechanisms import GRR, Hadamard, LocalHash, Unary
from dither.randomness import Stream
from dither.show.table import Table

_BATCHES = 25
_SHOWN = 3


@dataclass(frozen=True)
class Question:
    """An attribute of the made population, and the mechanism that asks for it."""

    name: str
    labels: tuple[str, ...]
    weights: tuple[int, ...]  # how frequent the categories are, as integers
    mechanism: Mechanism


def questions(epsilon: float) -> tuple[Question, ...]:
    """Four attributes from four to a thousand categories, each with a mechanism that suits it."""
    jobs = ("nurse", "driver", "teacher", "other")
    transport = ("car", "train", "bus", "bicycle", "on foot", "tram", "scooter", "ferry")
    apps = tuple(f"app {i}" for i in range(1, 201))
    towns = tuple(f"town {i}" for i in range(1, 1001))
    return (
        Question("job", jobs, (20, 15, 10, 55), GRR(4, epsilon)),
        Question("commute", transport, (40, 20, 12, 10, 9, 5, 3, 1), Unary(8, epsilon)),
        Question("favourite app", apps, _fading(200), Hadamard(200, epsilon)),
        Question("home town", towns, _fading(1000), LocalHash(1000, epsilon)),
    )


def _fading(count: int) -> tuple[int, ...]:
    """Frequencies like those of towns: the second half as frequent as the first, the third a third."""
    return tuple(10**6 // rank for rank in range(1, count + 1))


def run(console: Console, *, users: int, epsilon: float, seed: int | None) -> None:
    """Randomize, tally, estimate, and print the comparison."""
    if users < 100:
        raise ParameterError("the demonstration needs at least 100 users")
    asked = questions(epsilon)
    people = Stream.seeded(2026, "demo population")
    tape = Stream.secure() if seed is None else Stream.seeded(seed, "demo questions")
    turn = tape.below(len(asked), users)
    columns: dict[str, list] = {
        name: [] for name in ("attribute", "category", "truth", "estimate", "95% interval", "inside")
    }
    promises: dict[str, list] = {
        name: [] for name in ("attribute", "mechanism", "categories", "reports", "bytes", "guarantee")
    }
    console.print(
        f"[bold]{users:,} users[/] are asked one of {len(asked)} questions each and answer with epsilon {epsilon:g}."
    )
    bar = Progress(
        TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with bar:
        for number, question in enumerate(asked):
            values = _population(people.spawn(question.name), question, int((turn == number).sum()))
            truth = np.bincount(values, minlength=len(question.labels)) / len(values)
            estimate = _collect(bar, question, values, seed)
            low, high = estimate.interval(0.95)
            for row in np.argsort(-truth, kind="stable")[:_SHOWN]:
                columns["attribute"].append(question.name)
                columns["category"].append(question.labels[row])
                columns["truth"].append(f"{truth[row]:.4f}")
                columns["estimate"].append(f"{estimate.value[row]:.4f}")
                columns["95% interval"].append(f"{low[row]:.4f} to {high[row]:.4f}")
                columns["inside"].append(bool(low[row] <= truth[row] <= high[row]))
            for name, fact in zip(
                promises,
                (
                    question.name,
                    type(question.mechanism).__name__,
                    len(question.labels),
                    estimate.n,
                    question.mechanism.dtype.itemsize,
                    str(estimate.guarantee),
                ),
                strict=True,
            ):
                promises[name].append(fact)
    console.print(Table(columns))
    console.print(Table(promises))
    console.print("One interval in twenty misses the truth, as 95% says.")
    if seed is None:
        console.print(
            "Nothing but the reports left the devices; the guarantee is computed from the sampler's integers."
        )
    else:
        console.print(
            "Simulated from a seed: repeatable, and without any guarantee. Leave --seed out for the real thing."
        )


def _population(stream: Stream, question: Question, users: int) -> NDArray[np.intp]:
    edges = np.cumsum(question.weights)
    return np.searchsorted(edges, stream.below(int(edges[-1]), users).astype(np.int64), side="right")


def _collect(bar: Progress, question: Question, values: NDArray, seed: int | None):
    """Reports arrive in batches, and their tallies merge."""
    mechanism = question.mechanism
    task = bar.add_task(f"{question.name} ({type(mechanism).__name__})", total=len(values))
    tally = mechanism.tally(mechanism.randomize([], seed=seed))
    for batch, part in enumerate(np.array_split(values, _BATCHES)):
        tally += mechanism.tally(mechanism.randomize(part, seed=None if seed is None else seed * _BATCHES + batch))
        bar.advance(task, len(part))
    return mechanism.estimate(tally)
