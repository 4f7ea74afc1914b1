"""Fig. 5.5, Tables 5.2 and 5.3: models trained with DP-SGD, with Algorithm 5 as printed, and with a control.

**Noise.** All methods perturb the average of the clipped gradients of a batch. Where batches are smaller here than in
the paper, so is the noise multiplier, by the same factor: what is added to the average is then what the paper adds,
and only the batch itself is more of a sample. The rates of learning are not told; each network has one, which is
good without noise, for all methods.

**Lines.** DP-SGD; the same with momentum (an option of `dither.learn.DPSGD` that costs no privacy), which is dither's
better line; Algorithm 5 as printed, and without its step 5, which does not even claim to be private; and a
control, which takes the noisy *length* of the gradient and a direction that does not look at the data.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dither.privacy.accounting.subsampling import subsampled_gaussian
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .as_printed import certificate, dp_sgd, perturbed
from .as_printed_ldpvec import ignorant
from .images import Images, data, images
from .networks import accuracy, cnn, move, record_gradients, resnet, size, square

DELTA = 1e-5
CLIP = 0.1
GAMMA = 0.01  # of AUTO-S
RATE = 10.0

Numbers = NDArray[np.float64]
Perturb = Callable[[Numbers], Numbers]


def perturbation(
    method: str, batch: float, beta: float, sigma: float, random: np.random.Generator, clip: float = CLIP
) -> Perturb:
    """From an averaged clipped gradient to the step that a method makes of it; `batch` is that of the noise."""

    def step(average: Numbers) -> Numbers:
        if method == "no noise":
            return average
        if method == "DP":
            return dp_sgd(average, batch, clip, sigma, random)
        if method == "control":
            length = float(np.linalg.norm(average)) + clip / batch * sigma * random.normal()
            return ignorant((1, average.size), 1.0, random)[0] * length
        return perturbed(average, batch, clip, beta, sigma, random, step_5=method == "GeoDP as printed")[0]

    return step


# Logistic regression: Fig. 5.5 ----------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One line of a panel."""

    line: str
    method: str
    batch: int
    sigma: float = 0.0
    beta: float = 1.0
    momentum: float = 0.0


MOMENTUM = 0.8
BETTER = "dither: DP-SGD with momentum"


def _pairs(batch: int, sigmas: tuple[float, ...]) -> tuple[Run, ...]:
    return tuple(
        Run(f"{title}, σ = {sigma:g}", method, batch, sigma)
        for sigma in sigmas
        for title, method in (("DP", "DP"), ("GeoDP", "GeoDP as printed"))
    )


PANELS: dict[str, tuple[Run, ...]] = {
    "a": (
        Run("No noise", "no noise", 4096),
        *(Run(f"DP, B = {batch}", "DP", batch, 1.0) for batch in (2048, 4096)),
        *(Run(f"GeoDP, B = {batch}", "GeoDP as printed", batch, 1.0) for batch in (2048, 4096)),
        Run(BETTER, "DP", 4096, 1.0, momentum=MOMENTUM),
        Run("control", "control", 4096, 1.0),
    ),
    "b": (
        Run("No noise", "no noise", 4096),
        Run("DP", "DP", 4096, 10.0),
        Run("GeoDP, β = 1", "GeoDP as printed", 4096, 10.0),
        Run("GeoDP, β = 0.5", "GeoDP as printed", 4096, 10.0, 0.5),
        Run("GeoDP, β = 0.5, without step 5", "GeoDP without step 5", 4096, 10.0, 0.5),
        Run(BETTER, "DP", 4096, 10.0, momentum=MOMENTUM),
        Run("control", "control", 4096, 10.0),
    ),
    **{
        panel: (
            Run("No noise", "no noise", batch),
            *_pairs(batch, (0.01, 0.1)),
            Run(BETTER, "DP", batch, 0.1, momentum=MOMENTUM),
            Run("control", "control", batch, 0.1),
        )
        for panel, batch in (("c", 256), ("d", 2048))
    },
}


def logistic_regression(setting: Setting, seed: int) -> Iterator[Number]:
    """The training losses of all lines of a panel, and their accuracies at the end."""
    found = images(str(setting["pictures"])).first(int(setting["records"]))
    for place, run in enumerate(PANELS[str(setting["panel"])]):
        yield from _trained(found, run, setting, np.random.default_rng([seed, place]))
    last = PANELS[str(setting["panel"])][-1]
    exact = subsampled_gaussian(last.sigma, last.batch / 60_000, 350, DELTA).epsilon if last.sigma >= 0.05 else None
    if exact is not None:
        yield measured_value(exact, line="true epsilon of DP", sigma=last.sigma)


def _trained(found: Images, run: Run, setting: Setting, random: np.random.Generator) -> Iterator[Number]:
    iterations = int(setting["iterations"])
    inputs = np.column_stack([found.train, np.ones(len(found.train), dtype=np.float32)])
    labels = np.eye(10, dtype=np.float32)[found.train_labels]
    batch = min(run.batch // int(setting["smaller"]), len(inputs))
    lengths = np.linalg.norm(inputs, axis=1)
    sigma = run.sigma * batch / run.batch
    step = perturbation(run.method, batch, run.beta, sigma, random)
    weights, speed = np.zeros((inputs.shape[1], 10)), np.zeros((inputs.shape[1], 10))
    test = np.column_stack([found.test, np.ones(len(found.test), dtype=np.float32)])
    shown = {round(share * iterations) for share in (0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1)}
    for iteration in range(iterations + 1):
        if iteration in shown:
            yield measured_value(_loss(inputs[:5000], labels[:5000], weights), line=run.line, iteration=iteration)
        rows = random.choice(len(inputs), batch, replace=False)
        some = inputs[rows]
        excess = _chances(some @ weights.astype(np.float32)) - labels[rows]
        norms = np.linalg.norm(excess, axis=1) * lengths[rows]
        excess *= (np.minimum(1, CLIP / np.maximum(norms, 1e-12)) / batch)[:, None].astype(np.float32)
        gradient = (some.T @ excess).astype(np.float64)
        speed = run.momentum * speed + step(gradient.ravel()).reshape(gradient.shape)
        weights -= RATE * speed
    right = (test @ weights).argmax(axis=1) == found.test_labels
    yield measured_value(float(right.mean()), line=run.line, metric="accuracy")


def _chances(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def _loss(inputs: NDArray[np.float32], labels: NDArray[np.float32], weights: Numbers) -> float:
    chances = _chances(inputs @ weights.astype(np.float32))
    return float(-np.log(np.maximum((chances * labels).sum(axis=1), 1e-30)).mean())


LOGISTIC = Experiment(
    "001.logistic_regression",
    logistic_regression,
    grid(panel=tuple(PANELS)),
    {"smoke": 1, "quick": 2, "full": 100},
    size={
        "smoke": {"pictures": "small digits", "records": 1438, "iterations": 40, "smaller": 4},
        "quick": {"pictures": "mnist", "records": 10_000, "iterations": 350, "smaller": 8},
        "full": {"pictures": "mnist", "records": 60_000, "iterations": 350, "smaller": 1},
    },
    data=data,
)


# Networks: Tables 5.2 and 5.3 -----------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A row of a table: what is done, with the paper's batch."""

    method: str
    batch: int
    beta: float = 1.0
    auto: bool = False
    momentum: float = 0.0


CNN_ROWS: dict[str, Cell] = {
    "No noise (B = 8192)": Cell("no noise", 8192),
    "DP (B = 8192)": Cell("DP", 8192),
    "DP (B = 16384)": Cell("DP", 16384),
    "DP (B = 16384 + AUTO-S)": Cell("DP", 16384, auto=True),
    "GeoDP (B = 8192, β = 0.1)": Cell("GeoDP as printed", 8192, 0.1),
    "GeoDP (B = 16384, β = 0.1)": Cell("GeoDP as printed", 16384, 0.1),
    "GeoDP (B = 8192, β = 0.5)": Cell("GeoDP as printed", 8192, 0.5),
    "GeoDP (B = 16384, β = 0.1 + AUTO-S)": Cell("GeoDP as printed", 16384, 0.1, auto=True),
    "GeoDP (B = 8192, β = 0.1), without step 5": Cell("GeoDP without step 5", 8192, 0.1),
    "GeoDP (B = 16384, β = 0.1), without step 5": Cell("GeoDP without step 5", 16384, 0.1),
    "GeoDP (B = 8192, β = 0.5), without step 5": Cell("GeoDP without step 5", 8192, 0.5),
    "control: a direction without data (B = 16384)": Cell("control", 16384),
    "dither: DP with momentum (B = 16384)": Cell("DP", 16384, momentum=MOMENTUM),
}
RESNET_ROWS: dict[str, Cell] = {
    "No noise (B = 8192)": Cell("no noise", 8192),
    "DP (B = 8192)": Cell("DP", 8192),
    "DP (B = 16384)": Cell("DP", 16384),
    "DP (B = 16384 + AUTO-S)": Cell("DP", 16384, auto=True),
    "GeoDP (B = 8192, β = 1)": Cell("GeoDP as printed", 8192, 1.0),
    "GeoDP (B = 16384, β = 1)": Cell("GeoDP as printed", 16384, 1.0),
    "GeoDP (B = 16384, β = 0.1)": Cell("GeoDP as printed", 16384, 0.1),
    "GeoDP (B = 16384, β = 0.1 + AUTO-S)": Cell("GeoDP as printed", 16384, 0.1, auto=True),
    "control: a direction without data (B = 16384)": Cell("control", 16384),
    "dither: DP with momentum (B = 16384)": Cell("DP", 16384, momentum=MOMENTUM),
}
LEAST_SIGMA = 0.05  # below, no accountant says what is promised


def cnn_cell(setting: Setting, seed: int) -> Iterator[Number]:
    """The test accuracy in per cent of the CNN, for one row of Table 5.2 at one noise multiplier."""
    cell = CNN_ROWS[str(setting["method"])]
    yield measured_value(100 * _network(cnn(), setting, cell, seed), column=str(setting["noise"]))
    yield from _promised(setting, cell, 60_000)


def resnet_cell(setting: Setting, seed: int) -> Iterator[Number]:
    """The same for the ResNet of Table 5.3, on small pictures."""
    cell = RESNET_ROWS[str(setting["method"])]
    yield measured_value(100 * _network(resnet(), setting, cell, seed), column=str(setting["noise"]))
    yield from _promised(setting, cell, 50_000)


def _sigma(setting: Setting) -> float:
    return float(str(setting["noise"]).removeprefix("σ = "))


def _promised(setting: Setting, cell: Cell, records: int) -> Iterator[Number]:
    """What 20 epochs of the paper's size really cost: an accountant's epsilon for DP, one step's for Algorithm 5."""
    sigma, column = _sigma(setting), f"true ε, {setting['noise']}"
    if cell.method == "DP" and sigma >= LEAST_SIGMA:
        steps = round(20 * records / cell.batch)
        yield measured_value(subsampled_gaussian(sigma, cell.batch / records, steps, DELTA).epsilon, column=column)
    if cell.method == "GeoDP as printed":
        yield measured_value(certificate(sigma, cell.batch, DELTA), column=column)


def _network(network: nn.Module, setting: Setting, cell: Cell, seed: int) -> float:
    fresh(network, seed)
    found = images(str(setting["pictures"])).first(int(setting["records"]))
    inputs, labels = square(found.train), torch.from_numpy(found.train_labels)
    random = np.random.default_rng(seed)
    batch = round(cell.batch / float(setting["smaller"]))
    steps = max(1, round(float(setting["epochs"]) * float(setting["counted"]) / cell.batch))
    # AUTO-S bounds by 1 where flat clipping bounds by C: the same steps at a rate of C times as much.
    clip, rate = (1.0, RATE * CLIP) if cell.auto else (CLIP, RATE)
    step = perturbation(cell.method, batch, cell.beta, _sigma(setting) * batch / cell.batch, random, clip)
    descend(network, inputs, labels, step, random, steps=steps, batch=batch, rate=rate, cell=cell)
    return accuracy(network, square(found.test[:5000]), torch.from_numpy(found.test_labels[:5000]))


def descend(
    network: nn.Module,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    step: Perturb,
    random: np.random.Generator,
    *,
    steps: int,
    batch: int,
    rate: float,
    cell: Cell,
) -> None:
    """Train a network in place: clipped gradients of a batch, their average perturbed, a step."""
    gradients, speed = record_gradients(network, inputs, labels), np.zeros(size(network))
    for _ in range(steps):
        rows = torch.from_numpy(random.choice(len(inputs), batch, replace=batch > len(inputs)))
        total = sum(_bounded(gradients(inputs[some], labels[some]), cell.auto) for some in rows.split(256))
        speed = cell.momentum * speed + step(np.asarray(total) / batch)
        move(network, -rate * speed)


def fresh(network: nn.Module, seed: int) -> nn.Module:
    """The network with new parameters."""
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**31)
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.reset_parameters()
    return network


def _bounded(rows: torch.Tensor, auto: bool) -> Numbers:
    """The sum of gradients, each cut to the length C or, by AUTO-S, divided by its length."""
    norms = torch.linalg.vector_norm(rows, dim=1)
    factors = 1 / (norms + GAMMA) if auto else CLIP / norms.clamp(min=CLIP)
    return (factors @ rows).double().numpy()


CNN = Experiment(
    "001.cnn",
    cnn_cell,
    grid(method=tuple(CNN_ROWS), noise=("σ = 10", "σ = 1")),
    {"smoke": 1, "quick": 2, "full": 1},
    size={
        "smoke": {"pictures": "digits", "records": 1438, "smaller": 256, "epochs": 1, "counted": 60_000},
        "quick": {"pictures": "mnist", "records": 10_000, "smaller": 256, "epochs": 20, "counted": 60_000},
        "full": {"pictures": "mnist", "records": 60_000, "smaller": 1, "epochs": 20, "counted": 60_000},
    },
    only={"smoke": {"noise": "σ = 1"}},
    data=data,
    cost="At full size (60,000 pictures, batches of 8,192 and 16,384, 20 epochs) a training takes about 4 minutes of "
    "one core, one seed of the table 2 hours, and the paper's 100 seeds 8 days.",
)
RESNET = Experiment(
    "001.resnet",
    resnet_cell,
    grid(method=tuple(RESNET_ROWS), noise=("σ = 0.1", "σ = 0.01")),
    {"smoke": 1, "quick": 3, "full": 10},
    size={
        "smoke": {"pictures": "small digits", "records": 1438, "smaller": 256, "epochs": 1, "counted": 50_000},
        "quick": {"pictures": "small digits", "records": 1438, "smaller": 128, "epochs": 20, "counted": 50_000},
        "full": {"pictures": "small digits", "records": 1438, "smaller": 16, "epochs": 20, "counted": 50_000},
    },
    only={"smoke": {"noise": "σ = 0.1"}},
    cost="CIFAR-10 cannot be had offline; with it, at batches of 16,384 and a width of 64, the table is a day of a "
    "graphics card.",
)
