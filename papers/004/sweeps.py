"""Errors of all methods along each axis of 004's figures: epsilon, omega, c, d, lambda, n and the covariance.

One draw of users and one collection of each method serve all queries: every lambda, every omega, ranges at sixteenths
of the domain and free ones. A repetition has new users, new queries and new reports.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dither.core.mechanism import Mechanism
from dither.ranges import HDG, HIO, MSW, Copula
from dither.reproduce.datasets import DataSet
from dither.reproduce.experiments import Experiment, Scale, Setting, grid
from dither.reproduce.measured import Coordinates, Number, measured_value

from ..drawn_tallies import unary
from .methods import ALL, affordable, answers, estimated
from .people import ANY, ROUND, STAND_INS, Asked, People, with_count

EPSILONS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
QUICK_EPSILONS = (0.2, 0.6, 1.0, 2.0)
OMEGAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DATA = ("Ipums", "Bfive", "Normal", "Laplace")
NEW_DATA = ("Loan", "Acs")
MADE = ("Normal", "Laplace")
ENDS = (ROUND, ANY)
SIZES: Mapping[Scale, Coordinates] = {
    "smoke": {"users": 20_000, "queries": 5, "methods": "few", "step": 8},
    "quick": {"users": 1_000_000, "queries": 100, "methods": "most", "step": 2},
    "full": {"users": 1_000_000, "queries": 200, "methods": "all", "step": 1},
}
METHODS: Mapping[str, Sequence[str]] = {
    "few": ("Uni", "CALM", "TDG", "HDG"),
    "most": tuple(name for name in ALL if name != "HIO"),
    "with HIO": ALL,
    "all": ALL,
}
REPETITIONS: Mapping[Scale, int] = {"smoke": 1, "quick": 2, "full": 10}


def data_of(setting: Setting) -> Sequence[DataSet]:
    """The set that stands in for a real one."""
    kind = str(setting["data"])
    return (STAND_INS[kind][0],) if kind in STAND_INS else ()


def mechanisms_of(setting: Setting) -> Sequence[Mechanism[Any]]:
    """Those whose integers decide what is measured: one of each method, at the budget of the setting."""
    epsilon = float(setting.get("epsilon", 1.0))
    grids = unary(HDG(shape=(64,) * 6, epsilon=epsilon, n=1_000_000, granularity="guideline"))
    return [grids, *(make(shape=(16, 16), epsilon=epsilon, n=10_000) for make in (HIO, MSW, Copula))]


def errors(
    people: People,
    asked: Sequence[tuple[Coordinates, Asked]],
    setting: Setting,
    random: np.random.Generator,
    epsilon: float,
) -> Iterator[Number]:
    """The mean absolute error of each method for each set of queries."""
    chosen = str(setting["methods"])
    for name in METHODS[chosen]:
        if not affordable(name, people, chosen == "all"):
            continue
        estimate = None if name == "Uni" else estimated(name, people, epsilon, random)
        if estimate is None and name != "Uni":
            continue
        for where, each in asked:
            if name == "HIO" and chosen != "all" and (where["ends"] == ANY or int(where["lambda"]) > 4):
                continue  # its errors are those of noise, and each answer adds up thousands of boxes
            yield measured_value(each.error(answers(name, estimate, each)), line=name, **where)


def drawn_queries(
    people: People, lambdas: Sequence[int], omegas: Sequence[float], setting: Setting, random: np.random.Generator
) -> list[tuple[dict[str, Any], Asked]]:
    """For each lambda and omega that there are attributes for, round and free ones."""
    return [
        (
            {"lambda": count, "omega": omega, "ends": ends},
            Asked.drawn(people, count, int(setting["queries"]), omega, ends, random),
        )
        for count in lambdas
        if count <= people.d
        for omega in omegas
        for ends in ENDS
    ]


def by_epsilon(setting: Setting, seed: int) -> Iterator[Number]:
    """Six attributes of 64 values."""
    random = np.random.default_rng(seed)
    people = People.drawn(str(setting["data"]), int(setting["users"]), 6, 64, random)
    asked = drawn_queries(people, (2, 4, 6), (0.5,), setting, random)
    yield from errors(people, asked, setting, random, float(setting["epsilon"]))


EPSILON = Experiment(
    "004.epsilon",
    by_epsilon,
    grid(data=(*DATA, *NEW_DATA), epsilon=EPSILONS),
    REPETITIONS,
    size={**SIZES, "quick": {**SIZES["quick"], "methods": "with HIO"}},
    only={
        "smoke": [{"data": "Normal", "epsilon": epsilon} for epsilon in (0.2, 1.0)],
        "quick": [{"data": data, "epsilon": epsilon} for data in DATA for epsilon in QUICK_EPSILONS]
        + [{"data": data, "epsilon": epsilon} for data in NEW_DATA for epsilon in (0.2, 1.0)],
    },
    mechanisms=mechanisms_of,
    data=data_of,
)


def by_omega(setting: Setting, seed: int) -> Iterator[Number]:
    """One collection, ranges of all lengths."""
    random = np.random.default_rng(seed)
    people = People.drawn(str(setting["data"]), int(setting["users"]), 6, 64, random)
    asked = drawn_queries(people, (2, 4, 6), OMEGAS[:: int(setting["step"])], setting, random)
    yield from errors(people, asked, setting, random, 1.0)


OMEGA = Experiment(
    "004.omega",
    by_omega,
    grid(data=(*DATA, *NEW_DATA)),
    REPETITIONS,
    size=SIZES,
    only={"smoke": {"data": "Laplace"}},
    mechanisms=mechanisms_of,
    data=data_of,
)


def by_domain(setting: Setting, seed: int) -> Iterator[Number]:
    """Six attributes of c values each."""
    random = np.random.default_rng(seed)
    people = People.drawn(str(setting["data"]), int(setting["users"]), 6, int(setting["c"]), random)
    asked = drawn_queries(people, (2, 4, 6), (0.5,), setting, random)
    yield from errors(people, asked, setting, random, 1.0)


DOMAIN = Experiment(
    "004.domain",
    by_domain,
    grid(data=MADE, c=(16, 32, 64, 128, 256, 512, 1024)),
    REPETITIONS,
    size=SIZES,
    only={"smoke": {"data": "Normal", "c": 32}, "quick": [{"c": c} for c in (16, 64, 256, 1024)]},
    mechanisms=mechanisms_of,
    cost="CALM and LHIO stop at 256 values below the full scale, where 1,024 take a minute and more of each run.",
)


def by_attributes(setting: Setting, seed: int) -> Iterator[Number]:
    """d attributes of 64 values each."""
    random = np.random.default_rng(seed)
    people = People.drawn(str(setting["data"]), int(setting["users"]), int(setting["d"]), 64, random)
    asked = drawn_queries(people, (2, 4, 6), (0.5,), setting, random)
    yield from errors(people, asked, setting, random, 1.0)


ATTRIBUTES = Experiment(
    "004.attributes",
    by_attributes,
    grid(data=(*DATA, *NEW_DATA), d=(3, 4, 5, 6, 7, 8, 9, 10)),
    REPETITIONS,
    size=SIZES,
    only={
        "smoke": {"data": "Normal", "d": 4},
        "quick": [{"data": data, "d": d} for data in DATA for d in (3, 6, 9, 10)]
        + [{"data": data, "d": d} for data in NEW_DATA for d in (3, 6, 9)],
    },
    mechanisms=mechanisms_of,
    data=data_of,
)


def by_lambda(setting: Setting, seed: int) -> Iterator[Number]:
    """Ten attributes, queries about two to all of them; such as nobody is inside of, and such as somebody is."""
    random = np.random.default_rng(seed)
    d = 10 if setting["methods"] != "few" else 7
    people = People.drawn(str(setting["data"]), int(setting["users"]), d, 64, random)
    many = int(setting["queries"])
    asked: list[tuple[dict[str, Any], Asked]] = [
        ({**where, "queries": "random"}, each)
        for where, each in drawn_queries(people, tuple(range(2, d + 1)), (0.5,), setting, random)
    ]
    for kind, omega, zero in (("0-count", 0.3, True), ("non-0-count", 0.7, False)):
        for count in range(6, d + 1):
            found = with_count(people, count, many, omega, random, zero=zero)
            if found:
                where = {"lambda": count, "omega": omega, "ends": ROUND, "queries": kind}
                asked.append((where, Asked.of(people, found)))
    yield from errors(people, asked, setting, random, 1.0)


LAMBDA = Experiment(
    "004.lambda",
    by_lambda,
    grid(data=DATA),
    REPETITIONS,
    size={**SIZES, "quick": {**SIZES["quick"], "queries": 30}},
    only={"smoke": {"data": "Normal"}},
    mechanisms=mechanisms_of,
    data=data_of,
)


def by_users(setting: Setting, seed: int) -> Iterator[Number]:
    """10^lg(n) users; a smaller scale has fewer of all sizes."""
    random = np.random.default_rng(seed)
    users = round(10 ** float(setting["lg n"]) * int(setting["users"]) / 1_000_000)
    people = People.drawn(str(setting["data"]), users, 6, 64, random)
    asked = drawn_queries(people, (2, 4, 6), (0.5,), setting, random)
    yield from errors(people, asked, setting, random, 1.0)


USERS = Experiment(
    "004.users",
    by_users,
    grid(data=MADE, **{"lg n": (5.0, 5.2, 5.4, 5.6, 5.8, 6.0, 6.2, 6.4, 6.6, 6.8, 7.0)}),
    REPETITIONS,
    size=SIZES,
    only={
        "smoke": {"data": "Normal", "lg n": 6.0},
        "quick": [{"lg n": exponent} for exponent in (5.0, 6.0, 7.0)],
    },
    mechanisms=mechanisms_of,
)


def by_covariance(setting: Setting, seed: int) -> Iterator[Number]:
    """From independent attributes to equal ones."""
    random = np.random.default_rng(seed)
    people = People.drawn(
        str(setting["data"]), int(setting["users"]), 6, 64, random, covariance=float(setting["covariance"])
    )
    asked = drawn_queries(people, (2, 4, 6), (0.5,), setting, random)
    yield from errors(people, asked, setting, random, float(setting["epsilon"]))


COVARIANCE = Experiment(
    "004.covariance",
    by_covariance,
    grid(data=MADE, covariance=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0), epsilon=EPSILONS),
    REPETITIONS,
    size=SIZES,
    only={
        "smoke": {"data": "Normal", "covariance": 0.4, "epsilon": 1.0},
        "quick": [
            {"covariance": covariance, "epsilon": epsilon} for covariance in (0.0, 0.4, 1.0) for epsilon in (0.2, 1.0)
        ],
    },
    mechanisms=mechanisms_of,
)
