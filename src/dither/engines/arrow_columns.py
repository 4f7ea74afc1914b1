"""Columns as attributes take them: what type may stand for what kind, and one form for each.

| kind | takes | becomes |
| --- | --- | --- |
| numeric, ordinal | whole numbers, floats, decimals | float64 |
| categorical, public | text, whole numbers (`7` is the label "7"), booleans ("true", "false") | text |
| text | text | text |
| keyvalue | maps, lists of (key, value), structs with a number for each key | map from text or int64 to float64 |

In CSV all is text; there, the keys and values of a `KeyValue` are written as JSON, as in `{"Heat": 5}`.

**What is missing is replaced here, what is wrong is not.** A null, and a NaN, which is what pandas writes for one,
become the attribute's `substitute`, and stay where a public attribute has none; a key whose value is null is a key that
the user does not have. A cell that should be a number and is none becomes NaN, and one that should be JSON becomes
null: there is no other null or NaN behind this place. Batches say so in their metadata, and `plan.randomize` refuses
these cells with attribute and row, or replaces them, as its `invalid` says.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float
from dither.core.columns import is_number_type, is_text_type
from dither.errors import require
from dither.planning.record_tables import REPLACED
from dither.schema import Attribute, Categorical, KeyValue, Numeric, Ordinal, Public

if TYPE_CHECKING:
    import pyarrow

_NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan(\([a-z0-9_]*\))?)$"
_NO_KEY = -2  # a number that is no key
_CELLS = 1 << 22  # of structs that are unfolded at once


class ColumnForm(NamedTuple):
    """What a kind of attribute takes, in words and by the type of a column, and what is made of it."""

    taken: str
    fits: Callable[[Any, "pyarrow.DataType"], bool]  # the attribute comes first in all three
    type: Callable[[Any], "pyarrow.DataType"]
    column: Callable[[Any, "pyarrow.Array", bool], "pyarrow.Array"]  # whether it is written as text comes last


def arrow_schema(attributes: Mapping[str, Attribute]) -> "pyarrow.Schema":
    """The columns of every batch."""
    fields = [(name, FORMS[attribute.kind].type(attribute)) for name, attribute in attributes.items()]
    return require("pyarrow", "fast").schema(fields, metadata=REPLACED)


def fits(attribute: Attribute, kind: "pyarrow.DataType") -> bool:
    """Whether a column of an Arrow type can hold an attribute."""
    types = require("pyarrow.types", "fast")
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_null(kind) or FORMS[attribute.kind].fits(attribute, kind)


def type_in_words(kind: "pyarrow.DataType") -> str:
    """An Arrow type in words; the parts of nested ones are not listed."""
    types = require("pyarrow.types", "fast")
    words = {
        "text": is_text_type,
        "whole numbers": types.is_integer,
        "numbers": is_number_type,
        "true and false": types.is_boolean,
        "dates": types.is_date,
        "points in time": types.is_timestamp,
        "maps": types.is_map,
        "structs": types.is_struct,
        "categories": types.is_dictionary,
    }
    name = next((name for name, test in words.items() if test(kind)), None)
    plain = str(kind).partition("<")[0]
    return f"{name} ({plain})" if name else plain


def converted(batch: "pyarrow.RecordBatch", attributes: Mapping[str, Attribute], text: bool) -> "pyarrow.RecordBatch":
    """A batch in the form of `arrow_schema`, with substitutes for what is missing."""
    types, columns = require("pyarrow.types", "fast"), []
    for name, attribute in attributes.items():
        column = batch.column(name)
        plain = column.cast(column.type.value_type) if types.is_dictionary(column.type) else column
        columns.append(FORMS[attribute.kind].column(attribute, plain, text))
    return require("pyarrow", "fast").RecordBatch.from_arrays(columns, schema=arrow_schema(attributes))


# Labels --------------------------------------------------------------------------------------------------------------


def _fits_labels(attribute: Categorical | Public, kind: "pyarrow.DataType") -> bool:
    types = require("pyarrow.types", "fast")
    return is_text_type(kind) or types.is_integer(kind) or types.is_boolean(kind)


def _labels(attribute: Categorical | Public, column: "pyarrow.Array", text: bool) -> "pyarrow.Array":
    labels, substitute = column.cast(require("pyarrow", "fast").string()), attribute.substitute
    return labels if substitute is None else labels.fill_null(substitute)


# Numbers -------------------------------------------------------------------------------------------------------------


def _numbers(attribute: Numeric | Ordinal, column: "pyarrow.Array", text: bool) -> "pyarrow.Array":
    return (_read_numbers if text else _typed_numbers)(column, attribute.substitute)


def _typed_numbers(column: "pyarrow.Array", substitute: float) -> "pyarrow.Array":
    arrow, compute = require("pyarrow", "fast"), require("pyarrow.compute", "fast")
    values = column.cast(arrow.float64(), safe=False)
    return compute.if_else(compute.is_null(values, nan_is_null=True), float(substitute), values)


def _read_numbers(text: "pyarrow.Array", substitute: float) -> "pyarrow.Array":
    """Numbers that are written as text; NaN for what is none."""
    compute = require("pyarrow.compute", "fast")
    text, values = _parsed(text)
    missing = compute.or_(compute.is_null(text), compute.fill_null(compute.is_nan(values), False))
    return compute.if_else(missing, float(substitute), values).fill_null(math.nan)


def _parsed(text: "pyarrow.Array") -> tuple["pyarrow.Array", "pyarrow.Array"]:
    """Texts without the space around them, null where nothing is left, and their numbers, null also where none is."""
    arrow, compute = require("pyarrow", "fast"), require("pyarrow.compute", "fast")
    text = compute.ascii_trim_whitespace(text)
    text = compute.if_else(compute.equal(text, ""), None, text)
    try:
        return text, text.cast(arrow.float64())
    except arrow.ArrowInvalid:  # which quotes a cell, and says nothing of the others
        pass
    readable = compute.match_substring_regex(text, _NUMBER)
    return text, compute.if_else(readable, text, None).cast(arrow.float64())


# Keys and values -----------------------------------------------------------------------------------------------------


def _fits_vectors(attribute: KeyValue, kind: "pyarrow.DataType") -> bool:
    types = require("pyarrow.types", "fast")
    if types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        named = attribute.labels is not None or all(field.name.isdecimal() for field in fields)
        return named and all(is_number_type(field.type) or types.is_null(field.type) for field in fields)
    pair = _pair(kind)
    return pair is not None and (is_text_type(pair[0]) or types.is_integer(pair[0])) and is_number_type(pair[1])


def _pair(kind: "pyarrow.DataType") -> tuple["pyarrow.DataType", "pyarrow.DataType"] | None:
    """The types of keys and values in a map, or in a list of structs with two fields."""
    types = require("pyarrow.types", "fast")
    if types.is_map(kind):
        return kind.key_type, kind.item_type
    if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_struct(kind.value_type):
        return None
    inner = kind.value_type
    return (inner.field(0).type, inner.field(1).type) if inner.num_fields == 2 else None


def _map_type(attribute: KeyValue) -> "pyarrow.DataType":
    arrow = require("pyarrow", "fast")
    return arrow.map_(arrow.string() if attribute.labels else arrow.int64(), arrow.float64())


def _vectors(attribute: KeyValue, column: "pyarrow.Array", text: bool) -> "pyarrow.Array":
    arrow, types = require("pyarrow", "fast"), require("pyarrow.types", "fast")
    if types.is_null(column.type):
        return _maps(attribute, np.zeros(len(column), np.int64), arrow.array([], arrow.string()), np.zeros(0))
    if text:
        return _read_vectors(column, attribute)
    return (_of_structs if types.is_struct(column.type) else _of_entries)(column, attribute)


def _maps(
    attribute: KeyValue,
    counts: NDArray[np.int64],
    keys: "pyarrow.Array",
    values: NDArray[np.float64],
    wrong: NDArray[np.bool_] | None = None,
) -> "pyarrow.MapArray":
    """A column of maps with so many entries each; null where it is wrong."""
    arrow = require("pyarrow", "fast")
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    mask = None if wrong is None or not wrong.any() else np.append(wrong, False)
    if attribute.labels:
        keys = keys.cast(arrow.string())
    else:
        numbers = _parsed(keys)[1] if is_text_type(keys.type) else keys.cast(arrow.float64(), safe=False)
        found = np.asarray(numbers.fill_null(math.nan).to_numpy(zero_copy_only=False))
        whole = np.isfinite(found) & (np.abs(found) < 1 << 53) & (np.where(np.isfinite(found), found, 0.5) % 1 == 0)
        keys = arrow.array(np.where(whole, np.where(whole, found, 0), _NO_KEY).astype(np.int64))
    return arrow.MapArray.from_arrays(arrow.array(ends, mask=mask), keys, arrow.array(values, arrow.float64()))


def _of_entries(column: "pyarrow.Array", attribute: KeyValue) -> "pyarrow.MapArray":
    """From maps, or lists of pairs."""
    arrow, types = require("pyarrow", "fast"), require("pyarrow.types", "fast")
    offsets = np.asarray(column.offsets, dtype=np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    if types.is_map(column.type):
        keys, items = column.keys.slice(first, size), column.items.slice(first, size)
    else:
        keys, items = column.values.slice(first, size).flatten()
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    values = items.cast(arrow.float64(), safe=False).fill_null(math.nan).to_numpy(zero_copy_only=False)
    held = _valid(column)[rows] & ~np.isnan(values) & _valid(keys)
    counts = np.bincount(rows[held], minlength=len(column))
    return _maps(attribute, counts, keys.filter(arrow.array(held)), values[held])


def _of_structs(column: "pyarrow.StructArray", attribute: KeyValue) -> "pyarrow.Array":
    """From structs with a number for each key, null where a user does not have it."""
    arrow = require("pyarrow", "fast")
    names = [column.type.field(place).name for place in range(column.type.num_fields)]
    step = max(1, _CELLS // max(1, len(names)))
    parts = []
    for start in range(0, max(1, len(column)), step):
        part = column.slice(start, step)
        table = np.full((len(part), len(names)), math.nan)
        for place, cells in enumerate(part.flatten()):
            cells = cells.cast(arrow.float64(), safe=False).fill_null(math.nan)
            table[:, place] = cells.to_numpy(zero_copy_only=False)
        rows, places = np.nonzero(~np.isnan(table))
        keys = arrow.array(names, arrow.string()).take(arrow.array(places))
        counts = np.bincount(rows, minlength=len(part))
        parts.append(_maps(attribute, counts, keys, table[rows, places]))
    return arrow.concat_arrays(parts)


def _read_vectors(text: "pyarrow.Array", attribute: KeyValue) -> "pyarrow.MapArray":
    """From JSON, null for what is none."""
    arrow = require("pyarrow", "fast")
    found = [_object(cell) for cell in text.to_pylist()]
    pairs = [pair for vector in found for pair in vector or ()]
    counts = np.array([len(vector or ()) for vector in found], dtype=np.int64)
    wrong = np.array([vector is None for vector in found], dtype=bool)
    keys = arrow.array([key for key, _ in pairs], arrow.string())
    return _maps(attribute, counts, keys, np.array([value for _, value in pairs], dtype=np.float64), wrong)


def _object(cell: str | None) -> list[tuple[str, float]] | None:
    """The keys of a JSON object that have values, NaN for those that are no number; None for what is no object."""
    if cell is None or not cell.strip():
        return []
    try:
        found = json.loads(
            cell, object_pairs_hook=tuple, parse_constant=lambda name: None if name == "NaN" else math.inf
        )
    except (ValueError, RecursionError):
        return None
    if found is None:
        return []
    if not cell.lstrip().startswith("{"):
        return None
    fine = all(_is_utf8(key) for key, _ in found)
    return [(key, as_float(value)) for key, value in found if value is not None] if fine else None


def _is_utf8(key: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in key)  # JSON can write half of a pair


def _valid(column: "pyarrow.Array") -> NDArray[np.bool_]:
    return column.is_valid().to_numpy(zero_copy_only=False)


_NUMBERS = ColumnForm(
    "numbers",
    lambda attribute, kind: is_number_type(kind),
    lambda attribute: require("pyarrow", "fast").float64(),
    _numbers,
)
_LABELS = ColumnForm(
    "text, whole numbers, or true and false",
    _fits_labels,
    lambda attribute: require("pyarrow", "fast").string(),
    _labels,
)
_TEXTS = ColumnForm(
    "text",
    lambda attribute, kind: is_text_type(kind),
    lambda attribute: require("pyarrow", "fast").string(),
    _labels,
)
FORMS: Mapping[str, ColumnForm] = {
    "text": _TEXTS,
    "numeric": _NUMBERS,
    "ordinal": _NUMBERS,
    "categorical": _LABELS,
    "public": _LABELS,
    "keyvalue": ColumnForm(
        "maps from keys to numbers, lists of structs (key, value), or structs with a number for each key",
        _fits_vectors,
        _map_type,
        _vectors,
    ),
}
