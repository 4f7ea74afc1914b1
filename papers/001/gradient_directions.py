"""Fig. 5.1, 5.3 and 5.4: what noise does to the direction and to the values of averaged gradients of a real network.

001 takes 450,000 gradients of a CNN on CIFAR-10, 36 GB of them. Here they are those of the CNN of Table 5.2 on MNIST,
of which some dimensions are chosen at random: B clipped gradients are drawn (again and again, where B is more than
there are) and averaged, and the average is perturbed. The squared errors are sums over angles and over coordinates
(eq. 3.22).

Four perturbations: DP with noise C sigma / B on every coordinate, as eq. 5.5 has it; DP whose noise is *not* divided by
B, which is what some of the printed remarks would need; and Algorithm 5 with and without its step 5.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from dither.learn.spherical import to_spherical
from dither.reproduce.experiments import Experiment, Setting
from dither.reproduce.measured import Number, measured_value

from .as_printed import dp_sgd, perturbed
from .images import data, images
from .networks import cnn, record_gradients, square

CLIP = 0.1
SIGMAS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
SIGMA = 8.0
BETAS = (0.01, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
DIMENSIONS = (500, 1000, 2000, 5000, 10000, 20000)
BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
MIDDLE = {"d": 5000, "B": 2048}  # Fig. 5.3 (a) to (c)

Numbers = NDArray[np.float64]


@lru_cache(maxsize=1)
def pool(pictures: str, many: int) -> NDArray[np.float32]:
    """Gradients of many records, a row each, after 80 steps of plain training."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found, network = images(pictures), cnn()
    inputs, labels = square(found.train), torch.from_numpy(found.train_labels)
    plain = torch.optim.SGD(network.parameters(), 0.1)
    for step in range(80):
        rows = torch.arange(50 * step, 50 * (step + 1)) % len(inputs)
        plain.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs[rows]), labels[rows]).backward()
        plain.step()
    gradients = record_gradients(network, inputs, labels)
    chosen = torch.arange(4000, 4000 + many) % len(inputs)
    return np.concatenate([gradients(inputs[rows], labels[rows]).numpy() for rows in chosen.split(256)])


def averaged(rows: NDArray[np.float32], batch: int, random: np.random.Generator) -> Numbers:
    """The mean of so many clipped gradients, drawn from all."""
    factors = np.minimum(1.0, CLIP / np.maximum(np.linalg.norm(rows, axis=1), 1e-12))
    many = len(rows)
    drawn = random.choice(many, batch, replace=False) if batch <= many else random.integers(0, many, batch)
    return (factors * np.bincount(drawn, minlength=many) / batch) @ rows.astype(np.float64)


def squared_turns(one: Numbers, other: Numbers) -> float:
    """The sum of squared differences of angles, the last one around the circle."""
    apart = one - other
    apart[-1] = (apart[-1] + math.pi) % (2 * math.pi) - math.pi
    return float(apart @ apart)


def directions(setting: Setting, seed: int) -> Iterator[Number]:
    """One averaged gradient under all perturbations."""
    random = np.random.default_rng(seed)
    gradients = pool(str(setting["pictures"]), int(setting["gradients"]))
    d, batch = int(setting["d"]), int(setting["B"])
    chosen = np.sort(random.choice(gradients.shape[1], d, replace=False))
    average = averaged(gradients[:, chosen], batch, random)
    norm, angles = to_spherical(average)
    yield measured_value(float(norm) / CLIP, line="norm of the average over C")
    for beta in BETAS:
        inside = float(np.mean(angles[:-1] > (1 - beta) * math.pi))
        yield measured_value(inside, line="share of angles in the region", beta=beta)
    sigmas = (*SIGMAS, SIGMA) if {"d": d, "B": batch} == MIDDLE else (SIGMA,)
    for sigma in sigmas:
        yield from _perturbations(average, angles, batch, sigma, random)


def _perturbations(
    average: Numbers, angles: Numbers, batch: int, sigma: float, random: np.random.Generator
) -> Iterator[Number]:
    """Errors of angles and of values, for each region."""
    noisy = {
        "DP": dp_sgd(average, batch, CLIP, sigma, random),
        "DP, noise not divided by B": dp_sgd(average, 1, CLIP, sigma, random),
    }
    errors = {line: (squared_turns(to_spherical(each)[1], angles), each) for line, each in noisy.items()}
    for beta in BETAS:
        for line, step_5 in {"GeoDP as printed": True, "GeoDP without step 5": False}.items():
            vector, turned = perturbed(average, batch, CLIP, beta, sigma, random, step_5=step_5)
            errors[line] = squared_turns(turned, angles), vector
        for line, (turns, vector) in errors.items():
            yield measured_value(turns, sigma=sigma, beta=beta, line=f"θ, {line}")
            yield measured_value(squared(vector - average), sigma=sigma, beta=beta, line=f"g, {line}")
        better = shrunk(noisy["DP"], (CLIP * sigma / batch) ** 2)
        yield measured_value(squared(better - average), sigma=sigma, beta=beta, line="g, DP, shrunk")


def squared(vector: Numbers) -> float:
    """The squared length."""
    return float(vector @ vector)


def shrunk(noisy: Numbers, variance: float) -> Numbers:
    """A noisy vector, shortened by what the noise has made of its length (James and Stein): its direction stays."""
    return max(0.0, 1 - noisy.size * variance / squared(noisy)) * noisy


_SETTINGS = {
    (d, batch): {"d": d, "B": batch}
    for d, batch in ((5000, 2048), *((d, 4096) for d in DIMENSIONS), *((10000, batch) for batch in BATCHES))
}
DIRECTIONS = Experiment(
    "001.directions",
    directions,
    tuple(_SETTINGS.values()),
    {"smoke": 1, "quick": 3, "full": 100},
    size={
        "smoke": {"pictures": "digits", "gradients": 256},
        "quick": {"pictures": "mnist", "gradients": 2048},
        "full": {"pictures": "mnist", "gradients": 16384},
    },
    only={"smoke": ({"d": 5000, "B": 2048}, {"d": 500}, {"d": 1000})},
    data=data,
)
