"""Federated logistic regression on MNIST, every mechanism at the same certified budget: the experiment of 001, 6.3.2.

    python benchmarks/learn_federated.py               a quarter of an hour
    python benchmarks/learn_federated.py --steps 20    with more rounds; half an hour
    python benchmarks/learn_federated.py --quick       a smoke test
    python benchmarks/learn_federated.py --write       also puts the tables into docs/federated.md

**Task.** As in 001: digits 0 to 4 against 5 to 9, 784 pixels and a bias, so d = 785. 500 devices with the 60,000
training images, two digits each (`by_class`, anew for each seed). T = 500 local iterations, E = 20 of them between two
reports (25 rounds), or 50 (10 rounds); batches of 32, local rate .1, whole updates clipped to C = .1. Of the 10,000
test images every other one chooses the settings (validation), the rest are the test.

**Budget.** 001 has epsilon in {1.5, 4.9, 15.3, 48.5} *for each round*, and delta 1e-5. Here each row promises the same
in *total*, over all rounds of a device: (rounds * epsilon, 1e-5), certified. Pure mechanisms have epsilon in each
round; they gain nothing from delta at budgets like these. Gaussian noise of several rounds adds up more slowly, so it
has more than epsilon in each round (`learn.federated.round_accounting.per_round`).

**Settings.** Each method has the same choices: server rates 1/4, 2, 16, 128, 1024 and 8192, and the last parameters or
their average over the second half of the rounds. The best on validation at one seed is taken; the table shows other
seeds, on the test part. Columns: accuracy and its standard deviation over seeds; the mean cross entropy; the cosine
between the estimated and the true mean update, averaged over rounds; the certified promise of one report.

**How it is computed.** The federations are independent, but their local training is done side by side: logistic
regressions with the same records and batches are the columns of one matrix. `--quick` checks that this is what
`Federation.step` does.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray

import datasets
from dither.core.randomness import Stream
from dither.display.table import TextTable
from dither.learn.federated import Devices, Federation, by_class, clipped
from measure import Machine

PAGE = Path(__file__).parent.parent / "docs" / "federated.md"
EPSILONS = (1.5, 4.9, 15.3, 48.5)
RATES = (0.25, 2.0, 16.0, 128.0, 1024.0, 8192.0)
DELTA, DEVICES, ITERATIONS, BATCH, LOCAL_RATE, CLIP = 1e-5, 500, 500, 32, 0.1, 0.1
SIDE_BY_SIDE = 28

METHODS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "no noise": (None, {}),
    "Laplace": ("Laplace", {}),
    "Piecewise": ("Piecewise", {}),
    "CoCo, signs of the 16 largest": ("CoCo", {"s": 16}),
    "Gaussian": ("BallGaussian", {}),
    "LDPVec, Piecewise, beta 1": ("LDPVec", {"base": "Piecewise"}),
    "LDPVec, Piecewise, beta .05": ("LDPVec", {"base": "Piecewise", "beta": 0.05}),
    "LDPVec, Gaussian, beta 1": ("LDPVec", {"base": "Gaussian"}),
    "LDPVec, Gaussian, beta .05": ("LDPVec", {"base": "Gaussian", "beta": 0.05}),
    "UnitVector": ("UnitVector", {}),
}

Numbers = NDArray[np.float64]
Part = tuple[Any, Any]


@dataclass
class Run:
    """One federation, and what came of it."""

    method: str
    epsilon: float
    rate: float
    federation: Federation
    cosines: list[float] = field(default_factory=list)

    def result(self, part: Part, average: bool) -> tuple[float, float]:
        """Accuracy and cross entropy on a part of the data, of the last or the averaged parameters."""
        self.federation.average = average
        return self.federation.score(*part), self.federation.loss(*part)


@dataclass(frozen=True)
class Choice:
    """What validation has chosen for a method."""

    rate: float
    average: bool


def federation(method: str, epsilon: float, rate: float, steps: int, rounds: int, seed: int) -> Federation:
    """A federation as the paper has it, with a budget for all its rounds."""
    model = torch.nn.Linear(784, 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    name, options = METHODS[method]
    budget = {} if name is None else {"epsilon": rounds * epsilon, "options": options}
    shared = {"rounds": rounds, "delta": DELTA, "local_steps": steps, "batch": BATCH, "rate": LOCAL_RATE, "clip": CLIP}
    return Federation(model, name, server_rate=rate, seed=seed, **shared, **budget)  # type: ignore[arg-type]


def side_by_side(runs: Sequence[Run], devices: Devices, seed: int) -> None:
    """All rounds of some federations whose devices have the same batches."""
    local = runs[0].federation.local
    who = np.arange(len(devices))
    inputs, labels = devices.records(who)
    gram = inputs @ inputs.transpose(1, 2) + 1
    for turn in range(runs[0].federation.rounds):
        batches = local._batches(devices.sizes, who, Stream.seeded(seed, "batches", str(turn)))
        for first in range(0, len(runs), SIDE_BY_SIDE):
            some = runs[first : first + SIDE_BY_SIDE]
            parameters = np.stack([run.federation.parameters for run in some])
            found = _updates(parameters, inputs, labels, gram, torch.from_numpy(batches), local.rate)
            for run, updates in zip(some, found, strict=True):
                run.federation.chosen(devices)
                whole = clipped(updates, CLIP)
                run.cosines.append(_cosine(run.federation.receive([whole]), whole.mean(axis=0)))


def _updates(
    parameters: Numbers,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    gram: torch.Tensor,
    batches: torch.Tensor,
    rate: float,
) -> Iterator[Numbers]:
    """For each row of parameters the updates of all devices, by coefficients of records as in `federated.training`."""
    values = torch.from_numpy(parameters).to(inputs.dtype)
    start = inputs @ values[:, :-1].T + values[:, -1]
    weights = torch.zeros_like(start)
    for step in range(batches.shape[1]):
        rows = batches[:, step]
        wide = rows[..., None].expand(-1, -1, len(parameters))
        now = (start + gram @ weights).gather(1, wide)
        pull = torch.sigmoid(now) - labels.gather(1, rows)[..., None].to(inputs.dtype)
        weights.scatter_add_(1, wide, pull * (-rate / batches.shape[2]))
    moved = torch.cat([weights.transpose(1, 2) @ inputs, weights.sum(dim=1)[..., None]], dim=2)
    for column in range(len(parameters)):
        yield moved[:, column].double().numpy()


def _cosine(one: Numbers, other: Numbers) -> float:
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length else 0.0


# Data -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Devices for a seed, and the two halves of the test images."""

    pictures: datasets.Pictures
    count: int

    def devices(self, seed: int) -> Devices:
        members = by_class(self.pictures.train_labels, self.count, 2, seed=seed)
        return Devices(self.pictures.train, _halves(self.pictures.train_labels), members).sorted()

    def part(self, first: int) -> Part:
        return self.pictures.test[first::2], _halves(self.pictures.test_labels[first::2])


def _halves(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 to 4 against 5 to 9."""
    return (labels >= 5).astype(np.int64)


# The experiment -------------------------------------------------------------------------------------------------------


def experiment(task: Task, steps: int, epsilons: Sequence[float], rates: Sequence[float], seeds: int) -> TextTable:
    """Choose on validation with seed 0, and measure with the others on the test part."""
    rounds = ITERATIONS // steps
    cells = [(method, epsilon) for epsilon in epsilons for method in METHODS if method != "no noise"]
    cells = [("no noise", math.inf), *cells]

    def ran(settings: Iterable[tuple[str, float, float]], seed: int) -> list[Run]:
        runs = [Run(*each, federation(*each, steps, rounds, seed)) for each in settings]
        side_by_side(runs, task.devices(seed), seed)
        return runs

    chosen: dict[tuple[str, float], tuple[float, Choice]] = {}
    for run in ran([(*cell, rate) for cell in cells for rate in rates], seed=0):
        for average in (False, True):
            score = run.result(task.part(0), average)[0]
            if score > chosen.get((run.method, run.epsilon), (-1.0, None))[0]:
                chosen[run.method, run.epsilon] = score, Choice(run.rate, average)
    click.echo(f"chosen for E = {steps}", err=True)
    found: dict[tuple[str, float], list[tuple[float, float, float]]] = {cell: [] for cell in cells}
    last: dict[tuple[str, float], Run] = {}
    for seed in range(1, seeds + 1):
        for run in ran([(*cell, chosen[cell][1].rate) for cell in cells], seed):
            cell = run.method, run.epsilon
            found[cell].append((*run.result(task.part(1), chosen[cell][1].average), float(np.mean(run.cosines))))
            last[cell] = run
    return _table(rounds, found, {cell: choice for cell, (_, choice) in chosen.items()}, last)


def _table(rounds: int, found: dict[Any, Any], chosen: dict[Any, Choice], last: dict[Any, Run]) -> TextTable:
    columns: dict[str, list[Any]] = {}
    for (method, epsilon), rows in found.items():
        accuracy, loss, cosine = np.array(rows).T
        run = last[method, epsilon].federation
        row = {
            "total": "none" if math.isinf(epsilon) else f"{run.total.epsilon:.1f}",
            "method": method,
            "accuracy %": f"{100 * accuracy.mean():.1f}",
            "sd": f"{100 * accuracy.std(ddof=1):.1f}" if len(accuracy) > 1 else "",
            "loss": f"{loss.mean():.3f}",
            "cosine": f"{cosine.mean():.3f}",
            "one report": "" if math.isinf(epsilon) else _short(run),
            "rate": f"{chosen[method, epsilon].rate:g}{', averaged' * chosen[method, epsilon].average}",
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return TextTable(columns)


def _short(run: Federation) -> str:
    price = run.round_guarantee
    return f"{price.epsilon:.3g}" + (f", {price.delta:.1g}" if price.delta else "")


def same_as_step(task: Task) -> float:
    """The largest difference between a federation that runs side by side with others, and one that runs alone."""
    devices = task.devices(0)
    alone = federation("no noise", math.inf, 4.0, 20, 25, 0)
    run = Run("no noise", math.inf, 4.0, federation("no noise", math.inf, 4.0, 20, 25, 0))
    other = Run("no noise", math.inf, 1.0, federation("no noise", math.inf, 1.0, 20, 25, 0))
    # One batch of all records a device has leaves no choice of batches.
    local = alone.local
    whole = np.tile(np.arange(devices.fewest), (len(devices), local.steps, 1))
    object.__setattr__(local, "batch", devices.fewest)
    alone.step(devices)
    inputs, labels = devices.records(np.arange(len(devices)))
    gram = inputs @ inputs.transpose(1, 2) + 1
    both = np.stack([run.federation.parameters, other.federation.parameters])
    updates = next(iter(_updates(both, inputs, labels, gram, torch.from_numpy(whole), local.rate)))
    run.federation.receive([updates])
    return float(np.abs(run.federation.parameters - alone.parameters).max())


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="A smoke test.")
@click.option("--write", is_flag=True, help="Put the tables into docs/federated.md.")
@click.option("--steps", default="50", help="Local steps between two reports, as in 50,20.")
@click.option("--seeds", default=3, help="Seeds that the table averages over.")
@click.option("--threads", default=1, help="Threads of torch.")
def main(quick: bool, write: bool, steps: str, seeds: int, threads: int) -> None:
    """Measure and print."""
    torch.set_num_threads(threads)
    click.echo(str(Machine.here(("numpy", "torch"))))
    pictures = datasets.mnist()
    if pictures is None:
        raise click.ClickException(f"MNIST is missing: {datasets.HOW['mnist']}")
    began = time.monotonic()
    if quick:
        pictures = pictures._replace(train=pictures.train[:6000], train_labels=pictures.train_labels[:6000])
        small = Task(pictures, 50)
        difference = same_as_step(small)
        click.echo(f"side by side and alone differ by {difference:.1g}")
        if difference > 1e-4:
            raise click.ClickException("federations that run side by side are not what they are alone")
        click.echo(str(experiment(small, 50, EPSILONS[-1:], RATES[1:3], 1)))
        return
    task, tables = Task(pictures, DEVICES), {}
    for each in map(int, steps.split(",")):
        tables[each] = experiment(task, each, EPSILONS, RATES, seeds)
        click.echo(f"\nE = {each}, {ITERATIONS // each} rounds\n{tables[each]}")
    minutes = (time.monotonic() - began) / 60
    click.echo(f"\n{minutes:.0f} minutes")
    if write:
        _write(tables, minutes, seeds)


def _write(tables: dict[int, TextTable], minutes: float, seeds: int) -> None:
    begin, end = "<!-- federated: begin -->", "<!-- federated: end -->"
    before, _, rest = PAGE.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise click.ClickException(f"{PAGE.name} has lost its two markers, {begin} and {end}")
    today = datetime.now(UTC).date()
    lines = [
        f"Measured on {today} by `python benchmarks/learn_federated.py --write`, {seeds} seeds, {minutes:.0f} minutes."
    ]
    for steps, table in tables.items():
        lines += ["", f"**E = {steps} local steps, {ITERATIONS // steps} rounds.**", "", *_markdown(table)]
    PAGE.write_text(f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{after}")


def _markdown(table: TextTable) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    return [line(table.columns), line("---" for _ in table.columns), *(line(row) for row in table.rows())]


if __name__ == "__main__":
    main()
