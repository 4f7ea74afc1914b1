"""Records from whatever holds them: the named columns of a table, and how many rows it has.

A table is a mapping from names to columns, a data frame (pandas, Polars), an Arrow table or record batch, a list of
dictionaries, one for each user, or one dictionary. Columns are found by name, never by place; what is not in the
plan is not looked at. What streams (a query of DuckDB, a lazy frame, a dataset: `table_streams` knows them) is read for
the plan's columns alone, which are then in memory, as the reports will be.

The column of a `KeyValue` holds a vector for each user, so it may be a table itself: an array of two dimensions, or a
SciPy CSR matrix. A column of structs, as Arrow and Polars make of dictionaries, has a place for every key, and null
where there is none. A column of lists of structs with two fields holds keys and values, in this order, as files without
maps write them.

A dictionary whose values are lists is a table of many users. A device, which does not know what a record may hold,
must not count as many, and so it has `record_value`: of one user, whatever there is.
"""

from collections.abc import Mapping
from typing import Any

from dither.core.columns import arrow_items, is_arrow
from dither.errors import DitherError, DomainError
from dither.planning.table_streams import (
    NO_RECORDS,
    are_records,
    is_column,
    is_list,
    is_table,
    table_kind,
    table_stream,
)
from dither.schema import Attribute

REPLACED = {b"dither.missing": b"replaced"}  # metadata of Arrow: what was missing is not, and what is null is wrong


def missing_replaced(table: Any) -> bool:
    """Whether a table of Arrow says that substitutes are in the place of what was missing."""
    kind = table_kind(table)
    if kind is None or kind.module != "pyarrow" or not kind.held:
        return False
    return all((table.schema.metadata or {}).get(name) == value for name, value in REPLACED.items())


def columns_of(table: Any, attributes: Mapping[str, Attribute]) -> tuple[dict[str, Any], int]:
    """The columns of some attributes, by their names, and the number of rows; refused if it cannot be looked at."""
    try:
        return _columns_of(table, attributes)
    except (DitherError, MemoryError):
        raise
    except Exception as error:  # of a container of one's own, and what it says may quote a value
        kind = type(error).__name__
    raise DomainError(f"this table cannot be read: to look at it raises {kind}")


def _columns_of(table: Any, attributes: Mapping[str, Attribute]) -> tuple[dict[str, Any], int]:
    if isinstance(table, Mapping):
        kinds = {is_column(table[name]) for name in attributes if name in table}
        if len(kinds) > 1:
            raise DomainError(
                "some attributes hold a column and some a single value, so this is neither a table nor one record; "
                "plan.report(record) takes the record of one user, whatever it holds"
            )
        if kinds == {False}:
            table = [table]  # one record; what is missing in it is a missing value
    if is_list(table):
        if not are_records(table):
            raise DomainError(NO_RECORDS)
        return {name: [record.get(name) for record in table] for name in attributes}, len(table)
    kind = table_kind(table)
    if is_table(table) and (kind is None or not kind.held):
        stream = table_stream(table)
        for name in attributes:
            if stream.columns.names.count(name) != 1:
                fault = "several columns" if name in stream.columns.names else "no column"
                raise DomainError(f"{stream.title} has {fault} for attribute {name}")
        table = stream.table(list(attributes))
    columns = {
        name: (_vectors if attribute.kind == "keyvalue" else _values)(_column(table, name), name)
        for name, attribute in attributes.items()
    }
    sizes = {_shape(column)[0] for column in columns.values()}
    if len(sizes) > 1:
        raise DomainError("the columns of a table must have the same length")
    return columns, sizes.pop()


def record_of(record: Any, attributes: Mapping[str, Attribute]) -> dict[str, list[Any]]:
    """The columns of some attributes of one user; what cannot be had is missing, and nothing is ever refused."""
    return {name: [record_value(record, name)] for name in attributes}


def record_value(record: Any, name: str) -> object:
    """The value of one attribute of one user; None if it cannot be had."""
    try:
        return record.get(name) if isinstance(record, Mapping) else record[name]
    except Exception:  # that a record is odd is a fact about its user
        return None


def _column(table: Any, name: str) -> Any:
    try:
        column = table[name]
    except Exception:  # each kind of table has its own error for it, and some quote what they hold
        column = None
    if not is_column(column) or not _shape(column):
        raise DomainError(f"the table has no column for attribute {name}")
    return column


def _values(column: Any, name: str) -> Any:
    """A column with one value for each user: an array, a list, or a column of Arrow, which attributes know."""
    if is_arrow(column):
        return column
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    if len(_shape(column)) != 1:  # also two columns of one name
        raise DomainError(f"attribute {name}: a column is one-dimensional, with one value for each user")
    return column


def _vectors(column: Any, name: str) -> Any:
    """A column with one vector for each user, as `KeyValue` takes it."""
    kind = table_kind(column)
    if kind is not None and kind.held:  # two columns of one name
        raise DomainError(f"attribute {name}: the table has several columns of this name")
    if hasattr(column, "to_arrow"):  # Polars
        nested = str(column.dtype).startswith(("Struct", "List(Struct"))
        column = column.to_arrow() if nested else column.to_list()
    if not is_arrow(column) or str(column.type).startswith("map"):
        return column
    return [_held(vector) for vector in arrow_items(column)]


def _held(vector: Any) -> Any:
    """One user's keys and values: those of a struct that are not null, or the pairs of a list of structs."""
    if isinstance(vector, dict):
        return {key: value for key, value in vector.items() if value is not None}
    if isinstance(vector, list) and all(isinstance(entry, dict) and len(entry) == 2 for entry in vector):
        return [tuple(entry.values()) for entry in vector]
    return vector


def _shape(column: Any) -> tuple[int, ...]:
    """A sparse matrix has no length, and a list has nothing else."""
    shape = getattr(column, "shape", None)
    return (len(column),) if shape is None else shape
