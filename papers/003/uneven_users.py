"""Two things that section 8 leaves out: means among those who have a key (section 1.2), and what a report costs.

The users here are not uniform: some keys are frequent and some rare, and their signs lean to one side or the other.
"""

import time
from collections.abc import Iterator

import numpy as np

import dither
from dither.core.randomness import Stream
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .formulas import collision_buckets
from .users import Users

D, S, USERS = 16, 4, 100_000


def uneven(seed: int) -> Users:
    """Four of sixteen keys: one of each block of four, the first of it ten times as often as the last."""
    random = np.random.default_rng(seed)
    odds = np.array([10.0, 6.0, 3.0, 1.0]) / 20.0
    keys = np.stack([4 * block + random.choice(4, USERS, p=odds) for block in range(S)], axis=1).astype(np.int16)
    leaning = np.linspace(0.1, 0.9, D)
    return Users.of(D, keys, (random.random(keys.shape) < leaning[keys]).astype(np.int8))


def conditional(setting: Setting, seed: int) -> Iterator[Number]:
    """Mean over presence, by Collision: the error, how many keys are told, and how often the 95% interval is right."""
    users, epsilon = uneven(seed), float(setting["epsilon"])
    mechanism = dither.Collision(D, S, epsilon, t=collision_buckets(S, epsilon))
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(users.rows, seed=seed)))["conditional_mean"]
    truth = users.mean / users.frequency.sum(axis=1)
    low, high = estimate.interval(0.95)
    told = np.isfinite(estimate.value)
    yield measured_value(float(told.mean()), what="told")
    yield measured_value(float(np.abs(estimate.value - truth)[told].mean()), what="mean absolute error")
    yield measured_value(float(np.abs(truth).mean()), what="mean absolute error of saying 0")
    yield measured_value(float(((low <= truth) & (truth <= high)).mean()), what="95% intervals that hold the truth")


def costs(setting: Setting, seed: int) -> Iterator[Number]:
    """What a user draws and sends, and what the server computes for a report."""
    d, s = int(setting["d"]), int(setting["s"])
    users = Users.drawn(d, s, 20_000, seed)
    t = collision_buckets(s, 1.0)
    own, shared = dither.Collision(d, s, 1.0, t=t), dither.Collision(d, s, 1.0, t=t, cohorts=1024)
    yield measured_value(np.log2(t), what="log2 t")
    yield measured_value(8 * own.dtype["value"].itemsize, what="bits of the bucket as sent")
    yield measured_value(own.row_words, what="random words a report")
    yield measured_value(own.evaluations, what="hashes a report, server")
    yield measured_value(shared.evaluations, what="hashes a report, server, shared functions")
    spent = []
    for _ in range(5):
        start = time.process_time()
        own.drawn(users.rows, Stream.seeded(seed, own.fingerprint))
        spent.append(time.process_time() - start)
    yield measured_value(1e6 * min(spent) / len(users.rows), what="processor microseconds a report")


CONDITIONAL = Experiment(
    "003.conditional", conditional, grid(epsilon=(0.5, 1.0, 2.0)), {"smoke": 2, "quick": 20, "full": 100}
)
COSTS = Experiment(
    "003.costs",
    costs,
    grid(d=(512, 4096), s=(4, 8, 16, 32)),
    {"smoke": 1, "quick": 1, "full": 1},
    only={"smoke": {"d": 512, "s": 4}},
)
