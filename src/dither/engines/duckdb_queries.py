"""Records from a query of DuckDB, or a table in a database of DuckDB: it streams them.

One `select`, in a DuckDB of its own: it holds nothing, takes no variables of the program for tables, loads no extension
and so needs no network. It cannot write, and what does not fit into memory is refused, not spilled to disk.

A database file is opened to be read only, so other readers may have it open too, but no writer. It has one table, or
the table is named. A view is a table too; one over other files reads them, as any query would.

**What may be said.** DuckDB quotes values where a cast fails, and names of columns where one is not found: those of a
CSV file without a line of names are somebody's record. So only what it says before it runs the query is passed on, and
of this the first line, if all that it quotes stands in the query.
"""

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dither.engines.paths import FilePlace
from dither.engines.record_sources import Source, attempted
from dither.errors import DitherError, ParameterError, require
from dither.planning.table_streams import relation_columns, relation_reader

_SETTINGS = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "lock_configuration": True,
}
DATABASE, DATABASE_ENDINGS = "DuckDB database", (".duckdb", ".ddb")
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
            reader = _explained(lambda: relation_reader(relation), sql, running=True)
            while (batch := _explained(lambda: next(reader, None), sql, running=True)) is not None:
                yield batch

    with _connection() as connection:
        _explained(lambda: _check(connection, sql), sql)
        columns = _explained(lambda: relation_columns(connection.sql(sql)), sql)
    return Source(title, title, "query", columns, read)


def database_source(place: FilePlace, title: str, table: str | None) -> Source:
    """A table of a database file."""
    if place.filesystem is not None:
        raise ParameterError(f"{title} is a database, which DuckDB reads on this machine only: copy it here first")
    duckdb, form = require("duckdb", "fast"), f"{DATABASE}, of a version that this DuckDB reads"

    def opened() -> Any:
        try:
            return duckdb.connect(place.path, read_only=True, config=_SETTINGS)
        except duckdb.ConnectionException:
            reason = "is open in this process already: give the result of a query there, connection.sql(...)"
        except duckdb.IOException as error:
            locked = "lock" in str(error).lower()
            reason = "is open for writing in another process: close it there, or copy the file" if locked else ""
        raise ParameterError(f"{title} {reason}") if reason else ValueError("no database")

    def rows(connection: Any) -> Any:
        names = connection.execute(
            "select schema_name, table_name from duckdb_tables() where not internal union all "
            "select schema_name, view_name from duckdb_views() where not internal order by all"
        ).fetchall()
        shown = [name if schema == "main" else f"{schema}.{name}" for schema, name in names]
        if table is None and len(shown) != 1:
            raise ParameterError(f"{title} has {_listed(shown)}: name the one that holds the records")
        if table is not None and table not in shown:
            raise ParameterError(f"{title} has no table of that name: it has {_listed(shown)}")
        schema, name = names[shown.index(table) if table is not None else 0]
        return connection.sql(f"select * from {_identifier(schema)}.{_identifier(name)}")  # noqa: S608

    def facts() -> tuple[Any, int]:
        with opened() as connection:
            found = rows(connection)
            return relation_columns(found), found.count("*").fetchall()[0][0]

    def read(names: Sequence[str]) -> Iterator[Any]:
        with opened() as connection:
            yield from relation_reader(rows(connection).select(*map(duckdb.ColumnExpression, names)))

    columns, count = attempted(facts, title, form)
    return Source(place.name, title, DATABASE, columns, read, count)


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Sequence[str], most: int = 8) -> str:
    """As in "the tables a, b and 3 more"."""
    if not names:
        return "no tables"
    rest = len(names) - most
    more = f" and {rest} more" if rest > 0 else ""
    return f"the table{'s' * (len(names) > 1)} {', '.join(names[:most])}{more}"


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
