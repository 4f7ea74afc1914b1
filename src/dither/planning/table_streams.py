"""Tables that other libraries hold: what each kind is, and how it streams; the one place that knows them.

A table says by its class what it is. The kinds below name these classes by the public name that their library gives
them, and a library that nobody has imported is not imported for it: no value can be of its classes. What is not
listed may still be read, if it offers the Arrow C stream interface (`__arrow_c_stream__`), which is a promise, and
no guess.

| kind | how it is read |
| --- | --- |
| Arrow table, record batch; pandas and Polars DataFrames | in memory already, cut into batches |
| Arrow reader and scanner, anything with `__arrow_c_stream__` | a batch at a time, once |
| Arrow dataset | a row group, or another fragment, at a time |
| DuckDB relation | as DuckDB streams it |
| Polars LazyFrame | by its streaming engine, a batch at a time |
| dictionaries, lists of dictionaries | in memory already, as an Arrow table |

A dataset that has a filter hides its fragments, and Arrow reads ahead in each of its files. What is lazy is run again
each time that it is read.

**What would not stream is refused by its own name**, with the way out: a handle that would have to be held in memory
as a whole, or belongs to another engine, must not be taken for a small table.

**No value gets out.** Libraries quote what they could not convert, so none of their errors is shown or chained
(`explained`).
"""

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dither.core.checks import is_list, is_string
from dither.errors import DitherError, ParameterError, require

if TYPE_CHECKING:
    import duckdb
    import pyarrow

ROWS = 1 << 17  # of a batch
TABLE = "the table"  # what is in memory already
NO_RECORDS = "a list of records is a list of dictionaries, one for each user"

Batches = Iterator["pyarrow.RecordBatch"]
ReadColumns = Callable[[Sequence[str]], Batches]
Reason = Callable[[Exception], str]  # what may be said of an error, behind the title of what failed
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class TableStream:
    """A table of some library: its columns, known before a row is read, and how some of them are read."""

    title: str  # for the start of a message
    columns: "pyarrow.Schema"
    read: ReadColumns  # batches of at most `ROWS` rows; `batches` also explains what goes wrong
    rows: int | None = None
    once: bool = False  # gone when it was read

    def batches(self, names: Sequence[str]) -> Generator["pyarrow.RecordBatch"]:
        """Record batches with these columns; where a library fails, what it says is not shown."""
        return each_explained(self.title, self.read(names), lambda _: _FAILED)

    def table(self, names: Sequence[str]) -> "pyarrow.Table":
        """These columns as one Arrow table."""
        arrow = require("pyarrow", "fast")
        fields = [self.columns.field(name) for name in names]
        with closing(self.batches(names)) as batches:
            found = list(batches)
        return arrow.Table.from_batches(found) if found else arrow.schema(fields).empty_table()


class TableKind(NamedTuple):
    """A class of a library: how its values stream, or what to do instead of giving them."""

    module: str
    name: str
    title: str
    open: Callable[[str, Any], TableStream] | None
    instead: str = ""
    held: bool = False  # whether its columns are in memory, and can be had by their names

    def holds(self, table: Any) -> bool:
        """Whether a value is of this kind."""
        found = getattr(sys.modules.get(self.module), self.name, None)
        return isinstance(found, type) and isinstance(table, found)


def table_kind(table: Any) -> TableKind | None:
    """The kind of a table; None for what is of none."""
    return next((kind for kind in KINDS if kind.holds(table)), None)


def is_table(value: Any) -> bool:
    """Whether this is a table of some library, or would have to be given as one: no path, list or dictionary."""
    return table_kind(value) is not None or _offers_stream(value)


def _offers_stream(value: Any) -> bool:
    return hasattr(value, "__arrow_c_stream__")


def is_column(value: Any) -> bool:
    """Whether this holds many values: a dictionary is one value."""
    return isinstance(value, Sized) and not isinstance(value, Mapping) and not is_string(value)


def are_records(listed: Sequence[Any]) -> bool:
    """Whether a list holds dictionaries, and nothing else."""
    return all(isinstance(record, Mapping) for record in listed)


def table_stream(table: Any) -> TableStream:
    """How a table is read; what cannot be is refused by its own name.

    >>> import pyarrow
    >>> stream = table_stream([{"age": 31}, {"age": 32, "job": "nurse"}])
    >>> stream.title, stream.columns.names, stream.rows
    ('the table', ['age', 'job'], 2)
    >>> [batch.to_pydict() for batch in stream.read(["job"])]
    [{'job': [None, 'nurse']}]
    >>> table_stream(record for record in [{"age": 31}])
    Traceback (most recent call last):
    dither.errors.ParameterError: an iterator, such as a generator, is gone when it was looked at, and has no columns \
to check before: put its records in a list, or in a file
    """
    kind = table_kind(table)
    if kind is not None:
        if kind.open is None:
            raise ParameterError(f"{kind.title} {kind.instead}")
        return _opened(kind.open, kind.title, table)
    if isinstance(table, Mapping):
        return _opened(_mapping, TABLE, table)
    if is_list(table):
        return _opened(_records, TABLE, table)
    if _offers_stream(table):
        return _opened(_capsule, "the Arrow stream", table)
    raise ParameterError(
        'records come from a file, as in "people.parquet", from "-", which is standard input, from a query (sql=), or '
        "from a table: of Arrow, pandas, Polars or DuckDB, whatever has __arrow_c_stream__, or a list of dictionaries"
    )


def _opened(open_: Callable[[str, Any], TableStream], title: str, table: Any) -> TableStream:
    return explained(title, lambda: open_(title, table), lambda _: _NO_TABLE)


def arrow_table(table: Any) -> "pyarrow.Table":
    """All columns of a table in memory, as one Arrow table."""
    kind, arrow = table_kind(table), require("pyarrow", "fast")
    if kind is not None and kind.held:  # whose columns may have the same name
        return arrow.table(table)
    stream = table_stream(table)
    return stream.table(stream.columns.names)


def sliced(batches: Iterable["pyarrow.RecordBatch"]) -> Batches:
    """Batches that are no longer than `ROWS`."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS):
            yield batch.slice(start, ROWS)


# How each kind is opened -----------------------------------------------------------------------------------------


def _table(title: str, table: Any) -> TableStream:
    return TableStream(
        title, table.schema, lambda names: sliced(table.select(list(names)).to_batches()), table.num_rows
    )


def _frame(title: str, frame: Any) -> TableStream:
    """A data frame in memory."""
    return _table(title, require("pyarrow", "fast").table(frame))


def _record_batch(title: str, batch: Any) -> TableStream:
    return _table(title, require("pyarrow", "fast").Table.from_batches([batch]))


def _reader(title: str, reader: Any) -> TableStream:
    read: ReadColumns = lambda names: sliced(batch.select(list(names)) for batch in reader)  # noqa: E731
    return TableStream(title, reader.schema, read, once=True)


def _capsule(title: str, table: Any) -> TableStream:
    return _reader(title, require("pyarrow", "fast").RecordBatchReader.from_stream(table))


def _scanner(title: str, scanner: Any) -> TableStream:
    read: ReadColumns = lambda names: sliced(batch.select(list(names)) for batch in scanner.to_reader())  # noqa: E731
    return TableStream(title, scanner.projected_schema, read, once=True)


def _dataset(title: str, dataset: Any) -> TableStream:
    """Fragments one by one: a scanner over all of them reads so far ahead that memory grows with the files."""

    def read(names: Sequence[str]) -> Batches:
        options = {"columns": list(names), "batch_size": ROWS, "batch_readahead": 1, "fragment_readahead": 1}
        try:
            fragments = dataset.get_fragments()
        except ValueError:  # as of a dataset with a filter
            yield from sliced(dataset.scanner(**options).to_batches())
            return
        for fragment in fragments:
            for piece in _row_groups(fragment):
                yield from sliced(piece.scanner(schema=dataset.schema, **options).to_batches())

    return TableStream(title, dataset.schema, read)


def _row_groups(fragment: Any) -> list[Any]:
    """What of a fragment is read at once."""
    parquet = require("pyarrow.dataset", "fast").ParquetFileFragment
    return fragment.split_by_row_group() if isinstance(fragment, parquet) else [fragment]


def _relation(title: str, relation: Any) -> TableStream:
    """A query of DuckDB that was not run yet; its connection is busy until all of it was read."""
    column = require("duckdb", "fast").ColumnExpression

    def read(names: Sequence[str]) -> Batches:
        yield from relation_reader(relation.select(*map(column, names)))

    return TableStream(title, relation_columns(relation), read)


def relation_reader(relation: "duckdb.DuckDBPyRelation") -> "pyarrow.RecordBatchReader":
    """The rows of a DuckDB relation, as an Arrow reader."""
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # older versions have the second
    return read(ROWS)


def relation_columns(relation: "duckdb.DuckDBPyRelation") -> "pyarrow.Schema":
    """Names and types, without a row; names as they were asked for, since a limit tells equal ones apart."""
    types = relation_reader(relation.limit(0)).schema.types
    return require("pyarrow", "fast").schema(list(zip(relation.columns, types, strict=True)))


def _lazy_frame(title: str, frame: Any) -> TableStream:
    import polars  # it is there: somebody made the frame with it

    def read(names: Sequence[str]) -> Batches:
        chosen = frame.select(list(names))
        for some in chosen.collect_batches(chunk_size=ROWS, maintain_order=True, lazy=True, engine="streaming"):
            yield from sliced(some.to_arrow().to_batches())

    return TableStream(title, polars.DataFrame(schema=frame.collect_schema()).to_arrow().schema, read)


def _mapping(title: str, table: Mapping[Any, Any]) -> TableStream:
    """Columns by their names; or one record, whose values are no columns."""
    if table and not any(map(is_column, table.values())):
        return _records(title, [table])
    columns = {str(name): _column(column) for name, column in table.items()}
    return _table(title, require("pyarrow", "fast").table(columns))


def _records(title: str, records: Sequence[Any]) -> TableStream:
    if not are_records(records):
        raise ParameterError(NO_RECORDS)
    names = dict.fromkeys(str(name) for record in records for name in record)
    columns = {name: _column([record.get(name) for record in records]) for name in names}
    return _table(title, require("pyarrow", "fast").table(columns))


def _column(values: Any) -> Any:
    """A column as Arrow takes it; dictionaries in it are maps, which need not have the same keys everywhere."""
    arrow = require("pyarrow", "fast")
    if not is_list(values) or not any(isinstance(value, Mapping) for value in values):
        return values
    items = [None if value is None else list(value.items()) for value in values]
    keys = arrow.array([key for pairs in items for key, _ in pairs or ()])
    return arrow.array(items, arrow.map_(keys.type, arrow.float64()))


# The kinds -------------------------------------------------------------------------------------------------------

_ANOTHER_ENGINE = (
    "belongs to a Spark session, which reads it where it is: give it to dither.engines.Spark(). Here, write it to "
    "Parquet first, and name the folder"
)
_CONNECTION = (
    "holds many tables, or none: give the result of a query, as DuckDB's connection.sql(...), or an Arrow reader of it"
)
ITERATOR = TableKind(
    "collections.abc",
    "Iterator",
    "an iterator, such as a generator,",
    None,
    "is gone when it was looked at, and has no columns to check before: put its records in a list, or in a file",
)
_NO_COLUMNS = "is one column without a table: give a frame, as its to_frame() does"
KINDS = (
    TableKind("pyarrow", "Table", TABLE, _table, held=True),
    TableKind("pyarrow", "RecordBatch", TABLE, _record_batch, held=True),
    TableKind("pyarrow", "RecordBatchReader", "the Arrow reader", _reader),
    TableKind("pyarrow.dataset", "Dataset", "the Arrow dataset", _dataset),
    TableKind("pyarrow.dataset", "Scanner", "the Arrow scanner", _scanner),
    TableKind("polars", "DataFrame", TABLE, _frame, held=True),
    TableKind("polars", "LazyFrame", "the Polars LazyFrame", _lazy_frame),
    TableKind("pandas", "DataFrame", TABLE, _frame, held=True),
    TableKind("duckdb", "DuckDBPyRelation", "the DuckDB relation", _relation),
    TableKind("polars", "Series", "a Polars Series", None, _NO_COLUMNS),
    TableKind("pandas", "Series", "a pandas Series", None, _NO_COLUMNS),
    TableKind("duckdb", "DuckDBPyConnection", "a DuckDB connection", None, _CONNECTION),
    TableKind("sqlite3", "Connection", "an SQLite connection", None, _CONNECTION),
    TableKind("sqlite3", "Cursor", "an SQLite cursor", None, _CONNECTION),
    TableKind("sqlalchemy", "Engine", "an SQLAlchemy engine", None, _CONNECTION),
    TableKind("sqlalchemy", "Connection", "an SQLAlchemy connection", None, _CONNECTION),
    TableKind("pyspark.sql", "DataFrame", "a Spark DataFrame", None, _ANOTHER_ENGINE),
    TableKind("pyspark.sql.connect.dataframe", "DataFrame", "a Spark DataFrame", None, _ANOTHER_ENGINE),
    TableKind(
        "dask.dataframe",
        "DataFrame",
        "a Dask DataFrame",
        None,
        "is computed by its own scheduler: write it with .to_parquet(folder), and name the folder",
    ),
    TableKind(
        "ibis.expr.types",
        "Table",
        "an Ibis table",
        None,
        "would be held in memory as a whole: give its .to_pyarrow_batches(), which streams",
    ),
    ITERATOR,
)


# What goes wrong -------------------------------------------------------------------------------------------------


_NO_TABLE = "is no table whose columns hold values of one type each, or a damaged one; convert it first"
_FAILED = "failed while it was read: a value could not be converted or used, or its source is busy or gone"


def explained(title: str, call: Callable[[], T], reason: Reason) -> T:
    """What a call gives; if it fails, an error with what may be said of it, and nothing that a library says."""
    try:
        return call()
    except DitherError:
        raise
    except MemoryError:
        told = "needs more memory than there is"
    except Exception as error:  # every library has its own, and many quote what they could not convert
        told = reason(error)
    raise ParameterError(f"{title} {told}")


def each_explained(title: str, items: Iterator[T], reason: Reason) -> Generator[T]:
    """The items of an iterator, with such errors."""
    while (item := explained(title, lambda: next(items, None), reason)) is not None:
        yield item
