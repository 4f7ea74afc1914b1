"""Reports: what leaves a device, as rows of a NumPy structured array with a fixed dtype.

`Reports` is such an array with two facts attached: its `maker`, which is the fingerprint of a mechanism or the tag of a
part of a plan, and whether it was simulated from a seed. Both travel through slices, concatenation, pickles, Arrow and
Parquet. Anything that behaves like a NumPy array works on it; a plain array with the right dtype may be tallied too.

**Invalid reports.** Strangers send reports, and some of them are none. Whatever tallies takes `invalid_reports`: with
`"error"` one of them stops it, with `"drop"` it is left out, and counted by one of the `REASONS`:

- `malformed`: its row has no tag, or no report;
- `another plan`: it is of another plan, or answers no question of this one;
- `wrong length`: it has more bytes, or fewer, than a report about its question;
- `out of range`: one of its fields has a value that no honest client sends;
- `simulated`: it was made from a seed, and others were not (`planning.tally_sums`).

In Arrow a field is a column of the same unsigned integer type, packed bits are fixed-size binary, and a field with
several values (the dimensions of a record) is a fixed-size list.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dither.core.checks import is_list
from dither.errors import ParameterError, ReportError, require

if TYPE_CHECKING:
    import pyarrow

MALFORMED, ANOTHER_PLAN, WRONG_LENGTH = "malformed", "another plan", "wrong length"
OUT_OF_RANGE, SIMULATED = "out of range", "simulated"
REASONS = (MALFORMED, ANOTHER_PLAN, WRONG_LENGTH, OUT_OF_RANGE, SIMULATED)
INVALID_REPORTS = ("error", "drop")


class Reports(np.ndarray):
    """A structured array of reports that remembers what made it, and from what kind of randomness."""

    maker: str = ""
    simulated: bool = False
    __array_priority__ = 1.0  # type: ignore[assignment]  # joined with plain arrays, the result is still Reports

    @classmethod
    def wrap(cls, rows: np.ndarray, maker: str = "", simulated: bool = False) -> "Reports":
        """The same memory, with the two facts attached."""
        reports = rows.view(cls)
        reports.maker, reports.simulated = maker, bool(simulated)  # which may be NumPy's
        return reports

    def __array_finalize__(self, obj: Any) -> None:
        if isinstance(obj, Reports):
            self.maker, self.simulated = obj.maker, obj.simulated

    def __getitem__(self, key):
        item = super().__getitem__(key)
        # One report stays an array, of no dimension: a plain NumPy record would forget both facts.
        return super().__getitem__((key, ...)) if isinstance(item, np.void) and self.dtype.names else item

    def __repr__(self) -> str:
        kind = ", simulated" if self.simulated else ""
        return f"Reports({np.asarray(self)!s}, dtype={self.dtype}{kind})"

    def __str__(self) -> str:
        return str(np.asarray(self))

    def __array_function__(self, func, types, args, kwargs):
        parts = list(_reports_in([*args, *kwargs.values()]))
        names = {part.maker for part in parts if part.maker}
        if len(names) > 1:
            raise ReportError("these reports were made by different mechanisms; keep them apart and tally each")
        result = super().__array_function__(func, types, args, kwargs)
        if isinstance(result, Reports):
            result.maker = names.pop() if names else ""
            result.simulated = any(part.simulated for part in parts)
        return result

    def __reduce__(self):
        build, arguments, state = super().__reduce__()[:3]
        return build, arguments, (state, self.maker, self.simulated)

    def __setstate__(self, state) -> None:
        inner, self.maker, self.simulated = state
        super().__setstate__(inner)

    def to_arrow(self) -> "pyarrow.Table":
        """A `pyarrow.Table` with one column a field; the two facts go into its metadata."""
        arrow = require("pyarrow", "fast")
        columns = {name: _column(arrow, np.asarray(self[name])) for name in self.dtype.names or ()}
        facts = {
            b"dither.mechanism": self.maker.encode(),
            b"dither.simulated": b"01"[self.simulated : self.simulated + 1],
        }
        return arrow.table(columns).replace_schema_metadata(facts)

    @classmethod
    def from_arrow(cls, table: "pyarrow.Table") -> "Reports":
        """The inverse of `to_arrow`, also for a table read back from Parquet."""
        arrow = require("pyarrow", "fast")
        facts = table.schema.metadata or {}
        if b"dither.mechanism" not in facts:
            raise ReportError("this Arrow table was not written by dither: its metadata names no mechanism")
        if any(column.null_count for column in table.columns):
            raise ReportError("reports have no missing fields; this Arrow table has some")
        dtype = np.dtype([(field.name, _numpy_type(arrow, field.type)) for field in table.schema])
        rows = np.empty(len(table), dtype=dtype)
        for name, column in zip(table.schema.names, table.columns, strict=True):
            rows[name] = _cells(arrow, column, dtype[name])
        return cls.wrap(rows, facts[b"dither.mechanism"].decode(), facts.get(b"dither.simulated") != b"0")


def drops(invalid_reports: str) -> bool:
    """Whether invalid reports are left out, and counted, where they would be refused otherwise.

    >>> drops("error"), drops("drop")
    (False, True)
    """
    if invalid_reports not in INVALID_REPORTS:
        raise ParameterError(f"invalid_reports must be one of {', '.join(INVALID_REPORTS)}")
    return invalid_reports == "drop"


def left_out_in_words(dropped: Mapping[str, int]) -> str:
    """How many reports were left out, and why; nothing if there were none.

    >>> left_out_in_words({"out of range": 1200, "simulated": 1})
    '1,201 reports were left out: 1,200 out of range, 1 simulated.'
    """
    total = sum(dropped.values())
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    return f"{total:,} report{'s were' if total != 1 else ' was'} left out: {reasons}." if total else ""


def maker_of(reports: Any) -> str:
    """What made these reports; nothing for plain arrays, of which it is not known."""
    return reports.maker if isinstance(reports, Reports) else ""


def _reports_in(thing: Any) -> Iterator[Reports]:
    if isinstance(thing, Reports):
        yield thing
    elif is_list(thing):
        for part in thing:
            yield from _reports_in(part)


def _column(arrow: Any, cells: np.ndarray) -> Any:
    cells = np.ascontiguousarray(cells)
    if cells.ndim == 2:
        return arrow.FixedSizeListArray.from_arrays(_column(arrow, cells.reshape(-1)), cells.shape[1])
    if cells.dtype.kind != "V":
        return arrow.array(cells)
    width = cells.dtype.itemsize
    return arrow.FixedSizeBinaryArray.from_buffers(arrow.binary(width), len(cells), [None, arrow.py_buffer(cells)])


def _numpy_type(arrow: Any, kind: Any) -> np.dtype:
    if arrow.types.is_fixed_size_list(kind):
        return np.dtype((_numpy_type(arrow, kind.value_type), (kind.list_size,)))
    if arrow.types.is_fixed_size_binary(kind):
        return np.dtype(f"V{kind.byte_width}")
    if arrow.types.is_unsigned_integer(kind):
        return np.dtype(kind.to_pandas_dtype())
    raise ReportError(f"a report has no field of Arrow type {kind}")


def _cells(arrow: Any, column: Any, dtype: np.dtype) -> np.ndarray:
    if dtype.shape:
        flat = arrow.chunked_array([chunk.flatten() for chunk in column.chunks], type=column.type.value_type)
        if flat.null_count:
            raise ReportError("reports have no missing fields; this Arrow table has some")
        return _cells(arrow, flat, dtype.base).reshape(len(column), *dtype.shape)
    if dtype.kind != "V":
        return column.to_numpy()
    parts = [
        np.frombuffer(chunk.buffers()[1], dtype=dtype, count=len(chunk), offset=chunk.offset * dtype.itemsize)
        for chunk in column.chunks
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
