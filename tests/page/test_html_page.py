"""The page: well-formed, closed, escaped, and with the numbers of the estimates."""

import html
import json
import re
import shutil
import struct
import subprocess
import zlib
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.display.markup import Markup, element, joined
from dither.display.markup import given as named
from dither.display.svg import at, picture, ticks
from dither.errors import ParameterError
from dither.page.cards import NOBODY, _dependence
from dither.page.html_page import TITLE, html_page, promise_in_words
from marks import wide

USERS = 20_000
NASTY = "<script>alert('x')</script>"
LABELS = [
    NASTY,
    "a \"quoted\" & 'single' label",
    "\U0001f469\u200d\U0001f680 and \U0001f680",
    "x" * 300,
    "\u0645\u0631\u062d\u0628\u0627",
    '"><img src=x onerror=alert(1)>',
    "</title></svg></style>",
    "nul\x00 and bell\x07",
    "line\nbreak",
    "other",
]
SCHEMA = Schema(
    {
        "income": Numeric(-10_000, 200_000, missing=0),
        NASTY.replace("(", "").replace(")", ""): Categorical(LABELS),
        "rating": Ordinal(1, 5),
        "age": Ordinal(18, 99),
        "town": Categorical([f"town {place}" for place in range(100)], other="town 7"),
        "films": KeyValue([f"film <{number}>" for number in range(20)], size=2, low=1, high=5),
    }
)
ODD = list(SCHEMA)[1]
RANGES = f"ranges(age, income, rating, {ODD}, town)"
ASK = ["mean(income)", f"histogram({ODD})", "rating", "age", "town", "films", "distribution(income)", RANGES]


def table(users: int) -> dict[str, Any]:
    random = np.random.default_rng(7)
    return {
        "income": random.uniform(0, 80_000, users),
        ODD: np.array(LABELS, dtype=object)[np.minimum(random.geometric(0.3, users) - 1, 9)],
        "rating": random.integers(1, 6, users),
        "age": random.integers(18, 60, users),
        "town": np.array([f"town {place}" for place in range(100)])[np.minimum(random.geometric(0.2, users) - 1, 99)],
        "films": [{f"film <{first}>": 5.0, f"film <{first + 1}>": 2.0} for first in random.integers(0, 19, users)],
    }


@pytest.fixture(scope="module")
def plan():
    return dither.plan(SCHEMA, 4.0, users=USERS, ask=ASK)


@pytest.fixture(scope="module")
def tally(plan):
    return plan.tally(plan.randomize(table(USERS), seed=3))


@pytest.fixture(scope="module")
def estimates(plan, tally):
    return plan.estimate(tally)


@pytest.fixture(scope="module")
def refined(plan, tally):
    return plan.estimate(tally, refine="auto")


@pytest.fixture(scope="module")
def shown(plan, estimates):
    return Page(html_page(plan, estimates))


class Page(HTMLParser):
    """A page taken apart: every tag is closed where it should be, or it is no page."""

    VOID = frozenset({"meta", "br", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.html = text
        self.stack: list[tuple[str, dict]] = []
        self.tags: list[tuple[str, dict]] = []
        self.texts: dict[str, list[str]] = {}  # of everything, and of each element with an id
        self.headings: list[tuple[int, str]] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag not in self.VOID:
            self.stack.append((tag, found))

    def handle_startendtag(self, tag, attrs):
        assert tag in {"line", "rect", "path", "circle"}
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self.stack
        assert self.stack.pop()[0] == tag

    def handle_data(self, data):
        if any(tag == "style" for tag, _ in self.stack):
            return
        self.texts.setdefault("", []).append(data)
        for tag, found in self.stack:
            if "id" in found:
                self.texts.setdefault(found["id"], []).append(data)
            if re.fullmatch("h[1-6]", tag):
                level, heading = self.headings[-1]
                self.headings[-1] = level, heading + data

    def text(self, place: str = "") -> str:
        return " ".join(" ".join(self.texts[place]).split())

    def card(self, question: str) -> str:
        """The text of the card of a question."""
        anchors = [found["id"] for tag, found in self.tags if tag == "article"]
        (place,) = [anchor for anchor in anchors if f" {question} " in f" {self.text(anchor)} "]
        return self.text(place)

    def row(self, first: str) -> list[str]:
        """The cells of the first table row with this head."""
        for line in re.findall("<tr>(.*?)</tr>", self.html):
            cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall("<t[hd][^>]*>(.*?)</t[hd]>", line)]
            if cells[0] == first:
                return cells
        raise AssertionError(f"no row begins with {first}")


def read(text: str) -> float:
    return float(text.replace(",", "").replace("\u2212", "-").removesuffix("%"))


def agrees(text: str, number: float) -> bool:
    """Whether a text is this number, rounded somewhere behind its first digits."""
    digits = text.removesuffix("%").replace(",", "")
    unit = 10.0 ** -len(digits.partition(".")[2]) if "." in digits else 10.0 ** (len(digits) - len(digits.rstrip("0")))
    return abs(read(text) - number) <= 0.51 * unit


# The page as a page ------------------------------------------------------------------------------------------------


def test_it_is_one_closed_page(shown):
    assert shown.html.startswith("<!DOCTYPE html>\n<html")
    tags = [tag for tag, _ in shown.tags]
    assert not {"script", "link", "iframe", "object", "embed", "form", "base"} & set(tags)
    words = re.sub("data:image/png;base64,[A-Za-z0-9+/=]+", "", shown.html)
    assert not re.search(r"url\(|@import|javascript:|https?:|//[a-z]", words)
    for tag, found in shown.tags:
        assert not any(name.startswith("on") for name in found), tag
        assert found.get("href", "#").startswith("#")
        assert found.get("src", "data:image/png;base64,").startswith("data:image/png;base64,")


def test_it_can_be_read_by_everybody(shown):
    assert ("html", {"lang": "en"}) in shown.tags
    assert any(found.get("name") == "viewport" for _, found in shown.tags)
    assert any("default-src 'none'" in found.get("content", "") for _, found in shown.tags)
    levels = [level for level, _ in shown.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(heading.strip() for _, heading in shown.headings)
    assert all("alt" in found for tag, found in shown.tags if tag == "img")
    for tag, found in shown.tags:
        if tag == "svg":
            assert found.get("aria-hidden") == "true" or (found["role"] == "img" and found["aria-label"])


def test_links_lead_somewhere(shown):
    places = [found["id"] for _, found in shown.tags if "id" in found]
    assert len(places) == len(set(places))
    links = {found["href"].removeprefix("#") for tag, found in shown.tags if tag == "a"}
    assert links == {place for place in places if place.startswith("question-")}


def test_every_question_is_there(plan, shown):
    for question in map(str, plan.questions):
        assert shown.card(question)
        assert shown.row(html.escape(question))


def test_labels_are_texts(shown):
    names = shown.card(f"histogram({ODD})")
    for label in LABELS:
        clean = " ".join(label.replace("\x00", "\ufffd").replace("\x07", "\ufffd").split())
        assert (clean if len(clean) <= 60 else f"{clean[:30]}…{clean[-29:]}") in names
    assert "\x00" not in shown.html
    assert "alert" in shown.text()
    assert "<script" not in shown.html
    assert "<img src=x" not in shown.html


def test_titles_and_queries_are_texts(plan, estimates):
    told = Page(html_page(plan, estimates, title=NASTY, queries=[(f"job = '{NASTY}'", 0.5, 0.4, 0.6, None)]))
    assert (1, NASTY) in told.headings
    assert f"job = '{NASTY}'" in told.text()
    assert "<script" not in told.html


def test_it_is_small(plan, refined, shown):
    assert len(shown.html) < 250_000


def test_many_attributes_with_many_labels_stay_below_a_megabyte():
    names = [f"attribute {number}" for number in range(12)]
    schema = Schema({name: Categorical([f"{name}, label {place}" for place in range(1000)]) for name in names})
    ask = [*names[:11], f"ranges({', '.join(names[:3])})"]
    plan = dither.plan(schema, 8.0, users=10**7, ask=ask)
    rows = np.random.default_rng(1).integers(0, 1000, 2000)
    data = {name: np.array(schema[name].labels)[rows] for name in names}  # type: ignore[union-attr]
    written = html_page(plan, plan.estimate(plan.tally(plan.randomize(data, seed=1))))
    assert len(written.encode()) < 1_000_000
    assert "And 980 more" in Page(written).card("histogram(attribute 3)")


# Its numbers -------------------------------------------------------------------------------------------------------


def test_means(estimates, shown):
    estimate = estimates["mean(income)"]
    low, high = estimate.interval(0.95)
    text = shown.card("mean(income)")
    value, least, most = re.search(r"income (\S+) 95% interval: (\S+) to (\S+)", text).groups()  # type: ignore[union-attr]
    assert agrees(value, estimate.value)
    assert agrees(least, low)
    assert agrees(most, high)
    assert "\u221210,000 200,000" in text  # the ends of the domain
    assert f"from {estimate.n:,} reports" in text


def lines(text: str) -> list[tuple[str, float, float, float]]:
    """Labels with numbers and intervals, as a card of shares shows them."""
    found = re.findall(r"(town \d+|\b\d) (\S+)% (\S+) to (\S+)%", text)
    return [(label, *map(read, numbers)) for label, *numbers in found]  # type: ignore[misc]


def test_the_largest_shares_come_first_with_wider_intervals(estimates, shown):
    estimate = estimates["histogram(town)"]
    found = lines(shown.card("histogram(town)"))
    order = np.argsort(-estimate.value, kind="stable")[:20]
    low, high = estimate.interval(0.95, simultaneous=True)
    assert [label for label, *_ in found] == [f"town {place}" for place in order]
    for (_, *numbers), place in zip(found, order, strict=True):
        for number, part in zip(numbers, (estimate.value, low, high), strict=True):
            assert abs(number - 100 * part[place]) <= 0.51
    assert "And 80 more" in shown.card("histogram(town)")
    assert "95% for all at once" in shown.card("histogram(town)")


def test_the_largest_refined_shares_hold_at_once_too(plan, refined):
    text = Page(html_page(plan, refined)).card("histogram(town)")
    estimate = refined["histogram(town)"]
    low, high = estimate.interval(0.95, simultaneous=True)
    assert lines(text)
    for label, value, least, most in lines(text):
        place = int(label.removeprefix("town "))
        assert abs(value - 100 * estimate.value[place]) <= 0.51
        assert abs(least - 100 * low[place]) <= 0.51
        assert abs(most - 100 * high[place]) <= 0.51
    assert "95% for all at once" in text


def test_few_whole_numbers_stay_in_order(estimates, shown):
    found = lines(shown.card("distribution(rating)"))
    assert [label for label, *_ in found] == list("12345")
    assert all(
        abs(value - 100 * true) <= 0.51 for (_, value, *_), true in zip(found, estimates["rating"].value, strict=True)
    )


def test_keys_have_a_mean_beside(estimates, shown):
    text = shown.card("presence(films)")
    held, means = estimates["presence(films)"], estimates["conditional_mean(films)"]
    found = re.findall(r"film <(\d+)> (\S+)% \S+ to \S+% mean of those (\S+) \S+ to \S+", text)
    assert len(found) == 15
    assert [int(place) for place, *_ in found] == np.argsort(-held.value, kind="stable")[:15].tolist()
    for place, share, mean in found:
        assert agrees(share, 100 * held.value[int(place)])
        assert agrees(mean, means.value[int(place)])
    assert "And 5 more keys." in text
    assert "from 1 to 5" in text


def test_means_over_all_users_are_those_farthest_from_the_middle(estimates, shown):
    text, value = shown.card("mean(films)"), estimates["mean(films)"].value
    found = re.findall(r"film <(\d+)> (\S+) \S+ to \S+", text)
    chosen = sorted(np.argsort(-np.abs(value - 3), kind="stable")[:15].tolist(), key=lambda place: -value[place])
    assert [int(place) for place, _ in found] == chosen
    assert all(agrees(mean, value[int(place)]) for place, mean in found)
    assert "counts as 3, the middle. These keys are farthest from it." in text


def test_the_largest_share_of_a_distribution_is_told(estimates, shown):
    estimate = estimates["distribution(age)"]
    told = [
        found["aria-label"]
        for tag, found in shown.tags
        if tag == "svg" and "at each value of age" in found.get("aria-label", "")
    ]
    assert f"at {estimate.labels[int(np.argmax(estimate.value))]}." in told[0]
    assert len(told) == 2  # and of the ranges


def test_pairs(plan, shown):
    maps = [found["alt"] for tag, found in shown.tags if tag == "img" and found["alt"]]
    parted = [re.findall(r"Heat map of (.+) \(across\) and (.+) \(\w+\):", told)[0] for told in maps]
    names = ["age", "income", "rating", ODD, "town"]
    maps_of = [frozenset(pair) for pair in parted]
    for table in plan.tables:
        if frozenset(table.names) in maps_of:
            maps_of.remove(frozenset(table.names))
    drawn = set(maps_of)
    (rest,) = re.findall(r"Not drawn: (.*?)\. ranges", shown.card(RANGES))
    listed = {frozenset(pair.strip().split(" with ")) for pair in re.sub(" +,", ",", rest).split(", ")}
    assert len(drawn) == 6
    assert drawn | listed == {frozenset(pair) for pair in combinations(names, 2)}
    assert not drawn & listed


def test_dependence():
    assert _dependence(np.outer([0.2, 0.8], [0.5, 0.5])) == pytest.approx(0.0, abs=1e-12)
    assert _dependence(np.eye(2) / 2) == pytest.approx(np.log(2))
    assert _dependence(np.zeros((2, 2))) == -np.inf


def test_queries(plan, estimates):
    queries = [
        ("age <= 40", 0.25, 0.2, 0.3, 0.31),
        ("age > 40", 0.75, 0.7, 0.8, 0.71),
        ("age = 20", 0.1, 0.0, 0.2, None),
    ]
    told = Page(html_page(plan, estimates, queries=queries))
    assert told.row("age &lt;= 40")[1:] == ["25.0%", "20.0 to 30.0%", "31.0%", "no"]
    assert told.row("age &gt; 40")[-1] == "yes"
    assert told.row("age = 20")[-2:] == ["", ""]
    assert "Answers to queries" not in html_page(plan, estimates)
    with pytest.raises(ParameterError, match="a query is"):
        html_page(plan, estimates, queries=[("age <= 40", 0.25)])  # type: ignore[list-item]


# Errors, truth, refinement -----------------------------------------------------------------------------------------


def test_errors_beside_the_truth(plan, refined):
    truth = {"histogram(town)": np.full(100, 0.01), "mean(income)": 40_000.0}
    told = Page(html_page(plan, refined, truth=truth))
    estimate = refined["histogram(town)"]
    low, high = estimate.interval(0.95)
    name, numbers, predicted, stated, after, before, real, inside = told.row("histogram(town)")
    assert numbers == "100"
    for text, number in [
        (predicted, plan.predicted["histogram(town)"]),
        (stated, np.sqrt(np.mean(estimate.original.stderr**2))),
        (after, np.sqrt(np.mean(estimate.stderr**2))),
        (before, np.sqrt(np.mean((estimate.original.value - 0.01) ** 2))),
        (real, np.sqrt(np.mean((estimate.value - 0.01) ** 2))),
    ]:
        assert agrees(text, 100 * number)
    assert inside == f"{100 * np.mean((low <= 0.01) & (high >= 0.01)):.0f}%"
    assert told.row("histogram(town)")[0] == name
    assert told.row("distribution(age)")[-1] == "\u2013"
    assert "marks the truth" in told.text()
    assert any(found.get("class") == "truth" for _, found in told.tags)


def test_without_a_truth_there_are_no_marks(shown):
    assert "marks the truth" not in shown.text()
    assert not any(found.get("class") == "truth" for _, found in shown.tags)
    assert len(shown.row("histogram(town)")) == 4


def test_a_page_with_truths_says_that_they_are_not_protected(plan, shown):
    """They are exact statistics of raw records, on a page that speaks of epsilon."""
    found = plan.estimate(plan.tally(plan.randomize(table(500))))
    queries = [("age = 20", 0.1, 0.0, 0.2, 0.11)]
    for written in (html_page(plan, found, truth={"mean(income)": 40_000.0}), html_page(plan, found, queries=queries)):
        told = Page(written)
        assert "not a private page" in told.text()
        assert "computed from raw records" in told.text()
        assert "must not be given away as private" in told.text()
        assert "nothing protects them: whoever knows" in told.text()  # once more, among the limits
        assert "No answers were collected" not in told.text()
        assert "Nothing on it is about one of them" not in told.text()
        assert "privacy of the reports: epsilon" in told.text()
        assert "Simulated" not in told.text()
    unknown = Page(html_page(plan, found, queries=[("age = 20", 0.1, 0.0, 0.2, None)]))
    for without in (shown, unknown):
        assert "raw records" not in without.text()
        assert "No answers were collected" in without.text()
        assert "Nothing on it is about one of them" in without.text()


def test_blank_labels_can_be_seen():
    schema = Schema({"job": Categorical(["", " ", "other"], missing=""), "age": Ordinal(1, 4)})
    plan = dither.plan(schema, 4.0, users=300, ask=["histogram(job)", "ranges(age, job)"])
    found = plan.estimate(plan.tally(plan.randomize({"job": ["", " ", "other"] * 100, "age": [1, 2, 3] * 100}, seed=1)))
    told = Page(html_page(plan, found))
    assert "<bdi></bdi>" not in told.html
    assert "<bdi> </bdi>" not in told.html
    assert '""' in told.card("histogram(job)")
    assert '" "' in told.card("histogram(job)")
    assert told.row("job")[2:] == ["&quot;&quot;", "other"]


def test_refined_and_before(plan, refined, shown):
    told = Page(html_page(plan, refined))
    before = refined["mean(income)"].original
    text = re.search(r"Refined\. Before: (\S+) ± (\S+)\.", told.card("mean(income)"))
    assert text
    assert agrees(text[1], before.value)
    assert agrees(text[2], before.stderr)
    assert "Refined: the standard error is" in told.card("histogram(town)")
    assert "Refined numbers learn from each other" in told.text()
    assert "Refined" not in shown.text()


def test_truths_that_do_not_fit_are_refused(plan, estimates):
    with pytest.raises(ParameterError, match="one number for each"):
        html_page(plan, estimates, truth={"histogram(town)": [1.0]})
    with pytest.raises(ParameterError, match="not estimates of this plan"):
        html_page(dither.plan(Schema({"a": Numeric(0, 1)}), 1.0, users=1000), estimates)


# What was left out -------------------------------------------------------------------------------------------------


def test_reports_that_were_left_out_are_told_by_reason(plan, shown):
    dropped = {"malformed": 1, "another plan": 2345, "wrong length": 3, "out of range": 4, "simulated": 5}
    tally = replace(plan.tally(plan.randomize(table(500), seed=1)), dropped=dropped)
    told = Page(html_page(plan, plan.estimate(tally))).text()
    assert "Reports that were left out" in told
    assert "2,358" in told
    for reason, count in dropped.items():
        assert reason in told
        assert f"{count:,}" in told
    assert "500 people" in told  # who are counted
    assert "left out" not in shown.text()


# Promises ----------------------------------------------------------------------------------------------------------


def test_simulated_reports_have_no_guarantee(plan, estimates, shown):
    assert estimates.guarantee.simulated
    assert "Simulated: no guarantee." in shown.text()
    assert any("simulated" in found.get("class", "").split() for _, found in shown.tags)


def test_real_reports_have_one(plan):
    found = plan.estimate(plan.tally(plan.randomize(table(500))))
    told = Page(html_page(plan, found))
    assert "Simulated" not in told.text()
    assert not any("simulated" in found.get("class", "").split() for _, found in told.tags)
    assert str(plan.guarantee) in told.text()
    assert "500 people" in told.text()


@pytest.mark.parametrize(
    ("guarantee", "told"),
    [
        (Guarantee(1.0), ("e^1 = 2.72", "at most 73.2% of the time", "Exact:")),
        (Guarantee(0.0), ("e^0 = 1", "at most 50% of the time", "Exact:")),
        (
            Guarantee(2.0, 0.01, "bound"),
            ("e^2 = 7.39", "at most delta = 0.01", "at most 88.2% of the time", "A bound:"),
        ),
        (Guarantee(5.0), ("e^5 = 149", "at most 99.4% of the time")),
        (Guarantee(1000.0), ("at most 100% of the time",)),
        (NO_GUARANTEE, ("Nothing is promised.",)),
    ],
)
def test_promises_in_words(guarantee, told):
    words = " ".join(promise_in_words(guarantee))
    for part in told:
        assert part in words
    assert ("delta" in words) == (guarantee.delta > 0)


def test_a_promise_says_whom_it_protects_against():
    shuffled = " ".join(promise_in_words(Guarantee(0.2, 1e-6, "bound", model="shuffled")))
    assert "shuffle differential privacy, epsilon 0.2, delta 1e-6 (bound) once shuffled" in shuffled
    assert "trust in the shuffler" in shuffled
    central = " ".join(promise_in_words(Guarantee(2.0, 1e-5, "bound", model="central", neighbours="add-remove")))
    assert "central differential privacy" in central
    assert "trust in the server" in central
    assert "added or taken away" in central
    for other in (shuffled, central):  # only a local guarantee may say so
        assert "randomised before it left" not in other
    assert "randomised before it left" in " ".join(promise_in_words(Guarantee(1.0)))


@settings(derandomize=True, deadline=None)
@given(some.floats(0, 20), some.sampled_from([0.0, 1e-6, 0.1]))
def test_no_promise_is_too_good(epsilon, delta):
    words = " ".join(promise_in_words(Guarantee(epsilon, delta)))
    factor = read(re.search(r"= (\S+) if", words)[1])  # type: ignore[index]
    guess = read(re.search(r"at most (\S+)% of the time", words)[1])  # type: ignore[index]
    exact = (np.exp(epsilon) + delta) / (np.exp(epsilon) + 1)
    assert factor >= np.exp(epsilon) * (1 - 1e-12)
    assert min(100, 100 * exact) - 1e-9 <= guess <= 100 * exact + 0.11


# The plan, and what is missing -------------------------------------------------------------------------------------


def test_the_plan(plan, shown):
    text = shown.text()
    assert plan.fingerprint in text
    assert f"dither {dither.__version__}" in text
    for line in plan.explain().splitlines():
        assert " ".join(line.split()) in text
    for part in plan.parts:
        assert type(part.mechanism).__name__ in text
        assert str(part.mechanism.guarantee) in text


def test_substitutes(shown):
    assert shown.row("income")[1:] == ["\u221210,000 to 200,000", "0", "the nearer end"]
    assert shown.row("town")[1:] == ["100 labels", "town 7", "town 7"]
    assert shown.row("age")[2] == "58"
    assert shown.row("films")[2] == "no keys"


def test_a_label_for_what_is_missing():
    schema = Schema({"job": Categorical(["nurse", "unknown", "other"], missing="unknown")})
    plan = dither.plan(schema, 1.0, users=100)
    found = plan.estimate(plan.tally(plan.randomize({"job": ["nurse"] * 100}, seed=1)))
    assert Page(html_page(plan, found)).row("job")[2:] == ["unknown", "other"]


def test_nobody_was_asked(plan):
    found = plan.estimate(plan.tally(plan.randomize(table(1), seed=1)))
    told = Page(html_page(plan, found))
    asked = [name for name, estimate in found.items() if estimate.n]
    for question in map(str, plan.questions):
        assert (NOBODY in told.card(question)) == (question not in asked)
    assert 0 < len(asked) < len(found)
    assert not re.search(r"\bnan\b|\binf\b", told.text(), re.IGNORECASE)
    assert "1 people" not in told.text()


def test_numbers_that_are_not_known_are_called_so(plan, estimates):
    odd = estimates["conditional_mean(films)"]
    broken = replace(odd, value=np.full(20, np.nan), stderr=np.full(20, np.inf))
    told = Page(html_page(plan, replace(estimates, parts={**estimates.parts, "conditional_mean(films)": broken})))
    assert told.card("presence(films)").count("mean of those unknown") == 15
    assert "nan" not in told.card("presence(films)")


def test_means_of_keys_stand_alone_where_nobody_asked_who_has_them():
    plan = dither.plan(Schema({"keys": KeyValue(keys=4, size=1)}), 4.0, users=1000, ask=["mean(keys)"])
    found = plan.estimate(plan.tally(plan.randomize({"keys": [{0: 0.5}] * 1000}, seed=1)))
    told = Page(html_page(plan, found))
    assert "mean over all users" in told.card("mean(keys)")
    assert ("conditional_mean(keys)" in found) == ("conditional_mean(keys)" in told.text())


def test_a_title_of_its_own(plan, estimates, shown):
    assert (1, TITLE) in shown.headings
    assert (1, "Sleep of nurses") in Page(html_page(plan, estimates, title="Sleep of nurses")).headings


# Parts -------------------------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None)
@given(some.text())
def test_any_text_is_shown_as_it_is_written(text):
    told = Page(element("p", text, title=text, class_="a"))
    clean = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]", "\ufffd", text)
    assert "".join(told.texts.get("", [])).replace("\r", "\n") == clean.replace("\r", "\n")
    assert told.tags[0][1]["title"].replace("\r", "\n") == clean.replace("\r", "\n")
    assert len(told.tags) == 1


def test_only_markup_is_markup():
    assert element("b", Markup("<i>x</i>"), "<i>") == "<b><i>x</i>&lt;i&gt;</b>"
    assert joined(["<", Markup("<br>")], "; ") == "&lt;; <br>"
    assert element("img", src="a", alt=None) == '<img src="a">'
    assert "x" * 300 not in named("x" * 500).partition(">")[2]


@settings(derandomize=True, deadline=None)
@given(some.floats(-1e9, 1e9), some.floats(1e-6, 1e9), some.integers(2, 8))
def test_ticks_are_round_and_inside(first, width, most):
    found = ticks(first, first + width, most)
    assert len(found) <= max(most, 2)
    assert found == sorted(found)
    assert all(
        first - 1e-6 * width - 1e-9 * abs(first) <= tick <= first + width * (1 + 1e-6) + 1e-9 * abs(first)
        for tick in found
    )


def test_places():
    assert [at(x, 0, 4) for x in (0, 1, 4, 9, -9, float("nan"))] == ["0%", "25%", "100%", "100%", "0%", "0%"]
    assert at(1, 3, 3) == "0%"


def test_pictures_hold_the_table():
    table = np.array([[0.0, 0.5, 1.0], [1.0, 0.25, 2.0]])
    data = b64decode(picture(table, 1.0).partition(",")[2])
    chunks, place = {}, 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        name, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(name + content)
        chunks[name] = content
        place += 12 + length
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (3, 2, 8, 3, 0, 0, 0)
    assert len(chunks[b"PLTE"]) == 768
    dots = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(2, 4)
    assert dots.tolist() == [[0, 0, 128, 255], [0, 255, 64, 255]]
    assert picture(np.zeros((1, 1)), 0.0).startswith("data:image/png;base64,")


# In a browser ------------------------------------------------------------------------------------------------------

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
MEASURE = """<script>
const wide = [...document.querySelectorAll('body *')].filter(e => !e.parentElement.closest('.scroll, svg'))
  .filter(e => { const r = e.getBoundingClientRect(); return r.width && (r.right > innerWidth + .5 || r.left < -.5); })
  .map(e => e.tagName + ' ' + (e.getAttribute('class') || ''));
const right = e => e.getBoundingClientRect().right;
const empty = [...document.querySelectorAll('.cards')].map(e => right(e) - Math.max(...[...e.children].map(right)));
const told = {inner: innerWidth, scroll: document.documentElement.scrollWidth, wide, empty};
parent.document.body.textContent = 'measured ' + JSON.stringify(told) + ' end';
</script></body>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: how wide the page is cannot be measured")
@pytest.mark.parametrize("width", [360, wide(800)])
def test_nothing_is_wider_than_the_window(plan, refined, tmp_path, width):
    long = "an_attribute_with_a_name_that_no_phone_can_show_in_one_line_without_breaking_it"
    written = html_page(plan, refined, title=long * 2, queries=[(f"{long} = 1", 0.5, 0.4, 0.6, 0.45)])
    found = measured(written, width, tmp_path)
    assert (found["inner"], found["scroll"], found["wide"]) == (width, width, [])


@pytest.mark.wide
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: how wide the page is cannot be measured")
def test_what_is_too_wide_would_be_noticed(plan, refined, tmp_path):
    written = html_page(plan, refined).replace("<main>", '<main><p class="far" style="width:400px">far</p>')
    assert "P far" in measured(written, 360, tmp_path)["wide"]


@pytest.mark.wide
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: how wide the page is cannot be measured")
@pytest.mark.parametrize("width", [360, 800, 1280])
def test_two_cards_leave_no_column_empty(tmp_path, width):
    plan = dither.plan(SCHEMA, 4.0, users=500, ask=["mean(income)", "mean(age)", "histogram(town)", "age", "films"])
    found = plan.estimate(plan.tally(plan.randomize(table(500), seed=1)))
    empty = measured(html_page(plan, found), width, tmp_path)["empty"]
    assert len(empty) == 3  # means, shares, keys
    assert max(empty) < 2


def measured(written: str, width: int, folder: Path) -> dict[str, Any]:
    """What a browser says of a page in a frame of this width: its windows cannot be as narrow as a phone."""
    own = re.sub("<meta http-equiv[^>]*>", "", written).replace("</body>", MEASURE)  # itself it lets no script run
    frame = folder / "frame.html"
    inner = f'<iframe width="{width}" height="2000" style="border:0" srcdoc="{html.escape(own)}"></iframe>'
    frame.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{inner}</body>', encoding="utf-8")
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"]
    command += ["--disable-background-networking", f"--user-data-dir={folder / 'profile'}", "--window-size=1000,2100"]
    done = subprocess.run([*command, frame.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    found = re.search("measured (.*) end", done.stdout)
    assert found, done.stderr[-500:]
    return json.loads(html.unescape(found[1]))
