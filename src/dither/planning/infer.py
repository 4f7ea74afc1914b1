"""A schema guessed from a table of public or sample data, as a file to be edited.

A guess saves typing. It is not the truth: a sample does not hold every label, and what it holds says nothing about what
is worth asking. So each guess comes with what was seen, and the file with a request to read it.

**Never from private data.** The labels and the ends of a schema are public: they are in the plan, which everybody can
read. A guess copies them out of the table, so the table must be one that may be published: public data, a sample whose
people agreed, or made-up records of the right form. Never the data that will be collected: the largest income in a
table is somebody's income, and a rare label is somebody. `WARNING` says so; it is the beginning of the file, and the
command prints it. Nothing here can know what the table is, so nothing here can check it.

**What is guessed.**

- Texts are labels if there are few (at most `most_labels`, and at most half as many as rows), and else left out as
  identifiers or free text. Devices will hold labels that no sample has, so there is a label for others, and one for
  what is missing if something is.
- Texts that are named as such (`texts`) are asked for their most frequent values, of which nobody has a list: their
  alphabet is what nearly all rows are written with, and their length what nearly all rows have.
- True and false are two labels.
- Whole numbers, also as floats, are ordinal if at most `most_values` values lie between their ends. Others are numeric.
- The ends of a number are moved outward to multiples of 1, 2, 2.5 or 5 times a power of ten. Those of a numeric
  attribute are quantiles of the sample (`tails` at each end lie beyond and will be clipped), since its error grows with
  its width: one extreme must not cost everybody accuracy. What is missing counts as the median, so that it does not
  pull the mean to the middle of the ends.
- Maps, lists of structs with a key and a value, and structs of numbers are keys with values. `size` is what nearly all
  users hold at most.
- What says nothing (constants, row numbers), what is no single value (nested columns) and times are left out, and the
  reason is noted.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core import toml
from dither.core.checks import checked_count, checked_list, checked_real
from dither.core.columns import floats_of, is_number_type, is_text_type, unwrapped
from dither.core.sparse_columns import MOST_KEYS
from dither.core.texts import TextCodes
from dither.core.words import LONGEST
from dither.display.table import TextTable
from dither.errors import ParameterError, require
from dither.planning.table_streams import arrow_table, is_table
from dither.schema import MOST_LABELS, Asked, Categorical, KeyValue, Numeric, Ordinal, Schema, Text

if TYPE_CHECKING:
    import pyarrow

WARNING = (
    "Domains are public: labels and ends are part of the plan, which everybody can read. These were taken from a "
    "table. It must be public data or a sample that may be published, never the data that will be collected."
)
_EDIT = (
    "This is a guess, to be read and edited. Remove what you do not ask about. Add labels that the sample lacks. Set "
    "ends to what everybody knows: values beyond are moved to the nearer end, and a narrower range has a smaller error."
)
_HELD = 0.99  # of users hold at most `size` keys, and texts of at most the length
_LATIN, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_COMMON = 0.001  # of rows hold a character that is in the alphabet
_REST = 64  # characters beside letters and digits, at most; of more, texts are bytes of UTF-8
_ROW_NUMBERS = 20  # as many numbers that follow one another are no accident
_RUN_TOGETHER = (
    "its numbers are too large or too close together to be told apart as floating point numbers; subtract what they "
    "have in common with a query (SQL)"
)
_WIDTH = 100
_LISTED = 12  # names of columns
_SHOWN = 3


class Limits(NamedTuple):
    """What makes a label, a whole number or a key one of too many; and the share of numbers beyond each end."""

    labels: int
    values: int
    keys: int
    tails: float


class Guess(NamedTuple):
    """What a column was taken for (None: left out), and why."""

    column: str
    attribute: Asked | None
    why: str


@dataclass(frozen=True)
class Inferred:
    """A guessed schema, with a guess for every column of the table."""

    schema: Schema
    guesses: tuple[Guess, ...]
    rows: int

    @property
    def notes(self) -> list[tuple[str, str]]:
        """For each column what was decided and why."""
        return [(guess.column, _decided(guess)) for guess in self.guesses]

    @property
    def left_out(self) -> dict[str, str]:
        """The columns that are not in the schema, and why."""
        return {guess.column: guess.why for guess in self.guesses if guess.attribute is None}

    def table(self) -> TextTable:
        """One row a column."""
        return TextTable(
            {
                "column": [" ".join(guess.column.splitlines()) for guess in self.guesses],
                "kind": [guess.attribute.kind if guess.attribute else "left out" for guess in self.guesses],
                "domain": [_domain(guess.attribute) for guess in self.guesses],
                "why": [guess.why for guess in self.guesses],
            }
        )

    def to_toml(self) -> str:
        """The schema as a file to be edited, with what was seen, and what was left out, in its comments."""
        header = [WARNING, _EDIT, f"Guessed from {self.rows:,} rows."]
        comments = {guess.column: _wrapped([guess.why]) for guess in self.guesses if guess.attribute}
        text = self.schema.to_toml({"": _wrapped(header), **comments})
        if not self.left_out:
            return text
        left = [f"{column}: {why}" for column, why in self.left_out.items()]
        return f"{text}\n{toml.comment(_wrapped(['Left out:', *left]))}\n"

    def __repr__(self) -> str:
        return f"Inferred from {self.rows:,} rows: {self.schema!r}, {len(self.left_out)} columns left out"


def infer(
    table: Any,
    *,
    most_labels: int = 1_000,
    most_values: int = 1_000,
    most_keys: int = 10_000,
    tails: float = 0.001,
    texts: Sequence[str] = (),
) -> Inferred:
    """A schema guessed from a table of public or sample data: of Arrow, pandas, Polars or DuckDB, lazy or not.

    Never of private data: labels and ends are copied out of the table, and everybody sees them. `texts` names columns
    whose most frequent values are the question, and need no labels (`dither.Text`).

    >>> import pyarrow
    >>> sample = pyarrow.table({"age": [34, 51, 28, 67], "job": ["nurse", "driver", "nurse", None]})
    >>> found = infer(sample)
    >>> found.schema["age"]
    Ordinal(low=28, high=67, missing=34)
    >>> found.schema["job"].labels, found.schema["job"].missing
    (('driver', 'nurse', 'other', 'missing'), 'missing')
    """
    limits = Limits(
        checked_count("most_labels", most_labels, 2, MOST_LABELS - 2),
        checked_count("most_values", most_values, 2, MOST_LABELS // 2),
        checked_count("most_keys", most_keys, 2, MOST_LABELS),
        checked_real("tails", tails),
    )
    if not 0 <= limits.tails < 0.5:
        raise ParameterError("tails must be at least 0 and below 0.5: the share of numbers beyond each end")
    names, columns, rows = _columns(table)
    free = checked_list('texts is a list of names of columns, as in texts=["word"]', texts, 0, len(names))
    if not all(name in names for name in free):
        raise ParameterError(f"texts names a column that this table does not have; it has {', '.join(names[:_LISTED])}")
    guesses = tuple(
        _guess(name, column, rows, limits, name in free) for name, column in zip(names, columns, strict=True)
    )
    found = {guess.column: guess.attribute for guess in guesses if guess.attribute}
    if not found:
        reasons = "; ".join(f"{guess.column}: {guess.why}" for guess in guesses[:_SHOWN])
        raise ParameterError(f"no column of this table can be asked about. {reasons}")
    return Inferred(Schema(found), guesses, rows)


def _columns(table: Any) -> tuple[list[str], list["pyarrow.ChunkedArray"], int]:
    """The names and columns of a table with rows, each name once."""
    require("pyarrow", "fast")
    reason = "a schema is inferred from an Arrow table, or one of pandas, Polars or DuckDB, or a dictionary of columns"
    try:
        found = arrow_table(table)
        names = list(found.column_names)
    except ParameterError as error:
        found, names, reason = None, [], str(error) if is_table(table) else reason  # whose own name says what to do
    except Exception:  # some quote what they hold
        found, names = None, []
    if found is None:
        raise ParameterError(reason)
    if not found.num_rows or not names:
        raise ParameterError("this table has no rows or no columns, so there is nothing to guess from")
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"the table has several columns of the name {name}; give each its own name")
    return names, found.columns, found.num_rows


def _guess(name: str, column: "pyarrow.ChunkedArray", rows: int, limits: Limits, free: bool = False) -> Guess:
    """What one column is."""
    pa = require("pyarrow", "fast")
    try:
        Schema({name: Ordinal(0, 1)})
    except ParameterError:
        return Guess(name, None, "the name of an attribute has no brackets or line breaks; rename the column")
    try:
        known = _decoded(column)
        attribute, why = _free_text(known, rows) if free else _attribute(name, known, rows, limits)
    except (pa.ArrowException, UnicodeDecodeError):
        attribute, why = None, "its values cannot be read"
    return Guess(name, attribute, why)


def _decoded(column: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
    """A column without dictionaries, runs and extensions."""
    pa = require("pyarrow", "fast")
    chunks = [unwrapped(chunk) for chunk in column.chunks]
    while pa.types.is_dictionary(chunks[0].type):
        chunks = [unwrapped(chunk.dictionary_decode()) for chunk in chunks]
    return pa.chunked_array(chunks)


def _attribute(name: str, column: "pyarrow.ChunkedArray", rows: int, limits: Limits) -> tuple[Asked | None, str]:
    kind, types = column.type, require("pyarrow", "fast").types
    if column.null_count == rows:
        return None, "every value is missing"
    if types.is_boolean(kind):
        return _flags(column, rows)
    if is_text_type(kind):
        return _labels(name, column, rows, limits)
    if is_number_type(kind):
        return _number(name, column, rows, limits)
    if types.is_temporal(kind):
        return None, _derived(name, kind)
    if _pairs_type(kind) or types.is_struct(kind):
        return _keys(column, rows, limits)
    return None, f"a column of type {_short(kind)} is neither text, number nor keys with numbers"


# Labels -------------------------------------------------------------------------------------------------------------


def _flags(column: "pyarrow.ChunkedArray", rows: int) -> tuple[Asked, str]:
    seen = sorted({"true" if each else "false" for each in column.unique().to_pylist() if each is not None})
    why = "true or false" if len(seen) == 2 else f"true or false; only {seen[0]} was seen"
    return _categorical(["false", "true"], column.null_count, None), why + _absent(column.null_count, rows)


def _labels(name: str, column: "pyarrow.ChunkedArray", rows: int, limits: Limits) -> tuple[Asked | None, str]:
    seen = column.drop_null().unique()
    if len(seen) == 1 and not column.null_count:
        return None, "every value is the same"
    if len(seen) > limits.labels or 2 * len(seen) > rows:
        reason = f"{len(seen):,} different texts in {rows:,} rows: an identifier or free text"
        if _all_numbers(seen):
            reason += f"; they are numbers: cast({_quoted(name)} as double) in a query (SQL)"
        elif _repeated(column) > rows / 2:
            reason += "; many come again: name it as a text to ask for the most frequent"
        return None, reason
    texts = sorted(seen.to_pylist())
    why = f"{len(texts):,} labels seen{_absent(column.null_count, rows)}"
    return _categorical(texts, column.null_count, "other"), why


def _categorical(labels: list[str], missing: int, other: str | None) -> Categorical:
    """With labels for others and for what is missing, if there are none yet."""
    labels, named = list(labels), {}
    for role, label in (("other", other), ("missing", "missing" if missing else None)):
        if label is not None:
            named[role] = next((each for each in labels if each.lower() == label), label)
            labels += [] if named[role] in labels else [label]
    return Categorical(labels, **named)


def _all_numbers(texts: Any) -> bool:
    pa = require("pyarrow", "fast")
    try:
        texts.cast(pa.float64())
    except pa.ArrowException:
        return False
    return True


# Texts --------------------------------------------------------------------------------------------------------------


def _repeated(column: "pyarrow.ChunkedArray") -> int:
    """How many rows have a text that another one has, too."""
    counts = column.drop_null().value_counts().field("counts").to_numpy()
    return int(counts[counts > 1].sum())


def _free_text(column: "pyarrow.ChunkedArray", rows: int) -> tuple[Asked | None, str]:
    """A text in whose alphabet and length nearly all rows can be written."""
    if not is_text_type(column.type):
        return None, "it was named as a text, and is none"
    found = column.drop_null().value_counts()
    counts, bare = found.field("counts").to_numpy(), TextCodes(LONGEST, None, fold=True, trim=True)
    texts = [bare.canonical(text) for text in found.field("values").to_pylist()]
    letters: Counter[str] = Counter()
    for text, count in zip(texts, counts.tolist(), strict=True):
        letters.update(dict.fromkeys(text, count))
    common = {letter for letter, count in letters.items() if count >= _COMMON * rows}
    rest = sorted(letter for letter in common - {*_LATIN, *_DIGITS} if bare.canonical(f"a{letter}a") == f"a{letter}a")
    latin, digits = (kind if common & set(kind) else "" for kind in (_LATIN, _DIGITS))
    alphabet = latin + digits + "".join(rest)
    alphabet = alphabet if len(alphabet) >= 2 and len(rest) <= _REST else None
    lengths = np.array([len(text) if alphabet else len(text.encode("utf-8", "replace")) for text in texts])
    order = np.argsort(lengths, kind="stable")
    enough = np.searchsorted(np.cumsum(counts[order]), _HELD * counts.sum())
    attribute = Text(int(np.clip(lengths[order][min(enough, len(order) - 1)], 1, LONGEST)), alphabet)
    fits = np.array([isinstance(attribute.codes.word(text), bytes) for text in texts])
    beyond = int(counts[~fits].sum())
    if beyond == counts.sum():
        return None, "no text of it is as short as one that can be asked about"
    lost = f"; {beyond / rows:.2%} are longer or hold other characters, and count as no word" if beyond else ""
    why = f"{len(texts):,} different texts of up to {lengths.max():,} {attribute.codes.units} seen"
    return attribute, why + _absent(column.null_count, rows) + lost


# Numbers ------------------------------------------------------------------------------------------------------------


def _number(name: str, column: "pyarrow.ChunkedArray", rows: int, limits: Limits) -> tuple[Asked | None, str]:
    values = floats_of(column)
    known = values[np.isfinite(values)]
    missing = int(np.isnan(values).sum())
    if missing == rows:
        return None, "every value is missing"
    if not len(known):
        return None, "no value is finite"
    if known.min() == known.max():
        return None, "every value is the same" if _same(column) else _RUN_TOGETHER
    if (known % 1 == 0).all():
        if _identifies(name, known):
            return None, "most rows have a number of their own: an identifier"
        if _few(known, limits):
            low, high, _ = _whole_ends(known)
            why = f"whole numbers from {_text(known.min())} to {_text(known.max())} seen{_absent(missing, rows)}"
            return Ordinal(int(low), int(high), int(_quantile(known, 0.5))), why
    low, high, step = _ends(known, limits.tails)
    try:
        attribute = Numeric(low, high, _rounded(_quantile(known, 0.5), low, high, step))
    except ParameterError:  # ends beyond all floats, or two floats that are neighbours
        return None, "its ends are too close together or too far apart for floating point numbers"
    beyond = int(((values < low) | (values > high)).sum())  # NaN compares false
    clipped = f"; {beyond / rows:.2%} lie beyond these ends, and are moved to them" if beyond else ""
    why = f"numbers from about {_about(known.min())} to {_about(known.max())} seen{_absent(missing, rows)}{clipped}"
    return attribute, why


def _same(column: "pyarrow.ChunkedArray") -> bool:
    """Whether numbers whose floats are equal are so themselves: large integers and fine decimals may differ."""
    pa = require("pyarrow", "fast")
    if pa.types.is_floating(column.type):
        return True
    ends = require("pyarrow.compute", "fast").min_max(column)
    return ends["min"].equals(ends["max"])


def _identifies(name: str, known: NDArray[np.float64]) -> bool:
    """Whether numbers are those of rows, or are called so and differ from row to row."""
    different = len(np.unique(known))
    follow = different == len(known) >= _ROW_NUMBERS and known.max() - known.min() + 1 == different
    return follow or (f"_{name.lower()}".endswith("_id") and 2 * different > len(known))


def _few(known: NDArray[np.float64], limits: Limits) -> bool:
    return known.max() - known.min() < limits.values and np.abs(known).max() < 1 << 52


def _whole_ends(known: NDArray[np.float64]) -> tuple[float, float, Decimal]:
    """Ends of whole numbers, moved outward; those of days, hours and grades are not."""
    return _outward(float(known.min()), float(known.max()), whole=True)


def _ends(known: NDArray[np.float64], tails: float) -> tuple[float, float, Decimal]:
    """Ends of numbers: quantiles, moved outward."""
    low, high = _quantile(known, tails), _quantile(known, 1 - tails, up=True)
    if low == high:  # nearly all are equal: then the others decide
        low, high = float(known.min()), float(known.max())
    return _outward(low, high, whole=False)


def _outward(low: float, high: float, *, whole: bool) -> tuple[float, float, Decimal]:
    """The ends moved to multiples of a step, and the step: at most a tenth of their width. In decimals, as written."""
    start, stop = Decimal(repr(low)), Decimal(repr(high))
    most = (stop - start) / 10
    power = Decimal(1).scaleb(most.adjusted())
    step = max(factor * power for factor in map(Decimal, ("1", "2", "2.5", "5")) if factor * power <= most)
    if whole and step % 5:
        step = Decimal(1)
    ends = (start / step).to_integral_value(ROUND_FLOOR) * step, (stop / step).to_integral_value(ROUND_CEILING) * step
    return _unsigned(ends[0]), _unsigned(ends[1]), step


def _rounded(value: float, low: float, high: float, step: Decimal) -> float:
    """To a tenth of the step, and not beyond the ends."""
    fine = step / 10
    near = (Decimal(repr(value)) / fine).to_integral_value(ROUND_HALF_EVEN) * fine
    return min(max(_unsigned(near), low), high)


def _unsigned(value: Decimal) -> float:
    """As a float; a zero has no sign, since rounding has left nothing of the number that had one."""
    return float(value) + 0.0


def _quantile(values: NDArray, share: float, *, up: bool = False) -> float:
    """A quantile that is one of the values: of few values the outermost are the ends."""
    return float(np.quantile(values, share, method="higher" if up else "lower"))


# Keys with values ---------------------------------------------------------------------------------------------------


def _pairs_type(kind: "pyarrow.DataType") -> "pyarrow.StructType | None":
    """The type of the pairs of a map, or of a list of structs with a key and a number; None if it is neither."""
    pa = require("pyarrow", "fast")
    if pa.types.is_map(kind):
        return pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if listed and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2:
        return kind.value_type
    return None


def _keys(column: "pyarrow.ChunkedArray", rows: int, limits: Limits) -> tuple[Asked | None, str]:
    """What users hold some of, each with a number."""
    pairs = _pairs_type(column.type)
    found = _of_struct(column) if pairs is None else _of_pairs(column, pairs)
    if found is None:
        return None, "nested values are left out, other than maps from texts or whole numbers to numbers"
    keys, values, counts = found
    if keys is None:
        return None, "whole numbers as keys are places from 0 up, and these are not"
    named = isinstance(keys, tuple)
    many = len(keys) if named else keys
    if many < 2:
        return None, "there are fewer than 2 keys"
    if many > (limits.keys if named else MOST_KEYS):
        return None, f"{many:,} keys are too many; keep the keys that matter"
    known = values[np.isfinite(values)]
    if not len(known):
        return None, "no key has a finite number"
    size = max(1, int(_quantile(counts, _HELD, up=True)))
    low, high = _range(known, limits)
    try:
        attribute = KeyValue(keys, min(size, many), low, high)
    except ParameterError:
        return None, "its ends are too close together or too far apart for floating point numbers"
    more = int((counts > attribute.size).sum())
    cut = f"; {more / rows:.2%} of rows hold more than {attribute.size} keys, and are asked about some" * (more > 0)
    why = f"{many:,} keys seen, at most {int(counts.max()):,} in a row, values from about {_about(known.min())} to "
    return attribute, why + _about(known.max()) + _absent(column.null_count, rows) + cut


Held = tuple[tuple[str, ...] | int | None, NDArray[np.float64], NDArray[np.int64]]  # keys; values; a count a row


def _of_pairs(column: "pyarrow.ChunkedArray", pairs: "pyarrow.StructType") -> Held | None:
    """The entries of maps or lists; None if they are not keys and numbers."""
    pa = require("pyarrow", "fast")
    pc = require("pyarrow.compute", "fast")
    listed = column.cast(pa.list_(pairs)) if pa.types.is_map(column.type) else column
    key, value = (pa.chunked_array([*parts], type=pairs[place].type) for place, parts in enumerate(_parts(listed)))
    key, value = _decoded(key) if key.num_chunks else key, _decoded(value) if value.num_chunks else value
    if not (is_text_type(key.type) or pa.types.is_integer(key.type)) or not is_number_type(value.type):
        return None
    counts = pc.list_value_length(listed).drop_null().to_numpy().astype(np.int64)
    different = key.drop_null().unique()
    if is_text_type(key.type):
        keys: tuple[str, ...] | int | None = tuple(sorted(different.to_pylist()))
    else:
        places = [int(each) for each in different.to_pylist()]
        keys = None if min(places, default=0) < 0 else max(places, default=-1) + 1
    return keys, floats_of(value), counts


def _parts(listed: "pyarrow.ChunkedArray") -> Iterable[tuple["pyarrow.Array", ...]]:
    """The keys and the values of all entries, chunk by chunk."""
    return zip(*(chunk.flatten().flatten() for chunk in listed.chunks), strict=True)


def _of_struct(column: "pyarrow.ChunkedArray") -> Held | None:
    """Structs of numbers: the fields are keys, and a null is a key that is not there."""
    names = [column.type[place].name for place in range(column.type.num_fields)]
    fields = {name: _decoded(field) for name, field in zip(names, column.flatten(), strict=True)}
    fields = {name: field for name, field in sorted(fields.items()) if str(field.type) != "null"}
    if not fields or len(set(names)) < len(names) or not all(is_number_type(field.type) for field in fields.values()):
        return None
    values = np.array([floats_of(field) for field in fields.values()])
    present = np.array([field.is_valid().to_numpy() for field in fields.values()])
    return tuple(fields), values[present], present.sum(axis=0, dtype=np.int64)[column.is_valid().to_numpy()]


def _range(known: NDArray[np.float64], limits: Limits) -> tuple[float, float]:
    """The ends of values. If all are equal, such as 1 for "has it", 0 is the other end."""
    if known.min() == known.max():
        low, high = sorted((0.0, float(known[0])))
        return (low, high) if low < high else (-1.0, 1.0)
    whole = bool((known % 1 == 0).all()) and _few(known, limits)
    low, high, _ = _whole_ends(known) if whole else _ends(known, limits.tails)
    return low, high


# Words --------------------------------------------------------------------------------------------------------------


def _decided(guess: Guess) -> str:
    return f"{guess.attribute.kind}, {_domain(guess.attribute)}: {guess.why}" if guess.attribute else guess.why


def _domain(attribute: Asked | None) -> str:
    if attribute is None:
        return ""
    if attribute.kind == "categorical":
        return f"{attribute.k:,} labels"
    if attribute.kind == "text":
        letters = "" if attribute.alphabet is None else f" of {len(attribute.alphabet)}"
        return f"up to {attribute.longest} {attribute.codes.units}{letters}"
    span = f"{_text(attribute.low)} to {_text(attribute.high)}"
    return f"{attribute.size} of {attribute.d:,} keys, {span}" if attribute.kind == "keyvalue" else span


def _absent(missing: int, rows: int) -> str:
    return f", {missing / rows:.2%} missing" if missing else ""


def _text(value: float) -> str:
    value = float(value) + 0.0  # -0.0 is 0
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e9 else f"{value:.6g}"


def _about(value: float) -> str:
    """Two digits: an extreme value of the sample is somebody's, and need not be in the file."""
    return _text(float(f"{value:.1e}"))


def _short(kind: "pyarrow.DataType") -> str:
    """The name of a type, without what is in it."""
    return str(kind).partition("<")[0].partition("[")[0]


def _derived(name: str, kind: "pyarrow.DataType") -> str:
    """How to get a number out of a time."""
    types, column = require("pyarrow", "fast").types, _quoted(name)
    way = f"dayofweek({column})" + (f" or hour({column})" if types.is_timestamp(kind) else "")
    if types.is_time(kind):
        way = f"hour({column})"
    elif types.is_duration(kind) or types.is_interval(kind):
        way = f"epoch({column})"
    return f"a time is not asked about as it stands; derive a number with a query (SQL), as in {way}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _wrapped(paragraphs: Iterable[str]) -> str:
    return "\n".join(line for each in paragraphs for line in textwrap.wrap(" ".join(each.split()), _WIDTH) or [""])
