"""The frames of the pages that a collector serves: what stands in them before a script has put any data there.

They hold no results and no style or script of their own, so that the strictest policy fits them. The style sheet is
that of the report, with a few lines more (`collect/browser/live.css`).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dither.core.exact import upward
from dither.display.markup import Markup, element, given, joined
from dither.display.significant_digits import plain_number
from dither.page.live_outlook import WITHIN
from dither.planning import Plan
from dither.planning.statement import Section, Statement
from dither.privacy.promise import best_guess

LIVE_TITLE, JOIN_TITLE = "Live results", "Take part"
_MOST_LISTED = 500  # labels of a choice: more are typed
_KEY_ROWS = 4


def linked_page(title: str, body: list[Markup], script: str | None) -> str:
    """A page whose style and script are files beside it."""
    head = [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="robots", content="noindex"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href="/browser/live.css"),
    ]
    if script is not None:
        head.append(element("script", type="module", src=f"/browser/{script}"))
    page = element("html", element("head", *head), "\n", element("body", joined(body, "\n")), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


# For analysts --------------------------------------------------------------------------------------------------------


def live_frame() -> str:
    """The page for analysts."""
    intro = (
        "What the reports of a collection tell while they come in. Every number is an estimate with an interval; no "
        "answer of a single person is here, or anywhere but on their device."
    )
    header = element(
        "header",
        element("h1", LIVE_TITLE),
        element("p", intro, class_="prose"),
        element(
            "p",
            element("span", class_="lamp", aria_hidden="true"),
            " ",
            element("span", "Not connected", id="status", role="status"),
            element("button", "Forget the token", id="leave", type="button", class_="quiet", hidden="hidden"),
            class_="status",
        ),
        class_="head",
    )
    enter = element(
        "form",
        element("label", "Token of an analyst", for_="token"),
        element(
            "div",
            element("input", id="token", type="password", autocomplete="off", spellcheck="false", required="required"),
            element("button", "Show results", type="submit"),
            class_="row",
        ),
        element(
            "p",
            "It stays in this tab until you close it. ",
            element("code", "dither serve"),
            " has written the first one to ",
            element("code", "analyst.token"),
            " in its store.",
            class_="rest",
        ),
        element("p", id="refused", role="alert", class_="alert"),
        id="enter",
        class_="box enter",
    )
    within = element(
        "label",
        "Users needed for ± ",
        element(
            "input",
            id="within",
            type="number",
            min="0.01",
            max="50",
            step="any",
            value=f"{WITHIN:g}",
            inputmode="decimal",
        ),
        " per cent",
        class_="within",
    )
    view = element(
        "div",
        _section("facts", "", element("h2", id="title")),
        _section("arrivals", "Reports over time"),
        _section("outlook", "How far it is", element("div", data_part="rounds"), within),
        element("div", data_part="results"),
        _ask(),
        _section("promise", "What is promised to each person"),
        _section("trust", "Whether to trust it"),
        _section("rejected", "Rejected reports"),
        element("div", data_part="plan"),
        id="view",
        hidden="hidden",
    )
    nav = element("nav", element("ul", class_="contents"), id="campaigns", aria_label="Campaigns", hidden="hidden")
    script_needed = element("noscript", element("p", "This page needs its script, which comes from the same server."))
    return linked_page(LIVE_TITLE, [header, element("main", script_needed, enter, nav, view)], "live.js")


def _section(part: str, title: str, *before: Markup) -> Markup:
    heading = [element("h2", title)] if title else []
    return element("section", *heading, *before, element("div", data_part=part))


def _ask() -> Markup:
    """A query box, and the range explorer."""
    query = element(
        "form",
        element("label", "The share of users for whom", for_="condition"),
        element(
            "div",
            element("input", id="condition", type="text", autocomplete="off", spellcheck="false", required="required"),
            element("button", "Ask", type="submit"),
            class_="row",
        ),
        element(
            "p",
            "In the words of SQL: comparisons, between, in, and, or, not. For example ",
            element("button", id="example", type="button", class_="quiet"),
            class_="rest",
        ),
        id="query",
    )
    choices = [
        element("label", name, " ", element("select", id=id_), class_="within")
        for name, id_ in (("Question", "question"), ("Attribute", "first"), ("with", "second"))
    ]
    explorer = element(
        "div",
        element("div", id="map"),
        element(
            "div",
            element("div", id="sides"),
            element("div", id="share", role="status", class_="answer"),
            class_="picked",
        ),
        class_="explorer",
    )
    return element(
        "section",
        element("h2", "Ask"),
        element("h3", "By a condition"),
        query,
        element("div", id="answers", role="status"),
        element("h3", "By a range of two attributes"),
        element(
            "p",
            "Draw a rectangle on the map, or set its ends beside it, and see the share of users inside.",
            class_="prose",
        ),
        element("div", *choices, class_="choices"),
        explorer,
        element("p", id="ask-problem", role="alert", class_="alert"),
        id="ask",
        hidden="hidden",
    )


# For participants ----------------------------------------------------------------------------------------------------


def choice_frame(campaigns: Mapping[str, str]) -> str:
    """Which collection somebody may take part in, where there are several or none."""
    links = [
        element("li", element("a", given(title, 120), href=f"/join/{plan}"), " ", element("code", plan[:12]))
        for plan, title in campaigns.items()
    ]
    told = element("ul", *links) if links else element("p", "No collection is open at the moment.")
    header = element("header", element("h1", JOIN_TITLE), class_="head")
    return linked_page(JOIN_TITLE, [header, element("main", told)], None)


def join_frame(plan: Plan, statement: Statement, *, needs_token: bool = False, shuffler: str | None = None) -> str:
    """The page for the people who are asked: what is asked, what is sent, what it reveals, and a button to send it."""
    asked, sent, revealed, depends = (
        _told(statement, heading)
        for heading in ("What is asked", "What is sent", "What it reveals at most", "Whom it depends on")
    )
    header = element(
        "header",
        element("h1", JOIN_TITLE),
        element(
            "p",
            "Your answers stay in this browser. It makes a report of them, in which chance has a hand, and shows it to "
            "you before it is sent.",
            class_="prose",
        ),
        element(
            "dl",
            *(
                element("div", element("dt", name), element("dd", fact))
                for name, fact in {
                    "who guesses between two answers is right at most": best_guess(plan.guarantee),
                    "the toss of a coin is right": "50%",
                    "privacy: epsilon": upward(plan.guarantee.epsilon),
                }.items()
            ),
            class_="facts",
        ),
        class_="head",
    )
    facts = {"plan": plan.fingerprint, "shuffler": shuffler, "attributes": list(_fields_of(plan))}
    token = (
        element(
            "p",
            element("label", "Token that you were given", for_="client-token"),
            element("input", id="client-token", type="password", autocomplete="off"),
            class_="field",
        )
        if needs_token
        else Markup("")
    )
    form = element(
        "form",
        *(_field(facts) for facts in _fields_of(plan)),
        _period(plan),
        token,
        element(
            "p",
            element("button", "Make my report", type="submit", id="make"),
            " ",
            element("small", "Nothing is sent yet. Fields that are left empty count as no answer."),
        ),
        id="answers-form",
        class_="box",
        autocomplete="off",
    )
    report = element(
        "section",
        element("h2", "3. Your report, to the byte"),
        element("p", id="report-told", class_="prose", tabindex="-1"),
        element("div", id="report-bytes"),
        element("p", element("button", "Send this report", type="button", id="send")),
        element("p", id="sent", role="status"),
        id="report",
        hidden="hidden",
    )
    more = element(
        "section",
        element("h2", "Whom it depends on"),
        *depends,
        element("p", element("a", "The whole statement", href=f"/v1/plans/{plan.fingerprint}/statement")),
        class_="prose",
    )
    main = element(
        "main",
        element("section", element("h2", "1. What is asked"), *asked, class_="prose"),
        element("section", element("h2", "What it reveals at most"), *revealed, class_="prose"),
        element("section", element("h2", "What is sent"), *sent, class_="prose"),
        element("section", element("h2", "2. Your answers"), form),
        element("p", id="problem", role="alert", class_="alert"),
        report,
        more,
        id="join",
        data_facts=json.dumps(facts),
    )
    return linked_page(JOIN_TITLE, [header, main], "join.js")


def _period(plan: Plan) -> Markup:
    """Which round it is, of a plan that has several."""
    if not plan.schedule.repeats:
        return Markup("")
    options = (element("option", str(period), value=str(period)) for period in plan.schedule.periods)
    label = element("label", "Which round it is", for_="period")
    return element("p", label, element("select", *options, id="period"), class_="field")


def _told(statement: Statement, heading: str) -> list[Markup]:
    """What a section of the statement says."""
    section: Section = next(each for each in statement.sections if each.heading == heading)
    items = [element("ul", *(element("li", item) for item in section.items))] if section.items else []
    return [
        *(element("p", line) for line in section.paragraphs),
        *items,
        *(element("p", line) for line in section.closing),
    ]


def _fields_of(plan: Plan) -> Iterator[dict[str, Any]]:
    """What somebody types in, one for each attribute; those that a report says openly first."""
    attribute: Any  # its kind says what else it has
    for name, attribute in (*plan.public.items(), *plan.asked_about.items()):
        kind = attribute.kind
        facts: dict[str, Any] = {"name": name, "kind": kind, "open": name in plan.public}
        if kind in ("numeric", "ordinal", "keyvalue"):
            facts |= {"low": attribute.low, "high": attribute.high}
        labels = getattr(attribute, "labels", None)
        if labels is not None and len(labels) <= _MOST_LISTED:
            facts["labels"] = list(labels)
        if kind == "keyvalue":
            facts |= {"keys": attribute.d, "rows": min(_KEY_ROWS, attribute.size)}
        if kind == "text":
            facts["longest"] = attribute.longest
        yield facts


def _field(facts: dict[str, Any]) -> Markup:
    """The field of one attribute."""
    name = facts["name"]
    id_ = f"field-{name}"
    if facts["kind"] == "keyvalue":
        rows = (_key_row(facts, id_, row) for row in range(facts["rows"]))
        return element("fieldset", element("legend", given(name)), *rows, class_="field")
    told = " (sent openly)" if facts["open"] else ""
    if facts["kind"] in ("numeric", "ordinal"):
        ends = f"{plain_number(facts['low'])} to {plain_number(facts['high'])}"
        step = "1" if facts["kind"] == "ordinal" else "any"
        entry = element("input", id=id_, type="number", step=step, min=facts["low"], max=facts["high"])
        return element("p", element("label", given(name), f", {ends}{told}", for_=id_), entry, class_="field")
    if "labels" in facts:
        return element(
            "p", element("label", given(name), told, for_=id_), _select(id_, facts["labels"]), class_="field"
        )
    longest = facts.get("longest")
    entry = element("input", id=id_, type="text", maxlength=longest, autocomplete="off", spellcheck="false")
    return element("p", element("label", given(name), told, for_=id_), entry, class_="field")


def _select(id_: str, labels: list[str], **more: Any) -> Markup:
    options = (element("option", label, value=place) for place, label in enumerate(labels))
    return element("select", element("option", "no answer", value=""), *options, id=id_, **more)


def _key_row(facts: dict[str, Any], id_: str, row: int) -> Markup:
    ends = f"{plain_number(facts['low'])} to {plain_number(facts['high'])}"
    name = facts["name"]
    key = f"Key {row + 1} of {name}"
    entry = (
        _select(f"{id_}-key-{row}", facts["labels"], aria_label=key)
        if "labels" in facts
        else element(
            "input", id=f"{id_}-key-{row}", type="number", step="1", min=0, max=facts["keys"] - 1, aria_label=key
        )
    )
    value = element(
        "input",
        id=f"{id_}-value-{row}",
        type="number",
        step="any",
        min=facts["low"],
        max=facts["high"],
        placeholder=ends,
        aria_label=f"Its value, {ends}",
    )
    return element("div", entry, value, class_="row")
