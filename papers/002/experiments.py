"""What is measured for 002: variances by formula and by the integers that are sampled."""

import math
from collections.abc import Iterator

import numpy as np

import dither
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, number

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
DELTA = 1e-6
DELTAS = tuple(10.0**-power for power in range(10, 1, -1))


def one_number(setting: Setting, seed: int) -> Iterator[Number]:
    """The worst-case variance of a report about one number in [-1, 1]."""
    epsilon, delta = float(setting["epsilon"]), float(setting["delta"])
    for line, mechanism in {
        "Opt-GM": dither.Gaussian(epsilon=epsilon, delta=delta),
        "Algorithm 2": dither.Duchi(epsilon=epsilon, delta=delta),
    }.items():
        yield number(float(np.max(mechanism.moments([0.0, 1.0]).variance)), line=line)
    yield number(((math.exp(epsilon) + 1) / (math.exp(epsilon) + 2 * delta - 1)) ** 2, line="eq. 33")


ONE_NUMBER = Experiment(
    "002.one_number",
    one_number,
    (
        *grid(panel=("epsilon",), epsilon=EPSILONS, delta=(DELTA,)),
        *grid(panel=("delta",), epsilon=(1.0,), delta=DELTAS),
    ),
    {"smoke": 1, "quick": 1, "full": 1},
    only={"smoke": ({"panel": "epsilon", "epsilon": 1.0}, {"panel": "delta", "delta": 1e-6})},
)
