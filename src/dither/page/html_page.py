"""The results of a collection on one page, for a person who has never heard of differential privacy and for an expert.

The page is one file. It needs no network, no script and no font; it fits a phone, a desktop and paper, light and dark.
Every text that comes from data goes through `markup.element`, which escapes it, and the page's own policy forbids
scripts, should anything slip through.

The order is that of questions a reader has: what was collected and what was promised to those who reported, what came
out, how far that can be trusted, how it was done, and what it does not tell.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib import resources
from typing import Any

import numpy as np

from dither.core.exact import upward
from dither.core.guarantee import Guarantee
from dither.core.reports import ANOTHER_PLAN, MALFORMED, OUT_OF_RANGE, SIMULATED, WRONG_LENGTH
from dither.display.markup import Markup, element, given, joined
from dither.display.plots import COLOURS
from dither.display.significant_digits import UNKNOWN, number, percent, percent_size, plain_number, size, span
from dither.errors import ParameterError
from dither.page.cards import Cards
from dither.page.export import checked, checked_truth, compared, people
from dither.page.figures import scrolled_table
from dither.planning import Plan
from dither.planning.group_estimates import GroupEstimates
from dither.planning.plan_estimates import PlanEstimates
from dither.planning.plan_parts import Part
from dither.privacy.promise import promise_in_words
from dither.questions.question import Question
from dither.schema import Asked
from dither.utility.goodness import Goodness
from dither.utility.influence import percentage

Query = tuple[str, float, float, float, float | None]

TITLE = "What the reports tell"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_Z = 1.96
_LIARS = 0.01
_MOVED = "moved by 1% of liars"
_MOST_GROUPS, _MOST_COLUMNS = 60, 6  # rows and columns of a table by group
NOT_HONEST = "Not all of these reports are honest: the results below may be wrong."


def html_page(
    plan: Plan,
    estimates: PlanEstimates,
    *,
    truth: Mapping[str, Any] | None = None,
    title: str | None = None,
    queries: Iterable[Query] | None = None,
    goodness: Goodness | None = None,
) -> str:
    """One HTML page with all results of a plan, its guarantee, and its errors.

    `truth` maps questions to their true numbers, in trials; `queries` are conditions with their answers: the text, the
    share of users, the ends of its 95% interval, and the true share or None. Truths are exact, and nothing protects
    them: a page with any says so, and is not for others. Where `goodness`, of `plan.goodness(tally)`, finds that honest
    reports did not make the tally, the page says so.
    """
    checked(plan, estimates)
    known = checked_truth(estimates, truth)
    asked = _checked_queries(queries)
    trial = bool(known) or any(query[4] is not None for query in asked)
    heading = title or TITLE
    body = [
        _head(plan, estimates, heading, trial),
        element(
            "main",
            _promise(plan, estimates.guarantee, trial),
            *([] if goodness is None or goodness.passed else [warning(NOT_HONEST, goodness.explain())]),
            results_section(Cards(plan, estimates, known), asked, trial),
            *(group_section(estimates.by(name)) for name in plan.public),
            errors_section(plan, estimates, truth),
            plan_section(plan, estimates),
            *([_left_out(estimates.dropped)] if estimates.dropped else []),
            limits_section(estimates, trial),
        ),
        page_foot(plan.fingerprint),
    ]
    return whole_page(heading, body)


def whole_page(title: str, body: Iterable[Markup]) -> str:
    """A page of these parts, which needs nothing beside it."""
    return "<!DOCTYPE html>\n" + element("html", _meta(title), "\n", element("body", joined(body, "\n")), lang="en")


def _meta(title: str) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="robots", content="noindex"),
        element("title", title),
        element("style", page_style()),
    )


def page_style() -> Markup:
    """The style sheet, with the colours of all plots."""
    blue, vermilion, _, _, _, sky, _ = COLOURS
    colours = f":root {{ --blue: {blue}; --vermilion: {vermilion}; --sky: {sky}; }}\n"
    return Markup(colours + resources.files("dither.page").joinpath("page.css").read_text(encoding="utf-8"))


# What was collected, and what was promised ---------------------------------------------------------------------------


def _head(plan: Plan, estimates: PlanEstimates, title: str, truth: bool) -> Markup:
    users = people(plan, estimates)
    count = len(plan.questions)
    promised = "none" if estimates.guarantee.simulated else upward(estimates.guarantee.epsilon)
    facts = {
        "people who reported": f"{users:,}",
        "question" + "s" * (count != 1): f"{count:,}",
        "attribute" + "s" * (len(plan.asked_about) != 1): f"{len(plan.asked_about):,}",
        ("privacy of the reports: epsilon" if truth else "privacy: epsilon"): promised,
    }
    if estimates.dropped:
        facts["reports that were left out"] = f"{sum(estimates.dropped.values()):,}"
    reports = f"the reports of {users:,} {'person' if users == 1 else 'people'}"
    chance = "answers that chance had a hand in before they were sent"
    if truth:
        intro = (
            f"This is a trial. The estimates below are what {reports} tell together: {chance}. The truths beside them "
            "are from the raw records, which only a trial has."
        )
    else:
        intro = (
            f"No answers were collected, only reports: {chance}. The numbers below are what {reports} tell together."
        )
    return page_header(title, intro, facts)


def page_header(title: str, intro: str, facts: Mapping[str, str]) -> Markup:
    """What a page begins with: its title, a few words, and a few numbers."""
    return element(
        "header",
        element("h1", given(title, 200)),
        element("p", intro, class_="prose"),
        element(
            "dl",
            *(element("div", element("dt", name), element("dd", fact)) for name, fact in facts.items()),
            class_="facts",
        ),
        class_="head",
    )


def _promise(plan: Plan, given_now: Guarantee, truth: bool) -> Markup:
    promised = plan.guarantee
    parts: list[Markup] = [element("h2", "What is promised to each person", id="promise")]
    if given_now.simulated:
        told = (
            "These reports were made from a seed, for a trial. Whoever knows the seed knows the noise, so nothing on "
            "this page was protected by it. In a real collection with this plan the following would hold."
        )
        parts.append(warning("Simulated: no guarantee.", told))
    if truth:
        told = (
            "The truths marked on this page were computed from raw records. They are exact, and nothing protects them. "
            "What is promised below is promised of the reports, not of this page: it is for a trial, and must not be "
            "given away as private."
        )
        parts.append(warning("With the truth: not a private page.", told))
    parts.append(element("div", *(element("p", line) for line in promise_in_words(promised)), class_="box"))
    return element("section", *parts, class_="prose")


def warning(title: str, told: str) -> Markup:
    return element(
        "div", element("p", element("strong", title)), element("p", told), class_="box simulated", role="note"
    )


# What came out -------------------------------------------------------------------------------------------------------


def results_section(cards: Cards, queries: Sequence[Query], truth: bool) -> Markup:
    links = [
        element("li", element("a", given(question, 40), href=f"#{cards.anchors[question]}"))
        for _, _, some in cards.groups
        for question in some
    ]
    told = (
        "Every number has a 95% interval: were the noise drawn again and again, it would hold the true number, that of "
        "all who reported, nineteen times in twenty. That is so for each number by itself, refined or not."
    )
    parts: list[Markup] = [element("h2", "What came out", id="results"), element("p", told, class_="prose")]
    if truth:
        line = element("line", class_="truth", x1="50%", x2="50%", y1=0, y2="100%")
        mark = element("svg", line, aria_hidden="true")
        parts.append(element("p", mark, " marks the truth, which is known in trials only.", class_="key"))
    if len(links) > 1:
        parts.append(element("nav", element("ul", *links, class_="contents"), aria_label="Questions"))
    for heading, kind, some in cards.groups:
        parts += [element("h3", heading), element("div", *some.values(), class_=f"cards {kind}")]
    if queries:
        parts += [element("h3", "Answers to queries"), answers_table(queries)]
    return element("section", *parts)


def _checked_queries(queries: Iterable[Query] | None) -> list[Query]:
    found = [tuple(query) for query in queries or ()]
    if not all(len(query) == 5 and isinstance(query[0], str) for query in found):
        raise ParameterError(
            "a query is its text, the share of users, the two ends of its interval, and the truth or None"
        )
    return found  # type: ignore[return-value]


def answers_table(queries: Sequence[Query]) -> Markup:
    rows = []
    known = any(query[4] is not None for query in queries)
    for text, value, low, high, truth in queries:
        error = (high - low) / (2 * _Z)
        row = [given(text, 200), percent(value, error), span(low, high, error, share=True)]
        if known:
            row += ["", ""] if truth is None else [percent(truth, error), "yes" if low <= truth <= high else "no"]
        rows.append(row)
    heads = ["users for whom", "share", "95% interval", *(["truth", "inside"] if known else [])]
    return scrolled_table("Answers to queries", heads, rows)


def group_section(found: GroupEstimates) -> Markup:
    """The results of each value of a public attribute: a table a question, with intervals for all of it at once."""
    told = [
        f"Every report says {found.name} in the clear. Below are the results of those who reported with each value. "
        "Intervals in a table hold for all of it at once, in nineteen collections of twenty.",
        *([f"Nobody reported with: {', '.join(found.silent[:_MOST_GROUPS])}."] if found.silent else []),
        *([f"The first {_MOST_GROUPS} of {len(found):,} values are shown."] if len(found) > _MOST_GROUPS else []),
    ]
    tables = [_group_table(found, name) for name in found.questions if found.is_listed(name)]
    return element(
        "section",
        element("h2", "By ", given(found.name, 40), id=f"by-{list(found.plan.public).index(found.name)}"),
        *(element("p", line, class_="prose") for line in told),
        *tables,
    )


def _group_table(found: GroupEstimates, question: str) -> Markup:
    """One row a value of the public attribute, and a column for each of the largest items of one question."""
    series = found.series(question)
    first, ends = next(iter(series.values())), series.interval(0.95, simultaneous=True)
    share = first.bounds is not None and first.bounds[:2] == (0.0, 1.0)
    mean = np.nanmean([np.nan_to_num(np.ravel(each.value)) for each in series.values()], axis=0)
    items = np.argsort(-mean, kind="stable")[:_MOST_COLUMNS]
    items = np.sort(items) if first.ordered else items
    rows = []
    for value, each in list(series.items())[:_MOST_GROUPS]:
        told = []
        for item in items:
            level, error = float(np.ravel(each.value)[item]), float(np.ravel(each.stderr)[item])
            low, high = (float(np.ravel(end)[item]) for end in ends[value])
            told.append(f"{(percent if share else number)(level, error)} ({span(low, high, error, share=share)})")
        rows.append([given(value), f"{each.n:,}", *told])
    names = [str(first.item_names[item]) or "all users" for item in items.tolist()]
    rest = mean.size - len(items)
    caption = question + (f", the {len(items)} largest of {mean.size:,}" if rest else "")
    return element(
        "div", element("h3", given(caption, 120)), scrolled_table(caption, [found.name, "reports", *names], rows)
    )


# How far it can be trusted -------------------------------------------------------------------------------------------


def errors_section(plan: Plan, estimates: PlanEstimates, truth: Mapping[str, Any] | None) -> Markup:
    table = compared(plan, estimates, truth).columns
    heads = {"predicted": "predicted", "stated": "stated by the data", "refined": "after refining"}
    if truth:
        heads |= {"real before": "real, before refining", "real": "real", "inside": "intervals that hold the truth"}
    heads = {name: head for name, head in heads.items() if any(map(math.isfinite, table[name]))}
    if all(math.isnan(number) for number in table["refined"]):
        heads.pop("real before", None)  # it is the same
    rows = []
    for row, question in enumerate(plan.questions):
        numbers = [_error(question, name, table[name][row]) for name in heads]
        rows.append([given(question), f"{table['numbers'][row]:,}", *numbers])
    told = [
        "These are standard errors: two numbers of three are nearer to the truth than that, and nineteen of twenty are "
        "nearer than twice that. Of several numbers it is the root of the mean square. Of shares it is in percentage "
        "points.",
        f"Predicted is what the plan expected before anything was collected, for {plan.users:,} users, "
        + (
            "like those that were assumed. "
            if plan.prediction.informed
            else "and for the worst answers they could have. "
        )
        + "Stated is what the reports themselves say. Where it is far above the prediction, fewer people reported than "
        "planned.",
    ]
    remarks = {
        question.statistic if question.workload is None else str(question): question.remark
        for question in plan.weighted_questions
        if question.remark
    }
    told += [f"Of {asked}, {remark}" for asked, remark in remarks.items()]
    if truth:
        told.append(
            "Real is the distance from the truth. About 95% of the intervals should hold it; of few numbers, all may, "
            "or by chance far fewer."
        )
    return element(
        "section",
        element("h2", "Predicted and realised error", id="errors"),
        scrolled_table("Errors", ["question", "numbers", *heads.values()], rows),
        *(element("p", line, class_="prose") for line in told),
    )


def _error(question: Question, name: str, error: float) -> str:
    if not math.isfinite(error):
        return "\u2013" if name != "stated" else UNKNOWN
    if name == "inside":
        return f"{100 * error:.0f}%"
    return size(error) if question.averages else percent_size(error)


# How it was done -----------------------------------------------------------------------------------------------------


def plan_section(plan: Plan, estimates: PlanEstimates) -> Markup:
    rows, moved = [], plan.influence(_LIARS)
    shifts = {worth.question: float(worth.worst_shift(moved.share)) for worth in moved.worths}
    for label, asked, part, share in _asked_parts(plan):
        reports = _reports_about(plan, estimates, label, part)
        for question in part.questions:
            expected = asked.predicted.get(str(question), math.nan)
            rows.append(
                [
                    given(f"{question} of {label}" if label else question),
                    type(part.mechanism).__name__,
                    upward(part.mechanism.epsilon),
                    f"{asked.heard * share:,.0f}",
                    f"{reports:,}",
                    _error(question, "predicted", expected),
                    _error(question, "predicted", shifts.get(str(question), math.nan)),
                    str(part.mechanism.guarantee),
                ]
            )
    heads = ["question", "mechanism", "epsilon", "users planned", "reports", "predicted error", _MOVED, "certificate"]
    substitutes = [[given(name), *_counts_as(attribute)] for name, attribute in plan.asked_about.items()]
    counted = ["attribute", "values", "a missing value counts as", "one that does not fit counts as"]
    identity = [
        f"Version {_version()} of dither. The hash of the plan is ",
        element("code", plan.fingerprint),
        "; reports and tallies carry it, and those of another plan are refused.",
    ]
    return element(
        "section",
        element("h2", "The plan", id="plan"),
        element("div", *(element("p", line) for line in plan.explain().splitlines()), class_="prose"),
        element("h3", "Who is asked what"),
        scrolled_table("The plan", heads, rows, texts=(0, 1, 7)),
        element(
            "p", "A certificate is computed from the integers that the mechanism samples, not measured.", class_="prose"
        ),
        element(
            "p",
            f"{percentage(_LIARS)} of liars, who send what they like, can move a number by at most so much, on "
            "average and before it is refined; more liars more. The error bars do not cover that. It follows from the "
            "same integers.",
            class_="prose",
        ),
        element("h3", "What counts as what"),
        element(
            "p",
            "Everybody reports, also who has no answer, since silence would tell something: there are substitutes.",
            class_="prose",
        ),
        scrolled_table("What counts as what", counted, substitutes, texts=range(4)),
        element("p", *identity, class_="prose"),
    )


def _asked_parts(plan: Plan) -> Iterator[tuple[str, Plan, Part, float]]:
    """What users of each budget answer, and which share of them."""
    for label, asked in plan.budgets.items():
        for part, share in zip(asked.parts, asked.shares.tolist(), strict=True):
            yield label, asked, part, share


def _reports_about(plan: Plan, estimates: PlanEstimates, budget: str, part: Part) -> int:
    """How many reports there are about a part, in all groups of a budget."""
    names = [group.part(part).name for group in plan.groups if group.budget == budget] or [part.name]
    return sum(estimates.reports[name] for name in names)


def _counts_as(attribute: Asked) -> list[Any]:
    """Its values, what a missing one counts as, and what one does that does not fit."""
    if attribute.kind == "categorical":
        return [f"{attribute.k:,} labels", given(attribute.substitute), given(attribute.other)]
    if attribute.kind == "text":
        return [attribute.in_words, "no word", "no word"]
    ends = f"{plain_number(attribute.low)} to {plain_number(attribute.high)}"
    if attribute.kind == "keyvalue":
        held = f"up to {attribute.size:,} of {attribute.d:,} keys, with a value from {ends}"
        return [held, "no keys", "without the unknown keys; values at the nearer end; some of too many keys, at random"]
    missing = plain_number(attribute.substitute)
    if attribute.kind == "numeric":
        return [ends, missing, "the nearer end"]
    return [f"whole numbers, {ends}", missing, f"the nearer end; {missing} if it is not whole"]


WHY_LEFT_OUT = {
    MALFORMED: "there was no report in the row, or nothing that says what it answers",
    ANOTHER_PLAN: "it was made with another plan, or answers no question of this one",
    WRONG_LENGTH: "it is longer or shorter than a report about its question",
    OUT_OF_RANGE: "it holds a number that no device sends which does as it should",
    SIMULATED: "it was made from a seed, so that nothing protects it; the others were not",
}


def _left_out(dropped: Mapping[str, int]) -> Markup:
    told = (
        "These are in no number on this page. A few come from mistakes of programs. If there are many, a program is "
        "wrong, or somebody disturbs the collection, who may also send reports that look right."
    )
    rows = [[reason, f"{count:,}", WHY_LEFT_OUT[reason]] for reason, count in dropped.items()]
    return element(
        "section",
        element("h2", "Reports that were left out", id="left-out"),
        scrolled_table(
            "Reports that were left out", ["reason", "reports", "what is wrong with them"], rows, texts=(0, 2)
        ),
        element("p", told, class_="prose"),
    )


# What it does not tell -----------------------------------------------------------------------------------------------


def limits_section(estimates: PlanEstimates, truth: bool) -> Markup:
    told = [
        "One interval in twenty misses. Who looks at a hundred of them sees about five that do.",
        "Intervals are normal approximations, and cover the randomness of the reports only: not who chose to report, "
        "and not whether answers are honest.",
        "The truth meant is that of the people who reported, not of a larger population.",
        "Answers outside of an attribute's values were moved to the nearer end, or counted as a substitute. A mean is "
        "that of the answers after this.",
    ]
    if truth:
        told.append(
            "The truths come from the raw records, and nothing protects them: whoever knows all but one of the records "
            "can compute that one from them. Keep this page to yourself."
        )
    else:
        told.append("It is about many people. Nothing on it is about one of them.")
    if any(panel.original is not None for each in estimates.values() for panel in each.panels().values()):
        told.insert(
            1,
            "Refined numbers learn from each other. Their standard errors are smaller, and right on average over "
            "numbers; that of a number which is unlike the others may be larger. Intervals hold for each number.",
        )
    return element(
        "section",
        element("h2", "What this does not tell", id="limits"),
        element("ul", *(element("li", line) for line in told)),
        class_="prose",
    )


def page_foot(fingerprint: str) -> Markup:
    """What a page ends with: when it was made, and of which plan."""
    return element(
        "footer",
        f"Made on {date.today().isoformat()} with dither {_version()}; plan {fingerprint[:12]}.",
        class_="foot",
    )


def _version() -> str:
    from dither import __version__

    return __version__
