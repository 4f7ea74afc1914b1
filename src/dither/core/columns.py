"""The forms that a column of single values comes in, brought to two: floats, and the places of labels.

A column is a list, a NumPy array, a pandas column, or an Arrow array of any type. (Columns of vectors are in
`core.sparse_columns`.) What is no number is NaN. What is no label is `UNKNOWN`, and what is not there at all is
`MISSING`: null, None, NaN, or under a mask.

**The text of a value.** Labels are texts. So that a column of codes or of yes and no need not be rewritten, a whole
number is the label that is its decimal text (1, and 1.0 where a missing value turned a column into floats, is "1" and
never "01"), and True and False are the labels "true" and "false", as SQL, CSV and JSON write them, and never "1" and
"0". Two different values never become one label. Numbers are not read from texts: "5" is no number.

**No loop over rows** where the column has a type: Arrow's texts are encoded through their dictionary, so that each
different text is looked at once, and arrays of numbers as arrays. The values of a type that cannot fit are not read.
"""

import math
import re
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float, is_list, is_real, is_string, is_whole
from dither.core.domains import array_kind, as_list, unmasked
from dither.errors import DomainError, require

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN, MISSING = -1, -2
_EXACT = 2.0**53  # below, a float is one whole number
_MOST = np.iinfo(np.int64).max
_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,17}")  # the one decimal text of a whole number, of those that 64 bits hold
_PLAIN = {str, type(None), bool, int, float, np.str_}  # can be looked up, and are equal to no text that they are not


def floats_of(column: Any) -> NDArray[np.float64]:
    """A column as floats; what is no number is NaN."""
    if is_arrow(column):
        return joined_arrays(_arrow_floats, column, np.float64)
    column = unmasked(column)
    if array_kind(column) in "iuf" and column.ndim == 1:
        with np.errstate(over="ignore"):  # a warning would be a fact about a value
            return np.asarray(column).astype(np.float64)
    return np.array([as_float(item) for item in column_items(column)], dtype=np.float64)


def filled(column: Any, substitute: Any) -> Any:  # a column of any form
    """A column with a substitute for what is missing: null, None, NaN, or under a mask. Where nothing is, itself.

    >>> filled(["nurse", None], "unknown"), filled([1.5, float("nan"), "?"], 0.0)
    (['nurse', 'unknown'], [1.5, 0.0, '?'])
    """
    if is_arrow(column):
        return _filled_arrow(column, substitute)
    if not is_flat(column):
        return column  # it is refused, or a table of vectors, which has its own way to say that a key is not there
    column = unmasked(column)
    kind = array_kind(column)
    if kind == "f":
        missing = np.isnan(column)
        return np.where(missing, substitute, column) if missing.any() else column
    items = as_list(column) if kind in "O-" else ()
    missing_at = [row for row, item in enumerate(items) if _is_missing(item)] if is_list(items) else ()
    if not missing_at:
        return column
    mended = list(items)
    for row in missing_at:
        mended[row] = substitute
    return mended


def _is_missing(item: Any) -> bool:
    if item is None or type(item).__name__ in ("NAType", "NaTType"):  # of pandas
        return True
    return issubclass(type(item), float | np.floating) and math.isnan(as_float(item))


class LabelCodes:
    """The places of labels, from 0.

    >>> LabelCodes(["1", "true"]).of([1, True, "1", "one", None, 1.5]).tolist()
    [0, 1, 0, -1, -2, -1]
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self._place = {label: place for place, label in enumerate(labels)}
        self._longest = max(map(len, labels), default=0)

    def of(self, column: Any) -> NDArray[np.int64]:
        """The place of each value; `UNKNOWN` or `MISSING` where there is none."""
        if is_arrow(column):
            return joined_arrays(self._of_arrow, column, np.int64)
        column = unmasked(column)
        if array_kind(column) not in "OUT-" and column.ndim == 1:
            return self._of_array(np.asarray(column))
        return self._of_items(column_items(column))

    def of_value(self, value: Any) -> int:
        """The place of a single value."""
        return self._of_item(value)

    @cached_property
    def _whole(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The labels that are whole numbers, sorted, and their places."""
        found = sorted((int(label), place) for label, place in self._place.items() if _DECIMAL.fullmatch(label))
        return np.array([each for each, _ in found], np.int64), np.array([place for _, place in found], np.int64)

    def _of_array(self, values: NDArray) -> NDArray[np.int64]:
        if values.dtype.kind == "b":
            return np.where(values, self._place.get("true", UNKNOWN), self._place.get("false", UNKNOWN))
        if values.dtype.kind in "iu":
            fits = values <= _MOST
            return np.where(fits, self._of_whole(np.where(fits, values, 0).astype(np.int64)), UNKNOWN)
        if values.dtype.kind == "f":
            values = floats_of(values)
            whole = np.abs(values) < _EXACT  # NaN compares false
            whole &= np.where(whole, values, 0.5) % 1 == 0
            found = np.where(whole, self._of_whole(np.where(whole, values, 0).astype(np.int64)), UNKNOWN)
            return np.where(np.isnan(values), MISSING, found)
        return np.full(len(values), UNKNOWN)  # dates, bytes, complex numbers

    def _of_whole(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        numbers, places = self._whole
        if not len(numbers):
            return np.full(len(values), UNKNOWN)
        near = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
        return np.where(numbers[near] == values, places[near], UNKNOWN)

    def _of_items(self, items: Sequence[Any]) -> NDArray[np.int64]:
        """One lookup for each text; a closer look only at what is none, or is unknown."""
        if set(map(type, items)) <= _PLAIN:
            found = np.fromiter(map(self._place.get, items, repeat(UNKNOWN)), np.int64, len(items))
            rest = np.flatnonzero(found == UNKNOWN)
            found[rest] = [self._of_item(items[row]) for row in rest.tolist()]
            return found
        return np.array([self._of_item(item) for item in items], dtype=np.int64)

    def _of_item(self, item: Any) -> int:
        try:
            if isinstance(item, str):  # the time that a lookup takes grows with the text
                return self._place.get(item, UNKNOWN) if len(item) <= self._longest else UNKNOWN
            if _is_missing(item):
                return MISSING
            if isinstance(item, bool | np.bool_):
                return self._place.get("true" if item else "false", UNKNOWN)
            number = as_float(item)
            exact = number.is_integer() and (abs(number) < _EXACT or is_whole(item))
            return self._place.get(str(int(item)), UNKNOWN) if exact else UNKNOWN
        except Exception:  # that looking at something goes wrong is a fact about its user
            return UNKNOWN

    def _of_arrow(self, piece: Any) -> NDArray[np.int64]:
        import pyarrow as pa

        kind, types = piece.type, pa.types
        if types.is_null(kind):
            return np.full(len(piece), MISSING)
        if types.is_dictionary(kind):
            return _taken(self._of_arrow(unwrapped(piece.dictionary)), piece.indices, MISSING)
        if is_text_type(kind):
            coded = piece.dictionary_encode()
            found = self._of_items(arrow_items(coded.dictionary))  # nulls are not in it: None is what cannot be read
            return _taken(np.where(found == MISSING, UNKNOWN, found), coded.indices, MISSING)
        if types.is_boolean(kind):
            found = self._of_array(piece.fill_null(False).to_numpy(zero_copy_only=False))
        elif types.is_integer(kind):
            found = self._of_array(piece.fill_null(0).to_numpy(zero_copy_only=False))
        elif is_number_type(kind):
            found = self._of_array(_arrow_floats(piece))
        else:
            found = np.full(len(piece), UNKNOWN)
        return np.where(piece.is_null().to_numpy(zero_copy_only=False), MISSING, found) if piece.null_count else found


# Arrow --------------------------------------------------------------------------------------------------------------


def is_arrow(column: Any) -> bool:
    """Whether this is a column of Arrow, without importing it to ask."""
    arrow: Any = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(column, arrow.Array | arrow.ChunkedArray)


def joined_arrays(read: Callable[[Any], NDArray], column: Any, dtype: Any) -> NDArray:
    """What is read of each piece of an Arrow column, one after the other."""
    found = [read(unwrapped(piece)) for piece in _pieces(column)]
    return found[0].astype(dtype, copy=False) if len(found) == 1 else np.concatenate([np.empty(0, dtype), *found])


def _pieces(column: Any) -> list[Any]:
    return column.chunks if hasattr(column, "chunks") else [column]


def unwrapped(piece: Any) -> "pa.Array":
    """A piece of an Arrow column without what only wraps the values: names for types, and runs of equal values."""
    import pyarrow as pa
    from pyarrow.compute import call_function

    while True:
        if isinstance(piece.type, pa.BaseExtensionType):
            piece = piece.storage
        elif pa.types.is_run_end_encoded(piece.type):
            piece = call_function("run_end_decode", [piece])
        else:
            return piece


def _arrow_floats(piece: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    kind, types = piece.type, pa.types
    if types.is_dictionary(kind):
        return _taken(_arrow_floats(unwrapped(piece.dictionary)), piece.indices, np.nan)
    if types.is_decimal(kind):
        piece = piece.cast(pa.float64(), safe=False)
    elif not is_number_type(kind):
        return np.full(len(piece), np.nan)
    return piece.to_numpy(zero_copy_only=False).astype(np.float64)  # a null is NaN


def _filled_arrow(column: Any, substitute: Any) -> Any:
    import pyarrow as pa

    compute = require("pyarrow.compute", "fast")
    missing = compute.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    if not compute.any(missing).as_py():
        return column
    if pa.types.is_map(column.type):
        return pa.chunked_array([_none_held(chunk) for chunk in _pieces(column)])
    if not is_real(substitute) or not is_number_type(column.type):
        return filled(arrow_items(column), substitute)
    return compute.if_else(missing, float(substitute), column.cast(pa.float64(), safe=False))


def _none_held(chunk: Any) -> Any:
    """A piece of a column of maps in which one that is missing holds nothing."""
    import pyarrow as pa

    pair = pa.struct([("key", chunk.type.key_type), ("value", chunk.type.item_type)])
    listed = chunk.cast(pa.list_(pair))
    lengths = require("pyarrow.compute", "fast").list_value_length(listed).fill_null(0).to_numpy(zero_copy_only=False)
    keys, values = listed.flatten().flatten()
    return pa.MapArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), keys, values)


def _taken(values: NDArray, indices: Any, absent: float) -> NDArray:
    """Values by their indices, which may be null."""
    import pyarrow as pa

    places = indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(values, absent).astype(values.dtype)[places]  # the last one is at -1


def joined_pieces(column: Any) -> "pa.Array":
    """An Arrow column in one piece."""
    import pyarrow as pa

    pieces = _pieces(column)
    return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces or [pa.array([], column.type)])


def is_map(column: Any) -> bool:
    """Whether an Arrow column holds maps."""
    import pyarrow as pa

    return pa.types.is_map(column.type)


def is_text(column: Any) -> bool:
    """Whether an Arrow column holds texts."""
    import pyarrow as pa

    kind = column.type
    coded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return is_text_type(kind.value_type if coded else kind)


def is_text_type(kind: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    return str(kind) in ("string", "large_string", "string_view")


def is_number_type(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    import pyarrow as pa

    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def arrow_items(column: Any) -> list[Any]:
    """The items of an Arrow column; None for what cannot be read, such as a text that is not UTF-8."""
    try:
        return column.to_pylist()
    except Exception:  # of one item, which does not spoil the others
        return [arrow_items(column.slice(row, 1))[0] if len(column) > 1 else None for row in range(len(column))]


# Anything else ------------------------------------------------------------------------------------------------------


def is_flat(column: Any) -> bool:
    """Whether this may be one value for each user."""
    return getattr(column, "ndim", 1) == 1 and not is_string(column)


def column_items(column: Any) -> Sequence[Any]:
    """The values one by one; whatever is not one value for each user is refused."""
    items = as_list(column) if is_flat(column) else None
    if is_list(items):
        return items
    raise DomainError("a column is a list or a one-dimensional array, with one value for each user")
