"""Records from a query of DuckDB, which streams its result.

One `select`, in a DuckDB of its own: it holds nothing, takes no variables of the program for tables, loads no extension
and so needs no network. It cannot write, and what does not fit into memory is refused, not spilled to disk.

**What may be said.** DuckDB quotes values where a cast fails, and names of columns where one is not found: those of a
CSV file without a line of names are somebody's record. So only what it says before it runs the query is passed on, and
of this the first line, if all that it quotes stands in the query.
"""

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dither.engines.record_sources import ROWS, Source
from dither.errors import DitherError, ParameterError, require

_SETTINGS = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "lock_configuration": True,
}
_TOLD = ("ParserException", "BinderException", "CatalogException", "IOException")
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")


def query_source(sql: Any) -> Source:
    """The result of a query."""
    title = "the query"
    if not isinstance(sql, str) or not sql.strip():
        raise ParameterError("sql is a query, as in sql=\"select age, job from 'people.parquet'\"")

    def read(names: Sequence[str]) -> Iterator[Any]:
        with _connection() as connection:
            relation = _explained(lambda: connection.sql(sql), sql)
            reader = _explained(lambda: _reader(relation), sql, running=True)
            while (batch := _explained(lambda: next(reader, None), sql, running=True)) is not None:
                yield batch

    with _connection() as connection:
        _explained(lambda: _check(connection, sql), sql)
        columns = _explained(lambda: _columns(connection.sql(sql)), sql)
    return Source(title, title, "query", columns, read)


def may_read(sql: str, path: str) -> bool:
    """Whether a query may read the file that is there: its name stands in the query, or a pattern that it matches.

    >>> may_read("select * from 'people.parquet'", "no such folder/people.parquet")
    False
    """
    if not os.path.exists(path):
        return False
    if os.path.basename(path).lower() in sql.lower():
        return True
    patterns = [one or other for one, other in _QUOTED.findall(sql)]
    found = (each for pattern in patterns for each in glob.glob(pattern, recursive=True))
    return any(os.path.samefile(each, path) for each in found if os.path.exists(each))


def _connection() -> Any:
    return require("duckdb", "fast").connect(":memory:", config=_SETTINGS)


def _check(connection: Any, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != require("duckdb", "fast").StatementType.SELECT:
        raise ParameterError("the query must be one select, as in select age, job from 'people.parquet'")


def _columns(relation: Any) -> Any:
    """Names and types, without a row; names as they were asked for, since a limit tells equal ones apart."""
    types = _reader(relation.limit(0)).schema.types
    return require("pyarrow", "fast").schema(list(zip(relation.columns, types, strict=True)))


def _reader(relation: Any) -> Any:
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # older versions have the second
    return read(ROWS)


def _explained(call: Callable[[], Any], sql: str, running: bool = False) -> Any:
    """What a call returns; if it fails, an error with what may be said of it."""
    try:
        return call()
    except DitherError:
        raise
    except MemoryError:
        reason = "needs more memory than there is"
    except Exception as error:
        reason = _told(error, sql, running)
    raise ParameterError(f"the query {reason}")


def _told(error: Exception, sql: str, running: bool) -> str:
    kind = type(error).__name__
    if kind == "OutOfMemoryException":
        return "needs more memory than there is"
    line = str(error).partition("\n")[0].strip()
    quoted = (one or other for one, other in _QUOTED.findall(line))
    if not running and kind in _TOLD and all(text.lower() in sql.lower() for text in quoted):
        return f"cannot be run: {line}"
    if running:
        return "failed while it ran, on values that it could not convert or use; try_cast gives null for such values"
    return "cannot be run: a file in it is damaged, or needs an extension of DuckDB, as those on a network do"
