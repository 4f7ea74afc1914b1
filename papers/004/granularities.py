"""Granularities of HDG, and how users are divided between its grids (004 section 4.6, Fig. 7, 15, 16).

All pairs (g1, g2) of powers of two are measured on the same users and the same groups: the histogram of each group is
counted once, at the resolution of single values, and every grid is a sum of it with its own binomials on top.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from dither.ranges import HDG
from dither.ranges.granularity import guideline, power_of_two
from dither.ranges.range_estimate import RangeEstimate
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from ..drawn_tallies import Crowd, Histograms, unary
from .methods import OURS, estimated, shares
from .people import Asked, People
from .sweeps import DATA, ENDS, EPSILONS, QUICK_EPSILONS, SIZES, data_of, mechanisms_of

C = 64
POWERS = (2, 4, 8, 16, 32, 64)
PAIRS = tuple((one, two) for one in POWERS for two in POWERS if two <= one)
SIGMAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SIGMA_EPSILONS = (0.2, 0.6, 1.0, 1.4, 1.8)
_SHARES = 3_000  # into which users are divided between groups
OWN = "own cells"


def name_of(one: int, two: int) -> str:
    """A line of Fig. 7."""
    return f"({one},{two})"


def chosen(epsilon: float, single: float, pair: float, c: int = C) -> tuple[int, int]:
    """The guideline's (g1, g2) for so many users in a group of one attribute, and of a pair.

    >>> chosen(1.0, 10**6 / 21, 10**6 / 21)
    (16, 4)
    """
    return power_of_two(guideline(epsilon, single)[0], c), power_of_two(guideline(epsilon, pair)[1], c)


def asked_of(d: int) -> tuple[tuple[int, ...], ...]:
    """What the groups of HDG are asked about, in their order."""
    return (*((j,) for j in range(d)), *combinations(range(d), 2))


def by_cells(setting: Setting, seed: int) -> Iterator[Number]:
    """Errors of HDG for all granularities, of the guideline's among them, and of dither's own choice."""
    random = np.random.default_rng(seed)
    d, epsilon = int(setting["d"]), float(setting["epsilon"])
    people = People.drawn(str(setting["data"]), int(setting["users"]), d, C, random)
    asked = [(ends, Asked.drawn(people, 2, int(setting["queries"]), 0.5, ends, random)) for ends in ENDS]
    groups = asked_of(d)
    counted = Histograms.of(Crowd.drawn(people.records, np.ones(len(groups)), random), groups, people.shape)
    named = {name_of(*pair): pair for pair in PAIRS}
    guide = chosen(epsilon, people.n / len(groups), people.n / len(groups))
    for line, granularity in {**named, OWN: None}.items():
        method = unary(HDG(shape=people.shape, epsilon=epsilon, n=people.n, granularity=granularity))
        estimate: RangeEstimate = method.estimate(counted.tally(method, random))
        for ends, each in asked:
            error = each.error(estimate.answers(each.queries).value)
            yield measured_value(error, line=line, ends=ends)
            if granularity == guide:
                yield measured_value(error, line="HDG", ends=ends)


CELLS = Experiment(
    "004.cells",
    by_cells,
    grid(data=DATA, d=(4, 6, 8, 10), epsilon=EPSILONS),
    {"smoke": 1, "quick": 2, "full": 10},
    size=SIZES,
    only={
        "smoke": {"data": "Normal", "d": 4, "epsilon": 1.0},
        "quick": [{"d": 6, "epsilon": epsilon} for epsilon in QUICK_EPSILONS]
        + [{"d": d, "epsilon": epsilon} for d in (4, 8, 10) for epsilon in (0.2, 1.0)],
    },
    mechanisms=mechanisms_of,
    data=data_of,
)


def by_sigma(setting: Setting, seed: int) -> Iterator[Number]:
    """Errors of HDG when a share sigma of the users report single attributes; Copula divides them its own way."""
    random = np.random.default_rng(seed)
    epsilon, d = float(setting["epsilon"]), 6
    people = People.drawn(str(setting["data"]), int(setting["users"]), d, C, random)
    asked = Asked.drawn(people, 2, int(setting["queries"]), 0.5, "round", random)
    groups, curve = asked_of(d), f"epsilon {epsilon:g}"
    for sigma in sorted((*SIGMAS, d / len(groups))):
        cells = chosen(epsilon, sigma * people.n / d, (1 - sigma) * people.n / (len(groups) - d))
        parts = round(_SHARES * sigma / d), round(_SHARES * (1 - sigma) / (len(groups) - d))
        whole = tuple(
            (own, (cells[len(own) - 1],) * len(own), f"Unary(k={cells[len(own) - 1] ** len(own)})", parts[len(own) - 1])
            for own in groups
        )
        method = HDG(shape=people.shape, epsilon=epsilon, n=people.n, asked=whole)
        tally = Crowd.drawn(people.records, shares(method), random).tally(method, random)
        estimate: RangeEstimate = method.estimate(tally)
        yield measured_value(asked.error(estimate.answers(asked.queries).value), curve=curve, sigma=round(sigma, 4))
    if epsilon == 1.0 and int(setting["users"]) >= 100_000:
        ours = estimated(OURS, people, epsilon, random)
        assert ours is not None
        error = asked.error(ours.answers(asked.queries).value)
        yield from (measured_value(error, curve=f"{OURS}, {curve}", sigma=sigma) for sigma in SIGMAS)


SIGMA = Experiment(
    "004.sigma",
    by_sigma,
    grid(data=DATA, epsilon=SIGMA_EPSILONS),
    {"smoke": 1, "quick": 3, "full": 10},
    size=SIZES,
    only={
        "smoke": {"data": "Normal", "epsilon": 1.0},
        "quick": [{"epsilon": epsilon} for epsilon in (0.2, 1.0, 1.8)],
    },
    mechanisms=mechanisms_of,
    data=data_of,
)
