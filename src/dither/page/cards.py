"""A card for each question: what was asked, the answer with its error bars, how many reports it is from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.estimate import Estimate
from dither.display.markup import Markup, element, given, joined
from dither.display.significant_digits import number, percent, percent_size, plain_number, plus_minus, size, span
from dither.errors import ParameterError
from dither.page.export import LEVEL, names, rms
from dither.page.figures import (
    ErrorBars,
    bars,
    bars_and_whiskers,
    between,
    cumulative,
    distribution,
    domain,
    heat_map,
    scrolled_table,
    whiskers,
)
from dither.planning import Plan
from dither.planning.plan_estimates import PlanEstimates
from dither.questions.question import Question
from dither.ranges.axes import Axis
from dither.ranges.range_estimate import RangeEstimate, reports

Floats = NDArray[np.float64]

NOBODY = "Nobody was asked yet, so nothing is known."
_MOST_BARS, _MOST_KEYS, _MOST_PAIRS = 20, 15, 6
_MOST_FOUND = 100  # bars of a list whose items nobody knew beforehand
_FEW_VALUES = 12  # whole numbers up to so many are bars with a name each
_LISTED = 40  # pairs that are not drawn
_HEADINGS = {
    "means": "Means",
    "shares": "Shares of users",
    "words": "What nobody had listed",
    "tables": "Combinations",
    "keys": "Keys and their values",
    "ranges": "Several attributes together",
}
_TENTH = 0.004  # an error for which a share has one digit behind the point
_NONE_FOUND = "None stands out of the noise: with so many reports, at this epsilon, nobody could tell one."
_SEARCHED = (
    "The search looked at beginnings of growing length, each by the reports of other users, and went on from those "
    "that may be frequent:"
)
_AT_ONCE = " The largest of many are in part the luckiest, so these intervals are wider: 95% for all at once."


@dataclass(frozen=True)
class Cards:
    """The cards of all questions of a plan, in groups."""

    plan: Plan
    estimates: PlanEstimates
    truth: Mapping[str, Floats]

    @cached_property
    def anchors(self) -> dict[str, str]:
        """For each question the name of its place on the page."""
        return {question: f"question-{number}" for number, question in enumerate(self.estimates, 1)}

    @cached_property
    def _questions(self) -> dict[str, Question]:
        return {str(question): question for question in (*self.plan.questions, *self.plan.beside)}

    @cached_property
    def groups(self) -> list[tuple[str, str, dict[str, Markup]]]:
        """Headings, how their cards are set, and for each question its card."""
        ways = {
            "means": self._shares,
            "shares": self._shares,
            "words": self._found,
            "tables": self._tables,
            "keys": self._keys,
            "ranges": self._ranges,
        }
        found: dict[str, dict[str, Markup]] = {group: {} for group in ways}
        for question in map(self._questions.get, self.estimates):
            if question is not None and self._own_card(question):
                way = ways[question.group] if question.shape or question.answers_conditions else self._single
                found[question.group][str(question)] = way(question)
        return [(_HEADINGS[group], group, cards) for group, cards in found.items() if cards]

    def _own_card(self, question: Question) -> bool:
        """Not for what stands beside who has which key, nor for its parts at the lower and the upper end."""
        if question.group == "tables":
            return True
        return not question.derived or (question.averages and f"presence({question.name})" not in self.estimates)

    # One card ----------------------------------------------------------------------------------------------------

    def _card(self, question: Question, kind: str, n: int, body: Sequence[Any], notes: Sequence[str] = ()) -> Markup:
        asked = str(question)
        source = self.estimates[asked].source
        told = f" by {source}, from {reports(n)}" if source else f" from {reports(n)}"
        return element(
            "article",
            element("h4", element("span", kind, class_="kind"), given(question.name)),
            *(body if n else [element("p", NOBODY, class_="nobody")]),
            element("p", element("code", given(asked)), told, class_="source"),
            self._details(notes),
            id=self.anchors[asked],
            class_="card",
        )

    @staticmethod
    def _details(notes: Sequence[str]) -> Markup:
        if not notes:
            return Markup("")
        return element(
            "details",
            element("summary", "How it was estimated"),
            element("ul", joined(element("li", note) for note in notes)),
        )

    def _items(self, question: str, estimate: Estimate, most: int | None = None) -> ErrorBars:
        """With intervals for each number, or if only the `most` largest of more are shown, for all at once.

        Of many numbers the largest are in part the luckiest.
        """
        chosen = most is not None and np.size(estimate.value) > most
        low, high = estimate.interval(LEVEL, simultaneous=chosen)
        value, error = np.ravel(estimate.value), np.ravel(estimate.stderr)
        return ErrorBars(names(estimate), value, error, np.ravel(low), np.ravel(high), self.truth.get(question))

    @staticmethod
    def _refined(estimate: Estimate, *, share: bool) -> list[Markup]:
        """What it was before refining."""
        before = estimate.original
        if before is None or not np.isfinite(before.stderr).any():
            return []
        if np.ndim(estimate.value) == 0:
            told = f"Refined. Before: {plus_minus(float(before.value), float(before.stderr))}."
        else:
            was, now = ((percent_size if share else size)(rms(each.stderr)) for each in (before, estimate))
            told = f"Refined: the standard error is {now} on average" + (
                f", and was {was}." if was != now else ", as before."
            )
        return [element("p", told, class_="refined")]

    # Kinds of cards ----------------------------------------------------------------------------------------------

    def _single(self, question: Question) -> Markup:
        """One number, between the ends that it can have."""
        estimate = self.estimates.single(str(question))
        items = self._items(str(question), estimate)
        value, error, low, high = (float(part[0]) for part in (items.value, items.error, items.low, items.high))
        ends = question.ends if estimate.bounds is None else estimate.bounds[:2]
        told, within = (
            (number(value, error), span(low, high, error))
            if question.averages
            else (percent(value, error), f"{percent(low, error)} to {percent(high, error)}")
        )
        body = [
            element("p", told, class_="big"),
            element("p", f"95% interval: {within}"),
            *([between(items, 0, ends), domain(ends)] if np.isfinite(ends).all() else []),
            *self._refined(estimate, share=False),
        ]
        return self._card(question, question.title, estimate.n, body, estimate.notes)

    def _shares(self, question: Question) -> Markup:
        estimate = self.estimates.single(str(question))
        items = self._items(str(question), estimate, None if question.ordered else _MOST_BARS)
        axis = Axis(question.name, question.size, question.attribute)
        if not question.ordered:
            body = self._top(items, estimate)
        elif not axis.continuous and question.size <= _FEW_VALUES:
            body = [bars(items, range(question.size))]
        elif not estimate.n:
            body = []
        elif question.thresholds is not None:
            body = [cumulative(axis, question.thresholds, items)]
        else:
            body = [distribution(axis, items)]
        body += self._refined(estimate, share=not question.averages)
        return self._card(question, question.title, estimate.n, body, estimate.notes)

    def _found(self, question: Question) -> Markup:
        """A ranking whose items are part of the answer, and how deep they were looked for."""
        estimate = self.estimates.single(str(question))
        items = self._items(str(question), estimate)
        rows = range(min(len(items.value), _MOST_FOUND))
        body = [element("p", question.caption)] if question.caption else []
        body.append(bars(items, rows, ranked=True) if rows else element("p", _NONE_FOUND, class_="rest"))
        if len(items.value) > _MOST_FOUND:
            body.append(element("p", f"And {len(items.value) - _MOST_FOUND:,} more.", class_="rest"))
        searched = question.search_table(estimate)
        if searched is not None:
            table = scrolled_table("How deep the search went", list(searched.columns), searched.rows())
            body += [element("p", _SEARCHED), table]
        return self._card(question, question.title, estimate.n, body, estimate.notes)

    def _tables(self, question: Question) -> Markup:
        """The most frequent combinations, and of two attributes a map of all."""
        estimate = self.estimates.single(str(question))
        body = self._top(self._items(str(question), estimate, _MOST_BARS), estimate)
        attributes: dict[str, Any] = {name: self.plan.schema[name] for name in question.names}
        axes = [Axis(name, attribute.k or 0, attribute) for name, attribute in attributes.items()]
        if estimate.n and len(axes) == 2 and question.shape == tuple(axis.size for axis in axes):
            body.append(heat_map(axes[0], axes[1], estimate.value))
        body += self._refined(estimate, share=True)
        return self._card(question, question.title, estimate.n, body, estimate.notes)

    @staticmethod
    def _top(items: ErrorBars, estimate: Estimate) -> list[Markup]:
        """The largest shares; how many more there are, and what they have together."""
        rows = items.largest(_MOST_BARS)
        rest = len(items.value) - len(rows)
        found = [bars(items, rows)]
        if rest:
            together = float(np.sum(items.value) - np.sum(items.value[rows]))
            sensible = f", together {percent(together, _TENTH)}" if 0 <= together <= 1 else ""
            told = f"And {rest:,} more{sensible}.{_AT_ONCE}"
            found.append(element("p", told, class_="rest"))
        return found

    def _keys(self, question: Question) -> Markup:
        """Who holds which key, with the mean of those who do; or a mean of each key."""
        asked, ends = str(question), _ends(question)
        estimate = self.estimates.single(asked)
        items = self._items(asked, estimate, _MOST_KEYS)
        rows = items.largest(_MOST_KEYS)
        among = f"conditional_mean({question.name})"
        if not question.averages and among in self.estimates:
            means = self._items(among, self.estimates.single(among))
            low, high = map(plain_number, ends)
            told = f"Of each key the share of users who have it, and the mean of their values, from {low} to {high}."
            body = [element("p", told), bars_and_whiskers(items, means, rows, ends)]
        elif not question.averages:
            body = [bars(items, rows)]
        elif question.caption:
            rows = items.farthest(question.attribute.centre, _MOST_KEYS)
            told = question.caption
            told += " These keys are farthest from it." if len(rows) < len(items.value) else ""
            body = [element("p", told), whiskers(items, rows, ends), domain(ends)]
        else:
            body = [whiskers(items, rows, ends), domain(ends)]
        rest = len(items.value) - len(rows)
        if rest:
            body.append(element("p", f"And {rest:,} more keys.{_AT_ONCE}", class_="rest"))
        body += self._refined(estimate, share=not question.averages)
        return self._card(question, question.title, estimate.n, body, estimate.notes)

    # Ranges ------------------------------------------------------------------------------------------------------

    def _ranges(self, question: Question) -> Markup:
        estimate = self.estimates.ranges(*question.names)
        body = [self._marginals(estimate), *_pairs(estimate)] if estimate.n else []
        return self._card(question, question.title, estimate.n, body, estimate.notes)

    def _marginals(self, estimate: RangeEstimate) -> Markup:
        return element(
            "div", joined(self._marginal(axis, estimate[axis.name]) for axis in estimate.shown), class_="figures"
        )

    def _marginal(self, axis: Axis, estimate: Estimate) -> Markup:
        items = self._items("", estimate, _MOST_BARS if axis.labelled else None)
        caption = element("figcaption", given(axis.name))
        if axis.labelled:
            return element("figure", caption, *self._top(items, estimate))
        if not axis.continuous and axis.size <= _FEW_VALUES:
            return element("figure", caption, bars(items, range(axis.size)))
        return element("figure", caption, distribution(axis, items))


def _ends(question: Question) -> tuple[float, float]:
    """Of the values of a key."""
    return question.attribute.low, question.attribute.high


def _pairs(estimate: RangeEstimate) -> list[Markup]:
    """Heat maps of the pairs that depend on each other most; the others by name."""
    pairs = list(combinations(estimate.shown, 2))
    strengths = {pair: _strength(estimate, pair) for pair in pairs}
    known = [pair for pair in pairs if strengths[pair] is not None]
    if len(known) > _MOST_PAIRS:
        known = sorted(known, key=lambda pair: -(strengths[pair] or 0.0))[:_MOST_PAIRS]
    drawn = [heat_map(first, second, estimate.joint(first.name, second.name)) for first, second in known]
    found = [element("div", joined(drawn), class_="figures")] if drawn else []
    rest = [pair for pair in pairs if pair not in known]
    if rest:
        listed = joined((joined((given(a.name), " with ", given(b.name))) for a, b in rest[:_LISTED]), ", ")
        more = f" and {len(rest) - _LISTED:,} more" if len(rest) > _LISTED else ""
        why = "Drawn are the pairs that depend on each other most. Not drawn: " if drawn else "Too large to be drawn: "
        found.append(element("p", why, listed, more, ".", class_="rest"))
    return found


def _strength(estimate: RangeEstimate, pair: tuple[Axis, Axis]) -> float | None:
    """How much two attributes depend on each other; None if their table is too large. Tables are not kept."""
    try:
        return _dependence(estimate.joint(pair[0].name, pair[1].name))
    except ParameterError:
        return None


def _dependence(table: Floats) -> float:
    """The mutual information of two attributes: 0 if they are independent."""
    joint = np.maximum(table, 0.0)
    joint = joint / max(float(joint.sum()), 1e-300)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    some = joint > 0
    return float(np.sum(joint[some] * np.log(joint[some] / apart[some]))) if some.any() else -math.inf
