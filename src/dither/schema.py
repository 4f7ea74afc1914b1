"""What a record may hold: attributes in their own units, and how they become what a mechanism takes.

Mechanisms know numbers from -1 to 1 and categories 0 to k - 1. An attribute knows ages, money and job titles, and
turns one into the other: `encode` on the way in, and on the way out `half_width`, which is what a unit of a
mechanism's mean is worth.

**Domains are public.** Lowest and highest value, labels and their number are part of the plan, and every device
must use the same. They come from what everybody knows, never from the data: the largest income in a table is
somebody's income.

**Bad values.** `invalid="error"`, for trials, refuses them with the attribute, the row and the rule, never the
value. In collection a device always reports, so every attribute has a substitute (`invalid="substitute"`): numbers
are moved to the nearer end, what is missing or no number becomes `missing` (the middle), an unknown label becomes
`other`, and a label that is not there becomes `missing` or, if none is declared, `other`. What a missing value counts
as is the attribute's `substitute`.

**Labels are texts.** A whole number is the label that is its decimal text, True and False are "true" and "false"; so a
column of codes is `Categorical(["1", "2", "3"])` whether a file holds it as numbers or as texts (`core.columns`).

**One value a user.** A column is one-dimensional. Anything else is refused, because a table of values where a column
is expected would mix the values of many users into each report. What is under a mask is missing, and never read.
The value of a `KeyValue` is a vector: a dictionary, or a row of a table with a column for each key.

**Hints** say where values are expected: that they crowd at the low end (`scale="log"`), which cuts make parts of about
as many people (`cuts`), or that people tell multiples of a number (`lattice`). They are as public as ends are, and move
the cells in which range queries are answered (`core.spacings`); other questions are asked as ever.

**Texts** (`Text`) have no labels: which there are is the question. They are brought to one form and become words of
codes (`core.texts`). A text that does not fit (empty, too long, not of the alphabet) counts as none, a word without
letters, which is never among the answers.

**Public attributes** are not asked about. A report carries their value in the clear, and nothing protects it: the
country, the version of an app, the day. Whoever has no such value is in no group, so there is no substitute unless one
is declared.
"""

import math
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dither.core import toml
from dither.core.checks import as_float, checked_choice, checked_count, is_list, is_whole
from dither.core.columns import MISSING, LabelCodes, floats_of
from dither.core.decoding import decoded_parameters, plain
from dither.core.domains import Categories, UnitInterval
from dither.core.spacings import CutSpacing, Lattice, LogSpacing, Spacing
from dither.core.sparse_columns import MOST_KEYS, Entries, entries_of, entries_of_one, refuse_first
from dither.core.sparse_domain import Sparse
from dither.core.texts import TextCodes
from dither.core.words import LONGEST, MOST_SYMBOLS, Words
from dither.display.markup import visible
from dither.display.significant_digits import plain_number
from dither.errors import DomainError, ParameterError, RowError

RULES = ("error", "substitute")
MOST_LABELS = 1 << 20
MOST_CUTS = 255  # of a number: range queries are answered in cells between them
MOST_KNOWN = 1 << 20  # words of a dictionary
MOST_PUBLIC = 1 << 12  # labels of a public attribute: each has a tally of its own
_LISTED = 12  # labels, in words
_LATER = {"later": True}  # parameters that are stored only where they are not the default: older plans keep their hash


def _some(labels: Sequence[str]) -> str:
    """The first of some labels, and how many more there are."""
    rest = len(labels) - _LISTED
    return ", ".join(map(visible, labels[:_LISTED])) + (f" and {rest:,} more" if rest > 0 else "")


def _checked_rule(invalid: str) -> bool:
    """Whether bad values are refused."""
    return checked_choice("invalid", invalid, RULES) == "error"


def _writable(text: Any) -> bool:
    """Whether this is a text that a file can hold: half of a surrogate pair is none."""
    return isinstance(text, str) and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _checked_lattice(low: float, high: float, step: float) -> float:
    """A step of which there are multiples inside, two or more."""
    if not (math.isfinite(step) and 0 < step <= high - low and (high - low) / step < MOST_LABELS):
        raise ParameterError("lattice is the number of which people tell multiples, above 0 and below high - low")
    if len(Lattice(float(low), float(high), float(step)).points) < 2:
        raise ParameterError("at least two multiples of lattice lie between low and high: take a smaller one")
    return step


def _without_hints(attribute: Any) -> str:
    """What a number is written as: hints that were not given are left out."""
    shown = (each.name for each in fields(attribute) if not each.kw_only or getattr(attribute, each.name) is not None)
    return f"{type(attribute).__name__}({', '.join(f'{name}={getattr(attribute, name)!r}' for name in shown)})"


@dataclass(frozen=True)
class Numeric:
    """A number from `low` to `high`; `missing` stands in for what is no number.

    At most one of `scale`, `cuts` and `lattice` says where its values are expected. Without ends it is a number of
    which nobody knows them yet: a plan in two phases asks for its order of magnitude first (`planning.open_numbers`).

    >>> Numeric(0, 200_000).encode([0, 50_000, 200_000]).tolist()
    [-1.0, -0.5, 1.0]
    >>> Numeric().open, Numeric(0, 1).open
    (True, False)
    """

    if TYPE_CHECKING:  # a number, but for one without ends, whose ends nobody may ask for
        low: float = 0.0
        high: float = 0.0
    else:
        low: float | None = None
        high: float | None = None
    missing: float | None = None
    scale: Literal["log"] | None = field(default=None, kw_only=True, metadata=_LATER)
    cuts: Sequence[float] | None = field(default=None, kw_only=True, metadata=_LATER)
    lattice: float | None = field(default=None, kw_only=True, metadata=_LATER)

    def __repr__(self) -> str:
        return _without_hints(self)

    kind: ClassVar[Literal["numeric"]] = "numeric"
    questions: ClassVar[tuple[str, ...]] = ("mean", "distribution")
    k: ClassVar[None] = None  # its values are not counted
    labels: ClassVar[tuple[str, ...] | None] = None  # and have no names
    nominal: ClassVar[bool] = False  # whether they have no order

    def __post_init__(self) -> None:
        if self.open:
            if self.missing is not None:
                object.__setattr__(self, "missing", as_float(self.missing))
                if not math.isfinite(self.substitute):
                    raise ParameterError("missing must be a number")
            if (self.scale, self.cuts, self.lattice) != (None,) * 3:
                raise ParameterError("scale, cuts and lattice are for numbers whose ends are known: give low and high")
            return
        ends = [as_float(end) for end in (self.low, self.high)]
        if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < ends[1]):
            raise ParameterError("a numeric attribute has two finite ends, low below high, as in Numeric(0, 200_000)")
        width, centre = ends[1] - ends[0], (ends[0] + ends[1]) / 2
        if not (sys.float_info.min <= width / 2 < math.inf and ends[0] < centre < ends[1]):
            raise ParameterError("low and high are too close together or too far apart for floating point numbers")
        middle = centre if self.missing is None else as_float(self.missing)
        if not ends[0] <= middle <= ends[1]:
            raise ParameterError("missing must lie between low and high")
        for name, value in zip(("low", "high", "missing"), (*ends, middle), strict=True):
            object.__setattr__(self, name, value)
        self._check_hints()

    def _check_hints(self) -> None:
        if sum(hint is not None for hint in (self.scale, self.cuts, self.lattice)) > 1:
            raise ParameterError(
                "a numeric attribute has one of scale, cuts and lattice, or none: leave the others out"
            )
        if self.scale is not None and (checked_choice("scale", self.scale, ("log",)) and self.low < 0):
            raise ParameterError('scale="log" is for numbers from 0 on: take cuts for others')
        if self.cuts is not None:
            given = self.cuts if is_list(self.cuts) else ()
            cuts = tuple(map(as_float, given))
            ends = (self.low, *cuts, self.high)
            if not 1 <= len(cuts) <= MOST_CUTS or not all(a < b for a, b in pairwise(ends)):
                raise ParameterError(
                    f"cuts are from 1 to {MOST_CUTS:,} numbers between low and high, ascending, as in "
                    "Numeric(0, 200_000, cuts=[20_000, 40_000, 70_000])"
                )
            object.__setattr__(self, "cuts", cuts)
        if self.lattice is not None:
            object.__setattr__(self, "lattice", _checked_lattice(self.low, self.high, as_float(self.lattice)))

    @property
    def spacing(self) -> Spacing | None:
        """Where its values are expected, if that was said."""
        if self.scale is not None:
            return LogSpacing(self.low, self.high)
        if self.cuts is not None:
            return CutSpacing(self.low, self.high, tuple(self.cuts))
        return None if self.lattice is None else Lattice(self.low, self.high, self.lattice)

    @property
    def open(self) -> bool:
        """Whether its ends are not known."""
        return self.low is None and self.high is None

    def between(self, low: float, high: float) -> "Numeric":
        """The same with ends; what stands in for a missing value is moved into them."""
        return Numeric(low, high, None if self.missing is None else min(max(self.missing, low), high))

    def numeric(self) -> "Numeric":
        """Itself: its values are numbers."""
        return self

    @property
    def domain(self) -> UnitInterval:
        """What its mechanisms take."""
        return UnitInterval()

    @property
    def span(self) -> tuple[float, float]:
        """Where its values begin and end."""
        return self.low, self.high

    @property
    def centre(self) -> float:
        """What a mechanism's zero is worth."""
        return (self.low + self.high) / 2

    @property
    def half_width(self) -> float:
        """What a mechanism's one is worth, beyond the centre."""
        return (self.high - self.low) / 2

    @property
    def substitute(self) -> float:
        """What a missing value counts as."""
        return (0.0 if self.open else self.centre) if self.missing is None else self.missing

    @property
    def in_words(self) -> str:
        """Its values, for those who are asked."""
        if self.open:
            return "a number"
        return f"a number from {plain_number(self.low)} to {plain_number(self.high)}"

    def stand_in(self, column: Any) -> str:
        """What the value of one user counts as, in words."""
        if self.open:
            value = float(floats_of(column)[0])
            return f"{self.substitute if math.isnan(value) else value:g}"
        return f"{self.decode(self.encode(column, 'substitute'))[0]:g}"

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.float64]:
        """Values from -1 to 1."""
        if self.open:
            raise ParameterError("this number has no ends yet: give them, as in Numeric(0, 200_000), or plan in phases")
        refuse, values = _checked_rule(invalid), floats_of(column)
        outside = ~((values >= self.low) & (values <= self.high))  # NaN compares false, and is outside
        if refuse and outside.any():
            raise RowError(int(outside.argmax()), f"the value is not a number from {self.low:g} to {self.high:g}")
        inside = np.clip(np.where(np.isnan(values), self.substitute, values), self.low, self.high)
        return np.clip((inside - self.centre) / self.half_width, -1.0, 1.0)

    def encode_value(self, value: Any) -> float:
        """A number from -1 to 1 for the value of one user: `encode([value], "substitute")[0]`, without the array."""
        number = as_float(value)
        known = self.substitute if number != number else number  # NaN
        inside = min(max(known, self.low), self.high)
        return min(max((inside - self.centre) / self.half_width, -1.0), 1.0)

    def decode(self, encoded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values from -1 to 1 as its own again."""
        return self.centre + self.half_width * encoded


@dataclass(frozen=True)
class Ordinal:
    """A whole number from `low` to `high`, both included; `lattice` says that people tell multiples of a number.

    >>> Ordinal(18, 99).encode([18, 99]).tolist()
    [0, 81]
    """

    low: int
    high: int
    missing: int | None = None
    lattice: int | None = field(default=None, kw_only=True, metadata=_LATER)

    def __repr__(self) -> str:
        return _without_hints(self)

    kind: ClassVar[Literal["ordinal"]] = "ordinal"
    questions: ClassVar[tuple[str, ...]] = ("distribution", "mean")
    nominal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        low, high = (checked_count(name, getattr(self, name), -(1 << 53), 1 << 53) for name in ("low", "high"))
        if not low < high < low + MOST_LABELS:
            raise ParameterError(f"an ordinal attribute has from 2 to {MOST_LABELS} values, as in Ordinal(0, 99)")
        middle = (low + high) // 2 if self.missing is None else checked_count("missing", self.missing, low, high)
        for name, value in zip(("low", "high", "missing"), (low, high, middle), strict=True):
            object.__setattr__(self, name, value)
        if self.lattice is not None:
            lattice = checked_count("lattice", self.lattice, 2, MOST_LABELS)
            object.__setattr__(self, "lattice", int(_checked_lattice(low, high, lattice)))

    @property
    def spacing(self) -> Spacing | None:
        """Where its values are expected, if that was said."""
        return None if self.lattice is None else Lattice(float(self.low), float(self.high), float(self.lattice))

    @property
    def k(self) -> int:
        """How many values there are."""
        return self.high - self.low + 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as text."""
        return tuple(str(value) for value in range(self.low, self.high + 1))

    @property
    def domain(self) -> Categories:
        """What its mechanisms take."""
        return Categories(self.k)

    @property
    def span(self) -> tuple[int, int]:
        """Where its values begin and end: before the first whole number that is none of them."""
        return self.low, self.high + 1

    @property
    def centre(self) -> float:
        """The middle of the values."""
        return self.numeric().centre

    @property
    def half_width(self) -> float:
        """Half the width of the values."""
        return self.numeric().half_width

    @property
    def substitute(self) -> int:
        """What a missing value counts as."""
        return (self.low + self.high) // 2 if self.missing is None else self.missing

    @property
    def in_words(self) -> str:
        """Its values, for those who are asked."""
        return f"a whole number from {plain_number(self.low)} to {plain_number(self.high)}"

    def stand_in(self, column: Any) -> str:
        """What the value of one user counts as, in words."""
        return str(self.decode(self.encode(column, "substitute"))[0])

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.int64]:
        """Category numbers, 0 for the lowest."""
        refuse, values = _checked_rule(invalid), floats_of(column)
        whole = np.isfinite(values) & (np.where(np.isfinite(values), values, 0.5) % 1 == 0)
        outside = ~(whole & (values >= self.low) & (values <= self.high))
        if refuse and outside.any():
            raise RowError(int(outside.argmax()), f"the value is not a whole number from {self.low} to {self.high}")
        known = np.where(np.isnan(values) | (np.isfinite(values) & ~whole), self.substitute, values)
        return (np.clip(known, self.low, self.high) - self.low).astype(np.int64)

    def encode_value(self, value: Any) -> int:
        """The category number of the value of one user: `encode([value], "substitute")[0]`, without the array."""
        number = as_float(value)
        known = number if math.isinf(number) or number % 1 == 0 else self.substitute
        return int(min(max(known, self.low), self.high)) - self.low

    def decode(self, encoded: NDArray[np.int64]) -> NDArray[np.int64]:
        """Category numbers as its own values again."""
        return self.low + encoded

    def numeric(self) -> Numeric:
        """The same values as a number, for its mean."""
        return Numeric(self.low, self.high, self.missing)


@dataclass(frozen=True)
class Categorical:
    """One of some labels; `other` stands in for any that is not among them, `missing` for none at all.

    Without `missing`, a value that is not there is an `other` too.

    >>> jobs = Categorical(["nurse", "driver", "other", "unknown"], missing="unknown")
    >>> jobs.encode(["driver", "astronaut", None], invalid="substitute").tolist()
    [1, 2, 3]
    >>> Categorical(["false", "true"]).encode([True, False]).tolist()
    [1, 0]
    """

    labels: Any
    other: str | None = None
    missing: str | None = field(default=None, metadata=_LATER)

    kind: ClassVar[Literal["categorical"]] = "categorical"
    questions: ClassVar[tuple[str, ...]] = ("histogram",)
    nominal: ClassVar[bool] = True
    spacing: ClassVar[Spacing | None] = None  # labels are nowhere

    def __post_init__(self) -> None:
        if not is_list(self.labels) or not all(map(_writable, self.labels)):
            raise ParameterError('labels must be a list of texts, as in Categorical(["yes", "no"])')
        labels: tuple[str, ...] = tuple(map(str, self.labels))
        if len(set(labels)) != len(labels) or not 2 <= len(labels) <= MOST_LABELS:
            raise ParameterError(f"labels must be different, and from 2 to {MOST_LABELS}")
        default = "other" if "other" in labels else labels[0]
        chosen = default if self.other is None else self.other
        if not _writable(chosen) or str(chosen) not in labels:
            raise ParameterError("other must be one of the labels")
        if self.missing is not None and not (_writable(self.missing) and str(self.missing) in labels):
            raise ParameterError('missing must be one of the labels; add a label for it, such as "missing"')
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "other", chosen)

    @property
    def k(self) -> int:
        """How many labels there are."""
        return len(self.labels)

    @property
    def domain(self) -> Categories:
        """What its mechanisms take."""
        return Categories(self.k)

    @property
    def substitute(self) -> str:
        """What a missing value counts as."""
        return str(self.other) if self.missing is None else self.missing

    @property
    def span(self) -> tuple[int, int]:
        """Where the numbers of its labels begin and end."""
        return 0, self.k

    @cached_property
    def _places(self) -> LabelCodes:
        return LabelCodes(self.labels)

    @property
    def in_words(self) -> str:
        """Its values, for those who are asked."""
        return f"one of {self.k:,} labels: {_some(self.labels)}"

    def stand_in(self, column: Any) -> str:
        """What the value of one user counts as, in words."""
        return repr(self.labels[int(self.encode(column, "substitute")[0])])

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.int64]:
        """The labels' numbers."""
        refuse, found = _checked_rule(invalid), self._places.of(column)
        odd = found < 0
        if not odd.any():
            return found
        if refuse:
            raise RowError(int(odd.argmax()), f"the value is not one of the {self.k} labels")
        other, missing = self._substitutes
        return np.where(odd, np.where(found == MISSING, missing, other), found)

    def encode_value(self, value: Any) -> int:
        """The label's number for the value of one user: `encode([value], "substitute")[0]`, without the array."""
        found, (other, missing) = self._places.of_value(value), self._substitutes
        return found if found >= 0 else missing if found == MISSING else other

    @cached_property
    def _substitutes(self) -> tuple[int, int]:
        """The numbers of the labels for what is unknown and for what is missing."""
        return self.labels.index(self.other), self.labels.index(self.substitute)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # what is looked up is not sent along


@dataclass(frozen=True)
class KeyValue:
    """Up to `size` keys of many, each with a number from `low` to `high`; `keys` are their names, or their number.

    A value is a dictionary from keys (names, or numbers from 0) to numbers; a column may also be a table with a column
    for each key, where 0 means absent, a SciPy CSR matrix, or an Arrow column of maps.

    >>> KeyValue(["Alien", "Heat", "Totoro"], size=2, low=1, high=5).encode([{"Heat": 5, "Alien": 2}])["value"].tolist()
    [[1.0, -0.5]]
    """

    keys: Any
    size: int
    low: float = field(default=-1.0, metadata=_LATER)
    high: float = field(default=1.0, metadata=_LATER)

    kind: ClassVar[Literal["keyvalue"]] = "keyvalue"
    questions: ClassVar[tuple[str, ...]] = ("presence", "mean")

    def __post_init__(self) -> None:
        if is_whole(self.keys):
            object.__setattr__(self, "keys", checked_count("keys", self.keys, 2, MOST_KEYS))
        else:
            named = is_list(self.keys) and all(map(_writable, self.keys))
            if not named or not 2 <= len(set(self.keys)) == len(self.keys) <= MOST_LABELS:
                raise ParameterError(
                    f"keys are their number, or from 2 to {MOST_LABELS} different texts, as in "
                    'KeyValue(["Alien", "Heat"], size=1)'
                )
            object.__setattr__(self, "keys", tuple(map(str, self.keys)))
        object.__setattr__(self, "size", checked_count("size", self.size, 1, self.d))
        values = Numeric(self.low, self.high)
        object.__setattr__(self, "low", values.low)
        object.__setattr__(self, "high", values.high)

    @property
    def d(self) -> int:
        """How many keys there are."""
        return self.keys if self.labels is None else len(self.labels)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of the keys, if they have any."""
        return None if is_whole(self.keys) else self.keys

    @property
    def domain(self) -> Sparse:
        """What its mechanisms take.

        They do not reckon with users who hold more than `size` keys (`sample=True`), which would widen every error
        bar: drawing `size` of them is a substitute, as clipping is for a number.
        """
        return Sparse(self.d, self.size)

    @property
    def centre(self) -> float:
        """The middle of the values, which a key that a user does not have counts as in a mean."""
        return self.numeric().centre

    @property
    def half_width(self) -> float:
        """Half the width of the values."""
        return self.numeric().half_width

    @property
    def substitute(self) -> dict[str, float]:
        """What a missing value counts as: a user without keys."""
        return {}

    def numeric(self) -> Numeric:
        """The values of one key."""
        return Numeric(self.low, self.high)

    @property
    def in_words(self) -> str:
        """Its values, for those who are asked."""
        keys = f" ({_some(self.labels)})" if self.labels else ""
        held = f"which of {self.d:,} things (keys){keys} you have, up to {self.size:,} of them"
        return f"{held}, and for each a number from {plain_number(self.low)} to {plain_number(self.high)}"

    def stand_in(self, column: Any) -> str:
        """What the value of one user counts as, in words."""
        held = min(self.size, int((self.encode(column, "substitute")["key"] >= 0).sum()))
        values = f"values from {self.low:g} to {self.high:g}"
        return f"{held} key{'s' * (held != 1)} with {values}" if held else "no keys"

    def encode(self, column: Any, invalid: str = "error") -> NDArray:
        """For each user keys and values from -1 to 1, as `Sparse` has them; more than `size` are sampled later."""
        refuse = _checked_rule(invalid)
        entries = entries_of(column, self.d, mend=not refuse, names=self.labels)
        if refuse:
            self._refuse(entries)
        scaled = (np.clip(entries.values, self.low, self.high) - self.centre) / self.half_width
        return self.domain.rows(entries._replace(values=np.clip(scaled, -1.0, 1.0)), mend=not refuse)

    def encode_value(self, value: Any) -> np.void:
        """The keys and values of one user: `encode([value], "substitute")[0]`, without arrays on the way."""
        d, (low, high, centre, scale) = self.d, self._range
        held: dict[int, float] = {}
        for key, number in entries_of_one(value, d, self.size, self._numbers):
            inside = min(max((min(max(number, low), high) - centre) / scale, -1.0), 1.0)
            if 0 <= key < d and number == number:  # not NaN
                held.setdefault(key, inside)
        return self.domain.row(held)

    @cached_property
    def _numbers(self) -> dict[str, int] | None:
        """The numbers of the keys by their names, if they have any."""
        return None if self.labels is None else {name: place for place, name in enumerate(self.labels)}

    @cached_property
    def _range(self) -> tuple[float, float, float, float]:
        """The ends of the values, their middle and half their width."""
        return self.low, self.high, self.centre, self.half_width

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # as of labels

    def _refuse(self, entries: Entries) -> None:
        """Rules in the attribute's own words."""
        rows, values = entries.rows, entries.values
        if self.labels:
            refuse_first(rows, entries.keys < 0, f"a key is not one of the {self.d} names")
        wrong = ~((values >= self.low) & (values <= self.high))  # NaN compares false
        refuse_first(rows, wrong, f"a value is not a number from {self.low:g} to {self.high:g}")
        rule = f'there are more than {self.size} keys; invalid="substitute" takes {self.size} of them at random'
        refuse_first(np.arange(len(entries.ends)), entries.counts > self.size, rule)


@dataclass(frozen=True)
class Text:
    """A text of up to `longest` characters of an `alphabet`, or (None) bytes of UTF-8, of which nobody has a list.

    Texts that differ in case only are one if `fold`, and spaces around them do not count if `trim`. `known` are words
    that are looked for by name, beside those that nobody has thought of; best in the order of how frequent they are
    elsewhere, since the first ones are believed with less evidence.

    >>> words = Text(longest=8, alphabet="abcdefghijklmnopqrstuvwxyz")
    >>> words.decode(words.encode([" Dither", "privacy"])[0]), words.stand_in(["much too long"])
    ('dither', 'no word')
    """

    longest: int
    alphabet: str | None = None
    known: Any = ()
    fold: bool = True
    trim: bool = True

    kind: ClassVar[Literal["text"]] = "text"
    questions: ClassVar[tuple[str, ...]] = ("top",)
    k: ClassVar[None] = None  # nobody knows how many there are
    labels: ClassVar[tuple[str, ...] | None] = None
    nominal: ClassVar[bool] = True
    spacing: ClassVar[Spacing | None] = None

    def __repr__(self) -> str:
        known = f", known={len(self.known):,} words" if self.known else ""
        return f"Text(longest={self.longest}, alphabet={self.alphabet!r}{known}, fold={self.fold}, trim={self.trim})"

    def __post_init__(self) -> None:
        object.__setattr__(self, "longest", checked_count("longest", self.longest, 1, LONGEST))
        if not (isinstance(self.fold, bool) and isinstance(self.trim, bool)):
            raise ParameterError("fold and trim are True or False")
        if self.alphabet is not None:
            self._check_alphabet(self.alphabet)
        if not is_list(self.known) or len(self.known) > MOST_KNOWN:
            raise ParameterError(f'known is a list of up to {MOST_KNOWN:,} texts, as in known=["yes", "no"]')
        words = [self.codes.word(text) if _writable(text) else 0 for text in self.known]
        wrong = next((place for place, word in enumerate(words) if not isinstance(word, bytes)), None)
        if wrong is not None:
            raise ParameterError(
                f"word {wrong} of known, from 0, does not fit: it is no text, too long, or not of the alphabet"
            )
        texts = dict.fromkeys(self.codes.text(word) for word in words if isinstance(word, bytes))
        object.__setattr__(self, "known", tuple(texts))

    def _check_alphabet(self, letters: Any) -> None:
        if not _writable(letters) or not 2 <= len(letters) <= MOST_SYMBOLS or len(set(letters)) < len(letters):
            raise ParameterError(
                f"an alphabet is a text of 2 to {MOST_SYMBOLS} different characters; leave it out for any text in UTF-8"
            )
        alone = TextCodes(self.longest, None, self.fold)
        if any(alone.canonical(letter) != letter for letter in letters):
            raise ParameterError(
                "a character of the alphabet is not in the form that texts are brought to, so that none would hold it: "
                "write small letters where fold is True, and letters with accents as one character"
            )

    @cached_property
    def codes(self) -> TextCodes:
        """How a text becomes a word."""
        return TextCodes(self.longest, self.alphabet, self.fold, self.trim)

    @property
    def domain(self) -> Words:
        """What its mechanisms take."""
        return Words(self.codes.symbols, self.longest, bool(self.known))

    @property
    def substitute(self) -> str:
        """What a missing value counts as: no word."""
        return ""

    @property
    def in_words(self) -> str:
        """Its values, for those who are asked."""
        letters = "" if self.alphabet is None else f" of the {len(self.alphabet)} characters {visible(self.alphabet)}"
        return f"a text of up to {self.longest} {self.codes.units}{letters}"

    def stand_in(self, column: Any) -> str:
        """What the value of one user counts as, in words."""
        text = self.decode(self.encode(column, "substitute")[0])
        return repr(text) if text else "no word"

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.bytes_]:
        """Words of codes."""
        refuse = _checked_rule(invalid)
        words, wrong = self.codes.examined(column)
        if refuse and wrong is not None:
            raise RowError(wrong[0], self.codes.rule(wrong[1]))
        return words

    def encode_value(self, value: Any) -> bytes:
        """The word of one user: `encode([value], "substitute")[0]`, without the array."""
        word = self.codes.word(value)
        return word if isinstance(word, bytes) else b""

    def decode(self, word: bytes) -> str | None:
        """The text of a word; None if no text has these codes."""
        return self.codes.text(bytes(word))

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # as of labels


@dataclass(frozen=True)
class Public:
    """One of some labels that everybody may see: a report carries it in the clear, and nobody is asked about it.

    `other` stands in for any label that is not among them, and for none at all, if it is declared. Otherwise such a
    value is refused, also by devices: it is public, so that refusing it tells nothing about anybody.

    >>> Public(["DE", "FR"]).encode(["FR", "DE"]).tolist()
    [1, 0]
    """

    labels: Any
    other: str | None = None

    kind: ClassVar[Literal["public"]] = "public"
    questions: ClassVar[tuple[str, ...]] = ()
    nominal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not is_list(self.labels) or not all(map(_writable, self.labels)):
            raise ParameterError('the labels of a public attribute are a list of texts, as in Public(["DE", "FR"])')
        labels: tuple[str, ...] = tuple(map(str, self.labels))
        if len(set(labels)) != len(labels) or not 1 <= len(labels) <= MOST_PUBLIC:
            raise ParameterError(f"the labels of a public attribute must be different, and from 1 to {MOST_PUBLIC:,}")
        if self.other is not None and not (_writable(self.other) and str(self.other) in labels):
            raise ParameterError('other must be one of the labels; add a label for it, such as "other"')
        object.__setattr__(self, "labels", labels)

    @property
    def k(self) -> int:
        """How many labels there are."""
        return len(self.labels)

    @property
    def substitute(self) -> str | None:
        """What a missing value counts as, if that is declared."""
        return self.other

    @cached_property
    def _places(self) -> LabelCodes:
        return LabelCodes(self.labels)

    @property
    def in_words(self) -> str:
        """Its values, for those who are asked."""
        return f"one of {self.k:,} labels: {_some(self.labels)}"

    def stand_in(self, column: Any) -> str:
        """What the value of one user counts as, in words."""
        try:
            return repr(self.labels[int(self.encode(column, "substitute")[0])])
        except DomainError:
            return "nothing: it is refused"

    def encode(self, column: Any, invalid: str = "error") -> NDArray[np.int64]:
        """The labels' numbers."""
        refuse, found = _checked_rule(invalid), self._places.of(column)
        odd = found < 0
        if not odd.any():
            return found
        if refuse or self.other is None:
            rule = f"the value is not one of the {self.k:,} public labels, so it names no group of the plan"
            mended = {} if self.other is not None else {"substitute": "declare a label for it: Public(..., other=...)"}
            raise RowError(int(odd.argmax()), rule, **mended)
        return np.where(odd, self.labels.index(self.other), found)

    def place(self, value: Any) -> int:
        """The number of a label; below 0 if it is none."""
        return self._places.of_value(value)

    def encode_value(self, value: Any) -> int:
        """The number of the label of one user."""
        return int(self.encode([value], "substitute")[0])

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # as of labels


Asked = Numeric | Ordinal | Categorical | KeyValue | Text  # what can be asked about
Attribute = Asked | Public
KINDS: dict[str, type] = {cls.kind: cls for cls in (Numeric, Ordinal, Categorical, KeyValue, Text, Public)}


@dataclass(frozen=True)
class Schema(Mapping[str, Attribute]):
    """The attributes of a record, by name and in order.

    >>> schema = Schema({"age": Ordinal(0, 99), "job": Categorical(["nurse", "other"])})
    >>> list(schema), Schema.from_dict(schema.to_dict()) == schema
    (['age', 'job'], True)
    """

    attributes: Any

    def __post_init__(self) -> None:
        given = self.attributes
        if not isinstance(given, Mapping) or not given:
            raise ParameterError('a schema maps names to attributes, as in Schema({"age": Ordinal(0, 99)})')
        for name, attribute in given.items():
            if not _writable(name) or not name or set(name) & set("()[]\n"):
                raise ParameterError("the name of an attribute is a text without brackets or line breaks")
            if not isinstance(attribute, tuple(KINDS.values())):
                raise ParameterError(f"attribute {name}: use Numeric, Ordinal, Categorical, KeyValue, Text or Public")
        object.__setattr__(self, "attributes", tuple(given.items()))

    def __getitem__(self, name: str) -> Attribute:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return dict(self.attributes)

    @cached_property
    def public(self) -> "dict[str, Public]":
        """The attributes that a report carries in the clear."""
        return {name: attribute for name, attribute in self.attributes if isinstance(attribute, Public)}

    @cached_property
    def private(self) -> "Schema":
        """The attributes that can be asked about."""
        if not self.public:
            return self
        if len(self.public) == len(self):
            raise ParameterError("all attributes of this schema are public: there is nothing to be asked about")
        return Schema({name: attribute for name, attribute in self.attributes if name not in self.public})

    def __iter__(self) -> Iterator[str]:
        return iter(name for name, _ in self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __repr__(self) -> str:
        return "Schema(" + ", ".join(f"{name}: {attribute.kind}" for name, attribute in self.attributes) + ")"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON or TOML."""
        return {name: {"kind": attribute.kind, **_plain(attribute)} for name, attribute in self.attributes}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Schema":
        """The inverse of `to_dict`."""
        attributes = {}
        for name, entry in stored.items() if isinstance(stored, Mapping) else ():
            kind = str(entry.get("kind")) if isinstance(entry, Mapping) else ""
            if kind not in KINDS:
                raise ParameterError(f"attribute {name}: kind must be one of {', '.join(KINDS)}")
            parameters = {key: value for key, value in entry.items() if key != "kind"}
            given = decoded_parameters(KINDS[kind], parameters, f"attribute {name}")
            try:
                attributes[name] = KINDS[kind](**given)
            except ParameterError as error:
                raise ParameterError(f"attribute {name}: {error}") from None
        return cls(attributes)

    def to_toml(self, comments: Mapping[str, str] | None = None) -> str:
        """A text that `read` reads back, to be edited by hand.

        `comments` are written above the attributes that they name; that of the empty name is the first of the file.

        >>> print(Schema({"age": Ordinal(0, 99)}).to_toml({"age": "In full years."}))
        # In full years.
        [age]
        kind = "ordinal"
        low = 0
        high = 99
        missing = 49
        <BLANKLINE>
        """
        said = dict(comments or {})
        if not set(said) <= {"", *self}:
            raise ParameterError("a comment is about an attribute of the schema, or about all of it (an empty name)")
        blocks = [toml.comment(said[""])] if "" in said else []
        for name, attribute in self.attributes:
            lines = [toml.comment(said[name])] if name in said else []
            lines += [f"[{toml.key(name)}]", f"kind = {toml.quoted(attribute.kind)}"]
            parameters = ((each.name, getattr(attribute, each.name)) for each in fields(attribute))
            lines += [f"{parameter} = {toml.written(value)}" for parameter, value in parameters if value is not None]
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks) + "\n"

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """A schema from a TOML file with a table for each attribute.

        Such as `[age]` with the lines `kind = "ordinal"`, `low = 0` and `high = 99`.
        """
        try:
            stored = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError:
            raise ParameterError(f"the schema file {path} cannot be read") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise ParameterError(
                f"the schema file {path} is not TOML: a table for each attribute, as in [age]"
            ) from None
        return cls.from_dict(stored)


def _plain(attribute: Any) -> dict[str, Any]:
    """The parameters of an attribute, ready for JSON."""
    kept = [each for each in fields(attribute) if not each.metadata or getattr(attribute, each.name) != each.default]
    return {each.name: plain(getattr(attribute, each.name)) for each in kept}
