"""Estimates: numbers with honest error bars.

An `Estimate` is a value (or an array of values), a standard error for each, the number of reports, and the
guarantee under which they were collected. `interval` gives normal intervals; `simultaneous=True` widens them
(Bonferroni) so that *all* of them hold at once with the stated probability, which is what a reader of a table with
a thousand rows assumes.

The standard error describes the randomness of the reports given the users' values: the truth it brackets is the share
among the users who reported, not among a population they were drawn from.
"""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.guarantee import Guarantee
from dither.core.registry import Registry, declared
from dither.display.table import TextTable
from dither.errors import ParameterError, UnknownError, require

_SHOWN = 10


class Interval(NamedTuple):
    """Lower and upper ends, elementwise."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


class Bounds(NamedTuple):
    """What is known of the truth without any report: each item's range, what all add up to, or to how much at most."""

    low: float
    high: float
    total: float | None = None
    most: float | None = None


MEAN, SHARES = Bounds(-1.0, 1.0), Bounds(0.0, 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Estimate:
    """`value` with `stderr`, from `n` reports under `guarantee`.

    `bounds` is what the domain tells of the truth. A refined estimate keeps the one it was made from as `original`.
    """

    value: NDArray[np.float64]
    stderr: NDArray[np.float64]
    n: int
    guarantee: Guarantee
    question: str = "value"
    labels: Sequence[str] | None = None
    source: str = ""
    notes: tuple[str, ...] = field(default=())
    bounds: Bounds | None = None
    original: "Estimate | None" = None

    def __post_init__(self) -> None:
        if np.shape(self.value) != np.shape(self.stderr):
            raise ParameterError("an estimate needs one standard error for each value")
        if self.labels is not None and len(self.labels) != np.size(self.value):
            raise ParameterError(f"an estimate of {np.size(self.value)} items needs as many labels")

    def with_labels(self, labels: Sequence[str]) -> "Estimate":
        """The same estimate, with a name for each item."""
        return replace(self, labels=tuple(labels))

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Normal intervals that each cover the truth with probability `level`, or all at once if `simultaneous`."""
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
            raise ParameterError("level must lie between 0 and 1, for example 0.95")
        miss = (1 - level) / (self.value.size if simultaneous else 1)
        reach = -NormalDist().inv_cdf(miss / 2) * self.stderr
        return Interval(self.value - reach, self.value + reach)

    def refine(self, method: str = "auto", **options: Any) -> "Estimate":
        """A better estimate from the same reports: the name of a function in `dither.refine`."""
        return refinements.find(method)(self, **options)

    def table(self, level: float = 0.95, *, most: int | None = None) -> TextTable:
        """One row an item, in order; with `most`, only that many, largest values first."""
        columns = self._columns(level, most)
        return TextTable(columns | {"item": [str(item) for item in columns["item"]]})

    def top(self, count: int = 10, level: float = 0.95) -> TextTable:
        """The largest items, largest first, with intervals that hold for all items at once.

        Of many items the largest are in part the luckiest: an interval for one item that was fixed beforehand would
        miss them more often than it says.
        """
        columns = self._columns(level, checked_count("count", count, 1), simultaneous=True)
        return TextTable(columns | {"item": [str(item) for item in columns["item"]]})

    def to_pandas(self, level: float = 0.95) -> Any:
        """All rows as a pandas DataFrame."""
        return require("pandas", "pandas").DataFrame(self._columns(level))

    def to_arrow(self, level: float = 0.95) -> Any:
        """All rows as a pyarrow Table."""
        return require("pyarrow", "fast").table(self._columns(level))

    def _columns(self, level: float, most: int | None = None, *, simultaneous: bool = False) -> dict[str, Any]:
        interval = self.interval(level, simultaneous=simultaneous)
        value, stderr, low, high = (np.ravel(part) for part in (self.value, self.stderr, *interval))
        rows = np.arange(value.size)
        if simultaneous or (most is not None and most < value.size):
            rows = np.argsort(-value, kind="stable")[:most]
        labels = self.labels if self.labels is not None else self._places()
        return {
            "item": [labels[int(row)] for row in rows],
            self.question: value[rows],
            "stderr": stderr[rows],
            f"low {100 * level:.6g}%": low[rows],
            f"high {100 * level:.6g}%": high[rows],
        }

    def _places(self) -> Sequence[Any]:
        """The numbers of the items; in a table, of row and column."""
        shape = np.shape(self.value)
        return range(np.size(self.value)) if len(shape) < 2 else [", ".join(map(str, at)) for at in np.ndindex(shape)]

    def explain(self) -> str:
        """In words: what was estimated, from what, how, and what was promised."""
        spread = np.atleast_1d(self.stderr)
        size = f"{spread.min():.3g}" if spread.min() == spread.max() else f"{spread.min():.3g} to {spread.max():.3g}"
        lines = [
            f"The {self.question} of {spread.size:,} item{'s' * (spread.size != 1)}, from {self.n:,} reports.",
            f"Collected with {self.source}." if self.source else "",
            f"Privacy of each report: {self.guarantee}.",
            "Standard errors: none."
            if np.isnan(spread).all()
            else f"Standard errors: {size}. They cover the randomness of the reports, not how the users were found.",
            *self.notes,
        ]
        return "\n".join(line for line in lines if line)

    def __repr__(self) -> str:
        return f"{self._title()}\n{self.table(most=_SHOWN)}{self._rest()}"

    def _repr_html_(self) -> str:
        title, rest = html.escape(self._title()), self._rest().strip()
        return f"<p>{title}</p>{self.table(most=_SHOWN)._repr_html_()}<p>{rest}</p>"

    def _title(self) -> str:
        return f"Estimate of {self.question} from {self.n:,} reports; {self.guarantee}"

    def _rest(self) -> str:
        rest = np.size(self.value) - _SHOWN
        return f"\n... and {rest:,} smaller ones; table() shows all" if rest > 0 else ""


refinements: Registry[Callable[..., Estimate]] = Registry("refinement", declared("dither.refine"))


@dataclass(frozen=True, eq=False)
class Estimates(Mapping[Any, Estimate]):
    """Several statistics from the same reports: a mapping from each to its `Estimate`."""

    parts: Mapping[Any, Estimate]
    aliases: Mapping[Any, Any] = field(default_factory=dict)  # further names of parts

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the reports, which is the same for all parts."""
        return next(iter(self.parts.values())).guarantee

    def __getitem__(self, key: Any) -> Estimate:
        name = self.aliases.get(key, key) if isinstance(key, str) else key
        if name not in self.parts:
            raise UnknownError(f"there is no such result; there are {', '.join(map(str, list(self.parts)[:12]))}")
        return self.parts[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def explain(self) -> str:
        """Each part in words."""
        return "\n\n".join(f"{key}: {estimate.explain()}" for key, estimate in self.items())

    def __repr__(self) -> str:
        shown = list(self.items())[:_SHOWN]
        rest = len(self) - len(shown)
        parts = [f"[{key!r}] {estimate!r}" for key, estimate in shown]
        return "\n".join([*parts, *([f"... and {rest:,} more"] if rest else [])])

    def _repr_html_(self) -> str:
        return "".join(f"<h4>{html.escape(str(key))}</h4>{part._repr_html_()}" for key, part in self.items())
