"""Closed forms at all settings of section 8: no sampling.

`GRID` looks at the 72 settings (d, s, epsilon), `CONFLICTS` at hash conflicts for many s and t, `RATES` at how the
variances of all mechanisms grow with d and s, and `SUCCINCT_USERS` at what the number of users does to SUCCINCT.
"""

import math
from collections.abc import Iterator

import numpy as np

import dither
from dither.core.mechanism import Mechanism
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value
from dither.utility.limits import largest_of, limit

from .as_printed import eta_of, kept, printed_eta, variance
from .formulas import (
    coco_buckets,
    coco_errors,
    coco_rates,
    collision_buckets,
    collision_errors,
    collision_rates,
    overwritten,
    overwritten_sum,
)
from .sweep import EPSILONS, SPARSITIES, contestants
from .worked_examples import ONCE

USERS = (10_000, 100_000, 10**9)
FAILING = 0.05  # beta of Theorem 8


def closed_forms(setting: Setting, seed: int) -> Iterator[Number]:
    """The best and the printed number of buckets, errors there, and the lower bounds of App. A."""
    d, s, epsilon = int(setting["d"]), int(setting["s"]), float(setting["epsilon"])
    ratio = math.exp(epsilon)
    most = int(6 * s * (ratio + 3)) + 16
    collision = {t: collision_errors(d, s, ratio, t).item for t in range(s + 1, max(most, d) + 1)}
    coco = {t: coco_errors(d, s, ratio, t) for t in range(2 * s + 2, most + 1, 2)}
    best_items = min(collision, key=lambda t: collision[t])
    yield measured_value(collision[best_items], what="Collision, best t")
    yield measured_value(collision[collision_buckets(s, epsilon)], what="Collision, printed t")
    bends = np.diff([collision[t] for t in range(s + 1, d + 1)], 2)
    yield measured_value(float(bends.min() / collision[best_items]), what="least second difference for s < t <= d")
    for goal in ("mean", "presence"):
        best = min(coco, key=lambda t: getattr(coco[t], goal))
        yield measured_value(getattr(coco[best], goal), what=f"CoCo, best t for {goal}")
        yield measured_value(coco[best].item, what=f"CoCo, item at best t for {goal}")
        yield measured_value(getattr(coco[coco_buckets(s, epsilon, goal)], goal), what=f"CoCo, printed t for {goal}")
    rates = collision_rates(s, ratio, collision_buckets(s, epsilon))
    yield measured_value(rates.true / rates.opposite / ratio, what="P_t / (P_o E), Collision")
    one_bit = dither.SignSum(d, s, epsilon, goal="mean")
    totals = (min(each.mean for each in coco.values()), collision[best_items], d * one_bit.reading.worst_variance())
    smallest = min(totals) / d  # of one report about one key, on average
    for n in USERS:
        squared = min(s * s / (4 * d), d * s / (64 * n * (ratio - 1) ** 2))
        absolute = min(s / 2, d * math.sqrt(s) / (8 * (ratio - 1) * math.sqrt(n)))
        yield measured_value(d * smallest / n / squared, what="smallest squared error / App. A", n=n)
        tve = d * math.sqrt(2 / math.pi * smallest / n)
        yield measured_value(tve / absolute, what="smallest TVE / App. A", n=n)
        yield measured_value(
            tve / (d * math.sqrt(s) / (epsilon**2 * math.sqrt(n))), what="smallest TVE / Theorem 3", n=n
        )
    yield measured_value(smallest / limit(one_bit, users=1) ** 2, what="smallest variance / dither's limit")
    for n in USERS[:2]:
        t = coco_buckets(s, epsilon)
        yield measured_value(
            largest_error(d, s, ratio, t, n) / math.sqrt(s * math.log(d / FAILING) / (n * epsilon**2)),
            what="CoCo, 95% bound of the largest error / Theorem 8",
            n=n,
        )
    succinct = d * dither.Succinct(d, s, epsilon, goal="mean").reading.worst_variance()
    away = math.sqrt(succinct / collision[collision_buckets(s, epsilon)])
    yield measured_value(away, what="standard error of Succinct at its best eta / Collision")
    usual = largest_of(d) * math.sqrt(coco[coco_buckets(s, epsilon)].mean / d)
    yield measured_value(usual / limit(one_bit, users=1, norm="linf"), what="CoCo, mean largest error / dither's limit")


def largest_error(d: int, s: int, ratio: float, t: int, n: int) -> float:
    """What no mean of CoCo is off by more than, with probability 95%: Bernstein's inequality for every key.

    A report about a key is 0 or +-1/(P_t - P_o); it varies most for users who have the key.
    """
    true, opposite, false = coco_rates(s, ratio, t)
    apart = true - opposite
    varies = max((true + opposite) / apart**2 - 1, 2 * false / apart**2)
    reach = 1 / apart + 1
    tail = math.log(2 * d / FAILING)
    return reach * tail / (3 * n) + math.sqrt((reach * tail / (3 * n)) ** 2 + 2 * varies * tail / n)


def conflicts(setting: Setting, seed: int) -> Iterator[Number]:
    """Eq. 7 in both forms, and the opposite item against a false one, over many t."""
    s = int(setting["s"])
    tried = range(2 * s + 2, 8 * s + 40, 2)
    yield measured_value(max(float(overwritten(s, t)) for t in tried), what="largest P_ow")
    same = sum(overwritten(s, t) == overwritten_sum(s, t) for t in tried)
    yield measured_value(same / len(tried), what="share of t where both forms of eq. 7 are the same fraction")
    ratios = [math.exp(epsilon) for epsilon in (*EPSILONS, 5.0)]
    largest = max(rates.opposite / rates.false for t in tried for r in ratios for rates in [coco_rates(s, r, t)])
    yield measured_value(largest, what="largest P_o / P_f")


def growth(setting: Setting, seed: int) -> Iterator[Number]:
    """Variances of means, summed over keys, that one report of the worst user has."""
    d, s, epsilon = int(setting["d"]), int(setting["s"]), float(setting["epsilon"])
    for line, mechanism in contestants(d, s, epsilon).items():
        yield measured_value(d * float(mechanism.reading.worst_variance()), line=line)


def succinct_users(setting: Setting, seed: int) -> Iterator[Number]:
    """SUCCINCT's squared error times n, at epsilon 1, by its clipping; and dither's, which does not know n."""
    n, s = int(setting["n"]), int(setting["s"])
    for line, eta in (("printed eta", printed_eta(s, n)), ("eta up to s", eta_of(s, n))):
        yield measured_value(eta, line=line, what="eta")
        yield measured_value(kept(s, eta), line=line, what="kept")
        yield measured_value(variance(s, eta, 1.0), line=line, what="variance")
    unbiased = dither.Succinct(4 * s, s, 1.0, goal="mean")
    yield measured_value(float(unbiased.reading.worst_variance()), line="dither", what="variance")


def growth_mechanisms(setting: Setting) -> list[Mechanism]:
    """Whose variances are compared."""
    return list(contestants(int(setting["d"]), int(setting["s"]), float(setting["epsilon"])).values())


GRID = Experiment(
    "003.grid",
    closed_forms,
    (
        *grid(d=(256, 512), s=SPARSITIES, epsilon=EPSILONS),
        *grid(d=(128,), s=(8,), epsilon=(0.5,)),
    ),
    ONCE,
    only={"smoke": ({"d": 128}, {"d": 256, "s": 4, "epsilon": 1.0}, {"d": 256, "s": 4, "epsilon": 0.001})},
)
CONFLICTS = Experiment("003.conflicts", conflicts, grid(s=tuple(range(1, 65))), ONCE, only={"smoke": {"s": 4}})
RATES = Experiment(
    "003.rates",
    growth,
    grid(d=(256, 1024, 4096), s=(4, 16, 64), epsilon=(0.1,)),
    ONCE,
    only={"smoke": {"s": 4}},
    mechanisms=growth_mechanisms,
)
SUCCINCT_USERS = Experiment(
    "003.succinct_users", succinct_users, grid(n=(10**4, 10**5, 10**6, 10**8), s=(4, 32, 256)), ONCE
)
