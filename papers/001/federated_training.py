"""Fig. 6.2: federated logistic regression as section 6.1.1 prints it, with the control that it lacks.

**As printed.** A device takes E steps on its own records, clips each gradient to C, and puts noise on the last one
alone; the server averages what arrives. So a model that is sent holds E - 1 steps without any noise, and the last moves
it by no more than rate * C if the norm is kept, as LDPVec does. Whether LDPVec "preserves the direction" cannot be
seen in such a figure unless a line stands beside it whose last step is a direction *without any data*: the control.

**Sound.** dither clips and randomizes the whole update of a round, by `UnitVector` or any other mechanism, and promises
that epsilon (`dither.learn.Federation`); those lines have a constant local rate of .1 and a server rate of 16, which
docs/federated.md chose on validation data.

**How it is computed.** A linear model's parameters are the server's plus a sum of records, so a step changes one
coefficient a record, and needs the records by their inner products only. All lines share records and batches, and go
side by side as columns of one matrix.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dither.learn.federated import Devices, Federation, by_class
from dither.reproduce.experiments import Experiment, Setting
from dither.reproduce.measured import Number, measured_value

from .as_printed_ldpvec import MECHANISMS, ignorant, ldpvec, numerical
from .images import data, images
from .networks import logistic

DELTA, CLIP, BATCH, RATE = 1e-5, 0.1, 32, 0.1
EPSILONS = (1.5, 4.9, 15.3)
SOUND = {
    "UnitVector": ("UnitVector", {}, 16.0),
    "LDPVec, sound": ("LDPVec", {"base": "Gaussian", "beta": 0.05}, 1024.0),
}
NO_NOISE, NUMERICAL, LDPVEC, CONTROL = "No noise", "Numerical", "LDPVec, as printed", "control: no data"

Numbers = NDArray[np.float64]
Floats = NDArray[np.float32]


class Federated(NamedTuple):
    """A line: how the last step of a round is perturbed."""

    line: str
    mechanism: str = ""
    epsilon: float = 0.0
    beta: float = 1.0

    def __call__(self, gradients: Numbers, random: np.random.Generator) -> Numbers:
        if self.line == NO_NOISE:
            return gradients
        if self.line == CONTROL:
            return ignorant((gradients.shape[0], gradients.shape[1]), CLIP, random)
        if self.line == NUMERICAL:
            return numerical(gradients, CLIP, self.mechanism, self.epsilon, DELTA, random)
        return ldpvec(gradients, self.beta, self.mechanism, self.epsilon, DELTA, random)


class Records(NamedTuple):
    """What the devices hold: pixels and a one, labels of two classes, and inner products."""

    inputs: Floats  # devices, records, parameters
    labels: Floats
    products: Floats
    test: Floats
    test_labels: NDArray[np.int64]


def _halves(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 to 4 against 5 to 9."""
    return (labels >= 5).astype(np.int64)


def dealt(pictures: str, devices: int, records: int, seed: int) -> Records:
    """Pictures of two digits for every device; where there are too few, a device gets some of them again."""
    found = images(pictures)
    per = max(2, len(found.train) // devices)
    rows = by_class(found.train_labels, devices, 2, seed=seed % 2**31)
    own = np.stack([np.resize(np.random.default_rng(seed).permutation(each), min(records, per)) for each in rows])
    ones = np.ones((len(found.train), 1), dtype=np.float32)
    inputs = np.concatenate([found.train, ones], axis=1)[own]
    test = np.column_stack([found.test, np.ones(len(found.test), dtype=np.float32)])
    labels = _halves(found.train_labels)[own].astype(np.float32)
    return Records(inputs, labels, inputs @ inputs.transpose(0, 2, 1), test, _halves(found.test_labels))


def side_by_side(
    held: Records, lines: Sequence[Federated], local: int, iterations: int, decay: bool, seed: int
) -> Iterator[tuple[int, Numbers]]:
    """After each round, the parameters of every line, a column each."""
    random = np.random.default_rng(seed)
    devices, records, d = held.inputs.shape
    every = held.inputs.reshape(-1, d)
    model = np.zeros((d, len(lines)))
    batch = min(BATCH, records)
    who = np.arange(devices)[:, None]
    for begin in range(0, iterations, local):
        scores = (every @ model.astype(np.float32)).reshape(devices, records, -1)
        coefficients = np.zeros_like(scores)
        for t in range(begin, begin + local):
            rate = np.float32(RATE / (1 + t) if decay else RATE)
            rows = random.random((devices, records)).argpartition(batch - 1, axis=1)[:, :batch]
            pull = np.zeros_like(scores)
            pull[who, rows] = (_sigmoid(scores[who, rows]) - held.labels[who, rows][..., None]) / np.float32(batch)
            moved = held.products @ pull
            norms = np.sqrt(np.maximum((pull * moved).sum(axis=1, keepdims=True), 1e-24))
            factors = np.minimum(np.float32(1), np.float32(CLIP) / norms)
            if t < begin + local - 1:
                scores -= rate * factors * moved
                coefficients -= rate * factors * pull
                continue
            model += (every.T @ coefficients.reshape(-1, len(lines))) / devices
            for column, perturb in enumerate(lines):
                gradients = np.einsum("nmd,nm->nd", held.inputs, (factors * pull)[..., column], optimize=True)
                model[:, column] -= rate * perturb(gradients.astype(np.float64), random).mean(axis=0)
        yield begin + local, model.copy()


def _sigmoid(scores: Floats) -> Floats:
    return np.float32(1) / (np.float32(1) + np.exp(-np.clip(scores, -60, 60)))


def measured_model(held: Records, weights: Numbers) -> tuple[float, float]:
    """Mean cross entropy and accuracy on the test pictures."""
    scores = held.test.astype(np.float64) @ weights
    loss = np.logaddexp(0, scores) - held.test_labels * scores
    return float(loss.mean()), float(np.mean((scores > 0) == held.test_labels))


def federated_logistic(setting: Setting, seed: int) -> Iterator[Number]:
    """All lines of some panels: losses by iteration, and accuracies at the end."""
    part = PARTS[str(setting["part"])]
    devices = max(5, round(part.devices / float(setting["fewer"]))) if part.devices > 5 else part.devices
    held = dealt(str(setting["pictures"]), devices, int(setting["records"]), seed)
    budgets = EPSILONS if part.devices > 5 else EPSILONS[-1:]
    pairs = [(mechanism, epsilon) for epsilon in budgets for mechanism in MECHANISMS]
    lines = [Federated(NO_NOISE), Federated(CONTROL)]
    lines += [Federated(line, *pair) for pair in pairs for line in (NUMERICAL, LDPVEC)]
    iterations = int(setting["iterations"])
    shown = {part.local * round(share * iterations / part.local) for share in np.linspace(0.05, 1, 12)}
    start = measured_model(held, np.zeros(held.inputs.shape[2]))
    for iteration, model in ((0, None), *side_by_side(held, lines, part.local, iterations, part.decay, seed)):
        if iteration and iteration not in shown and iteration < iterations:
            continue
        for column, each in enumerate(lines):
            found = start if model is None else measured_model(held, model[:, column])
            for mechanism, epsilon in [(each.mechanism, each.epsilon)] if each.mechanism else pairs:
                where = {"mechanism": mechanism, "epsilon": epsilon, "line": each.line}
                yield measured_value(found[0], iteration=iteration, metric="loss", **where)
                if iteration == iterations:
                    yield measured_value(100 * found[1], metric="accuracy", **where)
    if part.sound:
        yield from _sound(setting, held, part, seed)


def _sound(setting: Setting, held: Records, part: "Part", seed: int) -> Iterator[Number]:
    """The same devices with certified reports of whole updates."""
    torch.set_num_threads(1)
    devices, records, d = held.inputs.shape
    inputs = held.inputs.reshape(-1, d)[:, :-1]
    own = Devices(inputs, held.labels.astype(np.int64).reshape(-1), np.arange(len(inputs)).reshape(devices, records))
    test = held.test[:, :-1], held.test_labels
    rounds = int(setting["iterations"]) // part.local
    for line, (name, options, server_rate) in SOUND.items():
        for epsilon in EPSILONS:
            model = logistic() if d == 785 else torch.nn.Linear(d - 1, 1)
            for weight in model.parameters():
                torch.nn.init.zeros_(weight)
            federation = Federation(
                model, name, rounds=rounds, epsilon=min(epsilon, 15.3), delta=DELTA if options else 0.0,
                budget="round", local_steps=part.local, batch=min(BATCH, records), rate=RATE, clip=CLIP,
                server_rate=server_rate, options=options, seed=seed % 2**31,
            )  # fmt: skip
            for turn in range(rounds + 1):
                if turn:
                    federation.step(own)
                loss = federation.loss(*test)
                for mechanism in MECHANISMS:
                    where = {"mechanism": mechanism, "epsilon": epsilon, "line": line}
                    yield measured_value(loss, iteration=turn * part.local, metric="loss", **where)
            for mechanism in MECHANISMS:
                where = {"mechanism": mechanism, "epsilon": epsilon, "line": line}
                yield measured_value(100 * federation.score(*test), metric="accuracy", **where)


class Part(NamedTuple):
    """Some panels: how many devices, how many steps between two rounds, and whether the rate shrinks as printed."""

    devices: int
    local: int
    decay: bool
    sound: bool = False


PARTS = {
    "(a) to (i)": Part(500, 50, decay=True, sound=True),
    "(j) to (l)": Part(5, 2, decay=True),
    "constant rate": Part(500, 50, decay=False),
}
FEDERATED_LOGISTIC = Experiment(
    "001.federated_logistic",
    federated_logistic,
    tuple({"part": part} for part in PARTS),
    {"smoke": 1, "quick": 2, "full": 3},
    size={
        "smoke": {"pictures": "small digits", "fewer": 25, "records": 40, "iterations": 100},
        "quick": {"pictures": "mnist", "fewer": 1, "records": 40, "iterations": 500},
        "full": {"pictures": "mnist", "fewer": 1, "records": 120, "iterations": 500},
    },
    data=data,
)
