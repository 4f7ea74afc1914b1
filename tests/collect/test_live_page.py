"""The pages of a collector as HTTP: who sees what, what changes, and when streams end. Browsers are in test_browser."""

import gzip
import http.client
import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dither
from collect.collectors import Served, batches, other_plan, ranges_plan, serving, small_plan, started, waited_for
from collect.shufflers import ended
from dither.collect import SqliteStore
from dither.collect.live_page import POLICY, page_files
from dither.collect.live_streams import MOST_STREAMS
from dither.collect.store import ANALYST, CLOSED, Token
from dither.collect.tokens import token_digest
from dither.page.live_sections import answer_section, estimate_sections, pair_section, strict
from dither.planning.trial import answers_of
from dither.wire import BatchFormat

TOO_LONG = 60.0


def token_of(store: Path) -> dict[str, str]:
    return {"authorization": f"Bearer {(store / 'analyst.token').read_text().strip()}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("live") / "store"


@pytest.fixture(scope="module")
def served(place) -> Iterator[Served]:
    with serving(place, small_plan(), other_plan(), ranges_plan()) as found:
        yield found


@pytest.fixture(scope="module")
def analyst(served, place) -> dict[str, str]:
    return token_of(place)


def path_of(plan: dither.Plan, name: str) -> str:
    return f"/v1/plans/{plan.fingerprint}/{name}"


def view_of(served: Served, plan: dither.Plan, headers: dict[str, str], reports: int) -> dict[str, Any]:
    """What the page shows, once so many reports are in its results."""
    found: dict[str, Any] = {}

    def there() -> bool:
        status, body = served.json("GET", path_of(plan, "live"), None, headers)
        assert status == 200, body
        found.update(body)
        return f"results below</dt><dd>{reports:,}</dd>" in body["parts"]["facts"]

    waited_for(there)
    return found


@contextmanager
def stream(served: Served, plan: dither.Plan, headers: dict[str, str]) -> Iterator[http.client.HTTPResponse]:
    """An open stream of events."""
    link = http.client.HTTPConnection("127.0.0.1", served.port, timeout=TOO_LONG)
    try:
        link.request("GET", path_of(plan, "events"), headers=headers)
        yield link.getresponse()
    finally:
        link.close()


def events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a stream, until it ends."""
    name = ""
    for line in answer:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text[7:]
        elif text.startswith("data: "):
            yield name, json.loads(text[6:])


# Frames and files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/join", f"/join/{small_plan().fingerprint}"])
def test_pages_have_a_policy_without_exceptions_and_nothing_that_it_would_refuse(served, path):
    status, told, body = served.request("GET", path)
    assert (status, told["content-type"]) == (200, "text/html; charset=utf-8")
    assert told["content-security-policy"] == POLICY.format(more="")
    assert "unsafe" not in told["content-security-policy"]
    assert told["cache-control"] == "no-store"
    text = body.decode()
    assert not re.search(r"\sstyle=|\son[a-z]+=|<style|javascript:", text)
    scripts = [[f'<script type="module" src="/browser/{name}.js">'] for name in ("live", "join")]
    assert re.findall("<script[^>]*>", text) in [[], *scripts]
    assert not re.search(r"(src|href)=\"(https?:)?//", text)


def test_files_are_served_packed_where_that_is_taken(served):
    for name, (kind, whole, _) in page_files().items():
        status, told, body = served.request("GET", f"/browser/{name}")
        assert (status, told["content-type"], body) == (200, kind, whole)
        _, told, packed = served.request("GET", f"/browser/{name}", None, {"accept-encoding": "gzip"})
        assert (told["content-encoding"], gzip.decompress(packed)) == ("gzip", whole)
    assert {"live.js", "live.css", "join.js"} <= set(page_files())


def test_scripts_ask_nobody_else_and_evaluate_nothing():
    for name in ("live.js", "join.js"):
        text = page_files()[name][1].decode()
        assert not re.search(r"https?://|eval\(|new Function|document\.write|\.cookie|insertAdjacentHTML", text), name


# Who sees what --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["live", "pair?first=age&second=size", "events"])
def test_results_need_a_token(served, place, name):
    path = path_of(ranges_plan(), name)
    assert served.json("GET", path)[0] == 401
    assert served.json("GET", path, None, {"authorization": "Bearer " + "x" * 43})[0] == 401
    assert served.json("GET", "/v1/campaigns")[0] == 401


def test_a_token_for_one_campaign_shows_that_one(served, place, analyst):
    with SqliteStore(place) as store:
        number = next(each.number for each in store.campaigns() if each.plan == other_plan().fingerprint)
        store.add_token(Token(token_digest("o" * 43), ANALYST, number, None))
    own = {"authorization": f"Bearer {'o' * 43}"}
    waited_for(lambda: served.json("GET", "/v1/campaigns", None, own)[0] == 200)
    assert [each["plan"] for each in served.json("GET", "/v1/campaigns", None, own)[1]] == [other_plan().fingerprint]
    assert len(served.json("GET", "/v1/campaigns", None, analyst)[1]) == 3
    assert served.json("GET", path_of(small_plan(), "live"), None, own)[0] == 403


def test_a_page_is_noted_once_and_not_each_time_that_it_is_brought_up_to_date(served, place, analyst):
    plan = other_plan()
    version = served.json("GET", path_of(plan, "live"), None, analyst)[1]["version"]
    with SqliteStore(place) as store:
        number = next(each.number for each in store.campaigns() if each.plan == plan.fingerprint)
        before = [row[2] for row in store.queries(number)]
        for _ in range(3):
            served.json("GET", path_of(plan, f"live?seen={version}"), None, analyst)
        assert [row[2] for row in store.queries(number)] == before
        assert before.count("live page") >= 1


# What it shows --------------------------------------------------------------------------------------------------------


def test_the_view_is_what_the_report_would_draw_and_only_what_has_changed_comes_again(served, analyst):
    plan, bodies = small_plan(), batches(small_plan(), 600, 100)
    before = served.json("GET", path_of(plan, "live"), None, analyst)[1]
    assert "not enough reports yet" in before["parts"]["results"].lower()
    for number, body in enumerate(bodies):
        assert served.send(plan, body, f"view-{number}")[0] == 200
    found = view_of(served, plan, analyst, 600)
    form = BatchFormat(plan)
    tally = form.tally([form.check(body) for body in bodies])
    drawn = strict(estimate_sections(plan, plan.estimate(tally), plan.goodness(tally)))
    assert {name: found["parts"][name] for name in drawn} == drawn
    assert set(found["parts"]) == {"facts", "arrivals", "rejected", "outlook", "results", "promise", "trust", "plan"}
    again = served.json("GET", path_of(plan, f"live?seen={found['version']}"), None, analyst)[1]
    assert set(again["parts"]) == {"facts", "arrivals", "rejected"}
    assert again["version"] == found["version"] > before["version"]


def test_rejected_reports_are_told_by_reason_also_after_a_restart(tmp_path):
    plan, store = other_plan(), tmp_path / "store"
    with serving(store, plan) as served:
        good, bad = batches(plan, 8, 8)[0], bytearray(batches(plan, 2, 2)[0])
        assert served.send(plan, good, "good")[0] == 200
        bad[-1] = 0xFF  # one of two reports names a category that there is not
        assert served.send(plan, bytes(bad), "bad")[1] == {
            "accepted": 1,
            "rejected": {"out of range": 1},
            "duplicate": False,
        }
        assert served.send(plan, bytes(bad), "bad")[1]["duplicate"]
    with serving(store) as served:
        found = view_of(served, plan, token_of(store), 9)["parts"]
    assert "1 of 10 reports were rejected" in found["rejected"]
    assert "out of range" in found["rejected"]


def test_conditions_and_pairs_are_drawn(served, place, analyst):
    plan = ranges_plan()
    table = {"age": [i % 16 for i in range(2000)], "size": [(i // 16) % 16 for i in range(2000)]}
    body = plan.pack(plan.randomize(table))
    assert served.send(plan, body, "ranges")[0] == 200
    found = view_of(served, plan, analyst, 2000)
    assert found["ranges"] == [
        {"question": "ranges(age, size)", "attributes": ["age", "size"], "example": "age <= 7 and size <= 7"}
    ]
    form, asked = BatchFormat(plan), "age between 2 and 5 and size <= 7"
    estimates = plan.estimate(form.tally([form.check(body)]))
    headers = {**analyst, "content-type": "application/json", "accept": "text/html"}
    status, told, drawn = served.request(
        "POST", path_of(plan, "query"), json.dumps({"conditions": [asked]}).encode(), headers
    )
    trial = answers_of(plan, estimates, [asked])
    assert (status, told["content-type"]) == (200, "text/html; charset=utf-8")
    assert drawn.decode() == strict({"a": answer_section(trial)})["a"]
    status, pair = served.json("GET", path_of(plan, "pair?first=size&second=age"), None, analyst)
    html, sides = pair_section(estimates.ranges(), "size", "age")
    assert (status, pair["html"]) == (200, strict({"a": html})["a"])
    assert pair["sides"] == json.loads(json.dumps(sides))
    for wrong in ("pair?first=size&second=size", "pair?first=nothing&second=age", "pair"):
        assert served.json("GET", path_of(plan, wrong), None, analyst)[0] == 422


def test_a_plan_with_rounds_shows_the_last_one_or_the_chosen(tmp_path):
    schema = dither.Schema({"job": dither.Categorical(["a", "b", "c"])})
    plan = dither.plan(schema, epsilon=2.0, users=1000, rounds=3)
    with serving(tmp_path / "store", plan) as served:
        answers = plan.randomize_rounds([{"job": ["a"] * 900}, {"job": ["b"] * 900}])
        sent = 0
        for period, reports in zip(plan.schedule.periods, answers, strict=False):
            assert served.send(plan, plan.pack(reports, period=period), str(period))[0] == 200
            sent += sum(map(len, reports.values()))
        headers = token_of(tmp_path / "store")
        names = [str(period) for period in plan.schedule.periods[:2]]
        found = view_of(served, plan, headers, sent)["parts"]
        assert [name for name in names if f'value="{name}"' in found["rounds"]] == names
        assert f'value="{names[1]}" selected' in found["rounds"]
        chosen = served.json("GET", path_of(plan, f"live?round={names[0]}"), None, headers)[1]["parts"]
        assert f'value="{names[0]}" selected' in chosen["rounds"]
        assert chosen["results"] != found["results"]


# Streams --------------------------------------------------------------------------------------------------------------


def test_a_stream_tells_what_comes_and_ends_with_the_campaign(tmp_path):
    plan, store = other_plan(), tmp_path / "store"
    with serving(store, plan) as served, stream(served, plan, token_of(store)) as answer:
        assert answer.getheader("content-type") == "text/event-stream"
        assert (answer.getheader("x-accel-buffering"), answer.getheader("cache-control")) == ("no", "no-store")
        told = events(answer)
        assert next(told)[1]["reports"] == 0
        assert served.send(plan, batches(plan, 50, 50)[0], "one")[0] == 200
        _, progress = next(each for each in told if each[1]["reports"] == 50)
        assert (progress["state"], progress["rejected"]) == ("open", 0)
        with SqliteStore(store) as opened:
            opened.change_campaign(1, state=CLOSED)
        rest = list(told)
        assert rest[-1] == ("end", {"state": "closed"})
        last = rest[-2][1] if len(rest) > 1 else progress
        shown = served.json("GET", path_of(plan, "live"), None, token_of(store))[1]
        assert (last["version"], last["waiting"]) == (shown["version"], 0)  # nothing is left to be told
        assert "results below</dt><dd>50</dd>" in shown["parts"]["facts"]


def test_streams_end_when_a_campaign_is_deleted_and_their_number_is_bounded(tmp_path):
    plan, store = other_plan(), tmp_path / "store"
    with serving(store, plan) as served:
        headers, some = token_of(store), []
        for _ in range(MOST_STREAMS):
            link = http.client.HTTPConnection("127.0.0.1", served.port, timeout=TOO_LONG)
            link.request("GET", path_of(plan, "events"), headers=headers)
            answer = link.getresponse()
            assert answer.status == 200
            answer.readline()
            some.append((link, answer))
        assert served.json("GET", path_of(plan, "events"), None, headers)[0] == 503
        some[0][0].close()
        some[0][1].close()

        def room() -> bool:
            with stream(served, plan, headers) as again:
                return again.status == 200

        waited_for(room)  # whoever left makes room
        with SqliteStore(store) as opened:
            opened.delete_campaign(1)
        assert list(events(some[1][1]))[-1] == ("end", {"state": "deleted"})
        for link, answer in some:
            answer.close()
            link.close()


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_server_that_stops_does_not_wait_for_streams(tmp_path, number):
    """It has 20 seconds for open requests: a stream that went on would take all of them."""
    plan, store = other_plan(), tmp_path / "store"
    served = started(store, plan)
    try:
        with stream(served, plan, token_of(store)) as answer:
            answer.readline()
            served.process.send_signal(number)
            rest = answer.read()  # to the end of the stream, which is a proper one
            assert b"event: end" not in rest
        assert served.process.wait(TOO_LONG) == 0
    finally:
        ended(served)
