"""What a page shows of a collection while it runs: the sections of the report, and those that only a running one has.

Estimates are drawn by the code that draws the report (`cards`, `figures`, `html_page`), so a number looks the same
while it is collected and when it is done. Each function gives a piece of HTML that stands by itself; whoever serves
them puts them into the frame of `live_frames`.

**Styles without exceptions.** Drawings place their words by style attributes, which a strict content security policy
forbids, since it cannot tell them from an attacker's. `strict` renames them; the script of the page sets what they say
through the document's own interface, which the policy allows. No text can hold such an attribute: `markup` escapes
quotes.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dither.core.exact import upward
from dither.core.guarantee import Guarantee
from dither.display.markup import Markup, element, given, joined
from dither.display.significant_digits import percent_size, size
from dither.page.cards import Cards
from dither.page.export import checked, first_half, people
from dither.page.figures import ErrorBars, bars, counts_over_time, heat_map, heat_sides, scrolled_table
from dither.page.html_page import (
    NOT_HONEST,
    WHY_LEFT_OUT,
    group_section,
    limits_section,
    plan_section,
    results_section,
    warning,
)
from dither.page.live_outlook import HALF_WIDTH, outlook_section, outlooks
from dither.planning import Plan
from dither.planning.plan_estimates import PlanEstimates
from dither.planning.trial import Trial
from dither.privacy.promise import best_guess, promise_in_words
from dither.ranges.queries import describe
from dither.ranges.range_estimate import RangeEstimate
from dither.utility.goodness import Goodness
from dither.utility.influence import percentage

_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440, 10080, 43200, 525600)  # minutes of a span of time
_MOST_SPANS = 120
_LEAST_SPANS = 12  # so that the first minutes of a collection are not one block
_LIARS = 0.01
_WHY = {
    **WHY_LEFT_OUT,
    "unknown key": "it was sealed to a key that the collector does not have",
    "expired key": "it was sealed to a key whose time is over",
    "not opened": "it was sealed, and what was in it had been changed on the way",
    "mislabelled": "what stands outside of the seal is not what is inside",
}


class Shuffled(NamedTuple):
    """What a shuffler has forwarded, and what that promises; None where no bound is known."""

    batches: int
    users: int
    smallest: int
    guarantee: Guarantee | None
    why: str = ""
    pending: bool = False  # a closer bound is being computed


@dataclass(frozen=True)
class Arrived:
    """What came in so far: accepted reports by the minute, and all others by the reason."""

    state: str
    closes: int | None
    accepted: Mapping[int, int]
    rejected: Mapping[str, int]
    refused: Mapping[str, int]  # batches, since the collector was started
    counted: int  # reports that the estimates below are made of

    @property
    def reports(self) -> int:
        """How many were accepted."""
        return sum(self.accepted.values())


def strict(parts: Mapping[str, Markup]) -> dict[str, str]:
    """The same for a page that allows no style attributes."""
    return {name: str(part).replace(' style="', ' data-style="') for name, part in parts.items()}


# What came in ------------------------------------------------------------------------------------------------------


def arrival_sections(plan: Plan, arrived: Arrived) -> dict[str, Markup]:
    """Facts, reports over time, and what was rejected: these change with every batch."""
    facts = {
        "reports": f"{arrived.reports:,}",
        "of them in the results below": f"{arrived.counted:,}",
        "users planned for": f"{plan.users:,}",
        "privacy of each: epsilon": upward(plan.guarantee.epsilon),
        "state": arrived.state if arrived.closes is None else f"{arrived.state} until {_date(arrived.closes)}",
    }
    told = (element("div", element("dt", name), element("dd", fact)) for name, fact in facts.items())
    return {
        "facts": element("dl", *told, class_="facts"),
        "arrivals": _arrivals(arrived.accepted),
        "rejected": _rejected(arrived),
    }


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _arrivals(accepted: Mapping[int, int]) -> Markup:
    if not accepted:
        return element("p", "No report has come yet.", class_="nobody")
    first, last = min(accepted), max(accepted)
    step = next((each for each in _STEPS if (last // each) - (first // each) < _MOST_SPANS), _STEPS[-1])
    begin = min(first // step, last // step - _LEAST_SPANS + 1)
    counts = [0] * (last // step - begin + 1)
    for minute, reports in accepted.items():
        counts[minute // step - begin] += reports
    most = int(np.argmax(counts))
    form = "%H:%M" if step < 60 and last - first < 1440 else "%b %d, %H:%M" if step < 1440 else "%Y-%m-%d"

    def moment(span: float, how: str = form) -> str:
        return time.strftime(how, time.gmtime(60 * step * (begin + span)))

    words = [(place, moment(round(place * len(counts)))) for place in (0.0, 0.5, 1.0)]
    told = (
        f"Reports in spans of {_span(step)}, from {moment(0, '%Y-%m-%d %H:%M')} to "
        f"{moment(len(counts), '%Y-%m-%d %H:%M')} UTC. The most are {counts[most]:,}, at {moment(most)}."
    )
    return element(
        "div",
        counts_over_time(counts, words, told),
        element("p", f"Reports in spans of {_span(step)}; times are UTC.", class_="legend"),
        class_="card",
    )


def _span(minutes: int) -> str:
    for size_, name in ((1440, "day"), (60, "hour"), (1, "minute")):
        if minutes % size_ == 0:
            count = minutes // size_
            return f"{'a' if name != 'hour' else 'an'} {name}" if count == 1 else f"{count:,} {name}s"
    raise AssertionError


def _rejected(arrived: Arrived) -> Markup:
    total = sum(arrived.rejected.values())
    rows = [[reason, f"{count:,}", _WHY.get(reason, "")] for reason, count in sorted(arrived.rejected.items())]
    parts = [
        element(
            "p",
            f"{total:,} of {arrived.reports + total:,} reports were rejected. They are in no number on this page."
            if total
            else "No report was rejected.",
        )
    ]
    if rows:
        parts.append(scrolled_table("Rejected reports", ["reason", "reports", "what is wrong"], rows, texts=(0, 2)))
    if arrived.refused:
        rows = [[reason, f"{count:,}"] for reason, count in sorted(arrived.refused.items())]
        parts += [
            element("p", "Whole batches that were refused since the collector was started, by the reason:"),
            scrolled_table("Refused batches", ["reason", "batches"], rows),
        ]
    return element("div", *parts)


# What it tells -----------------------------------------------------------------------------------------------------


def estimate_sections(plan: Plan, estimates: PlanEstimates, goodness: Goodness | None) -> dict[str, Markup]:
    """All that is worked out from the reports; it changes when they are counted."""
    checked(plan, estimates)
    return {
        "outlook": outlook_section(plan, estimates),
        "results": joined(
            [
                results_section(Cards(plan, estimates, {}), [], False),
                *(group_section(estimates.by(name)) for name in plan.public),
            ]
        ),
        "trust": _trust(plan, estimates, goodness),
        "plan": joined([plan_section(plan, estimates), limits_section(estimates, False)]),
    }


def promise_section(plan: Plan, shuffled: Shuffled | None) -> Markup:
    """What is promised to each person: by the device alone, and by a shuffler beside it."""
    parts = [
        element("h3", "By the device alone (local)"),
        element("div", *(element("p", line) for line in promise_in_words(plan.guarantee)), class_="box"),
        element("h3", "Behind a shuffler"),
    ]
    crowd = plan.crowd
    if shuffled is not None:
        told = (
            f"The shuffler has forwarded {shuffled.batches:,} batches of {shuffled.users:,} users; the smallest has "
            f"{shuffled.smallest:,}."
        )
        parts.append(element("p", told))
        if shuffled.guarantee is None:
            parts.append(element("p", f"What that promises is not known: {shuffled.why}."))
        else:
            lines = promise_in_words(shuffled.guarantee)
            if shuffled.pending:
                parts.append(element("p", "A closer bound is being computed. Until it is there, this one holds:"))
            parts.append(element("div", *(element("p", line) for line in lines), class_="box"))
    elif crowd is not None:
        told = f"Planned: batches of {crowd.batch:,} users or more. No batch has been forwarded yet. Then it holds:"
        lines = promise_in_words(crowd.guarantee or plan.guarantee)
        parts += [element("p", told), element("div", *(element("p", line) for line in lines), class_="box")]
    else:
        told = (
            "These reports come without one. Whoever collects sees which connection a report comes by; what is "
            f"promised above does not depend on it: the best guess is right {best_guess(plan.guarantee)} of the time "
            "at most."
        )
        parts.append(element("p", told))
    return element("div", *parts, class_="prose")


def _trust(plan: Plan, estimates: PlanEstimates, goodness: Goodness | None) -> Markup:
    """Whether honest devices can have sent this, and how far others could have moved it."""
    parts: list[Markup] = [element("h3", "Goodness of fit")]
    if goodness is None:
        parts.append(element("p", "Nothing was checked."))
    elif goodness.passed:
        parts.append(element("p", goodness.explain(), class_="prose"))
    else:
        parts.append(warning(NOT_HONEST, goodness.explain()))
    moved = plan.influence(_LIARS)
    users = people(plan, estimates)
    now = {each.question: each for each in outlooks(plan, estimates)}
    rows = []
    for worth in moved.worths:
        outlook = now.get(worth.question)
        if outlook is None:
            continue
        written = percent_size if outlook.share else size
        one, all_ = float(worth.movement()) / max(1, users), float(worth.worst_shift(moved.share))
        rows.append([given(worth.question), written(one), written(all_), outlook.written(outlook.now)])
    told = (
        f"Somebody may send what they like. One forged report of {users:,} moves a number by at most what the second "
        f"column says, and {percentage(_LIARS)} of liars by what the third says, on average; more liars more. Error "
        "bars do not cover that: they stand beside it."
    )
    parts.append(element("h3", "How far liars can move it (poisoning)"))
    if rows:
        heads = ["question", "one forged report", f"{percentage(_LIARS)} of liars", "95% interval now"]
        parts += [element("p", told, class_="prose"), scrolled_table("Poisoning bound", heads, rows)]
    if moved.unknown:
        parts.append(element("p", f"Not known of: {', '.join(moved.unknown)}.", class_="rest"))
    return element("div", *parts)


# What is asked of it -----------------------------------------------------------------------------------------------


def explored(plan: Plan, estimates: PlanEstimates) -> list[dict[str, Any]]:
    """The questions that answer conditions, and what they are about, for a page that asks."""
    return [
        {
            "question": str(question),
            "attributes": [axis.name for axis in estimates.ranges(*question.names).axes],
            "example": _example(estimates.ranges(*question.names)),
        }
        for question in plan.questions
        if question.answers_conditions and estimates.ranges(*question.names).n
    ]


def _example(estimate: RangeEstimate) -> str:
    """A condition that can be asked."""
    return describe(estimate.axes, {axis.name: first_half(axis) for axis in list(estimate.axes)[:2]})


def pair_section(estimate: RangeEstimate, first: str, second: str) -> tuple[Markup, list[dict[str, Any]]]:
    """The heat map of two attributes, and what its cells are, so that a range can be drawn on it."""
    one, two = (estimate.shown[estimate.axes.index(name)] for name in (first, second))
    table, sizes = estimate.joint(first, second), {axis.name: axis.size for axis in (one, two)}
    sides = [
        {
            "name": side.name,
            **(
                {"edges": side.edges, "whole": side.whole}
                if side.labels is None
                else {"labels": side.labels, "complete": len(side.labels) == sizes[side.name]}
            ),
        }
        for side in heat_sides(one, two, table)
    ]
    return heat_map(one, two, table), sides


def answer_section(found: Trial) -> Markup:
    """Answers to conditions, drawn as the shares of the report are."""
    low, high = found.answers.interval(0.95)
    columns = (np.ravel(each).astype(float) for each in (found.answers.value, found.answers.stderr, low, high))
    items = ErrorBars(found.conditions, *columns)
    parts = [bars(items, range(len(found.conditions)), whole=True)]
    parts += [element("p", line, class_="rest") for line in _parts_of_errors(found.answers)]
    return element("div", *parts, class_="answer")


def _parts_of_errors(answers: Any) -> Iterator[str]:
    noise, doubt = (float(np.sqrt(np.mean(np.ravel(each) ** 2))) for each in (answers.noise, answers.doubt))
    yield (
        f"From {answers.n:,} reports. Of the interval, ± {percent_size(HALF_WIDTH * noise)} is noise of the reports, "
        f"and ± {percent_size(HALF_WIDTH * doubt)} is doubt: an estimate of what had to be guessed."
    )


def problem_section(told: str) -> Markup:
    """Why there are no estimates."""
    return element("p", told, class_="nobody")


def rounds_choice(names: Sequence[str], chosen: str) -> Markup:
    """A choice of the round whose results are shown."""
    options: Iterable[Markup] = (
        element("option", name, value=name, selected="selected" if name == chosen else None) for name in names
    )
    return element("label", "Round ", element("select", *options, id="round"), for_="round", class_="within")
