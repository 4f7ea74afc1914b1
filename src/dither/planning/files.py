"""Records from files: CSV with a line of names first, and Parquet or Arrow where pyarrow is installed.

Columns are found by the names of attributes. A cell of a CSV file is text: that of a number is read as one, a label is
taken as it stands, and the keys and values of a `KeyValue` are written as JSON, as in `{"Heat": 5}`. What cannot be
read is missing, and the attribute refuses it with its row, and never its value.
"""

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dither.core.errors import DitherError, DomainError, ParameterError, require
from dither.schema import Attribute, Categorical, KeyValue

_ARROW = (".arrow", ".feather", ".ipc")


def read_records(path: str | Path, attributes: Mapping[str, Attribute]) -> Any:
    """A table with these columns, as `Plan.randomize` takes it."""
    readers: dict[str, Callable[[Path, Mapping[str, Attribute]], Any]] = {
        ".csv": _csv,
        ".parquet": _parquet,
        **dict.fromkeys(_ARROW, _arrow),
    }
    file = Path(path)
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise ParameterError(f"the records file {file} has an unknown ending: there are {', '.join(readers)}")
    try:
        file.open("rb").close()
        return reader(file, attributes)
    except DitherError:
        raise
    except OSError as error:
        reason = f"cannot be read: {error.strerror or 'it is damaged'}"
    except Exception:  # each format has errors of its own, and some quote what they hold
        reason = f"is no {file.suffix[1:].upper()} file, or a damaged one"
    raise ParameterError(f"the records file {file} {reason}")


def _csv(file: Path, attributes: Mapping[str, Attribute]) -> dict[str, list[Any]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines, strict=True)
        header = next(rows, [])
        for name in attributes:
            if header.count(name) != 1:
                several = "several columns" if name in header else "no column"
                raise DomainError(f"the records file {file} has {several} for attribute {name}")
        wanted = {name: header.index(name) for name in attributes}
        columns: dict[str, list[Any]] = {name: [] for name in attributes}
        number = 0
        for row in rows:
            if not row:  # an empty line
                continue
            if len(row) != len(header):
                raise DomainError(f"the records file {file}, row {number}: there must be one value for each column")
            for name, place in wanted.items():
                columns[name].append(row[place])
            number += 1
    return {name: _parsed(column, attributes[name]) for name, column in columns.items()}


def _parsed(column: list[str], attribute: Attribute) -> list[Any]:
    if isinstance(attribute, Categorical):
        return column
    return [_cell(text, json.loads if isinstance(attribute, KeyValue) else float) for text in column]


def _cell(text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except (ValueError, RecursionError):
        return None


def _parquet(file: Path, attributes: Mapping[str, Attribute]) -> Any:
    return require("pyarrow.parquet", "fast").read_table(file)


def _arrow(file: Path, attributes: Mapping[str, Attribute]) -> Any:
    return require("pyarrow.feather", "fast").read_table(file)
