"""Fig. 4 and 5: what the number of buckets does, for one user with s = 8 of d = 128 keys at epsilon .5.

Probabilities and expected errors are closed forms, and come from the integers of the mechanisms. Errors are simulated,
too, as the paper does: so many users with the same vector, each estimated from the one own report.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import dither
from dither.core.mechanism import Mechanism
from dither.kernels.hashing import buckets
from dither.mechanisms.keyvalue import Hits
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .formulas import coco_errors, collision_errors
from .users import Numbers, Users

D, S, EPSILON = 128, 8, 0.5
BUCKETS = (18, 20, 22, 24, 26, 28, 30, 34, 40, 46, 52, 54, 60, 70, 80)
KINDS = {"mean": "Minus", "presence": "Plus", "item": "Item"}


def pair(t: int) -> dict[str, dither.Collision | dither.CoCo]:
    """Both mechanisms with so many buckets."""
    return {"Collision": dither.Collision(D, S, EPSILON, t=t), "CoCo": dither.CoCo(D, S, EPSILON, t=t)}


def one_user(setting: Setting, seed: int) -> Iterator[Number]:
    """Rates of hits, expected errors and simulated ones."""
    t, reports = int(setting["t"]), int(setting["reports"])
    keys, plus = np.arange(S, dtype=np.int16), np.arange(S, dtype=np.int8) % 2
    users = Users.of(D, np.tile(keys, (reports, 1)), np.tile(plus, (reports, 1)))
    one_bit = dither.SignSum(D, S, EPSILON, goal="mean").reading.moments(users.rows[:1]).variance.sum()
    yield measured_value(float(one_bit), what="error", line="SignSum mean")
    for name, mechanism in pair(t).items():
        hits = mechanism.hits
        for label, rate in (("P_t", hits.true), ("P_o", hits.opposite), ("P_f", hits.false)):
            yield measured_value(float(rate), what="rate", line=f"{name} {label}")
        expected = {
            about: float(replace(mechanism.reading, about=about).moments(users.rows[:1]).variance.sum())
            for about in ("mean", "presence")
        }
        printed = (coco_errors if name == "CoCo" else collision_errors)(D, S, np.exp(EPSILON), t)
        seen = mechanism.randomize(users.rows, seed=seed)
        simulated = squared_errors(hits, *hit(mechanism, seen, t), users)
        for kind, label in KINDS.items():
            exact = expected[kind] if kind in expected else sum(expected.values()) / 2
            yield measured_value(exact, what="expected", line=f"{name} {label}")
            yield measured_value(float(getattr(printed, kind)), what="formula", line=f"{name} {label}")
            yield measured_value(simulated[kind], what="error", line=f"{name} {label}")


def hit(mechanism: dither.Collision | dither.CoCo, reports: np.ndarray, t: int) -> tuple[Numbers, Numbers]:
    """For each report (rows) and key whether it hits the items - and +."""
    seeds, values = np.asarray(reports["seed"])[:, None], np.asarray(reports["value"]).astype(np.int64)[:, None]
    if mechanism.paired:
        plus = buckets(seeds, np.arange(D), t).astype(np.int64)
        minus = (plus + t // 2) % t
    else:
        items = buckets(seeds, np.arange(2 * D), t).astype(np.int64)
        minus, plus = items[:, ::2], items[:, 1::2]
    return (minus == values).astype(np.float64), (plus == values).astype(np.float64)


def squared_errors(hits: Hits, minus: Numbers, plus: Numbers, users: Users) -> dict[str, float]:
    """The mean over reports of the squared errors of means, presences and items, summed over keys."""
    apart, gap = float(hits.true - hits.opposite), float(hits.true + hits.opposite - 2 * hits.false)
    mean = (plus - minus) / apart
    presence = (plus + minus - 2 * float(hits.false)) / gap
    truth_mean, truth_presence = users.mean, users.frequency.sum(axis=1)
    item = [((presence + sign * mean) / 2 - (truth_presence + sign * truth_mean) / 2) ** 2 for sign in (-1.0, 1.0)]
    found = {"mean": (mean - truth_mean) ** 2, "presence": (presence - truth_presence) ** 2, "item": item[0] + item[1]}
    return {name: float(squares.sum(axis=1).mean()) for name, squares in found.items()}


def mechanisms(setting: Setting) -> list[Mechanism]:
    """Those whose integers are shown."""
    return list(pair(int(setting["t"])).values())


ONE_USER = Experiment(
    "003.one_user",
    one_user,
    grid(t=BUCKETS),
    {"smoke": 2, "quick": 10, "full": 10},
    size={"smoke": {"reports": 200}, "quick": {"reports": 1000}, "full": {"reports": 1000}},
    only={"smoke": ({"t": 22}, {"t": 24}, {"t": 30}, {"t": 52})},
    mechanisms=mechanisms,
)
