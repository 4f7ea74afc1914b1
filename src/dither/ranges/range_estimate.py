"""`RangeEstimate`: what can be asked of the reports of a method for range queries.

It is a mapping from each attribute to its marginal distribution, and it answers queries: `answer` and `answers` take
ranges, `where` takes the words of SQL, `marginal` gives the shares of one attribute or two, `quantile` what lies below,
`plot` draws, and `sample` makes records to be used with any tool.

As a result among others it is the list of all its marginals: `value` and `stderr`, `table` and `interval` have one
entry for each value of each attribute, in the order of the attributes. Of a continuous attribute tables and pictures
show at most 64 cells (`shown`), each the sum of finer ones; queries, quantiles and records use all of them.

An answer's `stderr` has two parts that it also states one by one: `noise`, from the randomness of the reports, and
`doubt`, an estimate of what was guessed (inside cells that a query cuts, and about three attributes or more at a time).

Nothing is worked out before it is asked for.
"""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dither.core.checks import checked_count
from dither.core.estimate import SHARES, Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.core.randomness import Stream
from dither.core.results import Interval, Tabular, ravelled, simultaneous_level
from dither.display.estimate_plots import new_axes, small_multiples
from dither.display.table import TextTable
from dither.errors import ParameterError, UnknownError
from dither.ranges.axes import Axes
from dither.ranges.item_names import CrossedTexts, QueryTexts, ValueTexts
from dither.ranges.queries import Queries, describe
from dither.ranges.query_model import Answered, Model, queries_about

if TYPE_CHECKING:
    from matplotlib import axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
ErrorBelow = Callable[[NDArray[np.int64]], Floats]  # by codes: of the share of users at or below each

_MOST_TABLE = 1 << 22  # entries of the table of a pair
_MOST_ASKED = 1 << 15  # entries of a table of more, each of which is a query
_SINGLY = SHARES._replace(total=None)  # the shares of queries do not add up to anything
_MOST_ROWS, _MOST_NAMED = 30, 3  # of what the model rests on, and of what it warns of
_HAIR = 1e-12  # of a share: what rounding does to a sum


@dataclass(frozen=True, eq=False, repr=False)
class Answers(Estimate):
    """The share of users inside each query. `stderr` is `noise` and `doubt` together.

    `iterations` and `converged` tell how the tables of three attributes or more were found. Intervals end at 0 and 1,
    beyond which no share is; the value of an unbiased method (`HIO`) may lie outside.
    """

    noise: Floats = field(kw_only=True)
    doubt: Floats = field(kw_only=True)
    iterations: NDArray[np.int64] = field(kw_only=True)
    converged: NDArray[np.bool_] = field(kw_only=True)

    def __repr__(self) -> str:
        if np.ndim(self.value) or self.labels is None:
            return super().__repr__()
        parts = f"noise {float(self.noise):.2g}, doubt {float(self.doubt):.2g}"
        return (
            f"Share of users with {self.labels[0]}: {float(self.value):.4g}\n"
            f"Standard error {float(self.stderr):.2g} ({parts}), from {reports(self.n)}; {self.guarantee}"
        )

    def _repr_html_(self) -> str:
        if np.ndim(self.value) or self.labels is None:
            return super()._repr_html_()
        return "".join(f"<p>{html.escape(line)}</p>" for line in repr(self).split("\n"))


@dataclass(frozen=True, eq=False, repr=False)
class RangeEstimate(Tabular, Mapping[str | int, Estimate]):
    """Answers to queries about any attributes, from one report of each user.

    >>> from dither.ranges import Copula
    >>> mechanism = Copula(shape=(64, 64), epsilon=1.0, n=20_000)
    >>> people = np.random.default_rng(1).integers(0, 64, (20_000, 2))
    >>> estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people, seed=1)))
    >>> answer = estimate.answer({0: (0, 31), 1: (16, None)})
    >>> abs(float(answer.value) - 0.375) < 4 * float(answer.stderr)
    True
    >>> estimate.sample(3, seed=1).shape
    (3, 2)
    """

    model: Model
    axes: Axes
    n: int
    guarantee: Guarantee
    source: str = ""
    notes: tuple[str, ...] = ()
    margins: Mapping[str | int, Estimate] = field(kw_only=True)  # of the model, made when they are asked for

    @classmethod
    def of(
        cls, model: Model, axes: Axes, n: int, guarantee: Guarantee, source: str = "", notes: tuple[str, ...] = ()
    ) -> "RangeEstimate":
        """The estimate of a model."""
        if tuple(axes.shape) != tuple(model.shape):
            raise ParameterError("these attributes have other numbers of values than those that were collected")
        margins = _Margins(model, axes, n, guarantee, source, notes)
        return cls(model, axes, n, guarantee, source, notes, margins=margins)

    def on(self, axes: Axes) -> "RangeEstimate":
        """The same estimate with the names and units of these attributes."""
        return RangeEstimate.of(self.model, axes, self.n, self.guarantee, self.source, self.notes)

    def condensed(self) -> "RangeEstimate":
        """The same estimate, with no more cells of a continuous attribute than its model tells apart: answers stay."""
        model = self.model.condensed([axis.continuous for axis in self.axes])
        return replace(self, model=model).on(self.axes.cut_into(model.shape))

    @cached_property
    def shown(self) -> Axes:
        """The attributes as tables and pictures show them."""
        return self.axes.shown

    def completed(self, by: str) -> "RangeEstimate":
        """The same estimate, with another way to put pairs together to answers about three attributes or more.

        `"copula"`: of all tables with these pairs, the one nearest to a normal copula; `"entropy"`: the one of largest
        entropy (004 appendix A.8); `"weighted update"`: Algorithm 2 of 004.
        """
        return replace(self, model=self.model.completed(by))

    def __getitem__(self, key: str | int) -> Estimate:
        """The marginal of an attribute, by its name or its number."""
        try:
            place = self.axes.index(key)
        except ParameterError as error:
            reason = str(error)
        else:
            return self.margins[self.axes.key(place)]
        raise UnknownError(reason)

    def __iter__(self) -> Iterator[str | int]:
        return iter(self.margins)

    def __len__(self) -> int:
        return len(self.margins)

    # As a result among others ----------------------------------------------------------------------------------

    def panels(self) -> Mapping[str, Estimate]:
        """The marginal of each attribute, by its name."""
        return {axis.name: self[axis.name] for axis in self.axes}

    @property
    def value(self) -> Floats:
        """The shares of all values of the first attribute, then of the second, and so on."""
        return np.concatenate([margin.value for margin in self.values()])

    @property
    def stderr(self) -> Floats:
        """Their standard errors."""
        return np.concatenate([margin.stderr for margin in self.values()])

    @property
    def item_names(self) -> Sequence[str]:
        """Which value of which attribute each share is of."""
        return [f"{axis.name}: {name}" for axis in self.axes for name in self[axis.name].item_names]

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Normal intervals of all shares of all attributes: of each, or of all at once if `simultaneous`."""
        total = sum(self.shown.shape)
        ends = [
            margin.interval(
                simultaneous_level(level, margin.value.size, total) if simultaneous else level,
                simultaneous=simultaneous,
            )
            for margin in self.values()
        ]
        return Interval(*map(np.concatenate, zip(*ends, strict=True)))

    def table(self, level: float = 0.95) -> TextTable:
        """One row for each value of each attribute, or for each of at most 64 cells of a continuous one."""
        columns = self._columns(level)
        return TextTable({**columns, "item": list(map(str, columns["item"]))})

    def _columns(self, level: float) -> dict[str, Any]:
        sized = zip(self.shown.names, self.shown.shape, strict=True)
        value, stderr, low, high = ravelled(self.value, self.stderr, *self.interval(level))
        return {
            "attribute": [name for name, size in sized for _ in range(size)],
            "item": [name for axis in self.axes for name in self[axis.name].item_names],
            "share": value,
            "stderr": stderr,
            f"low {100 * level:.6g}%": low,
            f"high {100 * level:.6g}%": high,
        }

    # Queries ---------------------------------------------------------------------------------------------------

    def answer(self, query: Mapping[Any, Any], given: Mapping[Any, Any] | None = None) -> Answers:
        """The share of users inside all the ranges of a query.

        `{0: (8, 39), "job": ["nurse", "driver"], 3: (None, 31)}`: both ends are inside, None is an open end, a list is
        a set of values. With another query as `given`, about other attributes, it is the share among users inside that
        one. How the errors of the two go together is not known, so they are taken to add up.
        """
        if given is None:
            found = self.answers([query])
            names = "value", "stderr", "noise", "doubt", "iterations", "converged"
            return replace(found, **{name: getattr(found, name)[0] for name in names})
        self._refuse_common(query, given)
        both, condition = self.answer({**given, **query}), self.answer(given)
        among = self._among(condition)
        share = float(both.value) / among
        noise, doubt = (
            (float(getattr(both, part)) + abs(share) * float(getattr(condition, part))) / among
            for part in ("noise", "doubt")
        )
        texts = [describe(self.axes, each) for each in (query, given)]
        return replace(
            both,
            value=np.asarray(share),
            stderr=np.asarray(np.hypot(noise, doubt)),
            labels=[" given ".join(texts)],
            noise=np.asarray(noise),
            doubt=np.asarray(doubt),
        )

    def _refuse_common(self, query: Mapping[Any, Any], given: Mapping[Any, Any]) -> None:
        common = {self.axes.index(key) for key in query} & {self.axes.index(key) for key in given}
        if common:
            raise ParameterError(
                f"attribute {self.axes[min(common)].name} is in the query and in what is given: name it in one of them"
            )

    @staticmethod
    def _among(condition: Answers) -> float:
        if not float(condition.value) > float(condition.stderr):
            raise ParameterError("hardly any users are inside what is given, as far as the reports tell: widen it")
        return float(condition.value)

    def answers(self, queries: Sequence[Mapping[Any, Any]] | Queries) -> Answers:
        """The answers of many queries, in one go."""
        asked = queries if isinstance(queries, Queries) else Queries.of(self.axes, queries)
        if asked.shape != self.axes.shape:
            raise ParameterError("these queries are about attributes with other numbers of values")
        found = self.model.answered(asked)
        return Answers(
            found.value,
            found.stderr,
            self.n,
            self.guarantee,
            "share",
            QueryTexts(self.axes, asked),
            self.source,
            (*self.notes, *self._warnings(), *_about(found)),
            _SINGLY,
            noise=found.noise,
            doubt=found.doubt,
            iterations=found.iterations,
            converged=found.converged,
        )

    def where(self, text: str) -> Answers:
        """The share of users for whom a condition holds, as in `where("age between 20 and 40 and job = 'nurse'")`."""
        from dither.ranges.where import parse

        return self.answer(parse(self.axes, text))

    # Tables ----------------------------------------------------------------------------------------------------

    def marginal(self, *attributes: str | int) -> Estimate:
        """The shares of all values of one attribute, or the table of several: an axis for each of them.

        Of a continuous attribute, of at most 64 cells.
        """
        places = [self.axes.index(each) for each in attributes]
        if len(places) == 1:
            return self[places[0]]
        if not places or len(set(places)) < len(places):
            raise ParameterError("marginal takes one attribute, or several different ones")
        labels: Sequence[str] = ValueTexts(self.shown[places[0]])
        for place in places[1:]:
            labels = CrossedTexts(labels, ValueTexts(self.shown[place]))
        if len(places) == 2:
            self._refuse_large(*places)
            value, (_, stderr) = self.joint(*places), self.model.points(places, _merged(self.axes, places))
        else:
            if len(labels) > _MOST_ASKED:
                raise ParameterError(
                    f"this table has {len(labels):,} entries, more than {_MOST_ASKED:,}: ask for ranges with answers()"
                )
            value, stderr = self.model.points(places, _merged(self.axes, places))
        return Estimate(value, stderr, self.n, self.guarantee, "share", labels, self.source, self.notes, SHARES)

    def joint(self, first: str | int, second: str | int) -> Floats:
        """The joint distribution of two attributes: the shares of all pairs of values, a row for each of the first.

        Of a continuous attribute, of at most 64 cells. Without error bars: `marginal` has them.
        """
        j, k = self.axes.index(first), self.axes.index(second)
        if j == k:
            raise ParameterError("a joint distribution is of two different attributes")
        self._refuse_large(j, k)
        table, merged = self.model.table(j, k), _merged(self.axes, (j, k))
        table = merged[j] @ table if j in merged else table
        return table @ merged[k].T if k in merged else table

    def _refuse_large(self, j: int, k: int) -> None:
        size = self.axes.shape[j] * self.axes.shape[k]
        if size > _MOST_TABLE:
            raise ParameterError(f"this table has {size:,} entries: ask for ranges with answers() instead")

    def quantile(self, attribute: str | int, q: ArrayLike, given: Mapping[Any, Any] | None = None) -> Estimate:
        """The least value with at least a share q of users at or below it, in the attribute's own units.

        With a query about other attributes as `given`, of the users inside it.

        Inside a cell of a continuous attribute users are taken to be spread evenly. The standard error is half the
        distance of the quantiles one standard error of the share below and above q (Woodruff 1952), where users with
        the same whole number are spread evenly around it: with many of them it is below one.
        """
        j = self.axes.index(attribute)
        axis = self.axes[j]
        if axis.labelled:
            raise ParameterError(f"{axis.name}: labels have no order, so there are no quantiles")
        try:
            shares = np.asarray(q, dtype=np.float64)
        except (TypeError, ValueError):
            shares = np.full((1,), np.nan)
        if shares.ndim > 1 or not ((shares >= 0) & (shares <= 1)).all():
            raise ParameterError("a quantile is asked for a share from 0 to 1, for example 0.5 for the median")
        if given is None:
            below, errors = self._below(j), lambda places: self._error_below(j, places)
        else:
            self._refuse_common({attribute: None}, given)
            below, errors = self._below_given(j, given)
        asked = shares.reshape(-1)
        place, within, error = self._crossing(j, below, asked, errors)
        ends = [self._crossing(j, below, np.clip(asked + sign * error, 0, 1), errors) for sign in (-1, 1)]
        low, high = ((at + part) for at, part, _ in ends)
        first, last = (float(end) for end in axis.ends)
        unit = (last - first) / axis.size
        within = within if axis.continuous else np.zeros_like(within)
        value, stderr = first + unit * (place + within), unit * (high - low) / 2
        return Estimate(
            value.reshape(shares.shape),
            stderr.reshape(shares.shape),
            self.n,
            self.guarantee,
            f"quantile of {axis.name}",
            [f"{share:g}" for share in asked.tolist()],
            self.source,
            self.notes,
            Bounds(first, last if axis.continuous else last - 1),
            ordered=True,
        )

    def _below(self, j: int) -> Floats:
        """The share of users below each code, and last of all."""
        shares = self[j].value if self.shown[j].size == self.axes[j].size else self.model.marginal(j)[0]
        below = np.concatenate([[0.0], np.maximum.accumulate(np.cumsum(shares))])
        below[-1] = 1.0
        return below

    def _below_given(self, j: int, given: Mapping[Any, Any]) -> tuple[Floats, "ErrorBelow"]:
        """The share of users below each code among those inside a query; and how far off it is at each."""
        condition, asked = self.answer(given), Queries.of(self.axes, [given])
        among, size = self._among(condition), self.axes.shape[j]
        values = {place: np.repeat(asked.masks[place], size, axis=0) for place in asked.attributes[0]}
        found = self.model.answered(queries_about(self.axes.shape, {**values, j: np.tri(size)}))
        below = np.concatenate([[0.0], np.clip(np.maximum.accumulate(found.value / among), 0.0, 1.0)])
        below[-1] = 1.0
        errors = np.append((found.stderr[:-1] + below[1:-1] * float(condition.stderr)) / among, [0.0, 0.0])
        return below, lambda places: errors[places]  # of all users nothing is open, and of none

    def _crossing(
        self, j: int, below: Floats, shares: Floats, errors: "ErrorBelow"
    ) -> tuple[NDArray[np.int64], Floats, Floats]:
        """The code at which each share is reached; how far in; and the standard error of the share."""
        high = np.minimum(np.searchsorted(below[1:], shares - _HAIR), self.axes.shape[j] - 1)
        before, share = below[high], below[high + 1] - below[high]
        within = np.divide(shares - before, share, out=np.full(len(shares), 0.5), where=share > 0)
        return high, np.clip(within, 0.0, 1.0), np.maximum(errors(high - 1), errors(high))

    def _error_below(self, j: int, places: NDArray[np.int64]) -> Floats:
        """The standard error of the share of users at or below each code."""
        below = np.arange(self.axes.shape[j]) <= places[:, None]
        found = self.model.answered(queries_about(self.axes.shape, {j: below}))
        outside = (places < 0) | (places >= self.axes.shape[j] - 1)
        return np.where(outside, 0.0, found.stderr)

    # Records and pictures ---------------------------------------------------------------------------------------

    # Any: an array or a mapping, as the attributes have names or not, which who asks knows and a type does not.
    def sample(self, n: int, *, seed: int | None = None) -> Any:
        """n synthetic records of the fitted model: of no user, and as private as the reports were.

        One row a record, in codes from 0; with attributes of a schema a mapping from name to column, in their units,
        as `pandas.DataFrame` takes it. Numbers are spread evenly inside the cells of a continuous attribute.
        """
        drawn = self.model.records(checked_count("n", n, 0), seed)
        if not self.axes.named:
            return drawn
        from dither.ranges.synthetic_records import fractions

        stream = Stream.secure() if seed is None else Stream.seeded(seed, "inside cells")
        columns = {}
        for j, axis in enumerate(self.axes):
            codes: NDArray = drawn[:, j]
            if axis.continuous:
                codes = codes + fractions(stream, j, slice(0, len(codes)))[:, 0]
            columns[axis.name] = axis.decode(codes)
        return columns

    @overload
    def plot(self, *, level: float = 0.95) -> "Figure": ...
    @overload
    def plot(
        self, first: str | int, /, *second: str | int, ax: "axes.Axes | None" = None, level: float = 0.95
    ) -> "axes.Axes": ...
    def plot(self, *attributes: str | int, ax: "axes.Axes | None" = None, level: float = 0.95) -> "axes.Axes | Figure":
        """The distribution of one attribute with its band, or the heat map of two; on `ax`, or on new axes.

        Without attributes, a small picture of each beside the others: then the figure is returned, else the axes.
        """
        from dither.display.distribution_plots import draw_heat_map, draw_marginal

        if not attributes and ax is None:
            return small_multiples({axis.name: self._drawing(axis.name, level) for axis in self.axes})
        if len(attributes) not in (1, 2):
            raise ParameterError("plot takes one attribute or two; without any it draws all, and on axes of its own")
        places = [self.axes.index(each) for each in attributes]
        first, last = self.shown[places[0]].side, self.shown[places[-1]].side
        ax = new_axes() if ax is None else ax
        if len(places) == 2:
            return draw_heat_map(ax, first, last, self.joint(*places))
        marginal = self[places[0]]
        title = f"from {marginal.n:,} reports, with {100 * level:.6g}% intervals"
        low, high = marginal.interval(level)
        return draw_marginal(ax, first, marginal.value, low, high, title)

    def _drawing(self, name: str, level: float) -> "Callable[[axes.Axes], axes.Axes]":
        return lambda ax: self.plot(name, ax=ax, level=level)

    # In words ---------------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """What was collected, how, and what can be asked."""
        lines = [
            f"Range queries about {len(self.axes)} attribute{'s' * (len(self.axes) > 1)}, from {reports(self.n)}.",
            f"Collected with {self.source}." if self.source else "",
            f"Privacy of each report: {self.guarantee}.",
            "Ask with answer({attribute: (low, high)}), where('...'), marginal, quantile, sample, plot.",
            "Standard errors: the randomness of the reports (noise), and an estimate of what was guessed inside cells "
            "and about three attributes or more at a time (doubt).",
            *self.notes,
            *self._warnings(),
            *(f"  {self._together(places)}: {text}" for places, text in list(self.model.basis().items())[:_MOST_ROWS]),
        ]
        return "\n".join(line for line in lines if line)

    def _warnings(self) -> list[str]:
        """What the model warns of, with the names of attributes."""
        found = []
        for text, places in self.model.doubts().items():
            more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
            if places:
                found.append(f"Warning: {text} ({'; '.join(map(self._together, places[:_MOST_NAMED]))}{more}).")
        return found

    def _together(self, places: Sequence[int]) -> str:
        return " and ".join(self.axes.names[place] for place in places)

    def __repr__(self) -> str:
        rows = [f"  {axis.name}: {axis.summary}" for axis in self.shown]
        shown = rows[:10] + [f"  ... and {len(rows) - 10} more"] * (len(rows) > 10)
        return "\n".join([f"RangeEstimate from {reports(self.n)}; {self.guarantee}", *shown])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


@dataclass(frozen=True, eq=False)
class _Margins(Mapping[str | int, Estimate]):
    """The marginals, each made when it is first asked for."""

    model: Model
    axes: Axes
    n: int
    guarantee: Guarantee
    source: str
    notes: tuple[str, ...]
    made: dict[str | int, Estimate] = field(default_factory=dict)

    def __getitem__(self, key: str | int) -> Estimate:
        if key not in self.made:
            if key not in list(self):
                raise KeyError(key)
            j = self.axes.index(key)
            axis, merged = self.axes[j].shown, _merged(self.axes, (j,))
            value, stderr = self.model.points([j], merged) if merged else self.model.marginal(j)
            self.made[key] = Estimate(
                value,
                stderr,
                self.n,
                self.guarantee,
                "share",
                ValueTexts(axis),
                self.source,
                self.notes,
                SHARES,
                edges=None if axis.labelled else axis.edges,
            )
        return self.made[key]

    def __iter__(self) -> Iterator[str | int]:
        return map(self.axes.key, range(len(self.axes)))

    def __len__(self) -> int:
        return len(self.axes)


def _merged(axes: Axes, places: Sequence[int]) -> dict[int, Floats]:
    """For those of these attributes that are shown in fewer cells which share of each cell lies in each of these."""
    shown = {j: axes[j].shown for j in places}
    return {j: axes[j].covered_by(axis) for j, axis in shown.items() if axis.size < axes[j].size}


# Words -----------------------------------------------------------------------------------------------------------


def reports(n: int) -> str:
    """So many reports, in words."""
    return f"{n:,} report{'s' * (n != 1)}"


def _about(found: Answered) -> tuple[str, ...]:
    unsettled = int((~found.converged).sum())
    rounds = int(found.iterations.max(initial=0))
    if unsettled:
        return (f"{unsettled} answers had not settled after {rounds:,} rounds: their pairs contradict each other.",)
    return (f"The tables of more than two attributes settled within {rounds:,} rounds.",) if rounds else ()
