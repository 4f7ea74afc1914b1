"""Estimates: numbers with honest error bars.

An `Estimate` is a value (or an array of values), a standard error for each, the number of reports, and the
guarantee under which they were collected. `interval` gives for each item where the truth is: it holds with the stated
probability for *this* item, whatever it and the others are, before and after a refinement (`core.confidence`).
`simultaneous=True` widens them (Bonferroni) so that *all* of them hold at once with the stated probability, which is
what a reader of a table with a thousand rows assumes.

The standard error describes the randomness of the reports given the users' values: the truth it brackets is the share
among the users who reported, not among a population they were drawn from.
"""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike, NDArray

from dither.core.checks import checked_count, is_string
from dither.core.confidence import IntervalRule, beyond, plain_ends
from dither.core.counted_covariance import CountedCovariance
from dither.core.covariance import Covariance
from dither.core.guarantee import Guarantee
from dither.core.registry import Registry, declared
from dither.core.results import Interval, ItemResult, Tabular, checked_level, ravelled, simultaneous_level
from dither.display import estimate_plots
from dither.display.table import TextTable
from dither.errors import ParameterError, UnknownError

if TYPE_CHECKING:  # `Estimates` alone are those of a mechanism with several statistics
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from typing_extensions import TypeVar

    Key = TypeVar("Key", default=str)
    Part = TypeVar("Part", bound="ItemResult[Estimate]", covariant=True, default="Estimate")
else:
    from typing import TypeVar

    Key, Part = TypeVar("Key"), TypeVar("Part", covariant=True)

_SHOWN = 10
_POSTERIOR = (
    "Standard errors are of a posterior: right on average over items. Intervals hold for each item by itself, and are "
    "wider than these would give."
)


class Bounds(NamedTuple):
    """What is known of the truth without any report: each item's range, what all add up to, or to how much at most."""

    low: float
    high: float
    total: float | None = None
    most: float | None = None


MEAN, SHARES = Bounds(-1.0, 1.0), Bounds(0.0, 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Estimate(Tabular):
    """`value` with `stderr`, from `n` reports under `guarantee`.

    `bounds` is what the domain tells of the truth. A refined estimate keeps the one it was made from as `original`.
    Items that are `ordered` (values of a whole number, bins, quantiles) keep their order in tables and pictures, and
    `edges` say where they begin and end if they are cells of an axis; of others the largest come first where not all
    are shown. `correlation` says how the errors of the items go together, where that is known: in units of standard
    errors, so that it holds in any units of the values. `variance` is that of an item by its truth, where one follows
    from the other.

    `stderr` is the standard deviation of the error of each value. After `shrink` and `smooth` it is that of a
    posterior, which is right on average over items and says little about any one. Intervals follow from value and
    standard error only where no `rule` says how they are found. `bias` is how far values may be off beside their noise,
    at most, where something had to be rounded: intervals are wider by it.
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
    ordered: bool = field(default=False, kw_only=True)
    edges: NDArray[np.float64] | None = field(default=None, kw_only=True)
    correlation: Covariance | CountedCovariance | None = field(default=None, kw_only=True, repr=False)
    variance: Polynomial | None = field(default=None, kw_only=True, repr=False)
    rule: IntervalRule | None = field(default=None, kw_only=True, repr=False)
    bias: NDArray[np.float64] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if np.shape(self.value) != np.shape(self.stderr):
            raise ParameterError("an estimate needs one standard error for each value")
        if self.labels is not None and len(self.labels) != np.size(self.value):
            raise ParameterError(f"an estimate of {np.size(self.value)} items needs as many labels")
        if self.edges is not None:
            if len(self.edges) != np.size(self.value) + 1:
                raise ParameterError(f"an estimate of {np.size(self.value)} cells needs one edge more than these")
            object.__setattr__(self, "ordered", True)
        if self.correlation is not None and self.correlation.size != np.size(self.value) > 1:
            raise ParameterError(f"an estimate of {np.size(self.value)} items needs correlations of as many")

    def with_labels(self, labels: Sequence[str]) -> "Estimate":
        """The same estimate, with a name for each item."""
        return replace(self, labels=tuple(labels))

    def with_numbers(
        self,
        value: NDArray[np.float64],
        stderr: NDArray[np.float64],
        *,
        n: int,
        source: str,
        notes: tuple[str, ...],
        correlation: Covariance | None = None,
        rule: IntervalRule | None = None,
        bias: NDArray[np.float64] | None = None,
    ) -> "Estimate":
        """An estimate of the same items with other numbers, and nothing of how its own were found."""
        return Estimate(
            value,
            stderr,
            n,
            self.guarantee,
            self.question,
            self.labels,
            source,
            notes,
            self.bounds,
            ordered=self.ordered,
            edges=self.edges,
            correlation=correlation,
            rule=rule,
            bias=bias,
        )

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Where the truth is: each covers it with probability `level`, or all at once if `simultaneous`.

        Each lies in the domain. Of a refined estimate each also holds its value.
        """
        miss = (1 - checked_level(level)) / (max(np.size(self.value), 1) if simultaneous else 1)
        if self.rule is not None:
            low, high = (end.reshape(np.shape(self.value)) for end in self.rule.ends(miss))
        elif self.original is not None:
            low, high = self.original.interval(1 - miss)
        else:
            low, high = plain_ends(self.value, self.stderr, *self._domain, miss)
        if self.bias is not None:
            low, high = np.maximum(low - self.bias, self._domain[0]), np.minimum(high + self.bias, self._domain[1])
        if self.original is not None or self.rule is not None:
            low, high = np.fmin(low, self.value), np.fmax(high, self.value)
        return Interval(low, high)

    def credible(self, level: float = 0.95) -> Interval:
        """Where the truth of an item is if it is like the others: what `shrink` or `smooth` believes, with `level`.

        This holds on average over items and not for each: for items unlike the others far less often. `interval` holds
        for each.
        """
        if not self._posterior:
            raise ParameterError("only an estimate after shrink or smooth has a posterior; interval() is for all")
        reach = beyond((1 - checked_level(level)) / 2) * self.stderr
        return Interval(*(np.clip(end, *self._domain) for end in (self.value - reach, self.value + reach)))

    @property
    def _domain(self) -> tuple[float, float]:
        return (-np.inf, np.inf) if self.bounds is None else self.bounds[:2]

    @property
    def _posterior(self) -> bool:
        """Whether its standard errors are those of a posterior."""
        return self.original is not None and self.rule is not None

    @property
    def covariance(self) -> Covariance | CountedCovariance | None:
        """The covariance of the errors of all items; None where it is not known how they go together.

        Refining moves every item by what all of them say: the covariance after it is not known.
        """
        stderr = np.ravel(self.stderr)
        if stderr.size == 1:
            return Covariance.uncorrelated(stderr**2)
        if self.correlation is None or self.original is not None:
            return None
        return self.correlation.scaled(stderr)

    def combine(self, weights: ArrayLike, question: str = "linear combination") -> "Estimate":
        """The sum of all items, each times its weight, with the standard error that their covariance gives.

        Weights that add up to 0 make a contrast, as [1, -1, 0] for the difference of the first two of three. Items
        with weight 0 do not matter, also where they are not known.
        """
        wanted = np.asarray(weights, dtype=np.float64)
        if wanted.shape != np.shape(self.value) or not np.isfinite(wanted).all():
            raise ParameterError("weights must be finite numbers, one for each item and in the same shape")
        covariance = self.covariance
        if covariance is None:
            raise ParameterError(
                "it is not known how the errors of these items go together, so a combination of them would have no "
                "standard error" + ("; combine the items of its `original`" if self.original is not None else "")
            )
        some = np.flatnonzero(np.ravel(wanted))
        chosen, (value,) = np.ravel(wanted)[some], ravelled(self.value)
        ends = None if self.bounds is None else np.outer(chosen, self.bounds[:2])
        limits = None if ends is None else Bounds(float(ends.min(axis=1).sum()), float(ends.max(axis=1).sum()))
        return replace(
            self,
            value=np.asarray(chosen @ value[some]),
            stderr=np.asarray(covariance.of(some).variance_of(chosen) ** 0.5),
            bias=None if self.bias is None else np.asarray(np.abs(chosen) @ np.ravel(self.bias)[some]),
            question=question,
            labels=None,
            bounds=limits,
            original=None,
            ordered=False,
            edges=None,
            correlation=None,
            variance=None,
            rule=None,
        )

    def total(self, items: Sequence[str | int]) -> "Estimate":
        """Some items together, by their names or their numbers: the share of users in any of these categories."""
        size = np.size(self.value)
        known: dict[str | int, int] = {place: place for place in range(size)}
        known |= {name: place for place, name in enumerate(self.item_names)}
        places = [known.get(item, -1) for item in items]
        if is_string(items) or -1 in places or len(set(places)) < len(places):
            raise ParameterError("items must be names or numbers of items, as in total(['nurse', 'driver']), each once")
        weights = np.zeros(size)
        weights[places] = 1.0
        found = self.combine(weights.reshape(np.shape(self.value)), f"{self.question}, {len(places)} items together")
        if self.bounds is None or self.bounds.total is None:
            return found
        return replace(found, bounds=Bounds(self.bounds.low, self.bounds.total))

    def refine(self, method: str = "auto", **options: Any) -> "Estimate":
        """A better estimate from the same reports: the name of a function in `dither.refine`."""
        return refinements.find(method)(self, **options)

    def table(self, level: float = 0.95, *, most: int | None = None) -> TextTable:
        """One row an item, in order; with `most`, only the largest: these first, or in their order if they have one."""
        return _texts(self._columns(level, most))

    def top(self, count: int = 10, level: float = 0.95) -> TextTable:
        """The largest items, largest first, with intervals that hold for all items at once.

        Of many items the largest are in part the luckiest: an interval for one item that was fixed beforehand would
        miss them more often than it says.
        """
        return _texts(self._columns(level, checked_count("count", count, 1), top=True))

    def plot(self, ax: "Axes | None" = None, level: float = 0.95) -> "Axes":
        """Every item with its interval, on `ax` or on new axes, which are returned.

        Cells of an axis stand along it; other items are points below each other, in their order if they have one, else
        the largest first. A number of its own stands on its domain. Where only the largest of many are drawn, their
        intervals hold for all items at once, as in `top`.
        """
        if np.size(self.value) == 0 or not np.isfinite(self.value).any():
            return estimate_plots.draw_nothing(ax, self.question)
        shares = self.bounds is not None and self.bounds[:2] == SHARES[:2]
        label = "share of users" if shares else self.question
        title = f"{self.question}\nfrom {self.n:,} reports, with {100 * level:.6g}% intervals"
        value, low, high = ravelled(self.value, *self.interval(level))
        if value.size == 1:
            name = self.item_names[0] or self.question
            return estimate_plots.draw_number(
                ax, name, float(value[0]), float(low[0]), float(high[0]), self._domain, title
            )
        if self.edges is not None:
            along = self.question if "(" in self.question else "value"
            return estimate_plots.draw_cells(ax, self.edges, value, low, high, (along, label), title, zero=shares)
        rows = np.arange(value.size)
        if value.size > estimate_plots.MOST_ITEMS:
            low, high = ravelled(*self.interval(level, simultaneous=True))
            rows = _largest(value, estimate_plots.MOST_ITEMS, ordered=self.ordered)
            title, label = f"{title} for all at once", f"{label} (the {len(rows)} largest of {value.size:,})"
        elif not self.ordered:
            rows = _largest(value, value.size)
        names = self.item_names
        shown = [names[int(row)] for row in rows]
        return estimate_plots.draw_items(ax, shown, value[rows], low[rows], high[rows], label, title, zero=shares)

    def panels(self) -> Mapping[str, "Estimate"]:
        """What is drawn in a picture of its own: all of it."""
        return {"": self}

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Its values, by what they are."""
        return {self.question: ravelled(self.value)[0]}

    def _columns(self, level: float, most: int | None = None, *, top: bool = False) -> dict[str, Any]:
        """The rows of a table: all, or the largest in their order; of the `top` always the largest first."""
        value, stderr, low, high = ravelled(self.value, self.stderr, *self.interval(level, simultaneous=top))
        rows = np.arange(value.size)
        if top or (most is not None and most < value.size):
            rows = _largest(value, most, ordered=self.ordered and not top)
        labels = self.labels if self.labels is not None else self._places()
        items = {"item": [labels[int(row)] for row in rows]} if len(labels) else {}
        return items | {
            self.question: value[rows],
            "stderr": stderr[rows],
            f"low {100 * level:.6g}%": low[rows],
            f"high {100 * level:.6g}%": high[rows],
        }

    def _places(self) -> Sequence[Any]:
        """The numbers of the items; in a table, of row and column; none of a number of its own."""
        shape = np.shape(self.value)
        if len(shape) < 2:
            return range(np.size(self.value)) if shape else ()
        return [", ".join(map(str, at)) for at in np.ndindex(shape)]

    @property
    def item_names(self) -> Sequence[str]:
        """What each number is of: its label or its number; nothing for a number of its own."""
        if self.labels is not None:
            return self.labels
        return [str(place) for place in self._places()] if np.ndim(self.value) else [""]

    def explain(self) -> str:
        """In words: what was estimated, from what, how, and what was promised."""
        spread = np.atleast_1d(self.stderr)
        ends = [f"{end:.3g}" for end in (spread.min(), spread.max())] if spread.size else []
        size = " to ".join(dict.fromkeys(ends))
        lines = [
            f"The {self.question} of {spread.size:,} item{'s' * (spread.size != 1)}, from {self.n:,} reports.",
            f"Collected with {self.source}." if self.source else "",
            f"Privacy of each report: {self.guarantee}.",
            "Standard errors: none."
            if not spread.size or np.isnan(spread).all()
            else f"Standard errors: {size}. They cover the randomness of the reports, not how the users were found.",
            _POSTERIOR if self._posterior else "",
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


def _texts(columns: dict[str, Any]) -> TextTable:
    """A table to be read: items are names, not quantities."""
    return TextTable({name: list(map(str, column)) if name == "item" else column for name, column in columns.items()})


def _largest(value: NDArray[np.float64], most: int | None, *, ordered: bool = False) -> NDArray[np.intp]:
    """The places of the largest values, these first, or in their own order."""
    rows = np.argsort(-value, kind="stable")[:most]
    return np.sort(rows) if ordered else rows


refinements: Registry[Callable[..., Estimate]] = Registry("refinement", declared("dither.refine"))


@dataclass(frozen=True, eq=False)
class Estimates(Tabular, Mapping[Key, Part], Generic[Key, Part]):
    """Several results from the same reports: a mapping from each statistic or question to its result."""

    parts: Mapping[Key, Part]
    aliases: Mapping[Key, Key] = field(default_factory=dict)  # further names of parts

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the reports, which is the same for all parts."""
        return next(iter(self.parts.values())).guarantee

    def __getitem__(self, key: Key) -> Part:
        name = self.aliases.get(key, key)
        if name not in self.parts:
            raise UnknownError(f"there is no such result; there are {', '.join(map(str, list(self.parts)[:12]))}")
        return self.parts[name]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> dict[Key, Interval]:
        """For each part its intervals; if `simultaneous`, they hold for all numbers of all parts at once."""
        sizes = {key: np.size(part.value) for key, part in self.items()}
        total = sum(sizes.values())
        return {
            key: part.interval(
                simultaneous_level(level, sizes[key], total) if simultaneous else level, simultaneous=simultaneous
            )
            for key, part in self.items()
        }

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """The values of each part."""
        return {str(key): ravelled(part.value)[0] for key, part in self.items()}

    def table(self, level: float = 0.95) -> TextTable:
        """One row a number, with what was asked."""
        columns = self._columns(level)
        low, high = columns.pop("low"), columns.pop("high")
        return TextTable({**columns, f"low {100 * level:.6g}%": low, f"high {100 * level:.6g}%": high})

    def _columns(self, level: float) -> dict[str, Any]:
        """In long form, one row a number: question, item, value, stderr, low, high."""
        names = "value", "stderr", "low", "high"
        numbers: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
        questions, items = list[str](), list[str]()
        for key, part in self.items():
            columns = ravelled(part.value, part.stderr, *part.interval(level))
            for name, column in zip(names, columns, strict=True):
                numbers[name].append(column)
            questions += [str(key)] * len(columns[0])
            items += part.item_names
        return {
            "question": questions,
            "item": items,
            **{name: np.concatenate([np.zeros(0), *columns]) for name, columns in numbers.items()},
        }

    def plot(self, *, level: float = 0.95) -> "Figure":
        """A small picture of each result beside the others; the figure is returned."""
        drawn = [
            (f"{key}, {attribute}" if attribute else str(key), panel)
            for key, part in self.items()
            for attribute, panel in part.panels().items()
        ]
        return estimate_plots.small_multiples({name: _drawing(panel, level) for name, panel in drawn})

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


def _drawing(panel: Estimate, level: float) -> estimate_plots.Drawing:
    return lambda ax: panel.plot(ax, level)
