"""GeoDP against DP-SGD on scikit-learn's digits (logistic regression, 650 parameters) at equal (epsilon, delta).

Every method has the same data, steps and expected batch; its learning rate is the best of five by one seed, which is
not private and as kind to one as to another. Shown are the mean test accuracies of other seeds.

    python papers/001/digits.py [--seeds 5]
"""

import argparse
import sys
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dither.display.table import TextTable
from dither.learn.clipping import Normalised, Recipe
from dither.learn.dpsgd import DPSGD
from dither.learn.geodp import GeoDP

DELTA, STEPS, BATCH, TRAIN = 1e-5, 60, 512, 1438
RATES = (0.3, 1.0, 3.0, 10.0, 30.0)
BUDGETS = (1.0, 3.0, 8.0)
METHODS: dict[str, str | Recipe] = {
    "DP-SGD": "gaussian",
    "DP-SGD, normalised gradients": Normalised(),
    "GeoDP records": GeoDP("records"),
    "GeoDP records, tangent": GeoDP("records", decode="tangent"),
    "GeoDP records, region of 001": GeoDP("records", region="printed"),
    "GeoDP batch": GeoDP("batch"),
    "GeoDP batch, tangent": GeoDP("batch", decode="tangent"),
}


@lru_cache
def pictures() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All pictures in a fixed random order: pixels from 0 to 1, and labels."""
    from sklearn.datasets import load_digits

    pixels, labels = map(np.asarray, load_digits(return_X_y=True))
    order = np.random.default_rng(0).permutation(len(pixels))
    return (pixels[order] / 16).astype(np.float32), labels[order].astype(np.int64)


def accuracy(perturb: str | Recipe, epsilon: float, rate: float, seed: int) -> float:
    """Of one training, on the test pictures."""
    pixels, labels = pictures()
    model = nn.Linear(64, 10)
    for weight in model.parameters():
        nn.init.zeros_(weight)
    training = DPSGD(
        model,
        epsilon=epsilon,
        delta=DELTA,
        batch=BATCH,
        steps=STEPS,
        rate=rate,
        perturb=perturb,
        average=0.3,
        seed=seed,
    )
    training.fit(pixels[:TRAIN], labels[:TRAIN], progress=False)
    return training.score(pixels[TRAIN:], labels[TRAIN:])


def row(measure: Callable[[float, int], float], seeds: int) -> tuple[float, float]:
    """The best learning rate by seed 0, and the mean accuracy of the others at it."""
    best = max(RATES, key=lambda rate: measure(rate, 0))
    return best, float(np.mean([measure(best, seed) for seed in range(1, seeds + 1)]))


def main() -> None:
    """Print the table, a line as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    lines = []
    for name, perturb in METHODS.items():
        found = [row(lambda rate, seed, p=perturb, e=epsilon: accuracy(p, e, rate, seed), seeds) for epsilon in BUDGETS]
        lines.append((name, *(f"{100 * mean:.1f} (rate {rate:g})" for rate, mean in found)))
        print(*lines[-1], sep="  ", file=sys.stderr, flush=True)
    titles = ("method", *(f"epsilon {epsilon:g}" for epsilon in BUDGETS))
    print(TextTable(dict(zip(titles, map(list, zip(*lines, strict=True)), strict=True))))


if __name__ == "__main__":
    main()
