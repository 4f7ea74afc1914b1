"""A collection from a web page, in a real browser: every byte that is shown is sent, and what is sent is counted once.

The bits are the browser's own, so results differ from run to run. What is said about estimates fails with probability
1e-6 at most for honest code: intervals are for all numbers at once at that level, and the goodness of fit has its own.
"""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dither
from collect.browsers import MISSING, Watched, chromium, faults, too_wide
from collect.collectors import Served, serving, started, waited_for
from collect.shufflers import ended, figures_of, shuffler_started, with_key
from collect.test_browser import address_of, rich_plan, shows
from dither.collect import SqliteStore
from dither.collect.live_page import page_files
from dither.planning import PlanTally
from dither.planning.trial import truths
from dither.wire import BatchFormat

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
    pytest.mark.skipif("dither-client-sealed.min.js" not in page_files(), reason="the JavaScript client is not built"),
]

USERS, BATCH, FALSE_ALARM = 2000, 500, 1e-6
JOBS = ["nurse", "driver", "teacher", "other"]

# One device a user, each with a store of its own in memory; some at a time. What they were told is added up.
REPORT = """
  globalThis.report = async ({ plan, records, shuffler }) => {
    const { Client } = await import("/browser/dither-client-sealed.min.js");
    const told = { accepted: 0, pending: 0, refused: 0, duplicates: 0 };
    const waiting = [...records];
    const work = async () => {
      for (let record = waiting.pop(); record; record = waiting.pop()) {
        const device = await Client.open(location.origin, { plan, store: null, shuffler, patience: 120 });
        const found = await device.send(record);
        for (const name of Object.keys(told)) told[name] += found[name];
      }
    };
    await Promise.all(Array.from({ length: 6 }, work));
    return told;
  };
"""


def small_plan() -> dither.Plan:
    schema = dither.Schema(
        {"job": dither.Categorical(JOBS), "age": dither.Ordinal(0, 9), "income": dither.Numeric(0, 100)}
    )
    return dither.plan(schema, epsilon=3.0, users=USERS, ask=["histogram(job)", "distribution(age)", "mean(income)"])


def population() -> dict[str, list[Any]]:
    """Made users: nurses are many, and older ones earn more."""
    draw = np.random.default_rng(7)
    age = np.clip(draw.normal(4, 2, USERS), 0, 9).astype(int)
    income = np.clip(20 + 6 * age + draw.normal(0, 10, USERS), 0, 100)
    return {
        "job": draw.choice(JOBS, USERS, p=[0.5, 0.25, 0.15, 0.1]).tolist(),
        "age": age.tolist(),
        "income": income.tolist(),
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def tally_of(store: Path) -> PlanTally | None:
    with SqliteStore(store) as opened:
        return next(iter(opened.counted(1).tallies.values()), None)


def counted(store: Path) -> int:
    tally = tally_of(store)
    return 0 if tally is None else tally.reports


@pytest.mark.wide
def test_two_thousand_reports_through_the_collector_and_the_shuffler(browser, tmp_path, capsys):
    """Half of them sealed; collector and shuffler are killed and started in between, and the network goes and comes."""
    plan, table, store = small_plan(), population(), tmp_path / "store"
    rows = [{name: column[row] for name, column in table.items()} for row in range(USERS)]
    parts = [rows[:400], rows[400:700], rows[700:1000], rows[1000:1500], rows[1500:]]
    each = sum(map(len, plan.randomize({name: column[:1] for name, column in table.items()}).values()))
    with_key(store)
    other = f"http://127.0.0.1:{free_port()}"
    collector = started(store, plan, options=("--shuffler", other))
    port = collector.port
    shuffler = shuffler_started(
        tmp_path / "shuffler", collector, BATCH, int(other.rpartition(":")[2]), "--origin", f"http://127.0.0.1:{port}"
    )
    token = (store / "analyst.token").read_text().strip()
    try:
        with Watched(browser) as window, Watched(browser) as live:
            page = window.page
            live.enter(address_of(collector), token)
            page.goto(address_of(collector) + "join")
            page.evaluate(f"() => {{ {REPORT} }}")

            def going(some: list[dict[str, Any]], through: str | None = None) -> None:
                given = {"plan": plan.to_json(), "records": some, **({"shuffler": through} if through else {})}
                page.evaluate("given => { globalThis.done = report(given); }", given)

            def finished() -> dict[str, int]:
                return page.evaluate("done")

            going(parts[0])
            assert finished() == {"accepted": 400 * each, "pending": 0, "refused": 0, "duplicates": 0}
            going(parts[1])
            collector.kill()
            ended(collector)
            collector = started(store, options=("--port", str(port), "--shuffler", other))
            found = finished()
            assert (found["accepted"], found["pending"], found["refused"]) == (300 * each, 0, 0)
            window.context.set_offline(True)
            going(parts[2])
            page.wait_for_timeout(500)
            window.context.set_offline(False)
            found = finished()
            assert (found["accepted"], found["pending"], found["refused"]) == (300 * each, 0, 0)
            going(parts[3], other)
            assert finished() == {"accepted": 500 * each, "pending": 0, "refused": 0, "duplicates": 0}
            shuffler.kill()
            ended(shuffler)
            shuffler = shuffler_started(
                tmp_path / "shuffler", collector, BATCH, shuffler.port, "--origin", f"http://127.0.0.1:{port}"
            )
            going(parts[4], other)
            assert finished() == {"accepted": 500 * each, "pending": 0, "refused": 0, "duplicates": 0}
            waited_for(lambda: figures_of(tmp_path / "shuffler", plan).on_their_way == 0)
            waited_for(lambda: counted(store) == USERS * each)
            shows(live.page, USERS * each)
            live.page.wait_for_selector('[data-part="promise"]:has-text("2 batches of 1,000 users")')
            tally = tally_of(store)
            assert tally is not None
            estimates = plan.estimate(tally)
            shown = live.page.inner_text("#view")
            for question in estimates:
                assert question in shown
            window.sound()
            live.sound()
    finally:
        for process in (shuffler, collector):
            ended(process)
    known = truths(plan, [table])
    numbers = sum(truth.size for truth in known.values())
    for question, truth in known.items():
        low, high = estimates.single(question).interval(1 - FALSE_ALARM / numbers)
        assert (np.ravel(low) <= truth).all(), question
        assert (truth <= np.ravel(high)).all(), question
    assert plan.goodness(tally, FALSE_ALARM).passed
    with capsys.disabled():
        print(f"\n{tally.reports:,} reports of {USERS:,} users from a browser, half of them sealed: counted once each")


# The page for participants --------------------------------------------------------------------------------------------


def filled(page: Any) -> None:
    """Somebody's answers."""
    page.fill("[id='field-age']", "41")
    page.fill("[id='field-income']", "52000")
    page.select_option("[id='field-job']", label="nurse")
    page.select_option("[id='field-films-key-0']", label="Brazil")
    page.fill("[id='field-films-value-0']", "4")


def shown_bytes(page: Any) -> bytes:
    return bytes.fromhex(page.inner_text("#dump"))


@pytest.fixture(scope="module")
def plan() -> dither.Plan:
    return rich_plan()


@pytest.fixture
def served(tmp_path, plan) -> Iterator[Served]:
    with serving(tmp_path / "store", plan) as found:
        yield found


def test_what_is_shown_is_what_is_sent_to_the_byte_and_once(browser, served, plan, tmp_path):
    with Watched(browser) as window:
        page, sent = window.page, list[bytes]()
        page.on("request", lambda request: sent.append(request.post_data_buffer) if request.method == "POST" else None)
        page.goto(address_of(served) + "join")
        for words in ("What is asked", "What is sent", "What it reveals at most", "Whom it depends on"):
            assert words in page.inner_text("#join")
        filled(page)
        page.click("#make")
        page.wait_for_selector("#report:not([hidden])")
        assert sent == []  # nothing leaves before somebody says so
        shown = shown_bytes(page)
        (verdict,) = BatchFormat(plan).check(shown).verdicts.tolist()
        assert verdict == 0
        cells = page.locator("#report-bytes .bytes").nth(0).locator("tbody td:first-child").all_inner_texts()
        assert bytes.fromhex(" ".join(cells)) == shown  # field by field, nothing is left out
        (part,) = [name for name, reports in plan.unpack(shown).items() if len(reports)]
        assert f"the randomized answer to {part}" in page.inner_text("#report-bytes")
        page.click("#send")
        page.wait_for_selector("#sent:has-text('counted once')")
        assert sent == [shown]
        page.reload()
        page.fill("[id='field-age']", "23")
        page.click("#make")
        page.wait_for_selector("#report:not([hidden])")
        assert shown_bytes(page) == shown  # another answer of the same browser tells nobody anything new
        page.click("#send")
        page.wait_for_selector("#sent:has-text('before')")
        assert sent == [shown]
        assert (faults(page), too_wide(page)) == ([], [])
        window.sound()
    waited_for(lambda: counted(tmp_path / "store") == 1)


@pytest.mark.wide
def test_a_report_waits_for_the_network_and_is_the_same_then(browser, served, tmp_path):
    with Watched(browser, 400) as window:
        page, sent = window.page, list[bytes]()
        page.goto(address_of(served) + "join")
        filled(page)
        page.click("#make")
        page.wait_for_selector("#report:not([hidden])")
        page.on("request", lambda request: sent.append(request.post_data_buffer) if request.method == "POST" else None)
        window.context.set_offline(True)
        page.click("#send")
        page.wait_for_selector("#sent:has-text('It waits in this browser')")
        window.context.set_offline(False)
        page.wait_for_selector("#sent:has-text('counted once')")
        assert len(sent) > 1
        assert set(sent) == {shown_bytes(page)}
        window.sound()
    waited_for(lambda: counted(tmp_path / "store") == 1)


def test_no_answer_is_an_answer_too_and_none_is_told_apart_on_the_way(browser, served, plan):
    """An empty form reports, and neither the console nor a request has anything that was typed in."""
    with Watched(browser) as window:
        page, said = window.page, list[str]()
        page.on("request", lambda request: said.append(request.url + json.dumps(request.headers)))
        page.on("console", lambda message: said.append(message.text))
        page.goto(address_of(served) + "join")
        page.fill("[id='field-income']", "1234567")  # beyond its range
        page.locator("#answers-form").evaluate("form => form.noValidate = true")
        page.click("#make")
        page.wait_for_selector("#report:not([hidden])")
        page.click("#send")
        page.wait_for_selector("#sent:has-text('counted once')")
        assert not any("1234567" in text for text in said)
        window.sound()


@pytest.mark.wide
def test_a_plan_for_a_crowd_goes_through_its_shuffler(browser, tmp_path):
    schema = dither.Schema({"job": dither.Categorical(JOBS)})
    plan, store = dither.plan(schema, central=1.0, delta=1e-6, users=1000, batch=50), tmp_path / "store"
    assert plan.crowd is not None
    with_key(store)
    other = f"http://127.0.0.1:{free_port()}"
    with serving(store, plan, options=("--shuffler", other)) as collector:
        shuffler = shuffler_started(
            tmp_path / "shuffler", collector, 50, int(other.rpartition(":")[2]), "--origin", address_of(collector)[:-1]
        )
        try:
            with Watched(browser) as window:
                page, posts = window.page, list[str]()
                page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
                page.goto(address_of(collector) + "join")
                page.select_option("[id='field-job']", label="driver")
                page.click("#make")
                page.wait_for_selector("#report:not([hidden])")
                assert "sealed before they leave" in page.inner_text("#report-told")
                page.click("#send")
                page.wait_for_selector("#sent:has-text('counted once')")
                assert [re.sub("/v1/.*", "", url) for url in posts] == [other]
                window.sound()
            assert figures_of(tmp_path / "shuffler", plan).waiting == 1
        finally:
            ended(shuffler)
