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
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dither.engines.paths import FilePlace
from dither.engines.record_sources import Source, attempted
from dither.errors import ParameterError, require
from dither.planning.table_streams import Batches, each_explained, explained, relation_columns, relation_reader

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

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

    before, running = (partial(_told, sql=sql, running=begun) for begun in (False, True))

    def read(names: Sequence[str]) -> Batches:
        with _connection() as connection:
            relation = explained(title, lambda: connection.sql(sql), before)
            reader = explained(title, lambda: relation_reader(relation), running)
            yield from each_explained(title, reader, running)

    with _connection() as connection:
        explained(title, lambda: _check(connection, sql), before)
        columns = explained(title, lambda: relation_columns(connection.sql(sql)), before)
    return Source(title, title, "query", columns, read)


def database_source(place: FilePlace, title: str, table: str | None) -> Source:
    """A table of a database file."""
    if place.filesystem is not None:
        raise ParameterError(f"{title} is a database, which DuckDB reads on this machine only: copy it here first")
    duckdb, form = require("duckdb", "fast"), f"{DATABASE}, of a version that this DuckDB reads"

    def opened() -> "DuckDBPyConnection":
        try:
            return duckdb.connect(place.path, read_only=True, config=_SETTINGS)
        except duckdb.ConnectionException:
            reason = "is open in this process already: give the result of a query there, connection.sql(...)"
        except duckdb.IOException as error:
            locked = "lock" in str(error).lower()
            reason = "is open for writing in another process: close it there, or copy the file" if locked else ""
        raise ParameterError(f"{title} {reason}") if reason else ValueError("no database")

    def rows(connection: "DuckDBPyConnection") -> "DuckDBPyRelation":
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

    def facts() -> tuple["pyarrow.Schema", int]:
        with opened() as connection:
            found = rows(connection)
            return relation_columns(found), found.count("*").fetchall()[0][0]

    def read(names: Sequence[str]) -> Batches:
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


def _connection() -> "DuckDBPyConnection":
    return require("duckdb", "fast").connect(":memory:", config=_SETTINGS)


def _check(connection: "DuckDBPyConnection", sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != require("duckdb", "fast").StatementType.SELECT:
        raise ParameterError("the query must be one select, as in select age, job from 'people.parquet'")


def _told(error: Exception, sql: str, running: bool) -> str:
    """What may be said of an error of DuckDB."""
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
