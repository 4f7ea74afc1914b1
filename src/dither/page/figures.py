"""Pictures with their words: rows of bars, numbers between the ends of their domain, steps, heat maps.

Each is made of a drawing (`svg`) and of text that the browser sets. Nothing here knows where numbers come from.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.display.markup import Markup, element, given, joined
from dither.display.significant_digits import UNKNOWN, number, percent, plain_number, span
from dither.display.svg import at, bar, curve, field, picture, steps, ticks, truth_curve, truth_steps, whisker
from dither.ranges.axes import Axis

Floats = NDArray[np.float64]
Words = list[tuple[float, str]]  # along a side, each with its place from 0 to 1

_MOST_LABELS = 20  # along a side of a heat map
_MOST_CELLS = 256
_UNEVEN = 20  # the largest share over the mean: from here on few cells would take all colours
_SHORT = 24  # letters of a label beside a picture
_LETTERS, _FEW_LETTERS = 30, 20  # that fit under a plot and under a heat map, on a phone


@dataclass(frozen=True)
class ErrorBars:
    """Numbers with error bars, one a label; `truth` where it is known."""

    names: Sequence[str]
    value: Floats
    error: Floats
    low: Floats
    high: Floats
    truth: Floats | None = None

    def true(self, row: int) -> float | None:
        """The truth of one of them, if it is known."""
        return None if self.truth is None else float(self.truth[row])

    def written(self, row: int, *, share: bool) -> Markup:
        """A number and its interval."""
        written = percent if share else number
        value, error, low, high = (float(part[row]) for part in (self.value, self.error, self.low, self.high))
        told, ends = written(value, error), span(low, high, error, share=share)
        if UNKNOWN in (told, ends):
            return element("span", UNKNOWN, class_="figure faint")
        return element("span", element("b", told), " ", element("small", ends), class_="figure")

    def largest(self, most: int | None = None) -> list[int]:
        """The rows from the largest value down; those that are not known last."""
        order = np.argsort(-np.nan_to_num(self.value, nan=-np.inf), kind="stable")
        return order[:most].tolist()

    def farthest(self, middle: float, most: int) -> list[int]:
        """The rows whose values are farthest from the middle, the largest value first."""
        distance = np.nan_to_num(np.abs(self.value - middle), nan=-np.inf)
        chosen = np.argsort(-distance, kind="stable")[:most]
        return chosen[np.argsort(-self.value[chosen], kind="stable")].tolist()


def bars(items: ErrorBars, rows: Sequence[int], *, ranked: bool = False, whole: bool = False) -> Markup:
    """Shares, one a line; with the number of each, if they are `ranked`; of the `whole`, or of the largest of them."""
    shown = np.array(rows, dtype=np.intp)
    ends = [items.high[shown], items.value[shown], *([] if items.truth is None else [items.truth[shown]])]
    most = 1.0 if whole else min(1.0, _largest(np.concatenate(ends)))
    return _lines(
        (
            element("span", f"{place}. " if ranked else "", given(items.names[row]), class_="label"),
            items.written(row, share=True),
            bar(float(items.value[row]), float(items.low[row]), float(items.high[row]), most, items.true(row)),
        )
        for place, row in enumerate(rows, 1)
    )


def whiskers(items: ErrorBars, rows: Sequence[int], ends: tuple[float, float]) -> Markup:
    """Numbers in their domain, one a line."""
    return _lines(
        (
            element("span", given(items.names[row]), class_="label"),
            items.written(row, share=False),
            between(items, row, ends),
        )
        for row in rows
    )


def bars_and_whiskers(shares: ErrorBars, means: ErrorBars, rows: Sequence[int], ends: tuple[float, float]) -> Markup:
    """For each key how many hold it, and beside that a mean of those who do."""
    most = min(1.0, _largest(shares.high[np.array(rows, dtype=np.intp)]))
    return _lines(
        (
            element("span", given(shares.names[row]), class_="label"),
            shares.written(row, share=True),
            bar(float(shares.value[row]), float(shares.low[row]), float(shares.high[row]), most, shares.true(row)),
            element("span", "mean of those", class_="label faint"),
            means.written(row, share=False),
            between(means, row, ends),
        )
        for row in rows
    )


def between(items: ErrorBars, row: int, ends: tuple[float, float]) -> Markup:
    """One number with its interval between the ends of its domain."""
    value, low, high = (float(part[row]) for part in (items.value, items.low, items.high))
    return whisker(value, low, high, *ends, items.true(row))


def domain(ends: tuple[float, float]) -> Markup:
    """The ends of a domain, to be set under a drawing."""
    return element("p", *(element("span", plain_number(end)) for end in ends), class_="ends")


def scrolled_table(
    name: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], texts: Iterable[int] = (0,)
) -> Markup:
    """A table that scrolls inside itself; `texts` are the columns that hold no numbers."""
    words = set(texts)
    kinds = [None if place in words else "right" for place in range(len(heads))]
    head = (element("th", text, scope="col", class_=kind) for text, kind in zip(heads, kinds, strict=True))
    lines = (
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    )
    table = element("table", element("thead", element("tr", *head)), element("tbody", *lines))
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=name)


def _lines(rows: Any) -> Markup:
    return element("ul", joined(element("li", *row) for row in rows), class_="lines")


def _largest(numbers: Floats) -> float:
    known = numbers[np.isfinite(numbers)]
    return float(known.max()) if known.size and known.max() > 0 else 1.0


# Distributions -----------------------------------------------------------------------------------------------------


def distribution(axis: Axis, items: ErrorBars) -> Markup:
    """The shares of the values of a number: steps with a band, over an axis in its own units.

    Very many values are drawn in groups: their mean share, and a band that holds all their intervals.
    """
    starts = _groups(axis.size)
    edges = np.append(axis.edges[starts], axis.edges[-1])
    sizes = np.diff(np.append(starts, axis.size))
    value = np.add.reduceat(items.value, starts) / sizes
    low = np.minimum.reduceat(np.clip(items.low, 0.0, 1.0), starts)
    high = np.maximum.reduceat(np.clip(items.high, 0.0, 1.0), starts)
    true = np.zeros(0) if items.truth is None else np.add.reduceat(items.truth, starts) / sizes
    top = _largest(np.concatenate([value, high, true]))
    heights = ticks(0.0, top, 4)
    peak = int(np.argmax(items.value))
    largest = percent(float(items.value[peak]), float(items.error[peak]))
    told = (
        f"The share of users at each value of {axis.name}, with 95% intervals, from {items.names[0]} to "
        f"{items.names[-1]}. The largest is {largest} at {items.names[peak]}."
    )
    shapes = steps(edges, value, low, high, top, heights)
    if true.size:
        shapes.append(truth_steps(edges, true, top))
    grid = [(height / top, percent(height)) for height in heights]
    return _placed(field(shapes, told), _number_ticks(axis, edges), grid, "plot")


def cumulative(axis: Axis, thresholds: Floats, items: ErrorBars) -> Markup:
    """The shares of users below thresholds of a number: a curve with a band, over an axis in its own units."""
    ends = float(axis.edges[0]), float(axis.edges[-1])
    value, low, high = (np.clip(np.nan_to_num(each), 0.0, 1.0) for each in (items.value, items.low, items.high))
    half = int(np.argmin(np.abs(value - 0.5)))
    told = (
        f"The share of users below values of {axis.name}, with 95% intervals. Nearest to a half is "
        f"{percent(float(items.value[half]), float(items.error[half]))}: {items.names[half]}."
    )
    heights = ticks(0.0, 1.0, 6)
    shapes = curve(thresholds, ends, value, low, high, heights)
    if items.truth is not None:
        shapes.append(truth_curve(thresholds, ends, items.truth))
    grid = [(height, percent(height)) for height in heights]
    return _placed(field(shapes, told), _number_ticks(axis, axis.edges), grid, "plot")


def counts_over_time(counts: Sequence[int], words: Words, told: str) -> Markup:
    """How many came in each of some spans of time of one length, as steps; `words` stand under them."""
    value = np.asarray(counts, dtype=np.float64)
    top = _largest(value)
    heights = ticks(0.0, top, 4, 1.0)
    shapes = steps(np.arange(len(value) + 1.0), value, np.zeros_like(value), value, top, heights)
    grid = [(height / top, f"{height:,.0f}") for height in heights]
    return _placed(field(shapes, told), words, grid, "plot")


def _number_ticks(axis: Axis, edges: Floats, letters: int = _LETTERS) -> Words:
    """Round numbers along an axis, as many as there is room for."""
    first, last = float(edges[0]), float(edges[-1])
    for most in (6, 5, 4, 3, 2):
        chosen = ticks(first, last, most, 0.0 if axis.continuous else 1.0)
        words = [plain_number(tick) for tick in chosen]
        if len(words) > 1 and sum(map(len, words)) + len(words) <= letters:
            return [((tick - first) / (last - first), word) for tick, word in zip(chosen, words, strict=True)]
    return [
        (0.0, plain_number(axis.units(0))),
        (1.0, plain_number(axis.units(axis.size if axis.continuous else axis.size - 1))),
    ]


def _placed(drawn: Markup, x: Words, y: Words, kind: str, **style: str) -> Markup:
    """A drawing with the words along its sides."""
    across = (element("span", word, class_="x", style=f"left:{at(place, 0, 1)}") for place, word in x)
    up = (element("span", word, class_="y", style=f"bottom:{at(place, 0, 1)}") for place, word in y)
    return element("div", drawn, joined(across), joined(up), class_=kind, **style)


# Heat maps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeatSide:
    """What the cells along a side of a heat map are: labels, or numbers between edges; from the left or from below.

    Labels beside the picture are read from the top.
    """

    name: str
    labels: tuple[str, ...] | None
    edges: tuple[float, ...]
    whole: bool


def heat_sides(first: Axis, second: Axis, table: Floats) -> tuple[HeatSide, HeatSide]:
    """What the cells of `heat_map` of the same arguments stand for: across, and up or down."""
    first, second, table = _turned(first, second, table)
    shares = np.maximum(np.nan_to_num(table), 0.0)
    return _heat_side(first, shares, 0), _heat_side(second, shares, 1)


def _heat_side(axis: Axis, table: Floats, side: int) -> HeatSide:
    names = axis.side.labels
    if names is not None:
        return HeatSide(axis.name, tuple(names[place] for place in _kept_labels(axis, table, side)), (), False)
    edges = np.append(axis.edges[_groups(axis.size)], axis.edges[-1]) if axis.size > _MOST_CELLS else axis.edges
    return HeatSide(axis.name, None, tuple(edges.tolist()), axis.whole)


def _turned(first: Axis, second: Axis, table: Floats) -> tuple[Axis, Axis, Floats]:
    """Labels stand at the side, where there is room for them."""
    return (second, first, table.T) if first.labelled and not second.labelled else (first, second, table)


def heat_map(first: Axis, second: Axis, table: Floats) -> Markup:
    """The table of two attributes as a picture; labels stand at the side, where there is room for them."""
    first, second, table = _turned(first, second, table)
    shares = np.maximum(np.nan_to_num(table), 0.0)
    across, shares = _side(first, shares, 0)
    up, shares = _side(second, shares, 1)
    most, rare = float(shares.max()), float(shares.max()) > _UNEVEN * float(shares.mean())
    rows = shares.T if second.labelled else shares.T[::-1]  # labels are read from the top, numbers grow upwards
    direction = "down" if second.labelled else "upwards"
    told = f"Heat map of {first.name} (across) and {second.name} ({direction}): the share of users in each cell."
    height, width = rows.shape
    image = element("img", src=picture(rows, most, 0.5 if rare else 1.0), alt=told, width=width, height=height)
    kind = "heat" + " named" * second.labelled + " names" * first.labelled
    style = {"style": f"height:{max(6.0, 1.5 * height):g}rem"} if second.labelled else {}
    names = given(first.name, _SHORT), " across, ", given(second.name, _SHORT), f" {direction}"
    return element(
        "figure",
        element("figcaption", *names),
        _placed(image, across, up, kind, **style),
        _legend(most, rare, [axis for axis in (first, second) if axis.labelled and axis.size > _MOST_LABELS]),
    )


def _legend(most: float, rare: bool, cut: Sequence[Axis]) -> Markup:
    """What the colours of a heat map mean, and which labels it shows."""
    colours = picture(np.linspace(0.0, 1.0, 128)[None, :], 1.0)
    notes = [f"{percent(most, most / 10)} of users in a cell"]
    notes += ["colours grow with the square root of the share"] * rare
    notes += [f"of {axis.name} the {_MOST_LABELS} largest of {axis.size:,}" for axis in cut]
    scale = element("img", src=colours, alt="", class_="scale", width=128, height=1)
    return element("p", "0 ", scale, " ", "; ".join(notes), class_="legend")


def _side(axis: Axis, table: Floats, side: int) -> tuple[Words, Floats]:
    """The words along a side of a heat map, and the table with no more cells than it can show."""
    names = axis.side.labels
    if names is not None:
        kept = _kept_labels(axis, table, side)
        labels = [given(names[place], _SHORT) for place in kept]
        places = (np.arange(len(labels)) + 0.5) / len(labels)
        return list(zip((1 - places if side else places).tolist(), labels, strict=True)), table.take(kept, axis=side)
    if axis.size > _MOST_CELLS:
        table = np.add.reduceat(table, _groups(axis.size), axis=side)
    return _number_ticks(axis, axis.edges, _LETTERS if side else _FEW_LETTERS), table


def _kept_labels(axis: Axis, table: Floats, side: int) -> list[int]:
    """The labels along a side: all, or the largest of very many."""
    if axis.size <= _MOST_LABELS:
        return list(range(axis.size))
    return np.argsort(-table.sum(axis=1 - side), kind="stable")[:_MOST_LABELS].tolist()


def _groups(size: int) -> NDArray[np.int64]:
    """Where groups of values begin, where there are too many to be seen one by one."""
    return np.arange(0, size, math.ceil(size / _MOST_CELLS))
