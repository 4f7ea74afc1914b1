"""Results: what everything that is estimated can do, whatever was asked.

`Result` is the protocol: a mean, a histogram, a distribution, answers to ranges, all results of a plan together. Each
has a table, a picture, words, a guarantee, intervals, and goes into pandas and Arrow, so that a loop over the results
of a plan never meets one without them. What holds numbers item by item says so too (`ItemResult`).

`plot` gives the axes of one picture or the figure of several. Both have a `figure`: `result.plot().figure.savefig(...)`
writes either.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float
from dither.core.guarantee import Guarantee
from dither.display.table import TextTable
from dither.errors import ParameterError, require

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Part = TypeVar("Part", covariant=True)


class Interval(NamedTuple):
    """Lower and upper ends, elementwise."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


@runtime_checkable
class Result(Protocol):
    """What every result has."""

    @property
    def guarantee(self) -> Guarantee:
        """What each report promised."""
        ...

    def interval(
        self, level: float = 0.95, *, simultaneous: bool = False
    ) -> Interval | Mapping[str, Interval] | Mapping[int, Interval]:
        """Where the truth is with probability `level`, number by number, or of all numbers at once."""
        ...

    def table(self, level: float = 0.95) -> TextTable:
        """One row a number."""
        ...

    def plot(self, *, level: float = 0.95) -> "Axes | Figure":
        """A picture: matplotlib's axes, or a figure where there are several."""
        ...

    def explain(self) -> str:
        """In words: what was estimated, from what, how, and what was promised."""
        ...

    def to_pandas(self, level: float = 0.95) -> "pandas.DataFrame":
        """All rows as a pandas DataFrame."""
        ...

    def to_arrow(self, level: float = 0.95) -> "pyarrow.Table":
        """All rows as a pyarrow Table."""
        ...

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        ...


class ItemResult(Result, Protocol[Part]):
    """A result that is a list of numbers, with a standard error and a name for each; `Part` is what is drawn of it."""

    @property
    def value(self) -> NDArray[np.float64]:
        """The numbers."""
        ...

    @property
    def stderr(self) -> NDArray[np.float64]:
        """For each its standard error."""
        ...

    @property
    def item_names(self) -> Sequence[str]:
        """For each what it is of; nothing for a number of its own."""
        ...

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Where the truth is with probability `level`, number by number, or of all numbers at once."""
        ...

    def panels(self) -> Mapping[str, Part]:
        """What is drawn in a picture of its own, by its attribute; a result of one attribute is one, under ""."""
        ...


class Tabular(ABC):
    """What follows from the columns of a table."""

    @abstractmethod
    def _columns(self, level: float) -> dict[str, Any]:
        """All rows, column by column."""

    def numbers(self) -> Mapping[str, NDArray[np.float64]]:
        """What was estimated as one list of numbers for each statistic; nothing of what is only asked by queries."""
        return {}

    def to_pandas(self, level: float = 0.95) -> "pandas.DataFrame":
        """All rows as a pandas DataFrame."""
        return require("pandas", "pandas").DataFrame(self._columns(level))

    def to_arrow(self, level: float = 0.95) -> "pyarrow.Table":
        """All rows as a pyarrow Table."""
        return require("pyarrow", "fast").table(self._columns(level))


def checked_level(level: float) -> float:
    """The probability that an interval is to have."""
    number = as_float(level)
    if not 0 < number < 1:  # NaN, which is no number, compares false
        raise ParameterError("level must lie between 0 and 1, for example 0.95")
    return number


def simultaneous_level(level: float, size: int, total: int) -> float:
    """The level that `size` of `total` numbers hold with at once, for all to hold with `level` (Bonferroni)."""
    return 1 - (1 - checked_level(level)) * size / total if size else level


def ravelled(*columns: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Numbers of any shape as columns of a table."""
    return [np.ravel(column).astype(np.float64, copy=False) for column in columns]
