"""Which queries will be asked: about which attributes, and how often.

`{"age": 3, ("age", "income"): 2, 2: 1}` says that of six queries three are about the age alone, two about age and
income, and one about any two attributes. Only ratios count. What is not named will not be asked. From a file or the
command line the second is written `"age, income"`, the last `"2"` or `"any 2"`.

A method for ranges reports single attributes and pairs, and so its predicted error is one of these
(`ranges.error_prediction`). A workload is therefore kept as what it has of them: how often an attribute is asked about
alone (`singles`), and how often a pair is (`pairs`), in queries about it and about more attributes: an answer about
three attributes and more is made of the answers about their pairs. What three attributes do together beyond their pairs
is in no report; what is predicted of them is an estimate from their pairs, and is stated with a bound.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

from dither.core.checks import as_text, checked_count, is_list, whole_number
from dither.errors import ParameterError

MOST_ATTRIBUTES = 16  # of a query
_ANY = "any "
_LISTED = 12

Pair = tuple[int, int]


class QueryKind(NamedTuple):
    """Queries about these attributes or, where none are named, about any so many."""

    attributes: tuple[int, ...]
    number: int


@dataclass(frozen=True)
class QueryWorkload:
    """How often each kind of query will be asked, of d attributes; the numbers add up to one.

    >>> found = QueryWorkload.of(["age", "income", "job"], {"age": 1, ("age", "income"): 2, "any 2": 3})
    >>> found.singles, {pair: round(often, 3) for pair, often in found.pairs.items()}
    ((0.16666666666666666, 0.0, 0.0), {(0, 1): 0.5, (0, 2): 0.167, (1, 2): 0.167})
    """

    d: int
    asked: tuple[tuple[QueryKind, float], ...]

    @classmethod
    def of(cls, names: Sequence[str], given: Mapping[Any, float]) -> "QueryWorkload":
        """From names of attributes, several of them, or their number, each with how often such a query is asked."""
        kinds = [_kind(names, key) for key in given]
        if len(set(kinds)) < len(kinds):
            raise ParameterError("the same queries are named twice; name them once, with the sum of both")
        total = math.fsum(given.values())
        return cls(len(names), tuple((kind, often / total) for kind, often in zip(kinds, given.values(), strict=True)))

    @classmethod
    def any_two(cls, d: int) -> "QueryWorkload":
        """What is planned for if nothing is said: queries about any two of d attributes, or about the only one."""
        return cls(d, ((QueryKind((), min(d, 2)), 1.0),))

    @classmethod
    def any_of(cls, d: int, number: int) -> "QueryWorkload":
        """Queries about any so many of d attributes."""
        return cls(d, ((QueryKind((), checked_count("attributes", number, 1, min(d, MOST_ATTRIBUTES))), 1.0),))

    @cached_property
    def singles(self) -> tuple[float, ...]:
        """For each attribute how often a query is about it alone."""
        found = [0.0] * self.d
        for kind, often in self.asked:
            if kind.number == 1:
                named = kind.attributes or range(self.d)
                found = [each + often / len(named) * (j in named) for j, each in enumerate(found)]
        return tuple(found)

    @cached_property
    def pairs(self) -> dict[Pair, float]:
        """For each pair that is asked about how often it is, in queries about it and about more attributes."""
        found = dict.fromkeys(combinations(range(self.d), 2), 0.0)
        for kind, often in self.asked:
            if kind.attributes:
                for pair in combinations(kind.attributes, 2):
                    found[pair] += often
            else:  # of all pairs that so many attributes have, each is as frequent as any other
                each = often * math.comb(kind.number, 2) / max(1, math.comb(self.d, 2))
                found = {pair: before + each for pair, before in found.items()}
        return {pair: often for pair, often in found.items() if often > 0}

    @property
    def usual(self) -> bool:
        """Whether it is what is planned for if nothing is said: any two attributes, or the only one."""
        if self.d == 1:
            return True
        alike = len(self.pairs) == math.comb(self.d, 2) and len(set(self.pairs.values())) == 1
        return alike and self.largest == 2 and not any(self.singles)

    @property
    def largest(self) -> int:
        """How many attributes a query is about, at most."""
        return max(kind.number for kind, _ in self.asked)


def written(names: Sequence[str], key: Any) -> str:
    """What stands for a kind of queries, as a text that `QueryWorkload.of` reads."""
    kind = _kind(names, key)
    return ", ".join(names[j] for j in kind.attributes) or f"{_ANY}{kind.number}"


def _kind(names: Sequence[str], key: Any) -> QueryKind:
    """The attributes that a key names, ascending, or their number."""
    number, text = whole_number(key), as_text(key)
    if text and text not in names:
        digits = text.removeprefix(_ANY).strip()
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else None
    most = min(len(names), MOST_ATTRIBUTES)
    if number is not None:
        if not 1 <= number <= most:
            raise ParameterError(f"a query is about 1 to {most} of these attributes")
        return QueryKind((), number)
    if text:
        listed: Sequence[Any] = [text] if text in names else [each.strip() for each in text.split(",")]
    else:
        listed = key if is_list(key) else []
    places = sorted({names.index(each) for each in map(as_text, listed) if each in names})
    if not 1 <= len(places) == len(listed) <= most:
        rest = len(names) - _LISTED
        there = ", ".join(names[:_LISTED]) + (f" and {rest:,} more" if rest > 0 else "")
        several = f", several different ones as in ({names[0]!r}, {names[1]!r})" if len(names) > 1 else ""
        raise ParameterError(f"queries are named by attributes of it: {there}{several}, or by how many these are")
    return QueryKind(tuple(places), len(places))
