"""Section 8: one draw of users serves all mechanisms and budgets, as their errors then are paired (Fig. 6 to 16).

What is kept is the natural logarithm of an error, of which the paper plots the mean: TVE is the sum of |estimate -
truth among the users| over the 2d items or d keys, MAE the largest of these. *Raw* is what a mechanism estimates,
*projected* is the nearest point with 0 <= f <= 1 and sum f = s, and the mean is f+ - f- then.

Mechanisms of the paper have the printed numbers of buckets; PrivKV and PCKV are those of dither, in their best sound
form and so stronger than the paper's. `SUCCINCT` is as published (`as_printed`). What dither adds: `Collision, shrunk`
moves estimates towards their mean by an estimate of the risk before they are projected, `SignSum` sends one bit about
a sum of signs, and `SignSum, shrunk` does both, with the nearest means whose sizes add up to s at most. `nobody asked`
is who ignores all reports and says s/2d and 0: the users are uniform, so that is hard to beat.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

import dither
from dither.core.mechanism import Mechanism
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.estimation.simplex import onto_simplex
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .as_printed import succinct_mean
from .formulas import coco_buckets, collision_buckets
from .users import Users

EPSILONS = (0.001, 0.01, 0.1, 0.2, 0.4, 0.8, 1.0, 1.5, 2.0)
SPARSITIES = (4, 8, 16, 32)
SIZES = ((100_000, 256), (100_000, 512), (10_000, 256))
RIVALS = ("PrivKV", "PCKV-UE", "PCKV-GRR", "PCKV-AGRR")

Values = NDArray[np.float64]


def contestants(d: int, s: int, epsilon: float) -> dict[str, Mechanism]:
    """All that send reports, but for SUCCINCT as published."""
    return {
        "Collision": dither.Collision(d, s, epsilon, t=collision_buckets(s, epsilon)),
        "CoCo": dither.CoCo(d, s, epsilon, t=coco_buckets(s, epsilon)),
        "PrivKV": dither.PrivKV(d, s, epsilon),
        "PCKV-UE": dither.PCKV_UE(d, s, epsilon),
        "PCKV-GRR": dither.PCKV_GRR(d, s, epsilon),
        "PCKV-AGRR": dither.PCKV_AGRR(d, s, epsilon),
        "SignSum": dither.SignSum(d, s, epsilon, goal="mean"),
    }


def sweep(setting: Setting, seed: int) -> Iterator[Number]:
    """ln of all errors of one draw of users."""
    n, d, s = int(setting["n"]), int(setting["d"]), int(setting["s"])
    users = Users.drawn(d, s, n, seed)
    ignored = errors(users, None, np.full((d, 2), s / (2 * d)), np.zeros(d))
    for epsilon in EPSILONS:
        yield from named(ignored, epsilon, "nobody asked")
        apart = succinct_mean(users.rows, d, epsilon, seed) - users.mean
        yield from named({"mean": apart, "mean projected": apart}, epsilon, "SUCCINCT")  # it has nothing to project
        for line, mechanism in contestants(d, s, epsilon).items():
            reports = mechanism.drawn(users.rows, Stream.seeded(seed, mechanism.fingerprint))
            tally = mechanism.tally(Reports.wrap(reports, mechanism.fingerprint, simulated=True))
            estimate = mechanism.estimate(tally)
            if "frequency" in estimate:
                frequency = estimate["frequency"]
                yield from named(errors(users, frequency.value, projected(frequency.value, s)), epsilon, line)
                if line == "Collision":
                    shrunk = projected(frequency.refine("shrink").value, s)
                    found = {"frequency projected": shrunk - users.frequency}
                    yield from named(found, epsilon, "Collision, shrunk")
            else:
                mean = estimate["mean"]
                yield from named({"mean": mean.value - users.mean}, epsilon, line)
                shrunk = mean_within(mean.refine("shrink").value, s)
                yield from named({"mean projected": shrunk - users.mean}, epsilon, "SignSum, shrunk")


def projected(frequency: Values, s: int) -> Values:
    """The nearest frequencies that users with s keys can have."""
    return onto_simplex(frequency.reshape(-1), float(s), cap=1.0).reshape(frequency.shape)


def mean_within(mean: Values, s: int) -> Values:
    """The nearest means that users with s keys can have: none beyond 1, and no more than s together."""
    sizes = np.minimum(np.abs(mean), 1.0)
    return np.sign(mean) * (sizes if sizes.sum() <= s else onto_simplex(np.abs(mean), float(s), cap=1.0))


def errors(users: Users, raw: Values | None, near: Values, mean: Values | None = None) -> dict[str, Values]:
    """What estimates are off by; the mean is that of the frequencies unless one is given."""
    found = {
        "frequency projected": near - users.frequency,
        "mean projected": (near[:, 1] - near[:, 0] if mean is None else mean) - users.mean,
    }
    if raw is not None:
        found |= {"frequency": raw - users.frequency, "mean": raw[:, 1] - raw[:, 0] - users.mean}
    return found


def named(found: Mapping[str, Values], epsilon: float, line: str) -> Iterator[Number]:
    """ln TVE and ln MAE of what is off; of raw frequencies no MAE, which nothing here asks for."""
    for what, apart in found.items():
        sizes = np.abs(apart)
        yield measured_value(math.log(sizes.sum()), line=line, epsilon=epsilon, metric=f"{what} TVE")
        if what != "frequency":
            yield measured_value(math.log(sizes.max()), line=line, epsilon=epsilon, metric=f"{what} MAE")


def mechanisms(setting: Setting) -> list[Mechanism]:
    """All that a draw of users is reported by."""
    d, s = int(setting["d"]), int(setting["s"])
    return [each for epsilon in EPSILONS for each in contestants(d, s, epsilon).values()]


SWEEP = Experiment(
    "003.sweep",
    sweep,
    tuple(place for n, d in SIZES for place in grid(n=(n,), d=(d,), s=SPARSITIES)),
    {"smoke": 1, "quick": 10, "full": 100},
    only={"smoke": {"n": 10_000, "s": 4}},
    mechanisms=mechanisms,
)
