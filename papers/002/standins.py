"""Two tables of the shape of the paper's: census records, whose attributes stand in for those of Mexico and Brazil.

The paper's MX has 5 numeric and 14 categorical attributes, its BR 6 and 10, with 85 and 42 entries once encoded. The
IPUMS extracts are not to be had here. KDD Census-Income stands in for MX and the tax units of the CPS for BR, with
attributes chosen so that numbers of attributes and of entries are the paper's. The last numeric attribute is the label:
weeks worked in the year for MX (these records have no income as a number), income for BR. Domains are public: numbers
are clipped to the ends below and scaled to [-1, 1].

At the smallest scale a made-up table of the same shape is taken, so that no data are needed.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dither
from dither.learn import Encoder
from dither.reproduce.datasets import Columns, DataSet
from dither.reproduce.experiments import Setting

from ..datasets import CENSUS, CPS

NAMES = ("MX", "BR")
DIMENSIONS = {"MX": 85, "BR": 42}
DELTAS = {"MX": 1e-26, "BR": 1e-13}  # of section 6.2
_SETS = {"MX": CENSUS, "BR": CPS}

# Of the census: age, capital gains, dividends, employer's size, weeks worked; with the ends of their domains.
_CENSUS_NUMBERS = {"c0": (0, 90), "c16": (0, 20_000), "c18": (0, 5_000), "c30": (0, 6), "c39": (0, 52)}
_CENSUS_CATEGORIES = ("c1", "c4", "c7", "c9", "c10", "c12", "c15", "c19", "c23", "c28", "c31", "c35", "c36", "c40")

_CPS_NUMBERS = {"age_head": (0, 85), "age_spouse": (0, 85), "XTOT": (1, 8), "nu18": (0, 6), "nu13": (0, 6)}
_CPS_INCOME = ("e00200", "e00900", "e00300", "e00600", "e01500", "e02300", "e02400")  # wages to social security
_MOST_INCOME = 200_000
_CPS_CATEGORIES = {"MARS": 4, "EIC": 4, "DSI": 2, "FLPDYR": 3, "n21": 7, "nu06": 7, "n1820": 5, "f2441": 4}
_CPS_CATEGORIES |= {"blind_head": 2}
_DIVISIONS = (  # of the Census Bureau, by the numbers of the states
    (9, 23, 25, 33, 44, 50),
    (34, 36, 42),
    (17, 18, 26, 39, 55),
    (19, 20, 27, 29, 31, 38, 46),
    (10, 11, 12, 13, 24, 37, 45, 51, 54),
    (1, 21, 28, 47),
    (5, 22, 40, 48),
    (4, 8, 16, 30, 32, 35, 49, 56),
    (2, 6, 15, 41, 53),
)
SHAPES = {  # numeric attributes, and the sizes of categorical ones
    "MX": (5, (9, 17, 7, 15, 5, 2, 8, 6, 8, 3, 5, 5, 3, 2)),
    "BR": (6, (4, 4, 2, 3, 7, 7, 5, 4, 2, 9)),
}


@dataclass(frozen=True, eq=False)
class Population:
    """Numbers in [-1, 1] of which the last is the label, categories, and how many values each of these has."""

    numbers: NDArray[np.float64]
    categories: NDArray[np.int64]
    sizes: tuple[int, ...]

    def features(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The records as the paper encodes them: k - 1 entries of -1 or 1 for a category; without the label."""
        blocks = [
            np.where(column[:, None] == np.arange(size - 1), 1.0, -1.0)
            for column, size in zip(self.categories[rows].T, self.sizes, strict=True)
        ]
        return np.column_stack([self.numbers[rows, :-1], *blocks])

    def encoder(self) -> Encoder:
        """The same encoding, as dither's models know it."""
        numbers: dict[str, Any] = {f"n{j}": dither.Numeric(-1, 1) for j in range(self.numbers.shape[1] - 1)}
        labels = {f"c{j}": dither.Categorical([f"v{v}" for v in range(k)]) for j, k in enumerate(self.sizes)}
        return Encoder(dither.Schema(numbers | labels))


def needed(setting: Setting) -> tuple[DataSet, ...]:
    """The real data behind a setting; none where they are made up."""
    return (_SETS[str(setting["data"])],) if setting.get("source") == "real" else ()


def population(setting: Setting) -> Population:
    """The table of a setting."""
    name = str(setting["data"])
    if setting.get("source") != "real":
        return _made_up(name)
    return _census() if name == "MX" else _cps()


@lru_cache(maxsize=1)
def _census() -> Population:
    columns = CENSUS.columns()
    numbers = [_scaled(columns[name], *ends) for name, ends in _CENSUS_NUMBERS.items()]
    coded = [np.unique(columns[name], return_inverse=True) for name in _CENSUS_CATEGORIES]
    sizes = tuple(len(values) for values, _ in coded)
    return Population(np.column_stack(numbers), np.column_stack([codes for _, codes in coded]), sizes)


@lru_cache(maxsize=1)
def _cps() -> Population:
    columns: Columns = CPS.columns()
    numbers = [_scaled(columns[name], *ends) for name, ends in _CPS_NUMBERS.items()]
    income = np.sum([columns[name] for name in _CPS_INCOME], axis=0)
    division = np.zeros(100, dtype=np.int64)
    for place, states in enumerate(_DIVISIONS):
        division[list(states)] = place
    codes = [
        np.minimum(columns[name] - columns[name].min(), size - 1).astype(np.int64)
        for name, size in _CPS_CATEGORIES.items()
    ]
    sizes = (*_CPS_CATEGORIES.values(), len(_DIVISIONS))
    return Population(
        np.column_stack([*numbers, _scaled(income, 0, _MOST_INCOME)]),
        np.column_stack([*codes, division[columns["fips"]]]),
        sizes,
    )


@lru_cache(maxsize=2)
def _made_up(name: str) -> Population:
    """4,000 records whose label depends on the others a little."""
    generator = np.random.default_rng(2)
    count, sizes = SHAPES[name]
    numbers = generator.uniform(-1, 1, (4_000, count - 1))
    categories = np.column_stack([(k * generator.random(4_000) ** 2).astype(np.int64) for k in sizes])
    label = np.clip(0.5 * numbers[:, 0] + 0.4 * (categories[:, 0] == 0) - 0.2, -1, 1)
    return Population(np.column_stack([numbers, label]), categories, sizes)


def _scaled(column: NDArray[Any], low: float, high: float) -> NDArray[np.float64]:
    return np.clip((column - low) / (high - low), 0, 1) * 2 - 1
