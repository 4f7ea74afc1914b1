"""What is left of a gradient's direction, by method, at equal privacy; and 001's Lemma 6 measured.

The gradients are those of logistic regression on scikit-learn's digits, at the start and after 60 full steps. Each
method has the noise of the same (epsilon, delta) over 60 steps with an expected batch of 512. The number is the cosine
between what is released and the mean gradient of the batch, averaged over batches; 1 is perfect, 0 is noise.

    python papers/001/direction.py
"""

import numpy as np
import torch
from digits import BATCH, BUDGETS, DELTA, STEPS, TRAIN, pictures
from numpy.typing import NDArray

from dither.core.randomness import Stream
from dither.display.table import TextTable
from dither.learn.analysis import direction_bias, expected_cosine
from dither.learn.clipping import Flat, Normalised, Perturbation, Recipe, exact_sum
from dither.learn.geodp import GeoDP
from dither.learn.spherical import to_spherical
from dither.privacy.accounting.subsampling import noise_multiplier

Numbers = NDArray[np.float64]
ROUNDS = 30
METHODS: dict[str, Recipe] = {
    "Gaussian": Flat(1.0),
    "Gaussian, normalised gradients": Normalised(),
    "GeoDP records": GeoDP("records"),
    "GeoDP records, tangent": GeoDP("records", decode="tangent"),
    "GeoDP records, region of 001": GeoDP("records", region="printed"),
    "GeoDP records, beta 1": GeoDP("records", beta=1.0),
    "GeoDP batch": GeoDP("batch"),
    "GeoDP batch, tangent": GeoDP("batch", decode="tangent"),
}


def gradients(weights: Numbers, rows: NDArray[np.int64]) -> Numbers:
    """Of the cross entropy, a row for each picture: weights (65, 10), the last row being the constants."""
    pixels, labels = pictures()
    inputs = np.column_stack([pixels[rows], np.ones(len(rows))]).astype(np.float64)
    scores = np.exp(inputs @ weights - (inputs @ weights).max(axis=1, keepdims=True))
    excess = scores / scores.sum(axis=1, keepdims=True)
    excess[np.arange(len(rows)), labels[rows]] -= 1
    return (inputs[:, :, None] * excess[:, None, :]).reshape(len(rows), -1)


def places() -> dict[str, Numbers]:
    """The start, and where 60 plain steps lead."""
    start = np.zeros((65, 10))
    later = start.copy()
    for _ in range(60):
        later -= 2.0 * gradients(later, np.arange(TRAIN)).mean(axis=0).reshape(65, 10)
    return {"start": start, "step 60": later}


def cosine(one: Numbers, other: Numbers) -> float:
    """Zero where there is no direction."""
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / size if size else 0.0


def drawn(weights: Numbers) -> list[Numbers]:
    """The gradients of some batches."""
    random = np.random.default_rng(1)
    return [gradients(weights, np.flatnonzero(random.random(TRAIN) < BATCH / TRAIN)) for _ in range(ROUNDS)]


def mean_cosine(made: Perturbation, some: list[Numbers]) -> float:
    """Of what is released, with the mean gradient of its batch."""
    stream, found = Stream.seeded(1), []
    for step, rows in enumerate(some):
        total = exact_sum(made.contributions(torch.from_numpy(rows.copy())), made.radius)
        found.append(cosine(made.release(total, step, stream), rows.mean(axis=0)))
    return float(np.mean(found))


def predicted(some: list[Numbers], deviation: float) -> float:
    """What Gaussian noise leaves by `expected_cosine`, times what clipping leaves."""
    found = []
    for rows in some:
        clipped = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)).mean(axis=0)
        left = expected_cosine(float(np.linalg.norm(clipped)), deviation, rows.shape[1])
        found.append(left * cosine(clipped, rows.mean(axis=0)))
    return float(np.mean(found))


def cosines() -> TextTable:
    """Methods by budgets and places."""
    columns: dict[str, list[str]] = {"method": [*METHODS, "Gaussian, predicted"]}
    for place, weights in places().items():
        some, rate = drawn(weights), BATCH / TRAIN
        for epsilon in BUDGETS:
            made = [recipe(650, epsilon, DELTA, rate, STEPS, BATCH) for recipe in METHODS.values()]
            deviation = noise_multiplier(epsilon, DELTA, rate, STEPS) / BATCH
            found = [*(mean_cosine(method, some) for method in made), predicted(some, deviation)]
            columns[f"{place}, {epsilon:g}"] = [f"{number:.3f}" for number in found]
    return TextTable(columns)


def angles() -> TextTable:
    """Lemma 6: bias and root mean squared error of some angles of the mean gradient at the start, epsilon 3."""
    truth = gradients(places()["start"], np.arange(TRAIN)).mean(axis=0)
    deviation = noise_multiplier(3.0, DELTA, BATCH / TRAIN, STEPS) / BATCH
    found = direction_bias(truth, deviation)
    noisy = truth + deviation * np.random.default_rng(2).normal(size=(4000, truth.size))
    _, turned = to_spherical(noisy)
    errors = turned - to_spherical(truth)[1]
    errors[:, -1] = (errors[:, -1] + np.pi) % (2 * np.pi) - np.pi
    shown = [50, 130, 260, 390, 520, 600, 640, truth.size - 2]
    return TextTable(
        {
            "angle": [z + 1 for z in shown],
            "bias predicted": [f"{found.bias[z]:+.4f}" for z in shown],
            "measured": [f"{errors[:, z].mean():+.4f}" for z in shown],
            "error predicted": [f"{found.squared[z] ** 0.5:.4f}" for z in shown],
            "measured ": [f"{(errors[:, z] ** 2).mean() ** 0.5:.4f}" for z in shown],
        }
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("cosine with the mean gradient, by place and epsilon")
    print(cosines())
    print("\nthe angles of the mean gradient under Gaussian noise on its coordinates")
    print(angles())
