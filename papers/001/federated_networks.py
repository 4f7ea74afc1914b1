"""Fig. 6.3 and Table 6.4: networks trained by federated LDP-SGD as printed, the control, and `UnitVector`.

The MLP of Fig. 6.3 has 616,610 parameters and learns CIFAR-10, which cannot be had offline; a smaller one on MNIST
stands in. Table 6.4 says CIFAR-10 in the text and MNIST in its head; an accuracy of 95% without noise fits MNIST and
the CNN of 21,840 parameters, which learns nothing in the few hundred steps that a minute allows; below the full scale a
perceptron on digits stands in for it. Both run with a constant rate, too: with the printed one, .1 / (1 + t), and
gradients of norm .1 no network moves visibly, with or without noise.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dither.learn.federated import by_class
from dither.learn.federated.encoders import encoder_for
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .as_printed_ldpvec import MECHANISMS
from .central_training import fresh
from .federated_training import BATCH, CLIP, CONTROL, LDPVEC, NO_NOISE, NUMERICAL, RATE, Federated
from .images import Images, data, images
from .networks import cnn, colour_cnn, logistic, mlp, size, square

UNIT_VECTOR = "UnitVector"
CONSTANT = 5.0  # a rate at which both networks learn without noise
SERVER_RATE = 8.0  # for whole updates, which are clipped to C

Numbers = NDArray[np.float64]


class DeviceGradients:
    """The gradients of one network on a batch of each device, for parameters of their own in one row a device."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.shapes = {name: weight.shape for name, weight in network.named_parameters()}
        self.slopes = vmap(grad(self._loss))

    def _loss(self, row: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(self.network, self.unpacked(row), (inputs,)), labels)

    def unpacked(self, row: Tensor) -> dict[str, Tensor]:
        """One vector as parameters by name."""
        parts = row.split([shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def __call__(self, rows: Tensor, inputs: Tensor, labels: Tensor) -> Tensor:
        return self.slopes(rows, inputs, labels)

    def outputs(self, row: Numbers, inputs: Tensor) -> Tensor:
        """What the network with these parameters says."""
        with torch.no_grad():
            return functional_call(self.network, self.unpacked(torch.from_numpy(row).float()), (inputs,))


def rounds_of(
    gradients: DeviceGradients,
    inputs: Tensor,
    labels: Tensor,
    members: NDArray[np.int64],
    perturb: Federated,
    setting: Setting,
    rates: Sequence[float],
    random: np.random.Generator,
) -> Iterator[tuple[int, Numbers]]:
    """The server's parameters after each round: as printed, or with whole updates by `UnitVector`."""
    devices, local = len(members), int(setting["local"])
    place = torch.cat([weight.detach().flatten() for weight in gradients.network.parameters()]).double().numpy()
    whole = None
    if perturb.line == UNIT_VECTOR:
        whole = encoder_for("UnitVector", place.size, perturb.epsilon, 0.0, CLIP, {})
    for begin in range(0, len(rates), local):
        rows = torch.from_numpy(np.tile(place, (devices, 1))).float()
        noisy = np.zeros((devices, place.size))
        for t in range(begin, begin + local):
            some = torch.from_numpy(np.take_along_axis(members, _batches(members.shape, random), 1))
            slopes = gradients(rows, inputs[some], labels[some])
            slopes = slopes * (CLIP / torch.linalg.vector_norm(slopes, dim=1, keepdim=True).clamp(min=CLIP))
            if whole is None and t == begin + local - 1:
                noisy = rates[t] * perturb(slopes.double().numpy(), random)
            else:
                rows = rows - rates[t] * slopes
        if whole is None:
            place = (rows.double().numpy() - noisy).mean(axis=0)
        else:
            updates = rows.double().numpy() - place
            updates *= CLIP / np.maximum(np.linalg.norm(updates, axis=1, keepdims=True), CLIP)
            reports = whole.randomize(updates, seed=int(random.integers(1 << 31)))
            place = place + SERVER_RATE * whole.estimate(whole.tally(reports)).value
        yield begin + local, place


def _batches(shape: tuple[int, ...], random: np.random.Generator) -> NDArray[np.int64]:
    batch = min(BATCH, shape[1])
    return random.random(shape).argpartition(batch - 1, axis=1)[:, :batch]


def _members(found: Images, setting: Setting, seed: int) -> NDArray[np.int64]:
    rows = by_class(found.train_labels[: int(setting["pool"])], int(setting["devices"]), 2, seed=seed % 2**31)
    return np.stack([np.resize(each, 120) for each in rows])


def federated_mlp(setting: Setting, seed: int) -> Iterator[Number]:
    """The global loss by iteration of one line of Fig. 6.3; lines that have no mechanism are in all its panels."""
    found = images(str(setting["pictures"]))
    line, mechanism = str(setting["line"]), str(setting["mechanism"])
    network = fresh(mlp(found.train.shape[1], int(setting["hidden"])), seed)
    gradients, random = DeviceGradients(network), np.random.default_rng(seed)
    inputs, labels = torch.from_numpy(found.train), torch.from_numpy(found.train_labels)
    test, true = torch.from_numpy(found.test[:2000]), torch.from_numpy(found.test_labels[:2000])
    many = int(setting["local"]) * int(setting["rounds"])
    rates = [RATE / (1 + t) if setting["rate"] == "printed" else CONSTANT for t in range(many)]
    perturb = Federated(line, mechanism, EPSILON)
    steps = rounds_of(gradients, inputs, labels, _members(found, setting, seed), perturb, setting, rates, random)
    start = torch.cat([weight.detach().flatten() for weight in network.parameters()]).double().numpy()
    for iteration, place in ((0, start), *steps):
        loss = float(nn.functional.cross_entropy(gradients.outputs(place, test).double(), true))
        for panel in [mechanism] if mechanism else MECHANISMS:
            yield measured_value(loss, panel=panel, iteration=iteration)


EPSILON = 48.5
_PLAIN = ({"line": line, "mechanism": ""} for line in (NO_NOISE, CONTROL, UNIT_VECTOR))
_NOISY = ({"line": line, "mechanism": mechanism} for mechanism in MECHANISMS for line in (NUMERICAL, LDPVEC))
FEDERATED_MLP = Experiment(
    "001.federated_mlp",
    federated_mlp,
    tuple(
        {**each, "rate": rate}
        for each in (*_PLAIN, *_NOISY)
        for rate in ("printed", "constant")
        if (each["line"], rate) != (UNIT_VECTOR, "printed")  # which has nothing to report then
    ),
    {"smoke": 1, "quick": 2, "full": 3},
    size={
        "smoke": {"pictures": "small digits", "hidden": 8, "devices": 10, "pool": 1438, "local": 5, "rounds": 2},
        "quick": {"pictures": "small digits", "hidden": 64, "devices": 10, "pool": 1438, "local": 20, "rounds": 10},
        "full": {"pictures": "mnist", "hidden": 200, "devices": 1000, "pool": 60_000, "local": 50, "rounds": 100},
    },
    data=data,
    cost="With 1,000 devices, 200 hidden units and 5,000 iterations a line takes about a day of one core, and memory "
    "for "
    "1,000 models.",
)


def federated_cnn(setting: Setting, seed: int) -> Iterator[Number]:
    """The test accuracy in per cent of one cell of Table 6.4."""
    found, small = images(str(setting["pictures"])), setting["network"] == "perceptron"
    network = fresh(mlp(found.train.shape[1], 32) if small else cnn(), seed)
    shaped = torch.from_numpy if small else square
    gradients, random = DeviceGradients(network), np.random.default_rng(seed)
    inputs, labels = shaped(found.train), torch.from_numpy(found.train_labels)
    test, true = shaped(found.test[:2000]), torch.from_numpy(found.test_labels[:2000])
    perturb = ROWS[str(setting["method"])]._replace(epsilon=float(setting["epsilon"]))
    rates = [CONSTANT] * (int(setting["local"]) * int(setting["rounds"]))
    steps = rounds_of(gradients, inputs, labels, _members(found, setting, seed), perturb, setting, rates, random)
    *_, (_, place) = steps
    right = gradients.outputs(place, test).argmax(dim=1) == true
    yield measured_value(100 * float(right.double().mean()), column=f"ε = {setting['epsilon']}")


SHORT = {"Laplace": "Lap", "Piecewise": "Pie", "Gaussian": "Gau"}
ROWS: dict[str, Federated] = {
    "No noise": Federated(NO_NOISE),
    **{SHORT[each]: Federated(NUMERICAL, each) for each in reversed(MECHANISMS)},
    **{f"{SHORT[each]}-Vec": Federated(LDPVEC, each, beta=0.05) for each in reversed(MECHANISMS)},
    "control: no data": Federated(CONTROL),
    "dither: UnitVector": Federated(UNIT_VECTOR),
}
FEDERATED_CNN = Experiment(
    "001.federated_cnn",
    federated_cnn,
    grid(method=tuple(ROWS), epsilon=(15.3, 48.5)),
    {"smoke": 1, "quick": 3, "full": 3},
    size={
        "smoke": {
            "network": "perceptron",
            "pictures": "small digits",
            "devices": 5,
            "pool": 1438,
            "local": 3,
            "rounds": 1,
        },
        "quick": {
            "network": "perceptron",
            "pictures": "small digits",
            "devices": 10,
            "pool": 1438,
            "local": 20,
            "rounds": 10,
        },
        "full": {"network": "CNN", "pictures": "mnist", "devices": 1000, "pool": 60_000, "local": 200, "rounds": 10},
    },
    only={"smoke": {"epsilon": 48.5}},
    data=data,
    cost="With 1,000 devices, 200 local steps and 10 rounds a cell takes about 4 hours of one core, the table two "
    "days.",
)


# Tables 6.1 to 6.3 ----------------------------------------------------------------------------------------------------


def parameters(setting: Setting, seed: int) -> Iterator[Number]:
    """How many parameters the layers of the three networks have."""
    for table, network in {"tab6.1": logistic(), "tab6.2": mlp(3072, 200), "tab6.3": colour_cnn()}.items():
        layers = [each for each in network.modules() if isinstance(each, nn.Conv2d | nn.Linear)]
        for place, layer in enumerate(layers):
            kind = "convolution" if isinstance(layer, nn.Conv2d) else "linear"
            yield measured_value(size(layer), table=table, layer=f"{place + 1}, {kind}", column="parameters")
        yield measured_value(size(network), table=table, layer="total", column="parameters")


PARAMETERS = Experiment("001.parameters", parameters, ({},), {"smoke": 1, "quick": 1, "full": 1})
