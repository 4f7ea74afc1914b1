"""Table 5.4: who was in the training data, guessed by an attacker who sees all of a model.

The paper attacks its CNN on CelebA and FMNIST with ML-Doctor: 70% of the training set are known to the attacker, who
learns from ranked posteriors, gradients of the last layer, the loss and the label. Neither set can be had offline. Here
a perceptron with 64 hidden units is trained on 600 of scikit-learn's digits, 600 others are not members, and a forest
learns from the same four inputs on 70% of both; its accuracy is that on the rest.

An attack that fails proves nothing. Algorithm 5 as printed is attacked too; what it really promises is in `as_printed`.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dither.privacy.accounting.subsampling import noise_multiplier
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .central_training import CLIP, DELTA, RATE, Cell, descend, fresh, perturbation
from .images import images
from .networks import mlp

MEMBERS, KNOWN, BATCH = 600, 0.7, 64
METHODS = {
    "Original model": "no noise",
    "DP": "DP",
    "GeoDP (β = 0.1), as printed": "GeoDP as printed",
    "GeoDP (β = 0.1), without step 5": "GeoDP without step 5",
}


def membership(setting: Setting, seed: int) -> Iterator[Number]:
    """The accuracy in per cent of the attack on one model, and of the model itself."""
    epsilon, column = float(setting["epsilon"]), f"ε = {setting['epsilon']}"
    found, random = images("small digits"), np.random.default_rng(seed)
    pixels = np.concatenate([found.train, found.test])
    labels = np.concatenate([found.train_labels, found.test_labels])
    order = random.permutation(len(pixels))
    pixels, labels = torch.from_numpy(pixels[order]), torch.from_numpy(labels[order])
    network, steps = fresh(mlp(64, 64), seed), round(float(setting["epochs"]) * MEMBERS / BATCH)
    sigma = noise_multiplier(epsilon, DELTA, BATCH / MEMBERS, steps)
    method = METHODS[str(setting["method"])]
    step = perturbation(method, BATCH, 0.1, sigma, random)
    members = slice(0, MEMBERS)
    rate = RATE / CLIP if method == "no noise" else RATE  # without privacy it may learn by heart
    descend(
        network, pixels[members], labels[members], step, random,
        steps=steps, batch=BATCH, rate=min(rate, 20.0), cell=Cell(method, BATCH),
    )  # fmt: skip
    others = slice(MEMBERS, 2 * MEMBERS)
    ours, theirs = (_inputs(network, pixels[some], labels[some]) for some in (members, others))
    yield measured_value(100 * _guessed(ours, theirs, seed), column=f"attack, {column}")
    with torch.no_grad():
        right = network(pixels[others]).argmax(dim=1) == labels[others]
    yield measured_value(100 * float(right.double().mean()), column=f"model, {column}")


def _inputs(network: nn.Module, pixels: torch.Tensor, labels: torch.Tensor) -> NDArray[np.float32]:
    """Ranked posteriors, the gradient of the last layer, the loss and the label of each record."""
    layers = list(network.children())
    with torch.no_grad():
        hidden = layers[1](layers[0](pixels))
        chances = torch.softmax(layers[2](hidden), dim=1)
    true = nn.functional.one_hot(labels, 10).float()
    last = ((chances - true)[:, :, None] * hidden[:, None, :]).flatten(1)
    loss = -torch.log((chances * true).sum(dim=1, keepdim=True).clamp(min=1e-30))
    return torch.cat([chances.sort(dim=1).values, last, loss, true], dim=1).numpy()


def _guessed(ours: NDArray[np.float32], theirs: NDArray[np.float32], seed: int) -> float:
    from sklearn.ensemble import RandomForestClassifier

    cut = round(KNOWN * len(ours))
    forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=seed % 2**31)
    forest.fit(np.concatenate([ours[:cut], theirs[:cut]]), np.repeat([1, 0], cut))
    rest = np.concatenate([ours[cut:], theirs[cut:]])
    return float(np.mean(forest.predict(rest) == np.repeat([1, 0], len(rest) // 2)))


MEMBERSHIP = Experiment(
    "001.membership",
    membership,
    grid(method=tuple(METHODS), epsilon=(4.9, 11.3)),
    {"smoke": 1, "quick": 4, "full": 100},
    size={"smoke": {"epochs": 1}, "quick": {"epochs": 50}, "full": {"epochs": 50}},
    only={"smoke": {"epsilon": 4.9, "method": "DP"}},
    cost="CelebA and FMNIST cannot be had offline.",
)
