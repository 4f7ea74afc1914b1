"""What the numbers of a result are about, in words: texts that are written when they are read.

A result may have a million of them, of which somebody reads ten.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload

from dither.ranges.axes import Axes, Axis
from dither.ranges.queries import Queries, describe


class LazyTexts(Sequence[str]):
    """Texts that are written when they are read."""

    @abstractmethod
    def text(self, place: int) -> str:
        """The text at this place."""

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        chosen = range(len(self))[place]  # an IndexError if there is no such place
        return [self.text(each) for each in chosen] if isinstance(chosen, range) else self.text(chosen)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"[{shown}{', ...' * (len(self) > 3)}]"


class QueryTexts(LazyTexts):
    """Queries."""

    def __init__(self, axes: Axes, queries: Queries) -> None:
        self.axes, self.queries = axes, queries

    def __len__(self) -> int:
        return len(self.queries)

    def text(self, place: int) -> str:
        return describe(self.axes, self.queries[place])


class ValueTexts(LazyTexts):
    """The values of an attribute in its own units."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis

    def __len__(self) -> int:
        return self.axis.size

    def text(self, place: int) -> str:
        return self.axis.text(place)


class CrossedTexts(LazyTexts):
    """Pairs of texts, row by row."""

    def __init__(self, rows: Sequence[str], columns: Sequence[str]) -> None:
        self.rows, self.columns = rows, columns

    def __len__(self) -> int:
        return len(self.rows) * len(self.columns)

    def text(self, place: int) -> str:
        row, column = divmod(place, len(self.columns))
        return f"{self.rows[row]}, {self.columns[column]}"
