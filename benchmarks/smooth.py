"""What an order is worth: `smooth` against `shrink` and against nothing, on distributions of different shapes.

    python benchmarks/smooth.py

Each row is a shape, a number of values and a number of users at epsilon 1, averaged over repetitions: the root of the
mean squared error, and the share of 95% intervals that hold the truth.
"""

import numpy as np
from numpy.typing import NDArray

from dither import Ordinal, Schema, plan, refine
from dither.display.table import TextTable

SIZES, USERS, REPETITIONS = (24, 82), (8_000, 40_000, 300_000), 4


def shapes(k: int) -> dict[str, NDArray[np.float64]]:
    """Distributions of k values."""
    at = np.arange(k)
    place = (at + 0.5) / k
    bell = np.exp(-(((place - 0.45) / 0.15) ** 2) / 2)
    found = {
        "bell": bell,
        "two bells": np.exp(-(((place - 0.25) / 0.07) ** 2) / 2) + 0.6 * np.exp(-(((place - 0.7) / 0.1) ** 2) / 2),
        "exponential": np.exp(-6 * place),
        "heaped at fives": bell * np.where(at % 5 == 0, 4, 1),
        "even": np.ones(k),
        "spike": np.where(at == k // 3, 0.2 + 0.3 * k, 0.2),
        "zipf": 1 / (1 + at),
    }
    return {name: shares / shares.sum() for name, shares in found.items()}


def main() -> None:
    """Print the table."""
    rng, rows = np.random.default_rng(1), []
    for k in SIZES:
        for users in USERS:
            made = plan(Schema({"a": Ordinal(0, k - 1)}), 1.0, users=users, ask=["distribution(a)"])
            for name, shares in shapes(k).items():
                found = []
                for seed in range(REPETITIONS):
                    data = rng.choice(k, users, p=shares)
                    truth = np.bincount(data, minlength=k) / users
                    came = made.estimate(made.tally(made.randomize({"a": data}, seed=seed))).single("a")
                    found.append([_judged(each, truth) for each in (came, refine.auto(came), refine.smooth(came))])
                rows.append((name, k, users, *np.mean(found, axis=0).ravel()))
    methods = ("nothing", "shrink", "smooth")
    columns = ("shape", "values", "users", *(f"{name}, {what}" for name in methods for what in ("rmse", "inside")))
    print(TextTable(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))))


def _judged(estimate: object, truth: NDArray[np.float64]) -> tuple[float, float]:
    low, high = estimate.interval(0.95)  # type: ignore[attr-defined]
    value = estimate.value  # type: ignore[attr-defined]
    return float(np.sqrt(np.mean((value - truth) ** 2))), float(np.mean((low <= truth) & (truth <= high)))


if __name__ == "__main__":
    main()
