"""Whom questions are tried on, and what they are asked: real flights, and users that are made.

Each case is one plan: some users, the questions that are asked together, an epsilon and a number of users. Users are
fixed. Flights are drawn without replacement from those of 2013 (`plan_cases.flight_attributes`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.core.sparse_domain import row_dtype
from dither.schema import Attribute
from plan_cases import flight_attributes

Columns = dict[str, NDArray[Any]]
Users = tuple[dict[str, Attribute], Columns]

SETTINGS = ((0.5, 300_000), (1.0, 100_000), (2.0, 50_000), (4.0, 20_000))
FEW = ((1.0, 200), (4.0, 200))  # epsilon, and users for each question: intervals must hold all the same
_JOBS = {"nurse": 0.3, "driver": 0.25, "clerk": 0.2, "cook": 0.1, "smith": 0.08, "judge": 0.045, "actor": 0.02}
_RARE = {"pilot": 0.005}


@dataclass(frozen=True)
class QuestionCase:
    """What is asked together of whom."""

    population: str
    ask: tuple[str, ...]
    epsilon: float
    users: int
    few: bool = False  # too few users for predictions, which are of many

    @property
    def seed(self) -> int:
        """Fixed by the case alone."""
        return crc32(repr((self.population, self.ask, self.epsilon, self.users)).encode())

    def people(self) -> tuple[Schema, Columns]:
        """The schema and the users."""
        attributes, columns = POPULATIONS[self.population](self.users)
        return Schema(attributes), columns


def _flights(users: int) -> Users:
    """Flights, each with the weather at its airport."""
    names = ("dep_delay", "arr_delay", "air_time", "distance", "temperature", "dew point", "hour", "carrier", "origin")
    found = flight_attributes()
    some = np.random.default_rng(2013).permutation(len(found["hour"][1]))[:users]
    wanted = (*names, "weekend", "late", "dest_delay")
    return {name: found[name][0] for name in wanted}, {name: found[name][1][some] for name in wanted}


def _people(users: int) -> Users:
    """Incomes that rise with the age, unevenly spread jobs of which one is rare, and some films of fifty."""
    random = np.random.default_rng((2031, users))
    jobs, shares = zip(*(_JOBS | _RARE).items(), strict=True)
    age = np.clip(random.gamma(6, 7, users), 0, 99).astype(np.int64)
    income = np.clip(np.exp(random.normal(10.2 + 0.006 * age, 0.5)), 0, 200_000)
    films = KeyValue([f"film {place}" for place in range(50)], 4, low=0, high=10)
    rows = np.zeros(users, dtype=row_dtype(4))
    liked = 1 / np.arange(1, 51)
    noise = -np.log(random.random((users, 50))) / liked
    rows["key"] = np.argsort(noise, axis=1)[:, :4]
    rows["value"] = random.beta(4, 2, (users, 4)) * 10
    attributes: dict[str, Attribute] = {
        "age": Ordinal(0, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(jobs),
        "sex": Categorical(["f", "m"]),
        "region": Categorical(["north", "east", "south", "west"]),
        "films": films,
    }
    columns: Columns = {
        "age": age,
        "income": income,
        "job": np.array(jobs)[random.choice(len(jobs), users, p=shares)],
        "sex": np.array(["f", "m"])[random.integers(0, 2, users)],
        "region": np.array(["north", "east", "south", "west"])[random.choice(4, users, p=[0.4, 0.3, 0.2, 0.1])],
        "films": rows,
    }
    return attributes, columns


def _pair(correlation: float) -> Callable[[int], Users]:
    """Two numbers with this correlation, which vary over most of their domains."""

    def made(users: int) -> Users:
        random = np.random.default_rng((2032, users))
        a, other = random.uniform(-0.9, 0.9, (2, users))
        b = correlation * a + np.sqrt(1 - correlation**2) * other
        return {"a": Numeric(-1, 1), "b": Numeric(-1, 1)}, {"a": a, "b": np.clip(b, -1, 1)}

    return made


POPULATIONS: dict[str, Callable[[int], Users]] = {
    "flights": lru_cache(2)(_flights),
    "people": lru_cache(2)(_people),
    "unrelated pair": _pair(0.0),
    "close pair": _pair(0.98),
    "equal pair": _pair(1.0),
}
REAL = {"flights"}
ASKED: Mapping[str, Sequence[tuple[str, ...]]] = {
    "flights": (
        ("median(dep_delay)", "quantile(dep_delay, 0.9)"),
        ("median(hour)", "quantile(hour, 0.9)"),
        ("variance(air_time)", "std(dep_delay)", "sum(dep_delay)"),
        ("correlation(temperature, dew point)", "covariance(temperature, dew point)"),
        ("mean(dep_delay by carrier)",),
        ("table(carrier, origin)", "table(origin, weekend, late)"),
        ("share(dep_delay > 30 and origin = '0')", "share(hour > 16)", "count(distance > 2000 and hour < 9)"),
        ("top(dest_delay, 5)",),
    ),
    "people": (
        ("median(age)", "median(income)", "quantile(income, 0.9)"),
        ("variance(income)", "std(age)", "sum(income)"),
        ("correlation(age, income)", "covariance(age, income)"),
        ("mean(income by job)",),
        ("table(job, sex)", "table(job, sex, region)"),
        ("share(age > 30 and job = 'nurse')", "count(age > 30)"),
        ("top(films, 5)",),
        ("mean(age)", "variance(age)", "distribution(age)", "median(age)", "share(age > 64)"),
        ("table(job, sex)", "mean(income by job)", "histogram(job)"),
        (
            *("median(age)", "quantile(income, 0.9)", "variance(income)", "std(age)", "sum(income)", "count(age > 30)"),
            *("correlation(age, income)", "mean(income by job)", "table(job, sex)", "top(films, 5)"),
        ),
    ),
    "unrelated pair": (("correlation(a, b)", "covariance(a, b)"),),
    "close pair": (("correlation(a, b)", "covariance(a, b)"),),
    "equal pair": (("correlation(a, b)", "covariance(a, b)"),),
}


def cases() -> Iterator[QuestionCase]:
    """All of them."""
    for population, asked in ASKED.items():
        for ask in asked:
            for epsilon, users in SETTINGS:
                yield QuestionCase(population, ask, epsilon, users)
            for epsilon, users in FEW:
                yield QuestionCase(population, ask, epsilon, users * len(ask), few=True)
