"""Raw records, from wherever they are, as a stream of Arrow batches that `plan.randomize` takes.

Memory does not grow with a file, and every format gives the same batches: the columns that are asked for and no
others, in their order, in the form that `columns` has for each kind, 2^17 rows at a time. So a simulation from a CSV
file and from Parquet is the same.

What is wrong with the *place* is refused before a row is read: a column that is missing or there twice, a type that
cannot hold the attribute, a damaged file. What is *missing* in a row becomes the attribute's substitute: nobody is
dropped, since silence is a fact about a value. What is *outside of the domain* is left to
`plan.randomize(..., invalid=...)`.
"""

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dither.engines.arrow_columns import FORMS, arrow_schema, converted, fits, type_in_words
from dither.engines.duckdb_queries import query_source
from dither.engines.paths import is_path, shown_path
from dither.engines.record_readers import STANDARD, file_sources, standard_source, table_source
from dither.engines.record_sources import Source, even
from dither.errors import DomainError, ParameterError
from dither.schema import Attribute

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False, repr=False)
class RecordStream:
    """Records that are opened and checked, and not read yet.

    `name` is where they are, `rows` how many there are, if that is known, and `ignored` the columns that nobody asks
    for. They can be read again, unless they came through standard input or an Arrow reader.
    """

    name: str
    rows: int | None
    ignored: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    sources: tuple[Source, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read, each by its path; those of a query are not known."""
        return tuple(source.name for source in self.sources if os.path.exists(source.name))

    @property
    def schema(self) -> "pyarrow.Schema":
        """The columns of every batch, as an Arrow schema."""
        return arrow_schema(dict(self.attributes))

    def batches(self) -> Iterator["pyarrow.RecordBatch"]:
        """Record batches with the attributes' columns, each of 2^17 rows but the last; none if there are no rows."""
        return even(self._converted())

    def _converted(self) -> Iterator["pyarrow.RecordBatch"]:
        for source in self.sources:
            for batch in even(source.batches(list(self.attributes))):  # first, since some batches are a few rows each
                yield converted(batch, dict(self.attributes), source.text)

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f"{self.rows:,} rows of "
        return f"Records of {self.name}: {rows}{', '.join(self.attributes)}"


def open_records(
    source: Any,
    attributes: Mapping[str, Attribute],
    *,
    sql: str | None = None,
    table: str | None = None,
    filesystem: Any = None,
) -> RecordStream:
    """Open records, and check that they have a fitting column for each attribute.

    `source` is the path of a file (.csv .csv.gz .parquet .arrow .feather .ipc .duckdb), a pattern, a folder of Parquet
    files, an address of one of these (`s3://...`), `"-"` for standard input, or a table: of Arrow, pandas, Polars or
    DuckDB, lazy or not, as `planning.table_streams` lists them. Or None with `sql`, a query of DuckDB. `table` is one
    of a DuckDB database; `filesystem`, of pyarrow, is where a path is, if not on this machine.

    >>> import pyarrow
    >>> from dither import Categorical, Ordinal
    >>> table = pyarrow.table({"id": [7, 8], "age": [31, None], "job": ["nurse", None]})
    >>> found = open_records(table, {"age": Ordinal(0, 99), "job": Categorical(["nurse", "other"])})
    >>> found, found.ignored
    (Records of the table: 2 rows of age, job, ('id',))
    >>> [batch.to_pylist() for batch in found.batches()]
    [[{'age': 31.0, 'job': 'nurse'}, {'age': 49.0, 'job': 'other'}]]
    """
    if (source is None) == (sql is None):
        raise ParameterError("records come from a source or from a query: give one of the two")
    if not attributes:
        raise ParameterError("there must be at least one attribute to read")
    sources = sources_of(source, sql, table, filesystem)
    named = is_path(source) and source != STANDARD
    name = shown_path(os.fsdecode(source)) if named else sources[0].name
    for each in sources:
        _check(each, attributes)
    rows = [each.rows for each in sources]
    ignored = dict.fromkeys(column for each in sources for column in each.columns.names if column not in attributes)
    known = None if None in rows else sum(count or 0 for count in rows)
    return RecordStream(name, known, tuple(ignored), dict(attributes), tuple(sources))


def sources_of(source: Any, sql: str | None = None, table: str | None = None, filesystem: Any = None) -> list[Source]:
    """The places that a source, or else a query, means, opened as far as their columns."""
    if (table is not None or filesystem is not None) and not is_path(source):
        raise ParameterError("a table or a filesystem is named for a path, and these records have none")
    if sql is not None:
        return [query_source(sql)]
    if not is_path(source):
        return [table_source(source)]
    return [standard_source()] if source == STANDARD else file_sources(os.fsdecode(source), table, filesystem)


def _check(source: Source, attributes: Mapping[str, Attribute]) -> None:
    """Refuse a place that cannot hold the attributes."""
    columns = source.columns.names
    for name, attribute in attributes.items():
        if name not in columns:
            raise DomainError(f"{source.title} has no column for attribute {name}{_hint(name, source, attributes)}")
        if columns.count(name) > 1:
            raise DomainError(f"{source.title} has several columns for attribute {name}: leave one of them")
        kind = source.columns.field(name).type
        if not source.text and not fits(attribute, kind):
            raise DomainError(
                f"attribute {name} is {attribute.kind}, but its column in {source.name} holds {type_in_words(kind)}; "
                f"it takes {FORMS[attribute.kind].taken}, which a query (SQL) can make of it"
            )


def _hint(name: str, source: Source, attributes: Mapping[str, Attribute]) -> str:
    """What may be meant. Without a line of names the first record is taken for one, so little is quoted from it."""
    columns = source.columns.names
    if source.text and len(columns) == 1 and set(columns[0]) & set(";\t|"):
        return ": cells must be separated by commas"
    close = [column for column in columns if _plain(column) == _plain(name)]
    if not close and set(columns) & set(attributes):
        close = difflib.get_close_matches(name, [each for each in columns if each not in attributes], 1, 0.75)
    if close:
        return f"; if column {close[0]} is meant, rename it"
    return ": the first line must hold the names of the columns" if source.text else ""


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
